// Division: into how many slices each variable of an op is cut, so that at
// most `cores` slices of the box arise, no stick is cut, and what one core
// reaches of each tensor (its span) stays within the target's limit.
//
//   f16 x[512, 1024] on 32 cores: i in 512 -> 32 slices of 16
//                                 j in 1024 = 16 sticks -> 1 slice
//
// Two planners: `seed` does what Torch-Spyre does (divisors only, outputs by
// decreasing size, at most one reduced variable); `best` considers every
// division and takes the cheapest by plan/cost.
//
//   space.c      finds the units, limits and spans of an op
//   seed.c       divides as Torch-Spyre does
//   best.c       chooses the cheapest division of each op
//   pass.c       the pass "divide" and its section of the plan
#ifndef DV_DIVIDE_H
#define DV_DIVIDE_H
#include "layout/layout.h"
#include "plan/cost.h"

// An op as the planners see it.
typedef struct dv_divide_space {
    const dv_op *op;
    int n_vars;
    int64_t extent[DV_MAX_VARS];
    int64_t eps[DV_MAX_VARS];   // elements that stay together: a stick's, or 1
    int64_t units[DV_MAX_VARS]; // extent in those, rounded up
    uint32_t stick_vars, reduced;
    uint32_t blocked; // may not be cut, with the reason below
    const char *why[DV_MAX_VARS];
    int odd;          // an access goes through an index or runs backwards
    int64_t line;     // bytes that memory moves at once
    uint32_t outputs; // seed: variables of the output's device coordinates
    int n_tensors;    // reads in order, then the write
    const dv_tensor *tensors[DV_MAX_READS + 1];
    const dv_layout *layouts[DV_MAX_READS + 1];
    dv_coords *coords[DV_MAX_READS + 1];
} dv_divide_space;

typedef struct dv_splits {
    int64_t n[DV_MAX_VARS]; // slices of each variable
} dv_splits;

// Analyse an op; memory from the arena. 0 when out of memory.
int dv_space_make(dv_divide_space *s, const dv_target *t, const dv_program *p,
                  const dv_op *op, const dv_layout *layouts, dv_arena *arena);
int64_t dv_splits_cores(const dv_divide_space *s, const dv_splits *d);
// Bytes from the first to the last that the core with the longest slices may
// touch of tensor number i. `even`: slices as Torch-Spyre counts them, cut
// down to whole elements.
int64_t dv_span(const dv_divide_space *s, int i, const dv_splits *d, int even);
// The largest divisor of size that is at most limit.
int64_t dv_core_split(int64_t size, int64_t limit);

typedef struct dv_pin {
    int32_t var;
    int64_t n;
} dv_pin;

typedef struct dv_divide_request {
    int64_t cores, span_limit_bytes;
    const dv_pin *pins; // splits the user wants
    int n_pins;
    int cost; // seed: let the matmul cost model claim what it would
    dv_loc at;
} dv_divide_request;

typedef struct dv_divided {
    dv_splits splits;
    dv_splits forced; // what the span limit alone demands
    int claimed;      // by the matmul cost model
    int64_t candidates;
    double cost_us;   // of the choice; negative: seed does not price
    dv_splits runner; // the second best, when runner_us >= 0
    double runner_us;
    int64_t over_span; // candidates that the span limit ruled out
} dv_divided;

// Device bytes that the busiest core moves of tensor i: the box of device
// positions it touches, sticks whole, and on this machine lines of its caches.
double dv_divide_touched(const dv_divide_space *s, int i, const dv_splits *d);
// The share of the op that its busiest core has.
dv_cost_work dv_divide_work(const dv_divide_space *s, const dv_splits *d);
// The price of a division, in microseconds (divide/best.c, plan/cost.c).
double dv_divide_cost(const dv_divide_space *s, const dv_target *t,
                      const dv_splits *d);
dv_status dv_divide_best(dv_divided *out, const dv_divide_space *s,
                         const dv_target *t, const dv_divide_request *r,
                         dv_diag *diag);
dv_status dv_divide_seed(dv_divided *out, const dv_divide_space *s,
                         const dv_divide_request *r, dv_diag *diag);

// The slices of op i were changed by a later pass, from `before`: bring what is
// reported of the division up to date.
dv_status dv_divide_refresh(dv_plan *plan, int32_t i, const int64_t *before,
                            dv_arena *work, dv_diag *diag);

// Torch-Spyre's matmul cost in microseconds (a fit; see seed.c).
typedef struct dv_matmul {
    int64_t b, m, n, k; // sizes, n and k rounded up to sticks
    int shared;         // the weight is the same for all of the batch
} dv_matmul;
double dv_matmul_cost(const dv_matmul *mm, int64_t b, int64_t m, int64_t n,
                      int64_t k, int64_t cores);
#endif
