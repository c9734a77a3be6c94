// Chooses scratchpad homes (tensors resident on the cores), then tries whether
// another order of ops, or recomputing some tensors, saves more main memory
// traffic. The effort is limited by a count and, if there is one, the time
// limit; the plan never gets worse.
#include "base/stop.h"
#include "plan/traffic.h"
#include "joint/joint.h"
#include <string.h>

// MAX_WORK limits the candidates for scratchpad homes (resident tensors)
// examined in all tries together. Plans with more than MAX_OPS ops are not
// improved.
enum { MAX_WORK = 2000, MAX_OPS = 4000 };

typedef struct improver {
    dv_plan *plan;
    const dv_scratch_rules *rules;
    dv_arena *arena;
    dv_diag *diag;
    // The best plan so far, as it was before tensors were chosen to be resident
    // in the scratchpads.
    dv_plan_snapshot best;
    // Bytes that the best plan reads from and writes to main memory.
    double bytes;
    int changed;
    int64_t work;
    // Live ranges of the tensors of the best plan; valid if `known` is set.
    dv_life life;
    int known;
} improver;

// Chooses scratchpad homes (tensors resident on the cores) for the current plan
// and measures its main memory traffic. Keeps the plan if it is the best so
// far.
static dv_status assess(improver *x)
{
    dv_plan_snapshot now;
    if (!dv_plan_snapshot_save(&now, x->plan, x->arena))
        return dv_nomem(x->diag);
    DV_TRY(dv_scratch_choose_homes(x->plan, x->rules, x->arena, x->diag));
    double bytes = (double)dv_plan_memory_bytes(x->plan);
    x->work += x->plan->scratch.n_residents;
    if (bytes < x->bytes) {
        x->bytes = bytes;
        x->best = now;
        x->changed = 1;
        x->known = 0;
    }
    return DV_OK;
}

// Returns the largest tensor that found no room in the scratchpads and has not
// been tried yet, or -1.
static int32_t largest_unplaced(const dv_plan *plan, const uint8_t *tried)
{
    const dv_scratch *s = &plan->scratch;
    int32_t best = -1;
    int64_t most = 0;
    for (int32_t i = 0; i < s->n_residents; i++) {
        const dv_resident *r = &s->residents[i];
        if (r->crowded && !tried[r->tensor] && r->core_bytes > most) {
            most = r->core_bytes;
            best = r->tensor;
        }
    }
    return best;
}

// Restores the best plan, and computes its live ranges if `life` does not have
// them yet.
static dv_status restore_best(improver *x)
{
    dv_plan_snapshot_restore(&x->best, x->plan);
    if (x->known)
        return DV_OK;
    if (!dv_life_make(&x->life, x->plan, x->rules, NULL, x->arena))
        return dv_nomem(x->diag);
    x->known = 1;
    return DV_OK;
}

// Restores the best plan and changes it in one way: reorders its ops (tensor <
// 0) or computes a tensor twice. Keeps the change if it saves traffic.
static dv_status try_change(improver *x, int32_t tensor)
{
    DV_TRY(restore_best(x));
    int done = tensor < 0 ? dv_reorder(x->plan, &x->life)
                          : dv_recompute(x->plan, &x->life, tensor);
    if (done < 0)
        return dv_nomem(x->diag);
    return done ? assess(x) : DV_OK;
}

static dv_status improve(improver *x)
{
    uint8_t *tried = DV_NEW(x->arena, uint8_t, x->plan->ops->n_tensors);
    dv_scratch first = x->plan->scratch;
    if (!tried)
        return dv_nomem(x->diag);
    if (largest_unplaced(x->plan, tried) < 0)
        // All candidates are resident in scratchpads already, so nothing can be
        // improved.
        return DV_OK;
    if (x->rules->reorder && !dv_stop_late())
        DV_TRY(try_change(x, -1));
    for (int32_t t;
         x->rules->recompute && x->work < MAX_WORK && !dv_stop_late();) {
        // Look for tensors that found no room in the scratchpads when residents
        // were first chosen.
        x->plan->scratch = first;
        t = largest_unplaced(x->plan, tried);
        if (t < 0)
            break;
        tried[t] = 1;
        DV_TRY(try_change(x, t));
    }
    dv_plan_snapshot_restore(&x->best, x->plan);
    if (x->changed)
        DV_TRY(dv_reorder_finish(x->plan, x->diag));
    return dv_scratch_choose_homes(x->plan, x->rules, x->arena, x->diag);
}

dv_status dv_joint_improve(dv_plan *plan, const dv_scratch_rules *rules,
                           dv_arena *arena, dv_diag *diag)
{
    improver x = {.plan = plan, .rules = rules, .arena = arena, .diag = diag};
    int may =
        (rules->reorder || rules->recompute) && plan->ops->n_ops <= MAX_OPS;
    if (may && !dv_plan_snapshot_save(&x.best, plan, arena))
        return dv_nomem(diag);
    DV_TRY(dv_scratch_choose_homes(plan, rules, arena, diag));
    x.bytes = (double)dv_plan_memory_bytes(plan);
    return may ? improve(&x) : DV_OK;
}
