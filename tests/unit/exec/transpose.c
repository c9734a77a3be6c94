// Ops with transposed reads: copies have the oracle's bits, functions are
// within its bounds; for all types, all remainders of blocks, and any order of
// dims.
#include "harness/test.h"
#include "harness/unit.h"
#include <stdio.h>

static void try(const char *text, int64_t threads, int exact)
{
    job j;
    start(&j, text, threads, DV_RUN_THREADS);
    is_right(&j, exact);
    job_stop(&j);
}

TEST(edges)
{
    static const int sizes[] = {7, 8, 9, 31, 32, 33, 39, 40, 41, 72, 100};
    enum { N = sizeof sizes / sizeof *sizes };
    char text[300];
    for (int i = 0; i < N * N; i++) {
        int m = sizes[i / N], n = sizes[i % N];
        snprintf(text, sizeof text,
                 "input x: f32[%d, %d]\ninput z: f32[%d, %d]\n"
                 "y[i,j] = x[j,i]\nw[i,j] = x[j,i] * 2.0 + z[i,j]\n"
                 "output y, w\n",
                 n, m, m, n);
        try(text, 1 + i % 3, 1);
    }
}

TEST(types)
{
    static const char *const names[] = {"f64",  "f32", "f16",
                                        "bf16", "i32", "i8"};
    char text[300];
    for (int i = 0; i < 6; i++)
        for (int threads = 1; threads < 4; threads++) {
            snprintf(text, sizeof text,
                     "input x: %s[45, 83]\ny[i,j] = x[j,i]\n"
                     "z[i,j] = max(x[j,i], y[i,j])\noutput y, z\n",
                     names[i]);
            try(text, threads, 1);
        }
}

TEST(orders)
{
    static const char *const texts[] = {
        "input x: f32[20, 3, 40, 33]\ny[a,b,c,d] = x[d,c,b,a]\noutput y\n",
        "input x: f32[20, 3, 40, 33]\ny[a,b,c,d] = x[c,b,a,d]\noutput y\n",
        "input x: f32[20, 3, 40, 33]\ny[b,a,d,c] = x[a,b,c,d]\noutput y\n",
        "input x: f16[20, 3, 40, 33]\ny[b,a,d,c]: f32 = exp(x[a,b,c,d])\n"
        "output y\n",
        // Five transposed reads beside others; rows that are read twice.
        "input a: f32[40, 50]\ninput b: f32[40, 50]\ninput c: f32[40, 50]\n"
        "input d: f32[40, 50]\ninput e: f32[40, 50]\ninput f: f32[50]\n"
        "y[i,j] = a[j,i] + b[j,i] * c[j,i] - d[j,i] + e[j,i] * f[i]\n"
        "output y\n",
        // Parts of tensors, some of them reversed, or every other element.
        "input x: f32[90, 90]\ny[i,j] = x[j + 3, i + 5] + x[80 - j, i]"
        "  for i in 0..70, j in 0..60\noutput y\n",
        "input x: f32[90, 90]\ny[i,j] = x[j, 80 - i] + x[2 * j, i]"
        "  for i in 0..70, j in 0..44\noutput y\n",
        // Updates that read their own tensor transposed (G6).
        "input x: f32[64, 64]\nx[i,j] <- x[j,i] + 1.0\noutput x\n",
        "input x: f32[64, 64]\nrepeat 3 { x[i,j] <- x[j,i] * 0.5 + x[i,j] }\n"
        "output x\n",
        "input x: f32[64, 64]\ninput y: f32[100, 150]\n"
        "y[i + 10, 2 * j] <- x[j,i]\ny[i + 20, j + 7] <- x[j,i]\noutput y\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (int threads = 1; threads < 4; threads++)
            try(texts[i], threads, 0);
}

// N8: remainders of blocks give the same bits as whole blocks, wherever tiles
// end.
TEST(any_number_gives_the_same_bits)
{
    static const char *const texts[] = {
        "input x: f32[101, 77]\ninput v: f32[77]\ninput w: f32[101]\n"
        "y[i,j] = x[j,i] / v[i] + exp(w[j])\nz[i,j] = x[j,i] / w[j]\n"
        "output y, z\n",
        "input x: f32[9, 101, 77]\ninput z: f32[77, 9, 101]\n"
        "input v: f32[77]\ninput w: f32[101]\n"
        "y[i,a,j] = (x[a,j,i] - z[i,a,j]) / (v[i] * w[j])\noutput y\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        same_for_all(texts[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(edges),
        cmocka_unit_test(types),
        cmocka_unit_test(orders),
        cmocka_unit_test(any_number_gives_the_same_bits),
    };
    return run_group(tests, NULL, NULL);
}
