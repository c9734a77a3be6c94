// Local search that changes trees of nodes at once. A tree grows around a
// random node; a node joins if it has exactly one neighbour in the tree, so
// that the best labels of all its nodes, given those of all others, follow
// from one pass of dynamic programming.
//
// Usage is priced: a tree pays for the memory it uses, so that memory goes
// where it saves most. If the result exceeds the limit, the tree is solved
// again at higher prices. Rounds at the prices of the relaxation, which may
// make a choice dearer in order to free memory, take turns with rounds that
// only accept what is cheaper.
#include "base/random.h"
#include "choose/choose.h"
#include "choose/minplus.h"
#include <math.h>
#include <string.h>

// A tree of nodes that are changed at once has 2^LOG_LEAST to 2^LOG_MOST nodes,
// if it can grow so far.
enum { LOG_LEAST = 3, LOG_MOST = 9, MAX_TREE = 1 << LOG_MOST };
// To repair a choice that exceeds the memory limit, trees have up to
// 2^LOG_REPAIR nodes.
enum { LOG_REPAIR = 6 };
// A tree is solved at most MAX_TRIALS times, at rising prices of memory.
enum { MAX_TRIALS = 4 };
// A repair doubles the price after MAX_MISSES trees in turn without gain, and
// gives up after MAX_RAISES doublings.
enum { MAX_MISSES = 16, MAX_RAISES = 30 };

typedef struct member {
    int32_t v;      // the node
    int32_t parent; // index of its parent in the tree; -1: it is the root
    int32_t edge;   // the edge to the parent
    int32_t old;    // its label before the tree was solved
    int64_t at;     // index of its first label in `theta` and `fixed`
} member;

struct dv_ctrees {
    dv_cchoice *c;
    int32_t *near; // of each node: its neighbours in the tree
    char *inside;  // nodes in the tree
    member *tree;
    int32_t n;
    double *fixed; // costs of the tree's labels with nodes outside
    double *theta; // the same with prices and the costs of the nodes below
    double *row;
    int64_t cap;  // of `fixed` and `theta`
    int32_t time; // at which usage costs `rate` more; -1: none
    double rate;
};

dv_status dv_ctrees_create(dv_ctrees **out, dv_cchoice *c, dv_arena *arena,
                           dv_diag *diag)
{
    const dv_cgraph *g = c->g;
    dv_ctrees *t = DV_NEW(arena, dv_ctrees, 1);
    int32_t most = 1;
    if (!t)
        return dv_nomem(diag);
    for (int32_t v = 0; v < g->n_nodes; v++)
        most = dv_n_labels(g, v) > most ? dv_n_labels(g, v) : most;
    t->c = c;
    t->cap = (int64_t)most * MAX_TREE;
    if (t->cap > g->first[g->n_nodes])
        t->cap = g->first[g->n_nodes];
    t->near = DV_NEW(arena, int32_t, g->n_nodes);
    t->inside = DV_NEW(arena, char, g->n_nodes);
    t->tree = DV_NEW(arena, member, MAX_TREE);
    t->fixed = DV_NEW(arena, double, t->cap);
    t->theta = DV_NEW(arena, double, t->cap);
    t->row = DV_NEW(arena, double, most);
    if (!t->near || !t->inside || !t->tree || !t->fixed || !t->theta || !t->row)
        return dv_nomem(diag);
    *out = t;
    return DV_OK;
}

static int32_t other_end(const dv_cedge *d, int32_t v)
{
    return d->a == v ? d->b : d->a;
}

// -- Growing a tree -----------------------------------------------------------

static void add_member(dv_ctrees *t, int32_t v, int32_t parent, int32_t edge)
{
    const dv_cgraph *g = t->c->g;
    int64_t at = 0;
    if (t->n) {
        const member *last = &t->tree[t->n - 1];
        at = last->at + dv_n_labels(g, last->v);
    }
    t->tree[t->n++] = (member){v, parent, edge, t->c->x[v], at};
    t->inside[v] = 1;
    for (int32_t k = g->adj_first[v]; k < g->adj_first[v + 1]; k++)
        t->near[other_end(&g->edges[g->adj[k]], v)]++;
}

static void grow(dv_ctrees *t, int32_t root, int32_t most)
{
    const dv_cgraph *g = t->c->g;
    t->n = 0;
    add_member(t, root, -1, -1);
    for (int32_t i = 0; i < t->n && t->n < most; i++) {
        int32_t v = t->tree[i].v, first = g->adj_first[v];
        int32_t n = g->adj_first[v + 1] - first;
        // Begin at a random edge, so that repeated trees around a node differ.
        int32_t skip = n ? dv_draw_below(&t->c->random, n) : 0;
        for (int32_t k = 0; k < n && t->n < most; k++) {
            int32_t e = g->adj[first + (k + skip) % n];
            int32_t u = other_end(&g->edges[e], v);
            if (!t->inside[u] && t->near[u] == 1 && dv_n_labels(g, u) > 1)
                add_member(t, u, i, e);
        }
    }
}

static void forget(dv_ctrees *t)
{
    const dv_cgraph *g = t->c->g;
    for (int32_t i = 0; i < t->n; i++) {
        int32_t v = t->tree[i].v;
        t->inside[v] = 0;
        for (int32_t k = g->adj_first[v]; k < g->adj_first[v + 1]; k++)
            t->near[other_end(&g->edges[g->adj[k]], v)] = 0;
    }
}

// -- Solving a tree -----------------------------------------------------------

static void add_entries(double *to, const dv_cgraph *g, const dv_cedge *d,
                        int32_t v, int32_t label)
{
    int32_t n = dv_n_labels(g, v);
    int64_t m = dv_n_labels(g, d->b);
    if (d->a == v)
        for (int32_t i = 0; i < n; i++)
            to[i] += d->table[i * m + label];
    else
        for (int32_t i = 0; i < n; i++)
            to[i] += d->table[label * m + i];
}

// Sets `fixed`: the cost of each label of the tree's nodes, including edges to
// nodes outside the tree.
static void fix(dv_ctrees *t)
{
    const dv_cgraph *g = t->c->g;
    for (int32_t i = 0; i < t->n; i++) {
        int32_t v = t->tree[i].v, n = dv_n_labels(g, v);
        double *to = t->fixed + t->tree[i].at;
        memcpy(to, g->cost + g->first[v], (size_t)n * sizeof *to);
        for (int32_t k = g->adj_first[v]; k < g->adj_first[v + 1]; k++) {
            const dv_cedge *d = &g->edges[g->adj[k]];
            int32_t u = other_end(d, v);
            if (!t->inside[u]) {
                add_entries(to, g, d, v, t->c->x[u]);
                t->c->work += n;
            }
        }
        t->c->work += 16 + n;
    }
}

// Sets the labels of the tree's nodes to the cheapest ones at prices of memory
// times `factor`.
static void solve(dv_ctrees *t, double factor)
{
    const dv_cgraph *g = t->c->g;
    for (int32_t i = 0; i < t->n; i++) {
        const member *m = &t->tree[i];
        const int64_t *usage = g->usage + g->first[m->v];
        double price = t->c->each[m->v] * factor;
        if (g->from[m->v] <= t->time && t->time < g->to[m->v])
            price += t->rate;
        for (int32_t k = 0; k < dv_n_labels(g, m->v); k++)
            t->theta[m->at + k] =
                t->fixed[m->at + k] + floor(price * (double)usage[k]);
    }
    for (int32_t i = t->n - 1; i > 0; i--) {
        const member *m = &t->tree[i];
        const dv_cedge *d = &g->edges[m->edge];
        double *to = t->theta + t->tree[m->parent].at;
        const double *own = t->theta + m->at;
        int32_t na = dv_n_labels(g, d->a), nb = dv_n_labels(g, d->b);
        if (d->b == m->v)
            dv_minplus_rows(t->row, own, d->table, na, nb);
        else
            dv_minplus_columns(t->row, own, d->table, na, nb);
        for (int32_t k = 0; k < (d->b == m->v ? na : nb); k++)
            to[k] += t->row[k];
        t->c->work += (int64_t)na * nb;
    }
    for (int32_t i = 0; i < t->n; i++) {
        const member *m = &t->tree[i];
        int32_t n = dv_n_labels(g, m->v);
        memcpy(t->row, t->theta + m->at, (size_t)n * sizeof *t->row);
        if (i)
            add_entries(t->row, g, &g->edges[m->edge], m->v,
                        t->c->x[t->tree[m->parent].v]);
        t->c->x[m->v] = dv_least(t->row, n);
    }
}

// Returns the cost of the tree's labels without prices; *price is the price of
// the memory that they use.
static double tree_cost(const dv_ctrees *t, double *price)
{
    const dv_cgraph *g = t->c->g;
    double cost = 0;
    *price = 0;
    for (int32_t i = 0; i < t->n; i++) {
        const member *m = &t->tree[i];
        int32_t label = t->c->x[m->v];
        cost += t->fixed[m->at + label];
        *price += floor(t->c->each[m->v] * (double)dv_cusage(g, m->v, label));
        if (i) {
            const dv_cedge *d = &g->edges[m->edge];
            cost += d->table[(int64_t)t->c->x[d->a] * dv_n_labels(g, d->b) +
                             t->c->x[d->b]];
        }
    }
    return cost;
}

// Adds the tree's change of memory to the load (sign 1), or takes it back (-1).
static void move_load(dv_ctrees *t, int sign)
{
    const dv_cgraph *g = t->c->g;
    for (int32_t i = 0; i < t->n; i++) {
        const member *m = &t->tree[i];
        int64_t more =
            dv_cusage(g, m->v, t->c->x[m->v]) - dv_cusage(g, m->v, m->old);
        dv_cload_add(&t->c->load, g->from[m->v], g->to[m->v], sign * more);
    }
}

static void take_back(dv_ctrees *t)
{
    for (int32_t i = 0; i < t->n; i++)
        t->c->x[t->tree[i].v] = t->tree[i].old;
}

// Changes the labels of the tree, if that lowers the cost with prices times
// `weight` and keeps to the memory limit.
static void improve_tree(dv_ctrees *t, double weight)
{
    double old_price, price, factor = weight;
    fix(t);
    double old_cost = tree_cost(t, &old_price);
    for (int trial = 0; trial < MAX_TRIALS; trial++) {
        solve(t, factor);
        double cost = tree_cost(t, &price);
        double less = old_cost - cost + weight * (old_price - price);
        if (less > 0) {
            move_load(t, 1);
            if (dv_cload_worst(&t->c->load) < 0) {
                t->c->cost += cost - old_cost;
                return;
            }
            move_load(t, -1);
        }
        take_back(t);
        if (less <= 0 && factor > 0)
            return;
        factor = factor == 0 ? 0.5 : 2 * factor;
    }
}

double dv_ctrees_run(dv_ctrees *t, double weight, int64_t work)
{
    const dv_cgraph *g = t->c->g;
    int64_t end = t->c->work + work;
    t->time = -1;
    while (t->c->work < end) {
        int32_t v = dv_draw_below(&t->c->random, g->n_nodes);
        int log =
            LOG_LEAST + dv_draw_below(&t->c->random, LOG_MOST - LOG_LEAST + 1);
        t->c->work += 8;
        if (dv_n_labels(g, v) < 2)
            continue;
        grow(t, v, 1 << log);
        improve_tree(t, weight);
        forget(t);
    }
    return t->c->cost;
}

// Returns whether node v uses memory at the time that is being repaired, which
// exceeds the limit.
static int is_repairable(const dv_ctrees *t, int32_t v)
{
    const dv_cgraph *g = t->c->g;
    return dv_n_labels(g, v) > 1 && g->from[v] <= t->time &&
           t->time < g->to[v] && dv_cusage(g, v, t->c->x[v]) > 0;
}

// Lowers the usage at `time` by changing the labels of the tree, if that does
// not raise the greatest excess of all times. Returns 0 if it fails.
static int repair_tree(dv_ctrees *t)
{
    const dv_cgraph *g = t->c->g;
    int64_t more = 0, excess = dv_cload_max(&t->c->load, t->time, t->time + 1);
    fix(t);
    solve(t, 1);
    for (int32_t i = 0; i < t->n; i++) {
        const member *m = &t->tree[i];
        if (g->from[m->v] <= t->time && t->time < g->to[m->v])
            more +=
                dv_cusage(g, m->v, t->c->x[m->v]) - dv_cusage(g, m->v, m->old);
    }
    if (more < 0) {
        move_load(t, 1);
        if (dv_cload_max(&t->c->load, 0, g->n_times) <= excess)
            return 1;
        move_load(t, -1);
    }
    take_back(t);
    return 0;
}

int dv_ctrees_repair(dv_ctrees *t, const int32_t *x, double rate, int64_t work)
{
    const dv_cgraph *g = t->c->g;
    int64_t end = t->c->work + work;
    int misses = 0, raises = 0;
    dv_cchoice_start(t->c, x, 0);
    t->rate = rate;
    while ((t->time = dv_cload_worst(&t->c->load)) >= 0) {
        if (t->c->work >= end || raises > MAX_RAISES)
            return 0;
        int32_t v = dv_draw_below(&t->c->random, g->n_nodes);
        t->c->work += 2;
        if (!is_repairable(t, v))
            continue;
        grow(t, v,
             1 << (LOG_LEAST +
                   dv_draw_below(&t->c->random, LOG_REPAIR - LOG_LEAST + 1)));
        misses = repair_tree(t) ? 0 : misses + 1;
        forget(t);
        if (misses == MAX_MISSES) {
            t->rate *= 2;
            misses = 0;
            raises++;
        }
    }
    return 1;
}
