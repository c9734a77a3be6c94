// The dist section of a plan: a grid of ranks (processes), the distribution of
// tensors over ranks, and the messages before each op. See dist/dist.h for how
// it is computed.
//
// Boxes are symbolic: they follow from the rank by formula. Messages are stored
// for the plan's own rank only, so that a printed plan shows all that this rank
// does; dv_team_messages computes those of other ranks.
#ifndef DV_PLAN_TEAM_H
#define DV_PLAN_TEAM_H
#include "ir/program.h"

// A reduced variable whose values are divided over ranks (processes): each rank
// reduces over the values for which dim `dim` of read number `read` lies in the
// part of the tensor that it owns, and the partial results of all ranks along
// that dim's axis of the rank grid are combined.
typedef struct dv_split_reduction {
    int32_t op, var, read, dim;
    uint32_t off;
} dv_split_reduction;

// An exchange of messages between ranks (processes) before an op: each rank
// receives the elements of a tensor that it reads and does not own.
typedef struct dv_op_exchange {
    int32_t op, tensor;
    // If not negative, the exchange takes place once, before this repeat loop;
    // if -1, each time before the op.
    int32_t repeat;
    // Earlier ops that received elements of the tensor which are still valid,
    // so that these are not sent again.
    int32_t *prior;
    int32_t n_prior;
    // The messages of the rank that the plan is made for, sorted by the other
    // rank and then by position in the tensor.
    dv_piece *sends, *receives;
    int32_t n_sends, n_receives;
    uint32_t off;
} dv_op_exchange;

typedef struct dv_plan_team {
    int64_t rank;
    // Number of dimensions of the grid of ranks; 0 if the plan is for a single
    // process.
    int n_axes;
    int64_t grid[DV_MAX_AXES];
    dv_dist *tensors; // one distribution per tensor
    dv_split_reduction *follows;
    dv_op_exchange *op_exchanges; // messages before ops, sorted by op
    int32_t n_follows, n_op_exchanges;
} dv_plan_team;

int64_t dv_plan_team_size(const dv_plan_team *t);
// Computes the messages that any rank (process) sends and receives in exchange
// number `exchange` of the plan, allocated in the arena (dist/need.c). Returns
// 0 if out of memory.
int dv_team_messages(dv_op_exchange *out, const dv_program *p,
                     const dv_plan_team *t, int32_t exchange, int64_t rank,
                     dv_arena *arena);
#endif
