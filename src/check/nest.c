// The checker's rules for loops over reduction variables. It shares no code
// with nest/.
//
//   C22 an op with loops is a sum of products of two reads, on the machine
//       divvy runs on; its loop levels cover every point of the reduction
//       variables once; kernel levels are innermost, at most one per variable;
//       if the kernel accumulates in vector lanes (`dot`), the last level has
//       stride 1 in both factors; matrix instructions (`pairs`) need a target
//       that has them, factors of bf16, or of i8 summed in i32, and all
//       of k in the kernel except tiles of the first variable
#include "base/dtype.h"
#include "base/math.h"
#include "check/check.h"
#include <inttypes.h>

#define WRONG(...)                                                             \
    return DV_BREAKS(diag, C22, s->off ? dv_plan_at(plan, s->off) : at,        \
                     __VA_ARGS__)

// Finds the two factors of the op's sum of products. Returns 0 if the op is no
// sum of products of two reads.
static int factors_of(const dv_op *o, const dv_access *of[2])
{
    const dv_expr *sum = o->is_extern ? NULL : dv_op_reduce(o);
    if (!sum || (sum->fn != DV_RED_SUM && sum->fn != DV_RED_MEAN))
        return 0;
    const dv_expr *product = sum->arg[0];
    if (product->kind != DV_EXPR_APPLY || product->fn != DV_FN_MUL)
        return 0;
    for (int i = 0; i < 2; i++) {
        if (product->arg[i]->kind != DV_EXPR_READ)
            return 0;
        of[i] = &o->reads[product->arg[i]->read];
    }
    return 1;
}

// Returns whether variable v has a stride of one element in the access.
static int has_unit_stride(const dv_program *p, const dv_access *a, int v)
{
    const dv_tensor *t = &p->tensors[a->tensor];
    int64_t elems = 0, row = 1, part;
    for (int d = a->n_dims - 1; d >= 0; d--) {
        if (!dv_mul_i64(&part, a->index[d].coef[v], row) ||
            !dv_add_i64(&elems, elems, part))
            return 0;
        row *= t->shape[d]; // no overflow: the tensor's element count fits in
                            // int64_t
    }
    return elems == 1;
}

// Checks that the loop levels of variable v cover all its points exactly once.
// Levels are nested tiles; only the outermost may have a partial last tile, and
// it may not be empty.
static dv_status check_variable(const dv_plan *plan, const dv_sum_order *s,
                                int v, dv_loc at, dv_diag *diag)
{
    const dv_op *o = &plan->ops->ops[s->op];
    int64_t len = o->vars[v].end - o->vars[v].begin, inner = 1, reach = 1;
    int inside = 0;
    for (int32_t i = s->n_levels - 1; i >= 0; i--) {
        if (s->levels[i].var != v)
            continue;
        inner = reach;
        inside += s->levels[i].inside != 0;
        if (!dv_mul_i64(&reach, reach, s->levels[i].size))
            WRONG("the loops of %s over %s have more than 64 bits", o->name,
                  o->vars[v].name);
    }
    if (inside > 1)
        WRONG("%d loops of %s over %s are inside the kernel, which has one",
              inside, o->name, o->vars[v].name);
    if (reach < len)
        WRONG("the loops of %s go over %" PRId64 " of %s, which has %" PRId64,
              o->name, reach, o->vars[v].name, len);
    if (reach > len && reach - inner >= len)
        WRONG("the loops of %s go over %s, which has %" PRId64
              ", in tiles of %" PRId64 ": the last of %" PRId64 " is empty",
              o->name, o->vars[v].name, len, inner, reach / inner);
    return DV_OK;
}

static dv_status check_sums(const dv_plan *plan, const dv_sum_order *s,
                            dv_loc at, dv_diag *diag)
{
    const dv_op *o = &plan->ops->ops[s->op];
    const dv_access *factor[2] = {NULL, NULL};
    if (!factors_of(o, factor))
        WRONG("op %s has loops, but is no sum of products of two reads",
              o->name);
    for (int v = 0; v < o->n_vars; v++)
        if (o->vars[v].reduce)
            DV_TRY(check_variable(plan, s, v, at, diag));
    for (int32_t i = 1; i < s->n_levels; i++)
        if (s->levels[i - 1].inside && !s->levels[i].inside)
            WRONG("op %s has a loop over %s inside the kernel", o->name,
                  o->vars[s->levels[i].var].name);
    if (!s->dot)
        return DV_OK;
    if (s->n_levels == 0 || !s->levels[s->n_levels - 1].inside)
        WRONG("op %s sums in lanes, but nothing is in the kernel", o->name);
    int last = s->levels[s->n_levels - 1].var;
    for (int i = 0; i < 2; i++)
        if (!has_unit_stride(plan->ops, factor[i], last))
            WRONG("op %s sums in lanes along %s, which is not side by side in "
                  "%s",
                  o->name, o->vars[last].name,
                  plan->ops->tensors[factor[i]->tensor].name);
    return DV_OK;
}

static dv_status check_pairs(const dv_plan *plan, const dv_sum_order *s,
                             dv_loc at, dv_diag *diag)
{
    const dv_program *p = plan->ops;
    const dv_op *o = &p->ops[s->op];
    const dv_access *factor[2] = {NULL, NULL};
    factors_of(o, factor);
    dv_dtype t = p->tensors[factor[0]->tensor].dtype;
    dv_dtype u = p->tensors[factor[1]->tensor].dtype;
    dv_dtype out = p->tensors[o->write.tensor].dtype;
    if (!plan->target.matrix)
        WRONG("%s has no instructions for the matrices of %s",
              plan->target.name, o->name);
    dv_compute_type in = dv_op_compute(p, o);
    int halves = t == DV_BF16 && in == DV_IN_F32;
    int whole =
        t == DV_I8 &&
        (in == DV_IN_F32 ? dv_is_float(out) || out == t
                         : in == DV_IN_I64 && (out == DV_I32 || out == t));
    int64_t n = dv_op_points(o, dv_op_reduce(o)->vars);
    int64_t most = INT32_MAX / (128 * 128); // largest number of i8 products
                                            // whose sum surely fits in i32
    if (whole && n > most)
        WRONG("op %s sums %" PRId64 " products of i8, %" PRId64
              " are sure to fit i32",
              o->name, n, most);
    if (t != u || (!halves && !whole))
        WRONG("op %s makes %s of %s and %s, matrices are of bf16 summed in "
              "f32, or of i8 in i32",
              o->name, dv_dtype_get(out)->name, dv_dtype_get(t)->name,
              dv_dtype_get(u)->name);
    for (int32_t i = 0; i < s->n_levels; i++)
        if (!s->levels[i].inside &&
            (i > 0 || s->n_levels < 2 || !s->levels[1].inside ||
             s->levels[1].var != s->levels[0].var))
            WRONG("op %s has a loop over %s around its matrices", o->name,
                  o->vars[s->levels[i].var].name);
    return DV_OK;
}

dv_status dv_check_nest(const dv_plan *plan, dv_loc at, dv_diag *diag)
{
    if (!(plan->facts & DV_FACT_LOOPED))
        return DV_OK;
    for (int32_t i = 0; i < plan->n_sums; i++) {
        const dv_sum_order *s = &plan->sums[i];
        if (!plan->target.here)
            WRONG("%s is simulated and has no loops", plan->target.name);
        DV_TRY(check_sums(plan, s, at, diag));
        if (s->pairs)
            DV_TRY(check_pairs(plan, s, at, diag));
    }
    return DV_OK;
}
