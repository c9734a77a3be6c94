// Decides together how ops are divided, which of them form a group, and which
// tensors stay on the cores between them, because each of these choices changes
// what the others cost. The passes "divide", "group" and "scratch" each decide
// one of them for itself; this one begins with their answers, tries others, and
// keeps what the predicted time of the whole plan (plan/price.h) favours.
//
//   follow.c   divides ops so that they find operands on their core
//   chain.c    cuts chains of ops by the same variables
//   menu.c     tries the divisions of single ops
//   together.c chooses the divisions of all ops at once
//   tiles.c    runs ops that do not fit the scratchpads in loops over tiles
//   layers.c   folds equal layers, so that they are planned once
//   order.c    reorders ops, recomputes tensors for late readers
//   improve.c  tries orders and recomputation, keeps what saves traffic
//   seed.c     searches as Torch-Spyre does
//   cache.[ch] merges ops that pass tensors to each other in caches
//   cached.c   predicts the time of such ops on a machine with caches
//   tried.c    notes the plans that were compared, for reports
//   pass.c     the pass "joint"
#ifndef DV_JOINT_H
#define DV_JOINT_H
#include "divide/divide.h"
#include "scratch/scratch.h"

// Analyses how each op can be divided into slices; ops of the same shape share
// one result. Returns NULL when out of memory.
dv_divide_space **dv_joint_spaces(const dv_plan *plan, dv_arena *arena);
// Changes divisions (slices of the ops) and deals (assignments of tiles to
// cores) so that more operands are found on their cores: op by op, following
// the operands, or by a search like that of Torch-Spyre (PyTorch backend of
// IBM's Spyre accelerator). What is resident is not changed. With `always`, ops
// follow even where that is not cheaper.
dv_status dv_joint_follow(dv_plan *plan, const dv_scratch_rules *rules,
                          dv_divide_space *const *spaces, int always,
                          dv_arena *arena, dv_diag *diag);
dv_status dv_joint_seed(dv_plan *plan, const dv_scratch_rules *rules,
                        dv_diag *diag);

// What plans are compared by: the predicted time and the bytes that are read
// from and written to main memory.
typedef struct dv_joint_price {
    double us, bytes;
} dv_joint_price;
// Returns whether `a` takes less time than `b`, or the same time with less
// traffic.
int dv_joint_cheaper(const dv_joint_price *a, const dv_joint_price *b);
// Returns whether `a` is neither slower than `b` nor moves more bytes through
// main memory.
int dv_joint_no_higher(const dv_joint_price *a, const dv_joint_price *b);
// The plans that a search has compared (tried.c), the last one first.
typedef struct dv_joint_trial dv_joint_trial;
typedef struct dv_joint_tried {
    dv_joint_trial *last;
} dv_joint_tried;
// Starts the record of a compared plan with how it cuts its ops; returns NULL
// when out of memory. dv_joint_end_trial adds the price and lists it.
dv_joint_trial *dv_joint_begin_trial(const dv_plan *plan, dv_arena *arena);
void dv_joint_end_trial(dv_joint_tried *tried, dv_joint_trial *t,
                        const dv_joint_price *price);
// Sets, for each op of a plan with this price, the report on the compared plans
// that cut the op differently (dv_division.n_otherwise).
void dv_joint_report_tried(const dv_joint_tried *tried, dv_plan *plan,
                           const dv_joint_price *price);
// Chooses which tensors are resident in scratchpads, and stores the price of
// the resulting plan in *out.
dv_status dv_joint_assess(dv_joint_price *out, dv_plan *plan,
                          const dv_scratch_rules *rules, dv_arena *arena,
                          dv_diag *diag);
// Estimates the price of a plan in which no tensor is resident yet, as if all
// tensors that individually fit a scratchpad were. Stops when the price exceeds
// *limit (NULL: none) in time or traffic. Returns 0 when out of memory.
int dv_joint_estimate(dv_joint_price *out, dv_plan *plan,
                      const dv_scratch_rules *rules,
                      dv_divide_space *const *spaces,
                      const dv_joint_price *limit, dv_arena *arena);
// Union-find sets of variables of ops and dims of tensors that index each
// other, and so can be cut alike. `up` has a node per variable (from
// var_at[op]) and dim (from dim_at[tensor]), which leads to the root of its
// set.
typedef struct dv_alike {
    int32_t *up, *var_at, *dim_at;
} dv_alike;
// Finds the sets of variables and dims that can be cut alike; returns 0 when
// out of memory. dv_alike_root returns the set of a variable.
int dv_alike_make(dv_alike *out, const dv_plan *plan, dv_arena *arena);
int32_t dv_alike_root(const dv_alike *s, int32_t op, int var);
// Returns whether the joint pass may change how an op is divided into slices.
int dv_joint_may_cut(const dv_plan *plan, int32_t op);
// Cuts chains of ops by the same variables (chain.c) if that makes the plan
// cheaper; *price is the plan's price, which the call updates.
dv_status dv_joint_chains(dv_plan *plan, const dv_scratch_rules *rules,
                          dv_divide_space *const *spaces, dv_joint_price *price,
                          dv_arena *arena, dv_diag *diag);
// Tries other divisions of single ops (menu.c) and keeps those that make the
// plan cheaper; *price is the plan's price, which the call updates.
dv_status dv_joint_menus(dv_plan *plan, const dv_scratch_rules *rules,
                         dv_divide_space *const *spaces, dv_joint_price *price,
                         dv_arena *arena, dv_diag *diag);
// Chooses the divisions of all ops at once (together.c), and keeps them if that
// makes the plan cheaper; *price is the plan's price, which the call updates.
dv_status dv_joint_together(dv_plan *plan, const dv_scratch_rules *rules,
                            dv_divide_space *const *spaces,
                            dv_joint_price *price, dv_arena *arena,
                            dv_diag *diag);
// Subtracts the main memory traffic of access k from the work of an op whose
// tiles each core computes in this number of rounds.
void dv_joint_drop_traffic(dv_cost_work *w, const dv_divide_space *s, int k,
                           const dv_splits *d, double rounds);
// The loops over tiles (all ops of a group for one tile, then for the next)
// that dv_joint_tiles has found for a plan.
typedef struct dv_tile_loops {
    int found; // 0 if there are none
    // Per op: its number before the search, and the divisions it can have. The
    // order of ops may change: those that are independent of a loop run before
    // it.
    int32_t *order;
    dv_divide_space **spaces;
    int reordered;
    // 1 if the plan is legal only while a tensor is resident, for example
    // because a tile would exceed the span limit on it in main memory.
    int relies;
} dv_tile_loops;
// Merges consecutive ops into one group whose cores loop over tiles (tiles.c)
// where that lowers the plan's price, which is `price` before.
dv_status dv_joint_tiles(dv_tile_loops *out, dv_plan *plan,
                         const dv_scratch_rules *rules,
                         dv_divide_space *const *spaces, dv_joint_price price,
                         dv_arena *arena, dv_diag *diag);
// A range of equal layers of a program. The folded plan has only three of them,
// so that planning is faster (layers.c).
typedef struct dv_layer_region {
    int32_t first, n_layers, layer; // `layer`: number of ops of a layer
} dv_layer_region;
typedef struct dv_layers {
    dv_plan part; // the folded plan; its program is `program`
    dv_program program;
    // Per op of the whole plan: the op of the folded plan that stands for it;
    // per op of the folded plan: its number in the whole plan.
    int32_t *folded, *whole;
    dv_layer_region *regions;
    int32_t n_regions;
} dv_layers;
// Makes a plan with only three of the equal layers of each region. Returns 1; 0
// if there are no such layers; -1 when out of memory. Until dv_layers_unfold,
// only the folded plan may allocate memory.
int dv_layers_fold(dv_layers *out, const dv_plan *plan, dv_arena *arena);
// Divides all layers of the whole plan like those of the folded plan. `loops`
// has the loops over tiles of the folded plan, and afterwards those of the
// whole one. Returns 1; 0 if layers cannot be repeated; -1 when out of memory.
int dv_layers_unfold(const dv_layers *l, dv_plan *plan, dv_tile_loops *loops,
                     dv_arena *arena);
// Stores in *d into how many slices each variable of an op is cut.
void dv_joint_splits(const dv_plan *plan, int32_t op, dv_splits *d);
// Returns whether a division respects the target's span limit: the bytes of a
// tensor from the first to the last one that a core accesses.
int dv_joint_spans_fit(const dv_plan *plan, const dv_divide_space *s,
                       const dv_splits *d);

// Returns whether a plan with chosen scratchpad residents is legal: accesses to
// main memory respect the target's span limit, and accumulators of sums in
// loops over tiles are resident. *relies is set to whether that is so only
// because some tensor is resident.
int dv_joint_homes_hold(const dv_plan *plan, dv_divide_space *const *spaces,
                        int *relies);

// Chooses scratchpad residents and groups like dv_scratch_choose_homes, and
// also tries other orders of ops and recomputation (improve.c).
dv_status dv_joint_improve(dv_plan *plan, const dv_scratch_rules *rules,
                           dv_arena *arena, dv_diag *diag);

// Reorders the ops of a plan; `order` lists old op numbers and may contain an
// op more than once. Groups must have one op each. Returns 0 when out of
// memory.
int dv_plan_rearrange(dv_plan *plan, const int32_t *order, int32_t n);
// Reorders ops so that fewer bytes are live (order.c). Returns 1 if the order
// changed, 0 if not, -1 when out of memory.
int dv_reorder(dv_plan *plan, const dv_life *life);
// Runs the op that writes a tensor a second time, for readers after a long gap,
// so that the tensor is not live in between. Returns 1 if the plan changed, 0
// if not, -1 when out of memory.
int dv_recompute(dv_plan *plan, const dv_life *life, int32_t tensor);
// Once a reordering or recomputation is accepted: renumbers tensors and renames
// ops in the order of the plan's text.
dv_status dv_reorder_finish(dv_plan *plan, dv_diag *diag);

// For a machine whose memories near the cores are caches: merges ops whose
// tiles pass tensors to each other, and chooses tiles that fit the cache.
dv_status dv_joint_for_caches(dv_plan *plan, dv_arena *arena, dv_diag *diag);
#endif
