// The reference for nests without in2.
#ifndef DV_NEST_EVAL_H
#define DV_NEST_EVAL_H
#include "nest/nest.h"

// Evaluates a nest with the oracle; the products of a large f32 nest are summed
// by loops, which are faster. The pointers are the elements where all indices
// are 0.
dv_status eval_nest(const dv_nest *n, const void *in0, const void *in1,
                    void *out);
#endif
