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
#include "team/comm.h"
#include "exec/exec.h"

typedef struct dv_rank dv_rank;

typedef struct dv_rank_options {
    int32_t threads; // 0: the rank's share of the cores
    int no_overlap;  // compute when all messages are there, not while they come
    int64_t min_points; // of a tile that is worth a thread; 0: as usual
} dv_rank_options;

// The plan and the comm are borrowed; their sizes must agree. options may be
// NULL.
dv_status dv_rank_create(dv_rank **out, const dv_plan *plan, dv_comm *comm,
                         const dv_rank_options *options, dv_diag *diag);
int32_t dv_rank_threads(const dv_rank *r); // that it works with
void dv_rank_destroy(dv_rank *r);
// A tensor as this rank has it: dense, row-major, the elements of `local`, of
// which `own` are its own. NULL: it has none of it.
void *dv_rank_data(const dv_rank *r, int32_t tensor, dv_box *local,
                   dv_box *own);
// The same memory, also where a rank owns nothing and borrows all it has.
void *dv_rank_memory(const dv_rank *r, int32_t tensor);
// Own elements from a whole tensor, and into one.
void dv_rank_put(dv_rank *r, int32_t tensor, const void *whole);
void dv_rank_get(const dv_rank *r, int32_t tensor, void *whole);
// Everybody together, and everybody returns the same: what the first rank with
// trouble of its own has to say, if there is one.
dv_status dv_rank_run(dv_rank *r, dv_diag *diag);
// Of the last run: seconds in which this rank packed, sent, waited for or
// unpacked messages; it computed in the rest.
double dv_rank_exchange_s(const dv_rank *r);
// The type that this rank's multiply-adds of an op are of, as dv_exec_type.
dv_dtype dv_rank_type(const dv_rank *r, int32_t op);
// What has come to this rank by the exchange of a swap of the plan, and how
// often it took place.
typedef struct dv_carried {
    int64_t times, bytes;
} dv_carried;
dv_carried dv_rank_carried(const dv_rank *r, int32_t swap);
// A number for the plan that all ranks have alike, and one for its program,
// which is the same for any team.
uint64_t dv_rank_hash(const dv_rank *r, uint64_t *program);

// Compare what all ranks must have alike of the plan, together (facts.c).
dv_status dv_rank_compare(const dv_rank *r, const char *how, dv_diag *diag);

// Called after every round of an outermost repeat, on all ranks alike. `mine`
// is how this rank has fared so far, in words in `trouble`; what it returns
// ends the run, and must be the same on all ranks.
typedef dv_status (*dv_rank_step)(void *user, int32_t repeat, int64_t round,
                                  dv_status mine, dv_diag *trouble,
                                  dv_diag *diag);
void dv_rank_on_step(dv_rank *r, dv_rank_step step, void *user);
// Let the next run go on where so many rounds of an outermost repeat are done.
// Local boxes must be filled with what they had then.
void dv_rank_go_on(dv_rank *r, int32_t repeat, int64_t round);

// Copy a box between a tensor that has the elements of `in` in rows and a dense
// run; returns where the run goes on (gather.c).
char *dv_box_copy(char *run, char *data, const dv_box *in, const dv_box *b,
                  int64_t bytes, int into_run);
// All of a tensor on rank 0, together: `whole` is NULL elsewhere.
dv_status dv_rank_gather(dv_rank *r, int32_t tensor, void *whole,
                         dv_diag *diag);
// Does the rank give a tensor away: is it the first among those with copies?
int dv_rank_gives(const dv_plan *plan, int32_t tensor, int64_t rank);
int32_t dv_rank_new_wire(dv_rank *r); // a number, the same on all ranks
// Its plan and, unless `comm` is NULL, its comm.
const dv_plan *dv_rank_plan(const dv_rank *r, dv_comm **comm);

// A whole team in this process. `data` has the whole tensors by number: inputs
// as they are before, outputs as they are after. What was carried comes out in
// `bytes` and `messages`, which may be NULL.
dv_status dv_ranks_run(const dv_plan *plan, void *const *data, int64_t *bytes,
                       int64_t *messages, dv_diag *diag);
// The same with options for the ranks, and all that is known of what was
// carried. Both may be NULL.
typedef struct dv_moved_all {
    int64_t bytes, messages;
    dv_carried *swaps; // one per swap of the plan, over all ranks; or NULL
} dv_moved_all;
dv_status dv_ranks_run_as(const dv_plan *plan, const dv_rank_options *options,
                          void *const *data, dv_moved_all *moved,
                          dv_diag *diag);
#endif
