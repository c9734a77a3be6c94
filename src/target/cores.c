// Maps core numbers to positions on the core grid, and restricts targets
// (descriptions of machines) to some of their cores.
#include "base/math.h"
#include "base/plural.h"
#include "target/target.h"
#include <inttypes.h>
#include <string.h>

dv_core_grid dv_target_grid(const dv_target *t)
{
    return t->core_grid.cols ? t->core_grid : (dv_core_grid){t->cores, 1};
}

// Counts the holes (missing or unused cores of the grid) that precede position
// x,y in row-major order. Holes are disjoint rectangles, so their counts add
// up.
static int64_t holes_before(const dv_target *t, int64_t x, int64_t y)
{
    int64_t n = 0;
    for (int32_t i = 0; i < t->holes.n; i++) {
        const dv_core_rect *h = &t->holes.at[i];
        int64_t wide = h->x1 - h->x0 + 1, tall = h->y1 - h->y0 + 1;
        n += dv_min_i64(dv_max_i64(y - h->y0, 0), tall) * wide;
        if (y >= h->y0 && y <= h->y1)
            n += dv_min_i64(dv_max_i64(x - h->x0, 0), wide);
    }
    return n;
}

int64_t dv_target_core(const dv_target *t, int64_t x, int64_t y)
{
    dv_core_grid g = dv_target_grid(t);
    if (x < 0 || y < 0 || x >= g.cols || y >= g.rows)
        return -1;
    for (int32_t i = 0; i < t->holes.n; i++) {
        const dv_core_rect *h = &t->holes.at[i];
        if (x >= h->x0 && x <= h->x1 && y >= h->y0 && y <= h->y1)
            return -1;
    }
    return y * g.cols + x - holes_before(t, x, y);
}

// Finds the grid position of a core by binary search: it is the last position
// that has at most `core` usable cores before it.
void dv_target_core_position(const dv_target *t, int64_t core, int64_t *x,
                             int64_t *y)
{
    dv_core_grid g = dv_target_grid(t);
    int64_t lo = core, hi = core + g.cols * g.rows - t->cores;
    while (lo < hi) {
        int64_t mid = lo + (hi - lo + 1) / 2;
        int64_t before = mid - holes_before(t, mid % g.cols, mid / g.cols);
        if (before <= core)
            lo = mid;
        else
            hi = mid - 1;
    }
    *x = lo % g.cols;
    *y = lo / g.cols;
}

dv_status dv_target_on_grid(const dv_target *t, const dv_core_rect *r,
                            dv_loc at, dv_diag *diag)
{
    dv_core_grid g = dv_target_grid(t);
    if (r->x0 > r->x1 || r->y0 > r->y1)
        return dv_fail(diag, DV_E_TARGET, at,
                       "cores %d,%d to %d,%d: the second corner comes before "
                       "the first",
                       r->x0, r->y0, r->x1, r->y1);
    if (r->x0 < 0 || r->y0 < 0 || r->x1 >= g.cols || r->y1 >= g.rows)
        return dv_fail(diag, DV_E_TARGET, at,
                       "cores %d,%d to %d,%d are not on the grid of %" PRId64
                       "x%" PRId64 " cores",
                       r->x0, r->y0, r->x1, r->y1, g.cols, g.rows);
    return DV_OK;
}

static void mark(uint8_t *cores, int64_t cols, const dv_core_rect *r, int value)
{
    for (int64_t y = r->y0; y <= r->y1; y++)
        memset(&cores[y * cols + r->x0], value, (size_t)(r->x1 - r->x0 + 1));
}

// Adds a run of holes (unused cores) x0..x1 in row y of the grid: extends a
// rectangle of the same columns that ends in the row above, or starts a new
// one. Returns 0 if there are too many rectangles.
static int add_run(dv_core_rects *to, int32_t x0, int32_t x1, int32_t y)
{
    for (int32_t i = 0; i < to->n; i++) {
        dv_core_rect *r = &to->at[i];
        if (r->x0 == x0 && r->x1 == x1 && r->y1 == y - 1) {
            r->y1 = y;
            return 1;
        }
    }
    if (to->n == DV_TARGET_MAX_RECTS)
        return 0;
    to->at[to->n++] = (dv_core_rect){x0, y, x1, y};
    return 1;
}

// Makes the marked cores of the grid holes (unused): sets t->holes to
// rectangles of them, and t->cores to the number of unmarked cores.
static dv_status close_marked(dv_target *t, const uint8_t *gone, dv_loc at,
                              dv_diag *diag)
{
    dv_core_grid g = t->core_grid;
    dv_core_rects holes = {0};
    int64_t left = g.cols * g.rows;
    int few = 1;
    for (int32_t y = 0; y < g.rows; y++)
        for (int32_t x = 0; x < g.cols && few; x++) {
            int32_t from = x;
            while (x < g.cols && gone[y * g.cols + x])
                x++;
            left -= x - from;
            few = x == from || add_run(&holes, from, x - 1, y);
        }
    if (!few)
        return dv_fail(diag, DV_E_TARGET, at,
                       "the cores that are not used make more than %d "
                       "rectangles",
                       (int)DV_TARGET_MAX_RECTS);
    if (!left)
        return dv_fail(diag, DV_E_TARGET, at,
                       "none of the %" PRId64 " core%s of the grid is left",
                       g.cols * g.rows, DV_PLURAL(g.cols * g.rows, "", "s"));
    t->holes = holes;
    t->cores = left;
    return DV_OK;
}

dv_status dv_target_restrict(dv_target *t, const dv_core_rect *allowed,
                             size_t n_allowed, const dv_core_rect *holes,
                             size_t n_holes, dv_loc at, dv_diag *diag)
{
    dv_core_grid g = t->core_grid;
    if (!n_allowed && !n_holes)
        return DV_OK;
    if (!g.cols)
        return dv_fail(diag, DV_E_USAGE, at,
                       "rectangles of cores are for machines with a grid of "
                       "cores; %s has none",
                       t->name);
    for (size_t i = 0; i < n_allowed; i++)
        DV_TRY(dv_target_on_grid(t, &allowed[i], at, diag));
    for (size_t i = 0; i < n_holes; i++)
        DV_TRY(dv_target_on_grid(t, &holes[i], at, diag));
    uint8_t *gone = dv_alloc((size_t)(g.cols * g.rows));
    if (!gone)
        return dv_nomem(diag);
    memset(gone, n_allowed > 0, (size_t)(g.cols * g.rows));
    for (size_t i = 0; i < n_allowed; i++)
        mark(gone, g.cols, &allowed[i], 0);
    for (size_t i = 0; i < n_holes; i++)
        mark(gone, g.cols, &holes[i], 1);
    for (int32_t i = 0; i < t->holes.n; i++)
        mark(gone, g.cols, &t->holes.at[i], 1);
    dv_status st = close_marked(t, gone, at, diag);
    dv_release(gone);
    return st;
}

dv_status dv_target_restrict_first(dv_target *t, int64_t n, dv_diag *diag)
{
    int64_t x, y, last = t->core_grid.cols - 1;
    if (n == t->cores)
        return DV_OK;
    if (!t->core_grid.cols) {
        t->cores = n;
        return DV_OK;
    }
    // To use only the first n cores, remove the cores after core n - 1 in its
    // row, and all rows below it.
    dv_target_core_position(t, n - 1, &x, &y);
    dv_core_rect rest[2];
    size_t n_rest = 0;
    if (x < last)
        rest[n_rest++] = (dv_core_rect){(int32_t)x + 1, (int32_t)y,
                                        (int32_t)last, (int32_t)y};
    if (y + 1 < t->core_grid.rows)
        rest[n_rest++] = (dv_core_rect){0, (int32_t)y + 1, (int32_t)last,
                                        (int32_t)t->core_grid.rows - 1};
    return dv_target_restrict(t, NULL, 0, rest, n_rest, DV_NOWHERE, diag);
}
