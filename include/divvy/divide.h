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

// Torch-Spyre's encoding (op_it_space_splits) of a variable that is cut into n
// > 1 slices: the variable is identified by its stride, the distance in
// elements of one step of it in the row-major tensor.
typedef struct dv_stride_split {
    int64_t stride, n;
} dv_stride_split;

// An op's division in Torch-Spyre's encoding. Variables of the result are
// identified by their stride in the write, the others by their stride in the
// first read, in the order of the variables. Unlisted variables are not cut.
//
//   c[m,n] of 4 columns = sum[k] …, m 4 x n 2 x k 8  ->  {4: 4, 1: 2}, {1: 8}
typedef struct dv_stride_splits {
    dv_stride_split output[DV_MAX_OP_VARS], reduction[DV_MAX_OP_VARS];
    int n_output, n_reduction;
} dv_stride_splits;

// Encodes the division of the op named `op` of a plan. Fails with DV_E_CHECK if
// it cannot be encoded: two variables have the same stride, or a variable that
// is cut is in neither of the two accesses.
DV_API dv_status dv_plan_stride_splits(dv_stride_splits *out,
                                       const dv_plan *plan, const char *op,
                                       dv_diag *diag);

// -- One op ------------------------------------------------------------------

// An iteration variable (loop) of an op, which runs from 0 to size - 1.
typedef struct dv_op_var {
    const char *name;
    int64_t size;
} dv_op_var;

// An access of an op to a tensor: the index of every dim is an affine function
// of the variables. No element may be out of bounds.
typedef struct dv_op_operand {
    const char *name; // the tensor's
    dv_dtype dtype;
    int n_dims;
    const int64_t *shape;
    // The index of dim d is offsets[d] + the sum over v of steps[d * n_vars +
    // v] * variable v; offsets NULL: all 0.
    const int64_t *steps, *offsets;
    // For indirect indices: the value of read number via[d], of an integer
    // tensor, is added to the index of dim d; negative: nothing is. NULL: no
    // dim has one.
    const int *via;
    // How the target's memory stores the tensor, outermost dim first: sizes,
    // and the distance of one step in elements of the row-major tensor (-1:
    // none), as in section `layout` of a plan. n_device_dims 0: as the target
    // stores tensors by default.
    int n_device_dims;
    const int64_t *device_size, *stride_map;
} dv_op_operand;

// The caller's choice of the number of slices of variable `var`.
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
    // A function or operator of the language that is applied to the reads,
    // except those that are only indices; NULL: the reads are multiplied.
    const char *function;
    // The reducer, such as "sum" or "max", over the variables that the write
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

// The division of an op. Arrays over variables are in the order of the request;
// those over accesses have the reads, then the write. A span is the bytes from
// the first to the last one of a tensor that a core accesses.
typedef struct dv_op_division {
    int64_t n_slices[DV_MAX_OP_VARS], slice_size[DV_MAX_OP_VARS];
    // The number of slices that the limit on spans alone requires.
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
    // 1 if `strides` has the division in Torch-Spyre's encoding; otherwise
    // why_no_strides says why that is impossible.
    int has_strides;
    dv_stride_splits strides;
    char why_no_strides[160];
} dv_op_division;

// Divides one op for a target in the same way as the pass `divide` does for a
// plan, without the later pass `joint`, which could change the division.
DV_API dv_status dv_divide_op(dv_op_division *out, const dv_target *target,
                              const dv_op_request *request, dv_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
