// Computes what one rank of a team sends and receives: for halos, for changes
// of distribution, and for boxes that the caller asks for.
//
//   receive from s: need_r and own_s          send to s: need_s and own_r
//
// Ranks send no requests, because need_s can be computed from s. Only ranks
// whose parts can overlap this rank's are examined.
#include "base/math.h"
#include "base/plural.h"
#include "dist/dist.h"
#include <inttypes.h>

typedef struct exchange {
    dv_exchange pub; // must be first: the public pointer is cast to `exchange`
    dv_arena arena;
} exchange;

static int64_t count_ranks(const dv_pieces *l)
{
    int64_t n = 0;
    for (int32_t i = 0; i < l->n; i++)
        n += i == 0 || l->at[i].rank != l->at[i - 1].rank;
    return n;
}

void dv_exchange_destroy(dv_exchange *e)
{
    if (!e)
        return;
    // Free a copy of the arena's struct, because e itself is in the arena.
    dv_arena arena = ((exchange *)e)->arena;
    dv_arena_free(&arena);
}

static dv_status check_rank(const dv_dist *d, int64_t rank, dv_diag *diag)
{
    DV_TRY(dv_dist_check(d, diag));
    if (rank >= 0 && rank < dv_dist_n_ranks(d))
        return DV_OK;
    return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                   "rank %" PRId64 " of a team of %" PRId64, rank,
                   dv_dist_n_ranks(d));
}

// The ranks that may need elements of this rank: a range of coordinates in a
// grid, which is the tensor's own or another with the same number of ranks.
typedef struct receivers {
    const int64_t *grid;
    int n_axes;
    dv_ranks at;
} receivers;

static receivers all_of(const dv_dist *d)
{
    receivers t = {.grid = d->grid, .n_axes = d->n_axes};
    for (int a = 0; a < d->n_axes; a++)
        t.at.first[a] = 0, t.at.end[a] = d->grid[a];
    return t;
}

static int same_grid(const dv_dist *d, const receivers *t)
{
    int same = d->n_axes == t->n_axes;
    for (int a = 0; same && a < t->n_axes; a++)
        same = d->grid[a] == t->grid[a];
    return same;
}

static int find_receivers(dv_pieces *out, const dv_dist *d, int64_t rank,
                          const receivers *t, dv_need_fn need, void *user,
                          dv_arena *arena)
{
    if (same_grid(d, t))
        return dv_dist_receivers(out, d, rank, &t->at, need, user, arena);
    int cut = 0;
    for (int a = 0; a < d->n_axes; a++)
        cut |= dv_dist_cuts(d, a);
    if (!cut)
        return 1; // every rank has the whole tensor, so nothing is sent
    return dv_dist_receivers_in(out, d, rank, t->grid, t->n_axes, &t->at, need,
                                user, arena);
}

static dv_status make_exchange(dv_exchange **out, const dv_dist *d,
                               int64_t rank, const receivers *among,
                               dv_need_fn need, void *user, dv_diag *diag)
{
    dv_arena arena = {0};
    dv_boxes lacks = {0};
    dv_pieces in = {0}, to = {0};
    exchange *e = DV_NEW(&arena, exchange, 1);
    if (!e || !need(user, rank, &lacks, &arena) ||
        !dv_dist_senders(&in, d, rank, &lacks, &arena) ||
        !find_receivers(&to, d, rank, among, need, user, &arena)) {
        dv_arena_free(&arena);
        return dv_nomem(diag);
    }
    e->pub = (dv_exchange){to.at,
                           in.at,
                           (size_t)to.n,
                           (size_t)in.n,
                           dv_pieces_elems(&to),
                           dv_pieces_elems(&in),
                           count_ranks(&to),
                           count_ranks(&in)};
    e->arena = arena;
    *out = &e->pub;
    return DV_OK;
}

typedef struct halo {
    const dv_dist *d;
    const int64_t *before, *after;
    const int64_t *widths; // of each rank, or NULL: before and after hold
    int corners;
} halo;

dv_range dv_range_widen(dv_range r, int64_t before, int64_t after, int64_t n)
{
    int64_t begin = before > r.off ? 0 : r.off - before, end = r.off + r.size;
    end = after > n - end ? n : end + after;
    return (dv_range){begin, end - begin};
}

static int halo_need(void *user, int64_t rank, dv_boxes *out, dv_arena *arena)
{
    const halo *h = user;
    dv_box own = dv_dist_own(h->d, rank), wide = own;
    if (dv_box_empty(&own))
        return 1;
    for (int i = 0; i < own.n_dims; i++) {
        const int64_t *w = h->widths;
        if (w)
            w += (rank * own.n_dims + i) * 2;
        if (!h->corners)
            wide = own;
        wide.dim[i] = dv_range_widen(own.dim[i], w ? w[0] : h->before[i],
                                     w ? w[1] : h->after[i], h->d->shape[i]);
        if (!h->corners && !dv_boxes_add(out, &wide, arena))
            return 0;
    }
    return (!h->corners || dv_boxes_push(out, &wide, arena)) &&
           dv_boxes_subtract(out, &own, arena);
}

static dv_status check_widths(int64_t before, int64_t after, dv_diag *diag)
{
    if (before >= 0 && after >= 0)
        return DV_OK;
    return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                   "a halo of %" PRId64 " before and %" PRId64
                   " after: a width is 0 or more",
                   before, after);
}

// Creates a halo exchange. h->before and h->after are the largest halo widths
// of any rank, in each dim.
static dv_status halo_exchange(dv_exchange **out, int64_t rank, halo *h,
                               dv_diag *diag)
{
    const dv_dist *d = h->d;
    dv_box own = dv_dist_own(d, rank);
    receivers among = all_of(d);
    // Rank s needs elements of this rank if its part overlaps this rank's box
    // widened by `after` on the low side and `before` on the high side.
    for (int i = 0; i < d->n_dims; i++)
        if (d->axis[i] >= 0)
            dv_dist_coords(d, i,
                           dv_range_widen(own.dim[i], h->after[i], h->before[i],
                                          d->shape[i]),
                           &among.at.first[d->axis[i]],
                           &among.at.end[d->axis[i]]);
    return make_exchange(out, d, rank, &among, halo_need, h, diag);
}

dv_status dv_dist_halo(dv_exchange **out, const dv_dist *d, int64_t rank,
                       const int64_t *before, const int64_t *after, int corners,
                       dv_diag *diag)
{
    DV_TRY(check_rank(d, rank, diag));
    for (int i = 0; i < d->n_dims; i++)
        DV_TRY(check_widths(before[i], after[i], diag));
    halo h = {d, before, after, NULL, corners};
    return halo_exchange(out, rank, &h, diag);
}

dv_status dv_dist_halo_each(dv_exchange **out, const dv_dist *d, int64_t rank,
                            const int64_t *widths, int corners, dv_diag *diag)
{
    int64_t before[DV_MAX_DIMS] = {0}, after[DV_MAX_DIMS] = {0};
    DV_TRY(check_rank(d, rank, diag));
    for (int64_t r = 0; r < dv_dist_n_ranks(d); r++)
        for (int i = 0; i < d->n_dims; i++) {
            const int64_t *w = widths + (r * d->n_dims + i) * 2;
            DV_TRY(check_widths(w[0], w[1], diag));
            before[i] = dv_max_i64(before[i], w[0]);
            after[i] = dv_max_i64(after[i], w[1]);
        }
    halo h = {d, before, after, widths, corners};
    return halo_exchange(out, rank, &h, diag);
}

typedef struct move {
    const dv_dist *from, *to;
} move;

static int move_need(void *user, int64_t rank, dv_boxes *out, dv_arena *arena)
{
    const move *m = user;
    dv_box want = dv_dist_own(m->to, rank), have = dv_dist_own(m->from, rank);
    return dv_boxes_push(out, &want, arena) &&
           dv_boxes_subtract(out, &have, arena);
}

dv_status dv_dist_move(dv_exchange **out, const dv_dist *from,
                       const dv_dist *to, int64_t rank, dv_diag *diag)
{
    DV_TRY(check_rank(from, rank, diag));
    DV_TRY(check_rank(to, rank, diag));
    int same = from->n_dims == to->n_dims;
    for (int i = 0; same && i < from->n_dims; i++)
        same = from->shape[i] == to->shape[i];
    if (!same)
        return dv_fail(diag, DV_E_SHAPE, DV_NOWHERE,
                       "the two distributions have different shapes");
    if (dv_dist_n_ranks(from) != dv_dist_n_ranks(to))
        return dv_fail(diag, DV_E_SHAPE, DV_NOWHERE,
                       "from %" PRId64 " ranks to %" PRId64
                       ": a team stays what it is",
                       dv_dist_n_ranks(from), dv_dist_n_ranks(to));
    move m = {from, to};
    dv_box own = dv_dist_own(from, rank);
    receivers among = all_of(to);
    for (int i = 0; i < to->n_dims; i++)
        if (to->axis[i] >= 0)
            dv_dist_coords(to, i, own.dim[i], &among.at.first[to->axis[i]],
                           &among.at.end[to->axis[i]]);
    return make_exchange(out, from, rank, &among, move_need, &m, diag);
}

typedef struct wanted {
    const dv_dist *d;
    dv_wants wants;
    void *user;
    dv_diag *diag;
    dv_status failed; // status of the caller's function `wants`, if it failed
} wanted;

static int want_need(void *user, int64_t rank, dv_boxes *out, dv_arena *arena)
{
    wanted *w = user;
    dv_box own = dv_dist_own(w->d, rank);
    dv_box all = dv_box_whole(w->d->n_dims, w->d->shape);
    dv_box_list list = {.n_dims = w->d->n_dims};
    w->failed = w->wants(w->user, rank, &list, w->diag);
    int ok = w->failed == DV_OK;
    for (int32_t i = 0; ok && i < list.boxes.n; i++) {
        dv_box in = dv_box_inner(&list.boxes.at[i], &all);
        ok = dv_boxes_add(out, &in, arena);
    }
    dv_arena_free(&list.arena);
    return ok && dv_boxes_subtract(out, &own, arena);
}

dv_status dv_dist_exchange(dv_exchange **out, const dv_dist *d, int64_t rank,
                           dv_wants wants, void *user, const dv_box *around,
                           dv_diag *diag)
{
    DV_TRY(check_rank(d, rank, diag));
    if (around && around->n_dims != d->n_dims)
        return dv_fail(diag, DV_E_SHAPE, DV_NOWHERE,
                       "a box of %d dim%s around a tensor of %d",
                       around->n_dims, DV_PLURAL(around->n_dims, "", "s"),
                       d->n_dims);
    wanted w = {d, wants, user, diag, DV_OK};
    receivers among = all_of(d);
    for (int i = 0; around && i < d->n_dims; i++)
        if (d->axis[i] >= 0)
            dv_dist_coords(d, i, around->dim[i], &among.at.first[d->axis[i]],
                           &among.at.end[d->axis[i]]);
    dv_diag *mine = w.diag = dv_diag_create();
    dv_status st = make_exchange(out, d, rank, &among, want_need, &w, mine);
    if (w.failed != DV_OK)
        st = w.failed;
    dv_diag_move(diag, mine);
    dv_diag_destroy(mine);
    return st;
}
