#include "plan/cost.h"
#include <math.h>

// Rates of one core (multiply-adds per second, bytes per second) for targets
// whose description gives none.
static const double default_mac_rate = 8e9, default_byte_rate = 5e9;
// The fraction of the faster parts of the work that still takes time although
// slower work overlaps with it. It makes the cost model prefer divisions that
// compute on many cores even where main memory decides, and vice versa.
static const double exposed = .125;
// Time for threads of the host to wait for each other's partial sums.
static const double thread_sync_us = 2;

static double mac_rate(const dv_target *t)
{
    return t->mac_rate_per_s > 0 ? t->mac_rate_per_s : default_mac_rate;
}

// Returns the rate of non-matmul operations; by default 1/64 of the matrix
// unit's rate, as if the vector unit were one 64-lane edge of it.
static double vector_rate(const dv_target *t)
{
    return t->vector_rate_per_s > 0 ? t->vector_rate_per_s
           : t->mac_rate_per_s > 0  ? t->mac_rate_per_s / 64
                                    : default_mac_rate;
}

double dv_cost_shared_rate(const dv_target *t)
{
    return t->memory_bandwidth_bytes_per_s > 0
               ? t->memory_bandwidth_bytes_per_s
               : default_byte_rate * (double)t->cores;
}

double dv_cost_core_rate(const dv_target *t)
{
    if (t->memory_bandwidth_bytes_per_s > 0 && dv_target_has_caches(t))
        return t->memory_bandwidth_bytes_per_s / (double)t->cores;
    if (t->core_bandwidth_bytes_per_s > 0)
        return t->core_bandwidth_bytes_per_s;
    return t->memory_bandwidth_bytes_per_s > 0 ? t->memory_bandwidth_bytes_per_s
                                               : default_byte_rate;
}

double dv_cost_compute_us(const dv_target *t, const dv_cost_work *w)
{
    return 1e6 * (w->macs / mac_rate(t) + w->ops / vector_rate(t));
}

double dv_cost_memory_us(const dv_target *t, const dv_cost_work *w)
{
    double core = 1e6 * w->memory_bytes / dv_cost_core_rate(t);
    if (dv_target_has_caches(t))
        return core;
    return fmax(core, 1e6 * w->all_bytes / dv_cost_shared_rate(t));
}

// Returns whether partial results of several cores are sent over a ring of
// known bandwidth (the connection between the cores' scratchpads). Otherwise
// they count as written to main memory and read back.
static int has_ring_rate(const dv_target *t)
{
    return t->ring && t->ring_bandwidth_bytes_per_s > 0;
}

double dv_cost_ring_us(const dv_target *t, double bytes)
{
    return has_ring_rate(t) ? 1e6 * bytes / t->ring_bandwidth_bytes_per_s : 0;
}

// Returns the bytes of all partial results that are sent from core to core.
static double combined_bytes(const dv_cost_work *w)
{
    return (double)(w->partials - 1) * w->partial_bytes * (double)w->combined;
}

double dv_cost_all_bytes(const dv_target *t, const dv_cost_work *w)
{
    return w->all_bytes + (has_ring_rate(t) ? 0 : 2 * combined_bytes(w));
}

double dv_cost_combine_us(const dv_target *t, const dv_cost_work *w)
{
    double bytes = (double)(w->partials - 1) * w->partial_bytes;
    double all = combined_bytes(w);
    double wait =
        dv_target_runs_here(t) && w->partials > 1 ? thread_sync_us : 0;
    if (has_ring_rate(t))
        return dv_cost_ring_us(t, all + w->passed_bytes);
    double us = 1e6 * 2 * bytes / dv_cost_core_rate(t);
    if (dv_target_has_caches(t))
        return wait + us;
    return fmax(us, 1e6 * 2 * all / dv_cost_shared_rate(t));
}

double dv_cost_us(const dv_target *t, const dv_cost_work *w)
{
    double compute = dv_cost_compute_us(t, w);
    double memory = dv_cost_memory_us(t, w);
    double combine = dv_cost_combine_us(t, w);
    if (dv_target_has_caches(t))
        return fmax(compute, memory) + combine;
    double most = fmax(compute, has_ring_rate(t) ? fmax(memory, combine)
                                                 : memory + combine);
    return most + (compute + memory + combine - most) * exposed;
}
