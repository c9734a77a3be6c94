// Bounds on rounding errors, for the oracle to say how far off a machine's
// results may be: a running error analysis, element by element.
#ifndef DV_ERROR_H
#define DV_ERROR_H
#include "ir/program.h"

// A machine's value lies within v - e .. v + e. An e of infinity: it may be
// anything, nan too. With another e, a nan or an infinity is what it has, too.
typedef struct dv_approx {
    double v, e;
} dv_approx;

// How far two values are apart. Infinities and nans: 0 if they are the same.
double dv_gap(double got, double want);

// What a machine computes in. A result is off by eps of it and by `least`, for
// those that are denormal; more than `most` is infinite. All 0 but `most`:
// whole numbers, or nobody asks.
typedef struct dv_arithmetic {
    double eps, least, most;
} dv_arithmetic;

// How far off r = fn(x[0].v, x[1].v, x[2].v) may be for the arguments' errors
// alone; arguments that it does not have are 0.
double dv_fn_error(dv_fn fn, const dv_approx *x, double r);
// What computing it adds to that; x is the first argument.
double dv_fn_rounding(dv_fn fn, double x, double r, const dv_arithmetic *a);
// How far off x is once a tensor of that type holds it.
double dv_stored_error(dv_dtype t, dv_approx x);
#endif
