// Compares results with the oracle; exec.h describes the rules.
#include "base/math.h"
#include "ir/error.h"
#include "ir/eval.h"
#include "nest/sums.h"
#include "exec/exec.h"
#include <math.h>
#include <string.h>

// The reference values of all tensors of a program, and the error bound of each
// element.
typedef struct oracle {
    const dv_program *p;
    dv_number **values;
    double **errors;
} oracle;

static void free_oracle(oracle *o)
{
    for (int32_t i = 0; o->values && i < o->p->n_tensors; i++)
        dv_release(o->values[i]);
    for (int32_t i = 0; o->errors && i < o->p->n_tensors; i++)
        dv_release(o->errors[i]);
    dv_release(o->values);
    dv_release(o->errors);
}

static dv_number load(dv_dtype t, const void *data, int64_t i)
{
    if (t == DV_I64)
        return (dv_number){.i = ((const int64_t *)data)[i]};
    double v = dv_load(t, data, i); // exact for all types but i64
    return dv_is_float(t) ? (dv_number){.f = v} : (dv_number){.i = (int64_t)v};
}

// Allocates the tensors of the oracle (the reference evaluation) and fills the
// inputs from `before`, which is indexed by tensor number of `ops`.
static dv_status new_oracle(oracle *o, const dv_program *ops,
                            void *const *before, dv_diag *diag)
{
    size_t n = (size_t)o->p->n_tensors;
    o->values = dv_alloc((n + 1) * sizeof *o->values);
    o->errors = dv_alloc((n + 1) * sizeof *o->errors);
    if (o->values)
        memset(o->values, 0, n * sizeof *o->values);
    if (o->errors)
        memset(o->errors, 0, n * sizeof *o->errors);
    if (!o->values || !o->errors)
        return dv_nomem(diag);
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
        for (int64_t k = 0; from >= 0 && k < t->n_elems; k++)
            o->values[i][k] = load(t->dtype, before[from], k);
    }
    return DV_OK;
}

static dv_status evaluate(oracle *o, const dv_program *ops, void *const *before,
                          dv_eval_options options, dv_diag *diag)
{
    DV_TRY(new_oracle(o, ops, before, diag));
    options.errors = o->errors;
    return dv_eval(o->p, o->values, &options, diag);
}

static double gap(dv_dtype t, dv_number got, dv_number want)
{
    if (dv_is_float(t))
        return dv_abs_difference(got.f, want.f);
    uint64_t a = (uint64_t)got.i, b = (uint64_t)want.i;
    return (double)(got.i < want.i ? b - a : a - b);
}

static double magnitude(dv_dtype t, dv_number x)
{
    double v = dv_is_float(t) ? fabs(x.f) : fabs((double)x.i);
    return isfinite(v) ? v : 0;
}

// Returns the error divided by its tolerance; infinity if the error exceeds the
// tolerance.
static double share(double off, double limit)
{
    return off == 0 ? 0 : off <= limit ? off / limit : INFINITY;
}

// Records an element in the verdict if it is the worst so far. Elements whose
// error bound is too wide to prove anything (`loose`) are recorded only if they
// fail.
static void judge(dv_verdict *v, const dv_tensor *t, int64_t i, double off,
                  double limit, int loose)
{
    if (isinf(limit) || (loose && off <= limit))
        return;
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

// Records an output's largest error and largest magnitude.
static void note_size(dv_verdict *v, const dv_tensor *t, double off,
                      double size)
{
    int named = v->tensor && !strcmp(v->tensor, t->name);
    if (!v->of || named || (!v->tensor && off * v->size > v->off * size)) {
        v->of = t->name;
        v->off = off;
        v->size = size;
    }
}

static double largest(const oracle *o, int32_t tensor)
{
    const dv_tensor *t = &o->p->tensors[tensor];
    double size = 0;
    for (int64_t k = 0; k < t->n_elems; k++)
        size = fmax(size, magnitude(t->dtype, o->values[tensor][k]));
    return size;
}

// Returns 1 if the bound is so wide that a wrong value could be within it, and
// the value does not agree with the reference in nearly all of its digits.
static int is_undecided(dv_dtype t, double off, double limit, double size)
{
    enum { SHARE = 8, ULPS = 64 };
    int agrees = size > 0 ? off <= ULPS * dv_dtype_eps(t) * size
                          : off == 0 && isfinite(limit);
    return limit > 0 && !(limit * SHARE <= size) && !agrees;
}

// Compares one output of a run with the oracle (the reference values).
// `unknown` marks its undecided elements; an element counts once, even if both
// references leave it undecided. Returns 1 if at most half of the elements are
// undecided.
static int compare_tensor(dv_verdict *v, const oracle *o, int32_t tensor,
                          const void *data, unsigned char *unknown)
{
    const dv_tensor *t = &o->p->tensors[tensor];
    double most = 0, size = largest(o, tensor);
    int64_t n_loose = 0;
    for (int64_t k = 0; k < t->n_elems; k++) {
        double limit = o->errors[tensor][k];
        double off =
            gap(t->dtype, load(t->dtype, data, k), o->values[tensor][k]);
        int loose = is_undecided(t->dtype, off, limit, size);
        judge(v, t, k, off, limit, loose);
        v->n_unknown += loose && !unknown[k];
        unknown[k] |= (unsigned char)loose;
        n_loose += loose;
        most = fmax(most, off);
    }
    note_size(v, t, most, size);
    return n_loose <= t->n_elems / 2;
}

typedef struct verification {
    const dv_plan *plan;
    void *const *before, *const *after;
    unsigned char **unknown; // marks the undecided elements of each output
    dv_progress progress;
    void *user;
    // Share of all verification work that is done before and after the current
    // reference program, 0 to 1.
    double from, until;
} verification;

static void report(void *user, double done)
{
    const verification *c = user;
    if (c->progress)
        c->progress(c->user, c->from + done * (c->until - c->from));
}

static dv_status compare(dv_verdict *v, verification *c, const dv_program *p,
                         dv_eval_options options, dv_diag *diag)
{
    const dv_program *ops = c->plan->ops;
    oracle o = {.p = p};
    options.round = 1;
    options.progress = report;
    options.user = c;
    dv_status st = evaluate(&o, ops, c->before, options, diag);
    for (int32_t i = 0; i < p->n_tensors && st == DV_OK; i++) {
        int32_t k = dv_program_find(ops, p->tensors[i].name);
        if (!p->tensors[i].is_output || k < 0)
            continue;
        v->decided &= compare_tensor(v, &o, i, c->after[k], c->unknown[k]);
    }
    free_oracle(&o);
    return st;
}

// Returns 1 if the two programs print as the same text.
static int same_text(const dv_program *a, const dv_program *b)
{
    dv_text x = {0}, y = {0};
    dv_program_print(&x, a, 0);
    dv_program_print(&y, b, 0);
    int same = x.at && y.at && strcmp(x.at, y.at) == 0;
    dv_text_free(&x);
    dv_text_free(&y);
    return same;
}

// Finds the ops that may use bf16 matrix instructions, which treat denormals as
// zero. If the plan does not specify an op's order of additions, it may. `of`
// is the plan's program or the program as written, whose statements may have
// become any of the plan's ops.
static void find_flushes(const dv_plan *plan, const dv_program *of,
                         unsigned char *flushes)
{
    const dv_program *p = plan->ops;
    int any = 0;
    for (int32_t i = 0; i < p->n_ops; i++) {
        const dv_sum_order *s = dv_sums_find(plan, i);
        int may = s ? s->pairs != 0 : plan->target.here;
        any |= may;
        if (of == p)
            flushes[i] = (unsigned char)may;
    }
    for (int32_t i = 0; i < of->n_ops; i++) {
        int bf16 = 0;
        for (int r = 0; r < of->ops[i].n_reads; r++)
            bf16 |= of->tensors[of->ops[i].reads[r].tensor].dtype == DV_BF16;
        flushes[i] = bf16 && (of == p ? flushes[i] : any);
    }
}

static dv_status compare_with(dv_verdict *v, verification *c,
                              const dv_program *p, dv_diag *diag)
{
    dv_eval_options options = {0};
    unsigned char *flushes = dv_alloc((size_t)p->n_ops + 1);
    if (!flushes)
        return dv_nomem(diag);
    find_flushes(c->plan, p, flushes);
    options.flushes = flushes;
    options.stored = p != c->plan->ops && c->plan->target.intermediates_stored;
    dv_status st = compare(v, c, p, options, diag);
    dv_release(flushes);
    return st;
}

// Returns the narrowest float type of any subexpression, or `narrowest` if none
// is narrower.
static dv_dtype narrow_type(const dv_expr *e, dv_dtype narrowest)
{
    for (int i = 0; i < e->n_args; i++)
        narrowest = narrow_type(e->arg[i], narrowest);
    int is_float =
        e->n_args && e->dtype >= 0 && dv_is_float((dv_dtype)e->dtype);
    return is_float &&
                   dv_dtype_eps((dv_dtype)e->dtype) > dv_dtype_eps(narrowest)
               ? (dv_dtype)e->dtype
               : narrowest;
}

// Returns the name of the type to which a machine that stores intermediate
// results may round them; NULL if no statement has intermediate results
// narrower than the type in which it is computed.
static const char *rounded_to(const dv_program *p)
{
    dv_dtype narrowest = DV_F64;
    for (int32_t i = 0; i < p->n_ops; i++) {
        const dv_op *op = &p->ops[i];
        dv_dtype in = dv_op_compute(p, op) == DV_IN_F32 ? DV_F32 : DV_F64;
        dv_dtype t = narrow_type(op->body, in);
        if (t != in && dv_dtype_eps(t) > dv_dtype_eps(narrowest))
            narrowest = t;
    }
    return narrowest == DV_F64 ? NULL : dv_dtype_get(narrowest)->name;
}

// Compares a run with the plan's own ops and, if lowering changed the program,
// with the program as written.
static dv_status compare_all(dv_verdict *v, verification *c,
                             const dv_program *source, dv_diag *diag)
{
    const dv_program *ops = c->plan->ops;
    int lowered = source && !same_text(source, ops);
    v->own_ops_only = !source;
    c->until = lowered ? 0.5 : 1;
    DV_TRY(compare_with(v, c, ops, diag));
    if (!lowered)
        return DV_OK;
    if (c->plan->target.intermediates_stored)
        v->rounded_to = rounded_to(source);
    c->from = 0.5;
    c->until = 1;
    return compare_with(v, c, source, diag);
}

static dv_status new_marks(const dv_program *p, unsigned char ***out,
                           dv_arena *arena, dv_diag *diag)
{
    unsigned char **marks = *out = DV_NEW(arena, unsigned char *, p->n_tensors);
    for (int32_t i = 0; marks && i < p->n_tensors; i++) {
        const dv_tensor *t = &p->tensors[i];
        if (t->is_output &&
            !(marks[i] = DV_NEW(arena, unsigned char, t->n_elems)))
            return dv_nomem(diag);
    }
    return marks ? DV_OK : dv_nomem(diag);
}

double dv_verify_points(const dv_program *source, const dv_plan *plan)
{
    double own = dv_eval_points(plan->ops);
    return source ? own + dv_eval_points(source) : own;
}

static const char *name_in(const dv_program *p, const char *name)
{
    return p->tensors[dv_program_find(p, name)].name;
}

dv_status dv_verify(dv_verdict *out, const dv_program *source,
                    const dv_plan *plan, void *const *before,
                    void *const *after, dv_progress progress, void *user,
                    dv_diag *diag)
{
    verification c = {.plan = plan,
                      .before = before,
                      .after = after,
                      .progress = progress,
                      .user = user};
    dv_program *carried = NULL;
    dv_arena arena = {0};
    *out = (dv_verdict){.ok = 1, .decided = 1};
    dv_status st = new_marks(plan->ops, &c.unknown, &arena, diag);
    if (st == DV_OK && !source)
        st = dv_plan_source(plan, &carried, diag);
    if (st == DV_OK)
        st = compare_all(out, &c, source ? source : carried, diag);
    dv_arena_free(&arena);
    // The names in the verdict must not belong to `carried`, the program as
    // written, which is freed below.
    if (out->tensor)
        out->tensor = name_in(plan->ops, out->tensor);
    if (out->of)
        out->of = name_in(plan->ops, out->of);
    dv_program_destroy(carried);
    return st;
}
