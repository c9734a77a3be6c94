// One register tile: a block of results that stays in registers while k runs.
//
// Of the two operands one is read as vectors (V), the other one scalar at a
// time, to all lanes (S). Usually S is A and V is B:
//
//          V: nv vectors, the last one perhaps a part
//         [ v0 ][ v1 ][ v2 ]
//   S  s0 [    ][    ][    ]      acc(i, j) += v(j) * s(i)
//      s1 [    ][    ][    ]
//
// Every place in S and V is a constant offset from a running pointer, whatever
// the layout: rows of k, rows of m, or panels.
#ifndef DV_X64_TILE_H
#define DV_X64_TILE_H
#include "jit/x64/gen.h"

// The product as the generator sees it. Strides in bytes.
typedef struct dv_x_prod {
    int32_t n_s, n_v, k, batch;
    int64_t ld_s, ld_v, ldc;
    int64_t stride_s, stride_v;
    int lane_k;     // S has rows of k; else rows of its own length
    int panel;      // S is packed in panels
    int tile_rows;  // how high tiles must be; 0: any height
    int c_turned;   // S runs along C's rows
    int one_sum;    // no partial sums
    int pack_s;     // S is stored in panels as it is read
    int64_t pack_v; // V is stored with such rows as it is read; 0: not
    int bias;       // 0 none, 1 along S, 2 along V
    int alpha, beta, relu;
    int stream;       // C is written around the caches
    int far_s, far_v; // steps of k too wide for offsets: pointers take them
} dv_x_prod;

typedef struct dv_x_tile {
    int rows, cols; // of S and V
    int nv;         // vectors of V
    int sets;       // partial sums, taken by k in turn; added at the end
} dv_x_tile;

static inline int dv_x_part(const dv_x *g, const dv_x_tile *t)
{
    return t->cols & (g->lanes - 1); // a power of two
}

static inline int dv_x_acc(const dv_x_tile *t, int set, int i, int j)
{
    return (set * t->rows + i) * t->nv + j;
}

// Is vector j of the tile a part?
static inline int dv_x_is_part(const dv_x *g, const dv_x_tile *t, int j)
{
    return j + 1 == t->nv && dv_x_part(g, t);
}

// Do the registers suffice, and offsets fit the encoding?
int dv_x_tile_fits(const dv_x *g, const dv_x_prod *p, const dv_x_tile *t);
// Code for one tile at X_A (S), X_B (V), X_C; those three are left unchanged.
void dv_x_tile_emit(dv_x *g, const dv_x_prod *p, const dv_x_tile *t);
// Add, scale, bias, relu, store. `free` is the first unused vector register.
void dv_x_tile_store(dv_x *g, const dv_x_prod *p, const dv_x_tile *t, int free);
// Products of rows of k with rows of k.
void dv_x_dot(dv_x *g, const dv_gemm_shape *s);
#endif
