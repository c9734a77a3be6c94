// Shared by the functions on vectors: the rules of fn.c, and what the formulas
// of math.c have in common.
#ifndef DV_JIT_VEC_MATH_H
#define DV_JIT_VEC_MATH_H
#include "jit/vec/ir.h"

// Emits a function of the values x, and returns the value that is its result.
typedef int32_t dv_vec_rule(dv_vec_build *b, const int32_t *x);
dv_vec_rule dv_vec_exp, dv_vec_exp2, dv_vec_expm1;
dv_vec_rule dv_vec_log, dv_vec_log2, dv_vec_log1p;
dv_vec_rule dv_vec_sinh, dv_vec_cosh, dv_vec_tanh, dv_vec_erf;
dv_vec_rule dv_vec_asinh, dv_vec_acosh, dv_vec_atanh;
dv_vec_rule dv_vec_asin, dv_vec_acos, dv_vec_atan, dv_vec_atan2;
dv_vec_rule dv_vec_sin, dv_vec_cos, dv_vec_tan;
dv_vec_rule dv_vec_pow, dv_vec_rem, dv_vec_mod;
dv_vec_rule dv_vec_sigmoid, dv_vec_silu, dv_vec_gelu;

enum { DV_VEC_MAX_TERMS = 26 };

typedef struct dv_vec_poly {
    int n;
    double c[DV_VEC_MAX_TERMS]; // coefficients from the constant term up
} dv_vec_poly;

typedef struct dv_vec_real {
    int mantissa, bias; // bits of the mantissa; bias of the exponent
    double log2e, ln2_hi, ln2_lo;
    double exp_least, exp_most; // e^y is 0 below exp_least, inf above exp_most
    // Small intermediate results are scaled by 2^lift to avoid denormals.
    int lift;
    dv_vec_poly exp; // polynomial for (e^r - 1 - r) / r^2
    // Polynomial in r^2 for (tanh r - r) / r^3, r below 0.262.
    dv_vec_poly tanh;
    // log: (log((1+s)/(1-s)) - 2 s) / s^3 as polynomial in s^2; ln 2 is split
    // so that multiples of its first part are exact.
    double ln2_short, ln2_rest;
    dv_vec_poly log;
    double erf_cut; // erf is x + x P(x^2) below this, else 1 - erfc
    double erf_most;
    dv_vec_poly erf;
    // The tail of the normal distribution is e^(-t^2/2) P(q) / (t + k) with q =
    // (t - k) / (t + k).
    double tail_k, tail_most;
    dv_vec_poly tail;
} dv_vec_real;

// Returns the constants and polynomials for the compute type (f32 or f64).
const dv_vec_real *dv_vec_type_of(const dv_vec_build *b);
// Emits code that evaluates the polynomial p at x.
int32_t dv_vec_series(dv_vec_build *b, const dv_vec_poly *p, int32_t x);
int32_t dv_vec_sign_bit(dv_vec_build *b);
int32_t dv_vec_with_sign_of(dv_vec_build *b, int32_t x, int32_t size);
// Returns the constant that, added to a float with the integer value n, leaves
// the exponent bits of 2^(n + by) in the low bits of the sum.
double dv_vec_magic(const dv_vec_real *k, int by);
// Returns 2^(m + by), where the argument n is the sum of an integer m and
// dv_vec_magic(k, by): its low bits are shifted into the exponent field.
int32_t dv_vec_power(dv_vec_build *b, int32_t n);

// Splits x > 0 into 2^e m with m within a factor sqrt(2) of 1; e is a float.
int32_t dv_vec_split(dv_vec_build *b, int32_t x, int32_t *e);
// Returns 2^m e^r, a normal number, where the argument n is the sum of an
// integer m and dv_vec_magic(k, 0).
int32_t dv_vec_exp_part(dv_vec_build *b, int32_t r, int32_t n);

// Shorthands for formulas: P emits an operation, K makes a constant.
#define P(op, ...) dv_vec_put3(b, DV_V_##op, (int32_t[3]){__VA_ARGS__})
#define K(value)   dv_vec_float(b, (value))

static inline int32_t dv_vec_put3(dv_vec_build *b, dv_vop op, const int32_t *x)
{
    return dv_vec_put(b, op, x[0], x[1], x[2]);
}
#endif
