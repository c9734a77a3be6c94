// The program of a nest: shapes of its tensors, indices, and what has none.
#include "harness/contract_case.h"
#include "harness/unit.h"

static void becomes(const char *nest, const char *want)
{
    dv_nest *n = nest_of(nest);
    dv_text text = {0};
    assert_int_equal(dv_nest_program_text(&text, n, NULL), DV_OK);
    assert_string_equal(text.at, want);
    dv_text_free(&text);
    dv_nest_destroy(n);
}

// Tiles are undone, dimensions of size 1 are left out, and strides become dims:
// of rows with gaps, of columns, and of windows that overlap.
TEST(shapes)
{
    becomes("nest c f32 { main gemm last relu m 2 seq: in0 3, out 12"
            " m 3 of 5 seq: in0 1, out 4 n 1 seq: in1 9, out 1"
            " k 7 seq: in0 6, in1 -1 }",
            "input in0: f32[7,6]\ninput in1: f32[7]\ninput out: f32[5,4]\n"
            "out[m0,0] <- relu((out[m0,0]+(sum[k1] in0[k1,m0]*in1[6-k1])))"
            " for m0 in 0..5, k1 in 0..7\noutput out\n");
    becomes("nest w f64 { first zero main sum mean c 4 seq: in0 20, out 1"
            " c 5 seq: in0 2, out 4 k 3 seq: in0 1 }",
            "input in0: f64[4,20]\ninput out: f64[5,4]\n"
            "out[c1,c0] <- (mean[k2] in0[c0,2*c1+k2])"
            " for c0 in 0..4, c1 in 0..5, k2 in 0..3\noutput out\n");
    becomes("nest s i32 { first one main max_over in0 i8 last exp"
            " k 1 seq: in0 1 }",
            "input in0: i8[]\ninput out: i32[]\n"
            "out[] <- exp(max((1),(max[k0] in0[]))*1.0)"
            " for k0 in 0..1\noutput out\n");
}

TEST(constants)
{
    becomes("nest c f32 { main select in0 i8 in1 = 0.1 in2 = -inf"
            " c 3 seq: in0 1, out 2 }",
            "input in0: i8[3]\ninput out: f32[3,2]\n"
            "out[c0,0] <- select(in0[c0],(0.10000000149011612),(-inf))"
            " for c0 in 0..3\noutput out\n");
    becomes("nest c i32 { main div in1 = 2 c 3 seq: in0 1, out 1 }",
            "input in0: i32[3]\ninput out: i32[3]\n"
            "out[c0] <- (in0[c0]*1.0/(2)) for c0 in 0..3\noutput out\n");
    becomes("nest c f32 { main sum last one c 3 seq: in0 2, out 1"
            " k 2 seq: in0 1 }",
            "input out: f32[3]\nout[c0] <- (1) for c0 in 0..3\noutput out\n");
}

// An index has a dim of its own. The variables of a scatter stand in the order
// of the loops, because the last of several writes wins.
TEST(indices)
{
    becomes("nest g f32 { main copy look in0 by in2 4 of 5 in2 i32"
            " c 2 seq: in0 20, out 12 c 3 seq: in2 1, out 4"
            " c 4 seq: in0 1, out 1 }",
            "input in0: f32[2,5,4]\ninput out: f32[2,3,4]\n"
            "input in2: i32[3]\nout[c0,c1,c2] <- in0[c0,in2[c1],c2]"
            " for c0 in 0..2, c1 in 0..3, c2 in 0..4\noutput out\n");
    becomes("nest s f32 { main copy look out by in2 1 of 5 in2 i32"
            " c 2 seq: in0 1, in2 1 c 3 seq: in0 2, in2 2 }",
            "input in0: f32[3,2]\ninput out: f32[5]\ninput in2: i32[6]\n"
            "out[in2[c0+2*c1]] <- in0[c1,c0]"
            " for c0 in 0..2, c1 in 0..3\noutput out\n");
}

static void has_none(const char *nest, const char *why)
{
    dv_nest *n = nest_of(nest);
    dv_text text = {0};
    dv_diag *diag = dv_diag_create();
    assert_int_equal(dv_nest_program_text(&text, n, diag), DV_E_NEST);
    if (!strstr(dv_diag_text(diag), why))
        fail_msg("not %s: %s", why, dv_diag_text(diag));
    dv_diag_destroy(diag);
    dv_text_free(&text);
    dv_nest_destroy(n);
}

TEST(not_programs)
{
    // Rows overlap; there is a gap behind the last row.
    has_none("nest g f32 { main copy look in0 by in2 3 of 5 in2 i32"
             " c 3 seq: in2 1, out 4 c 4 seq: in0 1, out 1 }",
             "in0 of nest g has other strides");
    has_none("nest g f32 { main copy look in0 by in2 4 of 5 in2 i32"
             " c 2 seq: in0 21, out 12 c 3 seq: in2 1, out 4"
             " c 4 seq: in0 1, out 1 }",
             "an index of 0 to 4 in steps of 4");
    has_none("nest s f32 { main copy look out by in2 1 of 5 in2 i32"
             " c 2 seq: in0 3, in2 3 c 3 of 5 seq: in0 1, in2 1 }",
             "order of writes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes), cmocka_unit_test(constants),
        cmocka_unit_test(indices), cmocka_unit_test(not_programs)};
    return run_group(tests, NULL, NULL);
}
