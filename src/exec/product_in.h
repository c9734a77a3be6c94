// Inside run/: what is known of a product, and of its tiles.
#ifndef DV_PRODUCT_IN_H
#define DV_PRODUCT_IN_H
#include "nest/sums.h"
#include "exec/epilogue.h"
#include "exec/product.h"
#include "exec/widen.h"

// What tiles of a shape are computed with.
typedef struct dv_product_made {
    dv_contract *c;    // of a set
    dv_finish *finish; // NULL: the contraction writes results, or parts
    int64_t steps[DV_MAX_VARS]; // of sums that are finished
    // The variables of rows and columns of blocks that are finished while they
    // are near; -1: the tile is, as a whole.
    int32_t row, col;
} dv_product_made;

struct dv_product {
    dv_product_how how;
    const dv_op *o;
    dv_nest nest; // of the whole op
    int32_t var[DV_NEST_MAX_DIMS];
    int32_t access[DV_N_OPERANDS]; // reads, then n_reads
    const dv_flat *flat[DV_N_OPERANDS];
    int64_t elem_bytes[DV_N_OPERANDS]; // as stored
    int64_t sum_bytes;                 // of an element of the contraction
    int copied[2]; // the factor is copied first, widened or with k together
    dv_widen copy[2];
    int direct; // sums go straight to the tensor
    int there;  // or wait there to be finished
    // Or kernels may finish them where they can: round them to what is stored,
    // and add a value for each row or column, a read, before the last touch.
    int inside, inside_last;
    int32_t bias; // -1: there is none
    int bias_type;
    dv_dtype stored;
    const dv_sums *sums; // the order of additions, for all tiles
    // Variables that are written, those with larger steps in the tensor first.
    int32_t written[DV_MAX_VARS], n_written;
    // By thread and shape: bit i of a shape says that the slice of the i-th
    // variable in this list is the last, shorter one. There are as many tiles
    // as shapes, or more.
    int32_t shorts[DV_MAX_VARS], n_shorts;
    dv_product_made *made;
};
#endif
