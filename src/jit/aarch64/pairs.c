// Products of bf16. One instruction multiplies two rows by two columns, four k
// at a time:
//
//   rows     [ r0: k0 k1 k2 k3 | r1: k0 k1 k2 k3 ]
//   columns  [ c0: k0 k1 k2 k3 | c1: k0 k1 k2 k3 ]     acc [ r0c0 r1c0 r0c1
//   r1c1 ]
//
// So operands are packed in pairs (dv_pairs_move), a tile is 4 pairs of rows by
// 4 pairs of columns, and at its end two accumulators become a vector of each
// of two rows: from there on it is a tile of f32.
#include "jit/aarch64/pairs.h"
#include "jit/aarch64/tile.h"

enum { ROWS = 8, COLS = 8, STEP = 4 };

// Pairs of accumulators into vectors of rows, in place.
static void part_rows(dv_gen *g, const dv_tile *t)
{
    int half = t->nv / 2, tmp[4];
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

// `rows` rows at X_A, X_C.
static void tile(dv_gen *g, dv_prod *p, int rows)
{
    int pairs = (rows + 1) / 2, nv = p->n_v > 4 ? 4 : 2;
    dv_tile sums = {pairs, nv * 4, nv, 1}, out = {rows, p->n_v, nv / 2, 1};
    p->ld_s = pairs * 16;
    p->ld_v = nv * 16;
    dv_tile_prefetch(g, p, &out);
    dv_tile_sums(g, p, &sums);
    part_rows(g, &sums);
    dv_tile_store(g, p, &out, pairs * nv);
}

void dv_pairs_gemm(dv_gen *g, const dv_gemm_shape *s)
{
    int many = s->m / ROWS, rest = s->m % ROWS;
    dv_prod p = {.n_s = s->m, .n_v = s->n, .batch = 1, .ldc = s->ldc * 4};
    p.k = (s->k + STEP - 1) / STEP;
    p.pairs = p.panel = 1;
    p.bias = s->bias;
    p.alpha = s->alpha;
    p.beta = s->beta;
    p.relu = s->relu;
    g->n_vregs = 32;
    g->saves_x = 1;
    dv_gen_enter(g);
    if (!dv_gen_fits_add(p.ldc))
        dv_gen_mov(g, X_LDC, p.ldc);
    if (p.bias)
        DV_E(ldr_x, X_BIAS, X_ARGS, offsetof(dv_gemm_args, bias), 0);
    if (many) {
        dv_gen_mov(g, X_M, many);
        size_t top = g->code->n;
        tile(g, &p, ROWS);
        dv_gen_add(g, X_A, X_A, (int64_t)p.k * ROWS / 2 * 16);
        dv_gen_add(g, X_C, X_C, ROWS * p.ldc);
        if (p.bias == 1)
            dv_gen_add(g, X_BIAS, X_BIAS, ROWS * 4);
        dv_gen_again(g, X_M, top);
    }
    if (rest)
        tile(g, &p, rest);
    dv_gen_leave(g);
}

// -- Packing -----------------------------------------------------------------

enum { X_SRC = 0, X_DST = 1, X_Q = 2, X_LDS = 3, X_LINE = 4 }; // lines x4 on

// The first `n` elements of 16 bits; the rest of the register is 0.
static void load_halves(dv_gen *g, int v, int base, int n)
{
    int done = n >= 8 ? 8 : n >= 4 ? 4 : n >= 2 ? 2 : 0;
    if (done)
        dv_gen_load(g, v, base, 0, 2 * done);
    else
        DV_E(movi_0, v, 0, 0, 0);
    for (; done < n; done++) {
        dv_gen_add(g, X_TMP, base, 2 * done);
        DV_E(ld1_h, v, X_TMP, done, 0);
    }
}

// Which line comes as number i: where the last four of five to seven overlap
// those before, as vectors of C do, they are the last four there are.
static int line(const dv_move_shape *s, int n, int i)
{
    return s->overlap && i >= 4 ? n - 8 + i : i;
}

// Lines of k, n of them: eight k at a time, two vectors for each pair.
static void lines_step(dv_gen *g, const dv_move_shape *s, int n, int k)
{
    int pairs = s->overlap ? (n > 4 ? 4 : 2) : (n + 1) / 2;
    for (int i = 0; i < 2 * pairs; i++) {
        int from = line(s, n, i);
        if (from < n)
            load_halves(g, i, X_LINE + from, k);
        else
            DV_E(movi_0, i, 0, 0, 0);
    }
    for (int i = 0; i < pairs; i++) {
        DV_E(trn1_2d, 16 + i, 2 * i, 2 * i + 1, 0);
        DV_E(trn2_2d, 20 + i, 2 * i, 2 * i + 1, 0);
        dv_gen_store(g, 16 + i, X_DST, 16 * i, 16);
        if (k > STEP)
            dv_gen_store(g, 20 + i, X_DST, 16 * (pairs + i), 16);
    }
    dv_gen_add(g, X_DST, X_DST, (k > STEP ? 2 : 1) * 16 * pairs);
    for (int i = 0; i < n; i++)
        dv_gen_add(g, X_LINE + i, X_LINE + i, 16);
}

static void pack_lines(dv_gen *g, const dv_move_shape *s)
{
    int many = s->cols / 8, rest = s->cols % 8;
    for (int i = 0; i < s->rows; i++)
        dv_gen_add(g, X_LINE + i, X_SRC, 2 * i * s->lds);
    if (many) {
        dv_gen_mov(g, X_Q, many);
        size_t top = g->code->n;
        lines_step(g, s, s->rows, 8);
        dv_gen_again(g, X_Q, top);
    }
    if (rest)
        lines_step(g, s, s->rows, rest);
}

// Four rows of k, n columns: turned in registers.
static void turned_step(dv_gen *g, const dv_move_shape *s, int n, int k)
{
    int pairs = s->overlap ? (n > 4 ? 4 : 2) : (n + 1) / 2;
    for (int i = 0; i < STEP; i++) {
        if (i >= k) {
            DV_E(movi_0, i, 0, 0, 0);
            continue;
        }
        load_halves(g, i, X_SRC, s->overlap && n > 4 && n < 8 ? 4 : n);
        if (s->overlap && n > 4 && n < 8) {
            dv_gen_add(g, X_TMP, X_SRC, 2 * (n - 4));
            DV_E(ld1_d, i, X_TMP, 1, 0);
        }
        DV_E(add_x, X_SRC, X_SRC, X_LDS, 0);
    }
    DV_E(zip1_8h, 4, 0, 1, 0);
    DV_E(zip2_8h, 5, 0, 1, 0);
    DV_E(zip1_8h, 6, 2, 3, 0);
    DV_E(zip2_8h, 7, 2, 3, 0);
    DV_E(zip1_4s, 16, 4, 6, 0);
    DV_E(zip2_4s, 17, 4, 6, 0);
    DV_E(zip1_4s, 18, 5, 7, 0);
    DV_E(zip2_4s, 19, 5, 7, 0);
    for (int i = 0; i < pairs; i++)
        dv_gen_store(g, 16 + i, X_DST, 16 * i, 16);
    dv_gen_add(g, X_DST, X_DST, 16 * pairs);
}

static void pack_turned(dv_gen *g, const dv_move_shape *s)
{
    int many = s->rows / STEP, rest = s->rows % STEP;
    dv_gen_mov(g, X_LDS, 2 * s->lds);
    if (many) {
        dv_gen_mov(g, X_Q, many);
        size_t top = g->code->n;
        turned_step(g, s, s->cols, STEP);
        dv_gen_again(g, X_Q, top);
    }
    if (rest)
        turned_step(g, s, s->cols, rest);
}

void dv_pairs_move(dv_gen *g, const dv_move_shape *s)
{
    if (s->move == DV_MOVE_PAIRS)
        pack_lines(g, s);
    else
        pack_turned(g, s);
    dv_gen_leave(g);
}
