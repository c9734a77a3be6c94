// Prints the JSON fields that describe a program, for every command that prints
// JSON.
#ifndef DV_IR_JSON_H
#define DV_IR_JSON_H
#include "base/json.h"
#include "ir/program.h"

// Callbacks with which a caller adds fields of its own to the JSON object of
// tensor or op number i. `of` is passed through to them.
typedef struct dv_json_hooks {
    void (*tensor)(dv_json *j, const void *of, int32_t i);
    void (*op)(dv_json *j, const void *of, int32_t i);
    const void *of;
} dv_json_hooks;

// Prints the fields file, params, tensors, ops and repeats into the open JSON
// object. `more` adds fields of the caller and may be NULL.
void dv_program_json_fields(dv_json *j, const dv_program *p,
                            const dv_json_hooks *more);
#endif
