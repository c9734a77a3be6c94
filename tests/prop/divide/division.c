// Properties of divisions of random programs on random machines (1 to 64 cores,
// sticks of 32 to 256 bytes, tight span limits). With every method of division
// the plan passes its check and reads back, no stick is cut, spans are within
// the limit (C10), the simulated result is the oracle's, the predicted bytes
// are moved, and `best` never costs more than `seed`. `seed` cuts what the span
// limit requires.
#include "harness/test.h"
#include "harness/property.h"
#include "harness/random.h"
#include "divide/divide.h"

// -- What every divided plan keeps -----------------------------------------

// Tries every number of slices of every variable, whether a slice length gives
// it or not, and returns the least cost of those that fit; -1 if none does.
static double brute_force(const dv_plan *plan, const dv_divide_space *s,
                          dv_splits *d, int v, int64_t used)
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

// Slices end where sticks end, spans are within the limit, and no cheaper
// division exists.
static int keeps_limits(const dv_plan *plan)
{
    dv_arena arena = {0};
    dv_divide_space *s = DV_NEW(&arena, dv_divide_space, 1);
    int ok = 1;
    for (int i = 0; ok && i < plan->ops->n_ops; i++) {
        const dv_op *op = &plan->ops->ops[i];
        dv_splits d;
        if (op->is_extern)
            continue;
        dv_divide_space_init(s, &plan->target, plan->ops, op, plan->layouts,
                             &arena);
        s->shares = plan->shares;
        for (int v = 0; v < op->n_vars; v++) {
            int64_t slice = plan->slices[i][v];
            d.n[v] = (s->extent[v] + slice - 1) / slice;
            if (d.n[v] > 1 && slice % s->eps[v])
                ok = case_no("op %s: %s is cut inside a stick", op->name,
                             op->vars[v].name);
        }
        for (int k = 0; ok && k < s->n_tensors; k++)
            if (plan->target.span_limit_bytes &&
                dv_span(s, k, &d, 0) > plan->target.span_limit_bytes)
                ok = case_no("op %s: the span of %s is over the limit",
                             op->name, s->tensors[k]->name);
        double least = ok ? brute_force(plan, s, &d, 0, 1) : -1;
        int rounds = dv_plan_n_tiles(plan, i) > plan->target.cores;
        if (ok && rounds != (least < 0))
            ok = case_no("op %s: rounds where none are needed", op->name);
        if (ok && !rounds && plan->divisions[i].cost_us > least * (1 + 1e-12))
            ok = case_no("op %s costs %g, %g is possible", op->name,
                         plan->divisions[i].cost_us, least);
    }
    dv_arena_free(&arena);
    return ok;
}

// The division by the span limit alone is part of that of `seed`, which starts
// from it: no variable is cut more often. Only where the span limit asks for
// more tiles than there are cores does `seed` leave out cuts, as Torch-Spyre
// does.
static int is_part(const dv_plan *span, const dv_plan *seed)
{
    for (int i = 0; i < span->ops->n_ops; i++)
        for (int v = 0; v < span->ops->ops[i].n_vars; v++)
            if (dv_plan_n_tiles(span, i) <= span->target.cores &&
                span->slices[i][v] < seed->slices[i][v])
                return case_no(
                    "op %s: the span limit cuts %s into slices of "
                    "%d, seed into those of %d",
                    span->ops->ops[i].name, span->ops->ops[i].vars[v].name,
                    (int)span->slices[i][v], (int)seed->slices[i][v]);
    return 1;
}

static int span_is_part_of_seed(const dv_program *p, const dv_target *t)
{
    dv_plan_options options = DV_PLAN_OPTIONS_INIT;
    dv_plan *span = NULL, *seed = NULL;
    options.divide = DV_DIVIDE_SPAN;
    options.reorder = DV_OFF; // the same ops have the same numbers
    dv_status st = dv_plan_create(&span, p, t, &options, NULL);
    options.divide = DV_DIVIDE_SEED;
    options.joint = DV_JOINT_OFF;
    dv_status also = dv_plan_create(&seed, p, t, &options, NULL);
    // What the span limit requires cannot be refused to `seed`, which requires
    // it, too. The other way round, more slices may bring spans under the
    // limit.
    int ok = st != DV_OK || also == DV_OK ||
             case_no("span has a plan, seed has none");
    if (ok && st == DV_OK)
        ok = case_keeps(p, span) && is_part(span, seed);
    dv_plan_destroy(span);
    dv_plan_destroy(seed);
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

// Returns 1 if the properties hold, or if the machine is too small for the
// program.
static int divides(const dv_program *p, const dv_target *t, dv_divide how,
                   dv_joint joint, double *cost)
{
    dv_plan_options options = DV_PLAN_OPTIONS_INIT;
    dv_plan *plan = NULL;
    dv_diag *diag = dv_diag_create();
    options.divide = how;
    options.joint = joint;
    dv_status st = dv_plan_create(&plan, p, t, &options, diag);
    *cost = -1;
    int ok =
        st == DV_OK || st == DV_E_CAPACITY || case_no("%s", dv_diag_text(diag));
    if (st == DV_OK) {
        ok = case_keeps(p, plan);
        // `seed` estimates spans as Torch-Spyre does, which may exceed the
        // limit.
        ok = ok && (how == DV_DIVIDE_SEED || joint != DV_JOINT_OFF ||
                    keeps_limits(plan));
        *cost = cost_of(plan);
    }
    dv_plan_destroy(plan);
    dv_diag_destroy(diag);
    return ok;
}

static int holds(const dv_program *p, uint64_t seed)
{
    rng r = {seed ^ 0x5eed};
    dv_target t;
    double seed_cost, best_cost;
    random_target(&r, &t);
    double any;
    int ok = divides(p, &t, DV_DIVIDE_SEED, DV_JOINT_OFF, &seed_cost) &&
             divides(p, &t, DV_DIVIDE_BEST, DV_JOINT_OFF, &best_cost) &&
             divides(p, &t, DV_DIVIDE_BEST, DV_JOINT_AUTO, &any) &&
             divides(p, &t, DV_DIVIDE_BEST, DV_JOINT_SEED, &any) &&
             span_is_part_of_seed(p, &t);
    if (ok && seed_cost >= 0 && best_cost > seed_cost * (1 + 1e-9))
        ok = case_no("best costs %g, seed %g", best_cost, seed_cost);
    return ok;
}

TEST(floats)
{
    case_random("divides", holds, GEN_FLOATS, 200);
}

TEST(integers)
{
    case_random("divides", holds, GEN_INTEGERS, 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(floats),
                                       cmocka_unit_test(integers)};
    return run_group(tests, NULL, NULL);
}
