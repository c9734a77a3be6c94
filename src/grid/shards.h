// Shards of a result that the program's notes on where tensors lie demand.
#ifndef DV_GRID_SHARDS_H
#define DV_GRID_SHARDS_H
#include "plan/plan.h"

// The shards of a group's result that belong to the shards of a tensor.
typedef struct dv_noted_shards {
    int32_t tensor; // -1: no note says it
    const dv_memory_note *note;
    // For each dim of the tensor: the number of its shards, and the dim of the
    // result that it runs along (0: rows, 1: columns); -1: none.
    int64_t n[2];
    int along[2];
    int64_t grid[2],
        tiles[2]; // rows and columns of shards, and of tiles of one
} dv_noted_shards;

// Finds the shards into which the program's notes cut the result of a group;
// out->tensor is -1 if no note does. Fails if notes of operands contradict each
// other.
dv_status dv_grid_noted(dv_noted_shards *out, const dv_plan *plan,
                        const dv_group_grid *g, dv_diag *diag);
// Gives each core the tiles of the result that belong to its shard.
dv_status dv_grid_place_noted(dv_plan *plan, dv_group_grid *g,
                              const dv_noted_shards *s, dv_diag *diag);
// Gets the shards of op i's result, in a group whose deal gives each core one,
// in `arena`; fails with the reason why there are none.
dv_status dv_grid_of_op(dv_group_grid *out, const dv_plan *plan, int32_t group,
                        int32_t i, dv_arena *arena, dv_diag *diag);
// Fails if the options' policy or order contradict shards.
dv_status dv_grid_check_words(const dv_plan *plan, const dv_noted_shards *s,
                              const dv_plan_options *options, dv_diag *diag);
// Checks the notes of all tensors for the plan's machine: whole tiles, cores
// that exist, memory that suffices.
dv_status dv_grid_check_notes(const dv_plan *plan, dv_diag *diag);
#endif
