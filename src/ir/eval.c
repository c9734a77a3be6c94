#include "ir/eval.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

// -- Scalars -----------------------------------------------------------------

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
        return 1 / (1 + exp(-x));
    case DV_FN_SILU:
        return x / (1 + exp(-x));
    case DV_FN_GELU:
        return 0.5 * x * erfc(x * -0.70710678118654752440);
    case DV_FN_RELU:
        return isnan(x) || x > 0 ? x : 0;
    case DV_FN_ABS:
        return fabs(x);
    case DV_FN_MIN:
        return isnan(x) || x < y ? x : y;
    case DV_FN_MAX:
        return isnan(x) || x > y ? x : y;
    case DV_FN_SELECT:
        return x != 0 ? y : z;
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

// -- One op ------------------------------------------------------------------

typedef struct evaluator {
    const dv_program *p;
    const dv_op *op;
    double *const *values;
    const dv_eval_options *options;
    dv_diag *diag;
    dv_status status;        // first failure; values are 0 from then on
    int64_t at[DV_MAX_VARS]; // the point
    // Row-major offset of each direct access: flat[0] is the write's, then
    // one per read. n_vars coefficients, the base, and 1 if an index is read.
    int64_t *flat;
    double done, total; // points
    double cancelled;   // of the op at hand
} evaluator;

static double value(evaluator *ev, const dv_expr *e);

// Element number of an access at the current point. `n` counts the write as 0.
static int64_t element(evaluator *ev, const dv_access *a, int n)
{
    const dv_op *op = ev->op;
    const int64_t *flat = ev->flat + (int64_t)n * (op->n_vars + 2);
    if (!flat[op->n_vars + 1]) {
        int64_t off = flat[op->n_vars];
        for (int v = 0; v < op->n_vars; v++)
            off += flat[v] * ev->at[v];
        return off;
    }
    const dv_tensor *t = &ev->p->tensors[a->tensor];
    int64_t off = 0;
    for (int d = 0; d < a->n_dims; d++) {
        const dv_index *x = &a->index[d];
        int64_t i = x->base;
        if (x->via >= 0) {
            const dv_access *from = &op->reads[x->via];
            double at = ev->values[from->tensor][element(ev, from, x->via + 1)];
            i = at < 0x1p63 ? (int64_t)at : INT64_MAX; // integers, by type
        }
        for (int v = 0; x->via < 0 && v < op->n_vars; v++)
            i += x->coef[v] * ev->at[v];
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

static void start(evaluator *ev, uint32_t vars)
{
    for (int v = 0; v < ev->op->n_vars; v++)
        if (vars >> v & 1)
            ev->at[v] = ev->op->vars[v].begin;
}

// Step to the next point of the vars in the mask; 0 after the last.
static int next_point(evaluator *ev, uint32_t vars)
{
    for (int v = ev->op->n_vars - 1; v >= 0; v--) {
        if (!(vars >> v & 1))
            continue;
        if (++ev->at[v] < ev->op->vars[v].end)
            return 1;
        ev->at[v] = ev->op->vars[v].begin;
    }
    return 0;
}

// A result that is much smaller than what it is made of keeps their errors.
static void note_loss(evaluator *ev, double largest, double result)
{
    if (isfinite(largest) && largest > ev->cancelled &&
        fabs(result) < largest / 2)
        ev->cancelled = largest;
}

// Integers wrap around in 64 bits, as they do in every executor. Tensors are
// doubles all the same: i64 beyond 2^53 is rounded when it is stored.
static int is_whole(const dv_expr *e)
{
    return e->dtype == DV_WEAK_INT || e->dtype == DV_I64 ||
           e->dtype == DV_I32 || e->dtype == DV_I8;
}

static int64_t to_whole(double v)
{
    return v >= 0x1p63 ? INT64_MAX : v < -0x1p63 ? INT64_MIN : (int64_t)v;
}

static int64_t whole_step(dv_fn fn, int64_t x, int64_t y)
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
    default: // comparisons
        return (int64_t)dv_fn_apply(fn, (double)x, (double)y, 0);
    }
}

static int64_t whole(evaluator *ev, const dv_expr *e)
{
    static const dv_fn step[] = {DV_FN_ADD, DV_FN_MAX, DV_FN_MIN, DV_FN_MUL};
    if (!is_whole(e) || e->kind == DV_EXPR_CONST || e->kind == DV_EXPR_READ)
        return to_whole(value(ev, e));
    if (e->kind == DV_EXPR_REDUCE) {
        int64_t acc = to_whole(dv_reducer_get((dv_reducer)e->fn)->zero);
        start(ev, e->vars);
        do
            acc = whole_step(step[e->fn], acc, whole(ev, e->arg[0]));
        while (next_point(ev, e->vars));
        return acc;
    }
    if (e->fn == DV_FN_SELECT)
        return whole(ev, e->arg[value(ev, e->arg[0]) != 0 ? 1 : 2]);
    int64_t x = whole(ev, e->arg[0]);
    return whole_step((dv_fn)e->fn, x,
                      e->n_args > 1 ? whole(ev, e->arg[1]) : 0);
}

static double reduced(evaluator *ev, const dv_expr *e)
{
    double acc = dv_reducer_get((dv_reducer)e->fn)->zero, n = 0, most = 0;
    start(ev, e->vars);
    do {
        acc = dv_reducer_step((dv_reducer)e->fn, acc, value(ev, e->arg[0]));
        most = fmax(most, fabs(acc));
        n++;
    } while (next_point(ev, e->vars));
    if (e->fn == DV_RED_SUM || e->fn == DV_RED_MEAN)
        note_loss(ev, most, acc);
    return e->fn == DV_RED_MEAN ? acc / n : acc;
}

static double value(evaluator *ev, const dv_expr *e)
{
    double x[3] = {0};
    if (is_whole(e) && e->n_args)
        return (double)whole(ev, e);
    switch ((dv_expr_kind)e->kind) {
    case DV_EXPR_CONST:
        return e->value;
    case DV_EXPR_READ: {
        const dv_access *a = &ev->op->reads[e->read];
        return ev->values[a->tensor][element(ev, a, e->read + 1)];
    }
    case DV_EXPR_REDUCE:
        return reduced(ev, e);
    case DV_EXPR_APPLY:
        break;
    }
    for (int i = 0; i < e->n_args; i++)
        x[i] = value(ev, e->arg[i]);
    double result = dv_fn_apply((dv_fn)e->fn, x[0], x[1], x[2]);
    if (e->fn == DV_FN_ADD || e->fn == DV_FN_SUB)
        note_loss(ev, fmax(fabs(x[0]), fabs(x[1])), result);
    return result;
}

// A whole number as a tensor of the type holds it.
static double wrapped(dv_dtype t, int64_t v)
{
    if (t == DV_I32)
        return (double)(int32_t)(uint32_t)(uint64_t)v;
    if (t == DV_I8)
        return (double)(int8_t)(uint8_t)(uint64_t)v;
    return t == DV_I64 ? (double)v : dv_round_to(t, (double)v);
}

static double stored(const evaluator *ev, dv_dtype t, double v)
{
    return ev->options->round || !dv_is_float(t) ? dv_round_to(t, v) : v;
}

static void flatten(evaluator *ev, const dv_access *a, int64_t *flat)
{
    const dv_tensor *t = &ev->p->tensors[a->tensor];
    int64_t stride = 1;
    int n = ev->op->n_vars;
    memset(flat, 0, ((size_t)n + 2) * sizeof *flat);
    flat[n + 1] = dv_access_is_indirect(a);
    for (int d = a->n_dims - 1; d >= 0; d--) {
        for (int v = 0; v < n && a->index[d].via < 0; v++)
            flat[v] += stride * a->index[d].coef[v];
        flat[n] += stride * a->index[d].base;
        stride *= t->shape[d];
    }
}

static void tell(evaluator *ev, double points)
{
    double step = ev->total / 200;
    int64_t before = (int64_t)(ev->done / step);
    ev->done += points;
    if (ev->options->progress && (int64_t)(ev->done / step) != before)
        ev->options->progress(ev->options->user, ev->done / ev->total);
}

// All results and places first, then the stores: an update reads the old
// values, also where an index goes through them.
static dv_status run_op(evaluator *ev)
{
    const dv_op *op = ev->op;
    uint32_t written = 0;
    for (int v = 0; v < op->n_vars; v++) {
        ev->at[v] = op->vars[v].begin;
        written |= op->vars[v].reduce ? 0 : 1u << v;
    }
    int64_t n = dv_op_points(op, written);
    double each = dv_op_work(op) / (double)n;
    const dv_tensor *t = &ev->p->tensors[op->write.tensor];
    size_t words = (size_t)(op->n_vars + 2) * (size_t)(op->n_reads + 1);
    ev->flat = dv_alloc(words * sizeof *ev->flat);
    int fits = (size_t)n <= SIZE_MAX / sizeof(double);
    double *result = fits ? dv_alloc((size_t)n * sizeof *result) : NULL;
    int64_t *place = fits ? dv_alloc((size_t)n * sizeof *place) : NULL;
    if (!result || !place || !ev->flat) {
        dv_release(result);
        dv_release(place);
        dv_release(ev->flat);
        return dv_nomem(ev->diag);
    }
    for (int i = -1; i < op->n_reads; i++)
        flatten(ev, i < 0 ? &op->write : &op->reads[i],
                ev->flat + (int64_t)(i + 1) * (op->n_vars + 2));
    for (int64_t i = 0; i < n && ev->status == DV_OK; i++) {
        result[i] = is_whole(op->body)
                        ? wrapped(t->dtype, whole(ev, op->body))
                        : stored(ev, t->dtype, value(ev, op->body));
        place[i] = element(ev, &op->write, 0);
        next_point(ev, written);
        tell(ev, each);
    }
    for (int64_t i = 0; i < n && ev->status == DV_OK; i++)
        ev->values[op->write.tensor][place[i]] = result[i];
    dv_release(place);
    dv_release(result);
    dv_release(ev->flat);
    return ev->status;
}

// -- The program -------------------------------------------------------------

// Run ops first..end, in which repeats from number `next` on may lie.
static dv_status run_ops(evaluator *ev, int first, int end, int next)
{
    for (int i = first; i < end;) {
        const dv_repeat *r =
            next < ev->p->n_repeats ? &ev->p->repeats[next] : NULL;
        if (!r || r->first_op != i || r->end_op > end) {
            double *lost = ev->options->cancelled;
            ev->op = &ev->p->ops[i];
            ev->cancelled = lost ? lost[i] : 0;
            DV_TRY(run_op(ev));
            if (lost)
                lost[i] = ev->cancelled;
            i++;
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

dv_status dv_eval(const dv_program *p, double *const *values,
                  const dv_eval_options *options, dv_diag *diag)
{
    evaluator ev = {.p = p, .values = values, .options = options, .diag = diag};
    ev.total = dv_program_points(p);
    return run_ops(&ev, 0, p->n_ops, 0);
}
