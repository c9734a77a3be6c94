// Nests ready to run; the calls of the public header divvy/nest.h are in
// nest.c.
#ifndef DV_EXEC_NEST_H
#define DV_EXEC_NEST_H
#include "nest/nest.h"

// Prints what runs the nest, as one line without a newline: kernels that the
// loops call, a kernel for the whole product and how it is tiled, or a plan.
void dv_contract_describe(const dv_contract *c, dv_text *out);
#endif
