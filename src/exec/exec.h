// Running plans. The sequential executor walks the plan as it stands: group by
// group, core by core, tile by tile, op by op; a group with sums in parts runs
// op by op, all tiles of each. It computes in the machine's own types (f32 for
// f16, bf16 and f32; f64; i64 for all integers), a strip of elements at a time,
// and shares no code with the oracle. Threads do the same side by side
// (threads.c).
//
// Memory: an exec borrows its plan and the bound buffers, and owns the
// temporaries, a copy of every input that is updated but not given back, and
// a snapshot for every update that reads what it overwrites. A run allocates
// nothing.
#ifndef DV_RUN_H
#define DV_RUN_H
#include "sim/sim.h"

// Called now and then during a run with the share done, 0 to 1.
typedef void (*dv_progress)(void *user, double done);
void dv_exec_on_progress(dv_exec *x, dv_progress progress, void *user);
// Runs behind this on threads add to seconds[g] what group g takes; NULL: no
// more. The groups are the plan's.
void dv_exec_time_groups(dv_exec *x, double *seconds);
// Who runs it. By default what the target is: threads where it is this
// machine, else the simulator; seq is plain and slow, to hold others against.
typedef enum dv_run_kind { DV_RUN_SEQ, DV_RUN_THREADS, DV_RUN_SIM } dv_run_kind;
// Choose before the first run.
dv_status dv_exec_use(dv_exec *x, dv_run_kind kind, dv_diag *diag);
dv_run_kind dv_exec_kind(const dv_exec *x);
int32_t dv_exec_threads(const dv_exec *x); // that a run takes
// The type that an op's multiply-adds are of: bf16 or i8 where the machine
// multiplies them as they are, else what they are widened to; i32 for all
// other integers.
dv_dtype dv_exec_type(const dv_exec *x, int32_t op);
// How each op is run, and the kernels that were made so far.
void dv_exec_list(const dv_exec *x, dv_text *out);
// How each op is run, without the code.
void dv_exec_ways(const dv_exec *x, dv_text *out);
const char *dv_exec_name(const dv_exec *x); // "seq", "threads" or "sim"

// Of the last run; NULL when it was not simulated.
const dv_moved *dv_exec_moved(const dv_exec *x);
// The same for one op on one core.
const dv_moved *dv_exec_moved_by(const dv_exec *x, int32_t op, int64_t core);
#endif
