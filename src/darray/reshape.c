// Copies an array into an array of another shape with the same elements in
// row-major order. Every row of one array is cut where rows or parts of the
// other array end. The pieces for one rank travel in row-major order, so that
// sender and receiver derive the same list without communicating.
//
//   from 3 x 4, rows on two ranks     0 1 2 3 | 4 5 6 7   8 9 10 11
//   to   6 x 2, rows on two ranks     0 1  2 3  4 5 | 6 7  8 9  10 11
//   rank 1 sends rank 0               4 5
#include "base/math.h"
#include "darray/darray.h"
#include <inttypes.h>

typedef struct row_walker {
    // The array whose rows (of this rank's part) are visited.
    const dv_darray *a;
    // The array of the other shape. A row of `a` is cut where a row or a rank's
    // part of `other` ends.
    const dv_darray *other;
    int64_t rank;
    dv_pieces pieces; // boxes to exchange with other ranks, in indices of `a`
    dv_arena arena;
} row_walker;

static void coords_of(const dv_dist *d, int64_t flat, int64_t *at)
{
    for (int i = d->n_dims - 1; i >= 0; i--) {
        at[i] = flat % d->shape[i];
        flat /= d->shape[i];
    }
}

static int64_t flat_of(const dv_dist *d, const int64_t *at)
{
    int64_t flat = 0;
    for (int i = 0; i < d->n_dims; i++)
        flat = flat * d->shape[i] + at[i];
    return flat;
}

// Finds the rank that owns element `at`: sets its coordinates in coords[] for
// all axes that distribute a dim. Returns how many elements of the row, from
// `at` on, have the same owner.
static int64_t find_owner(const dv_dist *d, const int64_t *at, int64_t *coords)
{
    int last = d->n_dims - 1;
    int64_t end = last < 0 ? 1 : d->shape[last], offset;
    for (int i = 0; i <= last; i++) {
        if (d->axis[i] < 0)
            continue;
        dv_dist_coords(d, i, (dv_range){at[i], 1}, &coords[d->axis[i]],
                       &offset);
        if (i == last) {
            dv_range part = dv_dist_dim(d, i, coords[d->axis[i]]);
            end = part.off + part.size;
        }
    }
    return last < 0 ? 1 : end - at[last];
}

static dv_box box_at(const dv_dist *d, const int64_t *at, int64_t n)
{
    dv_box b = {.n_dims = d->n_dims};
    for (int i = 0; i < d->n_dims; i++)
        b.dim[i] = (dv_range){at[i], i == d->n_dims - 1 ? n : 1};
    return b;
}

static int push(row_walker *w, int64_t rank, const int64_t *at, int64_t n)
{
    dv_piece *p =
        DV_PUSH(&w->arena, dv_piece, w->pieces.at, w->pieces.n, w->pieces.cap);
    if (!p)
        return 0;
    *p = (dv_piece){rank, box_at(&w->a->dist, at, n)};
    return 1;
}

typedef int (*visit)(row_walker *w, const int64_t *at, const int64_t *other_at,
                     int64_t *coords, int64_t n);

// Handles n elements that this rank needs: records a receive from the rank at
// grid position `coords`, or copies them now if this rank owns them.
static int take(row_walker *w, const int64_t *at, const int64_t *other_at,
                int64_t *coords, int64_t n)
{
    const dv_dist *d = &w->other->dist;
    int64_t rank = dv_grid_rank(coords, d->grid, d->n_axes);
    if (rank != w->rank)
        return push(w, rank, at, n);
    // Describe the source row, which lies in the other array, in the indices of
    // the destination, so that dv_mem_copy can copy it.
    dv_box to = box_at(&w->a->dist, at, n), from = box_at(d, other_at, n);
    dv_mem m = w->other->mem;
    int last = to.n_dims - 1, other_last = from.n_dims - 1;
    for (int i = 0; i <= other_last; i++)
        m.data += (from.dim[i].off - m.box.dim[i].off) * m.stride[i];
    dv_mem row = {.data = m.data, .box = to};
    if (last >= 0)
        row.stride[last] = other_last < 0 ? 0 : m.stride[other_last];
    dv_mem_copy(&w->a->mem, &row, &to, dv_darray_bytes(w->a));
    return 1;
}

// Records a send of n elements to every rank that needs them: the one at
// `coords` and its replicas, except replicas that receive them from another
// rank.
static int give(row_walker *w, const int64_t *at, const int64_t *other_at,
                int64_t *coords, int64_t n)
{
    const dv_dist *d = &w->other->dist;
    int more = 1;
    (void)other_at;
    for (int a = 0; a < d->n_axes; a++)
        if (!dv_dist_cuts(d, a))
            coords[a] = 0;
    while (more) {
        int64_t rank = dv_grid_rank(coords, d->grid, d->n_axes);
        if (rank != w->rank &&
            dv_dist_fetches_from(&w->a->dist, rank, w->rank) &&
            !push(w, rank, at, n))
            return 0;
        more = 0;
        for (int a = d->n_axes - 1; a >= 0 && !more; a--) {
            if (dv_dist_cuts(d, a))
                continue;
            more = ++coords[a] < d->grid[a];
            if (!more)
                coords[a] = 0;
        }
    }
    return 1;
}

// Calls `each` for every piece of this rank's rows of the array w->a, in
// row-major order. A piece ends where the owner in the array of the other shape
// changes.
static int walk(row_walker *w, visit each)
{
    const dv_box *own = &w->a->own;
    int64_t at[DV_MAX_DIMS], x[DV_MAX_DIMS], other_at[DV_MAX_DIMS];
    int64_t coords[DV_MAX_AXES];
    const dv_dist *d = &w->a->dist, *other = &w->other->dist;
    int last = own->n_dims - 1;
    if (dv_box_empty(own))
        return 1;
    for (int i = 0; i <= last; i++)
        at[i] = x[i] = own->dim[i].off;
    do {
        int64_t flat = flat_of(d, at),
                left = last < 0 ? 1 : own->dim[last].size;
        while (left > 0) {
            coords_of(other, flat, other_at);
            dv_grid_coords(coords, other->grid, other->n_axes, w->rank);
            int64_t n = dv_min_i64(left, find_owner(other, other_at, coords));
            coords_of(d, flat, x);
            if (!each(w, x, other_at, coords, n))
                return 0;
            flat += n;
            left -= n;
        }
    } while (dv_box_next(own, at, last));
    return 1;
}

static dv_status check_call(const dv_darray *to, const dv_darray *from,
                            dv_diag *diag)
{
    int64_t n = 1, m = 1;
    DV_TRY(dv_darray_check_pair(to, from, diag));
    if (to->share == from->share)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "the two arrays share memory");
    for (int i = 0; i < to->dist.n_dims; i++)
        n *= to->dist.shape[i];
    for (int i = 0; i < from->dist.n_dims; i++)
        m *= from->dist.shape[i];
    if (n != m)
        return dv_fail(diag, DV_E_SHAPE, DV_NOWHERE,
                       "%" PRId64 " elements get a shape of %" PRId64, m, n);
    uint64_t h = dv_darray_hash(from, dv_darray_hash(to, DV_HASH));
    return dv_team_check_same(to->link, "reshape of an array", h, diag);
}

dv_status dv_darray_reshape(dv_darray *to, const dv_darray *from, dv_diag *diag)
{
    DV_TRY(check_call(to, from, diag));
    dv_team_link *p = to->link;
    row_walker in = {.a = to, .other = from, .rank = p->comm->rank};
    row_walker out = {.a = from, .other = to, .rank = p->comm->rank};
    dv_diag *mine = dv_diag_create();
    dv_transfer *f = NULL;
    dv_status st = walk(&in, take) && walk(&out, give) ? DV_OK : dv_nomem(mine);
    st = dv_team_agree(p, st, mine, diag);
    if (st == DV_OK) {
        dv_transfer_boxes c = {out.pieces.at, in.pieces.at,
                               (size_t)out.pieces.n, (size_t)in.pieces.n};
        dv_pieces_sort(&out.pieces);
        dv_pieces_sort(&in.pieces);
        st = dv_transfer_create(&f, p, &c, dv_darray_bytes(to), diag);
    }
    if (st == DV_OK)
        st = dv_transfer_start(f, &from->mem, diag);
    if (st == DV_OK)
        st = dv_transfer_wait(f, &to->mem, diag);
    dv_transfer_destroy(f);
    dv_arena_free(&in.arena);
    dv_arena_free(&out.arena);
    return st;
}
