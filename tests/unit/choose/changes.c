// Changes of many nodes at once, of trees and of parts of a proposal: they
// leave choices that changes of single nodes cannot leave, and their costs and
// memory are those of the choice.
#include "harness/gen.h"
#include "harness/test.h"
#include "choose/choose.h"
#include <math.h>

enum { NODES = 48, LABELS = 3, TIMES = 12 };

typedef struct instance {
    int64_t costs[NODES][LABELS], usages[NODES][LABELS];
    int64_t tables[2 * NODES][LABELS * LABELS];
    dv_choose_node nodes[NODES];
    dv_choose_edge edges[2 * NODES];
    dv_choose_problem p;
} instance;

static instance in;
static dv_cgraph g;
static dv_relaxation relax;
static dv_cchoice choice;
static dv_ctrees *trees;
static dv_cmix *mix;

static void open_instance(void)
{
    g = (dv_cgraph){0};
    relax = (dv_relaxation){0};
    assert_int_equal(dv_cgraph_build(&g, &in.p, NULL), DV_OK);
    assert_int_equal(dv_relaxation_init(&relax, &g, NULL), DV_OK);
    choice = (dv_cchoice){0};
    assert_int_equal(dv_cchoice_init(&choice, &g, NULL), DV_OK);
    assert_int_equal(dv_ctrees_create(&trees, &choice, &g.arena, NULL), DV_OK);
    assert_int_equal(dv_cmix_create(&mix, &choice, &g.arena, NULL), DV_OK);
}

// The cost of labels, as the check of choices computes it; -1 if they are not
// allowed.
static int64_t checked(const int32_t *labels)
{
    int32_t strategies[NODES];
    int64_t cost;
    for (int32_t v = 0; v < g.n_nodes; v++)
        strategies[v] = g.strategy[g.first[v] + labels[v]];
    return dv_choose_check(&in.p, strategies, NODES, &cost, NULL) ? -1 : cost;
}

static double scaled_cost(void)
{
    return (double)checked(choice.x) * g.scale;
}

// A path of nodes that cost 1 with strategy 0 and nothing with strategy 1;
// different strategies of neighbours cost 9. Each single change makes it
// dearer.
TEST(path)
{
    int32_t x[NODES] = {0};
    in.p = (dv_choose_problem){in.nodes, NODES, in.edges, NODES - 1,
                               DV_CHOOSE_NO_LIMIT};
    for (int v = 0; v < NODES; v++) {
        in.costs[v][0] = 1;
        in.costs[v][1] = 0;
        in.nodes[v] = (dv_choose_node){in.costs[v], NULL, 2, 0, 0};
    }
    for (int e = 0; e + 1 < NODES; e++) {
        const int64_t table[] = {0, 9, 9, 0};
        memcpy(in.tables[e], table, sizeof table);
        in.edges[e] = (dv_choose_edge){{e, e + 1}, in.tables[e]};
    }
    open_instance();
    for (int32_t v = 0; v < NODES; v++)
        assert_int_equal(dv_n_labels(&g, v), 2);
    dv_relax(&relax, 1);
    dv_cchoice_price(&choice, &relax);
    dv_cchoice_start(&choice, x, NODES * g.scale);
    assert_true(dv_ctrees_run(trees, 0, 100000) == 0);
    assert_int_equal(checked(choice.x), 0);
    dv_cgraph_free(&g);
}

// Random graphs with cycles, of which strategy 0 needs no memory.
static void make(rng *r)
{
    in.p = (dv_choose_problem){in.nodes, NODES, in.edges, 2 * NODES,
                               NODES + rng_below(r, 2 * NODES)};
    for (int v = 0; v < NODES; v++) {
        int64_t start = rng_below(r, TIMES);
        for (int s = 0; s < LABELS; s++) {
            in.costs[v][s] = 1 + rng_below(r, 100) / (1 + s);
            in.usages[v][s] = s * (1 + rng_below(r, 20));
        }
        in.nodes[v] = (dv_choose_node){in.costs[v], in.usages[v], LABELS, start,
                                       start + 1 + rng_below(r, TIMES)};
    }
    for (int e = 0; e < 2 * NODES; e++) {
        int a = (int)rng_below(r, NODES), b = (int)rng_below(r, NODES);
        for (int i = 0; i < LABELS * LABELS; i++)
            in.tables[e][i] = rng_below(r, 50);
        in.edges[e] =
            (dv_choose_edge){{a, a == b ? (b + 1) % NODES : b}, in.tables[e]};
    }
}

TEST(random_graphs)
{
    uint64_t seed = gen_seed();
    int n_repaired = 0;
    for (int i = 0; i < 200; i++) {
        rng r = {seed + (uint64_t)i};
        make(&r);
        open_instance();
        dv_relax(&relax, 4);
        dv_cchoice_price(&choice, &relax);
        if (dv_ctrees_repair(trees, relax.x, g.scale / 8, 200000)) {
            int64_t begin = checked(choice.x);
            int32_t x[NODES];
            assert_true(begin >= 0);
            memcpy(x, choice.x, sizeof x);
            dv_cchoice_start(&choice, x, (double)begin * g.scale);
            double priced = dv_ctrees_run(trees, 1, 20000);
            assert_true(scaled_cost() == priced);
            double plain = dv_ctrees_run(trees, 0, 20000);
            assert_true(scaled_cost() == plain);
            assert_true(plain <= priced);
            n_repaired++;
        }
        dv_cgraph_free(&g);
    }
    assert_true(n_repaired > 150);
}

// The least cost of all mixtures of x with y that keep to the limit.
static int64_t least_mixture(const int32_t *x, const int32_t *y)
{
    int32_t differ[NODES], z[NODES], n = 0;
    int64_t least = checked(x);
    for (int32_t v = 0; v < g.n_nodes; v++)
        if (x[v] != y[v])
            differ[n++] = v;
    for (uint32_t take = 1; take < 1u << n; take++) {
        memcpy(z, x, sizeof z);
        for (int k = 0; k < n; k++)
            if (take >> k & 1)
                z[differ[k]] = y[differ[k]];
        int64_t cost = checked(z);
        least = cost >= 0 && cost < least ? cost : least;
    }
    return least;
}

// Changes up to MIXED labels of a choice to others, of neighbours if possible.
enum { MIXED = 8 };
static void propose(rng *r, const int32_t *x, int32_t *y)
{
    int32_t v = (int32_t)rng_below(r, NODES);
    memcpy(y, x, NODES * sizeof *y);
    for (int k = 0; k < MIXED; k++) {
        int32_t first = g.adj_first[v], n = g.adj_first[v + 1] - first;
        y[v] = (int32_t)rng_below(r, dv_n_labels(&g, v));
        if (!n)
            continue;
        const dv_cedge *e = &g.edges[g.adj[first + (int)rng_below(r, n)]];
        v = e->a == v ? e->b : e->a;
    }
}

// Without a limit that matters, the best mixture is found; with one, a mixture
// keeps to it and never costs more.
TEST(mixtures)
{
    uint64_t seed = gen_seed();
    int n_better = 0;
    for (int i = 0; i < 200; i++) {
        rng r = {seed + (uint64_t)i};
        int32_t x[NODES] = {0}, y[NODES];
        make(&r);
        if (i % 2)
            in.p.usage_limit = DV_CHOOSE_NO_LIMIT;
        open_instance();
        dv_relax(&relax, 4);
        dv_cchoice_price(&choice, &relax);
        // Begin with the labels that use least memory.
        for (int32_t v = 0; v < g.n_nodes; v++)
            for (int32_t k = 0; k < dv_n_labels(&g, v); k++)
                if (dv_cusage(&g, v, k) < dv_cusage(&g, v, x[v]))
                    x[v] = k;
        propose(&r, x, y);
        int64_t begin = checked(x), least = least_mixture(x, y);
        assert_true(begin >= 0);
        dv_cchoice_start(&choice, x, (double)begin * g.scale);
        double cost = dv_cmix_run(mix, y, 0, 200000);
        assert_true(scaled_cost() == cost);
        assert_true(cost >= (double)least * g.scale);
        assert_true(cost <= (double)begin * g.scale);
        if (i % 2)
            assert_true(cost == (double)least * g.scale);
        n_better += cost < (double)begin * g.scale;
        dv_cgraph_free(&g);
    }
    assert_true(n_better > 50);
}

// A proposal for a path whose two halves are each cheaper as a whole, while
// only one of them fits the limit: that one is taken, which no change of a
// single node leads to.
TEST(half_of_a_proposal)
{
    int32_t x[NODES] = {0}, y[NODES];
    in.p = (dv_choose_problem){in.nodes, NODES, in.edges, NODES - 1, NODES};
    for (int v = 0; v < NODES; v++) {
        const int second = v >= NODES / 2;
        in.costs[v][0] = 2;
        in.costs[v][1] = 0;
        in.usages[v][0] = 0;
        in.usages[v][1] = second ? 1 : 4;
        in.nodes[v] =
            (dv_choose_node){in.costs[v], in.usages[v], 2, second, second + 1};
        y[v] = 1;
    }
    for (int e = 0; e + 1 < NODES; e++) {
        const int64_t table[] = {0, 9, 9, 0};
        memcpy(in.tables[e], table, sizeof table);
        in.edges[e] = (dv_choose_edge){{e, e + 1}, in.tables[e]};
    }
    open_instance();
    dv_relax(&relax, 1);
    dv_cchoice_price(&choice, &relax);
    dv_cchoice_start(&choice, x, 2 * NODES * g.scale);
    double cost = dv_cmix_run(mix, y, 0, 1 << 20);
    assert_true(cost == scaled_cost());
    assert_true(cost <= (NODES + 9) * g.scale);
    dv_cgraph_free(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(path), cmocka_unit_test(random_graphs),
        cmocka_unit_test(mixtures), cmocka_unit_test(half_of_a_proposal)};
    return run_group(tests, NULL, NULL);
}
