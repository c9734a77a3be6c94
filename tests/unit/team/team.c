// Teams: the halo bytes of a thousand ranks compared with a formula, a
// published pair of numbers, failing ranks, and running out of memory anywhere.
#include "harness/test.h"
#include "harness/unit.h"
#include "team/team.h"
#include <math.h>

static dv_plan *plan_for(const char *text, int64_t team, const char *grid)
{
    dv_plan_options o = DV_PLAN_OPTIONS_INIT;
    o.team = team;
    o.grid = grid;
    return plan_on(text, "host", NULL, &o);
}

static int64_t received(const dv_plan *plan)
{
    const dv_plan_team *t = &plan->team;
    int64_t sum = 0, sent = 0;
    for (int64_t r = 0; r < dv_plan_team_size(t); r++)
        for (int32_t i = 0; i < t->n_op_exchanges; i++) {
            dv_arena arena = {0};
            dv_op_exchange s;
            assert_true(dv_team_messages(&s, plan->ops, t, i, r, &arena));
            for (int32_t k = 0; k < s.n_receives; k++)
                sum += dv_box_elems(&s.receives[k].box);
            for (int32_t k = 0; k < s.n_sends; k++)
                sent += dv_box_elems(&s.sends[k].box);
            dv_arena_free(&arena);
        }
    assert_int_equal(sum, sent);
    return sum;
}

static const char heat[] =
    "input u: f64[1024, 1024]\n"
    "repeat 3 {\n"
    "u[i,j] <- 0.25 * (u[i-1,j] + u[i+1,j] + u[i,j-1] + u[i,j+1]) "
    "for i in 1..1023, j in 1..1023\n}\noutput u\n";

// Every cut of a dim moves two rows of 1022 elements.
TEST(test_thousand)
{
    dv_plan *plan = plan_for(heat, 1024, NULL);
    assert_int_equal(plan->team.grid[0], 32);
    assert_int_equal(plan->team.grid[1], 32);
    assert_int_equal(received(plan), 2 * 2 * 31 * 1022);
    dv_plan_destroy(plan);
    plan = plan_for(heat, 1024, "1024x1");
    // The first and the last row are not computed, so that some ranks need no
    // row.
    assert_int_equal(received(plan), 2 * 1022 * 1022);
    dv_plan_destroy(plan);
}

// C19: two distant reads of one tensor: the elements between them are not sent.
TEST(test_no_hull)
{
    dv_plan *plan = plan_for("input a: f64[100]\ninput y: f64[100]\n"
                             "y[i] <- a[i] + a[i+90] for i in 0..10\n"
                             "output y\n",
                             4, NULL);
    assert_int_equal(received(plan), 10); // 75 with one bounding box
    dv_plan_destroy(plan);
}

static const char options[] =
    "input s: f64[5]\ninput x: f64[5]\ninput t: f64[5]\n"
    "d1[i] = (log(s[i] / x[i]) + (0.1 + 0.5 * 0.2 * 0.2) * t[i]) / "
    "(0.2 * sqrt(t[i]))\n"
    "d2[i] = d1[i] - 0.2 * sqrt(t[i])\n"
    "n1[i] = 0.5 * (1.0 + erf(d1[i] / 1.4142135623730951))\n"
    "n2[i] = 0.5 * (1.0 + erf(d2[i] / 1.4142135623730951))\n"
    "f[i] = x[i] * exp(-(0.1 * t[i]))\n"
    "call[i] = s[i] * n1[i] - f[i] * n2[i]\n"
    "put[i] = f[i] * (1.0 - n2[i]) - s[i] * (1.0 - n1[i])\n"
    "output call, put\n";

// The published prices of a call and a put option (benchmark_golden-182).
TEST(test_options)
{
    for (int64_t team = 1; team <= 7; team++) {
        dv_plan *plan = plan_for(options, team, NULL);
        double s[5], x[5], t[5], call[5], put[5];
        for (int i = 0; i < 5; i++) {
            s[i] = 49.81959369901096;
            x[i] = 40.13264789835957;
            t[i] = 1.8994311692123782;
        }
        void *data[16] = {0};
        const char *names[] = {"s", "x", "t", "call", "put"};
        void *buffers[] = {s, x, t, call, put};
        int64_t bytes = -1;
        for (int i = 0; i < 5; i++)
            data[dv_program_find(plan->ops, names[i])] = buffers[i];
        assert_int_equal(dv_team_run(plan, data, &bytes, NULL, NULL), DV_OK);
        assert_int_equal(bytes, 0);
        for (int i = 0; i < 5; i++) {
            assert_true(fabs(call[i] - 16.976097804669887) < 1e-13);
            assert_true(fabs(put[i] - 0.34645174725098116) < 1e-13);
        }
        dv_plan_destroy(plan);
    }
}

// An index is out of bounds on one rank: all ranks stop, and the error is
// reported.
TEST(test_failing_rank)
{
    dv_plan *plan = plan_for("input v: f64[8]\ninput p: i64[8]\n"
                             "repeat 3 {\n"
                             "y[i] = v[p[i]]\n"
                             "v[i] <- y[7-i] for i in 0..8\n}\n"
                             "output v\n",
                             4, NULL);
    double v[8] = {0};
    int64_t p[8] = {0, 1, 2, 3, 4, 99, 6, 7};
    void *data[8] = {0};
    data[dv_program_find(plan->ops, "v")] = v;
    data[dv_program_find(plan->ops, "p")] = p;
    dv_diag *diag = dv_diag_create();
    assert_int_equal(dv_team_run(plan, data, NULL, NULL, diag), DV_E_BOUNDS);
    assert_non_null(strstr(dv_diag_text(diag), "99"));
    dv_diag_destroy(diag);
    dv_plan_destroy(plan);
}

static const char mixed[] = "input x: f64[9, 6]\n"
                            "r[i] = sum[j] x[i,j]\n"
                            "y[i,j] = x[i,j] / r[i]\n"
                            "repeat 2 {\n"
                            "y[i,j] <- y[i-1,j] for i in 1..9, j in 0..6\n}\n"
                            "output y\n";

// Plans, checks, reads back and prepares a rank.
static dv_status all_of_it(const dv_program *p, const dv_target *t)
{
    dv_plan *plan = NULL, *again = NULL;
    dv_local *team = NULL;
    dv_rank *rank = NULL;
    char *text = NULL;
    dv_plan_options o = DV_PLAN_OPTIONS_INIT;
    o.grid = "2x2";
    o.rank = 1;
    dv_status st = dv_plan_create(&plan, p, t, &o, NULL);
    if (st == DV_OK)
        st = dv_plan_check(plan, NULL);
    if (st == DV_OK && !(text = dv_plan_text(plan)))
        st = DV_E_NOMEM;
    if (st == DV_OK)
        st = dv_plan_parse(&again, text, strlen(text), "again", NULL, NULL,
                           NULL);
    if (st == DV_OK)
        st = dv_local_create(&team, 4, NULL);
    if (st == DV_OK)
        st = dv_rank_create(&rank, plan, dv_local_rank(team, 1), NULL, NULL);
    dv_free(text);
    if (st == DV_OK && !(text = dv_plan_json(plan)))
        st = DV_E_NOMEM;
    if (st == DV_OK)
        dv_free(text);
    dv_rank_destroy(rank);
    dv_local_destroy(team);
    dv_plan_destroy(again);
    dv_plan_destroy(plan);
    return st;
}

TEST(test_oom)
{
    dv_program *p = program_of(mixed);
    dv_target *host = target_of("host");
    dv_status st = DV_E_NOMEM;
    int64_t n = 0;
    for (; st != DV_OK; n++) {
        dv_mem_fail_at(n);
        st = all_of_it(p, host);
        assert_true(st == DV_OK || st == DV_E_NOMEM);
    }
    dv_mem_fail_at(-1);
    assert_true(n > 30);
    dv_target_destroy(host);
    dv_program_destroy(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_thousand), cmocka_unit_test(test_no_hull),
        cmocka_unit_test(test_options), cmocka_unit_test(test_failing_rank),
        cmocka_unit_test(test_oom)};
    return run_group(tests, NULL, NULL);
}
