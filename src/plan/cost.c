#include "plan/cost.h"
#include <math.h>

// Rates of one core (multiply-adds per second, bytes per second) for targets
// whose description gives none.
static const double default_mac_rate = 8e9, default_byte_rate = 5e9;
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

static double memory_rate(const dv_target *t)
{
    return t->memory_bandwidth_bytes_per_s > 0
               ? t->memory_bandwidth_bytes_per_s / (double)t->cores
               : default_byte_rate;
}

double dv_cost_compute_us(const dv_target *t, const dv_cost_work *w)
{
    return 1e6 * (w->macs / mac_rate(t) + w->ops / vector_rate(t));
}

double dv_cost_memory_us(const dv_target *t, const dv_cost_work *w)
{
    return 1e6 * w->memory_bytes / memory_rate(t);
}

double dv_cost_combine_us(const dv_target *t, const dv_cost_work *w)
{
    double steps = (double)(w->partials - 1);
    double wait =
        dv_target_runs_here(t) && w->partials > 1 ? thread_sync_us : 0;
    // A partial result crosses the ring (the connection between the cores'
    // scratchpads) once; without a ring it is written to memory and read back.
    if (t->ring && t->ring_bandwidth_bytes_per_s > 0)
        return 1e6 * steps * w->partial_bytes / t->ring_bandwidth_bytes_per_s;
    return wait + 1e6 * steps * 2 * w->partial_bytes / memory_rate(t);
}

double dv_cost_us(const dv_target *t, const dv_cost_work *w)
{
    return fmax(dv_cost_compute_us(t, w), dv_cost_memory_us(t, w)) +
           dv_cost_combine_us(t, w);
}
