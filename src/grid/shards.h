// Shards of a result that the program's notes on where tensors lie demand.
#ifndef DV_GRID_SHARDS_H
#define DV_GRID_SHARDS_H
#include "plan/plan.h"

// The shards of a group's result, derived from a tensor that the program says
// is stored in shards on cores.
typedef struct dv_noted_shards {
    int32_t tensor; // -1: no note says it
    const dv_memory_note *note;
    // For each dim of the tensor: the number of shards along it, and the dim of
    // the result that it corresponds to (0: rows, 1: columns; -1: none).
    int64_t n[2];
    int along[2];
    int64_t grid[2],
        tiles[2]; // rows and columns of shards, and of tiles of one
} dv_noted_shards;

// Finds the shards of a group's result that follow from the program's notes on
// where tensors are stored; out->tensor is -1 if none do. Fails if notes of
// operands contradict each other.
dv_status dv_grid_noted(dv_noted_shards *out, const dv_plan *plan,
                        const dv_group_grid *g, dv_diag *diag);
// Assigns to each core the tiles of the result that belong to its shard.
dv_status dv_grid_place_noted(dv_plan *plan, dv_group_grid *g,
                              const dv_noted_shards *s, dv_diag *diag);
// Gets the shards of op i's result if the group assigns one shard to each core.
// Fails with the reason if it does not. *out uses `arena`.
dv_status dv_grid_of_op(dv_group_grid *out, const dv_plan *plan, int32_t group,
                        int32_t i, dv_arena *arena, dv_diag *diag);
// Fails if the options ask for a policy or order of tiles that contradicts the
// shards of the program's memory notes.
dv_status dv_grid_check_words(const dv_plan *plan, const dv_noted_shards *s,
                              const dv_plan_options *options, dv_diag *diag);
// Checks all notes on where tensors are stored against the plan's machine:
// whole tiles, cores that exist, memory that suffices.
dv_status dv_grid_check_notes(const dv_plan *plan, dv_diag *diag);
#endif
