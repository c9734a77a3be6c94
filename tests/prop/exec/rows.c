// Properties of groups that run row by row: programs of many kinds, of any
// shape and type, give what the oracle gives and the same bits as their ops
// give one by one, for any number of threads (N8); and the programs that are
// expected to run row by row do. The same for arrays of more dims.
#include "harness/test.h"
#include "harness/unit.h"
#include "jit/vec/vec.h"

enum { IN_ROWS = 1, ONE_BY_ONE = 0, EITHER = -1 };

// Programs over x[M,N], or with more dims in front of M. In the texts @ stands
// for the variables of these dims, ~ for the same in reverse order behind an
// index, $ and ^ for their extents.
static const struct {
    const char *name;
    int way; // expected if rows are long and many
    const char *text;
} programs[] = {
    {"layernorm", IN_ROWS,
     ""
     "m[@i] = mean[j] x[@i,j]\n"
     "v[@i] = mean[j] (x[@i,j] - m[@i]) * (x[@i,j] - m[@i])\n"
     "y[@i,j] = (x[@i,j] - m[@i]) * rsqrt(v[@i] + 1e-5)\noutput y\n"},
    {"scaled", IN_ROWS,
     "input g: f32[N]\ninput b: f32[N]\n"
     "u[@i] = (sum[j] x[@i,j]) / N\nc[@i,j] = x[@i,j] - u[@i]\n"
     "v[@i] = (sum[j] c[@i,j] * c[@i,j]) / N\n"
     "y[@i,j] = c[@i,j] * rsqrt(v[@i] + 1e-5) * g[j] + b[j]\noutput y\n"},
    {"softmax", IN_ROWS,
     "m[@i] = max[j] x[@i,j]\n"
     "e[@i,j] = exp(x[@i,j] - m[@i])\ns[@i] = sum[j] e[@i,j]\n"
     "y[@i,j] = e[@i,j] / s[@i]\noutput y\n"},
    {"rmsnorm", IN_ROWS,
     "v[@i] = mean[j] x[@i,j] * x[@i,j]\n"
     "y[@i,j] = x[@i,j] * rsqrt(v[@i] + 1e-5)\noutput y\n"},
    {"mean only", IN_ROWS,
     "m[@i] = mean[j] x[@i,j]\n"
     "y[@i,j] = x[@i,j] - m[@i]\noutput y\n"},
    {"two outputs", IN_ROWS,
     "a[@i] = max[j] x[@i,j]\nb[@i] = min[j] x[@i,j]\n"
     "y[@i,j] = (x[@i,j] - b[@i]) / (a[@i] - b[@i] + 1)\n"
     "z[@i,j] = abs(x[@i,j]) / (abs(a[@i]) + 1)\noutput a\noutput y\noutput "
     "z\n"},
    {"one a row", IN_ROWS,
     "s[@i] = sum[j] x[@i,j] * x[@i,j]\n"
     "r[@i] = rsqrt(s[@i] + 1)\ny[@i,j] = x[@i,j] * r[@i]\noutput y\n"},
    {"a chain that folds", IN_ROWS,
     "m[@i] = mean[j] x[@i,j]\nc[@i,j] = x[@i,j] - m[@i]\n"
     "d[@i,j] = c[@i,j] + 1\ns[@i] = sum[j] d[@i,j]\n"
     "y[@i,j] = d[@i,j] * s[@i] - c[@i,j]\noutput y\n"},
    {"a product that does not fold", IN_ROWS,
     "m[@i] = max[j] x[@i,j]\np[@i,j] = x[@i,j] * m[@i]\n"
     "s[@i] = sum[j] p[@i,j]\ny[@i,j] = p[@i,j] - s[@i]\noutput y\n"},
    {"integers", IN_ROWS,
     "a[@i] = max[j] x[@i,j]\ns[@i] = sum[j] x[@i,j] - a[@i]\n"
     "y[@i,j] = max(a[@i] - x[@i,j], s[@i])\noutput y\n"},
    {"columns", ONE_BY_ONE,
     "m[j] = mean[@i] x[@i,j]\n"
     "y[@i,j] = x[@i,j] - m[j]\noutput y\n"},
    {"rows apart", EITHER,
     "m[@i] = mean[j] x[@i,j]\n"
     "y[@i,j] = x[@i,j] - m[@M-1-i]\noutput y\n"},
    {"one for all heads", IN_ROWS,
     "input b: f32[M, N]\nm[@i] = max[j] (x[@i,j] + b[i,j])\n"
     "y[@i,j] = x[@i,j] + b[i,j] - m[@i]\noutput y\n"},
    {"all of a row", EITHER,
     "a[@i,j] = x[@i,j] * x[@i,j] + 1\nb[@i,j] = a[@i,j] * a[@i,j] + x[@i,j]\n"
     "c[@i,j] = a[@i,j] * b[@i,j] - x[@i,j]\n"
     "y[@i,j] = c[@i,j] * a[@i,j] - b[@i,j]\noutput y\n"},
    {"turned", IN_ROWS,
     "input t: f32[M^, N]\nm[@i] = max[j] t[i~,j]\n"
     "y[@i,j] = t[i~,j] - m[@i] + x[@i,j]\noutput y\n"},
};

typedef struct case_size {
    int rows, cols, front; // front: the number of dims in front, 0 to 2
} case_size;

static const char *const floats[] = {"f32", "f16", "bf16", "f64"};
static const char *const integers[] = {"i8", "i32"};

// -- Runs --------------------------------------------------------------------

static dv_plan *make_plan(const dv_program *p, int64_t threads,
                          dv_residents scratch)
{
    dv_plan_options o = DV_PLAN_OPTIONS_INIT;
    o.threads = threads;
    o.scratch = scratch;
    dv_plan *plan = case_plan(p, case_host, &o);
    must(plan != NULL);
    return plan;
}

static int lists_rows(const dv_exec *x)
{
    dv_text list = {0};
    dv_exec_schedules(x, &list);
    int found = strstr(list.at, "row by row") != NULL;
    dv_text_free(&list);
    return found;
}

static void put_program(char *out, size_t size, const char *text, int front)
{
    static const char marks[] = "@~$^";
    static const char *const of[][sizeof marks - 1] = {
        {"", "", "", ""},
        {"h,", ",h", "3, ", ", 3"},
        {"g,h,", ",h,g", "2, 3, ", ", 3, 2"}};
    size_t n = strlen(out);
    for (; *text; text++) {
        const char *mark = strchr(marks, *text);
        n += (size_t)snprintf(out + n, size - n, mark ? "%s" : "%.1s",
                              mark ? of[front][mark - marks] : text);
        assert_true(n < size);
    }
}

static dv_program *parse(int which, const char *dtype, const case_size *z)
{
    char text[1000];
    snprintf(text, sizeof text, "param M = %d\nparam N = %d\n", z->rows,
             z->cols);
    put_program(text, sizeof text, "input x: ", 0);
    put_program(text, sizeof text, dtype, 0);
    put_program(text, sizeof text, "[$M, N]\n", z->front);
    put_program(text, sizeof text, programs[which].text, z->front);
    return program_of(text);
}

// Compares one program on one thread, without scratchpads, and on three
// threads. *in_rows: whether one thread ran it row by row.
static void try(int which, const char *dtype, const case_size *z, int oracle,
                int *in_rows)
{
    char what[100];
    dv_program *p = parse(which, dtype, z);
    snprintf(what, sizeof what, "%s of %s, %dx%d, %d in front",
             programs[which].name, dtype, z->rows, z->cols, z->front);
    const dv_plan *plans[] = {make_plan(p, 1, DV_RESIDENTS_ALL),
                              make_plan(p, 1, DV_RESIDENTS_NONE),
                              make_plan(p, 3, DV_RESIDENTS_ALL)};
    job j[3];
    for (int i = 0; i < 3; i++)
        must(job_done(&j[i], plans[i], RUN_AS_PLANNED));
    if (in_rows)
        *in_rows = lists_rows(j[0].x);
    int ok = (!oracle || job_right(&j[0], p)) && job_same_bits(&j[0], &j[1]) &&
             (case_in_parts(plans[2]) || job_same_bits(&j[0], &j[2]));
    if (!ok)
        fail_msg("%s: %s", what, case_why());
    for (int i = 0; i < 3; i++) {
        job_stop(&j[i]);
        dv_plan_destroy((dv_plan *)plans[i]);
    }
    dv_program_destroy(p);
}

// -- Cases -------------------------------------------------------------------

TEST(any_shape)
{
    static const int rows[] = {1, 2, 3, 5, 17, 61};
    static const int cols[] = {1, 2, 31, 64, 257, 300, 1031};
    rng r = {12};
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        for (int k = 0; k < 8; k++) {
            int whole = !strcmp(programs[i].name, "integers");
            case_size z = {rows[rng_below(&r, k < 4 ? 6 : 4)],
                           cols[rng_below(&r, 7)],
                           k < 4   ? 0
                           : k < 6 ? 1
                                   : 2};
            try((int)i, whole ? integers[k % 2] : floats[k % 4], &z, 1, NULL);
        }
}

// Several tiles of several rows each. The oracle would be too slow here.
TEST(many_rows)
{
    dv_jit *jit = dv_jit_shared();
    if (!jit)
        skip_test("no kernels for this machine");
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        for (int front = 0; front < 3; front++) {
            int whole = !strcmp(programs[i].name, "integers");
            int in_rows = EITHER;
            try((int)i, whole ? "i8" : "f32",
                &(case_size){front > 1 ? 161 : 331, 1031, front}, 0, &in_rows);
            if (programs[i].way != EITHER && in_rows != programs[i].way)
                fail_msg("%s, %d in front: %s", programs[i].name, front,
                         in_rows ? "in rows" : "not in rows");
        }
}

// Caches that do not hold a row, or only a few rows: rows are cut, or not.
TEST(small_caches)
{
    static const int64_t sizes[] = {4 << 10, 16 << 10, 64 << 10};
    int64_t before = case_host->scratch_bytes;
    for (size_t i = 0; i < 3 * (sizeof programs / sizeof *programs); i++)
        for (int front = 0; front < 3; front++) {
            const char *name = programs[i / 3].name;
            case_host->scratch_bytes = sizes[i % 3];
            try((int)i / 3, strcmp(name, "integers") ? "f32" : "i32",
                &(case_size){5, 1200 + 700 * (int)(i % 3), front}, 0, NULL);
        }
    case_host->scratch_bytes = before;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(any_shape),
                                       cmocka_unit_test(many_rows),
                                       cmocka_unit_test(small_caches)};
    return run_group(tests, case_set_up, case_tear_down);
}
