// Inside check/.
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
