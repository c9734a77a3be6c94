// Properties of the thread executor: however a plan is divided, and however
// many threads there are, it gives what the sequential executor gives, within
// what the oracle allows; the same bits from run to run and with fewer threads
// than the plan has cores; and unless sums are in parts, the same bits for any
// number of threads, with groups of ops or without.
#include "harness/test.h"
#include "harness/property.h"
#include "harness/products.h"
#include "plan/plan.h"
#include "exec/exec.h"
#ifdef _OPENMP
#include <omp.h>
#endif

enum { MAX_THREADS = 6 };

static dv_target *host;

static int setup(void **state)
{
    (void)state;
    return dv_target_load(&host, "host", NULL) != DV_OK;
}

static int teardown(void **state)
{
    (void)state;
    dv_target_destroy(host);
    return 0;
}

// -- Buffers -----------------------------------------------------------------

// What a plan gives; NULL when it does not run. Inputs that are outputs too
// are updated in place.
static void **run(const dv_plan *plan, dv_executor kind)
{
    dv_exec *x = NULL;
    dv_diag *diag = dv_diag_create();
    void **data = case_buffers(plan->ops);
    dv_status st = dv_exec_create(&x, plan, diag);
    if (st == DV_OK && kind != DV_RUN_THREADS)
        st = dv_exec_use(x, kind, diag);
    if (st == DV_OK)
        st = case_bind(x, plan->ops, data, diag);
    if (st == DV_OK)
        st = dv_exec_run(x, diag);
    if (st != DV_OK) {
        case_no("it does not run: %s", dv_diag_text(diag));
        case_free(data, plan->ops);
        data = NULL;
    }
    dv_exec_destroy(x);
    dv_diag_destroy(diag);
    return data;
}

// Outputs by name: plans of one program may have other tensors between.
static int same_bits(const char *what, const dv_program *p, void *const *a,
                     const dv_program *q, void *const *b)
{
    for (int i = 0; i < p->n_tensors; i++) {
        const dv_tensor *t = &p->tensors[i];
        size_t size = (size_t)dv_dtype_get(t->dtype)->size_bytes;
        int32_t other = t->is_output ? dv_program_find(q, t->name) : -1;
        for (int64_t k = 0; other >= 0 && k < t->n_elems; k++) {
            const char *x = (const char *)a[i] + (size_t)k * size;
            const char *y = (const char *)b[other] + (size_t)k * size;
            double v = dv_load(t->dtype, x, 0), w = dv_load(t->dtype, y, 0);
            if (memcmp(x, y, size) != 0 && !(v != v && w != w))
                return case_no("%s: element %d of %s is %.17g, was %.17g", what,
                               (int)k, t->name, w, v);
        }
    }
    return 1;
}

static int matches_oracle(const char *what, const dv_program *p,
                          const dv_plan *plan, void *const *got)
{
    dv_verdict verdict;
    dv_diag *diag = dv_diag_create();
    void **before = case_buffers(plan->ops);
    int ok = !dv_verify(&verdict, p, plan, before, got, NULL, NULL, diag) ||
             case_no("the oracle fails: %s", dv_diag_text(diag));
    if (ok && !verdict.ok)
        ok = case_no("%s: %s is %g off, %g is allowed", what, verdict.tensor,
                     verdict.residual, verdict.threshold);
    case_free(before, plan->ops);
    dv_diag_destroy(diag);
    return ok;
}

// -- Plans -------------------------------------------------------------------

static dv_plan *make_plan(const dv_program *p, int64_t threads,
                          dv_residents scratch)
{
    dv_plan *plan = NULL;
    dv_diag *diag = dv_diag_create();
    dv_plan_options o = DV_PLAN_OPTIONS_INIT;
    o.threads = threads;
    o.scratch = scratch;
    if (dv_plan_create(&plan, p, host, &o, diag))
        case_no("no plan: %s", dv_diag_text(diag));
    dv_diag_destroy(diag);
    return plan;
}

static int in_parts(const dv_plan *plan)
{
    for (int32_t i = 0; i < plan->ops->n_ops; i++) {
        const dv_op *o = &plan->ops->ops[i];
        for (int v = 0; v < o->n_vars; v++)
            if (o->vars[v].reduce &&
                plan->slices[i][v] < o->vars[v].end - o->vars[v].begin)
                return 1;
    }
    return 0;
}

// Cut variables at random, reduced ones too where `parts`.
static int64_t cut(rng *r, dv_plan *plan, int32_t op, int parts)
{
    const dv_op *o = &plan->ops->ops[op];
    int whole = o->is_extern || dv_access_is_indirect(&o->write);
    for (int v = 0; v < o->n_vars && !whole; v++) {
        int64_t len = o->vars[v].end - o->vars[v].begin;
        plan->slices[op][v] = len;
        if ((!o->vars[v].reduce || parts) && rng_percent(r, 50))
            plan->slices[op][v] = 1 + rng_below(r, len);
    }
    return dv_plan_n_tiles(plan, op);
}

// Deal n tiles in random ranges, in random order, to random cores.
static void deal(rng *r, dv_plan *plan, dv_group *g, int64_t n)
{
    g->n_tiles = n;
    g->n_deals = 0;
    g->deals = DV_NEW(&plan->arena, dv_deal, n);
    for (int64_t at = 0; at < n;) {
        int64_t len = rng_percent(r, 50) ? 1 : 1 + rng_below(r, n - at);
        g->deals[g->n_deals++] =
            (dv_deal){rng_below(r, plan->target.cores), at, len};
        at += len;
    }
    for (int32_t i = g->n_deals - 1; i > 0; i--) {
        int32_t k = (int32_t)rng_below(r, i + 1);
        dv_deal t = g->deals[i];
        g->deals[i] = g->deals[k];
        g->deals[k] = t;
    }
}

// Cut an op like the one before it where they have as many variables, so that
// tiles can hand data on.
static int64_t cut_alike(rng *r, dv_plan *plan, int32_t op, int parts)
{
    const dv_op *o = &plan->ops->ops[op], *b = o - 1;
    if (op == 0 || rng_percent(r, 30) || o->is_extern ||
        dv_access_is_indirect(&o->write))
        return cut(r, plan, op, parts);
    for (int v = 0; v < o->n_vars; v++) {
        int64_t len = o->vars[v].end - o->vars[v].begin;
        plan->slices[op][v] = len;
        if (v < b->n_vars && plan->slices[op - 1][v] < len &&
            (!o->vars[v].reduce || parts))
            plan->slices[op][v] = plan->slices[op - 1][v];
    }
    return dv_plan_n_tiles(plan, op);
}

// Put neighbours of as many tiles into one group wherever the checker lets it.
static void merge(rng *r, dv_plan *plan)
{
    for (int32_t i = 0; i + 1 < plan->n_groups;) {
        dv_group *a = &plan->groups[i], was = *a, next = a[1];
        if (a->n_tiles != next.n_tiles || !rng_percent(r, 85)) {
            i++;
            continue;
        }
        a->end_op = next.end_op;
        size_t rest = (size_t)(plan->n_groups - i - 2) * sizeof *a;
        memmove(a + 1, a + 2, rest);
        plan->n_groups--;
        if (dv_plan_check(plan, NULL) == DV_OK)
            continue;
        memmove(a + 2, a + 1, rest);
        plan->n_groups++;
        a[0] = was;
        a[1] = next;
        i++;
    }
}

static void add_text(const dv_plan *plan)
{
    char *text = plan ? dv_plan_text(plan) : NULL;
    const char *at = text ? strstr(text, "program ") : NULL;
    fprintf(stderr, "\n%s\n%s", case_why(), at ? at : "");
    dv_free(text);
}

// -- The properties ----------------------------------------------------------

// As if the system had no more threads: one plays all.
static void **run_alone(const dv_plan *plan)
{
#ifdef _OPENMP
    int levels = omp_get_max_active_levels();
    omp_set_max_active_levels(0);
    void **got = run(plan, DV_RUN_THREADS);
    omp_set_max_active_levels(levels);
    return got;
#else
    return run(plan, DV_RUN_THREADS);
#endif
}

// One plan: twice, alone, in sequence.
static int runs_alike(const dv_program *p, const dv_plan *plan)
{
    const dv_program *ops = plan->ops;
    void **once = run(plan, DV_RUN_THREADS);
    void **again = once ? run(plan, DV_RUN_THREADS) : NULL;
    void **alone = again ? run_alone(plan) : NULL;
    void **seq = alone ? run(plan, DV_RUN_SEQ) : NULL;
    int ok = seq && same_bits("a second run", ops, once, ops, again) &&
             same_bits("one thread for all cores", ops, once, ops, alone) &&
             matches_oracle("threads", p, plan, once) &&
             matches_oracle("seq", p, plan, seq);
    if (!ok)
        add_text(plan);
    case_free(once, ops);
    case_free(again, ops);
    case_free(alone, ops);
    case_free(seq, ops);
    return ok;
}

static int divided_runs(const dv_program *p, uint64_t seed)
{
    rng r = {seed ^ 0x85ebca6b};
    int ok = 1;
    for (int k = 0; ok && k < 3; k++) {
        int parts = rng_percent(&r, 50);
        int64_t threads = 1 + rng_below(&r, MAX_THREADS);
        dv_plan *plan = make_plan(p, threads, DV_RESIDENTS_NONE);
        if (!plan)
            return 0;
        for (int32_t i = 0; i < plan->n_groups; i++)
            deal(&r, plan, &plan->groups[i], cut_alike(&r, plan, i, parts));
        merge(&r, plan);
        ok = runs_alike(p, plan);
        dv_plan_destroy(plan);
    }
    return ok;
}

// Few, odd, and more than there are cores.
static int64_t some_threads(rng *r)
{
    static const int64_t n[] = {2, 3, 7, 4, 16, 5};
    return n[rng_below(r, 6)];
}

static int any_number_is_the_same(const dv_program *p, uint64_t seed)
{
    rng r = {seed ^ 0xc2b2ae35};
    dv_plan *one = make_plan(p, 1, (dv_residents)0);
    void **want = one ? run(one, DV_RUN_THREADS) : NULL;
    int ok = want && !in_parts(one) && matches_oracle("1", p, one, want);
    for (int k = 0; ok && k < 3; k++) {
        int64_t threads = some_threads(&r);
        dv_plan *plan =
            make_plan(p, threads, k == 0 ? DV_RESIDENTS_NONE : (dv_residents)0);
        void **got = plan ? run(plan, DV_RUN_THREADS) : NULL;
        ok = got && matches_oracle("many", p, plan, got) &&
             (in_parts(plan) ||
              same_bits("many threads", one->ops, want, plan->ops, got));
        if (!ok)
            add_text(plan);
        if (plan)
            case_free(got, plan->ops);
        dv_plan_destroy(plan);
    }
    if (one)
        case_free(want, one->ops);
    dv_plan_destroy(one);
    return ok;
}

// Another order of sums: some of the reduced variables in any order, some cut,
// the last ones inside the kernel.
static void shuffle_sums(rng *r, dv_plan *plan, dv_sums *s)
{
    const dv_op *o = &plan->ops->ops[s->op];
    int32_t order[DV_MAX_VARS], n = 0;
    for (int32_t v = 0; v < o->n_vars; v++)
        if (o->vars[v].reduce) {
            int32_t at = (int32_t)rng_below(r, n + 1);
            memmove(&order[at + 1], &order[at], (size_t)(n - at) * sizeof at);
            order[at] = v;
            n++;
        }
    s->levels = DV_NEW(&plan->arena, dv_sum_level, 2 * n);
    s->n_levels = 0;
    s->dot = s->pairs = 0;
    int64_t tile[DV_MAX_VARS];
    int32_t inside = 1 + (int32_t)rng_below(r, n);
    for (int32_t i = 0; i < n; i++) {
        const dv_var *v = &o->vars[order[i]];
        int64_t len = v->end - v->begin;
        tile[i] = rng_percent(r, 50) ? len : 1 + rng_below(r, len);
        if (tile[i] < len)
            s->levels[s->n_levels++] =
                (dv_sum_level){order[i], (len - 1) / tile[i] + 1, 0};
    }
    for (int32_t i = 0; i < n; i++)
        s->levels[s->n_levels++] =
            (dv_sum_level){order[i], tile[i], i >= n - inside};
}

// Whatever a plan says about sums, all tiles follow it.
static int any_order_is_followed(const dv_program *p, uint64_t seed)
{
    dv_plan *plan[2];
    void **got[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++) {
        rng r = {seed ^ 0x165667b1};
        plan[i] = make_plan(p, i ? 5 : 1, (dv_residents)0);
        for (int32_t k = 0; plan[i] && k < plan[i]->n_sums; k++)
            shuffle_sums(&r, plan[i], &plan[i]->sums[k]);
        if (plan[i] && dv_plan_check(plan[i], NULL) == DV_OK)
            got[i] = run(plan[i], DV_RUN_THREADS);
    }
    int ok =
        got[0] && got[1] && matches_oracle("any order", p, plan[0], got[0]) &&
        (in_parts(plan[1]) ||
         same_bits("five threads", plan[0]->ops, got[0], plan[1]->ops, got[1]));
    if (!ok)
        add_text(plan[0]);
    for (int i = 0; i < 2; i++) {
        if (plan[i])
            case_free(got[i], plan[i]->ops);
        dv_plan_destroy(plan[i]);
    }
    return ok;
}

// -- Programs that were hard to get right ------------------------------------

static const char *const hard[] = {
    // Two updates of one tensor, the second of what the first left: in a group
    // of one tile the second finds it only if its copy is taken late.
    "input v: f32[64]\ninput u: f32[64]\n"
    "u[i] <- v[i] * 2.0\nu[i] <- u[63-i] + 1.0\noutput u\n",
    // Products whose last tiles are shorter in every direction.
    "input a: f32[37, 41]\ninput b: f32[41, 29]\n"
    "c[m,n] = relu(sum[k] a[m,k] * b[k,n])\n"
    "d[m,n] = c[m,n] + sum[k] b[k,n] * a[m,k]\noutput d\n",
    "input a: bf16[19, 23]\ninput b: f16[23, 31]\n"
    "c[m,n]: f16 = tanh(sum[k] a[m,k] * b[k,n])\noutput c\n",
    // A chain down to tiles of temporaries, with an offset and a mirror.
    "input x: f32[33, 17]\nt[i,j] = x[i,16-j] * 2.0\n"
    "m[i] = max[j] t[i,j]\ny[i,j] = t[i,16-j] - m[i]\noutput y\n",
    "input x: f64[40]\nt[i] = x[i] + 1.0\ny[i] = t[i] + t[i+1]  for i in "
    "0..39\n"
    "output y\n",
    // A diagonal, a turned write, integers in parts.
    "input a: f32[21, 21]\nd[i] = a[i,i]\nb[j,i] = a[i,j] * d[j]\n"
    "s[] = sum[i,j] b[i,j]\noutput d, b, s\n",
    // A write with two variables in a dim is no box, though it is whole.
    "input u: f32[2, 4]\ninput v: f32[64]\n"
    "temp x: f32[64, 8]\nx[j,2*q+m] = u[m,q] * v[j]\nN[p,n] = x[p,7-n]  for n "
    "in 0..8\n"
    "output N\n",
    "input x: i32[50, 9]\ns[j]: i64 = sum[i] x[i,j] * x[i,j]\n"
    "m[i]: i8 = min[j] x[i,j]\noutput s, m\n",
    "input x: f32[70, 30]\np[] = prod[i,j] x[i,j] + 1.0\n"
    "q[j] = mean[i] abs(x[i,j])\nr[i] = max[j] x[i,j] * q[j]\n"
    "output p, q, r\n",
};

static void try_products(case_property *f, int usual)
{
    uint64_t seed = gen_seed();
#if defined(__SANITIZE_THREAD__)
    usual = 8; // kernels' buffers leave it without memory
#endif
    int failed = 0, n = gen_cases(usual);
    for (int i = 0; i < n && failed < 3; i++) {
        char text[600];
        some_product(seed + (uint64_t)i, text, sizeof text);
        if (case_holds(f, text, seed + (uint64_t)i))
            continue;
        gen_report("products", seed + (uint64_t)i, GEN_FLOATS, text,
                   case_why());
        failed++;
    }
    assert_int_equal(failed, 0);
}

static void products_are_the_same(void **state)
{
    (void)state;
    try_products(any_number_is_the_same, 100);
}

static void products_follow(void **state)
{
    (void)state;
    try_products(any_order_is_followed, 60);
}

CASE_PROPERTY(divided_runs, 200, 11)
CASE_PROPERTY(any_number_is_the_same, 200, 11)

int main(void)
{
    const struct CMUnitTest tests[] = {CASE_TESTS(divided_runs),
                                       CASE_TESTS(any_number_is_the_same),
                                       cmocka_unit_test(products_are_the_same),
                                       cmocka_unit_test(products_follow)};
    return run_group(tests, setup, teardown);
}
