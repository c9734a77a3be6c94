// dv_fuse: reads the options, runs the searches and builds the public result.
#include "fuse/fuse.h"
#include "base/clock.h"
#include "base/options.h"
#include "base/plural.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef struct result {
    dv_fuse_schedule out;
    dv_arena arena;
} result;

void dv_fuse_schedule_destroy(dv_fuse_schedule *schedule)
{
    result *r = (result *)schedule;
    if (!r)
        return;
    dv_arena_free(&r->arena);
    dv_release(r);
}

// Lists the tiles in the order in which the group visits them: a snake, whose
// rows (or columns) alternate in direction.
static int put_order(result *r, const dv_fuse_graph *g, const uint64_t *set,
                     const dv_fuse_tiling *t, dv_fuse_entry *e)
{
    int32_t leaving = -1;
    DV_FUSE_EACH(o, set, g->words)
    if (dv_fuse_leaves(g, set, o))
        leaving = g->nodes[o].output;
    int64_t nx = dv_ceil_div(g->edges[leaving].width, t->w);
    int64_t ny = dv_ceil_div(g->edges[leaving].height, t->h);
    int64_t *order = DV_NEW(&r->arena, int64_t, nx * ny);
    if (!order)
        return 0;
    int64_t n = t->by_columns ? ny : nx;
    for (int64_t i = 0; i < nx * ny; i++) {
        int64_t line = i / n, at = line % 2 ? n - 1 - i % n : i % n;
        order[i] = t->by_columns ? at * nx + line : line * nx + at;
    }
    e->order = order;
    e->n_tiles = (size_t)(nx * ny);
    return 1;
}

static int put_entry(result *r, dv_fuser *f, const dv_fuse_answer *a, int32_t i)
{
    const dv_fuse_graph *g = f->g;
    const uint64_t *set = a->sets + (size_t)i * (size_t)g->words;
    dv_fuse_entry *e = (dv_fuse_entry *)&r->out.entries[i];
    dv_fuse_tiling t =
        dv_fuse_exact_price(f, set, &a->received[i], &a->kept[i]);
    int32_t *ops = DV_NEW(&r->arena, int32_t, g->n);
    int32_t *kept = DV_NEW(&r->arena, int32_t, DV_FUSE_MOST_KEPT);
    if (f->failed || !ops || !kept)
        return 0;
    DV_FUSE_EACH(o, set, g->words) ops[e->n_ops++] = g->nodes[o].number;
    e->n_retained = (size_t)a->kept[i].n;
    memcpy(kept, a->kept[i].at, e->n_retained * sizeof *kept);
    e->ops = ops;
    e->retained = kept;
    e->width = t.w;
    e->height = t.h;
    e->depth = t.k;
    e->latency = t.cost;
    r->out.total += t.cost;
    return put_order(r, g, set, &t, e);
}

static int put_result(result *r, dv_fuser *f, const dv_fuse_answer *a)
{
    r->out.n_entries = (size_t)a->n;
    r->out.entries = DV_NEW(&r->arena, dv_fuse_entry, a->n);
    if (!r->out.entries)
        return 0;
    for (int32_t i = 0; i < a->n; i++)
        if (!put_entry(r, f, a, i))
            return 0;
    // A bound that differs from the total only by rounding is set equal to it.
    // A bound above the total would be wrong; dv_fuse_check reports that.
    double difference = r->out.total - f->bound;
    r->out.bound = fabs(difference) <= DV_FUSE_EQUAL * r->out.total
                       ? r->out.total
                       : f->bound;
    r->out.gap =
        r->out.total > 0 ? (r->out.total - r->out.bound) / r->out.total : 0;
    r->out.steps = f->steps;
    return 1;
}

// Starts with every op in a group of its own, merges groups greedily, then
// improves them by local search.
static int solve(dv_fuser *f, dv_fuse_answer *best)
{
    const dv_fuse_graph *g = f->g;
    dv_fuse_parts p;
    dv_fuse_answer merged;
    char *loose = DV_NEW(&f->arena, char, g->n);
    if (!loose || !dv_fuse_memo_create(f) || !dv_fuse_parts_init(&p, f) ||
        !dv_fuse_answer_init(best, f) || !dv_fuse_answer_init(&merged, f))
        return 0;
    f->bound = dv_fuse_bound(g);
    for (int32_t o = 0; o < g->n; o++) {
        uint64_t *set = p.sets + (size_t)o * (size_t)g->words;
        dv_fuse_add(set, o);
        p.of[o] = o;
        p.cost[o] =
            dv_fuse_price(f, set, &dv_fuse_nothing, &dv_fuse_nothing).cost;
        loose[o] = 1;
    }
    dv_fuse_retain(f, &p, best);
    dv_fuse_merge(f, &p, loose, 0);
    dv_fuse_retain(f, &p, &merged);
    if (merged.total <= best->total)
        dv_fuse_answer_copy(best, &merged, g);
    if (best->total > f->bound && !dv_fuse_late(f)) {
        double bound = dv_fuse_bound_by_prices(f, f->left / 2);
        f->bound = bound > f->bound ? bound : f->bound;
    }
    dv_fuse_improve(f, &p, best);
    return !f->failed;
}

static dv_status no_schedule(const dv_fuser *f, dv_diag *diag)
{
    const dv_fuse_graph *g = f->g;
    if (dv_fuse_late(f))
        return dv_fail(diag, DV_E_CAPACITY, DV_NOWHERE,
                       "no schedule was found in the time: some op alone does "
                       "not fit %" PRId64 " element%s; give it more time",
                       g->capacity, DV_PLURAL(g->capacity, "", "s"));
    return dv_fail(diag, DV_E_CAPACITY, DV_NOWHERE,
                   "no schedule was found: some op does not fit %" PRId64
                   " element%s",
                   g->capacity, DV_PLURAL(g->capacity, "", "s"));
}

dv_status dv_fuse(dv_fuse_schedule **out, const dv_fuse_problem *problem,
                  const dv_fuse_options *options, dv_diag *diag)
{
    enum { DEFAULT_BUDGET = 160000 };
    dv_fuse_options o = DV_FUSE_OPTIONS_INIT;
    dv_fuse_graph g;
    dv_fuse_answer best;
    DV_TRY(dv_options_read(&o, sizeof o, options, "dv_fuse_options", diag));
    DV_TRY(dv_options_enum((int)o.reading, 2, "reading", diag));
    DV_TRY(dv_fuse_graph_create(&g, problem, o.reading, diag));
    dv_fuser f = {.g = &g, .random = o.seed};
    f.left = o.budget > 0 ? o.budget : DEFAULT_BUDGET;
    if (o.time_limit_s > 0)
        f.until_s = dv_clock_s() + o.time_limit_s;
    result *r = dv_alloc(sizeof *r);
    if (r)
        *r = (result){0};
    dv_status status = r && solve(&f, &best) ? DV_OK : dv_nomem(diag);
    if (status == DV_OK && best.total >= DV_FUSE_NEVER)
        status = no_schedule(&f, diag);
    if (status == DV_OK && !put_result(r, &f, &best))
        status = dv_nomem(diag);
    dv_fuse_memo_free(&f);
    dv_arena_free(&f.arena);
    dv_arena_free(&g.arena);
    if (status == DV_OK)
        *out = &r->out;
    else
        dv_fuse_schedule_destroy(r ? &r->out : NULL);
    return status;
}
