// A register tile: a block of results whose accumulators stay in registers
// during the loop over k.
//
// One operand, V, is read as vectors. The other one, S, is read as scalars:
// each is a lane of a vector register. Usually S is A and V is B:
//
//          V: cols elements, nv vectors
//         [ v0 ][ v1 ][ v2 ]
//   S  s0 [    ][    ][    ]      acc(i, j) += v(j) * s(i)
//      s1 [    ][    ][    ]
//
// The lanes of a vector of S are either consecutive k of one row (S has rows of
// k: one vector serves `lanes` steps of k), or consecutive rows of the tile (S
// has rows of m: one vector serves `lanes` rows of one step). If the columns
// are not a multiple of the lanes, the last vector of a row overlaps the one
// before it; only rows shorter than one vector are read as partial vectors.
#ifndef DV_JIT_TILE_H
#define DV_JIT_TILE_H
#include "jit/a64/gen.h"
#include "jit/gemm/prod.h"

// Emits the loop over k of a tile without its epilogue: the sums are left in
// the first vector registers.
void dv_tile_sums(dv_gen *g, const dv_prod *p, const dv_prod_tile *t);
// Emits one tile. The operand read as scalars (usually A) is at the address in
// register X_A, the operand read as vectors (usually B) at X_B and the results
// at X_C; these three registers are left unchanged.
void dv_tile_emit(dv_gen *g, const dv_prod *p, const dv_prod_tile *t);
// Returns the number of vector registers that a tile uses.
int dv_tile_regs(const dv_gen *g, const dv_prod *p, const dv_prod_tile *t);
// Emits the epilogue of a tile: add C and the bias, ReLU, store. `free` is the
// number of the first unused vector register.
void dv_tile_store(dv_gen *g, const dv_prod *p, const dv_prod_tile *t,
                   int free);
// The epilogue of one row, emitted while later rows are still being computed.
// dv_tile_finish_row makes X_CRUN point to row i of C, adds C to the row's sums
// and applies ReLU, using the `free` registers, of which the first holds 0 if
// there is a ReLU. dv_tile_store_one then stores vector j of the row.
typedef struct dv_tile_free {
    int n, reg[8];
} dv_tile_free;
void dv_tile_finish_row(dv_gen *g, const dv_prod *p, const dv_prod_tile *t,
                        int i, const dv_tile_free *free);
void dv_tile_store_one(dv_gen *g, const dv_prod_tile *t, int i, int j);
// Returns how many rows the stores lag behind the multiply-adds of the last
// step: two with ReLU, because a store then has to wait for its clamped sums.
static inline int dv_tile_store_lag(const dv_prod *p)
{
    return p->relu ? 2 : 1;
}
// Prefetches the row at the address in register X_NEXT, which the next kernel
// reads, and advances X_NEXT to the row after it (prefetch.c).
void dv_tile_prefetch_next(dv_gen *g, const dv_prod *p, const dv_prod_tile *t);
void dv_tile_prefetch_s(dv_gen *g, const dv_prod *p, int base, int64_t off,
                        int step);
// dv_tile_copy_next copies a part of one row of the next kernel's A: the share
// of step `step` of `steps`. dv_tile_copy_advance, emitted after all these
// steps, advances the pointers to the next row.
void dv_tile_copy_next(dv_gen *g, const dv_prod *p, int step, int steps);
void dv_tile_copy_advance(dv_gen *g, const dv_prod *p);
// Prefetches the cache lines of C that the tile will store to.
void dv_tile_prefetch_c(dv_gen *g, const dv_prod *p, const dv_prod_tile *t);

// Returns the byte offset of vector j within a row of the tile. The last vector
// ends at the last column and may overlap the one before it.
static inline int64_t dv_tile_off(const dv_gen *g, const dv_prod_tile *t, int j)
{
    int last = j == t->nv - 1 && t->cols >= g->lanes;
    return last ? (int64_t)(t->cols - g->lanes) * g->es : 16 * (int64_t)j;
}

static inline int dv_tile_bytes(const dv_gen *g, const dv_prod_tile *t)
{
    return t->cols < g->lanes ? t->cols * g->es : 16;
}

static inline int dv_tile_acc(const dv_prod_tile *t, int set, int i, int j)
{
    return dv_gen_reg((set * t->rows + i) * t->nv + j);
}

// Adds a stride to a pointer register. `reg` holds the stride if it does not
// fit an immediate.
static inline void dv_tile_step(dv_gen *g, int rd, int64_t bytes, int reg)
{
    if (dv_gen_fits_add(bytes))
        dv_gen_add(g, rd, rd, bytes);
    else
        DV_E(add_x, rd, rd, reg, 0);
}
#endif
