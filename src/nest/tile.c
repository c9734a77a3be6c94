// Dimensions that are cut into tiles, possibly on several levels:
//
//   m 5 seq: out 400                5 blocks of 400, of 1601 in total
//   m 20 of 1601 seq: out 20        20 tiles of 20 in a block
//   m 20 of 1601 prim: out 1        20 elements in a tile
//
// One step of each dimension spans all of the next. Element 1600 has the
// indices (4, 0, 0); the loops stop where the index, 400 i + 20 j + l, would
// reach 1601.
#include "nest/nest.h"
#include "base/math.h"
#include <string.h>

// Returns the nearest dimension before i of which one step spans all of
// dimension i, or -1.
static int find_outer(const dv_nest *n, int i)
{
    for (int j = i - 1; j >= 0; j--)
        if (n->dims[j].type == n->dims[i].type &&
            dv_nest_can_collapse(&n->dims[j], &n->dims[i]))
            return j;
    return -1;
}

int dv_nest_tiles_of(const dv_nest *n, dv_nest_tiles *out, int *bad)
{
    for (int i = 0; i < n->n_dims; i++) {
        out->outer[i] = out->inner[i] = -1;
        out->unit[i] = 1;
        if (!n->dims[i].whole)
            continue;
        *bad = i;
        out->outer[i] = find_outer(n, i);
        if (out->outer[i] < 0 || out->inner[out->outer[i]] >= 0)
            return 0;
        out->inner[out->outer[i]] = i;
    }
    for (int i = n->n_dims - 1; i >= 0; i--)
        if (out->inner[i] >= 0 &&
            !dv_mul_i64(&out->unit[i], out->unit[out->inner[i]],
                        n->dims[out->inner[i]].size)) {
            *bad = i;
            return 0;
        }
    return 1;
}

int dv_nest_tiles_are_right(const dv_nest *n)
{
    dv_nest_tiles t;
    int bad;
    if (!dv_nest_tiles_of(n, &t, &bad))
        return 0;
    for (int i = 0; i < n->n_dims; i++)
        if (t.outer[i] >= 0 && n->dims[t.outer[i]].vars & ~n->dims[i].vars)
            return 0;
    return 1;
}

int dv_nest_is_scheduled(const dv_nest *n)
{
    for (int i = 0; i < n->n_dims; i++)
        if (n->dims[i].exec != DV_NEST_SEQ)
            return 1;
    return 0;
}

int dv_nest_is_tiled(const dv_nest *n)
{
    for (int i = 0; i < n->n_dims; i++)
        if (n->dims[i].whole || n->dims[i].pack)
            return 1;
    return n->pack;
}

void dv_nest_untile(dv_nest *n)
{
    dv_nest_tiles t;
    int bad;
    dv_nest_tiles_of(n, &t, &bad);
    dv_nest_untile_with(n, &t);
}

void dv_nest_untile_with(dv_nest *n, const dv_nest_tiles *t)
{
    int kept = 0;
    for (int i = 0; i < n->n_dims; i++) {
        dv_nest_dim d = n->dims[i];
        if (t->inner[i] >= 0)
            continue;
        d.size = dv_nest_untiled_size(&d);
        d.whole = 0;
        d.pack = 0;
        n->dims[kept++] = d;
    }
    n->n_dims = kept;
    n->pack = 0;
}

void dv_nest_cut(dv_nest *n, int i, int64_t size)
{
    dv_nest_dim *d = &n->dims[i];
    dv_nest_tiles t;
    int bad;
    int64_t whole = dv_nest_untiled_size(d);
    if (dv_nest_tiles_of(n, &t, &bad) && t.inner[i] >= 0)
        // If dimension i loops over tiles, the untiled size is that of the
        // dimension inside these tiles.
        whole = n->dims[t.inner[i]].whole;
    memmove(d + 1, d, (size_t)(n->n_dims - i) * sizeof *d);
    n->n_dims++;
    d[0].size = dv_ceil_div(d->size, size);
    d[0].exec = DV_NEST_SEQ;
    d[0].pack = 0;
    d[1].size = size;
    d[1].whole = whole;
    // The product does not overflow: the extents of the nest were checked, and
    // only the last tile, which is cut short, may exceed them.
    for (int o = 0; o < DV_MAX_OPERANDS; o++)
        d[0].stride[o] *= size;
}
