// Tiles of dot products, for A and B stored as rows of k: some rows of A by 4
// rows of B (f64: 2), with one vector accumulator per result.
//
//   a0 [ k k k k ... ]     acc(i, j) += a(i) * b(j), lane by lane
//   b0 [ k k k k ... ]     C[i][0..4] = sums over the lanes of acc(i, 0..4)
//
// A remainder of k is read as partial vectors whose unused lanes are zero in
// both operands.
#include "jit/x64/tile.h"

enum { GROUP = 4 };

typedef struct dots {
    const dv_gemm_shape *s;
    int rows, cols;        // size of the current tile
    int64_t lda, ldb, ldc; // row strides in bytes
    // First registers of the accumulators and of the temporaries. The
    // horizontal adds of temporaries exist only for registers below 16.
    int acc, tmp;
    int most_rows, most_cols;
} dots;

#include "jit/gemm/dots.h"

static int acc_of(const dots *d, int i, int j)
{
    return d->acc + i * GROUP + j;
}

static void start(dots *d, dv_x *g)
{
    for (int i = 0; i < d->rows; i++)
        for (int j = 0; j < d->cols; j++)
            dv_x_zero(g, acc_of(d, i, j));
    DV_MOV(X_AT, X_A);
    DV_MOV(X_BT, X_B);
}

static void advance(dots *d, dv_x *g, int64_t a, int64_t b)
{
    (void)d;
    DV_ADD(X_AT, a);
    DV_ADD(X_BT, b);
}

// Emits the multiply-adds of the vector of k at byte offset `at` of the rows,
// for i32, whose products need a temporary register; step() does so for floats.
static void int_step(dots *d, dv_x *g, int64_t at)
{
    int a = d->tmp, t = d->tmp + 1;
    for (int i = 0; i < d->rows; i++) {
        dv_x_load(g, a, X_AT, i * d->lda + at, 0);
        for (int j = 0; j < d->cols; j++) {
            dv_x_vvm(g, DV_X_vmuli32, t, a, X_BT, j * d->ldb + at);
            dv_x_vvv(g, DV_X_vaddi32, acc_of(d, i, j), acc_of(d, i, j), t);
        }
    }
}

// Emits the multiply-adds of the last elements of k, which fill no whole
// vector. Registers hold one row of A and one of B at a time, because the mask
// takes a register on AVX2.
static void part_step(dots *d, dv_x *g, int64_t at)
{
    int a = d->tmp, b = d->tmp + 1;
    dv_x_set_tail_mask(g, d->s->k % g->lanes);
    for (int i = 0; i < d->rows; i++) {
        dv_x_load(g, a, X_AT, i * d->lda + at, 1);
        for (int j = 0; j < d->cols; j++) {
            dv_x_load(g, b, X_BT, j * d->ldb + at, 1);
            dv_x_mul_add(g, acc_of(d, i, j), a, b, b);
        }
    }
}

static void step(dots *d, dv_x *g, int64_t at, int n, int number)
{
    int b = d->tmp + d->rows;
    (void)number;
    if (n < g->lanes || g->ints) {
        if (n < g->lanes)
            part_step(d, g, at);
        else
            int_step(d, g, at);
        return;
    }
    for (int i = 0; i < d->rows; i++)
        dv_x_load(g, d->tmp + i, X_AT, i * d->lda + at, 0);
    for (int j = 0; j < d->cols; j++) {
        dv_x_load(g, b, X_BT, j * d->ldb + at, 0);
        for (int i = 0; i < d->rows; i++)
            dv_x_vvv(g, DV_XF(g, vfma), acc_of(d, i, j), d->tmp + i, b);
    }
}

static void extract(dv_x *g, dv_x_insn op, int vl, int to, int from)
{
    dv_x_emit(g->code, op, vl, from, 0, dv_x_reg(to), (dv_x_more){.imm = 1});
}

// Sums the lanes of the accumulators of row i into the first 16 bytes of
// register d->tmp.
static void sum_lanes(dots *d, dv_x *g, int i)
{
    int a[GROUP], t = d->tmp;
    // If there are fewer than GROUP columns, sum column 0 again in place of the
    // missing ones.
    for (int j = 0; j < GROUP; j++) {
        a[j] = acc_of(d, i, j < d->cols ? j : 0);
        if (!g->masks)
            continue;
        extract(g, DV_X_vextract256, 64, t + j, a[j]);
        dv_x_emit_3(g->code, DV_XI(g, vadd), 32, t + j, t + j, a[j]);
        a[j] = t + j;
    }
    dv_x_emit_3(g->code, DV_XI(g, vhadd), 32, t, a[0], a[1]);
    if (g->es == 4) {
        dv_x_emit_3(g->code, DV_XI(g, vhadd), 32, t + 1, a[2], a[3]);
        dv_x_emit_3(g->code, DV_XI(g, vhadd), 32, t, t, t + 1);
    }
    extract(g, DV_X_vextract128, 32, t + 1, t);
    dv_x_emit_3(g->code, DV_XI(g, vadd), 16, t, t, t + 1);
}

static void finish_row(dots *d, dv_x *g, int i)
{
    const dv_gemm_shape *s = d->s;
    int t = d->tmp, v = t + 1;
    int64_t off = i * d->ldc;
    sum_lanes(d, g, i);
    if (s->beta) {
        dv_x_load_n(g, v, X_C, off, 16, d->cols, v);
        dv_x_emit_3(g->code, DV_XI(g, vadd), 16, t, t, v);
    }
    if (s->bias == DV_BIAS_N)
        dv_x_load_n(g, v, X_BIAS, 0, 16, d->cols, v);
    if (s->bias == DV_BIAS_M)
        dv_x_broadcast(g, v, X_BIAS, (int64_t)i * g->es);
    if (s->bias)
        dv_x_emit_3(g->code, DV_XI(g, vadd), 16, t, t, v);
    if (s->relu)
        dv_x_clamp(g, 16, t, 1, v);
    dv_x_store_n(g, t, X_C, off, 16, d->cols, v);
}

// Chooses the tile size, so that the rows of a tile are within reach of 32-bit
// displacements.
static dots dots_of(const dv_x *g, const dv_gemm_shape *s)
{
    enum { FAR = 1 << 30 };
    dots d = {.s = s, .acc = g->masks ? 8 : 0, .tmp = g->masks ? 0 : 12};
    int64_t widest = s->lda > s->ldc ? s->lda : s->ldc, es = g->es;
    d.lda = s->lda * es;
    d.ldb = s->ldb * es;
    d.ldc = s->ldc * es;
    d.most_rows = widest * g->es * 6 > FAR ? 1 : g->masks ? 6 : 3;
    d.most_cols = s->ldb * g->es * GROUP > FAR ? 1 : 16 / g->es;
    return d;
}

void dv_x_dot(dv_x *g, const dv_gemm_shape *s)
{
    dots d = dots_of(g, s);
    dv_x_prologue(g, ~0u);
    across(&d, g);
    dv_x_epilogue(g);
}
