// Programs, plans and jobs for unit tests: where something is not as it should
// be, the running test fails.
#ifndef DV_TESTS_UNIT_H
#define DV_TESTS_UNIT_H
#include "harness/job.h"

// Fails the running test with the note of case_no() if `ok` is 0.
void must(int ok);

// -- Programs and plans ------------------------------------------------------

dv_program *program_of(const char *text);
// `target` is the name of a built-in target or a description.
dv_target *target_of(const char *target);
// A checked plan; `pins` end with NULL.
dv_plan *plan_on(const char *text, const char *target, const char *const *pins,
                 const dv_plan_options *how);
// Only the division, without scratchpads: it must be valid by itself.
dv_plan *division_of(const char *text, const char *target, int64_t cores,
                     dv_divide how, const char *const *pins);

int32_t op_named(const dv_plan *plan, const char *name);
int32_t tensor_named(const dv_plan *plan, const char *name);

// Returns 1 if the plan is refused both in memory and when its text is read.
int refused(dv_plan *plan);
// The checker refuses the plan with a message that contains these words, and
// refuses it too when there is no diag to write to.
void check_finds(const dv_plan *plan, const char *words);

// -- Jobs --------------------------------------------------------------------

void start_on(job *j, const char *target, const char *text,
              const dv_plan_options *o, dv_executor kind);
// The same on this machine, with a plan for this number of threads.
void start(job *j, const char *text, int64_t threads, dv_executor kind);
// start() and a run on threads.
void start_and_run(job *j, const char *text, int64_t threads);

// Runs the job and compares its results with the oracle's; `exact`: they must
// be equal.
void is_right(job *j, int exact);
// The last op is run in this way, in the words of dv_exec_schedules(). Not
// checked on machines without kernels.
void goes(const job *j, const char *how);
// The outputs of two jobs are equal in every bit.
void same(const job *a, const job *b);

// -- Whole tests of a program ------------------------------------------------

// Lowering leaves its single op as it is, and its results are right.
void stays_one_op(const char *text);
// With 1 to 8 threads the outputs are equal in every bit (N8).
void same_for_all(const char *text);
// The tensor y of two programs is equal in every bit.
void same_y(const char *one, const char *other, int threads);
// With 1 to `most` threads: goes() and is_right(); then same_for_all().
void runs_right(const char *text, int64_t most, int exact, const char *how);
#endif
