// Subgradient steps on the prices of memory. The excess of the relaxation's
// choice over the room is a subgradient of the bound; the length of a step
// follows Polyak: the distance from the bound to a target, divided by the
// square of the subgradient. The room is taken to be a little smaller while
// choices exceed it, so that they come out close to the limit on both sides.
#include "choose/choose.h"
#include <math.h>
#include <string.h>

// Subgradient steps aim at a target cost above the bound by this fraction of
// the bound: the initial and the smallest one.
#define FIRST_AMBITION 0.2
#define LEAST_AMBITION 0.0005
// Labels "nearly" keep to the memory limit if they exceed it by less than this
// fraction of the largest room (limit minus least usages).
#define NEAR 0.5
// Most sweeps of messages in a relaxation; SWEEPS_FAR if its labels exceed the
// memory limit by far, and so cannot be repaired.
enum { SWEEPS = 8, SWEEPS_FAR = 2 };
// A choice that is being improved is given up if, after PATIENCE rounds, its
// cost exceeds the best one by more than this fraction.
#define MOST_WORSE 0.01
enum { PATIENCE = 8 };
// While no choice has been found and labels nearly keep to the limit, each
// round multiplies the prices by RAISE, up to MOST_RAISE times the best prices.
#define RAISE      1.5
#define MOST_RAISE 1000
// The initial price when trees repair a choice: at it, all the memory together
// costs this fraction of the bound.
#define FIRST_RATE 0.001

dv_status dv_ascent_init(dv_ascent *s, dv_cgraph *g, dv_diag *diag)
{
    s->used = DV_NEW(&g->arena, int64_t, g->n_times + 1);
    s->best = DV_NEW(&g->arena, double, g->n_times);
    s->most_room = 1;
    s->start = INFINITY;
    s->raise = 1;
    if (!s->used || !s->best)
        return dv_nomem(diag);
    for (int32_t t = 0; t < g->n_times; t++)
        s->most_room = fmax(s->most_room, (double)g->room[t]);
    return DV_OK;
}

// Computes the memory that the labels x use over time. Returns the greatest
// excess over the room.
static double use(dv_ascent *s, const dv_cgraph *g, const int32_t *x)
{
    int64_t now = 0, most = INT64_MIN;
    memset(s->used, 0, ((size_t)g->n_times + 1) * sizeof *s->used);
    for (int32_t v = 0; v < g->n_nodes; v++) {
        int64_t usage = g->usage[g->first[v] + x[v]];
        s->used[g->from[v]] += usage;
        s->used[g->to[v]] -= usage;
    }
    for (int32_t t = 0; t < g->n_times; t++) {
        now += s->used[t];
        s->used[t] = now;
        most = now - g->room[t] > most ? now - g->room[t] : most;
    }
    return g->n_times ? (double)most : 0;
}

// Lowers prices that are so large that their prefix sums would be inexact in
// doubles.
static void limit_prices(const dv_cgraph *g, double *lambda)
{
    double sum = 0;
    for (int32_t t = 0; t < g->n_times; t++)
        sum += lambda[t];
    for (int32_t t = 0; sum > 0x1p52 && t < g->n_times; t++)
        lambda[t] = floor(lambda[t] * (0x1p51 / sum));
}

static void step(dv_chooser *c, double bound)
{
    dv_ascent *s = &c->ascent;
    const dv_cgraph *g = &c->graph;
    double *lambda = c->relax.lambda, norm = 0;
    double target = s->bound + s->ambition * fabs(s->bound) + c->graph.scale;
    if (c->best_cost < target)
        target = c->best_cost;
    for (int32_t t = 0; t < g->n_times; t++) {
        double x = (double)(s->used[t] - g->room[t]) + s->slack * s->most_room;
        norm += lambda[t] == 0 && x < 0 ? 0 : x * x;
    }
    if (norm == 0)
        return;
    double factor = (target - bound) / norm / c->relax.quantum;
    for (int32_t t = 0; t < g->n_times; t++) {
        double x = (double)(s->used[t] - g->room[t]) + s->slack * s->most_room;
        double to = floor(lambda[t] + factor * x);
        lambda[t] = to > 0 ? to : 0;
    }
    limit_prices(g, lambda);
}

// Tries the labels of the relaxation as a choice. If changing single nodes
// cannot make them keep to the memory limit, tries changing whole trees, at
// prices that begin far below the costs of nodes and edges.
static double try_labels(dv_chooser *c, int64_t work)
{
    const dv_relaxation *r = &c->relax;
    double cost = dv_chooser_try(c, r->x);
    if (cost < INFINITY || r->dead)
        return cost;
    double rate = FIRST_RATE * fabs(r->bound) / c->ascent.most_room;
    if (dv_ctrees_repair(c->trees, r->x, rate, work))
        cost = dv_chooser_try(c, c->choice.x);
    if (c->best_cost < INFINITY)
        dv_cchoice_start(&c->choice, c->best, c->best_cost);
    return cost;
}

// Improves a choice by changing trees of nodes. Starts from the choice just
// found if that is the search's cheapest; else continues with that of the last
// round, unless it has cost more than the best one for too long: then starts
// again from the best. The weight of the prices alternates: a lower weight uses
// more memory, a higher one frees memory for other nodes.
static void improve(dv_chooser *c, int64_t round, double cost, int64_t work)
{
    static const double weights[] = {1, 1.5, 1, 0.6};
    dv_ascent *s = &c->ascent;
    if (cost < s->start) {
        dv_cchoice_start(&c->choice, c->search.x, cost);
        s->start = cost;
        s->patience = PATIENCE;
    } else if (c->choice.cost > c->best_cost * (1 + MOST_WORSE) &&
               s->patience-- <= 0) {
        dv_cchoice_start(&c->choice, c->best, c->best_cost);
    }
    dv_chooser_improve(c, weights[round % 4], work);
}

// Solves the relaxation once, tries its labels, and makes a subgradient step to
// the next prices.
static void round_of(dv_chooser *c, int64_t round)
{
    dv_ascent *s = &c->ascent;
    dv_relaxation *r = &c->relax;
    size_t bytes = (size_t)c->graph.n_times * sizeof *s->best;
    int64_t work = dv_chooser_work(c);
    int far = !r->dead && s->over >= NEAR * s->most_room;
    dv_relax(r, far ? SWEEPS_FAR : SWEEPS);
    work = dv_chooser_work(c) - work;
    s->over = use(s, &c->graph, r->x);
    if (r->bound > s->bound) {
        if (r->bound > s->bound + 1e-4 * fabs(s->bound)) {
            s->stalled = 0;
            s->ambition = fmin(s->ambition * 1.1, FIRST_AMBITION);
        }
        s->bound = r->bound;
        memcpy(s->best, r->lambda, bytes);
        dv_cchoice_price(&c->choice, r);
    } else if (++s->stalled % 12 == 0) {
        s->ambition = fmax(s->ambition * 0.7, LEAST_AMBITION);
    }
    double before = c->best_cost, cost = INFINITY;
    int near = s->over < NEAR * s->most_room;
    if (near || round % 10 == 9)
        cost = try_labels(c, work);
    if (!r->dead && c->best_cost < INFINITY)
        improve(c, round, cost, work);
    s->stalled = c->best_cost < before ? 0 : s->stalled;
    s->slack =
        s->over > 0 ? fmin(s->slack + 0.001, 0.1) : fmax(s->slack - 0.002, 0);
    // Without any choice yet, raising all prices finds one sooner than
    // subgradient steps do.
    if ((near || s->raise > 1) && !r->dead && c->best_cost == INFINITY &&
        s->raise < MOST_RAISE) {
        s->raise *= RAISE;
        for (int32_t t = 0; t < c->graph.n_times; t++)
            r->lambda[t] = floor(s->best[t] * s->raise);
        limit_prices(&c->graph, r->lambda);
        return;
    }
    if (r->bound < s->bound - 0.1 * fabs(s->bound)) {
        memcpy(r->lambda, s->best, bytes);
        s->ambition = fmax(s->ambition * 0.6, LEAST_AMBITION);
        return;
    }
    step(c, r->bound);
}

double dv_chooser_ascend(dv_chooser *c, int64_t max_rounds, int64_t max_stalled)
{
    dv_ascent *s = &c->ascent;
    s->bound = -INFINITY;
    s->ambition = FIRST_AMBITION;
    s->stalled = 0;
    for (int64_t i = 0; i < max_rounds; i++) {
        round_of(c, i);
        double bound = dv_chooser_round(c, s->bound);
        if (!c->relax.dead)
            c->best_bound = fmax(c->best_bound, bound);
        if (bound >= c->best_cost || bound == INFINITY ||
            s->stalled >= max_stalled || dv_chooser_done(c))
            break;
    }
    memcpy(c->relax.lambda, s->best,
           (size_t)c->graph.n_times * sizeof *s->best);
    return dv_chooser_round(c, s->bound);
}
