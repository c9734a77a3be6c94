// Ops that read through copies (ir/views.c) compute the same: chains of random
// transposes, reshapes, slices, strides and pads, read by ops of all kinds,
// give the oracle's values bit by bit with and without the copies, and so does
// a plan for this machine.
#include "harness/property.h"
#include "harness/doubles.h"
#include "harness/job.h"
#include "plan/plan.h"
#include <math.h>

enum { MAX_RANK = 6, CASES = 400 };

typedef struct writer {
    rng r;
    dv_text out;
    int n_tensors;
} writer;

typedef struct shape {
    int rank;
    int64_t extent[MAX_RANK];
} shape;

static void put_vars(dv_text *f, int n, const int *order)
{
    for (int d = 0; d < n; d++)
        dv_put(f, "%sv%d", d ? "," : "", order ? order[d] : d);
}

static void put_ranges(dv_text *f, const shape *s)
{
    dv_put(f, " for ");
    for (int d = 0; d < s->rank; d++)
        dv_put(f, "%sv%d in 0..%d", d ? ", " : "", d, (int)s->extent[d]);
    dv_put(f, "\n");
}

// t[v1,v0] = s[v0,v1]
static void transpose(writer *w, shape *s)
{
    int order[MAX_RANK];
    shape old = *s;
    for (int d = 0; d < s->rank; d++)
        order[d] = d;
    for (int d = s->rank - 1; d > 0; d--) {
        int k = (int)rng_below(&w->r, d + 1), t = order[d];
        order[d] = order[k];
        order[k] = t;
    }
    dv_put(&w->out, "t%d[", w->n_tensors);
    put_vars(&w->out, s->rank, order);
    dv_put(&w->out, "] = t%d[", w->n_tensors - 1);
    put_vars(&w->out, s->rank, NULL);
    dv_put(&w->out, "]\n");
    for (int d = 0; d < s->rank; d++)
        s->extent[d] = old.extent[order[d]];
}

// t[v0,v1,v2] = s[v0,v1*4 + v2]
static void split(writer *w, shape *s)
{
    int at = (int)rng_below(&w->r, s->rank);
    int64_t low = s->extent[at] % 3 == 0 ? 3 : s->extent[at] % 2 == 0 ? 2 : 1;
    if (s->rank == MAX_RANK)
        return transpose(w, s);
    for (int d = s->rank++; d > at + 1; d--)
        s->extent[d] = s->extent[d - 1];
    s->extent[at] /= low;
    s->extent[at + 1] = low;
    dv_put(&w->out, "t%d[", w->n_tensors);
    put_vars(&w->out, s->rank, NULL);
    dv_put(&w->out, "] = t%d[", w->n_tensors - 1);
    for (int d = 0; d < s->rank; d++)
        if (d == at)
            dv_put(&w->out, "%sv%d*%d + ", d ? "," : "", d, (int)low);
        else
            dv_put(&w->out, "%sv%d", d && d != at + 1 ? "," : "", d);
    dv_put(&w->out, "]");
    put_ranges(&w->out, s);
}

// t[v0,v1*4 + v2] = s[v0,v1,v2]
static void merge(writer *w, shape *s)
{
    int at = (int)rng_below(&w->r, s->rank - 1);
    shape old = *s;
    int64_t low = s->extent[at + 1];
    s->extent[at] *= low;
    s->rank--;
    for (int d = at + 1; d < s->rank; d++)
        s->extent[d] = s->extent[d + 1];
    dv_put(&w->out, "temp t%d: f32[", w->n_tensors);
    for (int d = 0; d < s->rank; d++)
        dv_put(&w->out, "%s%d", d ? "," : "", (int)s->extent[d]);
    dv_put(&w->out, "]\nt%d[", w->n_tensors);
    for (int d = 0; d < old.rank; d++)
        if (d == at)
            dv_put(&w->out, "%sv%d*%d + ", d ? "," : "", d, (int)low);
        else
            dv_put(&w->out, "%sv%d", d && d != at + 1 ? "," : "", d);
    dv_put(&w->out, "] = t%d[", w->n_tensors - 1);
    put_vars(&w->out, old.rank, NULL);
    dv_put(&w->out, "]\n");
}

// t[v0] = s[step*v0 + first], also backwards
static void slice(writer *w, shape *s)
{
    int at = (int)rng_below(&w->r, s->rank);
    int64_t n = s->extent[at], step = 1 + rng_below(&w->r, 2);
    int64_t first = rng_below(&w->r, n);
    int64_t left = (n - first + step - 1) / step;
    s->extent[at] = left < 2 ? n : 1 + rng_below(&w->r, left);
    dv_put(&w->out, "t%d[", w->n_tensors);
    put_vars(&w->out, s->rank, NULL);
    dv_put(&w->out, "] = t%d[", w->n_tensors - 1);
    for (int d = 0; d < s->rank; d++)
        if (d != at)
            dv_put(&w->out, "%sv%d", d ? "," : "", d);
        else if (left < 2)
            dv_put(&w->out, "%s%d - v%d", d ? "," : "", (int)n - 1, d);
        else
            dv_put(&w->out, "%s%d*v%d + %d", d ? "," : "", (int)step, d,
                   (int)first);
    dv_put(&w->out, "]");
    put_ranges(&w->out, s);
}

// t[v0] = s[v0 - before] else value: elements before and after those of s
static void pad(writer *w, shape *s)
{
    int at = (int)rng_below(&w->r, s->rank);
    int before = (int)rng_below(&w->r, 3);
    if (s->extent[at] > 40)
        return transpose(w, s);
    s->extent[at] += before + rng_below(&w->r, 3);
    dv_put(&w->out, "t%d[", w->n_tensors);
    put_vars(&w->out, s->rank, NULL);
    dv_put(&w->out, "] = t%d[", w->n_tensors - 1);
    for (int d = 0; d < s->rank; d++)
        if (d != at)
            dv_put(&w->out, "%sv%d", d ? "," : "", d);
        else
            dv_put(&w->out, "%sv%d - %d", d ? "," : "", d, before);
    dv_put(&w->out, "] else %d", (int)rng_below(&w->r, 4) - 1);
    put_ranges(&w->out, s);
}

// Ops that read the last tensor: a function, a sum, a product with another
// factor, the tensor twice.
static void consume(writer *w, const shape *s)
{
    int id = w->n_tensors, at = (int)rng_below(&w->r, s->rank);
    int64_t which = rng_below(&w->r, 4);
    dv_put(&w->out, "c%d[", id);
    if (which == 0 || which == 3)
        put_vars(&w->out, s->rank, NULL);
    for (int d = 0, n = 0; d < s->rank && which == 1; d++)
        if (d != at)
            dv_put(&w->out, "%sv%d", n++ ? "," : "", d);
    if (which == 2)
        dv_put(&w->out, "n");
    dv_put(&w->out, "] = ");
    if (which == 1)
        dv_put(&w->out, "max[v%d] ", at);
    if (which == 2) {
        dv_put(&w->out, "sum[");
        put_vars(&w->out, s->rank, NULL);
        dv_put(&w->out, "] g[v%d,n] * ", at);
    }
    dv_put(&w->out, "t%d[", id - 1);
    put_vars(&w->out, s->rank, NULL);
    dv_put(&w->out, which == 0 ? "] * 2.0\n" : "]");
    if (which == 3) {
        dv_put(&w->out, " + t0[");
        for (int d = 0; d < 3; d++)
            dv_put(&w->out, "%s0", d ? "," : "");
        dv_put(&w->out, "]");
    }
    if (which == 2) // g has at least as many rows as any dim
        put_ranges(&w->out, s);
    else
        dv_put(&w->out, "\n");
    dv_put(&w->out, "output c%d\n", id);
}

static char *make_text(uint64_t seed)
{
    writer w = {.r = {seed}};
    static const int64_t extents[] = {1, 2, 3, 4, 6, 12};
    shape s = {.rank = 3};
    dv_put(&w.out, "input g: f32[200000, 3]\ninput t0: f32[");
    for (int d = 0; d < s.rank; d++) {
        s.extent[d] = extents[rng_below(&w.r, 6)];
        dv_put(&w.out, "%s%d", d ? "," : "", (int)s.extent[d]);
    }
    dv_put(&w.out, "]\n");
    int n = 1 + (int)rng_below(&w.r, 5);
    for (w.n_tensors = 1; w.n_tensors <= n; w.n_tensors++) {
        int64_t which = rng_below(&w.r, 5);
        if (which == 4)
            pad(&w, &s);
        else if (which == 0)
            transpose(&w, &s);
        else if (which == 1 && s.rank > 1)
            merge(&w, &s);
        else if (which == 2)
            slice(&w, &s);
        else
            split(&w, &s);
        if (w.n_tensors < n && rng_percent(&w.r, 25)) {
            w.n_tensors++;
            consume(&w, &s);
            w.n_tensors--;
        }
    }
    consume(&w, &s);
    return dv_text_take(&w.out);
}

static double **new_values(const dv_program *p)
{
    double **values = calloc((size_t)p->n_tensors + 1, sizeof *values);
    for (int t = 0; t < p->n_tensors; t++) {
        int64_t n = p->tensors[t].n_elems;
        values[t] = calloc((size_t)n, sizeof **values);
        for (int64_t i = 0; i < n; i++)
            values[t][i] = (double)((i * 7919 + 3) % 1021) / 64;
    }
    return values;
}

static void free_values(double **values, const dv_program *p)
{
    for (int t = 0; t < p->n_tensors; t++)
        free(values[t]);
    free(values);
}

// Evaluates both programs and compares the outputs, which have the same
// numbers.
static int same_outputs(const dv_program *p, const dv_program *q)
{
    const dv_eval_options plain = {0};
    double **a = new_values(p), **b = new_values(q);
    int ok = !eval_in_doubles(p, a, &plain, NULL) &&
             !eval_in_doubles(q, b, &plain, NULL);
    for (int t = 0; t < p->n_tensors && ok; t++)
        if (p->tensors[t].is_output)
            ok = !memcmp(a[t], b[t],
                         (size_t)p->tensors[t].n_elems * sizeof **a) ||
                 case_no("%s differs", p->tensors[t].name);
    free_values(a, p);
    free_values(b, q);
    return ok;
}

static int plan_is_right(const dv_program *p)
{
    dv_plan *plan = case_plan(p, case_host, NULL);
    job j;
    if (!plan)
        return 0;
    int read = case_reads_back(plan);
    int ok = job_done(&j, plan, RUN_AS_PLANNED) && job_right(&j, p) && read;
    job_stop(&j);
    dv_plan_destroy(plan);
    return ok;
}

// Tries one program; returns the number of ops that see through copies, or -1.
static int try_case(const char *text, int run)
{
    dv_program *p = case_program(text), *q = NULL;
    unsigned char live[64], left[64];
    int n = p && p->n_ops <= 64 ? 0 : -1;
    if (n == 0 && (!dv_program_find_live(p, live) ||
                   dv_program_see_through(&q, p, live, NULL)))
        n = -1;
    if (n == 0 && q) {
        if (dv_program_verify(q, 0, NULL) || !same_outputs(p, q) ||
            !dv_program_find_live(q, left))
            n = -1;
        for (int i = 0; n >= 0 && i < p->n_ops; i++)
            n += live[i] && !left[i];
    }
    if (n >= 0 && run && !plan_is_right(p))
        n = -1;
    dv_program_destroy(q);
    dv_program_destroy(p);
    return n;
}

TEST(values_stay)
{
    uint64_t seed = gen_seed();
    int removed = 0, cases = gen_cases(CASES);
    for (int i = 0; i < cases; i++) {
        char *text = make_text(seed + (uint64_t)i);
        int n = try_case(text, i % 8 == 0);
        if (n < 0)
            gen_report("values_stay", seed + (uint64_t)i, GEN_FLOATS, text,
                       case_why());
        dv_free(text);
        assert_true(n >= 0);
        removed += n;
    }
    // Most programs lose a copy; a single one need not.
    assert_true(cases < 20 || removed > cases / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(values_stay)};
    return run_group(tests, case_set_up, case_tear_down);
}
