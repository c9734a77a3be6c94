// Ops that are sums of products of two reads, run by generated kernels: each
// tile of the plan is a contraction of its own shape.
//
//   c[m,n] = relu(sum[k] a[m,k] * b[k,n])    m 0..1000 cut by 512
//
//   tile 0: m 512, n, k     tile 1: m 488, n, k      two contractions
//
// Sums go straight to the tensor where nothing but relu happens to them, or a
// value for each row or column is added before. All others are finished by an
// op of their own (epilogue.h), in the tensor if it has their type, block by
// block as they are done; parts of sums by the op's vector kernel. All tiles
// add their products up in the order that the plan has for the op
// (nest/sums.h), so that results do not depend on how it is cut. Integers are
// summed in i32, where that is exact (vec_range.h). Operands of another type
// are widened into the thread's memory first, or, where the plan says pairs,
// multiplied as they are by matrix instructions.
//
// A thread has its own contractions, because they have buffers; ops of the
// same shape share them. All are made before the first run.
#ifndef DV_PRODUCT_H
#define DV_PRODUCT_H
#include "contract/contract.h"
#include "exec/vec_op.h"

typedef struct dv_product dv_product;

// The contractions of one thread and what they were made of.
typedef struct dv_product_set {
    dv_contract **at; // owned
    const dv_nest **of;
    int32_t n, cap;
    int64_t l1_bytes, l2_bytes, l3_bytes; // of a core; 0: not known
    int64_t memory_bytes; // that a tile needs for accumulators and operands
    const struct dv_product_set *other; // of a thread that came before, or NULL
} dv_product_set;
void dv_product_set_free(dv_product_set *s);

typedef struct dv_product_how {
    const dv_plan *plan;
    const dv_kernel *kernel;
    const dv_vec_op *vec; // finishes parts of sums. NULL: there is none
    int32_t op, n_threads;
    int parts; // tiles are parts of sums
    dv_jit *jit;
    dv_arena *arena;
} dv_product_how;

// *out is NULL when the op cannot be run this way.
dv_status dv_product_create(dv_product **out, const dv_product_how *how,
                            dv_diag *diag);
// What factors are multiplied as.
dv_dtype dv_product_type(const dv_product *p);
// Get ready for a tile on a thread.
dv_status dv_product_prepare(dv_product *p, const dv_tile *t, int32_t thread,
                             dv_product_set *set, dv_diag *diag);
// Compute a tile: all of it, or, when tiles are parts, its accumulators into
// `acc`. `at` has where element 0 of each read is, then of the write; `memory`
// has the set's memory_bytes.
void dv_product_run(const dv_product *p, const dv_tile *t, int32_t thread,
                    void *const *at, void *memory, void *acc);
#endif
