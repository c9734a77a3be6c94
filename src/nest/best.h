// What divvy's own passes over loop nests (the list of passes `best`) share:
// cache and vector sizes of the machine, and the estimated time of a nest.
#ifndef DV_NEST_BEST_H
#define DV_NEST_BEST_H
#include "nest/nest.h"

typedef struct dv_nest_caches {
    int64_t l1, l2, l3; // cache sizes of a core, in bytes
    // Bytes of a vector register; rows of a register tile of f32, and vectors
    // in each of its rows.
    int32_t vector, rows, vectors;
} dv_nest_caches;
dv_nest_caches dv_nest_caches_of(const dv_nest_options *options);

// Returns the number of elements in a vector.
static inline int64_t dv_nest_lanes(const dv_nest_caches *c, int64_t elem_bytes)
{
    return c->vector / elem_bytes;
}

// Returns the estimated time of a nest on one thread in ns, from its operations
// and memory traffic (see cost.c), or DV_NEST_IMPOSSIBLE if no kernel can run
// it.
#define DV_NEST_IMPOSSIBLE 1e30
double dv_nest_cost(const dv_nest *n, const dv_nest_caches *caches);

// Chooses which operands are packed (copied to contiguous buffers) in which
// loops, marks the nest accordingly and returns its cost, or DV_NEST_IMPOSSIBLE
// if no choice costs less than `most`. With `keep`, the set of packed operands
// stays as it is and only their loops are chosen.
double dv_nest_mark_packs(dv_nest *n, const dv_nest_caches *caches, int keep,
                          double most);

// Does the same as the passes kernel, tile, order and pack in sequence. Each of
// these passes but the last searches through the choices of the later ones;
// here that search is done once.
void dv_nest_schedule(dv_nest *n, const dv_nest_options *options);
#endif
