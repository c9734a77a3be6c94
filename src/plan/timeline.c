#include "plan/timeline.h"
#include "base/json.h"
#include "plan/tiles.h"
#include <math.h>

// Returns the main-memory bytes of a group or an op; the memory time of a group
// is divided among its ops in proportion to them. Without a ring, partial
// results are written to main memory and read back.
static double bytes_of(const dv_target *t, const dv_group_work *w)
{
    int has_ring = t->ring && t->ring_bandwidth_bytes_per_s > 0;
    return (double)w->memory_bytes + (has_ring ? 0 : 2 * (double)w->link_bytes);
}

// Sets op_us[] to the predicted time of each op of a group in one run, without
// time in which cores wait. Returns the sum.
static double predict_ops(const dv_plan *plan, int32_t group, double *op_us)
{
    const dv_group *g = &plan->groups[group];
    const dv_target *t = &plan->target;
    dv_group_work all = dv_group_work_of(plan, group);
    dv_price p = dv_price_of(t, &all);
    double sum = 0, bytes = bytes_of(t, &all);
    for (int32_t i = g->first_op; i < g->end_op; i++) {
        dv_group_work w = dv_op_work_of(plan, group, i);
        dv_price own = dv_price_of(t, &w);
        double us = p.limit == DV_LIMIT_RING      ? own.ring_us
                    : p.limit == DV_LIMIT_COMPUTE ? own.compute_us
                    : bytes > 0 ? p.memory_us * bytes_of(t, &w) / bytes
                                : 0;
        op_us[i - g->first_op] = us + own.launch_us;
        sum += op_us[i - g->first_op];
    }
    return sum;
}

// Sets the time of each op to the cost that pass divide estimated for it, for
// plans without a predicted time. Returns the sum.
static double estimate_ops(const dv_plan *plan, int32_t group, double *op_us)
{
    const dv_group *g = &plan->groups[group];
    double sum = 0;
    for (int32_t i = g->first_op; i < g->end_op; i++)
        sum += op_us[i - g->first_op] = plan->divisions[i].cost_us;
    return sum;
}

static void count_tiles(const dv_plan *plan, int32_t group, int64_t first,
                        int64_t *tiles)
{
    const dv_group *g = &plan->groups[group];
    const dv_group_grid *grid = dv_grid_of(plan, group);
    int32_t n = grid ? grid->n_ranges : g->n_deals;
    for (int32_t i = 0; i < n; i++) {
        int64_t core = grid ? dv_grid_core_number(plan, &grid->ranges[i])
                            : g->deals[i].core;
        if (core >= first && core < first + DV_CORES_AT_ONCE)
            tiles[core - first] += grid ? dv_range_tiles(grid, &grid->ranges[i])
                                        : g->deals[i].n_tiles;
    }
}

// Computes the time that DV_CORES_AT_ONCE cores, beginning with `first`, would
// be busy with a group, up to a factor that all cores have in common.
static void core_times(const dv_plan *plan, int32_t group, int64_t first,
                       const double *op_us, double *times)
{
    const dv_group *g = &plan->groups[group];
    for (int32_t i = g->first_op; i < g->end_op; i++) {
        int64_t points[DV_CORES_AT_ONCE] = {0};
        double all = dv_op_points_double(&plan->ops->ops[i], UINT32_MAX);
        if (plan->ops->ops[i].is_extern) {
            times[0] += first == 0 ? op_us[i - g->first_op] / 1e6 : 0;
            continue;
        }
        dv_add_core_points(plan, group, i, first, points);
        for (int c = 0; c < DV_CORES_AT_ONCE && all > 0; c++)
            times[c] += op_us[i - g->first_op] * (double)points[c] / all;
    }
}

static int push_lane(dv_timeline *t, dv_group_span *s, int32_t *cap,
                     const dv_lane *lane)
{
    dv_lane *last = s->n_lanes ? &s->lanes[s->n_lanes - 1] : NULL;
    if (last && last->core + last->n_cores == lane->core &&
        last->tiles == lane->tiles && fabs(last->busy - lane->busy) < 1e-9) {
        last->n_cores++;
        return 1;
    }
    dv_lane *room = DV_PUSH(&t->arena, dv_lane, s->lanes, s->n_lanes, *cap);
    if (room)
        *room = *lane;
    return room != NULL;
}

// Makes the lanes of a group in the timeline: consecutive cores with equally
// much work share one lane. Returns 0 if out of memory.
static int make_lanes(dv_timeline *t, dv_group_span *s, const dv_plan *plan,
                      int32_t group)
{
    int32_t cap = 0;
    double most = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t first = 0; first < plan->target.cores;
             first += DV_CORES_AT_ONCE) {
            double times[DV_CORES_AT_ONCE] = {0};
            int64_t tiles[DV_CORES_AT_ONCE] = {0};
            count_tiles(plan, group, first, tiles);
            core_times(plan, group, first, s->op_us, times);
            for (int c = 0; c < DV_CORES_AT_ONCE; c++) {
                if (pass == 0)
                    most = fmax(most, times[c]);
                else if (tiles[c] &&
                         !push_lane(t, s, &cap,
                                    &(dv_lane){first + c, 1, tiles[c],
                                               most > 0 ? times[c] / most : 1}))
                    return 0;
            }
        }
    return 1;
}

int dv_timeline_make(dv_timeline *out, const dv_plan *plan,
                     const double *seconds)
{
    int predicted = dv_plan_has_price(plan);
    *out = (dv_timeline){0};
    if (!(plan->facts & DV_FACT_GROUPED) || (!predicted && !plan->divisions))
        return 1;
    out->groups = DV_NEW(&out->arena, dv_group_span, plan->n_groups + 1);
    if (!out->groups)
        return 0;
    out->basis = seconds ? "measured" : predicted ? "predicted" : "estimated";
    out->n_groups = plan->n_groups;
    double work = 0;
    for (int32_t i = 0; i < plan->n_groups; i++) {
        const dv_group *g = &plan->groups[i];
        dv_group_span *s = &out->groups[i];
        int32_t n = g->end_op - g->first_op;
        s->op_us = DV_NEW(&out->arena, double, n);
        if (!s->op_us)
            return 0;
        double sum = predicted ? predict_ops(plan, i, s->op_us)
                               : estimate_ops(plan, i, s->op_us);
        if (!make_lanes(out, s, plan, i))
            return 0;
        s->n_ops = n;
        s->times = dv_group_times(plan, i);
        double one = predicted ? dv_group_price(plan, i).total_us : sum;
        // A difference in the last bits is rounding, not time in which cores
        // wait.
        double wait = one - sum > 1e-9 * one ? one - sum : 0;
        s->start_us = out->us;
        s->us = seconds ? 1e6 * seconds[i] : s->times * one;
        double scale = one > 0 ? s->us / one : 0;
        s->wait_us = wait * scale;
        for (int32_t k = 0; k < n; k++)
            s->op_us[k] = sum > 0 ? s->op_us[k] * scale : s->us / n;
        for (int32_t k = 0; k < s->n_lanes; k++)
            work += s->lanes[k].busy * (double)s->lanes[k].n_cores *
                    (s->us - s->wait_us);
        out->us += s->us;
    }
    double all = out->us * (double)plan->target.cores;
    out->busy = all > 0 ? work / all : 0;
    return 1;
}

void dv_timeline_json(dv_json *j, const char *key, const dv_timeline *t)
{
    dv_json_open(j, key, '{');
    DV_JSON_FIELDS(j, DV_F("basis", t->basis), DV_F("us", t->us),
                   DV_F("cores_busy", t->busy));
    dv_json_open(j, "groups", '[');
    for (int32_t i = 0; i < t->n_groups; i++) {
        const dv_group_span *s = &t->groups[i];
        dv_json_open_flat(j, NULL, '{');
        DV_JSON_FIELDS(j, DV_F("start_us", s->start_us), DV_F("us", s->us),
                       DV_F("wait_us", s->wait_us), DV_F("times", s->times));
        dv_json_open_flat(j, "op_us", '[');
        for (int32_t n = 0; n < s->n_ops; n++)
            dv_json_double(j, NULL, s->op_us[n]);
        dv_json_close(j);
        dv_json_open_flat(j, "lanes", '[');
        for (int32_t n = 0; n < s->n_lanes; n++)
            DV_JSON_OBJECT(j, NULL, DV_F("core", s->lanes[n].core),
                           DV_F("cores", s->lanes[n].n_cores),
                           DV_F("tiles", s->lanes[n].tiles),
                           DV_F("busy", s->lanes[n].busy));
        dv_json_close(j);
        dv_json_close(j);
    }
    dv_json_close(j);
    dv_json_close(j);
}
