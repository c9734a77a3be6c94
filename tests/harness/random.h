// Random machines and random divisions of plans.
#ifndef DV_TESTS_RANDOM_H
#define DV_TESTS_RANDOM_H
#include "harness/gen.h"
#include "plan/plan.h"

// Makes a machine of 1 to 64 cores, often on a grid with holes, with sticks of
// 32 to 256 bytes, scratchpads too small for most tensors, and span limits that
// many ops would exceed.
void random_target(rng *r, dv_target *t);

// Slices the variables of an op at random; reduced ones only if `parts`, since
// partial sums that are combined later round differently. The loops of the
// tiles of a product are forgotten. Returns the op's number of tiles.
int64_t random_slices(rng *r, dv_plan *plan, int32_t op, int parts);
// Deals n tiles of a group in random ranges, in random order, to random cores.
void random_deal(rng *r, dv_plan *plan, dv_group *g, int64_t n);
// Merges neighbouring groups with equal numbers of tiles at random, wherever
// the checker accepts the result.
void random_merge(rng *r, dv_plan *plan);
#endif
