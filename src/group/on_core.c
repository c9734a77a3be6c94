// Merges ops that pass data to each other on the core into groups (ops that
// share one tile space).
//
// Consecutive ops form a group while each core has the same tile of all of
// them, no op reads another's result through main memory, and no core waits for
// another core (no copy between cores, no partial sums). Ops that the pass
// scratch runs in one loop over tiles are a group, too.
#include "group/group.h"

int dv_group_alone(const dv_plan *plan, int32_t op)
{
    const dv_op *o = &plan->ops->ops[op];
    return o->is_extern || o->update || dv_access_is_indirect(&o->write) ||
           dv_plan_splits_reduction(plan, op);
}

// Returns whether an earlier access of ops first..op, up to access k of op,
// has the same tensor as access k.
static int is_touched(const dv_program *p, int32_t first, int32_t op, int k)
{
    int32_t t = dv_op_access(&p->ops[op], k)->tensor;
    for (int32_t i = first; i <= op; i++)
        for (int a = 0; a <= p->ops[i].n_reads && (i < op || a < k); a++)
            if (dv_op_access(&p->ops[i], a)->tensor == t)
                return 1;
    return 0;
}

int dv_group_too_many_tensors(const dv_plan *plan, int32_t first, int32_t end)
{
    const dv_program *p = plan->ops;
    int64_t most = plan->target.group_tensors, n = 0;
    for (int32_t i = first; i < end && most; i++)
        for (int a = 0; a <= p->ops[i].n_reads && n <= most; a++)
            n += !is_touched(p, first, i, a);
    return n > most;
}

typedef struct joiner {
    dv_plan *plan;
    // For each op, the innermost repeat loop around it, or -1.
    const int32_t *loop_of;
    // For each op, the number of homes (tensors resident in scratchpads) that
    // are live both before and at it.
    int32_t *across;
    // For each op, 1 if it begins with a copy between cores, so that cores wait
    // for each other.
    uint8_t *waits;
    // For each tensor, the group (ops that share one tile space) that writes
    // it, or -1.
    int32_t *written;
    // For each tensor, the last group that touches it, plus 1; and the number
    // of tensors that the last group touches.
    int32_t *touched;
    int64_t n_touched;
    // For each op, the earliest first op of those homes (tensors resident in
    // scratchpads) whose lifetime ends just before it.
    int32_t *oldest;
} joiner;

// Returns whether op i may be merged into group g (ops that share one tile
// space), whose last op is i - 1.
static int joins(const joiner *j, int32_t g, int32_t i)
{
    const dv_plan *plan = j->plan;
    const dv_op *o = &plan->ops->ops[i];
    const dv_group *at = &plan->groups[g], *own = &plan->groups[i];
    // Groups of which a core has several tiles are merged only if they belong
    // to the same loop over tiles, which was chosen as a whole: homes (resident
    // tensors) of other ops do not hold one tile at a time.
    if (own->same_loop || at->loops || own->loops)
        return own->same_loop;
    if (!j->across[i] || j->waits[i] || dv_group_alone(plan, i) ||
        dv_group_alone(plan, i - 1) || !dv_same_deals(at, own) ||
        j->loop_of[i] != j->loop_of[i - 1])
        return 0;
    for (int r = 0; r < o->n_reads; r++) {
        int32_t home = dv_home_of(plan, i, r);
        if (j->written[o->reads[r].tensor] == g &&
            (home < 0 || plan->scratch.homes[home].fill != DV_FILL_WRITTEN))
            return 0;
    }
    return 1;
}

// Returns how many tensors op i touches that group g does not touch yet.
static int64_t new_tensors(const joiner *j, int32_t g, int32_t i)
{
    const dv_program *p = j->plan->ops;
    int64_t n = 0;
    for (int a = 0; a <= p->ops[i].n_reads; a++)
        n += j->touched[dv_op_access(&p->ops[i], a)->tensor] != g + 1 &&
             !is_touched(p, i, i, a);
    return n;
}

static void touch(joiner *j, int32_t g, int32_t i)
{
    const dv_op *o = &j->plan->ops->ops[i];
    j->n_touched = new_tensors(j, g, i) +
                   (j->plan->groups[g].first_op < i ? j->n_touched : 0);
    for (int a = 0; a <= o->n_reads; a++)
        j->touched[dv_op_access(o, a)->tensor] = g + 1;
}

static int find_edges(joiner *j, dv_arena *a)
{
    const dv_plan *plan = j->plan;
    j->across = DV_NEW(a, int32_t, plan->ops->n_ops + 1);
    j->waits = DV_NEW(a, uint8_t, plan->ops->n_ops + 1);
    j->written = DV_NEW(a, int32_t, plan->ops->n_tensors);
    j->oldest = DV_NEW(a, int32_t, plan->ops->n_ops + 1);
    j->touched = DV_NEW(a, int32_t, plan->ops->n_tensors);
    if (!j->across || !j->waits || !j->written || !j->oldest || !j->touched)
        return 0;
    for (int32_t i = 0; i <= plan->ops->n_ops; i++)
        j->oldest[i] = i;
    for (int32_t t = 0; t < plan->ops->n_tensors; t++)
        j->written[t] = -1;
    for (int32_t i = 0; i < plan->scratch.n_homes; i++) {
        const dv_home *h = &plan->scratch.homes[i];
        j->across[h->first_op + 1]++;
        j->across[h->end_op]--;
        if (h->first_op < j->oldest[h->end_op])
            j->oldest[h->end_op] = h->first_op;
        if (h->fill == DV_FILL_RING)
            // No core may go on while others still copy from its scratchpad.
            j->waits[h->first_op] = j->waits[h->first_op + 1] = 1;
        for (int32_t k = 0; k < h->n_passed_to; k++)
            // While the op runs, cores read each other's scratchpads: none may
            // begin before all others have filled theirs, or go on earlier.
            j->waits[h->passed_to[k]] = j->waits[h->passed_to[k] + 1] = 1;
    }
    for (int32_t i = 1; i <= plan->ops->n_ops; i++)
        j->across[i] += j->across[i - 1];
    return 1;
}

// Marks the groups (ops that share one tile space) after which scratchpads must
// keep their contents: a home (a tensor resident in scratchpads) is live across
// the end of the group, or into the next iteration of a repeat that ends there.
static void mark_ends(const joiner *j)
{
    const dv_plan *plan = j->plan;
    const dv_program *p = plan->ops;
    for (int32_t i = 0; i < p->n_repeats; i++)
        if (p->repeats[i].times > 1 &&
            j->oldest[p->repeats[i].end_op] < p->repeats[i].first_op)
            j->across[p->repeats[i].end_op]++;
    for (int32_t g = 0; g < plan->n_groups; g++)
        plan->groups[g].non_terminal = j->across[plan->groups[g].end_op] > 0;
}

dv_status dv_group_on_core(dv_plan *plan, const int32_t *loop_of,
                           dv_arena *arena, dv_diag *diag)
{
    joiner j = {.plan = plan, .loop_of = loop_of};
    int32_t n = 0;
    int joined = plan->n_groups != plan->ops->n_ops;
    if (!find_edges(&j, arena))
        return dv_nomem(diag);
    for (int32_t i = 0; i < plan->ops->n_ops && !joined; i++) {
        int may = i > 0 && joins(&j, n - 1, i);
        int full = may && plan->target.group_tensors &&
                   j.n_touched + new_tensors(&j, n - 1, i) >
                       plan->target.group_tensors;
        if (may && !full) {
            plan->groups[n - 1].end_op = i + 1;
        } else {
            if (full)
                plan->groups[n - 1].full = 1;
            plan->groups[n] = plan->groups[i];
            plan->groups[n].same_loop = 0;
            n++;
        }
        j.written[plan->ops->ops[i].write.tensor] = n - 1;
        touch(&j, n - 1, i);
    }
    plan->n_groups = joined ? plan->n_groups : n;
    mark_ends(&j);
    return DV_OK;
}
