// Orders of the tiles of a matrix: a tile's number is its place in one. Plans
// name them, and every level that walks tiles recovers rows and columns here.
#ifndef DV_ORDER_H
#define DV_ORDER_H
#include "base/text.h"
#include <stdint.h>

// ORDER(NAME, word, what its number is called or NULL)
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
    ORDER(MATCH_SHARD, match_shard, NULL)

typedef enum dv_order_kind {
#define ORDER(NAME, word, number) DV_ORDER_##NAME,
    DV_ORDERS(ORDER)
#undef ORDER
        DV_N_ORDERS
} dv_order_kind;

typedef struct dv_order {
    dv_order_kind kind;
    int64_t mt, nt; // rows and columns of tiles, both above 0
    int64_t size;   // rows of a group, or side of a block
    int64_t sm, sn; // match_shard: tiles of a shard; they divide mt and nt
} dv_order;

const char *dv_order_name(dv_order_kind k);
// "grouped(4)" or "row_major". 0: there is no such order, or its number is
// missing, too many or not above 0.
int dv_order_parse(dv_order *out, const char *text);
void dv_order_print(dv_text *out, const dv_order *o);
// The tile that comes at place id, and the place of a tile. Both take at most
// a step per bit of a side.
void dv_order_tile(const dv_order *o, int64_t id, int64_t *m, int64_t *n);
int64_t dv_order_id(const dv_order *o, int64_t m, int64_t n);
#endif
