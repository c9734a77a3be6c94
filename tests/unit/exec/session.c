// Sessions: params that follow from shapes, the cache of plans, and several
// threads in one session.
#include "harness/test.h"
#include "divvy/session.h"
#include "harness/unit.h"
#include <pthread.h>

static dv_session *session_of(const char *text, const dv_session_options *o)
{
    dv_session *s = NULL;
    dv_program *p = program_of(text);
    dv_target *t = target_of("host");
    must(!dv_session_create(&s, p, t, o, NULL));
    dv_target_destroy(t);
    dv_program_destroy(p);
    return s;
}

static dv_operand operand(const char *name, int n_dims, const int64_t *shape,
                          void *data)
{
    dv_operand o = DV_OPERAND_INIT;
    o.name = name;
    o.n_dims = n_dims;
    o.shape = shape;
    o.data = data;
    return o;
}

static void expect(dv_session *s, int64_t plans, int64_t hits, int64_t misses,
                   int64_t evicted)
{
    dv_session_stats is;
    dv_session_stats_get(s, &is);
    if (is.n_plans != plans || is.n_hits != hits || is.n_misses != misses ||
        is.n_evicted != evicted)
        fail_msg("%d plans, %d hits, %d misses, %d evicted", (int)is.n_plans,
                 (int)is.n_hits, (int)is.n_misses, (int)is.n_evicted);
}

static const char rows[] = "param M = 1\nparam N = 1\nparam scale = 2\n"
                           "input x: f32[M, N]\n"
                           "y[i] = scale * (sum[j] x[i,j])\noutput y\n";

// Runs `rows` on m x n elements that are all 1.
static void run_rows(dv_session *s, int64_t m, int64_t n)
{
    int64_t shape[] = {m, n};
    float x[64], y[64] = {0};
    for (int i = 0; i < 64; i++)
        x[i] = 1;
    dv_operand of[] = {operand("x", 2, shape, x), operand("y", 1, shape, y)};
    assert_int_equal(dv_session_run(s, of, 2, NULL), DV_OK);
    for (int i = 0; i < m; i++)
        assert_true(y[i] == (float)(2 * n));
}

TEST(plans_by_shape)
{
    dv_session_options o = DV_SESSION_OPTIONS_INIT;
    o.capacity = 2;
    dv_session *s = session_of(rows, &o);
    run_rows(s, 3, 5);
    expect(s, 1, 0, 1, 0);
    run_rows(s, 3, 5);
    run_rows(s, 4, 6);
    run_rows(s, 3, 5);
    expect(s, 2, 2, 2, 0);
    run_rows(s, 5, 5); // takes the place of 4 x 6
    expect(s, 2, 2, 3, 1);
    run_rows(s, 3, 5);
    expect(s, 2, 3, 3, 1);
    run_rows(s, 4, 6);
    expect(s, 2, 3, 4, 2);
    dv_session_destroy(s);
}

TEST(outputs_are_described)
{
    static const char text[] = "param N = 3\nparam K = 7\nparam H = N / 3\n"
                               "input a: f32[2 * N + K, K - 1]\n"
                               "input b: f64[H, 4]\n"
                               "c[i,j] = a[i,j] * 2\nd[i] = max[j] b[i,j]\n"
                               "output c, d\n";
    dv_session *s = session_of(text, NULL);
    dv_tensor_info info;
    int64_t a[] = {17, 5}, b[] = {2, 4}; // K = 6; 2 N + 6 = 17 is not whole
    dv_operand in[] = {operand("a", 2, a, NULL), operand("b", 2, b, NULL)};
    dv_diag *diag = dv_diag_create();
    assert_int_equal(dv_session_operand(s, in, 1, 2, &info, diag), DV_E_SHAPE);
    assert_non_null(strstr(dv_diag_text(diag), "dim 0 of a is 17"));
    a[0] = 18; // N = 6
    in[1].name = NULL;
    in[1].number = 1;
    assert_int_equal(dv_session_operand(s, in, 2, 2, &info, NULL), DV_OK);
    assert_string_equal(info.name, "c");
    assert_int_equal(info.role, DV_ROLE_OUTPUT);
    assert_true(info.n_dims == 2 && info.shape[0] == 18 && info.shape[1] == 5);
    assert_int_equal(dv_session_operand(s, in, 2, 3, &info, NULL), DV_OK);
    assert_true(info.n_dims == 1 && info.shape[0] == 2 && info.dtype == DV_F64);
    assert_int_equal(dv_session_operand(s, in, 2, 4, &info, NULL), DV_E_USAGE);
    // From b alone, N follows through the definition of H, and K is as written.
    assert_int_equal(dv_session_operand(s, in + 1, 1, 2, &info, NULL), DV_OK);
    assert_true(info.shape[0] == 19 && info.shape[1] == 6);
    in[0].n_dims = 1;
    assert_int_equal(dv_session_operand(s, in, 1, 2, &info, NULL), DV_E_SHAPE);
    dv_diag_destroy(diag);
    dv_session_destroy(s);
}

static void refuses(dv_session *s, const dv_operand *of, size_t n,
                    dv_status want, const char *words)
{
    dv_diag *diag = dv_diag_create();
    assert_int_equal(dv_session_run(s, of, n, diag), want);
    if (!strstr(dv_diag_text(diag), words))
        fail_msg("%s", dv_diag_text(diag));
    dv_diag_destroy(diag);
}

TEST(wrong_operands)
{
    dv_session *s = session_of(rows, NULL);
    int64_t shape[] = {3, 4}, other[] = {5};
    float x[12] = {0}, y[5];
    dv_operand of[] = {operand("x", 2, shape, x), operand("y", 1, other, y)};
    refuses(s, of, 1, DV_E_USAGE, "y is not bound");
    refuses(s, of, 2, DV_E_SHAPE, "y is f32[3], the operand is f32[5]");
    of[1].shape = shape;
    of[0].dtype = DV_F64;
    refuses(s, of, 2, DV_E_DTYPE, "x is f32[3, 4], the operand is f64[3, 4]");
    of[0].dtype = DV_F32;
    of[0].name = "z";
    refuses(s, of, 2, DV_E_NAME, "there is no tensor z");
    of[0].name = NULL;
    of[0].number = 7;
    refuses(s, of, 2, DV_E_NAME, "there is no operand 7");
    of[0].number = 0;
    assert_int_equal(dv_session_run(s, of, 2, NULL), DV_OK);
    // What was bound before is not bound now.
    refuses(s, of, 1, DV_E_USAGE, "y is not bound");
    dv_session_destroy(s);
}

TEST(constants)
{
    static const char text[] = "param M = 1\nparam N = 2\nparam K = 2\n"
                               "input x: f32[M, K]\nconst w: f32[K, N]\n"
                               "y[i,j] = sum[k] x[i,k] * w[k,j]\noutput y\n";
    dv_session *s = session_of(text, NULL);
    int64_t xs[] = {2, 3}, ws[] = {3, 4}, ys[] = {2, 4};
    float x[6] = {1, 1, 1, 2, 2, 2}, y[8], w[2][12] = {{0}, {0}};
    dv_operand of[] = {operand("x", 2, xs, x), operand("y", 2, ys, y)};
    dv_operand c = operand("w", 2, ws, w[0]);
    refuses(s, of, 2, DV_E_USAGE, "w is not bound");
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < 12; i++)
            w[k][i] = (float)(k + 1);
        c.data = w[k];
        assert_int_equal(dv_session_constant(s, &c, NULL), DV_OK);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(dv_session_run(s, of, 2, NULL), DV_OK);
            assert_true(y[0] == (float)(3 * (k + 1)) && y[7] == 2 * y[0]);
        }
    }
    expect(s, 1, 2, 2, 0);
    c.name = "x";
    assert_int_equal(dv_session_constant(s, &c, NULL), DV_E_USAGE);
    dv_session_destroy(s);
}

static void *run_often(void *arg)
{
    for (int i = 0; i < 12; i++)
        run_rows(arg, 2 + i % 3, 4);
    return NULL;
}

TEST(several_threads)
{
    enum { N = 4 };
    pthread_t threads[N];
    dv_session_options o = DV_SESSION_OPTIONS_INIT;
    dv_plan_options plan = DV_PLAN_OPTIONS_INIT;
    plan.threads = 1;
    o.plan = &plan;
    o.capacity = 2;
    dv_session *s = session_of(rows, &o);
    for (int i = 0; i < N; i++)
        pthread_create(&threads[i], NULL, run_often, s);
    for (int i = 0; i < N; i++)
        pthread_join(threads[i], NULL);
    dv_session_stats is;
    dv_session_stats_get(s, &is);
    assert_int_equal(is.n_hits + is.n_misses, N * 12);
    assert_true(is.n_plans <= 2);
    assert_int_equal(is.n_misses, is.n_plans + is.n_evicted);
    dv_session_destroy(s);
}

static int stop_planning(void *user, const char *pass)
{
    (void)pass;
    return *(int *)user;
}

static int stop_run(void *user, double done)
{
    (void)done;
    return *(int *)user;
}

TEST(stopped)
{
    int stops[2] = {1, 0};
    dv_plan_options plan = DV_PLAN_OPTIONS_INIT;
    dv_session_options o = DV_SESSION_OPTIONS_INIT;
    plan.watch = stop_planning;
    plan.watch_user = &stops[0];
    o.plan = &plan;
    o.watch = stop_run;
    o.user = &stops[1];
    dv_session *s = session_of(rows, &o);
    int64_t shape[] = {3, 4};
    float x[12] = {0}, y[3];
    dv_operand of[] = {operand("x", 2, shape, x), operand("y", 1, shape, y)};
    refuses(s, of, 2, DV_E_CANCELLED, "stopped planning");
    expect(s, 0, 0, 1, 0);
    stops[0] = 0;
    stops[1] = 1;
    refuses(s, of, 2, DV_E_CANCELLED, "the run was stopped");
    stops[1] = 0;
    assert_int_equal(dv_session_run(s, of, 2, NULL), DV_OK);
    expect(s, 1, 1, 2, 0);
    dv_session_destroy(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_by_shape),
        cmocka_unit_test(outputs_are_described),
        cmocka_unit_test(wrong_operands),
        cmocka_unit_test(constants),
        cmocka_unit_test(several_threads),
        cmocka_unit_test(stopped),
    };
    return run_group(tests, NULL, NULL);
}
