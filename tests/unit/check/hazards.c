// Hazards (docs/invariants.md) that a command cannot show: which core computes
// each element, and what memory holds before it is written. H4 is in guards.c.
#include "harness/test.h"
#include "divide/divide.h"
#include "exec/exec.h"
#include "sim/sim.h"
#include "harness/unit.h"
#include <inttypes.h>
#include <math.h>

// -- Plans and runs --------------------------------------------------------

static const char small[] = "target small { cores = 2 }\n";

static job make_job(const dv_plan *plan)
{
    job j;
    must(job_start(&j, plan, DV_RUN_SIM));
    return j;
}

static void *data_of(const job *j, const char *name)
{
    return j->data[tensor_named(j->plan, name)];
}

// -- H1, H2, H3, H19: owners -----------------------------------------------

// Returns the tile of a point, computed from the slices alone: slice numbers
// are digits, that of the last variable the lowest.
static int64_t tile_at(const dv_plan *plan, int32_t op, const int64_t *point,
                       int *last_part)
{
    const dv_op *o = &plan->ops->ops[op];
    int64_t tile = 0;
    *last_part = 1;
    for (int v = 0; v < o->n_vars; v++) {
        int64_t slice = plan->slices[op][v];
        int64_t n = (o->vars[v].end - o->vars[v].begin + slice - 1) / slice;
        int64_t slot = (point[v] - o->vars[v].begin) / slice;
        tile = tile * n + slot;
        *last_part &= !o->vars[v].reduce || slot == n - 1;
    }
    return tile;
}

static int64_t owner_of(const dv_plan *plan, int32_t op, int64_t tile)
{
    const dv_group *g = &plan->groups[op];
    for (int d = 0; d < g->n_deals; d++)
        if (g->deals[d].first_tile <= tile &&
            tile < g->deals[d].first_tile + g->deals[d].n_tiles)
            return g->deals[d].core;
    fail_msg("tile %d of op %d has no owner", (int)tile, (int)op);
    return -1;
}

static int64_t element_at(const dv_program *p, const dv_op *o,
                          const dv_access *a, const int64_t *point)
{
    int64_t at = 0;
    for (int d = 0; d < a->n_dims; d++) {
        at = at * p->tensors[a->tensor].shape[d] + a->index[d].base;
        for (int v = 0; v < o->n_vars; v++)
            at += a->index[d].coef[v] * point[v];
    }
    return at;
}

static int next_point(const dv_op *o, int64_t *point)
{
    for (int v = o->n_vars - 1; v >= 0; v--) {
        if (++point[v] < o->vars[v].end)
            return 1;
        point[v] = o->vars[v].begin;
    }
    return 0;
}

// Counts point by point what an access moves on each core, and finds the core
// that writes each element; `owner` may be NULL.
static void count_access(const dv_plan *plan, int32_t op, const dv_access *a,
                         int64_t *moved, int64_t *owner)
{
    const dv_op *o = &plan->ops->ops[op];
    int64_t n = plan->ops->tensors[a->tensor].n_elems, point[DV_MAX_VARS];
    unsigned char *seen = calloc((size_t)(n * plan->groups[op].n_tiles), 1);
    for (int v = 0; v < o->n_vars; v++)
        point[v] = o->vars[v].begin;
    do {
        int last;
        int64_t tile = tile_at(plan, op, point, &last);
        int64_t at = element_at(plan->ops, o, a, point);
        int64_t core = owner_of(plan, op, tile);
        if ((a == &o->write && !last) || seen[tile * n + at])
            continue;
        seen[tile * n + at] = 1;
        moved[core]++;
        if (owner)
            owner[at] = core;
    } while (next_point(o, point));
    free(seen);
}

// The simulator moved, op by op and core by core, what the deals say.
static void assert_owners(const job *j)
{
    const dv_plan *plan = j->plan;
    for (int32_t i = 0; i < plan->ops->n_ops; i++) {
        const dv_op *o = &plan->ops->ops[i];
        int64_t reads[64] = {0}, writes[64] = {0};
        assert_int_equal(plan->groups[i].first_op, i);
        for (int r = 0; r < o->n_reads; r++)
            count_access(plan, i, &o->reads[r], reads, NULL);
        count_access(plan, i, &o->write, writes, NULL);
        for (int64_t c = 0; c < plan->target.cores; c++) {
            const dv_sim_traffic *m = dv_exec_moved_by(j->x, i, c);
            if (m->read_elems != reads[c] || m->write_elems != writes[c])
                fail_msg("op %s, core %d: the plan says %" PRId64 " read, "
                         "%" PRId64 " written, moved were %" PRId64
                         " and %" PRId64,
                         o->name, (int)c, reads[c], writes[c], m->read_elems,
                         m->write_elems);
        }
    }
}

// One tensor with readers whose variables have other orders, and sums over
// either variable.
static const char users[] = "input x: f16[96, 192]\n"
                            "a[i,j] = x[i,j] * 2.0\n"
                            "b[j,i] = a[i,j]\n"
                            "c[i,j] = a[i,j] + b[j,i]\n"
                            "d[j,i] = a[i,j] - b[j,i]\n"
                            "e[j] = sum[i] a[i,j]\n"
                            "f[i] = sum[j] a[i,j]\n"
                            "output c, d, e, f\n";

// H1, H2: the deals alone decide which core computes what, for every order of
// variables. With other deals other cores compute the same results.
TEST(deals_are_obeyed)
{
    const char *pins[] = {"a:i=3", "a:j=2", "c:j=3", "d:i=2", "e:i=4", NULL};
    dv_plan *plan = division_of(users, "spyre", 8, (dv_divide)0, pins);
    dv_plan *other = division_of(users, "spyre", 8, (dv_divide)0, pins);
    job one = make_job(plan);
    must(job_run(&one));
    assert_owners(&one);
    for (int turn = 1; turn < 8; turn++) {
        for (int32_t i = 0; i < other->n_groups;
             i++) // another rotation for each op
            for (int d = 0; d < other->groups[i].n_deals; d++)
                other->groups[i].deals[d].core =
                    (plan->groups[i].deals[d].core * 5 + turn * (i + 1)) % 8;
        job two = make_job(other);
        must(job_run(&two));
        assert_owners(&two);
        must(job_same_bits(&one, &two));
        job_stop(&two);
    }
    job_stop(&one);
    dv_plan_destroy(plan);
    dv_plan_destroy(other);
}

// H2: deals that are changed after the plan was checked are refused when it
// runs.
TEST(bad_deals_do_not_run)
{
    static const struct {
        dv_deal deal;
        int64_t slice;
    } cases[] = {{{2, 0, 1}, 2},  {{-1, 0, 1}, 2}, {{0, 2, 1}, 2},
                 {{0, -1, 1}, 2}, {{0, 0, 3}, 2},  {{1, 1, 1}, 2},
                 {{0, 0, 1}, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dv_plan *plan = division_of("input x: f32[4]\ny[i] = x[i] + 1.0\n"
                                    "output y\n",
                                    small, 0, (dv_divide)0,
                                    (const char *const[]){"y:i=2", NULL});
        job j = make_job(plan);
        must(job_run(&j));
        plan->groups[0].deals[0] = cases[i].deal;
        plan->slices[0][0] = cases[i].slice;
        if (dv_exec_run(j.x, NULL) != DV_E_CHECK)
            fail_msg("case %d ran", (int)i);
        job_stop(&j);
        dv_plan_destroy(plan);
    }
}

// H3: four cores write and eight read: each of the eight fetches what it needs.
TEST(more_readers_than_writers)
{
    dv_plan *plan = division_of(
        "input x: f16[64, 256]\n"
        "a[i,j] = relu(x[i,j])\n"
        "b[i,j] = exp(a[i,j])\noutput b\n",
        "spyre", 8, (dv_divide)0,
        (const char *const[]){"a:i=4", "a:j=1", "b:i=8", "b:j=1", NULL});
    job j = make_job(plan);
    must(job_run(&j));
    assert_owners(&j);
    for (int c = 0; c < 8; c++) {
        const dv_sim_traffic *a = dv_exec_moved_by(j.x, op_named(plan, "a"), c);
        const dv_sim_traffic *b = dv_exec_moved_by(j.x, op_named(plan, "b"), c);
        assert_int_equal(a->write_elems, c < 4 ? 16 * 256 : 0);
        assert_int_equal(b->read_elems, 8 * 256);
    }
    const uint16_t *b = data_of(&j, "b");
    for (int i = 0; i < 64 * 256; i++)
        assert_true(b[i] != 0xffff && b[i] >= 0x3c00); // exp of at least 0
    job_stop(&j);
    dv_plan_destroy(plan);
}

// H19: 4 x 2 and 2 x 4 slices of a square are equally many and equally large,
// but give most elements to different cores; only the deals tell.
TEST(equal_counts_are_not_equal_owners)
{
    static const char text[] = "input x: f16[256, 256]\n"
                               "a[i,j] = relu(x[i,j])\n"
                               "b[i,j] = abs(a[i,j])\noutput b\n";
    dv_plan *plan = division_of(
        text, "spyre", 8, (dv_divide)0,
        (const char *const[]){"a:i=4", "a:j=2", "b:i=2", "b:j=4", NULL});
    int32_t a = op_named(plan, "a"), b = op_named(plan, "b");
    int64_t *by_a = calloc(65536, sizeof *by_a);
    int64_t *by_b = calloc(65536, sizeof *by_b), moved[8] = {0}, differ = 0;
    count_access(plan, a, &plan->ops->ops[a].write, moved, by_a);
    count_access(plan, b, &plan->ops->ops[b].reads[0], moved, by_b);
    for (int i = 0; i < 65536; i++) {
        // The row and the column of the element; slices of the first variable
        // vary fastest.
        int64_t row = i / 256, col = i % 256;
        assert_int_equal(by_a[i], row / 64 + 4 * (col / 128));
        assert_int_equal(by_b[i], row / 128 + 2 * (col / 64));
        differ += by_a[i] != by_b[i];
    }
    assert_int_equal(differ, 65536 * 6 / 8);
    job j = make_job(plan);
    must(job_run(&j));
    assert_owners(&j);
    job_stop(&j);
    free(by_a);
    free(by_b);
    dv_plan_destroy(plan);
}

// -- H5, H13: memory that nobody wrote -------------------------------------

// H5: what a run has not written, padding included, is poison and reads as nan,
// so that a plan which leaves a gap cannot pass by luck.
TEST(memory_is_poisoned)
{
    dv_plan *plan = division_of("input x: f16[5, 65]\ny[i,j] = x[i,j] * 0.0\n"
                                "output y\n",
                                "spyre", 4, (dv_divide)0, NULL);
    dv_sim *m = NULL;
    uint16_t x[325], y[325];
    void *host[2] = {x, y};
    memset(x, 0, sizeof x);
    memset(y, 0, sizeof y);
    assert_int_equal(dv_sim_create(&m, plan, NULL, NULL), DV_OK);
    assert_int_equal(dv_sim_load(m, host, NULL), DV_OK);
    dv_sim_store(m, host); // before anything has run
    for (int i = 0; i < 325; i++)
        assert_int_equal(y[i], 0xffff);
    dv_sim_destroy(m);
    // A layout's size includes padding: 2 sticks x 5 rows x 64 elements (L3).
    assert_int_equal(plan->layouts[0].bytes, 2 * 5 * 64 * 2);
    assert_int_equal(plan->layouts[0].n_elems, 640);
    dv_plan_destroy(plan);
}

// H13, L1, L2, L3: a layout that does not cover its tensor, overlaps or states
// a wrong size is refused.
TEST(layouts_cover)
{
    for (int i = 0; i < 6; i++) {
        dv_plan *plan =
            division_of("input x: f16[5, 65]\ny[i,j] = x[i,j] * 0.5\n"
                        "output y\n",
                        "spyre", 4, (dv_divide)0, NULL);
        dv_layout *l = &plan->layouts[0];
        assert_int_equal(dv_layout_verify(plan, NULL), DV_OK);
        switch (i) {
        case 0: // one stick instead of two, and bytes to match
            l->size[0] = 1;
            l->n_elems /= 2;
            l->bytes /= 2;
            break;
        case 1:
            l->bytes =
                5 * 65 * 2; // bytes of the elements instead of the sticks
            break;
        case 2:
            l->n_elems = 5 * 65;
            break;
        case 3:
            l->stride[1] = 64; // rows as long as a stick: they overlap
            break;
        case 4:
            l->host[1] = -1; // rows are not stored
            break;
        default:
            l->size[1] = 0;
        }
        if (dv_layout_verify(plan, NULL) != DV_E_CHECK)
            fail_msg("layout %d passed", i);
        dv_plan_destroy(plan);
    }
}

// -- H7: contributions arrive once -----------------------------------------

// H7, G5: the four parts of k contribute 1, 2, 4 and 8, of which every subset
// has another sum: 15 means all of them, once. Every core reads the sum
// afterwards, whichever core has it.
TEST(contributions_arrive_once)
{
    static const char text[] = "input x: i32[128]\ninput z: i32[256]\n"
                               "input a: f16[64, 256]\ninput b: f16[256, 64]\n"
                               "s[] = sum[k] x[k]\n"
                               "t[i] = s[] + z[i]\n"
                               "c[m,n] = sum[k] a[m,k] * b[k,n]\n"
                               "output s, t, c\n";
    const char *pins[] = {"s:k=4", "t:i=4", "c:k=4", "c:m=2", NULL};
    static const uint16_t f16[] = {0x3c00, 0x4000, 0x4400, 0x4800}; // 1 2 4 8
    dv_plan *plan = division_of(text, "spyre", 8, (dv_divide)0, pins);
    dv_group *g = &plan->groups[op_named(plan, "s")];
    assert_int_equal(g->n_deals, 4);
    for (int turn = 0; turn < 8; turn++) {
        for (int d = 0; d < 4; d++)
            g->deals[d].core = (d * (turn & 1 ? 7 : 3) + turn) % 8;
        dv_group_note_deals(g);
        job j = make_job(plan);
        int32_t *x = data_of(&j, "x"), *z = data_of(&j, "z");
        uint16_t *a = data_of(&j, "a"), *b = data_of(&j, "b");
        memset(x, 0, 128 * sizeof *x);
        memset(z, 0, 256 * sizeof *z);
        memset(a, 0, 64 * 256 * sizeof *a);
        for (int k = 0; k < 256 * 64; k++)
            b[k] = f16[0];
        for (int part = 0; part < 4; part++) {
            x[32 * part + 5 * part] = 1 << part;
            for (int m = 0; m < 64; m++)
                a[m * 256 + 64 * part + (m + part) % 64] = f16[part];
        }
        must(job_run(&j));
        assert_int_equal(*(int32_t *)data_of(&j, "s"), 15);
        for (int i = 0; i < 256; i++)
            assert_int_equal(((int32_t *)data_of(&j, "t"))[i], 15);
        for (int i = 0; i < 64 * 64; i++)
            assert_int_equal(((uint16_t *)data_of(&j, "c"))[i], 0x4b80);
        assert_owners(&j);
        job_stop(&j);
    }
    dv_plan_destroy(plan);
}

// -- H32, H38: nothing is copied by position -------------------------------

// H32: ops that differ in one thing each. Dividing them in one program gives
// what dividing each alone gives.
static const char *const alike[] = {
    "y[i,j] = x[i,j] * 2.0",
    "y[i,j] = x[j,i] * 2.0",
    "y[i,j] = x[i,j+256] * 2.0  for j in 0..256",
    "y[i,j] = x[2*i,j] * 2.0  for i in 0..256",
    "y[i,j] = x[i,j] * v[j]",
    "y[i,j] = x[i,j] * v[i]",
    "y[i,j]: f32 = x[i,j] * 2.0",
    "y[i] = sum[j] x[i,j]",
    "y[j] = sum[i] x[i,j]",
    "y[i,j] = sum[k] x[i,k] * x[k,j]",
    "y[i,j] = sum[k] x[i,k] * x[j,k]",
    "y[i,j] = w[i,j] * 2.0",
    "y[i] = v[i] * 2.0",
    "y[i] = v[511 - i] * 2.0",
};
enum { N_ALIKE = sizeof alike / sizeof *alike };
static const char alike_inputs[] = "input x: f16[512, 512]\n"
                                   "input v: f16[512]\n"
                                   "input w: f32[512, 512]\n";

// Sticks are chosen for the whole program, so layouts may differ.
static int same_layouts(const dv_plan *x, int32_t a, const dv_plan *y,
                        int32_t b)
{
    const dv_op *o = &x->ops->ops[a], *q = &y->ops->ops[b];
    for (int r = 0; r <= o->n_reads; r++) {
        const dv_access *of = r < o->n_reads ? &o->reads[r] : &o->write;
        const dv_access *as = r < o->n_reads ? &q->reads[r] : &q->write;
        const dv_layout *l = &x->layouts[of->tensor];
        const dv_layout *k = &y->layouts[as->tensor];
        if (l->n_dims != k->n_dims || l->elem_bytes != k->elem_bytes ||
            memcmp(l->size, k->size, (size_t)l->n_dims * sizeof *l->size) ||
            memcmp(l->stride, k->stride, (size_t)l->n_dims * sizeof *l->stride))
            return 0;
    }
    return 1;
}

TEST(twins_are_divided_alone)
{
    static dv_divide how[] = {DV_DIVIDE_BEST, DV_DIVIDE_SEED};
    for (int m = 0; m < 4; m++) {
        const char *target = m < 2 ? "spyre" : "wormhole";
        int compared = 0;
        dv_text all = {0};
        dv_put(&all, "%s", alike_inputs);
        for (int i = 0; i < N_ALIKE; i++)
            dv_put(&all, "y%d%s\n", i, alike[i] + 1);
        for (int i = 0; i < N_ALIKE; i++)
            dv_put(&all, "output y%d\n", i);
        dv_plan *plan = division_of(all.at, target, 0, how[m % 2], NULL);
        for (int i = 0; i < N_ALIKE; i++) {
            char text[400], name[16];
            snprintf(text, sizeof text, "%sy%d%s\noutput y%d\n", alike_inputs,
                     i, alike[i] + 1, i);
            snprintf(name, sizeof name, "y%d", i);
            dv_plan *alone = division_of(text, target, 0, how[m % 2], NULL);
            int32_t a = op_named(plan, name), b = op_named(alone, name);
            int n_vars = plan->ops->ops[a].n_vars;
            int same = same_layouts(plan, a, alone, b);
            compared += same;
            for (int v = 0; same && v < n_vars; v++)
                if (plan->slices[a][v] != alone->slices[b][v])
                    fail_msg("%s: slices of %s are %" PRId64 ", alone %" PRId64,
                             alike[i], plan->ops->ops[a].vars[v].name,
                             plan->slices[a][v], alone->slices[b][v]);
            for (int r = 0; same && r <= plan->ops->ops[a].n_reads; r++)
                assert_int_equal(plan->divisions[a].spans_bytes[r],
                                 alone->divisions[b].spans_bytes[r]);
            if (same &&
                plan->divisions[a].cost_us != alone->divisions[b].cost_us)
                fail_msg("%s: costs differ", alike[i]);
            dv_plan_destroy(alone);
        }
        assert_true(compared >= (m < 2 ? N_ALIKE / 2 : N_ALIKE));
        dv_plan_destroy(plan);
        dv_text_free(&all);
    }
}

// H38: the division of a pinned op is not reused for an equal op, nor for
// another number of cores.
TEST(pins_stay_with_their_op)
{
    static const char text[] = "input x: f16[64, 256]\n"
                               "a[i,j] = relu(x[i,j])\n"
                               "b[i,j] = relu(x[i,j])\n"
                               "c[i,j] = relu(x[i,j])\noutput a, b, c\n";
    static const char *const which[] = {"a:i=4", "b:i=4", "c:i=4"};
    for (int k = 0; k < 3; k++)
        for (int cores = 8; cores <= 32; cores *= 4) {
            dv_plan *free =
                division_of(text, "spyre", cores, (dv_divide)0, NULL);
            dv_plan *plan = division_of(text, "spyre", cores, (dv_divide)0,
                                        (const char *const[]){which[k], NULL});
            assert_int_equal(dv_plan_n_tiles(free, 0), cores);
            assert_int_not_equal(free->slices[0][0], 16);
            for (int i = 0; i < 3; i++)
                assert_int_equal(plan->slices[i][0],
                                 i == k ? 16 : free->slices[i][0]);
            dv_plan_destroy(free);
            dv_plan_destroy(plan);
        }
}

// -- H39: one cost ---------------------------------------------------------

// H39: the cost that a plan states for an op is what the cost model gives for
// its slices.
TEST(costs_are_reproduced)
{
    static dv_divide how[] = {DV_DIVIDE_BEST, DV_DIVIDE_SEED,
                              DV_DIVIDE_SEED_COST};
    static const char text[] = "input x: f16[300, 4096]\n"
                               "input w: f16[4096, 1024]\n"
                               "input big: f16[32, 8192, 17408]\n"
                               "h[m,n] = sum[k] x[m,k] * w[k,n]\n"
                               "s[m] = sum[n] h[m,n]\n"
                               "y[m,n] = exp(h[m,n]) / s[m]\n"
                               "z[i,j,k] = big[i,j,k] * 2.0\n"
                               "output y, z\n";
    const char *last = strstr(text, "z[");
    char without[400];
    snprintf(without, sizeof without, "%.*soutput y\n", (int)(last - text),
             text);
    for (int m = 0; m < 3; m++) {
        dv_plan *plan =
            division_of(m ? without : text, "spyre", 0, how[m], NULL);
        for (int32_t i = 0; i < plan->ops->n_ops; i++) {
            dv_arena arena = {0};
            dv_divide_space *s = DV_NEW(&arena, dv_divide_space, 1);
            dv_splits d;
            dv_divide_space_init(s, &plan->target, plan->ops,
                                 &plan->ops->ops[i], plan->layouts, &arena);
            s->shares = plan->shares;
            for (int v = 0; v < s->n_vars; v++)
                d.n[v] = (s->extent[v] + plan->slices[i][v] - 1) /
                         plan->slices[i][v];
            int64_t tiles = dv_plan_n_tiles(plan, i);
            double rounds =
                (double)((tiles + plan->target.cores - 1) / plan->target.cores);
            double want = rounds * dv_divide_cost(s, &plan->target, &d);
            const dv_division *x = &plan->divisions[i];
            // The largest part, and an eighth of the others.
            double most =
                fmax(fmax(x->compute_us, x->memory_us), x->combine_us);
            double all = x->compute_us + x->memory_us + x->combine_us;
            double parts = rounds * (most + (all - most) / 8);
            if (x->cost_us != want || x->cost_us > parts * (1 + 1e-12) ||
                x->cost_us < parts * (1 - 1e-12))
                fail_msg("division %d, %s: says %g, costs %g, made of %g",
                         (int)how[m], plan->ops->ops[i].name, x->cost_us, want,
                         parts);
            dv_arena_free(&arena);
        }
        dv_plan_destroy(plan);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {"H1 H2 deals are obeyed", deals_are_obeyed, NULL, NULL, NULL},
        {"H2 bad deals do not run", bad_deals_do_not_run, NULL, NULL, NULL},
        {"H3 4 to 8 cores", more_readers_than_writers, NULL, NULL, NULL},
        {"H5 memory is poisoned", memory_is_poisoned, NULL, NULL, NULL},
        {"H7 contributions arrive once", contributions_arrive_once, NULL, NULL,
         NULL},
        {"H13 layouts cover", layouts_cover, NULL, NULL, NULL},
        {"H19 equal counts, other owners", equal_counts_are_not_equal_owners,
         NULL, NULL, NULL},
        {"H32 twins are divided alone", twins_are_divided_alone, NULL, NULL,
         NULL},
        {"H38 pins stay with their op", pins_stay_with_their_op, NULL, NULL,
         NULL},
        {"H39 costs are reproduced", costs_are_reproduced, NULL, NULL, NULL},
    };
    return run_group(tests, NULL, NULL);
}
