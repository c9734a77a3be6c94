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
#ifndef DV_STAGE_H
#define DV_STAGE_H
#include "strip/strip.h"

// A copy of the elements that some reads of an op reach.
typedef struct dv_stage_copy {
    const dv_access *access; // the first of the reads
    uint8_t *is_read;        // by read number: 1 if it reads the copy
    int32_t first_read;
    // In each dim: the least constant of the reads' indices, how far the
    // greatest is beyond it, and the stride of the copy in elements.
    int64_t base[DV_MAX_DIMS], spread[DV_MAX_DIMS], stride[DV_MAX_DIMS];
    const int64_t *shape; // of the tensor
    int64_t elem_bytes;
    int64_t off_bytes; // where the copy begins in the thread's memory
    unsigned char border[8];
} dv_stage_copy;

typedef struct dv_stage {
    dv_kernel kernel; // the op's, with the strides of the copies
    dv_stage_copy *copies;
    int32_t n_copies;
    int64_t block[DV_MAX_VARS]; // the size of a block along each variable
    int64_t bytes;              // of all copies
} dv_stage;

// Prepares the copies of an op whose tiles have these lengths along its
// variables. `most_bytes`: the op runs in blocks, so that the copies of a block
// take no more bytes if possible; 0: copies are of whole tiles. *out is NULL
// with 1 if the op has no borders or cannot be run with copies. Returns 0 when
// out of memory.
int dv_stage_create(dv_stage **out, const dv_program *p, const dv_kernel *k,
                    const int64_t *lens, int64_t most_bytes, dv_arena *arena);
// Makes the copies of the box begin..end in `memory`. Reads the tensors at
// from[read], their element 0, and sets at[read] to what takes their place.
void dv_stage_fill(const dv_stage *s, const int64_t *begin, const int64_t *end,
                   void *const *from, void *memory, void **at);
#endif
