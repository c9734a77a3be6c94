// Reverses factors of matrix products that are read backwards, as convolutions
// are commonly written:
//
//   y[o,i] = sum[c,a] x[c,i+2-a] * w[o,c,a]
//   ->  y_1[o,c,a] = w[o,c,2-a]
//       y[o,i]     = sum[c,a] x[c,i+a] * y_1[o,c,a]
//
// A sum may run over its variables in either direction: the direction is chosen
// so that the larger factor is read forwards, and the smaller one is copied in
// reverse if necessary. A copy is at most twice as large as the tensor it is
// made from, and is reused for many results.
#include "base/math.h"
#include "ir/lower.h"
#include <stdlib.h>

static int64_t step_of(const dv_lowering *lw, const dv_expr *read, int v)
{
    const dv_var *var = &lw->work.vars[v];
    return var->end - var->begin == 1
               ? 0
               : dv_access_step(lw->out, &lw->reads[read->read], v);
}

static int has_negative_stride(const dv_lowering *lw, const dv_expr *read)
{
    for (int v = 0; v < lw->work.n_vars; v++)
        if (step_of(lw, read, v) < 0)
            return 1;
    return 0;
}

int dv_lower_is_matrix(const dv_lowering *lw, const dv_expr *e,
                       uint32_t reduced, uint32_t written)
{
    if (lw->work.is_extern || !dv_expr_is_product(e) ||
        dv_op_points_double(&lw->work, reduced) < DV_LOWER_MIN_REUSE)
        return 0;
    for (int i = 0; i < 2; i++) {
        const dv_expr *x = e->arg[i];
        if (dv_access_is_indirect(&lw->reads[x->read]) ||
            dv_op_points_double(&lw->work,
                                written & ~dv_lower_free_vars(lw, x)) <
                DV_LOWER_MIN_REUSE)
            return 0;
    }
    return 1;
}

static double points(const dv_lowering *lw, const dv_expr *read)
{
    return dv_op_points_double(&lw->work, dv_lower_free_vars(lw, read));
}

// Returns the mask of reduced variables whose direction must be reversed so
// that the larger factor is read forwards.
static uint32_t choose(const dv_lowering *lw, const dv_expr *large,
                       const dv_expr *small, uint32_t reduced)
{
    uint32_t flipped = 0;
    for (int v = 0; v < lw->work.n_vars; v++) {
        int64_t step = step_of(lw, large, v);
        if (step == 0)
            step = step_of(lw, small, v);
        if (reduced >> v & 1 && step < 0)
            flipped |= 1u << v;
    }
    return flipped;
}

// Reverses a variable in an index: replaces c * v by c * (begin + end - 1 - v).
// Returns 0 on overflow.
static int flip_index(const dv_var *var, int64_t c, dv_index *x, int64_t *coef)
{
    int64_t ends, far;
    return dv_add_i64(&ends, var->begin, var->end - 1) &&
           dv_mul_i64(&far, c, ends) && dv_add_i64(&x->base, x->base, far) &&
           dv_mul_i64(coef, c, -1);
}

static dv_status flip(dv_lowering *lw, const dv_expr *read, uint32_t flipped,
                      const dv_expr **out, int *may)
{
    dv_arena *arena = &lw->out->arena;
    dv_access a = lw->reads[read->read];
    dv_index *index = DV_NEW(arena, dv_index, a.n_dims);
    if (!index)
        return dv_nomem(lw->diag);
    for (int d = 0; d < a.n_dims; d++) {
        int64_t *coef = DV_NEW(arena, int64_t, lw->work.n_vars);
        if (!coef)
            return dv_nomem(lw->diag);
        index[d] = a.index[d];
        for (int v = 0; v < lw->work.n_vars; v++) {
            coef[v] = a.index[d].coef[v];
            if (flipped >> v & 1)
                *may &=
                    flip_index(&lw->work.vars[v], coef[v], &index[d], &coef[v]);
        }
        index[d].coef = coef;
    }
    a.index = index;
    return dv_lower_access(lw, &a, (dv_dtype)read->dtype, read->off, out);
}

// Copies a read into a temporary whose innermost dimension is the variable that
// has stride 1 or -1 in the read.
static dv_status turn(dv_lowering *lw, const dv_expr **read)
{
    int along = lw->work.n_vars;
    while (--along >= 0 && llabs(step_of(lw, *read, along)) != 1)
        ;
    return dv_lower_transpose_read(lw, *read, along, read);
}

dv_status dv_lower_reverse_factors(dv_lowering *lw, const dv_expr **product,
                                   uint32_t reduced, uint32_t all)
{
    const dv_expr *e = *product, *x[2];
    int may = 1;
    if (!dv_lower_is_matrix(lw, e, reduced, all & ~reduced) ||
        (!has_negative_stride(lw, e->arg[0]) &&
         !has_negative_stride(lw, e->arg[1])))
        return DV_OK;
    int large = points(lw, e->arg[1]) > points(lw, e->arg[0]);
    uint32_t flipped = choose(lw, e->arg[large], e->arg[!large], reduced);
    for (int i = 0; i < 2; i++)
        DV_TRY(flip(lw, e->arg[i], flipped, &x[i], &may));
    for (int i = 0; i < 2; i++)
        may = may && (!has_negative_stride(lw, x[i]) ||
                      dv_lower_transpose_pays(lw, x[i], all & ~reduced));
    if (!may)
        return DV_OK;
    for (int i = 0; i < 2; i++)
        if (has_negative_stride(lw, x[i]))
            DV_TRY(turn(lw, &x[i]));
    dv_expr *copy;
    DV_TRY(dv_lower_expr(lw, e, &copy));
    copy->arg[0] = x[0];
    copy->arg[1] = x[1];
    *product = copy;
    return DV_OK;
}
