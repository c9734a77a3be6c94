// Tiles and arguments of every core, as tables that divvy lint reads.
#include "emit/emit.h"
#include "base/json.h"
#include <inttypes.h>
#include <stdio.h>

int dv_emit_args(const dv_group_grid *g, const dv_tile_range *r,
                 const char **names, int64_t *values)
{
    static const char *const all[] = {"start_id", "count", "Mt", "Kt",
                                      "Nt",       "Sm",    "Sn", "Gy",
                                      "Gx",       "sy",    "sx"};
    int64_t v[] = {r->first, g->local_shard ? g->sm * g->sn : r->n,
                   g->mt,    g->kt,
                   g->nt,    g->sm,
                   g->sn,    g->gy,
                   g->gx,    r->sy,
                   r->sx};
    int n = g->local_shard ? 11 : 5;
    for (int i = 0; i < n; i++) {
        names[i] = all[i];
        values[i] = v[i];
    }
    return n;
}

static void pair(dv_json *j, const char *key, int64_t a, int64_t b)
{
    int64_t v[] = {a, b};
    dv_json_ints(j, key, v, 2);
}

static void core_json(dv_json *j, const dv_group_grid *g,
                      const dv_tile_range *r)
{
    const char *names[DV_GRID_MAX_ARGS];
    int64_t values[DV_GRID_MAX_ARGS];
    int n = dv_emit_args(g, r, names, values);
    dv_json_open_flat(j, NULL, '{');
    pair(j, "core_xy", r->x, r->y);
    dv_json_ints(j, "args", values, n);
    if (g->local_shard) {
        dv_json_int(j, "sy", r->sy);
        dv_json_int(j, "sx", r->sx);
    } else {
        int64_t v[] = {r->first, r->n, 0, g->kt};
        dv_json_open_flat(j, "segments", '[');
        dv_json_ints(j, NULL, v, 4);
        dv_json_close(j);
    }
    dv_json_close(j);
}

static void group_json(emitter *e, const dv_group_grid *g)
{
    dv_json j = {.out = &e->out};
    const dv_target *t = &e->plan->target;
    const char *names[DV_GRID_MAX_ARGS];
    int64_t values[DV_GRID_MAX_ARGS];
    const dv_tile_range none = {0};
    int n = dv_emit_args(g, &none, names, values);
    dv_json_open(&j, NULL, '{');
    dv_json_string(&j, "tensor", e->p->tensors[g->tensor].name);
    dv_json_string(&j, "partition_mode",
                   g->local_shard ? "local_shard" : "global");
    dv_json_string(&j, "order", g->order);
    pair(&j, "core_grid", t->core_grid.cols ? t->core_grid.cols : t->cores,
         t->core_grid.cols ? t->core_grid.rows : 1);
    dv_json_int(&j, "batch", g->batch);
    pair(&j, "grid_tiles", g->mt, g->nt);
    dv_json_int(&j, "Kt", g->kt);
    dv_json_int(&j, "tiles", g->batch * g->mt * g->nt);
    pair(&j, "tile_shape", t->tile_rows, t->tile_cols);
    if (g->local_shard) {
        pair(&j, "shard_grid", g->gy, g->gx);
        pair(&j, "local_shape_tiles", g->sm, g->sn);
    }
    dv_json_int(&j, "num_cores", g->n_ranges);
    dv_json_open_flat(&j, "runtime_args", '[');
    for (int i = 0; i < n; i++)
        dv_json_string(&j, NULL, names[i]);
    dv_json_close(&j);
    dv_json_open(&j, "rows", '[');
    for (int32_t i = 0; i < g->n_ranges; i++)
        core_json(&j, g, &g->ranges[i]);
    dv_json_close(&j);
    dv_json_close(&j);
}

static dv_status no_grid(emitter *e)
{
    return dv_fail(e->diag, DV_E_USAGE, DV_NOWHERE,
                   "%s computes on no tiles: the plan has no grid",
                   e->plan->target.name);
}

dv_status dv_emit_json(emitter *e)
{
    char name[64];
    if (!e->plan->n_grids)
        return no_grid(e);
    for (int32_t i = 0; i < e->plan->n_grids; i++) {
        group_json(e, &e->plan->grids[i]);
        snprintf(name, sizeof name, "group_%d.json",
                 (int)e->plan->grids[i].group);
        DV_TRY(dv_emit_file(e, name));
    }
    return DV_OK;
}

dv_status dv_emit_csv(emitter *e)
{
    char file[64];
    if (!e->plan->n_grids)
        return no_grid(e);
    for (int32_t i = 0; i < e->plan->n_grids; i++) {
        const dv_group_grid *g = &e->plan->grids[i];
        const char *names[DV_GRID_MAX_ARGS];
        int64_t values[DV_GRID_MAX_ARGS];
        for (int32_t r = -1; r < g->n_ranges; r++) {
            const dv_tile_range none = {0};
            const dv_tile_range *at = r < 0 ? &none : &g->ranges[r];
            int n = dv_emit_args(g, at, names, values);
            if (r < 0)
                dv_put(&e->out, "core_x,core_y");
            else
                dv_put(&e->out, "%" PRId64 ",%" PRId64, at->x, at->y);
            for (int k = 0; k < n; k++)
                if (r < 0)
                    dv_put(&e->out, ",%s", names[k]);
                else
                    dv_put(&e->out, ",%" PRId64, values[k]);
            dv_put(&e->out, "\n");
        }
        snprintf(file, sizeof file, "group_%d.csv", (int)g->group);
        DV_TRY(dv_emit_file(e, file));
    }
    return DV_OK;
}
