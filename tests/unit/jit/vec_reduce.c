// Reductions of vector kernels compared with plain loops: every reducer and
// type, over the inner loop, the outer loop and both, as a whole and in parts.
#define _GNU_SOURCE
#include "harness/vec_case.h"

// -- Reductions --------------------------------------------------------------

// Makes relu(reduce[..] a * b) + c, with any valid strides of a and b.
static void set_reduction(vec_problem *q, int reduce, int reducer,
                          unsigned element, unsigned compute)
{
    int inner = reduce != DV_VEC_OUTER, outer = reduce != DV_VEC_INNER;
    memset(q, 0, sizeof *q);
    q->rows = 1 + pick(9);
    q->cols = 1 + pick(pick(2) ? 70 : 9);
    q->low = reducer == DV_RED_PROD ? 0.8 : -1;
    q->high = reducer == DV_RED_PROD ? 1.2 : 1;
    if (compute == DV_I32)
        q->low = -(q->high = reducer == DV_RED_PROD ? 3 : 50);
    q->s.compute = (uint8_t)compute;
    q->s.reduce = (uint8_t)reduce;
    q->s.reducer = (uint8_t)reducer;
    q->s.n_operands = 4;
    for (int i = 0; i < 4; i++)
        set_strides(q, i, element);
    if (pick(2))
        q->o[1].inner = 0;
    else if (pick(3) == 0)
        q->o[1].outer = 0;
    for (int i = 2; i < 4; i++) {
        q->o[i].outer = outer ? 0 : inner ? 1 + pick(3) : q->o[i].outer;
        q->o[i].inner = inner ? 0 : q->o[i].inner;
    }
    for (int i = 0; i < 3; i++)
        q->n[i] = load_node(i);
    q->n[3] = apply_node(pick(2) ? DV_FN_MUL : DV_FN_MAX, 0, 1, 0);
    q->n[4] = (dv_vec_node){.kind = DV_VEC_REDUCED};
    q->n[5] = apply_node(DV_FN_RELU, 4, 0, 0);
    q->n[6] = apply_node(DV_FN_ADD, 5, 2, 0);
    q->s.n_nodes = 7;
    q->s.value = 3;
    q->s.result = 6;
}

static double sum_ulps(const vec_problem *q)
{
    int reducer = q->s.reducer;
    if (q->s.compute == DV_I32)
        return 0;
    double n = (double)(q->rows * q->cols);
    return reducer == DV_RED_MAX || reducer == DV_RED_MIN ? 0.51 : 2 + n / 4;
}

static const struct {
    unsigned element, compute;
} sums[] = {{DV_F32, DV_F32},  {DV_F64, DV_F64}, {DV_F16, DV_F32},
            {DV_BF16, DV_F32}, {DV_F32, DV_F64}, {DV_I32, DV_I32},
            {DV_I8, DV_I32}};

TEST(reductions)
{
    skip_without_kernels();
    static vec_problem q;
    for (int i = 0; i < 3000 / SHARE; i++) {
        int t = i % 7, reduce = 1 + i % 3, reducer = pick(4);
        if (!dv_vec_stores((dv_dtype)sums[t].element,
                           (dv_dtype)sums[t].compute))
            continue;
        set_reduction(&q, reduce, reducer, sums[t].element, sums[t].compute);
        vec_solve(&q, sum_ulps(&q), 1,
                  dv_reducer_get((dv_reducer)reducer)->text);
    }
}

// Computes the same in three calls: the first, a next and the last part.
static void solve_in_parts(vec_problem *q, double ulps)
{
    dv_vec_fn fn[3];
    vec_make(q);
    double *want = vec_expected(q);
    int outer = q->s.reduce != DV_VEC_INNER;
    int64_t all = outer ? q->rows : q->cols, cut = pick((int)all + 1), done = 0;
    int64_t width = q->s.reduce == DV_VEC_OUTER   ? q->cols
                    : q->s.reduce == DV_VEC_INNER ? q->rows
                                                  : 1;
    fenced acc =
        fence_in((size_t)(width * es_of(q->s.compute)), pick(2), PROT_NONE);
    int64_t piece[3] = {cut, all - cut, 0};
    if (q->s.reduce == DV_VEC_BOTH) // its parts have at least one row
        piece[0] = all, piece[1] = all;
    for (int i = 0; i < 3; i++) {
        q->s.from_acc = i > 0;
        q->s.to_acc = i < 2;
        assert_int_equal(dv_jit_vec(test_jit, &q->s, &fn[i], NULL), DV_OK);
        void *at[MAX_AT];
        for (int k = 0; k < q->s.n_operands; k++) {
            int64_t by = q->s.reduce == DV_VEC_BOTH ? 0
                         : outer                    ? q->o[k].outer
                                                    : q->o[k].inner;
            at[k] = (char *)q->at[k] + done * by * es_of(q->o[k].dtype);
        }
        dv_vec_args args = {q->rows, q->cols, at, acc.data};
        if (q->s.reduce == DV_VEC_BOTH) { // everything at once, then nothing
            args.n = i == 0 ? q->cols : 0;
            args.rows = i == 0 ? q->rows : 1;
        } else {
            *(outer ? &args.rows : &args.n) = piece[i];
            done += piece[i];
        }
        fn[i](&args);
    }
    vec_check(q, want, ulps, 1, "in parts");
    unfence(&acc);
    free(want);
    vec_free(q);
}

TEST(parts)
{
    skip_without_kernels();
    static vec_problem q;
    for (int i = 0; i < 600 / SHARE; i++) {
        int t = i % 7, reduce = 1 + i % 3, reducer = pick(4);
        if (!dv_vec_stores((dv_dtype)sums[t].element,
                           (dv_dtype)sums[t].compute))
            continue;
        set_reduction(&q, reduce, reducer, sums[t].element, sums[t].compute);
        solve_in_parts(&q, sum_ulps(&q));
    }
}

// A reduction along columns computes what is constant along a row once per row:
// max[k] a[k,j] * sqrt(x[k]).
TEST(once_a_row)
{
    static vec_problem q;
    skip_without_kernels();
    set_reduction(&q, DV_VEC_OUTER, DV_RED_MAX, DV_F32, DV_F32);
    q.rows = 9;
    q.cols = 301;
    q.o[0] = (dv_vec_operand){.inner = 1, .outer = 400, .dtype = DV_F32};
    q.o[1] = (dv_vec_operand){.outer = 1, .dtype = DV_F32};
    q.n[2] = apply_node(DV_FN_SQRT, 1, 0, 0);
    q.n[3] = apply_node(DV_FN_MUL, 0, 2, 0);
    q.n[6] = apply_node(DV_FN_ADD, 5, 5, 0);
    q.low = 0;
    vec_solve(&q, 2, 1, "once a row");
    for (int i = 0; i < dv_n_isas; i++) {
        dv_vec_plan plan;
        dv_arena scratch = {0};
        int a = 0, x = 0, root = 0;
        dv_vec_plan_make(&plan, &q.s, dv_backend_vec(&dv_isas[i]), &scratch);
        assert_false(plan.failed);
        for (int k = 0; plan.ops[k].op != DV_V_STEPS_END; k++) {
            a += plan.ops[k].op == DV_V_LOAD && plan.ops[k].imm == 0;
            x += plan.ops[k].op == DV_V_LOAD && plan.ops[k].imm == 1;
            root += plan.ops[k].op == DV_V_FSQRT;
        }
        assert_true(a > 1);
        assert_int_equal(x, 1);
        assert_int_equal(root, 1);
        dv_arena_free(&scratch);
    }
}

// Of -0 and 0, min returns -0 and max returns 0, in any order and lane; nan
// stays.
TEST(signed_zeros)
{
    skip_without_kernels();
    enum { ROWS = 5, COLS = 70 };
    static double x[ROWS * COLS], y[COLS]; // large enough for f32, too
    for (int i = 0; i < 4000 / SHARE; i++) {
        int is64 = i % 2, max = i / 2 % 2, inner = i / 4 % 2;
        dv_dtype t = is64 ? DV_F64 : DV_F32;
        int64_t rows = 1 + pick(ROWS), cols = 1 + pick(COLS);
        int nans = pick(4) == 0 ? 30 : 0; // one in so many is nan
        dv_vec_operand o[2] = {
            {.inner = 1, .outer = cols, .dtype = (uint8_t)t},
            {.inner = !inner, .outer = inner, .dtype = (uint8_t)t}};
        dv_vec_node n[2] = {load_node(0), {.kind = DV_VEC_REDUCED}};
        dv_vec_shape s = {.operands = o,
                          .nodes = n,
                          .n_operands = 2,
                          .n_nodes = 2,
                          .result = 1,
                          .reduce = inner ? DV_VEC_INNER : DV_VEC_OUTER,
                          .reducer = max ? DV_RED_MAX : DV_RED_MIN,
                          .compute = (uint8_t)t};
        dv_vec_fn fn;
        assert_int_equal(dv_jit_vec(test_jit, &s, &fn, NULL), DV_OK);
        int rare = 1 + pick(80); // one in so many has the sign that wins
        for (int64_t k = 0; k < rows * cols; k++) {
            double v = (pick(rare) == 0) == max ? 0.0 : -0.0;
            v = pick(9) == 0 ? max ? -1 : 1 : v;
            dv_store(t, x, k, nans && pick(nans) == 0 ? NAN : v);
        }
        fn(&(dv_vec_args){rows, cols, (void *[]){x, y}, NULL});
        for (int64_t k = 0; k < (inner ? rows : cols); k++) {
            double want = max ? -INFINITY : INFINITY;
            for (int64_t l = 0; l < (inner ? cols : rows); l++) {
                double v = dv_load(t, x, inner ? k * cols + l : l * cols + k);
                int less = v < want || (v == want && signbit(v));
                want = isnan(want) ? want
                       : isnan(v)  ? v
                       : max       ? less ? want : v
                       : less      ? v
                                   : want;
            }
            double got = dv_load(t, y, k);
            if (isnan(want) ? !isnan(got)
                            : got != want || !signbit(got) != !signbit(want))
                fail_msg("%s of %dx%d %s: [%d] is %g, should be %g",
                         max ? "max" : "min", (int)rows, (int)cols,
                         dv_dtype_get(t)->name, (int)k, got, want);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reductions), cmocka_unit_test(signed_zeros),
        cmocka_unit_test(parts), cmocka_unit_test(once_a_row)};
    int code = run_group(tests, jit_set_up, jit_tear_down);
    return code;
}
