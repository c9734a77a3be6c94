// N8: threads that pack panels of B for each other give the same bits as one
// thread, whichever is ahead, run after run; and they do share panels.
#define _GNU_SOURCE // MAP_ANONYMOUS, fork
#include "jit/gemm/plan.h"
#include "harness/gemm_case.h"
#include <sys/wait.h>

// Makes a shape with panels for several threads, and options that cut it into
// many chunks and blocks.
static dv_gemm_shape wide_shape(int dtype)
{
    dv_gemm_shape s = random_gemm(90, dtype);
    s.batch = 0;
    s.stride_a = s.stride_b = s.stream = 0;
    s.m += 300; // so that threads have different rows
    s.n = 170 + pick(130);
    s.lda = s.ldb = s.ldc = 0;
    return s;
}

static dv_gemm_options options_of(int threads)
{
    dv_gemm_options o = {.threads = threads, .pack = 1, .work = 1};
    o.parts_each = 1;
    return o;
}

// Computes the product on one thread, in the chunks of `o`.
static void once(dv_jit *jit, gemm_problem *q, const dv_gemm_options *o)
{
    dv_gemm_options alone = *o;
    dv_gemm_plan *plan;
    alone.threads = 1;
    assert_int_equal(dv_gemm_plan_create(&plan, jit, &q->s, &alone, NULL),
                     DV_OK);
    dv_gemm_run(plan, q->a.data, q->b.data, q->c.data, &q->args);
    dv_gemm_plan_destroy(plan);
}

static size_t bytes_c(const gemm_problem *q)
{
    return (size_t)q->n_c *
           (size_t)dv_dtype_get((dv_dtype)gemm_type_c(&q->s))->size_bytes;
}

// Runs with other operands each time, so that nothing of an earlier run may be
// left. Parts that are run by themselves in between share nothing.
static int try_shares(dv_jit *jit, dv_gemm_shape s, const dv_gemm_options *o)
{
    dv_gemm_plan *plan;
    assert_int_equal(dv_gemm_plan_create(&plan, jit, &s, o, NULL), DV_OK);
    int shares = plan->common != NULL;
    s = plan->s; // with its strides of rows
    gemm_problem q = {.s = s};
    gemm_start(&q, 0);
    size_t size = bytes_c(&q);
    void *start = malloc(size), *want = malloc(size);
    memcpy(start, q.c.data, size);
    for (int run = 0; run < 4; run++) {
        gemm_fill(s.dtype, q.b.data, q.n_b, 0);
        memcpy(q.c.data, start, size);
        once(jit, &q, o);
        memcpy(want, q.c.data, size);
        memcpy(q.c.data, start, size);
        for (int i = 0; run == 2 && i < o->threads; i++)
            dv_gemm_part(plan, i, q.a.data, q.b.data, q.c.data, &q.args);
        if (run != 2)
            dv_gemm_run(plan, q.a.data, q.b.data, q.c.data, &q.args);
        assert_memory_equal(want, q.c.data, size);
    }
    free(start);
    free(want);
    gemm_stop(&q);
    dv_gemm_plan_destroy(plan);
    return shares;
}

TEST(same_bits)
{
    static const int types[] = {DV_F32, DV_F64, DV_F32,  DV_F16,
                                DV_I32, DV_F32, DV_BF16, DV_I8};
    dv_jit *jit = new_jit();
    int n = 160 / SHARE, shared = 0;
    for (int i = 0; i < n; i++) {
        dv_gemm_options o = options_of(2 + pick(4));
        o.k_block = pick(3) ? 8 * (1 + pick(6)) : 0;
        o.l2_bytes = pick(2) ? 0 : 2000 + pick(20000);
        shared += try_shares(jit, wide_shape(types[i % 8]), &o);
    }
    if (dv_jit_isa(jit)->shares)
        assert_true(shared > n / 2);
    dv_jit_destroy(jit);
}

// The parts run one after the other, as without threads: the second finds what
// the first has packed; the first packs what the second would have packed. From
// the third chunk on the first finds that the second is behind and packs for
// itself alone.
static void see_flags(dv_gemm_plan *plan, int chunks)
{
    const dv_gemm_share *p = plan->parts;
    int32_t n = dv_gemm_n_panels(&p[0]);
    int far = chunks > 2;
    for (int32_t i = 0; i < n; i++) {
        int of_first = i < p[0].to;
        if (p[0].alone[i] != (far || !of_first) ||
            p[1].alone[i] != (far && of_first))
            _exit(2);
    }
}

TEST(one_after_the_other)
{
#if defined(__SANITIZE_THREAD__)
    skip_test("a forked child may not start threads here");
#endif
    dv_jit *jit = new_jit();
    if (!dv_jit_isa(jit)->shares) {
        dv_jit_destroy(jit);
        skip_test("threads share no packing on this instruction set");
    }
    for (int chunks = 1; chunks <= 5; chunks++) {
        dv_gemm_options o = options_of(2);
        dv_gemm_shape s = {.m = 240, .n = 210, .k = 16 * chunks};
        dv_gemm_plan *plan;
        s.dtype = DV_F32;
        o.k_block = 16;
        assert_int_equal(dv_gemm_plan_create(&plan, jit, &s, &o, NULL), DV_OK);
        assert_non_null(plan->common);
        gemm_problem q = {.s = plan->s};
        gemm_start(&q, 0);
        once(jit, &q, &o);
        void *want = malloc(bytes_c(&q));
        memcpy(want, q.c.data, bytes_c(&q));
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            alarm(60);
            for (int run = 0; run < 3; run++) {
                memset(q.c.data, 0, bytes_c(&q));
                dv_gemm_run(plan, q.a.data, q.b.data, q.c.data, NULL);
                if (memcmp(want, q.c.data, bytes_c(&q)))
                    _exit(1);
                see_flags(plan, chunks);
            }
            _exit(0);
        }
        int how = 0;
        assert_int_equal(waitpid(child, &how, 0), child);
        assert_true(WIFEXITED(how));
        assert_int_equal(WEXITSTATUS(how), 0);
        free(want);
        gemm_stop(&q);
        dv_gemm_plan_destroy(plan);
    }
    dv_jit_destroy(jit);
}

// Uneven parts, too few panels, rows for one thread only: the results are
// right, shared or not.
TEST(odd_sizes)
{
    static const int sizes[][3] = {
        {9, 200, 30},   {200, 9, 30},    {5, 81, 17},   {64, 83, 33},
        {161, 161, 1},  {333, 163, 40},  {41, 1001, 9}, {130, 130, 70},
        {500, 243, 19}, {1003, 161, 33}, {29, 28, 27},  {6, 5000, 4}};
    dv_jit *jit = new_jit();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int threads = 2; threads <= 7; threads++) {
            dv_gemm_options o = options_of(threads);
            dv_gemm_shape s = {.m = sizes[i][0], .n = sizes[i][1]};
            s.k = sizes[i][2];
            s.dtype = DV_F32;
            o.k_block = threads % 2 ? 8 : 0;
            try_shares(jit, s, &o);
        }
    dv_jit_destroy(jit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits),
        cmocka_unit_test(one_after_the_other),
        cmocka_unit_test(odd_sizes),
    };
    return run_group(tests, NULL, NULL);
}
