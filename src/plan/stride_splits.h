// Torch-Spyre's encoding of a division (dv_stride_splits of divvy/divide.h):
// splits keyed by the stride of a variable in the host index, because its loop
// variables do not outlive a pass. divvy's own plans are keyed by variable.
#ifndef DV_STRIDE_SPLITS_H
#define DV_STRIDE_SPLITS_H
#include "base/json.h"
#include "divvy/divide.h"
#include "plan/plan.h"

// Returns the stride by which the encoding identifies variable v: its stride in
// the write (*written is 1) or else in the first read; 0 if it is in neither.
int64_t dv_stride_key(const dv_program *p, const dv_op *op, int v,
                      int *written);
// Encodes the numbers of slices of the variables of an op. Returns 0 if they
// have no unambiguous encoding, and appends the reason to `why`.
int dv_stride_splits_make(dv_stride_splits *out, const dv_program *p,
                          const dv_op *op, const int64_t *splits, dv_text *why);
// Prints the splits of op i as Torch-Spyre stores them, keyed by stride: those
// of the result, then the others; or why they cannot be stored so.
void dv_stride_splits_json(dv_json *j, const dv_plan *plan, int32_t i);
#endif
