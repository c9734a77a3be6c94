// A plan as JSON: the program's fields, then what the passes decided.
#include "ir/json.h"
#include "plan/plan.h"

static void group_json(dv_json *j, const dv_plan *plan, const dv_group *g)
{
    dv_json_open(j, NULL, '{');
    dv_json_open_flat(j, "ops", '[');
    for (int32_t op = g->first_op; op < g->end_op; op++)
        dv_json_string(j, NULL, plan->ops->ops[op].name);
    dv_json_close(j);
    dv_json_int(j, "tiles", g->n_tiles);
    dv_json_open(j, "cores", '[');
    for (int32_t d = 0; d < g->n_deals; d++) {
        dv_json_open_flat(j, NULL, '{');
        dv_json_int(j, "core", g->deals[d].core);
        dv_json_int(j, "first_tile", g->deals[d].first_tile);
        dv_json_int(j, "tiles", g->deals[d].n_tiles);
        dv_json_close(j);
    }
    dv_json_close(j);
    dv_json_close(j);
}

char *dv_plan_json(const dv_plan *plan)
{
    dv_text out = {0};
    dv_json j = {.out = &out};
    dv_json_open(&j, NULL, '{');
    if (plan->facts & DV_FACT_LOWERED)
        dv_program_json_fields(&j, plan->ops);
    dv_json_string(&j, "target", plan->target.name);
    dv_json_int(&j, "cores", plan->target.cores);
    if (plan->facts & DV_FACT_GROUPED) {
        dv_json_open(&j, "groups", '[');
        for (int32_t i = 0; i < plan->n_groups; i++)
            group_json(&j, plan, &plan->groups[i]);
        dv_json_close(&j);
    }
    dv_json_open(&j, "passes", '[');
    for (int i = 0; i < DV_N_PASSES; i++) {
        if (plan->pass_ms[i] < 0)
            continue;
        dv_json_open_flat(&j, NULL, '{');
        dv_json_string(&j, "name", dv_pass_get((dv_pass_id)i)->name);
        dv_json_double(&j, "ms", plan->pass_ms[i]);
        dv_json_close(&j);
    }
    dv_json_close(&j);
    dv_status check = dv_plan_check(plan, NULL);
    if (check == DV_E_NOMEM)
        out.failed = 1; // it says nothing about the plan
    dv_json_string(&j, "check", dv_status_name(check));
    dv_json_close(&j);
    return dv_text_take(&out);
}
