// What depends on constants only is computed once, before the first run (C39):
// the bits are those of the same plan that computes it in every run, whatever
// the executor, the number of threads and who provides them. A constant that is
// bound anew counts.
#include "harness/test.h"
#include "divvy/run.h"
#include "exec/state.h"
#include "harness/unit.h"
#include <string.h>

static const char text[] =
    "input x: f32[24, 256] const w: f32[256, 80] const g: f32[80] "
    "const v: f32[80] const at: i32[24] "
    "s[o] = g[o] * rsqrt(abs(v[o]) + 0.5) "
    "w2[c,o] = w[c,o] * s[o] "
    "p[i,o] = sin(i * 0.1 + o) for i in 0..24, o in 0..80 "
    "r[i] = v[at[i]] "
    "y[i,o] = (sum[c] x[i,c] * w2[c,o]) + p[i,o] + r[i] output y";

enum { ROWS = 24, IN = 256, OUT = 80 };

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

// Executors of equal plans with the same constants share what is computed once,
// and what products pack of it; it is freed with the last of them.
TEST(shared)
{
    dv_plan *plan[2] = {plan_for(text, 2), plan_for(text, 2)};
    dv_exec *x[2] = {NULL};
    int32_t p = tensor_named(plan[0], "p"), w2 = tensor_named(plan[0], "w2");
    fill(&want);
    run_each_time(&want);
    fill(&got);
    for (int i = 0; i < 2; i++) {
        must(!dv_exec_create(&x[i], plan[i], NULL));
        bind(x[i], &got);
        is_same(x[i]);
        assert_non_null(x[i]->once[p]);
    }
    assert_ptr_equal(x[0]->results, x[1]->results);
    assert_ptr_equal(x[0]->once[p], x[1]->once[p]);
    assert_null(x[0]->once[w2]); // it is large enough to be packed instead
    // Constants that are bound again, here to other values, are computed from
    // anew, by this executor alone.
    static operands other;
    fill(&other);
    for (int i = 0; i < OUT; i++)
        other.g[i] = want.g[i] = (float)(3 * i % 5);
    must(!dv_exec_bind(x[1], "g", other.g, sizeof other.g, NULL));
    static operands was;
    fill(&was);
    run_each_time(&was);
    must(!dv_exec_run(x[0], NULL));
    assert_memory_equal(got.y, was.y, sizeof was.y);
    run_each_time(&want);
    is_same(x[1]);
    assert_ptr_not_equal(x[0]->results, x[1]->results);
    for (int i = 0; i < 2; i++) {
        dv_exec_destroy(x[i]);
        dv_plan_destroy(plan[i]);
    }
}

// An executor of two products that pack results computed once from u and v. The
// programs number their tensors differently if `more` is 1, which adds an input
// of zeros.
enum { SIDE = 300, FEW = 40 };
static float u[SIDE][SIDE], v[SIDE][SIDE], rows[FEW][SIDE], zeros[FEW];

static dv_exec *two_products(int more, float (*a)[SIDE], float (*b)[SIDE])
{
    static const char *const programs[2] = {
        "input x: f32[40, 300] const u: f32[300, 300] "
        "const v: f32[300, 300] u2[k,n] = u[k,n] * 2 + exp(u[k,n]) "
        "v2[k,n] = v[k,n] * 3 + exp(v[k,n]) a[i,n] = sum[k] x[i,k] * u2[k,n] "
        "b[i,n] = sum[k] x[i,k] * v2[k,n] output a, b",
        "input z: f32[40] input x: f32[40, 300] const u: f32[300, 300] "
        "const v: f32[300, 300] u2[k,n] = u[k,n] * 2 + exp(u[k,n]) "
        "v2[k,n] = v[k,n] * 3 + exp(v[k,n]) a[i,n] = sum[k] x[i,k] * u2[k,n] "
        "b[i,n] = (sum[k] x[i,k] * v2[k,n]) + z[i] output a, b"};
    size_t bytes = FEW * sizeof *a;
    dv_plan *plan = plan_for(programs[more], 1);
    dv_exec *x = NULL;
    must(!dv_exec_create(&x, plan, NULL));
    must(!dv_exec_bind(x, "x", rows, sizeof rows, NULL));
    must(!dv_exec_bind(x, "u", u, sizeof u, NULL));
    must(!dv_exec_bind(x, "v", v, sizeof v, NULL));
    must(!dv_exec_bind(x, "a", a, bytes, NULL));
    must(!dv_exec_bind(x, "b", b, bytes, NULL));
    if (more)
        must(!dv_exec_bind(x, "z", zeros, sizeof zeros, NULL));
    return x;
}

static void end(dv_exec *x)
{
    dv_plan *plan = (dv_plan *)(uintptr_t)x->plan;
    dv_exec_destroy(x);
    dv_plan_destroy(plan);
}

static void fill_square(float (*to)[SIDE], int by)
{
    for (int i = 0; i < SIDE * SIDE; i++)
        to[i / SIDE][i % SIDE] = (float)(i * by % 101) / 64 - 0.75f;
}

// What one program packs of a result is not taken for another result by another
// program; nor are results of a constant that the executor no longer reads
// taken for those of what its memory has since.
TEST(not_confused)
{
    static float a[2][FEW][SIDE], b[2][FEW][SIDE], other[SIDE][SIDE];
    fill_square(u, 37);
    fill_square(v, 53);
    for (int i = 0; i < FEW * SIDE; i++)
        rows[i / SIDE][i % SIDE] = (float)(i % 89) / 50 - 0.8f;
    dv_exec *x = two_products(0, a[0], b[0]), *y = two_products(1, a[1], b[1]);
    must(!dv_exec_run(x, NULL));
    must(!dv_exec_run(y, NULL));
    assert_memory_equal(a[0], a[1], sizeof a[0]);
    assert_memory_equal(b[0], b[1], sizeof b[0]);
    end(y);
    fill_square(other, 11);
    must(!dv_exec_bind(x, "u", other, sizeof other, NULL));
    fill_square(u, 11); // no executor reads it now
    y = two_products(0, a[1], b[1]);
    must(!dv_exec_run(y, NULL));
    must(!dv_exec_run(x, NULL));
    assert_memory_equal(a[0], a[1], sizeof a[0]);
    assert_memory_equal(b[0], b[1], sizeof b[0]);
    end(x);
    end(y);
}

// Whatever allocation fails: an error, and the next run computes everything.
TEST(out_of_memory)
{
    dv_plan *plan = plan_for(text, 1);
    dv_exec *x = NULL;
    int64_t n = 0;
    fill(&want);
    run_each_time(&want);
    fill(&got);
    must(!dv_exec_create(&x, plan, NULL));
    bind(x, &got);
    for (;; n++) {
        dv_mem_fail_at(n);
        dv_status st = dv_exec_run(x, NULL);
        dv_mem_fail_at(-1);
        if (st == DV_OK)
            break;
        assert_int_equal(st, DV_E_NOMEM);
    }
    assert_true(n > 2);
    is_same(x);
    dv_exec_destroy(x);
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
        cmocka_unit_test(bits),         cmocka_unit_test(bound_again),
        cmocka_unit_test(not_shared),   cmocka_unit_test(shared),
        cmocka_unit_test(not_confused), cmocka_unit_test(out_of_memory),
        cmocka_unit_test(several_runs), cmocka_unit_test(index_out_of_range),
    };
    return cmocka_run_group_tests(tests, case_set_up, case_tear_down);
}
