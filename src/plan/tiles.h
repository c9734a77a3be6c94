// Groups (ops that share one tile space) whose tiles are assigned to cores by a
// dv_group_grid instead of by deals (ranges of tiles per core): which groups
// these are, and the boxes of their tiles. A tile here is one of the machine's,
// e.g. 32x32 elements, whereas a group's own tiles are the slices of its ops.
//
// A core computes its ranges in order; a range is whole tiles, or some of the k
// steps of one tile. If several ranges share a tile, the core with step 0 owns
// it: it adds the partial sums of the other cores to its own, in ascending
// order of steps, and stores the result.
#ifndef DV_TILES_H
#define DV_TILES_H
#include "plan/order.h"
#include "plan/plan.h"

// Returns the grid by which a group (ops that share one tile space) runs, or
// NULL if the group runs by its deals (ranges of tiles per core). With a grid,
// the group is one op that writes its whole tensor, one variable per dim, and
// any core may compute any tile.
const dv_group_grid *dv_grid_of(const dv_plan *plan, int32_t group);
// Returns whether at most one reduced variable of the op has more than one
// value, so that a part of the reduction is a range of that variable.
int dv_single_reduction_var(const dv_op *op);

int64_t dv_grid_core_number(const dv_plan *plan, const dv_tile_range *r);
dv_order dv_grid_order(const dv_group_grid *g);
// dv_range_tiles returns the number of tiles of a core's range; dv_range_tile
// the batch, row and column of tile number i of it.
int64_t dv_range_tiles(const dv_group_grid *g, const dv_tile_range *r);
void dv_range_tile(const dv_group_grid *g, const dv_order *o,
                   const dv_tile_range *r, int64_t i, int64_t bmn[3]);
// dv_range_is_partial returns whether a core's range covers only a part of the
// sum of its tile; dv_range_next returns the range (usually of another core)
// that continues the sum where range `at` ends, or -1.
static inline int dv_range_is_partial(const dv_group_grid *g,
                                      const dv_tile_range *r)
{
    return r->k0 > 0 || r->k1 < g->kt;
}
int32_t dv_range_next(const dv_group_grid *g, int32_t at);
// Computes the ranges of the op's variables for steps k0..k1 of the reduction
// of a tile. out->slot and out->n_slots are not set.
void dv_grid_box(dv_tile *out, const dv_plan *plan, const dv_group_grid *g,
                 const int64_t bmn[3], int64_t k0, int64_t k1);
#endif
