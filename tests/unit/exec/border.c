// Reads with a border by vector kernels and products: operands are copied to
// buffers, whose edges the value outside of the tensor fills.
#include "harness/test.h"
#include "harness/unit.h"

TEST(padded_convolutions)
{
    // A product; tiles with 1 to 8 threads, edges on all sides, any rounding.
    runs_right("input x: f32[16, 13, 19] input w: f32[24, 16, 3, 3] "
               "y[o,i,j] = relu(sum[c,a,b] w[o,c,a,b] * x[c,i+a-1,j+b-1] else "
               "0) for i in 0..13, j in 0..19 output y",
               8, 0, "a contraction");
    // A border that is not 0, a bias, a stride of 2, and a bias with a border.
    runs_right("input x: f32[16, 14, 22] input w: f32[24, 16, 3, 3] "
               "input v: f32[20] "
               "y[o,i,j] = (sum[c,a,b] w[o,c,a,b] * x[c,2*i+a-1,2*j+b-1] else "
               "1.5) + (v[o] else 2) for i in 0..7, j in 0..11 output y",
               4, 0, "a contraction");
}

TEST(types_of_products)
{
    static const char *const types[] = {"f64", "f16", "bf16", "i8"};
    for (int i = 0; i < 4; i++) {
        char text[400];
        snprintf(text, sizeof text,
                 "input x: %s[32, 9, 18] input w: %s[16, 32, 3, 3] "
                 "y[o,i,j] = sum[c,a,b] w[o,c,a,b] * x[c,i+a-1,j+b-1] else 3 "
                 "for i in 0..9, j in 0..18 output y",
                 types[i], types[i]);
        runs_right(text, 3, i == 3, "a contraction");
    }
}

TEST(windows)
{
    runs_right("input x: f32[6, 23, 70] input w: f32[6, 3, 3] "
               "y[c,i,j] = sum[a,b] w[c,a,b] * x[c,i+a-1,j+b-1] else 0 "
               "for i in 0..23, j in 0..70 output y",
               4, 0, "a vector kernel");
    runs_right("input x: f32[6, 23, 71] "
               "y[c,i,j] = max[a,b] x[c,2*i+a-1,2*j+b-1] else -inf "
               "for a in 0..3, b in 0..3, i in 0..12, j in 0..36 output y",
               4, 1, "a vector kernel");
    runs_right("input x: i32[5, 40] y[i,j] = min[a] x[i,j+a-2] else -4 "
               "for a in 0..5, j in 0..40 output y",
               3, 1, "a vector kernel");
}

// Rows of images are copied in whole vectors, of which parts belong to the next
// row: right for every width, also where rows or columns are read with a step.
TEST(widths_of_images)
{
    char text[300];
    for (int n = 3; n <= 37; n += n < 20 ? 1 : 8)
        for (int step = 1; step <= 3; step++) {
            int to = (n + step - 1) / step;
            snprintf(text, sizeof text,
                     "input x: f32[5, %d, %d] y[c,i,j] = sum[a,b] "
                     "(x[c,%d*i+a-1,%d*j+b-1] else 0.5) for i in 0..%d, "
                     "j in 0..%d, a in 0..3, b in 0..3 output y",
                     n, n, step, step, to, to);
            job j;
            start_and_run(&j, text, 2);
            is_right(&j, 0);
            job_stop(&j);
        }
}

// With short rows, windows run on whole images: of any step and border, with
// rows and columns that the window leaves out, cut into blocks and tiles.
static const char *const images[] = {
    "input x: f32[40, 7, 7] input w: f32[40, 5, 5] "
    "y[c,i,j] = sum[a,b] w[c,a,b] * x[c,i+a-2,j+b-2] else 0 "
    "for i in 0..7, j in 0..7 output y",
    "input x: f32[33, 14, 13] input w: f32[33, 5, 5] input v: f32[33] "
    "y[c,i,j] = relu(v[c] + sum[a,b] w[c,a,b] * x[c,2*i+a-2,2*j+b-1] else 0) "
    "for i in 0..7, j in 0..6 output y",
    "input x: f64[9, 20, 21] y[c,i,j] = max[a,b] x[c,3*i+a-1,2*j+b-2] else "
    "-inf for a in 0..3, b in 0..4, i in 0..7, j in 0..11 output y",
    "input x: f32[5, 30, 31] input z: f32[5, 28, 15] "
    "y[c,i,j] = z[c,i,j] - min[a] x[c,i+2,2*j+a-1] else 3 "
    "for a in 0..4, i in 0..28, j in 0..15 output y",
    "input x: f32[4, 9, 9] input w: f32[3, 3] "
    "y[i,j] = sum[c,a,b] w[a,b] * x[c,i-a+1,j-2*b+2] else 1 "
    "for i in 0..9, j in 0..9 output y",
    "input x: i8[12, 9, 10] y[c,i,j]: i32 = sum[a,b] (x[c,3*i,j+b] + "
    "(x[c,3*i+a-1,j] else 2)) for a in 0..2, b in 1..3, i in 0..3, j in 0..7 "
    "output y",
    "input x: f16[3, 60, 60] y[c,i,j] = mean[a,b] x[c-1,i+a-3,j+b-3] else 0.5 "
    "for a in 0..7, b in 0..7, c in 0..5, i in 0..60, j in 0..60 output y"};

TEST(windows_on_images)
{
    for (size_t i = 0; i < sizeof images / sizeof *images; i++)
        runs_right(images[i], 4, 0, "a vector kernel");
}

// Without a word of its schedule, a program gives the same bits.
static void same_without(const char *const *texts, size_t n, const char *word)
{
    for (size_t i = 0; i < n; i++) {
        job one, other;
        start_and_run(&one, texts[i], 2);
        char *text = dv_plan_text(one.plan);
        char *at = strstr(text, word);
        dv_plan *boxes;
        if (at) {
            memmove(at, at + strlen(word), strlen(at + strlen(word)) + 1);
            assert_int_equal(dv_plan_parse(&boxes, text, strlen(text), "boxes",
                                           NULL, NULL, one.diag),
                             DV_OK);
            assert_null(strstr(text, word));
            must(job_done(&other, boxes, DV_RUN_THREADS) &&
                 job_same_bits(&one, &other));
            job_stop(&other);
            dv_plan_destroy(boxes);
        } else if (strcmp(one.plan->schedule.kernels, "none") != 0) {
            fail_msg("no%s: %s", word, text);
        }
        dv_free(text);
        job_stop(&one);
    }
}

TEST(images_and_boxes)
{
    same_without(images, sizeof images / sizeof *images, " images");
}

// Boxes are cut where reads leave their tensors, along several variables, with
// steps, backwards, far outside, of types and sizes that are no whole vectors.
static const char *const edges[] = {
    "input x: f32[7, 9, 33] input w: f32[5, 3, 33] input v: f32[33] "
    "y[i,j,c] = relu(v[c] + sum[a,b] w[a,b,c] * (x[i+a-2,2*j+b-1,c] else 0)) "
    "for i in 0..7, j in 0..5 output y",
    "input x: f64[6, 8, 20] y[i,j,c] = max[a,b] x[3*i-a+1,j-2*b+2,c] else -inf "
    "for a in 0..3, b in 0..3, i in 0..3, j in 0..9 output y",
    "input x: i8[5, 6, 40] y[i,j,c]: i32 = sum[a,b] (x[i+a-9,j+b-1,c] else -7) "
    "for a in 0..3, b in 0..3, i in 0..20, j in 0..7 output y",
    "input x: bf16[4, 5, 24] input z: f32[9, 24] "
    "y[i,j,c] = z[j,c] - min[b] x[3-i,j+b-3,c] else 0.5 "
    "for b in 0..4, i in 0..4, j in 0..9 output y",
    "input x: f32[12, 50] y[i,j] = exp(x[i-4,j] else 1) + x[i+2,j] else 2 "
    "for i in 0..20 output y",
    "input x: f32[1, 1, 17] y[i,j,c] = sum[a,b] x[i+a-1,j+b-1,c] else 3 "
    "for a in 0..3, b in 0..3, i in 0..1, j in 0..1 output y",
    "input x: f16[3, 60, 64] y[k,i,c] = mean[a] x[k-1,i+a-3,c] else 0.5 "
    "for a in 0..7, k in 0..5, i in 0..60 output y"};

TEST(windows_at_edges)
{
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++)
        runs_right(edges[i], 4, 0, "a vector kernel");
}

TEST(edges_and_boxes)
{
    same_without(edges, sizeof edges / sizeof *edges, " edges");
}

// Stencils share one copy; blocks of rows, and of one long row.
TEST(pointwise)
{
    runs_right("input u: f64[65, 300] "
               "y[i,j] = (u[i-1,j] else 1) + (u[i+1,j] else 1) + (u[i,j-1] "
               "else 1) + (u[i,j+1] else 1) - 4 * u[i,j] output y",
               4, 1, "a vector kernel");
    runs_right("input u: f32[100000] y[i] = (u[i-1] else 0.5) + (u[i+1] else "
               "inf) for i in 0..100000 output y",
               3, 1, "a vector kernel");
    runs_right("input u: f16[3, 5, 40] "
               "y[i,j,k] = u[i-1,j-2,k-3] else -2 for i in 0..6, j in 0..9, k "
               "in 0..44 output y",
               4, 1, "a vector kernel");
    // Everything is outside; reversed and transposed reads.
    runs_right("input u: f32[40, 50] "
               "y[i,j] = (u[i-100,j] else 7) + (u[49-j,i+3] else 2) "
               "for i in 0..45, j in 0..55 output y",
               4, 1, "a vector kernel");
}

// Updates read the values from before the statement.
TEST(updates)
{
    runs_right("input u: f32[60, 70] repeat 5 { u[i,j] <- 0.25 * ((u[i-1,j] "
               "else 0) + (u[i+1,j] else 0) + (u[i,j-1] else 0) + (u[i,j+1] "
               "else 0)) } output u",
               4, 0, "a vector kernel");
}

// Constants with a border are not packed before the first run, others are.
TEST(constants)
{
    runs_right("const x: f32[32, 13, 19] const w: f32[24, 32, 3, 3] "
               "y[o,i,j] = sum[c,a,b] w[o,c,a,b] * x[c,i+a-1,j+b-1] else 2 "
               "for i in 0..13, j in 0..19 output y",
               3, 0, "a contraction");
}

// Runs in the interpreter: indices that are read, opaque ops, copies that would
// be too large, sums in parts.
TEST(interpreted)
{
    runs_right("input u: f32[40, 50] y[i,j] = u[i,1000000000000*j] else 1 "
               "for i in 0..45, j in 0..55 output y",
               3, 1, "in strips, no kernel");
    runs_right("input u: f32[50] input p: i32[50] "
               "y[i] = u[p[i]] else 3 for i in 0..50 output y",
               3, 1, "in strips, no kernel");
    runs_right("input u: f32[50] extern y[i] = u[i-3] else 3 for i in 0..60 "
               "output y",
               3, 1, "in strips, no kernel");
    const char *sum = "input u: f32[100000] "
                      "y[] = sum[k] u[k-7] else 2 for k in 0..100007 output y";
    for (int threads = 1; threads <= 4; threads++) {
        job j;
        start_and_run(&j, sum, threads);
        is_right(&j, 0);
        job_stop(&j);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(padded_convolutions),
        cmocka_unit_test(types_of_products),
        cmocka_unit_test(windows),
        cmocka_unit_test(windows_on_images),
        cmocka_unit_test(widths_of_images),
        cmocka_unit_test(images_and_boxes),
        cmocka_unit_test(windows_at_edges),
        cmocka_unit_test(edges_and_boxes),
        cmocka_unit_test(pointwise),
        cmocka_unit_test(updates),
        cmocka_unit_test(constants),
        cmocka_unit_test(interpreted),
    };
    return run_group(tests, NULL, NULL);
}
