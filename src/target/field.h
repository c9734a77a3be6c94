// The table of target.def at run time, for the files of this folder only.
//
// Whatever the type of a property, its value passes through here as a double:
// the limits of target.def keep all of them below 2^53, where a double is
// exact. Only grids, rectangles and texts are handled on their own.
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
    DV_KIND_grid,
    DV_KIND_rects,
    DV_KIND_text,
} dv_target_kind;

// What a kind of value looks like, and its unit where it takes one.
typedef struct dv_target_kind_info {
    const char *name, *example;
    const char *unit; // without a prefix; NULL for none
    int per_second;   // the unit goes on with /s
    // The two values of a kind that is a choice: least, then most.
    const char *word[2];
} dv_target_kind_info;
extern const dv_target_kind_info dv_target_kinds[];

typedef struct dv_target_field {
    const char *name;
    dv_target_kind kind;
    size_t offset; // in dv_target
    double def, least, most;
    const char *meaning;
} dv_target_field;
extern const dv_target_field dv_target_fields[];

// DV_AT_cores is the row of cores.
enum {
#define TARGET_FIELD(name, type, def, least, most, text) DV_AT_##name,
#include "target/target.def"
#undef TARGET_FIELD
    DV_N_FIELDS,
};

void *dv_field_of(dv_target *t, const dv_target_field *f);
void dv_field_set(dv_target *t, const dv_target_field *f, double v);
// Print a value of a kind; not of a grid, rectangles or text.
void dv_value_print(dv_text *out, dv_target_kind k, double v);
// What a unit stands for, GB or MiB; 0 when it is none of this kind.
double dv_unit_scale(dv_target_kind k, const char *text, size_t len);
#endif
