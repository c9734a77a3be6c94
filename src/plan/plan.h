// The plan: a program, a target, and one section per level that says how the
// program is divided for the target.
//
// The unit of execution is the group: a run of ops that share one tile space.
// Its tiles are dealt to cores; each core loops over its tiles; for each tile
// it runs the group's ops in order.
//
//   op c  vars m 0..6, n 0..8     slices m 2, n 8  ->  tiles 0 1 2
//   group tiles 3                 core 0: 0..2         m 0..2, m 2..4
//                                 core 1: 2..3         m 4..6
//
// Tile number t of an op is the box whose slice numbers are the digits of t,
// the last variable running fastest. The last slice of a variable may be
// shorter.
//
// Invariants (docs/invariants.md): G1 groups hold all ops, in order, each
// once; G2 all ops of a group have the group's number of tiles; G3 every tile
// is dealt once, to a core the target has; G4 no group crosses the edge of a
// repeat, and an extern op is alone in its group and whole on one core. Where a
// reduced variable is sliced, tiles that differ in nothing else are parts of
// one result and are combined in their order. Memory: a plan owns its target,
// its ops and its arena; dv_plan_destroy is one call.
//
//   plan.h, team.h  the plan as data; team.h is its section of a team
//   pass.def        the passes, in running order
//   pipeline.c      runs, verifies, times and dumps the passes
//   lower.c         the pass "lower"
//   source.[ch]     section "source": the program as written
//   json.c          prints a plan as JSON
//   cost.[ch]       the cost of a division in microseconds
//   traffic.[ch]    counts the elements that a plan moves, by formula
//   order.[ch]      orders of the tiles of a matrix
//   tiles.[ch]      the tiles of groups that run by their grid
//   view.[ch]       which box of a tensor each core has
#ifndef DV_PLAN_H
#define DV_PLAN_H
#include "plan/team.h"
#include "target/target.h"

// Tiles first..first+n of a group run on this core, in order.
typedef struct dv_deal {
    int64_t core, first_tile, n_tiles;
} dv_deal;

typedef struct dv_group {
    int32_t first_op, end_op;
    int64_t n_tiles;
    dv_deal *deals;
    int32_t n_deals;
    int non_terminal; // what is in scratchpads must survive its end
    // Tiles handed out while they run: `chunk` at a time, from one counter, or
    // from a queue a core that others may take from. Deals then say only who
    // begins where.
    enum { DV_DEALT, DV_TICKET, DV_STEAL } queue;
    int64_t chunk;
    uint32_t off; // where it stands, in a plan that was read
} dv_group;

enum { DV_MAX_DEVICE_DIMS = DV_MAX_DIMS + 2 };

// How a tensor lies in the target's memory; see layout/layout.h.
typedef struct dv_layout {
    int32_t n_dims;                   // device dims, outermost first
    int32_t host[DV_MAX_DEVICE_DIMS]; // the host dim each comes from, or -1
    int64_t size[DV_MAX_DEVICE_DIMS];
    int64_t stride[DV_MAX_DEVICE_DIMS]; // host elements one step goes, or -1
    int32_t stick_dim; // host dim that is cut into sticks, or -1
    int32_t sparse;    // one element per stick
    int32_t n_inner;   // dims inside a stick (1) or a tile (2)
    int64_t eps;       // elements per stick, or columns of a tile
    int64_t elem_bytes;
    int64_t n_elems, bytes; // padding included
} dv_layout;

// What the divide pass knows of an op beside its slices.
typedef struct dv_division {
    double cost_us;
    int64_t candidates; // divisions that were priced
    int claimed;        // by Torch-Spyre's matmul cost
    int pinned;         // the user insists on it
    int followed; // cut as an operand lies on the cores; the runner is its own
    int64_t *forced;      // slices that the span limit demands, per variable
    int64_t *spans_bytes; // what one core reaches: reads in order, then write
    int64_t *whole_bytes; // the same before any cut
    int64_t *runner;      // slices of the second best, or NULL
    double runner_us;
    int64_t over_span; // divisions that the span limit ruled out
    double compute_us, memory_us, combine_us; // what cost_us is made of
    const char **why_whole; // per variable: why it may not be cut, or NULL
} dv_division;

// How the bytes of a home come into it.
typedef enum dv_home_fill {
    DV_FILL_WRITTEN, // the first op writes them
    DV_FILL_LOADED,  // from main memory, before the first op
    DV_FILL_RING,    // from other cores' homes of the tensor
    DV_FILL_MOVED,   // from another home of the tensor on the same core
} dv_home_fill;

// A tensor in the cores' scratchpads for some ops, at the same address on all
// of them; see scratch/scratch.h.
typedef struct dv_home {
    int32_t tensor;
    int32_t first_op, end_op; // from the start of one to the start of the other
    int64_t address, core_bytes;
    dv_home_fill fill;
    // Each core has what this op touches there with its first access of the
    // tensor (its write, where it writes it).
    int32_t as_op;
    int32_t from;        // RING, MOVED: the home it comes from
    int32_t in_place_of; // the home whose bytes it takes over, or -1
    int stored;          // WRITTEN: main memory gets it too
    int32_t *readers;    // ops that read it here
    int32_t n_readers;
    uint32_t off; // where it stands, in a plan that was read
} dv_home;

// What the scratch pass knows of a tensor, resident or not.
typedef struct dv_resident {
    int32_t tensor, home; // -1: it has none, for this reason
    int32_t first_op, end_op;
    int64_t core_bytes, saved_bytes;
    int crowded; // it might have stayed, there was no room
    const char *reason;
} dv_resident;

typedef struct dv_scratch {
    int64_t capacity_bytes;
    const char *solver;
    int tenants; // every boundary of groups wipes the scratchpads
    dv_home *homes;
    int32_t n_homes;
    // home_of[op][k]: where access k (reads, then the write) finds its tensor;
    // -1: in main memory. NULL for an op that uses none.
    int32_t **home_of;
    // Homes by their first op: op i fills fill_order[fill_at[i]..fill_at[i +
    // 1]], moves within a core first, then copies between cores, then loads.
    int32_t *fill_at, *fill_order;
    // For reports; nothing of it in a plan that was read.
    dv_resident *residents;
    int32_t n_residents;
    int64_t bound_bytes; // main memory cannot be spared more than this
    int64_t saved_bytes;
} dv_scratch;

// What core (x,y) has of a group's result: steps k0..k1 of the tiles
// first..first+n in the order; or a rectangle of it; or one shard.
typedef struct dv_tile_range {
    int64_t x, y, first, n;
    int64_t k0, k1;         // 0..kt, or less of one tile: a part of its sums
    int64_t m0, m1, n0, n1; // rect: rows and columns, in every batch
    int64_t sy, sx;         // local_shard
} dv_tile_range;

// A group's result in tiles of the machine, on its grid of cores; see
// grid/grid.h. Core number c of the deals is column c mod cols, row c div cols.
typedef struct dv_group_grid {
    int32_t group, tensor;
    int local_shard; // each core has the shard it keeps in its scratchpad
    int64_t batch, mt, nt, kt;
    int64_t gy, gx, sm, sn; // local_shard
    const char *order;      // a word of plan/order.h; row_major for shards
    const char *policy;     // a word of grid/grid.h; static for shards
    int rect;               // policy is rect
    dv_tile_range *ranges;
    int32_t n_ranges;
    uint32_t off; // where it stands, in a plan that was read
} dv_group_grid;

// One level of the loops over a reduced variable: a loop, or what the kernel
// takes inside. Levels of one variable are tiles of each other, outermost
// first.
typedef struct dv_sum_level {
    int32_t var;
    int64_t size;
    int inside; // the kernel
} dv_sum_level;

// In which order an op adds its products up, in all of its tiles; see
// nest/sums.h.
typedef struct dv_sums {
    int32_t op;
    int dot;   // the kernel sums in the lanes of vectors along k
    int pairs; // it has instructions for small matrices of bf16 or i8
    dv_sum_level *levels;
    int32_t n_levels;
    uint32_t off; // where it stands, in a plan that was read
} dv_sums;

enum {
    DV_FACT_LOWERED = 1,      // plan->ops
    DV_FACT_GROUPED = 2,      // plan->groups, plan->slices
    DV_FACT_LAID_OUT = 4,     // plan->layouts
    DV_FACT_DIVIDED = 8,      // plan->slices, plan->divisions
    DV_FACT_PLACED = 16,      // plan->scratch
    DV_FACT_DISTRIBUTED = 32, // plan->team
    DV_FACT_GRIDDED = 64,     // plan->grids
    DV_FACT_LOOPED = 128,     // plan->sums
};

typedef enum dv_pass_id {
#define PASS(name, section, needs, gives, about) DV_PASS_##name,
#include "plan/pass.def"
#undef PASS
    DV_N_PASSES
} dv_pass_id;

struct dv_plan {
    dv_arena arena;
    dv_source src;    // the text it was read from; empty for a made plan
    dv_target target; // cores as limited for this plan
    uint32_t facts;
    double pass_ms[DV_N_PASSES]; // negative: did not run
    // The statements of the program as written, numbers in place of params;
    // NULL: not known. In the arena.
    const char *source;
    // lower
    dv_program *ops; // owned
    // dist
    dv_team team;
    // layout
    dv_layout *layouts; // one per tensor
    int sticks_exact;   // no better sticks exist; 0: not all were tried
    // divide
    const char *divide_method; // best, seed, seed+cost, or a reader's word
    int64_t **slices;          // length of one slice: slices[op][var]
    dv_division *divisions;    // one per op; NULL in a plan that was read
    // group
    dv_group *groups;
    int32_t n_groups;
    // scratch
    dv_scratch scratch;
    // grid
    dv_group_grid *grids; // of groups whose result is in tiles, in order
    int32_t n_grids;
    // loops
    dv_sums *sums; // of products that run on this machine, in order of ops
    int32_t n_sums;
};

// Every op in one slice, for what nothing divides.
dv_status dv_plan_whole(dv_plan *plan, dv_diag *diag);
// The box of one tile of an op, and the number of its slice per variable.
typedef struct dv_tile {
    int64_t begin[DV_MAX_VARS], end[DV_MAX_VARS];
    int64_t slot[DV_MAX_VARS], n_slots[DV_MAX_VARS];
} dv_tile;
void dv_plan_tile(dv_tile *out, const dv_plan *plan, int32_t op, int64_t tile);
// Tiles that the slices of an op make; 0 when they overflow.
int64_t dv_plan_n_tiles(const dv_plan *plan, int32_t op);
// Are its tiles parts of sums: is a reduced variable cut?
int dv_plan_in_parts(const dv_plan *plan, int32_t op);

// Deal the tiles of op i, alone in its group: one a core where that is enough,
// else ranges that differ by one.
dv_status dv_plan_deal(dv_plan *plan, int32_t i, dv_group *g, dv_diag *diag);

// The group an op is in, and whether cores have the same tiles of two groups.
int32_t dv_group_of(const dv_plan *plan, int32_t op);
int dv_same_deals(const dv_group *a, const dv_group *b);

// What a pass may use beside the plan.
typedef struct dv_pass_cx {
    const dv_program *source; // the program as written; borrowed
    const dv_plan_options *options;
    dv_diag *diag;
} dv_pass_cx;

typedef struct dv_pass {
    const char *name, *section, *about;
    uint32_t needs, gives;
    dv_status (*run)(dv_pass_cx *cx, dv_plan *plan);
    dv_status (*verify)(const dv_plan *plan, dv_diag *diag);
    void (*print)(dv_text *out, const dv_plan *plan);
    // Read the section; the lexer stands behind the section's name.
    dv_status (*read)(dv_plan *plan, dv_lexer *lx);
} dv_pass;

const dv_pass *dv_pass_get(dv_pass_id id);
// The pass of a name, or -1.
int dv_pass_find(const char *name);

#define PASS(name, section, needs, gives, about)                               \
    dv_status dv_##name##_run(dv_pass_cx *cx, dv_plan *plan);                  \
    dv_status dv_##name##_verify(const dv_plan *plan, dv_diag *diag);          \
    void dv_##name##_print(dv_text *out, const dv_plan *plan);                 \
    dv_status dv_##name##_read(dv_plan *plan, dv_lexer *lx);
#include "plan/pass.def"
#undef PASS

// Of a large team dv_plan_check proves the plan's own rank alone. This proves
// another one, of a plan that dv_plan_check accepts.
dv_status dv_plan_check_rank(const dv_plan *plan, int64_t rank, dv_diag *diag);
// Does the user want a team, or has the plan one that is to be made again?
int dv_team_wanted(const dv_pass_cx *cx, const dv_plan *plan);
// Its section as JSON.
void dv_dist_json(struct dv_json *j, const dv_plan *plan);
// Distribute again when a later pass has changed the program.
dv_status dv_team_follow(dv_pass_cx *cx, dv_plan *plan);

// Where access k of an op finds its tensor: a home's number, or -1.
static inline int32_t dv_home_of(const dv_plan *plan, int32_t op, int k)
{
    int32_t **homes = plan->scratch.home_of;
    return homes && homes[op] ? homes[op][k] : -1;
}

// The program as written, parsed anew; *out is NULL where the plan does not
// carry it. The caller destroys it.
dv_status dv_plan_source(const dv_plan *plan, dv_program **out, dv_diag *diag);

// Position in the plan's own text, if it was read from one.
dv_loc dv_plan_at(const dv_plan *plan, uint32_t off);
void dv_plan_print(dv_text *out, const dv_plan *plan);
#endif
