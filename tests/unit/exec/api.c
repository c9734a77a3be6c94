// Options, executors, times and kernels through the public calls.
#include "harness/test.h"
#include "divvy/einsum.h"
#include "divvy/grid.h"
#include "divvy/nest.h"
#include "divvy/place.h"
#include "harness/unit.h"

static const char text[] = "input a: f32[32, 32]\ninput b: f32[32, 32]\n"
                           "c[m,n] = sum[k] a[m,k] * b[k,n]\n"
                           "s[] = sum[m,n] c[m,n]\noutput c, s\n";

// A caller's options may be of an older or a newer header; those that were not
// initialised are refused.
TEST(sizes_of_options)
{
    dv_plan_options o = DV_PLAN_OPTIONS_INIT;
    struct {
        dv_plan_options known;
        int64_t newer;
    } longer = {DV_PLAN_OPTIONS_INIT, 0};
    dv_program *p = program_of(text);
    dv_target *t = target_of("host");
    dv_plan *plan = NULL;
    dv_diag *diag = dv_diag_create();
    o.threads = 3;
    o.policy = "no such policy"; // not in the struct of the older header
    o.size = offsetof(dv_plan_options, policy);
    assert_int_equal(dv_plan_create(&plan, p, t, &o, diag), DV_OK);
    assert_int_equal(plan->target.cores, 3);
    dv_plan_destroy(plan);
    o.size = 0;
    assert_int_equal(dv_plan_create(&plan, p, t, &o, diag), DV_E_USAGE);
    assert_non_null(strstr(dv_diag_text(diag), "size of dv_plan_options is 0"));
    dv_diag_clear(diag);
    // A size that was not initialised must not be walked through, and one that
    // ends inside a field is that of no header.
    o.size = (size_t)1 << 40;
    assert_int_equal(dv_plan_create(&plan, p, t, &o, diag), DV_E_USAGE);
    assert_non_null(strstr(dv_diag_text(diag), "INIT macro"));
    dv_diag_clear(diag);
    o.size = offsetof(dv_plan_options, policy) + 4;
    assert_int_equal(dv_plan_create(&plan, p, t, &o, diag), DV_E_USAGE);
    dv_diag_clear(diag);
    longer.known.size = sizeof longer;
    assert_int_equal(dv_plan_create(&plan, p, t, &longer.known, diag), DV_OK);
    dv_plan_destroy(plan);
    longer.newer = 1;
    assert_int_equal(dv_plan_create(&plan, p, t, &longer.known, diag),
                     DV_E_USAGE);
    assert_non_null(strstr(dv_diag_text(diag), "older than the header"));
    dv_diag_destroy(diag);
    dv_target_destroy(t);
    dv_program_destroy(p);
}

// Enums and counts out of range are refused by every call that takes options.
TEST(wrong_values)
{
    dv_plan_options o = DV_PLAN_OPTIONS_INIT;
    dv_program *p = program_of(text);
    dv_target *t = target_of("host");
    dv_plan *plan = NULL;
    o.joint = (dv_joint)9;
    assert_int_equal(dv_plan_create(&plan, p, t, &o, NULL), DV_E_USAGE);
    o = (dv_plan_options)DV_PLAN_OPTIONS_INIT;
    o.team = -1;
    assert_int_equal(dv_plan_create(&plan, p, t, &o, NULL), DV_E_USAGE);
    o = (dv_plan_options)DV_PLAN_OPTIONS_INIT;
    o.time_limit_s = -1;
    assert_int_equal(dv_plan_create(&plan, p, t, &o, NULL), DV_E_USAGE);
    assert_int_equal(dv_plan_create(&plan, p, t, NULL, NULL), DV_OK);
    assert_int_equal(dv_plan_emit(plan, (dv_emit_format)7, "x", NULL),
                     DV_E_USAGE);
    assert_int_equal(dv_plan_emit(plan, DV_EMIT_C, NULL, NULL), DV_E_USAGE);
    dv_exec *x = NULL;
    assert_int_equal(dv_exec_create(&x, plan, NULL), DV_OK);
    assert_int_equal(dv_exec_use(x, (dv_executor)99, NULL), DV_E_USAGE);
    assert_int_equal(dv_exec_executor(x), DV_RUN_THREADS);
    dv_exec_destroy(x);
    dv_plan_destroy(plan);
    assert_null(dv_program_json(p, (dv_grain)99));
    dv_nest *nest = NULL;
    assert_int_equal(dv_nest_derive(&nest, NULL, p, (dv_grain)99, "c", NULL),
                     DV_E_USAGE);
    assert_int_equal(dv_nest_derive(&nest, NULL, p, DV_GRAIN_SOURCE, "c", NULL),
                     DV_E_USAGE);
    dv_target_destroy(t);
    dv_program_destroy(p);

    dv_buffer b = DV_BUFFER_INIT;
    dv_place_options place = DV_PLACE_OPTIONS_INIT;
    dv_placement *placed = NULL;
    b.size_bytes = b.end = 1;
    place.capacity_bytes = 1;
    place.solver = (dv_solver)7;
    assert_int_equal(dv_place(&placed, &b, 1, &place, NULL), DV_E_USAGE);
    place.solver = DV_SOLVER_AUTO;
    place.budget = -1;
    assert_int_equal(dv_place(&placed, &b, 1, &place, NULL), DV_E_USAGE);
    place.budget = 0;
    place.solver = (dv_solver)99;
    assert_int_equal(dv_place_least(&placed, NULL, &b, 1, &place, NULL),
                     DV_E_USAGE);
    place.solver = DV_SOLVER_AUTO;
    assert_int_equal(dv_place_least(&placed, NULL, &b, 1, &place, NULL), DV_OK);
    dv_placement_destroy(placed);

    dv_grid_task task = DV_GRID_TASK_INIT;
    dv_grid *grid = NULL;
    task.n_dims = 99;
    assert_int_equal(dv_grid_create(&grid, &task, NULL), DV_E_USAGE);
    task.n_dims = 2;
    assert_int_equal(dv_grid_create(&grid, &task, NULL), DV_E_USAGE);
    task.size = 0;
    assert_int_equal(dv_grid_create(&grid, &task, NULL), DV_E_USAGE);
}

// A list that has entries has memory for them.
TEST(missing_lists)
{
    dv_plan_options o = DV_PLAN_OPTIONS_INIT;
    dv_program *p = program_of(text);
    dv_target *t = target_of("wormhole");
    dv_plan *plan = NULL;
    const char *pin[1] = {NULL};
    o.n_allowed = 1;
    assert_int_equal(dv_plan_create(&plan, p, t, &o, NULL), DV_E_USAGE);
    o.n_allowed = 0, o.n_holes = 1;
    assert_int_equal(dv_plan_create(&plan, p, t, &o, NULL), DV_E_USAGE);
    o.n_holes = 0, o.n_bars = 1;
    assert_int_equal(dv_plan_create(&plan, p, t, &o, NULL), DV_E_USAGE);
    o.bars = pin;
    assert_int_equal(dv_plan_create(&plan, p, t, &o, NULL), DV_E_USAGE);
    o.n_bars = 0, o.n_pins = 1;
    assert_int_equal(dv_plan_create(&plan, p, t, &o, NULL), DV_E_USAGE);
    o.pins = pin;
    assert_int_equal(dv_plan_create(&plan, p, t, &o, NULL), DV_E_USAGE);
    dv_target_destroy(t);
    dv_program_destroy(p);

    const int64_t shape[] = {64, 64};
    dv_grid_task task = DV_GRID_TASK_INIT;
    dv_grid *grid = NULL;
    task.shape = shape, task.n_dims = 2;
    task.core_cols = task.core_rows = 2;
    task.n_allowed = 1;
    assert_int_equal(dv_grid_create(&grid, &task, NULL), DV_E_USAGE);
    task.n_allowed = 0, task.n_holes = 1;
    assert_int_equal(dv_grid_create(&grid, &task, NULL), DV_E_USAGE);
    task.n_holes = 0, task.n_shards = 1;
    assert_int_equal(dv_grid_create(&grid, &task, NULL), DV_E_USAGE);
}

// A buffer's first use is what first_use_is_read says; its weight depends on
// it.
TEST(first_use)
{
    const dv_use uses[] = {{0, 0}, {1, 0}, {2, 0}};
    dv_buffer b = DV_BUFFER_INIT;
    dv_place_options o = DV_PLACE_OPTIONS_INIT;
    dv_placement *p = NULL;
    dv_diag *diag = dv_diag_create();
    b.size_bytes = 64, b.end = 3;
    b.uses = uses, b.n_uses = 3;
    o.capacity_bytes = 64;
    assert_int_equal(dv_place(&p, &b, 1, &o, diag), DV_E_BUFFER);
    assert_non_null(strstr(dv_diag_text(diag), "its first use reads it"));
    assert_int_equal(dv_place_least(&p, NULL, &b, 1, &o, NULL), DV_E_BUFFER);
    b.first_use_is_read = 1;
    assert_int_equal(dv_place(&p, &b, 1, &o, NULL), DV_OK);
    assert_int_equal(p->value, 2 * 64);
    dv_placement_destroy(p);
    dv_diag_destroy(diag);
}

// A failed lint leaves its outputs as they were, and a file that is no plan at
// all is an error, not a list of defects.
TEST(lint_of_no_plan)
{
    static const char *const wrong[] = {"", " \n", "# README\n\nhello, world\n",
                                        "some words\n1,2\n", "{"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char *report = NULL;
        int64_t n = 7;
        assert_true(dv_lint(NULL, wrong[i], strlen(wrong[i]), NULL, NULL, &n,
                            &report, NULL) != DV_OK);
        assert_int_equal(n, 7);
        assert_null(report);
    }
}

// The executor can be chosen and asked for; groups are timed on request.
TEST(executors_and_times)
{
    job j;
    double spent[16] = {0};
    start(&j, text, 2, DV_RUN_SEQ);
    assert_int_equal(dv_exec_executor(j.x), DV_RUN_SEQ);
    is_right(&j, 0);
    job_stop(&j);
    start(&j, text, 2, DV_RUN_THREADS);
    assert_int_equal(dv_exec_executor(j.x), DV_RUN_THREADS);
    int32_t n = dv_plan_n_groups(j.plan);
    assert_true(n >= 1 && n <= 16);
    dv_exec_time_groups(j.x, spent);
    is_right(&j, 0);
    for (int32_t g = 0; g < n; g++)
        assert_true(spent[g] > 0);
    job_stop(&j);
}

// An exec keeps its kernels when the shared cache is dropped, and later execs
// get the same bits from new kernels.
TEST(kernels_dropped)
{
    job one, two;
    start_and_run(&one, text, 1);
    dv_kernels_drop();
    dv_kernels_drop(); // of an empty cache
    start_and_run(&two, text, 1);
    same(&one, &two);
    must(dv_exec_run(one.x, NULL) == DV_OK);
    same(&one, &two);
    job_stop(&one);
    dv_kernels_drop();
    must(dv_exec_run(two.x, NULL) == DV_OK);
    job_stop(&two);
}

// The number of the rule that a nest breaks, as docs/cli.md lists them.
TEST(broken_rule)
{
    static const char nest[] = "nest c f32 {\n"
                               "    main gemm\n"
                               "    m 0 seq: in0 1, out 1\n"
                               "}\n";
    dv_nest *n = NULL;
    dv_diag *diag = dv_diag_create();
    assert_int_equal(dv_diag_rule(diag), 0);
    dv_status st = dv_nest_parse(&n, nest, sizeof nest - 1, "n", diag);
    if (st == DV_OK)
        st = dv_nest_check(n, diag);
    assert_int_equal(st, DV_E_NEST);
    assert_int_equal(dv_diag_rule(diag), 2); // wrong_dimension
    dv_nest_destroy(n);
    dv_diag_destroy(diag);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_of_options),
        cmocka_unit_test(wrong_values),
        cmocka_unit_test(missing_lists),
        cmocka_unit_test(first_use),
        cmocka_unit_test(lint_of_no_plan),
        cmocka_unit_test(executors_and_times),
        cmocka_unit_test(kernels_dropped),
        cmocka_unit_test(broken_rule),
    };
    return run_group(tests, NULL, NULL);
}
