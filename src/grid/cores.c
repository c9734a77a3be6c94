// Sets of cores of a machine's grid: lists the usable cores in order, and
// covers sets of cores with the rectangles that a kernel launch takes.
#include "grid/grid.h"
#include <string.h>

void dv_cores_list(dv_xy *out, const dv_core_set *set, int64_t n, int by_row)
{
    int32_t lines = by_row ? set->rows : set->cols;
    int32_t along = by_row ? set->cols : set->rows;
    int64_t at = 0;
    for (int32_t i = 0; i < lines; i++)
        for (int32_t j = 0; j < along && at < n; j++) {
            dv_xy c = by_row ? (dv_xy){j, i} : (dv_xy){i, j};
            if (set->allowed[(int64_t)c.y * set->cols + c.x])
                out[at++] = c;
        }
}

// Consecutive cores from..to of a set of cores, on one line (a row or column of
// the core grid).
typedef struct core_run {
    int32_t line, from, to;
} core_run;

static dv_grid_rect as_rect(const core_run *first, int32_t last_line,
                            int by_row)
{
    return by_row
               ? (dv_grid_rect){first->from, first->line, first->to, last_line}
               : (dv_grid_rect){first->line, first->from, last_line, first->to};
}

// Adds a run (consecutive cores on one line of the core grid) to a list of
// rectangles that cover a set of cores: extends a rectangle that ends on the
// previous line and has the same bounds, or starts a new one. Only rectangles
// live..n-1 can still be extended.
static void add_run(dv_grid_rect *rects, int32_t *n, int32_t live,
                    const core_run *r, int by_row)
{
    for (int32_t i = live; i < *n; i++) {
        dv_grid_rect want = as_rect(r, r->line - 1, by_row);
        dv_grid_rect *have = &rects[i];
        int32_t *end = by_row ? &have->y1 : &have->x1;
        int same = by_row ? have->x0 == want.x0 && have->x1 == want.x1
                          : have->y0 == want.y0 && have->y1 == want.y1;
        if (same && *end == r->line - 1) {
            *end = r->line;
            return;
        }
    }
    rects[(*n)++] = as_rect(r, r->line, by_row);
}

int dv_rects_of(dv_grid_rects *out, const dv_core_set *set, const dv_xy *cores,
                int64_t n, int by_row, dv_arena *arena)
{
    int32_t lines = by_row ? set->rows : set->cols;
    int32_t along = by_row ? set->cols : set->rows;
    size_t size = (size_t)set->cols * (size_t)set->rows;
    uint8_t *mark = dv_alloc(size ? size : 1);
    dv_grid_rect *rects = DV_NEW(arena, dv_grid_rect, n ? n : 1);
    *out = (dv_grid_rects){rects, 0};
    if (mark && rects) {
        memset(mark, 0, size);
        for (int64_t i = 0; i < n; i++)
            mark[(int64_t)cores[i].y * set->cols + cores[i].x] = 1;
        int32_t live = 0;
        for (int32_t i = 0; i < lines; i++) {
            for (int32_t j = 0; j < along; j++) {
                core_run r = {i, j, j};
                for (; j < along && mark[by_row ? (int64_t)i * set->cols + j
                                                : (int64_t)j * set->cols + i];
                     j++)
                    r.to = j;
                if (j > r.from)
                    add_run(rects, &out->n, live, &r, by_row);
            }
            // Rectangles of cores that ended before this line of the core grid
            // cannot be extended any more, so later searches skip them.
            while (live < out->n &&
                   (by_row ? rects[live].y1 : rects[live].x1) < i)
                live++;
        }
    }
    int ok = mark && rects;
    dv_release(mark);
    return ok;
}

// Finds the largest rectangle of allowed cores whose bottom is row y of the
// core grid. height[x] is the number of allowed cores above and at (x, y). This
// is the largest rectangle in a histogram, found with a stack of increasing
// heights.
static void widest(dv_grid_rect *best, int64_t *most, const int32_t *height,
                   int32_t *stack, int32_t cols, int32_t y)
{
    int32_t top = 0;
    for (int32_t x = 0; x <= cols; x++) {
        int32_t h = x < cols ? height[x] : 0;
        while (top > 0 && height[stack[top - 1]] >= h) {
            int32_t tall = height[stack[--top]];
            int32_t left = top > 0 ? stack[top - 1] + 1 : 0;
            int64_t area = (int64_t)tall * (x - left);
            if (area > *most) {
                *most = area;
                *best = (dv_grid_rect){left, y - tall + 1, x - 1, y};
            }
        }
        stack[top++] = x;
    }
}

int dv_cores_largest(dv_grid_rect *out, const dv_core_set *set)
{
    size_t n = (size_t)set->cols + 1;
    int32_t *height = dv_alloc(n * sizeof *height);
    int32_t *stack = dv_alloc(n * sizeof *stack);
    int64_t most = 0;
    int ok = height && stack;
    *out = (dv_grid_rect){0, 0, -1, -1};
    if (ok)
        memset(height, 0, n * sizeof *height);
    for (int32_t y = 0; ok && y < set->rows; y++) {
        for (int32_t x = 0; x < set->cols; x++)
            height[x] =
                set->allowed[(int64_t)y * set->cols + x] ? height[x] + 1 : 0;
        widest(out, &most, height, stack, set->cols, y);
    }
    dv_release(height);
    dv_release(stack);
    return ok;
}
