// N7, N8: nests on any number of threads give what the oracle gives: products
// of any types and with any prologues and epilogues, functions of elements and
// reductions. All numbers are small integers, so that results do not depend on
// the order of adding. Operands end right before a page that faults, or begin
// right behind one.
#include "harness/test.h"
#include "contract/contract.h"
#include "harness/random_nest.h"
#include <inttypes.h>

// Chooses touches that kernels compute inside, and exact functions that they do
// not have.
static void random_touches(rng *r, dv_nest *n)
{
    static const dv_prim first[] = {DV_PRIM_NONE, DV_PRIM_ZERO, DV_PRIM_COPY};
    static const dv_prim last[] = {DV_PRIM_NONE, DV_PRIM_RELU, DV_PRIM_COPY};
    static const dv_prim other[] = {DV_PRIM_RELU, DV_PRIM_NEG, DV_PRIM_ABS,
                                    DV_PRIM_ZERO};
    n->first = first[rng_below(r, 3)];
    n->last = last[rng_below(r, 3)];
    if (rng_percent(r, 15))
        n->first = other[rng_below(r, 4)];
    if (rng_percent(r, 15))
        n->last = other[rng_below(r, 4)];
}

// Chooses types of factors and results that kernels of products have. Sums are
// integers, and rounded once when they are stored. Returns 1 if the types are
// narrow.
static int random_types(rng *r, dv_nest *n)
{
    static const dv_dtype some[] = {DV_F16, DV_BF16, DV_I8, DV_I32};
    static const dv_dtype out[] = {DV_F32, DV_F16, DV_BF16};
    n->dtype = rng_percent(r, 70) ? DV_F32 : DV_F64;
    if (rng_percent(r, 30))
        return 0;
    dv_dtype t = some[rng_below(r, 4)];
    n->dtype = dv_is_float(t) ? out[rng_below(r, 3)] : DV_I32;
    if (t != n->dtype)
        n->types[DV_IN0] = n->types[DV_IN1] = (uint8_t)(1 + t);
    return 1;
}

static void random_product(rng *r, dv_nest *n)
{
    *n = (dv_nest){.name = "random", .main = DV_PRIM_GEMM};
    int matrices = random_types(r, n) && rng_percent(r, 60);
    random_touches(r, n);
    random_dims(r, n, matrices ? 1 : 3);
}

// A product whose sum is long beside the number of results, which is cut into
// blocks.
static void random_long_product(rng *r, dv_nest *n)
{
    static const dv_nest_type types[] = {DV_NEST_M, DV_NEST_N, DV_NEST_K};
    random_product(r, n);
    n->n_dims = 0;
    for (int i = 0; i < 3; i++)
        n->dims[n->n_dims++] = (dv_nest_dim){
            .type = types[i],
            .exec = DV_NEST_SEQ,
            .size = i < 2 ? 1 + rng_below(r, 6) : 10000 + rng_below(r, 9000)};
    lay_out(r, n, DV_IN0, "mk");
    lay_out(r, n, DV_IN1, "nk");
    lay_out(r, n, DV_OUT, "mn");
}

// Copies and functions of in0, wide enough that several blocks are transposed
// at once.
static void random_unary(rng *r, dv_nest *n)
{
    static const dv_prim mains[] = {DV_PRIM_COPY, DV_PRIM_RELU, DV_PRIM_NEG,
                                    DV_PRIM_ABS, DV_PRIM_ZERO};
    *n = (dv_nest){.name = "unary", .main = mains[rng_below(r, 5)]};
    n->dtype = rng_percent(r, 70) ? DV_F32 : DV_F64;
    for (int64_t i = 1 + rng_below(r, 4); i > 0; i--)
        n->dims[n->n_dims++] =
            (dv_nest_dim){.type = (dv_nest_type)rng_below(r, DV_NEST_K),
                          .exec = DV_NEST_SEQ,
                          .size = some_size(r)};
    while (points_of(n) > 200000)
        n->dims[--n->n_dims] = (dv_nest_dim){0};
    lay_out(r, n, DV_IN0, "cmn");
    lay_out(r, n, DV_OUT, "cmn");
}

// Functions of in0 and in1 whose results are integers as well.
static void random_binary(rng *r, dv_nest *n)
{
    static const dv_prim mains[] = {DV_PRIM_ADD, DV_PRIM_SUB, DV_PRIM_MUL,
                                    DV_PRIM_MIN, DV_PRIM_MAX, DV_PRIM_LT,
                                    DV_PRIM_GE,  DV_PRIM_EQ};
    random_unary(r, n);
    n->main = mains[rng_below(r, 8)];
    for (int i = 0; i < n->n_dims; i++)
        n->dims[i].stride[DV_IN0] = 0;
    lay_out(r, n, DV_IN0, "cm");
    lay_out(r, n, DV_IN1, "cn");
    if (rng_percent(r, 20) && n->dims[0].size > 2) // tiles with a remainder
        dv_nest_cut(n, 0, 1 + rng_below(r, n->dims[0].size - 1));
}

// Reductions with touches of all kinds. Products are short, so that they are
// exact.
static void random_reduce(rng *r, dv_nest *n)
{
    static const dv_prim mains[] = {DV_PRIM_SUM, DV_PRIM_MIN_OVER,
                                    DV_PRIM_MAX_OVER, DV_PRIM_PROD};
    int prod = rng_percent(r, 15);
    double k = 1;
    random_unary(r, n);
    random_touches(r, n);
    n->main = mains[prod ? 3 : rng_below(r, 3)];
    if (rng_percent(r, 50))
        n->first = dv_prim_neutral(n->main);
    for (int i = 0; i < n->n_dims; i++) {
        dv_nest_dim *d = &n->dims[i];
        d->stride[DV_OUT] = 0;
        if (rng_percent(r, 50) && (!prod || k * (double)d->size < 9)) {
            d->type = DV_NEST_K;
            k *= (double)d->size;
        }
    }
    lay_out(r, n, DV_IN0, "cmnk");
    lay_out(r, n, DV_OUT, "cmn");
    if (rng_percent(r, 20) && n->dims[0].size > 2) // tiles with a remainder
        dv_nest_cut(n, 0, 1 + rng_below(r, n->dims[0].size - 1));
}

// Long reductions to few elements, which are cut into blocks.
static void random_long_reduce(rng *r, dv_nest *n)
{
    static const int64_t few[] = {1, 1, 2, 3, 7, 40, 64};
    random_reduce(r, n);
    n->main = rng_percent(r, 60) ? DV_PRIM_SUM : DV_PRIM_MAX_OVER;
    n->n_dims = 0;
    int64_t out = few[rng_below(r, 7)], left = 70000 + rng_below(r, 60000);
    if (out > 1 || rng_percent(r, 50))
        n->dims[n->n_dims++] = (dv_nest_dim){.type = DV_NEST_C, .size = out};
    for (int64_t k = left / out; k > 1; k /= n->dims[n->n_dims++].size)
        n->dims[n->n_dims] = (dv_nest_dim){
            .type = DV_NEST_K, .size = rng_percent(r, 50) ? k : 1 + k / 37};
    for (int i = 0; i < n->n_dims; i++)
        n->dims[i].exec = DV_NEST_SEQ;
    lay_out(r, n, DV_IN0, "ck");
    lay_out(r, n, DV_OUT, "c");
    if (n->first == DV_PRIM_ZERO && n->main == DV_PRIM_SUM &&
        rng_percent(r, 30))
        n->mean = 1;
}

static void run(void *c, const void *in0, const void *in1, void *out)
{
    assert_int_equal(dv_contract_run(c, in0, in1, NULL, out, NULL), DV_OK);
}

// Runs the nest and compares with the oracle.
static int agrees(dv_jit *jit, const dv_nest *n, int threads, int at_end)
{
    dv_contract_options options = {.size = sizeof(dv_contract_options),
                                   .threads = threads};
    // Small caches, so that small sizes are cut.
    if (at_end)
        options.l1_bytes = 4096, options.l2_bytes = 16384;
    dv_contract *c = NULL;
    dv_diag *diag = dv_diag_create();
    int made = dv_contract_create(&c, jit, n, &options, diag) == DV_OK;
    int ok = made && agrees_with_oracle(&(prepared){n, c, run}, at_end);
    if (!made)
        print_message("%s", dv_diag_text(diag));
    if (!ok)
        show_nest(n, c ? dv_contract_nest(c) : NULL, threads);
    dv_contract_destroy(c);
    dv_diag_destroy(diag);
    return ok;
}

// -- Properties ---------------------------------------------------------------

// Compares random nests that `make` makes with the reference loops (N7).
static void hold(void **state, int cases, void (*make)(rng *, dv_nest *))
{
    uint64_t seed = gen_seed();
    int ran = 0;
    for (int i = 0; i < cases; i++) {
        rng r = {seed + (uint64_t)i};
        dv_nest n;
        make(&r, &n);
        if (dv_nest_check(&n, NULL))
            continue;
        ran++;
        int threads = 1 + (int)rng_below(&r, 6), at_end = rng_percent(&r, 50);
        if (!agrees(*state, &n, threads, at_end))
            fail_msg("DV_SEED=%" PRIu64, seed + (uint64_t)i);
    }
    assert_true(ran > cases / 2);
}

static void test_long(void **state)
{
    hold(state, gen_cases(40), random_long_reduce);
    hold(state, gen_cases(40), random_long_product);
}

static void random_function(rng *r, dv_nest *n)
{
    static void (*const some[])(rng *, dv_nest *) = {
        random_unary, random_binary, random_reduce};
    static const dv_dtype narrow[] = {DV_F16, DV_BF16, DV_I8};
    int64_t kind = rng_below(r, 3);
    some[kind](r, n);
    if (kind < 2 && rng_percent(r, 40)) // otherwise sums would not be exact
        n->dtype = narrow[rng_below(r, 3)];
}

static void test_products(void **state)
{
    hold(state, gen_cases(300), random_product);
}

static void test_functions(void **state)
{
    hold(state, gen_cases(900), random_function);
}

// N8: the bits are the same for any number of threads, but for plain products
// on one thread, which are not planned.
static void test_bits(void **state)
{
    uint64_t seed = gen_seed();
    int cases = gen_cases(150), compared = 0;
    for (int i = 0; i < cases; i++) {
        rng r = {seed + (uint64_t)i};
        dv_contract *c[2] = {NULL};
        dv_nest n;
        (rng_percent(&r, 20)   ? random_reduce
         : rng_percent(&r, 15) ? random_long_reduce
         : rng_percent(&r, 15) ? random_long_product
                               : random_product)(&r, &n);
        if (dv_nest_check(&n, NULL))
            continue;
        for (int t = 0; t < 2; t++) {
            dv_contract_options options = DV_CONTRACT_OPTIONS_INIT;
            options.threads = t ? 3 + i % 5 : dv_contraction_suits(&n) ? 2 : 1;
            if (i % 2) // small caches, for many ways of packing
                options.l1_bytes = 2048, options.l2_bytes = 8192,
                options.l3_bytes = 65536;
            assert_int_equal(
                dv_contract_create(&c[t], *state, &n, &options, NULL), DV_OK);
        }
        prepared p[] = {{&n, c[0], run}, {&n, c[1], run}};
        if (!gives_same_bits(&r, p)) {
            show_nest(&n, NULL, 3 + i % 5);
            fail_msg("DV_SEED=%" PRIu64, seed + (uint64_t)i);
        }
        compared++;
        dv_contract_destroy(c[0]);
        dv_contract_destroy(c[1]);
    }
    if (cases > 100)
        assert_true(compared > cases / 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_functions),
        cmocka_unit_test(test_long),
        cmocka_unit_test(test_bits),
    };
    return run_group(tests, jit_begin, jit_end);
}
