// Probes the host. It counts the cores this process may run on, and computes
// each core's share of the L2 cache, which plans treat as its scratchpad:
//
//   package  L2 2MiB     L2 2MiB         cores = 3, scratch = 1MiB
//            core core   core core
//   bound to  x    x      x              bandwidths and rates are not probed
#include "target/host.h"
#include "kernel/kernel.h"
#include "base/math.h"
#include <hwloc.h>
#include <pthread.h>
#include <string.h>

enum { ASSUMED_LINE_BYTES = 64, ASSUMED_L2_BYTES = 256 << 10 };

typedef struct machine {
    int64_t cores, line_bytes; // 0 if hwloc does not report it
    dv_caches share;
} machine;

// Counts the objects of a type whose cpuset intersects the given set.
static int64_t count(hwloc_topology_t topo, hwloc_const_cpuset_t set,
                     hwloc_obj_type_t type)
{
    int64_t n = 0;
    hwloc_obj_t obj = NULL;
    while ((obj = hwloc_get_next_obj_by_type(topo, type, obj)) != NULL)
        n += obj->cpuset && hwloc_bitmap_intersects(obj->cpuset, set);
    return n;
}

// Counts physical cores, or hardware threads if the system does not report
// cores.
static int64_t count_cores(hwloc_topology_t topo, hwloc_const_cpuset_t set)
{
    int64_t n = count(topo, set, HWLOC_OBJ_CORE);
    return n ? n : count(topo, set, HWLOC_OBJ_PU);
}

// Finds the smallest per-core share of a cache of this level among the cores of
// the set. A cache is shared by all cores below it, including those this
// process may not use.
static void probe_cache(machine *m, hwloc_topology_t topo,
                        hwloc_const_cpuset_t set, hwloc_obj_type_t type,
                        int64_t *least)
{
    hwloc_obj_t obj = NULL;
    while ((obj = hwloc_get_next_obj_by_type(topo, type, obj)) != NULL) {
        if (!obj->cpuset || !hwloc_bitmap_intersects(obj->cpuset, set))
            continue;
        const struct hwloc_cache_attr_s *cache = &obj->attr->cache;
        if (cache->linesize > m->line_bytes)
            m->line_bytes = cache->linesize;
        int64_t sharers = dv_max_i64(count_cores(topo, obj->cpuset), 1);
        int64_t share = (int64_t)(cache->size / (uint64_t)sharers);
        if (share && (!*least || share < *least))
            *least = share;
    }
}

static void probe_topology(machine *m, hwloc_topology_t topo)
{
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    if (!set)
        return;
    hwloc_const_cpuset_t all = hwloc_topology_get_topology_cpuset(topo);
    if (hwloc_get_cpubind(topo, set, HWLOC_CPUBIND_PROCESS) != 0 ||
        !hwloc_bitmap_intersects(set, all))
        hwloc_bitmap_copy(set, all);
    m->cores = count_cores(topo, set);
    probe_cache(m, topo, set, HWLOC_OBJ_L1CACHE, &m->share.l1_bytes);
    probe_cache(m, topo, set, HWLOC_OBJ_L2CACHE, &m->share.l2_bytes);
    probe_cache(m, topo, set, HWLOC_OBJ_L3CACHE, &m->share.l3_bytes);
    hwloc_bitmap_free(set);
}

static hwloc_topology_t topology; // NULL if hwloc cannot read this machine

static void load(void)
{
    hwloc_topology_t topo;
    if (hwloc_topology_init(&topo) != 0)
        return;
    if (hwloc_topology_load(topo) == 0)
        topology = topo;
    else
        hwloc_topology_destroy(topo);
}

struct hwloc_topology *dv_host_topology(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    return topology;
}

static machine probe(hwloc_topology_t topo)
{
    machine m = {0};
    if (topo)
        probe_topology(&m, topo);
    return m;
}

static dv_caches caches;

static void find_caches(void)
{
    caches = probe(dv_host_topology()).share;
}

dv_caches dv_host_caches(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_caches);
    return caches;
}

void dv_host_probe(dv_target *out, dv_diag *diag)
{
    dv_host_from(out, dv_host_topology(), diag);
}

void dv_host_from(dv_target *out, struct hwloc_topology *topo, dv_diag *diag)
{
    machine m = probe(topo);
    const dv_isa *best = dv_isa_best();
    if (!m.cores)
        dv_warn(diag, "host", DV_NOWHERE,
                "hwloc cannot read this machine: assuming one core");
    int64_t line = m.line_bytes;
    if (line < 8 || line > 1 << 20 || (line & (line - 1)))
        line = ASSUMED_LINE_BYTES;
    int64_t share = m.share.l2_bytes ? m.share.l2_bytes : ASSUMED_L2_BYTES;
    // Limit the cache share of a core to the largest value that the target
    // property `scratch` may have.
    share = dv_min_i64(share, (int64_t)1 << 40);
    dv_target_init(out, "host");
    memcpy(out->about, DV_HOST_ABOUT, sizeof DV_HOST_ABOUT);
    out->cores = dv_min_i64(dv_max_i64(m.cores, 1), 1 << 20);
    out->stick_bytes = line;
    out->scratch_align_bytes = line;
    out->scratch_bytes = share / line * line;
    out->l1_bytes = dv_min_i64(m.share.l1_bytes, (int64_t)1 << 40);
    out->l2_bytes = dv_min_i64(m.share.l2_bytes, (int64_t)1 << 40);
    out->l3_bytes = dv_min_i64(m.share.l3_bytes, (int64_t)1 << 40);
    out->vector_bytes = best ? best->vector_bytes : 16;
    out->matrix = dv_isa_has_matrix(dv_isa_host());
    out->dots = dv_isa_host() && dv_isa_has(dv_isa_host(), DV_I8);
    out->grain = DV_GRAIN_FUSED;
    out->here = 1;
    out->tiles_per_core = 0;
}
