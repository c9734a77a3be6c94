// Properties of residency in scratchpads (C11 to C15, C33, C34). For random
// programs on random machines with random options, the plan passes its check
// and reads back, gives what the oracle gives, moves the predicted bytes and is
// the same when it is made again. With the division unchanged, scratchpads
// change no bit of the results, never increase the traffic of main memory, and
// save exactly the bytes that the plan states. Then every function and reducer
// of the language is tried with every option, before pointwise and before
// reducing ops.
#include "harness/test.h"
#include "divvy/place.h"
#include "harness/property.h"
#include "harness/unit.h"
#include "harness/random.h"
#include "plan/price.h"
#include "plan/traffic.h"
#include <inttypes.h>
#include <math.h>

// -- Switches --------------------------------------------------------------

static dv_switch on_off(rng *r)
{
    return (dv_switch)rng_below(r, 3);
}

static dv_plan_options random_options(rng *r, int64_t cores)
{
    static const dv_joint joint[] = {(dv_joint)0, DV_JOINT_OFF, DV_JOINT_OFF,
                                     DV_JOINT_AUTO, DV_JOINT_SEED};
    dv_plan_options o = DV_PLAN_OPTIONS_INIT;
    o.scratch = (dv_residents)rng_below(r, DV_RESIDENTS_NONE);
    o.joint = joint[rng_below(r, 5)];
    o.divide = (dv_divide)rng_below(r, DV_DIVIDE_SPAN + 1);
    if (o.divide == DV_DIVIDE_SPAN)
        o.joint = (dv_joint)0;
    o.in_place = on_off(r);
    o.clone_inputs = on_off(r);
    o.ring = on_off(r);
    o.evict = on_off(r);
    o.reorder = on_off(r);
    o.recompute = on_off(r);
    o.tenants = rng_percent(r, 25) ? DV_TENANTS_MANY : DV_TENANTS_ONE;
    o.solver = (dv_solver)rng_below(r, DV_SOLVER_GREEDY + 1);
    o.cores = rng_percent(r, 30) ? 1 + rng_below(r, cores) : 0;
    return o;
}

// Chooses a policy and an order, on machines that compute on tiles. Half of the
// programs there keep nothing in scratchpads, so that any core may have any
// tile.
static void random_policy(rng *r, const dv_target *t, dv_plan_options *o)
{
    static const char *const policies[] = {
        NULL,        "rect",      "streamk",   "streamk1", "streamk2",
        "splitk(2)", "splitk(9)", "ticket(2)", "dynamic",  "auto"};
    static const char *const orders[] = {
        NULL,     "auto",    "snake",           "grouped(2)", "column_major",
        "morton", "hilbert", "block_linear(2)", "swizzle(3)", "zigzag"};
    if (!t->tile_rows) {
        o->policy = policies[rng_percent(r, 80) ? 0 : 7 + rng_below(r, 2)];
        return;
    }
    o->policy = policies[rng_below(r, 10)];
    o->order = orders[rng_below(r, 10)];
    if (rng_percent(r, 50))
        o->scratch = DV_RESIDENTS_NONE;
}

static const char *said(const char *s)
{
    return s ? s : "-";
}

static const char *options_text(const dv_plan_options *o)
{
    static char text[300];
    snprintf(text, sizeof text,
             "cores %d divide %d joint %d scratch %d in-place %d clone-inputs "
             "%d ring %d evict %d reorder %d recompute %d tenants %d "
             "solver %s policy %s order %s",
             (int)o->cores, (int)o->divide, (int)o->joint, (int)o->scratch,
             (int)o->in_place, (int)o->clone_inputs, (int)o->ring,
             (int)o->evict, (int)o->reorder, (int)o->recompute, (int)o->tenants,
             dv_solver_name(o->solver), said(o->policy), said(o->order));
    return text;
}

// -- Random programs -------------------------------------------------------

// Counts the traffic with the tiles as the groups deal them, without grids,
// which may give tiles to other cores.
static int64_t memory_bytes(const dv_plan *plan)
{
    dv_plan dealt = *plan;
    dealt.n_grids = 0;
    dv_traffic t = dv_plan_traffic(&dealt);
    return t.read_bytes + t.write_bytes;
}

static int same_again(const dv_plan *plan, const dv_program *p,
                      const dv_target *t, const dv_plan_options *o)
{
    dv_plan *again = NULL;
    char *one = dv_plan_text(plan), *two = NULL;
    int ok = !dv_plan_create(&again, p, t, o, NULL);
    two = ok ? dv_plan_text(again) : NULL;
    ok = ok && !strcmp(one, two);
    dv_plan_destroy(again);
    dv_free(one);
    dv_free(two);
    return ok || case_no("another plan the second time");
}

// Compares with the same division with nothing in scratchpads.
static int spares(const dv_plan *plan, const dv_program *p, const dv_target *t,
                  const dv_plan_options *o)
{
    dv_plan_options bare = *o;
    dv_plan *off = NULL;
    bare.scratch = DV_RESIDENTS_NONE;
    if (dv_plan_create(&off, p, t, &bare, NULL))
        return case_no("with scratch off there is no plan");
    int64_t more = memory_bytes(off), less = memory_bytes(plan);
    int same = case_same_results(plan, off);
    dv_plan_destroy(off);
    if (!same)
        return 0;
    if (less > more)
        return case_no("%" PRId64 " bytes of main memory, %" PRId64
                       " with nothing on the cores",
                       less, more);
    return more - less == plan->scratch.saved_bytes ||
           case_no("the plan spares %" PRId64 " bytes and says %" PRId64,
                   more - less, plan->scratch.saved_bytes);
}

static void random_ops(rng *r, dv_op_set *s, int percent)
{
    dv_op_set_clear(s);
    for (int i = 0; i < dv_op_word_count(); i++)
        if (rng_percent(r, percent))
            dv_op_set_add(s, i);
}

// In half of the cases, lets the target and the caller forbid what they can
// forbid: ops that work in place or use scratchpads, large groups, a tensor and
// the op that writes it.
static void random_limits(rng *r, const dv_program *p, dv_target *t,
                          dv_plan_options *o)
{
    static char op[80];
    static const char *bars[2];
    if (rng_percent(r, 50))
        return;
    if (rng_percent(r, 60))
        random_ops(r, &t->in_place, 50);
    if (rng_percent(r, 40))
        random_ops(r, &t->keep, 75);
    if (rng_percent(r, 60))
        t->group_tensors = 4 + rng_below(r, 6);
    if (rng_percent(r, 60) || !p->n_tensors)
        return;
    const char *name = p->tensors[rng_below(r, p->n_tensors)].name;
    const char *writer = p->ops[rng_below(r, p->n_ops)].name;
    snprintf(op, sizeof op, "op:%s", writer);
    bars[0] = name;
    bars[1] = op;
    o->bars = bars;
    o->n_bars = 1 + (size_t)rng_below(r, 2);
}

// No plan is faster, or moves fewer bytes, than the lower bounds say.
static int above_bounds(const dv_plan *plan)
{
    dv_price price = dv_plan_price(plan);
    double least = dv_plan_least_us(plan);
    if (least > price.total_us * (1 + 1e-9))
        return case_no("predicted %g us, at least %g", price.total_us, least);
    return dv_plan_least_bytes(plan) <= memory_bytes(plan) ||
           case_no("at least %" PRId64 " bytes, %" PRId64 " are moved",
                   dv_plan_least_bytes(plan), memory_bytes(plan));
}

static int holds(const dv_program *p, uint64_t seed)
{
    rng r = {seed ^ 0x5c7a7c4};
    dv_target t;
    dv_plan *plan = NULL;
    random_target(&r, &t);
    if (t.scratch_bytes == 0)
        t.scratch_bytes = 4096;
    dv_plan_options o = random_options(&r, t.cores);
    random_policy(&r, &t, &o);
    rng limits = {seed ^ 0xba45};
    random_limits(&limits, p, &t, &o);
    dv_diag *diag = dv_diag_create();
    dv_status st = dv_plan_create(&plan, p, &t, &o, diag);
    int ok =
        st == DV_OK || st == DV_E_CAPACITY || case_no("%s", dv_diag_text(diag));
    if (st == DV_OK)
        ok = case_keeps(p, plan) && above_bounds(plan) &&
             same_again(plan, p, &t, &o) &&
             (o.joint != DV_JOINT_OFF || spares(plan, p, &t, &o));
    if (!ok)
        fprintf(stderr, "%s\n", options_text(&o));
    dv_plan_destroy(plan);
    dv_diag_destroy(diag);
    return ok;
}

TEST(floats)
{
    case_random("stays", holds, GEN_FLOATS, 600);
}

TEST(integers)
{
    case_random("stays", holds, GEN_INTEGERS, 300);
}

// -- Every function and reducer --------------------------------------------

typedef struct fn {
    const char *name;
    int n_args, prec, takes;
} fn;

static const fn fns[] = {
#define ANY      0
#define FLOATS   1
#define INTEGERS 2
#define DV_FN(NAME, spelling, word, args, prec, takes, ...)                    \
    {spelling, args, prec, takes},
#include "lang/op.def"
};

static const fn reducers[] = {
#define DV_REDUCER(NAME, name, nothing, real) {name, 1, 0, real},
#include "lang/op.def"
};

enum {
    N_FNS = sizeof fns / sizeof *fns,
    N_REDUCERS = sizeof reducers / sizeof *reducers
};

// Writes a call with plain inputs, or with positive numbers for a function of
// real numbers. No rounded value is ever compared.
static void put_call(dv_text *out, const fn *f)
{
    static const char *const plain[] = {"x[i,j]", "w[i,j]", "x[i,j]"};
    static const char *const above[] = {"p[i,j]", "q[i,j]", "p[i,j]"};
    const char *const *a = f->takes == FLOATS ? above : plain;
    if (f->prec && f->n_args == 2) {
        dv_put(out, "%s %s %s", a[0], f->name, a[1]);
    } else if (f->prec) {
        dv_put(out, "%s%s", f->name, a[0]);
    } else {
        dv_put(out, "%s(", f->name);
        for (int i = 0; i < f->n_args; i++)
            dv_put(out, "%s%s", i ? ", " : "", a[i]);
        dv_put(out, ")");
    }
}

static void put_inputs(dv_text *out, const char *dtype, int positive)
{
    dv_put(out, "input x: %s[5, 130]\ninput w: %s[5, 130]\n", dtype, dtype);
    if (positive)
        dv_put(out, "p[i,j] = x[i,j] * x[i,j] + 0.5\n"
                    "q[i,j] = w[i,j] * w[i,j] + 0.5\n");
}

static void put_fn(dv_text *out, const fn *f, const char *dtype, int reduces)
{
    put_inputs(out, dtype, f->takes == FLOATS);
    dv_put(out, "r[i,j]: %s = ", dtype);
    put_call(out, f);
    dv_put(out, "\n");
    if (reduces)
        dv_put(out, "s[i] = max[j] r[i,j]\n"
                    "y[i,j] = r[i,j] - s[i]\noutput y\n");
    else
        dv_put(out, "y[i,j] = r[i,j] * 2 - x[i,j]\noutput y\n");
}

// Products are of numbers near 1, or of ones and twos.
static void put_reducer(dv_text *out, const fn *f, const char *dtype,
                        int reduces)
{
    int product = !strcmp(f->name, "prod");
    put_inputs(out, dtype, 0);
    if (product)
        dv_put(out, "o[i,j]: %s = %s\n", dtype,
               dtype[0] == 'i' ? "(x[i,j] == 7) + 1" : "x[i,j] * 0.01 + 1.0");
    dv_put(out, "r[i]: %s = %s[j] %s[i,j]\n", dtype, f->name,
           product ? "o" : "x");
    if (reduces)
        dv_put(out, "s[] = max[i] r[i]\nd[i] = r[i] - s[]\noutput d\n");
    else
        dv_put(out, "y[i,j] = x[i,j] - r[i]\nz[i,j] = y[i,j] * w[i,j]\n"
                    "output z\n");
}

// One option is changed at a time.
static const struct {
    const char *name;
    dv_plan_options o;
} switches[] = {
    {"as usual", DV_PLAN_OPTIONS_INIT},
    {"scratch off",
     {.size = sizeof(dv_plan_options), .scratch = DV_RESIDENTS_NONE}},
    {"scratch reductions",
     {.size = sizeof(dv_plan_options), .scratch = DV_RESIDENTS_REDUCTIONS}},
    {"in-place off", {.size = sizeof(dv_plan_options), .in_place = DV_OFF}},
    {"clone-inputs off",
     {.size = sizeof(dv_plan_options), .clone_inputs = DV_OFF}},
    {"ring off", {.size = sizeof(dv_plan_options), .ring = DV_OFF}},
    {"evict off", {.size = sizeof(dv_plan_options), .evict = DV_OFF}},
    {"reorder off", {.size = sizeof(dv_plan_options), .reorder = DV_OFF}},
    {"recompute off", {.size = sizeof(dv_plan_options), .recompute = DV_OFF}},
    {"tenants many",
     {.size = sizeof(dv_plan_options), .tenants = DV_TENANTS_MANY}},
    {"joint off", {.size = sizeof(dv_plan_options), .joint = DV_JOINT_OFF}},
    {"joint seed", {.size = sizeof(dv_plan_options), .joint = DV_JOINT_SEED}},
    {"seed, greedy",
     {.size = sizeof(dv_plan_options),
      .divide = DV_DIVIDE_SEED,
      .joint = DV_JOINT_OFF,
      .solver = DV_SOLVER_GREEDY}},
    {"firstfit",
     {.size = sizeof(dv_plan_options), .solver = DV_SOLVER_FIRSTFIT}},
    {"bestfit", {.size = sizeof(dv_plan_options), .solver = DV_SOLVER_BESTFIT}},
    {"anneal", {.size = sizeof(dv_plan_options), .solver = DV_SOLVER_ANNEAL}},
    {"exact", {.size = sizeof(dv_plan_options), .solver = DV_SOLVER_EXACT}},
};

enum { N_SWITCHES = sizeof switches / sizeof *switches };

typedef struct suite {
    dv_target *spyre;
    int n_runs, n_homes; // simulated plans, and the homes in them
} suite;

static void run_switch(suite *s, const dv_program *p, const char *text, int k,
                       int64_t cores)
{
    dv_plan_options o = switches[k].o;
    o.cores = cores;
    dv_plan *plan = case_plan(p, s->spyre, &o);
    if (!plan || !case_keeps(p, plan))
        fail_msg("%s, %d cores: %s\n%s", switches[k].name, (int)cores,
                 case_why(), text);
    // On one core everything that is written and read again can be resident.
    if (k == 0 && cores == 1 && plan->scratch.n_homes == 0)
        fail_msg("nothing stays on the core\n%s", text);
    s->n_runs++;
    s->n_homes += plan->scratch.n_homes;
    dv_plan_destroy(plan);
}

// One program with every option, on 1, 3 and 32 cores.
static void run_all(suite *s, const char *text)
{
    static const int64_t cores[] = {1, 3, 32};
    dv_program *p = program_of(text);
    for (int c = 0; c < 3; c++)
        for (int k = 0; k < N_SWITCHES; k++)
            run_switch(s, p, text, k, cores[c]);
    dv_program_destroy(p);
}

// Every function and reducer with every option; with DV_CASES below 500 only
// that share of the programs, spread over the table.
TEST(every_op)
{
    static const char *const dtypes[] = {"f16", "f32", "i32"};
    suite s = {0};
    int n = 0, share = gen_cases(20);
    s.spyre = target_of("spyre");
    for (int i = 0; i < N_FNS + N_REDUCERS; i++)
        for (int t = 0; t < 3; t++)
            for (int reduces = 0; reduces < 2; reduces++) {
                const fn *f = i < N_FNS ? &fns[i] : &reducers[i - N_FNS];
                dv_text text = {0};
                int whole = dtypes[t][0] == 'i';
                if (f->takes == (whole ? FLOATS : INTEGERS) ||
                    (share < 100 && n++ * share % 100 >= share))
                    continue;
                if (i < N_FNS)
                    put_fn(&text, f, dtypes[t], reduces);
                else
                    put_reducer(&text, f, dtypes[t], reduces);
                run_all(&s, text.at);
                dv_text_free(&text);
            }
    printf("%d plans, %d homes\n", s.n_runs, s.n_homes);
    assert_true(s.n_homes > s.n_runs);
    dv_target_destroy(s.spyre);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(floats),
                                       cmocka_unit_test(integers),
                                       cmocka_unit_test(every_op)};
    return run_group(tests, NULL, NULL);
}
