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
// Fail with a name that no tensor has, and suggest a similar one.
dv_status dv_build_no_tensor(dv_builder *b, dv_loc at, dv_str name);
// The value of an expression of whole numbers and params.
dv_status dv_build_int(dv_builder *b, const dv_node *n, int64_t *out);
// The param of a name, or NULL.
const dv_param_value *dv_build_param(const dv_builder *b, dv_str name);
// Make a tensor; fails when it is too large to count.
dv_status dv_build_tensor(dv_builder *b, dv_tensor t, int32_t *id);
// Resolve one assignment (ir/build_op.c).
dv_status dv_build_assign(dv_builder *b, const dv_stmt *s);

// -- One assignment --------------------------------------------------------

// A place that says something about a variable's range.
typedef struct dv_range_place {
    int known;
    int64_t begin, end;
    uint32_t off;
    int32_t tensor, dim;
} dv_range_place;

typedef struct dv_binding {
    dv_var var;
    dv_str name;
    int in_scope;
    const dv_for *range; // NULL: none given
    dv_range_place plain, derived;
} dv_binding;

typedef struct dv_opbuild {
    dv_builder *b;
    const dv_stmt *s;
    dv_binding vars[DV_MAX_VARS];
    int n_vars; // bound so far
    int width;  // length of coefficient arrays: all that will be bound
    dv_access *reads;
    int32_t n_reads, cap_reads;
} dv_opbuild;

// Fail with a name in front of the text.
dv_status dv_opbuild_fail(const dv_opbuild *o, dv_status st, uint32_t off,
                          const char *text, dv_str name);

// Variables (ir/build_index.c): find one in scope, or -1; the range `for`
// gives, or NULL; bind one; bind what an index of the left side names; does a
// reducer below n bind the name; work out a range once all accesses are known.
int dv_bound_find(const dv_opbuild *o, dv_str name);
const dv_for *dv_bound_for(const dv_stmt *s, dv_str name);
dv_status dv_bound_add(dv_opbuild *o, dv_str name, uint32_t off, int reduce);
dv_status dv_bound_index(dv_opbuild *o, const dv_node *n, int alone);
int dv_bound_reduced(const dv_node *n, dv_str name);
dv_status dv_bound_range(dv_opbuild *o, dv_binding *v);

// Accesses (ir/build_index.c): the tensor a node names; an access to it; an
// access among the op's reads, each kept once.
dv_status dv_access_tensor(const dv_opbuild *o, const dv_node *n, int32_t *id);
dv_status dv_access_make(dv_opbuild *o, const dv_node *n, int32_t tensor,
                         dv_access *out);
dv_status dv_access_read(dv_opbuild *o, const dv_node *n, int32_t *read);
#endif
