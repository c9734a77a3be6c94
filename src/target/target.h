// Targets: a machine as a list of properties. No pass asks for a machine by
// name; it asks for the property. target.def is the list and says what each
// one means; the field of a property is its name with the unit behind it:
//
//   target spyre {
//       cores            = 24        # t->cores
//       core_grid        = 8x4       # t->core_grid.cols, t->core_grid.rows
//       holes            = 0,3-7,3   # t->holes.at[0..t->holes.n)
//       scratch          = 2MiB      # t->scratch_bytes
//       scratch_reserved = 20%       # t->scratch_reserved_percent
//       memory_bandwidth = 204.8GB/s # t->memory_bandwidth_bytes_per_s
//   }
//
// Invariants of every dv_target: each property is within the limits of its
// row; core_grid is 0x0, or has as many cores as there are cores and holes;
// holes are on it, and dv_target_choose made their rectangles, which have no
// core in common; tile_rows and tile_cols are both 0 or both not; stick is a
// multiple of 8, the widest element; span_limit is 0 or holds a stick;
// scratch_align is a power of two; scratch_program is within scratch. Memory: a
// target is flat. It owns nothing and is copied by assignment.
//
//   target.[ch]  targets as values: equality, units, printing
//   target.def   the properties, the only list of them
//   field.h      private to the folder: target.def as a table
//   read.c       reads descriptions
//   load.c       finds targets by name or file
//   builtin.h    the descriptions of targets/*.dv, built into the library
//   host.[ch]    probes this machine
//   cores.c      numbers the cores of a grid without its holes
#ifndef DV_TARGET_H
#define DV_TARGET_H
#include "base/json.h"
#include "base/text.h"
#include "lang/lexer.h"

enum {
    DV_TARGET_NAME_BYTES = 64,
    DV_TARGET_TEXT_BYTES = 96,
    DV_TARGET_MAX_RECTS = 128,
};

typedef struct dv_core_grid {
    int64_t cols, rows;
} dv_core_grid;

typedef struct dv_core_rects {
    int32_t n;
    dv_core_rect at[DV_TARGET_MAX_RECTS];
} dv_core_rects;

// What a property of each type is in C, and what its field is called.
typedef char dv_target_label[DV_TARGET_TEXT_BYTES];
#define DV_CTYPE_count            int64_t
#define DV_CTYPE_bytes            int64_t
#define DV_CTYPE_percent          double
#define DV_CTYPE_flag             int
#define DV_CTYPE_grain            dv_grain
#define DV_CTYPE_storage          int
#define DV_CTYPE_byte_rate        double
#define DV_CTYPE_mac_rate         double
#define DV_CTYPE_op_rate          double
#define DV_CTYPE_hertz            double
#define DV_CTYPE_grid             dv_core_grid
#define DV_CTYPE_rects            dv_core_rects
#define DV_CTYPE_text             dv_target_label
#define DV_MEMBER_count(name)     name
#define DV_MEMBER_bytes(name)     name##_bytes
#define DV_MEMBER_percent(name)   name##_percent
#define DV_MEMBER_flag(name)      name
#define DV_MEMBER_grain(name)     name
#define DV_MEMBER_storage(name)   name##_stored
#define DV_MEMBER_byte_rate(name) name##_bytes_per_s
#define DV_MEMBER_mac_rate(name)  name##_per_s
#define DV_MEMBER_op_rate(name)   name##_per_s
#define DV_MEMBER_hertz(name)     name##_hz
#define DV_MEMBER_grid(name)      name
#define DV_MEMBER_rects(name)     name
#define DV_MEMBER_text(name)      name

struct dv_target {
    char name[DV_TARGET_NAME_BYTES];
#define TARGET_FIELD(name, type, def, least, most, text)                       \
    DV_CTYPE_##type DV_MEMBER_##type(name);
#include "target/target.def"
#undef TARGET_FIELD
};

// A machine of defaults. The name is cut to fit.
void dv_target_init(dv_target *t, const char *name);
// Read one description; the lexer stands on its word `target` and ends behind
// the closing brace. *out is left alone on failure.
dv_status dv_target_read(dv_lexer *lx, dv_target *out);
// Print what differs from the defaults, `indent` blanks in front of each line.
void dv_target_print(dv_text *out, const dv_target *t, int indent);
// Print every property with its type, default and meaning.
void dv_target_print_properties(dv_text *out);
// Every property as JSON: numbers in their base unit (bytes, per second, Hz).
void dv_target_json(dv_json *j, const dv_target *t);
// Rectangles as [[x0, y0, x1, y1], …].
void dv_target_rects_json(dv_json *j, const char *key, const dv_core_rects *r);
int dv_target_equal(const dv_target *a, const dv_target *b);
// One line about built-in number i, NULL past the last.
const char *dv_target_summary(int i);

// -- Cores by number and by place (cores.c) ----------------------------------
//
// A plan's cores have numbers 0..cores: those of the grid, row by row, holes
// left out. A machine without a grid has one row.
//
//   0  1  2       core_grid = 3x3, holes = 1,1 0,2
//   3  .  4
//   .  5  6

dv_core_grid dv_target_grid(const dv_target *t);
// The number of the core at column x, row y; -1: there is none.
int64_t dv_target_core(const dv_target *t, int64_t x, int64_t y);
// Where core number 0..cores is.
void dv_target_place(const dv_target *t, int64_t core, int64_t *x, int64_t *y);
// Are these cores of the grid?
dv_status dv_target_on_grid(const dv_target *t, const dv_core_rect *r,
                            dv_loc at, dv_diag *diag);
// Use only these cores of the grid (none given: all), and not the holes; what
// was a hole stays one. Holes become rectangles of their own making, `cores`
// is what is left. `at` is for messages.
dv_status dv_target_choose(dv_target *t, const dv_core_rect *allowed,
                           size_t n_allowed, const dv_core_rect *holes,
                           size_t n_holes, dv_loc at, dv_diag *diag);
// Use only the first n cores. A machine without a grid has no others then.
dv_status dv_target_first(dv_target *t, int64_t n, dv_diag *diag);

// What a plan may use of a core's scratchpad, a multiple of scratch_align:
// scratch less the program, less the reserved share, rounded up but not past
// the end. Spyre: (2MiB - 64KiB) * 0.8 is 1625292.8, which makes 1625344.
int64_t dv_target_usable_bytes(const dv_target *t);
#endif
