// Changes of trees of nodes at once: they leave choices that changes of single
// nodes cannot leave, and their costs and memory are those of the choice.
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
static dv_ctrees *trees;

static void open_instance(void)
{
    g = (dv_cgraph){0};
    relax = (dv_relaxation){0};
    assert_int_equal(dv_cgraph_build(&g, &in.p, NULL), DV_OK);
    assert_int_equal(dv_relaxation_init(&relax, &g, NULL), DV_OK);
    assert_int_equal(dv_ctrees_create(&trees, &g, NULL), DV_OK);
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
    return (double)checked(dv_ctrees_labels(trees)) * g.scale;
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
    dv_ctrees_price(trees, &relax);
    dv_ctrees_start(trees, x, NODES * g.scale);
    assert_true(dv_ctrees_run(trees, 0, 100000) == 0);
    assert_int_equal(checked(dv_ctrees_labels(trees)), 0);
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
        dv_ctrees_price(trees, &relax);
        if (dv_ctrees_repair(trees, relax.x, g.scale / 8, 200000)) {
            int64_t begin = checked(dv_ctrees_labels(trees));
            int32_t x[NODES];
            assert_true(begin >= 0);
            memcpy(x, dv_ctrees_labels(trees), sizeof x);
            dv_ctrees_start(trees, x, (double)begin * g.scale);
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(path),
                                       cmocka_unit_test(random_graphs)};
    return run_group(tests, NULL, NULL);
}
