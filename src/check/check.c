// The checker: proves a plan from the plan alone. It shares no code with the
// passes that build plans, nor with ir/verify; where they reason dimension by
// dimension it works on element numbers.
//
//   C1  every op runs, once, in the order of the program
//   C2  every tile of a group is dealt to one core, and the core exists
//   C3  every access of every tile stays inside its tensor
//   C4  no op writes an element twice; what is defined is defined whole
//   C5  every read finds a tensor that was written before
//   C6  an op's slices make as many tiles as its group deals, so that every
//       part of a reduced result arrives; extern ops have none
//   C7  opaque ops, and ops that write through an index that is read (whose
//       points may meet), are alone and whole; no group crosses a repeat's edge
//   C8  in a group of several tiles, no op touches what another one writes,
//       except that it reads what the same tile of an earlier one wrote whole:
//       a tile may not need what another tile leaves
//   C9  on a machine of sticks, the lanes of an op's operands are lanes of the
//       same variable (of a product: of the reduced one in one factor, of one
//       the other factor brings in the rest); only moves change that
//   C10 what a tile reaches of a tensor, from its first stick to its last, is
//       within the target's span limit; opaque ops see to that themselves
//
// Cost: near-linear in ops and deals, and in the tiles of ops with tensors that
// are larger than the span limit. A write whose element numbers cannot be told
// apart by their factors is counted point by point, up to MAX_COUNTED.
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

// No place in particular: the plan's file, or the program's it was made from.
static dv_loc whole(const checker *c)
{
    const dv_source *src = c->plan->src.text ? &c->plan->src : NULL;
    if (!src && c->p && c->p->src.text)
        src = &c->p->src;
    return (dv_loc){src, DV_FILE};
}

// -- C1, C7: the order of ops ----------------------------------------------

static dv_status check_order(const checker *c)
{
    int32_t next = 0;
    for (int32_t i = 0; i < c->plan->n_groups; i++) {
        const dv_group *g = &c->plan->groups[i];
        if (g->first_op != next)
            return dv_fail(c->diag, DV_E_CHECK, dv_plan_at(c->plan, g->off),
                           "group %d starts with op %d, op %d is next", (int)i,
                           (int)g->first_op, (int)next);
        next = g->end_op;
    }
    if (next != c->p->n_ops)
        return dv_fail(c->diag, DV_E_CHECK, whole(c),
                       "op %s (number %d) is in no group", c->p->ops[next].name,
                       (int)next);
    return DV_OK;
}

static int is_indivisible(const dv_op *op)
{
    for (int d = 0; d < op->write.n_dims; d++)
        if (op->write.index[d].via >= 0)
            return 1;
    return op->is_extern;
}

// Edges of repeats, as marks between ops: edge[i] set when one begins or ends
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
                st = dv_fail(c->diag, DV_E_CHECK, dv_plan_at(c->plan, g->off),
                             "group %d crosses the edge of a repeat before op "
                             "%s",
                             (int)i, c->p->ops[op].name);
            else if (is_indivisible(&c->p->ops[op]) &&
                     g->end_op - g->first_op > 1)
                st =
                    dv_fail(c->diag, DV_E_CHECK, dv_plan_at(c->plan, g->off),
                            "op %s cannot be divided, but shares group %d with "
                            "%d more",
                            c->p->ops[op].name, (int)i,
                            (int)(g->end_op - g->first_op - 1));
            else if (is_indivisible(&c->p->ops[op]) && g->n_tiles != 1)
                st = dv_fail(
                    c->diag, DV_E_CHECK, dv_plan_at(c->plan, g->off),
                    "op %s cannot be divided, but group %d cuts it into "
                    "%" PRId64 " tiles",
                    c->p->ops[op].name, (int)i, g->n_tiles);
        }
    }
    dv_release(edge);
    return st;
}

// -- C2: the deal ----------------------------------------------------------

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
            return dv_fail(c->diag, DV_E_CHECK, at,
                           "group %d uses core %" PRId64
                           ", the target has 0..%" PRId64,
                           (int)i, d[k].core, c->plan->target.cores);
        if (d[k].first_tile > next)
            return dv_fail(c->diag, DV_E_CHECK, at,
                           "group %d: tile %" PRId64 " is dealt to no core",
                           (int)i, next);
        if (d[k].first_tile < next)
            return dv_fail(c->diag, DV_E_CHECK, at,
                           "group %d: tile %" PRId64
                           " is dealt twice, the second time to core %" PRId64,
                           (int)i, d[k].first_tile, d[k].core);
        if (d[k].n_tiles < 1 || !dv_add_i64(&next, next, d[k].n_tiles))
            return dv_fail(c->diag, DV_E_CHECK, at,
                           "group %d deals %" PRId64 " tiles to core %" PRId64,
                           (int)i, d[k].n_tiles, d[k].core);
    }
    if (next != g->n_tiles)
        return dv_fail(c->diag, DV_E_CHECK, at,
                       "group %d has %" PRId64 " tiles, %" PRId64 " are dealt",
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

// -- C6: tiles of one op ---------------------------------------------------

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
            return dv_fail(c->diag, DV_E_CHECK, dv_plan_at(c->plan, g->off),
                           "op %s: %s cannot be sliced by %" PRId64, o->name,
                           o->vars[v].name, slice);
    }
    if (n != g->n_tiles)
        return dv_fail(c->diag, DV_E_CHECK, dv_plan_at(c->plan, g->off),
                       "op %s makes %" PRId64 " tiles, its group %d has "
                       "%" PRId64,
                       o->name, n, (int)i, g->n_tiles);
    return DV_OK;
}

// -- C3, C4: accesses as element numbers -----------------------------------

// Corner by corner: the least and greatest index in each dim.
static dv_status check_inside(const checker *c, const dv_op *o,
                              const dv_access *a)
{
    const dv_tensor *t = &c->p->tensors[a->tensor];
    for (int d = 0; d < a->n_dims; d++) {
        if (a->index[d].via >= 0)
            continue; // checked when it runs
        int64_t ends[2] = {a->index[d].base, a->index[d].base};
        for (int v = 0; v < o->n_vars; v++) {
            int64_t k = a->index[d].coef[v], at_begin, at_last;
            if (!dv_mul_i64(&at_begin, k, o->vars[v].begin) ||
                !dv_mul_i64(&at_last, k, o->vars[v].end - 1) ||
                !dv_add_i64(&ends[k < 0], ends[k < 0], at_begin) ||
                !dv_add_i64(&ends[k >= 0], ends[k >= 0], at_last))
                return dv_fail(c->diag, DV_E_CHECK, whole(c),
                               "op %s: an index of %s overflows", o->name,
                               t->name);
        }
        if (ends[0] < 0 || ends[1] >= t->shape[d])
            return dv_fail(c->diag, DV_E_CHECK, whole(c),
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

// The write as one sum of steps in element numbers. Returns how many steps,
// or -1 when a factor overflows.
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
            stride *= t->shape[d]; // fits: the tensor's size does
        }
        if (factor == INT64_MIN)
            return -1;
        steps[n++] = (step){factor < 0 ? -factor : factor, points};
    }
    return n;
}

// Do the steps reach every sum at most once? Enough: each step is longer than
// all smaller ones together reach.
static int steps_apart(step *steps, int n)
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

// Count every write. 1 once each, 0 not, -1 out of memory. Elements are in
// bounds by C3, so their numbers are too.
static int count_once(const dv_tensor *t, const dv_op *o, int64_t points)
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
    for (int d = 0; d < o->write.n_dims; d++)
        if (o->write.index[d].via >= 0)
            return o->update
                       ? DV_OK // where it goes is known only when it runs
                       : dv_fail(c->diag, DV_E_CHECK, whole(c),
                                 "op %s defines %s through an index that is "
                                 "read",
                                 o->name, t->name);
    for (int v = 0; v < o->n_vars; v++)
        if (!o->vars[v].reduce &&
            !dv_mul_i64(&points, points, o->vars[v].end - o->vars[v].begin))
            return dv_fail(c->diag, DV_E_CHECK, whole(c),
                           "op %s has more than 2^63 - 1 points", o->name);
    int n = steps_of(t, o, steps);
    int once = n >= 0 && steps_apart(steps, n);
    if (!once && points <= t->n_elems && t->n_elems <= MAX_COUNTED)
        once = count_once(t, o, points);
    if (once < 0)
        return dv_nomem(c->diag);
    if (!once)
        return dv_fail(c->diag, DV_E_CHECK, whole(c),
                       "op %s cannot be shown to write each element of %s at "
                       "most once",
                       o->name, t->name);
    if (!o->update && points != t->n_elems)
        return dv_fail(c->diag, DV_E_CHECK, whole(c),
                       "op %s defines %" PRId64 " of the %" PRId64
                       " elements of %s",
                       o->name, points, t->n_elems, t->name);
    return DV_OK;
}

// -- C5: reads find their writers ------------------------------------------

// dead[i]: where the longest repeat of 0 times that ends before op i begins;
// i when there is none. What such a loop writes is written in it alone.
static int32_t *dead_loops(const dv_program *p)
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

static void unwrite(const checker *c, int32_t from, int32_t to,
                    uint8_t *written)
{
    for (int i = from; i < to; i++)
        if (!c->p->ops[i].update)
            written[c->p->ops[i].write.tensor] = 0;
}

static dv_status check_reads(const checker *c)
{
    uint8_t *written = dv_alloc((size_t)c->p->n_tensors);
    int32_t *dead = dead_loops(c->p);
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
            // An update leaves what it does not write: it needs the old one.
            int32_t t = r < 0 ? o->write.tensor : o->reads[r].tensor;
            if ((r >= 0 || o->update) && !written[t])
                st = dv_fail(c->diag, DV_E_CHECK, whole(c),
                             "op %s needs %s, which nothing has written",
                             o->name, c->p->tensors[t].name);
        }
        if (!o->update && written[o->write.tensor] && st == DV_OK)
            st = dv_fail(c->diag, DV_E_CHECK, whole(c),
                         "op %s defines %s a second time", o->name,
                         c->p->tensors[o->write.tensor].name);
        written[o->write.tensor] = 1;
        unwrite(c, dead[i + 1], i + 1, written);
    }
    for (int i = 0; i < c->p->n_tensors && st == DV_OK; i++)
        if (c->p->tensors[i].is_output && !written[i])
            st = dv_fail(c->diag, DV_E_CHECK, whole(c),
                         "output %s is never written", c->p->tensors[i].name);
    dv_release(dead);
    dv_release(written);
    return st;
}

// -- C8: tiles do not depend on one another --------------------------------

// Does op i find what op `from` of its group wrote in the core's scratchpad?
// That it has there what it needs is C14.
static int handed_over(const checker *c, int32_t i, int read, int32_t from)
{
    int32_t home = read < 0 ? -1 : dv_home_of(c->plan, i, read);
    return home >= 0 && c->plan->scratch.homes[home].fill == DV_FILL_WRITTEN &&
           c->plan->scratch.homes[home].first_op == from;
}

// The points of variable v that a tile has.
static void tile_range(const checker *c, int32_t op, int64_t tile, int v,
                       int64_t *begin, int64_t *end)
{
    const dv_op *o = &c->p->ops[op];
    int64_t n = 1;
    for (int u = o->n_vars - 1; u >= v; u--) {
        tile /= n;
        n = (o->vars[u].end - o->vars[u].begin - 1) / c->plan->slices[op][u] +
            1;
    }
    int64_t slice = c->plan->slices[op][v];
    *begin = o->vars[v].begin + tile % n * slice;
    *end = dv_min_i64(*begin + slice, o->vars[v].end);
}

// Does a tile of op `from` write all that the same tile of op i reads, in dim
// d? Indices are in bounds by C3.
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

// Does every tile of op i find what it reads in what the same tile of op
// `from`, which runs before it, wrote? That must be a box without gaps, and
// results, not parts of sums.
static int in_same_tile(const checker *c, const dv_group *g, int32_t i,
                        int read, int32_t from)
{
    const dv_op *w = &c->p->ops[from], *o = &c->p->ops[i];
    uint32_t seen = 0;
    if (read < 0 || from > i || dv_access_is_indirect(&o->reads[read]))
        return 0;
    if (in_parts(c, from) || in_parts(c, i))
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

// `writer[t]` is the op of this group that writes tensor t, or -1.
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
                !handed_over(c, i, r, writer[t]) &&
                !in_same_tile(c, g, i, r, writer[t]))
                st = dv_fail(c->diag, DV_E_CHECK, dv_plan_at(c->plan, g->off),
                             "op %s touches %s, which op %s of the same group "
                             "writes tile by tile",
                             o->name, c->p->tensors[t].name,
                             c->p->ops[writer[t]].name);
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

// -- The proof -------------------------------------------------------------

// Lanes and spans cannot be shown without; rows are rows.
static int lacks_layout(const dv_plan *plan)
{
    return (plan->target.sticks || plan->target.span_limit_bytes) &&
           !(plan->facts & DV_FACT_LAID_OUT);
}

dv_status dv_plan_check(const dv_plan *plan, dv_diag *diag)
{
    checker c = {plan, plan->ops, diag};
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
    for (int32_t i = 0; i < plan->ops->n_ops; i++) {
        const dv_op *o = &plan->ops->ops[i];
        DV_TRY(check_inside(&c, o, &o->write));
        for (int r = 0; r < o->n_reads; r++)
            DV_TRY(check_inside(&c, o, &o->reads[r]));
        DV_TRY(check_write(&c, o));
    }
    DV_TRY(check_independence(&c));
    DV_TRY(check_reads(&c));
    if (plan->team.n_axes)
        DV_TRY(dv_check_dist(plan, whole(&c), diag));
    DV_TRY(dv_check_machine(plan, whole(&c), diag));
    DV_TRY(dv_check_scratch(plan, whole(&c), diag));
    DV_TRY(dv_check_grid(plan, whole(&c), diag));
    return dv_check_nest(plan, whole(&c), diag);
}
