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
#ifndef DV_RUN_CONTRACT_H
#define DV_RUN_CONTRACT_H
#include "jit/jit.h"
#include "nest/nest.h"

typedef struct dv_contract dv_contract;

typedef struct dv_contract_options {
    int32_t threads;                      // 0 means 1
    int64_t l1_bytes, l2_bytes, l3_bytes; // of a core; 0: a common size
    int as_is;                            // the nest is laid out: no passes
} dv_contract_options;

// Borrows `jit`, copies the nest. DV_E_NEST when the nest is no product, its
// touches are not none, zero, copy (first), none, copy, relu (last), or it is
// as_is and has no form a kernel is made for.
dv_status dv_contract_create(dv_contract **out, dv_jit *jit, const dv_nest *n,
                             const dv_contract_options *options, dv_diag *diag);
void dv_contract_destroy(dv_contract *c);

// Run with the contraction's threads (through OpenMP where it was compiled in,
// else one after the other). Pointers are to the elements where all indices
// are 0. There is one set of buffers: one run at a time.
void dv_contract_run(dv_contract *c, const void *in0, const void *in1,
                     void *out);

// For callers with threads of their own: the parts of all threads in any
// order; then, if there are two phases and all parts are done, what combines
// their sums, in any order too.
int32_t dv_contract_threads(const dv_contract *c);
int dv_contract_phases(const dv_contract *c); // 1 or 2
void dv_contract_part(dv_contract *c, int32_t thread, const void *in0,
                      const void *in1, void *out);
void dv_contract_combine(dv_contract *c, int32_t thread, void *out);

const dv_nest *dv_contract_nest(const dv_contract *c); // as it is run
#endif
