// Copies of operands with a border. Vector kernels and products read plain
// boxes: before a tile, the elements that it reads with a border (x[i-1] else
// 0) are copied to a buffer of the thread, and the value outside of the tensor
// fills the rest of the buffer.
//
//   y[i,j] = sum[a,b] w[a,b] * x[i+a-1,j+b-1] else 0      tile 8 x 8
//   ->  10 x 10 elements, of which the edges are 0 where the tile is at an edge
//
// Reads of one tensor that differ by a few elements share a copy. For vector
// kernels a tile is computed in blocks whose copies stay in the L1 cache.
//
// Windows with a border whose rows are short run on whole images. Copies and
// results get rows of one pitch, so that one loop of the kernel covers an
// image; what it computes in the gaps between rows is not stored. If rows or
// columns are read with a step, there is a copy for each remainder, so that
// loads have unit stride:
//
//   y[c,i,j] = sum[a,b] w[c,a,b] * x[c,2*i+a-1,2*j+b-1] else 0     7 x 7
//   results
//   ->  even and odd columns of the even and of the odd rows of x, in rows of 8
//       elements; a and b choose the copy and where its elements begin; 55
//       results, of which 6 are in gaps
#ifndef DV_STAGE_H
#define DV_STAGE_H
#include "strip/strip.h"

// A copy of the elements that one or several nearby reads of an op access.
typedef struct dv_stage_copy {
    const dv_access *access; // the first of the reads
    uint8_t *is_read;        // by read number: 1 if it reads the copy
    int32_t first_read;
    // In each dim: the smallest constant term of the reads' indices, by how
    // much the largest exceeds it, and the stride of the copy in elements.
    int64_t base[DV_MAX_DIMS], spread[DV_MAX_DIMS], stride[DV_MAX_DIMS];
    // For images only: the number of copies (one for each remainder of the row
    // and of the column number by the read's step) along rows and columns, and
    // the rows and columns of each copy.
    int64_t row_phases, col_phases, rows, cols;
    const int64_t *shape; // of the tensor
    int64_t elem_bytes;
    int64_t off_bytes; // where the copy begins in the thread's memory
    unsigned char border[8];
} dv_stage_copy;

typedef struct dv_stage {
    dv_kernel kernel; // the op's, with the strides of the copies
    // If operands are copied as images: the variables of rows and columns (-1
    // if not), the op whose column variable runs over all points of an image,
    // and for each read the offsets of the window's points (NULL: its strides
    // say them).
    int row, col;
    dv_op image_op;
    const int64_t **points;
    int64_t pitch; // elements from row to row
    // Where results go: base and strides in the tensor, and strides in the
    // buffer from which they are copied there.
    dv_flat result;
    int64_t *result_step, result_bytes;
    dv_stage_copy *copies;
    int32_t n_copies;
    int64_t block[DV_MAX_VARS]; // the size of a block along each variable
    int64_t bytes;              // of all copies
} dv_stage;

// Prepares the operand copies of an op whose tiles have extents `lens` along
// its variables. If `most_bytes` is not 0, the op runs in blocks whose copies
// take at most that many bytes, if possible; otherwise whole tiles are copied.
// *out is NULL with 1 if the op has no borders or cannot use copies. Returns 0
// when out of memory.
int dv_stage_create(dv_stage **out, const dv_program *p, const dv_kernel *k,
                    const int64_t *lens, int64_t most_bytes, dv_arena *arena);
// Like dv_stage_create, but for windows whose operands are copied as whole
// images. *out is NULL if the op does not permit it.
int dv_stage_create_images(dv_stage **out, const dv_program *p,
                           const dv_kernel *k, const int64_t *lens,
                           int64_t most_bytes, dv_arena *arena);
// Returns whether copying whole images is faster than copying boxes for tiles
// with extents `lens`: reads have a border, so they are copied anyway, and rows
// are short.
int dv_stage_wants_images(const dv_stage *s, const int64_t *lens);
// Makes the copies for the box begin..end in `memory`. from[read] is element 0
// of the tensor; at[read] is set to the address that the kernel uses instead.
void dv_stage_fill(const dv_stage *s, const int64_t *begin, const int64_t *end,
                   void *const *from, void *memory, void **at);
// Changes the box *begin..*end, on which a kernel is to run, to that of
// `image_op` if the copies are images.
void dv_stage_box(const dv_stage *s, int64_t *begin, int64_t *end);
// Copies the results of images in a box to the tensor whose element 0 is at
// `to`; does nothing if copies are boxes.
void dv_stage_store(const dv_stage *s, const int64_t *begin, const int64_t *end,
                    const void *memory, void *to);
#endif
