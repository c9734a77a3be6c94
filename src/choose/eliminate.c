// Exact elimination of nodes. A node is replaced by a table over its
// neighbours: the least cost of its labels and edges for each combination of
// their labels. With one neighbour that table is added to the neighbour's
// costs, with two neighbours to the edge between them. What remains is the
// core.
//
// The order is planned once. Tables of eliminated nodes stay as they are, so
// that a label is read back as the least sum, given the neighbours' labels.
#include "choose/choose.h"
#include "choose/minplus.h"
#include <string.h>

// A node with two neighbours is eliminated only if its elimination reads at
// most MAX_PAIR_WORK table entries.
enum { MAX_PAIR_WORK = 1 << 17 };

typedef struct step {
    int32_t v, degree;
    int32_t edges[2]; // to the neighbours, lower one first
    int32_t out;      // edge between the neighbours
    int first;        // 1: the first step that adds to `out`
} step;

struct dv_elimination {
    dv_cgraph *g;
    step *steps;
    int32_t n_steps;
    dv_cedge *edges;     // of the graph, then those that steps add
    const double **base; // table of each edge before elimination; NULL: zeros
    int32_t n_edges, cap_edges, cap_base;
    double *row, *least, *transposed; // scratch of one step
    int32_t *core_nodes;
    dv_cedge *core_edges;
    int32_t n_core_nodes, n_core_edges;
};

// -- Planning -----------------------------------------------------------------

typedef struct links {
    int32_t *edges;
    int32_t n, cap;
} links;

typedef struct planner {
    dv_elimination *el;
    links *of;         // edges of each node that is not eliminated
    char *gone;        // nodes that are eliminated
    char *added;       // of each node in a queue: 1 + number of the queue
    int32_t *queue[2]; // nodes with at most one neighbour; with two
    int32_t head[2], tail[2];
    int32_t n; // length of each queue
} planner;

static int32_t other_end(const dv_elimination *el, int32_t e, int32_t v)
{
    return el->edges[e].a == v ? el->edges[e].b : el->edges[e].a;
}

static void enqueue(planner *p, int32_t v)
{
    int q = p->of[v].n == 2;
    if (p->gone[v] || p->of[v].n > 2 || p->added[v] == q + 1)
        return;
    p->added[v] = (char)(q + 1);
    p->queue[q][p->tail[q]] = v;
    p->tail[q] = (p->tail[q] + 1) % p->n;
}

static void unlink_edge(links *l, int32_t e)
{
    for (int32_t i = 0; i < l->n; i++)
        if (l->edges[i] == e) {
            l->edges[i] = l->edges[--l->n];
            return;
        }
}

// Returns the edge between two nodes, or -1.
static int32_t find_edge(const planner *p, int32_t a, int32_t b)
{
    const links *l = p->of[a].n < p->of[b].n ? &p->of[a] : &p->of[b];
    int32_t from = l == &p->of[a] ? a : b;
    for (int32_t i = 0; i < l->n; i++)
        if (other_end(p->el, l->edges[i], from) == a + b - from)
            return l->edges[i];
    return -1;
}

static int32_t add_edge(planner *p, int32_t a, int32_t b)
{
    dv_elimination *el = p->el;
    dv_arena *arena = &el->g->arena;
    int32_t n = el->n_edges;
    dv_cedge *d =
        DV_PUSH(arena, dv_cedge, el->edges, el->n_edges, el->cap_edges);
    const double **base =
        DV_PUSH(arena, const double *, el->base, n, el->cap_base);
    int32_t *x =
        DV_PUSH(arena, int32_t, p->of[a].edges, p->of[a].n, p->of[a].cap);
    int32_t *y =
        DV_PUSH(arena, int32_t, p->of[b].edges, p->of[b].n, p->of[b].cap);
    if (!d || !base || !x || !y)
        return -1;
    *d = (dv_cedge){a, b, NULL};
    *base = NULL;
    return *x = *y = el->n_edges - 1;
}

// Plans the elimination of a node with two neighbours. Returns 0 if out of
// memory.
static int plan_pair(planner *p, step *s)
{
    dv_elimination *el = p->el;
    int32_t a = other_end(el, s->edges[0], s->v);
    int32_t b = other_end(el, s->edges[1], s->v);
    if (a > b) {
        int32_t e = s->edges[0], t = a;
        s->edges[0] = s->edges[1];
        s->edges[1] = e;
        a = b;
        b = t;
    }
    s->out = find_edge(p, a, b);
    if (s->out < 0)
        s->out = add_edge(p, a, b);
    if (s->out < 0)
        return 0;
    dv_cedge *out = &el->edges[s->out];
    if (out->table == el->base[s->out]) {
        s->first = 1;
        out->table =
            DV_NEW(&el->g->arena, double,
                   (int64_t)dv_n_labels(el->g, a) * dv_n_labels(el->g, b));
    }
    return out->table != NULL;
}

// Plans to eliminate v if it has at most two neighbours and its tables are
// small. Returns 0 if out of memory.
static int plan_node(planner *p, int32_t v)
{
    dv_elimination *el = p->el;
    links *l = &p->of[v];
    int64_t work = dv_n_labels(el->g, v);
    for (int32_t i = 0; i < l->n && l->n <= 2; i++)
        work *= dv_n_labels(el->g, other_end(el, l->edges[i], v));
    if (p->gone[v] || l->n > 2 || (l->n == 2 && work > MAX_PAIR_WORK))
        return 1;
    step *s = &el->steps[el->n_steps++];
    *s = (step){.v = v, .degree = l->n, .out = -1};
    p->gone[v] = 1;
    for (int32_t i = 0; i < l->n; i++)
        s->edges[i] = l->edges[i];
    for (int32_t i = 0; i < s->degree; i++)
        unlink_edge(&p->of[other_end(el, s->edges[i], v)], s->edges[i]);
    if (s->degree == 2 && !plan_pair(p, s))
        return 0;
    for (int32_t i = 0; i < s->degree; i++)
        enqueue(p, other_end(el, s->edges[i], v));
    return 1;
}

// Lists the core (the nodes and edges that are not eliminated) and allocates
// scratch memory for the elimination steps.
static int plan_core(planner *p)
{
    dv_elimination *el = p->el;
    dv_cgraph *g = el->g;
    int64_t most = 1, most_transposed = 1;
    el->core_nodes = DV_NEW(&g->arena, int32_t, g->n_nodes);
    el->core_edges = DV_NEW(&g->arena, dv_cedge, el->n_edges);
    for (int32_t v = 0; v < g->n_nodes; v++)
        most = dv_n_labels(g, v) > most ? dv_n_labels(g, v) : most;
    el->row = DV_NEW(&g->arena, double, most);
    el->least = DV_NEW(&g->arena, double, most);
    for (int32_t i = 0; i < el->n_steps; i++)
        if (el->steps[i].degree == 2) {
            int64_t size = (int64_t)dv_n_labels(g, el->steps[i].v) *
                           dv_n_labels(g, el->edges[el->steps[i].out].b);
            most_transposed = size > most_transposed ? size : most_transposed;
        }
    el->transposed = DV_NEW(&g->arena, double, most_transposed);
    if (!el->core_nodes || !el->core_edges || !el->row || !el->least ||
        !el->transposed)
        return 0;
    for (int32_t v = 0; v < g->n_nodes; v++)
        if (!p->gone[v])
            el->core_nodes[el->n_core_nodes++] = v;
    for (int32_t e = 0; e < el->n_edges; e++)
        if (!p->gone[el->edges[e].a] && !p->gone[el->edges[e].b])
            el->core_edges[el->n_core_edges++] = el->edges[e];
    return 1;
}

static int plan(planner *p)
{
    dv_elimination *el = p->el;
    dv_cgraph *g = el->g;
    dv_arena *arena = &g->arena;
    int32_t n = g->n_nodes;
    // Room for all nodes in each queue, since a node is queued at most once.
    p->n = n + 1;
    p->of = DV_NEW(arena, links, n);
    p->gone = DV_NEW(arena, char, n);
    p->added = DV_NEW(arena, char, n);
    p->queue[0] = DV_NEW(arena, int32_t, p->n);
    p->queue[1] = DV_NEW(arena, int32_t, p->n);
    el->steps = DV_NEW(arena, step, n);
    el->n_edges = el->cap_edges = el->cap_base = g->n_edges;
    el->edges = DV_NEW(arena, dv_cedge, g->n_edges);
    el->base = DV_NEW(arena, const double *, g->n_edges);
    if (!p->of || !p->gone || !p->added || !p->queue[0] || !p->queue[1] ||
        !el->steps || !el->edges || !el->base)
        return 0;
    for (int32_t e = 0; e < g->n_edges; e++) {
        el->edges[e] = g->edges[e];
        el->base[e] = g->edges[e].table;
    }
    for (int32_t v = 0; v < n; v++) {
        links *l = &p->of[v];
        l->n = l->cap = g->adj_first[v + 1] - g->adj_first[v];
        l->edges = DV_NEW(arena, int32_t, l->n);
        if (!l->edges)
            return 0;
        memcpy(l->edges, g->adj + g->adj_first[v],
               (size_t)l->n * sizeof *l->edges);
        enqueue(p, v);
    }
    for (;;) {
        int q = p->head[0] == p->tail[0];
        if (p->head[q] == p->tail[q])
            break;
        int32_t v = p->queue[q][p->head[q]];
        p->head[q] = (p->head[q] + 1) % p->n;
        if (p->added[v] == q + 1)
            p->added[v] = 0;
        if (!plan_node(p, v))
            return 0;
    }
    return plan_core(p);
}

dv_status dv_elimination_plan(dv_elimination **out, dv_cgraph *g, dv_diag *diag)
{
    dv_elimination *el = DV_NEW(&g->arena, dv_elimination, 1);
    planner p = {.el = el};
    if (!el)
        return dv_nomem(diag);
    el->g = g;
    if (!plan(&p))
        return dv_nomem(diag);
    *out = el;
    return DV_OK;
}

const int32_t *dv_core_nodes(const dv_elimination *el, int32_t *n)
{
    *n = el->n_core_nodes;
    return el->core_nodes;
}

const dv_cedge *dv_core_edges(const dv_elimination *el, int32_t *n)
{
    *n = el->n_core_edges;
    return el->core_edges;
}

// -- Elimination --------------------------------------------------------------

static void eliminate_leaf(dv_elimination *el, const step *s, double *theta,
                           int64_t *work)
{
    const dv_cgraph *g = el->g;
    const dv_cedge *d = &el->edges[s->edges[0]];
    int32_t u = other_end(el, s->edges[0], s->v);
    int32_t n = dv_n_labels(g, d->a), m = dv_n_labels(g, d->b);
    const double *own = theta + g->first[s->v];
    if (d->a == u)
        dv_minplus_rows(el->row, own, d->table, n, m);
    else
        dv_minplus_columns(el->row, own, d->table, n, m);
    for (int32_t i = 0; i < dv_n_labels(g, u); i++)
        theta[g->first[u] + i] += el->row[i];
    *work += (int64_t)n * m;
}

static void eliminate_pair(dv_elimination *el, const step *s, double *theta,
                           int64_t *work)
{
    const dv_cgraph *g = el->g;
    const dv_cedge *left = &el->edges[s->edges[0]];
    const dv_cedge *right = &el->edges[s->edges[1]];
    const dv_cedge *out = &el->edges[s->out];
    const double *base = s->first ? el->base[s->out] : out->table;
    const double *own = theta + g->first[s->v], *across = right->table;
    int32_t n = dv_n_labels(g, out->a), m = dv_n_labels(g, out->b);
    int32_t k = dv_n_labels(g, s->v);
    if (right->b == s->v) { // transpose it, so that rows are labels of v
        for (int32_t j = 0; j < m; j++)
            for (int32_t i = 0; i < k; i++)
                el->transposed[(int64_t)i * m + j] = across[(int64_t)j * k + i];
        across = el->transposed;
    }
    for (int32_t i = 0; i < n; i++) {
        double *to = out->table + (int64_t)i * m;
        const double *from = base ? base + (int64_t)i * m : NULL;
        for (int32_t y = 0; y < k; y++)
            el->row[y] =
                own[y] + left->table[left->a == s->v ? (int64_t)y * n + i
                                                     : (int64_t)i * k + y];
        dv_minplus_columns(el->least, el->row, across, k, m);
        for (int32_t j = 0; j < m; j++)
            to[j] = el->least[j] + (from ? from[j] : 0);
    }
    *work += (int64_t)n * m * k;
}

double dv_eliminate(dv_elimination *el, double *theta, int64_t *work)
{
    const dv_cgraph *g = el->g;
    double bound = 0;
    for (int32_t i = 0; i < el->n_steps; i++) {
        const step *s = &el->steps[i];
        const double *own = theta + g->first[s->v];
        if (s->degree == 0)
            bound += own[dv_least(own, dv_n_labels(g, s->v))];
        else if (s->degree == 1)
            eliminate_leaf(el, s, theta, work);
        else
            eliminate_pair(el, s, theta, work);
    }
    return bound;
}

void dv_eliminate_back(const dv_elimination *el, const double *theta,
                       int32_t *x)
{
    const dv_cgraph *g = el->g;
    for (int32_t i = el->n_steps - 1; i >= 0; i--) {
        const step *s = &el->steps[i];
        const double *own = theta + g->first[s->v];
        int32_t n = dv_n_labels(g, s->v);
        memcpy(el->row, own, (size_t)n * sizeof *own);
        for (int32_t k = 0; k < s->degree; k++) {
            const dv_cedge *d = &el->edges[s->edges[k]];
            int32_t u = other_end(el, s->edges[k], s->v);
            int64_t m = dv_n_labels(g, d->b);
            for (int32_t y = 0; y < n; y++)
                el->row[y] +=
                    d->table[d->a == s->v ? y * m + x[u] : x[u] * m + y];
        }
        x[s->v] = dv_least(el->row, n);
    }
}
