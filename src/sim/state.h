// Inside run/sim*.c: the simulated machine.
#ifndef DV_SIM_IN_H
#define DV_SIM_IN_H
#include "plan/view.h"
#include "sim/sim.h"

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

// -- Places (place.c) --------------------------------------------------

// Elements of a tensor: a box of it on one core, or all of it in main memory.
typedef struct dv_sim_place {
    const dv_tensor *t;
    const dv_layout *l;
    unsigned char *start;
    int is_home, any; // any: the box is not empty
    int64_t lo[DV_MAX_DIMS], hi[DV_MAX_DIMS];
    // Elements last found: so many from number `first` on, `step` bytes apart.
    int64_t first, step;
    uint64_t n;
    unsigned char *run;
} dv_sim_place;
dv_sim_place dv_sim_in_memory(const dv_sim *m, int32_t tensor,
                              unsigned char *memory);
dv_sim_place dv_sim_in_home(const dv_sim *m, int32_t home, int64_t core);
unsigned char *dv_sim_look(dv_sim_place *p, int64_t at);

// Element number `at` of the tensor; NULL: it is not in the box.
static inline unsigned char *dv_sim_at(dv_sim_place *p, int64_t at)
{
    uint64_t i = (uint64_t)(at - p->first);
    return i < p->n ? p->run + (int64_t)i * p->step : dv_sim_look(p, at);
}

// -- Scratchpads (scratch.c) -------------------------------------------

// 0 when out of memory.
int dv_sim_scratch_create(dv_sim *m);
void dv_sim_scratch_wipe(dv_sim *m);
// What comes into scratchpads before an op, and goes to memory after it.
void dv_sim_fill_homes(dv_sim *m, int32_t op);
void dv_sim_store_homes(dv_sim *m, int32_t op);
#endif
