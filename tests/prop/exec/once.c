// What is computed once (C39), on random programs of which some inputs are
// constants: the bits of results are those of the plan that computes everything
// in every run, and both are right.
#include "harness/test.h"
#include "harness/property.h"
#include "harness/job.h"
#include "harness/random.h"
#include <string.h>

enum { MOST = 32, MAX_THREADS = 5 };

// Lists inputs that no op writes and that are no outputs.
static size_t choose_constants(const dv_program *p, rng *r, const char **names)
{
    size_t n = 0;
    for (int32_t t = 0; t < p->n_tensors; t++) {
        int is = p->tensors[t].is_input && !p->tensors[t].is_output;
        for (int32_t i = 0; i < p->n_ops; i++)
            is &= p->ops[i].write.tensor != t;
        if (is && n < MOST && rng_percent(r, 75))
            names[n++] = p->tensors[t].name;
    }
    return n;
}

// How many plans were compared, and how many groups of them are computed once.
static int64_t n_plans, n_once;

static void count(const dv_plan *plan)
{
    n_plans++;
    for (int32_t g = 0; g < plan->n_groups; g++)
        n_once += plan->groups[g].once;
}

static void compute_each_time(dv_plan *plan)
{
    for (int32_t g = 0; g < plan->n_groups; g++)
        plan->groups[g].once = 0;
    for (int32_t t = 0; t < plan->ops->n_tensors; t++)
        plan->ops->tensors[t].is_once = 0;
}

static int bits_are_the_same(const dv_program *p, uint64_t seed)
{
    rng r = {seed ^ 0x27d4eb2f};
    const char *names[MOST];
    dv_plan_options o = DV_PLAN_OPTIONS_INIT;
    o.threads = 1 + rng_below(&r, MAX_THREADS);
    o.constants = names;
    o.n_constants = choose_constants(p, &r, names);
    dv_plan *with = case_plan(p, case_host, &o);
    dv_plan *without = case_plan(p, case_host, &o);
    job one = {0}, other = {0};
    int ok = with && without && case_reads_back(with);
    if (ok) {
        count(with);
        compute_each_time(without);
    }
    ok = ok && case_schedule(without) && job_done(&one, with, DV_RUN_THREADS) &&
         job_run(&one) && job_done(&other, without, DV_RUN_THREADS) &&
         job_run(&other);
    ok = ok && job_right(&one, p) && job_same_values(&one, &other);
    if (!ok && with)
        case_show(with);
    job_stop(&one);
    job_stop(&other);
    dv_plan_destroy(with);
    dv_plan_destroy(without);
    return ok;
}

static const char *const hard[] = {
    // A folded batch norm, whose weights a product packs.
    "input x: f32[33, 40] input w: f32[40, 50] input g: f32[50] "
    "input v: f32[50] s[o] = g[o] * rsqrt(abs(v[o]) + 0.5) "
    "f[c,o] = w[c,o] * s[o] y[i,o] = relu(sum[c] x[i,c] * f[c,o]) output y",
    // A product of constants is a factor, transposed and of another type.
    "input a: f16[30, 9] input b: f16[9, 20] input x: f32[30, 8] "
    "ab[i,j]: f16 = sum[k] a[i,k] * b[k,j] z[j,n] = sum[i] ab[i,j] * x[i,n] "
    "output z",
    // Ops that are computed once, between others, and around a repeat.
    "input x: f32[12, 16] input w: f32[12, 16] y[i,j] = x[i,j] * 2 "
    "e[i,j] = exp(w[i,j]) z[i,j] = y[i,j] + e[i,j] u[i] = 0.0 for i in 0..12 "
    "repeat t in 0..4 { q[i] = w[i,3] u[i] <- u[i] + z[i,t] * q[i] } "
    "m[i] = max[j] e[i,j] k[i,j] = select(j <= i, e[i,j], m[i]) "
    "r[i,j] = z[i,j] * k[i,j] + u[i] output r",
    // What is computed once is read with a border, by index, and in place.
    "input x: f32[6, 20] input p: i32[6] h[i] = p[i] * 0 + i "
    "c[j] = cos(j * 0.5) for j in 0..20 "
    "y[i,j] = x[h[i],j] * (c[j + 1] else 0) output y",
};

CASE_PROPERTY(bits_are_the_same, 200, 5)

// The comparison means nothing for plans that compute everything in every run.
TEST(enough_is_computed_once)
{
    printf("%lld groups of %lld plans are computed once\n", (long long)n_once,
           (long long)n_plans);
    assert_true(4 * n_once >= n_plans);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE_TESTS(bits_are_the_same),
        cmocka_unit_test(enough_is_computed_once),
    };
    return run_group(tests, case_set_up, case_tear_down);
}
