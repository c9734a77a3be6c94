// What a division costs, in microseconds: one function each, all rates from
// the target. Where a target gives no rate, a stand-in keeps divisions
// comparable; the times are then in no real unit.
#ifndef DV_COST_H
#define DV_COST_H
#include "target/target.h"

// The share of one op that its busiest core has.
typedef struct dv_cost_work {
    double macs;          // multiply-adds of a contraction
    double ops;           // other scalar operations
    double memory_bytes;  // read and written in main memory
    double partial_bytes; // of one partial result
    int64_t partials;     // cores that share one result; 1: nobody does
} dv_cost_work;

// On the core alone.
double dv_cost_compute_us(const dv_target *t, const dv_cost_work *w);
// Main memory, a core having its share of the bandwidth whether the others
// use theirs or not: that is what makes idle cores expensive.
double dv_cost_memory_us(const dv_target *t, const dv_cost_work *w);
// Handing partial results from core to core until one has the whole.
double dv_cost_combine_us(const dv_target *t, const dv_cost_work *w);
// Compute and memory overlap; combining comes after.
double dv_cost_us(const dv_target *t, const dv_cost_work *w);
#endif
