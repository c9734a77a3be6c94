// The cost of a tiling, and the search for the best one.
//
// Tiles are visited in a snake, along rows or along columns, so that two
// consecutive tiles share a row or a column of the grid, and slices:
//
//   0 > 1 > 2      All tiles have one of 2 x 2 sizes (the last row and column
//           v      are smaller), are reached by one of 3 moves (first, along,
//   5 < 4 < 3      to the next line), and have 3 kinds of steps (first, middle,
//   v              last). The cost is a sum over these at most 36 kinds, times
//   6 > 7 > 8      how often they occur.
//
// An external tensor with several demands of which none contains the other is
// the exception: the overlap of its slices depends on the position of the tile.
// Its tilings are walked step by step.
#include "fuse/fuse.h"
#include <stdlib.h>

enum {
    T = DV_FUSE_TILE,
    S = DV_FUSE_STEP,
    F = DV_FUSE_WHOLE,
    // Tilings with more tiles than this are not considered.
    MOST_TILES = 1 << 20,
    // If slices overlap and there are more steps than this, the search uses an
    // upper bound of the cost instead of walking through all steps.
    MOST_WALKED = 1 << 12,
};

// -- Tile sizes --------------------------------------------------------------

// Lists sizes of tiles for an extent, all but the last tile of equal size: the
// smallest sizes for given numbers of tiles, from the largest tile allowed down
// to a sixteenth of it, then powers of two.
static int32_t list_sizes(int64_t extent, int64_t most, int32_t *out)
{
    int32_t n = 0;
    for (int j = 16; j >= -20; j--) {
        int64_t size = j > 0 ? most * j / 16 : most / 16 >> -j;
        if (size < 1)
            continue;
        size = dv_ceil_div(extent, dv_ceil_div(extent, size));
        if (!n || out[n - 1] != size)
            out[n++] = (int32_t)size;
    }
    return n;
}

static int fewer_tiles(const void *x, const void *y)
{
    const struct dv_fuse_size *a = x, *b = y;
    if (a->tiles != b->tiles)
        return a->tiles < b->tiles ? -1 : 1;
    // Square tiles share the most data with their neighbours.
    int32_t da = abs(a->w - a->h), db = abs(b->w - b->h);
    if (da != db)
        return da < db ? -1 : 1;
    return a->w < b->w ? -1 : a->w > b->w;
}

int dv_fuse_sizes_init(dv_fuse_sizes *out, const dv_fuse_graph *g,
                       int64_t width, int64_t height, dv_arena *arena)
{
    int32_t w[40], h[40];
    int32_t nw = list_sizes(width, g->native_w, w);
    int32_t nh = list_sizes(height, g->native_h, h);
    *out = (dv_fuse_sizes){.width = width, .height = height};
    out->at = dv_arena_alloc(arena, (size_t)(nw * nh), sizeof *out->at);
    if (!out->at)
        return 0;
    for (int32_t i = 0; i < nw; i++)
        for (int32_t k = 0; k < nh; k++) {
            int64_t tiles =
                dv_ceil_div(width, w[i]) * dv_ceil_div(height, h[k]);
            if (tiles <= MOST_TILES)
                out->at[out->n++] = (struct dv_fuse_size){w[i], h[k], tiles};
        }
    qsort(out->at, (size_t)out->n, sizeof *out->at, fewer_tiles);
    return 1;
}

// -- Working set -------------------------------------------------------------

// A tiling that is tried: w x h is the size of a tile, k the terms of the sum
// per step; nx, ny and nk count tile columns, tile rows and steps.
typedef struct trial {
    const dv_fuse_graph *g;
    const dv_fuse_profile *p;
    const dv_fuse_loads *loads;
    int64_t w, h, k;
    int64_t nx, ny, nk;
    int64_t w_end, h_end, k_end; // sizes of the last column, row and step
} trial;

static int64_t rows_of(int d, int64_t h, int64_t k, int64_t height)
{
    int axis = d / DV_FUSE_AXES;
    return axis == T ? h : axis == S ? k : height;
}

static int64_t cols_of(int d, int64_t w, int64_t k, int64_t width)
{
    int axis = d % DV_FUSE_AXES;
    return axis == T ? w : axis == S ? k : width;
}

// Returns the area of the union of slices that all begin in row 0 and column 0.
static int64_t corner_union(const dv_fuse_overlap *o, int64_t w, int64_t h,
                            int64_t k)
{
    int64_t area = 0, below = 0;
    // Sweep from the lowest slice to the highest: add the strip between two
    // heights, as wide as the widest slice that reaches it.
    for (;;) {
        int64_t next = INT64_MAX, wide = 0;
        for (int d = 0; d < DV_FUSE_DEMANDS; d++) {
            int64_t rows = rows_of(d, h, k, o->height);
            if (!(o->demands >> d & 1) || rows <= below)
                continue;
            next = dv_min_i64(next, rows);
            wide = dv_max_i64(wide, cols_of(d, w, k, o->width));
        }
        if (!wide)
            return area;
        area += (next - below) * wide;
        below = next;
    }
}

static int64_t working_set(const trial *t)
{
    const dv_fuse_profile *p = t->p;
    int64_t w = t->w, h = t->h, k = t->k;
    int64_t n = p->whole_elems + w * h * p->n_written;
    if (t->nk > 1)
        n += w * h * p->n_accumulators;
    for (int d = 0; d < DV_FUSE_DEMANDS; d++)
        if (t->loads->coef[d])
            n += t->loads->coef[d] * rows_of(d, h, k, 1) * cols_of(d, w, k, 1);
    for (int32_t i = 0; i < t->loads->n_overlaps; i++)
        n += corner_union(&t->loads->overlaps[i], w, h, k);
    return n;
}

static void set_depth(trial *t, int64_t k)
{
    t->k = k;
    t->nk = t->p->sum ? dv_ceil_div(t->p->sum, k) : 1;
    t->k_end = t->p->sum ? t->p->sum - (t->nk - 1) * k : 0;
    t->loads = t->nk > 1 ? &t->p->many : &t->p->one;
}

// Sets the depth (terms of the sum per step) to the largest one with which a
// step's working set fits the scratchpad. Returns 0 if none does.
static int deepest(trial *t)
{
    int64_t most = dv_max_i64(t->p->sum, 1), least = 1;
    if (!t->g->full)
        most = dv_min_i64(most, t->g->native_w);
    set_depth(t, most);
    if (working_set(t) <= t->g->capacity)
        return 1;
    // With fewer terms than `most` per step there are several steps, and the
    // working set grows with the depth; linearly if no demands overlap.
    set_depth(t, 1);
    int64_t at_one = working_set(t);
    if (most == 1 || at_one > t->g->capacity)
        return 0;
    if (!t->loads->n_overlaps && most > 2) {
        set_depth(t, 2);
        int64_t more = working_set(t) - at_one;
        least = more > 0 ? 1 + (t->g->capacity - at_one) / more : most - 1;
        least = dv_min_i64(least, most - 1);
    }
    while (t->loads->n_overlaps && least + 1 < most) {
        int64_t middle = (least + most) / 2;
        set_depth(t, middle);
        *(working_set(t) <= t->g->capacity ? &least : &most) = middle;
    }
    set_depth(t, least);
    return 1;
}

// -- Cost in closed form -----------------------------------------------------

// What changes from one step to the next, as bits: the row or column of tiles,
// the step of the sum; COLD: it is the first step of all.
enum { NEW_ROW = 1, NEW_COL = 2, NEW_STEP = 4, COLD = 8 };

static double step_cost(const trial *t, int64_t he, int64_t we, int64_t ke,
                        int last, int change, int64_t load)
{
    const int64_t *c = t->loads->coef;
    const dv_fuse_profile *p = t->p;
    double compute = p->linear * (double)ke + p->fixed;
    if (p->by_height > 0)
        compute += p->by_height * (double)dv_ceil_div(ke, t->g->native_h);
    if (p->by_width > 0)
        compute += p->by_width * (double)dv_ceil_div(ke, t->g->native_w);
    if (change & (NEW_ROW | NEW_STEP))
        load += c[DV_FUSE_DEMAND(T, S)] * he * ke;
    if (change & (NEW_COL | NEW_STEP))
        load += c[DV_FUSE_DEMAND(S, T)] * ke * we;
    if (change & NEW_ROW)
        load += c[DV_FUSE_DEMAND(T, F)] * he;
    if (change & NEW_COL)
        load += c[DV_FUSE_DEMAND(F, T)] * we;
    if (change & NEW_STEP)
        load += (c[DV_FUSE_DEMAND(S, F)] + c[DV_FUSE_DEMAND(F, S)]) * ke;
    if (change & COLD)
        load += c[DV_FUSE_DEMAND(F, F)];
    if (last) {
        compute += p->last;
        load += (c[DV_FUSE_DEMAND(T, T)] + p->n_written) * he * we;
    }
    double transfer = (double)load / t->g->bandwidth;
    return compute > transfer ? compute : transfer;
}

static double tile_cost(const trial *t, int64_t he, int64_t we, int change)
{
    if (t->nk == 1)
        return step_cost(t, he, we, t->k_end, 1, change, 0);
    return step_cost(t, he, we, t->k, 0, change | NEW_STEP, 0) +
           (double)(t->nk - 2) * step_cost(t, he, we, t->k, 0, NEW_STEP, 0) +
           step_cost(t, he, we, t->k_end, 1, NEW_STEP, 0);
}

// A snake order of tiles, along rows or along columns: the tiles of a line
// follow each other "along" it, and lines follow each other "across".
typedef struct snake {
    const trial *t;
    int by_columns;
    int64_t n, n_lines;       // tiles of a line, lines
    int64_t size, size_end;   // extent of a tile and of the last one, along
    int64_t thick, thick_end; // the same across
} snake;

static snake snake_of(const trial *t, int by_columns)
{
    if (by_columns)
        return (snake){t, 1, t->ny, t->nx, t->h, t->h_end, t->w, t->w_end};
    return (snake){t, 0, t->nx, t->ny, t->w, t->w_end, t->h, t->h_end};
}

static double move_cost(const snake *s, int64_t along, int64_t across,
                        int change, int64_t times)
{
    int64_t he = s->by_columns ? along : across;
    int64_t we = s->by_columns ? across : along;
    return times ? (double)times * tile_cost(s->t, he, we, change) : 0;
}

static double snake_cost(const trial *t, int by_columns)
{
    snake s = snake_of(t, by_columns);
    int64_t n = s.n, lines = s.n_lines, even = lines / 2,
            odd = (lines - 1) / 2; // of the lines before the last one
    int along = by_columns ? NEW_ROW : NEW_COL;
    int across = by_columns ? NEW_COL : NEW_ROW;
    int last_is_odd = lines % 2 == 0;
    int64_t start = n > 1 ? s.size : s.size_end; // first tile of a line
    double sum = move_cost(&s, start, lines > 1 ? s.thick : s.thick_end,
                           NEW_ROW | NEW_COL | NEW_STEP | COLD, 1);
    if (n > 1) {
        // The last tile of a line may be smaller: even lines end with it, odd
        // lines begin with it.
        sum += move_cost(&s, s.size, s.thick, along,
                         even * (n - 2) + odd * (n - 1));
        sum += move_cost(&s, s.size_end, s.thick, along, even);
        sum += move_cost(&s, s.size, s.thick_end, along,
                         last_is_odd ? n - 1 : n - 2);
        sum += move_cost(&s, s.size_end, s.thick_end, along, !last_is_odd);
    }
    if (lines > 1) {
        sum += move_cost(&s, s.size_end, s.thick, across, odd);
        sum += move_cost(&s, start, s.thick, across, even - 1);
        sum += move_cost(&s, last_is_odd ? s.size_end : start, s.thick_end,
                         across, 1);
    }
    return sum;
}

// -- Cost with overlaps, step by step ----------------------------------------

typedef struct slice {
    int64_t r0, r1, c0, c1;
} slice;
enum { MOST_SLICES = 2 * DV_FUSE_DEMANDS };

// Returns the area of a union of slices: for each strip between consecutive row
// bounds, the height times the number of columns covered.
static int64_t union_area(const slice *s, int n)
{
    int64_t area = 0, row = INT64_MIN;
    for (;;) {
        int64_t next = INT64_MAX, from = INT64_MAX;
        for (int i = 0; i < n; i++)
            if (s[i].r1 > row)
                from = dv_min_i64(from, dv_max_i64(s[i].r0, row));
        if (from == INT64_MAX)
            return area;
        row = from;
        for (int i = 0; i < n; i++) {
            if (s[i].r0 > row)
                next = dv_min_i64(next, s[i].r0);
            if (s[i].r1 > row)
                next = dv_min_i64(next, s[i].r1);
        }
        for (int64_t col = INT64_MIN;;) {
            int64_t left = INT64_MAX, right = 0;
            for (int i = 0; i < n; i++) {
                if (s[i].r0 > row || s[i].r1 <= row || s[i].c1 <= col)
                    continue;
                int64_t c = dv_max_i64(s[i].c0, col);
                if (c < left) {
                    left = c;
                    right = s[i].c1;
                }
            }
            if (left == INT64_MAX)
                break;
            area += (right - left) * (next - row);
            col = right;
        }
        row = next;
    }
}

// The current position when walking through a tiling: tile row, tile column and
// step.
typedef struct position {
    int64_t y, x, s;
    int last;
} position;

// Lists the slices of an overlapping tensor that the step at a position needs.
// Returns their number.
static int list_slices(const trial *t, const dv_fuse_overlap *o, position at,
                       slice *out)
{
    int n = 0;
    int64_t from[2][DV_FUSE_AXES] = {{at.y * t->h, at.s * t->k, 0},
                                     {at.x * t->w, at.s * t->k, 0}};
    for (int d = 0; d < DV_FUSE_DEMANDS; d++) {
        if (!(o->demands >> d & 1) || (d == DV_FUSE_DEMAND(T, T) && !at.last))
            continue;
        int64_t r0 = from[0][d / DV_FUSE_AXES], c0 = from[1][d % DV_FUSE_AXES];
        out[n++] = (slice){
            r0, dv_min_i64(r0 + rows_of(d, t->h, t->k, o->height), o->height),
            c0, dv_min_i64(c0 + cols_of(d, t->w, t->k, o->width), o->width)};
    }
    return n;
}

// Returns the elements that the step `now` loads of tensors with overlapping
// slices; `before` is the step before it (NULL: there is none).
static int64_t overlap_load(const trial *t, const position *before,
                            position now)
{
    slice s[MOST_SLICES];
    int64_t load = 0;
    for (int32_t i = 0; i < t->loads->n_overlaps; i++) {
        const dv_fuse_overlap *o = &t->loads->overlaps[i];
        int old = before ? list_slices(t, o, *before, s) : 0;
        int all = old + list_slices(t, o, now, s + old);
        load += union_area(s, all) - union_area(s, old);
    }
    return load;
}

static double walk(const trial *t, int by_columns)
{
    snake s = snake_of(t, by_columns);
    position before = {0};
    double sum = 0;
    for (int64_t i = 0; i < s.n * s.n_lines; i++) {
        int64_t line = i / s.n, at = line % 2 ? s.n - 1 - i % s.n : i % s.n;
        position now = {line, at, 0, 0};
        if (by_columns)
            now = (position){at, line, 0, 0};
        int64_t he = now.y == t->ny - 1 ? t->h_end : t->h;
        int64_t we = now.x == t->nx - 1 ? t->w_end : t->w;
        for (now.s = 0; now.s < t->nk; now.s++) {
            now.last = now.s == t->nk - 1;
            int first = i + now.s == 0;
            int change = (now.y != before.y) * NEW_ROW |
                         (now.x != before.x) * NEW_COL |
                         (now.s != before.s) * NEW_STEP;
            if (first)
                change = NEW_ROW | NEW_COL | NEW_STEP | COLD;
            sum +=
                step_cost(t, he, we, now.last ? t->k_end : t->k, now.last,
                          change, overlap_load(t, first ? NULL : &before, now));
            before = now;
        }
    }
    return sum;
}

// -- Search ------------------------------------------------------------------

// Returns an upper bound of the cost if slices of a tensor overlap, as if each
// of them were loaded separately.
static double cost_apart(const trial *t, int by_columns)
{
    dv_fuse_loads apart = *t->loads;
    trial all = *t;
    for (int32_t i = 0; i < apart.n_overlaps; i++)
        for (int d = 0; d < DV_FUSE_DEMANDS; d++) {
            const dv_fuse_overlap *o = &apart.overlaps[i];
            if (o->demands >> d & 1)
                apart.coef[d] += (d / DV_FUSE_AXES == F ? o->height : 1) *
                                 (d % DV_FUSE_AXES == F ? o->width : 1);
        }
    all.loads = &apart;
    return snake_cost(&all, by_columns);
}

static void try_depth(trial *t, int64_t k, dv_fuse_tiling *best, int64_t *steps)
{
    set_depth(t, k);
    int64_t walked = t->nx * t->ny * t->nk;
    for (int by_columns = 0; by_columns < 2; by_columns++) {
        if (by_columns && (t->nx == 1 || t->ny == 1))
            break;
        // This cost ignores tensors with overlapping slices, so it is a lower
        // bound if there are any.
        double cost = snake_cost(t, by_columns);
        int is_bound = t->loads->n_overlaps && walked > MOST_WALKED;
        if (cost >= best->cost)
            continue;
        if (is_bound) {
            cost = cost_apart(t, by_columns);
        } else if (t->loads->n_overlaps) {
            cost = walk(t, by_columns);
            *steps += walked / 8;
        }
        if (cost < best->cost)
            *best =
                (dv_fuse_tiling){cost,          (int32_t)t->w, (int32_t)t->h,
                                 (int32_t)t->k, by_columns,    is_bound};
    }
}

static trial trial_of(const dv_fuse_graph *g, const dv_fuse_profile *p,
                      int64_t w, int64_t h)
{
    trial t = {.g = g, .p = p, .w = w, .h = h};
    t.nx = dv_ceil_div(p->width, w);
    t.ny = dv_ceil_div(p->height, h);
    t.w_end = p->width - (t.nx - 1) * w;
    t.h_end = p->height - (t.ny - 1) * h;
    return t;
}

double dv_fuse_exact_cost(const dv_fuse_graph *g, const dv_fuse_profile *p,
                          const dv_fuse_tiling *tiling)
{
    trial t = trial_of(g, p, tiling->w, tiling->h);
    set_depth(&t, tiling->k);
    return walk(&t, tiling->by_columns);
}

// A search for the best tiling of a group.
typedef struct hunt {
    const dv_fuse_graph *g;
    const dv_fuse_profile *p;
    dv_fuse_tiling best;
    double tile_work; // least computing time of a tile
    int64_t steps;
} hunt;

// Tries tiles of one size with the two depths (terms of the sum per step) worth
// trying: the largest one that fits, since a deeper step is never worse, and
// the one that cuts the sum evenly into the same number of steps.
static void try_size(hunt *s, int64_t w, int64_t h)
{
    const dv_fuse_profile *p = s->p;
    trial t = trial_of(s->g, p, w, h);
    s->steps++;
    if ((double)(t.nx * t.ny) * s->tile_work >= s->best.cost || !deepest(&t))
        return;
    int64_t k = t.k;
    try_depth(&t, k, &s->best, &s->steps);
    if (t.nk == 1)
        return;
    int64_t balanced = dv_ceil_div(p->sum, t.nk);
    if (balanced != k)
        try_depth(&t, balanced, &s->best, &s->steps);
}

// Hill climbing: tries up to two tiles more or fewer per row and per column,
// and repeats that while the cost falls.
static void refine(hunt *s)
{
    enum { AROUND = 2 };
    double before = DV_FUSE_NEVER;
    while (s->best.cost < before) {
        int64_t nx = dv_ceil_div(s->p->width, s->best.w);
        int64_t ny = dv_ceil_div(s->p->height, s->best.h);
        before = s->best.cost;
        for (int64_t y = ny - AROUND; y <= ny + AROUND; y++)
            for (int64_t x = nx - AROUND; x <= nx + AROUND; x++) {
                if (x < 1 || y < 1 || x * y > MOST_TILES)
                    continue;
                int64_t w = dv_ceil_div(s->p->width, x);
                int64_t h = dv_ceil_div(s->p->height, y);
                if (w <= s->g->native_w && h <= s->g->native_h)
                    try_size(s, w, h);
            }
    }
}

dv_fuse_tiling dv_fuse_search_tiling(const dv_fuse_graph *g,
                                     const dv_fuse_profile *p,
                                     const dv_fuse_sizes *sizes, int64_t *steps)
{
    hunt s = {.g = g, .p = p, .best = {.cost = DV_FUSE_NEVER}};
    s.tile_work = p->linear * (double)p->sum + p->fixed + p->by_height +
                  p->by_width + p->last;
    for (int32_t i = 0; i < sizes->n; i++) {
        const struct dv_fuse_size *size = &sizes->at[i];
        if ((double)size->tiles * s.tile_work >= s.best.cost)
            break;
        try_size(&s, size->w, size->h);
    }
    if (sizes->n && s.best.cost < DV_FUSE_NEVER &&
        s.best.cost > (double)sizes->at[0].tiles * s.tile_work)
        refine(&s);
    *steps += s.steps;
    return s.best;
}

// -- Lower bound -------------------------------------------------------------

// Lower bound of the cost of a tile of mean size, step by step, without slices
// that steps or tiles may share. Each term of a step costs at least max(work,
// moved). The last step adds what occurs once per tile; it is cheapest with as
// many terms as possible. A step's cost is convex in the tile's height and in
// its width, so that the mean size gives a bound for all tiles.
static double least_tile(const trial *t)
{
    const dv_fuse_profile *p = t->p;
    const int64_t *c = t->loads->coef;
    double w = (double)p->width / (double)t->nx;
    double h = (double)p->height / (double)t->ny;
    double deep = (double)dv_min_i64(t->k, p->sum), sum = (double)p->sum;
    double moved = 0;
    if (t->nk > 1)
        moved = (double)c[DV_FUSE_DEMAND(T, S)] * h +
                (double)c[DV_FUSE_DEMAND(S, T)] * w +
                (double)(c[DV_FUSE_DEMAND(S, F)] + c[DV_FUSE_DEMAND(F, S)]);
    moved /= t->g->bandwidth;
    double work_once = p->linear * deep + p->fixed + p->last;
    double moved_once =
        moved * deep + (double)(c[DV_FUSE_DEMAND(T, T)] + p->n_written) * w *
                           h / t->g->bandwidth;
    return (sum - deep) * (p->linear > moved ? p->linear : moved) +
           (work_once > moved_once ? work_once : moved_once);
}

// Lower bound of the costs of all tilings with the same number of tiles as `t`,
// which has the smallest tiles and the largest depth among them.
static double least_of(const trial *t)
{
    const dv_fuse_profile *p = t->p;
    const int64_t *c = t->loads->coef;
    double tiles = (double)(t->nx * t->ny), nk = (double)t->nk;
    double sum = (double)p->sum, area = (double)(p->width * p->height);
    double work = tiles * (p->linear * sum + p->last +
                           nk * (p->fixed + p->by_height + p->by_width));
    double load = area * (double)(c[DV_FUSE_DEMAND(T, T)] + p->n_written) +
                  (double)c[DV_FUSE_DEMAND(F, F)];
    if (t->nk > 1)
        load += sum * ((double)(c[DV_FUSE_DEMAND(T, S)] * t->nx * p->height) +
                       (double)(c[DV_FUSE_DEMAND(S, T)] * t->ny * p->width) +
                       tiles * (double)(c[DV_FUSE_DEMAND(S, F)] +
                                        c[DV_FUSE_DEMAND(F, S)]));
    // Every row and every column of tiles is loaded at least once.
    load += (double)(c[DV_FUSE_DEMAND(T, F)] * p->height +
                     c[DV_FUSE_DEMAND(F, T)] * p->width);
    for (int32_t i = 0; i < t->loads->n_overlaps; i++)
        load += (double)(t->loads->overlaps[i].width *
                         t->loads->overlaps[i].height);
    load /= t->g->bandwidth;
    double by_steps = tiles * least_tile(t);
    double most = work > load ? work : load;
    return most > by_steps ? most : by_steps;
}

// Returns the largest width of tiles of height h whose working set fits the
// scratchpad, or 0.
static int64_t widest(const dv_fuse_graph *g, const dv_fuse_profile *p,
                      int64_t h)
{
    int64_t fits = 0, most = dv_min_i64(p->width, g->native_w);
    trial t = trial_of(g, p, most, h);
    if (deepest(&t))
        return most;
    while (fits + 1 < most) {
        int64_t middle = (fits + most) / 2;
        t = trial_of(g, p, middle, h);
        *(deepest(&t) ? &fits : &most) = middle;
    }
    return fits;
}

double dv_fuse_least_cost(const dv_fuse_graph *g, const dv_fuse_profile *p,
                          int64_t *steps)
{
    double best = DV_FUSE_NEVER;
    double tile_work = p->linear * (double)p->sum + p->fixed + p->by_height +
                       p->by_width + p->last;
    int64_t tried = 0;
    int64_t least_nx = dv_ceil_div(p->width, g->native_w);
    for (int64_t h = dv_min_i64(p->height, g->native_h); h > 0; h--) {
        int64_t ny = dv_ceil_div(p->height, h);
        h = dv_ceil_div(p->height, ny);
        if ((double)(least_nx * ny) * tile_work >= best)
            break;
        tried++;
        for (int64_t w = widest(g, p, h); w > 0; w--) {
            int64_t nx = dv_ceil_div(p->width, w);
            w = dv_ceil_div(p->width, nx);
            if ((double)(nx * ny) * tile_work >= best)
                break;
            trial t = trial_of(g, p, w, h);
            double cost = deepest(&t) ? least_of(&t) : best;
            best = cost < best ? cost : best;
            tried++;
        }
    }
    // Count four of these tries as one search step, since they take as long.
    *steps += 1 + tried / 4;
    return best;
}
