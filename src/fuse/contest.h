// Reads problems and writes schedules in the JSON of the MLSys 2026 contest on
// graph scheduling:
//
//   {"widths": [128, …], "heights": [128, …],       of each tensor
//    "inputs": [[0, 1], …], "outputs": [[2], …],    of each op
//    "base_costs": [1000, …], "op_types": ["MatMul", "Pointwise", …],
//    "fast_memory_capacity": 50000, "slow_memory_bandwidth": 10,
//    "native_granularity": [128, 128]}
//
//   {"subgraphs": [[0, 1], …], "granularities": [[128, 128, 32], …],
//    "tensors_to_retain": [[], …], "traversal_orders": [null, …],
//    "subgraph_latencies": [3276.8, …]}
#ifndef DV_FUSE_CONTEST_H
#define DV_FUSE_CONTEST_H
#include "divvy/fuse.h"
#include "base/diag.h"
#include "base/mem.h"
#include "base/text.h"

// Parses a problem; its arrays are allocated in the arena. `src` is borrowed
// for the call only.
dv_status dv_fuse_parse(dv_fuse_problem *out, const dv_source *src,
                        dv_arena *arena, dv_diag *diag);
void dv_fuse_print(dv_text *out, const dv_fuse_schedule *schedule);
#endif
