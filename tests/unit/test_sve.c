// SVE: rows for every length of a vector, and kernels that give the bits of
// NEON's where both add in the same order. Without SVE there is only code to be
// written, not run; an emulator has it (tests/foreign).
#define _GNU_SOURCE
#include "unit/jit_problem.h"

static int is_sve(const dv_isa *isa)
{
    return isa->gemm == dv_sve_gemm;
}

// The JIT of an instruction set by name.
static dv_jit *jit_for(const char *cpu)
{
    setenv("DIVVY_CPU", cpu, 1);
    dv_jit *jit = new_jit();
    unsetenv("DIVVY_CPU");
    if (strcmp(dv_jit_isa(jit)->name, cpu) != 0) {
        dv_jit_destroy(jit);
        skip();
    }
    return jit;
}

// -- Rows --------------------------------------------------------------------

// The usual one has the longer vectors; of 16 bytes SVE must be asked for.
static void rows_chosen(void **state)
{
    (void)state;
    dv_jit *jit = jit_for("sve");
    int bytes = dv_jit_isa(jit)->vector_bytes;
    dv_jit_destroy(jit);
    assert_true(bytes >= 16 && bytes <= 256);
    const dv_isa *usual = dv_isa_host();
    assert_int_equal(is_sve(usual), bytes > 16);
    if (bytes > 16)
        assert_int_equal(usual->vector_bytes, bytes);
}

// Code for every length, on any machine.
static void rows_write(void **state)
{
    (void)state;
    static unsigned char bytes[1 << 18];
    int lengths = 0;
    for (int r = 0; r < dv_n_isas; r++) {
        const dv_isa *isa = &dv_isas[r];
        if (!is_sve(isa))
            continue;
        lengths |= isa->vector_bytes;
        for (int i = 0; i < 300 / SHARE; i++) {
            static const int types[] = {DV_F32, DV_F64, DV_I32};
            dv_gemm_shape s = random_shape(i % 5 ? 40 : 300, types[i % 3]);
            s.batch = s.batch ? s.batch : 1;
            if (i % 7 == 0 && s.batch == 1) {
                s.trans_b = 0;
                s.ldb = s.n;
                s.panel_a = (uint8_t)(1 + pick(isa->most_packed));
                s.pack_a = (uint8_t)pick(2);
                s.pack_b = (uint8_t)pick(2);
                s.n = 1 + s.n % panel_cols(isa, s.dtype);
            }
            dv_code code = {.at = bytes, .cap = sizeof bytes};
            isa->gemm(&code, isa, &s);
            assert_false(code.failed);
            assert_true(code.n > 0 && code.n % 4 == 0);
        }
    }
    assert_int_equal(lengths, 16 | 32 | 64 | 128 | 256);
}

// -- The same bits as NEON's -------------------------------------------------

static int same_bits(const problem *q, const void *a, const void *b)
{
    for (int64_t i = 0; i < q->n_c; i++) { // zeros may differ in sign
        double x = at(q->s.dtype, a, i), y = at(q->s.dtype, b, i);
        if (!(x == y || (isnan(x) && isnan(y))))
            return 0;
    }
    return 1;
}

static void like_neon(void **state)
{
    (void)state;
    dv_jit *sve = jit_for("sve"), *neon = jit_for("neon");
    for (int i = 0; i < 200; i++) {
        int dtype = i % 3 ? DV_F32 : DV_F64;
        dv_gemm_shape s = random_shape(i % 10 ? 40 : 150, dtype);
        s.one_sum = 1;
        if (!s.trans_a && s.trans_b) // dot products: sums are in lanes
            continue;
        problem q = {.s = s};
        set_up(&q, 0);
        size_t size = (size_t)q.n_c * (s.dtype == DV_F64 ? 8 : 4);
        void *start = malloc(size), *first = malloc(size);
        dv_gemm_fn run[2];
        assert_int_equal(dv_jit_gemm(sve, &s, &run[0], NULL), DV_OK);
        assert_int_equal(dv_jit_gemm(neon, &s, &run[1], NULL), DV_OK);
        memcpy(start, q.c.data, size);
        run[0](q.a.data, q.b.data, q.c.data, &q.args);
        memcpy(first, q.c.data, size);
        memcpy(q.c.data, start, size);
        run[1](q.a.data, q.b.data, q.c.data, &q.args);
        if (!same_bits(&q, first, q.c.data))
            fail_msg("%dx%dx%d %c%c differs", s.m, s.n, s.k, "nt"[s.trans_a],
                     "nt"[s.trans_b]);
        free(start);
        free(first);
        tear_down(&q);
    }
    dv_jit_destroy(sve);
    dv_jit_destroy(neon);
}

// Whole numbers, and rows of C farther apart than offsets of a scatter reach:
// that kernel is NEON's.
static void whole_and_far(void **state)
{
    (void)state;
    dv_jit *jit = jit_for("sve");
    for (int i = 0; i < 100; i++)
        try_gemm(jit, random_shape(40, DV_I32), i % 2);
    dv_gemm_shape s = {.m = 3, .n = 2, .k = 2, .trans_a = 1, .trans_b = 1};
    dv_gemm_fn run;
    s.dtype = DV_F32;
    s.ldc = 1 << 26;
    assert_int_equal(dv_jit_gemm(jit, &s, &run, NULL), DV_OK);
    size_t bytes = (2 * (size_t)s.ldc + 2) * sizeof(float);
    float *c = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(c != MAP_FAILED);
    static const float a[] = {1, 2, 3, 4, 5, 6}, b[] = {1, 10, 2, 20};
    run(a, b, c, NULL);
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 2; j++)
            assert_true(c[i * s.ldc + j] ==
                        a[i] * b[2 * j] + a[3 + i] * b[2 * j + 1]);
    munmap(c, bytes);
    dv_jit_destroy(jit);
}

// Products of bf16 in vectors of any length: pairs stay as wide as they are.
static void narrow_plans(void **state)
{
    (void)state;
    static const int types[] = {DV_BF16, DV_I8, DV_F16};
    static const char *const cpus[] = {"sve-bf16", "sve"};
    for (int c = 0; c < 2; c++) {
        dv_jit *jit = jit_for(cpus[c]);
        for (int i = 0; i < 40; i++) {
            dv_gemm_shape s = random_shape(i % 5 ? 30 : 100, types[i % 3]);
            s.batch = 0;
            s.stride_a = s.stride_b = 0;
            dv_gemm_options o = {.threads = 1 + pick(3)};
            o.l1_bytes = pick(2) ? 0 : 300 + pick(2000);
            try_plan(jit, s, &o, 0);
        }
        dv_jit_destroy(jit);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_chosen), cmocka_unit_test(rows_write),
        cmocka_unit_test(like_neon), cmocka_unit_test(whole_and_far),
        cmocka_unit_test(narrow_plans)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
