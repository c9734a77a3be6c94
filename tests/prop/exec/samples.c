// Properties of sampled verification: without a limit of time it says of a run
// what the comparison of all elements says, and it finds a tensor in memory
// that is wrong.
#include "harness/test.h"
#include "harness/property.h"
#include "harness/job.h"
#include <math.h>

static void **stored_of(const job *j)
{
    size_t n = (size_t)j->plan->ops->n_tensors;
    void **stored = calloc(n + 1, sizeof *stored);
    for (size_t i = 0; i < n; i++)
        stored[i] = dv_exec_stored(j->x, (int32_t)i);
    return stored;
}

static int judged(const job *j, const dv_program *p, void *const *stored,
                  dv_verdict *v, dv_arena *arena)
{
    const dv_sample_options options = {
        .budget_s = INFINITY, .kept = j->kept.data, .seed = 3};
    return !dv_verify_samples(v, p, j->plan, j->before, stored, &options, arena,
                              j->diag) ||
           case_no("it cannot be sampled: %s", dv_diag_text(j->diag));
}

// Both verdicts on the outputs as they are now are the same. If elements cannot
// be recomputed from the inputs, samples may miss an error. Where an element
// was altered, samples may find what the comparison of all elements does not:
// they recompute it from what the run read, with bounds that do not grow from
// op to op.
static int says_the_same(const job *j, const dv_program *p, void *const *stored,
                         int altered, const char *what)
{
    dv_verdict all, some;
    dv_arena arena = {0};
    int ok =
        !dv_verify(&all, p, j->plan, j->before, j->data, NULL, NULL, j->diag) ||
        case_no("it cannot be verified: %s", dv_diag_text(j->diag));
    ok = ok && judged(j, p, stored, &some, &arena);
    if (ok && all.ok != some.ok && !(some.ok && some.n_missed) &&
        !(altered && all.ok))
        ok = case_no("%s: all elements are %s, samples are %s (%s %g off, %g "
                     "allowed)",
                     what, all.ok ? "right" : "wrong",
                     some.ok ? "right" : "wrong",
                     some.ok ? all.tensor : some.tensor,
                     some.ok ? all.residual : some.residual,
                     some.ok ? all.threshold : some.threshold);
    dv_arena_free(&arena);
    return ok;
}

static int is_missed(const dv_verdict *v, const char *name)
{
    for (int32_t i = 0; i < v->n_missed; i++)
        if (!strcmp(v->missed[i].tensor, name))
            return 1;
    return 0;
}

// Returns whether an op that runs at least once writes the tensor.
static int is_written(const dv_program *p, int32_t tensor)
{
    for (int32_t i = 0; i < p->n_ops; i++) {
        int runs = p->ops[i].write.tensor == tensor;
        for (int32_t k = 0; k < p->n_repeats; k++)
            if (p->repeats[k].first_op <= i && i < p->repeats[k].end_op)
                runs &= p->repeats[k].times > 0;
        if (runs)
            return 1;
    }
    return 0;
}

// Changes every element of a tensor of integers. That is found unless tiles of
// it are missed.
static int finds(const job *j, const dv_program *p, void *const *stored,
                 int32_t tensor)
{
    const dv_tensor *t = &j->plan->ops->tensors[tensor];
    dv_verdict v;
    dv_arena arena = {0};
    double positive_becomes = dv_dtype_get(t->dtype)->kind == 'i' ? -1 : 0;
    for (int64_t k = 0; k < t->n_elems; k++)
        dv_store(t->dtype, stored[tensor], k,
                 dv_load(t->dtype, stored[tensor], k) > 0 ? positive_becomes
                                                          : 1);
    int ok = judged(j, p, stored, &v, &arena);
    if (ok && v.ok && !is_missed(&v, t->name))
        ok = case_no("%s is wrong, which is not found", t->name);
    dv_arena_free(&arena);
    return ok;
}

static int samples_agree(const dv_program *p, uint64_t seed,
                         const dv_target *target, int kind)
{
    dv_plan_options o = DV_PLAN_OPTIONS_INIT;
    o.threads = target == case_host ? 1 + (int64_t)(seed % 2) : 0;
    dv_plan *plan = case_plan(p, target, &o);
    job j = {0};
    rng r = {seed};
    if (!plan)
        return 0;
    dv_arena arena = {0};
    int integers = 1, ok = job_start(&j, plan, kind);
    if (ok && seed % 4)
        dv_keep_round(&j.kept, j.x, plan->ops, &arena, j.diag);
    ok = ok && job_run(&j);
    void **stored = ok ? stored_of(&j) : NULL;
    ok = ok && says_the_same(&j, p, stored, 0, "as it ran");
    for (int32_t i = 0; ok && i < plan->ops->n_tensors; i++) {
        const dv_tensor *t = &plan->ops->tensors[i];
        integers &= !dv_is_float(t->dtype);
        if (!t->is_output)
            continue;
        int64_t k = rng_below(&r, t->n_elems);
        double kept = dv_load(t->dtype, j.data[i], k);
        dv_store(t->dtype, j.data[i], k, kept * 1.01 + 1);
        int altered = dv_load(t->dtype, j.data[i], k) != kept;
        ok = says_the_same(&j, p, stored, altered, "with a wrong element");
        dv_store(t->dtype, j.data[i], k, kept);
    }
    int32_t start = (int32_t)rng_below(&r, plan->ops->n_tensors);
    for (int32_t n = 0; ok && integers && n < plan->ops->n_tensors; n++) {
        int32_t i = (start + n) % plan->ops->n_tensors;
        if (!stored[i] || !is_written(plan->ops, i))
            continue;
        ok = finds(&j, p, stored, i);
        break;
    }
    if (!ok)
        case_show(plan);
    free(stored);
    job_stop(&j);
    dv_arena_free(&arena);
    dv_plan_destroy(plan);
    return ok;
}

static int samples_say_what_all_say(const dv_program *p, uint64_t seed)
{
    return samples_agree(p, seed, case_host, DV_RUN_THREADS) &&
           samples_agree(p, seed, case_host, DV_RUN_SEQ) &&
           samples_agree(p, seed, case_spyre, RUN_AS_PLANNED);
}

static const char *const hard[] = {
    // Temporaries that are inlined or kept one tile at a time.
    "input x: f32[64, 300]\nu[i] = (sum[j] x[i,j]) / 300\n"
    "c[i,j] = x[i,j] - u[i]\nv[i] = sum[j] c[i,j] * c[i,j]\n"
    "y[i,j] = c[i,j] * rsqrt(v[i] + 1e-5)\noutput y\n",
    "input a: i32[24, 30]\ninput b: i32[30, 20]\n"
    "h[i,j] = max(sum[k] a[i,k] * b[k,j], 0)\n"
    "y[i,j] = sum[k] h[i,k] * h[j,k]\nz[i] = max[j] y[i,j]\noutput z\n",
    "input u: i32[20, 20]\nrepeat 4 {\n"
    "u[i,j] <- u[i-1,j] + u[i+1,j] for i in 1..19, j in 0..20\n}\n"
    "s[i] = sum[j] u[i,j]\noutput u, s\n",
    "input x: i32[40]\ninput n: i32[40]\ninput u: i32[40]\n"
    "t[i] = x[i] * 3\nu[n[i]] <- t[i]\n"
    "z[i] = u[i] + x[i]\noutput u, z\n"};

CASE_PROPERTY(samples_say_what_all_say, 120, 2)

int main(void)
{
    const struct CMUnitTest tests[] = {CASE_TESTS(samples_say_what_all_say)};
    return run_group(tests, case_set_up, case_tear_down);
}
