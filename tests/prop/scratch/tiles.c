// Properties of loops over tiles (C11 to C15): random chains of ops on tensors
// that do not fit the scratchpads of random machines. The plan passes its check
// and reads back, gives what the oracle gives, moves the predicted bytes, and
// loops over no more tiles than it may.
#include "harness/test.h"
#include "harness/gen.h"
#include "harness/property.h"
#include "harness/unit.h"
#include "plan/view.h"

static int n_plans, n_loops, n_invariant, n_moved, n_shared, n_passed, n_turned,
    n_summed;

// -- Random chains -----------------------------------------------------------

typedef struct maker {
    rng r;
    dv_text out;
    const char *h; // "h," if tensors have heads
    int rows, columns;
    int n; // ops so far; results are t0, t1 and so on, of rows and columns
} maker;

static int any(maker *m, int n)
{
    return (int)rng_below(&m->r, n);
}

// Writes the name of the input or of an earlier result.
static const char *earlier(maker *m, char *name)
{
    int k = any(m, m->n + 1);
    snprintf(name, 16, k ? "t%d" : "x", k - 1);
    return name;
}

static void put_elementwise(maker *m, const char *from)
{
    static const char *const fns[] = {"relu", "abs", "-"};
    char other[16];
    earlier(m, other);
    dv_put(&m->out, "t%d[%si,j] = %s(%s[%si,j]) + 0.5 * %s[%si,j]\n", m->n,
           m->h, fns[any(m, 3)], from, m->h, other, m->h);
}

static void put_row_max(maker *m, const char *from)
{
    dv_put(&m->out, "m%d[%si] = max[j] %s[%si,j]\n", m->n, m->h, from, m->h);
    dv_put(&m->out, "t%d[%si,j] = %s[%si,j] - m%d[%si]\n", m->n, m->h, from,
           m->h, m->n, m->h);
}

// All tiles need the whole weight.
static void put_product(maker *m, const char *from)
{
    dv_put(&m->out, "t%d[%si,j] = sum[q] %s[%si,q] * w[q,j]\n", m->n, m->h,
           from, m->h);
}

// Every head has a weight of its own, which all rows of the head need; the
// result has its dims in another order.
static void put_experts(maker *m, const char *from)
{
    if (!m->h[0]) {
        put_product(m, from);
        return;
    }
    dv_put(&m->out, "e%d[h,i,j] = sum[q] %s[h,i,q] * v[h,q,j]\n", m->n, from);
    dv_put(&m->out, "u%d[i,h,j] = e%d[h,i,j]\n", m->n, m->n);
    dv_put(&m->out, "t%d[h,i,j] = relu(u%d[i,h,j])\n", m->n, m->n);
}

// The op that makes g does not depend on the chain, and every row needs all of
// its rows.
static void put_attention(maker *m, const char *from)
{
    const char *h = m->h;
    dv_put(&m->out, "s%d[%si,r] = sum[q] %s[%si,q] * x[%sr,q]\n", m->n, h, from,
           h, h);
    dv_put(&m->out, "g%d[%si,j] = x[%si,j] * 0.25\n", m->n, h, h);
    dv_put(&m->out, "t%d[%si,j] = sum[r] s%d[%si,r] * g%d[%sr,j]\n", m->n, h,
           m->n, h, m->n, h);
}

static char *make_program(uint64_t seed)
{
    maker m = {.r = {seed * 977 + 5}};
    m.h = any(&m, 2) ? "h," : "";
    m.rows = 6 + any(&m, 40);
    m.columns = 8 + any(&m, 90);
    dv_put(&m.out, "input x: f32[%s%d, %d]\ninput w: f32[%d, %d]\n",
           m.h[0] ? "3, " : "", m.rows, m.columns, m.columns, m.columns);
    if (m.h[0])
        dv_put(&m.out, "input v: f32[3, %d, %d]\n", m.columns, m.columns);
    for (int n = 2 + any(&m, 6); m.n < n; m.n++) {
        char from[16];
        snprintf(from, sizeof from, m.n ? "t%d" : "x", m.n - 1);
        int what = any(&m, 9);
        if (what < 3)
            put_elementwise(&m, from);
        else if (what < 4)
            put_row_max(&m, from);
        else if (what < 5)
            put_product(&m, from);
        else if (what < 7)
            put_attention(&m, from);
        else
            put_experts(&m, from);
    }
    int last = m.n - 1;
    if (any(&m, 3) == 0) {
        // An op after the chain that cuts its result in another way.
        dv_put(&m.out, "c[%sj] = max[i] t%d[%si,j]\noutput c", m.h, last, m.h);
    } else if (any(&m, 3) == 0) {
        // Sums over the heads or blocks of columns.
        dv_put(&m.out, "c[i,j] = sum[%sq] t%d[%si,q] * w[q,j]\noutput c", m.h,
               last, m.h);
    } else {
        dv_put(&m.out, "output t%d", last);
    }
    if (last > 0 && any(&m, 3) == 0)
        dv_put(&m.out, ", t%d", any(&m, last));
    dv_put(&m.out, "\n");
    return dv_text_take(&m.out);
}

static dv_target *make_machine(rng *r)
{
    dv_text text = {0};
    int stick = 16 << rng_below(r, 3);
    dv_put(&text,
           "target t { cores = %d stick = %d sticks = %s scratch = %d "
           "scratch_align = 16 memory_bandwidth = 1GB/s mac_rate = %dGmac/s ",
           (int)(1 + rng_below(r, 5)), stick, rng_percent(r, 50) ? "yes" : "no",
           (int)(512 << rng_below(r, 6)), (int)(1 + rng_below(r, 40)));
    if (rng_percent(r, 30))
        dv_put(&text, "span_limit = %d ", (int)(1024 << rng_below(r, 5)));
    if (rng_percent(r, 40))
        dv_put(&text, "ring_cores = %d ", (int)(1 + rng_below(r, 3)));
    dv_put(&text, "%s grain = %s }",
           rng_percent(r, 50) ? "ring = yes ring_bandwidth = 2GB/s" : "",
           rng_percent(r, 50) ? "primitive" : "fused");
    dv_target *t = target_of(text.at);
    dv_text_free(&text);
    return t;
}

// -- The property ------------------------------------------------------------

static void count(const dv_plan *plan)
{
    int loops = 0, invariant = 0, moved = 0;
    for (int32_t i = 0; i < plan->scratch.n_homes; i++) {
        const dv_home *h = &plan->scratch.homes[i];
        const dv_group *g = &plan->groups[dv_group_of(plan, h->as_op)];
        if (!g->loops)
            continue;
        loops = 1;
        n_summed += h->fill == DV_FILL_SUMMED;
        for (int64_t c = 0; c < plan->target.cores; c++)
            invariant |= h->fill == DV_FILL_LOADED &&
                         dv_home_loaded(plan, h, c) < dv_home_elems(plan, h, c);
    }
    for (int32_t i = 0; i < plan->ops->n_ops; i++) {
        const dv_op *o = &plan->ops->ops[i];
        if (!plan->groups[dv_group_of(plan, i)].loops)
            continue;
        n_turned += plan->digits && plan->digits[i];
        for (int r = 0; r < o->n_reads; r++) {
            n_shared += dv_ring_of(plan, i, r) == DV_RING_MEMORY;
            n_passed += dv_ring_of(plan, i, r) >= 0;
        }
    }
    // In the program, g3 is computed after s3.
    for (int32_t i = 0; i < plan->ops->n_ops && loops; i++) {
        char name[16] = "s";
        const char *own = plan->ops->ops[i].name;
        if (own[0] != 'g' || strlen(own) > 3)
            continue;
        strcat(name, own + 1);
        for (int32_t k = i + 1; k < plan->ops->n_ops; k++)
            moved |= !strcmp(plan->ops->ops[k].name, name);
    }
    n_plans++;
    n_loops += loops;
    n_invariant += invariant;
    n_moved += moved;
}

// Ops run together only in loops of at most as many tiles as allowed.
static int obeys(const dv_plan *plan, int64_t most)
{
    for (int32_t i = 0; i < plan->n_groups && most; i++) {
        const dv_group *g = &plan->groups[i];
        for (int32_t d = 0; d < g->n_deals; d++)
            if (g->end_op - g->first_op > 1 && g->deals[d].n_tiles > most)
                return case_no("%d tiles, %d are allowed",
                               (int)g->deals[d].n_tiles, (int)most);
    }
    return 1;
}

static int holds(const char *text, uint64_t seed)
{
    rng r = {seed ^ 0x711e5};
    dv_plan_options o = DV_PLAN_OPTIONS_INIT;
    o.tiles_per_core = rng_percent(&r, 70) ? 0 : 1 + rng_below(&r, 4);
    o.evict = (dv_switch)rng_below(&r, 3);
    o.reorder = (dv_switch)rng_below(&r, 3);
    o.in_place = (dv_switch)rng_below(&r, 3);
    o.tenants = rng_percent(&r, 20) ? DV_TENANTS_MANY : DV_TENANTS_ONE;
    dv_program *p = program_of(text);
    dv_target *t = make_machine(&r);
    dv_plan *plan = NULL;
    dv_diag *diag = dv_diag_create();
    dv_status st = dv_plan_create(&plan, p, t, &o, diag);
    // No division may meet the span limit.
    int ok =
        st == DV_OK || st == DV_E_CAPACITY || case_no("%s", dv_diag_text(diag));
    if (st == DV_OK)
        ok = case_keeps(p, plan) && obeys(plan, o.tiles_per_core);
    if (plan)
        count(plan);
    char *shown = !ok && plan ? dv_plan_text(plan) : NULL;
    if (shown)
        fprintf(stderr, "%s", shown);
    dv_free(shown);
    dv_plan_destroy(plan);
    dv_diag_destroy(diag);
    dv_target_destroy(t);
    dv_program_destroy(p);
    return ok;
}

TEST(chains)
{
    int n = gen_cases(150), failed = 0;
    for (int i = 0; i < n && failed < 3; i++) {
        uint64_t seed = gen_seed() + (uint64_t)i;
        char *text = make_program(seed);
        if (!holds(text, seed)) {
            gen_report("tiles", seed, GEN_FLOATS, text, case_why());
            failed++;
        }
        dv_free(text);
    }
    printf("%d plans: %d with loops over tiles, %d with loads for several "
           "tiles, %d with ops moved before a loop; in loops %d reads are "
           "shared, %d passed, %d sums in rounds, %d ops have their digits in "
           "another order\n",
           n_plans, n_loops, n_invariant, n_moved, n_shared, n_passed, n_summed,
           n_turned);
    assert_int_equal(failed, 0);
    if (n >= 250)
        assert_true(n_loops > n / 5 && n_invariant > 0 && n_moved > 0 &&
                    n_shared > 0 && n_turned > 0 && n_summed > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(chains)};
    return run_group(tests, NULL, NULL);
}
