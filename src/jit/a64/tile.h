// One register tile: a block of results that stays in registers while k runs.
//
// Of the two operands one is read as vectors (V), the other one scalar at a
// time, as a lane of a vector (S). Usually S is A and V is B:
//
//          V: cols elements, nv vectors
//         [ v0 ][ v1 ][ v2 ]
//   S  s0 [    ][    ][    ]      acc(i, j) += v(j) * s(i)
//      s1 [    ][    ][    ]
//
// S either has k in its lanes (rows of k: one vector feeds `lanes` steps of
// one row) or the tile's rows (rows of m: one vector feeds `lanes` rows of one
// step). The last vector of a row that is no multiple of the lanes overlaps
// the one before; only what is narrower than a vector is read in parts.
#ifndef DV_JIT_TILE_H
#define DV_JIT_TILE_H
#include "jit/a64/gen.h"

// The product as the generator sees it. Strides in bytes.
typedef struct dv_prod {
    int32_t n_s, n_v, k, batch;
    int64_t ld_s, ld_v, ldc;
    int64_t stride_s, stride_v;
    int lane_k;     // what the lanes of S are: k, or rows
    int panel;      // rows of a packed panel of S, lanes of k; 0: not packed
    int c_turned;   // S runs along C's rows: tiles are transposed when stored
    int pairs;      // two rows by two columns a vector: see pairs.c
    int tile_rows;  // how high tiles must be; 0: any height
    int one_sum;    // no partial sums
    int pack_s;     // S is stored in panels as it is read
    int64_t pack_v; // V is stored with such rows as it is read; 0: not
    int bias;       // 0 none, 1 along S, 2 along V
    int alpha, beta, relu;
    // Every so many steps (1, 2, 4 or 8) a row is asked for that is packed
    // after this product, `ask_step` behind the last; 0: none.
    int ask;
    int64_t ask_step;
    int ask_s;      // with each step, the line behind what is read of S
    int bring;      // so many rows of the next S come with each tile (ask.c)
    int64_t step_c; // from tile to tile in C; 0: rows follow
} dv_prod;

typedef struct dv_a64_tile {
    int rows, cols; // of S and V
    int nv;         // vectors of V
    int sets;       // partial sums, taken by k in turn; added at the end
} dv_a64_tile;

// Only the sums, in the first registers.
void dv_tile_sums(dv_gen *g, const dv_prod *p, const dv_a64_tile *t);
// Code for one tile at X_A (S), X_B (V), X_C; those three are left unchanged.
void dv_tile_emit(dv_gen *g, const dv_prod *p, const dv_a64_tile *t);
// Vector registers it takes.
int dv_tile_regs(const dv_gen *g, const dv_prod *p, const dv_a64_tile *t);
// Add, scale, bias, relu, store. `free` is the first unused vector register.
void dv_tile_store(dv_gen *g, const dv_prod *p, const dv_a64_tile *t, int free);
// Or row by row, while others are not done. Finish row i: go there, add C and
// clamp, with registers that are free, the first of which is 0 if it clamps.
// Then store vector j of it.
typedef struct dv_tile_free {
    int n, reg[8];
} dv_tile_free;
void dv_tile_finish_row(dv_gen *g, const dv_prod *p, const dv_a64_tile *t,
                        int i, const dv_tile_free *free);
void dv_tile_store_one(dv_gen *g, const dv_a64_tile *t, int i, int j);
// The same from words that are made once. 0: not all are one instruction.
typedef struct dv_tile_stores {
    uint32_t word[32]; // of a vector or two of row 0; 0: with the one before
    uint32_t two;      // bits: those that store two
} dv_tile_stores;
int dv_tile_stores_of(dv_gen *g, const dv_a64_tile *t, dv_tile_stores *out);
// How many rows that is behind the multiply-adds: two where stores wait for
// sums to be clamped.
static inline int dv_tile_behind(const dv_prod *p)
{
    return p->relu ? 2 : 1;
}
// Ask for a row at X_NEXT, and go on to the one behind it (ask.c); how many
// steps there are between two, so that so many tiles of them ask for all.
void dv_tile_ask(dv_gen *g, const dv_prod *p, const dv_a64_tile *t);
int dv_tile_ask_every(int tiles);
void dv_tile_ask_s(dv_gen *g, const dv_prod *p, int base, int64_t off,
                   int step);
// Bring a row of what is read next with `steps` of them, its part of one step;
// and go on to the next row, behind them.
void dv_tile_bring(dv_gen *g, const dv_prod *p, int step, int steps);
void dv_tile_bring_next(dv_gen *g, const dv_prod *p);
// Ask for the lines of C.
void dv_tile_prefetch(dv_gen *g, const dv_prod *p, const dv_a64_tile *t);

// Byte offset of vector j in a row of the tile, and how many bytes it has.
static inline int64_t dv_tile_off(const dv_gen *g, const dv_a64_tile *t, int j)
{
    int last = j == t->nv - 1 && t->cols >= g->lanes;
    return last ? (int64_t)(t->cols - g->lanes) * g->es : 16 * (int64_t)j;
}

static inline int dv_tile_bytes(const dv_gen *g, const dv_a64_tile *t)
{
    return t->cols < g->lanes ? t->cols * g->es : 16;
}

static inline int dv_tile_acc(const dv_a64_tile *t, int set, int i, int j)
{
    return dv_gen_reg((set * t->rows + i) * t->nv + j);
}

static inline void dv_tile_store_quick(dv_code *code, const dv_tile_stores *s,
                                       const dv_a64_tile *t, int i, int j)
{
    uint32_t base = i ? X_CRUN : X_C, first = (uint32_t)(i * t->nv + j);
    if (!s->word[j])
        return;
    uint32_t word = s->word[j] | base << 5 | (uint32_t)dv_gen_reg((int)first);
    if (s->two >> j & 1)
        word |= (uint32_t)dv_gen_reg((int)first + 1) << 10;
    dv_code_put(code, word);
}

// Add a stride that may not fit an immediate; `reg` holds it then.
static inline void dv_tile_step(dv_gen *g, int rd, int64_t bytes, int reg)
{
    if (dv_gen_fits_add(bytes))
        dv_gen_add(g, rd, rd, bytes);
    else
        DV_E(add_x, rd, rd, reg, 0);
}

// The word of that; 0: it is none.
static inline uint32_t dv_tile_step_word(int rd, int64_t bytes, int reg)
{
    int ok = 1;
    uint32_t w = 0;
    if (bytes > 0 && bytes < 4096)
        w = dv_insn_word(DV_INSN_addi_x, rd, rd, bytes, 0, &ok);
    else if (bytes > 0 && bytes % 4096 == 0 && dv_gen_fits_add(bytes))
        w = dv_insn_word(DV_INSN_addi12_x, rd, rd, bytes >> 12, 0, &ok);
    else if (!dv_gen_fits_add(bytes))
        w = dv_insn_word(DV_INSN_add_x, rd, rd, reg, 0, &ok);
    return ok ? w : 0;
}
#endif
