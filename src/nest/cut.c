// Tiles dimensions: k to fit L1, loops into cache lines and into blocks for L2,
// and the kernel's m and n to the sizes that are tried. A cut that would make
// it ambiguous which loop belongs to which tile leaves the nest unchanged.
#include "nest/cost.h"
#include "base/math.h"

// Returns the size of parts of n elements that are as even as possible, at most
// about `most` elements and a multiple of `unit`.
static int64_t even(int64_t n, int64_t most, int64_t unit)
{
    int64_t parts = dv_ceil_div(n, dv_max_i64(most, unit));
    return dv_ceil_div(dv_ceil_div(n, parts), unit) * unit;
}

// Returns whether cutting dimension i changed only that dimension: all others
// are still tiles of the same loops. `was` and `now` are the tiles before and
// after; the new loop is at `loop`, the dimension inside its tiles at i + 1.
static int is_cut(const dv_nest_tiles *was, const dv_nest_tiles *now,
                  int n_dims, int i, int loop)
{
    for (int j = 0; j < n_dims; j++) {
        // Dimensions after i moved by one, and also those before i if the new
        // loop was inserted in front of them.
        int at = j > i || (j < i && loop < i) ? j + 1 : j == i ? loop : j;
        int outer = was->outer[j];
        if (outer >= 0)
            outer = outer >= i || loop < i ? outer + 1 : outer;
        if (now->outer[at] != outer)
            return 0;
    }
    return now->outer[i + 1] == loop;
}

// Returns whether nest b is nest a, with tiles t, tiled further: untiled, both
// have the same dimensions. This holds for any cuts, but is slower to check
// than that a single cut changed only one dimension.
static int same_whole(const dv_nest *a, const dv_nest_tiles *t,
                      const dv_nest *b)
{
    dv_nest whole;
    dv_nest_copy(&whole, a);
    dv_nest_untile_with(&whole, t);
    return dv_nest_untiles_to(&whole, b);
}

// Tiles dimension i with tiles of `size` elements. The loop over tiles is
// inserted before it, or outermost if i is inside the kernel. Leaves the nest
// unchanged if that is not possible.
static void cut_to(dv_nest *n, int i, int64_t size)
{
    dv_nest before;
    dv_nest_tiles was, now;
    int bad, loop = i;
    if (size >= n->dims[i].size || n->n_dims == DV_NEST_MAX_DIMS ||
        !dv_nest_tiles_of(n, &was, &bad))
        return;
    dv_nest_copy(&before, n);
    dv_nest_cut(n, i, size);
    // Loops must precede the kernel's dimensions: move the new one outermost.
    if (n->dims[i + 1].exec == DV_NEST_PRIM) {
        dv_nest_move(n, i, 0);
        loop = 0;
    }
    int fits = dv_nest_tiles_of(n, &now, &bad) &&
               is_cut(&was, &now, before.n_dims, i, loop);
    if (!fits && !same_whole(&before, &was, n))
        dv_nest_copy(n, &before);
}

static int find_prim(const dv_nest *n, dv_nest_type type)
{
    for (int i = 0; i < n->n_dims; i++)
        if (n->dims[i].exec == DV_NEST_PRIM && n->dims[i].type == type)
            return i;
    return -1;
}

// Tiles the outermost k (summed dimension) inside the kernel, so that a panel
// with all k inside fits into L1.
void dv_nest_tile_k(dv_nest *n, int64_t most)
{
    int first = find_prim(n, DV_NEST_K);
    int64_t others = 1;
    if (n->k_order == DV_K_AS_IT_IS)
        return;
    for (int i = first + 1; first >= 0 && i < n->n_dims; i++)
        if (n->dims[i].type == DV_NEST_K && n->dims[i].exec == DV_NEST_PRIM)
            others *= n->dims[i].size;
    if (first >= 0 && n->dims[first].size > most * 5 / 4 / others)
        cut_to(n, first,
               even(n->dims[first].size, dv_max_i64(most / others, 1),
                    others >= 8 ? 1 : 8));
}

static int64_t k_inside(const dv_nest *n)
{
    int64_t k = 1;
    for (int i = 0; i < n->n_dims; i++)
        if (n->dims[i].type == DV_NEST_K && n->dims[i].exec == DV_NEST_PRIM &&
            !dv_mul_i64(&k, k, n->dims[i].size))
            return INT64_MAX;
    return k;
}

// Tiles every unit-stride loop, so that a block has whole cache lines of it.
void dv_nest_tile_lines(dv_nest *n, int64_t line)
{
    for (int i = 0; i < n->n_dims; i++) {
        const dv_nest_dim *d = &n->dims[i];
        int unit = d->stride[DV_IN0] == 1 || d->stride[DV_IN1] == 1 ||
                   d->stride[DV_OUT] == 1;
        int stays = d->type == DV_NEST_K && n->k_order == DV_K_AS_IT_IS;
        if (unit && d->exec != DV_NEST_PRIM && d->type != DV_NEST_C && !stays &&
            !d->whole && d->size > line * 3 / 2) {
            cut_to(n, i, line);
            i++;
        }
    }
}

// Tiles the m or n loop with the smallest strides, so that a block fits into
// L2.
void dv_nest_tile_block(dv_nest *n, dv_nest_type type, int64_t elems)
{
    int at = -1, prim = find_prim(n, type);
    int64_t block;
    dv_nest_tiles t;
    int bad;
    if (!dv_nest_tiles_of(n, &t, &bad) ||
        !dv_mul_i64(&block, k_inside(n), prim < 0 ? 1 : n->dims[prim].size))
        return;
    for (int i = 0; i < n->n_dims; i++) {
        const dv_nest_dim *d = &n->dims[i];
        if (d->type == type && d->exec != DV_NEST_PRIM && t.inner[i] < 0 &&
            !d->whole &&
            (at < 0 ||
             dv_nest_sort_stride(d) < dv_nest_sort_stride(&n->dims[at])))
            at = i;
    }
    if (at >= 0)
        cut_to(n, at, even(n->dims[at].size, dv_max_i64(elems / block, 1), 1));
}

// Finds the loop that continues the rows of an input, that is whose stride is
// the length of a row, if the output has no unit stride along these rows. *at
// is set to the kernel's dimension along the row. With `cut`, that may be a
// tile of the row. Returns -1 if there is no such loop.
static int find_rows(const dv_nest *n, int cut, int *at)
{
    for (int i = 0; i < n->n_dims; i++) {
        const dv_nest_dim *p = &n->dims[i];
        for (int j = 0; p->exec == DV_NEST_PRIM && j < n->n_dims; j++) {
            const dv_nest_dim *d = &n->dims[j];
            if (d->type != p->type || d->exec == DV_NEST_PRIM || d->whole ||
                p->type == DV_NEST_K || (p->whole && !cut))
                continue;
            int o = p->type == DV_NEST_M ? DV_IN0 : DV_IN1;
            *at = i;
            if (p->stride[o] == 1 && p->stride[DV_OUT] != 1 &&
                d->stride[o] == dv_nest_untiled_size(p))
                return j;
        }
    }
    return -1;
}

// Tiles the loop whose stride in an input is the length of one of its rows, so
// that one iteration continues where the one before ended. A tile of at most
// `few` iterations is packed at a time. This is for nests whose output is
// packed, too: larger tiles would not fit the caches together with it.
void dv_nest_tile_rows(dv_nest *n, int64_t few)
{
    int at, i = find_rows(n, 0, &at);
    if (i >= 0 && n->dims[i].size > few)
        cut_to(n, i, even(n->dims[i].size, few, 1));
}

// Returns the m or n loop with stride `step` in the output, or -1 if there is
// none.
static int find_out(const dv_nest *n, int64_t step)
{
    for (int i = 0; i < n->n_dims; i++)
        if (n->dims[i].stride[DV_OUT] == step && !n->dims[i].whole &&
            n->dims[i].exec != DV_NEST_PRIM && n->dims[i].type != DV_NEST_C)
            return i;
    return -1;
}

// Tiles the loop whose stride is the length of an input's row, so that
// contiguous runs are not short, and the loop whose stride is the length of an
// output line, so that a block of results has at most `elems` elements. If both
// are the same loop, it is tiled once, for the rows.
void dv_nest_tile_runs(dv_nest *n, int64_t elems)
{
    enum { RUN = 128 }; // smallest contiguous run, in elements
    int at, rows = find_rows(n, 1, &at), line = find_out(n, 1);
    int lines = line < 0 ? -1 : find_out(n, n->dims[line].size);
    if (rows < 0 || lines < 0)
        return;
    const dv_nest_dim *p = &n->dims[at];
    int64_t few = dv_ceil_div(RUN, dv_nest_untiled_size(p)), block;
    if (n->dims[rows].size <= few ||
        !dv_mul_i64(&block, few, n->dims[line].size) ||
        !dv_mul_i64(&block, block, dv_nest_prim_size(n, DV_NEST_M)) ||
        !dv_mul_i64(&block, block, dv_nest_prim_size(n, DV_NEST_N)))
        return;
    int64_t many = dv_max_i64(elems / block, 1);
    few = even(n->dims[rows].size, few, 1);
    if (lines != rows && n->dims[lines].size > many) {
        cut_to(n, lines, even(n->dims[lines].size, many, 1));
        rows = find_rows(n, 1, &at);
    }
    if (rows >= 0)
        cut_to(n, rows, few);
}

// Sizes that are tried for the kernel's m and n. Candidate 0 leaves a dimension
// untiled if it has at most widths[0] elements.
static const int64_t widths[] = {1 << 12, 240, 96, 48, 24, 20};
_Static_assert(sizeof widths / sizeof *widths == DV_NEST_WIDTHS, "widths");

// Returns the size that a kernel dimension of `size` elements is cut to with
// candidate number `which`, or 0 if a dimension of this size is not tried with
// that candidate (it is too small to be cut so, or too large to stay untiled).
static int64_t width_of(int64_t size, int which, int64_t unit)
{
    if (which == 0)
        // Candidate number 0 leaves the dimension untiled, if it has at most
        // widths[0] elements.
        return size <= widths[0] ? size : 0;
    return size > widths[which] * 3 / 2 ? even(size, widths[which], unit) : 0;
}

int dv_nest_tile_prim(dv_nest *n, dv_nest_type type, int which, int64_t unit)
{
    int i = find_prim(n, type);
    int64_t width = width_of(i < 0 ? 1 : n->dims[i].size, which, unit);
    if (width && i >= 0)
        cut_to(n, i, width);
    return width > 0;
}

// Returns whether tiles of `width` elements of the kernel's dimension `prim`
// could be mistaken for tiles of another loop. Then only trying the cut shows
// whether it is possible.
static int is_ambiguous(const dv_nest *n, int prim, int64_t width)
{
    dv_nest_dim d = n->dims[prim];
    d.size = width;
    for (int i = 0; i < n->n_dims; i++)
        if (i != prim && n->dims[i].type == d.type &&
            dv_nest_can_collapse(&n->dims[i], &d))
            return 1;
    return d.whole || n->n_dims == DV_NEST_MAX_DIMS;
}

int64_t dv_nest_prim_width(const dv_nest *n, dv_nest_type type, int which,
                           int64_t unit)
{
    int i = find_prim(n, type);
    int64_t size = i < 0 ? 1 : n->dims[i].size;
    int64_t width = width_of(size, which, unit);
    if (width >= size)
        return size;
    if (!width || !is_ambiguous(n, i, width))
        return width;
    dv_nest a;
    dv_nest_copy(&a, n);
    cut_to(&a, i, width);
    return dv_nest_prim_size(&a, type);
}

int64_t dv_nest_prim_size(const dv_nest *n, dv_nest_type type)
{
    int i = find_prim(n, type);
    return i < 0 ? 1 : n->dims[i].size;
}
