// Sine, cosine and tangent. The argument is reduced to r = x - n pi/2, around
// 0, by subtracting n times pi/2 in three parts (Cody and Waite). The first
// product is subtracted exactly, because r keeps only bits that both x and the
// product have; the others leave r as a sum of two numbers. Beyond the limits
// below n is not exact: there the result is that of the C library.
//
// The series are Taylor's, for |r| up to 0.82.
#include "jit/vec/math.h"
#include <math.h>

#define MOST_F32 0x1p19
#define MOST_F64 0x1p40

// (sin r - r) / r^3 and (cos r - 1 + r^2/2) / r^4 as polynomials in r^2; f32
// needs the first four terms.
enum { TERMS_F32 = 4 };
static const dv_vec_poly sin_terms = {
    8,
    {-0x1.5555555555555p-3, 0x1.1111111111111p-7, -0x1.a01a01a01a01ap-13,
     0x1.71de3a556c734p-19, -0x1.ae64567f544e4p-26, 0x1.6124613a86d09p-33,
     -0x1.ae7f3e733b81fp-41, 0x1.952c77030ad4ap-49}};
static const dv_vec_poly cos_terms = {
    8,
    {0x1.5555555555555p-5, -0x1.6c16c16c16c17p-10, 0x1.a01a01a01a01ap-16,
     -0x1.27e4fb7789f5cp-22, 0x1.1eed8eff8d898p-29, -0x1.93974a8c07c9dp-37,
     0x1.ae7f3e733b81fp-45, -0x1.6827863b97d97p-53}};

// A value in extra precision: a rounded number and its rounding error.
typedef struct pair {
    int32_t high, low;
} pair;

// Returns y where |x| is within the limit of the argument reduction, else nan,
// so that the C library is called.
static int32_t where_near(dv_vec_build *b, int32_t x, int32_t y)
{
    int32_t most = K(b->is64 ? MOST_F64 : MOST_F32);
    return P(SEL, P(FLE, P(FABS, x), most), y, K(NAN));
}

// Reduces x to r = x - n pi/2, which is returned; the low bits of *n hold n.
static pair reduce(dv_vec_build *b, int32_t x, int32_t *n)
{
    static const double parts_f32[] = {0x1.921fb6p0, -0x1.777a5cp-25,
                                       -0x1.ee59dap-50};
    static const double parts_f64[] = {
        0x1.921fb54442d18p0, 0x1.1a62633145c07p-54, -0x1.f1976b7ed8fbcp-110};
    const double *part = b->is64 ? parts_f64 : parts_f32;
    int32_t big = K(ldexp(1.5, dv_vec_type_of(b)->mantissa));
    *n = P(FMA, x, K(0x1.45f306dc9c883p-1), big); // 2 / pi
    int32_t f = P(FSUB, *n, big), first = P(FNMA, f, K(part[0]), x);
    int32_t p = P(FMUL, f, K(part[1]));
    int32_t error = P(FMA, f, K(part[1]), P(FNEG, p));
    // This computes the rounding error of first - p exactly, whichever of the
    // two is larger.
    int32_t high = P(FSUB, first, p), back = P(FSUB, high, first);
    int32_t low = P(FSUB, first, P(FSUB, high, back));
    low = P(FSUB, P(FSUB, low, P(FADD, p, back)), error);
    return (pair){high, P(FNMA, f, K(part[2]), low)};
}

static int32_t terms(dv_vec_build *b, const dv_vec_poly *p, int32_t z)
{
    dv_vec_poly some = *p;
    some.n = b->is64 ? some.n : TERMS_F32;
    return dv_vec_series(b, &some, z);
}

// Returns sin r as the sum of r.high and a small correction.
static pair sine(dv_vec_build *b, pair r)
{
    int32_t z = P(FMUL, r.high, r.high);
    int32_t cube = P(FMUL, r.high, z);
    return (pair){r.high, P(FMA, cube, terms(b, &sin_terms, z), r.low)};
}

// Returns cos r as the sum of 1 - r^2 / 2, rounded, and a small correction.
static pair cosine(dv_vec_build *b, pair r)
{
    int32_t z = P(FMUL, r.high, r.high), half = P(FMUL, z, K(0.5)), one = K(1);
    int32_t high = P(FSUB, one, half);
    // The square z is rounded, too; its error is r.high^2 - z.
    int32_t error = P(FMA, r.high, r.high, P(FNEG, z));
    int32_t rest = P(FSUB, P(FSUB, one, high), half);
    rest = P(FNMA, error, K(0.5), P(FNMA, r.high, r.low, rest));
    return (pair){high, P(FMA, P(FMUL, z, z), terms(b, &cos_terms, z), rest)};
}

// Returns a mask of the lanes whose bit 0 is set.
static int32_t odd(dv_vec_build *b, int32_t n)
{
    int32_t bit = P(AND, n, dv_vec_bits(b, 1));
    return P(ISUB, dv_vec_bits(b, 0), bit);
}

// Returns bit 1 of n as a sign bit: half a period away, a sine is negated.
static int32_t sign_of_half(dv_vec_build *b, int32_t n)
{
    int32_t bit = P(AND, n, dv_vec_bits(b, 2));
    return dv_vec_shift(b, DV_V_SHL, bit, b->is64 ? 62 : 30);
}

// Returns sin(x + ahead pi/2), which is cos x if `ahead` is 1.
static int32_t wave(dv_vec_build *b, int32_t x, int ahead)
{
    int32_t n;
    pair r = reduce(b, x, &n), s = sine(b, r), c = cosine(b, r);
    n = ahead ? P(IADD, n, dv_vec_bits(b, (uint64_t)ahead)) : n;
    int32_t value =
        P(SEL, odd(b, n), P(FADD, c.high, c.low), P(FADD, s.high, s.low));
    return P(XOR, value, sign_of_half(b, n));
}

// Returns x where x is tiny, else y: the sine and the tangent of a tiny x are x
// itself, with the sign of a 0.
static int32_t unless_tiny(dv_vec_build *b, int32_t x, int32_t y)
{
    double tiny = ldexp(1, -(dv_vec_type_of(b)->mantissa / 2 + 2));
    return P(SEL, P(FLT, P(FABS, x), K(tiny)), x, y);
}

int32_t dv_vec_sin(dv_vec_build *b, const int32_t *x)
{
    int32_t y = unless_tiny(b, x[0], wave(b, x[0], 0));
    return dv_vec_repair(b, DV_FN_SIN, x[0], x[0], where_near(b, x[0], y));
}

int32_t dv_vec_cos(dv_vec_build *b, const int32_t *x)
{
    int32_t y = wave(b, x[0], 1);
    return dv_vec_repair(b, DV_FN_COS, x[0], x[0], where_near(b, x[0], y));
}

// Normalises a pair: returns its rounded sum and the rounding error of that.
static pair rounded(dv_vec_build *b, pair x)
{
    int32_t sum = P(FADD, x.high, x.low);
    return (pair){sum, P(FADD, P(FSUB, x.high, sum), x.low)};
}

// Computes tan x, where x = r + n pi/2, as sin r / cos r or, if n is odd, as
// -cos r / sin r. Sine and cosine are in extra precision.
int32_t dv_vec_tan(dv_vec_build *b, const int32_t *args)
{
    int32_t x = args[0], n;
    pair r = reduce(b, x, &n);
    pair s = rounded(b, sine(b, r)), c = rounded(b, cosine(b, r));
    int32_t is_odd = odd(b, n), minus = P(AND, is_odd, dv_vec_sign_bit(b));
    pair top = {P(SEL, is_odd, c.high, s.high), P(SEL, is_odd, c.low, s.low)};
    pair bottom = {P(SEL, is_odd, s.high, c.high),
                   P(SEL, is_odd, s.low, c.low)};
    int32_t once = P(FDIV, K(1), bottom.high), q = P(FMUL, top.high, once);
    int32_t left = P(FADD, P(FNMA, q, bottom.high, top.high), top.low);
    left = P(FNMA, q, bottom.low, left);
    int32_t y = P(XOR, P(FMA, left, once, q), minus);
    y = unless_tiny(b, x, y);
    return dv_vec_repair(b, DV_FN_TAN, x, x, where_near(b, x, y));
}
