#include "harness/random.h"
#include <string.h>

// -- Machines ----------------------------------------------------------------

// Places the cores on a grid that has a few more places, the rest of which are
// holes.
static void random_grid(rng *r, dv_target *t)
{
    int64_t cores = t->cores, cols = 1 + rng_below(r, 9);
    int64_t rows = (cores + rng_below(r, 12) + cols - 1) / cols;
    t->core_grid = (dv_core_grid){cols, rows};
    t->cores = cols * rows;
    while (t->cores > cores) {
        int64_t x, y, wide = 1;
        dv_target_core_position(t, rng_below(r, t->cores), &x, &y);
        while (wide < t->cores - cores && rng_percent(r, 40) &&
               dv_target_core(t, x + wide, y) >= 0)
            wide++;
        dv_core_rect hole = {(int32_t)x, (int32_t)y, (int32_t)(x + wide - 1),
                             (int32_t)y};
        dv_target_restrict(t, NULL, 0, &hole, 1, DV_NOWHERE, NULL);
    }
}

void random_target(rng *r, dv_target *t)
{
    static const int64_t tiles[] = {0, 0, 4, 32};
    dv_target_init(t, "random");
    t->cores = 1 + rng_below(r, 64);
    t->stick_bytes = (int64_t)32 << rng_below(r, 4);
    t->sticks = rng_percent(r, 70);
    t->grain = rng_percent(r, 50) ? DV_GRAIN_PRIMITIVE : DV_GRAIN_FUSED;
    t->span_limit_bytes =
        rng_percent(r, 50) ? 0 : t->stick_bytes << rng_below(r, 8);
    t->ring = rng_percent(r, 50);
    t->ring_bandwidth_bytes_per_s = t->ring ? 1e9 : 0;
    t->memory_bandwidth_bytes_per_s = rng_percent(r, 50) ? 1e10 : 0;
    t->scratch_bytes = rng_percent(r, 30) ? 0 : (int64_t)256 << rng_below(r, 8);
    t->scratch_align_bytes = (int64_t)1 << rng_below(r, 8);
    if (!t->sticks)
        t->tile_rows = t->tile_cols = tiles[rng_below(r, 4)];
    rng own = {r->state ^ 0x9621d};
    rng types = {r->state ^ 0x57a7e};
    t->intermediates_stored = rng_percent(&types, 50);
    if (rng_percent(&own, 60))
        random_grid(&own, t);
    rng times = {r->state ^ 0x71e5};
    t->core_bandwidth_bytes_per_s = rng_percent(&times, 50) ? 3e9 : 0;
    t->launch_time_ns = (double)rng_below(&times, 3000);
    t->sync_time_ns = (double)rng_below(&times, 1000);
    t->transfer_latency_ns = (double)rng_below(&times, 500);
}

// -- Divisions ---------------------------------------------------------------

int64_t random_slices(rng *r, dv_plan *plan, int32_t op, int parts)
{
    const dv_op *o = &plan->ops->ops[op];
    int whole = o->is_extern || dv_access_is_indirect(&o->write);
    for (int v = 0; v < o->n_vars && !whole; v++) {
        int64_t len = o->vars[v].end - o->vars[v].begin;
        if (!o->vars[v].reduce || parts)
            plan->slices[op][v] =
                rng_percent(r, 55) ? 1 + rng_below(r, len) : len;
    }
    if (plan->schedule.ops) {
        plan->schedule.ops[op].n_tiles = 0;
        plan->schedule.shared_bytes = -1; // what the plan said is not true now
    }
    return dv_plan_n_tiles(plan, op);
}

void random_deal(rng *r, dv_plan *plan, dv_group *g, int64_t n)
{
    g->n_tiles = n;
    g->n_deals = 0;
    g->deals = DV_NEW(&plan->arena, dv_deal, n);
    for (int64_t at = 0; at < n;) {
        int64_t len = rng_percent(r, 50) ? 1 : 1 + rng_below(r, n - at);
        g->deals[g->n_deals++] =
            (dv_deal){rng_below(r, plan->target.cores), at, len};
        at += len;
    }
    for (int32_t i = g->n_deals - 1; i > 0; i--) {
        int32_t k = (int32_t)rng_below(r, i + 1);
        dv_deal t = g->deals[i];
        g->deals[i] = g->deals[k];
        g->deals[k] = t;
    }
    dv_group_note_deals(g);
}

void random_merge(rng *r, dv_plan *plan)
{
    for (int32_t i = 0; i + 1 < plan->n_groups;) {
        dv_group *a = &plan->groups[i], was = *a, next = a[1];
        if (a->n_tiles != next.n_tiles || a->once != next.once ||
            !rng_percent(r, 85)) {
            i++;
            continue;
        }
        a->end_op = next.end_op;
        size_t rest = (size_t)(plan->n_groups - i - 2) * sizeof *a;
        memmove(a + 1, a + 2, rest);
        plan->n_groups--;
        if (dv_plan_check(plan, NULL) == DV_OK)
            continue;
        memmove(a + 2, a + 1, rest);
        plan->n_groups++;
        a[0] = was;
        a[1] = next;
        i++;
    }
}
