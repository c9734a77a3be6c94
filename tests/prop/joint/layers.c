// Properties of plans of programs with equal layers, which are folded when they
// are divided: random layers, repeated, on random machines. The plan passes its
// check, gives what the oracle gives and moves the predicted bytes; a folded
// plan has the first two layers and the last.
#include "harness/test.h"
#include "harness/gen.h"
#include "harness/property.h"
#include "harness/unit.h"
#include "joint/joint.h"

static int n_plans, n_folded, n_alike, n_loops;

// Writes layer k, which reads what the layer before wrote, x at first. The same
// seed gives the same layer. Layers may also read the input `shared` and a
// weight of their own.
static void put_layer(dv_text *out, uint64_t seed, int k, int n)
{
    rng r = {seed};
    char from[16], in[16];
    snprintf(in, sizeof in, k ? "y%d" : "x", k - 1);
    snprintf(from, sizeof from, "%s", in);
    for (int i = 0; i < n; i++) {
        char to[16];
        snprintf(to, sizeof to, i < n - 1 ? "t%d_%d" : "y%d", k, i);
        int what = (int)rng_below(&r, 6);
        if (what == 0)
            dv_put(out, "%s[i,j] = relu(%s[i,j]) + 0.5 * %s[i,j]\n", to, from,
                   in);
        else if (what == 1)
            dv_put(
                out,
                "m%d_%d[i] = max[j] %s[i,j]\n%s[i,j] = %s[i,j] - m%d_%d[i]\n",
                k, i, from, to, from, k, i);
        else if (what == 2)
            dv_put(out, "%s[i,j] = sum[q] %s[i,q] * w%d[q,j]\n", to, from, k);
        else if (what == 3)
            dv_put(out, "%s[i,j] = sum[q] %s[i,q] * shared[q,j]\n", to, from);
        else if (what == 4)
            dv_put(out, "%s[i,j] = %s[i,j] * w%d[0,j]\n", to, from, k);
        else
            dv_put(out, "%s[i,j] = abs(%s[i,j]) * 0.25\n", to, from);
        memcpy(from, to, sizeof from);
    }
}

static char *make_program(uint64_t seed, int *n_layers)
{
    rng r = {seed * 31 + 7};
    dv_text out = {0};
    int rows = 4 + (int)rng_below(&r, 20), columns = 4 + (int)rng_below(&r, 20);
    int n = 3 + (int)rng_below(&r, 6);
    *n_layers = 4 + (int)rng_below(&r, 12);
    dv_put(&out, "input x: f32[%d, %d]\ninput shared: f32[%d, %d]\n", rows,
           columns, columns, columns);
    for (int k = 0; k < *n_layers; k++)
        dv_put(&out, "input w%d: f32[%d, %d]\n", k, columns, columns);
    for (int k = 0; k < *n_layers; k++)
        put_layer(&out, seed, k, n);
    int last = *n_layers - 1;
    dv_put(&out, "z[i,j] = y%d[i,j] + x[i,j]\n", last);
    if (rng_percent(&r, 20))
        dv_put(&out, "u[i,j] = y%d[i,j] * 2.0\noutput z, u\n",
               (int)rng_below(&r, last));
    else
        dv_put(&out, "output z\n");
    return dv_text_take(&out);
}

static dv_target *make_machine(rng *r)
{
    dv_text text = {0};
    dv_put(&text,
           "target t { cores = %d stick = %d sticks = %s scratch = %d "
           "scratch_align = 16 memory_bandwidth = 1GB/s mac_rate = %dGmac/s ",
           (int)(1 + rng_below(r, 5)), 16 << rng_below(r, 2),
           rng_percent(r, 50) ? "yes" : "no", (int)(256 << rng_below(r, 6)),
           (int)(1 + rng_below(r, 40)));
    if (rng_percent(r, 20))
        dv_put(&text, "span_limit = %d ", (int)(1024 << rng_below(r, 3)));
    dv_put(&text, "%s grain = %s }",
           rng_percent(r, 50) ? "ring = yes ring_bandwidth = 2GB/s" : "",
           rng_percent(r, 50) ? "primitive" : "fused");
    dv_target *t = target_of(text.at);
    dv_text_free(&text);
    return t;
}

// Returns the op that writes a tensor, or -1.
static int32_t writer_in(const dv_program *p, int32_t tensor)
{
    for (int32_t i = 0; i < p->n_ops; i++)
        if (p->ops[i].write.tensor == tensor)
            return i;
    return -1;
}

// Returns whether op i of the whole program, if the folded one has it too,
// reads there what the same ops write.
static int reads_the_same(const dv_layers *l, const dv_program *whole,
                          int32_t i)
{
    int32_t at = l->folded[i];
    for (int r = 0; l->whole[at] == i && r < whole->ops[i].n_reads; r++) {
        int32_t a = writer_in(whole, whole->ops[i].reads[r].tensor);
        int32_t b = writer_in(&l->program, l->program.ops[at].reads[r].tensor);
        if (b != (a < 0 ? -1 : l->folded[a]))
            return case_no("folded op %s does not read what op %d writes",
                           whole->ops[i].name, a);
    }
    return 1;
}

// Folds the program as pass joint does, and compares the folded plan with the
// whole one.
static int folds(const dv_program *p, const dv_target *t)
{
    dv_plan_options o = DV_PLAN_OPTIONS_INIT;
    dv_plan *plan = NULL;
    dv_layers l;
    dv_arena arena = {0};
    o.stop_after = "group";
    if (dv_plan_create(&plan, p, t, &o, NULL) != DV_OK)
        return 1;
    int n = plan->ops->n_ops, ok = 1;
    int folded = dv_layers_fold(&l, plan, &arena);
    must(folded >= 0);
    if (folded) {
        int left_out = 0;
        plan->arena = l.part.arena;
        plan->ops->arena = l.program.arena;
        for (int32_t i = 0; i < l.n_regions; i++)
            left_out += (l.regions[i].n_layers - 3) * l.regions[i].layer;
        ok = l.program.n_ops == n - left_out || case_no("ops of the part");
        for (int32_t i = 0; ok && i < n; i++) {
            const dv_op *a = &plan->ops->ops[i];
            const dv_op *b = &l.program.ops[l.folded[i]];
            ok = a->n_reads == b->n_reads && a->n_vars == b->n_vars;
            for (int k = 0; ok && k <= a->n_reads; k++) {
                const dv_tensor *x =
                    &plan->ops->tensors[dv_op_access(a, k)->tensor];
                const dv_tensor *y =
                    &l.program.tensors[dv_op_access(b, k)->tensor];
                ok = x->is_input == y->is_input && x->n_elems == y->n_elems;
            }
            ok = ok || case_no("op %s is folded into %s", a->name, b->name);
            ok = ok && reads_the_same(&l, plan->ops, i);
        }
        n_folded++;
    }
    dv_plan_destroy(plan);
    dv_arena_free(&arena);
    return ok;
}

static int same_slices(const dv_plan *plan, const char *a, const char *b)
{
    int32_t i = op_named(plan, a), k = op_named(plan, b);
    return !memcmp(plan->slices[i], plan->slices[k],
                   (size_t)plan->ops->ops[i].n_vars * sizeof **plan->slices);
}

static int holds(const char *text, uint64_t seed, int n_layers)
{
    rng r = {seed ^ 0x1a7e5};
    dv_plan_options o = DV_PLAN_OPTIONS_INIT;
    o.tenants = rng_percent(&r, 20) ? DV_TENANTS_MANY : DV_TENANTS_ONE;
    dv_program *p = program_of(text);
    dv_target *t = make_machine(&r);
    dv_plan *plan = NULL;
    dv_diag *diag = dv_diag_create();
    int folded = n_folded, ok = folds(p, t);
    folded = n_folded - folded;
    dv_status st = dv_plan_create(&plan, p, t, &o, diag);
    // No division may meet the span limit.
    ok = ok && (st == DV_OK || st == DV_E_CAPACITY ||
                case_no("%s", dv_diag_text(diag)));
    if (ok && plan)
        ok = case_keeps(p, plan);
    for (int32_t i = 0; plan && i < plan->n_groups; i++)
        if (plan->groups[i].loops) {
            n_loops++;
            break;
        }
    n_plans += plan != NULL;
    if (plan && folded && n_layers > 5)
        n_alike += same_slices(plan, "y2", "y3");
    dv_plan_destroy(plan);
    dv_diag_destroy(diag);
    dv_target_destroy(t);
    dv_program_destroy(p);
    return ok;
}

TEST(layers)
{
    int n = gen_cases(100), failed = 0;
    for (int i = 0; i < n && failed < 3; i++) {
        uint64_t seed = gen_seed() + (uint64_t)i;
        int n_layers;
        char *text = make_program(seed, &n_layers);
        if (!holds(text, seed, n_layers)) {
            gen_report("layers", seed, GEN_FLOATS, text, case_why());
            failed++;
        }
        dv_free(text);
    }
    printf("%d plans: %d folded, in %d of them two layers are divided alike, "
           "%d with loops over tiles\n",
           n_plans, n_folded, n_alike, n_loops);
    assert_int_equal(failed, 0);
    if (n >= 100)
        assert_true(n_folded > n / 4 && n_alike > 0 && n_loops > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(layers)};
    return run_group(tests, NULL, NULL);
}
