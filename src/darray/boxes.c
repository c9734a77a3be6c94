// Gives every rank the elements of a box of its own choice. The ranks tell each
// other their boxes; then each computes which elements it sends and receives.
//
//   owned by rank 1         [4 .. 8)
//   its box           [2 .. 6)
//   new array         [2 3] received, [4 5] its own; 6 and 7 are left out
//
// If every box contains what its rank owns, the result is an array with a halo
// of other widths on every rank; otherwise it is marked as partial.
#include "base/math.h"
#include "base/plural.h"
#include "darray/darray.h"
#include <inttypes.h>

static dv_status check_box(const dv_darray *a, const dv_box *b, dv_diag *diag)
{
    if (b->n_dims != a->dist.n_dims)
        return dv_fail(diag, DV_E_SHAPE, DV_NOWHERE,
                       "a box of %d dim%s of an array of %d", b->n_dims,
                       DV_PLURAL(b->n_dims, "", "s"), a->dist.n_dims);
    for (int i = 0; i < b->n_dims; i++) {
        dv_range r = b->dim[i];
        if (r.off < 0 || r.size < 0 || r.off > a->dist.shape[i] ||
            r.size > a->dist.shape[i] - r.off)
            return dv_fail(diag, DV_E_BOUNDS, DV_NOWHERE,
                           "dim %d has %" PRId64
                           " element%s: no box of %" PRId64 " from %" PRId64,
                           i, a->dist.shape[i],
                           DV_PLURAL(a->dist.shape[i], "", "s"), r.size, r.off);
    }
    return DV_OK;
}

static dv_status want(void *user, int64_t rank, dv_box_list *out, dv_diag *diag)
{
    const dv_box *boxes = user;
    return dv_box_list_add(out, &boxes[rank], diag);
}

// Computes the halo widths that extend every rank's own box to its box in
// boxes[]. Returns 0 if a box does not contain what its rank owns, or has
// elements where its rank owns none.
static int find_widths(const dv_darray *a, const dv_box *boxes, int64_t *widths)
{
    int n = a->dist.n_dims;
    for (int64_t r = 0; r < a->link->comm->size; r++) {
        dv_box own = dv_dist_own(&a->dist, r), box = boxes[r];
        if (dv_box_empty(&own) ? !dv_box_empty(&box) : !dv_box_in(&own, &box))
            return 0;
        for (int i = 0; i < n; i++) {
            dv_range o = own.dim[i], b = box.dim[i];
            int64_t *w = widths + (r * n + i) * 2;
            w[0] = w[1] = 0;
            if (dv_box_empty(&own))
                continue;
            w[0] = o.off - b.off;
            w[1] = b.off + b.size - (o.off + o.size);
        }
    }
    return 1;
}

// Restricts the box that this rank owns to the box that it has in memory.
static void own_part(dv_darray *a)
{
    const dv_box *in = &a->mem.box;
    a->own = dv_box_inner(&a->own, in);
    for (int i = 0; i < in->n_dims; i++) {
        dv_range *own = &a->own.dim[i];
        own->off = dv_min_i64(own->off, in->dim[i].off + in->dim[i].size);
    }
}

static dv_status fetch(dv_darray *to, const dv_darray *a, const dv_exchange *e,
                       dv_diag *diag)
{
    dv_transfer_boxes c = {e->sends, e->receives, e->n_sends, e->n_receives};
    dv_transfer *f = NULL;
    int64_t bytes = dv_darray_bytes(a);
    DV_TRY(dv_transfer_create(&f, a->link, &c, bytes, diag));
    dv_status st = dv_transfer_start(f, &a->mem, diag);
    if (st == DV_OK) {
        dv_box both = dv_box_inner(&a->own, &to->mem.box);
        dv_mem_copy(&to->mem, &a->mem, &both, bytes);
        st = dv_transfer_wait(f, &to->mem, diag);
    }
    dv_transfer_destroy(f);
    return st;
}

static dv_status make_array(dv_darray **out, const dv_darray *a,
                            const dv_box *boxes, int64_t *widths, dv_diag *diag)
{
    dv_halo halo = {.corners = 1};
    int whole = find_widths(a, boxes, widths);
    if (whole)
        halo.widths = widths;
    DV_TRY(dv_darray_make_box(out, a->link, a->type, &a->dist, &halo,
                              &boxes[a->link->comm->rank], diag));
    (*out)->partial = !whole;
    own_part(*out);
    return DV_OK;
}

dv_status dv_darray_repartition(dv_darray **out, const dv_darray *a,
                                const dv_box *global_box, dv_diag *diag)
{
    dv_comm *c = a->link->comm;
    dv_arena arena = {0};
    dv_exchange *e = NULL;
    dv_darray *to = NULL;
    DV_TRY(dv_darray_complete(a, diag));
    DV_TRY(dv_team_check_same(a->link, "repartition of an array",
                              dv_darray_hash(a, DV_HASH), diag));
    dv_box *boxes = DV_NEW(&arena, dv_box, c->size);
    int64_t *widths =
        DV_NEW(&arena, int64_t, c->size * (a->dist.n_dims + 1) * 2);
    dv_diag *mine = dv_diag_create();
    dv_status st =
        boxes && widths ? check_box(a, global_box, mine) : dv_nomem(mine);
    st = dv_team_agree(a->link, st, mine, diag);
    for (int64_t r = 0; st == DV_OK && r < c->size; r++) {
        boxes[r] = *global_box;
        st = dv_comm_share(c, r, &boxes[r], sizeof *boxes, diag);
    }
    if (st == DV_OK) {
        mine = dv_diag_create();
        st = make_array(&to, a, boxes, widths, mine);
        if (st == DV_OK)
            st = dv_dist_exchange(&e, &a->dist, c->rank, want, boxes, NULL,
                                  mine);
        st = dv_team_agree(a->link, st, mine, diag);
    }
    if (st == DV_OK)
        st = fetch(to, a, e, diag);
    dv_exchange_destroy(e);
    dv_arena_free(&arena);
    if (st == DV_OK)
        *out = to;
    else
        dv_darray_destroy(to);
    return st;
}
