// Emits a C or C++ function that computes the tile at a position of a traversal
// order, with the matrix sizes as constants.
#include "emit/emit.h"
#include "base/math.h"
#include <inttypes.h>

// Emits the decoder of the Morton and Hilbert orders: per bit, descend into one
// quadrant and skip the tiles of the quadrants before it.
static void put_curve(dv_text *out, const dv_order *o, const char *type)
{
    int64_t side = 1;
    int hilbert = o->kind == DV_ORDER_HILBERT;
    while (side < o->mt || side < o->nt)
        side *= 2;
    dv_put(out, "    %s m0 = 0, n0 = 0;\n", type);
    if (hilbert)
        dv_put(out, "    int swap = 1, flip = 0;\n");
    dv_put(out,
           "    for (%s side = %" PRId64 "; side > 0; side /= 2) {\n"
           "        for (int q = 0; q < 4; q++) {\n"
           "            int down = q >> 1, right = q & 1;\n",
           type, side / 2);
    if (hilbert)
        dv_put(out, "            right ^= down;\n"
                    "            int turn = !right, half = down && !right;\n"
                    "            down ^= flip;\n"
                    "            right ^= flip;\n"
                    "            if (swap) {\n"
                    "                int t = down;\n"
                    "                down = right;\n"
                    "                right = t;\n"
                    "            }\n");
    dv_put(out,
           "            %s m1 = m0 + (down ? side : 0);\n"
           "            %s n1 = n0 + (right ? side : 0);\n"
           "            %s h = m1 < %" PRId64 " ? %" PRId64 " - m1 : 0;\n"
           "            %s w = n1 < %" PRId64 " ? %" PRId64 " - n1 : 0;\n"
           "            h = h < side ? h : side;\n"
           "            w = w < side ? w : side;\n"
           "            if (q < 3 && id >= h * w) {\n"
           "                id -= h * w;\n"
           "                continue;\n"
           "            }\n"
           "            m0 = m1;\n"
           "            n0 = n1;\n",
           type, type, type, o->mt, o->mt, type, o->nt, o->nt);
    if (hilbert)
        dv_put(out, "            swap ^= turn;\n"
                    "            flip ^= half;\n");
    dv_put(out, "            break;\n"
                "        }\n"
                "    }\n"
                "    *m = m0;\n"
                "    *n = n0;\n");
}

static void put_grouped(dv_text *out, const dv_order *o, const char *type)
{
    int64_t size = dv_min_i64(o->size, o->mt);
    dv_put(out,
           "    %s first = id / %" PRId64 " * %" PRId64 ", t = id %% %" PRId64
           ";\n"
           "    %s rows = %" PRId64 " - first < %" PRId64 " ? %" PRId64
           " - first : %" PRId64 ";\n"
           "    *m = first + t %% rows;\n"
           "    *n = t / rows;\n",
           type, size * o->nt, size, size * o->nt, type, o->mt, size, o->mt,
           size);
}

static void put_blocks(dv_text *out, const dv_order *o, const char *type)
{
    int64_t h = dv_min_i64(o->size, o->mt), w = dv_min_i64(o->size, o->nt);
    dv_put(out,
           "    %s top = id / %" PRId64 " * %" PRId64 ";\n"
           "    %s t = id - top * %" PRId64 ";\n"
           "    %s height = %" PRId64 " - top < %" PRId64 " ? %" PRId64
           " - top : %" PRId64 ";\n"
           "    %s left = t / (height * %" PRId64 ") * %" PRId64 ";\n"
           "    %s width = %" PRId64 " - left < %" PRId64 " ? %" PRId64
           " - left : %" PRId64 ";\n"
           "    t -= left * height;\n"
           "    *m = top + t / width;\n"
           "    *n = left + t %% width;\n",
           type, h * o->nt, h, type, o->nt, type, o->mt, h, o->mt, h, type, w,
           w, type, o->nt, w, o->nt, w);
}

static void put_swizzle(dv_text *out, const dv_order *o, const char *type)
{
    int64_t size = dv_min_i64(o->size, o->nt);
    dv_put(
        out,
        "    %s left = id / %" PRId64 " * %" PRId64 ", t = id %% %" PRId64 ";\n"
        "    %s width = %" PRId64 " - left < %" PRId64 " ? %" PRId64
        " - left : %" PRId64 ";\n"
        "    *m = t / width;\n"
        "    *n = left + t %% width;\n",
        type, size * o->mt, size, size * o->mt, type, o->nt, size, o->nt, size);
}

// Emits the table of a tile order that is given as a list.
static void put_list(dv_text *out, const dv_order *o, int number)
{
    dv_put(out, "static const int tiles_%d[] = {", number);
    for (int64_t i = 0; i < o->mt * o->nt; i++)
        dv_put(out, "%s%d,", i % 16 ? " " : "\n    ", (int)o->list[i]);
    dv_put(out, "\n};\n");
}

void dv_emit_decode(dv_text *out, const dv_order *o, int number,
                    const char *type)
{
    if (o->kind == DV_ORDER_LIST)
        put_list(out, o, number);
    dv_put(out, "// Tile (m,n) at place id of the order ");
    dv_order_print(out, o);
    dv_put(out,
           ", in %" PRId64 "x%" PRId64 " tiles.\n"
           "static inline void tile_at_%d(%s id, %s *m, %s *n)\n{\n",
           o->mt, o->nt, number, type, type, type);
    switch (o->kind) {
    case DV_ORDER_COLUMN_MAJOR:
        dv_put(out, "    *m = id %% %" PRId64 ";\n    *n = id / %" PRId64 ";\n",
               o->mt, o->mt);
        break;
    case DV_ORDER_GROUPED:
        put_grouped(out, o, type);
        break;
    case DV_ORDER_BLOCK_LINEAR:
        put_blocks(out, o, type);
        break;
    case DV_ORDER_MORTON:
    case DV_ORDER_HILBERT:
        put_curve(out, o, type);
        break;
    case DV_ORDER_SWIZZLE:
        put_swizzle(out, o, type);
        break;
    case DV_ORDER_LIST:
        dv_put(out,
               "    *m = (%s)tiles_%d[id] / %" PRId64 ";\n"
               "    *n = (%s)tiles_%d[id] %% %" PRId64 ";\n",
               type, number, o->nt, type, number, o->nt);
        break;
    case DV_ORDER_ZIGZAG:
        dv_put(out,
               "    %s p = id / %" PRId64 ";\n"
               "    *m = p %% 2 ? %" PRId64 " - p / 2 : p / 2;\n"
               "    *n = id %% %" PRId64 ";\n",
               type, o->nt, o->mt - 1, o->nt);
        break;
    default:
        dv_put(out, "    *m = id / %" PRId64 ";\n    *n = id %% %" PRId64 ";\n",
               o->nt, o->nt);
        if (o->kind == DV_ORDER_SNAKE)
            dv_put(out, "    if (*m %% 2)\n        *n = %" PRId64 " - *n;\n",
                   o->nt - 1);
    }
    dv_put(out, "}\n\n");
}
