// The simulator: runs a plan on a described machine with real bytes. Main
// memory holds every tensor in the target's layout, poisoned before the run;
// each core works on copies of just what its slices touch, poisoned around
// that. A wrong plan gives wrong numbers, not just a wrong report.
//
// It counts what moves: an element is counted once per access, op and tile;
// what an index that is read finds, once for every index.
//
//   sim.[ch]  the whole simulator: places of elements, scratchpads, cores
#ifndef DV_SIM_H
#define DV_SIM_H
#include "strip/strip.h"

// What memory holds that nothing was written to.
enum { DV_POISON = 0xff }; // nan in every float type, -1 in integers

// What the simulator saw move.
typedef struct dv_moved {
    int64_t read_elems, write_elems; // in main memory
    int64_t read_bytes, write_bytes;
    int64_t ring_bytes; // partial results between cores
} dv_moved;

typedef struct dv_sim dv_sim;

// Everything a run needs. The plan and the kernels (one per op) are borrowed.
dv_status dv_sim_create(dv_sim **out, const dv_plan *plan,
                        const dv_kernel *kernels, dv_diag *diag);
void dv_sim_destroy(dv_sim *m);

// Inputs into the machine's memory; all else is poisoned. `host` is by tensor.
dv_status dv_sim_load(dv_sim *m, void *const *host, dv_diag *diag);
// Run one group. The strips' buffers are used.
dv_status dv_sim_group(dv_sim *m, const dv_group *g, dv_strips *s);
// Outputs out of the machine's memory.
void dv_sim_store(const dv_sim *m, void *const *host);

// In all, and by one op on one core.
const dv_moved *dv_sim_moved(const dv_sim *m);
const dv_moved *dv_sim_moved_by(const dv_sim *m, int32_t op, int64_t core);
// The scratchpad of a core, as far as homes reach; NULL: no home is planned.
const unsigned char *dv_sim_scratch(const dv_sim *m, int64_t core);
int64_t dv_sim_scratch_bytes(const dv_sim *m); // of one core
#endif
