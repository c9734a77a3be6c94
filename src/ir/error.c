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

// Bounds the error of an even function, whose least or largest value is at 0,
// or of a power.
static double of_turning(dv_fn fn, const dv_approx *x, double r)
{
    double e = at_corners(fn, x, r);
    if (fn == DV_FN_POW && x[0].v <= x[0].e &&
        (x[1].e > 0 || x[1].v != rint(x[1].v) || x[1].v < 0))
        return INFINITY; // it has a pole at 0, and no value below
    if (fabs(x[0].v) <= x[0].e)
        e = fmax(e, dv_abs_difference(dv_fn_apply(fn, 0, x[1].v, 0), r));
    return e;
}

static double of_tangent(const dv_approx *x, double r)
{
    double lo = cos(x[0].v - x[0].e), hi = cos(x[0].v + x[0].e);
    if (x[0].e > 1 || !(lo * hi > 0))
        return INFINITY; // there may be a pole between
    return at_corners(DV_FN_TAN, x, r);
}

// Bounds the error of atan2(y, x): an angle changes by at most the angle under
// which the error is seen from the origin, except where y changes its sign at x
// < 0.
static double of_angle(const dv_approx *x)
{
    const double turn = 6.3;
    double e = hypot(x[0].e, x[1].e), far = hypot(x[0].v, x[1].v);
    if (e >= far || (x[1].v <= x[1].e && fabs(x[0].v) <= x[0].e))
        return turn;
    return 1.6 * (e / far); // asin t is at most pi / 2 t
}

// Bounds the error of a remainder: it follows its operands until the integer
// part of the quotient changes; then it jumps by the divisor.
static double of_remainder(dv_fn fn, const dv_approx *x)
{
    double y = fabs(x[1].v), least = INFINITY, most = -INFINITY;
    if (y <= x[1].e)
        return INFINITY; // the divisor may be zero
    for (int i = 0; i < 4; i++) {
        double q = (x[0].v + (i & 1 ? x[0].e : -x[0].e)) /
                   (x[1].v + (i & 2 ? x[1].e : -x[1].e));
        q = fn == DV_FN_MOD ? floor(q) : trunc(q);
        least = fmin(least, q);
        most = fmax(most, q);
    }
    double e = x[0].e + fmax(fabs(least), fabs(most)) * x[1].e;
    return least == most ? e : fmax(e, y + x[1].e);
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
    if (dv_fn_get(fn)->slope > 0 && isfinite(x[0].v))
        return dv_fn_get(fn)->slope * sum;
    if (dv_fn_get(fn)->whole)
        return INFINITY;
    if (fn == DV_FN_COSH || fn == DV_FN_POW)
        return of_turning(fn, x, r);
    if (fn == DV_FN_TAN)
        return of_tangent(x, r);
    if (fn == DV_FN_ATAN2)
        return of_angle(x);
    if (fn == DV_FN_MOD || fn == DV_FN_REM)
        return of_remainder(fn, x);
    return at_corners(fn, x, r);
}

double dv_fn_rounding(dv_fn fn, double x, double r, const dv_arithmetic *a)
{
    int n = dv_fn_get(fn)->ulps;
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
    if (t == DV_BOOL) // 1 unless the value is 0
        return fabs(x.v) <= x.e;
    // Integers that may leave the type's range wrap around, so there is no
    // bound.
    if (!dv_is_float(t) && (x.v - x.e <= (double)dv_int_least(t) - 1 ||
                            x.v + x.e >= (double)dv_int_most(t) + 1))
        return INFINITY;
    double r = dv_round_to(t, x.v);
    return fmax(dv_abs_difference(dv_round_to(t, x.v - x.e), r),
                dv_abs_difference(dv_round_to(t, x.v + x.e), r));
}
