// N5, N6, N7: contractions give what the reference loops give. Random nests
// have all types of dimensions, sizes 1 and primes, permuted operands with
// gaps, all element types, touches and threads; they are laid out by the
// passes, or cut and packed at random; and there are unaries, binaries and
// reductions. All numbers are small integers, so that results do not depend on
// the order of adding. Operands end right before a page that faults, or begin
// right behind one.
#define _GNU_SOURCE
#include "harness/nest_eval.h"
#include "harness/test.h"
#include "harness/gen.h"
#include "contract/contract.h"
#include "harness/kernels.h"
#include <inttypes.h>
#include <sys/mman.h>
#include <unistd.h>

// -- Random nests ------------------------------------------------------------

static int64_t some_size(rng *r)
{
    static const int64_t sizes[] = {1,  1,  2,  3,  4,  5,  7,  8,  11, 13,
                                    16, 17, 20, 23, 24, 31, 40, 47, 61, 97};
    return sizes[rng_below(r, sizeof sizes / sizeof *sizes)];
}

static void lay_out(rng *r, dv_nest *n, int o, const char *has)
{
    int order[DV_NEST_MAX_DIMS], count = 0;
    for (int i = 0; i < n->n_dims; i++)
        if (strchr(has, "cmnk"[n->dims[i].type]))
            order[count++] = i;
    for (int i = count - 1; i > 0; i--) {
        int j = (int)rng_below(r, i + 1), t = order[i];
        order[i] = order[j];
        order[j] = t;
    }
    int64_t step = rng_percent(r, 10) ? 2 : 1; // 2: no operand has unit stride
    for (int i = 0; i < count; i++) {
        n->dims[order[i]].stride[o] = rng_percent(r, 3) ? -step : step;
        step = step * n->dims[order[i]].size + (rng_percent(r, 10) ? 3 : 0);
    }
}

static double points(const dv_nest *n)
{
    double all = 1;
    for (int i = 0; i < n->n_dims; i++)
        all *= (double)n->dims[i].size;
    return all;
}

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
    if (rng_percent(r, 70))
        return 0;
    dv_dtype t = some[rng_below(r, 4)];
    n->dtype = dv_is_float(t) ? out[rng_below(r, 3)] : DV_I32;
    if (t != n->dtype)
        n->types[DV_IN0] = n->types[DV_IN1] = (uint8_t)(1 + t);
    return 1;
}

static void random_nest(rng *r, dv_nest *n)
{
    *n = (dv_nest){.name = "random", .main = DV_PRIM_GEMM};
    int matrices = random_types(r, n) && rng_percent(r, 60);
    random_touches(r, n);
    for (int t = 0; t < 4; t++) {
        int64_t most = t == DV_NEST_C ? rng_percent(r, 30) : matrices ? 1 : 3;
        for (int64_t i = rng_below(r, most + 1); i > 0; i--)
            n->dims[n->n_dims++] = (dv_nest_dim){.type = (dv_nest_type)t,
                                                 .exec = DV_NEST_SEQ,
                                                 .size = some_size(r)};
    }
    if (n->n_dims == 0)
        n->dims[n->n_dims++] =
            (dv_nest_dim){.type = DV_NEST_K, .exec = DV_NEST_SEQ, .size = 5};
    if (rng_percent(r, 5)) // large enough to be cut in all ways
        n->dims[rng_below(r, n->n_dims)].size = 200 + rng_below(r, 900);
    while (points(n) > 400000)
        for (int i = 0; i < n->n_dims; i++)
            if (n->dims[i].size > 1 && points(n) > 400000)
                n->dims[i].size = n->dims[i].size * 2 / 3;
    lay_out(r, n, DV_IN0, "cmk");
    lay_out(r, n, DV_IN1, "cnk");
    lay_out(r, n, DV_OUT, "cmn");
    int in1 = 0;
    for (int i = 0; i < n->n_dims; i++)
        in1 |= n->dims[i].stride[DV_IN1] != 0;
    if (!in1) // an operand of one element
        n->dims[n->n_dims++] = (dv_nest_dim){.type = DV_NEST_K,
                                             .exec = DV_NEST_SEQ,
                                             .size = 1,
                                             .stride = {1, 1, 0}};
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
    while (points(n) > 200000)
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

// Cuts and marks a nest as no pass would, but so that it is still valid (N5,
// N6).
static void mangle(rng *r, dv_nest *n)
{
    for (int i = 0; i < n->n_dims && n->n_dims < 20; i++)
        if (n->dims[i].size > 3 && rng_percent(r, 40)) {
            dv_nest_exec exec = n->dims[i].exec;
            dv_nest_cut(n, i, 1 + rng_below(r, n->dims[i].size - 1));
            n->dims[i].exec =
                exec == DV_NEST_PRIM ? DV_NEST_SEQ : n->dims[i].exec;
            i++;
        }
    int seen[3] = {0},
        at = n->n_dims; // dimensions inside the kernel move to the end
    for (int i = n->n_dims - 1; i >= 0; i--) {
        dv_nest_dim d = n->dims[i];
        dv_nest_tiles t;
        int bad;
        if (!dv_nest_tiles_of(n, &t, &bad))
            return;
        int tiles = t.inner[i] >=
                    0; // loops over tiles of k may be inside the kernel, too
        if (d.type == DV_NEST_C ||
            (tiles && (d.type != DV_NEST_K || rng_percent(r, 70))) ||
            (d.type != DV_NEST_K && seen[d.type - 1]++))
            continue;
        memmove(&n->dims[i], &n->dims[i + 1], (size_t)(at - i - 1) * sizeof d);
        d.exec = DV_NEST_PRIM;
        n->dims[--at] = d;
    }
    for (int o = 0; o < DV_N_OPERANDS; o++) {
        int64_t l = rng_below(r, at + 1);
        if (rng_percent(r, 90) && l == at)
            n->pack |= (uint8_t)(1 << o);
        else if (l < at)
            n->dims[l].pack |= (uint8_t)(1 << o);
    }
    for (int i = 0; i < at && n->dims[i].type != DV_NEST_K; i++)
        if (rng_percent(r, 50))
            n->dims[i].exec = DV_NEST_SHARED;
        else
            break;
    if (at && n->dims[0].type == DV_NEST_K && rng_percent(r, 50)) {
        n->dims[0].exec = DV_NEST_SHARED;
        n->combine = 1;
    }
}

// -- Memory ------------------------------------------------------------------

typedef struct operand {
    fenced f;
    char *data, *at; // at: the element with all indices 0
    size_t bytes;
} operand;

// An emulator may read whole vectors where a masked load touches only a part of
// one.
#if defined(DV_EMULATED) && defined(__x86_64__)
enum { AROUND = PROT_READ };
#else
enum { AROUND = PROT_NONE };
#endif

// Places the data right before a page that faults, or right behind one.
static void map_operand(const dv_nest *n, int o, int at_end, operand *out)
{
    dv_dtype type = dv_nest_dtype(n, o);
    int64_t lo, hi, size = dv_dtype_get(type)->size_bytes;
    assert_true(dv_nest_extent(n, o, &lo, &hi));
    out->bytes = (size_t)((hi - lo + 1) * size);
    out->f = fence_in(out->bytes, at_end, AROUND);
    out->data = (char *)out->f.data;
    dv_nest_fill(type, (uint64_t)o + 7, out->data, hi - lo + 1);
    out->at = out->data - lo * size;
}

static void show(const dv_nest *n, const dv_nest *ran, int threads)
{
    dv_text text = {0};
    dv_nest_print(&text, n);
    if (ran)
        dv_nest_print(&text, ran);
    print_message("threads %d\n%s\n", threads, text.at);
    dv_text_free(&text);
}

// The results are equal, where -0 equals 0.
static int same(const dv_nest *n, const operand *a, const operand *b)
{
    int64_t size = dv_dtype_get(n->dtype)->size_bytes;
    for (int64_t i = 0; i < (int64_t)a->bytes / size; i++)
        if (dv_load(n->dtype, a->data, i) != dv_load(n->dtype, b->data, i))
            return 0;
    return 1;
}

// Runs a contraction on its own threads, or part by part, beginning with the
// last part.
static void run(dv_contract *c, int in_parts, const operand *in0,
                const operand *in1, const operand *out)
{
    int32_t n = dv_contract_threads(c);
    if (!in_parts) {
        dv_contract_run(c, in0->at, in1->at, out->at);
        return;
    }
    for (int32_t i = n - 1; i >= 0; i--)
        dv_contract_part(c, i, in0->at, in1->at, out->at);
    for (int32_t i = n - 1; dv_contract_phases(c) == 2 && i >= 0; i--)
        dv_contract_combine(c, i, out->at);
}

// No kernel applies touches to finished i32 sums.
static int has_no_kernel(const dv_nest *n, dv_status st)
{
    return st == DV_E_DTYPE && n->dtype == DV_I32 && (n->first || n->last);
}

// Runs the contraction and compares with the reference loops; then again with
// the result at the other end of its page.
static int agrees(dv_jit *jit, const dv_nest *n, int threads, int as_is,
                  int at_end)
{
    operand in0, in1, want, got;
    dv_contract_options options = {.size = sizeof(dv_contract_options),
                                   .threads = threads,
                                   .as_is = as_is};
    // Small caches, so that small sizes are cut.
    if (!as_is && at_end)
        options.l1_bytes = 4096, options.l2_bytes = 16384;
    dv_contract *c = NULL;
    dv_diag *diag = dv_diag_create();
    if (dv_contract_create(&c, jit, n, &options, diag)) {
        dv_status st = dv_diag_status(diag);
        int refused = (as_is && (st == DV_E_NEST || st == DV_E_LIMIT)) ||
                      has_no_kernel(n, st);
        if (!refused)
            print_message("%s", dv_diag_text(diag));
        dv_diag_destroy(diag);
        if (!refused)
            show(n, NULL, threads);
        return refused;
    }
    map_operand(n, DV_IN0, at_end, &in0);
    map_operand(n, DV_IN1, at_end, &in1);
    map_operand(n, DV_OUT, at_end, &want);
    map_operand(n, DV_OUT, at_end, &got);
    assert_int_equal(eval_nest(n, in0.at, in1.at, want.at), DV_OK);
    run(c, threads % 3 == 0, &in0, &in1, &got);
    int ok = same(n, &want, &got);
    if (!ok)
        show(n, dv_contract_nest(c), threads);
    operand *all[] = {&in0, &in1, &want, &got};
    for (int i = 0; i < 4; i++)
        unfence(&all[i]->f);
    dv_contract_destroy(c);
    dv_diag_destroy(diag);
    return ok;
}

// -- Properties --------------------------------------------------------------

static void test_best(void **state)
{
    uint64_t seed = gen_seed();
    int cases = gen_cases(400);
    for (int i = 0; i < cases; i++) {
        rng r = {seed + (uint64_t)i};
        dv_nest n;
        random_nest(&r, &n);
        if (dv_nest_check(&n, NULL))
            continue;
        int threads = 1 + (int)rng_below(&r, 5), at_end = rng_percent(&r, 50);
        if (!agrees(*state, &n, threads, 0, at_end))
            fail_msg("DV_SEED=%" PRIu64, seed + (uint64_t)i);
    }
}

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
        if (!agrees(*state, &n, threads, 0, at_end))
            fail_msg("DV_SEED=%" PRIu64, seed + (uint64_t)i);
    }
    assert_true(ran > cases / 2);
}

static void test_long(void **state)
{
    hold(state, gen_cases(40), random_long_reduce);
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

static void test_functions(void **state)
{
    hold(state, gen_cases(900), random_function);
}

static void unpack(dv_nest *n)
{
    n->pack = 0;
    for (int i = 0; i < n->n_dims; i++)
        n->dims[i].pack = 0;
}

static void test_mangled(void **state)
{
    uint64_t seed = gen_seed();
    int ran = 0, cases = gen_cases(600);
    for (int i = 0; i < cases; i++) {
        rng r = {seed + (uint64_t)i};
        dv_nest n;
        random_nest(&r, &n);
        mangle(&r, &n);
        if (dv_nest_check_order(&n, NULL))
            continue;
        ran++;
        int threads = 1 + (int)rng_below(&r, 3), at_end = rng_percent(&r, 50);
        int kept = rng_percent(&r, 70) ? DV_NEST_OPTIMISE_NONE
                                       : DV_NEST_OPTIMISE_PACKING;
        if (kept != DV_NEST_OPTIMISE_NONE && rng_percent(&r, 50))
            unpack(&n);
        if (!agrees(*state, &n, threads, kept, at_end))
            fail_msg("DV_SEED=%" PRIu64, seed + (uint64_t)i);
    }
    if (cases > 100)
        assert_true(ran > cases / 10);
}

// N8: with numbers that are not integers, so that every order of adding shows,
// the bits are the same for any number of threads and from run to run, unless k
// is split.
static void test_bits(void **state)
{
    uint64_t seed = gen_seed();
    int cases = gen_cases(150), compared = 0;
    for (int i = 0; i < cases; i++) {
        rng r = {seed + (uint64_t)i};
        dv_nest n;
        operand in[2], out[2];
        (rng_percent(&r, 20)   ? random_reduce
         : rng_percent(&r, 15) ? random_long_reduce
                               : random_nest)(&r, &n);
        if (dv_nest_check(&n, NULL))
            continue;
        for (int o = 0; o < 2; o++) {
            map_operand(&n, o, 0, &in[o]);
            dv_dtype type = dv_nest_dtype(&n, o);
            int64_t size = dv_dtype_get(type)->size_bytes;
            for (int64_t j = 0; j < (int64_t)in[o].bytes / size; j++)
                dv_store(type, in[o].data, j,
                         ((double)rng_below(&r, 1000003) / 999983 - 0.4) *
                             (dv_is_float(type) ? 1 : 100));
        }
        int split = 0;
        for (int t = 0; t < 2; t++) {
            dv_contract_options options = {.size = sizeof(dv_contract_options),
                                           .threads = t ? 2 + i % 6 : 1};
            if (i % 2) // small caches, for many ways of packing
                options.l1_bytes = 2048, options.l2_bytes = 8192,
                options.l3_bytes = 65536;
            dv_contract *c = NULL;
            dv_status st = dv_contract_create(&c, *state, &n, &options, NULL);
            map_operand(&n, DV_OUT, 0, &out[t]);
            if (has_no_kernel(&n, st))
                continue;
            assert_int_equal(st, DV_OK);
            dv_contract_run(c, in[0].at, in[1].at, out[t].at);
            split |= dv_contract_nest(c)->combine;
            if (!split && memcmp(out[0].data, out[t].data, out[t].bytes)) {
                show(&n, dv_contract_nest(c), options.threads);
                fail_msg("DV_SEED=%" PRIu64, seed + (uint64_t)i);
            }
            dv_contract_destroy(c);
        }
        compared += !split;
        for (int t = 0; t < 2; t++) {
            unfence(&in[t].f);
            unfence(&out[t].f);
        }
    }
    if (cases > 100)
        assert_true(compared > cases / 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_best), cmocka_unit_test(test_functions),
        cmocka_unit_test(test_long), cmocka_unit_test(test_mangled),
        cmocka_unit_test(test_bits),
    };
    return run_group(tests, jit_begin, jit_end);
}
