// The data structures of an exec and its threads, private to exec.c, threads.c,
// prepare.c, local.c and nest.c.
#ifndef DV_EXEC_STATE_H
#define DV_EXEC_STATE_H
#include "grid/queue.h"
#include "plan/tiles.h"
#include "exec/constants.h"
#include "exec/pin.h"
#include "exec/product.h"
#include "exec/rows.h"
#include "exec/stage.h"
#include "lang/ast.h"
#include "sim/sim.h"
#include <stdatomic.h>

// A temporary that is kept for one tile at a time, as the plan's schedule says:
// every thread has a buffer for one tile of it, with its own strides.
typedef struct dv_tile_buffer {
    int32_t tensor, op; // the tensor's number, and the op that writes it
    // Where it begins and ends in the thread's memory for tiles.
    int64_t off_bytes, end_bytes;
    int64_t *strides; // strides of the buffer, in elements
} dv_tile_buffer;

// What the thread executor knows of a group (ops that share one tile space)
// before a run.
typedef struct dv_group_plan {
    dv_tile_buffer *locals;
    int32_t n_locals;
    int snapshots; // 1 if an op of the group reads the tensor it overwrites
    int parts; // 1 if a reduction is split over tiles, which takes two phases
    // Runs the group's ops together, row by row; NULL: the ops run one by one.
    dv_rows *rows;
    // The number of kernels in the cache before those that run the group row by
    // row were generated, by which listings assign kernels to groups.
    int64_t kernels;
    // The grid that assigns the group's tiles to cores; NULL: the group's deals
    // (ranges of tiles per core) assign them.
    const dv_group_grid *grid;
    dv_order order; // order in which the grid enumerates its tiles
    // Dynamic scheduling: number of tiles in the queue (0: static assignment),
    // tiles taken at a time, and whether threads steal from each other.
    int64_t n_queued, chunk;
    int steal;
} dv_group_plan;

// The prepared kernels of an op: of a matrix product, else vector kernels. If
// both pointers are NULL, the interpreter (strip/) runs the op, or the group's
// rows do.
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
    // The number of kernels in the cache before this op's were generated, by
    // which listings assign kernels to ops.
    int64_t kernels;
} dv_op_kernels;

typedef struct dv_thread {
    dv_exec *x;
    int32_t id;
    dv_strips strips;
    void **data; // address of each tensor; temporaries point into `local`
    unsigned char *local; // buffers for one tile of each temporary; owned
    void *buf;            // interpreter's buffer for operands; owned
    // Memory for tiles of matrix products: copied and packed operands, sums;
    // owned.
    void *workspace;
    void *stage;   // memory for copies of operands with a border; owned
    void **from;   // address of element 0 of each tensor that is copied there
    void **at;     // address of element 0 of each access of the current op
    dv_diag *diag; // error messages of this thread; owned
} dv_thread;

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
    // Cache of kernels; NULL: no kernels for this machine.
    dv_jit *jit;
    // Cache of kernels for the instruction set that the target names; NULL:
    // `jit` is the cache that all execs share. Owned.
    dv_jit *own_jit;
    // Strides of the temporaries of which threads keep only the current tile;
    // NULL for all other tensors, which are row-major.
    int64_t **strides;
    int packed; // 1 if the constants that the plan packs once are packed
    dv_group_plan *group; // run-time data, one entry per group
    // Bytes of each thread's memory for tiles, for packed operands, and for
    // copies of operands with a border.
    int64_t local_bytes, workspace_bytes, stage_bytes;
    void **data; // address of each tensor
    // The tensors that this exec allocated, which it frees.
    void **owned;
    // Memory of the temporaries that the plan stores; owned.
    unsigned char *stored;
    void **bound; // the buffers that the user bound, and the files' elements
    // The open files of constants; NULL for all other tensors. Owned.
    dv_constant **files;
    int rebound; // 1 if a buffer was bound since the last run
    // Snapshots of tensors that an op both reads and overwrites; owned.
    void *snapshot;
    dv_sim *sim; // simulator; owned; NULL: the plan runs on this machine
    int32_t n_owned, n_slots;
    // The threads of a run.
    dv_thread *threads;
    int32_t n_threads;
    // Accumulators of partial sums, one block per tile; owned.
    unsigned char *parts;
    int64_t part_bytes; // bytes of one tile's accumulators
    // Sizes of memory: all accumulators, all snapshots, and copies of inputs
    // that are updated but are no outputs.
    int64_t all_parts_bytes, snapshot_bytes, copied_bytes;
    dv_pins *pins;  // cores to bind threads to; owned; NULL: not bound
    dv_queue queue; // work queue of the current group; owned
    atomic_int failed, arrived;
    atomic_uint round; // number of barriers passed, which wraps around
    dv_progress progress;
    void *user;
    // Asked whether to go on (dv_exec_watch); NULL: nobody is. `cancelled` is 1
    // if the current run was stopped; only the first thread uses it.
    int (*watch)(void *user, double done);
    void *watch_user;
    int cancelled;
    double done, total;
    double tile_work; // of the tile that runs, sequentially
    // Seconds per group, borrowed from dv_exec_time_groups; NULL: not timed.
    double *spent;
    dv_exec_hooks hooks;
    dv_status hook_status; // what the last call of a hook returned
    // Where the next run begins (dv_exec_resume_at); -1: at its first op.
    int32_t from_repeat;
    int64_t from_round;
};

// Prepares the temporaries of which threads keep only the current tile: those
// that the plan lists or, if the plan has no schedule, those for which it pays.
// Fills the fields of the exec that describe their buffers.
dv_status dv_exec_find_locals(dv_exec *x, dv_diag *diag);
// Creates an exec that is only inspected, never run (exec.c). The pass
// `schedule` asks it which kernels there are for a plan without a schedule or,
// if a schedule was written by hand without lines `tile`, for the loops of
// these tiles. `wanted` has what the user prescribes for each op, or is NULL.
dv_status dv_exec_probe(dv_exec **out, const dv_plan *plan,
                        const dv_schedule_pins *wanted, dv_diag *diag);
// Describes how op number `op` of an exec on threads is computed, as the plan's
// section `schedule` does.
void dv_exec_describe(const dv_exec *x, int32_t op, dv_op_schedule *out);
// Returns the instruction set of the kernels, "none" without any.
const char *dv_exec_kernels(const dv_exec *x);
// A walk over the groups of a plan in the order of a run, every iteration of a
// repeat included (exec.c).
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
    // What dv_walk_next has found.
    int32_t group, repeat;
    int64_t round;
} dv_walk;
// Begins a walk: at the first group or, if `repeat` is not -1, in this
// outermost repeat, after `round` iterations of it.
void dv_walk_begin(dv_walk *w, const dv_plan *plan, int32_t repeat,
                   int64_t round);
// What comes next: a group (w->group), or the end of an iteration of an
// outermost repeat (w->repeat, and w->round, which counts from 1).
typedef enum dv_walk_step {
    DV_WALK_END,
    DV_WALK_GROUP,
    DV_WALK_ROUND
} dv_walk_step;
dv_walk_step dv_walk_next(dv_walk *w);
// Returns 1 if the reduction of any op in the group (ops that share one tile
// space) is split over tiles.
int dv_group_splits_reduction(const dv_plan *plan, int32_t group);
// Creates and destroys the threads' state (prepare.c) and runs all groups on
// the threads (threads.c).
// dv_exec_pack packs the bound constants that the plan packs once and that are
// not packed yet; dv_exec_unpack forgets what was packed of a tensor (-1: of
// all).
dv_status dv_exec_pack(dv_exec *x, dv_diag *diag);
// Asks the caller's `watch`, if there is one, and returns whether the run is to
// end. To be called by the first thread.
int dv_exec_is_cancelled(dv_exec *x);
void dv_exec_unpack(dv_exec *x, int32_t tensor);
dv_status dv_threads_create(dv_exec *x, dv_diag *diag);
void dv_threads_destroy(dv_exec *x);
dv_status dv_threads_run(dv_exec *x, dv_diag *diag);
#endif
