// Random programs on random teams of simulated machines: every rank has a
// device of its own. Results are within the oracle's bounds, and the bytes that
// each rank moved in main memory and between cores are those that its plan
// predicts.
#include "harness/test.h"
#include "harness/teams.h"
#include "plan/traffic.h"
#include <inttypes.h>

static int counts_agree(const dv_plan *plan, const dv_sim_traffic *moved)
{
    for (int64_t i = 0; i < dv_plan_team_size(&plan->team); i++) {
        const dv_rank_class *c = dv_plan_class_of(plan, i);
        dv_traffic t = dv_plan_traffic(c->plan);
        if (t.exact && (t.read_bytes != moved[i].read_bytes ||
                        t.write_bytes != moved[i].write_bytes ||
                        t.ring_bytes != moved[i].ring_bytes))
            return case_no("rank %" PRId64 ": %" PRId64 ", %" PRId64
                           " and %" PRId64 " bytes were read, written and on "
                           "the ring; predicted were %" PRId64 ", %" PRId64
                           " and %" PRId64,
                           i, moved[i].read_bytes, moved[i].write_bytes,
                           moved[i].ring_bytes, t.read_bytes, t.write_bytes,
                           t.ring_bytes);
    }
    return 1;
}

static int team_agrees(const dv_program *p, const dv_target *t, rng *r,
                       int *n_run)
{
    dv_plan_options o = DV_PLAN_OPTIONS_INIT;
    o.team = 1 + rng_below(r, 6);
    o.cores = 1 + rng_below(r, 8);
    dv_plan *plan = case_plan(p, t, &o);
    if (!plan)
        return 0;
    dv_diag *diag = dv_diag_create();
    dv_sim_traffic *moved = calloc((size_t)o.team, sizeof *moved);
    dv_team_traffic all = {.ranks = moved};
    void **before = case_buffers(plan->ops), **after = case_buffers(plan->ops);
    int ok = case_reads_back(plan);
    dv_status st = ok ? dv_team_run_as(plan, NULL, after, &all, diag) : DV_OK;
    // A machine that stores i64 in 32 bits refuses values that do not fit.
    int refused = st == DV_E_OVERFLOW;
    if (ok && st && !refused)
        ok = case_no("it does not run: %s", dv_diag_text(diag));
    if (ok && !refused)
        ok = case_right(p, plan, before, after) && counts_agree(plan, moved);
    *n_run += ok && !refused;
    if (!ok)
        case_show(plan);
    free(moved);
    case_free(before, plan->ops);
    case_free(after, plan->ops);
    dv_diag_destroy(diag);
    dv_plan_destroy(plan);
    return ok;
}

static void try_random(gen_mode mode, int cases)
{
    static const char *const names[] = {"spyre", "wormhole", "blackhole"};
    uint64_t seed = gen_seed();
    int n_run = 0, n = gen_cases(cases);
    for (int i = 0; i < n; i++) {
        rng r = {(seed + (uint64_t)i) ^ 0x2545f491};
        char *text = gen_program(seed + (uint64_t)i, mode);
        dv_program *p = case_program(text);
        dv_target *t = NULL;
        int ok = p && !dv_target_load(&t, names[rng_below(&r, 3)], NULL) &&
                 team_agrees(p, t, &r, &n_run);
        if (!ok)
            gen_report("prop_team_simulated", seed + (uint64_t)i, mode, text,
                       case_why());
        dv_target_destroy(t);
        dv_program_destroy(p);
        free(text);
        assert_true(ok);
    }
    assert_true(n_run * 2 > n);
}

TEST(test_integers)
{
    try_random(GEN_INTEGERS, 100);
}

TEST(test_floats)
{
    try_random(GEN_FLOATS, 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_integers),
                                       cmocka_unit_test(test_floats)};
    return run_group(tests, case_set_up, case_tear_down);
}
