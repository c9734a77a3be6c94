// A matrix product as the generators of register tiles see it, whatever the
// instruction set.
#ifndef DV_JIT_PROD_H
#define DV_JIT_PROD_H
#include "jit/jit.h"

// A product as register tiles compute it: each multiply-add takes one element
// of S, the operand read as scalars (usually A), and a vector of V, the operand
// read as vectors (usually B). The product has n_s rows, along S, and n_v
// columns, along V. Strides (ld_, stride_) are in bytes.
typedef struct dv_prod {
    int32_t n_s, n_v, k, batch;
    int64_t ld_s, ld_v, ldc;
    int64_t stride_s, stride_v;
    // 1: S, the operand read as scalars (usually A), is stored as rows of k
    // elements; 0: as rows of m.
    int lane_k;
    // 1: S, the operand read as scalars (usually A), is packed in panels.
    int panel;
    // 1: B is read as scalars and A as vectors, so that a tile is a transposed
    // block of C, which is transposed again when it is stored.
    int c_transposed;
    // 1: matrix instructions are used, for which a vector holds two rows or two
    // columns (a64/pairs.c).
    int pairs;
    int tile_rows; // prescribed number of rows of a tile; 0: any number
    int one_sum;   // 1: no partial sums, one accumulator per element of C
    // 1: S, the operand read as scalars (usually A), is packed into panels
    // while it is read.
    int pack_s;
    // Bytes per row of the packed copy of V, the operand read as vectors
    // (usually B), that is written while V is read; 0: V is not packed.
    int64_t pack_v;
    // The bias: 0: none, 1: one value per row of the tile, 2: one value per
    // column of the tile.
    int bias;
    int beta, relu;
    // The fields below are for x86-64 only.
    int stream; // 1: C is written with non-temporal stores
    // 1: two steps of k in the operand read as scalars (far_s) or in the one
    // read as vectors (far_v) are too far apart for the displacement of an
    // address, so the pointer is advanced instead.
    int far_s, far_v;
    // Cache lines at X_NEXT that a tile prefetches for the next kernel, spread
    // over its steps of k; 0: none.
    int next_lines;
    // The fields below are for AArch64 only. Number of steps of k (1, 2, 4 or
    // 8) between two prefetches of rows of the block that the next kernel
    // packs; 0: no such prefetches. These rows are prefetch_step bytes apart.
    int prefetch_every;
    int64_t prefetch_step;
    // 1: each step of k also prefetches the cache line that follows the
    // elements which it reads of S, the operand read as scalars (usually A).
    int prefetch_s;
    // Number of rows of the next kernel's A that each tile copies
    // (a64/prefetch.c); 0: none.
    int copy_steps;
    int64_t step_c; // bytes in C from tile to tile; 0: tiles are adjacent
} dv_prod;

typedef struct dv_prod_tile {
    // Rows of the tile, along the operand read as scalars (usually A), and
    // columns, along the operand read as vectors (usually B).
    int rows, cols;
    int nv; // vectors per row of the tile
    // Number of sets of accumulators: step k adds to set k % sets, and the sets
    // are added up at the end. Several sets give more independent chains.
    int sets;
} dv_prod_tile;

// Describes the product of a shape whose elements of C have `es` bytes, `lanes`
// of them in a vector. The fields that only one family of instruction sets has
// are 0.
dv_prod dv_prod_of(const dv_gemm_shape *s, int es, int lanes);
// Returns the product with its batch merged into k, if the operands of the
// batch follow each other in memory; else the product itself.
dv_prod dv_prod_joined(const dv_prod *p);
#endif
