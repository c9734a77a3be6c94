// Statements for x86-64 that differ in how far rows are apart are copies of
// each other, and what they are by themselves.
#define _GNU_SOURCE
#include "jit/host.h"
#include "jit/vec/ir.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

enum { MOST_CODE = 1 << 17, MOST = 14 }; // more operands than pointers
static unsigned char alone[MOST_CODE], after[MOST_CODE];

typedef struct statement {
    dv_vec_shape s;
    dv_vec_operand o[MOST + 1];
    dv_vec_node nodes[2 * MOST + 2];
} statement;

// exp of a sum of n operands, each `far` elements from row to row.
static void sum_of(statement *q, int n, int reduce, int type, int64_t far)
{
    memset(q, 0, sizeof *q);
    int last = 2 * n - 2, fold = reduce != DV_VEC_EACH;
    for (int i = 0; i < n; i++) {
        q->nodes[i] = (dv_vec_node){.kind = DV_VEC_LOAD, .arg = {(uint16_t)i}};
        q->o[i] = (dv_vec_operand){.inner = 1, .outer = far};
        q->o[i].dtype = (uint8_t)(i % 2 ? type : DV_F32);
    }
    q->o[n] = (dv_vec_operand){
        .inner = reduce != DV_VEC_INNER && reduce != DV_VEC_BOTH,
        .outer = reduce == DV_VEC_EACH || reduce == DV_VEC_INNER,
        .dtype = DV_F32};
    for (int i = n; i <= last; i++)
        q->nodes[i] = (dv_vec_node){
            .kind = DV_VEC_APPLY,
            .fn = DV_FN_ADD,
            .arg = {(uint16_t)(i == n ? 0 : i - 1), (uint16_t)(i - n + 1)}};
    q->nodes[last + 1] = (dv_vec_node){
        .kind = DV_VEC_APPLY, .fn = DV_FN_EXP, .arg = {(uint16_t)last}};
    q->nodes[last + 2] = (dv_vec_node){.kind = DV_VEC_REDUCED};
    q->s = (dv_vec_shape){.operands = q->o, .nodes = q->nodes};
    q->s.n_operands = (uint16_t)(n + 1);
    q->s.n_nodes = (uint16_t)(last + 2 + fold);
    q->s.value = (uint16_t)(last + 1);
    q->s.result = (uint16_t)(last + 1 + fold);
    q->s.compute = DV_F32;
    q->s.reduce = (uint8_t)reduce;
}

static size_t written(const dv_vec_isa *isa, const dv_vec_shape *s,
                      dv_vec_kept *kept, unsigned char *out,
                      dv_vec_kept_from *from)
{
    uint64_t key[DV_VEC_USUAL];
    int n = dv_vec_key_words(s);
    dv_code code = {.at = out, .cap = MOST_CODE};
    assert_true(n <= DV_VEC_USUAL);
    dv_vec_key(s, key);
    assert_true(dv_vec_kept_write(kept, isa, s, key, n, &code, from));
    assert_false(code.failed);
    return code.n;
}

static dv_vec_kept_from try_kept(const dv_vec_isa *isa, const statement *q,
                                 dv_vec_kept *kept)
{
    dv_vec_kept none = {0};
    dv_vec_kept_from from, ignored;
    size_t n = written(isa, &q->s, &none, alone, &ignored);
    assert_int_equal(written(isa, &q->s, kept, after, &from), n);
    assert_memory_equal(alone, after, n);
    dv_vec_kept_free(&none);
    return from;
}

// As many bytes in code: a copy; others: another kernel from the same plan.
static void try_rows(const dv_vec_isa *isa, statement *q, int n)
{
    static const struct {
        int64_t far;
        int copied;
    } steps[] = {{901, 1}, {-5000, 1}, {3, 0}, {-9, 1}, {1 << 28, 0}, {900, 1}};
    dv_vec_kept kept = {0};
    assert_int_equal(try_kept(isa, q, &kept), DV_VEC_FROM_NONE);
    int holes = q->s.reduce == DV_VEC_OUTER ? 8 * n : n; // at most
    for (int i = 0; i < n; i++)
        for (size_t k = 0; k < sizeof steps / sizeof *steps; k++) {
            q->o[i].outer = steps[k].far;
            dv_vec_kept_from from = try_kept(isa, q, &kept);
            assert_true(from != DV_VEC_FROM_NONE);
            if (holes <= DV_VEC_MAX_HOLES)
                assert_int_equal(from == DV_VEC_FROM_WHOLE, steps[k].copied);
        }
    q->o[0].inner = 3; // another step: another kernel
    assert_true(try_kept(isa, q, &kept) != DV_VEC_FROM_WHOLE);
    dv_vec_kept_free(&kept);
}

static void rows_apart(void **state)
{
    (void)state;
    static const int reduces[] = {DV_VEC_EACH, DV_VEC_INNER, DV_VEC_OUTER,
                                  DV_VEC_BOTH};
    static const dv_vec_isa *const isas[] = {&dv_x64_vec_isa_32,
                                             &dv_x64_vec_isa_64};
    static statement q;
    for (int i = 0; i < 2; i++)
        for (int n = 2; n <= MOST; n++)
            for (int r = 0; r < 4; r++) {
                sum_of(&q, n, reduces[r], n % 2 ? DV_BF16 : DV_F16, 900);
                try_rows(isas[i], &q, n);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_apart)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
