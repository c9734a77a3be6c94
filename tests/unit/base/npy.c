// .npy files: what is written is read back, what numpy writes is read, and
// every inconsistent file is refused with its own message.
#define _POSIX_C_SOURCE 200809L
#include "harness/test.h"
#include "base/dtype.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/npy.h"
#include <sys/stat.h>
#include <unistd.h>

static char dir[] = "/tmp/divvy-npy-XXXXXX";
static char path[sizeof dir + 16];

static int make_dir(void **state)
{
    (void)state;
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof path, "%s/t.npy", dir);
    return 0;
}

// Removes the folder; rmdir fails if a test left anything but t.npy there.
static int remove_dir(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(dir);
}

static void put_file(const void *head, size_t n, const void *data, size_t m)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(head, 1, n, f), n);
    assert_int_equal(m ? fwrite(data, 1, m, f) : 0, m);
    assert_int_equal(fclose(f), 0);
}

// Writes a file of version 1 or 2 with this dict, padded to `dict_len` bytes.
static void put_npy(int version, const char *dict, size_t dict_len,
                    const void *data, size_t m)
{
    size_t n = version == 1 ? 10 : 12;
    char *head = malloc(n + dict_len + 1);
    assert_non_null(head);
    memcpy(head, "\x93NUMPY", 6);
    head[6] = (char)version;
    head[7] = 0;
    for (size_t i = 8; i < n; i++)
        head[i] = (char)(dict_len >> 8 * (i - 8) & 255);
    snprintf(head + n, dict_len + 1, "%-*s", (int)dict_len, dict);
    put_file(head, n + dict_len, data, m);
    free(head);
}

static int contains(const char *text, const char *part)
{
    if (strstr(text, part))
        return 1;
    print_error("wanted: %s\n   got: %s", part, text);
    return 0;
}

// Reading t.npy as `x: f32[2, 3]` fails with this message.
static void refused(dv_status status, const char *message)
{
    float x[6];
    dv_diag *d = dv_diag_create();
    assert_int_equal(dv_npy_read(path, "x", DV_F32, 2, (int64_t[]){2, 3}, x, d),
                     status);
    assert_int_equal(dv_diag_status(d), status);
    assert_true(contains(dv_diag_text(d), path));
    assert_true(contains(dv_diag_text(d), message));
    dv_diag_destroy(d);
}

// -- Files that are right ----------------------------------------------------

TEST(round_trips)
{
    static const int64_t shape[] = {3, 1, 5, 2};
    for (int t = DV_F64; t <= DV_BOOL; t++) {
        int64_t bytes = dv_dtype_get((dv_dtype)t)->size_bytes;
        for (int n_dims = 0; n_dims <= 4; n_dims++) {
            bytes *= n_dims ? shape[n_dims - 1] : 1;
            unsigned char out[240], in[240];
            for (int i = 0; i < 240; i++)
                out[i] = (unsigned char)rand();
            memset(in, 0, sizeof in);
            assert_int_equal(
                dv_npy_write(path, (dv_dtype)t, n_dims, shape, out, NULL), 0);
            assert_int_equal(
                dv_npy_read(path, "x", (dv_dtype)t, n_dims, shape, in, NULL),
                0);
            assert_memory_equal(in, out, (size_t)bytes);
            for (int64_t i = bytes; i < 240; i++)
                assert_int_equal(in[i], 0);
        }
    }
}

// The bytes are exactly those that numpy.save writes.
TEST(as_numpy_writes)
{
    static const char start[] =
        "\x93NUMPY\x01\x00\x76\x00"
        "{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }   ";
    float x[4] = {1, 2, 3, 4};
    char *bytes = NULL;
    size_t len = 0;
    assert_int_equal(dv_npy_write(path, DV_F32, 1, (int64_t[]){4}, x, NULL), 0);
    assert_int_equal(dv_file_read(&bytes, &len, path, 1000, NULL), 0);
    assert_int_equal(len, 128 + sizeof x);
    assert_memory_equal(bytes, start, sizeof start - 1);
    for (size_t i = sizeof start - 1; i < 127; i++)
        assert_int_equal(bytes[i], ' ');
    assert_int_equal(bytes[127], '\n');
    assert_memory_equal(bytes + 128, x, sizeof x);
    dv_release(bytes);
}

TEST(data_is_aligned)
{
    int64_t shape[DV_MAX_DIMS];
    for (int n_dims = 0; n_dims <= DV_MAX_DIMS; n_dims++) {
        for (int d = 0; d < n_dims; d++)
            shape[d] = d ? 1000000000000000000 : 0;
        char *bytes = NULL;
        size_t len = 0;
        dv_npy_header h;
        dv_status s = dv_npy_write(path, DV_I8, n_dims, shape, "", NULL);
        assert_int_equal(s, n_dims > 2 ? DV_E_OVERFLOW : DV_OK);
        if (s != DV_OK)
            continue;
        assert_int_equal(dv_file_read(&bytes, &len, path, 1000, NULL), 0);
        assert_int_equal(dv_npy_parse(bytes, len, &h, NULL, NULL), 0);
        assert_int_equal(h.data_off % 64, 0);
        assert_int_equal(h.n_dims, n_dims);
        assert_int_equal(h.size_bytes, n_dims == 0);
        dv_release(bytes);
    }
}

// Data of more than one block, so that blocks end in the middle of rows.
TEST(fortran_order)
{
    enum { A = 7, B = 5, C = 11, D = 97, N = A * B * C * D };
    int64_t *file = malloc(N * sizeof *file);
    int64_t(*x)[B][C][D] = malloc(N * sizeof *file);
    assert_true(file && x);
    for (int i = 0; i < N; i++)
        file[i] = i;
    put_npy(1,
            "{'descr': '<i8', 'fortran_order': True, 'shape': (7, 5, 11, 97)}",
            70, file, N * sizeof *file);
    assert_int_equal(
        dv_npy_read(path, "x", DV_I64, 4, (int64_t[]){A, B, C, D}, x, NULL), 0);
    for (int i = 0; i < N; i++)
        assert_int_equal(x[i % A][i / A % B][i / (A * B) % C][i / (A * B * C)],
                         i);
    free(file);
    free(x);
}

TEST(fortran_small)
{
    static const char *const dicts[] = {
        "{'shape':(),'fortran_order':True,'descr':'|i1'}",
        "{'shape':(6,),'fortran_order':True,'descr':'<i1'}",
        "{'shape':(2,3),'fortran_order':True,'descr':'=i1'}",
        "{'shape':(2,0),'fortran_order':True,'descr':'|i1'}",
    };
    static const int64_t shapes[][2] = {{0}, {6}, {2, 3}, {2, 0}};
    static const int n_dims[] = {0, 1, 2, 2}, bytes[] = {1, 6, 6, 0};
    static const char want[][6] = {"a", "abcdef", "acebdf", ""};
    for (int i = 0; i < 4; i++) {
        char x[6] = {0};
        put_npy(1, dicts[i], 60, "abcdef", (size_t)bytes[i]);
        assert_int_equal(
            dv_npy_read(path, "x", DV_I8, n_dims[i], shapes[i], x, NULL), 0);
        assert_memory_equal(x, want[i], 6);
    }
}

// The reader accepts Python dicts that numpy does not write.
TEST(other_spellings)
{
    static const char *const dicts[] = {
        "{\"descr\": \"<f4\", \"fortran_order\": False, \"shape\": (2, 3)}",
        "{'descr':'=f4','fortran_order':False,'shape':(2,3,),}\n",
        "\t{'shape' :(2L , 3L) ,\r\n'descr' : '<f4','fortran_order':False }\n",
    };
    const float data[6] = {1, 2, 3, 4, 5, 6};
    for (int version = 1; version <= 2; version++) {
        for (int i = 0; i < 3; i++) {
            float x[6] = {0};
            put_npy(version, dicts[i], 90, data, sizeof data);
            assert_int_equal(
                dv_npy_read(path, "x", DV_F32, 2, (int64_t[]){2, 3}, x, NULL),
                0);
            assert_memory_equal(x, data, sizeof x);
        }
    }
}

static const char good[] =
    "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n";

TEST(long_header)
{
    const float data[6] = {1, 2, 3, 4, 5, 6};
    float x[6] = {0};
    put_npy(2, good, DV_NPY_MAX_DICT, data, sizeof data);
    assert_int_equal(
        dv_npy_read(path, "x", DV_F32, 2, (int64_t[]){2, 3}, x, NULL), 0);
    assert_memory_equal(x, data, sizeof x);
    put_npy(2, good, DV_NPY_MAX_DICT + 1, data, sizeof data);
    refused(DV_E_LIMIT, "the header has 65536 bytes, at most 65535 are read");
}

// -- Files that are wrong ----------------------------------------------------

#define DICT(descr, order, shape)                                              \
    "{'descr': " descr ", 'fortran_order': " order ", 'shape': " shape "}"
static const struct {
    const char *dict, *message;
} bad[] = {
    {"", "expected '{', found its end"},
    {"[1]", "expected '{', found '['"},
    {"{", "expected a key or '}', found its end"},
    {"{'descr': '<f4'", "expected ',' or '}', found its end"},
    {"{'descr' '<f4'}", "expected ':', found '''"},
    {"{'descr: 1}", "the string has no end"},
    {"{, }", "expected a key or '}', found ','"},
    {"{'descr': '<f4' 'shape': ()}", "expected ',' or '}', found '''"},
    {"{'descr': '<f4'} x", "expected nothing after '}', found 'x'"},
    {"{'descr': '<f4', 'a\x1b\xff': 1}", "unknown key 'a?\?'"},
    {"{'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa': 1}",
     "unknown key 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...'"},
    {"{'descr': '<f4', 'descr': '<f4'}", "the header has 'descr' twice"},
    {"{'descr': '<f4', 'shape': (2, 3)}", "has no 'fortran_order'"},
    {"{'descr': '<f4', 'fortran_order': False}", "has no 'shape'"},
    {"{}", "the header has no 'descr'"},
    {DICT("[('a', '<f4')]", "False", "(2, 3)"),
     "expected a type such as '<f4', found '['"},
    {DICT("'>f4'", "False", "(2, 3)"),
     "big-endian ('>f4'), only little-endian ones ('<f4')"},
    {DICT("'|f4'", "False", "(2, 3)"), "elements of type '|f4' are not"},
    {DICT("'<c8'", "False", "(2, 3)"), "elements of type '<c8' are not"},
    {DICT("'<f16'", "False", "(2, 3)"), "elements of type '<f16' are not"},
    {DICT("''", "False", "(2, 3)"), "elements of type '' are not"},
    {DICT("'<f4'", "0", "(2, 3)"), "expected True or False, found '0'"},
    {DICT("'<f4'", "Falsely", "(2, 3)"), "expected ',' or '}', found 'l'"},
    {DICT("'<f4'", "False", "[2, 3]"), "expected a shape such as (4, 8)"},
    {DICT("'<f4'", "False", "(6)"), "expected ',', found ')'"},
    {DICT("'<f4'", "False", "(2, 3 4)"), "expected ',' or ')', found '4'"},
    {DICT("'<f4'", "False", "(2, x)"), "expected a number or ')'"},
    {DICT("'<f4'", "False", "(2, 3"), "expected ',' or ')', found '}'"},
    {DICT("'<f4'", "False", "(2, -3)"), "dim 1 of the shape is -3"},
    {DICT("'<f4'", "False", "(9223372036854775808,)"),
     "dim 0 of the shape does not fit 64 bits"},
    {DICT("'<f4'", "False", "(99999999999999999999999, 0)"),
     "dim 0 of the shape does not fit 64 bits"},
    {DICT("'<f4'", "False", "(2305843009213693952, )"),
     "more bytes than fit 64 bits, at most 9223372036854775807 do"},
    {DICT("'<f4'", "False", "(0, 4294967296, 4294967296)"),
     "more bytes than fit 64 bits"},
};
#undef DICT

TEST(bad_dicts)
{
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        put_npy(1, bad[i].dict, strlen(bad[i].dict), NULL, 0);
        refused(DV_E_FORMAT, bad[i].message);
    }
}

TEST(too_many_dims)
{
    put_npy(1,
            "{'descr': '<f4', 'fortran_order': False, 'shape': "
            "(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)}",
            90, "abcd", 4);
    refused(DV_E_LIMIT, "the shape has more than 16 dims");
}

TEST(bad_prefixes)
{
    put_file("", 0, NULL, 0);
    refused(DV_E_FORMAT, "the file has 0 bytes, a .npy header at least 10");
    put_file("\x93NUMPY\x01\x00\x01", 9, NULL, 0);
    refused(DV_E_FORMAT, "the file has 9 bytes, a .npy header at least 10");
    put_file("\x93NUMPY\x02\x00\x01\x00\x00", 11, NULL, 0);
    refused(DV_E_FORMAT, "the file has 11 bytes, a .npy header at least 12");
    put_file("PK\x03\x04\x14\x00\x00\x00\x00\x00", 10, NULL, 0);
    refused(DV_E_FORMAT,
            "starts with 50 4b 03 04 14 00, not 93 4e 55 4d 50 59");
    put_file("\x93NUMPY\x03\x00\x01\x00\x00\x00{", 13, NULL, 0);
    refused(DV_E_FORMAT, "version 3.0 of the .npy format, only 1.0 and 2.0");
    put_file("\x93NUMPY\x01\x01\x01\x00{", 11, NULL, 0);
    refused(DV_E_FORMAT, "version 1.1 of the .npy format");
    put_file("\x93NUMPY\x01\x00\x76\x00{}", 12, NULL, 0);
    refused(DV_E_FORMAT,
            "the header claims 118 bytes, the file has 2 left for it");
    put_file("\x93NUMPY\x02\x00\xff\xff\xff\xff{}", 14, NULL, 0);
    refused(DV_E_FORMAT,
            "the header claims 4294967295 bytes, the file has 2 left");
}

TEST(wrong_sizes)
{
    const float data[7] = {0};
    put_npy(1, good, 118, data, 23);
    refused(DV_E_FORMAT, "truncated: the header promises 24 bytes of "
                         "elements, the file has 23");
    put_npy(1, good, 118, data, 25);
    refused(DV_E_FORMAT, "trailing bytes: the header promises 24 bytes of "
                         "elements, the file has 25");
    put_npy(2, good, 118, NULL, 0);
    refused(DV_E_FORMAT, "the file has 0");
}

TEST(other_tensors)
{
    static const struct {
        const char *dict, *message;
    } cases[] = {
        {"{'descr': '<f2', 'fortran_order': False, 'shape': (2, 3)}",
         "error[format]: the file holds f16[2, 3], x wants f32[2, 3]\n"},
        {"{'descr': '<u2', 'fortran_order': False, 'shape': (3, 2)}",
         "the file holds bf16[3, 2], x wants f32[2, 3]"},
        {"{'descr': '<f4', 'fortran_order': True, 'shape': (3, 2)}",
         "the file holds f32[3, 2], x wants f32[2, 3]"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': ()}",
         "the file holds f32[], x wants f32[2, 3]"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3, 1)}",
         "the file holds f32[2, 3, 1], x wants f32[2, 3]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_npy(1, cases[i].dict, 70, NULL, 0);
        refused(DV_E_FORMAT, cases[i].message);
    }
}

// Errors in the header have a position in its text.
TEST(positions)
{
    float x[6];
    dv_diag *d = dv_diag_create();
    put_npy(1, "{'descr': '<f4', 'color': 1}", 30, NULL, 0);
    dv_npy_read(path, "x", DV_F32, 2, (int64_t[]){2, 3}, x, d);
    assert_int_equal(dv_diag_line(d), 1);
    assert_int_equal(dv_diag_column(d), 10 + 19);
    dv_diag_destroy(d);
}

TEST(no_such_files)
{
    unlink(path);
    refused(DV_E_FILE, "cannot open the file: No such file or directory");
    assert_int_equal(mkdir(path, 0777), 0);
    refused(DV_E_FILE, "a directory is no regular file");
    dv_diag *d = dv_diag_create();
    assert_int_equal(dv_npy_write(path, DV_F32, 0, NULL, &(float){1}, d),
                     DV_E_OUTPUT);
    dv_diag_destroy(d);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(mkfifo(path, 0666), 0);
    refused(DV_E_FILE, "it is no regular file");
    unlink(path);
}

TEST(out_of_memory)
{
    float x[6] = {0};
    int64_t shape[] = {2, 3};
    dv_status s = DV_E_NOMEM;
    for (int64_t n = 0; s != DV_OK; n++) {
        dv_mem_fail_at(n);
        s = dv_npy_write(path, DV_F32, 2, shape, x, NULL);
        dv_mem_fail_at(-1);
        assert_true(s == DV_OK || s == DV_E_NOMEM);
    }
    for (int asked = 0; asked < 2; asked++) {
        s = DV_E_NOMEM;
        for (int64_t n = 0; s == DV_E_NOMEM; n++) {
            dv_mem_fail_at(n);
            s = dv_npy_read(path, "x", DV_F32, 2 - asked, shape, x, NULL);
            dv_mem_fail_at(-1);
        }
        assert_int_equal(s, asked ? DV_E_FORMAT : DV_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trips),     cmocka_unit_test(as_numpy_writes),
        cmocka_unit_test(data_is_aligned), cmocka_unit_test(fortran_order),
        cmocka_unit_test(fortran_small),   cmocka_unit_test(other_spellings),
        cmocka_unit_test(long_header),     cmocka_unit_test(bad_dicts),
        cmocka_unit_test(too_many_dims),   cmocka_unit_test(bad_prefixes),
        cmocka_unit_test(wrong_sizes),     cmocka_unit_test(other_tensors),
        cmocka_unit_test(positions),       cmocka_unit_test(no_such_files),
        cmocka_unit_test(out_of_memory),
    };
    return run_group(tests, make_dir, remove_dir);
}
