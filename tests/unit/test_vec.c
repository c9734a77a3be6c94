// Kernels of whole statements against plain loops: every function and type,
// all tails, strides, reducers and loops, with operands that end and begin at
// pages that may not be touched.
#define _GNU_SOURCE
#include "base/dtype.h"
#include "ir/program.h"
#include "jit/host.h"
#include "jit/vec.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

static uint64_t seed = 88172645463325252u;

static uint64_t rnd(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

static int pick(int n)
{
    return (int)((rnd() >> 33) % (uint64_t)n);
}

static dv_jit *jit;

static int set_up(void **state)
{
    (void)state;
    const dv_isa *isa = dv_isa_host();
    return isa && isa->vec ? dv_jit_create(&jit, NULL) != DV_OK : 0;
}

static int tear_down(void **state)
{
    (void)state;
    dv_jit_destroy(jit);
    return 0;
}

// -- Operands between pages that may not be touched --------------------------

enum { MAX_AT = 40 };

typedef struct fenced {
    unsigned char *map, *low;
    int64_t bytes;
} fenced;

// `bytes` that begin or end at a forbidden page.
static fenced fence(int64_t bytes, int at_end)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t body = ((size_t)bytes + page - 1) / page * page;
    fenced f = {.bytes = bytes};
    f.map = mmap(NULL, body + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS,
                 -1, 0);
    assert_true(f.map != MAP_FAILED);
    assert_int_equal(mprotect(f.map + page, body, PROT_READ | PROT_WRITE), 0);
    f.low = f.map + page + (at_end ? body - (size_t)bytes : 0);
    return f;
}

static void unfence(fenced *f)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t body = ((size_t)f->bytes + page - 1) / page * page;
    munmap(f->map, body + 2 * page);
}

// -- The plain loops ---------------------------------------------------------

typedef struct problem {
    dv_vec_shape s;
    dv_vec_operand o[MAX_AT];
    dv_vec_node n[DV_VEC_MAX_NODES];
    int64_t rows, cols;
    fenced f[MAX_AT];
    void *at[MAX_AT]; // of element (0, 0)
    double low, high; // of inputs
    int odd;          // some inputs are inf, nan, -0 or denormal
} problem;

static int es_of(unsigned t)
{
    return dv_dtype_get((dv_dtype)t)->size_bytes;
}

// Lowest and highest element number of an operand.
static void span(const problem *q, int i, int64_t *lo, int64_t *hi)
{
    int64_t a = q->o[i].inner * (q->cols - 1),
            b = q->o[i].outer * (q->rows - 1);
    *lo = (a < 0 ? a : 0) + (b < 0 ? b : 0);
    *hi = (a > 0 ? a : 0) + (b > 0 ? b : 0);
}

static double input(const problem *q)
{
    static const double odd[] = {INFINITY, -INFINITY, NAN,    0.0, -0.0,
                                 1e-41,    -1e-41,    1e-310, 88,  -103.5};
    if (q->odd && pick(10) == 0)
        return odd[pick(10)];
    return q->low + (q->high - q->low) * (double)(rnd() >> 11) * 0x1p-53;
}

static void make_operands(problem *q)
{
    q->s.operands = q->o;
    q->s.nodes = q->n;
    for (int i = 0; i < q->s.n_operands; i++) {
        int64_t lo, hi;
        span(q, i, &lo, &hi);
        int es = es_of(q->o[i].dtype);
        q->f[i] = fence((hi - lo + 1) * es, pick(2));
        q->at[i] = q->f[i].low - lo * es;
        for (int64_t k = 0; k <= hi - lo; k++)
            dv_store((dv_dtype)q->o[i].dtype, q->f[i].low, k, input(q));
    }
}

static void free_operands(problem *q)
{
    for (int i = 0; i < q->s.n_operands; i++)
        unfence(&q->f[i]);
}

// Rounded as the type computed in; errors of functions are not modelled.
static double rounded(const problem *q, double v)
{
    if (q->s.compute == DV_F32)
        return (double)(float)v;
    if (q->s.compute == DV_I32)
        return (double)(int32_t)(uint32_t)(uint64_t)(int64_t)v;
    return v;
}

static double node(const problem *q, int i, int64_t r, int64_t c, double acc,
                   double *value)
{
    for (int k = 0; k <= i; k++) {
        const dv_vec_node *n = &q->n[k];
        const dv_vec_operand *o = &q->o[n->arg[0]];
        switch ((dv_vec_kind)n->kind) {
        case DV_VEC_LOAD:
            value[k] = dv_load((dv_dtype)o->dtype, q->at[n->arg[0]],
                               r * o->outer + c * o->inner);
            break;
        case DV_VEC_CONST:
            value[k] = rounded(q, n->value);
            break;
        case DV_VEC_REDUCED:
            value[k] = acc;
            break;
        case DV_VEC_APPLY:
            value[k] =
                rounded(q, dv_fn_apply((dv_fn)n->fn, value[n->arg[0]],
                                       value[n->arg[1]], value[n->arg[2]]));
        }
    }
    return value[i];
}

static double *values;

static double reduced(const problem *q, int64_t r, int64_t c)
{
    double acc = dv_reducer_get((dv_reducer)q->s.reducer)->zero;
    if (q->s.compute == DV_I32 && isinf(acc))
        acc = acc < 0 ? INT32_MIN : INT32_MAX;
    int in = q->s.reduce != DV_VEC_OUTER, out = q->s.reduce != DV_VEC_INNER;
    for (int64_t i = out ? 0 : r; i < (out ? q->rows : r + 1); i++)
        for (int64_t k = in ? 0 : c; k < (in ? q->cols : c + 1); k++) {
            double v = node(q, q->s.value, i, k, 0, values);
            acc = dv_reducer_step((dv_reducer)q->s.reducer, acc, v);
            if (q->s.compute == DV_I32)
                acc = rounded(q, acc);
        }
    return acc;
}

static int64_t written_rows(const problem *q)
{
    return q->s.reduce == DV_VEC_OUTER || q->s.reduce == DV_VEC_BOTH ? 1
                                                                     : q->rows;
}

static int64_t written_cols(const problem *q)
{
    return q->s.reduce == DV_VEC_INNER || q->s.reduce == DV_VEC_BOTH ? 1
                                                                     : q->cols;
}

static double *expected(const problem *q)
{
    int64_t rows = written_rows(q), cols = written_cols(q);
    double *w = malloc((size_t)(rows * cols) * sizeof *w);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++) {
            double acc = q->s.reduce ? reduced(q, r, c) : 0;
            w[r * cols + c] = node(q, q->s.result, r, c, acc, values);
        }
    return w;
}

// Off by at most `ulps` of the coarser of the two types, or nan alike.
static int close_to(const problem *q, double got, double want, double ulps,
                    double scale)
{
    unsigned t = q->o[q->s.n_operands - 1].dtype;
    if (!dv_is_float((dv_dtype)t))
        return got == dv_round_to((dv_dtype)t, want);
    double eps =
        fmax(dv_dtype_eps((dv_dtype)t), dv_dtype_eps((dv_dtype)q->s.compute));
    double kept = dv_round_to((dv_dtype)t, want);
    if (isnan(want) || isnan(got))
        return isnan(want) && isnan(got);
    if (got == kept || got == want)
        return 1;
    // Near overflow one rounds to inf and the other does not.
    if (isinf(kept) || isinf(got))
        return ulps > 0 && fabs(isinf(kept) ? got : kept) >
                               0.99 * (t == DV_F16 ? 65504 : 3.4e38);
    double tiny = t == DV_F64    ? 0x1p-1074
                  : t == DV_F16  ? 0x1p-24
                  : t == DV_BF16 ? 0x1p-133
                                 : 0x1p-149;
    return fabs(got - want) <= ulps * fmax(eps * fmax(fabs(want), scale), tiny);
}

static void check(const problem *q, const double *want, double ulps,
                  double scale, const char *what)
{
    const dv_vec_operand *o = &q->o[q->s.n_operands - 1];
    int64_t rows = written_rows(q), cols = written_cols(q);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++) {
            double got = dv_load((dv_dtype)o->dtype, q->at[q->s.n_operands - 1],
                                 r * o->outer + c * o->inner);
            if (!close_to(q, got, want[r * cols + c], ulps, scale))
                fail_msg("%s: %s in %s, %dx%d, strides %d %d: element %d,%d "
                         "is %.9g, want %.9g",
                         what, dv_dtype_get((dv_dtype)o->dtype)->name,
                         dv_dtype_get((dv_dtype)q->s.compute)->name,
                         (int)q->rows, (int)q->cols, (int)q->o[0].inner,
                         (int)q->o[0].outer, (int)r, (int)c, got,
                         want[r * cols + c]);
        }
}

static void solve(problem *q, double ulps, double scale, const char *what)
{
    dv_vec_fn fn;
    make_operands(q);
    double *want = expected(q);
    assert_int_equal(dv_jit_vec(jit, &q->s, &fn, NULL), DV_OK);
    fn(&(dv_vec_args){q->rows, q->cols, q->at, NULL});
    check(q, want, ulps, scale, what);
    free(want);
    free_operands(q);
}

static void skip_without_kernels(void)
{
    if (!jit)
        skip();
}

// -- Functions ---------------------------------------------------------------

static const struct {
    unsigned element, compute;
} types[] = {{DV_F32, DV_F32}, {DV_F16, DV_F32}, {DV_BF16, DV_F32},
             {DV_F64, DV_F64}, {DV_F32, DV_F64}, {DV_F16, DV_F64},
             {DV_BF16, DV_F64}};
enum { N_TYPES = sizeof types / sizeof *types };

static dv_vec_node load_node(int operand)
{
    return (dv_vec_node){.kind = DV_VEC_LOAD, .arg = {(uint16_t)operand}};
}

static dv_vec_node apply_node(dv_fn fn, int a, int b, int c)
{
    return (dv_vec_node){.kind = DV_VEC_APPLY,
                         .fn = (uint8_t)fn,
                         .arg = {(uint16_t)a, (uint16_t)b, (uint16_t)c}};
}

static int is_math(int fn)
{
    return (fn >= DV_FN_EXP && fn <= DV_FN_GELU) || fn == DV_FN_DIV;
}

static double tolerance(int fn, unsigned compute)
{
    if (fn == DV_FN_GELU)
        return compute == DV_F32 ? 4 : 8;
    return fn == DV_FN_SILU ? 4 : is_math(fn) ? 3 : 0;
}

static void set_strides(problem *q, int i, unsigned dtype)
{
    static const int inner[] = {1, 1, 1, 2, 3, -1, 7};
    q->o[i].dtype = (uint8_t)dtype;
    q->o[i].inner = inner[pick(7)];
    int64_t row = llabs(q->o[i].inner) * q->cols;
    q->o[i].outer = pick(3) ? row : row + pick(5);
    if (q->o[i].inner == 1 && pick(4) == 0)
        q->o[i].outer = -q->o[i].outer;
}

static void function(int fn, int t, int64_t rows, int64_t cols)
{
    static problem q;
    int n = dv_fn_get((dv_fn)fn)->n_args;
    memset(&q, 0, sizeof q);
    q.rows = rows;
    q.cols = cols;
    q.low = fn == DV_FN_LOG || fn == DV_FN_SQRT ? -0.5 : -5;
    q.high = 5;
    q.odd = pick(2);
    q.s.compute = (uint8_t)types[t].compute;
    for (int i = 0; i <= n; i++)
        set_strides(&q, i, types[t].element);
    for (int i = 0; i < n; i++) {
        q.n[i] = load_node(i);
        if (n > 1 && pick(4) == 0) // the same for a row, a column or all
            q.o[i].inner = 0, q.o[i].outer = pick(2);
        else if (n > 1 && pick(5) == 0)
            q.n[i] = (dv_vec_node){.kind = DV_VEC_CONST, .value = input(&q)};
    }
    q.n[n] = apply_node((dv_fn)fn, 0, n > 1, n > 2 ? 2 : 0);
    q.s.n_operands = (uint16_t)(n + 1);
    q.s.n_nodes = (uint16_t)(n + 1);
    q.s.result = (uint16_t)n;
    // gelu's error in f32 is one of x; silu is coarse where e^x is denormal.
    double scale = fn == DV_FN_GELU && q.s.compute == DV_F32 ? 5
                   : fn == DV_FN_SILU ? (q.s.compute == DV_F32 ? 1e-35 : 1e-304)
                                      : 0;
    solve(&q, tolerance(fn, q.s.compute), scale, dv_fn_get((dv_fn)fn)->text);
}

static void functions(void **state)
{
    (void)state;
    skip_without_kernels();
    for (int fn = 0; fn <= DV_FN_SELECT; fn++)
        for (int t = 0; t < N_TYPES; t++) {
            if (!dv_vec_stores((dv_dtype)types[t].element,
                               (dv_dtype)types[t].compute))
                continue;
            for (int cols = 1; cols <= 70; cols += cols < 20 ? 1 : 7)
                function(fn, t, 1 + pick(3), cols);
        }
}

// -- Integers ----------------------------------------------------------------

static void integers(void **state)
{
    (void)state;
    skip_without_kernels();
    static const int fns[] = {DV_FN_LT,  DV_FN_LE,  DV_FN_GT,    DV_FN_GE,
                              DV_FN_EQ,  DV_FN_NE,  DV_FN_ADD,   DV_FN_SUB,
                              DV_FN_MUL, DV_FN_NEG, DV_FN_RELU,  DV_FN_ABS,
                              DV_FN_MIN, DV_FN_MAX, DV_FN_SELECT};
    static problem q;
    for (int k = 0; k < 15; k++)
        for (int cols = 1; cols <= 40; cols++) {
            int fn = fns[k], n = dv_fn_get((dv_fn)fn)->n_args;
            memset(&q, 0, sizeof q);
            q.rows = 2;
            q.cols = cols;
            q.low = -(q.high = pick(2) ? 9 : 20000);
            q.s.compute = DV_I32;
            for (int i = 0; i <= n; i++) {
                set_strides(&q, i, pick(2) ? DV_I32 : DV_I8);
                q.n[i] = load_node(i);
            }
            q.n[n] = apply_node((dv_fn)fn, 0, n > 1, n > 2 ? 2 : 0);
            q.s.n_operands = q.s.n_nodes = (uint16_t)(n + 1);
            q.s.result = (uint16_t)n;
            solve(&q, 0, 0, dv_fn_get((dv_fn)fn)->text);
        }
}

// Reads of all types beside each other.
static void mixed_types(void **state)
{
    (void)state;
    skip_without_kernels();
    static problem q;
    for (int i = 0; i < 200; i++) {
        memset(&q, 0, sizeof q);
        q.rows = 1 + pick(3);
        q.cols = 1 + pick(40);
        q.low = -(q.high = 20);
        q.s.compute = pick(2) ? DV_F64 : DV_F32;
        q.s.n_operands = 4;
        for (int k = 0; k < 4; k++) {
            unsigned t;
            do
                t = (unsigned)pick(DV_I8 + 1);
            while (!(k < 3 ? dv_vec_loads((dv_dtype)t, q.s.compute)
                           : dv_vec_stores((dv_dtype)t, q.s.compute)));
            set_strides(&q, k, t);
            q.n[k] = load_node(k);
        }
        q.n[3] = apply_node(DV_FN_MUL, 0, 1, 0);
        q.n[4] = apply_node(DV_FN_SUB, 3, 2, 0);
        q.s.n_nodes = 5;
        q.s.result = 4;
        solve(&q, 0, 0, "mixed");
    }
}

// -- Reductions --------------------------------------------------------------

// relu(reduce[..] a * b) + c, with a and b of any strides that make sense.
static void set_reduction(problem *q, int reduce, int reducer, unsigned element,
                          unsigned compute)
{
    int inner = reduce != DV_VEC_OUTER, outer = reduce != DV_VEC_INNER;
    memset(q, 0, sizeof *q);
    q->rows = 1 + pick(9);
    q->cols = 1 + pick(pick(2) ? 70 : 9);
    q->low = reducer == DV_RED_PROD ? 0.8 : -1;
    q->high = reducer == DV_RED_PROD ? 1.2 : 1;
    if (compute == DV_I32)
        q->low = -(q->high = reducer == DV_RED_PROD ? 3 : 50);
    q->s.compute = (uint8_t)compute;
    q->s.reduce = (uint8_t)reduce;
    q->s.reducer = (uint8_t)reducer;
    q->s.n_operands = 4;
    for (int i = 0; i < 4; i++)
        set_strides(q, i, element);
    if (pick(2))
        q->o[1].inner = 0;
    else if (pick(3) == 0)
        q->o[1].outer = 0;
    for (int i = 2; i < 4; i++) {
        q->o[i].outer = outer ? 0 : inner ? 1 + pick(3) : q->o[i].outer;
        q->o[i].inner = inner ? 0 : q->o[i].inner;
    }
    for (int i = 0; i < 3; i++)
        q->n[i] = load_node(i);
    q->n[3] = apply_node(pick(2) ? DV_FN_MUL : DV_FN_MAX, 0, 1, 0);
    q->n[4] = (dv_vec_node){.kind = DV_VEC_REDUCED};
    q->n[5] = apply_node(DV_FN_RELU, 4, 0, 0);
    q->n[6] = apply_node(DV_FN_ADD, 5, 2, 0);
    q->s.n_nodes = 7;
    q->s.value = 3;
    q->s.result = 6;
}

static double sum_ulps(const problem *q)
{
    int reducer = q->s.reducer;
    if (q->s.compute == DV_I32)
        return 0;
    double n = (double)(q->rows * q->cols);
    return reducer == DV_RED_MAX || reducer == DV_RED_MIN ? 0.51 : 2 + n / 4;
}

static const struct {
    unsigned element, compute;
} sums[] = {{DV_F32, DV_F32},  {DV_F64, DV_F64}, {DV_F16, DV_F32},
            {DV_BF16, DV_F32}, {DV_F32, DV_F64}, {DV_I32, DV_I32},
            {DV_I8, DV_I32}};

static void reductions(void **state)
{
    (void)state;
    skip_without_kernels();
    static problem q;
    for (int i = 0; i < 3000; i++) {
        int t = i % 7, reduce = 1 + i % 3, reducer = pick(4);
        if (!dv_vec_stores((dv_dtype)sums[t].element,
                           (dv_dtype)sums[t].compute))
            continue;
        set_reduction(&q, reduce, reducer, sums[t].element, sums[t].compute);
        solve(&q, sum_ulps(&q), 1, dv_reducer_get((dv_reducer)reducer)->text);
    }
}

// The same in three calls: begun, continued, finished.
static void solve_in_parts(problem *q, double ulps)
{
    dv_vec_fn fn[3];
    make_operands(q);
    double *want = expected(q);
    int outer = q->s.reduce != DV_VEC_INNER;
    int64_t all = outer ? q->rows : q->cols, cut = pick((int)all + 1), done = 0;
    int64_t width = q->s.reduce == DV_VEC_OUTER   ? q->cols
                    : q->s.reduce == DV_VEC_INNER ? q->rows
                                                  : 1;
    fenced acc = fence(width * es_of(q->s.compute), pick(2));
    int64_t piece[3] = {cut, all - cut, 0};
    if (q->s.reduce == DV_VEC_BOTH) // rows of it are at least one
        piece[0] = all, piece[1] = all;
    for (int i = 0; i < 3; i++) {
        q->s.from_acc = i > 0;
        q->s.to_acc = i < 2;
        assert_int_equal(dv_jit_vec(jit, &q->s, &fn[i], NULL), DV_OK);
        void *at[MAX_AT];
        for (int k = 0; k < q->s.n_operands; k++) {
            int64_t by = q->s.reduce == DV_VEC_BOTH ? 0
                         : outer                    ? q->o[k].outer
                                                    : q->o[k].inner;
            at[k] = (char *)q->at[k] + done * by * es_of(q->o[k].dtype);
        }
        dv_vec_args args = {q->rows, q->cols, at, acc.low};
        if (q->s.reduce == DV_VEC_BOTH) { // all of it once, then nothing
            args.n = i == 0 ? q->cols : 0;
            args.rows = i == 0 ? q->rows : 1;
        } else {
            *(outer ? &args.rows : &args.n) = piece[i];
            done += piece[i];
        }
        fn[i](&args);
    }
    check(q, want, ulps, 1, "in parts");
    unfence(&acc);
    free(want);
    free_operands(q);
}

static void parts(void **state)
{
    (void)state;
    skip_without_kernels();
    static problem q;
    for (int i = 0; i < 600; i++) {
        int t = i % 7, reduce = 1 + i % 3, reducer = pick(4);
        if (!dv_vec_stores((dv_dtype)sums[t].element,
                           (dv_dtype)sums[t].compute))
            continue;
        set_reduction(&q, reduce, reducer, sums[t].element, sums[t].compute);
        solve_in_parts(&q, sum_ulps(&q));
    }
}

// -- Long ones ---------------------------------------------------------------

// A balanced tree keeps many values alive at once, a chain none; both with
// more operands than there are pointers.
static void long_expressions(void **state)
{
    (void)state;
    skip_without_kernels();
    static problem q;
    for (int i = 0; i < 60; i++) {
        memset(&q, 0, sizeof q);
        int tree = pick(2), n_in = 1 + pick(MAX_AT - 1), n = 0;
        int leaves = tree ? 16 << pick(4) : 300 + pick(300);
        q.rows = 1 + pick(3);
        q.cols = 1 + pick(90);
        q.low = -(q.high = 1);
        q.s.compute = pick(2) ? DV_F32 : DV_F64;
        q.s.n_operands = (uint16_t)(n_in + 1);
        for (int k = 0; k <= n_in; k++)
            set_strides(&q, k, q.s.compute);
        for (int k = 0; k < leaves; k++) {
            q.n[n] = load_node(k % n_in);
            if (k % 5 == 4)
                q.n[n] = (dv_vec_node){.kind = DV_VEC_CONST, .value = k / 7.0};
            n++;
            static const dv_fn mix[] = {DV_FN_ADD, DV_FN_SUB, DV_FN_MAX};
            if (!tree && k) {
                q.n[n] = apply_node(mix[pick(3)], n - 2, n - 1, 0);
                n++;
            }
        }
        for (int first = 0, m = leaves; tree && m > 1; m /= 2) {
            for (int k = 0; k < m; k += 2)
                q.n[n++] = apply_node(k % 4 ? DV_FN_ADD : DV_FN_MUL, first + k,
                                      first + k + 1, 0);
            first += m;
        }
        q.s.n_nodes = (uint16_t)n;
        q.s.result = (uint16_t)(n - 1);
        solve(&q, 0, 0, tree ? "tree" : "chain");
    }
}

// Functions inside each other, invariants of the row among them.
static void nested(void **state)
{
    (void)state;
    skip_without_kernels();
    static problem q;
    for (int i = 0; i < 80; i++) {
        memset(&q, 0, sizeof q);
        q.rows = 1 + pick(4);
        q.cols = 1 + pick(90);
        q.low = 0.2;
        q.high = 2;
        q.s.compute = i % 2 ? DV_F32 : DV_F64;
        q.s.n_operands = 4;
        for (int k = 0; k < 4; k++)
            set_strides(&q, k, q.s.compute);
        q.o[1].inner = 0;
        q.o[1].outer = 1;
        q.o[2].inner = q.o[2].outer = 0;
        for (int k = 0; k < 3; k++)
            q.n[k] = load_node(k);
        q.n[3] = apply_node(DV_FN_RSQRT, 1, 0, 0); // of the row
        q.n[4] = apply_node(DV_FN_SIGMOID, 2, 0, 0);
        q.n[5] = apply_node(DV_FN_MUL, 0, 3, 0);
        q.n[6] = apply_node(DV_FN_TANH, 5, 0, 0);
        q.n[7] = apply_node(DV_FN_EXP, 6, 0, 0);
        q.n[8] = apply_node(DV_FN_LT, 0, 4, 0);
        q.n[9] = apply_node(DV_FN_LOG, 7, 0, 0);
        q.n[10] = apply_node(DV_FN_ERF, 9, 0, 0);
        q.n[11] = apply_node(DV_FN_SELECT, 8, 7, 10);
        q.n[12] = apply_node(DV_FN_ADD, 11, 8, 0);
        q.s.n_nodes = 13;
        q.s.result = 12;
        solve(&q, 8, 1, "nested");
    }
}

// What is written may be what is read, element for element.
static void in_place(void **state)
{
    (void)state;
    skip_without_kernels();
    float x[100], y[100];
    dv_vec_operand o[2] = {{.inner = 1, .dtype = DV_F32},
                           {.inner = 1, .dtype = DV_F32}};
    dv_vec_node n[2] = {load_node(0), apply_node(DV_FN_MUL, 0, 0, 0)};
    dv_vec_shape s = {.operands = o,
                      .nodes = n,
                      .n_operands = 2,
                      .n_nodes = 2,
                      .result = 1,
                      .compute = DV_F32};
    dv_vec_fn fn, again;
    assert_int_equal(dv_jit_vec(jit, &s, &fn, NULL), DV_OK);
    assert_int_equal(dv_jit_vec(jit, &s, &again, NULL), DV_OK);
    assert_true(fn == again);
    for (int cols = 1; cols <= 100; cols++) {
        for (int i = 0; i < 100; i++)
            x[i] = y[i] = (float)(i + 1);
        fn(&(dv_vec_args){1, cols, (void *[]){x, x}, NULL});
        for (int i = 0; i < 100; i++)
            assert_true(x[i] == (i < cols ? y[i] * y[i] : y[i]));
    }
}

// -- What is refused, and names ----------------------------------------------

static void refused(void **state)
{
    (void)state;
    skip_without_kernels();
    dv_vec_operand o[2] = {{.inner = 1, .dtype = DV_F32},
                           {.inner = 1, .dtype = DV_F32}};
    dv_vec_node n[2] = {load_node(0), apply_node(DV_FN_EXP, 0, 0, 0)};
    const dv_vec_shape good = {.operands = o,
                               .nodes = n,
                               .n_operands = 2,
                               .n_nodes = 2,
                               .result = 1,
                               .compute = DV_F32};
    dv_vec_shape s = good;
    dv_vec_fn fn;
    s.compute = DV_F16;
    assert_int_equal(dv_jit_vec(jit, &s, &fn, NULL), DV_E_DTYPE);
    s = good;
    s.result = 2;
    assert_int_equal(dv_jit_vec(jit, &s, &fn, NULL), DV_E_SHAPE);
    s = good;
    s.to_acc = 1;
    assert_int_equal(dv_jit_vec(jit, &s, &fn, NULL), DV_E_SHAPE);
    s = good;
    s.reduce = DV_VEC_INNER; // but what is written moves along
    assert_int_equal(dv_jit_vec(jit, &s, &fn, NULL), DV_E_SHAPE);
    s = good;
    o[0].inner = (int64_t)DV_VEC_MAX_STRIDE + 1;
    assert_int_equal(dv_jit_vec(jit, &s, &fn, NULL), DV_E_LIMIT);
    o[0].inner = 1;
    o[0].dtype = DV_I32;
    assert_int_equal(dv_jit_vec(jit, &s, &fn, NULL), DV_E_DTYPE);
    s.compute = o[1].dtype = DV_I32; // exp of integers
    assert_int_equal(dv_jit_vec(jit, &s, &fn, NULL), DV_E_DTYPE);
    o[0].dtype = o[1].dtype = DV_F32;
    s = good;
    n[1].arg[0] = 1; // of itself
    assert_int_equal(dv_jit_vec(jit, &s, &fn, NULL), DV_E_SHAPE);
    n[1].arg[0] = 0;
    n[0].arg[0] = 2;
    assert_int_equal(dv_jit_vec(jit, &s, &fn, NULL), DV_E_SHAPE);
    n[0].arg[0] = 0;
    assert_int_equal(dv_jit_vec(jit, &s, &fn, NULL), DV_OK);
    dv_text list = {0};
    dv_jit_list(jit, &list);
    assert_non_null(strstr(list.at, "vec_f32_each_exp: # "));
    dv_text_free(&list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions),   cmocka_unit_test(integers),
        cmocka_unit_test(mixed_types), cmocka_unit_test(reductions),
        cmocka_unit_test(parts),       cmocka_unit_test(long_expressions),
        cmocka_unit_test(nested),      cmocka_unit_test(in_place),
        cmocka_unit_test(refused)};
    values = malloc(DV_VEC_MAX_NODES * sizeof *values);
    int failed = cmocka_run_group_tests(tests, set_up, tear_down);
    free(values);
    return failed;
}
