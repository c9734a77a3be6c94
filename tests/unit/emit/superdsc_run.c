// Plans as SuperDSC, executed again: a machine that reads the files alone gives
// the values of the oracle, and wrong ones if a file is wrong.
#include "harness/test.h"
#include "harness/superdsc.h"
#include "harness/unit.h"
#include <stdio.h>
#include <string.h>

typedef struct example {
    const char *text;
    const char *pins[4];
} example;

static const example examples[] = {
    // Homes that are loaded, and taken over in place.
    {"input x: f16[64, 256]\nm[j] = max[i] x[i,j]\nd[i,j] = x[i,j] - m[j]\n"
     "e[i,j] = exp(d[i,j])\ns[j] = sum[i] e[i,j]\ny[i,j] = e[i,j] / s[j]\n"
     "output y\n",
     {NULL}},
    // Along the dim that is cut into sticks: results with one value per stick,
    // and padding that is masked.
    {"input x: f16[48, 100]\nm[i] = max[j] x[i,j]\nn[i] = min[j] x[i,j]\n"
     "s[i] = sum[j] x[i,j]\ny[i,j] = exp(x[i,j] - m[i]) + n[i] * s[i]\n"
     "output y\n",
     {NULL}},
    // Products: of matrices, with other functions around them, and batches;
    // with sums in slices.
    {"input a: f16[32, 64]\ninput b: f16[64, 128]\n"
     "c[m,n] = relu(0.5 * (sum[k] a[m,k] * b[k,n]))\noutput c\n",
     {NULL}},
    {"input a: f16[16, 256]\ninput b: f16[256, 64]\n"
     "c[m,n] = sum[k] a[m,k] * b[k,n]\ns[m] = sum[n] c[m,n]\n"
     "output c, s\n",
     {"c:k=4", NULL}},
    {"input q: f16[2, 64, 64]\ninput k: f16[2, 64, 64]\n"
     "input v: f16[2, 64, 64]\n"
     "t[h,i,j] = 0.125 * (sum[d] q[h,i,d] * k[h,j,d])\n"
     "m[h,i] = max[j] t[h,i,j]\np[h,i,j] = exp(t[h,i,j] - m[h,i])\n"
     "z[h,i] = sum[j] p[h,i,j]\n"
     "o[h,i,d] = (sum[j] p[h,i,j] * v[h,j,d]) / z[h,i]\noutput o\n",
     {NULL}},
    {"input a: f16[2, 3, 8, 64]\ninput w: f16[64, 128]\n"
     "c[b,s,m,n] = sum[k] a[b,s,m,k] * w[k,n]\noutput c\n",
     {NULL}},
    // Copies between cores, on the same core, and of all dims.
    {"input x: f16[256, 256]\nt[i,j] = exp(x[i,j])\nu[i,j] = t[i,j] * 2.0\n"
     "s[j] = sum[i] t[i,j]\noutput u, s\n",
     {"t:i=4", "u:i=4", "s:j=4", NULL}},
    {"input x: f16[2, 64, 128]\ny[b,j,i] = x[b,i,j]\n"
     "z[b,j] = sum[i] y[b,j,i]\noutput y, z\n",
     {NULL}},
    // Types of 32 bits, broadcasts, scalars, means, results of several readers.
    {"input x: f32[64, 256]\ninput g: f32[256]\nu[i] = mean[j] x[i,j]\n"
     "y[i,j] = (x[i,j] - u[i]) * g[j]\n"
     "z[i,j] = select(y[i,j] > 0.0, y[i,j], u[i])\nt[] = sum[i,j] z[i,j]\n"
     "r[i] = sigmoid(u[i]) / t[]\noutput z, t, r\n",
     {NULL}},
    {"input x: f16[5, 100, 150]\ny[a,b,c] = silu(x[a,b,c])\n"
     "s[a,c] = sum[b] y[a,b,c]\noutput y, s\n",
     {NULL}},
};

// Plans an example for Spyre whose cores only copy between ops.
static dv_plan *plan_of(const dv_program *p, const example *e, int64_t cores)
{
    dv_plan_options o = DV_PLAN_OPTIONS_INIT;
    dv_target *t = target_of("spyre");
    dv_plan *plan;
    dv_diag *diag = dv_diag_create();
    t->ring_cores = 1;
    o.divide = DV_DIVIDE_SEED;
    o.joint = DV_JOINT_OFF;
    o.cores = cores;
    o.pins = e->pins;
    while (cores >= 4 && e->pins[o.n_pins])
        o.n_pins++;
    must(dv_plan_create(&plan, p, t, &o, diag) == DV_OK);
    dv_diag_destroy(diag);
    dv_target_destroy(t);
    return plan;
}

// Executes what was emitted. Returns whether the results are the oracle's.
static int gives_oracle(const dsc_files *f, const dv_program *p,
                        const dv_plan *plan)
{
    const dv_program *ops = plan->ops;
    void **before = case_buffers(ops), **after = case_buffers(ops);
    dsc_run(f, ops, after);
    int right = case_right(p, plan, before, after);
    case_free(before, ops);
    case_free(after, ops);
    return right;
}

static int has_step(const dsc_files *f, const char *kind)
{
    const dv_jval *steps = dsc_get(f->root[0], "steps");
    for (int i = 0; i < steps->n; i++)
        if (!strcmp(dsc_get(&steps->items[i], "kind")->s, kind))
            return 1;
    return 0;
}

static void values(void **state)
{
    (void)state;
    int shuffles = 0, loads = 0;
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++)
        for (int64_t cores = 1; cores <= 32; cores *= 2) {
            dsc_files f;
            dv_program *p = program_of(examples[i].text);
            dv_plan *plan = plan_of(p, &examples[i], cores);
            dsc_emit(&f, plan);
            int right = gives_oracle(&f, p, plan);
            if (!right)
                fprintf(stderr, "on %d cores: %s", (int)cores,
                        examples[i].text);
            must(right);
            shuffles += has_step(&f, "shuffle");
            loads += has_step(&f, "load");
            dsc_free(&f);
            dv_plan_destroy(plan);
            dv_program_destroy(p);
        }
    assert_true(shuffles > 0 && loads > 0);
}

static dv_jval *writable(const dv_jval *v)
{
    return (dv_jval *)(uintptr_t)v;
}

// Two cores with each other's slices, of the receiving end of a shuffle: other
// values.
static void wrong_owners(void **state)
{
    (void)state;
    dsc_files f;
    const example *e = &examples[6];
    dv_program *p = program_of(e->text);
    dv_plan *plan = plan_of(p, e, 4);
    dsc_emit(&f, plan);
    must(gives_oracle(&f, p, plan));
    for (int i = 0; i < f.n_steps; i++) {
        const dv_jval *d = &dsc_get(dsc_step(&f, i), "dscs_")->items[0];
        if (strcmp(d->items[0].key, "shuffle") != 0)
            continue;
        const dv_jval *a = dsc_get(&d->items[0], "scheduleTree_");
        const dv_jval *c = dsc_get(&a->items[1], "coordinates_");
        const dv_jval *o = dsc_get(c, "coreIdToWkSlice_");
        writable(dsc_get(&o->items[0], "out"))->i = 1;
        writable(dsc_get(&o->items[1], "out"))->i = 0;
    }
    assert_false(gives_oracle(&f, p, plan));
    dsc_free(&f);
    dv_plan_destroy(plan);
    dv_program_destroy(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values),
        cmocka_unit_test(wrong_owners),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
