// Chooses one strategy per node with costs of nodes and edges and a limit on
// memory over time (divvy/choose.h).
//
// The problem is first reduced to a graph (dv_cgraph) without strategies that
// no best choice needs. A relaxation prices memory instead of limiting it:
// lambda(t) >= 0 for each time, so that a strategy pays its usage times the sum
// of lambda over its node's interval. The least priced cost, minus the prices
// of all available memory, is a lower bound for any lambda (Lagrange). It is
// found by eliminating nodes exactly; messages bound what is left, the core.
// The choice that a relaxation returns is repaired to keep to the limit, and
// improved by local search. Prices follow the subgradient; small problems are
// then closed by branch and bound.
//
// Costs are doubles that hold integers, scaled by a power of two, so that sums
// are exact below 2^53, and forbidden entries are infinite. Where a value is
// rounded, it is rounded down: bounds stay valid.
//
//   choose.[ch]    dv_choose: the solver's steps in order, and its result
//   reduce.c       builds the graph: merges edges, drops strategies and times
//   tables.c       stores equal tables once
//   eliminate.c    eliminates nodes exactly and reads their labels back
//   messages.c     TRW-S: bound and labels of the core
//   minplus.h      products of tables in which sums become minima
//   relax.c        one relaxation at given prices
//   prices.c       subgradient steps on the prices
//   load.c         memory in use over time, as a segment tree
//   improve.c      repairs and improves choices
//   choice.c       a choice that trees.c and mix.c improve
//   trees.c        improves choices by changing trees of nodes at once
//   mix.c          improves choices by parts of what relaxations choose
//   branch.c       branch and bound for small problems
//   check.c        checks choices independently of the solver
//   read.[ch]      reads problems in the contest's JSON
//
// Other folders may also include: read.h
#ifndef DV_CHOOSE_H
#define DV_CHOOSE_H
#include "base/diag.h"
#include "base/mem.h"
#include "divvy/choose.h"

// -- Tables -------------------------------------------------------------------

// A distinct cost table. Repeated layers of a model have equal tables: sharing
// one lets the tables of most problems stay in a cache.
typedef struct dv_ctable {
    double *entries;
    int32_t rows, columns;
    int32_t uses; // how often it was added
    uint64_t hash;
} dv_ctable;

typedef struct dv_ctables {
    dv_arena *arena;
    dv_ctable *tables;
    int32_t n, cap;
    int32_t *slots; // 1 + number of a table, at its hash or later; 0: none
    uint32_t n_slots;
} dv_ctables;

static inline int64_t dv_ctable_size(const dv_ctable *t)
{
    return (int64_t)t->rows * t->columns;
}

// Makes an empty set of tables. Returns 0 if out of memory.
int dv_ctables_init(dv_ctables *t, dv_arena *arena);
// Returns the entries of the stored table that is equal to this one; stores a
// copy if there is none. NULL if out of memory.
double *dv_ctables_add(dv_ctables *t, const double *entries, int32_t rows,
                       int32_t columns);

// -- The reduced problem ------------------------------------------------------

// An edge with a table of the costs of two nodes a < b, row-major; rows are
// labels of a. Edges with equal tables share one.
typedef struct dv_cedge {
    int32_t a, b;
    double *table;
} dv_cedge;

// The reduced problem. Strategies that are not ruled out are called labels and
// are numbered over all nodes.
typedef struct dv_cgraph {
    dv_arena arena;
    int32_t n_nodes, n_edges, n_times;
    int32_t *first;     // labels of node v are first[v] to first[v + 1] - 1
    double *cost;       // of each label, scaled
    int64_t *usage;     // of each label, above the least one of its node
    int32_t *strategy;  // of each label: its number in the caller's node
    int32_t *from, *to; // of each node: its memory is in use at these times
    int64_t *room;      // of each time: the limit minus the least usages
    dv_cedge *edges;
    int32_t *adj_first, *adj; // edges of node v, as `first` has its labels
    double scale; // costs of the caller are multiplied by this power of two
    int inexact;  // 1: costs are so large that sums of doubles are rounded
    int64_t work; // table entries looked at so far
} dv_cgraph;

// Builds the graph in *g, which must be zero; free it with dv_cgraph_free, also
// after an error. Fails with DV_E_CAPACITY if no choice is legal.
dv_status dv_cgraph_build(dv_cgraph *g, const dv_choose_problem *p,
                          dv_diag *diag);
void dv_cgraph_free(dv_cgraph *g);

static inline int64_t dv_cusage(const dv_cgraph *g, int32_t v, int32_t label)
{
    return g->usage[g->first[v] + label];
}

static inline int32_t dv_n_labels(const dv_cgraph *g, int32_t v)
{
    return g->first[v + 1] - g->first[v];
}

// -- Elimination and messages -------------------------------------------------

typedef struct dv_elimination dv_elimination;
typedef struct dv_trws dv_trws;

// A Lagrangian relaxation of the memory limit: prices of memory, and the bound
// and labels that they give. Labels in x are relative to the first label of
// their node.
typedef struct dv_relaxation {
    const dv_cgraph *g;
    double *lambda;   // price of each time: whole numbers of `quantum`
    double quantum;   // a power of two
    double *prefix;   // prefix sums of lambda
    const char *dead; // labels that may not be chosen; NULL: none
    double *theta;    // priced costs of labels, changed by the elimination
    int32_t *x;       // the labels chosen
    double bound;     // scaled; INFINITY if there is no choice
    int64_t work;     // table entries looked at so far
    dv_elimination *elimination;
    dv_trws *trws;
} dv_relaxation;

// Allocates a relaxation in the graph's arena.
dv_status dv_relaxation_init(dv_relaxation *r, dv_cgraph *g, dv_diag *diag);
// Computes the lower bound and the labels x at the current prices, with at most
// `sweeps` of messages in the core (the nodes that elimination leaves).
void dv_relax(dv_relaxation *r, int sweeps);

// Plans which nodes are eliminated exactly, and in which order. The nodes and
// edges that are left are called the core.
dv_status dv_elimination_plan(dv_elimination **out, dv_cgraph *g,
                              dv_diag *diag);
// Executes the planned elimination: adds costs of eliminated nodes to theta and
// to tables of edges. Returns the part of the bound that does not depend on the
// core.
double dv_eliminate(dv_elimination *el, double *theta, int64_t *work);
// Sets the labels of eliminated nodes to the best ones for the labels of the
// core.
void dv_eliminate_back(const dv_elimination *el, const double *theta,
                       int32_t *x);
// Return the nodes and edges of the core, which elimination leaves; the tables
// are those after elimination.
const int32_t *dv_core_nodes(const dv_elimination *el, int32_t *n);
const dv_cedge *dv_core_edges(const dv_elimination *el, int32_t *n);

dv_status dv_trws_create(dv_trws **out, dv_cgraph *g, const dv_elimination *el,
                         dv_diag *diag);
// Passes messages along all core edges (TRW-S), forward and back, at most
// `sweeps` times and while that raises the bound. Starts with the messages of
// the previous call. Sets the labels of core nodes and returns their bound.
double dv_trws_run(dv_trws *m, const double *theta, int sweeps, int32_t *x,
                   int64_t *work);
// Clears all messages. Messages to labels that were ruled out have the largest
// value; once these labels are allowed again, such messages would keep the
// bound far too low for many sweeps.
void dv_trws_reset(dv_trws *m);

// -- Choices within the limit -------------------------------------------------

// Memory in use over time, as a segment tree.
typedef struct dv_cload {
    int32_t n, leaves;
    int64_t *most; // greatest excess over the room below each tree node
    int64_t *add;  // added to all times below each tree node
} dv_cload;

int dv_cload_init(dv_cload *l, dv_arena *arena, int32_t n_times);
// Starts with no usage: the excess over the room is then -room. Room is the
// memory limit minus the least usages of all nodes.
void dv_cload_reset(dv_cload *l, const int64_t *room);
void dv_cload_add(dv_cload *l, int32_t from, int32_t to, int64_t usage);
// Returns the greatest excess over the room at times from..to-1; INT64_MIN if
// that range is empty.
int64_t dv_cload_max(const dv_cload *l, int32_t from, int32_t to);
// Returns the time with the greatest excess, or -1 if no time exceeds the room.
int32_t dv_cload_worst(const dv_cload *l);

// A choice (a label per node) that local search repairs and improves.
typedef struct dv_csearch {
    const dv_cgraph *g;
    int32_t *x;
    dv_cload load;
    double *move;   // costs of the labels of one node
    char *queued;   // nodes in `queue`
    int32_t *queue; // ring buffer of nodes to look at
    struct dv_crepair *heap;
    int64_t work;
} dv_csearch;

dv_status dv_csearch_init(dv_csearch *s, dv_cgraph *g, dv_diag *diag);
// Makes x keep to the memory limit and improves it by changing single nodes.
// Returns its scaled cost; INFINITY if it could not be repaired.
double dv_csearch_run(dv_csearch *s, const int32_t *x);

// A choice within the memory limit that is improved by changing many nodes at
// once.
typedef struct dv_cchoice {
    const dv_cgraph *g;
    int32_t *x;
    double cost; // of x, scaled
    dv_cload load;
    double *each; // price of one unit of usage of each node
    uint64_t random;
    int64_t work; // table entries looked at so far
} dv_cchoice;

dv_status dv_cchoice_init(dv_cchoice *c, dv_cgraph *g, dv_diag *diag);
// Starts from the choice x, whose scaled cost is `cost`.
void dv_cchoice_start(dv_cchoice *c, const int32_t *x, double cost);
// Takes over the prices of memory of a relaxation.
void dv_cchoice_price(dv_cchoice *c, const dv_relaxation *r);

// Both methods, trees and mixing, stop after reading about `work` table
// entries. Usage costs `weight` times its price, so that the cost without
// prices may grow unless the weight is 0. They return the scaled cost.
typedef struct dv_ctrees dv_ctrees;
dv_status dv_ctrees_create(dv_ctrees **out, dv_cchoice *c, dv_arena *arena,
                           dv_diag *diag);
double dv_ctrees_run(dv_ctrees *t, double weight, int64_t work);
// Starts from x and makes it keep to the memory limit. Memory at times that
// exceed the limit costs `rate` more per unit at first. Returns 0 if `work`
// does not suffice.
int dv_ctrees_repair(dv_ctrees *t, const int32_t *x, double rate, int64_t work);
typedef struct dv_cmix dv_cmix;
dv_status dv_cmix_create(dv_cmix **out, dv_cchoice *c, dv_arena *arena,
                         dv_diag *diag);
// Mixes in labels of the proposal y, which may exceed the memory limit. Stops
// early if many regions in turn have not helped.
double dv_cmix_run(dv_cmix *m, const int32_t *y, double weight, int64_t work);

// The state of the subgradient ascent, which raises the bound by changing
// prices.
typedef struct dv_ascent {
    int64_t *used;   // memory in use over time by the relaxation's choice
    double over;     // its greatest excess over the room; 0 at first
    double *best;    // prices of the best bound
    double bound;    // the best bound since the ascent began, scaled
    double slack;    // part of the room that choices should leave
    double ambition; // distance of the target above the bound, relative
    double start;    // least cost of a choice that the search found by itself
    double raise;    // factor on the best prices while there is no choice yet
    int patience;    // rounds until a choice that is not the best is given up
    int64_t stalled; // rounds since bound or cost improved
    double most_room;
} dv_ascent;

dv_status dv_ascent_init(dv_ascent *s, dv_cgraph *g, dv_diag *diag);

// -- The solver ---------------------------------------------------------------

typedef struct dv_chooser {
    dv_cgraph graph;
    dv_relaxation relax;
    dv_csearch search;
    dv_cchoice choice;
    dv_ctrees *trees;
    dv_cmix *mix;
    dv_ascent ascent;
    int64_t budget;
    double end_s;      // time at which to stop; 0: never
    double best_cost;  // scaled; INFINITY: no choice yet
    int32_t *best;     // labels of the best choice
    double best_bound; // scaled
    int64_t nodes;     // nodes of branch and bound visited so far
} dv_chooser;

// Returns the work done so far by all parts of the solver, in table entries
// read.
int64_t dv_chooser_work(const dv_chooser *c);
// Returns whether to stop: budget or time is spent, or the best choice is
// proven optimal.
int dv_chooser_done(const dv_chooser *c);
// Makes the labels x keep to the memory limit, and keeps the result if it is
// the best so far. Returns its scaled cost; INFINITY if that failed.
double dv_chooser_try(dv_chooser *c, const int32_t *x);
// Improves c->choice by changing trees of nodes and by mixing in labels of the
// relaxation, each for about `work` table entries, first at prices times
// `weight`, then without prices. Keeps the result if it is the best so far.
void dv_chooser_improve(dv_chooser *c, double weight, int64_t work);
// Rounds a lower bound up to the next cost that a choice can have.
double dv_chooser_round(const dv_chooser *c, double bound);

// Makes rounds of relaxation, repair and a step of prices, until budget or time
// is spent, the bound reaches the best cost, or nothing improved for
// `max_stalled` rounds. Returns the bound; the prices are those that gave it.
// It bounds the whole problem unless labels are ruled out (dead).
double dv_chooser_ascend(dv_chooser *c, int64_t max_rounds,
                         int64_t max_stalled);
// Runs branch and bound until the best choice is proven optimal, or budget or
// time is spent.
dv_status dv_chooser_branch(dv_chooser *c, dv_diag *diag);
#endif
