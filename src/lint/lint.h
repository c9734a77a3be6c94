// Lint: judges a plan of tiles on cores as its file says it. Nothing of the
// partitioner (grid/) is used here.
//
//   lint.h   private to the folder; the public API is in divvy/divvy.h
//   lint.c   runs all checks and reports what is wrong
//   read.c   reads JSON files of divvy and of TileLang's stage B
//   csv.c    reads tables of arguments as CSV
//   cores.c  checks cores, the rectangles they are in, and holes
//   args.c   checks the arguments of cores against their work
#ifndef DV_LINT_H
#define DV_LINT_H
#include "base/diag.h"
#include "base/mem.h"
#include "base/text.h"
#include "target/target.h"

enum { LINT_MAX_NAMES = 32, LINT_MAX_LINES = 100 };

// Numbers in a file are believed up to here, so that products of two and sums
// of those fit.
static const int64_t LINT_MOST = (int64_t)1 << 30;

// Steps begin..end, numbered through the tiles, on a core.
typedef struct lint_span {
    int64_t begin, end;
    int32_t core;
} lint_span;

// Tiles of rows m0..m1 and columns n0..n1 on a core.
typedef struct lint_box {
    int64_t m0, m1, n0, n1;
    int32_t core;
} lint_box;

typedef struct lint_core {
    int64_t x, y; // -1, -1: the file does not say
    int64_t args[LINT_MAX_NAMES];
    int32_t n_args;
    int listed; // its work is listed beside the arguments, if only as none
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

typedef struct lint {
    dv_arena arena;
    dv_diag *diag;
    const dv_target *target; // whose cores they must be; NULL: the file's
    // Sizes; -1: the file does not say.
    int64_t cols, rows; // of cores
    int64_t batch, mt, nt, kt;
    int64_t shards[4]; // Gy, Gx, Sm, Sn
    int local_shard, streams;
    int64_t split;            // parts of the depth of a tile; 0: it has none
    int64_t n_cores, n_tiles; // as stated
    const char *names[LINT_MAX_NAMES];
    int32_t n_names;
    lint_core *cores;
    int32_t n, cap;
    lint_span *spans; // as listed
    int32_t n_spans, cap_spans;
    lint_span *room; // to compare spans in
    int64_t cap_room;
    lint_box *boxes; // as listed
    int32_t n_boxes, cap_boxes;
    lint_rects ranges, all, holes, group[2];
    int32_t n_given; // holes of the machine, which come first
    int has_ranges, has_all, has_groups; // the file has them, if only empty
    int64_t units[2]; // of a core of a group; -1: the file does not say
    int64_t chunk;    // of a queue; -1: there is none
    lint_buffer *buffers;
    int32_t n_buffers, cap_buffers;
    int64_t core_bytes, memory_limit, args_limit, tile_elems, elem_bytes;
    int64_t block[3]; // rows, columns and depth of tiles that stay
    // What was found.
    dv_text report;
    int64_t n_defects;
    int n_parts; // devices, which are judged as they are read
    int failed;  // out of memory
} lint;

// The initializers of a lint without a file: no size is known.
#define LINT_EMPTY                                                             \
    .mt = -1, .nt = -1, .cols = -1, .rows = -1, .batch = 1, .kt = 1,           \
    .shards = {-1, -1, -1, -1}, .n_cores = -1, .n_tiles = -1,                  \
    .core_bytes = -1, .memory_limit = -1, .args_limit = -1, .chunk = -1

// One defect: a kind and a line about it.
void lint_say(lint *l, const char *kind, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
// The tiles and steps that the arguments of a core stand for: up to two spans
// (into spans, returning how many) or a box (returning -1). -2: no names that
// are known.
int lint_work_of_args(lint *l, int32_t core, lint_span spans[2], lint_box *box);
// Read a file into an empty lint (read.c, csv.c).
dv_status lint_read(lint *l, const dv_source *src);
dv_status lint_read_csv(lint *l, const dv_source *src);
// What arguments say of sizes, where nothing else does.
void lint_sizes_of_args(lint *l);
// Value of an argument by its name or its older name; 0: there is none.
int lint_arg(const lint *l, int32_t core, const char *name, int64_t *out);
// The units of a core that groups count, and the word for them: its tiles, of
// streams steps (streamk) or parts of tiles (splitk). 0: it does not say.
int lint_units(const lint *l, int32_t core, int64_t *out);
const char *lint_unit_name(const lint *l);
// Do two lists have the same steps?
int lint_same_spans(lint *l, const lint_span *a, int32_t n_a,
                    const lint_span *b, int32_t n_b);
// Arguments (args.c); what they say is the work that is judged then.
void lint_judge_args(lint *l);
// Cores, ranges, groups and holes (cores.c).
void lint_judge_cores(lint *l);
// Look at everything (lint.c).
void lint_judge(lint *l);

const char *lint_core_name(const lint *l, int32_t i, char buf[48]);
int lint_by_begin(const void *a, const void *b); // spans, for qsort
lint_core *lint_add_core(lint *l, int64_t x, int64_t y);
void lint_add_span(lint *l, int64_t begin, int64_t end, int32_t core);
void lint_add_box(lint *l, int64_t m0, int64_t m1, int64_t n0, int64_t n1,
                  int32_t core);
void lint_add_rect(lint *l, lint_rects *to, lint_rect r);
#endif
