// Inside run/sim*.c: the simulated machine.
#ifndef DV_SIM_IN_H
#define DV_SIM_IN_H
#include "plan/view.h"
#include "run/sim.h"

enum { DV_POISON = 0xff }; // nan in every float type, -1 in integers

struct dv_sim {
    dv_arena arena;
    const dv_plan *plan;
    const dv_kernel *kernels;
    dv_layout *layouts;     // the plan's, or rows where it has none
    unsigned char **memory; // of each tensor, in its layout; owned
    unsigned char *old;     // a tensor before an update; owned
    unsigned char **images; // per access, host order; owned, grown once
    unsigned char *seen;    // marks of the access being copied; owned
    void *parts;            // accumulators of a result in parts; owned
    void *peer;             // the same of the part at hand; owned
    int64_t *core_of;       // by tile of the group at hand; owned
    int n_images;
    dv_moved moved;   // in all
    dv_moved *by;     // by op, then core; owned
    dv_moved *counts; // where the core at work is counted
    int64_t core;     // the core at work
    // Scratchpads, one behind the other; owned, NULL: no home is planned.
    unsigned char *scratch;
    int64_t scratch_bytes; // of one core
};

// One element between host order and the machine's memory. A machine may store
// 64-bit integers in four bytes.
void dv_sim_copy_in(unsigned char *to, const unsigned char *from, int host,
                    int64_t device);
void dv_sim_copy_out(unsigned char *to, const unsigned char *from, int host,
                     int64_t device);

// -- Scratchpads (sim_scratch.c) -------------------------------------------

// 0 when out of memory.
int dv_sim_scratch_create(dv_sim *m);
void dv_sim_scratch_wipe(dv_sim *m);
// What a core has of a home.
typedef struct dv_sim_box {
    int any;
    int64_t lo[DV_MAX_DIMS], hi[DV_MAX_DIMS];
} dv_sim_box;
void dv_sim_box_of(const dv_sim *m, int32_t home, int64_t core,
                   dv_sim_box *out);
// An element of a home on a core; NULL: it is not there.
unsigned char *dv_sim_home_at(const dv_sim *m, int32_t home, int64_t core,
                              const dv_sim_box *box, const int64_t *coords);
// What comes into scratchpads before an op, and goes to memory after it.
void dv_sim_fill_homes(dv_sim *m, int32_t op);
void dv_sim_store_homes(dv_sim *m, int32_t op);
#endif
