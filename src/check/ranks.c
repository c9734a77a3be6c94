// The checker's rules about the plans of a team's ranks.
//
//   C31 the rank for which the team's plan was made has a plan of its own, and
//       in the plans of all ranks all other rules hold
//   C32 the plan of a rank computes the part of the program that section dist
//       gives it: on this machine its program is the one that follows from that
//       section; on simulated machines, whose plans may add copies and reorder,
//       all inputs and outputs, messages among them, have their extents
#include "check/check.h"
#include <inttypes.h>
#include <string.h>

static int same_tensor(const dv_program *p, const dv_tensor *t)
{
    int32_t n = dv_program_find(p, t->name);
    const dv_tensor *x = n < 0 ? NULL : &p->tensors[n];
    if (!x || x->dtype != t->dtype || x->n_dims != t->n_dims ||
        x->is_input != t->is_input || x->is_output != t->is_output)
        return 0;
    for (int d = 0; d < t->n_dims; d++)
        if (x->shape[d] != t->shape[d])
            return 0;
    return 1;
}

static dv_status check_tensors(const dv_plan *plan, const dv_rank_class *c,
                               const dv_program *wanted, int64_t rank,
                               dv_diag *diag)
{
    for (int32_t i = 0; i < wanted->n_tensors; i++) {
        const dv_tensor *t = &wanted->tensors[i];
        if ((t->is_input || t->is_output) && !same_tensor(c->plan->ops, t))
            return DV_BREAKS(diag, C32, dv_plan_at(plan, c->off),
                             "rank %" PRId64 ": its program has no tensor %s "
                             "as section dist demands it",
                             rank, t->name);
    }
    return DV_OK;
}

static dv_status check_text(const dv_plan *plan, const dv_rank_class *c,
                            const dv_program *wanted, int64_t rank,
                            dv_diag *diag)
{
    dv_text is = {0}, text = {0};
    dv_status st = DV_OK;
    dv_program_print(&text, wanted, 0);
    dv_program_print(&is, c->plan->ops, 0);
    if (text.failed || is.failed)
        st = dv_nomem(diag);
    else if (strcmp(text.at, is.at) != 0)
        st = DV_BREAKS(diag, C32, dv_plan_at(plan, c->off),
                       "rank %" PRId64 ": its program is not the part of the "
                       "team's program that section dist gives it",
                       rank);
    dv_text_free(&text);
    dv_text_free(&is);
    return st;
}

static dv_status check_program(const dv_plan *plan, const dv_rank_class *c,
                               int64_t rank, dv_diag *diag)
{
    dv_program *wanted = NULL;
    DV_TRY(dv_rank_program_of(&wanted, plan, rank, diag));
    dv_status st = dv_target_runs_here(&plan->target)
                       ? check_text(plan, c, wanted, rank, diag)
                       : check_tensors(plan, c, wanted, rank, diag);
    dv_program_destroy(wanted);
    return st;
}

dv_status dv_check_ranks(const dv_plan *plan, dv_loc at, dv_diag *diag)
{
    if (!(plan->facts & DV_FACT_RANKS))
        return dv_fail(diag, DV_E_CHECK, at,
                       "the plan is not finished: section ranks is missing");
    if (!dv_plan_class_of(plan, plan->team.rank))
        return DV_BREAKS(diag, C31, at, "rank %" PRId64 " has no plan",
                         plan->team.rank);
    for (int32_t i = 0; i < plan->n_classes; i++) {
        const dv_rank_class *c = &plan->classes[i];
        if (!(c->plan->facts & DV_FACT_LOWERED))
            return DV_BREAKS(diag, C31, dv_plan_at(plan, c->off),
                             "rank %" PRId64 " has no program", c->ranks[0]);
        for (int32_t k = 0; k < c->n_ranks; k++)
            DV_TRY(check_program(plan, c, c->ranks[k], diag));
        DV_TRY(dv_plan_check(c->plan, diag));
    }
    return DV_OK;
}
