// Checks the cores, the rectangles and groups that contain them, and the holes
// (missing cores).
#include "lint/lint.h"
#include "base/math.h"
#include <inttypes.h>
#include <stdlib.h>

static int by_xy(const void *a, const void *b)
{
    const lint_core *x = a, *y = b;
    return x->y != y->y ? (x->y > y->y) - (x->y < y->y)
                        : (x->x > y->x) - (x->x < y->x);
}

static int in_rect(const lint_rect *r, const lint_core *c)
{
    return c->x >= r->x0 && c->x <= r->x1 && c->y >= r->y0 && c->y <= r->y1;
}

static int overlap(const lint_rect *a, const lint_rect *b)
{
    return dv_max_i64(a->x0, b->x0) <= dv_min_i64(a->x1, b->x1) &&
           dv_max_i64(a->y0, b->y0) <= dv_min_i64(a->y1, b->y1);
}

// Returns whether the rectangle is malformed or outside the grid of cores.
static int off_grid(const lint *l, const lint_rect *a)
{
    return a->x0 > a->x1 || a->y0 > a->y1 || a->x0 < 0 || a->y0 < 0 ||
           (l->cols >= 0 && (a->x1 >= l->cols || a->y1 >= l->rows));
}

static void say_off_grid(lint *l, const lint_rect *a, const char *name)
{
    lint_report(l, "off-grid",
                "%s (%" PRId64 ",%" PRId64 ")-(%" PRId64 ",%" PRId64
                ") on a grid of %" PRId64 "x%" PRId64 " cores",
                name, a->x0, a->y0, a->x1, a->y1, l->cols, l->rows);
}

static void check_rects(lint *l, const lint_rects *r, const char *name)
{
    for (int32_t i = 0; i < r->n; i++) {
        const lint_rect *a = &r->at[i];
        if (off_grid(l, a))
            say_off_grid(l, a, name);
        for (int32_t k = 0; k < i; k++)
            if (overlap(a, &r->at[k]))
                lint_report(l, "ranges", "%s %d and %d overlap", name, (int)k,
                            (int)i);
        for (int32_t k = 0; k < l->holes.n; k++) {
            const lint_rect *h = &l->holes.at[k];
            if (overlap(a, h))
                lint_report(l, "off-grid",
                            "%s (%" PRId64 ",%" PRId64 ")-(%" PRId64 ",%" PRId64
                            ") goes over the hole (%" PRId64 ",%" PRId64
                            ")-(%" PRId64 ",%" PRId64 ")",
                            name, a->x0, a->y0, a->x1, a->y1, h->x0, h->y0,
                            h->x1, h->y1);
        }
    }
}

static int is_in(const lint_rects *r, const lint_core *c)
{
    int in = 0;
    for (int32_t k = 0; k < r->n && !in; k++)
        in = in_rect(&r->at[k], c);
    return in;
}

static double cores_in(const lint_rects *r)
{
    double sum = 0; // double, because rectangles outside the grid may be huge
    for (int32_t i = 0; i < r->n; i++)
        sum += (double)(r->at[i].x1 - r->at[i].x0 + 1) *
               (double)(r->at[i].y1 - r->at[i].y0 + 1);
    return sum;
}

// Checks that the ranges (rectangles of cores on which kernels are launched)
// contain all n cores with work and no others, because a kernel on another core
// would have no arguments.
static void check_ranges(lint *l, const lint_rects *r, const char *name,
                         const lint_core *cores, int32_t n)
{
    int64_t found = 0;
    double in_ranges = cores_in(r);
    for (int32_t i = 0; i < n; i++) {
        int in = is_in(r, &cores[i]);
        found += in;
        if (!in)
            lint_report(l, "ranges",
                        "core %" PRId64 ",%" PRId64 " has work and is in no %s",
                        cores[i].x, cores[i].y, name);
    }
    if (in_ranges > (double)found && (l->n_names || l->stage))
        lint_report(l, "ranges", "%ss name %.0f cores, %" PRId64 " have %s",
                    name, in_ranges, found,
                    l->stage ? "tiles or an empty list" : "arguments");
}

// Checks that every core with work is in exactly one of group_1 and group_2
// (cores with equal work), and that these contain no other cores.
static void check_members(lint *l)
{
    int64_t found = 0;
    for (int32_t i = 0; i < l->n; i++) {
        int one = is_in(&l->group[0], &l->cores[i]);
        int two = is_in(&l->group[1], &l->cores[i]);
        found += one + two;
        if (one + two != 1)
            lint_report(l, "ranges", "core %" PRId64 ",%" PRId64 " is in %s",
                        l->cores[i].x, l->cores[i].y,
                        one ? "both groups" : "no group");
    }
    double named = cores_in(&l->group[0]) + cores_in(&l->group[1]);
    if (named > (double)found)
        lint_report(l, "ranges",
                    "groups name %.0f cores, %" PRId64 " have arguments", named,
                    found);
}

// Checks that all cores of group g have the number of units (tiles, steps or
// parts of tiles) that the file states.
static void check_units(lint *l, int g)
{
    int32_t members = 0;
    for (int32_t i = 0; i < l->n; i++) {
        int64_t n;
        if (!is_in(&l->group[g], &l->cores[i]))
            continue;
        members++;
        if (lint_units(l, i, &n) && n != l->units[g])
            lint_report(l, "ranges",
                        "core %" PRId64 ",%" PRId64 " has %" PRId64
                        " %s, its group has %" PRId64 " each",
                        l->cores[i].x, l->cores[i].y, n, lint_unit_name(l),
                        l->units[g]);
    }
    if (!members && l->units[g])
        lint_report(l, "ranges",
                    "units_group_%d is %" PRId64 ", no core is in group_%d",
                    g + 1, l->units[g], g + 1);
}

static void check_groups(lint *l)
{
    if (l->has_groups)
        check_members(l);
    for (int g = 0; g < 2; g++) {
        check_rects(l, &l->group[g],
                    g ? "range of group_2" : "range of group_1");
        // units[g] is -1 if the file does not state the units of work per core
        // of group g.
        if (l->units[g] >= 0)
            check_units(l, g);
    }
}

// Checks that the holes (missing cores) that the file lists are on the grid of
// cores. The target's holes are not checked, because they may be outside the
// part of the grid that the plan uses.
static void check_holes(lint *l)
{
    for (int32_t i = l->n_given; i < l->holes.n; i++)
        if (off_grid(l, &l->holes.at[i]))
            say_off_grid(l, &l->holes.at[i], "hole");
}

static void check_cores(lint *l)
{
    lint_core *sorted = DV_NEW(&l->arena, lint_core, l->n + 1);
    int32_t n = 0;
    if (!sorted) {
        l->failed = 1;
        return;
    }
    for (int32_t i = 0; i < l->n; i++) {
        const lint_core *c = &l->cores[i];
        if (c->x == -1 && c->y == -1)
            continue; // the file does not say where the core is
        sorted[n++] = *c;
        if (c->x < 0 || c->y < 0 ||
            (l->cols >= 0 && (c->x >= l->cols || c->y >= l->rows)))
            lint_report(l, "off-grid",
                        "core %" PRId64 ",%" PRId64 " on a grid of %" PRId64
                        "x%" PRId64,
                        c->x, c->y, l->cols, l->rows);
        if (is_in(&l->holes, c))
            lint_report(l, "off-grid",
                        "core %" PRId64 ",%" PRId64 " is one of the holes",
                        c->x, c->y);
    }
    qsort(sorted, (size_t)n, sizeof *sorted, by_xy);
    for (int32_t i = 1; i < n; i++)
        if (!by_xy(&sorted[i - 1], &sorted[i]))
            lint_report(l, "duplicate",
                        "core %" PRId64 ",%" PRId64 " has two rows",
                        sorted[i].x, sorted[i].y);
    check_rects(l, &l->ranges, "range");
    check_rects(l, &l->all, "range of all_cores");
    if (l->has_ranges && n)
        check_ranges(l, &l->ranges, "range", sorted, n);
    if (l->has_all && n)
        check_ranges(l, &l->all, "range of all_cores", sorted, n);
    if (l->n_cores >= 0 && l->n_cores != l->n)
        lint_report(l, "ranges",
                    "the number of cores is stated as %" PRId64
                    ", the table has %d",
                    l->n_cores, (int)l->n);
}

void lint_check_cores(lint *l)
{
    check_holes(l);
    check_cores(l);
    check_groups(l);
}
