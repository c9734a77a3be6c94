// Epilogues of sums: the same bits as a statement of its own gives, for
// operands in any layout, on any number of threads (N8); and what the oracle
// gives.
#include "harness/test.h"
#include "harness/unit.h"
#include <stdio.h>

// Sizes exceed a block's rows and the columns that are finished together; also
// a single row, a single column, a single k.
static const struct {
    const char *inputs, *write, *sum, *rest; // $ stands for the sum
} cases[] = {
    {"a: f32[410, 9]\ninput b: f32[9, 700]", "y[m,n]", "[k] a[m,k] * b[k,n]",
     "gelu($)"},
    {"a: f32[410, 70]\ninput b: f32[700, 70]", "y[m,n]", "[k] a[m,k] * b[n,k]",
     "gelu($)"},
    {"a: f32[70, 410]\ninput b: f32[70, 333]", "y[n,m]", "[k] a[k,m] * b[k,n]",
     "tanh($) * 0.5"},
    {"a: f32[411, 1300]\ninput b: f32[1300, 37]\ninput v: f32[37]\n"
     "input r: f32[411, 37]",
     "y[m,n]", "[k] a[m,k] * b[k,n]", "gelu($ + v[n]) + r[m,n]"},
    {"a: f64[401, 33]\ninput b: f64[333, 33]\ninput v: f64[401]", "y[m,n]",
     "[k] a[m,k] * b[n,k]", "exp($ - v[m])"},
    {"a: f32[3, 390, 40]\ninput b: f32[3, 40, 260]", "y[z,m,n]",
     "[k] a[z,m,k] * b[z,k,n]", "sigmoid($)"},
    {"a: f32[3, 390, 40]\ninput b: f32[3, 260, 40]", "y[m,z,n]",
     "[k] a[z,m,k] * b[z,n,k]", "sigmoid($)"},
    {"a: f32[20, 30, 40]\ninput b: f32[40, 260]", "y[i,j,n]",
     "[k] a[i,j,k] * b[k,n]", "silu($)"},
    {"a: f32[30, 20, 40]\ninput b: f32[260, 40]", "y[i,n,j]",
     "[k] a[j,i,k] * b[n,k]", "silu($)"},
    // Two variables along the rows, or the columns, of blocks: in either order
    // in the factor, with a third one, or with a residual.
    {"a: f32[40, 20, 30]\ninput b: f32[40, 260]", "y[j,i,n]",
     "[k] a[k,i,j] * b[k,n]", "tanh($)"},
    {"a: i8[17, 15, 8]\ninput b: i8[17, 97]", "y[j,i,n]: i32",
     "[k] a[k,i,j] * b[k,n]", "relu($) + 1"},
    {"a: f32[7, 20, 30, 40]\ninput b: f32[40, 60]\ninput r: f32[7, 20, 30, 60]",
     "y[h,i,j,n]", "[k] a[h,i,j,k] * b[k,n]", "min(max($ + r[h,i,j,n], 0), 6)"},
    {"a: f32[90, 64]\ninput b: f32[64, 21, 33]", "y[m,i,j]",
     "[k] a[m,k] * b[k,i,j]", "min(max($, 0), 6)"},
    {"a: f32[90, 64]\ninput b: f32[33, 21, 64]", "y[m,i,j]",
     "[k] a[m,k] * b[j,i,k]", "sigmoid($)"},
    {"a: f32[9, 11, 64]\ninput b: f32[64, 21, 33]", "y[h,g,i,j]",
     "[k] a[h,g,k] * b[k,i,j]", "silu($)"},
    {"a: f32[1, 300]\ninput b: f32[500, 300]", "y[m,n]", "[k] a[m,k] * b[n,k]",
     "gelu($)"},
    {"a: f32[500, 300]\ninput b: f32[1, 300]", "y[m,n]", "[k] a[m,k] * b[n,k]",
     "gelu($)"},
    {"a: f32[300, 40]\ninput b: f32[40, 260]\ninput v: f32[300]", "y[m,n]",
     "[k] a[m,k] * b[k,n]", "$ / v[m]"},
    {"a: f32[300, 40]\ninput b: f32[40, 260]\ninput v: f32[260]", "y[n,m]",
     "[k] a[m,k] * b[k,n]", "gelu($ / v[n])"},
    {"a: f32[450, 1]\ninput b: f32[1, 500]", "y[m,n]", "[k] a[m,k] * b[k,n]",
     "abs($) + 1.0"},
    {"a: bf16[410, 90]\ninput b: bf16[500, 90]", "y[m,n]: f32",
     "[k] a[m,k] * b[n,k]", "gelu($)"},
    {"a: bf16[410, 90]\ninput b: bf16[90, 500]", "y[m,n]: bf16",
     "[k] a[m,k] * b[k,n]", "gelu($)"},
    {"a: f16[41, 90]\ninput b: f16[90, 500]\ninput v: f16[500]", "y[m,n]: f16",
     "[k] a[m,k] * b[k,n]", "tanh($) * v[n]"},
    {"a: i8[410, 90]\ninput b: i8[500, 90]\ninput v: i32[500]", "y[m,n]: i32",
     "[k] a[m,k] * b[n,k]", "max($ + v[n], 3)"},
    {"a: i8[410, 90]\ninput b: i8[90, 500]", "y[m,n]: i8",
     "[k] a[m,k] * b[k,n]", "min(max($, -77), 99)"},
    {"a: i8[410, 90]\ninput b: i8[500, 90]\ninput v: f32[500]", "y[m,n]: f32",
     "[k] a[m,k] * b[n,k]", "$ * v[n] - 0.5"},
    {"a: i8[41, 900]\ninput b: i8[900, 50]", "y[m,n]: f32",
     "[k] a[m,k] * b[k,n]", "$"},
    {"a: i8[41, 90]\ninput b: i8[90, 50]\ninput v: bf16[41]", "y[m,n]: bf16",
     "[k] a[m,k] * b[k,n]", "relu($) * v[m]"},
    {"a: f32[70, 40]\ninput b: f32[40, 90]\ninput v: f32[70]", "y[m,n]",
     "[k] a[m,k] * b[k,n]", "relu($ / 40.0 - v[m])"},
    // Factors of two types, and of another type than their sums.
    {"a: f32[41, 90]\ninput b: i8[50, 90]", "y[m,n]", "[k] a[m,k] * b[n,k]",
     "gelu($)"},
    {"a: bf16[41, 90]\ninput b: f16[90, 50]", "y[m,n]: f32",
     "[k] a[m,k] * b[k,n]", "gelu($)"},
    {"a: f64[41, 90]\ninput b: i32[50, 90]", "y[m,n]", "[k] a[m,k] * b[n,k]",
     "gelu($)"},
    // Two reduced variables that cannot be merged into one: the outer one is a
    // loop around the product.
    {"a: f32[410, 40, 7]\ninput b: f32[40, 7, 333]\ninput v: f32[333]",
     "y[m,n]", "[k,l] a[m,k,l] * b[k,l,n]", "gelu($) * v[n]"},
    {"a: f32[110, 40, 70]\ninput b: f32[93, 70, 40]", "y[m,n]",
     "[k,l] a[m,k,l] * b[n,l,k]", "gelu($)"},
    {"a: bf16[110, 40, 64]\ninput b: bf16[93, 40, 64]", "y[m,n]: bf16",
     "[k,l] a[m,k,l] * b[n,k,l]", "gelu($)"},
    {"a: bf16[3, 3, 12, 410]\ninput b: bf16[333, 3, 12, 3]", "y[m,n]: f32",
     "[i,k,l] a[i,l,k,m] * b[n,l,k,i]", "gelu($)"},
};
enum { N_CASES = sizeof cases / sizeof *cases };

// Replaces `$` in a text.
static void put_in(char *to, size_t size, const char *text, const char *what)
{
    const char *at = strchr(text, '$');
    snprintf(to, size, "%.*s%s%s", (int)(at - text), text, what, at + 1);
}

// Writes the program with the epilogue in one statement, and with the sum and
// the epilogue in two.
static void texts_of(int i, char (*text)[400])
{
    char sum[100], rest[200], index[40];
    const char *open = strchr(cases[i].write, '['),
               *close = strchr(cases[i].write, ']');
    int whole = strstr(cases[i].write, ": i") != NULL;
    snprintf(index, sizeof index, "%.*s", (int)(close + 1 - open), open);
    snprintf(sum, sizeof sum, "(sum%s)", cases[i].sum);
    put_in(rest, sizeof rest, cases[i].rest, sum);
    snprintf(text[0], sizeof *text, "input %s\n%s = %s\noutput y\n",
             cases[i].inputs, cases[i].write, rest);
    snprintf(sum, sizeof sum, "c%s", index);
    put_in(rest, sizeof rest, cases[i].rest, sum);
    snprintf(text[1], sizeof *text,
             "input %s\nc%s%s = sum%s\n%s = %s\noutput c, y\n", cases[i].inputs,
             index,
             whole                            ? ": i32"
             : strstr(cases[i].inputs, "f64") ? ""
                                              : ": f32",
             cases[i].sum, cases[i].write, rest);
}

TEST(finished_as_by_a_statement)
{
    char text[2][400];
    for (int i = 0; i < N_CASES; i++) {
        texts_of(i, text);
        for (int threads = 1; threads < 4; threads++)
            same_y(text[0], text[1], threads);
    }
}

// With the address sanitizer the oracle takes minutes: some cases suffice
// there, since the test above runs all of them.
#ifdef __SANITIZE_ADDRESS__
enum { ORACLE_STEP = 5 };
#else
enum { ORACLE_STEP = 1 };
#endif

TEST(finished_as_by_the_oracle)
{
    char text[2][400];
    for (int i = 0; i < N_CASES; i += ORACLE_STEP) {
        job j;
        texts_of(i, text);
        start(&j, text[0], 2, DV_RUN_THREADS);
        is_right(&j, 0);
        job_stop(&j);
    }
}

// A mean is a sum and a division.
TEST(means)
{
    static const char in[] = "input a: f32[410, 40]\ninput b: f32[300, 40]\n";
    char text[2][400];
    for (int i = 0; i < 2; i++)
        for (int threads = 1; threads < 4; threads++) {
            const char *f = i ? "relu" : "";
            snprintf(text[0], sizeof *text,
                     "%sy[m,n] = %s(mean[k] a[m,k] * b[n,k])\noutput y\n", in,
                     f);
            snprintf(text[1], sizeof *text,
                     "%sc[m,n] = sum[k] a[m,k] * b[n,k]\n"
                     "y[m,n] = %s(c[m,n] / 40.0)\noutput c, y\n",
                     in, f);
            same_y(text[0], text[1], threads);
        }
}

// G6: updates that also read their own tensor, as it was before; and updates of
// a part of it.
TEST(updates_find_what_was_there)
{
    static const char *const updates[][2] = {
        {"y[m,n] <- gelu(y[m,n] + sum[k] a[m,k] * b[n,k])\noutput y\n",
         "c[m,n] = sum[k] a[m,k] * b[n,k]\n"
         "y[m,n] <- gelu(y[m,n] + c[m,n])\noutput c, y\n"},
        {"y[2 * m + 1, n + 30] <- gelu(sum[k] a[m,k] * b[n,k])\n"
         "  for m in 0..200, n in 0..270\noutput y\n",
         "c[m,n] = sum[k] a[m,k] * b[n,k]\n"
         "y[2 * m + 1, n + 30] <- gelu(c[m,n])\n"
         "  for m in 0..200, n in 0..270\noutput c, y\n"},
        {"y[m, 3 * n + 1] <- gelu(sum[k] a[m,k] * b[n,k])\n"
         "  for n in 0..99\noutput y\n",
         "c[m,n] = sum[k] a[m,k] * b[n,k]\n"
         "y[m, 3 * n + 1] <- gelu(c[m,n])  for n in 0..99\noutput c, y\n"},
    };
    for (size_t i = 0; i < sizeof updates / sizeof *updates; i++)
        for (int threads = 1; threads < 4; threads++) {
            char text[2][400];
            for (int k = 0; k < 2; k++)
                snprintf(text[k], sizeof *text,
                         "input a: f32[410, 40]\ninput b: f32[300, 40]\n"
                         "input y: f32[410, 300]\n%s",
                         updates[i][k]);
            same_y(text[0], text[1], threads);
        }
}

// N8: a divisor that is constant along a row is inverted once per row; which
// elements are a row must not depend on how the op is cut.
TEST(any_number_gives_the_same_bits)
{
    static const char *const texts[] = {
        "input a: f32[28, 64]\ninput b: f32[2, 170, 64]\ninput w: f32[170]\n"
        "input y: f32[28, 170, 2]\n"
        "y[m,i,j] <- y[m,i,j] + (sum[k] b[j,i,k] * a[m,k]) / w[i]\noutput y\n",
        "input a: f32[28, 226]\ninput b: bf16[2, 170, 231]\n"
        "input w: f32[170]\n"
        "y[m,i,j]: f16 = (sum[k] b[j,i,k+4] * a[m,k]) / (abs(w[i]) + 1.5)\n"
        "output y\n",
        "input x: f32[40, 37]\ninput w: f32[31, 37]\ninput s: f32[40]\n"
        "input r: f32[31, 40]\ninput q: f32[31, 40]\ninput y: f32[40, 31]\n"
        "y[m,n] <- y[m,n] + (sum[k] x[m,k] * w[n,k]) / s[m] + r[n,m] + q[n,m]\n"
        "output y\n",
    };
    char text[2][400];
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        same_for_all(texts[i]);
    for (int i = 0; i < N_CASES; i++) {
        texts_of(i, text);
        same_for_all(text[0]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finished_as_by_a_statement),
        cmocka_unit_test(finished_as_by_the_oracle),
        cmocka_unit_test(means),
        cmocka_unit_test(updates_find_what_was_there),
        cmocka_unit_test(any_number_gives_the_same_bits),
    };
    return run_group(tests, NULL, NULL);
}
