// Local search: repairs a choice that exceeds the limit or has forbidden
// entries, then changes single nodes while that makes it cheaper.
#include "choose/choose.h"
#include <math.h>
#include <string.h>

// The cost of a forbidden table entry while a choice is repaired: finite, so
// that choices with fewer of them are cheaper.
#define PENALTY 0x1p49
enum { MAX_PASSES = 8 };

// The best change of a node that saves memory at a time that exceeds the limit.
typedef struct dv_crepair {
    double rate; // cost per unit of usage
    int32_t v, label;
} repair;

dv_status dv_csearch_init(dv_csearch *s, dv_cgraph *g, dv_diag *diag)
{
    int32_t most = 1;
    s->g = g;
    for (int32_t v = 0; v < g->n_nodes; v++)
        most = dv_n_labels(g, v) > most ? dv_n_labels(g, v) : most;
    s->x = DV_NEW(&g->arena, int32_t, g->n_nodes);
    s->move = DV_NEW(&g->arena, double, most);
    s->queued = DV_NEW(&g->arena, char, g->n_nodes);
    s->queue = DV_NEW(&g->arena, int32_t, g->n_nodes);
    s->heap = DV_NEW(&g->arena, repair, g->n_nodes);
    if (!s->x || !s->move || !s->queued || !s->queue || !s->heap ||
        !dv_cload_init(&s->load, &g->arena, g->n_times))
        return dv_nomem(diag);
    return DV_OK;
}

static double limited(double cost)
{
    return cost < PENALTY ? cost : PENALTY;
}

// Sets move[i] to the cost of node v with label i, including its edges at the
// current labels of its neighbours.
static void evaluate(dv_csearch *s, int32_t v)
{
    const dv_cgraph *g = s->g;
    int32_t n = dv_n_labels(g, v);
    memcpy(s->move, g->cost + g->first[v], (size_t)n * sizeof *s->move);
    for (int32_t k = g->adj_first[v]; k < g->adj_first[v + 1]; k++) {
        const dv_cedge *d = &g->edges[g->adj[k]];
        int64_t m = dv_n_labels(g, d->b);
        if (d->a == v)
            for (int32_t i = 0; i < n; i++)
                s->move[i] += limited(d->table[i * m + s->x[d->b]]);
        else
            for (int32_t i = 0; i < n; i++)
                s->move[i] += limited(d->table[s->x[d->a] * m + i]);
    }
    s->work += (int64_t)n * (1 + g->adj_first[v + 1] - g->adj_first[v]);
}

static void change(dv_csearch *s, int32_t v, int32_t label)
{
    const dv_cgraph *g = s->g;
    dv_cload_add(&s->load, g->from[v], g->to[v],
                 dv_cusage(g, v, label) - dv_cusage(g, v, s->x[v]));
    s->x[v] = label;
}

// -- Repair -------------------------------------------------------------------

// Finds the new label of v that lowers its usage at the least cost per unit of
// memory. Returns 0 if there is none.
static int find_repair(dv_csearch *s, int32_t v, int64_t excess, repair *out)
{
    const dv_cgraph *g = s->g;
    int32_t now = s->x[v], found = 0;
    if (dv_cusage(g, v, now) == 0)
        return 0;
    evaluate(s, v);
    for (int32_t i = 0; i < dv_n_labels(g, v); i++) {
        int64_t less = dv_cusage(g, v, now) - dv_cusage(g, v, i);
        double more = s->move[i] - s->move[now];
        if (less <= 0 || more >= PENALTY / 2)
            continue;
        double rate =
            more <= 0 ? more : more / (double)(less < excess ? less : excess);
        if (!found || rate < out->rate)
            *out = (repair){rate, v, i};
        found = 1;
    }
    return found;
}

static int before(const repair *a, const repair *b)
{
    return a->rate != b->rate ? a->rate < b->rate : a->v < b->v;
}

static void sift_down(repair *h, int32_t n, int32_t i)
{
    for (;;) {
        int32_t k = 2 * i + 1;
        if (k >= n)
            return;
        if (k + 1 < n && before(&h[k + 1], &h[k]))
            k++;
        if (!before(&h[k], &h[i]))
            return;
        repair t = h[i];
        h[i] = h[k];
        h[k] = t;
        i = k;
    }
}

// Changes labels until the usage at time t fits the room. Returns 0 if that
// fails.
static int repair_time(dv_csearch *s, int32_t t)
{
    const dv_cgraph *g = s->g;
    int32_t n = 0;
    int64_t excess = dv_cload_max(&s->load, t, t + 1);
    for (int32_t v = 0; v < g->n_nodes; v++)
        if (g->from[v] <= t && t < g->to[v])
            n += find_repair(s, v, excess, &s->heap[n]);
    for (int32_t i = n / 2 - 1; i >= 0; i--)
        sift_down(s->heap, n, i);
    while (excess > 0 && n > 0) {
        repair r;
        // The rate in the heap may be out of date, since neighbours may have
        // changed: compute it again.
        if (!find_repair(s, s->heap[0].v, excess, &r)) {
            s->heap[0] = s->heap[--n];
        } else if (r.rate > s->heap[0].rate) {
            s->heap[0] = r;
        } else {
            change(s, r.v, r.label);
            excess = dv_cload_max(&s->load, t, t + 1);
            if (!find_repair(s, r.v, excess, &s->heap[0]))
                s->heap[0] = s->heap[--n];
        }
        sift_down(s->heap, n, 0);
    }
    return excess <= 0;
}

// -- Improvement --------------------------------------------------------------

// Changes the label of v to the cheapest one that fits the memory; ties go to
// the least usage. Returns whether the label changed.
static int improve(dv_csearch *s, int32_t v)
{
    const dv_cgraph *g = s->g;
    int32_t now = s->x[v], to = now;
    int64_t room = -1;
    evaluate(s, v);
    for (int32_t i = 0; i < dv_n_labels(g, v); i++) {
        int64_t more = dv_cusage(g, v, i) - dv_cusage(g, v, now);
        if (s->move[i] > s->move[to] ||
            (s->move[i] == s->move[to] &&
             dv_cusage(g, v, i) >= dv_cusage(g, v, to)))
            continue;
        if (more > 0 && room < 0) {
            room = -dv_cload_max(&s->load, g->from[v], g->to[v]);
            room = room < 0 ? 0 : room;
        }
        if (more <= 0 || more <= room)
            to = i;
    }
    if (to == now)
        return 0;
    change(s, v, to);
    return 1;
}

// Tries to improve each node, then again the neighbours of changed nodes.
static int improve_all(dv_csearch *s)
{
    const dv_cgraph *g = s->g;
    int32_t head = 0, n = 0, moved = 0;
    int64_t left = 8 * (int64_t)g->n_nodes;
    memset(s->queued, 0, (size_t)g->n_nodes);
    for (int32_t v = 0; v < g->n_nodes; v++)
        if (dv_n_labels(g, v) > 1) {
            s->queue[n++] = v;
            s->queued[v] = 1;
        }
    while (n > 0 && left-- > 0) {
        int32_t v = s->queue[head];
        head = head + 1 == g->n_nodes ? 0 : head + 1;
        n--;
        s->queued[v] = 0;
        if (!improve(s, v))
            continue;
        moved = 1;
        for (int32_t k = g->adj_first[v]; k < g->adj_first[v + 1]; k++) {
            const dv_cedge *d = &g->edges[g->adj[k]];
            int32_t u = d->a == v ? d->b : d->a;
            if (s->queued[u])
                continue;
            s->queued[u] = 1;
            s->queue[(head + n++) % g->n_nodes] = u;
        }
    }
    return moved;
}

static double total_cost(const dv_csearch *s)
{
    const dv_cgraph *g = s->g;
    double cost = 0;
    for (int32_t v = 0; v < g->n_nodes; v++)
        cost += g->cost[g->first[v] + s->x[v]];
    for (int32_t e = 0; e < g->n_edges; e++) {
        const dv_cedge *d = &g->edges[e];
        cost +=
            d->table[(int64_t)s->x[d->a] * dv_n_labels(g, d->b) + s->x[d->b]];
    }
    return cost;
}

double dv_csearch_run(dv_csearch *s, const int32_t *x)
{
    const dv_cgraph *g = s->g;
    memcpy(s->x, x, (size_t)g->n_nodes * sizeof *x);
    dv_cload_reset(&s->load, g->room);
    for (int32_t v = 0; v < g->n_nodes; v++)
        dv_cload_add(&s->load, g->from[v], g->to[v], dv_cusage(g, v, x[v]));
    if (total_cost(s) == INFINITY)
        improve_all(s);
    for (int32_t t; (t = dv_cload_worst(&s->load)) >= 0;)
        if (!repair_time(s, t))
            return INFINITY;
    for (int pass = 0; pass < MAX_PASSES && improve_all(s); pass++)
        ;
    return total_cost(s);
}
