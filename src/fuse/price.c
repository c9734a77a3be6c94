// Costs of groups, remembered by structure: two groups with the same ops on
// tensors of the same shapes and roles have the same best tiling, whatever the
// numbers of their ops are. Repeated blocks of a graph are searched once.
//
// The key of a group lists its ops in topological order; each with its kind and
// cost, and its tensors, numbered in the order of their first appearance, with
// their shapes and roles.
#include "fuse/fuse.h"
#include "base/clock.h"
#include "base/random.h"
#include <string.h>

const dv_fuse_kept dv_fuse_nothing = {0};

typedef struct slot {
    uint64_t hash;
    const int32_t *key; // NULL: the slot is free
    int32_t n;
    dv_fuse_tiling tiling;
} slot;

struct dv_fuse_memo {
    slot *slots; // owned
    size_t n, cap;
    dv_fuse_sizes *sizes; // tile sizes by shape, in the arena
    int32_t n_sizes, cap_sizes;
    // Scratch arrays for describing one group.
    int32_t *ops, *tensors, *local, *key;
    char *roles;
    unsigned *wanted;
    int64_t *seen; // by tensor: number of the call that saw it last
    int64_t call;
};

int dv_fuse_memo_create(dv_fuser *f)
{
    enum { START = 1 << 10 };
    const dv_fuse_graph *g = f->g;
    dv_fuse_memo *m = DV_NEW(&f->arena, dv_fuse_memo, 1);
    int64_t uses = g->n;
    for (int32_t o = 0; o < g->n; o++)
        uses += g->nodes[o].n_inputs;
    f->memo = m;
    if (!m)
        return 0;
    m->ops = DV_NEW(&f->arena, int32_t, g->n);
    m->tensors = DV_NEW(&f->arena, int32_t, g->n_tensors);
    m->local = DV_NEW(&f->arena, int32_t, g->n_tensors);
    m->key = DV_NEW(&f->arena, int32_t, 1 + 2 * g->n + 3 * uses);
    m->roles = DV_NEW(&f->arena, char, g->n_tensors);
    m->wanted = DV_NEW(&f->arena, unsigned, g->n_tensors);
    m->seen = DV_NEW(&f->arena, int64_t, g->n_tensors);
    m->slots = dv_alloc(START * sizeof *m->slots);
    if (!m->slots)
        return 0;
    memset(m->slots, 0, START * sizeof *m->slots);
    m->cap = START;
    return m->ops && m->tensors && m->local && m->key && m->roles &&
           m->wanted && m->seen;
}

void dv_fuse_memo_free(dv_fuser *f)
{
    if (f->memo)
        dv_release(f->memo->slots);
}

int dv_fuse_late(const dv_fuser *f)
{
    return f->until_s > 0 && dv_clock_s() > f->until_s;
}

int dv_fuse_spent(dv_fuser *f)
{
    if (f->failed || f->left <= 0)
        return 1;
    if (dv_fuse_late(f))
        f->left = 0;
    return f->left <= 0;
}

int dv_fuse_leaves(const dv_fuse_graph *g, const uint64_t *set, int32_t o)
{
    const dv_fuse_edge *t = &g->edges[g->nodes[o].output];
    for (int32_t i = 0; i < t->n_readers; i++)
        if (!dv_fuse_has(set, t->readers[i]))
            return 1;
    return !t->n_readers;
}

static int is_in(const dv_fuse_kept *k, int32_t t)
{
    for (int32_t i = 0; i < k->n; i++)
        if (k->at[i] == t)
            return 1;
    return 0;
}

// A group whose cost is requested, with the tensors that it receives and keeps
// in the scratchpad.
typedef struct request {
    const uint64_t *set;
    const dv_fuse_kept *received, *kept;
    int least; // 1: a lower bound for all that it may receive and keep
} request;

// The role of a tensor for a lower bound of the group's cost: only outputs that
// no op of the group reads leave it, and a tensor that fits the scratchpad may
// be kept or received at no cost.
static dv_fuse_role least_role(const dv_fuser *f, const request *r, int32_t t)
{
    const dv_fuse_edge *e = &f->g->edges[t];
    int fits = e->size <= f->g->capacity;
    if (e->producer < 0 || !dv_fuse_has(r->set, e->producer))
        return e->producer >= 0 && fits ? DV_FUSE_INNER : DV_FUSE_LOADED;
    for (int32_t i = 0; i < e->n_readers; i++)
        if (dv_fuse_has(r->set, e->readers[i]))
            return DV_FUSE_INNER;
    return e->n_readers && fits ? DV_FUSE_KEPT : DV_FUSE_WRITTEN;
}

static dv_fuse_role role_of(const dv_fuser *f, const request *r, int32_t t)
{
    int32_t from = f->g->edges[t].producer;
    if (r->least)
        return least_role(f, r, t);
    if (from < 0 || !dv_fuse_has(r->set, from))
        return is_in(r->received, t) ? DV_FUSE_RESIDENT : DV_FUSE_LOADED;
    if (is_in(r->kept, t))
        return DV_FUSE_KEPT;
    return dv_fuse_leaves(f->g, r->set, from) ? DV_FUSE_WRITTEN : DV_FUSE_INNER;
}

// Appends a tensor to the key of a group in the memo: its number in the group
// and, at its first appearance, its shape and role.
static int32_t put_tensor(dv_fuser *f, const request *r, dv_fuse_group *x,
                          int32_t t, int32_t at)
{
    dv_fuse_memo *m = f->memo;
    if (m->seen[t] != m->call) {
        m->seen[t] = m->call;
        m->local[t] = x->n_tensors;
        m->tensors[x->n_tensors] = t;
        m->roles[x->n_tensors] = (char)role_of(f, r, t);
        m->key[at++] = -1 - f->g->edges[t].alike;
        m->key[at++] = m->roles[x->n_tensors++];
    } else {
        m->key[at++] = m->local[t];
    }
    return at;
}

// Describes the group in *x, and builds its key, by which equal groups share a
// cost in the memo. Returns the length of the key.
static int32_t describe(dv_fuser *f, const request *r, dv_fuse_group *x)
{
    dv_fuse_memo *m = f->memo;
    const dv_fuse_graph *g = f->g;
    int32_t at = 0;
    m->call++;
    m->key[at++] = r->least;
    *x = (dv_fuse_group){.g = g,
                         .ops = m->ops,
                         .tensors = m->tensors,
                         .local = m->local,
                         .roles = m->roles};
    DV_FUSE_EACH(o, r->set, g->words)
    {
        const dv_fuse_node *n = &g->nodes[o];
        m->ops[x->n_ops++] = o;
        m->key[at++] = n->alike;
        m->key[at++] = n->n_inputs;
        for (int32_t k = 0; k < n->n_inputs; k++)
            at = put_tensor(f, r, x, n->inputs[k], at);
        at = put_tensor(f, r, x, n->output, at);
    }
    return at;
}

static slot *find(dv_fuse_memo *m, uint64_t hash, const int32_t *key, int32_t n)
{
    size_t i = hash & (m->cap - 1);
    for (; m->slots[i].key; i = (i + 1) & (m->cap - 1)) {
        const slot *s = &m->slots[i];
        if (s->hash == hash && s->n == n &&
            !memcmp(s->key, key, (size_t)n * sizeof *key))
            break;
    }
    return &m->slots[i];
}

static int grow(dv_fuse_memo *m)
{
    size_t cap = 2 * m->cap;
    slot *old = m->slots, *more = dv_alloc(cap * sizeof *more);
    if (!more)
        return 0;
    memset(more, 0, cap * sizeof *more);
    for (size_t i = 0; i < m->cap; i++) {
        if (!old[i].key)
            continue;
        size_t k = old[i].hash & (cap - 1);
        while (more[k].key)
            k = (k + 1) & (cap - 1);
        more[k] = old[i];
    }
    m->slots = more;
    m->cap = cap;
    dv_release(old);
    return 1;
}

static const dv_fuse_sizes *sizes_for(dv_fuser *f, const dv_fuse_profile *p)
{
    dv_fuse_memo *m = f->memo;
    for (int32_t i = 0; i < m->n_sizes; i++)
        if (m->sizes[i].width == p->width && m->sizes[i].height == p->height)
            return &m->sizes[i];
    dv_fuse_sizes *s =
        DV_PUSH(&f->arena, dv_fuse_sizes, m->sizes, m->n_sizes, m->cap_sizes);
    return s && dv_fuse_sizes_init(s, f->g, p->width, p->height, &f->arena)
               ? s
               : NULL;
}

static dv_fuse_tiling search(dv_fuser *f, const dv_fuse_group *x, int least)
{
    dv_fuse_profile p;
    dv_fuse_tiling best = {.cost = DV_FUSE_NEVER};
    const dv_fuse_sizes *sizes = NULL;
    int64_t steps = 0;
    if (!dv_fuse_profile_init(&p, x, f->memo->wanted))
        return best;
    if (p.one.too_many || p.many.too_many) {
        best.cost = least ? 0 : DV_FUSE_NEVER;
        return best;
    }
    if (least) {
        p.whole_elems = 0;
        best.cost = dv_fuse_least_cost(f->g, &p, &steps);
    } else if (p.whole_elems <= f->g->capacity) {
        sizes = sizes_for(f, &p);
        if (sizes)
            best = dv_fuse_search_tiling(f->g, &p, sizes, &steps);
        else
            f->failed = 1;
    }
    f->steps += steps;
    f->left -= steps;
    return best;
}

static dv_fuse_tiling ask(dv_fuser *f, const request *r)
{
    dv_fuse_memo *m = f->memo;
    dv_fuse_tiling never = {.cost = DV_FUSE_NEVER};
    dv_fuse_group x;
    if (f->failed)
        return never;
    int32_t n = describe(f, r, &x);
    uint64_t hash = (uint64_t)n;
    for (int32_t i = 0; i < n; i++)
        hash = (hash ^ (uint32_t)m->key[i]) * DV_RANDOM_STEP + (hash >> 29);
    hash = dv_mix(hash);
    f->steps++;
    f->left--;
    slot *s = find(m, hash, m->key, n);
    if (s->key)
        return s->tiling;
    dv_fuse_tiling best = search(f, &x, r->least);
    int32_t *key = dv_arena_alloc(&f->arena, (size_t)n, sizeof *key);
    if (!key || (2 * ++m->n > m->cap && !grow(m))) {
        f->failed = 1;
        return never;
    }
    memcpy(key, m->key, (size_t)n * sizeof *key);
    *find(m, hash, key, n) = (slot){hash, key, n, best};
    return best;
}

dv_fuse_tiling dv_fuse_price(dv_fuser *f, const uint64_t *set,
                             const dv_fuse_kept *received,
                             const dv_fuse_kept *kept)
{
    request r = {set, received, kept, 0};
    return ask(f, &r);
}

double dv_fuse_least_price(dv_fuser *f, const uint64_t *set)
{
    request r = {set, &dv_fuse_nothing, &dv_fuse_nothing, 1};
    return ask(f, &r).cost;
}

dv_fuse_tiling dv_fuse_exact_price(dv_fuser *f, const uint64_t *set,
                                   const dv_fuse_kept *received,
                                   const dv_fuse_kept *kept)
{
    dv_fuse_tiling t = dv_fuse_price(f, set, received, kept);
    request r = {set, received, kept, 0};
    dv_fuse_group x;
    dv_fuse_profile p;
    if (t.is_bound) {
        describe(f, &r, &x);
        if (dv_fuse_profile_init(&p, &x, f->memo->wanted))
            t.cost = dv_fuse_exact_cost(f->g, &p, &t);
    }
    return t;
}
