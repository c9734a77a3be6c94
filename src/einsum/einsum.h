// Sums over products of tensors, written as numpy's einsum writes them, or as
// trees that also say in which order to multiply.
//
//   ij,jk,kl->il   with 8x9, 9x100, 100x2
//     formula   x0[i,j] x1[j,k] x2[k,l] -> y[i,l], i=8 j=9 k=100 l=2
//     path      t0 = x1 x2 over k, y = x0 t0 over j
//     program   t0[j,l]: f32 = sum[k] x1[j,k] * x2[k,l]
//               y[i,l]: f32 = sum[j] x0[i,j] * t0[j,l]
//
// The text becomes a formula (parse, tree), shapes give its indices extents
// (resolve), a path says what is multiplied when (path, order, greedy), the
// path becomes a program (build) that is planned and run like any other (exec).
//
// An index is a number: a letter's place in A..Z a..z, then the dims under an
// ellipsis; in trees the number in the text. So ascending numbers are the order
// of an output that is not written down.
//
// Invariants of a resolved formula: every index of a term has an extent; the
// dims of one index in a term are equally long; an operand's dim of extent 1
// under a longer index has no index (it broadcasts, and is read at 0); the
// output names each of its indices once, and an operand has it.
// Memory: a formula and a path live in the arena they were made with.
//
//   parse.c    parses expressions: "ab,bc->ac"
//   tree.c     parses trees, which give the order of products
//   resolve.c  gives indices their extents
//   path.c     prepares operands, chooses a path
//   order.c    the cheapest order of products, by dynamic programming
//   greedy.c   a good order of many products
//   report.c   prints paths as text and as JSON
//   build.c    writes the program of a path
//   exec.c     plans and runs einsums, packs strided operands
//   cache.c    caches plans
#ifndef DV_EINSUM_H
#define DV_EINSUM_H
#include "exec/exec.h"
#include <stdatomic.h>

enum {
    DV_MAX_IDS = 128,      // indices of a formula
    DV_MAX_OPERANDS = 256, // operands of a formula
    DV_MAX_EXACT = 10,     // operands whose order is searched exactly
    DV_ID_DOTS = 52,       // the first index under an ellipsis
    DV_NO_ID = 255,        // a dim that broadcasts
};

// -- Sets of indices ---------------------------------------------------------

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

static inline dv_ids dv_ids_less(dv_ids a, dv_ids b)
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

// -- Formulas ----------------------------------------------------------------

// A tensor in a formula: the index of each dim.
typedef struct dv_einsum_term {
    int32_t n_dims;
    uint8_t id[DV_MAX_DIMS];
    uint32_t at[DV_MAX_DIMS]; // where the text says so
    uint32_t begin;           // where the term begins in the text
} dv_einsum_term;

// The indices of one operand or of the output as they are written; blanks may
// stand anywhere.
typedef struct dv_written {
    uint32_t begin, end; // in the text
    int32_t n_letters;
    int32_t dots; // letters before the ellipsis; -1: there is none
    uint32_t dots_at;
} dv_written;

// A product of a path. Operands have numbers from 0; the result of step s has
// the number n_in + s. The last step makes the output.
typedef struct dv_einsum_step {
    int32_t a, b; // factors; b is -1 when there is one alone
    dv_einsum_term out;
    dv_ids sums;  // indices summed over
    double flops; // of products and sums
    double elems; // of the result
} dv_einsum_step;

typedef struct dv_formula {
    dv_source src; // its text is in the arena
    int32_t n_in;
    dv_written *written; // of operands; NULL in trees
    dv_written written_out;
    int has_out;        // there is an arrow
    dv_einsum_term *in; // after resolving; in trees after parsing
    dv_einsum_term out;
    int32_t n_dots; // dims under the ellipsis
    int64_t extent[DV_MAX_IDS];
    // Trees: the order of steps as given, without flops and elems.
    int is_tree;
    dv_einsum_step *given;
    int32_t n_given;
} dv_formula;

// Parse an expression or, when it begins with a bracket, a tree.
dv_status dv_formula_parse(dv_formula *f, const char *text, size_t len,
                           dv_arena *arena, dv_diag *diag);
dv_status dv_tree_parse(dv_formula *f, dv_arena *arena, dv_diag *diag);
// Give it the operands' shapes; extents of 0 are fine. Data is not looked at.
dv_status dv_formula_resolve(dv_formula *f, const dv_array *in, size_t n_in,
                             dv_arena *arena, dv_diag *diag);
// What an index is called in programs: a letter, e0, e1 …; in trees d0, d1 ….
typedef char dv_id_name[8];
const char *dv_id_text(const dv_formula *f, int id, dv_id_name buf);
dv_ids dv_term_ids(const dv_einsum_term *t);
// Product of the extents of a set.
double dv_ids_points(dv_ids s, const int64_t *extent);
int dv_formula_is_empty(const dv_formula *f); // some extent is 0

// -- Orders ------------------------------------------------------------------

// Find in which order to multiply tensors that have no index twice and none
// alone. Tensors are numbered as in a path.
typedef struct dv_einsum_order {
    int32_t n;
    const dv_ids *ids; // of each
    dv_ids out;
    const int64_t *extent; // by index
    double max_elems;      // of a result between; 0: no limit
} dv_einsum_order;

typedef struct dv_order_cost {
    double flops;
    double elems;  // of all results between, added up
    double outers; // products that share no index
} dv_order_cost;
static inline int dv_order_less(dv_order_cost a, dv_order_cost b)
{
    if (a.flops != b.flops)
        return a.flops < b.flops;
    return a.elems != b.elems ? a.elems < b.elems : a.outers < b.outers;
}

// One product of two tensors.
typedef struct dv_pair {
    int32_t a, b;
} dv_pair;

// Cheapest of all orders, n <= DV_MAX_EXACT; and a good one for any n. `pairs`
// has room for n - 1. Flops are infinite where no order obeys the limits.
dv_status dv_order_exact(const dv_einsum_order *o, dv_pair *pairs,
                         dv_order_cost *cost, dv_arena *arena, dv_diag *diag);
dv_status dv_order_greedy(const dv_einsum_order *o, dv_pair *pairs,
                          dv_order_cost *cost, dv_arena *arena, dv_diag *diag);
// The price of one product: its box once for the products, once more for sums.
static inline double dv_pair_flops(dv_ids both, dv_ids keep,
                                   const int64_t *extent)
{
    double points = dv_ids_points(both, extent);
    return dv_ids_none(dv_ids_less(both, keep)) ? points : 2 * points;
}

// -- Paths -------------------------------------------------------------------

typedef struct dv_path {
    const char *how; // exact, greedy or given
    dv_einsum_step *steps;
    int32_t n_steps;
    double flops;
    double largest_elems; // of results between; 0: there are none
    double naive_flops;   // all operands in one nest of loops
} dv_path;

// `how` is auto (NULL), exact or greedy; trees have their own. max_elems is
// the largest result between that is allowed; 0: any.
dv_status dv_path_find(dv_path *out, const dv_formula *f, const char *how,
                       int64_t max_elems, dv_arena *arena, dv_diag *diag);
// The term of an operand or of a step's result, by number.
const dv_einsum_term *dv_path_term(const dv_formula *f, const dv_path *p,
                                   int32_t n);
// A table for people; fields of an object that is open.
void dv_path_print(dv_text *out, const dv_formula *f, const dv_path *p);
void dv_path_json(dv_json *j, const dv_formula *f, const dv_path *p);

// -- Programs ----------------------------------------------------------------

// What operands give: the widest of floats, or of integers where there are no
// floats; f16 with bf16 gives f32.
dv_dtype dv_einsum_dtype(const dv_array *in, size_t n_in);
// Statements for a path: inputs x0, x1 …, results t0, t1 …, the output y.
// Results between are in f32, f64, i32 or i64, whatever holds the operands and
// the result without rounding.
void dv_path_program(dv_text *out, const dv_formula *f, const dv_path *p,
                     const dv_array *in, dv_dtype dtype);
// The formula as one statement, to hold the path against. Writes nothing when
// it has more indices than an op may have, or is a tree.
void dv_formula_program(dv_text *out, const dv_formula *f, const dv_array *in,
                        dv_dtype dtype);

// -- Objects of the API ------------------------------------------------------

// What is the same for all runs. Immutable once made, counted, and shared by
// execs and the cache.
typedef struct dv_einsum_core {
    dv_arena arena; // the core itself lives in it
    atomic_int refs;
    dv_formula f;
    dv_path path;
    dv_dtype dtype;      // of the output
    dv_array *in;        // shapes and dtypes; their strides and data are NULL
    int64_t *out_shape;  // of f.out
    dv_program *program; // NULL: some extent is 0, the sum is empty
    dv_plan *plan;
} dv_einsum_core;

// What a call may not get wrong, whatever the expression says.
dv_status dv_einsum_check(const char *expression, const dv_array *in,
                          size_t n_in, const dv_einsum_options *o,
                          dv_diag *diag);
dv_status dv_einsum_core_create(dv_einsum_core **out, const char *expression,
                                const dv_array *in, size_t n_in,
                                const dv_einsum_options *options,
                                dv_diag *diag);
void dv_einsum_core_drop(dv_einsum_core *c); // takes NULL
// Takes over a count of the core, also when it fails.
dv_status dv_einsum_exec_create(dv_einsum_exec **out, dv_einsum_core *core,
                                dv_diag *diag);
// From the cache of the options, or made and kept there; the caller gets a
// count of its own.
dv_status dv_einsum_cache_core(dv_einsum_core **out, const char *expression,
                               const dv_array *in, size_t n_in,
                               const dv_einsum_options *options, dv_diag *diag);
// An exec for one call of dv_einsum, kept from the one before or made; and
// given back, or destroyed when there is no room for it.
dv_status dv_einsum_cache_take(dv_einsum_exec **out, const char *expression,
                               const dv_array *in, size_t n_in,
                               const dv_einsum_options *options, dv_diag *diag);
void dv_einsum_cache_give(dv_einsum_cache *cache, dv_einsum_exec *e);
const dv_einsum_core *dv_einsum_core_of(const dv_einsum_exec *e);
dv_exec *dv_einsum_inner(const dv_einsum_exec *e); // NULL: the sum is empty
#endif
