// Tiles of dot products: 4 rows of A by 4 rows of B (f64: 2), with one
// accumulator vector per result.
//
//   a0 [ k k k k ]     acc(i, j) += a(i) * b(j), lane by lane
//   b0 [ k k k k ]     C[i][0..4] = pairwise sums of acc(i, 0..4)
//
// Pointers to the rows advance along k. If k is not a multiple of the lanes,
// the tail is loaded as a partial vector, whose other lanes are zero in both
// operands.
#include "jit/a64/gen.h"

// x4 to x7 point to rows of A, x8 to x11 to rows of B. V_A is the first
// register after the accumulators, for vectors of A and B.
enum { X_BROW = 8, V_A = 16 };

typedef struct dots {
    const dv_gemm_shape *s;
    int rows, cols; // rows and columns of the current tile
    int most_rows, most_cols;
} dots;

#include "jit/gemm/dots.h"

static int acc_of(int i, int j)
{
    return dv_gen_reg(i * 4 + j);
}

static void start(dots *d, dv_gen *g)
{
    for (int i = 0; i < d->rows; i++)
        dv_gen_add(g, X_ROW + i, X_A, i * d->s->lda * g->es);
    for (int j = 0; j < d->cols; j++)
        dv_gen_add(g, X_BROW + j, X_B, j * d->s->ldb * g->es);
    for (int i = 0; i < d->rows; i++)
        for (int j = 0; j < d->cols; j++)
            DV_E(movi_0, acc_of(i, j), 0, 0, 0);
}

// Even and odd steps use different registers, so that loads can overlap.
static void step(dots *d, dv_gen *g, int64_t at, int n, int i)
{
    int va = V_A + (i & 1) * 8, vb = va + 4, bytes = n * g->es;
    for (int j = 0; j < d->cols; j++)
        dv_gen_load(g, dv_gen_reg(vb + j), X_BROW + j, at, bytes);
    for (int r = 0; r < d->rows; r++) {
        dv_gen_load(g, dv_gen_reg(va + r), X_ROW + r, at, bytes);
        for (int j = 0; j < d->cols; j++)
            DV_EF(fmla_, acc_of(r, j), dv_gen_reg(va + r), dv_gen_reg(vb + j),
                  0);
    }
}

static void advance(dots *d, dv_gen *g, int64_t a, int64_t b)
{
    for (int i = 0; i < d->rows; i++)
        DV_ADD(X_ROW + i, a);
    for (int j = 0; j < d->cols; j++)
        DV_ADD(X_BROW + j, b);
}

// Adds up the lanes of each accumulator of row i. The sums, one per column,
// become the lanes of one vector, whose register is returned.
static int sum_lanes(dots *d, dv_gen *g, int i)
{
    int a[4];
    // If the tile has fewer than 4 columns, column 0 is summed again in place
    // of the missing ones; these sums are not stored.
    for (int j = 0; j < 4; j++)
        a[j] = acc_of(i, j < d->cols ? j : 0);
    int out = acc_of(i, 0);
    if (g->es == 8) {
        DV_E(faddp_2d, out, a[0], a[1], 0);
        return out;
    }
    int t = dv_gen_reg(V_A), u = dv_gen_reg(V_A + 1);
    DV_EF(faddp_, t, a[0], a[1], 0);
    DV_EF(faddp_, u, a[2], a[3], 0);
    DV_EF(faddp_, out, t, u, 0);
    return out;
}

static void finish_row(dots *d, dv_gen *g, int i)
{
    const dv_gemm_shape *s = d->s;
    if (i == 0)
        DV_MOV(X_CRUN, X_C);
    int sum = sum_lanes(d, g, i), bytes = d->cols * g->es;
    int v = dv_gen_reg(V_A + 2);
    if (s->beta) {
        dv_gen_load(g, v, X_CRUN, 0, bytes);
        DV_EF(fadd_, sum, sum, v, 0);
    }
    if (s->bias == DV_BIAS_N)
        dv_gen_load(g, v, X_BIAS, 0, bytes);
    if (s->bias == DV_BIAS_M) {
        dv_gen_add(g, X_TMP, X_BIAS, (int64_t)i * g->es);
        DV_EF(ld1r_, v, X_TMP, 0, 0);
    }
    if (s->bias)
        DV_EF(fadd_, sum, sum, v, 0);
    if (s->relu) {
        DV_E(movi_0, v, 0, 0, 0);
        DV_EF(fmax_, sum, sum, v, 0);
    }
    dv_gen_store(g, sum, X_CRUN, 0, bytes);
    dv_gen_add(g, X_CRUN, X_CRUN, s->ldc * g->es);
}

void dv_dot_emit(dv_gen *g, const dv_gemm_shape *s)
{
    dots d = {.s = s, .most_rows = 4, .most_cols = g->lanes};
    g->n_vregs = 32;
    g->saves_x = 1;
    dv_gen_enter(g);
    across(&d, g);
    dv_gen_leave(g);
}
