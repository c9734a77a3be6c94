// divvy dist: one dim, rank by rank.
#include "base/math.h"
#include "cli/dist.h"
#include <inttypes.h>
#include <stdlib.h>

enum { MAX_LISTED = 1 << 20 }; // ranks of an answer that lists them all

static void box_json(dv_json *j, const char *off, const char *size,
                     const dv_box *b)
{
    dv_json_open_flat(j, off, '[');
    for (int i = 0; i < b->n_dims; i++)
        dv_json_int(j, NULL, b->dim[i].off);
    dv_json_close(j);
    if (!size)
        return;
    dv_json_open_flat(j, size, '[');
    for (int i = 0; i < b->n_dims; i++)
        dv_json_int(j, NULL, b->dim[i].size);
    dv_json_close(j);
}

dv_status cli_dist_default_partition(cli_dist *c)
{
    dv_dist d;
    int64_t rank;
    DV_TRY(cli_cut_of(c, "gshape", INT64_C(1) << 40, &d));
    DV_TRY(cli_int_of(c, "rank", 0, dv_dist_n_ranks(&d) - 1, &rank));
    cli_given(c, "nprocs");
    dv_box own = dv_dist_own(&d, rank);
    box_json(&c->j, "loffs", "lshape", &own);
    return DV_OK;
}

dv_status cli_dist_default_partition_all(cli_dist *c)
{
    dv_dist d;
    DV_TRY(cli_cut_of(c, "gshape", MAX_LISTED, &d));
    cli_given(c, "nprocs");
    dv_json_open(&c->j, "loffs", '[');
    for (int64_t r = 0; r < dv_dist_n_ranks(&d); r++) {
        dv_box own = dv_dist_own(&d, r);
        box_json(&c->j, NULL, NULL, &own);
    }
    dv_json_close(&c->j);
    dv_json_open(&c->j, "lshapes", '[');
    for (int64_t r = 0; r < dv_dist_n_ranks(&d); r++) {
        dv_box own = dv_dist_own(&d, r);
        dv_json_open_flat(&c->j, NULL, '[');
        for (int i = 0; i < own.n_dims; i++)
            dv_json_int(&c->j, NULL, own.dim[i].size);
        dv_json_close(&c->j);
    }
    dv_json_close(&c->j);
    return DV_OK;
}

dv_status cli_dist_owner_of(cli_dist *c)
{
    int64_t n, ranks;
    cli_rows index;
    DV_TRY(cli_int_of(c, "n", 0, INT64_C(1) << 60, &n));
    DV_TRY(cli_int_of(c, "nprocs", 1, INT64_C(1) << 40, &ranks));
    DV_TRY(cli_list_of(c, "index", -1, 0, &index));
    dv_json_open_flat(&c->j, "rank", '[');
    for (int i = 0; i < index.n; i++) {
        if (index.v[i] >= n)
            return dv_fail(c->diag, DV_E_BOUNDS, DV_NOWHERE,
                           "index %" PRId64 " of 0..%" PRId64, index.v[i], n);
        dv_json_int(&c->j, NULL, dv_dist_owner(n, ranks, index.v[i]));
    }
    dv_json_close(&c->j);
    return DV_OK;
}

// offsets, sizes and strides as slices, one per dim.
static dv_status dim_slices(cli_dist *c, int *n, dv_slice *out)
{
    cli_rows off, size, stride;
    DV_TRY(cli_list_of(c, "offsets", -1, 0, &off));
    DV_TRY(cli_list_of(c, "sizes", off.n, 0, &size));
    DV_TRY(cli_list_of(c, "strides", off.n, 1, &stride));
    if (off.n < 1 || off.n > DV_MAX_DIMS)
        return dv_fail(c->diag, DV_E_LIMIT, DV_NOWHERE,
                       "%d dims; 1 to %d are possible", (int)off.n,
                       DV_MAX_DIMS);
    *n = off.n;
    for (int i = 0; i < *n; i++)
        DV_TRY(cli_slice_of(c, off.v[i], size.v[i], stride.v[i], &out[i]));
    return DV_OK;
}

static dv_status dim_targets(cli_dist *c, int n, const dv_slice *slice,
                             dv_range *out)
{
    cli_rows off, size;
    DV_TRY(cli_list_of(c, "toffs", n, 0, &off));
    DV_TRY(cli_list_of(c, "tsizes", n, 0, &size));
    for (int i = 0; i < n; i++) {
        dv_slice all; // from the slice's start to the target's end
        DV_TRY(cli_slice_of(c, slice[i].off, off.v[i] + size.v[i],
                            slice[i].stride, &all));
        out[i] = (dv_range){off.v[i], size.v[i]};
    }
    return DV_OK;
}

// The box so far: bb=off;size, or bb.off= and bb.size=.
static dv_status old_box(cli_dist *c, int n, int *given, dv_range *out)
{
    cli_rows off, size;
    *given = cli_given(c, "bb") || cli_given(c, "bb.off");
    if (!*given)
        return DV_OK;
    if (cli_given(c, "bb")) {
        DV_TRY(cli_rows_of(c, "bb", &off));
        if (off.n_rows != 2 || off.n != 2 * n || off.start[1] != n ||
            !off.whole)
            return dv_fail(c->diag, DV_E_USAGE, DV_NOWHERE,
                           "bb takes offsets;sizes, %d of each", n);
        size = off;
        size.v += n;
    } else {
        DV_TRY(cli_list_of(c, "bb.off", n, 0, &off));
        DV_TRY(cli_list_of(c, "bb.size", n, 0, &size));
    }
    for (int i = 0; i < n; i++) {
        if (off.v[i] < 0 || size.v[i] < 0)
            return dv_fail(c->diag, DV_E_USAGE, DV_NOWHERE,
                           "bb has %" PRId64 " elements at %" PRId64, size.v[i],
                           off.v[i]);
        out[i] = (dv_range){off.v[i], size.v[i]};
    }
    return DV_OK;
}

dv_status cli_dist_local_bounding_box(cli_dist *c)
{
    dv_slice slice[DV_MAX_DIMS];
    dv_range target[DV_MAX_DIMS], old[DV_MAX_DIMS];
    int n, given, inner;
    DV_TRY(dim_slices(c, &n, slice));
    DV_TRY(dim_targets(c, n, slice, target));
    DV_TRY(old_box(c, n, &given, old));
    DV_TRY(cli_flag_of(c, "inner", &inner));
    dv_box b = {.n_dims = n};
    for (int i = 0; i < n; i++) {
        b.dim[i] = dv_dist_bounds(slice[i], target[i]);
        if (given)
            b.dim[i] = inner ? dv_dist_inner(old[i], b.dim[i])
                             : dv_dist_hull(old[i], b.dim[i]);
    }
    box_json(&c->j, "off", "size", &b);
    return DV_OK;
}

// Parts lie one behind the other in dim 0; what of the slice is in each.
dv_status cli_dist_subview(cli_dist *c)
{
    dv_dist shape;
    dv_slice slice[DV_MAX_DIMS];
    dv_range target[DV_MAX_DIMS] = {{0}};
    cli_rows loff, parts;
    int n, cropped = cli_given(c, "toffs");
    cli_given(c, "tsizes");
    DV_TRY(cli_shape_of(c, "gshape", &shape));
    DV_TRY(dim_slices(c, &n, slice));
    DV_TRY(cli_list_of(c, "loff", n, 0, &loff));
    DV_TRY(cli_rows_of(c, "parts", &parts));
    if (cropped)
        DV_TRY(dim_targets(c, n, slice, target));
    dv_slice s = slice[0];
    if (cropped)
        DV_TRY(cli_slice_of(c, s.off + target[0].off * s.stride, target[0].size,
                            s.stride, &s));
    int64_t at = loff.v[0];
    dv_json_open_flat(&c->j, "part_off_size", '[');
    for (int p = 0; p < parts.n_rows; p++) {
        if (parts.start[p + 1] == parts.start[p] || !parts.whole ||
            parts.v[parts.start[p]] < 0)
            return dv_fail(c->diag, DV_E_USAGE, DV_NOWHERE,
                           "parts takes sizes; part %d has none", p);
        dv_range part = {at, parts.v[parts.start[p]]};
        dv_overlap o = dv_dist_overlap(part, s);
        cli_range_json(
            &c->j, NULL,
            (dv_range){dv_min_i64(o.global_first - at, part.size), o.size});
        if (!dv_add_i64(&at, at, part.size) || at > INT64_C(1) << 62)
            return dv_fail(c->diag, DV_E_LIMIT, DV_NOWHERE,
                           "the parts reach beyond 2^62");
    }
    dv_json_close(&c->j);
    dv_json_open_flat(&c->j, "loff_in_slice", '[');
    dv_overlap first = dv_dist_overlap((dv_range){loff.v[0], 0}, s);
    for (int i = 0; i < n; i++)
        dv_json_int(&c->j, NULL,
                    target[i].off + (i == 0 ? first.slice_off : 0));
    dv_json_close(&c->j);
    return DV_OK;
}

// A tensor cut in dim 0 and what of a slice of it each rank has.
typedef struct per_rank {
    dv_dist d;
    dv_slice slice;
    int64_t n_ranks;
} per_rank;

static dv_status read_per_rank(cli_dist *c, per_rank *p)
{
    dv_slice all[DV_MAX_DIMS];
    int n;
    DV_TRY(cli_cut_of(c, "gshape", MAX_LISTED, &p->d));
    DV_TRY(dim_slices(c, &n, all));
    if (n > p->d.n_dims)
        return dv_fail(c->diag, DV_E_SHAPE, DV_NOWHERE,
                       "a slice of %d dims, gshape has %d", n, p->d.n_dims);
    p->slice = all[0];
    p->n_ranks = dv_dist_n_ranks(&p->d);
    return DV_OK;
}

static void maybe_int(dv_json *j, const char *key, int there, int64_t v)
{
    if (there)
        dv_json_int(j, key, v);
    else
        dv_json_null(j, key);
}

dv_status cli_dist_local_target_of_slice(cli_dist *c)
{
    per_rank p;
    DV_TRY(read_per_rank(c, &p));
    dv_json_open(&c->j, "per_rank", '[');
    for (int64_t r = 0; r < p.n_ranks; r++) {
        dv_range own = dv_dist_part(p.d.shape[0], p.n_ranks, r);
        dv_overlap o = dv_dist_overlap(own, p.slice);
        dv_json_open_flat(&c->j, NULL, '{');
        dv_json_int(&c->j, "rank", r);
        cli_range_json(&c->j, "own", own);
        dv_json_int(&c->j, "slice_off", o.slice_off);
        dv_json_int(&c->j, "size", o.size);
        maybe_int(&c->j, "global_first", o.size > 0, o.global_first);
        maybe_int(&c->j, "local_off", o.size > 0, o.global_first - own.off);
        dv_json_close(&c->j);
    }
    dv_json_close(&c->j);
    return DV_OK;
}

dv_status cli_dist_slice_partition(cli_dist *c)
{
    per_rank p;
    int64_t end = 0;
    DV_TRY(read_per_rank(c, &p));
    dv_json_open_flat(&c->j, "sharded_dims_offsets", '[');
    for (int64_t r = 0; r < p.n_ranks; r++) {
        dv_range own = dv_dist_part(p.d.shape[0], p.n_ranks, r);
        dv_range t = dv_dist_target(own, p.slice);
        dv_json_int(&c->j, NULL, t.off);
        end = t.off + t.size;
    }
    dv_json_int(&c->j, NULL, end);
    dv_json_close(&c->j);
    return DV_OK;
}

dv_status cli_dist_insert_slice_local(cli_dist *c)
{
    per_rank p;
    DV_TRY(read_per_rank(c, &p));
    dv_json_open(&c->j, "per_rank", '[');
    for (int64_t r = 0; r < p.n_ranks; r++) {
        dv_range own = dv_dist_part(p.d.shape[0], p.n_ranks, r);
        dv_overlap o = dv_dist_overlap(own, p.slice);
        dv_json_open_flat(&c->j, NULL, '{');
        dv_json_int(&c->j, "rank", r);
        maybe_int(&c->j, "local_off", o.size > 0, o.global_first - own.off);
        dv_json_int(&c->j, "size", o.size);
        dv_json_int(&c->j, "stride", p.slice.stride);
        dv_json_close(&c->j);
    }
    dv_json_close(&c->j);
    return DV_OK;
}

static dv_status dest_slice(cli_dist *c, const char *key, dv_slice *out)
{
    dv_slice *all;
    int n;
    DV_TRY(cli_slices_of(c, key, &all, &n));
    if (n != 1)
        return dv_fail(c->diag, DV_E_USAGE, DV_NOWHERE,
                       "%s takes one slice, not %d", key, n);
    *out = all[0];
    return DV_OK;
}

dv_status cli_dist_local_core_chain(cli_dist *c)
{
    dv_dist d;
    dv_slice dest, *slices;
    int n;
    DV_TRY(cli_cut_of(c, "gshape", MAX_LISTED, &d));
    DV_TRY(dest_slice(c, "dest_slice", &dest));
    DV_TRY(cli_slices_of(c, "slices", &slices, &n));
    if (d.n_dims < 1)
        return dv_fail(c->diag, DV_E_SHAPE, DV_NOWHERE, "gshape has no dims");
    dv_json_open(&c->j, "per_rank", '[');
    for (int64_t r = 0; r < d.grid[0]; r++) {
        dv_range own = dv_dist_part(d.shape[0], d.grid[0], r);
        dv_range target = dv_dist_target(own, dest);
        dv_range core = {0, target.size};
        for (int i = 0; i < n; i++)
            core = dv_dist_core(own, slices[i], target, core);
        dv_json_open_flat(&c->j, NULL, '{');
        dv_json_int(&c->j, "rank", r);
        cli_range_json(&c->j, "own", own);
        cli_range_json(&c->j, "target", target);
        dv_json_open_flat(&c->j, "core_rel_target", '[');
        maybe_int(&c->j, NULL, core.size > 0, core.off);
        dv_json_int(&c->j, NULL, core.size);
        dv_json_close(&c->j);
        dv_json_close(&c->j);
    }
    dv_json_close(&c->j);
    return DV_OK;
}

dv_status cli_dist_get_halo_sizes(cli_dist *c)
{
    dv_dist d;
    cli_rows shape, off, box, size;
    DV_TRY(cli_shape_of(c, "gshape", &d));
    DV_TRY(cli_list_of(c, "lshape", d.n_dims, 0, &shape));
    DV_TRY(cli_list_of(c, "loffs", d.n_dims, 0, &off));
    DV_TRY(cli_list_of(c, "bboffs", d.n_dims, 0, &box));
    DV_TRY(cli_list_of(c, "bbsizes", d.n_dims, 0, &size));
    if (d.n_dims < 1)
        return dv_fail(c->diag, DV_E_SHAPE, DV_NOWHERE, "gshape has no dims");
    dv_sides s = dv_dist_sides((dv_range){off.v[0], shape.v[0]},
                               (dv_range){box.v[0], size.v[0]});
    int64_t first[4] = {s.left, s.right, s.own_off, s.own};
    static const char *const names[] = {"lhalo", "rhalo", "own_view_off",
                                        "own_view_size"};
    for (int k = 0; k < 4; k++) {
        dv_json_open_flat(&c->j, names[k], '[');
        dv_json_int(&c->j, NULL, first[k]);
        for (int i = 1; i < d.n_dims; i++)
            dv_json_int(&c->j, NULL, k == 2 ? box.v[i] - off.v[i] : size.v[i]);
        dv_json_close(&c->j);
    }
    return DV_OK;
}

static int by_value(const void *x, const void *y)
{
    int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;
    return (a > b) - (a < b);
}

// The core first; then the gaps between the places where a part or the core
// begins or ends.
dv_status cli_dist_ewbin_loops(cli_dist *c)
{
    cli_rows parts[2], core;
    int64_t at[512], end = 0;
    int n = 0;
    DV_TRY(cli_list_of(c, "lhs_part_rows", -1, 0, &parts[0]));
    DV_TRY(cli_list_of(c, "rhs_part_rows", -1, 0, &parts[1]));
    DV_TRY(cli_list_of(c, "core", 2, 0, &core));
    if (parts[0].n + parts[1].n > 500)
        return dv_fail(c->diag, DV_E_LIMIT, DV_NOWHERE, "%d parts are too many",
                       (int)(parts[0].n + parts[1].n));
    at[n++] = 0;
    for (int k = 0; k < 2; k++) {
        int64_t sum = 0;
        for (int i = 0; i < parts[k].n; i++)
            if (!dv_add_i64(&sum, sum, parts[k].v[i]))
                return dv_fail(c->diag, DV_E_LIMIT, DV_NOWHERE,
                               "the parts reach beyond 2^63");
            else
                at[n++] = sum;
        end = dv_max_i64(end, sum);
    }
    int64_t begin = dv_min_i64(core.v[0], end);
    int64_t stop = dv_min_i64(core.v[0] + core.v[1], end);
    at[n++] = begin;
    at[n++] = stop;
    qsort(at, (size_t)n, sizeof *at, by_value);
    dv_json_open_flat(&c->j, "loops", '[');
    if (begin < stop)
        dv_json_ints(&c->j, NULL, (int64_t[]){begin, stop}, 2);
    for (int i = 1; i < n; i++)
        if (at[i - 1] < at[i] && (at[i] <= begin || at[i - 1] >= stop))
            dv_json_ints(&c->j, NULL, (int64_t[]){at[i - 1], at[i]}, 2);
    dv_json_close(&c->j);
    return DV_OK;
}
