// Computes which tiles every core computes under each policy.
//
//   static     core i of n: tiles part(T, n, i); at most two sizes, the larger
//              first, like the two core groups of TT-Metalium
//   streamk    divides steps instead of tiles: 3 tiles of 4 steps on 2 cores
//                core 0   tile 0 whole, tile 1 steps 0..2
//                core 1   tile 1 steps 2..4, tile 2 whole
//   streamk1   full waves of tiles are computed whole; the remainder streamed
//   streamk2   streams one full wave more, so each core streams 1 to 2 tiles
//   splitk(s)  every tile's depth in s parts; cores get ranges of parts
//
// A step is the product of two tiles; a wave is one tile per core. When several
// cores compute parts of a tile, the core with step 0 owns the tile and adds
// the others' partial sums in ascending order of steps. The parts of a tile are
// on consecutive cores of the list, so the number of contributors describes
// them. A sum therefore has the same bits in every run.
#include "base/math.h"
#include "grid/grid.h"
#include <inttypes.h>
#include <string.h>

#define FAIL(status, ...) return dv_fail(diag, status, DV_NOWHERE, __VA_ARGS__)

// Takes the first n usable cores and divides them into two groups: the first
// n_larger cores have one unit of work (tile or step) more than the others. If
// n_larger is 0, all cores have equal work.
static dv_status take_cores(dv_grid *g, int64_t n, int64_t n_larger,
                            dv_diag *diag)
{
    dv_xy *xy = DV_NEW(&g->arena, dv_xy, n ? n : 1);
    g->cores = DV_NEW(&g->arena, dv_grid_core, n ? n : 1);
    if (!xy || !g->cores)
        return dv_nomem(diag);
    dv_cores_list(xy, &g->set, n, g->by_row);
    g->n_cores = (int32_t)n;
    g->n_group_1 = n_larger ? n_larger : n;
    for (int64_t i = 0; i < n; i++) {
        g->cores[i].x = xy[i].x;
        g->cores[i].y = xy[i].y;
        g->cores[i].owner = -1;
    }
    int64_t n1 = g->n_group_1;
    if (!dv_rects_of(&g->all, &g->set, xy, n, g->by_row, &g->arena) ||
        !dv_rects_of(&g->group_1, &g->set, xy, n1, g->by_row, &g->arena) ||
        !dv_rects_of(&g->group_2, &g->set, xy + n1, n - n1, g->by_row,
                     &g->arena))
        return dv_nomem(diag);
    return DV_OK;
}

static void add_segment(dv_grid *g, dv_grid_core *c, dv_segment s)
{
    if (s.count <= 0 || s.k0 >= s.k1)
        return;
    c->segments[c->n_segments++] = s;
    c->steps += s.count * (s.k1 - s.k0);
    g->n_segments++;
}

static dv_status assign_static(dv_grid *g, dv_diag *diag)
{
    int64_t n = dv_min_i64(g->n_tiles, g->set.n);
    DV_TRY(take_cores(g, n, n ? g->n_tiles % n : 0, diag));
    g->units_1 = n ? dv_ceil_div(g->n_tiles, n) : 0;
    g->units_2 = g->n_group_1 < n ? g->n_tiles / n : 0;
    for (int32_t i = 0; i < g->n_cores; i++) {
        int64_t first = dv_part_begin(g->n_tiles, n, i);
        int64_t end = dv_part_begin(g->n_tiles, n, i + 1);
        add_segment(g, &g->cores[i],
                    (dv_segment){first, end - first, 0, g->kt});
    }
    return DV_OK;
}

// Gives the steps begin..end (products of two tiles, numbered over all tiles)
// to a core, as up to three segments: the last steps of a tile, whole tiles,
// and the first steps of a tile.
static void add_steps(dv_grid *g, dv_grid_core *c, int64_t begin, int64_t end)
{
    int64_t kt = g->kt, first = begin / kt, last = end / kt;
    c->iter0 = begin;
    c->iter1 = end;
    if (begin >= end)
        return;
    if (first == last) {
        add_segment(g, c, (dv_segment){first, 1, begin % kt, end % kt});
        return;
    }
    if (begin % kt) {
        add_segment(g, c, (dv_segment){first, 1, begin % kt, kt});
        first++;
    }
    add_segment(g, c, (dv_segment){first, last - first, 0, kt});
    add_segment(g, c, (dv_segment){last, 1, 0, end % kt});
}

// Returns the number of core i's first step (product of two tiles) when the
// steps of the tiles that are split are divided over the cores. The steps of
// core i end where those of core i + 1 begin.
static int64_t steps_begin(const dv_grid *g, int64_t i)
{
    int64_t p = g->n_cores, s = g->split;
    if (g->policy != DV_POLICY_SPLITK)
        return g->dp_tiles * g->kt + dv_part_begin(g->sk_tiles * g->kt, p, i);
    // Policy splitk cuts the sum of every tile into s parts and deals parts to
    // cores, not single steps (products of two tiles): u is the first part of
    // core i.
    int64_t u = dv_part_begin(g->sk_tiles * s, p, i);
    return u / s * g->kt + dv_part_begin(g->kt, s, u % s);
}

// If a tile is split over cores, the core with its first step owns it and adds
// the others' partial sums. Finds for each core the owner of the tile in which
// its steps begin, and counts the cores that compute the remaining steps of its
// last tile.
static void find_contributors(dv_grid *g)
{
    // The core that owns (adds up) the last tile that was begun and is not
    // complete yet, or -1.
    int32_t owner = -1;
    for (int32_t i = 0; i < g->n_cores; i++) {
        dv_grid_core *c = &g->cores[i];
        if (c->iter0 == c->iter1)
            continue;
        if (c->iter0 % g->kt) {
            c->owner = owner;
            g->cores[owner].contributors++;
            g->max_contributors = dv_max_i64(g->max_contributors,
                                             1 + g->cores[owner].contributors);
        }
        int fresh =
            c->iter1 / g->kt > c->iter0 / g->kt || c->iter0 % g->kt == 0;
        if (c->iter1 % g->kt && fresh) {
            owner = i;
            g->split_tiles++;
        }
    }
}

static dv_status assign_stream(dv_grid *g, dv_diag *diag)
{
    int64_t waves = g->n_tiles / g->set.n;
    if (g->policy == DV_POLICY_STREAMK1)
        g->dp_tiles = waves * g->set.n;
    else if (g->policy == DV_POLICY_STREAMK2 && waves > 1)
        g->dp_tiles = (waves - 1) * g->set.n;
    g->sk_tiles = g->n_tiles - g->dp_tiles;
    int64_t units = g->policy == DV_POLICY_SPLITK ? g->n_tiles * g->split
                                                  : g->sk_tiles * g->kt;
    int64_t n = dv_min_i64(g->dp_tiles ? g->set.n : units, g->set.n);
    DV_TRY(take_cores(g, n, n ? units % n : 0, diag));
    g->units_1 = n ? dv_ceil_div(units, n) : 0;
    g->units_2 = g->n_group_1 < n ? units / n : 0;
    g->max_contributors = g->n_tiles > 0;
    for (int32_t i = 0; i < g->n_cores; i++) {
        int64_t first = dv_part_begin(g->dp_tiles, n, i);
        int64_t end = dv_part_begin(g->dp_tiles, n, i + 1);
        add_segment(g, &g->cores[i],
                    (dv_segment){first, end - first, 0, g->kt});
        add_steps(g, &g->cores[i], steps_begin(g, i), steps_begin(g, i + 1));
    }
    find_contributors(g);
    return DV_OK;
}

// Returns the number of tiles in a core's memory when it computes an m x n
// block of tiles, reading k tiles of depth at a time: double-buffered panels of
// both operands and the block itself.
static int64_t block_tiles(int64_t m, int64_t n, int64_t k)
{
    return 2 * k * (m + n) + m * n;
}

// Chooses how a core computes its m x n tiles: the largest block of them that
// fits its memory, then the largest depth (number of tiles along the reduced
// dimension) at a time that still fits, and the sub-block for the registers.
static dv_status size_block(dv_grid *g, int64_t m, int64_t n, dv_diag *diag)
{
    int64_t page = g->tile_rows * g->tile_cols * g->elem_bytes;
    int64_t room = g->memory_bytes ? g->memory_bytes / page : INT64_MAX;
    while (block_tiles(m, n, 1) > room && m * n > 1) {
        if (m >= n)
            m = dv_ceil_div(m, 2);
        else
            n = dv_ceil_div(n, 2);
    }
    if (block_tiles(m, n, 1) > room)
        FAIL(DV_E_CAPACITY,
             "a block of one tile needs %" PRId64 " bytes, a core has %" PRId64,
             block_tiles(m, n, 1) * page, g->memory_bytes);
    g->block_m = m;
    g->block_n = n;
    g->block_k = 1;
    for (int64_t k = 8; k > 1 && g->block_k == 1; k /= 2)
        if (k <= g->kt && block_tiles(m, n, k) <= room)
            g->block_k = k;
    // Candidates for the sub-block of tiles that is held in registers (rows,
    // columns), in order of preference: the registers hold 8 tiles, and shapes
    // close to a square reuse operands most.
    static const int64_t sub[][2] = {{4, 2}, {2, 4}, {8, 1}, {1, 8}, {7, 1},
                                     {1, 7}, {3, 2}, {2, 3}, {6, 1}, {1, 6},
                                     {5, 1}, {1, 5}, {2, 2}, {4, 1}, {1, 4},
                                     {3, 1}, {1, 3}, {2, 1}, {1, 2}, {1, 1}};
    int at = 0;
    while (m % sub[at][0] || n % sub[at][1])
        // The loop ends, because the last candidate, 1x1, divides every block.
        at++;
    g->sub_h = sub[at][0];
    g->sub_w = sub[at][1];
    return DV_OK;
}

static dv_status rect_cores(dv_grid *g, dv_grid_rect *r, dv_diag *diag)
{
    dv_grid_rect most;
    if (!dv_cores_largest(&most, &g->set))
        return dv_nomem(diag);
    int64_t cols = dv_min_i64(most.x1 - most.x0 + 1, g->nt);
    int64_t rows = dv_min_i64(most.y1 - most.y0 + 1, g->mt);
    if (!g->n_tiles)
        cols = rows = 0;
    *r = (dv_grid_rect){most.x0, most.y0, (int32_t)(most.x0 + cols - 1),
                        (int32_t)(most.y0 + rows - 1)};
    g->cores = DV_NEW(&g->arena, dv_grid_core, cols * rows + 1);
    g->all.at = DV_NEW(&g->arena, dv_grid_rect, 1);
    if (!g->cores || !g->all.at)
        return dv_nomem(diag);
    if (cols * rows > 0) {
        g->all.at[0] = *r;
        g->all.n = 1;
    }
    g->n_cores = (int32_t)(cols * rows);
    g->n_group_1 = g->n_cores;
    g->group_1 = g->all;
    return DV_OK;
}

int dv_grid_limited_by_holes(const dv_grid *g)
{
    int64_t wide = dv_min_i64(g->nt, g->set.cols);
    int64_t tall = dv_min_i64(g->mt, g->set.rows);
    return g->policy == DV_POLICY_RECT && !g->local_shard &&
           g->n_cores < dv_min_i64(wide * tall, g->set.n);
}

static dv_status give_rectangles(dv_grid *g, dv_diag *diag)
{
    dv_grid_rect r;
    DV_TRY(rect_cores(g, &r, diag));
    int64_t cols = r.x1 - r.x0 + 1, rows = r.y1 - r.y0 + 1;
    for (int32_t i = 0; i < g->n_cores; i++) {
        dv_grid_core *c = &g->cores[i];
        int64_t x = i % cols, y = i / cols;
        c->x = (int32_t)(r.x0 + x);
        c->y = (int32_t)(r.y0 + y);
        c->owner = -1;
        c->m0 = dv_part_begin(g->mt, rows, y);
        c->m1 = dv_part_begin(g->mt, rows, y + 1);
        c->n0 = dv_part_begin(g->nt, cols, x);
        c->n1 = dv_part_begin(g->nt, cols, x + 1);
        c->steps = (c->m1 - c->m0) * (c->n1 - c->n0) * g->batch * g->kt;
        // The first core of each row reads A and multicasts it along its row of
        // cores.
        c->sends_a = x == 0 && cols > 1;
        // The first core of each column reads B and multicasts it down its
        // column.
        c->sends_b = y == 0 && rows > 1;
    }
    g->units_1 = g->n_cores ? g->cores[0].steps / g->kt : 0;
    if (!g->n_cores)
        return DV_OK;
    return size_block(g, g->cores[0].m1, g->cores[0].n1, diag);
}

static dv_status give_shards(dv_grid *g, dv_diag *diag)
{
    int64_t n = g->n_tiles ? g->gy * g->gx : 0;
    dv_xy *xy = DV_NEW(&g->arena, dv_xy, n ? n : 1);
    g->cores = DV_NEW(&g->arena, dv_grid_core, n ? n : 1);
    if (!xy || !g->cores)
        return dv_nomem(diag);
    g->n_cores = (int32_t)n;
    for (int64_t i = 0; i < n; i++) {
        dv_grid_core *c = &g->cores[i];
        c->sy = i / g->gx, c->sx = i % g->gx;
        c->x = (int32_t)c->sx, c->y = (int32_t)c->sy;
        c->owner = -1;
        c->steps = g->sm * g->sn * g->kt;
        xy[i] = (dv_xy){c->x, c->y};
        if (!g->set.allowed[(int64_t)c->y * g->set.cols + c->x])
            FAIL(DV_E_CAPACITY,
                 "shard %" PRId64 ",%" PRId64 " (row, column) is for core "
                 "%d,%d (column, row), which is not allowed",
                 c->sy, c->sx, c->x, c->y);
    }
    g->n_group_1 = n;
    g->units_1 = n ? g->sm * g->sn : 0;
    if (!dv_rects_of(&g->all, &g->set, xy, n, g->by_row, &g->arena))
        return dv_nomem(diag);
    g->group_1 = g->all;
    return DV_OK;
}

static void add_cb(dv_grid *g, const char *name, int32_t index, int64_t tiles,
                   int64_t page)
{
    g->cbs[g->n_cbs++] = (dv_grid_cb){name, index, tiles, page};
    g->core_bytes += tiles * page;
}

void dv_grid_buffers(dv_grid *g)
{
    int64_t area = g->tile_rows * g->tile_cols, page = area * g->elem_bytes;
    int rect = g->policy == DV_POLICY_RECT;
    int64_t k = rect ? g->block_k : 1;
    int64_t m = rect ? g->block_m : 1, n = rect ? g->block_n : 1;
    add_cb(g, "a", 0, 2 * k * m, page);
    add_cb(g, "b", 1, 2 * k * n, page);
    if (g->local_shard)
        add_cb(g, "c", 16, g->sm * g->sn, page);
    else
        add_cb(g, "c", 16, rect ? m * n : 2, page);
    // If tiles are split over cores, add a buffer for partial sums, which are
    // f32 whatever the element type.
    if (g->split_tiles)
        add_cb(g, "partial", 24, 2, 4 * area);
}

int dv_grid_arg_names(const char **names, dv_grid_args kind)
{
    static const char *const usual[] = {"start_id", "count", "Mt", "Kt", "Nt"};
    static const char *const more[][8] = {
        [DV_ARGS_NONE] = {NULL},
        [DV_ARGS_SHARD] = {"Sm", "Sn", "Gy", "Gx", "sy", "sx"},
        [DV_ARGS_RECT] = {"m0", "m1", "n0", "n1", "sends_a", "sends_b"},
        [DV_ARGS_STREAM] = {"k_first", "k_last", "whole_id", "whole_count",
                            "peers", "owner_x", "owner_y"},
        [DV_ARGS_CHUNK] = {"chunk"},
    };
    int n = 0;
    for (; n < DV_USUAL_ARGS; n++)
        names[n] = usual[n];
    for (const char *const *name = more[kind]; *name; name++)
        names[n++] = *name;
    return n;
}

static dv_grid_args args_of(const dv_grid *g)
{
    return g->local_shard                  ? DV_ARGS_SHARD
           : g->policy == DV_POLICY_RECT   ? DV_ARGS_RECT
           : dv_policy_streams(g->policy)  ? DV_ARGS_STREAM
           : g->policy != DV_POLICY_STATIC ? DV_ARGS_CHUNK
                                           : DV_ARGS_NONE;
}

// Writes to `a` the kernel arguments of core c that depend on the policy; they
// follow the arguments that all policies have (DV_USUAL_ARGS).
static void policy_args(const dv_grid *g, const dv_grid_core *c, int64_t *a)
{
    int64_t n = g->n_cores ? g->n_cores : 1;
    int64_t first = dv_part_begin(g->dp_tiles, n, c - g->cores);
    int64_t end = dv_part_begin(g->dp_tiles, n, c - g->cores + 1);
    const dv_grid_core *owner = c->owner < 0 ? NULL : &g->cores[c->owner];
    int64_t v[][7] = {
        [DV_ARGS_SHARD] = {g->sm, g->sn, g->gy, g->gx, c->sy, c->sx},
        [DV_ARGS_RECT] = {c->m0, c->m1, c->n0, c->n1, c->sends_a, c->sends_b},
        [DV_ARGS_STREAM] = {c->iter0 % g->kt,
                            c->iter1 > c->iter0 ? (c->iter1 - 1) % g->kt + 1
                                                : 0,
                            first, end - first, c->contributors,
                            owner ? owner->x : -1, owner ? owner->y : -1},
        [DV_ARGS_CHUNK] = {g->split},
    };
    memcpy(a, v[args_of(g)], (size_t)(g->n_args - DV_USUAL_ARGS) * sizeof *a);
}

void dv_grid_arguments(dv_grid *g)
{
    g->n_args = dv_grid_arg_names(g->arg_names, args_of(g));
    for (int32_t i = 0; i < g->n_cores; i++) {
        dv_grid_core *c = &g->cores[i];
        int64_t start = 0, count = c->steps / g->kt;
        if (c->iter1 > c->iter0) {
            start = c->iter0 / g->kt;
            count = (c->iter1 - 1) / g->kt + 1 - start;
        } else if (dv_policy_streams(g->policy)) {
            count = 0;
        } else if (c->n_segments) {
            start = c->segments[0].first;
        } else if (g->policy == DV_POLICY_RECT) {
            // The first argument is the number of the first tile of the core's
            // rectangle, in row-major order.
            start = c->m0 * g->nt + c->n0;
        }
        c->args[0] = start;
        c->args[1] = count;
        c->args[2] = g->mt;
        c->args[3] = g->kt;
        c->args[4] = g->nt;
        policy_args(g, c, c->args + DV_USUAL_ARGS);
    }
}

// Returns the steps (products of two tiles) of the busiest core under policy
// static, which gives each core a contiguous range of whole tiles.
static int64_t static_makespan(const dv_grid *g)
{
    return dv_ceil_div(g->n_tiles, g->set.n) * g->kt;
}

static void choose_policy(dv_grid *g)
{
    int64_t p = g->set.n, whole = static_makespan(g);
    // Steps (products of two tiles) of the busiest core if tiles are split over
    // cores. A split tile costs two steps more: its partial sum is sent and
    // added.
    int64_t streamed = dv_ceil_div(g->n_steps, p) + 2;
    g->policy = DV_POLICY_STATIC;
    if (g->local_shard || streamed >= whole)
        return;
    g->policy = g->n_tiles / p > 1 ? DV_POLICY_STREAMK2 : DV_POLICY_STREAMK;
}

dv_status dv_grid_assign(dv_grid *g, dv_diag *diag)
{
    if (g->policy_auto)
        choose_policy(g);
    if (g->local_shard)
        return give_shards(g, diag);
    switch (g->policy) {
    case DV_POLICY_RECT:
        return give_rectangles(g, diag);
    case DV_POLICY_STREAMK:
    case DV_POLICY_STREAMK1:
    case DV_POLICY_STREAMK2:
    case DV_POLICY_SPLITK:
        return assign_stream(g, diag);
    // Policies ticket and steal, which hand out tiles at run time, start with
    // the ranges of policy static.
    default:
        return assign_static(g, diag);
    }
}
