// Contractions with given loops: which blocks of rows one kernel call computes,
// and what is packed for them.
#include "harness/test.h"
#include "contract/state.h"
#include "harness/contract_case.h"

// Returns how many turns of the innermost loop one kernel call takes.
static int at_once(dv_jit *jit, const char *text)
{
    dv_nest *n = nest_of(text);
    dv_contract_options options = {.size = sizeof(dv_contract_options),
                                   .optimise = DV_NEST_OPTIMISE_NONE};
    dv_contraction *c = NULL;
    assert_int_equal(dv_contraction_create(&c, jit, n, &options, NULL), DV_OK);
    int turns = c->at_once;
    dv_contraction_destroy(c);
    dv_nest_destroy(n);
    return turns;
}

// One kernel call computes several blocks of rows in a buffer if their results
// are adjacent and no block has a remainder.
static void joined(void **state)
{
    static const struct {
        int turns;
        const char *text;
    } cases[] = {
        {4, "nest all f32 { first zero main gemm last relu pack in0"
            " n 2 seq pack in1: in1 9600, out 3072"
            " m 3 seq: in0 3072, out 6144"
            " n 4 of 8 seq: in1 2400, out 768 m 32 prim: in0 1, out 1"
            " n 24 prim: in1 96, out 32 k 96 prim: in0 32, in1 1 }"},
        {8, "nest shared f64 { main gemm pack in0 in1"
            " m 3 shared: in0 3072, out 6144 n 8 seq: in1 2400, out 768"
            " m 32 prim: in0 1, out 1 n 24 prim: in1 96, out 32"
            " k 96 prim: in0 32, in1 1 }"},
        {4, "nest panel f32 { first zero main gemm last relu pack in0 in1"
            " n 4 seq: in1 24, out 192 m 8 prim: in0 1, out 1"
            " n 24 prim: in1 1, out 8 k 5 prim: in0 8, in1 96 }"},
        {1, "nest short f32 { main gemm pack in0"
            " n 3 seq pack in1: in1 7200, out 2304"
            " m 3 seq: in0 3072, out 6144"
            " n 3 of 8 seq: in1 2400, out 768 m 32 prim: in0 1, out 1"
            " n 24 prim: in1 96, out 32 k 96 prim: in0 32, in1 1 }"},
        {1, "nest apart f32 { main gemm pack in0 in1"
            " m 3 seq: in0 3072, out 6400 n 8 seq: in1 2400, out 800"
            " m 32 prim: in0 1, out 1 n 24 prim: in1 96, out 32"
            " k 96 prim: in0 32, in1 1 }"},
        {1, "nest odd f32 { main gemm pack in0 in1"
            " m 3 seq: in0 3072, out 6656 n 8 seq: in1 2600, out 832"
            " m 32 prim: in0 1, out 1 n 26 prim: in1 96, out 32"
            " k 96 prim: in0 32, in1 1 }"},
        {1, "nest tail f32 { main gemm pack in0 in1"
            " m 3 seq: in0 3072, out 6144 n 8 seq: in1 24, out 768"
            " m 32 prim: in0 1, out 1 n 24 of 185 prim: in1 1, out 32"
            " k 96 prim: in0 32, in1 192 }"},
        {1, "nest rest f32 { main gemm pack in0 in1 k 2 seq: in0 3072, in1 96"
            " n 8 seq: in1 4800, out 768 m 32 prim: in0 1, out 1"
            " n 24 prim: in1 200, out 32 k 96 of 190 prim: in0 32, in1 1 }"},
        {1, "nest wide f32 { first zero main gemm pack in0"
            " n 3 seq: in1 1600, out 48000 m 5 seq: in0 48, out 9600"
            " m 24 prim: in0 2, out 400 n 400 prim: in1 1, out 1"
            " k 2 prim: in0 1, in1 800 }"},
        {1, "nest turns f32 { main gemm pack in0"
            " n 8 seq pack in1: in1 2304, out 768 m 32 prim: in0 1, out 1"
            " n 24 prim: in1 96, out 32 k 96 prim: in0 32, in1 1 }"},
        {1, "nest sums f32 { main gemm pack in0 in1 n 8 seq: in1 4800, out 768"
            " k 2 seq: in0 3072, in1 96 m 32 prim: in0 1, out 1"
            " n 24 prim: in1 200, out 32 k 96 prim: in0 32, in1 1 }"},
        {1, "nest batch f32 { main gemm pack in0 in1"
            " c 3 seq: in0 3072, in1 2304, out 768 m 32 prim: in0 1, out 1"
            " n 24 prim: in1 96, out 32 k 96 prim: in0 32, in1 1 }"},
        {1, "nest cols f32 { main gemm pack in0 in1 n 2 seq: in1 2400, out 2304"
            " m 3 seq: in0 3072, out 32 m 32 prim: in0 1, out 1"
            " n 24 prim: in1 96, out 96 k 96 prim: in0 32, in1 1 }"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(at_once(*state, cases[i].text), cases[i].turns);
        for (int threads = 1; threads < 4; threads++)
            agrees(*state, cases[i].text, threads, 1);
    }
}

// With given loops the operands to pack are chosen, unless they are given, too;
// a single product leaves that to its plan.
static void packed_loops(void **state)
{
    static const struct {
        int chosen;
        const char *text;
    } cases[] = {
        {1, "nest blocks f32 { main brgemm last relu"
            " m 16 seq: in0 32768, out 65536 n 16 seq: in1 32768, out 4096"
            " k 8 prim: in0 4096, in1 4096 m 64 prim: in0 1, out 1"
            " n 64 prim: in1 64, out 64 k 64 prim: in0 64, in1 1 }"},
        {0, "nest packed f32 { main gemm pack in0"
            " n 8 seq pack in1: in1 2304, out 768 m 32 prim: in0 1, out 1"
            " n 24 prim: in1 96, out 32 k 96 prim: in0 32, in1 1 }"},
        {0, "nest plain f32 { main gemm m 64 prim: in0 1, out 1"
            " n 64 prim: in1 64, out 64 k 64 prim: in0 64, in1 1 }"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dv_nest *n = nest_of(cases[i].text);
        dv_contract_options options = {.size = sizeof(dv_contract_options),
                                       .optimise = DV_NEST_OPTIMISE_PACKING};
        dv_contraction *c = NULL;
        assert_int_equal(dv_contraction_create(&c, *state, n, &options, NULL),
                         DV_OK);
        const dv_nest *as = dv_contraction_nest(c);
        int packs = as->pack != n->pack;
        assert_int_equal(as->n_dims, n->n_dims);
        for (int d = 0; d < n->n_dims; d++) {
            packs |= as->dims[d].pack != n->dims[d].pack;
            assert_int_equal(as->dims[d].size, n->dims[d].size);
            assert_int_equal(as->dims[d].type, n->dims[d].type);
        }
        assert_int_equal(packs, cases[i].chosen);
        dv_contraction_destroy(c);
        dv_nest_destroy(n);
        agrees(*state, cases[i].text, 2, LOOPS);
    }
}

// Blocks of k with a single row or column, so that both operands are dense
// within a block.
static void blocks_of_lines(void **state)
{
    static const char *const texts[] = {
        "nest rows f64 { main gemm last relu"
        " k 4 seq pack in0 in1: in0 100, in1 3 m 5 prim: in0 3, out 3"
        " n 1 prim: in1 1, out 1 k 3 prim: in0 1, in1 1 }",
        "nest columns f32 { first zero main gemm"
        " k 4 seq: in0 3, in1 100 m 1 prim: in0 1, out 9"
        " n 5 prim: in1 3, out 1 k 3 prim: in0 1, in1 1 }",
        "nest one f32 { main gemm k 4 seq: in0 3, in1 3"
        " m 1 prim: in0 1, out 1 n 1 prim: in1 1, out 1"
        " k 3 prim: in0 1, in1 1 }",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (int threads = 1; threads < 4; threads++)
            agrees(*state, texts[i], threads, 1);
}

// A tile loop of one turn stays around the loops of its tile, also for packing,
// because the innermost tile has a remainder.
static void one_tile(void **state)
{
    agrees(*state,
           "nest tiles f32 { first zero main gemm pack in1"
           " m 3 seq: in0 512, out 16 n 3 seq: in1 12800, out 9600"
           " n 1 of 410 seq: in1 12800, out 9600"
           " n 10 of 410 seq: in1 1280, out 960 m 16 prim: in0 1, out 1"
           " n 20 of 410 prim: in1 64, out 48 k 32 prim: in0 16, in1 1 }",
           2, 1);
}

// Results that are added to existing values need room in L1 beside a panel.
static void wide_panels(void **state)
{
    enum { L1 = 64 << 10 };
    static const struct {
        int most;
        dv_prim first;
        dv_dtype dtype;
        int vectors;
        double cols, k;
    } cases[] = {
        {6, DV_PRIM_NONE, DV_F32, 6, 64, 256},
        {6, DV_PRIM_NONE, DV_F32, 6, 64, 426},
        {5, DV_PRIM_NONE, DV_F32, 6, 64, 427},
        {5, DV_PRIM_NONE, DV_F32, 6, 61, 512},
        {6, DV_PRIM_NONE, DV_F32, 6, 24, 512},
        {6, DV_PRIM_NONE, DV_F32, 6, 93, 512},
        {6, DV_PRIM_ZERO, DV_F32, 6, 64, 512},
        {5, DV_PRIM_ZERO, DV_F64, 6, 64, 16},
        {3, DV_PRIM_NONE, DV_F32, 3, 64, 512},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dv_nest n = {.first = cases[i].first, .dtype = cases[i].dtype};
        assert_int_equal(dv_nest_panel_vectors(&n, cases[i].vectors,
                                               cases[i].cols, cases[i].k, L1),
                         cases[i].most);
        assert_int_equal(dv_nest_panel_vectors(&n, 6, 64, 1, INT64_MAX),
                         cases[i].dtype == DV_F32 ? 6 : 5);
    }
    agrees(*state,
           "nest deep f32 { main gemm last relu pack in0 in1"
           " m 2 seq: in0 32768, out 8192 n 2 seq: in1 32768, out 4096"
           " m 64 prim: in0 1, out 1 n 64 prim: in1 512, out 64"
           " k 512 prim: in0 64, in1 1 }",
           1, 1);
}

// Overlapping windows of rows: the packed part of a row is longer than the
// distance to the next row.
static void windows(void **state)
{
    static const int channels[] = {1, 5, 8, 13, 64};
    char text[400];
    for (int i = 0; i < 20; i++) {
        int c = channels[i % 5], o = i < 10 ? 10 : 33, wide = 13;
        const char *x = i % 2 ? "in0" : "in1", *w = i % 2 ? "in1" : "in0";
        char of_x = i % 2 ? 'm' : 'n', of_w = i % 2 ? 'n' : 'm';
        snprintf(text, sizeof text,
                 "nest w %s { first zero main gemm last relu"
                 " %c 6 seq: %s %d, out %d %c 11 seq: %s %d, out %d"
                 " %c %d seq: %s 1, out 1 k 3 seq: %s %d, %s %d"
                 " k %d seq: %s 1, %s %d }",
                 i % 3 ? "f32" : "f64", of_x, x, wide * c, 11 * o, of_x, x, c,
                 o, of_w, o, w, x, wide * c, w, 3 * c * o, 3 * c, x, w, o);
        agrees(*state, text, 1 + i % 3, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(joined),          cmocka_unit_test(packed_loops),
        cmocka_unit_test(blocks_of_lines), cmocka_unit_test(one_tile),
        cmocka_unit_test(wide_panels),     cmocka_unit_test(windows)};
    return run_group(tests, jit_begin, jit_end);
}
