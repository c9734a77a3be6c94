// Runs an op of a lowered program as calls of vector kernels (jit/vec/vec.h):
// one pass over memory for a whole statement.
//
// Two of the op's variables become the kernel's loops: the inner one, along
// which most accesses have unit stride, and one around it. The pass `schedule`
// chooses them when it creates vector ops without a schedule; executors obey
// the plan's. The choice depends on the program alone, not on the memory layout
// of a rank or tile, because the kernel hoists values that are invariant along
// a row, which may change the bits of the result. The other variables are loops
// around the kernel calls. A reduction over more than the kernel's loops
// continues from call to call in accumulators.
//
//   dv_vec_op *v;
//   dv_vec_op_create(&v, &spec, jit, arena, diag); // v is NULL: unsupported
//   dv_vec_op_run(v, at, begin, end);             // any thread; no allocation
//
// An indirect read t[p[i],j] must read rows: the index may not change within
// the two loops of a kernel.
//
// An op with a read that is transposed with respect to the result runs in
// blocks:
//
//   y[i,j] = x[j,i] + z[i,j]     blocks of 32 i and 32 j: a transpose kernel
//                                copies the block of x to a buffer, where the
//                                vector kernel reads it; for y[i,j] = x[j,i]
//                                the transpose kernel writes y itself
//
// A vector kernel alone would read x with a large stride, each element from
// another page.
//
// In a kernel that computes in f32, comparisons of integers and conditions are
// evaluated in lanes of 32-bit integers; lowering makes sure that they fit. The
// value of a variable is an operand whose address is that value, which the
// kernel advances like any other: select(j <= i, x[i,j], 0) has the operands x,
// j (inner stride 1), i (outer stride 1) and the result.
//
// Unsupported are: indirect reads of single elements, integers other than i32,
// i8, u8 and bool, floats stored to integers of more than 16 bits, integers
// that do not fit 32 bits where it matters (vec_range.h), and reads of elements
// that other points of the op overwrite.
#ifndef DV_VEC_OP_H
#define DV_VEC_OP_H
#include "jit/vec/vec.h"
#include "exec/exec.h"

typedef struct dv_vec_op dv_vec_op;

// The description of a dv_vec_op. Its arrays are borrowed during creation.
typedef struct dv_vec_spec {
    const dv_program *p;
    const dv_op *op;
    // Base and strides of the accesses in memory, in elements.
    const dv_flat *reads, *write;
    // 1 if every box contains the full reduction, so that dv_vec_op_part, which
    // computes a part of one, is never called.
    int whole;
    // 1 if reads with a border load from copies, which have the strides in
    // `reads` (exec/op/stage.h); otherwise such ops are unsupported.
    int staged;
    // 1 if boxes are cut where reads with a border leave their tensors
    // (exec/op/edges.h), so that such reads need no copies.
    int edges;
    // 1 if the kernel's outer loop is to be the variable along which results
    // are nearest to each other in memory; 0: the longest one.
    int nearest;
    // By read: the offset of each point of a window (a small stencil), in
    // elements from the first one; NULL, or NULL for one read: strides
    // determine it.
    const int64_t *const *points;
    int copied; // 1 if reads of the written tensor go to a snapshot
    // 1 if the caller checks every box as dv_vec_op_guard demands; then
    // indirect reads, and integers that may not always fit 32 bits, are
    // allowed.
    int looks;
    int as_f32; // 1 if the op reads i32 but computes in f32
    // 1 if creation need not generate kernels, because dv_vec_op_kernels does
    // it later, if at all.
    int later;
    // The loops that the plan prescribes; NULL: they are chosen at creation.
    const dv_op_schedule *as;
    // The op from which loops are chosen, if it is not `op` itself but one with
    // other extents of which `op` computes a part (dv_plan_whole_op); NULL: op.
    const dv_program *whole_p;
    const dv_op *whole_op;
    // The plan, the group and the op's number in the plan; `plan` is NULL if
    // the op does not belong to a plan.
    const dv_plan *plan;
    const dv_group *group;
    int32_t number;
} dv_vec_spec;

// Creates a vector op in the arena. *out is NULL with DV_OK if the op must run
// in the interpreter (strip/).
dv_status dv_vec_op_create(dv_vec_op **out, const dv_vec_spec *spec,
                           dv_jit *jit, dv_arena *arena, dv_diag *diag);

// Generates the kernels of a vector op that was created without them (with
// `later` set); `spec` must be the same as at its creation. DV_E_LIMIT: a
// kernel would be too long.
dv_status dv_vec_op_kernels(dv_vec_op *v, const dv_vec_spec *spec, dv_jit *jit,
                            dv_arena *arena, dv_diag *diag);

// Returns whether boxes are cut where reads with a border leave their tensors.
int dv_vec_op_is_cut(const dv_vec_op *v);
// Returns the condition on the values of a box that the caller must check with
// dv_vec_op_fits before running the box.
dv_guard dv_vec_op_guard(const dv_vec_op *v);

// Writes the loops of a vector op to *out, as the plan's schedule has them:
// only the members for vector kernels are set.
void dv_vec_op_describe(const dv_vec_op *v, dv_op_schedule *out);

// The kernel of a vector op, for callers that invoke it themselves (rows.c).
typedef struct dv_vec_op_kernel {
    const dv_vec_shape *shape;
    int32_t inner, outer; // variables of the loops; -1: a loop of one iteration
    uint8_t reduce;       // which loops reduce: a dv_vec_reduce
    dv_vec_fn run;
    // Of each operand: the number of the read, the number of reads for the
    // write, or -1 if its address is the value of a variable; its byte offset;
    // and its byte strides, one for each variable of the op.
    const int32_t *read;
    const int64_t *base, *step;
} dv_vec_op_kernel;
void dv_vec_op_get_kernel(const dv_vec_op *v, dv_vec_op_kernel *out);

// Runs the op on the box begin..end of its variables. `at` holds the address of
// element 0 of each read's tensor, then of the written tensor.
void dv_vec_op_run(const dv_vec_op *v, void *const *at, const int64_t *begin,
                   const int64_t *end);

// Computes one part of a reduction that is split into parts, as dv_strips does
// in the interpreter. All parts of a result have the same range of the written
// variables. DV_FIRST_PART stores accumulators to `acc`, DV_NEXT_PART adds to
// them, and DV_FINISH computes the result from them; it ignores the ranges of
// the reduced variables.
void dv_vec_op_part(const dv_vec_op *v, void *const *at, const int64_t *begin,
                    const int64_t *end, int part, void *acc);
// Computes the strides of the accumulators of a box along each variable, in
// units of one accumulator; 0 for reduced variables.
void dv_vec_op_acc_strides(const dv_vec_op *v, const int64_t *begin,
                           const int64_t *end, int64_t *steps);
// Returns the bytes of one accumulator; there is one per written element.
int64_t dv_vec_op_acc_bytes(const dv_vec_op *v);
// Combines n accumulators with those in `acc` by the op's reducer. Accumulators
// of integers are i32 here, but i64 in the interpreter.
void dv_vec_op_add(const dv_vec_op *v, const dv_kernel *k, void *acc,
                   const void *x, int64_t n);
#endif
