// Runs that their caller watches and stops, with every executor.
#include "harness/test.h"
#include "harness/unit.h"

static const char text[] = "param N = 96\ninput a: f32[N, N]\n"
                           "b[i,j] = exp(a[i,j])\n"
                           "c[i,j] = sum[k] b[i,k] * a[k,j]\n"
                           "repeat 3 { c[i,j] <- c[i,j] * 0.5 + a[i,j] }\n"
                           "d[i] = max[j] c[i,j]\noutput c, d\n";

// What the function below saw, and after how many calls it stops the run (-1:
// never).
typedef struct log {
    int calls, stop_at;
    double last;
} log;

static int watch(void *user, double done)
{
    log *l = user;
    assert_true(done >= 0 && done <= 1 + 1e-9);
    assert_true(done >= l->last);
    l->last = done;
    return l->calls++ == l->stop_at;
}

static void try_executor(int64_t threads, dv_executor kind)
{
    job want, j;
    log l = {.stop_at = -1};
    start(&want, text, threads, kind);
    start(&j, text, threads, kind);
    assert_true(job_run(&want));
    dv_exec_watch(j.x, watch, &l);
    assert_int_equal(dv_exec_run(j.x, NULL), DV_OK);
    same(&want, &j);
    int calls = l.calls;
    assert_true(calls >= 6); // before every group
    assert_true(l.last > 0.5);
    for (int at = 0; at < calls; at += 1 + calls / 10) {
        dv_diag *diag = dv_diag_create();
        l = (log){.stop_at = at};
        assert_int_equal(dv_exec_run(j.x, diag), DV_E_CANCELLED);
        assert_int_equal(dv_diag_status(diag), DV_E_CANCELLED);
        assert_int_equal(l.calls, at + 1); // it is not asked again
        dv_diag_destroy(diag);
    }
    // The next run is a whole one, watched or not.
    l = (log){.stop_at = -1};
    assert_int_equal(dv_exec_run(j.x, NULL), DV_OK);
    same(&want, &j);
    assert_int_equal(l.calls, calls);
    dv_exec_watch(j.x, NULL, NULL);
    assert_int_equal(dv_exec_run(j.x, NULL), DV_OK);
    assert_int_equal(l.calls, calls);
    same(&want, &j);
    job_stop(&want);
    job_stop(&j);
}

TEST(sequential)
{
    try_executor(1, DV_RUN_SEQ);
}

TEST(one_thread)
{
    try_executor(1, DV_RUN_THREADS);
}

TEST(several_threads)
{
    try_executor(4, DV_RUN_THREADS);
}

static int stop(void *user, double done)
{
    (void)done;
    return ++*(int *)user > 10;
}

// A run that is stopped does not count to the end of its repeats.
static void stop_repeat(int64_t threads, dv_executor kind)
{
    job j;
    int calls = 0;
    start(&j,
          "input a: f32[64]\nrepeat 1000000000000 {\n"
          "a[i] <- a[i] * 0.5 + 1\na[i] <- a[63-i] - 1\n}\noutput a\n",
          threads, kind);
    dv_exec_watch(j.x, stop, &calls);
    assert_int_equal(dv_exec_run(j.x, NULL), DV_E_CANCELLED);
    job_stop(&j);
}

TEST(long_repeats)
{
    stop_repeat(1, DV_RUN_SEQ);
    stop_repeat(1, DV_RUN_THREADS);
    stop_repeat(3, DV_RUN_THREADS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sequential),
        cmocka_unit_test(one_thread),
        cmocka_unit_test(several_threads),
        cmocka_unit_test(long_repeats),
    };
    return run_group(tests, NULL, NULL);
}
