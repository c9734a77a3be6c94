// Ranges of integers; vec_range.h says what for.
#include "run/vec_range.h"
#include "ir/program.h"
#include <math.h>

// Kernels compute modulo 2^32, which is exact as long as values fit, and
// enough as long as only sums and products are made of them.
typedef struct range {
    double lo, hi;
    int ok;
} range;

static int fits(range r)
{
    return r.ok && r.lo >= INT32_MIN && r.hi <= INT32_MAX;
}

static range either(range x, range y)
{
    return (range){fmin(x.lo, y.lo), fmax(x.hi, y.hi), x.ok && y.ok};
}

static range product(range x, range y)
{
    double a = x.lo * y.lo, b = x.lo * y.hi, c = x.hi * y.lo, d = x.hi * y.hi;
    return (range){fmin(fmin(a, b), fmin(c, d)), fmax(fmax(a, b), fmax(c, d)),
                   x.ok && y.ok};
}

static range apply_range(dv_fn fn, const range *x)
{
    range none = {0};
    switch (fn) {
    case DV_FN_ADD:
        return (range){x[0].lo + x[1].lo, x[0].hi + x[1].hi,
                       x[0].ok && x[1].ok};
    case DV_FN_SUB:
        return (range){x[0].lo - x[1].hi, x[0].hi - x[1].lo,
                       x[0].ok && x[1].ok};
    case DV_FN_NEG:
        return (range){-x[0].hi, -x[0].lo, x[0].ok};
    case DV_FN_MUL:
        return product(x[0], x[1]);
    case DV_FN_SELECT:
        return fits(x[0]) ? either(x[1], x[2]) : none;
    case DV_FN_RELU:
    case DV_FN_ABS: {
        double most = fmax(fabs(x[0].lo), fabs(x[0].hi));
        return (range){0, most, fits(x[0])};
    }
    case DV_FN_MIN:
    case DV_FN_MAX:
        return fits(x[0]) && fits(x[1]) ? either(x[0], x[1]) : none;
    default: // comparisons
        return (range){0, 1, fits(x[0]) && fits(x[1]) && fn <= DV_FN_NE};
    }
}

static range range_of(const dv_program *p, const dv_op *op, const dv_expr *e)
{
    range x[3] = {{0}}, none = {0};
    double n;
    for (int i = 0; i < e->n_args; i++)
        x[i] = range_of(p, op, e->arg[i]);
    switch ((dv_expr_kind)e->kind) {
    case DV_EXPR_CONST:
        x[0] = (range){e->value, e->value, e->value == floor(e->value)};
        return fits(x[0]) ? x[0] : none;
    case DV_EXPR_READ: {
        dv_dtype t = p->tensors[op->reads[e->read].tensor].dtype;
        if (t == DV_I8)
            return (range){INT8_MIN, INT8_MAX, 1};
        return (range){INT32_MIN, INT32_MAX, t == DV_I32};
    }
    case DV_EXPR_REDUCE:
        n = (double)dv_op_points(op, e->vars);
        if (e->fn == DV_RED_SUM)
            return (range){n * fmin(x[0].lo, 0), n * fmax(x[0].hi, 0), x[0].ok};
        if (e->fn == DV_RED_PROD)
            return (range){-INFINITY, INFINITY, x[0].ok};
        return fits(x[0]) ? x[0] : none;
    case DV_EXPR_APPLY:
        break;
    }
    return apply_range((dv_fn)e->fn, x);
}

int dv_vec_op_exact(const dv_program *p, const dv_op *op)
{
    return range_of(p, op, op->body).ok;
}
