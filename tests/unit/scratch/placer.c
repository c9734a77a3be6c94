// Solvers of the caller (dv_placer) that find the addresses of resident
// tensors: right answers become the plan's homes, wrong ones are refused with
// what is wrong.
#include "harness/test.h"
#include "divvy/place.h"
#include "harness/unit.h"
#include "plan/plan.h"

static const char softmax[] = "input x: f16[64, 256]\n"
                              "m[i] = max[j] x[i,j]\n"
                              "d[i,j] = x[i,j] - m[i]\n"
                              "e[i,j] = exp(d[i,j])\n"
                              "s[i] = sum[j] e[i,j]\n"
                              "y[i,j] = e[i,j] / s[i]\n"
                              "output y\n";

// A chain of tensors that do not all fit small scratchpads.
static const char crowded[] = "input x: f16[64, 64]\n"
                              "a[i,j] = exp(x[i,j])\n"
                              "b[i,j] = a[i,j] + x[i,j]\n"
                              "c[i,j] = b[i,j] * b[i,j]\n"
                              "d[i,j] = c[i,j] - b[i,j]\n"
                              "e[i,j] = d[i,j] * c[i,j]\n"
                              "f[i,j] = e[i,j] + d[i,j]\n"
                              "g[i,j] = f[i,j] * a[i,j]\n"
                              "h[i,j] = g[i,j] - a[i,j]\n"
                              "output h\n";

enum { MOST = 64 };
enum { STACKED, LIBRARY, OVERLAP, UNALIGNED, BEYOND, FAIL, NOTHING };

// What a solver of this test does, and what it has done.
typedef struct placer {
    int how; // one of those above
    const char *name;
    int calls, evictions;
    int64_t addresses[MOST];
    dv_placement *placed; // the answer of the library; owned
} placer;

// Puts all buffers one after the other, without reuse.
static void stack(placer *p, const dv_buffer *b, size_t n,
                  const dv_place_options *o)
{
    int64_t at = 0;
    for (size_t i = 0; i < n; i++) {
        int64_t end = at + b[i].size_bytes;
        int fits = !b[i].barred && end <= o->capacity_bytes;
        p->addresses[i] = fits ? at : -1;
        at = fits ? (end + o->align_bytes - 1) / o->align_bytes * o->align_bytes
                  : at;
    }
}

static dv_status place(void *user, dv_placement *out, const dv_buffer *buffers,
                       size_t n, const dv_place_options *options)
{
    placer *p = user;
    p->calls++;
    p->evictions += options->evict;
    assert_true(n <= MOST);
    assert_true(options->capacity_bytes > 0);
    out->solver = p->name;
    if (p->how == FAIL)
        return DV_E_SYSTEM;
    if (p->how == NOTHING)
        return DV_OK;
    if (p->how == LIBRARY) {
        dv_placement_destroy(p->placed);
        p->placed = NULL;
        dv_status st = dv_place(&p->placed, buffers, n, options, NULL);
        if (st == DV_OK)
            *out = *p->placed;
        return st;
    }
    stack(p, buffers, n, options);
    for (size_t i = 0; i < n; i++)
        if (p->addresses[i] >= 0 && p->how != STACKED)
            p->addresses[i] = p->how == OVERLAP  ? 0
                              : p->how == BEYOND ? options->capacity_bytes
                                                 : p->addresses[i] + 1;
    out->addresses = p->addresses;
    return DV_OK;
}

static dv_status plan_with(dv_plan **out, placer *p, const char *text,
                           double reserved_percent, dv_diag *diag)
{
    dv_plan_options o = DV_PLAN_OPTIONS_INIT;
    dv_program *program = program_of(text);
    dv_target *t = target_of("spyre");
    if (reserved_percent > 0)
        t->scratch_reserved_percent = reserved_percent;
    o.cores = 2;
    o.place = place;
    o.place_user = p;
    dv_status st = dv_plan_create(out, program, t, &o, diag);
    dv_target_destroy(t);
    dv_program_destroy(program);
    return st;
}

// A solver that only stacks buffers: its addresses are the plan's.
TEST(stacked)
{
    placer p = {.how = STACKED, .name = "mine"};
    dv_plan *plan = NULL;
    assert_int_equal(plan_with(&plan, &p, softmax, 0, NULL), DV_OK);
    assert_true(p.calls > 0);
    assert_true(plan->scratch.n_homes >= 4);
    assert_string_equal(plan->scratch.solver, "mine");
    for (int32_t i = 1; i < plan->scratch.n_homes; i++)
        assert_true(plan->scratch.homes[i].address >=
                    plan->scratch.homes[i - 1].address +
                        plan->scratch.homes[i - 1].core_bytes);
    assert_int_equal(dv_plan_check(plan, NULL), DV_OK);
    char *text = dv_plan_text(plan);
    dv_plan *again = NULL;
    assert_int_equal(
        dv_plan_parse(&again, text, strlen(text), "text", NULL, NULL, NULL),
        DV_OK);
    dv_free(text);
    dv_plan_destroy(again);
    dv_plan_destroy(plan);
}

// dv_place itself, called by the caller, gives the plan that divvy makes, also
// with evictions.
TEST(library)
{
    static const double reserved[] = {0, 99.5};
    static const char *const texts[] = {softmax, crowded};
    for (int i = 0; i < 2; i++) {
        placer p = {.how = LIBRARY};
        dv_plan *plan = NULL, *usual = NULL;
        assert_int_equal(plan_with(&plan, &p, texts[i], reserved[i], NULL),
                         DV_OK);
        dv_program *program = program_of(texts[i]);
        dv_target *t = target_of("spyre");
        if (reserved[i] > 0)
            t->scratch_reserved_percent = reserved[i];
        dv_plan_options o = DV_PLAN_OPTIONS_INIT;
        o.cores = 2;
        assert_int_equal(dv_plan_create(&usual, program, t, &o, NULL), DV_OK);
        char *one = dv_plan_text(plan), *two = dv_plan_text(usual);
        assert_string_equal(one, two);
        // Not all tensors of the second program fit.
        assert_true((p.evictions > 0) == (i == 1));
        dv_free(one);
        dv_free(two);
        dv_plan_destroy(plan);
        dv_plan_destroy(usual);
        dv_target_destroy(t);
        dv_program_destroy(program);
        dv_placement_destroy(p.placed);
    }
}

// Wrong answers.
TEST(wrong_answers)
{
    static const struct {
        int how;
        dv_status status;
        const char *name, *says;
    } cases[] = {
        {OVERLAP, DV_E_CHECK, NULL, "x and m share bytes in 0..2"},
        {UNALIGNED, DV_E_CHECK, NULL, "x is at 1, its alignment is 128"},
        {BEYOND, DV_E_CHECK, NULL, "the capacity is 1625344"},
        {FAIL, DV_E_SYSTEM, NULL, "the caller's solver failed"},
        {NOTHING, DV_E_USAGE, NULL, "gave no addresses"},
        {STACKED, DV_E_USAGE, "two words", "'two words', which is no word"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        placer p = {.name = cases[i].name};
        p.how = cases[i].how;
        dv_plan *plan = NULL;
        dv_diag *diag = dv_diag_create();
        assert_int_equal(plan_with(&plan, &p, softmax, 0, diag),
                         cases[i].status);
        assert_null(plan);
        assert_non_null(strstr(dv_diag_text(diag), cases[i].says));
        assert_non_null(strstr(dv_diag_text(diag), "the caller's solver"));
        dv_diag_destroy(diag);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stacked),
        cmocka_unit_test(library),
        cmocka_unit_test(wrong_answers),
    };
    return run_group(tests, NULL, NULL);
}
