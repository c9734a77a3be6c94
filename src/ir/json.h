// The fields that describe a program, for everything that prints JSON.
#ifndef DV_IR_JSON_H
#define DV_IR_JSON_H
#include "base/json.h"
#include "ir/program.h"

// file, params, tensors, ops, repeats.
void dv_program_json_fields(dv_json *j, const dv_program *p);
#endif
