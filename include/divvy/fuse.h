// Fuses the ops of a graph of matrix products and pointwise ops into groups
// that run tile by tile in a scratchpad, and chooses the order of the groups,
// their tile sizes and the tensors that stay in the scratchpad from one group
// to the next, for the least total time. It needs no other part of divvy:
//
//   dv_fuse_tensor t[3] = {{128, 128}, {128, 128}, {128, 128}};
//   int32_t in[2] = {0, 1};
//   dv_fuse_op ops[2] = {{DV_FUSE_POINTWISE, in, 1, 1, 1000},
//                        {DV_FUSE_POINTWISE, in + 1, 1, 2, 100}};
//   dv_fuse_problem p = {t, 3, ops, 2, 35000, 10, 128, 128};
//   dv_fuse_schedule *s = NULL;
//   if (dv_fuse(&s, &p, NULL, NULL) == DV_OK)
//       use(s->n_entries, s->total);                  // 1 and 3276.8
//   dv_fuse_schedule_destroy(s);
//
// The model. An entry of a schedule computes tiles of `width` columns and
// `height` rows of the tensors that leave it, with sums cut into steps of
// `depth`. Tensors inside an entry need no memory; external ones are loaded
// slice by slice, and a slice is reused if the next step reads it, too. A step
// takes the larger one of its computing time and its transfer time; entries do
// not overlap. docs/invariants.md lists the rules F1 to F8 of a schedule.
#ifndef DIVVY_FUSE_H
#define DIVVY_FUSE_H
#include "divvy/divvy.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum dv_fuse_kind {
    DV_FUSE_POINTWISE, // all inputs have the shape of the output
    DV_FUSE_MATMUL,    // two inputs, left and right
} dv_fuse_kind;

typedef struct dv_fuse_tensor {
    int64_t width, height; // columns and rows, in elements
} dv_fuse_tensor;

typedef struct dv_fuse_op {
    dv_fuse_kind kind;
    const int32_t *inputs; // tensor numbers
    size_t n_inputs;
    int32_t output;
    double base_cost; // computing time of one native block
} dv_fuse_op;

// A graph of ops. A tensor that no op writes is an input of the graph, one that
// no op reads is an output.
typedef struct dv_fuse_problem {
    const dv_fuse_tensor *tensors;
    size_t n_tensors;
    const dv_fuse_op *ops; // in any order
    size_t n_ops;
    int64_t capacity_elems; // of the scratchpad
    double bandwidth;       // elements moved per unit of time, from 1e-200 on
    // The size of a native block, which is the largest tile; computing a
    // smaller tile takes as long.
    int64_t native_width, native_height;
} dv_fuse_problem;

// What part of a matrix product the base cost of an op is for.
typedef enum dv_fuse_reading {
    // For native_width terms of the sum; the `depth` of entries is at most
    // native_width.
    DV_FUSE_NATIVE,
    DV_FUSE_FULL, // for the whole sum; any depth
} dv_fuse_reading;

typedef struct dv_fuse_options {
    size_t size;
    dv_fuse_reading reading;
    // budget: maximum number of search steps, 0: default. time_limit_s: the
    // search stops after this time, 0: no limit. If no time is left, every op
    // is a group alone; pricing these takes longer for graphs of thousands of
    // ops.
    int64_t budget;
    double time_limit_s;
    uint64_t seed;
} dv_fuse_options;
#define DV_FUSE_OPTIONS_INIT                                                   \
    {                                                                          \
        sizeof(dv_fuse_options), DV_FUSE_NATIVE, 0, 0, 0                       \
    }

typedef struct dv_fuse_entry {
    const int32_t *ops; // an op may be in several entries: it is recomputed
    size_t n_ops;
    int64_t width, height, depth;
    const int32_t *retained; // tensors kept whole for the next entry
    size_t n_retained;
    // Tile numbers in the order of execution; tiles are numbered row by row.
    // NULL: row by row, and no operand slice is reused from one tile to the
    // next.
    const int64_t *order;
    size_t n_tiles; // number of items of `order`
    double latency;
} dv_fuse_entry;

typedef struct dv_fuse_schedule {
    const dv_fuse_entry *entries; // in the order of execution
    size_t n_entries;
    double total;  // sum of the latencies
    double bound;  // lower bound on the total of any schedule
    double gap;    // (total - bound) / total
    int64_t steps; // number of search steps made
} dv_fuse_schedule;

// Finds a schedule of low latency. The same call gives the same schedule on
// every machine, unless it has a time limit. The schedule does not refer to the
// problem.
DV_API dv_status dv_fuse(dv_fuse_schedule **out, const dv_fuse_problem *problem,
                         const dv_fuse_options *options, dv_diag *diag);
// Checks the rules of a schedule, and computes the latency of every entry by
// simulating all tiles and steps. Fails with DV_E_CHECK and a message that says
// what is wrong. `latencies` has room for n_entries numbers. The latencies,
// total, bound and gap in the schedule are not read.
DV_API dv_status dv_fuse_evaluate(double *latencies,
                                  const dv_fuse_schedule *schedule,
                                  const dv_fuse_problem *problem,
                                  const dv_fuse_options *options,
                                  dv_diag *diag);
// Checks a schedule: its rules, that its latencies and its total are those of
// dv_fuse_evaluate, and that the bound is not above the total.
DV_API dv_status dv_fuse_check(const dv_fuse_schedule *schedule,
                               const dv_fuse_problem *problem,
                               const dv_fuse_options *options, dv_diag *diag);
DV_API void dv_fuse_schedule_destroy(dv_fuse_schedule *schedule);

#ifdef __cplusplus
}
#endif
#endif
