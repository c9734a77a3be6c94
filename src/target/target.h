// Targets: a machine described as a list of properties. Passes never test the
// name of a machine, only its properties. target.def lists the properties and
// their meanings; the C field of a property is its name followed by its unit:
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
// Invariants of every dv_target: each property is within the limits of its row;
// core_grid is 0x0, or its size is the number of cores plus the number of
// holes; holes lie on the grid, as disjoint rectangles made by
// dv_target_restrict; tile_rows and tile_cols are both 0 or both nonzero; stick
// is a multiple of 8, the size of the widest element; span_limit is 0 or at
// least one stick; scratch_align is a power of two; scratch_program is at most
// scratch. A target owns no memory and is copied by assignment.
//
//   target.[ch]  targets as values: equality, units, printing
//   target.def   the only list of properties
//   field.h      target.def as a table
//   read.c       parses target descriptions
//   load.c       finds targets by name or file
//   builtin.h    the text of targets/*.dv, compiled into the library
//   host.[ch]    probes the machine divvy runs on
//   ops.[ch]     sets of ops, such as those that may work in place
//   cores.c      numbers the cores of a grid, skipping holes
//
// Other folders may also include: field.h, host.h
#ifndef DV_TARGET_H
#define DV_TARGET_H
#include "base/json.h"
#include "base/text.h"
#include "lang/lexer.h"
#include "target/ops.h"

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

// The C type of a property of each kind (DV_CTYPE_*), and the name of its field
// (DV_MEMBER_*).
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
#define DV_CTYPE_duration         double
#define DV_CTYPE_grid             dv_core_grid
#define DV_CTYPE_rects            dv_core_rects
#define DV_CTYPE_ops              dv_op_set
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
#define DV_MEMBER_duration(name)  name##_ns
#define DV_MEMBER_grid(name)      name
#define DV_MEMBER_rects(name)     name
#define DV_MEMBER_ops(name)       name
#define DV_MEMBER_text(name)      name

struct dv_target {
    char name[DV_TARGET_NAME_BYTES];
#define TARGET_FIELD(name, type, def, least, most, text)                       \
    DV_CTYPE_##type DV_MEMBER_##type(name);
#include "target/target.def"
#undef TARGET_FIELD
};

// Initialises a target with default values. The name is truncated to fit.
void dv_target_init(dv_target *t, const char *name);
// Parses one target description. Before the call, the lexer is at the word
// `target`; afterwards it is after the closing brace. *out is unchanged on
// failure.
dv_status dv_target_read(dv_lexer *lx, dv_target *out);
// Prints the properties that differ from the defaults; each line is indented by
// `indent` spaces.
void dv_target_print(dv_text *out, const dv_target *t, int indent);
// Prints every property with its type, default and meaning.
void dv_target_print_properties(dv_text *out);
// Prints every property as JSON, numbers in their base unit (bytes, per second,
// Hz, ns).
void dv_target_json(dv_json *j, const char *key, const dv_target *t);
// Prints rectangles as a JSON array [[x0, y0, x1, y1], …].
void dv_target_rects_json(dv_json *j, const char *key, const dv_core_rects *r);
int dv_target_equal(const dv_target *a, const dv_target *b);
// Returns a one-line description of built-in target i, or NULL past the last.
const char *dv_target_summary(int i);

// Core numbers and grid positions (cores.c). The cores of a plan are numbered
// 0..cores: row by row over the grid, skipping holes. A machine without a grid
// counts as one row.
//
//   0  1  2       core_grid = 3x3, holes = 1,1 0,2
//   3  .  4
//   .  5  6

dv_core_grid dv_target_grid(const dv_target *t);
// Returns the number of the core at column x, row y, or -1 if there is none.
int64_t dv_target_core(const dv_target *t, int64_t x, int64_t y);
// Returns the column and row of a core, given its number.
void dv_target_core_position(const dv_target *t, int64_t core, int64_t *x,
                             int64_t *y);
// Fails unless all cores of the rectangle lie on the grid.
dv_status dv_target_on_grid(const dv_target *t, const dv_core_rect *r,
                            dv_loc at, dv_diag *diag);
// Restricts the target to the `allowed` cores of the grid (all if none are
// given), without `holes` (unused cores); existing holes remain. Sets t->holes
// to new disjoint rectangles and t->cores to the number of remaining cores.
// `at` is the position for error messages.
dv_status dv_target_restrict(dv_target *t, const dv_core_rect *allowed,
                             size_t n_allowed, const dv_core_rect *holes,
                             size_t n_holes, dv_loc at, dv_diag *diag);
// Restricts the target to its first n cores.
dv_status dv_target_restrict_first(dv_target *t, int64_t n, dv_diag *diag);

// Returns the bytes of a core's scratchpad that a plan may use: its size minus
// the program, minus the reserved percentage, rounded up to a multiple of
// scratch_align but not past the end. For spyre, (2MiB - 64KiB) * 0.8 =
// 1625292.8, rounded up to 1625344.
int64_t dv_target_usable_bytes(const dv_target *t);
// The functions below say what a target can do. Passes and executors ask for
// the property that they need, never for the name of a machine.

// Returns whether plans run on the machine that divvy runs on, on threads and
// with generated kernels; plans for other targets are simulated.
static inline int dv_target_runs_here(const dv_target *t)
{
    return t->here;
}

// Returns whether each core's local memory is a cache: nothing has an address
// in it, and cores share main memory by cache lines.
static inline int dv_target_has_caches(const dv_target *t)
{
    return t->here;
}

// Operands pass along the ring only among cores for which dv_target_ring
// returns the same number; dv_target_has_rings returns whether there are
// several such rings.
static inline int dv_target_has_rings(const dv_target *t)
{
    return t->ring_cores > 0 && t->ring_cores < t->cores;
}
static inline int64_t dv_target_ring(const dv_target *t, int64_t core)
{
    return dv_target_has_rings(t) ? core / t->ring_cores : 0;
}
// Returns whether the cores have local memories that the plan manages
// (scratchpads, not caches).
static inline int dv_target_has_scratchpads(const dv_target *t)
{
    return t->scratch_bytes > 0 && !dv_target_has_caches(t);
}

// Returns whether kernels of matrix products pack their operands (copy them
// into the order in which they read them), which makes a strided operand as
// fast as a contiguous one.
static inline int dv_target_packs(const dv_target *t)
{
    return t->here;
}
#endif
