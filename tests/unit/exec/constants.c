// Constants: their files are mapped, shared, checked and released; tensors that
// the caller declares constant are bound once.
#define _POSIX_C_SOURCE 200809L
#include "harness/test.h"
#include "base/npy.h"
#include "exec/constants.h"
#include "harness/unit.h"
#include <sys/stat.h>
#include <unistd.h>

static char dir[] = "/tmp/divvy-const-XXXXXX";
static char file[sizeof dir + 16], program[sizeof dir + 16];

static int make_dir(void **state)
{
    (void)state;
    if (!mkdtemp(dir))
        return -1;
    snprintf(file, sizeof file, "%s/w.npy", dir);
    snprintf(program, sizeof program, "%s/p.dv", dir);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    unlink(file);
    unlink(program);
    return rmdir(dir);
}

static const char text[] = "input x: f32[4]\n"
                           "const w: f32[4, 3] = \"w.npy\"\n"
                           "y[j] = sum[i] x[i] * w[i,j]\n"
                           "output y\n";

static const float w[4][3] = {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}, {10, 11, 12}};

static void put_weights(void)
{
    const int64_t shape[] = {4, 3};
    assert_int_equal(dv_npy_write(file, DV_F32, 2, shape, w, NULL), DV_OK);
}

static dv_plan *plan_of_file(void)
{
    dv_program *p = NULL;
    dv_plan *plan = NULL;
    dv_target *t = target_of("host");
    must(!dv_program_parse(&p, text, sizeof text - 1, program, NULL, 0, NULL));
    must(!dv_plan_create(&plan, p, t, NULL, NULL));
    dv_target_destroy(t);
    dv_program_destroy(p);
    return plan;
}

static void runs(dv_exec *x)
{
    float in[4] = {1, 1, 1, 2}, y[3] = {0};
    assert_int_equal(dv_exec_bind(x, "x", in, sizeof in, NULL), DV_OK);
    assert_int_equal(dv_exec_bind(x, "y", y, sizeof y, NULL), DV_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(dv_exec_run(x, NULL), DV_OK);
        assert_true(y[0] == 32 && y[1] == 37 && y[2] == 42);
    }
}

TEST(file_beside_the_program)
{
    put_weights();
    dv_plan *plan = plan_of_file();
    dv_diag *diag = dv_diag_create();
    dv_exec *x = NULL;
    assert_int_equal(dv_exec_create(&x, plan, diag), DV_OK);
    runs(x);
    assert_int_equal(dv_exec_use(x, DV_RUN_SEQ, NULL), DV_OK);
    runs(x);
    float other[4][3] = {{0}};
    assert_int_equal(dv_exec_bind(x, "w", other, sizeof other, diag),
                     DV_E_USAGE);
    assert_non_null(strstr(dv_diag_text(diag), "w.npy"));
    dv_exec_destroy(x);
    dv_diag_destroy(diag);
    dv_plan_destroy(plan);
}

// What a caller learns of the tensor.
TEST(described)
{
    dv_tensor_info info;
    dv_program *p = program_of(text);
    assert_int_equal(dv_program_tensor(p, 1, &info), DV_OK);
    assert_int_equal(info.role, DV_ROLE_CONSTANT);
    assert_string_equal(info.file, "w.npy");
    assert_int_equal(dv_program_tensor(p, 0, &info), DV_OK);
    assert_int_equal(info.role, DV_ROLE_INPUT);
    assert_null(info.file);
    dv_program_destroy(p);
}

static dv_constant *open_w(const dv_plan *plan, dv_status want)
{
    dv_constant *c = NULL;
    assert_int_equal(
        dv_constant_open(&c, plan->ops, tensor_named(plan, "w"), NULL), want);
    return c;
}

// Execs share the mapping; a file that was replaced is another one.
TEST(shared)
{
    put_weights();
    dv_plan *plan = plan_of_file();
    dv_constant *a = open_w(plan, DV_OK), *b = open_w(plan, DV_OK);
    assert_ptr_equal(a, b);
    assert_int_equal((uintptr_t)dv_constant_data(a) % 64, 0);
    dv_constant_close(b);
    put_weights();
    b = open_w(plan, DV_OK);
    assert_ptr_not_equal(a, b);
    assert_memory_equal(dv_constant_data(a), w, sizeof w);
    dv_constant_close(a);
    assert_memory_equal(dv_constant_data(b), w, sizeof w);
    dv_constant_close(b);
    dv_constant_close(NULL);
    dv_plan_destroy(plan);
}

// Writes w in Fortran order, with a dict of this length.
static void put_fortran(int dict_bytes)
{
    static const char head[] = "\x93NUMPY\x01\x00";
    char dict[128];
    FILE *f = fopen(file, "wb");
    assert_non_null(f);
    snprintf(dict, sizeof dict, "%-*s\n", dict_bytes - 1,
             "{'descr': '<f4', 'fortran_order': True, 'shape': (4, 3)}");
    must(fwrite(head, 8, 1, f) == 1 && fputc(dict_bytes, f) == dict_bytes &&
         fputc(0, f) == 0 && fputs(dict, f) >= 0);
    for (int i = 0; i < 12; i++)
        must(fwrite(&w[i % 4][i / 4], 4, 1, f) == 1);
    assert_int_equal(fclose(f), 0);
}

// A file in Fortran order, and one whose elements are not aligned, are copied.
TEST(other_orders)
{
    dv_plan *plan = plan_of_file();
    for (int bytes = 80; bytes < 84; bytes++) {
        put_fortran(bytes);
        dv_constant *c = open_w(plan, DV_OK);
        assert_memory_equal(dv_constant_data(c), w, sizeof w);
        dv_constant_close(c);
    }
    dv_plan_destroy(plan);
}

// A file that is not there, is cut off, or holds something else.
TEST(wrong_files)
{
    dv_plan *plan = plan_of_file();
    dv_diag *diag = dv_diag_create();
    dv_exec *x = NULL;
    unlink(file);
    assert_int_equal(dv_exec_create(&x, plan, diag), DV_E_FILE);
    assert_non_null(strstr(dv_diag_text(diag), file));
    put_weights();
    assert_int_equal(truncate(file, 100), 0);
    assert_int_equal(dv_exec_create(&x, plan, NULL), DV_E_FORMAT);
    const int64_t shape[] = {3, 4};
    dv_npy_write(file, DV_F32, 2, shape, w, NULL);
    dv_diag_clear(diag);
    assert_int_equal(dv_exec_create(&x, plan, diag), DV_E_FORMAT);
    assert_non_null(strstr(dv_diag_text(diag), "w wants f32[4, 3]"));
    assert_null(x);
    dv_diag_destroy(diag);
    dv_plan_destroy(plan);
}

// Whatever allocation fails: an error and no leak.
TEST(out_of_memory)
{
    put_weights();
    dv_plan *plan = plan_of_file();
    for (int64_t n = 0;; n++) {
        dv_exec *x = NULL;
        dv_mem_fail_at(n);
        dv_status st = dv_exec_create(&x, plan, NULL);
        dv_mem_fail_at(-1);
        dv_exec_destroy(x);
        if (st == DV_OK)
            break;
        assert_int_equal(st, DV_E_NOMEM);
        assert_null(x);
    }
    dv_plan_destroy(plan);
}

// A constant without a file is bound, and may be bound again.
TEST(bound)
{
    job j;
    start(&j,
          "const a: f32[40, 30]\ninput x: f32[20, 40]\n"
          "y[i,j] = sum[k] x[i,k] * a[k,j]\noutput y\n",
          2, DV_RUN_THREADS);
    is_right(&j, 0);
    job_stop(&j);
    static const dv_plan_options usual = DV_PLAN_OPTIONS_INIT;
    dv_plan *plan = plan_on("const a: f32[4]\ny[i] = a[i] * 2\noutput y\n",
                            "host", NULL, &usual);
    dv_exec *x = NULL;
    float y[4], a[4] = {1, 2, 3, 4}, b[4] = {5, 6, 7, 8};
    must(!dv_exec_create(&x, plan, NULL));
    must(!dv_exec_bind(x, "y", y, sizeof y, NULL));
    assert_int_equal(dv_exec_run(x, NULL), DV_E_USAGE);
    must(!dv_exec_bind(x, "a", a, sizeof a, NULL) && !dv_exec_run(x, NULL));
    assert_true(y[3] == 8);
    must(!dv_exec_bind(x, "a", b, sizeof b, NULL) && !dv_exec_run(x, NULL));
    assert_true(y[3] == 16);
    dv_exec_destroy(x);
    dv_plan_destroy(plan);
}

static int n_packed; // calls of the function below

static dv_status pack_number(const void *user, void *to, dv_diag *diag)
{
    n_packed++;
    memcpy(to, user, sizeof(int));
    return *(const int *)user < 0 ? dv_fail(diag, DV_E_LIMIT, DV_NOWHERE, "no")
                                  : DV_OK;
}

static dv_packed *pack(const char *key, int number, dv_status want)
{
    dv_packed *p = NULL;
    dv_text k = {0};
    dv_put(&k, "%s", key);
    assert_int_equal(dv_packed_get(&p, &k, 64, pack_number, &number, NULL),
                     want);
    dv_text_free(&k);
    return p;
}

// What is packed is shared by all that have the same key, and kept only while
// it is used.
TEST(packed_is_shared)
{
    dv_packed *a = pack("a", 1, DV_OK), *b = pack("b", 2, DV_OK);
    dv_packed *again = pack("a", 3, DV_OK);
    assert_int_equal(n_packed, 2);
    assert_ptr_equal(a, again);
    assert_ptr_not_equal(a, b);
    assert_int_equal(*(const int *)dv_packed_data(again), 1);
    assert_int_equal((uintptr_t)dv_packed_data(a) % 64, 0);
    dv_packed_release(a);
    dv_packed_release(b);
    assert_ptr_equal(again, pack("a", 4, DV_OK));
    dv_packed_release(again);
    dv_packed_release(again);
    a = pack("a", 5, DV_OK);
    assert_int_equal(*(const int *)dv_packed_data(a), 5);
    dv_packed_release(a);
    assert_null(pack("a", -1, DV_E_LIMIT));
    for (int i = 0; i < 2; i++) {
        dv_mem_fail_at(i);
        pack("a", 6, DV_E_NOMEM);
        dv_mem_fail_at(-1);
    }
    dv_packed_release(NULL);
}

static const char large[] = "const w: f32[200, 300]\ninput x: f32[20, 200]\n"
                            "y[i,j] = sum[k] x[i,k] * w[k,j]\noutput y\n";

// Sets all of x to 1 and all of w to `value`, runs, and returns y[0,0].
static float sum_of(job *j, float value)
{
    float *w_data = j->data[tensor_named(j->plan, "w")];
    float *x_data = j->data[tensor_named(j->plan, "x")];
    for (int i = 0; i < 200 * 300; i++)
        w_data[i] = value;
    for (int i = 0; i < 20 * 200; i++)
        x_data[i] = 1;
    assert_true(job_run(j));
    return *(float *)j->data[tensor_named(j->plan, "y")];
}

static void bind_w(job *j)
{
    void *data = j->data[tensor_named(j->plan, "w")];
    must(!dv_exec_bind(j->x, "w", data, sizeof(float[200][300]), NULL));
}

// Threads pack a constant before the first run and read only what was packed,
// until it is bound again.
TEST(packed_once)
{
    job j;
    start(&j, large, 2, DV_RUN_THREADS);
    if (!j.plan->schedule.ops[0].once) {
        job_stop(&j);
        skip_test("no kernels of products");
    }
    assert_int_equal(j.plan->schedule.ops[0].once, 1 << 1);
    assert_true(j.plan->schedule.constant_bytes >= 200 * 300 * 4);
    assert_true(sum_of(&j, 1) == 200);
    assert_true(sum_of(&j, 2) == 200); // w must not change: it is not read
    bind_w(&j);
    assert_true(sum_of(&j, 3) == 600);
    must(!dv_exec_use(j.x, DV_RUN_SEQ, NULL));
    assert_true(sum_of(&j, 4) == 800);
    must(!dv_exec_use(j.x, DV_RUN_THREADS, NULL));
    assert_true(sum_of(&j, 5) == 1000);
    job_stop(&j);
}

// The first run allocates what is packed: an error if there is no memory.
TEST(packing_out_of_memory)
{
    int64_t n = 0;
    job j;
    start(&j, large, 1, DV_RUN_THREADS);
    for (;; n++) {
        dv_mem_fail_at(n);
        dv_status st = dv_exec_run(j.x, NULL);
        dv_mem_fail_at(-1);
        if (st == DV_OK)
            break;
        assert_int_equal(st, DV_E_NOMEM);
    }
    assert_true(n > 2 || !j.plan->schedule.ops[0].once);
    job_stop(&j);
}

TEST(option)
{
    const char *names[] = {"a", NULL};
    dv_plan_options o = DV_PLAN_OPTIONS_INIT;
    dv_program *p = program_of("input a: f32[4]\ninput u: f32[4]\n"
                               "u[i] <- a[i] * 2\noutput u\n");
    dv_target *t = target_of("host");
    dv_plan *plan = NULL;
    o.constants = names;
    o.n_constants = 1;
    assert_int_equal(dv_plan_create(&plan, p, t, &o, NULL), DV_OK);
    assert_int_equal(plan->ops->tensors[tensor_named(plan, "a")].is_const, 1);
    char *printed = dv_plan_text(plan);
    assert_non_null(strstr(printed, "const a: f32[4]\n"));
    dv_free(printed);
    dv_plan_destroy(plan);
    o.n_constants = 2;
    assert_int_equal(dv_plan_create(&plan, p, t, &o, NULL), DV_E_USAGE);
    names[1] = "u";
    assert_int_equal(dv_plan_create(&plan, p, t, &o, NULL), DV_E_USAGE);
    names[1] = "none";
    assert_int_equal(dv_plan_create(&plan, p, t, &o, NULL), DV_E_USAGE);
    o.constants = NULL;
    assert_int_equal(dv_plan_create(&plan, p, t, &o, NULL), DV_E_USAGE);
    dv_target_destroy(t);
    dv_program_destroy(p);
}

static dv_status fill_numbers(const void *user, void *to, dv_diag *diag)
{
    (void)diag;
    const int *what = user; // the first number, and how many
    for (int i = 0; i < what[1]; i++)
        ((int *)to)[i] = what[0] + i;
    return DV_OK;
}

// Packed elements of all sizes keep their values while others come and go.
TEST(packed_of_all_sizes)
{
    enum { N = 24 };
    dv_packed *all[N] = {0};
    int n_bytes[N];
    for (int round = 0; round < 3; round++) {
        for (int i = round; i < N; i += round + 1) {
            dv_packed_release(all[i]);
            n_bytes[i] = 64 << i % 19; // up to 16 MiB
            int what[] = {i * 1000 + round, n_bytes[i] / (int)sizeof(int)};
            dv_text key = {0};
            dv_put_bytes(&key, (const char *)what, sizeof what);
            all[i] = NULL;
            assert_int_equal(dv_packed_get(&all[i], &key, n_bytes[i],
                                           fill_numbers, what, NULL),
                             DV_OK);
            dv_text_free(&key);
            assert_int_equal((uintptr_t)dv_packed_data(all[i]) % 64, 0);
        }
        for (int i = 0; i < N; i++) {
            const int *data = dv_packed_data(all[i]);
            for (int k = 0; k < n_bytes[i] / (int)sizeof(int); k++)
                assert_true(data[k] == data[0] + k);
            assert_int_equal(data[0] / 1000, i);
        }
    }
    for (int i = 0; i < N; i++)
        dv_packed_release(all[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(file_beside_the_program),
        cmocka_unit_test(described),
        cmocka_unit_test(shared),
        cmocka_unit_test(other_orders),
        cmocka_unit_test(wrong_files),
        cmocka_unit_test(out_of_memory),
        cmocka_unit_test(bound),
        cmocka_unit_test(packed_is_shared),
        cmocka_unit_test(packed_once),
        cmocka_unit_test(packing_out_of_memory),
        cmocka_unit_test(option),
        cmocka_unit_test(packed_of_all_sizes),
    };
    return run_group(tests, make_dir, remove_dir);
}
