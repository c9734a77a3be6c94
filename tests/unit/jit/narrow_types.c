// Products of narrow types and of integers: plans for any shape and all
// options, with and without matrix instructions, compared with plain loops; and
// conversions between types.
#define _GNU_SOURCE
#include "harness/gemm_case.h"

// Returns the JIT for instruction set i, or NULL if the machine does not have
// it.
static dv_jit *jit_for(int i)
{
    setenv("DIVVY_CPU", dv_isas[i].name, 1);
    dv_jit *jit = new_jit();
    unsetenv("DIVVY_CPU");
    if (dv_jit_isa(jit) == &dv_isas[i])
        return jit;
    dv_jit_destroy(jit);
    return NULL;
}

static void random_plans(int dtype, int n, int odd)
{
    for (int c = 0; c < dv_n_isas; c++) {
        dv_jit *jit = dv_isa_has(&dv_isas[c], dtype) ? jit_for(c) : NULL;
        for (int i = 0; jit && i < n / SHARE; i++) {
            dv_gemm_shape s = random_gemm(i % 5 ? 30 : 100, dtype);
            if (gemm_type_sum(&s) == DV_F32 && pick(3) == 0) {
                s.ctype = (uint8_t)(pick(2) ? DV_F16 : DV_BF16);
                s.beta = DV_SCALE_ZERO;
            }
            dv_gemm_options o = {.given = pick(2) ? 0 : pick(4)};
            o.l1_bytes = pick(2) ? 0 : 300 + pick(2000);
            o.l2_bytes = pick(2) ? 0 : 1000 + pick(5000);
            o.n_chunk = pick(3) ? 0 : 1 + pick(60);
            try_plan(jit, s, &o, odd && i % 10 == 9);
        }
        dv_jit_destroy(jit);
    }
}

TEST(plans_bf16)
{
    random_plans(DV_BF16, 700, 1);
}

static void plans_f32(void **state) // also with a narrow C
{
    (void)state;
    random_plans(DV_F32, 300, 1);
}

TEST(plans_f64)
{
    random_plans(DV_F64, 300, 1);
}

TEST(plans_i8)
{
    random_plans(DV_I8, 700, 0);
}

TEST(plans_i32)
{
    random_plans(DV_I32, 400, 1);
}

// Every small size: all remainders of pairs, of fours and of steps.
TEST(plans_small)
{
    static const int types[] = {DV_BF16, DV_I8};
    dv_jit *jit = new_jit();
    for (int t = 0; t < 8; t++)
        for (int m = 1; m <= 9 && dv_isa_has(dv_jit_isa(jit), types[t / 4]);
             m++)
            for (int n = 1; n <= 14; n++) {
                dv_gemm_shape s = {.m = m, .n = n, .k = 1 + pick(18)};
                s.trans_a = t & 1;
                s.trans_b = (uint8_t)(t >> 1 & 1);
                s.lda = s.trans_a ? s.m : s.k;
                s.ldb = s.trans_b ? s.k : s.n;
                s.ldc = s.n;
                s.dtype = (uint8_t)types[t / 4];
                try_plan(jit, s, NULL, 0);
            }
    dv_jit_destroy(jit);
}

// Sizes around those of tiles and of what is packed together.
TEST(plans_edges)
{
    static const int sizes[] = {1, 8, 15, 16, 17, 31, 32, 33, 49, 64, 65};
    static const int longs[] = {1, 3, 4, 15, 31, 32, 33, 63, 64, 65, 130};
    enum { N = sizeof sizes / sizeof *sizes };
    for (int c = 0; c < dv_n_isas; c++) {
        dv_jit *jit = jit_for(c);
        for (int i = 0; jit && i < 2 * N * N / SHARE; i++) {
            dv_gemm_shape s = {.m = sizes[i / 2 % N], .n = sizes[i / 2 / N]};
            s.k = longs[pick(N)];
            s.dtype = i % 2 ? DV_I8 : DV_BF16;
            s.trans_a = (uint8_t)pick(2);
            s.trans_b = (uint8_t)pick(2);
            s.lda = (s.trans_a ? s.m : s.k) + pick(3);
            s.ldb = (s.trans_b ? s.k : s.n) + pick(3);
            s.ldc = s.n + pick(3);
            s.beta = (uint8_t)pick(2);
            // Kernels round some results themselves.
            if (s.dtype == DV_BF16 && !s.beta && pick(2))
                s.ctype = DV_BF16;
            if (!dv_isa_has(dv_jit_isa(jit), s.dtype))
                continue;
            dv_gemm_options o = {.l1_bytes = pick(3) ? 0 : 2000,
                                 .given = pick(4)};
            try_plan(jit, s, &o, 0);
        }
        dv_jit_destroy(jit);
    }
}

TEST(kernels_i32)
{
    dv_jit *jit = new_jit();
    for (int i = 0; i < 1000 / SHARE; i++)
        try_gemm(jit, random_gemm(40, DV_I32), i % 2);
    dv_jit_destroy(jit);
}

// N8: an element has the same bits in any tile of a product.
TEST(tiles_repeat)
{
    static const int types[] = {DV_BF16, DV_I8, DV_I32};
    for (int c = 0; c < dv_n_isas; c++) {
        dv_jit *jit = jit_for(c);
        for (int i = 0; jit && i < 100 / SHARE; i++)
            if (dv_isa_has(&dv_isas[c], types[i % 3]))
                try_tiles(jit, random_gemm(90, types[i % 3]));
        dv_jit_destroy(jit);
    }
}

TEST(plans_refuse)
{
    dv_jit *jit = new_jit();
    dv_gemm_plan *plan;
    dv_gemm_shape s = {.m = 4, .n = 4, .k = 4, .dtype = DV_F64};
    s.ctype = DV_F16;
    assert_int_equal(dv_gemm_plan_create(&plan, jit, &s, NULL, NULL),
                     DV_E_DTYPE);
    s = (dv_gemm_shape){.m = 4, .n = 4, .k = 4, .ldb = 3, .dtype = DV_I32};
    assert_int_equal(dv_gemm_plan_create(&plan, jit, &s, NULL, NULL),
                     DV_E_SHAPE);
    dv_jit_destroy(jit);
}

// -- Moves -------------------------------------------------------------------

// Returns a number of any kind: random bits, so that there are nan, infinities,
// ties, and numbers too large and too small.
static double any_value(void)
{
    union {
        uint32_t u;
        float f;
    } x = {.u = (uint32_t)rnd()};
    if (pick(3) == 0) // halfway between two numbers of the narrow type
        x.u = (x.u & 0xffff0000u) | 0x8000u;
    if (pick(3) == 0) // near the range of f16
        x.u = (x.u & 0x807fffffu) | (uint32_t)(100 + pick(50)) << 23;
    return (double)x.f;
}

// Rounds f32 to a narrow type.
static void convert(dv_jit *jit, dv_dtype to)
{
    dv_move_shape s = {.rows = 1 + pick(5), .cols = 1 + pick(120)};
    s.dtype = (uint8_t)to;
    s.move = DV_MOVE_NARROW;
    s.lds = s.cols + pick(4);
    s.ldd = s.cols + pick(4);
    int64_t n_src = gemm_span(s.rows, s.cols, s.lds),
            n_dst = gemm_span(s.rows, s.cols, s.ldd);
    fenced src = fence((size_t)n_src * 4, 1);
    fenced dst = fence((size_t)n_dst * 2, pick(2));
    for (int64_t i = 0; i < n_src; i++)
        dv_store(DV_F32, src.data, i, any_value());
    for (int64_t i = 0; i < n_dst; i++)
        dv_store(to, dst.data, i, -9);
    dv_move_fn run;
    assert_int_equal(dv_jit_move(jit, &s, &run, NULL), DV_OK);
    run(src.data, dst.data);
    for (int64_t i = 0; i < n_dst; i++) {
        int64_t r = i / s.ldd, c = i % s.ldd;
        double got = dv_load(to, dst.data, i);
        double want =
            c >= s.cols
                ? -9
                : dv_round_to(to, dv_load(DV_F32, src.data, r * s.lds + c));
        if (!(got == want || (isnan(got) && isnan(want))))
            fail_msg("%s: %g is not %g", dv_dtype_get(to)->name, got, want);
    }
    unfence(&src);
    unfence(&dst);
}

TEST(converts)
{
    for (int c = 0; c < dv_n_isas; c++) {
        dv_jit *jit = jit_for(c);
        for (int i = 0; jit && i < 400; i++)
            convert(jit, i % 2 ? DV_F16 : DV_BF16);
        dv_jit_destroy(jit);
    }
}

// Copy and transpose move bits: any bits, also of nan, stay the same.
static void move_bits(dv_jit *jit, const dv_move_shape *s)
{
    int turn = s->move == DV_MOVE_TRANSPOSE;
    int rows = turn ? s->cols : s->rows, cols = turn ? s->rows : s->cols;
    int es = dv_dtype_get((dv_dtype)s->dtype)->size_bytes;
    size_t n_src = (size_t)(gemm_span(s->rows, s->cols, s->lds) * es),
           n_dst = (size_t)(gemm_span(rows, cols, s->ldd) * es);
    fenced src = fence(n_src, pick(2)), dst = fence(n_dst, pick(2));
    unsigned char *want = malloc(n_dst);
    for (size_t i = 0; i < n_src; i++)
        src.data[i] = (unsigned char)(rnd() >> 40);
    for (size_t i = 0; i < n_dst; i++)
        want[i] = dst.data[i] = (unsigned char)(rnd() >> 40);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++) {
            int64_t from = turn ? c * s->lds + r : r * s->lds + c;
            unsigned char *to = want + (r * s->ldd + c) * es;
            memcpy(to, src.data + from * es, (size_t)es);
        }
    dv_move_fn run;
    assert_int_equal(dv_jit_move(jit, s, &run, NULL), DV_OK);
    run(src.data, dst.data);
    if (memcmp(dst.data, want, n_dst) != 0)
        fail_msg("%s: move %d of %dx%d, rows %d and %d apart",
                 dv_dtype_get((dv_dtype)s->dtype)->name, s->move, s->rows,
                 s->cols, (int)s->lds, (int)s->ldd);
    free(want);
    unfence(&src);
    unfence(&dst);
}

static void try_move(dv_jit *jit, int type, int move, int rows, int cols)
{
    static const int far[] = {0, 0, 1, 3, 77, 2048, 5000};
    dv_move_shape s = {.rows = rows, .cols = cols};
    s.dtype = (uint8_t)type;
    s.move = (uint8_t)move;
    s.lds = cols + far[pick(7)];
    s.ldd = (move == DV_MOVE_TRANSPOSE ? rows : cols) + far[pick(7)];
    move_bits(jit, &s);
}

// All remainders of blocks and vectors, and some sizes of many blocks.
TEST(moves)
{
    static const int types[] = {DV_F16, DV_I8, DV_BF16, DV_I32, DV_F32, DV_F64};
    for (int c = 0; c < dv_n_isas; c++) {
        dv_jit *jit = jit_for(c);
        for (int i = 0; jit && i < 6 * 2 * 40 * 40; i += 1 + pick(2 * SHARE)) {
            int t = i / 2 % 6, rows = 1 + i / 12 % 40, cols = 1 + i / 480;
            int move = i % 2 ? DV_MOVE_COPY : DV_MOVE_TRANSPOSE;
            if (t < 2 || i % 5 == 0)
                try_move(jit, types[t], move, rows, cols);
            if (i % 97 == 0)
                try_move(jit, types[t], move, 1 + pick(200), 1 + pick(900));
        }
        dv_jit_destroy(jit);
    }
}

TEST(moves_refuse)
{
    dv_jit *jit = new_jit();
    dv_move_fn run;
    dv_move_shape s = {.rows = 4, .cols = 4, .dtype = DV_F16};
    s.move = DV_MOVE_PAIRS;
    assert_int_equal(dv_jit_move(jit, &s, &run, NULL), DV_E_DTYPE);
    s.dtype = DV_I64;
    s.move = DV_MOVE_COPY;
    assert_int_equal(dv_jit_move(jit, &s, &run, NULL), DV_E_DTYPE);
    s.dtype = DV_I8;
    s.lds = 3;
    assert_int_equal(dv_jit_move(jit, &s, &run, NULL), DV_E_SHAPE);
    dv_jit_destroy(jit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_bf16),   cmocka_unit_test(plans_f32),
        cmocka_unit_test(plans_f64),    cmocka_unit_test(plans_i8),
        cmocka_unit_test(plans_i32),    cmocka_unit_test(plans_small),
        cmocka_unit_test(plans_edges),  cmocka_unit_test(kernels_i32),
        cmocka_unit_test(tiles_repeat), cmocka_unit_test(plans_refuse),
        cmocka_unit_test(converts),     cmocka_unit_test(moves),
        cmocka_unit_test(moves_refuse)};
    return run_group(tests, NULL, NULL);
}
