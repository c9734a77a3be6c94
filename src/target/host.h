// The machine that divvy runs on, as a target (the description of a machine).
#ifndef DV_HOST_H
#define DV_HOST_H
#include "target/target.h"

#define DV_HOST_ABOUT "this machine, as hwloc sees it"

// Probes the machine and always returns a usable target: properties that cannot
// be found get default values, and if hwloc finds nothing there is a warning.
void dv_host_probe(dv_target *out, dv_diag *diag);

// Per-core share of each level of data cache; 0 if unknown. dv_host_caches
// probes the machine once per process.
typedef struct dv_caches {
    int64_t l1_bytes, l2_bytes, l3_bytes;
} dv_caches;
dv_caches dv_host_caches(void);

// Returns the hwloc topology of this machine, or NULL if hwloc cannot read it.
// Loading it opens hundreds of files, so it is done once per process and never
// freed; it is safe to call from many threads, and to bind threads with the
// result.
struct hwloc_topology *dv_host_topology(void);

// Makes the target of the machine with this topology; NULL means that nothing
// is known about it.
void dv_host_from(dv_target *out, struct hwloc_topology *topo, dv_diag *diag);
#endif
