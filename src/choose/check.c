// Checks choices and computes their costs. It shares no code with the solver.
#include "base/diag.h"
#include "base/math.h"
#include "base/mem.h"
#include "base/plural.h"
#include "divvy/choose.h"
#include <inttypes.h>
#include <stdlib.h>

// A change of the memory in use: usage > 0 when a node starts, < 0 when it
// ends.
typedef struct change {
    int64_t time, usage;
} change;

// Sorts changes by time. At the same time, ends come before starts, because
// their usage is negative.
static int by_time(const void *x, const void *y)
{
    const change *a = x, *b = y;
    if (a->time != b->time)
        return a->time < b->time ? -1 : 1;
    return a->usage < b->usage ? -1 : a->usage > b->usage;
}

static dv_status check_usage(const dv_choose_problem *p,
                             const int32_t *strategies, dv_diag *diag)
{
    dv_status s = DV_OK;
    size_t n = 0;
    int64_t now = 0;
    change *c = dv_alloc(2 * p->n_nodes * sizeof *c);
    if (!c)
        return dv_nomem(diag);
    for (size_t v = 0; v < p->n_nodes; v++) {
        const dv_choose_node *d = &p->nodes[v];
        if (d->start >= d->end || !d->usages)
            continue;
        c[n++] = (change){d->start, d->usages[strategies[v]]};
        c[n++] = (change){d->end, -d->usages[strategies[v]]};
    }
    qsort(c, n, sizeof *c, by_time);
    for (size_t i = 0; i < n && s == DV_OK; i++) {
        if (!dv_add_i64(&now, now, c[i].usage))
            now = INT64_MAX;
        if (now > p->usage_limit)
            s = dv_fail(diag, DV_E_CHECK, DV_NOWHERE,
                        "at time %" PRId64 " at least %" PRId64
                        " is used, the limit is %" PRId64,
                        c[i].time, now, p->usage_limit);
    }
    dv_release(c);
    return s;
}

dv_status dv_choose_check(const dv_choose_problem *problem,
                          const int32_t *strategies, size_t n_strategies,
                          int64_t *cost, dv_diag *diag)
{
    const dv_choose_problem *p = problem;
    int64_t sum = 0;
    if (n_strategies != p->n_nodes)
        return dv_fail(diag, DV_E_CHECK, DV_NOWHERE, "%zu %s for %zu node%s",
                       n_strategies,
                       DV_PLURAL(n_strategies, "strategy", "strategies"),
                       p->n_nodes, DV_PLURAL(p->n_nodes, "", "s"));
    for (size_t v = 0; v < p->n_nodes; v++) {
        int32_t s = strategies[v];
        if (s < 0 || s >= p->nodes[v].n_strategies)
            return dv_fail(diag, DV_E_CHECK, DV_NOWHERE,
                           "node %zu has no strategy %" PRId32, v, s);
        if (p->nodes[v].costs[s] >= DV_CHOOSE_FORBIDDEN)
            return dv_fail(diag, DV_E_CHECK, DV_NOWHERE,
                           "strategy %" PRId32 " of node %zu is forbidden", s,
                           v);
        if (!dv_add_i64(&sum, sum, p->nodes[v].costs[s]))
            return dv_fail(diag, DV_E_OVERFLOW, DV_NOWHERE,
                           "the cost does not fit 64 bits");
    }
    for (size_t e = 0; e < p->n_edges; e++) {
        const int32_t *ends = p->edges[e].nodes;
        int64_t row = strategies[ends[0]], column = strategies[ends[1]];
        int64_t c =
            p->edges[e].costs[row * p->nodes[ends[1]].n_strategies + column];
        if (c >= DV_CHOOSE_FORBIDDEN)
            return dv_fail(diag, DV_E_CHECK, DV_NOWHERE,
                           "strategies %" PRId64 " and %" PRId64
                           " of nodes %" PRId32 " and %" PRId32
                           " are forbidden together",
                           row, column, ends[0], ends[1]);
        if (!dv_add_i64(&sum, sum, c))
            return dv_fail(diag, DV_E_OVERFLOW, DV_NOWHERE,
                           "the cost does not fit 64 bits");
    }
    if (p->usage_limit >= 0)
        DV_TRY(check_usage(p, strategies, diag));
    if (cost)
        *cost = sum;
    return DV_OK;
}
