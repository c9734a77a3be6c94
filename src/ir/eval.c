#include "ir/eval.h"
#include "base/math.h"
#include "ir/error.h"
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

static int64_t integer_step(dv_fn fn, int64_t x, int64_t y);

static int64_t to_whole(double v)
{
    return v >= 0x1p63 ? INT64_MAX : v < -0x1p63 ? INT64_MIN : (int64_t)v;
}

// Returns the remainder of x / y with the sign of y.
static double modulo(double x, double y)
{
    double r = fmod(x, y);
    if (r == 0)
        return copysign(r, y);
    return signbit(r) != signbit(y) ? r + y : r;
}

double dv_fn_apply(dv_fn fn, double x, double y, double z)
{
    switch (fn) {
    case DV_FN_LT:
        return x < y;
    case DV_FN_LE:
        return x <= y;
    case DV_FN_GT:
        return x > y;
    case DV_FN_GE:
        return x >= y;
    case DV_FN_EQ:
        return x == y;
    case DV_FN_NE:
        return x != y;
    case DV_FN_ADD:
        return x + y;
    case DV_FN_SUB:
        return x - y;
    case DV_FN_MUL:
        return x * y;
    case DV_FN_DIV:
        return x / y;
    case DV_FN_NEG:
        return -x;
    case DV_FN_EXP:
        return exp(x);
    case DV_FN_LOG:
        return log(x);
    case DV_FN_SQRT:
        return sqrt(x);
    case DV_FN_RSQRT:
        return 1 / sqrt(x);
    case DV_FN_TANH:
        return tanh(x);
    case DV_FN_ERF:
        return erf(x);
    case DV_FN_SIGMOID:
        return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x));
    case DV_FN_SILU:
        return x < 0 ? x * exp(x) / (1 + exp(x)) : x / (1 + exp(-x));
    case DV_FN_GELU:
        return 0.5 * x * erfc(x * -0.70710678118654752440);
    case DV_FN_RELU:
        return isnan(x) || x > 0 ? x : 0;
    case DV_FN_ABS:
        return fabs(x);
    case DV_FN_MIN:
        return isnan(x) || x < y || (x == y && signbit(x)) ? x : y;
    case DV_FN_MAX:
        return isnan(x) || x > y || (x == y && !signbit(x)) ? x : y;
    case DV_FN_SELECT:
        return x != 0 ? y : z;
    case DV_FN_REM:
        return fmod(x, y);
    case DV_FN_MOD:
        return modulo(x, y);
    case DV_FN_SIGN:
        return isnan(x) ? x : (x > 0) - (x < 0);
    case DV_FN_FLOOR:
        return floor(x);
    case DV_FN_CEIL:
        return ceil(x);
    case DV_FN_ROUND:
        return rint(x);
    case DV_FN_TRUNC:
        return trunc(x);
    case DV_FN_POW:
        return pow(x, y);
    case DV_FN_EXP2:
        return exp2(x);
    case DV_FN_LOG2:
        return log2(x);
    case DV_FN_EXPM1:
        return expm1(x);
    case DV_FN_LOG1P:
        return log1p(x);
    case DV_FN_SINH:
        return sinh(x);
    case DV_FN_COSH:
        return cosh(x);
    case DV_FN_ASINH:
        return asinh(x);
    case DV_FN_ACOSH:
        return acosh(x);
    case DV_FN_ATANH:
        return atanh(x);
    case DV_FN_SIN:
        return sin(x);
    case DV_FN_COS:
        return cos(x);
    case DV_FN_TAN:
        return tan(x);
    case DV_FN_ASIN:
        return asin(x);
    case DV_FN_ACOS:
        return acos(x);
    case DV_FN_ATAN:
        return atan(x);
    case DV_FN_ATAN2:
        return atan2(x, y);
    case DV_FN_BITAND:
    case DV_FN_BITXOR:
    case DV_FN_BITOR:
    case DV_FN_SHL:
    case DV_FN_SHR:
        return (double)integer_step(fn, to_whole(x), to_whole(y));
    case DV_N_FNS:
        break;
    }
    return NAN;
}

double dv_reducer_step(dv_reducer r, double acc, double x)
{
    switch (r) {
    case DV_RED_SUM:
    case DV_RED_MEAN:
        return acc + x;
    case DV_RED_MAX:
        return dv_fn_apply(DV_FN_MAX, acc, x, 0);
    case DV_RED_MIN:
        return dv_fn_apply(DV_FN_MIN, acc, x, 0);
    case DV_RED_PROD:
        return acc * x;
    }
    return NAN;
}

dv_number dv_number_load(dv_dtype t, const void *data, int64_t i)
{
    if (!dv_is_float(t))
        return (dv_number){.i = dv_int_load(t, data, i)};
    return (dv_number){.f = dv_load(t, data, i)};
}

// Evaluation state of one access of an op: of its write or of one of its reads.
typedef struct spot {
    // Row-major offset of the accessed element at the current point; unused if
    // `found` is 1.
    int64_t at;
    // 1 if an index is read from a tensor, or if the access leaves its tensor.
    int found;
    // 1 if the values read may have errors, or get errors when they are
    // converted to the type that the op is computed in.
    int inexact;
    int64_t step[DV_MAX_VARS]; // change of `at` per step of each variable
} spot;

// The last result of a reducer. It stays valid until a variable that the
// reducer depends on changes, so that `x[i,j] / (sum[k] x[i,k])` sums every row
// only once.
typedef struct memo {
    const dv_expr *reducer;
    uint32_t vars;           // mask of variables that the reducer depends on
    int64_t at[DV_MAX_VARS]; // point for which the stored result is valid
    // 1 if `whole` (the result as an integer) is valid, and 1 if `value` (the
    // result as a float) is.
    int has_whole, has_value;
    int64_t whole;
    dv_approx value;
    int index_inexact, uncertain;
} memo;

typedef struct dv_point_eval {
    const dv_program *p;
    const dv_op *op;
    dv_number *const *values; // elements of all tensors; NULL if `load` is set
    dv_eval_load load;
    void *user; // argument of `load`
    const dv_eval_options *options;
    int bounds; // 1 if error bounds are wanted
    dv_diag *diag;
    dv_status status;        // first failure; after it, all values are 0
    int64_t at[DV_MAX_VARS]; // current value of each variable of the op
    spot *spots;             // state of the write, then of each read
    memo *memos;             // stored result of each reducer of the op
    int n_memos;
    double done, total; // number of points evaluated so far, and of all points
    // State of the current op if error bounds are wanted: `in` is the precision
    // it is computed in; `flushes` is 1 if the machine may flush denormals to
    // zero; `index_inexact` is 1 if an index that was read may have an error;
    // `write_inexact` if such an index selects the element to write.
    dv_arithmetic in;
    int flushes;
    int index_inexact, write_inexact;
    // 1 if an integer that was computed may differ on the machine, because it
    // depends on a value with an error.
    int uncertain;
} evaluator;

enum { OUTSIDE = -1 };

static int64_t found(evaluator *ev, const dv_access *a);

// Returns the element number of an access at the current point, or OUTSIDE for
// a read with a border that is outside of its tensor. `n` is 0 for the write
// and 1 + r for read r.
static inline int64_t element(evaluator *ev, const dv_access *a, int n)
{
    return ev->spots[n].found ? found(ev, a) : ev->spots[n].at;
}

// Returns the value that a read finds at the current point. If `error` is not
// NULL, it is set to the error bound of that value.
static inline dv_number fetch(evaluator *ev, int32_t read, double *error)
{
    const dv_access *a = &ev->op->reads[read];
    int64_t k = element(ev, a, read + 1);
    if (k == OUTSIDE)
        return dv_is_float(ev->p->tensors[a->tensor].dtype)
                   ? (dv_number){.f = a->border}
                   : (dv_number){.i = (int64_t)a->border};
    if (ev->load) {
        dv_number x = {0};
        dv_status st = ev->load(ev->user, a->tensor, k, &x, error);
        ev->status = ev->status == DV_OK ? st : ev->status;
        return x;
    }
    if (error)
        *error = ev->options->errors[a->tensor][k];
    return ev->values[a->tensor][k];
}

static int64_t found(evaluator *ev, const dv_access *a)
{
    const dv_op *op = ev->op;
    const dv_tensor *t = &ev->p->tensors[a->tensor];
    int64_t off = 0;
    for (int d = 0; d < a->n_dims; d++) {
        const dv_index *x = &a->index[d];
        int64_t i = x->base;
        for (int v = 0; v < op->n_vars; v++)
            i += x->coef[v] * ev->at[v];
        if (x->via >= 0) {
            double error = 0;
            // The value is an integer, because only integer tensors are
            // accepted as indices.
            int64_t by = fetch(ev, x->via, ev->bounds ? &error : NULL).i;
            if (error > 0)
                ev->index_inexact = 1;
            // A sum that does not fit 64 bits is outside of every tensor.
            if (!dv_mul_i64(&by, by, x->factor) || !dv_add_i64(&i, i, by))
                i = INT64_MIN;
            // An index that was computed with an error may be out of bounds
            // here, but in bounds on the machine: clamp it instead of failing.
            if (ev->index_inexact)
                i = i < 0 ? 0 : i >= t->shape[d] ? t->shape[d] - 1 : i;
        }
        if ((i < 0 || i >= t->shape[d]) && a->has_border)
            return OUTSIDE;
        if (i < 0 || i >= t->shape[d]) {
            if (ev->status == DV_OK)
                ev->status = dv_fail(
                    ev->diag, DV_E_BOUNDS, (dv_loc){&ev->p->src, a->off},
                    "an index found %" PRId64 ", dim %d of %s has 0..%" PRId64,
                    i, d, t->name, t->shape[d]);
            i = 0;
        }
        off = off * t->shape[d] + i;
    }
    return off;
}

static void move(evaluator *ev, int v, int64_t by)
{
    ev->at[v] += by;
    for (int n = 0; n <= ev->op->n_reads; n++)
        ev->spots[n].at += ev->spots[n].step[v] * by;
}

static void start(evaluator *ev, uint32_t vars)
{
    for (int v = 0; v < ev->op->n_vars; v++)
        if (vars >> v & 1)
            move(ev, v, ev->op->vars[v].begin - ev->at[v]);
}

// Advances to the next combination of values of the variables in the mask.
// Returns 0 after the last one.
static int next_point(evaluator *ev, uint32_t vars)
{
    for (int v = ev->op->n_vars - 1; v >= 0; v--) {
        if (!(vars >> v & 1))
            continue;
        int more = ev->at[v] + 1 < ev->op->vars[v].end;
        move(ev, v, more ? 1 : ev->op->vars[v].begin - ev->at[v]);
        if (more)
            return 1;
    }
    return 0;
}

// Returns whether e is evaluated in 64-bit integers, which wrap around.
static int is_whole(const dv_expr *e)
{
    return e->dtype == DV_WEAK_INT ||
           (e->dtype >= 0 && !dv_is_float((dv_dtype)e->dtype));
}

static int has_floats(const dv_expr *e)
{
    for (int i = 0; i < e->n_args; i++)
        if (has_floats(e->arg[i]))
            return 1;
    return !is_whole(e);
}

// Returns whether a part of e has a float type narrower than f64.
static int has_narrow(const dv_expr *e)
{
    for (int i = 0; i < e->n_args; i++)
        if (has_narrow(e->arg[i]))
            return 1;
    return e->dtype >= 0 && e->dtype != DV_F64 &&
           dv_is_float((dv_dtype)e->dtype);
}

// Returns whether f32 does not hold all values of the integer type.
static int is_wide_integer(dv_dtype t)
{
    return !dv_is_float(t) && dv_dtype_get(t)->size_bytes > 2;
}

// Returns whether the result of e depends on the value of a read other than
// through comparisons of integers and integer conditions of selects.
static int depends(const dv_expr *e, int32_t read)
{
    int select = e->kind == DV_EXPR_APPLY && e->fn == DV_FN_SELECT;
    int compares = e->kind == DV_EXPR_APPLY && dv_fn_compares((dv_fn)e->fn);
    if (e->kind == DV_EXPR_READ)
        return e->read == read;
    if (compares && is_whole(e->arg[0]) && is_whole(e->arg[1]))
        return 0;
    for (int i = 0; i < e->n_args; i++)
        if (!(select && i == 0 && is_whole(e->arg[0])) &&
            depends(e->arg[i], read))
            return 1;
    return 0;
}

// Sets the precision that the op is computed in: f64 if one of its tensors is
// f64 or of wide integers (tensors that only supply indices, and integers that
// are only compared with integers, do not count), otherwise f32.
static void set_arithmetic(evaluator *ev)
{
    const dv_op *op = ev->op;
    dv_dtype t = ev->p->tensors[op->write.tensor].dtype;
    int f64 = t == DV_F64 || is_wide_integer(t) || !ev->options->round;
    int floats = dv_is_float(t) || has_floats(op->body);
    ev->in = (dv_arithmetic){0, 0, DBL_MAX};
    ev->flushes = 0;
    if (!ev->bounds)
        return;
    for (int r = 0; r < op->n_reads; r++) {
        const dv_tensor *from = &ev->p->tensors[op->reads[r].tensor];
        const double *error =
            ev->load ? NULL : ev->options->errors[op->reads[r].tensor];
        f64 |= from->dtype == DV_F64 ||
               (is_wide_integer(from->dtype) && depends(op->body, r));
        int64_t i = 0;
        while (error && i < from->n_elems && error[i] == 0)
            i++;
        int off = i < from->n_elems;
        int held = dv_is_float(from->dtype) && from->dtype != DV_F64;
        ev->spots[r + 1].inexact = off || !held;
    }
    if (!floats)
        return;
    if (ev->options->stored && has_narrow(op->body))
        f64 = 0;
    ev->flushes =
        !f64 && ev->options->flushes && ev->options->flushes[op - ev->p->ops];
    for (int r = 0; r < op->n_reads && ev->flushes; r++)
        ev->spots[r + 1].inexact = 1;
    ev->in.eps = dv_dtype_eps(f64 ? DV_F64 : DV_F32);
    ev->in.least = f64           ? DBL_MIN * DBL_EPSILON
                   : ev->flushes ? (double)FLT_MIN
                                 : 0x1p-149;
    ev->in.most = f64 ? DBL_MAX : (double)FLT_MAX;
}

// Converts a value to the type that the op is computed in, and adds the
// rounding error of the conversion to its bound.
static dv_approx to_compute_type(const evaluator *ev, double v, double error)
{
    int narrow = ev->in.most < DBL_MAX && (double)(float)v != v;
    if (ev->flushes && fabs(v) - error < (double)FLT_MIN)
        error += fmin((double)FLT_MIN, fabs(v) + error);
    return (dv_approx){
        v, error + (narrow ? dv_fn_rounding(DV_FN_ADD, v, v, &ev->in) : 0)};
}

static dv_approx computed(evaluator *ev, const dv_expr *e);

// Returns an integer as a double, with the error of that conversion.
static dv_approx from_integer(int64_t i)
{
    double v = (double)i;
    return (dv_approx){v, fabs(v) > 0x1p53 ? 0x1p-53 * fabs(v) : 0};
}

static dv_approx loaded(evaluator *ev, int32_t read)
{
    double error = 0;
    int inexact = ev->spots[read + 1].inexact;
    dv_number x = fetch(ev, read, inexact ? &error : NULL);
    int is_float =
        dv_is_float(ev->p->tensors[ev->op->reads[read].tensor].dtype);
    dv_approx r = is_float ? (dv_approx){x.f, 0} : from_integer(x.i);
    if (ev->index_inexact)
        r.e = INFINITY;
    else if (inexact)
        r = to_compute_type(ev, r.v, r.e + error);
    return r;
}

static inline dv_approx value(evaluator *ev, const dv_expr *e)
{
    return e->kind == DV_EXPR_READ ? loaded(ev, e->read) : computed(ev, e);
}

// Returns x with an infinite error bound if the value may overflow in the
// machine's arithmetic.
static dv_approx in_range(const evaluator *ev, dv_approx x)
{
    if (fabs(x.v) + x.e > ev->in.most && isfinite(x.v))
        x.e = INFINITY;
    return x;
}

static dv_approx operand(evaluator *ev, const dv_expr *e)
{
    return in_range(ev, value(ev, e));
}

// Returns the remainder of x / y with the sign of x, or with that of y.
static int64_t integer_remainder(int64_t x, int64_t y, int sign_of_y)
{
    int64_t r = y == 0 || y == -1 ? 0 : x % y;
    return sign_of_y && r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

// A shift by 64 bits or more shifts all bits out; a negative distance is
// treated as one of 64 or more.
static int64_t shift_left(int64_t x, int64_t by)
{
    return by < 0 || by > 63 ? 0 : (int64_t)((uint64_t)x << by);
}

static int64_t shift_right(int64_t x, int64_t by)
{
    int n = by < 0 || by > 63 ? 63 : (int)by;
    return x < 0 ? ~(~x >> n) : x >> n;
}

static int64_t integer_step(dv_fn fn, int64_t x, int64_t y)
{
    uint64_t a = (uint64_t)x, b = (uint64_t)y;
    switch (fn) {
    case DV_FN_ADD:
        return (int64_t)(a + b);
    case DV_FN_SUB:
        return (int64_t)(a - b);
    case DV_FN_MUL:
        return (int64_t)(a * b);
    case DV_FN_NEG:
        return (int64_t)(0 - a);
    case DV_FN_ABS:
        return x < 0 ? (int64_t)(0 - a) : x;
    case DV_FN_RELU:
        return x > 0 ? x : 0;
    case DV_FN_MIN:
        return x < y ? x : y;
    case DV_FN_MAX:
        return x > y ? x : y;
    case DV_FN_LT:
        return x < y;
    case DV_FN_LE:
        return x <= y;
    case DV_FN_GT:
        return x > y;
    case DV_FN_GE:
        return x >= y;
    case DV_FN_EQ:
        return x == y;
    case DV_FN_NE:
        return x != y;
    case DV_FN_SIGN:
        return (x > 0) - (x < 0);
    case DV_FN_REM:
        return integer_remainder(x, y, 0);
    case DV_FN_MOD:
        return integer_remainder(x, y, 1);
    case DV_FN_BITAND:
        return x & y;
    case DV_FN_BITXOR:
        return x ^ y;
    case DV_FN_BITOR:
        return x | y;
    case DV_FN_SHL:
        return shift_left(x, y);
    case DV_FN_SHR:
        return shift_right(x, y);
    default: // functions of floats, which never have integer arguments
        return 0;
    }
}

static memo *memo_of(evaluator *ev, const dv_expr *e)
{
    memo *m = ev->memos;
    while (m->reducer != e)
        m++;
    int moved = 0;
    for (int v = 0; v < ev->op->n_vars; v++)
        if (m->vars >> v & 1 && m->at[v] != ev->at[v])
            moved = 1;
    if (moved)
        m->has_whole = m->has_value = m->index_inexact = m->uncertain = 0;
    memcpy(m->at, ev->at, sizeof m->at);
    return m;
}

static int64_t whole(evaluator *ev, const dv_expr *e);

static int64_t reduced_integer(evaluator *ev, const dv_expr *e)
{
    static const dv_fn step[] = {DV_FN_ADD, DV_FN_MAX, DV_FN_MIN, DV_FN_MUL};
    memo *m = memo_of(ev, e);
    int before = ev->index_inexact, uncertain = ev->uncertain;
    if (!m->has_whole) {
        int64_t acc = to_whole(dv_reducer_get((dv_reducer)e->fn)->zero);
        ev->index_inexact = ev->uncertain = 0;
        start(ev, e->vars);
        do
            acc = integer_step(step[e->fn], acc, whole(ev, e->arg[0]));
        while (ev->status == DV_OK && next_point(ev, e->vars));
        m->whole = acc;
        m->has_whole = 1;
        m->index_inexact |= ev->index_inexact;
        m->uncertain = ev->uncertain;
    }
    ev->index_inexact = before | m->index_inexact;
    ev->uncertain = uncertain | m->uncertain;
    return m->whole;
}

static int may_be_zero(dv_approx x)
{
    return x.e != 0 && !(fabs(x.v) > x.e);
}

static int64_t read_integer(evaluator *ev, int32_t read)
{
    double error = 0;
    int64_t i = fetch(ev, read, ev->bounds ? &error : NULL).i;
    ev->uncertain |= ev->index_inexact || error != 0;
    return i;
}

// Returns the exact value of an integer expression. Sets ev->uncertain if the
// value depends on something that has an error.
static int64_t whole(evaluator *ev, const dv_expr *e)
{
    if (is_whole(e) && e->kind == DV_EXPR_READ)
        return read_integer(ev, e->read);
    if (e->kind == DV_EXPR_INDEX)
        return ev->at[e->read] + e->base;
    if (!is_whole(e) || e->kind == DV_EXPR_CONST) {
        dv_approx x = value(ev, e);
        ev->uncertain |= x.e != 0;
        return to_whole(x.v);
    }
    if (e->kind == DV_EXPR_REDUCE)
        return reduced_integer(ev, e);
    if (e->fn == DV_FN_SELECT) {
        dv_approx test = value(ev, e->arg[0]);
        ev->uncertain |= may_be_zero(test);
        return whole(ev, e->arg[test.v != 0 ? 1 : 2]);
    }
    int64_t x = whole(ev, e->arg[0]);
    return integer_step((dv_fn)e->fn, x,
                        e->n_args > 1 ? whole(ev, e->arg[1]) : 0);
}

// Computes the exact value of an integer expression and returns whether it is
// certain, i.e. does not depend on a value with an error.
static int certain_integer(evaluator *ev, const dv_expr *e, int64_t *out)
{
    int before = ev->uncertain;
    ev->uncertain = 0;
    *out = whole(ev, e);
    int certain = !ev->uncertain;
    ev->uncertain |= before;
    return certain;
}

enum {
    LANES = 16,
    // From this many terms on, the rounding error of a sum is estimated by
    // comparing it with the same sum in f32.
    LONG_SUM = 4096,
};

// Statistics from which the rounding error of a reduction in any order is
// bounded.
typedef struct gathered {
    double n;
    // Sums of the absolute values of the terms (size) and of the partial sums
    // (partial).
    double size, partial;
    double largest; // product of the absolute values of all terms beyond 1
    // For a sum of products whose factors the machine may multiply in another
    // order: the sum of the products with every factor raised to at least 1. It
    // bounds the product of any subset of the factors.
    double regrouped;
    // The same sum in f32: with one accumulator, and with one accumulator per
    // lane of a vector.
    float plain, lane[LANES];
} gathered;

static void gather(gathered *g, double x, double acc)
{
    double a = fabs(x);
    if (isfinite(x))
        g->size += a;
    if (isfinite(acc))
        g->partial += fabs(acc);
    g->largest *= a > 1 ? a : 1;
}

static int is_product(const dv_expr *e)
{
    return e->kind == DV_EXPR_APPLY && e->fn == DV_FN_MUL;
}

static int count_factors(const dv_expr *e)
{
    return is_product(e) ? count_factors(e->arg[0]) + count_factors(e->arg[1])
                         : 1;
}

// Returns whether every factor of the product e depends on all variables in the
// mask.
static int all_depend(const dv_op *op, const dv_expr *e, uint32_t vars)
{
    if (is_product(e))
        return all_depend(op, e->arg[0], vars) &&
               all_depend(op, e->arg[1], vars);
    return (vars & ~dv_expr_free_vars(op, e)) == 0;
}

// Returns whether lowering (splitting statements into ops) may change the order
// in which a sum of products is multiplied and added: it has more than two
// factors, or one that can be multiplied after the sum.
static int may_regroup(const dv_op *op, const dv_expr *e)
{
    return (e->fn == DV_RED_SUM || e->fn == DV_RED_MEAN) &&
           is_product(e->arg[0]) &&
           (count_factors(e->arg[0]) > 2 ||
            !all_depend(op, e->arg[0], e->vars));
}

static void add_in_f32(gathered *g, double x)
{
    g->plain += (float)x;
    g->lane[(int64_t)g->n % LANES] += (float)x;
}

// Returns twice the error of the sums in f32 (with one accumulator, and with
// one per vector lane), measured against the sum in double: the larger of the
// two. The factor 2 allows for the summation orders that executors use.
static double bias(const gathered *g, double sum)
{
    float lanes = 0;
    for (int i = 0; i < LANES; i++)
        lanes += g->lane[i];
    return 2 * fmax(dv_abs_difference((double)g->plain, sum),
                    dv_abs_difference((double)lanes, sum));
}

// Returns the rounding error of a sum. Most rounding errors are random: they
// grow with the square root of the length, in proportion to the terms. If all
// roundings go in the same direction, the error is at most half a unit in the
// last place of every partial sum. That bound is too loose for long sums; for
// these the error in one direction is measured, by comparing with the same sum
// in f32.
static double sum_error(const evaluator *ev, const gathered *g, double sum)
{
    int in_f32 = ev->in.most < DBL_MAX && g->n >= LONG_SUM;
    double same_way = ev->in.eps * g->partial / 2;
    if (in_f32)
        same_way = fmin(same_way, bias(g, sum));
    double e = ev->in.eps * fmin(g->n, 4 * sqrt(g->n)) * g->size + same_way;
    if (ev->flushes) // the machine may flush denormal partial sums to zero
        e += g->n * ev->in.least;
    return e;
}

static double gathered_error(const evaluator *ev, const gathered *g,
                             const dv_expr *e, dv_approx sum)
{
    double factors = count_factors(e->arg[0]);
    // For a reduction by multiplication, the error of an underflow is scaled by
    // the factors multiplied after it.
    if (e->fn == DV_RED_PROD)
        return g->largest > ev->in.most
                   ? INFINITY
                   : sum.e + g->n * ev->in.least * g->largest;
    if (e->fn != DV_RED_SUM && e->fn != DV_RED_MEAN)
        return sum.e;
    if (g->size + sum.e > ev->in.most || g->regrouped > ev->in.most)
        return INFINITY;
    return sum.e + sum_error(ev, g, sum.v) +
           (g->regrouped > 0
                ? factors * (ev->in.eps * g->size + ev->in.least * g->regrouped)
                : 0);
}

static void note_term(evaluator *ev, const dv_expr *e, gathered *g,
                      dv_approx *acc, dv_approx before, dv_approx x)
{
    const dv_approx both[3] = {before, x};
    gather(g, x.v, acc->v);
    if (e->fn == DV_RED_SUM || e->fn == DV_RED_MEAN) {
        acc->e += x.e;
        add_in_f32(g, x.v);
    } else if (e->fn == DV_RED_PROD) {
        acc->e = dv_fn_error(DV_FN_MUL, both, acc->v) +
                 dv_fn_rounding(DV_FN_MUL, x.v, acc->v, &ev->in);
    } else {
        acc->e = fmax(acc->e, x.e);
    }
}

// Returns whether a product is not rounded, because one factor is exactly 1. A
// machine may flush small products to zero, so these do not qualify.
static int is_exact_product(dv_fn fn, const dv_approx *x, double r)
{
    int by_one = (x[0].v == 1 && x[0].e == 0) || (x[1].v == 1 && x[1].e == 0);
    return fn == DV_FN_MUL && by_one && (r == 0 || fabs(r) >= (double)FLT_MIN);
}

static dv_approx function_of(const evaluator *ev, const dv_expr *e,
                             const dv_approx *x)
{
    dv_approx r = {dv_fn_apply((dv_fn)e->fn, x[0].v, x[1].v, x[2].v), 0};
    if (!ev->bounds)
        return r;
    r.e = dv_fn_error((dv_fn)e->fn, x, r.v);
    if (!is_exact_product((dv_fn)e->fn, x, r.v))
        r.e += dv_fn_rounding((dv_fn)e->fn, x[0].v, r.v, &ev->in);
    return r;
}

// Returns whether e reads no tensor.
static int is_constant(const dv_expr *e)
{
    for (int i = 0; i < e->n_args; i++)
        if (!is_constant(e->arg[i]))
            return 0;
    return e->kind != DV_EXPR_READ && e->kind != DV_EXPR_REDUCE;
}

// Returns whether e is a sum of products of two or more operands.
static int is_contraction(const dv_expr *e)
{
    return e->fn == DV_RED_SUM && is_product(e->arg[0]) &&
           !is_constant(e->arg[0]->arg[0]) && !is_constant(e->arg[0]->arg[1]);
}

// Returns r with the larger of two error bounds, because a machine may or may
// not round an intermediate result to the type of its operands. Constants alone
// have no type and take that of the tensor that the op writes.
static dv_approx maybe_rounded(const evaluator *ev, const dv_expr *e,
                               dv_approx r)
{
    dv_dtype t = e->dtype == DV_WEAK_FLOAT
                     ? ev->p->tensors[ev->op->write.tensor].dtype
                     : (dv_dtype)e->dtype;
    if (!ev->options->stored || !ev->bounds || e->dtype == DV_WEAK_INT ||
        !dv_is_float(t))
        return r;
    r.e = fmax(r.e, dv_stored_error(t, r) +
                        dv_abs_difference(dv_round_to(t, r.v), r.v));
    return r;
}

// Evaluates one term of a reduction, which may be a product of factors. If
// `contracted` is 1, the reduction is a sum of products, whose terms machines
// never round to a storage type. *spread is multiplied by the magnitude of each
// factor beyond 1; it bounds all products of a part of the factors.
static dv_approx term(evaluator *ev, const dv_expr *e, int contracted,
                      double *spread)
{
    if (!is_product(e) || is_whole(e)) {
        dv_approx x = operand(ev, e);
        if (isfinite(x.v) && fabs(x.v) > 1)
            *spread *= fabs(x.v);
        return x;
    }
    dv_approx x[3] = {term(ev, e->arg[0], contracted, spread),
                      term(ev, e->arg[1], contracted, spread)};
    dv_approx r = function_of(ev, e, x);
    // If the product of two finite values overflows here, it need not on a
    // machine with fused multiply-add, so there is no bound on the difference.
    if (!isfinite(r.v) && isfinite(x[0].v) && isfinite(x[1].v))
        r.e = INFINITY;
    return in_range(ev, contracted ? r : maybe_rounded(ev, e, r));
}

static dv_approx reduce(evaluator *ev, const dv_expr *e)
{
    const dv_reducer how = (dv_reducer)e->fn;
    dv_approx acc = {dv_reducer_get(how)->zero, 0};
    gathered g = {.largest = 1};
    int contracted = is_contraction(e);
    int regroups = ev->bounds && may_regroup(ev->op, e);
    start(ev, e->vars);
    do {
        double spread = 1;
        dv_approx x = term(ev, e->arg[0], contracted, &spread), before = acc;
        acc.v = dv_reducer_step(how, acc.v, x.v);
        g.n++;
        if (ev->bounds)
            note_term(ev, e, &g, &acc, before, x);
        if (regroups)
            g.regrouped += spread;
    } while (ev->status == DV_OK && next_point(ev, e->vars));
    if (ev->bounds)
        acc.e = gathered_error(ev, &g, e, acc);
    if (how == DV_RED_MEAN) {
        acc.v /= g.n;
        acc.e = acc.e / g.n + dv_fn_rounding(DV_FN_DIV, acc.v, acc.v, &ev->in);
    }
    return acc;
}

static dv_approx reduced(evaluator *ev, const dv_expr *e)
{
    memo *m = memo_of(ev, e);
    int before = ev->index_inexact;
    if (!m->has_value) {
        ev->index_inexact = 0;
        m->value = reduce(ev, e);
        m->has_value = 1;
        m->index_inexact |= ev->index_inexact;
    }
    ev->index_inexact = before | m->index_inexact;
    return m->value;
}

static dv_approx applied(evaluator *ev, const dv_expr *e)
{
    dv_approx x[3] = {{0, 0}};
    for (int i = 0; i < e->n_args; i++)
        x[i] = operand(ev, e->arg[i]);
    return function_of(ev, e, x);
}

static dv_approx computed(evaluator *ev, const dv_expr *e)
{
    int is_int = is_whole(e) && e->n_args;
    int64_t i = 0;
    if (is_int && certain_integer(ev, e, &i))
        return from_integer(i);
    if (e->kind == DV_EXPR_CONST)
        return to_compute_type(ev, e->value, 0);
    if (e->kind == DV_EXPR_INDEX) {
        dv_approx x = from_integer(ev->at[e->read] + e->base);
        return to_compute_type(ev, x.v, x.e);
    }
    dv_approx r = e->kind == DV_EXPR_REDUCE ? reduced(ev, e) : applied(ev, e);
    // The value of an integer expression that depends on inexact operands: its
    // exact integer, which may have wrapped around, with the error bound of the
    // same expression in floats.
    if (is_int)
        return (dv_approx){(double)i,
                           fabs(r.v) + r.e < 0x1p62 ? r.e : INFINITY};
    return maybe_rounded(ev, e, r);
}

// Returns an integer wrapped or rounded to the type of the tensor that stores
// it.
static dv_number wrapped(dv_dtype t, int64_t v)
{
    return dv_is_float(t) ? (dv_number){.f = dv_round_to(t, (double)v)}
                          : (dv_number){.i = dv_int_wrap(t, v)};
}

// Returns a float converted to the type of the tensor that stores it; an
// integer tensor drops the fraction, a bool is 1 unless the float is 0.
static dv_number stored(const evaluator *ev, dv_dtype t, double v)
{
    if (t == DV_BOOL)
        return (dv_number){.i = v != 0};
    if (!dv_is_float(t))
        return wrapped(t, isnan(v) ? 0 : to_whole(v));
    return (dv_number){.f = ev->options->round ? dv_round_to(t, v) : v};
}

static double error_when_stored(const evaluator *ev, dv_dtype t, dv_approx x)
{
    return ev->options->round || !dv_is_float(t) ? dv_stored_error(t, x) : x.e;
}

static void set_spot(evaluator *ev, const dv_access *a, spot *out)
{
    const dv_tensor *t = &ev->p->tensors[a->tensor];
    int64_t stride = 1;
    *out = (spot){.found = dv_access_is_indirect(a) ||
                           dv_access_leaves(ev->p, ev->op, a, NULL)};
    for (int d = a->n_dims - 1; d >= 0; d--) {
        for (int v = 0; v < ev->op->n_vars; v++)
            out->step[v] += stride * a->index[d].coef[v];
        out->at += stride * a->index[d].base;
        stride *= t->shape[d];
    }
}

static void report_progress(evaluator *ev, double points)
{
    double step = ev->total / 200;
    int64_t before = (int64_t)(ev->done / step);
    ev->done += points;
    if (ev->options->progress && (int64_t)(ev->done / step) != before)
        ev->options->progress(ev->options->user, ev->done / ev->total);
}

// One element of the result, its error bound, and the offset where it is
// stored.
typedef struct outcome {
    dv_number value;
    double error;
    int64_t place;
} outcome;

static void run_point(evaluator *ev, outcome *out)
{
    const dv_op *op = ev->op;
    dv_dtype t = ev->p->tensors[op->write.tensor].dtype;
    ev->index_inexact = 0;
    if (is_whole(op->body)) {
        int64_t i;
        int certain = certain_integer(ev, op->body, &i);
        out->value = wrapped(t, i);
        out->error =
            certain ? 0 : error_when_stored(ev, t, value(ev, op->body));
    } else {
        dv_approx x = value(ev, op->body);
        out->value = stored(ev, t, x.v);
        out->error = error_when_stored(ev, t, x);
    }
    ev->index_inexact = 0;
    out->place = element(ev, &op->write, 0);
    ev->write_inexact |= ev->index_inexact;
}

static void put(evaluator *ev, const outcome *results, int64_t n)
{
    int32_t t = ev->op->write.tensor;
    double *const *errors = ev->options->errors;
    for (int64_t i = 0; i < n; i++) {
        ev->values[t][results[i].place] = results[i].value;
        if (errors)
            errors[t][results[i].place] = results[i].error;
    }
    for (int64_t i = 0; ev->write_inexact && i < ev->p->tensors[t].n_elems; i++)
        errors[t][i] = INFINITY;
}

static int count_reducers(const dv_expr *e)
{
    int n = e->kind == DV_EXPR_REDUCE;
    for (int i = 0; i < e->n_args; i++)
        n += count_reducers(e->arg[i]);
    return n;
}

static void list_reducers(evaluator *ev, const dv_expr *e)
{
    if (e->kind == DV_EXPR_REDUCE) {
        memo *m = &ev->memos[ev->n_memos++];
        *m = (memo){.reducer = e, .vars = dv_expr_free_vars(ev->op, e)};
    }
    for (int i = 0; i < e->n_args; i++)
        list_reducers(ev, e->arg[i]);
}

static void finish_op(evaluator *ev)
{
    dv_release(ev->spots);
    dv_release(ev->memos);
    ev->spots = NULL;
    ev->memos = NULL;
}

// Prepares the evaluation of ev->op, beginning at its first point. Even if this
// fails, the caller must release the memory with finish_op.
static dv_status start_op(evaluator *ev)
{
    const dv_op *op = ev->op;
    size_t reducers = (size_t)count_reducers(op->body);
    ev->spots = dv_alloc(((size_t)op->n_reads + 1) * sizeof *ev->spots);
    ev->memos = dv_alloc((reducers + 1) * sizeof *ev->memos);
    if (!ev->spots || !ev->memos)
        return dv_nomem(ev->diag);
    for (int i = -1; i < op->n_reads; i++)
        set_spot(ev, i < 0 ? &op->write : &op->reads[i], &ev->spots[i + 1]);
    memset(ev->at, 0, sizeof ev->at);
    start(ev, UINT32_MAX);
    set_arithmetic(ev);
    ev->n_memos = 0;
    list_reducers(ev, op->body);
    ev->write_inexact = 0;
    return DV_OK;
}

// Evaluates an op: computes all results and their positions first, then stores
// them, because an op that modifies its tensor reads the old values, also
// through indirect indices.
static dv_status run_op(evaluator *ev)
{
    const dv_op *op = ev->op;
    uint32_t written = dv_written_vars(op);
    int64_t n = dv_op_points(op, written);
    double each = dv_op_work(op) / (double)n;
    int fits = (size_t)n <= SIZE_MAX / sizeof(outcome);
    outcome *results = fits ? dv_alloc((size_t)n * sizeof *results) : NULL;
    dv_status st = start_op(ev);
    if (!results || st != DV_OK) {
        dv_release(results);
        finish_op(ev);
        return dv_nomem(ev->diag);
    }
    for (int64_t i = 0; i < n && ev->status == DV_OK; i++) {
        run_point(ev, &results[i]);
        next_point(ev, written);
        report_progress(ev, each);
    }
    if (ev->status == DV_OK)
        put(ev, results, n);
    dv_release(results);
    finish_op(ev);
    return ev->status;
}

// Runs ops first to end - 1 and the repeat loops among them. `next` is the
// number of the first repeat loop of the program that may begin there.
static dv_status run_ops(evaluator *ev, int first, int end, int next)
{
    for (int i = first; i < end;) {
        const dv_repeat *r =
            next < ev->p->n_repeats ? &ev->p->repeats[next] : NULL;
        if (!r || r->first_op != i || r->end_op > end) {
            ev->op = &ev->p->ops[i++];
            DV_TRY(run_op(ev));
            continue;
        }
        for (int64_t n = 0; n < r->times; n++)
            DV_TRY(run_ops(ev, i, r->end_op, next + 1));
        i = r->end_op;
        while (next < ev->p->n_repeats && ev->p->repeats[next].first_op < i)
            next++;
    }
    return DV_OK;
}

// Returns the number of operands and functions in e that are evaluated at all
// points of the variables `vars`. A reducer (such as sum[k]) is evaluated once
// for every combination of the variables that it depends on.
static double terms_of(const dv_op *op, const dv_expr *e, uint32_t vars)
{
    if (e->kind == DV_EXPR_REDUCE)
        vars = dv_expr_free_vars(op, e) | e->vars;
    double n = dv_op_points_double(op, vars);
    for (int i = 0; i < e->n_args; i++)
        n += terms_of(op, e->arg[i], vars);
    return n;
}

double dv_eval_terms(const dv_program *p)
{
    double sum = 0;
    for (int32_t i = 0; i < p->n_ops; i++) {
        const dv_op *op = &p->ops[i];
        double times = 1;
        for (int32_t k = 0; k < p->n_repeats; k++)
            if (p->repeats[k].first_op <= i && i < p->repeats[k].end_op)
                times *= (double)p->repeats[k].times;
        sum += times * terms_of(op, op->body, dv_written_vars(op));
    }
    return sum;
}

dv_status dv_eval(const dv_program *p, dv_number *const *values,
                  const dv_eval_options *options, dv_diag *diag)
{
    evaluator ev = {.p = p, .values = values, .options = options, .diag = diag};
    ev.bounds = options->errors != NULL;
    ev.total = dv_program_points(p);
    return run_ops(&ev, 0, p->n_ops, 0);
}

dv_status dv_point_eval_create(dv_point_eval **out, const dv_program *p,
                               int32_t op, const dv_eval_options *options,
                               dv_eval_load load, void *user, dv_diag *diag)
{
    evaluator *ev = dv_alloc(sizeof *ev);
    if (!ev)
        return dv_nomem(diag);
    *ev = (evaluator){.p = p,
                      .op = &p->ops[op],
                      .load = load,
                      .user = user,
                      .options = options,
                      .bounds = 1,
                      .diag = diag};
    *out = ev;
    return start_op(ev);
}

dv_status dv_point_eval_run(dv_point_eval *ev, const int64_t *at,
                            dv_number *value, double *error)
{
    outcome out;
    // Discard stored results of reducers: since the last call, the caller may
    // have supplied other values of the operands.
    for (int i = 0; i < ev->n_memos; i++)
        ev->memos[i] =
            (memo){.reducer = ev->memos[i].reducer, .vars = ev->memos[i].vars};
    for (int v = 0; v < ev->op->n_vars; v++)
        move(ev, v, at[v] - ev->at[v]);
    ev->status = DV_OK;
    ev->uncertain = 0;
    run_point(ev, &out);
    *value = out.value;
    *error = out.error;
    return ev->status;
}

void dv_point_eval_destroy(dv_point_eval *ev)
{
    if (ev)
        finish_op(ev);
    dv_release(ev);
}
