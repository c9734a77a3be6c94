// Properties of plans for teams (C16 to C20): every plan passes its check and
// reads back; every team of 1 to 9 ranks gives the same bits as one rank
// (results combined from partial sums: within the oracle's bounds, and the same
// run after run); every exchange carries what is needed; wrong messages are
// refused.
#include "harness/test.h"
#include "harness/teams.h"

// -- One team --------------------------------------------------------------

// A second run with the same options gives the same bits, also of partial sums.
static int same_again(const dv_plan *plan, const dv_rank_options *how,
                      void *const *after)
{
    void **again = case_buffers(plan->ops);
    dv_diag *diag = dv_diag_create();
    int ok = !dv_team_run_as(plan, how, again, NULL, diag) ||
             case_no("it does not run again: %s", dv_diag_text(diag));
    ok = ok && case_same_values(plan->ops, after, plan->ops, again);
    dv_diag_destroy(diag);
    case_free(again, plan->ops);
    return ok;
}

// Checks one team. `judged`: on one rank the results are within the oracle's
// bound, which does not include an error that a repeat carries from a narrow
// type into a wide one.
static int team_keeps(const dv_program *p, int64_t size, int64_t rank,
                      const char *grid, int whole, int judged,
                      const dv_rank_options *how, void *const *alone)
{
    dv_plan *plan = teams_plan(p, case_host, size, rank, grid);
    if (!plan)
        return 0;
    dv_diag *diag = dv_diag_create();
    void **before = case_buffers(plan->ops), **after = case_buffers(plan->ops);
    dv_exchange_traffic *op_exchanges =
        calloc((size_t)plan->team.n_op_exchanges + 1, sizeof *op_exchanges);
    dv_team_traffic moved = {.op_exchanges = op_exchanges};
    int ok = case_reads_back(plan);
    if (ok)
        ok = !dv_team_run_as(plan, how, after, &moved, diag) ||
             case_no("it does not run: %s", dv_diag_text(diag));
    if (ok && judged)
        ok = case_right(p, plan, before, after);
    if (ok && alone && (whole || plan->team.n_follows == 0))
        ok = case_same_values(plan->ops, alone, plan->ops, after);
    if (ok)
        ok = teams_carried(plan, &moved);
    if (ok)
        ok = same_again(plan, how, after);
    free(op_exchanges);
    if (!ok)
        case_show(plan);
    case_free(before, plan->ops);
    case_free(after, plan->ops);
    dv_diag_destroy(diag);
    dv_plan_destroy(plan);
    return ok;
}

// -- Programs --------------------------------------------------------------

static int teams_agree(const char *text, int whole, rng *r)
{
    static const char *const grids[] = {"2x2", "2x3", "3x1x2", "1x4", "2x2x2"};
    dv_program *p = case_program(text);
    if (!p)
        return 0;
    dv_diag *diag = dv_diag_create();
    dv_plan *one = teams_plan(p, case_host, 1, 0, NULL);
    int ok = one != NULL;
    // Tiles are so small that even these programs have several.
    dv_rank_options how = {.threads = (int32_t)(1 + rng_below(r, 3)),
                           .no_overlap = rng_percent(r, 30)};
    void **alone = ok ? case_buffers(one->ops) : NULL;
    if (ok)
        ok = !dv_team_run_as(one, &how, alone, NULL, diag) ||
             case_no("alone it does not run: %s", dv_diag_text(diag));
    int judged = 0;
    if (ok) {
        void **before = case_buffers(one->ops);
        judged = case_right(p, one, before, alone);
        case_free(before, one->ops);
    }
    for (int i = 0; ok && i < 2; i++) {
        int64_t size = 2 + rng_below(r, 8);
        how.threads = (int32_t)(1 + rng_below(r, 3));
        ok = team_keeps(p, size, rng_below(r, size), NULL, whole, judged, &how,
                        alone);
    }
    if (ok)
        ok = team_keeps(p, 0, 0, grids[rng_below(r, 5)], whole, judged, &how,
                        alone);
    if (one)
        case_free(alone, one->ops);
    dv_plan_destroy(one);
    dv_program_destroy(p);
    dv_diag_destroy(diag);
    return ok;
}

static void try_random(gen_mode mode, int cases)
{
    uint64_t seed = gen_seed();
    for (int i = 0; i < gen_cases(cases); i++) {
        rng r = {(seed + (uint64_t)i) ^ 0x5851f42d};
        char *text = gen_program(seed + (uint64_t)i, mode);
        int ok = teams_agree(text, mode == GEN_INTEGERS, &r);
        if (!ok)
            gen_report("prop_dist", seed + (uint64_t)i, mode, text, case_why());
        free(text);
        assert_true(ok);
    }
}

TEST(test_integers)
{
    try_random(GEN_INTEGERS, 250);
}

TEST(test_floats)
{
    try_random(GEN_FLOATS, 250);
}

static const char *const hard[] = {
    // Star and box stencils that reach further than a rank's part, in a repeat.
    "input u: f64[11, 9]\nrepeat 4 {\nu[i,j] <- 0.25 * (u[i-1,j] + u[i+1,j] + "
    "u[i,j-1] + u[i,j+1]) for i in 1..10, j in 1..8\n}\noutput u\n",
    "input u: f32[13, 12]\nv[i,j] = u[i,j] + u[i+8,j+6] + u[i+4,j+3] for i in "
    "0..5, j in 0..6\noutput v\n",
    // Strided, reversed and transposed reads of distant elements.
    "input a: f64[100]\nw[i] = a[3*i+2] for i in 0..30\nr[i] = a[99-i] for i "
    "in 0..100\ny[i] = r[i] + a[i]\noutput y, w\n",
    "input x: f64[7, 12]\ny[i,j] = x[j,i]\nz[i] = y[i,3] + y[i,0]\noutput z, "
    "y\n",
    // A tensor that is not written in a repeat is fetched once.
    "input x: f32[10, 10]\ninput k: f32[10, 10]\nrepeat 3 {\nx[i,j] <- "
    "x[i,j-1] * k[j,i] for i in 0..10, j in 1..10\n}\noutput x\n",
    // Reductions over each dim and over all; a scalar that every rank reads.
    "input x: f64[9, 14]\nr[i] = sum[j] x[i,j]\nc[j] = max[i] x[i,j]\n"
    "s[] = min[i,j] x[i,j]\nt[] = mean[i,j] x[i,j]\n"
    "y[i,j] = (x[i,j] - r[i]) * c[j] + s[] - t[]\noutput y, r, c, s, t\n",
    // Two products, of which the second reads the first.
    "input a: f32[12, 20]\ninput b: f32[20, 16]\ninput d: f32[16, 5]\nc[m,n] = "
    "sum[k] a[m,k] * b[k,n]\ne[m,n] = relu(sum[k] c[m,k] * d[k,n])\noutput e\n",
    // A dim that is read through an index is not cut.
    "input t: f32[8, 6]\ninput p: i32[10]\ny[i,j] = t[p[i],j]\nz[i,j] = "
    "y[9-i,j]\noutput z\n",
    // A transposed read divided by a value that is constant along a row: a
    // rank's own strides must not decide what counts as a row.
    "input x: f32[9, 9, 4, 16]\ninput s: f32[9]\ny[i,j,k,l] = x[l,k,j,i] / "
    "s[l] for i in 0..16, j in 0..4, k in 0..9, l in 0..9\noutput y\n",
    "input x: f32[36, 36]\ninput s: f32[36]\ny[i,j] = x[j,i] / s[i]\n"
    "z[i,j] = x[j,i] / s[j]\noutput y, z\n",
    "input x: f32[36, 36]\ninput s: f32[36]\nt[i,j] = x[i,j] * 0.3\n"
    "y[i,j] = t[j,i] / s[i]\noutput y\n",
    // A divisor with a border, which is copied before a tile: where a rank has
    // one element of a row, the copy does not change along the row.
    "input x: f64[2, 9]\ninput w: f64[2, 2, 2]\nz[q,l] = x[q,l] / "
    "(abs(w[q+l-1,1-l,0] else 0.5) + 0.3)\noutput z\n",
    "input x: f64[2, 9]\ninput w: f64[2, 2, 2]\nz[q,p,l] = x[q,l] / "
    "(abs(w[q+l-1,1-l,0] else 0.5) + 0.3) for p in 0..2\noutput z\n",
    // Sums over two variables whose rows are adjacent only within a rank's
    // part.
    "input x: f32[12, 3, 37] @ split(1)\ninput z: f32[40]\ny[b,c] = sum[i,j] "
    "exp(x[i,b,j] * z[c])\noutput y\n",
    // Fewer elements than ranks.
    "input x: f64[2]\ninput z: f64[1, 3]\ny[i] = x[i] + x[1-i] for i in "
    "0..2\nw[i,j] = z[i,j] + z[i,2-j]\noutput y, w\n",
};

TEST(test_hard)
{
    for (size_t i = 0; i < sizeof hard / sizeof *hard; i++)
        for (uint64_t k = 0; k < 8; k++) {
            rng r = {k * 977 + i};
            int ok = teams_agree(hard[i], 0, &r);
            if (!ok)
                gen_report("prop_dist", i, GEN_FLOATS, hard[i], case_why());
            assert_true(ok);
        }
}

// -- Wrong messages --------------------------------------------------------

typedef int breaker(rng *r, dv_op_exchange *s);

static int lose(rng *r, dv_op_exchange *s)
{
    if (s->n_receives == 0)
        return 0;
    s->receives[rng_below(r, s->n_receives)] = s->receives[s->n_receives - 1];
    s->n_receives--;
    return 1;
}

static int twice(rng *r, dv_op_exchange *s)
{
    if (s->n_receives < 2)
        return 0;
    int64_t i = rng_below(r, s->n_receives - 1);
    s->receives[i] = s->receives[i + 1];
    return 1;
}

static int shift(rng *r, dv_op_exchange *s)
{
    if (s->n_receives == 0)
        return 0;
    dv_piece *p = &s->receives[rng_below(r, s->n_receives)];
    p->box.dim[rng_below(r, p->box.n_dims)].off++;
    return 1;
}

static int other_rank(rng *r, dv_op_exchange *s)
{
    if (s->n_receives == 0)
        return 0;
    dv_piece *p = &s->receives[rng_below(r, s->n_receives)];
    p->rank = p->rank ? p->rank - 1 : p->rank + 1;
    return 1;
}

static int send_less(rng *r, dv_op_exchange *s)
{
    (void)r;
    if (s->n_sends == 0)
        return 0;
    s->n_sends--;
    return 1;
}

TEST(test_wrong)
{
    breaker *const breakers[] = {lose, twice, shift, other_rank, send_less};
    int tried = 0;
    for (uint64_t k = 0; k < 300; k++) {
        rng r = {k};
        dv_program *p = case_program(hard[rng_below(&r, 3)]);
        int64_t size = 2 + rng_below(&r, 5);
        dv_plan *plan =
            teams_plan(p, case_host, size, rng_below(&r, size), NULL);
        assert_non_null(plan);
        int32_t n = plan->team.n_op_exchanges;
        dv_op_exchange *s =
            n ? &plan->team.op_exchanges[rng_below(&r, n)] : NULL;
        if (s && breakers[k % 5](&r, s)) {
            tried++;
            assert_int_equal(dv_plan_check(plan, NULL), DV_E_CHECK);
        }
        dv_plan_destroy(plan);
        dv_program_destroy(p);
    }
    assert_true(tried > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hard), cmocka_unit_test(test_wrong),
        cmocka_unit_test(test_integers), cmocka_unit_test(test_floats)};
    return run_group(tests, case_set_up, case_tear_down);
}
