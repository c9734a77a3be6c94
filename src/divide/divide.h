// Division: chooses into how many slices each variable of an op is cut, so that
// there are at most `cores` tiles, no stick is cut, and the bytes of each
// tensor between the first and the last one that a core accesses (its span)
// stay within the target's limit.
//
//   f16 x[512, 1024] on 32 cores: i in 512 -> 32 slices of 16
//                                 j in 1024 = 16 sticks -> 1 slice
//
// There are two planners: `seed` divides as Torch-Spyre does (divisors only,
// outputs by decreasing size, at most one reduction variable), or only as far
// as the span limit requires (`--divide span`); `best` considers every division
// and takes the cheapest by plan/cost.
//
//   space.c      finds the units, limits and spans of an op
//   seed.c       divides as Torch-Spyre does
//   best.c       chooses the cheapest division of each op
//   op.c         divides one op of a caller that has no program
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
    // For each variable, the number of consecutive elements that may not be
    // separated: those of a stick (the target's unit of memory), or 1.
    int64_t eps[DV_MAX_VARS];
    // For each variable, its extent in units of eps elements (which may not be
    // separated), rounded up.
    int64_t units[DV_MAX_VARS];
    uint32_t stick_vars, reduced;
    // Bit mask of variables that may not be cut; `why` has the reasons.
    uint32_t blocked;
    const char *why[DV_MAX_VARS];
    // 1 if an access has an indirect index or a negative stride.
    int has_irregular_access;
    int64_t line; // bytes that memory transfers together
    // If cores pass operands that several of them need along a ring: the number
    // of rings, each of which reads an operand from main memory once. Otherwise
    // 0.
    int64_t shares;
    // For the planner `seed`, which divides as Torch-Spyre does: bit mask of
    // variables that the written tensor's position in memory depends on.
    uint32_t outputs;
    // Number of accesses, which is the length of the arrays below: one per read
    // in order, then the write.
    int n_tensors;
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
// the core with the longest slices may access. If `even` is set, slice lengths
// are rounded down, as Torch-Spyre counts.
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
    // For the planner `seed`: 1 if Torch-Spyre's cost model for matrix products
    // may choose the division.
    int cost;
    // For the planner `seed`: 1 to cut only what the span limit and the pins
    // (the numbers of slices that the user prescribes) require.
    int span_only;
    dv_loc at;
} dv_divide_request;

typedef struct dv_divided {
    dv_splits splits;
    // Numbers of slices that the span limit alone requires (the limit on the
    // bytes of a tensor between the first and the last one that a core
    // accesses).
    dv_splits forced;
    // 1 if Torch-Spyre's cost model for matrix products chose the division.
    int claimed;
    int64_t candidates;
    // Predicted time; negative if it was not computed, as by the planner
    // `seed`.
    double cost_us;
    dv_splits runner; // the second best division; valid if runner_up_us >= 0
    double runner_up_us;
    // Number of candidate divisions rejected because the span (bytes between
    // the first and last one that a core accesses) exceeds the target's limit.
    int64_t over_span;
} dv_divided;

// Returns the bytes of tensor i in memory that the core with the most work
// transfers: the box that it accesses, in whole sticks (the target's units of
// memory), or on the host in whole cache lines.
double dv_divide_transferred(const dv_divide_space *s, int i,
                             const dv_splits *d);
// Returns the bytes of tensor i in memory that all cores together transfer.
double dv_divide_transferred_by_all(const dv_divide_space *s, int i,
                                    const dv_splits *d);
// Returns the bytes of tensor i that pass all cores along the ring, because
// several cores need them; 0 if there is no ring.
double dv_divide_passed(const dv_divide_space *s, int i, const dv_splits *d);
// Returns the work of the core with the largest share of the op, and the
// traffic of all cores, if it is cut into these numbers of slices; if there are
// more tiles than cores, for one of the rounds in which they run.
dv_cost_work dv_divide_work(const dv_divide_space *s, const dv_target *t,
                            const dv_splits *d);
// Returns the predicted time in microseconds of an op that is cut into these
// numbers of slices (divide/best.c, plan/cost.c).
double dv_divide_cost(const dv_divide_space *s, const dv_target *t,
                      const dv_splits *d);
dv_status dv_divide_best(dv_divided *out, const dv_divide_space *s,
                         const dv_target *t, const dv_divide_request *r,
                         dv_diag *diag);
// Lists the divisions whose arithmetic takes least time, as if all operands
// were resident on the cores: at most `most`, or DV_MENU_DIVISIONS. Returns
// their number.
enum { DV_MENU_DIVISIONS = 64 };
int dv_divide_menu(dv_splits *out, int most, const dv_divide_space *s,
                   const dv_target *t, const dv_divide_request *r);
dv_status dv_divide_seed(dv_divided *out, const dv_divide_space *s,
                         const dv_divide_request *r, dv_diag *diag);

// Divides an op with the planner `method`. The fields `cost` and `span_only` of
// the request are ignored: they follow from the method.
dv_status dv_divide_by(dv_divided *out, dv_divide method,
                       const dv_divide_space *s, const dv_target *t,
                       dv_divide_request r, dv_diag *diag);
// Returns the number of rings along which cores of this target pass operands
// (the field `shares` of dv_divide_space), or 0 if they pass none.
int64_t dv_divide_shares(const dv_target *t);

// Recomputes what the plan reports about the division of op i (its costs and
// the bytes that cores access) after a later pass has changed its slices.
// `before` are the old slices.
dv_status dv_divide_refresh(dv_plan *plan, int32_t i, const int64_t *before,
                            dv_arena *work, dv_diag *diag);

// The shape of a matmul for Torch-Spyre's cost model, a fit of measured times
// (see seed.c).
typedef struct dv_matmul {
    // Extents of the batch, rows, columns and reduced dimension. n and k are
    // rounded up to whole sticks (the target's units of memory).
    int64_t b, m, n, k;
    int shared; // nonzero if all batches share the same weight matrix
} dv_matmul;
double dv_matmul_cost(const dv_matmul *mm, int64_t b, int64_t m, int64_t n,
                      int64_t k, int64_t cores);
#endif
