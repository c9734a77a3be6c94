// Published results of programs over teams: a gyre that should stand still and
// a standing wave, 451 steps of 128 x 128 cells (benchmark_golden-180 and
// -181). Fields have 128 and 129 rows, so that their parts do not coincide.
#include "harness/test.h"
#include "harness/unit.h"
#include "base/dtype.h"
#include "team/team.h"
#include <math.h>

enum { N = 128 };
static const double gravity = 9.81, side = 2.0 / N, pi = 3.14159265358979323846;

// -- Where it begins, and where it should be at time t ---------------------

typedef double (*field)(char which, double x, double y, double t);

// The height 0.02 exp(-r^2 / 0.4^2), and the velocity that balances it with a
// Coriolis parameter of 10.
static double gyre(char which, double x, double y, double t)
{
    (void)t;
    double w = 0.4 * 0.4, e = 0.02 * exp(-1.0 * (x * x + y * y) / w);
    return which == 'e'   ? e
           : which == 'u' ? gravity / 10.0 * 2.0 * y / w * e
                          : -1.0 * gravity / 10.0 * 2.0 * x / w * e;
}

static double wave(char which, double x, double y, double t)
{
    double omega = sqrt(gravity) * pi * sqrt(0.5);
    return which == 'e' ? 0.5 * cos(pi * x) * cos(pi * y) * cos(2 * omega * t)
                        : 0;
}

static double at_cell(field f, char which, int64_t i, int64_t j, double t)
{
    double x = -1 + (double)i * side + (which == 'u' ? 0 : side / 2);
    double y = -1 + (double)j * side + (which == 'v' ? 0 : side / 2);
    return f(which, x, y, t);
}

// -- The programs ----------------------------------------------------------

// Returns examples/NAME, with another type if needed.
static char *text_of(const char *name, const char *type)
{
    char path[512];
    snprintf(path, sizeof path, "%s/examples/%s", DV_SOURCE_DIR, name);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    char *text = calloc(1, 1 << 16);
    assert_true(fread(text, 1, (1 << 16) - 1, f) > 0);
    fclose(f);
    for (char *at = text; (at = strstr(at, "f64[")); at++)
        memcpy(at, type, 3);
    return text;
}

static double error_after(const char *name, const char *type, field f,
                          int64_t team, const char *grid)
{
    dv_plan_options o = DV_PLAN_OPTIONS_INIT;
    dv_dtype t = type[1] == '3' ? DV_F32 : DV_F64;
    char *text = text_of(name, type);
    void *data[64] = {0};
    double sum = 0;
    o.team = team;
    o.grid = grid;
    dv_plan *plan = plan_on(text, "host", NULL, &o);
    for (const char *which = "euv"; *which; which++) {
        const char one[2] = {*which, 0};
        int32_t at = dv_program_find(plan->ops, one);
        const dv_tensor *x = &plan->ops->tensors[at];
        int64_t n = x->shape[0] * x->shape[1];
        data[at] = calloc((size_t)n, 8);
        for (int64_t k = 0; k < n; k++)
            dv_store(t, data[at], k,
                     at_cell(f, *which, k / x->shape[1], k % x->shape[1], 0));
    }
    assert_int_equal(dv_team_run(plan, data, NULL, NULL, NULL), DV_OK);
    // As published, the result of 451 steps is compared with the solution after
    // 450.
    const void *e = data[dv_program_find(plan->ops, "e")];
    for (int64_t k = 0; k < N * N; k++) {
        double want = at_cell(f, 'e', k / N, k % N, 450 * (0.02 / 9));
        double off = want - dv_load(t, e, k);
        sum += off * off * side * side / 4;
    }
    for (int i = 0; i < 64; i++)
        free(data[i]);
    free(text);
    dv_plan_destroy(plan);
    return sqrt(sum);
}

static void expect_near(double got, double want, double relative)
{
    if (fabs(got - want) > relative * want)
        fail_msg("%.16g, not %.16g", got, want);
}

TEST(test_gyre)
{
    double one = error_after("shallow_water.dv", "f64", gyre, 1, NULL);
    double four = error_after("shallow_water.dv", "f64", gyre, 4, "2x2");
    // The publishers ask for a relative 1e-7, which is 4e-12 here.
    expect_near(one, 4.315799035627906e-05, 1e-7);
    assert_true(one == four);
}

TEST(test_wave)
{
    double one = error_after("wave.dv", "f64", wave, 1, NULL);
    double three = error_after("wave.dv", "f64", wave, 3, NULL);
    expect_near(one, 0.007224068445111, 1e-11);
    assert_true(one == three);
}

// In f32 the order of operations shows: as close as the publishers ask for.
TEST(test_narrow)
{
    expect_near(error_after("wave.dv", "f32", wave, 2, NULL), 0.0072235471,
                1e-4);
    expect_near(error_after("shallow_water.dv", "f32", gyre, 3, NULL),
                4.3127859e-05, 1e-3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gyre),
        cmocka_unit_test(test_wave),
        cmocka_unit_test(test_narrow),
    };
    return run_group(tests, NULL, NULL);
}
