// Chooses divisions together with scratchpad residency.
//
// dv_joint_follow: for each op, a division is considered that cuts the op in
// the same way as an operand is already distributed on the cores, and deals the
// tiles so that each core finds its part. It is taken if the predicted time is
// lower when operands found on the core cause no traffic.
//
//   d = x - m, 32 slices of its own choice:   x, m and d in main memory
//   cut as x is distributed by the op before: x resident, same 32 cores
#include "base/math.h"
#include "base/stop.h"
#include "divide/divide.h"
#include "plan/price.h"
#include "joint/joint.h"
#include <string.h>

typedef struct follower {
    dv_plan *plan;
    const dv_scratch_rules *rules;
    dv_arena *arena;
    // Per tensor: the op that defines it and the last op so far that reads it,
    // or -1.
    int32_t *def, *last_reader;
    // Per tensor: nonzero if some op updates it (overwrites a part of it).
    uint8_t *is_updated;
    int64_t capacity;
    const dv_divide_space *space; // of the op
    int32_t op;
    int always; // 1 if ops follow even where that is not cheaper
} follower;

// Finds the view (which core holds which part) of a tensor before the op.
// Returns 0 if it is not resident in the scratchpads.
static int lies(const follower *f, int32_t tensor, dv_view *v)
{
    int32_t from = f->def[tensor];
    const dv_plan *plan = f->plan;
    if (f->is_updated[tensor])
        return 0;
    if (from < 0 && f->rules->clones)
        from = f->last_reader[tensor];
    if (from < 0 || plan->ops->ops[from].is_extern)
        return 0;
    return !dv_view_make_whole(v, plan, from,
                               dv_access_of(&plan->ops->ops[from], tensor)) &&
           dv_view_bytes(v, &plan->layouts[tensor]) <= f->capacity;
}

void dv_joint_splits(const dv_plan *plan, int32_t op, dv_splits *d)
{
    const dv_op *o = &plan->ops->ops[op];
    for (int v = 0; v < DV_MAX_VARS; v++)
        d->n[v] = 1;
    for (int v = 0; v < o->n_vars; v++)
        d->n[v] = dv_plan_n_slices(plan, op, v);
}

int dv_joint_spans_fit(const dv_plan *plan, const dv_divide_space *s,
                       const dv_splits *d)
{
    int64_t limit = plan->target.span_limit_bytes;
    for (int k = 0; k < s->n_tensors && limit; k++)
        if (dv_span(s, k, d, 0) > limit)
            return 0;
    return 1;
}

// Returns whether all accumulators of partial sums, of ops that are in a loop
// over tiles with other ops, are kept in scratchpads. *relies is set to 1 if
// there is such an op.
static int sums_hold(const dv_plan *plan, int *relies)
{
    int32_t sums = 0;
    for (int32_t g = 0; g < plan->n_groups; g++)
        for (int32_t i = plan->groups[g].first_op; i < plan->groups[g].end_op;
             i++)
            sums += plan->groups[g].end_op - plan->groups[g].first_op > 1 &&
                    dv_plan_splits_reduction(plan, i);
    *relies |= sums > 0;
    for (int32_t i = 0; i < plan->scratch.n_homes; i++)
        sums -= plan->scratch.homes[i].fill == DV_FILL_SUMMED;
    return sums == 0;
}

int dv_joint_homes_hold(const dv_plan *plan, dv_divide_space *const *spaces,
                        int *relies)
{
    int64_t limit = plan->target.span_limit_bytes;
    *relies = 0;
    if (!sums_hold(plan, relies))
        return 0;
    for (int32_t i = 0; i < plan->ops->n_ops && limit; i++) {
        const dv_op *o = &plan->ops->ops[i];
        dv_splits d;
        if (o->is_extern)
            continue;
        dv_joint_splits(plan, i, &d);
        for (int k = 0; k <= o->n_reads; k++) {
            int32_t home = dv_home_of(plan, i, k);
            const dv_home *h = home < 0 ? NULL : &plan->scratch.homes[home];
            if (dv_span(spaces[i], k, &d, 0) <= limit)
                continue;
            if (!h || (k < o->n_reads ? h->fill == DV_FILL_LOADED : h->stored))
                return 0;
            *relies = 1;
        }
    }
    return 1;
}

// Relative difference of predicted times that may be due to rounding.
static const double rounding = 1e-9;

int dv_joint_no_higher(const dv_joint_price *a, const dv_joint_price *b)
{
    return a->us <= b->us * (1 + rounding) && a->bytes <= b->bytes;
}

int dv_joint_cheaper(const dv_joint_price *a, const dv_joint_price *b)
{
    if (a->us < b->us * (1 - rounding))
        return 1;
    return a->us <= b->us * (1 + rounding) && a->bytes < b->bytes;
}

void dv_joint_drop_traffic(dv_cost_work *w, const dv_divide_space *s, int k,
                           const dv_splits *d, double rounds)
{
    w->memory_bytes -= dv_divide_transferred(s, k, d);
    w->all_bytes -= dv_divide_transferred_by_all(s, k, d) / rounds;
    w->passed_bytes -= dv_divide_passed(s, k, d) / rounds;
}

// Returns the predicted time of the op with its current division, and the bytes
// that all cores transfer, excluding operands that are resident in the
// scratchpads. *missing becomes a bit mask of the reads that are not.
static dv_joint_price price(const follower *f, uint32_t *missing)
{
    const dv_plan *plan = f->plan;
    const dv_op *o = &plan->ops->ops[f->op];
    dv_splits d;
    dv_joint_splits(plan, f->op, &d);
    dv_cost_work w = dv_divide_work(f->space, &plan->target, &d);
    int64_t tiles = dv_splits_cores(f->space, &d);
    double rounds = (double)dv_ceil_div(tiles, plan->target.cores);
    *missing = 0;
    for (int r = 0; r < o->n_reads; r++) {
        dv_view has, needs;
        int resident = lies(f, o->reads[r].tensor, &has);
        if (resident && !dv_view_make_part(&needs, plan, f->op, r) &&
            !needs.group->loops && dv_view_holds(&has, &needs)) {
            dv_joint_drop_traffic(&w, f->space, r, &d, rounds);
        } else if (resident && has.is_write && f->op != has.op &&
                   dv_can_pass(plan, f->rules, f->op, r)) {
            dv_joint_drop_traffic(&w, f->space, r, &d, rounds);
            w.passed_bytes += (double)dv_received_bytes(plan, f->op, r);
        } else {
            *missing |= 1u << r;
        }
    }
    if (!plan->ops->tensors[o->write.tensor].is_output && w.partials == 1)
        dv_joint_drop_traffic(&w, f->space, o->n_reads, &d, rounds);
    return (dv_joint_price){rounds * dv_cost_us(&plan->target, &w),
                            rounds * w.all_bytes};
}

// Cuts the op in the same way as the view `has` (which core holds which part)
// cuts the tensor of its read r. Returns 0 if that division is not legal.
static int cut_alike(const follower *f, int r, const dv_view *has)
{
    const dv_plan *plan = f->plan;
    const dv_op *o = &plan->ops->ops[f->op];
    dv_view needs;
    if (dv_view_make_whole(&needs, plan, f->op, r))
        return 0;
    for (int v = 0; v < o->n_vars; v++)
        plan->slices[f->op][v] = o->vars[v].end - o->vars[v].begin;
    for (int d = 0; d < needs.n_dims; d++)
        if (needs.var[d] >= 0 && has->var[d] >= 0)
            plan->slices[f->op][needs.var[d]] =
                plan->slices[has->op][has->var[d]];
    dv_splits s;
    dv_joint_splits(plan, f->op, &s);
    if (dv_splits_cores(f->space, &s) > plan->target.cores)
        return 0;
    for (int v = 0; v < o->n_vars; v++)
        if (s.n[v] > 1 && ((f->space->blocked >> v & 1) ||
                           plan->slices[f->op][v] % f->space->eps[v]))
            return 0;
    return dv_joint_spans_fit(plan, f->space, &s);
}

// Deals each core the tile of the op that reads the part of operand r that this
// core holds. Returns 1; 0 if some tile has no core; -1 when out of memory.
static int deal_like_operand(const follower *f, int r, const dv_view *has)
{
    const dv_plan *plan = f->plan;
    const dv_op *o = &plan->ops->ops[f->op];
    dv_group *g = &plan->groups[f->op];
    dv_view needs;
    int64_t tiles = dv_plan_n_tiles(plan, f->op), n = 0;
    dv_deal *deals = DV_NEW(&f->plan->arena, dv_deal, tiles);
    char *dealt = DV_NEW(f->arena, char, tiles);
    if (!deals || !dealt)
        return -1;
    dv_view_make_whole(&needs, plan, f->op, r);
    for (int64_t c = 0; c < plan->target.cores; c++) {
        int64_t lo[DV_MAX_DIMS], hi[DV_MAX_DIMS], slot[DV_MAX_VARS] = {0};
        int64_t tile = 0;
        if (!dv_view_box(has, c, 0, lo, hi))
            continue;
        for (int d = 0; d < needs.n_dims; d++)
            if (needs.var[d] >= 0)
                slot[needs.var[d]] = lo[d] / plan->slices[f->op][needs.var[d]];
        for (int v = 0; v < o->n_vars; v++)
            tile = tile * dv_plan_n_slices(plan, f->op, v) + slot[v];
        if (tile < tiles && !dealt[tile]) {
            dealt[tile] = 1;
            deals[n++] = (dv_deal){c, tile, 1};
        }
    }
    if (n < tiles)
        return 0;
    g->deals = deals;
    g->n_deals = (int32_t)n;
    dv_group_note_deals(g);
    g->n_tiles = tiles;
    return 1;
}

typedef struct choice {
    int64_t slices[DV_MAX_VARS];
    dv_group group;
    dv_joint_price price;
} choice;

static void note(const follower *f, choice *c)
{
    memcpy(c->slices, f->plan->slices[f->op],
           (size_t)f->space->n_vars * sizeof *c->slices);
    uint32_t missing;
    c->group = f->plan->groups[f->op];
    c->price = price(f, &missing);
}

static void take(const follower *f, const choice *c)
{
    memcpy(f->plan->slices[f->op], c->slices,
           (size_t)f->space->n_vars * sizeof *c->slices);
    f->plan->groups[f->op] = c->group;
}

static int follow_op(follower *f)
{
    const dv_op *o = &f->plan->ops->ops[f->op];
    choice own, best;
    note(f, &own);
    best = own;
    for (int r = 0; r < o->n_reads; r++) {
        dv_view has;
        choice next;
        if (!lies(f, o->reads[r].tensor, &has))
            continue;
        int dealt = cut_alike(f, r, &has) ? deal_like_operand(f, r, &has) : 0;
        if (dealt < 0)
            return 0;
        if (dealt) {
            note(f, &next);
            if ((f->always && best.price.us == own.price.us) ||
                dv_joint_cheaper(&next.price, &best.price))
                best = next;
        }
        take(f, &own);
    }
    take(f, &best);
    return 1;
}

static int look_up(follower *f)
{
    const dv_program *p = f->plan->ops;
    f->def = DV_NEW(f->arena, int32_t, p->n_tensors);
    f->last_reader = DV_NEW(f->arena, int32_t, p->n_tensors);
    f->is_updated = DV_NEW(f->arena, uint8_t, p->n_tensors);
    if (!f->def || !f->last_reader || !f->is_updated)
        return 0;
    for (int32_t t = 0; t < p->n_tensors; t++)
        f->def[t] = f->last_reader[t] = -1;
    for (int32_t i = 0; i < p->n_ops; i++)
        f->is_updated[p->ops[i].write.tensor] |= p->ops[i].update;
    return 1;
}

// Records the op's write and reads (defining op, last reader) for the decisions
// on later ops.
static void pass_op(const follower *f)
{
    const dv_op *o = &f->plan->ops->ops[f->op];
    for (int r = 0; r < o->n_reads; r++)
        f->last_reader[o->reads[r].tensor] = f->op;
    if (!o->update)
        f->def[o->write.tensor] = f->op;
}

dv_divide_space **dv_joint_spaces(const dv_plan *plan, dv_arena *arena)
{
    dv_divide_space **s = DV_NEW(arena, dv_divide_space *, plan->ops->n_ops);
    for (int32_t i = 0; s && i < plan->ops->n_ops; i++) {
        const dv_op *o = &plan->ops->ops[i];
        int32_t like = plan->divisions[i].like;
        if (o->is_extern)
            continue;
        s[i] = like < i ? s[like] : DV_NEW(arena, dv_divide_space, 1);
        if (!s[i] ||
            (like == i && !dv_divide_space_init(s[i], &plan->target, plan->ops,
                                                o, plan->layouts, arena)))
            return NULL;
        s[i]->shares = plan->shares;
    }
    return s;
}

dv_status dv_joint_follow(dv_plan *plan, const dv_scratch_rules *rules,
                          dv_divide_space *const *spaces, int always,
                          dv_arena *arena, dv_diag *diag)
{
    follower f = {.plan = plan,
                  .rules = rules,
                  .always = always,
                  .arena = arena,
                  .capacity = plan->scratch.capacity_bytes};
    int ok = look_up(&f);
    for (int32_t i = 0; ok && i < plan->ops->n_ops; i++) {
        const dv_op *o = &plan->ops->ops[i];
        f.op = i;
        f.space = spaces[i];
        if (!o->is_extern && !o->update && !plan->divisions[i].pinned)
            ok = follow_op(&f);
        pass_op(&f);
    }
    return ok ? DV_OK : dv_nomem(diag);
}

int dv_joint_estimate(dv_joint_price *out, dv_plan *plan,
                      const dv_scratch_rules *rules,
                      dv_divide_space *const *spaces,
                      const dv_joint_price *limit, dv_arena *arena)
{
    follower f = {.plan = plan,
                  .rules = rules,
                  .arena = arena,
                  .capacity = plan->scratch.capacity_bytes};
    const dv_program *p = plan->ops;
    *out = (dv_joint_price){0};
    uint8_t *stored = DV_NEW(arena, uint8_t, p->n_tensors);
    if (!stored || !look_up(&f))
        return 0;
    for (int32_t i = 0;
         i < p->n_ops && (!limit || dv_joint_no_higher(out, limit)); i++) {
        uint32_t missing;
        f.op = i;
        f.space = spaces[i];
        if (!p->ops[i].is_extern) {
            dv_joint_price x = price(&f, &missing);
            out->us += x.us;
            out->bytes += x.bytes;
            // A tensor that some op reads from main memory must be written
            // there, which costs traffic once.
            for (int r = 0; r < p->ops[i].n_reads; r++) {
                int32_t t = p->ops[i].reads[r].tensor;
                if (!(missing >> r & 1) || stored[t] || f.def[t] < 0)
                    continue;
                stored[t] = 1;
                out->bytes += (double)plan->layouts[t].bytes;
            }
        }
        pass_op(&f);
    }
    return 1;
}

dv_status dv_joint_assess(dv_joint_price *out, dv_plan *plan,
                          const dv_scratch_rules *rules, dv_arena *arena,
                          dv_diag *diag)
{
    dv_joint_trial *trial = NULL;
    DV_TRY(dv_stop_check(diag));
    if (rules->tried && !(trial = dv_joint_begin_trial(plan, arena)))
        return dv_nomem(diag);
    DV_TRY(dv_scratch_choose_homes(plan, rules, arena, diag));
    dv_price p = dv_plan_price(plan);
    *out = (dv_joint_price){p.total_us, p.memory_bytes};
    if (trial)
        dv_joint_end_trial(rules->tried, trial, out);
    return DV_OK;
}
