// Chooses one strategy for each node of a graph, so that the total cost is as
// small as possible. A strategy has a cost; each pair of strategies at the ends
// of an edge has another. A strategy also uses memory during the node's
// interval of time, and at no time may the nodes use more than a limit. It
// needs no other part of divvy:
//
//   int64_t a[] = {5, 3}, b[] = {1, 4}, table[] = {0, 9, 9, 0};
//   dv_choose_node nodes[] = {{a, NULL, 2, 0, 0}, {b, NULL, 2, 0, 0}};
//   dv_choose_edge edge = {{0, 1}, table}; // 9 if the strategies differ
//   dv_choose_problem p = {nodes, 2, &edge, 1, DV_CHOOSE_NO_LIMIT};
//   dv_choose_result *r = NULL;
//   if (dv_choose(&r, &p, NULL, NULL) == DV_OK)
//       use(r->strategies[0], r->strategies[1], r->cost); // 0, 0 and 6
//   dv_choose_result_destroy(r);
#ifndef DIVVY_CHOOSE_H
#define DIVVY_CHOOSE_H
#include "divvy/divvy.h"

#ifdef __cplusplus
extern "C" {
#endif

// A cost of at least this much means that the strategy, or the pair of
// strategies, must not be chosen. All other costs are added exactly; the
// problem is refused if the largest costs of all nodes and edges add up to more
// than 2^62.
#define DV_CHOOSE_FORBIDDEN INT64_C(1000000000000000000)
// The value of usage_limit if memory use is not limited.
#define DV_CHOOSE_NO_LIMIT INT64_C(-1)

typedef struct dv_choose_node {
    const int64_t *costs;  // one of each strategy, >= 0
    const int64_t *usages; // memory of each strategy, >= 0; NULL: none
    int32_t n_strategies;  // at least 1
    int64_t start, end;    // uses memory at times start to end - 1
} dv_choose_node;

typedef struct dv_choose_edge {
    int32_t nodes[2];
    // A row-major table: the cost of strategy s of the first node together with
    // t of the second is costs[s * n_strategies of the second + t]. Edges may
    // share a table. The costs of several edges between the same nodes add up.
    const int64_t *costs;
} dv_choose_edge;

typedef struct dv_choose_problem {
    const dv_choose_node *nodes;
    size_t n_nodes;
    const dv_choose_edge *edges;
    size_t n_edges;
    int64_t usage_limit; // of all nodes together at any time
} dv_choose_problem;

typedef struct dv_choose_options {
    size_t size;
    // Limit of the work, counted in table entries that the solver reads; one
    // takes about a nanosecond. The same budget gives the same result on every
    // machine. 0: the default of 2^30, or no limit if there is a time limit.
    int64_t budget;
    double time_limit_s; // stop after this time; 0: no limit
} dv_choose_options;
#define DV_CHOOSE_OPTIONS_INIT                                                 \
    {                                                                          \
        sizeof(dv_choose_options), 0, 0                                        \
    }

typedef struct dv_choose_result {
    size_t n_nodes;
    const int32_t *strategies; // one for each node
    int64_t cost;
    int64_t bound; // proven: no choice costs less
    int optimal;   // 1: the cost is proven to be the least, cost = bound
    double gap;    // (cost - bound) / cost
    int64_t work;  // table entries that were looked at
    int64_t nodes; // nodes of branch and bound that were visited, at least 1
} dv_choose_result;

// Finds a choice of low cost. Fails with DV_E_CAPACITY if every choice has a
// forbidden cost or exceeds the usage limit, or if none was found within the
// budget; the message says which.
DV_API dv_status dv_choose(dv_choose_result **out,
                           const dv_choose_problem *problem,
                           const dv_choose_options *options, dv_diag *diag);
// Checks a choice: one strategy of each node, no forbidden cost, and no usage
// above the limit. Fails with DV_E_CHECK and a message that says what is wrong.
// Stores the choice's cost in *cost unless `cost` is NULL.
DV_API dv_status dv_choose_check(const dv_choose_problem *problem,
                                 const int32_t *strategies, size_t n_strategies,
                                 int64_t *cost, dv_diag *diag);
DV_API void dv_choose_result_destroy(dv_choose_result *result);

#ifdef __cplusplus
}
#endif
#endif
