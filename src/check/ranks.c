// The checker's rules about the plans of a team's ranks.
//
//   C31 the rank for which the team's plan was made has a plan of its own, and
//       in the plans of all ranks all other rules hold
//   C32 the plan of a rank computes the part of the program that section dist
//       gives it: on this machine its program is the one that follows from that
//       section; on simulated machines and on those with sticks, whose plans
//       may add copies and reorder, all inputs and outputs, messages among
//       them, have their extents, and the repeats and the extern ops, at which
//       the rank communicates, are those of that program
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

// Returns the next extern op from number i on, or n_ops.
static int32_t next_extern(const dv_program *p, int32_t i)
{
    while (i < p->n_ops && !p->ops[i].is_extern)
        i++;
    return i;
}

// Returns 1 if both ops write the same tensor and, if they are constants, the
// same number.
static int same_extern(const dv_program *p, const dv_op *a, const dv_program *q,
                       const dv_op *b)
{
    return !strcmp(p->tensors[a->write.tensor].name,
                   q->tensors[b->write.tensor].name) &&
           a->body->kind == b->body->kind &&
           (a->body->kind != DV_EXPR_CONST || a->body->value == b->body->value);
}

// Returns 1 if the programs have the same extern ops in the same order, and the
// same repeats around them.
static int same_externs(const dv_program *p, const dv_program *q)
{
    int32_t i = next_extern(p, 0), k = next_extern(q, 0);
    if (p->n_repeats != q->n_repeats)
        return 0;
    for (int32_t r = 0; r < p->n_repeats; r++)
        if (p->repeats[r].times != q->repeats[r].times)
            return 0;
    while (i < p->n_ops && k < q->n_ops) {
        if (!same_extern(p, &p->ops[i], q, &q->ops[k]))
            return 0;
        for (int32_t r = 0; r < p->n_repeats; r++) {
            const dv_repeat *x = &p->repeats[r], *y = &q->repeats[r];
            if ((x->first_op <= i && i < x->end_op) !=
                (y->first_op <= k && k < y->end_op))
                return 0;
        }
        i = next_extern(p, i + 1);
        k = next_extern(q, k + 1);
    }
    return i == p->n_ops && k == q->n_ops;
}

static dv_status check_externs(const dv_plan *plan, const dv_rank_class *c,
                               const dv_program *wanted, int64_t rank,
                               dv_diag *diag)
{
    if (same_externs(c->plan->ops, wanted))
        return DV_OK;
    return DV_BREAKS(diag, C32, dv_plan_at(plan, c->off),
                     "rank %" PRId64 ": its extern ops and repeats are not "
                     "those that follow from section dist",
                     rank);
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
    // Machines with sticks need copies that the rank's program does not have.
    int exact = dv_target_runs_here(&plan->target) && !plan->target.sticks;
    dv_status st = exact ? check_text(plan, c, wanted, rank, diag)
                         : check_tensors(plan, c, wanted, rank, diag);
    if (st == DV_OK && !exact)
        st = check_externs(plan, c, wanted, rank, diag);
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
