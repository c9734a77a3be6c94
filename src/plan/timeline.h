// When each group of a plan runs, how long each of its ops takes, and which
// cores work meanwhile. Reports draw it, and the trace of a plan lists it.
//
// Groups run one after another. The time of a group is divided among its ops by
// what they contribute to what limits it:
//
//   group us = sum of op_us + wait_us        wait_us: the cores wait for each
//                                            other at the end of the group
//
// A group in a repeat counts with all its iterations, as if they followed each
// other directly. Cores that compute equally much of a group form a lane.
//
// The times are predicted (plan/price.h); on machines without a predicted time,
// such as the host, they are the costs by which the ops were divided; or they
// are measured.
#ifndef DV_TIMELINE_H
#define DV_TIMELINE_H
#include "plan/price.h"

// Consecutive cores that have equally much work in a group.
typedef struct dv_lane {
    int64_t core, n_cores; // number of the first one, and how many they are
    int64_t tiles;         // of each core
    double busy;           // part of the group's time, without wait_us, 0 to 1
} dv_lane;

typedef struct dv_group_span {
    double start_us, us, wait_us;
    double times;  // number of times that the group runs
    double *op_us; // one per op of the group
    dv_lane *lanes;
    int32_t n_ops, n_lanes;
} dv_group_span;

typedef struct dv_timeline {
    dv_arena arena;
    const char *basis; // "predicted", "estimated" or "measured"
    double us;
    double busy; // part of the time of all cores in which they compute
    dv_group_span *groups; // one per group of the plan
    int32_t n_groups;
} dv_timeline;

// Makes the timeline of a plan that has groups. `seconds` are measured times,
// one per group, or NULL. If a plan that was read from text has no predicted
// time, there is no timeline and out->basis is NULL. Returns 0 if out of
// memory. The caller frees the arena.
int dv_timeline_make(dv_timeline *out, const dv_plan *plan,
                     const double *seconds);
// Prints a timeline as a JSON object.
void dv_timeline_json(struct dv_json *j, const char *key, const dv_timeline *t);
#endif
