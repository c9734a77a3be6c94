// Plans with a grid of tiles (C21): for every policy and order the simulator
// and the thread executor compute right results; the simulator moves what was
// predicted, core by core; and the checker finds mistakes in a grid. All of
// this also on a machine with holes, i.e. with cores that are absent (C24).
#include "harness/test.h"
#include "harness/unit.h"
#include "plan/tiles.h"
#include "plan/traffic.h"

static const char *const programs[] = {
    // Batches, remainders, a vector in the epilogue; then a pointwise op.
    "input a: f32[2, 70, 200]\ninput b: f32[200, 130]\ninput c: f32[70]\n"
    "t[z,m,n] = relu(sum[k] a[z,m,k] * b[k,n] - c[m])\n"
    "y[z,m,n] = t[z,m,n] * 0.5\noutput y\n",
    // Row sums, and a maximum over everything.
    "input a: f32[100, 333]\ns[i] = sum[k] a[i,k]\nh[] = max[i,k] a[i,k]\n"
    "y[i] = s[i] + h[]\noutput y\n",
};

// A row of cores, and two cores in one column: 54 of 64 cores are left.
static const dv_core_rect holes[] = {{0, 3, 7, 3}, {5, 0, 5, 1}};

static void run(job *j, const char *text, const char *by, const char *order,
                dv_executor kind, size_t n_holes)
{
    dv_plan_options o = DV_PLAN_OPTIONS_INIT;
    o.scratch = DV_RESIDENTS_NONE;
    o.policy = by;
    o.order = order;
    o.holes = holes;
    o.n_holes = n_holes;
    start_on(j, "wormhole", text, &o, kind);
    must(job_run(j));
}

// Whether a policy gives each tile to one core as a whole. The others may cut
// the sum of a tile into partial sums (G5), which are added in another order
// and round differently.
static const struct {
    const char *name;
    int whole_tiles;
} policies[] = {{"static", 1},    {"rect", 1},     {"streamk", 0},
                {"streamk1", 0},  {"streamk2", 0}, {"splitk(3)", 0},
                {"ticket(2)", 1}, {"steal(3)", 1}, {"dynamic", 1},
                {"auto", 0}};
enum { N_POLICIES = sizeof policies / sizeof *policies };
static const char *const orders[] = {
    "row_major", "column_major",    "snake",      "grouped(3)", "morton",
    "hilbert",   "block_linear(2)", "swizzle(2)", "zigzag",     "auto"};

// The results are within the oracle's bounds, element by element.
static void agrees(const job *j, const char *by, const char *order)
{
    if (!job_right(j, j->program))
        fail_msg("%s %s: %s", by, order, case_why());
}

// Every core moves the bytes that were predicted for it, and all cores together
// (core -1) move their sum.
static void counts_agree(const job *j, const char *what)
{
    for (int32_t g = 0; g < j->plan->n_groups; g++)
        for (int64_t core = -1; core < j->plan->target.cores; core++) {
            int32_t op = j->plan->groups[g].first_op;
            dv_traffic t = dv_op_traffic(j->plan, g, op, core);
            dv_sim_traffic sum = {0};
            for (int64_t c = 0; c < j->plan->target.cores; c++) {
                const dv_sim_traffic *m = dv_exec_moved_by(j->x, op, c);
                if (core >= 0 && c != core)
                    continue;
                sum.read_bytes += m->read_bytes;
                sum.write_bytes += m->write_bytes;
                sum.ring_bytes += m->ring_bytes;
            }
            if (t.read_bytes != sum.read_bytes ||
                t.write_bytes != sum.write_bytes ||
                t.ring_bytes != sum.ring_bytes)
                fail_msg("%s, group %d, core %d: moved other than predicted",
                         what, (int)g, (int)core);
        }
}

// C21: with every policy and order, and on a machine with and without holes,
// the plan reads back, the simulator and the threads compute the right results,
// and the simulator moves what was predicted. A policy that keeps tiles whole
// gives the same bits as a plan without a grid.
TEST(everyone_follows)
{
    for (size_t i = 0; i < 2; i++) {
        job plain, threads;
        run(&plain, programs[i], NULL, NULL, DV_RUN_SIM, 0);
        run(&threads, programs[i], NULL, NULL, DV_RUN_THREADS, 0);
        agrees(&plain, "no grid", "");
        agrees(&threads, "no grid", "");
        for (size_t turn = 0; turn < 2 * N_POLICIES; turn++) {
            job sim, crew;
            size_t k = turn % N_POLICIES, n_holes = turn < N_POLICIES ? 0 : 2;
            const char *order = orders[(k + 3 * i) % 10],
                       *by = policies[k].name;
            run(&sim, programs[i], by, order, DV_RUN_SIM, n_holes);
            run(&crew, programs[i], by, order, DV_RUN_THREADS, n_holes);
            must(case_reads_back(sim.plan));
            counts_agree(&sim, by);
            if (policies[k].whole_tiles) { // then right as `plain` is
                same(&plain, &sim);
                same(&threads, &crew);
            } else {
                agrees(&sim, by, order);
                agrees(&crew, by, order);
            }
            job_stop(&sim);
            job_stop(&crew);
        }
        job_stop(&plain);
        job_stop(&threads);
    }
}

// -- Mistakes ----------------------------------------------------------------

static void finds(const job *j, const char *words)
{
    check_finds(j->plan, words);
}

TEST(mistakes_are_found)
{
    job j;
    run(&j, programs[0], "streamk", NULL, DV_RUN_SIM, 0);
    dv_group_grid *g = &j.own->grids[0];
    int32_t part = 0;
    while (!dv_range_is_partial(g, &g->ranges[part]))
        part++;
    dv_tile_range keep = g->ranges[part];
    g->ranges[part].k1--;
    finds(&j, "is on no core");
    g->ranges[part] = keep;
    g->ranges[part].k1++;
    finds(&j, "of tile");
    g->ranges[part] = keep;
    g->ranges[part].x = 8;
    finds(&j, "is not on the grid of 8x8");
    g->ranges[part] = keep;
    assert_int_equal(dv_plan_check(j.plan, NULL), DV_OK);
    job_stop(&j);
    run(&j, programs[0], "rect", NULL, DV_RUN_SIM, 0);
    g = &j.own->grids[0];
    keep = g->ranges[1];
    g->ranges[1].n0++;
    finds(&j, "end with their neighbours");
    g->ranges[1] = keep;
    dv_tile_range first = g->ranges[0];
    g->ranges[0].x = keep.x, g->ranges[1].x = first.x;
    finds(&j, "has what belongs to core");
    g->ranges[0].x = first.x, g->ranges[1].x = keep.x;
    g->n_ranges--;
    finds(&j, "of t");
    g->n_ranges++;
    assert_int_equal(dv_plan_check(j.plan, NULL), DV_OK);
    job_stop(&j);
}

// -- Absent cores ------------------------------------------------------------

TEST(holes_are_kept_free)
{
    for (size_t k = 0; k < N_POLICIES; k++) {
        job j;
        run(&j, programs[0], policies[k].name, NULL, DV_RUN_SIM, 2);
        assert_int_equal(j.plan->target.cores, 54);
        // Moves the core of every seventh range into each of the holes.
        dv_group_grid *g = &j.own->grids[0];
        for (int32_t i = 0; i < g->n_ranges; i += 7) {
            dv_tile_range keep = g->ranges[i];
            g->ranges[i].x = i % 8, g->ranges[i].y = 3;
            finds(&j, "is in the hole 0,3 to 7,3");
            g->ranges[i].x = 5, g->ranges[i].y = i % 2;
            finds(&j, "is in the hole 5,0 to 5,1");
            g->ranges[i] = keep;
        }
        assert_int_equal(dv_plan_check(j.plan, NULL), DV_OK);
        job_stop(&j);
    }
}

// C24: the checker proves what the target says of its cores.
TEST(machine_is_checked)
{
    job j;
    run(&j, programs[0], "static", NULL, DV_RUN_SIM, 2);
    dv_target *t = &j.own->target, keep = *t;
    t->cores = 55;
    finds(&j, "the grid has 54 cores without its holes, work is dealt to 55");
    *t = keep;
    t->holes.at[0].x1 = 8;
    finds(&j, "is not on the grid of 8x8 cores");
    *t = keep;
    t->holes.at[t->holes.n++] = (dv_core_rect){2, 2, 3, 3};
    finds(&j, "core 2,3 is in two holes");
    *t = keep;
    t->holes.n = 0;
    finds(&j, "the grid has 64 cores without its holes, work is dealt to 54");
    *t = keep;
    t->core_grid = (dv_core_grid){0, 0};
    finds(&j, "is not on the grid of 0x0 cores");
    *t = keep;
    // C21: a hole where there is work: the plan was made for other cores.
    t->holes.at[0] = (dv_core_rect){0, 0, 0, 1};
    finds(&j, "is in the hole 0,0 to 0,1");
    *t = keep;
    assert_int_equal(dv_plan_check(j.plan, NULL), DV_OK);
    job_stop(&j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everyone_follows),
        cmocka_unit_test(mistakes_are_found),
        cmocka_unit_test(holes_are_kept_free),
        cmocka_unit_test(machine_is_checked),
    };
    return run_group(tests, NULL, NULL);
}
