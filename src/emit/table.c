// Writes the tiles and kernel arguments of every core as tables, in the format
// that divvy lint reads.
#include "emit/emit.h"
#include "grid/shards.h"
#include "base/json.h"
#include "base/math.h"
#include <inttypes.h>
#include <stdio.h>

// Returns whether tile range b continues where range a ends, without a gap in
// tiles or reduction steps.
static int goes_on(const dv_group_grid *g, const dv_tile_range *a,
                   const dv_tile_range *b)
{
    return a->first + a->n == b->first && a->k1 == g->kt && b->k0 == 0;
}

// Returns the index of the first range of a core's stream, which is its
// contiguous run of steps that may begin and end inside a tile: 1 if range 0
// consists of whole tiles that do not continue into range 1, otherwise 0.
static int32_t stream_of(const dv_group_grid *g, const emit_core *c)
{
    return c->n > 1 && !goes_on(g, &c->at[0], &c->at[1]);
}

dv_status dv_emit_streams(const emit_cores *all, const emitter *e,
                          const dv_group_grid *g)
{
    for (int32_t i = 0; all->streams && i < all->n; i++) {
        const emit_core *c = &all->at[i];
        int32_t from = stream_of(g, c);
        int ok = !from || !dv_range_is_partial(g, &c->at[0]);
        for (int32_t k = from; k + 1 < c->n; k++)
            ok = ok && goes_on(g, &c->at[k], &c->at[k + 1]);
        if (!ok)
            return dv_fail(e->diag, DV_E_USAGE, DV_NOWHERE,
                           "core %" PRId64 ",%" PRId64 ": its %d ranges of "
                           "tiles of %s are not whole tiles and then one run "
                           "of steps",
                           c->x, c->y, (int)c->n,
                           e->p->tensors[g->tensor].name);
    }
    return DV_OK;
}

// Gets the stream of a core, which is its contiguous run of steps: tiles start
// to start + count - 1, from step k[0] of the first tile to step k[1] of the
// last. Also gets the range of whole tiles before it.
static void stream_args(const dv_group_grid *g, const emit_core *c,
                        int64_t *whole, int64_t *start, int64_t *count,
                        int64_t *k)
{
    int32_t from = stream_of(g, c);
    const dv_tile_range *a = &c->at[from], *z = &c->at[c->n - 1];
    whole[0] = from ? c->at[0].first : 0;
    whole[1] = from ? c->at[0].n : 0;
    *start = a->first;
    *count = z->first + z->n - a->first;
    k[0] = a->k0;
    k[1] = z->k1;
}

int dv_emit_args(const dv_group_grid *g, const emit_cores *all,
                 const emit_core *c, const char **names, int64_t *values)
{
    const dv_tile_range *r = &c->at[0];
    int64_t start = r->first, count = r->n, whole[2] = {0, 0}, k[2] = {0, 0};
    dv_grid_args kind = g->local_shard ? DV_ARGS_SHARD
                        : g->rect      ? DV_ARGS_RECT
                        : all->streams ? DV_ARGS_STREAM
                                       : DV_ARGS_NONE;
    if (kind == DV_ARGS_SHARD) {
        count = g->sm * g->sn;
    } else if (kind == DV_ARGS_RECT) {
        start = r->m0 * g->nt + r->n0;
        count = g->batch * (r->m1 - r->m0) * (r->n1 - r->n0);
    } else if (kind == DV_ARGS_STREAM) {
        stream_args(g, c, whole, &start, &count, k);
    }
    int64_t first[DV_USUAL_ARGS] = {start, count, g->mt, g->kt, g->nt};
    const emit_core *owner = c->owner < 0 ? NULL : &all->at[c->owner];
    int64_t rest[][7] = {
        [DV_ARGS_SHARD] = {g->sm, g->sn, g->gy, g->gx, r->sy, r->sx},
        [DV_ARGS_RECT] = {r->m0, r->m1, r->n0, r->n1,
                          r->n0 == 0 && r->n1 < g->nt,
                          r->m0 == 0 && r->m1 < g->mt},
        [DV_ARGS_STREAM] = {k[0], k[1], whole[0], whole[1], c->contributors,
                            owner ? owner->x : -1, owner ? owner->y : -1}};
    int n = dv_grid_arg_names(names, kind);
    for (int i = 0; i < n; i++)
        values[i] =
            i < DV_USUAL_ARGS ? first[i] : rest[kind][i - DV_USUAL_ARGS];
    return n;
}

static void core_json(dv_json *j, const dv_group_grid *g, const emit_cores *all,
                      const emit_core *c)
{
    const char *names[DV_GRID_MAX_ARGS];
    int64_t values[DV_GRID_MAX_ARGS];
    int n = dv_emit_args(g, all, c, names, values);
    const dv_tile_range *r = &c->at[0];
    dv_json_open_flat(j, NULL, '{');
    DV_JSON_INTS(j, "core_xy", c->x, c->y);
    dv_json_ints(j, "args", values, n);
    if (g->local_shard) {
        dv_json_int(j, "sy", r->sy);
        dv_json_int(j, "sx", r->sx);
    } else if (g->rect) {
        DV_JSON_INTS(j, "rect", r->m0, r->m1, r->n0, r->n1);
    } else {
        dv_json_open_flat(j, "segments", '[');
        for (int32_t i = 0; i < c->n; i++)
            DV_JSON_INTS(j, NULL, c->at[i].first, c->at[i].n, c->at[i].k0,
                         c->at[i].k1);
        dv_json_close(j);
    }
    dv_json_close(j);
}

// Prints the cores that compute `units` tiles each, or all cores if units is
// -1, as rectangles of cores.
static void rects_json(dv_json *j, const char *key, const dv_core_set *set,
                       const emit_cores *all, int64_t units)
{
    dv_arena arena = {0};
    dv_grid_rects r = {0};
    dv_xy *xy = DV_NEW(&arena, dv_xy, (size_t)all->n + 1);
    int64_t n = 0;
    for (int32_t i = 0; xy && i < all->n; i++)
        if (units < 0 || all->at[i].at[0].n == units)
            xy[n++] = (dv_xy){(int32_t)all->at[i].x, (int32_t)all->at[i].y};
    j->out->failed |= !xy || !dv_rects_of(&r, set, xy, n, 0, &arena);
    dv_json_open_flat(j, key, '[');
    for (int32_t i = 0; i < r.n; i++)
        DV_JSON_INTS(j, NULL, r.at[i].x0, r.at[i].y0, r.at[i].x1, r.at[i].y1);
    dv_json_close(j);
    dv_arena_free(&arena);
}

// Prints the core rectangles of the kernel launch; if cores have whole tiles
// with at most two different counts, also the two sets of cores with the same
// count.
static void launch_json(dv_json *j, const dv_target *t, const dv_group_grid *g,
                        const emit_cores *all)
{
    dv_core_grid have = dv_target_grid(t);
    dv_core_set set = {.cols = (int32_t)have.cols, .rows = (int32_t)have.rows};
    rects_json(j, "core_ranges", &set, all, -1);
    if (g->local_shard || g->rect || all->streams || !all->n)
        return;
    int64_t most = 0, least = INT64_MAX;
    for (int32_t i = 0; i < all->n; i++) {
        most = dv_max_i64(most, all->at[i].at[0].n);
        least = dv_min_i64(least, all->at[i].at[0].n);
    }
    for (int32_t i = 0; i < all->n; i++)
        if (all->at[i].at[0].n != most && all->at[i].at[0].n != least)
            return;
    rects_json(j, "group_1", &set, all, most);
    rects_json(j, "group_2", &set, all, least < most ? least : INT64_MAX);
    dv_json_int(j, "units_group_1", most);
    dv_json_int(j, "units_group_2", least < most ? least : 0);
}

// Prints the tensor whose memory note (by the user) determined the shards, in
// the way in which TileLang records buffers.
static void noted_json(dv_json *j, const emitter *e, const dv_group_grid *g)
{
    dv_noted_shards s;
    char key[80];
    if (dv_grid_check_notes(e->plan, NULL) ||
        dv_grid_noted(&s, e->plan, g, NULL) || s.tensor < 0)
        return;
    const dv_target *t = &e->plan->target;
    snprintf(key, sizeof key, "buffer.%.64s", e->p->tensors[s.tensor].name);
    dv_json_open(j, key, '{');
    DV_JSON_FIELDS(j, DV_F("memory", "L1"), DV_F("layout", "sharded"));
    DV_JSON_OBJECT(j, "nd_shard", DV_F_INTS("projected_grid", s.n[0], s.n[1]),
                   DV_F_INTS("projected_shard_tiles",
                             s.note->rows / t->tile_rows,
                             s.note->cols / t->tile_cols),
                   DV_F("order", s.note->by_cols ? "col_major" : "row_major"));
    dv_json_close(j);
}

static void group_json(emitter *e, const dv_group_grid *g,
                       const emit_cores *all)
{
    dv_json j = {.out = &e->out};
    const dv_target *t = &e->plan->target;
    const char *names[DV_GRID_MAX_ARGS];
    int64_t values[DV_GRID_MAX_ARGS];
    int n = dv_emit_args(g, all, &all->at[0], names, values);
    dv_json_open(&j, NULL, '{');
    DV_JSON_FIELDS(
        &j, DV_F("tensor", e->p->tensors[g->tensor].name),
        DV_F("partition_mode", g->local_shard ? "local_shard" : "global"),
        DV_F("order", g->order), DV_F("policy", g->policy),
        DV_F_INTS("core_grid", dv_target_grid(t).cols, dv_target_grid(t).rows));
    if (t->holes.n)
        dv_target_rects_json(&j, "holes", &t->holes);
    DV_JSON_FIELDS(&j, DV_F("batch", g->batch),
                   DV_F_INTS("grid_tiles", g->mt, g->nt), DV_F("Kt", g->kt),
                   DV_F("tiles", g->batch * g->mt * g->nt),
                   DV_F_INTS("tile_shape", t->tile_rows, t->tile_cols));
    if (g->local_shard) {
        DV_JSON_INTS(&j, "shard_grid", g->gy, g->gx);
        DV_JSON_INTS(&j, "local_shape_tiles", g->sm, g->sn);
    }
    noted_json(&j, e, g);
    dv_json_int(&j, "num_cores", all->n);
    launch_json(&j, t, g, all);
    dv_json_open_flat(&j, "runtime_args", '[');
    for (int i = 0; i < n; i++)
        dv_json_string(&j, NULL, names[i]);
    dv_json_close(&j);
    dv_json_open(&j, "rows", '[');
    for (int32_t i = 0; i < all->n; i++)
        core_json(&j, g, all, &all->at[i]);
    dv_json_close(&j);
    dv_json_close(&j);
}

static dv_status no_grid(emitter *e)
{
    if (e->plan->target.tile_rows)
        return dv_fail(e->diag, DV_E_USAGE, DV_NOWHERE,
                       "no group of the plan has a grid: what stays on cores "
                       "is cut inside tiles; --scratch off keeps it in main "
                       "memory");
    return dv_fail(e->diag, DV_E_USAGE, DV_NOWHERE,
                   "%s computes on no tiles: the plan has no grid",
                   e->plan->target.name);
}

static void group_csv(emitter *e, const dv_group_grid *g, const emit_cores *all)
{
    const char *names[DV_GRID_MAX_ARGS];
    int64_t values[DV_GRID_MAX_ARGS];
    for (int32_t r = -1; r < all->n; r++) {
        const emit_core *c = &all->at[r < 0 ? 0 : r];
        int n = dv_emit_args(g, all, c, names, values);
        if (r < 0)
            dv_put(&e->out, "core_x,core_y");
        else
            dv_put(&e->out, "%" PRId64 ",%" PRId64, c->x, c->y);
        // In addition to the kernel arguments, the table has columns for the
        // position of the shard (the block of tiles that a core has) and for
        // the batch count, which divvy lint reads.
        if (g->local_shard && r < 0)
            dv_put(&e->out, ",shard_y,shard_x");
        else if (g->local_shard)
            dv_put(&e->out, ",%" PRId64 ",%" PRId64, c->at[0].sy, c->at[0].sx);
        if (g->batch > 1 && r < 0)
            dv_put(&e->out, ",batch");
        else if (g->batch > 1)
            dv_put(&e->out, ",%" PRId64, g->batch);
        for (int k = 0; k < n; k++)
            if (r < 0)
                dv_put(&e->out, ",%s", names[k]);
            else
                dv_put(&e->out, ",%" PRId64, values[k]);
        dv_put(&e->out, "\n");
    }
}

static dv_status emit_tables(emitter *e, const char *ending,
                             void (*put)(emitter *, const dv_group_grid *,
                                         const emit_cores *))
{
    char name[64];
    if (!e->plan->n_grids)
        return no_grid(e);
    for (int32_t i = 0; i < e->plan->n_grids; i++) {
        emit_cores all;
        DV_TRY(dv_emit_cores(&all, e, &e->plan->grids[i]));
        dv_status st = dv_emit_streams(&all, e, &e->plan->grids[i]);
        if (st == DV_OK)
            put(e, &e->plan->grids[i], &all);
        dv_release(all.at);
        DV_TRY(st);
        snprintf(name, sizeof name, "group_%d.%s", (int)e->plan->grids[i].group,
                 ending);
        DV_TRY(dv_emit_file(e, name));
    }
    return DV_OK;
}

dv_status dv_emit_json(emitter *e)
{
    return emit_tables(e, "json", group_json);
}

dv_status dv_emit_csv(emitter *e)
{
    return emit_tables(e, "csv", group_csv);
}
