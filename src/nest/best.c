// The kernel's dimensions, tiles and the order of loops, each by trying what is
// possible and counting what it would cost:
//
//   kernel   an m and an n, and k up to what a panel in L1 holds
//     tile     sizes of m and n inside; blocks of loops for L2
//       order    templates of loops, around each other
//         pack     what is packed, and in which loop
//
// Each pass tries the later ones on copies and keeps only its own choice; the
// later pass then finds the same. Nothing here depends on the number of
// threads: sums are in the same order for any.
#include "nest/cost.h"
#include "base/dtype.h"
#include "base/math.h"
#include <stdlib.h>
#include <string.h>

dv_nest_caches dv_nest_caches_of(const dv_nest_options *o)
{
    return (dv_nest_caches){o->l1_bytes ? o->l1_bytes : 64 << 10,
                            o->l2_bytes ? o->l2_bytes : 1 << 20,
                            o->l3_bytes ? o->l3_bytes : 16 << 20,
                            o->vector_bytes ? o->vector_bytes : 16,
                            o->tile_rows ? o->tile_rows : 4,
                            o->tile_vectors ? o->tile_vectors : 6};
}

// Moving loops may not change which tiles belong together.
static int same_whole(const dv_nest *a, const dv_nest *b)
{
    int bad;
    dv_nest_tiles t;
    dv_nest whole;
    if (!dv_nest_tiles_of(a, &t, &bad))
        return 0;
    dv_nest_copy(&whole, a);
    dv_nest_unite_tiles(&whole, &t);
    return dv_nest_makes_up(&whole, b);
}

// -- Tiles -------------------------------------------------------------------

// Elements of a unit stride loop that go together: one line, or a few.
static const int64_t lines[] = {16, 48};
enum { N_LINES = sizeof lines / sizeof *lines };

// k that keeps a panel of B in L1: five vectors of it are 80 bytes. Of long
// vectors L2 holds some, since it costs more to pass over out again.
static int64_t k_limit(const dv_nest_caches *caches)
{
    if (caches->vector > 16)
        return dv_max_i64(
            caches->l1 * 11 / 8 /
                (caches->vector * caches->vectors + 8 * caches->rows),
            16);
    return dv_max_i64(caches->l1 * 5 / 8 / 80, 16);
}

// Few rows use every element once: it pays to go along what lies together, a
// few k at a time, rather than down the columns.
static int64_t k_wanted(const dv_nest *n, const dv_nest_caches *caches)
{
    int64_t size[2] = {1, 1};
    for (int i = 0; i < n->n_dims; i++)
        if (n->dims[i].exec == DV_NEST_PRIM && n->dims[i].type != DV_NEST_K)
            size[n->dims[i].type == DV_NEST_N] = n->dims[i].size;
    return dv_min_i64(size[0], size[1]) < 4 ? DV_FORM_THIN_K : k_limit(caches);
}

// Parts of at most `most`, as even as multiples of `unit` can be.
static int64_t even(int64_t n, int64_t most, int64_t unit)
{
    int64_t parts = dv_ceil_div(n, dv_max_i64(most, unit));
    return dv_ceil_div(dv_ceil_div(n, parts), unit) * unit;
}

// Cut a dimension where it stands, its tiles become a loop in front.
static void cut_to(dv_nest *n, int i, int64_t size)
{
    if (size >= n->dims[i].size || n->n_dims == DV_NEST_MAX_DIMS)
        return;
    dv_nest before;
    dv_nest_copy(&before, n);
    dv_nest_cut(n, i, size);
    if (n->dims[i + 1].exec == DV_NEST_PRIM) { // loops stand before prims
        dv_nest_dim d = n->dims[i];
        memmove(&n->dims[1], &n->dims[0], (size_t)i * sizeof d);
        n->dims[0] = d;
    }
    if (!same_whole(&before, n))
        dv_nest_copy(n, &before);
}

static int find_prim(const dv_nest *n, dv_nest_type type)
{
    for (int i = 0; i < n->n_dims; i++)
        if (n->dims[i].exec == DV_NEST_PRIM && n->dims[i].type == type)
            return i;
    return -1;
}

// The outermost k inside is cut, so that all together fit.
static void cut_k(dv_nest *n, int64_t most)
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

// A unit stride loop is cut, so that a block has whole lines of it.
static void cut_lines(dv_nest *n, int64_t line)
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

// A block of the loops of m or n for L2: of the one with the smallest steps.
static void cut_block(dv_nest *n, dv_nest_type type, int64_t elems)
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
            (at < 0 || dv_nest_reach(d) < dv_nest_reach(&n->dims[at])))
            at = i;
    }
    if (at >= 0)
        cut_to(n, at, even(n->dims[at].size, dv_max_i64(elems / block, 1), 1));
}

// A few turns of the loop that continues the rows of an input: they are packed
// together, where out is packed and does not leave room for all of them.
static void cut_few(dv_nest *n, int64_t few)
{
    for (int i = 0; i < n->n_dims; i++) {
        const dv_nest_dim *p = &n->dims[i];
        for (int j = 0; p->exec == DV_NEST_PRIM && j < n->n_dims; j++) {
            const dv_nest_dim *d = &n->dims[j];
            if (d->type != p->type || d->exec == DV_NEST_PRIM || d->whole ||
                d->size <= few || p->type == DV_NEST_K || p->whole)
                continue;
            int o = p->type == DV_NEST_M ? DV_IN0 : DV_IN1;
            if (p->stride[o] == 1 && d->stride[o] == p->size &&
                p->stride[DV_OUT] != 1) {
                cut_to(n, j, even(d->size, few, 1));
                return;
            }
        }
    }
}

// Sizes worth trying for the m or n of the kernel; 0 ends the list.
static const int64_t widths[] = {1 << 12, 240, 96, 48, 24, 20};
enum { N_WIDTHS = sizeof widths / sizeof *widths, N_BLOCKS = 7 };

static int cut_prim(dv_nest *n, dv_nest_type type, int which, int64_t unit)
{
    int i = find_prim(n, type);
    int64_t size = i < 0 ? 1 : n->dims[i].size;
    if (which == 0 && size <= widths[0])
        return 1; // whole
    if (which == 0 || size <= widths[which] * 3 / 2)
        return 0;
    cut_to(n, i, even(size, widths[which], unit));
    return 1;
}

typedef struct cutter {
    const dv_nest_caches *caches;
    dv_nest best;
    double least;
} cutter;

static int same_dims(const dv_nest *a, const dv_nest *b)
{
    int same = a->n_dims == b->n_dims;
    for (int i = 0; same && i < a->n_dims; i++)
        same = a->dims[i].size == b->dims[i].size &&
               a->dims[i].whole == b->dims[i].whole &&
               a->dims[i].type == b->dims[i].type &&
               !memcmp(a->dims[i].stride, b->dims[i].stride,
                       sizeof a->dims[i].stride);
    return same;
}

// Blocks of loops around a kernel of settled size.
static void try_blocks(cutter *w, const dv_nest *n)
{
    int64_t elems = w->caches->l2 / 2 / dv_dtype_get(n->dtype)->size_bytes;
    dv_nest tries[N_BLOCKS], tried;
    for (int block = 0; block < N_BLOCKS; block++) {
        dv_nest *a = &tries[block];
        int other = 0;
        dv_nest_copy(a, n);
        if (block < 4 && block & 1)
            cut_block(a, DV_NEST_M, elems);
        if (block < 4 && block & 2)
            cut_block(a, DV_NEST_N, elems);
        if (block >= 4)
            cut_few(a, block == 4 ? 8 : block == 5 ? 4 : 16);
        while (!same_dims(&tries[other], a))
            other++;
        if (other < block || dv_nest_least_cost(a, w->caches) >= w->least)
            continue;
        dv_nest_copy(&tried, a);
        double cost = dv_nest_put_in_order(&tried, w->caches, w->least * 0.999);
        if (cost < w->least * 0.999) {
            w->least = cost;
            dv_nest_copy(&w->best, a);
        }
    }
}

double dv_nest_cut_tiles(dv_nest *n, const dv_nest_caches *caches, double most)
{
    cutter w = {caches, *n, most};
    int64_t unit = caches->vector / 4;
    for (int line = 0; line < N_LINES; line++) {
        dv_nest given = *n;
        cut_k(&given, k_wanted(n, caches));
        int before = given.n_dims;
        cut_lines(&given, lines[line]);
        for (int i = 0; i < N_WIDTHS * N_WIDTHS; i++) {
            dv_nest a = given;
            if (cut_prim(&a, DV_NEST_M, i / N_WIDTHS, unit) &&
                cut_prim(&a, DV_NEST_N, i % N_WIDTHS, unit))
                try_blocks(&w, &a);
        }
        if (given.n_dims == before)
            break; // no lines to cut
    }
    *n = w.best;
    return w.least;
}

dv_status dv_nest_tile(dv_nest *n, const dv_nest_options *options,
                       dv_diag *diag)
{
    (void)diag;
    dv_nest_caches caches = dv_nest_caches_of(options);
    if (dv_nest_is_product(n) && !dv_nest_is_plain(n, NULL))
        dv_nest_cut_tiles(n, &caches, DV_NEST_IMPOSSIBLE);
    return DV_OK;
}

// -- Kernel ------------------------------------------------------------------

static void to_prim(dv_nest *n, int i)
{
    dv_nest_dim d = n->dims[i];
    d.exec = DV_NEST_PRIM;
    memmove(&n->dims[i], &n->dims[i + 1],
            (size_t)(n->n_dims - i - 1) * sizeof d);
    n->dims[n->n_dims - 1] = d;
}

// The k that goes inside next: unit stride in an operand, or else the smallest
// steps.
static int next_k(const dv_nest *n)
{
    int best = -1;
    for (int i = 0; i < n->n_dims; i++) {
        const dv_nest_dim *d = &n->dims[i];
        if (d->type != DV_NEST_K || d->exec == DV_NEST_PRIM)
            continue;
        int64_t step =
            dv_min_i64(llabs(d->stride[DV_IN0]), llabs(d->stride[DV_IN1]));
        const dv_nest_dim *b = best < 0 ? d : &n->dims[best];
        int64_t least =
            dv_min_i64(llabs(b->stride[DV_IN0]), llabs(b->stride[DV_IN1]));
        if (best < 0 || step < least)
            best = i;
    }
    return best;
}

// k inside until there is enough of it; the one put first is innermost.
static void mark_k(dv_nest *n, int64_t enough)
{
    int count = 0, i;
    int64_t k = 1;
    dv_nest_dim inside[DV_FORM_MAX_K];
    if (n->k_order == DV_K_AS_IT_IS)
        return;
    while (count < DV_FORM_MAX_K && k * 2 <= enough && (i = next_k(n)) >= 0) {
        n->dims[i].exec = DV_NEST_PRIM;
        k *= n->dims[i].size;
        inside[count++] = n->dims[i];
    }
    int kept = 0;
    for (i = 0; i < n->n_dims; i++)
        if (n->dims[i].type != DV_NEST_K || n->dims[i].exec != DV_NEST_PRIM)
            n->dims[kept++] = n->dims[i];
    while (count > 0)
        n->dims[kept++] = inside[--count];
}

// Dimensions worth trying inside: unit strides first, then long ones.
enum { MOST_TRIED = 4 };

static int worth(const dv_nest_dim *d)
{
    return (d->stride[DV_OUT] == 1) * 2 +
           (d->stride[DV_IN0] == 1 || d->stride[DV_IN1] == 1);
}

// How many dimensions of its type are tried before dimension i.
static int rank_of(const dv_nest *n, int i)
{
    const dv_nest_dim *d = &n->dims[i];
    int before = 0;
    for (int j = 0; j < n->n_dims; j++) {
        const dv_nest_dim *e = &n->dims[j];
        if (j == i || e->type != d->type)
            continue;
        if (worth(e) != worth(d))
            before += worth(e) > worth(d);
        else if (e->size != d->size)
            before += e->size > d->size;
        else
            before += j < i;
    }
    return before;
}

// Dimension number i of a type to try; -1: there is none.
static int pick(const dv_nest *n, dv_nest_type type, int i)
{
    for (int j = 0; i < MOST_TRIED && j < n->n_dims; j++)
        if (n->dims[j].type == type && rank_of(n, j) == i)
            return j;
    return -1;
}

static dv_nest with_prims(const dv_nest *n, int m, int k_n, int64_t enough)
{
    dv_nest a = *n;
    if (m >= 0)
        to_prim(&a, m);
    if (k_n >= 0)
        to_prim(&a, m >= 0 && m < k_n ? k_n - 1 : k_n);
    mark_k(&a, enough);
    return a;
}

dv_status dv_nest_kernel(dv_nest *n, const dv_nest_options *options,
                         dv_diag *diag)
{
    (void)diag;
    dv_nest_caches caches = dv_nest_caches_of(options);
    dv_nest best = *n;
    double least = DV_NEST_IMPOSSIBLE;
    if (!dv_nest_is_product(n) || dv_nest_is_plain(n, n))
        return DV_OK;
    for (int i = 0; i == 0 || pick(n, DV_NEST_M, i) >= 0; i++)
        for (int j = 0; j == 0 || pick(n, DV_NEST_N, j) >= 0; j++) {
            dv_nest a = with_prims(n, pick(n, DV_NEST_M, i),
                                   pick(n, DV_NEST_N, j), k_limit(&caches));
            dv_nest tried = a;
            double cost = dv_nest_cut_tiles(&tried, &caches, least);
            if (cost < least) {
                least = cost;
                best = a;
            }
        }
    *n = best;
    return DV_OK;
}
