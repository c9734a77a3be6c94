// Shared by cache.c, which finds chains of ops that can run together tile by
// tile on a machine with caches, and cached.c, which predicts their time.
#ifndef DV_JOINT_CACHE_H
#define DV_JOINT_CACHE_H
#include "plan/plan.h"

enum { DV_CACHE_CHAIN = 32, DV_CACHE_LEVELS = 4 };

// What pricing a chain (ops that run together tile by tile) needs to know of a
// tensor.
typedef struct dv_cache_tensor {
    int32_t n_readers; // ops of the program that read it
    int lasts;         // 1 if it is no temporary, or several ops write it
    int written;       // 1 if an op writes it
    // The number of the chain of ops that used the tensor last, the op of that
    // chain that writes it (-1: none), and the number of its readers that are
    // not in that chain yet.
    int32_t chain, writer, n_left;
    // The time to store it for ops outside of the chain, per value of the
    // innermost cut variable; 0 if only the chain uses it.
    double written_ns;
    double room_bytes; // what it adds to the bytes in use per value
    int passes;        // 1 if only products have read it
} dv_cache_tensor;

// The work of a chain of ops, as a function of the number of values of the
// innermost cut variable that a tile covers. "Per value" means for each of
// these values.
typedef struct dv_cache_work {
    // The bytes in the core's cache that the ops touch: per value, and in every
    // tile regardless of its size.
    double point_bytes, fixed_bytes;
    // Live bytes per value after the last op, and their maximum so far:
    // temporaries share memory if their ops run one by one.
    double live_bytes, most_bytes;
    // Bytes of operands of matrix products, which are streamed through the
    // cache: per value, and in every tile.
    double passing_bytes, streamed_bytes;
    // Bytes per value of accesses within a tile: writes of temporaries, and
    // reads of what an earlier op of the tile has accessed.
    double own_bytes;
    // Times in ns. Per value: to compute, and to pack operands of products; to
    // move data shared with other groups. Per tile: to load what every tile
    // reads; to pack that, and for pieces of rows.
    double point_ns, moved_ns, loaded_ns, tile_ns;
    // Bytes of the largest tensor whose rows are cut into pieces by tiles; 0 if
    // there is none.
    double rows_bytes;
    int n_products;
    int shared; // 1 if iterations of the outer levels touch the same bytes
} dv_cache_work;

typedef struct dv_cache_chain {
    const dv_plan *plan;
    dv_cache_tensor *tensors;
    const uint8_t *edge; // edge[i]: no chain has op i - 1 and op i
    int32_t number;      // distinguishes chains, in dv_cache_tensor
    int32_t first, end;
    // The chain's ops are cut along one variable per level of tiling: cut[l][k]
    // is the variable of op first + k that level l cuts, into slices of one
    // value or, at the last level, of `len` values. The ranges begin[l], n[l]
    // of these variables are the same for all ops.
    int32_t levels, cut[DV_CACHE_LEVELS][DV_CACHE_CHAIN];
    int64_t begin[DV_CACHE_LEVELS], n[DV_CACHE_LEVELS];
    int64_t len; // values of the innermost cut variable in a tile
    dv_cache_work work;
} dv_cache_chain;

// Returns the bytes that a tile needs per value of the innermost cut variable.
// Ops without products run row by row, where all temporaries are in use.
static inline double dv_cache_room(const dv_cache_work *w)
{
    return w->n_products ? w->most_bytes : w->point_bytes;
}
// Returns the dim of an access whose index is exactly variable v, if no other
// dim depends on v; otherwise -1.
int dv_cache_dim(const dv_op *o, const dv_access *a, int v);
// Returns whether the op is a contraction in which some operand is reused for
// several results, such as a matrix product.
int dv_cache_is_product(const dv_op *o);
// Returns the number of iterations of the outer loops over tiles, those of all
// levels of tiling but the innermost.
double dv_cache_outer(const dv_cache_chain *c);
// Records op i of the chain as the writer of its tensor.
void dv_cache_enter(dv_cache_chain *c, int32_t i);
// Adds the work of op i to that of the chain of ops that ends before it; the
// cut variables of all levels of tiling must be known.
void dv_cache_add(dv_cache_chain *c, int32_t i);
// Returns the predicted time in ns of a chain of ops in tiles of `len` values;
// dv_cache_alone does for an op in its own tiles. Costs that all divisions have
// in common may be left out, so only differences have a meaning.
double dv_cache_price(const dv_cache_chain *c, int64_t len);
// Cuts the result of a product further, along its outermost variable, until the
// copies that a tile makes of operands with a border (reads beyond their edges)
// fit in half of the core's cache. Returns whether anything changed.
int dv_cache_cut_copies(dv_plan *plan, int32_t op);
double dv_cache_alone(const dv_plan *plan, int32_t op);
// Returns the change in predicted time if op, cut like the first op of a chain,
// runs after it in the same tiles, instead of in a group of its own; infinity
// if what a tile passes on exceeds the core's cache.
double dv_cache_after(const dv_cache_chain *c, int32_t op);
// Returns the bytes of a core's own cache; dv_cache_far returns those of its
// share of the last-level cache.
double dv_cache_near(const dv_plan *plan);
double dv_cache_far(const dv_plan *plan);
#endif
