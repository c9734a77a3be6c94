// Notes the prices of the plans that the search compares, so that a report can
// say for each op what the best of them costs that cuts it otherwise.
#include "base/hash.h"
#include "joint/joint.h"

// A plan that was compared with others: its price, and for each op a hash of
// its slices.
struct dv_joint_trial {
    dv_joint_price price;
    uint64_t *cuts;
    dv_joint_trial *next;
};

static uint64_t cut_of(const dv_plan *plan, int32_t op)
{
    return dv_hash(DV_HASH, plan->slices[op],
                   (size_t)plan->ops->ops[op].n_vars * sizeof **plan->slices);
}

dv_joint_trial *dv_joint_begin_trial(const dv_plan *plan, dv_arena *arena)
{
    dv_joint_trial *t = DV_NEW(arena, dv_joint_trial, 1);
    if (!t)
        return NULL;
    t->cuts = DV_NEW(arena, uint64_t, plan->ops->n_ops);
    for (int32_t i = 0; t->cuts && i < plan->ops->n_ops; i++)
        t->cuts[i] = cut_of(plan, i);
    return t->cuts ? t : NULL;
}

void dv_joint_end_trial(dv_joint_tried *tried, dv_joint_trial *t,
                        const dv_joint_price *price)
{
    t->price = *price;
    t->next = tried->last;
    tried->last = t;
}

void dv_joint_report_tried(const dv_joint_tried *tried, dv_plan *plan,
                           const dv_joint_price *price)
{
    for (int32_t i = 0; i < plan->ops->n_ops; i++) {
        dv_division *d = &plan->divisions[i];
        const dv_joint_trial *best = NULL;
        uint64_t cut = cut_of(plan, i);
        d->n_otherwise = 0;
        for (const dv_joint_trial *t = tried->last; t; t = t->next) {
            if (t->cuts[i] == cut)
                continue;
            d->n_otherwise++;
            if (!best || dv_joint_cheaper(&t->price, &best->price))
                best = t;
        }
        if (best) {
            d->otherwise_us = best->price.us - price->us;
            d->otherwise_bytes = best->price.bytes - price->bytes;
        }
    }
}
