// Which dim of each operand must be cut into sticks for an op to run: a core
// works on whole sticks, lane by lane.
//
//   y[i,j] = x[i,j] + b[j]       all along j, or all along i, b then sparse
//   m[i]   = max[j] x[i,j]       x along j leaves m sparse; along i, dense
//   c[i,n] = sum[k] a[i,k]*b[k,n]   a along k, b and c along n
//   y[j,i] = x[i,j]              a move: any to any
//
// In words: one variable of the op is its stick variable, or none is. Every
// operand that it moves along has its sticks on that dim; every other operand
// is sparse, or one element. A contraction has the reduced variable in the
// sticks of one factor and a variable of the result in those of the other.
//
// Each possibility is a way. Where operands are not as the way wants, moves
// are put in front of the op; layout/choose.c takes the ways that cost least.
#ifndef DV_STICK_H
#define DV_STICK_H
#include "layout/layout.h"

enum {
    DV_STICK_NONE = -1, // sparse, or cut along a dim of extent 1
    DV_STICK_ANY = -2,  // does not matter
};

// want[w * n_operands + k]: what way w wants of operand k, the reads in order
// and then the write: a host dim, or one of the above.
typedef struct dv_ways {
    int n, n_operands;
    int8_t *want;
} dv_ways;

// 0 when out of memory.
int dv_stick_ways(dv_ways *out, const dv_target *t, const dv_program *p,
                  const dv_op *op, dv_arena *arena);

// The layout of a tensor with its sticks along a dim, or sparse; 0 when it
// overflows. DV_STICK_ANY: the innermost dim.
int dv_stick_layout(dv_layout *out, const dv_target *t, const dv_tensor *x,
                    int stick);
// What a layout of a tensor is in these terms.
int dv_stick_of(const dv_tensor *x, const dv_layout *l);

// -- The choice ------------------------------------------------------------

// What a move must save beside its own bytes to be worth an op.
enum { DV_MOVE_BYTES = 1 << 20 };

// One move: a copy of `tensor` with other sticks, which op number `user` is
// the first to read. It stands before op `before`, `depth` repeats deep, and
// reads the tensor or an earlier copy with the sticks `from`.
typedef struct dv_restick {
    int32_t tensor, user, before;
    int8_t from, stick;
    uint8_t depth;
} dv_restick;

typedef struct dv_sticks {
    int8_t *stick;     // of each tensor
    int8_t *want;      // of each read, op by op: the copy it takes, or ANY
    int32_t *first;    // where the reads of each op begin in `want`
    dv_restick *moves; // in the order of their users
    int32_t n_moves, cap_moves;
    int exact; // every possibility was considered
} dv_sticks;

// The sticks of all tensors and the moves, so that the fewest bytes are
// read, written and moved.
dv_status dv_sticks_choose(dv_sticks *out, const dv_program *p,
                           const dv_target *t, dv_arena *arena, dv_diag *diag);
// Put the moves into the program: new tensors, new ops, reads that take them.
// sticks->stick grows by the new tensors.
dv_status dv_sticks_insert(dv_program *p, dv_sticks *sticks, dv_diag *diag);
#endif
