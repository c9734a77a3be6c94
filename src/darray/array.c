// Creates arrays and views, and answers queries about the part a rank holds.
#include "darray/darray.h"
#include "base/math.h"
#include "base/plural.h"
#include <inttypes.h>
#include <string.h>

dv_elem dv_darray_type(const dv_darray *a)
{
    return a->type;
}

const dv_dist *dv_darray_dist(const dv_darray *a)
{
    return &a->dist;
}

dv_box dv_darray_own(const dv_darray *a)
{
    return a->own;
}

dv_box dv_darray_local(const dv_darray *a)
{
    return a->mem.box;
}

int64_t dv_darray_bytes(const dv_darray *a)
{
    return dv_elem_get(a->type)->bytes;
}

void *dv_darray_data(const dv_darray *a, int64_t *strides)
{
    for (int d = 0; strides && d < a->dist.n_dims; d++)
        strides[d] = a->mem.stride[d] / dv_darray_bytes(a);
    return dv_box_empty(&a->mem.box) ? NULL : a->mem.data;
}

void dv_darray_parts(const dv_darray *a, int dim, dv_range parts[3])
{
    dv_range in = a->mem.box.dim[dim], own = a->own.dim[dim];
    int64_t end = in.off + in.size, own_end = own.off + own.size;
    parts[0] = (dv_range){in.off, own.off - in.off};
    parts[1] = own;
    parts[2] = (dv_range){own_end, end - own_end};
}

void dv_darray_offsets(const dv_darray *a, int64_t *global_off)
{
    for (int d = 0; d < a->dist.n_dims; d++)
        global_off[d] = a->mem.box.dim[d].off;
}

dv_status dv_darray_idle(const dv_darray *a, dv_diag *diag)
{
    if (!a->share->halo_pending)
        return DV_OK;
    return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                   "the array's halo is under way: wait for it first");
}

// Returns the bytes of the list of a halo's widths on all ranks.
static size_t widths_bytes(const dv_dist *d)
{
    return (size_t)(dv_dist_n_ranks(d) * d->n_dims * 2) * sizeof(int64_t);
}

dv_status dv_darray_complete(const dv_darray *a, dv_diag *diag)
{
    if (!a->partial)
        return DV_OK;
    return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                   "the array is a repartition in which the box of a rank "
                   "leaves out elements that the rank owns: only the array it "
                   "was made from has them all");
}

uint64_t dv_darray_hash(const dv_darray *a, uint64_t h)
{
    const dv_dist *d = &a->dist;
    h = dv_hash(h, &a->type, sizeof a->type);
    h = dv_hash(h, &d->n_dims, sizeof d->n_dims);
    h = dv_hash(h, &d->n_axes, sizeof d->n_axes);
    h = dv_hash(h, d->grid, (size_t)d->n_axes * sizeof *d->grid);
    h = dv_hash(h, &a->halo.corners, sizeof a->halo.corners);
    h = dv_hash(h, &a->partial, sizeof a->partial);
    if (a->halo.widths)
        h = dv_hash(h, a->halo.widths, widths_bytes(d));
    for (int i = 0; i < d->n_dims; i++) {
        h = dv_hash(h, &d->shape[i], sizeof d->shape[i]);
        h = dv_hash(h, &d->axis[i], sizeof d->axis[i]);
        h = dv_hash(h, &d->slice[i], sizeof d->slice[i]);
        h = dv_hash(h, &a->halo.before[i], sizeof a->halo.before[i]);
        h = dv_hash(h, &a->halo.after[i], sizeof a->halo.after[i]);
        if (d->starts[i] && d->axis[i] >= 0)
            h = dv_hash(h, d->starts[i],
                        (size_t)(d->grid[d->axis[i]] + 1) * sizeof(int64_t));
    }
    return h;
}

// Copies the widths of the halo into the array's arena.
static int copy_widths(dv_darray *a)
{
    if (!a->halo.widths)
        return 1;
    size_t bytes = widths_bytes(&a->dist);
    int64_t *copy = dv_arena_alloc(&a->arena, bytes, 1);
    if (!copy)
        return 0;
    memcpy(copy, a->halo.widths, bytes);
    a->halo.widths = copy;
    return 1;
}

// Copies starts[], which holds the begin of every rank's part of a dim, into
// the array's arena, because the caller may free the distribution it passed.
static int copy_starts(dv_darray *a)
{
    for (int i = 0; i < a->dist.n_dims; i++) {
        const int64_t *s = a->dist.starts[i];
        if (!s)
            continue;
        // A dim that is not distributed needs no starts of parts.
        if (a->dist.axis[i] < 0) {
            a->dist.starts[i] = NULL;
            continue;
        }
        int64_t n = a->dist.grid[a->dist.axis[i]] + 1;
        int64_t *copy = DV_NEW(&a->arena, int64_t, n);
        if (!copy)
            return 0;
        memcpy(copy, s, (size_t)n * sizeof *copy);
        a->dist.starts[i] = copy;
    }
    return 1;
}

static dv_box widen(const dv_dist *d, const dv_box *own, const dv_halo *h,
                    int64_t rank)
{
    dv_box b = *own;
    for (int i = 0; i < b.n_dims && !dv_box_empty(own); i++) {
        const int64_t *w = h->widths;
        if (w)
            w += (rank * b.n_dims + i) * 2;
        b.dim[i] = dv_range_widen(own->dim[i], w ? w[0] : h->before[i],
                                  w ? w[1] : h->after[i], d->shape[i]);
    }
    return b;
}

// Uses the caller's memory `data` for the local box, or allocates zeroed memory
// if data is NULL.
static dv_status get_memory(dv_darray *a, void *data, const int64_t *strides,
                            dv_diag *diag)
{
    int64_t bytes = dv_darray_bytes(a), n = dv_box_elems(&a->mem.box);
    a->share = dv_alloc(sizeof *a->share);
    if (!a->share || !dv_mul_i64(&n, n, bytes))
        return dv_nomem(diag);
    *a->share = (dv_share){data, 1, 0, 0};
    if (!data && n) {
        data = a->share->data = dv_alloc((size_t)n);
        a->share->owned = 1;
        if (!data)
            return dv_nomem(diag);
        memset(data, 0, (size_t)n);
    }
    dv_box local = a->mem.box;
    a->mem = dv_mem_rows(data, &local, bytes);
    for (int d = 0; strides && d < local.n_dims; d++)
        if (!dv_mul_i64(&a->mem.stride[d], strides[d], bytes))
            return dv_fail(diag, DV_E_OVERFLOW, DV_NOWHERE,
                           "a stride of %" PRId64 " element%s", strides[d],
                           DV_PLURAL(strides[d], "", "s"));
    return DV_OK;
}

// Creates an array whose memory is the box `local`, or, if that is NULL, the
// own box with its halo.
static dv_status make_array(dv_darray **out, dv_team_link *p, dv_elem type,
                            const dv_dist *d, const dv_halo *halo,
                            const dv_box *local, void *data,
                            const int64_t *strides, dv_diag *diag)
{
    dv_arena arena = {0};
    dv_darray *a = DV_NEW(&arena, dv_darray, 1);
    if (!a)
        return dv_nomem(diag);
    a->arena = arena;
    a->link = p;
    a->type = type;
    a->dist = *d;
    if (halo)
        a->halo = *halo;
    a->own = dv_dist_own(d, p->comm->rank);
    a->mem.box = local ? *local : widen(d, &a->own, &a->halo, p->comm->rank);
    dv_status st = copy_starts(a) && copy_widths(a)
                       ? get_memory(a, data, strides, diag)
                       : dv_nomem(diag);
    if (st == DV_OK)
        *out = a;
    else
        dv_darray_destroy(a);
    return st;
}

dv_status dv_darray_make(dv_darray **out, dv_team_link *p, dv_elem type,
                         const dv_dist *d, const dv_halo *halo, void *data,
                         const int64_t *strides, dv_diag *diag)
{
    return make_array(out, p, type, d, halo, NULL, data, strides, diag);
}

dv_status dv_darray_make_box(dv_darray **out, dv_team_link *p, dv_elem type,
                             const dv_dist *d, const dv_halo *halo,
                             const dv_box *local, dv_diag *diag)
{
    return make_array(out, p, type, d, halo, local, NULL, NULL, diag);
}

void dv_darray_destroy(dv_darray *a)
{
    if (!a)
        return;
    // Complete the exchange before its buffers are freed: other ranks have
    // already sent their messages, or will.
    if (a->halo_transfer && a->share->halo_pending)
        dv_darray_halo_wait(a, NULL);
    dv_transfer_destroy(a->halo_transfer);
    if (a->share && --a->share->n_users == 0) {
        if (a->share->owned)
            dv_release(a->share->data);
        dv_release(a->share);
    }
    dv_arena arena = a->arena;
    dv_arena_free(&arena);
}

// Checks the arguments of a create call. All ranks pass the same arguments, so
// all get the same result.
static dv_status check_call(const dv_team_link *p, dv_elem type,
                            const dv_dist *d, const dv_halo *h, dv_diag *diag)
{
    if ((int)type < 0 || type > DV_ELEM_BOOL)
        return dv_fail(diag, DV_E_DTYPE, DV_NOWHERE,
                       "there is no element type %d", (int)type);
    DV_TRY(dv_dist_check(d, diag));
    if (dv_dist_n_ranks(d) != p->comm->size)
        return dv_fail(diag, DV_E_SHAPE, DV_NOWHERE,
                       "an array over %" PRId64 " rank%s on a team of %" PRId64,
                       dv_dist_n_ranks(d),
                       DV_PLURAL(dv_dist_n_ranks(d), "", "s"), p->comm->size);
    int64_t n = h && h->widths ? p->comm->size * d->n_dims : d->n_dims;
    for (int64_t i = 0; h && i < n; i++) {
        int64_t before = h->widths ? h->widths[2 * i] : h->before[i];
        int64_t after = h->widths ? h->widths[2 * i + 1] : h->after[i];
        if (before < 0 || after < 0)
            return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                           "a halo of %" PRId64 " before and %" PRId64
                           " after: a width is 0 or more",
                           before, after);
    }
    return DV_OK;
}

static dv_status create(dv_darray **out, dv_team_link *p, dv_elem type,
                        const dv_dist *dist, const dv_halo *halo, int adopt,
                        void *data, const int64_t *strides, dv_diag *diag)
{
    DV_TRY(check_call(p, type, dist, halo, diag));
    dv_diag *mine = dv_diag_create();
    dv_darray *a = NULL;
    dv_status st = dv_darray_make(&a, p, type, dist, halo, data, strides, mine);
    if (st == DV_OK && adopt && !data && !dv_box_empty(&a->mem.box))
        st = dv_fail(mine, DV_E_USAGE, DV_NOWHERE,
                     "no memory is given for %" PRId64 " element%s",
                     dv_box_elems(&a->mem.box),
                     DV_PLURAL(dv_box_elems(&a->mem.box), "", "s"));
    st = dv_team_agree(p, st, mine, diag);
    if (st == DV_OK)
        st = dv_team_check_same(p, "new array", dv_darray_hash(a, DV_HASH),
                                diag);
    if (st == DV_OK)
        *out = a;
    else
        dv_darray_destroy(a);
    return st;
}

dv_status dv_darray_create(dv_darray **out, dv_team_link *link, dv_elem type,
                           const dv_dist *dist, const dv_halo *halo,
                           dv_diag *diag)
{
    return create(out, link, type, dist, halo, 0, NULL, NULL, diag);
}

dv_status dv_darray_adopt(dv_darray **out, dv_team_link *link, dv_elem type,
                          const dv_dist *dist, const dv_halo *halo, void *data,
                          const int64_t *strides, dv_diag *diag)
{
    return create(out, link, type, dist, halo, 1, data, strides, diag);
}

// Broadcasts every rank's number of rows and sets starts[] to their prefix sum.
static dv_status tell(dv_team_link *p, int64_t *starts, int64_t rows,
                      dv_diag *diag)
{
    dv_comm *c = p->comm;
    int bad = 0;
    for (int64_t r = 0; r < c->size; r++) {
        int64_t theirs = rows;
        DV_TRY(dv_comm_share(c, r, &theirs, sizeof theirs, diag));
        bad |= theirs < 0 || !dv_add_i64(&starts[r + 1], starts[r], theirs);
    }
    if (bad)
        return dv_fail(diag, DV_E_SHAPE, DV_NOWHERE,
                       "a rank has fewer than 0 rows, or all have too many");
    return DV_OK;
}

dv_status dv_darray_join(dv_darray **out, dv_team_link *link, dv_elem type,
                         int n_dims, const int64_t *local_shape, void *data,
                         dv_diag *diag)
{
    if (n_dims < 1 || n_dims > DV_MAX_DIMS)
        return dv_fail(diag, DV_E_SHAPE, DV_NOWHERE,
                       "rows of an array with %d dim%s: it has 1 to %d", n_dims,
                       DV_PLURAL(n_dims, "", "s"), DV_MAX_DIMS);
    dv_comm *c = link->comm;
    dv_diag *mine = dv_diag_create();
    int64_t *starts = dv_alloc((size_t)(c->size + 1) * sizeof *starts);
    dv_status st = starts ? DV_OK : dv_nomem(mine);
    st = dv_team_agree(link, st, mine, diag);
    if (st == DV_OK) {
        starts[0] = 0;
        st = tell(link, starts, local_shape[0], diag);
    }
    // The extents of all dims except dim 0 must be equal on all ranks.
    if (st == DV_OK)
        st = dv_comm_check_same(
            c,
            dv_hash(DV_HASH, local_shape + 1,
                    (size_t)(n_dims - 1) * sizeof *local_shape),
            "shape after dim 0", diag);
    if (st == DV_OK) {
        dv_dist d = dv_dist_rows(n_dims, local_shape, c->size);
        d.shape[0] = starts[c->size];
        d.starts[0] = starts;
        st = create(out, link, type, &d, NULL, 1, data, NULL, diag);
    }
    dv_release(starts);
    return st;
}

// Creates a view of the whole array that shares its memory.
static dv_status make_view(dv_darray **out, const dv_darray *a, dv_diag *diag)
{
    dv_arena arena = {0};
    dv_darray *v = DV_NEW(&arena, dv_darray, 1);
    if (!v)
        return dv_nomem(diag);
    *v = *a;
    v->arena = arena;
    v->halo_transfer = NULL;
    v->is_view = 1;
    v->halo = (dv_halo){0};
    if (!copy_starts(v)) {
        dv_arena_free(&v->arena);
        return dv_nomem(diag);
    }
    v->share->n_users++;
    *out = v;
    return DV_OK;
}

static dv_status check_slices(const dv_darray *a, const dv_slice *s,
                              dv_diag *diag)
{
    for (int i = 0; i < a->dist.n_dims; i++) {
        int64_t last, n = a->dist.shape[i];
        if (s[i].off >= 0 && s[i].off <= n && s[i].size >= 0 &&
            s[i].stride >= 1 &&
            (s[i].size == 0 || (dv_mul_i64(&last, s[i].size - 1, s[i].stride) &&
                                last < n - s[i].off)))
            continue;
        return dv_fail(diag, DV_E_BOUNDS, DV_NOWHERE,
                       "dim %d has %" PRId64 " elements: no slice from %" PRId64
                       " of %" PRId64 " elements, %" PRId64 " apart",
                       i, n, s[i].off, s[i].size, s[i].stride);
    }
    return DV_OK;
}

// Restricts dim i of the view to slice s; the dim may already be a slice of the
// array.
static void slice_dim(dv_darray *v, int i, dv_slice s)
{
    dv_dist *d = &v->dist;
    dv_slice was = d->slice[i];
    if (was.stride == 0) {
        was = (dv_slice){0, d->shape[i], 1};
        d->whole[i] = d->shape[i];
    }
    if (s.size <= 1) // with at most one element, the stride is irrelevant
        s.stride = 1;
    dv_range own = v->own.dim[i], in = v->mem.box.dim[i];
    v->own.dim[i] = dv_dist_target(own, s);
    dv_overlap met = dv_dist_overlap(in, s);
    v->mem.box.dim[i] = (dv_range){met.slice_off, met.size};
    if (met.size) // if not, no element of the slice is in the local memory
        v->mem.data += (met.global_first - in.off) * v->mem.stride[i];
    v->mem.stride[i] *= s.stride;
    d->slice[i] =
        (dv_slice){was.off + s.off * was.stride, s.size, was.stride * s.stride};
    d->shape[i] = s.size;
}

dv_status dv_darray_view(dv_darray **out, const dv_darray *a,
                         const dv_slice *slices, dv_diag *diag)
{
    dv_darray *v = NULL;
    DV_TRY(check_slices(a, slices, diag));
    DV_TRY(make_view(&v, a, diag));
    for (int i = 0; i < v->dist.n_dims; i++)
        slice_dim(v, i, slices[i]);
    // A rank that owns no element of the view keeps no halo (copies of
    // neighbouring elements) of it either.
    if (dv_box_empty(&v->own))
        v->mem.box = v->own;
    *out = v;
    return DV_OK;
}

dv_status dv_darray_permute(dv_darray **out, const dv_darray *a,
                            const int *axes, dv_diag *diag)
{
    unsigned seen = 0;
    dv_darray *v = NULL;
    for (int i = 0; i < a->dist.n_dims; i++) {
        int d = axes[i];
        if (d < 0 || d >= a->dist.n_dims || seen >> d & 1)
            return dv_fail(diag, DV_E_SHAPE, DV_NOWHERE,
                           "axis %d is %d: no dim of %d, or there twice", i, d,
                           a->dist.n_dims);
        seen |= 1u << d;
    }
    DV_TRY(make_view(&v, a, diag));
    dv_dist was = v->dist;
    for (int i = 0; i < was.n_dims; i++) {
        int d = axes[i];
        v->dist.shape[i] = was.shape[d];
        v->dist.axis[i] = was.axis[d];
        v->dist.starts[i] = was.starts[d];
        v->dist.slice[i] = was.slice[d];
        v->dist.whole[i] = was.whole[d];
        v->own.dim[i] = a->own.dim[d];
        v->mem.box.dim[i] = a->mem.box.dim[d];
        v->mem.stride[i] = a->mem.stride[d];
    }
    *out = v;
    return DV_OK;
}
