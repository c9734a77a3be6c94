// Gives strided convolutions unit stride: in a sum of products that reads
// overlapping windows which advance by more than one element, the input is
// first copied so that adjacent results read adjacent elements.
//
//   y[o,i,j] = sum[c,a,b] w[o,c,a,b] * x[c,2*i+a,2*j+b]      b in 0..3
//   ->  y_1[d0,d1,b,j] = x[d0,d1,2*j+b]
//       y[o,i,j]       = sum[c,a,b] w[o,c,a,b] * y_1[c,2*i+a,b,j]
//
// Without the copy the host would pack such a matrix element by element, for
// every block that needs it. Windows that hardly overlap are left alone,
// because they are rows of a matrix already. A strided read without a window,
// x[c,2*i,2*j], is copied whole to y_1[c,i,j]. The copy is never larger than
// what the matrix product would pack.
#include "base/math.h"
#include "ir/lower.h"
#include <stdio.h>
#include <string.h>

typedef struct window {
    // In a read x[step * along + across]: `along` is the variable of the
    // results, `across` the reduced variable that runs over the window (-1 if
    // there is none).
    int across, along;
    dv_access from;
    // Range of indices of the input that is read in each dim.
    int64_t begin[DV_MAX_DIMS], end[DV_MAX_DIMS];
} window;

// Returns whether no dim except the last depends on variable v.
static int only_last_dim_uses(const dv_access *a, int v)
{
    for (int d = 0; d + 1 < a->n_dims; d++)
        if (a->index[d].coef[v])
            return 0;
    return 1;
}

// Computes the range of indices that the window's read uses in dim d. Returns 0
// on overflow.
static int set_range(const dv_lowering *lw, window *w, int d)
{
    return dv_index_bounds(&lw->work, &w->from.index[d], NULL, &w->begin[d],
                           &w->end[d]) &&
           dv_add_i64(&w->end[d], w->end[d], 1);
}

// Returns whether the copy is small enough: no more elements than the matrix
// product would copy anyway when it packs its operands, and at most MOST_TIMES
// as many as are read.
static int is_small_copy(const dv_lowering *lw, window *w, const dv_expr *read)
{
    enum { MOST_TIMES = 4 };
    double all = (double)dv_var_len(&lw->work, w->across) *
                 (double)dv_var_len(&lw->work, w->along);
    int last = w->from.n_dims - 1;
    if (!set_range(lw, w, last) ||
        all > MOST_TIMES * (double)(w->end[last] - w->begin[last]))
        return 0;
    for (int d = 0; d + 1 < w->from.n_dims; d++) {
        if (!set_range(lw, w, d))
            return 0;
        all *= (double)(w->end[d] - w->begin[d]);
    }
    return all <= dv_op_points_double(&lw->work, dv_lower_free_vars(lw, read));
}

// Returns whether the last index of the read is step * along + across, where
// `along` is a variable of the results, `across` a reduced variable that runs
// over a window (or absent), the step is 2 to 4, and windows overlap. Describes
// the read in *out.
static int find(const dv_lowering *lw, const dv_expr *read, uint32_t reduced,
                uint32_t written, window *out)
{
    enum { MOST_STEP = 4 };
    const dv_access *a = &lw->reads[read->read];
    *out = (window){.across = -1, .along = -1, .from = *a};
    if (a->n_dims < 1 || a->n_dims == DV_MAX_DIMS)
        return 0;
    const dv_index *last = &a->index[a->n_dims - 1];
    for (int v = 0; v < lw->work.n_vars; v++) {
        int *which = reduced >> v & 1 ? &out->across : &out->along;
        if (last->coef[v] == 0)
            continue;
        if (*which >= 0 || last->coef[v] < 1 || !only_last_dim_uses(a, v))
            return 0;
        *which = v;
    }
    int64_t step = out->along < 0 ? 0 : last->coef[out->along];
    if (step < 2 || step > MOST_STEP ||
        dv_var_len(&lw->work, out->along) < DV_LOWER_MIN_REUSE)
        return 0;
    if (out->across < 0)
        return dv_lower_transpose_pays(lw, read, written);
    return last->coef[out->across] == 1 &&
           2 * dv_var_len(&lw->work, out->across) >= 3 * step &&
           is_small_copy(lw, out, read);
}

// Returns a new variable name d0, d1, ... that differs from the names of the
// two variables in the strided index.
static const char *name_of(const dv_lowering *lw, const window *w, int *number)
{
    char *name = DV_NEW(&lw->out->arena, char, 16);
    if (!name)
        return NULL;
    do
        snprintf(name, 16, "d%d", (*number)++);
    while (!strcmp(name, lw->work.vars[w->across].name) ||
           !strcmp(name, lw->work.vars[w->along].name));
    return name;
}

// Sets the variables of the op that copies the input: one for every dim except
// the last, then the variable that runs over a window and the one that advances
// it.
static dv_status make_vars(dv_lowering *lw, const window *w, dv_var *vars)
{
    int n = w->from.n_dims - 1, number = 0;
    for (int d = 0; d < n; d++) {
        vars[d] = (dv_var){.name = name_of(lw, w, &number),
                           .begin = w->begin[d],
                           .end = w->end[d],
                           .off = lw->work.off};
        if (!vars[d].name)
            return dv_nomem(lw->diag);
    }
    vars[n] = lw->work.vars[w->across];
    vars[n + 1] = lw->work.vars[w->along];
    vars[n].reduce = vars[n + 1].reduce = 0;
    return DV_OK;
}

// Emits the op that copies the input, e.g. y_1[d0,d1,b,j] = x[d0,d1,2*j+b].
static dv_status bring(dv_lowering *lw, const window *w, const dv_expr *read,
                       int32_t to)
{
    dv_arena *arena = &lw->out->arena;
    int n = w->from.n_dims, n_vars = n + 1, ok = 1;
    dv_var *vars = DV_NEW(arena, dv_var, n_vars);
    dv_index *write = DV_NEW(arena, dv_index, n_vars);
    dv_index *from = DV_NEW(arena, dv_index, n);
    dv_access *reads = DV_NEW(arena, dv_access, 1);
    dv_expr *body = DV_NEW(arena, dv_expr, 1);
    if (!vars || !write || !from || !reads || !body)
        return dv_nomem(lw->diag);
    DV_TRY(make_vars(lw, w, vars));
    for (int v = 0; v < n_vars; v++)
        ok = ok && dv_lower_index(lw, &write[v], n_vars, v, -vars[v].begin);
    for (int d = 0; d < n; d++)
        ok = ok && dv_lower_index(lw, &from[d], n_vars, d, 0);
    int64_t *coef = DV_NEW(arena, int64_t, n_vars);
    if (!ok || !coef)
        return dv_nomem(lw->diag);
    const dv_index *last = &w->from.index[n - 1];
    coef[n - 1] = 1;
    coef[n] = last->coef[w->along];
    from[n - 1] = (dv_index){.base = last->base, .coef = coef, .via = -1};
    *reads = w->from; // with its border
    reads->off = lw->work.off;
    reads->index = from;
    *body = (dv_expr){.kind = DV_EXPR_READ, .dtype = read->dtype};
    body->off = read->off;
    dv_op op = {.vars = vars, .n_vars = n_vars, .n_reads = 1, .reads = reads};
    op.write = (dv_access){
        .tensor = to, .n_dims = n_vars, .off = lw->work.off, .index = write};
    op.body = body;
    op.off = lw->work.off;
    return dv_program_add_op(lw->out, &op) ? DV_OK : dv_nomem(lw->diag);
}

// Makes the read of the copy that replaces the strided read, e.g.
// y_1[c,2*i+a,b,j].
static dv_status replace(dv_lowering *lw, const window *w, const dv_expr *read,
                         int32_t tensor, const dv_expr **out)
{
    int n = w->from.n_dims, n_vars = lw->work.n_vars;
    dv_index *index = DV_NEW(&lw->out->arena, dv_index, n + 1);
    if (!index)
        return dv_nomem(lw->diag);
    for (int d = 0; d + 1 < n; d++) {
        index[d] = w->from.index[d];
        index[d].base -= w->begin[d];
    }
    if (!dv_lower_index(lw, &index[n - 1], n_vars, w->across,
                        -lw->work.vars[w->across].begin) ||
        !dv_lower_index(lw, &index[n], n_vars, w->along,
                        -lw->work.vars[w->along].begin))
        return dv_nomem(lw->diag);
    dv_access a = {
        .tensor = tensor, .n_dims = n + 1, .off = w->from.off, .index = index};
    return dv_lower_access(lw, &a, (dv_dtype)read->dtype, read->off, out);
}

static dv_status copy_and_replace(dv_lowering *lw, const window *w,
                                  const dv_expr *read, const dv_expr **out)
{
    int n = w->from.n_dims;
    int32_t to;
    int64_t *shape = DV_NEW(&lw->out->arena, int64_t, n + 1);
    if (!shape)
        return dv_nomem(lw->diag);
    for (int d = 0; d + 1 < n; d++)
        shape[d] = w->end[d] - w->begin[d];
    shape[n - 1] = dv_var_len(&lw->work, w->across);
    shape[n] = dv_var_len(&lw->work, w->along);
    DV_TRY(dv_lower_temp(lw, shape, n + 1,
                         lw->out->tensors[w->from.tensor].dtype, &to));
    DV_TRY(bring(lw, w, read, to));
    return replace(lw, w, read, to, out);
}

dv_status dv_lower_strided_windows(dv_lowering *lw, const dv_expr **product,
                                   uint32_t reduced, uint32_t all)
{
    const dv_expr *e = *product;
    window w;
    if (!lw->packs || !dv_lower_is_matrix(lw, e, reduced, all & ~reduced))
        return DV_OK;
    for (int i = 0; i < 2; i++) {
        dv_expr *copy;
        if (!find(lw, e->arg[i], reduced, all & ~reduced, &w))
            continue;
        DV_TRY(dv_lower_expr(lw, e, &copy));
        DV_TRY(
            w.across < 0
                ? dv_lower_transpose_read(lw, e->arg[i], w.along, &copy->arg[i])
                : copy_and_replace(lw, &w, e->arg[i], &copy->arg[i]));
        *product = e = copy;
    }
    return DV_OK;
}
