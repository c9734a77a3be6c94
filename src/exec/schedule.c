// The pass `schedule`: finds out which kernels there are for a divided program
// by preparing them, and writes the choice to the plan, where the checker sees
// it and executors obey it.
#include "exec/state.h"
#include <string.h>

static dv_status list_temps(dv_plan *plan, const dv_exec *x, dv_diag *diag)
{
    dv_schedule *s = &plan->schedule;
    int32_t n = 0;
    for (int32_t g = 0; g < plan->n_groups; g++)
        n += x->group[g].n_locals;
    s->temps = DV_NEW(&plan->arena, dv_tile_temp, n);
    if (!s->temps)
        return dv_nomem(diag);
    for (int32_t g = 0; g < plan->n_groups; g++)
        for (int32_t i = 0; i < x->group[g].n_locals; i++) {
            const dv_tile_buffer *l = &x->group[g].locals[i];
            if (s->ops[l->op].kind == DV_KERNEL_INLINE)
                continue; // it is never stored
            s->temps[s->n_temps++] =
                (dv_tile_temp){.tensor = l->tensor, .address = l->off_bytes};
        }
    return DV_OK;
}

// Copies the levels of a sum from the exec's arena to that of the plan.
static dv_status own_sums(dv_plan *plan, dv_sum_order *s, dv_diag *diag)
{
    dv_sum_level *levels = DV_NEW(&plan->arena, dv_sum_level, s->n_levels);
    if (!levels)
        return dv_nomem(diag);
    if (s->n_levels)
        memcpy(levels, s->levels, (size_t)s->n_levels * sizeof *levels);
    s->levels = levels;
    return DV_OK;
}

static dv_status take_schedule(dv_plan *plan, const dv_exec *x, dv_diag *diag)
{
    dv_schedule *s = &plan->schedule;
    const char *kernels = dv_exec_kernels(x);
    s->ops = DV_NEW(&plan->arena, dv_op_schedule, plan->ops->n_ops);
    s->kernels = dv_arena_copy(&plan->arena, kernels, strlen(kernels));
    if (!s->ops || !s->kernels)
        return dv_nomem(diag);
    for (int32_t i = 0; i < plan->ops->n_ops; i++) {
        dv_exec_describe(x, i, &s->ops[i]);
        DV_TRY(own_sums(plan, &s->ops[i].sums, diag));
    }
    return list_temps(plan, x, diag);
}

dv_status dv_schedule_run(dv_pass_cx *cx, dv_plan *plan)
{
    dv_exec *x = NULL;
    plan->schedule = (dv_schedule){0};
    if (!plan->target.here)
        return DV_OK;
    DV_TRY(dv_exec_probe(&x, plan, cx->diag));
    dv_status st = take_schedule(plan, x, cx->diag);
    dv_exec_destroy(x);
    return st;
}
