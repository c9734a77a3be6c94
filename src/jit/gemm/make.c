// Generates the kernels of a plan: matrix products for every kind of chunk of
// k, block of rows and panel of B, and the moves that pack operands before use.
#include "jit/gemm/plan.h"

typedef struct maker {
    dv_gemm_plan *plan;
    dv_jit *jit;
    dv_diag *diag;
} maker;

static void push(dv_gemm_plan *p, int64_t size, int64_t n)
{
    if (n > 0 && size > 0)
        p->cols[p->n_cols++] = (dv_panels){(int32_t)size, (int32_t)n};
}

// Cuts the columns of C into panels of B. Panels are whole vectors wide and
// nearly equal; columns that fill no whole vector go into the last panel, which
// is one of the widest.
static void cut_cols(dv_gemm_plan *p)
{
    int64_t lanes = p->lanes, n = p->s.n;
    dv_cut c = dv_cut_even((int32_t)dv_ceil_div(n, lanes), p->vectors);
    int64_t size = c.size * lanes, left = n % lanes;
    int64_t low = c.n - (left && !c.n_larger);
    int64_t high = c.n_larger - (left && c.n_larger);
    // Wider panels come first: the kernel of the first panel of B also packs A,
    // and with more columns it has more multiply-adds per packed element.
    push(p, size + lanes, high);
    push(p, size, low);
    push(p, left ? n - low * size - high * (size + lanes) : 0, 1);
}

// Generates the move (a copying kernel) that packs a panel of bf16 or i8 for
// matrix instructions: `lines` lines of k elements, which are rows of the
// source or, if `transposed`, its columns.
static dv_status make_pairs(maker *w, int64_t lds, int32_t lines, int32_t k,
                            int transposed, int overlap, dv_move_fn *out)
{
    dv_move_shape v = {.lds = lds, .dtype = w->plan->s.dtype};
    v.rows = transposed ? k : lines;
    v.cols = transposed ? lines : k;
    v.move = transposed ? DV_MOVE_PAIRS_TRANSPOSED : DV_MOVE_PAIRS;
    v.overlap = (uint8_t)overlap;
    return dv_jit_move(w->jit, &v, out, w->diag);
}

// Generates the move (a copying kernel) that packs a panel of `cols` columns of
// B before it is multiplied.
static dv_status make_b(maker *w, int32_t cols, int32_t k, dv_move_fn *out)
{
    const dv_gemm_shape *s = &w->plan->s;
    if (w->plan->pairs)
        return make_pairs(w, s->ldb, cols, k, !s->trans_b, 1, out);
    dv_move_shape v = {.lds = s->ldb, .ldd = dv_gemm_ldb(w->plan, cols)};
    v.rows = cols;
    v.cols = k;
    v.dtype = s->dtype;
    v.move = DV_MOVE_TRANSPOSE;
    return dv_jit_move(w->jit, &v, out, w->diag);
}

// For a C of a narrow type: generates the move (a copying kernel) that rounds
// block number `row` of the rows of C from the buffer of accumulators into C.
static dv_status make_c(maker *w, int32_t row)
{
    dv_gemm_plan *plan = w->plan;
    dv_move_shape v = {.dtype = (uint8_t)plan->out, .cols = plan->s.n};
    int block = dv_gemm_piece(plan->s.m, plan->mc, row, &v.rows);
    v.lds = dv_gemm_ldc(plan);
    v.ldd = plan->s.ldc;
    v.move = DV_MOVE_NARROW;
    return dv_jit_move(w->jit, &v, &plan->narrow_c[block], w->diag);
}

// Generates the kernel that multiplies block number `row` of the rows of A by a
// panel of B, in chunk i of k. Only the first chunk scales C by beta; only the
// last one adds the bias and applies relu.
static dv_status make_mul(maker *w, int32_t i, int32_t row, int col,
                          dv_gemm_packing way)
{
    dv_gemm_plan *plan = w->plan;
    dv_gemm_shape s = plan->s;
    int kind = dv_gemm_piece(plan->s.k, plan->kc, i, &s.k);
    int block = dv_gemm_piece(plan->s.m, plan->mc, row, &s.m);
    s.ctype = (uint8_t)(plan->rounds ? plan->out : 0);
    s.stream &= plan->kc >= plan->s.k && plan->out == plan->sum;
    s.n = plan->cols[col].size;
    s.panel_a = (uint8_t)plan->height;
    // The next A is not prefetched, because packed panels are read in order.
    s.ahead_a = DV_AHEAD_NONE;
    s.pack_a = way == DV_PACKS_A;
    s.lda = s.pack_a ? s.lda : 0;
    int given_b = plan->given & DV_GIVEN_B;
    s.pack_b = way != DV_PACKS_NONE && row == 0 && !s.trans_b && !given_b;
    s.ldb = s.pack_b ? s.ldb : dv_gemm_ldb(plan, s.n);
    s.ldc = dv_gemm_ldc(plan);
    s.next_b = given_b || (!plan->one_block && (row > 0 || !plan->pairs));
    s.trans_b = 0;
    s.trans_a = s.trans_a && !plan->pairs;
    if (i > 0)
        s.beta = DV_SCALE_ONE;
    if ((i + 1) * (int64_t)plan->kc < plan->s.k) {
        s.bias = DV_BIAS_NONE;
        s.relu = 0;
    }
    return dv_jit_gemm(w->jit, &s, &plan->kernels[kind][block][col][way],
                       w->diag);
}

// Generates the moves (copying kernels) that pack the panels of block number
// `row` of the rows of A before they are multiplied.
static dv_status make_rows(maker *w, int kind, int32_t k, int32_t row)
{
    dv_gemm_plan *plan = w->plan;
    const dv_gemm_shape *s = &plan->s;
    int32_t rows, block = dv_gemm_piece(plan->s.m, plan->mc, row, &rows);
    dv_runs runs = dv_runs_whole(rows, plan->height);
    for (int j = 0; j < runs.n; j++)
        DV_TRY(make_pairs(w, s->lda, runs.size[j], k, s->trans_a, 0,
                          &plan->pack_a[kind][block][j]));
    return DV_OK;
}

// Generates the packing variants of one kernel: the first panel of B in a
// chunk of columns packs A, and in the first block of rows
// every panel packs B, unless separate moves pack the operands before use, or
// they are given packed.
static dv_status make_packing_variants(maker *w, int32_t i, int32_t row,
                                       int col)
{
    const dv_gemm_plan *plan = w->plan;
    int packs_b = row == 0 && !plan->pairs && !plan->s.trans_b &&
                  !(plan->given & DV_GIVEN_B);
    int packs_a = (col == 0 || plan->nc < plan->s.n) && !plan->pairs &&
                  !(plan->given & DV_GIVEN_A);
    DV_TRY(make_mul(w, i, row, col, packs_b ? DV_PACKS_B : DV_PACKS_NONE));
    return packs_a ? make_mul(w, i, row, col, DV_PACKS_A) : DV_OK;
}

static dv_status make_chunk(maker *w, int32_t i)
{
    dv_gemm_plan *plan = w->plan;
    int32_t k, kind = dv_gemm_piece(plan->s.k, plan->kc, i, &k);
    int32_t blocks = (int32_t)dv_ceil_div(plan->s.m, plan->mc);
    for (int col = 0; col < plan->n_cols; col++) {
        if (plan->pairs || plan->s.trans_b)
            DV_TRY(
                make_b(w, plan->cols[col].size, k, &plan->pack_b[kind][col]));
        for (int32_t row = 0; row < blocks;
             row = dv_gemm_next_kind(row, blocks))
            DV_TRY(make_packing_variants(w, i, row, col));
    }
    for (int32_t row = 0; row < blocks; row = dv_gemm_next_kind(row, blocks)) {
        if (plan->pairs)
            DV_TRY(make_rows(w, kind, k, row));
        if (plan->out != plan->sum)
            DV_TRY(make_c(w, row));
    }
    return DV_OK;
}

dv_status dv_gemm_make_kernels(dv_gemm_plan *plan, dv_jit *jit, dv_diag *diag)
{
    maker w = {plan, jit, diag};
    if (!plan->packs) {
        dv_gemm_shape s = plan->s;
        s.ctype = 0;
        return dv_jit_gemm(jit, &s, &plan->direct, diag);
    }
    cut_cols(plan);
    int32_t n = (int32_t)dv_ceil_div(plan->s.k, plan->kc);
    for (int32_t i = 0; i < n; i = dv_gemm_next_kind(i, n))
        DV_TRY(make_chunk(&w, i));
    for (int i = 0; i < plan->n_cols; i++)
        plan->b_chunk_bytes +=
            plan->cols[i].n *
            dv_gemm_b_bytes(plan, plan->cols[i].size, plan->kc);
    return dv_gemm_make_given(plan, jit, diag);
}
