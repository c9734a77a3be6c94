// Lint: reads a file that says which core computes which tiles of a matrix
// product, and reports its defects: tiles that are computed twice or never,
// wrong kernel arguments, buffers that are too small. The code that divvy
// assigns tiles with (grid/) is not used here, so that lint can judge it.
//
//   lint.h   private to the folder; the public API is in divvy/divvy.h
//   lint.c   runs all checks and reports the defects
//   read.c   reads JSON files, of divvy and of the compiler TileLang, whose
//            stage B assigns tiles to cores
//   csv.c    reads tables of kernel arguments as CSV
//   cores.c  checks cores, the rectangles they are in, and missing cores
//   stage.c  checks the attributes that TileLang's stage B writes
//   buffers.c  checks the mode against the records of buffers
//   args.c   checks the kernel arguments of cores against their work
#ifndef DV_LINT_H
#define DV_LINT_H
#include "base/diag.h"
#include "base/mem.h"
#include "base/text.h"
#include "target/target.h"

enum { LINT_MAX_NAMES = 32, LINT_MAX_LINES = 100 };

// Larger numbers in a file are rejected, so that products of two numbers, and
// sums of such products, fit in int64_t.
static const int64_t LINT_MOST = (int64_t)1 << 30;

// The k steps begin..end - 1 that a core computes. A k step is one product of
// tiles that is added to a tile of the result; steps are numbered consecutively
// over all tiles.
typedef struct lint_span {
    int64_t begin, end;
    int32_t core;
} lint_span;

// The rectangle of tiles in rows m0..m1 - 1 and columns n0..n1 - 1 that a core
// computes.
typedef struct lint_box {
    int64_t m0, m1, n0, n1;
    int32_t core;
} lint_box;

typedef struct lint_core {
    int64_t x, y; // position of the core; -1, -1 if the file does not say
    int64_t args[LINT_MAX_NAMES];
    int32_t n_args;
    // Nonzero if the file also lists the core's work, even if that list is
    // empty.
    int listed;
    int64_t sy, sx;
} lint_core;

typedef struct lint_rect {
    int64_t x0, y0, x1, y1;
} lint_rect;

typedef struct lint_rects {
    lint_rect *at;
    int32_t n, cap;
} lint_rects;

typedef struct lint_buffer {
    const char *name;
    int64_t index, tiles, page_bytes, bytes;
} lint_buffer;

// Which outputs of TileLang's stage B, which assigns tiles to cores, a file
// has.
typedef enum lint_stage {
    LINT_NO_STAGE,
    LINT_PARTITION, // the tiles of every core, and attributes
    LINT_ATTRIBUTES // only attributes: grid_tiles, core_ranges and others
} lint_stage;

typedef struct lint {
    dv_arena arena;
    dv_diag *diag;
    // The machine whose cores the tiles are assigned to; NULL: any machine.
    const dv_target *target;
    // The sizes below are -1 if the file does not state them.
    int64_t cols, rows; // columns and rows of the grid of cores
    int64_t batch, mt, nt, kt;
    // Shards (rectangles of tiles that a core holds): how many there are in a
    // column and in a row, then the rows and columns of tiles of one.
    int64_t shards[4];
    int local_shard, streams;
    lint_stage stage;
    const char *mode; // its partition_mode; NULL: the file does not say
    // The names of kernel arguments that TileLang's stage B lists;
    // has_stage_names is 1 if the file has such a list.
    const char *stage_names[LINT_MAX_NAMES];
    int32_t n_stage_names;
    int has_stage_names;
    // Number of parts into which each tile's sum over k is split by the policy
    // splitk; 0: the policy is another one.
    int64_t split;
    int64_t n_cores, n_tiles; // numbers of cores and tiles that the file states
    const char *names[LINT_MAX_NAMES];
    int32_t n_names;
    lint_core *cores;
    int32_t n, cap;
    lint_span *spans; // the work of all cores as listed in the file
    int32_t n_spans, cap_spans;
    // Scratch space for comparing lists of spans (ranges of k steps).
    lint_span *room;
    int64_t cap_room;
    // If the file lists the work of cores as rectangles of tiles: those of all
    // cores.
    lint_box *boxes;
    int32_t n_boxes, cap_boxes;
    lint_rects ranges, all, holes, group[2];
    // Number of holes (missing cores) that the target has; they come first in
    // `holes`.
    int32_t n_given;
    // Nonzero if the file has these lists of rectangles of cores, even empty
    // ones.
    int has_ranges, has_all, has_groups;
    // Units of work (tiles, k steps or parts of tiles) per core of group_1 and
    // group_2 (cores with equal work), as the file states them; -1: not stated.
    int64_t units[2];
    // If cores take tiles at run time: the number that a core takes at a time;
    // -1: tiles are assigned beforehand.
    int64_t chunk;
    lint_buffer *buffers;
    int32_t n_buffers, cap_buffers;
    int64_t core_bytes, memory_limit, args_limit, tile_elems, elem_bytes;
    // The block of operands that a core holds in memory, in tiles: rows,
    // columns and depth (along k, the summed dimension).
    int64_t block[3];
    // The results of the checks.
    dv_text report;
    int64_t n_defects;
    // Number of devices that the file has plans for. Each is checked when it is
    // read.
    int n_parts;
    int is_part; // nonzero: the plan of one device, which may have no tiles
    int failed;  // nonzero when out of memory
} lint;

// Initialisers of a struct lint before a file is read: sizes that are not known
// yet are -1.
#define LINT_EMPTY                                                             \
    .mt = -1, .nt = -1, .cols = -1, .rows = -1, .batch = 1, .kt = 1,           \
    .shards = {-1, -1, -1, -1}, .n_cores = -1, .n_tiles = -1,                  \
    .core_bytes = -1, .memory_limit = -1, .args_limit = -1, .chunk = -1

// Reports one defect: its kind and a line of text.
void lint_report(lint *l, const char *kind, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
// Read a JSON or CSV file into an empty lint (read.c, csv.c).
dv_status lint_read(lint *l, const dv_source *src);
dv_status lint_read_csv(lint *l, const dv_source *src);
// Derives the numbers of tiles that the file does not state from the kernel
// arguments.
void lint_sizes_of_args(lint *l);
// Finds the value of a core's kernel argument by its name, or by the name that
// older files use. Returns 0 if there is none.
int lint_arg(const lint *l, int32_t core, const char *name, int64_t *out);
// Computes how many units of work a core has: its tiles or, if the policy
// splits tiles along k, its k steps (streamk) or its parts of tiles (splitk).
// Returns 0 if the kernel arguments do not say. lint_unit_name returns the word
// for these units.
int lint_units(const lint *l, int32_t core, int64_t *out);
const char *lint_unit_name(const lint *l);
// Returns whether two lists of spans (ranges of k steps) contain the same
// steps.
int lint_same_spans(lint *l, const lint_span *a, int32_t n_a,
                    const lint_span *b, int32_t n_b);
// Checks the kernel arguments of all cores (args.c). All later checks use the
// work that the arguments describe, not the listed work.
void lint_check_args(lint *l);
// Checks the cores, the rectangles and groups of cores, and the holes, which
// are missing cores (cores.c).
void lint_check_cores(lint *l);
// Checks the attributes of TileLang's stage B (stage.c).
void lint_check_stage(lint *l);
// Checks that the file's partition_mode (global or local_shard) agrees with its
// records of buffers (buffers.c).
struct dv_jval;
void lint_check_buffers(lint *l, const struct dv_jval *v);
// Runs all checks (lint.c).
void lint_check_all(lint *l);

const char *lint_core_name(const lint *l, int32_t i, char buf[48]);
// Compares spans (ranges of k steps) by begin, then end, for qsort.
int lint_by_begin(const void *a, const void *b);
lint_core *lint_add_core(lint *l, int64_t x, int64_t y);
void lint_add_span(lint *l, int64_t begin, int64_t end, int32_t core);
void lint_add_box(lint *l, int64_t m0, int64_t m1, int64_t n0, int64_t n1,
                  int32_t core);
void lint_add_rect(lint *l, lint_rects *to, lint_rect r);
#endif
