// The machine divvy runs on, as a target.
#ifndef DV_HOST_H
#define DV_HOST_H
#include "target/target.h"

#define DV_HOST_ABOUT "this machine, as hwloc sees it"

// Probe the machine. Always gives a target that works: what cannot be found
// out is assumed, and a warning says so when nothing can.
void dv_host_probe(dv_target *out, dv_diag *diag);

// A core's share of each level of data caches, L1 first; 0: not known. Looked
// up once for the process.
typedef struct dv_caches {
    int64_t l1_bytes, l2_bytes, l3_bytes;
} dv_caches;
dv_caches dv_host_caches(void);

// What hwloc sees, NULL if it sees nothing. Reading it opens hundreds of files,
// so that the process does so once and keeps it to its end; many threads may
// ask and bind themselves through it.
struct hwloc_topology *dv_host_topology(void);

// The target of such a machine; NULL: nothing is known of it.
void dv_host_from(dv_target *out, struct hwloc_topology *topo, dv_diag *diag);
#endif
