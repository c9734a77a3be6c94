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

// Analyses every op that can be divided; ops of the same shape share one
// result. Returns NULL when out of memory.
dv_divide_space **dv_joint_spaces(const dv_plan *plan, dv_arena *arena);
// Changes divisions (slices of the ops) and deals (assignments of tiles to
// cores) of the plan so that more operands are found on their cores (joint.c):
// op by op following the operands, or by a search like that of Torch-Spyre, the
// PyTorch backend of IBM's Spyre accelerator. What is resident is not changed.
// With `always`, ops follow even where that is not cheaper.
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
// Notes how a plan cuts its ops; returns NULL when out of memory.
// dv_joint_end_trial adds it to the list, with its price.
dv_joint_trial *dv_joint_begin_trial(const dv_plan *plan, dv_arena *arena);
void dv_joint_end_trial(dv_joint_tried *tried, dv_joint_trial *t,
                        const dv_joint_price *price);
// Sets, for each op of a plan with this price, what is reported of the plans
// that cut it otherwise (dv_division.n_otherwise).
void dv_joint_report_tried(const dv_joint_tried *tried, dv_plan *plan,
                           const dv_joint_price *price);
// Chooses which tensors are resident, and returns the price of the plan then.
dv_status dv_joint_assess(dv_joint_price *out, dv_plan *plan,
                          const dv_scratch_rules *rules, dv_arena *arena,
                          dv_diag *diag);
// Estimates the price of a plan in which no tensor is resident yet, as if every
// tensor that fits a scratchpad alone were. Stops when the price exceeds the
// limit in time or traffic, unless that is NULL. Returns 0 when out of memory.
int dv_joint_estimate(dv_joint_price *out, dv_plan *plan,
                      const dv_scratch_rules *rules,
                      dv_divide_space *const *spaces,
                      const dv_joint_price *limit, dv_arena *arena);
// Sets of variables of ops and dims of tensors that are indexed alike: `up` has
// a node per variable (from var_at[op]) and dim (from dim_at[tensor]), which
// leads to the representative of its set.
typedef struct dv_alike {
    int32_t *up, *var_at, *dim_at;
} dv_alike;
// Finds the sets; returns 0 when out of memory. dv_alike_root returns the
// number of the set of a variable.
int dv_alike_make(dv_alike *out, const dv_plan *plan, dv_arena *arena);
int32_t dv_alike_root(const dv_alike *s, int32_t op, int var);
// Returns whether this pass may change the division of an op.
int dv_joint_may_cut(const dv_plan *plan, int32_t op);
// Cuts chains of ops by the same variables (chain.c) where that makes the plan
// cheaper; *price is its price before and after.
dv_status dv_joint_chains(dv_plan *plan, const dv_scratch_rules *rules,
                          dv_divide_space *const *spaces, dv_joint_price *price,
                          dv_arena *arena, dv_diag *diag);
// Tries other divisions of single ops (menu.c) and keeps those that make the
// plan cheaper; *price is its price before and after.
dv_status dv_joint_menus(dv_plan *plan, const dv_scratch_rules *rules,
                         dv_divide_space *const *spaces, dv_joint_price *price,
                         dv_arena *arena, dv_diag *diag);
// Chooses the divisions of all ops at once (together.c), and keeps them if that
// makes the plan cheaper; *price is its price before and after.
dv_status dv_joint_together(dv_plan *plan, const dv_scratch_rules *rules,
                            dv_divide_space *const *spaces,
                            dv_joint_price *price, dv_arena *arena,
                            dv_diag *diag);
// Leaves the traffic of access k out of the work of an op that runs in so many
// rounds.
void dv_joint_drop_traffic(dv_cost_work *w, const dv_divide_space *s, int k,
                           const dv_splits *d, double rounds);
// A plan with loops over tiles that dv_joint_tiles has found.
typedef struct dv_tile_loops {
    int found; // 0 if there are none
    // Per op: its number before, and its space. The order of ops may change:
    // those that are independent of a loop run before it.
    int32_t *order;
    dv_divide_space **spaces;
    int reordered;
    // 1 if a tensor must be resident, because a tile would reach too far of it
    // in main memory.
    int relies;
} dv_tile_loops;
// Makes consecutive ops one group whose cores loop over tiles (tiles.c) where
// that makes the plan, which has this price, cheaper.
dv_status dv_joint_tiles(dv_tile_loops *out, dv_plan *plan,
                         const dv_scratch_rules *rules,
                         dv_divide_space *const *spaces, dv_joint_price price,
                         dv_arena *arena, dv_diag *diag);
// Equal layers of a program, and its plan with three of them (layers.c).
typedef struct dv_layer_region {
    int32_t first, n_layers, layer; // `layer`: number of ops of a layer
} dv_layer_region;
typedef struct dv_layers {
    dv_plan part; // the folded plan; its program is `program`
    dv_program program;
    // Per op of the whole plan: the op of the folded one that stands for it;
    // and per op of that: its number in the whole plan.
    int32_t *folded, *whole;
    dv_layer_region *regions;
    int32_t n_regions;
} dv_layers;
// Folds the equal layers of a plan. Returns 1; 0 if there are none; -1 when out
// of memory. Until dv_layers_unfold, only the folded plan may allocate memory.
int dv_layers_fold(dv_layers *out, const dv_plan *plan, dv_arena *arena);
// Divides all layers of the plan as the folded plan is divided now; `loops`
// says what dv_joint_tiles did there, and afterwards what that is in the whole
// plan. Returns 1; 0 if layers cannot be repeated; -1 when out of memory.
int dv_layers_unfold(const dv_layers *l, dv_plan *plan, dv_tile_loops *loops,
                     dv_arena *arena);
// Returns into how many slices the variables of an op are cut.
void dv_joint_splits(const dv_plan *plan, int32_t op, dv_splits *d);
// Returns whether a division respects the target's limit on the bytes of a
// tensor between the first and the last one that a core accesses.
int dv_joint_spans_fit(const dv_plan *plan, const dv_divide_space *s,
                       const dv_splits *d);

// Returns whether a plan whose homes are chosen is legal: the same limit is
// respected, as of tensors that are only in the scratchpads nothing is accessed
// in main memory; and where loops over tiles sum up parts, the accumulators are
// in a home. *relies is set to whether that is because of some home.
int dv_joint_homes_hold(const dv_plan *plan, dv_divide_space *const *spaces,
                        int *relies);

// Chooses residents and groups like dv_scratch_choose_homes, and also tries
// other orders of ops and recomputation (improve.c).
dv_status dv_joint_improve(dv_plan *plan, const dv_scratch_rules *rules,
                           dv_arena *arena, dv_diag *diag);

// Reorders the ops of a plan; `order` lists old op numbers and may contain an
// op more than once. Groups must have one op each. Returns 0 when out of
// memory.
int dv_plan_rearrange(dv_plan *plan, const int32_t *order, int32_t n);
// Reorders ops so that fewer bytes are live (order.c). Returns 1 if the order
// changed, 0 if not, -1 when out of memory.
int dv_reorder(dv_plan *plan, const dv_life *life);
// Runs the op that writes a tensor a second time, for the late readers of the
// tensor. Returns 1 if the plan changed, 0 if not, -1 when out of memory.
int dv_recompute(dv_plan *plan, const dv_life *life, int32_t tensor);
// Renumbers tensors and renames ops in the order of the plan's text, once a
// reordering or recomputation is accepted.
dv_status dv_reorder_finish(dv_plan *plan, dv_diag *diag);

// For a machine whose memories near the cores are caches: merges ops whose
// tiles pass tensors to each other, and chooses tiles that fit the cache.
dv_status dv_joint_for_caches(dv_plan *plan, dv_arena *arena, dv_diag *diag);
#endif
