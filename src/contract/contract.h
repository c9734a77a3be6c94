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
// first. All kernels are generated when the contraction is created, and the
// caller of a run provides the memory for packed operands: a run neither
// allocates nor locks nor searches, and several threads can run one contraction
// at the same time. Results have the same bits in every run.
//
// A run uses the calling thread. Other nests, and nests for several
// threads, run as programs of one op (exec/nest.c, which also has the public
// calls for all nests).
//
//   contract.[ch]  creates a contraction, runs its loops
//   layout.c       computes strides of loops, panels and buffers
//   make.c         generates the kernels and moves that a run may need
//   move.c         packs blocks of operands and writes results back
//   once.c         packs inputs that never change, once for all runs
//   state.h        private to the folder: a contraction
#ifndef DV_CONTRACT_H
#define DV_CONTRACT_H
#include "jit/gemm/gemm.h"
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
// The choices of a contraction that are not loops of its nest.
typedef struct dv_contraction_choices {
    int gemm; // 1 if a GEMM plan (jit/gemm/) runs the dimensions of the kernel
    // The rows and the elements of k of the blocks that a GEMM plan packs; 0 if
    // it reads its operands in place.
    int64_t m_block, k_block;
    int streams; // 1 if stores bypass the caches
    int stages;  // 1 if each kernel call copies the rows of the next one
} dv_contraction_choices;
dv_contraction_choices dv_contraction_chosen(const dv_contraction *c);
// Returns whether a run does nothing but call kernels. If not, it also copies
// an operand by other code.
int dv_contraction_only_calls(const dv_contraction *c);
// Prepares a product to run with the loops of `n`, which is already scheduled
// and has its k dimensions in the order of summation, and with the choices
// `as`. Those without a kernel are replaced; the caller detects it by
// dv_contraction_chosen.
dv_status dv_contraction_obey(dv_contraction **out, dv_jit *jit,
                              const dv_nest *n,
                              const dv_contraction_choices *as,
                              const dv_contract_options *options,
                              dv_diag *diag);
void dv_contraction_destroy(dv_contraction *c);
const dv_nest *dv_contraction_nest(const dv_contraction *c);
// Returns the bytes of the workspace of a run.
int64_t dv_contraction_workspace(const dv_contraction *c);
// dv_contraction_once returns the mask of the inputs that are packed before the
// first run: those that never change and that each run would otherwise pack.
// dv_contraction_once_bytes returns the packed bytes of one (0: not in the
// mask).
int dv_contraction_once(const dv_contraction *c);
int64_t dv_contraction_once_bytes(const dv_contraction *c, int operand);
// Returns whether dv_contraction_pack can pack an input without allocating
// memory, so that a run may call it.
int dv_contraction_packs_in_run(const dv_contraction *c, int operand);
// Packs an input that is in the mask of dv_contraction_once. `from` is the
// address that a run would get; `to` must begin at a cache line.
dv_status dv_contraction_pack(const dv_contraction *c, int operand,
                              const void *from, void *to, dv_diag *diag);
// Returns whether a run announces each block of results when it is finished
// (dv_block), and not only the end of the run.
int dv_contraction_has_blocks(const dv_contraction *c);

// The operands of a run. `workspace` begins at a cache line. `bias` is used by
// nests that have one: contiguous values of the nest's type, which are added to
// each row or column. Only plain GEMMs can have a bias; creating others fails
// with DV_E_NEST.
typedef struct dv_contraction_args {
    const void *in0, *in1;
    void *out, *workspace;
    const void *bias;
    // The inputs that were packed before (dv_contraction_once); the addresses
    // in0 and in1 of these need not be valid.
    const void *packed[2];
} dv_contraction_args;
// The position at which the current iteration of a loop begins. All fields of
// this structure and the next are private to contract/.
typedef struct ct_spot {
    // Addresses of the operands: in the tensors or, inside the loop that packs
    // an operand, in the workspace.
    unsigned char *at[DV_N_OPERANDS];
    // The address of the next block to be read of the operand that kernels
    // prefetch; they prefetch this block.
    const unsigned char *next;
    // Whether this is the first block of k (the summed dimension) that is added
    // to its results, and whether it is the last.
    int first, last;
} ct_spot;
// The state of a run: its position in the loops of the nest.
typedef struct dv_contraction_cursor {
    const dv_contraction *c;
    void *out;
    const void *bias;
    unsigned char *buffer[DV_N_OPERANDS]; // packed operands
    const unsigned char *packed[2];       // those packed before the first run
    // Position of each loop, in elements of its untiled dimension, the number
    // of its current iteration, and the number of its iterations.
    int64_t at[DV_NEST_MAX_DIMS], i[DV_NEST_MAX_DIMS + 1], n[DV_NEST_MAX_DIMS];
    // spot[l] is where the current iteration of loop l begins; `next`, `first`
    // and `last` are those of all iterations of it. The spot after the last
    // loop is that of the kernel call.
    ct_spot spot[DV_NEST_MAX_DIMS + 1];
    // If each kernel call copies the rows of the next one: the half (0 or 1) of
    // the row buffer that was filled last, and from where; NULL: not yet.
    int32_t half;
    int32_t ended; // 1 after the last iteration of all loops
    const unsigned char *brought;
    dv_gemm_cursor gemm; // the run of the GEMM plan, if the nest has one
    unsigned char *gemm_workspace;
} dv_contraction_cursor;

void dv_contraction_run(const dv_contraction *c,
                        const dv_contraction_args *args);
// Runs a contraction in steps. dv_contraction_next runs until the next block of
// results is finished, sets *finished to it and returns 1. If no block is left,
// it runs to the end and returns 0; without dv_contraction_has_blocks, the
// first call runs everything.
void dv_contraction_begin(dv_contraction_cursor *t, const dv_contraction *c,
                          const dv_contraction_args *args);
int dv_contraction_next(dv_contraction_cursor *t, dv_block *finished);
// Prints how the GEMM plan of a plain product tiles it, or that the loops of
// the nest call the kernels, as one line without a newline.
void dv_contraction_describe(const dv_contraction *c, dv_text *out);
#endif
