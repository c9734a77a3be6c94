// The best partition of a small graph, by dynamic programming over down-sets: a
// down-set holds, with every op, the ops that it depends on. A schedule is a
// chain of down-sets, in which each step adds one group. The state is the
// down-set of the ops done and what the last group keeps for the next one.
//
//   {} -> {0,1} -> {0,1,2,3} -> all       cost of a step: that of its group
//
// There are few down-sets if the graph is small or narrow; the search gives up
// if there are many.
#include "fuse/fuse.h"
#include "base/random.h"
#include <string.h>

enum {
    MOST_NODES = 64,
    MOST_SETS = 3000,
    STATES_PER_SET = 32, // down-sets with different retained tensors
    MOST_CHOICES = 3,    // tensors that a group may retain
};

typedef struct state {
    uint64_t done, group; // `group` was added last
    dv_fuse_kept kept;
    double cost;
    int32_t before;    // the state that `group` was added to; -1: none
    int32_t same_size; // next state with as many ops done; -1: none
} state;

typedef struct lattice {
    dv_fuser *f;
    uint64_t all;                 // nodes that are not inlined
    uint64_t needs[MOST_NODES];   // nodes that a node depends on directly
    uint64_t readers[MOST_NODES]; // nodes that read its output
    uint64_t touches[MOST_NODES]; // nodes with a common tensor
    double work[MOST_NODES];      // least computing time
    state *states;                // owned
    int32_t n, cap;
    int32_t *table, table_size; // hash table of states; owned
    int32_t by_size[MOST_NODES + 1];
    int64_t stop;  // give up when so much of the budget is left
    double best;   // total to beat
    int32_t found; // final state, or -1
} lattice;

// Follows the readers of a node through inlined ones.
static uint64_t readers_of(const lattice *l, int32_t o)
{
    const dv_fuse_graph *g = l->f->g;
    const dv_fuse_edge *t = &g->edges[g->nodes[o].output];
    uint64_t set = 0;
    for (int32_t i = 0; i < t->n_readers; i++) {
        int32_t r = t->readers[i];
        set |=
            dv_fuse_has(l->f->inlined, r) ? readers_of(l, r) : (uint64_t)1 << r;
    }
    return set;
}

// Returns the nodes that touch a tensor, also through inlined ones.
static uint64_t users_of(const lattice *l, int32_t tensor)
{
    const dv_fuse_edge *t = &l->f->g->edges[tensor];
    uint64_t set = 0;
    for (int32_t i = 0; i < t->n_readers; i++) {
        int32_t r = t->readers[i];
        set |=
            dv_fuse_has(l->f->inlined, r) ? readers_of(l, r) : (uint64_t)1 << r;
    }
    if (t->producer >= 0)
        set |= dv_fuse_has(l->f->inlined, t->producer)
                   ? readers_of(l, t->producer)
                   : (uint64_t)1 << t->producer;
    return set;
}

static void relate(lattice *l)
{
    const dv_fuse_graph *g = l->f->g;
    int32_t ops[MOST_NODES];
    for (int32_t o = 0; o < g->n; o++)
        l->all |= (uint64_t)!dv_fuse_has(l->f->inlined, o) << o;
    DV_FUSE_EACH(o, &l->all, 1)
    {
        uint64_t set = (uint64_t)1 << o;
        l->work[o] = dv_fuse_least_work(g, o);
        l->readers[o] = readers_of(l, o);
        DV_FUSE_EACH(r, &l->readers[o], 1) l->needs[r] |= set;
        int32_t n = dv_fuse_expand(l->f, &set, ops);
        for (int32_t i = 0; i < n; i++) {
            const dv_fuse_node *x = &g->nodes[ops[i]];
            l->touches[o] |= users_of(l, x->output);
            for (int32_t k = 0; k < x->n_inputs; k++)
                l->touches[o] |= users_of(l, x->inputs[k]);
        }
    }
}

static int is_connected(const lattice *l, uint64_t set)
{
    uint64_t reached = set & -set, new = reached;
    while (new) {
        uint64_t around = 0;
        DV_FUSE_EACH(o, &new, 1) around |= l->touches[o];
        new = around &set & ~reached;
        reached |= new;
    }
    return reached == set;
}

// Returns the least computing time of the ops that are not done.
static double remaining(const lattice *l, uint64_t done)
{
    double sum = 0;
    uint64_t rest = l->all & ~done;
    DV_FUSE_EACH(o, &rest, 1) sum += l->work[o];
    return sum;
}

// -- States ------------------------------------------------------------------

static int same_kept(const dv_fuse_kept *a, const dv_fuse_kept *b)
{
    if (a->n != b->n)
        return 0;
    for (int32_t i = 0; i < a->n; i++)
        if (a->at[i] != b->at[i])
            return 0;
    return 1;
}

static int32_t *find(lattice *l, uint64_t done, const dv_fuse_kept *kept)
{
    uint64_t h = dv_mix(done);
    for (int32_t i = 0; i < kept->n; i++)
        h = dv_mix(h ^ (uint32_t)kept->at[i]);
    for (uint64_t i = h & (uint64_t)(l->table_size - 1);;
         i = (i + 1) & (uint64_t)(l->table_size - 1)) {
        int32_t s = l->table[i];
        if (s < 0 ||
            (l->states[s].done == done && same_kept(&l->states[s].kept, kept)))
            return &l->table[i];
    }
}

// Adds a state, or improves it if it is there.
static void reach(lattice *l, const state *x)
{
    int32_t *slot = find(l, x->done, &x->kept);
    if (*slot >= 0) {
        state *old = &l->states[*slot];
        int32_t same_size = old->same_size;
        if (old->cost <= x->cost)
            return;
        *old = *x;
        old->same_size = same_size;
    } else if (l->n < l->cap) {
        int size = __builtin_popcountll(x->done);
        *slot = l->n;
        l->states[l->n] = *x;
        l->states[l->n].same_size = l->by_size[size];
        l->by_size[size] = l->n++;
    } else {
        l->stop = INT64_MAX;
        return;
    }
    if (x->done == l->all) {
        l->found = *slot;
        l->best = x->cost;
    }
}

// -- Groups ------------------------------------------------------------------

// Lists tensors that the group could keep for the next one.
static dv_fuse_kept list_keepable(const lattice *l, uint64_t group)
{
    const dv_fuse_graph *g = l->f->g;
    dv_fuse_kept out = {0};
    DV_FUSE_EACH(o, &group, 1)
    {
        int32_t t = g->nodes[o].output;
        if (l->readers[o] & ~group && g->edges[t].size <= g->capacity &&
            out.n < MOST_CHOICES)
            out.at[out.n++] = t;
    }
    return out;
}

// Adds the states that a group leads to, with everything that it may keep.
static void add_group(lattice *l, int32_t from, uint64_t group)
{
    state s = l->states[from];
    const dv_fuse_graph *g = l->f->g;
    l->f->steps++;
    l->f->left--;
    for (int32_t i = 0; i < s.kept.n; i++)
        if (l->readers[g->edges[s.kept.at[i]].producer] & ~s.done & ~group)
            return;
    if (!is_connected(l, group))
        return;
    dv_fuse_kept keepable = list_keepable(l, group);
    double rest = remaining(l, s.done | group);
    for (unsigned m = 0; m < 1u << keepable.n; m++) {
        state x = {.done = s.done | group, .group = group, .before = from};
        for (int32_t i = 0; i < keepable.n; i++)
            if (m >> i & 1)
                x.kept.at[x.kept.n++] = keepable.at[i];
        x.cost = s.cost + dv_fuse_price(l->f, &group, &s.kept, &x.kept).cost;
        if (x.cost + rest < l->best * (1 - 1e-12))
            reach(l, &x);
    }
}

// Extends the group by every set of nodes >= next that makes a down-set with
// what is done.
static void extend(lattice *l, int32_t from, uint64_t group, int32_t next)
{
    uint64_t done = l->states[from].done | group;
    for (int32_t o = next; o < l->f->g->n && l->f->left > l->stop; o++) {
        uint64_t bit = (uint64_t)1 << o;
        if (!(l->all & bit) || done & bit || l->needs[o] & ~done)
            continue;
        add_group(l, from, group | bit);
        extend(l, from, group | bit, o + 1);
    }
}

static void put_answer(const lattice *l, dv_fuse_answer *out)
{
    int32_t n = 0;
    for (int32_t s = l->found; l->states[s].before >= 0;
         s = l->states[s].before)
        n++;
    out->n = n;
    out->total = l->states[l->found].cost;
    out->inlined[0] = l->f->inlined[0];
    for (int32_t s = l->found; n--; s = l->states[s].before) {
        const state *x = &l->states[s];
        out->sets[n] = x->group;
        out->kept[n] = x->kept;
        out->received[n] = l->states[x->before].kept;
    }
}

// Counts the down-sets that extend `done` by nodes >= next, up to a limit.
static int32_t count(const lattice *l, uint64_t done, int32_t next,
                     int32_t most)
{
    int32_t n = 1;
    for (int32_t o = next; o < l->f->g->n && n < most; o++) {
        uint64_t bit = (uint64_t)1 << o;
        if (l->all & bit && !(l->needs[o] & ~done))
            n += count(l, done | bit, o + 1, most - n);
    }
    return n;
}

static void search(lattice *l)
{
    reach(l, &(state){.before = -1});
    for (int size = 0; size < l->f->g->n; size++)
        for (int32_t s = l->by_size[size]; s >= 0 && l->f->left > l->stop;
             s = l->states[s].same_size)
            if (l->states[s].cost + remaining(l, l->states[s].done) < l->best)
                extend(l, s, 0, 0);
}

void dv_fuse_lattice(dv_fuser *f, dv_fuse_answer *best, int64_t most)
{
    lattice l = {.f = f, .best = best->total, .found = -1};
    l.stop = f->left - most;
    if (f->g->n > MOST_NODES || best->total <= f->bound || dv_fuse_spent(f))
        return;
    relate(&l);
    int32_t n = count(&l, 0, 0, MOST_SETS);
    if (n == MOST_SETS)
        return;
    l.cap = n * STATES_PER_SET;
    for (l.table_size = 64; l.table_size < 2 * l.cap;)
        l.table_size *= 2;
    l.states = dv_alloc((size_t)l.cap * sizeof *l.states);
    l.table = dv_alloc((size_t)l.table_size * sizeof *l.table);
    if (l.states && l.table) {
        memset(l.table, -1, (size_t)l.table_size * sizeof *l.table);
        memset(l.by_size, -1, sizeof l.by_size);
        search(&l);
        if (l.found >= 0)
            put_answer(&l, best);
    } else {
        f->failed = 1;
    }
    dv_release(l.states);
    dv_release(l.table);
}
