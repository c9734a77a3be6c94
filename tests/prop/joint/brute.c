// Small programs on small machines: the planner's price is compared with the
// best over all combinations of divisions, each with its resident tensors.
#include "harness/test.h"
#include "harness/property.h"
#include "harness/random.h"
#include "harness/unit.h"
#include "plan/price.h"
#include "joint/joint.h"
#include <math.h>

// Programs with more than MAX_PLANS combinations of divisions are left out.
enum { MAX_OPS = 5, MAX_CHOICES = 12, N_PROGRAMS = 800, MAX_PLANS = 4000 };

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
    int size = 2 << rng_below(r, 3);
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

typedef struct brute {
    dv_plan *plan;
    dv_arena arena;
    dv_divide_space **spaces;
    dv_plan_snapshot before;
    dv_splits menu[MAX_OPS][MAX_CHOICES];
    int n[MAX_OPS], now[MAX_OPS];
    dv_scratch_rules rules;
    dv_joint_price best;
} brute;

static void price_now(brute *b)
{
    dv_plan *plan = b->plan;
    dv_joint_price p;
    dv_plan_snapshot_restore(&b->before, plan);
    for (int32_t i = 0; i < plan->ops->n_ops; i++) {
        const dv_divide_space *s = b->spaces[i];
        for (int v = 0; v < s->n_vars; v++) {
            int64_t n = b->menu[i][b->now[i]].n[v];
            int64_t len = (s->units[v] + n - 1) / n * s->eps[v];
            plan->slices[i][v] = len < s->extent[v] ? len : s->extent[v];
        }
        plan->groups[i].n_tiles = dv_plan_n_tiles(plan, i);
        assert_int_equal(dv_plan_deal(plan, i, &plan->groups[i], NULL), DV_OK);
    }
    assert_int_equal(dv_joint_assess(&p, plan, &b->rules, &b->arena, NULL),
                     DV_OK);
    if (dv_joint_cheaper(&p, &b->best))
        b->best = p;
}

static void enumerate(brute *b, int32_t op)
{
    if (op == b->plan->ops->n_ops) {
        price_now(b);
        return;
    }
    for (b->now[op] = 0; b->now[op] < b->n[op]; b->now[op]++)
        enumerate(b, op + 1);
}

static dv_joint_price best_of_all(const dv_program *p, const dv_target *t)
{
    dv_plan_options o = DV_PLAN_OPTIONS_INIT;
    brute b = {.best = {INFINITY, INFINITY},
               .rules = {.in_place = 1, .clones = 1, .ring = 1}};
    dv_divide_request r = {.cores = t->cores};
    o.stop_after = "group";
    assert_int_equal(dv_plan_create(&b.plan, p, t, &o, NULL), DV_OK);
    b.plan->scratch.capacity_bytes = dv_target_usable_bytes(t);
    b.spaces = dv_joint_spaces(b.plan, &b.arena);
    int64_t plans = 1;
    for (int32_t i = 0; i < b.plan->ops->n_ops; i++) {
        b.n[i] = dv_divide_menu(b.menu[i], MAX_CHOICES, b.spaces[i], t, &r);
        plans *= b.n[i];
    }
    assert_true(dv_plan_snapshot_save(&b.before, b.plan, &b.arena));
    if (plans <= MAX_PLANS)
        enumerate(&b, 0);
    dv_plan_destroy(b.plan);
    dv_arena_free(&b.arena);
    return b.best;
}

// No division of the ops makes a cheaper plan than the one that is found.
TEST(finds_the_best_plan)
{
    int worse = 0, n_ops[MAX_OPS + 1] = {0};
    double most = 0;
    for (int i = 0; i < N_PROGRAMS; i++) {
        rng r = {(uint64_t)i + 1};
        dv_target t;
        dv_plan *plan = NULL;
        char *text = random_program(&r);
        small_target(&r, &t);
        dv_program *p = program_of(text);
        assert_int_equal(dv_plan_create(&plan, p, &t, NULL, NULL), DV_OK);
        dv_price mine = dv_plan_price(plan);
        dv_joint_price best = best_of_all(p, &t);
        n_ops[plan->ops->n_ops] += best.us < INFINITY;
        if (mine.total_us > best.us * (1 + 1e-9)) {
            worse++;
            most = fmax(most, mine.total_us / best.us);
            printf("%d: %g us, %g possible, cores %d scratch %d ring %d\n%s", i,
                   mine.total_us, best.us, (int)t.cores, (int)t.scratch_bytes,
                   t.ring, text);
        }
        dv_plan_destroy(plan);
        dv_program_destroy(p);
    }
    printf("%d programs of 2 ops, %d of 3, %d of 4, %d of 5: %d worse, by %g "
           "at most\n",
           n_ops[2], n_ops[3], n_ops[4], n_ops[5], worse, most);
    assert_int_equal(worse, 0);
    assert_true(n_ops[2] > 50 && n_ops[3] > 50 && n_ops[4] > 50 &&
                n_ops[5] > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(finds_the_best_plan)};
    return run_group(tests, NULL, NULL);
}
