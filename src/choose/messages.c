// TRW-S: sequential tree-reweighted message passing (Kolmogorov 2006) over the
// core, in order of node numbers. A message is added to a node's costs and
// subtracted from its edge's table, which changes no choice's cost; messages
// are chosen so that the sum of the least entries, a lower bound, grows.
//
// Messages are whole numbers, and shares of a node's costs are rounded down. An
// infinite message is lowered to a large finite one: that only lowers the
// bound.
#include "choose/choose.h"
#include "choose/minplus.h"
#include <string.h>

#define LARGEST_MESSAGE 0x1p46
// Sweeps end when a sweep raises the bound by at most this fraction.
#define LEAST_RISE 0.001
enum { MAX_PASSES = 8 };

struct dv_trws {
    const dv_cgraph *g;
    const int32_t *nodes;
    const dv_cedge *edges;
    int32_t n_nodes, n_edges;
    int32_t *first, *links; // edges of nodes[i]: links[first[i]] and so on
    double **to_a, **to_b;  // messages of each edge, to both its nodes
    double *sum, *share;    // of the labels of one node
};

dv_status dv_trws_create(dv_trws **out, dv_cgraph *g, const dv_elimination *el,
                         dv_diag *diag)
{
    dv_arena *arena = &g->arena;
    dv_trws *m = DV_NEW(arena, dv_trws, 1);
    int32_t *place = DV_NEW(arena, int32_t, g->n_nodes);
    int32_t most = 1;
    if (!m || !place)
        return dv_nomem(diag);
    m->g = g;
    m->nodes = dv_core_nodes(el, &m->n_nodes);
    m->edges = dv_core_edges(el, &m->n_edges);
    m->first = DV_NEW(arena, int32_t, m->n_nodes + 2);
    m->links = DV_NEW(arena, int32_t, 2 * (int64_t)m->n_edges);
    m->to_a = DV_NEW(arena, double *, m->n_edges);
    m->to_b = DV_NEW(arena, double *, m->n_edges);
    if (!m->first || !m->links || !m->to_a || !m->to_b)
        return dv_nomem(diag);
    for (int32_t i = 0; i < m->n_nodes; i++) {
        int32_t n = dv_n_labels(g, m->nodes[i]);
        place[m->nodes[i]] = i;
        most = n > most ? n : most;
    }
    for (int32_t e = 0; e < m->n_edges; e++) {
        const dv_cedge *d = &m->edges[e];
        m->first[place[d->a] + 2]++;
        m->first[place[d->b] + 2]++;
        m->to_a[e] = DV_NEW(arena, double, dv_n_labels(g, d->a));
        m->to_b[e] = DV_NEW(arena, double, dv_n_labels(g, d->b));
        if (!m->to_a[e] || !m->to_b[e])
            return dv_nomem(diag);
    }
    for (int32_t i = 0; i < m->n_nodes; i++)
        m->first[i + 2] += m->first[i + 1];
    for (int32_t e = 0; e < m->n_edges; e++) {
        m->links[m->first[place[m->edges[e].a] + 1]++] = e;
        m->links[m->first[place[m->edges[e].b] + 1]++] = e;
    }
    m->sum = DV_NEW(arena, double, most);
    m->share = DV_NEW(arena, double, most);
    if (!m->sum || !m->share)
        return dv_nomem(diag);
    *out = m;
    return DV_OK;
}

void dv_trws_reset(dv_trws *m)
{
    for (int32_t e = 0; e < m->n_edges; e++) {
        const dv_cedge *d = &m->edges[e];
        size_t na = (size_t)dv_n_labels(m->g, d->a);
        size_t nb = (size_t)dv_n_labels(m->g, d->b);
        memset(m->to_a[e], 0, na * sizeof *m->to_a[e]);
        memset(m->to_b[e], 0, nb * sizeof *m->to_b[e]);
    }
}

// Sets `sum` to the costs of a node plus all messages to it. Returns the number
// of edges among which these costs are divided: its edges to later nodes or
// those to earlier nodes, whichever are more.
static int32_t collect(dv_trws *m, int32_t i, const double *theta)
{
    int32_t v = m->nodes[i], n = dv_n_labels(m->g, v), later = 0;
    memcpy(m->sum, theta + m->g->first[v], (size_t)n * sizeof *m->sum);
    for (int32_t k = m->first[i]; k < m->first[i + 1]; k++) {
        int32_t e = m->links[k];
        int is_a = m->edges[e].a == v;
        const double *in = is_a ? m->to_a[e] : m->to_b[e];
        for (int32_t y = 0; y < n; y++)
            m->sum[y] += in[y];
        later += is_a;
    }
    int32_t earlier = m->first[i + 1] - m->first[i] - later;
    return later > earlier ? later : earlier;
}

// Normalises a message: subtracts the least entry from all and limits the
// largest. Returns the least entry.
static double normalise(double *a, int32_t n)
{
    double least = a[dv_least(a, n)];
    double from = least == INFINITY ? 0 : least;
    for (int32_t i = 0; i < n; i++) {
        a[i] -= from;
        a[i] = a[i] > LARGEST_MESSAGE ? LARGEST_MESSAGE : a[i];
    }
    return least;
}

// Sends messages from a node to its later neighbours, or to its earlier ones.
// Returns what normalising the latter subtracts in sum: their part of the
// bound.
static double send(dv_trws *m, int32_t i, int32_t parts, int to_later,
                   int64_t *work)
{
    int32_t v = m->nodes[i], n = dv_n_labels(m->g, v);
    double bound = 0, inverse = 1.0 / parts;
    for (int32_t k = m->first[i]; k < m->first[i + 1]; k++) {
        int32_t e = m->links[k];
        const dv_cedge *d = &m->edges[e];
        if ((d->a == v) != to_later)
            continue;
        int32_t na = dv_n_labels(m->g, d->a), nb = dv_n_labels(m->g, d->b);
        const double *back = to_later ? m->to_a[e] : m->to_b[e];
        for (int32_t y = 0; y < n; y++)
            m->share[y] = floor(m->sum[y] * inverse) - back[y];
        if (to_later) {
            dv_minplus_columns(m->to_b[e], m->share, d->table, na, nb);
            normalise(m->to_b[e], nb);
        } else {
            dv_minplus_rows(m->to_a[e], m->share, d->table, na, nb);
            bound += normalise(m->to_a[e], na);
        }
        *work += (int64_t)na * nb;
    }
    return bound;
}

// Adds the costs of an edge of v at the current label of its other node.
// Forbidden entries count as the largest message: if all labels of v have some,
// the one with the fewest is still cheapest.
static void add_entries(dv_trws *m, const dv_cedge *d, int32_t v,
                        const int32_t *x)
{
    int32_t n = dv_n_labels(m->g, v);
    int64_t nb = dv_n_labels(m->g, d->b), step = d->a == v ? nb : 1;
    const double *in = d->table + (d->a == v ? x[d->b] : x[d->a] * nb);
    for (int32_t y = 0; y < n; y++) {
        double c = in[y * step];
        m->sum[y] += c < LARGEST_MESSAGE ? c : LARGEST_MESSAGE;
    }
}

// Chooses labels node by node: the best one given the labels of earlier
// neighbours and the messages of later ones.
static void label(dv_trws *m, const double *theta, int32_t *x)
{
    for (int32_t i = 0; i < m->n_nodes; i++) {
        int32_t v = m->nodes[i], n = dv_n_labels(m->g, v);
        memcpy(m->sum, theta + m->g->first[v], (size_t)n * sizeof *m->sum);
        for (int32_t k = m->first[i]; k < m->first[i + 1]; k++) {
            const dv_cedge *d = &m->edges[m->links[k]];
            if (d->a == v)
                for (int32_t y = 0; y < n; y++)
                    m->sum[y] += m->to_a[m->links[k]][y];
            else
                add_entries(m, d, v, x);
        }
        x[v] = dv_least(m->sum, n);
    }
}

// Changes the labels of single nodes while that lowers the cost (iterated
// conditional modes).
static void improve_labels(dv_trws *m, const double *theta, int32_t *x,
                           int64_t *work)
{
    int moved = 1;
    for (int pass = 0; moved && pass < MAX_PASSES; pass++) {
        moved = 0;
        for (int32_t i = 0; i < m->n_nodes; i++) {
            int32_t v = m->nodes[i], n = dv_n_labels(m->g, v);
            memcpy(m->sum, theta + m->g->first[v], (size_t)n * sizeof *m->sum);
            for (int32_t k = m->first[i]; k < m->first[i + 1]; k++)
                add_entries(m, &m->edges[m->links[k]], v, x);
            int32_t to = dv_least(m->sum, n);
            moved |= m->sum[to] < m->sum[x[v]];
            if (m->sum[to] < m->sum[x[v]])
                x[v] = to;
            *work += (int64_t)n * (m->first[i + 1] - m->first[i]);
        }
    }
}

double dv_trws_run(dv_trws *m, const double *theta, int sweeps, int32_t *x,
                   int64_t *work)
{
    double bound = 0, last = 0;
    for (int sweep = 0; sweep < sweeps && m->n_nodes; sweep++) {
        last = bound;
        for (int32_t i = 0; i < m->n_nodes; i++) {
            int32_t parts = collect(m, i, theta);
            send(m, i, parts, 1, work);
        }
        bound = 0;
        for (int32_t i = m->n_nodes - 1; i >= 0; i--) {
            int32_t parts = collect(m, i, theta);
            int32_t n = dv_n_labels(m->g, m->nodes[i]);
            double least = m->sum[dv_least(m->sum, n)];
            bound += least;
            for (int32_t y = 0; y < n && least < INFINITY; y++)
                m->sum[y] -= least;
            bound += send(m, i, parts, 0, work);
        }
        if (sweep > 0 && bound - last < LEAST_RISE * fabs(bound))
            break;
    }
    label(m, theta, x);
    improve_labels(m, theta, x, work);
    return bound;
}
