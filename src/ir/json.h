// The fields that describe a program, for everything that prints JSON.
#ifndef DV_IR_JSON_H
#define DV_IR_JSON_H
#include "base/json.h"
#include "ir/program.h"

// More fields for a tensor or an op, by number.
typedef struct dv_json_more {
    void (*tensor)(dv_json *j, const void *of, int32_t i);
    void (*op)(dv_json *j, const void *of, int32_t i);
    const void *of;
} dv_json_more;

// file, params, tensors, ops, repeats. `more` may be NULL.
void dv_program_json_fields(dv_json *j, const dv_program *p,
                            const dv_json_more *more);
#endif
