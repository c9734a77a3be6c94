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
// If the cores are connected by a ring, other ops read a home as well: while
// such an op runs, the parts of the tensor pass all cores, and each takes what
// it needs (passed_to). In the same way, what several cores need from main
// memory is read once and passed on (shares).
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
// A group in which some core has several tiles loops over tiles: the core runs
// all ops of the group for a tile, then for the next. A home of such a group
// holds one tile at a time and lives inside the group. An op whose reduction is
// cut into the tiles of one core sums up its parts in a home of accumulators,
// which lives as long as the group. Any other home that ops
// of the group read is filled before it and lives until its end, as with a
// repeat.
//
// life.c finds the candidates for homes; dv_place chooses among them and
// assigns addresses (solve.c).
//
//   life.c     computes live ranges and finds candidates for homes
//   solve.c    chooses homes among the candidates and assigns addresses
//   answer.c   asks the caller's solver for addresses and checks its answer
//   share.c    what cores receive over the ring while an op runs
//   homes.c    chooses homes for a plan and merges its ops into groups
//   pass.c     the pass "scratch" and its section of the plan
#ifndef DV_SCRATCH_H
#define DV_SCRATCH_H
#include "divvy/place.h"
#include "group/group.h"
#include "plan/view.h"

// What the planning options allow the pass scratch to do.
typedef struct dv_scratch_rules {
    // `off`: no tensor becomes resident in the scratchpads. `reductions`: only
    // results of reductions do.
    int off, reductions;
    int in_place, clones, ring, evict, reorder, recompute;
    // 1 if cores may loop over several tiles of a group; homes (resident
    // tensors) then hold one tile at a time.
    int tiles;
    // 1 if other programs use the scratchpads too, so that their contents are
    // lost at the end of each group of ops.
    int tenants;
    dv_solver solver;
    int64_t budget;
    double time_limit_s;
    // Tensors and ops that the caller bars from the scratchpads (plan/bar.c).
    const char *const *bars;
    size_t n_bars;
    // The caller's solver for addresses, or NULL.
    dv_placer place;
    void *place_user;
    // 1 if there are no reports on why candidates are resident or not, because
    // the plan is only compared with others.
    int unreported;
    // Where dv_joint_assess records the plans whose time it predicts, or NULL.
    struct dv_joint_tried *tried;
} dv_scratch_rules;

typedef struct dv_cand {
    int32_t tensor, as_op, as_access;
    int32_t first_op, end_op;
    dv_home_fill fill;
    // If the candidate is a copy over the ring, the network between cores
    // (DV_FILL_RING): the candidate that it is a copy of.
    int32_t from;
    int64_t core_bytes;
    // Bytes of main memory traffic saved if the tensor is resident in the
    // scratchpads, minus the cost of what cores receive from each other, in
    // bytes of main memory traffic that take as long.
    int64_t gain_bytes;
    // The ops that would read this candidate from the scratchpad: n_uses
    // entries of the array `uses` of all candidates, from index `uses` on.
    int32_t uses, n_uses;
    // The ops to which the tensor would be passed over the ring: n_passes
    // entries of the same array, from index `passes` on.
    int32_t passes, n_passes;
    // If the op that writes the tensor fills the scratchpads (DV_FILL_WRITTEN):
    // nonzero if the tensor is needed in main memory as well.
    int stored;
    // Candidates with the same number become resident all or none; 0:
    // independent of others.
    int32_t group;
    int32_t parent[2], n_parents;
    // 1 + the number of a tensor whose bytes this one could reuse if the target
    // allowed the op that writes it to work in place; 0: none.
    int32_t denied;
    const char *barred; // reason why it cannot be resident, or NULL
} dv_cand;

typedef struct dv_life {
    const dv_plan *plan;
    const dv_scratch_rules *rules;
    dv_arena *arena;
    int32_t *loop_of; // per op: the innermost repeat around it, or -1
    int32_t *loop_in; // per repeat: the repeat around it, or -1
    int32_t *externs; // per op: number of extern (opaque) ops before it
    // Per op: first op and end of the loop over tiles that it runs in, or -1.
    int32_t *tile_first, *tile_end;
    double *times;    // per op: how often it is executed
    int32_t *read_at; // per tensor: index of its first reading op in `reads`
    int32_t *reads;   // reading ops of all tensors, each op once per tensor
    int32_t *def;     // per tensor: the op that defines it, or -1
    // Per op: why neither its operands nor its result may be resident for it,
    // as a predicate of the op ("is barred"); NULL: they may be.
    const char **apart;
    // Cache of dv_life_read_bytes: taken[taken_at[op] + k] is its value for
    // access k of an op, or -1 if it was not computed yet.
    int32_t *taken_at;
    int64_t *taken;
    uint8_t *updated;
    dv_cand *cands;
    int32_t n_cands, cap_cands;
    int32_t *uses;
    int32_t n_uses, cap_uses;
    // Per op: the number of its run, that is of the consecutive ops that may
    // form one group with it. Only set if scratchpads are wiped after each
    // group.
    int32_t *run_of;
    int nomem;
} dv_life;

// Finds all candidates: tensors that could be resident in the scratchpads, and
// when. `cuts` is NULL or marks ops at whose start none may be resident, which
// is needed if scratchpads are wiped at the end of each group. Returns 0 when
// out of memory.
int dv_life_make(dv_life *out, const dv_plan *plan,
                 const dv_scratch_rules *rules, const uint8_t *cuts,
                 dv_arena *arena);
// Returns the bytes that read k of an op takes from main memory if its tensor
// is not resident. For the op's write (k = n_reads), returns the bytes that the
// cores would load to get back the result that they wrote.
int64_t dv_life_read_bytes(const dv_life *l, int32_t op, int k);

// Returns the bytes of main memory that a candidate loads which is filled from
// there and has the view `v` (the box on each core).
double dv_life_load_bytes(const dv_life *l, const dv_cand *c, const dv_view *v);

// What the cores receive over the ring while an op runs (share.c).
//
// dv_can_share returns whether access r of an op is a read that can be received
// over the ring, so that main memory sends every element once; dv_can_pass,
// whether it can be received from the cores that hold the tensor.
int dv_can_pass(const dv_plan *plan, const dv_scratch_rules *rules, int32_t op,
                int r);
int dv_can_share(const dv_plan *plan, const dv_scratch_rules *rules, int32_t op,
                 int r);
// Returns the bytes that main memory, or the cores that hold the tensor, send
// for read r of an op if every element is sent once; in a loop over tiles, once
// for every round in which some tile needs it.
int64_t dv_received_bytes(const dv_plan *plan, int32_t op, int r);
// Returns the number of tiles that need the same elements in read r of an op at
// the same time, if it can be shared.
int64_t dv_sharers(const dv_plan *plan, int32_t op, int r);
// Returns the cost of passing these bytes by all cores along the ring: the time
// beyond that which the op takes anyway to compute and to read the program's
// inputs, converted to bytes that main memory could transfer in that time.
double dv_pass_price(const dv_plan *plan, int32_t op, int64_t bytes);
// Chooses which operands ops read from main memory once for all cores: those
// for which the ring is no slower than the reads that it saves. Returns 0 when
// out of memory.
int dv_share_reads(dv_scratch *s, const dv_plan *plan,
                   const dv_scratch_rules *rules, dv_arena *arena);

// Chooses which candidates become resident in the scratchpads (homes) and
// assigns their addresses. Homes and reports go to *out, allocated in the
// arena.
dv_status dv_scratch_solve(dv_scratch *out, const dv_plan *plan,
                           const dv_life *life, dv_arena *arena, dv_diag *diag);
// Places buffers with the caller's solver (rules->place) and checks its answer
// (answer.c). Missing fields of *out are filled in; they are allocated in the
// arena, the others belong to the solver.
dv_status dv_scratch_answer(dv_placement **out, const dv_scratch_rules *rules,
                            const dv_buffer *buffers, size_t n,
                            const dv_place_options *options, dv_arena *arena,
                            dv_diag *diag);
// Returns what the options allow on the plan's target.
dv_scratch_rules dv_scratch_rules_of(const dv_plan *plan,
                                     const dv_plan_options *options);
// Begins section `scratch`, without any home (resident tensor). Returns whether
// tensors can be resident: the target has memories near its cores, and the
// rules allow it.
int dv_scratch_begin(dv_plan *plan, const dv_scratch_rules *rules);
// Chooses which tensors are resident in the scratchpads and forms groups of ops
// for the plan as it is divided (homes.c).
dv_status dv_scratch_choose_homes(dv_plan *plan, const dv_scratch_rules *rules,
                                  dv_arena *arena, dv_diag *diag);
// Stores in section `scratch` how much traffic its homes (resident tensors)
// save.
void dv_scratch_count_saved(dv_plan *plan);

// Builds the table by which dv_home_of finds, for every access of every op, the
// home (resident tensor) that it uses, from the lists of ops that read each
// home. Returns 0 when out of memory.
int dv_scratch_index(dv_scratch *s, const dv_plan *plan, dv_arena *arena);
// Enters the reads that get their operand from main memory once for all cores
// (dv_share_reads) in the table of dv_ring_of. Returns 0 when out of memory.
int dv_scratch_index_shares(dv_scratch *s, const dv_plan *plan,
                            dv_arena *arena);
#endif
