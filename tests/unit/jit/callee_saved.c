// Kernels preserve the callee-saved registers.
#define _GNU_SOURCE // MAP_ANONYMOUS
#include "harness/gemm_case.h"
#include "harness/saves.h"

#if defined(__aarch64__)
static void *address(dv_gemm_fn run)
{
    void *p;
    memcpy(&p, &run, sizeof p);
    return p;
}

static void try_saves(dv_jit *jit, const dv_gemm_shape *s)
{
    gemm_problem q = {.s = *s};
    dv_gemm_fn run;
    assert_int_equal(dv_jit_gemm(jit, s, &run, NULL), DV_OK);
    gemm_start(&q, 0);
    uint64_t lost = called_with_numbers(address(run), q.a.data, q.b.data,
                                        q.c.data, &q.args);
    if (lost)
        fail_msg("%dx%dx%d b%d trans %d %d dtype %d beta %d: lost %llx", s->m,
                 s->n, s->k, s->batch, s->trans_a, s->trans_b, s->dtype,
                 s->beta, (unsigned long long)lost);
    gemm_compare(&q);
    gemm_stop(&q);
}

// Products of a batch that are adjacent are one product to the kernel.
TEST(batches)
{
    dv_jit *jit = new_jit();
    for (int i = 0; i < 12 * 30 * 12 * 2; i++) {
        int m = 1 + i % 12, n = 1 + i / 12 % 30, k = 1 + i / 360 % 12;
        dv_gemm_shape s = {.m = m, .n = n, .k = k, .batch = 2, .trans_a = 1};
        s.lda = m;
        s.ldb = s.ldc = n;
        s.stride_a = m * k;
        s.stride_b = n * k;
        s.dtype = i / 4320 ? DV_F64 : DV_F32;
        if (pick(SHARE) == 0)
            try_saves(jit, &s);
    }
    dv_jit_destroy(jit);
}

TEST(all_kinds)
{
    static const int types[] = {DV_F32, DV_F64, DV_I32};
    dv_jit *jit = new_jit();
    for (int i = 0; i < 3000 / SHARE; i++) {
        dv_gemm_shape s = random_gemm(i % 9 ? 40 : 90, types[i % 3]);
        try_saves(jit, &s);
    }
    dv_jit_destroy(jit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(batches),
                                       cmocka_unit_test(all_kinds)};
    return run_group(tests, NULL, NULL);
}
#else
int main(void)
{
    return 77; // on this machine no vector registers are callee-saved
}
#endif
