// Properties of the thread executor. Whatever the division and the number of
// threads, it gives what the sequential executor gives, within the oracle's
// bounds, and the same bits from run to run and with fewer threads than the
// plan has cores. Unless sums are in parts, it gives the same bits for any
// number of threads, with groups of ops or without (N8).
#include "harness/test.h"
#include "harness/property.h"
#include "harness/products.h"
#include "harness/job.h"
#include "harness/random.h"
#ifdef _OPENMP
#include <omp.h>
#endif

enum { MAX_THREADS = 6 };

// -- Plans -------------------------------------------------------------------

static dv_plan *make_plan(const dv_program *p, int64_t threads,
                          dv_residents scratch)
{
    dv_plan_options o = DV_PLAN_OPTIONS_INIT;
    o.threads = threads;
    o.scratch = scratch;
    return case_plan(p, case_host, &o);
}

// Slices an op like the one before it in the variables that both have, so that
// its tiles can use the data of the same tiles.
static int64_t cut_alike(rng *r, dv_plan *plan, int32_t op, int parts)
{
    const dv_op *o = &plan->ops->ops[op], *b = o - 1;
    if (op == 0 || rng_percent(r, 30) || o->is_extern ||
        dv_access_is_indirect(&o->write))
        return random_slices(r, plan, op, parts);
    for (int v = 0; v < o->n_vars; v++) {
        int64_t len = o->vars[v].end - o->vars[v].begin;
        plan->slices[op][v] = len;
        if (v < b->n_vars && plan->slices[op - 1][v] < len &&
            (!o->vars[v].reduce || parts))
            plan->slices[op][v] = plan->slices[op - 1][v];
    }
    return dv_plan_n_tiles(plan, op);
}

// -- The properties ----------------------------------------------------------

// Runs as if the system had no more threads: one thread does the work of all
// cores.
static int done_alone(job *j, const dv_plan *plan)
{
#ifdef _OPENMP
    int levels = omp_get_max_active_levels();
    omp_set_max_active_levels(0);
    int ok = job_done(j, plan, DV_RUN_THREADS);
    omp_set_max_active_levels(levels);
    return ok;
#else
    return job_done(j, plan, DV_RUN_THREADS);
#endif
}

// One plan gives the same bits on threads, again on threads and on one thread
// alone; it is right on threads and on the sequential executor.
static int runs_alike(const dv_program *p, const dv_plan *plan)
{
    job once = {0}, again = {0}, alone = {0}, seq = {0};
    int ok = job_done(&once, plan, DV_RUN_THREADS) &&
             job_done(&again, plan, DV_RUN_THREADS) &&
             done_alone(&alone, plan) && job_done(&seq, plan, DV_RUN_SEQ);
    ok = ok && (job_same_values(&once, &again) ||
                case_no("a second run: %s", case_why()));
    ok = ok && (job_same_values(&once, &alone) ||
                case_no("one thread for all cores: %s", case_why()));
    ok = ok && (job_right(&once, p) || case_no("threads: %s", case_why()));
    ok = ok && (job_right(&seq, p) || case_no("seq: %s", case_why()));
    if (!ok)
        case_show(plan);
    job_stop(&once);
    job_stop(&again);
    job_stop(&alone);
    job_stop(&seq);
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
            random_deal(&r, plan, &plan->groups[i],
                        cut_alike(&r, plan, i, parts));
        random_merge(&r, plan);
        ok = case_schedule(plan) && runs_alike(p, plan);
        dv_plan_destroy(plan);
    }
    return ok;
}

// Small and odd numbers, and more than there are cores.
static int64_t some_threads(rng *r)
{
    static const int64_t n[] = {2, 3, 7, 4, 16, 5};
    return n[rng_below(r, 6)];
}

// N8: one thread, several, and several without scratchpads give the same bits,
// unless sums are in parts; all of them are right.
static int any_number_is_the_same(const dv_program *p, uint64_t seed)
{
    rng r = {seed ^ 0xc2b2ae35};
    job want = {0};
    dv_plan *one = make_plan(p, 1, DV_RESIDENTS_ALL);
    int ok = one && !case_in_parts(one) &&
             job_done(&want, one, DV_RUN_THREADS) && job_right(&want, p);
    for (int k = 0; ok && k < 3; k++) {
        job got = {0};
        int64_t threads = some_threads(&r);
        dv_plan *plan = make_plan(
            p, threads, k == 0 ? DV_RESIDENTS_NONE : DV_RESIDENTS_ALL);
        ok = plan && job_done(&got, plan, DV_RUN_THREADS) &&
             job_right(&got, p) &&
             (case_in_parts(plan) || job_same_values(&want, &got));
        if (!ok)
            case_show(plan);
        job_stop(&got);
        dv_plan_destroy(plan);
    }
    job_stop(&want);
    dv_plan_destroy(one);
    return ok;
}

// Chooses another order of sums: the reduced variables in any order, some cut,
// the last ones inside the kernel.
static void shuffle_sums(rng *r, dv_plan *plan, int32_t op)
{
    const dv_op *o = &plan->ops->ops[op];
    dv_sum_order *s = &plan->schedule.ops[op].sums;
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
    plan->schedule.ops[op].n_tiles = 0;
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

// N8: all tiles follow the order of sums that the plan's section `schedule`
// gives. An order for which there is no kernel is refused.
static int any_order_is_followed(const dv_program *p, uint64_t seed)
{
    dv_plan *plan[2];
    job got[2] = {{0}, {0}};
    int ok = 1, refused = 0;
    for (int i = 0; i < 2; i++) {
        rng r = {seed ^ 0x165667b1};
        plan[i] = make_plan(p, i ? 5 : 1, DV_RESIDENTS_ALL);
        for (int32_t k = 0; plan[i] && k < plan[i]->ops->n_ops; k++)
            if (plan[i]->schedule.ops[k].kind == DV_KERNEL_PRODUCT)
                shuffle_sums(&r, plan[i], k);
        ok = ok && plan[i] && dv_plan_check(plan[i], NULL) == DV_OK;
        dv_status st = ok ? case_choose_loops(plan[i]) : DV_OK;
        refused |= st == DV_E_LIMIT || st == DV_E_CHECK || st == DV_E_NEST;
        ok = ok && (st == DV_OK || refused);
        // What was chosen can be obeyed.
        ok = ok && (refused || (job_start(&got[i], plan[i], DV_RUN_THREADS) &&
                                job_run(&got[i])));
    }
    ok = ok && (refused || job_right(&got[0], p)) &&
         (refused || case_in_parts(plan[1]) ||
          job_same_values(&got[0], &got[1]));
    if (!ok)
        case_show(plan[0]);
    for (int i = 0; i < 2; i++) {
        job_stop(&got[i]);
        dv_plan_destroy(plan[i]);
    }
    return ok;
}

// -- Programs that were hard to get right ------------------------------------

static const char *const hard[] = {
    // Two updates of one tensor, of which the second reads what the first
    // wrote: in a group of one tile its copy of the old values must be taken
    // after the first (G6).
    "input v: f32[64]\ninput u: f32[64]\n"
    "u[i] <- v[i] * 2.0\nu[i] <- u[63-i] + 1.0\noutput u\n",
    // Products with remainders in every dimension.
    "input a: f32[37, 41]\ninput b: f32[41, 29]\n"
    "c[m,n] = relu(sum[k] a[m,k] * b[k,n])\n"
    "d[m,n] = c[m,n] + sum[k] b[k,n] * a[m,k]\noutput d\n",
    "input a: bf16[19, 23]\ninput b: f16[23, 31]\n"
    "c[m,n]: f16 = tanh(sum[k] a[m,k] * b[k,n])\noutput c\n",
    // Temporaries that exist only in tiles, with an offset and a reversed
    // index.
    "input x: f32[33, 17]\nt[i,j] = x[i,16-j] * 2.0\n"
    "m[i] = max[j] t[i,j]\ny[i,j] = t[i,16-j] - m[i]\noutput y\n",
    "input x: f64[40]\nt[i] = x[i] + 1.0\ny[i] = t[i] + t[i+1]  for i in "
    "0..39\n"
    "output y\n",
    // A diagonal, a transposed write, sums of integers in parts.
    "input a: f32[21, 21]\nd[i] = a[i,i]\nb[j,i] = a[i,j] * d[j]\n"
    "s[] = sum[i,j] b[i,j]\noutput d, b, s\n",
    // A write with two variables in one dim: it covers the tensor, but a tile
    // of it is not a box.
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
    usual = 8; // more would run out of memory, because of the kernels' buffers
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

TEST(products_are_the_same)
{
    try_products(any_number_is_the_same, 100);
}

TEST(products_follow)
{
    try_products(any_order_is_followed, 60);
}

CASE_PROPERTY(divided_runs, 200, 11)
CASE_PROPERTY(any_number_is_the_same, 200, 11)

TEST(integers_wrap_alike)
{
    case_random("any_number_is_the_same", any_number_is_the_same, GEN_WRAPS,
                200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {CASE_TESTS(divided_runs),
                                       CASE_TESTS(any_number_is_the_same),
                                       cmocka_unit_test(integers_wrap_alike),
                                       cmocka_unit_test(products_are_the_same),
                                       cmocka_unit_test(products_follow)};
    return run_group(tests, case_set_up, case_tear_down);
}
