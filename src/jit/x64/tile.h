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
#include "jit/gemm/prod.h"
#include "jit/x64/gen.h"

static inline int dv_x_part(const dv_x *g, const dv_prod_tile *t)
{
    return t->cols & (g->lanes - 1); // lanes is a power of two
}

static inline int dv_x_acc(const dv_prod_tile *t, int set, int i, int j)
{
    return (set * t->rows + i) * t->nv + j;
}

// Does vector j of the tile have fewer elements than lanes?
static inline int dv_x_is_partial(const dv_x *g, const dv_prod_tile *t, int j)
{
    return j + 1 == t->nv && dv_x_part(g, t);
}

// Are there enough registers for the tile, and do all displacements of its
// operands fit an instruction?
int dv_x_tile_fits(const dv_x *g, const dv_prod *p, const dv_prod_tile *t);
// Returns whether a tile can spread the prefetches of `lines` cache lines for
// the next kernel over its steps of k.
int dv_x_tile_spreads(const dv_prod *p, const dv_prod_tile *t, int lines);
// Emits the code of one tile. Register X_A points to the operand whose elements
// are broadcast (usually A), X_B to the operand read as vectors (usually B),
// X_C to C; these registers are not changed.
void dv_x_tile_emit(dv_x *g, const dv_prod *p, const dv_prod_tile *t);
// Emits the epilogue of a tile: adds C and the bias, applies relu and stores.
// `free` is the first unused vector register.
void dv_x_tile_store(dv_x *g, const dv_prod *p, const dv_prod_tile *t,
                     int free);
// Applies relu to n registers of vl bytes from v on; overwrites `free`.
void dv_x_clamp(dv_x *g, int vl, int v, int n, int free);
// Emits a product of which A and B are both stored as rows of k (dot.c).
void dv_x_dot(dv_x *g, const dv_gemm_shape *s);
void dv_x_pack_narrow(dv_x *g, const dv_isa *isa, const dv_move_shape *s);
void dv_x_amx_gemm(dv_x *g, const dv_gemm_shape *s);
// Loads the AMX tile configuration for a product of `rows` by `cols` (up to 32
// each): C in tiles 0 to 3, A in 4 and 5, B in 6 and 7.
void dv_x_amx_config(dv_x *g, int rows, int cols);
#endif
