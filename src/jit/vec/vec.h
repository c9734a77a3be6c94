// Kernels for whole statements: two loops around one expression, in one pass
// over memory. Everything except loop counts and pointers is compiled in.
//
//   y[i] = relu(sum[k] exp(a[i,k] - m[i]))
//
//   loops     outer i (rows), inner k (n elements)
//   operands  a {inner 1, outer 64}, m {inner 0, outer 1}, y {0, 1}
//   nodes     0 load a, 1 load m, 2 sub 0 1, 3 exp 2, 4 reduced, 5 relu 4
//   value 3, result 5, reducer sum, reduce inner
//
// Vectors run along the inner loop. A reduction over the inner loop or over
// both loops produces one element, over the outer loop a row of n elements. The
// order of additions depends on the shape and the counts only.
//
// Elements are widened to the compute type when loaded and rounded to nearest
// even when stored. Functions follow the rules of the language; of -0 and 0,
// min takes -0 and max takes 0. exp, log, tanh, erf, sigmoid, silu and gelu are
// polynomials (math.c states their errors). A kernel accesses the elements of
// its operands and no other byte. The operand written may also be read, with
// the same pointer and strides.
//
// Several statements over rows of the same length may be computed by one loop,
// each on a row of its own, so that independent operations hide latencies. A
// statement must not read what another one writes in the same step of the outer
// loop. If dv_vec_fusable, the results have the same bits as those of separate
// kernels; otherwise exp may take another form, or sums another order.
//
//   ir.h      primitive operations, values and plans
//   build.c   nodes to values
//   narrow.c  floats stored as integers
//   fn.c      the table of functions, and the short ones
//   math.c    functions as primitive operations
//   arc.c     inverse trigonometric functions
//   trig.c    sine, cosine, tangent
//   power.c   powers and remainders
//   repair.c  calls of the C library for rare arguments
//   math.h    interface of fn.c and of the functions
//   plan.c    values to operations in loops
//   order.c   order of operations
//   alloc.c   register allocation
//   alloc.h   interface of order.c and alloc.c
//   emit.h    pointers and loops, which the back ends share
//   plans.c   a cache of recent plans
//   shape.c   checks, keys and names of shapes
#ifndef DV_JIT_VEC_H
#define DV_JIT_VEC_H
#include "jit/jit.h"
#include "lang/ast.h"

enum {
    DV_VEC_MAX_OPERANDS = 256,
    DV_VEC_MAX_NODES = 4096,
    DV_VEC_MAX_STRIDE = 1 << 28 // largest stride in elements
};

typedef enum dv_vec_kind {
    DV_VEC_LOAD,    // loads operand arg[0]
    DV_VEC_CONST,   // the constant `value`
    DV_VEC_APPLY,   // fn applied to earlier nodes
    DV_VEC_REDUCED, // the result of reducing node `value`
    // Node arg[0] times the reciprocal of node arg[1]: a quotient with an error
    // of up to 1.5 units in the last place, fast where the divisor is the same
    // for a whole row.
    DV_VEC_SHARE,
    // One step of the reducer (such as an addition) on nodes arg[0] and arg[1].
    DV_VEC_STEP,
    // In kernels that compute in f32, some nodes have lanes of 32-bit integers:
    // loads of operands whose field `as` says so, and these two kinds.
    DV_VEC_WHOLE_CONST,
    DV_VEC_WHOLE, // fn applied to earlier nodes in integer lanes
    // Converts node arg[0] to float. Its lanes are integers with a magnitude of
    // at most `value`, at most 2^24. In kernels that compute in f64 it is an
    // operand that is DV_VEC_AS_INDEX, of at most 2^50.
    DV_VEC_FLOAT,
} dv_vec_kind;

typedef struct dv_vec_node {
    uint8_t kind; // kind of node, a dv_vec_kind
    uint8_t fn;   // function to apply, a dv_fn
    uint16_t arg[3];
    double value;
} dv_vec_node;

// What an operand's elements become in registers.
typedef enum dv_vec_as {
    DV_VEC_AS_COMPUTED, // the compute type
    DV_VEC_AS_WHOLE,    // 32-bit integers, in kernels that compute in f32
    // Nothing is loaded: the address of the operand is itself the value, an
    // integer. The operand's type is i8, so that its strides are in steps of 1.
    DV_VEC_AS_INDEX
} dv_vec_as;

typedef struct dv_vec_operand {
    int64_t inner, outer; // strides of the inner and the outer loop in elements
    int64_t ahead;        // prefetch distance in elements; 0: no prefetch
    uint8_t dtype;
    uint8_t as; // a dv_vec_as
    // Number, from 1, of an earlier operand of the same type and strides from
    // which this one is always stored `lead_offset` elements away, so that one
    // pointer serves both; 0: none.
    uint16_t lead;
    int32_t lead_offset;
} dv_vec_operand;

typedef enum dv_vec_reduce {
    // No reduction: one element is written per point (pair of row and column).
    DV_VEC_EACH,
    DV_VEC_INNER,
    DV_VEC_OUTER,
    DV_VEC_BOTH,
    // One element per row, computed from one element per row of each operand,
    // without an inner loop; only in kernels of several statements.
    DV_VEC_ONCE
} dv_vec_reduce;

enum { DV_VEC_MAX_STATEMENTS = 8 }; // largest number of statements in a kernel

// One statement of a kernel. Arrays are borrowed; their bytes are part of the
// key by which the cache finds a kernel, so unused fields must be 0. The last
// operand is the one written.
typedef struct dv_vec_shape {
    const dv_vec_operand *operands;
    const dv_vec_node *nodes;
    uint16_t n_operands, n_nodes;
    uint16_t value, result; // node that is reduced, node that is stored
    uint8_t compute;        // compute type: DV_F32, DV_F64 or DV_I32
    uint8_t reduce;         // loops that are reduced over, a dv_vec_reduce
    // A dv_reducer (sum, min and so on); a mean is a sum, and node `result`
    // divides it.
    uint8_t reducer;
    // For a reduction that takes several calls: from_acc starts from the
    // accumulators of an earlier call instead of the reducer's identity; to_acc
    // stores accumulators instead of the result.
    uint8_t from_acc, to_acc;
    // The next of several statements computed by one loop; NULL: none. All have
    // the same compute type and are EACH (no reduction), INNER (reduced along
    // rows) or ONCE (one element per row). The array dv_vec_args.at has the
    // operands of one statement after those of the other.
    const struct dv_vec_shape *beside;
} dv_vec_shape;

typedef struct dv_vec_args {
    int64_t rows, n;
    void *const *at; // address of each operand
    // One accumulator of the compute type per element written: `rows` of them
    // for a reduction along rows, `n` for one over rows (OUTER), one for both
    // (BOTH). NULL without from_acc and to_acc.
    void *acc;
} dv_vec_args;

// A kernel. rows and n are at least 1, but a loop that is reduced over may have
// 0 iterations.
typedef void (*dv_vec_fn)(const dv_vec_args *args);

// Gets a kernel from the cache or generates it, like dv_jit_gemm. Returns
// DV_E_DTYPE if operands of these types cannot be computed in the compute type.
dv_status dv_jit_vec(dv_jit *jit, const dv_vec_shape *shape, dv_vec_fn *out,
                     dv_diag *diag);
// Are the statements linked by `beside` better computed by one loop: is each
// short, and are there enough registers for all? -1: memory ran out.
int dv_vec_fusable(const dv_jit *jit, const dv_vec_shape *shape);
// Do the kernels of two statements that reduce along rows add in the same
// order, given the same rows? They do if they have equally many accumulators.
// -1: memory ran out.
int dv_vec_adds_alike(const dv_jit *jit, const dv_vec_shape *a,
                      const dv_vec_shape *b);
// Do kernels have this function on f32 and f64, or on i32 (DV_I32)? Other
// functions run in the interpreter (strip/).
int dv_vec_has(dv_fn fn, dv_dtype compute);
// Is the code of a function on floats so long that its instructions alone hide
// their latencies, without those of another statement in the same loop?
int dv_vec_is_long(dv_fn fn);
// Returns the type of an operand's lanes in a kernel.
static inline dv_dtype dv_vec_lane_type(const dv_vec_operand *o, int compute)
{
    return o->as == DV_VEC_AS_WHOLE ? DV_I32 : (dv_dtype)compute;
}
// Can a kernel that computes in one type load (dv_vec_loads) or store
// (dv_vec_stores) elements of another?
int dv_vec_loads(dv_dtype element, dv_dtype compute);
int dv_vec_stores(dv_dtype element, dv_dtype compute);
// Can a kernel that computes in one type store elements of another, with a
// given instruction set instead of that of this machine?
struct dv_isa;
int dv_vec_stores_on(const struct dv_isa *isa, dv_dtype element,
                     dv_dtype compute);
#endif
