// The rows of target.def (the properties that describe a machine) as a run-time
// table.
//
// The value of a property of any type is passed as a double: the limits in
// target.def keep all values below 2^53, where doubles hold integers exactly.
// Only grids, rectangles, sets of ops and texts are handled separately.
#ifndef DV_FIELD_H
#define DV_FIELD_H
#include "target/target.h"

typedef enum dv_target_kind {
    DV_KIND_count,
    DV_KIND_bytes,
    DV_KIND_percent,
    DV_KIND_flag,
    DV_KIND_grain,
    DV_KIND_storage,
    DV_KIND_byte_rate,
    DV_KIND_mac_rate,
    DV_KIND_op_rate,
    DV_KIND_hertz,
    DV_KIND_duration,
    DV_KIND_grid,
    DV_KIND_rects,
    DV_KIND_ops,
    DV_KIND_text,
} dv_target_kind;

// How values of one kind of property (bytes, percent, rate) are written, and
// their unit if they have one.
typedef struct dv_target_kind_info {
    const char *name, *example;
    const char *unit; // unit without prefix; NULL if none
    int per_second;   // 1 if /s follows the unit
    // The two words of an enumerated kind: word[0] stands for the smaller of
    // its two values, word[1] for the larger.
    const char *word[2];
} dv_target_kind_info;
extern const dv_target_kind_info dv_target_kinds[];

typedef struct dv_target_field {
    const char *name;
    dv_target_kind kind;
    size_t offset; // offset of the field in dv_target
    double def, least, most;
    const char *meaning;
} dv_target_field;
extern const dv_target_field dv_target_fields[];

// Row numbers of dv_target_fields, e.g. DV_AT_cores for the property `cores`.
enum {
#define TARGET_FIELD(name, type, def, least, most, text) DV_AT_##name,
#include "target/target.def"
#undef TARGET_FIELD
    DV_N_FIELDS,
};

void *dv_field_of(dv_target *t, const dv_target_field *f);
void dv_field_set(dv_target *t, const dv_target_field *f, double v);
// Prints a value of a numeric or enumerated kind (not a grid, rectangles, a set
// of ops or a text).
void dv_value_print(dv_text *out, dv_target_kind k, double v);
// Returns the factor of a unit with prefix, e.g. 1e9 for GB, or 0 if the text
// is no unit of this kind.
double dv_unit_scale(dv_target_kind k, const char *text, size_t len);
#endif
