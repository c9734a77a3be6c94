// Any contraction, run by generated kernels as its nest says.
//
//   n 40 shared pack in1:  …      each thread its part of the shared loops
//   k  5 seq pack in0:     …      copies into buffers where it is marked
//   m 48 prim:             …
//   n 40 prim:             …      one kernel for what is inside, one more for
//   k 384 prim:            …      each way in which tiles are cut short
//
// A nest that was not laid out yet goes through the passes `best` first. All
// kernels are made and all memory is had when the contraction is made: a run
// allocates nothing, locks nothing, looks nothing up. Results are the same to
// the bit from run to run, and for any number of threads unless the nest says
// `combine`, where k is summed in parts.
//
//   contract.[ch]  creates a contraction, runs the loops of a product
//   run.c          the calls that run one: products, epilogues, functions
//   layout.c       computes steps of loops, panels, buffers and partial sums
//   make.c         generates the kernels and moves that a run may need
//   types.c        chooses kernels for types other than f32 and f64
//   move.c         packs blocks of operands and writes results back
//   touch.c        runs elementwise functions, also as prologue and epilogue
//   reduce.c       runs reductions of in0 and dot products
//   ways.[ch]      the axes that touch.c and reduce.c loop over
//   sum.c          sums without a kernel, adds up partial sums
//   sum_body.h     both sums for one type
//   state.h        private to the folder: a contraction and its threads
#ifndef DV_RUN_CONTRACT_H
#define DV_RUN_CONTRACT_H
#include "jit/jit.h"
#include "nest/nest.h"
// The calls are public: divvy.h has them. Between the files of this folder:
// dv_contract_create for those who make more kernels afterwards: the code stays
// writable until they call dv_jit_seal().
dv_status dv_contract_create_in(dv_contract **out, dv_jit *jit,
                                const dv_nest *n,
                                const dv_contract_options *options,
                                dv_diag *diag);
// The same as another, which was made with these options, but with memory of
// its own. It is not laid out again.
dv_status dv_contract_like(dv_contract **out, dv_jit *jit,
                           const dv_contract *other,
                           const dv_contract_options *options, dv_diag *diag);
// A nest with bias, which only plain products have (DV_E_NEST otherwise): the
// values for runs behind this, one beside the other, of the nest's type.
void dv_contract_bias(dv_contract *c, const void *values);
// For runs behind this: call `then` with each block of results that is done,
// while it is near, by the thread that has done it; rows are what out has no
// unit stride along. 0: this contraction does not. NULL: no more.
typedef void (*dv_contract_block)(void *user, void *out, int32_t rows,
                                  int32_t cols);
int dv_contract_then(dv_contract *c, dv_contract_block then, void *user);
// How a plain product is cut inside its kernel, in a line without its end;
// nothing of what else is shown by the nest.
void dv_contract_tell(const dv_contract *c, dv_text *out);
#endif
