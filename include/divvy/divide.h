// The division of ops into slices, for compilers: of a single op without a
// program or plan, and in the encoding that Torch-Spyre, the PyTorch backend of
// IBM's Spyre accelerator, stores with its ops.
//
// A product of 512x4096 and 4096x4096 elements on 32 cores:
//
//   dv_op_var vars[] = {{"m", 512}, {"n", 4096}, {"k", 4096}};
//   int64_t a_shape[] = {512, 4096}, b_shape[] = {4096, 4096};
//   dv_op_operand reads[] = {
//       {.name = "a", .dtype = DV_F16, .n_dims = 2, .shape = a_shape,
//        .steps = (int64_t[]){1, 0, 0,    // the first index is m
//                             0, 0, 1}},  // the second one is k
//       {.name = "b", .dtype = DV_F16, .n_dims = 2, .shape = b_shape,
//        .steps = (int64_t[]){0, 0, 1, 0, 1, 0}},
//   };
//   dv_op_request r = DV_OP_REQUEST_INIT;
//   r.name = "c", r.vars = vars, r.n_vars = 3, r.reads = reads, r.n_reads = 2;
//   r.write = (dv_op_operand){.name = "c", .dtype = DV_F16, .n_dims = 2,
//                             .shape = a_shape,
//                             .steps = (int64_t[]){1, 0, 0, 0, 1, 0}};
//   r.reducer = "sum";
//   dv_op_division d;
//   if (dv_divide_op(&d, target, &r, diag) == DV_OK)
//       printf("n is cut into %d slices\n", (int)d.n_slices[1]);
#ifndef DIVVY_DIVIDE_H
#define DIVVY_DIVIDE_H
#include "divvy/divvy.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    DV_MAX_OP_VARS = 32, // maximum number of variables of one op
    DV_MAX_OP_READS = 32 // maximum number of reads in a dv_op_request
};

// -- Splits by stride --------------------------------------------------------

// In Torch-Spyre's encoding (op_it_space_splits), a variable that is cut into
// n > 1 slices is named by a stride: the distance, in elements of the row-major
// tensor, of one step of the variable.
typedef struct dv_stride_split {
    int64_t stride, n;
} dv_stride_split;

// Variables of the result are named by their stride in the write, the others by
// their stride in the first read; both lists are in the order of the variables.
// Variables that are not listed are not cut.
//
//   c[m,n] of 4 columns = sum[k] …, m 4 x n 2 x k 8  ->  {4: 4, 1: 2}, {1: 8}
typedef struct dv_stride_splits {
    dv_stride_split output[DV_MAX_OP_VARS], reduction[DV_MAX_OP_VARS];
    int n_output, n_reduction;
} dv_stride_splits;

// Encodes the division of an op of a plan, which is named as in the plan. A
// division that cannot be encoded fails with DV_E_CHECK: two variables have the
// same stride, or a variable that is cut is in neither of the two accesses.
DV_API dv_status dv_plan_stride_splits(dv_stride_splits *out,
                                       const dv_plan *plan, const char *op,
                                       dv_diag *diag);

// -- One op ------------------------------------------------------------------

// An iteration variable, which runs from 0 to size - 1.
typedef struct dv_op_var {
    const char *name;
    int64_t size;
} dv_op_var;

// An access: the index of every dim of a tensor is an affine function of the
// variables. No element may be out of bounds.
typedef struct dv_op_operand {
    const char *name; // the tensor's
    dv_dtype dtype;
    int n_dims;
    const int64_t *shape;
    // steps[d * n_vars + v] is by how much the index of dim d grows with
    // variable v, offsets[d] the index at 0 of all variables (NULL: all 0).
    const int64_t *steps, *offsets;
    // via[d], if it is not negative, is the number of a read, of an integer
    // tensor, whose value is added to the index; NULL: there is none.
    const int *via;
    // The array in the target's memory, outermost dim first: sizes, and the
    // distance of one step in elements of the row-major tensor (-1: none), as
    // in section `layout` of a plan. n_device_dims 0: as the target stores
    // tensors by default.
    int n_device_dims;
    const int64_t *device_size, *stride_map;
} dv_op_operand;

// A number of slices that is prescribed for a variable.
typedef struct dv_op_pin {
    int var;
    int64_t n;
} dv_op_pin;

typedef struct dv_op_request {
    size_t size;
    const char *name; // in messages
    const dv_op_var *vars;
    size_t n_vars;
    const dv_op_operand *reads;
    size_t n_reads;
    dv_op_operand write;
    // A function or an operator of the language, applied to the reads except
    // those that are only indices; NULL: their product.
    const char *function;
    // "sum", "max", …: how the op reduces over the variables that its write
    // does not have. NULL: the op reduces nothing; its write must have all
    // variables.
    const char *reducer;
    dv_divide divide;         // which planner; 0: DV_DIVIDE_BEST
    int64_t cores;            // 0: those of the target
    int64_t span_limit_bytes; // 0: that of the target; -1: no limit
    const dv_op_pin *pins;
    size_t n_pins;
} dv_op_request;
#define DV_OP_REQUEST_INIT                                                     \
    {                                                                          \
        sizeof(dv_op_request), NULL, NULL, 0, NULL, 0,                         \
            {NULL, (dv_dtype)0, 0, NULL, NULL, NULL, NULL, 0, NULL, NULL},     \
            NULL, NULL, (dv_divide)0, 0, 0, NULL, 0                            \
    }

// For each variable in the order of the request: slices. For each access (the
// reads, then the write): spans, the bytes from the first to the last one of
// its tensor that a core accesses.
typedef struct dv_op_division {
    int64_t n_slices[DV_MAX_OP_VARS], slice_size[DV_MAX_OP_VARS];
    // The number of slices that the span limit alone requires.
    int64_t forced[DV_MAX_OP_VARS];
    // Why a variable may not be cut; NULL: it may. The texts are static.
    const char *why_whole[DV_MAX_OP_VARS];
    int64_t span_bytes[DV_MAX_OP_READS + 1], whole_bytes[DV_MAX_OP_READS + 1];
    int64_t n_tiles;
    int64_t candidates; // divisions that were priced, and
    int64_t over_span;  // those that the span limit excluded
    // The predicted time in microseconds, and its parts.
    double cost_us, compute_us, memory_us, combine_us;
    // The second best division; runner_up_us is -1 if there is none.
    int64_t runner_up[DV_MAX_OP_VARS];
    double runner_up_us;
    // 1 if Torch-Spyre's cost model of matrix products chose the division.
    int by_matmul_model;
    // 1 if the division can be encoded; otherwise why_no_strides says why not.
    int has_strides;
    dv_stride_splits strides;
    char why_no_strides[160];
} dv_op_division;

// Divides one op for a target as the pass `divide` does, without the passes
// after it (`joint`).
DV_API dv_status dv_divide_op(dv_op_division *out, const dv_target *target,
                              const dv_op_request *request, dv_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
