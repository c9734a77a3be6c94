// Ops whose reads lie across their result, block by block:
//
//   y[i,j] = x[j,i] + z[i,j]     blocks of 32 i and 32 j: that of x is turned
//                                into a buffer by a move, and a kernel reads it
//                                there; of y[i,j] = x[j,i] the move is all
//
// Kernels alone would read x one by one, each from another page.
#ifndef DV_VEC_TURN_H
#define DV_VEC_TURN_H
#include "exec/vec_op.h"

typedef struct dv_vec_turn dv_vec_turn;

// The variables of blocks: results along `col` are neighbours, what is read
// across along `row`. The op's loops are these, in all of it, whether its
// elements lie so that blocks can be turned or not. 0: there are none.
int dv_vec_turn_loops(const dv_vec_how *how, int32_t *row, int32_t *col);

// Of an op that has such loops. *out is the arena's; NULL with DV_OK where its
// elements lie another way, or no move does it.
dv_status dv_vec_turn_create(dv_vec_turn **out, const dv_vec_op *v,
                             const dv_vec_how *how, dv_jit *jit,
                             dv_arena *arena, dv_diag *diag);
// As dv_vec_op_run, which `v` is for at the edges.
void dv_vec_turn_run(const dv_vec_turn *t, const dv_vec_op *v, void *const *at,
                     const int64_t *begin, const int64_t *end);
#endif
