// The sequential executor, which follows the plan in order on the calling
// thread or in the simulator, and the walk over the groups of a plan.
#include "exec/state.h"
#include <string.h>

static void run_tile(dv_run *r, dv_strips *s, int32_t op, int64_t tile)
{
    const dv_op *o = &r->x->plan->ops->ops[op];
    dv_tile t;
    dv_plan_tile(&t, r->x->plan, op, tile);
    for (int v = 0; v < o->n_vars; v++) {
        // A reduced variable v may be cut into slices, one per tile. The tile
        // of the first slice computes the whole reduction, in the order of the
        // slices, so that no partial sums are stored; the tiles of the other
        // slices do nothing.
        if (o->vars[v].reduce && t.slot[v] > 0)
            return;
        if (o->vars[v].reduce)
            t.end[v] = o->vars[v].end;
    }
    dv_strips_run(s, t.begin, t.end);
}

// Makes `op` the current op and, before its first tile, takes the snapshot of
// the tensor that it both reads and overwrites.
static void start_op(dv_run *r, dv_strips *s, int32_t op, int first)
{
    s->k = &r->x->kernels[op];
    s->old = NULL;
    if (s->k->old_off < 0)
        return;
    int32_t t = s->k->op->write.tensor;
    char *old = (char *)r->snapshot + s->k->old_off;
    s->old = old;
    if (first)
        memcpy(old, r->data[t],
               (size_t)dv_tensor_bytes(&r->x->plan->ops->tensors[t]));
}

// Reports the progress of the run when the fraction `share` of the current tile
// is done.
static void tick(void *user, double share)
{
    const dv_run *r = user;
    r->progress(r->user, (r->done + share * r->tile_work) / r->x->total);
}

// Runs ops first_op..end_op of a group (ops that share one tile space), tile by
// tile, all of these ops for one tile before the next tile.
static dv_status run_tiles(dv_run *r, dv_strips *s, const dv_group *g,
                           int32_t first_op, int32_t end_op)
{
    int first = 1;
    for (int32_t d = 0; d < g->n_deals; d++) {
        const dv_deal *deal = &g->deals[d];
        for (int64_t i = 0; i < deal->n_tiles; i++) {
            for (int32_t op = first_op; op < end_op; op++) {
                start_op(r, s, op, first);
                r->tile_work = dv_op_work(s->k->op) / (double)g->n_tiles;
                s->tick = r->progress ? tick : NULL;
                s->user = r;
                if (dv_run_is_cancelled(r))
                    return DV_E_CANCELLED;
                run_tile(r, s, op, deal->first_tile + i);
                r->done += r->tile_work;
                if (s->status != DV_OK)
                    return s->status;
            }
            first = 0;
        }
    }
    return DV_OK;
}

// Runs a group (ops that share one tile space). If a reduction is split over
// tiles, the ops run one by one: run_tile computes the whole reduction in its
// first tile and therefore reads elements that earlier ops compute in other
// tiles.
static dv_status run_group(dv_run *r, dv_strips *s, const dv_group *g)
{
    if (!dv_group_splits_reduction(r->x->plan,
                                   (int32_t)(g - r->x->plan->groups)))
        return run_tiles(r, s, g, g->first_op, g->end_op);
    for (int32_t op = g->first_op; op < g->end_op; op++)
        DV_TRY(run_tiles(r, s, g, op, op + 1));
    return DV_OK;
}

static dv_status simulate_group(dv_run *r, dv_strips *s, const dv_group *g)
{
    DV_TRY(dv_sim_group(r->sim, g, s));
    for (int32_t op = g->first_op; op < g->end_op; op++)
        r->done += dv_op_work(r->x->kernels[op].op);
    return DV_OK;
}

static dv_status run_sequentially(dv_run *r, dv_strips *s, int32_t group)
{
    const dv_group *g = &r->x->plan->groups[group];
    if (dv_run_is_cancelled(r))
        return DV_E_CANCELLED;
    DV_TRY(r->sim ? simulate_group(r, s, g) : run_group(r, s, g));
    if (r->progress)
        r->progress(r->user, r->done / r->x->total);
    if (r->hooks.at_extern && r->x->plan->ops->ops[g->first_op].is_extern)
        r->hook_status = r->hooks.at_extern(r->hooks.user, g->first_op);
    return r->hook_status;
}

static dv_status end_round(dv_run *r, int32_t repeat, int64_t round)
{
    if (r->hooks.after_round)
        r->hook_status = r->hooks.after_round(r->hooks.user, repeat, round);
    return r->hook_status;
}

// Runs all groups in order on the calling thread.
static dv_status run_all(dv_run *r, dv_strips *s)
{
    dv_walk w;
    dv_walk_step step;
    dv_walk_begin(&w, r->x->plan, r->from_repeat, r->from_round);
    r->from_repeat = -1;
    while ((step = dv_walk_next(&w)) != DV_WALK_END)
        DV_TRY(step == DV_WALK_GROUP ? run_sequentially(r, s, w.group)
                                     : end_round(r, w.repeat, w.round));
    return DV_OK;
}

void dv_walk_begin(dv_walk *w, const dv_plan *plan, int32_t repeat,
                   int64_t round)
{
    w->plan = plan;
    w->depth = 0;
    w->next = w->next_repeat = 0;
    w->from_round = 0;
    w->once = 0;
    if (repeat < 0)
        return;
    w->next_repeat = repeat;
    w->next = dv_group_of(plan, plan->ops->repeats[repeat].first_op);
    w->from_round = round;
}

// Returns the first op of the next group, or more than any op has at the end.
static int32_t next_op(const dv_walk *w)
{
    return w->next < w->plan->n_groups ? w->plan->groups[w->next].first_op
                                       : INT32_MAX;
}

// Ends an iteration of the innermost repeat (loop) that is being walked.
// Returns whether it is an outermost one.
static int end_iteration(dv_walk *w)
{
    const dv_repeat *all = w->plan->ops->repeats;
    int outermost = w->depth == 1;
    w->repeat = w->around[w->depth - 1].repeat;
    w->round = ++w->around[w->depth - 1].round;
    if (w->round >= all[w->repeat].times) {
        w->depth--;
    } else {
        w->next = w->around[w->depth - 1].group;
        w->next_repeat = w->repeat + 1;
    }
    return outermost;
}

// Begins the repeat that begins with the next group, unless it has no
// iterations, in which case its groups are skipped.
static void begin_repeat(dv_walk *w)
{
    const dv_repeat *r = &w->plan->ops->repeats[w->next_repeat];
    if (w->from_round >= r->times) {
        while (next_op(w) < r->end_op)
            w->next++;
        w->next_repeat++;
        while (w->next_repeat < w->plan->ops->n_repeats &&
               w->plan->ops->repeats[w->next_repeat].first_op < r->end_op)
            w->next_repeat++;
    } else {
        w->around[w->depth].repeat = w->next_repeat++;
        w->around[w->depth].group = w->next;
        w->around[w->depth++].round = w->from_round;
    }
    w->from_round = 0;
}

dv_walk_step dv_walk_next(dv_walk *w)
{
    const dv_program *p = w->plan->ops;
    for (;;) {
        int32_t op = next_op(w);
        if (w->depth > 0 &&
            op >= p->repeats[w->around[w->depth - 1].repeat].end_op) {
            if (end_iteration(w))
                return DV_WALK_ROUND;
            continue;
        }
        while (w->next_repeat < p->n_repeats &&
               p->repeats[w->next_repeat].first_op < op)
            w->next_repeat++;
        if (w->next_repeat < p->n_repeats &&
            p->repeats[w->next_repeat].first_op == op) {
            begin_repeat(w);
            continue;
        }
        w->group = w->next;
        if (w->next == w->plan->n_groups)
            return DV_WALK_END;
        w->next++;
        if (w->once && w->plan->groups[w->group].once != (w->once > 0))
            continue;
        return DV_WALK_GROUP;
    }
}

dv_status dv_sequential_run(dv_run *r, dv_diag *diag)
{
    dv_strips s = r->threads[0].strips;
    s.data = r->data;
    s.diag = diag;
    r->hook_status = DV_OK;
    if (r->sim)
        DV_TRY(dv_sim_load(r->sim, r->data, diag));
    DV_TRY(run_all(r, &s));
    if (r->sim)
        dv_sim_store(r->sim, r->data);
    return DV_OK;
}
