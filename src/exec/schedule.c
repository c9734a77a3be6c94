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

// Fails if the schedule is not what the user prescribes, because there are no
// such kernels.
static dv_status check_pins(const dv_plan *plan, const dv_schedule_pins *pins,
                            dv_diag *diag)
{
    for (int32_t i = 0; pins && i < plan->ops->n_ops; i++) {
        const dv_op_schedule *s = &plan->schedule.ops[i];
        int kind = pins[i].tile_size ? DV_KERNEL_PRODUCT : pins[i].kind;
        if (kind >= 0 && kind != (int)s->kind)
            return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                           "%s is pinned to kernel %s, which it cannot have",
                           plan->ops->ops[i].name,
                           dv_kernel_kind_name((dv_kernel_kind)kind));
    }
    return DV_OK;
}

dv_status dv_schedule_run(dv_pass_cx *cx, dv_plan *plan)
{
    dv_exec *x = NULL;
    dv_schedule_pins *pins;
    plan->schedule = (dv_schedule){0};
    DV_TRY(dv_schedule_read_pins(&pins, plan, cx->options, cx->diag));
    if (!plan->target.here && pins)
        return dv_fail(cx->diag, DV_E_USAGE, DV_NOWHERE,
                       "%s is simulated: it has no kernels to pin",
                       plan->target.name);
    if (!plan->target.here)
        return DV_OK;
    DV_TRY(dv_exec_probe(&x, plan, pins, cx->diag));
    dv_status st = take_schedule(plan, x, cx->diag);
    dv_exec_destroy(x);
    return st ? st : check_pins(plan, pins, cx->diag);
}
