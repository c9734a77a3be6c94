// The plan: a program, a target, and one section per level that says how the
// program is divided for the target.
//
// The unit of execution is the group: consecutive ops that share one tile
// space. Its tiles are dealt (assigned) to cores; each core loops over its
// tiles and runs the group's ops in order for each tile.
//
//   op c  vars m 0..6, n 0..8     slices m 2, n 8  ->  tiles 0 1 2
//   group tiles 3                 core 0: 0..2         m 0..2, m 2..4
//                                 core 1: 2..3         m 4..6
//
// Tile number t of an op is the box whose slice numbers are the digits of t in
// mixed radix, the last variable being the least significant; a plan may give
// the digits of an op another order (dv_plan.digits). The last slice of a
// variable may be shorter.
//
// Invariants (docs/invariants.md): G1 groups contain all ops, in order, each
// once; G2 all ops of a group have the group's number of tiles; G3 every tile
// is dealt once, to a core that the target has; G4 no group crosses the
// boundary of a repeat, and an extern op is alone in its group and runs whole
// on one core. If a reduced variable is sliced, the tiles that differ only in
// it are partial results of one output box and are combined in their order. A
// plan owns its target, its ops and its arena; dv_plan_destroy frees all of
// them.
//
//   plan.h          the plan as data; the next two have sections of their own:
//   loops.c         the loops of a product's tiles in section "schedule"
//   schedule.[ch]   section "schedule": kernels, loops, order of additions
//   team.h          section "dist": a team of ranks
//   pass.def        lists the passes in running order
//   snapshot.c      saves and restores what planning changes in a plan
//   pipeline.c      runs, verifies, times and dumps the passes
//   lower.c join.c  the pass "lower"; concatenations in place
//   ahead.c         puts ops before the chains of ops that they interrupt
//   source.[ch]     section "source": the program as written
//   json.c          prints a plan as JSON
//   stride_splits.[ch]  divisions as Torch-Spyre stores them, keyed by stride
//   bar.c           what the caller keeps off the cores
//   pins.[ch]       finds the ops and variables that pins name
//   cost.[ch]       estimates the cost of a division in microseconds
//   traffic.[ch]    counts the elements that a plan moves, by formula
//   price.[ch]      predicts the time of a group and of the whole plan
//   timeline.[ch]   when groups and ops run, and on which cores
//   json.h          prints a plan within the JSON of a report
//   order.[ch]      traversal orders of the tiles of a matrix
//   tiles.[ch]      the tiles of groups that run by their grid
//   view.[ch]       which box of a tensor each core holds
//
// Other folders may also include: cost.h, json.h, order.h, pins.h, price.h,
// stride_splits.h, tiles.h, timeline.h, traffic.h, view.h
#ifndef DV_PLAN_H
#define DV_PLAN_H
#include "divvy/dist.h"
#include "plan/schedule.h"
#include "plan/team.h"
#include "target/target.h"

// A range of a group's tiles that is dealt (assigned) to a core: the core runs
// tiles first_tile to first_tile + n_tiles - 1, in order.
typedef struct dv_deal {
    int64_t core, first_tile, n_tiles;
} dv_deal;

typedef struct dv_group {
    int32_t first_op, end_op;
    int64_t n_tiles;
    dv_deal *deals;
    int32_t n_deals;
    // Summary of the deals, set by dv_group_note_deals: whether cores loop over
    // tiles, because some core has several; whether deal number i is the only
    // one of core i, for all i; and the number of tiles that are dealt.
    uint8_t loops, in_order;
    int64_t n_dealt;
    // 1 if scratchpad contents must survive the end of the group (ops that
    // share one tile space).
    int non_terminal;
    // 1 if the group runs once, before the first run, and its results are kept
    // for all runs.
    int once;
    // While the pass scratch decides: 1 if the group belongs to the same loop
    // over tiles as the group before it, with which it will be merged.
    int same_loop;
    // If not DV_DEALT, cores fetch tiles at run time, `chunk` at a time: from
    // one shared counter (DV_TICKET), or from per-core queues with work
    // stealing (DV_STEAL). The deals (tiles of each core) then only give each
    // core's first tiles.
    enum { DV_DEALT, DV_TICKET, DV_STEAL } queue;
    int64_t chunk;
    // For reports: 1 if the next op was not merged into the group because the
    // two would touch more tensors than the target allows (group_tensors).
    int full;
    uint32_t off; // byte offset in the text of a parsed plan
} dv_group;

enum { DV_MAX_DEVICE_DIMS = DV_MAX_DIMS + 2 };

// How a tensor is stored in the target's memory; see layout/layout.h. A stick
// is the smallest unit of that memory, e.g. 128 bytes.
typedef struct dv_layout {
    // Number of dims of the array in the target's memory (device dims),
    // outermost first. A dim of the tensor that is divided into blocks has
    // several device dims.
    int32_t n_dims;
    // For each device dim, the dim of the tensor (host dim) that it is a part
    // of; -1 if it is none, as the padding of a stick with a single element.
    int32_t host[DV_MAX_DEVICE_DIMS];
    int64_t size[DV_MAX_DEVICE_DIMS];
    // For each device dim, the distance of one step in elements of the
    // row-major tensor; -1 if it steps through no elements.
    int64_t stride[DV_MAX_DEVICE_DIMS];
    // The dim of the tensor that is divided into sticks (the target's units of
    // memory), or -1.
    int32_t stick_dim;
    int32_t sparse; // 1 if each stick holds one element
    // Number of innermost device dims that count elements inside a stick (1) or
    // a tile (2).
    int32_t n_inner;
    int64_t eps; // elements per stick, or columns of a tile
    int64_t elem_bytes;
    int64_t n_elems, bytes; // number of elements and bytes, including padding
} dv_layout;

// Results of the pass divide (which cuts the variables of an op into slices)
// for one op besides the slices, for reports.
typedef struct dv_division {
    double cost_us;
    int64_t candidates; // number of divisions whose cost was computed
    int pinned;         // 1 if the user fixed this division
    // Number of the first op that has the same shape as this one; may be this
    // op.
    int32_t like;
    // 1 if the op is divided like other ops that touch its tensors, so that
    // each core computes with elements that it already holds.
    int followed;
    // For each variable, the number of slices that the span limit alone
    // requires (the limit on the bytes of a tensor that one core can address).
    int64_t *forced;
    // For each access (reads in order, then the write), the bytes of its tensor
    // that one core addresses.
    int64_t *spans_bytes;
    // For each access, the bytes that one core would address if the op were not
    // divided.
    int64_t *whole_bytes;
    // Slices of the second best division, or NULL. If a later pass divided the
    // op otherwise (`followed`), those of the best one.
    int64_t *runner;
    double runner_up_us;
    // Number of whole plans that pass joint compared with this one and that cut
    // the op otherwise; and by how much the best of them takes longer and moves
    // more bytes through main memory.
    int64_t n_otherwise;
    double otherwise_us, otherwise_bytes;
    // Number of divisions excluded by the span limit (the bytes of a tensor
    // that one core can address).
    int64_t over_span;
    double compute_us, memory_us, combine_us; // the terms of cost_us
    // For each variable, the reason why it must not be divided, or NULL.
    const char **why_undivided;
} dv_division;

// How a home (the place of a resident tensor in the scratchpads of the cores)
// gets its data.
typedef enum dv_home_fill {
    DV_FILL_WRITTEN, // the home's first op writes the tensor into it
    DV_FILL_LOADED,  // loaded from main memory before the first op
    DV_FILL_RING,    // copied from the scratchpads of other cores
    DV_FILL_MOVED,   // copied within the scratchpad of each core
    // The accumulators of op as_op, which sums up parts of its results in the
    // rounds of a loop over tiles; a result goes to main memory with its last
    // part.
    DV_FILL_SUMMED,
} dv_home_fill;

// A home: a tensor that is resident in the scratchpads for some consecutive
// ops, at the same address on all cores; see scratch/scratch.h.
typedef struct dv_home {
    int32_t tensor;
    // Lifetime: from the start of first_op to the start of end_op.
    int32_t first_op, end_op;
    int64_t address, core_bytes;
    dv_home_fill fill;
    // Each core holds the box of the tensor that op as_op accesses on this
    // core: by its write of the tensor, or by its first read if it does not
    // write it.
    int32_t as_op;
    // The home (resident tensor) that this one is copied from if `fill` is
    // DV_FILL_RING (from other cores) or DV_FILL_MOVED (on the same core).
    int32_t from;
    int32_t in_place_of; // another home whose memory it takes over, or -1
    int stored;          // 1 if the tensor is also stored to main memory
    // For a home (resident tensor) that is loaded: 1 if elements that several
    // cores need are read from main memory once and passed on along the ring.
    int shared;
    int32_t *readers; // ops that read the tensor in the scratchpads
    int32_t n_readers;
    // Ops whose cores read the tensor in each other's scratchpads: while such
    // an op runs, every part of the tensor passes all cores along the ring.
    int32_t *passed_to;
    int32_t n_passed_to;
    uint32_t off; // byte offset in the text of a parsed plan
} dv_home;

// Returns whether a home (resident tensor) is filled by a transfer: by a load
// from main memory or a copy, not by the op that writes the tensor.
static inline int dv_home_is_transferred(const dv_home *h)
{
    return h->fill != DV_FILL_WRITTEN && h->fill != DV_FILL_SUMMED;
}

// A tensor that ops read from main memory once for all cores: the first core
// that needs an element reads it and passes it on along the ring (see
// dv_tile_fetches).
typedef struct dv_shared_read {
    int32_t tensor;
    int32_t *ops;
    int32_t n_ops;
    uint32_t off; // byte offset in the text of a parsed plan
} dv_shared_read;

// Values of dv_scratch.ring_of that are no number of a home: nothing is
// received; a tensor is read from main memory once for all cores.
enum { DV_RING_NONE = -1, DV_RING_MEMORY = -2 };

// Report of the pass scratch on one tensor, whether it is resident (kept in
// scratchpads) or not.
typedef struct dv_resident {
    // `home` is -1 if the tensor is not resident; `reason` then says why.
    int32_t tensor, home;
    int32_t first_op, end_op;
    int64_t core_bytes, saved_bytes;
    // 1 if the tensor could be resident (kept in scratchpads) but did not fit.
    int crowded;
    // Number of a tensor whose scratchpad bytes this one could reuse if the
    // target's property in_place allowed that, or -1.
    int32_t denied;
    const char *reason;
} dv_resident;

typedef struct dv_scratch {
    int64_t capacity_bytes;
    const char *solver;
    // 1 if other programs use the scratchpads as well, so that their contents
    // are lost at every boundary between groups (ops that share one tile
    // space).
    int tenants;
    // 1 if the time limit ended the search for divisions and resident tensors.
    int cut_short;
    dv_home *homes;
    int32_t n_homes;
    // home_of[op][k] is the home (resident tensor) from which access k (reads,
    // then the write) takes its tensor, or -1 for main memory. NULL for an op
    // that uses no home.
    int32_t **home_of;
    // Tensors that ops read from main memory once for all cores.
    dv_shared_read *shares;
    int32_t n_shares;
    // ring_of[op][r] says what read r receives over the ring: the number of a
    // home (resident tensor) in other cores' scratchpads, DV_RING_MEMORY for a
    // tensor that is read from main memory once for all cores, or DV_RING_NONE.
    // NULL for an op that receives nothing.
    int32_t **ring_of;
    // Homes (resident tensors) sorted by their first op: op i fills the homes
    // fill_order[fill_at[i]] up to fill_order[fill_at[i + 1] - 1]: moves within
    // a core first, then copies between cores, then loads.
    int32_t *fill_at, *fill_order;
    // One report per tensor on whether it is resident in scratchpads and why
    // not; empty in a plan that was read from text.
    dv_resident *residents;
    int32_t n_residents;
    // Bytes of main-memory traffic that the resident tensors save.
    int64_t saved_bytes;
} dv_scratch;

// The part of a group's result that the core at column x, row y of the grid
// computes: tiles first..first+n in the traversal order, and of the sum of each
// tile the steps k0..k1; or a rectangle of tiles; or one shard.
typedef struct dv_tile_range {
    int64_t x, y, first, n;
    // Range of steps along the reduced dimension, in tiles; smaller than 0..kt
    // if the core computes a partial sum of one tile.
    int64_t k0, k1;
    // With policy rect, which gives each core a rectangle of tiles: its range
    // of tile rows and tile columns, the same in every batch.
    int64_t m0, m1, n0, n1;
    // With local_shard: row and column of the shard, the part of the tensor
    // that the core's scratchpad holds.
    int64_t sy, sx;
} dv_tile_range;

// How the result of a group is divided into the machine's tiles (e.g. 32x32
// elements) and distributed over its grid of cores; see grid/grid.h. Core
// numbers run row by row over the grid (dv_target_core).
typedef struct dv_group_grid {
    int32_t group, tensor;
    // 1 if each core computes its shard: the part of the tensor that its own
    // scratchpad holds.
    int local_shard;
    int64_t batch, mt, nt, kt;
    // With local_shard: how many rows and columns of shards (one per core) the
    // tensor is divided into, and how many tile rows and columns one shard has.
    int64_t gy, gx, sm, sn;
    // Name of the order in which tiles are visited (plan/order.h); row_major
    // for shards.
    const char *order;
    // If the order is `list`: its mt * nt tiles, as row * nt + column.
    const int32_t *list;
    // Name of the rule by which tiles go to cores (a policy of grid/grid.h);
    // static for shards.
    const char *policy;
    // 1 if the policy is rect: each core computes a rectangle of tiles.
    int rect;
    dv_tile_range *ranges;
    int32_t n_ranges;
    uint32_t off; // byte offset in the text of a parsed plan
} dv_group_grid;

enum {
    DV_FACT_LOWERED = 1,      // plan->ops is set
    DV_FACT_GROUPED = 2,      // plan->groups and slices are set
    DV_FACT_LAID_OUT = 4,     // plan->layouts is set
    DV_FACT_DIVIDED = 8,      // plan->slices and divisions are set
    DV_FACT_PLACED = 16,      // plan->scratch is set
    DV_FACT_DISTRIBUTED = 32, // plan->team is set
    DV_FACT_GRIDDED = 64,     // plan->grids is set
    DV_FACT_SCHEDULED = 128,  // plan->schedule is set
    DV_FACT_RANKS = 256,      // plan->classes is set
};

typedef enum dv_pass_id {
#define PASS(name, section, needs, gives, about) DV_PASS_##name,
#define PASSES(name, needs, gives, about)        DV_PASS_##name,
#include "plan/pass.def"
#undef PASS
#undef PASSES
    DV_N_PASSES
} dv_pass_id;

// Ranks of a team whose programs are equal, and the plan that they share.
typedef struct dv_rank_class {
    int64_t *ranks; // in increasing order
    int32_t n_ranks;
    dv_plan *plan;       // owned
    const char *program; // text of their program before it is planned; NULL in
                         // a plan that was read
    uint32_t off;        // byte offset in the text of a parsed plan
} dv_rank_class;

struct dv_plan {
    dv_arena arena;
    // The text that the plan was parsed from; empty if it was created from a
    // program.
    dv_source src;
    dv_target target; // the target, restricted to the cores in use
    uint32_t facts;
    // Run time of each pass; negative if it did not run.
    double pass_ms[DV_N_PASSES];
    // The statements of the program as written, with numbers in place of
    // params, in the arena; NULL if not known.
    const char *source;
    dv_program *ops; // set by pass lower: the lowered program, owned
    // Names of the ops of the source that reach no output, which the pass lower
    // therefore left out of `ops`. Only reports to the user read this list.
    const char **removed;
    int32_t n_removed;
    // Names of the tensors of the source that only rename or concatenate
    // elements of others, and that the pass lower removed: their readers read
    // the others in place. Only reports to the user read this list.
    const char **views;
    int32_t n_views;
    // Set by pass dist: the distribution over ranks (processes).
    dv_plan_team team;
    dv_layout *layouts; // set by pass layout: one layout per tensor
    // 1 if the choice of stick dims (the dim of each tensor that is cut into
    // sticks, the target's units of memory) is optimal; 0 if not all choices
    // were tried.
    int sticks_exact;
    // Set by pass divide: the number of rings along which cores pass operands
    // that several of them need; each ring reads these from main memory once. 0
    // if operands are not passed.
    int64_t shares;
    // Set by pass divide: the planner that was used (best, seed, seed+cost, or
    // a word from a plan that was read).
    const char *divide_method;
    // slices[op][var] is the number of values of the variable in one slice.
    int64_t **slices;
    // digits[op] lists the variables of an op whose slice numbers are the
    // digits of a tile's number, the most significant first; NULL for an op, or
    // for all of them: the variables in their order, as always on machines with
    // caches.
    const int8_t **digits;
    // Reports on how each op was divided, one per op; NULL in a plan that was
    // read from text.
    dv_division *divisions;
    // Set by pass group: the groups (ops that share one tile space), in order.
    dv_group *groups;
    int32_t n_groups;
    // Set by pass scratch: the tensors that are resident in scratchpads.
    dv_scratch scratch;
    // Set by pass grid: which core computes which tiles, for each group (ops
    // that share one tile space) whose result is stored in tiles.
    dv_group_grid *grids;
    int32_t n_grids;
    // Set by pass schedule: the kernel and loops of each op. Empty if the
    // target is not the machine that divvy runs on.
    dv_schedule schedule;
    // Set by pass ranks, in the plan of a team: the plans of its ranks. The
    // team's plan itself then has no result of a later pass.
    dv_rank_class *classes;
    int32_t n_classes;
    // Options for planning the ranks again when they run, such as the pins (the
    // user's choices); NULL if there are none.
    const dv_plan_options *rank_options;
    // In the plan of a rank of a team: the team's program, borrowed, and
    // for each op the op of that program of which it computes a part, or -1.
    const dv_program *team_program;
    const int32_t *team_ops;
};

// The op from which the order of additions and the loops of kernels are chosen:
// the op itself or, in the plan of a rank, the op of the team's program of
// which it computes a part, so that results have the same bits on any team.
typedef struct dv_whole_op {
    const dv_program *p;
    const dv_op *op;
    int32_t number;
} dv_whole_op;
static inline dv_whole_op dv_plan_whole_op(const dv_plan *plan, int32_t op)
{
    int32_t whole = plan->team_ops ? plan->team_ops[op] : -1;
    const dv_program *p = whole < 0 ? plan->ops : plan->team_program;
    int32_t number = whole < 0 ? op : whole;
    return (dv_whole_op){p, &p->ops[number], number};
}

// For passes that add or reorder ops of a plan, which may be that of a rank:
// old[i] is the number that op i had before, or -1 if it is new. Returns 0 if
// out of memory.
int dv_plan_renumber_team_ops(dv_plan *plan, const int32_t *old, int32_t n);

// Makes every variable of every op a single slice, for plans that are not
// divided.
dv_status dv_plan_whole_slices(dv_plan *plan, dv_diag *diag);
// The box of variable values of one tile of an op; and for each variable the
// number of the tile's slice, the number of slices, and by how much the numbers
// of tiles with consecutive slices differ.
typedef struct dv_tile {
    int64_t begin[DV_MAX_VARS], end[DV_MAX_VARS];
    int64_t slot[DV_MAX_VARS], n_slots[DV_MAX_VARS], weight[DV_MAX_VARS];
} dv_tile;
// Returns the variable whose slice numbers are digit k of the tile numbers of
// an op; digit 0 is the most significant.
static inline int dv_plan_digit(const dv_plan *plan, int32_t op, int k)
{
    const int8_t *order = plan->digits ? plan->digits[op] : NULL;
    return order ? order[k] : k;
}
void dv_plan_tile(dv_tile *out, const dv_plan *plan, int32_t op, int64_t tile);
// Changes *t, a tile of the op, to the op's tile number `tile`; recomputes only
// what differs between tiles.
void dv_plan_other_tile(dv_tile *t, const dv_plan *plan, int32_t op,
                        int64_t tile);
// If a reduced variable is sliced, the tiles that differ only in reduced
// variables compute parts (partial results) of the same elements. dv_tile_part
// returns the number of the part that a tile computes, and sets *n_parts to the
// number of parts; dv_tile_of_part returns the tile that computes part number
// `part` of the same elements.
int64_t dv_tile_part(const dv_op *o, const dv_tile *t, int64_t *n_parts);
int64_t dv_tile_of_part(const dv_op *o, const dv_tile *t, int64_t part);
// Returns the number of slices that a variable of an op is cut into.
int64_t dv_plan_n_slices(const dv_plan *plan, int32_t op, int v);
// Returns the number of tiles that the slices of an op make, or 0 on overflow.
int64_t dv_plan_n_tiles(const dv_plan *plan, int32_t op);
// Returns whether the tiles of an op are partial sums: a reduced variable is
// cut into slices.
int dv_plan_splits_reduction(const dv_plan *plan, int32_t op);
// Returns whether, in a group whose cores loop over tiles, each core computes
// all partial sums of its results of the op itself, one after the other.
int dv_sums_in_rounds(const dv_plan *plan, const dv_group *g, int32_t op);

// Deals (assigns to cores) the tiles of op i, which is alone in its group: one
// tile per core if there are enough cores, else ranges whose lengths differ by
// at most one.
dv_status dv_plan_deal(dv_plan *plan, int32_t i, dv_group *g, dv_diag *diag);

// Returns the group (ops that share one tile space) of an op.
int32_t dv_group_of(const dv_plan *plan, int32_t op);
// Returns the number of tiles per core of an op; all cores must have the same
// number.
int64_t dv_tiles_per_core(const dv_plan *plan, int32_t op);
// Returns whether two groups give every core the same tile numbers.
int dv_same_deals(const dv_group *a, const dv_group *b);
// Updates the fields of a group that summarise its deals (the ranges of tiles
// of each core). Must be called after the deals change.
void dv_group_note_deals(dv_group *g);
// Copies the deals (the ranges of tiles of each core) from another group, which
// must have the same number of tiles.
void dv_group_deal_like(dv_group *g, const dv_group *from);

// A saved plan that can be restored; its groups must have one op each.
typedef struct dv_plan_snapshot {
    dv_plan plan;
    dv_program program;
    dv_repeat *repeats;
    dv_group *groups;
    int64_t **slices;
    const int8_t **digits;
} dv_plan_snapshot;
int dv_plan_snapshot_save(dv_plan_snapshot *f, dv_plan *plan, dv_arena *arena);
void dv_plan_snapshot_restore(const dv_plan_snapshot *f, dv_plan *plan);

// What a pass (a step of planning) may use besides the plan itself.
typedef struct dv_pass_cx {
    const dv_program *source; // the program as written; borrowed
    const dv_plan_options *options;
    dv_diag *diag;
} dv_pass_cx;

typedef struct dv_pass {
    const char *name;
    const char *section; // NULL: it writes the sections of other passes
    uint32_t needs, gives;
    dv_status (*run)(dv_pass_cx *cx, dv_plan *plan);
    dv_status (*verify)(const dv_plan *plan, dv_diag *diag);
    void (*print)(dv_text *out, const dv_plan *plan);
    // Parses the section of a plan's text that this pass fills; the lexer is
    // after the section's name.
    dv_status (*read)(dv_plan *plan, dv_lexer *lx);
} dv_pass;

const dv_pass *dv_pass_get(dv_pass_id id);
// Returns the pass with this name, or -1.
int dv_pass_find(const char *name);

#define PASS(name, section, needs, gives, about)                               \
    dv_status dv_##name##_run(dv_pass_cx *cx, dv_plan *plan);                  \
    dv_status dv_##name##_verify(const dv_plan *plan, dv_diag *diag);          \
    void dv_##name##_print(dv_text *out, const dv_plan *plan);                 \
    dv_status dv_##name##_read(dv_plan *plan, dv_lexer *lx);
#define PASSES(name, needs, gives, about)                                      \
    dv_status dv_##name##_run(dv_pass_cx *cx, dv_plan *plan);                  \
    dv_status dv_##name##_verify(const dv_plan *plan, dv_diag *diag);
#include "plan/pass.def"
#undef PASS
#undef PASSES

// Checks the part of one rank (process) of a plan that dv_plan_check accepts.
// For a large team, dv_plan_check itself checks only the rank that the plan was
// made for.
dv_status dv_plan_check_rank(const dv_plan *plan, int64_t rank, dv_diag *diag);
// Returns whether pass dist (distribution over processes) must run: the options
// ask for a team of processes, or the plan has one that must be recomputed.
int dv_team_wanted(const dv_pass_cx *cx, const dv_plan *plan);
// Prints the plan's section `dist`, the distribution over processes, as JSON.
void dv_dist_json(struct dv_json *j, const dv_plan *plan);

// Returns the home (the place of a resident tensor in the scratchpads) from
// which access k of an op takes its tensor, or -1 for main memory.
static inline int32_t dv_home_of(const dv_plan *plan, int32_t op, int k)
{
    int32_t **homes = plan->scratch.home_of;
    return homes && homes[op] ? homes[op][k] : -1;
}

// Returns what read r of an op receives over the ring: the number of a home
// (resident tensor) in other cores' scratchpads, DV_RING_MEMORY or
// DV_RING_NONE.
static inline int32_t dv_ring_of(const dv_plan *plan, int32_t op, int r)
{
    int32_t **ring = plan->scratch.ring_of;
    return ring && ring[op] && r < plan->ops->ops[op].n_reads ? ring[op][r]
                                                              : DV_RING_NONE;
}

// What cores receive over the ring while a group runs. If its cores loop over
// tiles, all cores compute a tile at the same time, in rounds.
//
// dv_group_in_step returns whether the rounds of an op are regular: every core
// has equally many consecutive tiles, in the order of the cores, of which a
// core goes through the same slices of every variable.
int dv_group_in_step(const dv_plan *plan, const dv_group *g, int32_t op);
// Returns how many consecutive slices of variable v a core goes through in its
// n_tiles consecutive tiles, one of which is t, of an op with regular rounds
// (dv_group_in_step).
static inline int64_t dv_tile_turns(const dv_tile *t, int v, int64_t n_tiles)
{
    int64_t n = n_tiles / t->weight[v];
    return n < 1 ? 1 : n < t->n_slots[v] ? n : t->n_slots[v];
}
// Tiles that differ only in variables that an access does not depend on need
// the same elements in the same round. Of these tiles, the one with the lowest
// number fetches the elements for all; on a machine with several rings, for the
// tiles of its ring. Returns whether tile t fetches; `vars` are the variables
// that the access depends on (dv_access_vars).
int dv_tile_fetches(const dv_plan *plan, int32_t op, uint32_t vars,
                    const dv_tile *t);

// Returns the kernel and loops that the plan gives to an op; NULL if the plan
// has no section `schedule`.
static inline const dv_op_schedule *dv_op_scheduled(const dv_plan *plan,
                                                    int32_t op)
{
    int has = plan->facts & DV_FACT_SCHEDULED && plan->schedule.kernels;
    return has ? &plan->schedule.ops[op] : NULL;
}

// Returns whether a pin (a choice that the user prescribes) concerns the pass
// schedule: OP.kernel=KIND or OP.tile=VARIABLE:SIZE. All others are numbers of
// slices, for the pass divide.
int dv_pin_is_of_schedule(const char *pin);
// What the user's pins prescribe for how one op is computed.
typedef struct dv_schedule_pins {
    int kind; // a dv_kernel_kind; -1: not prescribed
    // The variables of a matrix product whose tile sizes are prescribed, as a
    // bit mask, and how many values of each one kernel call computes or sums.
    uint32_t tiled;
    int64_t tile[DV_MAX_VARS];
} dv_schedule_pins;
// Reads the pins (choices that the user prescribes) of the pass schedule. *out
// has one entry per op, in the plan's arena, or is NULL if there are no such
// pins.
dv_status dv_schedule_read_pins(dv_schedule_pins **out, dv_plan *plan,
                                const dv_plan_options *options, dv_diag *diag);

// A bar is an option that keeps a tensor, or the operands and results of an op,
// out of the scratchpads: `x` names a tensor, `op:y` or `y.2` an op (bar.c).
// dv_bar_has_tensor and dv_bar_has_op return whether a bar names this tensor or
// op; dv_bar_applies, whether the program has what the bar names; dv_bar_known,
// whether the plan has it or had it before unused ops were removed;
// dv_bars_verify fails if some bar is not known.
int dv_bar_has_tensor(const char *bar, const char *name);
int dv_bar_has_op(const char *bar, const char *name);
int dv_bar_applies(const dv_program *p, const char *bar);
int dv_bar_known(const dv_plan *plan, const char *bar);
dv_status dv_bars_verify(const dv_plan *plan, const dv_plan_options *o,
                         dv_diag *diag);

// Prints the schedule of an op (its kernel and loops) as one line, without a
// newline (schedule.c).
void dv_op_schedule_print(dv_text *out, const dv_program *p, int32_t op,
                          const dv_op_schedule *s);
// Returns the bytes of the memory in which temporaries are stored as whole
// tensors. Other temporaries exist for one tile at a time and are not counted.
int64_t dv_stored_bytes(const dv_plan *plan);
// Returns 1 if two schedules (kernel and loops) of an op are equal.
int dv_op_schedule_equal(const dv_op_schedule *a, const dv_op_schedule *b);
// These functions print, compare, verify and read the loops of the tiles of a
// matrix product (loops.c).
void dv_tile_schedule_print(dv_text *out, const dv_op *o,
                            const dv_tile_schedule *t);
int dv_tile_schedules_equal(const dv_op_schedule *a, const dv_op_schedule *b);
dv_status dv_tile_schedule_verify(const dv_plan *plan, const dv_op *o,
                                  const dv_tile_schedule *t, dv_diag *diag);
dv_status dv_tile_schedule_read(dv_plan *plan, dv_lexer *lx, const dv_op *o,
                                dv_tile_schedule *t);
// Returns whether section `schedule` of the plan lacks the loops of the tiles
// of some matrix product.
int dv_schedule_lacks_loops(const dv_plan *plan);
// Return the words that stand for a kernel kind and for an order of summation
// in section `schedule` of a plan.
const char *dv_kernel_kind_name(dv_kernel_kind kind);
const char *dv_sum_order_name(const dv_sum_order *s);

// Parses the program as written from the plan's section source; *out is NULL if
// the plan has none. The caller destroys it.
dv_status dv_plan_source(const dv_plan *plan, dv_program **out, dv_diag *diag);

// Restricts a target to the cores that the options allow (pipeline.c).
dv_status dv_choose_cores(dv_target *t, const dv_plan_options *options,
                          dv_diag *diag);

// Plans the program of a rank of a team: all passes but lower and dist. `ops`
// then belongs to the plan, or is destroyed if that fails; team_ops (see
// dv_plan_whole_op) is borrowed.
dv_status dv_plan_rank(dv_plan **out, const dv_plan *team, dv_program *ops,
                       const int32_t *team_ops, const dv_plan_options *options,
                       dv_diag *diag);

// Reads the sections of a rank's plan inside the plan of its team, up to the
// '}' after them.
dv_status dv_plan_read_rank(dv_plan **out, const dv_plan *team, int64_t cores,
                            dv_lexer *lx);
// Returns the class of a rank (the ranks that share its plan) in the plan of a
// team, or NULL.
const dv_rank_class *dv_plan_class_of(const dv_plan *plan, int64_t rank);
// Makes another rank the one whose messages and plan a team's plan lists
// (dist/op_exchanges.c). Fails if the plan has no such rank, or only the plans
// of others.
dv_status dv_plan_set_rank(dv_plan *plan, int64_t rank, dv_diag *diag);
// Destroys the plans of all ranks that a team's plan contains.
void dv_plan_forget_ranks(dv_plan *plan);
// Prints the results of all passes, without the target and the source.
void dv_plan_print_sections(dv_text *out, const dv_plan *plan);
// Checks the plan of a team, but not the plans of its ranks.
dv_status dv_plan_check_team(const dv_plan *plan, dv_diag *diag);

// Returns the position of byte `off` in the text that the plan was read from,
// for error messages; no position if the plan was not read from text.
dv_loc dv_plan_at(const dv_plan *plan, uint32_t off);
void dv_plan_print(dv_text *out, const dv_plan *plan);
#endif
