// Runs any contraction with generated kernels, as scheduled in its nest.
//
//   n 40 shared pack in1:  …      each thread runs its part of the shared loops
//   k  5 seq pack in0:     …      operands are packed in the loops marked so
//   m 48 prim:             …
//   n 40 prim:             …      one kernel for the dimensions inside, and one
//   k 384 prim:            …      for each combination of shorter last tiles
//
// A nest that is not scheduled yet goes through the passes of the list `best`
// first. All kernels are generated and all memory is allocated when the
// contraction is created: a run neither allocates nor locks nor searches.
// Results have the same bits in every run, and for any number of threads unless
// the nest says `combine`, that is unless k is summed in parts.
//
//   contract.[ch]  creates a contraction, runs the loops of a product
//   run.c          the calls that run one: products, epilogues, functions
//   layout.c       computes strides of loops, panels, buffers and partial sums
//   make.c         generates the kernels and moves that a run may need
//   types.c        chooses kernels for types other than f32 and f64
//   move.c         packs blocks of operands and writes results back
//   touch.c        runs elementwise functions, also as prologue and epilogue
//   reduce.c       runs reductions of in0 and dot products
//   ways.[ch]      the axes that touch.c and reduce.c loop over
//   sum.c          sums products without a kernel, adds partial sums
//   sum_body.h     the loops of sum.c for one element type
//   state.h        private to the folder: a contraction and its threads
#ifndef DV_CONTRACT_H
#define DV_CONTRACT_H
#include "jit/jit.h"
#include "nest/nest.h"
// Does the same as dv_contract_create, which is public (divvy.h), for callers
// that generate more kernels afterwards: code memory stays writable until they
// call dv_jit_seal().
dv_status dv_contract_create_in(dv_contract **out, dv_jit *jit,
                                const dv_nest *n,
                                const dv_contract_options *options,
                                dv_diag *diag);
// Creates a copy of a contraction that was made with the same options, with its
// own buffers. The nest is not scheduled again.
dv_status dv_contract_clone(dv_contract **out, dv_jit *jit,
                            const dv_contract *other,
                            const dv_contract_options *options, dv_diag *diag);
// Sets the bias, the values that are added to each row or column, for later
// runs of a nest with `bias`: contiguous values of the nest's type. Only plain
// GEMMs can have a bias; creating others fails with DV_E_NEST.
void dv_contract_bias(dv_contract *c, const void *values);
// Sets a callback for later runs: `then` is called with each finished block of
// results while the block is in cache, by the thread that computed it. The
// columns of a block have unit stride in the output. NULL removes the callback.
// Returns 0 if this contraction cannot call it.
typedef void (*dv_contract_block)(void *user, void *out, int32_t rows,
                                  int32_t cols);
int dv_contract_on_block(dv_contract *c, dv_contract_block then, void *user);
// Prints how the GEMM plan of a plain product tiles it, as one line without a
// newline. Prints nothing for other contractions, whose nest shows everything.
void dv_contract_describe(const dv_contract *c, dv_text *out);
#endif
