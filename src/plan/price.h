// The predicted time of a plan, by which plans are compared.
//
// The groups of a plan run one after another. While a group runs, computing,
// main memory and the ring between cores work at the same time, so that the
// slowest of the three decides; starting ops, waiting at the end of the group
// and starting transfers take time of their own:
//
//   group = max(compute, memory, ring) + launch
//   plan  = sum of its groups, those in repeats once per iteration
//
//   compute  for each op, the points of the core with the most, at the rate of
//            multiply-adds or of other operations
//   memory   bytes of all cores at the bandwidth that they share, or of one
//            core at what one core can draw, whichever takes longer; tensors
//            that are resident in scratchpads cause no traffic when they are
//            used, but when they are loaded, stored or copied
//   ring     bytes that its busiest link carries, at the bandwidth of a link
//   launch   launch_time of each op (once, if cores loop over its tiles: the
//            loop is a part of the kernel), sync_time of each group on several
//            cores, transfer_latency of each load or copy into the scratchpads
//
// The counts come from a formula here; the simulator counts the same quantities
// when it runs the plan (dv_sim_work).
#ifndef DV_PRICE_H
#define DV_PRICE_H
#include "plan/plan.h"

// The work of a group (ops that share one tile space).
typedef struct dv_group_work {
    // Sums over the ops of the group, each counted on the core that computes
    // most of it.
    int64_t macs; // multiply-adds of contractions
    int64_t ops;  // points of other ops
    // Bytes moved from and to main memory by all cores, and by the core that
    // moves the most. The latter is 0 if a single core can draw the whole
    // bandwidth, so that it cannot limit the group.
    int64_t memory_bytes, core_bytes;
    int64_t link_bytes; // bytes that the busiest link of the ring carries
    int64_t launches;   // of ops
    int64_t syncs;      // 1 if several cores work on the group
    int64_t transfers;  // loads and copies into the scratchpads
} dv_group_work;

typedef enum dv_limit {
    DV_LIMIT_COMPUTE,
    DV_LIMIT_MEMORY,
    DV_LIMIT_RING
} dv_limit;

// A predicted time and its parts, in microseconds.
typedef struct dv_price {
    double total_us;
    double compute_us, memory_us, ring_us, launch_us;
    dv_limit limit;      // the largest of compute, memory and ring
    double memory_bytes; // bytes moved from and to main memory
} dv_price;

// Counts the work of one run of a group, by formula.
dv_group_work dv_group_work_of(const dv_plan *plan, int32_t group);
// Counts the work of one op of a group. The fields core_bytes and syncs are not
// set, because only a group as a whole has them.
dv_group_work dv_op_work_of(const dv_plan *plan, int32_t group, int32_t op);
// Adds to points[c - first], for each core c from `first` to first +
// DV_CORES_AT_ONCE - 1, the number of points (iterations) of the op that it
// computes.
enum { DV_CORES_AT_ONCE = 256 };
void dv_add_core_points(const dv_plan *plan, int32_t group, int32_t op,
                        int64_t first, int64_t *points);
// Converts the counted work of a group to predicted time.
dv_price dv_price_of(const dv_target *t, const dv_group_work *w);
// Returns the predicted time of one run of a group.
dv_price dv_group_price(const dv_plan *plan, int32_t group);
// Returns the number of times that a group is executed, because of repeats.
double dv_group_times(const dv_plan *plan, int32_t group);
// Returns the predicted time of the whole plan. The parts are sums over all
// groups; as each group has its own limit, the total may be more than the
// largest part plus launch_us.
dv_price dv_plan_price(const dv_plan *plan);
// Returns a lower bound in microseconds of the predicted time of any plan with
// the same ops: all cores compute all the time and share the work evenly, or
// main memory is read and written without pause, inputs and outputs once
// (dv_plan_least_bytes); and every op is launched.
double dv_plan_least_us(const dv_plan *plan);
// Adds the price of a group, multiplied by `times` (the number of its runs), to
// the price of a plan.
void dv_price_add(dv_price *sum, const dv_price *group, double times);
// Returns whether a plan has a predicted time: it must be divided and made for
// a described machine. On the host, caches decide what reaches main memory, so
// its time is not predicted.
int dv_plan_has_price(const dv_plan *plan);
// Prints a time and its parts: "12.6 us: compute 1.37, memory 10.6, ring 0,
// launch 2".
void dv_price_print(dv_text *out, const dv_price *p);
// Returns the name of what limits a group: compute, memory or ring.
const char *dv_limit_name(dv_limit limit);
#endif
