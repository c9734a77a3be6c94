// Traversal orders of the tiles of a matrix: a tile's id is its position in the
// order. Plans name an order, and every level that iterates over tiles converts
// ids to rows and columns here.
#ifndef DV_ORDER_H
#define DV_ORDER_H
#include "base/text.h"
#include <stdint.h>

// ORDER(NAME, word, parameter): the word names the order in plans; the
// parameter is what a number in brackets after it means, or NULL if there is
// none.
#define DV_ORDERS(ORDER)                                                       \
    ORDER(ROW_MAJOR, row_major, NULL)                                          \
    ORDER(COLUMN_MAJOR, column_major, NULL)                                    \
    ORDER(SNAKE, snake, NULL)                                                  \
    ORDER(GROUPED, grouped, "rows of a group")                                 \
    ORDER(BLOCK_LINEAR, block_linear, "side of a block")                       \
    ORDER(MORTON, morton, NULL)                                                \
    ORDER(HILBERT, hilbert, NULL)                                              \
    ORDER(SWIZZLE, swizzle, "columns of a block")                              \
    ORDER(ZIGZAG, zigzag, NULL)                                                \
    ORDER(MATCH_SHARD, match_shard, NULL)                                      \
    ORDER(LIST, list, NULL)

typedef enum dv_order_kind {
#define ORDER(NAME, word, number) DV_ORDER_##NAME,
    DV_ORDERS(ORDER)
#undef ORDER
        DV_N_ORDERS
} dv_order_kind;

typedef struct dv_order {
    dv_order_kind kind;
    int64_t mt, nt; // number of tile rows and columns, both above 0
    // The order's parameter: rows of a group (grouped), side of a block
    // (block_linear), or columns of a block (swizzle).
    int64_t size;
    // For the order match_shard: number of tile rows and tile columns of a
    // shard, the part of the result that one core holds.
    int64_t sm, sn;
    // For the order list: the tiles in order, as row * nt + column; borrowed.
    const int32_t *list;
} dv_order;

// Largest number of tiles of the order `list`, in which a plan lists all tiles.
enum { DV_ORDER_MAX_LIST = 1 << 20 };

// Parses e.g. "grouped(4)" or "row_major". Returns 0 if there is no such order,
// or if its parameter is missing, not positive, or not expected. The tiles of
// the order `list` are not in its name: the caller sets the field.
int dv_order_parse(dv_order *out, const char *text);
void dv_order_print(dv_text *out, const dv_order *o);
// Finds the row and column of the tile at position id, in at most one step per
// bit of the matrix side.
void dv_order_tile(const dv_order *o, int64_t id, int64_t *m, int64_t *n);
#endif
