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
//
//   exec.[ch]       creates an exec, binds buffers, runs plans sequentially
//   prepare.c       prepares a run on threads: schedules, kernels, memory
//   threads.c       runs the groups of a plan on threads
//   local.c         finds temporaries that live within one tile
//   state.h         private to these four: an exec and its threads
//   pin.[ch]        binds threads to cores
//   product.[ch]    runs sums of products, each tile as a contraction
//   epilogue.[ch]   runs what an op computes from its finished sums
//   widen.[ch]      copies operands of products into the type of the kernel
//   vec_op.[ch]     runs an op as calls of vector kernels
//   vec_range.[ch]  decides whether integers can be computed in 32 bits
//   rows.[ch]       runs the ops of a group together, row by row
//   fill.c          makes up input data from a seed
//   verify.c        compares results with the oracle
//   rate.c          measures the peak rates of the machine
#ifndef DV_EXEC_H
#define DV_EXEC_H
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

// -- Data (fill.c, verify.c) ------------------------------------------------

// Fill a tensor with values that depend on the seed, the tensor's name and the
// element's number alone: the same on every machine, for any division. Floats
// are spread evenly over low..high; integers over -8..8, or, in a tensor that
// the program uses as an index, over what that index may be.
void dv_fill(const dv_program *p, int32_t tensor, uint64_t seed, double low,
             double high, void *data);
// The same for a box, in memory that has the elements of `in` in rows.
void dv_fill_box(const dv_program *p, int32_t tensor, uint64_t seed, double low,
                 double high, const dv_box *box, const dv_box *in, void *data);

typedef struct dv_verdict {
    int ok;
    // The element of the outputs that comes nearest to failing, by how much it
    // is off, and by how much it may be; NULL: there is none.
    const char *tensor;
    int64_t element;
    double residual, threshold;
    // Undecided elements: they have no bound (what they are divided by may be
    // zero, or they may overflow), or one that is more than an eighth of the
    // largest value of their tensor; and they are off by more than 64 units in
    // the last place of that value.
    int64_t n_unknown;
    int decided;      // at most half of each output is undecided
    int own_ops_only; // the plan has no section `source`
    // The machine stores intermediate results, and they may have been rounded
    // to this type; NULL: they are not.
    const char *rounded_to;
    // The largest error of that tensor, or of the one whose error is largest
    // for its size, and its largest magnitude.
    const char *of;
    double off, size;
} dv_verdict;

// Hold outputs against the oracle. `before` has the inputs as they were before
// the run, `after` the outputs, by tensor of `plan->ops`. There are two
// references: the program as written, which is `source` or, where that is NULL,
// what the plan carries; and, where lowering changed anything, the plan's own
// ops. Both round floats to the types of the program's tensors, and nowhere
// else; integers are exact.
//
// Every element has a bound of its own, from a running error analysis beside
// the oracle (ir/error.h): copies, gathers, maxima and integers must be equal,
// a sum may be off by four times the root of its length in eps of what it adds
// up, signs aside. Where the target stores intermediate results, the bound for
// the program as written allows for rounding each of them.
// It evaluates every point of the program one at a time, some 20 million a
// second; dv_verify_points says how many there are.
double dv_verify_points(const dv_program *source, const dv_plan *plan);
dv_status dv_verify(dv_verdict *out, const dv_program *source,
                    const dv_plan *plan, void *const *before,
                    void *const *after, dv_progress progress, void *user,
                    dv_diag *diag);

// -- The rates of the machine (rate.c) --------------------------------------

// What the machine can do, measured: multiply-adds in registers and copies in
// memory. Everything that is timed is held against these.

// GFLOP/s of so many threads at once in products of a type, in their own time;
// 0 when there are no kernels for it. The best of several short tries.
double dv_rate_peak(dv_dtype dtype, int32_t threads);
// GB/s, read and written, of copying between arrays of so many bytes each; 0
// when out of memory. Small ones stay in caches.
double dv_rate_copy(int64_t bytes, int32_t threads);
#endif
