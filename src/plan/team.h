// The dist section of a plan: a grid of ranks, the distribution of tensors over
// ranks, and the messages before each op. See dist/dist.h for how it is
// computed.
//
// Boxes are symbolic: they follow from the rank by formula. Messages are stored
// for the plan's own rank only, so that a printed plan shows all that this rank
// does; dv_team_messages computes those of other ranks.
#ifndef DV_PLAN_TEAM_H
#define DV_PLAN_TEAM_H
#include "ir/program.h"

// A reduced variable that is distributed: each rank reduces over the values for
// which it owns index `dim` of read `read`, and the partial results of all
// ranks along that dim's grid axis are combined.
typedef struct dv_split_reduction {
    int32_t op, var, read, dim;
    uint32_t off;
} dv_split_reduction;

// An exchange of messages: the elements of a tensor that an op reads and its
// rank does not own.
typedef struct dv_op_exchange {
    int32_t op, tensor;
    int32_t repeat; // the exchange takes place once, before this repeat; -1:
                    // before the op
    // Earlier ops whose received elements of the tensor are still valid.
    int32_t *prior;
    int32_t n_prior;
    // The messages of the plan's rank, sorted by rank and then position.
    dv_piece *sends, *receives;
    int32_t n_sends, n_receives;
    uint32_t off;
} dv_op_exchange;

typedef struct dv_plan_team {
    int64_t rank;
    int n_axes; // number of grid axes; 0 if the plan is for one process
    int64_t grid[DV_MAX_AXES];
    dv_dist *tensors; // one distribution per tensor
    dv_split_reduction *follows;
    dv_op_exchange *op_exchanges; // exchanges, sorted by op
    int32_t n_follows, n_op_exchanges;
    // Hash of the program for which the section was computed, to detect
    // changes.
    uint64_t program;
} dv_plan_team;

int64_t dv_plan_team_size(const dv_plan_team *t);
// Computes the messages of exchange number `exchange` of the plan for any rank,
// allocated in the arena (dist/need.c). Returns 0 if out of memory.
int dv_team_messages(dv_op_exchange *out, const dv_program *p,
                     const dv_plan_team *t, int32_t exchange, int64_t rank,
                     dv_arena *arena);
#endif
