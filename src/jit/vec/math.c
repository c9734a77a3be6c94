// Mathematical functions as sequences of primitive operations, the same code
// for f32 and f64.
//
// Most of them use e^y = 2^n e^r, where y = n ln 2 + r and r is within half of
// ln 2 around 0; 2^n is assembled in the exponent bits. n is found by adding a
// constant so large that the sum has no fraction: its low bits are n, plus a
// bias that makes them an exponent. The polynomials are minimax fits (Remez)
// with rounded coefficients; comments give their largest error. Errors of the
// functions in units in the last place, for f32 over all bit patterns (sigmoid,
// silu and gelu: every 211th), for f64 over ten million points (those three: a
// hundred thousand; tests/unit/jit/vec_math.c):
//
//         exp   log   tanh  erf   sigmoid  silu  gelu
//   f32   1.70  0.84  1.75  1.73  2.29     3.2   2.6 of x
//   f64   1.00  0.85  1.85  2.32  2.13     2.6   6.8
//
//         exp2  expm1  log2  log1p  sinh  cosh
//   f32   1.02  1.38   0.83  1.39   1.62  1.40
//   f64   1.02  1.15   0.92  1.30   1.58  1.25
//
//         asin  acos  atan  asinh  acosh  atanh  sin   cos   tan   pow
//   f32   1.18  1.15  0.83  1.74   1.53   1.43   0.80  0.76  1.02  1.10
//   f64   1.15  1.11  0.83  1.40   1.43   1.34   0.83  0.83  1.09  1.10
//
// Those of the second table were measured on a sample of bit patterns and on a
// quarter of a million points. exp of f32 is within 1.04 on machines with fast
// bodies (ir.h). silu is less accurate where e^x is denormal. inf, nan, -0 and
// denormals give what the plain formulas give.
#include "jit/vec/math.h"
#include <math.h>

static const dv_vec_real f32 = {
    .mantissa = 23,
    .bias = 127,
    .log2e = 0x1.715476p0,
    .ln2_hi = 0x1.62e43p-1,
    .ln2_lo = -0x1.05c61p-29,
    .exp_least = -104,
    .exp_most = 89,
    .lift = 64,
    .exp = {5, // terms of the polynomial; largest error 3.5e-9
            {0x1.fffffcp-2, 0x1.555482p-3, 0x1.555824p-5, 0x1.1244cap-7,
             0x1.6b06aep-10}},
    .tanh = {3, // terms of the polynomial; largest error 4.3e-9
             {-0x1.555502p-2, 0x1.10d768p-3, -0x1.a34586p-5}},
    .ln2_short = 0x1.62e4p-1,
    .ln2_rest = 0x1.7f7d1cp-20,
    .log = {4, // terms of the polynomial; largest error 2.5e-11
            {0x1.555554p-1, 0x1.999c26p-2, 0x1.23d3fep-2, 0x1.f130a8p-3}},
    .erf_cut = 1.02,
    .erf_most = 6,
    .erf = {7, // terms; largest error 9e-10 for x to 0.92, then 2e-8
            {0x1.06eba8p-3, -0x1.812740p-2, 0x1.ce2d64p-4, -0x1.b8011ap-6,
             0x1.544a16p-8, -0x1.a609c8p-11, 0x1.4f64e4p-14}},
    .tail_k = 4,
    .tail_most = 14.5,
    .tail = {10, // terms of the polynomial; largest error 8.6e-9
             {0x1.82b4bcp-1, -0x1.373e38p-1, 0x1.8c6d9ep-2, -0x1.7e0000p-3,
              0x1.eed404p-5, -0x1.ed2d1cp-8, -0x1.cc65a0p-9, 0x1.9b8bdap-10,
              0x1.781e56p-13, -0x1.14c660p-13}},
};

static const dv_vec_real f64 = {
    .mantissa = 52,
    .bias = 1023,
    .log2e = 0x1.71547652b82fep0,
    .ln2_hi = 0x1.62e42fefa39efp-1,
    .ln2_lo = 0x1.abc9e3b39803fp-56,
    .exp_least = -746,
    .exp_most = 710,
    .lift = 512,
    .exp = {11, // terms of the polynomial; largest error 6e-20
            {0x1p-1, 0x1.555555555555cp-3, 0x1.55555555554fap-5,
             0x1.111111110e961p-7, 0x1.6c16c16c326a6p-10, 0x1.a01a01b4aa9abp-13,
             0x1.a01a012ff43c4p-16, 0x1.71dded29439dfp-19,
             0x1.27e5bc10f5f7cp-22, 0x1.af7120ec7838p-26,
             0x1.1e39233150fdap-29}},
    .tanh = {7, // terms of the polynomial; largest error 9.4e-18
             {-0x1.555555555548fp-2, 0x1.11111110ed6d0p-3,
              -0x1.ba1ba174b88d7p-5, 0x1.664f2871bd530p-6,
              -0x1.226643c5265bbp-7, 0x1.d4a799ae9e56dp-9,
              -0x1.55c65ed8d127cp-10}},
    .ln2_short = 0x1.62e42fefp-1,
    .ln2_rest = 0x1.473de6af278edp-34,
    .log = {7, // terms of the polynomial; largest error 1.3e-18
            {0x1.5555555555595p-1, 0x1.999999997ee6ap-2, 0x1.24924942da69p-2,
             0x1.c71c513f02086p-3, 0x1.74666ae7c8b57p-3, 0x1.399d0e9c86e85p-3,
             0x1.2f36c191fb476p-3}},
    .erf_cut = 1,
    .erf_most = 8.6,
    .erf = {13, // terms of the polynomial; largest error 1.1e-17
            {0x1.06eba8214db69p-3, -0x1.812746b037a23p-2, 0x1.ce2f21a04569p-4,
             -0x1.b82ce3134712p-6, 0x1.565bcd29e508ep-8, -0x1.c02db8afcb478p-11,
             0x1.f9a3a89fd8e3ep-14, -0x1.f4db91e111dbdp-17,
             0x1.ba561169f428dp-20, -0x1.62e4b7232dc06p-23,
             0x1.0f4d9f4c13cf7p-26, -0x1.abe616aced3d1p-30,
             0x1.1892f79944a56p-33}},
    .tail_k = 5,
    .tail_most = 39,
    .tail = {23, // terms of the polynomial; largest error 5.9e-18
             {0x1.89d3abe1f95aep-1,   -0x1.54ad03f27ca17p-1,
              0x1.fb31653876f9fp-2,   -0x1.410ed5f8759e4p-2,
              0x1.51f6329f011d3p-3,   -0x1.1b1c254c9ec06p-4,
              0x1.54b4d4f4f9972p-6,   -0x1.88590ea29dc12p-9,
              -0x1.a250381c70256p-11, 0x1.1daf1c3973c07p-11,
              -0x1.f2144a6ac80f3p-15, -0x1.a1707cdc38ac8p-15,
              0x1.17dc86c2f2dd8p-16,  0x1.0b1e7d35aa4dap-18,
              -0x1.73a47b1184f23p-19, -0x1.6847c623b9eb2p-22,
              0x1.d0ce403a6ae44p-22,  0x1.5f293598109eep-25,
              -0x1.1b8458dee7413p-24, -0x1.1d01f93013798p-27,
              0x1.10e3c7c5bb933p-27,  0x1.899e3eaa4aacap-30,
              -0x1.4d07cb8fdda26p-32}},
};

// The polynomial of six terms for (e^r - 1 - r) / r^2 with |r| up to ln 2, for
// f32; its largest error is 1.5e-8.
static const dv_vec_poly exp_wide = {6,
                                     {0x1.00000cp-1, 0x1.555510p-3,
                                      0x1.5549f6p-5, 0x1.112818p-7,
                                      0x1.71bd68p-10, 0x1.9b4e20p-13}};

// The normal distribution minus 1/2, divided by its argument, as a quotient of
// two polynomials for f32; error 1.9e-8. From GELU_MOST on the distribution
// minus 1/2 is 1/2, so that gelu is x or 0.
#define GELU_MOST                                                              \
    0x1.6ccc92p2 // beyond this the distribution is 1 or 0, and gelu x or 0
static const dv_vec_poly gelu_top = {6,
                                     {0x1.988452p-2, 0x1.16bec2p-5,
                                      0x1.32f5eep-8, 0x1.648138p-13,
                                      0x1.a7062cp-18, 0x1.7e6e1ep-26}};
static const dv_vec_poly gelu_bottom = {6,
                                        {1, 0x1.020148p-2, 0x1.d6ca2ap-6,
                                         0x1.efd5eep-10, 0x1.3534eep-14,
                                         0x1.3ca5a2p-20}};

const dv_vec_real *dv_vec_type_of(const dv_vec_build *b)
{
    return b->is64 ? &f64 : &f32;
}

enum { SHORT = 5 };

// Evaluates a short polynomial by Horner's rule. Pairing terms and computing
// x^2, as series() does, would take one operation more here.
static int32_t short_series(dv_vec_build *b, const dv_vec_poly *p, int32_t x)
{
    int32_t sum = K(p->c[p->n - 1]);
    for (int i = p->n - 2; i >= 0; i--)
        sum = P(FMA, sum, x, K(p->c[i]));
    return sum;
}

// Evaluates a polynomial by Horner's rule in x^2, on pairs c + d x. Every
// multiply-add overwrites its addend, so each constant addend is copied first;
// pairs need half as many copies.
int32_t dv_vec_series(dv_vec_build *b, const dv_vec_poly *p, int32_t x)
{
    if (p->n < SHORT)
        return short_series(b, p, x);
    int i = p->n - 1 - p->n % 2;
    int32_t z = P(FMUL, x, x);
    int32_t sum = K(p->c[p->n - 1]);
    if (p->n % 2 == 0)
        sum = P(FMA, sum, x, K(p->c[p->n - 2])), i -= 2;
    for (; i > 0; i -= 2)
        sum = P(FMA, sum, z, P(FMA, K(p->c[i]), x, K(p->c[i - 1])));
    return sum;
}

int32_t dv_vec_sign_bit(dv_vec_build *b)
{
    return dv_vec_bits(b, b->is64 ? 1ull << 63 : 1ull << 31);
}

int32_t dv_vec_with_sign_of(dv_vec_build *b, int32_t x, int32_t size)
{
    return P(SEL, dv_vec_sign_bit(b), x, size);
}

// Returns the constant that, added to a float with the integer value n, leaves
// the exponent bits of 2^(n + by) in the low bits of the sum.
double dv_vec_magic(const dv_vec_real *k, int by)
{
    return ldexp(1.5, k->mantissa) + k->bias + by;
}

// Returns 2^(m + by), where the argument n is the sum of an integer m and
// dv_vec_magic(k, by): its low bits are shifted into the exponent field.
int32_t dv_vec_power(dv_vec_build *b, int32_t n)
{
    return dv_vec_shift(b, DV_V_SHL, n, dv_vec_type_of(b)->mantissa);
}

// Returns the remainder r = y - n ln 2 of e^y = 2^n e^r; nf is n as a float.
static int32_t minus_n_ln2(dv_vec_build *b, int32_t y, int32_t nf)
{
    const dv_vec_real *k = dv_vec_type_of(b);
    int32_t r = P(FNMA, nf, K(k->ln2_hi), y);
    return P(FNMA, nf, K(k->ln2_lo), r);
}

// Returns e^r times the power of two s, as s + s (r + r^2 q), where q is the
// polynomial for (e^r - 1 - r) / r^2.
static int32_t exp_of_remainder(dv_vec_build *b, const dv_vec_poly *q,
                                int32_t r, int32_t s)
{
    int32_t t = P(FMA, dv_vec_series(b, q, r), P(FMUL, r, r), r);
    return P(FMA, t, s, s);
}

// Returns 2^m e^r, where the argument n is the sum of an integer m and
// dv_vec_magic(k, k->bias). The factor 2^m is split into two powers of two,
// because 2^m may overflow or underflow where the result does not.
static int32_t exp_split(dv_vec_build *b, int32_t r, int32_t n)
{
    const dv_vec_real *k = dv_vec_type_of(b);
    // n also has the high bits of the constant `big` that was added to round
    // it. What is left of them in `half` does no harm: dv_vec_power() shifts it
    // out.
    int32_t half = dv_vec_shift(b, DV_V_SHR, n, 1);
    int32_t p = exp_of_remainder(b, &k->exp, r, dv_vec_power(b, half));
    return P(FMUL, p, dv_vec_power(b, P(ISUB, n, half)));
}

// Returns e^y = 2^n e^r for all y, with 2^n split into two factors.
static int32_t exp_halves(dv_vec_build *b, int32_t y)
{
    const dv_vec_real *k = dv_vec_type_of(b);
    int32_t big = K(dv_vec_magic(k, k->bias)), n = P(FMA, y, K(k->log2e), big);
    return exp_split(b, minus_n_ln2(b, y, P(FSUB, n, big)), n);
}

// Returns e^y = 2^n e^r with an even n, so that 2^n is the square of one power
// of two. r is then up to twice as large; the longer polynomial that this needs
// costs less than splitting 2^n into two different factors.
static int32_t exp_even(dv_vec_build *b, int32_t y)
{
    const dv_vec_real *k = dv_vec_type_of(b);
    int32_t big = K(dv_vec_magic(k, 0)), half = P(FMA, y, K(k->log2e / 2), big);
    int32_t nf = P(FSUB, half, big), s = dv_vec_power(b, half);
    int32_t r = P(FNMA, nf, K(2 * k->ln2_hi), y);
    r = P(FNMA, nf, K(2 * k->ln2_lo), r);
    return P(FMUL, exp_of_remainder(b, &exp_wide, r, s), s);
}

// Returns e^x for f32 and |x| up to EXP_NEAR, with the same bits as exp_halves.
// In e^x = 2^n e^r, 2^n is always a normal number here and need not be split.
#define EXP_NEAR 87
static int32_t exp_near(dv_vec_build *b, int32_t x)
{
    const dv_vec_real *k = dv_vec_type_of(b);
    int32_t big = K(dv_vec_magic(k, 0)), n = P(FMA, x, K(k->log2e), big);
    int32_t r = minus_n_ln2(b, x, P(FSUB, n, big));
    return dv_vec_exp_part(b, r, n);
}

int32_t dv_vec_exp_part(dv_vec_build *b, int32_t r, int32_t n)
{
    return exp_of_remainder(b, &dv_vec_type_of(b)->exp, r, dv_vec_power(b, n));
}

// Returns the least n for which exp computes 2^n. exp multiplies two powers of
// two with exponents of about n / 2; for this n the biased exponents of both
// are 0, so that both and their product are 0 without an underflow, for which
// CPUs may take a hundred cycles. Masked elements often have such arguments.
static double least_power(const dv_vec_real *k)
{
    return -2.0 * k->bias;
}

int32_t dv_vec_exp(dv_vec_build *b, const int32_t *args)
{
    int32_t x = args[0];
    const dv_vec_real *k = dv_vec_type_of(b);
    if (!b->is64 && dv_vec_guard(b, x, EXP_NEAR))
        return exp_near(b, x);
    int32_t y = P(FMOST, P(FLEAST, x, K(k->exp_most)),
                  K(ceil(least_power(k) * 0x1.62e42fefa39efp-1)));
    return b->is64 || b->has_guard ? exp_halves(b, y) : exp_even(b, y);
}

// Computes 2^x = 2^n e^(r ln 2); r = x - n is exact.
int32_t dv_vec_exp2(dv_vec_build *b, const int32_t *x)
{
    const dv_vec_real *k = dv_vec_type_of(b);
    double most = k->bias + 2;
    int32_t y = P(FMOST, P(FLEAST, x[0], K(most)), K(least_power(k)));
    int32_t big = K(dv_vec_magic(k, k->bias)), n = P(FADD, y, big);
    int32_t r = P(FSUB, y, P(FSUB, n, big));
    return exp_split(b, P(FMUL, r, K(0x1.62e42fefa39efp-1)), n);
}

// e^y = s (1 + t + error) with a power of two s.
typedef struct exp_parts {
    int32_t s, t, error;
} exp_parts;

// Makes the parts of e^y; s is multiplied by 2^by, so that it does not
// overflow.
static exp_parts exp_in_parts(dv_vec_build *b, int32_t y, int by)
{
    const dv_vec_real *k = dv_vec_type_of(b);
    int32_t big = K(dv_vec_magic(k, by)), n = P(FMA, y, K(k->log2e), big);
    int32_t nf = P(FSUB, n, big);
    int32_t first = P(FNMA, nf, K(k->ln2_hi), y);
    int32_t r = P(FNMA, nf, K(k->ln2_lo), first);
    int32_t error = P(FNMA, nf, K(k->ln2_lo), P(FSUB, first, r));
    int32_t w = P(FMUL, dv_vec_series(b, &k->exp, r), P(FMUL, r, r));
    int32_t t = P(FADD, r, w);
    error = P(FADD, error, P(FADD, P(FSUB, r, t), w));
    return (exp_parts){dv_vec_power(b, n), t, error};
}

// Computes e^x - 1 = s t + (s - 1). The error of t matters, because s - 1 may
// cancel half of s t. For tiny x the result is x.
int32_t dv_vec_expm1(dv_vec_build *b, const int32_t *args)
{
    const dv_vec_real *k = dv_vec_type_of(b);
    int32_t x = args[0];
    int32_t y = P(FMOST, P(FLEAST, x, K(k->exp_most)), K(-k->mantissa - 9));
    exp_parts e = exp_in_parts(b, y, -1);
    int32_t sum = P(FMA, e.s, e.t, P(FSUB, e.s, K(0.5)));
    sum = P(FMUL, P(FMA, e.s, e.error, sum), K(2));
    int32_t tiny = P(FLT, P(FABS, x), K(ldexp(1, -k->mantissa - 2)));
    return P(SEL, tiny, x, sum);
}

// Terms of the Taylor series of (sinh x - x) / x^3 in x^2, for x up to 1; f32
// needs the first five.
static const dv_vec_poly sinh_terms = {
    9,
    {0x1.5555555555555p-3, 0x1.1111111111111p-7, 0x1.a01a01a01a01ap-13,
     0x1.71de3a556c734p-19, 0x1.ae64567f544e4p-26, 0x1.6124613a86d09p-33,
     0x1.ae7f3e733b81fp-41, 0x1.952c77030ad4ap-49, 0x1.2f49b46814157p-57}};

// Returns e^|x| / 4, and a quarter of its reciprocal in *back: half their sum
// is a quarter of cosh x. Beyond `most`, both overflow.
static int32_t quarter_exp(dv_vec_build *b, int32_t x, int32_t *back)
{
    double most = b->is64 ? 710.6 : 89.5;
    exp_parts e = exp_in_parts(b, P(FLEAST, P(FABS, x), K(most)), -2);
    int32_t f = P(FMA, e.s, e.error, P(FMA, e.s, e.t, e.s));
    *back = P(FDIV, K(0x1p-4), f);
    return f;
}

int32_t dv_vec_cosh(dv_vec_build *b, const int32_t *x)
{
    int32_t back, f = quarter_exp(b, x[0], &back);
    return P(FMUL, P(FADD, f, back), K(2));
}

int32_t dv_vec_sinh(dv_vec_build *b, const int32_t *args)
{
    int32_t x = args[0], back, f = quarter_exp(b, x, &back);
    dv_vec_poly terms = sinh_terms;
    terms.n = b->is64 ? terms.n : 5;
    int32_t z = P(FMUL, x, x);
    int32_t small = P(FMA, P(FMUL, x, z), dv_vec_series(b, &terms, z), x);
    int32_t large = P(FMUL, P(FSUB, f, back), K(2));
    large = dv_vec_with_sign_of(b, x, large);
    return P(SEL, P(FLT, P(FABS, x), K(1)), small, large);
}

// Returns e^y 2^lift for exp_least <= y <= 0; scaled like this, small results
// keep all their bits.
static int32_t exp_lifted(dv_vec_build *b, int32_t y)
{
    const dv_vec_real *k = dv_vec_type_of(b);
    int32_t big = K(dv_vec_magic(k, k->lift));
    int32_t n = P(FMA, y, K(k->log2e), big);
    int32_t r = minus_n_ln2(b, y, P(FSUB, n, big));
    return exp_of_remainder(b, &k->exp, r, dv_vec_power(b, n));
}

static int32_t down(dv_vec_build *b, int32_t x)
{
    return P(FMUL, x, K(ldexp(1, -dv_vec_type_of(b)->lift)));
}

// Computes the sigmoid: with e = e^-|x| it is e / (1 + e) or 1 / (1 + e). silu
// is x times the sigmoid.
static int32_t sigmoid_of(dv_vec_build *b, int32_t x, int times_x)
{
    const dv_vec_real *k = dv_vec_type_of(b);
    int32_t y = P(FMOST, P(OR, x, dv_vec_sign_bit(b)), K(k->exp_least));
    int32_t e = down(b, exp_lifted(b, y)), one = K(1);
    int32_t top = P(SEL, P(FLT, x, K(0)), e, one);
    if (times_x)
        top = P(FMUL, top, x);
    return P(FDIV, top, P(FADD, e, one));
}

int32_t dv_vec_sigmoid(dv_vec_build *b, const int32_t *x)
{
    return sigmoid_of(b, x[0], 0);
}

int32_t dv_vec_silu(dv_vec_build *b, const int32_t *x)
{
    return sigmoid_of(b, x[0], 1);
}

// Computes tanh. With |x| = n ln 2 / 2 + r, t = tanh r and s = 2^n / 2, the
// addition formula gives N / (N + 1 - t) where N = (s + 1/2) t + s - 1/2: the
// rounding error of N cancels as s grows. For n = 0 this is t / 1. n is rounded
// after subtracting TANH_LATE, so that n = 1 begins where results pass 1/4,
// because just below a power of two a unit in the last place is relatively
// smallest.
#define TANH_LATE 0.09
int32_t dv_vec_tanh(dv_vec_build *b, const int32_t *args)
{
    int32_t x = args[0];
    const dv_vec_real *k = dv_vec_type_of(b);
    int32_t a = P(FLEAST, P(FABS, x), K(b->is64 ? 20 : 10));
    int32_t big = K(dv_vec_magic(k, -1)), half = K(0.5);
    int32_t n = P(FMA, P(FSUB, a, K(TANH_LATE)), K(2 * k->log2e), big);
    int32_t nf = P(FSUB, n, big), s = dv_vec_power(b, n);
    int32_t r = P(FNMA, nf, K(k->ln2_hi / 2), a);
    // Subtracts n times the second part of ln 2; for f32 n is so small that the
    // first part suffices.
    if (b->is64)
        r = P(FNMA, nf, K(k->ln2_lo / 2), r);
    int32_t z = P(FMUL, r, r);
    int32_t t = P(FMA, P(FMUL, r, z), dv_vec_series(b, &k->tanh, z), r);
    int32_t top = P(FMA, P(FADD, s, half), t, P(FSUB, s, half));
    int32_t bottom = P(FADD, top, P(FSUB, K(1), t));
    return P(FDIV, dv_vec_with_sign_of(b, x, top), bottom);
}

// Returns the tail of the normal distribution beyond t >= 0, times 2^lift. With
// `exact`, the rounding error of t^2 is compensated.
static int32_t tail_lifted(dv_vec_build *b, int32_t t, int exact)
{
    const dv_vec_real *k = dv_vec_type_of(b);
    int32_t one = K(1), big = K(dv_vec_magic(k, k->lift));
    int32_t t2 = P(FMUL, t, t);
    int32_t n = P(FMA, t2, K(-k->log2e / 2), big), nf = P(FSUB, n, big);
    int32_t r = minus_n_ln2(b, P(FMUL, t2, K(-0.5)), nf);
    if (exact)
        r = P(FMA, P(FNMA, t, t, t2), K(0.5), r);
    int32_t p = exp_of_remainder(b, &k->exp, r, dv_vec_power(b, n));
    int32_t u = P(FDIV, one, P(FADD, t, K(k->tail_k)));
    int32_t q = P(FNMA, u, K(2 * k->tail_k), one);
    return P(FMUL, P(FMUL, dv_vec_series(b, &k->tail, q), u), p);
}

// Computes gelu, x times the normal distribution, as max(x, 0) - |x| tail(|x|).
// x is clamped from above, because for inf the product of inf and a tail of 0
// would be nan; gelu(-inf) is nan by the rules of the language.
static int32_t gelu_by_tail(dv_vec_build *b, int32_t x)
{
    int32_t most = K(dv_vec_type_of(b)->tail_most);
    int32_t size = P(FABS, P(FLEAST, x, most));
    int32_t tail = down(b, tail_lifted(b, P(FLEAST, size, most), 1));
    // The sign of the result, also of a zero, is that of x.
    return dv_vec_with_sign_of(b, x, P(FNMA, size, tail, P(FMOST, x, K(0))));
}

// Computes gelu for f32 with the distribution as 1/2 + x P(x^2) / Q(x^2). This
// takes half the time, and its error is below the last place of x. At GELU_MOST
// the quotient is 1/2 to the last bit with these operations in this order.
static int32_t gelu_fast(dv_vec_build *b, int32_t x)
{
    int32_t y = P(FMOST, P(FLEAST, x, K(GELU_MOST)), K(-GELU_MOST));
    int32_t z = P(FMUL, y, y);
    int32_t p = P(FMUL, dv_vec_series(b, &gelu_top, z), y);
    int32_t share =
        P(FADD, P(FDIV, p, dv_vec_series(b, &gelu_bottom, z)), K(0.5));
    return P(FMUL, share, x);
}

int32_t dv_vec_gelu(dv_vec_build *b, const int32_t *x)
{
    return b->is64 ? gelu_by_tail(b, x[0]) : gelu_fast(b, x[0]);
}

int32_t dv_vec_erf(dv_vec_build *b, const int32_t *args)
{
    int32_t x = args[0];
    const dv_vec_real *k = dv_vec_type_of(b);
    int32_t size = P(FABS, x);
    // The constant is the square root of 2.
    int32_t t =
        P(FLEAST, P(FMUL, size, K(0x1.6a09e667f3bcdp0)), K(k->erf_most));
    int32_t tail = tail_lifted(b, t, 0);
    int32_t wide = P(FNMA, tail, K(ldexp(2, -k->lift)), K(1));
    int32_t small = P(FMA, dv_vec_series(b, &k->erf, P(FMUL, x, x)), x, x);
    return P(SEL, P(FLT, size, K(k->erf_cut)), small,
             dv_vec_with_sign_of(b, x, wide));
}

// The parts of log x = e ln 2 + log(1 + f), where x = 2^e (1 + f) with 1 + f
// within a factor sqrt(2) of 1: log(1 + f) = f - (h - low), where h = f^2 / 2.
typedef struct log_parts {
    int32_t e, f, h, low;
} log_parts;

int32_t dv_vec_split(dv_vec_build *b, int32_t x, int32_t *e)
{
    const dv_vec_real *k = dv_vec_type_of(b);
    // The bits of sqrt(1/2), the lower limit of m.
    uint64_t half = b->is64 ? 0x3fe6a09e667f3bcd : 0x3f3504f3;
    uint64_t unit = (uint64_t)k->bias << k->mantissa; // the bits of 1
    uint64_t mask = (1ull << k->mantissa) - 1;
    int up = k->mantissa + 2; // denormals are scaled by 2^up
    int32_t tiny = P(FLT, x, K(ldexp(1, 1 - k->bias)));
    int32_t y = P(SEL, tiny, P(FMUL, x, K(ldexp(1, up))), x);
    int32_t i = P(IADD, y, dv_vec_bits(b, unit - half));
    double base = ldexp(1, k->mantissa);
    *e = dv_vec_shift(b, DV_V_SHR, i, k->mantissa);
    *e = P(FSUB, P(OR, *e, K(base)), K(base + k->bias));
    *e = P(FSUB, *e, P(AND, tiny, K(up)));
    return P(IADD, P(AND, i, dv_vec_bits(b, mask)), dv_vec_bits(b, half));
}

// Makes the parts of the logarithm of 2^e (1 + f), with a series in
// s = f / (2 + f). `add` is added to `low`, with the other small terms.
static log_parts log_of(dv_vec_build *b, int32_t e, int32_t f, int32_t add)
{
    const dv_vec_real *k = dv_vec_type_of(b);
    int32_t s = P(FDIV, f, P(FADD, f, K(2)));
    int32_t z = P(FMUL, s, s), h = P(FMUL, P(FMUL, f, f), K(0.5));
    int32_t r = P(FMUL, dv_vec_series(b, &k->log, z), z);
    int32_t hr = P(FADD, h, r);
    int32_t low = add < 0 ? P(FMUL, s, hr) : P(FMA, s, hr, add);
    return (log_parts){e, f, h, low};
}

// The log of inf is inf, of nan nan, of a negative number nan, of 0 -inf.
static int32_t log_specials(dv_vec_build *b, int32_t x, int32_t sum)
{
    sum = P(SEL, P(FLT, x, K(INFINITY)), sum, x);
    sum = P(SEL, P(FLT, x, K(0)), K(NAN), sum);
    return P(SEL, P(FEQ, x, K(0)), K(-INFINITY), sum);
}

// Computes e ln 2 + log(1 + f); the small terms are added first.
static int32_t log_sum(dv_vec_build *b, int32_t e, int32_t f)
{
    const dv_vec_real *k = dv_vec_type_of(b);
    log_parts l = log_of(b, e, f, P(FMUL, e, K(k->ln2_rest)));
    int32_t sum = P(FSUB, l.f, P(FSUB, l.h, l.low));
    return P(FMA, e, K(k->ln2_short), sum);
}

int32_t dv_vec_log(dv_vec_build *b, const int32_t *x)
{
    int32_t e, m = dv_vec_split(b, x[0], &e);
    return log_specials(b, x[0], log_sum(b, e, P(FSUB, m, K(1))));
}

// Returns log(1 + x + rest), where `rest` is small compared with x, as the log
// of the rounded sum y = 1 + x = 2^e m, whose rounding error and `rest` are
// added to m - 1. If `rest` is negative, there is no such value. Without the
// error the result would be inexact near 0, where m - 1 + error is x itself.
static int32_t log_of_sum(dv_vec_build *b, int32_t x, int32_t rest)
{
    int32_t one = K(1), e;
    int32_t y = P(FADD, one, x), m = dv_vec_split(b, y, &e);
    // The rounding error is exact if the larger operand is subtracted from y
    // first.
    int32_t big = P(SEL, P(FLT, one, x), x, one);
    int32_t small = P(SEL, P(FLT, one, x), one, x);
    int32_t error = P(FSUB, small, P(FSUB, y, big));
    if (rest >= 0)
        error = P(FADD, error, rest);
    // m / y is a power of two, which scales the error from y to m.
    int32_t f = P(FMA, error, P(FDIV, m, y), P(FSUB, m, one));
    return log_specials(b, y, log_sum(b, e, f));
}

int32_t dv_vec_log1p(dv_vec_build *b, const int32_t *x)
{
    return dv_vec_with_sign_of(b, x[0], log_of_sum(b, x[0], -1));
}

// Returns log 2x for large x, which is what asinh x and acosh x then round to.
static int32_t log_of_double(dv_vec_build *b, int32_t x)
{
    int32_t e, m = dv_vec_split(b, x, &e);
    int32_t sum = log_sum(b, P(FADD, e, K(1)), P(FSUB, m, K(1)));
    return log_specials(b, x, sum);
}

// Computes asinh x = log(1 + a + a^2 / (1 + sqrt(1 + a^2))) with a = |x|.
int32_t dv_vec_asinh(dv_vec_build *b, const int32_t *x)
{
    int32_t a = P(FABS, x[0]), one = K(1), limit = K(b->is64 ? 0x1p30 : 0x1p15);
    int32_t near = P(FLEAST, a, limit), square = P(FMUL, near, near);
    int32_t root = P(FSQRT, P(FMA, near, near, one));
    int32_t more = P(FDIV, square, P(FADD, one, root));
    int32_t w = P(FADD, near, more);
    int32_t rest = P(FADD, P(FSUB, near, w), more);
    int32_t sum =
        P(SEL, P(FLT, a, limit), log_of_sum(b, w, rest), log_of_double(b, a));
    return dv_vec_with_sign_of(b, x[0], sum);
}

// Computes acosh x = log(1 + t + sqrt(t^2 + 2 t)) with t = x - 1. The rounding
// errors of the root and of its sum with t are added to the argument of the
// logarithm, because they matter near x = 1.
int32_t dv_vec_acosh(dv_vec_build *b, const int32_t *x)
{
    int32_t one = K(1), limit = K(b->is64 ? 0x1p30 : 0x1p15);
    int32_t near = P(FLEAST, x[0], limit), t = P(FSUB, near, one);
    int32_t square = P(FMA, t, t, P(FADD, t, t));
    int32_t root = P(FSQRT, square), w = P(FADD, t, root);
    int32_t error = P(FDIV, P(FNMA, root, root, square), P(FADD, root, root));
    int32_t larger = P(FMOST, root, t), smaller = P(FLEAST, t, root);
    int32_t rest = P(FADD, P(FSUB, larger, w), smaller);
    rest = P(FADD, rest, P(SEL, P(FEQ, root, K(0)), root, error));
    int32_t sum = P(SEL, P(FLT, x[0], limit), log_of_sum(b, w, rest),
                    log_of_double(b, x[0]));
    return P(SEL, P(FLT, x[0], one), K(NAN), sum);
}

// Computes atanh x = log(1 + w) / 2, where w = 2 a / (1 - a) with a = |x|. The
// rounding errors of 1 - a and of the quotient are added to w.
int32_t dv_vec_atanh(dv_vec_build *b, const int32_t *x)
{
    int32_t a = P(FABS, x[0]), one = K(1), d = P(FSUB, one, a);
    int32_t missing = P(FSUB, P(FSUB, one, d), a), top = P(FADD, a, a);
    int32_t w = P(FDIV, top, d);
    int32_t rest = P(FNMA, w, missing, P(FNMA, w, d, top));
    rest = P(FDIV, rest, d);
    int32_t sum = P(FMUL, log_of_sum(b, w, rest), K(0.5));
    // Where |x| is tiny, the result is x; where it is 1, inf with the sign of
    // x; where it is larger, nan.
    sum = P(SEL, P(FLT, a, K(b->is64 ? 0x1p-30 : 0x1p-13)), a, sum);
    sum = P(SEL, P(FEQ, a, one), K(INFINITY), sum);
    sum = P(SEL, P(FLT, one, a), K(NAN), sum);
    return dv_vec_with_sign_of(b, x[0], sum);
}

// Computes log2 x = e + log(1 + f) / ln 2, where x = 2^e (1 + f). log(1 + f),
// its product with 1 / ln 2 and the sum are pairs of a rounded value and its
// error.
int32_t dv_vec_log2(dv_vec_build *b, const int32_t *x)
{
    // 1 / ln 2 rounded to f64 or f32 (by), and its rounding error (rest).
    double by = b->is64 ? 0x1.71547652b82fep0 : 0x1.715476p0;
    double rest = b->is64 ? 0x1.777d0ffda0d24p-56 : 0x1.4ae0bf85ddf44p-26;
    int32_t e, m = dv_vec_split(b, x[0], &e);
    log_parts l = log_of(b, e, P(FSUB, m, K(1)), -1);
    int32_t t = P(FSUB, l.h, l.low), high = P(FSUB, l.f, t);
    int32_t low = P(FSUB, P(FSUB, l.f, high), t);
    int32_t p = P(FMUL, high, K(by));
    int32_t error = P(FMA, high, K(by), P(FNEG, p));
    error = P(FMA, low, K(by), P(FMA, high, K(rest), error));
    int32_t sum = P(FADD, e, p);
    error = P(FADD, error, P(FADD, P(FSUB, e, sum), p));
    return log_specials(b, x[0], P(FADD, sum, error));
}
