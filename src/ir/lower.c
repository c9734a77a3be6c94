// Lowering: splits statements into ops that are as large as the target can run
// one, which is called its grain.
//
//   fused      y[i,j] = x[i,j] / (sum[k] x[i,k])
//              ->  y_1[i] = sum[k] x[i,k]
//                  y[i,j] = x[i,j] / y_1[i]
//
//   primitive  y[i] = relu(sum[k] a[i,k] * b[k]) + c[i]
//              ->  y_1[i] = relu(sum[k] a[i,k] * b[k])
//                  y[i]   = y_1[i] + c[i]
//
//   function   y[i] = 2 * (sum[k] a[i,k] * b[k] * c[k])
//              ->  y_1[i,k] = a[i,k] * b[k]
//                  y_2[i]   = sum[k] y_1[i,k] * c[k]
//                  y[i]     = 2 * y_2[i]
//
// In the fused grain, a reducer or a factor of a product that does not depend
// on every index is computed once, in an op of its own. Products of three or
// more factors are split in lower_sums.c, prefix sums in lower_scan.c; operands
// that are read backwards, transposed or with a stride are copied in
// lower_flip.c, lower_across.c and lower_apart.c.
//
// In all grains, a contraction keeps its product and its reducer in one op, and
// a function of its result alone becomes its epilogue (in the function grain
// only a function of one argument). A part that is split off ("hoisted")
// becomes an op over just the variables it depends on, and writes a temporary.
// Opaque (extern) statements are split only where one op could not hold them,
// and the hoisted parts are opaque too.
//
// Requires a verified program. Guarantees at most one REDUCE per op, and
// tensors numbered in the order in which the printed text names them. Run time
// is linear.
#include "ir/lower.h"
#include <math.h>
#include <string.h>

// Returns the value of `e`, whose arguments are constants; NaN if the value
// cannot be written as a literal and must be computed at run time.
static double folded(const dv_lowering *lw, const dv_expr *e)
{
    double x[3] = {0}, v;
    for (int i = 0; i < e->n_args; i++)
        x[i] = e->arg[i]->value;
    if (e->kind == DV_EXPR_APPLY)
        v = dv_fn_apply((dv_fn)e->fn, x[0], x[1], x[2]);
    else if (e->fn == DV_RED_SUM)
        v = x[0] * (double)dv_op_points(&lw->work, e->vars);
    else if (e->fn == DV_RED_PROD)
        v = pow(x[0], (double)dv_op_points(&lw->work, e->vars));
    else
        v = x[0];
    if (e->dtype != DV_WEAK_INT)
        return v;
    // From 2^53 on, a double may be a rounded integer. Adding 0.0 turns -0,
    // which integers do not have, into 0.
    return fabs(v) >= 0x1p53 ? NAN : v + 0.0;
}

// Makes a copy of the expression `like` with other arguments; replaces it by
// its value if all of them are constants.
static dv_status rebuild(dv_lowering *lw, const dv_expr *like,
                         const dv_expr *const *args, const dv_expr **out)
{
    dv_expr *e;
    DV_TRY(dv_lower_expr(lw, like, &e));
    *out = e;
    int constant = 1;
    for (int i = 0; i < like->n_args; i++) {
        e->arg[i] = args[i];
        constant = constant && args[i]->kind == DV_EXPR_CONST;
    }
    e->dtype = dv_expr_type(e);
    dv_expr_fold_index(e);
    double v = constant ? folded(lw, e) : NAN;
    if (isnan(v) || e->kind == DV_EXPR_INDEX)
        return DV_OK;
    *e = (dv_expr){.kind = DV_EXPR_CONST, .dtype = e->dtype, .off = like->off};
    e->value = v;
    return DV_OK;
}

// Returns the largest magnitude of the value of a variable.
static double largest_index(const dv_lowering *lw, const dv_expr *e)
{
    int64_t lo, hi;
    if (!dv_expr_index_bounds(&lw->work, e, &lo, &hi))
        return INFINITY; // not reached: the program was verified
    return fmax(fabs((double)lo), fabs((double)hi));
}

// Returns whether a function of integers cannot be computed in floats, even if
// these hold all values exactly.
static int integers_only(dv_fn fn)
{
    return dv_fn_get(fn)->whole || fn == DV_FN_MOD || fn == DV_FN_REM;
}

// Returns a bound on the magnitude of the integer expression e. *most is raised
// to the largest bound of e and of its subexpressions.
static double magnitude(const dv_lowering *lw, const dv_expr *e, double *most)
{
    double x[3] = {0}, v = 0;
    if (!dv_expr_is_integer(e))
        // A float can occur only as the condition of a select, which does not
        // count.
        return 0;
    // Argument 0 of a select is its condition, which is no part of the result.
    // A condition that is a plain read is skipped: it is only compared with 0,
    // and rounding an integer to a float never makes it 0.
    int select = dv_expr_applies(e, DV_FN_SELECT);
    for (int i = select && !e->arg[0]->n_args; i < e->n_args; i++)
        x[i] = magnitude(lw, e->arg[i], most);
    if (select)
        x[0] = 0;
    if (e->kind == DV_EXPR_CONST)
        v = fabs(e->value);
    else if (e->kind == DV_EXPR_INDEX)
        v = largest_index(lw, e);
    else if (e->kind == DV_EXPR_READ)
        v = fmax(-(double)dv_int_least((dv_dtype)e->dtype),
                 (double)dv_int_most((dv_dtype)e->dtype));
    else if (e->kind == DV_EXPR_REDUCE && e->fn == DV_RED_SUM)
        v = x[0] * dv_op_points_double(&lw->work, e->vars);
    else if (e->kind == DV_EXPR_REDUCE && e->fn == DV_RED_PROD)
        v = pow(x[0], dv_op_points_double(&lw->work, e->vars));
    else if (dv_expr_applies(e, DV_FN_MUL))
        v = x[0] * x[1];
    else if (e->kind == DV_EXPR_APPLY && dv_fn_compares((dv_fn)e->fn))
        v = 1;
    else if (e->kind == DV_EXPR_APPLY && integers_only((dv_fn)e->fn))
        v = 0x1p63;
    else // for sums, differences and selections of an argument
        v = x[0] + x[1] + x[2];
    *most = fmax(*most, v);
    return v;
}

static int computes_in_f32(const dv_lowering *lw)
{
    dv_op op = lw->work;
    op.reads = lw->reads;
    return dv_op_compute(lw->out, &op) == DV_IN_F32;
}

// Returns the magnitude up to which every integer is exact in the float type
// that the statement is computed in.
static double largest_exact(const dv_lowering *lw)
{
    return computes_in_f32(lw) ? 0x1p24 : 0x1p53;
}

// Returns whether e and all of its parts fit the 32-bit lanes in which kernels
// that compute in f32 evaluate comparisons of integers and conditions.
static int fits_lanes(const dv_lowering *lw, const dv_expr *e)
{
    double most = 0;
    if (e->kind == DV_EXPR_READ)
        return dv_int_least((dv_dtype)e->dtype) >= INT32_MIN &&
               dv_int_most((dv_dtype)e->dtype) <= INT32_MAX;
    for (int i = 0; i < e->n_args; i++)
        if (!fits_lanes(lw, e->arg[i]))
            return 0;
    int test = dv_expr_is_test(e);
    return dv_expr_is_integer(e) &&
           (test || magnitude(lw, e, &most) <= INT32_MAX);
}

// Makes the comparison e != 0.
static dv_status not_zero(dv_lowering *lw, const dv_expr *e,
                          const dv_expr **out)
{
    dv_expr zero = {.kind = DV_EXPR_CONST, .dtype = DV_WEAK_INT, .off = e->off};
    dv_expr *right, *both;
    DV_TRY(dv_lower_expr(lw, &zero, &right));
    dv_expr ne = dv_expr_binary(DV_FN_NE, e, right, e->off);
    DV_TRY(dv_lower_expr(lw, &ne, &both));
    *out = both;
    return DV_OK;
}

// Moves *e, a comparison of integers or a condition in a statement that is
// computed in f32, into an op of its own if its parts may not fit 32-bit lanes.
static dv_status test_in_lanes(dv_lowering *lw, const dv_expr **e)
{
    if (fits_lanes(lw, *e))
        return DV_OK;
    if (!dv_expr_is_test(*e))
        DV_TRY(not_zero(lw, *e, e));
    return dv_lower_hoist_as(lw, *e, DV_I8, e);
}

// Moves an integer part *e of a float expression into an op of its own if its
// value may be too large for the float type to hold exactly. The temporary is
// i32 if that is wide enough, because kernels sum i8 products into i32,
// otherwise i64. If `real` is set, the function that uses *e takes floats only,
// so an integer read is converted to a float tensor first.
static dv_status exact_integer(dv_lowering *lw, int real, const dv_expr **e)
{
    if (!dv_expr_is_integer(*e) || (*e)->kind == DV_EXPR_CONST)
        return DV_OK;
    int in_f32 = computes_in_f32(lw);
    double most = 0;
    magnitude(lw, *e, &most);
    int computed = (*e)->n_args || (*e)->kind == DV_EXPR_INDEX;
    if (computed && most > largest_exact(lw))
        DV_TRY(
            dv_lower_hoist_as(lw, *e, most <= INT32_MAX ? DV_I32 : DV_I64, e));
    return real && (*e)->kind == DV_EXPR_READ
               ? dv_lower_hoist_as(lw, *e, in_f32 ? DV_F32 : DV_F64, e)
               : DV_OK;
}

static dv_status exact_integers(dv_lowering *lw, const dv_expr *e,
                                const dv_expr **args)
{
    int real = e->kind == DV_EXPR_APPLY
                   ? dv_fn_get((dv_fn)e->fn)->real
                   : dv_reducer_get((dv_reducer)e->fn)->real;
    int f32 = !dv_expr_is_integer(e) && computes_in_f32(lw);
    int select = dv_expr_applies(e, DV_FN_SELECT);
    for (int i = 0; i < e->n_args && !dv_expr_is_integer(e); i++)
        DV_TRY(f32 && (dv_expr_is_test(args[i]) ||
                       (select && i == 0 && dv_expr_is_condition(args[0])))
                   ? test_in_lanes(lw, &args[i])
                   : exact_integer(lw, real, &args[i]));
    return DV_OK;
}

// Hoists (moves) a part of a statement into an op of its own. A part made of
// integer constants is computed in integers if the statement's float type might
// not hold its values.
static dv_status hoist_part(dv_lowering *lw, const dv_expr *e,
                            const dv_expr **out)
{
    *out = e;
    if (e->dtype == DV_WEAK_INT)
        DV_TRY(exact_integer(lw, 0, out));
    return (*out)->n_args ? dv_lower_hoist(lw, *out, out) : DV_OK;
}

// Prepares a select of integers, which is computed in integers and cannot have
// a float condition: the condition is replaced by 1 or 0, computed in an op of
// its own unless it is a constant.
static dv_status integer_condition(dv_lowering *lw, const dv_expr *e,
                                   const dv_expr **args)
{
    if (e->kind != DV_EXPR_APPLY || e->fn != DV_FN_SELECT)
        return DV_OK;
    dv_expr probe = *e;
    memcpy(probe.arg, args, sizeof probe.arg);
    probe.dtype = dv_expr_type(&probe);
    if (!dv_expr_is_integer(&probe) || dv_expr_is_integer(args[0]))
        return DV_OK;
    dv_expr zero = {.kind = DV_EXPR_CONST, .dtype = DV_WEAK_INT, .off = e->off};
    if (args[0]->kind == DV_EXPR_CONST) {
        dv_expr *test;
        DV_TRY(dv_lower_expr(lw, &zero, &test));
        test->value = args[0]->value != 0;
        args[0] = test;
        return DV_OK;
    }
    DV_TRY(not_zero(lw, args[0], &args[0]));
    return dv_lower_hoist_as(lw, args[0], DV_I64, &args[0]);
}

// Returns whether e has the same value at all points: it is made of constants.
static int is_constant(const dv_expr *e)
{
    for (int i = 0; i < e->n_args; i++)
        if (!is_constant(e->arg[i]))
            return 0;
    return e->kind != DV_EXPR_READ && e->kind != DV_EXPR_INDEX;
}

// Counts the factors of a product that are neither constants nor values of
// variables; a sum of products with two or more of them is a contraction.
static int count_factors(const dv_expr *e)
{
    if (dv_expr_applies(e, DV_FN_MUL))
        return count_factors(e->arg[0]) + count_factors(e->arg[1]);
    return !is_constant(e) && e->kind != DV_EXPR_INDEX;
}

static int is_contraction(const dv_lowering *lw, const dv_expr *e)
{
    if (e->kind != DV_EXPR_REDUCE || e->fn != DV_RED_SUM)
        return 0;
    const dv_expr *x = e->arg[0];
    // In the function grain (one operator per op), a product has exactly two
    // operands.
    if (lw->grain == DV_GRAIN_FUNCTION)
        return dv_expr_applies(x, DV_FN_MUL) && count_factors(x->arg[0]) &&
               count_factors(x->arg[1]);
    return count_factors(x) >= 2;
}

// Finds the reducer (such as sum[k]) that stays in the op: of those that depend
// on every written variable, the one with the most points. Any other reducer
// would be recomputed for each point.
static void pick(const dv_lowering *lw, const dv_expr *e, uint32_t written,
                 const dv_expr **best, int64_t *best_points)
{
    if (e->kind == DV_EXPR_REDUCE) {
        int64_t points = dv_op_points(&lw->work, written | e->vars);
        if (dv_lower_free_vars(lw, e) == written && points > *best_points) {
            *best = e;
            *best_points = points;
        }
        return;
    }
    for (int i = 0; i < e->n_args; i++)
        pick(lw, e->arg[i], written, best, best_points);
}

// Returns whether one factor of the product e depends on all variables of e, so
// that computing the product takes no more points than reading that factor.
static int is_scaled(const dv_lowering *lw, const dv_expr *e)
{
    uint32_t vars = dv_lower_free_vars(lw, e);
    return dv_lower_free_vars(lw, e->arg[0]) == vars ||
           dv_lower_free_vars(lw, e->arg[1]) == vars;
}

dv_status dv_lower_factors(dv_lowering *lw, const dv_expr *e, uint32_t around,
                           const dv_expr **out)
{
    *out = e;
    if (dv_expr_applies(e, DV_FN_MUL)) {
        const dv_expr *args[2];
        for (int i = 0; i < 2; i++) {
            const dv_expr *x = e->arg[i];
            DV_TRY(dv_expr_applies(x, DV_FN_MUL) &&
                           dv_lower_is_float(x->dtype) && is_scaled(lw, x) &&
                           dv_lower_free_vars(lw, x) != around
                       ? dv_lower_hoist_wide(lw, x, &args[i])
                       : dv_lower_factors(lw, x, around, &args[i]));
        }
        return rebuild(lw, e, args, out);
    }
    if (e->kind == DV_EXPR_APPLY && dv_lower_free_vars(lw, e) != around)
        return hoist_part(lw, e, out);
    return DV_OK;
}

// Returns whether kernels of integer matrix products can store results of this
// type.
static int is_narrow(dv_dtype t)
{
    return t == DV_I32 || t == DV_I8;
}

// Adds the correction `more` (see lower_signed.c) to the sum *out of an integer
// product. The sum stays in the op that is being lowered if `keep` is 1.
static dv_status add_more(dv_lowering *lw, int keep, const dv_expr *more,
                          const dv_expr **out)
{
    const dv_expr *sum = *out;
    if (!keep)
        DV_TRY(dv_lower_hoist_as(lw, sum, DV_I32, &sum));
    dv_expr add = dv_expr_binary(DV_FN_ADD, sum, more, more->off);
    return rebuild(lw, &add, add.arg, out);
}

// Lowers e, the sum or mean of `product`. `keep` is 1 if the reducer may stay
// in the op that is being lowered, 0 if it must move into an op of its own;
// `inner` is the mask of the op's loop variables.
static dv_status fuse_sum(dv_lowering *lw, const dv_expr *e,
                          const dv_expr *product, int keep, uint32_t inner,
                          const dv_expr **out)
{
    dv_expr left = *e;
    const dv_expr *outside;
    // A hoisted reducer (one with an op of its own) loops only over the
    // variables it depends on.
    uint32_t loops = keep ? inner : dv_lower_free_vars(lw, e) | e->vars;
    uint32_t written = loops & ~e->vars;
    DV_TRY(dv_lower_split(lw, (dv_reducer)e->fn, &product, &left.vars, loops,
                          &outside));
    DV_TRY(dv_lower_factors(lw, product, written | left.vars, &product));
    DV_TRY(
        dv_lower_reverse_factors(lw, &product, left.vars, written | left.vars));
    DV_TRY(
        dv_lower_strided_windows(lw, &product, left.vars, written | left.vars));
    const dv_expr *more = NULL;
    if (e->fn == DV_RED_SUM && left.vars && !outside &&
        (!keep || is_narrow(lw->src->tensors[lw->work.write.tensor].dtype)))
        DV_TRY(dv_lower_make_signed(lw, &product, left.vars,
                                    written | left.vars, &more));
    // The product itself is the result if no variable is left to sum over,
    // because all sums became ops of their own.
    *out = product;
    if (left.vars)
        DV_TRY(rebuild(lw, &left, &product, out));
    if (more)
        return add_more(lw, keep, more, out);
    // `outside` are the factors multiplied after the sum. Without them the sum
    // may no longer depend on every written variable; it is then hoisted into
    // an op of its own, so that it is computed once.
    if (outside && (*out)->kind == DV_EXPR_REDUCE &&
        (!keep || dv_lower_free_vars(lw, *out) != written))
        DV_TRY(dv_lower_hoist_wide(lw, *out, out));
    if (!outside)
        return keep || (*out)->kind != DV_EXPR_REDUCE
                   ? DV_OK
                   : hoist_part(lw, *out, out);
    dv_expr mul = dv_expr_binary(DV_FN_MUL, outside, *out, e->off);
    return rebuild(lw, &mul, mul.arg, out);
}

// If e applies a function that cannot be computed in floats to integers, makes
// its integer constants stay integers. Returns the previous setting.
static int keep_integers(dv_lowering *lw, const dv_expr *e)
{
    int before = lw->keep_integers;
    if (e->kind == DV_EXPR_APPLY && integers_only((dv_fn)e->fn) &&
        dv_expr_is_integer(e))
        lw->keep_integers = 1;
    return before;
}

static dv_status fuse(dv_lowering *lw, const dv_expr *e, const dv_expr *keep,
                      uint32_t around, const dv_expr **out)
{
    const dv_expr *args[3];
    uint32_t inner = e->kind == DV_EXPR_REDUCE ? around | e->vars : around;
    *out = e;
    if (e->n_args == 0)
        return DV_OK;
    int before = keep_integers(lw, e);
    for (int i = 0; i < e->n_args; i++)
        DV_TRY(fuse(lw, e->arg[i], e->kind == DV_EXPR_REDUCE ? NULL : keep,
                    inner, &args[i]));
    lw->keep_integers = before;
    if (e->kind == DV_EXPR_REDUCE && dv_expr_applies(args[0], DV_FN_MUL) &&
        (e->fn == DV_RED_SUM || e->fn == DV_RED_MEAN))
        return fuse_sum(lw, e, args[0], e == keep, inner, out);
    if (e->kind == DV_EXPR_REDUCE && !lw->work.is_extern) {
        const dv_expr *scanned;
        DV_TRY(dv_lower_scan(lw, e, args[0], &scanned));
        *out = scanned;
        if (scanned)
            return DV_OK;
    }
    DV_TRY(integer_condition(lw, e, args));
    DV_TRY(exact_integers(lw, e, args));
    DV_TRY(rebuild(lw, e, args, out));
    if ((*out)->kind == DV_EXPR_REDUCE && e != keep)
        return hoist_part(lw, *out, out);
    return DV_OK;
}

static dv_status atom(dv_lowering *lw, const dv_expr *e, const dv_expr **out);

static dv_status product(dv_lowering *lw, const dv_expr *e, const dv_expr **out)
{
    if (!dv_expr_applies(e, DV_FN_MUL))
        return atom(lw, e, out);
    const dv_expr *args[2];
    for (int i = 0; i < 2; i++)
        DV_TRY(lw->grain == DV_GRAIN_FUNCTION
                   ? atom(lw, e->arg[i], &args[i])
                   : product(lw, e->arg[i], &args[i]));
    DV_TRY(exact_integers(lw, e, args));
    return rebuild(lw, e, args, out);
}

// Returns whether e uses only constants and the result of one contraction, so
// that it can be the contraction's epilogue (functions applied to its result in
// the same op).
static int is_epilogue(const dv_lowering *lw, const dv_expr *e)
{
    if (e->kind != DV_EXPR_APPLY)
        return is_contraction(lw, e);
    int touched = 0;
    for (int i = 0; i < e->n_args; i++) {
        if (e->arg[i]->kind == DV_EXPR_CONST)
            continue;
        if (touched || !is_epilogue(lw, e->arg[i]))
            return 0;
        touched = 1;
    }
    return touched;
}

// Makes e the expression of one op; parts that do not fit into it are moved
// into ops before it.
static dv_status one_op(dv_lowering *lw, const dv_expr *e, const dv_expr **out)
{
    const dv_expr *args[3];
    *out = e;
    if (e->n_args == 0)
        return DV_OK;
    if (is_contraction(lw, e)) {
        DV_TRY(product(lw, e->arg[0], &args[0]));
        return rebuild(lw, e, args, out);
    }
    int touch = lw->grain == DV_GRAIN_FUNCTION
                    ? e->kind == DV_EXPR_APPLY && e->n_args == 1 &&
                          is_contraction(lw, e->arg[0])
                    : is_epilogue(lw, e);
    int before = keep_integers(lw, e);
    for (int i = 0; i < e->n_args; i++)
        DV_TRY(touch ? one_op(lw, e->arg[i], &args[i])
                     : atom(lw, e->arg[i], &args[i]));
    lw->keep_integers = before;
    DV_TRY(integer_condition(lw, e, args));
    DV_TRY(exact_integers(lw, e, args));
    return rebuild(lw, e, args, out);
}

// Returns whether e can be an operand of any op as it is: a constant, the value
// of a variable or a direct read. A read through an index tensor (a gather)
// gets an op of its own.
static int is_atom(const dv_lowering *lw, const dv_expr *e)
{
    return e->kind == DV_EXPR_CONST || e->kind == DV_EXPR_INDEX ||
           (e->kind == DV_EXPR_READ &&
            !dv_access_is_indirect(&lw->reads[e->read]));
}

static dv_status atom(dv_lowering *lw, const dv_expr *e, const dv_expr **out)
{
    *out = e;
    if (is_atom(lw, e))
        return DV_OK;
    // An expression of integer constants has no type yet. If the float type of
    // the statement may not hold its value, all of its parts are computed in
    // integers.
    double most = 0;
    int before = lw->keep_integers;
    if (e->dtype == DV_WEAK_INT && magnitude(lw, e, &most) >= 0)
        lw->keep_integers |= most > largest_exact(lw);
    DV_TRY(one_op(lw, e, out));
    if ((*out)->kind != DV_EXPR_CONST)
        DV_TRY(dv_lower_hoist(lw, *out, out));
    lw->keep_integers = before;
    return DV_OK;
}

// Returns whether e reads the tensor that the op writes. Such an expression
// cannot be moved into an op before an update (an op that modifies its tensor),
// because each element may depend on earlier stores.
static int reads_written(const dv_lowering *lw, const dv_expr *e)
{
    if (e->kind == DV_EXPR_READ &&
        lw->reads[e->read].tensor == lw->work.write.tensor)
        return 1;
    for (int i = 0; i < e->n_args; i++)
        if (reads_written(lw, e->arg[i]))
            return 1;
    return 0;
}

// At the granularity of one operator per op, the values that an indirect write
// scatters are computed in an op of their own.
static dv_status scattered(dv_lowering *lw, const dv_expr **body)
{
    const dv_expr *e = *body;
    if (lw->grain != DV_GRAIN_FUNCTION || is_atom(lw, e) ||
        reads_written(lw, e) || !dv_access_is_indirect(&lw->work.write))
        return DV_OK;
    return dv_lower_hoist(lw, e, body);
}

// Removes the borders of reads whose elements are all inside of their tensors.
static void remove_borders(dv_lowering *lw)
{
    lw->has_equal_reads = 0;
    for (int i = 0; i < lw->work.n_reads; i++) {
        dv_access *a = &lw->reads[i];
        if (!a->has_border || dv_access_leaves(lw->src, &lw->work, a, NULL))
            continue;
        a->has_border = 0;
        a->border = 0;
        lw->has_equal_reads = 1;
    }
}

static dv_status lower_op(dv_lowering *lw, const dv_op *op)
{
    lw->work = *op;
    lw->cap_reads = op->n_reads;
    lw->reads = dv_arena_grow(&lw->out->arena, op->reads, (size_t)op->n_reads,
                              (size_t)op->n_reads, sizeof *op->reads);
    if (!lw->reads)
        return dv_nomem(lw->diag);
    remove_borders(lw);
    const dv_expr *body = NULL;
    if (lw->grain != DV_GRAIN_FUSED && !op->is_extern) {
        DV_TRY(one_op(lw, op->body, &body));
        DV_TRY(scattered(lw, &body));
    } else {
        const dv_expr *keep = NULL;
        int64_t points = 0;
        uint32_t written = dv_written_vars(op);
        pick(lw, op->body, written, &keep, &points);
        DV_TRY(fuse(lw, op->body, keep, written, &body));
        if (!op->is_extern)
            DV_TRY(dv_lower_transpose_operands(lw, &op->write, &body));
    }
    if (dv_is_float(lw->src->tensors[op->write.tensor].dtype))
        DV_TRY(exact_integer(lw, 0, &body));
    return dv_lower_emit(lw, &op->write, body, op->update);
}

static int is_plain_write(const dv_op *op)
{
    int vars[DV_MAX_DIMS], plain = dv_access_is_vars(op, &op->write, vars);
    for (int d = 0; plain && d < op->write.n_dims; d++)
        plain = op->vars[vars[d]].begin == 0;
    return plain;
}

dv_status dv_program_renumber(dv_program *p, int32_t **new_of, dv_diag *diag)
{
    int32_t *to = DV_NEW(&p->arena, int32_t, p->n_tensors), n = 0;
    int32_t *def = DV_NEW(&p->arena, int32_t, p->n_tensors);
    dv_tensor *old = p->tensors;
    dv_tensor *tensors = DV_NEW(&p->arena, dv_tensor, p->n_tensors);
    if (!to || !def || !tensors)
        return dv_nomem(diag);
    for (int i = 0; i < p->n_tensors; i++)
        to[i] = def[i] = -1;
    for (int i = 0; i < p->n_ops; i++) {
        int32_t t = p->ops[i].write.tensor;
        if (!p->ops[i].update && def[t] < 0) {
            def[t] = i;
            old[t].is_temp = (uint8_t)!is_plain_write(&p->ops[i]);
        }
    }
    for (int i = 0; i < p->n_tensors; i++)
        if (old[i].is_input)
            to[i] = n++;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < p->n_ops; i++) {
            int32_t t = p->ops[i].write.tensor;
            if (def[t] == i && to[t] < 0 && (pass || old[t].is_temp))
                to[t] = n++;
        }
    p->tensor_ids = (dv_table){0};
    for (int i = 0; i < p->n_tensors; i++) {
        if (to[i] < 0)
            continue; // the tensor is declared but never defined
        tensors[to[i]] = old[i];
        if (!dv_table_set(&p->tensor_ids, &p->arena, old[i].name,
                          strlen(old[i].name), to[i]))
            return dv_nomem(diag);
    }
    for (int i = 0; i < p->n_ops; i++) {
        dv_op *op = &p->ops[i];
        op->write.tensor = to[op->write.tensor];
        // The cast removes const from an array that belongs to this program.
        dv_access *reads = (dv_access *)op->reads;
        for (int r = 0; r < op->n_reads; r++)
            reads[r].tensor = to[reads[r].tensor];
    }
    p->tensors = tensors;
    p->n_tensors = p->cap_tensors = n;
    *new_of = to;
    return DV_OK;
}

// Copies the params (named constants) of the source program and their values to
// the new program, which only shows them in reports.
static dv_status copy_params(dv_lowering *lw)
{
    int32_t n = lw->src->n_params;
    dv_param_value *v = dv_arena_grow(&lw->out->arena, lw->src->params,
                                      (size_t)n, (size_t)n, sizeof *v);
    if (!v)
        return dv_nomem(lw->diag);
    for (int i = 0; i < n; i++) {
        v[i].name =
            dv_arena_copy(&lw->out->arena, v[i].name, strlen(v[i].name));
        if (!v[i].name)
            return dv_nomem(lw->diag);
    }
    lw->out->params = v;
    lw->out->n_params = lw->out->cap_params = n;
    return DV_OK;
}

static dv_status copy_tensors(dv_lowering *lw)
{
    for (int i = 0; i < lw->src->n_tensors; i++) {
        dv_tensor t = lw->src->tensors[i];
        dv_arena *a = &lw->out->arena;
        t.name = dv_arena_copy(a, t.name, strlen(t.name));
        t.shape = dv_arena_grow(a, t.shape, (size_t)t.n_dims, (size_t)t.n_dims,
                                sizeof *t.shape);
        if (t.place)
            t.place = dv_arena_grow(a, t.place, 1, 1, sizeof *t.place);
        if (t.memory)
            t.memory = dv_arena_grow(a, t.memory, 1, 1, sizeof *t.memory);
        if (t.file)
            t.file = dv_arena_copy(a, t.file, strlen(t.file));
        if (!t.name || !t.shape || (lw->src->tensors[i].place && !t.place) ||
            (lw->src->tensors[i].memory && !t.memory) ||
            (lw->src->tensors[i].file && !t.file) ||
            dv_program_add_tensor(lw->out, &t) < 0)
            return dv_nomem(lw->diag);
    }
    return DV_OK;
}

// Copies variable names into the new program, since they still point into the
// source program.
static dv_status own_names(dv_lowering *lw)
{
    for (int i = 0; i < lw->out->n_ops; i++) {
        // The cast removes const from an array that this lowering has allocated
        // itself.
        dv_var *vars = (dv_var *)lw->out->ops[i].vars;
        for (int v = 0; v < lw->out->ops[i].n_vars; v++) {
            vars[v].name = dv_arena_copy(&lw->out->arena, vars[v].name,
                                         strlen(vars[v].name));
            if (!vars[v].name)
                return dv_nomem(lw->diag);
        }
    }
    return DV_OK;
}

static dv_status lower_all(dv_lowering *lw)
{
    const dv_program *src = lw->src;
    dv_program *out = lw->out;
    out->src.name =
        dv_arena_copy(&out->arena, src->src.name, strlen(src->src.name));
    out->src.text = dv_arena_copy(&out->arena, src->src.text, src->src.len);
    out->src.len = src->src.len;
    int32_t *start = DV_NEW(&out->arena, int32_t, src->n_ops + 1);
    lw->n_temps = DV_NEW(&out->arena, int32_t, src->n_tensors);
    out->repeats = DV_NEW(&out->arena, dv_repeat, src->n_repeats);
    if (!out->src.name || !out->src.text || !start || !lw->n_temps ||
        !out->repeats)
        return dv_nomem(lw->diag);
    DV_TRY(copy_params(lw));
    DV_TRY(copy_tensors(lw));
    for (int i = 0; i < src->n_ops; i++) {
        start[i] = out->n_ops;
        if (!lw->live || lw->live[i])
            DV_TRY(lower_op(lw, &src->ops[i]));
    }
    start[src->n_ops] = out->n_ops;
    out->cap_repeats = src->n_repeats;
    for (int i = 0; i < src->n_repeats; i++) {
        dv_repeat r = src->repeats[i];
        r.first_op = start[r.first_op];
        r.end_op = start[r.end_op];
        // A repeat whose ops were all left out is left out too.
        if (r.first_op < r.end_op)
            out->repeats[out->n_repeats++] = r;
    }
    DV_TRY(own_names(lw));
    int32_t *new_of;
    DV_TRY(dv_program_renumber(out, &new_of, lw->diag));
    return dv_program_name_ops(out, lw->diag);
}

dv_status dv_program_lower(dv_program **out, const dv_program *p, dv_grain g,
                           dv_diag *diag)
{
    return dv_program_lower_for(out, p, g, 1, 0, NULL, diag);
}

dv_status dv_program_lower_for(dv_program **out, const dv_program *p,
                               dv_grain g, int packs, int stored,
                               const unsigned char *live, dv_diag *diag)
{
    dv_lowering lw = {.src = p,
                      .out = dv_program_new(),
                      .diag = diag,
                      .grain = g,
                      .packs = packs,
                      .stored = stored,
                      .live = live};
    if (!lw.out)
        return dv_nomem(diag);
    lw.out->grain = g;
    dv_status st = lower_all(&lw);
    if (st == DV_OK)
        *out = lw.out;
    else
        dv_program_destroy(lw.out);
    return st;
}
