// Assigns buffers addresses in one memory, so that two buffers with overlapping
// lifetimes never share a byte, and the total weight of the placed buffers is
// as large as possible.
//
//   address
//   capacity ------------------------
//            |      |    b    |     |     In-place reuse: c takes over the
//            |  a   |---------|  c  |     address of a in the tick that reads a
//          0 ------------------------     for the last time and writes c.
//                                 tick
//
// A task (dv_task) is the checked input plus the indexes that solvers need. An
// answer (dv_answer) is an address for every item, or -1 for an item that is
// not placed. Solvers read a task and fill an answer. They share no code with
// check.c, which verifies their results.
//
// Every answer satisfies these rules: fixed items are at their fixed address;
// an item that cannot be placed (in_play is 0) is at -1; addresses are
// multiples of the item's alignment; a group is placed as a whole or not at
// all; a child that reuses the bytes of a parent is exactly at the parent's
// base, and at most one child does so per parent.
//
//   place.[ch]     dv_place: checks the input, runs a solver, builds the result
//   input.c        builds a task from the input buffers and validates them
//   check.c        verifies placements independently of the solvers
//   csv.[ch]       reads and writes buffers as CSV
//   list.c         Torch-Spyre's solvers greedy, firstfit and bestfit
//   anneal.c       solver anneal: simulated annealing over placement orders
//   exact.c        solver exact: branch and bound
//   auto.c         solver auto: improves the best answer of list.c
//   whole.c        packs all items or fails; finds the least capacity
//   bound.c        upper bound of the placed weight by Lagrange multipliers
//   select.c       chooses which items to place, by beam search
//   refine.c       alternates between choosing items and packing them
//   search.[ch]    local search on an answer
//   cut.[ch]       cuts buffers where they may be spilled and reloaded
//   live.c         finds the items that are live in a range of ticks
//   neighbours.c   lists, per item, the items with overlapping lifetimes
//   rects.[ch]     converts chosen items to rectangles, and addresses back
//   pack.[ch]      packs rectangles: runs the searches of the pack_* files
//   pack_model.c   splits a packing problem into independent parts
//   pack_list.c    simple packing heuristics: fit, stack, fill
//   pack_valley.c  exact packing search on the skyline
//   pack_order.c   exact packing search in canonical order (MiniMalloc)
//   pack_state.h   private to pack*.c: parts of a problem, the searches
//
// Other folders may also include: csv.h
#ifndef DV_PLACE_H
#define DV_PLACE_H
#include "divvy/place.h"
#include "base/clock.h"
#include "base/diag.h"
#include "base/math.h"
#include "base/mem.h"

typedef struct dv_item {
    int64_t start, end; // the item is live in ticks [start, end)
    int64_t size, align;
    int64_t fixed;  // the fixed address, or -1 if the item has none
    int64_t weight; // value gained when the item is placed
    // Twice the number of uses, plus one if the first use is a write.
    int64_t doubled_uses;
    // Range of task->links: the items whose address this one may take over
    // (in-place reuse), without those that are never placed.
    int32_t parents, n_parents;
    // Range of task->links: the items that may take over the address of this
    // one, without those that are never placed.
    int32_t children, n_children;
    // Number of the item's group, whose items are placed all or not at all; -1
    // if it is in none.
    int32_t group;
    // 1 if solvers may place the item: it is not barred, not too large, and has
    // no fixed address.
    int in_play;
} dv_item;

typedef struct dv_task {
    dv_arena arena; // owns all arrays below
    int32_t n, n_fixed, n_groups;
    dv_item *items;
    int32_t *links;    // numbers of the parents and children of all items
    int32_t *fixed;    // items with a fixed address, sorted by it
    int32_t *members;  // item numbers, sorted by group
    int32_t *group_at; // group g is members[group_at[g]..group_at[g + 1]]
    int64_t capacity;
    // 1 if the least capacity is searched for and `capacity` is only an upper
    // limit. Sizes are then not rounded up to `unit`, because the topmost item
    // may end at any byte.
    int minimizes_capacity;
    int64_t unit; // gcd of all alignments; it divides every address
} dv_task;

// A placement found by a solver. The arrays belong to the caller that allocated
// them.
typedef struct dv_answer {
    int64_t *at; // address of each item, or -1 if the item is not placed
    int64_t value;
} dv_answer;

// The search budget: a deterministic step count and an optional time limit.
typedef struct dv_effort {
    int64_t left;   // steps that may still be made
    int64_t nodes;  // steps made so far
    double until_s; // deadline in dv_clock_s seconds; 0: no time limit
} dv_effort;

// Validates the buffers and builds a task from them. `locs` holds each buffer's
// position in a source file for messages, or is NULL. The task copies all it
// needs.
dv_status dv_task_create(dv_task *out, const dv_buffer *buffers, size_t n,
                         const dv_place_options *options, const dv_loc *locs,
                         dv_diag *diag);
void dv_task_free(dv_task *task);
// Do the same as dv_place and dv_place_least, and report errors at the buffers'
// file positions `locs` (NULL: none).
dv_status dv_place_at(dv_placement **out, const dv_buffer *buffers, size_t n,
                      const dv_place_options *options, const dv_loc *locs,
                      dv_diag *diag);
dv_status dv_place_least_at(dv_placement **out, int64_t *proven_bytes,
                            const dv_buffer *buffers, size_t n,
                            const dv_place_options *options, const dv_loc *locs,
                            dv_diag *diag);
int64_t dv_placed_weight(const dv_task *task, const int64_t *at);
// Marks all items of groups that are not placed completely as not placed
// (address -1), because a group is placed as a whole or not at all.
void dv_drop_broken_groups(const dv_task *task, int64_t *at);
// An item with a key to sort by, for qsort; items with equal keys are sorted by
// their number.
typedef struct dv_keyed {
    int64_t key;
    int32_t item;
} dv_keyed;
int dv_by_key(const void *a, const void *b);
// Returns the bytes of a memory that are left when a fraction `taken` (0..1) is
// reserved, rounded up to `align`. Returns -1 if `taken` is not in 0..1.
int64_t dv_place_capacity(int64_t memory_bytes, double taken, int64_t align);
// Returns whether the effort's deadline has passed, by reading the clock, or
// the caller wants the solver to end.
int dv_deadline_passed(const dv_effort *effort);

// Approximates exp(x) for x <= 0 with the same result on every machine, which
// libm's exp does not guarantee.
static inline double dv_exp_negative(double x)
{
    double y = 1 + x / 1024;
    if (!(y > 0))
        return 0;
    for (int k = 0; k < 10; k++)
        y *= y;
    return y;
}

// An index of items by time (live.c): of the items added with dv_live_add,
// finds those that are live in a range of ticks.
typedef struct dv_live {
    const dv_task *task;
    int32_t *by_start; // all items, sorted by start
    int32_t *rank;
    // Segment tree of maximal lifetime ends, one leaf per item in order of
    // starts: item i is leaf number `leaves + rank[i]`.
    int64_t *last;
    int32_t leaves;
} dv_live;

// Allocates an empty index for the task's items. Returns 0 when out of memory.
int dv_live_init(dv_live *live, const dv_task *task, dv_arena *arena);
void dv_live_add(dv_live *live, int32_t item);
void dv_live_remove(dv_live *live, int32_t item);
// Writes to `out` all added items that are live anywhere in [start, end) and
// returns their number. `out` needs room for all items of the task.
int32_t dv_live_find(const dv_live *live, int64_t start, int64_t end,
                     int32_t *out);

// For each item that solvers may place, the items with overlapping lifetimes,
// its neighbours (neighbours.c). Those of item i are items[first[i]] to
// items[first[i + 1] - 1]; a neighbour j that is a parent or child of i, and so
// may share its base address, is stored as ~j.
typedef struct dv_neighbours {
    int64_t *first;
    int32_t *items; // NULL if the lists would be too long
} dv_neighbours;

// Builds the lists of neighbours (items with overlapping lifetimes), unless
// they have more than `most` entries in total. Returns 0 when out of memory.
int dv_neighbours_init(dv_neighbours *neighbours, const dv_task *task,
                       int64_t most, dv_arena *arena);

// The Lagrangian relaxation of the placement problem (bound.c): a price per
// byte for every section of time, where a section is a tick at which a maximal
// set of items is live.
typedef struct dv_prices {
    int32_t n; // number of time sections
    // Item i occupies bytes in time sections first[i]..last[i] - 1. A time
    // section is a tick at which a maximal set of items is live.
    int32_t *first, *last;
    // First time section in which item i is live; up to first[i] it may share
    // the bytes of a parent, an item whose address it takes over.
    int32_t *begin;
    int64_t *tick; // tick of each time section
    // Bytes of each time section that no item with a fixed address occupies.
    int64_t *room;
    double *price;
    // Prefix sums of the prices: cost[k] is the sum of the prices of sections
    // before k.
    double *cost;
    int64_t bound;
} dv_prices;

// Finds the time sections of the task (ticks where the set of live items is
// maximal) and sets the price per byte of each to 0. Returns 0 when out of
// memory.
int dv_prices_init(dv_prices *p, const dv_task *task, dv_arena *arena);
// Improves the prices per byte and time section by up to `steps` subgradient
// steps and stores the lowest upper bound of the placed weight in p->bound.
// `known` is the weight of an answer already found. Returns 0 when out of
// memory.
int dv_prices_improve(dv_prices *p, const dv_task *task, int64_t known,
                      int steps);
// Initialises the prices (per byte and time section) of a task that has only
// some of the items from the prices of the task with all items.
void dv_prices_init_from(dv_prices *p, const dv_prices *from);
// Returns a number of subgradient steps that is suitable for the size of the
// task.
int dv_price_steps(const dv_task *task, const dv_prices *p);
// Returns the price of item i: its bytes times the prices of the time sections
// (ticks where the set of live items is maximal) that it occupies.
double dv_item_price(const dv_prices *p, const dv_task *task, int32_t i);

// A set of items to place, found by dv_select (select.c).
typedef struct dv_choice {
    // keep[i] is nonzero on entry if item i may be chosen, and on return if it
    // was.
    char *keep;
    // For each item, the parent of the same size whose address it takes over
    // (in-place reuse), or -1.
    int32_t *over;
    // On return, 1 if the search was exhaustive, so that no better set exists.
    int complete;
} dv_choice;

// Chooses the set of items of greatest weight whose live bytes nowhere exceed
// the fraction `share` of the free bytes; addresses are ignored. `width` is the
// width of the beam search. Returns 0 when out of memory.
int dv_select(const dv_task *task, const dv_prices *prices, double share,
              int32_t width, dv_effort *effort, dv_choice *io);

typedef enum dv_list_rule { DV_GREEDY, DV_FIRST_FIT, DV_BEST_FIT } dv_list_rule;

// Places the items with one of the list heuristics of Torch-Spyre (the PyTorch
// backend of IBM's Spyre accelerator), at the addresses that it would choose.
// Returns 0 when out of memory.
int dv_list_heuristic(const dv_task *task, dv_list_rule rule, dv_answer *out);

// Improves an answer by repeatedly choosing which items to place and packing
// them, until the effort is spent. The answer never gets worse. If the search
// for the items was exhaustive, also lowers prices->bound, the upper bound of
// the placed weight. Returns 0 when out of memory.
int dv_refine(const dv_task *task, dv_prices *prices, dv_effort *effort,
              dv_answer *io);
// Runs branch and bound starting from the answer *io. Sets *proven if no better
// answer exists. Returns 0 when out of memory.
int dv_exact(const dv_task *task, const dv_neighbours *neighbours,
             const dv_prices *prices, dv_effort *effort, dv_answer *io,
             int *proven);
int dv_anneal(const dv_task *task, const dv_neighbours *neighbours,
              uint64_t seed, dv_effort *effort, dv_answer *out);
// Combines the list heuristics, choosing and packing items anew (dv_refine) and
// local search, and returns the best answer. *who is the name of the solver
// that found it. Returns 0 when out of memory.
int dv_auto(const dv_task *task, uint64_t seed, dv_prices *prices,
            dv_effort *effort, dv_answer *out, const char **who);

#endif
