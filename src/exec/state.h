// The data structures of an exec and its runs, private to exec.c, run.c,
// session.c, start.c, sequential.c, threads.c, prepare.c, skip.c, local.c,
// nest.c, once.c and record.c.
#ifndef DV_EXEC_STATE_H
#define DV_EXEC_STATE_H
#include "divvy/run.h"
#include "grid/queue.h"
#include "plan/tiles.h"
#include "exec/constants.h"
#include "exec/pin.h"
#include "exec/op/product.h"
#include "exec/op/rows.h"
#include "exec/op/stage.h"
#include "lang/ast.h"
#include "sim/sim.h"
#include <pthread.h>
#include <stdatomic.h>

// A temporary that is kept for one tile at a time, as the plan's schedule says:
// every thread has a buffer for one tile of it, with its own strides.
typedef struct dv_tile_buffer {
    int32_t tensor, op; // the tensor's number, and the op that writes it
    // Byte offsets in the thread's memory for tiles at which it begins and
    // ends.
    int64_t off_bytes, end_bytes;
    int64_t *strides; // strides of the buffer, in elements
} dv_tile_buffer;

// What the thread executor knows of a group (ops that share one tile space)
// before a run.
typedef struct dv_group_exec {
    dv_tile_buffer *locals;
    int32_t n_locals;
    int snapshots; // 1 if an op of the group reads the tensor it overwrites
    int skips;     // 1 if an op of the group need not compute all points
    int parts; // 1 if a reduction is split over tiles, which takes two phases
    // Runs the group's ops together, row by row; NULL: the ops run one by one.
    dv_rows *rows;
    // The number of kernels in the cache before those for the group's rows were
    // generated; listings find from it which kernels are the group's.
    int64_t kernels;
    // The grid that assigns the group's tiles to cores; NULL: the group's deals
    // (ranges of tiles per core) assign them.
    const dv_group_grid *grid;
    dv_order order; // order in which the grid enumerates its tiles
    // Dynamic scheduling: number of tiles in the queue (0: static assignment),
    // tiles taken at a time, and whether threads steal from each other.
    int64_t n_queued, chunk;
    int steal;
} dv_group_exec;

// The prepared kernels of an op: of a matrix product, or else vector kernels.
// If both pointers are NULL, the interpreter (strip/) runs the op, or the
// kernels of its group's rows do.
typedef struct dv_op_kernels {
    dv_product *product;
    // Vector kernels. If the op runs as a product whose tiles are partial sums,
    // they add these up and compute the result.
    dv_vec_op *vec;
    // Copies of the operands with a border, which the kernels read; NULL: none.
    const dv_stage *stage;
    // Condition on the values that a tile reads; a tile that violates it runs
    // in the interpreter (vec_range.h).
    dv_guard guard;
    // The points that a mask lets the op skip (skip.c), and the read that must
    // be finite for that (-1: none).
    dv_skip skip;
    int32_t finite;
    // The number of kernels in the cache before this op's were generated;
    // listings find from it which kernels are the op's.
    int64_t kernels;
} dv_op_kernels;

// Whether ops write a tensor. One that is inlined is never stored.
typedef enum dv_written { DV_NOT_WRITTEN, DV_WRITTEN, DV_INLINED } dv_written;

typedef struct dv_thread {
    dv_run *run;
    int32_t id;
    dv_strips strips;
    void **data;  // address of each tensor; temporaries point into `local`
    void *buf;    // interpreter's buffer for operands; owned
    void *memory; // holds `local`, `workspace`, `held` and `stage`; owned
    unsigned char *local; // buffers for one tile of each temporary
    // Memory for tiles of matrix products: copied and packed operands, sums.
    void *workspace;
    void *held; // memory for packed factors of products, kept for several tiles
    void *stage; // memory for copies of operands with a border
    void **from; // address of element 0 of each tensor that is copied there
    void **at;   // address of element 0 of each access of the current op
    // The address of the elements that were last tested for being finite, and
    // the result of the test; NULL: none since the current group began.
    const void *tested;
    int32_t tested_for; // the op that reads them
    int finite;
    dv_diag *diag; // error messages of this thread; owned
} dv_thread;

// What is bound to a tensor: the address of element 0, and the strides.
typedef struct dv_bound {
    void *data; // NULL: nothing is bound
    int64_t strides[DV_MAX_DIMS];
} dv_bound;

// The memory of one execution of an exec: operands, temporaries and threads.
struct dv_run {
    dv_exec *x;
    dv_arena arena; // holds the small arrays
    void **data;    // address of each tensor, as kernels see it
    // By tensor, memory that this run allocated and frees: copies of operands
    // and, if the plan has no schedule, temporaries.
    void **owned;
    dv_bound *bound; // the memory that the user bound to each tensor
    // Memory of the temporaries that the plan stores; owned.
    unsigned char *stored;
    int rebound; // 1 if a buffer was bound since the last execution
    // Snapshots of tensors that an op both reads and overwrites; owned.
    void *snapshot;
    dv_sim *sim; // simulator; owned; NULL: the plan runs on this machine
    dv_thread *threads;
    int32_t n_threads; // of those that have been made
    // Accumulators of partial sums, one block per tile; owned.
    unsigned char *parts;
    dv_pins *pins;  // cores to bind threads to; owned; NULL: not bound
    dv_queue queue; // work queue of the current group; owned
    // The number of the phase in which a thread failed or the run was stopped;
    // INT64_MAX if there is none.
    atomic_llong failed_in;
    atomic_int arrived;
    atomic_uint round; // number of barriers passed, which wraps around
    // The caller's thread pool; NULL: OpenMP's threads run the work.
    dv_parallel_for parallel_for;
    void *pool;
    dv_progress progress;
    void *user;
    // Callback that returns whether the run is to end (dv_exec_watch), or NULL.
    // `cancelled` is 1 if it ended the current execution. Only the thread that
    // runs, `caller`, uses these.
    int (*watch)(void *user, double done);
    void *watch_user;
    int cancelled;
    pthread_t caller;
    double done;
    double tile_work; // of the tile that runs, sequentially
    // Seconds per group, borrowed from dv_exec_time_groups; NULL: not timed.
    double *spent;
    // Callback that records a copy to a snapshot instead of making it
    // (record.c); NULL: the copy is made.
    void (*copied)(void *pool, void *to, const void *from, int64_t bytes);
    dv_exec_hooks hooks;
    dv_status hook_status; // what the last call of a hook returned
    // 1 if only the groups run that are computed once, before the first run; 0:
    // all other groups, or all if the executor computes nothing once.
    int once;
    // Where the next execution begins (dv_exec_resume_at); -1: at its first op.
    int32_t from_repeat;
    int64_t from_round;
    struct dv_background *background; // owned; NULL: never started (start.c)
};

struct dv_exec {
    dv_arena arena; // holds the exec itself and all small arrays
    const dv_plan *plan;
    dv_executor kind;
    dv_kernel *kernels;      // interpreter data, one per op
    dv_op_kernels *prepared; // prepared kernels, one per op
    dv_product_set set;      // prepared contractions; owned
    // 1 if kernels are chosen here, because the plan has no schedule; 0: the
    // plan's schedule is obeyed.
    int choosing;
    // 1 if the pass `schedule` uses this exec to find out which kernels there
    // are, or with which loops, without running it; `wanted` has what the user
    // prescribes for each op, or is NULL.
    int probing;
    const dv_schedule_pins *wanted;
    // Records the calls of kernels, which then do not run (record.c); NULL: the
    // kernels run.
    dv_jit_called *called;
    // Cache of kernels; NULL: no kernels for this machine.
    dv_jit *jit;
    // Cache of kernels for the instruction set that the target names; NULL:
    // `jit` is the cache that all execs share. Owned.
    dv_jit *own_jit;
    // Strides of tensors that are not row-major: temporaries of which threads
    // keep only the current tile, and operands. NULL for all other tensors.
    int64_t **strides;
    // Strides of operands that kernels are to use, by tensor; NULL: row-major.
    int64_t **layouts;
    int *written;      // a dv_written, by tensor
    int32_t op_failed; // the op whose preparation has failed; -1: none
    int packed;        // 1 if the constants that the plan packs once are packed
    // By tensor: the elements of those that are computed once; NULL before they
    // are computed and after they were freed. NULL as a whole if this executor
    // computes nothing once (once.c).
    void **once;
    // By tensor: the memory of results that are only packed; NULL for all other
    // tensors. Owned.
    void **once_owned;
    // The memory of all other results, which execs share, with the offset of
    // each in bytes, by tensor (-1: not there). Its address stands for
    // everything that the results depend on: execs with the same constants and
    // the same ops that are computed once have the same memory. NULL: nothing
    // is computed yet.
    dv_packed *results;
    int64_t *result_at, results_bytes;
    dv_group_exec *group; // run-time data, one entry per group
    // Bytes of each thread's memory for tiles, for packed operands, for those
    // that it holds for several tiles, and for copies of operands with a
    // border.
    int64_t local_bytes, workspace_bytes, held_bytes, stage_bytes;
    // The open files of constants; NULL for all other tensors. Owned.
    dv_constant **files;
    int32_t n_slots, n_threads, most_reads;
    int64_t part_bytes; // bytes of one tile's accumulators
    // Sizes of memory: all accumulators, all snapshots, and copies of inputs
    // that are updated but are no outputs.
    int64_t all_parts_bytes, snapshot_bytes, copied_bytes;
    double total; // work of an execution
    dv_run run;   // the run that dv_exec_run uses
    // The number of other runs, and the lock that protects it and the packing
    // of constants.
    int64_t n_runs;
    pthread_mutex_t lock;
};

// Prepares the temporaries of which threads keep only the current tile: those
// that the plan lists or, if the plan has no schedule, those for which it pays.
// Fills the fields of the exec that describe their buffers.
dv_status dv_exec_find_locals(dv_exec *x, dv_diag *diag);
// Lets tile buffers of a group overlap if they are not in use at the same time.
// Called after it was decided that the group's ops run one by one.
void dv_exec_share_locals(dv_exec *x, int32_t group);
// Finds which points the ops of a group skip because of a mask, or takes them
// from the plan's schedule, and creates contractions for the shorter tiles
// (skip.c).
dv_status dv_exec_find_skips(dv_exec *x, int32_t group, dv_diag *diag);
// Returns whether the ops of a group may skip points in the current tile: the
// values that must be finite for that are.
int dv_exec_may_skip(dv_thread *w, int32_t group, int64_t tile);
// Removes from a tile the points that the op skips.
void dv_skip_cut(const dv_skip *s, dv_tile *t);
// Creates an exec that is only inspected, never run (exec.c). The pass
// `schedule` asks it which kernels there are for a plan without a schedule or,
// if a schedule was written by hand without lines `tile`, for the loops of
// these tiles. `wanted` has what the user prescribes for each op, or is NULL.
dv_status dv_exec_probe(dv_exec **out, const dv_plan *plan,
                        const dv_schedule_pins *wanted, dv_diag *diag);
// Creates an exec of a checked plan on threads whose kernels record their calls
// by `called` instead of running, for record.c.
dv_status dv_exec_create_recorded(dv_exec **out, const dv_plan *plan,
                                  dv_jit_called *called, dv_diag *diag);
// Describes how op number `op` of an exec on threads is computed, as the plan's
// section `schedule` does.
void dv_exec_describe(const dv_exec *x, int32_t op, dv_op_schedule *out);
// Returns the instruction set of the kernels, "none" without any.
const char *dv_exec_kernels(const dv_exec *x);
// A walk over the groups of a plan in the order of a run, every iteration of a
// repeat included (sequential.c).
typedef struct dv_walk {
    const dv_plan *plan;
    int32_t next;        // the next group
    int32_t next_repeat; // the first repeat that may begin there
    // The repeats around the next group, with the number of the current
    // iteration and the first group of each.
    struct {
        int32_t repeat, group;
        int64_t round;
    } around[DV_MAX_NESTING];
    int32_t depth;
    int64_t from_round; // iterations of the first repeat that are skipped
    // 1: the walk visits only groups that are computed once; -1: only groups
    // that are not; 0: all groups.
    int once;
    // What the last step of dv_walk_next is about; see dv_walk_step.
    int32_t group, repeat;
    int64_t round;
} dv_walk;
// Begins a walk: at the first group or, if `repeat` is not -1, in this
// outermost repeat, after `round` iterations of it.
void dv_walk_begin(dv_walk *w, const dv_plan *plan, int32_t repeat,
                   int64_t round);
// What dv_walk_next has found: a group (w->group), or the end of an iteration
// of an outermost repeat (w->repeat, and w->round, which counts from 1).
typedef enum dv_walk_step {
    DV_WALK_END,
    DV_WALK_GROUP,
    DV_WALK_ROUND
} dv_walk_step;
dv_walk_step dv_walk_next(dv_walk *w);
// Returns 1 if the reduction of any op in the group (ops that share one tile
// space) is split over tiles.
int dv_group_splits_reduction(const dv_plan *plan, int32_t group);
// Prepares the kernels of an exec, and frees them (prepare.c).
dv_status dv_exec_prepare(dv_exec *x, dv_diag *diag);
// Finds out whether the executor, whose kernels are prepared, computes anything
// once (once.c). dv_exec_compute_once computes it, with the threads that run
// `by`; dv_exec_free_packed frees what is needed no more after constants were
// packed. dv_exec_drop_once releases all results, which the next run computes
// again; dv_exec_free_once also forgets that there are any. Results that other
// execs use remain for these. dv_exec_once_bytes returns the bytes that runs
// read.
dv_status dv_exec_find_once(dv_exec *x, dv_diag *diag);
dv_status dv_exec_compute_once(dv_exec *x, const dv_run *by, dv_diag *diag);
void dv_exec_free_packed(dv_exec *x);
void dv_exec_drop_once(dv_exec *x);
void dv_exec_free_once(dv_exec *x);
int64_t dv_exec_once_bytes(const dv_exec *x);
void dv_exec_unprepare(dv_exec *x);
// dv_exec_pack computes what is computed once, with the threads that run `r`,
// and packs the bound constants that the plan packs once, unless they are
// packed already; dv_exec_unpack releases the packed elements of a tensor (-1:
// of all).
dv_status dv_exec_pack(dv_exec *x, const dv_run *r, dv_diag *diag);
void dv_exec_unpack(dv_exec *x, int32_t tensor);
// Returns the bytes of the interpreter's operands, per thread.
int64_t dv_exec_strips_bytes(const dv_exec *x);
// Operands are inputs, constants and outputs, numbered in the order of tensors.
static inline int dv_is_operand(const dv_tensor *t)
{
    return t->is_input || t->is_output;
}
// Returns the tensor that is operand number i; -1 past the last.
int32_t dv_operand_tensor(const dv_program *p, int i);
// Returns the number of the tensor that can be bound by this name.
dv_status dv_exec_find_operand(int32_t *tensor, const dv_exec *x,
                               const char *name, dv_diag *diag);
// Returns whether the elements of a tensor with these strides are sure to have
// different addresses.
int dv_run_strides_apart(const dv_tensor *t, const int64_t *strides);
// Fails if these strides reach beyond 64 bits, or if two elements of an output
// could share an address.
dv_status dv_run_check_strides(const dv_program *p, int32_t tensor,
                               const int64_t *strides, dv_diag *diag);
// Binds element 0 of a tensor; strides NULL: it is row-major.
dv_status dv_run_set(dv_run *r, int32_t tensor, void *data,
                     const int64_t *strides, dv_diag *diag);
// Initialises a run in which nothing is bound and no memory is allocated;
// dv_run_finish frees it together with its memory (run.c).
dv_status dv_run_init(dv_run *r, dv_exec *x, dv_diag *diag);
void dv_run_finish(dv_run *r);
// Allocates the memory of a run, whose other fields are set or zero;
// dv_run_release frees it (run.c). The tensors that are bound stay bound.
dv_status dv_run_allocate(dv_run *r, dv_diag *diag);
void dv_run_release(dv_run *r);
// Fails if this machine cannot run the kernels.
dv_status dv_run_check_kernels(const dv_run *r, dv_diag *diag);
// Executes the plan once, on the calling thread and the other threads of the
// run.
dv_status dv_run_execute(dv_run *r, dv_diag *diag);
// Ends and frees the thread that dv_run_start has made (start.c).
void dv_run_end(dv_run *r);
// Calls the caller's `watch`, if there is one, and returns whether the run is
// to end. Does nothing on threads other than the one that runs.
int dv_run_is_cancelled(dv_run *r);
// Runs all groups: on the threads (threads.c), or in order on the calling
// thread (sequential.c).
dv_status dv_threads_run(dv_run *r, dv_diag *diag);
dv_status dv_sequential_run(dv_run *r, dv_diag *diag);
#endif
