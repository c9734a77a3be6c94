// Contractions: mini_jit's worked example and benchmark configurations,
// products of unusual forms, invalid input, threads of the caller's own.
#include "harness/nest_eval.h"
#include "harness/test.h"
#include "base/dtype.h"
#include "base/mem.h"
#include "contract/contract.h"
#include "harness/contract_case.h"
#include <math.h>

static void original(void **state)
{
    static const char *const texts[] = {
        // The worked example before and after its passes.
        "nest worked f32 { main gemm n 32 seq: in1 8192, out 1024"
        " k 8 seq: in0 1024, in1 1024 m 32 seq: in0 1, out 1"
        " n 5 seq: in1 262144, out 32768 n 32 seq: in1 32, out 32"
        " k 32 seq: in0 32, in1 1 }",
        // Blocked gemm and brgemm, with and without touches, made smaller.
        "nest blocked f32 { first zero main brgemm last relu"
        " m 4 seq: in0 8192, out 4096 n 4 seq: in1 8192, out 1024"
        " k 8 seq: in0 1024, in1 1024 m 32 seq: in0 1, out 1"
        " n 32 seq: in1 32, out 32 k 32 seq: in0 32, in1 1 }",
        "nest blocked f32 { main brgemm last relu"
        " m 2 seq: in0 32768, out 8192 n 2 seq: in1 32768, out 4096"
        " k 8 seq: in0 4096, in1 4096 m 64 seq: in0 1, out 1"
        " n 64 seq: in1 64, out 64 k 64 seq: in0 64, in1 1 }",
        "nest gemm f32 { main gemm m 160 seq: in0 1, out 1"
        " n 160 seq: in1 160, out 160 k 160 seq: in0 160, in1 1 }",
        "nest contraction f32 { main brgemm m 8 seq: in0 25, out 25"
        " m 25 seq: in0 1, out 1 n 8 seq: in1 5000, out 5000"
        " n 25 seq: in1 200, out 200 k 8 seq: in0 5000, in1 25"
        " k 25 seq: in0 200, in1 1 }",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (int threads = 1; threads < 4; threads++)
            agrees(*state, texts[i], threads, 0);
    // With its own layout, and k in two dimensions inside the kernel.
    agrees(*state,
           "nest own f32 { first zero main brgemm last relu"
           " m 4 shared: in0 8192, out 4096 n 4 shared: in1 8192, out 1024"
           " m 32 prim: in0 1, out 1 n 32 prim: in1 32, out 32"
           " k 8 prim: in0 1024, in1 1024 k 32 prim: in0 32, in1 1 }",
           2, 1);
}

// Results that are stored past the caches: adjacent rows, rows of whole cache
// lines, tiles with remainders, and rows that are not whole lines.
static void large_results(void **state)
{
    static const char *const texts[] = {
        "nest dense f32 { first zero main gemm last relu pack in0 in1"
        " n 3 seq: in1 480, out 480 m 24 prim: in0 1, out 1"
        " n 20 prim: in1 24, out 24 k 24 prim: in0 24, in1 1 }",
        "nest dense f64 { first zero main gemm pack in0 in1"
        " n 3 seq: in1 231, out 231 m 11 prim: in0 1, out 1"
        " n 21 prim: in1 11, out 11 k 11 prim: in0 11, in1 1 }",
        "nest lines f32 { first zero main gemm pack in0 in1"
        " m 3 seq: in0 48, out 48 n 3 seq: in1 50, out 560"
        " m 48 of 112 prim: in0 1, out 1 n 5 of 13 prim: in1 10, out 112"
        " k 10 prim: in0 112, in1 1 }",
        "nest neither f32 { first zero main gemm pack in0 in1"
        " m 3 seq: in0 48, out 48 n 3 seq: in1 50, out 550"
        " m 48 of 110 prim: in0 1, out 1 n 5 of 13 prim: in1 10, out 110"
        " k 10 prim: in0 110, in1 1 }",
        "nest twice f32 { first zero main gemm pack in0 in1"
        " k 2 seq: in0 240, in1 5 m 48 prim: in0 1, out 1"
        " n 5 prim: in1 10, out 48 k 5 prim: in0 48, in1 1 }",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        agrees(*state, texts[i], 1, SMALL_CACHE);
}

// A large operand with few columns on the other side, and results with another
// unit stride: packed by the kernel while it reads, or read in place with
// distant rows; stored as whole cache lines. With remainders, panels of all
// widths, and sums in two parts.
static void large_operands(void **state)
{
    static const char *const texts[] = {
        "nest way f32 { first zero main gemm last relu pack in1"
        " m 2 seq pack out: in0 32000, out 16"
        " m 16 of 21 seq pack in0: in0 2000, out 1"
        " m 53 prim: in0 1, out 21 n 24 prim: in1 37, out 1113"
        " k 37 prim: in0 53, in1 1 }",
        "nest way f64 { main gemm pack in1 m 3 seq pack out: in0 10, out 210"
        " m 21 seq pack in0: in0 1600, out 1"
        " m 10 of 29 prim: in0 1, out 21 n 7 prim: in1 40, out 609"
        " k 40 prim: in0 31, in1 1 }",
        "nest way f32 { first zero main gemm pack in1"
        " k 2 seq: in0 1060, in1 20 m 21 seq pack in0: in0 2000, out 53"
        " m 53 prim: in0 1, out 1 n 3 prim: in1 37, out 1113"
        " k 20 of 37 prim: in0 53, in1 1 }",
        "nest place f32 { first zero main gemm pack in1"
        " m 5 seq pack out: in0 96, out 4960"
        " m 31 seq: in0 500, out 1 m 2 of 9 seq: in0 48, out 2480"
        " m 48 prim: in0 1, out 31 n 24 prim: in1 29, out 50000"
        " k 29 prim: in0 40009, in1 1 }",
        "nest place f64 { main gemm last relu pack in1"
        " m 19 seq pack out: in0 53, out 1 m 3 seq: in0 20, out 380"
        " m 20 of 53 prim: in0 1, out 19 n 11 prim: in1 33, out 4000"
        " k 33 prim: in0 50000, in1 1 }",
        // Transposed, with loops within one page and over many, and tiles of
        // both and of rows.
        "nest turned f32 { first zero main gemm pack in1"
        " m 2 seq: in0 15000, out 38 m 2 seq pack out: in0 144, out 1140"
        " m 19 seq: in0 900, out 1 m 2 of 4 seq: in0 7500, out 19"
        " m 3 of 5 seq: in0 48, out 380"
        " m 48 prim: in0 1, out 2000 n 13 prim: in1 29, out 96000"
        " k 29 prim: in0 40009, in1 1 }",
        "nest turned f32 { main gemm last relu pack in1"
        " k 3 seq pack out: in0 320072, in1 8 m 3 seq: in0 20, out 8000"
        " m 3 seq: in0 3600, out 8 m 8 of 19 seq: in0 450, out 1"
        " m 20 of 53 prim: in0 1, out 400 n 7 prim: in1 23, out 25000"
        " k 8 of 23 prim: in0 40009, in1 1 }",
        "nest turned f64 { first zero main gemm last relu pack in1"
        " m 1 seq pack out: in0 17100, out 19 m 19 of 19 seq: in0 900, out 1"
        " m 2 seq: in0 450, out 20 m 3 seq: in0 50, out 6000"
        " m 50 of 150 prim: in0 1, out 120 n 5 prim: in1 31, out 20000"
        " k 31 prim: in0 40009, in1 1 }",
        "nest rows f32 { first zero main gemm m 3 seq: in0 9000, out 40000"
        " m 2 seq pack out: in0 2720, out 16 m 16 of 23 seq: in0 170, out 1"
        " m 17 prim: in0 10, out 23 n 24 prim: in1 1, out 1500"
        " k 10 prim: in0 1, in1 24 }",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (int as_is = 0; as_is < 2; as_is++)
            for (int threads = 1; threads < 4; threads++)
                agrees(*state, texts[i], threads, as_is);
}

static void odd_kinds(void **state)
{
    static const char *const texts[] = {
        // Elementwise; a dot product; a batch of dot products; an outer
        // product.
        "nest e f32 { first zero main gemm c 37 seq: in0 1, in1 1, out 1 }",
        "nest e f64 { main gemm last relu c 9 seq: in0 5, in1 1, out 1"
        " c 5 seq: in0 1, in1 9, out 9 }",
        "nest d f32 { first zero main gemm k 1001 seq: in0 1, in1 1 }",
        "nest d f64 { main gemm k 77 seq: in0 3, in1 -2 }",
        "nest b f32 { first zero main gemm c 13 seq: in0 31, in1 31, out 1"
        " k 31 seq: in0 1, in1 1 }",
        "nest o f32 { first zero main gemm m 41 seq: in0 1, out 1"
        " n 43 seq: in1 1, out 41 }",
        // Matrix times vector, with the matrix in either order.
        "nest v f32 { first zero main gemm m 129 seq: in0 1, out 1"
        " k 131 seq: in0 129, in1 1 }",
        "nest v f32 { first zero main gemm m 129 seq: in0 131, out 1"
        " k 131 seq: in0 1, in1 1 }",
        "nest v f64 { main gemm n 67 seq: in1 71, out 2"
        " k 71 seq: in0 1, in1 1 }",
        // No unit stride; negative strides; overlapping windows.
        "nest s f32 { first zero main gemm m 9 seq: in0 2, out 3"
        " n 11 seq: in1 3, out 40 k 13 seq: in0 30, in1 50 }",
        "nest r f32 { first zero main gemm m 9 seq: in0 -1, out 1"
        " n 11 seq: in1 13, out 9 k 13 seq: in0 9, in1 -1 }",
        "nest w f32 { first zero main gemm m 30 seq: in0 1, out 1"
        " n 8 seq: in1 5, out 30 k 5 seq: in0 1, in1 1 }",
        // A single element in in1.
        "nest n f32 { first zero main gemm m 30 seq: in0 1, out 1"
        " k 1 seq: in0 1, in1 1 }",
        // A split k.
        "nest k f32 { main gemm last relu m 3 seq: in0 1, out 1"
        " n 5 seq: in1 30011, out 3 k 30011 seq: in0 3, in1 1 }",
        // Distant rows of k, which are packed.
        "nest t f32 { first zero main gemm m 64 seq: in0 1, out 24"
        " n 24 seq: in1 1, out 1 k 16400 seq: in0 64, in1 24 }",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (int threads = 1; threads < 5; threads++)
            agrees(*state, texts[i], threads, 0);
}

// All touches of mini_jit, before and after both its products, with and without
// loops over k around the kernel.
static void touches(void **state)
{
    static const char *const kinds[] = {"none", "zero", "copy", "relu", "neg"};
    static const char *const mains[] = {
        "gemm k 3 seq: in0 48, in1 6 m 8 prim: in0 1, out 1"
        " n 6 prim: in1 18, out 8 k 6 prim: in0 8, in1 1",
        "brgemm k 3 prim: in0 48, in1 6 m 8 prim: in0 1, out 1"
        " n 6 prim: in1 18, out 8 k 6 prim: in0 8, in1 1"};
    char text[300];
    for (int i = 0; i < 2 * 5 * 5; i++) {
        snprintf(text, sizeof text,
                 "nest t f32 { first %s last %s m 4 seq: in0 144, out 48"
                 " main %s }",
                 kinds[i % 5], kinds[i / 5 % 5], mains[i / 25]);
        agrees(*state, text, 1 + i % 3, i % 2);
    }
}

// In0 or in1 is out itself. A divisor that is constant along a row may be
// inverted once.
static void in_place(void **state)
{
    static const struct {
        const char *text;
        int at_in1; // in1 is out; otherwise in0
    } cases[] = {{"nest b f32 { main div c 7 seq: in0 50, in1 50, out 50"
                  " c 45 seq: in0 1, in1 1, out 1 }",
                  0},
                 {"nest b f32 { main div c 7 seq: in0 50, in1 50, out 50"
                  " c 45 seq: in0 1, in1 1, out 1 }",
                  1},
                 {"nest b f32 { main div c 7 seq: in0 50, in1 1, out 50"
                  " m 45 seq: in0 1, out 1 }",
                  0},
                 {"nest b f32 { main div n 7 seq: in1 50, out 50"
                  " c 45 seq: in0 1, in1 1, out 1 }",
                  1}};
    for (int i = 0; i < 4; i++) {
        dv_nest *n = nest_of(cases[i].text);
        float other[350], got[350], want[350];
        for (int k = 0; k < 350; k++) {
            got[k] = want[k] = (float)(k % 23) - 7.5f;
            other[k] = (float)(k % 31) + 0.7f;
        }
        dv_contract *c = NULL;
        dv_contract_options options = {.size = sizeof(dv_contract_options),
                                       .threads = 2};
        assert_int_equal(dv_contract_create(&c, *state, n, &options, NULL),
                         DV_OK);
        int swap = cases[i].at_in1;
        eval_nest(n, swap ? other : want, swap ? want : other, want);
        assert_int_equal(dv_contract_run(c, swap ? other : got,
                                         swap ? got : other, NULL, got, NULL),
                         DV_OK);
        for (int k = 0; k < 350; k++)
            assert_true(fabsf(got[k] - want[k]) <= 0x1p-22f * fabsf(want[k]));
        dv_contract_destroy(c);
        dv_nest_destroy(n);
    }
}

// -- Wrong input -------------------------------------------------------------

static void refuses(dv_jit *jit, const char *text, int threads, int as_is,
                    dv_status want)
{
    dv_nest *n = nest_of(text);
    dv_contract_options options = {.size = sizeof(dv_contract_options),
                                   .threads = threads,
                                   .optimise = (dv_nest_optimise_level)as_is};
    dv_contract *c = NULL;
    assert_int_equal(dv_contract_create(&c, jit, n, &options, NULL), want);
    assert_null(c);
    dv_nest_destroy(n);
}

static void wrong(void **state)
{
    const char *good = "nest g f32 { main gemm m 4 seq: in0 1, out 1"
                       " n 4 seq: in1 4, out 4 k 4 seq: in0 4, in1 1 }";
    refuses(*state, good, -1, 0, DV_E_USAGE);
    refuses(*state, good, 2000, 0, DV_E_USAGE);
    // N5, N6: refused with its own loops: loops behind prims, two m inside, an
    // operand whose elements cannot be counted.
    refuses(*state,
            "nest u f32 { main relu m 4 prim: in0 1, out 1"
            " n 4 seq: in0 4, out 4 }",
            1, 1, DV_E_NEST);
    refuses(*state,
            "nest o f32 { main gemm m 4 prim: in0 1, out 1"
            " k 4 seq: in0 4, in1 1 }",
            1, 1, DV_E_NEST);
    refuses(*state,
            "nest m f32 { main gemm m 4 prim: in0 1, out 1"
            " m 4 prim: in0 4, out 8 k 4 prim: in0 16, in1 1 }",
            1, 1, DV_E_NEST);
    refuses(*state,
            "nest s f32 { main gemm m 4 prim: in0 2, out 1"
            " n 4 prim: in1 4, out 4 k 4 prim: in0 9, in1 1 }",
            1, 1, DV_E_NEST);
    // N5: k is shared.
    refuses(*state,
            "nest k f32 { main gemm k 4 shared: in0 4, in1 1"
            " m 4 prim: in0 1, out 1 }",
            1, 1, DV_E_NEST);
}

// A loop over k around the kernel is moved inside, unless kernels could not
// read the operands then.
static void k_around(void **state)
{
    agrees(*state,
           "nest h f32 { first zero main gemm m 2 seq: in0 1, out 64"
           " k 128 seq: in0 64, in1 512 m 4 prim: in0 16384, out 8"
           " n 8 prim: in1 2, out 1 k 64 prim: in0 2, in1 16 }",
           1, LOOPS);
    dv_nest *n = nest_of("nest g f32 { main gemm m 4 seq: in0 8192, out 4096"
                         " n 4 seq: in1 8192, out 1024"
                         " k 8 seq: in0 1024, in1 1024 m 32 prim: in0 1, out 1"
                         " n 32 prim: in1 32, out 32"
                         " k 32 prim: in0 32, in1 1 }");
    dv_contract_options options = {.size = sizeof(dv_contract_options),
                                   .optimise = DV_NEST_OPTIMISE_PACKING};
    dv_contract *c = NULL;
    assert_int_equal(dv_contract_create(&c, *state, n, &options, NULL), DV_OK);
    assert_int_equal(dv_contract_nest(c)->main, DV_PRIM_BRGEMM);
    dv_contract_destroy(c);
    dv_nest_destroy(n);
    // Too distant for all of k to be packed at once.
    n = nest_of("nest h f32 { first zero main gemm m 8 seq: in0 64, out 32768"
                " n 8 seq: in1 64, out 64 k 192 seq: in0 131072, in1 131072"
                " m 64 prim: in0 1, out 512 n 64 prim: in1 1, out 1"
                " k 256 prim: in0 512, in1 512 }");
    assert_int_equal(dv_contract_create(&c, *state, n, &options, NULL), DV_OK);
    assert_int_equal(dv_nest_packed(dv_contract_nest(c)) & 3, 3);
    dv_contract_destroy(c);
    dv_nest_destroy(n);
}

// A sum that is long beside the number of results is split along k.
static void long_sums(void **state)
{
    for (int threads = 1; threads < 5; threads++)
        agrees(*state,
               "nest k f64 { first zero main gemm last relu"
               " m 3 seq: in0 1, out 1 n 5 seq: in1 30011, out 3"
               " k 30011 seq: in0 3, in1 1 }",
               threads, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(original),       cmocka_unit_test(large_results),
        cmocka_unit_test(large_operands), cmocka_unit_test(odd_kinds),
        cmocka_unit_test(touches),        cmocka_unit_test(in_place),
        cmocka_unit_test(wrong),          cmocka_unit_test(k_around),
        cmocka_unit_test(long_sums),
    };
    return run_group(tests, jit_begin, jit_end);
}
