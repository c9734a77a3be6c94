// Property of the order in which sums are added up (N8): random programs of
// pointwise statements and reductions, over any dims of inputs and of
// temporaries in any order of their dims, give the same bits for any number of
// threads, for any slices and groups in which no sum is split, and with every
// kernel set of this machine. How a group runs (row by row, statement by
// statement, with temporaries inlined or kept for one tile) so has no effect on
// a result.
#include "harness/test.h"
#include "harness/property.h"
#include "harness/job.h"
#include "harness/random.h"
#include "harness/unit.h"
#include "jit/backend.h"
#include <stdlib.h>

enum { MAX_LETTERS = 3, MAX_TENSORS = 10, MAX_THREADS = 4, N_PLANS = 8 };

// -- Programs ----------------------------------------------------------------

// The dims of a tensor are indexed by the letters a, b and c, which have one
// extent each in the whole program.
typedef struct tensor {
    char name[16];
    char letters[MAX_LETTERS + 1];
    int is_read;
} tensor;

typedef struct writer {
    rng r;
    int extent[MAX_LETTERS], n_letters;
    const char *type; // of all inputs; NULL: they have several types
    char row;         // no statement reduces this letter; 0: any
    // 1 for a chain of statements that is likely to run row by row: pointwise
    // statements over all letters with a reduction after some of them.
    int is_chain;
    tensor tensors[MAX_TENSORS];
    int n;
    char text[4000];
    size_t len;
} writer;

__attribute__((format(printf, 2, 3))) static void put(writer *w,
                                                      const char *form, ...)
{
    va_list args;
    va_start(args, form);
    w->len += (size_t)vsnprintf(w->text + w->len, sizeof w->text - w->len, form,
                                args);
    va_end(args);
    assert_true(w->len < sizeof w->text);
}

static int below(writer *w, int n)
{
    return (int)rng_below(&w->r, n);
}

static const char *one_of(writer *w, const char *const *texts, int n)
{
    return texts[below(w, n)];
}

// Writes between `least` and all of the letters `from` to `to`, in random order
// and in most cases in the order of `from`.
static void pick_letters(writer *w, const char *from, int least, char *to)
{
    char left[MAX_LETTERS + 1];
    int all = (int)strlen(from), n = least + below(w, all - least + 1);
    int in_order = rng_percent(&w->r, w->is_chain ? 75 : 50);
    snprintf(left, sizeof left, "%s", from);
    while (all > n) {
        int k = below(w, all--);
        memmove(left + k, left + k + 1, strlen(left + k));
    }
    for (; n > 0; n--) {
        int k = in_order ? 0 : below(w, n);
        *to++ = left[k];
        memmove(left + k, left + k + 1, strlen(left + k));
    }
    *to = 0;
}

static int is_within(const char *letters, const char *all)
{
    return strspn(letters, all) == strlen(letters);
}

static void put_list(writer *w, const char *letters)
{
    for (int i = 0; letters[i]; i++)
        put(w, "%s%c", i ? "," : "", letters[i]);
}

// Returns a tensor that has only these letters, or NULL: in most cases the
// latest one, so that programs are chains of statements.
static tensor *pick_tensor(writer *w, const char *letters)
{
    tensor *found[MAX_TENSORS];
    int n = 0;
    for (int i = w->n - 1; i >= 0; i--)
        if (is_within(w->tensors[i].letters, letters))
            found[n++] = &w->tensors[i];
    return n ? found[rng_percent(&w->r, w->is_chain ? 80 : 60) ? 0
                                                               : below(w, n)]
             : NULL;
}

// Puts a read of some tensor that has only these letters, or a number.
static void put_read(writer *w, const char *letters)
{
    tensor *best = pick_tensor(w, letters);
    if (!best) {
        put(w, "0.7");
        return;
    }
    best->is_read = 1;
    int reversed = rng_percent(&w->r, 5);
    put(w, "%s[", best->name);
    for (int i = 0; best->letters[i]; i++) {
        char a = best->letters[i];
        put(w, i ? "," : "");
        if (reversed && i == 0)
            put(w, "%d-%c", w->extent[a - 'a'] - 1, a);
        else
            put(w, "%c", a);
    }
    put(w, "]");
}

static void put_expression(writer *w, const char *letters, int depth)
{
    static const char *const numbers[] = {"1", "0.3", "3", "0.25", "1.7"};
    static const char *const operators[] = {" + ", " - ", " * ", " / "};
    static const char *const functions[] = {
        "exp", "-", "abs", "relu", "tanh", "sqrt(1.3 + abs", "1 / (2 + abs"};
    int kind = depth ? below(w, 10) : 0;
    if (kind < 2) {
        put_read(w, letters);
        return;
    }
    const char *f = kind < 8 ? "" : one_of(w, functions, 7);
    put(w, "%s(", f);
    put_expression(w, letters, depth - 1);
    if (kind < 8) {
        put(w, "%s", one_of(w, operators, kind < 4 ? 2 : 4));
        if (kind < 6)
            put(w, "%s", one_of(w, numbers, 5));
        else
            put_expression(w, letters, depth - 1);
    }
    put(w, strchr(f, '(') ? "))" : ")");
}

// Puts a sum of many functions: kernels of long expressions are unrolled less
// often than others, and have fewer accumulators.
static void put_long_expression(writer *w, const char *letters)
{
    int n = 2 + below(w, 8);
    put(w, "(");
    for (int i = 0; i < n; i++) {
        put(w, "%sexp(0.%d * ", i ? " + " : "", 1 + below(w, 9));
        put_read(w, letters);
        put(w, ")");
    }
    put(w, ")");
}

// Puts an expression that is inlined where its value is read.
static void put_cheap_expression(writer *w, const char *letters)
{
    static const char *const ends[] = {" + 0.3", " - 1.7", " * 3 + 1", " / 3",
                                       " + ",    " - ",    " * ",      " / "};
    const char *end = one_of(w, ends, 8);
    put_read(w, letters);
    put(w, "%s", end);
    if (!end[3])
        put_read(w, letters);
}

static void put_value(writer *w, const char *letters)
{
    if (rng_percent(&w->r, w->is_chain ? 75 : 40))
        put_cheap_expression(w, letters);
    else if (rng_percent(&w->r, 15))
        put_long_expression(w, letters);
    else
        put_expression(w, letters, 1 + below(w, 3));
}

static tensor *new_tensor(writer *w, char kind)
{
    tensor *t = &w->tensors[w->n++];
    *t = (tensor){.is_read = 0};
    snprintf(t->name, sizeof t->name, "%c%d", kind, w->n);
    return t;
}

static void put_input(writer *w, const char *all)
{
    static const char *const types[] = {"f32", "f32", "f32",
                                        "f64", "f16", "bf16"};
    tensor *t = new_tensor(w, 'x');
    pick_letters(w, all, w->n == 1 ? w->n_letters : 1, t->letters);
    put(w, "input %s: %s[", t->name, w->type ? w->type : one_of(w, types, 6));
    for (int i = 0; t->letters[i]; i++)
        put(w, "%s%d", i ? ", " : "", w->extent[t->letters[i] - 'a']);
    put(w, "]\n");
}

// Picks the letters of the result of a reduction.
static void pick_kept(writer *w, const char *all, char *letters)
{
    do
        pick_letters(w, all, 0, letters);
    while (strlen(letters) == strlen(all) ||
           (w->row && !strchr(letters, w->row)));
}

enum { POINTWISE, REDUCTION };

// Puts a statement: pointwise, or a reduction over some letters whose result
// often has functions applied to it.
static void put_statement(writer *w, const char *all, int kind)
{
    static const char *const reducers[] = {"sum",  "sum", "sum", "sum",
                                           "mean", "max", "prod"};
    char letters[MAX_LETTERS + 1], reduced[MAX_LETTERS + 1] = "", *r = reduced;
    int reduces = kind == REDUCTION;
    if (reduces)
        pick_kept(w, all, letters);
    else
        pick_letters(w, all,
                     w->is_chain || rng_percent(&w->r, 80) ? w->n_letters : 1,
                     letters);
    for (const char *a = all; *a && reduces; a++)
        if (!strchr(letters, *a))
            *r++ = *a;
    *r = 0;
    int n = w->n;
    char name = reduces ? 's' : 't';
    put(w, "%c%d[", name, n + 1);
    put_list(w, letters);
    put(w, rng_percent(&w->r, 3) ? "]: bf16 = " : "] = ");
    if (*reduced) {
        put(w, "%s%s[", rng_percent(&w->r, 30) ? "0.3 + " : "",
            one_of(w, reducers, 7));
        put_list(w, reduced);
        put(w, "] ");
        put(w, "(");
        put_value(w, all);
        put(w, ")");
    } else {
        put_value(w, letters);
    }
    const char *loops = *reduced ? all : letters;
    for (int i = 0; loops[i]; i++)
        put(w, "%s%c in 0..%d", i ? ", " : " for ", loops[i],
            w->extent[loops[i] - 'a']);
    put(w, "\n");
    tensor *t = new_tensor(w, name);
    snprintf(t->letters, sizeof t->letters, "%s", letters);
}

// Returns the text of a program.
static const char *write_program(writer *w, uint64_t seed)
{
    static const int extents[] = {1,  2,  3,  5,  7,  8,   10,
                                  16, 17, 24, 33, 64, 100, 130};
    char all[MAX_LETTERS + 1] = "";
    *w = (writer){.r = {seed}};
    w->n_letters = 2 + rng_percent(&w->r, 25);
    for (int i = 0; i < w->n_letters; i++) {
        w->extent[i] = extents[below(w, i < 2 ? 14 : 8)];
        all[i] = (char)('a' + i);
    }
    w->is_chain = rng_percent(&w->r, 60);
    if (w->is_chain || rng_percent(&w->r, 60))
        w->row = (char)('a' + below(w, w->n_letters));
    if (w->is_chain || rng_percent(&w->r, 60))
        w->type = "f32";
    for (int n = w->is_chain ? 1 : 1 + below(w, 3); n > 0; n--)
        put_input(w, all);
    int n_inputs = w->n, n = 2 + below(w, 5);
    // A reduction is in most cases between pointwise statements.
    for (int i = 0, was = REDUCTION; i < n; i++) {
        was = i < n - 1 && rng_percent(&w->r, was == REDUCTION ? 15 : 60)
                  ? REDUCTION
                  : POINTWISE;
        put_statement(w, all, was);
    }
    for (int i = n_inputs; i < w->n; i++)
        if (!w->tensors[i].is_read || rng_percent(&w->r, w->is_chain ? 3 : 10))
            put(w, "output %s\n", w->tensors[i].name);
    return w->text;
}

// -- The property ------------------------------------------------------------

// Slices all ops along the same letter, so that their tiles are alike and they
// can be one group.
static void slice_along(dv_plan *plan, char letter, int64_t len)
{
    for (int32_t i = 0; i < plan->ops->n_ops; i++)
        for (int v = 0; v < plan->ops->ops[i].n_vars; v++) {
            const dv_var *x = &plan->ops->ops[i].vars[v];
            int sliced = !x->reduce && x->name[0] == letter && !x->name[1];
            plan->slices[i][v] =
                sliced && len < x->end - x->begin ? len : x->end - x->begin;
        }
}

// Divides and merges the groups of a plan at random, without splitting a sum.
static int divide(rng *r, dv_plan *plan)
{
    int alike = rng_percent(r, 75);
    for (int32_t i = 0; i < plan->n_groups; i++)
        random_slices(r, plan, i, 0);
    if (alike)
        slice_along(plan, (char)('a' + rng_below(r, 2)), 1 + rng_below(r, 40));
    for (int32_t i = 0; i < plan->n_groups; i++)
        random_deal(r, plan, &plan->groups[i], dv_plan_n_tiles(plan, i));
    random_merge(r, plan);
    return case_schedule(plan);
}

// Makes plan number k of a program: those for 1 to MAX_THREADS threads, then
// some that are divided at random.
static dv_plan *make_plan(const dv_program *p, rng *r, int k)
{
    dv_plan_options o = DV_PLAN_OPTIONS_INIT;
    int given = k < MAX_THREADS;
    o.threads = given ? k + 1 : 1 + rng_below(r, MAX_THREADS);
    o.scratch = given ? DV_RESIDENTS_ALL : DV_RESIDENTS_NONE;
    dv_plan *plan = case_plan(p, case_host, &o);
    if (!plan || given || plan->n_groups < plan->ops->n_ops || divide(r, plan))
        return plan;
    dv_plan_destroy(plan);
    return NULL;
}

// Makes a plan for two threads whose ops run one by one where they would run
// row by row.
static dv_plan *without_rows(const dv_program *p, const dv_plan *rows)
{
    enum { MAX_PINS = 32 };
    char text[MAX_PINS][40];
    const char *pins[MAX_PINS];
    dv_plan_options o = DV_PLAN_OPTIONS_INIT;
    o.threads = 2;
    o.pins = pins;
    for (int32_t i = 0; i < rows->ops->n_ops && o.n_pins < MAX_PINS; i++)
        if (rows->schedule.ops[i].kind >= DV_KERNEL_ROWS) {
            snprintf(text[o.n_pins], sizeof *text, "%s.kernel=statement",
                     rows->ops->ops[i].name);
            pins[o.n_pins] = text[o.n_pins];
            o.n_pins++;
        }
    return case_plan(p, case_host, &o);
}

static int same_bits(const dv_program *p, uint64_t seed)
{
    rng r = {seed ^ 0x27d4eb2f};
    job want = {0};
    dv_plan *second = NULL; // of two threads
    dv_plan *first = make_plan(p, &r, 0);
    int ok = first && !case_in_parts(first) &&
             job_done(&want, first, DV_RUN_THREADS) && job_right(&want, p);
    for (int k = 1; ok && k <= N_PLANS; k++) {
        job got = {0};
        dv_plan *plan =
            k < N_PLANS ? make_plan(p, &r, k) : without_rows(p, second);
        ok = plan &&
             (case_in_parts(plan) || (job_done(&got, plan, DV_RUN_THREADS) &&
                                      job_same_values(&want, &got)));
        if (!ok) {
            case_show(first);
            if (plan)
                case_show(plan);
        }
        job_stop(&got);
        if (k == 1)
            second = plan;
        else
            dv_plan_destroy(plan);
    }
    job_stop(&want);
    dv_plan_destroy(first);
    dv_plan_destroy(second);
    return ok;
}

// Programs whose bits depended on whether they ran row by row.
static const char *const hard[] = {
    // A reduction over the first dim of a temporary, whose value is read along
    // rows: other loops.
    "input x: f32[33, 64]\n"
    "t[a,b] = x[b,a] + 0.3 for a in 0..33, b in 0..33\n"
    "s[b] = sum[a] t[a,b]\ny[b,a] = t[a,b] * s[b]\noutput y\n",
    // A divisor that is one value for a whole row: a reciprocal.
    "input x: f32[24, 65]\ns[a] = mean[b] x[a,b]\n"
    "t[a,b] = s[a] + 0.3 for a in 0..24, b in 0..65\n"
    "y[a,b] = x[a,b] / t[a,b]\noutput y\n",
    // A factor that is one value for a whole row: no fused multiply-add.
    "input x: f32[24, 65]\ns[a] = mean[b] x[a,b]\n"
    "t[a,b] = s[a] + 0.3 for a in 0..24, b in 0..65\n"
    "u[a] = sum[b] t[a,b] * s[a] * 0.3\ny[a,b] = x[a,b] + u[a]\noutput y\n",
    // A sum with so many operations that two more are too many to unroll its
    // loop as often: fewer accumulators.
    "input x: f32[33, 300]\ninput v: f32[33, 300]\nt[a,b] = x[a,b] + 0.3\n"
    "u[a,b] = v[a,b] - 0.7 + x[a,b]\n"
    "s[a] = sum[b] (exp(0.1 * t[a,b]) + exp(0.2 * t[a,b]) + exp(0.3 * t[a,b])"
    " + exp(0.4 * t[a,b]) + (u[a,b] + v[a,b]) * x[a,b])\n"
    "q[a] = max[b] t[a,b]\ny[a,b] = x[a,b] + t[a,b] + s[a] + q[a]\noutput y\n",
    // A sum of few functions with many operations, which has fewer accumulators
    // alone than in a kernel of several statements.
    "input x: f32[33, 300]\n"
    "s[a] = sum[b] (x[a,b] + sign(sign(sign(sign(sign(sign(sign(sign(x[a,b]))))"
    ")))))\n"
    "y[a,b] = x[a,b] + s[a]\noutput y\n",
};

// Tries random programs with one kernel set.
static void try_set(const dv_isa *isa, int usual)
{
    uint64_t seed = gen_seed();
    dv_target before = *case_host;
    snprintf(case_host->kernels, sizeof case_host->kernels, "%s", isa->name);
    case_host->vector_bytes = isa->vector_bytes;
    case_hard("orders", same_bits, hard, sizeof hard / sizeof *hard, 3);
    int failed = 0, n = gen_cases(usual);
    for (int i = 0; i < n && failed < 3; i++) {
        writer w;
        const char *text = write_program(&w, seed + (uint64_t)i);
        if (case_holds(same_bits, text, seed + (uint64_t)i))
            continue;
        char why[200];
        snprintf(why, sizeof why, "%s: %.150s", isa->name, case_why());
        gen_report("orders", seed + (uint64_t)i, GEN_FLOATS, text, why);
        failed++;
    }
    *case_host = before;
    assert_int_equal(failed, 0);
}

// -- Cases -------------------------------------------------------------------

TEST(same_on_all_kernels)
{
    int found = 0;
    for (int i = 0; i < dv_n_isas; i++) {
        const char *name = dv_isas[i].name;
        // The other sets differ in the kernels of matrix products alone.
        if (!dv_isa_supported(&dv_isas[i]) ||
            (strcmp(name, "avx2") && strcmp(name, "avx512") &&
             strcmp(name, "neon")))
            continue;
        found++;
        try_set(&dv_isas[i], 150);
    }
    if (!found)
        skip_test("no kernels for this machine");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_on_all_kernels)};
    return run_group(tests, case_set_up, case_tear_down);
}
