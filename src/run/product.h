// Ops that are sums of products of two reads, run by generated kernels: each
// tile of the plan is a contraction of its own shape.
//
//   c[m,n] = relu(sum[k] a[m,k] * b[k,n])    m 0..1000 cut by 512
//
//   tile 0: m 512, n, k     tile 1: m 488, n, k      two contractions
//
// A thread has its own contractions, because they have buffers; ops of the
// same shape share them. All are made before the first run.
#ifndef DV_PRODUCT_H
#define DV_PRODUCT_H
#include "run/contract.h"
#include "run/run.h"

typedef struct dv_product dv_product;

// The contractions of one thread and what they were made of.
typedef struct dv_product_set {
    dv_contract **at; // owned, as all of them are
    const dv_nest **of;
    int32_t n, cap;
    int64_t l1_bytes, l2_bytes, l3_bytes; // of a core; 0: not known
} dv_product_set;
void dv_product_set_free(dv_product_set *s);

// What an op needs of `kernel` to be run this way; *out is NULL when it cannot
// be. Memory from the arena.
dv_status dv_product_create(dv_product **out, const dv_plan *plan, int32_t op,
                            const dv_kernel *kernel, int32_t n_threads,
                            dv_arena *arena, dv_diag *diag);
// Get ready for a tile on a thread.
dv_status dv_product_prepare(dv_product *p, const dv_tile *t, int32_t thread,
                             dv_product_set *set, dv_jit *jit, dv_arena *arena,
                             dv_diag *diag);
void dv_product_run(const dv_product *p, const dv_tile *t, int32_t thread,
                    void *const *data);
#endif
