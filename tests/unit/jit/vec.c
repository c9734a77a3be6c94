// Kernels of whole statements compared with plain loops: every function and
// type, all remainders and strides, with operands that begin and end at pages
// that may not be touched.
#define _GNU_SOURCE
#include "harness/vec_case.h"

// -- Functions ---------------------------------------------------------------

static const struct {
    unsigned element, compute;
} types[] = {{DV_F32, DV_F32}, {DV_F16, DV_F32}, {DV_BF16, DV_F32},
             {DV_F64, DV_F64}, {DV_F32, DV_F64}, {DV_F16, DV_F64},
             {DV_BF16, DV_F64}};
enum { N_TYPES = sizeof types / sizeof *types };

static int is_math(int fn)
{
    return dv_fn_get((dv_fn)fn)->ulps > 1 && fn != DV_FN_SQRT;
}

// In f64 the plain formula of gelu, the reference, is inexact in its tail.
static double tolerance(int fn, unsigned compute)
{
    if (fn == DV_FN_GELU)
        return compute == DV_F32 ? 4 : 100;
    return fn == DV_FN_SILU ? 4 : is_math(fn) ? 3 : 0;
}

static void function(int fn, int t, int64_t rows, int64_t cols)
{
    static vec_problem q;
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
        if (n > 1 && pick(4) == 0) // constant along a row, a column or both
            q.o[i].inner = 0, q.o[i].outer = pick(2);
        else if (n > 1 && pick(5) == 0)
            q.n[i] =
                (dv_vec_node){.kind = DV_VEC_CONST, .value = vec_input(&q)};
    }
    q.n[n] = apply_node((dv_fn)fn, 0, n > 1, n > 2 ? 2 : 0);
    q.s.n_operands = (uint16_t)(n + 1);
    q.s.n_nodes = (uint16_t)(n + 1);
    q.s.result = (uint16_t)n;
    // The error of gelu in f32 is relative to x; silu is inexact where e^x is
    // subnormal.
    double scale = fn == DV_FN_GELU && q.s.compute == DV_F32 ? 5
                   : fn == DV_FN_SILU ? (q.s.compute == DV_F32 ? 1e-35 : 1e-304)
                                      : 0;
    vec_solve(&q, tolerance(fn, q.s.compute), scale,
              dv_fn_get((dv_fn)fn)->text);
}

TEST(functions)
{
    skip_without_kernels();
    for (int fn = 0; fn < DV_N_FNS; fn++)
        for (int t = 0; t < N_TYPES; t++) {
            if (!dv_vec_stores((dv_dtype)types[t].element,
                               (dv_dtype)types[t].compute) ||
                !dv_vec_has((dv_fn)fn, (dv_dtype)types[t].compute))
                continue;
            for (int cols = 1; cols <= 70;
                 cols += cols < 20 ? 1 + pick(2 * SHARE - 1) : 7 * SHARE)
                function(fn, t, 1 + pick(3), cols);
        }
}

// -- Integers ----------------------------------------------------------------

TEST(integers)
{
    skip_without_kernels();
    static const int fns[] = {DV_FN_LT,  DV_FN_LE,  DV_FN_GT,    DV_FN_GE,
                              DV_FN_EQ,  DV_FN_NE,  DV_FN_ADD,   DV_FN_SUB,
                              DV_FN_MUL, DV_FN_NEG, DV_FN_RELU,  DV_FN_ABS,
                              DV_FN_MIN, DV_FN_MAX, DV_FN_SELECT};
    static vec_problem q;
    for (int k = 0; k < 15; k++)
        for (int cols = 1; cols <= 40; cols += 1 + pick(2 * SHARE - 1)) {
            int fn = fns[k], n = dv_fn_get((dv_fn)fn)->n_args;
            memset(&q, 0, sizeof q);
            q.rows = 2;
            q.cols = cols;
            q.low = -(q.high = pick(2) ? 9 : 20000);
            q.s.compute = DV_I32;
            for (int i = 0; i <= n; i++) {
                set_strides(&q, i, pick(2) ? DV_I32 : pick(2) ? DV_I8 : DV_U8);
                q.n[i] = load_node(i);
            }
            q.n[n] = apply_node((dv_fn)fn, 0, n > 1, n > 2 ? 2 : 0);
            q.s.n_operands = q.s.n_nodes = (uint16_t)(n + 1);
            q.s.result = (uint16_t)n;
            vec_solve(&q, 0, 0, dv_fn_get((dv_fn)fn)->text);
        }
}

// Operands of all types in one statement.
TEST(mixed_types)
{
    skip_without_kernels();
    static vec_problem q;
    for (int i = 0; i < 200 / SHARE; i++) {
        memset(&q, 0, sizeof q);
        q.rows = 1 + pick(3);
        q.cols = 1 + pick(40);
        q.low = -(q.high = 20);
        q.s.compute = pick(2) ? DV_F64 : DV_F32;
        q.s.n_operands = 4;
        for (int k = 0; k < 4; k++) {
            unsigned t;
            do
                t = (unsigned)pick(DV_BOOL + 1);
            while (!(k < 3 ? dv_vec_loads((dv_dtype)t, q.s.compute)
                           : dv_vec_stores((dv_dtype)t, q.s.compute)));
            set_strides(&q, k, t);
            q.n[k] = load_node(k);
        }
        q.n[3] = apply_node(DV_FN_MUL, 0, 1, 0);
        q.n[4] = apply_node(DV_FN_SUB, 3, 2, 0);
        q.s.n_nodes = 5;
        q.s.result = 4;
        vec_solve(&q, 0, 0, "mixed");
    }
}

// select((a + i) FN 5, x, j): integers in lanes beside floats, and numbers of
// rows and columns.
TEST(integer_lanes)
{
    skip_without_kernels();
    static vec_problem q;
    for (int i = 0; i < 300 / SHARE; i++) {
        memset(&q, 0, sizeof q);
        q.rows = 1 + pick(3);
        q.cols = 1 + pick(150);
        q.low = -(q.high = pick(2) ? 9 : 2e9);
        q.s.compute = DV_F32;
        q.s.n_operands = 5;
        set_strides(&q, 0, DV_F32);
        set_strides(&q, 1, pick(2) ? DV_I32 : pick(2) ? DV_I8 : DV_U8);
        q.o[1].as = DV_VEC_AS_WHOLE;
        if (pick(3) == 0)
            q.o[1].inner = 0;
        for (int k = 2; k < 4; k++)
            q.o[k] = (dv_vec_operand){.dtype = DV_I8,
                                      .as = DV_VEC_AS_INDEX,
                                      .inner = pick(2),
                                      .outer = pick(2)};
        set_strides(&q, 4, DV_F32);
        for (int k = 0; k < 4; k++)
            q.n[k] = load_node(k);
        q.n[4] = (dv_vec_node){.kind = DV_VEC_WHOLE_CONST, .value = 5};
        q.n[5] = (dv_vec_node){
            .kind = DV_VEC_WHOLE, .fn = DV_FN_MIN, .arg = {1, 2, 0}};
        q.n[6] = apply_node((dv_fn)pick(DV_FN_NE + 1), 5, 4, 0);
        q.n[7] = (dv_vec_node){
            .kind = DV_VEC_FLOAT, .arg = {3, 0, 0}, .value = 0x1p24};
        q.n[8] = pick(2) ? apply_node(DV_FN_SELECT, 6, 0, 7)
                         : apply_node(DV_FN_SELECT, 5, 7, 0);
        q.s.n_nodes = 9;
        q.s.result = 8;
        vec_solve(&q, 0, 0, "integer lanes");
    }
}

// Numbers of rows and columns in kernels of f64 and of integers.
TEST(indices)
{
    skip_without_kernels();
    static vec_problem q;
    for (int i = 0; i < 200 / SHARE; i++) {
        int whole = pick(2);
        memset(&q, 0, sizeof q);
        q.rows = 1 + pick(3);
        q.cols = 1 + pick(90);
        q.low = -(q.high = 20);
        q.s.compute = whole ? DV_I32 : DV_F64;
        q.s.n_operands = 3;
        set_strides(&q, 0, whole ? DV_I32 : DV_F64);
        q.o[1] = (dv_vec_operand){.dtype = DV_I8,
                                  .as = DV_VEC_AS_INDEX,
                                  .inner = pick(2),
                                  .outer = pick(2)};
        set_strides(&q, 2, whole ? DV_I32 : DV_F64);
        q.n[0] = load_node(0);
        q.n[1] = load_node(1);
        q.n[2] = whole ? load_node(1)
                       : (dv_vec_node){.kind = DV_VEC_FLOAT, .arg = {1, 0, 0}};
        q.n[3] = apply_node(DV_FN_SUB, 0, 2, 0);
        q.s.n_nodes = 4;
        q.s.result = 3;
        q.s.value = 3;
        vec_solve(&q, 0, 0, "indices");
    }
}

// -- Long ones ---------------------------------------------------------------

// A balanced tree has many live values, a chain one; both have more operands
// than there are pointers.
TEST(long_expressions)
{
    skip_without_kernels();
    static vec_problem q;
    for (int i = 0; i < 60 / SHARE; i++) {
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
        vec_solve(&q, 0, 0, tree ? "tree" : "chain");
    }
}

// Functions inside functions, with values that are constant along a row among
// them.
TEST(nested)
{
    skip_without_kernels();
    static vec_problem q;
    for (int i = 0; i < 80 / SHARE; i++) {
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
        q.n[3] = apply_node(DV_FN_RSQRT, 1, 0, 0); // constant along a row
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
        vec_solve(&q, 8, 1, "nested");
    }
}

// The result may overwrite an operand, element by element.
TEST(in_place)
{
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
    assert_int_equal(dv_jit_vec(test_jit, &s, &fn, NULL), DV_OK);
    assert_int_equal(dv_jit_vec(test_jit, &s, &again, NULL), DV_OK);
    assert_true(fn == again);
    for (int cols = 1; cols <= 100; cols++) {
        for (int i = 0; i < 100; i++)
            x[i] = y[i] = (float)(i + 1);
        fn(&(dv_vec_args){1, cols, (void *[]){x, x}, NULL});
        for (int i = 0; i < 100; i++)
            assert_true(x[i] == (i < cols ? y[i] * y[i] : y[i]));
    }
}

// -- Rounding and signs ------------------------------------------------------

// Stores x * 1, computed in f64, as a narrow type.
static void store_as(dv_dtype t, double *x, void *y, int n)
{
    dv_vec_operand o[2] = {{.inner = 1, .dtype = DV_F64},
                           {.inner = 1, .dtype = (uint8_t)t}};
    dv_vec_node node[3] = {load_node(0),
                           {.kind = DV_VEC_CONST, .value = 1},
                           apply_node(DV_FN_MUL, 0, 1, 0)};
    dv_vec_shape s = {.operands = o,
                      .nodes = node,
                      .n_operands = 2,
                      .n_nodes = 3,
                      .result = 2,
                      .compute = DV_F64};
    dv_vec_fn fn;
    assert_int_equal(dv_jit_vec(test_jit, &s, &fn, NULL), DV_OK);
    fn(&(dv_vec_args){1, n, (void *[]){x, y}, NULL});
}

// Numbers halfway between two of a type, and the doubles next to them: they
// must not be rounded to f32 first.
TEST(rounded_once)
{
    skip_without_kernels();
    enum { N = 1023 };
    static const struct {
        dv_dtype t;
        int bits, least; // bits of the significand; exponent of the last bit
    } types_[] = {{DV_F16, 11, -24}, {DV_BF16, 8, -133}, {DV_F32, 24, -149}};
    static double x[N];
    static unsigned char y[4 * N], want[4 * N];
    for (int t = 0; t < 3; t++) {
        if (!dv_vec_stores(types_[t].t, DV_F64))
            continue;
        int es = es_of(types_[t].t);
        for (int i = 0; i < N; i++) {
            int e = pick(2) ? types_[t].least + pick(12)
                            : types_[t].least + pick(40 - 16 * (t == 0));
            x[i] = ldexp(pick(1 << types_[t].bits) + 0.5, e - pick(2));
            x[i] = pick(2) ? x[i] : -x[i];
            if (pick(3))
                x[i] = nextafter(x[i], pick(2) ? INFINITY : -INFINITY);
            if (i % 50 == 0)
                x[i] = i % 100 ? -INFINITY : INFINITY;
            if (i % 50 == 1)
                x[i] = i % 100 == 1 ? 1e300 : -1e-320;
            dv_store(types_[t].t, want, i, x[i]);
        }
        store_as(types_[t].t, x, y, N);
        for (int i = 0; i < N; i++)
            if (memcmp(y + es * i, want + es * i, (size_t)es))
                fail_msg("%a to %s is %a, want %a", x[i],
                         dv_dtype_get(types_[t].t)->name,
                         dv_load(types_[t].t, y, i),
                         dv_load(types_[t].t, want, i));
    }
}

// A number of any size, often one at which conversions to integers change.
static double any_size(void)
{
    static const double edges[] = {0,      0.5,    1,      127.5,  255,
                                   0x1p15, 0x1p16, 0x1p31, 0x1p39, 0x1p52,
                                   0x1p60, 0x1p63, 0x1p68, 1e30};
    enum { N = sizeof edges / sizeof *edges };
    double x = pick(3) ? ldexp(pick(1 << 24), pick(70) - 40) : edges[pick(N)];
    x = pick(3) ? x : nextafter(x, pick(2) ? INFINITY : -INFINITY);
    x = pick(40) ? x : pick(2) ? NAN : INFINITY;
    return pick(2) ? x : -x;
}

// Stores x + 0, or x rounded, as an integer; with `limited`, of
// max(-100.75, min(120.25, x)), which takes fewer operations.
static dv_vec_fn whole_kernel(dv_dtype compute, dv_dtype t, int limited,
                              int rounded)
{
    const dv_vec_operand o[2] = {{.inner = 1, .dtype = (uint8_t)compute},
                                 {.inner = 1, .dtype = (uint8_t)t}};
    const dv_vec_node node[] = {
        load_node(0),
        {.kind = DV_VEC_CONST},
        apply_node(rounded ? DV_FN_ROUND : DV_FN_ADD, 0, !rounded, 0),
        {.kind = DV_VEC_CONST, .value = 120.25},
        apply_node(DV_FN_MIN, 3, 2, 0),
        {.kind = DV_VEC_CONST, .value = -100.75},
        apply_node(DV_FN_MAX, 5, 4, 0)};
    dv_vec_shape s = {.operands = o,
                      .nodes = node,
                      .n_operands = 2,
                      .n_nodes = 7,
                      .result = limited ? 6 : 2,
                      .compute = (uint8_t)compute};
    dv_vec_fn fn;
    assert_int_equal(dv_jit_vec(test_jit, &s, &fn, NULL), DV_OK);
    return fn;
}

static void store_whole(dv_dtype compute, dv_dtype t, int limited, int rounded)
{
    enum { N = 75 };
    static float narrow[N];
    static double wide[N];
    unsigned char y[2 * N], want[2 * N];
    int n = 1 + pick(N), es = es_of(t);
    for (int i = 0; i < n; i++) {
        narrow[i] = (float)(wide[i] = any_size());
        double x = compute == DV_F32 ? (double)narrow[i] : wide[i];
        x = rounded ? nearbyint(x) : x;
        if (limited && !isnan(x))
            x = fmax(-100.75, fmin(120.25, x));
        dv_store(t, want, i, x);
    }
    void *at[] = {compute == DV_F32 ? (void *)narrow : (void *)wide, y};
    whole_kernel(compute, t, limited, rounded)(&(dv_vec_args){1, n, at, NULL});
    for (int i = 0; i < n; i++)
        if (memcmp(y + es * i, want + es * i, (size_t)es))
            fail_msg("%a of %s to %s, limited %d, is %g, want %g",
                     compute == DV_F32 ? (double)narrow[i] : wide[i],
                     dv_dtype_get(compute)->name, dv_dtype_get(t)->name,
                     limited, dv_load(t, y, i), dv_load(t, want, i));
}

TEST(stored_as_integers)
{
    skip_without_kernels();
    static const dv_dtype to[] = {DV_I8, DV_U8, DV_I16, DV_U16};
    for (int i = 0; i < 2000 / SHARE; i++)
        store_whole(pick(2) ? DV_F64 : DV_F32, to[pick(4)], pick(2), pick(2));
}

// Of -0 and 0, min returns -0 and max returns 0; nan stays.
TEST(signed_zeros)
{
    skip_without_kernels();
    float a[] = {-0.0f, 0.0f, -0.0f, 0.0f, NAN, 1, -1, NAN, -2};
    float b[] = {0.0f, -0.0f, -0.0f, 0.0f, 1, NAN, -0.0f, NAN, -3}, y[9];
    static const dv_fn fns[] = {DV_FN_MIN, DV_FN_MAX, DV_FN_RELU};
    dv_vec_operand o[3] = {{.inner = 1, .dtype = DV_F32},
                           {.inner = 1, .dtype = DV_F32},
                           {.inner = 1, .dtype = DV_F32}};
    for (int k = 0; k < 3; k++) {
        dv_vec_node n[3] = {load_node(0), load_node(1),
                            apply_node(fns[k], 0, k < 2, 0)};
        dv_vec_shape s = {.operands = o,
                          .nodes = n,
                          .n_operands = 3,
                          .n_nodes = 3,
                          .result = 2,
                          .compute = DV_F32};
        dv_vec_fn fn;
        assert_int_equal(dv_jit_vec(test_jit, &s, &fn, NULL), DV_OK);
        fn(&(dv_vec_args){1, 9, (void *[]){a, b, y}, NULL});
        for (int i = 0; i < 9; i++) {
            float c = k < 2 ? b[i] : 0, want = k ? fmaxf(a[i], c) : 0;
            want = k ? want : fminf(a[i], c);
            if (isnan(a[i]) || isnan(c)) {
                assert_true(isnan(y[i]));
                continue;
            }
            assert_true(y[i] == want);
            int minus =
                k ? signbit(a[i]) && signbit(c) : signbit(a[i]) || signbit(c);
            if (want == 0)
                assert_int_equal(!!signbit(y[i]), !!minus);
        }
    }
}

// -- What is refused, and names ----------------------------------------------

TEST(refused)
{
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
    assert_int_equal(dv_jit_vec(test_jit, &s, &fn, NULL), DV_E_DTYPE);
    s = good;
    s.result = 2;
    assert_int_equal(dv_jit_vec(test_jit, &s, &fn, NULL), DV_E_SHAPE);
    s = good;
    s.to_acc = 1;
    assert_int_equal(dv_jit_vec(test_jit, &s, &fn, NULL), DV_E_SHAPE);
    s = good;
    s.reduce = DV_VEC_INNER; // but the result has a stride in the reduced loop
    assert_int_equal(dv_jit_vec(test_jit, &s, &fn, NULL), DV_E_SHAPE);
    s = good;
    o[0].inner = (int64_t)DV_VEC_MAX_STRIDE + 1;
    assert_int_equal(dv_jit_vec(test_jit, &s, &fn, NULL), DV_E_LIMIT);
    o[0].inner = 1;
    o[0].dtype = DV_I64;
    assert_int_equal(dv_jit_vec(test_jit, &s, &fn, NULL), DV_E_DTYPE);
    s.compute = o[0].dtype = o[1].dtype = DV_I32; // exp of integers
    assert_int_equal(dv_jit_vec(test_jit, &s, &fn, NULL), DV_E_DTYPE);
    o[0].dtype = o[1].dtype = DV_F32;
    s = good;
    n[1].arg[0] = 1; // of itself
    assert_int_equal(dv_jit_vec(test_jit, &s, &fn, NULL), DV_E_SHAPE);
    n[1].arg[0] = 0;
    n[0].arg[0] = 2;
    assert_int_equal(dv_jit_vec(test_jit, &s, &fn, NULL), DV_E_SHAPE);
    n[0].arg[0] = 0;
    assert_int_equal(dv_jit_vec(test_jit, &s, &fn, NULL), DV_OK);
    dv_jit
        *own; // a JIT of its own, because the listing of many kernels is long
    assert_int_equal(dv_jit_create(&own, NULL), DV_OK);
    assert_int_equal(dv_jit_vec(own, &s, &fn, NULL), DV_OK);
    dv_text list = {0};
    dv_jit_list(own, &list, NULL, NULL);
    assert_non_null(strstr(list.at, "vec_f32_each_exp: # "));
    dv_text_free(&list);
    dv_jit_destroy(own);
}

// -- Plans of earlier kernels ------------------------------------------------

enum { MOST_CODE = 1 << 17 };

static size_t written(const dv_vec_isa *isa, const dv_vec_shape *s,
                      dv_vec_plan_cache *plans, unsigned char *out)
{
    uint64_t key[DV_VEC_MAX_CACHED_KEY];
    int n = dv_vec_key_words(s);
    dv_code code = {.at = out, .cap = MOST_CODE};
    assert_true(n <= DV_VEC_MAX_CACHED_KEY);
    dv_vec_key(s, key);
    assert_true(dv_vec_generate(plans, isa, s, key, n, &code));
    assert_false(code.failed);
    return code.n;
}

// With the plans of earlier statements the code is the same as alone. Returns
// whether one of them was used.
static int try_plans(const dv_vec_isa *isa, const dv_vec_shape *s,
                     dv_vec_plan_cache *plans)
{
    static unsigned char alone[MOST_CODE], after[MOST_CODE];
    dv_vec_plan_cache none = {0};
    uint32_t made = plans->made;
    size_t n = written(isa, s, &none, alone);
    assert_int_equal(written(isa, s, plans, after), n);
    assert_memory_equal(alone, after, n);
    dv_vec_plan_cache_free(&none);
    return plans->made == made;
}

static const int64_t steps[] = {0, 1, 1, 1, 7, 64, -3, 100000};

static int64_t pick_step(int64_t like)
{
    int64_t step = like;
    while (step == like && like != 0 && like != 1)
        step = steps[4 + pick(4)];
    return step;
}

static void random_statement(vec_problem *q)
{
    int n = 1 + pick(3);
    memset(q, 0, sizeof *q);
    q->s.compute = pick(2) ? DV_F32 : DV_F64;
    q->s.reduce = (uint8_t)pick(4);
    for (int i = 0; i <= n; i++)
        q->o[i] = (dv_vec_operand){.inner = steps[pick(8)],
                                   .outer = steps[pick(8)],
                                   .dtype = q->s.compute};
    dv_vec_operand *to = &q->o[n];
    to->inner = q->s.reduce == DV_VEC_INNER || q->s.reduce == DV_VEC_BOTH
                    ? 0
                    : pick_step(7);
    to->outer = q->s.reduce == DV_VEC_OUTER || q->s.reduce == DV_VEC_BOTH
                    ? 0
                    : pick_step(7);
    for (int i = 0; i < n; i++)
        q->n[i] = load_node(i);
    for (int i = n; i < 2 * n + 2; i++)
        q->n[i] = apply_node((dv_fn)pick(DV_FN_SELECT + 1), pick(i), pick(i),
                             pick(i));
    q->n[2 * n + 2] = (dv_vec_node){.kind = DV_VEC_REDUCED};
    q->s.operands = q->o;
    q->s.nodes = q->n;
    q->s.n_operands = (uint16_t)(n + 1);
    q->s.n_nodes = (uint16_t)(2 * n + 2 + !!q->s.reduce);
    q->s.value = (uint16_t)(2 * n + 1);
    q->s.result = (uint16_t)(q->s.n_nodes - 1);
    q->s.from_acc = q->s.reduce && pick(3) == 0;
}

// Statements that differ in strides from the ones before.
TEST(plans_for_strides)
{
    static vec_problem q;
    for (int i = 0; i < dv_n_isas; i++) {
        const dv_vec_isa *isa = dv_backend_vec(&dv_isas[i]);
        dv_vec_plan_cache plans = {0};
        int times = 0;
        for (int t = 0; isa && t < 200 / SHARE; t++) {
            if (t % 4 == 0)
                random_statement(&q);
            for (int o = 0; t % 4 && o < q.s.n_operands; o++) {
                q.o[o].inner = pick_step(q.o[o].inner);
                q.o[o].outer = q.o[o].outer ? pick_step(7) : 0;
                q.o[o].ahead = pick(3) * 16;
            }
            if (t % 4 ==
                3) { // one operand stays where it is, or no longer does
                dv_vec_operand *o = &q.o[pick(q.s.n_operands - 1)];
                o->outer = o->outer ? 0 : 7;
            }
            times += try_plans(isa, &q.s, &plans);
        }
        assert_true(!isa || times >= 75 / SHARE); // of 100
        dv_vec_plan_cache_free(&plans);
    }
}

// Makes a sum of all operands but the last: more than there are pointers.
static void wide_statement(vec_problem *q, dv_vec_operand *o,
                           dv_vec_node *nodes, int n, int reduce)
{
    memset(q, 0, sizeof *q);
    int last = 2 * n - 2, fold = reduce != DV_VEC_EACH;
    for (int i = 0; i < n; i++) {
        nodes[i] = load_node(i);
        o[i] = (dv_vec_operand){.inner = 1, .outer = 900, .dtype = DV_F32};
    }
    o[n] = (dv_vec_operand){
        .inner = reduce != DV_VEC_INNER && reduce != DV_VEC_BOTH,
        .outer = reduce == DV_VEC_EACH || reduce == DV_VEC_INNER,
        .dtype = DV_F32};
    for (int i = n; i <= last; i++)
        nodes[i] = apply_node(DV_FN_ADD, i == n ? 0 : i - 1, i - n + 1, 0);
    nodes[last + 1] = (dv_vec_node){.kind = DV_VEC_REDUCED};
    q->s = (dv_vec_shape){.operands = o, .nodes = nodes};
    q->s.n_operands = (uint16_t)(n + 1);
    q->s.n_nodes = (uint16_t)(last + 1 + fold);
    q->s.value = (uint16_t)last;
    q->s.result = (uint16_t)(last + fold);
    q->s.compute = DV_F32;
    q->s.reduce = (uint8_t)reduce;
}

// Changes the rows of each operand in turn, for one statement and for two side
// by side.
TEST(plans_for_rows)
{
    enum { MOST = 14 };
    static const int64_t far[] = {1, -3, 5000000};
    static vec_problem q[2];
    static dv_vec_operand o[2][MOST + 1];
    static dv_vec_node nodes[2][2 * MOST + 1];
    for (int t = 0; t < dv_n_isas * 4 * MOST; t++) {
        const dv_vec_isa *isa = dv_backend_vec(&dv_isas[t % dv_n_isas]);
        int reduce = t / dv_n_isas % 4;
        int n = 2 + t / dv_n_isas / 4 % (MOST - 1), two = n < 8 && reduce < 2;
        dv_vec_plan_cache plans = {0};
        for (int k = 0; k < 2; k++)
            wide_statement(&q[k], o[k], nodes[k], n, reduce);
        q[0].s.beside = two ? &q[1].s : NULL;
        assert_false(try_plans(isa, &q[0].s, &plans));
        for (int i = 0; i < (1 + two) * n; i++)
            for (size_t f = 0; f < sizeof far / sizeof *far; f++) {
                o[i / n][i % n].outer = far[f];
                assert_true(try_plans(isa, &q[0].s, &plans));
            }
        o[0][0].ahead = 64;
        assert_true(try_plans(isa, &q[0].s, &plans));
        o[0][0].inner = 3; // no longer dense
        assert_false(try_plans(isa, &q[0].s, &plans));
        dv_vec_plan_cache_free(&plans);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions),      cmocka_unit_test(integers),
        cmocka_unit_test(mixed_types),    cmocka_unit_test(integer_lanes),
        cmocka_unit_test(indices),        cmocka_unit_test(long_expressions),
        cmocka_unit_test(nested),         cmocka_unit_test(in_place),
        cmocka_unit_test(rounded_once),   cmocka_unit_test(stored_as_integers),
        cmocka_unit_test(signed_zeros),   cmocka_unit_test(plans_for_strides),
        cmocka_unit_test(plans_for_rows), cmocka_unit_test(refused)};
    int code = run_group(tests, jit_set_up, jit_tear_down);
    return code;
}
