// Cost model of a division (how an op is cut into slices for the cores), in
// microseconds, with all rates from the target. If a target does not give a
// rate, a default value keeps divisions comparable; the times then have no real
// unit.
#ifndef DV_COST_H
#define DV_COST_H
#include "target/target.h"

// The work of the core with the largest share of one op; it decides how long
// the op takes.
typedef struct dv_cost_work {
    double macs;          // multiply-adds of a contraction
    double ops;           // other scalar operations
    double memory_bytes;  // bytes read and written in main memory
    double partial_bytes; // bytes of one partial result, see `partials`
    // Number of cores that compute parts of the same result, because a reduced
    // variable is cut; 1 if none is.
    int64_t partials;
} dv_cost_work;

// Returns the time of the arithmetic on one core.
double dv_cost_compute_us(const dv_target *t, const dv_cost_work *w);
// Returns the time of main-memory traffic. A core has a fixed share of the
// bandwidth even if other cores are idle, so idle cores make a division
// expensive.
double dv_cost_memory_us(const dv_target *t, const dv_cost_work *w);
// Returns the time to add up the partial results of several cores, which are
// passed from core to core.
double dv_cost_combine_us(const dv_target *t, const dv_cost_work *w);
// Returns the total time of an op: the larger of computing and memory traffic,
// which overlap, plus combining partial results afterwards.
double dv_cost_us(const dv_target *t, const dv_cost_work *w);
#endif
