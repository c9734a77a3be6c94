// Integers in the thread executor: what is computed in 32 bits equals what the
// oracle computes in 64 bits, also where sums overflow; and ops get the kernels
// that exist for them.
#include "harness/test.h"
#include "harness/unit.h"
#include "base/dtype.h"

// The inputs: those of dv_fill; random bits; mostly small numbers with a few
// large ones, so that some tiles fit 32 bits; numbers whose squares just fit.
typedef enum values { SMALL, LARGE, MIXED, EDGE } values;

static void fill(const job *j, int32_t tensor, values v)
{
    const dv_tensor *t = &j->plan->ops->tensors[tensor];
    int64_t es = dv_dtype_get(t->dtype)->size_bytes;
    uint64_t x = 77 + (uint64_t)tensor;
    void *to = j->data[tensor];
    for (int64_t i = 0; v != SMALL && i < t->n_elems; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        if (v == EDGE && t->dtype == DV_I32)
            ((int32_t *)to)[i] = (x >> 50) % 64 ? 46340 : 46341;
        else if (v == LARGE || (x >> 40) % 512 == 0)
            memcpy((char *)to + i * es, (char *)&x + 8 - es, (size_t)es);
    }
}

typedef struct example {
    const char *text, *how; // how the last op runs; NULL: not checked
} example;

static void begin(job *j, const example *e, int64_t threads, values v)
{
    start(j, e->text, threads, DV_RUN_THREADS);
    for (int t = 0; t < j->plan->ops->n_tensors; t++)
        if (j->plan->ops->tensors[t].is_input)
            fill(j, t, v);
    if (e->how)
        goes(j, e->how);
}

// One thread gives the right results and several give the same; with three
// threads a second run is right, too.
static void try_all(const example *e, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (int v = SMALL; v <= EDGE; v++) {
            job one;
            begin(&one, &e[i], 1, (values)v);
            is_right(&one, 1);
            for (int threads = 2; threads <= 3; threads++) {
                job j;
                begin(&j, &e[i], threads, (values)v);
                must(job_run(&j));
                same(&one, &j);
                if (threads == 3)
                    is_right(&j, 1);
                job_stop(&j);
            }
            job_stop(&one);
        }
}

#define MATMUL(a, b, m, n, k)                                                  \
    "param M = " #m " param N = " #n " param K = " #k " input a: " #a          \
    "[M, K] input b: " #b "[K, N] "

// A sum that wraps around when it is stored may wrap around before.
TEST(sums_wrap)
{
    static const example e[] = {
        {MATMUL(i32, i32, 67, 45,
                131) "c[m,n] = sum[k] a[m,k] * b[k,n] output c",
         "a contraction"},
        {MATMUL(i32, i32, 64, 96,
                600) "c[m,n] = sum[k] a[m,k] * b[k,n] output c",
         "a contraction"},
        {"input a: i32[37, 70] input b: i32[41, 70] "
         "c[m,n] = sum[k] a[m,k] * b[n,k] output c",
         "a contraction"},
        {"input a: i32[3, 19, 70] input b: i32[3, 70, 5] "
         "c[n,h,m] = sum[k] a[h,m,k] * b[h,k,n] output c",
         "a contraction"},
        {"input a: i32[40, 9] input b: i32[9] c[m] = sum[k] a[m,k] * b[k] "
         "output c",
         "a contraction"},
        // No kernel: with two threads each has a single point.
        {"input a: i32[1, 1] input b: i32[1, 2] "
         "c[m,n] = sum[k] a[m,k] * b[k,n] output c",
         "a contraction"},
        // Epilogues that are correct in 32 bits, too.
        {MATMUL(i32, i32, 33, 29, 50) "input d: i32[N] c[m,n] = d[n] - 3 * "
                                      "sum[k] a[m,k] * b[k,n] output c",
         "a contraction"},
        {MATMUL(
             i32, i32, 33, 29,
             50) "input c: i32[M, N] c[m,n] <- c[m,n] + sum[k] a[m,k] * b[k,n] "
                 "output c",
         "a contraction"},
        {MATMUL(i32, i32, 33, 29,
                50) "c[m,n]: i8 = sum[k] a[m,k] * b[k,n] output c",
         "a contraction"},
        // Operands of 8 bits are widened.
        {MATMUL(i8, i32, 33, 29, 50) "c[m,n] = sum[k] a[m,k] * b[k,n] output c",
         "a contraction"},
        {MATMUL(i8, i8, 33, 5, 50) "c[m,n] = sum[k] a[m,k] * b[k,n] output c",
         "a contraction"},
        {MATMUL(i8, i8, 33, 29,
                70) "c[m,n] = 2 + sum[k] a[m,k] * b[k,n] output c",
         "a contraction"},
        // Products of i8 fit 32 bits, so that relu sees the right sign.
        {MATMUL(i8, i8, 33, 5,
                50) "c[m,n] = relu(sum[k] a[m,k] * b[k,n]) output c",
         "a contraction"},
        {MATMUL(i8, i8, 33, 29,
                50) "c[m,n] = min(7, sum[k] a[m,k] * b[k,n]) output c",
         "a contraction"},
    };
    try_all(e, sizeof e / sizeof *e);
}

// Kernels compute parts of reductions, too, in i32.
TEST(parts_wrap)
{
    static const example e[] = {
        {"input x: i32[300001] s[] = sum[i] x[i] output s", "a vector kernel"},
        {"input x: i32[300001] s[] = min[i] x[i] output s", "a vector kernel"},
        {"input x: i32[300001] s[] = max[i] x[i] output s", "a vector kernel"},
        {"input x: i32[300001] s[] = prod[i] 2 * x[i] + 1 output s",
         "a vector kernel"},
        {"input x: i32[300001] s[] = 5 - sum[i] x[i] * x[i] output s",
         "a vector kernel"},
        {"input x: i8[300001] s[] = relu(sum[i] x[i]) output s",
         "a vector kernel"},
        {"input x: i32[100003, 3] s[j] = sum[i] x[i,j] output s",
         "a vector kernel"},
        {"input x: i32[300001] s[] = relu(sum[i] x[i]) output s", NULL},
    };
    try_all(e, sizeof e / sizeof *e);
}

#define PRODUCT "a contraction, where values fit 32 bits"
#define VECTOR  "a vector kernel, where values fit 32 bits"

// Integers of one, two and four bytes, with and without a sign, have kernels.
TEST(narrow_types)
{
    static const example e[] = {
        {"input x: i16[5, 303] input y: u16[5, 303] "
         "z[i,j] = x[i,j] * 3 + y[i,j] output z",
         "a vector kernel"},
        {"input x: u16[5, 303] y[j]: i16 = max[i] x[i,j] output y",
         "a vector kernel"},
        {"input x: u8[5, 303] y[i] = sum[j] x[i,2*j] output y",
         "a vector kernel"},
        {"input x: u32[5, 303] input y: u32[303] "
         "z[i,j] = x[i,j] * y[j] - 7 output z",
         "a vector kernel"},
        {"input x: u32[5, 303] input y: f32[303] z[i,j] = x[i,j] + y[j] "
         "output z",
         "a vector kernel"},
        {"input x: i16[303, 5] input y: u16[303] "
         "z[j,i] = x[i,j] * 0.5 + y[i] output z",
         "a vector kernel"},
        {"input x: u16[70, 90] y[j,i] = x[i,j] + 1 output y",
         "a vector kernel"},
        {"input x: i32[5, 303] y[i,j]: bool = x[i,j] * 5 output y",
         "a vector kernel"},
        {"input x: bool[5, 303] y[i,j]: i16 = x[i,j] + 300 output y",
         "a vector kernel"},
    };
    try_all(e, sizeof e / sizeof *e);
}

// Bits and shifts; distances may be negative or too large.
TEST(bits_and_shifts)
{
    static const example e[] = {
        {"input x: i32[5, 303] input y: i32[303] "
         "z[i,j] = (x[i,j] & y[j]) ^ (x[i,j] | 255) output z",
         "a vector kernel"},
        {"input x: i32[5, 303] y[i,j] = ~(x[i,j] >> 3) & 15 output y",
         "a vector kernel"},
        {"input x: i16[303] input y: i8[303] z[j] = x[j] >> y[j] output z",
         "a vector kernel"},
        {"input x: i32[303] input y: i8[303] z[j] = x[j] << y[j] output z",
         "a vector kernel"},
        {"input x: u8[303] y[j]: u8 = (x[j] & 15) << 4 | x[j] >> 4 output y",
         "a vector kernel"},
        {"input x: i32[303] y[j] = (x[j] << 2) >> 2 output y",
         "a vector kernel, where values fit 32 bits"},
        {"input x: i8[303] y[j] = sign(x[j]) * (x[j] << 40 >> 38) output y",
         NULL},
        {"input x: u8[64, 303] input y: f32[64, 303] "
         "z[i,j] = select((x[i,j] >> (j & 7)) & 1, y[i,j], 0.0) output z",
         "a vector kernel"},
    };
    try_all(e, sizeof e / sizeof *e);
}

// Comparisons of sums or products must see all 64 bits.
TEST(comparisons_look)
{
    static const example e[] = {
        {MATMUL(i32, i32, 67, 45,
                131) "c[m,n] = relu(sum[k] a[m,k] * b[k,n]) output c",
         PRODUCT},
        {MATMUL(i32, i32, 40, 96,
                600) "c[m,n] = relu(sum[k] a[m,k] * b[k,n]) output c",
         PRODUCT},
        {MATMUL(i32, i32, 1, 45,
                1) "c[m,n] = relu(sum[k] a[m,k] * b[k,n]) output c",
         VECTOR},
        {MATMUL(i8, i32, 33, 29,
                50) "c[m,n] = min(100, sum[k] a[m,k] * b[k,n]) output c",
         PRODUCT},
        {MATMUL(i32, i32, 33, 29,
                50) "input c: i32[M, N] "
                    "c[m,n] <- max(c[m,n], sum[k] a[m,k] * b[k,n]) output c",
         PRODUCT},
        {MATMUL(i32, i32, 67, 45,
                31) "c[m,n] = max[k] a[m,k] * b[k,n] output c",
         VECTOR},
        {MATMUL(i32, i32, 67, 45,
                31) "c[m,n]: i8 = abs(min[k] a[m,k] * b[k,n]) output c",
         VECTOR},
        // The bound of the range is no longer exact: squares are rounded away
        // in it.
        {"input a: i32[] input d: i32[64] y[i] = relu(a[]*a[]*a[]*a[]*a[] + "
         "d[i]*d[i] - a[]*a[]*a[]*a[]*a[]) output y",
         NULL},
        // Windows, reversed reads, columns, diagonals, a single element.
        {"input x: i32[500] input w: i32[9] y[i] = relu(sum[k] x[i+k] * w[k]) "
         " for i in 0..492 output y",
         VECTOR},
        {"input x: i32[501] y[i] = max(x[500-i] * 3, x[i] - 7) output y",
         VECTOR},
        {"input x: i32[70, 33] y[j] = (max[i] 5 * x[i,j] - 2) output y",
         VECTOR},
        {"input x: i32[70, 70] input s: i32 "
         "y[i] = select(x[i,i] * 3 > s[], x[i,i], 2 * s[]) output y",
         VECTOR},
    };
    try_all(e, sizeof e / sizeof *e);
}

// Floats that are stored as i8: kernels give what the interpreter of strips
// gives, for numbers of every magnitude, whether they fit or not.
TEST(bytes)
{
    static const char *const text[] = {
        "input x: f32[4, 1031] y[i,j]: i8 = x[i,j] output y",
        "input x: f32[4, 1031] y[i,j]: i8 = x[i,j] * 0.7 output y",
        "input x: f32[4, 1031] y[j]: i8 = max[i] x[i,j] output y",
        "input x: f16[4, 1031] y[i,j]: i8 = x[i,j] output y",
        "input x: f32[4, 1031] y[i,j]: u8 = x[i,j] output y",
        "input x: f32[4, 1031] y[i,j]: i16 = x[i,j] * 300.0 output y",
        "input x: f32[4, 1031] y[j]: u16 = min[i] x[i,j] output y"};
    for (size_t k = 0; k < sizeof text / sizeof *text; k++) {
        job j[2];
        for (int e = 0; e < 2; e++) {
            start(&j[e], text[k], 1, e ? DV_RUN_SEQ : DV_RUN_THREADS);
            uint32_t bits = 7;
            for (int i = 0; i < 4 * 1031; i++) {
                bits =
                    bits * 1664525u + 1013904223u; // all exponents, nan and inf
                uint32_t odd = bits >> 8 & 1 ? bits : (bits & 0xff7fffff);
                if (k == 3)
                    ((uint16_t *)j[e].data[0])[i] = (uint16_t)(bits >> 16);
                else if (i % 3)
                    memcpy((float *)j[e].data[0] + i, &odd, 4);
                else // numbers next to integers, halves and the ends of the
                     // range
                    ((float *)j[e].data[0])[i] =
                        (float)((int)(bits >> 20) - 2048) *
                        (i % 2 ? .25f : 1.75f);
            }
            must(job_run(&j[e]));
        }
        goes(&j[0], "a vector kernel");
        same(&j[0], &j[1]);
        job_stop(&j[0]);
        job_stop(&j[1]);
    }
}

// Products of i8 that are scaled back to i8.
TEST(bytes_again)
{
    static const char *const text[] = {
        MATMUL(i8, i8, 64, 64, 64) "y[i,j]: i8 = (sum[k] a[i,k] * b[k,j]) *"
                                   " 0.01 output y",
        MATMUL(i8, i8, 33, 70, 129) "input s: f32[N] y[i,j]: i8 ="
                                    " max(min(relu((sum[k] a[i,k] * b[k,j]) *"
                                    " s[j]), 127.0), -128.0) output y"};
    for (size_t i = 0; i < sizeof text / sizeof *text; i++)
        for (int64_t threads = 1; threads <= 3; threads++) {
            job j;
            start(&j, text[i], threads, DV_RUN_THREADS);
            goes(&j, "a contraction");
            is_right(&j, 0);
            job_stop(&j);
        }
}

// Integers are exact in 64 bits: also in a select with any condition, and when
// a float tensor stores them.
TEST(integers_are_exact)
{
    static const example of[] = {
        {"input a: i32[64] y[i] = select(0.5, a[i] * a[i], 1) output y", NULL},
        {"input a: i64[64] y[i] = select(0.5, a[i] + 1, 1) output y", NULL},
        {"input a: i64[64] input x: f32[64]"
         " y[i] = select(x[i], a[i] + 1, 1) * 3 output y",
         NULL},
        {"input a: i64[9, 64] input x: f32[64]"
         " y[i] = sum[k] select(x[k] < 0.25, a[i,k], a[i,k] + 1) output y",
         NULL},
        {"input a: i64[64] y[i] = a[i] + (9007199254740992 + 1) output y",
         NULL},
        {"input a: i64[64] y[i] = a[i] + 3037000500 * 3037000500 output y",
         NULL},
        {"input x: f64[64] y[i] = x[i] + (prod[k] 31) for k in 0..31 output y",
         NULL},
        {"input x: f64[64] y[i] = x[i] + (sum[k] 9007199254740992) * 1024"
         " for k in 0..3 output y",
         NULL},
        {"input a: i64[64] y[i]: f64 = (a[i] + 1) - a[i] output y", NULL},
        {"input a: i64[64] y[i]: f32 = a[i] * a[i] * a[i] output y", NULL},
        {"input a: i8[4, 2000] input b: i8[2000, 9]"
         " y[i,j]: f32 = sum[k] a[i,k] * b[k,j] output y",
         NULL},
        {"input a: i64[2] y[i]: f32 = 2147483647 * 2147483647 * 3 * (a[i] == 0)"
         " output y",
         NULL}};
    try_all(of, sizeof of / sizeof *of);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(bytes),
                                       cmocka_unit_test(bytes_again),
                                       cmocka_unit_test(sums_wrap),
                                       cmocka_unit_test(parts_wrap),
                                       cmocka_unit_test(narrow_types),
                                       cmocka_unit_test(bits_and_shifts),
                                       cmocka_unit_test(comparisons_look),
                                       cmocka_unit_test(integers_are_exact)};
    return run_group(tests, NULL, NULL);
}
