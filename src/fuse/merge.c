// Partitions of the ops into units, and greedy merging: as long as two units
// that touch a common tensor are cheaper as one, merge the two with the largest
// gain.
#include "fuse/fuse.h"
#include "base/random.h"
#include <string.h>

int dv_fuse_parts_init(dv_fuse_parts *p, dv_fuser *f)
{
    const dv_fuse_graph *g = f->g;
    p->sets = DV_NEW(&f->arena, uint64_t, (size_t)g->n * (size_t)g->words);
    p->of = DV_NEW(&f->arena, int32_t, g->n);
    p->cost = DV_NEW(&f->arena, double, g->n);
    return p->sets && p->of && p->cost;
}

void dv_fuse_parts_copy(dv_fuse_parts *to, const dv_fuse_parts *from,
                        const dv_fuse_graph *g)
{
    size_t n = (size_t)g->n, words = (size_t)g->words;
    memcpy(to->sets, from->sets, n * words * sizeof *to->sets);
    memcpy(to->of, from->of, n * sizeof *to->of);
    memcpy(to->cost, from->cost, n * sizeof *to->cost);
}

static uint64_t *set_of(const dv_fuser *f, const dv_fuse_parts *p, int32_t u)
{
    return p->sets + (size_t)u * (size_t)f->g->words;
}

static double price(dv_fuser *f, const uint64_t *set)
{
    return dv_fuse_price(f, set, &dv_fuse_nothing, &dv_fuse_nothing).cost;
}

void dv_fuse_dissolve(dv_fuser *f, dv_fuse_parts *p, int32_t u)
{
    int32_t words = f->g->words;
    uint64_t *set = set_of(f, p, u);
    DV_FUSE_EACH(o, set, words)
    {
        p->of[o] = o;
        if (o != u)
            dv_fuse_add(set_of(f, p, o), o);
    }
    memset(set, 0, (size_t)words * sizeof *set);
    dv_fuse_add(set, u);
}

int32_t dv_fuse_take_out(dv_fuser *f, dv_fuse_parts *p, int32_t o)
{
    int32_t words = f->g->words, u = p->of[o];
    uint64_t *set = set_of(f, p, u), *own = set_of(f, p, o);
    dv_fuse_remove(set, o);
    int32_t rest = dv_fuse_next(set, words, 0);
    if (u == o && rest >= 0) {
        // A unit has the number of one of its nodes. The node taken out gave
        // this unit its number, so rename the unit after one of the remaining
        // nodes.
        uint64_t *other = set_of(f, p, rest);
        memcpy(other, set, (size_t)words * sizeof *set);
        memset(set, 0, (size_t)words * sizeof *set);
        DV_FUSE_EACH(i, other, words) p->of[i] = rest;
    }
    dv_fuse_add(own, o);
    p->of[o] = o;
    return rest < 0 ? -1 : p->of[rest];
}

void dv_fuse_join(dv_fuser *f, dv_fuse_parts *p, int32_t a, int32_t b)
{
    uint64_t *x = set_of(f, p, a), *y = set_of(f, p, b);
    DV_FUSE_EACH(o, y, f->g->words) p->of[o] = a;
    for (int32_t i = 0; i < f->g->words; i++) {
        x[i] |= y[i];
        y[i] = 0;
    }
}

// -- Neighbours --------------------------------------------------------------

typedef struct finder {
    const dv_fuser *f;
    const dv_fuse_parts *p;
    char *seen; // by unit
    int32_t *units, n;
} finder;

// Adds the unit that contains node o to the list, unless it is there already.
static void add_unit(finder *s, int32_t o)
{
    int32_t u = s->p->of[o];
    if (!s->seen[u])
        s->units[s->n++] = u;
    s->seen[u] = 1;
}

static void add_touching(finder *s, int32_t tensor)
{
    const dv_fuse_edge *t = &s->f->g->edges[tensor];
    if (t->producer >= 0)
        add_unit(s, t->producer);
    for (int32_t i = 0; i < t->n_readers; i++)
        add_unit(s, t->readers[i]);
}

int32_t dv_fuse_touching(const dv_fuser *f, const dv_fuse_parts *p, int32_t u,
                         int32_t *units)
{
    const dv_fuse_graph *g = f->g;
    char seen[DV_FUSE_MOST_OPS];
    finder s = {f, p, seen, units, 0};
    memset(seen, 0, (size_t)g->n);
    seen[u] = 1;
    DV_FUSE_EACH(o, set_of(f, p, u), g->words)
    {
        const dv_fuse_node *x = &g->nodes[o];
        add_touching(&s, x->output);
        for (int32_t k = 0; k < x->n_inputs; k++)
            add_touching(&s, x->inputs[k]);
    }
    return s.n;
}

// Adds the units that read results of unit u to the list.
static void add_readers(finder *s, int32_t u)
{
    const dv_fuse_graph *g = s->f->g;
    DV_FUSE_EACH(o, set_of(s->f, s->p, u), g->words)
    {
        const dv_fuse_edge *t = &g->edges[g->nodes[o].output];
        for (int32_t i = 0; i < t->n_readers; i++)
            add_unit(s, t->readers[i]);
    }
}

int dv_fuse_can_join(const dv_fuser *f, const dv_fuse_parts *p, int32_t a,
                     int32_t b)
{
    char seen[DV_FUSE_MOST_OPS];
    int32_t units[DV_FUSE_MOST_OPS];
    finder s = {f, p, seen, units, 0};
    memset(seen, 0, (size_t)f->g->n);
    // Search the graph from the readers of a and b. Edges between a and b are
    // skipped: reaching one of them then means a path through a third unit.
    seen[a] = seen[b] = 1;
    add_readers(&s, a);
    add_readers(&s, b);
    seen[a] = seen[b] = 0;
    for (int32_t i = 0; i < s.n; i++) {
        add_readers(&s, units[i]);
        if (seen[a] || seen[b])
            return 0;
    }
    return 1;
}

// -- Greedy merging ----------------------------------------------------------

typedef struct pair {
    int32_t a, b;
    double cost, gain; // cost if merged
} pair;

typedef struct merger {
    dv_fuser *f;
    dv_fuse_parts *p;
    double noise;
    pair *pairs; // owned
    int32_t n, cap;
    uint64_t *both; // working memory: a set
} merger;

static int add_pair(merger *m, int32_t a, int32_t b)
{
    dv_fuser *f = m->f;
    if (m->n == m->cap) {
        int32_t cap = m->cap ? 2 * m->cap : 256;
        pair *more = dv_realloc(m->pairs, (size_t)cap * sizeof *more);
        if (!more)
            return 0;
        m->pairs = more;
        m->cap = cap;
    }
    const uint64_t *x = set_of(f, m->p, a), *y = set_of(f, m->p, b);
    for (int32_t i = 0; i < f->g->words; i++)
        m->both[i] = x[i] | y[i];
    double cost = price(f, m->both);
    double gain = m->p->cost[a] + m->p->cost[b] - cost;
    if (cost >= DV_FUSE_NEVER || !(gain > 1e-9 * cost))
        return 1;
    if (m->noise > 0)
        gain *= 1 + m->noise * (2 * dv_draw_real(&f->random) - 1);
    m->pairs[m->n++] = (pair){a, b, cost, gain};
    return 1;
}

static int add_pairs(merger *m, int32_t u, const char *skip)
{
    int32_t units[DV_FUSE_MOST_OPS];
    int32_t n = dv_fuse_touching(m->f, m->p, u, units);
    for (int32_t i = 0; i < n && !dv_fuse_late(m->f); i++)
        if (!(skip && skip[units[i]] && units[i] < u) &&
            !add_pair(m, u, units[i]))
            return 0;
    return 1;
}

static int merge_pair(merger *m, pair x)
{
    int32_t kept = 0;
    dv_fuse_join(m->f, m->p, x.a, x.b);
    m->p->cost[x.a] = x.cost;
    for (int32_t i = 0; i < m->n; i++) {
        const pair *y = &m->pairs[i];
        if (y->a != x.a && y->a != x.b && y->b != x.a && y->b != x.b)
            m->pairs[kept++] = *y;
    }
    m->n = kept;
    return add_pairs(m, x.a, NULL);
}

void dv_fuse_merge(dv_fuser *f, dv_fuse_parts *p, const char *loose,
                   double noise)
{
    uint64_t both[DV_FUSE_MOST_OPS / 64];
    merger m = {.f = f, .p = p, .noise = noise, .both = both};
    int ok = 1;
    for (int32_t u = 0; u < f->g->n; u++)
        if (loose[u] && p->of[u] == u)
            p->cost[u] = price(f, set_of(f, p, u));
    for (int32_t u = 0; ok && noise >= 0 && u < f->g->n; u++)
        if (loose[u] && p->of[u] == u)
            ok = add_pairs(&m, u, loose);
    while (ok && m.n && !dv_fuse_late(f)) {
        int32_t best = 0;
        for (int32_t i = 1; i < m.n; i++)
            if (m.pairs[i].gain > m.pairs[best].gain)
                best = i;
        pair x = m.pairs[best];
        m.pairs[best] = m.pairs[--m.n];
        if (dv_fuse_can_join(f, p, x.a, x.b))
            ok = merge_pair(&m, x);
    }
    if (!ok)
        f->failed = 1;
    dv_release(m.pairs);
}
