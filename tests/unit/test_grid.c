// Tiles on cores: known vectors (tests/vectors/grid.txt), each as the line we
// would have written; what a known implementation loses; limits; orders both
// ways; queues between threads.
#define _POSIX_C_SOURCE 200809L // strtok_r
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/diag.h"
#include "grid/grid.h"
#include "grid/queue.h"
#include "target/target.h"
#include <pthread.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// -- Making grids ------------------------------------------------------------

static dv_grid *make(const dv_grid_task *t)
{
    dv_diag *diag = dv_diag_create();
    dv_grid *g = NULL;
    if (dv_grid_create(&g, t, diag) != DV_OK)
        fail_msg("%s", dv_diag_text(diag));
    dv_diag_destroy(diag);
    return g;
}

static dv_grid_task matrix(const int64_t *shape, int64_t cols, int64_t rows)
{
    dv_grid_task t = DV_GRID_TASK_INIT;
    t.shape = shape;
    t.n_dims = 2;
    t.core_cols = cols;
    t.core_rows = rows;
    return t;
}

static void refused(const dv_grid_task *t, dv_status want, const char *words)
{
    dv_diag *diag = dv_diag_create();
    dv_grid *g = NULL;
    assert_int_equal(dv_grid_create(&g, t, diag), want);
    assert_null(g);
    if (!strstr(dv_diag_text(diag), words))
        fail_msg("no '%s' in: %s", words, dv_diag_text(diag));
    dv_diag_destroy(diag);
}

// -- Vectors -----------------------------------------------------------------

static void put_rects(dv_text *out, const dv_rects *r)
{
    dv_put(out, " | ");
    for (int32_t i = 0; i < r->n; i++)
        dv_put(out, "%s%d,%d,%d,%d", i ? " " : "", r->at[i].x0, r->at[i].y0,
               r->at[i].x1, r->at[i].y1);
    if (!r->n)
        dv_put(out, "-");
}

static int split_line(const char *line, dv_text *out)
{
    int64_t cols, rows, units;
    char way[8];
    if (sscanf(line, "split %" SCNd64 " %" SCNd64 " %" SCNd64 " %7s", &cols,
               &rows, &units, way) != 4)
        return 0;
    int64_t shape[] = {32, 32 * units};
    dv_grid_task t = matrix(shape, cols, rows);
    t.split = way[0] == 'r' ? "row" : "column";
    dv_grid *g = make(&t);
    dv_put(out, "split %" PRId64 " %" PRId64 " %" PRId64 " %s : %d", cols, rows,
           units, way, g->n_cores);
    put_rects(out, &g->all);
    put_rects(out, &g->group_1);
    put_rects(out, &g->group_2);
    dv_put(out, " | %" PRId64 ",%" PRId64, g->units_1, g->units_2);
    dv_grid_destroy(g);
    return 1;
}

static int order_line(const char *line, dv_text *out)
{
    dv_order o = {0};
    char word[32];
    if (sscanf(line, "order %" SCNd64 " %" SCNd64 " %31s %" SCNd64 " %" SCNd64,
               &o.mt, &o.nt, word, &o.sm, &o.sn) != 5)
        return 0;
    assert_true(dv_order_parse(&o, word));
    dv_put(out, "order %" PRId64 " %" PRId64 " ", o.mt, o.nt);
    dv_order_print(out, &o);
    dv_put(out, " %" PRId64 " %" PRId64 " :", o.sm, o.sn);
    for (int64_t id = 0; id < o.mt * o.nt; id++) {
        int64_t m, n;
        dv_order_tile(&o, id, &m, &n);
        dv_put(out, " %" PRId64 ",%" PRId64, m, n);
    }
    return 1;
}

// A line with its rows: all of them are ours.
static int shard_line(const char *line, dv_text *out)
{
    int64_t mt, nt, sm, sn, gy, gx;
    if (sscanf(line,
               "shard %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64
               " %" SCNd64,
               &mt, &nt, &sm, &sn, &gy, &gx) != 6)
        return 0;
    int64_t shape[] = {32 * mt, 32 * nt};
    dv_shard_spec s = {"c", {gy, gx}, {sm, sn}};
    dv_grid_task t = matrix(shape, 8, 8);
    t.shards = &s;
    t.n_shards = 1;
    dv_grid *g = make(&t);
    dv_put(out, "%s", line);
    for (int32_t i = 0; i < g->n_cores; i++) {
        const dv_grid_core *c = &g->cores[i];
        int64_t first[3], last[3];
        assert_true(dv_grid_ends(g, c, first, last));
        dv_put(out, "\nrow %" PRId64 ",%" PRId64 ",%d,%d", c->sy, c->sx, c->x,
               c->y);
        assert_int_equal(g->n_args, 11);
        for (int k = 0; k < 11; k++)
            dv_put(out, ",%" PRId64, c->args[k]);
        dv_put(out,
               ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64
               ",%" PRId64 ",%" PRId64,
               first[1], first[2], last[1], last[2], first[1] * nt + first[2],
               last[1] * nt + last[2], c->steps / g->kt);
    }
    dv_grid_destroy(g);
    return 1;
}

static void put_core(dv_text *out, const dv_grid *g, int32_t i, int name)
{
    const dv_grid_core *c = &g->cores[i];
    dv_put(out, "\ncore %d %" PRId64 " %" PRId64 " :", name, c->iter0,
           c->iter1);
    for (int32_t s = 0; s < c->n_segments; s++)
        for (int64_t k = 0; k < c->segments[s].count; k++)
            dv_put(out, " %" PRId64 ",%" PRId64 ",%" PRId64,
                   c->segments[s].first + k, c->segments[s].k0,
                   c->segments[s].k1);
}

static int stream_line(const char *line, dv_text *out)
{
    int64_t tiles, kt, p, most = 0, least = INT64_MAX, extra = 0, pieces = 0;
    if (sscanf(line, "stream %" SCNd64 " %" SCNd64 " %" SCNd64, &tiles, &kt,
               &p) != 3)
        return 0;
    int64_t shape[] = {32, 32 * tiles};
    dv_grid_task t = matrix(shape, p, 1);
    t.depth = 32 * kt;
    t.policy = "streamk";
    dv_grid *g = make(&t);
    for (int32_t i = 0; i < g->n_cores; i++) {
        int64_t s = g->cores[i].steps;
        most = s > most ? s : most;
        least = s < least ? s : least;
        for (int32_t k = 0; k < g->cores[i].n_segments; k++)
            pieces += g->cores[i].segments[k].count;
    }
    for (int32_t i = 0; i < g->n_cores; i++)
        extra += g->cores[i].steps > least;
    dv_put(out,
           "stream %" PRId64 " %" PRId64 " %" PRId64 " : %" PRId64 " %" PRId64
           " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64
           " %" PRId64 " %" PRId64,
           tiles, kt, p, g->n_steps, most, least, extra,
           (tiles + p - 1) / p * kt, most, g->split_tiles, g->max_peers,
           pieces);
    for (int32_t i = 0; i < 4 && i < g->n_cores; i++)
        put_core(out, g, i, i);
    put_core(out, g, g->n_cores - 1, -1);
    dv_grid_destroy(g);
    return 1;
}

static int hybrid_line(const char *line, dv_text *out)
{
    int64_t tiles, p, dp[2], sk[2];
    if (sscanf(line, "hybrid %" SCNd64 " %" SCNd64, &tiles, &p) != 2)
        return 0;
    for (int i = 0; i < 2; i++) {
        int64_t shape[] = {32, 32 * tiles};
        dv_grid_task t = matrix(shape, p, 1);
        t.depth = 320;
        t.policy = i ? "streamk2" : "streamk1";
        dv_grid *g = make(&t);
        dp[i] = g->dp_tiles;
        sk[i] = g->sk_tiles;
        dv_grid_destroy(g);
    }
    dv_put(out,
           "hybrid %" PRId64 " %" PRId64 " : %" PRId64 " %" PRId64 " %" PRId64
           " %" PRId64 " %" PRId64 " %" PRId64,
           tiles, p, tiles / p, tiles % p, dp[0], sk[0], dp[1], sk[1]);
    return 1;
}

static int numbers(const char *text, int64_t *out)
{
    int n = 0;
    for (const char *at = text; *at; at += *at == ',') {
        char *end;
        out[n++] = strtoll(at, &end, 10);
        at = end;
    }
    return n;
}

static int page_line(const char *line, dv_text *out)
{
    char tensor[32], shard[32], page[32];
    int64_t banks, x[3][8];
    dv_page p;
    if (sscanf(line, "page %" SCNd64 " %31s %31s %31s", &banks, tensor, shard,
               page) != 4)
        return 0;
    int n = numbers(tensor, x[0]);
    assert_int_equal(numbers(shard, x[1]), n);
    assert_int_equal(numbers(page, x[2]), n);
    assert_true(dv_page_of(&p, n, x[0], x[1], banks, x[2]));
    dv_put(out, "page %" PRId64 " %s %s %s : %" PRId64 " %" PRId64 " %" PRId64,
           banks, tensor, shard, page, p.shard, p.bank, p.offset);
    return 1;
}

static void vectors(void **unused)
{
    (void)unused;
    FILE *f = fopen(DV_SOURCE_DIR "/tests/vectors/grid.txt", "r");
    assert_non_null(f);
    dv_text want = {0}, got = {0};
    char line[1024];
    int n = 0;
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        if (line[0] == '#')
            continue;
        dv_put(&want, "%s%s", want.len ? "\n" : "", line);
        if (!strncmp(line, "row ", 4) || !strncmp(line, "core ", 5))
            continue; // made with the line they belong to
        if (got.len)
            dv_put(&got, "\n");
        assert_true(split_line(line, &got) || order_line(line, &got) ||
                    shard_line(line, &got) || stream_line(line, &got) ||
                    hybrid_line(line, &got) || page_line(line, &got));
        n++;
    }
    fclose(f);
    assert_int_equal(n, 63);
    size_t same = 0;
    while (want.at[same] && want.at[same] == got.at[same])
        same++;
    while (same > 0 && want.at[same - 1] != '\n')
        same--;
    if (strcmp(want.at, got.at))
        fail_msg("wanted %.300s\n\ngot %.300s", want.at + same, got.at + same);
    dv_text_free(&want);
    dv_text_free(&got);
}

// -- Every vector by its name ------------------------------------------------

// "2x256x256" as numbers.
static int dims(const char *text, int64_t *out)
{
    int n = 0;
    for (const char *at = text; *at; at += *at == 'x') {
        char *end;
        out[n++] = strtoll(at, &end, 10);
        at = end;
    }
    return n;
}

typedef struct known {
    int64_t shape[4], cores[2];
    dv_shard_spec shards[2];
    dv_grid_task task;
} known;

// SHAPE COLSxROWS SHARDS, where shards are GYxGX/SMxSN joined by +, or -.
static void read_case(const char *text, known *k)
{
    char shape[32], cores[32], shards[64];
    int64_t g[2], t[2];
    assert_int_equal(sscanf(text, "%31s %31s %63s", shape, cores, shards), 3);
    *k = (known){.task = DV_GRID_TASK_INIT};
    k->task.n_dims = dims(shape, k->shape);
    k->task.shape = k->shape;
    dims(cores, k->cores);
    k->task.core_cols = k->cores[0];
    k->task.core_rows = k->cores[1];
    char *save = NULL;
    for (char *at = strtok_r(shards, "+", &save); at && *at != '-';
         at = strtok_r(NULL, "+", &save)) {
        char *tiles = strchr(at, '/');
        assert_non_null(tiles);
        *tiles++ = 0;
        dims(at, g);
        dims(tiles, t);
        size_t n = k->task.n_shards++;
        assert_true(n < 2);
        k->shards[n] =
            (dv_shard_spec){n ? "c" : "a", {g[0], g[1]}, {t[0], t[1]}};
    }
    k->task.shards = k->shards;
}

static void judge_case(const char *id, const char *text)
{
    known k;
    read_case(text, &k);
    dv_grid *g = make(&k.task);
    dv_grid_figures f;
    dv_text got = {0};
    int64_t tiles = 0;
    dv_grid_measure(g, &f);
    for (int32_t i = 0; i < g->n_cores; i++)
        tiles += g->cores[i].steps / g->kt;
    dv_put(&got,
           "%s %" PRId64 "x%" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %d",
           g->local_shard ? "local_shard" : "global", g->mt, g->nt, tiles,
           f.busy, f.max_steps / g->kt, g->n_args);
    if (strcmp(got.at, strstr(text, ": ") + 2))
        fail_msg("%s: %s, not %s", id, got.at, strstr(text, ": ") + 2);
    dv_text_free(&got);
    dv_grid_destroy(g);
}

static void judge_error(char *text)
{
    known k;
    char *colon = strstr(text, " : ");
    assert_non_null(colon);
    *colon = 0;
    read_case(colon + 3, &k);
    refused(&k.task, DV_E_SHAPE, text);
}

static void cases(void **unused)
{
    (void)unused;
    FILE *f = fopen(DV_SOURCE_DIR "/tests/vectors/grid_cases.txt", "r");
    assert_non_null(f);
    char line[512];
    int n = 0, judged = 0, elsewhere = 0;
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        char *text = strstr(line, ": ");
        if (line[0] == '#')
            continue;
        assert_non_null(text);
        *text = 0;
        text += 2;
        n++;
        if (!strncmp(text, "case ", 5))
            judge_case(line, text + 5);
        else if (!strncmp(text, "error ", 6))
            judge_error(text + 6);
        else if (!strcmp(text, "vector") || !strcmp(text, "lint"))
            elsewhere++;
        else
            assert_true(!strncmp(text, "not ", 4) && strlen(text) > 20);
        judged += text[0] == 'c' || text[0] == 'e';
    }
    fclose(f);
    assert_int_equal(n, 124);
    assert_true(judged >= 45 && elsewhere >= 60);
}

// -- What is lost elsewhere --------------------------------------------------

static int64_t tiles_of(const dv_grid *g, int32_t *busy)
{
    int64_t sum = 0;
    *busy = 0;
    for (int32_t i = 0; i < g->n_cores; i++) {
        sum += g->cores[i].steps / g->kt;
        *busy += g->cores[i].steps > 0;
    }
    return sum;
}

static void losses(void **unused)
{
    (void)unused;
    int32_t busy;
    // Shards that are not a square: all 8 cores, all 64 tiles.
    for (int turned = 0; turned < 2; turned++) {
        int64_t shape[] = {256, 256};
        dv_shard_spec s = {"c", {2, 4}, {4, 2}};
        if (turned)
            s = (dv_shard_spec){"c", {4, 2}, {2, 4}};
        dv_grid_task t = matrix(shape, 8, 8);
        t.shards = &s;
        t.n_shards = 1;
        dv_grid *g = make(&t);
        assert_int_equal(tiles_of(g, &busy), 64);
        assert_int_equal(busy, 8);
        for (int32_t i = 0; i < g->n_cores; i++) {
            assert_int_equal(g->cores[i].x, g->cores[i].sx);
            assert_int_equal(g->cores[i].y, g->cores[i].sy);
        }
        dv_grid_destroy(g);
    }
    // Uneven division keeps every core busy; dims, edges and names are real.
    static const struct {
        int64_t shape[3];
        int n_dims;
        int64_t mt, nt, tiles;
        int32_t busy;
    } cases[] = {
        {{160, 416}, 2, 5, 13, 65, 64},    {{96, 1376}, 2, 3, 43, 129, 64},
        {{2, 256, 256}, 3, 8, 8, 128, 64}, {{100, 100}, 2, 4, 4, 16, 16},
        {{1024}, 1, 1, 32, 32, 32},        {{64, 96}, 2, 2, 3, 6, 6},
        {{0, 256}, 2, 0, 8, 0, 0},         {{64, 64}, 2, 2, 2, 4, 4},
        {{32, 32}, 2, 1, 1, 1, 1},         {{512, 512}, 2, 16, 16, 256, 64},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dv_grid_task t = matrix(cases[i].shape, 8, 8);
        t.n_dims = cases[i].n_dims;
        dv_grid *g = make(&t);
        assert_int_equal(g->mt, cases[i].mt);
        assert_int_equal(g->nt, cases[i].nt);
        assert_int_equal(tiles_of(g, &busy), cases[i].tiles);
        assert_int_equal(busy, cases[i].busy);
        dv_grid_destroy(g);
    }
}

static void edges(void **unused)
{
    (void)unused;
    int64_t shape[] = {100, 70}, h, w;
    dv_grid_task t = matrix(shape, 8, 8);
    dv_grid *g = make(&t);
    dv_grid_edge(g, 0, 0, &h, &w);
    assert_true(h == 32 && w == 32);
    dv_grid_edge(g, 3, 2, &h, &w);
    assert_true(h == 4 && w == 6);
    dv_grid_destroy(g);
}

static void limits(void **unused)
{
    (void)unused;
    int64_t shape[] = {256, 256};
    dv_target *wormhole = NULL;
    assert_int_equal(dv_target_load(&wormhole, "wormhole", NULL), DV_OK);
    dv_grid_task t = matrix(shape, 9, 8);
    t.target = wormhole;
    refused(&t, DV_E_CAPACITY, "9x8 cores: wormhole has 8x8");
    dv_shard_spec two[] = {{"a", {2, 2}, {4, 4}}, {"c", {4, 4}, {2, 2}}};
    t = matrix(shape, 8, 8);
    t.shards = two;
    t.n_shards = 2;
    refused(&t, DV_E_SHAPE, "c has 4x4 shards of 2x2 tiles, a has 2x2 of 4x4");
    t.n_shards = 1;
    two[0] = (dv_shard_spec){"a", {2, 4}, {2, 2}};
    refused(&t, DV_E_SHAPE,
            "2x4 shards of 2x2 tiles are 4x8 tiles, the result has 8x8");
    two[0] = (dv_shard_spec){"a", {8, 4}, {1, 2}};
    t.core_rows = 4;
    refused(&t, DV_E_CAPACITY,
            "shards on 4x8 cores (columns x rows), the grid has 8x4");
    dv_core_rect hole = {1, 0, 1, 0}, out = {0, 0, 8, 0};
    two[0] = (dv_shard_spec){"a", {2, 2}, {4, 4}};
    t.holes = &hole;
    t.n_holes = 1;
    refused(&t, DV_E_CAPACITY, "is for core 1,0");
    t.holes = &out;
    refused(&t, DV_E_CAPACITY, "not on the grid of 8x4 cores");
    // A shard larger than a core's memory.
    int64_t large[] = {4096, 4096};
    dv_shard_spec one = {"c", {2, 2}, {64, 64}};
    t = matrix(large, 0, 0);
    t.target = wormhole;
    t.shards = &one;
    t.n_shards = 1;
    refused(&t, DV_E_CAPACITY, "its memory has 1499136");
    t = matrix(large, 8, 8);
    t.order = "grouped";
    refused(&t, DV_E_USAGE, "there is no order 'grouped'");
    t.order = NULL;
    t.policy = "splitk(3)";
    refused(&t, DV_E_SHAPE, "3 parts of a depth of 1 tiles");
    dv_target_destroy(wormhole);
}

// Panels that an independent count gives, for static ranges.
static void panels(void **unused)
{
    (void)unused;
    static const struct {
        int64_t mt, nt, cols, rows;
        const char *order;
        int64_t panels;
    } cases[] = {
        {32, 32, 8, 8, "row_major", 1088},
        {32, 32, 8, 8, "grouped(4)", 512},
        {64, 64, 8, 8, "block_linear(4)", 1280},
        {20, 20, 8, 8, "snake", 448},
        {20, 20, 8, 8, "hilbert", 359},
        {28, 24, 8, 7, "morton", 504},
        {128, 128, 13, 10, "hilbert", 3557},
        {128, 128, 13, 10, "morton", 4101},
        {128, 128, 13, 10, "grouped(8)", 3300},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t shape[] = {32 * cases[i].mt, 32 * cases[i].nt};
        int sampled;
        dv_grid_task t = matrix(shape, cases[i].cols, cases[i].rows);
        t.order = cases[i].order;
        dv_grid *g = make(&t);
        assert_int_equal(dv_grid_panels(g, &g->order, &sampled),
                         cases[i].panels);
        assert_false(sampled);
        dv_grid_destroy(g);
    }
    int64_t shape[] = {32 * 128, 32 * 128};
    dv_grid_task t = matrix(shape, 13, 10);
    t.depth = 64;
    t.order = "auto";
    dv_grid *g = make(&t);
    int sampled;
    assert_true(dv_grid_panels(g, &g->order, &sampled) <= 3300);
    dv_grid_destroy(g);
    assert_int_equal(dv_banks_touched(12, 24, 100), 1);
    assert_int_equal(dv_banks_touched(12, 20, 100), 3);
    assert_int_equal(dv_banks_touched(12, 13, 100), 12);
    assert_int_equal(dv_banks_touched(12, 13, 5), 5);
}

// Every tile has one place, and the place leads back.
static void orders(void **unused)
{
    (void)unused;
    static const char *const words[] = {
        "row_major",       "column_major", "snake",      "grouped(1)",
        "grouped(3)",      "grouped(99)",  "morton",     "block_linear(1)",
        "block_linear(3)", "hilbert",      "grouped(4)", "block_linear(99)",
        "swizzle(1)",      "swizzle(4)",   "zigzag",     "swizzle(99)"};
    uint8_t seen[23 * 23];
    for (size_t w = 0; w < sizeof words / sizeof *words; w++)
        for (int64_t mt = 1; mt <= 23; mt++)
            for (int64_t nt = 1; nt <= 23; nt++) {
                dv_order o = {.mt = mt, .nt = nt};
                assert_true(dv_order_parse(&o, words[w]));
                memset(seen, 0, sizeof seen);
                for (int64_t id = 0; id < mt * nt; id++) {
                    int64_t m = -1, n = -1;
                    dv_order_tile(&o, id, &m, &n);
                    assert_true(m >= 0 && m < mt && n >= 0 && n < nt);
                    assert_false(seen[m * nt + n]++);
                    assert_int_equal(dv_order_id(&o, m, n), id);
                }
            }
}

// -- Queues ------------------------------------------------------------------

enum { QUEUE_TILES = 10000, QUEUE_CORES = 16 };

typedef struct worker {
    dv_queue *queue;
    int32_t core;
    int64_t ran;
    _Atomic int *owned;
} worker;

static void *work(void *arg)
{
    worker *w = arg;
    int64_t first, count;
    while (dv_queue_next(w->queue, w->core, &first, &count))
        for (int64_t i = 0; i < count; i++) {
            atomic_fetch_add(&w->owned[first + i], 1);
            w->ran++;
            // Some cores are slow, so that others take their tiles.
            for (volatile int k = 0; w->core % 4 == 0 && k < 2000; k++)
                ;
        }
    return NULL;
}

static void queues(void **unused)
{
    (void)unused;
    static _Atomic int owned[QUEUE_TILES];
    for (int steal = 0; steal < 2; steal++)
        for (int64_t chunk = 1; chunk < 9; chunk += 7) {
            dv_queue q;
            worker w[QUEUE_CORES];
            pthread_t threads[QUEUE_CORES];
            int64_t ran = 0;
            for (int i = 0; i < QUEUE_TILES; i++)
                atomic_store(&owned[i], 0);
            assert_true(
                dv_queue_init(&q, QUEUE_TILES, QUEUE_CORES, chunk, steal));
            for (int32_t i = 0; i < QUEUE_CORES; i++) {
                w[i] = (worker){&q, i, 0, owned};
                assert_int_equal(pthread_create(&threads[i], NULL, work, &w[i]),
                                 0);
            }
            for (int i = 0; i < QUEUE_CORES; i++) {
                pthread_join(threads[i], NULL);
                ran += w[i].ran;
            }
            for (int i = 0; i < QUEUE_TILES; i++)
                assert_int_equal(atomic_load(&owned[i]), 1);
            assert_int_equal(ran, QUEUE_TILES);
            dv_queue_free(&q);
        }
    dv_queue q;
    assert_false(dv_queue_init(&q, (int64_t)1 << 40, 4, 1, 1));
}

// A million tiles are planned as quickly as ten: nothing is listed.
static void large(void **unused)
{
    (void)unused;
    int64_t shape[] = {32000, 32000};
    static const char *const words[] = {"row_major", "hilbert", "morton",
                                        "grouped(8)"};
    for (int i = 0; i < 4; i++) {
        dv_grid_task t = matrix(shape, 13, 10);
        t.depth = 320;
        t.order = words[i];
        t.policy = i == 3 ? "streamk2" : "static";
        dv_mem_fail_at(-1);
        dv_grid *g = make(&t);
        assert_int_equal(g->n_tiles, 1000000);
        assert_true(dv_mem_calls() < 40);
        assert_true(g->n_segments <= 4 * 130);
        int32_t busy;
        tiles_of(g, &busy);
        assert_int_equal(busy, 130);
        dv_grid_destroy(g);
    }
}

// Every allocation fails once: a status, nothing half made.
static void memory(void **unused)
{
    (void)unused;
    int64_t shape[] = {160, 416};
    static const char *const policies[] = {"static", "rect", "streamk"};
    for (int i = 0; i < 6; i++) {
        dv_shard_spec s = {"c", {5, 1}, {1, 13}};
        dv_grid_task t = matrix(shape, 8, 8);
        t.depth = 256;
        t.policy = i < 3 ? policies[i] : NULL;
        t.order = i == 3 ? "auto" : NULL;
        t.devices[0] = i == 4 ? 2 : 0;
        t.shards = &s;
        t.n_shards = i == 5;
        int done = 0;
        for (int64_t n = 0; !done; n++) {
            dv_grid *g = NULL;
            char *json = NULL, *report = NULL;
            int64_t defects = -1;
            dv_mem_fail_at(n);
            dv_status st = dv_grid_create(&g, &t, NULL);
            if (st == DV_OK)
                json = dv_grid_json(g);
            if (json)
                st = dv_lint(json, strlen(json), "g", NULL, &defects, &report,
                             NULL);
            dv_mem_fail_at(-1);
            done = st == DV_OK && json;
            assert_true(st == DV_OK || st == DV_E_NOMEM);
            assert_true(!done || defects == 0);
            dv_free(report);
            dv_free(json);
            dv_grid_destroy(g);
            assert_true(n < 2000);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors), cmocka_unit_test(cases),
        cmocka_unit_test(losses),  cmocka_unit_test(edges),
        cmocka_unit_test(limits),  cmocka_unit_test(panels),
        cmocka_unit_test(orders),  cmocka_unit_test(queues),
        cmocka_unit_test(large),   cmocka_unit_test(memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
