// Puts reductions and products that stand between other ops which pass results
// on to each other, without taking part in that, before these ops: only
// consecutive ops can run together tile by tile (joint/cache.c). Ops without a
// reduction can be among them.
//
//   s = q k'                    v = x w
//   e = exp(s - m)      ->      s = q k'
//   v = x w                     e = exp(s - m)
//   o = e v                     o = e v
#include "base/math.h"
#include "plan/source.h"

enum { MOST = 32 }; // most ops that are looked at before and after an op

// Returns whether op b, which follows op a, may be moved before op a.
static int may_swap(const dv_op *a, const dv_op *b)
{
    return !a->is_extern && !b->is_extern && !a->update && !b->update &&
           a->write.tensor != b->write.tensor &&
           !dv_op_reads(a, b->write.tensor) && !dv_op_reads(b, a->write.tensor);
}

// Returns whether a repeat (a loop over ops) begins or ends just before op i.
static int is_edge(const dv_program *p, int32_t i)
{
    for (int32_t k = 0; k < p->n_repeats; k++)
        if (p->repeats[k].first_op == i || p->repeats[k].end_op == i)
            return 1;
    return 0;
}

// Returns the first op that reads the result of op i, among the MOST ops from
// op i on; NULL if none of them does.
static const dv_op *first_reader(const dv_program *p, int32_t i)
{
    int32_t end = (int32_t)dv_min_i64(p->n_ops, i + MOST);
    for (int32_t k = i + 1; k < end; k++)
        if (dv_op_reads(&p->ops[k], p->ops[i].write.tensor))
            return &p->ops[k];
    return NULL;
}

// Returns whether the op uses the same elements of the tensor for several of
// its results. If it ran tile by tile together with the op that writes the
// tensor, each tile would need more than the tensor's elements of that tile.
static int reuses(const dv_op *o, int32_t tensor)
{
    for (int r = 0; r < o->n_reads; r++)
        if (o->reads[r].tensor == tensor &&
            dv_written_vars(o) & ~dv_access_vars(o, &o->reads[r]))
            return 1;
    return 0;
}

// Returns where the chain of ops begins that op i interrupts: at least two
// consecutive ops that end before op i, pass results on to each other and to
// the op that first reads the result of op i, and may all run after op i.
// Returns i if there is no chain.
static int32_t begin_of_chain(const dv_program *p, int32_t i)
{
    const dv_op *o = &p->ops[i], *reader = first_reader(p, i);
    int32_t first = i, least = (int32_t)dv_max_i64(0, i - MOST);
    int passes = reader && dv_op_reduce(o) && reuses(reader, o->write.tensor);
    while (passes && first > least) {
        const dv_op *before = &p->ops[first - 1];
        passes = first == i && dv_op_reads(reader, before->write.tensor);
        for (int32_t k = first; k < i && !passes; k++)
            passes = dv_op_reads(&p->ops[k], before->write.tensor);
        passes = passes && may_swap(before, o) && !is_edge(p, first);
        first -= passes;
    }
    return first < i - 1 ? first : i;
}

dv_status dv_plan_ahead(dv_plan *plan, dv_diag *diag)
{
    dv_program *p = plan->ops;
    int32_t *new_of, moved = 0;
    for (int32_t i = 1; i < p->n_ops; i++) {
        int32_t first = begin_of_chain(p, i);
        dv_op o = p->ops[i];
        moved += first < i;
        for (int32_t k = i; k > first; k--)
            p->ops[k] = p->ops[k - 1];
        p->ops[first] = o;
    }
    if (!moved)
        return DV_OK;
    DV_TRY(dv_program_renumber(p, &new_of, diag));
    return dv_program_name_ops(p, diag);
}
