#include "plan/price.h"
#include "base/math.h"
#include "plan/cost.h"
#include "plan/tiles.h"
#include "plan/traffic.h"
#include <math.h>

enum { CORES_AT_ONCE = DV_CORES_AT_ONCE };

static int64_t points_of(const dv_op *op, const dv_tile *t)
{
    int64_t n = 1;
    for (int v = 0; v < op->n_vars; v++)
        n *= t->end[v] - t->begin[v];
    return n;
}

void dv_add_core_points(const dv_plan *plan, int32_t group, int32_t op,
                        int64_t first, int64_t *points)
{
    const dv_op *o = &plan->ops->ops[op];
    const dv_group *g = &plan->groups[group];
    const dv_group_grid *grid = dv_grid_of(plan, group);
    dv_tile t;
    for (int32_t d = 0; d < g->n_deals && !grid; d++) {
        int64_t core = g->deals[d].core - first;
        for (int64_t k = 0; k < g->deals[d].n_tiles; k++) {
            if (core < 0 || core >= CORES_AT_ONCE)
                break;
            dv_plan_tile(&t, plan, op, g->deals[d].first_tile + k);
            points[core] += points_of(o, &t);
        }
    }
    for (int32_t i = 0; grid && i < grid->n_ranges; i++) {
        const dv_tile_range *r = &grid->ranges[i];
        int64_t core = dv_grid_core_number(plan, r) - first, bmn[3];
        dv_order order = dv_grid_order(grid);
        for (int64_t k = 0; k < dv_range_tiles(grid, r); k++) {
            if (core < 0 || core >= CORES_AT_ONCE)
                break;
            dv_range_tile(grid, &order, r, k, bmn);
            dv_grid_box(&t, plan, grid, bmn, r->k0, r->k1);
            points[core] += points_of(o, &t);
        }
    }
}

// Returns whether no core of a group has more than one tile.
static int one_tile_per_core(const dv_plan *plan, int32_t group)
{
    const dv_group *g = &plan->groups[group];
    uint64_t seen[CORES_AT_ONCE / 64] = {0};
    if (dv_grid_of(plan, group))
        return 0;
    for (int32_t d = 0; d < g->n_deals; d++) {
        int64_t core = g->deals[d].core;
        if (g->deals[d].n_tiles > 1 || core >= CORES_AT_ONCE ||
            seen[core / 64] >> core % 64 & 1)
            return 0;
        seen[core / 64] |= (uint64_t)1 << core % 64;
    }
    return 1;
}

// Returns the number of points (iterations) of an op that the core with most of
// them computes; `single` says that no core has more than one tile.
static int64_t most_points(const dv_plan *plan, int32_t group, int32_t op,
                           int single)
{
    int64_t most = 0;
    dv_tile largest;
    if (single) {
        // Tile 0 is the largest: no slice is longer than the first one of its
        // variable.
        dv_plan_tile(&largest, plan, op, 0);
        return points_of(&plan->ops->ops[op], &largest);
    }
    for (int64_t c = 0; c < plan->target.cores; c += CORES_AT_ONCE) {
        int64_t points[CORES_AT_ONCE] = {0};
        dv_add_core_points(plan, group, op, c, points);
        for (int i = 0; i < CORES_AT_ONCE; i++)
            most = dv_max_i64(most, points[i]);
    }
    return most;
}

// Returns the main memory traffic of the core that has the most in a group.
static int64_t most_bytes(const dv_plan *plan, int32_t group)
{
    const dv_group *g = &plan->groups[group];
    int64_t most = 0;
    for (int64_t c = 0; c < plan->target.cores; c += CORES_AT_ONCE) {
        int64_t bytes[CORES_AT_ONCE] = {0};
        for (int32_t op = g->first_op; op < g->end_op; op++)
            dv_op_traffic_by_core(plan, group, op, c, CORES_AT_ONCE, bytes);
        for (int i = 0; i < CORES_AT_ONCE; i++)
            most = dv_max_i64(most, bytes[i]);
    }
    return most;
}

// Returns whether more than one core works on a group.
static int on_several_cores(const dv_plan *plan, int32_t group)
{
    const dv_group *g = &plan->groups[group];
    const dv_group_grid *grid = dv_grid_of(plan, group);
    int32_t n = grid ? grid->n_ranges : g->n_deals;
    int64_t only = -1;
    for (int32_t i = 0; i < n; i++) {
        if (!(grid ? dv_range_tiles(grid, &grid->ranges[i])
                   : g->deals[i].n_tiles))
            continue;
        int64_t core = grid ? dv_grid_core_number(plan, &grid->ranges[i])
                            : g->deals[i].core;
        if (only >= 0 && core != only)
            return 1;
        only = core;
    }
    return 0;
}

// Returns whether the limit on what one core can draw of main memory can make
// a group slower than the bandwidth that all cores share.
static int core_can_limit(const dv_target *t)
{
    return dv_cost_core_rate(t) < dv_cost_shared_rate(t);
}

// Counts the work of one op of a group, without core_bytes and syncs; `single`
// says that no core has more than one tile.
static dv_group_work op_work(const dv_plan *plan, int32_t group, int32_t i,
                             int single)
{
    const dv_scratch *s = &plan->scratch;
    const dv_op *op = &plan->ops->ops[i];
    dv_traffic moved = dv_op_load(plan, group, i);
    dv_group_work w = {.memory_bytes = dv_traffic_bytes(&moved),
                       .link_bytes =
                           dv_add_most_i64(moved.link_bytes, moved.pass_bytes),
                       .launches = 1};
    for (int32_t k = s->fill_at ? s->fill_at[i] : 0;
         s->fill_at && k < s->fill_at[i + 1]; k++)
        w.transfers += dv_home_is_transferred(&s->homes[s->fill_order[k]]);
    if (!op->is_extern)
        *(dv_op_kind(op) == DV_KIND_CONTRACTION ? &w.macs : &w.ops) =
            most_points(plan, group, i, single);
    return w;
}

dv_group_work dv_op_work_of(const dv_plan *plan, int32_t group, int32_t op)
{
    return op_work(plan, group, op, one_tile_per_core(plan, group));
}

dv_group_work dv_group_work_of(const dv_plan *plan, int32_t group)
{
    const dv_group *g = &plan->groups[group];
    int single = one_tile_per_core(plan, group);
    dv_group_work w = {.syncs = on_several_cores(plan, group)};
    for (int32_t i = g->first_op; i < g->end_op; i++) {
        dv_group_work of = op_work(plan, group, i, single);
        w.memory_bytes = dv_add_most_i64(w.memory_bytes, of.memory_bytes);
        w.link_bytes = dv_add_most_i64(w.link_bytes, of.link_bytes);
        w.macs = dv_add_most_i64(w.macs, of.macs);
        w.ops = dv_add_most_i64(w.ops, of.ops);
        w.launches += of.launches;
        w.transfers += of.transfers;
    }
    if (core_can_limit(&plan->target))
        w.core_bytes = most_bytes(plan, group);
    return w;
}

static dv_limit limit_of(const dv_price *p)
{
    return p->ring_us > fmax(p->compute_us, p->memory_us) ? DV_LIMIT_RING
           : p->memory_us > p->compute_us                 ? DV_LIMIT_MEMORY
                                                          : DV_LIMIT_COMPUTE;
}

dv_price dv_price_of(const dv_target *t, const dv_group_work *w)
{
    dv_cost_work work = {.macs = (double)w->macs,
                         .ops = (double)w->ops,
                         .memory_bytes = (double)w->core_bytes,
                         .all_bytes = (double)w->memory_bytes};
    double ring_bytes = (double)w->link_bytes;
    // Without a ring of known bandwidth, partial results are written to main
    // memory and read back.
    if (!t->ring || t->ring_bandwidth_bytes_per_s <= 0)
        work.all_bytes += 2 * ring_bytes;
    dv_price p = {.compute_us = dv_cost_compute_us(t, &work),
                  .memory_us = dv_cost_memory_us(t, &work),
                  .ring_us = dv_cost_ring_us(t, ring_bytes),
                  .memory_bytes = (double)w->memory_bytes};
    p.launch_us = ((double)w->launches * t->launch_time_ns +
                   (double)w->syncs * t->sync_time_ns +
                   (double)w->transfers * t->transfer_latency_ns) /
                  1e3;
    p.limit = limit_of(&p);
    p.total_us = fmax(fmax(p.compute_us, p.memory_us), p.ring_us) + p.launch_us;
    return p;
}

dv_price dv_group_price(const dv_plan *plan, int32_t group)
{
    dv_group_work w = dv_group_work_of(plan, group);
    return dv_price_of(&plan->target, &w);
}

double dv_group_times(const dv_plan *plan, int32_t group)
{
    int32_t op = plan->groups[group].first_op;
    double times = 1;
    for (int32_t i = 0; i < plan->ops->n_repeats; i++) {
        const dv_repeat *r = &plan->ops->repeats[i];
        if (op >= r->first_op && op < r->end_op)
            times *= (double)r->times;
    }
    return times;
}

void dv_price_add(dv_price *sum, const dv_price *group, double times)
{
    sum->total_us += times * group->total_us;
    sum->compute_us += times * group->compute_us;
    sum->memory_us += times * group->memory_us;
    sum->ring_us += times * group->ring_us;
    sum->launch_us += times * group->launch_us;
    sum->memory_bytes += times * group->memory_bytes;
    sum->limit = limit_of(sum);
}

dv_price dv_plan_price(const dv_plan *plan)
{
    dv_price sum = {0};
    for (int32_t g = 0; g < plan->n_groups; g++) {
        dv_price p = dv_group_price(plan, g);
        dv_price_add(&sum, &p, dv_group_times(plan, g));
    }
    return sum;
}

int dv_plan_has_price(const dv_plan *plan)
{
    return plan->facts & DV_FACT_GROUPED && plan->n_groups > 0 &&
           !dv_target_has_caches(&plan->target);
}

void dv_price_print(dv_text *out, const dv_price *p)
{
    dv_put(out, "%.4g us: compute %.4g, memory %.4g, ring %.4g, launch %.4g",
           p->total_us, p->compute_us, p->memory_us, p->ring_us, p->launch_us);
}

double dv_plan_least_us(const dv_plan *plan)
{
    const dv_program *p = plan->ops;
    const dv_target *t = &plan->target;
    dv_cost_work w = {.all_bytes = (double)dv_plan_least_bytes(plan)};
    double launches = 0;
    for (int32_t g = 0; g < plan->n_groups; g++) {
        double times = dv_group_times(plan, g);
        for (int32_t i = plan->groups[g].first_op; i < plan->groups[g].end_op;
             i++) {
            const dv_op *o = &p->ops[i];
            double points = 1;
            launches += times;
            for (int v = 0; v < o->n_vars; v++)
                points *= (double)dv_var_len(o, v);
            if (!o->is_extern)
                *(dv_op_kind(o) == DV_KIND_CONTRACTION ? &w.macs : &w.ops) +=
                    times * points / (double)t->cores;
        }
    }
    return fmax(dv_cost_compute_us(t, &w), dv_cost_memory_us(t, &w)) +
           launches * t->launch_time_ns / 1e3;
}

const char *dv_limit_name(dv_limit limit)
{
    return limit == DV_LIMIT_RING     ? "ring"
           : limit == DV_LIMIT_MEMORY ? "memory"
                                      : "compute";
}
