// Reads with a border that need no copies: the box of an op is cut where a read
// crosses an edge of its tensor. In each piece, a read is either inside, and
// its kernel reads the tensor, or outside, and the kernel reads a row of border
// values instead.
//
//   y[i,j,c] = sum[a,b] w[a,b,c] * x[i+a-1,j+b-1,c] else 0     4 x 4 x 64
//   pieces of i and of j: 0..1, 1..3, 3..4; in i 0..1 all reads with a = 0 are
//   outside; no index that depends on c leaves the tensor
//
// That needs an inner loop of the kernel along which no read leaves its tensor,
// and indices that depend on one other variable each.
#ifndef DV_EDGES_H
#define DV_EDGES_H
#include "ir/program.h"

typedef struct dv_edges dv_edges;

// Creates the edges of a vector op: the variable values at which its reads
// leave their tensors. There are none yet for any of the n_operands operands.
// Returns NULL when out of memory.
dv_edges *dv_edges_create(int32_t n_operands, dv_arena *arena);
// Adds the edges of an operand, a read of op, whose reduced variables have the
// values `reduced` (by variable) if the op's reduction is unrolled. `row` is
// the number of elements that the kernel's inner loop over variable `inner`
// (-1: none) reads of it. Returns 0 if the read cannot be cut; *failed is set
// to 1 when out of memory.
int dv_edges_add(dv_edges *e, int32_t operand, const dv_program *p,
                 const dv_op *op, const dv_access *read, int32_t inner,
                 int64_t row, const int64_t *reduced, dv_arena *arena,
                 int *failed);
// Returns the variables along which boxes of the op are cut at edges of
// tensors, as a bit mask.
uint32_t dv_edges_vars(const dv_edges *e);
// Returns where a box from..end of variable `var` is cut first: at the next
// tensor edge after `from`, or at `end`.
int64_t dv_edges_cut(const dv_edges *e, int var, int64_t from, int64_t end);
// Lists the operands that are outside of their tensors in the piece of a box
// that begins at `point`, and for each the row of border values that the kernel
// reads instead. Returns their number.
int32_t dv_edges_outside(const dv_edges *e, const int64_t *point,
                         int32_t *operands, void **rows);
#endif
