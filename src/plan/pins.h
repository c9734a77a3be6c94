// The names in pins, by which the user prescribes how ops are computed
// (`--pin OP:VARIABLE=NUMBER`, `--pin OP.kernel=KIND`).
#ifndef DV_PINS_H
#define DV_PINS_H
#include "plan/plan.h"

// Finds the op whose name is the first `len` bytes of a pin (a choice that the
// user prescribes, as OP:VARIABLE=NUMBER). Fails if the plan has no such op;
// the message suggests a similar name or lists all.
dv_status dv_pin_find_op(int32_t *op, const dv_plan *plan, const char *pin,
                         size_t len, dv_diag *diag);
// Finds the variable of op `o` whose name is the `len` bytes at `name`, a part
// of the pin `pin`. Fails if the op has no such variable; the message lists
// all.
dv_status dv_pin_find_var(int32_t *var, const dv_op *o, const char *pin,
                          const char *name, size_t len, dv_diag *diag);
#endif
