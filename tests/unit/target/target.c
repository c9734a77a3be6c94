// T1: targets: what can be read, what cannot, and that what is printed reads
// back.
#define _POSIX_C_SOURCE 200809L // mkstemp
#include "base/file.h"
#include "target/builtin.h"
#include "target/field.h"
#include "target/host.h"
#include "harness/target_case.h"
#include <hwloc.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

// -- Helpers -----------------------------------------------------------------

static uint64_t seed, seed_before; // of the random targets below

static void check_round_trip(const dv_target *t)
{
    char *text = dv_target_text(t);
    assert_non_null(text);
    dv_target *back = read_ok(text);
    if (!dv_target_equal(t, back))
        fail_msg("DV_SEED=%" PRIu64 " reads back differently: %s", seed_before,
                 text);
    char *again = dv_target_text(back);
    assert_string_equal(text, again);
    dv_release(text);
    dv_release(again);
    dv_target_destroy(back);
}

// -- Built-in targets --------------------------------------------------------

TEST(builtins_load)
{
    int n = 0;
    for (const char *name; (name = dv_target_builtin(n)) != NULL; n++) {
        dv_target *t = NULL;
        dv_diag *diag = dv_diag_create();
        if (dv_target_load(&t, name, diag))
            fail_msg("%s", dv_diag_text(diag));
        assert_string_equal(dv_diag_text(diag), "");
        assert_string_equal(t->name, name);
        assert_string_equal(t->about, dv_target_summary(n));
        check_round_trip(t);
        dv_target_destroy(t);
        dv_diag_destroy(diag);
    }
    assert_int_equal(n, 4);
    assert_null(dv_target_builtin(-1));
    assert_null(dv_target_builtin(n + 7));
    assert_null(dv_target_summary(n));
}

TEST(spyre_numbers)
{
    dv_target *t = NULL;
    assert_int_equal(dv_target_load(&t, "spyre", NULL), DV_OK);
    assert_int_equal(t->cores, 32);
    assert_int_equal(t->stick_bytes, 128);
    assert_int_equal(t->span_limit_bytes, 256 << 20);
    assert_int_equal(t->scratch_bytes, 2 << 20);
    assert_int_equal(t->grain, DV_GRAIN_PRIMITIVE);
    assert_int_equal(t->ring, 1);
    assert_true(t->memory_bandwidth_bytes_per_s == 204.8e9);
    assert_true(t->mac_rate_per_s == 1.536e12);
    assert_string_equal(t->cores_variable, "SENCORES");
    assert_int_equal(dv_target_usable_bytes(t), 1625344);
    t->scratch_reserved_percent = 0;
    assert_int_equal(dv_target_usable_bytes(t), 2031616);
    t->scratch_reserved_percent = 100;
    assert_int_equal(dv_target_usable_bytes(t), 0);
    dv_target_destroy(t);
}

TEST(grid_numbers)
{
    dv_target *t = NULL;
    assert_int_equal(dv_target_load(&t, "wormhole", NULL), DV_OK);
    assert_int_equal(t->scratch_bytes, 1499136);
    assert_int_equal(t->core_grid.cols, 8);
    assert_int_equal(t->tiles_per_core, 0);
    dv_target_destroy(t);
    assert_int_equal(dv_target_load(&t, "blackhole", NULL), DV_OK);
    assert_int_equal(t->scratch_bytes, 1572864);
    assert_int_equal(t->core_grid.cols, 13);
    assert_int_equal(t->core_grid.rows, 10);
    assert_int_equal(t->cores, 130);
    assert_true(t->clock_hz == 1.35e9);
    assert_true(t->mac_rate_per_s == 512 * 1.35e9);
    dv_target_destroy(t);
}

// -- The host ----------------------------------------------------------------

TEST(host_is_sane)
{
    dv_target t;
    dv_host_probe(&t, NULL);
    assert_true(t.cores >= 1);
    assert_true(t.stick_bytes >= 16 && t.stick_bytes <= 1024);
    assert_true(t.scratch_bytes >= 16 << 10);
    assert_int_equal(t.scratch_bytes % t.stick_bytes, 0);
    assert_int_equal(t.scratch_align_bytes, t.stick_bytes);
    assert_int_equal(t.grain, DV_GRAIN_FUSED);
    check_round_trip(&t);
}

static void host_of(dv_target *t, const char *machine)
{
    hwloc_topology_t topo;
    assert_int_equal(hwloc_topology_init(&topo), 0);
    assert_int_equal(hwloc_topology_set_synthetic(topo, machine), 0);
    assert_int_equal(hwloc_topology_load(topo), 0);
    dv_host_from(t, topo, NULL);
    hwloc_topology_destroy(topo);
    check_round_trip(t);
}

TEST(host_shares_caches)
{
    dv_target t;
    host_of(&t, "pack:2 l2:2(size=4194304) core:4 l1d:1(size=32768) pu:2");
    assert_int_equal(t.cores, 16);
    assert_int_equal(t.scratch_bytes, 1 << 20);
    host_of(&t, "core:3 pu:1"); // no cache is known
    assert_int_equal(t.cores, 3);
    assert_int_equal(t.scratch_bytes, 256 << 10);
    assert_int_equal(t.stick_bytes, 64);
    host_of(&t, "pu:5"); // not even cores are known
    assert_int_equal(t.cores, 5);
    dv_host_from(&t, NULL, NULL); // nothing is known
    assert_int_equal(t.cores, 1);
}

// -- Values ------------------------------------------------------------------

TEST(bytes_are_exact)
{
    static const struct {
        const char *text;
        int64_t bytes;
    } cases[] = {{"0", 0},
                 {"128", 128},
                 {"128B", 128},
                 {"1KiB", 1024},
                 {"1.5KiB", 1536},
                 {"256MiB", 256 << 20},
                 {"0.25GiB", 256 << 20},
                 {"1TiB", (int64_t)1 << 40},
                 {"1e3", 1000}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[64];
        snprintf(text, sizeof text, "scratch = %s", cases[i].text);
        dv_target *t = read_one(text);
        assert_int_equal(t->scratch_bytes, cases[i].bytes);
        check_round_trip(t);
        dv_target_destroy(t);
    }
}

TEST(units_scale)
{
    dv_target *t = read_ok("target t { memory_bandwidth = 204.8GB/s\n"
                           "ring_bandwidth = 2.5kB/s mac_rate = 98.3Tmac/s\n"
                           "vector_rate=64Gop/s clock=1e3MHz\n"
                           "scratch_reserved = 12.5% core_grid = 4x3\n"
                           "launch_time = 2.5us sync_time = 250ns\n"
                           "transfer_latency = 1e-3s }");
    assert_true(t->memory_bandwidth_bytes_per_s == 204.8e9);
    assert_true(t->ring_bandwidth_bytes_per_s == 2500);
    assert_true(t->mac_rate_per_s == 98.3 * 1e12);
    assert_true(t->vector_rate_per_s == 64e9);
    assert_true(t->clock_hz == 1e9);
    assert_true(t->launch_time_ns == 2500);
    assert_true(t->sync_time_ns == 250);
    assert_true(t->transfer_latency_ns == 1e6);
    assert_true(t->scratch_reserved_percent == 12.5);
    assert_int_equal(t->core_grid.cols, 4);
    assert_int_equal(t->core_grid.rows, 3);
    assert_int_equal(t->cores, 12); // from the grid
    check_round_trip(t);
    dv_target_destroy(t);
}

TEST(prints_plainly)
{
    dv_target *t = read_ok("target t { stick = 64 scratch = 2048KiB ring = yes"
                           " ring_bandwidth = 166000MB/s core_grid = 2x1 }");
    dv_text out = {0};
    dv_target_print(&out, t, 2);
    assert_string_equal(out.at, "  target t {\n"
                                "      cores          = 2\n"
                                "      core_grid      = 2x1\n"
                                "      scratch        = 2MiB\n"
                                "      ring           = yes\n"
                                "      ring_bandwidth = 166GB/s\n"
                                "  }\n");
    dv_text_free(&out);
    dv_target_destroy(t);
}

TEST(properties_are_listed)
{
    dv_text out = {0};
    dv_target_print_properties(&out);
    assert_int_equal(out.failed, 0);
    for (int i = 0; i < DV_N_FIELDS; i++)
        assert_non_null(strstr(out.at, dv_target_fields[i].meaning));
    dv_text_free(&out);
}

// -- Errors ------------------------------------------------------------------

TEST(wrong_values)
{
    property_fails("cores = yes", 11, "cores takes a whole number");
    property_fails("cores = 2.5", 11, "cores takes a whole number");
    property_fails("cores = -1", 11, "found '-'");
    property_fails("cores = 32cores", 13, "found 'cores'");
    property_fails("cores = 0", 11, "cores is 0, the least is 1");
    property_fails("cores = 2000000", 11, "is 2000000, the most is 1048576");
    property_fails("scratch = 2MB", 13, "2MiB, found '2MB'");
    property_fails("scratch = 2 MiB", 13, "found '2'");
    property_fails("scratch = 1.1KiB", 13, "1.1KiB: not a whole");
    property_fails("scratch = 9000000000PiB", 13, "the most is 1TiB");
    property_fails("stick = 0", 11, "stick is 0, the least is 8");
    property_fails("scratch_reserved = 20 }", 22, "such as 20%, found '20'");
}

TEST(wrong_units)
{
    property_fails("scratch_reserved = 101%", 22, "101%, the most is 100%");
    property_fails("ring_bandwidth = 1.5 }", 20, "204.8GB/s, found '1.5'");
    property_fails("ring_bandwidth = 1.5GB }", 20, "found '1.5GB'");
    property_fails("ring_bandwidth = 1.5GB/m", 20, "found '1.5GB/m'");
    property_fails("ring_bandwidth = 1.5GiB/s", 20, "found '1.5GiB'");
    property_fails("ring_bandwidth = 5e300GB/s", 20, "the most is 1000PB/s");
    property_fails("mac_rate = 1.5GB/s", 14, "1.5Tmac/s, found '1.5GB'");
    property_fails("clock = 1GHz/s", 15, "found '/'");
    property_fails("launch_time = 3 }", 17, "3us or 250ns, found '3'");
    property_fails("launch_time = 3Us", 17, "found '3Us'");
    property_fails("launch_time = 2s", 17, "2s, the most is 1s");
    property_fails("ring = maybe", 10, "ring takes yes or no");
    property_fails("grain = source", 11, "grain takes primitive or fused");
    property_fails("core_grid = 8 }", 17, "such as 8x8, found '}'");
    property_fails("core_grid = 8x", 16, "found 'x'");
    property_fails("core_grid = 8xy", 16, "found 'xy'");
    property_fails("core_grid = 9999x1", 15, "9999x1, the most is 4096");
    property_fails("core_grid = 1x99999999999999999999", 15, "4096");
    property_fails("about = words", 11, "about takes a text in quotes");
    property_fails("about = \"a\tb\"", 13, "control character 0x09");
}

TEST(wrong_lengths)
{
    char text[256], name[100];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = 0;
    snprintf(text, sizeof text, "about = \"%s\"", name);
    property_fails(text, 11, "about has 99 bytes, the most is 95");
    snprintf(text, sizeof text, "target %s {}", name);
    fails_at(text, DV_E_TARGET, 1, 8, "99 letters, the most is 63");
}

TEST(wrong_properties)
{
    property_fails("coers = 4", 3, "no property 'coers'; did you mean 'cores'");
    property_fails("scratch_aling = 4", 3, "did you mean 'scratch_align'?");
    property_fails("colour = 4", 3, "no property 'colour'\n");
    property_fails("cores = 4 stick = 8 cores = 5", 23, "cores is given twice");
    property_fails("cores = 4 stick = 8 cores = 5", 23,
                   "t:2:3: note: the first one is here");
}

TEST(wrong_together)
{
    property_fails("cores = 7 core_grid = 2x4", 13,
                   "core_grid has 8 cores, cores is 7");
    property_fails("cores = 7 core_grid = 2x4", 13, "t:2:3: note");
    property_fails("core_grid = 0x4", 3, "0x4: one side is 0");
    property_fails("core_grid = 4096x4096", 3, "the most is 1048576");
    property_fails("tile_rows = 32", 3, "32 rows and 0 columns");
    property_fails("tile_cols = 32", 3, "0 rows and 32 columns");
    property_fails("stick = 12", 3, "stick is 12 bytes, not a multiple of 8");
    property_fails("stick = 128 span_limit = 64", 15, "less than a stick");
    property_fails("scratch_align = 48", 3, "48, not a power of two");
    property_fails("scratch = 8 scratch_program = 9", 15, "scratch has 8");
}

TEST(wrong_syntax)
{
    fails_at("", DV_E_SYNTAX, 1, 1, "expected the word target");
    fails_at("machine t {}", DV_E_SYNTAX, 1, 1, "expected the word target");
    fails_at("target { }", DV_E_SYNTAX, 1, 8, "the name of the target");
    fails_at("target t", DV_E_SYNTAX, 1, 9, "expected '{'");
    fails_at("target t {", DV_E_SYNTAX, 1, 11, "a property or '}'");
    fails_at("target t { 3 }", DV_E_SYNTAX, 1, 12, "a property or '}'");
    fails_at("target t { cores 3 }", DV_E_SYNTAX, 1, 18, "expected '='");
    fails_at("target t {} x", DV_E_SYNTAX, 1, 13, "the end of the text");
    fails_at("target t { about = \"x", DV_E_SYNTAX, 1, 20, "does not end");
    fails_at("target t { cores = 99999999999999999999 }", DV_E_OVERFLOW, 1, 20,
             "2^63");
}

TEST(unknown_names)
{
    dv_diag *diag = dv_diag_create();
    dv_target *t = NULL;
    assert_int_equal(dv_target_load(&t, "spyer", diag), DV_E_TARGET);
    const char *said = dv_diag_text(diag);
    assert_non_null(strstr(said, "(host, spyre, wormhole, blackhole)"));
    assert_non_null(strstr(said, "did you mean 'spyre'?"));
    dv_diag_destroy(diag);
    assert_int_equal(dv_target_load(&t, "", NULL), DV_E_TARGET);
    assert_int_equal(dv_target_load(&t, "/", NULL), DV_E_FILE);
    assert_null(t);
}

TEST(files_load)
{
    char path[] = "/tmp/divvy_targetXXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    static const char text[] = "# mine\ntarget mine { cores = 5 }\n";
    assert_int_equal(dv_file_write(path, text, sizeof text - 1, NULL), DV_OK);
    dv_target *t = NULL;
    assert_int_equal(dv_target_load(&t, path, NULL), DV_OK);
    assert_string_equal(t->name, "mine");
    assert_int_equal(t->cores, 5);
    dv_target_destroy(t);
    remove(path);
}

// A plan contains a description among other text: the lexer stops behind it.
TEST(reads_in_place)
{
    static const char text[] = "target a { cores = 2 } groups";
    dv_source src = {"plan", text, sizeof text - 1};
    dv_lexer lx;
    dv_target t;
    assert_int_equal(dv_lexer_init(&lx, &src, NULL), DV_OK);
    assert_int_equal(dv_target_read(&lx, &t), DV_OK);
    assert_int_equal(t.cores, 2);
    assert_true(dv_lex_is(&lx, "groups"));
}

// -- Out of memory -----------------------------------------------------------

TEST(out_of_memory)
{
    static const char *const names[] = {"spyre", "host", "no/such/target"};
    for (size_t i = 0; i < 3; i++) {
        dv_status want = i < 2 ? DV_OK : DV_E_TARGET, got = DV_E_NOMEM;
        for (int64_t n = 0; got != want; n++) {
            dv_target *t = NULL;
            dv_mem_fail_at(n);
            got = dv_target_load(&t, names[i], NULL);
            char *text = t ? dv_target_text(t) : NULL;
            if (t && !text)
                got = DV_E_NOMEM;
            dv_mem_fail_at(-1);
            assert_true(got == want || got == DV_E_NOMEM);
            assert_true(n < 100);
            dv_release(text);
            dv_target_destroy(t);
        }
    }
}

// -- Random targets ----------------------------------------------------------

// xorshift64*: the same numbers everywhere.
static uint64_t rnd(void)
{
    seed ^= seed >> 12;
    seed ^= seed << 25;
    seed ^= seed >> 27;
    return seed * 0x2545f4914f6cdd1du;
}

// Returns a number between two limits, often a limit itself, of any magnitude.
static double pick(double least, double most)
{
    double u = (double)(rnd() >> 11) * 0x1p-53;
    switch (rnd() % 4) {
    case 0:
        return rnd() % 2 ? least : most;
    case 1:
        return least + u * (most - least);
    default:
        for (int halvings = (int)(rnd() % 60); halvings > 0; halvings--)
            u /= 2;
        return least + u * (most - least);
    }
}

static void random_text(char *out, int most)
{
    int len = (int)(rnd() % (uint64_t)(most + 1));
    for (int i = 0; i < len; i++) {
        int c = 32 + (int)(rnd() % 224);
        out[i] = (char)(c == '"' || c == 127 ? ' ' : c);
    }
}

// Gives a target a grid of 1x1 to 64x64 cores with some holes or none.
static void random_holes(dv_target *t)
{
    dv_core_rect holes[6];
    size_t n = rnd() % 7;
    for (size_t i = 0; i < n; i++) {
        dv_core_rect *h = &holes[i];
        h->x0 = (int32_t)(rnd() % (uint64_t)t->core_grid.cols);
        h->y0 = (int32_t)(rnd() % (uint64_t)t->core_grid.rows);
        h->x1 =
            h->x0 + (int32_t)(rnd() % (uint64_t)(t->core_grid.cols - h->x0));
        h->y1 =
            h->y0 + (int32_t)(rnd() % (uint64_t)(t->core_grid.rows - h->y0));
        if (rnd() % 2)
            h->x1 = h->x0;
        if (rnd() % 2)
            h->y1 = h->y0;
    }
    // If all cores would be holes, the target stays as it was.
    dv_target_restrict(t, NULL, 0, holes, n, DV_NOWHERE, NULL);
}

// Makes properties consistent that depend on each other.
static void reconcile(dv_target *t)
{
    int64_t cols = 1 + (int64_t)(rnd() % 64);
    t->core_grid = (dv_core_grid){0, 0};
    if (rnd() % 2)
        t->core_grid = (dv_core_grid){cols, 1 + (int64_t)(rnd() % 64)};
    if (t->core_grid.cols)
        t->cores = t->core_grid.cols * t->core_grid.rows;
    if (t->core_grid.cols && rnd() % 2)
        random_holes(t);
    if (!t->tile_rows || !t->tile_cols)
        t->tile_rows = t->tile_cols = 0;
    t->stick_bytes -= t->stick_bytes % 8;
    if (t->span_limit_bytes && t->span_limit_bytes < t->stick_bytes)
        t->span_limit_bytes = t->stick_bytes;
    t->scratch_align_bytes = (int64_t)1 << rnd() % 21;
    if (t->scratch_program_bytes > t->scratch_bytes)
        t->scratch_program_bytes = t->scratch_bytes;
}

static void random_ops(dv_op_set *s)
{
    dv_op_set_clear(s);
    for (int i = 0; i < dv_op_word_count(); i++)
        if (rnd() % 2)
            dv_op_set_add(s, i);
}

static void random_target(dv_target *t)
{
    dv_target_init(t, "random");
    for (int i = 0; i < DV_N_FIELDS; i++) {
        const dv_target_field *f = &dv_target_fields[i];
        if (rnd() % 3 == 0 || f->kind == DV_KIND_grid ||
            f->kind == DV_KIND_rects)
            continue;
        if (f->kind == DV_KIND_ops)
            random_ops(dv_field_of(t, f));
        else if (f->kind == DV_KIND_text)
            random_text(dv_field_of(t, f), (int)f->most);
        else
            dv_field_set(t, f, pick(f->least, f->most));
    }
    reconcile(t);
}

// The numbers and places of cores equal a count one by one.
static void check_numbers(const dv_target *t)
{
    int64_t n = 0;
    for (int64_t y = 0; y < t->core_grid.rows; y++)
        for (int64_t x = 0; x < t->core_grid.cols; x++) {
            int hole = 0;
            for (int32_t i = 0; i < t->holes.n; i++) {
                const dv_core_rect *h = &t->holes.at[i];
                hole += x >= h->x0 && x <= h->x1 && y >= h->y0 && y <= h->y1;
            }
            int64_t at_x = -1, at_y = -1, core = dv_target_core(t, x, y);
            if (!hole)
                dv_target_core_position(t, n, &at_x, &at_y);
            if (hole > 1 || core != (hole ? -1 : n) ||
                (!hole && (at_x != x || at_y != y)))
                fail_msg("DV_SEED=%" PRIu64 ": %d holes at %d,%d, core %d",
                         seed_before, hole, (int)x, (int)y, (int)core);
            n += !hole;
        }
    assert_int_equal(t->core_grid.cols ? n : t->cores, t->cores);
}

TEST(random_round_trips)
{
    const char *given = getenv("DV_SEED");
    seed = given ? strtoull(given, NULL, 10) : 1;
    seed = seed ? seed : 1;
    for (int i = 0; i < 4000; i++) {
        seed_before = seed;
        dv_target t;
        random_target(&t);
        int64_t usable = dv_target_usable_bytes(&t);
        if (usable < 0 || usable > t.scratch_bytes)
            fail_msg("DV_SEED=%" PRIu64 " gives %" PRId64 " usable bytes",
                     seed_before, usable);
        check_round_trip(&t);
        check_numbers(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(builtins_load),
        cmocka_unit_test(spyre_numbers),
        cmocka_unit_test(grid_numbers),
        cmocka_unit_test(host_is_sane),
        cmocka_unit_test(host_shares_caches),
        cmocka_unit_test(bytes_are_exact),
        cmocka_unit_test(units_scale),
        cmocka_unit_test(prints_plainly),
        cmocka_unit_test(properties_are_listed),
        cmocka_unit_test(wrong_values),
        cmocka_unit_test(wrong_units),
        cmocka_unit_test(wrong_lengths),
        cmocka_unit_test(wrong_properties),
        cmocka_unit_test(wrong_together),
        cmocka_unit_test(wrong_syntax),
        cmocka_unit_test(unknown_names),
        cmocka_unit_test(files_load),
        cmocka_unit_test(reads_in_place),
        cmocka_unit_test(out_of_memory),
        cmocka_unit_test(random_round_trips),
    };
    return run_group(tests, NULL, NULL);
}
