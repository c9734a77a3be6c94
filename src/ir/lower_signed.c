// Makes factors of integer matrix products signed, because kernels multiply i8
// by i8, as the machines' instructions do that all of them have:
//
//   y[i,j]: i32 = sum[k] a[i,k] * b[k,j]      a: u8, b: i8
//   ->  y_1[i,k]: i8 = a[i,k] - 128
//       y_2[j]: i32  = sum[k] b[k,j]
//       y[i,j]: i32  = (sum[k] y_1[i,k] * b[k,j]) + 128 * y_2[j]
//
// Results are the same integers.
#include "ir/lower.h"

enum {
    SHIFT = 128,
    // The number of products of two u8 whose sum always fits i32.
    MOST_TERMS = INT32_MAX / (255 * 255),
};

static dv_dtype type_of(const dv_lowering *lw, const dv_expr *read)
{
    return lw->out->tensors[lw->reads[read->read].tensor].dtype;
}

// Returns whether the product e, summed over `reduced`, is a matrix product of
// 8-bit integers, of which at least one is unsigned and can be copied.
static int is_unsigned(const dv_lowering *lw, const dv_expr *e,
                       uint32_t reduced, uint32_t written)
{
    int n = 0;
    if (!lw->packs || lw->grain != DV_GRAIN_FUSED ||
        !dv_lower_is_matrix(lw, e, reduced, written) ||
        dv_op_points_double(&lw->work, reduced) > MOST_TERMS)
        return 0;
    for (int i = 0; i < 2; i++) {
        const dv_expr *x = e->arg[i];
        dv_dtype t = type_of(lw, x);
        if ((t != DV_U8 && t != DV_I8) ||
            reduced & ~dv_lower_free_vars(lw, x) ||
            (t == DV_U8 && (lw->reads[x->read].has_border ||
                            !dv_lower_transpose_pays(lw, x, written))))
            return 0;
        n += t == DV_U8;
    }
    return n > 0;
}

static dv_status apply(dv_lowering *lw, dv_fn fn, const dv_expr *x,
                       const dv_expr *y, const dv_expr **out)
{
    const dv_expr like = dv_expr_binary(fn, x, y, x->off);
    dv_expr *e;
    DV_TRY(dv_lower_expr(lw, &like, &e));
    *out = e;
    return DV_OK;
}

static dv_status number(dv_lowering *lw, double value, uint32_t off,
                        const dv_expr **out)
{
    const dv_expr like = {.kind = DV_EXPR_CONST,
                          .dtype = DV_WEAK_INT,
                          .off = off,
                          .value = value};
    dv_expr *e;
    DV_TRY(dv_lower_expr(lw, &like, &e));
    *out = e;
    return DV_OK;
}

// Sums a factor over `reduced` in an op of its own; *out is SHIFT times this
// sum, which corrects the result for the shift.
static dv_status scaled_sum(dv_lowering *lw, const dv_expr *x, uint32_t reduced,
                            const dv_expr **out)
{
    const dv_expr like = {.kind = DV_EXPR_REDUCE,
                          .fn = DV_RED_SUM,
                          .n_args = 1,
                          .off = x->off,
                          .vars = reduced,
                          .arg = {x}};
    const dv_expr *shift, *sum;
    dv_expr *e;
    DV_TRY(dv_lower_expr(lw, &like, &e));
    e->dtype = dv_expr_type(e);
    DV_TRY(dv_lower_hoist_as(lw, e, DV_I32, &sum));
    DV_TRY(number(lw, SHIFT, x->off, &shift));
    return apply(lw, DV_FN_MUL, shift, sum, out);
}

dv_status dv_lower_make_signed(dv_lowering *lw, const dv_expr **product,
                               uint32_t reduced, uint32_t all,
                               const dv_expr **more)
{
    const dv_expr *x[2] = {(*product)->arg[0], (*product)->arg[1]}, *term;
    int is_u8[2];
    *more = NULL;
    if (!is_unsigned(lw, *product, reduced, all & ~reduced))
        return DV_OK;
    for (int i = 0; i < 2; i++) {
        is_u8[i] = type_of(lw, x[i]) == DV_U8;
        if (!is_u8[i])
            continue;
        DV_TRY(number(lw, SHIFT, x[i]->off, &term));
        DV_TRY(apply(lw, DV_FN_SUB, x[i], term, &term));
        DV_TRY(dv_lower_hoist_as(lw, term, DV_I8, &x[i]));
    }
    DV_TRY(apply(lw, DV_FN_MUL, x[0], x[1], product));
    for (int i = 0; i < 2; i++) {
        if (!is_u8[i])
            continue;
        DV_TRY(scaled_sum(lw, x[!i], reduced, &term));
        if (*more)
            DV_TRY(apply(lw, DV_FN_ADD, *more, term, &term));
        *more = term;
    }
    if (!is_u8[0] || !is_u8[1])
        return DV_OK;
    double n = dv_op_points_double(&lw->work, reduced);
    DV_TRY(number(lw, n * SHIFT * SHIFT, (*product)->off, &term));
    return apply(lw, DV_FN_ADD, *more, term, more);
}
