// The checker proves a plan from the plan alone. It shares no code with the
// passes that build plans, nor with ir/verify.c: where these reason dimension
// by dimension, the checker works on linear element offsets.
//
//   C1  every op runs once, in the order of the program
//   C2  every tile of a group is dealt to exactly one core, which exists
//   C3  every access of every tile stays inside its tensor
//   C4  no op writes an element twice; an op that defines a tensor writes all
//       of its elements
//   C5  every tensor is written before it is read
//   C6  an op's slices make as many tiles as its group deals, so that every
//       partial result of a reduction is computed
//   C7  opaque (extern) ops, and ops that write through an index read from a
//       tensor (whose points may collide), are alone in their group and have
//       one tile; no group crosses the begin or end of a repeat
//   C8  in a group of several tiles, no op accesses a tensor that another op
//       of the group writes, unless the same tile of that op wrote all that
//       is read: tiles may not depend on each other
//   C9  on a target with sticks, the lanes of all operands of an op run along
//       the same variable; in a product, the lanes of one factor run along
//       the reduction variable, those of the other factor and of the result
//       along a variable that the first factor lacks; only moves change lanes
//   C10 the bytes between the first and the last stick that a tile accesses
//       of a tensor in main memory are within the target's span limit, except
//       in opaque ops
//
// The run time is near-linear in the number of ops and deals, and in the tiles
// of ops on tensors larger than the span limit. If strides alone cannot prove
// that the points of a write are distinct, the points are enumerated, up to
// MAX_COUNTED elements.
#include "base/math.h"
#include "check/check.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_COUNTED = 1 << 26 };

typedef struct checker {
    const dv_plan *plan;
    const dv_program *p;
    dv_diag *diag;
} checker;

// Returns a location for messages about the plan as a whole: the plan's file,
// or the file of the program it was made from.
static dv_loc whole(const checker *c)
{
    const dv_source *src = c->plan->src.text ? &c->plan->src : NULL;
    if (!src && c->p && c->p->src.text)
        src = &c->p->src;
    return (dv_loc){src, DV_FILE};
}

static dv_status check_order(const checker *c)
{
    int32_t next = 0;
    for (int32_t i = 0; i < c->plan->n_groups; i++) {
        const dv_group *g = &c->plan->groups[i];
        if (g->first_op != next)
            return DV_BREAKS(c->diag, C1, dv_plan_at(c->plan, g->off),
                             "group %d starts with op %d, op %d is next",
                             (int)i, (int)g->first_op, (int)next);
        next = g->end_op;
    }
    if (next != c->p->n_ops)
        return DV_BREAKS(c->diag, C1, whole(c),
                         "op %s (number %d) is in no group",
                         c->p->ops[next].name, (int)next);
    return DV_OK;
}

static int is_indivisible(const dv_op *op)
{
    for (int d = 0; d < op->write.n_dims; d++)
        if (op->write.index[d].via >= 0)
            return 1;
    return op->is_extern;
}

// Checks C7: opaque (extern) ops, and ops that write through an index read from
// a tensor, are alone in their group, and no group crosses the begin or end of
// a repeat (a loop of the program). edge[i] is 1 if a repeat begins or ends
// before op i.
static dv_status check_edges(const checker *c)
{
    unsigned char *edge = dv_alloc((size_t)c->p->n_ops + 1);
    if (!edge)
        return dv_nomem(c->diag);
    memset(edge, 0, (size_t)c->p->n_ops + 1);
    for (int i = 0; i < c->p->n_repeats; i++)
        edge[c->p->repeats[i].first_op] = edge[c->p->repeats[i].end_op] = 1;
    dv_status st = DV_OK;
    for (int32_t i = 0; i < c->plan->n_groups && st == DV_OK; i++) {
        const dv_group *g = &c->plan->groups[i];
        for (int32_t op = g->first_op; op < g->end_op && st == DV_OK; op++) {
            if (op > g->first_op && edge[op])
                st =
                    DV_BREAKS(c->diag, C7, dv_plan_at(c->plan, g->off),
                              "group %d crosses the edge of a repeat before op "
                              "%s",
                              (int)i, c->p->ops[op].name);
            else if (is_indivisible(&c->p->ops[op]) &&
                     g->end_op - g->first_op > 1)
                st = DV_BREAKS(
                    c->diag, C7, dv_plan_at(c->plan, g->off),
                    "op %s cannot be divided, but shares group %d with "
                    "%d more",
                    c->p->ops[op].name, (int)i,
                    (int)(g->end_op - g->first_op - 1));
            else if (is_indivisible(&c->p->ops[op]) && g->n_tiles != 1)
                st = DV_BREAKS(
                    c->diag, C7, dv_plan_at(c->plan, g->off),
                    "op %s cannot be divided, but group %d cuts it into "
                    "%" PRId64 " tiles",
                    c->p->ops[op].name, (int)i, g->n_tiles);
        }
    }
    dv_release(edge);
    return st;
}

static int by_first_tile(const void *a, const void *b)
{
    const dv_deal *x = a, *y = b;
    return x->first_tile < y->first_tile   ? -1
           : x->first_tile > y->first_tile ? 1
                                           : 0;
}

static dv_status check_sorted(const checker *c, int32_t i, const dv_deal *d)
{
    const dv_group *g = &c->plan->groups[i];
    dv_loc at = dv_plan_at(c->plan, g->off);
    int64_t next = 0;
    for (int32_t k = 0; k < g->n_deals; k++) {
        if (d[k].core < 0 || d[k].core >= c->plan->target.cores)
            return DV_BREAKS(c->diag, C2, at,
                             "group %d uses core %" PRId64
                             ", the target has cores 0 to %" PRId64,
                             (int)i, d[k].core, c->plan->target.cores - 1);
        if (d[k].first_tile > next)
            return DV_BREAKS(c->diag, C2, at,
                             "group %d: tile %" PRId64 " is dealt to no core",
                             (int)i, next);
        if (d[k].first_tile < next)
            return DV_BREAKS(
                c->diag, C2, at,
                "group %d: tile %" PRId64
                " is dealt twice, the second time to core %" PRId64,
                (int)i, d[k].first_tile, d[k].core);
        if (d[k].n_tiles < 1 || !dv_add_i64(&next, next, d[k].n_tiles))
            return DV_BREAKS(c->diag, C2, at,
                             "group %d deals %" PRId64
                             " tiles to core %" PRId64,
                             (int)i, d[k].n_tiles, d[k].core);
    }
    if (next != g->n_tiles)
        return DV_BREAKS(c->diag, C2, at,
                         "group %d has %" PRId64 " tiles, %" PRId64
                         " are dealt",
                         (int)i, g->n_tiles, next);
    return DV_OK;
}

static dv_status check_deals(const checker *c, int32_t i)
{
    const dv_group *g = &c->plan->groups[i];
    size_t n = (size_t)g->n_deals;
    dv_deal *sorted = dv_alloc(n * sizeof *sorted);
    if (!sorted)
        return dv_nomem(c->diag);
    if (n)
        memcpy(sorted, g->deals, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, by_first_tile);
    dv_status st = check_sorted(c, i, sorted);
    dv_release(sorted);
    return st;
}

static dv_status check_tiles(const checker *c, int32_t i, int32_t op)
{
    const dv_group *g = &c->plan->groups[i];
    const dv_op *o = &c->p->ops[op];
    int64_t n = 1;
    for (int v = 0; v < o->n_vars; v++) {
        int64_t len = o->vars[v].end - o->vars[v].begin;
        int64_t slice = c->plan->slices[op][v];
        int64_t cuts = slice > 0 && slice <= len ? (len - 1) / slice + 1 : 0;
        if (cuts < 1 || !dv_mul_i64(&n, n, cuts))
            return DV_BREAKS(c->diag, C6, dv_plan_at(c->plan, g->off),
                             "op %s: %s cannot be sliced by %" PRId64, o->name,
                             o->vars[v].name, slice);
    }
    if (n != g->n_tiles)
        return DV_BREAKS(c->diag, C6, dv_plan_at(c->plan, g->off),
                         "op %s makes %" PRId64 " tiles, its group %d has "
                         "%" PRId64,
                         o->name, n, (int)i, g->n_tiles);
    return DV_OK;
}

// Checks rule C3 for one access: the least and the greatest index in each
// dimension are inside the tensor.
static dv_status check_inside(const checker *c, const dv_op *o,
                              const dv_access *a)
{
    const dv_tensor *t = &c->p->tensors[a->tensor];
    if (a->has_border && a == &o->write)
        return DV_BREAKS(c->diag, C3, whole(c), "op %s writes with a border",
                         o->name);
    for (int d = 0; d < a->n_dims; d++) {
        if (a->index[d].via >= 0 || a->has_border)
            continue; // checked at run time, or allowed to be outside
        int64_t ends[2] = {a->index[d].base, a->index[d].base};
        for (int v = 0; v < o->n_vars; v++) {
            int64_t k = a->index[d].coef[v], at_begin, at_last;
            if (!dv_mul_i64(&at_begin, k, o->vars[v].begin) ||
                !dv_mul_i64(&at_last, k, o->vars[v].end - 1) ||
                !dv_add_i64(&ends[k < 0], ends[k < 0], at_begin) ||
                !dv_add_i64(&ends[k >= 0], ends[k >= 0], at_last))
                return DV_BREAKS(c->diag, C3, whole(c),
                                 "op %s: an index of %s overflows", o->name,
                                 t->name);
        }
        if (ends[0] < 0 || ends[1] >= t->shape[d])
            return DV_BREAKS(c->diag, C3, whole(c),
                             "op %s touches %" PRId64 "..%" PRId64
                             " in dim %d of %s, which has 0..%" PRId64,
                             o->name, ends[0], ends[1] + 1, d, t->name,
                             t->shape[d]);
    }
    return DV_OK;
}

typedef struct step {
    int64_t factor, n;
} step;

static int by_factor(const void *a, const void *b)
{
    const step *x = a, *y = b;
    return x->factor < y->factor ? -1 : x->factor > y->factor;
}

// Writes the op's write access as a linear function of its variables: a stride
// in elements and an extent for each variable. Returns their number, or -1 when
// a stride overflows.
static int steps_of(const dv_tensor *t, const dv_op *o, step *steps)
{
    int n = 0;
    for (int v = 0; v < o->n_vars; v++) {
        int64_t factor = 0, stride = 1, x;
        int64_t points = o->vars[v].end - o->vars[v].begin;
        if (o->vars[v].reduce || points == 1)
            continue;
        for (int d = o->write.n_dims - 1; d >= 0; d--) {
            if (!dv_mul_i64(&x, stride, o->write.index[d].coef[v]) ||
                !dv_add_i64(&factor, factor, x))
                return -1;
            // No overflow: the tensor's element count fits in int64_t.
            stride *= t->shape[d];
        }
        if (factor == INT64_MIN)
            return -1;
        steps[n++] = (step){factor < 0 ? -factor : factor, points};
    }
    return n;
}

// Returns whether the op writes each element at most once: all combinations of
// the steps (a stride for each variable) have different sums. A sufficient
// condition is tested: each stride exceeds the greatest sum of all smaller
// strides.
static int points_are_distinct(step *steps, int n)
{
    int64_t reach = 0, x;
    qsort(steps, (size_t)n, sizeof *steps, by_factor);
    for (int i = 0; i < n; i++)
        if (steps[i].factor <= reach ||
            !dv_mul_i64(&x, steps[i].factor, steps[i].n - 1) ||
            !dv_add_i64(&reach, reach, x))
            return 0;
    return 1;
}

// Enumerates all points of the write. Returns 1 if each element is written at
// most once, 0 if not, -1 when out of memory. Offsets need no check here,
// because rule C3 has proved that they are in bounds.
static int enumerate_writes(const dv_tensor *t, const dv_op *o, int64_t points)
{
    uint8_t *seen = dv_alloc((size_t)t->n_elems);
    if (!seen)
        return -1;
    memset(seen, 0, (size_t)t->n_elems);
    int once = 1;
    for (int64_t i = 0; i < points && once; i++) {
        int64_t rest = i, at = 0, x[DV_MAX_VARS];
        for (int v = 0; v < o->n_vars; v++) {
            int64_t len =
                o->vars[v].reduce ? 1 : o->vars[v].end - o->vars[v].begin;
            x[v] = o->vars[v].begin + rest % len;
            rest /= len;
        }
        for (int d = 0; d < o->write.n_dims; d++) {
            at = at * t->shape[d] + o->write.index[d].base;
            for (int v = 0; v < o->n_vars; v++)
                at += o->write.index[d].coef[v] * x[v];
        }
        once = !seen[at];
        seen[at] = 1;
    }
    dv_release(seen);
    return once;
}

static dv_status check_write(const checker *c, const dv_op *o)
{
    const dv_tensor *t = &c->p->tensors[o->write.tensor];
    int64_t points = 1;
    step steps[DV_MAX_VARS];
    // An index that is read from a tensor makes the written elements known only
    // at run time. An update may have one; an op that defines a tensor may not,
    // because it must write every element.
    for (int d = 0; d < o->write.n_dims; d++)
        if (o->write.index[d].via >= 0)
            return o->update
                       ? DV_OK
                       : DV_BREAKS(c->diag, C4, whole(c),
                                   "op %s defines %s through an index that is "
                                   "read",
                                   o->name, t->name);
    for (int v = 0; v < o->n_vars; v++)
        if (!o->vars[v].reduce &&
            !dv_mul_i64(&points, points, o->vars[v].end - o->vars[v].begin))
            return DV_BREAKS(c->diag, C4, whole(c),
                             "op %s has more than 2^63 - 1 points", o->name);
    int n = steps_of(t, o, steps);
    int once = n >= 0 && points_are_distinct(steps, n);
    if (!once && points <= t->n_elems && t->n_elems <= MAX_COUNTED)
        once = enumerate_writes(t, o, points);
    if (once < 0)
        return dv_nomem(c->diag);
    if (!once)
        return DV_BREAKS(c->diag, C4, whole(c),
                         "op %s cannot be shown to write each element of %s at "
                         "most once",
                         o->name, t->name);
    if (!o->update && points != t->n_elems)
        return DV_BREAKS(c->diag, C4, whole(c),
                         "op %s defines %" PRId64 " of the %" PRId64
                         " elements of %s",
                         o->name, points, t->n_elems, t->name);
    return DV_OK;
}

// Returns an array: dead[i] is the first op of the longest repeat (a loop of
// the program) with 0 iterations that ends before op i, or i if there is none.
// Tensors that such a repeat defines stay undefined after it.
static int32_t *empty_repeats(const dv_program *p)
{
    int32_t *dead = dv_alloc(((size_t)p->n_ops + 1) * sizeof *dead);
    for (int i = 0; dead && i <= p->n_ops; i++)
        dead[i] = i;
    for (int i = 0; dead && i < p->n_repeats; i++) {
        const dv_repeat *r = &p->repeats[i];
        if (r->times == 0 && r->first_op < dead[r->end_op])
            dead[r->end_op] = r->first_op;
    }
    return dead;
}

static void mark_undefined(const checker *c, int32_t from, int32_t to,
                           uint8_t *written)
{
    for (int i = from; i < to; i++)
        if (!c->p->ops[i].update)
            written[c->p->ops[i].write.tensor] = 0;
}

static dv_status check_reads(const checker *c)
{
    uint8_t *written = dv_alloc((size_t)c->p->n_tensors);
    int32_t *dead = empty_repeats(c->p);
    if (!written || !dead) {
        dv_release(written);
        dv_release(dead);
        return dv_nomem(c->diag);
    }
    for (int i = 0; i < c->p->n_tensors; i++)
        written[i] = c->p->tensors[i].is_input;
    dv_status st = DV_OK;
    for (int i = 0; i < c->p->n_ops && st == DV_OK; i++) {
        const dv_op *o = &c->p->ops[i];
        for (int r = -1; r < o->n_reads && st == DV_OK; r++) {
            // An update keeps the elements that it does not write, so it needs
            // the old contents.
            int32_t t = r < 0 ? o->write.tensor : o->reads[r].tensor;
            if ((r >= 0 || o->update) && !written[t])
                st = DV_BREAKS(c->diag, C5, whole(c),
                               "op %s needs %s, which nothing has written",
                               o->name, c->p->tensors[t].name);
        }
        if (!o->update && written[o->write.tensor] && st == DV_OK)
            st = DV_BREAKS(c->diag, C4, whole(c),
                           "op %s defines %s a second time", o->name,
                           c->p->tensors[o->write.tensor].name);
        written[o->write.tensor] = 1;
        mark_undefined(c, dead[i + 1], i + 1, written);
    }
    for (int i = 0; i < c->p->n_tensors && st == DV_OK; i++)
        if (c->p->tensors[i].is_output && !written[i])
            st = DV_BREAKS(c->diag, C5, whole(c), "output %s is never written",
                           c->p->tensors[i].name);
    dv_release(dead);
    dv_release(written);
    return st;
}

// Returns whether op i finds the tensor written by op `from` of its group (ops
// that share one tile space) resident in the core's scratchpad. Rule C14
// (check/scratch.c) proves that it finds all it needs there.
static int is_resident_from(const checker *c, int32_t i, int read, int32_t from)
{
    int32_t home = read < 0 ? -1 : dv_home_of(c->plan, i, read);
    return home >= 0 && c->plan->scratch.homes[home].fill == DV_FILL_WRITTEN &&
           c->plan->scratch.homes[home].first_op == from;
}

// Computes the range begin..end of variable v that a tile of an op covers.
static void tile_range(const checker *c, int32_t op, int64_t tile, int v,
                       int64_t *begin, int64_t *end)
{
    const dv_op *o = &c->p->ops[op];
    int64_t n = 1;
    for (int k = o->n_vars - 1, u = -1; k >= 0 && u != v; k--) {
        u = dv_plan_digit(c->plan, op, k);
        tile /= n;
        n = (o->vars[u].end - o->vars[u].begin - 1) / c->plan->slices[op][u] +
            1;
    }
    int64_t slice = c->plan->slices[op][v];
    *begin = o->vars[v].begin + tile % n * slice;
    *end = dv_min_i64(*begin + slice, o->vars[v].end);
}

// Returns whether a tile of op `from` writes, in dimension d, all that the same
// tile of op i reads. Indices need no check here, because rule C3 has proved
// that they are in bounds.
static int covers(const checker *c, int32_t from, int32_t i, int read, int d,
                  int64_t tile)
{
    const dv_op *w = &c->p->ops[from], *o = &c->p->ops[i];
    const dv_index *to = &w->write.index[d], *at = &o->reads[read].index[d];
    int64_t lo = at->base, hi = at->base, begin, end;
    int64_t first = to->base, last = to->base;
    for (int v = 0; v < o->n_vars; v++) {
        if (at->coef[v] == 0)
            continue;
        tile_range(c, i, tile, v, &begin, &end);
        lo += at->coef[v] * (at->coef[v] > 0 ? begin : end - 1);
        hi += at->coef[v] * (at->coef[v] > 0 ? end - 1 : begin);
    }
    for (int v = 0; v < w->n_vars; v++) {
        if (to->coef[v] == 0)
            continue;
        tile_range(c, from, tile, v, &begin, &end);
        first += begin;
        last += end - 1;
    }
    int64_t end_of = c->p->tensors[o->reads[read].tensor].shape[d] - 1;
    if (o->reads[read].has_border) {
        // The read has a border: only indices inside the tensor need a writer.
        lo = dv_max_i64(0, dv_min_i64(lo, end_of));
        hi = dv_max_i64(0, dv_min_i64(hi, end_of));
    }
    return lo >= first && hi <= last;
}

static int in_parts(const checker *c, int32_t op)
{
    const dv_op *o = &c->p->ops[op];
    for (int v = 0; v < o->n_vars; v++)
        if (o->vars[v].reduce &&
            c->plan->slices[op][v] < o->vars[v].end - o->vars[v].begin)
            return 1;
    return 0;
}

// Returns whether partial sums of an op are added up tile by tile in an
// accumulator in the scratchpad (rule C36, check/scratch.c, proves that they
// can).
static int is_summed(const checker *c, int32_t op)
{
    for (int32_t i = 0; i < c->plan->scratch.n_homes; i++)
        if (c->plan->scratch.homes[i].fill == DV_FILL_SUMMED &&
            c->plan->scratch.homes[i].as_op == op)
            return 1;
    return 0;
}

// Returns whether every tile of op i reads only elements that the same tile of
// the earlier op `from` wrote. These must form a dense box and be final
// results, not partial sums.
static int in_same_tile(const checker *c, const dv_group *g, int32_t i,
                        int read, int32_t from)
{
    const dv_op *w = &c->p->ops[from], *o = &c->p->ops[i];
    uint32_t seen = 0;
    if (read < 0 || from > i || dv_access_is_indirect(&o->reads[read]))
        return 0;
    if (in_parts(c, from) || (in_parts(c, i) && !is_summed(c, i)))
        return 0;
    for (int d = 0; d < w->write.n_dims; d++) {
        int n = 0;
        for (int v = 0; v < w->n_vars; v++) {
            int64_t coef = w->write.index[d].coef[v];
            if (coef != 0 && (coef != 1 || n++ || (seen >> v & 1)))
                return 0;
            seen |= coef ? 1u << v : 0;
        }
        for (int64_t tile = 0; tile < g->n_tiles; tile++)
            if (!covers(c, from, i, read, d, tile))
                return 0;
    }
    return 1;
}

// Checks rule C8 for one group (ops that share one tile space): its tiles do
// not depend on each other. writer[t] is set here to the op of the group that
// writes tensor t; it is -1 for all tensors on entry and on return.
static dv_status check_apart(const checker *c, const dv_group *g,
                             int32_t *writer)
{
    if (g->n_tiles == 1 || g->end_op - g->first_op == 1)
        return DV_OK;
    dv_status st = DV_OK;
    for (int32_t i = g->first_op; i < g->end_op; i++)
        writer[c->p->ops[i].write.tensor] = i;
    for (int32_t i = g->first_op; i < g->end_op && st == DV_OK; i++) {
        const dv_op *o = &c->p->ops[i];
        for (int r = -1; r < o->n_reads && st == DV_OK; r++) {
            int32_t t = r < 0 ? o->write.tensor : o->reads[r].tensor;
            if (writer[t] >= 0 && writer[t] != i &&
                !is_resident_from(c, i, r, writer[t]) &&
                !in_same_tile(c, g, i, r, writer[t]))
                st = DV_BREAKS(
                    c->diag, C8, dv_plan_at(c->plan, g->off),
                    "op %s touches %s, which op %s of the same group "
                    "writes tile by tile",
                    o->name, c->p->tensors[t].name, c->p->ops[writer[t]].name);
        }
    }
    for (int32_t i = g->first_op; i < g->end_op; i++)
        writer[c->p->ops[i].write.tensor] = -1;
    return st;
}

static dv_status check_independence(const checker *c)
{
    int32_t *writer = dv_alloc((size_t)c->p->n_tensors * sizeof *writer);
    if (!writer)
        return dv_nomem(c->diag);
    for (int i = 0; i < c->p->n_tensors; i++)
        writer[i] = -1;
    dv_status st = DV_OK;
    for (int32_t i = 0; i < c->plan->n_groups && st == DV_OK; i++)
        st = check_apart(c, &c->plan->groups[i], writer);
    dv_release(writer);
    return st;
}

// Returns whether the plan lacks the section `layout` that rules C9 and C10
// need. Targets with neither sticks (fixed-size memory units) nor a limit of
// the bytes between the first and last stick accessed store plain rows and need
// no layout.
static int lacks_layout(const dv_plan *plan)
{
    return (plan->target.sticks || plan->target.span_limit_bytes) &&
           !(plan->facts & DV_FACT_LAID_OUT);
}

static dv_status check_accesses(const checker *c)
{
    for (int32_t i = 0; i < c->p->n_ops; i++) {
        const dv_op *o = &c->p->ops[i];
        DV_TRY(check_inside(c, o, &o->write));
        for (int r = 0; r < o->n_reads; r++)
            DV_TRY(check_inside(c, o, &o->reads[r]));
        DV_TRY(check_write(c, o));
    }
    return check_reads(c);
}

dv_status dv_plan_check_team(const dv_plan *plan, dv_diag *diag)
{
    checker c = {plan, plan->ops, diag};
    if (!(plan->facts & DV_FACT_LOWERED))
        return dv_fail(diag, DV_E_CHECK, whole(&c),
                       "the plan is not finished: section program is missing");
    DV_TRY(check_accesses(&c));
    return dv_check_dist(plan, whole(&c), diag);
}

dv_status dv_plan_check(const dv_plan *plan, dv_diag *diag)
{
    checker c = {plan, plan->ops, diag};
    if (plan->team.n_axes) {
        DV_TRY(dv_plan_check_team(plan, diag));
        return dv_check_ranks(plan, whole(&c), diag);
    }
    const char *missing = !(plan->facts & DV_FACT_LOWERED)   ? "program"
                          : !(plan->facts & DV_FACT_GROUPED) ? "groups"
                          : lacks_layout(plan)               ? "layout"
                                                             : NULL;
    if (missing)
        return dv_fail(diag, DV_E_CHECK, whole(&c),
                       "the plan is not finished: section %s is missing",
                       missing);
    DV_TRY(check_order(&c));
    DV_TRY(check_edges(&c));
    for (int32_t i = 0; i < plan->n_groups; i++) {
        DV_TRY(check_deals(&c, i));
        for (int32_t op = plan->groups[i].first_op; op < plan->groups[i].end_op;
             op++)
            DV_TRY(check_tiles(&c, i, op));
    }
    DV_TRY(check_accesses(&c));
    DV_TRY(check_independence(&c));
    DV_TRY(dv_check_once(plan, whole(&c), diag));
    DV_TRY(dv_check_machine(plan, whole(&c), diag));
    DV_TRY(dv_check_scratch(plan, whole(&c), diag));
    DV_TRY(dv_check_grid(plan, whole(&c), diag));
    return dv_check_schedule(plan, whole(&c), diag);
}
