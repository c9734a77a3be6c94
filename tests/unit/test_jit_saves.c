// Kernels leave the registers alone that belong to their caller.
#define _GNU_SOURCE // MAP_ANONYMOUS
#include "unit/jit_problem.h"

#if defined(__aarch64__)
// Calls f(a, b, c, args) with a number in each of x19 to x28 and d8 to d15: the
// bits of those that have another one behind it, d at its number, x at its own.
uint64_t called_with_numbers(void *f, const void *a, const void *b, void *c,
                             const void *args);
__asm__(".text\n"
        ".globl called_with_numbers\n"
        ".type called_with_numbers, %function\n"
        "called_with_numbers:\n"
        "stp x29, x30, [sp, #-160]!\n"
        "mov x29, sp\n"
        "stp x19, x20, [sp, #16]\n"
        "stp x21, x22, [sp, #32]\n"
        "stp x23, x24, [sp, #48]\n"
        "stp x25, x26, [sp, #64]\n"
        "stp x27, x28, [sp, #80]\n"
        "stp d8, d9, [sp, #96]\n"
        "stp d10, d11, [sp, #112]\n"
        "stp d12, d13, [sp, #128]\n"
        "stp d14, d15, [sp, #144]\n"
        "mov x9, x0\n"
        "mov x0, x1\n"
        "mov x1, x2\n"
        "mov x2, x3\n"
        "mov x3, x4\n"
        ".irp n, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28\n"
        "mov x\\n, #(\\n * 1001)\n"
        ".endr\n"
        ".irp n, 8, 9, 10, 11, 12, 13, 14, 15\n"
        "mov x10, #(\\n * 1001)\n"
        "fmov d\\n, x10\n"
        ".endr\n"
        "blr x9\n"
        "mov x0, #0\n"
        ".irp n, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28\n"
        "mov x1, #(\\n * 1001)\n"
        "cmp x\\n, x1\n"
        "cset x2, ne\n"
        "orr x0, x0, x2, lsl #\\n\n"
        ".endr\n"
        ".irp n, 8, 9, 10, 11, 12, 13, 14, 15\n"
        "mov x1, #(\\n * 1001)\n"
        "fmov x3, d\\n\n"
        "cmp x3, x1\n"
        "cset x2, ne\n"
        "orr x0, x0, x2, lsl #\\n\n"
        ".endr\n"
        "ldp x19, x20, [sp, #16]\n"
        "ldp x21, x22, [sp, #32]\n"
        "ldp x23, x24, [sp, #48]\n"
        "ldp x25, x26, [sp, #64]\n"
        "ldp x27, x28, [sp, #80]\n"
        "ldp d8, d9, [sp, #96]\n"
        "ldp d10, d11, [sp, #112]\n"
        "ldp d12, d13, [sp, #128]\n"
        "ldp d14, d15, [sp, #144]\n"
        "ldp x29, x30, [sp], #160\n"
        "ret\n");

static void *address(dv_gemm_fn run)
{
    void *p;
    memcpy(&p, &run, sizeof p);
    return p;
}

static void try_saves(dv_jit *jit, const dv_gemm_shape *s)
{
    problem q = {.s = *s};
    dv_gemm_fn run;
    assert_int_equal(dv_jit_gemm(jit, s, &run, NULL), DV_OK);
    set_up(&q, 0);
    uint64_t lost = called_with_numbers(address(run), q.a.data, q.b.data,
                                        q.c.data, &q.args);
    if (lost)
        fail_msg("%dx%dx%d b%d trans %d %d dtype %d beta %d: lost %llx", s->m,
                 s->n, s->k, s->batch, s->trans_a, s->trans_b, s->dtype,
                 s->beta, (unsigned long long)lost);
    compare(&q);
    tear_down(&q);
}

// Products of a batch that follow each other are one to the kernel.
static void batches(void **state)
{
    (void)state;
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

static void all_kinds(void **state)
{
    (void)state;
    static const int types[] = {DV_F32, DV_F64, DV_I32};
    dv_jit *jit = new_jit();
    for (int i = 0; i < 3000 / SHARE; i++) {
        dv_gemm_shape s = random_shape(i % 9 ? 40 : 90, types[i % 3]);
        if (s.dtype == DV_I32) // which is not scaled
            s.alpha = s.beta = 0;
        try_saves(jit, &s);
    }
    dv_jit_destroy(jit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(batches),
                                       cmocka_unit_test(all_kinds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void)
{
    return 77; // its callers have no such vector registers
}
#endif
