// Points that a mask makes superfluous are left out without any effect on
// results (C38): the bits are those of the same plan without `skip`, whatever
// the values are, and for any number of threads.
#include "harness/test.h"
#include "harness/unit.h"
#include <math.h>
#include <string.h>

#define ATTENTION(mask)                                                        \
    "input q: f32[2, 512, 32] input k: f32[2, 512, 32] "                       \
    "input v: f32[2, 512, 32] "                                                \
    "s[h,i,j] = sum[d] q[h,i,d] * k[h,j,d] "                                   \
    "u[h,i,j] = " mask " m[h,i] = max[j] u[h,i,j] "                            \
    "p[h,i,j] = exp(u[h,i,j] - m[h,i]) z[h,i] = sum[j] p[h,i,j] "              \
    "o[h,i,d] = (sum[j] p[h,i,j] * v[h,j,d]) / z[h,i] output o"

static const char *const masks[] = {
    ATTENTION("select(j <= i, s[h,i,j] * 0.125, -inf)"),
    ATTENTION("select(i > j, s[h,i,j], -inf)"),
    ATTENTION("select(j >= i + 70, -inf, s[h,i,j])"),
    ATTENTION("select(j < i - 130, s[h,i,j], -inf)"),
};
enum { N_MASKS = sizeof masks / sizeof *masks };

// Returns whether the machine has kernels, and the plan thus skips something.
static int skips(const dv_plan *plan)
{
    int n = 0;
    for (int32_t i = 0; i < plan->ops->n_ops; i++)
        n += plan->schedule.kernels && plan->schedule.ops[i].skip.by > 0;
    return n > 0;
}

// Removes all skips from a plan.
static void skip_nothing(dv_plan *plan)
{
    for (int32_t i = 0; i < plan->ops->n_ops; i++) {
        dv_op_schedule *s = &plan->schedule.ops[i];
        s->skip.by = 0;
        s->guard = s->guard == DV_GUARD_FINITE ? DV_GUARD_NONE : s->guard;
    }
}

// Sets an element of each input number `tensor` of the job.
static void put(job *j, const char *tensor, int64_t element, float value)
{
    int32_t t = tensor_named(j->plan, tensor);
    ((float *)j->data[t])[element] = value;
}

// Runs a program with and without skipping, where element `at` of a tensor has
// a special value, and compares all bits; any nan equals any other.
static void compare(const char *text, int64_t threads, const char *tensor,
                    int64_t at, float value)
{
    dv_plan_options o = DV_PLAN_OPTIONS_INIT;
    job one = {0}, other = {0};
    o.threads = threads;
    dv_plan *with = plan_on(text, "host", NULL, &o);
    dv_plan *without = plan_on(text, "host", NULL, &o);
    if (with->schedule.kernels && strcmp(with->schedule.kernels, "none"))
        assert_true(skips(with));
    skip_nothing(without);
    must(job_start(&one, with, DV_RUN_THREADS));
    must(job_start(&other, without, DV_RUN_THREADS));
    put(&one, tensor, at, value);
    put(&other, tensor, at, value);
    must(job_run(&one));
    must(job_run(&other));
    must(job_same_values(&one, &other));
    job_stop(&one);
    job_stop(&other);
    dv_plan_destroy(with);
    dv_plan_destroy(without);
}

TEST(bits)
{
    for (int i = 0; i < N_MASKS; i++)
        for (int64_t threads = 1; threads <= 3; threads += 2)
            compare(masks[i], threads, "q", 0, 0.5f);
}

// A value that 0 times is nan makes nan of all rows, also of those that mask
// it.
TEST(values_that_are_not_finite)
{
    static const float values[] = {INFINITY, -INFINITY, NAN};
    static const char *const tensors[] = {"q", "k", "v"};
    for (int k = 0; k < 3; k++)
        for (int t = 0; t < 3; t++)
            compare(masks[t + k == 3 ? k : 0], 2, tensors[t],
                    (512 + 300) * 32 + 5, values[k]);
}

TEST(right)
{
    for (int i = 0; i < 3; i++) { // all of some rows of the last is masked
        job j;
        start_and_run(&j, masks[i], 2);
        is_right(&j, 0);
        job_stop(&j);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits),
        cmocka_unit_test(values_that_are_not_finite),
        cmocka_unit_test(right),
    };
    return cmocka_run_group_tests(tests, case_set_up, case_tear_down);
}
