// Determines which dim of each operand must be divided into sticks (the
// target's memory units) for an op to run: a core processes whole sticks, lane
// by lane.
//
//   y[i,j] = x[i,j] + b[j]       all along j, or all along i, b then sparse
//   m[i]   = max[j] x[i,j]       x along j makes m sparse; along i, dense
//   c[i,n] = sum[k] a[i,k]*b[k,n]   a along k, b and c along n
//   y[j,i] = x[i,j]              a move: any dim to any dim
//
// In general, at most one variable of the op is its stick variable. Every
// operand that depends on it has its sticks along that dim; every other operand
// is sparse or a single element. A contraction has the reduced variable in the
// sticks of one factor and a variable of the result in those of the other.
//
// Each combination of stick dims is called a choice. If operands do not have
// the sticks that a choice requires, copies (moves) are inserted before the op;
// layout/choose.c selects the choices with the lowest cost.
#ifndef DV_STICK_H
#define DV_STICK_H
#include "layout/layout.h"

enum {
    // The tensor has one element per stick (the target's unit of memory): it is
    // sparse, or the dim that is divided into sticks has extent 1.
    DV_STICK_NONE = -1,
    DV_STICK_ANY = -2, // any dim of the tensor may be divided into sticks
};

// The choices of an op: each says which dim of every operand must be divided
// into sticks (the target's units of memory). want[w * n_operands + k] is the
// dim that choice w requires of operand k (the reads in order, then the write),
// or DV_STICK_NONE or DV_STICK_ANY.
typedef struct dv_stick_choices {
    int n, n_operands;
    int8_t *want;
} dv_stick_choices;

// Lists the choices with which an op can run: each gives the dim of every
// operand that is divided into sticks (the target's units of memory). Returns 0
// if out of memory.
int dv_stick_list_choices(dv_stick_choices *out, const dv_target *t,
                          const dv_program *p, const dv_op *op,
                          dv_arena *arena);

// Makes the layout of a tensor with its sticks (the target's memory units)
// along dim `stick`, or sparse if it is DV_STICK_NONE; DV_STICK_ANY means the
// innermost dim. The first of the other dims is stored inside of them, as in
// Torch-Spyre; with `outer_first` the outer dims are outermost, as on machines
// without sticks. Returns 0 if a size overflows.
int dv_stick_layout_in_order(dv_layout *out, const dv_target *t,
                             const dv_tensor *x, int stick, int outer_first);
// Like dv_stick_layout_in_order, but chooses the order: the outer dims are
// outermost if the tensor is larger than the target's span limit and its first
// dim has a slice for every core.
int dv_stick_layout(dv_layout *out, const dv_target *t, const dv_tensor *x,
                    int stick);

// Cost, in bytes of memory traffic, of the extra op that copies a tensor to
// sticks along another dim; it is added to the traffic of the copy.
enum { DV_MOVE_BYTES = 1 << 20 };

// One move: a copy of `tensor` that is divided into sticks (the target's units
// of memory) along another dim, first read by op `user`. It is inserted before
// op `before`, inside `depth` repeats, and reads the tensor or an earlier copy
// with the stick dim `from`.
typedef struct dv_restick {
    int32_t tensor, user, before;
    int8_t from, stick;
    uint8_t depth;
} dv_restick;

typedef struct dv_sticks {
    int8_t *stick; // stick dim of each tensor (the dim divided into sticks)
    // For each read of each op, the stick dim of the copy of the tensor that it
    // uses (the dim divided into sticks); DV_STICK_ANY if it reads the tensor
    // itself.
    int8_t *want;
    int32_t *first; // index in `want` of the first read of each op
    // The moves (copies of tensors with sticks along another dim), sorted by
    // the op that needs them.
    dv_restick *moves;
    int32_t n_moves, cap_moves;
    int exact; // 1 if the search was exhaustive, so the choice is optimal
    // Set by dv_sticks_insert: for each op of the new program its number in the
    // old one, or -1 if it is a move; NULL if there are no moves.
    int32_t *old_ops;
} dv_sticks;

// Chooses along which dim each tensor is divided into sticks (the target's
// units of memory), and the moves, which copy tensors to sticks along other
// dims, so that the fewest bytes are read, written and copied.
dv_status dv_sticks_choose(dv_sticks *out, const dv_program *p,
                           const dv_target *t, dv_arena *arena, dv_diag *diag);
// Inserts the moves (copies of tensors with sticks along another dim) into the
// program: new tensors, new ops, and reads redirected to the copies.
// sticks->stick grows by the new tensors.
dv_status dv_sticks_insert(dv_program *p, dv_sticks *sticks, dv_diag *diag);
#endif
