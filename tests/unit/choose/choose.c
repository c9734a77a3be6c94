// Choices of known problems, what the check refuses, and unusual or invalid
// input.
#include "harness/test.h"
#include "base/diag.h"
#include "choose/read.h"
#include <inttypes.h>

// The example of the contest: an optimum of 445, or 415 without the limit.
#define NODES                                                                  \
    "\"nodes\": {\"intervals\": [[30, 70], [40, 70], [50, 120], [110, 140], "  \
    "[110, 150]], \"costs\": [[15], [55, 65], [25, 45, 35], [85, 75], [95]], " \
    "\"usages\": [[10], [25, 25], [15, 20, 15], [10, 10], [15]]}"
#define EDGES                                                                  \
    "\"edges\": {\"nodes\": [[0, 1], [0, 2], [1, 3], [2, 4], [3, 4]], "        \
    "\"costs\": [[30, 40], [50, 10, 40], [90, 10, 20, 80], [60, 20, 30], "     \
    "[70, 60]]}"

static dv_choose_file example;

static void read_example(const char *text)
{
    assert_int_equal(dv_choose_read(&example, text, strlen(text), "t", NULL),
                     DV_OK);
}

TEST(contest_example)
{
    dv_choose_result *r = NULL;
    const int32_t want[] = {0, 0, 2, 1, 0};
    read_example("{\"problem\": {" EDGES ", \"usage_limit\": 50, " NODES "}}");
    assert_int_equal(dv_choose(&r, &example.problem, NULL, NULL), DV_OK);
    assert_memory_equal(r->strategies, want, sizeof want);
    assert_int_equal(r->cost, 445);
    assert_int_equal(r->bound, 445);
    assert_true(r->optimal && r->gap == 0);
    dv_choose_result_destroy(r);
    dv_choose_file_free(&example);
}

TEST(contest_example_without_limit)
{
    dv_choose_result *r = NULL;
    const int32_t want[] = {0, 0, 1, 1, 0};
    read_example("{\"problem\": {" NODES ", \"name\": \"n\", " EDGES "}}");
    assert_int_equal(dv_choose(&r, &example.problem, NULL, NULL), DV_OK);
    assert_memory_equal(r->strategies, want, sizeof want);
    assert_int_equal(r->cost, 415);
    dv_choose_result_destroy(r);
    dv_choose_file_free(&example);
}

// The check accepts the choice with this cost (want >= 0), or refuses it with
// this message.
static void checked(const int32_t *choice, size_t n, int64_t want,
                    const char *message)
{
    dv_diag *diag = dv_diag_create();
    int64_t cost = -1;
    dv_status s = dv_choose_check(&example.problem, choice, n, &cost, diag);
    assert_int_equal(s, want >= 0 ? DV_OK : DV_E_CHECK);
    assert_int_equal(cost, want >= 0 ? want : -1);
    if (want < 0)
        assert_non_null(strstr(dv_diag_text(diag), message));
    dv_diag_destroy(diag);
}
#define CHECKED(want, message, ...)                                            \
    checked((const int32_t[]){__VA_ARGS__},                                    \
            sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t), want,    \
            message)

TEST(check)
{
    read_example("{\"problem\": {" EDGES ", \"usage_limit\": 50, " NODES "}}");
    CHECKED(495, "", 0, 1, 2, 0, 0);
    CHECKED(445, "", 0, 0, 2, 1, 0);
    // V3
    CHECKED(-1, "at time 50 at least 55 is used, the limit is 50", 0, 0, 1, 1,
            0);
    // V1
    CHECKED(-1, "6 strategies for 5 nodes", 0, 0, 0, 0, 0, 0);
    CHECKED(-1, "4 strategies for 5 nodes", 0, 0, 0, 0);
    CHECKED(-1, "node 2 has no strategy -1", 0, 0, -1, 0, 0);
    CHECKED(-1, "node 2 has no strategy 4", 0, 0, 4, 0, 0);
    dv_choose_file_free(&example);
}

// -- Problems from arrays ----------------------------------------------------

#define F DV_CHOOSE_FORBIDDEN

// The solver returns this cost, or fails with this status (want < 0).
static void solved(const dv_choose_problem *p, int64_t want, dv_status status,
                   const char *message)
{
    dv_choose_result *r = NULL;
    dv_diag *diag = dv_diag_create();
    dv_status s = dv_choose(&r, p, NULL, diag);
    assert_int_equal(s, status);
    assert_true((s == DV_OK) == (r != NULL));
    if (r) {
        assert_int_equal(r->cost, want);
        assert_int_equal(r->bound, want);
    } else if (!strstr(dv_diag_text(diag), message)) {
        fail_msg("%s", dv_diag_text(diag));
    }
    dv_choose_result_destroy(r);
    dv_diag_destroy(diag);
}

TEST(edges_in_both_directions_and_loops)
{
    const int64_t two[] = {1, 2}, three[] = {9, 5, 1};
    const int64_t table[] = {7, 0, 3, 8, 4, 2}, turned[] = {1, 1, 0, 5, 6, 0};
    const int64_t loop[] = {10, 0, 0, 20};
    const dv_choose_node nodes[] = {{two, NULL, 2, 0, 0},
                                    {three, NULL, 3, 0, 0}};
    const dv_choose_edge edges[] = {
        {{0, 1}, table}, {{1, 0}, turned}, {{0, 0}, loop}, {{0, 1}, table}};
    // Strategies 0 and 1: 1 + 5 + 2 * 0 + 0 + 10.
    solved(&(dv_choose_problem){nodes, 2, edges, 4, DV_CHOOSE_NO_LIMIT}, 16,
           DV_OK, "");
    solved(&(dv_choose_problem){nodes, 2, edges, 0, DV_CHOOSE_NO_LIMIT}, 2,
           DV_OK, "");
    solved(&(dv_choose_problem){NULL, 0, NULL, 0, 0}, 0, DV_OK, "");
}

// The check refuses a choice with this message.
static void check_refuses(const dv_choose_problem *p, const int32_t *choice,
                          const char *message)
{
    dv_diag *diag = dv_diag_create();
    int64_t cost;
    assert_int_equal(dv_choose_check(p, choice, p->n_nodes, &cost, diag),
                     DV_E_CHECK);
    if (!strstr(dv_diag_text(diag), message))
        fail_msg("%s", dv_diag_text(diag));
    dv_diag_destroy(diag);
}

TEST(forbidden_entries)
{
    const int64_t costs[] = {1, 0}, odd[] = {F, 3, 3, F}, all[] = {F, F, F, F};
    const int64_t never[] = {F, F + 5};
    dv_choose_node nodes[] = {
        {costs, NULL, 2, 0, 0}, {costs, NULL, 2, 0, 0}, {costs, NULL, 2, 0, 0}};
    dv_choose_edge edges[] = {{{0, 1}, odd}, {{1, 2}, odd}, {{2, 0}, odd}};
    dv_choose_problem p = {nodes, 3, edges, 2, DV_CHOOSE_NO_LIMIT};
    solved(&p, 7, DV_OK, "");
    check_refuses(&p, (const int32_t[]){0, 0, 1}, "forbidden together"); // V2
    p.n_edges = 3; // an odd cycle has no two colours
    solved(&p, -1, DV_E_CAPACITY, "forbidden entries");
    edges[2].costs = all;
    solved(&p, -1, DV_E_CAPACITY, "every choice has forbidden entries");
    p.n_edges = 0;
    nodes[1].costs = never;
    solved(&p, -1, DV_E_CAPACITY, "no strategy of node 1 is allowed");
    check_refuses(&p, (const int32_t[]){0, 1, 0},
                  "of node 1 is forbidden"); // V2
}

TEST(limits)
{
    const int64_t costs[] = {0, 10}, usages[] = {8, 3};
    const dv_choose_node nodes[] = {{costs, usages, 2, 0, 2},
                                    {costs, usages, 2, 1, 3},
                                    {costs, usages, 2, 2, 4},
                                    {costs, usages, 2, 2, 2}};
    dv_choose_problem p = {nodes, 4, NULL, 0, 16};
    solved(&p, 0, DV_OK, "");
    p.usage_limit = 15; // node 1 meets nodes 0 and 2, node 3 uses nothing
    solved(&p, 10, DV_OK, "");
    p.usage_limit = 10;
    solved(&p, 30, DV_OK, "");
    p.usage_limit = 5;
    solved(&p, -1, DV_E_CAPACITY,
           "every choice uses at least 6 at some time, the limit is 5");
}

TEST(large_costs)
{
    // Sums are exact up to 2^62, although doubles are not.
    const int64_t big = INT64_C(1) << 60;
    const int64_t costs[] = {big / 2 + 1, big / 2};
    dv_choose_node nodes[] = {{costs, NULL, 2, 0, 0}, {costs, NULL, 2, 0, 0}};
    dv_choose_result *r = NULL;
    dv_choose_problem p = {nodes, 2, NULL, 0, DV_CHOOSE_NO_LIMIT};
    assert_true(big / 2 < F);
    assert_int_equal(dv_choose(&r, &p, NULL, NULL), DV_OK);
    assert_true(r->cost >= big && r->cost <= big + 2);
    assert_true(r->bound <= big && r->bound > big - (big >> 20));
    dv_choose_result_destroy(r);
}

TEST(misuse)
{
    const int64_t costs[] = {1, -1}, huge[] = {F - 1};
    dv_choose_node nodes[8] = {{costs, NULL, 1, 0, 1}};
    dv_choose_edge edge = {{0, 1}, costs};
    dv_choose_problem p = {nodes, 1, &edge, 1, 0};
    solved(&p, -1, DV_E_USAGE, "edge 0 has a node that does not exist");
    p.n_edges = 0;
    nodes[0].n_strategies = 2;
    solved(&p, -1, DV_E_USAGE, "costs of node 0 are negative");
    nodes[0] = (dv_choose_node){costs, costs, 2, 0, 1};
    nodes[0].costs = (const int64_t[]){1, 2};
    solved(&p, -1, DV_E_USAGE, "usages of node 0 are negative");
    nodes[0] = (dv_choose_node){costs, NULL, 0, 0, 1};
    solved(&p, -1, DV_E_USAGE, "node 0 has no strategy");
    nodes[0] = (dv_choose_node){costs, NULL, 1, 2, 1};
    solved(&p, -1, DV_E_USAGE, "wrong interval");
    for (int i = 0; i < 8; i++)
        nodes[i] = (dv_choose_node){huge, NULL, 1, 0, 0};
    p.n_nodes = 8;
    solved(&p, -1, DV_E_USAGE,
           "the largest costs up to node 4 add up to 4999999999999999995; "
           "their sum must stay below 2^62");
    nodes[1].usages = nodes[0].usages = (const int64_t[]){INT64_C(1) << 62};
    solved(&p, -1, DV_E_USAGE,
           "the largest usages before node 1 add up to 4611686018427387904, "
           "with its 4611686018427387904 to more than 2^62");
    dv_choose_options o = DV_CHOOSE_OPTIONS_INIT;
    dv_choose_result *r = NULL;
    o.budget = -1;
    assert_int_equal(dv_choose(&r, &p, &o, NULL), DV_E_USAGE);
}

// -- The reader --------------------------------------------------------------

static void refused(const char *text, const char *message)
{
    dv_choose_file f;
    dv_diag *diag = dv_diag_create();
    assert_int_not_equal(dv_choose_read(&f, text, strlen(text), "t", diag),
                         DV_OK);
    if (!strstr(dv_diag_text(diag), message))
        fail_msg("%s is refused with %s", text, dv_diag_text(diag));
    dv_diag_destroy(diag);
}

#define ONE                                                                    \
    "{\"problem\": {\"nodes\": {\"intervals\": [[0, 1]], \"costs\": [[1, 2]]," \
    " \"usages\": [[0, 0]]}"

TEST(reader)
{
    read_example("{\"x\": [{\"y\": null}, \"\\\"\", -1.5e3, true], "
                 "\"problem\": {\"usage_limit\": null, \"nodes\": "
                 "{\"costs\": [[1, 1000000000000000000]], \"more\": {}, "
                 "\"usages\": [[0, 0]], \"intervals\": [ [ 0 , 9 ] ] }}}");
    assert_int_equal(example.problem.n_nodes, 1);
    assert_int_equal(example.problem.n_edges, 0);
    assert_int_equal(example.problem.usage_limit, DV_CHOOSE_NO_LIMIT);
    assert_int_equal(example.nodes[0].n_strategies, 2);
    assert_int_equal(example.nodes[0].end, 9);
    assert_true(example.nodes[0].costs[1] == F);
    dv_choose_file_free(&example);
}

TEST(reader_refuses)
{
    refused("", "t:1:1: error[syntax]: expected '{'");
    refused("{}", "there is no \"problem\"");
    refused("{\"problem\": {}} x", "expected the end of the file");
    refused("{\"problem\": {\"nodes\": {\"costs\": [[1,]]}}}",
            "expected an integer");
    refused("{\"problem\": {\"nodes\": {\"costs\": [[1.5]]}}}",
            "expected an integer");
    refused("{\"problem\": {\"nodes\": {\"costs\": [[9223372036854775808]]}}}",
            "error[overflow]");
    refused("{\"problem\": {\"nodes\": {\"costs\": [], \"costs\": []}}}",
            "the key is given twice");
    refused("{\"problem\": {\"nodes\": {\"costs\": [[1]]}}}",
            "1 lists of costs, 0 of usages and 0 intervals");
    refused("{\"problem\": {\"nodes\": {\"costs\": [[1]], \"usages\": [[1]], "
            "\"intervals\": [[2, 1]]}}}",
            "an interval is a start and an end");
    refused("{\"problem\": {\"nodes\": {\"costs\": [[-1]], \"usages\": [[1]], "
            "\"intervals\": [[1, 2]]}}}",
            "t:1:34: error[format]: costs and usages are 0 or more");
    refused("{\"problem\": {\"nodes\": {\"costs\": [[1]], \"usages\": [[]], "
            "\"intervals\": [[1, 2]]}}}",
            "one usage for each of its costs");
    refused(ONE ", \"usage_limit\": -1}}", "the limit is negative");
    refused(ONE ", \"edges\": {\"nodes\": [[0, 1]], \"costs\": [[1]]}}}",
            "there is no such node");
    refused(ONE ", \"edges\": {\"nodes\": [[0, 0, 0]], \"costs\": [[1]]}}}",
            "an edge has two nodes");
    refused(ONE ", \"edges\": {\"nodes\": [[0, 0]], \"costs\": [[1, 2]]}}}",
            "one cost for each pair");
    refused(ONE ", \"edges\": {\"nodes\": [[0, 0]]}}}",
            "1 edges have nodes and 0 have costs");
    refused(ONE "}, \"problem\": {}}", "a second problem");
}

TEST(reader_limits_depth)
{
    char text[200];
    snprintf(text, sizeof text, "{\"x\": %.*s", 100,
             "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["
             "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[");
    refused(text, "deeper than 64 brackets");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contest_example),
        cmocka_unit_test(contest_example_without_limit),
        cmocka_unit_test(check),
        cmocka_unit_test(edges_in_both_directions_and_loops),
        cmocka_unit_test(forbidden_entries),
        cmocka_unit_test(limits),
        cmocka_unit_test(large_costs),
        cmocka_unit_test(misuse),
        cmocka_unit_test(reader),
        cmocka_unit_test(reader_refuses),
        cmocka_unit_test(reader_limits_depth),
    };
    return run_group(tests, NULL, NULL);
}
