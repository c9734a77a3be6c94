// Error bounds of a machine's values relative to those of the oracle (the
// reference evaluation): every value carries a bound, and the rules here
// propagate bounds through functions. Nearly all functions of the language are
// monotone in each argument, so the range of the result follows from the
// endpoints of the arguments' ranges.
#include "ir/error.h"
#include <math.h>

double dv_abs_difference(double got, double r)
{
    if (isfinite(got) && isfinite(r))
        return fabs(got - r);
    return got == r || (isnan(got) && isnan(r)) ? 0 : INFINITY;
}

static double at_corners(dv_fn fn, const dv_approx *x, double r)
{
    double worst = 0;
    for (int i = 0; i < (x[1].e > 0 ? 4 : 2); i++) {
        double a = x[0].v + (i & 1 ? x[0].e : -x[0].e);
        double b = x[1].v + (i & 2 ? x[1].e : -x[1].e);
        worst = fmax(worst, dv_abs_difference(dv_fn_apply(fn, a, b, 0), r));
    }
    return worst;
}

static double of_choice(const dv_approx *x, double r)
{
    int sure = isnan(x[0].v) ? x[0].e == 0 : fabs(x[0].v) > x[0].e;
    if (x[0].e == 0 || sure)
        return x[x[0].v != 0 ? 1 : 2].e;
    return fmax(x[1].e + dv_abs_difference(x[1].v, r),
                x[2].e + dv_abs_difference(x[2].v, r));
}

double dv_fn_error(dv_fn fn, const dv_approx *x, double r)
{
    double sum = x[0].e + x[1].e;
    if (fn == DV_FN_SELECT)
        return of_choice(x, r);
    if (sum == 0)
        return 0;
    if (!isfinite(sum))
        return INFINITY;
    if (isfinite(r) && (fn == DV_FN_ADD || fn == DV_FN_SUB))
        return sum;
    if (isfinite(r) && fn == DV_FN_MUL)
        return fabs(x[0].v) * x[1].e + x[0].e * (fabs(x[1].v) + x[1].e);
    if (fn == DV_FN_EQ || fn == DV_FN_NE)
        return fabs(x[0].v - x[1].v) <= sum;
    if (fn == DV_FN_DIV && x[1].e > 0 && fabs(x[1].v) <= x[1].e)
        return INFINITY; // the divisor may be zero
    if ((fn == DV_FN_SILU || fn == DV_FN_GELU) && isfinite(x[0].v))
        // SiLU and GELU are not monotone; their slope never exceeds 1.13.
        return 1.2 * sum;
    return at_corners(fn, x, r);
}

static int ulps(dv_fn fn)
{
    switch (fn) {
    case DV_FN_LT:
    case DV_FN_LE:
    case DV_FN_GT:
    case DV_FN_GE:
    case DV_FN_EQ:
    case DV_FN_NE:
    case DV_FN_NEG:
    case DV_FN_RELU:
    case DV_FN_ABS:
    case DV_FN_MIN:
    case DV_FN_MAX:
    case DV_FN_SELECT:
        return 0;
    case DV_FN_ADD:
    case DV_FN_SUB:
    case DV_FN_MUL:
        return 1;
    case DV_FN_DIV:
    case DV_FN_SQRT:
        return 2;
    case DV_FN_EXP:
    case DV_FN_LOG:
    case DV_FN_RSQRT:
    case DV_FN_TANH:
    case DV_FN_ERF:
        // 5 units in the last place: up to 4 by the machine, and 1 by the
        // reference evaluation in double.
        return 5;
    case DV_FN_SIGMOID:
    case DV_FN_SILU:
    case DV_FN_GELU:
        return 8;
    }
    return 0;
}

double dv_fn_rounding(dv_fn fn, double x, double r, const dv_arithmetic *a)
{
    int n = ulps(fn);
    if (!n || !isfinite(r))
        return 0;
    double e = n * (a->eps * fabs(r) + a->least);
    if (!isfinite(x))
        return e;
    // The intermediate exp(x) of these two functions may be denormal, which
    // costs an absolute error beyond the relative one.
    if (fn == DV_FN_SILU || fn == DV_FN_GELU)
        e += 64 * fabs(x) * a->least;
    return fn == DV_FN_GELU ? e + 4 * a->eps * fabs(x) : e;
}

double dv_stored_error(dv_dtype t, dv_approx x)
{
    if (x.e == 0)
        return 0;
    if (!isfinite(x.e))
        return INFINITY;
    // Integers that may leave the type's range wrap around, so there is no
    // bound.
    double end = t == DV_I8    ? 0x1p7
                 : t == DV_I32 ? 0x1p31
                 : t == DV_I64 ? 0x1p63
                               : INFINITY;
    if (fabs(x.v) + x.e >= end)
        return INFINITY;
    double r = dv_round_to(t, x.v);
    return fmax(dv_abs_difference(dv_round_to(t, x.v - x.e), r),
                dv_abs_difference(dv_round_to(t, x.v + x.e), r));
}
