// The JIT: every kernel compared with plain loops, on shapes with all
// remainders, with operands that begin and end at pages that may not be
// touched; memory for code; the cache of kernels.
#define _GNU_SOURCE
#include "harness/gemm_case.h"
#include <pthread.h>
#include <sys/stat.h>

TEST(gemm_small)
{
    dv_jit *jit = new_jit();
    for (int t = 0; t < 4; t++)
        for (int m = 1; m <= 9; m++)
            for (int n = 1; n <= 9; n++)
                for (int k = 1; k <= 9; k++) {
                    dv_gemm_shape s = {.m = m, .n = n, .k = k, .lda = 0};
                    if (pick(SHARE) > 2)
                        continue;
                    s.trans_a = t & 1;
                    s.trans_b = (uint8_t)(t >> 1);
                    s.lda = s.trans_a ? m : k;
                    s.ldb = s.trans_b ? k : n;
                    s.ldc = n;
                    s.dtype = (uint8_t)(pick(2) ? DV_F32 : DV_F64);
                    s.beta = (uint8_t)pick(2);
                    try_gemm(jit, s, 0);
                }
    dv_jit_destroy(jit);
}

TEST(gemm_random)
{
    dv_jit *jit = new_jit();
    for (int i = 0; i < 3000 / SHARE; i++) {
        dv_gemm_shape s =
            random_gemm(i < 2500 / SHARE ? 40 : 90, i % 3 ? DV_F32 : DV_F64);
        s.ahead_a = s.trans_a && !s.trans_b && pick(2);
        try_gemm(jit, s, 0);
    }
    dv_jit_destroy(jit);
}

// Batches of short products, whose loops are as long as k: the rotation of
// registers repeats after any number of steps.
TEST(gemm_batches)
{
    dv_jit *jit = new_jit();
    for (int k = 1; k <= 40; k++)
        for (int m = 1; m <= 5; m++)
            for (int f64 = 0; f64 < 2; f64++) {
                dv_gemm_shape s = {.m = m, .n = 24, .k = k, .trans_a = 1};
                s.dtype = f64 ? DV_F64 : DV_F32;
                s.batch = 2 + k % 2;
                s.lda = m;
                s.ldb = s.ldc = s.n;
                s.stride_a = (int64_t)m * k + 4 * pick(2);
                s.stride_b = s.ldb * k;
                s.beta = DV_SCALE_ONE;
                try_gemm(jit, s, 0);
            }
    dv_jit_destroy(jit);
}

TEST(gemm_nan)
{
    dv_jit *jit = new_jit();
    for (int i = 0; i < 800 / SHARE; i++)
        try_gemm(jit, random_gemm(20, i % 3 ? DV_F32 : DV_F64), 1);
    // With beta 0 the kernel does not read C; relu keeps nan.
    float a = 1, b = 2, c = NAN;
    dv_gemm_fn run;
    dv_gemm_shape s = {.m = 1, .n = 1, .k = 1, .dtype = DV_F32, .relu = 1};
    assert_int_equal(dv_jit_gemm(jit, &s, &run, NULL), DV_OK);
    run(&a, &b, &c, NULL);
    assert_true(c == 2);
    a = NAN;
    run(&a, &b, &c, NULL);
    assert_true(isnan(c));
    dv_jit_destroy(jit);
}

// relu of sums that underflow to -0 is 0, also if C or a bias is -0.
TEST(gemm_minus_0)
{
    dv_jit *jit = new_jit();
    for (int i = 0; i < 600 / SHARE; i++) {
        dv_gemm_shape s = random_gemm(20, i % 2 ? DV_F32 : DV_F64);
        double tiny = s.dtype == DV_F32 ? 1e-30 : 1e-200;
        dv_dtype t = (dv_dtype)s.dtype;
        gemm_problem q = {.s = s};
        dv_gemm_fn run;
        q.s.relu = 1;
        assert_int_equal(dv_jit_gemm(jit, &q.s, &run, NULL), DV_OK);
        gemm_start(&q, 0);
        for (int64_t k = 0; k < q.n_a; k++)
            dv_store(t, q.a.data, k, -tiny);
        for (int64_t k = 0; k < q.n_b; k++)
            dv_store(t, q.b.data, k, tiny);
        for (int64_t k = 0; k < q.n_c; k++)
            dv_store(t, q.c.data, k, -0.0);
        for (int64_t k = 0; k < (s.bias == DV_BIAS_M ? s.m : s.n); k++)
            dv_store(t, q.bias.data, k, -0.0);
        run(q.a.data, q.b.data, q.c.data, &q.args);
        for (int64_t k = 0; k < q.n_c; k++) {
            double c = dv_load((dv_dtype)t, q.c.data, k);
            if (k % s.ldc < s.n && (c != 0 || signbit(c)))
                fail_msg("%dx%dx%d: [%d][%d] is %g", s.m, s.n, s.k,
                         (int)(k / s.ldc), (int)(k % s.ldc), c);
        }
        gemm_stop(&q);
    }
    dv_jit_destroy(jit);
}

// A packed into panels, as jit/gemm/plan.c packs it.
TEST(gemm_panel)
{
    dv_jit *jit = new_jit();
    for (int i = 0; i < 300; i++) {
        dv_gemm_shape s = random_gemm(40, i % 2 ? DV_F32 : DV_F64), t;
        dv_dtype dt = (dv_dtype)s.dtype;
        size_t es = (size_t)dv_dtype_get(dt)->size_bytes, lanes = 16 / es;
        s.m = 1 + pick(8);
        s.trans_a = s.trans_b = 0;
        s.batch = 1;
        s.lda = s.k + pick(5);
        s.ldb = s.n + pick(5);
        gemm_problem q = {.s = s};
        gemm_start(&q, 0);
        size_t size = ((size_t)s.k + lanes - 1) / lanes * 16 * (size_t)s.m;
        fenced panel = fence(size, 1);
        dv_gemm_fn run;
        t = s;
        t.panel_a = (uint8_t)s.m;
        assert_int_equal(dv_jit_gemm(jit, &t, &run, NULL), DV_OK);
        for (size_t j = 0; j < size / es; j++) {
            size_t row = j / lanes % (size_t)s.m;
            size_t col = j / lanes / (size_t)s.m * lanes + j % lanes;
            double x =
                col < (size_t)s.k
                    ? dv_load(dt, q.a.data, (int64_t)row * s.lda + (int64_t)col)
                    : 0;
            dv_store(dt, panel.data, (int64_t)j, x);
        }
        run(panel.data, q.b.data, q.c.data, &q.args);
        gemm_compare(&q);
        unfence(&panel);
        gemm_stop(&q);
    }
    dv_jit_destroy(jit);
}

// A and B packed by the kernel, in all four combinations: in place and packed
// on the way, or packed already. Kernels that read packed operands do not read
// the sources.
TEST(gemm_packs)
{
    dv_jit *jit = new_jit();
    const dv_isa *isa = dv_jit_isa(jit);
    for (int i = 0; i < 800 / SHARE; i++) {
        dv_gemm_shape s = random_gemm(45, i % 2 ? DV_F32 : DV_F64), t;
        size_t es = i % 2 ? 4 : 8, wide = (size_t)isa->vector_bytes / es;
        s.trans_b = 0;
        s.batch = 0;
        s.n = 1 + s.n % panel_cols(isa, s.dtype);
        s.ldb = s.n + (pick(3) ? pick(9) : 1100);
        s.ldc = s.n + pick(9);
        s.panel_a = (uint8_t)(1 + pick(4));
        gemm_problem q = {.s = s};
        gemm_start(&q, 0);
        size_t cols = ((size_t)s.n + wide - 1) / wide * wide;
        size_t quad = 16 / es, k = (size_t)s.k;
        size_t deep = s.trans_a ? k : (k + quad - 1) / quad * quad;
        fenced a = fence((size_t)s.m * deep * es, 1);
        fenced b = fence(cols * k * es, 1);
        q.args.pack_a = a.data;
        q.args.pack_b = b.data;
        q.args.next = q.b.data; // prefetched, not read
        size_t size = (size_t)q.n_c * es;
        void *start = malloc(size);
        memcpy(start, q.c.data, size);
        for (int way = 0; way < 4; way++) { // the first packs both
            dv_gemm_fn run;
            t = s;
            t.pack_a = !(way & 1);
            t.pack_b = !(way & 2);
            t.next_b = (uint8_t)(pick(2) * (t.pack_b ? DV_NEXT_SPREAD : 1));
            t.ldb = t.pack_b ? t.ldb : (int64_t)cols;
            assert_int_equal(dv_jit_gemm(jit, &t, &run, NULL), DV_OK);
            memcpy(q.c.data, start, size);
            run(t.pack_a ? q.a.data : a.data, t.pack_b ? q.b.data : b.data,
                q.c.data, &q.args);
            gemm_compare(&q);
        }
        free(start);
        unfence(&a);
        unfence(&b);
        gemm_stop(&q);
    }
    dv_jit_destroy(jit);
}

TEST(gemm_refuses)
{
    dv_jit *jit = new_jit();
    dv_gemm_fn run;
    dv_gemm_shape s = {.m = 0, .n = 1, .k = 1, .dtype = DV_F32};
    assert_int_equal(dv_jit_gemm(jit, &s, &run, NULL), DV_E_SHAPE);
    assert_null((void *)(uintptr_t)run);
    s = (dv_gemm_shape){.m = 4, .n = 4, .k = 4, .ldb = 3, .dtype = DV_F32};
    assert_int_equal(dv_jit_gemm(jit, &s, &run, NULL), DV_E_SHAPE);
    s = (dv_gemm_shape){.m = 4, .n = 4, .k = 4, .dtype = DV_I64};
    assert_int_equal(dv_jit_gemm(jit, &s, &run, NULL), DV_E_DTYPE);
    s = (dv_gemm_shape){.m = 4, .n = 4, .k = 4, .dtype = DV_F32, .beta = 9};
    assert_int_equal(dv_jit_gemm(jit, &s, &run, NULL), DV_E_SHAPE);
    s = (dv_gemm_shape){.m = 4, .n = 4, .k = 4, .dtype = DV_F32, .ahead_a = 1};
    assert_int_equal(dv_jit_gemm(jit, &s, &run, NULL), DV_E_SHAPE);
    s = (dv_gemm_shape){.m = 4, .n = 4, .k = 4, .dtype = DV_F32, .panel_a = 4};
    assert_int_equal(dv_jit_gemm(jit, &s, &run, NULL), DV_OK);
    s.batch = 2;
    assert_int_equal(dv_jit_gemm(jit, &s, &run, NULL), DV_E_SHAPE);
    s.batch = 1;
    s.n = 1000; // no single kernel packs this
    assert_int_equal(dv_jit_gemm(jit, &s, &run, NULL), DV_OK);
    s.pack_b = 1;
    assert_int_equal(dv_jit_gemm(jit, &s, &run, NULL), DV_E_LIMIT);
    s.pack_b = 0;
    s.pack_a = 1;
    assert_int_equal(dv_jit_gemm(jit, &s, &run, NULL), DV_E_LIMIT);
    dv_jit_destroy(jit);
}

// -- Whole products ----------------------------------------------------------

TEST(plans)
{
    dv_jit *jit = new_jit();
    for (int i = 0; i < 700 / SHARE; i++) {
        dv_gemm_shape s =
            random_gemm(i % 7 ? 60 : 150, i % 3 ? DV_F32 : DV_F64);
        s.batch = 0;
        s.stride_a = s.stride_b = 0;
        // Small caches, so that there are many chunks and blocks.
        dv_gemm_options o = {.pack = pick(4) ? 1 : 0};
        o.l1_bytes = pick(2) ? 0 : 1000 + pick(8000);
        o.l2_bytes = pick(2) ? 0 : 2000 + pick(20000);
        o.m_block = pick(3) ? 0 : 1 + pick(40);
        o.n_chunk = pick(3) ? 0 : 1 + pick(60);
        o.given = pick(2) ? 0 : pick(4);
        try_plan(jit, s, &o, i % 10 == 9);
    }
    dv_jit_destroy(jit);
}

// N8: any number of rows in a packed block gives the same bits, if the sum of
// an element is one chain of additions (of up to 64 elements it may not be).
TEST(block_rows_repeat)
{
    dv_jit *jit = new_jit();
    for (int i = 0; i < 20; i++) {
        dv_gemm_shape s = random_gemm(90, DV_F32);
        s.batch = 0;
        s.stride_a = s.stride_b = 0;
        if (!s.one_sum && s.m * s.n <= 64)
            continue;
        gemm_problem q = {.s = s};
        gemm_start(&q, 0);
        size_t size = (size_t)q.n_c * 4;
        void *start = malloc(size), *first = malloc(size);
        memcpy(start, q.c.data, size);
        for (int32_t rows = 0; rows <= 28; rows += 7) {
            // Nor does it matter which operands are packed before the run, or
            // how many columns a chunk has.
            dv_gemm_options o = {.pack = 1,
                                 .l1_bytes = 3000,
                                 .m_block = rows,
                                 .n_chunk = rows,
                                 .given = rows / 7 % 4};
            dv_gemm_plan *plan;
            assert_int_equal(dv_gemm_plan_create(&plan, jit, &s, &o, NULL),
                             DV_OK);
            int32_t m, k;
            assert_true(dv_gemm_plan_packs(plan, &m, &k));
            assert_true(!rows || m <= rows);
            memcpy(q.c.data, start, size);
            run_plan(plan, q.a.data, q.b.data, q.c.data, &q.args);
            if (!rows)
                memcpy(first, q.c.data, size);
            assert_memory_equal(first, q.c.data, size);
            dv_gemm_plan_destroy(plan);
        }
        free(start);
        free(first);
        gemm_stop(&q);
    }
    dv_jit_destroy(jit);
}

// N8: an element has the same bits in any tile of a product.
TEST(tiles_repeat)
{
    dv_jit *jit = new_jit();
    for (int i = 0; i < 100 / SHARE; i++)
        try_tiles(jit, random_gemm(90, i % 3 ? DV_F32 : DV_F64));
    dv_jit_destroy(jit);
}

TEST(plans_refuse)
{
    dv_jit *jit = new_jit();
    dv_gemm_plan *plan;
    dv_gemm_shape s = {.m = 4, .n = 4, .k = 4, .panel_a = 4, .dtype = DV_F32};
    assert_int_equal(dv_gemm_plan_create(&plan, jit, &s, NULL, NULL),
                     DV_E_USAGE);
    assert_null(plan);
    s = (dv_gemm_shape){.m = 4, .n = 4, .k = 4, .batch = 2, .dtype = DV_F32};
    assert_int_equal(dv_gemm_plan_create(&plan, jit, &s, NULL, NULL),
                     DV_E_USAGE);
    s.batch = 1; // a rounded sum cannot be added to C
    s.ctype = DV_F16;
    s.beta = DV_SCALE_ONE;
    assert_int_equal(dv_gemm_plan_create(&plan, jit, &s, NULL, NULL),
                     DV_E_USAGE);
    s = (dv_gemm_shape){.m = 99, .n = 99, .k = 99, .ldb = 7, .dtype = DV_F32};
    dv_gemm_options o = {.pack = 1};
    assert_int_equal(dv_gemm_plan_create(&plan, jit, &s, &o, NULL), DV_E_SHAPE);
    static const int without[] = {DV_I64, DV_F16}; // types without kernels
    for (int i = 0; i < 2; i++) {
        s = (dv_gemm_shape){.m = 4, .n = 4, .k = 4};
        s.dtype = (uint8_t)without[i];
        assert_int_equal(dv_gemm_plan_create(&plan, jit, &s, NULL, NULL),
                         DV_E_DTYPE);
    }
    s.dtype = DV_F32;
    o.k_block = -5;
    assert_int_equal(dv_gemm_plan_create(&plan, jit, &s, &o, NULL), DV_E_USAGE);
    o = (dv_gemm_options){.m_block = -1};
    assert_int_equal(dv_gemm_plan_create(&plan, jit, &s, &o, NULL), DV_E_USAGE);
    o = (dv_gemm_options){.l1_bytes = -1};
    assert_int_equal(dv_gemm_plan_create(&plan, jit, &s, &o, NULL), DV_E_USAGE);
    dv_jit_destroy(jit);
}

// -- Moves -------------------------------------------------------------------

// Every element is one chain of additions, whatever the shape: also if all
// terms are -0, which a sum that begins with 0 would lose.
TEST(one_sum_keeps_signs)
{
    static const int32_t ks[] = {1, 3, 8, 20, 30, 64, 100};
    static const int32_t ns[] = {1, 3, 4, 8, 13, 20, 24};
    static const int32_t ms[] = {1, 2, 4, 5, 12};
    static double a[12 * 100], b[100 * 24],
        c[12 * 24]; // large enough for f32, too
    dv_jit *jit = dv_jit_shared();
    if (!jit)
        skip_test("no kernels for this machine");
    for (int i = 0; i < 7 * 7 * 5 * 4; i++) { // the second half has relu
        dv_gemm_shape s = {.m = ms[i % 5], .n = ns[i / 5 % 7], .one_sum = 1};
        dv_gemm_fn f;
        uint64_t want = 0, got = 0;
        s.k = ks[i / 35 % 7];
        s.dtype = i / 245 % 2 ? DV_F64 : DV_F32;
        s.relu = i >= 490;
        size_t size = s.dtype == DV_F64 ? 8 : 4;
        for (int k = 0; k < 100 * 24; k++)
            if (s.dtype == DV_F64)
                b[k] = -1;
            else
                ((float *)(void *)b)[k] = -1;
        for (int m = 0; m < s.m * s.n; m++) {
            dv_gemm_shape one = s;
            one.m = one.n = 1;
            if (m == 0) {
                assert_int_equal(dv_jit_gemm(jit, &one, &f, NULL), DV_OK);
                f(a, b, c, NULL);
                memcpy(&want, c, size);
                assert_true(!s.relu || !want);
                assert_int_equal(dv_jit_gemm(jit, &s, &f, NULL), DV_OK);
                f(a, b, c, NULL);
            }
            memcpy(&got, (char *)c + (size_t)m * size, size);
            assert_true(got == want);
        }
    }
}

TEST(moves)
{
    dv_jit *jit = new_jit();
    for (int i = 0; i < 1000 / SHARE; i++) {
        dv_move_shape s = {.rows = 1 + pick(40), .cols = 1 + pick(40)};
        s.dtype = (uint8_t)(i % 3 ? DV_F32 : DV_F64);
        s.move = (uint8_t)(pick(2) ? DV_MOVE_COPY : DV_MOVE_TRANSPOSE);
        dv_dtype dt = (dv_dtype)s.dtype;
        size_t es = (size_t)dv_dtype_get(dt)->size_bytes;
        int turn = s.move == DV_MOVE_TRANSPOSE;
        int rows = turn ? s.cols : s.rows, cols = turn ? s.rows : s.cols;
        s.lds = s.cols + pick(2) * pick(2000);
        s.ldd = cols + pick(2) * pick(2000);
        int64_t n_src = gemm_span(s.rows, s.cols, s.lds),
                n_dst = gemm_span(rows, cols, s.ldd);
        fenced src = fence((size_t)n_src * es, pick(2));
        fenced dst = fence((size_t)n_dst * es, pick(2));
        gemm_fill(s.dtype, src.data, n_src, 0);
        for (int64_t j = 0; j < n_dst; j++)
            dv_store(dt, dst.data, j, -9);
        dv_move_fn run;
        assert_int_equal(dv_jit_move(jit, &s, &run, NULL), DV_OK);
        run(src.data, dst.data);
        for (int64_t j = 0; j < n_dst; j++) {
            int64_t r = j / s.ldd, c = j % s.ldd;
            double want = c >= cols ? -9
                          : turn
                              ? dv_load((dv_dtype)dt, src.data, c * s.lds + r)
                              : dv_load((dv_dtype)dt, src.data, r * s.lds + c);
            assert_true(dv_load((dv_dtype)dt, dst.data, j) == want);
        }
        unfence(&src);
        unfence(&dst);
    }
    dv_jit_destroy(jit);
}

// -- Code memory and the cache -----------------------------------------------

static int pages_both(void)
{
    FILE *f = fopen("/proc/self/maps", "r");
    char line[512];
    int n = 0;
    while (f && fgets(line, sizeof line, f)) {
        char *p = strchr(line, ' ');
        n += p && p[2] == 'w' && p[3] == 'x';
    }
    if (f)
        fclose(f);
    return n;
}

TEST(never_both)
{
    int before = pages_both();
    unsetenv("DIVVY_JIT_ONE_VIEW");
    for (int one = 0; one < 2; one++) {
        if (one)
            setenv("DIVVY_JIT_ONE_VIEW", "1", 1);
        dv_jit *jit = new_jit();
        unsetenv("DIVVY_JIT_ONE_VIEW");
        for (int i = 0; i < 200; i++)
            try_gemm(jit, random_gemm(30, DV_F32), 0);
        dv_jit_stats st;
        dv_jit_stats_get(jit, &st);
        assert_int_equal(st.two_views, !one);
        assert_int_equal(pages_both(), before);
        dv_jit_destroy(jit);
    }
}

// Counts the writable mappings of memory for code, and its open files.
static int writable_code(void)
{
    int n = 0;
    char line[600], path[64];
    FILE *f = fopen("/proc/self/maps", "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f))
        n += strstr(line, "divvy-jit") && strstr(line, " rw-s ");
    fclose(f);
    for (int fd = 3; fd < 256; fd++) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        ssize_t len = readlink(path, line, sizeof line - 1);
        line[len < 0 ? 0 : len] = 0;
        n += strstr(line, "divvy-jit") != NULL;
    }
    return n;
}

// Once kernels are made nothing can write to them; more can be made, in the
// same memory.
TEST(sealed_code)
{
    dv_jit *jit = new_jit();
    int before = writable_code();
    dv_gemm_fn first = NULL;
    dv_jit_stats st = {0};
    for (int i = 0; i < 300; i++) {
        dv_gemm_shape s = {.m = 5, .n = 7, .k = 1 + i, .dtype = DV_F32};
        dv_gemm_fn run;
        assert_int_equal(dv_jit_gemm(jit, &s, &run, NULL), DV_OK);
        first = first ? first : run;
        if (i % 3 == 0) {
            dv_jit_seal(jit);
            assert_int_equal(writable_code(), before);
        }
        float a[5 * 300], b[300 * 7], c[35];
        for (int k = 0; k < 5 * (1 + i); k++)
            a[k] = 1;
        for (int k = 0; k < 7 * (1 + i); k++)
            b[k] = 2;
        run(a, b, c, NULL);
        assert_true(c[34] == 2 * (float)(1 + i));
        first(a, b, c, NULL);
        assert_true(c[34] == 2);
    }
    dv_jit_stats_get(jit, &st);
    assert_true(!st.two_views || st.mapped_bytes <= 4 << 20);
    dv_jit_destroy(jit);
    assert_int_equal(writable_code(), before);
}

// The name of the map for perf is predictable: no link is followed, and no file
// of another name is written.
TEST(perf_map)
{
    char path[64], other[64], line[64] = "";
    struct stat st;
    snprintf(path, sizeof path, "/tmp/perf-%ld.map", (long)getpid());
    snprintf(other, sizeof other, "/tmp/divvy-victim-%ld", (long)getpid());
    unlink(path);
    for (int how = 0; how < 4; how++) {
        FILE *f = fopen(other, "w");
        assert_non_null(f);
        fputs("mine\n", f);
        fclose(f);
        if (how == 0) // a symbolic link to a file, to nothing; a hard link
            assert_int_equal(symlink(other, path), 0);
        if (how == 1)
            assert_int_equal(symlink("/tmp/divvy-no-such-file", path), 0);
        if (how == 2 && link(other, path) != 0)
            continue;
        setenv("DIVVY_PERF_MAP", "1", 1);
        dv_jit *jit = new_jit();
        unsetenv("DIVVY_PERF_MAP");
        dv_gemm_shape s = {.m = 4, .n = 4, .k = 4, .dtype = DV_F32};
        dv_gemm_fn run;
        assert_int_equal(dv_jit_gemm(jit, &s, &run, NULL), DV_OK);
        dv_jit_destroy(jit);
        assert_int_equal(stat(other, &st), 0);
        assert_int_equal(st.st_size, 5);
        assert_true(access("/tmp/divvy-no-such-file", F_OK) != 0);
        if (how == 3) {
            assert_int_equal(lstat(path, &st), 0);
            assert_true(S_ISREG(st.st_mode) && (st.st_mode & 077) == 0);
            f = fopen(path, "r");
            assert_non_null(f);
            assert_non_null(fgets(line, sizeof line, f));
            fclose(f);
            assert_non_null(strstr(line, "divvy_gemm"));
        }
        unlink(path);
        unlink(other);
    }
}

static void *many_lookups(void *arg)
{
    dv_jit *jit = arg;
    for (int i = 0; i < 4000; i++) {
        int m = 1 + i * 7 % 97;
        dv_gemm_shape s = {.m = m, .n = 3, .k = 2, .dtype = DV_F32};
        dv_gemm_fn run;
        if (dv_jit_gemm(jit, &s, &run, NULL))
            return NULL;
        float a[200], b[6] = {1, 2, 3, 4, 5, 6}, c[300];
        for (int j = 0; j < 2 * m; j++)
            a[j] = 1;
        run(a, b, c, NULL);
        if (c[3 * m - 1] != 9)
            return NULL;
    }
    return jit;
}

TEST(cache_threads)
{
    dv_jit *jit = new_jit();
    pthread_t t[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, many_lookups, jit);
    for (int i = 0; i < 4; i++) {
        void *r;
        pthread_join(t[i], &r);
        assert_ptr_equal(r, jit);
    }
    dv_jit_stats st;
    dv_jit_stats_get(jit, &st);
    assert_int_equal(st.n_kernels, 97);
    dv_jit_destroy(jit);
}

TEST(listing)
{
    dv_jit *jit = new_jit();
    dv_gemm_shape s = {.m = 4, .n = 4, .k = 4, .dtype = DV_F32, .beta = 1};
    dv_gemm_fn f, again;
    assert_int_equal(dv_jit_gemm(jit, &s, &f, NULL), DV_OK);
    assert_int_equal(dv_jit_gemm(jit, &s, &again, NULL), DV_OK);
    assert_true(f == again);
    dv_text t = {0};
    dv_jit_list(jit, &t, NULL, NULL);
    assert_non_null(strstr(t.at, "gemm_f32_nn_4x4x4"));
    assert_non_null(strstr(t.at, "  ret"));
    dv_text_free(&t);
    dv_jit_destroy(jit);
}

TEST(other_machines)
{
    dv_jit *jit;
    dv_status s = dv_jit_create(&jit, NULL);
    assert_int_equal(s, dv_isa_host() ? DV_OK : DV_E_SYSTEM);
    assert_int_equal(jit != NULL, s == DV_OK);
    dv_jit_destroy(jit);
}

// Code that does not fit into the rest of the memory is generated again
// elsewhere.
TEST(memory_fills_up)
{
    dv_jit *jit = new_jit();
    dv_jit_stats at = {0};
    int n = 0;
    for (; at.code_bytes < 600 << 10;
         n++) { // more than the first block of memory
        dv_gemm_shape s = {.m = 23, .n = 23, .k = 23, .dtype = DV_F32};
        dv_gemm_fn run;
        s.lda = 23 + n;
        s.beta = DV_SCALE_ONE;
        assert_int_equal(dv_jit_gemm(jit, &s, &run, NULL), DV_OK);
        dv_jit_stats_get(jit, &at);
    }
    assert_int_equal(at.n_kernels, n);
    assert_true(at.mapped_bytes > at.code_bytes);
    for (int i = 0; i < n; i += 11) {
        dv_gemm_shape s = {.m = 23, .n = 23, .k = 23, .dtype = DV_F32};
        s.lda = 23 + i;
        s.ldb = s.ldc = 23;
        s.beta = DV_SCALE_ONE;
        try_gemm(jit, s, 0);
    }
    dv_jit_destroy(jit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(gemm_small),
                                       cmocka_unit_test(gemm_random),
                                       cmocka_unit_test(gemm_batches),
                                       cmocka_unit_test(gemm_nan),
                                       cmocka_unit_test(gemm_minus_0),
                                       cmocka_unit_test(gemm_panel),
                                       cmocka_unit_test(gemm_packs),
                                       cmocka_unit_test(gemm_refuses),
                                       cmocka_unit_test(plans),
                                       cmocka_unit_test(tiles_repeat),
                                       cmocka_unit_test(block_rows_repeat),

                                       cmocka_unit_test(plans_refuse),
                                       cmocka_unit_test(moves),
                                       cmocka_unit_test(one_sum_keeps_signs),
                                       cmocka_unit_test(never_both),
                                       cmocka_unit_test(sealed_code),
                                       cmocka_unit_test(perf_map),
                                       cmocka_unit_test(cache_threads),
                                       cmocka_unit_test(listing),
                                       cmocka_unit_test(memory_fills_up),
                                       cmocka_unit_test(other_machines)};
    return run_group(tests, NULL, NULL);
}
