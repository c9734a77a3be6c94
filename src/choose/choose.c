// dv_choose: the solver's steps in order, and its result.
#include "choose/choose.h"
#include "base/clock.h"
#include "base/options.h"
#include "base/stop.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

#define DEFAULT_BUDGET (INT64_C(1) << 30)
// Branch and bound runs if one relaxation reads at most MAX_BRANCH_WORK table
// entries. It begins when MAX_STALLED rounds of price updates have improved
// neither the bound nor the choice.
enum { MAX_BRANCH_WORK = 1 << 21, MAX_STALLED = 100 };

// A result together with the memory that it owns.
typedef struct result {
    dv_choose_result out; // the first member: destroying it frees the whole
    int32_t strategies[];
} result;

int64_t dv_chooser_work(const dv_chooser *c)
{
    return c->graph.work + c->relax.work + c->search.work + c->choice.work;
}

int dv_chooser_done(const dv_chooser *c)
{
    return c->best_bound >= c->best_cost || dv_chooser_work(c) >= c->budget ||
           (c->end_s > 0 && dv_clock_s() >= c->end_s) || dv_stop_late() ||
           dv_stop_wanted();
}

double dv_chooser_round(const dv_chooser *c, double bound)
{
    if (c->graph.inexact)
        return bound * (1 - 0x1p-30);
    return ceil(bound / c->graph.scale) * c->graph.scale;
}

static void keep(dv_chooser *c, const int32_t *x, double cost)
{
    if (cost >= c->best_cost)
        return;
    c->best_cost = cost;
    memcpy(c->best, x, (size_t)c->graph.n_nodes * sizeof *c->best);
}

double dv_chooser_try(dv_chooser *c, const int32_t *x)
{
    double cost = dv_csearch_run(&c->search, x);
    keep(c, c->search.x, cost);
    return cost;
}

void dv_chooser_improve(dv_chooser *c, double weight, int64_t work)
{
    const dv_cchoice *x = &c->choice;
    for (int i = 0; i < 2; i++)
        keep(c, x->x,
             dv_cmix_run(c->mix, c->relax.x, i ? 0 : weight, work / 2));
    for (int i = 0; i < 2; i++)
        keep(c, x->x, dv_ctrees_run(c->trees, i ? 0 : weight, work / 2));
}

static dv_status solve(dv_chooser *c, const dv_choose_problem *p, dv_diag *diag)
{
    dv_cgraph *g = &c->graph;
    DV_TRY(dv_cgraph_build(g, p, diag));
    DV_TRY(dv_relaxation_init(&c->relax, g, diag));
    DV_TRY(dv_csearch_init(&c->search, g, diag));
    DV_TRY(dv_cchoice_init(&c->choice, g, diag));
    DV_TRY(dv_ctrees_create(&c->trees, &c->choice, &g->arena, diag));
    DV_TRY(dv_cmix_create(&c->mix, &c->choice, &g->arena, diag));
    c->best = DV_NEW(&g->arena, int32_t, g->n_nodes);
    if (!c->best)
        return dv_nomem(diag);
    DV_TRY(dv_ascent_init(&c->ascent, g, diag));
    // The work of the first round tells whether the problem is small enough for
    // branch and bound.
    int64_t before = dv_chooser_work(c);
    dv_chooser_ascend(c, 1, 1);
    int small = dv_chooser_work(c) - before <= MAX_BRANCH_WORK;
    if (!dv_chooser_done(c))
        dv_chooser_ascend(c, INT64_MAX, small ? MAX_STALLED : INT64_MAX);
    if (!dv_chooser_done(c))
        DV_TRY(dv_chooser_branch(c, diag));
    if (c->best_cost < INFINITY)
        return DV_OK;
    return dv_fail(diag, DV_E_CAPACITY, DV_NOWHERE,
                   c->best_bound == INFINITY
                       ? "no choice keeps to the limit of %" PRId64
                         " without forbidden entries"
                       : "no choice within the limit of %" PRId64
                         " was found; a larger budget may find one",
                   p->usage_limit);
}

// Fills in the result; its cost is computed by the independent checker.
static dv_status finish(result *r, const dv_chooser *c,
                        const dv_choose_problem *p, dv_diag *diag)
{
    dv_choose_result *out = &r->out;
    const dv_cgraph *g = &c->graph;
    out->n_nodes = p->n_nodes;
    out->strategies = r->strategies;
    for (size_t v = 0; v < p->n_nodes; v++)
        r->strategies[v] = g->strategy[g->first[v] + c->best[v]];
    DV_TRY(dv_choose_check(p, r->strategies, p->n_nodes, &out->cost, diag));
    double bound = floor(c->best_bound / g->scale);
    out->bound = bound >= (double)out->cost ? out->cost
                 : bound > 0                ? (int64_t)bound
                                            : 0;
    out->optimal = out->bound == out->cost;
    out->gap = out->cost ? 1 - (double)out->bound / (double)out->cost : 0;
    out->work = dv_chooser_work(c);
    out->nodes = 1 + c->nodes;
    return DV_OK;
}

dv_status dv_choose(dv_choose_result **out, const dv_choose_problem *problem,
                    const dv_choose_options *options, dv_diag *diag)
{
    dv_choose_options o = DV_CHOOSE_OPTIONS_INIT;
    dv_chooser c = {.best_cost = INFINITY, .best_bound = -INFINITY};
    DV_TRY(dv_options_read(&o, sizeof o, options, "dv_choose_options", diag));
    if (o.budget < 0 || !(o.time_limit_s >= 0))
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "budget and time limit are 0 or more");
    c.budget = o.budget             ? o.budget
               : o.time_limit_s > 0 ? INT64_MAX
                                    : DEFAULT_BUDGET;
    c.end_s = o.time_limit_s > 0 ? dv_clock_s() + o.time_limit_s : 0;
    dv_status s = solve(&c, problem, diag);
    result *r = NULL;
    if (s == DV_OK) {
        r = dv_alloc(sizeof *r + problem->n_nodes * sizeof *r->strategies);
        s = r ? finish(r, &c, problem, diag) : dv_nomem(diag);
    }
    dv_cgraph_free(&c.graph);
    if (s == DV_OK)
        *out = &r->out;
    else
        dv_release(r);
    return s;
}

void dv_choose_result_destroy(dv_choose_result *r)
{
    dv_release(r);
}
