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
// Matrix products stay in groups of their own, because they are better tiled in
// two dimensions by the loops that the pass `schedule` chooses.
#include "base/math.h"
#include "group/group.h"
#include <math.h>

enum {
    MAX_CHAIN = 32,
    MAX_LEVELS = 4,
    LINE = 16, // approximate number of elements in a cache line
    // If tiles cut rows into pieces, shorter ones (in elements) are not worth
    // the access to another memory page.
    PIECE = 256,
};

typedef struct chain {
    const dv_plan *plan;
    int32_t first, end;
    // One past the last op that was examined as a candidate for the chain.
    int32_t reach;
    // The chain's ops are cut along one variable per level of tiling: cut[l][k]
    // is the variable of op first + k that level l cuts, into slices of one
    // value or, at the last level, of `len` values. The ranges begin[l], n[l]
    // of these variables are the same for all ops.
    int32_t levels, cut[MAX_LEVELS][MAX_CHAIN];
    int64_t begin[MAX_LEVELS], n[MAX_LEVELS];
    // Number of values of the innermost cut variable in a tile.
    int64_t len;
    // Bytes that the ops of the chain touch for each value of the variable that
    // the last level of tiling cuts.
    double point_bytes;
    // Bytes that the ops of the chain touch in every tile, whatever its size.
    double fixed_bytes;
    // The part of point_bytes (bytes per value of the innermost cut variable)
    // that is the same in all iterations of the outer levels of tiling.
    double shared_bytes;
    // For each tensor, the op of the chain that writes it, or -1.
    int32_t *writer;
    const uint8_t *edge; // edge[i]: a repeat loop begins or ends before op i
} chain;

// Returns the dim of an access whose index is exactly variable v, if no other
// dim depends on v; otherwise -1.
static int plain_dim(const dv_op *o, const dv_access *a, int v)
{
    int d = dv_access_dim(o, a, v);
    return d >= 0 && a->index[d].base == 0 ? d : -1;
}

// Returns whether the op is a contraction in which some operand is reused for
// several results, such as a matrix product.
static int is_product(const dv_op *o)
{
    uint32_t written = dv_written_vars(o);
    for (int r = 0; r < o->n_reads; r++)
        if (written & ~dv_access_vars(o, &o->reads[r]))
            return dv_op_kind(o) == DV_KIND_CONTRACTION;
    return 0;
}

static int can_merge(const dv_plan *plan, int32_t i)
{
    const dv_op *o = &plan->ops->ops[i];
    if (o->is_extern || o->update || is_product(o) ||
        dv_access_is_indirect(&o->write) || dv_op_gathers(o) ||
        plan->divisions[i].pinned)
        return 0;
    return 1;
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
        plain_dim(o, &o->write, v) < 0)
        return 0;
    for (int r = 0; r < o->n_reads; r++) {
        int32_t w = c->writer[o->reads[r].tensor];
        if (w < 0)
            continue;
        const dv_op *from = &c->plan->ops->ops[w];
        int d = plain_dim(from, &from->write, c->cut[at][w - c->first]);
        // A tile must write a box of elements without gaps, as the checker
        // requires of tensors that tiles pass on (rule C8 of
        // docs/invariants.md).
        int vars[DV_MAX_DIMS];
        if (d != plain_dim(o, &o->reads[r], v) ||
            !dv_access_is_box(from, &from->write, vars))
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

// Extends the chain (ops that run together tile by tile) by the following ops,
// up to op `end`. An op that reads no result of the chain is included only if a
// later op that reads one is included.
static void extend(chain *c, int32_t end)
{
    const dv_program *p = c->plan->ops;
    for (int32_t i = c->end; i < end && i - c->first < MAX_CHAIN; i++) {
        if (c->edge[i] || !can_merge(c->plan, i) || !writes_new(c, i) ||
            dv_group_too_many_tensors(c->plan, c->first, i + 1))
            return;
        int v = 0;
        while (v < p->ops[i].n_vars && !fits(c, i, v))
            v++;
        if (v == p->ops[i].n_vars)
            return;
        c->cut[c->levels - 1][i - c->first] = v;
        if (reads_chain(c, i))
            c->end = i + 1;
        c->writer[p->ops[i].write.tensor] = i;
        c->reach = i + 1;
    }
}

// Starts a chain (ops that run together tile by tile) at op `first` and adds
// one level of tiling, along variable v.
static void start(chain *c, int32_t first, int v)
{
    const dv_op *o = &c->plan->ops->ops[first];
    int at = c->levels++;
    c->first = first;
    c->end = c->reach = first + 1;
    c->cut[at][0] = v;
    c->begin[at] = o->vars[v].begin;
    c->n[at] = dv_var_len(o, v);
    c->writer[o->write.tensor] = first;
}

static void forget(chain *c)
{
    for (int32_t i = c->first; i < c->reach; i++)
        c->writer[c->plan->ops->ops[i].write.tensor] = -1;
}

// Returns the number of iterations of all levels of tiling except the
// innermost.
static double outer_points(const chain *c)
{
    double n = 1;
    for (int at = 0; at + 1 < c->levels; at++)
        n *= (double)c->n[at];
    return n;
}

static void count_access(chain *c, int32_t i, const dv_access *a)
{
    const dv_op *o = &c->plan->ops->ops[i];
    double bytes = (double)dv_tensor_bytes(&c->plan->ops->tensors[a->tensor]);
    int last = c->levels - 1, again = 0;
    for (int at = 0; at < last; at++) {
        int cut = plain_dim(o, a, c->cut[at][i - c->first]) >= 0;
        bytes /= cut ? (double)c->n[at] : 1;
        again |= !cut;
    }
    if (plain_dim(o, a, c->cut[last][i - c->first]) < 0) {
        c->fixed_bytes += bytes;
        return;
    }
    c->point_bytes += bytes / (double)c->n[last];
    c->shared_bytes += again ? bytes / (double)c->n[last] : 0;
}

// Computes the bytes that a tile of the chain (ops that run together tile by
// tile) touches. Every tensor counts once, by its first access.
static void count_bytes(chain *c, uint8_t *seen)
{
    const dv_program *p = c->plan->ops;
    c->point_bytes = c->fixed_bytes = c->shared_bytes = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int32_t i = c->first; i < c->end; i++) {
            const dv_op *o = &p->ops[i];
            for (int r = -1; r < o->n_reads; r++) {
                const dv_access *a = r < 0 ? &o->write : &o->reads[r];
                if (!pass && !seen[a->tensor])
                    count_access(c, i, a);
                seen[a->tensor] = !pass;
            }
        }
}

// Returns whether the innermost variable that is cut into tiles indexes the
// last dim of a tensor of at least least_bytes, so that tiles cut its rows into
// pieces.
static int cuts_rows(const chain *c, double least_bytes)
{
    for (int32_t i = c->first; i < c->end; i++) {
        const dv_op *o = &c->plan->ops->ops[i];
        for (int r = -1; r < o->n_reads; r++) {
            const dv_access *a = r < 0 ? &o->write : &o->reads[r];
            const dv_tensor *t = &c->plan->ops->tensors[a->tensor];
            if (a->n_dims > 1 && (double)dv_tensor_bytes(t) >= least_bytes &&
                plain_dim(o, a, c->cut[c->levels - 1][i - c->first]) ==
                    a->n_dims - 1)
                return 1;
        }
    }
    return 0;
}

// Returns how many values of the innermost cut variable a tile covers: a tile
// takes at most half the cache, and there are enough tiles to keep all cores
// busy. If tiles cut rows, they are whole cache lines. Returns 0, for no
// tiling, if the pieces of rows are shorter than PIECE and the data exceeds the
// cache, because every piece would then touch another page.
static int64_t tile_length(const chain *c)
{
    const dv_target *t = &c->plan->target;
    int64_t n = c->n[c->levels - 1];
    double room = (double)c->plan->scratch.capacity_bytes / 2 - c->fixed_bytes;
    double most = room / (c->point_bytes > 0 ? c->point_bytes : 1);
    double outer = outer_points(c), all = c->point_bytes * (double)n * outer;
    // Data that iterations of the outer levels of tiling share should stay in
    // the cache between them. If it is more than 1/8 of a tile's data, the ops
    // are not tiled together.
    if (most < 1 || c->shared_bytes > c->point_bytes / 8)
        return 0;
    int64_t len = most < (double)n ? (int64_t)most : n;
    double least = (double)dv_ceil_div(n, len);
    double rounds = ceil(outer * least / (double)t->cores);
    double pieces = floor(rounds * (double)t->cores / outer);
    pieces = pieces > least ? pieces : least;
    len = dv_ceil_div(n, pieces < (double)n ? (int64_t)pieces : n);
    if (!cuts_rows(c, 0) || len == n)
        return len;
    int64_t lines = dv_min_i64(dv_ceil_div(len, LINE) * LINE, n);
    if (outer * (double)dv_ceil_div(n, lines) >= (double)t->cores)
        len = lines;
    return len < PIECE && all > room && cuts_rows(c, all / 8) ? 0 : len;
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
                    .n_tiles = dv_plan_n_tiles(plan, c->first)};
    return dv_plan_deal(plan, c->first, g, diag);
}

// Tries the chain of ops from op i on that are tiled along variable v. Replaces
// *best if the chain is longer and its tiles fit the cache; if they do not fit,
// recursively cuts along an inner variable as well.
static void try_cut(chain *best, chain *c, int32_t i, int v, uint8_t *seen)
{
    const dv_op *o = &c->plan->ops->ops[i];
    int32_t end = c->levels ? c->end : c->plan->ops->n_ops, longer = best->end;
    if (o->vars[v].reduce || plain_dim(o, &o->write, v) < 0)
        return;
    start(c, i, v);
    extend(c, end);
    forget(c);
    int32_t mine = c->end;
    if (mine > longer) {
        count_bytes(c, seen);
        c->len = tile_length(c);
        if (c->len > 0)
            *best = *c;
    }
    for (int w = v + 1; w < o->n_vars && c->levels < MAX_LEVELS &&
                        mine > longer && best->end == longer;
         w++) {
        c->end = mine;
        try_cut(best, c, i, w, seen);
    }
    c->levels--;
}

// Finds the longest chain (ops that run together tile by tile) that begins with
// op i and whose tiles fit the cache, cut along the outermost possible
// variables. best->len is 0 if there is none.
static void longest(chain *best, chain *c, int32_t i, uint8_t *seen)
{
    const dv_op *o = &c->plan->ops->ops[i];
    best->end = i + 1;
    best->len = 0;
    for (int v = 0; v < o->n_vars && can_merge(c->plan, i); v++)
        try_cut(best, c, i, v, seen);
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

dv_status dv_group_for_caches(dv_plan *plan, dv_arena *arena, dv_diag *diag)
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
