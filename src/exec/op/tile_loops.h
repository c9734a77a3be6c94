// The loops of a product's tile: from its nest to the plan's section `schedule`
// when they are chosen, and back when they are obeyed.
#ifndef DV_TILE_LOOPS_H
#define DV_TILE_LOOPS_H
#include "contract/contract.h"
#include "plan/plan.h"

// Describes the loops and choices of a contraction; all but `shorts` is set.
dv_status dv_tile_loops_describe(dv_tile_schedule *out, const dv_contraction *c,
                                 dv_arena *arena, dv_diag *diag);
// Replaces the loops over these variables, of which a tile has `extent` values,
// by an outermost loop over blocks of `size` values and the innermost of them,
// which runs over one block. Returns 0 if no loop runs over just these.
int dv_tile_loops_cut(dv_tile_schedule *s, uint32_t vars, int64_t size,
                      int64_t extent, dv_arena *arena);
// Gives a nest with one dimension per variable of a tile the loops that the
// plan says. Returns 0 if variables that run as one are not contiguous in an
// operand, or k would be summed in another order than `sums`.
int dv_tile_loops_apply(dv_nest *n, const dv_tile_schedule *as,
                        const dv_sum_order *sums);
// Returns what the plan says besides the loops.
dv_contraction_choices dv_tile_loops_choices(const dv_tile_schedule *as);
#endif
