// Running a plan for a team: each rank has its own boxes and what it borrows
// around them, computes what needs nothing from others while messages travel,
// and the rest as they arrive.
//
//   rank r        own box of u            local box of u
//                 [170..341, 0..512]      [168..343, 0..512]
//
// A rank is created once and run as often as one likes; a run allocates
// nothing. Everything is planned before the first message, alike on all ranks.
#ifndef DV_RUN_DIST_H
#define DV_RUN_DIST_H
#include "dist/dist.h"
#include "run/comm.h"
#include "run/run.h"

typedef struct dv_rank dv_rank;

// The plan and the comm are borrowed; their sizes must agree.
dv_status dv_rank_create(dv_rank **out, const dv_plan *plan, dv_comm *comm,
                         dv_diag *diag);
void dv_rank_destroy(dv_rank *r);
// A tensor as this rank has it: dense, row-major, the elements of `local`, of
// which `own` are its own. NULL: it has none of it.
void *dv_rank_data(const dv_rank *r, int32_t tensor, dv_box *local,
                   dv_box *own);
// Own elements from a whole tensor, and into one.
void dv_rank_put(dv_rank *r, int32_t tensor, const void *whole);
void dv_rank_get(const dv_rank *r, int32_t tensor, void *whole);
dv_status dv_rank_run(dv_rank *r, dv_diag *diag);

// A whole team in this process. `data` has the whole tensors by number: inputs
// as they are before, outputs as they are after. What was carried comes out in
// `bytes` and `messages`, which may be NULL.
dv_status dv_ranks_run(const dv_plan *plan, void *const *data, int64_t *bytes,
                      int64_t *messages, dv_diag *diag);
#endif
