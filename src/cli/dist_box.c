// divvy dist: boxes and lists of them; who sends what to whom over grids of any
// kind, with parts as they are given.
//
// A box is off,size for every dim: 0,2,4,3 is rows 0..2 of columns 4..7.
#include "base/math.h"
#include "cli/dist.h"
#include <inttypes.h>

enum { MAX_ASKED = 1 << 12 }; // ranks whose wants are given

// -- Answers ---------------------------------------------------------------

static void box_json(dv_json *j, const char *key, const dv_box *b)
{
    dv_json_open_flat(j, key, '[');
    for (int i = 0; i < b->n_dims; i++)
        cli_range_json(j, NULL, b->dim[i]);
    dv_json_close(j);
}

static void pieces_json(dv_json *j, const char *key, const char *who,
                        const dv_piece *p, size_t n)
{
    dv_json_open(j, key, '[');
    for (size_t i = 0; i < n; i++) {
        dv_json_open_flat(j, NULL, '{');
        dv_json_int(j, who, p[i].rank);
        box_json(j, "box", &p[i].box);
        dv_json_int(j, "elems", dv_box_elems(&p[i].box));
        dv_json_close(j);
    }
    dv_json_close(j);
}

static void own_json(dv_json *j, const dv_box *b)
{
    int64_t v[DV_MAX_DIMS];
    for (int i = 0; i < b->n_dims; i++)
        v[i] = b->dim[i].off;
    dv_json_ints(j, "loffs", v, b->n_dims);
    for (int i = 0; i < b->n_dims; i++)
        v[i] = b->dim[i].size;
    dv_json_ints(j, "lshape", v, b->n_dims);
}

// All pieces for a rank are one message; bytes where elements have a size.
static dv_status exchange_json(cli_dist *c, dv_exchange *e)
{
    int64_t bytes = 0, received = 0, sent = 0;
    dv_status st = DV_OK;
    if (cli_given(c, "elem_bytes"))
        st = cli_int_of(c, "elem_bytes", 1, 1 << 20, &bytes);
    if (st == DV_OK && (!dv_mul_i64(&received, e->received_elems, bytes) ||
                        !dv_mul_i64(&sent, e->sent_elems, bytes)))
        st = dv_fail(c->diag, DV_E_OVERFLOW, DV_NOWHERE,
                     "%" PRId64 " elements of %" PRId64
                     " bytes do not fit 64 bits",
                     e->received_elems, bytes);
    pieces_json(&c->j, "receives", "from", e->receives, e->n_receives);
    pieces_json(&c->j, "sends", "to", e->sends, e->n_sends);
    dv_json_int(&c->j, "received_elems", e->received_elems);
    dv_json_int(&c->j, "sent_elems", e->sent_elems);
    dv_json_int(&c->j, "messages_received", e->n_received_from);
    dv_json_int(&c->j, "messages_sent", e->n_sent_to);
    if (bytes) {
        dv_json_int(&c->j, "bytes_received", received);
        dv_json_int(&c->j, "bytes_sent", sent);
    }
    dv_exchange_destroy(e);
    return st;
}

// -- Distributions ---------------------------------------------------------

// starts=0,1,7,10;;… : for every dim where its parts begin and the last one
// ends, or nothing: equal parts.
static dv_status add_starts(cli_dist *c, const char *key, dv_dist *d)
{
    cli_rows r;
    if (!cli_given(c, key))
        return DV_OK;
    DV_TRY(cli_rows_of(c, key, &r));
    if (r.n_rows != d->n_dims || !r.whole)
        return dv_fail(c->diag, DV_E_USAGE, DV_NOWHERE,
                       "%s has %d lists of whole numbers, the shape %d dims",
                       key, (int)r.n_rows, d->n_dims);
    for (int i = 0; i < d->n_dims; i++) {
        int64_t n = r.start[i + 1] - r.start[i];
        int64_t parts = d->axis[i] < 0 ? 1 : d->grid[d->axis[i]];
        if (n == 0)
            continue;
        if (n != parts + 1)
            return dv_fail(c->diag, DV_E_USAGE, DV_NOWHERE,
                           "%s: dim %d has %" PRId64
                           " parts, which take %" PRId64
                           " numbers, not %" PRId64,
                           key, i, parts, parts + 1, n);
        d->starts[i] = r.v + r.start[i];
    }
    return dv_dist_check(d, c->diag);
}

static dv_status read_dist(cli_dist *c, dv_dist *d, int64_t *rank)
{
    DV_TRY(cli_grid_of(c, "gshape", "grid", INT64_C(1) << 40, d));
    DV_TRY(add_starts(c, "starts", d));
    return cli_int_of(c, "rank", 0, dv_dist_n_ranks(d) - 1, rank);
}

// The dims of a view: a slice each.
static dv_status take_slices(cli_dist *c, dv_dist *d)
{
    cli_rows off, size, stride;
    DV_TRY(cli_list_of(c, "offsets", d->n_dims, 0, &off));
    DV_TRY(cli_list_of(c, "sizes", d->n_dims, 0, &size));
    DV_TRY(cli_list_of(c, "strides", d->n_dims, 1, &stride));
    for (int i = 0; i < d->n_dims; i++) {
        DV_TRY(cli_slice_of(c, off.v[i], size.v[i], stride.v[i], &d->slice[i]));
        d->whole[i] = d->shape[i];
        d->shape[i] = size.v[i];
    }
    return dv_dist_check(d, c->diag);
}

dv_status cli_dist_own(cli_dist *c)
{
    dv_dist d;
    int64_t rank;
    DV_TRY(read_dist(c, &d, &rank));
    if (cli_given(c, "offsets"))
        DV_TRY(take_slices(c, &d));
    dv_box own = dv_dist_own(&d, rank);
    own_json(&c->j, &own);
    return DV_OK;
}

dv_status cli_dist_halo(cli_dist *c)
{
    dv_dist d;
    cli_rows before, after;
    int64_t rank;
    int corners;
    dv_exchange *e = NULL;
    DV_TRY(read_dist(c, &d, &rank));
    DV_TRY(cli_list_of(c, "before", d.n_dims, 0, &before));
    DV_TRY(cli_list_of(c, "after", d.n_dims, 0, &after));
    DV_TRY(cli_flag_of(c, "corners", &corners));
    DV_TRY(dv_dist_halo(&e, &d, rank, before.v, after.v, corners, c->diag));
    dv_box own = dv_dist_own(&d, rank);
    own_json(&c->j, &own);
    return exchange_json(c, e);
}

dv_status cli_dist_move(cli_dist *c)
{
    dv_dist from, to;
    int64_t rank;
    dv_exchange *e = NULL;
    DV_TRY(cli_grid_of(c, "gshape", "grid_from", INT64_C(1) << 40, &from));
    DV_TRY(cli_grid_of(c, "gshape", "grid_to", INT64_C(1) << 40, &to));
    DV_TRY(add_starts(c, "starts_from", &from));
    DV_TRY(add_starts(c, "starts_to", &to));
    DV_TRY(cli_int_of(c, "rank", 0, dv_dist_n_ranks(&from) - 1, &rank));
    DV_TRY(dv_dist_move(&e, &from, &to, rank, c->diag));
    dv_box own = dv_dist_own(&to, rank);
    own_json(&c->j, &own);
    return exchange_json(c, e);
}

// -- Boxes of the caller's choice ------------------------------------------

// Boxes of n_dims dims from a list of numbers, added to a list or taken away.
static dv_status put_boxes(const char *key, const int64_t *v, int64_t n,
                           int n_dims, int less, dv_box_list *out,
                           dv_diag *diag)
{
    if (n_dims < 1 || n % (2 * n_dims))
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "%s: boxes of %d dims are %d numbers each, not %" PRId64,
                       key, n_dims, 2 * n_dims, n);
    for (int64_t k = 0; k < n; k += 2 * n_dims) {
        dv_box b = {.n_dims = n_dims};
        int64_t elems = 1;
        for (int i = 0; i < n_dims; i++) {
            b.dim[i] = (dv_range){v[k + 2 * i], v[k + 2 * i + 1]};
            if (b.dim[i].size < 0 ||
                !dv_mul_i64(&elems, elems, dv_max_i64(b.dim[i].size, 1)))
                return dv_fail(diag, DV_E_LIMIT, DV_NOWHERE,
                               "%s: a box of %" PRId64
                               " elements of dim %d: too many, or below 0",
                               key, b.dim[i].size, i);
        }
        DV_TRY(less ? dv_box_list_less(out, &b, diag)
                    : dv_box_list_add(out, &b, diag));
    }
    return DV_OK;
}

typedef struct wanting {
    cli_rows rows;
    int n_dims;
} wanting;

static dv_status wants(void *user, int64_t rank, dv_box_list *out,
                       dv_diag *diag)
{
    const wanting *w = user;
    int64_t first = w->rows.start[rank], n = w->rows.start[rank + 1] - first;
    return put_boxes("wants", w->rows.v + first, n, w->n_dims, 0, out, diag);
}

dv_status cli_dist_exchange(cli_dist *c)
{
    dv_dist d;
    int64_t rank;
    wanting w = {0};
    dv_exchange *e = NULL;
    DV_TRY(read_dist(c, &d, &rank));
    DV_TRY(cli_rows_of(c, "wants", &w.rows));
    w.n_dims = d.n_dims;
    if (w.rows.n_rows != dv_dist_n_ranks(&d) || !w.rows.whole ||
        w.rows.n_rows > MAX_ASKED)
        return dv_fail(c->diag, DV_E_USAGE, DV_NOWHERE,
                       "wants has %d lists of whole numbers, the team %" PRId64
                       " ranks of %d at most",
                       (int)w.rows.n_rows, dv_dist_n_ranks(&d), MAX_ASKED);
    DV_TRY(dv_dist_exchange(&e, &d, rank, wants, &w, NULL, c->diag));
    dv_box own = dv_dist_own(&d, rank);
    own_json(&c->j, &own);
    return exchange_json(c, e);
}

static dv_status add_and_less(cli_dist *c, const cli_rows *add,
                              dv_box_list *out)
{
    int n_dims = (add->start[1] - add->start[0]) / 2;
    for (int32_t i = 0; i < add->n_rows; i++)
        DV_TRY(put_boxes("add", add->v + add->start[i],
                         add->start[i + 1] - add->start[i], n_dims, 0, out,
                         c->diag));
    if (!cli_given(c, "less"))
        return DV_OK;
    cli_rows less;
    DV_TRY(cli_rows_of(c, "less", &less));
    for (int32_t i = 0; i < less.n_rows; i++)
        DV_TRY(put_boxes("less", less.v + less.start[i],
                         less.start[i + 1] - less.start[i], n_dims, 1, out,
                         c->diag));
    return DV_OK;
}

dv_status cli_dist_box_list(cli_dist *c)
{
    cli_rows add;
    dv_box_list *l = NULL;
    DV_TRY(cli_rows_of(c, "add", &add));
    if (add.n_rows < 1 || !add.whole)
        return dv_fail(c->diag, DV_E_USAGE, DV_NOWHERE,
                       "add takes boxes as lists of off,size");
    DV_TRY(dv_box_list_create(&l, (add.start[1] - add.start[0]) / 2, c->diag));
    dv_status st = add_and_less(c, &add, l);
    if (st == DV_OK) {
        dv_box_list_join(l);
        dv_json_open(&c->j, "boxes", '[');
        for (size_t i = 0; i < dv_box_list_n(l); i++) {
            dv_box b = dv_box_list_at(l, i);
            box_json(&c->j, NULL, &b);
        }
        dv_json_close(&c->j);
        dv_json_int(&c->j, "elems", dv_box_list_elems(l));
    }
    dv_box_list_destroy(l);
    return st;
}

// -- A box in parts --------------------------------------------------------

static dv_status read_box(cli_dist *c, const char *key, dv_box *b)
{
    cli_rows r;
    DV_TRY(cli_list_of(c, key, -1, 0, &r));
    if (r.n % 2 || r.n > 2 * DV_MAX_DIMS)
        return dv_fail(c->diag, DV_E_USAGE, DV_NOWHERE,
                       "%s is off,size of at most %d dims, not %d numbers", key,
                       DV_MAX_DIMS, (int)r.n);
    *b = (dv_box){.n_dims = r.n / 2};
    for (int i = 0; i < b->n_dims; i++)
        b->dim[i] = (dv_range){r.v[2 * i], r.v[2 * i + 1]};
    return DV_OK;
}

dv_status cli_dist_core_edges(cli_dist *c)
{
    dv_box target, core, edges[2 * DV_MAX_DIMS];
    DV_TRY(read_box(c, "target", &target));
    DV_TRY(read_box(c, "core", &core));
    if (target.n_dims != core.n_dims)
        return dv_fail(c->diag, DV_E_USAGE, DV_NOWHERE,
                       "target has %d dims, core %d", target.n_dims,
                       core.n_dims);
    core = dv_box_inner(&core, &target);
    int n = dv_dist_edges(edges, &target, &core);
    box_json(&c->j, "core", &core);
    dv_json_open(&c->j, "edges", '[');
    for (int i = 0; i < n; i++)
        box_json(&c->j, NULL, &edges[i]);
    dv_json_close(&c->j);
    return DV_OK;
}

dv_status cli_dist_best_grid(cli_dist *c)
{
    dv_dist d, best;
    int64_t n;
    DV_TRY(cli_shape_of(c, "gshape", &d));
    DV_TRY(cli_int_of(c, "nprocs", 1, 1 << 20, &n));
    DV_TRY(dv_dist_blocks(&best, d.n_dims, d.shape, n, c->diag));
    dv_json_ints(&c->j, "grid", best.grid, best.n_axes);
    return DV_OK;
}
