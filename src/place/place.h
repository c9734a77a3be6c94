// Placing: give buffers addresses in one memory, so that two that are alive
// together never share a byte, and keep as much weight as fits.
//
//   address
//   capacity ------------------------
//            |      |    b    |     |     a hands its place over to c in the
//            |  a   |---------|  c  |     tick that reads a last and writes c
//          0 ------------------------ tick
//
// A task is the input, checked and with everything looked up that solvers
// need; a layout is an answer: an address for every item, or -1. Solvers take
// a task and fill a layout. They share no code with check.c, which judges
// them.
//
// What every layout keeps: fixed items are at their address; an item that is
// out of play is at -1; addresses are multiples of the item's alignment; a
// group is placed whole or not at all; a child that shares bytes with a parent
// is exactly at its base, and no other child of it is.
//
//   place.[ch]     dv_place: checks the input, runs a solver, builds the result
//   input.c        makes a task of the input, checking every rule
//   check.c        judges placements
//   csv.[ch]       reads and writes buffers as CSV
//   list.c         Torch-Spyre's solvers greedy, firstfit and bestfit
//   anneal.c       solver anneal: simulated annealing over orders
//   exact.c        solver exact: branch and bound
//   auto.c         solver auto: improves the best answer of list.c
//   whole.c        places everything or nothing, finds the least capacity
//   bound.c        an upper bound of the weight that fits, by prices
//   select.c       chooses what to keep at those prices, by beam search
//   refine.c       chooses and packs in turns
//   search.[ch]    local search on a placement
//   cut.[ch]       cuts buffers where they may be spilled and reloaded
//   live.c         finds items by time
//   near.c         lists which items are live together
//   rects.[ch]     turns chosen items into rectangles, and back
//   pack.[ch]      packs rectangles: schedules the searches below
//   pack_model.c   splits a packing problem into independent parts
//   pack_list.c    simple layouts: fit, stack, fill
//   pack_valley.c  exact search on the skyline
//   pack_order.c   exact search in canonical order (MiniMalloc)
//   pack_state.h   private to pack*.c: parts of a problem, the searches
#ifndef DV_PLACE_H
#define DV_PLACE_H
#include "base/clock.h"
#include "base/diag.h"
#include "base/math.h"
#include "base/mem.h"

typedef struct dv_item {
    int64_t start, end; // alive in [start, end)
    int64_t size, align;
    int64_t fixed;   // or -1
    int64_t weight;  // gained when it is kept
    int64_t uses_x2; // number of uses, doubled; one more if written first
    int32_t parents, n_parents;   // in task->links; those in play
    int32_t children, n_children; // in task->links; those in play
    int32_t group;                // its number from 0, or -1
    int in_play; // to be placed: neither barred, too large nor fixed
} dv_item;

typedef struct dv_task {
    dv_arena arena; // everything below
    int32_t n, n_fixed, n_groups;
    dv_item *items;
    int32_t *links;    // parents and children of all items
    int32_t *fixed;    // the fixed items, by address
    int32_t *members;  // items by group
    int32_t *group_at; // group g is members[group_at[g]..group_at[g + 1]]
    int64_t capacity;
    // The least capacity is wanted, and `capacity` is only a limit: no size may
    // be rounded up to the unit, since the topmost item need not be.
    int seeks_capacity;
    int64_t unit; // divides every address: the gcd of the alignments
} dv_task;

// An answer. Arrays belong to whoever made it.
typedef struct dv_answer {
    int64_t *at; // address of each item; -1: left out
    int64_t value;
} dv_answer;

// Steps of search, counted, and the clock for people in a hurry.
typedef struct dv_effort {
    int64_t left;   // steps that may still be made
    int64_t nodes;  // steps made
    double until_s; // by dv_clock_s; 0: no limit
} dv_effort;

// Check the buffers and make a task of them. `locs` says where each stands in
// a file; NULL: nowhere. The task borrows nothing.
dv_status dv_task_create(dv_task *out, const dv_buffer *buffers, size_t n,
                         const dv_place_options *options, const dv_loc *locs,
                         dv_diag *diag);
void dv_task_free(dv_task *task);
// dv_place and dv_place_least for buffers that stand in a file.
dv_status dv_place_at(dv_placement **out, const dv_buffer *buffers, size_t n,
                      const dv_place_options *options, const dv_loc *locs,
                      dv_diag *diag);
dv_status dv_place_least_at(dv_placement **out, int64_t *proven_bytes,
                            const dv_buffer *buffers, size_t n,
                            const dv_place_options *options, const dv_loc *locs,
                            dv_diag *diag);
int64_t dv_value(const dv_task *task, const int64_t *at);
// Leaves out all items of a group of which one is out.
void dv_drop_broken_groups(const dv_task *task, int64_t *at);
// An item with a number to sort by, for qsort; equal numbers go by item.
typedef struct dv_keyed {
    int64_t key;
    int32_t item;
} dv_keyed;
int dv_by_key(const void *a, const void *b);
// Bytes of `taken`, a share of 0..1 of the memory, are someone else's: what
// is left, rounded up to the alignment. -1: that is no share.
int64_t dv_place_capacity(int64_t memory_bytes, double taken, int64_t align);
// Has the time run out? Asks the clock.
int dv_late(const dv_effort *effort);

// e to the x for x <= 0, roughly, and the same on every machine, which exp is
// not.
static inline double dv_decay(double x)
{
    double y = 1 + x / 1024;
    if (!(y > 0))
        return 0;
    for (int k = 0; k < 10; k++)
        y *= y;
    return y;
}

// -- Items alive in a range of ticks (live.c) --------------------------------

// Those items of a task that have been added, searched by time.
typedef struct dv_live {
    const dv_task *task;
    int32_t *by_start; // items, and where each is in there
    int32_t *rank;
    int64_t *last; // a tree of the latest ends; leaf `leaves + rank`
    int32_t leaves;
} dv_live;

// 0 when out of memory.
int dv_live_init(dv_live *live, const dv_task *task, dv_arena *arena);
void dv_live_add(dv_live *live, int32_t item);
void dv_live_remove(dv_live *live, int32_t item);
// Items alive somewhere in [start, end), into `out`, which has room for all.
int32_t dv_live_find(const dv_live *live, int64_t start, int64_t end,
                     int32_t *out);

// -- Neighbours in time (near.c) ---------------------------------------------

// The neighbours of item i in play are items[first[i]..first[i + 1]]; one that
// may share its base with i is kept as ~neighbour.
typedef struct dv_near {
    int64_t *first;
    int32_t *items; // NULL: there are more than `most`
} dv_near;

// 0 when out of memory.
int dv_near_init(dv_near *near, const dv_task *task, int64_t most,
                 dv_arena *arena);

// -- What can be kept at most (bound.c) --------------------------------------

// A price per byte for every section of time.
typedef struct dv_prices {
    int32_t n;             // sections
    int32_t *first, *last; // item i is counted in sections first[i]..last[i]
    int32_t *begin;        // alive from here; before first[i] it may lie on a
                           // parent
    int64_t *tick;         // of each section
    int64_t *room;         // bytes of each section that are not reserved
    double *price;
    double *cost; // of one byte from the first section up to k
    int64_t bound;
} dv_prices;

// 0 when out of memory.
int dv_prices_init(dv_prices *p, const dv_task *task, dv_arena *arena);
// Improve the prices from where they stand; `known` is kept by some answer.
int dv_prices_find(dv_prices *p, const dv_task *task, int64_t known, int steps);
// Start from the prices of a task that this one is a part of.
void dv_prices_take(dv_prices *p, const dv_prices *from);
// As many steps as a task of this size is worth.
int dv_price_steps(const dv_task *task, const dv_prices *p);
// What all bytes of item i cost.
double dv_price_of(const dv_prices *p, const dv_task *task, int32_t i);

// -- Which items to keep (select.c) ------------------------------------------

// Which items to keep.
typedef struct dv_choice {
    char *keep;    // in: items to choose from; out: items chosen
    int32_t *over; // parent of the same size whose place it takes; -1: none
    int complete;  // out: no set is better
} dv_choice;

// The best set that nowhere needs more than `share` of the room, addresses
// aside. 0 when out of memory.
int dv_select(const dv_task *task, const dv_prices *prices, double share,
              int32_t width, dv_effort *effort, dv_choice *io);

// -- Solvers -----------------------------------------------------------------

typedef enum dv_list_rule { DV_GREEDY, DV_FIRST_FIT, DV_BEST_FIT } dv_list_rule;

// As Torch-Spyre does it. 0 when out of memory.
int dv_list(const dv_task *task, dv_list_rule rule, dv_answer *out);

// Improve an answer by choosing what to keep and packing that, until the
// effort is spent; it never gets worse. A complete choice lowers the bound.
int dv_refine(const dv_task *task, dv_prices *prices, dv_effort *effort,
              dv_answer *io);
// Branch and bound from an answer on; *proven: nothing is better.
int dv_exact(const dv_task *task, const dv_near *near, const dv_prices *prices,
             dv_effort *effort, dv_answer *io, int *proven);
int dv_anneal(const dv_task *task, const dv_near *near, uint64_t seed,
              dv_effort *effort, dv_answer *out);
// The best of everything.
int dv_auto(const dv_task *task, uint64_t seed, dv_prices *prices,
            dv_effort *effort, dv_answer *out, const char **who);

#endif
