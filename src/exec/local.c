// Finds temporaries that need only one tile of memory. If a temporary is read
// and written only by the ops of one group that runs tile by tile, each thread
// keeps just the current tile, in a buffer that it reuses for the next tile and
// that stays in its cache.
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
} finder;

static void touch(finder *f, int32_t op, const dv_access *a)
{
    int32_t *home = &f->home[a->tensor], g = dv_group_of(f->x->plan, op);
    if (dv_access_is_indirect(a) || (*home >= 0 && *home != g))
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

// Returns 1 for a reduction to a vector over at least MANY elements each. The
// result is too small for a tile buffer to pay, and if it is stored whole, a
// group that runs row by row can continue from one tile to the next
// (dv_rows_span_tiles).
static int is_little(const dv_program *p, int32_t op)
{
    const dv_op *o = &p->ops[op];
    const dv_expr *r = dv_op_reduce(o);
    return r && o->write.n_dims == 1 && dv_op_points(o, r->vars) >= MANY;
}

static int add_local(finder *f, int32_t t, dv_group_plan *g, int64_t *used)
{
    int64_t sides[DV_MAX_DIMS];
    const dv_tensor *x = &f->p->tensors[t];
    if (!tile_box(f->x->plan, f->writer[t], sides))
        return 1;
    dv_tile_temp *l = &g->locals[g->n_locals];
    l->strides = DV_NEW(&f->x->arena, int64_t, x->n_dims + 1);
    if (!l->strides)
        return 0;
    int64_t n = dv_row_strides(x->n_dims, sides, l->strides);
    l->tensor = t;
    l->op = f->writer[t];
    l->off_bytes = *used;
    *used += dv_ceil_div(n * dv_dtype_get(x->dtype)->size_bytes, ALIGN_BYTES) *
             ALIGN_BYTES;
    f->x->strides[t] = l->strides;
    g->n_locals++;
    return 1;
}

int dv_exec_find_locals(dv_exec *x)
{
    const dv_plan *plan = x->plan;
    finder f = {.x = x, .p = plan->ops};
    x->local_bytes = 0;
    x->strides = DV_NEW(&x->arena, int64_t *, f.p->n_tensors);
    if (!x->strides || !find_groups(&f))
        return 0;
    for (int32_t g = 0; g < plan->n_groups; g++) {
        const dv_group *group = &plan->groups[g];
        dv_group_plan *run = &x->group[g];
        int32_t n = group->end_op - group->first_op;
        int64_t used = 0;
        run->n_locals = 0;
        if (n == 1 || group->n_tiles == 1 || dv_group_splits_reduction(plan, g))
            continue;
        run->locals = DV_NEW(&x->arena, dv_tile_temp, n);
        if (!run->locals)
            return 0;
        for (int32_t i = group->first_op; i < group->end_op; i++) {
            int32_t t = f.p->ops[i].write.tensor;
            if (f.home[t] == g && !is_little(f.p, i) &&
                !add_local(&f, t, run, &used))
                return 0;
        }
        x->local_bytes = dv_max_i64(x->local_bytes, used);
    }
    return 1;
}
