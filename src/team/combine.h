// Combines results of which several ranks hold partial sums: adds the
// accumulators of the ranks of a group in the order of their numbers, so that
// all of them get the same bits in every run.
//
// This is a reduce-scatter followed by an allgather among the group: first
// every rank receives all ranks' accumulators of its own share and adds them
// up, then it sends its share to all. A rank sends 2 (g - 1) / g of its
// accumulators, where g is the size of the group, which is the minimum.
#ifndef DV_COMBINE_H
#define DV_COMBINE_H
#include "team/team.h"

typedef struct dv_combine dv_combine;

// Prepares the sum over ranks for an op. *out is NULL if the op's reduction is
// not split over ranks, or if this rank's group (the ranks with partial sums of
// the same results) has no results. If the reduction is split, advances
// *n_message_sets by two on every rank: the numbers of its two message sets.
dv_status dv_combine_create(dv_combine **out, const dv_plan *plan, int32_t op,
                            dv_comm *comm, const dv_iter_space *target,
                            int has_target, int32_t *n_message_sets,
                            dv_arena *arena, dv_diag *diag);
// Returns the buffer for this rank's accumulators, row-major over the written
// variables.
char *dv_combine_parts(dv_combine *c);
// Adds up the accumulators of all ranks of the group, which hold partial sums
// of the same results; afterwards all of them have the sums.
dv_status dv_combine_run(dv_combine *c, dv_comm *comm);
void dv_combine_close(dv_combine *c, dv_comm *comm);
#endif
