// Groups for a machine whose scratchpads are caches: what passes between ops
// is kept by itself as long as little enough passes. A chain of ops is cut into
// tiles along one variable of each, so that a tile needs nothing of the chain
// but what the same tile left, and one tile's data fits the cache.
//
//   m[i]   = max[j] x[i,j]        i cut by 16:   tile 0: rows 0..16 of m, e, y
//   e[i,j] = exp(x[i,j] - m[i])                  tile 1: rows 16..32
//   y[i,j] = e[i,j] / s[i]                       ...
//
// Products stay alone: they are better cut in two directions, by the level of
// loops.
#include "base/math.h"
#include "scratch/scratch.h"
#include <string.h>

enum {
    MAX_CHAIN = 32,
    LINE = 16,   // elements of a cache line, about
    PIECE = 256, // elements of a row that are worth a page
};

typedef struct chain {
    const dv_plan *plan;
    int32_t first, end;
    int32_t reach;          // ops up to here were tried
    int32_t cut[MAX_CHAIN]; // the variable of each op that is cut
    int64_t begin, n;       // its range, the same for all
    int64_t len;            // points of it in a tile
    double tile_bytes;      // of all that ops touch, per point of the range
    double fixed_bytes;     // and of what does not depend on it
    int32_t *writer;        // by tensor: op of the chain, or -1
    const uint8_t *edge;    // a repeat begins or ends before op i
} chain;

// -- Which variable --------------------------------------------------------

// The dim of an access that is just variable v, no other dim depending on it;
// -1: there is none.
static int plain_dim(const dv_op *o, const dv_access *a, int v)
{
    int found = -1;
    for (int d = 0; d < a->n_dims; d++) {
        const dv_index *x = &a->index[d];
        int var;
        if (x->via >= 0)
            return -1;
        if (x->coef[v] == 0)
            continue;
        if (found >= 0 || !dv_index_is_var(o, x, &var) || var != v)
            return -1;
        found = d;
    }
    return found;
}

// Does an operand serve several results?
static int is_product(const dv_op *o)
{
    uint32_t written = dv_written_vars(o);
    for (int r = 0; r < o->n_reads; r++)
        if (written & ~dv_access_vars(o, &o->reads[r]))
            return dv_op_kind(o) == DV_KIND_CONTRACTION;
    return 0;
}

static int joinable(const dv_plan *plan, int32_t i)
{
    const dv_op *o = &plan->ops->ops[i];
    if (o->is_extern || o->update || is_product(o) ||
        dv_access_is_indirect(&o->write) || plan->divisions[i].pinned)
        return 0;
    for (int r = 0; r < o->n_reads; r++)
        if (dv_access_is_indirect(&o->reads[r]))
            return 0;
    return 1;
}

// Does a tile write a box without gaps, as far as the checker can see (C8): one
// variable a dim, of step 1?
static int writes_box(const dv_op *o)
{
    uint32_t seen = 0;
    for (int d = 0; d < o->write.n_dims; d++) {
        int n = 0;
        for (int v = 0; v < o->n_vars; v++) {
            int64_t coef = o->write.index[d].coef[v];
            if (coef != 0 && (coef != 1 || n++ || (seen >> v & 1)))
                return 0;
            seen |= coef ? 1u << v : 0;
        }
    }
    return 1;
}

// Does op i, cut along v, find what it needs of the chain in its own tile?
static int fits(const chain *c, int32_t i, int v)
{
    const dv_op *o = &c->plan->ops->ops[i];
    const dv_var *var = &o->vars[v];
    if (var->reduce || var->begin != c->begin ||
        var->end - var->begin != c->n || plain_dim(o, &o->write, v) < 0)
        return 0;
    for (int r = 0; r < o->n_reads; r++) {
        int32_t w = c->writer[o->reads[r].tensor];
        if (w < 0)
            continue;
        const dv_op *from = &c->plan->ops->ops[w];
        int d = plain_dim(from, &from->write, c->cut[w - c->first]);
        if (d != plain_dim(o, &o->reads[r], v) || !writes_box(from))
            return 0;
    }
    return 1;
}

static int reads_chain(const chain *c, int32_t i)
{
    const dv_op *o = &c->plan->ops->ops[i];
    for (int r = 0; r < o->n_reads; r++)
        if (c->writer[o->reads[r].tensor] >= 0)
            return 1;
    return 0;
}

// Does it write what no op of the chain touches?
static int writes_new(const chain *c, int32_t i)
{
    const dv_op *o = &c->plan->ops->ops[i];
    for (int32_t k = c->first; k < i; k++) {
        const dv_op *other = &c->plan->ops->ops[k];
        if (other->write.tensor == o->write.tensor)
            return 0;
        for (int r = 0; r < other->n_reads; r++)
            if (other->reads[r].tensor == o->write.tensor)
                return 0;
    }
    return 1;
}

// An op that reads nothing of the chain comes along where a later one does.
static void extend(chain *c)
{
    const dv_program *p = c->plan->ops;
    for (int32_t i = c->end; i < p->n_ops && i - c->first < MAX_CHAIN; i++) {
        if (c->edge[i] || !joinable(c->plan, i) || !writes_new(c, i))
            return;
        int v = 0;
        while (v < p->ops[i].n_vars && !fits(c, i, v))
            v++;
        if (v == p->ops[i].n_vars)
            return;
        c->cut[i - c->first] = v;
        if (reads_chain(c, i))
            c->end = i + 1;
        c->writer[p->ops[i].write.tensor] = i;
        c->reach = i + 1;
    }
}

static void start(chain *c, int32_t first, int v)
{
    const dv_op *o = &c->plan->ops->ops[first];
    c->first = first;
    c->end = c->reach = first + 1;
    c->cut[0] = v;
    c->begin = o->vars[v].begin;
    c->n = o->vars[v].end - o->vars[v].begin;
    c->writer[o->write.tensor] = first;
}

static void forget(chain *c)
{
    for (int32_t i = c->first; i < c->reach; i++)
        c->writer[c->plan->ops->ops[i].write.tensor] = -1;
}

// -- How long a tile is ----------------------------------------------------

static void count_access(chain *c, const dv_op *o, const dv_access *a, int v)
{
    double bytes = (double)dv_tensor_bytes(&c->plan->ops->tensors[a->tensor]);
    if (plain_dim(o, a, v) >= 0)
        c->tile_bytes += bytes / (double)c->n;
    else
        c->fixed_bytes += bytes;
}

// Every tensor counts once, as its first access has it.
static void count_bytes(chain *c, uint8_t *seen)
{
    const dv_program *p = c->plan->ops;
    c->tile_bytes = c->fixed_bytes = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int32_t i = c->first; i < c->end; i++) {
            const dv_op *o = &p->ops[i];
            for (int r = -1; r < o->n_reads; r++) {
                const dv_access *a = r < 0 ? &o->write : &o->reads[r];
                if (!pass && !seen[a->tensor])
                    count_access(c, o, a, c->cut[i - c->first]);
                seen[a->tensor] = !pass;
            }
        }
}

// Is the cut variable the innermost of rows, of tensors that have at least so
// many of the chain's bytes: are their tiles columns?
static int cuts_rows(const chain *c, double least_bytes)
{
    for (int32_t i = c->first; i < c->end; i++) {
        const dv_op *o = &c->plan->ops->ops[i];
        for (int r = -1; r < o->n_reads; r++) {
            const dv_access *a = r < 0 ? &o->write : &o->reads[r];
            const dv_tensor *t = &c->plan->ops->tensors[a->tensor];
            if (a->n_dims > 1 && (double)dv_tensor_bytes(t) >= least_bytes &&
                plain_dim(o, a, c->cut[i - c->first]) == a->n_dims - 1)
                return 1;
        }
    }
    return 0;
}

// Points of the cut variable in a tile: half the cache, all cores busy to the
// end; where rows are cut, whole lines, and 0 if they are few and not all is
// small: columns are then found piece by piece, each on another page.
static int64_t tile_length(const chain *c)
{
    const dv_target *t = &c->plan->target;
    double room = (double)c->plan->scratch.capacity_bytes / 2 - c->fixed_bytes;
    double most = room / (c->tile_bytes > 0 ? c->tile_bytes : 1);
    if (most < 1)
        return 0;
    int64_t len = most < (double)c->n ? (int64_t)most : c->n;
    int64_t rounds = dv_ceil_div(dv_ceil_div(c->n, len), t->cores);
    len = dv_ceil_div(c->n, dv_min_i64(rounds * t->cores, c->n));
    if (!cuts_rows(c, 0) || len == c->n)
        return len;
    int64_t lines = dv_min_i64(dv_ceil_div(len, LINE) * LINE, c->n);
    if (dv_ceil_div(c->n, lines) >= t->cores)
        len = lines;
    double all = c->tile_bytes * (double)c->n;
    return len < PIECE && all > room && cuts_rows(c, all / 8) ? 0 : len;
}

// -- Joining ---------------------------------------------------------------

static dv_status join(dv_plan *plan, const chain *c, dv_group *g, dv_diag *diag)
{
    for (int32_t i = c->first; i < c->end; i++) {
        const dv_op *o = &plan->ops->ops[i];
        for (int v = 0; v < o->n_vars; v++)
            plan->slices[i][v] = v == c->cut[i - c->first]
                                     ? c->len
                                     : o->vars[v].end - o->vars[v].begin;
    }
    *g = (dv_group){.first_op = c->first,
                    .end_op = c->end,
                    .n_tiles = dv_ceil_div(c->n, c->len)};
    return dv_plan_deal(plan, c->first, g, diag);
}

// The longest chain that begins with op i and whose tiles fit, cut as far out
// as can be. best->len is 0 when there is none.
static void longest(chain *best, chain *c, int32_t i, uint8_t *seen)
{
    const dv_op *o = &c->plan->ops->ops[i];
    best->end = i + 1;
    best->len = 0;
    for (int v = 0; v < o->n_vars && joinable(c->plan, i); v++) {
        if (o->vars[v].reduce || plain_dim(o, &o->write, v) < 0)
            continue;
        start(c, i, v);
        extend(c);
        forget(c);
        if (c->end <= best->end)
            continue;
        count_bytes(c, seen);
        c->len = tile_length(c);
        if (c->len > 0)
            *best = *c;
    }
}

static dv_status make_groups(dv_plan *plan, chain *c, uint8_t *seen,
                             dv_diag *diag)
{
    int32_t n = 0;
    chain best = *c;
    for (int32_t i = 0; i < plan->ops->n_ops; i = best.end) {
        longest(&best, c, i, seen);
        if (best.len > 0)
            DV_TRY(join(plan, &best, &plan->groups[n++], diag));
        else
            plan->groups[n++] = plan->groups[i];
    }
    plan->n_groups = n;
    return DV_OK;
}

dv_status dv_cache_group(dv_plan *plan, dv_arena *arena, dv_diag *diag)
{
    const dv_program *p = plan->ops;
    uint8_t *edge = DV_NEW(arena, uint8_t, p->n_ops + 1);
    uint8_t *seen = DV_NEW(arena, uint8_t, p->n_tensors);
    chain c = {.plan = plan, .edge = edge};
    c.writer = DV_NEW(arena, int32_t, p->n_tensors);
    if (!edge || !seen || !c.writer)
        return dv_nomem(diag);
    for (int32_t i = 0; i < p->n_repeats; i++)
        edge[p->repeats[i].first_op] = edge[p->repeats[i].end_op] = 1;
    for (int32_t i = 0; i < p->n_tensors; i++)
        c.writer[i] = -1;
    return make_groups(plan, &c, seen, diag);
}
