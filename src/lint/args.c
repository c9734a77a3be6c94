// Checks the kernel arguments of cores against the work listed for them,
// against the sizes, and against each other.
#include "lint/lint.h"
#include "base/math.h"
#include "base/plural.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

int lint_arg(const lint *l, int32_t core, const char *name, int64_t *out)
{
    static const char *const older[][2] = {{"start_id", "tt_start_tile"},
                                           {"count", "tt_tile_count"},
                                           {"sy", "tt_shard_coord_y"},
                                           {"sx", "tt_shard_coord_x"}};
    const char *other = name;
    for (size_t i = 0; i < sizeof older / sizeof *older; i++)
        if (!strcmp(older[i][0], name))
            other = older[i][1];
    for (int32_t i = 0; i < l->n_names && i < l->cores[core].n_args; i++)
        if (!strcmp(l->names[i], name) || !strcmp(l->names[i], other)) {
            *out = l->cores[core].args[i];
            return 1;
        }
    return 0;
}

// Computes the work that a core's kernel arguments describe: up to two spans
// (ranges) of k steps (returns their number) or a rectangle of tiles (returns
// -1). Returns -2 if the argument names are unknown.
static int args_to_work(lint *l, int32_t core, lint_span spans[2],
                        lint_box *box)
{
    int64_t start, count, v[4];
    if (!lint_arg(l, core, "start_id", &start) ||
        !lint_arg(l, core, "count", &count))
        return -2;
    if (lint_arg(l, core, "sy", &v[0]) && lint_arg(l, core, "sx", &v[1]) &&
        lint_arg(l, core, "Sm", &v[2]) && lint_arg(l, core, "Sn", &v[3])) {
        *box = (lint_box){v[0] * v[2], (v[0] + (count != 0)) * v[2],
                          v[1] * v[3], (v[1] + (count != 0)) * v[3], core};
        return -1;
    }
    if (lint_arg(l, core, "m0", &v[0]) && lint_arg(l, core, "m1", &v[1]) &&
        lint_arg(l, core, "n0", &v[2]) && lint_arg(l, core, "n1", &v[3])) {
        *box = (lint_box){v[0], v[1], v[2], v[3], core};
        return -1;
    }
    if (lint_arg(l, core, "k_first", &v[0]) &&
        lint_arg(l, core, "k_last", &v[1]) &&
        lint_arg(l, core, "whole_id", &v[2]) &&
        lint_arg(l, core, "whole_count", &v[3])) {
        int64_t last = count ? (start + count - 1) * l->kt + v[1] : 0;
        spans[0] = (lint_span){v[2] * l->kt, (v[2] + v[3]) * l->kt, core};
        spans[1] = (lint_span){count ? start * l->kt + v[0] : 0, last, core};
        return 2;
    }
    spans[0] = (lint_span){start * l->kt, (start + count) * l->kt, core};
    return 1;
}

// Checks that arguments that repeat sizes of the plan have the plan's values,
// and that there are not too many arguments.
static void check_constants(lint *l, int32_t i)
{
    const struct {
        const char *name;
        int64_t want;
    } known[] = {{"Mt", l->mt},          {"Nt", l->nt},
                 {"Kt", l->kt},          {"Gy", l->shards[0]},
                 {"Gx", l->shards[1]},   {"Sm", l->shards[2]},
                 {"Sn", l->shards[3]},   {"sy", l->cores[i].sy},
                 {"sx", l->cores[i].sx}, {"chunk", l->chunk}};
    char who[48];
    int64_t v;
    for (size_t k = 0; k < sizeof known / sizeof *known; k++)
        if (known[k].want >= 0 && lint_arg(l, i, known[k].name, &v) &&
            v != known[k].want)
            lint_report(
                l, "arguments", "%s has %s %" PRId64 ", the plan has %" PRId64,
                lint_core_name(l, i, who), known[k].name, v, known[k].want);
    if (l->args_limit > 0 && l->cores[i].n_args > l->args_limit)
        lint_report(l, "arguments",
                    "%s has %d argument%s, a core takes %" PRId64,
                    lint_core_name(l, i, who), (int)l->cores[i].n_args,
                    DV_PLURAL(l->cores[i].n_args, "", "s"), l->args_limit);
}

// Checks that the core has as many arguments as there are names, because the
// kernel reads that many.
static void check_number(lint *l, int32_t i)
{
    char who[48];
    if (l->cores[i].n_args != l->n_names)
        lint_report(l, "arguments", "%s has %d argument%s for %d name%s",
                    lint_core_name(l, i, who), (int)l->cores[i].n_args,
                    DV_PLURAL(l->cores[i].n_args, "", "s"), (int)l->n_names,
                    DV_PLURAL(l->n_names, "", "s"));
}

static void check_shard_args(lint *l, int32_t i)
{
    int64_t sy, sx, sm, sn, count, start;
    char who[48];
    if (!lint_arg(l, i, "sy", &sy) || !lint_arg(l, i, "sx", &sx) ||
        !lint_arg(l, i, "Sm", &sm) || !lint_arg(l, i, "Sn", &sn) ||
        !lint_arg(l, i, "count", &count) || !lint_arg(l, i, "start_id", &start))
        return;
    const lint_core *c = &l->cores[i];
    if (count && c->sy < 0 && c->x >= 0 && (c->x != sx || c->y != sy))
        lint_report(l, "arguments",
                    "%s has shard row %" PRId64 ", column %" PRId64
                    ", which is on core %" PRId64 ",%" PRId64,
                    lint_core_name(l, i, who), sy, sx, sx, sy);
    if (count && (count != sm * sn || start != 0))
        lint_report(l, "arguments",
                    "%s has tiles %" PRId64 "..%" PRId64
                    " of a shard of %" PRId64,
                    lint_core_name(l, i, who), start, start + count, sm * sn);
}

static void check_rect_args(lint *l, int32_t i)
{
    int64_t m0, m1, n0, n1, count, start;
    char who[48];
    if (!lint_arg(l, i, "m0", &m0) || !lint_arg(l, i, "m1", &m1) ||
        !lint_arg(l, i, "n0", &n0) || !lint_arg(l, i, "n1", &n1) ||
        !lint_arg(l, i, "count", &count) || !lint_arg(l, i, "start_id", &start))
        return;
    int64_t tiles = (m1 - m0) * (n1 - n0);
    if (!dv_mul_i64(&tiles, tiles, l->batch))
        // The number of tiles overflows; -1 differs from every stated count, so
        // that a defect is reported.
        tiles = -1;
    if (count != tiles || start != m0 * l->nt + n0)
        lint_report(l, "arguments",
                    "%s has %" PRId64 " tile%s from %" PRId64
                    " on, its rectangle has %" PRId64 " from %" PRId64,
                    lint_core_name(l, i, who), count, DV_PLURAL(count, "", "s"),
                    start, tiles, m0 * l->nt + n0);
}

// Checks which core multicasts panels (rows of tiles of A, columns of tiles of
// B): of the cores with the same tile rows, the one with the first columns
// reads the panel of A for all; of those with the same columns, the one with
// the first rows reads the panel of B.
static void check_roles(lint *l, int32_t i)
{
    int64_t box[4], sends[2];
    char who[48];
    if (!lint_arg(l, i, "m0", &box[0]) || !lint_arg(l, i, "m1", &box[1]) ||
        !lint_arg(l, i, "n0", &box[2]) || !lint_arg(l, i, "n1", &box[3]) ||
        !lint_arg(l, i, "sends_a", &sends[0]) ||
        !lint_arg(l, i, "sends_b", &sends[1]))
        return;
    int64_t want[2] = {box[2] == 0 && box[3] < l->nt,
                       box[0] == 0 && box[1] < l->mt};
    for (int k = 0; k < 2; k++)
        if (sends[k] != want[k])
            lint_report(l, "arguments",
                        "%s has sends_%c %" PRId64 ", its rectangle asks for "
                        "%" PRId64,
                        lint_core_name(l, i, who), 'a' + k, sends[k], want[k]);
}

static void check_stream_args(lint *l, int32_t i)
{
    int64_t count, k0, k1;
    char who[48];
    if (!lint_arg(l, i, "k_first", &k0) || !lint_arg(l, i, "k_last", &k1) ||
        !lint_arg(l, i, "count", &count))
        return;
    int none = count == 0 && k0 == 0 && k1 == 0;
    if (!none && (count < 1 || k0 < 0 || k0 >= l->kt || k1 < 1 || k1 > l->kt ||
                  (count == 1 && k0 >= k1)))
        lint_report(l, "arguments",
                    "%s streams %" PRId64 " tile%s from step %" PRId64
                    " to step %" PRId64 " of %" PRId64,
                    lint_core_name(l, i, who), count, DV_PLURAL(count, "", "s"),
                    k0, k1, l->kt);
}

// Sorts the spans (ranges of k steps), drops empty ones and merges adjacent
// ones. Returns the number of spans that remain.
static int32_t merge(lint_span *s, int32_t n)
{
    int32_t left = 0;
    if (n)
        qsort(s, (size_t)n, sizeof *s, lint_by_begin);
    for (int32_t i = 0; i < n; i++) {
        if (s[i].begin == s[i].end)
            continue;
        if (left && s[left - 1].end == s[i].begin)
            s[left - 1].end = s[i].end;
        else
            s[left++] = s[i];
    }
    return left;
}

// Returns scratch space for n spans (ranges of steps), or NULL when out of
// memory. The space is reused between comparisons.
static lint_span *room_for(lint *l, int64_t n)
{
    if (n >= l->cap_room) {
        l->cap_room = 2 * n + 16;
        l->room = DV_NEW(&l->arena, lint_span, (size_t)l->cap_room);
    }
    if (!l->room) {
        l->failed = 1;
        l->cap_room = 0;
    }
    return l->room;
}

int lint_same_spans(lint *l, const lint_span *a, int32_t n_a,
                    const lint_span *b, int32_t n_b)
{
    lint_span *x = room_for(l, (int64_t)n_a + n_b), *y = x ? x + n_a : NULL;
    if (!x)
        return 1;
    for (int32_t i = 0; i < n_a; i++)
        x[i] = a[i];
    for (int32_t i = 0; i < n_b; i++)
        y[i] = b[i];
    n_a = merge(x, n_a);
    n_b = merge(y, n_b);
    for (int32_t i = 0; n_a == n_b && i < n_a; i++)
        if (x[i].begin != y[i].begin || x[i].end != y[i].end)
            return 0;
    return n_a == n_b;
}

static int same_box(const lint_box *a, const lint_box *b)
{
    return a->m0 == b->m0 && a->m1 == b->m1 && a->n0 == b->n0 && a->n1 == b->n1;
}

// The work that the file lists for one core. The spans (ranges of k steps) and
// boxes (rectangles of tiles) of a core are consecutive in the lists.
typedef struct own_work {
    const lint_span *spans;
    int32_t n_spans;
    // Rectangle of tiles; NULL if the file lists none for the core.
    const lint_box *box;
} own_work;

static own_work next_work(const lint *l, int32_t i, int32_t *span_at,
                          int32_t *box_at)
{
    own_work w = {.spans = l->spans};
    if (*span_at)
        w.spans += *span_at;
    for (; *span_at < l->n_spans && l->spans[*span_at].core == i; (*span_at)++)
        w.n_spans++;
    for (; *box_at < l->n_boxes && l->boxes[*box_at].core == i; (*box_at)++)
        w.box = &l->boxes[*box_at];
    return w;
}

// Returns whether the work that the file lists for a core equals the work that
// its kernel arguments describe: n spans s (ranges of steps), or box b
// (rectangle of tiles) if n is -1.
static int same_work(lint *l, const own_work *w, const lint_span *s, int n,
                     const lint_box *b)
{
    if (n >= 0)
        return lint_same_spans(l, w->spans, w->n_spans, s, n);
    if (w->box)
        return same_box(w->box, b);
    return w->n_spans > 0 || b->m0 == b->m1 || b->n0 == b->n1;
}

// Checks the arguments of every core against the work listed for it. Kernels
// execute the arguments, so the later checks use the work that the arguments
// describe.
static void check_args(lint *l)
{
    int32_t span_at = 0, box_at = 0, n_spans = 0, n_boxes = 0, known = 0;
    lint_span *spans = DV_NEW(&l->arena, lint_span, 2 * (size_t)l->n + 1);
    lint_box *boxes = DV_NEW(&l->arena, lint_box, (size_t)l->n + 1);
    if (!spans || !boxes) {
        l->failed = 1;
        return;
    }
    for (int32_t i = 0; i < l->n; i++) {
        lint_span s[2];
        lint_box b;
        char who[48];
        own_work own = next_work(l, i, &span_at, &box_at);
        check_number(l, i);
        int n = args_to_work(l, i, s, &b);
        if (n == -2)
            continue;
        known++;
        check_constants(l, i);
        check_shard_args(l, i);
        check_rect_args(l, i);
        check_roles(l, i);
        check_stream_args(l, i);
        for (int k = 0; k < n; k++)
            if (s[k].begin != s[k].end)
                spans[n_spans++] = s[k];
        if (n == -1)
            boxes[n_boxes++] = b;
        if (l->cores[i].listed && !same_work(l, &own, s, n, &b))
            lint_report(l, "arguments",
                        "the arguments of %s are not the work listed for it",
                        lint_core_name(l, i, who));
    }
    if (known < l->n || !l->n_names)
        return;
    l->spans = spans, l->n_spans = n_spans;
    l->boxes = boxes, l->n_boxes = n_boxes;
}

// Returns the number of parts of tiles that begin before a k step, where the
// sum over k of each tile is split into nearly equal parts with the larger ones
// first.
static int64_t parts_before(const lint *l, int64_t step)
{
    int64_t size = l->kt / l->split, larger = l->kt % l->split;
    int64_t k = step % l->kt, in_larger = larger * (size + 1);
    int64_t n = k <= in_larger ? dv_ceil_div(k, size + 1)
                               : larger + dv_ceil_div(k - in_larger, size);
    return step / l->kt * l->split + n;
}

const char *lint_unit_name(const lint *l)
{
    return !l->streams ? "tiles" : l->split ? "parts" : "steps";
}

int lint_units(const lint *l, int32_t core, int64_t *out)
{
    int64_t start, count, k0, k1;
    if (!lint_arg(l, core, "start_id", &start) ||
        !lint_arg(l, core, "count", &count))
        return 0;
    int cut =
        lint_arg(l, core, "k_first", &k0) && lint_arg(l, core, "k_last", &k1);
    if (cut != l->streams)
        // The arguments k_first and k_last belong to policies that split tiles
        // along k (the summed dimension) and to no others. If they contradict
        // the policy, the core's work is unknown.
        return 0;
    *out = count;
    if (!cut || !count)
        return 1;
    int64_t begin = start * l->kt + k0, end = (start + count - 1) * l->kt + k1;
    *out =
        l->split ? parts_before(l, end) - parts_before(l, begin) : end - begin;
    return 1;
}

// The kernel arguments of a core under the policies streamk and splitk, by
// which cores compute parts of tiles.
typedef struct part_args {
    int64_t start, count, k0, k1, contributors, x, y;
} part_args;

static int read_part(const lint *l, int32_t i, part_args *a)
{
    return lint_arg(l, i, "peers", &a->contributors) &&
           lint_arg(l, i, "owner_x", &a->x) &&
           lint_arg(l, i, "owner_y", &a->y) &&
           lint_arg(l, i, "start_id", &a->start) &&
           lint_arg(l, i, "count", &a->count) &&
           lint_arg(l, i, "k_first", &a->k0) &&
           lint_arg(l, i, "k_last", &a->k1);
}

// Lists the cores that compute parts of tiles, sorted by their first k step (a
// product of tiles, added to a result), and checks that the other cores neither
// send nor await partial sums. Returns the number of cores listed.
static int32_t list_parts(lint *l, lint_span *list)
{
    int32_t n = 0;
    for (int32_t i = 0; i < l->n; i++) {
        part_args a;
        char who[48];
        if (!read_part(l, i, &a))
            return 0;
        if ((!a.count || a.k0 == 0) && (a.x != -1 || a.y != -1))
            lint_report(l, "arguments",
                        "%s gives a part to core %" PRId64 ",%" PRId64
                        " and has none to give",
                        lint_core_name(l, i, who), a.x, a.y);
        if (!a.count && a.contributors)
            lint_report(l, "arguments", "%s waits for parts of no tile",
                        lint_core_name(l, i, who));
        int64_t begin = a.start * l->kt + a.k0;
        if (a.count)
            list[n++] = (lint_span){begin, begin, i};
    }
    qsort(list, (size_t)n, sizeof *list, lint_by_begin);
    return n;
}

// Checks that for each tile split over several cores, all parts are sent to the
// same owner, the core that adds them up, and the owner waits for the right
// number of parts.
static void check_contributors(lint *l)
{
    int64_t owner_x = -1, owner_y = -1, tile = -1, left = 0;
    lint_span *list = DV_NEW(&l->arena, lint_span, (size_t)l->n + 1);
    l->failed |= !list;
    int32_t n = list ? list_parts(l, list) : 0;
    for (int32_t at = 0; at < n; at++) {
        int32_t i = list[at].core;
        part_args a;
        char who[48];
        if (!read_part(l, i, &a))
            return;
        if (a.k0 > 0 && (a.start != tile || a.x != owner_x || a.y != owner_y))
            lint_report(l, "arguments",
                        "%s gives its part of tile %" PRId64 " to core %" PRId64
                        ",%" PRId64 ", which does not collect it",
                        lint_core_name(l, i, who), a.start, a.x, a.y);
        left -= a.k0 > 0;
        int64_t last = a.start + a.count - 1;
        if (a.k1 < l->kt && (last != tile || a.k0 == 0)) {
            if (left != 0)
                lint_report(l, "arguments",
                            "core %" PRId64 ",%" PRId64 " waits for %" PRId64
                            " part%s too %s",
                            owner_x, owner_y, left > 0 ? left : -left,
                            DV_PLURAL(left > 0 ? left : -left, "", "s"),
                            left > 0 ? "many" : "few");
            tile = last;
            owner_x = l->cores[i].x;
            owner_y = l->cores[i].y;
            left = a.contributors;
        } else if (a.contributors) {
            lint_report(l, "arguments",
                        "%s waits for %" PRId64
                        " part%s of tiles that are whole "
                        "or not its own",
                        lint_core_name(l, i, who), a.contributors,
                        DV_PLURAL(a.contributors, "", "s"));
        }
    }
    if (left)
        lint_report(l, "arguments",
                    "core %" PRId64 ",%" PRId64 " waits for %" PRId64
                    " part%s that nobody has",
                    owner_x, owner_y, left, DV_PLURAL(left, "", "s"));
}

// Checks that cores in one row of the grid have the same tile rows, and those
// in one column the same tile columns, because panels (rows of tiles of A,
// columns of tiles of B) are multicast along them.
static void check_lines(lint *l)
{
    lint_span *list = DV_NEW(&l->arena, lint_span, (size_t)l->n + 1);
    char a[48], b[48];
    l->failed |= !list;
    for (int k = 0; list && k < 2; k++) {
        const char *const names[2][2] = {{"m0", "m1"}, {"n0", "n1"}};
        int32_t n = 0;
        for (int32_t i = 0; i < l->n; i++) {
            int64_t from, to, role;
            if (l->cores[i].x >= 0 && lint_arg(l, i, names[k][0], &from) &&
                lint_arg(l, i, names[k][1], &to) &&
                lint_arg(l, i, "sends_a", &role))
                list[n++] = (lint_span){k ? l->cores[i].x : l->cores[i].y,
                                        from * ((int64_t)1 << 31) + to, i};
        }
        qsort(list, (size_t)n, sizeof *list, lint_by_begin);
        for (int32_t i = 1; i < n; i++)
            if (list[i].begin == list[i - 1].begin &&
                list[i].end != list[i - 1].end)
                lint_report(
                    l, "arguments",
                    "%s and %s are in one %s and have other %s of tiles",
                    lint_core_name(l, list[i - 1].core, a),
                    lint_core_name(l, list[i].core, b), k ? "column" : "row",
                    k ? "columns" : "rows");
    }
}

void lint_check_args(lint *l)
{
    check_args(l);
    check_contributors(l);
    check_lines(l);
}
