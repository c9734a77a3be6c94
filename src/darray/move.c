// Moves elements between ranks: copies, redistributions, gathers and scatters
// of whole arrays and of boxes, and halo exchanges.
#include "base/plural.h"
#include "darray/darray.h"
#include <inttypes.h>

// Performs one exchange: packs from `from`, sends and receives, unpacks into
// `to`.
static dv_status carry(dv_team_link *p, const dv_transfer_boxes *c,
                       int64_t bytes, const dv_mem *from, const dv_mem *to,
                       dv_diag *diag)
{
    dv_transfer *f = NULL;
    DV_TRY(dv_transfer_create(&f, p, c, bytes, diag));
    dv_status st = dv_transfer_start(f, from, diag);
    if (st == DV_OK)
        st = dv_transfer_wait(f, to, diag);
    dv_transfer_destroy(f);
    return st;
}

dv_status dv_darray_check_pair(const dv_darray *to, const dv_darray *from,
                               dv_diag *diag)
{
    DV_TRY(dv_darray_idle(to, diag));
    DV_TRY(dv_darray_complete(to, diag));
    DV_TRY(dv_darray_complete(from, diag));
    if (to->link != from->link)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "the two arrays are on different teams");
    if (to->type != from->type)
        return dv_fail(
            diag, DV_E_DTYPE, DV_NOWHERE, "elements of %s are copied to %s",
            dv_elem_get(from->type)->name, dv_elem_get(to->type)->name);
    return DV_OK;
}

static dv_status check_shapes(const dv_darray *to, const dv_darray *from,
                              dv_diag *diag)
{
    DV_TRY(dv_darray_check_pair(to, from, diag));
    int same = to->dist.n_dims == from->dist.n_dims;
    for (int i = 0; same && i < to->dist.n_dims; i++)
        if (to->dist.shape[i] != from->dist.shape[i])
            return dv_fail(
                diag, DV_E_SHAPE, DV_NOWHERE,
                "dim %d has %" PRId64 " element%s there, %" PRId64 " here", i,
                from->dist.shape[i], DV_PLURAL(from->dist.shape[i], "", "s"),
                to->dist.shape[i]);
    if (!same)
        return dv_fail(diag, DV_E_SHAPE, DV_NOWHERE,
                       "an array of %d dim%s is copied to one of %d",
                       from->dist.n_dims, DV_PLURAL(from->dist.n_dims, "", "s"),
                       to->dist.n_dims);
    return DV_OK;
}

// Copies the elements that this rank owns in both arrays. When the arrays share
// memory, the copy goes through the buffer `aside`, so that received elements
// do not overwrite elements not yet read: into it first (`into`), out of it
// after all messages are unpacked.
static void copy_own(dv_darray *to, const dv_darray *from, const dv_mem *aside,
                     int into)
{
    dv_box both = dv_box_inner(&to->own, &from->own);
    int64_t bytes = dv_darray_bytes(to);
    if (!aside)
        dv_mem_copy(&to->mem, &from->mem, &both, bytes);
    else if (into)
        dv_mem_copy(aside, &from->mem, &both, bytes);
    else
        dv_mem_copy(&to->mem, aside, &both, bytes);
}

static dv_status copy_parts(dv_darray *to, const dv_darray *from, dv_diag *diag)
{
    dv_team_link *p = to->link;
    dv_exchange *e = NULL;
    dv_transfer *f = NULL;
    dv_diag *mine = dv_diag_create();
    dv_box both = dv_box_inner(&to->own, &from->own);
    int64_t bytes = dv_darray_bytes(to);
    int shared = to->share == from->share && !dv_box_empty(&both);
    dv_mem aside = {0};
    dv_status st =
        dv_dist_move(&e, &from->dist, &to->dist, p->comm->rank, mine);
    if (st == DV_OK && shared) {
        char *room = dv_alloc((size_t)(dv_box_elems(&both) * bytes));
        st = room ? DV_OK : dv_nomem(mine);
        aside = dv_mem_rows(room, &both, bytes);
    }
    st = dv_team_agree(p, st, mine, diag);
    if (st == DV_OK)
        st = dv_transfer_create(&f, p,
                                &(dv_transfer_boxes){e->sends, e->receives,
                                                     e->n_sends, e->n_receives},
                                bytes, diag);
    if (st == DV_OK)
        st = dv_transfer_start(f, &from->mem, diag);
    if (st == DV_OK) {
        copy_own(to, from, shared ? &aside : NULL, 1);
        st = dv_transfer_wait(f, &to->mem, diag);
        if (shared)
            copy_own(to, from, &aside, 0);
    }
    dv_transfer_destroy(f);
    dv_exchange_destroy(e);
    dv_release(aside.data);
    return st;
}

dv_status dv_darray_copy(dv_darray *to, const dv_darray *from, dv_diag *diag)
{
    DV_TRY(check_shapes(to, from, diag));
    uint64_t h = dv_darray_hash(from, dv_darray_hash(to, DV_HASH));
    DV_TRY(dv_team_check_same(to->link, "copy of an array", h, diag));
    return copy_parts(to, from, diag);
}

dv_status dv_darray_move(dv_darray **out, const dv_darray *a,
                         const dv_dist *dist, const dv_halo *halo,
                         dv_diag *diag)
{
    dv_darray *to = NULL;
    DV_TRY(dv_darray_create(&to, a->link, a->type, dist, halo, diag));
    dv_status st = dv_darray_copy(to, a, diag);
    if (st == DV_OK && halo)
        st = dv_darray_halo(to, diag);
    if (st == DV_OK)
        *out = to;
    else
        dv_darray_destroy(to);
    return st;
}

// A gather or scatter between the ranks' own boxes and whole arrays. `root` is
// the rank that holds the whole array, or -1 if every rank does.
typedef struct whole_move {
    const dv_darray *a;
    int64_t root;
    dv_pieces sends, receives;
    dv_arena arena;
} whole_move;

static int gather_pieces(whole_move *m)
{
    const dv_dist *d = &m->a->dist;
    const dv_comm *c = m->a->link->comm;
    int has_all = m->root < 0 || m->root == c->rank;
    for (int64_t r = 0; r < c->size; r++) {
        if (r == c->rank)
            continue;
        // Of several replicas of a box, rank r receives the one that
        // dv_dist_fetches_from selects; send only if that is this rank's.
        if ((m->root < 0 || m->root == r) &&
            dv_dist_fetches_from(d, r, c->rank) &&
            !dv_pieces_push(&m->sends, r, &m->a->own, &m->arena))
            return 0;
        dv_box theirs = dv_dist_own(d, r);
        if (has_all && dv_dist_fetches_from(d, c->rank, r) &&
            !dv_pieces_push(&m->receives, r, &theirs, &m->arena))
            return 0;
    }
    return 1;
}

static int scatter_pieces(whole_move *m)
{
    const dv_comm *c = m->a->link->comm;
    if (m->root < 0)
        return 1;
    if (m->root != c->rank)
        return dv_pieces_push(&m->receives, m->root, &m->a->own, &m->arena);
    for (int64_t r = 0; r < c->size; r++) {
        dv_box theirs = dv_dist_own(&m->a->dist, r);
        if (r != c->rank && !dv_pieces_push(&m->sends, r, &theirs, &m->arena))
            return 0;
    }
    return 1;
}

static dv_status check_whole(const dv_darray *a, int64_t root, const char *what,
                             dv_diag *diag)
{
    if (root < -1 || root >= a->link->comm->size)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "rank %" PRId64 " of a team of %" PRId64, root,
                       a->link->comm->size);
    DV_TRY(dv_darray_complete(a, diag));
    uint64_t h = dv_hash(dv_darray_hash(a, DV_HASH), &root, sizeof root);
    return dv_team_check_same(a->link, what, h, diag);
}

static dv_status move_whole(const dv_darray *a, int64_t root, char *whole,
                            int gather, dv_diag *diag)
{
    int64_t bytes = dv_darray_bytes(a);
    dv_box all = dv_box_whole(a->dist.n_dims, a->dist.shape);
    dv_mem rows = dv_mem_rows(whole, &all, bytes);
    whole_move m = {.a = a, .root = root};
    dv_diag *mine = dv_diag_create();
    int here = root < 0 || root == a->link->comm->rank;
    dv_status st = DV_OK;
    if (!(gather ? gather_pieces(&m) : scatter_pieces(&m)))
        st = dv_nomem(mine);
    else if (here && !whole && !dv_box_empty(&all))
        st =
            dv_fail(mine, DV_E_USAGE, DV_NOWHERE,
                    "no memory is given for %" PRId64 " element%s",
                    dv_box_elems(&all), DV_PLURAL(dv_box_elems(&all), "", "s"));
    st = dv_team_agree(a->link, st, mine, diag);
    if (st == DV_OK) {
        dv_transfer_boxes c = {m.sends.at, m.receives.at, (size_t)m.sends.n,
                               (size_t)m.receives.n};
        st = carry(a->link, &c, bytes, gather ? &a->mem : &rows,
                   gather ? &rows : &a->mem, diag);
    }
    if (st == DV_OK && here)
        dv_mem_copy(gather ? &rows : &a->mem, gather ? &a->mem : &rows, &a->own,
                    bytes);
    dv_arena_free(&m.arena);
    return st;
}

dv_status dv_darray_gather(const dv_darray *a, int64_t root, void *whole,
                           dv_diag *diag)
{
    DV_TRY(check_whole(a, root, "gathering of an array", diag));
    return move_whole(a, root, whole, 1, diag);
}

dv_status dv_darray_scatter(dv_darray *a, int64_t root, const void *whole,
                            dv_diag *diag)
{
    DV_TRY(dv_darray_idle(a, diag));
    DV_TRY(check_whole(a, root, "scattering of an array", diag));
    return move_whole(a, root, (char *)(uintptr_t)whole, 0, diag);
}

// Creates a view of the box on every rank; if it fails on one rank, it fails on
// all.
static dv_status box_view(dv_darray **out, const dv_darray *a,
                          const dv_box *global_box, dv_diag *diag)
{
    dv_slice s[DV_MAX_DIMS];
    if (global_box->n_dims != a->dist.n_dims)
        return dv_fail(diag, DV_E_SHAPE, DV_NOWHERE,
                       "a box of %d dim%s of an array of %d",
                       global_box->n_dims,
                       DV_PLURAL(global_box->n_dims, "", "s"), a->dist.n_dims);
    for (int i = 0; i < a->dist.n_dims; i++)
        s[i] = (dv_slice){global_box->dim[i].off, global_box->dim[i].size, 1};
    dv_darray *v = NULL;
    dv_diag *mine = dv_diag_create();
    dv_status st = dv_darray_view(&v, a, s, mine);
    // Errors other than out of memory occur on all ranks alike, so the ranks
    // need not agree on them.
    if (st != DV_OK && st != DV_E_NOMEM) {
        dv_diag_move(diag, mine);
        dv_diag_destroy(mine);
        return st;
    }
    st = dv_team_agree(a->link, st, mine, diag);
    if (st == DV_OK)
        *out = v;
    else
        dv_darray_destroy(v);
    return st;
}

dv_status dv_darray_get(const dv_darray *a, const dv_box *global_box,
                        int64_t root, void *out, dv_diag *diag)
{
    dv_darray *v = NULL;
    DV_TRY(box_view(&v, a, global_box, diag));
    dv_status st = dv_darray_gather(v, root, out, diag);
    dv_darray_destroy(v);
    return st;
}

dv_status dv_darray_set(dv_darray *a, const dv_box *global_box, int64_t root,
                        const void *in, dv_diag *diag)
{
    dv_darray *v = NULL;
    DV_TRY(dv_darray_idle(a, diag));
    DV_TRY(box_view(&v, a, global_box, diag));
    dv_status st = dv_darray_scatter(v, root, in, diag);
    dv_darray_destroy(v);
    return st;
}

static dv_status make_halo_transfer(dv_darray *a, dv_diag *diag)
{
    dv_exchange *e = NULL;
    dv_team_link *p = a->link;
    dv_diag *mine = dv_diag_create();
    const dv_halo *h = &a->halo;
    dv_status st = h->widths
                       ? dv_dist_halo_each(&e, &a->dist, p->comm->rank,
                                           h->widths, h->corners, mine)
                       : dv_dist_halo(&e, &a->dist, p->comm->rank, h->before,
                                      h->after, h->corners, mine);
    st = dv_team_agree(p, st, mine, diag);
    if (st == DV_OK)
        st = dv_transfer_create(&a->halo_transfer, p,
                                &(dv_transfer_boxes){e->sends, e->receives,
                                                     e->n_sends, e->n_receives},
                                dv_darray_bytes(a), diag);
    dv_exchange_destroy(e);
    return st;
}

dv_status dv_darray_halo_start(dv_darray *a, dv_diag *diag)
{
    DV_TRY(dv_darray_idle(a, diag));
    if (a->is_view)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "a view has no halo of its own: update the array's");
    DV_TRY(dv_darray_complete(a, diag));
    DV_TRY(dv_team_check_same(a->link, "halo of an array",
                              dv_darray_hash(a, DV_HASH), diag));
    if (!a->halo_transfer)
        DV_TRY(make_halo_transfer(a, diag));
    DV_TRY(dv_transfer_start(a->halo_transfer, &a->mem, diag));
    a->share->halo_pending = 1;
    return DV_OK;
}

dv_status dv_darray_halo_wait(dv_darray *a, dv_diag *diag)
{
    if (!a->share->halo_pending)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "no halo of the array is under way");
    if (a->is_view)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "a view has no halo of its own: wait for the array's");
    a->share->halo_pending = 0;
    return dv_transfer_wait(a->halo_transfer, &a->mem, diag);
}

dv_status dv_darray_halo(dv_darray *a, dv_diag *diag)
{
    DV_TRY(dv_darray_halo_start(a, diag));
    return dv_darray_halo_wait(a, diag);
}
