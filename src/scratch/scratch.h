// The scratchpad level of a plan: which tensors are resident on the cores, when
// and where.
//
// A home is a tensor that is resident in the scratchpads for consecutive ops,
// where each core holds the box that one op's view gives it. A home is filled
// by the op that writes the tensor, by a load from main memory, by a copy from
// other cores' homes over the ring, or by a move within the scratchpad. Ops
// whose cores need only what they hold read it there. That saves those reads
// from main memory, and the write if no op reads the tensor there.
//
//   op        0    1    2    3    4
//   x loaded  [---------)
//   d         .    [---------)     reuses x's bytes: op 1 reads x last
//   m         [---------)
//
// Time is counted in ops. A home is live from the start of its first op to the
// start of its end op. A home that is filled before a repeat and read in it
// lives until the end of the repeat; an extern op clobbers all scratchpads.
//
// life.c finds the candidates for homes; dv_place chooses among them and
// assigns addresses (solve.c).
//
//   life.c     computes live ranges and finds candidates for homes
//   solve.c    chooses homes among the candidates and assigns addresses
//   joint.c    divides ops so that they find operands on their core
//   order.c    reorders ops, recomputes tensors for late readers
//   improve.c  tries orders and recomputation, keeps what saves traffic
//   pass.c     the pass "scratch" and its section of the plan
#ifndef DV_SCRATCH_H
#define DV_SCRATCH_H
#include "group/group.h"
#include "plan/view.h"

// The transformations that the options allow.
typedef struct dv_scratch_rules {
    int off, reductions; // off: no scratchpad homes at all; reductions: only
                         // results of reductions become homes
    int in_place, clones, ring, evict, reorder, recompute;
    int tenants; // the contents of scratchpads are lost at the end of each
                 // group of ops
    dv_solver solver;
    int64_t budget;
    double time_limit_s;
} dv_scratch_rules;

typedef struct dv_cand {
    int32_t tensor, as_op, as_access;
    int32_t first_op, end_op;
    dv_home_fill fill;
    int32_t from; // if the fill is DV_FILL_RING: the candidate that it is
                  // copied from over the ring, the network between cores
    int64_t core_bytes;
    int64_t gain_bytes;   // main memory traffic saved if the candidate becomes
                          // a scratchpad home
    int64_t price_bytes;  // cost of the ring copy, already subtracted from
                          // gain_bytes
    int32_t uses, n_uses; // range in life->uses: the ops that would read it
                          // from the scratchpad
    int stored;    // if the fill is DV_FILL_WRITTEN: nonzero if the tensor is
                   // needed in main memory as well
    int32_t group; // all candidates of a group become scratchpad homes
                   // or none; 0: no group
    int32_t parent[2], n_parents;
    const char *barred; // reason why it cannot be a scratchpad home, or NULL
} dv_cand;

typedef struct dv_life {
    const dv_plan *plan;
    const dv_scratch_rules *rules;
    dv_arena *arena;
    int32_t *loop_of; // per op: the innermost repeat around it, or -1
    int32_t *loop_in; // per repeat: the repeat around it, or -1
    int32_t *externs; // per op: number of extern ops before it
    double *times;    // per op: how often it is executed
    int32_t *read_at; // per tensor: index of its first reading op in `reads`
    int32_t *reads;   // reading ops of all tensors, each op once per tensor
    int32_t *def;     // per tensor: the op that defines it, or -1
    uint8_t *updated;
    dv_cand *cands;
    int32_t n_cands, cap_cands;
    int32_t *uses;
    int32_t n_uses, cap_uses;
    // Per op: number of the run of consecutive ops that it belongs to and that
    // may form one group. Only set with the rule `tenants`.
    int32_t *run_of;
    int nomem;
} dv_life;

// Finds all candidates for scratchpad homes. `cuts` is NULL or marks ops at
// whose start no home may be live; it is used with `tenants`, where scratchpads
// are wiped at the end of each group. Returns 0 when out of memory.
int dv_life_make(dv_life *out, const dv_plan *plan,
                 const dv_scratch_rules *rules, const uint8_t *cuts,
                 dv_arena *arena);
// Returns the end op of a scratchpad home that is filled at op `first` and last
// read by op `use`; later than use + 1 if a repeat reads it again.
int32_t dv_life_end(const dv_life *l, int32_t first, int32_t use);
// Chooses scratchpad homes and assigns addresses. Homes and reports go to *out,
// allocated in the arena.
dv_status dv_scratch_solve(dv_scratch *out, const dv_plan *plan,
                           const dv_life *life, dv_arena *arena, dv_diag *diag);
// Changes divisions (slices of the ops) and deals (assignments of tiles to
// cores) of the plan so that more operands are found on their cores (joint.c):
// op by op following the operands, or by a search as in Torch-Spyre. Scratchpad
// homes are not changed.
dv_status dv_joint_follow(dv_plan *plan, const dv_scratch_rules *rules,
                          dv_arena *arena, dv_diag *diag);
dv_status dv_joint_seed(dv_plan *plan, const dv_scratch_rules *rules,
                        dv_diag *diag);
// Returns the plan's predicted time in microseconds, given its scratchpad
// homes.
double dv_joint_us(const dv_plan *plan);
// Chooses scratchpad homes and forms groups for the plan as it is divided;
// dv_scratch_improve also tries other orders of ops and recomputation
// (improve.c).
dv_status dv_scratch_choose_homes(dv_plan *plan, const dv_scratch_rules *rules,
                                  dv_arena *arena, dv_diag *diag);
dv_status dv_scratch_improve(dv_plan *plan, const dv_scratch_rules *rules,
                             dv_arena *arena, dv_diag *diag);

// A saved plan that can be restored; its groups must have one op each.
typedef struct dv_plan_snapshot {
    dv_plan plan;
    dv_program program;
    dv_repeat *repeats;
    dv_group *groups;
    int64_t **slices;
} dv_plan_snapshot;
int dv_plan_snapshot_save(dv_plan_snapshot *f, dv_plan *plan, dv_arena *arena);
void dv_plan_snapshot_restore(const dv_plan_snapshot *f, dv_plan *plan);
// Reorders ops so that fewer bytes are live (order.c). Returns 1 if the order
// changed, 0 if not, -1 when out of memory.
int dv_reorder(dv_plan *plan, const dv_life *life);
// Runs the op that writes a tensor a second time, for the late readers of the
// tensor. Returns 1 if the plan changed, 0 if not, -1 when out of memory.
int dv_recompute(dv_plan *plan, const dv_life *life, int32_t tensor);
// Renumbers tensors and renames ops as they are printed, once a reordering or
// recomputation is accepted.
dv_status dv_reorder_finish(dv_plan *plan, dv_diag *diag);

// Builds the table s that dv_home_of reads (which scratchpad home every access
// of every op uses) from the lists of ops that read each home. Returns 0 when
// out of memory.
int dv_scratch_index(dv_scratch *s, const dv_plan *plan, dv_arena *arena);
#endif
