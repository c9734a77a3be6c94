// Results that several ranks hold parts of: each rank's accumulators, added up
// over the ranks of a group in the order of their numbers, so that all of them
// have the same bits, run after run.
//
// Two rounds of messages, each between all of the group: first everybody gets
// everybody's accumulators of its own share and adds them up, then shares go
// to all. A rank moves 2 (g - 1) / g of its accumulators, which is the least.
#ifndef DV_COMBINE_H
#define DV_COMBINE_H
#include "team/team.h"

typedef struct dv_combine dv_combine;

// What an op needs; *out is NULL when its results are whole, or when nobody of
// the group has any. Takes numbers for its wires on every rank alike.
dv_status dv_combine_create(dv_combine **out, const dv_plan *plan, int32_t op,
                            dv_comm *comm, const dv_space *target,
                            int has_target, int32_t *n_wires, dv_arena *arena,
                            dv_diag *diag);
// Where this rank's accumulators go, in rows over the variables written.
char *dv_combine_parts(dv_combine *c);
// Add up everybody's; all have the sums afterwards.
dv_status dv_combine_run(dv_combine *c, dv_comm *comm);
void dv_combine_close(dv_combine *c, dv_comm *comm);
#endif
