// Small programs on small machines: the planner's price is compared with the
// best plan that enumeration finds under the same price (plan/price.h).
//
// Enumerated are, for programs of at most five ops on at most four cores:
//
//   pairs      of a division and a tiling for every op: into how many slices
//              each variable is cut, for one tile per core or for several, and
//              then also the order in which a core runs them
//   loops      which consecutive ops with several tiles per core are one group
//   residents  all subsets of the tensors that could be resident: the others
//              are barred from the scratchpads
//
// A combination is not priced if a lower bound of its price shows that it is no
// cheaper than the planner's plan; the price of every cheaper plan that is
// found is compared with this bound. Such a plan counts if the checker accepts
// it. The planner is a heuristic that misses some of them (docs/decisions.md).
#include "harness/test.h"
#include "base/math.h"
#include "harness/gen.h"
#include "harness/property.h"
#include "harness/random.h"
#include "harness/unit.h"
#include "plan/price.h"
#include "joint/joint.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

// An op has at most MAX_PAIRS pairs. MAX_DIVISIONS have one tile per core, the
// others twice as many tiles as there are cores, and so on up to MAX_ROUNDS
// times. The enumeration of a program ends when MAX_PRICED plans are priced; it
// is counted as too large then. Of N_PROGRAMS, at most MOST_LARGE percent may
// be so, and for at most MOST_WORSE percent a plan may be found that is cheaper
// than the planner's.
enum {
    MAX_OPS = 5,
    MAX_PAIRS = 24,
    MAX_DIVISIONS = 12,
    MAX_ROUNDS = 4,
    MAX_PRICED = 10000,
    MAX_ACCESSES = 3,
    MAX_TENSORS = 8,
    N_PROGRAMS = 200,
    MOST_LARGE = 5,
    MOST_WORSE = 2
};

// The planner's price may be so many times that of a cheaper plan.
static const double most_times = 1.25;

// The right sides of statements: what is before and after the tensor's number.
static const char *const sides[][2] = {
    {"t", "[i,j] * 2.0"},           {"t", "[j,i] + 1.0"},
    {"sum[k] t", "[i,k] * w[k,j]"}, {"sum[k] w[i,k] * t", "[k,j]"},
    {"w[i,j] - t", "[i,j]"},
};

// Writes a chain of ops over square matrices, the last two of which may read
// the first result, too.
static char *random_program(rng *r)
{
    static char text[1000];
    int n = 2 + (int)rng_below(r, MAX_OPS - 1), at;
    int size = 2 + (int)rng_below(r, 7);
    at = snprintf(text, sizeof text,
                  "input t0: f32[%d, %d]\ninput w: f32[%d, %d]\n", size, size,
                  size, size);
    for (int i = 1; i <= n; i++) {
        int from = rng_percent(r, 75) ? i - 1 : (int)rng_below(r, i);
        const char *const *side = sides[rng_below(r, 5)];
        at += snprintf(text + at, sizeof text - (size_t)at,
                       "t%d[i,j] = %s%d%s\n", i, side[0], from, side[1]);
    }
    snprintf(text + at, sizeof text - (size_t)at, "output t%d\n", n);
    return text;
}

static void small_target(rng *r, dv_target *t)
{
    dv_target_init(t, "small");
    t->cores = 2 + rng_below(r, 3);
    t->scratch_bytes = 64 << rng_below(r, 6);
    t->scratch_align_bytes = 8;
    t->stick_bytes = 8;
    t->memory_bandwidth_bytes_per_s = 1e9;
    t->mac_rate_per_s = 1e8 * (double)(1 + rng_below(r, 50));
    t->vector_rate_per_s = 1e8 * (double)(1 + rng_below(r, 50));
    t->ring = rng_percent(r, 50);
    t->ring_bandwidth_bytes_per_s = t->ring ? 1e9 : 0;
    t->launch_time_ns = rng_percent(r, 50) ? 10 : 0;
}

// One way to cut an op: the slices of its variables, the order of the digits of
// its tile numbers (NULL: that of the variables) and the deal of its tiles.
typedef struct pair {
    int64_t slices[DV_MAX_VARS];
    int8_t *digits;
    dv_group group;
    double us; // of its arithmetic
    // Per access: which box of the tensor each core has; the bytes that all
    // cores load if each loads what it has; and the bytes of the largest box.
    dv_view view[MAX_ACCESSES];
    double bytes[MAX_ACCESSES];
    int64_t box_bytes[MAX_ACCESSES];
} pair;

typedef struct brute {
    dv_plan *plan;
    dv_arena arena;
    dv_divide_space **spaces;
    dv_plan_snapshot before;
    dv_scratch_rules rules;
    pair pairs[MAX_OPS][MAX_PAIRS];
    int n[MAX_OPS];
    double least_us[MAX_OPS + 1]; // of the arithmetic of all ops from one on
    int32_t def[MAX_TENSORS];     // the op that writes a tensor, or -1
    // The current combination: the pair of each op, and the first op of the
    // loop over tiles that it belongs to.
    const pair *now[MAX_OPS];
    int32_t first[MAX_OPS];
    double best_us; // of the planner's plan, then of better ones
    int64_t n_priced, n_loops, n_barred; // plans
} brute;

// -- Pairs --------------------------------------------------------------------

// Makes the pair current in the plan.
static void cut(brute *b, int32_t op, const pair *x)
{
    dv_plan *plan = b->plan;
    memcpy(plan->slices[op], x->slices,
           (size_t)plan->ops->ops[op].n_vars * sizeof *x->slices);
    plan->digits[op] = x->digits;
    plan->groups[op] = x->group;
}

// Adds the pair that cuts the variables of an op into so many slices; `inner`
// is the variable whose slices a core runs first, or -1.
static void add_pair(brute *b, int32_t op, const dv_splits *d, int inner)
{
    dv_plan *plan = b->plan;
    const dv_divide_space *s = b->spaces[op];
    const dv_op *o = &plan->ops->ops[op];
    pair *x = &b->pairs[op][b->n[op]++];
    *x = (pair){.group = plan->groups[op]};
    for (int v = 0; v < s->n_vars; v++)
        x->slices[v] = dv_min_i64(dv_ceil_div(s->units[v], d->n[v]) * s->eps[v],
                                  s->extent[v]);
    if (inner >= 0) {
        int n = 0;
        x->digits = DV_NEW(&b->arena, int8_t, s->n_vars);
        for (int8_t v = 0; v < s->n_vars; v++)
            if (v != inner)
                x->digits[n++] = v;
        x->digits[n] = (int8_t)inner;
    }
    cut(b, op, x);
    x->group.n_tiles = dv_plan_n_tiles(plan, op);
    assert_int_equal(dv_plan_deal(plan, op, &x->group, NULL), DV_OK);
    plan->groups[op] = x->group;
    dv_group_work all = dv_op_work_of(plan, op, op);
    dv_group_work w = {.macs = all.macs, .ops = all.ops};
    x->us = dv_price_of(&plan->target, &w).compute_us;
    for (int k = 0; k <= o->n_reads; k++) {
        const dv_layout *l = &plan->layouts[dv_op_access(o, k)->tensor];
        assert_null(dv_view_make(&x->view[k], plan, op, k));
        x->view[k].group = &x->group;
        x->bytes[k] = (double)(dv_view_changes(&x->view[k]) * l->elem_bytes);
        x->box_bytes[k] = dv_view_bytes(&x->view[k], l);
    }
}

// Returns whether variable v may be cut into n slices: with fewer, or of the
// same length, there are not n of them.
static int is_exact(const dv_divide_space *s, int v, int64_t n)
{
    int64_t len = dv_ceil_div(s->units[v], n);
    return dv_ceil_div(s->units[v], len) == n &&
           !(s->blocked >> v & 1 && n > 1);
}

// Adds the pairs of an op with so many tiles in total, from variable v on, that
// cut reduced variables, or do not.
static void add_tilings(brute *b, int32_t op, int64_t tiles, int reduced,
                        dv_splits *d, int v)
{
    const dv_divide_space *s = b->spaces[op];
    if (v < s->n_vars) {
        for (int64_t n = 1; n <= s->units[v]; n++)
            if (tiles % n == 0 && is_exact(s, v, n)) {
                d->n[v] = n;
                add_tilings(b, op, tiles / n, reduced, d, v + 1);
            }
        return;
    }
    int last = -1, parts = 0;
    for (int i = 0; i < s->n_vars; i++)
        if (d->n[i] > 1) {
            last = i;
            parts |= (int)(s->reduced >> i & 1);
        }
    for (int i = last;
         i >= 0 && tiles == 1 && parts == reduced && b->n[op] < MAX_PAIRS; i--)
        if (d->n[i] > 1)
            add_pair(b, op, d, i == last ? -1 : i);
}

static void list_pairs(brute *b, int32_t op)
{
    const dv_target *t = &b->plan->target;
    dv_divide_request r = {.cores = t->cores};
    dv_splits menu[MAX_PAIRS], d = {{1}};
    int n = dv_divide_menu(menu, MAX_DIVISIONS, b->spaces[op], t, &r);
    for (int k = 0; k < n; k++)
        add_pair(b, op, &menu[k], -1);
    for (int reduced = 0; reduced < 2; reduced++)
        for (int64_t k = 2; k <= MAX_ROUNDS; k *= 2)
            add_tilings(b, op, k * t->cores, reduced, &d, 0);
}

// -- The lower bound ----------------------------------------------------------

// Returns whether access r of an op finds on its cores what another op left
// there, if both are cut as in the current combination.
static int finds(const brute *b, int32_t op, int r, int32_t from)
{
    const dv_op *o = &b->plan->ops->ops[from];
    const pair *x = b->now[from], *y = b->now[op];
    if (x->group.loops && b->first[from] != b->first[op])
        return 0;
    return dv_view_holds(&x->view[o->n_reads], &y->view[r]);
}

// Returns the bytes that main memory sends at least to an op for a tensor that
// it does not find on its cores: a ring passes on what several cores need.
static double least_load(const brute *b, int32_t op, int32_t tensor)
{
    const dv_op *o = &b->plan->ops->ops[op];
    double most = 0;
    for (int r = 0; r < o->n_reads; r++)
        if (o->reads[r].tensor == tensor)
            most = fmax(most, b->plan->target.ring
                                  ? (double)b->plan->layouts[tensor].bytes
                                  : b->now[op]->bytes[r]);
    return most;
}

// Returns whether an op must load a tensor: another one that writes it cannot
// leave on the cores what the op needs.
static int must_load(const brute *b, int32_t op, int32_t tensor)
{
    const dv_op *o = &b->plan->ops->ops[op];
    int32_t from = b->def[tensor];
    if (!dv_op_reads(o, tensor))
        return 0;
    if (from < 0)
        return 1;
    if (b->now[from]->box_bytes[b->plan->ops->ops[from].n_reads] >
        b->plan->scratch.capacity_bytes)
        return 1;
    for (int r = 0; r < o->n_reads && !b->plan->target.ring; r++)
        if (o->reads[r].tensor == tensor && !finds(b, op, r, from))
            return 1;
    return 0;
}

// Returns the bytes that main memory transfers at least for a tensor, if the
// first n ops are cut as in the current combination. If the tensor is barred
// from the scratchpads, every op loads it that reads it; else one op may load
// it for others.
static double least_bytes(const brute *b, int32_t tensor, int32_t n, int barred)
{
    const dv_program *p = b->plan->ops;
    double all = (double)b->plan->layouts[tensor].bytes, loads = 0;
    int32_t from = b->def[tensor];
    for (int32_t i = 0; i < n; i++) {
        if (barred && dv_op_reads(&p->ops[i], tensor))
            loads += least_load(b, i, tensor);
        else if (must_load(b, i, tensor))
            loads = fmax(loads, least_load(b, i, tensor));
    }
    for (int32_t i = n; i < p->n_ops && from < 0; i++)
        if (dv_op_reads(&p->ops[i], tensor))
            loads = fmax(loads, all);
    int is_stored = p->tensors[tensor].is_output || (from >= 0 && loads > 0);
    return loads + (is_stored ? all : 0);
}

// Returns a lower bound of the price of plans whose first n ops are cut as in
// the current combination, with a set of tensors that is barred.
static double bound(const brute *b, int32_t n, uint32_t barred)
{
    const dv_program *p = b->plan->ops;
    const dv_target *t = &b->plan->target;
    dv_cost_work w = {.all_bytes = 0};
    double us = b->least_us[n];
    for (int32_t i = 0; i < n; i++)
        us += b->now[i]->us;
    for (int32_t k = 0; k < p->n_tensors; k++)
        w.all_bytes += least_bytes(b, k, n, barred >> k & 1);
    return fmax(us, dv_cost_memory_us(t, &w)) +
           p->n_ops * t->launch_time_ns / 1e3;
}

// -- Plans --------------------------------------------------------------------

static int is_cheaper(double a, double b)
{
    return a < b * (1 - 1e-9);
}

// Prices the current combination with a set of tensors barred. Returns the set
// of those that could be resident.
static uint32_t price(brute *b, uint32_t barred)
{
    const char *bars[MAX_TENSORS];
    size_t n_bars = 0;
    dv_plan *plan = b->plan;
    dv_arena kept = plan->arena, work = {0};
    dv_joint_price p;
    uint32_t could = 0;
    int loops = 0;
    dv_plan_snapshot_restore(&b->before, plan);
    plan->arena = (dv_arena){0};
    for (int32_t i = 0; i < plan->ops->n_ops; i++) {
        cut(b, i, b->now[i]);
        plan->groups[i].same_loop = b->first[i] < i;
        loops |= b->first[i] < i;
    }
    for (int32_t t = 0; t < plan->ops->n_tensors; t++)
        if (barred >> t & 1)
            bars[n_bars++] = plan->ops->tensors[t].name;
    b->rules.bars = bars;
    b->rules.n_bars = n_bars;
    assert_int_equal(dv_joint_assess(&p, plan, &b->rules, &work, NULL), DV_OK);
    for (int32_t i = 0; i < plan->scratch.n_residents; i++) {
        const dv_resident *r = &plan->scratch.residents[i];
        if (r->home >= 0 || r->crowded)
            could |= 1u << r->tensor;
    }
    b->n_priced++;
    b->n_loops += loops;
    b->n_barred += n_bars > 0;
    if (is_cheaper(p.us, b->best_us) && dv_plan_check(plan, NULL) == DV_OK) {
        assert_false(is_cheaper(p.us, bound(b, plan->ops->n_ops, barred)));
        b->best_us = p.us;
    }
    dv_arena_free(&plan->arena);
    dv_arena_free(&work);
    plan->arena = kept;
    return could;
}

// Prices the current combination with every set of residents.
static void price_all(brute *b)
{
    uint32_t could = price(b, 0);
    for (uint32_t set = could; set; set = (set - 1) & could)
        if (is_cheaper(bound(b, b->plan->ops->n_ops, set), b->best_us))
            price(b, set);
}

// Returns whether an op, cut as in the current combination, may belong to the
// same loop over tiles as the op before.
static int may_join(const brute *b, int32_t op)
{
    const dv_op *o = &b->plan->ops->ops[op];
    if (op == 0 || !b->now[op]->group.loops ||
        !dv_same_deals(&b->now[op]->group, &b->now[op - 1]->group))
        return 0;
    for (int r = 0; r < o->n_reads; r++) {
        int32_t from = b->def[o->reads[r].tensor];
        if (from >= b->first[op] && !finds(b, op, r, from))
            return 0;
    }
    return 1;
}

// Returns whether a loop over tiles has only one op if op `op` does not belong
// to it. An op that is alone is cut into one tile per core.
static int leaves_lone(const brute *b, int32_t op)
{
    return (op > 0 && b->now[op - 1]->group.loops &&
            b->first[op - 1] == op - 1) ||
           (op == b->plan->ops->n_ops - 1 && b->now[op]->group.loops);
}

// Prices all combinations whose first ops, up to op `op`, are cut as in the
// current one.
static void enumerate(brute *b, int32_t op)
{
    int32_t n = b->plan->ops->n_ops;
    if (op == n) {
        price_all(b);
        return;
    }
    for (int k = 0; k < b->n[op] && b->n_priced < MAX_PRICED; k++) {
        b->now[op] = &b->pairs[op][k];
        for (int join = 0; join < 2; join++) {
            b->first[op] = join && op ? b->first[op - 1] : op;
            if (join && !may_join(b, op))
                continue;
            if (!join && leaves_lone(b, op))
                continue;
            if (is_cheaper(bound(b, op + 1, 0), b->best_us))
                enumerate(b, op + 1);
        }
    }
}

// Sets b->best_us to the price of the best plan if that is lower.
static void look_for_better(brute *b, const dv_program *p, const dv_target *t)
{
    dv_plan_options o = DV_PLAN_OPTIONS_INIT;
    o.stop_after = "group";
    assert_int_equal(dv_plan_create(&b->plan, p, t, &o, NULL), DV_OK);
    dv_plan *plan = b->plan;
    const dv_program *ops = plan->ops;
    assert_true(ops->n_ops <= MAX_OPS && ops->n_tensors <= MAX_TENSORS);
    plan->scratch.capacity_bytes = dv_target_usable_bytes(t);
    b->spaces = dv_joint_spaces(plan, &b->arena);
    plan->digits = DV_NEW(&plan->arena, const int8_t *, ops->n_ops);
    for (int32_t k = 0; k < ops->n_tensors; k++)
        b->def[k] = -1;
    for (int32_t i = 0; i < ops->n_ops; i++)
        b->def[ops->ops[i].write.tensor] = i;
    for (int32_t i = ops->n_ops - 1; i >= 0; i--) {
        double least = INFINITY;
        list_pairs(b, i);
        for (int k = 0; k < b->n[i]; k++)
            least = fmin(least, b->pairs[i][k].us);
        b->least_us[i] = b->least_us[i + 1] + least;
    }
    assert_true(dv_plan_snapshot_save(&b->before, plan, &b->arena));
    enumerate(b, 0);
    dv_plan_destroy(plan);
    dv_arena_free(&b->arena);
}

// What became of all programs.
typedef struct counts {
    int n_ops[MAX_OPS + 1], n_large, n_worse;
    int64_t n_priced, n_loops, n_barred;
    double worst; // the most times that the planner's price is of a better one
} counts;

static void compare(counts *c, uint64_t seed)
{
    rng r = {seed};
    dv_target t;
    dv_plan *plan = NULL;
    char *text = random_program(&r);
    small_target(&r, &t);
    dv_program *p = program_of(text);
    assert_int_equal(dv_plan_create(&plan, p, &t, NULL, NULL), DV_OK);
    double us = dv_plan_price(plan).total_us;
    brute b = {.best_us = us,
               .rules = {.in_place = 1, .clones = 1, .ring = 1, .tiles = 1}};
    look_for_better(&b, p, &t);
    c->n_ops[plan->ops->n_ops]++;
    c->n_large += b.n_priced >= MAX_PRICED;
    c->n_priced += b.n_priced;
    c->n_loops += b.n_loops;
    c->n_barred += b.n_barred;
    if (is_cheaper(b.best_us, us)) {
        c->n_worse++;
        c->worst = fmax(c->worst, us / b.best_us);
        printf("DV_SEED=%" PRIu64 ": %g us, %g possible, cores %d scratch %d "
               "ring %d\n%s",
               seed, us, b.best_us, (int)t.cores, (int)t.scratch_bytes, t.ring,
               text);
    }
    dv_plan_destroy(plan);
    dv_program_destroy(p);
}

// Hardly any combination makes a cheaper plan than the one that is found.
TEST(finds_the_best_plan)
{
    counts c = {.worst = 1};
    int n = gen_cases(N_PROGRAMS);
    for (int i = 0; i < n; i++)
        compare(&c, gen_seed() + (uint64_t)i);
    printf("%d programs of 1 op, %d of 2, %d of 3, %d of 4, %d of 5, %d too "
           "large; %" PRId64 " plans priced, %" PRId64 " with loops over "
           "tiles, %" PRId64 " with bars: %d worse, by %g at most\n",
           c.n_ops[1], c.n_ops[2], c.n_ops[3], c.n_ops[4], c.n_ops[5],
           c.n_large, c.n_priced, c.n_loops, c.n_barred, c.n_worse, c.worst);
    assert_true(c.worst <= most_times);
    if (n < N_PROGRAMS)
        return; // too few for shares
    assert_true(c.n_worse * 100 <= n * MOST_WORSE);
    assert_true(c.n_large * 100 <= n * MOST_LARGE);
    assert_true(c.n_loops > 0 && c.n_barred > 0);
    for (int k = 2; k <= MAX_OPS; k++)
        assert_true(c.n_ops[k] * 20 > n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(finds_the_best_plan)};
    return run_group(tests, NULL, NULL);
}
