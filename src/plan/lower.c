// Pass lower: splits the program's statements into ops, as large as the target
// can run one (its grain), and removes those that reach no output. Its section
// of a plan is the lowered program:
//
//   program primitive {
//       input x: f16[512, 1024]
//       m[j]: f16 = max[i] x[i,j]
//       output m
//   }
#include "plan/source.h"
#include <string.h>

// Lists the ops of the source that are not live, for reports.
static int list_removed(dv_plan *plan, const dv_program *p,
                        const unsigned char *live)
{
    int ok = 1;
    plan->n_removed = 0;
    plan->removed = DV_NEW(&plan->arena, const char *, p->n_ops);
    for (int32_t i = 0; i < p->n_ops && plan->removed && ok; i++)
        if (!live[i]) {
            const char *name = dv_arena_copy(&plan->arena, p->ops[i].name,
                                             strlen(p->ops[i].name));
            plan->removed[plan->n_removed++] = name;
            ok = name != NULL;
        }
    return plan->removed && ok;
}

dv_status dv_lower_run(dv_pass_cx *cx, dv_plan *plan)
{
    unsigned char *live = dv_alloc((size_t)cx->source->n_ops);
    dv_status st = live && dv_program_find_live(cx->source, live) &&
                           list_removed(plan, cx->source, live)
                       ? DV_OK
                       : dv_nomem(cx->diag);
    if (st == DV_OK)
        st = dv_program_lower_for(&plan->ops, cx->source, plan->target.grain,
                                  dv_target_packs(&plan->target),
                                  plan->target.intermediates_stored, live,
                                  cx->diag);
    dv_release(live);
    return st;
}

dv_status dv_lower_verify(const dv_plan *plan, dv_diag *diag)
{
    return dv_program_verify(plan->ops, 0, diag);
}

void dv_lower_print(dv_text *out, const dv_plan *plan)
{
    dv_put(out, "program %s {\n",
           plan->ops->grain == DV_GRAIN_PRIMITIVE ? "primitive" : "fused");
    dv_program_print(out, plan->ops, 4);
    dv_put(out, "}\n");
}

static dv_status read_into(dv_program *p, dv_lexer *lx)
{
    dv_diag *diag = lx->diag;
    if (dv_lex_is(lx, "primitive"))
        p->grain = DV_GRAIN_PRIMITIVE;
    else if (dv_lex_is(lx, "fused"))
        p->grain = DV_GRAIN_FUSED;
    else
        return dv_fail(diag, DV_E_SYNTAX, dv_lex_at(lx),
                       "expected the grain, 'primitive' or 'fused'");
    DV_TRY(dv_lex(lx));
    return dv_program_read_block(p, lx);
}

dv_status dv_program_read_block(dv_program *p, dv_lexer *lx)
{
    dv_diag *diag = lx->diag;
    DV_TRY(dv_lex_expect(lx, '{', "'{'"));
    p->src.name =
        dv_arena_copy(&p->arena, lx->src->name, strlen(lx->src->name));
    p->src.text = dv_arena_copy(&p->arena, lx->src->text, lx->src->len);
    p->src.len = lx->src->len;
    if (!p->src.name || !p->src.text)
        return dv_nomem(diag);
    DV_TRY(dv_parse_block(&p->ast, lx, &p->arena));
    DV_TRY(dv_lex_expect(lx, '}', "a statement or '}'"));
    DV_TRY(dv_program_build(p, NULL, 0, diag));
    // The AST is no longer needed, since the program has been resolved to ops.
    p->ast = (dv_ast){0};
    return dv_program_verify(p, 0, diag);
}

dv_status dv_lower_read(dv_plan *plan, dv_lexer *lx)
{
    dv_program *p = dv_program_new();
    if (!p)
        return dv_nomem(lx->diag);
    dv_status st = read_into(p, lx);
    if (st == DV_OK)
        plan->ops = p;
    else
        dv_program_destroy(p);
    return st;
}
