// Tables of primitives and operand names, and properties of a nest that follow
// from its fields.
#include "nest/nest.h"
#include "base/math.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const dv_prim_info prims[] = {
#define DV_PRIM(NAME, name, kind, k_prims, fn) {name, kind, k_prims, fn},
#include "nest/prim.def"
#undef DV_PRIM
};

const dv_prim_info *dv_prim_get(dv_prim p)
{
    return &prims[p];
}

int dv_prim_is_const(dv_prim p, double *value)
{
    *value = p == DV_PRIM_ONE       ? 1
             : p == DV_PRIM_LOWEST  ? -INFINITY
             : p == DV_PRIM_HIGHEST ? INFINITY
                                    : 0;
    return p == DV_PRIM_ZERO || *value != 0;
}

dv_prim dv_prim_neutral(dv_prim reduce)
{
    return reduce == DV_PRIM_PROD       ? DV_PRIM_ONE
           : reduce == DV_PRIM_MIN_OVER ? DV_PRIM_HIGHEST
           : reduce == DV_PRIM_MAX_OVER ? DV_PRIM_LOWEST
                                        : DV_PRIM_ZERO;
}

int dv_prim_find(const char *name, size_t len)
{
    for (int i = 0; i < DV_N_PRIMS; i++)
        if (strlen(prims[i].name) == len && !memcmp(prims[i].name, name, len))
            return i;
    return -1;
}

const char *dv_nest_type_name(dv_nest_type t)
{
    static const char *const names[] = {"c", "m", "n", "k"};
    return names[t];
}

const char *dv_nest_exec_name(dv_nest_exec e)
{
    static const char *const names[] = {"shared", "seq", "prim"};
    return names[e];
}

const char *dv_nest_operand_name(int operand)
{
    static const char *const names[] = {"in0", "in1", "out", "in2"};
    return names[operand];
}

int dv_nest_is_unary(const dv_nest *n)
{
    return prims[n->main].kind == DV_PRIM_IS_UNARY;
}

int dv_nest_is_binary(const dv_nest *n)
{
    return prims[n->main].kind == DV_PRIM_IS_BINARY;
}

int dv_nest_is_select(const dv_nest *n)
{
    return prims[n->main].kind == DV_PRIM_IS_SELECT;
}

int dv_nest_is_reduce(const dv_nest *n)
{
    return prims[n->main].kind == DV_PRIM_IS_REDUCE;
}

int dv_nest_is_product(const dv_nest *n)
{
    return prims[n->main].kind == DV_PRIM_IS_PRODUCT;
}

void dv_nest_move(dv_nest *n, int from, int to)
{
    dv_nest_dim d = n->dims[from];
    size_t between = (size_t)(from < to ? to - from : from - to);
    if (from < to)
        memmove(&n->dims[from], &n->dims[from + 1], between * sizeof d);
    else
        memmove(&n->dims[to + 1], &n->dims[to], between * sizeof d);
    n->dims[to] = d;
}

void dv_nest_drop(dv_nest *n, int dim)
{
    dv_nest_move(n, dim, --n->n_dims);
}

int dv_nest_is_transposed(const dv_nest *n)
{
    dv_nest_prims p = dv_nest_find_prims(n);
    return dv_nest_is_unary(n) && p.m >= 0 && p.n >= 0 &&
           n->dims[p.m].stride[DV_OUT] != 1 && n->dims[p.n].stride[DV_OUT] == 1;
}

dv_dtype dv_nest_dtype(const dv_nest *n, int operand)
{
    return n->types[operand] ? (dv_dtype)(n->types[operand] - 1) : n->dtype;
}

int dv_nest_is_of_one_type(const dv_nest *n)
{
    for (int o = 0; o < DV_MAX_OPERANDS; o++)
        if (dv_nest_dtype(n, o) != n->dtype)
            return 0;
    return 1;
}

int dv_nest_factors(const dv_nest *n)
{
    dv_dtype t = dv_nest_dtype(n, DV_IN0), out = n->dtype;
    if (!dv_nest_is_product(n) || dv_nest_dtype(n, DV_IN1) != t)
        return -1;
    switch (t) {
    case DV_F32:
    case DV_F64:
        return out == t ? (int)t : -1;
    case DV_F16:
    case DV_BF16:
        return out == DV_F32 || out == DV_F16 || out == DV_BF16 ? (int)t : -1;
    case DV_I8:
    case DV_I32:
        return out == DV_I32 ? (int)t : -1;
    default:
        return -1;
    }
}

int dv_nest_has(const dv_nest *n, int operand)
{
    double value;
    int reads = dv_prim_is_const(n->main, &value) ? 0
                : dv_nest_is_select(n)            ? 3
                : dv_nest_is_binary(n) || dv_nest_is_product(n) ||
                        n->main == DV_PRIM_DOT
                    ? 2
                    : 1;
    if (n->constants >> operand & 1)
        return 0;
    switch (operand) {
    case DV_IN0:
        return reads > 0;
    case DV_IN1:
        return reads > 1;
    case DV_IN2:
        return reads > 2 || n->look;
    default:
        return 1;
    }
}

// Returns whether the primitive's function gives fractions for integer
// arguments.
static int is_real(dv_prim p)
{
    int fn = prims[p].fn;
    return fn >= 0 && dv_fn_get((dv_fn)fn)->real;
}

static int has_fraction(double x)
{
    return x != trunc(x) || isinf(x);
}

dv_dtype dv_nest_compute(const dv_nest *n)
{
    int floats =
        n->mean || is_real(n->first) || is_real(n->main) || is_real(n->last);
    int wide = 0, read = 0;
    for (int o = 0; o < DV_MAX_OPERANDS; o++) {
        dv_dtype t = dv_nest_dtype(n, o);
        if (n->constants >> o & 1)
            floats |= has_fraction(n->value[o]);
        if (!dv_nest_has(n, o) || (n->look && o == DV_IN2))
            continue;
        if (t == DV_F64)
            return DV_F64;
        wide |= dv_is_wide_integer(t) && !(dv_nest_is_select(n) && o == DV_IN0);
        read |= o != DV_OUT;
        floats |= o != DV_OUT && dv_is_float(t);
    }
    // A constant is written: compute in float if the output is float.
    if (!read && dv_is_float(n->dtype))
        floats = 1;
    return !floats ? DV_I64 : wide ? DV_F64 : DV_F32;
}

static int dim_equal(const dv_nest_dim *a, const dv_nest_dim *b)
{
    return a->type == b->type && a->exec == b->exec && a->size == b->size &&
           a->whole == b->whole && a->pack == b->pack &&
           !memcmp(a->stride, b->stride, sizeof a->stride);
}

// Compares the fields that describe operands. Constants are compared as bits,
// so that NaN equals NaN.
static int operands_equal(const dv_nest *a, const dv_nest *b)
{
    if (a->mean != b->mean || a->constants != b->constants ||
        a->look != b->look || memcmp(a->types, b->types, sizeof a->types) != 0)
        return 0;
    for (int o = 0; o < DV_MAX_OPERANDS; o++)
        if ((a->constants >> o & 1) &&
            memcmp(&a->value[o], &b->value[o], sizeof *a->value) != 0)
            return 0;
    return !a->look || (a->index_stride == b->index_stride &&
                        a->index_count == b->index_count);
}

int dv_nest_equal(const dv_nest *a, const dv_nest *b)
{
    if (!operands_equal(a, b))
        return 0;
    if (strcmp(a->name, b->name) != 0 || a->dtype != b->dtype ||
        a->first != b->first || a->main != b->main || a->last != b->last ||
        a->n_dims != b->n_dims || a->pack != b->pack)
        return 0;
    for (int i = 0; i < a->n_dims; i++)
        if (!dim_equal(&a->dims[i], &b->dims[i]))
            return 0;
    return 1;
}

int dv_nest_extent(const dv_nest *n, int operand, int64_t *lo, int64_t *hi)
{
    dv_nest_tiles t;
    int bad;
    *lo = *hi = 0;
    if (!dv_nest_tiles_of(n, &t, &bad))
        return 0;
    for (int i = 0; i < n->n_dims; i++) {
        int64_t s = n->dims[i].stride[operand], far, steps = n->dims[i].size;
        // If dimension i is a loop over tiles, it is skipped: the untiled size
        // of the dimension inside the tiles already counts it.
        if (t.inner[i] >= 0)
            continue;
        if (n->dims[i].whole)
            steps = n->dims[i].whole;
        if (!dv_mul_i64(&far, s, steps - 1) ||
            !dv_add_i64(s < 0 ? lo : hi, s < 0 ? *lo : *hi, far))
            return 0;
    }
    int64_t s = n->index_stride, far;
    return n->look != 1 + operand ||
           (dv_mul_i64(&far, s, n->index_count - 1) &&
            dv_add_i64(s < 0 ? lo : hi, s < 0 ? *lo : *hi, far));
}

// Finds the dimensions inside the kernel (prims) of a nest whose kernel takes
// dimensions of any type (c, m or n) as its m and n: the first two that are not
// k, of which m has the smaller stride in the output.
static dv_nest_prims any_type_prims(const dv_nest *n)
{
    dv_nest_prims p = {-1, -1, -1, -1};
    for (int i = 0; i < n->n_dims; i++) {
        if (n->dims[i].exec != DV_NEST_PRIM)
            continue;
        if (n->dims[i].type == DV_NEST_K)
            p.k1 = i;
        else if (p.m < 0)
            p.m = i;
        else if (p.n < 0)
            p.n = i;
    }
    if (p.n >= 0 && llabs(n->dims[p.n].stride[DV_OUT]) <
                        llabs(n->dims[p.m].stride[DV_OUT])) {
        int m = p.n;
        p.n = p.m;
        p.m = m;
    }
    return p;
}

dv_nest_prims dv_nest_find_prims(const dv_nest *n)
{
    dv_nest_prims p = {-1, -1, -1, -1};
    if (dv_nest_is_binary(n) || dv_nest_is_select(n) || dv_nest_is_reduce(n))
        return any_type_prims(n);
    for (int i = 0; i < n->n_dims; i++) {
        const dv_nest_dim *d = &n->dims[i];
        if (d->exec != DV_NEST_PRIM)
            continue;
        if (d->type == DV_NEST_M && p.m < 0)
            p.m = i;
        if (d->type == DV_NEST_N && p.n < 0)
            p.n = i;
        if (d->type == DV_NEST_K) {
            p.k2 = p.k1;
            p.k1 = i;
        }
    }
    // k1 is the innermost k of the kernel, k2 the other one; the k with unit
    // stride in in1 becomes k1. mini_jit (a teaching compiler whose nests divvy
    // reads) picks k1 by position alone and therefore refuses nests whose
    // unit-stride k stands before the other k.
    if (p.k2 >= 0 && n->dims[p.k1].stride[DV_IN1] != 1 &&
        n->dims[p.k2].stride[DV_IN1] == 1) {
        int k = p.k1;
        p.k1 = p.k2;
        p.k2 = k;
    }
    return p;
}

int dv_nest_can_collapse(const dv_nest_dim *outer, const dv_nest_dim *inner)
{
    int64_t far;
    for (int o = 0; o < DV_MAX_OPERANDS; o++)
        if (!dv_mul_i64(&far, inner->size, inner->stride[o]) ||
            outer->stride[o] != far)
            return 0;
    return 1;
}
