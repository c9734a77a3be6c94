// Decides which exchanges take place. There is one exchange per op and tensor,
// for all reads together; none if every rank reads only elements it owns. The
// exchange is hoisted before a repeat that does not write the tensor. Elements
// that an earlier exchange brought and no op has overwritten since are not sent
// again.
#include "dist/dist.h"
#include <inttypes.h>

typedef struct exchange_finder {
    dv_plan_team *t;
    const dv_program *p;
    dv_arena *arena;
} exchange_finder;

static int inside(const dv_repeat *r, int32_t op)
{
    return op >= r->first_op && op < r->end_op;
}

static int writes_in(const dv_program *p, int32_t tensor, int32_t first,
                     int32_t end)
{
    for (int32_t i = first; i < end; i++)
        if (p->ops[i].write.tensor == tensor)
            return 1;
    return 0;
}

// Returns the outermost repeat (a loop of the program) that contains the op and
// does not write the tensor, or -1.
static int32_t hoist(const dv_program *p, int32_t op, int32_t tensor)
{
    // Outer repeats have lower numbers, so the first match is the outermost.
    for (int32_t r = 0; r < p->n_repeats; r++)
        if (inside(&p->repeats[r], op) && p->repeats[r].times > 0 &&
            !writes_in(p, tensor, p->repeats[r].first_op, p->repeats[r].end_op))
            return r;
    return -1;
}

// Returns the op before which the exchange takes place.
static int32_t exchange_point(const dv_program *p, const dv_op_exchange *s)
{
    return s->repeat < 0 ? s->op : p->repeats[s->repeat].first_op;
}

// Returns whether an exchange takes place inside a repeat (a loop of the
// program).
static int within(const dv_program *p, const dv_op_exchange *s, int32_t repeat)
{
    const dv_repeat *r = &p->repeats[repeat];
    if (s->repeat < 0)
        return inside(r, s->op);
    // An exchange hoisted before a repeat is outside that repeat but inside the
    // repeats that enclose it.
    return s->repeat > repeat && inside(r, p->repeats[s->repeat].first_op) &&
           p->repeats[s->repeat].end_op <= r->end_op;
}

// Returns whether the elements received by exchange `old` are still valid
// whenever exchange `now` takes place.
static int still_valid(const dv_program *p, const dv_op_exchange *old,
                       const dv_op_exchange *now)
{
    int32_t from = exchange_point(p, old), to = exchange_point(p, now);
    if (from > to || writes_in(p, now->tensor, from, to))
        return 0;
    for (int32_t r = 0; r < p->n_repeats; r++) {
        int had = within(p, old, r), has = within(p, now, r);
        if (has && !had &&
            writes_in(p, now->tensor, p->repeats[r].first_op,
                      p->repeats[r].end_op))
            return 0; // an earlier iteration has overwritten them
        if (had && !has && p->repeats[r].times == 0)
            return 0; // nothing is received in a repeat with 0 iterations
    }
    return 1;
}

static dv_status add_exchange(exchange_finder *w, int32_t op, int32_t tensor,
                              int32_t *cap, dv_diag *diag)
{
    dv_plan_team *t = w->t;
    dv_op_exchange s = {.op = op, .tensor = tensor};
    s.repeat = hoist(w->p, op, tensor);
    s.prior = DV_NEW(w->arena, int32_t, t->n_op_exchanges);
    if (!s.prior)
        return dv_nomem(diag);
    for (int32_t i = 0; i < t->n_op_exchanges; i++)
        if (t->op_exchanges[i].tensor == tensor &&
            still_valid(w->p, &t->op_exchanges[i], &s))
            s.prior[s.n_prior++] = t->op_exchanges[i].op;
    dv_op_exchange *room = DV_PUSH(w->arena, dv_op_exchange, t->op_exchanges,
                                   t->n_op_exchanges, *cap);
    if (!room)
        return dv_nomem(diag);
    *room = s;
    return DV_OK;
}

// Computes the messages of the team's own rank in all exchanges.
static dv_status list_messages(dv_plan_team *t, const dv_program *p,
                               dv_arena *arena, dv_diag *diag)
{
    for (int32_t i = 0; i < t->n_op_exchanges; i++)
        if (!dv_team_messages(&t->op_exchanges[i], p, t, i, t->rank, arena))
            return dv_nomem(diag);
    return DV_OK;
}

dv_status dv_team_exchanges(dv_plan_team *t, const dv_program *p,
                            dv_arena *arena, dv_diag *diag)
{
    exchange_finder w = {t, p, arena};
    int32_t cap = 0;
    t->op_exchanges = NULL;
    t->n_op_exchanges = 0;
    for (int32_t i = 0; i < p->n_ops; i++) {
        const dv_op *op = &p->ops[i];
        for (int r = 0; r < op->n_reads; r++) {
            int32_t tensor = op->reads[r].tensor;
            int seen = 0;
            for (int k = 0; k < r; k++)
                seen |= op->reads[k].tensor == tensor;
            if (!seen && !dv_team_aligned(p, t, i, tensor))
                DV_TRY(add_exchange(&w, i, tensor, &cap, diag));
        }
    }
    return list_messages(t, p, arena, diag);
}

dv_status dv_plan_set_rank(dv_plan *plan, int64_t rank, dv_diag *diag)
{
    dv_plan_team *t = &plan->team;
    int64_t size = t->n_axes ? dv_plan_team_size(t) : 0;
    if (size == 0)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "--rank %" PRId64
                       ": this plan is for one process, not for a team",
                       rank);
    if (rank < 0 || rank >= size)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "there is no rank %" PRId64 " in a team of %" PRId64,
                       rank, size);
    if (plan->n_classes && !dv_plan_class_of(plan, rank))
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "the plan of rank %" PRId64
                       " is not in this plan; divvy plan %s --start-at dist "
                       "--rank %" PRId64 " makes it",
                       rank, plan->src.name ? plan->src.name : "PLAN", rank);
    t->rank = rank;
    return list_messages(t, plan->ops, &plan->arena, diag);
}
