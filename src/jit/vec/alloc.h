// Register allocation for one straight-line run of operations at a time.
//
// A value from outside the run (a constant, or a value computed before the
// loop) has a home: either a register of its own for the whole kernel, or a
// place in memory from which it is reloaded when needed. A value made in the
// run lives until its last use; when registers run out, the value whose next
// use is furthest away is spilled to the stack.
#ifndef DV_JIT_VEC_ALLOC_H
#define DV_JIT_VEC_ALLOC_H
#include "jit/vec/ir.h"

enum {
    DV_VEC_MAX_REGS = 32,
    DV_VEC_MAX_UNROLL = 8,
    // A position after every other one, for values that are not used again. It
    // has four equal bytes, so that memset can fill arrays with it.
    DV_VEC_NEVER = 0x3f3f3f3f
};

typedef struct dv_vec_alloc {
    dv_vec_plan *plan;
    const dv_vec_isa *isa;
    dv_arena *arena;
    const dv_vec_value *vals;
    int32_t n_vals;
    int unroll;
    // Number of accumulators of a statement (one expression that the kernel
    // computes); the unrolled copies of the loop body share them round-robin.
    int n_accs;
    // The following arrays are indexed by value (the result of one operation).
    uint8_t *live; // 1: the value contributes to a stored result
    // 1: another section of the kernel (such as the code before the loop) uses
    // the value
    uint8_t *outside;
    // Register and stack slot that hold the value for the whole kernel; -1:
    // none.
    int32_t *home_reg;
    int32_t *home_slot;
    int32_t *pool; // index among the constants after the code; -1: not added
    // All ones if the value differs between the unrolled copies of the loop
    // body, 0 if one value serves all copies.
    uint8_t *copies;
    // Arrays indexed by value and unrolled copy of the loop body (value *
    // DV_VEC_MAX_UNROLL + copy): the register that holds it now, its spill slot
    // (-1: none), and the position of its first use in the current run.
    int32_t *reg, *slot, *last;
    // By register: the index (value and copy) of what is in it; FREE if there
    // is nothing, HOME if the register is permanent.
    int32_t owner[DV_VEC_MAX_REGS];
    // By register: the position in the run (the sequence of operations without
    // jumps) where its value is needed next.
    int32_t next[DV_VEC_MAX_REGS];
    // Bit masks of the free registers, and of those that must not be evicted.
    uint32_t free, locked;
    const dv_vec_shape *statement[DV_VEC_MAX_STATEMENTS];
    int32_t n_statements;
    // Index of the first value of each statement, and after them the end of the
    // last statement's values.
    const int32_t *from;
    // Number of copies of the loop body whose operations alternate, if there
    // are several statements.
    int together;
    // Number of operations by which each group of `together` copies lags behind
    // the group before it.
    int32_t lag;
    // Registers of the accumulators, by statement and by number of the
    // accumulator.
    int32_t acc[DV_VEC_MAX_STATEMENTS][DV_VEC_MAX_UNROLL];
    // Register that sums the squares of the watched arguments: those that must
    // be small for the fast loop body to be valid.
    int32_t watch;
    int watching; // 1: register `watch` has been initialised
    // Largest sum of squares for which the fast loop body is valid, as bits of
    // a lane
    uint64_t guard_limit;
    int32_t first_slot; // first stack slot above the permanent ones
    // The current run (a sequence of operations without jumps). seq: the index
    // (value and copy) of what each operation computes; after: the position of
    // the next use of each of its arguments.
    int32_t *seq, *after;
} dv_vec_alloc;

// A run (a sequence of operations without jumps): `copies` copies of a section
// of the kernel side by side, on vectors of `count` elements, the first being
// vector `base`.
typedef struct dv_vec_run {
    dv_vec_section section;
    int copies, base, count;
} dv_vec_run;

// Allocates the arrays. The caller has set plan, isa, arena, vals, n_vals and
// unroll.
void dv_vec_alloc_init(dv_vec_alloc *a);
void dv_vec_alloc_run(dv_vec_alloc *a, const dv_vec_run *run);
// Lists the operations of a section (part of the kernel) in `ops`, which has
// room for n_vals, and returns their number. Each comes after its arguments;
// the statements alternate, with at most two operations of one statement in a
// row, and a store is never the second of them.
int32_t dv_vec_interleave(const dv_vec_alloc *a, dv_vec_section section,
                          int32_t *ops);
// Returns the largest number of simultaneously live values of n operations, if
// a second copy of them lags by `lag` operations; `lag` must be at least
// half of n, so that no third copy overlaps. `last` has room for n.
int dv_vec_staggered_pressure(const dv_vec_alloc *a, const int32_t *ops,
                              int32_t n, int32_t lag, int32_t *last);
// Fills a->seq with the operations of a run (the unrolled copies of a section
// of the kernel) in order, and returns their number.
int32_t dv_vec_order(dv_vec_alloc *a, const dv_vec_run *run);
// Returns the largest number of simultaneously live values of a run (the
// unrolled copies of a section of the kernel) in the order that dv_vec_order
// gives it.
int dv_vec_order_pressure(dv_vec_alloc *a, const dv_vec_run *run);
// Does an operation store a result or add to an accumulator?
int dv_vec_is_effect(const dv_vec_value *v);
// dv_vec_alloc_home reserves a register for the whole kernel, dv_vec_alloc_temp
// takes a temporary one, which dv_vec_alloc_release frees.
int dv_vec_alloc_home(dv_vec_alloc *a);
int dv_vec_alloc_temp(dv_vec_alloc *a);
void dv_vec_alloc_release(dv_vec_alloc *a, int reg);
// Returns the index of a constant in the pool (the constants after the code),
// which it adds if it is missing.
int32_t dv_vec_pool(dv_vec_plan *p, dv_arena *arena, uint64_t bits,
                    int32_t lanes);
// dv_vec_emit appends an operation to the plan; dv_vec_op appends one with the
// given fields, whose other fields are 0.
void dv_vec_emit(dv_vec_plan *p, dv_arena *arena, dv_vec_mop op);
void dv_vec_op(dv_vec_alloc *a, dv_vop op, int dst, int x, int y, int32_t imm);
// dv_vec_step returns the operation that combines an accumulator with a value,
// dv_vec_identity the bits of the reducer's identity (such as 0 for a sum) in
// the compute type.
dv_vop dv_vec_step(const dv_vec_shape *s);
uint64_t dv_vec_identity(const dv_vec_shape *s);
#endif
