// Exact elimination of nodes. A node is replaced by a table over its
// neighbours: the least cost of its labels and edges for each combination of
// their labels. With one neighbour that table is added to the neighbour's
// costs, with two neighbours to the edge between them. If a connected component
// remains that can be eliminated altogether with small tables over more
// neighbours, this is done as well; otherwise it becomes the core.
//
// The order is planned once. Tables of eliminated nodes stay as they are, so
// that a label is read back as the least sum, given the neighbours' labels.
#include "choose/choose.h"
#include "choose/minplus.h"
#include <string.h>

enum {
    MAX_PAIR_WORK = 1 << 17,  // table entries per node with two neighbours
    MAX_NODE_WORK = 1 << 18,  // the same with more neighbours
    MAX_PART_WORK = 1 << 20,  // and for all nodes of a component
    MAX_PART_NODES = 1 << 10, // of a component
    MAX_SCOPE = 10,           // neighbours of a node
    MAX_INPUTS = MAX_PART_NODES + MAX_SCOPE, // tables of a node
};

// A table over several nodes, seen from a node that is being eliminated.
typedef struct input {
    const double *const *table; // where the current table of an edge is
    int64_t stride_v;
    int64_t strides[MAX_SCOPE]; // along the neighbours, in scope order
} input;

// Elimination of a node with more than two neighbours, or of one whose tables
// have more than two nodes.
typedef struct wide {
    int32_t n_scope, n_inputs;
    int32_t scope[MAX_SCOPE]; // the neighbours; the last one varies fastest
    input *inputs;
    double *table; // result, over the scope
    int64_t size;
    int used; // 1: it is an input of a later step
} wide;

typedef struct step {
    int32_t v, degree;
    int32_t edges[2]; // to the neighbours, lower one first
    int32_t out;      // edge between the neighbours
    int first;        // 1: the first step that adds to `out`
    wide *w;          // NULL: at most two neighbours
} step;

struct dv_elimination {
    dv_cgraph *g;
    step *steps;
    int32_t n_steps;
    dv_cedge *edges;     // of the graph, then those that steps add
    const double **base; // table of each edge before elimination; NULL: zeros
    int32_t n_edges, cap_edges, cap_base;
    double *row, *least, *turned; // scratch of one step
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

// Eliminates v if it has at most two neighbours and its tables are small.
// Returns 0 if out of memory.
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

// -- Components with tables over more than two nodes --------------------------

// A connected component of what remains, while its elimination is tried.
typedef struct part {
    int32_t *nodes; // all nodes of the component
    int32_t n;
    int32_t *place; // of each node of the graph: its number here
    links *near;    // neighbours of each node, also by tables of steps
    int32_t *order; // of elimination
} part;

static int contains(const links *l, int32_t x)
{
    for (int32_t i = 0; i < l->n; i++)
        if (l->edges[i] == x)
            return 1;
    return 0;
}

static double elimination_work(const dv_cgraph *g, const part *c, int32_t i)
{
    double work = dv_n_labels(g, c->nodes[i]);
    if (c->near[i].n > MAX_SCOPE)
        return INFINITY;
    for (int32_t k = 0; k < c->near[i].n; k++)
        work *= dv_n_labels(g, c->nodes[c->near[i].edges[k]]);
    return work;
}

// Finds an order of elimination, the cheapest node first. Returns 1 if the
// tables are small, 0 if not, -1 if out of memory.
static int order_part(planner *p, part *c)
{
    dv_cgraph *g = p->el->g;
    double total = 0;
    for (int32_t i = 0; i < c->n; i++)
        for (int32_t k = 0; k < p->of[c->nodes[i]].n; k++) {
            int32_t u =
                other_end(p->el, p->of[c->nodes[i]].edges[k], c->nodes[i]);
            int32_t *x = DV_PUSH(&g->arena, int32_t, c->near[i].edges,
                                 c->near[i].n, c->near[i].cap);
            if (!x)
                return -1;
            *x = c->place[u];
        }
    for (int32_t done = 0; done < c->n; done++) {
        int32_t at = -1;
        double least = INFINITY;
        for (int32_t i = 0; i < c->n; i++) {
            double work =
                p->gone[c->nodes[i]] ? INFINITY : elimination_work(g, c, i);
            if (work < least) {
                least = work;
                at = i;
            }
        }
        total += least;
        if (least > MAX_NODE_WORK || total > MAX_PART_WORK)
            return 0;
        c->order[done] = at;
        p->gone[c->nodes[at]] = 1;
        const links *l = &c->near[at];
        for (int32_t i = 0; i < l->n; i++) {
            links *m = &c->near[l->edges[i]];
            unlink_edge(m, at);
            for (int32_t k = 0; k < l->n; k++) {
                if (k == i || contains(m, l->edges[k]))
                    continue;
                int32_t *x =
                    DV_PUSH(&g->arena, int32_t, m->edges, m->n, m->cap);
                if (!x)
                    return -1;
                *x = l->edges[k];
            }
        }
    }
    return 1;
}

static int scope_index(const wide *w, int32_t v)
{
    int i = 0;
    while (w->scope[i] != v)
        i++;
    return i;
}

// Makes an edge of v an input of its step.
static void take_edge(planner *p, wide *w, int32_t v, int32_t e)
{
    const dv_cedge *d = &p->el->edges[e];
    input *in = &w->inputs[w->n_inputs++];
    int64_t m = dv_n_labels(p->el->g, d->b);
    memset(in, 0, sizeof *in);
    in->table = (const double *const *)&d->table;
    in->stride_v = d->a == v ? m : 1;
    in->strides[scope_index(w, other_end(p->el, e, v))] = d->a == v ? 1 : m;
}

// Makes the table of an earlier step an input if it has v.
static void take_table(planner *p, wide *w, int32_t v, wide *from)
{
    int64_t stride = 1;
    int has = 0;
    for (int32_t i = 0; i < from->n_scope; i++)
        has |= from->scope[i] == v;
    if (!has || from->used || from->n_scope < 2)
        return;
    from->used = 1;
    input *in = &w->inputs[w->n_inputs++];
    memset(in, 0, sizeof *in);
    in->table = (const double *const *)&from->table;
    for (int32_t i = from->n_scope - 1; i >= 0; i--) {
        if (from->scope[i] == v)
            in->stride_v = stride;
        else
            in->strides[scope_index(w, from->scope[i])] = stride;
        stride *= dv_n_labels(p->el->g, from->scope[i]);
    }
}

// Adds the steps of a component in its order. Returns 0 if out of memory.
static int plan_wide(planner *p, part *c)
{
    dv_elimination *el = p->el;
    int32_t first_step = el->n_steps;
    for (int32_t k = 0; k < c->n; k++) {
        int32_t i = c->order[k], v = c->nodes[i];
        wide *w = DV_NEW(&el->g->arena, wide, 1);
        if (!w)
            return 0;
        w->n_scope = c->near[i].n;
        w->size = 1;
        for (int32_t j = 0; j < w->n_scope; j++) {
            w->scope[j] = c->nodes[c->near[i].edges[j]];
            w->size *= dv_n_labels(el->g, w->scope[j]);
        }
        w->table = DV_NEW(&el->g->arena, double, w->size);
        w->inputs = DV_NEW(&el->g->arena, input, p->of[v].n + k);
        if (!w->table || !w->inputs)
            return 0;
        // Edges to nodes that were eliminated earlier are in their tables.
        for (int32_t j = 0; j < p->of[v].n; j++)
            if (contains(&c->near[i],
                         c->place[other_end(el, p->of[v].edges[j], v)]))
                take_edge(p, w, v, p->of[v].edges[j]);
        for (int32_t j = first_step; j < el->n_steps; j++)
            take_table(p, w, v, el->steps[j].w);
        el->steps[el->n_steps++] = (step){.v = v, .w = w};
    }
    return 1;
}

// Collects the component of `from` among the nodes that are not gone. `place`
// is -1 for nodes not seen yet.
static void collect(planner *p, part *c, int32_t from)
{
    c->n = 0;
    c->place[from] = c->n;
    c->nodes[c->n++] = from;
    for (int32_t i = 0; i < c->n; i++) {
        const links *l = &p->of[c->nodes[i]];
        for (int32_t k = 0; k < l->n; k++) {
            int32_t u = other_end(p->el, l->edges[k], c->nodes[i]);
            if (c->place[u] < 0) {
                c->place[u] = c->n;
                c->nodes[c->n++] = u;
            }
        }
    }
}

// Eliminates components if possible. Returns 0 if out of memory.
static int plan_parts(planner *p)
{
    dv_cgraph *g = p->el->g;
    part c = {.nodes = DV_NEW(&g->arena, int32_t, g->n_nodes),
              .place = DV_NEW(&g->arena, int32_t, g->n_nodes),
              .order = DV_NEW(&g->arena, int32_t, MAX_PART_NODES)};
    if (!c.nodes || !c.place || !c.order)
        return 0;
    memset(c.place, -1, (size_t)g->n_nodes * sizeof *c.place);
    for (int32_t v = 0; v < g->n_nodes; v++) {
        if (p->gone[v] || c.place[v] >= 0)
            continue;
        collect(p, &c, v);
        if (c.n > MAX_PART_NODES)
            continue;
        c.near = DV_NEW(&g->arena, links, c.n);
        int small = c.near ? order_part(p, &c) : -1;
        if (small < 0 || (small > 0 && !plan_wide(p, &c)))
            return 0;
        for (int32_t i = 0; small == 0 && i < c.n; i++)
            p->gone[c.nodes[i]] = 0;
    }
    return 1;
}

// Lists the core and allocates the scratch memory of steps.
static int plan_core(planner *p)
{
    dv_elimination *el = p->el;
    dv_cgraph *g = el->g;
    int64_t most = 1, most_turned = 1;
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
            most_turned = size > most_turned ? size : most_turned;
        }
    el->turned = DV_NEW(&g->arena, double, most_turned);
    if (!el->core_nodes || !el->core_edges || !el->row || !el->least ||
        !el->turned)
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
    // A node is in each queue at most once.
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
    return plan_parts(p) && plan_core(p);
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
                el->turned[(int64_t)i * m + j] = across[(int64_t)j * k + i];
        across = el->turned;
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

// Returns the least sum over the labels of v, given where the inputs start, and
// writes the label.
static double least_sum(const wide *w, const double *own, int32_t k,
                        const int64_t *at, int32_t *label)
{
    double least = INFINITY;
    *label = 0;
    for (int32_t y = 0; y < k; y++) {
        double sum = own[y];
        for (int32_t i = 0; i < w->n_inputs; i++)
            sum += (*w->inputs[i].table)[at[i] + y * w->inputs[i].stride_v];
        if (sum < least) {
            least = sum;
            *label = y;
        }
    }
    return least;
}

static double eliminate_wide(dv_elimination *el, const step *s, double *theta,
                             int64_t *work)
{
    const dv_cgraph *g = el->g;
    const wide *w = s->w;
    const double *own = theta + g->first[s->v];
    int32_t k = dv_n_labels(g, s->v), label, x[MAX_SCOPE] = {0};
    int64_t at[MAX_INPUTS];
    memset(at, 0, (size_t)w->n_inputs * sizeof *at);
    for (int64_t i = 0; i < w->size; i++) {
        w->table[i] = least_sum(w, own, k, at, &label);
        // Go to the next combination of labels of the scope.
        for (int32_t d = w->n_scope - 1; d >= 0; d--) {
            int carry = ++x[d] == dv_n_labels(g, w->scope[d]);
            for (int32_t j = 0; j < w->n_inputs; j++)
                at[j] += w->inputs[j].strides[d] * (carry ? 1 - x[d] : 1);
            if (!carry)
                break;
            x[d] = 0;
        }
    }
    *work += w->size * k * (1 + w->n_inputs);
    if (w->n_scope == 1)
        for (int64_t i = 0; i < w->size; i++)
            theta[g->first[w->scope[0]] + i] += w->table[i];
    return w->n_scope == 0 ? w->table[0] : 0;
}

double dv_eliminate(dv_elimination *el, double *theta, int64_t *work)
{
    const dv_cgraph *g = el->g;
    double bound = 0;
    for (int32_t i = 0; i < el->n_steps; i++) {
        const step *s = &el->steps[i];
        const double *own = theta + g->first[s->v];
        if (s->w)
            bound += eliminate_wide(el, s, theta, work);
        else if (s->degree == 0)
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
        if (s->w) {
            int64_t at[MAX_INPUTS];
            for (int32_t k = 0; k < s->w->n_inputs; k++) {
                at[k] = 0;
                for (int32_t d = 0; d < s->w->n_scope; d++)
                    at[k] += s->w->inputs[k].strides[d] * x[s->w->scope[d]];
            }
            least_sum(s->w, own, n, at, &x[s->v]);
            continue;
        }
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
