#include "base/math.h"
#include "ir/eval.h"
#include "run/data.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

// -- Values of the oracle --------------------------------------------------

static void free_values(double **values, int32_t n)
{
    for (int32_t i = 0; values && i < n; i++)
        dv_release(values[i]);
    dv_release(values);
}

// Room for every tensor of p, inputs filled from `before`, which goes by the
// tensors of `ops`.
static dv_status new_values(double ***out, const dv_program *p,
                            const dv_program *ops, void *const *before,
                            dv_diag *diag)
{
    size_t n = (size_t)p->n_tensors;
    double **values = dv_alloc(n * sizeof *values);
    if (!values)
        return dv_nomem(diag);
    memset(values, 0, n * sizeof *values);
    *out = values;
    for (int32_t i = 0; i < p->n_tensors; i++) {
        const dv_tensor *t = &p->tensors[i];
        int64_t bytes;
        if (!dv_mul_i64(&bytes, t->n_elems, (int64_t)sizeof(double)))
            return dv_nomem(diag);
        values[i] = dv_alloc((size_t)bytes);
        if (!values[i])
            return dv_nomem(diag);
        int32_t from = t->is_input ? dv_program_find(ops, t->name) : -1;
        for (int64_t k = 0; from >= 0 && k < t->n_elems; k++)
            values[i][k] = dv_load(t->dtype, before[from], k);
    }
    return DV_OK;
}

static dv_status oracle(double ***out, const dv_program *p,
                        const dv_program *ops, void *const *before,
                        const dv_eval_options *options, dv_diag *diag)
{
    *out = NULL;
    DV_TRY(new_values(out, p, ops, before, diag));
    return dv_eval(p, *out, options, diag);
}

// -- Thresholds ------------------------------------------------------------

static double norm_of(const dv_tensor *t, const double *want)
{
    double norm = 0;
    for (int64_t i = 0; i < t->n_elems; i++)
        if (isfinite(want[i]))
            norm = fmax(norm, fabs(want[i]));
    return norm;
}

static int count_applies(const dv_expr *e)
{
    int n = e->kind == DV_EXPR_APPLY;
    for (int i = 0; i < e->n_args; i++)
        n += count_applies(e->arg[i]);
    return n;
}

// Relative error one op may add to its result, which is at most `norm` where
// values as large as `cancelled` went into it and fell out again.
static double op_error(const dv_program *p, const dv_op *op, double cancelled,
                       double norm)
{
    const dv_tensor *t = &p->tensors[op->write.tensor];
    double eps = dv_dtype_eps(DV_F32);
    int floats = dv_is_float(t->dtype), f64 = 0;
    for (int r = 0; r < op->n_reads; r++) {
        dv_dtype d = p->tensors[op->reads[r].tensor].dtype;
        floats |= dv_is_float(d);
        f64 |= d == DV_F64;
    }
    if (!floats)
        return 0;
    if (f64 || t->dtype == DV_F64)
        eps = dv_dtype_eps(DV_F64);
    const dv_expr *r = dv_op_reduce(op);
    double length = r ? (double)dv_op_points(op, r->vars) : 0;
    // Rounding errors of a sum grow with the root of its length, not with it.
    length = fmin(length, 4 * sqrt(length));
    double scale = norm > 0 ? fmax(1, cancelled / norm) : 1;
    return dv_dtype_eps(t->dtype) +
           eps * scale * (length + 4 * count_applies(op->body));
}

// error[t] becomes what may have gathered in tensor t at the end.
static void errors(const dv_program *p, double *const *want,
                   const double *cancelled, double *error)
{
    memset(error, 0, (size_t)p->n_tensors * sizeof *error);
    double times[DV_MAX_NESTING + 2] = {1};
    int32_t end[DV_MAX_NESTING + 2] = {p->n_ops}, depth = 0, next = 0;
    for (int32_t i = 0; i < p->n_ops; i++) {
        const dv_op *op = &p->ops[i];
        while (depth && end[depth] <= i)
            depth--;
        for (; next < p->n_repeats && p->repeats[next].first_op == i; next++) {
            times[depth + 1] = times[depth] * (double)p->repeats[next].times;
            end[++depth] = p->repeats[next].end_op;
        }
        double in = op->update ? error[op->write.tensor] : 0;
        for (int r = 0; r < op->n_reads; r++)
            in = fmax(in, error[op->reads[r].tensor]);
        const dv_tensor *t = &p->tensors[op->write.tensor];
        double own =
            op_error(p, op, cancelled[i], norm_of(t, want[op->write.tensor]));
        error[op->write.tensor] = in + times[depth] * own;
    }
}

// -- Comparing -------------------------------------------------------------

typedef double getter(const void *data, const dv_tensor *t, int64_t i);

static double get_stored(const void *data, const dv_tensor *t, int64_t i)
{
    return dv_load(t->dtype, data, i);
}

static double get_double(const void *data, const dv_tensor *t, int64_t i)
{
    (void)t;
    return ((const double *)data)[i];
}

// Below the smallest normal number errors no longer shrink with the values.
static double least_norm(dv_dtype t)
{
    if (!dv_is_float(t))
        return 0;
    return t == DV_F64 ? 0x1p-1022 : t == DV_F16 ? 0x1p-14 : 0x1p-126;
}

// Infinities and nans must be the same; they count in no norm.
static double residual(const dv_tensor *t, const void *got, getter *get,
                       const double *want)
{
    double norm = 0, worst = 0;
    for (int64_t i = 0; i < t->n_elems; i++) {
        double g = get(got, t, i), w = want[i];
        if (isfinite(g) && isfinite(w)) {
            norm = fmax(norm, fabs(w));
            worst = fmax(worst, fabs(g - w));
        } else if (!(isnan(g) && isnan(w)) && g != w) {
            return INFINITY;
        }
    }
    return norm > 0 ? worst / fmax(norm, least_norm(t->dtype)) : worst;
}

// Keep the output that is nearest to its threshold, or farthest past it.
static void judge(dv_verdict *v, const dv_tensor *t, double r, double limit)
{
    int ok = r <= limit;
    double share = limit > 0 ? r / limit : r > 0 ? INFINITY : 0;
    double kept = v->threshold > 0  ? v->residual / v->threshold
                  : v->residual > 0 ? INFINITY
                                    : 0;
    if (!v->tensor || share > kept || (v->ok && !ok)) {
        v->tensor = t->name;
        v->residual = r;
        v->threshold = limit;
    }
    v->ok = v->ok && ok;
}

static void compare_run(dv_verdict *v, const dv_program *ops,
                        void *const *after, double *const *want,
                        const double *error)
{
    for (int32_t i = 0; i < ops->n_tensors; i++) {
        const dv_tensor *t = &ops->tensors[i];
        if (!t->is_output)
            continue;
        double limit = 2 * error[i];
        // A float that was cut off just beside a whole number differs by one.
        if (!dv_is_float(t->dtype) && limit > 0)
            limit += 1 / fmax(1, norm_of(t, want[i]));
        // The oracle's doubles hold whole numbers up to 2^53.
        if (t->dtype == DV_I64 && norm_of(t, want[i]) > 0x1p53)
            limit += 0x1p-50;
        judge(v, t, residual(t, after[i], get_stored, want[i]), limit);
    }
}

// Lowering may not change what is computed, rounding aside. Its threshold is
// that of the same ops in f64.
static void compare_lowering(dv_verdict *v, const dv_program *ops,
                             const dv_program *source, double *const *lowered,
                             double *const *written, const double *error)
{
    for (int32_t i = 0; i < ops->n_tensors; i++) {
        const dv_tensor *t = &ops->tensors[i];
        int32_t s = dv_program_find(source, t->name);
        if (!t->is_output || s < 0)
            continue;
        double limit = 1e-6 * fmin(1, error[i] / dv_dtype_eps(DV_F32));
        if (!dv_is_float(t->dtype) && error[i] > 0)
            limit += 1 / fmax(1, norm_of(t, written[s]));
        judge(v, t, residual(t, lowered[i], get_double, written[s]), limit);
    }
}

static dv_status check_lowering(dv_verdict *v, const dv_program *source,
                                const dv_program *ops, void *const *before,
                                const double *error, dv_diag *diag)
{
    const dv_eval_options plain = {0};
    double **a = NULL, **b = NULL;
    dv_status st = oracle(&a, source, ops, before, &plain, diag);
    if (st == DV_OK)
        st = oracle(&b, ops, ops, before, &plain, diag);
    if (st == DV_OK)
        compare_lowering(v, ops, source, b, a, error);
    free_values(a, source->n_tensors);
    free_values(b, ops->n_tensors);
    return st;
}

dv_status dv_verify(dv_verdict *out, const dv_program *source,
                    const dv_plan *plan, void *const *before,
                    void *const *after, dv_progress progress, void *user,
                    dv_diag *diag)
{
    const dv_program *ops = plan->ops;
    double **want = NULL;
    size_t n = (size_t)ops->n_tensors, m = (size_t)ops->n_ops;
    double *error = dv_alloc((n + m) * sizeof *error);
    if (!error)
        return dv_nomem(diag);
    memset(error, 0, (n + m) * sizeof *error);
    double *cancelled = error + n;
    const dv_eval_options options = {1, cancelled, progress, user};
    *out = (dv_verdict){.ok = 1};
    dv_status st = oracle(&want, ops, ops, before, &options, diag);
    if (st == DV_OK) {
        errors(ops, want, cancelled, error);
        compare_run(out, ops, after, want, error);
    }
    if (st == DV_OK && source && source->n_ops != ops->n_ops)
        st = check_lowering(out, source, ops, before, error, diag);
    free_values(want, ops->n_tensors);
    dv_release(error);
    return st;
}
