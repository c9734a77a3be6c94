// The predicted time of plans on small machines, against times computed by
// hand: which rate limits a group, what resident tensors save, and what is
// added for launching, waiting and transfers.
#include "harness/test.h"
#include "harness/unit.h"
#include "plan/price.h"
#include <math.h>

// A machine with simple rates: a core computes one point and moves one byte in
// a nanosecond, and all of them together move four.
#define MACHINE                                                                \
    "target t { cores = 4 stick = 64 memory_bandwidth = 4GB/s "                \
    "core_bandwidth = 1GB/s mac_rate = 1Gmac/s vector_rate = 1Gop/s "          \
    "launch_time = 1us sync_time = 500ns transfer_latency = 100ns "

static const dv_plan_options usual = DV_PLAN_OPTIONS_INIT;

static void check_price(const dv_plan *plan, double compute, double memory,
                        double ring, double launch, dv_limit limit)
{
    dv_price p = dv_plan_price(plan), g = dv_group_price(plan, 0);
    double most = fmax(fmax(compute, memory), ring);
    assert_int_equal(plan->n_groups, 1);
    if (fabs(p.compute_us - compute) > 1e-9 ||
        fabs(p.memory_us - memory) > 1e-9 || fabs(p.ring_us - ring) > 1e-9 ||
        fabs(p.launch_us - launch) > 1e-9 ||
        fabs(p.total_us - most - launch) > 1e-9)
        fail_msg("%g us: compute %g, memory %g, ring %g, launch %g", p.total_us,
                 p.compute_us, p.memory_us, p.ring_us, p.launch_us);
    assert_true(p.total_us == g.total_us);
    assert_int_equal(g.limit, limit);
}

static const char relu[] = "input x: f32[4096]\n"
                           "y[i] = relu(x[i])\noutput y\n";

// The bandwidth that cores share, and the most that one core can draw.
TEST(memory_is_shared)
{
    static const struct {
        const char *pin;
        double compute, memory, launch;
    } cases[] = {{"y:i=4", 1.024, 8.192, 1.5},
                 {"y:i=2", 2.048, 16.384, 1.5},
                 {"y:i=1", 4.096, 32.768, 1}};
    for (int i = 0; i < 3; i++) {
        const char *const pins[] = {cases[i].pin, NULL};
        dv_plan *plan = plan_on(relu, MACHINE "}", pins, &usual);
        check_price(plan, cases[i].compute, cases[i].memory, 0, cases[i].launch,
                    DV_LIMIT_MEMORY);
        dv_plan_destroy(plan);
    }
}

// Without a scratchpad, x is read twice and y is written and read; with one,
// only x and z move, and loading x is a transfer.
TEST(residents_cost_nothing)
{
    static const char text[] = "input x: f32[4096]\n"
                               "y[i] = relu(x[i])\n"
                               "z[i] = y[i] * x[i]\noutput z\n";
    static const char *const pins[] = {"y:i=4", "z:i=4", NULL};
    dv_plan *plan = plan_on(text, MACHINE "scratch = 64KiB }", pins, &usual);
    check_price(plan, 2.048, 8.192, 0, 2.6, DV_LIMIT_MEMORY);
    dv_plan_destroy(plan);
    plan = plan_on(text, MACHINE "}", pins, &usual);
    double total = dv_plan_price(plan).total_us;
    assert_true(fabs(total - 20.48 - 2 * 1.5) < 1e-9);
    dv_plan_destroy(plan);
}

// Three partial results of 1,024 f32 go to the next core.
TEST(ring_limits)
{
    static const char text[] = "input x: f32[64, 1024]\n"
                               "y[j] = max[i] x[i,j]\noutput y\n";
    static const char *const pins[] = {"y:i=4", NULL};
    dv_plan *plan = plan_on(
        text, MACHINE "ring = yes ring_bandwidth = 100MB/s }", pins, &usual);
    check_price(plan, 16.384, 69.632, 122.88, 1.5, DV_LIMIT_RING);
    dv_plan_destroy(plan);
    // Without a ring they are written to main memory and read back.
    plan = plan_on(text, MACHINE "}", pins, &usual);
    check_price(plan, 16.384, 72.704, 0, 1.5, DV_LIMIT_MEMORY);
    dv_plan_destroy(plan);
}

// A repeat costs what its groups cost, as often as it runs.
TEST(repeats_count)
{
    static const char text[] = "input x: f32[4096]\n"
                               "repeat 5 {\n"
                               "x[i] <- relu(x[i]) for i in 0..4096\n}\n"
                               "output x\n";
    dv_plan *plan = plan_on(text, MACHINE "}", NULL, &usual);
    assert_int_equal(plan->n_groups, 1);
    assert_true(dv_group_times(plan, 0) == 5);
    assert_true(fabs(dv_plan_price(plan).total_us -
                     5 * dv_group_price(plan, 0).total_us) < 1e-9);
    dv_plan_destroy(plan);
}

// Where computing decides, divisions with the same number of cores take equally
// long; the one with the least traffic is chosen.
TEST(ties_go_to_less_traffic)
{
    static const char text[] = "input a: f32[256, 256]\n"
                               "input b: f32[256, 256]\n"
                               "c[m,n] = sum[k] a[m,k] * b[k,n]\noutput c\n";
    dv_plan *plan = plan_on(text,
                            "target t { cores = 16 stick = 64 "
                            "memory_bandwidth = 1000GB/s mac_rate = 1Gmac/s }",
                            NULL, &usual);
    int32_t op = op_named(plan, "c");
    assert_int_equal(dv_plan_n_slices(plan, op, 0), 4);
    assert_int_equal(dv_plan_n_slices(plan, op, 1), 4);
    dv_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_shared),
        cmocka_unit_test(residents_cost_nothing), cmocka_unit_test(ring_limits),
        cmocka_unit_test(repeats_count),
        cmocka_unit_test(ties_go_to_less_traffic)};
    return run_group(tests, NULL, NULL);
}
