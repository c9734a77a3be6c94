// Pass divide: decides into which slices every op is cut.
//
//   divide best {
//       0: j 64            # m, 16 slices
//       1: i 64, j 256     # d, 32 slices
//   }
//
// The numbers are slice lengths; a variable that is not listed is not cut. If a
// reduction variable is cut, the partial results of the slices are combined in
// the order of the slices. Variables are listed in the order of the digits of
// tile numbers, the most significant first.
//
// Ops of the same shape are divided only once, because models repeat their
// layers.
#include "base/math.h"
#include "base/plural.h"
#include "base/stop.h"
#include "divide/divide.h"
#include "plan/pins.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char *const methods[] = {[0] = "best",
                                      [DV_DIVIDE_BEST] = "best",
                                      [DV_DIVIDE_SEED] = "seed",
                                      [DV_DIVIDE_SEED_COST] = "seed+cost",
                                      [DV_DIVIDE_SPAN] = "span"};

// Parses a pin "op:variable=number", a number of slices that the user
// prescribes, and finds the op and the variable.
static dv_status read_pin(const dv_plan *plan, const char *text, int32_t *op,
                          dv_pin *pin, dv_diag *diag)
{
    const char *equals = strrchr(text, '='), *colon = strrchr(text, ':');
    char *end = NULL;
    if (!equals || !colon || colon > equals)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "a pin is OP:VARIABLE=NUMBER, OP.kernel=KIND or "
                       "OP.tile=VARIABLE:SIZE, not '%s'",
                       text);
    pin->n = strtoll(equals + 1, &end, 10);
    if (end == equals + 1 || *end || pin->n < 1)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "pin %s: a number of slices is 1 or more", text);
    DV_TRY(dv_pin_find_op(op, plan, text, (size_t)(colon - text), diag));
    return dv_pin_find_var(&pin->var, &plan->ops->ops[*op], text, colon + 1,
                           (size_t)(equals - colon - 1), diag);
}

typedef struct pinned_op {
    int32_t op;
    dv_pin pin;
} pinned_op;

// Parses all pins (numbers of slices that the user prescribes); a variable may
// be pinned only once.
static dv_status read_pins(const dv_plan *plan, const dv_plan_options *o,
                           pinned_op *out, dv_diag *diag)
{
    for (size_t k = 0; k < o->n_pins; k++) {
        out[k].op = -1;
        if (dv_pin_is_of_schedule(o->pins[k]))
            continue;
        DV_TRY(read_pin(plan, o->pins[k], &out[k].op, &out[k].pin, diag));
        for (size_t j = 0; j < k; j++)
            if (out[j].op == out[k].op && out[j].pin.var == out[k].pin.var)
                return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                               "pin %s: it is pinned to %" PRId64 " already",
                               o->pins[k], out[j].pin.n);
    }
    return DV_OK;
}

// Collects the pins of one op (numbers of slices that the user prescribes), at
// most one per variable. Returns their number.
static int pins_of(const pinned_op *all, size_t n_all, int32_t op, dv_pin *pins)
{
    int n = 0;
    for (size_t k = 0; k < n_all; k++)
        if (all[k].op == op)
            pins[n++] = all[k].pin;
    return n;
}

dv_status dv_divide_by(dv_divided *out, dv_divide method,
                       const dv_divide_space *s, const dv_target *t,
                       dv_divide_request r, dv_diag *diag)
{
    r.cost = method == DV_DIVIDE_SEED_COST;
    r.span_only = method == DV_DIVIDE_SPAN;
    if (!method || method == DV_DIVIDE_BEST)
        return dv_divide_best(out, s, t, &r, diag);
    DV_TRY(dv_divide_seed(out, s, &r, diag));
    // The planner `seed`, like Torch-Spyre, rounds slice lengths down when it
    // checks the span limit (on the bytes between the first and last one that a
    // core accesses); check it again with the true lengths.
    for (int i = 0; i < s->n_tensors && r.span_limit_bytes; i++) {
        int64_t span = dv_span(s, i, &out->splits, 0);
        if (span > r.span_limit_bytes)
            return dv_fail(diag, DV_E_CAPACITY, r.at,
                           "%s: a core would reach %" PRId64
                           " bytes of %s with the ends of slices, the limit "
                           "is %" PRId64,
                           s->op->name, span, s->tensors[i]->name,
                           r.span_limit_bytes);
    }
    // Report the time that divvy's cost model predicts, because Torch-Spyre's
    // planner minimises another cost.
    out->cost_us = dv_divide_cost(s, t, &out->splits);
    return DV_OK;
}

int64_t dv_divide_shares(const dv_target *t)
{
    // Nothing is shared on machines that compute on tiles (tile_rows), because
    // a later pass may give any tile to any core.
    return t->ring && !t->tile_rows ? dv_target_ring(t, t->cores - 1) + 1 : 0;
}

// Stores in x, for reports, the span of each tensor (bytes from the first to
// the last one that a core accesses) and the components of the predicted time.
static void measure(dv_division *x, const dv_divide_space *s,
                    const dv_target *t, const dv_splits *d)
{
    for (int k = 0; k < s->n_tensors; k++)
        x->spans_bytes[k] = dv_span(s, k, d, 0);
    dv_cost_work w = dv_divide_work(s, t, d);
    x->compute_us = dv_cost_compute_us(t, &w);
    x->memory_us = dv_cost_memory_us(t, &w);
    x->combine_us = dv_cost_combine_us(t, &w);
}

// Stores the chosen slice lengths of op i in the plan, and what reports show
// about the choice.
static dv_status keep(dv_plan *plan, int32_t i, const dv_divide_space *s,
                      const dv_divided *d, dv_diag *diag)
{
    dv_division *x = &plan->divisions[i];
    x->cost_us = d->cost_us;
    x->candidates = d->candidates;
    x->forced = DV_NEW(&plan->arena, int64_t, s->n_vars);
    x->spans_bytes = DV_NEW(&plan->arena, int64_t, s->n_tensors);
    x->whole_bytes = DV_NEW(&plan->arena, int64_t, s->n_tensors);
    x->why_undivided = DV_NEW(&plan->arena, const char *, s->n_vars);
    x->runner_up_us = d->runner_up_us;
    x->over_span = d->over_span;
    if (d->runner_up_us >= 0)
        x->runner = DV_NEW(&plan->arena, int64_t, s->n_vars);
    if (!x->forced || !x->spans_bytes || !x->whole_bytes || !x->why_undivided ||
        (d->runner_up_us >= 0 && !x->runner))
        return dv_nomem(diag);
    for (int v = 0; v < s->n_vars; v++) {
        int64_t len = dv_ceil_div(s->units[v], d->splits.n[v]) * s->eps[v];
        plan->slices[i][v] = dv_min_i64(len, s->extent[v]);
        x->forced[v] = d->forced.n[v];
    }
    dv_splits whole;
    for (int v = 0; v < s->n_vars; v++) {
        whole.n[v] = 1;
        x->why_undivided[v] = s->why[v];
        if (x->runner)
            x->runner[v] = d->runner.n[v];
    }
    for (int k = 0; k < s->n_tensors; k++)
        x->whole_bytes[k] = dv_span(s, k, &whole, 0);
    measure(x, s, &plan->target, &d->splits);
    return DV_OK;
}

dv_status dv_divide_refresh(dv_plan *plan, int32_t i, const int64_t *before,
                            dv_arena *work, dv_diag *diag)
{
    const dv_op *op = &plan->ops->ops[i];
    dv_division *x = &plan->divisions[i];
    dv_divide_space *s = DV_NEW(work, dv_divide_space, 1);
    dv_splits d;
    x->spans_bytes = DV_NEW(&plan->arena, int64_t, op->n_reads + 1);
    x->runner = DV_NEW(&plan->arena, int64_t, op->n_vars);
    if (!s || !x->spans_bytes || !x->runner ||
        !dv_divide_space_init(s, &plan->target, plan->ops, op, plan->layouts,
                              work))
        return dv_nomem(diag);
    s->shares = plan->shares;
    for (int v = 0; v < op->n_vars; v++) {
        d.n[v] = dv_ceil_div(s->extent[v], plan->slices[i][v]);
        x->runner[v] = dv_ceil_div(s->extent[v], before[v]);
    }
    x->runner_up_us = x->cost_us;
    x->cost_us = dv_divide_cost(s, &plan->target, &d);
    x->followed = 1;
    measure(x, s, &plan->target, &d);
    return DV_OK;
}

static uint64_t mix(uint64_t h, uint64_t x)
{
    h = (h ^ x) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 29;
}

static uint64_t access_shape(uint64_t h, const dv_plan *plan, const dv_op *op,
                             const dv_access *a)
{
    const dv_layout *l = &plan->layouts[a->tensor];
    for (int d = 0; d < l->n_dims; d++)
        h = mix(mix(h, (uint64_t)l->size[d]), (uint64_t)l->stride[d]);
    h = mix(h, (uint64_t)l->elem_bytes);
    for (int d = 0; d < a->n_dims; d++) {
        h = mix(mix(mix(h, (uint64_t)a->index[d].base),
                    (uint64_t)a->index[d].via + 2),
                (uint64_t)a->index[d].factor);
        for (int v = 0; v < op->n_vars; v++)
            h = mix(h, (uint64_t)a->index[d].coef[v]);
    }
    return h;
}

// Returns a hash of all properties of the op that its division into slices
// depends on.
static uint64_t shape_of(const dv_plan *plan, const dv_op *op)
{
    uint64_t h = mix((uint64_t)op->n_vars, (uint64_t)dv_op_kind(op));
    for (int v = 0; v < op->n_vars; v++)
        h = mix(mix(h, (uint64_t)op->vars[v].begin),
                (uint64_t)op->vars[v].end * 2 + op->vars[v].reduce);
    for (int r = 0; r < op->n_reads; r++)
        h = access_shape(h, plan, op, &op->reads[r]);
    return access_shape(h, plan, op, &op->write);
}

static int same_access(const dv_plan *plan, const dv_op *op, const dv_access *a,
                       const dv_access *b)
{
    const dv_layout *x = &plan->layouts[a->tensor];
    const dv_layout *y = &plan->layouts[b->tensor];
    dv_access moved = *b;
    moved.tensor = a->tensor;
    return x->n_dims == y->n_dims && x->elem_bytes == y->elem_bytes &&
           !memcmp(x->size, y->size, sizeof x->size) &&
           !memcmp(x->stride, y->stride, sizeof x->stride) &&
           dv_access_equal(op, a, &moved);
}

static int same_shape(const dv_plan *plan, const dv_op *a, const dv_op *b)
{
    if (a->n_vars != b->n_vars || a->n_reads != b->n_reads ||
        dv_op_kind(a) != dv_op_kind(b))
        return 0;
    for (int v = 0; v < a->n_vars; v++)
        if (a->vars[v].begin != b->vars[v].begin ||
            a->vars[v].end != b->vars[v].end ||
            a->vars[v].reduce != b->vars[v].reduce)
            return 0;
    for (int r = 0; r < a->n_reads; r++)
        if (!same_access(plan, a, &a->reads[r], &b->reads[r]))
            return 0;
    return same_access(plan, a, &a->write, &b->write);
}

typedef struct known {
    // Hash table of ops: for each shape the first op that has it; -1 in an
    // empty slot.
    int32_t *op;
    size_t cap; // table size, a power of two
} known;

// Returns an earlier op that has the same shape as op i and therefore the same
// division into slices. If there is none, adds op i to the table and returns
// -1.
static int32_t find_known(const dv_plan *plan, known *k, int32_t i)
{
    const dv_op *ops = plan->ops->ops;
    for (size_t at = shape_of(plan, &ops[i]) & (k->cap - 1);;
         at = (at + 1) & (k->cap - 1)) {
        if (k->op[at] < 0) {
            k->op[at] = i;
            return -1;
        }
        if (same_shape(plan, &ops[k->op[at]], &ops[i]))
            return k->op[at];
    }
}

static dv_status divide_op(dv_plan *plan, int32_t i, dv_divide method,
                           const dv_pin *pins, int n_pins, dv_arena *work,
                           dv_diag *diag)
{
    const dv_op *op = &plan->ops->ops[i];
    dv_divided d;
    dv_divide_space *s = DV_NEW(work, dv_divide_space, 1);
    if (!s || !dv_divide_space_init(s, &plan->target, plan->ops, op,
                                    plan->layouts, work))
        return dv_nomem(diag);
    s->shares = plan->shares;
    dv_divide_request r = {.pins = pins,
                           .n_pins = n_pins,
                           .cores = plan->target.cores,
                           .span_limit_bytes = plan->target.span_limit_bytes,
                           .at = {&plan->ops->src, op->off}};
    DV_TRY(dv_divide_by(&d, method, s, &plan->target, r, diag));
    return keep(plan, i, s, &d, diag);
}

// Prescribes how the reductions of a rank of a team are cut: not at all or, if
// the op has few results of many iterations each, into a fixed number of
// slices. The number depends on the team's op and not on the rank's part or
// threads, so that results do not depend on these. Returns the number of pins
// (prescribed numbers of slices); *is_cut is set to 1 if the reduction is cut.
static int fix_reduction(const dv_plan *plan, int32_t op, dv_pin *pins,
                         int *is_cut)
{
    enum { FEW_RESULTS = 64, SLICES = 16, LEAST_POINTS = 4096 };
    const dv_op *o = &plan->ops->ops[op];
    const dv_op *whole = dv_plan_whole_op(plan, op).op;
    int n = 0, longest = -1;
    if (!plan->team_ops || !dv_target_has_caches(&plan->target))
        return 0;
    for (int v = 0; v < o->n_vars; v++) {
        if (!o->vars[v].reduce)
            continue;
        if (longest < 0 || dv_var_len(o, v) > dv_var_len(o, pins[longest].var))
            longest = n;
        pins[n++] = (dv_pin){v, 1};
    }
    if (n &&
        dv_op_points_double(whole, dv_written_vars(whole)) <= FEW_RESULTS &&
        dv_op_work(whole) >= SLICES * LEAST_POINTS) {
        pins[longest].n = dv_min_i64(SLICES, dv_var_len(o, pins[longest].var));
        *is_cut = 1;
    }
    return n;
}

static dv_status divide_all(dv_plan *plan, dv_divide method,
                            const pinned_op *pinned, size_t n_pinned, known *k,
                            dv_diag *diag)
{
    for (int32_t i = 0; i < plan->ops->n_ops; i++) {
        const dv_op *op = &plan->ops->ops[i];
        DV_TRY(dv_stop_check(diag));
        if (op->is_extern)
            continue; // an `extern` op runs as a single tile
        dv_pin pins[DV_MAX_VARS];
        int n_pins = pins_of(pinned, n_pinned, i, pins), is_pinned = n_pins > 0;
        if (!n_pins)
            n_pins = fix_reduction(plan, i, pins, &is_pinned);
        int32_t same = n_pins ? -1 : find_known(plan, k, i);
        if (same >= 0) {
            plan->divisions[i] = plan->divisions[same];
            memcpy(plan->slices[i], plan->slices[same],
                   (size_t)op->n_vars * sizeof *plan->slices[i]);
            continue;
        }
        dv_arena work = {0};
        dv_status st = divide_op(plan, i, method, pins, n_pins, &work, diag);
        dv_arena_free(&work);
        DV_TRY(st);
        plan->divisions[i].pinned = is_pinned;
        plan->divisions[i].like = i;
    }
    return DV_OK;
}

// Returns 1 if variable v of a contraction is in the result and in one factor
// only, so that cutting it leaves the other factor whole.
static int is_row_or_column(const dv_op *op, int v)
{
    int32_t reads = 0;
    for (int r = 0; r < op->n_reads; r++)
        reads += (dv_access_vars(op, &op->reads[r]) >> v & 1) != 0;
    return !op->vars[v].reduce && reads == 1;
}

// Cuts a contraction into up to 8 tiles per core, so that cores that finish
// early can take over tiles of others: memory and clocks of many cores are
// never equally fast. Tiles stay so large that the copying of their operands
// into kernel order (packing) pays off.
static void cut_finer(dv_plan *plan, int32_t i)
{
    enum { TILES_PER_CORE = 8, LEAST = 128, LEAST_WORK = 4 << 20 };
    const dv_op *op = &plan->ops->ops[i];
    int64_t *slices = plan->slices[i];
    while (dv_plan_n_tiles(plan, i) < TILES_PER_CORE * plan->target.cores) {
        int longest = -1;
        double work = 1;
        for (int v = 0; v < op->n_vars; v++) {
            work *= (double)slices[v];
            if (is_row_or_column(op, v) && slices[v] >= 2 * LEAST &&
                (longest < 0 || slices[v] > slices[longest]))
                longest = v;
        }
        if (longest < 0 || work < 2.0 * LEAST_WORK)
            return;
        slices[longest] = dv_ceil_div(slices[longest], 2);
    }
}

// On machines with many cores and caches, cuts contractions into more tiles
// than cores, which idle cores can take over.
static void balance(dv_plan *plan)
{
    enum { MANY_CORES = 8 };
    if (plan->target.cores < MANY_CORES || !dv_target_has_caches(&plan->target))
        return;
    for (int32_t i = 0; i < plan->ops->n_ops; i++) {
        const dv_op *op = &plan->ops->ops[i];
        if (dv_op_kind(op) == DV_KIND_CONTRACTION && !op->is_extern &&
            !plan->divisions[i].pinned &&
            dv_plan_n_tiles(plan, i) >= plan->target.cores)
            cut_finer(plan, i);
    }
}

dv_status dv_divide_run(dv_pass_cx *cx, dv_plan *plan)
{
    dv_divide method = cx->options->divide;
    DV_TRY(dv_plan_whole_slices(plan, cx->diag));
    plan->divide_method = methods[method];
    plan->shares =
        cx->options->ring != DV_OFF ? dv_divide_shares(&plan->target) : 0;
    plan->divisions = DV_NEW(&plan->arena, dv_division, plan->ops->n_ops);
    known k = {.cap = 16};
    while (k.cap < 2 * (size_t)plan->ops->n_ops)
        k.cap *= 2;
    k.op = dv_alloc(k.cap * sizeof *k.op);
    size_t n_pinned = cx->options->n_pins;
    pinned_op *pinned = dv_alloc(n_pinned * sizeof *pinned);
    dv_status st =
        plan->divisions && k.op && pinned ? DV_OK : dv_nomem(cx->diag);
    if (st == DV_OK)
        st = read_pins(plan, cx->options, pinned, cx->diag);
    if (st == DV_OK) {
        memset(k.op, -1, k.cap * sizeof *k.op);
        st = divide_all(plan, method, pinned, n_pinned, &k, cx->diag);
    }
    if (st == DV_OK && method <= DV_DIVIDE_BEST)
        balance(plan);
    dv_release(pinned);
    dv_release(k.op);
    return st;
}

dv_status dv_divide_verify(const dv_plan *plan, dv_diag *diag)
{
    for (int32_t i = 0; i < plan->ops->n_ops; i++) {
        const dv_op *op = &plan->ops->ops[i];
        for (int v = 0; v < op->n_vars; v++)
            if (plan->slices[i][v] < 1)
                return dv_fail(diag, DV_E_SHAPE, DV_NOWHERE,
                               "op %s: a slice of %s has %" PRId64 " point%s",
                               op->name, op->vars[v].name, plan->slices[i][v],
                               DV_PLURAL(plan->slices[i][v], "", "s"));
    }
    return DV_OK;
}

void dv_divide_print(dv_text *out, const dv_plan *plan)
{
    dv_put(out, "divide %s {\n", plan->divide_method);
    for (int32_t i = 0; i < plan->ops->n_ops; i++) {
        const dv_op *op = &plan->ops->ops[i];
        const char *sep = ":";
        for (int k = 0; k < op->n_vars; k++) {
            int v = dv_plan_digit(plan, i, k);
            if (plan->slices[i][v] == dv_var_len(op, v))
                continue;
            if (sep[0] == ':')
                dv_put(out, "    %d", (int)i);
            dv_put(out, "%s %s %" PRId64, sep, op->vars[v].name,
                   plan->slices[i][v]);
            sep = ",";
        }
        if (sep[0] == ',')
            dv_put(out, "  # %s, %" PRId64 " slice%s\n", op->name,
                   dv_plan_n_tiles(plan, i),
                   DV_PLURAL(dv_plan_n_tiles(plan, i), "", "s"));
    }
    dv_put(out, "}\n");
}

// Stores the order of the digits of an op's tile numbers, of which the first n
// are known: those of the variables that are cut. On machines with caches the
// order has no meaning. Returns 0 when out of memory.
static int keep_digits(dv_plan *plan, int32_t op, const int8_t *digits, int n)
{
    const dv_op *o = &plan->ops->ops[op];
    uint32_t listed = 0;
    int ordered = 1;
    for (int k = 0; k < n; k++) {
        listed |= UINT32_C(1) << digits[k];
        ordered &= k == 0 || digits[k - 1] < digits[k];
    }
    if (ordered || dv_target_has_caches(&plan->target))
        return 1;
    int8_t *all = DV_NEW(&plan->arena, int8_t, o->n_vars);
    if (!plan->digits)
        plan->digits = DV_NEW(&plan->arena, const int8_t *, plan->ops->n_ops);
    if (!all || !plan->digits)
        return 0;
    memcpy(all, digits, (size_t)n);
    for (int8_t v = 0; v < o->n_vars; v++)
        if (!(listed >> v & 1))
            all[n++] = v;
    plan->digits[op] = all;
    return 1;
}

// Parses the slices of one op, such as `3: i 16, j 4`.
static dv_status read_slices(dv_plan *plan, dv_lexer *lx)
{
    char buf[48];
    int8_t digits[DV_MAX_VARS];
    uint32_t seen = 0;
    int n = 0;
    int64_t op = 0;
    dv_loc at = dv_lex_at(lx);
    DV_TRY(dv_lex_int(lx, &op, "the number of an op or '}'"));
    if (op >= plan->ops->n_ops)
        return dv_fail(lx->diag, DV_E_SHAPE, at,
                       "there is no op %" PRId64 ", the program has 0..%d", op,
                       (int)plan->ops->n_ops);
    const dv_op *o = &plan->ops->ops[op];
    int32_t sep = ':';
    do {
        DV_TRY(dv_lex_expect(lx, sep, "':' or ','"));
        sep = ',';
        int v = 0;
        while (v < o->n_vars && !dv_lex_is(lx, o->vars[v].name))
            v++;
        if (v == o->n_vars)
            return dv_fail(lx->diag, DV_E_NAME, dv_lex_at(lx),
                           "op %s has no variable %s", o->name,
                           dv_lex_show(lx, buf));
        if (seen >> v & 1)
            return dv_fail(lx->diag, DV_E_NAME, dv_lex_at(lx),
                           "op %s has slices of %s already", o->name,
                           o->vars[v].name);
        seen |= UINT32_C(1) << v;
        digits[n++] = (int8_t)v;
        DV_TRY(dv_lex(lx));
        at = dv_lex_at(lx);
        DV_TRY(dv_lex_int(lx, &plan->slices[op][v], "the length of a slice"));
        int64_t len = dv_var_len(o, v);
        if (plan->slices[op][v] < 1)
            return dv_fail(lx->diag, DV_E_SHAPE, at,
                           "a slice has at least 1 point");
        if (plan->slices[op][v] > len)
            return dv_fail(lx->diag, DV_E_SHAPE, at,
                           "a slice of %" PRId64 " point%s, %s has %" PRId64,
                           plan->slices[op][v],
                           DV_PLURAL(plan->slices[op][v], "", "s"),
                           o->vars[v].name, len);
    } while (lx->tok.kind == ',');
    return keep_digits(plan, (int32_t)op, digits, n) ? DV_OK
                                                     : dv_nomem(lx->diag);
}

dv_status dv_divide_read(dv_plan *plan, dv_lexer *lx)
{
    DV_TRY(dv_plan_whole_slices(plan, lx->diag));
    dv_token word = lx->tok;
    DV_TRY(
        dv_lex_expect(lx, DV_TOK_NAME, "how it was divided, such as 'best'"));
    uint32_t len = word.len;
    while (lx->tok.glued &&
           (lx->tok.kind == '+' || lx->tok.kind == DV_TOK_NAME)) {
        // The name of the planner may have a suffix, as in seed+cost: include
        // it.
        len = lx->tok.off + lx->tok.len - word.off;
        DV_TRY(dv_lex(lx));
    }
    plan->divide_method =
        dv_arena_copy(&plan->arena, lx->src->text + word.off, len);
    if (!plan->divide_method)
        return dv_nomem(lx->diag);
    DV_TRY(dv_lex_expect(lx, '{', "'{'"));
    while (lx->tok.kind != '}')
        DV_TRY(read_slices(plan, lx));
    return dv_lex(lx);
}
