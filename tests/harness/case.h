// One case of the property tests of plans: random machines, and what every
// plan keeps, however it came about.
#ifndef DV_CASE_H
#define DV_CASE_H
#include "harness/gen.h"
#include "exec/exec.h"

// Note why a case fails; returns 0. case_why() gives it back.
__attribute__((format(printf, 1, 2))) int case_no(const char *form, ...);
const char *case_why(void);

// 1 to 64 cores, sticks of 32 to 256 bytes, scratchpads so small that little
// fits, span limits so tight that they bite; cores often on a grid with holes.
void case_target(rng *r, dv_target *t);

// It checks, reads back to the same text, gives what the oracle gives, and
// moves what was predicted, op by op and core by core. `p` is the program as
// written.
int case_keeps(const dv_program *p, const dv_plan *plan);
// Two plans of one program give the same outputs, bit by bit.
int case_same_results(const dv_plan *a, const dv_plan *b);

// One buffer per tensor of p, inputs filled; NULL for what an executor owns.
void **case_buffers(const dv_program *p);
void case_free(void **data, const dv_program *p);
// Bind those that are there.
dv_status case_bind(dv_exec *x, const dv_program *p, void *const *data,
                    dv_diag *diag);
#endif
