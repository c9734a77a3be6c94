// Sums over products of any number of tensors, as numpy's einsum writes them:
// diagonals (ii->i), sums (ij->j), outer products (i,j->ij), scalars, `...`
// with broadcasting, outputs left out (ij,jk). It searches for a good order of
// the products, makes a program of them, and plans and runs that program:
//
//   float a[8][4], b[4][6], c[8][6];
//   const int64_t sa[] = {8, 4}, sb[] = {4, 6}, sc[] = {8, 6};
//   const dv_array in[] = {{DV_F32, 2, sa, NULL, a}, {DV_F32, 2, sb, NULL, b}};
//   const dv_array out = {DV_F32, 2, sc, NULL, c};
//   if (dv_einsum("ik,kj->ij", in, 2, &out, NULL, diag))
//       return fail(diag);
//
// An expression that begins with a bracket is a tree, which gives the order of
// the products itself: "[[0,1],[1,2]->[0,2]],[2,3]->[0,3]". The numbers are
// indices. A list of numbers is an operand, `[child]->[list]` a permutation or
// a sum, and `[left],[right]->[list]` a product. Operands are numbered in order
// of appearance.
#ifndef DIVVY_EINSUM_H
#define DIVVY_EINSUM_H
#include "divvy/divvy.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dv_array {
    dv_dtype dtype;
    int n_dims;
    const int64_t *shape;
    // Distance in elements between neighbours along each dim; may be negative,
    // and 0 for inputs. NULL: dense and row-major.
    const int64_t *strides;
    void *data; // inputs are never written
} dv_array;

typedef struct dv_einsum_exec dv_einsum_exec;   // an einsum ready to run
typedef struct dv_einsum_cache dv_einsum_cache; // keeps plans for reuse

// How the order of the pairwise products is found: AUTO finds the cheapest
// order (EXACT) for up to 10 operands and a good one (GREEDY) for more. An
// expression that is a contraction tree gives the order itself.
typedef enum dv_path_search {
    DV_PATH_AUTO,
    DV_PATH_EXACT,
    DV_PATH_GREEDY,
} dv_path_search;

typedef struct dv_einsum_options {
    size_t size;
    const dv_target *target;     // NULL: host
    const dv_plan_options *plan; // NULL: default options
    dv_path_search path;
    int64_t max_elems; // limit on the size of intermediate results; 0: none
    int result_dtype;  // a dv_dtype; -1: that of the operands
    // A cache of plans, looked up by expression, dtypes, shapes, strides and
    // options; NULL: no plan is reused. Only one thread at a time may use a
    // cache. A dv_einsum_exec does not use its cache after it was made, so any
    // thread may run it.
    dv_einsum_cache *cache;
} dv_einsum_options;
#define DV_EINSUM_OPTIONS_INIT                                                 \
    {                                                                          \
        sizeof(dv_einsum_options), NULL, NULL, DV_PATH_AUTO, 0, -1, NULL       \
    }

// Computes an einsum in one call. The result has the dtype of `out`, and its
// shape must be that of `out`. Operands and output must not overlap in memory;
// dv_einsum fails if it can tell that they do.
DV_API dv_status dv_einsum(const char *expression, const dv_array *in,
                           size_t n_in, const dv_array *out,
                           const dv_einsum_options *options, dv_diag *diag);

// Prepares an einsum for operands with these dtypes and shapes: parses the
// expression, searches for an order and makes a plan. The data of the operands
// are ignored. Kernels are generated for the operands' strides; runs with other
// strides copy the operand.
DV_API dv_status dv_einsum_create(dv_einsum_exec **out, const char *expression,
                                  const dv_array *in, size_t n_in,
                                  const dv_einsum_options *options,
                                  dv_diag *diag);
// Returns the dtype and shape of the result; the shape lives as long as the
// exec.
DV_API dv_array dv_einsum_output(const dv_einsum_exec *e);
// Returns 1 if the result could be a view of the only operand: its dims in
// another order, or diagonals of it. Then dims[d] becomes the dim of the result
// that dim d of the operand corresponds to.
DV_API int dv_einsum_is_view(const dv_einsum_exec *e, int *dims);
// Returns the number of multiplications and additions of a run.
DV_API double dv_einsum_flops(const dv_einsum_exec *e);
// Sets the memory of operand i or, if i is the number of operands, of the
// output. It is borrowed until the exec is destroyed or the next bind of i.
// Strides (NULL: dense) are copied.
DV_API dv_status dv_einsum_bind(dv_einsum_exec *e, size_t i, void *data,
                                const int64_t *strides, dv_diag *diag);
// Runs the einsum once. All operands and the output must be bound. Allocates
// nothing.
DV_API dv_status dv_einsum_run(dv_einsum_exec *e, dv_diag *diag);
DV_API void dv_einsum_destroy(dv_einsum_exec *e);

// Return the program and the plan of an einsum; NULL if a dim has size 0, so
// that nothing is computed. They live as long as the exec.
DV_API const dv_program *dv_einsum_program(const dv_einsum_exec *e);
DV_API const dv_plan *dv_einsum_plan(const dv_einsum_exec *e);
// Return the pairwise products in order, with their flops and sizes, as a table
// or as JSON.
DV_API char *dv_einsum_text(const dv_einsum_exec *e);
DV_API char *dv_einsum_json(const dv_einsum_exec *e);

// Creates a cache that keeps the most recently used plans, at most max_plans
// (0: 64).
DV_API dv_status dv_einsum_cache_create(dv_einsum_cache **out, size_t max_plans,
                                        dv_diag *diag);
// Destroys a cache; execs made with it remain valid.
DV_API void dv_einsum_cache_destroy(dv_einsum_cache *cache);

#ifdef __cplusplus
}
#endif
#endif
