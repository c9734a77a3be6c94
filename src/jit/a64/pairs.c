// Products of bf16 and i8. One matrix instruction multiplies two rows by two
// columns, eight bytes of k at a time:
//
//   rows     [ r0: k0 k1 k2 k3 | r1: k0 k1 k2 k3 ]
//   columns  [ c0: k0 k1 k2 k3 | c1: k0 k1 k2 k3 ]
//   acc      [ r0c0 r1c0 r0c1 r1c1 ]
//
// So operands are packed in pairs of rows or columns (dv_pairs_move), and a
// tile has 4 pairs of rows by 6 pairs of columns. At its end, two accumulators
// are rearranged into one vector of each of two rows; from there on it is a
// tile of f32 or i32. The instruction has a latency of six cycles, and four
// start per cycle: 24 accumulators hide the latency, which leaves 8 registers
// for operands.
#include "jit/a64/tile.h"

enum { ROWS = 8, STEP_BYTES = 8, UNIT = 4 }; // UNIT: columns per vector of C
enum { AHEAD = 4 }; // prefetch distance in steps of 8 bytes of k

// Rearranges pairs of accumulators, each with the 2 x 2 results of a matrix
// instruction, into vectors of rows, in place.
static void split_rows(dv_gen *g, const dv_prod_tile *t)
{
    int half = t->nv / 2, tmp[6];
    for (int i = 0; i < t->rows; i++) {
        for (int j = 0; j < t->nv; j++)
            tmp[j] = dv_gen_reg(t->rows * t->nv + j);
        for (int j = 0; j < half; j++) {
            int a = dv_tile_acc(t, 0, i, 2 * j);
            int b = dv_tile_acc(t, 0, i, 2 * j + 1);
            DV_E(uzp1_4s, tmp[j], a, b, 0);
            DV_E(uzp2_4s, tmp[half + j], a, b, 0);
        }
        for (int j = 0; j < t->nv; j++)
            DV_E(mov_v, dv_tile_acc(t, 0, i, j), tmp[j], tmp[j], 0);
    }
}

// Emits the code of a register tile of `rows` rows of C, whose part of A is at
// X_A and whose part of C is at X_C.
static void tile(dv_gen *g, dv_prod *p, int rows)
{
    int pairs = (rows + 1) / 2, units = (p->n_v + UNIT - 1) / UNIT;
    dv_prod_tile sums = {pairs, 8 * units, 2 * units, 1};
    dv_prod_tile out = {rows, p->n_v, units, 1};
    p->ld_s = pairs * 16;
    p->ld_v = units * 32;
    dv_tile_prefetch_c(g, p, &out);
    dv_tile_sums(g, p, &sums);
    split_rows(g, &sums);
    dv_tile_store(g, p, &out, 2 * pairs * units);
}

// Emits what one of `tiles` tiles contributes to prefetching the panel of
// columns that the next kernel reads.
static void prefetch_for_next(dv_gen *g, const dv_prod *p, int tiles)
{
    int64_t bytes = (p->n_v + UNIT - 1) / UNIT * 32 * (int64_t)p->k;
    int64_t share = (bytes / LINE + tiles - 1) / tiles;
    for (int64_t i = 0; i < share; i++)
        DV_E(prfm, LOAD_L2, X_NEXT, i * LINE, 0);
    dv_gen_add(g, X_NEXT, X_NEXT, share * LINE);
}

void dv_pairs_gemm(dv_gen *g, const dv_gemm_shape *s)
{
    int many = s->m / ROWS, rest = s->m % ROWS;
    int step = s->dtype == DV_I8 ? STEP_BYTES : STEP_BYTES / 2;
    dv_prod p = dv_prod_of(s, 4, UNIT);
    p.k = (s->k + step - 1) / step;
    p.pairs = 1;
    p.lane_k = 0;
    g->n_vregs = 32;
    g->saves_x = 1;
    dv_gen_enter(g);
    if (!dv_gen_fits_add(p.ldc))
        dv_gen_mov(g, X_LDC, p.ldc);
    if (p.bias)
        DV_E(ldr_x, X_BIAS, X_ARGS, offsetof(dv_gemm_args, bias), 0);
    if (s->next_b && many > 1) {
        dv_gen_mov(g, X_NEXT, (p.n_v + UNIT - 1) / UNIT * 32 * (int64_t)p.k);
        DV_E(add_x, X_NEXT, X_NEXT, X_B, 0);
    }
    DV_LOOP(X_M, many) {
        if (s->next_b && many > 1)
            prefetch_for_next(g, &p, many);
        tile(g, &p, ROWS);
        dv_gen_add(g, X_A, X_A, (int64_t)p.k * ROWS / 2 * 16);
        dv_gen_add(g, X_C, X_C, ROWS * p.ldc);
        if (p.bias == 1)
            dv_gen_add(g, X_BIAS, X_BIAS, ROWS * 4);
    }
    if (rest)
        tile(g, &p, rest);
    dv_gen_leave(g);
}

// x4 (X_LINE) points to line 0 of the source (a row or column of the product),
// the registers after it to the other lines.
enum { X_Q = 2, X_LDS = 3, X_LINE = 4, X_FAR = 14 };

// An operand to pack: n lines (rows or columns of the product) along k. Each
// packed vector holds two lines.
typedef struct lines {
    int n, es;
    // 1: lines (rows or columns of the product) are packed in fours; if their
    // number is not a multiple of four, the last four overlap the ones before
    // them.
    int overlap;
    int pairs; // vectors per step of eight bytes of k
} lines;

static lines lines_of(const dv_move_shape *s, int n)
{
    int es = s->dtype == DV_I8 ? 1 : 2;
    int pairs = s->overlap ? (n + UNIT - 1) / UNIT * 2 : (n + 1) / 2;
    return (lines){n, es, s->overlap, pairs};
}

// Returns which line of the source (a row or column of the product) becomes
// packed line i; a result of n or more means a line of zeros.
static int line(const lines *w, int i)
{
    int first = i / UNIT * UNIT;
    if (w->overlap && w->n >= UNIT && first + UNIT > w->n)
        return w->n - UNIT + i - first;
    return i;
}

// Packs `bytes` (at most 16) of k of all lines (rows or columns of the
// product), if lines are rows of the source. 16 bytes of k give two vectors per
// pair of lines.
static void lines_step(dv_gen *g, const lines *w, int bytes)
{
    int pairs = w->pairs, two = bytes > STEP_BYTES;
    for (int i = 0; i < 2 * pairs; i++) {
        int from = line(w, i), v = dv_gen_reg(i);
        if (from < w->n)
            dv_gen_load(g, v, X_LINE + from, 0, bytes);
        else
            DV_E(movi_0, v, 0, 0, 0);
    }
    for (int i = 0; i < pairs; i++) {
        int a = dv_gen_reg(2 * i), b = dv_gen_reg(2 * i + 1);
        int lo = dv_gen_reg(12 + i), hi = dv_gen_reg(18 + i);
        DV_E(trn1_2d, lo, a, b, 0);
        DV_E(trn2_2d, hi, a, b, 0);
        dv_gen_store(g, lo, X_DST, 16 * i, 16);
        if (two)
            dv_gen_store(g, hi, X_DST, 16 * (pairs + i), 16);
    }
    dv_gen_add(g, X_DST, X_DST, (two ? 2 : 1) * 16 * pairs);
    for (int i = 0; i < w->n; i++)
        dv_gen_add(g, X_LINE + i, X_LINE + i, 16);
}

static void pack_lines(dv_gen *g, const dv_move_shape *s)
{
    lines w = lines_of(s, s->rows);
    int64_t bytes = (int64_t)s->cols * w.es;
    for (int i = 0; i < w.n; i++)
        dv_gen_add(g, X_LINE + i, X_SRC, i * s->lds * w.es);
    DV_LOOP(X_Q, bytes / 16)
        lines_step(g, &w, 16);
    if (bytes % 16)
        lines_step(g, &w, (int)(bytes % 16));
}

// Transposes rows of k that are held in registers 0 and up (four rows, for i8
// eight), each with elements of n lines (4 or 8 rows or columns of the
// product), into pairs of lines, and stores these as the packed vectors from
// number `to` on.
static void turn(dv_gen *g, const lines *w, int n, int to)
{
    int r[4] = {0, 1, 2, 3}, two = n > UNIT;
    for (int i = 0; w->es == 1 && i < 4; i++) {
        r[i] = 16 + i;
        DV_E(zip1_16b, r[i], 2 * i, 2 * i + 1, 0);
    }
    DV_E(zip1_8h, 20, r[0], r[1], 0);
    DV_E(zip1_8h, 21, r[2], r[3], 0);
    if (two) {
        DV_E(zip2_8h, 22, r[0], r[1], 0);
        DV_E(zip2_8h, 23, r[2], r[3], 0);
    }
    for (int i = 0; i < (two ? 4 : 2) && to + i < w->pairs; i++) {
        int a = 20 + i / 2 * 2;
        if (i % 2)
            DV_E(zip2_4s, 24 + i, a, a + 1, 0);
        else
            DV_E(zip1_4s, 24 + i, a, a + 1, 0);
        dv_gen_store(g, 24 + i, X_DST, 16 * (to + i), 16);
    }
}

// Packs one step (eight bytes along k of each line, a row or column of the
// product) if lines are columns of the source. It reads k source rows, at the
// pointers from X_LINE on; missing rows are zeros.
static void transposed_step(dv_gen *g, const lines *w, int k)
{
    int step = STEP_BYTES / w->es, n_lines = w->overlap ? 2 * w->pairs : w->n;
    for (int i = 0; i < n_lines;) {
        int from = line(w, i), n = w->n - from;
        int most = i + UNIT < n_lines && line(w, i + UNIT) == from + UNIT
                       ? 2 * UNIT
                       : UNIT;
        n = n < most ? n : most;
        for (int j = 0; j < step; j++)
            if (j < k)
                dv_gen_load(g, j, X_LINE + j, from * w->es, n * w->es);
            else
                DV_E(movi_0, j, 0, 0, 0);
        turn(g, w, most, i / 2);
        i += most;
    }
    // Later rows are prefetched, because the hardware prefetcher does not
    // detect rows that are far apart.
    for (int j = 0; j < step; j++) {
        DV_E(prfm_r, LOAD_L1, X_LINE + j, X_FAR, 0);
        DV_E(add_x, X_LINE + j, X_LINE + j, X_LDS, 0);
    }
    dv_gen_add(g, X_DST, X_DST, 16 * w->pairs);
}

static void pack_transposed(dv_gen *g, const dv_move_shape *s)
{
    lines w = lines_of(s, s->cols);
    int step = STEP_BYTES / w.es, many = s->rows / step, rest = s->rows % step;
    for (int j = 0; j < step; j++)
        dv_gen_add(g, X_LINE + j, X_SRC, j * s->lds * w.es);
    dv_gen_mov(g, X_LDS, step * s->lds * w.es);
    dv_gen_mov(g, X_FAR, AHEAD * step * s->lds * w.es + (w.n - 1) * w.es);
    DV_LOOP(X_Q, many)
        transposed_step(g, &w, step);
    if (rest)
        transposed_step(g, &w, rest);
}

void dv_pairs_move(dv_gen *g, const dv_move_shape *s)
{
    if (s->move == DV_MOVE_PAIRS)
        pack_lines(g, s);
    else
        pack_transposed(g, s);
    dv_gen_leave(g);
}
