// Traversal orders of the tiles of a matrix: converts a position to a tile. All
// orders are bijective on any rectangle, and none but `list` needs a table.
//
//   grouped(3), 5x4:   0  3  6  9      The last group has the remaining
//                      1  4  7 10      rows, here two.
//                      2  5  8 11
//                     12 14 16 18
//                     13 15 17 19
//
// Curves (morton, hilbert) are those of the enclosing power-of-two square,
// skipping tiles outside the matrix. The number of tiles of a quadrant that are
// inside is a product of two clipped sides, so the search descends one quadrant
// per bit and adds up the tiles of the quadrants it skips.
#include "plan/order.h"
#include "base/math.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name, *number;
} orders[] = {
#define ORDER(NAME, word, number) {#word, number},
    DV_ORDERS(ORDER)
#undef ORDER
};

int dv_order_parse(dv_order *out, const char *text)
{
    size_t n = strcspn(text, "(");
    for (int k = 0; k < DV_N_ORDERS; k++) {
        if (strlen(orders[k].name) != n || strncmp(orders[k].name, text, n))
            continue;
        out->kind = (dv_order_kind)k;
        if (!orders[k].number)
            return text[n] == 0;
        size_t digits = text[n] ? strspn(text + n + 1, "0123456789") : 0;
        if (!digits || digits > 9 || strcmp(text + n + 1 + digits, ")"))
            return 0;
        out->size = strtoll(text + n + 1, NULL, 10);
        return out->size > 0;
    }
    return 0;
}

void dv_order_print(dv_text *out, const dv_order *o)
{
    dv_put(out, "%s", orders[o->kind].name);
    if (orders[o->kind].number)
        dv_put(out, "(%" PRId64 ")", o->size);
}

static void grouped_tile(const dv_order *o, int64_t id, int64_t *m, int64_t *n)
{
    int64_t size = dv_min_i64(o->size, o->mt), width = size * o->nt;
    int64_t first = id / width * size, t = id % width;
    int64_t rows = dv_min_i64(o->mt - first, size);
    *m = first + t % rows;
    *n = t / rows;
}

// Finds the row m and column n of the tile at position id of the order
// block_linear, which visits square blocks of tiles one after another. Blocks
// in one row of blocks have the same height; only the last one is narrower.
static void block_tile(const dv_order *o, int64_t id, int64_t *m, int64_t *n)
{
    int64_t side_m = dv_min_i64(o->size, o->mt);
    int64_t side_n = dv_min_i64(o->size, o->nt);
    int64_t top = id / (side_m * o->nt) * side_m, t = id - top * o->nt;
    int64_t height = dv_min_i64(side_m, o->mt - top);
    int64_t left = t / (height * side_n) * side_n;
    t -= left * height;
    int64_t width = dv_min_i64(side_n, o->nt - left);
    *m = top + t / width;
    *n = left + t % width;
}

static void shard_tile(const dv_order *o, int64_t id, int64_t *m, int64_t *n)
{
    int64_t gx = o->nt / o->sn, s = id / (o->sm * o->sn);
    int64_t t = id % (o->sm * o->sn);
    *m = s / gx * o->sm + t / o->sn;
    *n = s % gx * o->sn + t % o->sn;
}

// Finds the row m and column n of the tile at position id of an order that
// visits blocks of columns one after another, each of them row by row; the last
// block is narrower. The order `grouped` is the same with rows and columns
// exchanged.
static void swizzle_tile(const dv_order *o, int64_t id, int64_t *m, int64_t *n)
{
    int64_t size = dv_min_i64(o->size, o->nt), left = id / (size * o->mt);
    int64_t t = id - left * size * o->mt;
    int64_t width = dv_min_i64(o->nt - left * size, size);
    *m = t / width;
    *n = left * size + t % width;
}

// Returns the row of tiles that is visited at a position. Rows alternate from
// both ends: 0, last, 1, ... If later rows have more work, as in causal
// attention, adjacent rows form balanced pairs.
static int64_t zigzag_row(const dv_order *o, int64_t place)
{
    return place % 2 ? o->mt - 1 - place / 2 : place / 2;
}

static int64_t side_of(const dv_order *o)
{
    int64_t side = 1;
    while (side < o->mt || side < o->nt)
        side *= 2;
    return side;
}

// Returns how many tiles of the square with its corner at (m,n) are inside the
// matrix.
static int64_t inside(const dv_order *o, int64_t m, int64_t n, int64_t side)
{
    int64_t h = dv_min_i64(o->mt - m, side), w = dv_min_i64(o->nt - n, side);
    return h > 0 && w > 0 ? h * w : 0;
}

// A square of tiles, while the search descends from the enclosing square into
// quadrants: its position and, for the Hilbert curve, the orientation of the
// curve in it: transposed about the diagonal (swap), rotated by 180 degrees
// (flip).
typedef struct square {
    int64_t m, n, side;
    int swap, flip;
} square;

// Returns the q-th quadrant of square s that the curve visits.
static square quadrant(const dv_order *o, const square *s, int q)
{
    square c = {s->m, s->n, s->side / 2, s->swap, s->flip};
    int down = q >> 1, right = q & 1;
    if (o->kind == DV_ORDER_HILBERT) {
        right ^= down;
        c.swap ^= !right;
        c.flip ^= down && !right;
        down ^= s->flip;
        right ^= s->flip;
        if (s->swap) {
            int t = down;
            down = right;
            right = t;
        }
    }
    c.m += down * c.side;
    c.n += right * c.side;
    return c;
}

static void curve_tile(const dv_order *o, int64_t id, int64_t *m, int64_t *n)
{
    // swap (the fourth value) is 1, so that the first step of the curve goes
    // right.
    square s = {0, 0, side_of(o), 1, 0};
    while (s.side > 1) {
        square c = quadrant(o, &s, 0);
        for (int q = 0; q < 3; q++) {
            int64_t here = inside(o, c.m, c.n, c.side);
            if (id < here)
                break;
            id -= here;
            c = quadrant(o, &s, q + 1);
        }
        s = c;
    }
    *m = s.m;
    *n = s.n;
}

void dv_order_tile(const dv_order *o, int64_t id, int64_t *m, int64_t *n)
{
    switch (o->kind) {
    case DV_ORDER_COLUMN_MAJOR:
        *m = id % o->mt;
        *n = id / o->mt;
        return;
    case DV_ORDER_GROUPED:
        grouped_tile(o, id, m, n);
        return;
    case DV_ORDER_BLOCK_LINEAR:
        block_tile(o, id, m, n);
        return;
    case DV_ORDER_MORTON:
    case DV_ORDER_HILBERT:
        curve_tile(o, id, m, n);
        return;
    case DV_ORDER_MATCH_SHARD:
        shard_tile(o, id, m, n);
        return;
    case DV_ORDER_SWIZZLE:
        swizzle_tile(o, id, m, n);
        return;
    case DV_ORDER_LIST:
        *m = o->list[id] / o->nt;
        *n = o->list[id] % o->nt;
        return;
    case DV_ORDER_ZIGZAG:
        *m = zigzag_row(o, id / o->nt);
        *n = id % o->nt;
        return;
    default:
        *m = id / o->nt;
        *n = id % o->nt;
        if (o->kind == DV_ORDER_SNAKE && *m % 2)
            *n = o->nt - 1 - *n;
    }
}
