// Pass lower: splits the program's statements into ops, as large as the target
// can run one (its grain), and removes those that reach no output. Its section
// of a plan is the lowered program:
//
//   program primitive {
//       input x: f16[512, 1024]
//       m[j]: f16 = max[i] x[i,j]
//       output m
//   }
#include "base/suggest.h"
#include "plan/source.h"
#include <string.h>

// Lists the names of the ops that are in the list `before`, but not in `after`,
// for reports. before may be NULL: all ops are in it.
static int list_names(dv_plan *plan, const dv_program *p,
                      const unsigned char *before, const unsigned char *after,
                      const char ***names, int32_t *n)
{
    *n = 0;
    *names = DV_NEW(&plan->arena, const char *, p->n_ops);
    int ok = *names != NULL;
    for (int32_t i = 0; i < p->n_ops && ok; i++)
        if ((!before || before[i]) && !after[i]) {
            const char *name = dv_arena_copy(&plan->arena, p->ops[i].name,
                                             strlen(p->ops[i].name));
            (*names)[(*n)++] = name;
            ok = name != NULL;
        }
    return ok;
}

// Lowers the program `p`, whose ops have the numbers and names of those of the
// source. wanted[i] says whether op i of the source reaches an output.
static dv_status lower(dv_pass_cx *cx, dv_plan *plan, const dv_program *p,
                       const unsigned char *wanted)
{
    unsigned char *live = dv_alloc((size_t)p->n_ops);
    dv_status st =
        live && dv_program_find_live(p, live) &&
                list_names(plan, p, wanted, live, &plan->views, &plan->n_views)
            ? DV_OK
            : dv_nomem(cx->diag);
    if (st == DV_OK)
        st = dv_program_lower_for(
            &plan->ops, p, plan->target.grain, dv_target_packs(&plan->target),
            plan->target.intermediates_stored, live, cx->diag);
    dv_release(live);
    return st;
}

static dv_status no_input(const dv_pass_cx *cx, const dv_program *p,
                          const char *name)
{
    char meant[DV_SUGGESTION_BYTES];
    dv_suggestion s = {.word = name, .len = strlen(name), .lists = 1};
    for (int32_t i = 0; i < p->n_tensors; i++)
        if (p->tensors[i].is_input)
            dv_suggest(&s, p->tensors[i].name);
    return dv_fail(cx->diag, DV_E_USAGE, DV_NOWHERE,
                   "%s cannot be a constant: there is no such tensor%s", name,
                   dv_suggestion_text(&s, meant));
}

// Turns the inputs that the options list as constants into constants.
static dv_status set_constants(const dv_pass_cx *cx, dv_program *p)
{
    for (size_t i = 0; i < cx->options->n_constants; i++) {
        const char *name = cx->options->constants[i];
        int32_t t = dv_program_find(p, name);
        if (t < 0)
            return no_input(cx, p, name);
        const char *is = !p->tensors[t].is_input   ? "it is no input"
                         : p->tensors[t].is_output ? "it is an output, too"
                                                   : NULL;
        for (int32_t k = 0; k < p->n_ops && !is; k++)
            if (p->ops[k].write.tensor == t)
                is = "the program writes it";
        if (is)
            return dv_fail(cx->diag, DV_E_USAGE, DV_NOWHERE,
                           "%s cannot be a constant: %s", name, is);
        p->tensors[t].is_const = 1;
    }
    return DV_OK;
}

dv_status dv_lower_run(dv_pass_cx *cx, dv_plan *plan)
{
    // direct: the source without ops that only rename elements (transposes,
    // slices); ordered: the same with channels as the last dim of temporaries.
    dv_program *direct = NULL, *ordered = NULL;
    unsigned char *wanted = dv_alloc((size_t)cx->source->n_ops);
    dv_status st = wanted && dv_program_find_live(cx->source, wanted) &&
                           list_names(plan, cx->source, NULL, wanted,
                                      &plan->removed, &plan->n_removed)
                       ? DV_OK
                       : dv_nomem(cx->diag);
    if (st == DV_OK && dv_target_packs(&plan->target))
        st = dv_program_see_through(&direct, cx->source, wanted, cx->diag);
    const dv_program *p = direct ? direct : cx->source;
    if (st == DV_OK && dv_target_packs(&plan->target) &&
        !dv_team_wanted(cx, plan))
        st = dv_program_channels_last(&ordered, p, cx->diag);
    if (st == DV_OK)
        st = lower(cx, plan, ordered ? ordered : p, wanted);
    dv_program_destroy(ordered);
    dv_program_destroy(direct);
    dv_release(wanted);
    if (st == DV_OK)
        st = set_constants(cx, plan->ops);
    if (st == DV_OK && dv_target_packs(&plan->target) &&
        !dv_team_wanted(cx, plan))
        st = dv_plan_join(plan, cx->diag);
    // The ops of a rank are not reordered: they must keep the order of the ops
    // in the team's program.
    if (st == DV_OK && dv_target_packs(&plan->target) &&
        !dv_team_wanted(cx, plan) && !plan->team_ops)
        st = dv_plan_ahead(plan, cx->diag);
    if (st == DV_OK && dv_target_runs_here(&plan->target) &&
        !dv_team_wanted(cx, plan))
        st = dv_program_once_first(plan->ops, cx->diag);
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
