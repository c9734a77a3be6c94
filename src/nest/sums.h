// The order in which the products of an op are summed, independent of tiles.
//
//   c[m,n] = sum[k] a[m,k] * b[k,n]   over 1024 x 1024 x 1024
//
//   schedule {
//       …
//       0: product outer { # c
//           k   2 seq                 2 blocks of k
//           k 512 of 1024 prim        one chain of 512 multiply-adds in each
//       }
//   }
//
// The levels of k are first loops around the kernel, then the k dimensions
// inside the kernel. An element of the result is the sum of the partial sums of
// its blocks of k, in the order of the loops. The partial sum of a block starts
// at zero and is computed as
//
//   outer   one chain of multiply-adds in the order of the levels inside
//   dot     one chain in each lane of a vector along the last level; the lanes
//           are added at the end
//   pairs   a chain of matrix instructions over all k inside, as one sequence
//           padded with zeros. For bf16, an instruction of NEON takes four
//           products: each product is exact, the two of a pair are added and
//           then added to the sum, each addition rounded to odd in f32 (an
//           error below one unit in the last place, where round-to-nearest has
//           half a unit), with subnormal numbers flushed to 0; the instructions
//           of AVX-512 and AMX add pair by pair. For i8, an instruction takes
//           eight products or more, which is exact in i32.
//
// The partial sum of the first block is stored, those of later blocks are added
// to it (with AMX, their chain continues from it). Nothing else changes the
// bits of a result: each shape of tiles has its own choice of which dimensions
// are rows and columns, how m and n are tiled, what is packed and how these
// loops are ordered around the loops of k (the lines `tile` of the section). So
// results are identical for any tiles and any number of threads, unless k
// itself is cut into slices.
#ifndef DV_SUMS_H
#define DV_SUMS_H
#include "nest/best.h"
#include "plan/plan.h"

// The properties of a core that the choice of a summation order depends on.
typedef struct dv_sums_machine {
    dv_nest_caches caches;
    int64_t vector_bytes;
    int matrix; // the core has matrix instructions for bf16 and i8
    int dots;   // the core has instructions for products of i8
} dv_sums_machine;
dv_sums_machine dv_sums_machine_of(const dv_target *t);

// Chooses the summation order of an op of a lowered program, as if the whole op
// were one tile. *found is set to 0 if the op is not a sum of products of
// floats, or of integers of at most 32 bits. The levels are allocated in the
// arena.
dv_status dv_sums_choose(dv_sum_order *out, int *found, const dv_program *p,
                         int32_t op, const dv_sums_machine *machine,
                         dv_arena *arena, dv_diag *diag);
// Returns whether an op that is a sum of products reuses its factors enough to
// be run as a GEMM. If not, one pass over memory is faster: when no factor is
// used for several results; when only one is and the other is read by a small
// window or with overlaps; and for small products whose elements are contiguous
// across a batch. dv_sums_why_not_gemm returns the reason, or NULL if a GEMM is
// worth it.
int dv_sums_worth_gemm(const dv_program *p, const dv_op *o);
const char *dv_sums_why_not_gemm(const dv_program *p, const dv_op *o);
// Returns the summation order of an op that the plan schedules as a product;
// NULL for other ops.
const dv_sum_order *dv_sums_find(const dv_plan *plan, int32_t op);

// Tiles and orders the k dimensions of a tile's nest as the summation order
// says. Each dimension of `n` is an untiled variable of the op; its field `off`
// holds the number of the variable. A tile may have a smaller extent than the
// op, which cuts its blocks short. Returns 0 if the nest cannot have that
// order.
int dv_sums_apply(const dv_sum_order *s, dv_nest *n);
// Schedules the m, n and c dimensions of a nest whose k dimensions are already
// in order, with divvy's own passes (the list `best`) for one thread. *block is
// set to 0; or, if k is one dimension of a plain GEMM again, to the length of
// the blocks in which that GEMM must sum k.
dv_status dv_sums_schedule(dv_nest *n, int64_t *block,
                           const dv_nest_options *options, dv_diag *diag);

// Only sums.c and sums_lay.c use the function below.

// Puts the largest m and n that can be accessed in place into the kernel,
// besides its one k. *block is set as dv_sums_schedule does: to the length of
// the blocks in which k must be summed, or 0. Returns 0 if the nest has more
// than one k in the kernel.
int dv_sums_schedule_narrow(dv_nest *n, int64_t *block);
#endif
