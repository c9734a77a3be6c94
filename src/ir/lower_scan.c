// Computes prefix sums, products, maxima and minima in steps that double the
// distance, instead of every one from its first operand:
//
//   y[i,t] = sum[k] select(k <= t, x[i,k], 0)      k and t in 0..1000
//   ->  y_1[i,k] = x[i,k]
//       y_2[i,k] = y_1[i,k] + (y_1[i,k-1] else 0)
//       y_3[i,k] = y_2[i,k] + (y_2[i,k-2] else 0)
//       …
//       y_11[i,k] = y_10[i,k] + (y_10[i,k-512] else 0)
//       y[i,t] = y_11[i,t]
//
// These are 10 passes over whole rows in vectors, where 1000 would be needed.
// Every result is rounded at most once for each pass.
#include "base/math.h"
#include "ir/lower.h"
#include <math.h>

// A scan: each result reduces the operands up to its position (a prefix sum),
// or from there to the end.
typedef struct scan {
    const dv_expr *operand, *identity;
    int var;   // the reduced variable
    int along; // the variable of the position
    // The last operand that is reduced is the one at position `along` + add; if
    // `back` is 1, that is the first operand.
    int64_t add;
    int back;
} scan;

// Returns whether e is the identity of the reducer: what it gives for no
// operands.
static int is_identity(const dv_expr *e, dv_reducer red, int type)
{
    double zero = dv_reducer_get(red)->zero;
    if (e->kind != DV_EXPR_CONST)
        return 0;
    if (isinf(zero) && !dv_lower_is_float(type))
        zero = (double)(zero < 0 ? dv_int_least((dv_dtype)type)
                                 : dv_int_most((dv_dtype)type));
    return e->value == zero;
}

// Returns whether the reduction of `arg` is a scan that is long enough to be
// computed by passes that double the distance.
static int find(const dv_lowering *lw, const dv_expr *e, const dv_expr *arg,
                scan *out)
{
    enum { MIN_POSITIONS = 32 };
    const dv_expr *test = arg->arg[0];
    if (!dv_expr_applies(arg, DV_FN_SELECT) || test->kind != DV_EXPR_APPLY ||
        !dv_fn_compares((dv_fn)test->fn) || e->fn == DV_RED_MEAN)
        return 0;
    const dv_expr *k = test->arg[0], *t = test->arg[1];
    if (k->kind != DV_EXPR_INDEX || t->kind != DV_EXPR_INDEX ||
        e->vars != UINT32_C(1) << k->read || t->read == k->read ||
        !dv_sub_i64(&out->add, t->base, k->base))
        return 0;
    int fn = test->fn;
    out->back = fn == DV_FN_GE || fn == DV_FN_GT;
    out->add += fn == DV_FN_LT ? -1 : fn == DV_FN_GT;
    out->operand = arg->arg[1];
    out->identity = arg->arg[2];
    out->var = k->read;
    out->along = t->read;
    int type = out->operand->dtype;
    uint32_t vars = dv_lower_free_vars(lw, out->operand);
    if (fn == DV_FN_EQ || fn == DV_FN_NE || type < 0 ||
        !(vars >> out->var & 1) || vars >> out->along & 1 ||
        !is_identity(out->identity, (dv_reducer)e->fn, type))
        return 0;
    const dv_var *of = &lw->work.vars[out->var];
    const dv_var *at = &lw->work.vars[out->along];
    // Steps of a maximum or minimum are stored in the operand's type. Only
    // elements of a tensor surely fit it: computed integers have 64 bits.
    int orders = e->fn == DV_RED_MAX || e->fn == DV_RED_MIN;
    if (orders && !dv_lower_is_float(type) &&
        (out->operand->kind != DV_EXPR_READ ||
         lw->reads[out->operand->read].has_border))
        return 0;
    // Integers beyond 2^53 cannot be the border value of a read, which is a
    // double.
    if (fabs(out->identity->value) > 0x1p53 && !isinf(out->identity->value))
        return 0;
    return of->end - of->begin >= MIN_POSITIONS &&
           at->end - at->begin >= MIN_POSITIONS &&
           (out->back ? at->begin + out->add >= of->begin
                      : at->end + out->add <= of->end);
}

// Makes a read like `read` in which v + add replaces the scanned variable.
// Outside of the tensor it gives the identity.
static dv_status shifted(dv_lowering *lw, const scan *s, const dv_expr *read,
                         int v, int64_t add, const dv_expr **out)
{
    dv_access a = lw->reads[read->read];
    dv_index *index = DV_NEW(&lw->out->arena, dv_index, a.n_dims);
    if (!index)
        return dv_nomem(lw->diag);
    for (int d = 0; d < a.n_dims; d++) {
        index[d] = a.index[d];
        if (a.index[d].coef[s->var] &&
            !dv_lower_index(lw, &index[d], lw->work.n_vars, v,
                            a.index[d].base + add))
            return dv_nomem(lw->diag);
    }
    a.index = index;
    a.has_border = 1;
    a.border = s->identity->value;
    a.has_border = (uint8_t)dv_access_leaves(lw->out, &lw->work, &a, NULL);
    if (!a.has_border)
        a.border = 0;
    return dv_lower_access(lw, &a, (dv_dtype)read->dtype, read->off, out);
}

// Returns the function that combines two operands of the reducer.
static dv_fn step_fn(dv_reducer red)
{
    return red == DV_RED_SUM    ? DV_FN_ADD
           : red == DV_RED_PROD ? DV_FN_MUL
           : red == DV_RED_MAX  ? DV_FN_MAX
                                : DV_FN_MIN;
}

// Moves an expression into an op of its own. Integer sums and products have 64
// bits, a maximum or minimum the type of its operands.
static dv_status hoist(dv_lowering *lw, const dv_expr *reducer, dv_dtype type,
                       const dv_expr *e, const dv_expr **out)
{
    if (dv_is_float(type))
        return dv_lower_hoist_wide(lw, e, out);
    int sums = reducer->fn == DV_RED_SUM || reducer->fn == DV_RED_PROD;
    return dv_lower_hoist_as(lw, e, sums ? DV_I64 : type, out);
}

dv_status dv_lower_scan(dv_lowering *lw, const dv_expr *e, const dv_expr *arg,
                        const dv_expr **out)
{
    scan s;
    *out = NULL;
    if (!find(lw, e, arg, &s))
        return DV_OK;
    dv_dtype type = (dv_dtype)s.operand->dtype;
    const dv_var *v = &lw->work.vars[s.var];
    const dv_expr *sofar;
    DV_TRY(hoist(lw, e, type, s.operand, &sofar));
    for (int64_t by = 1; by < v->end - v->begin; by *= 2) {
        const dv_expr *before;
        DV_TRY(shifted(lw, &s, sofar, s.var, s.back ? by : -by, &before));
        dv_expr *both, step = dv_expr_binary(step_fn((dv_reducer)e->fn), sofar,
                                             before, e->off);
        DV_TRY(dv_lower_expr(lw, &step, &both));
        DV_TRY(hoist(lw, e, type, both, &sofar));
    }
    return shifted(lw, &s, sofar, s.along, s.add, out);
}
