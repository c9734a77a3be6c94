// A job is a plan bound to data, ready to run.
#ifndef DV_TESTS_JOB_H
#define DV_TESTS_JOB_H
#include "harness/case.h"

typedef struct job {
    const dv_plan *plan;
    dv_exec *x;
    dv_diag *diag;
    // By tensor of plan->ops: the bound buffers, and what they held before the
    // last run.
    void **data, **before;
    dv_kept_round kept; // what dv_keep_round kept, if it was asked to
    // Only of jobs that start_on() in unit.h made:
    const char *text;
    dv_program *program; // as written
    dv_plan *own;        // the same as `plan`, for tests that change it
} job;

// The executor that a plan gets without dv_exec_use().
enum { RUN_AS_PLANNED = -1 };

// Creates an executor of this kind (a dv_executor or RUN_AS_PLANNED), makes
// buffers with case_buffers() and binds them. job_stop() must follow, whatever
// the result.
int job_start(job *j, const dv_plan *plan, int kind);
// Runs it. May be repeated: each run begins with the data of the one before.
int job_run(job *j);
// job_start() and job_run().
int job_done(job *j, const dv_plan *plan, int kind);
// Are the results of the last run within the oracle's bounds?
int job_right(const job *j, const dv_program *p);
// case_same_bits() and case_same_values() of the results of two jobs.
int job_same_bits(const job *a, const job *b);
int job_same_values(const job *a, const job *b);
void job_stop(job *j);
#endif
