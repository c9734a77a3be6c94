// N5, N6, N7: contractions give what the reference gives. Random products have
// all types of dimensions, sizes 1 and primes, permuted operands with gaps and
// threads; they are laid out by the passes, or cut and packed at random. All
// numbers are small integers, so that results do not depend on the order of
// adding. Operands end right before a page that faults, or begin right behind
// one.
#include "harness/test.h"
#include "contract/contract.h"
#include "harness/nest_eval.h"
#include "harness/random_nest.h"
#include <inttypes.h>

static void random_product(rng *r, dv_nest *n)
{
    static const dv_prim first[] = {DV_PRIM_NONE, DV_PRIM_ZERO, DV_PRIM_COPY};
    static const dv_prim last[] = {DV_PRIM_NONE, DV_PRIM_RELU, DV_PRIM_COPY};
    *n = (dv_nest){.name = "random", .main = DV_PRIM_GEMM};
    n->dtype = rng_percent(r, 70) ? DV_F32 : DV_F64;
    n->first = first[rng_below(r, 3)];
    n->last = last[rng_below(r, 3)];
    random_dims(r, n, 3);
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

// Runs a contraction on its own threads, or part by part, beginning with the
// last part.
static void run(dv_contraction *c, int in_parts, const mapped *in0,
                const mapped *in1, const mapped *out)
{
    int32_t n = dv_contraction_threads(c);
    if (!in_parts) {
        dv_contraction_run(c, in0->at, in1->at, out->at);
        return;
    }
    for (int32_t i = n - 1; i >= 0; i--)
        dv_contraction_part(c, i, in0->at, in1->at, out->at);
    for (int32_t i = n - 1; dv_contraction_phases(c) == 2 && i >= 0; i--)
        dv_contraction_combine(c, i, out->at);
}

// Runs the contraction and compares with the reference loops; then again with
// the result at the other end of its page.
static int agrees(dv_jit *jit, const dv_nest *n, int threads, int as_is,
                  int at_end)
{
    mapped in0, in1, want, got;
    dv_contract_options options = {.size = sizeof(dv_contract_options),
                                   .threads = threads,
                                   .optimise = (dv_nest_optimise_level)as_is};
    // Small caches, so that small sizes are cut.
    if (!as_is && at_end)
        options.l1_bytes = 4096, options.l2_bytes = 16384;
    dv_contraction *c = NULL;
    dv_diag *diag = dv_diag_create();
    if (dv_contraction_create(&c, jit, n, &options, diag)) {
        dv_status st = dv_diag_status(diag);
        int refused = st == DV_E_LIMIT || (as_is && st == DV_E_NEST);
        if (!refused)
            print_message("%s", dv_diag_text(diag));
        dv_diag_destroy(diag);
        if (!refused)
            show_nest(n, NULL, threads);
        return refused;
    }
    map_operand(n, DV_IN0, at_end, &in0);
    map_operand(n, DV_IN1, at_end, &in1);
    map_operand(n, DV_OUT, at_end, &want);
    map_operand(n, DV_OUT, at_end, &got);
    assert_int_equal(eval_nest(n, in0.at, in1.at, want.at), DV_OK);
    run(c, threads % 3 == 0, &in0, &in1, &got);
    int ok = same_results(n, &want, &got);
    if (!ok)
        show_nest(n, dv_contraction_nest(c), threads);
    mapped *all[] = {&in0, &in1, &want, &got};
    for (int i = 0; i < 4; i++)
        unfence(&all[i]->f);
    dv_contraction_destroy(c);
    dv_diag_destroy(diag);
    return ok;
}

// -- Properties ---------------------------------------------------------------

static void test_best(void **state)
{
    uint64_t seed = gen_seed();
    int cases = gen_cases(400);
    for (int i = 0; i < cases; i++) {
        rng r = {seed + (uint64_t)i};
        dv_nest n;
        random_product(&r, &n);
        if (dv_nest_check(&n, NULL))
            continue;
        int threads = 1 + (int)rng_below(&r, 5), at_end = rng_percent(&r, 50);
        if (!agrees(*state, &n, threads, 0, at_end))
            fail_msg("DV_SEED=%" PRIu64, seed + (uint64_t)i);
    }
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
        random_product(&r, &n);
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
        mapped in[2], out[2];
        random_product(&r, &n);
        if (dv_nest_check(&n, NULL))
            continue;
        for (int o = 0; o < 2; o++) {
            map_operand(&n, o, 0, &in[o]);
            fill_fractions(&r, &n, o, &in[o]);
        }
        int split = 0;
        for (int t = 0; t < 2; t++) {
            dv_contract_options options = {.size = sizeof(dv_contract_options),
                                           .threads = t ? 2 + i % 6 : 1};
            if (i % 2) // small caches, for many ways of packing
                options.l1_bytes = 2048, options.l2_bytes = 8192,
                options.l3_bytes = 65536;
            dv_contraction *c = NULL;
            dv_status st =
                dv_contraction_create(&c, *state, &n, &options, NULL);
            map_operand(&n, DV_OUT, 0, &out[t]);
            if (st == DV_E_LIMIT) // no dimension is left to a kernel
                continue;
            assert_int_equal(st, DV_OK);
            dv_contraction_run(c, in[0].at, in[1].at, out[t].at);
            split |= dv_contraction_nest(c)->combine;
            if (!split && memcmp(out[0].data, out[t].data, out[t].bytes)) {
                show_nest(&n, dv_contraction_nest(c), options.threads);
                fail_msg("DV_SEED=%" PRIu64, seed + (uint64_t)i);
            }
            dv_contraction_destroy(c);
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
        cmocka_unit_test(test_best),
        cmocka_unit_test(test_mangled),
        cmocka_unit_test(test_bits),
    };
    return run_group(tests, jit_begin, jit_end);
}
