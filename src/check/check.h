// The checker: proves a plan from the plan alone, rule by rule. It shares no
// code with the passes that build plans.
//
//   check.h       private to the folder: one function for each file
//   check.c       C1 to C8: ops, tiles, accesses; dv_plan_check
//   machine.c     C9, C10, C24: sticks, spans, holes
//   scratch.[ch]  C11, C13 to C15: homes in scratchpads
//   sharing.c     C12: homes that share bytes
//   dist.c        C16 to C20: teams
//   grid.c        C21, C23: grids of cores
//   nest.c        C22: orders of sums
#ifndef DV_CHECK_H
#define DV_CHECK_H
#include "plan/plan.h"

// C9 and C10, once C1 to C8 hold; `at` is no place in particular.
dv_status dv_check_machine(const dv_plan *plan, dv_loc at, dv_diag *diag);
// C11 to C15, once the others hold.
dv_status dv_check_scratch(const dv_plan *plan, dv_loc at, dv_diag *diag);
// C16 to C20, of a plan for a team.
dv_status dv_check_dist(const dv_plan *plan, dv_loc at, dv_diag *diag);
// C21 and C23, once the others hold.
dv_status dv_check_grid(const dv_plan *plan, dv_loc at, dv_diag *diag);
// C22, once the others hold.
dv_status dv_check_nest(const dv_plan *plan, dv_loc at, dv_diag *diag);
#endif
