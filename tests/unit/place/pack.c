// Packing: the results of both searches compared with trying every address,
// every layout checked pair by pair (S1, S2), known cases, and unusual or
// invalid input.
#include "harness/test.h"
#include "base/mem.h"
#include "place/pack_state.h"
#include <inttypes.h>

enum { MAX = 1024 };

static uint64_t random_state;

static int64_t below(int64_t n)
{
    random_state += 0x9e3779b97f4a7c15u;
    uint64_t x = random_state;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (int64_t)((x ^ x >> 31) % (uint64_t)n);
}

static dv_rect rect(int64_t start, int64_t end, int64_t size)
{
    return (dv_rect){start, end, size, 1, -1, -7};
}

// -- What is true ------------------------------------------------------------

static int clash(const dv_rect *a, const dv_rect *b)
{
    return a->start < b->end && b->start < a->end &&
           a->address < b->address + b->size &&
           b->address < a->address + a->size;
}

static int legal(const dv_rect *r, int32_t n, int64_t cap)
{
    for (int32_t i = 0; i < n; i++) {
        if (r[i].size <= 0 || r[i].start >= r[i].end)
            continue;
        if (r[i].address < 0 || r[i].address > cap - r[i].size)
            return 0;
        if (r[i].fixed >= 0 ? r[i].address != r[i].fixed
                            : r[i].address % r[i].align != 0)
            return 0;
        for (int32_t j = 0; j < i; j++)
            if (r[j].size > 0 && r[j].start < r[j].end && clash(&r[i], &r[j]))
                return 0;
    }
    return 1;
}

// Tries every address for every rectangle.
static int fits(dv_rect *r, int32_t n, int32_t k, int64_t cap)
{
    if (k == n)
        return 1;
    dv_rect *x = &r[k];
    int64_t from = x->fixed >= 0 ? x->fixed : 0;
    int64_t to = x->fixed >= 0 ? x->fixed : cap - x->size;
    for (x->address = from; x->address <= to && to <= cap - x->size;
         x->address += x->align) {
        int free = 1;
        for (int32_t j = 0; j < k && free; j++)
            free = !clash(x, &r[j]);
        if (free && fits(r, n, k + 1, cap))
            return 1;
    }
    return 0;
}

static void print_rects(const dv_rect *r, int32_t n, int64_t cap)
{
    print_error("capacity %" PRId64 "\n", cap);
    for (int32_t i = 0; i < n; i++)
        print_error("[%" PRId64 ", %" PRId64 ") size %" PRId64 " align %" PRId64
                    " fixed %" PRId64 " at %" PRId64 "\n",
                    r[i].start, r[i].end, r[i].size, r[i].align, r[i].fixed,
                    r[i].address);
}

// -- Hand-made cases ---------------------------------------------------------

TEST(test_nothing)
{
    dv_pack_stats stats;
    int64_t cap = -1;
    assert_int_equal(dv_pack(NULL, 0, 0, NULL, NULL), DV_FIT_YES);
    assert_int_equal(dv_pack(NULL, 0, -5, NULL, &stats), DV_FIT_YES);
    assert_int_equal(stats.bound, 0);
    assert_int_equal(dv_pack_least(NULL, 0, &cap, NULL, &stats), DV_FIT_YES);
    assert_int_equal(cap, 0);
}

TEST(test_odd_rects)
{
    // Rectangles without size or without lifetime take no room.
    dv_rect r[] = {rect(0, 4, 0), rect(3, 3, 9), rect(5, 2, 9), rect(0, 9, 3)};
    assert_int_equal(dv_pack(r, 4, 3, NULL, NULL), DV_FIT_YES);
    assert_true(legal(r, 4, 3));
    assert_int_equal(r[0].address, 0);
    assert_int_equal(r[1].address, 0);
    assert_int_equal(dv_pack(r, 4, 2, NULL, NULL), DV_FIT_NO);
    assert_int_equal(dv_pack(r, 4, 0, NULL, NULL), DV_FIT_NO);
    assert_int_equal(dv_pack(r, 4, -1, NULL, NULL), DV_FIT_NO);
    assert_int_equal(dv_pack(r, 3, 0, NULL, NULL), DV_FIT_YES);
}

TEST(test_huge)
{
    int64_t big = (int64_t)1 << 62;
    dv_pack_stats stats;
    dv_rect r[] = {rect(INT64_MIN, INT64_MAX, big), rect(-1, 1, big - 1),
                   rect(0, 2, big)};
    assert_int_equal(dv_pack(r, 2, INT64_MAX, NULL, &stats), DV_FIT_YES);
    assert_true(legal(r, 2, INT64_MAX));
    assert_int_equal(stats.bound, INT64_MAX);
    assert_int_equal(dv_pack(r, 3, INT64_MAX, NULL, &stats), DV_FIT_NO);
    assert_int_equal(dv_pack(r, 2, INT64_MAX - 1, NULL, &stats), DV_FIT_NO);
    int64_t cap;
    assert_int_equal(dv_pack_least(r, 3, &cap, NULL, &stats), DV_FIT_NO);
    r[1].align = big;
    assert_int_equal(dv_pack(r, 2, INT64_MAX, NULL, &stats), DV_FIT_YES);
    assert_true(legal(r, 2, INT64_MAX));
    r[1].size = big;
    assert_int_equal(dv_pack(r, 2, INT64_MAX, NULL, &stats), DV_FIT_NO);
    r[0].fixed = 5;
    assert_int_equal(dv_pack(r, 1, INT64_MAX, NULL, &stats), DV_FIT_YES);
    r[0].fixed = big;
    assert_int_equal(dv_pack(r, 1, INT64_MAX, NULL, &stats), DV_FIT_NO);
}

TEST(test_fixed_and_aligned)
{
    dv_rect r[] = {rect(0, 4, 4), rect(2, 6, 3), rect(1, 3, 2)};
    r[0].fixed = 3;
    // There is room for only one of the others below the fixed one.
    assert_int_equal(dv_pack(r, 3, 9, NULL, NULL), DV_FIT_YES);
    assert_true(legal(r, 3, 9));
    assert_int_equal(dv_pack(r, 3, 8, NULL, NULL), DV_FIT_NO);
    r[2].align = 8;
    assert_int_equal(dv_pack(r, 3, 10, NULL, NULL), DV_FIT_YES);
    assert_true(legal(r, 3, 10));
    // With one alignment for all, sizes are rounded up, but not beyond the top.
    dv_rect a[] = {rect(0, 2, 3), rect(0, 2, 3), rect(0, 2, 3)};
    a[0].align = a[1].align = a[2].align = 4;
    assert_int_equal(dv_pack(a, 3, 11, NULL, NULL), DV_FIT_YES);
    assert_true(legal(a, 3, 11));
    assert_int_equal(dv_pack(a, 3, 10, NULL, NULL), DV_FIT_NO);
    // Two rectangles that are fixed at overlapping addresses.
    r[1].fixed = 4;
    assert_int_equal(dv_pack(r, 2, 100, NULL, NULL), DV_FIT_NO);
}

static int always(void *cx)
{
    ++*(int *)cx;
    return 1;
}

static int32_t read_case(const char *name, dv_rect *r);

TEST(test_limits)
{
    static dv_rect r[MAX];
    int asked = 0;
    int32_t n = read_case("K.1048576.csv", r);
    dv_pack_stats stats;
    dv_pack_limits few = {.max_nodes = 10};
    dv_pack_limits stop = {.stop = always, .stop_cx = &asked};
    assert_int_equal(dv_pack(r, n, 1048576, &few, &stats), DV_FIT_OPEN);
    assert_true(stats.nodes >= 10 && stats.nodes < 20);
    assert_int_equal(dv_pack(r, n, 1048576, &stop, &stats), DV_FIT_OPEN);
    assert_int_equal(asked, 1);
    // The least capacity always comes with a layout.
    int64_t cap = 0;
    assert_int_equal(dv_pack_least(r, n, &cap, &few, &stats), DV_FIT_OPEN);
    assert_true(legal(r, n, cap));
    assert_int_equal(stats.bound, 1048576);
}

// -- Random small cases ------------------------------------------------------

// Kinds: 0 plain, 1 aligned, 2 fixed, 3 both.
static int32_t random_rects(dv_rect *r, int64_t cap, int kind)
{
    int32_t n = 2 + (int32_t)below(6);
    for (int32_t i = 0; i < n; i++) {
        int64_t start = below(6);
        r[i] = rect(start, start + 1 + below(6), 1 + below(cap / 2 + 1));
        if ((kind & 1) && below(2))
            r[i].align = 1 + below(4);
        if ((kind & 2) && below(3) == 0)
            r[i].fixed = below(cap - r[i].size + 1);
    }
    return n;
}

TEST(test_against_every_address)
{
    int answers[2] = {0};
    random_state = 1;
    for (int t = 0; t < 12000; t++) {
        dv_rect r[8], every[8];
        int64_t cap = 3 + below(8);
        int32_t n = random_rects(r, cap, t % 4);
        memcpy(every, r, sizeof r);
        int want = fits(every, n, 0, cap);
        dv_fit got = dv_pack(r, n, cap, NULL, NULL);
        if (got != (want ? DV_FIT_YES : DV_FIT_NO) ||
            (want && !legal(r, n, cap))) {
            print_rects(r, n, cap);
            fail_msg("case %d: %d", t, got);
        }
        answers[want]++;
    }
    assert_true(answers[0] > 1000 && answers[1] > 1000);
}

TEST(test_least_against_every_address)
{
    random_state = 2;
    for (int t = 0; t < 1500; t++) {
        dv_rect r[8], every[8];
        int32_t n = random_rects(r, 6, t % 4);
        memcpy(every, r, sizeof r);
        int64_t want = 1, cap = -1;
        int clashes = 0;
        for (int32_t i = 0; i < n; i++)
            for (int32_t j = 0; j < i; j++) {
                every[i].address = r[i].fixed;
                every[j].address = r[j].fixed;
                clashes |= r[i].fixed >= 0 && r[j].fixed >= 0 &&
                           clash(&every[i], &every[j]);
            }
        while (!clashes && !fits(every, n, 0, want))
            want++;
        dv_pack_stats stats;
        dv_fit got = dv_pack_least(r, n, &cap, NULL, &stats);
        int good = clashes ? got == DV_FIT_NO
                           : got == DV_FIT_YES && cap == want &&
                                 stats.bound == want && legal(r, n, cap);
        if (!good) {
            print_rects(r, n, cap);
            fail_msg("case %d: %d, wanted %" PRId64, t, got, want);
        }
    }
}

// -- Each search alone -------------------------------------------------------

typedef struct small {
    int32_t first[24], last[24], rect[24];
    int64_t life[24], size[24], align[24], fixed[24], at[24];
} small;

// Makes a part of the same rectangles whose sections are the points in time.
static dv_part make_part(small *m, dv_rect *r, int32_t n, int64_t cap)
{
    dv_part p = {.n = n,
                 .first = m->first,
                 .last = m->last,
                 .life = m->life,
                 .size = m->size,
                 .align = m->align,
                 .fixed = m->fixed,
                 .at = m->at,
                 .rect = m->rect,
                 .cap = cap,
                 .plain = 1};
    for (int32_t i = 1; i < n; i++) // sorted by start
        for (int32_t k = i; k && r[k].start < r[k - 1].start; k--) {
            dv_rect t = r[k];
            r[k] = r[k - 1];
            r[k - 1] = t;
        }
    for (int32_t i = 0; i < n; i++) {
        m->first[i] = (int32_t)r[i].start;
        m->last[i] = (int32_t)r[i].end - 1;
        m->life[i] = r[i].end - r[i].start;
        m->size[i] = r[i].size;
        m->align[i] = r[i].align;
        m->fixed[i] = r[i].fixed;
        m->rect[i] = i;
        if (p.n_secs <= m->last[i])
            p.n_secs = m->last[i] + 1;
    }
    return p;
}

static int overloaded(const dv_rect *r, int32_t n, int64_t cap)
{
    for (int64_t t = 0; t < 24; t++) {
        int64_t load = 0;
        for (int32_t i = 0; i < n; i++)
            load += r[i].start <= t && t < r[i].end ? r[i].size : 0;
        if (load > cap)
            return 1;
    }
    return 0;
}

static void check_search(dv_rect *r, int32_t n, const dv_part *p, int want,
                         dv_fit got)
{
    for (int32_t i = 0; i < n; i++)
        r[i].address = p->at[i];
    if (got != (want ? DV_FIT_YES : DV_FIT_NO) ||
        (want && !legal(r, n, p->cap))) {
        print_rects(r, n, p->cap);
        fail_msg("got %d", got);
    }
}

// Adds rectangles until every point in time is full, so that a loose fit
// becomes a tight one.
static int32_t fill_up(dv_rect *r, int32_t n, int64_t cap)
{
    int32_t all = n;
    for (int64_t t = 0; t < 13; t++) {
        int64_t rest = cap;
        for (int32_t i = 0; i < n; i++)
            rest -= r[i].start <= t && t < r[i].end ? r[i].size : 0;
        if (rest > 0)
            r[all++] = rect(t, t + 1, rest);
    }
    return all;
}

TEST(test_each_search)
{
    int answers[2] = {0};
    random_state = 3;
    for (int t = 0; t < 3000; t++) {
        dv_rect r[24], every[24];
        int64_t cap = 4 + below(5);
        int32_t n = 0;
        for (int k = 0; k < 30 && n < 8; k++) {
            int64_t start = below(9);
            r[n] = rect(start, start + 2 + below(3), 1 + below(cap / 2));
            n += !overloaded(r, n + 1, cap);
        }
        if (t % 4)
            n = fill_up(r, n, cap);
        memcpy(every, r, sizeof r);
        small m;
        dv_pack_run run = {0};
        dv_part p = make_part(&m, r, n, cap);
        int want = fits(every, n, 0, cap);
        answers[want]++;
        dv_valley *v = dv_valley_create(&p);
        dv_pack_order *o = dv_order_create(&p);
        assert_true(v && o);
        for (int k = 0; k < 16; k++) {
            dv_pack_key keys[3] = {(dv_pack_key)(k / 4), DV_KEY_LIFE,
                                   DV_KEY_SIZE};
            check_search(r, n, &p, want,
                         dv_valley_try(v, (dv_valley_rule)(k % 4), keys,
                                       (uint64_t)k % 3, 1 << 20, &run));
            if (k % 4 == 0)
                check_search(r, n, &p, want,
                             dv_order_try(o, keys, 1 << 20, &run));
        }
        dv_valley_destroy(v);
        dv_order_destroy(o);
    }
    assert_true(answers[0] > 50 && answers[1] > 50);
}

// -- Larger cases ------------------------------------------------------------

static int32_t read_case(const char *name, dv_rect *r)
{
    char path[512], line[256];
    long long start, end, size;
    int32_t n = 0;
    snprintf(path, sizeof path, "%s/tests/data/placement/%s", DV_SOURCE_DIR,
             name);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (n < MAX && fgets(line, sizeof line, f))
        if (sscanf(line, "%*[^,],%lld,%lld,%lld", &start, &end, &size) == 3)
            r[n++] = rect(start, end, size);
    fclose(f);
    return n;
}

TEST(test_known_cases)
{
    static const struct {
        const char *name;
        int64_t cap, least;
    } cases[] = {
        {"A.1048576.csv", 1048576, 1048576},
        {"B.1048576.csv", 1048576, 1048576},
        {"C.1048576.csv", 1048576, 1039360},
        {"D.1048576.csv", 1048576, 986112},
        {"F.1048576.csv", 1048576, 1048576},
        {"H.1048576.csv", 1048576, 1048576},
        {"K.1048576.csv", 1048576, 1048576},
        {"input.12.csv", 12, 12},
    };
    static dv_rect r[MAX];
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        int32_t n = read_case(cases[k].name, r);
        dv_pack_stats stats;
        dv_pack_limits limits = {.max_nodes = 5000000};
        assert_int_equal(dv_pack(r, n, cases[k].cap, &limits, &stats),
                         DV_FIT_YES);
        assert_true(legal(r, n, cases[k].cap));
        assert_int_equal(stats.bound, cases[k].least);
        assert_int_equal(dv_pack(r, n, stats.bound - 1, NULL, &stats),
                         DV_FIT_NO);
        assert_int_equal(stats.nodes, 0);
    }
}

static void shuffle(dv_rect *r, int32_t n)
{
    for (int32_t i = n - 1; i > 0; i--) {
        int32_t j = (int32_t)below(i + 1);
        dv_rect t = r[i];
        r[i] = r[j];
        r[j] = t;
    }
}

// Shuffling, scaling and reversing time do not change the effort of the search.
TEST(test_same_work)
{
    static dv_rect r[MAX];
    int32_t n = read_case("C.1048576.csv", r);
    dv_pack_stats first, other;
    random_state = 4;
    assert_int_equal(dv_pack(r, n, 1048576, NULL, &first), DV_FIT_YES);
    shuffle(r, n);
    for (int32_t i = 0; i < n; i++) {
        int64_t start = r[i].start;
        r[i].start = 10 - 3 * r[i].end;
        r[i].end = 10 - 3 * start;
        r[i].size *= 1021;
    }
    assert_int_equal(dv_pack(r, n, 1048576 * 1021, NULL, &other), DV_FIT_YES);
    assert_true(legal(r, n, 1048576 * 1021));
    assert_int_equal(first.nodes, other.nodes);
    assert_int_equal(first.restarts, other.restarts);
}

// Cuts a full rectangle at random: the pieces fit into its capacity, and into
// no less.
static int32_t dissect(dv_rect *r, int32_t n, int64_t time, int64_t size)
{
    r[0] = rect(0, time, size);
    for (int32_t k = 1; k < n;) {
        dv_rect *x = &r[below(k)];
        r[k] = *x;
        if (below(2) && x->end - x->start > 1) {
            r[k++].start = x->end = x->start + 1 + below(x->end - x->start - 1);
        } else if (x->size > 1) {
            r[k].size = 1 + below(x->size - 1);
            x->size -= r[k++].size;
        }
    }
    return n;
}

TEST(test_dissections)
{
    random_state = 5;
    for (int t = 0; t < 60; t++) {
        static dv_rect r[MAX];
        int32_t n = dissect(r, 10 + t, 64, 512);
        dv_pack_stats stats;
        int64_t cap = 0;
        dv_pack_limits limits = {.max_nodes = 2000000};
        shuffle(r, n);
        assert_int_equal(dv_pack(r, n, 512, &limits, &stats), DV_FIT_YES);
        assert_true(legal(r, n, 512));
        assert_int_equal(dv_pack_least(r, n, &cap, &limits, &stats),
                         DV_FIT_YES);
        assert_int_equal(cap, 512);
        assert_true(legal(r, n, 512));
        assert_int_equal(dv_pack(r, n, 511, &limits, &stats), DV_FIT_NO);
    }
}

// With any budget, the layout is legal and close to the bound.
TEST(test_simple_layouts)
{
    enum { MANY = 5000 };
    dv_rect *r = malloc(MANY * sizeof *r);
    assert_non_null(r);
    random_state = 6;
    for (int t = 0; t < 120; t++) {
        int kind = t % 4, n = t < 4 ? MANY : 20 + t;
        for (int32_t i = 0; i < n; i++) {
            int64_t start = below(n);
            r[i] = rect(start, start + 1 + below(1 + below(n)), 1 + below(99));
            if (kind & 1)
                r[i].align = (int64_t)1 << below(5);
            if ((kind & 2) && i < 2)
                r[i].fixed = 1000 * i;
        }
        int64_t cap = 0;
        dv_pack_stats stats;
        dv_pack_limits few = {.max_nodes = 1};
        dv_fit fit = dv_pack_least(r, n, &cap, &few, &stats);
        assert_true(fit == DV_FIT_YES || fit == DV_FIT_OPEN);
        assert_true(legal(r, n, cap));
        assert_true(stats.bound <= cap && cap < 3 * stats.bound + 2000);
        if (t < 4)
            assert_int_equal(dv_pack(r, n, cap, &few, NULL), DV_FIT_YES);
    }
    free(r);
}

// -- Memory ------------------------------------------------------------------

TEST(test_out_of_memory)
{
    static dv_rect r[MAX];
    int32_t n = read_case("A.1048576.csv", r);
    dv_fit fit = DV_FIT_NOMEM;
    int64_t nth = 0, cap;
    for (; fit == DV_FIT_NOMEM; nth++) {
        dv_mem_fail_at(nth);
        fit = dv_pack(r, n, 1048576, NULL, NULL);
        dv_mem_fail_at(-1);
    }
    assert_int_equal(fit, DV_FIT_YES);
    assert_true(nth > 5);
    fit = DV_FIT_NOMEM;
    for (nth = 0; fit == DV_FIT_NOMEM; nth++) {
        dv_mem_fail_at(nth);
        fit = dv_pack_least(r, n, &cap, NULL, NULL);
        dv_mem_fail_at(-1);
    }
    assert_int_equal(fit, DV_FIT_YES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_odd_rects),
        cmocka_unit_test(test_huge),
        cmocka_unit_test(test_fixed_and_aligned),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_against_every_address),
        cmocka_unit_test(test_least_against_every_address),
        cmocka_unit_test(test_each_search),
        cmocka_unit_test(test_known_cases),
        cmocka_unit_test(test_same_work),
        cmocka_unit_test(test_dissections),
        cmocka_unit_test(test_simple_layouts),
        cmocka_unit_test(test_out_of_memory),
    };
    return run_group(tests, NULL, NULL);
}
