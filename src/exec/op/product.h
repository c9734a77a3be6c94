// Runs ops that are sums of products of two reads with generated kernels: each
// tile of the plan becomes a contraction of its own shape.
//
//   c[m,n] = relu(sum[k] a[m,k] * b[k,n])    m 0..1000 cut by 512
//
//   tile 0: m 512, n, k     tile 1: m 488, n, k      two contractions
//
// A kernel writes its results directly to the output tensor if the epilogue is
// at most a bias (one value per row or column) and relu. Any other epilogue is
// an op of its own (epilogue.h) that runs block by block as blocks of sums are
// completed; the sums wait in the output tensor if it has their type, else in a
// buffer. The epilogue of partial sums is run by the op's vector kernel.
//
// All tiles add their products in the order that the plan specifies for the op
// (nest/sums.h), so that results do not depend on the tiling. Integers are
// summed in i32 if that is exact (vec_range.h). Operands of another type are
// first widened into the thread's memory or, if the plan says `pairs`,
// multiplied in their own type by matrix instructions for bf16 and i8.
//
// Factors that are constants are copied and packed once, before the first run,
// if the plan says so (`once`). Of factors that several tiles in succession
// read, such as the keys and the values of attention, each thread holds a
// packed copy (`hold`).
//
// Ops of the same shape share contractions, and threads share them, too: what
// changes during a run is in the thread's workspace. All contractions are
// created before the first run.
#ifndef DV_PRODUCT_H
#define DV_PRODUCT_H
#include "contract/contract.h"
#include "exec/constants.h"
#include "exec/op/vec_op.h"

typedef struct dv_product dv_product;

// The contractions of an exec and the nests they were created from.
typedef struct dv_product_set {
    dv_contraction **at; // the contractions; owned
    const dv_nest **of;
    int32_t n, cap;
    // Cache sizes of a core; 0: unknown.
    int64_t l1_bytes, l2_bytes, l3_bytes;
} dv_product_set;
void dv_product_set_free(dv_product_set *s);

typedef struct dv_product_spec {
    const dv_plan *plan;
    const dv_kernel *kernel;
    // The vector kernels that add up partial sums and compute the results from
    // them; NULL: there are none.
    const dv_vec_op *vec;
    int32_t op;
    int parts; // 1 if tiles compute partial sums
    // The op's schedule in the plan, which must be obeyed; NULL: chosen here.
    const dv_op_schedule *as;
    // 1 if the product is only described, never run. Loops of tiles that `as`
    // lacks are then chosen.
    int probing;
    // What the user prescribes. `wanted` is 1 if the op is to be a product even
    // if a vector kernel seems faster.
    int wanted;
    const dv_schedule_pins *pins;
    // 1 if constants are packed in every run, whatever the schedule says,
    // because the calls of kernels are being recorded.
    int packs_again;
    // The address of the pointer to the results that execs share
    // (dv_exec.results).
    dv_packed *const *once;
    dv_jit *jit;
    dv_arena *arena;
} dv_product_spec;

// Creates a product (the execution of an op as contractions); *out is NULL if
// the op is not a sum of products or has no kernels.
dv_status dv_product_create(dv_product **out, const dv_product_spec *spec,
                            dv_diag *diag);
// Returns the largest workspace that a prepared tile needs: for sums, for
// copied operands and for its contraction.
int64_t dv_product_workspace(const dv_product *p);
// Returns the type in which the factors are multiplied.
dv_dtype dv_product_type(const dv_product *p);
// Writes the product's schedule to *out, in the form of a plan's schedule; all
// its tiles must be prepared. If an epilogue runs separately, the members for
// vector kernels are set too.
void dv_product_describe(const dv_product *p, dv_op_schedule *out);
// Returns the bytes of the constants that are copied and packed before the
// first run, for all tiles that were prepared.
int64_t dv_product_once_bytes(const dv_product *p);
// Returns whether all prepared tiles have read number `read` of the op copied
// or packed before the first run, so that runs do not read its tensor.
int dv_product_packs(const dv_product *p, int read);
// Packs the constants that a tile reads, unless they are packed already; `at`
// holds addresses as in dv_product_run.
dv_status dv_product_pack(const dv_product *p, const dv_tile *t,
                          void *const *at, dv_diag *diag);
// Releases the packed elements of a tensor; -1: of all tensors.
void dv_product_unpack(const dv_product *p, int32_t tensor);
// Makes an epilogue that was fused into the kernel run separately, because some
// tile has no kernel with it; all tiles must be prepared again. Returns 0 if it
// is not fused or the plan demands it.
int dv_product_unfuse(dv_product *p);
// Makes threads hold the factors of a mask: pack them into memory of their own,
// and keep that for the following tiles as long as these read the same
// elements. Constants and factors that are copied are not held. Returns 1 if
// that changes the mask; all tiles must then be prepared again.
int dv_product_hold(dv_product *p, int factors);
// Returns the mask of the factors that threads hold, which are those that the
// kernels of some prepared tile pack, and sets *most_bytes to the bytes of the
// larger one.
int dv_product_held(const dv_product *p, int64_t *most_bytes);
// Places the held factors at byte `at` of a thread's memory for them. Returns
// where they end.
int64_t dv_product_place_held(dv_product *p, int64_t at);
// Makes the thread with this memory pack the factors again in its next tile.
void dv_product_forget(const dv_product *p, void *held);
// Creates the contraction of a tile; must precede the first run. DV_E_LIMIT:
// there is no such kernel.
dv_status dv_product_prepare(dv_product *p, const dv_tile *t,
                             dv_product_set *set, dv_diag *diag);
// Creates contractions for a tile that dv_product_prepare has prepared, each of
// which computes only the first n values of variable skip->var, for every
// multiple n of skip->by. They have the loops of the whole tile's contraction.
// DV_E_LIMIT: the product cannot do that.
dv_status dv_product_skip(dv_product *p, const dv_tile *t, const dv_skip *skip,
                          dv_product_set *set, dv_diag *diag);
// What a thread has for a tile: the addresses of element 0 of each read and of
// the write, and its memory for the run of a tile and for factors that it
// holds.
typedef struct dv_product_room {
    void *const *at;
    void *workspace, *held;
} dv_product_room;
// Computes a tile: all of it or, if tiles are partial sums, only its
// accumulators, which go to `acc`.
void dv_product_run(const dv_product *p, const dv_tile *t,
                    const dv_product_room *in, void *acc);
#endif
