#include "harness/test.h"
#include "harness/plans.h"
#include "scratch/scratch.h"

dv_program *program_of(const char *text)
{
    dv_program *p = NULL;
    dv_diag *diag = dv_diag_create();
    if (dv_program_parse(&p, text, strlen(text), "t", NULL, 0, diag))
        fail_msg("%s", dv_diag_text(diag));
    dv_diag_destroy(diag);
    return p;
}

dv_plan *plan_on(const char *text, const char *target, const char *const *pins,
                 const dv_plan_options *how)
{
    dv_plan_options o = *how;
    dv_diag *diag = dv_diag_create();
    dv_target *t = NULL;
    dv_plan *plan = NULL;
    dv_program *p = program_of(text);
    dv_status st = strchr(target, '{')
                       ? dv_target_parse(&t, target, strlen(target), "t", diag)
                       : dv_target_load(&t, target, diag);
    assert_int_equal(st, DV_OK);
    o.pins = pins;
    while (pins && pins[o.n_pins])
        o.n_pins++;
    if (dv_plan_create(&plan, p, t, &o, diag) || dv_plan_check(plan, diag))
        fail_msg("%s", dv_diag_text(diag));
    dv_target_destroy(t);
    dv_program_destroy(p);
    dv_diag_destroy(diag);
    return plan;
}

dv_plan *division_of(const char *text, const char *target, int64_t cores,
                     dv_divide how, const char *const *pins)
{
    dv_plan_options o = DV_PLAN_OPTIONS_INIT;
    o.scratch = DV_RESIDENTS_NONE;
    o.cores = cores;
    o.divide = how;
    return plan_on(text, target, pins, &o);
}

int32_t op_named(const dv_plan *plan, const char *name)
{
    for (int32_t i = 0; i < plan->ops->n_ops; i++)
        if (!strcmp(plan->ops->ops[i].name, name))
            return i;
    fail_msg("no op %s", name);
    return -1;
}

int32_t tensor_named(const dv_plan *plan, const char *name)
{
    for (int32_t i = 0; i < plan->ops->n_tensors; i++)
        if (!strcmp(plan->ops->tensors[i].name, name))
            return i;
    fail_msg("no tensor %s", name);
    return -1;
}

int refused(dv_plan *plan)
{
    dv_plan *read = NULL;
    dv_status here = dv_scratch_verify(plan, NULL);
    if (here == DV_OK && dv_scratch_index(&plan->scratch, plan, &plan->arena))
        here = dv_plan_check(plan, NULL);
    char *text = dv_plan_text(plan);
    dv_status there =
        dv_plan_parse(&read, text, strlen(text), "p", NULL, NULL, NULL);
    if (there == DV_OK)
        there = dv_plan_check(read, NULL);
    dv_plan_destroy(read);
    dv_free(text);
    return (here == DV_E_CHECK || here == DV_E_SHAPE) &&
           (there == DV_E_CHECK || there == DV_E_SHAPE || there == DV_E_SYNTAX);
}
