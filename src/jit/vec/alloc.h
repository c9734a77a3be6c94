// Registers for the values of one straight run of operations at a time.
//
// A value that comes from outside the run (a constant, something computed
// before the loop) has a home: a register that is its own throughout the
// kernel, or a place in memory from which it is loaded when needed and
// forgotten again. A value of the run lives from where it is made to its last
// use; when registers run out, the one needed last goes to the stack.
#ifndef DV_JIT_VEC_ALLOC_H
#define DV_JIT_VEC_ALLOC_H
#include "jit/vec/ir.h"

enum {
    DV_VEC_MAX_REGS = 32,
    DV_VEC_MAX_UNROLL = 8,
    DV_VEC_NEVER = 0x3f3f3f3f // all bytes alike
};

typedef struct dv_vec_alloc {
    dv_vec_plan *plan;
    const dv_vec_isa *isa;
    dv_arena *arena;
    const dv_vval *vals;
    int32_t n_vals;
    int unroll;
    int n_accs; // of a statement; copies that have none share them in turn
    // By value.
    uint8_t *live;      // needed for what is stored
    uint8_t *outside;   // needed by another section than its own
    int32_t *home_reg;  // -1: none
    int32_t *home_slot; // of the stack; -1: none
    int32_t *pool;      // number of a constant; -1: not there yet
    uint8_t *copies;    // 0: one for all; else bits of a copy's number
    // By copy of a value: number * DV_VEC_MAX_UNROLL + copy.
    int32_t *reg, *slot, *last;
    // By register.
    int32_t owner[DV_VEC_MAX_REGS]; // copy of a value; FREE or HOME
    int32_t next[DV_VEC_MAX_REGS];  // where its owner is needed next
    uint32_t free, locked;          // bits
    const dv_vec_shape *statement[DV_VEC_MAX_BESIDE];
    int32_t n_statements;
    const int32_t *from; // first value of each statement, and the end
    int together;        // copies side by side, of several statements
    int32_t behind;      // operations from those to the next
    // Registers of the accumulators, by statement.
    int32_t acc[DV_VEC_MAX_BESIDE][DV_VEC_MAX_UNROLL];
    int32_t watch;         // and of what is watched
    int watching;          // it has something
    uint64_t most_watched; // bits of a lane
    int32_t first_slot;    // above the homes
    // The run: copy of a value at each place, and for its arguments the next
    // place where they are needed.
    int32_t *seq, *after;
    int32_t n_seq;
} dv_vec_alloc;

// Operations of the run of a section: `copies` of it side by side, vectors of
// `count` elements from number `base` on.
typedef struct dv_vec_run {
    dv_vec_section section;
    int copies, base, count;
} dv_vec_run;

// a->plan, isa, arena, vals, n_vals and unroll are set.
void dv_vec_alloc_init(dv_vec_alloc *a);
void dv_vec_alloc_run(dv_vec_alloc *a, const dv_vec_run *run);
// The operations of a section, each after what it needs, in room for n_vals: a
// few of each statement at a time, stores last. Returns how many.
int32_t dv_vec_alloc_mix(const dv_vec_alloc *a, dv_vec_section section,
                         int32_t *ops);
// The most of n operations' values that are alive at once, where a second copy
// is so many operations behind, at least half of them. There is room for n in
// `last`.
int dv_vec_alloc_width(const dv_vec_alloc *a, const int32_t *ops, int32_t n,
                       int32_t behind, int32_t *last);
// Fill a->seq with the copies of a run's operations in order. Returns how many.
int32_t dv_vec_order(dv_vec_alloc *a, const dv_vec_run *run);
// The most values of a run that are alive at once in that order.
int dv_vec_order_width(dv_vec_alloc *a, const dv_vec_run *run);
int dv_vec_is_effect(const dv_vval *v); // stores, or adds to an accumulator
// Take a register for the whole kernel, or for the moment; FREE it again.
int dv_vec_alloc_home(dv_vec_alloc *a);
int dv_vec_alloc_temp(dv_vec_alloc *a);
void dv_vec_alloc_release(dv_vec_alloc *a, int reg);
// The number of a constant in the pool.
int32_t dv_vec_pool(dv_vec_plan *p, dv_arena *arena, uint64_t bits,
                    int32_t lanes);
void dv_vec_emit(dv_vec_plan *p, dv_arena *arena, dv_vec_mop op);
// acc = acc (+) x, by the reducer, in lanes of the type computed in.
dv_vop dv_vec_step(const dv_vec_shape *s);
uint64_t dv_vec_identity(const dv_vec_shape *s);
#endif
