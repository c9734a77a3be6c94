// The program representation: tensors, and ops over boxes of integers. All
// params are replaced by numbers, and each op is explicit about what it
// computes:
//
//   y[i] = relu(sum[k] a[i,2*k] * b[k])
//
//   op y   vars  i in 0..64, k in 0..32 (reduce)
//          write y[i]
//          reads a[i,2*k], b[k]
//          body  relu(REDUCE sum {k} (READ 0 * READ 1))
//
// Nodes above the REDUCE node are evaluated once per element written (the
// epilogue), nodes below it once per point of the box. A lowered op has at most
// one REDUCE node; a program as written may have any number.
//
// All memory is in the program's arena; nothing changes once it is returned.
//
//   program.[ch]    program objects: create from text, print, convert to JSON
//   json.h          prints the JSON fields of a program, for other printers
//   calls.c         builds a program by calls (divvy/build.h)
//   build.[ch]      resolves an AST: params, declarations, repeats
//   build_op.c      resolves one assignment; build_top.c: topk and argtopk
//   build_index.c   resolves the names, indices and ranges of an assignment
//   counter.c       counters of repeats, as scalar tensors
//   infer.[ch]      finds params from the shapes of arrays
//   verify.c        checks the invariants of a program
//   info.c          derives what is not stored: kinds, factors, sizes, flops
//   access.c        accesses: their variables, strides, bounds and forms
//   split_sum.c     splits an op's expression at its reduction
//   channels.c      makes channels the last dim of temporaries
//   once.c          finds ops that depend on constants only
//   views.[ch]      lets ops read through copies that only rename elements
//   window.c        recognises reductions over small windows (filters, pools)
//   print.c         prints a program with all params replaced by numbers
//   lower.[ch]      lowers statements to ops of the target's grain
//   lower_emit.c    makes new ops out of parts of an op
//   lower_sums.c    splits sums of many factors; lower_scan.c: prefix sums
//   lower_signed.c  makes factors of products signed
//   lower_flip.c    reverses factors that are read backwards
//   lower_apart.c   copies windows that advance by more than one element
//   lower_across.c  transposes one operand of reductions over pairs of rows
//   eval.[ch]       the oracle: evaluates a program in plain loops
//   sample.[ch]     recomputes single elements by the rules of the oracle
//   error.[ch]      computes bounds on rounding errors
//
// Other folders may also include: error.h, eval.h, infer.h, json.h, sample.h,
// views.h
#ifndef DV_PROGRAM_H
#define DV_PROGRAM_H
#include "base/dtype.h"
#include "lang/ast.h"

enum {
    DV_MAX_VARS = 32,    // maximum number of variables of one op
    DV_MAX_READS = 1024, // maximum number of reads of one op
};

typedef struct dv_tensor {
    const char *name;
    dv_dtype dtype;
    int32_t n_dims;
    const int64_t *shape;
    int64_t n_elems;
    uint8_t is_input, is_output;
    // 1 if the tensor is an input whose elements never change between runs.
    uint8_t is_const;
    // In the program of a plan: 1 if the tensor is computed once, before the
    // first run.
    uint8_t is_once;
    uint8_t is_temp;    // 1 if declared with `temp`
    uint8_t is_defined; // 1 if an input, or if a statement `=` writes it
    // 1 if the tensor is defined only inside a `repeat 0`, whose statements
    // never run.
    uint8_t is_dead;
    // Requested distribution over ranks (processes); NULL if there is none.
    const dv_placement_request *place;
    // Where the program says that the tensor is stored in a machine's memories;
    // NULL: it does not say.
    const dv_memory_note *memory;
    // The file that holds the elements of a constant, as the text names it;
    // NULL: the caller of a run provides them.
    const char *file;
    uint32_t off; // source offset of its declaration or definition
} dv_tensor;

typedef struct dv_var {
    const char *name;
    int64_t begin, end; // values from begin to end - 1
    uint8_t reduce;
    uint32_t off;
} dv_var;

// One index of an access: base + the sum of coef[v] * v over the op's
// variables, its affine part, and, if via >= 0 (the index is indirect), factor
// * the value that read number `via` of the op loads.
typedef struct dv_index {
    int64_t base;
    const int64_t *coef; // coef[v] is the coefficient of variable v
    int32_t via;
    int64_t factor; // 0 if via < 0
} dv_index;

typedef struct dv_access {
    int32_t tensor;
    int32_t n_dims; // number of dims of the accessed tensor
    uint32_t off;
    const dv_index *index; // indices, one per dim
    // 1 if a read may leave its tensor; `border`, a value of the tensor's type,
    // stands for elements that are outside.
    uint8_t has_border;
    double border;
} dv_access;

typedef enum dv_expr_kind {
    DV_EXPR_CONST,
    DV_EXPR_READ,
    DV_EXPR_INDEX, // the value of a variable, an i64
    DV_EXPR_APPLY,
    DV_EXPR_REDUCE,
} dv_expr_kind;

// Types of constants: a weak constant takes the type of the operand it is
// combined with.
enum { DV_WEAK_FLOAT = -1, DV_WEAK_INT = -2 };

typedef struct dv_expr {
    uint8_t kind;
    uint8_t fn; // a dv_fn if kind is APPLY, a dv_reducer if it is REDUCE
    // A dv_dtype; DV_WEAK_FLOAT or DV_WEAK_INT if the subtree has only
    // constants.
    int8_t dtype;
    uint8_t n_args;
    uint32_t off;
    uint32_t vars; // if kind is REDUCE: mask of the reduced variables
    // If kind is READ: number of the read in the op. If kind is INDEX: number
    // of the variable.
    int32_t read;
    union {
        double value; // value of a CONST
        int64_t base; // an INDEX is the variable's value plus this
        const struct dv_expr *arg[3]; // operands of an APPLY; a REDUCE has one
    };
} dv_expr;

typedef struct dv_op {
    // Name of the written tensor, with .2, .3 … appended for its second, third
    // … writer.
    const char *name;
    // Loop variables of the op: first those that index the written tensor, in
    // the order of its dimensions, then the reduced ones.
    const dv_var *vars;
    int32_t n_vars, n_reads;
    dv_access write;
    const dv_access *reads; // the distinct read accesses
    const dv_expr *body;
    // 1 if the op modifies an existing tensor (`<-` in the text): its reads of
    // that tensor see the values from before the op.
    uint8_t update;
    uint8_t is_extern;
    uint32_t off;
} dv_op;

// A loop of the program: ops first_op up to but not including end_op run
// `times` times. An outer loop is listed before the loops inside it.
typedef struct dv_repeat {
    int32_t first_op, end_op;
    int64_t times;
    uint32_t off;
} dv_repeat;

typedef struct dv_param_value {
    const char *name;
    int is_float;
    int64_t i;
    double f; // value as a double, also set for integers
    uint32_t off;
} dv_param_value;

struct dv_program {
    dv_arena arena;
    dv_source src; // source text, owned by the arena
    dv_ast ast;    // syntax tree; empty if the program was lowered
    dv_grain grain;
    dv_param_value *params;
    dv_tensor *tensors;
    dv_op *ops;
    dv_repeat *repeats;
    int32_t n_params, n_tensors, n_ops, n_repeats;
    int32_t cap_params, cap_tensors, cap_ops, cap_repeats;
    dv_table tensor_ids; // maps a tensor's name to its number
};

typedef enum dv_kind {
    DV_KIND_POINTWISE,
    DV_KIND_REDUCTION,
    DV_KIND_CONTRACTION,
    DV_KIND_MOVE,
    DV_KIND_EXTERN,
} dv_kind;

dv_kind dv_op_kind(const dv_op *op);
// Returns whether the expression applies this function.
static inline int dv_expr_applies(const dv_expr *e, dv_fn fn)
{
    return e->kind == DV_EXPR_APPLY && e->fn == fn;
}
// Returns whether the expression uses a loop variable as a value (not only in
// indices).
int dv_expr_has_index(const dv_expr *e);
// dv_expr_is_integer returns whether the expression has an integer type or is
// made of whole numbers; dv_expr_is_test whether it compares two integers. A
// test has the same value in whatever type its statement is computed: it is
// evaluated in integers. So is a computed integer that is the condition of a
// select (dv_expr_is_condition). Neither contains a reduction.
int dv_expr_is_integer(const dv_expr *e);
int dv_expr_is_test(const dv_expr *e);
int dv_expr_is_condition(const dv_expr *e);
// Computes the least and greatest value of an INDEX node (a loop variable used
// as a value, plus a constant). Returns 0 if one of them does not fit 64 bits.
int dv_expr_index_bounds(const dv_op *op, const dv_expr *e, int64_t *lo,
                         int64_t *hi);
// If e is an INDEX node (a loop variable as a value) plus or minus an integer
// constant, makes it a single INDEX node, so that i + 3 has one form only.
void dv_expr_fold_index(dv_expr *e);
// Returns whether the expression is the product of two reads.
int dv_expr_is_product(const dv_expr *e);
// Finds the factors of an op that is a sum or mean of products of two reads, as
// numbers of reads. Returns 0 for other ops, and if an access is a gather.
int dv_op_factors(const dv_op *op, int32_t factor[2]);
const char *dv_kind_name(dv_kind k);
const char *dv_role_name(dv_role r);
dv_role dv_tensor_role(const dv_program *p, int32_t tensor);
// Returns whether the op copies a whole tensor with identical indices on both
// sides, as in y[i,j] = x[i,j].
int dv_op_is_copy(const dv_op *op);
int64_t dv_tensor_bytes(const dv_tensor *t);
// Appends the path of a constant's file. A relative path is relative to the
// folder of the program's own file.
void dv_constant_path(dv_text *out, const dv_program *p, int32_t tensor);
// Returns the first REDUCE node of the op's body in depth-first order from the
// root; NULL if there is none.
const dv_expr *dv_op_reduce(const dv_op *op);
// A part of an op's expression, as the expression of an op of its own
// (ir/split_sum.c). Its reads are renumbered: its read i is read reads[i] of
// the op.
typedef struct dv_expr_part {
    const dv_expr *body;
    int32_t *reads;
    int32_t n_reads;
} dv_expr_part;
// dv_op_take_sums extracts the op's reduction alone; a mean becomes a sum.
// dv_op_take_results extracts the rest of the expression: read number n_reads,
// of finished sums with this type, replaces the reduction, divided by the
// number of points if that is a mean. Both return 0 if out of memory.
int dv_op_take_sums(dv_expr_part *out, const dv_op *op, dv_arena *arena);
int dv_op_take_results(dv_expr_part *out, const dv_op *op, int8_t type,
                       dv_arena *arena);
// Converts the number of a read in the op to its number in the part of the op's
// expression; n_reads (of the part) if the part does not have it.
int32_t dv_expr_part_read(const dv_expr_part *part, int32_t read);
// Returns the mask of variables that an expression depends on, without those
// that the expression itself reduces over.
uint32_t dv_expr_free_vars(const dv_op *op, const dv_expr *e);

// Returns access number k of an op: its reads in order, then its write.
static inline const dv_access *dv_op_access(const dv_op *op, int k)
{
    return k < op->n_reads ? &op->reads[k] : &op->write;
}
// Returns the mask of variables that an index depends on; 0 if it is indirect.
uint32_t dv_index_vars(const dv_op *op, const dv_index *x);
// Values that dv_index_var returns if an index does not depend on exactly one
// variable.
enum {
    DV_CONSTANT = -1, // the index has no variable
    DV_NO_VAR = -2    // it has several variables, or is read from a tensor
};
int dv_index_var(const dv_op *op, const dv_index *x);
// Returns whether the index is exactly one variable, with coefficient 1 and no
// offset, and sets *var to it.
int dv_index_is_var(const dv_op *op, const dv_index *x, int *var);
// Returns the variable of an index that takes exactly the values 0 to extent -
// 1, each for one value of that variable; DV_CONSTANT if the index is the
// constant 0 and the extent is 1; DV_NO_VAR for any other index.
int dv_index_whole_var(const dv_op *op, const dv_index *x, int64_t extent);
// Like dv_index_whole_var, for an index that takes any consecutive values
// between 0 and extent - 1; returns DV_CONSTANT for every constant in that
// range.
int dv_index_part_var(const dv_op *op, const dv_index *x, int64_t extent);
// An index as a number whose digits are variables, the most significant first:
// `base` plus the sum of weight[i] * (variable var[i] - its begin). It takes
// `size` consecutive values, each for one combination of these variables.
typedef struct dv_digits {
    int n, var[DV_MAX_VARS];
    int64_t weight[DV_MAX_VARS], base, size;
} dv_digits;
// Decomposes an index into digits (a mixed-radix number). Returns 0 if it has
// no such form.
int dv_index_digits(dv_digits *out, const dv_op *op, const dv_index *x);
// Returns the mask of variables that an access depends on, including those of
// the reads that supply its indices.
uint32_t dv_access_vars(const dv_op *op, const dv_access *a);
int dv_access_is_indirect(const dv_access *a);
// Returns whether an indirect index is exactly the value that is read: it has
// no affine part, and its factor is 1.
int dv_index_is_value(const dv_op *op, const dv_index *x);
// Returns whether the access is a gather: an indirect index may differ between
// points of the op. Otherwise its indirect indices come from reads with
// constant indices, such as the counter of a repeat, so that the access has
// constant strides.
int dv_access_gathers(const dv_op *op, const dv_access *a);
// Returns whether the elements that are accessed when each variable has a range
// of values form a box without gaps: every dim has at most one variable, with
// coefficient 1, and no variable occurs twice; the access has no border.
// vars[d] becomes the variable of dim d, or DV_CONSTANT.
int dv_access_is_box(const dv_op *op, const dv_access *a, int *vars);
// Returns whether every index of the access is one variable without an offset,
// and no variable occurs twice. vars[d] becomes the variable of dim d.
int dv_access_is_vars(const dv_op *op, const dv_access *a, int *vars);
// Returns the dim whose index is exactly the variable plus an offset, if no
// other dim depends on the variable; otherwise -1.
int dv_access_dim(const dv_op *op, const dv_access *a, int var);
// dv_op_gathers returns whether one of the op's reads has an indirect index;
// dv_op_reads whether the op reads the tensor.
int dv_op_gathers(const dv_op *op);
int dv_op_reads(const dv_op *op, int32_t tensor);
// Returns whether two accesses of the op have the same tensor and the same
// indices.
int dv_access_equal(const dv_op *op, const dv_access *a, const dv_access *b);
// The range of each variable of an op: a box in its iteration space.
typedef struct dv_iter_space {
    int64_t begin[DV_MAX_VARS], end[DV_MAX_VARS];
} dv_iter_space;
// Computes the least and greatest value of the affine part of an index over a
// box of the iteration space, or over the whole space if s is NULL. Returns 0
// if one of them does not fit 64 bits.
int dv_index_bounds(const dv_op *op, const dv_index *x, const dv_iter_space *s,
                    int64_t *lo, int64_t *hi);
// Returns the value of the affine part of an index at a point (a value of each
// variable).
static inline int64_t dv_index_value(const dv_op *op, const dv_index *x,
                                     const int64_t *point)
{
    int64_t i = x->base;
    for (int v = 0; v < op->n_vars; v++)
        i += x->coef[v] * point[v];
    return i;
}
// Computes the least and greatest element number of dim d that an access
// reaches over a box of the iteration space (NULL: the whole space). For a read
// with a border these are elements of the tensor, even if all indices are
// outside. Returns 0 if a value does not fit 64 bits. The index of dim d must
// not be indirect.
int dv_access_bounds(const dv_program *p, const dv_op *op, const dv_access *a,
                     int d, const dv_iter_space *s, int64_t *lo, int64_t *hi);
// Returns whether the access has a border and some of its affine indices leave
// the tensor within the box of the iteration space (NULL: the whole space). If
// it has indirect indices and a border, the answer is yes.
int dv_access_leaves(const dv_program *p, const dv_op *op, const dv_access *a,
                     const dv_iter_space *s);
// Returns whether one of the op's reads has a border.
int dv_op_has_border(const dv_op *op);
// Returns the number of combinations of values of the variables in the mask, or
// 0 if that number does not fit 64 bits.
int64_t dv_op_points(const dv_op *op, uint32_t vars);
// Returns the number of combinations of values of the variables in the mask, as
// a double, which does not overflow.
double dv_op_points_double(const dv_op *op, uint32_t vars);
// Returns the stride of a variable in an access: the distance in elements, in a
// row-major tensor, when the variable grows by one and values that indirect
// indices read stay the same.
int64_t dv_access_step(const dv_program *p, const dv_access *a, int var);
// Writes an access as one affine offset in elements: coef[v] becomes the stride
// of each variable, and the offset at value 0 of all variables is returned.
// `strides` holds the stride of each dim; the values that indirect indices read
// are not part of the offset.
int64_t dv_access_flatten(const dv_op *op, const dv_access *a,
                          const int64_t *strides, int64_t *coef);
// Computes the strides of the dims of a row-major array. Returns its number of
// elements.
int64_t dv_row_strides(int n_dims, const int64_t *shape, int64_t *strides);
// If the op reduces over a small window around each result (as in a convolution
// or pooling) and adjacent results read adjacent elements, returns the number
// of points of the window; otherwise 0.
int64_t dv_op_window(const dv_program *p, const dv_op *op);
static inline uint32_t dv_all_vars(const dv_op *op)
{
    return op->n_vars >= 32 ? UINT32_MAX : (1u << op->n_vars) - 1;
}
// Returns the number of values of a variable.
static inline int64_t dv_var_len(const dv_op *op, int v)
{
    return op->vars[v].end - op->vars[v].begin;
}
// Returns how many times an op evaluates its expression. Each reducer
// contributes the points of its own loop nest; reducers that are not nested add
// up.
double dv_op_work(const dv_op *op);
// Returns the number of evaluations of expressions (dv_op_work) of all ops,
// each multiplied by the trip counts of the repeat loops around it.
double dv_program_points(const dv_program *p);
// Returns the mask of the op's variables that are not reduced over.
uint32_t dv_written_vars(const dv_op *op);
double dv_op_flops(const dv_op *op);
// Returns the bytes of the distinct elements that the op reads and writes, each
// element counted once.
double dv_op_bytes(const dv_program *p, const dv_op *op);
// Returns whether read number `read` is the op's first read of its tensor.
int dv_op_reads_first(const dv_op *op, int read);
// Returns the bytes of the distinct elements of `tensor` that the op reads.
double dv_op_read_bytes(const dv_program *p, const dv_op *op, int32_t tensor);
// Returns whether an update (an op that modifies its tensor, `<-` in the text)
// may read elements of that tensor that it writes at other points.
int dv_op_reads_own_write(const dv_op *op);

// Returns whether a read serves only as an index of other accesses and does not
// occur in the op's expression.
int dv_op_is_index(const dv_op *op, int32_t read);

// The type that an op is computed in: f64 if any operand is f64; i64 if all
// operands are integers; otherwise f32, or f64 if there are also integers of 32
// or 64 bits, which the mantissa of f32 cannot hold. Integers that are only
// compared with integers, or are conditions of selects, do not count. An op
// that only converts integers to floats is computed in a type that rounds them
// once.
// dv_op_partial_bytes returns the bytes of one partial result in that type.
typedef enum dv_compute_type {
    DV_IN_F32,
    DV_IN_F64,
    DV_IN_I64
} dv_compute_type;
dv_compute_type dv_op_compute(const dv_program *p, const dv_op *op);
int64_t dv_op_partial_bytes(const dv_program *p, const dv_op *op);
// Returns the type that kernels compute in. Integer sums are defined in 64
// bits, but results keep at most the low 32, so that 32-bit sums that wrap
// around are equivalent; the executor makes sure that nothing else uses a sum
// before it is truncated.
static inline dv_dtype dv_kernel_type(dv_compute_type c)
{
    return c == DV_IN_F64 ? DV_F64 : c == DV_IN_F32 ? DV_F32 : DV_I32;
}

// Returns the type of an APPLY or REDUCE node, derived from the types of its
// arguments.
int8_t dv_expr_type(const dv_expr *e);
// Returns the application of a function to two expressions, with its type;
// `off` is its source position.
dv_expr dv_expr_binary(dv_fn fn, const dv_expr *x, const dv_expr *y,
                       uint32_t off);
// Evaluates a function on doubles (x, y, z are its arguments), and one step of
// a reducer on an accumulator (ir/eval.c).
double dv_fn_apply(dv_fn fn, double x, double y, double z);
double dv_reducer_step(dv_reducer r, double acc, double x);

// Creates an empty program with its own arena. Returns NULL if out of memory.
dv_program *dv_program_new(void);
// Append a tensor or an op. dv_program_add_tensor returns the tensor's number,
// or -1 if out of memory; dv_program_add_op returns the op, or NULL.
int32_t dv_program_add_tensor(dv_program *p, const dv_tensor *t);
dv_op *dv_program_add_op(dv_program *p, const dv_op *op);
// Sets the names of all ops; call it once all ops have been added.
dv_status dv_program_name_ops(dv_program *p, dv_diag *diag);
// Returns the number of the tensor with this name, or -1.
int32_t dv_program_find(const dv_program *p, const char *name);

// Resolves the syntax tree of `p` into tensors and ops (ir/build.c). p->src and
// p->ast must be set; `params` overrides values of named constants.
dv_status dv_program_build(dv_program *p, const dv_param *params,
                           size_t n_params, dv_diag *diag);
// Checks all invariants of a program (ir/verify.c). Warns about dead code if
// `warn` is set.
dv_status dv_program_verify(const dv_program *p, int warn, dv_diag *diag);
// Sets live[op] for the ops whose results reach an output, an opaque (extern)
// op or an op with indices that are read, and for these ops; for all ops if the
// program has no output. Returns 0 if out of memory.
int dv_program_find_live(const dv_program *p, unsigned char *live);
// Makes a new program whose statements are split into ops of the given grain
// (ir/lower.c): as few ops as possible, or down to one operator per op.
// dv_program_lower_for takes three more arguments: `packs` is 1 if kernels of
// matrix products copy their operands into their own order; `stored` is 1 if
// temporaries have the program's types instead of the type of the computation;
// `live` marks the ops to be lowered, others are left out (NULL: all are).
// Lowering a lowered program again changes nothing.
dv_status dv_program_lower(dv_program **out, const dv_program *p, dv_grain g,
                           dv_diag *diag);
dv_status dv_program_lower_for(dv_program **out, const dv_program *p,
                               dv_grain g, int packs, int stored,
                               const unsigned char *live, dv_diag *diag);
// Makes a program in which readers of copies that only rename elements
// (transposes, reshapes, slices) read the source of the copy instead, unless
// that makes a reader slower (ir/views.c). Ops keep their numbers. *out borrows
// from p, and is NULL if nothing changes. `live` are the ops that reach an
// output (dv_program_find_live).
dv_status dv_program_see_through(dv_program **out, const dv_program *p,
                                 const unsigned char *live, dv_diag *diag);
// Makes a program in which channels are the last dim of temporaries between
// products with constant weights (ir/channels.c). Ops and tensors keep their
// numbers. *out borrows from p, and is NULL if nothing changes.
dv_status dv_program_channels_last(dv_program **out, const dv_program *p,
                                   dv_diag *diag);
// Whether an op of a plan is computed once, before the first run; and if not,
// although it depends on constants only, why not.
typedef enum dv_once {
    DV_IN_EVERY_RUN, // it depends on more than constants
    DV_ONCE,
    DV_NOT_ONCE_OUTPUT, // it writes memory of the caller
    DV_NOT_ONCE_REPEAT, // it is in a repeat
    DV_NOT_ONCE_LARGE,  // its result would take too much memory
} dv_once;
// dv_program_find_once sets once[op] for all ops (ir/once.c); it returns 0 when
// out of memory. dv_program_once_first moves the ops that are computed once to
// the front, so that the other ops are consecutive and can share a group.
int dv_program_find_once(const dv_program *p, dv_once *once);
dv_status dv_program_once_first(dv_program *p, dv_diag *diag);
// The values begin to end - 1 that a counter has in the ops first_op to end_op
// - 1 of its repeat. If begin == end, the tensor is no counter, or its repeat
// never runs.
typedef struct dv_counter_range {
    int32_t first_op, end_op;
    int64_t begin, end;
} dv_counter_range;
// Finds the counters of repeats among the tensors (ir/counter.c): scalars that
// a constant defines before a repeat and that only its last op changes, by
// adding 1. Sets range[tensor] for all tensors; returns 0 when out of memory.
int dv_program_find_counters(const dv_program *p, dv_counter_range *range);
// Makes a program that shares everything with p except the arrays of ops and
// tensors. Returns NULL when out of memory.
dv_program *dv_program_share(const dv_program *p);
// Renumbers tensors in the order in which the printed text names them: inputs,
// temporaries that need a declaration, then the other tensors in the order of
// their definitions. new_of[old] is the new number, or -1 for a tensor that is
// never defined and was removed.
dv_status dv_program_renumber(dv_program *p, int32_t **new_of, dv_diag *diag);
// Print a program as statements without params (ir/print.c), or one index,
// access or expression of it.
void dv_program_print(dv_text *out, const dv_program *p, int indent);
// dv_op_print prints one statement, with a newline.
void dv_op_print(dv_text *out, const dv_program *p, const dv_op *op);
void dv_index_print(dv_text *out, const dv_program *p, const dv_op *op,
                    const dv_index *x);
void dv_access_print(dv_text *out, const dv_program *p, const dv_op *op,
                     const dv_access *a);
// Prints the value that a read with a border has outside of its tensor.
void dv_border_print(dv_text *out, const dv_program *p, const dv_access *a);
void dv_expr_print(dv_text *out, const dv_program *p, const dv_op *op,
                   const dv_expr *e);
// Prints a tensor's name and the indices of one of its elements, as in y[3,7].
void dv_element_print(dv_text *out, const dv_tensor *t, int64_t element);
#endif
