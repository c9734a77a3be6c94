// Several statements in one kernel: each gives what plain loops give, and the
// same bits as its own kernel, whatever the other statements are.
#define _GNU_SOURCE
#include "harness/vec_case.h"

enum { MOST = 4 };

static const struct {
    unsigned element, compute;
} types[] = {{DV_F32, DV_F32},  {DV_F64, DV_F64}, {DV_F16, DV_F32},
             {DV_BF16, DV_F32}, {DV_F32, DV_F64}, {DV_I32, DV_I32},
             {DV_I8, DV_I32}};

typedef struct kernel_case {
    int64_t rows, cols;
    unsigned element, compute;
    vec_problem q[MOST];
    dv_vec_shape s[MOST]; // linked, beginning with the first
    int n;
} kernel_case;

// Makes max(reduce[..] (a - m) * (a - m)), c) with m and c constant along a
// row, or a reduction of a alone.
static void set_sum(vec_problem *q, int reducer)
{
    q->s.reduce = DV_VEC_INNER;
    q->s.reducer = (uint8_t)reducer;
    q->s.n_operands = 4;
    for (int i = 1; i < 4; i++) {
        q->o[i].inner = 0;
        q->o[i].outer = 1 + pick(3);
    }
    for (int i = 0; i < 3; i++)
        q->n[i] = load_node(i);
    q->n[3] = apply_node(DV_FN_SUB, 0, 1, 0);
    q->n[4] = apply_node(DV_FN_MUL, 3, 3, 0);
    q->n[5] = (dv_vec_node){.kind = DV_VEC_REDUCED};
    q->n[6] = apply_node(DV_FN_MAX, 5, 2, 0);
    q->s.n_nodes = 7;
    q->s.value = pick(2) ? 4 : pick(2) ? 3 : 0;
    q->s.result = 6;
}

// Makes select(a < b, (a - b) * 3, min(a, c)), with b constant along a row or
// not.
static void set_map(vec_problem *q)
{
    q->s.reduce = DV_VEC_EACH;
    q->s.n_operands = 4;
    if (pick(2))
        q->o[1].inner = 0;
    for (int i = 0; i < 3; i++)
        q->n[i] = load_node(i);
    q->n[3] = apply_node(DV_FN_LT, 0, 1, 0);
    q->n[4] = apply_node(DV_FN_SUB, 0, 1, 0);
    q->n[5] = (dv_vec_node){.kind = DV_VEC_CONST, .value = 3};
    q->n[6] = apply_node(DV_FN_MUL, 4, 5, 0);
    q->n[7] = apply_node(DV_FN_MIN, 0, 2, 0);
    q->n[8] = apply_node(DV_FN_SELECT, 3, 6, 7);
    q->s.n_nodes = 9;
    q->s.result = pick(2) ? 8 : 6;
}

static void set_statement(kernel_case *c, int k)
{
    vec_problem *q = &c->q[k];
    int once = k > 0 && pick(4) == 0, reducer = pick(3);
    memset(q, 0, sizeof *q);
    q->rows = c->rows;
    q->cols = once ? 1 : c->cols;
    q->low = -1;
    q->high = 1;
    if (c->compute == DV_I32)
        q->low = -(q->high = 30);
    q->s.compute = (uint8_t)c->compute;
    for (int i = 0; i < 4; i++)
        set_strides(q, i, c->element);
    if (!once && pick(2))
        set_sum(q, reducer);
    else
        set_map(q);
    for (int i = 0; once && i < 4; i++)
        q->o[i].inner = 0;
    vec_make(q);
    c->s[k] = q->s;
    c->s[k].beside = NULL;
    if (once)
        c->s[k].reduce = DV_VEC_ONCE;
    if (k)
        c->s[k - 1].beside = &c->s[k];
}

static double ulps_of(const vec_problem *q)
{
    if (q->s.compute == DV_I32)
        return 0;
    return q->s.reduce && q->s.reducer == DV_RED_SUM ? 4 + (double)q->cols : 2;
}

static void solve_all(kernel_case *c)
{
    dv_vec_fn joined, alone;
    void *at[MOST * 4];
    unsigned char *bits[MOST];
    double *want[MOST];
    for (int k = 0; k < c->n; k++) {
        vec_problem *q = &c->q[k];
        fenced *to = &q->f[3];
        want[k] = vec_expected(q);
        assert_int_equal(dv_jit_vec(test_jit, &q->s, &alone, NULL), DV_OK);
        alone(&(dv_vec_args){q->rows, q->cols, q->at, NULL});
        bits[k] = malloc((size_t)to->bytes);
        memcpy(bits[k], to->data, (size_t)to->bytes);
        vec_check(q, want[k], ulps_of(q), 1, "alone");
        for (int64_t r = 0; r < vec_rows(q); r++)
            for (int64_t i = 0; i < vec_cols(q); i++)
                dv_store((dv_dtype)q->o[3].dtype, q->at[3],
                         r * q->o[3].outer + i * q->o[3].inner, 77);
        memcpy(at + 4 * k, q->at, 4 * sizeof *at);
    }
    assert_int_equal(dv_jit_vec(test_jit, c->s, &joined, NULL), DV_OK);
    joined(&(dv_vec_args){c->rows, c->cols, at, NULL});
    for (int k = 0; k < c->n; k++) {
        vec_check(&c->q[k], want[k], ulps_of(&c->q[k]), 1, "side by side");
        assert_memory_equal(bits[k], c->q[k].f[3].data,
                            (size_t)c->q[k].f[3].bytes);
        free(bits[k]);
        free(want[k]);
    }
}

// The back ends of other machines can generate the kernels of statements that
// they can join.
static void write_joined(const dv_vec_shape *s)
{
    static unsigned char bytes[1 << 18];
    for (int i = 0; i < dv_n_isas; i++) {
        dv_code code = {.at = bytes, .cap = sizeof bytes};
        dv_arena scratch = {0};
        dv_vec_plan plan;
        if (!dv_vec_fusable_on(dv_backend_vec(&dv_isas[i]), s))
            continue;
        dv_vec_plan_make(&plan, s, dv_backend_vec(&dv_isas[i]), &scratch);
        assert_false(plan.failed);
        const dv_vec_isa *isa = dv_backend_vec(&dv_isas[i]);
        isa->emit(&code, &plan, isa);
        dv_arena_free(&scratch);
        assert_false(code.failed);
    }
}

TEST(side_by_side)
{
    skip_without_kernels();
    static kernel_case c;
    static const int cols[] = {1, 2, 3, 7, 31, 32, 61, 64, 67, 97, 128, 131};
    int joined = 0, cases = 2000 / SHARE / SHARE;
    for (int i = 0; i < cases; i++) {
        int t = i % 7;
        if (!dv_vec_stores((dv_dtype)types[t].element,
                           (dv_dtype)types[t].compute))
            continue;
        c.rows = 1 + pick(7);
        c.cols = cols[pick(12)];
        c.element = types[t].element;
        c.compute = types[t].compute;
        c.n = 2 + pick(MOST - 1);
        for (int k = 0; k < c.n; k++)
            set_statement(&c, k);
        write_joined(c.s);
        if (dv_vec_fusable(test_jit, c.s)) {
            joined++;
            solve_all(&c);
        }
        for (int k = 0; k < c.n; k++)
            vec_free(&c.q[k]);
    }
    assert_true(joined > cases / 5);
}

// Makes the statements (x - m) * r, sum (x - m)^2 and sum x of rows.
static void set_norm(dv_vec_shape *s)
{
    static dv_vec_operand o[3][4];
    static dv_vec_node n[3][5];
    static const uint16_t n_operands[] = {4, 3, 2}, n_nodes[] = {5, 5, 2};
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < n_operands[k]; i++) {
            int is_row = i == 0 || i == 3;
            o[k][i] = (dv_vec_operand){
                .inner = is_row, .outer = is_row ? 64 : 1, .dtype = DV_F32};
        }
        n[k][0] = load_node(0);
        n[k][1] = load_node(1);
        n[k][2] = apply_node(DV_FN_SUB, 0, 1, 0);
        n[k][3] = k ? apply_node(DV_FN_MUL, 2, 2, 0) : load_node(2);
        n[k][4] = apply_node(DV_FN_MUL, 2, 3, 0);
        if (k)
            n[k][n_nodes[k] - 1] = (dv_vec_node){.kind = DV_VEC_REDUCED};
        s[k] = (dv_vec_shape){.operands = o[k],
                              .nodes = n[k],
                              .n_operands = n_operands[k],
                              .n_nodes = n_nodes[k],
                              .value = k == 1 ? 3 : 0,
                              .result = (uint16_t)(n_nodes[k] - 1),
                              .compute = DV_F32,
                              .reduce = k ? DV_VEC_INNER : DV_VEC_EACH,
                              .reducer = DV_RED_SUM,
                              .beside = k < 2 ? &s[k + 1] : NULL};
    }
}

// With NEON's registers the unrolled copies of a loop body are computed
// together: their loads are adjacent, nothing is spilled to the stack, and a
// sum has four accumulators. Half of the final additions follow the stores.
TEST(together)
{
    enum { COPIES = 8 };
    dv_vec_shape s[3];
    dv_arena scratch = {0};
    dv_vec_plan plan;
    uint32_t sums = 0, squares = 0;
    int n_sums = 0, stores = 0, after = 0;
    set_norm(s);
    assert_true(dv_vec_fusable_on(&dv_a64_vec_isa, s));
    dv_vec_plan_make(&plan, s, &dv_a64_vec_isa, &scratch);
    assert_false(plan.failed);
    int32_t at = 0, vectors = 0, fetches = 0;
    while (plan.ops[at].op != DV_V_LOOP)
        at++;
    // Unrolled bodies one after the other, each with its own vectors.
    int32_t in_turn = plan.ops[at].imm / 4;
    for (at++; plan.ops[at].op != DV_V_LOOP_END; at++) {
        vectors += plan.ops[at].op == DV_V_STORE &&
                   plan.ops[at].copy == vectors % in_turn;
        fetches += plan.ops[at].op == DV_V_PREFETCH;
    }
    assert_true(in_turn > COPIES && in_turn % COPIES == 0);
    assert_int_equal(vectors, in_turn);
    assert_int_equal(fetches, 2 * in_turn / COPIES);
    while (plan.ops[at].op != DV_V_LOOP)
        at++;
    for (int i = 0; i < COPIES; i++) {
        assert_int_equal(plan.ops[at + 1 + i].op, DV_V_LOAD);
        assert_int_equal(plan.ops[at + 1 + i].copy, i);
        assert_int_equal(plan.ops[at + 1 + i].imm, 0);
    }
    for (at++; plan.ops[at].op != DV_V_LOOP_END; at++) {
        const dv_vec_mop *op = &plan.ops[at];
        assert_true(op->op != DV_V_RELOAD && op->op != DV_V_SPILL);
        sums |= op->op == DV_V_FADD ? 1u << op->dst : 0;
        squares |= op->op == DV_V_FMA ? 1u << op->dst : 0;
        n_sums += op->op == DV_V_FADD || op->op == DV_V_FMA;
        stores += op->op == DV_V_STORE;
        after += stores == COPIES && op->op == DV_V_FMA;
    }
    assert_int_equal(n_sums, 2 * COPIES);
    assert_int_equal(stores, COPIES);
    assert_int_equal(after, COPIES / 2);
    assert_int_equal(__builtin_popcount(sums), 4);
    assert_int_equal(__builtin_popcount(squares), 4);
    dv_arena_free(&scratch);
}

// Statements that cannot be joined are refused.
TEST(refusals)
{
    skip_without_kernels();
    static kernel_case c;
    dv_vec_fn fn;
    c = (kernel_case){.rows = 2, .cols = 5, .element = DV_F32};
    c.compute = DV_F32;
    c.n = 2;
    for (int k = 0; k < 2; k++)
        set_statement(&c, k);
    c.s[1].compute = DV_F64; // two types
    assert_int_equal(dv_jit_vec(test_jit, c.s, &fn, NULL), DV_E_SHAPE);
    assert_false(dv_vec_fusable(test_jit, c.s));
    c.s[1].compute = DV_F32;
    c.s[1].reduce = DV_VEC_OUTER; // another loop
    c.q[1].o[3].outer = 0;
    assert_int_equal(dv_jit_vec(test_jit, c.s, &fn, NULL), DV_E_SHAPE);
    assert_false(dv_vec_fusable(test_jit, c.s));
    c.s[0].beside = NULL;
    c.s[0].reduce = DV_VEC_ONCE; // only alone
    for (int i = 0; i < 4; i++)
        c.q[0].o[i].inner = 0;
    assert_int_equal(dv_jit_vec(test_jit, c.s, &fn, NULL), DV_E_SHAPE);
    for (int k = 0; k < 2; k++)
        vec_free(&c.q[k]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(side_by_side),
                                       cmocka_unit_test(together),
                                       cmocka_unit_test(refusals)};
    int code = run_group(tests, jit_set_up, jit_tear_down);
    return code;
}
