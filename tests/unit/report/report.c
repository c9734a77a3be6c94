// Timelines: groups follow each other, ops fill their groups, and the total is
// the predicted or the measured time. Pages and traces: their options, and what
// happens without memory.
#include "harness/test.h"
#include "base/mem.h"
#include "divvy/report.h"
#include "harness/unit.h"
#include "plan/timeline.h"
#include <math.h>
#include <string.h>

static dv_plan *plan_for(const char *text, const char *target)
{
    const dv_plan_options how = DV_PLAN_OPTIONS_INIT;
    return plan_on(text, target, NULL, &how);
}

static const char softmax[] = "input x: f16[512, 1000]\n"
                              "m[j]   = max[i] x[i,j]\n"
                              "e[i,j] = exp(x[i,j] - m[j])\n"
                              "s[j]   = sum[i] e[i,j]\n"
                              "y[i,j] = e[i,j] / s[j]\n"
                              "output y\n";
static const char heat[] =
    "input u: f64[64, 64]\n"
    "repeat 7 {\n"
    "u[i,j] <- 0.5 * (u[i-1,j] + u[i+1,j])  for i in 1..63\n"
    "}\n"
    "output u\n";

// Checks that the parts of a timeline add up; returns its end.
static double check(const dv_timeline *t, const dv_plan *plan)
{
    double at = 0;
    assert_int_equal(t->n_groups, plan->n_groups);
    for (int32_t i = 0; i < t->n_groups; i++) {
        const dv_group_span *s = &t->groups[i];
        double sum = s->wait_us;
        int64_t tiles = 0;
        assert_true(fabs(s->start_us - at) <= 1e-9 * (1 + at));
        for (int32_t k = 0; k < s->n_ops; k++)
            sum += s->op_us[k];
        assert_true(fabs(sum - s->us) <= 1e-9 * (1 + s->us));
        for (int32_t k = 0; k < s->n_lanes; k++) {
            assert_true(s->lanes[k].busy > 0 && s->lanes[k].busy <= 1);
            tiles += s->lanes[k].tiles * s->lanes[k].n_cores;
        }
        assert_int_equal(tiles, plan->groups[i].n_tiles);
        at += s->us;
    }
    return at;
}

static void test_predicted(void **state)
{
    (void)state;
    static const char *const targets[] = {"spyre", "blackhole"};
    for (int i = 0; i < 4; i++) {
        dv_plan *plan = plan_for(i % 2 ? heat : softmax, targets[i / 2]);
        dv_timeline t;
        assert_true(dv_timeline_make(&t, plan, NULL));
        assert_string_equal(t.basis, "predicted");
        double end = check(&t, plan), us = dv_plan_price(plan).total_us;
        assert_true(fabs(end - us) <= 1e-9 * us);
        assert_true(t.us == end && t.busy > 0 && t.busy <= 1);
        dv_arena_free(&t.arena);
        dv_plan_destroy(plan);
    }
}

static void test_measured(void **state)
{
    (void)state;
    dv_plan *plan = plan_for(softmax, "spyre");
    double *seconds = calloc((size_t)plan->n_groups, sizeof *seconds);
    assert_non_null(seconds);
    for (int32_t i = 0; i < plan->n_groups; i++)
        seconds[i] = 0.25 * (i + 1);
    dv_timeline t;
    assert_true(dv_timeline_make(&t, plan, seconds));
    assert_string_equal(t.basis, "measured");
    int32_t n = plan->n_groups;
    assert_true(fabs(check(&t, plan) - 0.25e6 * n * (n + 1) / 2) < 1);
    dv_arena_free(&t.arena);
    free(seconds);
    dv_plan_destroy(plan);
}

// Groups in repeats count with all iterations.
static void test_repeats(void **state)
{
    (void)state;
    dv_plan *plan = plan_for(heat, "spyre");
    dv_timeline t;
    double inside = 0;
    assert_true(dv_timeline_make(&t, plan, NULL));
    for (int32_t i = 0; i < t.n_groups; i++)
        inside += t.groups[i].times == 7;
    assert_true(inside > 0);
    dv_arena_free(&t.arena);
    dv_plan_destroy(plan);
}

static void test_options(void **state)
{
    (void)state;
    dv_plan *plan = plan_for(softmax, "spyre");
    dv_report_options o = DV_REPORT_OPTIONS_INIT;
    dv_diag *diag = dv_diag_create();
    char *page = NULL, *again = NULL;
    assert_int_equal(dv_report_html(&page, plan, NULL, diag), DV_OK);
    assert_non_null(strstr(page, "\"changes\": {\"list\": ["));
    o.changes = DV_OFF;
    assert_int_equal(dv_report_html(&again, plan, &o, diag), DV_OK);
    assert_non_null(strstr(again, "\"changes\": null"));
    dv_free(again);
    again = NULL;
    o.most_bytes = (int64_t)strlen(page) / 2;
    assert_int_equal(dv_report_html(&again, plan, &o, diag), DV_E_LIMIT);
    assert_null(again);
    o.changes = (dv_switch)7;
    assert_int_not_equal(dv_report_html(&again, plan, &o, NULL), DV_OK);
    dv_free(page);
    dv_diag_destroy(diag);
    dv_plan_destroy(plan);
}

// Calls one of the two functions; the caller frees the result.
static dv_status make(int trace, char **out, const dv_plan *plan,
                      const dv_report_options *o, dv_diag *diag)
{
    return trace ? dv_report_trace(out, plan, o, diag)
                 : dv_report_html(out, plan, o, diag);
}

// Each allocation that fails is reported, and nothing is half made. Without the
// plans that are made for comparison, which allocate thousands of times.
static void test_no_memory(void **state)
{
    (void)state;
    dv_plan *plan = plan_for("input x: f16[64, 128]\n"
                             "y[i,j] = x[i,j] + 1\noutput y\n",
                             "spyre");
    const dv_measured m = {.seconds = 1, .executor = "threads"};
    dv_report_options o = DV_REPORT_OPTIONS_INIT;
    dv_diag *diag = dv_diag_create();
    o.changes = DV_OFF;
    o.measured = &m;
    for (int trace = 0; trace < 2; trace++) {
        dv_status st = DV_E_NOMEM;
        char *out = NULL, *whole = NULL;
        for (int64_t n = 0; st != DV_OK; n++) {
            dv_mem_fail_at(n);
            st = make(trace, &out, plan, &o, diag);
            dv_mem_fail_at(-1);
            assert_true(st == DV_OK || (st == DV_E_NOMEM && !out));
        }
        assert_int_equal(make(trace, &whole, plan, &o, diag), DV_OK);
        assert_string_equal(out, whole);
        dv_free(out);
        dv_free(whole);
    }
    dv_diag_destroy(diag);
    dv_plan_destroy(plan);
}

// Returns the value of a field of a page that is a string, on the same line.
static void field_of(const char *page, const char *name, char *value, size_t n)
{
    const char *at = strstr(page, name);
    assert_non_null(at);
    at += strlen(name);
    size_t len = strcspn(at, ",\n");
    assert_true(len < n);
    memcpy(value, at, len);
    value[len] = '\0';
}

// The digest of the options is that of their values: not of where texts are,
// and another one if a text differs.
static void test_digest(void **state)
{
    (void)state;
    char pins[2][16] = {"m:j=4", "m:j=4"}, seen[4][64];
    const char *lists[2][1] = {{pins[0]}, {pins[1]}};
    dv_plan *plan = plan_for(softmax, "spyre");
    dv_diag *diag = dv_diag_create();
    for (int i = 0; i < 4; i++) {
        dv_plan_options made = DV_PLAN_OPTIONS_INIT;
        dv_report_options o = DV_REPORT_OPTIONS_INIT;
        char *page = NULL;
        made.pins = lists[i % 2];
        made.n_pins = i < 3;
        pins[0][4] = i == 2 ? '8' : '4';
        o.changes = DV_OFF;
        o.made_with = &made;
        assert_int_equal(dv_report_html(&page, plan, &o, diag), DV_OK);
        field_of(page, "\"options_digest\": ", seen[i], sizeof *seen);
        dv_free(page);
    }
    assert_string_equal(seen[0], seen[1]);
    for (int i = 2; i < 4; i++)
        for (int k = 0; k < i; k++)
            assert_true(k == 0 ? strcmp(seen[i], seen[0]) != 0
                               : k == 1 || strcmp(seen[i], seen[k]) != 0);
    assert_int_equal(strlen(seen[0]), 18); // 16 digits in quotes
    dv_diag_destroy(diag);
    dv_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_predicted), cmocka_unit_test(test_measured),
        cmocka_unit_test(test_repeats),   cmocka_unit_test(test_options),
        cmocka_unit_test(test_no_memory), cmocka_unit_test(test_digest),
    };
    return run_group(tests, NULL, NULL);
}
