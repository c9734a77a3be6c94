// The checker's rule for points that ops leave out:
//
//   C38 what the ops of a group skip (`skip j from i + 1 by 128`) changes no
//       result: all ops of the group that skip do so from the same distance
//       and by the same steps; tiles do not cut j, i is not reduced, both begin
//       at 0. If the op reduces j, every skipped operand of the reducer
//       is its identity: -inf of a maximum, 0 of a sum, or 0 times a factor
//       that the guard `finite` tests, of f32, which no op of the group writes.
//       If the op writes j, the result is kept for one tile, and all its
//       readers skip the same elements
//
// A point is skipped where j is at least i + from. What an expression is there
// follows from the expression alone, by a walk from readers to writers.
#include "check/check.h"
#include <math.h>

// What is known of a value at skipped points. SHIFTED and FADED are what a
// softmax makes of -inf: an element minus the maximum of its row, and exp of
// that. They are -inf and 0, unless the whole row is nan, also at points that
// are computed; for that the maximum must have the row's dtype.
typedef enum known { UNKNOWN, EXACT, SHIFTED, FADED } known;

typedef struct fact {
    known what;
    double value; // if EXACT
} fact;

// An op of a group, with the variables of the skipped region j >= i + from.
typedef struct scope {
    const dv_plan *plan;
    const dv_group *g;
    const dv_op *o;
    int32_t j, i;
    int64_t from;
} scope;

static const fact no_fact = {UNKNOWN, 0};

// Returns the variable if the index is a variable alone; -1: it is anything
// else.
static int alone(const dv_op *o, const dv_index *x)
{
    int v = dv_check_var(o, x);
    return v >= 0 && x->via < 0 && x->base == 0 && x->coef[v] == 1 ? v : -1;
}

// Returns the only op of the group that writes a tensor; NULL: none, or several
// do.
static const dv_op *writer_in(const scope *s, int32_t tensor)
{
    const dv_op *found = NULL;
    int n = 0;
    for (int32_t k = s->g->first_op; k < s->g->end_op; k++)
        if (s->plan->ops->ops[k].write.tensor == tensor) {
            found = &s->plan->ops->ops[k];
            n++;
        }
    return n == 1 && !found->is_extern && !found->update ? found : NULL;
}

// Evaluates a comparison of the skipped region's variables i and j at points
// where j = i + apart.
static int compare(const scope *s, const dv_expr *e, int64_t apart)
{
    int64_t side[2];
    for (int k = 0; k < 2; k++)
        side[k] = e->arg[k]->base + (e->arg[k]->read == s->j ? apart : 0);
    return e->fn == DV_FN_LT   ? side[0] < side[1]
           : e->fn == DV_FN_LE ? side[0] <= side[1]
           : e->fn == DV_FN_GT ? side[0] > side[1]
                               : side[0] >= side[1];
}

// Returns the value of a condition in the whole region; -1: it is true at some
// of its points and false at others. A comparison of i and j changes at most
// once as j grows, so that it holds in the whole region if it has the same
// value at its border and far inside.
static int holds(const scope *s, const dv_expr *e)
{
    const int64_t far = INT64_C(1) << 40;
    if (e->kind != DV_EXPR_APPLY || e->n_args != 2 ||
        (e->fn != DV_FN_LT && e->fn != DV_FN_LE && e->fn != DV_FN_GT &&
         e->fn != DV_FN_GE))
        return -1;
    for (int k = 0; k < 2; k++)
        if (e->arg[k]->kind != DV_EXPR_INDEX || e->arg[k]->base > far / 4 ||
            e->arg[k]->base < -far / 4)
            return -1;
    int32_t a = e->arg[0]->read, b = e->arg[1]->read;
    if (!(a == s->j && b == s->i) && !(a == s->i && b == s->j))
        return -1;
    int near = compare(s, e, s->from);
    return near == compare(s, e, far) ? near : -1;
}

// Sets *to to the op of the group that writes the tensor which `a` reads, with
// the variables i and j of that op. Returns 0 if there is none, or if elements
// read in the region j >= i + from are not those written in that op's region.
static int enter(scope *to, const scope *s, const dv_access *a)
{
    const dv_op *w = writer_in(s, a->tensor);
    *to = (scope){s->plan, s->g, w, -1, -1, s->from};
    for (int d = 0; w && d < a->n_dims; d++) {
        int mine = alone(s->o, &a->index[d]);
        int its = alone(w, &w->write.index[d]);
        if (mine == s->j)
            to->j = to->j < 0 ? its : -1;
        else if (mine == s->i)
            to->i = to->i < 0 ? its : -1;
    }
    return w && !a->has_border && to->j >= 0 && to->i >= 0;
}

// Returns whether `row` reads the result of an op of the group that reduces,
// with `reducer` over j, the whole row of which `of` reads one element.
static int reduces_row(const scope *s, const dv_expr *row, const dv_expr *of,
                       dv_reducer reducer)
{
    if (row->kind != DV_EXPR_READ || of->kind != DV_EXPR_READ)
        return 0;
    const dv_access *r = &s->o->reads[row->read], *e = &s->o->reads[of->read];
    const dv_op *w = writer_in(s, r->tensor);
    const dv_expr *body = w ? w->body : NULL;
    if (!w || body->kind != DV_EXPR_REDUCE || body->fn != reducer ||
        body->arg[0]->kind != DV_EXPR_READ || r->has_border || e->has_border)
        return 0;
    const dv_access *all = &w->reads[body->arg[0]->read];
    const dv_tensor *tensors = s->plan->ops->tensors;
    // A maximum that is rounded could be infinite, a sum 0, while no element of
    // the row is.
    if (all->tensor != e->tensor || all->has_border ||
        tensors[r->tensor].dtype != tensors[e->tensor].dtype)
        return 0;
    uint32_t reduced = 0;
    for (int d = 0; d < e->n_dims; d++) {
        int mine = alone(s->o, &e->index[d]), its = alone(w, &all->index[d]);
        if (mine < 0 || its < 0)
            return 0;
        if (mine == s->j) {
            reduced |= 1u << its;
            continue;
        }
        int same = 0;
        for (int k = 0; k < r->n_dims; k++)
            same |= alone(w, &w->write.index[k]) == its &&
                    alone(s->o, &r->index[k]) == mine;
        if (!same)
            return 0;
    }
    return reduced == body->vars;
}

// Derives what is known of an expression in the skipped region; `depth` limits
// the recursion into the ops that write what it reads.
static fact fact_of(const scope *s, const dv_expr *e, int depth)
{
    scope inner;
    if (e->kind == DV_EXPR_CONST)
        return (fact){EXACT, e->value};
    if (e->kind == DV_EXPR_READ)
        return depth > 0 && enter(&inner, s, &s->o->reads[e->read])
                   ? fact_of(&inner, inner.o->body, depth - 1)
                   : no_fact;
    if (e->kind != DV_EXPR_APPLY)
        return no_fact;
    if (e->fn == DV_FN_SELECT) {
        int is = holds(s, e->arg[0]);
        return is < 0 ? no_fact : fact_of(s, e->arg[is ? 1 : 2], depth);
    }
    fact x = fact_of(s, e->arg[0], depth);
    switch ((int)e->fn) {
    case DV_FN_MUL: {
        // The product is exact in every type if one factor is 0 or an infinity
        // and the other one is neither, not even when rounded to f16.
        fact y = fact_of(s, e->arg[1], depth);
        double z = x.value * y.value;
        double factor = isinf(x.value) || x.value == 0 ? y.value : x.value;
        return x.what == EXACT && y.what == EXACT && (isinf(z) || z == 0) &&
                       fabs(factor) > 1e-4 && fabs(factor) < 6e4
                   ? (fact){EXACT, z}
                   : no_fact;
    }
    case DV_FN_SUB:
        return x.what == EXACT && isinf(x.value) && x.value < 0 &&
                       reduces_row(s, e->arg[1], e->arg[0], DV_RED_MAX)
                   ? (fact){SHIFTED, 0}
                   : no_fact;
    case DV_FN_EXP:
        return x.what == SHIFTED ? (fact){FADED, 0} : no_fact;
    case DV_FN_DIV:
        return x.what == FADED &&
                       reduces_row(s, e->arg[1], e->arg[0], DV_RED_SUM)
                   ? x
                   : no_fact;
    default:
        return no_fact;
    }
}

enum { DEPTH = 8 };

static int is_zero(fact x)
{
    return x.what == FADED || (x.what == EXACT && x.value == 0);
}

// Returns whether a product in a sum is 0 in the skipped region: one factor is
// 0, and the other is finite because the guard in the plan tests it.
static int product_is_zero(const scope *s, const dv_expr *e, int guarded)
{
    if (!guarded || e->kind != DV_EXPR_APPLY || e->fn != DV_FN_MUL)
        return 0;
    for (int k = 0; k < 2; k++) {
        const dv_expr *other = e->arg[!k];
        if (other->kind != DV_EXPR_READ ||
            !is_zero(fact_of(s, e->arg[k], DEPTH)))
            continue;
        const dv_access *a = &s->o->reads[other->read];
        int written = a->has_border;
        for (int32_t i = s->g->first_op; i < s->g->end_op; i++)
            written |= s->plan->ops->ops[i].write.tensor == a->tensor;
        for (int d = 0; d < a->n_dims; d++)
            written |= a->index[d].via >= 0;
        if (!written && s->plan->ops->tensors[a->tensor].dtype == DV_F32)
            return 1;
    }
    return 0;
}

// Returns whether the op's reduction does not change by leaving out the skipped
// points, because the operand there is the reducer's identity.
static int reduces_identity(const scope *s, const dv_op_schedule *as)
{
    const dv_expr *r = dv_op_reduce(s->o);
    int guarded = as->guard == DV_GUARD_FINITE;
    if (!r || !(r->vars >> s->j & 1))
        return 0;
    fact x = fact_of(s, r->arg[0], DEPTH);
    if (r->fn == DV_RED_MAX)
        return x.what == EXACT && isinf(x.value) && x.value < 0;
    return (r->fn == DV_RED_SUM || r->fn == DV_RED_MEAN) &&
           (is_zero(x) || product_is_zero(s, r->arg[0], guarded));
}

// Returns an op that reads skipped elements of the tensor that `s` writes
// without skipping them itself; NULL: there is none.
static const dv_op *other_reader(const scope *s, const dv_skip *skip)
{
    for (int32_t k = 0; k < s->plan->ops->n_ops; k++) {
        const dv_op *o = &s->plan->ops->ops[k];
        const dv_skip *its = &s->plan->schedule.ops[k].skip;
        for (int r = 0; r < o->n_reads; r++) {
            const dv_access *a = &o->reads[r];
            int apart = !its->by || its->by != skip->by ||
                        its->from != skip->from || k < s->g->first_op ||
                        k >= s->g->end_op || a->has_border;
            if (a->tensor != s->o->write.tensor)
                continue;
            for (int d = 0; d < a->n_dims && !apart; d++) {
                int v = alone(s->o, &s->o->write.index[d]);
                int its_v = alone(o, &a->index[d]);
                apart |= v == s->j && its_v != its->var;
                apart |= v == s->i && its_v != its->with;
            }
            if (apart)
                return o;
        }
    }
    return NULL;
}

// Returns whether variable v is the index of a dim of what the op writes.
static int is_dim(const dv_op *o, int32_t v)
{
    for (int d = 0; d < o->write.n_dims; d++)
        if (alone(o, &o->write.index[d]) == v)
            return 1;
    return 0;
}

static int is_kept(const dv_plan *plan, int32_t tensor)
{
    for (int32_t i = 0; i < plan->schedule.n_temps; i++)
        if (plan->schedule.temps[i].tensor == tensor)
            return 1;
    return 0;
}

// Returns whether another op of the group skips from another distance `from`,
// or by other steps `by`.
static int differs(const dv_plan *plan, const dv_group *g, const dv_skip *s)
{
    for (int32_t i = g->first_op; i < g->end_op; i++) {
        const dv_skip *other = &plan->schedule.ops[i].skip;
        if (other->by && (other->by != s->by || other->from != s->from))
            return 1;
    }
    return 0;
}

dv_status dv_check_skip(const dv_plan *plan, int32_t op, dv_loc at,
                        dv_diag *diag)
{
    const dv_op *o = &plan->ops->ops[op];
    const dv_op_schedule *as = &plan->schedule.ops[op];
    const dv_skip *k = &as->skip;
    const dv_group *g = &plan->groups[dv_group_of(plan, op)];
    at = as->off ? dv_plan_at(plan, as->off) : at;
    if (as->guard == DV_GUARD_FINITE && !k->by)
        return DV_BREAKS(diag, C38, at, "op %s is guarded, but skips nothing",
                         o->name);
    if (!k->by)
        return DV_OK;
    if (k->var < 0 || k->with < 0 || k->by < 1 || o->is_extern || o->update ||
        (as->kind != DV_KERNEL_PRODUCT && as->kind != DV_KERNEL_STATEMENT) ||
        (as->guard && as->guard != DV_GUARD_FINITE) || differs(plan, g, k))
        return DV_BREAKS(diag, C38, at, "op %s cannot skip as the plan says",
                         o->name);
    const dv_var *v = &o->vars[k->var], *with = &o->vars[k->with];
    scope s = {plan, g, o, k->var, k->with, k->from};
    if (v->begin || with->begin || with->reduce ||
        plan->slices[op][k->var] < v->end)
        return DV_BREAKS(diag, C38, at, "op %s cannot skip %s by %s", o->name,
                         v->name, with->name);
    if (v->reduce)
        return reduces_identity(&s, as)
                   ? DV_OK
                   : DV_BREAKS(diag, C38, at,
                               "op %s skips %s, which changes its result",
                               o->name, v->name);
    if (!is_dim(o, k->var) || !is_dim(o, k->with) ||
        !is_kept(plan, o->write.tensor))
        return DV_BREAKS(diag, C38, at,
                         "op %s skips elements of %s, which is not kept for "
                         "one tile",
                         o->name, plan->ops->tensors[o->write.tensor].name);
    const dv_op *other = other_reader(&s, k);
    return other ? DV_BREAKS(diag, C38, at,
                             "op %s skips elements of %s that %s reads",
                             o->name, plan->ops->tensors[o->write.tensor].name,
                             other->name)
                 : DV_OK;
}
