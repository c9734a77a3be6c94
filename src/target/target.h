// Targets: a machine as a list of properties. No pass asks for a machine by
// name; it asks for the property. target.def is the list and says what each
// one means; the field of a property is its name with the unit behind it:
//
//   target spyre {
//       cores            = 32        # t->cores
//       core_grid        = 8x4       # t->core_grid.cols, t->core_grid.rows
//       scratch          = 2MiB      # t->scratch_bytes
//       scratch_reserved = 20%       # t->scratch_reserved_percent
//       memory_bandwidth = 204.8GB/s # t->memory_bandwidth_bytes_per_s
//   }
//
// Invariants of every dv_target: each property is within the limits of its
// row; core_grid is 0x0 or multiplies to cores; tile_rows and tile_cols are
// both 0 or both not; stick is a multiple of 8, the widest element; span_limit
// is 0 or holds a stick; scratch_align is a power of two; scratch_program is
// within scratch.
// Memory: a target is flat. It owns nothing and is copied by assignment.
#ifndef DV_TARGET_H
#define DV_TARGET_H
#include "base/json.h"
#include "base/text.h"
#include "lang/lexer.h"

enum { DV_TARGET_NAME_BYTES = 64, DV_TARGET_TEXT_BYTES = 96 };

typedef struct dv_core_grid {
    int64_t cols, rows;
} dv_core_grid;

// What a property of each type is in C, and what its field is called.
typedef char dv_target_label[DV_TARGET_TEXT_BYTES];
#define DV_CTYPE_count            int64_t
#define DV_CTYPE_bytes            int64_t
#define DV_CTYPE_percent          double
#define DV_CTYPE_flag             int
#define DV_CTYPE_grain            dv_grain
#define DV_CTYPE_byte_rate        double
#define DV_CTYPE_mac_rate         double
#define DV_CTYPE_op_rate          double
#define DV_CTYPE_hertz            double
#define DV_CTYPE_grid             dv_core_grid
#define DV_CTYPE_text             dv_target_label
#define DV_MEMBER_count(name)     name
#define DV_MEMBER_bytes(name)     name##_bytes
#define DV_MEMBER_percent(name)   name##_percent
#define DV_MEMBER_flag(name)      name
#define DV_MEMBER_grain(name)     name
#define DV_MEMBER_byte_rate(name) name##_bytes_per_s
#define DV_MEMBER_mac_rate(name)  name##_per_s
#define DV_MEMBER_op_rate(name)   name##_per_s
#define DV_MEMBER_hertz(name)     name##_hz
#define DV_MEMBER_grid(name)      name
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
int dv_target_equal(const dv_target *a, const dv_target *b);
// One line about built-in number i, NULL past the last.
const char *dv_target_summary(int i);

// What a plan may use of a core's scratchpad, a multiple of scratch_align:
// scratch less the program, less the reserved share, rounded up but not past
// the end. Spyre: (2MiB - 64KiB) * 0.8 is 1625292.8, which makes 1625344.
int64_t dv_target_usable_bytes(const dv_target *t);
#endif
