// Inside ir/build*.c: what is known while an AST is resolved.
#ifndef DV_BUILD_H
#define DV_BUILD_H
#include "ir/program.h"

typedef struct dv_builder {
    dv_program *p;
    dv_diag *diag;
    dv_table param_ids; // name to number in p->params
    // What a tensor made of constants alone is: the widest type of the inputs.
    dv_dtype float_type, int_type;
    int in_dead_repeat; // inside a `repeat 0`
} dv_builder;

dv_loc dv_build_at(const dv_builder *b, uint32_t off);
// The value of an expression of whole numbers and params.
dv_status dv_build_int(dv_builder *b, const dv_node *n, int64_t *out);
// The param of a name, or NULL.
const dv_param_value *dv_build_param(const dv_builder *b, dv_str name);
// Make a tensor; fails when it is too large to count.
dv_status dv_build_tensor(dv_builder *b, dv_tensor t, int32_t *id);
// Resolve one assignment (ir/build_op.c).
dv_status dv_build_assign(dv_builder *b, const dv_stmt *s);
#endif
