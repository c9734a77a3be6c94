// Computes what a rank computes of an op, what it must receive for that, and
// from which ranks.
//
//   u[i,j] on a 2 x 2 grid, v[i,j] = u[i-1,j] + u[i+1,j]
//   axis 0 cuts i where it cuts dim 0 of v: i in 0..4 | 4..8
//   rank (0,1) computes i in 1..4, reads rows 0..5, owns 0..4: receives row 4
#include "base/math.h"
#include "dist/dist.h"
#include <string.h>

int64_t dv_plan_team_size(const dv_plan_team *t)
{
    int64_t n = 1;
    for (int a = 0; a < t->n_axes; a++)
        n *= t->grid[a];
    return n;
}

// Writes an index with at most one variable as base + coef * var; returns 0 if
// it has more variables.
static int single(const dv_op *op, const dv_index *x, dv_axis_binding *b)
{
    b->var = dv_index_var(op, x);
    b->base = x->base;
    b->coef = b->var < 0 ? 0 : x->coef[b->var];
    return b->var != DV_NO_VAR;
}

static void bind_dims(dv_axis_binding *out, const dv_plan_team *t,
                      const dv_op *op, const dv_access *a)
{
    const dv_dist *d = &t->tensors[a->tensor];
    for (int k = 0; k < d->n_dims; k++) {
        if (d->axis[k] < 0)
            continue;
        dv_axis_binding *b = &out[d->axis[k]];
        // This cannot fail: only dims whose index has at most one variable are
        // cut.
        single(op, &a->index[k], b);
        b->d = d;
        b->dim = k;
        b->reduced = 0;
    }
}

void dv_team_binds(dv_axis_binding out[DV_MAX_AXES], const dv_program *p,
                   const dv_plan_team *t, int32_t op)
{
    const dv_op *o = &p->ops[op];
    memset(out, 0, DV_MAX_AXES * sizeof *out);
    bind_dims(out, t, o, &o->write);
    for (int32_t i = 0; i < t->n_follows; i++) {
        const dv_split_reduction *f = &t->follows[i];
        if (f->op != op)
            continue;
        const dv_access *a = &o->reads[f->read];
        const dv_dist *d = &t->tensors[a->tensor];
        if (d->axis[f->dim] < 0)
            continue; // invalid: the dim is not cut; dv_plan_check reports it
        dv_axis_binding *b = &out[d->axis[f->dim]];
        single(o, &a->index[f->dim], b);
        b->d = d;
        b->dim = f->dim;
        b->reduced = 1;
    }
}

// Intersects begin..end with the values of the variable for which the index
// base + coef * var lies in `part`.
static void narrow(int64_t *begin, int64_t *end, const dv_axis_binding *b,
                   dv_range part)
{
    int64_t lo, hi, c = b->coef;
    if (c > 0) {
        lo = dv_ceil_div(part.off - b->base, c);
        hi = dv_ceil_div(part.off + part.size - b->base, c);
    } else {
        lo = dv_floor_div(b->base - part.off - part.size, -c) + 1;
        hi = dv_floor_div(b->base - part.off, -c) + 1;
    }
    *begin = dv_max_i64(*begin, dv_min_i64(lo, *end));
    *end = dv_max_i64(*begin, dv_min_i64(hi, *end));
}

// Restricts an iteration space to the points computed by ranks at coordinate
// `coord` of the grid axis that b binds.
static void at_coord(dv_iter_space *s, const dv_axis_binding *b, int64_t coord)
{
    if (!b->d)
        return;
    dv_range part = dv_dist_dim(b->d, b->dim, coord);
    if (b->var >= 0)
        narrow(&s->begin[b->var], &s->end[b->var], b, part);
}

static void whole_space(dv_iter_space *s, const dv_op *op)
{
    for (int v = 0; v < op->n_vars; v++) {
        s->begin[v] = op->vars[v].begin;
        s->end[v] = op->vars[v].end;
    }
}

int dv_team_target(dv_iter_space *out, const dv_program *p,
                   const dv_plan_team *t, int32_t op, int64_t rank)
{
    dv_axis_binding binds[DV_MAX_AXES];
    int64_t at[DV_MAX_AXES];
    const dv_op *o = &p->ops[op];
    int any = 1;
    dv_team_binds(binds, p, t, op);
    dv_grid_coords(at, t->grid, t->n_axes, rank);
    whole_space(out, o);
    for (int a = 0; a < t->n_axes; a++) {
        at_coord(out, &binds[a], at[a]);
        if (binds[a].d && binds[a].var < 0) {
            dv_range part = dv_dist_dim(binds[a].d, binds[a].dim, at[a]);
            any &= binds[a].base >= part.off &&
                   binds[a].base < part.off + part.size;
        }
    }
    for (int v = 0; v < o->n_vars; v++)
        any &= out->begin[v] < out->end[v];
    return any;
}

// Returns the elements of dim d that an access reaches from the points of s.
static dv_range index_range(const dv_program *p, const dv_op *op,
                            const dv_access *a, int d, const dv_iter_space *s)
{
    int64_t lo, hi;
    // This cannot overflow, because the whole range lies inside the tensor or,
    // if the read has a border, the verifier has computed it.
    dv_access_bounds(p, op, a, d, s, &lo, &hi);
    return (dv_range){lo, hi + 1 - lo};
}

dv_box dv_access_box(const dv_program *p, const dv_op *op, const dv_access *a,
                     const dv_iter_space *s)
{
    dv_box b = {.n_dims = a->n_dims};
    for (int d = 0; d < a->n_dims; d++)
        b.dim[d] = a->index[d].via >= 0
                       ? (dv_range){0, p->tensors[a->tensor].shape[d]}
                       : index_range(p, op, a, d, s);
    return b;
}

// Adds to the list, or removes from it, all boxes of the tensor that the op
// reads on the rank.
static int reads_of(dv_boxes *l, int add, const dv_program *p,
                    const dv_plan_team *t, int32_t op, int32_t tensor,
                    int64_t rank, dv_arena *arena)
{
    const dv_op *o = &p->ops[op];
    dv_iter_space s;
    if (!dv_team_target(&s, p, t, op, rank))
        return 1;
    for (int r = 0; r < o->n_reads; r++) {
        if (o->reads[r].tensor != tensor)
            continue;
        dv_box b = dv_access_box(p, o, &o->reads[r], &s);
        if (!(add ? dv_boxes_add(l, &b, arena)
                  : dv_boxes_subtract(l, &b, arena)))
            return 0;
    }
    return 1;
}

int dv_team_need(dv_boxes *out, const dv_program *p, const dv_plan_team *t,
                 const dv_op_exchange *s, int64_t rank, dv_arena *arena)
{
    dv_box own = dv_dist_own(&t->tensors[s->tensor], rank);
    if (!reads_of(out, 1, p, t, s->op, s->tensor, rank, arena) ||
        !dv_boxes_subtract(out, &own, arena))
        return 0;
    for (int32_t i = 0; i < s->n_prior; i++)
        if (!reads_of(out, 0, p, t, s->prior[i], s->tensor, rank, arena))
            return 0;
    dv_boxes_join(out);
    return 1;
}

typedef struct asked {
    const dv_program *p;
    const dv_plan_team *t;
    const dv_op_exchange *s;
} asked;

static int need_of(void *user, int64_t rank, dv_boxes *out, dv_arena *arena)
{
    const asked *q = user;
    return dv_team_need(out, q->p, q->t, q->s, rank, arena);
}

// For ranks at coordinate `coord` of the axis, returns whether the index range
// of the read ends after the start of `own` (side 0) or begins before the end
// of `own` (side 1). Each answer is monotonic in coord.
static int reaches(const asked *q, const dv_access *a, int d,
                   const dv_axis_binding *b, int64_t coord, dv_range own,
                   int side)
{
    const dv_op *op = &q->p->ops[q->s->op];
    dv_iter_space s;
    whole_space(&s, op);
    at_coord(&s, b, coord);
    dv_range r = index_range(q->p, op, a, d, &s);
    return side == 0 ? r.off + r.size > own.off : r.off < own.off + own.size;
}

// Binary search for the first coordinate where reaches() returns `want`; n if
// there is none.
static int64_t turn(const asked *q, const dv_access *a, int d,
                    const dv_axis_binding *b, int64_t n, dv_range own, int side,
                    int want)
{
    int64_t low = 0, high = n;
    while (low < high) {
        int64_t mid = low + (high - low) / 2;
        if (reaches(q, a, d, b, mid, own, side) == want)
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

// Finds the coordinates of an axis whose ranks may read elements of the box
// `own`.
static void reading_coords(int64_t *first, int64_t *end, const asked *q,
                           const dv_access *a, const dv_axis_binding *b,
                           int64_t n, const dv_box *own)
{
    *first = 0;
    *end = n;
    for (int d = 0; d < a->n_dims && b->d && b->var >= 0; d++) {
        const dv_index *x = &a->index[d];
        if (x->via >= 0 || x->coef[b->var] == 0)
            continue;
        // Whether the index increases with the coordinate; otherwise it
        // decreases.
        int up = (x->coef[b->var] > 0) == (b->coef > 0);
        int64_t from = turn(q, a, d, b, n, own->dim[d], !up, 1);
        int64_t to = turn(q, a, d, b, n, own->dim[d], up, 0);
        *first = dv_max_i64(*first, from);
        *end = dv_min_i64(*end, to);
    }
}

static void candidates(dv_ranks *out, const asked *q, const dv_box *own)
{
    const dv_op *op = &q->p->ops[q->s->op];
    dv_axis_binding binds[DV_MAX_AXES];
    dv_team_binds(binds, q->p, q->t, q->s->op);
    for (int a = 0; a < q->t->n_axes; a++) {
        out->first[a] = q->t->grid[a];
        out->end[a] = 0;
        for (int r = 0; r < op->n_reads; r++) {
            int64_t first, end;
            if (op->reads[r].tensor != q->s->tensor)
                continue;
            reading_coords(&first, &end, q, &op->reads[r], &binds[a],
                           q->t->grid[a], own);
            if (first < end) {
                out->first[a] = dv_min_i64(out->first[a], first);
                out->end[a] = dv_max_i64(out->end[a], end);
            }
        }
        // If the written index is constant, only the ranks at one coordinate
        // compute the op.
        if (binds[a].d && binds[a].var < 0)
            dv_dist_coords(binds[a].d, binds[a].dim,
                           (dv_range){binds[a].base, 1}, &out->first[a],
                           &out->end[a]);
    }
}

int dv_team_messages(dv_op_exchange *out, const dv_program *p,
                     const dv_plan_team *t, int32_t exchange, int64_t rank,
                     dv_arena *arena)
{
    *out = t->op_exchanges[exchange];
    asked q = {p, t, &t->op_exchanges[exchange]};
    const dv_dist *d = &t->tensors[q.s->tensor];
    dv_box own = dv_dist_own(d, rank);
    dv_boxes lacks = {0};
    dv_pieces in = {0}, to = {0};
    dv_ranks among;
    candidates(&among, &q, &own);
    if (!dv_team_need(&lacks, p, t, q.s, rank, arena) ||
        !dv_dist_senders(&in, d, rank, &lacks, arena) ||
        !dv_dist_receivers(&to, d, rank, &among, need_of, &q, arena))
        return 0;
    out->receives = in.at;
    out->n_receives = in.n;
    out->sends = to.at;
    out->n_sends = to.n;
    return 1;
}

int dv_team_aligned(const dv_program *p, const dv_plan_team *t, int32_t op,
                    int32_t tensor)
{
    const dv_op *o = &p->ops[op];
    const dv_dist *d = &t->tensors[tensor];
    dv_axis_binding binds[DV_MAX_AXES], b;
    dv_team_binds(binds, p, t, op);
    for (int r = 0; r < o->n_reads; r++) {
        const dv_access *a = &o->reads[r];
        for (int k = 0; k < d->n_dims && a->tensor == tensor; k++) {
            if (d->axis[k] < 0 || t->grid[d->axis[k]] == 1)
                continue;
            const dv_axis_binding *by = &binds[d->axis[k]];
            if (a->index[k].via >= 0 || !single(o, &a->index[k], &b) ||
                !by->d || by->var != b.var || by->coef != b.coef ||
                by->base != b.base || by->d->shape[by->dim] != d->shape[k] ||
                by->d->starts[by->dim] != d->starts[k])
                return 0;
        }
    }
    return 1;
}

// Restricts `core`, the points that a rank can compute without messages, to
// points whose read lies in the rank's own box. Returns 0 if none can be found.
static int narrow_core(dv_iter_space *core, const dv_program *p,
                       const dv_op *op, const dv_access *a, const dv_box *own)
{
    for (int d = 0; d < a->n_dims; d++) {
        const dv_index *x = &a->index[d];
        dv_axis_binding b = {0};
        if (x->via >= 0)
            return 0; // an indirect index may read any element
        dv_range r = index_range(p, op, a, d, core);
        if (r.off >= own->dim[d].off &&
            r.off + r.size <= own->dim[d].off + own->dim[d].size)
            continue;
        if (!single(op, x, &b) || b.var < 0 || op->vars[b.var].reduce)
            return 0;
        narrow(&core->begin[b.var], &core->end[b.var], &b, own->dim[d]);
        if (core->begin[b.var] >= core->end[b.var])
            return 0;
    }
    return 1;
}

int dv_team_core(dv_iter_space *core, const dv_program *p,
                 const dv_plan_team *t, int32_t op, int64_t rank,
                 const dv_iter_space *target)
{
    const dv_op *o = &p->ops[op];
    *core = *target;
    for (int32_t i = 0; i < t->n_op_exchanges; i++) {
        const dv_op_exchange *s = &t->op_exchanges[i];
        if (s->op != op || s->repeat >= 0)
            continue;
        dv_box own = dv_dist_own(&t->tensors[s->tensor], rank);
        for (int r = 0; r < o->n_reads; r++)
            if (o->reads[r].tensor == s->tensor &&
                !narrow_core(core, p, o, &o->reads[r], &own))
                return 0;
    }
    return 1;
}

int dv_space_edges(dv_iter_space out[2 * DV_MAX_VARS], const dv_op *op,
                   const dv_iter_space *target, const dv_iter_space *core)
{
    dv_iter_space left = *target;
    int n = 0;
    for (int v = 0; v < op->n_vars; v++) {
        if (core->begin[v] > left.begin[v]) {
            out[n] = left;
            out[n++].end[v] = core->begin[v];
        }
        if (core->end[v] < left.end[v]) {
            out[n] = left;
            out[n++].begin[v] = core->end[v];
        }
        left.begin[v] = core->begin[v];
        left.end[v] = core->end[v];
    }
    return n;
}
