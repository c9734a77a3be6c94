// The examples for teams, on teams of several sizes, compared with known
// results: exact numbers, published ones, a factor per step, conserved
// quantities.
#include "harness/test.h"
#include "base/file.h"
#include "team/team.h"
#include <math.h>

static const double pi = 3.14159265358979323846;
enum { MAX_TENSORS = 64 };

typedef struct example {
    dv_program *p;
    dv_target *host;
    dv_plan *plan;
    void *data[MAX_TENSORS];
} example;

static void open_example(example *x, const char *file, const dv_param *params,
                         size_t n)
{
    char *text = NULL;
    size_t len = 0;
    char path[512];
    *x = (example){0};
    snprintf(path, sizeof path, "%s/examples/%s", DV_SOURCE_DIR, file);
    assert_int_equal(dv_file_read(&text, &len, path, 1 << 20, NULL), DV_OK);
    assert_int_equal(dv_program_parse(&x->p, text, len, file, params, n, NULL),
                     DV_OK);
    dv_release(text);
    assert_int_equal(dv_target_load(&x->host, "host", NULL), DV_OK);
}

static void close_example(example *x)
{
    dv_plan_destroy(x->plan);
    dv_program_destroy(x->p);
    dv_target_destroy(x->host);
}

static void plan_for(example *x, int64_t team)
{
    dv_plan_options o = DV_PLAN_OPTIONS_INIT;
    o.team = team;
    dv_plan_destroy(x->plan);
    x->plan = NULL;
    assert_int_equal(dv_plan_create(&x->plan, x->p, x->host, &o, NULL), DV_OK);
    assert_true(x->plan->ops->n_tensors <= MAX_TENSORS);
}

static void bind(example *x, const char *name, void *data)
{
    int32_t t = dv_program_find(x->plan->ops, name);
    assert_true(t >= 0);
    x->data[t] = data;
}

static void run_team(example *x, dv_team_traffic *moved)
{
    dv_rank_options how = {0};
    assert_int_equal(dv_team_run_as(x->plan, &how, x->data, moved, NULL),
                     DV_OK);
}

// -- 2 * T, exactly --------------------------------------------------------

TEST(test_prk)
{
    enum { N = 41, T = 7 };
    const dv_param params[] = {{"N", "41"}, {"T", "7"}};
    static double a[N][N], o[N][N];
    example x;
    open_example(&x, "prk_stencil.dv", params, 2);
    for (int64_t team = 1; team <= 9; team++) {
        plan_for(&x, team);
        for (int i = 0; i < N; i++)
            for (int j = 0; j < N; j++) {
                a[i][j] = i + j;
                o[i][j] = 0;
            }
        bind(&x, "a", a);
        bind(&x, "o", o);
        run_team(&x, NULL);
        for (int i = 0; i < N; i++)
            for (int j = 0; j < N; j++) {
                int active = i >= 2 && i < N - 2 && j >= 2 && j < N - 2;
                assert_true(o[i][j] == (active ? 2.0 * T : 0));
            }
    }
    close_example(&x);
}

// -- A factor per step -----------------------------------------------------

// One step multiplies sin(pi i / (N - 1)) sin(pi j / (N - 1)) by cos(pi / (N -
// 1)).
TEST(test_heat)
{
    enum { N = 33, T = 20 };
    const dv_param params[] = {{"N", "33"}, {"T", "20"}};
    static double u[N][N];
    example x;
    open_example(&x, "heat.dv", params, 2);
    for (int64_t team = 1; team <= 9; team++) {
        double factor = pow(cos(pi / (N - 1)), T);
        plan_for(&x, team);
        for (int i = 0; i < N; i++)
            for (int j = 0; j < N; j++)
                u[i][j] = sin(pi * i / (N - 1)) * sin(pi * j / (N - 1));
        bind(&x, "u", u);
        run_team(&x, NULL);
        for (int i = 1; i < N - 1; i++)
            for (int j = 1; j < N - 1; j++) {
                double was = sin(pi * i / (N - 1)) * sin(pi * j / (N - 1));
                assert_true(fabs(u[i][j] - factor * was) < 1e-14);
            }
    }
    close_example(&x);
}

// -- Shallow water ---------------------------------------------------------

enum { N_WATER = 24 };

typedef struct water {
    double e[N_WATER][N_WATER], u[N_WATER + 1][N_WATER];
    double v[N_WATER][N_WATER + 1];
    double mass0, mass, energy0, energy;
} water;

static void run_water(water *w, example *x, int64_t team)
{
    static double at[N_WATER];
    for (int i = 0; i < N_WATER; i++)
        at[i] = (i + 0.5) / N_WATER - 0.5;
    plan_for(x, team);
    bind(x, "x", at);
    bind(x, "y", at);
    bind(x, "e", w->e);
    bind(x, "u", w->u);
    bind(x, "v", w->v);
    bind(x, "mass0", &w->mass0);
    bind(x, "mass", &w->mass);
    bind(x, "energy0", &w->energy0);
    bind(x, "energy", &w->energy);
    dv_team_traffic moved = {.bytes = -1};
    run_team(x, &moved);
    assert_true(team == 1 ? moved.bytes == 0 : moved.bytes > 0);
}

// Elements are the same on any team; sums are added in another order.
TEST(test_water)
{
    const dv_param params[] = {{"N", "24"}, {"T", "20"}};
    static water one, more;
    example x;
    open_example(&x, "basin.dv", params, 2);
    run_water(&one, &x, 1);
    for (int64_t team = 2; team <= 9; team++) {
        run_water(&more, &x, team);
        assert_memory_equal(one.e, more.e, sizeof one.e);
        assert_memory_equal(one.u, more.u, sizeof one.u);
        assert_memory_equal(one.v, more.v, sizeof one.v);
        assert_true(fabs(more.mass - more.mass0) < 1e-15);
        assert_true(fabs(more.energy / one.energy - 1) < 1e-13);
    }
    // The water moves and turns.
    assert_true(fabs(one.u[N_WATER / 2][2]) > 1e-6);
    close_example(&x);
}

static double lost_energy(const char *steps, const char *dt)
{
    const dv_param params[] = {{"N", "24"}, {"T", steps}, {"DT", dt}};
    static water w;
    example x;
    open_example(&x, "basin.dv", params, 3);
    run_water(&w, &x, 4);
    assert_true(fabs(w.mass - w.mass0) < 1e-15);
    close_example(&x);
    return fabs(w.energy / w.energy0 - 1);
}

// Half the time step loses an eighth of the energy: none is lost by the
// discretisation in space.
TEST(test_energy)
{
    double lost = lost_energy("20", "0.01"), less = lost_energy("40", "0.005");
    double least = lost_energy("80", "0.0025");
    assert_true(lost < 1e-3);
    assert_true(lost > 0 && lost / less > 7 && lost / less < 9);
    assert_true(less / least > 7 && less / least < 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prk), cmocka_unit_test(test_heat),
        cmocka_unit_test(test_water), cmocka_unit_test(test_energy)};
    return run_group(tests, NULL, NULL);
}
