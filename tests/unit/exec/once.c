// What depends on constants only is computed once, before the first run (C39):
// the bits are those of the same plan that computes it in every run, whatever
// the executor, the number of threads and who provides them. A constant that is
// bound anew counts.
#include "harness/test.h"
#include "divvy/run.h"
#include "harness/unit.h"
#include <string.h>

static const char text[] =
    "input x: f32[24, 96] const w: f32[96, 80] const g: f32[80] "
    "const v: f32[80] const at: i32[24] "
    "s[o] = g[o] * rsqrt(abs(v[o]) + 0.5) "
    "w2[c,o] = w[c,o] * s[o] "
    "p[i,o] = sin(i * 0.1 + o) for i in 0..24, o in 0..80 "
    "r[i] = v[at[i]] "
    "y[i,o] = (sum[c] x[i,c] * w2[c,o]) + p[i,o] + r[i] output y";

enum { ROWS = 24, IN = 96, OUT = 80 };

// The operands, and what a run computes of them.
typedef struct operands {
    float x[ROWS][IN], w[IN][OUT], g[OUT], v[OUT], y[ROWS][OUT];
    int32_t at[ROWS];
} operands;

static void fill(operands *o)
{
    for (int i = 0; i < ROWS * IN; i++)
        ((float *)o->x)[i] = (float)(i * 37 % 101) / 64 - 0.75f;
    for (int i = 0; i < IN * OUT; i++)
        ((float *)o->w)[i] = (float)(i * 53 % 97) / 32 - 1.5f;
    for (int i = 0; i < OUT; i++) {
        o->g[i] = (float)(i % 7) - 2.5f;
        o->v[i] = (float)(i % 11) / 3;
    }
    for (int i = 0; i < ROWS; i++)
        o->at[i] = 3 * i;
}

static void bind(dv_exec *x, operands *o)
{
    must(!dv_exec_bind(x, "x", o->x, sizeof o->x, NULL));
    must(!dv_exec_bind(x, "w", o->w, sizeof o->w, NULL));
    must(!dv_exec_bind(x, "g", o->g, sizeof o->g, NULL));
    must(!dv_exec_bind(x, "v", o->v, sizeof o->v, NULL));
    must(!dv_exec_bind(x, "at", o->at, sizeof o->at, NULL));
    must(!dv_exec_bind(x, "y", o->y, sizeof o->y, NULL));
}

static int count_once(const dv_plan *plan)
{
    int n = 0;
    for (int32_t g = 0; g < plan->n_groups; g++)
        n += plan->groups[g].once
                 ? plan->groups[g].end_op - plan->groups[g].first_op
                 : 0;
    return n;
}

static dv_plan *plan_for(const char *program, int64_t threads)
{
    dv_plan_options o = DV_PLAN_OPTIONS_INIT;
    o.threads = threads;
    return plan_on(program, "host", NULL, &o);
}

// Runs the program with inputs in place of constants.
static void run_each_time(operands *o)
{
    char all[sizeof text];
    memcpy(all, text, sizeof text);
    for (char *at = all; (at = strstr(at, "const "));)
        memcpy(at, "input", 5);
    // A table of positions alone is computed once here.
    dv_plan *plan = plan_for(all, 1);
    dv_exec *x = NULL;
    assert_int_equal(count_once(plan), 1);
    must(!dv_exec_create(&x, plan, NULL));
    bind(x, o);
    must(!dv_exec_run(x, NULL));
    dv_exec_destroy(x);
    dv_plan_destroy(plan);
}

static operands want, got;

static void is_same(dv_exec *x)
{
    for (int i = 0; i < 2; i++) {
        memset(got.y, 0xff, sizeof got.y);
        assert_int_equal(dv_exec_run(x, NULL), DV_OK);
        assert_memory_equal(got.y, want.y, sizeof got.y);
    }
}

TEST(bits)
{
    fill(&want);
    run_each_time(&want);
    for (int64_t threads = 1; threads <= 3; threads++) {
        dv_plan *plan = plan_for(text, threads);
        dv_exec *x = NULL;
        assert_int_equal(count_once(plan), 4);
        must(!dv_exec_create(&x, plan, NULL));
        fill(&got);
        bind(x, &got);
        is_same(x);
        // The kernels and what was computed are made anew.
        must(!dv_exec_use(x, DV_RUN_SEQ, NULL));
        must(!dv_exec_run(x, NULL));
        must(!dv_exec_use(x, DV_RUN_THREADS, NULL));
        is_same(x);
        dv_exec_destroy(x);
        dv_plan_destroy(plan);
    }
}

TEST(bound_again)
{
    dv_plan *plan = plan_for(text, 2);
    dv_exec *x = NULL;
    must(!dv_exec_create(&x, plan, NULL));
    fill(&got);
    bind(x, &got);
    must(!dv_exec_run(x, NULL));
    fill(&want);
    for (int i = 0; i < OUT; i++)
        got.g[i] = want.g[i] = (float)i;
    run_each_time(&want);
    must(!dv_exec_bind(x, "g", got.g, sizeof got.g, NULL));
    is_same(x);
    dv_exec_destroy(x);
    dv_plan_destroy(plan);
}

// An executor of the same plan with other constants has results of its own.
TEST(not_shared)
{
    static operands other;
    dv_plan *plan = plan_for(text, 2);
    dv_exec *x = NULL, *y = NULL;
    must(!dv_exec_create(&x, plan, NULL));
    must(!dv_exec_create(&y, plan, NULL));
    fill(&other);
    fill(&want);
    fill(&got);
    for (int i = 0; i < OUT; i++)
        got.g[i] = want.g[i] = (float)i - 40;
    run_each_time(&want);
    bind(x, &other);
    must(!dv_exec_run(x, NULL));
    bind(y, &got);
    is_same(y);
    must(!dv_exec_run(x, NULL));
    fill(&want);
    run_each_time(&want);
    assert_memory_equal(other.y, want.y, sizeof want.y);
    dv_exec_destroy(x);
    dv_exec_destroy(y);
    dv_plan_destroy(plan);
}

typedef struct pool {
    int loops;
} pool;

static void in_turn(void *user, int n, void (*body)(void *arg, int i),
                    void *arg)
{
    pool *p = user;
    p->loops++;
    for (int i = 0; i < n; i++)
        body(arg, i);
}

// Runs of one executor, the first of which makes what all of them read, on the
// caller's threads.
TEST(several_runs)
{
    dv_plan *plan = plan_for(text, 2);
    dv_exec *x = NULL;
    dv_run *r[2];
    pool p = {0};
    dv_run_options o = DV_RUN_OPTIONS_INIT;
    o.parallel_for = in_turn;
    o.user = &p;
    fill(&want);
    run_each_time(&want);
    must(!dv_exec_create(&x, plan, NULL));
    fill(&got);
    bind(x, &got);
    for (int i = 0; i < 2; i++) {
        int before = p.loops;
        must(!dv_run_create(&r[i], x, &o, NULL));
        assert_int_equal(p.loops > before, i == 0);
    }
    for (int i = 0; i < 2; i++) {
        const int64_t in[] = {ROWS, IN}, out[] = {ROWS, OUT};
        dv_operand a = DV_OPERAND_INIT;
        a.name = "x";
        a.n_dims = 2;
        a.shape = in;
        a.data = got.x;
        must(!dv_run_bind(r[i], &a, NULL));
        a.name = "y";
        a.shape = out;
        a.data = got.y;
        must(!dv_run_bind(r[i], &a, NULL));
        memset(got.y, 0xff, sizeof got.y);
        assert_int_equal(dv_run_now(r[i], NULL), DV_OK);
        assert_memory_equal(got.y, want.y, sizeof got.y);
        dv_run_destroy(r[i]);
    }
    dv_exec_destroy(x);
    dv_plan_destroy(plan);
}

// An index that is out of range is an error of the first run, and of the next.
TEST(index_out_of_range)
{
    dv_plan *plan = plan_for(text, 2);
    dv_exec *x = NULL;
    must(!dv_exec_create(&x, plan, NULL));
    fill(&got);
    got.at[5] = OUT;
    bind(x, &got);
    for (int i = 0; i < 2; i++)
        assert_int_equal(dv_exec_run(x, NULL), DV_E_BOUNDS);
    got.at[5] = 15;
    must(!dv_exec_bind(x, "at", got.at, sizeof got.at, NULL));
    fill(&want);
    run_each_time(&want);
    is_same(x);
    dv_exec_destroy(x);
    dv_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits),
        cmocka_unit_test(bound_again),
        cmocka_unit_test(not_shared),
        cmocka_unit_test(several_runs),
        cmocka_unit_test(index_out_of_range),
    };
    return cmocka_run_group_tests(tests, case_set_up, case_tear_down);
}
