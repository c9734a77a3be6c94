// Groups ops for a machine whose scratchpads are caches, which keep
// intermediate results as long as these are small enough. A chain of ops is cut
// into tiles along one variable of each op, so that a tile needs only results
// that the same tile of earlier ops computed, and the data of one tile fits the
// cache.
//
//   m[i]   = max[j] x[i,j]        i cut by 16:   tile 0: rows 0..16 of m, e, y
//   e[i,j] = exp(x[i,j] - m[i])                  tile 1: rows 16..32
//   y[i,j] = e[i,j] / s[i]                       ...
//
// If one point of the variable already exceeds the cache, every point is also
// cut along an inner variable: x[h,i,j] into heads, and each head into rows.
//
// Matrix products are part of chains where that pays: alone they are tiled in
// two dimensions, so that they read their operands less often; in a chain, the
// results that they pass on need not leave the cache, as the scores of
// attention. The predicted time (cached.c) decides into which chains the ops
// are divided, and for chains with products the size of tiles: of all ways to
// divide the ops into consecutive chains, the one with the least sum is found
// by going through the ops once, from the best ways to divide those before.
#include "base/math.h"
#include "base/stop.h"
#include "joint/cache.h"
#include "joint/joint.h"
#include <math.h>
#include <string.h>

enum {
    LINE = 16, // approximate number of elements in a cache line
    // The fewest elements of a piece of a row into which tiles may cut it: a
    // shorter one is not worth the access to another memory page.
    PIECE = 256,
};

typedef dv_cache_chain chain;

// The cheapest partition of the first ops of the program into chains (ops that
// run together tile by tile): its predicted time, and its last chain. If
// `levels` is 0, that chain keeps the division of its first op, and cuts the
// ops after it alike; else `cut` lists the variables of its first op that are
// cut.
typedef struct partition {
    double ns;
    int32_t first, levels, cut[DV_CACHE_LEVELS];
    int64_t len;
} partition;

typedef struct search {
    chain c;
    partition *partitions; // per op: for the ops before it; one more for all
    // Only chains of ops that end after this op are priced.
    int32_t covered;
    int32_t priced; // the end of the longest chain that was priced
} search;

static int can_merge(const dv_plan *plan, int32_t i)
{
    const dv_op *o = &plan->ops->ops[i];
    return !o->is_extern && !o->update && !dv_access_is_indirect(&o->write) &&
           !dv_op_gathers(o) && !plan->divisions[i].pinned;
}

// Returns the op of the chain (ops that run together tile by tile) that writes
// the tensor, or -1.
static int32_t writer_of(const chain *c, int32_t tensor)
{
    const dv_cache_tensor *t = &c->tensors[tensor];
    return t->chain == c->number ? t->writer : -1;
}

// Returns whether variable v comes after the variable of op i that the previous
// level of tiling cuts. Cut variables must be in the order of the op's loops,
// so that a tile number means the same part of every op.
static int is_inner_var(const chain *c, int32_t i, int v)
{
    return c->levels < 2 || v > c->cut[c->levels - 2][i - c->first];
}

// Returns whether op i, cut along variable v, reads only those results of the
// chain (ops that run together tile by tile) that its own tile computed.
static int fits(const chain *c, int32_t i, int v)
{
    const dv_op *o = &c->plan->ops->ops[i];
    const dv_var *var = &o->vars[v];
    int at = c->levels - 1;
    if (var->reduce || var->begin != c->begin[at] ||
        var->end - var->begin != c->n[at] || !is_inner_var(c, i, v) ||
        dv_cache_dim(o, &o->write, v) < 0)
        return 0;
    for (int r = 0; r < o->n_reads; r++) {
        int32_t w = writer_of(c, o->reads[r].tensor);
        if (w < 0)
            continue;
        const dv_op *from = &c->plan->ops->ops[w];
        int d = dv_cache_dim(from, &from->write, c->cut[at][w - c->first]);
        // A tile must write a box of elements without gaps, as the checker
        // requires of tensors that tiles pass on (rule C8 of
        // docs/invariants.md).
        int vars[DV_MAX_DIMS];
        if (d != dv_cache_dim(o, &o->reads[r], v) ||
            !dv_access_is_box(from, &from->write, vars))
            return 0;
    }
    return 1;
}

static int reads_chain(const chain *c, int32_t i)
{
    const dv_op *o = &c->plan->ops->ops[i];
    for (int r = 0; r < o->n_reads; r++)
        if (writer_of(c, o->reads[r].tensor) >= 0)
            return 1;
    return 0;
}

// Returns whether op i writes a tensor that no op of the chain (the ops before
// it that run together) reads or writes.
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

// Prices the current chain of ops, and keeps it if it ends the cheapest
// partition into chains of all ops up to its end.
static void offer(search *s);

// Extends the chain (ops that run together tile by tile) by the following ops,
// up to op `end`, and prices it each time. An op that reads no result of the
// chain is included only if a later op that reads one is included.
static void extend(search *s, int32_t end)
{
    chain *c = &s->c;
    const dv_program *p = c->plan->ops;
    for (int32_t i = c->end; i < end && i - c->first < DV_CACHE_CHAIN; i++) {
        if (c->edge[i] || !can_merge(c->plan, i) || !writes_new(c, i) ||
            dv_group_too_many_tensors(c->plan, c->first, i + 1))
            return;
        int v = 0;
        while (v < p->ops[i].n_vars && !fits(c, i, v))
            v++;
        if (v == p->ops[i].n_vars)
            return;
        c->cut[c->levels - 1][i - c->first] = v;
        int reads = reads_chain(c, i);
        dv_cache_enter(c, i);
        while (reads && c->end <= i)
            dv_cache_add(c, c->end++);
        if (reads)
            offer(s);
    }
}

// Starts a chain (ops that run together tile by tile) at op `first` and adds
// one level of tiling, along variable v.
static void start(chain *c, int32_t first, int v)
{
    const dv_op *o = &c->plan->ops->ops[first];
    int at = c->levels++;
    c->number++;
    c->first = first;
    c->end = first + 1;
    c->cut[at][0] = v;
    c->begin[at] = o->vars[v].begin;
    c->n[at] = dv_var_len(o, v);
    c->work = (dv_cache_work){0};
    dv_cache_enter(c, first);
    dv_cache_add(c, first);
}

// Returns how many values of the innermost cut variable a tile covers: a tile
// takes at most half the cache, and there are enough tiles to keep all cores
// busy. If tiles cut rows, they are whole cache lines. Returns 0, for no
// tiling, if the pieces of rows are shorter than PIECE and the data exceeds the
// cache, because every piece would then touch another page.
static int64_t tile_length(const chain *c, double cache)
{
    const dv_target *t = &c->plan->target;
    const dv_cache_work *w = &c->work;
    int64_t n = c->n[c->levels - 1];
    double room = cache / 2 - w->fixed_bytes, point = dv_cache_room(w);
    double most = room / (point > 0 ? point : 1);
    double outer = dv_cache_outer(c), all = w->point_bytes * (double)n * outer;
    if (most < 1)
        return 0;
    int64_t len = most < (double)n ? (int64_t)most : n;
    double least = (double)dv_ceil_div(n, len);
    double rounds = ceil(outer * least / (double)t->cores);
    double pieces = floor(rounds * (double)t->cores / outer);
    pieces = pieces > least ? pieces : least;
    len = dv_ceil_div(n, pieces < (double)n ? (int64_t)pieces : n);
    if (w->n_products) {
        int64_t up = dv_ceil_div(len, LINE) * LINE;
        return (double)up <= most ? dv_min_i64(up, n)
               : len > LINE       ? len / LINE * LINE
                                  : len;
    }
    if (w->rows_bytes == 0 || len == n)
        return len;
    int64_t lines = dv_min_i64(dv_ceil_div(len, LINE) * LINE, n);
    if (outer * (double)dv_ceil_div(n, lines) >= (double)t->cores)
        len = lines;
    return len < PIECE && all > room && w->rows_bytes >= all / 8 ? 0 : len;
}

static dv_status join(dv_plan *plan, const chain *c, dv_group *g, dv_diag *diag)
{
    int last = c->levels - 1;
    for (int32_t i = c->first; i < c->end; i++) {
        const dv_op *o = &plan->ops->ops[i];
        for (int v = 0; v < o->n_vars; v++)
            plan->slices[i][v] = dv_var_len(o, v);
        for (int at = 0; at <= last; at++)
            plan->slices[i][c->cut[at][i - c->first]] = at < last ? 1 : c->len;
    }
    *g = (dv_group){.first_op = c->first,
                    .end_op = c->end,
                    .once = plan->groups[c->first].once,
                    .n_tiles = dv_plan_n_tiles(plan, c->first)};
    return dv_plan_deal(plan, c->first, g, diag);
}

static void offer(search *s)
{
    const chain *c = &s->c;
    if (c->end <= s->covered)
        return;
    double near = dv_cache_near(c->plan);
    // The second size is smaller, so that tiles leave room in the cache for the
    // operands of matrix products that all tiles read.
    const double caches[] = {near, near * 2 / 3, dv_cache_far(c->plan)};
    double before = s->partitions[c->first].ns;
    partition *to = &s->partitions[c->end];
    // Only matrix products reuse their operands enough to gain from tiles that
    // exceed the cache of a core.
    for (int i = 0; i < (c->work.n_products ? 3 : 1); i++) {
        int64_t len = tile_length(c, caches[i]);
        double ns = len > 0 ? before + dv_cache_price(c, len) : to->ns;
        // If iterations of the outer levels of tiling read the same data, tiles
        // that cover several of these iterations may be cheaper.
        if (len > 0 && c->end > s->priced && !i && !c->work.shared)
            s->priced = c->end;
        if (ns >= to->ns)
            continue;
        *to = (partition){
            .ns = ns, .first = c->first, .levels = c->levels, .len = len};
        for (int at = 0; at < c->levels; at++)
            to->cut[at] = c->cut[at][0];
    }
}

// Prices the chains of ops from op i on that are tiled along variable v, up to
// op `end`. If their tiles do not fit the cache or are fewer than the cores, it
// also cuts the chains along inner variables.
static void try_cut(search *s, int32_t i, int v, int32_t end)
{
    chain *c = &s->c;
    const dv_op *o = &c->plan->ops->ops[i];
    if (o->vars[v].reduce || dv_cache_dim(o, &o->write, v) < 0)
        return;
    start(c, i, v);
    extend(s, end);
    int32_t reached = c->end, covered = s->covered;
    int few = dv_cache_outer(c) * (double)c->n[c->levels - 1] <
              (double)c->plan->target.cores;
    if (reached > i + 1 && c->levels < DV_CACHE_LEVELS &&
        (few || !tile_length(c, dv_cache_near(c->plan))))
        for (int w = v + 1; w < o->n_vars; w++) {
            try_cut(s, i, w, reached);
            s->covered = s->priced;
        }
    s->covered = covered;
    c->levels--;
}

// Begins a chain (ops that run together tile by tile) that keeps the tiles of
// op `first`. Returns 0 if no other op can be cut like that.
static int start_own(chain *c, int32_t first)
{
    const dv_op *o = &c->plan->ops->ops[first];
    c->number++;
    c->first = first;
    c->end = first + 1;
    c->levels = 0;
    for (int v = 0; v < o->n_vars; v++) {
        if (dv_plan_n_slices(c->plan, first, v) == 1)
            continue;
        if (o->vars[v].reduce || dv_cache_dim(o, &o->write, v) < 0 ||
            c->levels == DV_CACHE_LEVELS)
            return 0;
        c->begin[c->levels] = o->vars[v].begin;
        c->n[c->levels] = dv_var_len(o, v);
        c->cut[c->levels++][0] = v;
    }
    dv_cache_enter(c, first);
    return c->levels > 0 && can_merge(c->plan, first);
}

// Cuts op i into the same slices as the first op of its chain.
static void cut_alike(const chain *c, int32_t i)
{
    const dv_op *o = &c->plan->ops->ops[i];
    int64_t *slices = c->plan->slices[i];
    const int64_t *first = c->plan->slices[c->first];
    for (int v = 0; v < o->n_vars; v++)
        slices[v] = dv_var_len(o, v);
    for (int at = 0; at < c->levels; at++)
        slices[c->cut[at][i - c->first]] = first[c->cut[at][0]];
}

// Finds which variables of op i must be cut so that its tiles match those of
// the chain of ops before it. Returns 0 if there are none.
static int find_cuts(chain *c, int32_t i)
{
    const dv_op *o = &c->plan->ops->ops[i];
    int levels = c->levels, v = 0;
    for (c->levels = 1; c->levels <= levels && v < o->n_vars; c->levels++) {
        v = 0;
        while (v < o->n_vars && !fits(c, i, v))
            v++;
        c->cut[c->levels - 1][i - c->first] = v;
    }
    c->levels = levels;
    return v < o->n_vars;
}

// Returns whether op i can run tile by tile together with the chain of ops that
// ends before it.
static int may_follow(chain *c, int32_t i)
{
    return i - c->first < DV_CACHE_CHAIN && !c->edge[i] &&
           can_merge(c->plan, i) && writes_new(c, i) &&
           !dv_group_too_many_tensors(c->plan, c->first, i + 1) &&
           reads_chain(c, i) && find_cuts(c, i);
}

// Prices a chain of product i, with the tiles that it has already, and the ops
// after it that can be cut like it: then its results can stay in the core's
// cache. `ns` is the time of all ops up to and including i.
static void try_own(search *s, int32_t i, double ns)
{
    chain *c = &s->c;
    const dv_plan *plan = c->plan;
    int64_t was[DV_MAX_VARS];
    if (!dv_cache_is_product(&plan->ops->ops[i]) || !start_own(c, i))
        return;
    for (int32_t k = i + 1; k < plan->ops->n_ops && may_follow(c, k); k++) {
        size_t bytes = (size_t)plan->ops->ops[k].n_vars * sizeof *was;
        memcpy(was, plan->slices[k], bytes);
        cut_alike(c, k);
        ns += dv_cache_after(c, k);
        memcpy(plan->slices[k], was, bytes);
        dv_cache_enter(c, k);
        c->end = k + 1;
        if (ns < s->partitions[k + 1].ns)
            s->partitions[k + 1] = (partition){.ns = ns, .first = i};
    }
}

// Prices op i alone, and the chains (ops that run together tile by tile) that
// begin with it. Chains along an inner variable only count if they are longer
// than those along the outer ones, whose tiles are longer pieces of memory.
static void try_from(search *s, int32_t i)
{
    const dv_plan *plan = s->c.plan;
    const dv_op *o = &plan->ops->ops[i];
    double alone = s->partitions[i].ns + dv_cache_alone(plan, i);
    if (alone < s->partitions[i + 1].ns)
        s->partitions[i + 1] = (partition){.ns = alone, .first = i};
    // After the time limit, op i is only priced as a group of its own.
    if (dv_stop_late())
        return;
    try_own(s, i, alone);
    s->c.levels = 0;
    s->covered = s->priced = i + 1;
    int32_t most = (int32_t)dv_min_i64(plan->ops->n_ops, i + DV_CACHE_CHAIN);
    for (int v = 0; v < o->n_vars && s->covered < most && can_merge(plan, i);
         v++) {
        try_cut(s, i, v, plan->ops->n_ops);
        s->covered = s->priced;
    }
}

// Makes ops first..end - 1 one group, all cut like the first one, which keeps
// its division.
static dv_status make_own_group(dv_plan *plan, chain *c, int32_t first,
                                int32_t end, dv_group *g, dv_diag *diag)
{
    *g = plan->groups[first];
    if (end == first + 1 && !dv_cache_cut_copies(plan, first))
        return DV_OK;
    if (end == first + 1) {
        g->n_tiles = dv_plan_n_tiles(plan, first);
        return dv_plan_deal(plan, first, g, diag);
    }
    start_own(c, first);
    for (int32_t i = first + 1; i < end; i++) {
        find_cuts(c, i);
        cut_alike(c, i);
        dv_cache_enter(c, i);
        c->end = i + 1;
    }
    *g = (dv_group){.first_op = first,
                    .end_op = end,
                    .once = plan->groups[first].once,
                    .n_tiles = dv_plan_n_tiles(plan, first)};
    return dv_plan_deal(plan, first, g, diag);
}

// Makes the last chain of partition w, whose ops run together tile by tile, a
// group, and cuts its ops as the search has decided.
static dv_status make_group(dv_plan *plan, search *s, const partition *w,
                            int32_t end, dv_group *g, dv_diag *diag)
{
    chain *c = &s->c;
    if (!w->levels)
        return make_own_group(plan, c, w->first, end, g, diag);
    c->levels = 0;
    s->covered = end;
    for (int at = 0; at < w->levels; at++) {
        start(c, w->first, w->cut[at]);
        extend(s, end);
    }
    c->len = w->len;
    return join(plan, c, g, diag);
}

// Makes each chain (ops that run together tile by tile) of the cheapest
// partition a group.
static dv_status make_groups(dv_plan *plan, search *s, dv_arena *arena,
                             dv_diag *diag)
{
    int32_t n_ops = plan->ops->n_ops, n = 0;
    dv_group *groups = DV_NEW(&plan->arena, dv_group, n_ops);
    int32_t *ends = DV_NEW(arena, int32_t, n_ops + 1);
    if (!groups || !ends)
        return dv_nomem(diag);
    for (int32_t end = n_ops; end > 0; end = s->partitions[end].first)
        ends[n++] = end;
    for (int32_t i = 0; i < n; i++) {
        int32_t end = ends[n - 1 - i];
        DV_TRY(dv_stop_check(diag));
        DV_TRY(make_group(plan, s, &s->partitions[end], end, &groups[i], diag));
    }
    plan->groups = groups;
    plan->n_groups = n;
    return DV_OK;
}

// Counts the ops that read and write each tensor.
static void count_uses(dv_cache_tensor *tensors, const dv_program *p)
{
    for (int32_t t = 0; t < p->n_tensors; t++)
        tensors[t].lasts = p->tensors[t].is_output || p->tensors[t].is_input;
    for (int32_t i = 0; i < p->n_ops; i++) {
        const dv_op *o = &p->ops[i];
        tensors[o->write.tensor].lasts |= tensors[o->write.tensor].written;
        tensors[o->write.tensor].written = 1;
        for (int r = 0; r < o->n_reads; r++) {
            int again = 0;
            for (int k = 0; k < r; k++)
                again |= o->reads[k].tensor == o->reads[r].tensor;
            tensors[o->reads[r].tensor].n_readers += !again;
        }
    }
}

dv_status dv_joint_for_caches(dv_plan *plan, dv_arena *arena, dv_diag *diag)
{
    const dv_program *p = plan->ops;
    uint8_t *edge = DV_NEW(arena, uint8_t, p->n_ops + 1);
    search s = {.c = {.plan = plan, .edge = edge}};
    s.c.tensors = DV_NEW(arena, dv_cache_tensor, p->n_tensors);
    s.partitions = DV_NEW(arena, partition, p->n_ops + 1);
    if (!edge || !s.c.tensors || !s.partitions)
        return dv_nomem(diag);
    for (int32_t i = 0; i < p->n_repeats; i++)
        edge[p->repeats[i].first_op] = edge[p->repeats[i].end_op] = 1;
    for (int32_t i = 1; i < p->n_ops; i++)
        edge[i] |= plan->groups[i].once != plan->groups[i - 1].once;
    count_uses(s.c.tensors, p);
    for (int32_t i = 0; i < p->n_ops; i++)
        s.partitions[i + 1] = (partition){.ns = HUGE_VAL, .first = i};
    for (int32_t i = 0; i < p->n_ops; i++)
        try_from(&s, i);
    return make_groups(plan, &s, arena, diag);
}
