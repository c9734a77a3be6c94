// State shared by ir/build*.c while an AST is resolved into a program.
#ifndef DV_BUILD_H
#define DV_BUILD_H
#include "ir/program.h"

// A repeat that counts, around the statement that is being resolved: its
// counter's name in the text, and the access to the counter's tensor.
typedef struct dv_counter {
    dv_str name;
    dv_node *begin; // its first value
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
    // Above 0 while statements are built that the text does not have, or has
    // once; there are no warnings then.
    int quiet;
} dv_builder;

dv_loc dv_build_at(const dv_builder *b, uint32_t off);
// Fails with a message that no tensor has this name, and suggests a similar
// name.
dv_status dv_build_no_tensor(dv_builder *b, dv_loc at, dv_str name);
// Evaluates an expression of integers and params (named constants).
dv_status dv_constant_int(dv_builder *b, const dv_node *n, int64_t *out);
// Evaluates a constant expression that is a value of this type; inf and -inf
// are values of floats. It is rounded to the type.
dv_status dv_constant_of_type(dv_builder *b, const dv_node *n, dv_dtype type,
                              double *out);
// Returns the param with this name, or NULL.
const dv_param_value *dv_find_param(const dv_builder *b, dv_str name);
// Adds a tensor to the program. Fails if its size in bytes does not fit 64
// bits.
dv_status dv_build_tensor(dv_builder *b, dv_tensor t, int32_t *id);
// Counters of repeats (ir/counter.c). dv_counter_begin adds the statement that
// starts a counter, in front of its repeat, and brings it into scope;
// dv_counter_end the one that advances it, the last of the repeat.
// dv_find_counter returns the counter in scope of this name, or NULL;
// dv_counter_value the access that a use of its name means.
dv_status dv_counter_begin(dv_builder *b, const dv_stmt *s, dv_counter *c,
                           int64_t *times);
dv_status dv_counter_end(dv_builder *b, const dv_counter *c);
const dv_counter *dv_find_counter(const dv_builder *b, dv_str name);
dv_node dv_counter_value(const dv_counter *c, const dv_node *use);
// Finds a name for a tensor that no tensor of the text has: `name` if possible,
// otherwise with a number. It is in the program's arena.
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
    // Ranges from dims that the variable indexes alone, from indices with no
    // other variable, and from reads with a border. The first of the three that
    // is known counts.
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
    // Constants that become the last value of a variable; NULL: none.
    dv_expr *last[DV_MAX_VARS];
    dv_top_use *tops;
    int32_t n_tops, cap_tops;
    // Names that hide others, about which the statement has a warning.
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
// statement with such uses, whose ranges are known, as statements without them.
dv_status dv_top_add(dv_opbuild *o, const dv_node *n, int var, dv_dtype type);
dv_status dv_top_replace(dv_opbuild *o);
#endif
