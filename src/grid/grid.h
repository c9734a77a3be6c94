// Tiles of a result on the cores of a machine: who computes which, in which
// order, and with which arguments.
//
//   5x13 tiles on 8x8 cores, split by columns
//     core (0,0)   tiles 0..2     65 = 64 + 1: the first has one more
//     core (0,1)   tiles 2..3
//     core (7,7)   tiles 64..65
//
// Tile (m,n) is row m and column n of a matrix of tiles; m and n are never
// called x and y, which are columns and rows of cores. A tile's number is its
// place in the chosen order; tiles of batch b come after all of batch b - 1.
// A step is one tile's product with one tile of depth: a tile has kt of them.
//
// What a core does is at most MAX_SEGMENTS runs of tiles, or one rectangle, or
// one shard: nothing here grows with the number of tiles.
//
// Invariants: P1 every step of every tile is in exactly one segment; P2 cores
// are allowed ones, each listed once; P3 argument rows say what segments say;
// P4 buffers of a core fit its memory. Memory: a grid owns its arena.
//
//   grid.[ch]   checks the problem, chooses and assigns tiles, proves P1 to P4
//   policy.c    computes what every core does under each policy
//   cores.c     sets of cores and the rectangles that cover them
//   figures.c   counts steps, panels, bytes and banks
//   queue.[ch]  hands out tiles at run time, with work stealing
//   json.c      prints a grid as JSON and as text
//   pass.c      the pass "grid" and its section of the plan
#ifndef DV_GRID_H
#define DV_GRID_H
#include "base/diag.h"
#include "base/json.h"
#include "base/text.h"
#include "divvy/divvy.h"
#include "plan/order.h"

// -- Cores (cores.c) ---------------------------------------------------------

// Rectangles of the vendor's convention: both corners are inside.
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
    uint8_t *allowed; // [y * cols + x]
    int64_t n;
} dv_core_set;

// Rectangles that make up cores[0..n): runs along a line, joined with the next
// line's when their ends are the same. Lines are columns unless by_row. 0: out
// of memory.
int dv_rects_of(dv_grid_rects *out, const dv_core_set *set, const dv_xy *cores,
                int64_t n, int by_row, dv_arena *arena);
// The first n allowed cores, column by column or row by row.
void dv_cores_list(dv_xy *out, const dv_core_set *set, int64_t n, int by_row);
// The rectangle of allowed cores with the most in it. 0: out of memory.
int dv_cores_largest(dv_grid_rect *out, const dv_core_set *set);

// Part i of n items in p parts whose sizes differ by at most one, the larger
// ones first. Every level divides with this: devices, cores, blocks.
static inline int64_t dv_part_begin(int64_t n, int64_t p, int64_t i)
{
    int64_t q = n / p, r = n % p;
    return i * q + (i < r ? i : r);
}

// -- The plan ----------------------------------------------------------------

enum { DV_GRID_MAX_SEGMENTS = 4, DV_GRID_MAX_ARGS = 16, DV_GRID_MAX_CBS = 6 };

// POLICY(NAME, word)
#define DV_POLICIES(POLICY)                                                    \
    POLICY(STATIC, static)     /* ranges of tiles that differ by one */        \
    POLICY(RECT, rect)         /* rectangles; rows and columns share panels */ \
    POLICY(STREAMK, streamk)   /* equal numbers of steps, tiles are cut */     \
    POLICY(STREAMK1, streamk1) /* whole waves of tiles, the rest streamed */   \
    POLICY(STREAMK2, streamk2) /* the same, with one wave less */              \
    POLICY(SPLITK, splitk)     /* every tile's depth in so many parts */       \
    POLICY(TICKET, ticket)     /* the next chunk goes to whoever asks */       \
    POLICY(STEAL, steal)       /* own range first, then others' */

typedef enum dv_policy {
#define POLICY(NAME, word) DV_POLICY_##NAME,
    DV_POLICIES(POLICY)
#undef POLICY
        DV_N_POLICIES
} dv_policy;

const char *dv_policy_name(dv_policy p);
// "splitk(4)" or "static"; *split is 1 without a number. 0: there is none like
// this.
int dv_policy_parse(dv_policy *out, int64_t *split, const char *word);
dv_status dv_policy_unknown(const char *word, dv_loc at, dv_diag *diag);
// Are tiles cut along their depth?
static inline int dv_policy_streams(dv_policy p)
{
    return p >= DV_POLICY_STREAMK && p <= DV_POLICY_SPLITK;
}

// Steps k0..k1 of each of the tiles first..first+count.
typedef struct dv_segment {
    int64_t first, count, k0, k1;
} dv_segment;

typedef struct dv_grid_core {
    int32_t x, y;
    int32_t n_segments;
    dv_segment segments[DV_GRID_MAX_SEGMENTS];
    int64_t steps;            // of all segments
    int64_t iter0, iter1;     // streamed: its steps, numbered through tiles
    int64_t m0, m1, n0, n1;   // rect: rows and columns, in every batch
    int64_t sy, sx;           // local_shard
    uint8_t sends_a, sends_b; // rect: reads a panel and hands it on
    int32_t peers; // streamed: cores after it that finish its last tile
    int32_t owner; // streamed: who gets its partial first tile, or -1
    int64_t args[DV_GRID_MAX_ARGS];
} dv_grid_core;

// A circular buffer, the same on every core.
typedef struct dv_grid_cb {
    const char *name;
    int32_t index;
    int64_t tiles, page_bytes;
} dv_grid_cb;

// One way to do it, as the report compares them.
typedef struct dv_grid_way {
    char name[48];
    int64_t makespan; // steps of the busiest core
    int64_t busy;
    int64_t panels; // rows of A and columns of B, distinct per core; -1: none
} dv_grid_way;
enum { DV_GRID_MAX_WAYS = 20 };

typedef struct dv_grid_figures {
    int64_t busy, max_steps, min_steps;
    double mean_steps, efficiency;
    int64_t streamed_bytes; // main memory, every operand tile read per use
    int64_t panel_bytes;    // the same when a core reads a panel once
    int64_t memory_bytes;   // as this plan does it
    int64_t onchip_bytes;   // between cores: multicast and partial sums
    int64_t panels;         // distinct per core, summed
    int panels_sampled;     // counted on some cores and scaled
    double reuse;           // streamed operand bytes over those of panels
    int64_t banks_row, banks_col; // that a row of A and a column of B touch
    dv_grid_way ways[DV_GRID_MAX_WAYS];
    int32_t n_ways;
} dv_grid_figures;

struct dv_grid {
    dv_arena arena;
    // The problem. Extents in elements, the rest in tiles.
    int64_t batch, rows, cols, depth;
    int64_t tile_rows, tile_cols, elem_bytes;
    int64_t mt, nt, kt, n_tiles, n_steps;
    // The machine.
    dv_core_set set;
    int by_row;
    int64_t memory_bytes, banks, max_args, max_cbs; // 0: no limit, not known
    char target[64];
    // What was decided.
    int local_shard;
    int64_t gy, gx, sm, sn;
    dv_order order;
    int order_auto, policy_auto;
    dv_policy policy;
    int64_t split; // splitk: parts; ticket, steal: tiles of a chunk
    dv_grid_core *cores;
    int32_t n_cores;
    int64_t n_group_1; // cores of the first group, which have one unit more
    int64_t units_1, units_2;
    dv_grid_rects all, group_1, group_2;
    int64_t dp_tiles, sk_tiles; // streamed: tiles that stay whole, and others
    int64_t split_tiles, max_peers, n_segments;
    // rect: what a core has in memory at once, and steps of depth in that.
    int64_t block_m, block_n, block_k, sub_h, sub_w;
    const char *arg_names[DV_GRID_MAX_ARGS];
    int32_t n_args;
    dv_grid_cb cbs[DV_GRID_MAX_CBS];
    int32_t n_cbs;
    int64_t core_bytes; // of the buffers
    // Devices, each with the grid of its own part; NULL: one device.
    int64_t devices[3];
    struct dv_grid **parts;
    int64_t *part_begin; // per device: m0, m1, n0, n1, k0, k1
    int32_t n_parts;
};

// -- Making it (grid.c, policy.c) --------------------------------------------

// The segments of cores, once the problem and the cores are known.
dv_status dv_grid_assign(dv_grid *g, dv_diag *diag);
void dv_grid_buffers(dv_grid *g);
void dv_grid_arguments(dv_grid *g);
dv_status dv_grid_rectangles(dv_grid *g, dv_diag *diag);
dv_status dv_grid_shards(dv_grid *g, dv_diag *diag);
// rect: do holes keep cores from having a part? Panels go from core to core of
// one rectangle, which has no holes.
int dv_grid_cut_short(const dv_grid *g);

// -- Looking at it (figures.c, json.c) ---------------------------------------

// Rows of A and columns of B that each core needs, distinct, summed over cores
// for this order and static ranges. *sampled is set when there were too many
// tiles to look at all. -1: out of memory.
int64_t dv_grid_panels(const dv_grid *g, const dv_order *order, int *sampled);
// The order with the fewest panels of those that need no number to be guessed,
// and groups of a few sizes.
void dv_grid_best_order(dv_grid *g);
void dv_grid_measure(const dv_grid *g, dv_grid_figures *out);
// Banks that pages first, first + stride, … (n of them) are in.
int64_t dv_banks_touched(int64_t banks, int64_t stride, int64_t n);

// Where a page of a tensor that is cut into shards lies, shards dealt to banks
// in turn.
enum { DV_PAGE_DIMS = 8 };
typedef struct dv_page {
    int64_t shard, bank, offset; // offset in pages of the bank
} dv_page;
int dv_page_of(dv_page *out, int n_dims, const int64_t *tensor,
               const int64_t *shard, int64_t banks, const int64_t *page);

// dv_grid_json with or without what is only for reading.
void dv_grid_put_json(dv_text *out, const dv_grid *g, int figures);
// The mask of a tile: rows and columns of it that hold elements.
void dv_grid_edge(const dv_grid *g, int64_t m, int64_t n, int64_t *rows,
                  int64_t *cols);
// First tile of a core in (batch, m, n), and its last. 0: it has none.
int dv_grid_ends(const dv_grid *g, const dv_grid_core *c, int64_t first[3],
                 int64_t last[3]);
// Tile number id of the whole grid as batch, row and column.
void dv_grid_tile(const dv_grid *g, int64_t id, int64_t bmn[3]);
#endif
