// emit --as superdsc: the files have the fields of docs/superdsc.md; tensors in
// scratchpads are no arguments; copies between cores say who owns what; what
// cannot be said is refused.
#include "harness/test.h"
#include "harness/superdsc.h"
#include "harness/unit.h"
#include <stdlib.h>
#include <string.h>

static const dv_plan_options as_torch_spyre = {
    .size = sizeof(dv_plan_options),
    .divide = DV_DIVIDE_SEED,
    .joint = DV_JOINT_OFF,
};

// Plans a program for Spyre whose cores only copy between ops.
static dv_plan *plan_of(const char *text, int64_t cores,
                        const char *const *pins)
{
    dv_plan_options o = as_torch_spyre;
    dv_target *t = target_of("spyre");
    dv_program *p = program_of(text);
    dv_plan *plan;
    dv_diag *diag = dv_diag_create();
    t->ring_cores = 1;
    o.cores = cores;
    o.pins = pins;
    for (o.n_pins = 0; pins && pins[o.n_pins];)
        o.n_pins++;
    must(dv_plan_create(&plan, p, t, &o, diag) == DV_OK);
    dv_diag_destroy(diag);
    dv_program_destroy(p);
    dv_target_destroy(t);
    return plan;
}

static const char softmax[] = "input x: f16[64, 256]\n"
                              "m[j] = max[i] x[i,j]\n"
                              "d[i,j] = x[i,j] - m[j]\n"
                              "e[i,j] = exp(d[i,j])\n"
                              "s[j] = sum[i] e[i,j]\n"
                              "y[i,j] = e[i,j] / s[j]\n"
                              "output y\n";

static const char *const programs[] = {
    softmax,
    "input a: f16[128, 192]\ninput b: f16[192, 256]\n"
    "c[m,n] = relu(0.5 * (sum[k] a[m,k] * b[k,n]))\noutput c\n",
    "input x: f16[48, 100]\nm[i] = max[j] x[i,j]\n"
    "y[i,j] = exp(x[i,j] - m[i])\noutput y\n",
    "input x: f32[64, 256]\nu[i] = mean[j] x[i,j]\n"
    "y[i,j] = x[i,j] - u[i]\noutput y\n",
    "input x: f16[4, 128, 192]\ny[b,j,i] = x[b,i,j]\noutput y\n",
};

static void fields(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        for (int64_t cores = 1; cores <= 32; cores *= 4) {
            dsc_files f;
            dv_plan *plan = plan_of(programs[i], cores, NULL);
            dsc_emit(&f, plan);
            dsc_check_fields(&f, DV_SOURCE_DIR "/docs/superdsc.md");
            dsc_free(&f);
            dv_plan_destroy(plan);
        }
}

static const dv_jval *design_of(const dsc_files *f, int i)
{
    return &dsc_get(dsc_step(f, i), "dscs_")->items[0].items[0];
}

static const char *component(const dsc_files *f, int step, int tensor)
{
    const dv_jval *t = dsc_get(design_of(f, step), "scheduleTree_");
    return dsc_get(&t->items[tensor], "component_")->s;
}

// Only x and y are arguments. Both ends of the first step: main memory, and the
// scratchpads, where everything else is.
static void arguments(void **state)
{
    (void)state;
    dsc_files f;
    dv_plan *plan = plan_of(softmax, 4, NULL);
    dsc_emit(&f, plan);
    const dv_jval *a = dsc_get(f.root[0], "arguments");
    assert_int_equal(a->n, 2);
    assert_string_equal(dsc_get(&a->items[0], "name")->s, "x");
    assert_string_equal(dsc_get(&a->items[1], "name")->s, "y");
    assert_int_equal(dsc_get(f.root[0], "pool")->n, 0);
    assert_string_equal(component(&f, 0, 0), "hbm");
    assert_string_equal(component(&f, 0, 1), "lx");
    const dv_jval *l = dsc_get(design_of(&f, 0), "labeledDs_");
    assert_int_equal(dsc_get(&l->items[0], "memOrg_")->n, 2);
    assert_int_equal(dsc_get(&l->items[1], "memOrg_")->n, 1);
    dsc_free(&f);
    dv_plan_destroy(plan);
}

// t is written by rows and summed by columns: a shuffle brings each core its
// columns. The owners of both sides are those of the plan.
static void shuffle(void **state)
{
    (void)state;
    static const char *const pins[] = {"t:i=4", "u:i=4", "s:j=4", NULL};
    dsc_files f;
    int found = 0;
    dv_plan *plan = plan_of("input x: f16[256, 256]\nt[i,j] = exp(x[i,j])\n"
                            "u[i,j] = t[i,j] * 2.0\ns[j] = sum[i] t[i,j]\n"
                            "output u, s\n",
                            4, pins);
    dsc_emit(&f, plan);
    dsc_check_fields(&f, DV_SOURCE_DIR "/docs/superdsc.md");
    for (int i = 0; i < f.n_steps; i++) {
        if (strcmp(design_of(&f, i)->key, "shuffle") != 0)
            continue;
        found++;
        const dv_jval *t = dsc_get(design_of(&f, i), "scheduleTree_");
        for (int end = 0; end < 2; end++) {
            const dv_jval *c = dsc_get(&t->items[end], "coordinates_");
            const dv_jval *o = dsc_get(c, "coreIdToWkSlice_");
            assert_int_equal(o->n, 4);
            for (int core = 0; core < 4; core++) {
                assert_int_equal(dsc_get(&o->items[core], "mb")->i,
                                 end == 0 ? core : 0);
                assert_int_equal(dsc_get(&o->items[core], "out")->i,
                                 end == 0 ? 0 : core);
            }
        }
    }
    assert_int_equal(found, 1);
    dsc_free(&f);
    dv_plan_destroy(plan);
}

static void is_refused(const char *text, const char *target, const char *why)
{
    dv_plan *plan = plan_on(text, target, NULL, &as_torch_spyre);
    dv_diag *diag = dv_diag_create();
    if (dv_plan_emit(plan, DV_EMIT_SUPERDSC, "refused", diag) != DV_E_USAGE)
        fail_msg("this is not refused: %s", text);
    if (!strstr(dv_diag_message(diag), why))
        fail_msg("'%s' is not in '%s'", why, dv_diag_message(diag));
    dv_diag_destroy(diag);
    dv_plan_destroy(plan);
}

static void refusals(void **state)
{
    (void)state;
    is_refused(softmax, "wormhole", "does not store tensors in sticks");
    is_refused("input x: f64[64]\ny[i] = x[i] + 1.0\noutput y\n", "spyre",
               "y is f64");
    is_refused("input x: f16[64]\ny[i] = erf(x[i])\noutput y\n", "spyre",
               "y: the back end has no erf");
    is_refused("input x: f32[64]\ny[i] = tanh(x[i])\noutput y\n", "spyre",
               "y: the back end has no tanh of f32");
    is_refused("input x: f16[128]\ny[i] = x[i+64]  for i in 0..64\noutput y\n",
               "spyre", "y touches x, and only a part of it is touched");
    is_refused("input x: f16[64]\ninput n: i32[64]\ny[i] = x[n[i]]\noutput y\n",
               "spyre", "y reads through an index tensor");
    is_refused("input x: f16[64]\nx[i] <- x[i] + 1.0\noutput x\n", "spyre",
               "x changes a tensor in place");
    is_refused("input x: f16[64]\ny[i] = x[i]\nrepeat 2 {\n"
               "y[i] <- y[i] + x[i]\n}\noutput y\n",
               "spyre", "a repeat");
    is_refused("input a: f16[64, 64]\ninput b: f16[64, 64]\n"
               "c[i] = sum[k] a[i,k] * b[i,k]\noutput c\n",
               "spyre", "c is no matrix product of the back end");
    is_refused("input a: f16[64, 100]\ninput b: f16[100, 64]\n"
               "c[m,n] = sum[k] a[m,k] * b[k,n]\noutput c\n",
               "spyre", "lacks the padding to 128");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields),
        cmocka_unit_test(arguments),
        cmocka_unit_test(shuffle),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
