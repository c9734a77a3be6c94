// Functions of elements of arrays over teams: every function and type compared
// with C, the same bits for any team, broadcasting, views that overlap, what is
// sent, and wrong calls.

#include "harness/test.h"
#include "base/dtype.h"
#include "darray/darray.h"
#include <math.h>

// -- Every function, on every type that it takes ------------------------------

typedef struct expected {
    const char *name;
    double (*f)(double x, double y, double z);     // NULL: not of floats
    int64_t (*i)(int64_t x, int64_t y, int64_t z); // NULL: not of integers
} expected;

static int64_t int_mod(int64_t x, int64_t y)
{
    int64_t r = y ? x % y : 0;
    return r && (r < 0) != (y < 0) ? r + y : r;
}
static int64_t int_floor(int64_t x, int64_t y)
{
    return y ? (x - int_mod(x, y)) / y : 0;
}
static int64_t int_clip(int64_t x, int64_t low, int64_t high)
{
    int64_t y = x < low ? low : x;
    return y > high ? high : y;
}
static int64_t int_pow(int64_t x, int64_t y)
{
    uint64_t r = 1;
    while (y-- > 0)
        r *= (uint64_t)x;
    return (int64_t)r;
}
static double float_mod(double x, double y)
{
    double r = fmod(x, y);
    return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

// Nan if an operand is, else the value.
static double either(double x, double y, double value)
{
    return x != x || y != y ? NAN : value;
}

// The values of functions: name_f of floats, name_i of integers.
#define FLOATS(name, value)                                                    \
    static double name##_f(double x, double y, double z)                       \
    {                                                                          \
        (void)x, (void)y, (void)z;                                             \
        return value;                                                          \
    }
#define INTS(name, value)                                                      \
    static int64_t name##_i(int64_t x, int64_t y, int64_t z)                   \
    {                                                                          \
        (void)x, (void)y, (void)z;                                             \
        return value;                                                          \
    }
#define BOTH(name, of_floats, of_ints)                                         \
    FLOATS(name, of_floats) INTS(name, of_ints)
#define F(name, value) FLOATS(name, value)
#define I(name, value) INTS(name, value)
#define B(name, f, i)  BOTH(name, f, i)
// clang-format off
#define FUNCTIONS                                                              \
    B(abs, fabs(x), x < 0 ? -x : x)                                            \
    F(acos, acos(x)) F(acosh, acosh(x)) B(add, x + y, x + y)                   \
    F(asin, asin(x)) F(asinh, asinh(x)) F(atan, atan(x))                       \
    F(atan2, atan2(x, y)) F(atanh, atanh(x)) I(bitwise_and, x & y)             \
    I(bitwise_invert, ~x) I(bitwise_left_shift, x * ((int64_t)1 << (y & 7)))   \
    I(bitwise_or, x | y) I(bitwise_right_shift, x >> (y & 7))                  \
    I(bitwise_xor, x ^ y) B(ceil, ceil(x), x)                                  \
    B(clip, either(x, y, fmin(fmax(x, y), z)), int_clip(x, y, z))              \
    F(copysign, copysign(x, y)) F(cos, cos(x)) F(cosh, cosh(x))                \
    F(divide, x / y) B(equal, x == y, x == y) F(exp, exp(x))                   \
    F(expm1, expm1(x)) B(floor, floor(x), x)                                   \
    B(floor_divide, floor(x / y), int_floor(x, y)) B(greater, x > y, x > y)    \
    B(greater_equal, x >= y, x >= y) F(hypot, hypot(x, y))                     \
    B(isfinite, isfinite(x) != 0, 1) B(isinf, isinf(x) != 0, 0)                \
    B(isnan, isnan(x) != 0, 0) B(less, x < y, x < y)                           \
    B(less_equal, x <= y, x <= y) F(log, log(x)) F(log10, log10(x))            \
    F(log1p, log1p(x)) F(log2, log2(x)) F(logaddexp, log(exp(x) + exp(y)))     \
    B(maximum, either(x, y, fmax(x, y)), x > y ? x : y)                        \
    B(minimum, either(x, y, fmin(x, y)), x < y ? x : y)                        \
    B(multiply, x * y, x * y) B(negative, -x, -x)                              \
    B(not_equal, x != y, x != y) B(positive, x, x)                             \
    B(pow, pow(x, y), int_pow(x, y)) F(reciprocal, 1 / x)                      \
    B(remainder, float_mod(x, y), int_mod(x, y)) B(round, nearbyint(x), x)     \
    B(sign, either(x, x, (x > 0) - (x < 0)), (x > 0) - (x < 0))                \
    F(signbit, signbit(x) != 0) F(sin, sin(x)) F(sinh, sinh(x))                \
    F(sqrt, sqrt(x)) B(square, x * x, x * x) B(subtract, x - y, x - y)         \
    F(tan, tan(x)) F(tanh, tanh(x)) B(trunc, trunc(x), x)
// clang-format on
FUNCTIONS
#undef F
#undef I
#undef B
#define F(name, value) {#name, name##_f, NULL},
#define I(name, value) {#name, NULL, name##_i},
#define B(name, f, i)  {#name, name##_f, name##_i},
static const expected all_functions[] = {FUNCTIONS};
#undef F
#undef I
#undef B
enum {
    N_ALL = sizeof all_functions / sizeof *all_functions,
    N = 12,
    // logical_and, logical_or, logical_not, logical_xor and where have tests of
    // their own.
    N_OTHERS = 5,
};

static const double floats[3][N] = {
    {0.5, -0.25, 0.75, 1, -1, 0.125, 0, -0.0, 2.5, -7.5, INFINITY, NAN},
    {2, 3, -0.5, 0.25, 1.5, -0.0, 0, 4, -2, 2.5, 1, 1},
    {3, 4, 0.5, 2, 1.5, 1, 1, 4, 0, 2.5, 5, 1},
};
static const int64_t ints[3][N] = {
    {5, -3, 7, 100, -128, 127, 0, 1, -1, 60, -77, 33},
    {2, 3, 1, 0, 5, 3, 7, 4, 1, 6, 2, 5},
    {3, 4, 6, 2, 90, 50, 9, 9, 0, 7, 2, 9},
};

static dv_darray *array_of(dv_team_link *p, dv_elem type, const void *values,
                           dv_diag *diag)
{
    int64_t n = N;
    char bytes[8 * N];
    dv_dist d = dv_dist_rows(1, &n, dv_team_size(p));
    dv_darray *a = NULL;
    dv_elem_store(type, bytes, dv_elem_get(type)->bytes, N, values);
    if (!dv_darray_create(&a, p, type, &d, NULL, diag))
        dv_darray_scatter(a, -1, bytes, diag);
    return a;
}

static int close_to(dv_elem type, double got, double want)
{
    double eps = type == DV_ELEM_F64 ? 1e-14 : dv_dtype_eps((dv_dtype)type);
    if (want != want || fabs(want) == INFINITY)
        return want != want ? got != got : got == want;
    return fabs(got - want) <= 8 * eps * fabs(want) + 4 * eps;
}

// Computes one function and returns the number of wrong elements.
static int check_one(const expected *e, dv_elem type,
                     const dv_darray *const *in, int n, dv_diag *diag)
{
    char bytes[8 * N];
    dv_darray *r = NULL;
    dv_elem types[3] = {type, type, type}, result;
    int bad = 0, is_float = dv_elem_get(type)->kind == 'f';
    if (dv_elementwise_type(&result, e->name, types, n, NULL)) {
        if (is_float ? e->f != NULL : e->i && type != DV_ELEM_BOOL) {
            fprintf(stderr, "%s of %s is refused\n", e->name,
                    dv_elem_get(type)->name);
            return 1;
        }
        return 0;
    }
    if (dv_darray_compute(&r, e->name, in, n, diag) ||
        dv_darray_gather(r, -1, bytes, diag)) {
        fprintf(stderr, "%s: %s", e->name, dv_diag_text(diag));
        return 1;
    }
    double f[N];
    int64_t i[N];
    int float_result = dv_elem_get(result)->kind == 'f';
    dv_elem_load(result, bytes, dv_elem_get(result)->bytes, N,
                 float_result ? (void *)f : (void *)i);
    for (int k = 0; k < N; k++) {
        double x[3], want = 0;
        int64_t whole = 0;
        for (int o = 0; o < 3; o++) { // as the type stores them
            char cell[8];
            const void *v = is_float ? (const void *)&floats[o][k]
                                     : (const void *)&ints[o][k];
            dv_elem_store(type, cell, 0, 1, v);
            dv_elem_load(type, cell, 0, 1, &x[o]);
        }
        if (is_float) {
            want = e->f(x[0], x[1], x[2]);
            whole = (int64_t)want;
        } else {
            int64_t y[3];
            memcpy(y, x, sizeof y);
            whole = e->i(y[0], y[1], y[2]);
            char cell[8];
            dv_elem_store(result, cell, 0, 1, &whole);
            dv_elem_load(result, cell, 0, 1, &whole);
        }
        int ok = float_result ? close_to(type, f[k], want) : i[k] == whole;
        if (!ok && bad++ < 2)
            fprintf(
                stderr, "%s of %s, element %d: %g or %lld, not %g or %lld\n",
                e->name, dv_elem_get(type)->name, k, float_result ? f[k] : 0,
                float_result ? 0 : (long long)i[k], want, (long long)whole);
    }
    dv_darray_destroy(r);
    return bad;
}

static dv_status do_every(void *user, dv_team_link *p, dv_diag *diag)
{
    static const dv_elem types[] = {DV_ELEM_F64, DV_ELEM_F32, DV_ELEM_I32,
                                    DV_ELEM_U8};
    int *bad = (int *)user + dv_team_rank(p);
    for (int t = 0; t < 4; t++) {
        int is_float = dv_elem_get(types[t])->kind == 'f';
        dv_darray *in[3];
        for (int o = 0; o < 3; o++)
            in[o] = array_of(p, types[t],
                             is_float ? (const void *)floats[o]
                                      : (const void *)ints[o],
                             diag);
        const dv_darray *const from[3] = {in[0], in[1], in[2]};
        for (int k = 0; k < N_ALL; k++) {
            const expected *e = &all_functions[k];
            if (!(is_float ? e->f != NULL : e->i != NULL))
                continue;
            int n = 1;
            dv_elem same[3] = {types[t], types[t], types[t]}, r;
            while (n < 3 && dv_elementwise_type(&r, e->name, same, n, NULL) ==
                                DV_E_USAGE)
                n++;
            *bad += check_one(e, types[t], from, n, diag);
        }
        for (int o = 0; o < 3; o++)
            dv_darray_destroy(in[o]);
    }
    return DV_OK;
}

TEST(test_every_function)
{
    int bad[1] = {0}, n = 0;
    assert_int_equal(dv_team_local(1, do_every, bad, NULL), DV_OK);
    assert_int_equal(bad[0], 0);
    while (dv_elementwise_name(n))
        n++;
    assert_int_equal(n, N_ALL + N_OTHERS);
}

// -- Teams, layouts and views -------------------------------------------------

enum { ROWS = 13, COLS = 7 };

static double value(int64_t i, int64_t j)
{
    return (double)(i * 31 % 17) * 0.37 + (double)(j * 13 % 11) - 3;
}

static void put(void *user, const int64_t *at, void *elem)
{
    *(double *)elem = value(at[0] + *(int64_t *)user, at[1]);
}

static dv_darray *matrix(dv_team_link *p, int axis, int64_t shift,
                         dv_diag *diag)
{
    int64_t shape[2] = {ROWS, COLS};
    dv_dist d = dv_dist_rows(2, shape, dv_team_size(p));
    dv_darray *a = NULL;
    d.axis[0] = axis == 0 ? 0 : -1;
    d.axis[1] = axis == 1 ? 0 : -1;
    if (!dv_darray_create(&a, p, DV_ELEM_F64, &d, NULL, diag))
        dv_darray_map(a, put, &shift, diag);
    return a;
}

static dv_darray *part(const dv_darray *a, int64_t r0, int64_t rows, int64_t c0,
                       int64_t cols, dv_diag *diag)
{
    dv_slice s[2] = {{r0, rows, 1}, {c0, cols, 1}};
    dv_darray *v = NULL;
    dv_darray_view(&v, a, s, diag);
    return v;
}

typedef struct outcome {
    int bad[8];
    uint64_t hash[8];
} outcome;

static void check(outcome *o, const dv_darray *a, int64_t n, const double *want,
                  dv_diag *diag)
{
    double got[ROWS * COLS] = {0};
    int64_t r = dv_team_rank(a->link);
    o->bad[r] += dv_darray_gather(a, -1, got, diag) != DV_OK;
    for (int64_t i = 0; want && i < n; i++)
        o->bad[r] += got[i] != want[i];
    o->hash[r] = dv_hash(o->hash[r], got, (size_t)n * sizeof *got);
}

static dv_status do_team(void *user, dv_team_link *p, dv_diag *diag)
{
    outcome *o = user;
    int64_t rank = dv_team_rank(p), bytes = 0, more = 0;
    double want[ROWS * COLS];
    dv_darray *a = matrix(p, 0, 0, diag), *b = matrix(p, 1, 5, diag);
    dv_darray *c = matrix(p, 0, 5, diag), *r = NULL, *row = NULL, *col = NULL;
    // Operands that are cut alike send nothing; others send what is lacking.
    dv_team_sent(p, &bytes, NULL);
    DV_TRY(dv_darray_compute(&r, "add", (const dv_darray *[]){a, c}, 2, diag));
    dv_team_sent(p, &more, NULL);
    o->bad[rank] += more != bytes;
    for (int64_t i = 0; i < ROWS * COLS; i++)
        want[i] = value(i / COLS, i % COLS) + value(i / COLS + 5, i % COLS);
    check(o, r, ROWS * COLS, want, diag);
    dv_darray_destroy(r);
    DV_TRY(dv_darray_compute(&r, "add", (const dv_darray *[]){a, b}, 2, diag));
    check(o, r, ROWS * COLS, want, diag);
    // Broadcasting: a column of a, and a row of b that has one dim.
    dv_slice one_row[2] = {{4, 1, 1}, {0, COLS, 1}};
    DV_TRY(dv_darray_view(&row, b, one_row, diag));
    col = part(a, 0, ROWS, 3, 1, diag);
    DV_TRY(dv_darray_apply(r, "multiply", (const dv_darray *[]){col, row}, 2,
                           diag));
    for (int64_t i = 0; i < ROWS * COLS; i++)
        want[i] = value(i / COLS, 3) * value(9, i % COLS);
    check(o, r, ROWS * COLS, want, diag);
    // A function that rounds, and a division by a broadcast row: the same bits
    // on any team.
    DV_TRY(dv_darray_apply(r, "exp", (const dv_darray *[]){a}, 1, diag));
    check(o, r, ROWS * COLS, NULL, diag);
    DV_TRY(
        dv_darray_apply(r, "divide", (const dv_darray *[]){a, col}, 2, diag));
    check(o, r, ROWS * COLS, NULL, diag);
    // Shifted views: the elements beside a cut are sent, and no others.
    dv_darray *up = part(a, 0, ROWS - 2, 1, COLS - 2, diag);
    dv_darray *down = part(a, 2, ROWS - 2, 1, COLS - 2, diag);
    dv_darray *to = part(r, 1, ROWS - 2, 1, COLS - 2, diag);
    dv_darray *left = part(a, 1, ROWS - 2, 0, COLS - 2, diag);
    dv_team_sent(p, &bytes, NULL);
    DV_TRY(dv_darray_apply(to, "subtract", (const dv_darray *[]){up, down}, 2,
                           diag));
    dv_team_sent(p, &more, NULL);
    o->bad[rank] += more - bytes > 2 * (COLS - 2) * 8;
    for (int64_t i = 0; i < (ROWS - 2) * (COLS - 2); i++) {
        int64_t y = i / (COLS - 2), x = i % (COLS - 2);
        want[i] = value(y, x + 1) - value(y + 2, x + 1);
    }
    check(o, to, (ROWS - 2) * (COLS - 2), want, diag);
    // The target may overlap the operands.
    dv_darray *in = part(a, 1, ROWS - 2, 1, COLS - 2, diag);
    DV_TRY(
        dv_darray_apply(in, "add", (const dv_darray *[]){up, left}, 2, diag));
    for (int64_t i = 0; i < (ROWS - 2) * (COLS - 2); i++) {
        int64_t y = i / (COLS - 2), x = i % (COLS - 2);
        want[i] = value(y, x + 1) + value(y + 1, x);
    }
    check(o, in, (ROWS - 2) * (COLS - 2), want, diag);
    dv_darray *all[] = {a, b, c, r, row, col, up, down, to, left, in};
    for (int i = 10; i >= 0; i--)
        dv_darray_destroy(all[i]);
    return DV_OK;
}

TEST(test_teams)
{
    uint64_t alone = 0;
    for (int64_t n = 1; n <= 4; n++) {
        outcome o = {{0}, {0}};
        dv_diag *diag = dv_diag_create();
        if (dv_team_local(n, do_team, &o, diag))
            fail_msg("%s", dv_diag_text(diag));
        dv_diag_destroy(diag);
        alone = n == 1 ? o.hash[0] : alone;
        for (int64_t r = 0; r < n; r++) {
            assert_int_equal(o.bad[r], 0);
            assert_true(o.hash[r] == alone);
        }
    }
}

// -- Bools, casts and scalars -------------------------------------------------

static void expect_elems(int *bad, const dv_darray *a, const void *want,
                         dv_diag *diag)
{
    char got[8 * N] = {0};
    *bad += dv_darray_gather(a, -1, got, diag) != DV_OK;
    if (memcmp(got, want, (size_t)(N * dv_elem_get(a->type)->bytes))) {
        fprintf(stderr, "an array of %s is wrong\n",
                dv_elem_get(a->type)->name);
        ++*bad;
    }
}

static dv_status do_casts(void *user, dv_team_link *p, dv_diag *diag)
{
    int *bad = (int *)user + dv_team_rank(p);
    dv_darray *x = array_of(p, DV_ELEM_F64, floats[1], diag), *i = NULL;
    dv_darray *y = array_of(p, DV_ELEM_F64, floats[2], diag), *u = NULL;
    dv_darray *less = NULL, *no = NULL, *both = NULL, *w = NULL, *s = NULL;
    dv_darray *f = NULL, *z = NULL, *any = NULL, *xor = NULL;
    int32_t whole[N];
    double big[N], chosen[N], scaled[N];
    uint8_t is_less[N], is_not[N], zeros[N] = {0}, ones[N];
    uint64_t wide[N];
    for (int k = 0; k < N; k++) {
        double a = floats[1][k], b = floats[2][k];
        whole[k] = (int32_t)a;
        is_less[k] = a < b, is_not[k] = !(a < b), ones[k] = 1;
        chosen[k] = a < b ? a : b;
        scaled[k] = a * 2.5;
        wide[k] = UINT64_MAX - (uint64_t)k * 4096;
        big[k] = (double)wide[k];
    }
    DV_TRY(dv_darray_cast(&i, x, DV_ELEM_I32, diag));
    expect_elems(bad, i, whole, diag);
    u = array_of(p, DV_ELEM_U64, wide, diag);
    DV_TRY(dv_darray_cast(&f, u, DV_ELEM_F64, diag));
    expect_elems(bad, f, big, diag);
    DV_TRY(
        dv_darray_compute(&less, "less", (const dv_darray *[]){x, y}, 2, diag));
    expect_elems(bad, less, is_less, diag);
    DV_TRY(dv_darray_compute(&no, "logical_not", (const dv_darray *[]){less}, 1,
                             diag));
    expect_elems(bad, no, is_not, diag);
    DV_TRY(dv_darray_compute(&both, "logical_and",
                             (const dv_darray *[]){less, no}, 2, diag));
    expect_elems(bad, both, zeros, diag);
    DV_TRY(dv_darray_compute(&any, "logical_or",
                             (const dv_darray *[]){less, no}, 2, diag));
    expect_elems(bad, any, ones, diag);
    DV_TRY(dv_darray_compute(&xor, "logical_xor",
                             (const dv_darray *[]){
                                 any, less},
                             2, diag));
    expect_elems(bad, xor, is_not, diag);
    DV_TRY(dv_darray_compute(&w, "where", (const dv_darray *[]){less, x, y}, 3,
                             diag));
    expect_elems(bad, w, chosen, diag);
    // A scalar is an array without dims.
    dv_dist none = dv_dist_rows(0, NULL, dv_team_size(p));
    DV_TRY(dv_darray_create(&s, p, DV_ELEM_F64, &none, NULL, diag));
    DV_TRY(dv_darray_fill(s, &(double){2.5}, diag));
    DV_TRY(dv_darray_compute(&z, "multiply", (const dv_darray *[]){x, s}, 2,
                             diag));
    expect_elems(bad, z, scaled, diag);
    dv_darray_destroy(z);
    DV_TRY(dv_darray_compute(&z, "square", (const dv_darray *[]){s}, 1, diag));
    *bad += *(double *)dv_darray_data(z, NULL) != 6.25;
    dv_darray *all[] = {x, y, i, u, f, less, no, both, any, xor, w, s, z};
    for (int k = 0; k < 13; k++)
        dv_darray_destroy(all[k]);
    return DV_OK;
}

TEST(test_casts)
{
    for (int64_t n = 1; n <= 3; n += 2) {
        int bad[3] = {0};
        assert_int_equal(dv_team_local(n, do_casts, bad, NULL), DV_OK);
        for (int64_t r = 0; r < n; r++)
            assert_int_equal(bad[r], 0);
    }
}

// -- Wrong calls --------------------------------------------------------------

static dv_status do_refuse(void *user, dv_team_link *p, dv_diag *diag)
{
    int *bad = (int *)user + dv_team_rank(p);
    int64_t five = 5, twelve = N;
    dv_dist d5 = dv_dist_rows(1, &five, dv_team_size(p));
    dv_dist d12 = dv_dist_rows(1, &twelve, dv_team_size(p));
    dv_darray *x = NULL, *y = NULL, *i = NULL, *u = NULL, *r = NULL, *b = NULL;
    DV_TRY(dv_darray_create(&x, p, DV_ELEM_F64, &d12, NULL, diag));
    DV_TRY(dv_darray_create(&y, p, DV_ELEM_F64, &d5, NULL, diag));
    DV_TRY(dv_darray_create(&i, p, DV_ELEM_I32, &d12, NULL, diag));
    DV_TRY(dv_darray_create(&u, p, DV_ELEM_U64, &d12, NULL, diag));
    dv_box box = {1, {{0, dv_team_rank(p) ? 12 : 0}}};
    DV_TRY(dv_darray_repartition(&b, x, &box, diag));
#define REFUSE(call, status, text)                                             \
    do {                                                                       \
        dv_diag *why = dv_diag_create();                                       \
        dv_status st = (call);                                                 \
        *bad += st != (status) || !strstr(dv_diag_text(why), text);            \
        if (*bad)                                                              \
            fprintf(stderr, "%s: %s", #call, dv_diag_text(why));               \
        dv_diag_destroy(why);                                                  \
    } while (0)
#define COMPUTE(name, n, ...)                                                  \
    dv_darray_compute(&r, name, (const dv_darray *[]){__VA_ARGS__}, n, why)
    REFUSE(COMPUTE("frob", 1, x), DV_E_NAME, "no function frob");
    REFUSE(COMPUTE("add", 1, x), DV_E_USAGE, "add takes 2 operands, not 1");
    REFUSE(COMPUTE("add", 2, x, i), DV_E_DTYPE, "add cannot take f64 and i32");
    REFUSE(COMPUTE("add", 2, u, i), DV_E_DTYPE, "u64 not with signed types");
    REFUSE(COMPUTE("exp", 1, i), DV_E_DTYPE, "there is no exp of i32");
    REFUSE(COMPUTE("less", 2, u, u), DV_E_DTYPE, "from 2^63 on are negative");
    REFUSE(COMPUTE("where", 3, i, x, x), DV_E_DTYPE, "a bool first, not i32");
    REFUSE(COMPUTE("add", 2, x, y), DV_E_SHAPE, "sizes are equal or 1");
    REFUSE(COMPUTE("exp", 1, b), DV_E_USAGE, "leaves out elements");
    REFUSE(dv_darray_apply(y, "exp", (const dv_darray *[]){x}, 1, why),
           DV_E_SHAPE, "12 elements in dim 0, the array 5");
    REFUSE(dv_darray_apply(i, "exp", (const dv_darray *[]){x}, 1, why),
           DV_E_DTYPE, "the result is f64, the array i32");
    REFUSE(dv_darray_cast(&r, x, (dv_elem)77, why), DV_E_DTYPE, "type 77");
    dv_darray_destroy(b);
    dv_darray_destroy(u);
    dv_darray_destroy(i);
    dv_darray_destroy(y);
    dv_darray_destroy(x);
    return DV_OK;
}

TEST(test_refused)
{
    int bad[2] = {0};
    assert_int_equal(dv_team_local(2, do_refuse, bad, NULL), DV_OK);
    assert_int_equal(bad[0] + bad[1], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_function),
        cmocka_unit_test(test_teams),
        cmocka_unit_test(test_casts),
        cmocka_unit_test(test_refused),
    };
    return run_group(tests, NULL, NULL);
}
