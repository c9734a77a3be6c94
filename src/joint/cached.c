// Predicts the time of ops that run together tile by tile on a machine with
// caches. Data that a tile passes from op to op come from the smallest cache
// that holds all data of a tile; data that other groups use come from the
// smallest cache that holds all data of the core's tiles, or from main memory:
//
//   tile   = computing + own data + shared data + packing
//   group  = the most tiles that a core has, times that, + waiting for others
//
// Packing counts because every tile of rows packs the whole other operand of a
// matrix product again.
#include "joint/cache.h"
#include "base/dtype.h"
#include "base/math.h"
#include <math.h>
#include <stdlib.h>

// Costs of one core in ns; only their ratios matter.
typedef struct rates {
    double fma; // multiply-adds of one vector
    // Per byte from the core's own cache, the last-level cache and main memory.
    // Products hide more of that time behind multiply-adds (nest/cost.c) than
    // other ops do.
    double l2, l3, memory;
    double copied, transposed, gathered; // per element packed
} rates;
static const rates neon = {.0962, .005, .025, .06, .11, .20, .6};
static const rates avx = {.19, .01, .06, .15, .045, .22, .6};
enum {
    SYNC_NS = 2000, // threads wait for each other at the end of a group
    CALL_NS = 100,  // an op of a tile begins and ends
    // Vector instructions per point of an op that is not a contraction.
    STEPS = 4,
    // A store to a line that is not in the cache moves two lines: it reads the
    // line first.
    STORED = 2,
    // The time that an op loses per piece if tiles cut its rows: each piece
    // begins at another address, and on average a product computes half a cache
    // line of results per piece in vain.
    LINE = 16, // approximate number of elements in a cache line
    PIECE_NS = 5,
    PACKED_PIECE_NS = 20,
    // A chain of ops must be cheaper by this percentage, because the estimate
    // leaves out some advantages of a product alone, which is tiled in two
    // dimensions and has longer rows.
    MARGIN = 5
};

// Returns the target's rates: from a table, or derived from its description's
// figures for multiply-adds and main memory.
static rates rates_of(const dv_plan *plan)
{
    const dv_target *t = &plan->target;
    rates r = t->vector_bytes > 16 ? avx : neon;
    if (t->mac_rate_per_s > 0)
        r.fma = 1e9 * (double)t->vector_bytes / 4 / t->mac_rate_per_s;
    if (t->memory_bandwidth_bytes_per_s > 0)
        r.memory = fmax(
            1e9 * (double)t->cores / t->memory_bandwidth_bytes_per_s, r.l3);
    return r;
}

double dv_cache_near(const dv_plan *plan)
{
    return (double)plan->scratch.capacity_bytes;
}

double dv_cache_far(const dv_plan *plan)
{
    const dv_target *t = &plan->target;
    return (double)dv_max_i64(t->l3_bytes, plan->scratch.capacity_bytes);
}

// Returns the cost per byte of accessing a working set of this many bytes. It
// is assumed to fit a cache if it takes at most three quarters of it.
static double rate_of(const dv_plan *plan, double bytes)
{
    rates r = rates_of(plan);
    return bytes <= dv_cache_near(plan) * 3 / 4  ? r.l2
           : bytes <= dv_cache_far(plan) * 3 / 4 ? r.l3
                                                 : r.memory;
}

int dv_cache_dim(const dv_op *o, const dv_access *a, int v)
{
    int d = dv_access_dim(o, a, v);
    return d >= 0 && a->index[d].base == 0 ? d : -1;
}

int dv_cache_is_product(const dv_op *o)
{
    uint32_t written = dv_written_vars(o);
    for (int r = 0; r < o->n_reads; r++)
        if (written & ~dv_access_vars(o, &o->reads[r]))
            return dv_op_kind(o) == DV_KIND_CONTRACTION;
    return 0;
}

double dv_cache_outer(const dv_cache_chain *c)
{
    double n = 1;
    for (int at = 0; at + 1 < c->levels; at++)
        n *= (double)c->n[at];
    return n;
}

// Returns the number of the variable that alone is the index of an access's
// last dim, or -1.
static int last_var(const dv_op *o, const dv_access *a)
{
    for (int v = 0; v < o->n_vars && a->n_dims > 0; v++)
        if (dv_access_dim(o, a, v) == a->n_dims - 1)
            return v;
    return -1;
}

// Returns the time to pack an element of an operand of a product. The operand
// is transposed if its last dim is summed over, and gathered if neighbours in
// memory do not belong to neighbouring rows of the result.
static double pack_ns(const dv_plan *plan, const dv_op *o, const dv_access *a)
{
    rates r = rates_of(plan);
    int last = last_var(o, a);
    if (last >= 0 && o->vars[last].reduce)
        return r.transposed;
    for (int v = 0; last >= 0 && v < o->n_vars; v++)
        if (dv_access_dim(o, a, v) >= 0 &&
            dv_access_dim(o, &o->write, v) > dv_access_dim(o, &o->write, last))
            return r.gathered;
    return r.copied;
}

static double compute_ns(const dv_plan *plan, const dv_op *o, double points)
{
    rates r = rates_of(plan);
    double lanes = (double)plan->target.vector_bytes / 4;
    int steps = dv_op_kind(o) == DV_KIND_CONTRACTION ? 1 : STEPS;
    return points / lanes * r.fma * steps;
}

static double elem_bytes(const dv_plan *plan, int32_t tensor)
{
    return dv_dtype_get(plan->ops->tensors[tensor].dtype)->size_bytes;
}

static double all_bytes(const dv_plan *plan, int32_t tensor)
{
    return (double)dv_tensor_bytes(&plan->ops->tensors[tensor]);
}

// Returns the cost per byte of a tensor that several groups use. Assume that
// the data accessed between these uses takes as much cache as the tensor
// itself, hence the factor 2.
static double shared_ns(const dv_plan *plan, int32_t tensor)
{
    double share = all_bytes(plan, tensor) / (double)plan->target.cores;
    return rate_of(plan, 2 * share);
}

// The bytes that an access touches: per value of the innermost cut variable if
// its index depends on that, else per tile.
typedef struct touched {
    double bytes;
    int cut;    // 1 if it is per value
    int shared; // 1 if iterations of an outer level touch the same bytes
} touched;

// Returns how many elements of dim d an access touches while variable `fixed`
// has one value and all other variables vary; -1: none is fixed.
static double reach(const dv_plan *plan, const dv_op *o, const dv_access *a,
                    int d, int fixed)
{
    const dv_index *x = &a->index[d];
    double all = (double)plan->ops->tensors[a->tensor].shape[d], n = 1;
    for (int v = 0; v < o->n_vars && x->via < 0; v++)
        if (v != fixed)
            n += (double)llabs(x->coef[v]) * (double)(dv_var_len(o, v) - 1);
    return x->via < 0 && n < all ? n : all;
}

// Returns whether an access touches disjoint elements for different values of
// variable v: x[i], or x[8 * i + j] with j below 8.
static int is_apart(const dv_plan *plan, const dv_op *o, const dv_access *a,
                    int v)
{
    for (int d = 0; d < a->n_dims; d++)
        if (a->index[d].via < 0 && a->index[d].coef[v] != 0 &&
            reach(plan, o, a, d, v) <= (double)llabs(a->index[d].coef[v]))
            return 1;
    return 0;
}

static touched touched_by(const dv_cache_chain *c, int32_t i,
                          const dv_access *a)
{
    const dv_plan *plan = c->plan;
    const dv_op *o = &plan->ops->ops[i];
    int last = c->levels - 1;
    touched t = {.bytes = elem_bytes(plan, a->tensor)};
    for (int d = 0; d < a->n_dims; d++)
        t.bytes *= reach(plan, o, a, d, -1);
    for (int at = 0; at < last; at++) {
        int cut = is_apart(plan, o, a, c->cut[at][i - c->first]);
        t.bytes /= cut ? (double)c->n[at] : 1;
        t.shared |= !cut;
    }
    t.cut = is_apart(plan, o, a, c->cut[last][i - c->first]);
    t.bytes /= t.cut ? (double)c->n[last] : 1;
    return t;
}

// Returns the record of a tensor for the current chain of ops. *new is 1 if no
// op of the chain has accessed the tensor before; then the record is reset.
static dv_cache_tensor *known(const dv_cache_chain *c, int32_t tensor, int *new)
{
    dv_cache_tensor *x = &c->tensors[tensor];
    *new = x->chain != c->number;
    if (*new) {
        x->chain = c->number;
        x->writer = -1;
        x->n_left = x->n_readers;
        x->written_ns = x->room_bytes = x->passes = 0;
    }
    return x;
}

static void add_room(dv_cache_work *w, dv_cache_tensor *x, const touched *t,
                     int passes)
{
    x->passes = passes;
    if (!t->cut) {
        *(passes ? &w->streamed_bytes : &w->fixed_bytes) += t->bytes;
        return;
    }
    *(passes ? &w->passing_bytes : &w->point_bytes) += t->bytes;
    w->shared |= t->shared;
    x->room_bytes += passes ? 0 : t->bytes;
    w->live_bytes += passes ? 0 : t->bytes;
    w->most_bytes = fmax(w->most_bytes, w->live_bytes);
}

void dv_cache_enter(dv_cache_chain *c, int32_t i)
{
    int new;
    known(c, c->plan->ops->ops[i].write.tensor, &new)->writer = i;
}

static void add_write(dv_cache_chain *c, int32_t i)
{
    const dv_access *a = &c->plan->ops->ops[i].write;
    touched t = touched_by(c, i, a);
    int new;
    dv_cache_tensor *x = known(c, a->tensor, &new);
    add_room(&c->work, x, &t, 0);
    if (x->n_left > 0 || x->lasts)
        x->written_ns = STORED * t.bytes * shared_ns(c->plan, a->tensor);
    else
        c->work.own_bytes += t.bytes;
    c->work.moved_ns += x->written_ns;
}

static int read_before(const dv_op *o, int r)
{
    for (int k = 0; k < r; k++)
        if (o->reads[k].tensor == o->reads[r].tensor)
            return 1;
    return 0;
}

static void add_read(dv_cache_chain *c, int32_t i, int r)
{
    const dv_op *o = &c->plan->ops->ops[i];
    const dv_access *a = &o->reads[r];
    touched t = touched_by(c, i, a);
    dv_cache_work *w = &c->work;
    int new, product = dv_cache_is_product(o);
    dv_cache_tensor *x = known(c, a->tensor, &new);
    if (product)
        *(t.cut ? &w->point_ns : &w->tile_ns) +=
            t.bytes / elem_bytes(c->plan, a->tensor) * pack_ns(c->plan, o, a);
    if (read_before(o, r))
        return;
    if (new || (x->passes && !product))
        add_room(w, x, &t, product);
    if (new)
        *(t.cut ? &w->moved_ns : &w->loaded_ns) +=
            t.bytes * shared_ns(c->plan, a->tensor);
    else if (t.cut)
        w->own_bytes += t.bytes;
    if (--x->n_left == 0 && x->writer >= 0 && !x->lasts) {
        w->moved_ns -= x->written_ns;
        w->own_bytes += x->written_ns > 0 ? t.bytes : 0;
        x->written_ns = 0;
    }
}

// Returns whether slices of variable v cut rows of a tensor into pieces.
static int cuts_rows(const dv_op *o, const dv_access *a, int v)
{
    return a->n_dims > 1 && dv_cache_dim(o, a, v) == a->n_dims - 1;
}

// Returns the time that an op loses because rows of a tensor are cut into
// `pieces`; r is the number of the access, -1 is the write.
static double pieces_ns(const dv_plan *plan, const dv_op *o, int r,
                        double pieces)
{
    uint32_t summed = dv_all_vars(o) & ~dv_written_vars(o);
    if (!dv_cache_is_product(o))
        return pieces * PIECE_NS;
    double vain = r < 0 ? LINE / 2 * dv_op_points_double(o, summed) : 0;
    return pieces * (PACKED_PIECE_NS + compute_ns(plan, o, vain));
}

// Frees the memory of the temporaries whose last reader is op i of the chain.
static void free_room(dv_cache_chain *c, int32_t i)
{
    const dv_op *o = &c->plan->ops->ops[i];
    for (int r = 0; r < o->n_reads; r++) {
        dv_cache_tensor *x = &c->tensors[o->reads[r].tensor];
        if (x->n_left == 0 && x->writer >= 0 && !x->lasts) {
            c->work.live_bytes -= x->room_bytes;
            x->room_bytes = 0;
        }
    }
}

void dv_cache_add(dv_cache_chain *c, int32_t i)
{
    const dv_op *o = &c->plan->ops->ops[i];
    double values = dv_cache_outer(c) * (double)c->n[c->levels - 1];
    for (int r = 0; r < o->n_reads; r++)
        add_read(c, i, r);
    add_write(c, i);
    free_room(c, i);
    int v = c->cut[c->levels - 1][i - c->first];
    for (int r = -1; r < o->n_reads; r++) {
        const dv_access *a = r < 0 ? &o->write : &o->reads[r];
        if (!cuts_rows(o, a, v))
            continue;
        double elems =
            touched_by(c, i, a).bytes / elem_bytes(c->plan, a->tensor);
        c->work.tile_ns += pieces_ns(c->plan, o, r, elems);
        c->work.rows_bytes =
            fmax(c->work.rows_bytes, all_bytes(c->plan, a->tensor));
    }
    c->work.point_ns +=
        compute_ns(c->plan, o, dv_op_points_double(o, dv_all_vars(o)) / values);
    c->work.n_products += dv_cache_is_product(o);
}

double dv_cache_price(const dv_cache_chain *c, int64_t len)
{
    const dv_cache_work *w = &c->work;
    double cores = (double)c->plan->target.cores, outer = dv_cache_outer(c);
    double n = (double)c->n[c->levels - 1];
    double pieces = (double)dv_ceil_div((int64_t)n, len);
    double tiles = ceil(outer * pieces / cores), once = ceil(outer / cores);
    // The last tile of a range may be short: use the mean number of values per
    // tile, n / pieces.
    double values = tiles * n / pieces;
    double room = dv_cache_room(w) * (double)len + w->fixed_bytes;
    double passing = w->passing_bytes * (double)len + w->streamed_bytes;
    // What every tile reads is loaded once if it fits the core's cache together
    // with the rest of a tile, else by every tile.
    double loads = room + passing <= dv_cache_near(c->plan) ? once : tiles;
    // Without products, ops run row by row where they can (exec/op/rows.h), so
    // that their temporaries stay in the core's own cache.
    double own = w->own_bytes * rate_of(c->plan, w->n_products ? room : 0);
    double ns = values * (w->point_ns + own) +
                tiles * (w->tile_ns + (double)(c->end - c->first) * CALL_NS) +
                values * w->moved_ns + loads * w->loaded_ns +
                (c->plan->target.cores > 1 ? SYNC_NS : 0);
    return w->n_products ? ns * (100 + MARGIN) / 100 : ns;
}

// Returns the largest number of elements of a tensor that an access touches in
// a tile, with the op's current division into tiles.
static double elems_of_tile(const dv_plan *plan, int32_t op, const dv_access *a)
{
    const dv_op *o = &plan->ops->ops[op];
    const dv_tensor *t = &plan->ops->tensors[a->tensor];
    double n = 1;
    for (int d = 0; d < a->n_dims; d++) {
        double here = 1;
        for (int v = 0; v < o->n_vars && a->index[d].via < 0; v++)
            here += (double)llabs(a->index[d].coef[v]) *
                    (double)(plan->slices[op][v] - 1);
        double all = (double)t->shape[d];
        n *= here < all && a->index[d].via < 0 ? here : all;
    }
    return n;
}

// Returns how many of the op's tiles, by its current division, the busiest core
// computes.
static double tiles_of_core(const dv_plan *plan, int32_t op)
{
    return ceil((double)dv_plan_n_tiles(plan, op) / (double)plan->target.cores);
}

// Returns the time to store the result of a tile for other groups.
static double store_ns(const dv_plan *plan, int32_t op)
{
    const dv_access *a = &plan->ops->ops[op].write;
    return STORED * elems_of_tile(plan, op, a) * elem_bytes(plan, a->tensor) *
           shared_ns(plan, a->tensor);
}

double dv_cache_after(const dv_cache_chain *c, int32_t op)
{
    const dv_plan *plan = c->plan;
    const dv_op *o = &plan->ops->ops[op];
    double ns = dv_cache_alone(plan, op);
    ns -= plan->target.cores > 1 ? SYNC_NS : 0;
    for (int r = 0; r < o->n_reads; r++) {
        const dv_access *a = &o->reads[r];
        const dv_cache_tensor *t = &c->tensors[a->tensor];
        if (t->chain != c->number || t->writer < 0 || read_before(o, r))
            continue;
        double bytes = elems_of_tile(plan, op, a) * elem_bytes(plan, a->tensor);
        if (rate_of(plan, bytes) > rates_of(plan).l2)
            return HUGE_VAL;
        double saved =
            bytes * (shared_ns(plan, a->tensor) - rate_of(plan, bytes));
        if (t->n_readers == 1 && !t->lasts)
            saved += store_ns(plan, t->writer) - bytes * rate_of(plan, bytes);
        ns -= tiles_of_core(plan, op) * saved;
    }
    return ns;
}

// Returns the bytes that a tile of the op copies of operands with a border
// (reads beyond their edges).
static double copied_bytes(const dv_plan *plan, int32_t op)
{
    const dv_op *o = &plan->ops->ops[op];
    double sum = 0;
    for (int r = 0; r < o->n_reads; r++)
        if (o->reads[r].has_border && !read_before(o, r))
            sum += elems_of_tile(plan, op, &o->reads[r]) *
                   elem_bytes(plan, o->reads[r].tensor);
    return sum;
}

// Returns the outermost variable of the result on which an operand with a
// border (reads beyond its edges) depends, or -1.
static int border_var(const dv_op *o)
{
    for (int v = 0; v < o->n_vars && !o->vars[v].reduce; v++)
        for (int r = 0; r < o->n_reads; r++)
            if (o->reads[r].has_border && dv_var_len(o, v) > 1 &&
                dv_access_vars(o, &o->reads[r]) >> v & 1)
                return v;
    return -1;
}

int dv_cache_cut_copies(dv_plan *plan, int32_t op)
{
    const dv_op *o = &plan->ops->ops[op];
    int v = border_var(o), changed = 0;
    if (v < 0 || !dv_cache_is_product(o) || o->is_extern ||
        plan->divisions[op].pinned)
        return 0;
    double bytes = copied_bytes(plan, op);
    while (bytes > dv_cache_near(plan) / 2 && plan->slices[op][v] > 1) {
        int64_t was = plan->slices[op][v];
        plan->slices[op][v] = dv_ceil_div(was, 2);
        double now = copied_bytes(plan, op);
        if (now > bytes * 3 / 4) {
            plan->slices[op][v] = was;
            break;
        }
        bytes = now;
        changed = 1;
    }
    return changed;
}

double dv_cache_alone(const dv_plan *plan, int32_t op)
{
    const dv_op *o = &plan->ops->ops[op];
    double tiles = tiles_of_core(plan, op);
    double points = 1, ns = CALL_NS;
    for (int v = 0; v < o->n_vars; v++)
        points *= (double)plan->slices[op][v];
    for (int r = -1; r < o->n_reads; r++) {
        const dv_access *a = r < 0 ? &o->write : &o->reads[r];
        double n = elems_of_tile(plan, op, a);
        double byte = elem_bytes(plan, a->tensor) * shared_ns(plan, a->tensor);
        if (dv_cache_is_product(o) && r >= 0)
            ns += n * pack_ns(plan, o, a);
        ns += r < 0 ? STORED * n * byte : read_before(o, r) ? 0 : n * byte;
        for (int v = 0; v < o->n_vars; v++)
            if (plan->slices[op][v] < dv_var_len(o, v) && cuts_rows(o, a, v))
                ns += pieces_ns(plan, o, r, n / (double)plan->slices[op][v]);
    }
    return tiles * (ns + compute_ns(plan, o, points)) +
           (plan->target.cores > 1 ? SYNC_NS : 0);
}
