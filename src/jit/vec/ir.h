// Inside the generator of vec.h's kernels: from a shape to a list of machine
// operations that a back end writes down one by one.
//
//   build   (build.c)  nodes become values: primitive operations that each
//                          instruction set has in some form; functions are
//                          spelt out in them (math.c)
//   plan    (plan.c)   values become operations on registers in loops
//   back end (a64/vec.c, x64/vec.c)  operations become instructions
//
// A value is a vector. Values that do not change in the innermost loop are
// computed before it. What is left, the body, is laid out `unroll` times, the
// copies side by side, so that one waits while the others go on.
//
// Functions whose full range is dear may have a second form for arguments that
// are not large. The fast body is made of those; it watches the arguments of a
// whole turn of the loop, and where some are too large nothing of it counts
// and the body is run in its place, for some turns more as well. Both forms
// give the same bits where both are right: what an element becomes must not
// depend on its neighbours, nor on where the loop is cut.
#ifndef DV_JIT_VEC_IR_H
#define DV_JIT_VEC_IR_H
#include "base/mem.h"
#include "jit/code.h"
#include "jit/vec/vec.h"

// -- Values ------------------------------------------------------------------

// Primitive operations on vectors of the type computed in, or of integers as
// wide. Comparisons give masks: all bits set or none. DV_VOP(NAME, arguments)
#define DV_VOPS                                                                \
    DV_VOP(CONST, 0)                                                           \
    DV_VOP(LOAD, 0)                                                            \
    DV_VOP(REDUCED, 0) /* of statement `imm` */                                \
    DV_VOP(STORE, 1)   /* to the operand written */                            \
    DV_VOP(ACCUM, 1)   /* into the accumulator of the copy */                  \
    DV_VOP(ACCUM2, 2)  /* the product of two */                                \
    DV_VOP(WATCH,                                                              \
           1) /* squares, summed, decide whether the fast body counts */       \
    DV_VOP(FADD, 2)                                                            \
    DV_VOP(FSUB, 2)                                                            \
    DV_VOP(FMUL, 2)                                                            \
    DV_VOP(FDIV, 2)                                                            \
    DV_VOP(FSQRT, 1)                                                           \
    DV_VOP(FMA, 3)  /* a * b + c, rounded once */                              \
    DV_VOP(FNMA, 3) /* c - a * b, rounded once */                              \
    DV_VOP(FMIN, 2) /* nan where either is */                                  \
    DV_VOP(FMAX, 2)                                                            \
    DV_VOP(FLEAST, 2) /* the same; b is no nan */                              \
    DV_VOP(FMOST, 2)                                                           \
    DV_VOP(FNEG, 1)                                                            \
    DV_VOP(FABS, 1)                                                            \
    DV_VOP(FLT, 2)                                                             \
    DV_VOP(FLE, 2)                                                             \
    DV_VOP(FEQ, 2)                                                             \
    DV_VOP(AND, 2)                                                             \
    DV_VOP(OR, 2)                                                              \
    DV_VOP(XOR, 2)                                                             \
    DV_VOP(SEL, 3) /* bits of b where a's are set, else of c */                \
    DV_VOP(IADD, 2)                                                            \
    DV_VOP(ISUB, 2)                                                            \
    DV_VOP(IMUL, 2) /* of 32 bits */                                           \
    DV_VOP(IMIN, 2) /* of 32 bits, and so on */                                \
    DV_VOP(IMAX, 2)                                                            \
    DV_VOP(IABS, 1)                                                            \
    DV_VOP(ILT, 2)                                                             \
    DV_VOP(IEQ, 2)                                                             \
    DV_VOP(SHL, 1)   /* by `imm` bits */                                       \
    DV_VOP(SHR, 1)   /* zeros come in */                                       \
    DV_VOP(ROT, 1)   /* lanes, by `imm` */                                     \
    DV_VOP(PAIRS, 1) /* sums of two lanes, all of them twice */

typedef enum dv_vop {
#define DV_VOP(NAME, args) DV_V_##NAME,
    DV_VOPS
#undef DV_VOP
        // Operations that only the plan makes.
        DV_V_MOV,
    DV_V_FILL,      // dst from stack slot imm
    DV_V_SPILL,     // a to stack slot imm
    DV_V_BEGIN,     // pointers to their places
    DV_V_POINT,     // running pointers back to their places
    DV_V_ROWS,      // for each row: point, and step the places to the next
    DV_V_ROWS_END,  // .
    DV_V_LOOP,      // while imm elements are left in the row
    DV_V_LOOP_END,  // step the pointers by so many
    DV_V_COLS,      // while imm elements are left in the rows: point
    DV_V_COLS_END,  // step the places by so many
    DV_V_STEPS,     // for each row of them
    DV_V_STEPS_END, // step the pointers to the next
    DV_V_FETCH,     // of `count` elements from imm on, what is wanted soon
    DV_V_CHECK,     // to SLOW unless all bits of a are set
    DV_V_RETURN,
    DV_V_SLOW,    // behind the end: in place of the body of the first LOOP
    DV_V_SLOW_END // on, `imm` elements further
} dv_vop;

typedef enum dv_vec_section {
    DV_SECTION_CONST,
    DV_SECTION_HOIST,
    DV_SECTION_FAST,
    DV_SECTION_BODY,
    DV_SECTION_FINISH
} dv_vec_section;

typedef struct dv_vval {
    uint8_t op; // dv_vop
    uint8_t n_args;
    uint8_t section; // dv_vec_section
    int32_t arg[3];  // earlier values
    // LOAD, STORE: operand; ACCUM, ACCUM2, REDUCED: statement; SHL, SHR, ROT:
    // how far
    int32_t imm;
    uint64_t bits; // CONST: of one lane
} dv_vval;

typedef struct dv_vec_build {
    const dv_vec_shape *shape;           // the statement at hand
    int32_t number, first;               // of it, and of its first operand
    int32_t from[DV_VEC_MAX_BESIDE + 1]; // first value of each statement
    dv_arena *arena;
    dv_vval *vals;
    int32_t n, cap;
    int32_t *value_of, *mask_of; // by node; -1: not yet
    int32_t *load_of;            // by operand
    int is64;                    // lanes of 8 bytes
    dv_vec_section in;           // where what changes is computed
    int may_watch;               // the back end can leave a fast body
    double most_watched;         // the sum of squares; 0: nothing is watched
    int failed;                  // out of memory
} dv_vec_build;

// Fill `b` with the values of a kernel. b->shape and b->arena are set.
void dv_vec_build_all(dv_vec_build *b);
int32_t dv_vec_put(dv_vec_build *b, dv_vop op, int32_t x, int32_t y, int32_t z);
int32_t dv_vec_shift(dv_vec_build *b, dv_vop op, int32_t x, int bits);
int32_t dv_vec_bits(dv_vec_build *b, uint64_t bits);
int32_t dv_vec_float(dv_vec_build *b, double value); // in the type of lanes
uint64_t dv_vec_lane(const dv_vec_build *b, double value); // its bits
// In a fast body: what follows is right for |x| up to `most`. 0: this is no
// fast body.
int dv_vec_watch(dv_vec_build *b, int32_t x, double most);
// A function of one argument that no instruction computes.
int32_t dv_vec_math(dv_vec_build *b, dv_fn fn, int32_t x);

// -- The plan ----------------------------------------------------------------

// One operation. dst, a, b, c are vector registers.
typedef struct dv_vec_mop {
    uint8_t op; // dv_vop
    uint8_t dst, a, b, c;
    uint8_t copy;   // LOAD, STORE: the how-manieth vector
    uint16_t count; // LOAD, STORE: elements; 0: one, for all lanes
    int32_t imm;    // CONST: number in the pool
} dv_vec_mop;

// What a back end is like.
struct dv_vec_plan;
typedef struct dv_vec_isa {
    void (*emit)(dv_code *code, const struct dv_vec_plan *p);
    int32_t n_regs, vector_bytes;
    int32_t most_copies; // of the body; 0: as many as the plan likes
    int32_t most_accs;   // of a sum along rows; 0: one for each copy
    int32_t turns;       // bodies of statements side by side behind one another
    int32_t own_bf16;    // stores bf16 without instructions for the type
    int32_t checks;      // has CHECK
    int32_t pairs;       // has PAIRS
    // Arguments of which one must be the destination as well, as a mask; 0:
    // any register will do.
    uint8_t tied[DV_V_SLOW_END + 1];
} dv_vec_isa;

// Operations a vector up to which a loop has no time to wait for what it
// fetches.
enum { DV_VEC_LIGHT = 8 };

// One lane's bits, in the first `lanes` lanes; the others are 0.
typedef struct dv_vec_const {
    uint64_t bits;
    int32_t lanes; // 0: all
} dv_vec_const;

typedef struct dv_vec_plan {
    const dv_vec_shape *shape; // the first statement
    // The statements' operands, then the accumulators.
    const dv_vec_operand *operands;
    int32_t n_operands, n_given;       // all; those that the caller points to
    int32_t n_pool, cap_pool, n_slots; // constants; vectors on the stack
    int32_t n_regs;                    // used, of 0..isa.n_regs
    dv_vec_const *pool;
    dv_vec_mop *ops;
    int32_t n, cap;
    int is64;
    int failed;
} dv_vec_plan;

// Which pointers a kernel has: operands that lie near another have none of
// their own.
typedef struct dv_vec_pointers {
    int32_t n;
    uint16_t operand[DV_VEC_MAX_OPERANDS + 1]; // by pointer
    uint16_t of[DV_VEC_MAX_OPERANDS + 1];      // by operand: its pointer,
    int32_t off[DV_VEC_MAX_OPERANDS + 1];      // and bytes from there
} dv_vec_pointers;
// `reaches` says whether instructions of a back end do, so many bytes on.
void dv_vec_point(const dv_vec_plan *p,
                  int (*reaches)(const dv_vec_operand *o, int64_t bytes),
                  dv_vec_pointers *out);

// Memory comes from the arena. p->failed: out of it.
void dv_vec_plan_make(dv_vec_plan *p, const dv_vec_shape *shape,
                      const dv_vec_isa *isa, dv_arena *arena);
// The same from a plan of a shape that differs in strides: it gets the shape
// and its operands.
void dv_vec_plan_again(dv_vec_plan *p, const dv_vec_shape *shape,
                       dv_arena *arena);

// Plans made last, in turn, of one back end. Memory: owned, freed whole.
enum { DV_VEC_PLANS = 8 };
enum { DV_VEC_USUAL = 128 }; // words of a key that is short, as nearly all are
typedef struct dv_vec_plans {
    struct dv_vec_made *plans[DV_VEC_PLANS];
    uint32_t made; // in all
} dv_vec_plans;
// The kernel of a shape whose key this is. 0: out of memory.
int dv_vec_write(dv_vec_plans *all, const dv_vec_isa *isa,
                 const dv_vec_shape *shape, const uint64_t *key, int n,
                 dv_code *code);
void dv_vec_plans_free(dv_vec_plans *all);

// -- Back ends ---------------------------------------------------------------

extern const dv_vec_isa dv_a64_vec_isa;
extern const dv_vec_isa dv_a64_vec_isa_plain; // without bf16
extern const dv_vec_isa dv_x64_vec_isa_32, dv_x64_vec_isa_64;

// -- For the cache (shape.c)
// ---------------------------------------------------

int dv_vec_joins_on(const dv_vec_isa *isa, const dv_vec_shape *shape);
dv_status dv_vec_check(const struct dv_isa *isa, const dv_vec_shape *s,
                       dv_diag *diag);
int dv_vec_key_words(const dv_vec_shape *s);
void dv_vec_key(const dv_vec_shape *s, uint64_t *out);
// A shape's key without what its plan does not depend on.
void dv_vec_plan_key(uint64_t *key);
// A name from a key.
void dv_vec_name(const uint64_t *key, char *out, size_t size);
#endif
