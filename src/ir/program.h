// The program: tensors, and ops over boxes of integers. All numbers are
// resolved; what each statement means is explicit.
//
//   y[i] = relu(sum[k] a[i,2*k] * b[k])
//
//   op y   vars  i in 0..64, k in 0..32 (reduce)
//          write y[i]
//          reads a[i,2*k], b[k]
//          body  relu(REDUCE sum {k} (READ 0 * READ 1))
//
// Above the REDUCE node is what happens once per element written (the last
// touch), below it what happens once per point of the box. A lowered op has
// at most one REDUCE node; a program as written may have any number.
//
// Memory: everything lives in the program's arena and is immutable once
// dv_program_* returned it.
//
//   program.[ch]    programs as objects: from text, to text, to JSON
//   json.h          the JSON fields of a program, for other printers
//   build.[ch]      resolves an AST: params, declarations, repeats
//   build_op.c      resolves one assignment: expression, types, left side
//   build_index.c   resolves its names, indices and ranges
//   verify.c        checks the invariants of a program
//   info.c          derives what is not stored: kinds, sizes, flops
//   window.c        recognises reducers over small windows
//   print.c         prints a program with every number resolved
//   lower.[ch]      lowers statements to ops of the target's grain
//   lower_emit.c    makes ops out of parts of an op
//   lower_sums.c    splits sums of products of three and more factors
//   lower_flip.c    reverses factors that are read backwards
//   lower_apart.c   copies windows that advance by more than one
//   lower_across.c  transposes one side of reducers over pairs of rows
//   eval.[ch]       the oracle: evaluates a program in plain loops
//   error.[ch]      bounds on rounding errors
#ifndef DV_PROGRAM_H
#define DV_PROGRAM_H
#include "base/dtype.h"
#include "lang/ast.h"

enum {
    DV_MAX_VARS = 32,    // of one op
    DV_MAX_READS = 1024, // of one op
};

typedef struct dv_tensor {
    const char *name;
    dv_dtype dtype;
    int32_t n_dims;
    const int64_t *shape;
    int64_t n_elems;
    uint8_t is_input, is_output;
    uint8_t is_temp;        // declared with `temp`
    uint8_t is_defined;     // an input, or written with `=`
    uint8_t is_dead;        // defined only inside a `repeat 0`
    const dv_spread *place; // NULL: no wish
    uint32_t off;           // of its declaration or definition
} dv_tensor;

typedef struct dv_var {
    const char *name;
    int64_t begin, end; // half-open
    uint8_t reduce;
    uint32_t off;
} dv_var;

// One index of an access: base + sum of coef[v] * v, or, when via >= 0, the
// value that read number `via` of the op finds.
typedef struct dv_index {
    int64_t base;
    const int64_t *coef; // one per var of the op
    int32_t via;
} dv_index;

typedef struct dv_access {
    int32_t tensor;
    int32_t n_dims; // of the tensor
    uint32_t off;
    const dv_index *index; // one per dim
} dv_access;

typedef enum dv_expr_kind {
    DV_EXPR_CONST,
    DV_EXPR_READ,
    DV_EXPR_APPLY,
    DV_EXPR_REDUCE,
} dv_expr_kind;

// Types of constants: they take the type of what they meet.
enum { DV_WEAK_FLOAT = -1, DV_WEAK_INT = -2 };

typedef struct dv_expr {
    uint8_t kind;
    uint8_t fn;   // dv_fn of APPLY, dv_reducer of REDUCE
    int8_t dtype; // dv_dtype, or DV_WEAK_* below which only constants are
    uint8_t n_args;
    uint32_t off;
    uint32_t vars; // REDUCE: bit v set for each var reduced over
    int32_t read;  // READ: number in the op's reads
    union {
        double value;                 // CONST
        const struct dv_expr *arg[3]; // APPLY; REDUCE has one
    };
} dv_expr;

typedef struct dv_op {
    const char *name;   // the tensor's, with .2, .3 … for its later writers
    const dv_var *vars; // written ones first, in order of the write
    int32_t n_vars, n_reads;
    dv_access write;
    const dv_access *reads; // distinct
    const dv_expr *body;
    uint8_t update; // <-: reads see the tensor as it was before the op
    uint8_t is_extern;
    uint32_t off;
} dv_op;

// ops first..end run `times` times. Listed outer before inner.
typedef struct dv_repeat {
    int32_t first_op, end_op;
    int64_t times;
    uint32_t off;
} dv_repeat;

typedef struct dv_param_value {
    const char *name;
    int is_float;
    int64_t i;
    double f; // also set for integers
    uint32_t off;
} dv_param_value;

struct dv_program {
    dv_arena arena;
    dv_source src; // owned by the arena
    dv_ast ast;    // empty unless grain is SOURCE
    dv_grain grain;
    dv_param_value *params;
    dv_tensor *tensors;
    dv_op *ops;
    dv_repeat *repeats;
    int32_t n_params, n_tensors, n_ops, n_repeats;
    int32_t cap_params, cap_tensors, cap_ops, cap_repeats;
    dv_table tensor_ids; // name to number
};

typedef enum dv_kind {
    DV_KIND_POINTWISE,
    DV_KIND_REDUCTION,
    DV_KIND_CONTRACTION,
    DV_KIND_MOVE,
    DV_KIND_EXTERN,
} dv_kind;

// -- Questions about ops (ir/info.c) ---------------------------------------

dv_kind dv_op_kind(const dv_op *op);
const char *dv_kind_name(dv_kind k);
const char *dv_role_name(dv_role r);
dv_role dv_tensor_role(const dv_program *p, int32_t tensor);
// Does it copy a whole tensor, index by index?
int dv_op_is_copy(const dv_op *op);
int64_t dv_tensor_bytes(const dv_tensor *t);
// The op's REDUCE node nearest the root, left to right; NULL: none.
const dv_expr *dv_op_reduce(const dv_op *op);
// Vars that an expression depends on and does not reduce over itself.
uint32_t dv_expr_free_vars(const dv_op *op, const dv_expr *e);
uint32_t dv_access_vars(const dv_op *op, const dv_access *a);
int dv_access_is_indirect(const dv_access *a);
// Same tensor, same indices.
int dv_access_equal(const dv_op *op, const dv_access *a, const dv_access *b);
// Least and greatest value of an affine index over the op's box; 0 when one
// of them overflows. via must be -1.
int dv_index_bounds(const dv_op *op, const dv_index *x, int64_t *lo,
                    int64_t *hi);
// Points of the box of the vars in the mask; 0 when it overflows.
int64_t dv_op_points(const dv_op *op, uint32_t vars);
// The same in doubles, which do not overflow.
double dv_op_many_points(const dv_op *op, uint32_t vars);
// Elements from one step of a variable to the next, in a tensor that lies row
// by row; what is found by indices does not count.
int64_t dv_access_step(const dv_program *p, const dv_access *a, int var);
// Points of the op's reducer where it goes over a few neighbours of each result
// (a filter, a pool): results that are neighbours read neighbours. 0: it does
// something else.
int64_t dv_op_window(const dv_program *p, const dv_op *op);
static inline uint32_t dv_all_vars(const dv_op *op)
{
    return op->n_vars >= 32 ? UINT32_MAX : (1u << op->n_vars) - 1;
}
// Evaluations of the body that an op takes: each reducer runs over its own
// variables, beside the others.
double dv_op_work(const dv_op *op);
// That of all ops, each as often as its repeats run it.
double dv_program_points(const dv_program *p);
// Variables that are not reduced over.
uint32_t dv_written_vars(const dv_op *op);
double dv_op_flops(const dv_op *op);
// Bytes of distinct elements read and written, each counted once.
double dv_op_bytes(const dv_program *p, const dv_op *op);
// Is it the first read of its tensor?
int dv_op_reads_first(const dv_op *op, int read);
// Bytes of one tensor that it reads.
double dv_op_read_bytes(const dv_program *p, const dv_op *op, int32_t tensor);
// Does an update read elements that other points of its box write?
int dv_op_reads_own_write(const dv_op *op);

// Is a read no part of the expression, but an index of another access?
int dv_op_is_index(const dv_op *op, int32_t read);

// The type an op is computed in: f64 where any operand is; integers alone in
// i64; floats in f32, except that wide integers beside them would not fit its
// mantissa. And the bytes of one partial result.
typedef enum dv_compute { DV_IN_F32, DV_IN_F64, DV_IN_I64 } dv_compute;
dv_compute dv_op_compute(const dv_program *p, const dv_op *op);
int64_t dv_op_part_bytes(const dv_program *p, const dv_op *op);

// An index that is just this one variable.
int dv_index_is_var(const dv_op *op, const dv_index *x, int *var);
// The type of an APPLY or REDUCE, from those of its arguments.
int8_t dv_expr_type(const dv_expr *e);
// One use of a function on doubles, and one step of a reducer (ir/eval.c).
double dv_fn_apply(dv_fn fn, double x, double y, double z);
double dv_reducer_step(dv_reducer r, double acc, double x);

// -- Making and checking programs ------------------------------------------

// An empty program with its own arena. NULL: out of memory.
dv_program *dv_program_new(void);
// Append; the item's address, or NULL when out of memory.
int32_t dv_program_add_tensor(dv_program *p, const dv_tensor *t); // -1: nomem
dv_op *dv_program_add_op(dv_program *p, const dv_op *op);
// Give the ops their names, once all are there.
dv_status dv_program_name_ops(dv_program *p, dv_diag *diag);
// The number of a tensor by name, or -1.
int32_t dv_program_find(const dv_program *p, const char *name);

// Resolve an AST into `p`, whose src and ast are set (ir/build.c).
dv_status dv_program_build(dv_program *p, const dv_param *params,
                           size_t n_params, dv_diag *diag);
// Check everything a program promises (ir/verify.c); warn of dead code when
// `warn` is set.
dv_status dv_program_verify(const dv_program *p, int warn, dv_diag *diag);
// A new program in the given grain (ir/lower.c), for this machine or (here 0)
// another one. `stored`: temporaries have the program's types (see the target
// property `intermediates`). Lowering twice changes nothing.
dv_status dv_program_lower(dv_program **out, const dv_program *p, dv_grain g,
                           dv_diag *diag);
dv_status dv_program_lower_for(dv_program **out, const dv_program *p,
                               dv_grain g, int here, int stored, dv_diag *diag);
// Number tensors as the printed text will name them: inputs, temps that need
// a declaration, then the others as they are defined. new_of[old] is the new
// number, -1 for what is never defined and now gone.
dv_status dv_program_renumber(dv_program *p, int32_t **new_of, dv_diag *diag);
// The program as statements without params (ir/print.c), and what it is.
void dv_program_print(dv_text *out, const dv_program *p, int indent);
void dv_index_print(dv_text *out, const dv_program *p, const dv_op *op,
                    const dv_index *x);
void dv_access_print(dv_text *out, const dv_program *p, const dv_op *op,
                     const dv_access *a);
void dv_expr_print(dv_text *out, const dv_program *p, const dv_op *op,
                   const dv_expr *e);
// A tensor's name and the indices of one of its elements, as in y[3,7].
void dv_element_print(dv_text *out, const dv_tensor *t, int64_t element);
// Same tensors, ops and repeats, whatever their texts look like.
int dv_program_equal(const dv_program *a, const dv_program *b);
#endif
