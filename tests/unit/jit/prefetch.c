// Kernels that prefetch what is read next.
#define _GNU_SOURCE
#include "harness/gemm_case.h"

enum { MOST_ASKS = 512 };

// Lists the prefetches of a NEON kernel: their number, and how far ahead they
// are in bytes.
static int list_asks(dv_gemm_shape s, int *ahead)
{
    dv_jit *jit = new_jit();
    dv_gemm_fn run;
    dv_text text = {0};
    int n = 0;
    assert_int_equal(dv_jit_gemm(jit, &s, &run, NULL), DV_OK);
    dv_jit_list(jit, &text, NULL, NULL);
    for (const char *p = text.at; (p = strstr(p, "f98")); p += 3)
        if (p[-1] == ' ' && strspn(p, "0123456789abcdef") == 8) {
            assert_true(n < MOST_ASKS);
            ahead[n++] = (int)(strtoul(p, NULL, 16) >> 10 & 0xfff) * 8;
        }
    dv_text_free(&text);
    dv_jit_destroy(jit);
    return n;
}

static int count_asks(dv_gemm_shape s)
{
    int ahead[MOST_ASKS];
    return list_asks(s, ahead);
}

static int has_neon(void)
{
    dv_jit *jit = new_jit();
    int neon = !strncmp(dv_jit_isa(jit)->name, "neon", 4);
    dv_jit_destroy(jit);
    return neon;
}

// Kernels that read from memory prefetch what comes next while k runs.
TEST(gemm_asks)
{
    if (!has_neon())
        skip_test("the kernels are not for NEON");
    dv_gemm_shape s = {.m = 24, .n = 24, .k = 48, .dtype = DV_F32};
    s.trans_a = 1;
    s.lda = 5000;
    int plain = count_asks(s);
    s.ahead_a = 1;
    assert_true(count_asks(s) >= plain + 8);
    s.ahead_a = 0;
    s.lda = 24;
    s.ldb = 5000;
    s.panel_a = 4;
    s.pack_b = 1;
    s.next_b = DV_NEXT_SPREAD;
    int spread = count_asks(s);
    s.m = 4; // the only tile prefetches every row
    assert_true(spread > 0 && count_asks(s) > 0);
}

// Each of four tiles prefetches a quarter of the lines behind the rows: a
// quarter of the steps look ahead as far as the tile is from the end of its
// line.
TEST(gemm_asks_in_turns)
{
    if (!has_neon())
        skip_test("the kernels are not for NEON");
    int ahead[MOST_ASKS], found[4] = {0};
    dv_gemm_shape s = {.m = 48, .n = 24, .k = 48, .dtype = DV_F32};
    s.trans_a = s.ahead_a = 1;
    s.lda = 5000; // a pointer walks over rows of k: offsets are within a row
    int n = list_asks(s, ahead), near = 0;
    for (int i = 0; i < n; i++)
        if (ahead[i] >= 64 && ahead[i] < 128) {
            found[ahead[i] / 16 % 4]++;
            near++;
        }
    assert_true(near >= 8);
    for (int i = 0; i < 4; i++)
        assert_in_range(found[i], near / 4 - 1, near / 4 + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(gemm_asks),
                                       cmocka_unit_test(gemm_asks_in_turns)};
    return run_group(tests, NULL, NULL);
}
