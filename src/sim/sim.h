// The simulator: runs a plan on a described machine with real bytes. Main
// memory holds every tensor in the target's layout and is poisoned before the
// run; each core works on copies of just the elements that its slices access,
// surrounded by poison (bytes that read as nan or -1). A wrong plan therefore
// gives wrong numbers, not just a wrong report.
//
// The simulator counts what the predicted time of a plan is computed from
// (plan/price.h): points, data movement, launches and transfers. Data movement:
// an element counts once per access, op and tile; an element of an indirect
// access counts once per index.
//
//   sim.[ch]  the simulator: addresses of elements, scratchpads, cores
#ifndef DV_SIM_H
#define DV_SIM_H
#include "plan/price.h"
#include "strip/strip.h"

// The byte that fills memory before anything is written to it, which makes
// reads of uninitialised memory show.
enum { DV_POISON = 0xff }; // nan in every float type, -1 in integers

// The data movement that the simulator counted.
typedef struct dv_sim_traffic {
    // Elements read from and written to main memory.
    int64_t read_elems, write_elems;
    int64_t read_bytes, write_bytes;
    int64_t ring_bytes; // bytes sent between cores: partial sums, resident
                        // The bytes that the busiest link of the ring carries:
                        // copies and partial sums; and the bytes that this core
                        // passes on to the other cores of its ring.
    int64_t link_bytes, pass_bytes;
    int64_t points; // points of ops computed; counted per op and core only
} dv_sim_traffic;

typedef struct dv_sim dv_sim;

// Allocates all memory that simulated runs need. The plan and the kernels (one
// per op) are borrowed.
dv_status dv_sim_create(dv_sim **out, const dv_plan *plan,
                        const dv_kernel *kernels, dv_diag *diag);
void dv_sim_destroy(dv_sim *m);

// Copies the inputs to the simulated main memory and fills all other memory
// with poison (the byte DV_POISON). `host` is indexed by tensor number.
dv_status dv_sim_load(dv_sim *m, void *const *host, dv_diag *diag);
// Copy one tensor to the simulated main memory, and from it. dv_sim_put fails
// if a value does not fit the type in which the machine stores it.
dv_status dv_sim_put(dv_sim *m, int32_t tensor, const void *host,
                     dv_diag *diag);
void dv_sim_get(const dv_sim *m, int32_t tensor, void *host);
// Runs one group (ops that share one tile space), using the interpreter's
// buffers in `s`.
dv_status dv_sim_group(dv_sim *m, const dv_group *g, dv_strips *s);
// Copies the outputs from the simulated main memory to `host`.
void dv_sim_store(const dv_sim *m, void *const *host);

// Return the data movement of the whole run, and of one op on one core.
const dv_sim_traffic *dv_sim_moved(const dv_sim *m);
const dv_sim_traffic *dv_sim_moved_by(const dv_sim *m, int32_t op,
                                      int64_t core);
// Returns the work that the simulator counted for a group (ops that share one
// tile space), summed over all of its executions in repeats.
dv_group_work dv_sim_work(const dv_sim *m, int32_t group);
// Returns the scratchpad of a core, up to the end of its last home (the place
// of a resident tensor); NULL: the plan has no homes.
const unsigned char *dv_sim_scratch(const dv_sim *m, int64_t core);
// Returns the bytes of one core's scratchpad up to the end of its last home
// (the place of a resident tensor).
int64_t dv_sim_scratch_bytes(const dv_sim *m);
#endif
