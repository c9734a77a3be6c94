// divvy dist: what has to travel between the ranks of a team.
#include "base/math.h"
#include "cli/dist.h"
#include <inttypes.h>
#include <string.h>

enum {
    MAX_LISTED = 1 << 16,  // ranks of an answer that lists them all
    MAX_MATRIX = 1 << 10,  // ranks of an answer with a number per pair
    MAX_COUNTED = 1 << 20, // ranks that are counted one by one
};

// -- Rows: a cut in dim 0 --------------------------------------------------

// Rank r owns own[r] and wants box[r]; to every rank, by rank, from the others.
static void transfers_json(dv_json *j, const dv_range *own, const dv_range *box,
                           int64_t n, int64_t row_elems, int64_t *total)
{
    *total = 0;
    dv_json_open(j, "transfers", '[');
    for (int64_t dst = 0; dst < n; dst++) {
        for (int64_t src = 0; src < n; src++) {
            dv_range rows = dv_dist_inner(own[src], box[dst]);
            if (src == dst || rows.size == 0)
                continue;
            dv_json_open_flat(j, NULL, '{');
            dv_json_int(j, "src", src);
            dv_json_int(j, "dst", dst);
            dv_json_int(j, "row", rows.off);
            dv_json_int(j, "rows", rows.size);
            dv_json_string(j, "side", src < dst ? "left" : "right");
            dv_json_int(j, "elems", rows.size * row_elems);
            dv_json_close(j);
            *total += rows.size * row_elems;
        }
    }
    dv_json_close(j);
}

static void sides_json(dv_json *j, dv_range own, dv_range box)
{
    dv_sides s = dv_dist_sides(own, box);
    cli_range_json(j, "bbox", box);
    dv_json_int(j, "lhalo_rows", s.left);
    cli_range_json(j, "own_view", (dv_range){s.own_off, s.own});
    dv_json_int(j, "rhalo_rows", s.right);
}

dv_status cli_dist_halo_plan(cli_dist *c)
{
    dv_dist d;
    dv_slice *dest, *views;
    int n_dest, n_views;
    int64_t row_elems, total;
    DV_TRY(cli_cut_of(c, "gshape", MAX_MATRIX, &d));
    DV_TRY(cli_slices_of(c, "dest_slice_dim0", &dest, &n_dest));
    DV_TRY(cli_slices_of(c, "src_slices_dim0", &views, &n_views));
    DV_TRY(cli_int_of(c, "row_elems", 0, INT64_C(1) << 30, &row_elems));
    if (n_dest != 1 || n_views < 1 || d.n_dims < 1)
        return dv_fail(c->diag, DV_E_USAGE, DV_NOWHERE,
                       "one slice is written and one or more are read, of a "
                       "tensor with dims");
    int64_t n = d.grid[0];
    dv_range *own = DV_NEW(&c->arena, dv_range, n);
    dv_range *box = DV_NEW(&c->arena, dv_range, n);
    if (!own || !box)
        return dv_nomem(c->diag);
    dv_json_open(&c->j, "per_rank", '[');
    for (int64_t r = 0; r < n; r++) {
        own[r] = dv_dist_part(d.shape[0], n, r);
        dv_range target = dv_dist_target(own[r], dest[0]);
        for (int i = 0; i < n_views; i++) {
            dv_range need = dv_dist_bounds(views[i], target);
            box[r] = i ? dv_dist_hull(box[r], need) : need;
        }
        dv_json_open_flat(&c->j, NULL, '{');
        dv_json_int(&c->j, "rank", r);
        cli_range_json(&c->j, "own", own[r]);
        cli_range_json(&c->j, "target", target);
        sides_json(&c->j, own[r], box[r]);
        dv_json_close(&c->j);
    }
    dv_json_close(&c->j);
    transfers_json(&c->j, own, box, n, row_elems, &total);
    dv_json_int(&c->j, "total_elems", total);
    return DV_OK;
}

// owned=off,size;… : parts that lie one behind the other, in order of ranks.
static dv_status read_owned(cli_dist *c, int64_t n, int64_t rows, dv_range *own)
{
    cli_rows r;
    int64_t at = 0;
    DV_TRY(cli_rows_of(c, "owned", &r));
    if (r.n_rows != n || r.n != 2 * n || !r.whole)
        return dv_fail(c->diag, DV_E_USAGE, DV_NOWHERE,
                       "owned takes %" PRId64 " lists of offset,size", n);
    for (int64_t i = 0; i < n; i++) {
        own[i] = (dv_range){r.v[2 * i], r.v[2 * i + 1]};
        if (own[i].off < 0 || own[i].size < 0 ||
            (own[i].size && own[i].off != at))
            return dv_fail(c->diag, DV_E_SHAPE, DV_NOWHERE,
                           "rank %" PRId64 " owns %" PRId64 " rows at %" PRId64
                           "; row %" PRId64 " is next",
                           i, own[i].size, own[i].off, at);
        at += own[i].size;
    }
    if (at != rows)
        return dv_fail(c->diag, DV_E_SHAPE, DV_NOWHERE,
                       "%" PRId64 " rows are owned of %" PRId64, at, rows);
    return DV_OK;
}

dv_status cli_dist_repartition_default(cli_dist *c)
{
    dv_dist d;
    int64_t total, row_elems = 1;
    DV_TRY(cli_cut_of(c, "gshape", MAX_MATRIX, &d));
    if (d.n_dims < 1)
        return dv_fail(c->diag, DV_E_SHAPE, DV_NOWHERE, "gshape has no dims");
    int64_t n = d.grid[0];
    dv_range *own = DV_NEW(&c->arena, dv_range, n);
    dv_range *box = DV_NEW(&c->arena, dv_range, n);
    if (!own || !box)
        return dv_nomem(c->diag);
    DV_TRY(read_owned(c, n, d.shape[0], own));
    for (int i = 1; i < d.n_dims; i++)
        row_elems *= d.shape[i];
    dv_json_open(&c->j, "per_rank", '[');
    for (int64_t r = 0; r < n; r++) {
        box[r] = dv_dist_part(d.shape[0], n, r);
        dv_json_open_flat(&c->j, NULL, '{');
        dv_json_int(&c->j, "rank", r);
        cli_range_json(&c->j, "own", own[r]);
        sides_json(&c->j, own[r], box[r]);
        dv_json_close(&c->j);
    }
    dv_json_close(&c->j);
    transfers_json(&c->j, own, box, n, row_elems, &total);
    dv_json_int(&c->j, "total_elems", total);
    return DV_OK;
}

dv_status cli_dist_balance(cli_dist *c)
{
    cli_rows local;
    int64_t total, at = 0;
    DV_TRY(cli_rows_of(c, "local", &local));
    int64_t n = dv_max_i64(local.n_rows, 1);
    dv_range *own = DV_NEW(&c->arena, dv_range, n);
    dv_range *box = DV_NEW(&c->arena, dv_range, n);
    if (!own || !box)
        return dv_nomem(c->diag);
    dv_json_open_flat(&c->j, "balanced", '[');
    for (int64_t r = 0; r < n; r++) {
        int64_t size = local.start[r + (local.n_rows > 0)] - local.start[r];
        own[r] = (dv_range){at, size};
        at += size;
        box[r] = dv_dist_part(local.n, n, r);
        dv_json_open_flat(&c->j, NULL, '[');
        for (int64_t i = 0; i < box[r].size; i++)
            if (local.whole)
                dv_json_int(&c->j, NULL, local.v[box[r].off + i]);
            else
                dv_json_double(&c->j, NULL, local.f[box[r].off + i]);
        dv_json_close(&c->j);
    }
    dv_json_close(&c->j);
    transfers_json(&c->j, own, box, n, 1, &total);
    dv_json_int(&c->j, "moved", total);
    return DV_OK;
}

// -- Matrices: how much each rank sends each -------------------------------

static void matrix_json(cli_dist *c, const int64_t *m, int64_t n)
{
    int64_t moved = 0;
    dv_json_open(&c->j, "send_matrix", '[');
    for (int64_t s = 0; s < n; s++)
        dv_json_ints(&c->j, NULL, m + s * n, (int)n);
    dv_json_close(&c->j);
    for (int64_t i = 0; i < n * n; i++)
        moved += i / n != i % n ? m[i] : 0;
    dv_json_int(&c->j, "moved", moved);
}

static int64_t row_elems(const dv_dist *d)
{
    int64_t n = 1;
    for (int i = 1; i < d->n_dims; i++)
        n *= d->shape[i];
    return n;
}

static dv_range flat_part(const dv_dist *d, int64_t rank)
{
    dv_range r = dv_dist_part(d->shape[0], d->grid[0], rank);
    return (dv_range){r.off * row_elems(d), r.size * row_elems(d)};
}

static dv_status read_reshape(cli_dist *c, int64_t max, dv_dist *from,
                              dv_dist *to)
{
    DV_TRY(cli_cut_of(c, "gshape", max, from));
    DV_TRY(cli_cut_of(c, "ngshape", max, to));
    if (from->n_dims < 1 || to->n_dims < 1)
        return dv_fail(c->diag, DV_E_SHAPE, DV_NOWHERE,
                       "a shape without dims is not cut");
    int64_t a = from->shape[0] * row_elems(from);
    int64_t b = to->shape[0] * row_elems(to);
    if (a != b)
        return dv_fail(c->diag, DV_E_SHAPE, DV_NOWHERE,
                       "gshape has %" PRId64 " elements, ngshape %" PRId64, a,
                       b);
    return DV_OK;
}

static void own_json(dv_json *j, const char *off, const char *size,
                     const dv_dist *d, int64_t rank)
{
    dv_box b = dv_dist_own(d, rank);
    int64_t v[DV_MAX_DIMS];
    for (int i = 0; i < b.n_dims; i++)
        v[i] = b.dim[i].off;
    dv_json_ints(j, off, v, b.n_dims);
    for (int i = 0; i < b.n_dims; i++)
        v[i] = b.dim[i].size;
    dv_json_ints(j, size, v, b.n_dims);
}

dv_status cli_dist_reshape_local(cli_dist *c)
{
    dv_dist from, to;
    int64_t rank;
    DV_TRY(read_reshape(c, INT64_C(1) << 40, &from, &to));
    DV_TRY(cli_int_of(c, "rank", 0, from.grid[0] - 1, &rank));
    own_json(&c->j, "loffs", "lshape", &from, rank);
    own_json(&c->j, "nloffs", "nlshape", &to, rank);
    return DV_OK;
}

dv_status cli_dist_reshape_plan(cli_dist *c)
{
    dv_dist from, to;
    DV_TRY(read_reshape(c, MAX_MATRIX, &from, &to));
    int64_t n = from.grid[0];
    int64_t *m = DV_NEW(&c->arena, int64_t, n * n);
    if (!m)
        return dv_nomem(c->diag);
    for (int k = 0; k < 2; k++) {
        dv_json_open_flat(&c->j, k ? "flat_target" : "flat_own", '[');
        for (int64_t r = 0; r < n; r++)
            cli_range_json(&c->j, NULL, flat_part(k ? &to : &from, r));
        dv_json_close(&c->j);
    }
    for (int64_t s = 0; s < n; s++)
        for (int64_t d = 0; d < n; d++)
            m[s * n + d] =
                dv_dist_inner(flat_part(&from, s), flat_part(&to, d)).size;
    matrix_json(c, m, n);
    return DV_OK;
}

dv_status cli_dist_permute_plan(cli_dist *c)
{
    dv_dist from;
    cli_rows axes;
    uint32_t seen = 0;
    int64_t shape[DV_MAX_DIMS];
    DV_TRY(cli_cut_of(c, "gshape", MAX_MATRIX, &from));
    DV_TRY(cli_list_of(c, "axes", from.n_dims, 0, &axes));
    if (from.n_dims < 1)
        return dv_fail(c->diag, DV_E_SHAPE, DV_NOWHERE, "gshape has no dims");
    for (int i = 0; i < axes.n; i++) {
        if (axes.v[i] >= axes.n || seen >> axes.v[i] & 1)
            return dv_fail(c->diag, DV_E_SHAPE, DV_NOWHERE,
                           "axes: %" PRId64 " is no dim or is there twice",
                           axes.v[i]);
        seen |= 1u << axes.v[i];
        shape[i] = from.shape[axes.v[i]];
    }
    // The new dim 0 is an old one: the new parts are a cut of that, in old
    // coordinates.
    dv_dist to = from;
    to.axis[0] = -1;
    to.axis[axes.v[0]] = 0;
    int64_t n = from.grid[0];
    int64_t *m = DV_NEW(&c->arena, int64_t, n * n);
    if (!m)
        return dv_nomem(c->diag);
    for (int64_t i = 0; i < n * n; i++) {
        dv_box a = dv_dist_own(&from, i / n), b = dv_dist_own(&to, i % n);
        dv_box both = dv_box_inner(&a, &b);
        m[i] = dv_box_elems(&both);
    }
    dv_json_ints(&c->j, "ngshape", shape, axes.n);
    matrix_json(c, m, n);
    return DV_OK;
}

// -- Grids -----------------------------------------------------------------

static dv_status halo_totals(cli_dist *c, const dv_dist *d, const int64_t *w,
                             int corners)
{
    int64_t elems = 0, most = 0, msgs = 0, most_msgs = 0;
    for (int64_t r = 0; r < dv_dist_n_ranks(d); r++) {
        dv_exchange *e = NULL;
        DV_TRY(dv_dist_halo(&e, d, r, w, w, corners, c->diag));
        elems += e->received_elems;
        msgs += e->n_received_from;
        most = dv_max_i64(most, e->received_elems);
        most_msgs = dv_max_i64(most_msgs, e->n_received_from);
        dv_exchange_destroy(e);
    }
    dv_json_open(&c->j, corners ? "box" : "star", '{');
    dv_json_int(&c->j, "total_elems", elems);
    dv_json_int(&c->j, "max_recv_elems_per_rank", most);
    dv_json_int(&c->j, "total_msgs", msgs);
    dv_json_int(&c->j, "max_msgs_per_rank", most_msgs);
    dv_json_close(&c->j);
    return DV_OK;
}

dv_status cli_dist_grid_halo_volume(cli_dist *c)
{
    dv_dist d;
    int64_t width, w[DV_MAX_DIMS];
    DV_TRY(cli_grid_of(c, "gshape", "grid", MAX_COUNTED, &d));
    DV_TRY(cli_int_of(c, "width", 0, INT64_C(1) << 60, &width));
    for (int i = 0; i < d.n_dims; i++)
        w[i] = width;
    DV_TRY(halo_totals(c, &d, w, 0));
    return halo_totals(c, &d, w, 1);
}

// overlap[s][d]: what rank s of the one has of rank d of the other.
static dv_status moved(cli_dist *c, const int64_t *overlap, int64_t n,
                       int64_t *stays, int64_t *best)
{
    *stays = 0;
    for (int64_t i = 0; i < n; i++)
        *stays += overlap[i * n + i];
    return dv_dist_relabel(best, overlap, n, c->diag);
}

dv_status cli_dist_redistribute_volume(cli_dist *c)
{
    dv_dist from, to;
    int64_t stays, best, total = 0, most_out = 0, most_in = 0;
    DV_TRY(cli_grid_of(c, "gshape", "grid_from", MAX_MATRIX, &from));
    DV_TRY(cli_grid_of(c, "gshape", "grid_to", MAX_MATRIX, &to));
    int64_t n_from = dv_dist_n_ranks(&from), n_to = dv_dist_n_ranks(&to);
    int64_t n = dv_max_i64(n_from, n_to);
    int64_t *m = DV_NEW(&c->arena, int64_t, n * n);
    int64_t *in = DV_NEW(&c->arena, int64_t, n);
    if (!m || !in)
        return dv_nomem(c->diag);
    for (int64_t s = 0; s < n_from; s++) {
        int64_t out = 0;
        dv_box a = dv_dist_own(&from, s);
        for (int64_t d = 0; d < n_to; d++) {
            dv_box b = dv_dist_own(&to, d), both = dv_box_inner(&a, &b);
            int64_t k = m[s * n + d] = dv_box_elems(&both);
            total += k;
            out += s == d ? 0 : k;
            in[d] += s == d ? 0 : k;
        }
        most_out = dv_max_i64(most_out, out);
    }
    for (int64_t d = 0; d < n; d++)
        most_in = dv_max_i64(most_in, in[d]);
    DV_TRY(moved(c, m, n, &stays, &best));
    dv_json_int(&c->j, "total", total);
    dv_json_int(&c->j, "moved_identity", total - stays);
    dv_json_int(&c->j, "moved_best_relabel", total - best);
    dv_json_int(&c->j, "max_send_per_rank", most_out);
    dv_json_int(&c->j, "max_recv_per_rank", most_in);
    return DV_OK;
}

// Elements of 0..n whose block is dealt to `a` of pa and to `b` of pb.
static int64_t cyclic(int64_t n, int64_t block, int64_t a, int64_t pa,
                      int64_t b, int64_t pb)
{
    int64_t sum = 0;
    for (int64_t i = a; i * block < n; i += pa)
        if (i % pb == b)
            sum += dv_min_i64(block, n - i * block);
    return sum;
}

dv_status cli_dist_redistribute_volume_block_cyclic(cli_dist *c)
{
    dv_dist from, to;
    cli_rows block;
    int64_t stays, best, total = 1, x[DV_MAX_AXES], y[DV_MAX_AXES];
    DV_TRY(cli_grid_of(c, "gshape", "grid_from", MAX_MATRIX, &from));
    DV_TRY(cli_grid_of(c, "gshape", "grid_to", MAX_MATRIX, &to));
    DV_TRY(cli_list_of(c, "block", from.n_dims, 1, &block));
    int64_t n = dv_dist_n_ranks(&from);
    if (from.n_axes != from.n_dims || to.n_axes != to.n_dims ||
        n != dv_dist_n_ranks(&to) || n > 256)
        return dv_fail(c->diag, DV_E_USAGE, DV_NOWHERE,
                       "grids of at most 256 ranks, the same number in both, "
                       "with an axis for every dim");
    for (int i = 0; i < from.n_dims; i++) {
        total *= from.shape[i];
        if (from.shape[i] / block.v[i] > 1 << 16)
            return dv_fail(c->diag, DV_E_LIMIT, DV_NOWHERE,
                           "dim %d has more than %d blocks", i, 1 << 16);
    }
    int64_t *m = DV_NEW(&c->arena, int64_t, n * n);
    if (!m)
        return dv_nomem(c->diag);
    for (int64_t i = 0; i < n * n; i++) {
        dv_grid_coords(x, from.grid, from.n_axes, i / n);
        dv_grid_coords(y, to.grid, to.n_axes, i % n);
        m[i] = 1;
        for (int k = 0; k < from.n_dims; k++)
            m[i] *= cyclic(from.shape[k], block.v[k], x[k], from.grid[k], y[k],
                           to.grid[k]);
    }
    DV_TRY(moved(c, m, n, &stays, &best));
    double was = (double)(total - stays), is = (double)(total - best);
    double percent = was > 0 ? 100 * (was - is) / was : 0;
    dv_json_double(&c->j, "reduction_percent_by_relabel",
                   (double)(int64_t)(percent * 1e4 + 0.5) / 1e4);
    return DV_OK;
}
