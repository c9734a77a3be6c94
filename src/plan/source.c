// Section `source` of a plan: the program as written, before lowering split it
// into ops and layout inserted copies. It is the reference that results are
// verified against, also if the plan is read from a file.
//
//   source {
//       input x: f16[4, 1000]
//       y[i,j]: f32 = x[i,j] / (sum[k] x[i,k])
//       output y
//   }
#include "plan/source.h"
#include "ir/program.h"
#include <string.h>

dv_status dv_source_set(dv_plan *plan, const dv_program *program, dv_diag *diag)
{
    dv_text text = {0};
    dv_program_print(&text, program, 4);
    int empty = !text.failed && text.len == 0; // the program has no statements
    plan->source = text.failed || empty
                       ? NULL
                       : dv_arena_copy(&plan->arena, text.at, text.len);
    dv_text_free(&text);
    return plan->source || empty ? DV_OK : dv_nomem(diag);
}

void dv_source_print(dv_text *out, const dv_plan *plan)
{
    if (plan->source)
        dv_put(out, "source {\n%s}\n", plan->source);
}

dv_status dv_source_read(dv_plan *plan, dv_lexer *lx)
{
    if (plan->source)
        return dv_fail(lx->diag, DV_E_SYNTAX, dv_lex_at(lx),
                       "a second section source");
    dv_program *p = dv_program_new();
    if (!p)
        return dv_nomem(lx->diag);
    dv_status st = dv_lex(lx);
    p->grain = DV_GRAIN_SOURCE;
    if (st == DV_OK)
        st = dv_program_read_block(p, lx);
    if (st == DV_OK)
        st = dv_source_set(plan, p, lx->diag);
    dv_program_destroy(p);
    return st;
}

// Returns whether two constants take their elements from the same file. An
// input of the source may be a constant without a file in the plan's program,
// if the user's options declare it constant.
static int same_file(const dv_tensor *a, const dv_tensor *b)
{
    if (a->is_const != b->is_const)
        return !a->file && !b->file;
    return a->file && b->file ? !strcmp(a->file, b->file) : a->file == b->file;
}

static int same_kind(const dv_tensor *a, const dv_tensor *b)
{
    return a->dtype == b->dtype && a->n_dims == b->n_dims && same_file(a, b) &&
           a->is_input == b->is_input && a->is_output == b->is_output &&
           (a->n_dims == 0 ||
            memcmp(a->shape, b->shape, (size_t)a->n_dims * sizeof *a->shape) ==
                0);
}

// Checks that every input and output of program `from` exists in program `in`
// with the same type and shape.
static dv_status find_all(const dv_program *from, const dv_program *in,
                          const char *section, const char *other, dv_diag *diag)
{
    for (int32_t i = 0; i < from->n_tensors; i++) {
        const dv_tensor *t = &from->tensors[i];
        int32_t k = dv_program_find(in, t->name);
        if ((t->is_input || t->is_output) &&
            (k < 0 || !same_kind(t, &in->tensors[k])))
            return dv_fail(diag, DV_E_CHECK, DV_NOWHERE,
                           "section %s has the %s %s, section %s has none of "
                           "that name, type and shape",
                           section, t->is_input ? "input" : "output", t->name,
                           other);
    }
    return DV_OK;
}

dv_status dv_source_verify(const dv_plan *plan, dv_diag *diag)
{
    dv_program *p = NULL;
    if (!plan->ops || !plan->source)
        return DV_OK;
    DV_TRY(dv_plan_source(plan, &p, diag));
    dv_status st = find_all(p, plan->ops, "source", "program", diag);
    if (st == DV_OK)
        st = find_all(plan->ops, p, "program", "source", diag);
    dv_program_destroy(p);
    return st;
}

dv_status dv_plan_source(const dv_plan *plan, dv_program **out, dv_diag *diag)
{
    *out = NULL;
    if (!plan->source)
        return DV_OK;
    // Warnings are suppressed, since they were given when this text was first
    // verified.
    dv_status st = dv_program_parse(out, plan->source, strlen(plan->source),
                                    "source", NULL, 0, NULL);
    return st == DV_OK ? DV_OK
                       : dv_fail(diag, st, DV_NOWHERE,
                                 "section source cannot be read again");
}
