// Sums over products of tensors, written in numpy's einsum notation, or as
// trees that also give the order of products.
//
//   ij,jk,kl->il   with 8x9, 9x100, 100x2
//     formula   x0[i,j] x1[j,k] x2[k,l] -> y[i,l], i=8 j=9 k=100 l=2
//     path      t0 = x1 x2 over k, y = x0 t0 over j
//     program   t0[j,l]: f32 = sum[k] x1[j,k] * x2[k,l]
//               y[i,l]: f32 = sum[j] x0[i,j] * t0[j,l]
//
// The text is parsed into a formula (parse, tree); the shapes give its indices
// extents (resolve); a path gives the order of products (path, order, greedy);
// the path becomes a program (build) that is planned and run like any other
// (exec).
//
// An index is a number: a letter's position in A..Z a..z, then the dims under
// an ellipsis; in trees the number in the text. Therefore ascending numbers are
// the order of an implicit output.
//
// Invariants of a resolved formula: every index of a term has an extent; dims
// of one operand with the same index have equal extents; an operand's dim of
// extent 1 under a longer index has no index (it broadcasts and is read at 0);
// every output index occurs once in the output and in some operand. A formula
// and a path are allocated in the arena passed to the functions that create
// them.
//
//   parse.c    parses expressions: "ab,bc->ac"
//   tree.c     parses trees, which give the order of products
//   resolve.c  gives indices their extents
//   path.c     prepares operands, chooses a path
//   order.c    the cheapest order of products, by dynamic programming
//   greedy.c   a good order of many products
//   report.c   prints paths as text and as JSON
//   build.c    writes the program of a path
//   layout.c   orders the dims of operands as they lie in memory
//   exec.c     plans and runs einsums
//   cache.c    caches plans
#ifndef DV_EINSUM_H
#define DV_EINSUM_H
#include "divvy/einsum.h"
#include "exec/exec.h"
#include <stdatomic.h>

enum {
    // Largest number of indices and of operands of an einsum expression.
    DV_MAX_IDS = 128,
    DV_MAX_OPERANDS = 256,
    // Largest number of operands for which the cheapest order of products is
    // searched exactly; with more, an order is chosen greedily.
    DV_MAX_EXACT = 10,
    // Number of the first index under an ellipsis; those below are letters.
    DV_ID_DOTS = 52,
    // Takes the place of an index in a dim that broadcasts.
    DV_NO_ID = 255,
};

// A dv_ids is a set of indices, stored as a bit mask.

typedef struct dv_ids {
    uint64_t w[2];
} dv_ids;

static inline void dv_ids_add(dv_ids *s, int id)
{
    s->w[id >> 6] |= (uint64_t)1 << (id & 63);
}

static inline int dv_ids_has(dv_ids s, int id)
{
    return s.w[id >> 6] >> (id & 63) & 1;
}

static inline dv_ids dv_ids_or(dv_ids a, dv_ids b)
{
    return (dv_ids){{a.w[0] | b.w[0], a.w[1] | b.w[1]}};
}

static inline dv_ids dv_ids_and(dv_ids a, dv_ids b)
{
    return (dv_ids){{a.w[0] & b.w[0], a.w[1] & b.w[1]}};
}

static inline dv_ids dv_ids_minus(dv_ids a, dv_ids b)
{
    return (dv_ids){{a.w[0] & ~b.w[0], a.w[1] & ~b.w[1]}};
}

static inline int dv_ids_none(dv_ids s)
{
    return !(s.w[0] | s.w[1]);
}

static inline int dv_ids_count(dv_ids s)
{
    return __builtin_popcountll(s.w[0]) + __builtin_popcountll(s.w[1]);
}

// The structures below describe a formula, which is a parsed einsum expression.

// A tensor in a formula, as a list: the index (such as i in "ij,jk->ik") of
// each dim.
typedef struct dv_einsum_term {
    int32_t n_dims;
    uint8_t id[DV_MAX_DIMS];
    uint32_t at[DV_MAX_DIMS]; // offset of each dim's index in the text
    uint32_t begin;           // offset of the term in the text
} dv_einsum_term;

// The indices of one operand or of the output as written in the text; blanks
// are ignored.
typedef struct dv_term_text {
    uint32_t begin, end; // range of the term in the text
    int32_t n_letters;
    int32_t dots; // number of letters before the ellipsis; -1: no ellipsis
    uint32_t dots_at;
} dv_term_text;

// One step of a path (the order of products that computes an einsum): a product
// of two tensors, or a sum over one. The n_in operands are numbered from 0; the
// result of step s has number n_in + s. The last step computes the output.
typedef struct dv_einsum_step {
    // Numbers of the tensors that the step multiplies; b is -1 if there is only
    // one.
    int32_t a, b;
    dv_einsum_term out;
    dv_ids sums;  // indices that are summed over in this step
    double flops; // number of multiplications and additions
    double elems; // number of elements of the result
} dv_einsum_step;

typedef struct dv_formula {
    dv_source src; // the text of the formula; owned by the arena
    int32_t n_in;
    // The operands as written in the text; NULL if the text is a tree (nested
    // brackets that give the order of products).
    dv_term_text *written;
    dv_term_text out_text;
    int has_out; // 1 if the text has an arrow with an explicit output
    // The operands. If the text is a tree, parsing sets them, otherwise
    // dv_formula_resolve.
    dv_einsum_term *in;
    dv_einsum_term out;
    int32_t n_dots; // number of dims under the ellipsis
    int64_t extent[DV_MAX_IDS];
    // If the text is a tree (nested brackets that give the order of products),
    // `given` has its steps in the order of the text; their flops and elems are
    // not set.
    int is_tree;
    dv_einsum_step *given;
    int32_t n_given;
} dv_formula;

// Parses an expression such as "ab,bc->ac" or, if the text begins with a
// bracket, a tree, which also gives the order of products.
dv_status dv_formula_parse(dv_formula *f, const char *text, size_t len,
                           dv_arena *arena, dv_diag *diag);
dv_status dv_tree_parse(dv_formula *f, dv_arena *arena, dv_diag *diag);
// Assigns extents to the formula's indices from the operands' shapes; an extent
// may be 0. Only the shapes of `in` are read, not the data.
dv_status dv_formula_resolve(dv_formula *f, const dv_array *in, size_t n_in,
                             dv_arena *arena, dv_diag *diag);
// Returns the name of an index in programs: a letter, or e0, e1, ... for dims
// under an ellipsis. In trees, whose indices are numbers, it is d0, d1, ...
typedef char dv_id_name[8];
const char *dv_id_text(const dv_formula *f, int id, dv_id_name buf);
dv_ids dv_term_ids(const dv_einsum_term *t);
// Returns the product of the extents of a set of indices.
double dv_ids_points(dv_ids s, const int64_t *extent);
// Returns whether the extent of some index is 0, so that the sum has no terms.
int dv_formula_is_empty(const dv_formula *f);

// The functions of order.c and greedy.c find the order of products.

// The problem of ordering the products of n tensors. Sums within one tensor are
// done before: no tensor has an index twice, or an index that neither another
// tensor nor the output has. The tensors have numbers 0 to n - 1, and the
// results of products follow.
typedef struct dv_einsum_order {
    int32_t n;
    const dv_ids *ids; // indices of each tensor
    dv_ids out;
    const int64_t *extent; // extent of each index
    double max_elems;      // largest allowed intermediate result; 0: no limit
} dv_einsum_order;

typedef struct dv_order_cost {
    double flops;
    double elems;  // elements of all intermediate results, summed
    double outers; // number of products whose factors share no index
} dv_order_cost;
static inline int dv_order_less(dv_order_cost a, dv_order_cost b)
{
    if (a.flops != b.flops)
        return a.flops < b.flops;
    return a.elems != b.elems ? a.elems < b.elems : a.outers < b.outers;
}

// One product of two tensors, given by their numbers.
typedef struct dv_pair {
    int32_t a, b;
} dv_pair;

// Find an order of the products of n tensors: dv_order_exact the cheapest, for
// n <= DV_MAX_EXACT, dv_order_greedy a good one for any n. `pairs` has room for
// n - 1 products. The cost is infinite if no order was found in which every
// intermediate result has at most DV_MAX_DIMS dims and o->max_elems elements.
dv_status dv_order_exact(const dv_einsum_order *o, dv_pair *pairs,
                         dv_order_cost *cost, dv_arena *arena, dv_diag *diag);
dv_status dv_order_greedy(const dv_einsum_order *o, dv_pair *pairs,
                          dv_order_cost *cost, dv_arena *arena, dv_diag *diag);
// Returns the flops of one product, whose factors have the indices `both`: a
// multiplication per point of the loops over them, and an addition per point if
// an index is summed over, that is, not in `keep`.
static inline double dv_pair_flops(dv_ids both, dv_ids keep,
                                   const int64_t *extent)
{
    double points = dv_ids_points(both, extent);
    return dv_ids_none(dv_ids_minus(both, keep)) ? points : 2 * points;
}

// A path is the list of steps that compute a formula (path.c, report.c).

typedef struct dv_path {
    const char *how; // how the order was found: "exact", "greedy" or "given"
    dv_einsum_step *steps;
    int32_t n_steps;
    double flops;
    // Elements of the largest intermediate result; 0: none.
    double largest_elems;
    // Flops if all operands were multiplied in one loop nest.
    double naive_flops;
} dv_path;

// Finds a path, the order of products that compute a formula. `how` must be
// DV_PATH_AUTO if the text is a tree (nested brackets), which already gives the
// order. max_elems limits the size of intermediate results; 0: no limit.
dv_status dv_path_find(dv_path *out, const dv_formula *f, dv_path_search how,
                       int64_t max_elems, dv_arena *arena, dv_diag *diag);
// Returns the term (list of indices) of tensor n of the path: an operand or the
// result of a step.
const dv_einsum_term *dv_path_term(const dv_formula *f, const dv_path *p,
                                   int32_t n);
// dv_path_print prints a path as a table, dv_path_json as fields of an open
// JSON object.
void dv_path_print(dv_text *out, const dv_formula *f, const dv_path *p);
void dv_path_json(dv_json *j, const dv_formula *f, const dv_path *p);

// The functions of build.c write a path (the products that compute an einsum,
// in order) as a program.

// Returns the result type for operands of mixed types, following numpy: the
// narrowest type that holds the values of all. f16 with bf16 gives f32. No
// float has all values of 64-bit integers; they give f64, as u64 with a signed
// integer does.
dv_dtype dv_einsum_dtype(const dv_array *in, size_t n_in);
// Writes the text of a program for a path (the steps that compute a formula),
// with inputs x0, x1, ..., intermediate results t0, t1, ... and output y.
// Intermediate results are f32, f64, i32, i64 or bool, whichever holds the
// operands and the result without rounding.
void dv_path_program(dv_text *out, const dv_formula *f, const dv_path *p,
                     const dv_array *in, dv_dtype dtype);
// Writes the formula as one statement, to compare the path's result with.
// Writes nothing if the formula has more indices than an op (a statement's loop
// nest) may have, or is a tree, which may sum over one index in several steps.
void dv_formula_program(dv_text *out, const dv_formula *f, const dv_array *in,
                        dv_dtype dtype);

// The functions of exec.c and cache.c implement the public API.

// How an operand is stored in memory. The program has its dims in the order of
// descending strides, so that kernels read rows.
typedef struct dv_operand_layout {
    const int64_t *shape;   // in the order of the caller's dims
    const int64_t *strides; // in the program's order; NULL: row-major in it
    // order[d] is the caller's dim that is dim d of the program; NULL: d.
    const int8_t *order;
} dv_operand_layout;

// The parts of an einsum that are the same for all runs. A core is immutable,
// reference-counted, and shared by execs (the objects that run it) and the
// cache of plans.
typedef struct dv_einsum_core {
    dv_arena arena; // all memory of the core, including this struct
    atomic_int refs;
    dv_formula f;
    dv_path path;
    dv_dtype dtype; // type of the output
    // Shapes and dtypes of the operands in the program; strides and data are
    // NULL.
    dv_array *in;
    dv_operand_layout *layouts;
    int64_t *out_shape; // extents of the output's dims
    // The program that is run; NULL if some extent is 0, so that the sum is
    // empty.
    dv_program *program;
    dv_plan *plan;
} dv_einsum_core;

// Checks what can be checked of a call's arguments without parsing the
// expression: pointers, dtypes and numbers of dims.
dv_status dv_einsum_check(const char *expression, const dv_array *in,
                          size_t n_in, const dv_einsum_options *o,
                          dv_diag *diag);
// Chooses the order of the operands' dims in the program, by the strides of
// `in`: permutes the terms of c->f, and sets c->in and c->layouts.
dv_status dv_einsum_lay_out(dv_einsum_core *c, const dv_array *in,
                            dv_diag *diag);
dv_status dv_einsum_core_create(dv_einsum_core **out, const char *expression,
                                const dv_array *in, size_t n_in,
                                const dv_einsum_options *options,
                                dv_diag *diag);
// Drops one reference to a core (the part of an einsum that all runs share) and
// frees it after the last; c may be NULL.
void dv_einsum_core_drop(dv_einsum_core *c);
// Creates an exec, the object that runs the einsum of a core. Takes over the
// caller's reference to the core, even if it fails.
dv_status dv_einsum_exec_create(dv_einsum_exec **out, dv_einsum_core *core,
                                dv_diag *diag);
// Gets the core (planned einsum) of an expression from the cache in the
// options, creating it if necessary. The caller receives its own reference.
dv_status dv_einsum_cache_core(dv_einsum_core **out, const char *expression,
                               const dv_array *in, size_t n_in,
                               const dv_einsum_options *options, dv_diag *diag);
// dv_einsum_cache_take gets an exec (the object that runs an einsum) for one
// call of dv_einsum from the cache, or creates one. dv_einsum_cache_give
// returns it to the cache, or destroys it if the cache has another one for the
// same einsum or has evicted the einsum.
dv_status dv_einsum_cache_take(dv_einsum_exec **out, const char *expression,
                               const dv_array *in, size_t n_in,
                               const dv_einsum_options *options, dv_diag *diag);
void dv_einsum_cache_give(dv_einsum_cache *cache, dv_einsum_exec *e);
const dv_einsum_core *dv_einsum_core_of(const dv_einsum_exec *e);
// Returns the dv_exec that runs the program of an einsum; NULL if the sum is
// over no elements, so that there is no program.
dv_exec *dv_einsum_inner(const dv_einsum_exec *e);
#endif
