// C21: tiles on cores: cases in which a known implementation loses tiles;
// limits; orders in both directions; queues between threads. Known vectors are
// in vectors.c.
#define _POSIX_C_SOURCE 200809L // strtok_r
#include "harness/test.h"
#include "base/diag.h"
#include "grid/grid.h"
#include "grid/queue.h"
#include "target/target.h"
#include "harness/grids.h"
#include <pthread.h>
#include <inttypes.h>

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

TEST(losses)
{
    int32_t busy;
    // Shards that are not square use all 8 cores and all 64 tiles.
    for (int turned = 0; turned < 2; turned++) {
        int64_t shape[] = {256, 256};
        dv_shard_spec s = {"c", {2, 4}, {4, 2}};
        if (turned)
            s = (dv_shard_spec){"c", {4, 2}, {2, 4}};
        dv_grid_task t = matrix_task(shape, 8, 8);
        t.shards = &s;
        t.n_shards = 1;
        dv_grid *g = grid_of(&t);
        assert_int_equal(tiles_of(g, &busy), 64);
        assert_int_equal(busy, 8);
        for (int32_t i = 0; i < g->n_cores; i++) {
            assert_int_equal(g->cores[i].x, g->cores[i].sx);
            assert_int_equal(g->cores[i].y, g->cores[i].sy);
        }
        dv_grid_destroy(g);
    }
    // Uneven division keeps every core busy; dims, remainders and names are
    // supported.
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
        dv_grid_task t = matrix_task(cases[i].shape, 8, 8);
        t.n_dims = cases[i].n_dims;
        dv_grid *g = grid_of(&t);
        assert_int_equal(g->mt, cases[i].mt);
        assert_int_equal(g->nt, cases[i].nt);
        assert_int_equal(tiles_of(g, &busy), cases[i].tiles);
        assert_int_equal(busy, cases[i].busy);
        dv_grid_destroy(g);
    }
}

TEST(edges)
{
    int64_t shape[] = {100, 70}, h, w;
    dv_grid_task t = matrix_task(shape, 8, 8);
    dv_grid *g = grid_of(&t);
    dv_grid_edge(g, 0, 0, &h, &w);
    assert_true(h == 32 && w == 32);
    dv_grid_edge(g, 3, 2, &h, &w);
    assert_true(h == 4 && w == 6);
    dv_grid_destroy(g);
}

TEST(limits)
{
    int64_t shape[] = {256, 256};
    dv_target *wormhole = NULL;
    assert_int_equal(dv_target_load(&wormhole, "wormhole", NULL), DV_OK);
    dv_grid_task t = matrix_task(shape, 9, 8);
    t.target = wormhole;
    grid_refused(&t, DV_E_CAPACITY, "9x8 cores: wormhole has 8x8");
    dv_shard_spec two[] = {{"a", {2, 2}, {4, 4}}, {"c", {4, 4}, {2, 2}}};
    t = matrix_task(shape, 8, 8);
    t.shards = two;
    t.n_shards = 2;
    grid_refused(&t, DV_E_SHAPE,
                 "c has 4x4 shards of 2x2 tiles, a has 2x2 of 4x4");
    t.n_shards = 1;
    two[0] = (dv_shard_spec){"a", {2, 4}, {2, 2}};
    grid_refused(&t, DV_E_SHAPE,
                 "2x4 shards of 2x2 tiles are 4x8 tiles, the result has 8x8");
    two[0] = (dv_shard_spec){"a", {8, 4}, {1, 2}};
    t.core_rows = 4;
    grid_refused(&t, DV_E_CAPACITY,
                 "shards on 4x8 cores (columns x rows), the grid has 8x4");
    dv_core_rect hole = {1, 0, 1, 0}, out = {0, 0, 8, 0};
    two[0] = (dv_shard_spec){"a", {2, 2}, {4, 4}};
    t.holes = &hole;
    t.n_holes = 1;
    grid_refused(&t, DV_E_CAPACITY, "is for core 1,0");
    t.holes = &out;
    grid_refused(&t, DV_E_CAPACITY, "not on the grid of 8x4 cores");
    // A shard larger than the memory of a core is refused.
    int64_t large[] = {4096, 4096};
    dv_shard_spec one = {"c", {2, 2}, {64, 64}};
    t = matrix_task(large, 0, 0);
    t.target = wormhole;
    t.shards = &one;
    t.n_shards = 1;
    grid_refused(&t, DV_E_CAPACITY, "its memory has 1499136");
    t = matrix_task(large, 8, 8);
    t.order = "grouped";
    grid_refused(&t, DV_E_USAGE, "there is no order 'grouped'");
    t.order = NULL;
    t.policy = "splitk(3)";
    grid_refused(&t, DV_E_SHAPE, "3 parts of a depth of 1 tile");
    dv_target_destroy(wormhole);
}

// Holes of the target and of the caller are combined; no corner of the grid is
// left over.
TEST(target_holes)
{
    const int64_t shape[] = {256, 256};
    const dv_core_rect row = {0, 3, 7, 3}, corner = {0, 0, 7, 2};
    dv_target *wormhole = NULL;
    assert_int_equal(dv_target_load(&wormhole, "wormhole", NULL), DV_OK);
    dv_grid_task t = matrix_task(shape, 0, 0);
    t.target = wormhole;
    assert_int_equal(
        dv_target_restrict(wormhole, NULL, 0, &row, 1, DV_NOWHERE, NULL),
        DV_OK);
    dv_grid *g = grid_of(&t);
    assert_int_equal(g->set.n, 56);
    assert_int_equal(g->n_cores, 56);
    assert_int_equal(g->all.n, 2);
    dv_grid_destroy(g);
    t.core_cols = 8, t.core_rows = 4;
    t.holes = &corner;
    t.n_holes = 1;
    grid_refused(&t, DV_E_CAPACITY, "none of the 32 cores is allowed");
    dv_target_destroy(wormhole);
}

// The numbers of panels of static ranges equal an independent count.
TEST(panels)
{
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
        dv_grid_task t = matrix_task(shape, cases[i].cols, cases[i].rows);
        t.order = cases[i].order;
        dv_grid *g = grid_of(&t);
        assert_int_equal(dv_grid_panels(g, &g->order, &sampled),
                         cases[i].panels);
        assert_false(sampled);
        dv_grid_destroy(g);
    }
    int64_t shape[] = {32 * 128, 32 * 128};
    dv_grid_task t = matrix_task(shape, 13, 10);
    t.depth = 64;
    t.order = "auto";
    dv_grid *g = grid_of(&t);
    int sampled;
    assert_true(dv_grid_panels(g, &g->order, &sampled) <= 3300);
    dv_grid_destroy(g);
    assert_int_equal(dv_banks_touched(12, 24, 100), 1);
    assert_int_equal(dv_banks_touched(12, 20, 100), 3);
    assert_int_equal(dv_banks_touched(12, 13, 100), 12);
    assert_int_equal(dv_banks_touched(12, 13, 5), 5);
}

// Every tile has one position in an order, and the position leads back to the
// tile.
TEST(orders)
{
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
                }
            }
}

// -- Queues ------------------------------------------------------------------

enum { QUEUE_TILES = 10000, QUEUE_CORES = 16 };

typedef struct thread_state {
    dv_queue *queue;
    int32_t core;
    int64_t ran;
    _Atomic int *owned;
} thread_state;

static void *work(void *arg)
{
    thread_state *w = arg;
    int64_t first, count;
    while (dv_queue_next(w->queue, w->core, &first, &count))
        for (int64_t i = 0; i < count; i++) {
            atomic_fetch_add(&w->owned[first + i], 1);
            w->ran++;
            // Some threads are slow, so that others steal their tiles.
            for (volatile int k = 0; w->core % 4 == 0 && k < 2000; k++)
                ;
        }
    return NULL;
}

TEST(queues)
{
    static _Atomic int owned[QUEUE_TILES];
    for (int steal = 0; steal < 2; steal++)
        for (int64_t chunk = 1; chunk < 9; chunk += 7) {
            dv_queue q;
            thread_state w[QUEUE_CORES];
            pthread_t threads[QUEUE_CORES];
            int64_t ran = 0;
            for (int i = 0; i < QUEUE_TILES; i++)
                atomic_store(&owned[i], 0);
            assert_true(
                dv_queue_init(&q, QUEUE_TILES, QUEUE_CORES, chunk, steal));
            for (int32_t i = 0; i < QUEUE_CORES; i++) {
                w[i] = (thread_state){&q, i, 0, owned};
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

// A million tiles are planned as quickly as ten, because they are not listed.
TEST(large)
{
    int64_t shape[] = {32000, 32000};
    static const char *const words[] = {"row_major", "hilbert", "morton",
                                        "grouped(8)"};
    for (int i = 0; i < 4; i++) {
        dv_grid_task t = matrix_task(shape, 13, 10);
        t.depth = 320;
        t.order = words[i];
        t.policy = i == 3 ? "streamk2" : "static";
        dv_mem_fail_at(-1);
        dv_grid *g = grid_of(&t);
        assert_int_equal(g->n_tiles, 1000000);
        assert_true(dv_mem_calls() < 40);
        assert_true(g->n_segments <= 4 * 130);
        int32_t busy;
        tiles_of(g, &busy);
        assert_int_equal(busy, 130);
        dv_grid_destroy(g);
    }
}

// Every allocation fails once: a status is returned, and nothing is left half
// made.
TEST(memory)
{
    int64_t shape[] = {160, 416};
    static const char *const policies[] = {"static", "rect", "streamk"};
    for (int i = 0; i < 6; i++) {
        dv_shard_spec s = {"c", {5, 1}, {1, 13}};
        dv_grid_task t = matrix_task(shape, 8, 8);
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
                st = dv_lint(NULL, json, strlen(json), "g", NULL, &defects,
                             &report, NULL);
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

        cmocka_unit_test(losses), cmocka_unit_test(edges),
        cmocka_unit_test(limits), cmocka_unit_test(target_holes),
        cmocka_unit_test(panels), cmocka_unit_test(orders),
        cmocka_unit_test(queues), cmocka_unit_test(large),
        cmocka_unit_test(memory),
    };
    return run_group(tests, NULL, NULL);
}
