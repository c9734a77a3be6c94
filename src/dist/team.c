// Computes own boxes, owners and messages of tensors distributed over grids of
// ranks.
#include "base/math.h"
#include "base/plural.h"
#include "dist/dist.h"
#include <inttypes.h>
#include <stdlib.h>

void dv_grid_coords(int64_t *out, const int64_t *grid, int n_axes, int64_t rank)
{
    for (int a = n_axes - 1; a >= 0; a--) {
        out[a] = rank % grid[a];
        rank /= grid[a];
    }
}

int64_t dv_grid_rank(const int64_t *coords, const int64_t *grid, int n_axes)
{
    int64_t rank = 0;
    for (int a = 0; a < n_axes; a++)
        rank = rank * grid[a] + coords[a];
    return rank;
}

int64_t dv_grid_members(int64_t *out, const int64_t *grid, int n_axes,
                        int64_t rank, uint32_t axes)
{
    int64_t at[DV_MAX_AXES], n = 1, me = 0;
    dv_grid_coords(at, grid, n_axes, rank);
    for (int a = 0; a < n_axes; a++)
        n *= axes >> a & 1 ? grid[a] : 1;
    for (int64_t m = 0; m < n; m++) {
        int64_t left = m;
        for (int a = n_axes - 1; a >= 0; a--)
            if (axes >> a & 1) {
                at[a] = left % grid[a];
                left /= grid[a];
            }
        out[m] = dv_grid_rank(at, grid, n_axes);
        me = out[m] == rank ? m : me;
    }
    return me;
}

int64_t dv_dist_n_ranks(const dv_dist *d)
{
    int64_t n = 1;
    for (int a = 0; a < d->n_axes; a++)
        n *= d->grid[a];
    return n;
}

// Returns the extent that the ranks divide among them: of the tensor's dim or,
// if that is a slice, of the dim it is a slice of.
static int64_t length(const dv_dist *d, int dim)
{
    return d->slice[dim].stride ? d->whole[dim] : d->shape[dim];
}

static dv_status check_starts(const dv_dist *d, int dim, dv_diag *diag)
{
    const int64_t *s = d->starts[dim];
    int64_t n = d->axis[dim] < 0 ? 1 : d->grid[d->axis[dim]];
    if (!s)
        return DV_OK;
    if (s[0] != 0 || s[n] != length(d, dim))
        return dv_fail(diag, DV_E_SHAPE, DV_NOWHERE,
                       "the parts of dim %d are %" PRId64 "..%" PRId64
                       ", the dim is 0..%" PRId64,
                       dim, s[0], s[n], length(d, dim));
    for (int64_t i = 0; i < n; i++)
        if (s[i] > s[i + 1])
            return dv_fail(diag, DV_E_SHAPE, DV_NOWHERE,
                           "part %" PRId64 " of dim %d begins at %" PRId64
                           ", the next one at %" PRId64,
                           i, dim, s[i], s[i + 1]);
    return DV_OK;
}

static dv_status check_slice(const dv_dist *d, int dim, dv_diag *diag)
{
    dv_slice s = d->slice[dim];
    int64_t reach;
    if (s.stride == 0)
        return DV_OK;
    if (s.off >= 0 && s.stride > 0 && s.size == d->shape[dim] &&
        dv_mul_i64(&reach, dv_max_i64(s.size - 1, 0), s.stride) &&
        dv_add_i64(&reach, reach, s.off) && s.off <= d->whole[dim] &&
        (s.size == 0 || reach < d->whole[dim]))
        return DV_OK;
    return dv_fail(diag, DV_E_BOUNDS, DV_NOWHERE,
                   "dim %d of %" PRId64 " elements: a slice from %" PRId64
                   " of %" PRId64 " elements, %" PRId64 " apart, of %" PRId64,
                   dim, d->shape[dim], s.off, s.size, s.stride, d->whole[dim]);
}

dv_status dv_dist_check(const dv_dist *d, dv_diag *diag)
{
    int64_t ranks = 1, elems = 1;
    int used[DV_MAX_AXES] = {0};
    if (d->n_dims < 0 || d->n_dims > DV_MAX_DIMS || d->n_axes < 0 ||
        d->n_axes > DV_MAX_AXES)
        return dv_fail(diag, DV_E_LIMIT, DV_NOWHERE,
                       "%d dim%s over %d %s: at most %d over %d are possible",
                       d->n_dims, DV_PLURAL(d->n_dims, "", "s"), d->n_axes,
                       DV_PLURAL(d->n_axes, "axis", "axes"), DV_MAX_DIMS,
                       DV_MAX_AXES);
    for (int a = 0; a < d->n_axes; a++)
        if (d->grid[a] < 1 || !dv_mul_i64(&ranks, ranks, d->grid[a]))
            return dv_fail(diag, DV_E_SHAPE, DV_NOWHERE,
                           "axis %d of the grid has %" PRId64 " rank%s", a,
                           d->grid[a], DV_PLURAL(d->grid[a], "", "s"));
    for (int i = 0; i < d->n_dims; i++) {
        if (d->shape[i] < 0 || !dv_mul_i64(&elems, elems, d->shape[i]))
            return dv_fail(diag, DV_E_SHAPE, DV_NOWHERE,
                           "dim %d has %" PRId64 " element%s", i, d->shape[i],
                           DV_PLURAL(d->shape[i], "", "s"));
        if (d->axis[i] >= d->n_axes)
            return dv_fail(diag, DV_E_SHAPE, DV_NOWHERE,
                           "dim %d is cut by axis %d of %d", i, d->axis[i],
                           d->n_axes);
        if (d->axis[i] >= 0 && used[d->axis[i]]++)
            return dv_fail(diag, DV_E_SHAPE, DV_NOWHERE,
                           "axis %d cuts dim %d and another one", d->axis[i],
                           i);
        DV_TRY(check_slice(d, i, diag));
        DV_TRY(check_starts(d, i, diag));
    }
    return DV_OK;
}

int dv_dist_cuts(const dv_dist *d, int axis)
{
    for (int i = 0; i < d->n_dims; i++)
        if (d->axis[i] == axis)
            return 1;
    return 0;
}

dv_range dv_dist_dim(const dv_dist *d, int dim, int64_t coord)
{
    if (d->axis[dim] < 0)
        return (dv_range){0, d->shape[dim]};
    const int64_t *s = d->starts[dim];
    dv_range part =
        s ? (dv_range){s[coord], s[coord + 1] - s[coord]}
          : dv_dist_part(length(d, dim), d->grid[d->axis[dim]], coord);
    return d->slice[dim].stride ? dv_dist_target(part, d->slice[dim]) : part;
}

dv_box dv_dist_own(const dv_dist *d, int64_t rank)
{
    int64_t at[DV_MAX_AXES];
    dv_box b = {.n_dims = d->n_dims};
    dv_grid_coords(at, d->grid, d->n_axes, rank);
    for (int i = 0; i < d->n_dims; i++)
        b.dim[i] = dv_dist_dim(d, i, d->axis[i] < 0 ? 0 : at[d->axis[i]]);
    return b;
}

// Returns the coordinate whose part of the dim contains the index. Among parts
// with the same start, which are empty except the last, the last is returned.
static int64_t owner(const dv_dist *d, int dim, int64_t global_off)
{
    int64_t n = d->grid[d->axis[dim]];
    if (d->slice[dim].stride)
        global_off = d->slice[dim].off + global_off * d->slice[dim].stride;
    if (!d->starts[dim])
        return dv_dist_owner(length(d, dim), n, global_off);
    // Invariant: starts[low] <= global_off < starts[high].
    int64_t low = 0, high = n;
    while (high - low > 1) {
        int64_t mid = low + (high - low) / 2;
        if (d->starts[dim][mid] <= global_off)
            low = mid;
        else
            high = mid;
    }
    return low;
}

void dv_dist_coords(const dv_dist *d, int dim, dv_range global, int64_t *first,
                    int64_t *end)
{
    dv_range in = dv_dist_intersection(global, (dv_range){0, d->shape[dim]});
    *first = *end = 0;
    if (in.size == 0)
        return;
    *first = owner(d, dim, in.off);
    *end = owner(d, dim, in.off + in.size - 1) + 1;
}

int dv_pieces_push(dv_pieces *l, int64_t rank, const dv_box *b, dv_arena *arena)
{
    if (dv_box_empty(b))
        return 1;
    dv_piece *p = DV_PUSH(arena, dv_piece, l->at, l->n, l->cap);
    if (!p)
        return 0;
    *p = (dv_piece){rank, *b};
    return 1;
}

static int by_rank(const void *x, const void *y)
{
    const dv_piece *a = x, *b = y;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    for (int d = 0; d < a->box.n_dims; d++)
        if (a->box.dim[d].off != b->box.dim[d].off)
            return a->box.dim[d].off < b->box.dim[d].off ? -1 : 1;
    return 0;
}

void dv_pieces_sort(dv_pieces *l)
{
    if (l->n > 1)
        qsort(l->at, (size_t)l->n, sizeof *l->at, by_rank);
}

int64_t dv_pieces_elems(const dv_pieces *l)
{
    int64_t n = 0;
    for (int32_t i = 0; i < l->n; i++)
        n += dv_box_elems(&l->at[i].box);
    return n;
}

// Advances `at` to the next rank of `r` with the last axis fastest; returns 0
// after the last rank.
static int next_coords(int64_t *at, const dv_ranks *r, int n_axes)
{
    for (int a = n_axes - 1; a >= 0; a--) {
        if (++at[a] < r->end[a])
            return 1;
        at[a] = r->first[a];
    }
    return 0;
}

static int first_coords(int64_t *at, const dv_ranks *r, int n_axes)
{
    for (int a = 0; a < n_axes; a++) {
        at[a] = r->first[a];
        if (r->first[a] >= r->end[a])
            return 0;
    }
    return 1;
}

int dv_dist_senders(dv_pieces *out, const dv_dist *d, int64_t rank,
                    const dv_boxes *need, dv_arena *arena)
{
    int64_t at[DV_MAX_AXES];
    for (int32_t i = 0; i < need->n; i++) {
        const dv_box *b = &need->at[i];
        dv_ranks r;
        dv_grid_coords(r.first, d->grid, d->n_axes, rank);
        for (int a = 0; a < d->n_axes; a++)
            r.end[a] = r.first[a] + 1;
        for (int k = 0; k < d->n_dims; k++)
            if (d->axis[k] >= 0)
                dv_dist_coords(d, k, b->dim[k], &r.first[d->axis[k]],
                               &r.end[d->axis[k]]);
        if (!first_coords(at, &r, d->n_axes))
            continue;
        do {
            int64_t s = dv_grid_rank(at, d->grid, d->n_axes);
            dv_box own = dv_dist_own(d, s), part = dv_box_inner(b, &own);
            if (s != rank && !dv_pieces_push(out, s, &part, arena))
                return 0;
        } while (next_coords(at, &r, d->n_axes));
    }
    dv_pieces_sort(out);
    return 1;
}

// Returns whether `rank` would fetch elements of `other`'s part from `other`
// itself and not from another replica of that part. Along axes that cut no dim,
// which hold replicas, a rank fetches from its own coordinate.
int dv_dist_fetches_from(const dv_dist *d, int64_t rank, int64_t other)
{
    int64_t here[DV_MAX_AXES], there[DV_MAX_AXES];
    dv_grid_coords(here, d->grid, d->n_axes, rank);
    dv_grid_coords(there, d->grid, d->n_axes, other);
    for (int a = 0; a < d->n_axes; a++)
        if (here[a] != there[a] && !dv_dist_cuts(d, a))
            return 0;
    return 1;
}

int dv_dist_receivers_in(dv_pieces *out, const dv_dist *d, int64_t rank,
                         const int64_t *grid, int n_axes, const dv_ranks *among,
                         dv_need_fn need, void *user, dv_arena *arena)
{
    int64_t at[DV_MAX_AXES];
    dv_box own = dv_dist_own(d, rank);
    if (dv_box_empty(&own) || !first_coords(at, among, n_axes))
        return 1;
    do {
        int64_t s = dv_grid_rank(at, grid, n_axes);
        dv_boxes lacks = {0};
        if (s == rank || !dv_dist_fetches_from(d, s, rank))
            continue;
        if (!need(user, s, &lacks, arena))
            return 0;
        for (int32_t i = 0; i < lacks.n; i++) {
            dv_box part = dv_box_inner(&lacks.at[i], &own);
            if (!dv_pieces_push(out, s, &part, arena))
                return 0;
        }
    } while (next_coords(at, among, n_axes));
    dv_pieces_sort(out);
    return 1;
}

int dv_dist_receivers(dv_pieces *out, const dv_dist *d, int64_t rank,
                      const dv_ranks *among, dv_need_fn need, void *user,
                      dv_arena *arena)
{
    int64_t me[DV_MAX_AXES];
    dv_ranks r = *among;
    dv_grid_coords(me, d->grid, d->n_axes, rank);
    for (int a = 0; a < d->n_axes; a++) {
        if (dv_dist_cuts(d, a))
            // This axis distributes a dim, so ranks at any coordinate may
            // receive. The other axes hold replicas and are narrowed to this
            // rank's coordinate.
            continue;
        r.first[a] = dv_max_i64(r.first[a], me[a]);
        r.end[a] = dv_min_i64(r.end[a], me[a] + 1);
    }
    return dv_dist_receivers_in(out, d, rank, d->grid, d->n_axes, &r, need,
                                user, arena);
}
