// Fusion (F1 to F9): the worked examples of the MLSys 2026 contest, as its
// organisers printed them, for the evaluator and the solver; schedules that
// break a rule; problems that are wrong; and every allocation that can fail.
#include "harness/test.h"
#include "base/diag.h"
#include "divvy/fuse.h"
#include "base/mem.h"

// A square problem: all tensors have the same side.
typedef struct example {
    int64_t side, capacity;
    int n_ops, n_tensors;
    struct {
        dv_fuse_kind kind;
        int32_t in[2], n_in, out;
        double cost;
    } ops[3];
} example;

#define P DV_FUSE_POINTWISE
#define M DV_FUSE_MATMUL
static const example one = {
    128, 35000, 2, 3, {{P, {0}, 1, 1, 1000}, {P, {1}, 1, 2, 100}}};
static const example two = {
    256, 35000, 2, 3, {{P, {0}, 1, 1, 1000}, {P, {1}, 1, 2, 100}}};
static const example three = {
    128,
    50000,
    3,
    4,
    {{P, {0}, 1, 1, 1500}, {P, {1}, 1, 2, 1500}, {P, {1, 2}, 2, 3, 1500}}};
static const example four = {128, 25000, 1, 3, {{M, {0, 1}, 2, 2, 1500}}};
static const example apart = {
    128, 50000, 2, 4, {{P, {0}, 1, 1, 1500}, {P, {2}, 1, 3, 1500}}};
static const example five = {
    128, 45000, 2, 5, {{M, {0, 1}, 2, 3, 2000}, {M, {3, 2}, 2, 4, 2000}}};

typedef struct problem {
    dv_fuse_tensor tensors[8];
    dv_fuse_op ops[3];
    dv_fuse_problem p;
} problem;

static dv_fuse_problem *problem_of(problem *x, const example *e)
{
    for (int t = 0; t < e->n_tensors; t++)
        x->tensors[t] = (dv_fuse_tensor){e->side, e->side};
    for (int o = 0; o < e->n_ops; o++)
        x->ops[o] =
            (dv_fuse_op){e->ops[o].kind, e->ops[o].in, (size_t)e->ops[o].n_in,
                         e->ops[o].out, e->ops[o].cost};
    x->p = (dv_fuse_problem){x->tensors,  (size_t)e->n_tensors,
                             x->ops,      (size_t)e->n_ops,
                             e->capacity, 10,
                             128,         128};
    return &x->p;
}

// An entry in the notation of the contest; lists end with -1.
typedef struct row {
    int32_t ops[4];
    int64_t w, h, k;
    int32_t retain[2];
    int64_t order[5];
} row;

typedef struct vector {
    const char *name;
    const example *e;
    int n;
    row rows[3];
    double latencies[3];
    const char *wrong; // the message of the evaluator; NULL: none
} vector;

#define NONE                                                                   \
    {                                                                          \
        -1, 0                                                                  \
    }
#define NO_TILE                                                                \
    {                                                                          \
        -1, 0, 0, 0, 0                                                         \
    }
#define ROW(w, h, k, ...)                                                      \
    {                                                                          \
        {__VA_ARGS__, -1}, w, h, k, NONE, NO_TILE                              \
    }

static const vector vectors[] = {
    {"1A",
     &one,
     2,
     {ROW(128, 128, 1, 0), ROW(128, 128, 1, 1)},
     {3276.8, 3276.8},
     NULL},
    {"1B", &one, 1, {ROW(128, 128, 1, 0, 1)}, {3276.8}, NULL},
    {"1C", &one, 1, {ROW(64, 64, 1, 0, 1)}, {4400}, NULL},
    {"2A",
     &two,
     2,
     {ROW(128, 128, 1, 0), ROW(128, 128, 1, 1)},
     {13107.2, 13107.2},
     NULL},
    {"2B", &two, 1, {ROW(128, 128, 1, 0, 1)}, {13107.2}, NULL},
    {"3A",
     &three,
     3,
     {ROW(128, 128, 1, 0), ROW(128, 128, 1, 1), ROW(128, 128, 1, 2)},
     {3276.8, 3276.8, 4915.2},
     NULL},
    {"3B",
     &three,
     2,
     {{{0, 1, -1}, 128, 128, 1, {2, -1}, NO_TILE}, ROW(128, 128, 1, 0, 2)},
     {3000, 3276.8},
     NULL},
    {"3C",
     &three,
     2,
     {{{0, -1}, 128, 128, 1, {1, -1}, NO_TILE}, ROW(128, 128, 1, 1, 2)},
     {1638.4, 3000},
     NULL},
    {"4A", &four, 1, {ROW(64, 64, 128, 0)}, {8192}, NULL},
    {"4A raster",
     &four,
     1,
     {{{0, -1}, 64, 64, 128, NONE, {0, 1, 2, 3, -1}}},
     {7096},
     NULL},
    {"4B",
     &four,
     1,
     {{{0, -1}, 64, 64, 128, NONE, {0, 1, 3, 2, -1}}},
     {6548},
     NULL},
    {"5A",
     &five,
     1,
     {ROW(128, 128, 128, 0, 1)},
     {0},
     "F7: entry 0 needs 65536 elements, the capacity is 45000"},
    {"5B", &five, 1, {ROW(128, 128, 32, 0, 1)}, {6915.2}, NULL},
    // One schedule for every rule.
    {"F1 missing",
     &one,
     1,
     {ROW(128, 128, 1, 0)},
     {0},
     "F1: op 1 is in no entry"},
    {"F1 twice",
     &one,
     1,
     {ROW(128, 128, 1, 0, 1, 0)},
     {0},
     "F1: entry 0 has op 0 twice"},
    {"F1 unknown",
     &one,
     1,
     {ROW(128, 128, 1, 0, 7)},
     {0},
     "F1: entry 0 has op 7, there are 2"},
    {"F2 too early",
     &one,
     2,
     {ROW(128, 128, 1, 1), ROW(128, 128, 1, 0)},
     {0},
     "F2: tensor 1 is read before it is in memory"},
    {"F2 output",
     &one,
     1,
     {{{0, 1, -1}, 128, 128, 1, {2, -1}, NO_TILE}},
     {0},
     "F2: entry 0 retains tensor 2, which it does not make or which is an "
     "output"},
    {"F2 late",
     &three,
     3,
     {{{0, -1}, 128, 128, 1, {1, -1}, NO_TILE},
      ROW(128, 128, 1, 1),
      ROW(128, 128, 1, 2)},
     {0},
     "F2: tensor 1, retained by entry 0, is read later than by the next "
     "entry"},
    {"F3 too large",
     &two,
     1,
     {ROW(129, 128, 1, 0, 1)},
     {0},
     "F3: entry 0 has tiles of 129 x 128, depth 1"},
    {"F3 tiles",
     &four,
     1,
     {{{0, -1}, 64, 64, 128, NONE, {0, 1, 1, 2, -1}}},
     {0},
     "F3: the order of entry 0 is no permutation of 4 tiles"},
    {"F4 nothing",
     &three,
     2,
     {ROW(128, 128, 1, 0, 1, 2), ROW(128, 128, 1, 0)},
     {0},
     "F4: nothing leaves entry 1"},
    {"F5 useless",
     &three,
     2,
     {ROW(128, 128, 1, 0, 1, 2), ROW(128, 128, 1, 0, 1, 2)},
     {0},
     "F4: nothing leaves entry 0"},
    {"F5 operand",
     &five,
     2,
     {{{0, 1, -1}, 128, 128, 8, {3, -1}, NO_TILE}, ROW(128, 128, 8, 1)},
     {0},
     "F5: entry 0 does not need op 1"},
    {"F8 apart",
     &apart,
     1,
     {ROW(128, 128, 1, 0, 1)},
     {0},
     "F8: the ops of entry 0 are not connected"},
};

static dv_fuse_schedule schedule_of(const vector *v, dv_fuse_entry *entries)
{
    for (int i = 0; i < v->n; i++) {
        const row *r = &v->rows[i];
        dv_fuse_entry e = {.ops = r->ops,
                           .width = r->w,
                           .height = r->h,
                           .depth = r->k,
                           .retained = r->retain,
                           .latency = v->latencies[i]};
        while (r->ops[e.n_ops] >= 0)
            e.n_ops++;
        while (r->retain[e.n_retained] >= 0)
            e.n_retained++;
        while (r->order[e.n_tiles] >= 0)
            e.n_tiles++;
        e.order = e.n_tiles ? r->order : NULL;
        entries[i] = e;
    }
    return (dv_fuse_schedule){.entries = entries, .n_entries = (size_t)v->n};
}

// F6: two products, with sums of 64 and of 32, both cut into steps of 16.
TEST(test_lengths)
{
    static const dv_fuse_tensor tensors[] = {{64, 128}, {128, 64}, {128, 128},
                                             {32, 128}, {128, 32}, {128, 128},
                                             {128, 128}};
    static const int32_t in[][2] = {{0, 1}, {3, 4}, {2, 5}};
    static const dv_fuse_op ops[] = {
        {M, in[0], 2, 2, 2000}, {M, in[1], 2, 5, 2000}, {P, in[2], 2, 6, 1500}};
    static const int32_t all[] = {0, 1, 2};
    dv_fuse_problem p = {tensors, 7, ops, 3, 500000, 10, 128, 128};
    dv_fuse_entry e = {
        .ops = all, .n_ops = 3, .width = 128, .height = 128, .depth = 16};
    dv_fuse_schedule s = {.entries = &e, .n_entries = 1};
    dv_fuse_options o = DV_FUSE_OPTIONS_INIT;
    dv_diag *diag = dv_diag_create();
    double got[1];
    assert_int_equal(dv_fuse_evaluate(got, &s, &p, &o, diag), DV_E_CHECK);
    assert_string_equal(dv_diag_error(diag)->text,
                        "F6: entry 0 cuts sums of several lengths");
    dv_diag_destroy(diag);
}

TEST(test_vectors)
{
    for (size_t i = 0; i < 2 * sizeof vectors / sizeof *vectors; i++) {
        const vector *v = &vectors[i / 2];
        problem x;
        dv_fuse_entry entries[3];
        dv_fuse_options o = DV_FUSE_OPTIONS_INIT;
        dv_fuse_schedule s = schedule_of(v, entries);
        double got[3];
        dv_diag *diag = dv_diag_create();
        o.reading = i % 2 ? DV_FUSE_FULL : DV_FUSE_NATIVE;
        dv_status st =
            dv_fuse_evaluate(got, &s, problem_of(&x, v->e), &o, diag);
        if (v->wrong) {
            assert_int_equal(st, DV_E_CHECK);
            assert_string_equal(dv_diag_error(diag)->text, v->wrong);
        } else {
            assert_int_equal(st, DV_OK);
            for (int k = 0; k < v->n; k++) {
                if (got[k] < v->latencies[k] - 1e-6 ||
                    got[k] > v->latencies[k] + 1e-6)
                    fail_msg("%s, entry %d: %.9g", v->name, k, got[k]);
                s.total += v->latencies[k];
            }
            assert_int_equal(dv_fuse_check(&s, &x.p, &o, diag), DV_OK);
            entries[0].latency += 1;
            assert_int_equal(dv_fuse_check(&s, &x.p, &o, NULL), DV_E_CHECK);
            entries[0].latency -= 1;
            s.bound = s.total + 1;
            assert_int_equal(dv_fuse_check(&s, &x.p, &o, NULL), DV_E_CHECK);
        }
        dv_diag_destroy(diag);
    }
}

// The solver is at least as good as the best schedule of each example.
TEST(test_solver)
{
    static const struct {
        const example *e;
        double total;
    } best[] = {{&one, 3276.8},
                {&two, 13107.2},
                {&three, 4500},
                {&four, 6548},
                {&five, 6915.2}};
    for (size_t i = 0; i < sizeof best / sizeof *best; i++) {
        problem x;
        dv_fuse_schedule *s = NULL;
        assert_int_equal(dv_fuse(&s, problem_of(&x, best[i].e), NULL, NULL),
                         DV_OK);
        assert_int_equal(dv_fuse_check(s, &x.p, NULL, NULL), DV_OK);
        assert_true(s->total <= best[i].total + 1e-6);
        dv_fuse_schedule_destroy(s);
    }
}

// The bound counts the transfers that the scratchpad enforces: computing takes
// 24,800 here, and moving inputs and outputs once 17,476. With four tiles,
// which are the fewest, a product alone moves 5 x 65,536 elements, 21,845 in
// time.
TEST(test_bound)
{
    static const example chain = {256,
                                  35000,
                                  3,
                                  6,
                                  {{M, {0, 1}, 2, 2, 1500},
                                   {P, {2}, 1, 3, 200},
                                   {M, {3, 4}, 2, 5, 1500}}};
    for (int n_ops = 2; n_ops <= 3; n_ops++) {
        problem x;
        dv_fuse_schedule *s = NULL;
        problem_of(&x, &chain)->bandwidth = 15;
        x.p.n_ops = (size_t)n_ops;
        assert_int_equal(dv_fuse(&s, &x.p, NULL, NULL), DV_OK);
        assert_int_equal(dv_fuse_check(s, &x.p, NULL, NULL), DV_OK);
        if (n_ops == 2) {
            assert_true(s->gap == 0);
            assert_true(s->total > 21845.3 && s->total < 21845.4);
        } else {
            assert_true(s->bound > 43400 && s->total < 43690.7);
        }
        dv_fuse_schedule_destroy(s);
    }
}

// Alters a correct problem in one way.
static void spoil(problem *x, int how)
{
    static const int32_t self[] = {3, 4}, unknown[] = {0, 9};
    switch (how) {
    case 0:
        x->p.n_ops = 0;
        break;
    case 1:
        x->p.capacity_elems = 0;
        break;
    case 2:
        x->p.bandwidth = 0;
        break;
    case 3:
        x->p.native_width = 0;
        break;
    case 4:
        x->tensors[2].width = 0;
        break;
    case 5:
        x->ops[0].n_inputs = 1;
        break;
    case 6:
        x->ops[0].base_cost = -1;
        break;
    case 7:
        x->ops[0].inputs = unknown;
        break;
    case 8:
        x->ops[1].output = 3;
        break;
    case 9:
        x->tensors[1].height = 64;
        break;
    case 10:
        x->ops[1].inputs = self; // reads its own output
        break;
    default:
        x->ops[1].kind = DV_FUSE_POINTWISE;
        x->tensors[2].height = 32; // another shape than the output
    }
}

TEST(test_wrong_problems)
{
    static const dv_status expected[] = {DV_E_LIMIT,  DV_E_BOUNDS, DV_E_BOUNDS,
                                         DV_E_BOUNDS, DV_E_BOUNDS, DV_E_SHAPE,
                                         DV_E_BOUNDS, DV_E_NAME,   DV_E_WRITE,
                                         DV_E_SHAPE,  DV_E_NAME,   DV_E_SHAPE};
    for (int how = 0; how < (int)(sizeof expected / sizeof *expected); how++) {
        problem x;
        dv_fuse_schedule *s = NULL;
        problem_of(&x, &five);
        spoil(&x, how);
        dv_status st = dv_fuse(&s, &x.p, NULL, NULL);
        if (st != expected[how])
            fail_msg("case %d: status %d, not %d", how, (int)st,
                     (int)expected[how]);
    }
    problem x;
    dv_fuse_schedule *s = NULL;
    problem_of(&x, &four)->capacity_elems = 2;
    assert_int_equal(dv_fuse(&s, &x.p, NULL, NULL), DV_E_CAPACITY);
    dv_fuse_options o = DV_FUSE_OPTIONS_INIT;
    o.reading = (dv_fuse_reading)2;
    assert_int_equal(dv_fuse(&s, &x.p, &o, NULL), DV_E_USAGE);
}

TEST(test_no_memory)
{
    problem x;
    problem_of(&x, &three);
    dv_status st = DV_E_NOMEM;
    for (int64_t n = 0; st == DV_E_NOMEM; n++) {
        dv_fuse_options o = DV_FUSE_OPTIONS_INIT;
        dv_fuse_schedule *s = NULL;
        o.budget = 500;
        dv_mem_fail_at(n);
        st = dv_fuse(&s, &x.p, &o, NULL);
        if (st == DV_OK)
            st = dv_fuse_check(s, &x.p, &o, NULL);
        dv_fuse_schedule_destroy(s);
        dv_mem_fail_at(-1);
    }
    assert_int_equal(st, DV_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_solver),         cmocka_unit_test(test_bound),
        cmocka_unit_test(test_wrong_problems), cmocka_unit_test(test_no_memory),
    };
    return run_group(tests, NULL, NULL);
}
