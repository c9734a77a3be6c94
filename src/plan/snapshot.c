// Saves and restores what planning changes in a plan, so that a pass can try
// changes and take them back.
#include "plan/plan.h"
#include <string.h>

int dv_plan_snapshot_save(dv_plan_snapshot *f, dv_plan *plan, dv_arena *arena)
{
    dv_program *p = plan->ops;
    size_t n = (size_t)p->n_ops, r = (size_t)p->n_repeats;
    f->plan = *plan;
    f->program = *p;
    f->repeats = dv_arena_grow(arena, p->repeats, r, r, sizeof *f->repeats);
    f->groups = dv_arena_grow(arena, plan->groups, (size_t)plan->n_groups,
                              (size_t)plan->n_groups, sizeof *f->groups);
    f->slices = dv_arena_grow(arena, plan->slices, n, n, sizeof *f->slices);
    f->digits = plan->digits ? dv_arena_grow(arena, plan->digits, n, n,
                                             sizeof *f->digits)
                             : NULL;
    if (plan->digits && !f->digits)
        return 0;
    for (size_t i = 0; f->slices && i < n; i++) {
        size_t vars = (size_t)p->ops[i].n_vars;
        f->slices[i] = dv_arena_grow(arena, plan->slices[i], vars, vars,
                                     sizeof *f->slices[i]);
        if (!f->slices[i])
            return 0;
    }
    return f->repeats && f->groups && f->slices;
}

void dv_plan_snapshot_restore(const dv_plan_snapshot *f, dv_plan *plan)
{
    dv_program *p = plan->ops;
    dv_arena plan_arena = plan->arena, program_arena = p->arena;
    *plan = f->plan;
    *p = f->program;
    // Keep the current arenas (allocators), not the saved ones: both have grown
    // since the plan was saved.
    plan->arena = plan_arena;
    p->arena = program_arena;
    if (p->n_repeats)
        memcpy(p->repeats, f->repeats,
               (size_t)p->n_repeats * sizeof *p->repeats);
    if (plan->n_groups)
        memcpy(plan->groups, f->groups,
               (size_t)plan->n_groups * sizeof *plan->groups);
    if (plan->digits && p->n_ops)
        memcpy(plan->digits, f->digits,
               (size_t)p->n_ops * sizeof *plan->digits);
    for (int32_t i = 0; i < p->n_ops; i++)
        memcpy(plan->slices[i], f->slices[i],
               (size_t)p->ops[i].n_vars * sizeof *plan->slices[i]);
}
