// Reads the files that lint checks: divvy's JSON; the JSON of TileLang (a
// compiler, whose stage B assigns tiles to cores) in its three generations; and
// tables of arguments, which may also be CSV (csv.c).
//
//   divvy        {"grid_tiles": [5, 13], "rows": [{"core_xy": …, "args": …}]}
//   partition    {"work_partition": {"core_0_1": [[0, 1], …]}, …}, or with
//                names "(x,y)" and tiles {"io": 0, "jo": 1}
//   attributes   {"partition_mode": "global", "grid_tiles": [8, 8],
//                "core_ranges": [[0, 0, 7, 7]], "runtime_args": [names]}
//   tiles        {"tt_grid_x": 8, "tt_tiles_per_core": [[0, 1], …]}
//   assignments  {"grid": {…}, "cores": {"assignments": [{…}]}}
//   table        {"runtime_args": [names], "rows": [[values], …]}, or CSV
//
// Keys may have TileLang's prefix tt. or tt_.
#include "base/jsonread.h"
#include "base/math.h"
#include "lint/lint.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const dv_jval *get(const dv_jval *v, const char *key)
{
    char name[64];
    const dv_jval *found = dv_jget(v, key);
    for (int i = 0; i < 2 && !found; i++) {
        snprintf(name, sizeof name, "tt%c%s", i ? '_' : '.', key);
        found = dv_jget(v, name);
    }
    return found;
}

static int number(const dv_jval *v, int64_t *out)
{
    if (!v || v->kind != DV_JINT || v->i > LINT_MOST || v->i < -LINT_MOST)
        return 0;
    *out = v->i;
    return 1;
}

// Reads an array of exactly n numbers. Returns 0 if the file has no such array;
// a missing array is not reported as a defect.
static int numbers(lint *l, const dv_jval *v, const char *key, int n,
                   int64_t *out)
{
    if (!v)
        return 0;
    int good = v->kind == DV_JARRAY && v->n == n;
    for (int i = 0; good && i < n; i++)
        good = number(&v->items[i], &out[i]);
    if (!good)
        lint_report(l, "format", "%s is not %d whole numbers", key, n);
    return good;
}

// Reads an array of exactly n numbers, each at least `least`; smaller ones are
// reported as a defect. Returns 0 if there is no valid array.
static int counts(lint *l, const dv_jval *v, const char *key, int n,
                  int64_t least, int64_t *out)
{
    int64_t read[6];
    if (!numbers(l, v, key, n, read))
        return 0;
    for (int i = 0; i < n; i++)
        if (read[i] < least) {
            lint_report(l, "format",
                        "%s has %" PRId64 ", the least is %" PRId64, key,
                        read[i], least);
            return 0;
        }
    memcpy(out, read, (size_t)n * sizeof *out);
    return 1;
}

// Reads a count; returns `missing` if there is none. A value that is not a
// whole number of at least `least` is reported as a defect.
static int64_t count_of(lint *l, const dv_jval *v, const char *key,
                        int64_t least, int64_t missing)
{
    int64_t n;
    const dv_jval *at = get(v, key);
    if (!at || at->kind == DV_JNULL)
        return missing;
    if (number(at, &n) && n >= least)
        return n;
    lint_report(l, "format", "%s is no whole number of %" PRId64 " or more",
                key, least);
    return missing;
}

// Reads a byte count. It may exceed the limit of other numbers, because byte
// counts are only added; lint.c checks their products for overflow.
static int64_t bytes_of(const dv_jval *v, const char *key, int64_t missing)
{
    const dv_jval *n = get(v, key);
    return n && n->kind == DV_JINT && n->i >= 0 && n->i <= LINT_MOST << 20
               ? n->i
               : missing;
}

static int read_names(lint *l, const dv_jval *v)
{
    if (!v || v->kind != DV_JARRAY)
        return 0;
    for (int32_t i = 0; i < v->n && l->n_names < LINT_MAX_NAMES; i++)
        l->names[l->n_names++] =
            v->items[i].kind == DV_JSTRING ? v->items[i].s : "";
    return l->n_names > 0;
}

// Reads the names of kernel arguments that a file of TileLang's stage B lists.
static void read_stage(lint *l, lint_stage stage, const dv_jval *args)
{
    l->stage = stage;
    l->has_stage_names = args != NULL;
    int good = !args || args->kind == DV_JARRAY;
    for (int32_t i = 0; good && args && i < args->n; i++) {
        good = args->items[i].kind == DV_JSTRING && i < LINT_MAX_NAMES;
        if (good)
            l->stage_names[l->n_stage_names++] = args->items[i].s;
    }
    if (!good)
        lint_report(l, "format", "%s is no list of at most %d names", args->key,
                    LINT_MAX_NAMES);
}

static void read_sizes(lint *l, const dv_jval *v)
{
    int64_t two[2];
    const dv_jval *mode = get(v, "partition_mode");
    const dv_jval *policy = dv_jget(v, "policy");
    if (counts(l, get(v, "core_grid"), "core_grid", 2, 1, two)) {
        l->cols = two[0];
        l->rows = two[1];
    }
    if (l->mt < 0 && counts(l, get(v, "grid_tiles"), "grid_tiles", 2, 0, two)) {
        l->mt = two[0];
        l->nt = two[1];
    }
    l->batch = count_of(l, v, "batch", 0, 1);
    l->kt = count_of(l, v, "Kt", 1, 1);
    l->mode = mode ? mode->kind == DV_JSTRING ? mode->s : "" : NULL;
    l->local_shard = l->mode && !strcmp(l->mode, "local_shard");
    counts(l, get(v, "shard_grid"), "shard_grid", 2, 1, l->shards);
    counts(l, get(v, "local_shape_tiles"), "local_shape_tiles", 2, 1,
           l->shards + 2);
    if (policy && policy->kind == DV_JSTRING) {
        int n, parts = sscanf(policy->s, "splitk(%9d)", &n) == 1 && n > 0;
        l->split = parts ? n : 0;
        l->streams = parts || !strncmp(policy->s, "streamk", 7);
    }
}

// Reads rectangles given as [x0,y0,x1,y1] or {"start": [x,y], "extent": [w,h]}.
// Returns whether the list exists, even if empty.
static int read_rects(lint *l, const dv_jval *v, const char *key,
                      lint_rects *to)
{
    if (!v)
        return 0;
    if (v->kind != DV_JARRAY)
        lint_report(l, "format", "%s is no list of rectangles", v->key);
    for (int32_t i = 0; v->kind == DV_JARRAY && i < v->n; i++) {
        const dv_jval *r = &v->items[i];
        int64_t a[4], e[2];
        if (r->kind == DV_JOBJECT) {
            if (!numbers(l, dv_jget(r, "start"), "start", 2, a) ||
                !numbers(l, dv_jget(r, "extent"), "extent", 2, e))
                continue;
            a[2] = a[0] + e[0] - 1;
            a[3] = a[1] + e[1] - 1;
        } else if (!numbers(l, r, key, 4, a)) {
            continue;
        }
        lint_add_rect(l, to, (lint_rect){a[0], a[1], a[2], a[3]});
    }
    return 1;
}

static void read_args(lint *l, lint_core *c, const dv_jval *v)
{
    for (int32_t i = 0; v && v->kind == DV_JARRAY && i < v->n; i++) {
        if (i == LINT_MAX_NAMES || !number(&v->items[i], &c->args[i])) {
            lint_report(l, "format",
                        "argument %d of core %" PRId64 ",%" PRId64
                        " is no whole number",
                        (int)i, c->x, c->y);
            return;
        }
        c->n_args = i + 1;
    }
}

// Adds steps k0..k1 - 1 of each of the tiles first..first + count - 1 to a
// core's work.
static void add_work(lint *l, int64_t first, int64_t count, int64_t k0,
                     int64_t k1, int32_t core)
{
    int64_t kt = l->kt;
    if (k0 < 0 || k1 > kt || k0 >= k1 || count < 0) {
        lint_report(l, "format",
                    "a segment with steps %" PRId64 "..%" PRId64 " of %" PRId64,
                    k0, k1, kt);
        return;
    }
    if (k0 == 0 && k1 == kt)
        lint_add_span(l, first * kt, (first + count) * kt, core);
    for (int64_t i = 0; (k0 > 0 || k1 < kt) && i < count && i < 4096; i++)
        lint_add_span(l, (first + i) * kt + k0, (first + i) * kt + k1, core);
}

// Reads a list of the work of a core, as k steps of tiles: entries [first tile,
// count, k0, k1] if n is 4, or [tile, k0, k1] if n is 3. Returns 0 if there is
// no list.
static int read_list(lint *l, const dv_jval *v, int n, const char *what,
                     int32_t core)
{
    int64_t a[4];
    char who[48];
    if (!v)
        return 0;
    if (v->kind != DV_JARRAY)
        lint_report(l, "format", "%s of %s is no list", v->key,
                    lint_core_name(l, core, who));
    for (int32_t i = 0; v->kind == DV_JARRAY && i < v->n; i++) {
        if (!numbers(l, &v->items[i], what, n, a))
            continue;
        add_work(l, a[0], n == 4 ? a[1] : 1, a[n - 2], a[n - 1], core);
    }
    return 1;
}

// Reads the work that a row of the file lists for its core. If the row has
// segments (ranges of tiles), its list of single tiles is only compared with
// them.
static void read_work(lint *l, const dv_jval *row, int32_t core)
{
    int64_t a[4];
    char who[48];
    int32_t from = l->n_spans;
    if (numbers(l, dv_jget(row, "rect"), "rect", 4, a)) {
        if (a[0] > a[1] || a[2] > a[3])
            lint_report(l, "format",
                        "rect of %s has %" PRId64 "x%" PRId64 " tiles",
                        lint_core_name(l, core, who), a[1] - a[0], a[3] - a[2]);
        else
            lint_add_box(l, a[0], a[1], a[2], a[3], core);
        l->cores[core].listed = 1;
    }
    int segments = read_list(l, dv_jget(row, "segments"), 4, "a segment", core);
    int32_t mid = l->n_spans;
    int tiles = read_list(l, dv_jget(row, "work_tile_k0_k1"), 3,
                          "an item of work_tile_k0_k1", core);
    l->cores[core].listed |= segments | tiles;
    if (!segments || !tiles || !l->n_spans)
        return;
    if (!lint_same_spans(l, &l->spans[from], mid - from, &l->spans[mid],
                         l->n_spans - mid))
        lint_report(l, "arguments",
                    "work_tile_k0_k1 of %s is not the work of its segments",
                    lint_core_name(l, core, who));
    l->n_spans = mid;
}

static void read_buffers(lint *l, const dv_jval *v)
{
    const dv_jval *list = dv_jget(v, "buffers");
    int64_t tile[2];
    for (int32_t i = 0; list && list->kind == DV_JARRAY && i < list->n; i++) {
        const dv_jval *b = &list->items[i], *name = dv_jget(b, "name");
        lint_buffer *to = DV_PUSH(&l->arena, lint_buffer, l->buffers,
                                  l->n_buffers, l->cap_buffers);
        if (!to) {
            l->failed = 1;
            return;
        }
        *to = (lint_buffer){
            name && name->kind == DV_JSTRING ? name->s : "?",
            count_of(l, b, "index", 0, -1), count_of(l, b, "tiles", 0, -1),
            count_of(l, b, "page_bytes", 0, -1), bytes_of(b, "bytes", -1)};
    }
    l->core_bytes = bytes_of(v, "core_bytes", -1);
    l->memory_limit = bytes_of(v, "memory_limit", -1);
    l->args_limit = count_of(l, v, "args_limit", 0, -1);
    if (numbers(l, dv_jget(v, "tile_shape"), "tile_shape", 2, tile))
        l->tile_elems = tile[0] * tile[1];
    l->elem_bytes = count_of(l, v, "elem_bytes", 0, 1);
    counts(l, dv_jget(v, "block_tiles"), "block_tiles", 2, 0, l->block);
    l->block[2] = count_of(l, v, "block_depth", 0, 1);
}

// Reads a number of units of work (tiles, steps or parts of tiles), which may
// be large because it is only compared. Returns -1 if the file has none.
static int64_t read_units(lint *l, const dv_jval *v)
{
    int good = v && v->kind == DV_JINT && v->i >= 0;
    if (v && !good)
        lint_report(l, "format", "%s is no count", v->key);
    return good ? v->i : -1;
}

static void read_ours(lint *l, const dv_jval *v, const dv_jval *rows)
{
    l->n_cores = count_of(l, v, "num_cores", 0, -1);
    l->n_tiles = count_of(l, v, "tiles", 0, -1);
    l->units[0] = read_units(l, dv_jget(v, "units_group_1"));
    l->units[1] = read_units(l, dv_jget(v, "units_group_2"));
    read_names(l, dv_jget(v, "runtime_args"));
    l->has_groups = read_rects(l, dv_jget(v, "group_1"), "a range of group_1",
                               &l->group[0]) |
                    read_rects(l, dv_jget(v, "group_2"), "a range of group_2",
                               &l->group[1]);
    l->has_all =
        read_rects(l, dv_jget(v, "all_cores"), "a range of all_cores", &l->all);
    read_rects(l, dv_jget(v, "holes"), "a hole", &l->holes);
    l->chunk = count_of(l, dv_jget(v, "queue"), "chunk", 0, -1);
    read_buffers(l, v);
    for (int32_t i = 0; i < rows->n; i++) {
        const dv_jval *row = &rows->items[i];
        int64_t xy[2] = {-1, -1};
        if (!numbers(l, dv_jget(row, "core_xy"), "core_xy", 2, xy))
            continue;
        lint_core *c = lint_add_core(l, xy[0], xy[1]);
        if (!c)
            return;
        c->sy = count_of(l, row, "sy", 0, -1);
        c->sx = count_of(l, row, "sx", 0, -1);
        read_args(l, c, dv_jget(row, "args"));
        read_work(l, row, l->n - 1);
    }
}

// Parses the name of a core: "core_1_2" is y 1, x 2; "(2,1)" is x 2, y 1.
static int core_key(const char *key, int64_t *x, int64_t *y)
{
    int a, b, end = 0;
    if (sscanf(key, "core_%9d_%9d%n", &a, &b, &end) == 2 && !key[end]) {
        *y = a, *x = b;
        return 1;
    }
    end = 0;
    if (sscanf(key, "(%9d,%9d)%n", &a, &b, &end) == 2 && end && !key[end]) {
        *x = a, *y = b;
        return 1;
    }
    return 0;
}

static int read_tile(const dv_jval *v, int64_t *m, int64_t *n)
{
    if (v->kind == DV_JARRAY && v->n == 2)
        return number(&v->items[0], m) && number(&v->items[1], n);
    return number(dv_jget(v, "io"), m) && number(dv_jget(v, "jo"), n);
}

// Reads the tiles of a core. Tiles of a shard (the rectangle of tiles that a
// core holds) are relative to the shard's corner; core (x,y) has the shard in
// row y, column x.
static void read_tiles(lint *l, const dv_jval *list, const lint_core *c,
                       int32_t core)
{
    int local = l->local_shard && l->shards[0] >= 0 && l->shards[2] >= 0;
    for (int32_t i = 0; i < list->n; i++) {
        int64_t m, n;
        if (!read_tile(&list->items[i], &m, &n)) {
            lint_report(l, "format",
                        "a tile that is neither [row, column] nor "
                        "{io, jo}");
            continue;
        }
        if (local) {
            m += c->y * l->shards[2];
            n += c->x * l->shards[3];
        }
        lint_add_box(l, m, m + 1, n, n + 1, core);
    }
}

// If the file does not state the tile grid, derives its size from the tiles.
static void guess_grid(lint *l)
{
    if (l->mt >= 0)
        return;
    l->mt = l->nt = 0;
    for (int32_t i = 0; i < l->n_boxes; i++) {
        l->mt = dv_max_i64(l->mt, l->boxes[i].m1);
        l->nt = dv_max_i64(l->nt, l->boxes[i].n1);
    }
    dv_put(&l->report,
           "note: the file does not say how many tiles there are; %" PRId64
           "x%" PRId64 " are assumed, --tiles says otherwise\n",
           l->mt, l->nt);
}

static void read_partition(lint *l, const dv_jval *v, const dv_jval *work)
{
    // TileLang's format for a whole plan, which has layouts, requires a
    // version; a file with only the attributes of a function has none.
    if (dv_jget(v, "layouts") && !dv_jget(v, "schema_version"))
        lint_report(l, "format", "schema_version is missing");
    for (int32_t i = 0; work->kind == DV_JOBJECT && i < work->n; i++) {
        int64_t x, y;
        if (!core_key(work->items[i].key, &x, &y)) {
            lint_report(l, "format", "'%.40s' is no core", work->items[i].key);
            continue;
        }
        lint_core *c = lint_add_core(l, x, y);
        if (!c)
            return;
        read_tiles(l, &work->items[i], c, l->n - 1);
    }
    guess_grid(l);
}

// Adds the tiles start..start + count - 1 to the work of the core that was
// added last.
static void add_tiles(lint *l, int64_t start, int64_t count)
{
    char who[48];
    if (count < 0)
        lint_report(l, "format", "%s has %" PRId64 " tiles",
                    lint_core_name(l, l->n - 1, who), count);
    else
        lint_add_span(l, start * l->kt, (start + count) * l->kt, l->n - 1);
}

// Adds a core with tiles start..start + count - 1. It is core i of the grid,
// counted row by row.
static void add_range(lint *l, int64_t i, int64_t start, int64_t count)
{
    lint_core *c = lint_add_core(l, l->cols > 0 ? i % l->cols : -1,
                                 l->cols > 0 ? i / l->cols : -1);
    if (c)
        add_tiles(l, start, count);
}

static void square_of(lint *l, int64_t n)
{
    int64_t side = 1;
    while (side * side < n && side < 1 << 16)
        side++;
    if (l->cols < 0 && n > 0) {
        l->cols = side;
        l->rows = dv_ceil_div(n, side);
    }
}

static void read_legacy(lint *l, const dv_jval *v, const dv_jval *tiles)
{
    l->nt = count_of(l, v, "grid_x", 1, l->nt);
    l->mt = count_of(l, v, "grid_y", 1, l->mt);
    square_of(l, count_of(l, v, "num_cores", 0, tiles->n));
    for (int32_t i = 0; i < tiles->n; i++) {
        int64_t a[2];
        if (numbers(l, &tiles->items[i], "tiles of a core", 2, a))
            add_range(l, i, a[0], a[1]);
    }
}

static void read_assignments(lint *l, const dv_jval *grid, const dv_jval *cores)
{
    const dv_jval *list = dv_jget(cores, "assignments");
    l->nt = count_of(l, grid, "x", 1, l->nt);
    l->mt = count_of(l, grid, "y", 1, l->mt);
    l->n_tiles = count_of(l, grid, "total_tiles", 0, -1);
    l->n_cores = count_of(l, cores, "num_cores", 0, -1);
    square_of(l, l->n_cores);
    for (int32_t i = 0; list && i < list->n; i++) {
        const dv_jval *a = &list->items[i];
        int64_t id = i, start, count;
        number(dv_jget(a, "core_id"), &id);
        const dv_jval *n = dv_jget(a, "count");
        if (!number(dv_jget(a, "start_tile"), &start) ||
            !number(n ? n : dv_jget(a, "tile_count"), &count))
            lint_report(l, "format",
                        "assignment %d has no start_tile and count", (int)i);
        else
            add_range(l, id, start, count);
    }
    // If the list of assignments is missing or empty, the stated number of
    // cores cannot be checked.
    l->n_cores = list && list->n ? l->n_cores : -1;
}

// Reads ranges of the form [x0, y0, x1, y1, start, count]: a rectangle, which
// must be a single core, and the tiles start..start + count - 1 that it
// computes.
static int read_six(lint *l, const dv_jval *ranges)
{
    for (int32_t i = 0; i < ranges->n; i++) {
        int64_t a[6];
        const dv_jval *r = &ranges->items[i];
        if (!numbers(l, r, "a range with its tiles", 6, a))
            continue;
        lint_core *c = lint_add_core(l, a[0], a[1]);
        if (!c)
            return 0;
        if (a[0] != a[2] || a[1] != a[3])
            lint_report(l, "format",
                        "one start for cores %" PRId64 ",%" PRId64
                        " to %" PRId64 ",%" PRId64,
                        a[0], a[1], a[2], a[3]);
        add_tiles(l, a[4], a[5]);
    }
    return 1;
}

static void read_table(lint *l, const dv_jval *rows)
{
    for (int32_t i = 0; i < rows->n; i++) {
        lint_core *c = lint_add_core(l, -1, -1);
        if (!c)
            return;
        read_args(l, c, &rows->items[i]);
    }
    lint_sizes_of_args(l);
}

static int is_rows_of(const dv_jval *v, dv_jkind kind)
{
    return v && v->kind == DV_JARRAY &&
           (v->n ? v->items[0].kind == kind : kind == DV_JOBJECT);
}

static void read_object(lint *l, const dv_jval *v)
{
    const dv_jval *rows = dv_jget(v, "rows"), *work = get(v, "work_partition");
    const dv_jval *cores = dv_jget(v, "cores"), *grid = dv_jget(v, "grid");
    const dv_jval *tiles = get(v, "tiles_per_core");
    const dv_jval *ranges = get(v, "core_ranges");
    const dv_jval *args = get(v, "runtime_args");
    read_sizes(l, v);
    lint_check_buffers(l, v);
    if (is_rows_of(rows, DV_JARRAY)) {
        if (!read_names(l, args) && !read_names(l, dv_jget(v, "names")))
            read_names(l, get(v, "runtime_arg_names"));
        read_table(l, rows);
        return;
    }
    int alone = ranges && ranges->kind == DV_JARRAY && !work && !rows &&
                !tiles && !cores;
    int six = ranges && ranges->n && ranges->items[0].n == 6;
    int attributes = alone && !six &&
                     (get(v, "partition_mode") || get(v, "grid_tiles") ||
                      get(v, "core_grid"));
    if (alone && !attributes) {
        read_six(l, ranges);
        return;
    }
    l->has_ranges = read_rects(l, ranges, "a range", &l->ranges);
    if (attributes || (work && !is_rows_of(rows, DV_JOBJECT)))
        read_stage(l, work ? LINT_PARTITION : LINT_ATTRIBUTES, args);
    if (attributes)
        return;
    if (is_rows_of(rows, DV_JOBJECT))
        read_ours(l, v, rows);
    else if (work)
        read_partition(l, v, work);
    else if (tiles && tiles->kind == DV_JARRAY)
        read_legacy(l, v, tiles);
    else if (cores && grid)
        read_assignments(l, grid, cores);
    else
        lint_report(l, "format", "nothing in it is known as a plan of tiles");
}

static dv_status read_devices(lint *l, const dv_jval *v, const dv_jval *list);

dv_status lint_read(lint *l, const dv_source *src)
{
    const dv_jval *v;
    size_t at = 0;
    while (at < src->len && strchr(" \t\r\n", src->text[at]))
        at++;
    if (at == src->len)
        return dv_fail(l->diag, DV_E_FORMAT, (dv_loc){src, DV_FILE},
                       "the file is empty");
    if (src->text[at] != '{')
        return lint_read_csv(l, src);
    DV_TRY(dv_json_parse(&v, src, &l->arena, l->diag));
    const dv_jval *devices = dv_jget(v, "devices");
    if (devices && devices->kind == DV_JARRAY)
        return read_devices(l, v, devices);
    read_object(l, v);
    return l->failed ? dv_nomem(l->diag) : DV_OK;
}

static int64_t overlap(const int64_t *a, const int64_t *b)
{
    int64_t n = 1;
    for (int d = 0; d < 3; d++) {
        int64_t lo = dv_max_i64(a[2 * d], b[2 * d]);
        int64_t hi = dv_min_i64(a[2 * d + 1], b[2 * d + 1]);
        n *= hi > lo ? 1 : 0;
    }
    return n;
}

// Checks every device as a plan of its own, and that the devices' boxes
// (rectangles of tiles) cover the whole tile grid.
static dv_status read_devices(lint *l, const dv_jval *v, const dv_jval *list)
{
    int64_t whole[2] = {0, 0}, kt = count_of(l, v, "Kt", 1, 1);
    double sum = 0;
    int64_t *boxes = DV_NEW(&l->arena, int64_t, 6 * (list->n + 1));
    if (!boxes)
        return dv_nomem(l->diag);
    numbers(l, dv_jget(v, "grid_tiles"), "grid_tiles", 2, whole);
    for (int32_t i = 0; i < list->n; i++) {
        int64_t *b = &boxes[6 * i];
        lint part = {LINT_EMPTY,          .diag = l->diag,
                     .arena = l->arena,   .target = l->target,
                     .holes = l->holes,   .n_given = l->n_given,
                     .report = l->report, .n_defects = l->n_defects,
                     .is_part = 1};
        if (numbers(l, dv_jget(&list->items[i], "box_mnk"), "box_mnk", 6, b))
            for (int32_t k = 0; k < i; k++)
                if (overlap(b, &boxes[6 * k]))
                    lint_report(&part, "duplicate",
                                "devices %d and %d share tiles", (int)k,
                                (int)i);
        sum += (double)(b[1] - b[0]) * (double)(b[3] - b[2]) *
               (double)(b[5] - b[4]);
        read_object(&part, &list->items[i]);
        if (part.mt != b[1] - b[0] || part.nt != b[3] - b[2] ||
            part.kt != b[5] - b[4])
            lint_report(&part, "lost",
                        "device %d has %" PRId64 "x%" PRId64 "x%" PRId64
                        " tiles, its box has %" PRId64 "x%" PRId64 "x%" PRId64,
                        (int)i, part.mt, part.nt, part.kt, b[1] - b[0],
                        b[3] - b[2], b[5] - b[4]);
        lint_check_all(&part);
        // `part`, the plan of one device, continued the arena and the report of
        // the whole file; take them back, since they may have grown.
        l->arena = part.arena;
        l->report = part.report;
        l->n_defects = part.n_defects;
        l->failed |= part.failed;
    }
    double need = (double)whole[0] * (double)whole[1] * (double)kt;
    if (sum != need)
        lint_report(l, "lost", "devices have %.0f steps of %.0f", sum, need);
    l->n_parts = list->n;
    return l->failed ? dv_nomem(l->diag) : DV_OK;
}
