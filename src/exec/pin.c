// Binds threads to cores; pin.h gives the reason.
//
// hwloc allocates a set whenever it binds a thread, but a run must not
// allocate. On Linux the hwloc sets are therefore converted to cpu_set_t when
// they are created.
#define _GNU_SOURCE // declares sched_setaffinity
#include "exec/pin.h"
#include "base/mem.h"
#include "target/host.h"
#include <errno.h>
#include <hwloc.h>
#ifdef __linux__
#include <sched.h>
#include <hwloc/glibc-sched.h>
#endif
#ifdef _OPENMP
#include <omp.h>
#endif

struct dv_pins {
    hwloc_topology_t topo; // topology of the host; not owned
    hwloc_cpuset_t *core;  // one hardware thread of each core; owned
    hwloc_cpuset_t before;
    int32_t n;
    int bound; // 1 if `before` holds the affinity of the user's thread
#ifdef __linux__
    size_t set_bytes; // bytes of one cpu_set_t (set of cores)
    // A cpu_set_t for each of the n cores, then one with the affinity that the
    // user's thread had before; owned.
    char *sets;
#endif
};

// The set of cores that last bound this thread, and the number of the thread's
// core in it; NULL: the thread was not bound.
static _Thread_local const dv_pins *pinned;
static _Thread_local int32_t pinned_to;

static void forget_cores(dv_pins *p)
{
    while (p->n > 0)
        hwloc_bitmap_free(p->core[--p->n]);
}

// Collects one hardware thread from `all` for each of the first n cores that
// have one there; returns 1 if there are n such cores.
static int find_in(dv_pins *p, hwloc_const_cpuset_t all, int32_t n)
{
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
    return p->n == n;
}

// Picks n cores among those that the user's thread may run on. If they are too
// few, picks among all cores of the process, which hwloc finds by reading the
// affinity of each of its threads.
static int find_cores(dv_pins *p, int32_t n)
{
    hwloc_bitmap_t all = hwloc_bitmap_alloc();
    if (!all)
        return 0;
    int found = hwloc_get_cpubind(p->topo, all, HWLOC_CPUBIND_THREAD) == 0 &&
                find_in(p, all, n);
    if (!found) {
        forget_cores(p);
        if (hwloc_get_cpubind(p->topo, all, HWLOC_CPUBIND_PROCESS) != 0)
            hwloc_bitmap_copy(all, hwloc_topology_get_topology_cpuset(p->topo));
        found = find_in(p, all, n);
    }
    hwloc_bitmap_free(all);
    return found;
}

#ifdef __linux__
static cpu_set_t *set_of(const dv_pins *p, int32_t i)
{
    return (cpu_set_t *)(void *)(p->sets + (size_t)i * p->set_bytes);
}

// Converts the hwloc sets to cpu_set_t. The kernel refuses a set smaller than
// its own, and only trying tells that size. Returns 0 when out of memory; *made
// is 1 if the kernel accepted a size.
static int make_sets(dv_pins *p, int *made)
{
    enum { MOST_BYTES = 1 << 17 }; // room for a million processors
    for (size_t bytes = sizeof(cpu_set_t);; bytes *= 2) {
        p->sets = dv_alloc((size_t)(p->n + 1) * bytes);
        p->set_bytes = bytes;
        if (!p->sets)
            return 0;
        *made = sched_getaffinity(0, bytes, set_of(p, p->n)) == 0;
        if (*made)
            break;
        if (errno != EINVAL || bytes >= MOST_BYTES)
            return 1;
        dv_release(p->sets);
    }
    for (int32_t i = 0; i < p->n; i++)
        hwloc_cpuset_to_glibc_sched_affinity(p->topo, p->core[i], set_of(p, i),
                                             p->set_bytes);
    return 1;
}

static void free_sets(dv_pins *p)
{
    dv_release(p->sets);
}

static int save_binding(dv_pins *p)
{
    return sched_getaffinity(0, p->set_bytes, set_of(p, p->n)) == 0;
}

static int bind_to(dv_pins *p, int32_t i)
{
    return sched_setaffinity(0, p->set_bytes, set_of(p, i)) == 0;
}

static void restore_binding(dv_pins *p)
{
    bind_to(p, p->n);
}
#else
static int make_sets(dv_pins *p, int *made)
{
    *made = p->before != NULL;
    return 1;
}

static void free_sets(dv_pins *p)
{
    (void)p;
}

static int save_binding(dv_pins *p)
{
    return hwloc_get_cpubind(p->topo, p->before, HWLOC_CPUBIND_THREAD) == 0;
}

static int bind_to(dv_pins *p, int32_t i)
{
    return hwloc_set_cpubind(p->topo, p->core[i], HWLOC_CPUBIND_THREAD) == 0;
}

static void restore_binding(dv_pins *p)
{
    hwloc_set_cpubind(p->topo, p->before, HWLOC_CPUBIND_THREAD);
}
#endif

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
    int made = 0, memory = 1;
    if (p->topo && p->before && find_cores(p, n))
        memory = make_sets(p, &made);
    if (memory && made)
        *out = p;
    else
        dv_pins_destroy(p);
    return memory;
}

void dv_pins_destroy(dv_pins *p)
{
    if (!p)
        return;
    forget_cores(p);
    hwloc_bitmap_free(p->before);
    free_sets(p);
    dv_release(p->core);
    dv_release(p);
}

void dv_pin(dv_pins *p, int32_t i)
{
    if (!p || (pinned == p && pinned_to == i))
        return;
    if (i == 0)
        p->bound = save_binding(p);
    if (!bind_to(p, i))
        return;
    pinned = i == 0 ? NULL : p;
    pinned_to = i;
}

void dv_unpin(dv_pins *p)
{
    if (p && p->bound)
        restore_binding(p);
}

int dv_pins_allowed(void)
{
#ifdef _OPENMP
    return omp_get_proc_bind() == omp_proc_bind_false;
#else
    return 0;
#endif
}
