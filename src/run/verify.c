#include "base/math.h"
#include "ir/error.h"
#include "ir/eval.h"
#include "nest/sums.h"
#include "run/data.h"
#include <math.h>
#include <string.h>

// -- The oracle ------------------------------------------------------------

// Of every tensor of a program: values, and how far off a machine's may be.
typedef struct oracle {
    const dv_program *p;
    double **values, **errors;
} oracle;

static void free_oracle(oracle *o)
{
    for (int32_t i = 0; o->values && i < 2 * o->p->n_tensors; i++)
        dv_release(o->values[i]);
    dv_release(o->values);
}

// Inputs are filled from `before`, which goes by the tensors of `ops`.
static dv_status new_oracle(oracle *o, const dv_program *ops,
                            void *const *before, dv_diag *diag)
{
    size_t n = (size_t)o->p->n_tensors;
    o->values = dv_alloc(2 * n * sizeof *o->values);
    if (!o->values)
        return dv_nomem(diag);
    memset(o->values, 0, 2 * n * sizeof *o->values);
    o->errors = o->values + n;
    for (size_t i = 0; i < n; i++) {
        const dv_tensor *t = &o->p->tensors[i];
        int64_t bytes;
        if (!dv_mul_i64(&bytes, t->n_elems, (int64_t)sizeof(double)))
            return dv_nomem(diag);
        o->values[i] = dv_alloc((size_t)bytes);
        o->errors[i] = dv_alloc((size_t)bytes);
        if (!o->values[i] || !o->errors[i])
            return dv_nomem(diag);
        memset(o->errors[i], 0, (size_t)bytes);
        int32_t from = t->is_input ? dv_program_find(ops, t->name) : -1;
        for (int64_t k = 0; from >= 0 && k < t->n_elems; k++) {
            double v = dv_load(t->dtype, before[from], k);
            o->values[i][k] = v;
            if (t->dtype == DV_I64 && fabs(v) > 0x1p53)
                o->errors[i][k] = 0x1p-51 * fabs(v); // than a double holds
        }
    }
    return DV_OK;
}

static dv_status ask(oracle *o, const dv_program *ops, void *const *before,
                     dv_eval_options options, dv_diag *diag)
{
    DV_TRY(new_oracle(o, ops, before, diag));
    options.errors = o->errors;
    return dv_eval(o->p, o->values, &options, diag);
}

// -- Comparing -------------------------------------------------------------

// How near to failing, or how far past it.
static double share(double off, double limit)
{
    return off == 0 ? 0 : off <= limit ? off / limit : INFINITY;
}

static void judge(dv_verdict *v, const dv_tensor *t, int64_t i, double off,
                  double limit)
{
    if (isinf(limit)) {
        v->n_unknown++;
        return;
    }
    double now = share(off, limit), kept = share(v->residual, v->threshold);
    int worse = now > kept || (now == kept && limit > v->threshold) ||
                (isinf(now) && v->residual < off);
    if (!v->tensor || worse) {
        v->tensor = t->name;
        v->element = i;
        v->residual = off;
        v->threshold = limit;
    }
    v->ok = v->ok && off <= limit;
}

// An output with its largest difference and its largest number.
static void note_size(dv_verdict *v, const dv_tensor *t, double off,
                      double size)
{
    int named = v->tensor != NULL;
    if (!v->of ||
        (named ? v->tensor == t->name : off * v->size > v->off * size)) {
        v->of = t->name;
        v->off = off;
        v->size = size;
    }
}

static void compare_run(dv_verdict *v, void *const *after, const oracle *o)
{
    for (int32_t i = 0; i < o->p->n_tensors; i++) {
        const dv_tensor *t = &o->p->tensors[i];
        double most = 0, size = 0;
        for (int64_t k = 0; t->is_output && k < t->n_elems; k++) {
            double want = o->values[i][k];
            double off = dv_gap(dv_load(t->dtype, after[i], k), want);
            judge(v, t, k, off, o->errors[i][k]);
            v->told |= !isinf(o->errors[i][k]);
            most = fmax(most, off);
            size = isinf(want) ? size : fmax(size, fabs(want));
        }
        if (t->is_output && t->n_elems)
            note_size(v, t, most, size);
    }
    v->told |= v->n_unknown == 0; // there are no elements
}

// Lowering may not change what is computed, rounding aside: that of f64, on
// both sides. What the run left unknown is counted already.
static void compare_lowering(dv_verdict *v, const oracle *lowered,
                             const oracle *written, const oracle *run)
{
    for (int32_t i = 0; i < lowered->p->n_tensors; i++) {
        const dv_tensor *t = &lowered->p->tensors[i];
        int32_t s = dv_program_find(written->p, t->name);
        for (int64_t k = 0; t->is_output && s >= 0 && k < t->n_elems; k++) {
            double limit = lowered->errors[i][k] + written->errors[s][k];
            if (isinf(limit) && isinf(run->errors[i][k]))
                continue;
            judge(v, t, k, dv_gap(lowered->values[i][k], written->values[s][k]),
                  limit);
        }
    }
}

static dv_status check_lowering(dv_verdict *v, const dv_program *source,
                                const oracle *run, void *const *before,
                                dv_diag *diag)
{
    const dv_eval_options plain = {0};
    const dv_program *ops = run->p;
    oracle written = {.p = source}, lowered = {.p = ops};
    dv_status st = ask(&written, ops, before, plain, diag);
    if (st == DV_OK)
        st = ask(&lowered, ops, before, plain, diag);
    if (st == DV_OK)
        compare_lowering(v, &lowered, &written, run);
    free_oracle(&written);
    free_oracle(&lowered);
    return st;
}

// Is it the program as it was written, word for word?
static int is_as_written(const dv_program *source, const dv_program *ops)
{
    dv_text a = {0}, b = {0};
    dv_program_print(&a, source, 0);
    dv_program_print(&b, ops, 0);
    int same = a.at && b.at && strcmp(a.at, b.at) == 0;
    dv_text_free(&a);
    dv_text_free(&b);
    return same;
}

// Which ops go through matrix instructions of bf16, which know no denormals?
// Where the plan does not say how an op adds up, it may.
static void find_flushes(const dv_plan *plan, unsigned char *flushes)
{
    const dv_program *p = plan->ops;
    for (int32_t i = 0; i < p->n_ops; i++) {
        const dv_sums *s = dv_sums_find(plan, i);
        int bf16 = 0;
        for (int r = 0; r < p->ops[i].n_reads; r++)
            bf16 |= p->tensors[p->ops[i].reads[r].tensor].dtype == DV_BF16;
        flushes[i] = bf16 && (s ? s->pairs != 0 : plan->target.here);
    }
}

dv_status dv_verify(dv_verdict *out, const dv_program *source,
                    const dv_plan *plan, void *const *before,
                    void *const *after, dv_progress progress, void *user,
                    dv_diag *diag)
{
    const dv_program *ops = plan->ops;
    dv_eval_options options = {.round = 1, .progress = progress, .user = user};
    oracle o = {.p = ops};
    *out = (dv_verdict){.ok = 1};
    unsigned char *flushes = dv_alloc((size_t)ops->n_ops + 1);
    if (!flushes)
        return dv_nomem(diag);
    find_flushes(plan, flushes);
    options.flushes = flushes;
    dv_status st = ask(&o, ops, before, options, diag);
    dv_release(flushes);
    if (st == DV_OK)
        compare_run(out, after, &o);
    if (st == DV_OK && source && !is_as_written(source, ops))
        st = check_lowering(out, source, &o, before, diag);
    free_oracle(&o);
    return st;
}
