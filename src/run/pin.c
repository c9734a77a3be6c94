// Which core a thread runs on, through hwloc: threads that wander take their
// caches' contents along too late.
#include "run/exec_in.h"
#include "target/host.h"
#include <hwloc.h>

struct dv_pins {
    hwloc_topology_t topo; // the process's
    hwloc_cpuset_t *core;  // one hardware thread of each; owned
    hwloc_cpuset_t before;
    int32_t n;
    int bound; // `before` is the user's thread's own set
};

static _Thread_local const dv_pins *pinned; // by whom this thread is bound
static _Thread_local int32_t pinned_to;

static int find_cores(dv_pins *p, int32_t n)
{
    hwloc_bitmap_t all = hwloc_bitmap_alloc();
    if (!all)
        return 0;
    if (hwloc_get_cpubind(p->topo, all, HWLOC_CPUBIND_PROCESS) != 0)
        hwloc_bitmap_copy(all, hwloc_topology_get_topology_cpuset(p->topo));
    hwloc_obj_t core = NULL;
    while (p->n < n && (core = hwloc_get_next_obj_by_type(
                            p->topo, HWLOC_OBJ_CORE, core)) != NULL) {
        hwloc_bitmap_t set = hwloc_bitmap_dup(core->cpuset);
        if (!set)
            break;
        hwloc_bitmap_and(set, set, all);
        if (hwloc_bitmap_iszero(set)) {
            hwloc_bitmap_free(set);
            continue;
        }
        hwloc_bitmap_singlify(set);
        p->core[p->n++] = set;
    }
    hwloc_bitmap_free(all);
    return p->n == n;
}

int dv_pins_create(dv_pins **out, int32_t n)
{
    dv_pins *p = dv_alloc(sizeof *p);
    hwloc_cpuset_t *core = dv_alloc((size_t)n * sizeof *core);
    *out = NULL;
    if (!p || !core) {
        dv_release(p);
        dv_release(core);
        return 0;
    }
    *p = (dv_pins){.topo = dv_host_topology(),
                   .core = core,
                   .before = hwloc_bitmap_alloc()};
    if (p->topo && p->before && find_cores(p, n))
        *out = p;
    else
        dv_pins_destroy(p);
    return 1;
}

void dv_pins_destroy(dv_pins *p)
{
    if (!p)
        return;
    for (int32_t i = 0; i < p->n; i++)
        hwloc_bitmap_free(p->core[i]);
    hwloc_bitmap_free(p->before);
    dv_release(p->core);
    dv_release(p);
}

void dv_pin(dv_pins *p, int32_t i)
{
    if (!p || (pinned == p && pinned_to == i))
        return;
    if (i == 0)
        p->bound =
            hwloc_get_cpubind(p->topo, p->before, HWLOC_CPUBIND_THREAD) == 0;
    if (hwloc_set_cpubind(p->topo, p->core[i], HWLOC_CPUBIND_THREAD) != 0)
        return;
    pinned = i == 0 ? NULL : p;
    pinned_to = i;
}

void dv_unpin(dv_pins *p)
{
    if (p && p->bound)
        hwloc_set_cpubind(p->topo, p->before, HWLOC_CPUBIND_THREAD);
}
