// In which order the products of an op are added up, whatever tile they are in.
//
//   c[m,n] = sum[k] a[m,k] * b[k,n]   over 1024 x 1024 x 1024
//
//   nest {
//       0: outer { # c
//           k   2 seq                 2 blocks of k
//           k 512 of 1024 prim        one chain of 512 multiply-adds in each
//       }
//   }
//
// The levels of k are loops around the kernel, then what is inside it. An
// element of the result is the sum of its blocks, in the order in which the
// loops go over them; a block's sum starts at zero and is
//
//   outer   one chain of multiply-adds in the order of the levels inside
//   dot     a chain in each lane of a vector along the last level, which are
//           added up at the end
//   pairs   a chain of matrix instructions over all that is inside, as one
//           sequence filled up with zeros. Of bf16, NEON's takes four products:
//           each is exact, the two of a pair are added and then added to the
//           sum, each addition rounded to odd in f32 (so that it is within one
//           unit in the last place, where a nearest one is within a half),
//           numbers below the least normal one being 0; those of AVX-512 and
//           AMX add pair by pair. Of i8, one takes eight or more, exact in
//           i32.
//
// and the first block is stored, the others are added to what is there (with
// AMX, their chain goes on from it). All else (what are rows and columns,
// how m and n are cut, what is packed, the order of their loops around those
// of k) is each tile's own affair: no number depends on it. So results are
// the same for any tiles, and for any number of threads, unless k itself is
// cut into slices.
#ifndef DV_SUMS_H
#define DV_SUMS_H
#include "nest/best.h"
#include "plan/plan.h"

// What a core has that the choice depends on.
typedef struct dv_sums_machine {
    dv_nest_caches caches;
    int64_t vector_bytes;
    int matrix; // instructions for small matrices of bf16 and i8
} dv_sums_machine;
dv_sums_machine dv_sums_machine_of(const dv_target *t);

// Choose it for an op of a lowered program, as if all of it were one tile.
// *found is 0 for an op that is no sum of products of floats, or of integers of
// at most 32 bits. Levels are the arena's.
dv_status dv_sums_choose(dv_sums *out, int *found, const dv_program *p,
                         int32_t op, const dv_sums_machine *machine,
                         dv_arena *arena, dv_diag *diag);
// Does a factor of such an op serve several results? If not, one pass over
// memory is better than a product; as it is if one does and the other is gone
// over by a small window, or finds elements again, and for small products whose
// elements lie side by side.
int dv_sums_reuse(const dv_program *p, const dv_op *o);
// The type of a dimension by the operands that it steps in; -1: there is none.
int dv_sums_type(const int64_t *stride);
// The one of an op in a plan; NULL: the plan does not say.
const dv_sums *dv_sums_find(const dv_plan *plan, int32_t op);

// Bring the k of a tile's nest into that order. Each dimension of `n` is a
// variable of the op, whose number is in `off`; none is cut. A tile may have
// less of a variable than the op: its blocks are then cut short. 0: this nest
// cannot be brought into that order.
int dv_sums_apply(const dv_sums *s, dv_nest *n);
// Lay the other dimensions out, k being in order (the passes of `best` for one
// thread). *block is 0; or k is one dimension of a plain product again, that is
// summed in blocks of so many.
dv_status dv_sums_lay(dv_nest *n, int64_t *block,
                      const dv_nest_options *options, dv_diag *diag);

// -- Between sums.c and sums_lay.c -------------------------------------------

// One m and one n beside the one k in the kernel, the largest that can be read
// and written in place; 0: it has more than one k.
int dv_sums_lay_narrow(dv_nest *n, int64_t *block);
#endif
