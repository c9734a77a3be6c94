// What --verify accepts and refuses: right results with any error that they may
// have, and wrong results, however small the difference.
#include "harness/test.h"
#include "harness/unit.h"
#include <math.h>

static float *tensor(job *j, const char *name)
{
    return j->data[dv_program_find(j->plan->ops, name)];
}

static dv_verdict judged(job *j)
{
    dv_verdict v;
    if (dv_verify(&v, j->program, j->plan, j->data, j->data, NULL, NULL,
                  j->diag))
        fail_msg("%s", dv_diag_text(j->diag));
    return v;
}

static void begin(job *j, const char *text)
{
    start(j, text, 1, DV_RUN_THREADS);
}

static void run(job *j)
{
    must(job_run(j));
    dv_verdict v = judged(j);
    if (!v.ok)
        fail_msg("%s[%d] is %g off, %g allowed", v.tensor, (int)v.element,
                 v.residual, v.threshold);
}

// Returns the verdict with x in place of an element, which is then restored.
static dv_verdict with(job *j, float *at, float x)
{
    float kept = *at;
    *at = x;
    dv_verdict v = judged(j);
    *at = kept;
    return v;
}

// -- What is refused ---------------------------------------------------------

// A wrong element beside one that is 1e9 times as large is found.
TEST(test_small)
{
    job j;
    begin(&j, "input x: f32[16]\ny[i] = x[i] * 3\noutput y\n");
    tensor(&j, "x")[7] = 1e9f;
    run(&j);
    float *y = tensor(&j, "y");
    dv_verdict v = with(&j, &y[2], y[2] * 1.00001f);
    assert_false(v.ok);
    assert_int_equal(v.element, 2);
    assert_true(v.threshold < 1e-6);
    assert_true(with(&j, &y[2], nextafterf(y[2], 9)).ok);
    job_stop(&j);
}

// Without rounding there is no tolerance: copies, gathers, maxima, relu.
TEST(test_exact)
{
    static const char *const text[] = {
        "input x: f32[8, 8]\ny[i,j] = x[j,i]\noutput y\n",
        "input x: f32[8, 8]\ny[i,j] = relu(-x[i,7-j])\noutput y\n",
        "input x: f32[8, 8]\ny[i] = max[j] abs(x[i,j])\noutput y\n",
        "input x: f32[8, 8]\ny[i,j] = max(x[i,j], 0.25)\noutput y\n"};
    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
        job j;
        begin(&j, text[i]);
        run(&j);
        float *y = tensor(&j, "y");
        dv_verdict v = with(&j, &y[1], nextafterf(y[1], 9));
        assert_false(v.ok);
        assert_int_equal(v.element, 1);
        assert_true(v.threshold == 0);
        job_stop(&j);
    }
}

// A sum in which one of many terms is missing, or counted twice, is refused.
TEST(test_sum)
{
    job j;
    begin(&j, "input x: f32[4, 4096]\ny[i] = sum[k] x[i,k]\noutput y\n");
    run(&j);
    float *x = tensor(&j, "x"), *y = tensor(&j, "y");
    int k = 0;
    while (fabsf(x[k]) < .1f)
        k++;
    assert_false(with(&j, &y[0], y[0] - x[k]).ok);
    assert_false(with(&j, &y[0], y[0] + x[k]).ok);
    assert_false(with(&j, &y[0], NAN).ok);
    assert_false(with(&j, &y[0], INFINITY).ok);
    job_stop(&j);
}

TEST(test_infinite)
{
    job j;
    begin(&j, "input x: f32[8]\ny[i] = x[i] * x[i]\noutput y\n");
    float *x = tensor(&j, "x"), *y = tensor(&j, "y");
    x[1] = 1e30f; // its square overflows f32
    x[2] = INFINITY;
    x[3] = NAN;
    x[4] = 1.844674e19f; // its square just fits
    run(&j);
    assert_true(isinf(y[1]) && isinf(y[2]) && isnan(y[3]) && isfinite(y[4]));
    for (int i = 1; i < 5; i++)
        assert_false(with(&j, &y[i], 1).ok);
    assert_false(with(&j, &y[1], NAN).ok);
    job_stop(&j);
}

// -- What is accepted --------------------------------------------------------

// A difference of large sums may consist of their error alone.
TEST(test_cancelled)
{
    job j;
    begin(&j, "input x: f32[4, 1000]\ns[i] = sum[k] x[i,k]\n"
              "t[i] = sum[k] x[i,999-k]\ny[i] = s[i] - t[i]\noutput y\n");
    float *x = tensor(&j, "x"), *y = tensor(&j, "y");
    for (int i = 0; i < 4000; i++)
        x[i] += 100;
    run(&j);
    assert_true(judged(&j).threshold > 1e-3);
    assert_false(with(&j, &y[1], 100).ok);
    job_stop(&j);
}

// Division by a difference that is nearly 0, followed by a bounded function.
TEST(test_bounded)
{
    job j;
    begin(&j, "input x: f32[64]\n"
              "y[i] = tanh(1 / (exp(x[i]) * exp(-x[i]) - 1.0000001))\n"
              "output y\n");
    run(&j);
    job_stop(&j);
}

// Where two values may be equal, either result of a select is right.
TEST(test_choice)
{
    job j;
    begin(&j, "input x: f32[64]\n"
              "y[i] = select(exp(x[i]) * exp(-x[i]) > 1, 5, 7)\n"
              "z[i] = select(exp(x[i]) > 0, 5, 7)\noutput y, z\n");
    run(&j);
    float *y = tensor(&j, "y"), *z = tensor(&j, "z");
    assert_true(with(&j, &y[3], 12 - y[3]).ok);
    assert_false(with(&j, &y[3], 6 - 12).ok);
    assert_false(with(&j, &z[3], 7).ok);
    job_stop(&j);
}

// A float that is truncated next to an integer may go either way; another may
// not.
TEST(test_cut)
{
    job j;
    begin(&j, "input x: f32[8]\n"
              "n[i]: i32 = exp(x[i]) * exp(-x[i]) * 3 * x[i]\noutput n\n");
    float *x = tensor(&j, "x");
    for (int i = 0; i < 8; i++)
        x[i] = i ? .5f : 1; // exactly or nearly 3, and 1.5
    run(&j);
    int32_t *n = j.data[dv_program_find(j.plan->ops, "n")];
    int32_t kept = n[0];
    n[0] = 5 - kept; // 2 instead of 3, or 3 instead of 2
    assert_true(judged(&j).ok);
    n[0] = kept;
    n[1] = 2;
    assert_false(judged(&j).ok);
    job_stop(&j);
}

// Right results that a simpler error analysis would refuse: roundings in the
// same direction, products that overflow in one order, functions that overflow
// inside, integers that wrap around, integer inputs of float computations.
TEST(test_right)
{
    static const struct {
        const char *text;
        double low, high;
    } cases[] = {
        {"input x: f32[4096, 16]\ny[j] = sum[i] x[i,j]\noutput y\n", .1,
         .1000001},
        {"input x: f32[400, 64]\ny[i] = prod[k] exp(40.0 * x[i,k])\noutput "
         "y\n",
         -1, 1},
        {"input x: f32[1000]\ny[i] = sigmoid(x[i])\noutput y\n", -104, -80},
        {"input x: f64[1000]\ny[i] = silu(x[i])\noutput y\n", -750, -700},
        {"input x: f32[1000, 8]\ny[i]: i8 = (sum[k] x[i,k]) * 1e9\noutput "
         "y\n",
         -1, 1},
        {"input q: i32[300000]\ny[]: i64 = (sum[k] q[k] * 0.1) * "
         "1000000000.0\noutput y\n",
         -1, 1},
        {"input x: f64[2]\ninput z: f64[2, 3]\n"
         "y[i] = sum[k] x[k] * z[k,i]\noutput y\n",
         -1e300, 1e300},
        {"input x: f32[20000]\nt[i]: f16 = (x[i] + 700.0) - 700.0\n"
         "s[i] = exp(t[i]) * 0.5\noutput s\n",
         88.65, 88.75},
        {"input q: i32[100, 30]\ninput d: f32[100]\ninput u: f32[100, 60]\n"
         "s[i] = sum[k] (q[i,k] * 0.1 + 0.8)\nn[i]: i32 = s[i]\n"
         "u[i,n[i]] <- d[i]\noutput u\n",
         -1, 1}};
    static const dv_executor kinds[] = {DV_RUN_THREADS, DV_RUN_SEQ};
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        job j;
        start(&j, cases[i / 2].text, 2, kinds[i % 2]);
        const dv_program *p = j.plan->ops;
        for (int t = 0; t < p->n_tensors; t++)
            if (p->tensors[t].is_input)
                dv_fill(p, t, 1, cases[i / 2].low, cases[i / 2].high,
                        j.data[t]);
        is_right(&j, 0);
        job_stop(&j);
    }
}

// An element that neither reference can decide counts once as undecided.
TEST(test_unknown_once)
{
    job j;
    begin(&j,
          "input x: f32[4, 2]\ninput w: f32[2]\n"
          "y[i] = 1 / (sum[j] x[i,j] * w[j]) + (max[j] x[i,j])\noutput y\n");
    assert_true(j.program->n_ops < j.plan->ops->n_ops);
    float *x = tensor(&j, "x"), *w = tensor(&j, "w");
    w[0] = w[1] = 0.1f;
    for (int i = 0; i < 8; i++)
        x[i] = 0.3f;
    x[5] = -0.3f;
    run(&j);
    assert_int_equal(judged(&j).n_unknown, 0); // the result agrees all the same
    float *y = tensor(&j, "y");
    assert_int_equal(with(&j, &y[2], 7).n_unknown, 1);
    assert_true(with(&j, &y[2], 7).ok);
    job_stop(&j);
}

// O1: a plan whose ops are not those of the program as written, although there
// are equally many: its results are compared with the program as written, and
// refused.
TEST(test_changed)
{
    static const char written[] =
        "input x: i32[16,20] input w: i32[20,16] "
        "y[i,j] = sum[k] x[i,19-k] * w[19-k,j] for k in 0..20 output y";
    job j, other;
    begin(&j, written);
    begin(&other, "input x: i32[16,20] input w: i32[20,16] "
                  "y[i,j] = sum[k] x[i,0] * w[k,j] output y");
    must(job_run(&other));
    assert_int_equal(j.program->n_ops, other.plan->ops->n_ops);
    dv_verdict v;
    assert_int_equal(dv_verify(&v, j.program, other.plan, other.data,
                               other.data, NULL, NULL, other.diag),
                     DV_OK);
    assert_false(v.ok);
    run(&j);
    job_stop(&j);
    job_stop(&other);
}

// -- Samples -----------------------------------------------------------------

// The verdict of samples, and what the executor has in memory.
typedef struct samples {
    dv_verdict v;
    void *stored[16];
    dv_arena arena;
} samples;

static void sample(job *j, samples *s, double budget_s)
{
    const dv_sample_options options = {
        .budget_s = budget_s, .kept = j->kept.data, .seed = 1};
    *s = (samples){0};
    assert_true(j->plan->ops->n_tensors <= 16);
    for (int32_t i = 0; i < j->plan->ops->n_tensors; i++)
        s->stored[i] = dv_exec_stored(j->x, i);
    if (dv_verify_samples(&s->v, j->program, j->plan, j->before, s->stored,
                          &options, &s->arena, j->diag))
        fail_msg("%s", dv_diag_text(j->diag));
}

// Runs a program and samples all of it.
static void run_and_sample(job *j, samples *s, const char *text)
{
    start_and_run(j, text, 2);
    sample(j, s, INFINITY);
    assert_true(s->v.ok && s->v.sampled);
}

static void stop(job *j, samples *s)
{
    dv_arena_free(&s->arena);
    job_stop(j);
}

static int is_missed(const samples *s, const char *tensor, int64_t n_tiles,
                     const char *why)
{
    for (int32_t i = 0; i < s->v.n_missed; i++)
        if (!strcmp(s->v.missed[i].tensor, tensor) &&
            s->v.missed[i].n_tiles == n_tiles &&
            !strcmp(s->v.missed[i].why, why))
            return 1;
    return 0;
}

// Changes the elements of a tile, except those of column 0 if there are
// columns.
static void spoil(const job *j, int32_t op, int64_t tile, float *data, float by)
{
    const dv_op *o = &j->plan->ops->ops[op];
    const dv_tensor *t = &j->plan->ops->tensors[o->write.tensor];
    dv_tile box;
    dv_plan_tile(&box, j->plan, op, tile);
    for (int64_t i = box.begin[0]; i < box.end[0]; i++) {
        if (t->n_dims == 1)
            data[i] += by;
        for (int64_t k = box.begin[1]; t->n_dims > 1 && k < box.end[1]; k++)
            data[i * t->shape[1] + k] += k > 0 ? by : 0;
    }
}

// Every tile is sampled: whichever one is wrong, of a temporary or of an
// output, is found and named. The output does not depend on what is wrong in
// the temporary.
TEST(test_tiles)
{
    static const char *const names[] = {"h", "z"};
    job j;
    samples s;
    run_and_sample(&j, &s,
                   "input x: f32[64, 48]\ninput w: f32[48, 40]\n"
                   "h[i,j] = relu(sum[k] x[i,k] * w[k,j])\n"
                   "z[i] = h[63-i,0] * 0.3\noutput z\n");
    assert_int_equal(s.v.n_missed, 0);
    assert_int_equal(s.v.n_tiles, s.v.n_sampled_tiles);
    assert_int_equal(s.v.n_from_inputs, 64);
    for (int n = 0; n < 2; n++) {
        int32_t op = op_named(j.plan, names[n]);
        float *data = s.stored[tensor_named(j.plan, names[n])];
        int64_t tiles = dv_plan_n_tiles(j.plan, op);
        assert_non_null(data);
        assert_true(tiles > 1 || n == 1);
        for (int64_t t = 0; t < tiles; t++) {
            samples wrong;
            spoil(&j, op, t, data, 64);
            sample(&j, &wrong, INFINITY);
            assert_false(wrong.v.ok);
            assert_string_equal(wrong.v.tensor, names[n]);
            if (wrong.v.op) { // not named if found from the inputs
                assert_string_equal(wrong.v.op, names[n]);
                assert_int_equal(wrong.v.tile, t);
            }
            assert_true(n == 1 || wrong.v.op);
            assert_true(fabs(wrong.v.got - wrong.v.want - 64) < 1e-3);
            dv_arena_free(&wrong.arena);
            spoil(&j, op, t, data, -64);
        }
    }
    stop(&j, &s);
}

// A wrong intermediate result that the run went on with is found where it is
// wrong, and from the inputs.
TEST(test_wrong_temporary)
{
    job j, other;
    samples s, wrong;
    run_and_sample(&j, &s,
                   "input x: i32[40, 40]\nh[i,j] = x[i,j] * 2 + 1\n"
                   "z[i] = sum[k] h[k,39-i]\noutput z\n");
    run_and_sample(&other, &wrong,
                   "input x: i32[40, 40]\nh[i,j] = x[i,j] * 2\n"
                   "z[i] = sum[k] h[k,39-i]\noutput z\n");
    dv_arena_free(&wrong.arena);
    int32_t h = tensor_named(j.plan, "h"), z = tensor_named(j.plan, "z");
    memcpy(s.stored[h], wrong.stored[h], 1600 * sizeof(int32_t));
    memcpy(s.stored[z], wrong.stored[z], 40 * sizeof(int32_t));
    sample(&j, &wrong, INFINITY);
    assert_false(wrong.v.ok);
    assert_string_equal(wrong.v.tensor, "z"); // 40 off, h is 1 off
    assert_null(wrong.v.op);
    dv_arena_free(&wrong.arena);
    stop(&j, &s);
    job_stop(&other);
}

// With a copy of the tensors before the last iteration of a repeat, its tiles
// are recomputed although they overwrite what they read. The first statement is
// overwritten by it.
TEST(test_last_round)
{
    job j;
    samples s, wrong;
    begin(&j, "input u: f32[64, 64]\nv[i,j] = 0 * u[i,j]\nrepeat 3 {\n"
              "v[i,j] <- 0.5 * (u[i,j] + u[i-1,j]) for i in 1..64\n"
              "u[i,j] <- u[i,j] + v[i,j]\n}\n"
              "y[i] = max[k] u[63-i,k]\noutput u, y\n");
    dv_arena arena = {0};
    dv_keep_round(&j.kept, j.x, j.plan->ops, &arena, j.diag);
    must(job_run(&j));
    assert_non_null(j.kept.data);
    sample(&j, &s, INFINITY);
    assert_true(s.v.ok && s.v.decided);
    for (int32_t i = 0; i < s.v.n_missed; i++)
        assert_string_equal(s.v.missed[i].tensor, "v");
    dv_arena_free(&s.arena);
    // The samples are those of the copy: with another one, results are wrong.
    float *kept = j.kept.data[tensor_named(j.plan, "u")];
    for (int i = 0; i < 4096; i++)
        kept[i] += 1;
    sample(&j, &wrong, INFINITY);
    assert_false(wrong.v.ok);
    assert_non_null(wrong.v.op);
    dv_arena_free(&arena);
    stop(&j, &wrong);
}

// What is overwritten, or written through an index that is read, is counted as
// missed. Updates are recomputed from the inputs.
TEST(test_missed)
{
    job j;
    samples s;
    run_and_sample(&j, &s,
                   "input u: f32[64, 64]\nrepeat 3 {\n"
                   "u[i,j] <- 0.5 * (u[i,j] + u[i-1,j]) for i in 1..64\n}\n"
                   "y[i] = max[k] u[63-i,k]\noutput u, y\n");
    int64_t n = s.v.n_tiles - s.v.n_sampled_tiles;
    assert_true(n > 0 && s.v.n_sampled_tiles > 0 && s.v.decided);
    assert_int_equal(s.v.n_missed, 1);
    assert_true(is_missed(&s, "u", n, "overwritten later"));
    assert_int_equal(s.v.n_from_inputs, 64 * 64 + 64);
    float *u = tensor(&j, "u");
    samples wrong;
    u[1000] += 1;
    sample(&j, &wrong, INFINITY);
    assert_false(wrong.v.ok);
    dv_arena_free(&wrong.arena);
    stop(&j, &s);

    run_and_sample(&j, &s,
                   "input n: i32[64]\ninput x: f32[64]\ninput u: f32[64]\n"
                   "u[n[i]] <- x[i]\ny[i] = u[i] * 2\noutput u, y\n");
    n = s.v.n_tiles - s.v.n_sampled_tiles;
    assert_true(n > 0 && s.v.n_sampled_tiles > 0);
    assert_true(is_missed(&s, "u", n, "written through an index that is read"));
    assert_true(is_missed(&s, "y", 0, "written through an index that is read"));
    assert_false(s.v.decided); // nothing is known of u
    assert_string_equal(s.v.unreached, "u");
    stop(&j, &s);
}

// A sum over more points than elements are kept, which asks for the same two
// results at each of them.
TEST(test_long_sum)
{
    job j;
    samples s;
    run_and_sample(&j, &s,
                   "input x: f32[1100, 1100]\nm[] = max[i,j] x[i,j]\n"
                   "r[] = min[i,j] x[j,i]\n"
                   "s[] = sum[i,j] (x[i,j] - m[]) * r[]\noutput s\n");
    assert_int_equal(s.v.n_from_inputs, 1);
    assert_int_equal(s.v.n_missed, 0);
    stop(&j, &s);
}

// Without time nothing is compared, and the verdict says so.
TEST(test_no_time)
{
    job j;
    samples s;
    start_and_run(&j,
                  "input x: f32[64, 64]\ny[i,j] = x[j,i] * 2\n"
                  "z[i] = sum[j] y[j,i]\noutput y, z\n",
                  2);
    sample(&j, &s, 0);
    assert_true(s.v.ok && !s.v.decided && s.v.unreached && s.v.n_tiles > 1);
    assert_int_equal(s.v.n_sampled_tiles, 0);
    assert_int_equal(s.v.n_from_operands + s.v.n_from_inputs, 0);
    int64_t n = 0;
    for (int32_t i = 0; i < s.v.n_missed; i++)
        n += s.v.missed[i].n_tiles;
    assert_int_equal(n, s.v.n_tiles);
    stop(&j, &s);
}

// O1: results are compared with the program as written, not only with the ops
// of the plan.
TEST(test_samples_changed)
{
    job j, other;
    samples s;
    begin(&j, "input x: i32[16,20] input w: i32[20,16] "
              "y[i,j] = sum[k] x[i,k] * w[k,j] output y");
    run_and_sample(&other, &s,
                   "input x: i32[16,20] input w: i32[20,16] "
                   "y[i,j] = sum[k] x[i,0] * w[k,j] output y");
    dv_arena_free(&s.arena);
    dv_program *written = other.program;
    other.program = j.program;
    sample(&other, &s, INFINITY);
    assert_false(s.v.ok);
    assert_null(s.v.op);
    other.program = written;
    stop(&other, &s);
    job_stop(&j);
}

// Which temporaries an executor has in memory.
TEST(test_stored)
{
    static const char text[] =
        "input x: f32[64, 512]\nc[i,j] = x[i,j] + 1\n"
        "m[i] = max[j] c[i,j]\ny[i,j] = exp(c[i,j] - m[i])\noutput y\n";
    job j;
    start(&j, text, 2, DV_RUN_SEQ);
    assert_non_null(dv_exec_stored(j.x, tensor_named(j.plan, "c")));
    assert_ptr_equal(dv_exec_stored(j.x, tensor_named(j.plan, "y")),
                     tensor(&j, "y"));
    job_stop(&j);
    dv_plan_options o = DV_PLAN_OPTIONS_INIT;
    start_on(&j, "spyre", text, &o, DV_RUN_SIM);
    assert_null(dv_exec_stored(j.x, tensor_named(j.plan, "c")));
    assert_non_null(dv_exec_stored(j.x, tensor_named(j.plan, "y")));
    job_stop(&j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_small),
                                       cmocka_unit_test(test_exact),
                                       cmocka_unit_test(test_sum),
                                       cmocka_unit_test(test_infinite),
                                       cmocka_unit_test(test_cancelled),
                                       cmocka_unit_test(test_bounded),
                                       cmocka_unit_test(test_choice),
                                       cmocka_unit_test(test_cut),
                                       cmocka_unit_test(test_right),
                                       cmocka_unit_test(test_unknown_once),
                                       cmocka_unit_test(test_changed),
                                       cmocka_unit_test(test_tiles),
                                       cmocka_unit_test(test_wrong_temporary),
                                       cmocka_unit_test(test_last_round),
                                       cmocka_unit_test(test_missed),
                                       cmocka_unit_test(test_no_time),
                                       cmocka_unit_test(test_long_sum),
                                       cmocka_unit_test(test_samples_changed),
                                       cmocka_unit_test(test_stored)};
    return run_group(tests, NULL, NULL);
}
