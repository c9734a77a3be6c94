// Properties of programs: they print and read back (T1), lowering keeps their
// values and is idempotent (T3), planning is deterministic (T2). Each property
// is tried on programs that were hard to get right, then on random ones.
#include "harness/test.h"
#include "harness/property.h"
#include "harness/doubles.h"
#include "harness/equal.h"
#include "plan/plan.h"
#include "exec/exec.h"
#include <math.h>

static int same_text(const char *a, const char *b)
{
    return a && b && strcmp(a, b) == 0;
}

// Lowers a program; the result must be valid (P1 to P4).
static dv_program *lower(const dv_program *p, dv_grain grain)
{
    dv_program *out = NULL;
    dv_diag *diag = dv_diag_create();
    if (dv_program_lower(&out, p, grain, diag))
        case_no("it does not lower: %s", dv_diag_text(diag));
    else if (dv_program_verify(out, 0, diag))
        case_no("what it lowers to is wrong: %s", dv_diag_text(diag));
    if (dv_diag_status(diag)) {
        dv_program_destroy(out);
        out = NULL;
    }
    dv_diag_destroy(diag);
    return out;
}

static const char *grain_name(dv_grain g)
{
    return g == DV_GRAIN_FUSED ? "fused" : "primitive";
}

// -- Text --------------------------------------------------------------------

static int reads_back(const dv_program *p, uint64_t seed)
{
    (void)seed;
    char *text = dv_program_text(p), *again = NULL;
    dv_program *q = text ? case_program(text) : NULL;
    int ok = q != NULL;
    if (ok && !same_list(p->ast.first, q->ast.first))
        ok = case_no("it prints to another tree:\n%s", text);
    if (ok && !same_program(p, q))
        ok = case_no("it prints to another program:\n%s", text);
    if (ok) {
        again = dv_program_text(q);
        if (!same_text(text, again))
            ok = case_no("it prints differently the second time");
    }
    dv_free(text);
    dv_free(again);
    dv_program_destroy(q);
    return ok;
}

// -- Lowering ----------------------------------------------------------------

static int lowers_once(const dv_program *p, dv_grain grain)
{
    dv_program *a = lower(p, grain), *b = a ? lower(a, grain) : NULL;
    int ok = b != NULL;
    char *ta = ok ? dv_program_text(a) : NULL;
    char *tb = ok ? dv_program_text(b) : NULL;
    if (ok && !same_program(a, b))
        ok = case_no("lowering twice (%s) differs: %s\nthen\n%s",
                     grain_name(grain), ta, tb);
    if (ok && !same_text(ta, tb))
        ok = case_no("lowering twice (%s) prints differently",
                     grain_name(grain));
    dv_free(ta);
    dv_free(tb);
    dv_program_destroy(a);
    dv_program_destroy(b);
    return ok;
}

static int lowers_to_the_same(const dv_program *p, uint64_t seed)
{
    (void)seed;
    return lowers_once(p, DV_GRAIN_FUSED) &&
           lowers_once(p, DV_GRAIN_PRIMITIVE) &&
           lowers_once(p, DV_GRAIN_FUNCTION);
}

static int n_applies(const dv_expr *e)
{
    int n = e->kind == DV_EXPR_APPLY;
    for (int i = 0; i < e->n_args; i++)
        n += n_applies(e->arg[i]);
    return n;
}

// Returns whether this is a product of constants and reads, as a contraction
// takes it.
static int is_product(const dv_expr *e)
{
    if (e->kind == DV_EXPR_CONST || e->kind == DV_EXPR_READ ||
        e->kind == DV_EXPR_INDEX)
        return 1;
    return e->kind == DV_EXPR_APPLY && e->fn == DV_FN_MUL &&
           is_product(e->arg[0]) && is_product(e->arg[1]);
}

static int is_primitive(const dv_op *op)
{
    const dv_expr *r = dv_op_reduce(op);
    if (op->is_extern || (!r && n_applies(op->body) <= 1))
        return 1;
    if (!r)
        return 0;
    if (r->fn == DV_RED_SUM && r->arg[0]->kind == DV_EXPR_APPLY)
        return is_product(
            r->arg[0]); // a contraction; its epilogue may be anything
    return n_applies(op->body) == 0;
}

static int primitive_is_primitive(const dv_program *p, uint64_t seed)
{
    (void)seed;
    dv_program *a = lower(p, DV_GRAIN_PRIMITIVE);
    int ok = a != NULL;
    for (int i = 0; ok && i < a->n_ops; i++) {
        if (is_primitive(&a->ops[i]))
            continue;
        char *text = dv_program_text(a);
        ok = case_no("op %s has more than one operator:\n%s", a->ops[i].name,
                     text);
        dv_free(text);
    }
    dv_program_destroy(a);
    return ok;
}

// -- Values ------------------------------------------------------------------

static void free_values(double **values, const dv_program *p)
{
    for (int i = 0; values && i < p->n_tensors; i++)
        free(values[i]);
    free(values);
}

// Allocates all tensors of p; inputs have the values that they have in `like`.
static double **new_values(const dv_program *p, const dv_program *like)
{
    double **values = calloc((size_t)p->n_tensors + 1, sizeof *values);
    for (int i = 0; i < p->n_tensors; i++) {
        const dv_tensor *t = &p->tensors[i];
        values[i] = calloc((size_t)t->n_elems, sizeof **values);
        if (!t->is_input)
            continue;
        void *raw = malloc((size_t)dv_tensor_bytes(t));
        dv_fill(like, dv_program_find(like, t->name), 7, -1, 1, raw);
        for (int64_t k = 0; k < t->n_elems; k++)
            values[i][k] = dv_load(t->dtype, raw, k);
        free(raw);
    }
    return values;
}

static int same_values(const dv_tensor *t, const double *a, const double *b)
{
    double norm = 0, worst = 0;
    for (int64_t i = 0; i < t->n_elems; i++) {
        if (isnan(a[i]) || isnan(b[i]) || isinf(a[i]) || isinf(b[i])) {
            if (a[i] != b[i] && !(isnan(a[i]) && isnan(b[i])))
                return case_no("%s: element %d is %g, was %g", t->name, (int)i,
                               b[i], a[i]);
            continue;
        }
        norm = fmax(norm, fabs(a[i]));
        worst = fmax(worst, fabs(a[i] - b[i]));
    }
    double limit = dv_is_float(t->dtype) ? 1e-9 * fmax(norm, 1e-3) : 0;
    return worst <= limit ||
           case_no("%s: %g off, the largest value is %g", t->name, worst, norm);
}

static int means_the_same(const dv_program *p, double *const *want,
                          dv_grain grain)
{
    const dv_eval_options plain = {0};
    dv_program *a = lower(p, grain);
    if (!a)
        return 0;
    dv_diag *diag = dv_diag_create();
    double **got = new_values(a, p);
    int ok = !eval_in_doubles(a, got, &plain, diag) ||
             case_no("%s", dv_diag_text(diag));
    for (int i = 0; ok && i < p->n_tensors; i++) {
        int32_t k = dv_program_find(a, p->tensors[i].name);
        ok = k < 0 || same_values(&p->tensors[i], want[i], got[k]);
    }
    if (!ok) {
        char *text = dv_program_text(a);
        case_no("%s\nlowered (%s):\n%s", case_why(), grain_name(grain), text);
        dv_free(text);
    }
    free_values(got, a);
    dv_program_destroy(a);
    dv_diag_destroy(diag);
    return ok;
}

static int lowering_keeps_values(const dv_program *p, uint64_t seed)
{
    (void)seed;
    const dv_eval_options plain = {0};
    dv_diag *diag = dv_diag_create();
    double **want = new_values(p, p);
    int ok = !eval_in_doubles(p, want, &plain, diag) ||
             case_no("%s", dv_diag_text(diag));
    ok = ok && means_the_same(p, want, DV_GRAIN_FUSED) &&
         means_the_same(p, want, DV_GRAIN_PRIMITIVE) &&
         means_the_same(p, want, DV_GRAIN_FUNCTION);
    free_values(want, p);
    dv_diag_destroy(diag);
    return ok;
}

// -- Plans -------------------------------------------------------------------

// T1, for the targets host and spyre.
static int plans_read_back(const dv_program *p, uint64_t seed)
{
    (void)seed;
    int ok = 1;
    for (int i = 0; ok && i < 2; i++) {
        dv_plan *plan = case_plan(p, i ? case_spyre : case_host, NULL);
        ok = plan && case_reads_back(plan);
        dv_plan_destroy(plan);
    }
    return ok;
}

// T2: the same program and target give the same text.
static int plans_are_deterministic(const dv_program *p, uint64_t seed)
{
    (void)seed;
    int ok = 1;
    for (int i = 0; ok && i < 2; i++) {
        const dv_target *t = i ? case_spyre : case_host;
        dv_plan *a = case_plan(p, t, NULL), *b = case_plan(p, t, NULL);
        char *ta = a ? dv_plan_text(a) : NULL;
        char *tb = b ? dv_plan_text(b) : NULL;
        ok = same_text(ta, tb) || (ta && tb && case_no("two plans differ"));
        dv_free(ta);
        dv_free(tb);
        dv_plan_destroy(a);
        dv_plan_destroy(b);
    }
    return ok;
}

// -- Programs that were hard to get right ------------------------------------

static const char *const hard[] = {
    // Reducers over constants alone have no type of their own.
    "input x: f32[3]\n"
    "y[i] = x[i] + (sum[k] 0.5)  for k in 0..4\noutput y\n",
    "input x: i32[3]\n"
    "y[i] = x[i] + (sum[k] 2)  for k in 0..4\noutput y\n",
    "input x: f32[3]\n"
    "y[i] = (sum[k] 0.5 * 3.0) * x[i]  for k in 0..4\noutput y\n",
    "y[i] = (mean[k] 3) + (max[l] 0.5)  for i in 0..2, k in 0..4, l in 0..3\n"
    "output y\n",
    // Values without a literal, which cannot be folded into one.
    "input x: f32[3]\ny[] = sum[k] (0.0 / 0.0) * x[k]\noutput y\n",
    "input x: i32[3]\ny[i]: f32 = x[i] + 0 / 0\noutput y\n",
    "input x: i32[3]\ny[i]: f64 = x[i] * log(-1)\noutput y\n",
    // Constants that fold to a value that is no integer literal.
    "input x: f32[3]\ny[i] = x[i] + 0 * (-3)\noutput y\n",
    "input x: f32[3]\n"
    "y[i] = x[i] * (4503599627370496 * 4503599627370496)\noutput y\n",
    "input x: f32[3]\ny[i] = min(x[i], inf) - max(x[i], -inf)\noutput y\n",
    // Parts that are hoisted out of a loop that never runs.
    "input u: f32[4]\n"
    "repeat 0 {\n    u[i] <- u[i] / (1.0 + (sum[k] u[k]))\n}\noutput u\n",
    // Two reducers whose variables have the same name and different ranges.
    "input a: f32[2, 3]\ninput b: f32[2, 5]\n"
    "y[i] = (sum[k] a[i,k]) * (max[k] b[i,k])\noutput y\n",
    // Keywords of the language as names.
    "param for = 3\ninput for: f32[for]\n"
    "in[for] = for[for]  for for in 0..for\n"
    "for[in] <- in[in] * for\noutput for, in\n",
    "input y: f32[2]\ninput y_1: f32[2]\n"
    "y[i] <- y[i] / (1.0 + (sum[y_1] y[y_1] * y_1[y_1]))\noutput y\n",
    // Indirect indices, one inside another, and of a scalar.
    "input a: f32[4, 4]\ninput p: i8[4]\n"
    "y[i] = sum[k] a[p[k],i] * a[p[p[i]],k]\noutput y\n",
    "input b: i32[6]\ninput p: i64[]\nb[p[]] <- b[p[]] + 1\noutput b\n",
    "input x: f32[4]\noutput x\n",
    "input x: f32[4, 4]\nd[i] = x[i,i]\ny[i,j] = x[j,i]\noutput d, y\n",
};

CASE_PROPERTY(reads_back, 300, 1)
CASE_PROPERTY(lowers_to_the_same, 300, 1)
CASE_PROPERTY(primitive_is_primitive, 300, 1)
CASE_PROPERTY(lowering_keeps_values, 300, 1)
CASE_PROPERTY(plans_read_back, 300, 1)

TEST(lowering_keeps_integers_that_wrap)
{
    case_random("lowering_keeps_values", lowering_keeps_values, GEN_WRAPS, 300);
}
CASE_PROPERTY(plans_are_deterministic, 300, 1)

// The value of a narrow integer inside an expression does not depend on the
// grain.
TEST(narrow_integers_keep_values)
{
    static const char *const texts[] = {
        "input a: i8[4]\ny[i]: i32 = min(a[i] * 50 * 50, 100)\noutput y\n",
        "input a: i8[4]\n"
        "y[i]: i32 = (sum[k] a[k] * a[k] * a[k]) + a[i] * 100\noutput y\n",
        "input a: i32[4]\n"
        "y[i]: i64 = max(a[i] * 70000 * 70000, 3)\noutput y\n",
        "input a: i64[4]\ninput c: f64[4]\n"
        "b[i] = a[i] * 70000 * 70000 * 70000 + 1\n"
        "y[] = sum[k] b[k] * b[k] * c[k]\noutput y\n",
    };
    int failed = 0;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (case_holds(lowering_keeps_values, texts[i], 1))
            continue;
        fprintf(stderr, "\n%s\n----\n%s----\n", case_why(), texts[i]);
        failed++;
    }
    assert_int_equal(failed, 0);
}

// A variable that occurs nowhere on the left side: the program is refused or
// lowered correctly (P2).
TEST(still_variables_keep_values)
{
    static const char *const texts[] = {
        "input x: f32[5]\ntemp y: f32[1]\n"
        "y[0*i] = x[i]  for i in 3..4\noutput y\n",
        "input x: f32[5]\ninput y: f32[4]\n"
        "y[j+0*i] <- x[i]  for i in 3..4\noutput y\n",
        "input x: f32[5]\ntemp y: f32[1, 4]\n"
        "y[i-i,j] = x[i] * x[j]  for i in 3..4, j in 0..4\noutput y\n",
        "input x: f32[5]\ninput p: i32[4]\ninput y: f32[4]\n"
        "y[p[0*i]] <- x[i]\noutput y\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        dv_program *p = case_program(texts[i]);
        assert_true(!p ||
                    (lowering_keeps_values(p, 1) && plans_read_back(p, 1)));
        dv_program_destroy(p);
    }
}

// P4: a tensor that only a repeat of 0 times defines cannot be read.
TEST(dead_definitions_are_not_read)
{
    static const char *const texts[] = {
        "input x: f32[2]\nrepeat 0 {\n    t[i] = x[i]\n}\n"
        "y[i] = t[i]\noutput y\n",
        "input x: f32[2]\nrepeat 0 {\n    t[i] = x[i]\n}\n"
        "t[i] <- 1.0  for i in 0..1\noutput t\n",
        "input x: f32[2]\nrepeat 0 {\n    t[i] = x[i]\n}\n"
        "repeat 2 {\n    x[i] <- t[i]\n}\noutput x\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        dv_program *p = case_program(texts[i]);
        if (p)
            fprintf(stderr, "accepted:\n%s", texts[i]);
        assert_null(p);
    }
}

// An integer constant that no double holds is refused or kept, never changed.
TEST(large_constants_read_back)
{
    static const char text[] = "input x: f32[3]\n"
                               "y[i] = x[i] + 9223372036854775807\noutput y\n";
    dv_program *p = case_program(text);
    assert_true(!p || plans_read_back(p, 1));
    dv_program_destroy(p);
}

// -- Params given from outside -----------------------------------------------

TEST(set_params_are_in_the_text)
{
    static const char text[] = "param N = 4\nparam s = 0.5\n"
                               "input x: f32[N]\ny[i] = s * x[i]\noutput y\n";
    const dv_param set[] = {{"N", "7"}, {"s", "-2"}};
    dv_program *p = NULL;
    assert_int_equal(
        dv_program_parse(&p, text, sizeof text - 1, "set", set, 2, NULL), 0);
    char *printed = dv_program_text(p);
    dv_program *q = case_program(printed);
    assert_non_null(q);
    assert_true(same_program(p, q));
    dv_free(printed);
    dv_program_destroy(p);
    dv_program_destroy(q);
}

// A part that lowering makes an op of its own is lowered as far as a statement
// that the user wrote (T3).
TEST(hoisted_parts_are_lowered_fully)
{
    static const char text[] =
        "input u: i32[3, 3, 9]\ninput t: i32[3, 9]\n"
        "y[]: i64 = min[k,p] (max[n] (u[n,n,8-p] > t[n,k]))  for p in 0..9\n"
        "output y\n";
    int ok = case_holds(lowers_to_the_same, text, 1);
    if (!ok)
        fprintf(stderr, "%s\n", case_why());
    assert_true(ok);
}

// Integers that a select chooses and functions of real numbers then use.
TEST(chosen_numbers_read_back)
{
    static const char *const texts[] = {
        "input t: f32[9]\ny[i] = t[i] / select(t[i], 1, 2)\noutput y\n",
        "input t: f32[9]\n"
        "y[i] = t[i] / (select(t[i], 1, 2) * 40000 * 40000)\noutput y\n",
        "input t: f32[9]\n"
        "y[i] = exp(select(t[i] < 0.1, 1, 2) * 40000 * 40000)\noutput y\n",
    };
    int failed = 0;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (case_holds(plans_read_back, texts[i], 1) &&
            case_holds(lowering_keeps_values, texts[i], 1))
            continue;
        fprintf(stderr, "\n%s\n----\n%s----\n", case_why(), texts[i]);
        failed++;
    }
    assert_int_equal(failed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE_TESTS(reads_back),
        CASE_TESTS(lowers_to_the_same),
        CASE_TESTS(primitive_is_primitive),
        CASE_TESTS(lowering_keeps_values),
        cmocka_unit_test(lowering_keeps_integers_that_wrap),
        CASE_TESTS(plans_read_back),
        CASE_TESTS(plans_are_deterministic),
        cmocka_unit_test(narrow_integers_keep_values),
        cmocka_unit_test(still_variables_keep_values),
        cmocka_unit_test(dead_definitions_are_not_read),
        cmocka_unit_test(large_constants_read_back),
        cmocka_unit_test(set_params_are_in_the_text),
        cmocka_unit_test(hoisted_parts_are_lowered_fully),
        cmocka_unit_test(chosen_numbers_read_back),
    };
    return run_group(tests, case_set_up, case_tear_down);
}
