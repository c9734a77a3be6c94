// State shared by ir/build*.c while an AST is resolved into a program.
#ifndef DV_BUILD_H
#define DV_BUILD_H
#include "ir/program.h"

// The counter of a repeat loop around the statement that is being resolved: its
// name in the text, and the access to the tensor that holds its value.
typedef struct dv_counter {
    dv_str name;
    int64_t begin; // its first value
    dv_node value;
    uint32_t off;
    const struct dv_counter *outer; // that of the next repeat around it
} dv_counter;

typedef struct dv_builder {
    dv_program *p;
    dv_diag *diag;
    dv_table param_ids; // maps a param's name to its index in p->params
    // The types of tensors that are computed from float constants alone and
    // from integer constants alone, chosen from the types of the program's
    // inputs.
    dv_dtype float_type, int_type;
    int in_dead_repeat; // 1 inside a `repeat 0`, whose statements never run
    const dv_counter *counters; // the innermost one; NULL: none
    // Above 0 while statements are built that were generated, or that are built
    // a second time; then no warnings are printed.
    int quiet;
} dv_builder;

dv_loc dv_build_at(const dv_builder *b, uint32_t off);
// Fails with a message that no tensor has this name, and suggests a similar
// name.
dv_status dv_build_no_tensor(dv_builder *b, dv_loc at, dv_str name);
// Evaluates an expression of integers and params (named constants).
dv_status dv_constant_int(dv_builder *b, const dv_node *n, int64_t *out);
// Evaluates a constant expression whose value must be of this type, and rounds
// it to the type. Floats may be inf and -inf.
dv_status dv_constant_of_type(dv_builder *b, const dv_node *n, dv_dtype type,
                              double *out);
// Returns the param with this name, or NULL.
const dv_param_value *dv_find_param(const dv_builder *b, dv_str name);
// Adds a tensor to the program. Fails if its size in bytes does not fit 64
// bits.
dv_status dv_build_tensor(dv_builder *b, dv_tensor t, int32_t *id);
// Counters of repeat loops (ir/counter.c). dv_counter_begin adds the statement
// that initialises a counter before its loop, and brings its name into scope;
// dv_counter_end adds the statement that advances it, at the end of the loop.
// dv_find_counter returns the counter in scope with this name, or NULL;
// dv_counter_value the access that a use of its name stands for.
dv_status dv_counter_begin(dv_builder *b, const dv_stmt *s, dv_counter *c,
                           int64_t *times);
dv_status dv_counter_end(dv_builder *b, const dv_counter *c);
const dv_counter *dv_find_counter(const dv_builder *b, dv_str name);
dv_node dv_counter_value(const dv_counter *c, const dv_node *use);
// Finds a tensor name that does not occur in the program's text: `name` if
// possible, otherwise with a number appended. *out is in the program's arena.
dv_status dv_build_new_name(dv_builder *b, dv_str name, dv_str *out);
// Resolves one statement, or one assignment into an op (ir/build_op.c).
dv_status dv_build_statement(dv_builder *b, dv_stmt *s);
dv_status dv_build_op(dv_builder *b, const dv_stmt *s);

// A range of a variable inferred from an index of a tensor, and where that
// index is in the source.
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
    const dv_for *range; // range given by `for`; NULL if none
    // Ranges inferred from a dim that the variable alone indexes (x[i]), from
    // another index without other variables (x[2*i+1]), and from a read with a
    // border. The first of the three that is known counts.
    dv_range_place plain, derived, border;
} dv_binding;

// A use of topk or argtopk in the statement that is being resolved.
typedef struct dv_top_use {
    const dv_node *node;
    int var;       // the variable that it reduces
    int rank;      // the variable that says which of the largest operands
    uint32_t vars; // mask of the other variables of the operand
    dv_dtype type; // of the operand
} dv_top_use;

typedef struct dv_opbuild {
    dv_builder *b;
    const dv_stmt *s;
    dv_binding vars[DV_MAX_VARS];
    int n_vars; // number of variables bound so far
    // Number of variables that the whole statement will bind, and therefore the
    // length of the coefficient array of each affine index.
    int width;
    dv_access *reads;
    int32_t n_reads, cap_reads;
    // last[v], if not NULL, is a constant in the expression that is set to the
    // last value of variable v once v's range is known.
    dv_expr *last[DV_MAX_VARS];
    dv_top_use *tops;
    int32_t n_tops, cap_tops;
    // Variable names that hide a counter or param; a statement has one warning
    // for each.
    dv_str hiding[DV_MAX_VARS];
    int n_hiding;
} dv_opbuild;

// Fails with a message that consists of `name`, a name in the program's text,
// followed by `text`. `off` is its position in the source.
dv_status dv_opbuild_fail(const dv_opbuild *o, dv_status st, uint32_t off,
                          const char *text, dv_str name);

// Variables of a statement (ir/build_index.c). dv_bound_find returns a variable
// in scope, or -1; dv_bound_for the range given by `for`, or NULL; dv_bound_add
// binds one variable; dv_bound_index binds the names in an index of the left
// side; dv_bound_reduced tells whether a reducer below n binds the name;
// dv_bound_range computes a variable's range once all accesses are known;
// dv_bound_warn warns, once per statement and name, if the variable or counter
// that node n means hides a counter or param of the same name.
int dv_bound_find(const dv_opbuild *o, dv_str name);
const dv_for *dv_bound_for(const dv_stmt *s, dv_str name);
dv_status dv_bound_add(dv_opbuild *o, dv_str name, uint32_t off, int reduce);
dv_status dv_bound_index(dv_opbuild *o, const dv_node *n, int alone);
int dv_bound_reduced(const dv_node *n, dv_str name);
dv_status dv_bound_range(dv_opbuild *o, dv_binding *v);
void dv_bound_warn(dv_opbuild *o, const dv_node *n);

// Accesses of a statement (ir/build_index.c). dv_access_tensor returns the
// tensor that a node names; dv_access_make builds an access to a tensor
// (`border`: a read with a border); dv_access_read adds a read to the op's
// reads unless an equal one is there.
dv_status dv_access_tensor(const dv_opbuild *o, const dv_node *n, int32_t *id);
dv_status dv_access_make(dv_opbuild *o, const dv_node *n, int32_t tensor,
                         int border, dv_access *out);
dv_status dv_access_read(dv_opbuild *o, const dv_node *n, int32_t *read);

// topk and argtopk (ir/build_top.c). dv_top_add records a use, which reduces
// the variable `var` over an operand of this type; dv_top_replace builds a
// statement that uses them as several statements without them, once all ranges
// are known.
dv_status dv_top_add(dv_opbuild *o, const dv_node *n, int var, dv_dtype type);
dv_status dv_top_replace(dv_opbuild *o);
#endif
