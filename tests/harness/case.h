// Programs, plans and their data: what the tests of plans have in common. Every
// function that judges returns 1 if the rule holds and otherwise 0, after
// case_no() has noted the reason. None of these functions needs cmocka; those
// that end the running test are in unit.h.
#ifndef DV_CASE_H
#define DV_CASE_H
#include "harness/gen.h"
#include "exec/exec.h"

// The targets `host` and `spyre`, which the two functions below load and
// destroy. They are the set-up and the tear-down of a cmocka group.
extern dv_target *case_host, *case_spyre;
int case_set_up(void **state);
int case_tear_down(void **state);

// Parses the text of a program; NULL if it is wrong.
dv_program *case_program(const char *text);
// Parses the text of a program and lowers it, one op per statement.
int case_lower(dv_program **p, dv_program **lowered, const char *text,
               size_t len, dv_diag *diag);
// Makes a plan and checks it; NULL if there is none or if it fails its check.
dv_plan *case_plan(const dv_program *p, const dv_target *t,
                   const dv_plan_options *o);
// Schedules a plan again whose divisions or groups a test has changed. Returns
// 0 if it is wrong.
int case_schedule(dv_plan *plan);
// Chooses the loops of the tiles of products again, after a test has changed
// tiles or sums; keeps the rest of the schedule.
dv_status case_choose_loops(dv_plan *plan);
// T1: the plan's text is read back to an equal plan with the same text, and the
// plan that was read passes its check.
int case_reads_back(const dv_plan *plan);
// Prints the note of case_no() and the plan, without its target, to stderr.
void case_show(const dv_plan *plan);
// Does some op combine partial results (G5)? Their sums round differently.
int case_in_parts(const dv_plan *plan);

// Returns one buffer per tensor of p that is an input or an output, inputs
// filled from a fixed seed; NULL for all other tensors.
void **case_buffers(const dv_program *p);
void case_free(void **data, const dv_program *p);
// Are the outputs of p, whose data is `a`, equal in every bit to those of q,
// whose data is `b`? Outputs are matched by name.
int case_same_bits(const dv_program *p, void *const *a, const dv_program *q,
                   void *const *b);
// The same, except that any nan equals any other nan.
int case_same_values(const dv_program *p, void *const *a, const dv_program *q,
                     void *const *b);
// Are the outputs within the oracle's bounds? `p` is the program as written.
int case_right(const dv_program *p, const dv_plan *plan, void *const *before,
               void *const *after);
#endif
