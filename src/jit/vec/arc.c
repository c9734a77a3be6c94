// Inverse trigonometric functions. The series are Taylor's: arguments are
// reduced so far that these converge.
#include "jit/vec/math.h"
#include <math.h>

// Coefficients of the series of (atan t - t) / t^3 in t^2, for t up to 7/16;
// f32 needs only the first ATAN_F32 of them.
enum { ATAN_F32 = 10, ASIN_F32 = 11 };
static const dv_vec_poly atan_terms = {
    22, {-0x1.5555555555555p-2, 0x1.999999999999ap-3,  -0x1.2492492492492p-3,
         0x1.c71c71c71c71cp-4,  -0x1.745d1745d1746p-4, 0x1.3b13b13b13b14p-4,
         -0x1.1111111111111p-4, 0x1.e1e1e1e1e1e1ep-5,  -0x1.af286bca1af28p-5,
         0x1.8618618618618p-5,  -0x1.642c8590b2164p-5, 0x1.47ae147ae147bp-5,
         -0x1.2f684bda12f68p-5, 0x1.1a7b9611a7b96p-5,  -0x1.0842108421084p-5,
         0x1.f07c1f07c1f08p-6,  -0x1.d41d41d41d41dp-6, 0x1.bacf914c1bad0p-6,
         -0x1.a41a41a41a41ap-6, 0x1.8f9c18f9c18fap-6,  -0x1.7d05f417d05f4p-6,
         0x1.6c16c16c16c17p-6}};

// Coefficients of the series of (asin t - t) / t^3 in t^2, for t up to 1/2.
static const dv_vec_poly asin_terms = {
    26, {0x1.5555555555555p-3, 0x1.3333333333333p-4, 0x1.6db6db6db6db7p-5,
         0x1.f1c71c71c71c7p-6, 0x1.6e8ba2e8ba2e9p-6, 0x1.1c4ec4ec4ec4fp-6,
         0x1.c99999999999ap-7, 0x1.7a87878787878p-7, 0x1.3fde50d79435ep-7,
         0x1.12ef3cf3cf3cfp-7, 0x1.df3bd37a6f4dfp-8, 0x1.a6863d70a3d71p-8,
         0x1.782dda12f684cp-8, 0x1.51ba308d3dcb1p-8, 0x1.31683bdef7bdfp-8,
         0x1.15ee9d45d1746p-8, 0x1.fcaf8fb6db6dbp-9, 0x1.d3d2a8e0dd67dp-9,
         0x1.b026f57b13b14p-9, 0x1.90cb77f60c7cep-9, 0x1.750de64d7d05fp-9,
         0x1.5c5f56efaaaabp-9, 0x1.464c0950f7d47p-9, 0x1.3275586c5f2f0p-9,
         0x1.208d3570ae5a6p-9, 0x1.1052bc5fa960ap-9}};

// A constant as a double and its rounding error.
typedef struct pair {
    double high, low;
} pair;

static const pair half_pi = {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54},
                  quarter_pi = {0x1.921fb54442d18p-1, 0x1.1a62633145c07p-55};
static const pair atan_half = {0x1.dac670561bb4fp-2, 0x1.a2b7f222f65e2p-56};
static const pair atan_three_halves = {0x1.f730bd281f69bp-1,
                                       0x1.007887af0cbbdp-56};

// Returns the rounding error of p as a constant of the compute type: the exact
// value minus K(p.high).
static double rest_of(const dv_vec_build *b, pair p)
{
    return b->is64 ? p.low : p.high - (double)(float)p.high;
}

// Returns t^3 times the series, that is, the function without its first term t.
static int32_t rest_of_series(dv_vec_build *b, const dv_vec_poly *p, int n_f32,
                              int32_t t)
{
    dv_vec_poly terms = *p;
    terms.n = b->is64 ? terms.n : n_f32;
    int32_t z = P(FMUL, t, t);
    return P(FMUL, P(FMUL, t, z), dv_vec_series(b, &terms, z));
}

// Computes atan a for a >= 0 as atan c + atan((a - c) / (1 + c a)), where c is
// 0, 1/2, 1, 3/2 or infinity, chosen by the range of a (below 7/16, 11/16,
// 19/16, 39/16, or above).
static int32_t arc_tangent(dv_vec_build *b, int32_t a)
{
    static const struct {
        double end, c;
    } near[] = {
        {39.0 / 16, 1.5}, {19.0 / 16, 1}, {11.0 / 16, 0.5}, {7.0 / 16, 0}};
    const pair *const angle[] = {&atan_three_halves, &quarter_pi, &atan_half,
                                 NULL};
    int32_t top = K(-1), bottom = a;
    int32_t high = K(half_pi.high), low = K(rest_of(b, half_pi));
    for (int i = 0; i < 4; i++) {
        int32_t is = P(FLT, a, K(near[i].end)), c = K(near[i].c);
        top = P(SEL, is, P(FSUB, a, c), top);
        bottom = P(SEL, is, P(FMA, c, a, K(1)), bottom);
        high = P(SEL, is, K(angle[i] ? angle[i]->high : 0), high);
        low = P(SEL, is, K(angle[i] ? rest_of(b, *angle[i]) : 0), low);
    }
    int32_t t = P(FDIV, top, bottom);
    int32_t rest = rest_of_series(b, &atan_terms, ATAN_F32, t);
    return P(FADD, high, P(FADD, t, P(FADD, low, rest)));
}

int32_t dv_vec_atan(dv_vec_build *b, const int32_t *x)
{
    return dv_vec_with_sign_of(b, x[0], arc_tangent(b, P(FABS, x[0])));
}

// Computes the angle of the point (x, y) from the arc tangent of the smaller
// coordinate divided by the larger one. 0 / 0 counts as 0, inf / inf as 1.
int32_t dv_vec_atan2(dv_vec_build *b, const int32_t *args)
{
    int32_t y = args[0], x = args[1], zero = K(0), one = K(1);
    int32_t tall = P(FABS, y), wide = P(FABS, x);
    int32_t less = P(FMIN, tall, wide), more = P(FMAX, tall, wide);
    int32_t q = P(FDIV, less, more);
    q = P(SEL, P(FEQ, more, zero), zero, q);
    q = P(SEL, P(FEQ, less, K(INFINITY)), one, q);
    int32_t angle = arc_tangent(b, q);
    int32_t turned =
        P(FADD, P(FSUB, K(half_pi.high), angle), K(rest_of(b, half_pi)));
    angle = P(SEL, P(FLT, wide, tall), turned, angle);
    turned = P(FADD, P(FSUB, K(2 * half_pi.high), angle),
               K(2 * rest_of(b, half_pi)));
    int32_t left = P(FLT, dv_vec_with_sign_of(b, x, one), zero);
    angle = P(SEL, left, turned, angle);
    return dv_vec_with_sign_of(b, y, angle);
}

// Returns sqrt((1 - a) / 2) where a > 1/2, else a; *far is the mask of a > 1/2.
// The arc sine of that root is half the arc cosine of a, so that the series of
// asin is needed up to 1/2 only.
static int32_t sine_of_half(dv_vec_build *b, int32_t a, int32_t *far)
{
    int32_t half = K(0.5), root = P(FSQRT, P(FNMA, a, half, half));
    *far = P(FLT, half, a);
    return P(SEL, *far, root, a);
}

// Returns asin t - t, from the series.
static int32_t rest_of_asin(dv_vec_build *b, int32_t t)
{
    return rest_of_series(b, &asin_terms, ASIN_F32, t);
}

int32_t dv_vec_asin(dv_vec_build *b, const int32_t *args)
{
    int32_t x = args[0], a = P(FABS, x), far;
    int32_t t = sine_of_half(b, a, &far), rest = rest_of_asin(b, t);
    // Where a > 1/2, asin a = pi / 2 - 2 asin t. The small terms are added
    // first.
    int32_t low = P(FNMA, rest, K(2), K(rest_of(b, half_pi)));
    int32_t high = P(FNMA, t, K(2), K(half_pi.high));
    int32_t error = P(FNMA, t, K(2), P(FSUB, K(half_pi.high), high));
    int32_t large = P(FADD, high, P(FADD, error, low));
    return dv_vec_with_sign_of(b, x, P(SEL, far, large, P(FADD, t, rest)));
}

int32_t dv_vec_acos(dv_vec_build *b, const int32_t *args)
{
    int32_t x = args[0], a = P(FABS, x), far, zero = K(0);
    int32_t t = sine_of_half(b, a, &far), rest = rest_of_asin(b, t);
    int32_t sum = P(FMUL, P(FADD, t, rest), K(2));
    int32_t other =
        P(FADD, P(FSUB, K(2 * half_pi.high), sum), K(2 * rest_of(b, half_pi)));
    sum = P(SEL, P(FLT, x, zero), other, sum);
    // Where |x| <= 1/2, acos x = pi / 2 - asin x. The small terms are added
    // first.
    int32_t signed_t = dv_vec_with_sign_of(b, x, t);
    int32_t signed_rest = dv_vec_with_sign_of(b, x, rest);
    int32_t high = P(FSUB, K(half_pi.high), signed_t);
    int32_t low = P(FSUB, P(FSUB, K(half_pi.high), high), signed_t);
    low = P(FADD, low, P(FSUB, K(rest_of(b, half_pi)), signed_rest));
    return P(SEL, far, sum, P(FADD, high, low));
}
