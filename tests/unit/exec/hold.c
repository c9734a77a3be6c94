// Factors that threads hold packed from tile to tile (C40): results have the
// same bits as without, on any number of threads, and what a thread holds is
// packed anew in every run and every iteration of a repeat.
#include "harness/test.h"
#include "divvy/run.h"
#include "harness/unit.h"
#include <stdlib.h>
#include <string.h>

// Attention whose keys and values change in every iteration. The rows are cut
// so that each head has several tiles, the last of which is shorter.
static const char text[] = "input q: f32[3, 500, 64] input k: f32[3, 450, 64] "
                           "input v: f32[3, 450, 64] "
                           "a[h,j,l] = k[h,j,l] * 1 b[h,j,l] = v[h,j,l] * 1 "
                           "repeat n in 0..3 { "
                           "  s[h,i,j] = sum[l] q[h,i,l] * a[h,j,l] "
                           "  m[h,i] = max[j] s[h,i,j] "
                           "  e[h,i,j] = exp(s[h,i,j] - m[h,i]) "
                           "  d[h,i] = sum[j] e[h,i,j] "
                           "  p[h,i,j] = e[h,i,j] / d[h,i] "
                           "  y[h,i,l] = sum[j] p[h,i,j] * b[h,j,l] "
                           "  a[h,j,l] <- a[h,j,l] * 0.5 + n "
                           "  b[h,j,l] <- b[h,j,l] - n "
                           "} output y";

enum { HEADS = 3, ROWS = 500, KEYS = 450, WIDTH = 64 };
static float q[HEADS][ROWS][WIDTH], k[HEADS][KEYS][WIDTH];
static float v[HEADS][KEYS][WIDTH];
static float want[HEADS][ROWS][WIDTH], got[HEADS][ROWS][WIDTH];

static void fill(float *to, size_t n, int seed)
{
    for (size_t i = 0; i < n; i++)
        to[i] = (float)((int)(i * 37 + (size_t)seed * 11) % 101) / 64 - 0.75f;
}

static dv_exec *exec_of(const dv_plan *plan, float *y)
{
    dv_exec *x = NULL;
    must(!dv_exec_create(&x, plan, NULL));
    must(!dv_exec_bind(x, "q", q, sizeof q, NULL));
    must(!dv_exec_bind(x, "k", k, sizeof k, NULL));
    must(!dv_exec_bind(x, "v", v, sizeof v, NULL));
    must(!dv_exec_bind(x, "y", y, sizeof want, NULL));
    return x;
}

// Removes ` hold in1` from the text of a plan; returns how often it stood
// there.
static int remove_holds(char *plan)
{
    static const char word[] = " hold in1";
    int n = 0;
    for (char *at = plan; (at = strstr(at, word)); n++)
        memmove(at, at + sizeof word - 1, strlen(at + sizeof word - 1) + 1);
    return n;
}

TEST(bits)
{
    for (int64_t threads = 1; threads <= 3; threads++) {
        dv_plan_options o = DV_PLAN_OPTIONS_INIT;
        o.threads = threads;
        dv_plan *plan = plan_on(text, "host", NULL, &o), *without = NULL;
        char *printed = dv_plan_text(plan);
        must(printed != NULL);
        // Machines without kernels, or with large caches, may hold nothing.
        int n = remove_holds(printed);
        must(!dv_plan_parse(&without, printed, strlen(printed), "plan", NULL,
                            NULL, NULL));
        must(!dv_plan_check(without, NULL));
        dv_exec *x = exec_of(plan, &got[0][0][0]);
        dv_exec *other = exec_of(without, &want[0][0][0]);
        for (int run = 0; run < 3; run++) {
            fill(&q[0][0][0], HEADS * ROWS * WIDTH, run);
            fill(&k[0][0][0], HEADS * KEYS * WIDTH, run + 5);
            fill(&v[0][0][0], HEADS * KEYS * WIDTH, run + 9);
            must(!dv_exec_run(x, NULL));
            must(!dv_exec_run(other, NULL));
            assert_memory_equal(got, want, sizeof got);
        }
        print_message("%d threads hold %d factors\n", (int)threads, n);
        dv_exec_destroy(x);
        dv_exec_destroy(other);
        dv_plan_destroy(plan);
        dv_plan_destroy(without);
        free(printed);
    }
}

// A factor that is copied first, here to a wider type, cannot be held: its copy
// is made for every tile.
TEST(copied)
{
    static const char program[] =
        "input q: f16[3, 500, 64] input k: f16[3, 450, 64] "
        "s[h,i,j]: f32 = sum[l] q[h,i,l] * k[h,j,l] "
        "m[h,i] = max[j] s[h,i,j] output m";
    static const char copies[] = " copy in0 in1", holds[] = " hold in1";
    dv_plan_options o = DV_PLAN_OPTIONS_INIT;
    dv_plan *plan = plan_on(program, "host", NULL, &o), *with = NULL;
    char *printed = dv_plan_text(plan);
    must(printed != NULL);
    char *at = strstr(printed, copies);
    if (at) { // there are kernels for this machine
        size_t before = (size_t)(at - printed) + sizeof copies - 1;
        size_t len = strlen(printed), more = sizeof holds - 1;
        char *edited = malloc(len + more + 1);
        must(edited != NULL);
        memcpy(edited, printed, before);
        memcpy(edited + before, holds, more);
        memcpy(edited + before + more, printed + before, len - before + 1);
        must(!dv_plan_parse(&with, edited, len + more, "plan", NULL, NULL,
                            NULL));
        assert_int_equal(dv_plan_check(with, NULL), DV_E_CHECK);
        dv_exec *x = NULL;
        assert_int_equal(dv_exec_create(&x, with, NULL), DV_E_CHECK);
        assert_null(x);
        dv_plan_destroy(with);
        free(edited);
    }
    free(printed);
    dv_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(bits),
                                       cmocka_unit_test(copied)};
    return cmocka_run_group_tests(tests, case_set_up, case_tear_down);
}
