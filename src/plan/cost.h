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
    double macs;         // multiply-adds of a contraction
    double ops;          // other scalar operations
    double memory_bytes; // bytes read and written in main memory
    double all_bytes;    // those of all cores that work at the same time
    // Bytes of operands that pass all cores along the ring.
    double passed_bytes;
    double partial_bytes; // bytes of one partial result, see `partials`
    // Number of cores that compute parts of the same result, because a reduced
    // variable is cut; 1 if none is.
    int64_t partials;
    // Number of results whose partial results are added up at the same time, by
    // different sets of cores.
    int64_t combined;
} dv_cost_work;

// Returns the time of the arithmetic on one core.
double dv_cost_compute_us(const dv_target *t, const dv_cost_work *w);
// Returns the time of main-memory traffic: of all cores at the bandwidth that
// they share, or of the core with the most at what one core can draw, whichever
// is longer. On the host a core counts as having a fixed share of the bandwidth
// even if other cores are idle.
double dv_cost_memory_us(const dv_target *t, const dv_cost_work *w);
// Returns the time in which the ring passes operands that several cores need,
// and partial results, which are added up from core to core.
double dv_cost_combine_us(const dv_target *t, const dv_cost_work *w);
// Returns the time of bytes sent from core to core over the ring; 0 if its
// bandwidth is not known, because they then count as main memory traffic.
double dv_cost_ring_us(const dv_target *t, double bytes);
// Returns the bytes of main memory that all cores transfer, with those of
// partial results if there is no ring.
double dv_cost_all_bytes(const dv_target *t, const dv_cost_work *w);
// Return the rates in bytes per second of main memory for all cores together,
// and of what a single core can draw of it.
double dv_cost_shared_rate(const dv_target *t);
double dv_cost_core_rate(const dv_target *t);
// Returns the total time of an op: the largest of computing, memory traffic and
// combining partial results, which overlap (plan/price.h), and an eighth of the
// others, because they never overlap completely. Without a ring, combining is
// memory traffic. On the host, partial results are combined afterwards.
double dv_cost_us(const dv_target *t, const dv_cost_work *w);
#endif
