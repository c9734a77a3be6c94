// Internals of the generator of vector kernels (vec.h): a shape becomes a list
// of machine operations that a back end encodes one by one.
//
//   build (build.c)    Nodes become values: primitive operations that every
//                      instruction set has in some form. Functions are expanded
//                      into them (math.c).
//   plan (plan.c)      Values become operations on registers, in loops.
//   back end (a64/vec.c, x64/vec.c)   Operations become instructions.
//
// A value is a vector. Values that do not change in the innermost loop are
// computed before it. The remaining ones, the body, are unrolled: the copies
// are interleaved, so that one computes while another waits.
//
// A function that is expensive over its full range may have a second form for
// arguments that are not large. The fast body consists of such forms. It
// accumulates the squares of the arguments of a whole loop iteration (WATCH);
// if some argument is too large, nothing of the fast body is stored and the
// slow body runs instead, for some more iterations as well. Both forms give the
// same bits where both are valid, because the result of an element must not
// depend on its neighbours or on where the loop is cut.
#ifndef DV_JIT_VEC_IR_H
#define DV_JIT_VEC_IR_H
#include "base/dtype.h"
#include "base/mem.h"
#include "jit/code.h"
#include "jit/vec/vec.h"

// Primitive operations on vectors of the compute type, or of integers of the
// same width: DV_VOP(NAME, number of arguments). Comparisons give masks with
// all bits of a lane set or none.
#define DV_VOPS                                                                \
    DV_VOP(CONST, 0)                                                           \
    DV_VOP(LOAD, 0)                                                            \
    DV_VOP(REDUCED, 0) /* the reduced value of statement `imm` */              \
    DV_VOP(STORE, 1)   /* stores to the output operand */                      \
    DV_VOP(ACCUM, 1)   /* reduces into an accumulator */                       \
    DV_VOP(ACCUM2, 2)  /* adds a * b to an accumulator */                      \
    DV_VOP(WATCH, 1)   /* sums squares, to check that values are small */      \
    DV_VOP(FADD, 2)                                                            \
    DV_VOP(FSUB, 2)                                                            \
    DV_VOP(FMUL, 2)                                                            \
    DV_VOP(FDIV, 2)                                                            \
    DV_VOP(FSQRT, 1)                                                           \
    DV_VOP(FMA, 3)  /* a * b + c, rounded once */                              \
    DV_VOP(FNMA, 3) /* c - a * b, rounded once */                              \
    DV_VOP(FMIN, 2) /* nan if either is nan */                                 \
    DV_VOP(FMAX, 2)                                                            \
    DV_VOP(FLEAST, 2) /* as FMIN, but b is never nan */                        \
    DV_VOP(FMOST, 2)  /* as FMAX, but b is never nan */                        \
    DV_VOP(FROUND, 1) /* to a whole number; `imm` is a dv_vec_rounding */      \
    DV_VOP(FNEG, 1)                                                            \
    DV_VOP(FABS, 1)                                                            \
    DV_VOP(FLT, 2)                                                             \
    DV_VOP(FLE, 2)                                                             \
    DV_VOP(FEQ, 2)                                                             \
    DV_VOP(AND, 2)                                                             \
    DV_VOP(OR, 2)                                                              \
    DV_VOP(XOR, 2)                                                             \
    DV_VOP(SEL, 3) /* bits of b where a has ones, else of c */                 \
    /* c where it is a number, else function `imm` of a and b (repair.c) */    \
    DV_VOP(REPAIR, 3)                                                          \
    DV_VOP(IADD, 2)                                                            \
    DV_VOP(ISUB, 2)                                                            \
    DV_VOP(IMUL, 2) /* 32 bits only */                                         \
    DV_VOP(IMIN, 2) /* IMIN to IEQ: 32 bits only */                            \
    DV_VOP(IMAX, 2)                                                            \
    DV_VOP(IABS, 1)                                                            \
    DV_VOP(ILT, 2)                                                             \
    DV_VOP(IEQ, 2)                                                             \
    DV_VOP(ISHL, 2)  /* a shifted left by b, which is 0..31; 32 bits only */   \
    DV_VOP(ISAR, 2)  /* to the right; copies the sign */                       \
    DV_VOP(SHL, 1)   /* shift left by `imm` bits */                            \
    DV_VOP(SHR, 1)   /* shift right; fills with zeros */                       \
    DV_VOP(ROT, 1)   /* rotates the lanes by `imm` */                          \
    DV_VOP(PAIRS, 1) /* adds adjacent lanes; both get the sum */

typedef enum dv_vop {
#define DV_VOP(NAME, args) DV_V_##NAME,
    DV_VOPS
#undef DV_VOP
        // The following operations are made by the planner (plan.c) only; nodes
        // of an expression do not become such operations.
        DV_V_MOV,
    DV_V_RELOAD, // reload: dst = stack slot imm
    DV_V_SPILL,  // spill: stack slot imm = a
    DV_V_BEGIN,  // prologue; store the start address of each operand
    // Reset the running pointers (to the current elements) to the start
    // addresses stored on the stack.
    DV_V_POINT,
    // Begins the loop over rows: resets the running pointers to the start
    // addresses stored on the stack, and advances these to the next row.
    DV_V_ROWS,
    DV_V_ROWS_END, // ends the loop over rows
    // Begin a loop that repeats while imm elements are left in the row.
    DV_V_LOOP,
    // End the loop over a row: advance the running pointers by imm elements.
    DV_V_LOOP_END,
    // Begin a loop that repeats while imm columns are left, and reset the
    // running pointers to the start addresses stored on the stack.
    DV_V_COLS,
    // End the loop over columns: advance the start addresses by imm columns.
    DV_V_COLS_END,
    // Begin a loop over all rows of the current columns.
    DV_V_STEPS,
    // End the loop over the rows of some columns: advance the running pointers
    // to the next row.
    DV_V_STEPS_END,
    DV_V_PREFETCH, // prefetch for `count` elements from element imm on
    // Jump to the slow body unless all bits of register a are set, that is,
    // unless all arguments are small enough for the fast body.
    DV_V_CHECK,
    DV_V_RETURN,
    // The slow body (for arguments of any size), which follows the return; it
    // replaces the body of the first loop where that is not valid.
    DV_V_SLOW,
    DV_V_SLOW_END // ends the slow body and advances by `imm` elements
} dv_vop;

// How FROUND rounds, in the order of the immediate of vroundps.
typedef enum dv_vec_rounding {
    DV_TO_EVEN, // to the nearest; ties to even
    DV_DOWN,
    DV_UP,
    DV_TO_ZERO
} dv_vec_rounding;

// When a value is computed: as a constant, before the innermost loop, in the
// fast body (for small arguments), in the slow body (for all arguments), or
// after the reduction.
typedef enum dv_vec_section {
    DV_SECTION_CONST,
    DV_SECTION_HOIST,
    DV_SECTION_FAST,
    DV_SECTION_BODY,
    DV_SECTION_EPILOGUE
} dv_vec_section;

typedef struct dv_vec_value {
    uint8_t op; // operation, a dv_vop
    uint8_t n_args;
    uint8_t section; // where it is computed, a dv_vec_section
    int32_t arg[3];  // indices of earlier values
    // LOAD, STORE: the operand; ACCUM, ACCUM2, REDUCED: the statement; SHL,
    // SHR, ROT: the distance to shift; FROUND: a dv_vec_rounding; REPAIR: the
    // function, a dv_fn.
    int32_t imm;
    // CONST: the constant's bits in one lane; if imm is 1, every lane holds its
    // number instead.
    uint64_t bits;
} dv_vec_value;

typedef struct dv_vec_build {
    const dv_vec_shape *shape; // the statement that is being translated
    // Number of the current statement, and number of its first operand among
    // the operands of all statements.
    int32_t number, first;
    int32_t from[DV_VEC_MAX_STATEMENTS + 1]; // first value of each statement
    dv_arena *arena;
    dv_vec_value *vals;
    int32_t n, cap;
    // By node of the expression: the index of its value, and for a comparison
    // that of its mask; -1: not made yet.
    int32_t *value_of, *mask_of;
    int32_t *load_of; // by operand: the LOAD value; -1: not made yet
    int is64;         // 1: lanes have 8 bytes
    // The section (part of the kernel) that new values belong to, unless they
    // are loop-invariant.
    dv_vec_section in;
    // 1: the back end can leave a fast body (a loop body that is valid for
    // small arguments only) with the operation DV_V_CHECK.
    int has_guard;
    // Largest sum of squares of the arguments for which the fast body (for
    // small arguments only) is valid; 0: there is no fast body.
    double guard_limit;
    int failed; // memory ran out
} dv_vec_build;

// Fills `b` with the values of a kernel. The caller has set b->shape and
// b->arena.
void dv_vec_build_all(dv_vec_build *b);
int32_t dv_vec_put(dv_vec_build *b, dv_vop op, int32_t x, int32_t y, int32_t z);
int32_t dv_vec_shift(dv_vec_build *b, dv_vop op, int32_t x, int bits);
int32_t dv_vec_round(dv_vec_build *b, int32_t x, dv_vec_rounding how);
// Converts x, the result of the statement, to an integer whose low `bits` bits
// (8 or 16) are those of x truncated to a 64-bit integer. The truncation
// saturates; nan gives 0.
int32_t dv_vec_to_narrow(dv_vec_build *b, int32_t x, int bits);
// Makes the value `result`, with fn(x, y) of the C library in all lanes that
// are nan: generated code handles common arguments and gives nan for all
// others.
int32_t dv_vec_repair(dv_vec_build *b, dv_fn fn, int32_t x, int32_t y,
                      int32_t result);
int32_t dv_vec_bits(dv_vec_build *b, uint64_t bits);
// Makes a constant value: the number `value` rounded to the compute type.
int32_t dv_vec_float(dv_vec_build *b, double value);
// Returns the bits of `value` as a lane of the compute type.
uint64_t dv_vec_lane(const dv_vec_build *b, double value);
// If this is a fast body (a loop body for small arguments): makes it valid for
// |x| up to `most` only and returns 1. Otherwise returns 0.
int dv_vec_guard(dv_vec_build *b, int32_t x, double most);
// Emits x times the reciprocal of y (DV_VEC_SHARE).
int32_t dv_vec_share(dv_vec_build *b, int32_t x, int32_t y);
// Emits fn of the values x, on integers if `whole`. fn must not be a comparison
// or select, which are translated elsewhere.
int32_t dv_vec_apply(dv_vec_build *b, dv_fn fn, const int32_t *x, int whole);

// One operation of a plan. dst, a, b and c are numbers of vector registers: the
// destination and the arguments.
typedef struct dv_vec_mop {
    uint8_t op; // operation, a dv_vop
    uint8_t dst, a, b, c;
    // LOAD, STORE: number of the vector within the unrolled loop body.
    uint8_t copy;
    uint16_t count; // LOAD, STORE: element count; 0: one element for all lanes
    int32_t imm;    // CONST: index in the pool; other operations: see dv_vop
} dv_vec_mop;

// The properties of a back end, the code generator of one instruction set.
struct dv_vec_plan;
typedef struct dv_vec_isa {
    void (*emit)(dv_code *code, const struct dv_vec_plan *p,
                 const struct dv_vec_isa *isa);
    int32_t n_regs, vector_bytes;
    int32_t max_unroll; // largest unroll factor; 0: chosen by the planner
    // Most accumulators of a sum along rows; 0: one per unrolled copy of the
    // loop body.
    int32_t max_accs;
    // Number of loop bodies per iteration in a kernel of several statements.
    int32_t turns;
    int32_t soft_bf16; // 1: can store bf16 without instructions for that type
    // 1: has the operation DV_V_CHECK, which leaves a loop body that is valid
    // for small arguments only.
    int32_t checks;
    int32_t pairs; // 1: has the operation DV_V_PAIRS, which adds adjacent lanes
    // By operation: bit mask of its arguments, of which one must share its
    // register with the destination; 0: any registers.
    uint8_t tied[DV_V_SLOW_END + 1];
} dv_vec_isa;

// A loop with at most this many operations per vector is memory-bound:
// prefetches go to L2, since waiting for L1 would take too long.
enum { DV_VEC_MEMORY_BOUND_OPS = 8 };

// A constant: the bits of one lane, repeated in the first `lanes` lanes; the
// other lanes are 0. If `lanes` is DV_VEC_IOTA, every lane holds its number.
enum { DV_VEC_IOTA = -1 };
typedef struct dv_vec_const {
    uint64_t bits;
    int32_t lanes; // number of lanes; 0: all
} dv_vec_const;

typedef struct dv_vec_plan {
    const dv_vec_shape *shape; // shape of the first statement
    // Operands of all statements, then the accumulators of a partial reduction
    // (one that continues in another call).
    const dv_vec_operand *operands;
    // Number of all operands, and of those whose pointers the caller passes.
    int32_t n_operands, n_given;
    // Number and capacity of the constants in the pool; number of spill slots
    // on the stack.
    int32_t n_pool, cap_pool, n_slots;
    int32_t n_regs; // registers that are used, 0..n_regs-1
    dv_vec_const *pool;
    dv_vec_mop *ops;
    int32_t n, cap;
    int is64;
    int failed;
} dv_vec_plan;

enum { DV_VEC_MAX_NEST = 4 }; // most loops inside each other

// The pointers of a kernel to its operands. An operand whose elements are near
// those of another one shares its pointer.
typedef struct dv_vec_pointers {
    int32_t n;
    uint16_t operand[DV_VEC_MAX_OPERANDS + 1]; // for each pointer its operand
    uint16_t of[DV_VEC_MAX_OPERANDS + 1];      // for each operand its pointer
    // For each operand its byte offset from that pointer.
    int32_t off[DV_VEC_MAX_OPERANDS + 1];
} dv_vec_pointers;
static inline int dv_vec_size(const dv_vec_operand *o)
{
    return dv_dtype_get((dv_dtype)o->dtype)->size_bytes;
}
// Assigns pointers to operands. `reaches` says whether the back end's
// instructions can address operand `o` at a displacement of `bytes`.
void dv_vec_assign_pointers(const dv_vec_plan *p,
                            int (*reaches)(const dv_vec_operand *o,
                                           int64_t bytes),
                            dv_vec_pointers *out);

// Makes the plan of a shape, in memory from the arena. p->failed is set if
// memory runs out.
void dv_vec_plan_make(dv_vec_plan *p, const dv_vec_shape *shape,
                      const dv_vec_isa *isa, dv_arena *arena);
// Adapts a plan to a shape that differs from its own in strides only: sets the
// shape and its operands.
void dv_vec_plan_rebind(dv_vec_plan *p, const dv_vec_shape *shape,
                        dv_arena *arena);

// The type of the functions that kernels call for DV_V_REPAIR: `lanes` holds
// three vectors of n lanes each, arguments a and b and the result. The function
// computes, by the C library, the lanes of the result that are nan.
typedef void dv_vec_repair_fn(void *lanes, int64_t n);
// Returns the address of the dv_vec_repair_fn for function fn, on f64 if is64,
// else on f32.
uint64_t dv_vec_repair_address(dv_fn fn, int is64);
// Returns whether a plan has calls of C library functions (DV_V_REPAIR).
int dv_vec_repairs(const dv_vec_plan *p);

// A cache of the most recent plans of one back end. It owns their memory.
enum { DV_VEC_CACHED_PLANS = 8 };
// Largest number of words of a key; plans with longer keys are not cached.
enum { DV_VEC_MAX_CACHED_KEY = 128 };
typedef struct dv_vec_plan_cache {
    struct dv_vec_cached_plan *plans[DV_VEC_CACHED_PLANS];
    uint32_t made; // number of plans added so far, which selects the next entry
} dv_vec_plan_cache;
// Generates the kernel of a shape with this key into `code`. Returns 0 if
// memory runs out.
int dv_vec_generate(dv_vec_plan_cache *all, const dv_vec_isa *isa,
                    const dv_vec_shape *shape, const uint64_t *key, int n,
                    dv_code *code);
void dv_vec_plan_cache_free(dv_vec_plan_cache *all);

extern const dv_vec_isa dv_a64_vec_isa;
extern const dv_vec_isa dv_a64_vec_isa_plain; // for machines without bf16
extern const dv_vec_isa dv_x64_vec_isa_32, dv_x64_vec_isa_64;

// The functions below are for the cache of kernels (cache.c); shape.c
// implements them.

int dv_vec_fusable_on(const dv_vec_isa *isa, const dv_vec_shape *shape);
// Returns the number of accumulators of a reduction along rows in a kernel of
// the first statement alone, on which the order of additions depends; 0 if
// memory ran out.
int dv_vec_accumulators_on(const dv_vec_isa *isa, const dv_vec_shape *shape);
dv_status dv_vec_check(const struct dv_isa *isa, const dv_vec_shape *s,
                       dv_diag *diag);
// Returns whether the lanes of a node are integers, in a kernel that otherwise
// computes in floats.
int dv_vec_is_whole(const dv_vec_shape *s, int node);
int dv_vec_key_words(const dv_vec_shape *s);
void dv_vec_key(const dv_vec_shape *s, uint64_t *out);
// Removes from the key of a shape what its plan does not depend on, such as the
// size of strides.
void dv_vec_plan_key(uint64_t *key);
// Writes the name of the kernel with this key.
void dv_vec_name(const uint64_t *key, char *out, size_t size);
#endif
