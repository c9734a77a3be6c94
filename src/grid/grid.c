// Creates a grid, an assignment of tiles to cores: checks the problem and the
// machine, chooses the order of tiles and the policy, assigns tiles to cores
// and checks the machine's limits.
#include "base/math.h"
#include "base/options.h"
#include "base/plural.h"
#include "grid/grid.h"
#include "target/target.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SIDE = 1 << 30, MAX_CORES = 1 << 20 };

static const char *const policies[] = {
#define POLICY(NAME, word) #word,
    DV_POLICIES(POLICY)
#undef POLICY
};

const char *dv_policy_name(dv_policy p)
{
    return policies[p];
}

#define FAIL(status, ...) return dv_fail(diag, status, DV_NOWHERE, __VA_ARGS__)

static dv_status read_shape(dv_grid *g, const dv_grid_task *t, dv_diag *diag)
{
    if (t->n_dims < 0 || (t->n_dims > 0 && !t->shape))
        FAIL(DV_E_USAGE, "the result has %d dim%s and no shape", t->n_dims,
             DV_PLURAL(t->n_dims, "", "s"));
    for (int d = 0; d < t->n_dims; d++)
        if (t->shape[d] < 0)
            FAIL(DV_E_SHAPE, "dim %d of the result has %" PRId64 " element%s",
                 d, t->shape[d], DV_PLURAL(t->shape[d], "", "s"));
    g->rows = t->n_dims > 1 ? t->shape[t->n_dims - 2] : 1;
    g->cols = t->n_dims > 0 ? t->shape[t->n_dims - 1] : 1;
    g->batch = 1;
    for (int d = 0; d < t->n_dims - 2; d++)
        if (!dv_mul_i64(&g->batch, g->batch, t->shape[d]))
            FAIL(DV_E_OVERFLOW, "the batch dims multiply to more than 64 bits");
    g->depth = t->depth;
    if (t->depth < 0)
        FAIL(DV_E_SHAPE, "a depth of %" PRId64, t->depth);
    return DV_OK;
}

static dv_status count_tiles(dv_grid *g, dv_diag *diag)
{
    g->mt = dv_ceil_div(g->rows, g->tile_rows);
    g->nt = dv_ceil_div(g->cols, g->tile_cols);
    g->kt = g->depth ? dv_ceil_div(g->depth, g->tile_cols) : 1;
    if (g->mt > MAX_SIDE || g->nt > MAX_SIDE || g->kt > MAX_SIDE)
        FAIL(DV_E_LIMIT,
             "%" PRId64 "x%" PRId64 " tiles, %" PRId64
             " deep: a side has at most %d",
             g->mt, g->nt, g->kt, (int)MAX_SIDE);
    int64_t bytes;
    if (!dv_mul_i64(&g->n_tiles, g->mt * g->nt, g->batch) ||
        !dv_mul_i64(&g->n_steps, g->n_tiles, g->kt) ||
        !dv_mul_i64(&bytes, g->tile_rows * g->tile_cols, 4 * g->elem_bytes) ||
        !dv_mul_i64(&bytes, bytes, g->n_steps))
        FAIL(DV_E_OVERFLOW,
             "%" PRId64 " %s of %" PRId64 "x%" PRId64 " tiles, %" PRId64
             " deep, are too many to count",
             g->batch, DV_PLURAL(g->batch, "batch", "batches"), g->mt, g->nt,
             g->kt);
    return DV_OK;
}

static dv_status read_problem(dv_grid *g, const dv_grid_task *t, dv_diag *diag)
{
    DV_TRY(read_shape(g, t, diag));
    g->tile_rows = t->tile_rows;
    g->tile_cols = t->tile_cols;
    if (!g->tile_rows && !g->tile_cols) {
        int own = t->target && t->target->tile_rows;
        g->tile_rows = own ? t->target->tile_rows : 32;
        g->tile_cols = own ? t->target->tile_cols : 32;
    }
    if (g->tile_rows < 1 || g->tile_cols < 1 || g->tile_rows > 1 << 16 ||
        g->tile_cols > 1 << 16)
        FAIL(DV_E_SHAPE, "a tile of %" PRId64 "x%" PRId64 " elements",
             g->tile_rows, g->tile_cols);
    g->elem_bytes = t->elem_bytes ? t->elem_bytes : 2;
    if (g->elem_bytes < 1 || g->elem_bytes > 16)
        FAIL(DV_E_DTYPE, "elements of %" PRId64 " bytes", g->elem_bytes);
    return count_tiles(g, diag);
}

static dv_status mark(dv_grid *g, const dv_grid_rect *r, size_t n,
                      uint8_t value, dv_diag *diag)
{
    dv_core_set *s = &g->set;
    for (size_t i = 0; i < n; i++) {
        if (r[i].x0 > r[i].x1 || r[i].y0 > r[i].y1)
            FAIL(DV_E_SHAPE,
                 "cores %d,%d to %d,%d: the second corner comes before the "
                 "first",
                 r[i].x0, r[i].y0, r[i].x1, r[i].y1);
        if (r[i].x0 < 0 || r[i].y0 < 0 || r[i].x1 >= s->cols ||
            r[i].y1 >= s->rows)
            FAIL(DV_E_CAPACITY,
                 "cores %d,%d to %d,%d are not on the grid of %dx%d cores",
                 r[i].x0, r[i].y0, r[i].x1, r[i].y1, s->cols, s->rows);
        for (int32_t y = r[i].y0; y <= r[i].y1; y++)
            memset(&s->allowed[(int64_t)y * s->cols + r[i].x0], value,
                   (size_t)(r[i].x1 - r[i].x0 + 1));
    }
    return DV_OK;
}

// Sets the number of columns and rows of cores to use: those that the caller
// requests, or those of the target's whole grid.
static dv_status grid_size(dv_grid *g, const dv_grid_task *t, dv_diag *diag)
{
    int64_t cols = t->core_cols, rows = t->core_rows;
    if (t->target) {
        dv_core_grid have = dv_target_grid(t->target);
        if (!cols && !rows) {
            cols = have.cols;
            rows = have.rows;
        }
        if (cols > have.cols || rows > have.rows)
            FAIL(DV_E_CAPACITY,
                 "%" PRId64 "x%" PRId64 " cores: %s has %" PRId64 "x%" PRId64,
                 cols, rows, t->target->name, have.cols, have.rows);
    }
    if (cols < 1 || rows < 1 || cols > MAX_CORES || rows > MAX_CORES ||
        cols * rows > MAX_CORES)
        FAIL(DV_E_USAGE, "a grid of %" PRId64 "x%" PRId64 " cores", cols, rows);
    g->set.cols = (int32_t)cols;
    g->set.rows = (int32_t)rows;
    return DV_OK;
}

// Marks the target's holes (missing cores) as not allowed. Holes outside the
// used part of the grid are ignored.
static void mark_target(dv_core_set *s, const dv_target *t)
{
    for (int32_t i = 0; i < t->holes.n; i++) {
        const dv_grid_rect *h = &t->holes.at[i];
        for (int32_t y = h->y0; y <= h->y1 && y < s->rows; y++)
            for (int32_t x = h->x0; x <= h->x1 && x < s->cols; x++)
                s->allowed[(int64_t)y * s->cols + x] = 0;
    }
}

static dv_status read_machine(dv_grid *g, const dv_grid_task *t, dv_diag *diag)
{
    DV_TRY(grid_size(g, t, diag));
    size_t n = (size_t)g->set.cols * (size_t)g->set.rows;
    g->set.allowed = DV_NEW(&g->arena, uint8_t, n);
    if (!g->set.allowed)
        return dv_nomem(diag);
    if (!t->n_allowed)
        memset(g->set.allowed, 1, n);
    DV_TRY(mark(g, t->allowed, t->n_allowed, 1, diag));
    DV_TRY(mark(g, t->holes, t->n_holes, 0, diag));
    if (t->target)
        mark_target(&g->set, t->target);
    for (size_t i = 0; i < n; i++)
        g->set.n += g->set.allowed[i];
    if (!g->set.n)
        FAIL(DV_E_CAPACITY, "none of the %zu core%s is allowed", n,
             DV_PLURAL(n, "", "s"));
    if (t->target) {
        g->memory_bytes = dv_target_usable_bytes(t->target);
        g->banks = t->target->memory_banks;
        g->max_args = t->target->args_per_core;
        g->max_cbs = t->target->buffers_per_core;
        memcpy(g->target, t->target->name, sizeof g->target);
    }
    g->by_row = t->split == DV_CORES_BY_ROW;
    return DV_OK;
}

static dv_status read_shards(dv_grid *g, const dv_grid_task *t, dv_diag *diag)
{
    for (size_t i = 0; i < t->n_shards; i++) {
        const dv_shard_spec *s = &t->shards[i], *a = &t->shards[0];
        const char *name = s->tensor ? s->tensor : "a tensor";
        for (int d = 0; d < 2; d++)
            if (s->grid[d] < 1 || s->tiles[d] < 1 || s->grid[d] > MAX_CORES ||
                s->tiles[d] > MAX_SIDE)
                FAIL(DV_E_SHAPE,
                     "%s has %" PRId64 "x%" PRId64 " shards of %" PRId64
                     "x%" PRId64 " tiles",
                     name, s->grid[0], s->grid[1], s->tiles[0], s->tiles[1]);
        if (memcmp(s->grid, a->grid, sizeof s->grid) ||
            memcmp(s->tiles, a->tiles, sizeof s->tiles))
            FAIL(DV_E_SHAPE,
                 "%s has %" PRId64 "x%" PRId64 " shards of %" PRId64 "x%" PRId64
                 " tiles, %s has %" PRId64 "x%" PRId64 " of %" PRId64
                 "x%" PRId64,
                 name, s->grid[0], s->grid[1], s->tiles[0], s->tiles[1],
                 a->tensor ? a->tensor : "the first", a->grid[0], a->grid[1],
                 a->tiles[0], a->tiles[1]);
    }
    if (!t->n_shards)
        return DV_OK;
    g->local_shard = 1;
    g->gy = t->shards->grid[0], g->gx = t->shards->grid[1];
    g->sm = t->shards->tiles[0], g->sn = t->shards->tiles[1];
    // The shards (equal rectangles of tiles, one per core) must cover the
    // result exactly. Leading dims are collapsed into rows, as in TT-Metalium,
    // Tenstorrent's programming model.
    if (g->gy * g->sm != g->mt * g->batch || g->gx * g->sn != g->nt)
        FAIL(DV_E_SHAPE,
             "%" PRId64 "x%" PRId64 " shards of %" PRId64 "x%" PRId64
             " tiles are %" PRId64 "x%" PRId64 " tiles, the result has %" PRId64
             "x%" PRId64,
             g->gy, g->gx, g->sm, g->sn, g->gy * g->sm, g->gx * g->sn,
             g->mt * g->batch, g->nt);
    if (g->gx > g->set.cols || g->gy > g->set.rows)
        FAIL(DV_E_CAPACITY,
             "shards on %" PRId64 "x%" PRId64 " cores (columns x rows), the "
             "grid has %dx%d",
             g->gx, g->gy, g->set.cols, g->set.rows);
    return DV_OK;
}

static dv_status read_order(dv_grid *g, const char *word, dv_diag *diag)
{
    dv_order *o = &g->order;
    o->mt = dv_max_i64(g->mt, 1);
    o->nt = dv_max_i64(g->nt, 1);
    o->sm = g->sm;
    o->sn = g->sn;
    g->order_auto = word && !strcmp(word, "auto");
    if (!word || g->order_auto)
        return DV_OK;
    if (dv_order_is_list(word)) {
        o->kind = DV_ORDER_LIST;
        DV_TRY(
            dv_order_list_find(&o->list, word, o->mt, o->nt, &g->arena, diag));
        if (!o->list)
            FAIL(DV_E_USAGE,
                 "the order has no list of %" PRId64 "x%" PRId64 " tiles",
                 g->mt, g->nt);
        return DV_OK;
    }
    if (!dv_order_parse(o, word) || o->kind == DV_ORDER_LIST)
        FAIL(DV_E_USAGE,
             "there is no order '%s'; there are row_major, column_major, "
             "snake, grouped(G), block_linear(K), swizzle(S), morton, hilbert, "
             "zigzag, match_shard, list(RxC: tiles) and auto",
             word);
    if (o->kind == DV_ORDER_MATCH_SHARD && (!g->local_shard || g->batch != 1))
        FAIL(DV_E_USAGE, "match_shard is an order of shards of one matrix");
    return DV_OK;
}

// Returns whether the name of a policy (a rule by which tiles go to cores) may
// be followed by a number, as in splitk(4).
static int is_numbered(int policy)
{
    return policy == DV_POLICY_SPLITK || policy == DV_POLICY_TICKET ||
           policy == DV_POLICY_STEAL;
}

int dv_policy_parse(dv_policy *out, int64_t *split, const char *word)
{
    if (!strcmp(word, "dynamic"))
        word = "steal";
    size_t n = strcspn(word, "(");
    int k = 0;
    while (k < DV_N_POLICIES &&
           (strlen(policies[k]) != n || strncmp(policies[k], word, n)))
        k++;
    if (k == DV_N_POLICIES ||
        (word[n] ? !is_numbered(k) : k == DV_POLICY_SPLITK))
        return 0;
    *out = (dv_policy)k;
    *split = 1;
    if (!word[n])
        return 1;
    size_t digits = strspn(word + n + 1, "0123456789");
    *split = digits <= 9 ? strtoll(word + n + 1, NULL, 10) : 0;
    return digits && *split > 0 && !strcmp(word + n + 1 + digits, ")");
}

dv_status dv_policy_unknown(const char *word, dv_loc at, dv_diag *diag)
{
    size_t n = strcspn(word, "(");
    for (int k = 0; word[n] && k < DV_N_POLICIES; k++)
        if (is_numbered(k) && strlen(policies[k]) == n &&
            !strncmp(policies[k], word, n))
            return dv_fail(diag, DV_E_USAGE, at,
                           "policy '%s': N of %s(N) is a whole number, 1 or "
                           "more and below 10^9",
                           word, policies[k]);
    return dv_fail(diag, DV_E_USAGE, at,
                   "there is no policy '%s'; there are static, rect, streamk, "
                   "streamk1, streamk2, splitk(N), ticket, ticket(N), steal, "
                   "steal(N), dynamic and auto",
                   word);
}

static dv_status read_policy(dv_grid *g, const char *word, dv_diag *diag)
{
    g->policy_auto = word && !strcmp(word, "auto");
    g->split = 1;
    if (!word || g->policy_auto)
        return DV_OK;
    if (!dv_policy_parse(&g->policy, &g->split, word))
        return dv_policy_unknown(word, DV_NOWHERE, diag);
    if (g->local_shard && g->policy != DV_POLICY_STATIC)
        FAIL(DV_E_USAGE,
             "shards are where they are: they take the policy static, not %s",
             policies[g->policy]);
    if (g->policy == DV_POLICY_SPLITK && g->split > g->kt)
        FAIL(DV_E_SHAPE, "%" PRId64 " part%s of a depth of %" PRId64 " tile%s",
             g->split, DV_PLURAL(g->split, "", "s"), g->kt,
             DV_PLURAL(g->kt, "", "s"));
    return DV_OK;
}

// Creates the grid (assignment of tiles to cores) of device number `at` of
// several. The device computes a part of the tile rows, tile columns and depth
// of the result.
static dv_status make_part(dv_grid *g, const dv_grid_task *t, int32_t at,
                           dv_diag *diag)
{
    int64_t n_l = g->devices[2], n_j = g->devices[1];
    int64_t which[3] = {at / (n_j * n_l), at / n_l % n_j, at % n_l};
    int64_t whole[3] = {g->mt, g->nt, g->kt};
    int64_t tile[3] = {g->tile_rows, g->tile_cols, g->tile_cols};
    int64_t extent[3] = {g->rows, g->cols, g->depth}, size[3];
    int64_t *box = &g->part_begin[6 * at];
    for (int d = 0; d < 3; d++) {
        box[2 * d] = dv_part_begin(whole[d], g->devices[d], which[d]);
        box[2 * d + 1] = dv_part_begin(whole[d], g->devices[d], which[d] + 1);
        size[d] = dv_min_i64(box[2 * d + 1] * tile[d], extent[d]) -
                  box[2 * d] * tile[d];
    }
    int64_t shape[3] = {g->batch, size[0], size[1]};
    dv_grid_task part = *t;
    part.shape = shape;
    part.n_dims = 3;
    part.depth = g->depth ? size[2] : 0;
    memset(part.devices, 0, sizeof part.devices);
    return dv_grid_create(&g->parts[at], &part, diag);
}

static dv_status make_parts(dv_grid *g, const dv_grid_task *t, dv_diag *diag)
{
    int64_t n = 1, side[3] = {g->mt, g->nt, g->kt};
    for (int d = 0; d < 3; d++) {
        g->devices[d] = t->devices[d] ? t->devices[d] : 1;
        if (g->devices[d] < 1 || g->devices[d] > 1024)
            FAIL(DV_E_USAGE, "%" PRId64 " device%s", g->devices[d],
                 DV_PLURAL(g->devices[d], "", "s"));
        if (g->devices[d] > 1 && g->devices[d] > side[d])
            FAIL(DV_E_SHAPE, "%" PRId64 " tile%s on %" PRId64 " device%s",
                 side[d], DV_PLURAL(side[d], "", "s"), g->devices[d],
                 DV_PLURAL(g->devices[d], "", "s"));
        n *= g->devices[d];
    }
    if (n == 1)
        return DV_OK;
    if (g->local_shard)
        FAIL(DV_E_USAGE, "shards are of one device, %" PRId64 " were asked for",
             n);
    g->parts = DV_NEW(&g->arena, dv_grid *, n);
    g->part_begin = DV_NEW(&g->arena, int64_t, 6 * n);
    if (!g->parts || !g->part_begin)
        return dv_nomem(diag);
    for (int32_t i = 0; i < n; i++) {
        g->n_parts = i + 1;
        DV_TRY(make_part(g, t, i, diag));
    }
    return DV_OK;
}

static dv_status check_limits(const dv_grid *g, dv_diag *diag)
{
    if (g->max_args && g->n_args > g->max_args)
        FAIL(DV_E_CAPACITY, "%d argument%s a core, %s takes %" PRId64,
             g->n_args, DV_PLURAL(g->n_args, "", "s"), g->target, g->max_args);
    if (g->max_cbs && g->n_cbs > g->max_cbs)
        FAIL(DV_E_CAPACITY, "%d buffer%s a core, %s has %" PRId64, g->n_cbs,
             DV_PLURAL(g->n_cbs, "", "s"), g->target, g->max_cbs);
    if (g->memory_bytes && g->core_bytes > g->memory_bytes)
        FAIL(DV_E_CAPACITY,
             "the buffers of a core have %" PRId64 " bytes, its memory has "
             "%" PRId64,
             g->core_bytes, g->memory_bytes);
    return DV_OK;
}

static dv_status make(dv_grid *g, const dv_grid_task *t, dv_diag *diag)
{
    DV_TRY(read_problem(g, t, diag));
    DV_TRY(read_machine(g, t, diag));
    DV_TRY(read_shards(g, t, diag));
    DV_TRY(read_order(g, t->order, diag));
    DV_TRY(read_policy(g, t->policy, diag));
    DV_TRY(make_parts(g, t, diag));
    if (g->order_auto)
        dv_grid_best_order(g);
    DV_TRY(dv_grid_assign(g, diag));
    dv_grid_buffers(g);
    dv_grid_arguments(g);
    return check_limits(g, diag);
}

dv_status dv_grid_create(dv_grid **out, const dv_grid_task *task, dv_diag *diag)
{
    dv_grid_task t = DV_GRID_TASK_INIT;
    DV_TRY(dv_options_read(&t, sizeof t, task, "dv_grid_task", diag));
    DV_TRY(dv_options_enum((int)t.split, DV_CORES_BY_ROW + 1, "split", diag));
    if (t.n_dims < 0 || t.n_dims > DV_MAX_DIMS || (t.n_dims && !t.shape))
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "a result of %d dim%s%s: there may be %d", t.n_dims,
                       DV_PLURAL(t.n_dims, "", "s"),
                       t.shape ? "" : " without a shape", (int)DV_MAX_DIMS);
    DV_TRY(dv_options_list(t.allowed, t.n_allowed, "allowed", diag));
    DV_TRY(dv_options_list(t.holes, t.n_holes, "holes", diag));
    DV_TRY(dv_options_list(t.shards, t.n_shards, "shards", diag));
    dv_arena arena = {0};
    dv_grid *g = DV_NEW(&arena, dv_grid, 1);
    if (!g)
        return dv_nomem(diag);
    g->arena = arena;
    dv_status st = make(g, &t, diag);
    if (st == DV_OK)
        *out = g;
    else
        dv_grid_destroy(g);
    return st;
}

void dv_grid_destroy(dv_grid *g)
{
    if (!g)
        return;
    for (int32_t i = 0; i < g->n_parts; i++)
        // If the grid is for several devices, parts[i] is the grid of one
        // device, which has no parts itself, so the recursion is one level
        // deep.
        dv_grid_destroy(g->parts[i]);
    dv_arena arena = g->arena;
    dv_arena_free(&arena);
}
