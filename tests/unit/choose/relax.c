// The reduced problem and its relaxations: equal tables of edges are stored
// once, and messages that dead labels have received can be forgotten.
#include "harness/gen.h"
#include "harness/test.h"
#include "choose/choose.h"
#include <string.h>

// All nodes are neighbours, so that none of them is eliminated.
enum { NODES = 6, LABELS = 3, EDGES = NODES * (NODES - 1) / 2, TABLES = 2 };

static int64_t costs[NODES][LABELS];
static int64_t tables[2 * TABLES]
                     [LABELS * LABELS]; // the second half transposed
static dv_choose_node nodes[NODES];
static dv_choose_edge edges[EDGES];
static dv_cgraph g;

// Builds a random problem whose edges have one of a few tables, some of them
// from the higher to the lower node.
static void build(rng *r)
{
    const dv_choose_problem p = {nodes, NODES, edges, EDGES,
                                 DV_CHOOSE_NO_LIMIT};
    int e = 0;
    for (int t = 0; t < TABLES; t++)
        for (int i = 0; i < LABELS; i++)
            for (int k = 0; k < LABELS; k++) {
                tables[t][i * LABELS + k] = rng_below(r, 100);
                tables[TABLES + t][k * LABELS + i] = tables[t][i * LABELS + k];
            }
    for (int v = 0; v < NODES; v++) {
        nodes[v] = (dv_choose_node){costs[v], NULL, LABELS, 0, 0};
        for (int u = v + 1; u < NODES; u++, e++)
            edges[e] =
                e % 3 ? (dv_choose_edge){{v, u}, tables[e % TABLES]}
                      : (dv_choose_edge){{u, v}, tables[TABLES + e % TABLES]};
    }
    g = (dv_cgraph){0};
    assert_int_equal(dv_cgraph_build(&g, &p, NULL), DV_OK);
}

static int equal(const dv_cedge *x, const dv_cedge *y)
{
    int32_t n = dv_n_labels(&g, x->a), m = dv_n_labels(&g, x->b);
    return n == dv_n_labels(&g, y->a) && m == dv_n_labels(&g, y->b) &&
           !memcmp(x->table, y->table, sizeof(double) * (size_t)n * (size_t)m);
}

TEST(equal_tables)
{
    uint64_t seed = gen_seed();
    int n_shared = 0;
    for (int i = 0; i < 50; i++) {
        rng r = {seed + (uint64_t)i};
        build(&r);
        for (int32_t e = 0; e < g.n_edges; e++)
            for (int32_t k = 0; k < e; k++) {
                const dv_cedge *x = &g.edges[e], *y = &g.edges[k];
                assert_int_equal(x->table == y->table, equal(x, y));
                n_shared += x->table == y->table;
            }
        dv_cgraph_free(&g);
    }
    assert_true(n_shared > 1000);
}

// More tables than the first hash table has slots for.
TEST(many_tables)
{
    enum { MANY = 3000 };
    static double *stored[MANY];
    dv_arena arena = {0};
    dv_ctables t;
    assert_true(dv_ctables_init(&t, &arena));
    for (int i = 0; i < MANY; i++) {
        const double entries[] = {i, 1, 2, i % 7, 4, 5};
        stored[i] = dv_ctables_add(&t, entries, 2, 3);
    }
    assert_int_equal(t.n, MANY);
    for (int i = 0; i < MANY; i++) {
        const double entries[] = {i, 1, 2, i % 7, 4, 5};
        assert_ptr_equal(dv_ctables_add(&t, entries, 2, 3), stored[i]);
        assert_memory_equal(stored[i], entries, sizeof entries);
    }
    const double same[] = {0, 1, 2, 0, 4, 5};
    assert_ptr_not_equal(dv_ctables_add(&t, same, 3, 2), stored[0]);
    assert_int_equal(t.n, MANY + 1);
    assert_int_equal(t.tables[0].uses, 2);
    dv_arena_free(&arena);
}

// A bound after labels were dead is the bound before.
TEST(messages_of_dead_labels)
{
    uint64_t seed = gen_seed();
    for (int i = 0; i < 50; i++) {
        rng r = {seed + (uint64_t)i};
        dv_relaxation relax = {0};
        char dead[NODES * LABELS] = {0};
        build(&r);
        assert_int_equal(dv_relaxation_init(&relax, &g, NULL), DV_OK);
        dv_relax(&relax, 2);
        double bound = relax.bound;
        relax.dead = dead;
        for (int32_t v = 0; v < g.n_nodes; v++)
            for (int32_t k = g.first[v] + 1; k < g.first[v + 1]; k++)
                dead[k] = 1;
        dv_relax(&relax, 2);
        assert_true(relax.bound >= bound);
        relax.dead = NULL;
        dv_trws_reset(relax.trws);
        dv_relax(&relax, 2);
        assert_true(relax.bound == bound);
        dv_cgraph_free(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_tables), cmocka_unit_test(many_tables),
        cmocka_unit_test(messages_of_dead_labels)};
    return run_group(tests, NULL, NULL);
}
