// Local search that mixes a choice with another one, the proposal, which may
// exceed the limit or have forbidden entries. Each node of a region keeps its
// label or takes that of the proposal; the best mixture, given the labels of
// all nodes outside, follows from one pass of elimination (fusion moves,
// Lempitsky, Rother, Roth and Blake 2010). A relaxation yields a proposal at
// every step of the prices: parts of it are good even where the whole uses too
// much memory.
//
// As each node has two labels only, a node is eliminated with up to WIDTH
// neighbours: its table has a bit of the index for each of them. Nodes with
// more neighbours keep their labels. Usage is priced as in trees.c: if the best
// mixture exceeds the limit, the region is solved again at higher prices.
#include "base/math.h"
#include "base/random.h"
#include "choose/choose.h"
#include <math.h>
#include <string.h>

// A region, the nodes that are mixed at once, has 2^LOG_LEAST to 2^LOG_MOST
// nodes if it can grow so far. A table has up to 2^WIDTH entries, the tables of
// a region together MAX_ENTRIES. A region is solved at most MAX_TRIALS times. A
// proposal is given up after MAX_MISSES regions in turn without gain.
enum {
    LOG_LEAST = 3,
    LOG_MOST = 10,
    REGION = 1 << LOG_MOST,
    WORDS = REGION / 64,
    WIDTH = 8,
    MAX_ENTRIES = 1 << 17,
    MAX_TRIALS = 5,
    MAX_MISSES = 64
};
// Each queue has room for this many entries per node of a region.
enum { QUEUED = 8 };

// A part: a node of the region, which keeps its label or takes the proposal's.
typedef struct mixed {
    int32_t v;
    int32_t degree; // number of its neighbours in the region that are left
    int32_t place;  // in the order of elimination; -1: it keeps its label
    int done;       // 1: it is eliminated, or keeps its label
    // The neighbours of this part when it is eliminated, sorted by the order of
    // elimination; its table is indexed by their decisions.
    int32_t near[WIDTH], n_near;
    int64_t at;    // index of its table in `entries` and `takes`
    int32_t below; // the first part whose table is over this one first; or -1
    int32_t next;  // the next one whose table is over the same part; or -1
    double more;   // how much the proposal's label costs more than the present
                   // one, given all labels outside the region
    double theta;  // the same with the prices of memory
    int taken;     // 1: it takes the proposal's label
} mixed;

struct dv_cmix {
    dv_cchoice *c;
    const int32_t *y; // the proposal
    int32_t *local;   // of each node: 1 + its index in `parts`; 0: outside
    int32_t *differ;  // nodes whose labels differ from the proposal's
    int32_t n_differ;
    mixed *parts;
    int32_t n;
    uint64_t (*adj)[WORDS]; // of each part, a bit set of the parts next to it
    int words;              // of such a set that are in use
    int32_t *order, n_order;
    int32_t *queue[WIDTH + 1], n_queue[WIDTH + 1], cap; // by degree
    double *entries; // least costs, given the labels of the neighbours
    char *takes;     // whether the proposal's label has them
    int64_t n_entries, most_entries;
    double *sums;    // of a table that is made
    uint16_t *index; // of each of its entries: the index in another table
};

dv_status dv_cmix_create(dv_cmix **out, dv_cchoice *c, dv_arena *arena,
                         dv_diag *diag)
{
    dv_cmix *m = DV_NEW(arena, dv_cmix, 1);
    int32_t n = c->g->n_nodes < REGION ? c->g->n_nodes : REGION;
    int ok = 1;
    if (!m)
        return dv_nomem(diag);
    m->c = c;
    m->cap = n * QUEUED;
    m->most_entries = dv_min_i64((int64_t)n << WIDTH, MAX_ENTRIES);
    m->local = DV_NEW(arena, int32_t, c->g->n_nodes);
    m->differ = DV_NEW(arena, int32_t, c->g->n_nodes);
    m->parts = DV_NEW(arena, mixed, n);
    m->adj = dv_arena_alloc(arena, (size_t)n, sizeof *m->adj);
    m->order = DV_NEW(arena, int32_t, n);
    for (int i = 0; i <= WIDTH; i++) {
        m->queue[i] = DV_NEW(arena, int32_t, m->cap);
        ok &= m->queue[i] != NULL;
    }
    m->entries = DV_NEW(arena, double, m->most_entries);
    m->takes = DV_NEW(arena, char, m->most_entries);
    m->sums = DV_NEW(arena, double, 2 << WIDTH);
    m->index = DV_NEW(arena, uint16_t, 2 << WIDTH);
    if (!ok || !m->local || !m->differ || !m->parts || !m->adj || !m->order ||
        !m->entries || !m->takes || !m->sums || !m->index)
        return dv_nomem(diag);
    *out = m;
    return DV_OK;
}

// -- The region ---------------------------------------------------------------

static int32_t other_end(const dv_cedge *d, int32_t v)
{
    return d->a == v ? d->b : d->a;
}

static void add_part(dv_cmix *m, int32_t v)
{
    m->parts[m->n++] = (mixed){.v = v, .place = -1, .below = -1, .next = -1};
    m->local[v] = m->n;
}

// Grows a region by breadth-first search from a node, over nodes whose labels
// differ from the proposal's.
static void grow(dv_cmix *m, int32_t root, int32_t most)
{
    dv_cchoice *c = m->c;
    const dv_cgraph *g = c->g;
    m->n = 0;
    add_part(m, root);
    for (int32_t i = 0; i < m->n && m->n < most; i++) {
        int32_t v = m->parts[i].v, first = g->adj_first[v];
        int32_t n = g->adj_first[v + 1] - first;
        // Begin at a random edge, so that repeated regions around a node
        // differ.
        int32_t skip = n ? dv_draw_below(&c->random, n) : 0;
        for (int32_t k = 0; k < n && m->n < most; k++) {
            int32_t u = other_end(&g->edges[g->adj[first + (k + skip) % n]], v);
            if (!m->local[u] && c->x[u] != m->y[u])
                add_part(m, u);
        }
        c->work += n;
    }
}

static void forget(dv_cmix *m)
{
    for (int32_t i = 0; i < m->n; i++)
        m->local[m->parts[i].v] = 0;
}

// -- The order of elimination -------------------------------------------------

static void set_bit(uint64_t *set, int32_t i)
{
    set[i / 64] |= (uint64_t)1 << i % 64;
}

static void clear_bit(uint64_t *set, int32_t i)
{
    set[i / 64] &= ~((uint64_t)1 << i % 64);
}

// Lists the neighbours of part i that are not eliminated yet. Returns their
// number.
static int32_t members(const dv_cmix *m, int32_t i, int32_t *list)
{
    int32_t n = 0;
    for (int w = 0; w < m->words; w++)
        for (uint64_t left = m->adj[i][w]; left; left &= left - 1)
            list[n++] = w * 64 + __builtin_ctzll(left);
    return n;
}

// Counts the neighbours of part i that are not eliminated yet, and puts the
// part into the queue for this number.
static void count_near(dv_cmix *m, int32_t i)
{
    mixed *p = &m->parts[i];
    p->degree = 0;
    for (int w = 0; w < m->words; w++)
        p->degree += __builtin_popcountll(m->adj[i][w]);
    if (p->degree <= WIDTH && m->n_queue[p->degree] < m->cap)
        m->queue[p->degree][m->n_queue[p->degree]++] = i;
}

// Returns a remaining part with the fewest neighbours; -1 if all have more than
// WIDTH.
static int32_t fewest_near(dv_cmix *m)
{
    for (int d = 0; d <= WIDTH; d++)
        while (m->n_queue[d] > 0) {
            int32_t i = m->queue[d][--m->n_queue[d]];
            if (!m->parts[i].done && m->parts[i].degree == d)
                return i;
        }
    return -1;
}

static int32_t most_near(const dv_cmix *m)
{
    int32_t at = -1;
    for (int32_t i = 0; i < m->n; i++)
        if (!m->parts[i].done &&
            (at < 0 || m->parts[i].degree > m->parts[at].degree))
            at = i;
    return at;
}

// Removes a part (a node of the region) from the graph. If it is eliminated,
// its neighbours become neighbours of each other.
static void take_out(dv_cmix *m, int32_t i, int eliminated)
{
    mixed *p = &m->parts[i];
    int32_t near[REGION], n = members(m, i, near);
    p->done = 1;
    if (eliminated) {
        p->place = m->n_order;
        m->order[m->n_order++] = i;
        p->n_near = n;
        memcpy(p->near, near, (size_t)n * sizeof *near);
        p->at = m->n_entries;
        m->n_entries += 1 << n;
    }
    for (int32_t k = 0; k < n; k++) {
        uint64_t *set = m->adj[near[k]];
        for (int w = 0; w < m->words && eliminated; w++)
            set[w] |= m->adj[i][w];
        clear_bit(set, near[k]);
        clear_bit(set, i);
        count_near(m, near[k]);
    }
    m->c->work += 16 + (1 + n) * m->words * 4;
}

// Sorts the neighbours of a part by the order of elimination. The first one is
// eliminated next, and adds this part's table to its own.
static void sort_near(dv_cmix *m, int32_t i)
{
    mixed *p = &m->parts[i];
    for (int32_t k = 1; k < p->n_near; k++)
        for (int32_t j = k; j > 0 && m->parts[p->near[j]].place <
                                         m->parts[p->near[j - 1]].place;
             j--) {
            int32_t t = p->near[j];
            p->near[j] = p->near[j - 1];
            p->near[j - 1] = t;
        }
    if (p->n_near == 0)
        return;
    mixed *first = &m->parts[p->near[0]];
    p->next = first->below;
    first->below = i;
}

// Determines the order of elimination of the region's parts: always one with
// the fewest neighbours next (minimum degree).
static void order(dv_cmix *m)
{
    const dv_cgraph *g = m->c->g;
    m->n_order = 0;
    m->n_entries = 0;
    m->words = (m->n + 63) / 64;
    memset(m->n_queue, 0, sizeof m->n_queue);
    for (int32_t i = 0; i < m->n; i++) {
        int32_t v = m->parts[i].v;
        memset(m->adj[i], 0, (size_t)m->words * sizeof **m->adj);
        for (int32_t k = g->adj_first[v]; k < g->adj_first[v + 1]; k++) {
            int32_t u = m->local[other_end(&g->edges[g->adj[k]], v)];
            if (u)
                set_bit(m->adj[i], u - 1);
        }
        count_near(m, i);
    }
    for (int32_t left = m->n; left > 0; left--) {
        int32_t i = fewest_near(m);
        int may = i >= 0 &&
                  m->n_entries + (1 << m->parts[i].degree) <= m->most_entries;
        take_out(m, may ? i : most_near(m), may);
    }
    for (int32_t k = 0; k < m->n_order; k++)
        sort_near(m, m->order[k]);
}

// -- Solving a region ---------------------------------------------------------

// Returns the cost of an edge of v at a label of v and a label of its other
// end.
static double entry(const dv_cgraph *g, const dv_cedge *d, int32_t v,
                    int32_t label, int32_t other)
{
    int64_t m = dv_n_labels(g, d->b);
    return d->a == v ? d->table[label * m + other]
                     : d->table[other * m + label];
}

// Returns the part at the other end of an edge of v if it is one that is
// eliminated; NULL if that node keeps its label.
static const mixed *free_end(const dv_cmix *m, const dv_cedge *d, int32_t v)
{
    int32_t u = m->local[other_end(d, v)];
    return u && m->parts[u - 1].place >= 0 ? &m->parts[u - 1] : NULL;
}

// Sets p->more: how much more the proposal's label of a part costs than its
// present one.
static void compare(dv_cmix *m, mixed *p)
{
    const dv_cgraph *g = m->c->g;
    const int32_t *x = m->c->x;
    int32_t v = p->v;
    p->more = g->cost[g->first[v] + m->y[v]] - g->cost[g->first[v] + x[v]];
    for (int32_t k = g->adj_first[v]; k < g->adj_first[v + 1]; k++) {
        const dv_cedge *d = &g->edges[g->adj[k]];
        int32_t u = other_end(d, v);
        if (!free_end(m, d, v))
            p->more +=
                entry(g, d, v, m->y[v], x[u]) - entry(g, d, v, x[v], x[u]);
    }
    m->c->work += 4 + 2 * (g->adj_first[v + 1] - g->adj_first[v]);
}

static int64_t more_usage(const dv_cmix *m, int32_t v)
{
    return dv_cusage(m->c->g, v, m->y[v]) - dv_cusage(m->c->g, v, m->c->x[v]);
}

// Returns k such that part `near` is neighbour k of p: bit k of an index into
// the table of p tells whether that neighbour takes the proposal's label.
static int place_of(const mixed *p, int32_t near)
{
    int k = 0;
    while (p->near[k] != near)
        k++;
    return k;
}

// For each value of `bits` bits, sets `index` to the value formed by the bits
// of `mask` alone, in the same order.
static void set_index(dv_cmix *m, unsigned mask, int bits)
{
    unsigned to = 1;
    m->index[0] = 0;
    for (int b = 0; b < bits; b++) {
        unsigned add = mask >> b & 1 ? to : 0;
        for (unsigned i = 0; i < 1u << b; i++)
            m->index[i | 1u << b] = (uint16_t)(m->index[i] | add);
        to <<= mask >> b & 1;
    }
}

// Adds to `sums` the costs of p's edges to neighbours that are eliminated
// later. In its index, bit 0 is the decision of p, bits 1 and up those of its
// neighbours.
static void add_edges(dv_cmix *m, const mixed *p)
{
    const dv_cgraph *g = m->c->g;
    const int32_t *x = m->c->x, *y = m->y;
    unsigned n = 2u << p->n_near;
    int32_t v = p->v;
    for (int32_t k = g->adj_first[v]; k < g->adj_first[v + 1]; k++) {
        const dv_cedge *d = &g->edges[g->adj[k]];
        const mixed *q = free_end(m, d, v);
        if (!q || q->place < p->place)
            continue;
        int32_t u = q->v;
        double of[4] = {entry(g, d, v, x[v], x[u]), entry(g, d, v, y[v], x[u]),
                        entry(g, d, v, x[v], y[u]), entry(g, d, v, y[v], y[u])};
        int bit = 1 + place_of(p, (int32_t)(q - m->parts));
        for (unsigned i = 0; i < n; i++)
            m->sums[i] += of[(i & 1) | (i >> bit & 1) << 1];
        m->c->work += n;
    }
}

// Eliminates a part: its table gets, for all decisions of its neighbours, the
// least cost over its own two labels.
static void eliminate(dv_cmix *m, const mixed *p)
{
    unsigned n = 2u << p->n_near;
    for (unsigned i = 0; i < n; i++)
        m->sums[i] = i & 1 ? p->theta : 0;
    add_edges(m, p);
    for (int32_t j = p->below; j >= 0; j = m->parts[j].next) {
        const mixed *q = &m->parts[j];
        unsigned mask = 1;
        for (int32_t k = 1; k < q->n_near; k++)
            mask |= 2u << place_of(p, q->near[k]);
        set_index(m, mask, p->n_near + 1);
        for (unsigned i = 0; i < n; i++)
            m->sums[i] += m->entries[q->at + m->index[i]];
        m->c->work += 2 * n;
    }
    for (unsigned i = 0; i < n / 2; i++) {
        const double *s = &m->sums[2 * i];
        m->takes[p->at + i] = s[1] < s[0];
        m->entries[p->at + i] = s[1] < s[0] ? s[1] : s[0];
    }
    m->c->work += n;
}

// Decides which parts take the proposal's label (`taken`), so that the total
// cost is least if all prices are multiplied by `factor`. Returns whether any
// part takes it.
static int solve(dv_cmix *m, double factor)
{
    int any = 0;
    for (int32_t k = 0; k < m->n_order; k++) {
        mixed *p = &m->parts[m->order[k]];
        p->theta = p->more + floor(factor * m->c->each[p->v] *
                                   (double)more_usage(m, p->v));
        eliminate(m, p);
    }
    for (int32_t k = m->n_order - 1; k >= 0; k--) {
        mixed *p = &m->parts[m->order[k]];
        unsigned i = 0;
        for (int32_t j = 0; j < p->n_near; j++)
            i |= (unsigned)m->parts[p->near[j]].taken << j;
        p->taken = m->takes[p->at + i];
        any |= p->taken;
    }
    return any;
}

// -- Changing the choice ------------------------------------------------------

// Returns how much more the labels of the region cost if the `taken` parts have
// the proposal's labels, without prices of memory; *price is how much more they
// pay for memory.
static double change_of_cost(const dv_cmix *m, double *price)
{
    const dv_cgraph *g = m->c->g;
    const int32_t *x = m->c->x, *y = m->y;
    double cost = 0;
    *price = 0;
    for (int32_t i = 0; i < m->n_order; i++) {
        const mixed *p = &m->parts[m->order[i]];
        int32_t v = p->v;
        if (!p->taken)
            continue;
        cost += p->more;
        *price += floor(m->c->each[v] * (double)more_usage(m, v));
        for (int32_t k = g->adj_first[v]; k < g->adj_first[v + 1]; k++) {
            const dv_cedge *d = &g->edges[g->adj[k]];
            const mixed *q = free_end(m, d, v);
            if (!q || (q->taken && q->place < p->place))
                continue;
            cost += entry(g, d, v, y[v], q->taken ? y[q->v] : x[q->v]) -
                    entry(g, d, v, x[v], x[q->v]);
        }
    }
    return cost;
}

// Adds the change of memory usage by the `taken` parts to the load (sign 1), or
// takes it back (-1). Returns whether the load keeps to the memory limit.
static int move_load(dv_cmix *m, int sign)
{
    dv_cchoice *c = m->c;
    const dv_cgraph *g = c->g;
    for (int32_t k = 0; k < m->n_order; k++) {
        const mixed *p = &m->parts[m->order[k]];
        if (p->taken)
            dv_cload_add(&c->load, g->from[p->v], g->to[p->v],
                         sign * more_usage(m, p->v));
    }
    return dv_cload_worst(&c->load) < 0;
}

static void take(dv_cmix *m)
{
    for (int32_t k = 0; k < m->n_order; k++) {
        const mixed *p = &m->parts[m->order[k]];
        if (p->taken)
            m->c->x[p->v] = m->y[p->v];
    }
}

// Gives the region its cheapest mixture of labels, if that lowers the cost with
// prices times `weight` and keeps to the memory limit. Returns whether it does.
static int improve(dv_cmix *m, double weight)
{
    double price, factor = weight;
    for (int32_t k = 0; k < m->n_order; k++)
        compare(m, &m->parts[m->order[k]]);
    for (int trial = 0; trial < MAX_TRIALS; trial++) {
        int any = solve(m, factor);
        double cost = any ? change_of_cost(m, &price) : 0;
        int cheaper = any && cost + weight * price < 0;
        if (cheaper && move_load(m, 1)) {
            m->c->cost += cost;
            take(m);
            return 1;
        }
        if (cheaper)
            move_load(m, -1);
        else if (!any || factor > 0)
            return 0;
        factor = factor == 0 ? 0.5 : 2 * factor;
    }
    return 0;
}

double dv_cmix_run(dv_cmix *m, const int32_t *y, double weight, int64_t work)
{
    dv_cchoice *c = m->c;
    int64_t end = c->work + work;
    int misses = 0;
    m->y = y;
    m->n_differ = 0;
    for (int32_t v = 0; v < c->g->n_nodes; v++)
        if (c->x[v] != y[v])
            m->differ[m->n_differ++] = v;
    c->work += c->g->n_nodes;
    while (m->n_differ > 0 && misses < MAX_MISSES && c->work < end) {
        int32_t k = dv_draw_below(&c->random, m->n_differ), v = m->differ[k];
        if (c->x[v] == y[v]) {
            m->differ[k] = m->differ[--m->n_differ];
            continue;
        }
        grow(m, v,
             1 << (LOG_LEAST +
                   dv_draw_below(&c->random, LOG_MOST - LOG_LEAST + 1)));
        order(m);
        misses = improve(m, weight) ? 0 : misses + 1;
        forget(m);
    }
    return c->cost;
}
