// Groups that run as their grid says: which they are, and the boxes of their
// tiles. A tile here is one of the machine's, 32x32 elements or so; a group's
// own tiles are the slices of its ops.
//
// A core computes its ranges, in order; a range is whole tiles, or some of the
// steps of one. Where ranges share a tile, the core with step 0 owns it: it
// adds the others' sums to its own, in rising order of steps, and stores it.
#ifndef DV_TILES_H
#define DV_TILES_H
#include "plan/order.h"
#include "plan/plan.h"

// The grid that a group runs by: the group is one op that writes its whole
// tensor, dim by dim, and any core may compute any tile. NULL: it runs as it is
// dealt.
const dv_group_grid *dv_grid_of(const dv_plan *plan, int32_t group);
// Is the reduced depth of an op in one variable, so that steps of it are a box?
int dv_one_depth(const dv_op *op);

int64_t dv_grid_core_number(const dv_plan *plan, const dv_tile_range *r);
dv_order dv_grid_order(const dv_group_grid *g);
// Tiles of a range, and number i of them as batch, row, column.
int64_t dv_range_tiles(const dv_group_grid *g, const dv_tile_range *r);
void dv_range_tile(const dv_group_grid *g, const dv_order *o,
                   const dv_tile_range *r, int64_t i, int64_t bmn[3]);
// Are its sums only parts? The range that goes on where part `at` ends, or -1.
static inline int dv_range_in_parts(const dv_group_grid *g,
                                    const dv_tile_range *r)
{
    return r->k0 > 0 || r->k1 < g->kt;
}
int32_t dv_range_next(const dv_group_grid *g, int32_t at);
// The box of steps k0..k1 of a tile. It has no slots.
void dv_grid_box(dv_tile *out, const dv_plan *plan, const dv_group_grid *g,
                 const int64_t bmn[3], int64_t k0, int64_t k1);
#endif
