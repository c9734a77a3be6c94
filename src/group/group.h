// Groups (ops that share one tile space): decides which ops run together tile
// by tile, and which core runs each tile.
//
//   pass.c     the pass "group": one group per op, its tiles dealt to cores
//   on_core.c  merges ops that pass tensors to each other in scratchpads
#ifndef DV_GROUP_H
#define DV_GROUP_H
#include "plan/plan.h"

// Merges consecutive ops whose tensors are resident in scratchpads between
// them, and marks the groups after which scratchpads must keep their contents.
// loop_of[op] is the innermost repeat around the op, or -1.
dv_status dv_group_on_core(dv_plan *plan, const int32_t *loop_of,
                           dv_arena *arena, dv_diag *diag);
// Returns whether the op must be a group of its own: it may not run tile by
// tile together with other ops.
int dv_group_alone(const dv_plan *plan, int32_t op);
// Returns whether ops first..end-1 touch more tensors than a group on the
// target may (property group_tensors).
int dv_group_too_many_tensors(const dv_plan *plan, int32_t first, int32_t end);
#endif
