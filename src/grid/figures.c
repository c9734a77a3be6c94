// Computes the costs of a grid (an assignment of the tiles of a matrix product
// to cores): steps, panels, bytes and banks, also for the alternatives that
// were not chosen.
//
// A panel is a row of tiles of A or a column of tiles of B. A core that keeps
// panels reads each panel once for all its tiles; a core that does not reads
// two tiles per step. The number of panels depends only on the order of tiles,
// because the machine has no cache.
#include "base/math.h"
#include "grid/grid.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    // To count the panels (rows of tiles of A, columns of tiles of B) that
    // cores read in one order of tiles, at most this many tiles are visited.
    MAX_WALK = 1 << 16,
    // Panels (rows of tiles of A, columns of tiles of B) are not counted if
    // there are more rows or columns of tiles than this.
    MAX_PANEL_SIDE = 1 << 22,
};

void dv_grid_tile(const dv_grid *g, int64_t id, int64_t bmn[3])
{
    int64_t plane = g->mt * g->nt;
    bmn[0] = id / plane;
    dv_order_tile(&g->order, id % plane, &bmn[1], &bmn[2]);
}

void dv_grid_edge(const dv_grid *g, int64_t m, int64_t n, int64_t *rows,
                  int64_t *cols)
{
    *rows = dv_min_i64(g->rows - m * g->tile_rows, g->tile_rows);
    *cols = dv_min_i64(g->cols - n * g->tile_cols, g->tile_cols);
}

int dv_grid_ends(const dv_grid *g, const dv_grid_core *c, int64_t first[3],
                 int64_t last[3])
{
    if (!c->steps)
        return 0;
    if (g->local_shard) {
        int64_t m = c->sy * g->sm, end = m + g->sm - 1, n = c->sx * g->sn;
        int64_t f[3] = {m / g->mt, m % g->mt, n};
        int64_t l[3] = {end / g->mt, end % g->mt, n + g->sn - 1};
        memcpy(first, f, sizeof f);
        memcpy(last, l, sizeof l);
    } else if (g->policy == DV_POLICY_RECT) {
        int64_t f[3] = {0, c->m0, c->n0};
        int64_t l[3] = {g->batch - 1, c->m1 - 1, c->n1 - 1};
        memcpy(first, f, sizeof f);
        memcpy(last, l, sizeof l);
    } else {
        const dv_segment *end = &c->segments[c->n_segments - 1];
        dv_grid_tile(g, c->segments[0].first, first);
        dv_grid_tile(g, end->first + end->count - 1, last);
    }
    return 1;
}

// Which rows and columns of tiles the current core has used: those whose entry
// in `row` or `col` equals `stamp`, so that nothing need be cleared for the
// next core.
typedef struct seen {
    int32_t *row, *col, stamp;
} seen;

static int64_t count_run(const dv_grid *g, const dv_order *o, seen *s,
                         int64_t first, int64_t count)
{
    int64_t plane = g->mt * g->nt, panels = 0;
    for (int64_t id = first; id < first + count; id++) {
        int64_t m, n, local = id % plane;
        if (local == 0 || id == first)
            // A new stamp forgets the panels (rows of A, columns of B) seen so
            // far, because every batch has its own.
            s->stamp++;
        dv_order_tile(o, local, &m, &n);
        panels += (s->row[m] != s->stamp) + (s->col[n] != s->stamp);
        s->row[m] = s->col[n] = s->stamp;
    }
    return panels;
}

// Counts the panels (rows of A and columns of B) that cores read under policy
// static, which gives each core a contiguous range of tiles. With many tiles,
// counts on some evenly spaced cores and scales the count to all tiles.
static int64_t count_panels(const dv_grid *g, const dv_order *o, seen *s,
                            int *sampled)
{
    int64_t p = dv_min_i64(g->n_tiles, g->set.n);
    int64_t each = dv_ceil_div(g->n_tiles, p);
    int64_t look = dv_max_i64(dv_min_i64(p, MAX_WALK / each), 1);
    int64_t panels = 0, tiles = 0;
    *sampled = look < p || each > MAX_WALK;
    for (int64_t i = 0; i < look; i++) {
        int64_t core = *sampled ? (2 * i + 1) * p / (2 * look) : i;
        int64_t first = dv_part_begin(g->n_tiles, p, core);
        int64_t n = dv_part_begin(g->n_tiles, p, core + 1) - first;
        n = dv_min_i64(n, MAX_WALK);
        panels += count_run(g, o, s, first, n);
        tiles += n;
    }
    return *sampled
               ? (int64_t)((double)panels * (double)g->n_tiles / (double)tiles)
               : panels;
}

int64_t dv_grid_panels(const dv_grid *g, const dv_order *order, int *sampled)
{
    *sampled = 0;
    if (!g->n_tiles)
        return 0;
    if (g->mt > MAX_PANEL_SIDE || g->nt > MAX_PANEL_SIDE)
        return -1;
    size_t rows = (size_t)g->mt * sizeof(int32_t);
    size_t cols = (size_t)g->nt * sizeof(int32_t);
    seen s = {dv_alloc(rows), dv_alloc(cols), 0};
    int64_t panels = -1;
    if (s.row && s.col) {
        memset(s.row, 0, rows);
        memset(s.col, 0, cols);
        panels = count_panels(g, order, &s, sampled);
    }
    dv_release(s.row);
    dv_release(s.col);
    return panels;
}

// Sets *out to the i-th candidate among the orders of tiles that are compared;
// returns 0 after the last.
static int candidate(const dv_grid *g, int i, dv_order *out)
{
    static const dv_order_kind plain[] = {DV_ORDER_ROW_MAJOR,
                                          DV_ORDER_COLUMN_MAJOR, DV_ORDER_SNAKE,
                                          DV_ORDER_MORTON, DV_ORDER_HILBERT};
    enum { N_PLAIN = sizeof plain / sizeof *plain, N_SIZES = 5 };
    *out = g->order;
    if (i >= N_PLAIN + 2 * N_SIZES)
        return 0;
    if (i < N_PLAIN) {
        out->kind = plain[i];
        return 1;
    }
    i -= N_PLAIN;
    out->kind = i < N_SIZES ? DV_ORDER_GROUPED : DV_ORDER_BLOCK_LINEAR;
    out->size = (int64_t)2 << i % N_SIZES;
    // The last size that is tried is the side of a square that has as many
    // tiles as one core computes.
    if (i % N_SIZES == N_SIZES - 1) {
        int64_t each = dv_ceil_div(g->n_tiles, g->set.n);
        out->size = 1;
        while (out->size * out->size < each && out->size < 1 << 15)
            out->size++;
    }
    return 1;
}

void dv_grid_best_order(dv_grid *g)
{
    int64_t least = INT64_MAX;
    dv_order o, best = g->order;
    for (int i = 0; candidate(g, i, &o); i++) {
        int sampled;
        int64_t panels = dv_grid_panels(g, &o, &sampled);
        if (panels >= 0 && panels < least) {
            least = panels;
            best = o;
        }
    }
    g->order = best;
}

int64_t dv_banks_touched(int64_t banks, int64_t stride, int64_t n)
{
    int64_t a = banks, b = stride % banks;
    while (b) {
        int64_t t = a % b;
        a = b;
        b = t;
    }
    return dv_min_i64(banks / a, n);
}

int dv_page_of(dv_page *out, int n_dims, const int64_t *tensor,
               const int64_t *shard, int64_t banks, const int64_t *page)
{
    int64_t volume = 1, inner = 0;
    *out = (dv_page){0};
    if (n_dims < 1 || n_dims > DV_PAGE_DIMS || banks < 1)
        return 0;
    for (int d = 0; d < n_dims; d++) {
        if (shard[d] < 1 || page[d] < 0 || page[d] >= tensor[d])
            return 0;
        int64_t across = dv_ceil_div(tensor[d], shard[d]);
        if (!dv_mul_i64(&out->shard, out->shard, across) ||
            !dv_mul_i64(&volume, volume, shard[d]) ||
            !dv_mul_i64(&inner, inner, shard[d]))
            return 0;
        out->shard += page[d] / shard[d];
        inner += page[d] % shard[d];
    }
    out->bank = out->shard % banks;
    return dv_mul_i64(&out->offset, out->shard / banks, volume) &&
           dv_add_i64(&out->offset, out->offset, inner);
}

static void add_alternative(dv_grid_figures *f, const char *name,
                            int64_t makespan, int64_t busy, int64_t panels)
{
    if (f->n_ways == DV_GRID_MAX_ALTERNATIVES)
        return;
    dv_grid_alternative *w = &f->ways[f->n_ways++];
    snprintf(w->name, sizeof w->name, "%s", name);
    w->makespan = makespan;
    w->busy = busy;
    w->panels = panels;
}

static void add_rect(const dv_grid *g, dv_grid_figures *f)
{
    dv_grid_rect r;
    if (!dv_cores_largest(&r, &g->set) || !g->n_tiles)
        return;
    int64_t cols = dv_min_i64(r.x1 - r.x0 + 1, g->nt);
    int64_t rows = dv_min_i64(r.y1 - r.y0 + 1, g->mt);
    int64_t tiles = dv_ceil_div(g->mt, rows) * dv_ceil_div(g->nt, cols);
    add_alternative(f, "rect", tiles * g->batch * g->kt, cols * rows,
                    g->batch * (g->mt * cols + g->nt * rows));
}

static void add_policies(const dv_grid *g, dv_grid_figures *f)
{
    int64_t p = g->set.n, t = g->n_tiles, kt = g->kt, waves = t / p;
    int64_t all = dv_min_i64(g->n_steps, p);
    add_alternative(f, "static", dv_ceil_div(t, p) * kt, dv_min_i64(t, p), -1);
    add_rect(g, f);
    if (kt == 1)
        return;
    add_alternative(f, "streamk", dv_ceil_div(g->n_steps, p), all, -1);
    add_alternative(f, "streamk1", waves * kt + dv_ceil_div(t % p * kt, p),
                    waves ? p : all, -1);
    int64_t whole = waves > 1 ? waves - 1 : 0;
    add_alternative(f, "streamk2",
                    whole * kt + dv_ceil_div((t - whole * p) * kt, p),
                    waves ? p : all, -1);
    for (int64_t s = 2; s <= kt && s <= 8; s *= 2) {
        char name[48];
        snprintf(name, sizeof name, "splitk(%" PRId64 ")", s);
        add_alternative(f, name, dv_ceil_div(t * s, p) * dv_ceil_div(kt, s),
                        dv_min_i64(t * s, p), -1);
    }
}

// Returns whether the report's list of alternatives already has policy static
// (a contiguous range of tiles for each core) with this order of tiles.
static int is_listed(const dv_grid_figures *f, const dv_order *o)
{
    dv_text name = {0};
    int found = 0;
    dv_put(&name, "static ");
    dv_order_print(&name, o);
    for (int32_t i = 0; i < f->n_ways && name.at; i++)
        found |= !strcmp(f->ways[i].name, name.at);
    dv_text_free(&name);
    return found;
}

static void add_orders(const dv_grid *g, dv_grid_figures *f)
{
    dv_order o;
    for (int i = 0; candidate(g, i, &o) && g->depth; i++) {
        dv_text name = {0};
        int sampled;
        if (o.kind == DV_ORDER_BLOCK_LINEAR)
            // The remaining candidates are not reported: block-linear orders
            // need about as many panels (rows of A and columns of B) as grouped
            // ones.
            break;
        if (is_listed(f, &o))
            continue;
        int64_t panels = dv_grid_panels(g, &o, &sampled);
        dv_put(&name, "static ");
        dv_order_print(&name, &o);
        if (name.at && panels >= 0)
            add_alternative(f, name.at,
                            dv_ceil_div(g->n_tiles, g->set.n) * g->kt,
                            dv_min_i64(g->n_tiles, g->set.n), panels);
        dv_text_free(&name);
    }
}

static void measure_load(const dv_grid *g, dv_grid_figures *f)
{
    f->min_steps = g->n_cores ? INT64_MAX : 0;
    for (int32_t i = 0; i < g->n_cores; i++) {
        int64_t s = g->cores[i].steps;
        f->busy += s > 0;
        f->max_steps = dv_max_i64(f->max_steps, s);
        f->min_steps = dv_min_i64(f->min_steps, s);
    }
    f->mean_steps = (double)g->n_steps / (double)g->set.n;
    f->efficiency = f->max_steps ? f->mean_steps / (double)f->max_steps : 1;
}

// Returns the number of panels (rows of tiles of A and columns of tiles of B)
// that each core reads, summed over the cores, under the policy by which tiles
// are assigned to cores.
static int64_t panels_of(const dv_grid *g, dv_grid_figures *f)
{
    int64_t sum = 0;
    if (!g->local_shard && g->policy != DV_POLICY_RECT)
        return dv_grid_panels(g, &g->order, &f->panels_sampled);
    for (int32_t i = 0; i < g->n_cores; i++) {
        const dv_grid_core *c = &g->cores[i];
        sum += g->local_shard ? g->sm + g->sn
                              : g->batch * (c->m1 - c->m0 + c->n1 - c->n0);
    }
    return sum;
}

static void measure_bytes(const dv_grid *g, dv_grid_figures *f)
{
    int64_t area = g->tile_rows * g->tile_cols, page = area * g->elem_bytes;
    int64_t written = g->local_shard ? 0 : g->n_tiles * page;
    f->streamed_bytes = (g->depth ? 2 * g->n_steps : g->n_tiles) * page;
    f->memory_bytes = f->streamed_bytes + written;
    f->panels = g->depth ? panels_of(g, f) : -1;
    f->reuse = 1;
    if (f->panels > 0) {
        f->reuse = 2.0 * (double)g->n_tiles / (double)f->panels;
        f->panel_bytes = f->panels * g->kt * page + written;
    }
    f->streamed_bytes += written;
    for (int32_t i = 0; i < g->n_cores; i++)
        f->onchip_bytes += g->cores[i].owner >= 0 ? 4 * area : 0;
    if (g->policy == DV_POLICY_RECT && g->n_cores && g->depth) {
        // The first core of each row of cores reads the rows of A once per pass
        // over its columns of C and multicasts them along the row. In the same
        // way, the first core of each column reads B.
        const dv_grid_core *c = &g->cores[0], *z = &g->cores[g->n_cores - 1];
        int64_t pass_m = dv_ceil_div(c->m1 - c->m0, g->block_m);
        int64_t pass_n = dv_ceil_div(c->n1 - c->n0, g->block_n);
        int64_t a = g->batch * g->mt * g->kt * page * pass_n;
        int64_t b = g->batch * g->nt * g->kt * page * pass_m;
        f->memory_bytes = a + b + written;
        f->onchip_bytes = a * (z->x - c->x) + b * (z->y - c->y);
    }
    if (g->banks && g->kt > 1 && g->n_tiles) {
        f->banks_row = dv_banks_touched(g->banks, 1, g->kt);
        f->banks_col = dv_banks_touched(g->banks, g->nt, g->kt);
    }
}

void dv_grid_measure(const dv_grid *g, dv_grid_figures *out)
{
    *out = (dv_grid_figures){0};
    measure_load(g, out);
    measure_bytes(g, out);
    if (g->local_shard)
        return;
    add_policies(g, out);
    add_orders(g, out);
}
