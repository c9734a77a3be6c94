// What the passes of the list `best` share: sizes of the machine, and the time
// that a nest would take.
#ifndef DV_NEST_BEST_H
#define DV_NEST_BEST_H
#include "nest/nest.h"

typedef struct dv_nest_caches {
    int64_t l1, l2, l3; // bytes of a core
    // Bytes of a vector; rows and vectors of a register tile of f32.
    int32_t vector, rows, vectors;
} dv_nest_caches;
dv_nest_caches dv_nest_caches_of(const dv_nest_options *options);

// Elements in a vector.
static inline int64_t dv_nest_lanes(const dv_nest_caches *c, int64_t elem_bytes)
{
    return c->vector / elem_bytes;
}

// Time of one thread in ns, from counted operations and traffic; a large
// number where the nest has no form. cost.c says what is counted.
#define DV_NEST_IMPOSSIBLE 1e30
double dv_nest_cost(const dv_nest *n, const dv_nest_caches *caches);

// The part of pass `pack` that others try on a copy. `most`: what costs no less
// is as good as impossible. `keep`: only in which loop, not what.
double dv_nest_mark_packs(dv_nest *n, const dv_nest_caches *caches, int keep,
                          double most);

// The passes kernel, tile, order and pack, one after the other. Each but the
// last tries what comes behind it; here that is done once.
void dv_nest_lay(dv_nest *n, const dv_nest_options *options);
#endif
