// Kernels that prefetch the rows which the next one reads: every shape, with
// operands between pages that may not be touched; and contractions made of
// them.
#define _GNU_SOURCE
#include "nest/cost.h"
#include "contract/state.h"
#include "harness/nest_eval.h"
#include "harness/contract_case.h"
#include "harness/gemm_case.h"
#include "harness/random_nest.h"

static const dv_isa *isa_of(dv_jit *jit)
{
    const dv_isa *isa = dv_jit_isa(jit);
    if (!isa->copy_tile_rows) {
        dv_jit_destroy(jit);
        skip_test("this instruction set has no such kernels");
    }
    return isa;
}

// -- Kernels -----------------------------------------------------------------

static dv_gemm_shape shape_of(int m, int k)
{
    dv_gemm_shape s = {.m = m, .n = 24, .k = k, .dtype = DV_F32};
    s.dtype = pick(5) ? DV_F32 : DV_I32;
    s.trans_a = s.one_sum = 1;
    s.ahead_a = DV_AHEAD_COPY;
    s.lda = m + (pick(2) ? pick(70) : 1000 + pick(100));
    s.ldb = 24 + pick(2) * pick(9);
    s.ldc = 24 + pick(3) * pick(9);
    s.step_c = pick(3) ? 4 * s.ldc + pick(3000) : 0;
    s.beta = (uint8_t)pick(2);
    s.stream = (uint8_t)(pick(4) == 0);
    s.relu = (uint8_t)(pick(3) == 0);
    return s;
}

// Copies C of a kernel with tiles `step` apart to adjacent rows.
static void by_rows(const dv_gemm_shape *s, const float *c, int64_t step,
                    float *out)
{
    for (int i = 0; i < s->m; i++)
        memcpy(out + i * 24, c + i / 4 * step + i % 4 * s->ldc,
               24 * sizeof *out);
}

// Everything outside the rows of C is unchanged.
static void only_rows(const dv_gemm_shape *s, const unsigned char *c,
                      const unsigned char *before, int64_t step, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t in = i % step, row = in / s->ldc;
        if ((i / step == s->m / 4 || row > 3 || in % s->ldc >= 24) &&
            memcmp(c + 4 * i, before + 4 * i, 4))
            fail_msg("element %d outside was written", (int)i);
    }
}

// The result has the same bits as that of a kernel without prefetching, and the
// next rows are copied without gaps.
static void brings(dv_jit *jit, dv_gemm_shape s)
{
    int64_t step = s.step_c ? s.step_c : 4 * s.ldc, tight = (int64_t)s.m * s.k;
    int64_t n_c = (s.m / 4 - 1) * step + gemm_span(4, 24, s.ldc);
    int64_t n_next = gemm_span(s.k, s.m, s.lda);
    fenced a = fence((size_t)tight * 4, pick(2)),
           to = fence((size_t)tight * 4, pick(2)),
           b = fence((size_t)gemm_span(s.k, 24, s.ldb) * 4, pick(2)),
           c = fence((size_t)n_c * 4, pick(2)),
           next = fence((size_t)n_next * 4, pick(2));
    size_t row = (size_t)s.m * 4, out = 24 * row;
    float *got = malloc(out), *want = malloc(out);
    gemm_fill(s.dtype, a.data, tight, 0);
    gemm_fill(s.dtype, b.data, gemm_span(s.k, 24, s.ldb), 0);
    gemm_fill(s.dtype, c.data, n_c, 0);
    gemm_fill(s.dtype, next.data, n_next, 0);
    by_rows(&s, (float *)c.data, step, want);
    unsigned char *before = malloc((size_t)n_c * 4);
    memcpy(before, c.data, (size_t)n_c * 4);
    dv_gemm_shape plain = s;
    dv_gemm_fn run, other;
    plain.ahead_a = DV_AHEAD_NONE;
    plain.lda = s.m;
    plain.ldc = 24;
    plain.step_c = 0;
    dv_gemm_args args = {.next = next.data, .pack_a = to.data};
    assert_int_equal(dv_jit_gemm(jit, &plain, &other, NULL), DV_OK);
    assert_int_equal(dv_jit_gemm(jit, &s, &run, NULL), DV_OK);
    other(a.data, b.data, want, &args);
    run(a.data, b.data, c.data, &args);
    by_rows(&s, (float *)c.data, step, got);
    assert_memory_equal(got, want, out);
    only_rows(&s, c.data, before, step, n_c);
    for (int p = 0; p < s.k; p++)
        assert_memory_equal(to.data + (size_t)p * row,
                            next.data + p * s.lda * 4, row);
    free(got);
    free(want);
    free(before);
    unfence(&a);
    unfence(&to);
    unfence(&b);
    unfence(&c);
    unfence(&next);
}

TEST(kernels)
{
    dv_jit *jit = new_jit();
    const dv_isa *isa = isa_of(jit);
    int n = 0;
    for (int m = 4; m <= 132; m += 4)
        for (int k = 1; k <= 200; k++) {
            dv_gemm_shape s = shape_of(m, k);
            if (!dv_isa_copies_next(isa, &s))
                continue;
            n++;
            if (pick(SHARE) == 0)
                brings(jit, s);
        }
    assert_true(n > 60);
    dv_jit_destroy(jit);
}

// Patterns of steps that kernels leave for later ones change none of them,
// whether they prefetch rows or not.
TEST(patterns)
{
    enum { MOST_CODE = 1 << 18 };
    static unsigned char alone[MOST_CODE], behind[MOST_CODE];
    static uint64_t keep[DV_CODE_KEEP / 8];
    static const int sizes[][2] = {{48, 48}, {48, 36}, {36, 36}, {64, 64}};
    dv_jit *jit = new_jit();
    const dv_isa *isa = isa_of(jit);
    for (int n = 0; n < 1000 / SHARE; n++) {
        const int *mk = sizes[n / 10 % 4];
        dv_gemm_shape s = shape_of(mk[0], mk[1]);
        dv_code x = {.at = alone, .cap = MOST_CODE};
        dv_code y = {.at = behind, .cap = MOST_CODE, .keep = keep};
        s.batch = 1;
        assert_true(dv_isa_copies_next(isa, &s));
        if (pick(4) == 0) {
            s.ahead_a = DV_AHEAD_NONE;
            s.step_c = 0;
        }
        dv_backend_of(isa)->gemm(&x, isa, &s);
        dv_backend_of(isa)->gemm(&y, isa, &s);
        assert_false(x.failed || y.failed);
        assert_int_equal(x.n, y.n);
        assert_memory_equal(alone, behind, x.n);
    }
    dv_jit_destroy(jit);
}

// Shapes that no kernel supports are refused.
TEST(refused)
{
    dv_jit *jit = new_jit();
    isa_of(jit);
    dv_gemm_fn run;
    for (int i = 0; i < 15; i++) {
        dv_gemm_shape s = {.m = 48, .n = 24, .k = 48, .dtype = DV_F32};
        s.trans_a = 1;
        s.lda = 5000;
        s.ahead_a = DV_AHEAD_COPY;
        assert_int_equal(dv_jit_gemm(jit, &s, &run, NULL), DV_OK);
        s.m = i == 0 ? 46 : i == 1 ? 16 : i == 2 ? 500 : i == 4 ? 24 : 48;
        s.k = i == 3 ? 47 : i == 4 ? 24 : i == 5 ? 240 : 48;
        s.n = i == 6 ? 25 : i == 7 ? 20 : i == 8 ? 23 : 24;
        s.batch = i == 9 ? 2 : 1;
        s.trans_a = i != 10;
        s.dtype = i == 11 ? DV_F64 : DV_F32;
        s.step_c = i == 12 ? 95 : 0;
        s.next_b = i == 13;
        s.bias = i == 14;
        assert_int_equal(dv_jit_gemm(jit, &s, &run, NULL), DV_E_SHAPE);
    }
    dv_gemm_shape s = {.m = 48, .n = 24, .k = 48, .dtype = DV_F32};
    s.step_c = 200; // without prefetching
    assert_int_equal(dv_jit_gemm(jit, &s, &run, NULL), DV_E_SHAPE);
    s.trans_a = 1;
    s.ahead_a = DV_AHEAD_COPY;
    s.ldc = INT64_MAX / 2; // products of these do not wrap around
    assert_int_equal(dv_jit_gemm(jit, &s, &run, NULL), DV_E_SHAPE);
    s.ldc = 24;
    s.ldb = INT64_MAX / 2;
    assert_int_equal(dv_jit_gemm(jit, &s, &run, NULL), DV_E_SHAPE);
    s.ldb = s.step_c = 0;
    s.ahead_a = DV_AHEAD_COPY + 1;
    assert_int_equal(dv_jit_gemm(jit, &s, &run, NULL), DV_E_SHAPE);
    dv_jit_destroy(jit);
}

// -- Contractions ------------------------------------------------------------

// Runs the contraction and compares; called again with the same memory but
// other rows.
static void compare_run(dv_contraction *c, const operand *in,
                        const operand *want, const char *text)
{
    const dv_nest *n = dv_contraction_nest(c);
    operand got = made_up(n, DV_OUT);
    run_contraction(c, in[0].at, in[1].at, got.at);
    for (int64_t i = 0; i < (int64_t)want->bytes / 4; i++) // -0 equals 0
        if (dv_load(n->dtype, want->data, i) != dv_load(n->dtype, got.data, i))
            fail_msg("%s: element %d", text, (int)i);
    free(got.data);
}

static void agree_all(dv_jit *jit, const char *text, int as_is)
{
    dv_nest *n = nest_of(text);
    dv_contraction *c;
    dv_diag *diag = dv_diag_create();
    dv_contract_options options = {.size = sizeof(dv_contract_options),
                                   .optimise = (dv_nest_optimise_level)as_is};
    if (dv_contraction_create(&c, jit, n, &options, diag))
        fail_msg("%s", dv_diag_text(diag));
    assert_true(c->ahead_bytes > 0);
    operand in[] = {made_up(n, DV_IN0), made_up(n, DV_IN1)};
    for (uint64_t turn = 0; turn < 2; turn++) {
        operand want = made_up(n, DV_OUT);
        dv_nest_fill(n->dtype, 3 + turn, in[0].data, (int64_t)in[0].bytes / 4);
        assert_int_equal(eval_nest(n, in[0].at, in[1].at, want.at), DV_OK);
        compare_run(c, in, &want, text);
        free(want.data);
    }
    dv_contraction_destroy(c);
    dv_nest_destroy(n);
    dv_diag_destroy(diag);
    free(in[0].data);
    free(in[1].data);
}

#define KERNEL                                                                 \
    " m 48 prim: in0 1, out 11520 n 24 prim: in1 48, out 480"                  \
    " k 48 prim: in0 1440, in1 1 }"

TEST(contractions)
{
    static const char *const free_ones[] = {
        "nest zero f32 { first zero main gemm m 16 seq: in0 69120, out 1"
        " m 5 seq: in0 288, out 16 m 6 seq: in0 48, out 80"
        " m 48 seq: in0 1, out 11520 n 24 seq: in1 48, out 480"
        " k 48 seq: in0 1440, in1 1 }",
        "nest adds f32 { main gemm last relu m 17 seq: in0 69120, out 1"
        " m 5 seq: in0 288, out 17 m 6 seq: in0 48, out 85"
        " m 48 seq: in0 1, out 12240 n 24 seq: in1 48, out 510"
        " k 48 seq: in0 1440, in1 1 }",
        // One loop over rows and lines; half a row at a time.
        "nest half f32 { first zero main gemm m 12 seq: in0 110592, out 1"
        " m 12 seq: in0 96, out 12 m 96 seq: in0 1, out 3456"
        " n 24 seq: in1 96, out 144 k 96 seq: in0 1152, in1 1 }",
    };
    static const char *const laid_out[] = {
        // Loops with remainders, in another order.
        "nest odd f32 { first zero main gemm pack in1"
        " m 2 seq pack out: in0 192, out 320 m 2 seq: in0 864, out 48"
        " m 16 seq: in0 69120, out 1 m 3 of 5 seq: in0 288, out 16"
        " m 4 of 6 seq: in0 48, out 80" KERNEL,
        // Shared loops, and loops over columns around.
        "nest shared f32 { main gemm pack in1 m 6 shared: in0 48, out 80"
        " m 5 seq pack out: in0 288, out 16 m 16 seq: in0 69120, out 1" KERNEL,
        // Half of the rows, and k in two parts.
        "nest parts f32 { first zero main gemm last relu pack in1"
        " m 30 seq pack out: in0 96, out 16 k 2 seq: in0 138240, in1 48"
        " m 16 seq: in0 276480, out 1 m 2 seq: in0 48, out 23040"
        " m 48 of 96 prim: in0 1, out 480 n 24 prim: in1 96, out 46080"
        " k 48 of 96 prim: in0 2880, in1 1 }",
    };
    dv_jit *jit = new_jit();
    isa_of(jit);
    for (size_t i = 0; i < sizeof free_ones / sizeof *free_ones; i++)
        agree_all(jit, free_ones[i], 0);
    for (size_t i = 0; i < sizeof laid_out / sizeof *laid_out; i++)
        agree_all(jit, laid_out[i], 1);
    dv_jit_destroy(jit);
}

// Tiles of results further apart than kernels can step: no prefetching then.
TEST(far_tiles)
{
    dv_jit *jit = new_jit();
    isa_of(jit);
    dv_nest *n = nest_of(
        "nest far f32 { first zero main gemm pack in1 out"
        " m 3000000 seq: in0 48, out 1 m 48 prim: in0 1, out 3000000"
        " n 24 prim: in1 48, out 144000000 k 48 prim: in0 144000000, in1 1 }");
    dv_contract_options options = {.size = sizeof(dv_contract_options),
                                   .threads = 1,
                                   .optimise = DV_NEST_OPTIMISE_NONE};
    dv_contraction *c = NULL;
    dv_status s = dv_contraction_create(&c, jit, n, &options, NULL);
    if (s != DV_E_NOMEM) // the buffer is large and never touched
        assert_int_equal(s, DV_OK);
    dv_contraction_destroy(c);
    dv_nest_destroy(n);
    dv_jit_destroy(jit);
}

// Rows that the cost model counts as prefetched are prefetched, unless they are
// few.
static void is_priced(dv_jit *jit, const char *type, int m, int n, int k)
{
    enum { PACKED = 1 << DV_IN1 | 1 << DV_OUT, RUN = 96 };
    char text[512];
    snprintf(text, sizeof text,
             "nest x %s { first zero main gemm pack in1 m 16 seq pack out:"
             " in0 %d, out 1 m %d seq: in0 %d, out 16 m %d prim: in0 1, out %d"
             " n %d prim: in1 %d, out %d k %d prim: in0 %d, in1 1 }",
             type, RUN * m * k, RUN, m, m, RUN * 16, n, k, RUN * 16 * m, k,
             RUN * m);
    dv_nest *nest = nest_of(text);
    dv_nest_caches caches = dv_nest_caches_of(&(dv_nest_options){.threads = 1});
    dv_contraction *c = NULL;
    dv_nest_count count;
    dv_nest_tiles t;
    int bad;
    assert_true(dv_nest_tiles_of(nest, &t, &bad));
    assert_true(dv_nest_count_begin(&count, nest, &caches, &t));
    dv_nest_packset *w = dv_nest_packset_of(&count, PACKED);
    assert_non_null(w);
    dv_nest_packset_select(&count, w);
    dv_contract_options options = {.size = sizeof(dv_contract_options),
                                   .optimise = DV_NEST_OPTIMISE_NONE};
    assert_int_equal(dv_contraction_create(&c, jit, nest, &options, NULL),
                     DV_OK);
    if (dv_nest_copies_ahead(&count, &w->f) != (c->ahead_bytes > 0))
        fail_msg("%s", text);
    dv_contraction_destroy(c);
    dv_nest_destroy(nest);
}

TEST(prices)
{
    dv_jit *jit = new_jit();
    isa_of(jit);
    for (int m = 36; m <= 128; m += 4)
        for (int k = m / 4 * (128 / m); k <= 128; k += m / 4)
            is_priced(jit, "f32", m, 24, k);
    for (int n = 9; n < 28; n++) {
        is_priced(jit, "f32", 48, n, 48);
        is_priced(jit, "f64", 36, n, 36);
        is_priced(jit, "f32", 34 + n, 24, 60);
    }
    dv_jit_destroy(jit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels),   cmocka_unit_test(patterns),
        cmocka_unit_test(refused),   cmocka_unit_test(contractions),
        cmocka_unit_test(far_tiles), cmocka_unit_test(prices),
    };
    return run_group(tests, NULL, NULL);
}
