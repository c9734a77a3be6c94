// Lower bounds of the total latency of any schedule.
//
// The simple bound: every op computes all its blocks at least once, every input
// of the graph is loaded and every output is written at least once.
//
// The bound by prices, for small graphs: give every op a price so that no
// possible group costs less than the prices of its ops together. Every op is in
// at least one group, so that no schedule costs less than the sum of all
// prices. This also holds for schedules that recompute ops.
#include "fuse/fuse.h"
#include <string.h>

// Least computing time of an op. A matrix product inside a group may compute
// fractions of native blocks, for slices that are not tiles; one whose output
// leaves the graph may not. Pointwise ops always compute whole blocks.
double dv_fuse_least_work(const dv_fuse_graph *g, int32_t o)
{
    const dv_fuse_node *n = &g->nodes[o];
    const dv_fuse_edge *t = &g->edges[n->output];
    double w = (double)dv_ceil_div(t->width, g->native_w);
    double h = (double)dv_ceil_div(t->height, g->native_h);
    if (!n->matmul)
        return n->base * w * h;
    if (t->n_readers) {
        w = (double)t->width / (double)g->native_w;
        h = (double)t->height / (double)g->native_h;
    }
    return n->base * w * h *
           (g->full ? 1 : (double)n->sum / (double)g->native_w);
}

double dv_fuse_bound(const dv_fuse_graph *g)
{
    double work = 0, moved = 0;
    for (int32_t o = 0; o < g->n; o++)
        work += dv_fuse_least_work(g, o);
    for (int32_t t = 0; t < g->n_tensors; t++) {
        const dv_fuse_edge *e = &g->edges[t];
        if (e->producer < 0 ? e->n_readers : !e->n_readers)
            moved += (double)e->size;
    }
    moved /= g->bandwidth;
    return work > moved ? work : moved;
}

// -- The bound by prices -----------------------------------------------------

enum { MOST_NODES = 64, MOST_SETS = 100000, MOST_LIMITS = 20000, ROUNDS = 40 };

// A constraint on the prices of ops, whose sum bounds the cost of a schedule:
// no group of exactly these ops costs less than `cost`, so their prices must
// not add up to more.
typedef struct limit {
    uint64_t set;
    double cost;
    double price; // sum of the prices of the ops
} limit;

typedef struct pricing {
    dv_fuser *f;
    uint64_t touches[MOST_NODES]; // nodes with a common tensor
    uint64_t readers[MOST_NODES];
    limit *limits; // owned
    int32_t n;
    int32_t sets_left; // sets of nodes that may still be tried
    double price[MOST_NODES];
} pricing;

static uint64_t readers_of(const dv_fuse_graph *g, int32_t tensor)
{
    const dv_fuse_edge *t = &g->edges[tensor];
    uint64_t set = 0;
    for (int32_t i = 0; i < t->n_readers; i++)
        set |= (uint64_t)1 << t->readers[i];
    return set;
}

static void relate(pricing *p)
{
    const dv_fuse_graph *g = p->f->g;
    for (int32_t o = 0; o < g->n; o++)
        p->readers[o] = readers_of(g, g->nodes[o].output);
    for (int32_t t = 0; t < g->n_tensors; t++) {
        uint64_t users = readers_of(g, t);
        if (g->edges[t].producer >= 0)
            users |= (uint64_t)1 << g->edges[t].producer;
        DV_FUSE_EACH(o, &users, 1) p->touches[o] |= users;
    }
}

// Adds a candidate set of ops for a group. A set is no candidate if two of its
// results (outputs that no op of the set reads) have different shapes.
static void add_set(pricing *p, uint64_t set)
{
    const dv_fuse_graph *g = p->f->g;
    int32_t shape = -1;
    p->sets_left--;
    DV_FUSE_EACH(o, &set, 1)
    {
        int32_t alike = g->edges[g->nodes[o].output].alike;
        if (p->readers[o] & set)
            continue;
        if (shape >= 0 && shape != alike)
            return;
        shape = alike;
    }
    if (p->n < MOST_LIMITS)
        p->limits[p->n++].set = set;
    else
        p->sets_left = 0;
}

// Enumerates all connected sets that extend `set` by nodes of `around` and then
// by nodes that share a tensor with these, but by none of `never`.
static void add_sets(pricing *p, uint64_t set, uint64_t around, uint64_t never)
{
    add_set(p, set);
    while (around && p->sets_left > 0) {
        uint64_t bit = around & -around, more;
        around ^= bit;
        never |= bit;
        more = p->touches[__builtin_ctzll(bit)] & ~set & ~never;
        add_sets(p, set | bit, around | more, never);
    }
}

// Finds all sets of ops that could be groups. Returns 0 if there are too many.
static int find_sets(pricing *p)
{
    for (int32_t o = 0; o < p->f->g->n; o++) {
        uint64_t bit = (uint64_t)1 << o, never = bit | (bit - 1);
        add_sets(p, bit, p->touches[o] & ~never, never);
    }
    int32_t steps = (MOST_SETS - p->sets_left) / 8;
    p->f->steps += steps;
    p->f->left -= steps;
    return p->sets_left > 0;
}

// Finds the least cost of a group of each set of ops, and drops sets that never
// fit the scratchpad. Returns 0 if search steps or time run out.
static int find_limits(pricing *p, int64_t stop)
{
    int32_t n = 0;
    for (int32_t i = 0; i < p->n; i++) {
        limit l = p->limits[i];
        if (p->f->left <= stop || p->f->failed || dv_fuse_late(p->f))
            return 0;
        l.cost = dv_fuse_least_price(p->f, &l.set);
        if (l.cost < DV_FUSE_NEVER)
            p->limits[n++] = l;
    }
    p->n = n;
    return 1;
}

static double price_of(const pricing *p, uint64_t set)
{
    double sum = 0;
    DV_FUSE_EACH(o, &set, 1) sum += p->price[o];
    return sum;
}

// Raises the price of an op as far as the limits allow: until the prices of
// some set with this op add up to that set's least cost.
static void raise_one(pricing *p, int32_t o)
{
    double slack = DV_FUSE_NEVER;
    for (int32_t i = 0; i < p->n; i++) {
        const limit *l = &p->limits[i];
        if (l->set >> o & 1 && l->cost - l->price < slack)
            slack = l->cost - l->price;
    }
    if (!(slack > 0 && slack < DV_FUSE_NEVER))
        return;
    slack *= 1 - 1e-9; // for rounding
    p->price[o] += slack;
    for (int32_t i = 0; i < p->n; i++)
        if (p->limits[i].set >> o & 1)
            p->limits[i].price += slack;
}

// Lowers prices until no set's prices exceed its limit, then raises each as far
// as possible. Returns the sum of the prices, a lower bound.
static double make_valid(pricing *p)
{
    double sum = 0;
    for (int32_t i = 0; i < p->n; i++) {
        const limit *l = &p->limits[i];
        double price = price_of(p, l->set);
        if (price > l->cost)
            DV_FUSE_EACH(o, &l->set, 1) p->price[o] *= l->cost / price;
    }
    for (int32_t i = 0; i < p->n; i++)
        p->limits[i].price = price_of(p, p->limits[i].set);
    for (int32_t o = 0; o < p->f->g->n; o++) {
        raise_one(p, o);
        sum += p->price[o];
    }
    return sum * (1 - 1e-12);
}

// Repeatedly raises all prices by a factor, which shrinks from round to round,
// and makes them valid again, so that price moves from ops with tight limits to
// others. Returns the best sum.
static double raise_prices(pricing *p)
{
    double best = 0;
    for (int32_t o = 0; o < p->f->g->n; o++)
        p->price[o] = dv_fuse_least_work(p->f->g, o);
    for (int round = 0; round < ROUNDS; round++) {
        double sum = make_valid(p);
        best = sum > best ? sum : best;
        for (int32_t o = 0; o < p->f->g->n; o++)
            p->price[o] *= 1 + 0.5 * (ROUNDS - round) / ROUNDS;
    }
    return best;
}

double dv_fuse_bound_by_prices(dv_fuser *f, int64_t most)
{
    pricing p = {.f = f, .sets_left = MOST_SETS};
    int64_t stop = f->left - most;
    double bound = 0;
    if (f->g->n > MOST_NODES)
        return 0;
    p.limits = dv_alloc(MOST_LIMITS * sizeof *p.limits);
    if (!p.limits) {
        f->failed = 1;
        return 0;
    }
    relate(&p);
    if (find_sets(&p) && find_limits(&p, stop))
        bound = raise_prices(&p);
    dv_release(p.limits);
    return bound;
}
