// Properties of divisions: random programs on random machines (1 to 64 cores,
// sticks of 32 to 256 bytes, span limits so tight that they bite). However it
// is divided, the plan checks and reads back, no stick is cut, spans hold, the
// simulated result is the oracle's, what moved is what was predicted, and
// `best` is never dearer than `seed`.
#include "divide/divide.h"
#include "gen.h"
#include "plan/traffic.h"
#include "run/data.h"
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char why[700];

__attribute__((format(printf, 1, 2))) static int no(const char *form, ...)
{
    va_list ap;
    va_start(ap, form);
    vsnprintf(why, sizeof why, form, ap);
    va_end(ap);
    return 0;
}

static void random_target(rng *r, dv_target *t)
{
    static const int64_t tiles[] = {0, 0, 4, 32};
    dv_target_init(t, "random");
    t->cores = 1 + rng_below(r, 64);
    t->stick_bytes = (int64_t)32 << rng_below(r, 4);
    t->sticks = rng_percent(r, 70);
    t->grain = rng_percent(r, 50) ? DV_GRAIN_PRIMITIVE : DV_GRAIN_FUSED;
    t->span_limit_bytes =
        rng_percent(r, 50) ? 0 : t->stick_bytes << rng_below(r, 8);
    t->ring = rng_percent(r, 50);
    t->ring_bandwidth_bytes_per_s = t->ring ? 1e9 : 0;
    t->memory_bandwidth_bytes_per_s = rng_percent(r, 50) ? 1e10 : 0;
    // Scratchpads so small that little fits, at random addresses' worth.
    t->scratch_bytes = rng_percent(r, 30) ? 0 : (int64_t)256 << rng_below(r, 8);
    t->scratch_align_bytes = (int64_t)1 << rng_below(r, 8);
    if (!t->sticks)
        t->tile_rows = t->tile_cols = tiles[rng_below(r, 4)];
}

// -- What every divided plan keeps -----------------------------------------

// Every number of slices for every variable, whether a slice length gives it
// or not: the least cost of all that fit.
static double brute_force(const dv_plan *plan, const dv_space *s, dv_splits *d,
                          int v, int64_t used)
{
    double best = -1;
    if (v == s->n_vars) {
        for (int k = 0; k < s->n_tensors; k++)
            if (plan->target.span_limit_bytes &&
                dv_span(s, k, d, 0) > plan->target.span_limit_bytes)
                return -1;
        return dv_divide_cost(s, &plan->target, d);
    }
    int64_t most = s->blocked >> v & 1 ? 1 : plan->target.cores / used;
    for (int64_t n = 1; n <= most && n <= s->units[v]; n++) {
        d->n[v] = n;
        double cost = brute_force(plan, s, d, v + 1, used * n);
        if (cost >= 0 && (best < 0 || cost < best))
            best = cost;
    }
    return best;
}

// Slices end where sticks do, and what a core reaches is within the limit.
static int keeps_limits(const dv_plan *plan)
{
    dv_arena arena = {0};
    dv_space *s = DV_NEW(&arena, dv_space, 1);
    int ok = 1;
    for (int i = 0; ok && i < plan->ops->n_ops; i++) {
        const dv_op *op = &plan->ops->ops[i];
        dv_splits d;
        if (op->is_extern)
            continue;
        dv_space_make(s, &plan->target, plan->ops, op, plan->layouts, &arena);
        for (int v = 0; v < op->n_vars; v++) {
            int64_t slice = plan->slices[i][v];
            d.n[v] = (s->extent[v] + slice - 1) / slice;
            if (d.n[v] > 1 && slice % s->eps[v])
                ok = no("op %s: %s is cut inside a stick", op->name,
                        op->vars[v].name);
        }
        for (int k = 0; ok && k < s->n_tensors; k++)
            if (plan->target.span_limit_bytes &&
                dv_span(s, k, &d, 0) > plan->target.span_limit_bytes)
                ok = no("op %s: the span of %s is over the limit", op->name,
                        s->tensors[k]->name);
        double least = ok ? brute_force(plan, s, &d, 0, 1) : -1;
        int rounds = dv_plan_n_tiles(plan, i) > plan->target.cores;
        if (ok && rounds != (least < 0))
            ok = no("op %s: rounds where none are needed", op->name);
        if (ok && !rounds && plan->divisions[i].cost_us > least * (1 + 1e-12))
            ok = no("op %s costs %g, %g is possible", op->name,
                    plan->divisions[i].cost_us, least);
    }
    dv_arena_free(&arena);
    return ok;
}

static int reads_back(const dv_plan *plan)
{
    dv_plan *read = NULL;
    char *text = dv_plan_text(plan), *again = NULL;
    int ok =
        !dv_plan_parse(&read, text, strlen(text), "again", NULL, NULL, NULL);
    again = ok ? dv_plan_text(read) : NULL;
    ok = ok && !strcmp(text, again);
    dv_plan_destroy(read);
    dv_free(text);
    dv_free(again);
    return ok || no("the plan does not read back");
}

// -- What the simulator does -----------------------------------------------

// How often the repeats around an op run it.
static int64_t times_of(const dv_program *p, int32_t op)
{
    int64_t n = 1;
    for (int i = 0; i < p->n_repeats; i++)
        if (p->repeats[i].first_op <= op && op < p->repeats[i].end_op)
            n *= p->repeats[i].times;
    return n;
}

static int same_counts(const dv_traffic *t, int64_t times,
                       const dv_moved *moved)
{
    return !t->exact || (t->read_elems * times == moved->read_elems &&
                         t->write_elems * times == moved->write_elems &&
                         t->read_bytes * times == moved->read_bytes &&
                         t->write_bytes * times == moved->write_bytes &&
                         t->ring_bytes * times == moved->ring_bytes);
}

static int counts_agree(const dv_plan *plan, const dv_exec *x)
{
    const dv_moved *moved = dv_exec_moved(x);
    dv_traffic t = dv_plan_traffic(plan);
    if (!same_counts(&t, 1, moved))
        return no("predicted %" PRId64 " read, %" PRId64 " written, %" PRId64
                  " bytes between cores; moved %" PRId64 ", %" PRId64
                  ", %" PRId64,
                  t.read_elems, t.write_elems, t.ring_bytes, moved->read_elems,
                  moved->write_elems, moved->ring_bytes);
    for (int32_t g = 0; g < plan->n_groups; g++)
        for (int32_t op = plan->groups[g].first_op; op < plan->groups[g].end_op;
             op++)
            for (int64_t core = 0; core < plan->target.cores; core++) {
                t = dv_op_traffic(plan, g, op, core);
                if (!same_counts(&t, times_of(plan->ops, op),
                                 dv_exec_moved_by(x, op, core)))
                    return no("op %d, core %d: predicted and moved differ", op,
                              (int)core);
            }
    return 1;
}

static int simulates(const dv_program *p, const dv_plan *plan)
{
    const dv_program *ops = plan->ops;
    dv_diag *diag = dv_diag_create();
    dv_exec *x = NULL;
    void **before = calloc((size_t)ops->n_tensors + 1, sizeof *before);
    void **after = calloc((size_t)ops->n_tensors + 1, sizeof *after);
    int ok = !dv_exec_create(&x, plan, diag);
    for (int i = 0; ok && i < ops->n_tensors; i++) {
        const dv_tensor *t = &ops->tensors[i];
        size_t bytes = (size_t)dv_tensor_bytes(t);
        before[i] = calloc(1, bytes);
        after[i] = calloc(1, bytes);
        if (t->is_input)
            dv_fill(ops, i, 5, -1, 1, before[i]);
        memcpy(after[i], before[i], bytes);
        if (t->is_input || t->is_output)
            ok = !dv_exec_bind(x, t->name, after[i], bytes, diag);
    }
    dv_verdict verdict = {0};
    ok = ok && !dv_exec_run(x, diag);
    ok = ok && !dv_verify(&verdict, p, plan, before, after, NULL, NULL, diag);
    if (!ok)
        no("it does not run: %s", dv_diag_text(diag));
    else if (!verdict.ok)
        ok = no("%s is %g off, %g allowed", verdict.tensor, verdict.residual,
                verdict.threshold);
    ok = ok && counts_agree(plan, x);
    dv_exec_destroy(x);
    for (int i = 0; i < ops->n_tensors; i++) {
        free(before[i]);
        free(after[i]);
    }
    free(before);
    free(after);
    dv_diag_destroy(diag);
    return ok;
}

// -- One case --------------------------------------------------------------

static double cost_of(const dv_plan *plan)
{
    double sum = 0;
    for (int i = 0; i < plan->ops->n_ops; i++)
        sum += plan->divisions[i].cost_us;
    return sum;
}

// 1 when it holds, or when the machine rightly refuses.
static int divides(const dv_program *p, const dv_target *t, const char *how,
                   const char *joint, double *cost)
{
    dv_plan_options options = DV_PLAN_OPTIONS_INIT;
    dv_plan *plan = NULL;
    dv_diag *diag = dv_diag_create();
    options.divide = how;
    options.joint = joint;
    dv_status st = dv_plan_create(&plan, p, t, &options, diag);
    *cost = -1;
    int ok = st == DV_OK || st == DV_E_CAPACITY ||
             no("%s: %s", how, dv_diag_text(diag));
    if (st == DV_OK) {
        ok = !dv_plan_check(plan, diag) || no("%s", dv_diag_text(diag));
        // seed counts spans as the original does, cut down: not ours to hold.
        ok = ok && (how[0] == 's' || joint[0] != 'o' || keeps_limits(plan));
        ok = ok && reads_back(plan) && simulates(p, plan);
        *cost = cost_of(plan);
    }
    dv_plan_destroy(plan);
    dv_diag_destroy(diag);
    return ok;
}

static int holds(const char *text, uint64_t seed)
{
    rng r = {seed ^ 0x5eed};
    dv_target t;
    dv_program *p = NULL;
    double seed_cost, best_cost;
    random_target(&r, &t);
    if (dv_program_parse(&p, text, strlen(text), "random", NULL, 0, NULL))
        return no("it does not parse");
    double any;
    int ok = divides(p, &t, "seed", "off", &seed_cost) &&
             divides(p, &t, "best", "off", &best_cost) &&
             divides(p, &t, "best", "auto", &any) &&
             divides(p, &t, "best", "seed", &any);
    if (ok && seed_cost >= 0 && best_cost > seed_cost * (1 + 1e-9))
        ok = no("best costs %g, seed %g", best_cost, seed_cost);
    dv_program_destroy(p);
    return ok;
}

static void check_mode(gen_mode mode, int usual)
{
    int failed = 0;
    uint64_t first = gen_seed();
    for (int i = 0; i < gen_cases(usual) && failed < 3; i++) {
        char *text = gen_program(first + (uint64_t)i, mode);
        if (!holds(text, first + (uint64_t)i)) {
            gen_report("divides", first + (uint64_t)i, mode, text, why);
            failed++;
        }
        free(text);
    }
    assert_int_equal(failed, 0);
}

static void floats(void **state)
{
    (void)state;
    check_mode(GEN_FLOATS, 200);
}

static void integers(void **state)
{
    (void)state;
    check_mode(GEN_INTEGERS, 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(floats),
                                       cmocka_unit_test(integers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
