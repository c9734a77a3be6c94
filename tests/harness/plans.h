// Plans for tests: made or the test fails.
#ifndef DV_TESTS_PLANS_H
#define DV_TESTS_PLANS_H

#include "plan/plan.h"

dv_program *program_of(const char *text);

// `target` is a name or a description; pins end with NULL. The plan is checked.
dv_plan *plan_on(const char *text, const char *target, const char *const *pins,
                 const dv_plan_options *how);
// The division alone, without scratchpads: it must be right by itself.
dv_plan *division_of(const char *text, const char *target, int64_t cores,
                     dv_divide how, const char *const *pins);

int32_t op_named(const dv_plan *plan, const char *name);
int32_t tensor_named(const dv_plan *plan, const char *name);

// 1 when the plan is refused both in memory and when its text is read.
int refused(dv_plan *plan);

#endif
