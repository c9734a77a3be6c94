// The scratch level: which tensors stay on the cores, when and where.
//
// A home is a tensor in the scratchpads for a run of ops, each core having the
// box that one op's view gives it. It is filled by the op that writes the
// tensor, by a load from main memory, by a copy from other cores' homes, or by
// a move; ops whose cores need no more than they have read it there. Main
// memory is spared those reads, and the write when nobody reads it there.
//
//   op        0    1    2    3    4
//   x loaded  [---------)
//   d         .    [---------)            in place of x: op 1 reads x last
//   m         [---------)
//
// Ops are ticks. A home is alive from the start of its first op to the start of
// its end op. One that is read in a repeat and filled before lives to the end
// of the repeat; an extern op wipes all scratchpads.
//
// Candidates are what could be a home (life.c); dv_place chooses among them and
// gives addresses (solve.c); homes follow from that.
//
//   life.c     computes live ranges and finds candidates for homes
//   solve.c    chooses homes among the candidates and gives them addresses
//   joint.c    divides ops so that they find operands on their core
//   order.c    reorders ops, recomputes tensors for late readers
//   improve.c  tries orders and recomputation, keeps what saves traffic
//   pass.c     the pass "scratch" and its section of the plan
#ifndef DV_SCRATCH_H
#define DV_SCRATCH_H
#include "group/group.h"
#include "plan/view.h"

// What may be done; from the options.
typedef struct dv_scratch_rules {
    int off, reductions; // nothing stays, or only what a reduction leaves
    int in_place, clones, ring, evict, reorder, recompute;
    int tenants; // nothing survives the end of a group
    const char *solver;
    int64_t budget;
    double time_limit_s;
} dv_scratch_rules;

typedef struct dv_cand {
    int32_t tensor, as_op, as_k;
    int32_t first_op, end_op;
    dv_home_fill fill;
    int32_t from; // RING: candidate it comes from
    int64_t core_bytes;
    int64_t gain_bytes;   // of main memory, when it is a home
    int64_t price_bytes;  // taken off that for a copy over the ring
    int32_t uses, n_uses; // in life->uses: ops that would read it
    int stored;           // WRITTEN: main memory needs it all the same
    int32_t group;        // with these or not at all; 0: alone
    int32_t parent[2], n_parents;
    const char *barred; // why not, or NULL
} dv_cand;

typedef struct dv_life {
    const dv_plan *plan;
    const dv_scratch_rules *rules;
    dv_arena *arena;
    int32_t *loop_of; // by op: the innermost repeat around it, or -1
    int32_t *loop_in; // by repeat: the one around it, or -1
    int32_t *externs; // extern ops before op i
    double *times;    // by op: how often it runs
    int32_t *read_at; // by tensor: where its reading ops begin in `reads`
    int32_t *reads;   // ops, each once per tensor
    int32_t *def;     // by tensor: the op that writes it, or -1
    uint8_t *updated;
    dv_cand *cands;
    int32_t n_cands, cap_cands;
    int32_t *uses;
    int32_t n_uses, cap_uses;
    int32_t *run_of; // by op, with tenants: which run of ops; else NULL
    int nomem;
} dv_life;

// Find all candidates. 0 when out of memory. `cuts` NULL or, with tenants, by
// op: nothing survives its start.
int dv_life_make(dv_life *out, const dv_plan *plan,
                 const dv_scratch_rules *rules, const uint8_t *cuts,
                 dv_arena *arena);
// When a home that is filled at `first` may go, if op `use` reads it last.
int32_t dv_life_end(const dv_life *l, int32_t first, int32_t use);
// Choose and place; homes and reports go to out, their memory to the arena.
dv_status dv_scratch_solve(dv_scratch *out, const dv_plan *plan,
                           const dv_life *life, dv_arena *arena, dv_diag *diag);
// Divide again with an eye on what stays on the cores (joint.c); the divisions
// and deals of the plan change, its homes do not.
dv_status dv_joint_follow(dv_plan *plan, const dv_scratch_rules *rules,
                          dv_arena *arena, dv_diag *diag);
dv_status dv_joint_seed(dv_plan *plan, const dv_scratch_rules *rules,
                        dv_diag *diag);
// Microseconds that the plan takes by its cost model, homes counted.
double dv_joint_us(const dv_plan *plan);
// Homes and groups for the plan as it is divided, and the same with other
// orders tried as well (improve.c).
dv_status dv_scratch_keep(dv_plan *plan, const dv_scratch_rules *rules,
                          dv_arena *arena, dv_diag *diag);
dv_status dv_scratch_improve(dv_plan *plan, const dv_scratch_rules *rules,
                             dv_arena *arena, dv_diag *diag);

// -- Other orders (order.c) ------------------------------------------------

// A plan as it was, to be put back; its groups are of one op each.
typedef struct dv_fork {
    dv_plan plan;
    dv_program program;
    dv_repeat *repeats;
    dv_group *groups;
    int64_t **slices;
} dv_fork;
int dv_fork_save(dv_fork *f, dv_plan *plan, dv_arena *arena);
void dv_fork_restore(const dv_fork *f, dv_plan *plan);
// Put ops into an order that keeps less alive. 1 done, 0 nothing to do, -1 out
// of memory.
int dv_reorder(dv_plan *plan, const dv_life *life);
// Compute a tensor a second time for its late readers; the same.
int dv_recompute(dv_plan *plan, const dv_life *life, int32_t tensor);
// Once such a change stays: number and name everything as it is printed.
dv_status dv_reorder_settle(dv_plan *plan, dv_diag *diag);

// Which home every access takes, from the homes' readers. 0 when out of
// memory.
int dv_scratch_index(dv_scratch *s, const dv_plan *plan, dv_arena *arena);
#endif
