#include "harness/teams.h"
#include "harness/case.h"
#include <inttypes.h>
#include <string.h>

dv_plan *teams_plan(const dv_program *p, const dv_target *t, int64_t size,
                    int64_t rank, const char *grid)
{
    dv_plan *plan = NULL;
    dv_diag *diag = dv_diag_create();
    dv_plan_options o = DV_PLAN_OPTIONS_INIT;
    o.team = size;
    o.rank = rank;
    o.grid = grid;
    if (dv_plan_create(&plan, p, t, &o, diag))
        case_no("no plan: %s", dv_diag_text(diag));
    else if (dv_plan_check(plan, diag)) {
        case_no("a plan fails its check: %s", dv_diag_text(diag));
        dv_plan_destroy(plan);
        plan = NULL;
    }
    dv_diag_destroy(diag);
    return plan;
}

int teams_same_bits(const dv_program *p, void *const *a, void *const *b)
{
    for (int i = 0; i < p->n_tensors; i++) {
        const dv_tensor *t = &p->tensors[i];
        size_t size = (size_t)dv_dtype_get(t->dtype)->size_bytes;
        for (int64_t k = 0; t->is_output && k < t->n_elems; k++) {
            const char *x = (const char *)a[i] + (size_t)k * size;
            const char *y = (const char *)b[i] + (size_t)k * size;
            double v = dv_load(t->dtype, x, 0), w = dv_load(t->dtype, y, 0);
            if (memcmp(x, y, size) != 0 && !(v != v && w != w))
                return case_no("%s: element %d is %.17g, is %.17g alone",
                               t->name, (int)k, w, v);
        }
    }
    return 1;
}

// Bytes that all ranks lack before a swap.
int64_t teams_needed(const dv_plan *plan, int32_t swap)
{
    const dv_team *t = &plan->team;
    int64_t sum = 0;
    for (int64_t r = 0; r < dv_team_size(t); r++) {
        dv_arena arena = {0};
        dv_boxes need = {0};
        dv_team_need(&need, plan->ops, t, &t->swaps[swap], r, &arena);
        sum += dv_boxes_elems(&need) *
               dv_elem_bytes(plan->ops, t->swaps[swap].tensor);
        dv_arena_free(&arena);
    }
    return sum;
}

// Every exchange carried what was needed, each time, and nothing else did.
int teams_carried(const dv_plan *plan, const dv_moved_all *moved)
{
    int64_t sum = 0;
    for (int32_t i = 0; i < plan->team.n_swaps; i++) {
        const dv_carried *c = &moved->swaps[i];
        int64_t want = teams_needed(plan, i) * c->times;
        if (c->bytes != want)
            return case_no("exchange %d: %" PRId64 " bytes moved in %" PRId64
                           " times, %" PRId64 " needed",
                           (int)i, c->bytes, c->times, want);
        sum += c->bytes;
    }
    return plan->team.n_follows > 0 || sum == moved->bytes ||
           case_no("%" PRId64 " bytes moved, %" PRId64 " by exchanges",
                   moved->bytes, sum);
}

int teams_right(const dv_program *p, const dv_plan *plan, void *const *before,
                void *const *after, dv_diag *diag)
{
    dv_verdict v;
    if (dv_verify(&v, p, plan, before, after, NULL, NULL, diag))
        return case_no("it cannot be verified: %s", dv_diag_text(diag));
    return v.ok || case_no("%s: residual %g, at most %g", v.tensor, v.residual,
                           v.threshold);
}
