// The pass `loops` and its section of the plan: the order in which the products
// that run on this machine are summed, as explained in sums.h.
//
//   nest {
//       0: outer { # c
//           k   2 seq
//           k 512 of 1024 prim
//       }
//   }
//
// Plans for other machines are only simulated and have no such section.
#include "nest/sums.h"
#include "base/math.h"
#include <inttypes.h>

dv_status dv_loops_run(dv_pass_cx *cx, dv_plan *plan)
{
    dv_sums_machine machine = dv_sums_machine_of(&plan->target);
    int32_t n_ops = plan->ops->n_ops;
    plan->n_sums = 0;
    if (!plan->target.here)
        return DV_OK;
    plan->sums = DV_NEW(&plan->arena, dv_sum_order, n_ops);
    if (!plan->sums && n_ops)
        return dv_nomem(cx->diag);
    for (int32_t i = 0; i < n_ops; i++) {
        int found;
        if (!dv_sums_worth_gemm(plan->ops, &plan->ops->ops[i]))
            continue;
        DV_TRY(dv_sums_choose(&plan->sums[plan->n_sums], &found, plan->ops, i,
                              &machine, &plan->arena, cx->diag));
        plan->n_sums += found;
    }
    return DV_OK;
}

static dv_status level_wrong(const dv_plan *plan, const dv_sum_order *s,
                             int32_t i, dv_diag *diag)
{
    const dv_op *o = &plan->ops->ops[s->op];
    const dv_sum_level *l = &s->levels[i];
    dv_loc at = dv_plan_at(plan, s->off);
    if (l->var < 0 || l->var >= o->n_vars || !o->vars[l->var].reduce)
        return dv_fail(diag, DV_E_NAME, at,
                       "level %d of %s is no variable that it sums over",
                       (int)i, o->name);
    if (l->size < 1 || l->size > o->vars[l->var].end - o->vars[l->var].begin)
        return dv_fail(diag, DV_E_SHAPE, at,
                       "level %d of %s has size %" PRId64 ", %s has %" PRId64,
                       (int)i, o->name, l->size, o->vars[l->var].name,
                       o->vars[l->var].end - o->vars[l->var].begin);
    if (i && s->levels[i - 1].inside && !l->inside)
        return dv_fail(diag, DV_E_SHAPE, at,
                       "level %d of %s is a loop, level %d is in the kernel",
                       (int)i, o->name, (int)i - 1);
    return DV_OK;
}

// Verifies what later code relies on to read the section `nest` of a plan (its
// orders of summation): op numbers, their order and the levels. The plan
// checker (check/) proves all other properties.
dv_status dv_loops_verify(const dv_plan *plan, dv_diag *diag)
{
    for (int32_t i = 0; i < plan->n_sums; i++) {
        const dv_sum_order *s = &plan->sums[i];
        dv_loc at = dv_plan_at(plan, s->off);
        if (s->op < 0 || s->op >= plan->ops->n_ops ||
            (i && s->op <= plan->sums[i - 1].op))
            return dv_fail(diag, DV_E_SHAPE, at,
                           "loops of op %d: there are %d ops, in order",
                           (int)s->op, (int)plan->ops->n_ops);
        if (s->n_levels > 2 * DV_MAX_VARS)
            return dv_fail(diag, DV_E_LIMIT, at,
                           "op %d has %d levels, %d are possible", (int)s->op,
                           (int)s->n_levels, 2 * (int)DV_MAX_VARS);
        for (int32_t k = 0; k < s->n_levels; k++)
            DV_TRY(level_wrong(plan, s, k, diag));
    }
    return DV_OK;
}

// Returns whether loop level i is inside the tiles of an earlier level, that is
// whether both are levels of the same variable.
static int is_tile(const dv_sum_order *s, int32_t i)
{
    for (int32_t k = 0; k < i; k++)
        if (s->levels[k].var == s->levels[i].var)
            return 1;
    return 0;
}

void dv_loops_print(dv_text *out, const dv_plan *plan)
{
    if (!plan->n_sums)
        return;
    dv_put(out, "nest {\n");
    for (int32_t i = 0; i < plan->n_sums; i++) {
        const dv_sum_order *s = &plan->sums[i];
        const dv_op *o = &plan->ops->ops[s->op];
        dv_put(out, "    %d: %s { # %s\n", (int)s->op,
               s->dot     ? "dot"
               : s->pairs ? "pairs"
                          : "outer",
               o->name);
        for (int32_t k = 0; k < s->n_levels; k++) {
            const dv_var *v = &o->vars[s->levels[k].var];
            dv_put(out, "        %s %" PRId64, v->name, s->levels[k].size);
            if (is_tile(s, k))
                dv_put(out, " of %" PRId64, v->end - v->begin);
            dv_put(out, " %s\n", s->levels[k].inside ? "prim" : "seq");
        }
        dv_put(out, "    }\n");
    }
    dv_put(out, "}\n");
}

static dv_status read_level(dv_plan *plan, dv_lexer *lx, dv_sum_order *s,
                            int32_t *cap)
{
    const dv_op *o = &plan->ops->ops[s->op];
    char buf[48];
    int64_t whole;
    dv_sum_level *l =
        DV_PUSH(&plan->arena, dv_sum_level, s->levels, s->n_levels, *cap);
    if (!l)
        return dv_nomem(lx->diag);
    *l = (dv_sum_level){.var = -1};
    for (int v = 0; v < o->n_vars && l->var < 0; v++)
        if (o->vars[v].reduce && dv_lex_is(lx, o->vars[v].name))
            l->var = v;
    if (l->var < 0)
        return dv_fail(lx->diag, DV_E_NAME, dv_lex_at(lx),
                       "%s is no variable that %s sums over",
                       dv_lex_show(lx, buf), o->name);
    DV_TRY(dv_lex(lx));
    DV_TRY(dv_lex_int(lx, &l->size, "the size of the level"));
    if (is_tile(s, s->n_levels - 1)) {
        const dv_var *v = &o->vars[l->var];
        DV_TRY(dv_lex_word(lx, "of"));
        dv_loc at = dv_lex_at(lx);
        DV_TRY(dv_lex_int(lx, &whole, "the size of the variable"));
        if (whole != v->end - v->begin)
            return dv_fail(lx->diag, DV_E_SHAPE, at,
                           "%s has %" PRId64 ", not %" PRId64, v->name,
                           v->end - v->begin, whole);
    }
    l->inside = dv_lex_is(lx, "prim");
    return dv_lex_word(lx, l->inside ? "prim" : "seq");
}

static dv_status read_sums(dv_plan *plan, dv_lexer *lx, dv_sum_order *s)
{
    int64_t op;
    int32_t cap = 0;
    *s = (dv_sum_order){.off = lx->tok.off};
    dv_loc at = dv_lex_at(lx);
    DV_TRY(dv_lex_int(lx, &op, "the number of an op"));
    if (op < 0 || op >= plan->ops->n_ops)
        return dv_fail(lx->diag, DV_E_SHAPE, at,
                       "loops of op %" PRId64 ": there are %d ops", op,
                       (int)plan->ops->n_ops);
    s->op = (int32_t)op;
    DV_TRY(dv_lex_expect(lx, ':', "':'"));
    s->dot = dv_lex_is(lx, "dot");
    s->pairs = dv_lex_is(lx, "pairs");
    DV_TRY(dv_lex_word(lx, s->dot ? "dot" : s->pairs ? "pairs" : "outer"));
    DV_TRY(dv_lex_expect(lx, '{', "'{'"));
    while (lx->tok.kind != '}')
        DV_TRY(read_level(plan, lx, s, &cap));
    return dv_lex(lx);
}

dv_status dv_loops_read(dv_plan *plan, dv_lexer *lx)
{
    int32_t cap = 0;
    DV_TRY(dv_lex_expect(lx, '{', "'{'"));
    while (lx->tok.kind != '}') {
        dv_sum_order *s =
            DV_PUSH(&plan->arena, dv_sum_order, plan->sums, plan->n_sums, cap);
        if (!s)
            return dv_nomem(lx->diag);
        DV_TRY(read_sums(plan, lx, s));
    }
    DV_TRY(dv_lex(lx));
    return dv_loops_verify(plan, lx->diag);
}
