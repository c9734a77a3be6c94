#include "harness/gemm_case.h"

static double at(unsigned dtype, const void *p, int64_t i)
{
    return dv_load((dv_dtype)dtype, p, i);
}

int64_t gemm_span(int64_t rows, int64_t cols, int64_t ld)
{
    return (rows - 1) * ld + cols;
}

unsigned gemm_type_sum(const dv_gemm_shape *s)
{
    return s->dtype == DV_BF16 || s->dtype == DV_F16 ? DV_F32
           : s->dtype == DV_I8                       ? DV_I32
                                                     : s->dtype;
}

unsigned gemm_type_c(const dv_gemm_shape *s)
{
    return s->ctype ? s->ctype : gemm_type_sum(s);
}

void gemm_fill(int dtype, void *p, int64_t n, int odd)
{
    int whole = !dv_is_float((dv_dtype)dtype);
    for (int64_t i = 0; i < n; i++) {
        double v = pick(2001) * 0.002 - 2;
        if (whole) // i8 takes all its values; i32 wraps around if odd
            v = odd && dtype == DV_I32 ? (double)(int32_t)(uint32_t)rnd()
                                       : pick(256) - 128;
        else if (odd && pick(40) == 0)
            v = pick(3) == 0 ? NAN : pick(2) ? INFINITY : -INFINITY;
        dv_store((dv_dtype)dtype, p, i, v);
    }
}

void gemm_start(gemm_problem *q, int odd)
{
    dv_gemm_shape *s = &q->s;
    size_t es = (size_t)dv_dtype_get((dv_dtype)s->dtype)->size_bytes;
    size_t es_c = (size_t)dv_dtype_get((dv_dtype)gemm_type_c(s))->size_bytes;
    int batch = s->batch ? s->batch : 1;
    int64_t rows_a = s->trans_a ? s->k : s->m,
            cols_a = s->trans_a ? s->m : s->k;
    int64_t rows_b = s->trans_b ? s->n : s->k,
            cols_b = s->trans_b ? s->k : s->n;
    q->n_a = gemm_span(rows_a, cols_a, s->lda) + (batch - 1) * s->stride_a;
    q->n_b = gemm_span(rows_b, cols_b, s->ldb) + (batch - 1) * s->stride_b;
    q->n_c = gemm_span(s->m, s->n, s->ldc);
    q->a = fence((size_t)q->n_a * es, pick(2));
    q->b = fence((size_t)q->n_b * es, pick(2));
    q->c = fence((size_t)q->n_c * es_c, pick(2));
    size_t es_sum =
        (size_t)dv_dtype_get((dv_dtype)gemm_type_sum(s))->size_bytes;
    q->bias =
        fence((size_t)(s->bias == DV_BIAS_M ? s->m : s->n) * es_sum, pick(2));
    gemm_fill(s->dtype, q->a.data, q->n_a, odd);
    gemm_fill(s->dtype, q->b.data, q->n_b, odd);
    gemm_fill((int)gemm_type_c(s), q->c.data, q->n_c, odd);
    gemm_fill((int)gemm_type_sum(s), q->bias.data,
              s->bias == DV_BIAS_M ? s->m : s->n, odd);
    q->args = (dv_gemm_args){.bias = q->bias.data};
    q->before = malloc((size_t)q->n_c * sizeof *q->before);
    for (int64_t i = 0; i < q->n_c; i++)
        q->before[i] = at(gemm_type_c(s), q->c.data, i);
    q->want = q->size = NULL;
}

void gemm_stop(gemm_problem *q)
{
    unfence(&q->a);
    unfence(&q->b);
    unfence(&q->c);
    unfence(&q->bias);
    free(q->before);
    free(q->want);
    free(q->size);
}

// Collects row i of A or column i of B along k, one batch after the other, once
// for all the elements that use it.
static void along_k(const gemm_problem *q, int of_b, int i, double *x)
{
    const dv_gemm_shape *s = &q->s;
    int batch = s->batch ? s->batch : 1;
    int apart = of_b ? !s->trans_b : s->trans_a; // elements are `ld` apart
    int64_t ld = of_b ? s->ldb : s->lda;
    const void *data = of_b ? q->b.data : q->a.data;
    for (int b = 0; b < batch; b++) {
        int64_t first = b * (of_b ? s->stride_b : s->stride_a);
        for (int p = 0; p < s->k; p++)
            *x++ =
                at(s->dtype, data, first + (apart ? p * ld + i : i * ld + p));
    }
}

// The element (i, j) in integers, which wrap around.
static double sum_whole(const gemm_problem *q, const double *x, const double *y,
                        int64_t n, int i, int j)
{
    const dv_gemm_shape *s = &q->s;
    uint32_t sum = 0;
    for (int64_t p = 0; p < n; p++)
        sum += (uint32_t)(int32_t)x[p] * (uint32_t)(int32_t)y[p];
    if (s->beta)
        sum += (uint32_t)(int32_t)q->before[i * s->ldc + j];
    if (s->bias)
        sum += (uint32_t)(int32_t)at(DV_I32, q->args.bias,
                                     s->bias == DV_BIAS_M ? i : j);
    return s->relu && (int32_t)sum < 0 ? 0 : (int32_t)sum;
}

// The element (i, j) in floats; *size is the sum of the magnitudes of its
// terms.
static double sum_floats(const gemm_problem *q, const double *x,
                         const double *y, int64_t n, int i, int j, double *size)
{
    const dv_gemm_shape *s = &q->s;
    double sum = 0, mag = 0;
    for (int64_t p = 0; p < n; p++) {
        double v = x[p] * y[p];
        sum += v;
        mag += fabs(v);
    }
    double c = q->before[i * s->ldc + j];
    sum += s->beta ? c : 0;
    if (s->bias)
        sum += at(gemm_type_sum(s), q->args.bias, s->bias == DV_BIAS_M ? i : j);
    *size = 2 * mag + (s->beta ? fabs(c) : 0) + 4;
    return s->relu && sum < 0 ? 0 : sum;
}

static void solve(gemm_problem *q)
{
    const dv_gemm_shape *s = &q->s;
    int64_t n = (int64_t)s->k * (s->batch ? s->batch : 1);
    size_t elements = (size_t)s->m * (size_t)s->n;
    double *x = malloc((size_t)(s->m * n) * sizeof *x);
    double *y = malloc((size_t)(s->n * n) * sizeof *y);
    q->want = malloc(elements * sizeof *q->want);
    q->size = calloc(elements, sizeof *q->size);
    for (int i = 0; i < s->m; i++)
        along_k(q, 0, i, x + i * n);
    for (int j = 0; j < s->n; j++)
        along_k(q, 1, j, y + j * n);
    int whole = !dv_is_float((dv_dtype)s->dtype);
    for (int i = 0; i < s->m; i++)
        for (int j = 0; j < s->n; j++) {
            const double *r = x + i * n, *c = y + j * n;
            int64_t e = (int64_t)i * s->n + j;
            q->want[e] = whole ? sum_whole(q, r, c, n, i, j)
                               : sum_floats(q, r, c, n, i, j, &q->size[e]);
        }
    free(x);
    free(y);
}

void gemm_compare(gemm_problem *q)
{
    const dv_gemm_shape *s = &q->s;
    int whole = !dv_is_float((dv_dtype)s->dtype);
    double eps =
        dv_dtype_eps((dv_dtype)gemm_type_sum(s)) * (2 + sqrt((double)s->k));
    double round = s->ctype ? dv_dtype_eps((dv_dtype)s->ctype) : 0;
    if (!q->want)
        solve(q);
    for (int64_t i = 0; i < q->n_c; i++) {
        int row = (int)(i / s->ldc), col = (int)(i % s->ldc);
        double got = at(gemm_type_c(s), q->c.data, i), want = q->before[i];
        if (col >= s->n) { // between the rows of C: must be untouched
            if (!(got == want || (isnan(got) && isnan(want))))
                fail_msg("element %d,%d outside was written", row, col);
            continue;
        }
        int64_t e = (int64_t)row * s->n + col;
        want = q->want[e];
        double err = whole ? 0 : eps * q->size[e] + round * fabs(want);
        int same = isnan(want)   ? isnan(got)
                   : isinf(want) ? got == want
                                 : fabs(got - want) <= err;
        if (!same)
            fail_msg("%dx%dx%d b%d %c%c ld %d %d %d beta %d bias %d "
                     "relu %d dtype %d: [%d][%d] is %g, should be %g",
                     s->m, s->n, s->k, s->batch, "nt"[s->trans_a],
                     "nt"[s->trans_b], (int)s -> lda, (int)s -> ldb,
                     (int)s -> ldc, s -> beta, s -> bias, s -> relu, s -> dtype,
                     row, col, got, want);
    }
}

void try_gemm(dv_jit *jit, dv_gemm_shape s, int odd)
{
    gemm_problem q = {.s = s};
    dv_gemm_fn run;
    assert_int_equal(dv_jit_gemm(jit, &s, &run, NULL), DV_OK);
    gemm_start(&q, odd);
    run(q.a.data, q.b.data, q.c.data, &q.args);
    gemm_compare(&q);
    gemm_stop(&q);
}

int panel_cols(const dv_isa *isa, int dtype)
{
    return isa->panel_vectors * isa->vector_bytes / (dtype == DV_F64 ? 8 : 4);
}

dv_gemm_shape random_gemm(int most, int dtype)
{
    static const int odd[] = {1, 2, 3, 5, 7, 11, 13, 17, 23, 29, 31, 47, 61};
    int d[3];
    for (int i = 0; i < 3; i++)
        d[i] = pick(3) ? 1 + pick(most) : odd[pick(13)];
    dv_gemm_shape s = {.m = d[0], .n = d[1], .k = d[2]};
    s.dtype = (uint8_t)dtype;
    s.stream = (uint8_t)(pick(4) == 0);
    if (s.stream && pick(2))
        s.n = 8 * (1 + pick(8));
    s.trans_a = (uint8_t)pick(2);
    s.trans_b = (uint8_t)pick(2);
    s.lda = (s.trans_a ? s.m : s.k) + (pick(2) ? pick(9) : 0);
    s.ldb = (s.trans_b ? s.k : s.n) + (pick(2) ? pick(9) : 0);
    s.ldc = s.n + (pick(2) ? pick(9) : 0);
    if (pick(8) == 0)
        s.ldc = s.n + 1100 + pick(100);
    if (s.stream && pick(2)) // rows of whole cache lines, or without gaps
        s.ldc = s.n + 16 * pick(2);
    if (pick(8) == 0)
        s.lda += 1100 + pick(100);
    if (pick(8) == 0)
        s.ldb += 1100 + pick(100);
    if (pick(3) == 0) {
        s.batch = 1 + pick(4);
        s.stride_a = s.lda * (s.trans_a ? s.k : s.m) + pick(3);
        s.stride_b = s.ldb * (s.trans_b ? s.n : s.k) + pick(3);
        if (pick(3) == 0)
            s.stride_a = pick(4);
    }
    s.beta = (uint8_t)pick(2);
    s.bias = (uint8_t)(pick(2) ? 0 : pick(3));
    s.relu = (uint8_t)(pick(3) == 0);
    return s;
}

void run_plan(const dv_gemm_plan *plan, const void *a, const void *b, void *c,
              const dv_gemm_args *args)
{
    void *workspace = dv_alloc_buffer((size_t)dv_gemm_plan_workspace(plan));
    assert_non_null(workspace);
    // Operands that the plan expects to be packed: twice as much memory, to see
    // that no more is written than the plan says.
    const void *in[2] = {a, b};
    unsigned char *given[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++) {
        size_t n = (size_t)dv_gemm_plan_given_bytes(plan, 1 << i);
        if (!(dv_gemm_plan_given(plan) >> i & 1))
            continue;
        assert_non_null(given[i] = dv_alloc_buffer(2 * n));
        memset(given[i], 0xff, 2 * n);
        assert_int_equal(dv_gemm_plan_give(plan, 1 << i, in[i], given[i], NULL),
                         DV_OK);
        for (size_t k = n; k < 2 * n; k++)
            assert_int_equal(given[i][k], 0xff);
        in[i] = given[i];
    }
    dv_gemm_run(plan, in[0], in[1], c, workspace, args);
    dv_release(given[0]);
    dv_release(given[1]);
    dv_release(workspace);
}

void try_plan(dv_jit *jit, dv_gemm_shape s, const dv_gemm_options *o, int odd)
{
    s.batch = 0; // a plan takes one product
    gemm_problem q = {.s = s};
    dv_gemm_plan *plan;
    assert_int_equal(dv_gemm_plan_create(&plan, jit, &s, o, NULL), DV_OK);
    gemm_start(&q, odd);
    run_plan(plan, q.a.data, q.b.data, q.c.data, &q.args);
    gemm_compare(&q);
    dv_gemm_plan_destroy(plan);
    gemm_stop(&q);
}

// Runs a product on a tile of C: m x n elements from (m0, n0) on.
static void run_tile(dv_jit *jit, const gemm_problem *q,
                     const dv_gemm_options *o, int m0, int n0, int m, int n)
{
    dv_gemm_shape s = q->s;
    int64_t es = dv_dtype_get((dv_dtype)s.dtype)->size_bytes;
    int64_t es_sum = dv_dtype_get((dv_dtype)gemm_type_sum(&s))->size_bytes;
    int64_t es_c = dv_dtype_get((dv_dtype)gemm_type_c(&s))->size_bytes;
    dv_gemm_args args = q->args;
    dv_gemm_plan *plan;
    if (m < 1 || n < 1)
        return;
    s.m = m;
    s.n = n;
    if (s.bias)
        args.bias =
            (const char *)args.bias + (s.bias == DV_BIAS_M ? m0 : n0) * es_sum;
    assert_int_equal(dv_gemm_plan_create(&plan, jit, &s, o, NULL), DV_OK);
    run_plan(plan, (char *)q->a.data + m0 * es * (s.trans_a ? 1 : s.lda),
             (char *)q->b.data + n0 * es * (s.trans_b ? s.ldb : 1),
             (char *)q->c.data + (m0 * s.ldc + n0) * es_c, &args);
    dv_gemm_plan_destroy(plan);
}

void try_tiles(dv_jit *jit, dv_gemm_shape s)
{
    s.batch = 0; // a plan takes one product
    s.one_sum = 1;
    gemm_problem q = {.s = s};
    dv_gemm_options o = {
        .pack = 1, .k_block = 32 * (1 + pick(4)), .given = pick(4)};
    gemm_start(&q, 0);
    size_t bytes = (size_t)q.n_c *
                   (size_t)dv_dtype_get((dv_dtype)gemm_type_c(&s))->size_bytes;
    void *before = malloc(bytes), *want = malloc(bytes);
    int m = pick(s.m + 1), n = pick(s.n + 1);
    memcpy(before, q.c.data, bytes);
    run_tile(jit, &q, &o, 0, 0, s.m, s.n);
    memcpy(want, q.c.data, bytes);
    memcpy(q.c.data, before, bytes);
    o.l1_bytes = pick(2) ? 0 : 3000; // other blocks of rows
    run_tile(jit, &q, &o, 0, 0, m, n);
    run_tile(jit, &q, &o, m, 0, s.m - m, n);
    run_tile(jit, &q, &o, 0, n, m, s.n - n);
    run_tile(jit, &q, &o, m, n, s.m - m, s.n - n);
    assert_memory_equal(want, q.c.data, bytes);
    free(before);
    free(want);
    gemm_stop(&q);
}

int share(void)
{
#ifdef DV_EMULATED
    enum { USUAL = 8 };
#else
    enum { USUAL = 1 };
#endif
    const char *wish = getenv("DV_CASES");
    int percent = wish ? atoi(wish) : 0;
    return percent < 1 ? USUAL : percent > 100 ? 1 : 100 / percent;
}
