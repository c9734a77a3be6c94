// Decodes Torch-Spyre's encoding of a division (dv_stride_splits of
// divvy/divide.h), as its later passes read it: to hold what divvy writes
// against what is read.
#ifndef DV_TESTS_SPYRE_DECODE_H
#define DV_TESTS_SPYRE_DECODE_H
#include "plan/stride_splits.h"

// Sets the number of splits of each variable. A stride that no variable or
// several variables have is an error.
dv_status dv_decode(int64_t *splits, const dv_program *p, const dv_op *op,
                    const dv_stride_splits *e, dv_diag *diag);
#endif
