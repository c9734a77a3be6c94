// Random products for tests of the JIT, with operands that begin or end at
// pages that may not be touched, and what plain loops make of them.
#ifndef DV_TEST_JIT_PROBLEM_H
#define DV_TEST_JIT_PROBLEM_H
#include "harness/test.h"
#include "base/dtype.h"
#include "jit/gemm/gemm.h"
#include "jit/backend.h"
#include "jit/jit.h"
#include <math.h>
#include <sys/mman.h>
#include <unistd.h>

// Of the random cases one in so many is tried, since emulators are slow: the
// usual share, or DV_CASES percent.
static inline int share(void)
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
#define SHARE share()

static uint64_t seed = 88172645463325252u;

static inline uint64_t rnd(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

static inline int pick(int n)
{
    return (int)(rnd() >> 33) % n;
}

// -- Operands between pages that may not be touched --------------------------

typedef struct fenced {
    unsigned char *map, *data;
    size_t map_bytes;
} fenced;

// An emulator may read whole vectors where a masked load touches a part: it
// gets pages around that may be read, where no number is.
#if defined(DV_EMULATED) && defined(__x86_64__)
enum { AROUND = PROT_READ };
#else
enum { AROUND = PROT_NONE };
#endif

// `bytes` of memory that begin (at_end 0) or end (1) at a forbidden page.
static inline fenced fence(size_t bytes, int at_end)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t body = (bytes + page - 1) / page * page;
    fenced f = {.map_bytes = body + 2 * page};
    f.map = mmap(NULL, f.map_bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(f.map != MAP_FAILED);
    if (AROUND == PROT_READ)
        memset(f.map, 255, f.map_bytes);
    assert_int_equal(mprotect(f.map, page, AROUND), 0);
    assert_int_equal(mprotect(f.map + page + body, page, AROUND), 0);
    f.data = f.map + page + (at_end ? body - bytes : 0);
    return f;
}

static inline void unfence(fenced *f)
{
    munmap(f->map, f->map_bytes);
}

static inline dv_jit *new_jit(void)
{
    dv_jit *jit;
    if (!dv_isa_host())
        skip_test("no kernels for this machine");
    assert_int_equal(dv_jit_create(&jit, NULL), DV_OK);
    return jit;
}

// -- Products ----------------------------------------------------------------

static inline double at(unsigned dtype, const void *p, int64_t i)
{
    return dv_load((dv_dtype)dtype, p, i);
}

// Elements an operand of rows x cols with leading dimension ld spans.
static inline int64_t span(int64_t rows, int64_t cols, int64_t ld)
{
    return (rows - 1) * ld + cols;
}

// What is summed in, and the bias given in; and what C is stored as.
static inline unsigned type_sum(const dv_gemm_shape *s)
{
    return s->dtype == DV_BF16 || s->dtype == DV_F16 ? DV_F32
           : s->dtype == DV_I8                       ? DV_I32
                                                     : s->dtype;
}

static inline unsigned type_c(const dv_gemm_shape *s)
{
    return s->ctype ? s->ctype : type_sum(s);
}

typedef struct problem {
    dv_gemm_shape s;
    dv_gemm_args args;
    fenced a, b, c, bias;
    int64_t n_a, n_b, n_c;
    double *before;      // C
    double *want, *size; // of elements of C, once they are known
} problem;

static inline void fill(int dtype, void *p, int64_t n, int odd)
{
    int whole = !dv_is_float((dv_dtype)dtype);
    for (int64_t i = 0; i < n; i++) {
        double v = pick(2001) * 0.002 - 2;
        if (whole) // sums wrap when odd, and i8 sees all its values
            v = odd && dtype == DV_I32 ? (double)(int32_t)(uint32_t)rnd()
                                       : pick(256) - 128;
        else if (odd && pick(40) == 0)
            v = pick(3) == 0 ? NAN : pick(2) ? INFINITY : -INFINITY;
        dv_store((dv_dtype)dtype, p, i, v);
    }
}

static inline void set_up(problem *q, int odd)
{
    dv_gemm_shape *s = &q->s;
    size_t es = (size_t)dv_dtype_get((dv_dtype)s->dtype)->size_bytes;
    size_t es_c = (size_t)dv_dtype_get((dv_dtype)type_c(s))->size_bytes;
    int batch = s->batch ? s->batch : 1;
    int64_t rows_a = s->trans_a ? s->k : s->m,
            cols_a = s->trans_a ? s->m : s->k;
    int64_t rows_b = s->trans_b ? s->n : s->k,
            cols_b = s->trans_b ? s->k : s->n;
    q->n_a = span(rows_a, cols_a, s->lda) + (batch - 1) * s->stride_a;
    q->n_b = span(rows_b, cols_b, s->ldb) + (batch - 1) * s->stride_b;
    q->n_c = span(s->m, s->n, s->ldc);
    q->a = fence((size_t)q->n_a * es, pick(2));
    q->b = fence((size_t)q->n_b * es, pick(2));
    q->c = fence((size_t)q->n_c * es_c, pick(2));
    size_t es_sum = (size_t)dv_dtype_get((dv_dtype)type_sum(s))->size_bytes;
    q->bias =
        fence((size_t)(s->bias == DV_BIAS_M ? s->m : s->n) * es_sum, pick(2));
    fill(s->dtype, q->a.data, q->n_a, odd);
    fill(s->dtype, q->b.data, q->n_b, odd);
    fill((int)type_c(s), q->c.data, q->n_c, odd);
    fill((int)type_sum(s), q->bias.data, s->bias == DV_BIAS_M ? s->m : s->n,
         odd);
    q->args = (dv_gemm_args){.alpha = 1.5, .beta = -0.75, .bias = q->bias.data};
    if (!dv_is_float((dv_dtype)s->dtype)) { // which wrap
        q->args.alpha = pick(2) ? -3 : INT32_MAX - pick(1000);
        q->args.beta = pick(2) ? 5 : INT32_MIN + pick(1000);
    }
    q->before = malloc((size_t)q->n_c * sizeof *q->before);
    for (int64_t i = 0; i < q->n_c; i++)
        q->before[i] = at(type_c(s), q->c.data, i);
    q->want = q->size = NULL;
}

static inline void tear_down(problem *q)
{
    unfence(&q->a);
    unfence(&q->b);
    unfence(&q->c);
    unfence(&q->bias);
    free(q->before);
    free(q->want);
    free(q->size);
}

// Row i of A or column i of B, one batch behind the other: the numbers along
// k, read once and not for each element that they are summed for.
static inline void along_k(const problem *q, int of_b, int i, double *x)
{
    const dv_gemm_shape *s = &q->s;
    int batch = s->batch ? s->batch : 1;
    int apart = of_b ? !s->trans_b : s->trans_a; // a row of memory each
    int64_t ld = of_b ? s->ldb : s->lda;
    const void *data = of_b ? q->b.data : q->a.data;
    for (int b = 0; b < batch; b++) {
        int64_t first = b * (of_b ? s->stride_b : s->stride_a);
        for (int p = 0; p < s->k; p++)
            *x++ =
                at(s->dtype, data, first + (apart ? p * ld + i : i * ld + p));
    }
}

// The sum for whole numbers, which wrap.
static inline double sum_whole(const problem *q, const double *x,
                               const double *y, int64_t n, int i, int j)
{
    const dv_gemm_shape *s = &q->s;
    uint32_t sum = 0;
    for (int64_t p = 0; p < n; p++)
        sum += (uint32_t)(int32_t)x[p] * (uint32_t)(int32_t)y[p];
    if (s->alpha == DV_SCALE_ANY)
        sum *= (uint32_t)(int32_t)q->args.alpha;
    uint32_t beta = s->beta == DV_SCALE_ANY ? (uint32_t)(int32_t)q->args.beta
                                            : s->beta != DV_SCALE_ZERO;
    sum += beta * (uint32_t)(int32_t)q->before[i * s->ldc + j];
    if (s->bias)
        sum += (uint32_t)(int32_t)at(DV_I32, q->args.bias,
                                     s->bias == DV_BIAS_M ? i : j);
    return s->relu && (int32_t)sum < 0 ? 0 : (int32_t)sum;
}

// What element (i, j) should be, and the size of what was added up.
static inline double sum_floats(const problem *q, const double *x,
                                const double *y, int64_t n, int i, int j,
                                double *size)
{
    const dv_gemm_shape *s = &q->s;
    double sum = 0, mag = 0;
    for (int64_t p = 0; p < n; p++) {
        double v = x[p] * y[p];
        sum += v;
        mag += fabs(v);
    }
    double c = q->before[i * s->ldc + j];
    sum *= s->alpha == DV_SCALE_ANY ? q->args.alpha : 1;
    if (s->beta != DV_SCALE_ZERO)
        sum += c * (s->beta == DV_SCALE_ANY ? q->args.beta : 1);
    if (s->bias)
        sum += at(type_sum(s), q->args.bias, s->bias == DV_BIAS_M ? i : j);
    *size = 2 * mag + (s->beta ? fabs(c) : 0) + 4;
    return s->relu && sum < 0 ? 0 : sum;
}

static inline void solve(problem *q)
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

static inline void compare(problem *q)
{
    const dv_gemm_shape *s = &q->s;
    int whole = !dv_is_float((dv_dtype)s->dtype);
    double eps = dv_dtype_eps((dv_dtype)type_sum(s)) * (2 + sqrt((double)s->k));
    double round = s->ctype ? dv_dtype_eps((dv_dtype)s->ctype) : 0;
    if (!q->want)
        solve(q);
    for (int64_t i = 0; i < q->n_c; i++) {
        int row = (int)(i / s->ldc), col = (int)(i % s->ldc);
        double got = at(type_c(s), q->c.data, i), want = q->before[i];
        if (col >= s->n) { // between the rows: untouched
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
            fail_msg("%dx%dx%d b%d %c%c ld %d %d %d alpha %d beta %d bias %d "
                     "relu %d dtype %d: [%d][%d] is %g, should be %g",
                     s->m, s->n, s->k, s->batch, "nt"[s->trans_a],
                     "nt"[s->trans_b], (int)s -> lda, (int)s -> ldb,
                     (int)s -> ldc, s -> alpha, s -> beta, s -> bias, s -> relu,
                     s -> dtype, row, col, got, want);
    }
}

static inline void try_gemm(dv_jit *jit, dv_gemm_shape s, int odd)
{
    problem q = {.s = s};
    dv_gemm_fn run;
    assert_int_equal(dv_jit_gemm(jit, &s, &run, NULL), DV_OK);
    set_up(&q, odd);
    run(q.a.data, q.b.data, q.c.data, &q.args);
    compare(&q);
    tear_down(&q);
}

// As many columns as kernels take that pack.
static inline int panel_cols(const dv_isa *isa, int dtype)
{
    return isa->panel_vectors * isa->vector_bytes / (dtype == DV_F64 ? 8 : 4);
}

static inline dv_gemm_shape random_shape(int most, int dtype)
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
    if (s.stream && pick(2)) // rows of whole lines, or one behind the other
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
    s.alpha = (uint8_t)(pick(3) ? DV_SCALE_ONE : DV_SCALE_ANY);
    s.beta = (uint8_t)pick(3);
    s.bias = (uint8_t)(pick(2) ? 0 : pick(3));
    s.relu = (uint8_t)(pick(3) == 0);
    return s;
}

// One plan, run and compared.
static inline void try_plan(dv_jit *jit, dv_gemm_shape s,
                            const dv_gemm_options *o, int odd)
{
    problem q = {.s = s};
    dv_gemm_plan *plan;
    assert_int_equal(dv_gemm_plan_create(&plan, jit, &s, o, NULL), DV_OK);
    set_up(&q, odd);
    dv_gemm_run(plan, q.a.data, q.b.data, q.c.data, &q.args);
    compare(&q);
    dv_gemm_plan_destroy(plan);
    tear_down(&q);
}
#endif
