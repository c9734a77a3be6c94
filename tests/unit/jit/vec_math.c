// Errors of the vector functions, compared with the C library in a wider type:
// f32 over all bit patterns with a stride, f64 on many points and all special
// ones.
//
//   unit_jit_vec_math      a prime stride over the bit patterns of f32
//   unit_jit_vec_math 1    all of them
//   unit_jit_vec_math -t   also prints the table of docs/language.md, for the
//                          instruction set that DIVVY_CPU chooses
#include "harness/kernels.h"
#include "ir/program.h"
#include "jit/backend.h"
#include "kernel/kernel.h"
#include "jit/vec/vec.h"
#include <float.h>
#include <math.h>

enum { CHUNK = 4096 };

// Prime strides, and numbers of f64 points; fewer in emulators, which are slow.
#ifdef DV_EMULATED
static uint32_t stride = 31337;
enum { OFTEN = 251, SOME = 1 << 16 };
#else
static uint32_t stride = 7919;
enum { OFTEN = 61, SOME = 1 << 18 };
#endif

// The bounds, in units in the last place of the result. That of gelu in f32 is
// relative to x instead; that of silu holds as long as e^x is not subnormal.
static const struct {
    dv_fn fn;
    double f32, f64;
} bounds[] = {
    {DV_FN_EXP, 1.7, 2},     {DV_FN_LOG, 1, 2},      {DV_FN_TANH, 2, 4},
    {DV_FN_ERF, 2, 4},       {DV_FN_SQRT, 0.5, 0.5}, {DV_FN_RSQRT, 1.5, 1.5},
    {DV_FN_SIGMOID, 2.5, 3}, {DV_FN_SILU, 3.5, 4},   {DV_FN_GELU, 4, 10},
    {DV_FN_EXP2, 2, 4},      {DV_FN_LOG2, 2, 4},     {DV_FN_EXPM1, 2, 4},
    {DV_FN_LOG1P, 2, 4},     {DV_FN_FLOOR, 0, 0},    {DV_FN_CEIL, 0, 0},
    {DV_FN_ROUND, 0, 0},     {DV_FN_TRUNC, 0, 0},    {DV_FN_SIGN, 0, 0},
    {DV_FN_SINH, 2, 4},      {DV_FN_COSH, 2, 4},     {DV_FN_ASIN, 2, 4},
    {DV_FN_ACOS, 2, 4},      {DV_FN_ATAN, 2, 4},     {DV_FN_ASINH, 2, 4},
    {DV_FN_ACOSH, 2, 4},     {DV_FN_ATANH, 2, 4},    {DV_FN_SIN, 2, 4},
    {DV_FN_COS, 2, 4},       {DV_FN_TAN, 2, 4}};
enum { N_BOUNDS = sizeof bounds / sizeof *bounds };

// The largest errors that were found, in f32 and f64.
static double measured[DV_N_FNS][2];

static long double wide(dv_fn fn, long double x)
{
    switch (fn) {
    case DV_FN_EXP:
        return expl(x);
    case DV_FN_LOG:
        return logl(x);
    case DV_FN_TANH:
        return tanhl(x);
    case DV_FN_ERF:
        return erfl(x);
    case DV_FN_SQRT:
        return sqrtl(x);
    case DV_FN_RSQRT:
        return 1 / sqrtl(x);
    case DV_FN_SIGMOID:
        return 1 / (1 + expl(-x));
    case DV_FN_SILU:
        return x / (1 + expl(-x));
    case DV_FN_EXP2:
        return exp2l(x);
    case DV_FN_LOG2:
        return log2l(x);
    case DV_FN_EXPM1:
        return expm1l(x);
    case DV_FN_LOG1P:
        return log1pl(x);
    case DV_FN_SINH:
        return sinhl(x);
    case DV_FN_COSH:
        return coshl(x);
    case DV_FN_SIN:
        return sinl(x);
    case DV_FN_COS:
        return cosl(x);
    case DV_FN_TAN:
        return tanl(x);
    case DV_FN_ASIN:
        return asinl(x);
    case DV_FN_ACOS:
        return acosl(x);
    case DV_FN_ATAN:
        return atanl(x);
    case DV_FN_ASINH:
        return asinhl(x);
    case DV_FN_ACOSH:
        return acoshl(x);
    case DV_FN_ATANH:
        return atanhl(x);
    case DV_FN_FLOOR:
    case DV_FN_CEIL:
    case DV_FN_ROUND:
    case DV_FN_TRUNC:
    case DV_FN_SIGN:
        return (long double)dv_fn_apply(fn, (double)x, 0, 0);
    default:
        return 0.5L * x * erfcl(x * -0.707106781186547524400844362104849039L);
    }
}

static dv_vec_fn kernel(dv_fn fn, dv_dtype t)
{
    dv_vec_operand o[2] = {{.inner = 1, .dtype = (uint8_t)t},
                           {.inner = 1, .dtype = (uint8_t)t}};
    dv_vec_node n[2] = {{.kind = DV_VEC_LOAD},
                        {.kind = DV_VEC_APPLY, .fn = (uint8_t)fn}};
    dv_vec_shape s = {.operands = o,
                      .nodes = n,
                      .n_operands = 2,
                      .n_nodes = 2,
                      .result = 1,
                      .compute = (uint8_t)t};
    dv_vec_fn out;
    assert_int_equal(dv_jit_vec(test_jit, &s, &out, NULL), DV_OK);
    return out;
}

// -- f32 ---------------------------------------------------------------------

// Returns the distance between floats around |v|, subnormal ones included.
static double ulp_f32(double v)
{
    int e;
    frexp(v, &e);
    return ldexp(1, (v == 0 || e < -125 ? -125 : e) - 24);
}

static double error_f32(dv_fn fn, float x, float y, double want)
{
    double size = fabs(want);
    if (fn == DV_FN_GELU)
        size = fmax(size, fabs((double)x));
    if (fn == DV_FN_SILU)
        size = fmax(size, 1e-35);
    if (isnan(want) || isnan(y))
        return isnan(want) && isnan(y) ? 0 : INFINITY;
    if ((double)y == want || y == (float)want)
        return fabs((double)y - want) <= 0.5 * ulp_f32(size)
                   ? fabs((double)y - want) / ulp_f32(size)
                   : 0; // the reference may exceed the largest float
    if (isinf(y) || isinf(want))
        return INFINITY;
    return fabs((double)y - want) / ulp_f32(size);
}

typedef struct largest {
    double error, at;
} largest;

// Measures the bit patterns from one to another, all or some.
static largest sweep_f32(dv_fn fn, double bound, uint64_t from, uint64_t to,
                         uint32_t by)
{
    static float x[CHUNK], y[CHUNK];
    dv_vec_fn run = kernel(fn, DV_F32);
    largest w = {0, 0};
    while (from <= to) {
        int n = 0;
        for (; n < CHUNK && from <= to; from += by, n++) {
            uint32_t bits = (uint32_t)from;
            memcpy(&x[n], &bits, sizeof bits);
        }
        run(&(dv_vec_args){1, n, (void *[]){x, y}, NULL});
        for (int i = 0; i < n; i++) {
            double want = dv_fn_apply(fn, (double)x[i], 0, 0);
            double e = error_f32(fn, x[i], y[i], want);
            if (e > w.error)
                w = (largest){e, (double)x[i]};
            if (e > bound)
                fail_msg("%s(%a) is %a, want %a: %g ulp", dv_fn_get(fn)->text,
                         (double)x[i], (double)y[i], want, e);
        }
    }
    return w;
}

// A few of all patterns, and more of those from 1/4 to 4, where functions
// change from one formula to another: the largest errors are rare.
static void one_f32(dv_fn fn, double bound)
{
    enum { QUARTER = 0x3e800000, FOUR = 0x40800000 };
    largest w = sweep_f32(fn, bound, 0, UINT32_MAX, stride);
    if (stride > OFTEN) {
        largest v = sweep_f32(fn, bound, QUARTER, FOUR, OFTEN);
        w = v.error > w.error ? v : w;
    }
    measured[fn][0] = w.error;
    print_message("f32 %-8s %.3f ulp at %.9g\n", dv_fn_get(fn)->text, w.error,
                  w.at);
}

TEST(f32)
{
    // Points where the error of erf was 2.02, found among all patterns, and
    // where it is largest now.
    static const uint32_t far[] = {0x3f6bcdcf, 0x3f846693};
    skip_without_kernels();
    for (int i = 0; i < N_BOUNDS; i++)
        one_f32(bounds[i].fn, bounds[i].f32);
    for (int i = 0; i < 2; i++)
        sweep_f32(DV_FN_ERF, 2, far[i], far[i], 1);
}

// -- f64 ---------------------------------------------------------------------

// Returns any bit pattern, a number around 1, or one where a function changes.
static double point(uint64_t i)
{
    static const double edges[] = {0,
                                   -0.0,
                                   1,
                                   -1,
                                   INFINITY,
                                   -INFINITY,
                                   709.78271289338397,
                                   709.79,
                                   -708.4,
                                   -744.4,
                                   -745.2,
                                   -746,
                                   0x1p-1022,
                                   0x1p-1074,
                                   DBL_MAX,
                                   0.3465,
                                   20,
                                   40,
                                   5.9,
                                   6.1,
                                   -38.5,
                                   -37.5,
                                   0.70711,
                                   1.4142,
                                   8.6,
                                   -39};
    enum { N_EDGES = sizeof edges / sizeof *edges };
    double v, u = (double)(rnd() >> 11) * 0x1p-53;
    uint64_t bits = rnd();
    if (i < N_EDGES)
        return edges[i];
    switch (i % 5) {
    case 0:
        memcpy(&v, &bits, sizeof v);
        return v;
    case 1:
        return edges[i % N_EDGES] * (1 + (u - 0.5) * 0x1p-40);
    case 2:
        return (u - 0.5) * 3;
    case 3:
        return (u - 0.5) * 90;
    default:
        return (u - 0.5) * 1500;
    }
}

static double ulp_f64(long double v)
{
    int e;
    frexpl(v, &e);
    return ldexp(1, (v == 0 || e < -1021 ? -1021 : e) - 53);
}

static double error_f64(dv_fn fn, double y, long double want)
{
    long double size = fabsl(want);
    if (fn == DV_FN_SILU || fn == DV_FN_GELU)
        size = fmaxl(size, 1e-303L);
    if (isnan(want) || isnan(y))
        return isnan(want) && isnan(y) ? 0 : INFINITY;
    if (isinf(y) || isinf(want) || y == (double)want)
        return y == (double)want ? 0 : INFINITY;
    return (double)(fabsl((long double)y - want) / (long double)ulp_f64(size));
}

static void one_f64(dv_fn fn, double bound, uint64_t points)
{
    static double x[CHUNK], y[CHUNK];
    dv_vec_fn run = kernel(fn, DV_F64);
    double worst = 0, at = 0;
    for (uint64_t done = 0; done < points; done += CHUNK) {
        for (uint64_t i = 0; i < CHUNK; i++)
            x[i] = point(done + i);
        run(&(dv_vec_args){1, CHUNK, (void *[]){x, y}, NULL});
        for (int i = 0; i < CHUNK; i++) {
            long double want = wide(fn, (long double)x[i]);
            double e = error_f64(fn, y[i], want);
            if (e > worst)
                worst = e, at = x[i];
            if (e > bound)
                fail_msg("%s(%a) is %a, want %La: %g ulp", dv_fn_get(fn)->text,
                         x[i], y[i], want, e);
        }
    }
    measured[fn][1] = worst;
    print_message("f64 %-8s %.3f ulp at %.17g\n", dv_fn_get(fn)->text, worst,
                  at);
}

TEST(f64)
{
    skip_without_kernels();
    // If long double is no wider than double, the bound says little.
    for (int i = 0; i < N_BOUNDS; i++)
        one_f64(bounds[i].fn, bounds[i].f64, stride == 1 ? 8 << 20 : SOME);
}

// -- Functions of two arguments ----------------------------------------------

static dv_vec_fn kernel_of_two(dv_fn fn, dv_dtype t)
{
    dv_vec_operand o[3] = {{.inner = 1, .dtype = (uint8_t)t},
                           {.inner = 1, .dtype = (uint8_t)t},
                           {.inner = 1, .dtype = (uint8_t)t}};
    dv_vec_node n[3] = {
        {.kind = DV_VEC_LOAD},
        {.kind = DV_VEC_LOAD, .arg = {1}},
        {.kind = DV_VEC_APPLY, .fn = (uint8_t)fn, .arg = {0, 1}}};
    dv_vec_shape s = {.operands = o,
                      .nodes = n,
                      .n_operands = 3,
                      .n_nodes = 3,
                      .result = 2,
                      .compute = (uint8_t)t};
    dv_vec_fn out;
    assert_int_equal(dv_jit_vec(test_jit, &s, &out, NULL), DV_OK);
    return out;
}

// Returns a special number, any bit pattern, a small whole number, or a number
// around 0 or 1.
static double of_two(void)
{
    static const double special[] = {
        0,      -0.0,   1,       -1,         INFINITY, -INFINITY, NAN,
        2,      -3,     0.5,     0x1p-149,   1e-40,    3e38,      0x1p24,
        0x1p53, -1e300, 8388609, -4194303.0, 1e-320,   7};
    double v, u = (double)(rnd() >> 11) * 0x1p-53;
    uint64_t bits = rnd();
    float f;
    uint32_t word = (uint32_t)bits;
    switch (bits >> 40 & 7) {
    case 0:
        return special[(bits >> 8) % (sizeof special / sizeof *special)];
    case 1:
        memcpy(&v, &bits, sizeof v);
        return v;
    case 2:
        memcpy(&f, &word, sizeof f);
        return (double)f;
    case 3:
        return floor(u * 20) - 10;
    case 4:
        return 1 + (u - 0.5) * 0x1p-8;
    case 5:
        return (u - 0.5) * 300;
    default:
        return u * 4;
    }
}

static long double wide_of_two(dv_fn fn, double x, double y)
{
    if (fn == DV_FN_POW)
        return powl((long double)x, (long double)y);
    if (fn == DV_FN_ATAN2)
        return atan2l((long double)x, (long double)y);
    return (long double)dv_fn_apply(fn, x, y, 0);
}

static void two(dv_fn fn, double bound_f32, double bound_f64)
{
    static float xs[CHUNK], ys[CHUNK], zs[CHUNK];
    static double x[CHUNK], y[CHUNK], z[CHUNK];
    dv_vec_fn in_f32 = kernel_of_two(fn, DV_F32),
              in_f64 = kernel_of_two(fn, DV_F64);
    double worst_f32 = 0, worst_f64 = 0;
    for (int done = 0; done < 2 * SOME; done += CHUNK) {
        for (int i = 0; i < CHUNK; i++) {
            x[i] = of_two(), y[i] = of_two();
            xs[i] = (float)x[i], ys[i] = (float)y[i];
        }
        in_f32(&(dv_vec_args){1, CHUNK, (void *[]){xs, ys, zs}, NULL});
        in_f64(&(dv_vec_args){1, CHUNK, (void *[]){x, y, z}, NULL});
        for (int i = 0; i < CHUNK; i++) {
            long double want = wide_of_two(fn, (double)xs[i], (double)ys[i]);
            double e = error_f32(fn, xs[i], zs[i], (double)want);
            if (e > bound_f32 ||
                (zs[i] == 0 && !signbit(zs[i]) != !signbit((float)want)))
                fail_msg("%s(%a, %a) is %a, want %La: %g ulp",
                         dv_fn_get(fn)->text, (double)xs[i], (double)ys[i],
                         (double)zs[i], want, e);
            worst_f32 = fmax(worst_f32, e);
            want = wide_of_two(fn, x[i], y[i]);
            e = error_f64(fn, z[i], want);
            if (e > bound_f64 ||
                (z[i] == 0 && !signbit(z[i]) != !signbit((double)want)))
                fail_msg("%s(%a, %a) is %a, want %La: %g ulp",
                         dv_fn_get(fn)->text, x[i], y[i], z[i], want, e);
            worst_f64 = fmax(worst_f64, e);
        }
    }
    measured[fn][0] = worst_f32;
    measured[fn][1] = worst_f64;
    print_message("%-8s f32 %.3f ulp, f64 %.3f ulp\n", dv_fn_get(fn)->text,
                  worst_f32, worst_f64);
}

TEST(of_two_arguments)
{
    skip_without_kernels();
    two(DV_FN_POW, 2, 4);
    two(DV_FN_ATAN2, 2, 4);
    two(DV_FN_REM, 0, 0);
    two(DV_FN_MOD, 0.5, 0.5);
}

// -0 and 0 give what the plain formulas give, with the same sign.
TEST(zeros)
{
    skip_without_kernels();
    for (int i = 0; i < N_BOUNDS; i++) {
        dv_fn fn = bounds[i].fn;
        const float x[] = {0, -0.0F, 0, -0.0F, -0.0F};
        const double u[] = {0, -0.0, -0.0};
        float y[5];
        double v[3];
        kernel(fn,
               DV_F32)(&(dv_vec_args){1, 5, (void *[]){(void *)x, y}, NULL});
        kernel(fn,
               DV_F64)(&(dv_vec_args){1, 3, (void *[]){(void *)u, v}, NULL});
        for (int k = 0; k < 8; k++) {
            double in = k < 5 ? (double)x[k] : u[k - 5];
            double got = k < 5 ? (double)y[k] : v[k - 5];
            double want = dv_fn_apply(fn, in, 0, 0);
            if (!isnan(want) && !signbit(got) != !signbit(want))
                fail_msg("%s(%g) of %s is %g, not %g", dv_fn_get(fn)->text, in,
                         k < 5 ? "f32" : "f64", got, want);
        }
    }
}

// -- Neighbours --------------------------------------------------------------

enum { BLOCK = 64 };

// Blocks of small numbers, of larger ones, of small ones with one exception,
// and of anything.
static float among(int i)
{
    static const float odd[] = {NAN, INFINITY, -INFINITY, 3e38F, -95, 88.5F};
    float u = (float)((double)(rnd() >> 40) * 0x1p-24 - 0.5);
    switch (i / BLOCK % 4) {
    case 0:
        return u * 10;
    case 1:
        return u * 170;
    case 2:
        return i % BLOCK == i / BLOCK % BLOCK ? odd[i / BLOCK % 6] : u * 10;
    default:
        return (float)point((uint64_t)i);
    }
}

static int same(float a, float b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

// The result of a number does not depend on its neighbours or on its position
// in a row.
TEST(neighbours)
{
    static float x[CHUNK], y[CHUNK], alone[CHUNK];
    skip_without_kernels();
    for (int k = 0; k < N_BOUNDS; k++) {
        dv_vec_fn run = kernel(bounds[k].fn, DV_F32);
        for (int i = 0; i < CHUNK; i++) {
            x[i] = among(i);
            run(&(dv_vec_args){1, 1, (void *[]){&x[i], &alone[i]}, NULL});
        }
        run(&(dv_vec_args){1, CHUNK, (void *[]){x, y}, NULL});
        for (int i = 0; i < CHUNK; i++)
            if (!same(y[i], alone[i]))
                fail_msg("%s(%a) is %a, alone %a",
                         dv_fn_get(bounds[k].fn)->text, (double)x[i],
                         (double)y[i], (double)alone[i]);
    }
}

enum { APART = 701, ROWS = 3 };

// Makes rows with runs of numbers in and out of range, of any length.
static void crowds_of(float *x)
{
    static const float far[] = {-INFINITY, -1e9F, 100, NAN, -95};
    int left = 0, which = 0;
    for (int i = 0; i < ROWS * APART; i++) {
        if (left-- == 0) {
            left = (int)(rnd() >> 40) % (rnd() & 256 ? 500 : 40);
            which = (int)(rnd() >> 40) % 10;
        }
        double u = (double)(rnd() >> 40) * 0x1p-24;
        x[i] = which < 5 ? far[which] : (float)(u * 20 - 10);
    }
}

static dv_vec_fn kernel_of_rows(dv_fn fn, int sums)
{
    dv_vec_operand o[2] = {{.inner = 1, .outer = APART, .dtype = DV_F32},
                           {.inner = !sums, .outer = APART, .dtype = DV_F32}};
    dv_vec_node n[3] = {{.kind = DV_VEC_LOAD},
                        {.kind = DV_VEC_APPLY, .fn = (uint8_t)fn},
                        {.kind = DV_VEC_REDUCED}};
    dv_vec_shape s = {.operands = o,
                      .nodes = n,
                      .n_operands = 2,
                      .n_nodes = sums ? 3 : 2,
                      .value = (uint16_t)sums,
                      .result = sums ? 2 : 1,
                      .compute = DV_F32,
                      .reduce = sums ? DV_VEC_INNER : DV_VEC_EACH,
                      .reducer = DV_RED_MAX};
    dv_vec_fn out;
    assert_int_equal(dv_jit_vec(test_jit, &s, &out, NULL), DV_OK);
    return out;
}

// A run of numbers out of range may begin and end anywhere in rows of any
// length: the elements, and their maximum, are the same as alone.
TEST(crowds)
{
    static float x[ROWS * APART], y[ROWS * APART], alone[ROWS * APART];
    static float most[ROWS * APART];
    skip_without_kernels();
    for (int k = 0; k < N_BOUNDS; k++) {
        dv_fn fn = bounds[k].fn;
        dv_vec_fn run = kernel_of_rows(fn, 0), of = kernel_of_rows(fn, 1);
        dv_vec_fn one = kernel(fn, DV_F32);
        for (int t = 0; t < 60; t++) {
            int64_t n = t < 2 ? APART : 1 + (int64_t)(rnd() >> 40) % APART;
            crowds_of(x);
            for (int i = 0; i < ROWS * APART; i++)
                one(&(dv_vec_args){1, 1, (void *[]){&x[i], &alone[i]}, NULL});
            memset(y, 0, sizeof y);
            run(&(dv_vec_args){ROWS, n, (void *[]){x, y}, NULL});
            of(&(dv_vec_args){ROWS, n, (void *[]){x, most}, NULL});
            for (int i = 0; i < ROWS * APART; i++) {
                float want = i % APART < n ? alone[i] : 0;
                if (!same(y[i], want))
                    fail_msg("%s(%a) is %a, alone %a, %d of %d",
                             dv_fn_get(fn)->text, (double)x[i], (double)y[i],
                             (double)want, i, (int)n);
            }
            for (int r = 0; r < ROWS; r++) {
                float want = -INFINITY;
                for (int64_t i = r * APART; i < r * APART + n; i++)
                    want = isnan(alone[i]) || alone[i] > want ? alone[i] : want;
                if (!same(most[r * APART], want))
                    fail_msg("%s: the largest is %a, not %a",
                             dv_fn_get(fn)->text, (double)most[r * APART],
                             (double)want);
            }
        }
    }
}

// -- Division by one number --------------------------------------------------

static dv_vec_fn quotient(dv_dtype t)
{
    dv_vec_operand o[3] = {{.inner = 1, .dtype = (uint8_t)t},
                           {.dtype = (uint8_t)t},
                           {.inner = 1, .dtype = (uint8_t)t}};
    dv_vec_node n[3] = {{.kind = DV_VEC_LOAD},
                        {.kind = DV_VEC_LOAD, .arg = {1}},
                        {.kind = DV_VEC_SHARE, .arg = {0, 1}}};
    dv_vec_shape s = {.operands = o,
                      .nodes = n,
                      .n_operands = 3,
                      .n_nodes = 3,
                      .result = 2,
                      .compute = (uint8_t)t};
    dv_vec_fn out;
    assert_int_equal(dv_jit_vec(test_jit, &s, &out, NULL), DV_OK);
    return out;
}

static double error_quotient(float x, float by, float y)
{
    double want = (double)x / (double)by;
    if (isnan(want) || isinf((float)want) || isnan(y) || isinf(y)) {
        int at_the_end = fabs(want) > (double)FLT_MAX * (1 - 0x1p-22);
        return same((float)want, y) || (at_the_end && fabsf(y) >= FLT_MAX)
                   ? 0
                   : INFINITY;
    }
    return fabs((double)y - want) / ulp_f32(want);
}

TEST(division)
{
    static const float by[] = {1,         3,           -49,       7e-4F,
                               0,         -0.0F,       INFINITY,  -INFINITY,
                               NAN,       0x1p-149F,   0x3p-149F, 0x1.8p-130F,
                               0x1p-126F, 0x1.5p-65F,  0x1p64F,   0x1.23p65F,
                               FLT_MAX,   -0x1.7p126F, 0x1p100F,  0x1.9p-100F};
    static float x[CHUNK], y[CHUNK];
    skip_without_kernels();
    dv_vec_fn run = quotient(DV_F32);
    for (size_t k = 0; k < sizeof by / sizeof *by; k++) {
        for (int i = 0; i < CHUNK; i++) {
            uint32_t bits = (uint32_t)(rnd() >> 32);
            memcpy(&x[i], &bits, sizeof bits);
            if (i % 3 == 0)
                x[i] = among(i);
        }
        float s = by[k];
        run(&(dv_vec_args){1, CHUNK, (void *[]){x, &s, y}, NULL});
        for (int i = 0; i < CHUNK; i++)
            if (error_quotient(x[i], s, y[i]) > 1.5)
                fail_msg("%a / %a is %a", (double)x[i], (double)s,
                         (double)y[i]);
    }
}

// Division by a constant is exact, also by powers of two, which becomes a
// multiplication, by constants whose reciprocals are out of range, and for
// quotients that are.
static void divide_by(float by)
{
    static float x[CHUNK], y[CHUNK];
    dv_vec_operand o[2] = {{.inner = 1, .dtype = DV_F32},
                           {.inner = 1, .dtype = DV_F32}};
    dv_vec_node n[3] = {{.kind = DV_VEC_LOAD},
                        {.kind = DV_VEC_CONST, .value = (double)by},
                        {.kind = DV_VEC_APPLY, .fn = DV_FN_DIV, .arg = {0, 1}}};
    dv_vec_shape s = {.operands = o,
                      .nodes = n,
                      .n_operands = 2,
                      .n_nodes = 3,
                      .result = 2,
                      .compute = DV_F32};
    dv_vec_fn run;
    assert_int_equal(dv_jit_vec(test_jit, &s, &run, NULL), DV_OK);
    for (int i = 0; i < CHUNK; i++)
        x[i] = i % 2 ? (float)i : among(i);
    run(&(dv_vec_args){1, CHUNK, (void *[]){x, y}, NULL});
    for (int i = 0; i < CHUNK; i++)
        if (!same(y[i], x[i] / by))
            fail_msg("%a / %a is %a", (double)x[i], (double)by, (double)y[i]);
}

TEST(division_by_numbers)
{
    static const float by[] = {41,        1024,      0.125F,     -64,
                               1,         0x1p126F,  0x1p127F,   -0x1p-126F,
                               0x1p-127F, 0x1p-149F, -0x1p-125F, 0x1.8p10F};
    skip_without_kernels();
    for (size_t i = 0; i < sizeof by / sizeof *by; i++)
        divide_by(by[i]);
}

static void print_table(void)
{
    printf("| %s | f32 | f64 |\n|---|---|---|\n",
           dv_isa_host() ? dv_isa_host()->name : "none");
    for (int i = 0; i < DV_N_FNS; i++)
        if (measured[i][0] > 0 || measured[i][1] > 0)
            printf("| `%s` | %.2f | %.2f |\n", dv_fn_get((dv_fn)i)->text,
                   measured[i][0], measured[i][1]);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(f32),
                                       cmocka_unit_test(f64),
                                       cmocka_unit_test(of_two_arguments),
                                       cmocka_unit_test(zeros),
                                       cmocka_unit_test(neighbours),
                                       cmocka_unit_test(crowds),
                                       cmocka_unit_test(division),
                                       cmocka_unit_test(division_by_numbers)};
    int table = argc > 1 && !strcmp(argv[1], "-t");
    if (argc > 1 && !table)
        stride = (uint32_t)strtoul(argv[1], NULL, 10);
    if (stride == 0)
        return 2;
    int failed = run_group(tests, jit_set_up, jit_tear_down);
    if (table)
        print_table();
    return failed;
}
