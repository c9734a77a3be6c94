// Retention: a group may keep tensors in the scratchpad for the group that
// follows it, if no other group reads them. Such a link saves writing and
// loading them, and takes their whole size of the scratchpad in both groups.
// Links with the largest gain are chosen first, as long as every group has at
// most one link in and one out, and the chains of linked groups can be put in
// an order.
#include "fuse/fuse.h"
#include <string.h>

int dv_fuse_answer_init(dv_fuse_answer *a, dv_fuser *f)
{
    const dv_fuse_graph *g = f->g;
    a->n = 0;
    a->total = DV_FUSE_NEVER;
    a->sets = DV_NEW(&f->arena, uint64_t, (size_t)g->n * (size_t)g->words);
    a->received = DV_NEW(&f->arena, dv_fuse_kept, g->n);
    a->kept = DV_NEW(&f->arena, dv_fuse_kept, g->n);
    return a->sets && a->received && a->kept;
}

void dv_fuse_answer_copy(dv_fuse_answer *to, const dv_fuse_answer *from,
                         const dv_fuse_graph *g)
{
    size_t n = (size_t)from->n, words = (size_t)g->words;
    to->n = from->n;
    to->total = from->total;
    memcpy(to->sets, from->sets, n * words * sizeof *to->sets);
    memcpy(to->received, from->received, n * sizeof *to->received);
    memcpy(to->kept, from->kept, n * sizeof *to->kept);
}

// The tensors that one unit (group of ops) could keep in the scratchpad for
// another one, and the most profitable subset of them.
typedef struct link {
    int32_t from, to;
    dv_fuse_kept all, best;
    double from_cost, to_cost, gain;
} link;

typedef struct linker {
    dv_fuser *f;
    const dv_fuse_parts *p;
    dv_fuse_parts chains;
    link *links;
    int32_t n;
    // Per unit: the tensors that it receives and keeps by accepted links, the
    // next unit in its chain or -1, whether a unit precedes it there, and its
    // cost with these links.
    dv_fuse_kept *received, *kept;
    int32_t *next;
    char *has_in;
    double *cost;
} linker;

static const uint64_t *set_of(const linker *l, int32_t u)
{
    return l->p->sets + (size_t)u * (size_t)l->f->g->words;
}

// Finds the only unit other than u that reads the output of node o; *reader
// must be -1 before. Returns 0 if there are several.
static int only_reader(const linker *l, int32_t u, int32_t o, int32_t *reader)
{
    const dv_fuse_edge *t = &l->f->g->edges[l->f->g->nodes[o].output];
    for (int32_t i = 0; i < t->n_readers; i++) {
        int32_t v = l->p->of[t->readers[i]];
        if (v == u)
            continue;
        if (*reader >= 0 && *reader != v)
            return 0;
        *reader = v;
    }
    return 1;
}

static void add_candidate(linker *l, int32_t from, int32_t to, int32_t tensor)
{
    int32_t i = 0;
    while (i < l->n && (l->links[i].from != from || l->links[i].to != to))
        i++;
    if (i == l->n)
        l->links[l->n++] = (link){.from = from, .to = to};
    dv_fuse_kept *all = &l->links[i].all;
    if (all->n < DV_FUSE_MOST_KEPT)
        all->at[all->n++] = tensor;
}

static void find_candidates(linker *l)
{
    const dv_fuse_graph *g = l->f->g;
    for (int32_t o = 0; o < g->n; o++) {
        int32_t reader = -1, u = l->p->of[o], t = g->nodes[o].output;
        if (g->edges[t].size <= g->capacity && only_reader(l, u, o, &reader) &&
            reader >= 0)
            add_candidate(l, u, reader, t);
    }
}

// Finds the subset of a link's tensors that saves most when kept in the
// scratchpad, given the accepted links of its two units.
static void weigh(linker *l, link *x)
{
    x->gain = 0;
    for (unsigned m = 1; m < 1u << x->all.n; m++) {
        dv_fuse_kept some = {0};
        for (int32_t i = 0; i < x->all.n; i++)
            if (m >> i & 1)
                some.at[some.n++] = x->all.at[i];
        double from = dv_fuse_price(l->f, set_of(l, x->from),
                                    &l->received[x->from], &some)
                          .cost;
        if (from >= DV_FUSE_NEVER)
            continue;
        double to =
            dv_fuse_price(l->f, set_of(l, x->to), &some, &l->kept[x->to]).cost;
        double gain = l->cost[x->from] + l->cost[x->to] - from - to;
        if (gain > x->gain + 1e-9 * l->cost[x->to]) {
            x->gain = gain;
            x->best = some;
            x->from_cost = from;
            x->to_cost = to;
        }
    }
}

static void choose_links(linker *l)
{
    for (int32_t i = 0; i < l->n && !dv_fuse_late(l->f); i++)
        weigh(l, &l->links[i]);
    while (!dv_fuse_late(l->f)) {
        link *best = NULL;
        for (int32_t i = 0; i < l->n; i++)
            if (l->links[i].gain > 0 &&
                (!best || l->links[i].gain > best->gain))
                best = &l->links[i];
        if (!best)
            return;
        link x = *best;
        best->gain = 0;
        int32_t a = l->chains.of[x.from], b = l->chains.of[x.to];
        if (l->next[x.from] >= 0 || l->has_in[x.to] || a == b ||
            !dv_fuse_can_join(l->f, &l->chains, a, b))
            continue;
        dv_fuse_join(l->f, &l->chains, a, b);
        l->next[x.from] = x.to;
        l->has_in[x.to] = 1;
        l->kept[x.from] = l->received[x.to] = x.best;
        l->cost[x.from] = x.from_cost;
        l->cost[x.to] = x.to_cost;
        // The gains of links that would extend this chain have changed:
        // recompute them.
        for (int32_t i = 0; i < l->n; i++)
            if (l->links[i].from == x.to || l->links[i].to == x.from)
                weigh(l, &l->links[i]);
    }
}

// Returns 1 if everything that the chain of groups reads is computed by ops of
// the set `done` or of the chain itself.
static int is_ready(const linker *l, const uint64_t *chain,
                    const uint64_t *done)
{
    const dv_fuse_graph *g = l->f->g;
    DV_FUSE_EACH(o, chain, g->words)
    {
        const dv_fuse_node *x = &g->nodes[o];
        for (int32_t k = 0; k < x->n_inputs; k++) {
            int32_t from = g->edges[x->inputs[k]].producer;
            if (from >= 0 && !dv_fuse_has(chain, from) &&
                !dv_fuse_has(done, from))
                return 0;
        }
    }
    return 1;
}

static void put_chain(const linker *l, int32_t first, dv_fuse_answer *out)
{
    size_t words = (size_t)l->f->g->words;
    for (int32_t u = first; u >= 0; u = l->next[u]) {
        memcpy(out->sets + (size_t)out->n * words, set_of(l, u),
               words * sizeof *out->sets);
        out->received[out->n] = l->received[u];
        out->kept[out->n++] = l->kept[u];
        out->total += l->cost[u];
    }
}

// Puts the chains of groups in an order of execution: always the first one
// whose inputs are ready. The total is DV_FUSE_NEVER if units read each other
// in a cycle.
static void put_in_order(const linker *l, dv_fuse_answer *out)
{
    const dv_fuse_graph *g = l->f->g;
    uint64_t done[DV_FUSE_MOST_OPS / 64] = {0};
    char placed[DV_FUSE_MOST_OPS] = {0};
    int32_t n_units = 0;
    out->n = 0;
    out->total = 0;
    for (int32_t u = 0; u < g->n; u++)
        n_units += l->p->of[u] == u;
    for (int32_t before = -1; before < out->n;) {
        before = out->n;
        for (int32_t u = 0; u < g->n; u++) {
            // A chain is placed with its first unit: skip all other units.
            if (l->p->of[u] != u || l->has_in[u] || placed[u])
                continue;
            const uint64_t *chain =
                l->chains.sets + (size_t)l->chains.of[u] * (size_t)g->words;
            if (!is_ready(l, chain, done))
                continue;
            put_chain(l, u, out);
            for (int32_t i = 0; i < g->words; i++)
                done[i] |= chain[i];
            placed[u] = 1;
        }
    }
    if (out->n < n_units)
        out->total = DV_FUSE_NEVER;
}

void dv_fuse_retain(dv_fuser *f, const dv_fuse_parts *p, dv_fuse_answer *out)
{
    const dv_fuse_graph *g = f->g;
    dv_arena a = {0};
    linker l = {.f = f, .p = p};
    l.links = DV_NEW(&a, link, g->n);
    l.received = DV_NEW(&a, dv_fuse_kept, g->n);
    l.kept = DV_NEW(&a, dv_fuse_kept, g->n);
    l.next = DV_NEW(&a, int32_t, g->n);
    l.has_in = DV_NEW(&a, char, g->n);
    l.cost = DV_NEW(&a, double, g->n);
    l.chains.sets = DV_NEW(&a, uint64_t, (size_t)g->n * (size_t)g->words);
    l.chains.of = DV_NEW(&a, int32_t, g->n);
    l.chains.cost = DV_NEW(&a, double, g->n);
    if (l.links && l.received && l.kept && l.next && l.has_in && l.cost &&
        l.chains.sets && l.chains.of && l.chains.cost) {
        dv_fuse_parts_copy(&l.chains, p, g);
        memset(l.next, -1, (size_t)g->n * sizeof *l.next);
        memcpy(l.cost, p->cost, (size_t)g->n * sizeof *l.cost);
        find_candidates(&l);
        choose_links(&l);
        put_in_order(&l, out);
    } else {
        f->failed = 1;
    }
    dv_arena_free(&a);
}
