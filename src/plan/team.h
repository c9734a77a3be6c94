// The dist section of a plan: a grid of ranks, who owns what, and what travels
// before which op. See dist/dist.h for how it is found.
//
// It is symbolic in the rank: boxes follow from it by formula for any rank.
// Messages are written out for the plan's own rank, so that a plan on paper
// says all that this rank does; dv_team_messages gives those of the others.
#ifndef DV_PLAN_TEAM_H
#define DV_PLAN_TEAM_H
#include "ir/program.h"

// A reduced variable that is cut: a rank sums over those of its values for
// which it owns index `dim` of read `read`. The parts of all ranks along that
// dim's axis are combined.
typedef struct dv_follow {
    int32_t op, var, read, dim;
    uint32_t off;
} dv_follow;

// What an op reads of a tensor beyond what ranks own.
typedef struct dv_swap {
    int32_t op, tensor;
    int32_t repeat; // once, before this repeat begins; -1: before the op
    int32_t *prior; // ops whose reads of the tensor are still at hand
    int32_t n_prior;
    // Of the plan's rank, by rank and then place.
    dv_piece *sends, *receives;
    int32_t n_sends, n_receives;
    uint32_t off;
} dv_swap;

typedef struct dv_team {
    int64_t rank;
    int n_axes; // 0: the plan is for one process
    int64_t grid[DV_MAX_AXES];
    dv_dist *tensors; // one per tensor
    dv_follow *follows;
    dv_swap *swaps; // in the order of their ops
    int32_t n_follows, n_swaps;
    uint64_t program; // what it was made for, so that changes are seen
} dv_team;

int64_t dv_team_size(const dv_team *t);
// Messages of one swap for any rank, into the arena (dist/need.c). 0: no
// memory.
int dv_team_messages(dv_swap *out, const dv_program *p, const dv_team *t,
                     int32_t swap, int64_t rank, dv_arena *arena);
#endif
