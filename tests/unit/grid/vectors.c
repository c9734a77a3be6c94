// Known vectors of tiles on cores (tests/vectors/grid.txt): each is compared
// with the line that this library writes, or the reason why not is listed.
#define _POSIX_C_SOURCE 200809L // strtok_r
#include "harness/test.h"
#include "harness/grids.h"
#include <inttypes.h>

// -- Vectors -----------------------------------------------------------------

static void put_rects(dv_text *out, const dv_grid_rects *r)
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
    dv_grid_task t = matrix_task(shape, cols, rows);
    t.split = way[0] == 'r' ? DV_CORES_BY_ROW : DV_CORES_BY_COLUMN;
    dv_grid *g = grid_of(&t);
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

// Writes a line and its rows as this library computes them.
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
    dv_grid_task t = matrix_task(shape, 8, 8);
    t.shards = &s;
    t.n_shards = 1;
    dv_grid *g = grid_of(&t);
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
    dv_grid_task t = matrix_task(shape, p, 1);
    t.depth = 32 * kt;
    t.policy = "streamk";
    dv_grid *g = grid_of(&t);
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
           (tiles + p - 1) / p * kt, most, g->split_tiles, g->max_contributors,
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
        dv_grid_task t = matrix_task(shape, p, 1);
        t.depth = 320;
        t.policy = i ? "streamk2" : "streamk1";
        dv_grid *g = grid_of(&t);
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

TEST(vectors)
{
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
            continue; // written with the line they belong to
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

// Reads "2x256x256" as numbers.
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

// Reads SHAPE COLSxROWS SHARDS, where shards are GYxGX/SMxSN joined by +, or -.
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
    dv_grid *g = grid_of(&k.task);
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
    grid_refused(&k.task, DV_E_SHAPE, text);
}

TEST(cases)
{
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(vectors),
                                       cmocka_unit_test(cases)};
    return run_group(tests, NULL, NULL);
}
