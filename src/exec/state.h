// Private to exec.c, threads.c, prepare.c and local.c: an exec and its threads.
#ifndef DV_EXEC_STATE_H
#define DV_EXEC_STATE_H
#include "grid/queue.h"
#include "plan/tiles.h"
#include "exec/pin.h"
#include "exec/product.h"
#include "exec/rows.h"
#include "sim/sim.h"
#include <stdatomic.h>

// A temporary that lives and dies within the tiles of one group: every thread
// has one tile of it, at its own strides.
typedef struct dv_tile_temp {
    int32_t tensor, op; // the op that writes it
    int64_t off_bytes;  // in a thread's memory for them
    int64_t *strides;   // in elements
} dv_tile_temp;

// What a run knows of a group.
typedef struct dv_group_plan {
    dv_tile_temp *locals;
    int32_t n_locals;
    int snapshots;   // an op of it reads what it overwrites
    int parts;       // its op sums in parts: two phases
    dv_rows *rows;   // its ops on row after row; NULL: one after the other
    int64_t kernels; // that were there before those of the rows
    // Its tiles are those of a grid; NULL: those it is dealt.
    const dv_group_grid *grid;
    dv_order order; // of the grid
    // How tiles are handed out: n of them, `chunk` at a time; 0: they are
    // dealt.
    int64_t n_queued, chunk;
    int steal;
} dv_group_plan;

// How an op is run. Neither: in strips.
typedef struct dv_way {
    dv_product *product;
    dv_vec_op *vec;    // also finishes a product
    const char *looks; // in strips where this does not hold (vec_range.h)
    int64_t kernels;   // that were there before its own
} dv_way;

typedef struct dv_worker {
    dv_exec *x;
    int32_t id;
    dv_strips strips;
    void **data;          // the tensors as this thread sees them
    unsigned char *local; // tiles of temporaries; owned
    void *buf;            // of the strips; owned
    dv_product_set set;   // owned
    void *memory;         // that tiles of products need; owned
    void **at;            // where the accesses of the op at hand begin
    dv_diag *diag;        // owned
} dv_worker;

struct dv_exec {
    dv_arena arena; // small things; the exec itself lives in it
    const dv_plan *plan;
    dv_run_kind kind;
    dv_kernel *kernels;   // one per op
    dv_way *ways;         // one per op
    dv_jit *jit;          // NULL: no kernels for this machine
    dv_jit *own_jit;      // that, where the target names its instruction set
    int64_t **strides;    // of each tensor that has its own; NULL: rows
    dv_group_plan *group; // one per group
    int64_t local_bytes;  // of one thread
    void **data;          // one per tensor
    void **owned;         // what of that is ours
    void **bound;         // what the user gave
    int rebound;          // some of it since the last run
    void *snapshot;       // owned
    dv_sim *sim;          // owned; NULL: run on this machine
    int32_t n_owned, n_slots;
    // The team.
    dv_worker *workers;
    int32_t n_workers;
    unsigned char *parts; // accumulators of sums in parts, by tile; owned
    int64_t part_bytes;   // of one tile
    dv_pins *pins;        // owned; NULL: threads run where they like
    dv_queue queue;       // of the group at hand; owned
    atomic_int failed, arrived, round;
    dv_progress progress;
    void *user;
    double done, total;
    double *spent; // borrowed, by dv_exec_time_groups; NULL: nobody asks
};

// Find temporaries that may live in tiles; fills strides, group and
// local_bytes. 0 when out of memory.
int dv_exec_localise(dv_exec *x);
// Does an op sum in parts; does an op of the group?
int dv_group_in_parts(const dv_plan *plan, int32_t group);
// Everything the threads need (prepare.c), and the run of all groups
// (threads.c).
dv_status dv_crew_create(dv_exec *x, dv_diag *diag);
void dv_crew_destroy(dv_exec *x);
dv_status dv_crew_run(dv_exec *x, dv_diag *diag);
#endif
