// Prints a grid (assignment of tiles to cores) as JSON, with the names of
// TT-Metalium, Tenstorrent's programming model, and as text with a map of the
// cores.
#include "base/math.h"
#include "base/plural.h"
#include "grid/grid.h"
#include <inttypes.h>

enum { MAX_SEQUENCE = 4096, MAX_LISTED = 64 };

static void put_policy(dv_text *out, const dv_grid *g)
{
    dv_put(out, "%s", dv_policy_name(g->policy));
    if (g->policy >= DV_POLICY_SPLITK)
        dv_put(out, "(%" PRId64 ")", g->split);
}

static void string_of(dv_json *j, const char *key, const dv_grid *g,
                      void (*put)(dv_text *, const dv_grid *))
{
    dv_text t = {0};
    put(&t, g);
    dv_json_text(j, key, &t);
}

static void put_order(dv_text *out, const dv_grid *g)
{
    dv_order_print(out, &g->order);
}

static void rects_json(dv_json *j, const char *key, const dv_grid_rects *r)
{
    dv_json_open_flat(j, key, '[');
    for (int32_t i = 0; i < r->n; i++) {
        const dv_grid_rect *c = &r->at[i];
        DV_JSON_INTS(j, NULL, c->x0, c->y0, c->x1, c->y1);
    }
    dv_json_close(j);
}

// Lists the cores of the grid that cannot be used, as runs within a row; omits
// the key if there are none.
static void holes_json(dv_json *j, const dv_core_set *s)
{
    if (s->n == (int64_t)s->cols * s->rows)
        return;
    dv_json_open_flat(j, "holes", '[');
    for (int32_t y = 0; y < s->rows; y++)
        for (int32_t x = 0; x < s->cols; x++) {
            const uint8_t *row = &s->allowed[(int64_t)y * s->cols];
            int32_t from = x;
            while (x < s->cols && !row[x])
                x++;
            if (x > from)
                DV_JSON_INTS(j, NULL, from, y, x - 1, y);
        }
    dv_json_close(j);
}

static void problem_json(dv_json *j, const dv_grid *g)
{
    dv_json_string(j, "partition_mode",
                   g->local_shard ? "local_shard" : "global");
    string_of(j, "policy", g, put_policy);
    string_of(j, "order", g, put_order);
    DV_JSON_FIELDS(j, DV_F("split", g->by_row ? "row" : "column"),
                   DV_F_WHEN(g->target[0], DV_F("target", g->target)),
                   DV_F_INTS("core_grid", g->set.cols, g->set.rows),
                   DV_F("cores_allowed", g->set.n));
    holes_json(j, &g->set);
    DV_JSON_FIELDS(j, DV_F("batch", g->batch),
                   DV_F_INTS("grid_tiles", g->mt, g->nt), DV_F("Kt", g->kt),
                   DV_F("tiles", g->n_tiles),
                   DV_F_BOOL("empty", g->n_tiles == 0),
                   DV_F_INTS("shape", g->rows, g->cols),
                   DV_F_INTS("tile_shape", g->tile_rows, g->tile_cols));
    int64_t rows = g->mt * g->tile_rows, cols = g->nt * g->tile_cols;
    dv_json_int(j, "elem_bytes", g->elem_bytes);
    dv_json_bool(j, "needs_padding", rows != g->rows || cols != g->cols);
    DV_JSON_INTS(j, "padded_shape", rows, cols);
    int64_t h = 0, w = 0;
    if (g->n_tiles)
        dv_grid_edge(g, g->mt - 1, g->nt - 1, &h, &w);
    DV_JSON_INTS(j, "edge_tile", h, w);
    if (g->local_shard) {
        DV_JSON_INTS(j, "shard_grid", g->gy, g->gx);
        DV_JSON_INTS(j, "local_shape_tiles", g->sm, g->sn);
    }
}

// Returns the fewest tiles that any core has under policy rect, which gives
// each core a rectangle of tiles; under other policies g->units_1, the work of
// a core of the first group.
static int64_t fewest(const dv_grid *g)
{
    int64_t n = g->units_1;
    for (int32_t i = 0; g->policy == DV_POLICY_RECT && i < g->n_cores; i++)
        n = dv_min_i64(n, g->cores[i].steps / g->kt);
    return n;
}

// Prints the number of cores, and the two groups of cores with equal work. The
// groups are omitted if cores compute rectangles of tiles (policy rect) that
// differ in size.
static void split_json(dv_json *j, const dv_grid *g)
{
    dv_json_int(j, "num_cores", g->n_cores);
    rects_json(j, "all_cores", &g->all);
    if (fewest(g) == g->units_1) {
        rects_json(j, "group_1", &g->group_1);
        rects_json(j, "group_2", &g->group_2);
        dv_json_int(j, "units_group_1", g->units_1);
        dv_json_int(j, "units_group_2", g->units_2);
    }
    rects_json(j, "core_ranges", &g->all);
}

static void stream_json(dv_json *j, const dv_grid *g)
{
    int64_t p = g->set.n, most = 0, least = INT64_MAX, extra = 0;
    for (int32_t i = 0; i < g->n_cores; i++) {
        most = dv_max_i64(most, g->cores[i].steps);
        least = dv_min_i64(least, g->cores[i].steps);
    }
    for (int32_t i = 0; i < g->n_cores; i++)
        extra += g->cores[i].steps > least;
    DV_JSON_FIELDS(
        j, DV_F("total_iters", g->n_steps),
        DV_F_INTS("iters_per_core", most, g->n_cores ? least : 0),
        DV_F("cores_with_extra", extra),
        DV_F("data_parallel_makespan", dv_ceil_div(g->n_tiles, p) * g->kt),
        DV_F("stream_k_makespan", most), DV_F("split_tiles", g->split_tiles),
        DV_F("max_peers", g->max_contributors));
    // In the report, a segment (a range of tiles of a core) that consists of
    // several whole tiles counts as that many segments.
    int64_t segments = 0;
    for (int32_t i = 0; i < g->n_cores; i++)
        for (int32_t s = 0; s < g->cores[i].n_segments; s++)
            segments += g->cores[i].segments[s].count;
    DV_JSON_FIELDS(
        j, DV_F("segments", segments), DV_F("dp_tiles", g->dp_tiles),
        DV_F("sk_tiles", g->sk_tiles),
        DV_F("fix_up",
             "the core with step 0 of a tile adds the parts of the cores "
             "after it, in rising order of steps"));
}

static void hybrid_json(dv_json *j, const dv_grid *g)
{
    int64_t p = g->set.n, waves = g->n_tiles / p;
    int64_t two = waves > 1 ? (waves - 1) * p : 0;
    dv_json_int(j, "waves_full", waves);
    dv_json_int(j, "tail", g->n_tiles % p);
    DV_JSON_OBJECT(j, "dp_plus_one_tile", DV_F("dp_tiles", waves * p),
                   DV_F("sk_tiles", g->n_tiles - waves * p));
    DV_JSON_OBJECT(j, "dp_plus_two_tile", DV_F("dp_tiles", two),
                   DV_F("sk_tiles", g->n_tiles - two));
}

static void rect_json(dv_json *j, const dv_grid *g)
{
    DV_JSON_INTS(j, "block_tiles", g->block_m, g->block_n);
    dv_json_int(j, "block_depth", g->block_k);
    DV_JSON_INTS(j, "sub_block", g->sub_h, g->sub_w);
}

static void work_json(dv_json *j, const dv_grid_core *c)
{
    int64_t n = 0;
    for (int32_t s = 0; s < c->n_segments; s++)
        n += c->segments[s].count;
    if (n > MAX_LISTED)
        return;
    dv_json_open_flat(j, "work_tile_k0_k1", '[');
    for (int32_t s = 0; s < c->n_segments; s++)
        for (int64_t i = 0; i < c->segments[s].count; i++) {
            const dv_segment *g = &c->segments[s];
            DV_JSON_INTS(j, NULL, g->first + i, g->k0, g->k1);
        }
    dv_json_close(j);
}

static void core_json(dv_json *j, const dv_grid *g, const dv_grid_core *c)
{
    int64_t first[3], last[3];
    dv_json_open_flat(j, NULL, '{');
    DV_JSON_INTS(j, "core_xy", c->x, c->y);
    dv_json_ints(j, "args", c->args, g->n_args);
    if (g->local_shard) {
        dv_json_int(j, "sy", c->sy);
        dv_json_int(j, "sx", c->sx);
    } else if (g->policy == DV_POLICY_RECT) {
        DV_JSON_INTS(j, "rect", c->m0, c->m1, c->n0, c->n1);
        dv_json_string(j, "role",
                       c->sends_a && c->sends_b ? "sends A and B"
                       : c->sends_a             ? "sends A"
                       : c->sends_b             ? "sends B"
                                                : "receives");
    } else {
        dv_json_open_flat(j, "segments", '[');
        for (int32_t s = 0; s < c->n_segments; s++) {
            const dv_segment *x = &c->segments[s];
            DV_JSON_INTS(j, NULL, x->first, x->count, x->k0, x->k1);
        }
        dv_json_close(j);
    }
    if (dv_policy_streams(g->policy)) {
        DV_JSON_INTS(j, "iter_range", c->iter0, c->iter1);
        work_json(j, c);
    }
    if (dv_grid_ends(g, c, first, last)) {
        int64_t plane = g->mt * g->nt;
        dv_json_ints(j, "first", g->batch > 1 ? first : first + 1,
                     g->batch > 1 ? 3 : 2);
        dv_json_ints(j, "last", g->batch > 1 ? last : last + 1,
                     g->batch > 1 ? 3 : 2);
        DV_JSON_INTS(j, "global_ids_first_last",
                     first[0] * plane + first[1] * g->nt + first[2],
                     last[0] * plane + last[1] * g->nt + last[2]);
    }
    if (!dv_policy_streams(g->policy))
        dv_json_int(j, "valid_tiles", c->steps / g->kt);
    dv_json_int(j, "steps", c->steps);
    dv_json_close(j);
}

static void cores_json(dv_json *j, const dv_grid *g)
{
    dv_json_open_flat(j, "runtime_args", '[');
    for (int32_t i = 0; i < g->n_args; i++)
        dv_json_string(j, NULL, g->arg_names[i]);
    dv_json_close(j);
    dv_json_open(j, "rows", '[');
    for (int32_t i = 0; i < g->n_cores; i++)
        core_json(j, g, &g->cores[i]);
    dv_json_close(j);
}

static void queue_json(dv_json *j, const dv_grid *g)
{
    if (g->policy != DV_POLICY_TICKET && g->policy != DV_POLICY_STEAL)
        return;
    DV_JSON_OBJECT(
        j, "queue",
        DV_F("kind", g->policy == DV_POLICY_TICKET ? "ticket" : "steal"),
        DV_F("chunk", g->split), DV_F("first", 0), DV_F("end", g->n_tiles),
        DV_F("from",
             g->policy == DV_POLICY_TICKET
                 ? "one counter"
                 : "own range from its begin, then half of what the next "
                   "core with work has left, from its end"));
}

static void buffers_json(dv_json *j, const dv_grid *g)
{
    dv_json_open(j, "buffers", '[');
    for (int32_t i = 0; i < g->n_cbs; i++) {
        const dv_grid_cb *b = &g->cbs[i];
        DV_JSON_OBJECT(j, NULL, DV_F("name", b->name), DV_F("index", b->index),
                       DV_F("tiles", b->tiles),
                       DV_F("page_bytes", b->page_bytes),
                       DV_F("bytes", b->tiles * b->page_bytes));
    }
    dv_json_close(j);
    dv_json_int(j, "core_bytes", g->core_bytes);
    if (g->memory_bytes)
        dv_json_int(j, "memory_limit", g->memory_bytes);
    if (g->max_args)
        dv_json_int(j, "args_limit", g->max_args);
}

static void figures_json(dv_json *j, const dv_grid *g)
{
    dv_grid_figures f;
    dv_grid_measure(g, &f);
    dv_json_open(j, "figures", '{');
    DV_JSON_FIELDS(
        j, DV_F("busy", f.busy), DV_F("max_steps", f.max_steps),
        DV_F("min_steps", f.min_steps), DV_F("mean_steps", f.mean_steps),
        DV_F("efficiency", f.efficiency), DV_F("memory_bytes", f.memory_bytes),
        DV_F("onchip_bytes", f.onchip_bytes));
    if (f.panels >= 0)
        DV_JSON_FIELDS(j, DV_F("panels", f.panels),
                       DV_F_BOOL("panels_sampled", f.panels_sampled),
                       DV_F("panel_bytes", f.panel_bytes),
                       DV_F("operand_reuse", f.reuse));
    if (f.banks_col) {
        dv_json_int(j, "banks_of_a_row", f.banks_row);
        dv_json_int(j, "banks_of_a_column", f.banks_col);
    }
    dv_json_close(j);
    dv_json_open(j, "alternatives", '[');
    for (int32_t i = 0; i < f.n_ways; i++)
        DV_JSON_OBJECT(
            j, NULL, DV_F("way", f.ways[i].name),
            DV_F("makespan", f.ways[i].makespan), DV_F("busy", f.ways[i].busy),
            DV_F_WHEN(f.ways[i].panels >= 0, DV_F("panels", f.ways[i].panels)));
    dv_json_close(j);
}

static void sequence_json(dv_json *j, const dv_grid *g)
{
    int64_t plane = g->mt * g->nt;
    if (plane > MAX_SEQUENCE || g->local_shard || g->policy == DV_POLICY_RECT)
        if (plane > MAX_SEQUENCE || g->order.kind != DV_ORDER_MATCH_SHARD)
            return;
    dv_json_open_flat(j, "sequence_mn", '[');
    for (int64_t id = 0; id < plane; id++) {
        int64_t mn[2];
        dv_order_tile(&g->order, id, &mn[0], &mn[1]);
        dv_json_ints(j, NULL, mn, 2);
    }
    dv_json_close(j);
}

// Prints all of a grid (assignment of tiles to cores) except its list of
// devices.
static void grid_json(dv_json *j, const dv_grid *g, int figures)
{
    problem_json(j, g);
    split_json(j, g);
    if (dv_policy_streams(g->policy))
        stream_json(j, g);
    hybrid_json(j, g);
    if (g->policy == DV_POLICY_RECT)
        rect_json(j, g);
    queue_json(j, g);
    cores_json(j, g);
    buffers_json(j, g);
    if (figures) {
        figures_json(j, g);
        sequence_json(j, g);
    }
}

void dv_grid_put_json(dv_text *out, const dv_grid *g, int figures)
{
    dv_json j = {.out = out};
    dv_json_open(&j, NULL, '{');
    if (!g->n_parts)
        grid_json(&j, g, figures);
    else {
        DV_JSON_FIELDS(
            &j, DV_F("batch", g->batch), DV_F_INTS("grid_tiles", g->mt, g->nt),
            DV_F("Kt", g->kt), dv_field_ints("device_grid", g->devices, 3),
            DV_F("device_reduce", g->devices[2] > 1
                                      ? "sums over the third are added in "
                                        "rising order of devices"
                                      : NULL));
        dv_json_open(&j, "devices", '[');
        for (int32_t i = 0; i < g->n_parts; i++) {
            dv_json_open(&j, NULL, '{');
            dv_json_int(&j, "device", i);
            dv_json_ints(&j, "box_mnk", &g->part_begin[6 * i], 6);
            grid_json(&j, g->parts[i], figures);
            dv_json_close(&j);
        }
        dv_json_close(&j);
    }
    dv_json_close(&j);
}

char *dv_grid_json(const dv_grid *g)
{
    dv_text out = {0};
    dv_grid_put_json(&out, g, 1);
    return dv_text_take(&out);
}

// Prints a map with one number per core: its tiles, or its steps (products of
// two tiles) if tiles are split over cores.
static void put_map(dv_text *out, const dv_grid *g)
{
    int64_t unit = dv_policy_streams(g->policy) ? 1 : g->kt, most = 1;
    int width = 3;
    for (int32_t i = 0; i < g->n_cores; i++)
        most = dv_max_i64(most, g->cores[i].steps / unit);
    for (int64_t v = 100; v <= most && v < INT64_MAX / 10; v *= 10)
        width++;
    if (g->set.cols > 40 || g->set.rows > 40) {
        dv_put(out, "(%dx%d cores are too many for a map)\n", g->set.cols,
               g->set.rows);
        return;
    }
    dv_put(out, "%s of each core (# may not be used, . idle)\n",
           dv_policy_streams(g->policy) ? "steps" : "tiles");
    for (int32_t y = 0; y < g->set.rows; y++) {
        for (int32_t x = 0; x < g->set.cols; x++) {
            const dv_grid_core *c = NULL;
            for (int32_t i = 0; i < g->n_cores && !c; i++)
                if (g->cores[i].x == x && g->cores[i].y == y)
                    c = &g->cores[i];
            if (c && c->steps)
                dv_put(out, "%*" PRId64, width, c->steps / unit);
            else
                dv_put(out, "%*s", width,
                       g->set.allowed[(int64_t)y * g->set.cols + x] ? "."
                                                                    : "#");
        }
        dv_put(out, "\n");
    }
}

static void put_rects(dv_text *out, const dv_grid_rects *r)
{
    for (int32_t i = 0; i < r->n; i++)
        dv_put(out, " (%d,%d)-(%d,%d)", r->at[i].x0, r->at[i].y0, r->at[i].x1,
               r->at[i].y1);
    dv_put(out, "\n");
}

static void put_figures(dv_text *out, const dv_grid *g)
{
    dv_grid_figures f;
    dv_grid_measure(g, &f);
    dv_put(out,
           "%" PRId64 " of %" PRId64 " cores busy, at most %" PRId64
           " steps on one, %.4g on average: %.1f%% efficient\n",
           f.busy, g->set.n, f.max_steps, f.mean_steps, 100 * f.efficiency);
    if (dv_grid_limited_by_holes(g))
        dv_put(out,
               "panels are shared within one rectangle without holes, which "
               "has %d of the cores\n",
               (int)g->n_cores);
    dv_put(out, "main memory ");
    dv_put_byte_size(out, f.memory_bytes);
    dv_put(out, ", between cores ");
    dv_put_byte_size(out, f.onchip_bytes);
    if (f.panels > 0)
        dv_put(out, "; %s%" PRId64 " panel%s, each used %.3g times on its core",
               f.panels_sampled ? "about " : "", f.panels,
               DV_PLURAL(f.panels, "", "s"), f.reuse);
    dv_put(out, "\n");
    if (f.banks_col)
        dv_put(out,
               "a column of B is in %" PRId64 " of %" PRId64 " banks, a row "
               "of A in %" PRId64 "\n",
               f.banks_col, g->banks, f.banks_row);
    for (int32_t i = 0; i < f.n_ways; i++) {
        dv_put(out, "  %-24s %8" PRId64 " steps, %5" PRId64 " busy",
               f.ways[i].name, f.ways[i].makespan, f.ways[i].busy);
        if (f.ways[i].panels >= 0)
            dv_put(out, ", %" PRId64 " panel%s", f.ways[i].panels,
                   DV_PLURAL(f.ways[i].panels, "", "s"));
        dv_put(out, "\n");
    }
}

static void put_grid(dv_text *out, const dv_grid *g)
{
    dv_put(out, "%s, ", g->local_shard ? "local_shard" : "global");
    put_policy(out, g);
    dv_put(out, ", ");
    put_order(out, g);
    dv_put(out, ": ");
    if (g->batch != 1)
        dv_put(out, "%" PRId64 " %s of ", g->batch,
               DV_PLURAL(g->batch, "batch", "batches"));
    dv_put(out, "%" PRId64 "x%" PRId64 " tiles, %" PRId64 " deep\n", g->mt,
           g->nt, g->kt);
    if (g->local_shard)
        dv_put(out,
               "%" PRId64 "x%" PRId64 " shards of %" PRId64 "x%" PRId64
               " tiles\n",
               g->gy, g->gx, g->sm, g->sn);
    if (fewest(g) < g->units_1)
        dv_put(out, "%" PRId64 " to %" PRId64 " each on", fewest(g),
               g->units_1);
    else
        dv_put(out, "group 1: %" PRId64 " each on", g->units_1);
    put_rects(out, &g->group_1);
    if (g->group_2.n) {
        dv_put(out, "group 2: %" PRId64 " each on", g->units_2);
        put_rects(out, &g->group_2);
    }
    put_map(out, g);
    put_figures(out, g);
}

char *dv_grid_text(const dv_grid *g)
{
    dv_text out = {0};
    for (int32_t i = 0; i < g->n_parts; i++) {
        const int64_t *b = &g->part_begin[6 * i];
        dv_put(&out,
               "device %d: rows %" PRId64 "..%" PRId64 ", columns %" PRId64
               "..%" PRId64 ", depth %" PRId64 "..%" PRId64 "\n",
               i, b[0], b[1], b[2], b[3], b[4], b[5]);
        put_grid(&out, g->parts[i]);
    }
    if (!g->n_parts)
        put_grid(&out, g);
    return dv_text_take(&out);
}
