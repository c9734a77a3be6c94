// Cost model of a division, in microseconds, with all rates from the target. If
// a target does not give a rate, a default value keeps divisions comparable;
// the times then have no real unit.
#ifndef DV_COST_H
#define DV_COST_H
#include "target/target.h"

// The work of the core that has most to do for one op.
typedef struct dv_cost_work {
    double macs;          // multiply-adds of a contraction
    double ops;           // other scalar operations
    double memory_bytes;  // bytes read and written in main memory
    double partial_bytes; // bytes of one partial result
    int64_t partials; // number of cores that share one result; 1 if not shared
} dv_cost_work;

// Returns the time of the arithmetic on one core.
double dv_cost_compute_us(const dv_target *t, const dv_cost_work *w);
// Returns the time of main-memory traffic. A core has a fixed share of the
// bandwidth even if other cores are idle, so idle cores make a division
// expensive.
double dv_cost_memory_us(const dv_target *t, const dv_cost_work *w);
// Returns the time to reduce partial results from core to core.
double dv_cost_combine_us(const dv_target *t, const dv_cost_work *w);
// Returns the total: compute and memory overlap, combining comes after.
double dv_cost_us(const dv_target *t, const dv_cost_work *w);
#endif
