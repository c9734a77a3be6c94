// Division: chooses into how many slices each variable of an op is cut, so that
// there are at most `cores` tiles, no stick is cut, and the bytes of each
// tensor between the first and the last one that a core accesses (its span)
// stay within the target's limit.
//
//   f16 x[512, 1024] on 32 cores: i in 512 -> 32 slices of 16
//                                 j in 1024 = 16 sticks -> 1 slice
//
// There are two planners: `seed` divides as Torch-Spyre does (divisors only,
// outputs by decreasing size, at most one reduction variable); `best` considers
// every division and takes the cheapest by plan/cost.
//
//   space.c      finds the units, limits and spans of an op
//   seed.c       divides as Torch-Spyre does
//   best.c       chooses the cheapest division of each op
//   encode.[ch]  encodes a division as Torch-Spyre does, keyed by stride
//   pass.c       the pass "divide" and its section of the plan
#ifndef DV_DIVIDE_H
#define DV_DIVIDE_H
#include "layout/layout.h"
#include "plan/cost.h"

// The properties of an op that the planners of divisions need: the extents and
// limits of its variables and the layouts of its tensors.
typedef struct dv_divide_space {
    const dv_op *op;
    int n_vars;
    int64_t extent[DV_MAX_VARS];
    // Per variable: number of consecutive elements that may not be separated:
    // those of a stick (the target's memory unit), or 1.
    int64_t eps[DV_MAX_VARS];
    int64_t units[DV_MAX_VARS]; // extent of each variable in multiples of eps,
                                // rounded up
    uint32_t stick_vars, reduced;
    uint32_t blocked; // bit set of variables that may not be cut, with the
                      // reasons in `why`
    const char *why[DV_MAX_VARS];
    int has_irregular_access; // nonzero if an access has an indirect index or a
                              // negative stride
    int64_t line;             // granularity of memory transfers in bytes
    uint32_t outputs; // used by the planner `seed`: bit set of variables in the
                      // output's device coordinates
    int n_tensors; // number of tensors accessed: one entry per read in order,
                   // then the write
    const dv_tensor *tensors[DV_MAX_READS + 1];
    const dv_layout *layouts[DV_MAX_READS + 1];
    dv_coords *coords[DV_MAX_READS + 1];
} dv_divide_space;

typedef struct dv_splits {
    int64_t n[DV_MAX_VARS]; // number of slices of each variable
} dv_splits;

// Analyses an op for the planners of divisions; memory comes from the arena.
// Returns 0 when out of memory.
int dv_divide_space_init(dv_divide_space *s, const dv_target *t,
                         const dv_program *p, const dv_op *op,
                         const dv_layout *layouts, dv_arena *arena);
int64_t dv_splits_cores(const dv_divide_space *s, const dv_splits *d);
// Returns the span of tensor i: the bytes from the first to the last one that
// the core with the longest slices may access. `even`: slices as Torch-Spyre
// counts them, with lengths rounded down to whole elements.
int64_t dv_span(const dv_divide_space *s, int i, const dv_splits *d, int even);
// Returns the largest divisor of `size` that is at most `limit`.
int64_t dv_largest_divisor(int64_t size, int64_t limit);

typedef struct dv_pin {
    int32_t var;
    int64_t n;
} dv_pin;

typedef struct dv_divide_request {
    int64_t cores, span_limit_bytes;
    const dv_pin *pins; // numbers of slices that the user prescribes
    int n_pins;
    int cost; // planner `seed` only: nonzero if Torch-Spyre's matmul cost model
              // may choose the division
    dv_loc at;
} dv_divide_request;

typedef struct dv_divided {
    dv_splits splits;
    dv_splits forced; // slices that the limit of the span (bytes between the
                      // first and last one accessed) alone requires
    int claimed;      // nonzero if the matmul cost model chose the division
    int64_t candidates;
    double cost_us; // predicted time; negative: not computed, as by the planner
                    // `seed`
    dv_splits runner; // the second best division; valid if runner_up_us >= 0
    double runner_up_us;
    // Number of candidate divisions rejected because the span (bytes between
    // the first and last one that a core accesses) exceeds the target's limit.
    int64_t over_span;
} dv_divided;

// Returns the device bytes of tensor i that the core with the most work
// transfers: the box of device positions it accesses, in whole sticks (the
// target's memory units), or on the host in whole cache lines.
double dv_divide_transferred(const dv_divide_space *s, int i,
                             const dv_splits *d);
// Returns the work of the core with the largest share of the op.
dv_cost_work dv_divide_work(const dv_divide_space *s, const dv_splits *d);
// Returns the predicted time of a division in microseconds (divide/best.c,
// plan/cost.c).
double dv_divide_cost(const dv_divide_space *s, const dv_target *t,
                      const dv_splits *d);
dv_status dv_divide_best(dv_divided *out, const dv_divide_space *s,
                         const dv_target *t, const dv_divide_request *r,
                         dv_diag *diag);
dv_status dv_divide_seed(dv_divided *out, const dv_divide_space *s,
                         const dv_divide_request *r, dv_diag *diag);

// Updates the data that the plan reports about op i's division into slices,
// after a later pass changed its slices. `before` are the old slices.
dv_status dv_divide_refresh(dv_plan *plan, int32_t i, const int64_t *before,
                            dv_arena *work, dv_diag *diag);

// The shape of a matmul for Torch-Spyre's cost model, a fit of measured times
// (see seed.c).
typedef struct dv_matmul {
    int64_t b, m, n, k; // extents of the batch, rows, columns and reduction; n
                        // and k are rounded up to sticks
    int shared;         // nonzero if all batches share the same weight matrix
} dv_matmul;
double dv_matmul_cost(const dv_matmul *mm, int64_t b, int64_t m, int64_t n,
                      int64_t k, int64_t cores);
#endif
