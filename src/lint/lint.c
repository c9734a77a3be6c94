// Lint: finds what is wrong with an assignment of tiles of a matrix product to
// cores. (A k step is one product of tiles that is added to a tile of the
// result.) The kinds of defects are:
//
//   lost        tiles or k steps that no core computes
//   duplicate   tiles or k steps on two cores, or a core that has two rows
//   outside     tiles that the result does not have
//   off-grid    cores that the target does not have
//   ranges      rectangles of cores that overlap or contain the wrong cores
//   arguments   kernel arguments that contradict the listed work or the sizes
//   memory      buffers that are too small, too large for a core, or ambiguous
//   format      content that cannot be understood
#include "lint/lint.h"
#include "divvy/grid.h"
#include "base/math.h"
#include "base/plural.h"
#include "plan/plan.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void lint_report(lint *l, const char *kind, const char *fmt, ...)
{
    char text[300];
    va_list ap;
    if (l->n_defects++ >= LINT_MAX_LINES)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    dv_put(&l->report, "%s: %s\n", kind, text);
}

lint_core *lint_add_core(lint *l, int64_t x, int64_t y)
{
    lint_core *c = DV_PUSH(&l->arena, lint_core, l->cores, l->n, l->cap);
    l->failed |= !c;
    if (c)
        *c = (lint_core){.x = x, .y = y, .sy = -1, .sx = -1};
    return c;
}

void lint_add_span(lint *l, int64_t begin, int64_t end, int32_t core)
{
    if (begin == end)
        return;
    lint_span *s =
        DV_PUSH(&l->arena, lint_span, l->spans, l->n_spans, l->cap_spans);
    l->failed |= !s;
    if (s)
        *s = (lint_span){begin, end, core};
}

void lint_add_box(lint *l, int64_t m0, int64_t m1, int64_t n0, int64_t n1,
                  int32_t core)
{
    lint_box *b =
        DV_PUSH(&l->arena, lint_box, l->boxes, l->n_boxes, l->cap_boxes);
    l->failed |= !b;
    if (b)
        *b = (lint_box){m0, m1, n0, n1, core};
}

void lint_add_rect(lint *l, lint_rects *to, lint_rect r)
{
    lint_rect *at = DV_PUSH(&l->arena, lint_rect, to->at, to->n, to->cap);
    l->failed |= !at;
    if (at)
        *at = r;
}

const char *lint_core_name(const lint *l, int32_t i, char buf[48])
{
    if (l->cores[i].x < 0 && l->cores[i].y < 0)
        snprintf(buf, 48, "row %d", (int)i);
    else
        snprintf(buf, 48, "core %" PRId64 ",%" PRId64, l->cores[i].x,
                 l->cores[i].y);
    return buf;
}

static void say_steps(lint *l, const char *kind, int64_t begin, int64_t end,
                      const char *what)
{
    if (begin % l->kt == 0 && end % l->kt == 0)
        lint_report(l, kind, "tiles %" PRId64 "..%" PRId64 " %s", begin / l->kt,
                    end / l->kt, what);
    else
        lint_report(l, kind,
                    "steps %" PRId64 "..%" PRId64 " (tile %" PRId64
                    ", from step %" PRId64 ") %s",
                    begin, end, begin / l->kt, begin % l->kt, what);
}

int lint_by_begin(const void *a, const void *b)
{
    const lint_span *x = a, *y = b;
    return x->begin != y->begin ? (x->begin > y->begin) - (x->begin < y->begin)
                                : (x->end > y->end) - (x->end < y->end);
}

static void check_spans(lint *l)
{
    int64_t total = l->batch * l->mt * l->nt * l->kt, at = 0;
    int32_t who = -1;
    char text[160], a[48], b[48];
    if (l->n_spans)
        qsort(l->spans, (size_t)l->n_spans, sizeof *l->spans, lint_by_begin);
    for (int32_t i = 0; i < l->n_spans; i++) {
        const lint_span *s = &l->spans[i];
        if (s->begin < 0 || s->end > total || s->begin > s->end) {
            snprintf(text, sizeof text, "of %s are not among %" PRId64,
                     lint_core_name(l, s->core, a), total / l->kt);
            say_steps(l, "outside", s->begin, s->end, text);
        }
        if (s->begin > at && at < total)
            say_steps(l, "lost", at, dv_min_i64(s->begin, total),
                      "are on no core");
        if (s->begin < at && who >= 0) {
            snprintf(text, sizeof text, "are on %s and on %s",
                     lint_core_name(l, who, a), lint_core_name(l, s->core, b));
            say_steps(l, "duplicate", s->begin, dv_min_i64(at, s->end), text);
        }
        if (s->end > at) {
            at = s->end;
            who = s->core;
        }
    }
    if (at < total)
        say_steps(l, "lost", at, total, "are on no core");
}

// Checks, for a small grid of tiles, that every tile is in exactly one box
// (rectangle of tiles of a core): owner[t] is the number of the core that has
// tile t, plus one.
static void mark_boxes(lint *l, int64_t rows, int32_t *owner)
{
    char a[48], b[48];
    for (int32_t i = 0; i < l->n_boxes; i++) {
        const lint_box *x = &l->boxes[i];
        if (x->n0 >= x->n1)
            // Skip a box without columns, which may have any number of rows.
            continue;
        for (int64_t m = x->m0; m < x->m1; m++)
            for (int64_t n = x->n0; n < x->n1; n++) {
                if (m < 0 || n < 0 || m >= rows || n >= l->nt) {
                    lint_report(l, "outside",
                                "tile (%" PRId64 ",%" PRId64 ") of %s is not "
                                "among %" PRId64 "x%" PRId64,
                                m, n, lint_core_name(l, x->core, a), rows,
                                l->nt);
                    // Ends both loops, so that each box is reported as outside
                    // only once.
                    m = x->m1;
                    break;
                }
                int32_t *o = &owner[m * l->nt + n];
                if (*o)
                    lint_report(l, "duplicate",
                                "tile (%" PRId64 ",%" PRId64
                                ") is on %s and %s",
                                m, n, lint_core_name(l, *o - 1, a),
                                lint_core_name(l, x->core, b));
                *o = x->core + 1;
            }
    }
    for (int64_t t = 0; t < rows * l->nt; t++)
        if (!owner[t])
            lint_report(l, "lost",
                        "tile (%" PRId64 ",%" PRId64 ") is on no core",
                        t / l->nt, t % l->nt);
}

// Checks, for a large grid of tiles, that every tile is in exactly one box
// (rectangle of tiles of a core): the boxes must be disjoint and their areas
// must add up to the grid's.
static void add_boxes(lint *l, int64_t rows)
{
    double area = 0; // a double counts up to 2^53 tiles exactly
    char a[48], b[48];
    for (int32_t i = 0; i < l->n_boxes; i++) {
        const lint_box *x = &l->boxes[i];
        if (x->m0 < 0 || x->n0 < 0 || x->m1 > rows || x->n1 > l->nt)
            lint_report(l, "outside",
                        "%s has rows %" PRId64 "..%" PRId64 ", columns %" PRId64
                        "..%" PRId64,
                        lint_core_name(l, x->core, a), x->m0, x->m1, x->n0,
                        x->n1);
        area += (double)(x->m1 - x->m0) * (double)(x->n1 - x->n0);
        for (int32_t k = 0; k < i; k++) {
            const lint_box *y = &l->boxes[k];
            if (dv_max_i64(x->m0, y->m0) < dv_min_i64(x->m1, y->m1) &&
                dv_max_i64(x->n0, y->n0) < dv_min_i64(x->n1, y->n1))
                lint_report(l, "duplicate", "%s and %s have tiles in common",
                            lint_core_name(l, y->core, a),
                            lint_core_name(l, x->core, b));
        }
    }
    if (area != (double)(rows * l->nt))
        lint_report(l, "lost", "cores have %.0f tiles of %" PRId64, area,
                    rows * l->nt);
}

static void check_boxes(lint *l)
{
    int64_t rows = l->local_shard ? l->mt * l->batch : l->mt;
    if (rows * l->nt > 1 << 22) {
        add_boxes(l, rows);
        return;
    }
    int32_t *owner = DV_NEW(&l->arena, int32_t, rows * l->nt + 1);
    if (owner)
        mark_boxes(l, rows, owner);
    else
        l->failed = 1;
}

// Returns the smallest number of tiles that the circular buffer of this name in
// a core's memory must hold.
static int64_t least_tiles(const lint *l, const char *name)
{
    int shard = l->local_shard && l->shards[2] > 0;
    int block = l->block[0] > 0;
    if (!strcmp(name, "a"))
        return block ? l->block[0] * l->block[2] : 1;
    if (!strcmp(name, "b"))
        return block ? l->block[1] * l->block[2] : 1;
    if (!strcmp(name, "c"))
        return shard   ? l->shards[2] * l->shards[3]
               : block ? l->block[0] * l->block[1]
                       : 1;
    return 1;
}

// Checks that the indices of the circular buffers are unique, because kernels
// refer to buffers only by index.
static void check_indices(lint *l)
{
    lint_span *list = DV_NEW(&l->arena, lint_span, (size_t)l->n_buffers + 1);
    int32_t n = 0;
    l->failed |= !list;
    for (int32_t i = 0; list && i < l->n_buffers; i++)
        if (l->buffers[i].index >= 0)
            list[n++] = (lint_span){l->buffers[i].index, i, i};
    if (n)
        qsort(list, (size_t)n, sizeof *list, lint_by_begin);
    for (int32_t i = 1; i < n; i++)
        if (list[i].begin == list[i - 1].begin)
            lint_report(l, "memory",
                        "buffers %.40s and %.40s both have index %" PRId64,
                        l->buffers[list[i - 1].core].name,
                        l->buffers[list[i].core].name, list[i].begin);
}

static void check_memory(lint *l, int64_t tiles)
{
    int64_t sum = 0;
    check_indices(l);
    for (int32_t i = 0; i < l->n_buffers; i++) {
        const lint_buffer *b = &l->buffers[i];
        int64_t need = 0, least = tiles ? least_tiles(l, b->name) : 0;
        if (!dv_mul_i64(&need, b->tiles, b->page_bytes) || need != b->bytes)
            lint_report(l, "memory",
                        "buffer %s has %" PRId64 " bytes for %" PRId64
                        " tile%s of %" PRId64,
                        b->name, b->bytes, b->tiles,
                        DV_PLURAL(b->tiles, "", "s"), b->page_bytes);
        // The buffer for partial sums holds f32, of 4 bytes, whatever the
        // element type is.
        int64_t page = strcmp(b->name, "partial") ? l->elem_bytes : 4;
        if (!dv_mul_i64(&page, page, l->tile_elems))
            page = INT64_MAX;
        if (b->page_bytes < page)
            lint_report(l, "memory",
                        "a page of buffer %s has %" PRId64
                        " bytes, a tile has %" PRId64,
                        b->name, b->page_bytes, page);
        if (b->tiles < least)
            lint_report(l, "memory",
                        "buffer %s has %" PRId64 " tile%s, %" PRId64
                        " must fit it",
                        b->name, b->tiles, DV_PLURAL(b->tiles, "", "s"), least);
        sum += b->bytes;
    }
    if (l->core_bytes >= 0 && l->n_buffers && sum != l->core_bytes)
        lint_report(l, "memory",
                    "buffers add up to %" PRId64 " bytes, %" PRId64
                    " are stated",
                    sum, l->core_bytes);
    if (l->memory_limit >= 0 && sum > l->memory_limit)
        lint_report(l, "memory",
                    "buffers of %" PRId64 " bytes, a core has %" PRId64, sum,
                    l->memory_limit);
}

// Checks that the target (the machine) has the cores that the file assumes.
// That the file uses no holes (missing cores) of the target is checked
// elsewhere.
static void check_target(lint *l)
{
    if (!l->target)
        return;
    dv_core_grid g = dv_target_grid(l->target);
    if (l->cols > g.cols || l->rows > g.rows)
        lint_report(l, "off-grid",
                    "a grid of %" PRId64 "x%" PRId64 " cores, %s has %" PRId64
                    "x%" PRId64,
                    l->cols, l->rows, l->target->name, g.cols, g.rows);
    if (l->cols < 0) {
        l->cols = g.cols;
        l->rows = g.rows;
    }
}

void lint_check_all(lint *l)
{
    int64_t tiles;
    check_target(l);
    l->batch = dv_max_i64(l->batch, 0);
    if (l->mt < 0 || l->nt < 0) {
        lint_report(l, "format",
                    "the file does not say how many tiles there are");
        return;
    }
    if ((!l->mt || !l->nt) && !l->is_part)
        lint_report(l, "format", "a result of %" PRId64 "x%" PRId64 " tiles",
                    l->mt, l->nt);
    if (!dv_mul_i64(&tiles, l->mt, l->nt) ||
        !dv_mul_i64(&tiles, tiles, dv_max_i64(l->batch, 1)) ||
        !dv_mul_i64(&tiles, tiles, 4 * l->kt) || tiles > (int64_t)1 << 60) {
        lint_report(l, "format", "%" PRId64 "x%" PRId64 " tiles are too many",
                    l->mt, l->nt);
        return;
    }
    tiles = l->mt * l->nt * l->batch;
    if (l->n_tiles >= 0 && l->n_tiles != tiles)
        lint_report(l, "format",
                    "the number of tiles is stated as %" PRId64
                    ", it is %" PRId64,
                    l->n_tiles, tiles);
    lint_check_stage(l);
    lint_check_args(l);
    lint_check_cores(l);
    if (l->stage == LINT_ATTRIBUTES)
        dv_put(&l->report, "note: the file does not say which core computes "
                           "which tiles\n");
    else if (l->n_boxes || (l->local_shard && !l->n_spans))
        check_boxes(l);
    else
        check_spans(l);
    check_memory(l, tiles);
}

// Checks a plan in divvy's own format with divvy's checker (check/).
static dv_status lint_plan(lint *l, const dv_source *src)
{
    dv_plan *plan = NULL;
    dv_diag *own = dv_diag_create();
    if (!own)
        return dv_nomem(l->diag);
    dv_plan_options o = DV_PLAN_OPTIONS_INIT;
    if (l->target) {
        o.holes = l->target->holes.at;
        o.n_holes = (size_t)l->target->holes.n;
    }
    dv_status st =
        dv_plan_parse(&plan, src->text, src->len, src->name, NULL, &o, l->diag);
    if (st == DV_OK && dv_plan_check(plan, own) != DV_OK)
        lint_report(l, "check", "%s", dv_diag_text(own));
    dv_plan_destroy(plan);
    dv_diag_destroy(own);
    return st;
}

static int is_plan(const dv_source *src)
{
    const char *at = src->text, *end = at + src->len;
    while (at < end && (strchr(" \t\r\n", *at) || *at == '#'))
        if (*at++ == '#')
            while (at < end && *at != '\n')
                at++;
    return end - at > 5 && !strncmp(at, "plan ", 5);
}

dv_status dv_lint(const dv_target *target, const char *text, size_t len,
                  const char *name, const int64_t *tiles, int64_t *n_defects,
                  char **report, dv_diag *diag)
{
    dv_source src = {name ? name : "plan", text, len};
    lint l = {LINT_EMPTY, .diag = diag, .target = target};
    if (tiles) {
        l.mt = tiles[0];
        l.nt = tiles[1];
    }
    for (int32_t i = 0; target && i < target->holes.n; i++) {
        const dv_core_rect *h = &target->holes.at[i];
        lint_add_rect(&l, &l.holes, (lint_rect){h->x0, h->y0, h->x1, h->y1});
    }
    l.n_given = l.holes.n;
    dv_status st = is_plan(&src) ? lint_plan(&l, &src) : lint_read(&l, &src);
    if (st == DV_OK && !is_plan(&src) && !l.n_parts)
        lint_check_all(&l);
    if (l.n_defects > LINT_MAX_LINES)
        dv_put(&l.report, "and %" PRId64 " more\n",
               l.n_defects - LINT_MAX_LINES);
    if (st == DV_OK && !l.report.at)
        dv_put(&l.report, "%s", "");
    if (st == DV_OK && (l.failed || l.report.failed))
        st = dv_nomem(diag);
    dv_arena_free(&l.arena);
    if (st == DV_OK) {
        *n_defects = l.n_defects;
        *report = dv_text_take(&l.report);
    }
    dv_text_free(&l.report);
    return st;
}
