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
    int lane_k;     // S is stored as rows of k elements; else as rows of m
    int panel;      // S is packed in panels
    int tile_rows;  // required height of tiles; 0: any height
    int c_turned;   // C is transposed: S runs along C's rows
    int one_sum;    // no partial sums: one chain of additions
    int pack_s;     // S is packed into panels while it is read
    int64_t pack_v; // V is packed with this row stride while it is read; 0: not
    int bias;       // 0 none, 1 along S, 2 along V
    int alpha, beta, relu;
    int stream; // C is written with non-temporal stores
    // A step of k is too far for a displacement: the pointers are advanced
    // instead.
    int far_s, far_v;
} dv_x_prod;

typedef struct dv_x_tile {
    int rows, cols; // elements of S and of V
    int nv;         // number of vectors of V
    int sets;       // sets of accumulators; step k uses set k % sets
} dv_x_tile;

static inline int dv_x_part(const dv_x *g, const dv_x_tile *t)
{
    return t->cols & (g->lanes - 1); // lanes is a power of two
}

static inline int dv_x_acc(const dv_x_tile *t, int set, int i, int j)
{
    return (set * t->rows + i) * t->nv + j;
}

// Is vector j of the tile a partial one?
static inline int dv_x_is_part(const dv_x *g, const dv_x_tile *t, int j)
{
    return j + 1 == t->nv && dv_x_part(g, t);
}

// Are there enough registers for the tile, and do all displacements fit?
int dv_x_tile_fits(const dv_x *g, const dv_x_prod *p, const dv_x_tile *t);
// Emits the code of one tile at X_A (S), X_B (V) and X_C, which it does not
// change.
void dv_x_tile_emit(dv_x *g, const dv_x_prod *p, const dv_x_tile *t);
// Emits the epilogue of a tile: adds C, scales, adds the bias, applies relu and
// stores. `free` is the first unused vector register.
void dv_x_tile_store(dv_x *g, const dv_x_prod *p, const dv_x_tile *t, int free);
// Emits a product of which A and B are both stored as rows of k (dot.c).
void dv_x_dot(dv_x *g, const dv_gemm_shape *s);
#endif
