// What generators keep from kernel to kernel changes none of them.
#define _GNU_SOURCE
#include "unit/jit_problem.h"

enum { MOST_CODE = 1 << 18 };

// Almost the same product.
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
    s->beta = how == 10 ? (uint8_t)pick(3) : s->beta;
    s->alpha = how == 11 ? (uint8_t)(1 + pick(2)) : s->alpha;
    s->relu ^= how == 12;
    s->bias = how == 13 ? (uint8_t)pick(3) : s->bias;
    s->ahead_a = how == 14 && s->trans_a && !s->trans_b;
    s->batch += how == 15;
    if (how > 15 && panels) { // in panels, and packed on the way
        s->batch = 1;
        s->panel_a = 4;
        s->pack_a = how == 17 || how == 19;
        s->pack_b = how == 18 || how == 19;
        s->next_b = how == 18 ? DV_NEXT_SPREAD : 0;
        s->n = 1 + s->n % panel_cols(isa, s->dtype);
    }
}

// One kernel after another, each with one thing changed.
static void kept_patterns(void **state)
{
    (void)state;
    static unsigned char alone[MOST_CODE], after[MOST_CODE];
    for (int i = 0; i < dv_n_isas; i++) {
        const dv_isa *isa = &dv_isas[i];
        void *keep = calloc(1, DV_CODE_KEEP);
        for (int n = 0; n < 30 * 21 / SHARE; n++) {
            static dv_gemm_shape first;
            if (n % 21 == 0)
                first = random_shape(60, n % 2 ? DV_F32 : DV_F64);
            dv_gemm_shape s = first;
            dv_code a = {.at = alone, .cap = sizeof alone};
            dv_code b = {.at = after, .cap = sizeof after, .keep = keep};
            s.batch = s.batch ? s.batch : 1;
            vary(&s, isa, n % 21 - 1); // the first of them stays as it is
            isa->gemm(&a, isa, &s);
            isa->gemm(&b, isa, &s);
            assert_false(a.failed);
            assert_false(b.failed);
            assert_int_equal(a.n, b.n);
            assert_memory_equal(alone, after, a.n);
        }
        free(keep);
    }
}

// Is kernel b behind kernel a what it is by itself?
static void try_behind(const dv_isa *isa, const dv_gemm_shape *a,
                       const dv_gemm_shape *b)
{
    static unsigned char alone[MOST_CODE], behind[MOST_CODE];
    static uint64_t keep[DV_CODE_KEEP / 8];
    memset(keep, 0, DV_CODE_ZEROS);
    dv_code x = {.at = alone, .cap = MOST_CODE};
    dv_code y = {.at = behind, .cap = MOST_CODE, .keep = keep};
    isa->gemm(&y, isa, a);
    y.n = 0;
    isa->gemm(&y, isa, b);
    isa->gemm(&x, isa, b);
    assert_false(x.failed || y.failed);
    assert_int_equal(x.n, y.n);
    assert_memory_equal(alone, behind, x.n);
}

// One short product reads from its pointers as they are, those of a batch from
// pointers that go on: their sums are not the same code.
static void kept_short_products(void **state)
{
    (void)state;
    for (int i = 0; i < dv_n_isas; i++)
        for (int n = 0; n < 4 * 20 * 16; n++) {
            dv_gemm_shape one = {.m = 4 + n % 4 * 2,
                                 .n = 8 + n / 80 * 4,
                                 .k = 1 + n / 4 % 20,
                                 .batch = 1,
                                 .lda = 64,
                                 .ldb = 80,
                                 .ldc = 80,
                                 .stride_a = 4096,
                                 .stride_b = 4096,
                                 .dtype = n % 3 ? DV_F32 : DV_F64};
            one.trans_a = n % 5 != 0;
            one.beta = DV_SCALE_ONE;
            dv_gemm_shape two = one;
            two.batch = 2 + n % 2;
            try_behind(&dv_isas[i], &one, &two);
            try_behind(&dv_isas[i], &two, &one);
        }
}

// The same by their results.
static void short_products_in_turn(void **state)
{
    (void)state;
    dv_jit *jit = new_jit();
    for (int k = 1; k < 5; k++)
        for (int n = 12; n < 32; n += 4)
            for (int batch = 1; batch < 4; batch++) {
                dv_gemm_shape s = {.m = 4, .n = n, .k = k, .batch = batch};
                s.dtype = DV_F32;
                s.trans_a = 1;
                s.lda = 8;
                s.ldb = s.ldc = n;
                s.stride_a = 8 * k;
                s.stride_b = n * k + 4; // they do not make up one product
                s.alpha = s.beta = DV_SCALE_ONE;
                try_gemm(jit, s, 0);
            }
    dv_jit_destroy(jit);
}

// Two products that one thing alone tells apart, as far as tiles see them. 0:
// there are none of the kind.
static int tell_apart(dv_gemm_shape *a, dv_gemm_shape *b, int how)
{
    a->batch = how < 2 ? 3 : 1;
    *b = *a;
    switch (how) {
    case 0:
        b->stride_a += 16;
        return 1;
    case 1:
        b->stride_b += 16;
        return 1;
    case 2: // rows of k, rows of m
        b->trans_a ^= 1;
        return 1;
    case 3: // several sums of an element, one
        b->one_sum = 1;
        return 1;
    case 4: // as many bytes from row to row
        a->n = b->n = a->n / 8 + 1;
        b->dtype = DV_F64;
        b->lda /= 2;
        b->ldb /= 2;
        b->ldc /= 2;
        return a->n < 3;
    case 5:
        b->dtype = DV_I32;
        return 1;
    case 6: // which columns are packed next
        a->n = b->n = 1 + a->n % 12;
        a->panel_a = b->panel_a = 4;
        a->pack_b = b->pack_b = 1;
        a->next_b = b->next_b = DV_NEXT_SPREAD;
        b->ldb += 4;
        return 1;
    default: // pairs, as many steps
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

static void kept_apart(void **state)
{
    (void)state;
    static const int ms[] = {1, 2, 4, 8}, ns[] = {4, 8, 20, 24},
                     ks[] = {2, 4, 8, 16, 20, 33, 40};
    for (int i = 0; i < dv_n_isas; i++)
        for (int n = 0; n < 4 * 4 * 7 * 4 * 8; n++) {
            const dv_isa *isa = &dv_isas[i];
            dv_gemm_shape b, a = {.m = ms[n % 4],
                                  .n = ns[n / 4 % 4],
                                  .k = ks[n / 16 % 7],
                                  .lda = 64,
                                  .ldb = 80,
                                  .ldc = 80,
                                  .stride_a = 4096,
                                  .stride_b = 4096,
                                  .dtype = DV_F32,
                                  .trans_a = (uint8_t)(n / 112 % 2),
                                  .alpha = DV_SCALE_ONE,
                                  .beta = (uint8_t)(n / 224 % 2)};
            if (!tell_apart(&a, &b, n / 448) || !dv_isa_has(isa, a.dtype) ||
                !dv_isa_has(isa, b.dtype) ||
                (b.dtype == DV_I8 && isa->vector_bytes != 16))
                continue;
            try_behind(isa, &a, &b);
            try_behind(isa, &b, &a);
        }
}

// -- Strides -----------------------------------------------------------------

// That are parts of loads, are added as numbers of any kind, or come from a
// register.
static const int strides[] = {64,   68,   72,   73,    80,    96,   128,
                              132,  200,  256,  508,   512,   516,  1020,
                              1024, 1025, 1300, 1532,  2048,  4096, 5120,
                              5121, 7000, 9999, 10240, 10241, 65536};
enum { N_STRIDES = sizeof strides / sizeof *strides };

static dv_gemm_shape random_strides(const dv_isa *isa)
{
    dv_gemm_shape a = {.m = 1 + pick(30),
                       .n = 1 + pick(60),
                       .k = 1 + pick(pick(3) ? 40 : 140),
                       .batch = pick(4) ? 1 : 2 + pick(2),
                       .lda = 160,
                       .ldb = strides[pick(N_STRIDES)],
                       .ldc = strides[pick(N_STRIDES)],
                       .stride_a = 8192,
                       .stride_b = 8192,
                       .dtype = pick(2) ? DV_F32 : DV_F64,
                       .trans_a = (uint8_t)pick(2),
                       .alpha = DV_SCALE_ONE,
                       .beta = pick(4) ? DV_SCALE_ZERO : DV_SCALE_ONE};
    a.trans_b = a.trans_a && pick(4) == 0; // V is A then
    a.ldb += a.trans_b ? 140 : 0;
    a.ahead_a = a.trans_a && !a.trans_b && pick(4) == 0;
    if (pick(4) == 0 && a.m >= 4 && a.batch == 1 && !a.trans_b) {
        a.panel_a = 4;
        a.pack_a = (uint8_t)pick(2);
        a.pack_b = (uint8_t)pick(2);
        a.next_b = a.pack_b && pick(2) ? DV_NEXT_SPREAD : 0;
        a.n = 1 + a.n % panel_cols(isa, a.dtype);
        a.ahead_a = 0;
    }
    return a;
}

// Kernels one after the other that differ in one stride, or in two: each is
// what it is by itself.
static void kept_strides(void **state)
{
    (void)state;
    static unsigned char alone[MOST_CODE], behind[MOST_CODE];
    static uint64_t keep[DV_CODE_KEEP / 8];
    for (int i = 0; i < dv_n_isas; i++)
        for (int n = 0; n < 1500 / SHARE; n++) {
            dv_gemm_shape s = random_strides(&dv_isas[i]);
            memset(keep, 0, DV_CODE_ZEROS);
            for (int t = 0; t < 5; t++) {
                dv_code x = {.at = alone, .cap = MOST_CODE};
                dv_code y = {.at = behind, .cap = MOST_CODE, .keep = keep};
                dv_isas[i].gemm(&x, &dv_isas[i], &s);
                dv_isas[i].gemm(&y, &dv_isas[i], &s);
                assert_false(x.failed || y.failed);
                assert_int_equal(x.n, y.n);
                assert_memory_equal(alone, behind, x.n);
                int more = s.trans_b ? 140 : 0, which = pick(4);
                if (which == 0)
                    s.lda = 140 + strides[pick(N_STRIDES)];
                if (which & 1)
                    s.ldb = more + strides[pick(N_STRIDES)];
                if (which & 2)
                    s.ldc = strides[pick(N_STRIDES)];
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_patterns), cmocka_unit_test(kept_short_products),
        cmocka_unit_test(kept_apart), cmocka_unit_test(kept_strides),
        cmocka_unit_test(short_products_in_turn)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
