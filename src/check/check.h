// The checker: proves rules C1 to C40 from the plan alone. It shares no code
// with the passes that build plans.
//
//   check.h       private to the folder: one function for each file
//   check.c       C1 to C8: ops, tiles, accesses; dv_plan_check
//   machine.c     C9, C10, C24, C33, C34: lanes, spans, cores, limits
//   scratch.c     C11 to C15, C35, C36: tensors resident in scratchpads
//   dist.c        C16 to C20: tensors cut over ranks, and messages
//   ranks.c       C31, C32: the plans of a team's ranks
//   part.c        what a rank of a team owns and computes
//   holds.[ch]    which elements a rank's tensors hold, as of when
//   grid.c        C21, C23: assignment of tiles to grids of cores
//   loops.c       C30: the loops of a product's tiles
//   schedule.c    C22, C25 to C29, C37, C40: kernels, loops, rows, sums
//   skip.c        C38: points that ops leave out
//   once.c        C39: groups that run once
#ifndef DV_CHECK_H
#define DV_CHECK_H
#include "plan/plan.h"

// Fails with DV_E_CHECK and a message that begins with the broken rule, such as
// "C2: group 0: tile 0 is dealt to no core". `rule` is the name of a rule, such
// as C2, without quotes; a format and its arguments follow `at`.
#define DV_BREAKS(diag, rule, at, ...)                                         \
    dv_fail(diag, DV_E_CHECK, at, #rule ": " __VA_ARGS__)

// Checks rules C9, C10, C24, C33 and C34: the lanes of operands (a lane is a
// position in a stick, the unit of the target's memory), address spans, missing
// cores, and what the target says about ops and groups.
// C1 to C8 must hold. `at` is the location for messages that have no better
// one, here and in the functions below.
dv_status dv_check_machine(const dv_plan *plan, dv_loc at, dv_diag *diag);
// Checks rules C11 to C15, C35 and C36 (tensors resident in scratchpads,
// operands that cores receive from each other); C1 to C10 must hold.
dv_status dv_check_scratch(const dv_plan *plan, dv_loc at, dv_diag *diag);
// Checks rules C16 to C20 of a plan for a team of ranks (processes): how
// tensors are cut over the ranks, and the messages between them.
dv_status dv_check_dist(const dv_plan *plan, dv_loc at, dv_diag *diag);
// These functions return, for coordinates in the grid of ranks, what a rank
// owns and computes: its box of a tensor, the ranges of an op's variables.
// dv_check_target returns 0 if the rank computes nothing of the op.
void dv_check_coords(const dv_plan_team *t, int64_t rank, int64_t *out);
dv_box dv_check_owned(const dv_plan_team *t, int32_t tensor,
                      const int64_t *coord);
int dv_check_target(const dv_program *p, const dv_plan_team *t, int32_t op,
                    const int64_t *coord, int64_t *begin, int64_t *end);
// Returns the only variable of an index; -1 if it has none, -2 if it has
// several.
int dv_check_var(const dv_op *op, const dv_index *x);
// Checks rules C31 and C32 of a plan for a team of ranks (processes): the plans
// of the ranks themselves, and what their programs compute.
dv_status dv_check_ranks(const dv_plan *plan, dv_loc at, dv_diag *diag);
// Checks rule C32 of the plan of one rank: its program computes the rank's part
// of the team's program.
dv_status dv_check_rank(const dv_plan *team, const dv_plan *plan, int64_t rank,
                        dv_loc at, dv_diag *diag);
// Checks rules C21 and C23 (assignment of tiles to grids of cores); C1 to C15
// must hold.
dv_status dv_check_grid(const dv_plan *plan, dv_loc at, dv_diag *diag);
// Checks rule C30: the loops inside a tile of a matrix product. Rule C22 must
// hold.
dv_status dv_check_tile_loops(const dv_plan *plan, int32_t op, dv_diag *diag);
// Checks rule C38: the iteration points that an op skips, because of a mask,
// change no result.
dv_status dv_check_skip(const dv_plan *plan, int32_t op, dv_loc at,
                        dv_diag *diag);
// Checks rule C39: what groups marked `once` compute is the same in every run,
// so that it is computed before the first one only.
dv_status dv_check_once(const dv_plan *plan, dv_loc at, dv_diag *diag);
// Returns whether exactly one op writes a tensor, in a group marked `once`,
// which runs only before the first run.
int dv_check_is_once(const dv_plan *plan, int32_t tensor);
// Checks rules C22, C25 to C30, C37, C38 and C40 (the schedule: kernels, loops,
// rows, order of additions); all other rules must hold.
dv_status dv_check_schedule(const dv_plan *plan, dv_loc at, dv_diag *diag);
#endif
