// Properties of choices for random small problems with parallel edges, loops,
// nodes with one strategy, forbidden entries and limits: the result passes the
// check, costs what a plain sum says, and is the best of all combinations if it
// is called optimal; no combination costs less than the bound (V4); if there is
// no choice, the solver says so. Problems of this size are always solved to
// optimality. The same call gives the same result.
#include "harness/test.h"
#include "harness/gen.h"
#include "base/diag.h"
#include "divvy/choose.h"
#include <inttypes.h>

enum { MAX_NODES = 14, MAX_EDGES = 120, MAX_LABELS = 5, TIMES = 8 };

typedef struct instance {
    int64_t costs[MAX_NODES][MAX_LABELS], usages[MAX_NODES][MAX_LABELS];
    int64_t tables[MAX_EDGES][MAX_LABELS * MAX_LABELS];
    dv_choose_node nodes[MAX_NODES];
    dv_choose_edge edges[MAX_EDGES];
    dv_choose_problem p;
} instance;

static int64_t random_cost(rng *r, int forbidden)
{
    if (rng_percent(r, forbidden))
        return DV_CHOOSE_FORBIDDEN + rng_below(r, 2);
    // Small costs make many choices equally good.
    return rng_percent(r, 50) ? rng_below(r, 6) : rng_below(r, 1000);
}

// In dense problems nearly all pairs of 12 to 14 nodes with two strategies have
// edges, so that elimination leaves a core.
static void make(rng *r, instance *x, int dense)
{
    int n = dense ? 12 + (int)rng_below(r, 3) : 1 + (int)rng_below(r, 9);
    int m = 0, forbidden = rng_percent(r, 50) ? (int)rng_below(r, 50) : 0;
    int density = 20 + (int)rng_below(r, 80);
    int most = dense ? 2 : 1 + (int)rng_below(r, n > 7 ? 3 : MAX_LABELS);
    forbidden /= dense ? 10 : 1;
    for (int v = 0; v < n; v++) {
        dv_choose_node *d = &x->nodes[v];
        d->n_strategies = dense ? 2 : 1 + (int32_t)rng_below(r, most);
        d->costs = x->costs[v];
        d->usages = rng_percent(r, 90) ? x->usages[v] : NULL;
        d->start = rng_below(r, TIMES);
        d->end = d->start + rng_below(r, TIMES);
        for (int s = 0; s < d->n_strategies; s++) {
            x->costs[v][s] = random_cost(r, forbidden / 8);
            x->usages[v][s] = rng_below(r, 20);
        }
    }
    while (dense ? m < n * (n - 1) / 2
                 : m < MAX_EDGES && rng_percent(r, density)) {
        dv_choose_edge *e = &x->edges[m];
        e->nodes[0] = (int32_t)rng_below(r, n);
        e->nodes[1] = (int32_t)rng_below(r, n);
        // The m-th pair of nodes, in either order.
        for (int a = 0, k = m; dense && k >= 0; k -= n - 1 - a++)
            if (k < n - 1 - a) {
                int flip = rng_percent(r, 50);
                e->nodes[flip] = a;
                e->nodes[!flip] = a + 1 + k;
            }
        e->costs = x->tables[m];
        for (int i = 0; i < MAX_LABELS * MAX_LABELS; i++)
            x->tables[m][i] = random_cost(r, forbidden);
        // Some edges share the table of another one between equal nodes.
        for (int k = 0; k < m && rng_percent(r, 30); k++)
            if (x->nodes[e->nodes[0]].n_strategies ==
                    x->nodes[x->edges[k].nodes[0]].n_strategies &&
                x->nodes[e->nodes[1]].n_strategies ==
                    x->nodes[x->edges[k].nodes[1]].n_strategies)
                e->costs = x->edges[k].costs;
        m++;
    }
    x->p = (dv_choose_problem){x->nodes, (size_t)n, x->edges, (size_t)m,
                               rng_percent(r, 30) ? DV_CHOOSE_NO_LIMIT
                                                  : rng_below(r, 10 * n)};
}

// -- What is true ------------------------------------------------------------

// Returns the cost of a choice; -1 if it is not allowed.
static int64_t cost_of(const dv_choose_problem *p, const int32_t *s)
{
    int64_t sum = 0;
    for (int t = 0; p->usage_limit >= 0 && t < 2 * TIMES; t++) {
        int64_t used = 0;
        for (size_t v = 0; v < p->n_nodes; v++)
            if (p->nodes[v].usages && p->nodes[v].start <= t &&
                t < p->nodes[v].end)
                used += p->nodes[v].usages[s[v]];
        if (used > p->usage_limit)
            return -1;
    }
    for (size_t v = 0; v < p->n_nodes; v++) {
        int64_t c = p->nodes[v].costs[s[v]];
        if (c >= DV_CHOOSE_FORBIDDEN)
            return -1;
        sum += c;
    }
    for (size_t e = 0; e < p->n_edges; e++) {
        int32_t a = p->edges[e].nodes[0], b = p->edges[e].nodes[1];
        int64_t c = p->edges[e].costs[s[a] * p->nodes[b].n_strategies + s[b]];
        if (c >= DV_CHOOSE_FORBIDDEN)
            return -1;
        sum += c;
    }
    return sum;
}

// Returns the least cost of all choices; -1 if none is allowed. Counts the
// choices in which check and plain sum differ.
static int64_t least_cost(const dv_choose_problem *p, int *n_differ)
{
    int32_t s[MAX_NODES] = {0};
    int64_t least = -1;
    for (;;) {
        int64_t cost = cost_of(p, s), checked = -1;
        if (dv_choose_check(p, s, p->n_nodes, &checked, NULL))
            checked = -1;
        *n_differ += checked != cost;
        if (cost >= 0 && (least < 0 || cost < least))
            least = cost;
        size_t v = 0;
        while (v < p->n_nodes && ++s[v] == p->nodes[v].n_strategies)
            s[v++] = 0;
        if (v == p->n_nodes)
            return least;
    }
}

static int judge(const dv_choose_problem *p, const dv_choose_result *r,
                 int64_t least)
{
    if (least < 0)
        return case_no("there is no choice, but one was returned");
    if (cost_of(p, r->strategies) != r->cost)
        return case_no("the cost is %" PRId64 ", not %" PRId64,
                       cost_of(p, r->strategies), r->cost);
    if (r->bound > least)
        return case_no("the bound %" PRId64 " is above the least cost %" PRId64,
                       r->bound, least);
    if (!r->optimal || r->cost != least || r->bound != least)
        return case_no("cost %" PRId64 ", bound %" PRId64 ", least %" PRId64,
                       r->cost, r->bound, least);
    return 1;
}

static int holds(uint64_t seed, int dense)
{
    static instance x;
    rng random = {seed};
    dv_choose_result *r = NULL, *again = NULL;
    int n_differ = 0;
    make(&random, &x, dense);
    int64_t least = least_cost(&x.p, &n_differ);
    if (n_differ)
        return case_no("the check is wrong about %d choices", n_differ);
    dv_status s = dv_choose(&r, &x.p, NULL, NULL);
    if (s)
        return (s == DV_E_CAPACITY && least < 0) ||
               case_no("status %d, least %" PRId64, (int)s, least);
    int ok = judge(&x.p, r, least);
    if (dv_choose(&again, &x.p, NULL, NULL) || again->work != r->work ||
        memcmp(again->strategies, r->strategies,
               r->n_nodes * sizeof *r->strategies) != 0)
        ok = case_no("a second call gives another result");
    dv_choose_result_destroy(r);
    dv_choose_result_destroy(again);
    return ok;
}

static void try_cases(int usual, int dense)
{
    uint64_t seed = gen_seed();
    for (int i = 0; i < gen_cases(usual); i++)
        if (!holds(seed + (uint64_t)i, dense))
            fail_msg("DV_SEED=%" PRIu64 ": %s", seed + (uint64_t)i, case_why());
}

TEST(sparse_problems)
{
    try_cases(20000, 0);
}

TEST(dense_problems)
{
    try_cases(200, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sparse_problems),
                                       cmocka_unit_test(dense_problems)};
    return run_group(tests, NULL, NULL);
}
