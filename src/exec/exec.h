// Executors of plans. The sequential executor follows the plan in order: group
// by group, core by core, tile by tile, op by op; a group whose reductions are
// split over tiles runs op by op, all tiles of one op before the next op. It
// computes in f32 (for f16, bf16 and f32), f64 or i64 (for all integers), one
// strip of elements at a time, and shares no code with the oracle. The thread
// executor (threads.c) runs the same groups and tiles in parallel.
//
// Memory: an exec borrows its plan, and a run the bound buffers. A run owns the
// temporaries, copies of operands whose strides kernels cannot use, a copy of
// every input that is updated but is not an output, and a snapshot of the
// written tensor for every update that reads the tensor it overwrites. A run
// allocates nothing.
//
//   exec.[ch]       creates an exec, which prepares what its runs share
//   run.c           runs: their memory, and what is bound to operands
//   start.c         runs in the background
//   sequential.c    runs plans sequentially; the walk over the groups
//   session.c       sessions: plans and execs by the shapes of operands
//   schedule.c      the pass `schedule`, which writes what prepare.c finds out
//   prepare.c       prepares runs on threads: kernels
//   once.c          computes what depends on constants only, once
//   skip.c          finds what masks make superfluous, and leaves it out
//   threads.c       runs the groups of a plan on threads
//   local.c         finds temporaries that live within one tile
//   state.h         private to these files and nest.c: an exec and its threads
//   pin.[ch]        binds threads to cores
//   nest.[ch]       runs nests: the public calls dv_contract_*
//   constants.[ch]  opens the files of constants, which execs share
//   fill.c          generates input data from a seed
//   verify.c        compares results with the oracle, all or samples of them
//   rate.c          measures the peak rates of the machine
//   record.[ch]     records what a run calls, for objects
//
// What computes one op, or the ops of a group row by row, is in op/:
//
//   product.[ch]    runs sums of products, each tile as a contraction
//   tile_loops.[ch] the loops of a product's tile, to and from the plan
//   operand_copy.[ch]
//                   copies operands of products into the type of the kernel
//   epilogue.[ch]   runs the part of an op that follows its finished reduction
//   vec_op.[ch]     runs an op as calls of vector kernels
//   vec_range.[ch]  decides whether integers can be computed in 32 bits
//   stage.[ch]      copies operands with a border to buffers
//   edges.[ch]      cuts boxes where such operands leave their tensors instead
//   rows.[ch]       runs the ops of a group together, row by row
//
// Other folders may also include: constants.h, nest.h, record.h
#ifndef DV_EXEC_H
#define DV_EXEC_H
#include "sim/sim.h"

// Progress callback, called from time to time during a run; `done` is the
// completed share of the work, 0 to 1.
typedef void (*dv_progress)(void *user, double done);
void dv_exec_on_progress(dv_exec *x, dv_progress progress, void *user);

// Like dv_exec_bind, but for operand number `operand` (dv_exec_operand) and
// with strides, in elements.
dv_status dv_exec_bind_strided(dv_exec *x, int operand, void *data,
                               const int64_t *strides, dv_diag *diag);

// Callbacks for a rank of a team (one process of several), which communicates
// between groups of ops. One thread calls them while the others wait. A run
// ends when one of them fails.
typedef struct dv_exec_hooks {
    // Called after an opaque (`extern`) op has run.
    dv_status (*at_extern)(void *user, int32_t op);
    // Called after each iteration of an outermost repeat (a loop of the
    // program).
    dv_status (*after_round)(void *user, int32_t repeat, int64_t round);
    // Called by the first thread between its tiles; must return soon.
    void (*poll)(void *user);
    void *user;
} dv_exec_hooks;
void dv_exec_set_hooks(dv_exec *x, const dv_exec_hooks *hooks);
// Copy a bound tensor from the memory of a simulated machine to its buffer, and
// back, for use in hooks. On other machines the buffer is that memory.
void dv_exec_get(const dv_exec *x, int32_t tensor);
dv_status dv_exec_put(dv_exec *x, int32_t tensor, dv_diag *diag);
// Returns what the last hook of a run returned: not DV_OK if it ended the run.
dv_status dv_exec_hook_status(const dv_exec *x);
// Makes the next run resume in an outermost repeat (a loop of the program),
// with `round` iterations of it already done.
void dv_exec_resume_at(dv_exec *x, int32_t repeat, int64_t round);
// During a run: returns its status so far, and sets *trouble to its messages.
dv_status dv_exec_status(const dv_exec *x, dv_diag **trouble);

// Computes the memory that a run on threads allocates, as the plan's section
// `schedule` says it: shared by all threads, and for each of them; and what is
// packed of constants before the first run.
void dv_exec_memory(const dv_exec *x, int64_t *shared_bytes,
                    int64_t *thread_bytes, int64_t *constant_bytes);
// Returns the number of threads that a run uses.
int32_t dv_exec_threads(const dv_exec *x);
// Returns the type in which the op's multiply-adds are computed: bf16 or i8 if
// the machine multiplies these types directly, otherwise the type they are
// widened to; i32 for all other integers.
dv_dtype dv_exec_type(const dv_exec *x, int32_t op);
// Prints how each op is run (as a contraction, by a vector kernel or, printed
// as `strips`, by the interpreter), followed by the listing of all kernels
// generated so far.
void dv_exec_list(const dv_exec *x, dv_text *out);
// Prints how each op is run, without the listing of kernels.
void dv_exec_schedules(const dv_exec *x, dv_text *out);
// Returns "seq", "threads" or "sim".
const char *dv_exec_name(const dv_exec *x);

// Returns a tensor that an op writes, row-major, as the last run left it; NULL
// if it is not in memory: a temporary of which threads keep only the current
// tile, or one that may be inlined where it is read, or one of a simulated run.
void *dv_exec_stored(const dv_exec *x, int32_t tensor);

// Returns the data traffic of the last run; NULL if the run was not simulated.
const dv_sim_traffic *dv_exec_moved(const dv_exec *x);
// Returns the data traffic that one op caused on one simulated core.
const dv_sim_traffic *dv_exec_moved_by(const dv_exec *x, int32_t op,
                                       int64_t core);
// Computes the time of the last run from what the simulator counted, of one
// group (all its executions) or of all groups if group is -1. Returns 0 if the
// run was not simulated.
int dv_exec_price(const dv_exec *x, int32_t group, dv_price *out);

// The functions from here to dv_verify_samples are implemented in fill.c and
// verify.c.

// Fills a tensor with values that depend only on the seed, the tensor's name
// and the element's index, so that they are the same on every machine and for
// any division of the program. Floats are uniformly distributed over low..high.
// Integers are uniformly distributed over -8..8 or, in a tensor that the
// program uses as an index, over the valid range of that index.
void dv_fill(const dv_program *p, int32_t tensor, uint64_t seed, double low,
             double high, void *data);
// Fills only the elements of `box`; `data` holds the elements of the box `in`
// in row-major order. The values are those that dv_fill gives the same
// elements.
void dv_fill_box(const dv_program *p, int32_t tensor, uint64_t seed, double low,
                 double high, const dv_box *box, const dv_box *in, void *data);

// A copy of the tensors in memory before the last iteration of the program's
// last outermost repeat, made during a run.
typedef struct dv_kept_round {
    const dv_exec *x;
    const dv_program *p;
    void **data; // by tensor number, NULL if not in memory; NULL: none was made
    dv_arena *arena;
    dv_diag *diag;
} dv_kept_round;
// Makes the next run of an exec without hooks copy the tensors before the last
// iteration of its last outermost repeat, to the arena. Nothing is copied if no
// repeat has two iterations. `p` is the program of the exec's plan.
void dv_keep_round(dv_kept_round *k, dv_exec *x, const dv_program *p,
                   dv_arena *arena, dv_diag *diag);

typedef struct dv_verdict {
    int ok;
    // The output element with the largest ratio of error to tolerance: its
    // tensor (NULL if there is no such element), its index, its error and its
    // tolerance.
    const char *tensor;
    int64_t element;
    double residual, threshold;
    // Number of undecided elements. An element is undecided if its error bound
    // is missing (its divisor may be zero, or it may overflow) or exceeds an
    // eighth of the largest magnitude in its tensor, and if its error exceeds
    // 64 units in the last place of that magnitude.
    int64_t n_unknown;
    // 1 if at most half of each output is undecided, that is has an error bound
    // too wide to tell a wrong value from a right one.
    int decided;
    // 1 if the plan does not carry the program as written (its section
    // `source`), so that results are compared with the plan's lowered ops only.
    int own_ops_only;
    // The narrow type to which the target may have rounded stored intermediate
    // results; NULL if no such rounding happens.
    const char *rounded_to;
    // An output tensor, its largest error and its largest magnitude: the tensor
    // with the worst element or, if there is no such element, the one with the
    // largest relative error.
    const char *of;
    double off, size;
    // The following members are set by dv_verify_samples only; `sampled` is
    // then 1. n_tiles counts the tiles whose results are in memory, and
    // n_sampled_tiles those of which an element was recomputed.
    // n_from_operands elements were recomputed from their op's operands,
    // n_from_inputs elements of outputs from the program's inputs.
    int sampled;
    int64_t n_tiles, n_sampled_tiles, n_from_operands, n_from_inputs;
    // What was not sampled, by tensor and reason.
    const struct dv_missed *missed;
    int32_t n_missed;
    // An output of which no element was recomputed; NULL: there is none.
    const char *unreached;
    // How the worst element was sampled: the op and the number of its tile
    // (NULL and -1: it was recomputed from the inputs), its value, and the
    // reference value.
    const char *op;
    int64_t tile;
    double got, want;
} dv_verdict;

// Tiles of a tensor that were not sampled, and why. If n_tiles is 0, the tensor
// is an output of which no element was recomputed from the program's inputs.
typedef struct dv_missed {
    const char *tensor;
    int64_t n_tiles;
    const char *why;
} dv_missed;

// Compares the outputs of a run with the oracle, the reference evaluation of a
// program. `before` holds the inputs as they were before the run and `after`
// the outputs, both indexed by tensor number of `plan->ops`. There are two
// references: the program as written (`source` or, if that is NULL, the text
// that the plan carries) and, if lowering changed the program, the plan's own
// ops. Both references round floats to the types of the program's tensors and
// nowhere else; their integers are exact.
//
// Every element has its own error bound, from a running error analysis next to
// the oracle (ir/error.h): copies, gathers, maxima and integers must be equal;
// a sum of n terms may differ by 4 * sqrt(n) * eps times the sum of the terms'
// magnitudes. If the target stores intermediate results, the bound for the
// program as written also allows for rounding each of them.
//
// The oracle (the reference evaluation) computes one point at a time;
// dv_verify_seconds estimates the time that it takes.
double dv_verify_seconds(const dv_program *source, const dv_plan *plan);
dv_status dv_verify(dv_verdict *out, const dv_program *source,
                    const dv_plan *plan, void *const *before,
                    void *const *after, dv_progress progress, void *user,
                    dv_diag *diag);

// Compares samples of a run with the oracle (the reference evaluation), in
// about `budget_s` seconds. First one element of every tile of every tensor in
// memory is recomputed from the operands of its op as the run left them, in at
// most half of the budget; in a quarter of it, more elements of these tiles
// follow. Then elements of the outputs are recomputed from the inputs, by the
// program as written, until the budget is spent or all elements are. Which
// elements are compared depends on the seed, how many depends on the time; the
// bounds are those of dv_verify.
//
// `after` has the outputs and any other tensor that the run wrote and left in
// memory (dv_exec_stored). An operand that is not in memory is recomputed from
// its own operands; a tile is missed if an operand was overwritten.
//
// The last iteration of a repeat overwrites what it has read. If `kept` has a
// copy of the tensors from before that iteration, its tiles are recomputed from
// the copy.
//
// The verdict's list of missed tiles is allocated in the arena.
typedef struct dv_sample_options {
    double budget_s;
    void *const *kept; // what dv_keep_round kept; NULL: nothing
    uint64_t seed;
    dv_progress progress; // NULL: no reports
    void *user;
} dv_sample_options;
dv_status dv_verify_samples(dv_verdict *out, const dv_program *source,
                            const dv_plan *plan, void *const *before,
                            void *const *after,
                            const dv_sample_options *options, dv_arena *arena,
                            dv_diag *diag);

// The two functions below (rate.c) measure the machine's peak rates:
// multiply-adds in registers and copies in memory. Benchmarks report their
// timings relative to these rates.

// Returns the peak GFLOP/s of products of a type with `threads` threads at
// once, measured in the threads' CPU time; 0 if there are no kernels for the
// type. The result is the best of several short tries.
double dv_rate_peak(dv_dtype dtype, int32_t threads);
// Returns the GB/s, reads plus writes, of copying between two arrays of `bytes`
// bytes each; 0 when out of memory. Small arrays stay in the caches.
double dv_rate_copy(int64_t bytes, int32_t threads);
#endif
