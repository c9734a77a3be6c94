// One register tile: a block of results that stays in registers during the loop
// over k.
//
// One operand is read as vectors (V); of the other one (S) each scalar is
// broadcast to all lanes. Usually S is A and V is B:
//
//          V: nv vectors, the last one may be partial
//         [ v0 ][ v1 ][ v2 ]
//   S  s0 [    ][    ][    ]      acc(i, j) += v(j) * s(i)
//      s1 [    ][    ][    ]
//
// Every element of S and V is at a constant offset from a running pointer, for
// any layout: rows of k elements, rows of m elements, or panels.
#ifndef DV_X64_TILE_H
#define DV_X64_TILE_H
#include "jit/x64/gen.h"

// The matrix product as the tile generator sees it. Strides are in bytes.
typedef struct dv_x_prod {
    int32_t n_s, n_v, k, batch;
    int64_t ld_s, ld_v, ldc;
    int64_t stride_s, stride_v;
    // The broadcast operand S is stored as rows of k elements; else as rows of
    // m.
    int lane_k;
    int panel;     // the broadcast operand S is packed in panels
    int tile_rows; // required height of tiles; 0: any height
    // C is transposed: the broadcast operand S runs along its rows.
    int c_turned;
    int one_sum; // every result is one chain of additions, no partial sums
    // The broadcast operand S is packed into panels while it is read.
    int pack_s;
    // The vector operand V is packed with this row stride while it is read; 0:
    // it is not.
    int64_t pack_v;
    int bias; // 0: none, 1: along the broadcast operand S, 2: along V
    int alpha, beta, relu;
    int stream; // C is written with non-temporal stores
    // A step of k is too far for a displacement: the pointers are advanced
    // instead.
    int far_s, far_v;
} dv_x_prod;

typedef struct dv_x_tile {
    // Elements of the broadcast operand S and the vector operand V.
    int rows, cols;
    int nv; // number of vectors of the vector operand V
    // Sets of accumulators: step k of the sum uses set k % sets, and the sets
    // are added at the end.
    int sets;
} dv_x_tile;

static inline int dv_x_part(const dv_x *g, const dv_x_tile *t)
{
    return t->cols & (g->lanes - 1); // lanes is a power of two
}

static inline int dv_x_acc(const dv_x_tile *t, int set, int i, int j)
{
    return (set * t->rows + i) * t->nv + j;
}

// Does vector j of the tile have fewer elements than lanes?
static inline int dv_x_is_part(const dv_x *g, const dv_x_tile *t, int j)
{
    return j + 1 == t->nv && dv_x_part(g, t);
}

// Are there enough registers for the tile, and do all displacements fit?
int dv_x_tile_fits(const dv_x *g, const dv_x_prod *p, const dv_x_tile *t);
// Emits the code of one tile. X_A points to the broadcast operand S, X_B to the
// vector operand V, X_C to C; these registers are not changed.
void dv_x_tile_emit(dv_x *g, const dv_x_prod *p, const dv_x_tile *t);
// Emits the epilogue of a tile: adds C, scales, adds the bias, applies relu and
// stores. `free` is the first unused vector register.
void dv_x_tile_store(dv_x *g, const dv_x_prod *p, const dv_x_tile *t, int free);
// Emits a product of which A and B are both stored as rows of k (dot.c).
void dv_x_dot(dv_x *g, const dv_gemm_shape *s);
#endif
