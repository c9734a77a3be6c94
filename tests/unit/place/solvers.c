// Placement (S1 to S6): Torch-Spyre's vectors (tests/vectors/place.txt), its
// figures on synthetic instances, and plain quadratic versions of the list
// solvers.
#include "harness/test.h"
#include "base/file.h"
#include "place/csv.h"
#include "place/place.h"
#include "harness/synth.h"
#include "harness/place_case.h"

// -- Vectors -----------------------------------------------------------------

static int64_t pattern_bytes; // moved by all patterns together

static const char *read_tail(dv_buffer *b, const char *text)
{
    int used = 0;
    assert_int_equal(sscanf(text, "%" SCNd32 " %n", &b->group, &used), 1);
    return text + used;
}

static int matches(const dv_placement *p, const char *list)
{
    char text[512];
    snprintf(text, sizeof text, "%s", list);
    size_t i = 0;
    for (char *w = strtok(text, " "); w; w = strtok(NULL, " "), i++) {
        int64_t want = strcmp(w, "-") ? atoll(w) : -1;
        if (i >= p->n_buffers || p->addresses[i] != want)
            return 0;
    }
    return i == p->n_buffers;
}

// Returns the traffic of main memory in bytes: buffers that are outside, and
// every use of a buffer that is not in memory at that time.
static int64_t traffic(const place_case *s, const dv_placement *p,
                       int64_t outside)
{
    int64_t bytes = outside;
    for (int i = 0; i < s->n; i++)
        bytes += (int64_t)s->buffers[i].n_uses * s->buffers[i].size_bytes;
    for (size_t k = 0; k < p->n_stays; k++) {
        const dv_buffer *b = &s->buffers[p->stays[k].buffer];
        for (size_t u = 0; u < b->n_uses; u++)
            if (b->uses[u].tick >= p->stays[k].start &&
                b->uses[u].tick < p->stays[k].end)
                bytes -= b->size_bytes;
    }
    return bytes;
}

// One solver on the case: legal, and all conditions hold.
static void check_solver(place_case *s, dv_solver method)
{
    const char *solver = dv_solver_name(method);
    dv_placement *p = NULL;
    s->options.solver = method;
    dv_diag *diag = dv_diag_create();
    dv_status st = dv_place(&p, s->buffers, (size_t)s->n, &s->options, diag);
    int n_any = 0, any = 0;
    int64_t outside = 0, want;
    if (st == DV_OK && dv_placement_check(p, s->buffers, &s->options, diag))
        fail_msg("%s, %s: %s", s->name, solver, dv_diag_text(diag));
    for (int k = 0; k < s->n_lines; k++) {
        const char *line = s->lines[k], *rest;
        char word[16], who[32];
        int used = 0;
        sscanf(line, "%15s %31s %n", word, who, &used);
        rest = line + used;
        if (!strcmp(word, "error")) {
            assert_int_equal(st, DV_E_BUFFER);
            if (!strstr(dv_diag_text(diag), line + 6))
                fail_msg("%s: %s", s->name, dv_diag_text(diag));
            continue;
        }
        if (st != DV_OK)
            fail_msg("%s: %s", s->name, dv_diag_text(diag));
        if (!strcmp(word, "outside"))
            outside = atoll(who);
        if (!strcmp(word, "at") && !strcmp(who, solver)) {
            n_any++;
            any |= matches(p, rest);
        }
        if (!strcmp(word, "same") && !strcmp(who, solver) && !matches(p, rest))
            fail_msg("%s: %s is not at %s", s->name, solver, rest);
        if (!strcmp(word, "reason"))
            assert_string_equal(p->reasons[place_find(s, who)], rest);
        if (!strcmp(word, "in"))
            assert_true(p->addresses[place_find(s, who)] >= 0);
        if (!strcmp(word, "out"))
            assert_true(p->addresses[place_find(s, who)] < 0);
        if (!strcmp(word, "traffic") && !strcmp(who, solver) &&
            (want = atoll(rest)) != traffic(s, p, outside) &&
            (strcmp(solver, "anneal") || traffic(s, p, outside) > want))
            fail_msg("%s: %s moves %" PRId64 " bytes, not %" PRId64, s->name,
                     solver, traffic(s, p, outside), want);
    }
    if (n_any && !any)
        fail_msg("%s: %s found no accepted answer", s->name, solver);
    dv_placement_destroy(p);
    dv_diag_destroy(diag);
}

static int64_t line_value(const place_case *s, const char *word)
{
    size_t len = strlen(word);
    for (int k = 0; k < s->n_lines; k++)
        if (!strncmp(s->lines[k], word, len) && s->lines[k][len] == ' ')
            return atoll(s->lines[k] + len);
    return -1;
}

// With evictions, a pattern moves no more than its known good plan.
static void check_score(place_case *s)
{
    int64_t good = line_value(s, "score");
    if (good < 0)
        return;
    dv_placement *p = NULL;
    s->options.solver = (dv_solver)0;
    s->options.evict = 1;
    assert_int_equal(dv_place(&p, s->buffers, (size_t)s->n, &s->options, NULL),
                     DV_OK);
    assert_int_equal(dv_placement_check(p, s->buffers, &s->options, NULL),
                     DV_OK);
    int64_t bytes = traffic(s, p, line_value(s, "outside"));
    if (bytes > good)
        fail_msg("%s: %" PRId64 " bytes, a good plan moves %" PRId64, s->name,
                 bytes, good);
    pattern_bytes += bytes;
    dv_placement_destroy(p);
}

static void check_case(place_case *s)
{
    for (dv_solver i = DV_SOLVER_AUTO; dv_solver_name(i); i++)
        check_solver(s, i);
    check_score(s);
}

static int check_capacity(const char *line)
{
    if (strncmp(line, "capacity ", 9))
        return 0;
    double taken;
    char bytes[32];
    long long memory;
    assert_int_equal(
        sscanf(line, "capacity %lld %lf %31s", &memory, &taken, bytes), 3);
    int64_t want = strcmp(bytes, "error") ? atoll(bytes) : -1;
    assert_int_equal(dv_place_capacity(memory, taken, 128), want);
    return 1;
}

TEST(test_vectors)
{
    const place_reader how = {read_tail, check_case, check_capacity};
    assert_int_equal(place_read(DV_SOURCE_DIR "/tests/vectors/place.txt", &how),
                     48);
    assert_true(pattern_bytes <= 40112896);
}

// -- Plain versions of the list solvers --------------------------------------

static int overlap(const dv_buffer *a, const dv_buffer *b)
{
    return a->start < b->end && b->start < a->end;
}

static int64_t up(int64_t v)
{
    return (v + SYNTH_ALIGN - 1) / SYNTH_ALIGN * SYNTH_ALIGN;
}

// Returns the lowest byte from `lo` on that no obstacle covers.
static int64_t rise(const synth *s, const int64_t *at, const char *in_way,
                    int64_t lo)
{
    for (int again = 1; again;) {
        again = 0;
        for (int k = 0; k < s->n; k++)
            if (in_way[k] && at[k] <= lo &&
                at[k] + s->buffers[k].size_bytes > lo) {
                lo = at[k] + s->buffers[k].size_bytes;
                again = 1;
            }
    }
    return lo;
}

// Returns where the next obstacle above `lo` begins.
static int64_t ceiling(const synth *s, const int64_t *at, const char *in_way,
                       int64_t lo)
{
    int64_t hi = SYNTH_CAPACITY;
    for (int k = 0; k < s->n; k++)
        if (in_way[k] && at[k] >= lo && at[k] < hi)
            hi = at[k];
    return hi;
}

static int64_t plain_gap(const synth *s, const int64_t *at, int i, char *in_way,
                         int best, int in_place)
{
    const dv_buffer *b = &s->buffers[i];
    int64_t least = INT64_MAX, found = -1, lo = 0;
    while ((lo = rise(s, at, in_way, lo)) < SYNTH_CAPACITY) {
        int64_t hi = ceiling(s, at, in_way, lo), base = up(lo);
        if (in_place) {
            const dv_buffer *p = &s->buffers[b->parents[0]];
            base = at[b->parents[0]];
            if (base < lo || base + p->size_bytes > hi)
                base = -1;
        }
        int64_t waste = best ? hi - up(lo) - b->size_bytes : 0;
        if (hi - lo >= b->size_bytes && base >= 0 && waste < least) {
            least = waste;
            found = base;
        }
        lo = hi;
    }
    return found;
}

static void plain_place(const synth *s, int64_t *at, int i, int best)
{
    const dv_buffer *b = &s->buffers[i];
    char *in_way = calloc((size_t)s->n, 1);
    for (int k = 0; k < s->n; k++)
        in_way[k] = k != i && at[k] >= 0 && overlap(b, &s->buffers[k]);
    if (b->n_parents && at[b->parents[0]] >= 0) {
        in_way[b->parents[0]] = 0;
        at[i] = plain_gap(s, at, i, in_way, best, 1);
        in_way[b->parents[0]] = 1;
    }
    if (at[i] < 0)
        at[i] = plain_gap(s, at, i, in_way, best, 0);
    free(in_way);
}

static double key(const synth *s, int i)
{
    const dv_buffer *b = &s->buffers[i];
    int is_parent = 0;
    for (int k = 0; k < s->n; k++)
        is_parent |= s->buffers[k].n_parents && s->buffers[k].parents[0] == i;
    return ((double)(b->end - b->start) - 0.25 * (b->n_parents > 0) -
            0.25 * is_parent) /
           ((double)b->n_uses + 0.5);
}

// Always takes the least key among the buffers whose parent is placed.
static void plain_fit(const synth *s, int64_t *at, int best)
{
    double *keys = malloc((size_t)s->n * sizeof *keys);
    char *done = calloc((size_t)s->n, 1);
    for (int i = 0; i < s->n; i++) {
        keys[i] = key(s, i);
        at[i] = -1;
    }
    for (int turn = 0; turn < s->n; turn++) {
        int next = -1;
        for (int i = 0; i < s->n; i++) {
            const dv_buffer *b = &s->buffers[i];
            if (done[i] || (b->n_parents && !done[b->parents[0]]))
                continue;
            const dv_buffer *c = next < 0 ? NULL : &s->buffers[next];
            if (!c || keys[i] < keys[next] ||
                (keys[i] == keys[next] &&
                 b->end - b->start < c->end - c->start))
                next = i;
        }
        done[next] = 1;
        plain_place(s, at, next, best);
    }
    free(keys);
    free(done);
}

static int64_t plain_greedy_place(const synth *s, int64_t *at, int i,
                                  char *handed)
{
    const dv_buffer *b = &s->buffers[i];
    char *in_way = calloc((size_t)s->n, 1);
    int64_t lowest = INT64_MAX, top = 0, found = -1;
    for (int k = 0; k < i; k++)
        if (at[k] >= 0 && overlap(b, &s->buffers[k])) {
            in_way[k] = 1;
            lowest = at[k] < lowest ? at[k] : lowest;
            if (at[k] + s->buffers[k].size_bytes > top)
                top = at[k] + s->buffers[k].size_bytes;
        }
    if (b->n_parents && at[b->parents[0]] >= 0 && !handed[b->parents[0]]) {
        handed[b->parents[0]] = 1;
        found = at[b->parents[0]];
    } else if (lowest >= b->size_bytes) {
        found = 0;
    } else if (up(top) + b->size_bytes <= SYNTH_CAPACITY) {
        found = up(top);
    } else {
        int64_t lo = lowest;
        while (found < 0 && (lo = rise(s, at, in_way, lo)) < top) {
            int64_t hi = ceiling(s, at, in_way, lo);
            if (up(lo) + b->size_bytes <= hi)
                found = up(lo);
            lo = hi;
        }
    }
    free(in_way);
    return found;
}

static void plain_greedy(const synth *s, int64_t *at)
{
    char *handed = calloc((size_t)s->n, 1);
    for (int i = 0; i < s->n; i++) // here the input is sorted by start
        at[i] = plain_greedy_place(s, at, i, handed);
    free(handed);
}

TEST(test_twins)
{
    static const dv_solver names[] = {DV_SOLVER_GREEDY, DV_SOLVER_FIRSTFIT,
                                      DV_SOLVER_BESTFIT};
    synth s = synth_make(1000);
    int64_t *at = malloc((size_t)s.n * sizeof *at);
    dv_place_options o = DV_PLACE_OPTIONS_INIT;
    o.capacity_bytes = SYNTH_CAPACITY;
    o.align_bytes = SYNTH_ALIGN;
    for (int k = 0; k < 3; k++) {
        if (k == 0)
            plain_greedy(&s, at);
        else
            plain_fit(&s, at, k == 2);
        dv_placement *p = NULL;
        o.solver = names[k];
        assert_int_equal(dv_place(&p, s.buffers, (size_t)s.n, &o, NULL), DV_OK);
        for (int i = 0; i < s.n; i++)
            if (p->addresses[i] != at[i])
                fail_msg("%s: buffer %d at %" PRId64 ", not %" PRId64,
                         dv_solver_name(names[k]), i, p->addresses[i], at[i]);
        dv_placement_destroy(p);
    }
    free(at);
    synth_free(&s);
}

// -- Torch-Spyre's figures --------------------------------------------------

static const struct {
    int n;
    dv_solver solver;
    int placed;
    int64_t unplaced, spilled; // bytes, and bytes times uses
} figures[] = {
    {100, DV_SOLVER_GREEDY, 100, 0, 0},
    {1000, DV_SOLVER_GREEDY, 973, 8976640, 23379968},
    {1000, DV_SOLVER_FIRSTFIT, 980, 2812544, 8311680},
    {1000, DV_SOLVER_BESTFIT, 980, 3418240, 9821568},
    {10000, DV_SOLVER_GREEDY, 9682, 112324864, 292484608},
    {10000, DV_SOLVER_FIRSTFIT, 9849, 31527680, 86885760},
    {10000, DV_SOLVER_BESTFIT, 9819, 34890368, 97052416},
};

TEST(test_figures)
{
    for (size_t k = 0; k < sizeof figures / sizeof *figures; k++) {
        synth s = synth_make(figures[k].n);
        dv_place_options o = DV_PLACE_OPTIONS_INIT;
        o.capacity_bytes = SYNTH_CAPACITY;
        o.align_bytes = SYNTH_ALIGN;
        o.solver = figures[k].solver;
        dv_placement *p = NULL;
        assert_int_equal(dv_place(&p, s.buffers, (size_t)s.n, &o, NULL), DV_OK);
        assert_int_equal(dv_placement_check(p, s.buffers, &o, NULL), DV_OK);
        int placed = 0;
        int64_t unplaced = 0, spilled = 0;
        for (int i = 0; i < s.n; i++) {
            const dv_buffer *b = &s.buffers[i];
            placed += p->addresses[i] >= 0;
            unplaced += p->addresses[i] < 0 ? b->size_bytes : 0;
            if (p->addresses[i] < 0)
                spilled += b->size_bytes * (int64_t)b->n_uses;
        }
        assert_int_equal(placed, figures[k].placed);
        assert_int_equal(unplaced, figures[k].unplaced);
        assert_int_equal(spilled, figures[k].spilled);
        dv_placement_destroy(p);
        synth_free(&s);
    }
}

// -- Better than Torch-Spyre ------------------------------------------------

static void check_auto(int n, int64_t most)
{
    synth s = synth_make(n);
    for (int i = 0; i < n; i++)
        s.buffers[i].weight = s.buffers[i].size_bytes;
    dv_place_options o = DV_PLACE_OPTIONS_INIT;
    o.capacity_bytes = SYNTH_CAPACITY;
    o.align_bytes = SYNTH_ALIGN;
    dv_placement *p = NULL;
    assert_int_equal(dv_place(&p, s.buffers, (size_t)n, &o, NULL), DV_OK);
    assert_int_equal(dv_placement_check(p, s.buffers, &o, NULL), DV_OK);
    int64_t unplaced = 0;
    for (int i = 0; i < n; i++)
        unplaced += p->addresses[i] < 0 ? s.buffers[i].size_bytes : 0;
    assert_true(unplaced < most);
    assert_true(p->value <= p->bound);
    dv_placement_destroy(p);
    synth_free(&s);
}

TEST(test_auto)
{
    check_auto(100, 1);
    check_auto(1000, 1747200);
    check_auto(10000, 31527680);
}

// The least capacity for many buffers: the effort, counted in steps, is
// bounded, and the remaining gap is small.
TEST(test_least_of_many)
{
    enum { MOST = 2000 };
    static dv_buffer b[MOST];
    static const struct {
        int n, life, sizes;
    } cases[] = {{600, 75, 1 << 20},
                 {1500, 188, 1 << 20},
                 {2000, 250, 1 << 20},
                 {1500, 150, 4},
                 {2000, 20, 1 << 16}};
    uint64_t seed = 1;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        int n = cases[k].n;
        for (int i = 0; i < n; i++) {
            uint64_t r[3];
            for (int j = 0; j < 3; j++) {
                seed = seed * 6364136223846793005u + 1442695040888963407u;
                r[j] = seed >> 33;
            }
            b[i] = (dv_buffer)DV_BUFFER_INIT;
            b[i].start = (int64_t)(r[0] % (uint64_t)n);
            b[i].end = b[i].start + 1 +
                       (int64_t)(r[1] % (uint64_t)(2 * cases[k].life));
            b[i].size_bytes =
                cases[k].sizes > 4
                    ? 500 + (int64_t)(r[2] % (uint64_t)cases[k].sizes)
                    : (int64_t[]){4096, 16384, 65536, 10000}[r[2] % 4];
        }
        dv_place_options o = DV_PLACE_OPTIONS_INIT;
        dv_placement *p = NULL;
        int64_t proven = 0;
        assert_int_equal(dv_place_least(&p, &proven, b, (size_t)n, &o, NULL),
                         DV_OK);
        o.capacity_bytes = p->peak_bytes;
        assert_int_equal(dv_placement_check(p, b, &o, NULL), DV_OK);
        assert_true(proven <= p->peak_bytes);
        if ((double)p->peak_bytes > 1.06 * (double)proven || p->steps > 2000000)
            fail_msg("%d buffers: %d bytes, at least %d, %d steps", n,
                     (int)p->peak_bytes, (int)proven, (int)p->steps);
        dv_placement_destroy(p);
    }
}

// Ticks at the ends of 64 bits are refused without undefined behaviour, which
// the sanitizer build sees.
TEST(test_extreme_ticks)
{
    static const int64_t ends[] = {INT64_MIN, INT64_MIN + 1, -1,       0,
                                   1,         INT64_MAX - 1, INT64_MAX};
    enum { N = sizeof ends / sizeof *ends };
    for (int i = 0; i < N * N * N; i++) {
        dv_use use = {ends[i % N], 1};
        dv_buffer b = DV_BUFFER_INIT;
        b.size_bytes = 1;
        b.start = ends[i / N % N];
        b.end = ends[i / N / N];
        b.uses = &use;
        b.n_uses = 1;
        int good = b.start >= -1 && b.start < b.end && b.end <= 1 &&
                   use.tick >= b.start && use.tick < b.end;
        dv_place_options o = DV_PLACE_OPTIONS_INIT;
        o.capacity_bytes = 4;
        dv_placement *p = NULL;
        dv_status st = dv_place(&p, &b, 1, &o, NULL);
        assert_int_equal(st == DV_OK, good);
        dv_placement_destroy(p);
    }
}

// At three quarters of their capacity the hard instances keep at least 98 % of
// the value that the bound allows.
TEST(test_spill)
{
    static const char names[] = "ADFK";
    for (int k = 0; names[k]; k++) {
        char path[512], *text = NULL;
        size_t len = 0;
        dv_csv csv;
        snprintf(path, sizeof path,
                 DV_SOURCE_DIR "/tests/data/placement/%c.1048576.csv",
                 names[k]);
        assert_int_equal(dv_file_read(&text, &len, path, 1 << 20, NULL), DV_OK);
        assert_int_equal(dv_csv_parse(&csv, text, len, path, NULL), DV_OK);
        dv_place_options o = DV_PLACE_OPTIONS_INIT;
        o.capacity_bytes = 786432;
        dv_placement *p = NULL;
        assert_int_equal(dv_place(&p, csv.buffers, (size_t)csv.n, &o, NULL),
                         DV_OK);
        assert_int_equal(dv_placement_check(p, csv.buffers, &o, NULL), DV_OK);
        if (p->gap > 0.02)
            fail_msg("%c: gap %g", names[k], p->gap);
        dv_placement_destroy(p);
        dv_csv_free(&csv);
        dv_release(text);
    }
}

// -- The judge ---------------------------------------------------------------

static void expect_wrong(const dv_placement *p, const dv_buffer *b,
                         const dv_place_options *o, const char *what)
{
    dv_diag *diag = dv_diag_create();
    assert_int_equal(dv_placement_check(p, b, o, diag), DV_E_CHECK);
    if (!strstr(dv_diag_text(diag), what))
        fail_msg("'%s' is not in: %s", what, dv_diag_text(diag));
    dv_diag_destroy(diag);
}

// S1 to S5: two buffers, the second a child of the first, with each possible
// mistake.
TEST(test_judge)
{
    dv_buffer b[2] = {DV_BUFFER_INIT, DV_BUFFER_INIT};
    int32_t parents[] = {0};
    b[0].name = "a", b[1].name = "b";
    b[0].size_bytes = b[1].size_bytes = 64;
    b[0].end = 3, b[1].start = 2, b[1].end = 5;
    b[1].parents = parents, b[1].n_parents = 1;
    dv_place_options o = DV_PLACE_OPTIONS_INIT;
    o.capacity_bytes = 200;
    o.align_bytes = 8;
    int64_t at[2] = {0, 0};
    const char *reasons[2] = {NULL, NULL};
    dv_stay stays[2] = {{0, 0, 3, 0}, {1, 2, 5, 0}};
    dv_placement p = {.n_buffers = 2,
                      .addresses = at,
                      .reasons = reasons,
                      .stays = stays,
                      .n_stays = 2,
                      .peak_bytes = 64};
    assert_int_equal(dv_placement_check(&p, b, &o, NULL), DV_OK);
    b[1].n_parents = 0;
    expect_wrong(&p, b, &o, "a and b share bytes in 2..3"); // S1
    b[1].n_parents = 1;
    at[1] = stays[1].address = 8;
    expect_wrong(&p, b, &o, "share bytes");
    at[1] = stays[1].address = 65;
    expect_wrong(&p, b, &o, "alignment is 8"); // S2
    at[1] = stays[1].address = 144;
    expect_wrong(&p, b, &o, "ends at byte 208, the capacity is 200");
    at[1] = stays[1].address = 64;
    expect_wrong(&p, b, &o, "the peak is 128");
    p.peak_bytes = 128;
    assert_int_equal(dv_placement_check(&p, b, &o, NULL), DV_OK);
    b[0].fixed_address = 8;
    expect_wrong(&p, b, &o, "its fixed address is 8"); // S3
    b[0].fixed_address = -1;
    b[1].barred = "no";
    expect_wrong(&p, b, &o, "b is placed and barred: no");
    b[1].barred = NULL;
    stays[1].start = 3;
    expect_wrong(&p, b, &o, "no part of its life"); // S4
    stays[1].start = 2;
    b[0].group = b[1].group = 1;
    p.n_stays = 1, at[1] = -1, reasons[1] = "no room", p.peak_bytes = 64;
    expect_wrong(&p, b, &o, "a and b are not together");
    reasons[1] = NULL;
    expect_wrong(&p, b, &o, "out without a reason"); // S5
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_twins),
        cmocka_unit_test(test_figures),
        cmocka_unit_test(test_auto),
        cmocka_unit_test(test_spill),
        cmocka_unit_test(test_least_of_many),
        cmocka_unit_test(test_extreme_ticks),
        cmocka_unit_test(test_judge),
    };
    return run_group(tests, NULL, NULL);
}
