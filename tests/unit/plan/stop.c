// The caller of dv_plan_create watches planning and stops it.
#include "harness/test.h"
#include "harness/unit.h"

static const char text[] = "param N = 192\ninput a: f32[N, N]\n"
                           "b[i,j] = exp(a[i,j])\n"
                           "c[i,j] = sum[k] b[i,k] * a[k,j]\n"
                           "m[i] = max[j] c[i,j]\n"
                           "output m\n";

// What the function below saw, and after how many calls it stops planning (-1:
// never).
typedef struct log {
    int calls, stop_at;
    char passes[512];
} log;

static int watch(void *user, const char *pass)
{
    log *l = user;
    assert_non_null(pass);
    if (!strstr(l->passes, pass))
        strcat(strcat(l->passes, " "), pass);
    return l->calls++ == l->stop_at;
}

static dv_status plan(log *l, const char *target, dv_diag *diag)
{
    dv_plan_options o = DV_PLAN_OPTIONS_INIT;
    dv_program *p = program_of(text);
    dv_target *t = target_of(target);
    dv_plan *plan = NULL;
    o.watch = watch;
    o.watch_user = l;
    dv_status st = dv_plan_create(&plan, p, t, &o, diag);
    assert_true((st == DV_OK) == (plan != NULL));
    dv_plan_destroy(plan);
    dv_target_destroy(t);
    dv_program_destroy(p);
    return st;
}

static void try_target(const char *target, int least)
{
    log l = {.stop_at = -1};
    assert_int_equal(plan(&l, target, NULL), DV_OK);
    int calls = l.calls;
    if (calls < least)
        fail_msg("%d calls on %s", calls, target);
    assert_non_null(strstr(l.passes, " lower"));
    assert_non_null(strstr(l.passes, " schedule"));
    for (int at = 0; at < calls; at += 1 + calls / 6) {
        dv_diag *diag = dv_diag_create();
        l = (log){.stop_at = at};
        assert_int_equal(plan(&l, target, diag), DV_E_CANCELLED);
        assert_int_equal(dv_diag_status(diag), DV_E_CANCELLED);
        assert_non_null(strstr(dv_diag_text(diag), "stopped planning"));
        assert_int_equal(l.calls, at + 1); // it is not asked again
        dv_diag_destroy(diag);
    }
    // The next plan is a whole one.
    l = (log){.stop_at = -1};
    assert_int_equal(plan(&l, target, NULL), DV_OK);
    assert_int_equal(l.calls, calls);
}

TEST(on_threads)
{
    try_target("host", 12);
}

// The search for residents, and the solvers that place them, ask too.
TEST(on_scratchpads)
{
    try_target("spyre", 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_threads),
        cmocka_unit_test(on_scratchpads),
    };
    return run_group(tests, NULL, NULL);
}
