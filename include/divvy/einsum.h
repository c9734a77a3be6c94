// Sums over products of any number of tensors, as numpy's einsum writes them:
// diagonals (ii->i), sums (ij->j), outer products (i,j->ij), scalars, `...`
// with broadcasting, outputs left out (ij,jk). The order of the products is
// searched, the products become a program, and that is planned and run:
//
//   float a[8][4], b[4][6], c[8][6];
//   const int64_t sa[] = {8, 4}, sb[] = {4, 6}, sc[] = {8, 6};
//   const dv_array in[] = {{DV_F32, 2, sa, NULL, a}, {DV_F32, 2, sb, NULL, b}};
//   const dv_array out = {DV_F32, 2, sc, NULL, c};
//   if (dv_einsum("ik,kj->ij", in, 2, &out, NULL, diag))
//       return fail(diag);
//
// An expression that begins with a bracket is a tree, which says itself what is
// multiplied when: "[[0,1],[1,2]->[0,2]],[2,3]->[0,3]". A list of numbers is an
// operand, `[child]->[list]` a permutation or a sum, `[left],[right]->[list]` a
// product; operands are numbered as they appear.
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
    // From one element of a dim to the next, in elements; may be negative, and
    // 0 for inputs. NULL: dense and row-major.
    const int64_t *strides;
    void *data; // inputs are never written
} dv_array;

typedef struct dv_einsum_exec dv_einsum_exec;   // an einsum ready to run
typedef struct dv_einsum_cache dv_einsum_cache; // plans made before

// How the order of the products is found: exactly up to 10 operands and
// greedily beyond, or always one way. A tree gives its own order.
typedef enum dv_path_search {
    DV_PATH_AUTO,
    DV_PATH_EXACT,
    DV_PATH_GREEDY,
} dv_path_search;

typedef struct dv_einsum_options {
    size_t size;
    const dv_target *target;     // NULL: host
    const dv_plan_options *plan; // NULL: the usual
    dv_path_search path;
    int64_t max_elems; // of a result between products; 0: no limit
    int dtype;         // of the result, a dv_dtype; -1: what operands give
    // Plans by expression, dtypes, shapes and these options; NULL: none. Only
    // one thread at a time may use a cache; execs made with it are free.
    dv_einsum_cache *cache;
} dv_einsum_options;
#define DV_EINSUM_OPTIONS_INIT                                                 \
    {                                                                          \
        sizeof(dv_einsum_options), NULL, NULL, DV_PATH_AUTO, 0, -1, NULL       \
    }

// One call. The result has out's dtype; its shape must be out's. Operands and
// output must not overlap (dv_einsum refuses it where they surely do).
DV_API dv_status dv_einsum(const char *expression, const dv_array *in,
                           size_t n_in, const dv_array *out,
                           const dv_einsum_options *options, dv_diag *diag);

// The same in parts. Parse, search, plan and get ready for operands like these;
// their strides and data are not looked at.
DV_API dv_status dv_einsum_create(dv_einsum_exec **out, const char *expression,
                                  const dv_array *in, size_t n_in,
                                  const dv_einsum_options *options,
                                  dv_diag *diag);
// What comes out: dtype and shape, which lives as long as the exec.
DV_API dv_array dv_einsum_output(const dv_einsum_exec *e);
// Give operand i its memory; i == n_in is the output. Borrowed until destroy
// or the next bind. Strides (NULL: dense) are copied.
DV_API dv_status dv_einsum_bind(dv_einsum_exec *e, size_t i, void *data,
                                const int64_t *strides, dv_diag *diag);
// Run once. Everything must be bound. Allocates nothing.
DV_API dv_status dv_einsum_run(dv_einsum_exec *e, dv_diag *diag);
DV_API void dv_einsum_destroy(dv_einsum_exec *e);

// The program and its plan; NULL where an extent is 0 and nothing is computed.
// They live as long as the exec.
DV_API const dv_program *dv_einsum_program(const dv_einsum_exec *e);
DV_API const dv_plan *dv_einsum_plan(const dv_einsum_exec *e);
// The steps with their flops and sizes, as a table and as JSON.
DV_API char *dv_einsum_text(const dv_einsum_exec *e);
DV_API char *dv_einsum_json(const dv_einsum_exec *e);

// A cache that keeps the plans used last, at most so many (0: 64).
DV_API dv_status dv_einsum_cache_create(dv_einsum_cache **out, size_t max_plans,
                                        dv_diag *diag);
// Execs made with it go on.
DV_API void dv_einsum_cache_destroy(dv_einsum_cache *cache);

#ifdef __cplusplus
}
#endif
#endif
