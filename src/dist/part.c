// Arithmetic on one dim: the parts of 0..n that ranks own, and slices of it.
//
//   n = 10, 4 ranks    [0 1][2 3][4 5 6][7 8 9]     the last ranks own one more
//   slice (1, 3, 3)       1     4     7             off 1, 3 elements, stride 3
//   targets per rank   (0,1) (1,0) (1,1) (2,1)      slice_off, size
//
// The results are exact for values below 2^62; callers check the values that
// users supply.
#include "base/math.h"
#include "divvy/dist.h"

dv_range dv_dist_part(int64_t n, int64_t n_ranks, int64_t rank)
{
    int64_t len = n / n_ranks, rest = n % n_ranks;
    int64_t short_ones = n_ranks - rest;
    return (dv_range){rank * len + dv_max_i64(0, rank - short_ones),
                      len + (rank >= short_ones)};
}

int64_t dv_dist_owner(int64_t n, int64_t n_ranks, int64_t global_off)
{
    int64_t len = n / n_ranks, short_ones = n_ranks - n % n_ranks;
    int64_t bend = short_ones * len;
    return global_off < bend ? global_off / len
                             : short_ones + (global_off - bend) / (len + 1);
}

dv_overlap dv_dist_overlap(dv_range global_part, dv_slice slice)
{
    int64_t before =
        dv_ceil_div(dv_max_i64(global_part.off - slice.off, 0), slice.stride);
    int64_t first = slice.off + before * slice.stride;
    int64_t end = dv_min_i64(slice.off + slice.size * slice.stride,
                             global_part.off + global_part.size);
    int64_t size = dv_max_i64(end + slice.stride - 1 - first, 0) / slice.stride;
    return (dv_overlap){dv_min_i64(before, slice.size), size, first};
}

dv_range dv_dist_target(dv_range global_own, dv_slice slice)
{
    dv_overlap o = dv_dist_overlap(global_own, slice);
    return (dv_range){o.slice_off, o.size};
}

dv_range dv_dist_bounds(dv_slice slice, dv_range slice_target)
{
    int64_t begin = slice.off + slice_target.off * slice.stride;
    int64_t n = dv_min_i64(slice.size, slice_target.off + slice_target.size);
    int64_t end = slice.off + n * slice.stride - (slice.stride - 1);
    if (slice_target.size == 0 || n <= slice_target.off)
        return (dv_range){begin, 0};
    return (dv_range){begin, end - begin};
}

dv_range dv_dist_hull(dv_range global_a, dv_range global_b)
{
    if (global_a.size == 0)
        return global_b;
    if (global_b.size == 0)
        return global_a;
    int64_t begin = dv_min_i64(global_a.off, global_b.off);
    int64_t end =
        dv_max_i64(global_a.off + global_a.size, global_b.off + global_b.size);
    return (dv_range){begin, end - begin};
}

dv_range dv_dist_intersection(dv_range global_a, dv_range global_b)
{
    int64_t begin = dv_max_i64(global_a.off, global_b.off);
    int64_t end =
        dv_min_i64(global_a.off + global_a.size, global_b.off + global_b.size);
    return (dv_range){begin, dv_max_i64(end - begin, 0)};
}

// Element k of the target (what this rank computes) belongs to the core (what
// needs no received elements) if this rank owns element slice_target.off + k of
// the slice. Those k form a range.
dv_range dv_dist_core(dv_range global_own, dv_slice slice,
                      dv_range slice_target, dv_range target_core)
{
    dv_overlap o = dv_dist_overlap(global_own, slice);
    dv_range there = {o.slice_off - slice_target.off, o.size};
    dv_range all = {0, slice_target.size};
    dv_range core =
        dv_dist_intersection(dv_dist_intersection(there, all), target_core);
    // If the core (the part that needs no received elements) is empty, it gets
    // an offset inside the target (what this rank computes), so that loops over
    // the core are empty and the edges around it cover the whole target.
    if (core.size == 0)
        core.off = dv_min_i64(core.off, slice_target.size);
    return core;
}

dv_box dv_dist_target_box(const dv_box *global_own, const dv_slice *slices)
{
    dv_box target = {.n_dims = global_own->n_dims};
    for (int d = 0; d < target.n_dims; d++)
        target.dim[d] = dv_dist_target(global_own->dim[d], slices[d]);
    return target;
}

dv_box dv_dist_core_box(const dv_box *global_own, const dv_slice *slices,
                        const dv_box *slice_target, const dv_box *target_core)
{
    dv_box core = {.n_dims = global_own->n_dims};
    for (int d = 0; d < core.n_dims; d++)
        core.dim[d] = dv_dist_core(global_own->dim[d], slices[d],
                                   slice_target->dim[d], target_core->dim[d]);
    return core;
}

dv_slice dv_dist_elements(dv_slice slice, dv_range slice_target,
                          dv_range target_part, int64_t global_origin)
{
    int64_t first = slice_target.off + target_part.off;
    return (dv_slice){slice.off + first * slice.stride - global_origin,
                      target_part.size, slice.stride};
}

dv_sides dv_dist_sides(dv_range global_own, dv_range global_box)
{
    int64_t box_end = global_box.off + global_box.size;
    int64_t own = dv_max_i64(global_own.off, global_box.off);
    int64_t own_end = dv_min_i64(global_own.off + global_own.size, box_end);
    int64_t size = dv_max_i64(own_end - own, 0);
    return (dv_sides){dv_min_i64(own, box_end) - global_box.off,
                      own - global_own.off, size,
                      dv_max_i64(box_end - (own + size), 0)};
}
