// Adds up partial sums over ranks; combine.h has the overview.
#include "team/combine.h"
#include "exec/exec.h"
#include <string.h>

struct dv_combine {
    // Size of the group, the ranks that hold partial sums of the same results;
    // this rank's number in it.
    int64_t n_members, me;
    int64_t n_parts; // number of accumulators of one rank
    int64_t bytes;   // bytes of one accumulator
    dv_compute_type compute;
    dv_reducer reducer;
    char *parts; // this rank's accumulators, then the group's sums
    // The accumulators of this rank's share of the results, one set from each
    // rank of the group (the ranks with partial sums of the same results).
    char *shares;
    dv_message_set *scatter, *gather;
};

static dv_range share_of(const dv_combine *c, int64_t member)
{
    return dv_dist_part(c->n_parts, c->n_members, member);
}

// Adds up this rank's share of the results over all ranks of the group (which
// hold partial sums of the same results), in order. Stores the sums in their
// place in c->parts.
static void add_up(dv_combine *c)
{
    dv_range mine = share_of(c, c->me);
    size_t bytes = (size_t)(mine.size * c->bytes);
    char *to = c->parts + mine.off * c->bytes;
    char *first = c->shares;
    memcpy(c->shares + (size_t)c->me * bytes, to, bytes);
    for (int64_t m = 1; m < c->n_members; m++) {
        void *by = c->shares + (size_t)m * bytes;
        dv_accumulate(c->compute, c->reducer, first, by, mine.size);
    }
    memcpy(to, first, bytes);
}

static dv_status carry(dv_comm *comm, dv_message_set *w)
{
    DV_TRY(comm->ops->start(comm, w));
    while (comm->ops->next(comm, w) >= 0)
        ;
    return comm->ops->finish(comm, w);
}

char *dv_combine_parts(dv_combine *c)
{
    return c->parts;
}

dv_status dv_combine_run(dv_combine *c, dv_comm *comm)
{
    DV_TRY(carry(comm, c->scatter));
    add_up(c);
    return carry(comm, c->gather);
}

// Lists the ranks of the group (those with partial sums of the same results) in
// order: those that differ from this rank only along grid axes that split the
// reduction. Sets c->me.
static int64_t *members_of(dv_combine *c, const dv_plan_team *t,
                           const dv_axis_binding *binds, int64_t rank,
                           dv_arena *arena)
{
    int64_t *out = DV_NEW(arena, int64_t, c->n_members);
    uint32_t axes = 0;
    for (int a = 0; a < t->n_axes; a++)
        axes |= binds[a].d && binds[a].reduced ? 1u << a : 0;
    if (out)
        c->me = dv_grid_members(out, t->grid, t->n_axes, rank, axes);
    return out;
}

static dv_status open_message_sets(dv_combine *c, dv_comm *comm,
                                   const int64_t *members, int32_t number,
                                   dv_arena *arena, dv_diag *diag)
{
    dv_range mine = share_of(c, c->me);
    dv_message_buffer *theirs = DV_NEW(arena, dv_message_buffer, c->n_members);
    dv_message_buffer *ours = DV_NEW(arena, dv_message_buffer, c->n_members);
    dv_message_buffer *all = DV_NEW(arena, dv_message_buffer, c->n_members);
    int32_t n_theirs = 0, n_ours = 0;
    if (!theirs || !ours || !all)
        return dv_nomem(diag);
    for (int64_t m = 0; m < c->n_members; m++) {
        dv_range s = share_of(c, m);
        if (m != c->me && s.size)
            theirs[n_theirs++] = (dv_message_buffer){
                members[m], c->parts + s.off * c->bytes, s.size * c->bytes};
        if (m == c->me || !mine.size)
            continue;
        int64_t bytes = mine.size * c->bytes;
        ours[n_ours] =
            (dv_message_buffer){members[m], c->shares + m * bytes, bytes};
        all[n_ours++] = (dv_message_buffer){
            members[m], c->parts + mine.off * c->bytes, bytes};
    }
    DV_TRY(comm->ops->open(comm, &c->scatter, number, theirs, n_theirs, ours,
                           n_ours, diag));
    return comm->ops->open(comm, &c->gather, number + 1, all, n_ours, theirs,
                           n_theirs, diag);
}

dv_status dv_combine_create(dv_combine **out, const dv_plan *plan, int32_t op,
                            dv_comm *comm, const dv_iter_space *target,
                            int has_target, int32_t *n_message_sets,
                            dv_arena *arena, dv_diag *diag)
{
    const dv_op *o = &plan->ops->ops[op];
    dv_axis_binding binds[DV_MAX_AXES];
    int64_t n = 1;
    dv_team_binds(binds, plan->ops, &plan->team, op);
    for (int a = 0; a < plan->team.n_axes; a++)
        n *= binds[a].d && binds[a].reduced ? plan->team.grid[a] : 1;
    *out = NULL;
    if (n == 1)
        return DV_OK;
    int32_t number = *n_message_sets;
    *n_message_sets += 2;
    if (!has_target)
        return DV_OK;
    dv_combine *c = DV_NEW(arena, dv_combine, 1);
    if (!c)
        return dv_nomem(diag);
    c->n_members = n;
    c->compute = dv_op_compute(plan->ops, o);
    c->bytes = c->compute == DV_IN_F32 ? 4 : 8;
    c->reducer = (dv_reducer)dv_op_reduce(o)->fn;
    c->n_parts = 1;
    for (int v = 0; v < o->n_vars; v++)
        c->n_parts *= o->vars[v].reduce ? 1 : target->end[v] - target->begin[v];
    int64_t *members = members_of(c, &plan->team, binds, comm->rank, arena);
    c->parts = dv_arena_buffer(arena, (size_t)(c->n_parts * c->bytes));
    c->shares =
        dv_arena_buffer(arena, (size_t)((c->n_parts / n + 1) * n * c->bytes));
    if (!members || !c->parts || !c->shares)
        return dv_nomem(diag);
    // Writing the memory makes the system map its pages before the run.
    memset(c->parts, 0, (size_t)(c->n_parts * c->bytes));
    memset(c->shares, 0, (size_t)((c->n_parts / n + 1) * n * c->bytes));
    *out = c;
    return open_message_sets(c, comm, members, number, arena, diag);
}

void dv_combine_close(dv_combine *c, dv_comm *comm)
{
    if (!c)
        return;
    comm->ops->close(comm, c->scatter);
    comm->ops->close(comm, c->gather);
}
