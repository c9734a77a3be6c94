// Chooses the homes of a plan whose ops are divided, and merges ops that pass
// tensors to each other in the scratchpads into groups.
#include "scratch/scratch.h"
#include <string.h>

static dv_status keep(dv_plan *plan, const dv_scratch_rules *rules,
                      const uint8_t *cuts, dv_arena *arena, dv_diag *diag)
{
    dv_life life;
    if (!dv_life_make(&life, plan, rules, cuts, arena))
        return dv_nomem(diag);
    DV_TRY(dv_scratch_solve(&plan->scratch, plan, &life, &plan->arena, diag));
    plan->scratch.shares = NULL;
    plan->scratch.n_shares = 0;
    if (!dv_scratch_index(&plan->scratch, plan, &plan->arena) ||
        !dv_share_reads(&plan->scratch, plan, rules, &plan->arena) ||
        !dv_scratch_index_shares(&plan->scratch, plan, &plan->arena))
        return dv_nomem(diag);
    return dv_group_on_core(plan, life.loop_of, life.arena, diag);
}

// Marks in `cuts` the first ops of groups at whose start some scratchpad home
// (a tensor resident on the cores) of an earlier op is still live. Returns the
// number of new marks.
static int32_t cut_homes(const dv_plan *plan, int32_t *crossed, uint8_t *cuts)
{
    int32_t n = 0, alive = 0, at = 0;
    memset(crossed, 0, ((size_t)plan->ops->n_ops + 1) * sizeof *crossed);
    for (int32_t i = 0; i < plan->scratch.n_homes; i++) {
        crossed[plan->scratch.homes[i].first_op + 1]++;
        crossed[plan->scratch.homes[i].end_op]--;
    }
    for (int32_t g = 0; g < plan->n_groups; g++) {
        int32_t start = plan->groups[g].first_op;
        for (; at <= start; at++)
            alive += crossed[at];
        if (alive > 0 && !cuts[start]) {
            cuts[start] = 1;
            n++;
        }
    }
    return n;
}

// Marks in `full` the ops before which a group ended because it touched as many
// tensors as the target allows, in this round of the search or an earlier one.
// Restores the mark `full` of groups that end there again: in this round they
// may end only because the homes across their end were cut.
static void keep_full(dv_plan *plan, uint8_t *full)
{
    for (int32_t g = 0; g < plan->n_groups; g++) {
        dv_group *at = &plan->groups[g];
        full[at->end_op] |= (uint8_t)at->full;
        at->full = full[at->end_op];
    }
}

// Chooses scratchpad homes, the tensors that are resident on the cores. If
// other programs use the scratchpads too (tenants), these are wiped after each
// group of ops, so homes may not outlive their group. But the groups depend on
// the homes: homes that cross the start of a group are cut there, and the
// choice is repeated until none does.
dv_status dv_scratch_choose_homes(dv_plan *plan, const dv_scratch_rules *rules,
                                  dv_arena *arena, dv_diag *diag)
{
    dv_plan_snapshot before;
    if (!rules->tenants)
        return keep(plan, rules, NULL, arena, diag);
    uint8_t *cuts = DV_NEW(arena, uint8_t, plan->ops->n_ops + 1);
    uint8_t *full = DV_NEW(arena, uint8_t, plan->ops->n_ops + 1);
    int32_t *crossed = DV_NEW(arena, int32_t, plan->ops->n_ops + 1);
    if (!cuts || !full || !crossed ||
        !dv_plan_snapshot_save(&before, plan, arena))
        return dv_nomem(diag);
    DV_TRY(keep(plan, rules, cuts, arena, diag));
    keep_full(plan, full);
    while (cut_homes(plan, crossed, cuts) > 0) {
        dv_plan_snapshot_restore(&before, plan);
        DV_TRY(keep(plan, rules, cuts, arena, diag));
        keep_full(plan, full);
    }
    return DV_OK;
}
