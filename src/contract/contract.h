// Runs contractions: nests that are products, with generated kernels and the
// loops of the nest.
//
//   n 40 seq pack in1:     …      operands are packed in the loops marked so
//   k  5 seq pack in0:     …
//   m 48 prim:             …
//   n 40 prim:             …      one kernel for the dimensions inside, and one
//   k 384 prim:            …      for each combination of shorter last tiles
//
// A nest that is not scheduled yet goes through the passes of the list `best`
// first. All kernels are generated and all memory is allocated when the
// contraction is created: a run neither allocates nor locks nor searches.
// Results have the same bits in every run.
//
// A contraction runs on the calling thread. Other nests, and nests for several
// threads, run as programs of one op (exec/nest.c, which also has the public
// calls for all nests).
//
//   contract.[ch]  creates a contraction, runs its loops
//   layout.c       computes strides of loops, panels and buffers
//   make.c         generates the kernels and moves that a run may need
//   move.c         packs blocks of operands and writes results back
//   state.h        private to the folder: a contraction
#ifndef DV_CONTRACT_H
#define DV_CONTRACT_H
#include "jit/jit.h"
#include "nest/nest.h"

typedef struct dv_contraction dv_contraction;

// Returns whether a nest as users write it can be a contraction: a product of
// f32 or f64 alone, with a prologue and an epilogue that are part of its
// kernels. (Nests for the tiles of an op may also have the fields that are not
// in a nest's text, such as `narrow`.)
int dv_contraction_suits(const dv_nest *n);
// Prepares a product to run. The nest is copied; `jit` is borrowed until
// dv_contraction_destroy (NULL: the contraction has its own), and its code
// memory stays writable until the caller calls dv_jit_seal(). The number of
// threads in `options` is not used. Fails with DV_E_LIMIT if the nest leaves no
// dimension to a kernel, or is too large.
dv_status dv_contraction_create(dv_contraction **out, dv_jit *jit,
                                const dv_nest *n,
                                const dv_contract_options *options,
                                dv_diag *diag);
// Does the same for a contraction that is described, but not run: no memory is
// mapped for its buffers.
dv_status dv_contraction_try(dv_contraction **out, dv_jit *jit,
                             const dv_nest *n,
                             const dv_contract_options *options, dv_diag *diag);
// What is chosen for a contraction beside the loops of its nest.
typedef struct dv_contraction_choices {
    int gemm; // 1 if a GEMM plan (jit/gemm/) runs the dimensions of the kernel
    // The rows and the elements of k of the blocks that a GEMM plan packs; 0 if
    // it reads its operands in place.
    int64_t m_block, k_block;
    int streams; // 1 if stores bypass the caches
    int stages;  // 1 if each kernel call copies the rows of the next one
} dv_contraction_choices;
dv_contraction_choices dv_contraction_chosen(const dv_contraction *c);
// Prepares a product to run with the loops of `n`, which is scheduled and whose
// k dimensions have the order that is wanted, and with these choices, as far as
// there are kernels for them: the caller compares dv_contraction_chosen.
dv_status dv_contraction_obey(dv_contraction **out, dv_jit *jit,
                              const dv_nest *n,
                              const dv_contraction_choices *as,
                              const dv_contract_options *options,
                              dv_diag *diag);
void dv_contraction_destroy(dv_contraction *c);
// These do what the public calls dv_contract_* do (divvy/nest.h).
void dv_contraction_run(dv_contraction *c, const void *in0, const void *in1,
                        void *out);
const dv_nest *dv_contraction_nest(const dv_contraction *c);
// Sets the bias, the values that are added to each row or column, for later
// runs of a nest with `bias`: contiguous values of the nest's type. Only plain
// GEMMs can have a bias; creating others fails with DV_E_NEST.
void dv_contraction_bias(dv_contraction *c, const void *values);
// Sets a callback for later runs: `then` is called with each finished block of
// results while the block is in cache, by the thread that computed it. The
// columns of a block have unit stride in the output. NULL removes the callback.
// Returns 0 if this contraction cannot call it.
typedef void (*dv_contraction_block)(void *user, void *out, int32_t rows,
                                     int32_t cols);
int dv_contraction_on_block(dv_contraction *c, dv_contraction_block then,
                            void *user);
// Prints how the GEMM plan of a plain product tiles it, or that the loops of
// the nest call the kernels, as one line without a newline.
void dv_contraction_describe(const dv_contraction *c, dv_text *out);
#endif
