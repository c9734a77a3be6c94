#include "harness/teams.h"
#include <inttypes.h>

dv_plan *teams_plan(const dv_program *p, const dv_target *t, int64_t size,
                    int64_t rank, const char *grid)
{
    dv_plan_options o = DV_PLAN_OPTIONS_INIT;
    o.team = size;
    o.rank = rank;
    o.grid = grid;
    return case_plan(p, t, &o);
}

int64_t teams_needed(const dv_plan *plan, int32_t exchange)
{
    const dv_plan_team *t = &plan->team;
    int64_t sum = 0;
    for (int64_t r = 0; r < dv_plan_team_size(t); r++) {
        dv_arena arena = {0};
        dv_boxes need = {0};
        dv_team_need(&need, plan->ops, t, &t->op_exchanges[exchange], r,
                     &arena);
        sum += dv_boxes_elems(&need) *
               dv_elem_bytes(plan->ops, t->op_exchanges[exchange].tensor);
        dv_arena_free(&arena);
    }
    return sum;
}

int teams_carried(const dv_plan *plan, const dv_team_traffic *moved)
{
    int64_t sum = 0;
    for (int32_t i = 0; i < plan->team.n_op_exchanges; i++) {
        const dv_exchange_traffic *c = &moved->op_exchanges[i];
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
