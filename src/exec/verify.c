// Compares results with the oracle (the reference evaluation); exec.h describes
// the rules.
#include "base/clock.h"
#include "base/math.h"
#include "base/random.h"
#include "dist/dist.h"
#include "ir/error.h"
#include "ir/sample.h"
#include "nest/sums.h"
#include "plan/tiles.h"
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
            o->values[i][k] = dv_number_load(t->dtype, before[from], k);
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
// fail. Returns 1 if it was recorded.
static int judge(dv_verdict *v, const dv_tensor *t, int64_t i, double off,
                 double limit, int loose)
{
    if (isinf(limit) || (loose && off <= limit))
        return 0;
    double now = share(off, limit), kept = share(v->residual, v->threshold);
    int worse = now > kept || (now == kept && limit > v->threshold) ||
                (isinf(now) && v->residual < off);
    worse |= !v->tensor;
    if (worse) {
        v->tensor = t->name;
        v->element = i;
        v->residual = off;
        v->threshold = limit;
    }
    v->ok = v->ok && off <= limit;
    return worse;
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
        double off = gap(t->dtype, dv_number_load(t->dtype, data, k),
                         o->values[tensor][k]);
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
// zero. An op on this machine whose order of additions the plan does not
// specify is assumed to use them. `of` is the plan's program or the program as
// written, whose statements may have become any of the plan's ops.
static void find_flushes(const dv_plan *plan, const dv_program *of,
                         unsigned char *flushes)
{
    const dv_program *p = plan->ops;
    int any = 0;
    for (int32_t i = 0; i < p->n_ops; i++) {
        const dv_sum_order *s = dv_sums_find(plan, i);
        int may = s ? s->pairs != 0 : dv_target_runs_here(&plan->target);
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

double dv_verify_seconds(const dv_program *source, const dv_plan *plan)
{
    enum { TERMS_PER_SECOND = 60000000 };
    double terms = dv_eval_terms(plan->ops);
    if (source && !same_text(source, plan->ops))
        terms += dv_eval_terms(source);
    return terms / TERMS_PER_SECOND;
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
    // Make the names in the verdict those of the plan's program, because the
    // program as written is freed below.
    if (out->tensor)
        out->tensor = name_in(plan->ops, out->tensor);
    if (out->of)
        out->of = name_in(plan->ops, out->of);
    dv_program_destroy(carried);
    return st;
}

// -- Comparing samples: elements that are recomputed one by one --------------

// Copies all tensors in memory if the next iteration is the last one of the
// repeat whose tensors are to be kept.
static dv_status copy_before_last(void *user, int32_t repeat, int64_t round)
{
    dv_kept_round *k = user;
    const dv_program *p = k->p;
    if (repeat != dv_sampler_repeat(p) || round + 1 != p->repeats[repeat].times)
        return DV_OK;
    k->data = DV_NEW(k->arena, void *, p->n_tensors);
    for (int32_t i = 0; k->data && i < p->n_tensors; i++) {
        int64_t bytes = dv_tensor_bytes(&p->tensors[i]);
        const void *now = dv_exec_stored(k->x, i);
        if (!now)
            continue;
        if (!(k->data[i] = DV_NEW(k->arena, char, bytes)))
            return dv_nomem(k->diag);
        dv_exec_get(k->x, i);
        memcpy(k->data[i], now, (size_t)bytes);
    }
    return k->data ? DV_OK : dv_nomem(k->diag);
}

void dv_keep_round(dv_kept_round *k, dv_exec *x, const dv_program *p,
                   dv_arena *arena, dv_diag *diag)
{
    *k = (dv_kept_round){.x = x, .p = p, .arena = arena, .diag = diag};
    if (dv_sampler_repeat(p) >= 0)
        dv_exec_set_hooks(
            x, &(dv_exec_hooks){.after_round = copy_before_last, .user = k});
}

// The results of the samples taken so far of one tensor.
typedef struct sampled_tensor {
    double size; // largest magnitude after the run; negative: not known yet
    double off;  // largest error found
    int64_t n, n_loose;             // elements compared, and those undecided
    int64_t n_from_inputs;          // those recomputed from the inputs
    int64_t n_missed[DV_N_SAMPLED]; // tiles without a sample, by reason
    // An output's tensor number in the program as written, and the result of
    // recomputing its last sampled element from the inputs.
    int32_t in_source;
    dv_sampled is;
} sampled_tensor;

// Visits the numbers 0 to n - 1 again and again, in an order that spreads them.
typedef struct spread {
    int64_t n, at, step;
} spread;

typedef struct sampling {
    const dv_plan *plan;
    const dv_program *source; // the program as written, or the plan's ops
    void *const *before, *const *after;
    const dv_sample_options *options;
    sampled_tensor *tensors; // what the samples say, by tensor number
    // For each op, the order in which its tiles are visited; n is 0 if they are
    // not sampled.
    spread *tiles;
    // For each tensor, the order in which blocks of its elements are visited.
    spread *blocks;
    uint64_t random;
    double start_s;
    dv_verdict *v;
    dv_arena *arena;
    dv_diag *diag;
} sampling;

static spread spread_over(int64_t n, uint64_t *random)
{
    spread s = {.n = n, .at = (int64_t)(dv_draw(random) % (uint64_t)n)};
    s.step = dv_max_i64(1, (int64_t)((double)n * 0.6180339887498949));
    while (dv_gcd(s.step, n) != 1)
        s.step++;
    return s;
}

static int64_t next_of(spread *s)
{
    int64_t at = s->at;
    s->at += s->at < s->n - s->step ? s->step : s->step - s->n;
    return at;
}

// Returns the share of the time budget that is spent, and reports it as
// progress.
static double spent(const sampling *c)
{
    double share = (dv_clock_s() - c->start_s) / c->options->budget_s;
    if (c->options->progress)
        c->options->progress(c->options->user, fmin(share, 1));
    return share;
}

// Recomputes an element and compares it with what the run left. `op` and `tile`
// are those that should have written it; they are -1 if the element is one of
// an output that is recomputed from the program's inputs. `until` is the share
// of the time budget that may be spent.
static dv_status sample_element(sampling *c, dv_sampler *x, int32_t tensor,
                                int64_t element, int32_t op, int64_t tile,
                                double until, dv_sampled *is)
{
    const dv_tensor *t = &c->plan->ops->tensors[tensor];
    const void *data = c->after[tensor];
    sampled_tensor *s = &c->tensors[tensor];
    dv_number want;
    double limit;
    DV_TRY(dv_sampler_element(x, op, op < 0 ? s->in_source : tensor, element,
                              c->start_s + until * c->options->budget_s, is,
                              &want, &limit));
    if (*is != DV_SAMPLED)
        return DV_OK;
    for (int64_t k = s->size < 0 ? 0 : t->n_elems; k < t->n_elems; k++)
        s->size = fmax(s->size,
                       magnitude(t->dtype, dv_number_load(t->dtype, data, k)));
    dv_number got = dv_number_load(t->dtype, data, element);
    double off = gap(t->dtype, got, want);
    int loose = is_undecided(t->dtype, off, limit, s->size);
    if (judge(c->v, t, element, off, limit, loose)) {
        c->v->op = op < 0 ? NULL : c->plan->ops->ops[op].name;
        c->v->tile = tile;
        c->v->got = dv_is_float(t->dtype) ? got.f : (double)got.i;
        c->v->want = dv_is_float(t->dtype) ? want.f : (double)want.i;
    }
    s->off = fmax(s->off, off);
    s->n++;
    s->n_loose += loose;
    c->v->n_unknown += loose;
    s->n_from_inputs += op < 0;
    *(op < 0 ? &c->v->n_from_inputs : &c->v->n_from_operands) += 1;
    return DV_OK;
}

// Returns the grid that assigns the tiles of an op to cores; NULL: none.
static const dv_group_grid *grid_of(const dv_plan *plan, int32_t op)
{
    return plan->n_grids ? dv_grid_of(plan, dv_group_of(plan, op)) : NULL;
}

// Returns the number of tiles of an op, or 0 if the tensor that it writes is
// not in memory or is never written (a repeat of 0 times). Tiles that compute
// partial sums of the same elements all count.
static int64_t count_tiles(const sampling *c, int32_t op)
{
    const dv_program *p = c->plan->ops;
    const dv_group_grid *g = grid_of(c->plan, op);
    for (int32_t i = 0; i < p->n_repeats; i++)
        if (p->repeats[i].first_op <= op && op < p->repeats[i].end_op &&
            p->repeats[i].times == 0)
            return 0;
    return !c->after[p->ops[op].write.tensor] ? 0
           : c->plan->team.n_axes ? dv_plan_team_size(&c->plan->team)
           : g                    ? g->batch * g->mt * g->nt
                                  : dv_plan_n_tiles(c->plan, op);
}

// Finds the box of a tile of an op; in the plan of a team, a tile is what one
// rank computes. Returns 0 if it is empty.
static int find_box(const dv_plan *plan, int32_t op, int64_t tile, dv_tile *box)
{
    const dv_group_grid *g = grid_of(plan, op);
    dv_iter_space target;
    if (plan->team.n_axes) {
        int any = dv_team_target(&target, plan->ops, &plan->team, op, tile);
        memcpy(box->begin, target.begin, sizeof box->begin);
        memcpy(box->end, target.end, sizeof box->end);
        return any;
    }
    if (!g) {
        dv_plan_tile(box, plan, op, tile);
        return 1;
    }
    const int64_t bmn[3] = {tile / (g->mt * g->nt), tile / g->nt % g->mt,
                            tile % g->nt};
    dv_grid_box(box, plan, g, bmn, 0, g->kt);
    return 1;
}

// Draws an element of a tile at random; along every variable, the first and the
// last value are preferred.
static int64_t draw_element(sampling *c, int32_t op, const dv_tile *box)
{
    const dv_op *o = &c->plan->ops->ops[op];
    const dv_tensor *t = &c->plan->ops->tensors[o->write.tensor];
    int64_t strides[DV_MAX_DIMS], coef[DV_MAX_VARS];
    dv_row_strides(t->n_dims, t->shape, strides);
    int64_t element = dv_access_flatten(o, &o->write, strides, coef);
    for (int v = 0; v < o->n_vars; v++) {
        uint64_t n = (uint64_t)(box->end[v] - box->begin[v]);
        uint64_t r = dv_draw(&c->random), any = (r >> 8) % n;
        any = r % 4 == 0 ? 0 : r % 4 == 1 ? n - 1 : any;
        element += coef[v] * (box->begin[v] + (int64_t)any);
    }
    return element;
}

// Recomputes an element of the next tile of an op. A few elements are tried,
// because a later op may have overwritten some.
static dv_status sample_tile(sampling *c, dv_sampler *x, int32_t op,
                             double until, dv_sampled *is)
{
    enum { TRIES = 4 };
    const dv_op *o = &c->plan->ops->ops[op];
    int64_t tile = next_of(&c->tiles[op]);
    dv_tile box;
    if (!find_box(c->plan, op, tile, &box)) {
        *is = DV_SAMPLED; // there is nothing to sample
        return DV_OK;
    }
    *is = dv_access_is_indirect(&o->write) ? DV_SAMPLE_INDIRECT
                                           : DV_SAMPLE_OVERWRITTEN;
    for (int i = 0; i < TRIES && *is == DV_SAMPLE_OVERWRITTEN; i++)
        DV_TRY(sample_element(c, x, o->write.tensor, draw_element(c, op, &box),
                              op, tile, until, is));
    return DV_OK;
}

// Samples one element of every tile until half of the time budget is spent,
// then more elements of these tiles if that took less than a quarter of it,
// until the quarter is spent. Each turn takes a tile of every op.
static dv_status sample_tiles(sampling *c, dv_sampler *x)
{
    const dv_program *p = c->plan->ops;
    int64_t most = 0, turns = 0;
    for (int32_t i = 0; i < p->n_ops; i++) {
        const dv_tensor *t = &p->tensors[p->ops[i].write.tensor];
        int64_t n = count_tiles(c, i);
        c->tiles[i] = n ? spread_over(n, &c->random) : (spread){0};
        c->v->n_tiles += n;
        most = dv_max_i64(most, n);
        turns = dv_max_i64(turns, n ? t->n_elems : 0);
    }
    for (int64_t turn = 0; turn < turns; turn++) {
        double until = turn < most ? 0.5 : 0.25;
        for (int32_t i = 0; i < p->n_ops; i++) {
            spread *tiles = &c->tiles[i];
            dv_sampled is = DV_SAMPLE_LATE;
            if (!tiles->n)
                continue;
            if (spent(c) <= until)
                DV_TRY(sample_tile(c, x, i, until, &is));
            else if (turn >= most)
                return DV_OK;
            if (turn >= tiles->n)
                continue;
            c->v->n_sampled_tiles += is == DV_SAMPLED;
            if (is != DV_SAMPLED)
                c->tensors[p->ops[i].write.tensor].n_missed[is]++;
        }
    }
    return DV_OK;
}

// Samples the outputs in turn until the time budget is spent. In the first
// round, each gets an equal share of the remaining time. A turn takes a block
// of LIKE neighbouring elements, because neighbours often need the same
// operands.
static dv_status sample_outputs(sampling *c, dv_sampler *x)
{
    enum { LIKE = 8 };
    const dv_program *p = c->plan->ops;
    int64_t turns = 0, n_left = 0;
    for (int32_t i = 0; i < p->n_tensors; i++) {
        int64_t n = dv_ceil_div(p->tensors[i].n_elems, LIKE);
        c->tensors[i].in_source =
            dv_program_find(c->source, p->tensors[i].name);
        c->blocks[i] = spread_over(n, &c->random);
        n_left += p->tensors[i].is_output;
        turns = dv_max_i64(turns, p->tensors[i].is_output ? n : 0);
    }
    for (int64_t turn = 0; turn < turns && spent(c) < 1; turn++)
        for (int32_t i = 0; i < p->n_tensors; i++) {
            dv_sampled *is = &c->tensors[i].is;
            if (!p->tensors[i].is_output || turn >= c->blocks[i].n)
                continue;
            int64_t element = next_of(&c->blocks[i]) * LIKE;
            int64_t end = dv_min_i64(element + LIKE, p->tensors[i].n_elems);
            double now = spent(c), until = 1;
            if (turn == 0)
                until = now + (1 - now) / (double)n_left--;
            for (; element < end && *is == DV_SAMPLED; element++)
                DV_TRY(sample_element(c, x, i, element, -1, -1, until, is));
        }
    return DV_OK;
}

// Samples the tiles of the plan's ops with the tensors as the run left them, or
// the outputs of the program as written with only its inputs.
static dv_status sample(sampling *c, const dv_program *p, int from_inputs)
{
    size_t n = (size_t)p->n_tensors;
    void **before = DV_NEW(c->arena, void *, n);
    void **after = DV_NEW(c->arena, void *, n);
    unsigned char *flushes = DV_NEW(c->arena, unsigned char, p->n_ops + 1);
    dv_sampler *x = NULL;
    if (!before || !after || !flushes)
        return dv_nomem(c->diag);
    for (int32_t i = 0; i < p->n_tensors; i++) {
        int32_t k = dv_program_find(c->plan->ops, p->tensors[i].name);
        before[i] = p->tensors[i].is_input ? c->before[k] : NULL;
        after[i] = from_inputs ? NULL : c->after[k];
    }
    find_flushes(c->plan, p, flushes);
    dv_sampler_inputs inputs = {.before = before,
                                .after = after,
                                .kept = from_inputs ? NULL : c->options->kept};
    inputs.options.round = 1;
    inputs.options.flushes = flushes;
    inputs.options.stored =
        p != c->plan->ops && c->plan->target.intermediates_stored;
    dv_status st = dv_sampler_create(&x, p, &inputs, c->diag);
    if (st == DV_OK)
        st = from_inputs ? sample_outputs(c, x) : sample_tiles(c, x);
    dv_sampler_destroy(x);
    return st;
}

// Fills in the parts of the verdict that concern all samples: whether they
// decide anything, and what was missed.
static void conclude(const sampling *c, dv_missed *missed)
{
    static const char *const why[] = {
        [DV_SAMPLE_OVERWRITTEN] = "overwritten later",
        [DV_SAMPLE_INDIRECT] = "written through an index that is read",
        [DV_SAMPLE_TOO_LARGE] = "too many operands to recompute",
        [DV_SAMPLE_LATE] = "out of time"};
    dv_verdict *v = c->v;
    v->missed = missed;
    for (int32_t i = 0; i < c->plan->ops->n_tensors; i++) {
        const sampled_tensor *s = &c->tensors[i];
        const dv_tensor *t = &c->plan->ops->tensors[i];
        for (int k = DV_SAMPLED + 1; k < DV_N_SAMPLED; k++)
            if (s->n_missed[k])
                missed[v->n_missed++] =
                    (dv_missed){t->name, s->n_missed[k], why[k]};
        if (!t->is_output)
            continue;
        // An output without any failed attempt may still have no sample: the
        // time budget was spent before its first element.
        dv_sampled is = s->is == DV_SAMPLED ? DV_SAMPLE_LATE : s->is;
        if (is != DV_SAMPLE_LATE || s->n_from_inputs == 0)
            missed[v->n_missed++] = (dv_missed){t->name, 0, why[is]};
        if (s->n == 0)
            v->unreached = t->name;
        v->decided &= s->n > 0 && s->n_loose <= s->n / 2;
        note_size(v, t, s->off, fmax(s->size, 0));
    }
}

dv_status dv_verify_samples(dv_verdict *out, const dv_program *source,
                            const dv_plan *plan, void *const *before,
                            void *const *after,
                            const dv_sample_options *options, dv_arena *arena,
                            dv_diag *diag)
{
    const dv_program *p = plan->ops;
    dv_program *carried = NULL;
    *out = (dv_verdict){.ok = 1, .decided = 1, .sampled = 1};
    sampling c = {.plan = plan,
                  .before = before,
                  .after = after,
                  .options = options,
                  .tensors = DV_NEW(arena, sampled_tensor, p->n_tensors),
                  .tiles = DV_NEW(arena, spread, p->n_ops),
                  .blocks = DV_NEW(arena, spread, p->n_tensors),
                  .random = options->seed,
                  .start_s = dv_clock_s(),
                  .v = out,
                  .arena = arena,
                  .diag = diag};
    dv_missed *missed = DV_NEW(arena, dv_missed, p->n_tensors * DV_N_SAMPLED);
    if (!c.tensors || !c.tiles || !c.blocks || !missed)
        return dv_nomem(diag);
    for (int32_t i = 0; i < p->n_tensors; i++)
        c.tensors[i].size = -1;
    if (!source)
        DV_TRY(dv_plan_source(plan, &carried, diag));
    source = source ? source : carried;
    c.source = source ? source : p;
    out->own_ops_only = !source;
    if (source && plan->target.intermediates_stored)
        out->rounded_to = rounded_to(source);
    dv_status st = sample(&c, p, 0);
    if (st == DV_OK)
        st = sample(&c, c.source, 1);
    conclude(&c, missed);
    dv_program_destroy(carried);
    return st;
}
