// Builds the reduced problem. Parallel edges are added up, and equal tables of
// edges are stored once. A strategy is
// dropped if it is forbidden with every strategy of a neighbour, or if another
// strategy of the node is never worse, whatever the neighbours choose and
// whatever memory costs (dead-end elimination, Goldstein's criterion). Nodes
// with one strategy left are merged into their neighbours. Of the times, only
// those remain at which the memory in use has a local maximum and may exceed
// the limit.
#include "base/math.h"
#include "choose/choose.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Upper limit of sums of costs and of sums of usages.
#define MAX_SUM (INT64_C(1) << 62)
// The strategies of a node are compared pairwise only if that reads at most
// MAX_COMPARE table entries.
enum { MAX_COMPARE = 1 << 14 };

typedef struct builder {
    dv_cgraph *g;
    const dv_choose_problem *p;
    char *feasible; // of each strategy: 0 after it was dropped
    char *changed;  // of each node: strategies were dropped
    char *compare;  // of each node: its strategies are to be compared
    double *table;  // scratch memory of one table
    dv_ctables tables;
    dv_diag *diag;
} builder;

static dv_status misuse(builder *b, const char *kind, size_t at,
                        const char *what)
{
    return dv_fail(b->diag, DV_E_USAGE, DV_NOWHERE, "%s %zu %s", kind, at,
                   what);
}

static dv_status no_choice(builder *b, int32_t v)
{
    return dv_fail(b->diag, DV_E_CAPACITY, DV_NOWHERE,
                   "every choice has forbidden entries: no strategy of node "
                   "%" PRId32 " is allowed",
                   v);
}

// Adds the largest allowed cost of node or edge number `at` to a sum, and fails
// if the sum is too large.
static dv_status add_largest(builder *b, int64_t *sum, const int64_t *costs,
                             int64_t n, const char *kind, size_t at)
{
    int64_t most = 0;
    for (int64_t i = 0; i < n; i++) {
        if (costs[i] < 0)
            return dv_fail(b->diag, DV_E_USAGE, DV_NOWHERE,
                           "costs of %s %zu are negative: %" PRId64, kind, at,
                           costs[i]);
        if (costs[i] < DV_CHOOSE_FORBIDDEN && costs[i] > most)
            most = costs[i];
    }
    *sum += most;
    if (*sum < MAX_SUM)
        return DV_OK;
    return dv_fail(b->diag, DV_E_USAGE, DV_NOWHERE,
                   "the largest costs up to %s %zu add up to %" PRId64
                   "; their sum must stay below 2^62: scale them down",
                   kind, at, *sum);
}

static dv_status add_largest_usage(builder *b, int64_t *sum, size_t at)
{
    const dv_choose_node *d = &b->p->nodes[at];
    int64_t most = 0;
    for (int32_t s = 0; d->usages && s < d->n_strategies; s++) {
        if (d->usages[s] < 0)
            return dv_fail(b->diag, DV_E_USAGE, DV_NOWHERE,
                           "usages of node %zu are negative: %" PRId64, at,
                           d->usages[s]);
        most = dv_max_i64(most, d->usages[s]);
    }
    if (most > MAX_SUM - *sum)
        return dv_fail(b->diag, DV_E_USAGE, DV_NOWHERE,
                       "the largest usages before node %zu add up to %" PRId64
                       ", with its %" PRId64
                       " to more than 2^62: scale them down",
                       at, *sum, most);
    *sum += most;
    return DV_OK;
}

static dv_status validate(builder *b)
{
    const dv_choose_problem *p = b->p;
    int64_t cost = 0, usage = 0, n_labels = 0;
    if (p->n_nodes > INT32_MAX || p->n_edges > INT32_MAX ||
        (p->n_nodes && !p->nodes) || (p->n_edges && !p->edges) ||
        p->usage_limit < -1)
        return misuse(b, "a problem of", p->n_nodes, "nodes is malformed");
    for (size_t v = 0; v < p->n_nodes; v++) {
        const dv_choose_node *d = &p->nodes[v];
        if (d->n_strategies < 1 || !d->costs || d->start > d->end)
            return misuse(b, "node", v, "has no strategy or a wrong interval");
        DV_TRY(add_largest(b, &cost, d->costs, d->n_strategies, "node", v));
        DV_TRY(add_largest_usage(b, &usage, v));
        n_labels += d->n_strategies;
        if (n_labels > INT32_MAX)
            return misuse(b, "at node", v, "there are 2^31 strategies or more");
    }
    for (size_t e = 0; e < p->n_edges; e++) {
        const dv_choose_edge *d = &p->edges[e];
        for (int k = 0; k < 2; k++)
            if (d->nodes[k] < 0 || (size_t)d->nodes[k] >= p->n_nodes)
                return misuse(b, "edge", e, "has a node that does not exist");
        int64_t n = (int64_t)p->nodes[d->nodes[0]].n_strategies *
                    p->nodes[d->nodes[1]].n_strategies;
        if (!d->costs)
            return misuse(b, "edge", e, "has no costs");
        DV_TRY(add_largest(b, &cost, d->costs, n, "edge", e));
        b->g->work += n;
    }
    return DV_OK;
}

// -- Nodes and merged edges ---------------------------------------------------

static double cost_of(int64_t cost)
{
    return cost >= DV_CHOOSE_FORBIDDEN ? INFINITY : (double)cost;
}

static dv_status build_nodes(builder *b)
{
    dv_cgraph *g = b->g;
    int32_t n = (int32_t)b->p->n_nodes, at = 0;
    g->n_nodes = n;
    g->first = DV_NEW(&g->arena, int32_t, n + 1);
    g->from = DV_NEW(&g->arena, int32_t, n);
    g->to = DV_NEW(&g->arena, int32_t, n);
    b->changed = DV_NEW(&g->arena, char, n);
    b->compare = DV_NEW(&g->arena, char, n);
    if (!g->first || !g->from || !g->to || !b->changed || !b->compare)
        return dv_nomem(b->diag);
    for (int32_t v = 0; v < n; v++)
        g->first[v + 1] = g->first[v] + b->p->nodes[v].n_strategies;
    g->cost = DV_NEW(&g->arena, double, g->first[n]);
    g->usage = DV_NEW(&g->arena, int64_t, g->first[n]);
    g->strategy = DV_NEW(&g->arena, int32_t, g->first[n]);
    b->feasible = DV_NEW(&g->arena, char, g->first[n]);
    if (!g->cost || !g->usage || !g->strategy || !b->feasible)
        return dv_nomem(b->diag);
    for (int32_t v = 0; v < n; v++) {
        const dv_choose_node *d = &b->p->nodes[v];
        for (int32_t s = 0; s < d->n_strategies; s++, at++) {
            g->cost[at] = cost_of(d->costs[s]);
            b->feasible[at] = d->costs[s] < DV_CHOOSE_FORBIDDEN;
            g->strategy[at] = s;
            if (d->usages && d->start < d->end && b->p->usage_limit >= 0)
                g->usage[at] = d->usages[s];
        }
    }
    return DV_OK;
}

static int32_t low_end(const dv_choose_edge *d)
{
    return d->nodes[0] < d->nodes[1] ? d->nodes[0] : d->nodes[1];
}

static int32_t high_end(const dv_choose_edge *d)
{
    return d->nodes[0] < d->nodes[1] ? d->nodes[1] : d->nodes[0];
}

// Stable counting sort of the numbers of edges by one of their end nodes.
// `begin` has room for n_nodes + 1 numbers.
static void sort_edges(const builder *b, int32_t *to, const int32_t *from,
                       int32_t (*end)(const dv_choose_edge *), int32_t *begin)
{
    const dv_choose_edge *edges = b->p->edges;
    int32_t m = (int32_t)b->p->n_edges;
    memset(begin, 0, ((size_t)b->g->n_nodes + 1) * sizeof *begin);
    for (int32_t i = 0; i < m; i++)
        begin[end(&edges[from[i]]) + 1]++;
    for (int32_t v = 0; v < b->g->n_nodes; v++)
        begin[v + 1] += begin[v];
    for (int32_t i = 0; i < m; i++)
        to[begin[end(&edges[from[i]])]++] = from[i];
}

// Adds the diagonal of the table of an edge from a node to itself to the
// node's costs.
static void add_loop(builder *b, const dv_choose_edge *d)
{
    dv_cgraph *g = b->g;
    int32_t v = d->nodes[0], n = dv_n_labels(g, v);
    for (int32_t k = 0; k < n; k++) {
        double *cost = &g->cost[g->first[v] + k];
        *cost += cost_of(d->costs[(int64_t)k * n + k]);
        b->feasible[g->first[v] + k] = *cost < INFINITY;
    }
}

// Adds the cost table of an edge of the caller to the table `to`, whose rows
// are labels of the node with the lower number.
static void add_table(const dv_cgraph *g, const dv_choose_edge *d, double *to)
{
    int32_t n = dv_n_labels(g, d->nodes[0]), m = dv_n_labels(g, d->nodes[1]);
    if (d->nodes[0] < d->nodes[1]) {
        for (int64_t i = 0; i < (int64_t)n * m; i++)
            to[i] += cost_of(d->costs[i]);
        return;
    }
    for (int32_t i = 0; i < n; i++)
        for (int32_t j = 0; j < m; j++)
            to[(int64_t)j * n + i] += cost_of(d->costs[(int64_t)i * m + j]);
}

// Merges all edges between the same two nodes into one.
static dv_status build_edges(builder *b)
{
    dv_cgraph *g = b->g;
    const dv_choose_problem *p = b->p;
    int32_t m = (int32_t)p->n_edges;
    int64_t most = 1;
    int32_t *begin = DV_NEW(&g->arena, int32_t, g->n_nodes + 1);
    int32_t *sorted = DV_NEW(&g->arena, int32_t, m);
    int32_t *by_high = DV_NEW(&g->arena, int32_t, m);
    g->edges = DV_NEW(&g->arena, dv_cedge, m);
    for (int32_t e = 0; e < m; e++)
        most = dv_max_i64(most, (int64_t)dv_n_labels(g, p->edges[e].nodes[0]) *
                                    dv_n_labels(g, p->edges[e].nodes[1]));
    b->table = DV_NEW(&g->arena, double, most);
    if (!begin || !sorted || !by_high || !g->edges || !b->table ||
        !dv_ctables_init(&b->tables, &g->arena))
        return dv_nomem(b->diag);
    for (int32_t e = 0; e < m; e++)
        sorted[e] = e;
    sort_edges(b, by_high, sorted, high_end, begin);
    sort_edges(b, sorted, by_high, low_end, begin);
    for (int32_t i = 0, next; i < m; i = next) {
        const dv_choose_edge *d = &p->edges[sorted[i]];
        int32_t lo = low_end(d), hi = high_end(d);
        int32_t n = dv_n_labels(g, lo), k = dv_n_labels(g, hi);
        memset(b->table, 0, (size_t)n * (size_t)k * sizeof *b->table);
        for (next = i; next < m; next++) {
            d = &p->edges[sorted[next]];
            if (low_end(d) != lo || high_end(d) != hi)
                break;
            if (lo == hi)
                add_loop(b, d);
            else
                add_table(g, d, b->table);
        }
        if (lo == hi)
            continue;
        double *table = dv_ctables_add(&b->tables, b->table, n, k);
        if (!table)
            return dv_nomem(b->diag);
        g->edges[g->n_edges++] = (dv_cedge){lo, hi, table};
    }
    return DV_OK;
}

// Lists the edges of every node.
static dv_status build_adjacency(builder *b)
{
    dv_cgraph *g = b->g;
    int32_t n = g->n_nodes;
    if (!g->adj_first) {
        g->adj_first = DV_NEW(&g->arena, int32_t, n + 2);
        g->adj = DV_NEW(&g->arena, int32_t, 2 * (int64_t)g->n_edges);
    }
    if (!g->adj_first || !g->adj)
        return dv_nomem(b->diag);
    memset(g->adj_first, 0, ((size_t)n + 2) * sizeof *g->adj_first);
    for (int32_t e = 0; e < g->n_edges; e++) {
        g->adj_first[g->edges[e].a + 2]++;
        g->adj_first[g->edges[e].b + 2]++;
    }
    for (int32_t v = 0; v < n; v++)
        g->adj_first[v + 2] += g->adj_first[v + 1];
    for (int32_t e = 0; e < g->n_edges; e++) {
        g->adj[g->adj_first[g->edges[e].a + 1]++] = e;
        g->adj[g->adj_first[g->edges[e].b + 1]++] = e;
    }
    return DV_OK;
}

// -- Dropping strategies ------------------------------------------------------

// The costs of one edge seen from node v: the entry for a label of v and a
// label of u is at[label * step + other * across].
typedef struct seen {
    const double *at;
    int64_t step, across;
    int32_t u, n; // the other node and its number of labels
} seen;

static seen see(const dv_cgraph *g, int32_t e, int32_t v)
{
    const dv_cedge *d = &g->edges[e];
    int64_t m = dv_n_labels(g, d->b);
    if (d->a == v)
        return (seen){d->table, m, 1, d->b, (int32_t)m};
    return (seen){d->table, 1, m, d->a, dv_n_labels(g, d->a)};
}

// Drops the labels of v that are forbidden in combination with every label of a
// neighbour.
static void drop_unsupported(builder *b, int32_t v, int32_t e)
{
    dv_cgraph *g = b->g;
    seen s = see(g, e, v);
    const char *others = b->feasible + g->first[s.u];
    for (int32_t i = 0; i < dv_n_labels(g, v); i++) {
        int32_t j = 0;
        if (!b->feasible[g->first[v] + i])
            continue;
        while (j < s.n &&
               !(others[j] && s.at[i * s.step + j * s.across] < INFINITY))
            j++;
        g->work += j;
        if (j == s.n) {
            b->feasible[g->first[v] + i] = 0;
            b->changed[v] = 1;
        }
    }
}

// Makes all edges arc consistent. Marks the neighbours of changed nodes in
// b->compare, so that their labels are compared again.
static dv_status drop_all_unsupported(builder *b)
{
    dv_cgraph *g = b->g;
    for (int again = 1; again;) {
        again = 0;
        for (int32_t u = 0; u < g->n_nodes; u++) {
            if (!b->changed[u])
                continue;
            b->changed[u] = 0;
            for (int32_t k = g->adj_first[u]; k < g->adj_first[u + 1]; k++) {
                const dv_cedge *d = &g->edges[g->adj[k]];
                int32_t v = d->a == u ? d->b : d->a;
                drop_unsupported(b, v, g->adj[k]);
                b->compare[v] = 1;
            }
            again = 1;
        }
    }
    for (int32_t v = 0; v < g->n_nodes; v++)
        if (!memchr(b->feasible + g->first[v], 1, (size_t)dv_n_labels(g, v)))
            return no_choice(b, v);
    return DV_OK;
}

// Returns the largest amount by which label j of a node costs more than label i
// on an edge, over all labels of the neighbour that are allowed with i.
static double most_above(builder *b, const seen *s, int32_t i, int32_t j)
{
    const char *others = b->feasible + b->g->first[s->u];
    const double *x = s->at + i * s->step, *y = s->at + j * s->step;
    double most = -INFINITY;
    for (int32_t k = 0; k < s->n; k++)
        if (others[k] && x[k * s->across] < INFINITY) {
            double d = y[k * s->across] - x[k * s->across];
            most = d > most ? d : most;
        }
    return most;
}

// Returns whether label i of node v is never better than label j: j needs no
// more memory, and costs no more, whichever labels the neighbours of v have.
static int never_better(builder *b, int32_t v, int32_t i, int32_t j)
{
    dv_cgraph *g = b->g;
    int32_t at = g->first[v];
    double sum = g->cost[at + j] - g->cost[at + i];
    if (g->usage[at + j] > g->usage[at + i])
        return 0;
    for (int32_t k = g->adj_first[v]; k < g->adj_first[v + 1]; k++) {
        seen s = see(g, g->adj[k], v);
        sum += most_above(b, &s, i, j);
        g->work += s.n;
        if (sum == INFINITY)
            return 0;
    }
    return sum <= 0;
}

// Drops dominated labels of a node: another label is never worse. Returns
// whether there were any.
static int drop_dominated(builder *b, int32_t v)
{
    dv_cgraph *g = b->g;
    int32_t n = dv_n_labels(g, v);
    int64_t others = 1;
    int found = 0;
    b->compare[v] = 0;
    for (int32_t k = g->adj_first[v]; k < g->adj_first[v + 1]; k++)
        others += see(g, g->adj[k], v).n;
    if ((double)others * n * n > MAX_COMPARE)
        return 0;
    for (int32_t i = 0; i < n; i++)
        for (int32_t j = 0; b->feasible[g->first[v] + i] && j < n; j++)
            if (j != i && b->feasible[g->first[v] + j] &&
                never_better(b, v, i, j)) {
                b->feasible[g->first[v] + i] = 0;
                b->changed[v] = 1;
                found = 1;
            }
    return found;
}

// -- Times --------------------------------------------------------------------

typedef struct event {
    int64_t time;
    int32_t node;
    int starts;
} event;

// Sorts events by time. At the same time, ends come before starts.
static int by_time(const void *x, const void *y)
{
    const event *a = x, *b = y;
    if (a->time != b->time)
        return a->time < b->time ? -1 : 1;
    if (a->starts != b->starts)
        return a->starts - b->starts;
    return a->node < b->node ? -1 : a->node > b->node;
}

// Numbers the times at which a node ends after others have started. Only there
// can the usage be maximal: in between, the set of nodes in use only shrinks or
// only grows.
static dv_status number_times(builder *b)
{
    dv_cgraph *g = b->g;
    int32_t n = 0, pending = 0;
    event *events = DV_NEW(&g->arena, event, 2 * (int64_t)g->n_nodes);
    if (!events)
        return dv_nomem(b->diag);
    for (int32_t v = 0; v < g->n_nodes; v++) {
        int64_t most = 0;
        for (int32_t k = g->first[v]; k < g->first[v + 1]; k++)
            if (b->feasible[k])
                most = dv_max_i64(most, g->usage[k]);
        if (most == 0)
            continue;
        events[n++] = (event){b->p->nodes[v].start, v, 1};
        events[n++] = (event){b->p->nodes[v].end, v, 0};
    }
    qsort(events, (size_t)n, sizeof *events, by_time);
    for (int32_t i = 0; i < n; i++) {
        if (events[i].starts) {
            g->from[events[i].node] = g->n_times;
            pending = 1;
            continue;
        }
        g->n_times += pending;
        pending = 0;
        g->to[events[i].node] = g->n_times;
    }
    return DV_OK;
}

// Sets the room of each time, subtracts each node's least usage from the usages
// of its labels, and drops times at which every choice keeps to the limit.
static dv_status build_times(builder *b)
{
    dv_cgraph *g = b->g;
    DV_TRY(number_times(b));
    int64_t *most = DV_NEW(&g->arena, int64_t, g->n_times + 1);
    int32_t *index = DV_NEW(&g->arena, int32_t, g->n_times + 1);
    g->room = DV_NEW(&g->arena, int64_t, g->n_times + 1);
    if (!most || !index || !g->room)
        return dv_nomem(b->diag);
    // Store the first differences over time here; the prefix sums follow below.
    for (int32_t v = 0; v < g->n_nodes; v++) {
        int64_t low = INT64_MAX, high = 0;
        for (int32_t k = g->first[v]; k < g->first[v + 1]; k++)
            if (b->feasible[k]) {
                low = dv_min_i64(low, g->usage[k]);
                high = dv_max_i64(high, g->usage[k]);
            }
        if (g->from[v] < g->to[v]) {
            g->room[g->from[v]] += low;
            g->room[g->to[v]] -= low;
            most[g->from[v]] += high - low;
            most[g->to[v]] -= high - low;
        }
        for (int32_t k = g->first[v]; k < g->first[v + 1]; k++)
            g->usage[k] -= b->feasible[k] ? low : g->usage[k];
    }
    int64_t least_sum = 0, most_sum = 0;
    int32_t kept = 0;
    for (int32_t t = 0; t < g->n_times; t++) {
        least_sum += g->room[t];
        most_sum += most[t];
        int64_t room = b->p->usage_limit - least_sum;
        if (room < 0)
            return dv_fail(b->diag, DV_E_CAPACITY, DV_NOWHERE,
                           "every choice uses at least %" PRId64
                           " at some time, the limit is %" PRId64,
                           least_sum, b->p->usage_limit);
        index[t] = kept;
        if (most_sum > room) {
            most[kept] = 0;
            g->room[kept++] = room;
        }
    }
    index[g->n_times] = kept;
    g->n_times = kept;
    for (int32_t v = 0; v < g->n_nodes; v++) {
        g->from[v] = index[g->from[v]];
        g->to[v] = index[g->to[v]];
        if (g->from[v] == g->to[v])
            for (int32_t k = g->first[v]; k < g->first[v + 1]; k++)
                g->usage[k] = 0;
    }
    return DV_OK;
}

// -- The compact graph --------------------------------------------------------

// Copies the entries of an edge's remaining labels to b->table. `first` has the
// label numbers from before labels were dropped.
static void compact_table(builder *b, const int32_t *first, const dv_cedge *e)
{
    const char *rows = b->feasible + first[e->a];
    const char *columns = b->feasible + first[e->b];
    int32_t n = first[e->a + 1] - first[e->a];
    int32_t m = first[e->b + 1] - first[e->b];
    double *to = b->table;
    for (int32_t i = 0; i < n; i++)
        for (int32_t j = 0; rows[i] && j < m; j++)
            if (columns[j])
                *to++ = e->table[(int64_t)i * m + j];
}

// If one node of an edge has a single label, adds b->table to the label costs
// of the other node. Returns 0 if both have several labels.
static int merge_edge(builder *b, const dv_cedge *e)
{
    dv_cgraph *g = b->g;
    int32_t na = dv_n_labels(g, e->a), nb = dv_n_labels(g, e->b);
    int32_t v = nb == 1 ? e->a : e->b;
    if (na > 1 && nb > 1)
        return 0;
    for (int32_t i = 0; i < na * nb; i++)
        g->cost[g->first[v] + i] += b->table[i];
    return 1;
}

// Removes dropped labels from all arrays, and edges of nodes with a single
// label.
static dv_status compact(builder *b)
{
    dv_cgraph *g = b->g;
    int32_t n = g->n_nodes, at = 0, kept = 0;
    int32_t *old = g->first;
    g->first = DV_NEW(&g->arena, int32_t, n + 1);
    if (!g->first || !dv_ctables_init(&b->tables, &g->arena))
        return dv_nomem(b->diag);
    for (int32_t v = 0; v < n; v++) {
        for (int32_t k = old[v]; k < old[v + 1]; k++)
            if (b->feasible[k]) {
                g->cost[at] = g->cost[k];
                g->usage[at] = g->usage[k];
                g->strategy[at++] = g->strategy[k];
            }
        g->first[v + 1] = at;
    }
    for (int32_t e = 0; e < g->n_edges; e++) {
        dv_cedge d = g->edges[e];
        compact_table(b, old, &d);
        if (merge_edge(b, &d))
            continue;
        d.table = dv_ctables_add(&b->tables, b->table, dv_n_labels(g, d.a),
                                 dv_n_labels(g, d.b));
        if (!d.table)
            return dv_nomem(b->diag);
        g->edges[kept++] = d;
    }
    g->n_edges = kept;
    return build_adjacency(b);
}

// Returns the sum of the largest finite costs of all nodes and edges.
static double largest_sum(builder *b)
{
    const dv_cgraph *g = b->g;
    const dv_ctables *t = &b->tables;
    double sum = 1;
    for (int32_t i = 0; i < g->first[g->n_nodes]; i++)
        sum += g->cost[i];
    for (int32_t i = 0; i < t->n; i++) {
        double most = 0;
        for (int64_t k = 0; k < dv_ctable_size(&t->tables[i]); k++) {
            double x = t->tables[i].entries[k];
            most = x < INFINITY && x > most ? x : most;
        }
        sum += most * t->tables[i].uses;
        b->g->work += dv_ctable_size(&t->tables[i]);
    }
    return sum;
}

// Scales costs by a power of two, so that prices and messages have some bits
// below the caller's unit of cost, while sums remain exact in doubles.
static void scale(builder *b)
{
    dv_cgraph *g = b->g;
    dv_ctables *t = &b->tables;
    double sum = largest_sum(b);
    g->inexact = sum > 0x1p52;
    int shift = 46 - (int)ceil(log2(sum));
    shift = shift > 16 ? 16 : shift < 0 ? 0 : shift;
    g->scale = ldexp(1, shift);
    if (!shift)
        return;
    for (int32_t i = 0; i < g->first[g->n_nodes]; i++)
        g->cost[i] *= g->scale;
    for (int32_t i = 0; i < t->n; i++)
        for (int64_t k = 0; k < dv_ctable_size(&t->tables[i]); k++)
            t->tables[i].entries[k] *= g->scale;
}

dv_status dv_cgraph_build(dv_cgraph *g, const dv_choose_problem *p,
                          dv_diag *diag)
{
    builder b = {.g = g, .p = p, .diag = diag};
    DV_TRY(validate(&b));
    DV_TRY(build_nodes(&b));
    DV_TRY(build_edges(&b));
    DV_TRY(build_adjacency(&b));
    memset(b.changed, 1, (size_t)g->n_nodes);
    memset(b.compare, 1, (size_t)g->n_nodes);
    DV_TRY(drop_all_unsupported(&b));
    DV_TRY(build_times(&b));
    for (int pass = 0, found = 1; found && pass < 3; pass++) {
        found = 0;
        for (int32_t v = 0; v < g->n_nodes; v++)
            found |= b.compare[v] && drop_dominated(&b, v);
        DV_TRY(drop_all_unsupported(&b));
    }
    DV_TRY(compact(&b));
    scale(&b);
    return DV_OK;
}

void dv_cgraph_free(dv_cgraph *g)
{
    dv_arena_free(&g->arena);
}
