// Properties of the search for kernels, tiles and orders: pruning by bounds
// does not change its result. Nests are random contractions; nothing is run.
#include "harness/test.h"
#include "base/dtype.h"
#include "harness/random_nest.h"
#include "nest/cost.h"

static const dv_nest_options machines[] = {
    {.size = sizeof(dv_nest_options), .threads = 1},
    {.size = sizeof(dv_nest_options),
     .threads = 1,
     .l1_bytes = 48 << 10,
     .l2_bytes = 2 << 20,
     .l3_bytes = 32 << 20,
     .vector_bytes = 64,
     .tile_rows = 8,
     .tile_vectors = 3},
    {.size = sizeof(dv_nest_options),
     .threads = 1,
     .l1_bytes = 32 << 10,
     .l2_bytes = 512 << 10,
     .l3_bytes = 32 << 20,
     .vector_bytes = 32,
     .tile_rows = 6,
     .tile_vectors = 2},
};
enum { N_MACHINES = sizeof machines / sizeof *machines };

// -- Random contractions -----------------------------------------------------

static void lay_out_densely(rng *r, dv_nest *n, int o, const char *has)
{
    int order[DV_NEST_MAX_DIMS], count = shuffle_dims(r, n, has, order);
    int64_t step = 1;
    for (int i = 0; i < count; i++) {
        n->dims[order[i]].stride[o] = step;
        step *= n->dims[order[i]].size;
    }
}

static void contraction(rng *r, dv_nest *n)
{
    static const int64_t sizes[] = {2,  3,  5,  8,  12, 16, 17,  20,  24,
                                    31, 40, 48, 64, 96, 99, 128, 200, 300};
    double points = 1;
    *n = (dv_nest){.name = "random", .main = DV_PRIM_GEMM};
    n->dtype = rng_percent(r, 75) ? DV_F32 : DV_F64;
    n->first = rng_percent(r, 70) ? DV_PRIM_ZERO : DV_PRIM_NONE;
    for (int type = 0; type < 4; type++) {
        int64_t count =
            type == DV_NEST_C ? rng_percent(r, 20) : 1 + rng_below(r, 3);
        for (int64_t i = 0; i < count; i++) {
            int64_t size = sizes[rng_below(r, sizeof sizes / sizeof *sizes)];
            size = points * (double)size > 1e10 ? 2 : size;
            points *= (double)size;
            n->dims[n->n_dims++] = (dv_nest_dim){
                .type = (dv_nest_type)type, .exec = DV_NEST_SEQ, .size = size};
        }
    }
    lay_out_densely(r, n, DV_IN0, "cmk");
    lay_out_densely(r, n, DV_IN1, "cnk");
    lay_out_densely(r, n, DV_OUT, "cmn");
    dv_nest_join(n, &machines[0], NULL);
}

// Puts one m, one n and some k inside the kernel, the first of each.
static void mark_prims(rng *r, dv_nest *n)
{
    dv_nest_dim inside[DV_NEST_MAX_DIMS];
    int kept = 0, count = 0, seen[4] = {1, 0, 0, 0};
    for (int i = 0; i < n->n_dims; i++) {
        dv_nest_dim d = n->dims[i];
        int is_k = d.type == DV_NEST_K;
        if ((is_k ? seen[d.type] < 2 : !seen[d.type]) && rng_percent(r, 70)) {
            seen[d.type]++;
            d.exec = DV_NEST_PRIM;
            inside[count++] = d;
        } else {
            n->dims[kept++] = d;
        }
    }
    memcpy(&n->dims[kept], inside, (size_t)count * sizeof *inside);
    n->k_order = DV_K_AS_IT_IS; // it is not cut
}

// Makes a contraction whose rows of k are far apart in in0 (or in1), with
// adjacent elements in each row, and with sizes for which there are kernels
// that prefetch such rows. Loops may be longer than any buffer.
static void far_contraction(rng *r, dv_nest *n)
{
    static const int64_t rows[] = {32, 36, 48, 64, 96}, loops[] = {2, 5, 6, 16};
    int exchanged = rng_percent(r, 30), o = exchanged ? DV_IN1 : DV_IN0;
    dv_nest_type row = exchanged ? DV_NEST_N : DV_NEST_M;
    dv_nest_type col = exchanged ? DV_NEST_M : DV_NEST_N;
    int64_t count = 1 + rng_below(r, 3), m = rows[rng_below(r, 5)];
    *n = (dv_nest){.name = "far", .main = DV_PRIM_GEMM};
    n->dtype = rng_percent(r, 85) ? DV_F32 : DV_F64;
    n->first = rng_percent(r, 70) ? DV_PRIM_ZERO : DV_PRIM_NONE;
    n->k_order = DV_K_AS_IT_IS;
    for (int64_t i = 0; i < count; i++)
        n->dims[n->n_dims++] =
            (dv_nest_dim){.type = rng_percent(r, 20)   ? DV_NEST_K
                                  : rng_percent(r, 15) ? col
                                                       : row,
                          .exec = DV_NEST_SEQ,
                          .size = rng_percent(r, 40) ? 300 + rng_below(r, 4000)
                                                     : loops[rng_below(r, 4)]};
    n->dims[n->n_dims++] =
        (dv_nest_dim){.type = row, .exec = DV_NEST_PRIM, .size = m};
    n->dims[n->n_dims++] =
        (dv_nest_dim){.type = col,
                      .exec = DV_NEST_PRIM,
                      .size = rng_percent(r, 60) ? 24 : 20 + rng_below(r, 5)};
    n->dims[n->n_dims++] = (dv_nest_dim){
        .type = DV_NEST_K,
        .exec = DV_NEST_PRIM,
        .size = rng_percent(r, 80) ? m / 4 * (2 + rng_below(r, 3)) : 64};
    lay_out(r, n, DV_IN0, "mk");
    lay_out(r, n, DV_IN1, "nk");
    lay_out(r, n, DV_OUT, "mn");
    int64_t step = 1;
    for (int i = n->n_dims - 3; i >= 0; i--) // rows first, then loops
        if (n->dims[i].type != col) {
            n->dims[i].stride[o] = step;
            step *= n->dims[i].size;
        }
    n->dims[n->n_dims - 1].stride[o] = step > 1024 ? step : 1024;
}

// -- All choices -------------------------------------------------------------

enum { LINES = 2, BLOCKS = 8 };

// Cuts the nest by the given numbers of a kernel, of sizes and of a block;
// returns 0 if there is no such cut.
static int cut(dv_nest *n, const dv_nest_caches *c, int line, int m, int k_n,
               int block)
{
    int64_t size = dv_dtype_get(n->dtype)->size_bytes;
    int64_t elems = c->l2 / 2 / size;
    static const int64_t few[] = {8, 4, 16};
    dv_nest_tile_lines(n, line ? 96 : 16);
    if (!dv_nest_tile_prim(n, DV_NEST_M, m, c->vector / 4) ||
        !dv_nest_tile_prim(n, DV_NEST_N, k_n, c->vector / 4))
        return 0;
    if (block < 4 && block & 1)
        dv_nest_tile_block(n, DV_NEST_M, elems);
    if (block < 4 && block & 2)
        dv_nest_tile_block(n, DV_NEST_N, elems);
    if (block == 7)
        dv_nest_tile_runs(n, c->l3 / 4 / size);
    else if (block >= 4)
        dv_nest_tile_rows(n, few[block - 4]);
    return 1;
}

static double price(const dv_nest *n, const dv_nest_caches *c, double *least)
{
    dv_nest a = *n;
    dv_nest_ordered x;
    double cost = dv_nest_order_loops(&a, c, DV_NEST_IMPOSSIBLE, &x);
    *least = x.least;
    return cost;
}

// Finds what the pass `tile` must find, by trying everything.
static void tile_by_all(dv_nest *n, const dv_nest_caches *c)
{
    dv_nest best = *n;
    double least = DV_NEST_IMPOSSIBLE, kernels;
    for (int i = 0; i < LINES * DV_NEST_WIDTHS * DV_NEST_WIDTHS * BLOCKS; i++) {
        int size = i / BLOCKS;
        int line = size / (DV_NEST_WIDTHS * DV_NEST_WIDTHS);
        dv_nest a = *n;
        if (!cut(&a, c, line, size / DV_NEST_WIDTHS % DV_NEST_WIDTHS,
                 size % DV_NEST_WIDTHS, i % BLOCKS))
            continue;
        double cost = price(&a, c, &kernels);
        if (kernels < least && cost < least * 0.999) {
            least = cost;
            best = a;
        }
    }
    *n = best;
}

TEST(tiles_are_those_of_all)
{
    for (int i = 0; i < gen_cases(200); i++) {
        rng r = {gen_seed() + (uint64_t)i};
        const dv_nest_options *o = &machines[i % N_MACHINES];
        dv_nest_caches c = dv_nest_caches_of(o);
        dv_nest n, all;
        contraction(&r, &n);
        mark_prims(&r, &n);
        all = n;
        if (dv_nest_is_gemm(&n, NULL))
            continue;
        assert_int_equal(dv_nest_tile(&n, o, NULL), DV_OK);
        tile_by_all(&all, &c);
        if (!dv_nest_equal(&n, &all))
            fail_msg("seed %d: other tiles", (int)gen_seed() + i);
    }
}

// -- Bounds ------------------------------------------------------------------

// Returns whether kernels prefetch rows with some way of packing.
static int may_bring(dv_nest_count *c)
{
    for (int i = 0; i < DV_NEST_PACKSETS; i++) {
        dv_nest_packset *w = dv_nest_packset_of(c, i);
        if (!w)
            continue;
        dv_nest_packset_select(c, w);
        if (dv_nest_copies_ahead(c, &w->f))
            return 1;
    }
    return 0;
}

// The cost with the loops as they are, for each way of packing, is not below
// its bound. Large terms that cancel leave a rounding error.
static void check_ways(const dv_nest *n, const dv_nest_caches *c,
                       const double *least, int seed)
{
    for (int way = 0; way < DV_NEST_PACKSETS; way++) {
        dv_nest a = *n;
        int packed = 0;
        a.pack = (uint8_t)way;
        double cost = dv_nest_mark_packs(&a, c, 1, DV_NEST_IMPOSSIBLE);
        for (int i = 0; i < a.n_dims; i++)
            packed |= a.dims[i].pack;
        if ((packed | a.pack) == way && least[way] > cost * (1 + 1e-6))
            fail_msg("seed %d: way %d bounded by %.9g, cost %.9g", seed, way,
                     least[way], cost);
    }
}

// Packing an operand in any loop whose block of it fits costs no less than the
// bound.
static void check_moves(dv_nest_count *c, int seed)
{
    for (int way = 0; way < DV_NEST_PACKSETS; way++) {
        dv_nest_packset *w = dv_nest_packset_of(c, way);
        for (int o = 0; w && o < DV_N_OPERANDS; o++)
            for (int at = DV_FORM_TOP; at < w->f.n_loops; at++) {
                dv_nest_packset_select(c, w);
                if (c->f.pack[o] == DV_FORM_NEVER)
                    continue;
                dv_nest_pack_in(c, o, at);
                double cost = dv_nest_packing_cost(c, o);
                if (c->held[o] <= dv_nest_max_buffer(c, o) &&
                    w->moved[o] * DV_NEST_SLACK > cost)
                    fail_msg("seed %d: way %d moves %d for %.9g, in %d %.9g",
                             seed, way, o, w->moved[o], at, cost);
            }
    }
}

// Checks the bounds of the sizes before they are cut, and of the nest after.
// Returns 1 if rows may be prefetched there.
static int check_bounds(const dv_nest *given, const dv_nest *n,
                        const dv_nest_caches *c, int seed)
{
    dv_nest_count count;
    dv_nest_tiles t;
    dv_nest_size_bounds s;
    double kernels, cost = price(n, c, &kernels);
    int bad;
    int64_t size[2] = {dv_nest_prim_size(n, DV_NEST_M),
                       dv_nest_prim_size(n, DV_NEST_N)};
    assert_true(dv_nest_tiles_of(given, &t, &bad));
    assert_true(dv_nest_count_begin(&count, given, c, &t));
    dv_nest_sizes_begin(&s, &count);
    double bound = dv_nest_sizes_bound(&s, size);
    if (bound > cost)
        fail_msg("seed %d: sizes bounded by %.9g, cost %.9g", seed, bound,
                 cost);
    assert_true(dv_nest_tiles_of(n, &t, &bad));
    assert_true(dv_nest_count_begin(&count, n, c, &t));
    bound = dv_nest_bound(&count, DV_NEST_IMPOSSIBLE);
    if (bound > cost)
        fail_msg("seed %d: bounded by %.9g, cost %.9g", seed, bound, cost);
    check_ways(n, c, count.least, seed);
    check_moves(&count, seed);
    return may_bring(&count);
}

// A search with a given limit finds exactly the results below the limit.
static void check_most(const dv_nest *n, const dv_nest_caches *c)
{
    dv_nest a = *n, b = *n, x = *n;
    dv_nest_ordered all, near, none;
    double cost = dv_nest_order_loops(&a, c, DV_NEST_IMPOSSIBLE, &all);
    if (cost >= DV_NEST_IMPOSSIBLE)
        return;
    double most = cost * (1 + 1e-12);
    assert_true(dv_nest_order_loops(&b, c, most, &near) == cost);
    assert_true(dv_nest_equal(&a, &b));
    assert_memory_equal(all.packs.at, near.packs.at, sizeof near.packs.at);
    assert_true(dv_nest_order_loops(&x, c, cost, &none) >= most);
    // Marking the packed operands gives the same cost.
    dv_nest_mark(&a, &all.packs);
    assert_true(dv_nest_cost(&a, c) == cost);
}

TEST(bounds_hold)
{
    int met = 0, cases = gen_cases(8000);
    for (int i = 0; i < cases; i++) {
        rng r = {gen_seed() + (uint64_t)i};
        int far = rng_percent(&r, 40);
        dv_nest_caches c =
            dv_nest_caches_of(&machines[far ? 0 : i % N_MACHINES]);
        dv_nest n, given;
        if (far) {
            far_contraction(&r, &n);
        } else {
            contraction(&r, &n);
            mark_prims(&r, &n);
        }
        int line = (int)rng_below(&r, LINES),
            block = (int)rng_below(&r, BLOCKS);
        int m = (int)rng_below(&r, DV_NEST_WIDTHS);
        int k_n = (int)rng_below(&r, DV_NEST_WIDTHS);
        if (far) // mostly without remainders
            m = rng_percent(&r, 20) ? m : 0,
            k_n = rng_percent(&r, 10) ? k_n : 0;
        given = n;
        dv_nest_tile_lines(&given, line ? 96 : 16);
        if (!cut(&n, &c, line, m, k_n, block))
            continue;
        met += check_bounds(&given, &n, &c, (int)gen_seed() + i);
        check_most(&n, &c);
    }
    assert_true(met > 0 || cases < 1000);
}

// -- Passes together ---------------------------------------------------------

static void look_on(void *user, const char *pass, const dv_nest *n)
{
    (void)pass;
    (void)n;
    ++*(int *)user;
}

TEST(together_is_one_by_one)
{
    for (int i = 0; i < gen_cases(800); i++) {
        rng r = {gen_seed() + (uint64_t)i};
        dv_nest_options o = machines[i % N_MACHINES];
        dv_nest n, apart;
        int passes = 0;
        contraction(&r, &n);
        n.k_order = rng_percent(&r, 50) ? DV_K_FREE : DV_K_APART;
        apart = n;
        assert_int_equal(dv_nest_optimise(&n, "best", &o, NULL), DV_OK);
        o.after = look_on;
        o.user = &passes;
        assert_int_equal(dv_nest_optimise(&apart, "best", &o, NULL), DV_OK);
        assert_int_equal(passes, 5);
        if (!dv_nest_equal(&n, &apart))
            fail_msg("seed %d: another nest", (int)gen_seed() + i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiles_are_those_of_all),
        cmocka_unit_test(bounds_hold),
        cmocka_unit_test(together_is_one_by_one),
    };
    return run_group(tests, NULL, NULL);
}
