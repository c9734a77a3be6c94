// Tiles that x86-64's kernels take from kernels before are what they are by
// themselves; and they are taken.
#define _GNU_SOURCE
#include "jit/x64/kept.h"
#include "unit/jit_problem.h"

enum { MOST_CODE = 1 << 18 };
static unsigned char alone[MOST_CODE], behind[MOST_CODE];
static uint64_t keep[DV_CODE_KEEP / 8];

static int is_x86(const dv_isa *isa)
{
    return isa->gemm == dv_x64_gemm;
}

// Others make the same of wide types.
static int is_plain(const dv_isa *isa)
{
    return is_x86(isa) && !dv_isa_has(isa, DV_I8);
}

static void forget(void)
{
    memset(keep, 0, DV_CODE_ZEROS);
}

// Code with what is kept is code without. Returns how many tiles were written.
static int try_kernel(const dv_isa *isa, const dv_gemm_shape *s)
{
    const dv_x_kept *k = (const void *)keep;
    uint64_t before = k->written;
    dv_code a = {.at = alone, .cap = MOST_CODE};
    dv_code b = {.at = behind, .cap = MOST_CODE, .keep = keep};
    isa->gemm(&a, isa, s);
    isa->gemm(&b, isa, s);
    assert_int_equal(a.failed, b.failed);
    if (a.failed)
        return -1;
    assert_int_equal(a.n, b.n);
    assert_memory_equal(alone, behind, a.n);
    return (int)(k->written - before);
}

// -- Shapes ------------------------------------------------------------------

// C rounded to bf16, which goes with little else.
static void round_c(dv_gemm_shape *s)
{
    s->alpha = DV_SCALE_ONE;
    s->beta = s->bias = s->relu = 0;
    s->ctype = DV_BF16;
}

static int64_t far_or_near(int64_t least)
{
    static const int64_t far[] = {0, 0, 1, 4, 16, 60, 500, 3000, 1 << 26};
    return least + far[pick(9)];
}

static void in_panels(dv_gemm_shape *s, const dv_isa *isa)
{
    s->batch = 1;
    s->panel_a = (uint8_t)(1 + pick(isa->most_read));
    s->next_b = (uint8_t)pick(2);
    if (pick(2)) { // as many columns as a tile has
        s->n = 1 + s->n % panel_cols(isa, s->dtype);
        s->panel_a = (uint8_t)(1 + pick(isa->panel_rows));
        s->pack_a = (uint8_t)pick(2);
        s->pack_b = (uint8_t)pick(2);
    }
}

// Any product, wide or narrow.
static dv_gemm_shape any_shape(const dv_isa *isa)
{
    static const uint8_t types[] = {DV_F32, DV_F32, DV_F64, DV_I32};
    int most = pick(3) ? 24 : 90, pairs = isa->dtypes >> DV_I8 & 1;
    dv_gemm_shape s = {.m = 1 + pick(most), .n = 1 + pick(most)};
    s.k = 1 + pick(most);
    s.batch = pick(3) ? 1 : 2 + pick(2);
    s.dtype = types[pick(4)];
    s.trans_a = (uint8_t)pick(2);
    s.trans_b = pick(3) == 0;
    s.relu = (uint8_t)pick(2);
    s.bias = (uint8_t)(pick(2) ? pick(3) : 0);
    s.beta = (uint8_t)pick(3);
    s.alpha = (uint8_t)(1 + pick(2));
    s.one_sum = (uint8_t)pick(2);
    s.stream = pick(3) == 0;
    if (pairs && pick(5) == 0) {
        s.dtype = isa->dtypes >> DV_BF16 & 1 && pick(2) ? DV_BF16 : DV_I8;
        s.batch = 1;
        s.n = pick(2) ? 16 : 1 + pick(isa->pairs_cols);
        s.next_b = (uint8_t)pick(2);
        s.trans_a = s.trans_b = s.stream = 0;
        s.panel_a = (uint8_t)isa->pairs_rows;
    } else if (!s.trans_b && pick(3) == 0) {
        in_panels(&s, isa);
    }
    s.lda = far_or_near(s.trans_a ? s.m : s.k);
    s.ldb = far_or_near(s.trans_b ? s.k : s.n);
    s.ldc = far_or_near(s.n);
    dv_gemm_shape rounded = s;
    round_c(&rounded);
    if (dv_isa_rounds(isa, &rounded) && pick(2))
        s = rounded;
    s.stride_a = (s.trans_a ? s.k : s.m) * s.lda + pick(2) * 4;
    s.stride_b = (s.trans_b ? s.n : s.k) * s.ldb + pick(2) * 4;
    return s;
}

// Types of other sizes, with strides of as many bytes or as many steps of k.
static int change_type(dv_gemm_shape *s, const dv_isa *isa)
{
    if (s->dtype == DV_I8 && isa->dtypes >> DV_BF16 & 1 && s->k % 2 == 0) {
        s->dtype = DV_BF16;
        s->k /= 2;
        return 1;
    }
    if (s->dtype != DV_F32 || (s->lda | s->ldb | s->ldc) % 2 ||
        (s->stride_a | s->stride_b) % 2)
        return 0;
    s->dtype = DV_F64;
    s->lda /= 2;
    s->ldb /= 2;
    s->ldc /= 2;
    s->stride_a /= 2;
    s->stride_b /= 2;
    return s->lda >= (s->trans_a ? s->m : s->k) && s->ldc >= s->n &&
           s->ldb >= (s->trans_b ? s->k : s->n);
}

// How operands are stored. 0: there is no such product.
static int change_layout(dv_gemm_shape *s, const dv_isa *isa, int how)
{
    int narrow = s->dtype == DV_BF16 || s->dtype == DV_I8;
    int64_t most_a = s->m > s->k ? s->m : s->k;
    int64_t most_b = s->n > s->k ? s->n : s->k;
    switch (how) {
    case 0:
        s->trans_a ^= 1;
        return !narrow && s->lda >= most_a;
    case 1:
        s->trans_b ^= 1;
        return !s->panel_a && s->ldb >= most_b;
    case 2: // one panel, or as stored
        s->panel_a = (uint8_t)(s->panel_a ? 0 : s->m % 7 + 1);
        s->pack_a = s->pack_b = s->next_b = 0;
        return !narrow && !s->trans_b && s->batch == 1;
    case 3:
        return change_type(s, isa);
    case 4: // pointers take steps that are this far
        s->ldb += 1 << 26;
        return 1;
    case 5:
        s->lda += 1 << 26;
        return 1;
    case 6: // what is read next
        s->next_b ^= 1;
        s->m += narrow ? 64 : 0;
        return s->panel_a;
    default: // C rounded, or not
        round_c(s);
        return dv_isa_rounds(isa, s);
    }
}

// The same with one thing changed. 0: there is no such product.
enum { N_CHANGES = 32, N_SMALL = 24 };
static int change(dv_gemm_shape *s, const dv_isa *isa, int how)
{
    if (how >= N_SMALL)
        return change_layout(s, isa, how - N_SMALL) && s->lda <= 1 << 27 &&
               s->ldb <= 1 << 27;
    int narrow = s->dtype == DV_BF16 || s->dtype == DV_I8;
    int whole = s->dtype == DV_I32 || s->dtype == DV_I8;
    int panels = s->panel_a && !narrow, packs = s->pack_a || s->pack_b;
    int may_pack = panels && s->panel_a <= isa->panel_rows &&
                   s->n <= panel_cols(isa, s->dtype);
    s->lda += how == 0 ? 1 : how == 1 ? 16 : how == 2 ? 4000 : 0;
    s->ldb += how == 3 ? 1 : how == 4 ? 16 : how == 5 ? 4000 : 0;
    s->ldc += how == 6 ? 1 : how == 7 ? 16 : how == 8 ? 4000 : 0;
    s->stride_a += how == 9 ? 4 : 0;
    s->stride_b += how == 10 ? 4 : 0;
    s->m += how == 11;
    s->n += how == 12 && !packs && (!narrow || s->n < isa->pairs_cols);
    s->k += how == 13 ? (narrow ? 64 : 1) : 0;
    s->batch += how == 14 && !narrow && !panels;
    s->beta = how == 15 ? !s->beta : s->beta;
    s->alpha = how == 16 && !whole ? (uint8_t)(3 - s->alpha) : s->alpha;
    s->bias = (uint8_t)(how == 17 ? (s->bias + 1) % 3 : s->bias);
    s->relu ^= how == 18;
    s->one_sum ^= how == 19;
    s->stream ^= how == 20 && !narrow;
    s->pack_a ^= how == 21 && may_pack;
    s->pack_b ^= how == 22 && may_pack;
    s->dtype = how == 23 && s->dtype == DV_F32 ? DV_I32 : s->dtype;
    if (how == 23 && s->dtype == DV_I32) {
        s->alpha = 1;
        s->beta = s->beta != 0;
    }
    return s->lda <= 1 << 27 && s->ldb <= 1 << 27 && s->ldc <= 1 << 27 &&
           (!s->ctype || dv_isa_rounds(isa, s)) && s->ldc >= s->n;
}

// Each pair of products that one thing tells apart, one behind the other.
static void one_thing_apart(void **state)
{
    (void)state;
    for (int i = 0; i < dv_n_isas; i++)
        for (int n = 0; is_x86(&dv_isas[i]) && n < 300 * N_CHANGES / SHARE;
             n++) {
            dv_gemm_shape a = any_shape(&dv_isas[i]), b = a;
            if (!change(&b, &dv_isas[i], n % N_CHANGES))
                continue;
            if (b.ctype && !a.ctype) // the same but for that
                a = b, a.ctype = 0;
            a.m = n % N_CHANGES == N_SMALL + 6 ? b.m : a.m;
            forget();
            try_kernel(&dv_isas[i], &a);
            try_kernel(&dv_isas[i], &b);
            try_kernel(&dv_isas[i], &a);
        }
}

// Many products, of which nothing is forgotten.
static void one_after_the_other(void **state)
{
    (void)state;
    for (int i = 0; i < dv_n_isas; i++) {
        dv_gemm_shape s = {0};
        forget();
        for (int n = 0; is_x86(&dv_isas[i]) && n < 2000 / SHARE; n++) {
            if (n % 8 == 0 || !change(&s, &dv_isas[i], pick(N_CHANGES)))
                s = any_shape(&dv_isas[i]);
            try_kernel(&dv_isas[i], &s);
        }
    }
}

// -- What is taken -----------------------------------------------------------

static dv_gemm_shape plain(int m, int n, int k, int64_t ld)
{
    dv_gemm_shape s = {.m = m, .n = n, .k = k, .batch = 1, .dtype = DV_F32};
    s.lda = s.ldb = s.ldc = ld;
    s.stride_a = s.stride_b = 100 * ld;
    s.alpha = DV_SCALE_ONE;
    return s;
}

// Strides alone make no tile another one, unless numbers take other sizes.
static void strides_are_set(void **state)
{
    (void)state;
    for (int i = 0; i < dv_n_isas; i++)
        for (int n = 0; is_plain(&dv_isas[i]) && n < 2 * 2 * 3; n++) {
            dv_gemm_shape s = plain(23, 21, 24, 3000);
            s.trans_a = n & 1;
            s.trans_b = n >> 1 & 1;
            s.batch = 1 + n / 4;
            forget();
            assert_true(try_kernel(&dv_isas[i], &s) > 0);
            s.lda += 100;
            assert_int_equal(try_kernel(&dv_isas[i], &s), 0);
            s.ldb += 1;
            s.stride_b += 8;
            assert_int_equal(try_kernel(&dv_isas[i], &s), 0);
            s.ldc += 77;
            assert_int_equal(try_kernel(&dv_isas[i], &s), 0);
            s.lda = s.ldb = s.ldc = 24; // short offsets
            assert_true(try_kernel(&dv_isas[i], &s) > 0);
        }
}

// Strides around those with which numbers take another size.
static void sizes_of_numbers(void **state)
{
    (void)state;
    static const int64_t far[] = {INT64_C(1) << 33, 1 << 28, 600, 0};
    for (int i = 0; i < dv_n_isas; i++)
        for (int n = 0; is_plain(&dv_isas[i]) && n < 4 * 4; n++) {
            dv_gemm_shape a = plain(12, 16, 12, 3000), b;
            a.trans_a = n & 1;
            a.trans_b = n >> 1 & 1;
            a.batch = 2;
            a.dtype = n / 4 % 2 ? DV_F64 : DV_F32;
            b = a;
            for (int64_t ld = 16; ld < 600; ld += ld < 260 ? 1 : 61) {
                forget();
                try_kernel(&dv_isas[i], &a);
                *(n / 8 ? &b.lda : &b.ldb) = ld;
                b.ldc = ld;
                try_kernel(&dv_isas[i], &b);
            }
            for (int k = 0; k < 4; k++) {
                b = a;
                b.stride_a = far[k];
                b.stride_b = far[(k + n) % 4];
                try_kernel(&dv_isas[i], &b);
                try_kernel(&dv_isas[i], &a);
            }
        }
}

// Some products in turn find all their tiles again. Of many, each finds what
// is left of it.
static void in_turn(void **state)
{
    (void)state;
    enum { MANY = 120 };
    static dv_gemm_shape s[MANY];
    for (int i = 0; i < dv_n_isas; i++) {
        const dv_isa *isa = &dv_isas[i];
        forget();
        for (int n = 0; is_plain(isa) && n < 2 * 12; n++) {
            dv_gemm_shape one = plain(23, 30, 20 + n % 12, 3000 + n);
            int written = try_kernel(isa, &one);
            assert_true(n < 12 ? written > 0 : written == 0);
        }
        for (int n = 0; n < MANY; n++) // half of them with long tiles
            s[n] = n % 2 ? any_shape(isa)
                         : plain(24 + pick(30), 40 + pick(30), 100 + pick(9),
                                 3000);
        for (int n = 0; is_x86(isa) && n < 20 * MANY / SHARE; n++)
            try_kernel(isa, &s[n % 3 ? pick(MANY) : pick(20)]);
    }
}

// Words of narrow elements are multiplied in tiles as wide ones are.
static void narrow_is_not_wide(void **state)
{
    (void)state;
    for (int i = 0; i < dv_n_isas; i++)
        for (int whole = 0; whole < 2; whole++) {
            const dv_isa *isa = &dv_isas[i];
            dv_gemm_shape wide = plain(8, 32, 8, 32), narrow = wide;
            wide.panel_a = narrow.panel_a = 8;
            wide.one_sum = 1;
            wide.dtype = whole ? DV_I32 : DV_F32;
            narrow.dtype = whole ? DV_I8 : DV_BF16;
            narrow.k *= whole ? 4 : 2;
            if (!is_x86(isa) || !dv_isa_has(isa, narrow.dtype) ||
                isa->has_tiles)
                continue;
            forget();
            assert_true(try_kernel(isa, &wide) > 0);
            assert_true(try_kernel(isa, &narrow) > 0);
            assert_int_equal(try_kernel(isa, &narrow), 0);
        }
}

// What is too much is not kept, and what has no room fails as ever.
static void limits(void **state)
{
    (void)state;
    for (int i = 0; i < dv_n_isas; i++)
        for (size_t cap = 0; is_plain(&dv_isas[i]) && cap < 4096; cap += 61) {
            dv_gemm_shape s = plain(31, 29, 33, 3000);
            forget();
            try_kernel(&dv_isas[i], &s);
            dv_code a = {.at = alone, .cap = cap};
            dv_code b = {.at = behind, .cap = cap, .keep = keep};
            dv_isas[i].gemm(&a, &dv_isas[i], &s);
            dv_isas[i].gemm(&b, &dv_isas[i], &s);
            assert_true(a.failed == b.failed || !b.failed);
            if (!a.failed)
                assert_memory_equal(alone, behind, a.n);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_thing_apart),
                                       cmocka_unit_test(one_after_the_other),
                                       cmocka_unit_test(strides_are_set),
                                       cmocka_unit_test(sizes_of_numbers),
                                       cmocka_unit_test(in_turn),
                                       cmocka_unit_test(narrow_is_not_wide),
                                       cmocka_unit_test(limits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
