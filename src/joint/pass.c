// Pass joint: divides ops, groups them and chooses what is resident on the
// cores, all against one price. It writes the sections of the passes divide,
// group and scratch, which then have nothing left to do.
#include "base/stop.h"
#include "joint/joint.h"
#include <string.h>

// Updates the report on how ops are cut for those that the pass "joint" cut
// differently than the pass "divide" did. order[i] is the number that op i had
// before; NULL: the order did not change.
static dv_status note_changes(dv_plan *plan, const dv_plan_snapshot *before,
                              const int32_t *order, dv_diag *diag)
{
    dv_status st = DV_OK;
    for (int32_t i = 0; i < plan->ops->n_ops && st == DV_OK; i++) {
        size_t bytes =
            (size_t)plan->ops->ops[i].n_vars * sizeof *plan->slices[i];
        const int64_t *old = before->slices[order ? order[i] : i];
        int32_t like = plan->divisions[i].like;
        dv_arena work = {0};
        if (!memcmp(plan->slices[i], old, bytes))
            continue;
        // An op of the same shape that was changed in the same way has the same
        // report.
        if (!plan->ops->ops[i].is_extern && like < i &&
            plan->divisions[like].followed &&
            !memcmp(plan->slices[i], plan->slices[like], bytes) &&
            !memcmp(old, before->slices[order ? order[like] : like], bytes))
            plan->divisions[i] = plan->divisions[like];
        else
            st = dv_divide_refresh(plan, i, old, &work, diag);
        dv_arena_free(&work);
    }
    return st;
}

// Makes ops one group whose cores loop over tiles, if that makes the plan
// cheaper. The search chooses residents by the rules `quick`; the result is
// then compared by the rules `final`.
static dv_status loop_over_tiles(dv_plan *plan, const dv_scratch_rules *quick,
                                 const dv_scratch_rules *final,
                                 dv_divide_space *const *spaces,
                                 dv_joint_price price, dv_tile_loops *out,
                                 dv_arena *arena, dv_diag *diag)
{
    dv_plan_snapshot before, loops;
    dv_joint_price with;
    if (!dv_plan_snapshot_save(&before, plan, arena))
        return dv_nomem(diag);
    DV_TRY(dv_joint_tiles(out, plan, quick, spaces, price, arena, diag));
    if (!out->found)
        return DV_OK;
    // From here on, plans are compared by the rules `final`, with which
    // residents are chosen in the end.
    if (!dv_plan_snapshot_save(&loops, plan, arena))
        return dv_nomem(diag);
    DV_TRY(dv_joint_assess(&with, plan, final, arena, diag));
    int legal = dv_joint_homes_hold(plan, out->spaces, &out->relies);
    dv_plan_snapshot_restore(&before, plan);
    if (final->evict)
        DV_TRY(dv_joint_assess(&price, plan, final, arena, diag));
    out->found = legal && dv_joint_cheaper(&with, &price);
    out->reordered &= out->found;
    out->relies &= out->found;
    for (int32_t i = 0; out->found && i < plan->ops->n_ops; i++)
        plan->divisions[i].n_otherwise = 0;
    dv_plan_snapshot_restore(out->found ? &loops : &before, plan);
    return DV_OK;
}

// Keeps the current division or replaces it by one that follows resident
// operands, cuts chains of ops alike or loops over tiles, whichever is
// predicted to be faster, or to cause less traffic in the same time. The plan
// is left without scratchpad homes (resident tensors).
static dv_status search(dv_plan *plan, const dv_scratch_rules *rules,
                        dv_tile_loops *loops, dv_arena *arena, dv_diag *diag)
{
    dv_plan_snapshot before, follows;
    dv_joint_price own, price;
    // Compare divisions by placements without evictions, which are faster to
    // find.
    dv_scratch_rules quick = *rules;
    dv_joint_tried tried = {0};
    quick.evict = 0;
    quick.unreported = 1;
    quick.tried = &tried;
    dv_divide_space *const *spaces = dv_joint_spaces(plan, arena);
    if (!spaces || !dv_plan_snapshot_save(&before, plan, arena))
        return dv_nomem(diag);
    *loops = (dv_tile_loops){0};
    if (dv_stop_late())
        return DV_OK;
    DV_TRY(dv_joint_assess(&own, plan, &quick, arena, diag));
    dv_plan_snapshot_restore(&before, plan);
    DV_TRY(dv_joint_follow(plan, &quick, spaces, 0, arena, diag));
    if (!dv_plan_snapshot_save(&follows, plan, arena))
        return dv_nomem(diag);
    DV_TRY(dv_joint_assess(&price, plan, &quick, arena, diag));
    if (dv_joint_cheaper(&price, &own)) {
        dv_plan_snapshot_restore(&follows, plan);
    } else {
        dv_plan_snapshot_restore(&before, plan);
        price = own;
    }
    DV_TRY(dv_joint_chains(plan, &quick, spaces, &price, arena, diag));
    DV_TRY(dv_joint_menus(plan, &quick, spaces, &price, arena, diag));
    DV_TRY(dv_joint_together(plan, &quick, spaces, &price, arena, diag));
    dv_joint_report_tried(&tried, plan, &price);
    quick.tried = NULL; // loops may change the order of ops
    return rules->tiles && !dv_stop_late()
               ? loop_over_tiles(plan, &quick, rules, spaces, price, loops,
                                 arena, diag)
               : DV_OK;
}

// Numbers the ops of a plan with loops over tiles in the order of its text, and
// sets *legal to whether the tensors that must be resident are.
static dv_status finish_loops(dv_plan *plan, const dv_scratch_rules *rules,
                              dv_tile_loops *loops, int *legal, dv_arena *arena,
                              dv_diag *diag)
{
    dv_plan_snapshot divided;
    dv_joint_price price;
    *legal = 1;
    if (loops->reordered)
        DV_TRY(dv_reorder_finish(plan, diag));
    if (!loops->relies)
        return DV_OK;
    if (!dv_plan_snapshot_save(&divided, plan, arena))
        return dv_nomem(diag);
    DV_TRY(dv_joint_assess(&price, plan, rules, arena, diag));
    *legal = dv_joint_homes_hold(plan, loops->spaces, &loops->relies);
    dv_plan_snapshot_restore(&divided, plan);
    return DV_OK;
}

// Searches for a cheaper division of a plan in which equal layers are folded
// into three. *found is set to 0, and the plan must be restored, if there are
// no such layers or the division found is not legal for all.
static dv_status search_layers(dv_plan *plan, const dv_scratch_rules *rules,
                               dv_tile_loops *loops, int *found,
                               dv_arena *arena, dv_diag *diag)
{
    dv_layers layers;
    // A bar (`--bar`) keeps a tensor or op with a certain name from using
    // scratchpads, so layers that differ in names are no longer equal.
    int done = rules->n_bars ? 0 : dv_layers_fold(&layers, plan, arena);
    *found = 0;
    if (done < 0)
        return dv_nomem(diag);
    if (!done)
        return DV_OK;
    dv_status st = search(&layers.part, rules, loops, arena, diag);
    done = dv_layers_unfold(&layers, plan, loops, arena);
    DV_TRY(st);
    if (done < 0)
        return dv_nomem(diag);
    if (!done)
        return DV_OK;
    return finish_loops(plan, rules, loops, found, arena, diag);
}

// Divides the plan as the search finds cheapest. *relies is set if the division
// is legal only with the scratchpad residents chosen when the search priced it.
static dv_status divide_cheaper(dv_plan *plan, const dv_scratch_rules *rules,
                                int *relies, dv_arena *arena, dv_diag *diag)
{
    dv_plan_snapshot before;
    dv_tile_loops loops = {0};
    dv_scratch_rules whole = *rules;
    int done;
    if (!dv_plan_snapshot_save(&before, plan, arena))
        return dv_nomem(diag);
    DV_TRY(search_layers(plan, rules, &loops, &done, arena, diag));
    while (!done) {
        dv_plan_snapshot_restore(&before, plan);
        DV_TRY(search(plan, &whole, &loops, arena, diag));
        DV_TRY(finish_loops(plan, &whole, &loops, &done, arena, diag));
        whole.tiles = 0; // for another try, if loops are not legal
    }
    *relies = loops.relies;
    return note_changes(plan, &before, loops.found ? loops.order : NULL, diag);
}

static dv_status seed(dv_plan *plan, const dv_scratch_rules *rules,
                      dv_arena *arena, dv_diag *diag)
{
    dv_plan_snapshot before;
    if (!dv_plan_snapshot_save(&before, plan, arena))
        return dv_nomem(diag);
    DV_TRY(dv_joint_seed(plan, rules, diag));
    return note_changes(plan, &before, NULL, diag);
}

static dv_status for_scratchpads(dv_plan *plan, dv_joint joint,
                                 const dv_scratch_rules *rules, dv_arena *arena,
                                 dv_diag *diag)
{
    int relies = 0;
    dv_scratch_rules last = *rules;
    if (joint == DV_JOINT_SEED)
        DV_TRY(seed(plan, rules, arena, diag));
    else if (joint != DV_JOINT_OFF)
        DV_TRY(divide_cheaper(plan, rules, &relies, arena, diag));
    // If the division relies on resident tensors, another order of ops could
    // leave them in main memory.
    last.reorder &= !relies;
    last.recompute &= !relies;
    DV_TRY(dv_joint_improve(plan, &last, arena, diag));
    dv_scratch_count_saved(plan);
    return DV_OK;
}

// Runs the passes "divide" and "group", from whose results the search starts.
static dv_status begin(dv_pass_cx *cx, dv_plan *plan)
{
    const dv_pass_id first[] = {DV_PASS_divide, DV_PASS_group};
    for (size_t i = 0; i < sizeof first / sizeof *first; i++) {
        const dv_pass *pass = dv_pass_get(first[i]);
        dv_diag_pass(cx->diag, pass->name);
        DV_TRY(pass->run(cx, plan));
        plan->facts |= pass->gives;
        DV_TRY(pass->verify(plan, cx->diag));
    }
    dv_diag_pass(cx->diag, "joint");
    return DV_OK;
}

dv_status dv_joint_run(dv_pass_cx *cx, dv_plan *plan)
{
    dv_scratch_rules rules = dv_scratch_rules_of(plan, cx->options);
    dv_arena arena = {0};
    DV_TRY(begin(cx, plan));
    DV_TRY(dv_bars_verify(plan, cx->options, cx->diag));
    if (!dv_scratch_begin(plan, &rules))
        return DV_OK;
    dv_status st = DV_OK;
    if (dv_target_has_scratchpads(&plan->target))
        st =
            for_scratchpads(plan, cx->options->joint, &rules, &arena, cx->diag);
    else if (cx->options->divide != DV_DIVIDE_SPAN)
        st = dv_joint_for_caches(plan, &arena, cx->diag);
    plan->scratch.cut_short = dv_stop_was_late();
    dv_arena_free(&arena);
    return st;
}

dv_status dv_joint_verify(const dv_plan *plan, dv_diag *diag)
{
    DV_TRY(dv_group_verify(plan, diag));
    return dv_scratch_verify(plan, diag);
}
