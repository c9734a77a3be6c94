// Pass group: which ops run together, in which tiles, on which cores. As long
// as no level divides, that is one group per op, one tile, on core 0.
//
//   groups {
//       group ops 0..1 tiles 2 {   # m
//           slice 0: j 512
//           core 0: 0..1
//           core 1: 1..2
//       }
//   }
//
// A variable that `slice` does not name is whole.
#include "base/math.h"
#include "plan/plan.h"
#include <inttypes.h>
#include <string.h>

int64_t dv_plan_n_tiles(const dv_plan *plan, int32_t op)
{
    const dv_op *o = &plan->ops->ops[op];
    int64_t n = 1;
    for (int v = 0; v < o->n_vars; v++) {
        int64_t len = o->vars[v].end - o->vars[v].begin;
        if (!dv_mul_i64(&n, n, dv_ceil_div(len, plan->slices[op][v])))
            return 0;
    }
    return n;
}

// -- Running -----------------------------------------------------------------

// Every op whole.
static dv_status whole_slices(dv_plan *plan, dv_diag *diag)
{
    const dv_program *p = plan->ops;
    plan->slices = DV_NEW(&plan->arena, int64_t *, p->n_ops);
    if (!plan->slices)
        return dv_nomem(diag);
    for (int i = 0; i < p->n_ops; i++) {
        const dv_op *op = &p->ops[i];
        plan->slices[i] = DV_NEW(&plan->arena, int64_t, op->n_vars);
        if (!plan->slices[i])
            return dv_nomem(diag);
        for (int v = 0; v < op->n_vars; v++)
            plan->slices[i][v] = op->vars[v].end - op->vars[v].begin;
    }
    return DV_OK;
}

dv_status dv_group_run(dv_pass_cx *cx, dv_plan *plan)
{
    int32_t n = plan->ops->n_ops;
    DV_TRY(whole_slices(plan, cx->diag));
    plan->groups = DV_NEW(&plan->arena, dv_group, n);
    dv_deal *deals = DV_NEW(&plan->arena, dv_deal, n);
    if (!plan->groups || !deals)
        return dv_nomem(cx->diag);
    plan->n_groups = n;
    for (int32_t i = 0; i < n; i++) {
        deals[i] = (dv_deal){.core = 0, .first_tile = 0, .n_tiles = 1};
        plan->groups[i] = (dv_group){.first_op = i,
                                     .end_op = i + 1,
                                     .n_tiles = 1,
                                     .deals = &deals[i],
                                     .n_deals = 1};
    }
    return DV_OK;
}

// -- Verifying ---------------------------------------------------------------

// What reading or running could get wrong that later code relies on. Whether
// the plan is right is the checker's business.
dv_status dv_group_verify(const dv_plan *plan, dv_diag *diag)
{
    for (int32_t i = 0; i < plan->n_groups; i++) {
        const dv_group *g = &plan->groups[i];
        if (g->first_op < 0 || g->end_op > plan->ops->n_ops ||
            g->first_op >= g->end_op)
            return dv_fail(diag, DV_E_SHAPE, dv_plan_at(plan, g->off),
                           "group %d holds ops %d..%d, the program has 0..%d",
                           (int)i, (int)g->first_op, (int)g->end_op,
                           (int)plan->ops->n_ops);
        for (int32_t op = g->first_op; op < g->end_op; op++)
            for (int v = 0; v < plan->ops->ops[op].n_vars; v++)
                if (plan->slices[op][v] < 1)
                    return dv_fail(diag, DV_E_SHAPE, dv_plan_at(plan, g->off),
                                   "op %d: a slice has %" PRId64 " points",
                                   (int)op, plan->slices[op][v]);
    }
    return DV_OK;
}

// -- Printing ----------------------------------------------------------------

static void print_slices(dv_text *out, const dv_plan *plan, int32_t i)
{
    const dv_op *op = &plan->ops->ops[i];
    int first = 1;
    for (int v = 0; v < op->n_vars; v++) {
        if (plan->slices[i][v] == op->vars[v].end - op->vars[v].begin)
            continue;
        if (first)
            dv_put(out, "        slice %d:", (int)i);
        dv_put(out, "%s %s %" PRId64, first ? "" : ",", op->vars[v].name,
               plan->slices[i][v]);
        first = 0;
    }
    if (!first)
        dv_put(out, "\n");
}

void dv_group_print(dv_text *out, const dv_plan *plan)
{
    dv_put(out, "groups {\n");
    for (int32_t i = 0; i < plan->n_groups; i++) {
        const dv_group *g = &plan->groups[i];
        dv_put(out, "    group ops %d..%d tiles %" PRId64 " { #",
               (int)g->first_op, (int)g->end_op, g->n_tiles);
        for (int32_t op = g->first_op; op < g->end_op; op++)
            dv_put(out, " %s", plan->ops->ops[op].name);
        dv_put(out, "\n");
        for (int32_t op = g->first_op; op < g->end_op; op++)
            print_slices(out, plan, op);
        for (int32_t d = 0; d < g->n_deals; d++)
            dv_put(out, "        core %" PRId64 ": %" PRId64 "..%" PRId64 "\n",
                   g->deals[d].core, g->deals[d].first_tile,
                   g->deals[d].first_tile + g->deals[d].n_tiles);
        dv_put(out, "    }\n");
    }
    dv_put(out, "}\n");
}

// -- Reading -----------------------------------------------------------------

static dv_status read_range(dv_lexer *lx, int64_t *begin, int64_t *end)
{
    dv_loc at = dv_lex_at(lx);
    DV_TRY(dv_lex_int(lx, begin, "a number"));
    DV_TRY(dv_lex_expect(lx, DV_TOK_RANGE, "'..'"));
    DV_TRY(dv_lex_int(lx, end, "a number"));
    if (*begin >= *end)
        return dv_fail(lx->diag, DV_E_SHAPE, at,
                       "the range %" PRId64 "..%" PRId64 " is empty", *begin,
                       *end);
    return DV_OK;
}

// `slice 3: i 16, j 4`
static dv_status read_slice(dv_plan *plan, dv_lexer *lx, const dv_group *g)
{
    int64_t op = 0;
    dv_loc at = dv_lex_at(lx);
    DV_TRY(dv_lex_int(lx, &op, "the number of an op"));
    if (op < g->first_op || op >= g->end_op)
        return dv_fail(lx->diag, DV_E_SHAPE, at,
                       "op %" PRId64 " is not in this group (%d..%d)", op,
                       (int)g->first_op, (int)g->end_op);
    const dv_op *o = &plan->ops->ops[op];
    int32_t sep = ':';
    char buf[48];
    do {
        DV_TRY(dv_lex_expect(lx, sep, "':' or ','"));
        sep = ',';
        int v = 0;
        while (v < o->n_vars && !dv_lex_is(lx, o->vars[v].name))
            v++;
        if (v == o->n_vars)
            return dv_fail(lx->diag, DV_E_NAME, dv_lex_at(lx),
                           "op %s has no variable %s", o->name,
                           dv_lex_show(lx, buf));
        DV_TRY(dv_lex(lx));
        at = dv_lex_at(lx);
        DV_TRY(dv_lex_int(lx, &plan->slices[op][v], "the length of a slice"));
        if (plan->slices[op][v] < 1)
            return dv_fail(lx->diag, DV_E_SHAPE, at,
                           "a slice has at least 1 point");
    } while (lx->tok.kind == ',');
    return DV_OK;
}

static dv_status read_group(dv_plan *plan, dv_lexer *lx, dv_group *g)
{
    int64_t begin = 0, end = 0;
    int32_t cap = 0;
    g->off = lx->tok.off;
    DV_TRY(dv_lex_word(lx, "group"));
    DV_TRY(dv_lex_word(lx, "ops"));
    dv_loc at = dv_lex_at(lx);
    DV_TRY(read_range(lx, &begin, &end));
    if (end > plan->ops->n_ops)
        return dv_fail(lx->diag, DV_E_SHAPE, at,
                       "ops %" PRId64 "..%" PRId64 ", the program has 0..%d",
                       begin, end, (int)plan->ops->n_ops);
    g->first_op = (int32_t)begin;
    g->end_op = (int32_t)end;
    DV_TRY(dv_lex_word(lx, "tiles"));
    DV_TRY(dv_lex_int(lx, &g->n_tiles, "the number of tiles"));
    DV_TRY(dv_lex_expect(lx, '{', "'{'"));
    while (lx->tok.kind != '}') {
        if (dv_lex_is(lx, "slice")) {
            DV_TRY(dv_lex(lx));
            DV_TRY(read_slice(plan, lx, g));
            continue;
        }
        DV_TRY(dv_lex_word(lx, "core"));
        dv_deal *d = DV_PUSH(&plan->arena, dv_deal, g->deals, g->n_deals, cap);
        if (!d)
            return dv_nomem(lx->diag);
        DV_TRY(dv_lex_int(lx, &d->core, "the number of a core"));
        DV_TRY(dv_lex_expect(lx, ':', "':'"));
        DV_TRY(read_range(lx, &begin, &end));
        d->first_tile = begin;
        d->n_tiles = end - begin;
    }
    return dv_lex(lx);
}

dv_status dv_group_read(dv_plan *plan, dv_lexer *lx)
{
    int32_t cap = 0;
    DV_TRY(whole_slices(plan, lx->diag));
    DV_TRY(dv_lex_expect(lx, '{', "'{'"));
    while (lx->tok.kind != '}') {
        dv_group *g =
            DV_PUSH(&plan->arena, dv_group, plan->groups, plan->n_groups, cap);
        if (!g)
            return dv_nomem(lx->diag);
        DV_TRY(read_group(plan, lx, g));
    }
    DV_TRY(dv_lex(lx));
    return dv_group_verify(plan, lx->diag);
}
