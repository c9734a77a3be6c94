// Rule C39: what a group that runs once computes is the same in every run.
#include "check/check.h"

// Returns whether op number `op` is in a group that is marked to run only once,
// before the first run.
static int runs_once(const dv_plan *plan, int32_t op)
{
    for (int32_t g = 0; g < plan->n_groups; g++)
        if (plan->groups[g].first_op <= op && op < plan->groups[g].end_op)
            return plan->groups[g].once;
    return 0;
}

int dv_check_is_once(const dv_plan *plan, int32_t tensor)
{
    const dv_tensor *t = &plan->ops->tensors[tensor];
    int32_t n = 0, writer = -1;
    for (int32_t i = 0; i < plan->ops->n_ops; i++)
        if (plan->ops->ops[i].write.tensor == tensor) {
            n++;
            writer = i;
        }
    return n == 1 && !t->is_input && !t->is_output && runs_once(plan, writer);
}

static dv_status check_op(const dv_plan *plan, int32_t op, dv_loc at,
                          dv_diag *diag)
{
    const dv_program *p = plan->ops;
    const dv_op *o = &p->ops[op];
    const dv_op_schedule *as = dv_op_scheduled(plan, op);
    if (o->is_extern || o->update || !dv_check_is_once(plan, o->write.tensor))
        return DV_BREAKS(diag, C39, at,
                         "op %s runs once, but does not alone define a "
                         "temporary",
                         o->name);
    for (int32_t k = 0; k < p->n_repeats; k++)
        if (p->repeats[k].first_op <= op && op < p->repeats[k].end_op)
            return DV_BREAKS(diag, C39, at,
                             "op %s runs once, but is in a repeat", o->name);
    for (int r = 0; r < o->n_reads; r++) {
        int32_t t = o->reads[r].tensor;
        if (!p->tensors[t].is_const && !dv_check_is_once(plan, t))
            return DV_BREAKS(diag, C39, at,
                             "op %s runs once, but reads %s, which may change",
                             o->name, p->tensors[t].name);
    }
    if (as && as->once)
        return DV_BREAKS(diag, C39, at,
                         "op %s runs once, before constants are packed",
                         o->name);
    return DV_OK;
}

dv_status dv_check_once(const dv_plan *plan, dv_loc at, dv_diag *diag)
{
    for (int32_t g = 0; g < plan->n_groups; g++) {
        const dv_group *group = &plan->groups[g];
        dv_loc here = group->off ? dv_plan_at(plan, group->off) : at;
        for (int32_t op = group->first_op; group->once && op < group->end_op;
             op++)
            DV_TRY(check_op(plan, op, here, diag));
    }
    return DV_OK;
}
