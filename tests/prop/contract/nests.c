// N5, N6, N7: contractions give what the reference gives. Random products have
// all types of dimensions, sizes 1 and primes, and permuted operands with gaps;
// they are laid out by the passes, or cut and packed at random. All numbers are
// small integers, so that results do not depend on the order of adding.
// Operands end right before a page that faults, or begin right behind one.
#include "harness/test.h"
#include "contract/contract.h"
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
}

static void run(void *c, const void *in0, const void *in1, void *out)
{
    run_contraction(c, in0, in1, out);
}

// Runs the contraction and compares with the oracle. A nest that is kept as it
// is may have no kernel.
static int agrees(dv_jit *jit, const dv_nest *n, int as_is, int at_end)
{
    dv_contract_options options = {.size = sizeof(dv_contract_options),
                                   .optimise = (dv_nest_optimise_level)as_is};
    // Small caches, so that small sizes are cut.
    if (!as_is && at_end)
        options.l1_bytes = 4096, options.l2_bytes = 16384;
    dv_contraction *c = NULL;
    dv_diag *diag = dv_diag_create();
    int ok;
    if (dv_contraction_create(&c, jit, n, &options, diag)) {
        dv_status st = dv_diag_status(diag);
        ok = st == DV_E_LIMIT || (as_is && st == DV_E_NEST);
        if (!ok)
            print_message("%s", dv_diag_text(diag));
    } else {
        ok = agrees_with_oracle(&(prepared){n, c, run}, at_end);
    }
    if (!ok)
        show_nest(n, c ? dv_contraction_nest(c) : NULL, 1);
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
        int at_end = rng_percent(&r, 50);
        n.fixed = (uint8_t)rng_below(&r, 4);
        if (!agrees(*state, &n, 0, at_end))
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
        int at_end = rng_percent(&r, 50);
        int kept = rng_percent(&r, 70) ? DV_NEST_OPTIMISE_NONE
                                       : DV_NEST_OPTIMISE_PACKING;
        if (kept != DV_NEST_OPTIMISE_NONE && rng_percent(&r, 50))
            unpack(&n);
        n.fixed = (uint8_t)rng_below(&r, 4);
        if (!agrees(*state, &n, kept, at_end))
            fail_msg("DV_SEED=%" PRIu64, seed + (uint64_t)i);
    }
    if (cases > 100)
        assert_true(ran > cases / 10);
}

// N8: the bits are the same from run to run, and for another contraction of the
// same nest.
static void test_bits(void **state)
{
    uint64_t seed = gen_seed();
    int cases = gen_cases(150);
    for (int i = 0; i < cases; i++) {
        rng r = {seed + (uint64_t)i};
        dv_contract_options options = DV_CONTRACT_OPTIONS_INIT;
        dv_contraction *c[2] = {NULL};
        dv_nest n;
        random_product(&r, &n);
        if (i % 2) // small caches, for many ways of packing
            options.l1_bytes = 2048, options.l2_bytes = 8192,
            options.l3_bytes = 65536;
        if (dv_nest_check(&n, NULL) ||
            dv_contraction_create(&c[0], *state, &n, &options, NULL))
            continue;
        assert_int_equal(
            dv_contraction_create(&c[1], *state, &n, &options, NULL), DV_OK);
        for (int other = 0; other < 2; other++) {
            prepared p[] = {{&n, c[0], run}, {&n, c[other], run}};
            if (gives_same_bits(&r, p))
                continue;
            show_nest(&n, dv_contraction_nest(c[0]), 1);
            fail_msg("DV_SEED=%" PRIu64, seed + (uint64_t)i);
        }
        dv_contraction_destroy(c[0]);
        dv_contraction_destroy(c[1]);
    }
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
