// Arenas, text, tables, JSON, checked integers and element types.
#define _POSIX_C_SOURCE 200809L // mkdtemp, setenv
#include "harness/test.h"
#include "base/diag.h"
#include "base/dtype.h"
#include "base/json.h"
#include "base/jsonread.h"
#include "base/math.h"
#include "base/mem.h"
#include "base/text.h"
#include <inttypes.h>
#include <limits.h>
#include <locale.h>
#include <math.h>

// A fixed sequence of 64-bit numbers (xorshift).
static uint64_t next_random(uint64_t *s)
{
    *s ^= *s << 13;
    *s ^= *s >> 7;
    *s ^= *s << 17;
    return *s;
}

// -- Arenas ------------------------------------------------------------------

TEST(arena_memory)
{
    dv_arena a = {0};
    for (size_t n = 1; n < 300; n++) {
        unsigned char *p = dv_arena_alloc(&a, n, 1);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % _Alignof(max_align_t), 0);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(p[i], 0);
        memset(p, 0xff, n); // the next object must not see this
    }
    // An object larger than any chunk, and a small one after it.
    static const size_t big = (size_t)5 << 20;
    char *p = DV_NEW(&a, char, big), *q = DV_NEW(&a, char, 8);
    assert_true(p && q);
    assert_int_equal(p[0] | p[big - 1] | q[0], 0);
    memset(p, 0xff, big);
    assert_int_equal(q[0] | q[7], 0);
    assert_string_equal(dv_arena_copy(&a, "abcdef", 3), "abc");
    dv_arena_free(&a);
    assert_null(a.chunks);
}

TEST(arena_nothing)
{
    dv_arena a = {0};
    void *p = dv_arena_alloc(&a, 0, 8);
    assert_non_null(p);
    assert_int_equal((uintptr_t)p % _Alignof(max_align_t), 0);
    assert_non_null(a.chunks); // the name points into the arena
    assert_string_equal(dv_arena_copy(&a, "", 0), "");
    dv_arena_free(&a);
}

TEST(arena_refuses)
{
    dv_arena a = {0};
    assert_null(dv_arena_alloc(&a, SIZE_MAX, 2));
    assert_null(dv_arena_alloc(&a, SIZE_MAX / 4, 8));
    assert_null(dv_arena_alloc(&a, (size_t)1 << 33, (size_t)1 << 33));
    assert_null(dv_arena_alloc(&a, 1, SIZE_MAX));
    dv_mem_fail_at(0);
    assert_null(dv_arena_alloc(&a, 1, 1));
    assert_int_equal(dv_mem_calls(), 1);
    dv_mem_fail_at(-1);
    assert_non_null(dv_arena_alloc(&a, 1, 1));
    dv_arena_free(&a);
}

TEST(arena_push)
{
    dv_arena a = {0};
    int64_t *items = NULL;
    int32_t n = 0, cap = 0;
    for (int i = 0; i < 1000; i++) {
        int64_t *p = DV_PUSH(&a, int64_t, items, n, cap);
        assert_non_null(p);
        *p = i;
    }
    assert_int_equal(n, 1000);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(items[i], i);
    n = cap;
    dv_mem_fail_at(0);
    // What is left of the chunk may suffice for some; then allocation fails.
    while (DV_PUSH(&a, int64_t, items, n, cap))
        n = cap;
    dv_mem_fail_at(-1);
    assert_int_equal(n, cap);
    dv_arena_free(&a);
}

// -- Text --------------------------------------------------------------------

TEST(text_long)
{
    dv_text t = {0};
    char s[1001] = {0};
    for (int n = 0; n <= 1000;
         n += 50) { // around the 256 bytes of the small buffer
        memset(s, 'x', (size_t)n);
        dv_put(&t, "<%s>", s);
    }
    for (int n = 250; n < 262; n++)
        dv_put(&t, "%*d", n, 7);
    size_t want = 21 * 2 + 50 * 210 + (250 + 261) * 6;
    assert_int_equal(t.len, want);
    assert_int_equal(strlen(t.at), want);
    char *p = dv_text_take(&t);
    assert_null(t.at);
    assert_string_equal(p + want - 2, " 7");
    dv_release(p);
    p = dv_text_take(&t);
    assert_string_equal(p, "");
    dv_release(p);
}

// dv_put formats plain conversions itself and leaves the others to vsnprintf,
// also in one call.
TEST(text_conversions)
{
    const int64_t wide[] = {0, 7, -1, 1234567890123, INT64_MAX, INT64_MIN};
    const int narrow[] = {0, -40, INT_MAX, INT_MIN};
    char want[400];
    for (size_t i = 0; i < 6; i++)
        for (size_t k = 0; k < 4; k++) {
            dv_text t = {0};
            dv_put(&t, "%d, %" PRId64 "%s.", narrow[k], wide[i], "s");
            dv_put(&t, "%s%" PRIu64 "%5d%%%s%c %d", "", (uint64_t)wide[i],
                   narrow[k], "tail", 'c', narrow[k]);
            snprintf(want, sizeof want,
                     "%d, %" PRId64 "%s.%s%" PRIu64 "%5d%%%s%c %d", narrow[k],
                     wide[i], "s", "", (uint64_t)wide[i], narrow[k], "tail",
                     'c', narrow[k]);
            assert_string_equal(t.at, want);
            dv_text_free(&t);
        }
}

// Numbers at the end of the small buffer are neither lost nor cut.
TEST(text_edge)
{
    char s[300] = {0}, want[400];
    for (size_t n = 230; n < 270; n++) {
        dv_text t = {0};
        memset(s, 'x', n);
        dv_put(&t, "%s%" PRId64, s, INT64_MIN);
        snprintf(want, sizeof want, "%s%" PRId64, s, INT64_MIN);
        assert_string_equal(t.at, want);
        dv_text_free(&t);
    }
}

TEST(text_fails_once)
{
    dv_text t = {0};
    dv_put(&t, "kept");
    dv_mem_fail_at(0);
    dv_put(&t, "%500d", 1);
    dv_mem_fail_at(-1);
    assert_int_equal(t.failed, 1);
    dv_put(&t, "not written");
    assert_string_equal(t.at, "kept");
    assert_null(dv_text_take(&t));
}

static void check_double(double v, const char *want)
{
    dv_text t = {0};
    dv_put_double(&t, v);
    assert_non_null(t.at);
    if (want)
        assert_string_equal(t.at, want);
    double back = dv_parse_double(t.at, t.len);
    if (v == v)
        assert_memory_equal(&back, &v,
                            sizeof v); // also distinguishes -0.0 from 0.0
    assert_non_null(strpbrk(t.at, ".en"));
    dv_text_free(&t);
}

static void check_doubles(void)
{
    static const struct {
        double v;
        const char *text;
    } cases[] = {{0.0, "0.0"},
                 {-0.0, "-0.0"},
                 {1, "1.0"},
                 {-1.5, "-1.5"},
                 {0.1, "0.1"},
                 {1.0 / 3, "0.3333333333333333"},
                 {1e308, "1e308"},
                 {5e-324, "5e-324"},
                 {1e-310, "1e-310"},
                 {2.2250738585072014e-308, "2.2250738585072014e-308"},
                 {1.7976931348623157e308, "1.7976931348623157e308"},
                 {0x1p53, NULL},
                 {(double)INFINITY, "inf"},
                 {-(double)INFINITY, "-inf"},
                 {(double)NAN, "nan"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_double(cases[i].v, cases[i].text);
    uint64_t seed = 1;
    for (int i = 0; i < 5000; i++) {
        uint64_t bits = next_random(&seed);
        double v;
        memcpy(&v, &bits, sizeof v);
        if (isfinite(v))
            check_double(v, NULL);
    }
}

TEST(text_doubles)
{
    check_doubles();
    // More digits than any internal buffer holds.
    char s[200] = "0.";
    memset(s + 2, '3', 197);
    assert_true(dv_parse_double(s, 199) == 1.0 / 3);
    assert_true(dv_parse_double("1.25e2", 4) == 1.25);
}

TEST(text_memory_sizes)
{
    dv_text t = {0};
    static const int64_t sizes[] = {0, 17, 1023, 1024, 2 << 20, 1025};
    for (int i = 0; i < 6; i++) {
        dv_put_byte_size(&t, sizes[i]);
        dv_put(&t, " ");
    }
    dv_put_byte_size(&t, 1536);
    assert_string_equal(t.at, "0 17 1023 1KiB 2MiB 1.0KiB 1.5KiB");
    dv_text_free(&t);
}

// Repeats the tests of texts in every locale of the list that can be set and
// that does not write numbers with a point. Returns how many there were.
static int try_locales(void **state)
{
    static const char *const names[] = {"de_DE.UTF-8", "de_DE", "fr_FR.UTF-8",
                                        "nl_NL.UTF-8", "ps_AF.UTF-8"};
    int found = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!setlocale(LC_NUMERIC, names[i]) ||
            strcmp(localeconv()->decimal_point, ".") == 0)
            continue;
        found++;
        check_doubles();
        text_memory_sizes(state);
    }
    setlocale(LC_NUMERIC, "C");
    return found;
}

// Numbers are written with a point in every locale: a comma would make every
// dump a syntax error. Tried are the locales that are installed and those that
// localedef makes in a temporary folder: German has a comma, Pashto a point of
// two bytes.
static void text_in_other_locales(void **state)
{
    static const struct {
        const char *from, *charmap, *name;
    } made[] = {{"de_DE", "ISO-8859-1", "de_DE"},
                {"ps_AF", "UTF-8", "ps_AF.UTF-8"}};
    char folder[] = "/tmp/divvy-locales-XXXXXX", command[200];
    int found = try_locales(state);
    assert_non_null(mkdtemp(folder));
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
        snprintf(command, sizeof command,
                 "localedef -c -i %s -f %s %s/%s >%s/log 2>&1", made[i].from,
                 made[i].charmap, folder, made[i].name, folder);
        if (system(command) != 0)
            printf("localedef does not make %s\n", made[i].name);
    }
    setenv("LOCPATH", folder, 1);
    found += try_locales(state);
    unsetenv("LOCPATH");
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
    if (!found)
        skip_test("no locale with a decimal comma, nor sources to make one of");
}

// -- Tables ------------------------------------------------------------------

TEST(table_of_many)
{
    enum { N = 10000 };
    dv_arena a = {0};
    dv_table t = {0};
    char(*keys)[12] = malloc(N * sizeof *keys);
    assert_non_null(keys);
    assert_int_equal(dv_table_get(&t, "k1", 2, -7), -7);
    for (int i = 0; i < N; i++) {
        size_t len = (size_t)snprintf(keys[i], sizeof *keys, "k%d", i);
        assert_true(dv_table_set(&t, &a, keys[i], len, i));
    }
    for (int i = 0; i < N; i += 2) // overwrite every other one
        assert_true(dv_table_set(&t, &a, keys[i], strlen(keys[i]), -i));
    assert_int_equal(t.n, N);
    for (int i = 0; i < N; i++)
        assert_int_equal(dv_table_get(&t, keys[i], strlen(keys[i]), -1),
                         i % 2 ? i : -i);
    // Keys are compared by length, too: "k12" in "k123" is another key.
    assert_int_equal(dv_table_get(&t, "k123", 3, 0), -12);
    assert_int_equal(dv_table_get(&t, "k10000", 6, -1), -1);
    assert_int_equal(dv_table_get(&t, "", 0, -1), -1);
    dv_arena_free(&a);
    free(keys);
}

// -- JSON --------------------------------------------------------------------

TEST(json_values)
{
    dv_text t = {0};
    dv_json j = {.out = &t};
    dv_json_open(&j, NULL, '{');
    dv_json_int(&j, "int", INT64_MIN);
    dv_json_double(&j, "half", 0.5);
    dv_json_double(&j, "inf", (double)INFINITY);
    dv_json_double(&j, "nan", (double)NAN);
    dv_json_bool(&j, "yes", 1);
    dv_json_null(&j, "none");
    dv_json_string(&j, "no string", NULL);
    dv_json_ints(&j, "shape", (int64_t[]){4, 8}, 2);
    dv_json_open(&j, "empty", '[');
    dv_json_close(&j);
    dv_json_open(&j, "list", '[');
    dv_json_open_flat(&j, NULL, '{');
    dv_json_int(&j, "a", 1);
    dv_json_open(&j, "b", '['); // on one line, because its parent is
    dv_json_int(&j, NULL, 2);
    dv_json_close(&j);
    dv_json_close(&j);
    dv_json_close(&j);
    dv_json_close(&j);
    assert_string_equal(t.at, "{\n"
                              "  \"format\": 1,\n"
                              "  \"int\": -9223372036854775808,\n"
                              "  \"half\": 0.5,\n"
                              "  \"inf\": null,\n"
                              "  \"nan\": null,\n"
                              "  \"yes\": true,\n"
                              "  \"none\": null,\n"
                              "  \"no string\": null,\n"
                              "  \"shape\": [4, 8],\n"
                              "  \"empty\": [],\n"
                              "  \"list\": [\n"
                              "    {\"a\": 1, \"b\": [2]}\n"
                              "  ]\n"
                              "}\n");
    dv_text_free(&t);
}

TEST(json_strings)
{
    static const char *const cases[][2] = {
        {"", "\"\""},
        {"a\"b\\c/", "\"a\\\"b\\\\c/\""},
        {"\n\t\r\x01\x1f", "\"\\n\\t\\u000d\\u0001\\u001f\""},
        {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80",
         "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\""},
        {"a\xff", "\"a\\ufffd\""},
        {"\xc0\x80", "\"\\ufffd\\ufffd\""}, // overlong
        {"\xe0\x9f\xbf", "\"\\ufffd\\ufffd\\ufffd\""},
        {"\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\""}, // a surrogate
        {"\xf4\x90\x80\x80", "\"\\ufffd\\ufffd\\ufffd\\ufffd\""},
        {"\xe2\x82", "\"\\ufffd\\ufffd\""}, // truncated
        {"\xc3(", "\"\\ufffd(\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dv_text t = {0};
        dv_json j = {.out = &t};
        dv_json_string(&j, NULL, cases[i][0]);
        assert_string_equal(t.at, cases[i][1]);
        dv_text_free(&t);
    }
}

TEST(json_nesting)
{
    dv_text t = {0};
    dv_json j = {.out = &t};
    for (int i = 0; i < DV_JSON_DEPTH; i++)
        dv_json_open_flat(&j, NULL, '[');
    for (int i = 0; i < DV_JSON_DEPTH; i++)
        dv_json_close(&j);
    assert_int_equal(j.depth, 0);
    assert_int_equal(t.len, 2 * DV_JSON_DEPTH + 1);
    assert_int_equal(strspn(t.at, "["), DV_JSON_DEPTH);
    dv_text_free(&t);
}

// Returns the kind of a text that is one number, or -1 if it is refused.
static int read_number(const char *text, dv_jval *out)
{
    dv_source src = {.text = text, .len = (uint32_t)strlen(text)};
    dv_arena a = {0};
    dv_diag *diag = dv_diag_create();
    const dv_jval *v = NULL;
    dv_status st = dv_json_parse(&v, &src, &a, diag);
    assert_true(st == DV_OK || st == DV_E_SYNTAX);
    if (st == DV_OK)
        *out = *v;
    dv_diag_destroy(diag);
    dv_arena_free(&a);
    return st == DV_OK ? (int)out->kind : -1;
}

static void json_numbers_read(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "01",  "-01",   "00",    "1.",    "-",
        "1e",  "1e+",   "1.5-2", "1-2",   ".5",
        "+1",  "1.2.3", "1e5-3", "1e5e3", "1.e5",
        "--1", "1e5.",  "-.5",   "1..2",  "123456789012345678901234.5.6",
    };
    dv_jval v;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(read_number(wrong[i], &v), -1);
    assert_int_equal(read_number("-0", &v), DV_JINT);
    assert_int_equal(read_number("-120", &v), DV_JINT);
    assert_true(v.i == -120 && v.f == -120);
    assert_int_equal(read_number("0.5e+2", &v), DV_JFLOAT);
    assert_true(v.f == 50);
    assert_int_equal(read_number("0e0", &v), DV_JFLOAT);
    assert_int_equal(read_number("12345678901234567890", &v), DV_JFLOAT);
    assert_true(v.f == 12345678901234567890.0);
    assert_int_equal(read_number("0.000000000000000000000000125", &v),
                     DV_JFLOAT);
    assert_true(v.f == 1.25e-25);
}

// -- Checked integers --------------------------------------------------------

TEST(math_checked)
{
    int64_t v = INT64_MAX;
    assert_false(dv_add_i64(&v, INT64_MAX, 1));
    assert_true(dv_add_i64(&v, INT64_MAX, INT64_MIN) && v == -1);
    assert_false(dv_sub_i64(&v, INT64_MIN, 1));
    assert_false(dv_sub_i64(&v, 0, INT64_MIN));
    assert_true(dv_sub_i64(&v, -1, INT64_MIN) && v == INT64_MAX);
    assert_false(dv_mul_i64(&v, (int64_t)1 << 32, (int64_t)1 << 31));
    assert_false(dv_mul_i64(&v, INT64_MIN, -1));
    assert_true(dv_mul_i64(&v, -((int64_t)1 << 32), (int64_t)1 << 31));
    assert_true(v == INT64_MIN);
    v = 3;
    assert_true(dv_mul_i64(&v, v, v) && v == 9); // out may be an operand
    for (int64_t a = -20; a <= 20; a++) {
        for (int64_t b = 1; b <= 7; b++) {
            int64_t lo = dv_floor_div(a, b), hi = dv_ceil_div(a, b);
            assert_true(lo * b <= a && a < (lo + 1) * b);
            assert_true((hi - 1) * b < a && a <= hi * b);
        }
    }
    assert_int_equal(dv_floor_div(INT64_MIN, 1), INT64_MIN);
    assert_int_equal(dv_ceil_div(INT64_MAX, INT64_MAX), 1);
    assert_int_equal(dv_min_i64(-1, 2), -1);
    assert_int_equal(dv_max_i64(-1, 2), 2);
}

// -- Element types -----------------------------------------------------------

// A 16-bit float type described only by its widths, so that the reference below
// shares no code with what it checks.
typedef struct half {
    dv_dtype dtype;
    int fraction_bits, bias;
    uint16_t infinity; // its bits; rounding treats it as the next power of two
} half;
static const half f16 = {DV_F16, 10, 15, 0x7c00};
static const half bf16 = {DV_BF16, 7, 127, 0x7f80};

static double value_of(const half *t, uint16_t h)
{
    int e = (h & 0x7fff) >> t->fraction_bits;
    int fraction = h & ((1 << t->fraction_bits) - 1);
    if (e)
        fraction |= 1 << t->fraction_bits;
    double v = ldexp(fraction, (e ? e : 1) - t->bias - t->fraction_bits);
    return h & 0x8000 ? -v : v;
}

// Returns the nearest number by search, with ties to even.
static uint16_t nearest(const half *t, double v)
{
    uint16_t sign = signbit(v) ? 0x8000 : 0;
    double a = fabs(v);
    uint16_t lo = 0, hi = t->infinity;
    if (a >= value_of(t, hi))
        return sign | hi;
    while (hi - lo > 1) {
        uint16_t mid = (uint16_t)((lo + hi) / 2);
        if (value_of(t, mid) <= a)
            lo = mid;
        else
            hi = mid;
    }
    double below = a - value_of(t, lo), above = value_of(t, hi) - a;
    int up = below > above || (below == above && (lo & 1));
    return sign | (up ? hi : lo);
}

static void check_store(const half *t, double v)
{
    for (int i = 0; i < 2; i++, v = -v) {
        uint16_t want = nearest(t, v), got = 0;
        dv_store(t->dtype, &got, 0, v);
        if (got != want)
            print_error("%a: got %04x, want %04x\n", v, got, want);
        assert_int_equal(got, want);
        // Storing a float, which is rounded once less, gives the same bits.
        float f = (float)v;
        if ((double)f != v)
            continue;
        got = t->dtype == DV_F16 ? dv_f32_to_f16(f) : dv_f32_to_bf16(f);
        assert_int_equal(got, want);
    }
}

static void check_half(const half *t)
{
    for (int i = 0; i < 65536; i++) {
        uint16_t h = (uint16_t)i, back = 0;
        double v = dv_load(t->dtype, &h, 0);
        dv_store(t->dtype, &back, 0, v);
        if ((h & 0x7fff) > t->infinity) {
            assert_true(isnan(v));
            assert_true((back & 0x7fff) > t->infinity);
            continue;
        }
        assert_int_equal(back, h);
        if ((h & 0x7fff) == t->infinity)
            assert_true(isinf(v));
        else
            assert_true(v == value_of(t, h));
    }
    // Every midpoint between two neighbours, the doubles next to it, which are
    // equal to it as floats, and the floats next to it.
    for (uint16_t h = 0; h < t->infinity; h++) {
        double mid = (value_of(t, h) + value_of(t, (uint16_t)(h + 1))) / 2;
        check_store(t, mid);
        check_store(t, nextafter(mid, 0));
        check_store(t, nextafter(mid, HUGE_VAL));
        check_store(t, (double)nextafterf((float)mid, 0));
        check_store(t, (double)nextafterf((float)mid, HUGE_VALF));
    }
    uint64_t seed = 7;
    for (int i = 0; i < 100000; i++) {
        uint32_t bits = (uint32_t)(next_random(&seed) >> 32);
        float f;
        memcpy(&f, &bits, sizeof f);
        if (isfinite(f))
            check_store(t, (double)f);
    }
    check_store(t, 1e300);
    check_store(t, 5e-324);
    check_store(t, (double)INFINITY);
}

TEST(dtype_halves)
{
    check_half(&f16);
    check_half(&bf16);
    // Rounded to a float first, this would be 1 + 2^-11, a tie, and go to the
    // even 1.
    assert_true(dv_round_to(DV_F16, 1 + 0x1p-11 + 0x1p-40) == 1 + 0x1p-10);
    assert_true(dv_round_to(DV_BF16, 1 + 0x1p-8 + 0x1p-40) == 1 + 0x1p-7);
}

TEST(dtype_integers)
{
    static const struct {
        double v, i64, i32, i8;
    } cases[] = {{2.9, 2, 2, 2},
                 {-2.9, -2, -2, -2},
                 {-0.5, 0, 0, 0},
                 {(double)NAN, 0, 0, 0},
                 {300, 300, 300, 44},
                 {-129, -129, -129, 127},
                 {0x1p31, 0x1p31, -0x1p31, 0},
                 {0x1p62, 0x1p62, 0, 0},
                 {-0x1p63, -0x1p63, 0, 0},
                 {-1e300, -0x1p63, 0, 0},
                 {1e300, 0x1p63, -1, -1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_true(dv_round_to(DV_I64, cases[i].v) == cases[i].i64);
        assert_true(dv_round_to(DV_I32, cases[i].v) == cases[i].i32);
        assert_true(dv_round_to(DV_I8, cases[i].v) == cases[i].i8);
    }
    int64_t most;
    dv_store(DV_I64, &most, 0, (double)INFINITY);
    assert_true(most == INT64_MAX);
}

TEST(dtype_unsigned)
{
    assert_true(dv_round_to(DV_U8, -1) == 255 && dv_round_to(DV_U8, 300) == 44);
    assert_true(dv_round_to(DV_U16, -1.5) == 65535);
    assert_true(dv_round_to(DV_I16, 40000) == -25536);
    assert_true(dv_round_to(DV_U32, -2) == 0xfffffffe);
    assert_true(dv_round_to(DV_BOOL, 0.25) == 1 &&
                dv_round_to(DV_BOOL, (double)NAN) == 1 &&
                dv_round_to(DV_BOOL, -0.0) == 0);
    for (int t = DV_I64; t <= DV_BOOL; t++) {
        int64_t least = dv_int_least((dv_dtype)t), cell = 0;
        int64_t most = dv_int_most((dv_dtype)t);
        dv_int_store((dv_dtype)t, &cell, 0, least);
        assert_true(dv_int_load((dv_dtype)t, &cell, 0) == least);
        dv_int_store((dv_dtype)t, &cell, 0, most);
        assert_true(dv_int_load((dv_dtype)t, &cell, 0) == most);
        assert_true(dv_int_wrap((dv_dtype)t, most) == most);
        if (t != DV_BOOL)
            assert_true(dv_int_wrap((dv_dtype)t,
                                    (int64_t)((uint64_t)most + 1)) == least);
    }
}

TEST(dtype_names)
{
    assert_int_equal(dv_dtype_find("bf16", 4), DV_BF16);
    assert_int_equal(dv_dtype_find("f16x", 3), DV_F16);
    assert_int_equal(dv_dtype_find("f1", 2), -1);
    assert_int_equal(dv_dtype_find("", 0), -1);
    assert_true(dv_dtype_eps(DV_F64) == 0x1p-52);
    assert_true(dv_dtype_eps(DV_BF16) == 0x1p-7);
    assert_true(dv_dtype_eps(DV_I8) == 0);
    assert_true(dv_is_float(DV_F16) && !dv_is_float(DV_I32));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arena_memory),
        cmocka_unit_test(arena_nothing),
        cmocka_unit_test(arena_refuses),
        cmocka_unit_test(arena_push),
        cmocka_unit_test(text_long),
        cmocka_unit_test(text_conversions),
        cmocka_unit_test(text_edge),
        cmocka_unit_test(text_fails_once),
        cmocka_unit_test(text_doubles),
        cmocka_unit_test(text_memory_sizes),
        cmocka_unit_test(text_in_other_locales),
        cmocka_unit_test(table_of_many),
        cmocka_unit_test(json_values),
        cmocka_unit_test(json_strings),
        cmocka_unit_test(json_nesting),
        cmocka_unit_test(json_numbers_read),
        cmocka_unit_test(math_checked),
        cmocka_unit_test(dtype_halves),
        cmocka_unit_test(dtype_integers),
        cmocka_unit_test(dtype_unsigned),
        cmocka_unit_test(dtype_names),
    };
    return run_group(tests, NULL, NULL);
}
