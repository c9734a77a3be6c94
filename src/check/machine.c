// The checker's rules about how the target stores and addresses data, C9 and
// C10 of check.c, and about its cores:
//
//   C33 an op reads tensors in scratchpads, or leaves its result there, only if
//       the target's property `keep` lists it; it overwrites an operand there
//       only if the property `in_place` lists it
//   C34 the ops of a group touch at most `group_tensors` tensors
//   C24 the holes of a target (missing cores) are on its grid of cores and do
//       not overlap, and all other cores are those that work is dealt to
#include "base/math.h"
#include "check/check.h"
#include <inttypes.h>
#include <string.h>

typedef struct checker {
    const dv_plan *plan;
    const dv_program *p;
    dv_loc at;
    dv_diag *diag;
} checker;

enum { NO_LANES = -1, ANY_LANES = -2 };

// Returns the variable along which an operand's lanes run (a lane is a position
// in a stick, the smallest unit of the target's memory). NO_LANES: no variable
// does, because each stick holds one element or is accessed in one lane only.
// ANY_LANES: the tensor has a single element, or the index is too complex to
// decide.
static int lanes_of(const checker *c, const dv_op *o, const dv_access *a)
{
    const dv_layout *l = &c->plan->layouts[a->tensor];
    int var = NO_LANES;
    if (c->p->tensors[a->tensor].n_elems == 1)
        return ANY_LANES;
    if (l->stick_dim < 0)
        return NO_LANES;
    if (a->index[l->stick_dim].via >= 0)
        return ANY_LANES;
    for (int v = 0; v < o->n_vars; v++) {
        int64_t k = a->index[l->stick_dim].coef[v];
        if (k % l->eps == 0 || o->vars[v].end - o->vars[v].begin == 1)
            // Skip a variable that moves by whole sticks (units of memory) or
            // has one value: it does not change the position in a stick.
            continue;
        if (var >= 0 || k != 1)
            return ANY_LANES;
        var = v;
    }
    return var;
}

static int moves_along(const dv_access *a, int var)
{
    for (int d = 0; d < a->n_dims; d++)
        if (a->index[d].via < 0 && a->index[d].coef[var])
            return 1;
    return 0;
}

// Returns whether the op is a product in which the lanes (positions in a stick,
// the target's memory unit) of read a run along a reduction variable, and those
// of read b and of the result along the same other variable.
static int is_product(const checker *c, const dv_op *o, int a, int b)
{
    const dv_access *x = &o->reads[a], *y = &o->reads[b];
    int k = lanes_of(c, o, x), n = lanes_of(c, o, y);
    int out = o->update ? ANY_LANES : lanes_of(c, o, &o->write);
    int result = n >= 0 ? n : out;
    if (k == NO_LANES || n == NO_LANES || out == NO_LANES)
        return 0;
    return (k < 0 || (o->vars[k].reduce && moves_along(y, k))) &&
           (n < 0 || out < 0 || n == out) &&
           (result < 0 || !moves_along(x, result));
}

static int is_address(const dv_op *o, int read)
{
    for (int r = -1; r < o->n_reads; r++) {
        const dv_access *a = r < 0 ? &o->write : &o->reads[r];
        for (int d = 0; d < a->n_dims; d++)
            if (a->index[d].via == read)
                return 1;
    }
    return 0;
}

static dv_status check_lanes(const checker *c, const dv_op *o)
{
    int lanes = ANY_LANES;
    const dv_access *of = NULL;
    dv_kind kind = dv_op_kind(o);
    if (kind == DV_KIND_MOVE || kind == DV_KIND_EXTERN)
        return DV_OK;
    if (o->n_reads == 2 && (is_product(c, o, 0, 1) || is_product(c, o, 1, 0)))
        return DV_OK;
    for (int r = o->update ? 0 : -1; r < o->n_reads; r++) {
        const dv_access *a = r < 0 ? &o->write : &o->reads[r];
        int here = r >= 0 && is_address(o, r) ? ANY_LANES : lanes_of(c, o, a);
        if (here >= 0 && lanes < 0) {
            lanes = here;
            of = a;
        }
    }
    for (int r = o->update ? 0 : -1; lanes >= 0 && r < o->n_reads; r++) {
        const dv_access *a = r < 0 ? &o->write : &o->reads[r];
        int here = r >= 0 && is_address(o, r) ? ANY_LANES : lanes_of(c, o, a);
        if (here == ANY_LANES || here == lanes ||
            (here == NO_LANES && !moves_along(a, lanes)))
            continue;
        return DV_BREAKS(c->diag, C9, c->at,
                         "op %s: the lanes of %s run along %s, those of %s do "
                         "not",
                         o->name, c->p->tensors[of->tensor].name,
                         o->vars[lanes].name, c->p->tensors[a->tensor].name);
    }
    return DV_OK;
}

enum { MAX_TILES_SHOWN = 1 << 20 };

// Returns the number of the stick (the smallest unit of the target's memory)
// that holds the element at host indices `at`; layouts without sticks have
// tiles or elements instead. Each host index is split into mixed-radix digits,
// one for each device dimension that comes from it.
static int64_t stick_at(const dv_layout *l, const int64_t *at)
{
    int64_t rest[DV_MAX_DIMS], stick = 0, weight = 1;
    for (int32_t i = 0; i < l->n_dims; i++)
        if (l->host[i] >= 0)
            rest[l->host[i]] = at[l->host[i]];
    for (int32_t i = l->n_dims - 1; i >= 0; i--) {
        int64_t digit = 0;
        if (l->host[i] >= 0) {
            digit = rest[l->host[i]] % l->size[i];
            rest[l->host[i]] /= l->size[i];
        }
        if (i >= l->n_dims - l->n_inner)
            // Skip a device dimension inside a stick (a unit of memory): it
            // does not change the stick's number.
            continue;
        stick += digit * weight;
        weight *= l->size[i];
    }
    return stick;
}

// Returns the bytes from the first to the last stick (unit of the target's
// memory) that an access of a tile touches. The stick number is monotonic in
// every index, so the first and the last stick are at corners of the tile's
// box.
static int64_t span_of(const checker *c, const dv_op *o, const dv_access *a,
                       const int64_t *begin, const int64_t *end)
{
    const dv_layout *l = &c->plan->layouts[a->tensor];
    int64_t lo[DV_MAX_DIMS], hi[DV_MAX_DIMS], inside = l->elem_bytes;
    for (int d = 0; d < a->n_dims; d++) {
        lo[d] = hi[d] = a->index[d].via < 0 ? a->index[d].base : 0;
        if (a->index[d].via >= 0)
            // An index that is read from a tensor may have any value, so assume
            // the whole dimension.
            hi[d] = c->p->tensors[a->tensor].shape[d] - 1;
        for (int v = 0; v < o->n_vars && a->index[d].via < 0; v++) {
            int64_t k = a->index[d].coef[v];
            lo[d] += k * (k < 0 ? end[v] - 1 : begin[v]);
            hi[d] += k * (k < 0 ? begin[v] : end[v] - 1);
        }
        if (a->has_border) {
            int64_t last = c->p->tensors[a->tensor].shape[d] - 1;
            lo[d] = dv_max_i64(0, dv_min_i64(lo[d], last));
            hi[d] = dv_max_i64(0, dv_min_i64(hi[d], last));
        }
    }
    for (int32_t i = l->n_dims - l->n_inner; i < l->n_dims; i++)
        inside *= l->size[i];
    return (stick_at(l, hi) - stick_at(l, lo) + 1) * inside;
}

static dv_status check_span(const checker *c, int32_t i, int32_t op,
                            const dv_access *a)
{
    const dv_group *g = &c->plan->groups[i];
    const dv_op *o = &c->p->ops[op];
    const char *name = c->p->tensors[a->tensor].name;
    int64_t limit = c->plan->target.span_limit_bytes;
    if (c->plan->layouts[a->tensor].bytes <= limit)
        return DV_OK;
    if (g->n_tiles > MAX_TILES_SHOWN)
        return DV_BREAKS(c->diag, C10, dv_plan_at(c->plan, g->off),
                         "op %s has %" PRId64 " tiles: too many to show that "
                         "each reaches at most %" PRId64 " bytes of %s",
                         o->name, g->n_tiles, limit, name);
    for (int64_t tile = 0; tile < g->n_tiles; tile++) {
        int64_t rest = tile, begin[DV_MAX_VARS], end[DV_MAX_VARS];
        for (int k = o->n_vars - 1; k >= 0; k--) {
            int v = dv_plan_digit(c->plan, op, k);
            int64_t slice = c->plan->slices[op][v];
            int64_t cuts = (o->vars[v].end - o->vars[v].begin - 1) / slice + 1;
            begin[v] = o->vars[v].begin + rest % cuts * slice;
            end[v] = dv_min_i64(begin[v] + slice, o->vars[v].end);
            rest /= cuts;
        }
        int64_t span = span_of(c, o, a, begin, end);
        if (span > limit)
            return DV_BREAKS(c->diag, C10, dv_plan_at(c->plan, g->off),
                             "op %s: tile %" PRId64 " reaches %" PRId64
                             " bytes of %s, the limit is %" PRId64,
                             o->name, tile, span, name, limit);
    }
    return DV_OK;
}

// Returns whether an op accesses the tensor of read r (of its write if r < 0)
// only in scratchpads, so that it touches none of it in main memory.
static int is_on_core(const checker *c, int32_t op, int r)
{
    int32_t home = dv_home_of(c->plan, op, r < 0 ? c->p->ops[op].n_reads : r);
    if (home < 0)
        return 0;
    const dv_home *h = &c->plan->scratch.homes[home];
    return r < 0 ? !h->stored : h->fill != DV_FILL_LOADED;
}

// Checks C10 (limited address spans) for loads of homes (tensors resident in
// scratchpads): a core loads its part with the span of the access of the op by
// whose tiles the home is divided.
static dv_status check_loads(const checker *c)
{
    for (int32_t k = 0; k < c->plan->scratch.n_homes; k++) {
        const dv_home *h = &c->plan->scratch.homes[k];
        const dv_op *o = &c->p->ops[h->as_op];
        const dv_access *a = &o->write;
        int32_t g = 0;
        if (h->fill != DV_FILL_LOADED)
            continue;
        for (int r = o->n_reads - 1; r >= 0 && o->write.tensor != h->tensor;
             r--)
            if (o->reads[r].tensor == h->tensor)
                a = &o->reads[r];
        while (c->plan->groups[g].end_op <= h->as_op)
            g++;
        DV_TRY(check_span(c, g, h->as_op, a));
    }
    return DV_OK;
}

static dv_status check_spans(const checker *c)
{
    for (int32_t i = 0; i < c->plan->n_groups; i++)
        for (int32_t op = c->plan->groups[i].first_op;
             op < c->plan->groups[i].end_op; op++) {
            const dv_op *o = &c->p->ops[op];
            for (int r = -1; r < o->n_reads && !o->is_extern; r++)
                if (!is_on_core(c, op, r))
                    DV_TRY(
                        check_span(c, i, op, r < 0 ? &o->write : &o->reads[r]));
        }
    return check_loads(c);
}

static dv_status count_cores(const checker *c, uint8_t *hole)
{
    const dv_target *t = &c->plan->target;
    int64_t cols = t->core_grid.cols, left = cols * t->core_grid.rows;
    for (int32_t i = 0; i < t->holes.n; i++) {
        const dv_core_rect *h = &t->holes.at[i];
        if (h->x0 < 0 || h->y0 < 0 || h->x0 > h->x1 || h->y0 > h->y1 ||
            h->x1 >= cols || h->y1 >= t->core_grid.rows)
            return DV_BREAKS(c->diag, C24, c->at,
                             "the hole %d,%d to %d,%d is not on the grid of "
                             "%" PRId64 "x%" PRId64 " cores",
                             h->x0, h->y0, h->x1, h->y1, cols,
                             t->core_grid.rows);
        for (int64_t y = h->y0; y <= h->y1; y++)
            for (int64_t x = h->x0; x <= h->x1; x++, left--)
                if (hole[y * cols + x]++)
                    return DV_BREAKS(
                        c->diag, C24, c->at,
                        "core %" PRId64 ",%" PRId64 " is in two holes", x, y);
    }
    if (left == t->cores)
        return DV_OK;
    return DV_BREAKS(c->diag, C24, c->at,
                     "the grid has %" PRId64
                     " cores without its holes, work is "
                     "dealt to %" PRId64,
                     left, t->cores);
}

static dv_status check_cores(const checker *c)
{
    const dv_target *t = &c->plan->target;
    if (!t->core_grid.cols && !t->holes.n)
        return DV_OK;
    size_t n = (size_t)(t->core_grid.cols * t->core_grid.rows);
    uint8_t *hole = dv_alloc(n ? n : 1);
    if (!hole)
        return dv_nomem(c->diag);
    memset(hole, 0, n);
    dv_status st = count_cores(c, hole);
    dv_release(hole);
    return st;
}

static dv_status check_use(const checker *c, const dv_home *h, int32_t op,
                           const dv_op_set *set, const char *property,
                           const char *what)
{
    char word[DV_OP_WORD_BYTES];
    const dv_op *o = &c->p->ops[op];
    if (dv_op_set_has(set, o))
        return DV_OK;
    return DV_BREAKS(c->diag, C33, h->off ? dv_plan_at(c->plan, h->off) : c->at,
                     "home %d, of %s: op %s %s, property %s lacks %s",
                     (int)(h - c->plan->scratch.homes),
                     c->p->tensors[h->tensor].name, o->name, what, property,
                     dv_op_set_lacks(set, o, word));
}

static dv_status check_uses(const checker *c)
{
    const dv_target *t = &c->plan->target;
    for (int32_t i = 0; i < c->plan->scratch.n_homes; i++) {
        const dv_home *h = &c->plan->scratch.homes[i];
        if (h->fill == DV_FILL_WRITTEN)
            DV_TRY(check_use(c, h, h->first_op, &t->keep, "keep",
                             "leaves its result there"));
        if (h->fill == DV_FILL_SUMMED)
            DV_TRY(check_use(c, h, h->as_op, &t->keep, "keep",
                             "sums up its parts there"));
        if (h->in_place_of >= 0)
            DV_TRY(check_use(c, h, h->first_op, &t->in_place, "in_place",
                             "overwrites an operand"));
        for (int32_t k = 0; k < h->n_readers; k++)
            DV_TRY(check_use(c, h, h->readers[k], &t->keep, "keep",
                             "reads it there"));
        for (int32_t k = 0; k < h->n_passed_to; k++)
            DV_TRY(check_use(c, h, h->passed_to[k], &t->keep, "keep",
                             "receives it from there"));
    }
    return DV_OK;
}

static int is_new_tensor(const int32_t *touched, int32_t n, int32_t t)
{
    for (int32_t i = 0; i < n; i++)
        if (touched[i] == t)
            return 0;
    return 1;
}

static dv_status check_tensors(const checker *c, const dv_group *g,
                               int32_t *touched)
{
    int32_t n = 0;
    for (int32_t i = g->first_op; i < g->end_op; i++) {
        const dv_op *o = &c->p->ops[i];
        for (int r = -1; r < o->n_reads; r++) {
            int32_t t = r < 0 ? o->write.tensor : o->reads[r].tensor;
            if (!is_new_tensor(touched, n, t))
                continue;
            if (n == c->plan->target.group_tensors)
                return DV_BREAKS(
                    c->diag, C34, g->off ? dv_plan_at(c->plan, g->off) : c->at,
                    "group %d: with %s its ops touch more than %" PRId64
                    " tensors",
                    (int)(g - c->plan->groups), c->p->tensors[t].name,
                    c->plan->target.group_tensors);
            touched[n++] = t;
        }
    }
    return DV_OK;
}

static dv_status check_groups(const checker *c)
{
    int64_t most = c->plan->target.group_tensors;
    if (!most || most >= c->p->n_tensors)
        return DV_OK;
    int32_t *touched = dv_alloc((size_t)most * sizeof *touched);
    dv_status st = touched ? DV_OK : dv_nomem(c->diag);
    for (int32_t g = 0; g < c->plan->n_groups && st == DV_OK; g++)
        st = check_tensors(c, &c->plan->groups[g], touched);
    dv_release(touched);
    return st;
}

dv_status dv_check_machine(const dv_plan *plan, dv_loc at, dv_diag *diag)
{
    checker c = {plan, plan->ops, at, diag};
    int sticks = plan->target.sticks && !plan->target.tile_rows;
    DV_TRY(check_cores(&c));
    DV_TRY(check_uses(&c));
    DV_TRY(check_groups(&c));
    for (int32_t i = 0; i < plan->ops->n_ops && sticks; i++)
        DV_TRY(check_lanes(&c, &plan->ops->ops[i]));
    return plan->target.span_limit_bytes ? check_spans(&c) : DV_OK;
}
