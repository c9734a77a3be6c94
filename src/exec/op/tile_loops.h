// The loops of a product's tile: from its nest to the plan's section `schedule`
// when they are chosen, and back when they are obeyed.
#ifndef DV_TILE_LOOPS_H
#define DV_TILE_LOOPS_H
#include "contract/contract.h"
#include "plan/plan.h"

// Describes the loops and choices of a contraction as the plan's schedule does;
// sets all of *out but `shorts`.
dv_status dv_tile_loops_describe(dv_tile_schedule *out, const dv_contraction *c,
                                 dv_arena *arena, dv_diag *diag);
// Splits the loop over these variables, of which a tile has `extent` values,
// into an outermost loop over blocks of `size` values and the innermost
// existing loop, which then runs over one block. Returns 0 if no loop has just
// these variables.
int dv_tile_loops_cut(dv_tile_schedule *s, uint32_t vars, int64_t size,
                      int64_t extent, dv_arena *arena);
// Replaces the dimensions of a nest, one per variable of a tile, by the loops
// in the plan. Returns 0 if variables that run as one are not contiguous in an
// operand, or k would be summed in another order than `sums`.
int dv_tile_loops_apply(dv_nest *n, const dv_tile_schedule *as,
                        const dv_sum_order *sums);
// Returns what the plan says of a tile in addition to its loops.
dv_contraction_choices dv_tile_loops_choices(const dv_tile_schedule *as);
#endif
