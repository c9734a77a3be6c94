// Assigns the tiles of a result to the cores of a machine: which core computes
// which tiles, in which order, and with which kernel arguments.
//
//   5x13 tiles on 8x8 cores, split by columns
//     core (0,0)   tiles 0..2     65 = 64 + 1: the first core has one more
//     core (0,1)   tiles 2..3
//     core (7,7)   tiles 64..65
//
// Tile (m,n) is row m and column n of a matrix of tiles; x and y always mean
// columns and rows of cores. A tile's number is its position in the chosen
// order; tiles of batch b come after all tiles of batch b - 1. A step is the
// product of one tile of A and one tile of B; computing a tile takes kt steps.
//
// The work of a core is at most DV_GRID_MAX_SEGMENTS ranges of tiles, or one
// rectangle, or one shard, so no data structure grows with the number of tiles.
//
// Invariants: every step of every tile is in exactly one segment; every listed
// core is allowed and listed once; argument rows agree with the segments; the
// buffers of a core fit its memory. A grid owns its arena.
//
//   grid.[ch]   checks the problem and the machine, and creates a grid
//   policy.c    computes what every core does under each policy
//   cores.c     sets of cores and the rectangles that cover them
//   figures.c   counts steps, panels, bytes and banks
//   queue.[ch]  hands out tiles at run time, with work stealing
//   json.c      prints a grid as JSON and as text
//   list.c      orders of one's own, which list the tiles
//   shards.[ch] shards that notes of the program demand
//   pass.c      the pass "grid" and its section of the plan
//
// Other folders may also include: queue.h, shards.h
#ifndef DV_GRID_H
#define DV_GRID_H
#include "base/diag.h"
#include "base/json.h"
#include "base/text.h"
#include "divvy/grid.h"
#include "plan/order.h"

// The functions of cores.c list cores of the machine and cover sets of cores
// with rectangles.

// A rectangle of cores includes both corners, as in TT-Metalium (Tenstorrent's
// programming model).
typedef dv_core_rect dv_grid_rect;
typedef struct dv_grid_rects {
    dv_grid_rect *at;
    int32_t n;
} dv_grid_rects;

typedef struct dv_xy {
    int32_t x, y;
} dv_xy;

// The cores of a machine that may be used.
typedef struct dv_core_set {
    int32_t cols, rows;
    uint8_t *allowed; // allowed[y * cols + x]: 1 if the core may be used
    int64_t n;
} dv_core_set;

// Covers cores[0..n) with rectangles: each is a run of cores along a line,
// together with runs of the same extent on the following lines. Lines are
// columns of the core grid, or rows if by_row is set. Returns 0 if out of
// memory.
int dv_rects_of(dv_grid_rects *out, const dv_core_set *set, const dv_xy *cores,
                int64_t n, int by_row, dv_arena *arena);
// Lists the first n cores that may be used, column by column, or row by row if
// by_row is set.
void dv_cores_list(dv_xy *out, const dv_core_set *set, int64_t n, int by_row);
// Finds the largest rectangle that has only allowed cores. Returns 0 if out of
// memory.
int dv_cores_largest(dv_grid_rect *out, const dv_core_set *set);

// Returns the begin of part i when n items are divided into p parts whose sizes
// differ by at most one, larger parts first. Devices, cores and blocks are all
// divided this way.
static inline int64_t dv_part_begin(int64_t n, int64_t p, int64_t i)
{
    int64_t q = n / p, r = n % p;
    return i * q + (i < r ? i : r);
}

// The structures below describe a grid, an assignment of tiles to cores: its
// policy, the work of its cores, and its statistics.

enum { DV_GRID_MAX_SEGMENTS = 4, DV_GRID_MAX_ARGS = 16, DV_GRID_MAX_CBS = 6 };

// The rules by which tiles go to cores. Each row is POLICY(NAME, word); the
// word is the name in the plan's text. A step is the product of one tile of A
// and one of B; a tile is split if several cores share its steps.
#define DV_POLICIES(POLICY)                                                    \
    POLICY(STATIC, static)     /* a range of tiles per core, equal within 1 */ \
    POLICY(RECT, rect)         /* a rectangle of tiles per core, multicast */  \
    POLICY(STREAMK, streamk)   /* equal steps per core; tiles may be split */  \
    POLICY(STREAMK1, streamk1) /* whole tiles, but the last ones are split */  \
    POLICY(STREAMK2, streamk2) /* as streamk1, with more split tiles */        \
    POLICY(SPLITK, splitk)     /* the sum of every tile is split */            \
    POLICY(TICKET, ticket)     /* an idle core gets the next tiles */          \
    POLICY(STEAL, steal)       /* idle cores take tiles of others */

typedef enum dv_policy {
#define POLICY(NAME, word) DV_POLICY_##NAME,
    DV_POLICIES(POLICY)
#undef POLICY
        DV_N_POLICIES
} dv_policy;

const char *dv_policy_name(dv_policy p);
// Parses the name of a policy (a rule by which tiles go to cores), such as
// "static" or "splitk(4)"; *split is its number, or 1 if there is none. Returns
// 0 if there is no such policy.
int dv_policy_parse(dv_policy *out, int64_t *split, const char *word);
dv_status dv_policy_unknown(const char *word, dv_loc at, dv_diag *diag);
// Returns whether the policy splits the sum of a tile into parts that different
// cores compute.
static inline int dv_policy_streams(dv_policy p)
{
    return p >= DV_POLICY_STREAMK && p <= DV_POLICY_SPLITK;
}

// A range of tiles, first .. first+count-1, and the steps k0 .. k1-1 (products
// of two tiles) of each of them that a core computes.
typedef struct dv_segment {
    int64_t first, count, k0, k1;
} dv_segment;

typedef struct dv_grid_core {
    int32_t x, y;
    int32_t n_segments;
    dv_segment segments[DV_GRID_MAX_SEGMENTS];
    int64_t steps; // steps (products of two tiles) in all segments
    // For policies that split the sum of a tile over cores (streamk, splitk):
    // the range of steps (products of two tiles) that this core computes,
    // numbered over all split tiles.
    int64_t iter0, iter1;
    // For policy rect, which gives each core a rectangle of tiles: the tile
    // rows m0..m1 and tile columns n0..n1 that this core computes, in every
    // batch.
    int64_t m0, m1, n0, n1;
    // If each core computes the part of the result that its own memory holds
    // (local_shard): the row and column of this core's shard.
    int64_t sy, sx;
    // For policy rect, which gives each core a rectangle of tiles: whether the
    // core reads operand A and multicasts it along its row of cores, and
    // likewise B down its column.
    uint8_t sends_a, sends_b;
    // For policies that split the sum of a tile over cores: how many of the
    // following cores in the list compute the remaining steps of this core's
    // last tile.
    int32_t contributors;
    // Index of the core to which this core sends its partial sum of a tile, or
    // -1.
    int32_t owner;
    int64_t args[DV_GRID_MAX_ARGS];
} dv_grid_core;

// A circular buffer in a core's memory; all cores have the same buffers.
typedef struct dv_grid_cb {
    const char *name;
    int32_t index;
    int64_t tiles, page_bytes;
} dv_grid_cb;

// One alternative (a policy or tile order) that the report compares with the
// chosen one.
typedef struct dv_grid_alternative {
    char name[48];
    // Number of steps (products of two tiles) of the busiest core, which
    // decides the run time.
    int64_t makespan;
    int64_t busy;
    // Number of distinct panels (rows of tiles of A and columns of tiles of B)
    // that each core reads, summed over cores; -1 if they were not counted.
    int64_t panels;
} dv_grid_alternative;
enum { DV_GRID_MAX_ALTERNATIVES = 20 };

typedef struct dv_grid_figures {
    int64_t busy, max_steps, min_steps;
    double mean_steps, efficiency;
    // Main memory traffic if every step (product of two tiles) reads its
    // operand tiles anew.
    int64_t streamed_bytes;
    // Main memory traffic if each core reads every panel (row of A, column of
    // B) that it needs once.
    int64_t panel_bytes;
    int64_t memory_bytes; // main memory traffic of this plan
    int64_t onchip_bytes; // traffic between cores: multicast and partial sums
    // Number of distinct panels (rows of A, columns of B) that each core reads,
    // summed over cores.
    int64_t panels;
    // 1 if panels were counted on some cores only and extrapolated.
    int panels_sampled;
    // How many times more operand tiles are read if every step reads its two
    // tiles anew than if each core reads its panels once.
    double reuse;
    // Number of memory banks that hold the tiles of one row of A, and of one
    // column of B.
    int64_t banks_row, banks_col;
    dv_grid_alternative ways[DV_GRID_MAX_ALTERNATIVES];
    int32_t n_ways;
} dv_grid_figures;

struct dv_grid {
    dv_arena arena;
    // The matrix product: rows, cols and depth in elements; mt, nt and kt in
    // tiles.
    int64_t batch, rows, cols, depth;
    int64_t tile_rows, tile_cols, elem_bytes;
    int64_t mt, nt, kt, n_tiles, n_steps;
    // The machine: its usable cores (listed row by row if by_row is set) and
    // limits.
    dv_core_set set;
    int by_row;
    int64_t memory_bytes, banks, max_args, max_cbs; // 0: no limit, or unknown
    char target[64];
    // The assignment that was chosen: if local_shard is 1, gy x gx shards of
    // the result with sm x sn tiles each; the order of tiles, the policy and
    // the work of every core.
    int local_shard;
    int64_t gy, gx, sm, sn;
    dv_order order;
    int order_auto, policy_auto;
    dv_policy policy;
    // For policy splitk: number of parts that the sum of each tile is cut into.
    // For policies ticket and steal: tiles that are handed out at a time.
    int64_t split;
    dv_grid_core *cores;
    int32_t n_cores;
    // Cores form two groups with equal work inside a group: n_group_1 cores
    // have units_1 units of work (tiles or steps), one more than the units_2 of
    // the other cores.
    int64_t n_group_1;
    int64_t units_1, units_2;
    dv_grid_rects all, group_1, group_2;
    // For policies that split the sums of tiles over cores: dp_tiles is the
    // number of tiles that one core computes whole, sk_tiles that of tiles
    // whose steps are divided over cores.
    int64_t dp_tiles, sk_tiles;
    int64_t split_tiles, max_contributors, n_segments;
    // For policy rect, which gives each core a rectangle of tiles: size in
    // tiles of the block that a core holds in memory, and of the sub-block that
    // it holds in registers.
    int64_t block_m, block_n, block_k, sub_h, sub_w;
    const char *arg_names[DV_GRID_MAX_ARGS];
    int32_t n_args;
    dv_grid_cb cbs[DV_GRID_MAX_CBS];
    int32_t n_cbs;
    // Total bytes of the circular buffers in a core's memory.
    int64_t core_bytes;
    // Number of devices along rows, columns and depth. `parts` has the grid of
    // each device, or is NULL if there is only one.
    int64_t devices[3];
    struct dv_grid **parts;
    // For each device, six numbers: the ranges m0, m1, n0, n1, k0, k1 of tile
    // rows, tile columns and depth that it computes.
    int64_t *part_begin;
    int32_t n_parts;
};

// The functions of grid.c and policy.c create grids (assignments of tiles to
// cores).

// Computes which tiles and steps (products of two tiles) every core computes,
// by the grid's policy. The fields of the problem and of the machine must be
// set.
dv_status dv_grid_assign(dv_grid *g, dv_diag *diag);
void dv_grid_buffers(dv_grid *g);
void dv_grid_arguments(dv_grid *g);
// The arguments that a core's kernel gets at launch: DV_USUAL_ARGS common ones,
// then those of one of the kinds of dv_grid_args.
enum { DV_USUAL_ARGS = 5 };
typedef enum dv_grid_args {
    DV_ARGS_NONE,
    DV_ARGS_SHARD,
    DV_ARGS_RECT,
    DV_ARGS_STREAM,
    DV_ARGS_CHUNK,
} dv_grid_args;
// Writes the names of the common kernel arguments and of those of this kind;
// returns their number.
int dv_grid_arg_names(const char **names, dv_grid_args kind);
// Returns whether holes in the core grid leave cores unused under policy rect,
// which multicasts panels and therefore needs a rectangle of cores without
// holes.
int dv_grid_limited_by_holes(const dv_grid *g);

// The functions of list.c parse orders of tiles that the user lists: `list(…)`.

// Returns whether the word of an order lists the tiles, as in `list(2x2: 0 1 3
// 2)`; 0 for NULL.
int dv_order_is_list(const char *word);
// Finds the user's list for a matrix of this many tiles, and checks that it has
// every tile once. *out is in the arena; NULL: no list has this size.
dv_status dv_order_list_find(const int32_t **out, const char *word,
                             int64_t rows, int64_t cols, dv_arena *arena,
                             dv_diag *diag);

// The functions of figures.c and json.c report on grids (assignments of tiles
// to cores).

// Returns the number of distinct panels (rows of A and columns of B) that each
// core needs, summed over cores, if every core gets a contiguous range of tiles
// in this order (policy static); -1 if it cannot be counted. Sets *sampled if
// only some cores were counted because there are many tiles.
int64_t dv_grid_panels(const dv_grid *g, const dv_order *order, int *sampled);
// Chooses the order of tiles in which cores read the fewest panels (rows of A
// and columns of B), among the orders without a parameter and the grouped and
// block-linear ones of a few sizes.
void dv_grid_best_order(dv_grid *g);
void dv_grid_measure(const dv_grid *g, dv_grid_figures *out);
// Returns the number of memory banks that hold n pages whose numbers are
// `stride` apart, if page i is in bank i modulo `banks`.
int64_t dv_banks_touched(int64_t banks, int64_t stride, int64_t n);

// Where a page of a tensor that is divided into shards is stored. Shards are
// assigned to memory banks round robin.
enum { DV_PAGE_DIMS = 8 };
typedef struct dv_page {
    int64_t shard, bank, offset; // the offset in the bank, in pages
} dv_page;
int dv_page_of(dv_page *out, int n_dims, const int64_t *tensor,
               const int64_t *shard, int64_t banks, const int64_t *page);

// Prints a grid (assignment of tiles to cores) as JSON; `figures` adds the
// statistics, which no program reads back.
void dv_grid_put_json(dv_text *out, const dv_grid *g, int figures);
// Gets the number of rows and columns of tile (m,n) that hold elements of the
// matrix; tiles at its edge are partly padding.
void dv_grid_edge(const dv_grid *g, int64_t m, int64_t n, int64_t *rows,
                  int64_t *cols);
// Gets the first and the last tile that a core computes, each as batch, tile
// row and tile column. Returns 0 if the core has none.
int dv_grid_ends(const dv_grid *g, const dv_grid_core *c, int64_t first[3],
                 int64_t last[3]);
// Converts a tile number into batch, row and column.
void dv_grid_tile(const dv_grid *g, int64_t id, int64_t bmn[3]);
#endif
