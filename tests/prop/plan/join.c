// Concatenations in place (plan/join.c) compute the same: programs of random
// concatenations, also of the pieces of others and of concatenations, with
// readers of all kinds, run on this machine as the oracle computes them.
#include "harness/property.h"
#include "harness/job.h"
#include "plan/plan.h"

enum { CASES = 60, MOST = 64, MOST_ROWS = 60 };

// The program so far: rows[t] is the number of rows of tensor t, each of which
// has four columns. If halved[t] is 1, the rows are those of two matrices.
typedef struct writer {
    rng r;
    dv_text out;
    int n, rows[MOST], halved[MOST];
    // Pieces of the last concatenation, which the next one may continue.
    int last[MOST], n_last;
} writer;

// Returns the number of a tensor that is one matrix, as t0 is.
static int any(writer *w)
{
    int t = (int)rng_below(&w->r, w->n);
    while (w->halved[t])
        t--;
    return t;
}

// A product, a sum, a maximum with a border, a function or an update of t.
static void compute(writer *w)
{
    int from = any(w), rows = 1 + (int)rng_below(&w->r, 8), to = w->n++;
    int which = (int)rng_below(&w->r, 6);
    w->rows[to] = which == 0   ? rows
                  : which == 5 ? 2 * (1 + rows / 2)
                               : w->rows[from];
    w->halved[to] = which == 5;
    if (which == 5)
        dv_put(&w->out,
               "t%d[h,i,j] = sum[k] t%d[k,j] * g[k,i + h]  for h in 0..2, i in "
               "0..%d, k in 0..%d\n",
               to, from, w->rows[to] / 2, w->rows[from]);
    else if (which == 0)
        dv_put(&w->out,
               "t%d[i,j] = sum[k] t%d[k,j] * g[k,i]  for i in 0..%d, k in "
               "0..%d\n",
               to, from, rows, w->rows[from]);
    else if (which == 1)
        dv_put(&w->out, "t%d[i,j] = t%d[i,j] + max[k] t%d[i,k]\n", to, from,
               from);
    else if (which == 2)
        dv_put(&w->out,
               "t%d[i,j] = max[k] (t%d[i + k - 1,j] else 0.5)  for i in "
               "0..%d, k in 0..3\n",
               to, from, w->rows[from]);
    else
        dv_put(&w->out, "t%d[i,j] = t%d[i,j] * 0.5 + 1.0\n", to, from);
    if (which == 4)
        dv_put(&w->out, "t%d[i,j] <- 2.0  for i in 0..1\n", to);
}

// Copies tensor `from` to the rows of tensor `to` from `at` on: its two
// matrices one after the other, or their rows in turns.
static void copy(writer *w, int to, int at, int from)
{
    int half = w->rows[from] / 2;
    if (!w->halved[from])
        dv_put(&w->out, "t%d[i + %d,j] <- t%d[i,j]  for i in 0..%d\n", to, at,
               from, w->rows[from]);
    else if (rng_percent(&w->r, 50))
        dv_put(
            &w->out,
            "t%d[%d*h + i + %d,j] <- t%d[h,i,j]  for h in 0..2, i in 0..%d\n",
            to, half, at, from, half);
    else
        dv_put(&w->out,
               "t%d[2*i + h + %d,j] <- t%d[h,i,j]  for h in 0..2, i in 0..%d\n",
               to, at, from, half);
}

// Joins tensors, some of them those of the last concatenation.
static void join(writer *w)
{
    int to = w->n++, at = 0, more = 1 + (int)rng_below(&w->r, 3);
    if (rng_percent(&w->r, 40))
        w->n_last = 0;
    while (more-- > 0 && w->n_last < MOST)
        w->last[w->n_last++] = (int)rng_below(&w->r, to);
    for (int i = 0; i < w->n_last; i++)
        at += w->rows[w->last[i]];
    w->rows[to] = at;
    dv_put(&w->out, "t%d[i,j]: f32 = 0.25  for i in 0..%d, j in 0..4\n", to,
           at + (int)rng_percent(&w->r, 10));
    w->rows[to] = at;
    at = 0;
    for (int i = 0; i < w->n_last; at += w->rows[w->last[i++]])
        copy(w, to, at, w->last[i]);
}

static char *make_text(uint64_t seed)
{
    writer w = {.r = {seed}, .n = 1, .rows = {5}};
    int n = 4 + (int)rng_below(&w.r, 9);
    dv_put(&w.out, "input g: f32[%d, 8]\ninput t0: f32[5, 4]\n", 4 * MOST_ROWS);
    while (w.n < n) {
        int large = 0;
        for (int t = 0; t < w.n; t++)
            large |= w.rows[t] > MOST_ROWS / 3;
        if (!large && rng_percent(&w.r, 45))
            join(&w);
        else
            compute(&w);
    }
    dv_put(&w.out, "output t%d\n", w.n - 1);
    if (rng_percent(&w.r, 30) && w.n > 2)
        dv_put(&w.out, "output t%d\n", 1 + (int)rng_below(&w.r, w.n - 2));
    return dv_text_take(&w.out);
}

// Returns the number of tensors that became slices of others, or -1.
static int try_case(const char *text)
{
    dv_program *p = case_program(text);
    dv_plan *plan = p ? case_plan(p, case_host, NULL) : NULL;
    int n = -1;
    job j;
    if (plan) {
        int read = case_reads_back(plan);
        int ok = job_done(&j, plan, RUN_AS_PLANNED) && job_right(&j, p);
        job_stop(&j);
        n = ok && read ? plan->n_views : -1;
    }
    dv_plan_destroy(plan);
    dv_program_destroy(p);
    return n;
}

TEST(values_stay)
{
    uint64_t seed = gen_seed();
    int joined = 0, cases = gen_cases(CASES);
    for (int i = 0; i < cases; i++) {
        char *text = make_text(seed + (uint64_t)i);
        int n = try_case(text);
        if (n < 0)
            gen_report("values_stay", seed + (uint64_t)i, GEN_FLOATS, text,
                       case_why());
        dv_free(text);
        assert_true(n >= 0);
        joined += n;
    }
    assert_true(cases < 20 || joined > cases / 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(values_stay)};
    return run_group(tests, case_set_up, case_tear_down);
}
