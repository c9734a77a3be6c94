// Ranks that are planned again when they run obey the pins of the team's plan:
// without overlap, with other threads, and in a team that is too large for the
// plans of all ranks; also if the plan was read from its text.
#include "harness/test.h"
#include "harness/unit.h"
#include "team/team.h"

static const char text[] = "input a: f32[384, 64] @ split(0)\n"
                           "b[i,j] = a[i,j] * 2\n"
                           "c[i,j] = exp(b[i,j])\n"
                           "output b, c\n";

// A rank without messages needs no function of its communicator.
static const dv_comm_ops silent = {.name = "silent"};

static void check_rank(const dv_plan *team, int64_t rank,
                       const dv_rank_options *how)
{
    dv_comm comm = {.rank = rank, .ops = &silent};
    dv_rank *r = NULL;
    comm.size = dv_plan_team_size(&team->team);
    dv_diag *diag = dv_diag_create();
    if (dv_rank_create(&r, team, &comm, how, diag))
        fail_msg("%s", dv_diag_text(diag));
    const dv_plan *plan = dv_rank_own_plan(r);
    assert_ptr_not_equal(plan, dv_plan_class_of(team, team->team.rank)->plan);
    assert_int_equal(dv_plan_n_slices(plan, op_named(plan, "b"), 0), 4);
    assert_int_equal(dv_plan_n_slices(plan, op_named(plan, "c"), 1), 8);
    dv_rank_destroy(r);
    dv_diag_destroy(diag);
}

// Checks the plan and what is read back from its text.
static void check_plan(int64_t size, int64_t rank, const dv_rank_options *how)
{
    static const char *const pins[] = {"b:i=4", "c:j=8", NULL};
    dv_plan_options o = DV_PLAN_OPTIONS_INIT;
    o.team = size;
    dv_plan *plan = plan_on(text, "host", pins, &o), *again = NULL;
    check_rank(plan, rank, how);
    char *printed = dv_plan_text(plan);
    assert_int_equal(
        dv_plan_parse(&again, printed, strlen(printed), "p", NULL, NULL, NULL),
        DV_OK);
    check_rank(again, rank, how);
    dv_free(printed);
    dv_plan_destroy(again);
    dv_plan_destroy(plan);
}

TEST(test_no_overlap)
{
    dv_rank_options how = {.no_overlap = 1};
    check_plan(2, 1, &how);
}

TEST(test_threads)
{
    dv_rank_options how = {.threads = 3};
    check_plan(2, 0, &how);
}

TEST(test_large_team)
{
    check_plan(24, 7, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_no_overlap),
                                       cmocka_unit_test(test_threads),
                                       cmocka_unit_test(test_large_team)};
    return run_group(tests, case_set_up, case_tear_down);
}
