// Finds temporaries that need only one tile of memory. If a temporary is read
// and written only by the ops of one group that runs tile by tile, each thread
// keeps just the current tile, in a buffer that it reuses for the next tile and
// that stays in its cache. The plan's schedule lists these temporaries with the
// addresses of their buffers. If the ops run one by one, buffers that are not
// in use at the same time share bytes.
#include "base/math.h"
#include "exec/state.h"

enum { ALIGN_BYTES = 64, MANY = 64 };

typedef struct finder {
    dv_exec *x;
    const dv_program *p;
    // By tensor: the one group (ops that share one tile space) that uses it;
    // -1: no use found yet; -2: several groups, or the tensor must be stored as
    // a whole.
    int32_t *home;
    int32_t *writer; // by tensor: the op that defines it, or -1
    int32_t next;    // number of the next temporary of the plan's schedule
} finder;

static void touch(finder *f, int32_t op, const dv_access *a)
{
    int32_t *home = &f->home[a->tensor], g = dv_group_of(f->x->plan, op);
    if (dv_access_is_indirect(a) || a->has_border || (*home >= 0 && *home != g))
        *home = -2;
    else if (*home == -1)
        *home = g;
}

static int find_groups(finder *f)
{
    dv_arena *a = &f->x->arena;
    f->home = DV_NEW(a, int32_t, f->p->n_tensors);
    f->writer = DV_NEW(a, int32_t, f->p->n_tensors);
    if (!f->home || !f->writer)
        return 0;
    for (int32_t t = 0; t < f->p->n_tensors; t++) {
        const dv_tensor *x = &f->p->tensors[t];
        f->home[t] = x->is_input || x->is_output ? -2 : -1;
        f->writer[t] = -1;
    }
    for (int32_t i = 0; i < f->p->n_ops; i++) {
        const dv_op *o = &f->p->ops[i];
        for (int r = 0; r < o->n_reads; r++)
            touch(f, i, &o->reads[r]);
        touch(f, i, &o->write);
        if (o->update || f->writer[o->write.tensor] >= 0)
            f->home[o->write.tensor] = -2;
        f->writer[o->write.tensor] = i;
    }
    return 1;
}

// Finds the extents of the largest box that a tile of the op writes in its
// output tensor. Returns 0 if a tile of the op is not a box of the tensor:
// every dimension must be indexed by at most one variable, with coefficient 1.
static int tile_box(const dv_plan *plan, int32_t op, int64_t *sides)
{
    const dv_access *a = &plan->ops->ops[op].write;
    int vars[DV_MAX_DIMS];
    int is_box = dv_access_is_box(&plan->ops->ops[op], a, vars);
    for (int d = 0; is_box && d < a->n_dims; d++)
        sides[d] = vars[d] < 0 ? 1 : plan->slices[op][vars[d]];
    return is_box;
}

// Returns 1 for a reduction to a vector whose elements have many (64) terms
// each. The result is too small for a tile buffer to pay, and if it is stored
// whole, a group that runs row by row can continue from one tile to the next
// (dv_rows_span_tiles).
static int reduces_to_vector(const dv_program *p, int32_t op)
{
    const dv_op *o = &p->ops[op];
    const dv_expr *r = dv_op_reduce(o);
    return r && o->write.n_dims == 1 && dv_op_points(o, r->vars) >= MANY;
}

// Adds a tile buffer for tensor t at `address` of the memory that each thread
// has for tiles. Returns 0 when out of memory.
static int add_local(finder *f, int32_t t, dv_group_exec *g, int64_t address)
{
    int64_t sides[DV_MAX_DIMS];
    const dv_tensor *x = &f->p->tensors[t];
    tile_box(f->x->plan, f->writer[t], sides);
    dv_tile_buffer *l = &g->locals[g->n_locals];
    l->strides = DV_NEW(&f->x->arena, int64_t, x->n_dims + 1);
    if (!l->strides)
        return 0;
    int64_t n = dv_row_strides(x->n_dims, sides, l->strides);
    l->tensor = t;
    l->op = f->writer[t];
    l->off_bytes = address;
    l->end_bytes = address + dv_round_up(n * dv_dtype_get(x->dtype)->size_bytes,
                                         ALIGN_BYTES);
    f->x->strides[t] = l->strides;
    g->n_locals++;
    return 1;
}

// Returns 1 if group g can keep tensor t, which its op `op` writes, for one
// tile at a time: no other group uses it, and a tile of it is a box.
static int may_keep(const finder *f, int32_t g, int32_t op, int32_t t)
{
    const dv_plan *plan = f->x->plan;
    const dv_group *group = &plan->groups[g];
    int64_t sides[DV_MAX_DIMS];
    return group->end_op - group->first_op > 1 && group->n_tiles > 1 &&
           !dv_group_splits_reduction(plan, g) && f->home[t] == g &&
           f->writer[t] == op && tile_box(plan, op, sides);
}

// Returns the address of the next temporary in the plan's list of those that
// are kept for one tile, if it is tensor t; -1 otherwise. The list is in the
// order of the ops that write them, as rule C28 of the checker demands.
static int64_t planned_address(finder *f, int32_t t)
{
    const dv_schedule *s = &f->x->plan->schedule;
    if (f->next == s->n_temps || s->temps[f->next].tensor != t)
        return -1;
    return s->temps[f->next++].address;
}

// Finds the tile buffers of a group (ops that share one tile space).
static int find_in_group(finder *f, int32_t g)
{
    dv_exec *x = f->x;
    const dv_group *group = &x->plan->groups[g];
    dv_group_exec *run = &x->group[g];
    int64_t used = 0;
    run->n_locals = 0;
    run->locals =
        DV_NEW(&x->arena, dv_tile_buffer, group->end_op - group->first_op);
    if (!run->locals)
        return 0;
    for (int32_t i = group->first_op; i < group->end_op; i++) {
        int32_t t = f->p->ops[i].write.tensor;
        int64_t address = x->choosing ? used : planned_address(f, t);
        if (address < 0 || (x->choosing && reduces_to_vector(f->p, i)) ||
            !may_keep(f, g, i, t))
            continue;
        if (!add_local(f, t, run, address))
            return 0;
        used = dv_max_i64(used, run->locals[run->n_locals - 1].end_bytes);
    }
    return 1;
}

// Returns the last op of a group that reads a tensor, or `writer`, the op that
// writes it.
static int32_t last_use(const dv_plan *plan, const dv_group *g, int32_t tensor,
                        int32_t writer)
{
    for (int32_t i = g->end_op - 1; i > writer; i--)
        if (dv_op_reads(&plan->ops->ops[i], tensor))
            return i;
    return writer;
}

void dv_exec_share_locals(dv_exec *x, int32_t group)
{
    const dv_plan *plan = x->plan;
    const dv_group *g = &plan->groups[group];
    dv_group_exec *run = &x->group[group];
    for (int32_t i = 0; i < run->n_locals && !run->rows; i++) {
        dv_tile_buffer *l = &run->locals[i];
        int64_t bytes = l->end_bytes - l->off_bytes, at = 0;
        for (int32_t k = 0; k < i;) {
            const dv_tile_buffer *b = &run->locals[k++];
            if (b->off_bytes < at + bytes && at < b->end_bytes &&
                last_use(plan, g, b->tensor, b->op) >= l->op) {
                at = b->end_bytes;
                k = 0;
            }
        }
        l->off_bytes = at;
        l->end_bytes = at + bytes;
    }
}

dv_status dv_exec_find_locals(dv_exec *x, dv_diag *diag)
{
    const dv_plan *plan = x->plan;
    finder f = {.x = x, .p = plan->ops};
    int32_t n = 0;
    x->strides = DV_NEW(&x->arena, int64_t *, f.p->n_tensors);
    if (!x->strides || !find_groups(&f))
        return dv_nomem(diag);
    for (int32_t g = 0; g < plan->n_groups; g++) {
        if (!find_in_group(&f, g))
            return dv_nomem(diag);
        n += x->group[g].n_locals;
    }
    if (!x->choosing && n != plan->schedule.n_temps)
        return dv_fail(diag, DV_E_CHECK, DV_NOWHERE,
                       "the schedule keeps %d tensors for one tile at a time, "
                       "possible are %d of them",
                       (int)plan->schedule.n_temps, (int)n);
    return DV_OK;
}
