// Powers and remainders of floats.
#include "jit/vec/math.h"
#include <math.h>

// A value in extra precision: a rounded number and its rounding error.
typedef struct pair {
    int32_t high, low;
} pair;

// Makes a constant in extra precision: a number of the compute type and its
// rounding error.
static pair constant(dv_vec_build *b, double f32, double f32_low, double f64,
                     double f64_low)
{
    return (pair){K(b->is64 ? f64 : f32), K(b->is64 ? f64_low : f32_low)};
}

static pair product(dv_vec_build *b, pair x, pair y)
{
    int32_t high = P(FMUL, x.high, y.high);
    int32_t low = P(FMA, x.high, y.high, P(FNEG, high));
    low = P(FMA, x.high, y.low, low);
    return (pair){high, P(FMA, x.low, y.high, low)};
}

// Adds y to x in extra precision; x must be larger than y, or 0.
static pair sum(dv_vec_build *b, int32_t x, pair y)
{
    int32_t high = P(FADD, x, y.high);
    int32_t low = P(FADD, P(FSUB, x, high), y.high);
    return (pair){high, P(FADD, low, y.low)};
}

// The coefficients of log((1 + s) / (1 - s)) / 2s = 1 + z/3 + z^2/5 + ..., z =
// s^2, from z^2 on, divided by z^2, for s up to 0.172; f32 needs only the first
// LOG_F32 of them.
enum { LOG_F32 = 5 };
static const dv_vec_poly log_terms = {11,
                                      {1.0 / 5, 1.0 / 7, 1.0 / 9, 1.0 / 11,
                                       1.0 / 13, 1.0 / 15, 1.0 / 17, 1.0 / 19,
                                       1.0 / 21, 1.0 / 23, 1.0 / 25}};

// Returns log2 of a = 2^e m, e + log(m) / ln 2, in nearly twice as many bits:
// log(m) = 2 s (1 + z/3 + ...), where s = (m - 1) / (m + 1).
static pair log2_of(dv_vec_build *b, int32_t a)
{
    int32_t e, m = dv_vec_split(b, a, &e), one = K(1);
    int32_t top = P(FSUB, m, one), bottom = P(FADD, m, one);
    int32_t missing = P(FSUB, m, P(FSUB, bottom, one));
    int32_t s = P(FDIV, top, bottom), left = P(FNMA, s, bottom, top);
    left = P(FDIV, P(FNMA, s, missing, left), bottom);
    pair half = {s, left}, z = product(b, half, half);
    pair third = constant(b, 0x1.555556p-2, -0x1.555556p-27,
                          0x1.5555555555555p-2, 0x1.5555555555555p-56);
    pair p = product(b, z, third);
    dv_vec_poly terms = log_terms;
    terms.n = b->is64 ? terms.n : LOG_F32;
    p.low = P(FMA, P(FMUL, z.high, z.high), dv_vec_series(b, &terms, z.high),
              p.low);
    // 2 / ln 2
    pair scale = constant(b, 0x1.715476p1, 0x1.4ae0bf85ddf44p-25,
                          0x1.71547652b82fep1, 0x1.777d0ffda0d24p-55);
    return sum(b, e, product(b, product(b, half, sum(b, one, p)), scale));
}

// Returns the mask of the lanes that hold a whole number; from 2^mantissa on
// all floats do.
static int32_t is_whole(dv_vec_build *b, int32_t y)
{
    int32_t big = K(ldexp(1, dv_vec_type_of(b)->mantissa)), size = P(FABS, y);
    int32_t near = P(FSUB, P(FADD, size, big), big);
    return P(OR, P(FEQ, near, size), P(FLE, big, size));
}

// Computes |x|^y = 2^(y log2 |x|) where this and x are normal numbers; negative
// if x is negative and y odd. Also computes powers of 0 with y > 0, and x^0 =
// 1. For all other arguments the C library is called.
int32_t dv_vec_pow(dv_vec_build *b, const int32_t *args)
{
    const dv_vec_real *k = dv_vec_type_of(b);
    int32_t x = args[0], y = args[1], zero = K(0), nan = K(NAN);
    int32_t a = P(FABS, x), most = K(k->bias - 1);
    pair l = log2_of(b, a);
    int32_t high = P(FMUL, y, l.high);
    int32_t low = P(FMA, y, l.low, P(FMA, y, l.high, P(FNEG, high)));
    int32_t big = K(dv_vec_magic(k, 0)), n = P(FADD, high, big);
    int32_t r = P(FADD, P(FSUB, high, P(FSUB, n, big)), low);
    int32_t size = dv_vec_exp_part(b, P(FMUL, r, K(0x1.62e42fefa39efp-1)), n);
    // The comparison is also false where `high` is nan or infinite, and so for
    // infinite y.
    size = P(SEL, P(FLE, P(FABS, high), most), size, nan);
    size = P(SEL, P(FLT, a, K(INFINITY)), size, nan);
    int32_t is_zero = P(FEQ, a, zero);
    size = P(SEL, P(AND, is_zero, P(FLT, zero, y)), zero,
             P(SEL, is_zero, nan, size));
    // An odd power has the sign of x, also if x is -0.
    int32_t even = is_whole(b, P(FMUL, y, K(0.5)));
    int32_t sign = P(AND, x, dv_vec_sign_bit(b));
    int32_t whole = is_whole(b, y);
    int32_t minus = P(AND, whole, P(SEL, even, zero, sign));
    size = P(SEL, P(FEQ, y, zero), K(1), P(OR, size, minus));
    int32_t power = dv_vec_repair(b, DV_FN_POW, x, y, size);
    // A finite x below 0 has powers with whole y only; others are nan. -inf has
    // powers with any y.
    int32_t below = P(AND, P(FLT, x, zero), P(FLT, a, K(INFINITY)));
    return P(SEL, P(SEL, whole, zero, below), nan, power);
}

// Computes the remainder x - q y, where q is the whole part of x / y. It is
// exact for q below 2^(mantissa - 1): a q that rounding made 1 too large is
// corrected. Larger quotients, infinities and division by 0 are left to the C
// library.
int32_t dv_vec_rem(dv_vec_build *b, const int32_t *args)
{
    int32_t x = args[0], y = args[1], zero = K(0);
    int32_t a = P(FABS, x), c = P(FABS, y), q = P(FDIV, a, c);
    double limit = ldexp(1, dv_vec_type_of(b)->mantissa - 1);
    int32_t big = K(2 * limit), n = P(FSUB, P(FADD, q, big), big);
    n = P(FSUB, n, P(AND, P(FLT, q, n), K(1)));
    int32_t r = P(FNMA, n, c, a);
    r = P(FADD, r, P(AND, P(FLT, r, zero), c));
    r = P(SEL, P(FLT, q, K(limit)), dv_vec_with_sign_of(b, x, r), K(NAN));
    return dv_vec_repair(b, DV_FN_REM, x, y, r);
}

// Computes the remainder of x / y with the sign of y instead of that of x.
int32_t dv_vec_mod(dv_vec_build *b, const int32_t *args)
{
    int32_t y = args[1], zero = K(0), r = dv_vec_rem(b, args);
    int32_t differ = P(XOR, P(FLT, r, zero), P(FLT, y, zero));
    int32_t up = P(SEL, differ, P(FADD, r, y), r);
    int32_t none = dv_vec_with_sign_of(b, y, zero);
    return P(SEL, P(FEQ, r, zero), none, up);
}
