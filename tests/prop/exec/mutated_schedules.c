// Plans whose section `schedule` was altered at random: each is refused, by the
// checker (C22, C25 to C30, C38) or by the executor that would have to obey it,
// or it gives right results, and the same bits as the plan's own if no sum is
// in another order.
#include "harness/job.h"
#include "harness/products.h"
#include "harness/property.h"
#include "harness/random.h"
#include <stdio.h>
#include <string.h>

enum { N_MUTATIONS = 40 };

static const char *const names[N_MUTATIONS] = {
    "kind",       "inner",       "outer",          "swap loops",
    "no loops",   "chunk",       "collapse",       "window",
    "transpose",  "reads",       "guard",          "epilogue",
    "copy",       "level size",  "level variable", "level side",
    "level lost", "dot",         "pairs",          "rows",
    "unit",       "delay",       "keep",           "keep twice",
    "store",      "store twice", "loop size",      "loop variable",
    "loop side",  "loop order",  "loop lost",      "pack",
    "gemm",       "blocks",      "stream",         "shape",
    "tile lost",  "skip",        "skip from",      "skip lost"};

// How often each mutation was refused, and how often it ran.
static int refused[N_MUTATIONS], ran[N_MUTATIONS];

static int32_t some_var(rng *r, const dv_op *o)
{
    return (int32_t)rng_below(r, o->n_vars + 1) - 1;
}

// Copies the levels of a sum, so that those of another plan stay.
static dv_sum_level *levels_of(dv_plan *plan, dv_sum_order *s)
{
    dv_sum_level *to = DV_NEW(&plan->arena, dv_sum_level, s->n_levels + 1);
    for (int32_t i = 0; i < s->n_levels; i++)
        to[i] = s->levels[i];
    return s->levels = to;
}

// Alters the levels of the sum of a product. Returns 0 if there are none.
static int mutate_sums(rng *r, dv_plan *plan, const dv_op *o, dv_op_schedule *s,
                       int mutation)
{
    dv_sum_order *sums = &s->sums;
    if (s->kind != DV_KERNEL_PRODUCT || !sums->n_levels)
        return 0;
    dv_sum_level *l = levels_of(plan, sums) + rng_below(r, sums->n_levels);
    switch (mutation) {
    case 13:
        l->size = 1 + rng_below(r, 2 * l->size + 2);
        return 1;
    case 14:
        l->var = (int32_t)rng_below(r, o->n_vars);
        return 1;
    case 15:
        l->inside = !l->inside;
        return 1;
    case 16:
        *l = sums->levels[--sums->n_levels];
        return 1;
    case 17:
        sums->dot = !sums->dot;
        return 1;
    default:
        sums->pairs = !sums->pairs;
        return 1;
    }
}

// Copies the loops of a product's tiles, so that those of another plan stay.
static void own_loops(dv_plan *plan, dv_op_schedule *s)
{
    dv_tile_schedule *to = DV_NEW(&plan->arena, dv_tile_schedule, s->n_tiles);
    for (int32_t i = 0; i < s->n_tiles; i++) {
        const dv_tile_schedule *from = &s->tiles[i];
        to[i] = *from;
        to[i].loops = DV_NEW(&plan->arena, dv_tile_loop, from->n_loops + 1);
        for (int32_t k = 0; k < from->n_loops; k++)
            to[i].loops[k] = from->loops[k];
    }
    s->tiles = to;
}

// Alters the loops of a product's tiles. Returns 0 if there are none.
static int mutate_loops(rng *r, dv_plan *plan, const dv_op *o,
                        dv_op_schedule *s, int mutation)
{
    if (!s->n_tiles)
        return 0;
    own_loops(plan, s);
    dv_tile_schedule *t = &s->tiles[rng_below(r, s->n_tiles)];
    int32_t i = (int32_t)rng_below(r, t->n_loops);
    int32_t k = (int32_t)rng_below(r, t->n_loops);
    dv_tile_loop *l = &t->loops[i], was = *l;
    switch (mutation) {
    case 26:
        l->size = 1 + rng_below(r, 2 * l->size + 2);
        // Half of the time another loop makes up for it.
        if (rng_percent(r, 50) && was.size % l->size == 0) {
            for (k = t->n_loops++; k > i; k--)
                t->loops[k] = t->loops[k - 1];
            t->loops[i] =
                (dv_tile_loop){.vars = was.vars, .size = was.size / l->size};
        }
        return 1;
    case 27:
        l->vars ^= UINT32_C(1) << rng_below(r, o->n_vars);
        return 1;
    case 28:
        l->inside = !l->inside;
        return 1;
    case 29:
        t->loops[i] = t->loops[k];
        t->loops[k] = was;
        return i != k;
    case 30:
        *l = t->loops[--t->n_loops];
        return 1;
    case 31:
        *(rng_percent(r, 30) ? &t->pack : &l->pack) ^= 1 << rng_below(r, 3);
        return 1;
    case 32:
        t->gemm = !t->gemm;
        return 1;
    case 33:
        t->m_block =
            t->m_block && rng_percent(r, 20) ? 0 : 1 + rng_below(r, 99);
        t->k_block = !t->m_block          ? 0
                     : rng_percent(r, 30) ? 1 + rng_below(r, 99)
                     : t->k_block         ? t->k_block
                                          : l->size;
        return 1;
    case 34:
        *(rng_percent(r, 50) ? &t->stream : &t->stage) ^= 1;
        return 1;
    case 35:
        t->shorts ^= UINT32_C(1) << rng_below(r, o->n_vars);
        return 1;
    default:
        s->n_tiles--;
        return 1;
    }
}

// Alters the temporaries that are kept for one tile. Returns 0 if there are
// none.
static int mutate_temps(rng *r, dv_plan *plan, int mutation)
{
    dv_schedule *s = &plan->schedule;
    dv_temp_address *to = DV_NEW(&plan->arena, dv_temp_address, s->n_temps + 1);
    for (int32_t i = 0; i < s->n_temps; i++)
        to[i] = s->temps[i];
    s->temps = to;
    if (mutation == 23) {
        to[s->n_temps++] = (dv_temp_address){
            .tensor = (int32_t)rng_below(r, plan->ops->n_tensors),
            .address = 64 * rng_below(r, 100)};
        return 1;
    }
    if (!s->n_temps)
        return 0;
    to[rng_below(r, s->n_temps)].address = rng_below(r, 2000) - 100;
    return 1;
}

// Alters the addresses of the stored temporaries. Returns 0 if there are none.
static int mutate_stored(rng *r, dv_plan *plan, int mutation)
{
    dv_schedule *s = &plan->schedule;
    dv_temp_address *to =
        DV_NEW(&plan->arena, dv_temp_address, s->n_stored + 1);
    for (int32_t i = 0; i < s->n_stored; i++)
        to[i] = s->stored[i];
    s->stored = to;
    if (!s->n_stored)
        return 0;
    int32_t i = (int32_t)rng_below(r, s->n_stored);
    if (mutation == 25)
        to[s->n_stored++] = to[i];
    else
        to[i].address = 64 * rng_below(r, 8) - 64 * rng_percent(r, 10);
    return 1;
}

// Alters what ops skip: which one, from where, or that it does.
static int mutate_skip(rng *r, dv_plan *plan, const dv_op *o, dv_op_schedule *s,
                       int mutation)
{
    static const int64_t by[] = {32, 64, 128, 256};
    int finite = s->guard == DV_GUARD_FINITE && rng_percent(r, 50);
    if (mutation == 37 && o->n_vars > 1) {
        s->skip.var = (int32_t)rng_below(r, o->n_vars);
        s->skip.with = (int32_t)rng_below(r, o->n_vars);
        s->skip.by = s->skip.by ? s->skip.by : by[rng_below(r, 4)];
        return 1;
    }
    if (mutation == 37 || !s->skip.by)
        return 0;
    if (mutation == 39) {
        s->skip.by = 0;
        s->guard = finite ? DV_GUARD_NONE : s->guard;
        return 1;
    }
    for (int32_t i = 0; i < plan->ops->n_ops; i++)
        if (plan->schedule.ops[i].skip.by)
            plan->schedule.ops[i].skip.from += rng_below(r, 3) - 1;
    s->guard = finite ? DV_GUARD_NONE : s->guard;
    return 1;
}

// Alters the schedule of one op. Returns 0 if the mutation does not apply.
static int mutate(rng *r, dv_plan *plan, int mutation)
{
    int32_t op = (int32_t)rng_below(r, plan->ops->n_ops);
    const dv_op *o = &plan->ops->ops[op];
    dv_op_schedule *s = &plan->schedule.ops[op];
    int32_t was = s->inner;
    if (mutation >= 37)
        return mutate_skip(r, plan, o, s, mutation);
    if (mutation >= 26)
        return mutate_loops(r, plan, o, s, mutation);
    if (mutation >= 24)
        return mutate_stored(r, plan, mutation);
    if (mutation >= 22)
        return mutate_temps(r, plan, mutation);
    if (mutation >= 13 && mutation <= 18)
        return mutate_sums(r, plan, o, s, mutation);
    switch (mutation) {
    case 0:
        s->kind = (dv_kernel_kind)rng_below(r, DV_N_KERNEL_KINDS);
        break;
    case 1:
        s->inner = some_var(r, o);
        break;
    case 2:
        s->outer = some_var(r, o);
        break;
    case 3:
        s->inner = s->outer;
        s->outer = was;
        break;
    case 4:
        s->inner = s->outer = -1;
        break;
    case 5:
        s->chunk = rng_below(r, 20);
        break;
    case 6:
        s->collapse = rng_below(r, 50);
        break;
    case 7:
        s->window = (int32_t)rng_below(r, 10);
        break;
    case 8:
        s->transpose = !s->transpose;
        break;
    case 9:
        if (s->window && rng_percent(r, 50))
            s->images = !s->images;
        else
            s->prefetch ^= UINT64_C(1) << rng_below(r, 3);
        break;
    case 10:
        s->guard = (dv_guard)rng_below(r, DV_N_GUARDS);
        break;
    case 11:
        s->epilogue = (dv_epilogue_place)rng_below(r, DV_N_EPILOGUES);
        break;
    case 12:
        s->copied[rng_below(r, 2)] ^= 1;
        break;
    case 19:
        s->n_rows = (int32_t)rng_below(r, 3);
        for (int32_t k = 0; k < s->n_rows; k++)
            s->rows[k] = (int32_t)rng_below(r, o->n_vars ? o->n_vars : 1);
        s->n_rows = o->n_vars ? s->n_rows : 0;
        break;
    case 20:
        s->unit = (int32_t)rng_below(r, 4);
        break;
    default:
        s->delay = rng_below(r, 5);
        break;
    }
    return 1;
}

// Compares an altered plan with its original, which was run.
static int right_or_refused(const dv_program *p, const job *want, dv_plan *plan,
                            int mutation)
{
    job got = {0};
    dv_diag *diag = dv_diag_create();
    dv_status st = dv_schedule_verify(plan, diag);
    if (st == DV_OK && mutation >= 13 && mutation <= 18)
        st = case_choose_loops(plan); // those for the sum's own order
    dv_exec *x = NULL;
    st = st == DV_OK ? dv_exec_create(&x, plan, diag) : st;
    dv_exec_destroy(x);
    int ok = 1;
    if (st != DV_OK) {
        refused[mutation]++;
    } else {
        int sums = mutation >= 13 && mutation <= 18;
        // Another kernel or other loops may add in another order, too.
        int other = sums || mutation <= 8;
        ran[mutation]++;
        ok = job_done(&got, plan, DV_RUN_THREADS) && job_right(&got, p) &&
             (other || job_same_values(want, &got) ||
              case_no("%s: %s", names[mutation], case_why()));
    }
    dv_diag_destroy(diag);
    job_stop(&got);
    return ok;
}

// Tries mutations from number `first` on.
static int tries_from(const dv_program *p, uint64_t seed, int first)
{
    rng r = {seed ^ 0x27d4eb2f};
    dv_plan_options o = DV_PLAN_OPTIONS_INIT;
    job want = {0};
    o.threads = 1 + rng_below(&r, 4);
    dv_plan *own = case_plan(p, case_host, &o);
    int ok = own && job_done(&want, own, DV_RUN_THREADS);
    for (int k = first; ok && k < N_MUTATIONS && own->ops->n_ops; k++) {
        dv_plan *plan = case_plan(p, case_host, &o);
        if (plan && mutate(&r, plan, k)) {
            ok = right_or_refused(p, &want, plan, k);
            if (!ok)
                case_show(plan);
        }
        dv_plan_destroy(plan);
    }
    job_stop(&want);
    dv_plan_destroy(own);
    return ok;
}

static int mutants_are_right_or_refused(const dv_program *p, uint64_t seed)
{
    return tries_from(p, seed, 0);
}

static int loops_are_right_or_refused(const dv_program *p, uint64_t seed)
{
    return tries_from(p, seed, 11);
}

static const char *const hard[] = {
    // A product with an epilogue in the kernel, on blocks, and in parts.
    "input a: f32[64, 48]\ninput b: f32[48, 40]\ninput v: f32[40]\n"
    "c[m,n] = relu(sum[k] a[m,k] * b[k,n] + v[n])\n"
    "d[m,n] = exp(sum[k] a[m,k] * b[k,n]) * v[n]\n"
    "e[m,n]: f64 = sum[k] a[m,k] * b[k,n]\noutput c, d, e\n",
    // A sum in blocks.
    "input a: f32[24, 1000]\ninput b: f32[1000, 64]\n"
    "c[m,n] = sum[k] a[m,k] * b[k,n]\noutput c\n",
    // Rows with an inlined temporary.
    "input x: f32[96, 512]\nu[i] = mean[j] x[i,j]\nc[i,j] = x[i,j] - u[i]\n"
    "v[i] = mean[j] c[i,j] * c[i,j]\ny[i,j] = c[i,j] * rsqrt(v[i] + 0.1)\n"
    "output y\n",
    // Causal attention, which skips what is masked.
    "input q: f32[2, 384, 32]\ninput k: f32[2, 384, 32]\n"
    "input v: f32[2, 384, 32]\n"
    "s[h,i,j] = sum[d] q[h,i,d] * k[h,j,d]\n"
    "u[h,i,j] = select(j <= i, s[h,i,j], -inf)\nm[h,i] = max[j] u[h,i,j]\n"
    "p[h,i,j] = exp(u[h,i,j] - m[h,i])\nz[h,i] = sum[j] p[h,i,j]\n"
    "o[h,i,d] = (sum[j] p[h,i,j] * v[h,j,d]) / z[h,i]\noutput o\n",
    // A window, a transposed read, a gather and temporaries kept per tile.
    "input x: f32[40, 64]\ninput p: i32[40]\n"
    "w[i,j] = max[a,b] x[i+a,j+b]  for i in 0..38, j in 0..62, a in 0..3, b in "
    "0..3\n"
    "t[j,i] = x[i,j] * 2.0\ng[i,j] = x[p[i],j] + 1.0\noutput w, t, g\n",
    "input x: f32[300, 1000]\nt[i,j] = exp(x[i,j])\ns[i,j] = t[i,j] * tanh(t["
    "i,j])\ny[i,j] = s[i,999-j] + t[i,j]\noutput y\n",
};
CASE_PROPERTY(mutants_are_right_or_refused, 25, 2)

TEST(products)
{
    uint64_t seed = gen_seed();
    int failed = 0, n = gen_cases(30);
    for (int i = 0; i < n && failed < 3; i++) {
        char text[600];
        some_product(seed + (uint64_t)i, text, sizeof text);
        if (case_holds(loops_are_right_or_refused, text, seed + (uint64_t)i))
            continue;
        gen_report("products", seed + (uint64_t)i, GEN_FLOATS, text,
                   case_why());
        failed++;
    }
    assert_int_equal(failed, 0);
}

// Each mutation was refused at some time: otherwise nothing tests it.
TEST(every_mutation_was_refused)
{
    for (int k = 0; k < N_MUTATIONS; k++) {
        printf("%-14s refused %4d, ran %4d\n", names[k], refused[k], ran[k]);
        if (!refused[k])
            fail_msg("mutation '%s' was never refused", names[k]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE_TESTS(mutants_are_right_or_refused),
        cmocka_unit_test(products),
        cmocka_unit_test(every_mutation_was_refused),
    };
    return cmocka_run_group_tests(tests, case_set_up, case_tear_down);
}
