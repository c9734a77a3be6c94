// Torch-Spyre's encoding of a division (dv_stride_splits of divvy/divide.h):
// splits keyed by the stride of a variable in the host index, because its loop
// variables do not outlive a pass. divvy's own plans are keyed by variable.
#ifndef DV_STRIDE_SPLITS_H
#define DV_STRIDE_SPLITS_H
#include "base/json.h"
#include "divvy/divide.h"
#include "plan/plan.h"

// Returns the stride by which Torch-Spyre's encoding identifies variable v: its
// stride in the write (*written is 1) or else in the first read; 0 if v is in
// neither.
int64_t dv_stride_key(const dv_program *p, const dv_op *op, int v,
                      int *written);
// Encodes the number of slices of each variable of an op by the variable's
// stride, as Torch-Spyre does. Returns 0 if that is ambiguous, and appends the
// reason to `why`.
int dv_stride_splits_make(dv_stride_splits *out, const dv_program *p,
                          const dv_op *op, const int64_t *splits, dv_text *why);
// Prints the numbers of slices of op i as Torch-Spyre stores them, keyed by
// stride: first those of variables of the result, then the others. If they
// cannot be stored that way, prints the reason.
void dv_stride_splits_json(dv_json *j, const dv_plan *plan, int32_t i);
#endif
