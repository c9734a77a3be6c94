// Patterns of steps that earlier kernels of aarch64 left for reuse do not
// change later kernels.
#define _GNU_SOURCE
#include "harness/gemm_case.h"

enum { MOST_CODE = 1 << 18 };
static uint64_t keep[DV_CODE_KEEP / 8];

static int has_patterns(const dv_isa *isa)
{
    return isa->family == DV_ISA_A64;
}

// With the patterns of other kernels a kernel has the same code as alone.
static void try_kernel(const dv_isa *isa, const dv_gemm_shape *s)
{
    static unsigned char alone[MOST_CODE], after[MOST_CODE];
    dv_code a = {.at = alone, .cap = MOST_CODE};
    dv_code b = {.at = after, .cap = MOST_CODE, .keep = keep};
    dv_backend_of(isa)->gemm(&a, isa, s);
    dv_backend_of(isa)->gemm(&b, isa, s);
    assert_false(a.failed || b.failed);
    assert_int_equal(a.n, b.n);
    assert_memory_equal(alone, after, a.n);
}

// Changes one thing of a product.
static void vary(dv_gemm_shape *s, const dv_isa *isa, int how)
{
    int panels = !s->trans_b && s->m >= 4;
    s->lda += how == 0 ? 4 : how == 1 ? 5000 : 0;
    s->ldb += how == 2 ? 8 : how == 3 ? 3001 : 0;
    s->ldc += how == 4 ? 4 : how == 5 ? 2001 : 0;
    s->stride_a += how == 6 ? 16 : 0;
    s->stride_b += how == 7 ? 16 : 0;
    s->m += how == 8;
    s->k += how == 9;
    s->beta = how == 10 ? (uint8_t)pick(2) : s->beta;
    s->relu ^= how == 12;
    s->bias = how == 13 ? (uint8_t)pick(3) : s->bias;
    s->ahead_a = how == 14 && s->trans_a && !s->trans_b;
    s->batch += how == 15;
    if (how > 15 && panels) { // in panels that are packed on the way
        s->batch = 1;
        s->panel_a = 4;
        s->pack_a = how == 17 || how == 19;
        s->pack_b = how == 18 || how == 19;
        s->next_b = how == 18 ? DV_NEXT_SPREAD : 0;
        s->n = 1 + s->n % panel_cols(isa, s->dtype);
    }
}

// One kernel after another, each with one thing changed.
TEST(in_turn)
{
    for (int i = 0; i < dv_n_isas; i++) {
        memset(keep, 0, DV_CODE_ZEROS);
        for (int n = 0; has_patterns(&dv_isas[i]) && n < 30 * 21 / SHARE; n++) {
            static dv_gemm_shape first;
            if (n % 21 == 0)
                first = random_gemm(60, n % 2 ? DV_F32 : DV_F64);
            dv_gemm_shape s = first;
            s.batch = s.batch ? s.batch : 1;
            vary(&s, &dv_isas[i], n % 21 - 1); // the first is unchanged
            try_kernel(&dv_isas[i], &s);
        }
    }
}

// Makes two products whose steps differ in one thing; returns 0 if there are
// none of this kind.
static int tell_apart(dv_gemm_shape *a, dv_gemm_shape *b, int how)
{
    *b = *a;
    switch (how) {
    case 0: // rows of k, or rows of m
        b->trans_a ^= 1;
        return 1;
    case 1: // several accumulators per element, or one
        b->one_sum = 1;
        return 1;
    case 2: // the same distance in bytes between rows
        a->n = b->n = a->n / 8 + 1;
        b->dtype = DV_F64;
        b->lda /= 2;
        b->ldb /= 2;
        b->ldc /= 2;
        return a->n < 3;
    case 3:
        b->dtype = DV_I32;
        return 1;
    case 4: // the pointer advances with each step
        b->ldb += 1;
        return 1;
    case 5:
        b->lda += 1;
        return 1;
    case 6: // in place, or in panels
        b->panel_a = 4;
        return a->m >= 4;
    case 7: // a loop that continues into the next product
        b->batch = 2;
        return 1;
    case 8:
        b->n += 8;
        return 1;
    default: // pairs, with the same number of steps
        a->m = 8;
        a->n = 12;
        a->trans_a = 0;
        a->panel_a = 8;
        *b = *a;
        a->k *= 4;
        a->dtype = DV_BF16;
        b->k *= 8;
        b->dtype = DV_I8;
        return 1;
    }
}

TEST(apart)
{
    static const int ms[] = {1, 3, 4, 8}, ns[] = {4, 16, 20, 24},
                     ks[] = {2, 4, 8, 16, 20, 33, 40};
    for (int i = 0; i < dv_n_isas; i++)
        for (int n = 0; has_patterns(&dv_isas[i]) && n < 4 * 4 * 7 * 2 * 10;
             n++) {
            const dv_isa *isa = &dv_isas[i];
            dv_gemm_shape b, a = {.m = ms[n % 4],
                                  .n = ns[n / 4 % 4],
                                  .k = ks[n / 16 % 7],
                                  .batch = 1,
                                  .lda = 64,
                                  .ldb = 80,
                                  .ldc = 80,
                                  .stride_a = 4096,
                                  .stride_b = 4096,
                                  .dtype = DV_F32,
                                  .trans_a = (uint8_t)(n / 112 % 2)};
            if (!tell_apart(&a, &b, n / 224) || !dv_isa_has(isa, a.dtype) ||
                !dv_isa_has(isa, b.dtype))
                continue;
            memset(keep, 0, DV_CODE_ZEROS);
            try_kernel(isa, &a);
            try_kernel(isa, &b);
            try_kernel(isa, &a);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(in_turn),
                                       cmocka_unit_test(apart)};
    return run_group(tests, NULL, NULL);
}
