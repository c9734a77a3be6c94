// Random programs for Spyre: what emit --as superdsc writes has the fields of
// docs/superdsc.md and, executed, gives the values of the oracle. Programs that
// it refuses do not count.
#include "harness/test.h"
#include "harness/superdsc.h"
#include "harness/unit.h"
#include "base/text.h"
#include <stdio.h>
#include <string.h>

typedef struct writer {
    rng r;
    dv_text text;
    int n;             // matrices: t0 to t(n-1)
    int rows, columns; // of which extents they are
} writer;

static const char *pick(writer *w, const char *const *of, int n)
{
    return of[rng_below(&w->r, n)];
}

// Writes a statement that computes a matrix from earlier ones.
static void put_matrix(writer *w)
{
    static const char *const fns[] = {"relu", "sigmoid", "abs", "silu"};
    static const char *const ops[] = {"+", "-", "*"};
    static const char *const sums[] = {"max", "min", "sum"};
    int a = (int)rng_below(&w->r, w->n), b = (int)rng_below(&w->r, w->n);
    switch (rng_below(&w->r, 6)) {
    case 0:
        dv_put(&w->text, "t%d[i,j] = %s(t%d[i,j])\n", w->n, pick(w, fns, 4), a);
        break;
    case 1:
        dv_put(&w->text, "t%d[i,j] = t%d[i,j] %s t%d[i,j]\n", w->n, a,
               pick(w, ops, 3), b);
        break;
    case 2:
        dv_put(&w->text, "r%d[i] = %s[j] t%d[i,j]\n", w->n, pick(w, sums, 2),
               a);
        dv_put(&w->text, "t%d[i,j] = t%d[i,j] - r%d[i]\n", w->n, b, w->n);
        break;
    case 3:
        dv_put(&w->text, "c%d[j] = 0.0625 * (%s[i] t%d[i,j])\n", w->n,
               pick(w, sums, 3), a);
        dv_put(&w->text, "t%d[i,j] = max(t%d[i,j], c%d[j])\n", w->n, b, w->n);
        break;
    case 4:
        dv_put(&w->text, "u%d[j,i] = t%d[i,j]\n", w->n, a);
        dv_put(&w->text, "t%d[i,j] = u%d[j,i] + 0.5\n", w->n, w->n);
        break;
    default:
        dv_put(&w->text, "t%d[i,j] = 0.0625 * (sum[k] t%d[i,k] * w[k,j])\n",
               w->n, a);
    }
    w->n++;
}

static char *random_program(uint64_t seed)
{
    static const int extents[] = {1, 3, 20, 64, 65, 100, 128};
    writer w = {.r = {seed}, .n = 1};
    const char *type = rng_percent(&w.r, 80) ? "f16" : "f32";
    w.rows = extents[rng_below(&w.r, 7)];
    w.columns = extents[rng_below(&w.r, 7)];
    dv_put(&w.text, "input t0: %s[%d, %d]\ninput w: %s[%d, %d]\n", type, w.rows,
           w.columns, type, w.columns, w.columns);
    int n = 1 + (int)rng_below(&w.r, 4);
    for (int i = 0; i < n; i++)
        put_matrix(&w);
    dv_put(&w.text, "s[j] = 0.0625 * (sum[i] t%d[i,j])\noutput t%d, s\n",
           w.n - 1, w.n - 1);
    return w.text.at;
}

static dv_plan *plan_of(const dv_program *p, rng *r)
{
    dv_plan_options o = DV_PLAN_OPTIONS_INIT;
    dv_target *t = target_of("spyre");
    dv_plan *plan;
    o.cores = 1 + rng_below(r, 32);
    if (rng_percent(r, 80)) {
        o.divide = DV_DIVIDE_SEED;
        o.joint = DV_JOINT_OFF;
        t->ring_cores = 1;
    }
    must(dv_plan_create(&plan, p, t, &o, NULL) == DV_OK);
    dv_target_destroy(t);
    return plan;
}

// Returns 1 if the program was written and gives the oracle's values, -1 if it
// was refused.
static int try_one(uint64_t seed, const char *text, int *shuffles)
{
    dsc_files f;
    rng r = {seed};
    dv_program *p = program_of(text);
    dv_plan *plan = plan_of(p, &r);
    int right = -1;
    if (dsc_try(&f, plan)) {
        const dv_program *ops = plan->ops;
        void **before = case_buffers(ops), **after = case_buffers(ops);
        dsc_check_fields(&f, DV_SOURCE_DIR "/docs/superdsc.md");
        dsc_run(&f, ops, after);
        right = case_right(p, plan, before, after);
        for (int i = 0; i < f.n_steps; i++)
            *shuffles += !strcmp(dsc_step(&f, i)->items[0].key, "shuffle") ||
                         strstr(dsc_step(&f, i)->key, "_shuffle") != NULL;
        case_free(before, ops);
        case_free(after, ops);
        dsc_free(&f);
    }
    dv_plan_destroy(plan);
    dv_program_destroy(p);
    return right;
}

static void programs(void **state)
{
    (void)state;
    int n = gen_cases(100), right = 0, shuffles = 0;
    for (int i = 0; i < n; i++) {
        uint64_t seed = gen_seed() + (uint64_t)i;
        char *text = random_program(seed);
        int got = try_one(seed, text, &shuffles);
        if (got == 0)
            gen_report("superdsc", seed, GEN_FLOATS, text, case_why());
        assert_int_not_equal(got, 0);
        right += got > 0;
        dv_release(text);
    }
    if (n >= 50) {
        assert_true(right * 3 > n);
        assert_true(shuffles > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(programs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
