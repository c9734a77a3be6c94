// Properties of plans that run: whatever the division, the checker accepts the
// plan and the executor gives the same bits, within the oracle's bounds (C1 to
// C8). An invalid division is refused.
#include "harness/test.h"
#include "harness/property.h"
#include "harness/job.h"
#include "harness/random.h"

// -- Random divisions --------------------------------------------------------

static void divide(rng *r, dv_plan *plan)
{
    for (int32_t i = 0; i < plan->n_groups; i++)
        random_deal(r, plan, &plan->groups[i], random_slices(r, plan, i, 0));
    random_merge(r, plan);
    case_choose_loops(plan);
}

static dv_plan *make_plan(const dv_program *p, const dv_target *t)
{
    dv_plan_options o = DV_PLAN_OPTIONS_INIT;
    o.scratch = DV_RESIDENTS_NONE; // homes would not fit the random slices
    return case_plan(p, t, &o);
}

// A random division of the program reads back, and what was read gives the
// results of the plan as it was made, bit by bit.
static int divided_runs_the_same(rng *r, const dv_program *p,
                                 const dv_target *t, const job *want)
{
    dv_diag *diag = dv_diag_create();
    dv_plan *plan = make_plan(p, t), *read = NULL;
    job got = {0};
    divide(r, plan);
    char *text = dv_plan_text(plan);
    int ok = !dv_plan_check(plan, diag) ||
             case_no("a division fails its check: %s", dv_diag_text(diag));
    ok = ok && case_reads_back(plan);
    ok = ok &&
         !dv_plan_parse(&read, text, strlen(text), "divided", NULL, NULL, NULL);
    ok = ok && job_done(&got, read, RUN_AS_PLANNED) &&
         job_same_values(want, &got);
    if (!ok)
        case_show(plan);
    job_stop(&got);
    dv_free(text);
    dv_plan_destroy(plan);
    dv_plan_destroy(read);
    dv_diag_destroy(diag);
    return ok;
}

static int runs(const dv_program *p, uint64_t seed, const dv_target *t)
{
    rng r = {seed ^ 0x5bd1e995};
    dv_plan *plan = make_plan(p, t);
    if (!plan)
        return 0;
    job want = {0};
    int ok = job_done(&want, plan, RUN_AS_PLANNED) && job_right(&want, p);
    if (!ok)
        case_show(plan);
    for (int i = 0; ok && i < 2; i++)
        ok = divided_runs_the_same(&r, p, t, &want);
    job_stop(&want);
    dv_plan_destroy(plan);
    return ok;
}

static int runs_however_divided(const dv_program *p, uint64_t seed)
{
    return runs(p, seed, case_host) && runs(p, seed, case_spyre);
}

// -- What is no division -----------------------------------------------------

typedef int mutation(rng *r, dv_plan *plan); // 0: not possible for this plan

static dv_group *some_group(rng *r, dv_plan *plan)
{
    return &plan->groups[rng_below(r, plan->n_groups)];
}

// G3, C2: a tile is dealt to no core.
static int drop_tile(rng *r, dv_plan *plan)
{
    dv_group *g = some_group(r, plan);
    dv_deal *d = &g->deals[rng_below(r, g->n_deals)];
    if (d->n_tiles > 1)
        d->n_tiles--;
    else
        *d = g->deals[--g->n_deals];
    dv_group_note_deals(g);
    return 1;
}

// G3, C2: a tile is dealt twice.
static int deal_twice(rng *r, dv_plan *plan)
{
    dv_group *g = some_group(r, plan);
    dv_deal *more = DV_NEW(&plan->arena, dv_deal, g->n_deals + 1);
    memcpy(more, g->deals, (size_t)g->n_deals * sizeof *more);
    more[g->n_deals] = (dv_deal){0, rng_below(r, g->n_tiles), 1};
    g->deals = more;
    g->n_deals++;
    dv_group_note_deals(g);
    return 1;
}

// G3, C2: a tile is dealt to a core that the target does not have.
static int no_such_core(rng *r, dv_plan *plan)
{
    dv_group *g = some_group(r, plan);
    g->deals[rng_below(r, g->n_deals)].core =
        plan->target.cores + rng_below(r, 3);
    return 1;
}

// G1, C1: an op is in no group.
static int miss_op(rng *r, dv_plan *plan)
{
    int64_t i = rng_below(r, plan->n_groups);
    memmove(&plan->groups[i], &plan->groups[i + 1],
            (size_t)(plan->n_groups - i - 1) * sizeof *plan->groups);
    plan->n_groups--;
    return 1;
}

// G1, C1: two groups are in the wrong order.
static int swap_ops(rng *r, dv_plan *plan)
{
    if (plan->n_groups < 2)
        return 0;
    int64_t i = rng_below(r, plan->n_groups - 1);
    dv_group t = plan->groups[i];
    plan->groups[i] = plan->groups[i + 1];
    plan->groups[i + 1] = t;
    return 1;
}

// G4, C7: a group crosses the edge of a repeat.
static int cross_repeat(rng *r, dv_plan *plan)
{
    (void)r;
    for (int32_t i = 0; i + 1 < plan->n_groups; i++) {
        dv_group *g = &plan->groups[i];
        for (int k = 0; k < plan->ops->n_repeats; k++) {
            const dv_repeat *x = &plan->ops->repeats[k];
            if (x->first_op != g->end_op && x->end_op != g->end_op)
                continue;
            g->end_op = g[1].end_op;
            memmove(g + 1, g + 2, (size_t)(plan->n_groups - i - 2) * sizeof *g);
            plan->n_groups--;
            return 1;
        }
    }
    return 0;
}

// G4, C7: an extern op is sliced.
static int slice_extern(rng *r, dv_plan *plan)
{
    for (int32_t i = 0; i < plan->n_groups; i++) {
        dv_group *g = &plan->groups[i];
        const dv_op *o = &plan->ops->ops[g->first_op];
        if (!o->is_extern || !o->n_vars || o->vars[0].reduce ||
            o->vars[0].end - o->vars[0].begin < 2)
            continue;
        plan->slices[g->first_op][0] = 1;
        random_deal(r, plan, g, dv_plan_n_tiles(plan, g->first_op));
        return 1;
    }
    return 0;
}

// G2, C6: the group deals more tiles than its ops have.
static int wrong_tiles(rng *r, dv_plan *plan)
{
    dv_group *g = some_group(r, plan);
    g->n_tiles++;
    random_deal(r, plan, g, g->n_tiles);
    return 1;
}

static const struct {
    const char *name;
    mutation *apply;
} mutations[] = {{"drop a tile", drop_tile},
                 {"deal a tile twice", deal_twice},
                 {"core out of range", no_such_core},
                 {"op missing", miss_op},
                 {"ops swapped", swap_ops},
                 {"group across a repeat's edge", cross_repeat},
                 {"extern op sliced", slice_extern},
                 {"one tile too many", wrong_tiles}};

// The plan is refused when its text is read, or when it is checked. If it is
// run all the same, it may compute anything but must not crash.
static int is_refused(const dv_plan *plan)
{
    char *text = dv_plan_text(plan);
    dv_plan *read = NULL;
    int refused = dv_plan_check(plan, NULL) == DV_E_CHECK;
    if (!refused)
        case_no("the checker accepts it");
    if (!dv_plan_parse(&read, text, strlen(text), "wrong", NULL, NULL, NULL)) {
        if (dv_plan_check(read, NULL) != DV_E_CHECK)
            refused = case_no("the checker accepts it as text");
        job j;
        job_done(&j, read, RUN_AS_PLANNED);
        job_stop(&j);
    }
    dv_plan_destroy(read);
    dv_free(text);
    return refused;
}

static int wrong_plans_are_refused(const dv_program *p, uint64_t seed)
{
    rng r = {seed ^ 0x9747b28c};
    int ok = 1;
    for (size_t i = 0; ok && i < sizeof mutations / sizeof *mutations; i++) {
        dv_plan *plan = make_plan(p, seed % 2 ? case_spyre : case_host);
        if (!plan)
            return 0;
        if (plan->n_groups)
            divide(&r, plan);
        if (plan->n_groups && mutations[i].apply(&r, plan)) {
            ok = is_refused(plan);
            if (!ok) {
                case_no("%s: %s", mutations[i].name, case_why());
                case_show(plan);
            }
        }
        dv_plan_destroy(plan);
    }
    return ok;
}

// -- Programs that were hard to get right ------------------------------------

static const char *const hard[] = {
    // A condition that is the same for all elements of a strip.
    "input s: f32[]\ninput x: f32[9]\ninput z: f32[9]\n"
    "a[i] = select(s[] > 2.0, x[i], z[i])\n"
    "b[i] = select(0 * s[], x[i], z[i])\n"
    "c[i] = select(1 > 2, x[i], z[i])\n"
    "d[i,j] = select(x[i], x[j], z[j])\noutput a, b, c, d\n",
    "input s: i32[4]\ninput x: i32[9]\n"
    "a[j,i] = select(s[j] > 0, x[i], 2 - x[i])\noutput a\n",
    // G6: two updates in one group, each of which reads the old values of its
    // own tensor.
    "input u: f32[8]\ninput v: f32[8]\n"
    "u[i] <- u[i-1] + u[i+1]  for i in 1..7\n"
    "v[i] <- v[i-1] - v[i+1]  for i in 1..7\noutput u, v\n",
    "input u: i32[6]\ninput v: i64[6]\ninput w: f64[6]\n"
    "repeat 2 {\n    u[i] <- u[5-i]\n    v[i] <- v[5-i] + 1\n"
    "    w[i] <- w[5-i] * 0.5\n}\noutput u, v, w\n",
    // Real functions of integers, and expressions of constants alone.
    "input x: i32[3]\ny[i]: f32 = x[i] + 0 / 0\noutput y\n",
    "input x: i32[3]\ny[i]: f64 = x[i] + 7 / 2\noutput y\n",
    "y[]: i32 = mean[k] 3  for k in 0..4\noutput y\n",
    "input x: i8[3]\ny[i] = x[i] + (mean[k] 3)  for k in 0..4\noutput y\n",
    "y[i]: i32 = exp(2)  for i in 0..3\noutput y\n",
    "y[i]: i8 = sqrt(-1)  for i in 0..3\noutput y\n",
    // An index that is read from the tensor that is updated.
    "input p: i32[5]\ninput x: f32[5]\n"
    "x[i] <- x[p[i]]\ny[i] = x[p[p[i]]]\noutput x, y\n",
    // Rows longer than one strip, with and without a reducer.
    "input x: f32[600]\ninput a: f32[3, 600]\n"
    "s[] = sum[k] x[k]\nm[i] = max[k] a[i,k] * x[k]\n"
    "x[i] <- x[599-i] * 0.5\nt[i,j] = a[i,599-j] + m[i]\n"
    "output s, m, x, t\n",
    "input a: f64[300, 2]\ninput b: f64[2, 300]\n"
    "c[i,j] = sum[k] a[i,k] * b[k,j]  for i in 0..3, j in 0..3\n"
    "output c\n",
    "input x: f32[4]\noutput x\n",
    "input x: i8[9]\ny[]: i32 = sum[k] x[k]\nz[]: f32 = max[k] x[k]\n"
    "output y, z\n",
};

CASE_PROPERTY(runs_however_divided, 300, 19)
CASE_PROPERTY(wrong_plans_are_refused, 300, 19)

// -- Plans that are not finished ---------------------------------------------

// C1: the executor refuses a plan without groups, and accesses nothing that is
// missing.
TEST(unfinished_plan_does_not_run)
{
    static const char text[] =
        "plan 1\ntarget t {\n}\nprogram fused {\n"
        "    input x: f32[4]\n    y[i]: f32 = x[i]\n    output y\n}\n";
    dv_plan *plan = NULL;
    dv_exec *x = NULL;
    assert_int_equal(
        dv_plan_parse(&plan, text, sizeof text - 1, "half", NULL, NULL, NULL),
        DV_OK);
    assert_int_equal(dv_plan_check(plan, NULL), DV_E_CHECK);
    assert_int_equal(dv_exec_create(&x, plan, NULL), DV_E_CHECK);
    assert_null(x);
    dv_plan_destroy(plan);
}

// A run refuses an output that shares memory with another tensor, in whatever
// order they are bound; inputs may share memory.
TEST(outputs_do_not_overlap)
{
    static const char text[] = "input x: f32[8]\ninput w: f32[8]\n"
                               "y[i] = x[i] + w[7-i]\noutput y\n";
    float a[16] = {0};
    dv_exec *x = NULL;
    dv_program *p = case_program(text);
    dv_plan *plan = make_plan(p, case_host);
    assert_int_equal(dv_exec_create(&x, plan, NULL), DV_OK);
    assert_int_equal(dv_exec_bind(x, "x", a, 32, NULL), DV_OK);
    assert_int_equal(dv_exec_bind(x, "w", a, 32, NULL), DV_OK);
    assert_int_equal(dv_exec_bind(x, "y", a + 4, 32, NULL), DV_OK);
    assert_int_equal(dv_exec_run(x, NULL), DV_E_USAGE);
    assert_int_equal(dv_exec_bind(x, "y", a + 8, 32, NULL), DV_OK);
    assert_int_equal(dv_exec_run(x, NULL), DV_OK);
    dv_exec_destroy(x);
    dv_plan_destroy(plan);
    dv_program_destroy(p);
}

// C7: a scatter is not divided, because several points may write the same
// element and tiles would race for it.
TEST(scatter_is_not_divided)
{
    static const char text[] =
        "plan 1\ntarget t {\n    cores = 2\n}\nprogram fused {\n"
        "    input p: i32[4]\n    input b: f32[4]\n    input x: f32[4]\n"
        "    b[p[i]] <- x[i]\n    output b\n}\n"
        "divide hand {\n    0: i 2\n}\n"
        "groups {\n    group ops 0..1 tiles 2 {\n"
        "        core 0: 0..1\n        core 1: 1..2\n    }\n}\n";
    dv_plan *plan = NULL;
    assert_int_equal(dv_plan_parse(&plan, text, sizeof text - 1, "scatter",
                                   NULL, NULL, NULL),
                     DV_OK);
    assert_int_equal(dv_plan_check(plan, NULL), DV_E_CHECK);
    dv_plan_destroy(plan);
}

// Of several points that write one element the last one in the oracle's order
// determines its value.
TEST(scatter_keeps_the_last)
{
    static const char text[] =
        "input p: i32[40, 3]\ninput b: f32[2]\ninput x: f32[3, 40]\n"
        "b[p[i,j]] <- x[j,i]\noutput b\n";
    int ok = case_holds(runs_however_divided, text, 1);
    if (!ok)
        fprintf(stderr, "%s\n", case_why());
    assert_true(ok);
}

// A quotient has the same bits whether its op runs alone, over a whole row, or
// one element at a time together with the ops of its group.
TEST(quotients_keep_their_bits)
{
    for (int k = 0; k < 40; k++) {
        char text[256];
        snprintf(text, sizeof text,
                 "input x: f64[3]\ninput s: f64[40]\n"
                 "y[i] = x[i] / (abs(s[%d]) + 1.0)\n"
                 "z[i,j]: f32 = sum[k] y[i] * 0.5  for j in 0..5, k in 0..5\n"
                 "output y, z\n",
                 k);
        int ok = case_holds(runs_however_divided, text, (uint64_t)k);
        if (!ok)
            fprintf(stderr, "%s\n", case_why());
        assert_true(ok);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE_TESTS(runs_however_divided),
        CASE_TESTS(wrong_plans_are_refused),
        cmocka_unit_test(unfinished_plan_does_not_run),
        cmocka_unit_test(outputs_do_not_overlap),
        cmocka_unit_test(scatter_is_not_divided),
        cmocka_unit_test(scatter_keeps_the_last),
        cmocka_unit_test(quotients_keep_their_bits),
    };
    return run_group(tests, case_set_up, case_tear_down);
}
