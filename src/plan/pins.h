// The names in pins, by which the user prescribes how ops are computed
// (`--pin OP:VARIABLE=NUMBER`, `--pin OP.kernel=KIND`).
#ifndef DV_PINS_H
#define DV_PINS_H
#include "plan/plan.h"

// Finds the op whose name is the first `len` bytes of a pin. Fails if the plan
// has none; the message has a similar name, or those that there are.
dv_status dv_pin_find_op(int32_t *op, const dv_plan *plan, const char *pin,
                         size_t len, dv_diag *diag);
// Finds the variable of op `o` that a pin names with the `len` bytes at `name`.
// Fails if it has none; the message has those that there are.
dv_status dv_pin_find_var(int32_t *var, const dv_op *o, const char *pin,
                          const char *name, size_t len, dv_diag *diag);
#endif
