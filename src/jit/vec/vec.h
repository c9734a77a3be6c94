// Kernels for whole statements: two loops around one expression, one pass over
// memory, everything about them baked in but the counts and the pointers.
//
//   y[i] = relu(sum[k] exp(a[i,k] - m[i]))
//
//   loops     outer i (rows), inner k (n elements)
//   operands  a {inner 1, outer 64}, m {inner 0, outer 1}, y {0, 1}
//   nodes     0 load a, 1 load m, 2 sub 0 1, 3 exp 2, 4 reduced, 5 relu 4
//   value 3, result 5, reducer sum, reduce inner
//
// Vectors run along the inner loop. A reduction over the inner loop or both
// ends in one element, over the outer loop in a row of n elements. Sums are
// taken in an order that the shape and the counts give alone.
//
// Elements are widened to the type computed in as they are loaded, and rounded
// to nearest even as they are stored. Functions keep the rules of the
// language; between -0 and 0, min takes -0 and max takes 0. exp, log, tanh,
// erf, sigmoid, silu and gelu are polynomials (jit/vec/math.c says how good).
// A kernel touches the elements of its operands and no byte beside them. The
// operand written may also be read where it is written: same pointer, same
// strides.
//
// Statements over rows of the same length may be computed side by side by one
// loop, each on a row of its own: while one waits, the others go on. They must
// not need what others write in the same step of the outer loop. Where
// dv_vec_joins, what they compute is, to the bit, what their kernels compute
// alone; others may take another form of exp, or sum in another order.
#ifndef DV_JIT_VEC_H
#define DV_JIT_VEC_H
#include "jit/jit.h"
#include "lang/ast.h"

enum {
    DV_VEC_MAX_OPERANDS = 256,
    DV_VEC_MAX_NODES = 4096,
    DV_VEC_MAX_STRIDE = 1 << 28 // elements
};

typedef enum dv_vec_kind {
    DV_VEC_LOAD,    // arg[0]: the operand
    DV_VEC_CONST,   // value
    DV_VEC_APPLY,   // fn of earlier nodes
    DV_VEC_REDUCED, // what the reducer made of node `value`
    DV_VEC_STEP,    // what it makes of one node and the next
} dv_vec_kind;

typedef struct dv_vec_node {
    uint8_t kind; // dv_vec_kind
    uint8_t fn;   // dv_fn
    uint16_t arg[3];
    double value;
} dv_vec_node;

typedef struct dv_vec_operand {
    int64_t inner, outer; // elements from one step of the loop to the next
    int64_t ahead;        // elements so far on are wanted soon; 0: none
    uint8_t dtype;
    uint8_t pad;
    // The number, from 1, of an operand before it of the same type and strides
    // that it always lies so many elements behind; 0: there is none.
    uint16_t lead;
    int32_t behind;
} dv_vec_operand;

typedef enum dv_vec_reduce {
    DV_VEC_EACH, // no reduction: one element written a point
    DV_VEC_INNER,
    DV_VEC_OUTER,
    DV_VEC_BOTH,
    DV_VEC_ONCE // one element a row, of one a row; beside others only
} dv_vec_reduce;

enum { DV_VEC_MAX_BESIDE = 8 }; // statements of a kernel

// Borrowed arrays; their bytes are part of the key, so set what is not used
// to 0. The last operand is the one written.
typedef struct dv_vec_shape {
    const dv_vec_operand *operands;
    const dv_vec_node *nodes;
    uint16_t n_operands, n_nodes;
    uint16_t value, result; // node reduced, node stored
    uint8_t compute;        // DV_F32, DV_F64 or DV_I32
    uint8_t reduce;         // dv_vec_reduce
    uint8_t reducer;        // dv_reducer; mean is a sum, divided in `result`
    // A reduction in parts: start from the accumulators of an earlier call
    // instead of the reducer's value of nothing; leave accumulators instead
    // of finishing and storing.
    uint8_t from_acc, to_acc;
    // The next of the statements that are computed side by side; NULL: none.
    // All are EACH, INNER or ONCE and compute in the same type. `at` has the
    // operands of one after those of the other.
    const struct dv_vec_shape *beside;
} dv_vec_shape;

typedef struct dv_vec_args {
    int64_t rows, n;
    void *const *at; // one per operand
    // One accumulator of the type computed in per element written: `rows` of
    // them, `n` (OUTER) or one (BOTH). NULL when no part is left or taken.
    void *acc;
} dv_vec_args;

// rows and n from 1; but a loop that is reduced over may have no steps.
typedef void (*dv_vec_fn)(const dv_vec_args *args);

// Found or made, as dv_jit_gemm does. DV_E_DTYPE when operands of such types
// are not computed in such a type.
dv_status dv_jit_vec(dv_jit *jit, const dv_vec_shape *shape, dv_vec_fn *out,
                     dv_diag *diag);
// Are statements better computed side by side: is each quick to compute, and
// are there registers for all? They are linked by `beside`.
int dv_vec_joins(const dv_jit *jit, const dv_vec_shape *shape);
// Can a kernel load, or store, elements of a type and compute in another?
int dv_vec_loads(dv_dtype element, dv_dtype compute);
int dv_vec_stores(dv_dtype element, dv_dtype compute);
// The same for the kernels of one instruction set; dv_vec_stores is about this
// machine's.
struct dv_isa;
int dv_vec_stores_on(const struct dv_isa *isa, dv_dtype element,
                     dv_dtype compute);
#endif
