// Listings: every instruction of every kind of kernel is listed, byte by byte,
// and data stands behind the code.
#define _GNU_SOURCE
#include "harness/gemm_case.h"
#include "jit/vec/vec.h"

// -- What a listing must be --------------------------------------------------

enum { MOST_LINES = 1 << 15 };

typedef struct line {
    size_t at, bytes;
    char text[96];
} line;

static line lines[MOST_LINES];

// Reads the lines of the next kernel and moves *p behind it; returns 0 at the
// end.
static int read_kernel(const char **p, size_t *size)
{
    int n = 0;
    const char *head = strstr(*p, ": # ");
    if (!head)
        return 0;
    assert_int_equal(sscanf(head, ": # %zu bytes", size), 1);
    *p = strchr(head, '\n') + 1;
    for (; !strncmp(*p, "    ", 4); *p = strchr(*p, '\n') + 1) {
        line *l = &lines[n++];
        char hex[64];
        assert_true(n < MOST_LINES);
        assert_int_equal(sscanf(*p, "%zx %63s %95[^\n]", &l->at, hex, l->text),
                         3);
        l->bytes = strlen(hex) / 2;
    }
    return n;
}

static int is_data(const line *l)
{
    return l->text[0] == '.';
}

// A jump of x86-64 names a byte of the listing: it must be the first of an
// instruction.
static int lands(const line *l, int n)
{
    size_t to;
    if (l->text[0] != 'j' || sscanf(l->text, "%*s 0x%zx", &to) != 1)
        return 1;
    for (int i = 0; i < n; i++)
        if (lines[i].at == to)
            return 1;
    return 0;
}

static void check_kernel(int n, size_t size, int *data)
{
    size_t at = 0;
    int code = 0, leaves = 0;
    for (int i = 0; i < n; i++) {
        assert_int_equal(lines[i].at, at);
        at += lines[i].bytes;
        if (is_data(&lines[i]))
            continue;
        if (code != i)
            fail_msg("%zx: %s behind %s", lines[i].at, lines[i].text,
                     lines[i - 1].text);
        leaves |= !strncmp(lines[i].text, "ret", 3);
        code = i + 1;
    }
    assert_int_equal(at, size);
    assert_true(leaves);
    for (int i = 0; i < code; i++)
        assert_true(lands(&lines[i], code));
    *data += n - code;
}

// Returns the number of kernels; *data is the number of lines that are data.
static int check_listing(dv_jit *jit, int *data)
{
    dv_text t = {0};
    int n, n_kernels = 0;
    size_t size;
    dv_jit_list(jit, &t, NULL, NULL);
    for (const char *p = t.at; (n = read_kernel(&p, &size)); n_kernels++)
        check_kernel(n, size, data);
    dv_text_free(&t);
    return n_kernels;
}

// -- Kernels -----------------------------------------------------------------

static void make_products(dv_jit *jit)
{
    static const int types[] = {DV_F32, DV_F64, DV_I32};
    dv_gemm_fn fn;
    for (int i = 0; i < 60 / SHARE; i++) {
        dv_gemm_shape s = random_gemm(i % 3 ? 30 : 70, types[i % 3]);
        dv_jit_gemm(jit, &s, &fn,
                    NULL); // some shapes have no kernel of their own
    }
}

static void make_moves(dv_jit *jit)
{
    static const int types[] = {DV_F32, DV_F64, DV_F16, DV_I8};
    dv_move_fn fn;
    for (int i = 0; i < 4 * (DV_MOVE_NARROW + 1); i++) {
        dv_move_shape s = {.rows = 13, .cols = 39};
        s.move = (uint8_t)(i / 4);
        s.dtype = (uint8_t)types[i % 4];
        dv_jit_move(jit, &s, &fn, NULL);
    }
}

// Every function, of dense and of strided rows, and sums of them.
static void make_statements(dv_jit *jit)
{
    dv_vec_operand o[4] = {{0}};
    dv_vec_node n[5] = {{.kind = DV_VEC_LOAD}};
    dv_vec_shape s = {.operands = o, .nodes = n, .n_operands = 4, .n_nodes = 4};
    dv_vec_fn fn;
    for (int i = 0; i < 4; i++)
        o[i] = (dv_vec_operand){.inner = 1, .outer = 100, .dtype = DV_F32};
    for (int i = 0; i < 3; i++)
        n[i] = (dv_vec_node){.kind = DV_VEC_LOAD, .arg = {(uint16_t)i}};
    n[4] = (dv_vec_node){.kind = DV_VEC_REDUCED};
    s.value = s.result = 3;
    s.compute = DV_F32;
    int by = SHARE > 1 ? 5 : 1;
    for (int i = 0; i < DV_N_FNS; i += by) {
        n[3] = (dv_vec_node){.kind = DV_VEC_APPLY, .arg = {0, 1, 2}};
        if (!dv_vec_has((dv_fn)i, DV_F32))
            continue;
        n[3].fn = (uint8_t)i;
        o[0].inner = 1 + i % 2;
        assert_int_equal(dv_jit_vec(jit, &s, &fn, NULL), DV_OK);
    }
    o[3] = (dv_vec_operand){.outer = 1, .dtype = DV_F16};
    s.n_nodes = 5;
    s.result = 4;
    s.reduce = DV_VEC_INNER;
    assert_int_equal(dv_jit_vec(jit, &s, &fn, NULL), DV_OK);
}

TEST(all_is_told)
{
    int n_sets = 0;
    for (int i = 0; i < dv_n_isas; i++) {
        setenv("DIVVY_CPU", dv_isas[i].name, 1);
        dv_jit *jit = new_jit();
        unsetenv("DIVVY_CPU");
        if (dv_jit_isa(jit) == &dv_isas[i]) {
            int data = 0;
            make_products(jit);
            make_moves(jit);
            make_statements(jit);
            assert_true(check_listing(jit, &data) > 10);
            assert_true(data > 0); // functions have constants
            n_sets++;
        }
        dv_jit_destroy(jit);
    }
    assert_true(n_sets > 0 || !dv_isa_host());
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_is_told)};
    return run_group(tests, NULL, NULL);
}
