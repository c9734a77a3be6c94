// Bounds on rounding errors. The oracle (the reference evaluation) uses them to
// say how far a machine's results may deviate from its own; it is a running
// error analysis, element by element.
#ifndef DV_ERROR_H
#define DV_ERROR_H
#include "ir/program.h"

// The value v of the oracle (the reference evaluation) and a bound e on the
// error: a machine's value lies in v - e .. v + e. If e is infinite, the
// machine's value may be anything, including NaN. If e is finite and v is NaN
// or infinite, the machine's value is that same NaN or infinity.
typedef struct dv_approx {
    double v, e;
} dv_approx;

// Returns |got - want|; if one of them is infinite or NaN, 0 if both are the
// same and infinity if not.
double dv_abs_difference(double got, double want);

// The precision of a machine's arithmetic. A result r has an error of up to eps
// * |r| + least (`least` covers denormal results); values above `most` overflow
// to infinity. eps and least are 0 for integers and when no error bounds are
// wanted.
typedef struct dv_arithmetic {
    double eps, least, most;
} dv_arithmetic;

// Returns how much the errors of the arguments alone change the result r =
// fn(x[0].v, x[1].v, x[2].v). Arguments that fn does not have must be 0.
double dv_fn_error(dv_fn fn, const dv_approx *x, double r);
// Returns the rounding error of evaluating r = fn(x, ...) itself, which adds to
// dv_fn_error; x is the first argument.
double dv_fn_rounding(dv_fn fn, double x, double r, const dv_arithmetic *a);
// Returns the error bound of x after it is rounded to type t and stored.
double dv_stored_error(dv_dtype t, dv_approx x);
#endif
