// Fuses ops into groups that run tile by tile in a scratchpad, and chooses
// their order, tile sizes and the tensors that are retained between them.
//
//   ops     0 -> 1 -> 2 -> 3 -> 4         A group's cost depends only on its
//   groups  [0   1] [2    3   4]          ops, on what it receives from the
//   order   ------ keeps t -->            group before (residents) and on what
//                                         it keeps for the next one.
//
// The cost of a group has a closed form for given tile sizes (tile.c); the best
// tile sizes of a group are searched once for each structure (price.c).
// Searches over groups therefore ask for costs freely. They share no code with
// check.c, which walks through the tiles of a schedule.
//
// Every op is in exactly one group: the searches never recompute one, although
// schedules may.
//
//   fuse.[ch]   dv_fuse: runs the searches, builds the result
//   graph.c     validates a problem and numbers its ops in topological order
//   profile.c   what a group demands of its tensors, as coefficients of w, h, k
//   tile.c      cost of a tiling in closed form; search for the best tiling
//   price.c     costs of groups, remembered by structure
//   merge.c     partitions of the ops into groups; greedy merging
//   retain.c    which groups follow each other and what they retain; the order
//   improve.c   large-neighbourhood search
//   bound.c     lower bound of any schedule
//   check.c     checks and evaluates schedules independently of the searches
//   contest.[ch]  reads problems and writes schedules as JSON
//
// Other folders may also include: contest.h
#ifndef DV_FUSE_H
#define DV_FUSE_H
#include "divvy/fuse.h"
#include "base/diag.h"
#include "base/math.h"
#include "base/mem.h"

// A cost of at least this means that no tiling fits.
#define DV_FUSE_NEVER 1e300
// Total costs whose relative difference is smaller are considered equal.
#define DV_FUSE_EQUAL 1e-8

enum {
    DV_FUSE_MOST_OPS = 4096,
    DV_FUSE_MOST_TENSORS = 1 << 14,
    DV_FUSE_MOST_EXTENT = 1 << 20,
    DV_FUSE_MOST_KEPT = 4, // tensors retained between two groups
};

// An op; nodes are numbered in topological order.
typedef struct dv_fuse_node {
    int matmul;
    double base;
    const int32_t *inputs; // without repetitions, unless it is a matmul
    int32_t n_inputs, output;
    int64_t sum;    // number of terms of a matmul's sum, else 0
    int32_t number; // of the op in the problem
    int32_t alike;  // smallest node with the same kind, base and sum
} dv_fuse_node;

typedef struct dv_fuse_edge {
    int64_t width, height, size;
    int32_t producer;       // node; -1: the tensor is an input of the graph
    const int32_t *readers; // nodes, ascending
    int32_t n_readers;
    int32_t alike; // smallest tensor of the same shape
} dv_fuse_edge;

typedef struct dv_fuse_graph {
    dv_arena arena; // owns all arrays
    int32_t n, n_tensors;
    int32_t words; // 64-bit words of a set of nodes
    dv_fuse_node *nodes;
    dv_fuse_edge *edges;
    int64_t capacity, native_w, native_h;
    double bandwidth;
    int full; // 1: reading DV_FUSE_FULL
} dv_fuse_graph;

dv_status dv_fuse_graph_create(dv_fuse_graph *out, const dv_fuse_problem *p,
                               dv_fuse_reading reading, dv_diag *diag);

// -- Sets of nodes -----------------------------------------------------------

static inline int dv_fuse_has(const uint64_t *set, int32_t o)
{
    return (int)(set[o / 64] >> o % 64 & 1);
}

static inline void dv_fuse_add(uint64_t *set, int32_t o)
{
    set[o / 64] |= (uint64_t)1 << o % 64;
}

static inline void dv_fuse_remove(uint64_t *set, int32_t o)
{
    set[o / 64] &= ~((uint64_t)1 << o % 64);
}

// Returns the smallest node >= o of a set, or -1.
static inline int32_t dv_fuse_next(const uint64_t *set, int32_t words,
                                   int32_t o)
{
    for (int32_t i = o / 64; i < words; i++) {
        uint64_t w = i == o / 64 ? set[i] & ~(uint64_t)0 << o % 64 : set[i];
        if (w)
            return i * 64 + __builtin_ctzll(w);
    }
    return -1;
}
#define DV_FUSE_EACH(o, set, words)                                            \
    for (int32_t o = dv_fuse_next(set, words, 0); o >= 0;                      \
         o = dv_fuse_next(set, words, o + 1))

// -- Demands of a group (profile.c) ------------------------------------------

// A demand is the part of a tensor that one step of a tile needs, given by an
// axis for its rows and an axis for its columns.
enum {
    DV_FUSE_TILE,  // the rows or columns of the current tile
    DV_FUSE_STEP,  // the current step of the sum
    DV_FUSE_WHOLE, // the whole extent
    DV_FUSE_AXES,
    DV_FUSE_DEMANDS = DV_FUSE_AXES * DV_FUSE_AXES,
};
#define DV_FUSE_DEMAND(rows, cols) ((rows)*DV_FUSE_AXES + (cols))

// How a tensor takes part in a group of ops.
typedef enum dv_fuse_role {
    DV_FUSE_INNER, // produced inside, does not leave
    DV_FUSE_LOADED,
    DV_FUSE_RESIDENT,
    DV_FUSE_WRITTEN,
    DV_FUSE_KEPT,
} dv_fuse_role;

// The ops of a group with their tensors, as input of the memo of costs
// (price.c) and of the profile (profile.c).
typedef struct dv_fuse_group {
    const dv_fuse_graph *g;
    const int32_t *ops; // nodes, ascending
    int32_t n_ops;
    const int32_t *tensors; // all that the ops read or write
    int32_t n_tensors;
    const int32_t *local; // by tensor: its index in `tensors`
    const char *roles;    // of each of `tensors`
} dv_fuse_group;

// A loaded tensor of which a step needs two overlapping parts (demands),
// neither of which contains the other.
typedef struct dv_fuse_overlap {
    int64_t width, height;
    unsigned demands; // bit set of demands
} dv_fuse_overlap;

// The slices that one step loads: for demand d, an area of coef[d] times the
// tile and step extents of d. coef[d] adds up, over all tensors, the extents
// that d takes whole.
enum { DV_FUSE_MOST_OVERLAPS = 16 };
typedef struct dv_fuse_loads {
    int64_t coef[DV_FUSE_DEMANDS]; // tensors with one demand
    dv_fuse_overlap overlaps[DV_FUSE_MOST_OVERLAPS];
    int32_t n_overlaps;
    int too_many; // 1: there are more overlaps
} dv_fuse_loads;

typedef struct dv_fuse_profile {
    int64_t width, height; // of the leaving tensors
    int64_t sum;           // terms of the sum that is cut into steps; 0: none
    // A step with k terms takes a computing time of linear * k + fixed +
    // by_height * ceil(k / native height) + by_width * ceil(k / native width),
    // plus `last` if it is the last step of a tile.
    double linear, fixed, by_height, by_width, last;
    dv_fuse_loads one, many; // with one step in a tile, and with several
    int64_t n_written, n_accumulators, whole_elems;
} dv_fuse_profile;

// Computes the profile (coefficients of cost and memory) of a group. Returns 0
// if the group breaks a rule of schedules.
int dv_fuse_profile_init(dv_fuse_profile *out, const dv_fuse_group *group,
                         unsigned *wanted);

// -- Costs of groups (tile.c, price.c) ---------------------------------------

typedef struct dv_fuse_tiling {
    double cost;
    int32_t w, h, k;
    int by_columns; // 1: the snake runs along columns; 0: along rows
    int is_bound;   // 1: the cost is an upper bound
} dv_fuse_tiling;

// Tile sizes worth trying for a result of this shape; sizes with the fewest
// tiles come first.
typedef struct dv_fuse_sizes {
    int64_t width, height;
    int32_t n;
    struct dv_fuse_size {
        int32_t w, h;
        int64_t tiles;
    } * at;
} dv_fuse_sizes;
int dv_fuse_sizes_init(dv_fuse_sizes *out, const dv_fuse_graph *g,
                       int64_t width, int64_t height, dv_arena *arena);
// Returns the best tiling of a group and adds the number of tilings tried to
// *steps.
dv_fuse_tiling dv_fuse_search_tiling(const dv_fuse_graph *g,
                                     const dv_fuse_profile *p,
                                     const dv_fuse_sizes *sizes,
                                     int64_t *steps);

// Returns a lower bound of the costs of all tilings of a group, for any order
// of the tiles.
double dv_fuse_least_cost(const dv_fuse_graph *g, const dv_fuse_profile *p,
                          int64_t *steps);
// Returns the exact cost of a tiling, computed step by step.
double dv_fuse_exact_cost(const dv_fuse_graph *g, const dv_fuse_profile *p,
                          const dv_fuse_tiling *tiling);

// Tensors that stay in the scratchpad from one group to the next one.
typedef struct dv_fuse_kept {
    int32_t n, at[DV_FUSE_MOST_KEPT];
} dv_fuse_kept;
extern const dv_fuse_kept dv_fuse_nothing;

typedef struct dv_fuse_memo dv_fuse_memo;
typedef struct dv_fuser {
    const dv_fuse_graph *g;
    dv_arena arena;
    dv_fuse_memo *memo;
    int64_t left, steps; // search steps that may still be made, and made ones
    double until_s;      // deadline in dv_clock_s seconds; 0: none
    double bound;        // lower bound of any schedule
    uint64_t random;
    int failed; // out of memory; costs are DV_FUSE_NEVER from then on
} dv_fuser;

int dv_fuse_memo_create(dv_fuser *f);
void dv_fuse_memo_free(dv_fuser *f);
// Returns the best tiling of the group of the ops in `set`, which finds the
// tensors `received` in the scratchpad and keeps the tensors `kept` there.
dv_fuse_tiling dv_fuse_price(dv_fuser *f, const uint64_t *set,
                             const dv_fuse_kept *received,
                             const dv_fuse_kept *kept);
// Like dv_fuse_price, but with an exact cost: dv_fuse_price returns an upper
// bound for tilings with too many steps to walk through during a search.
dv_fuse_tiling dv_fuse_exact_price(dv_fuser *f, const uint64_t *set,
                                   const dv_fuse_kept *received,
                                   const dv_fuse_kept *kept);
// Returns a lower bound of the cost of a group of these ops, for all tensors
// that it could receive, keep or write.
double dv_fuse_least_price(dv_fuser *f, const uint64_t *set);
// Returns 1 if the output of node o of the set must leave the set: a node
// outside reads it, or it is an output of the graph.
int dv_fuse_leaves(const dv_fuse_graph *g, const uint64_t *set, int32_t o);
// Returns 1 when the budget of search steps or the time limit is used up.
int dv_fuse_spent(dv_fuser *f);
// Returns 1 when the time limit is reached. The first schedule is limited by
// time only, not by the budget of steps, so that it is the same with any
// budget.
int dv_fuse_late(const dv_fuser *f);

// -- Partitions (merge.c, retain.c) ------------------------------------------

// A partition of the nodes into units: groups, or chains of groups. A unit has
// the number of one of its nodes; number u is a unit if of[u] is u.
typedef struct dv_fuse_parts {
    uint64_t *sets; // set of unit u: sets + u * words
    int32_t *of;    // unit of each node
    double *cost;   // of each unit, without retention
} dv_fuse_parts;

int dv_fuse_parts_init(dv_fuse_parts *p, dv_fuser *f);
void dv_fuse_parts_copy(dv_fuse_parts *to, const dv_fuse_parts *from,
                        const dv_fuse_graph *g);
// Returns 1 if units a and b can be merged: no path of data leads from one to
// the other through a third unit, which would make a cycle.
int dv_fuse_can_join(const dv_fuser *f, const dv_fuse_parts *p, int32_t a,
                     int32_t b);
// Lists the units whose ops share a tensor with unit u. Returns their number.
int32_t dv_fuse_touching(const dv_fuser *f, const dv_fuse_parts *p, int32_t u,
                         int32_t *units);
// These three functions change units without setting their costs. dissolve
// makes every node of a unit a unit of its own; take_out does so with node o
// and returns the unit of the other nodes or -1; join merges b into a.
void dv_fuse_dissolve(dv_fuser *f, dv_fuse_parts *p, int32_t u);
int32_t dv_fuse_take_out(dv_fuser *f, dv_fuse_parts *p, int32_t o);
void dv_fuse_join(dv_fuser *f, dv_fuse_parts *p, int32_t a, int32_t b);
// Merges pairs of units while that lowers the cost; one of a pair must be in
// `loose` (a flag per unit) or already merged. Gains are multiplied by random
// factors of 1 - noise to 1 + noise. With DV_FUSE_NO_MERGING as noise, or after
// the time limit, only sets the costs of the units in `loose`.
#define DV_FUSE_NO_MERGING (-1.0)
void dv_fuse_merge(dv_fuser *f, dv_fuse_parts *p, const char *loose,
                   double noise);

// A schedule whose tilings are not chosen yet: groups in the order of
// execution.
typedef struct dv_fuse_answer {
    int32_t n;
    uint64_t *sets; // of group i: sets + i * words
    dv_fuse_kept *received, *kept;
    double total;
} dv_fuse_answer;
int dv_fuse_answer_init(dv_fuse_answer *a, dv_fuser *f);
void dv_fuse_answer_copy(dv_fuse_answer *to, const dv_fuse_answer *from,
                         const dv_fuse_graph *g);
// Chooses which tensors the groups of a partition retain in the scratchpad for
// the next one (no more after the time limit), and the order of groups.
void dv_fuse_retain(dv_fuser *f, const dv_fuse_parts *p, dv_fuse_answer *out);

// Improves a partition by local search until the budget is spent, and stores
// the best schedule found in *best.
void dv_fuse_improve(dv_fuser *f, dv_fuse_parts *parts, dv_fuse_answer *best);
double dv_fuse_bound(const dv_fuse_graph *g);
// Returns a lower bound of any schedule's cost that counts the transfers of
// groups, or 0 if the graph is too large for `most` search steps.
double dv_fuse_bound_by_prices(dv_fuser *f, int64_t most);
// Returns the least computing time of a node in any schedule.
double dv_fuse_least_work(const dv_fuse_graph *g, int32_t o);
#endif
