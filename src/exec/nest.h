// Nests ready to run; the calls of the public header divvy/nest.h are in
// nest.c.
#ifndef DV_EXEC_NEST_H
#define DV_EXEC_NEST_H
#include "nest/nest.h"

// Prints how the GEMM plan of a plain product tiles it, as one line without a
// newline. Prints nothing for other nests.
void dv_contract_describe(const dv_contract *c, dv_text *out);
#endif
