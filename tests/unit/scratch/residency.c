// C11 to C15, C35: homes in scratchpads with one mistake at a time:
// dv_plan_check finds each. Then hazards (docs/invariants.md) that a command
// cannot show.
#include "harness/test.h"
#include "base/math.h"
#include "plan/traffic.h"
#include "exec/exec.h"
#include "sim/sim.h"
#include "scratch/scratch.h"
#include "harness/unit.h"
#include "harness/spoil.h"
#include <inttypes.h>

// -- Plans with homes of every kind ----------------------------------------

typedef struct example {
    const char *name, *text;
    int64_t cores;
    double reserved; // percent of the scratchpads; 0: the default
    const char *pins[6];
    dv_plan_options o;
} example;

static const char softmax[] = "input x: f16[64, 256]\n"
                              "m[j] = max[i] x[i,j]\n"
                              "d[i,j] = x[i,j] - m[j]\n"
                              "e[i,j] = exp(d[i,j])\n"
                              "s[j] = sum[i] e[i,j]\n"
                              "y[i,j] = e[i,j] / s[j]\n"
                              "output y\n";

static const char two_ways[] = "input x: f16[256, 256]\n"
                               "t[i,j] = exp(x[i,j])\n"
                               "u[i,j] = t[i,j] * 2.0\n"
                               "s[j] = sum[i] t[i,j]\n"
                               "m[j] = max[i] t[i,j]\n"
                               "r[j] = relu(s[j]) + m[j]\n"
                               "output u, r\n";

// a is not used while b to f are computed: it is evicted and loaded again.
static const char leaves[] = "input x: f16[64, 64]\n"
                             "a[i,j] = exp(x[i,j])\n"
                             "b[i,j] = a[i,j] + x[i,j]\n"
                             "c[i,j] = b[i,j] * b[i,j]\n"
                             "d[i,j] = c[i,j] - b[i,j]\n"
                             "e[i,j] = d[i,j] * c[i,j]\n"
                             "f[i,j] = e[i,j] + d[i,j]\n"
                             "g[i,j] = f[i,j] * a[i,j]\n"
                             "h[i,j] = g[i,j] - a[i,j]\n"
                             "k[i,j] = h[i,j] * a[i,j]\n"
                             "output k\n";

static const char kept_too[] = "input x: f16[64, 128]\n"
                               "t[i,j] = x[i,j] + 1.0\n"
                               "u[i,j] = t[i,j] * t[i,j]\n"
                               "v[i,j] = relu(u[i,j])\n"
                               "output t, v\n";

// t is filled before the loop and read in it; the lifetime of w is within one
// pass.
static const char loop[] = "input x: f16[64, 128]\n"
                           "input n: f16[64, 128]\n"
                           "t[i,j] = x[i,j] + 1.0\n"
                           "repeat 3 {\n"
                           "    w[i,j] = t[i,j] * x[i,j]\n"
                           "    v[i,j] = relu(w[i,j])\n"
                           "    n[i,j] <- n[i,j] + v[i,j]\n"
                           "    q[i,j] = abs(v[i,j])\n"
                           "}\n"
                           "z[i,j] = q[i,j] * 2.0\n"
                           "output z, n\n";

// The sum of parts is complete on the last core of each four.
static const char parts[] = "input x: f32[4, 512]\n"
                            "s[i] = sum[k] x[i,k]\n"
                            "r[i] = relu(s[i])\n"
                            "y[i,k] = x[i,k] - s[i]\n"
                            "output r, y\n";

// On small scratchpads all ops but the last loop over tiles of rows; w is
// loaded once on each core, and e is stored for the last op.
static const char tiled_rows[] = "input x: f16[64, 256]\n"
                                 "input w: f16[256]\n"
                                 "m[i] = max[j] x[i,j]\n"
                                 "d[i,j] = x[i,j] - m[i]\n"
                                 "e[i,j] = exp(d[i,j])\n"
                                 "s[i] = sum[j] e[i,j]\n"
                                 "y[i,j] = e[i,j] / s[i]\n"
                                 "v[i,j] = y[i,j] * w[j]\n"
                                 "u[i,j] = v[i,j] + w[j]\n"
                                 "c[j] = max[i] e[i,j]\n"
                                 "output u, c\n";

static const char opaque[] = "input x: f16[64, 128]\n"
                             "t[i,j] = x[i,j] + 1.0\n"
                             "u[i,j] = t[i,j] * t[i,j]\n"
                             "extern g[i,j] = u[i,j] * 2.0\n"
                             "v[i,j] = g[i,j] + x[i,j]\n"
                             "w[i,j] = v[i,j] * v[i,j]\n"
                             "output w\n";

// The parts of t pass all cores while s is computed; w is read once for all.
static const char passed[] = "input x: f16[256, 256]\n"
                             "input w: f16[256]\n"
                             "t[i,j] = exp(x[i,j])\n"
                             "u[i,j] = t[i,j] * w[j]\n"
                             "s[j] = sum[i] t[i,j]\n"
                             "r[j] = relu(s[j])\n"
                             "output u, r\n";

// On small scratchpads, the ops from t on loop over tiles of rows. Every tile
// needs all of k and v: k is read once for all cores, and v passes them.
static const char tiled_share[] = "input x: f16[512, 64]\n"
                                  "input k: f16[128, 64]\n"
                                  "v[j,d] = k[j,d] * 2.0\n"
                                  "q[i,d] = x[i,d] * 0.125\n"
                                  "t[i,j] = sum[d] q[i,d] * k[j,d]\n"
                                  "m[i] = max[j] t[i,j]\n"
                                  "p[i,j] = exp(t[i,j] - m[i])\n"
                                  "o[i,d] = sum[j] p[i,j] * v[j,d]\n"
                                  "y[i,d] = o[i,d] / 3.0\n"
                                  "output y\n";

// The cores loop over blocks of f; y is summed up on the core.
static const char sums[] = "input x: f16[128, 64]\n"
                           "input w: f16[64, 1024]\n"
                           "input z: f16[1024, 64]\n"
                           "g[i,f] = sum[k] x[i,k] * w[k,f]\n"
                           "r[i,f] = relu(g[i,f])\n"
                           "y[i,j] = sum[f] r[i,f] * z[f,j]\n"
                           "output y\n";

static const example examples[] = {
    {"softmax", softmax, 1, 0, {0}, DV_PLAN_OPTIONS_INIT},
    {"softmax, 4 cores", softmax, 4, 0, {0}, DV_PLAN_OPTIONS_INIT},
    {"two ways",
     two_ways,
     4,
     0,
     {"t:i=4", "u:i=4", "s:j=4", "m:j=4"},
     {.size = sizeof(dv_plan_options), .joint = DV_JOINT_OFF}},
    {"leaves",
     leaves,
     1,
     99,
     {0},
     {.size = sizeof(dv_plan_options),
      .reorder = DV_OFF,
      .recompute = DV_OFF,
      .tiles_per_core = 1}},
    {"kept too", kept_too, 2, 0, {0}, DV_PLAN_OPTIONS_INIT},
    {"loop", loop, 1, 0, {0}, DV_PLAN_OPTIONS_INIT},
    {"loop, 2 cores", loop, 2, 0, {0}, DV_PLAN_OPTIONS_INIT},
    {"parts",
     parts,
     4,
     0,
     {"s:k=4", "y:k=4", "r:i=1"},
     {.size = sizeof(dv_plan_options), .joint = DV_JOINT_OFF}},
    {"passed",
     passed,
     4,
     0,
     {"t:i=4", "u:i=4", "s:j=4", "r:j=4"},
     {.size = sizeof(dv_plan_options), .joint = DV_JOINT_OFF}},
    {"opaque", opaque, 1, 0, {0}, DV_PLAN_OPTIONS_INIT},
    {"shared rows", tiled_share, 4, 99, {0}, DV_PLAN_OPTIONS_INIT},
    {"sums", sums, 4, 99, {0}, DV_PLAN_OPTIONS_INIT},
    {"rows", tiled_rows, 2, 99, {0}, DV_PLAN_OPTIONS_INIT},
    {"rows, 1 core", tiled_rows, 1, 99.5, {0}, DV_PLAN_OPTIONS_INIT},
    {"tenants",
     softmax,
     1,
     0,
     {0},
     {.size = sizeof(dv_plan_options), .tenants = DV_TENANTS_MANY}},
};

enum { N_EXAMPLES = sizeof examples / sizeof *examples };

static dv_plan *make_plan(const example *e)
{
    dv_plan_options o = e->o;
    dv_target *t = target_of("spyre");
    dv_program *p = program_of(e->text);
    if (e->reserved > 0)
        t->scratch_reserved_percent = e->reserved;
    o.cores = e->cores;
    o.pins = e->pins;
    while (e->pins[o.n_pins])
        o.n_pins++;
    dv_plan *plan = case_plan(p, t, &o);
    if (!plan)
        fail_msg("%s: %s", e->name, case_why());
    assert_true(plan->scratch.n_homes > 0);
    dv_target_destroy(t);
    dv_program_destroy(p);
    return plan;
}

// The same plan, read from its text: planned only once.
static dv_plan *plan_of(const example *e)
{
    static char *texts[N_EXAMPLES];
    char **text = &texts[e - examples];
    dv_plan *plan = NULL;
    if (!*text) {
        plan = make_plan(e);
        *text = dv_plan_text(plan);
        dv_plan_destroy(plan);
    }
    assert_int_equal(
        dv_plan_parse(&plan, *text, strlen(*text), "p", NULL, NULL, NULL),
        DV_OK);
    return plan;
}

// -- Refusing --------------------------------------------------------------

// Applies one spoiler to one home of a fresh plan. Returns 1 if the plan is
// refused, 0 if there was nothing to break.
static int attack(const example *e, int k, int32_t home)
{
    dv_plan *plan = plan_of(e);
    victim v = {plan, &plan->scratch, &plan->scratch.homes[home], home};
    int spoiled = spoilers[k].spoil(&v);
    if (spoiled && !refused(plan)) {
        char *text = dv_plan_text(plan);
        fail_msg("%s survives in %s, home %d:\n%s", spoilers[k].name, e->name,
                 (int)home, strstr(text, "groups {"));
    }
    dv_plan_destroy(plan);
    return spoiled;
}

// H33, C11 to C15, C35: every broken plan is refused, and every spoiler finds
// something to break.
TEST(every_mutant_is_refused)
{
    int total = 0;
    for (int k = 0; k < n_spoilers; k++) {
        int n = 0;
        for (int e = 0; e < N_EXAMPLES; e++) {
            dv_plan *plan = plan_of(&examples[e]);
            int32_t homes = plan->scratch.n_homes;
            dv_plan_destroy(plan);
            for (int32_t i = 0; i < homes; i++)
                n += attack(&examples[e], k, i);
        }
        if (n == 0)
            fail_msg("%s found nothing to spoil", spoilers[k].name);
        total += n;
    }
    printf("%d mutants, all refused\n", total);
}

// The examples have homes of every kind.
TEST(every_kind_is_there)
{
    int fills[DV_FILL_SUMMED + 1] = {0}, stored = 0, in_place = 0, reloaded = 0,
                               by_tile[2] = {0};
    for (int e = 0; e < N_EXAMPLES; e++) {
        dv_plan *plan = plan_of(&examples[e]);
        for (int32_t i = 0; i < plan->scratch.n_homes; i++) {
            const dv_home *h = &plan->scratch.homes[i];
            fills[h->fill]++;
            stored += h->stored;
            by_tile[h->fill == DV_FILL_LOADED] +=
                plan->groups[dv_group_of(plan, h->as_op)].loops;
            in_place += h->in_place_of >= 0;
            reloaded +=
                h->fill == DV_FILL_LOADED && writer_of(plan, h->tensor) >= 0;
        }
        dv_plan_destroy(plan);
    }
    assert_true(fills[DV_FILL_WRITTEN] && fills[DV_FILL_LOADED] &&
                fills[DV_FILL_RING] && fills[DV_FILL_SUMMED]);
    assert_true(stored && in_place && reloaded);
    assert_true(by_tile[0] && by_tile[1]);
}

// -- Moves -----------------------------------------------------------------

// Makes a plan in which e of the softmax on one core is moved before its last
// reader.
static dv_plan *moved_plan(int64_t to, int32_t source_end)
{
    dv_plan *plan = plan_of(&examples[0]);
    dv_scratch *s = &plan->scratch;
    victim v = {plan, s, NULL, -1};
    for (int32_t i = 0; i < s->n_homes; i++)
        if (s->homes[i].end_op - s->homes[i].first_op == 3)
            v.i = i; // the home of e
    v.h = &s->homes[v.i];
    assert_int_equal(v.h->n_readers, 2);
    written_twice(&v);
    dv_home *e = &s->homes[v.i], *then = &s->homes[s->n_homes - 1];
    then->fill = DV_FILL_MOVED;
    then->from = v.i;
    then->address = to;
    then->first_op = e->readers[1];
    then->readers = &e->readers[1];
    then->n_readers = e->n_readers = 1;
    e->end_op = source_end;
    for (int32_t i = 0; i < s->n_homes; i++) // move the other homes away
        if (s->homes[i].first_op == 3)
            s->homes[i].address = 1 << 20;
    return plan;
}

static dv_status check_moved(int64_t to, int32_t source_end)
{
    dv_plan *plan = moved_plan(to, source_end);
    dv_status st = dv_scratch_verify(plan, NULL);
    if (st == DV_OK && dv_scratch_index(&plan->scratch, plan, &plan->arena))
        st = dv_plan_check(plan, NULL);
    dv_plan_destroy(plan);
    return st;
}

// C12, C15: a move within a core's scratchpad goes to bytes of its own while
// the source is alive, and to any free bytes when the source's lifetime ends
// there, even to those of the source, since it is cut alike and moved as a
// whole.
TEST(moves)
{
    assert_int_equal(check_moved(65536, 4), DV_OK);
    assert_int_equal(check_moved(65536, 5), DV_OK);
    assert_int_equal(check_moved(65536, 3),
                     DV_E_CHECK); // the source's lifetime ends too early
    assert_int_equal(check_moved(128, 5), DV_E_CHECK); // both are alive
    assert_int_equal(check_moved(128, 4), DV_OK);      // onto itself
}

// C23: a group whose tiles are handed out as they run has no homes, because any
// core may have any tile.
TEST(handed_out_tiles_have_no_homes)
{
    dv_plan *plan = plan_of(&examples[0]);
    int32_t op = plan->scratch.homes[0].first_op;
    plan->groups[dv_group_of(plan, op)].queue = DV_TICKET;
    check_finds(plan, "but its tiles are handed out");
    dv_plan_destroy(plan);
}

// -- Hazards ---------------------------------------------------------------

// H6, H7: partial sums 1, 2, 4 and 8 arrive as 15, once, at every core that
// reads the sum; the cores with earlier parts provide nothing.
TEST(completed_sums_are_passed_once)
{
    static const char text[] = "input x: i32[512]\n"
                               "s[] = sum[k] x[k]\n"
                               "y[k] = x[k] * s[]\n"
                               "output y\n";
    const char *pins[] = {"s:k=4", "y:k=4", NULL};
    dv_plan_options o = {
        .size = sizeof(dv_plan_options), .cores = 4, .joint = DV_JOINT_OFF};
    dv_plan *plan = plan_on(text, "spyre", pins, &o);
    int32_t sum = tensor_named(plan, "s"), x[512], y[512], passes = 0;
    for (int32_t i = 0; i < plan->scratch.n_homes; i++) {
        const dv_home *h = &plan->scratch.homes[i];
        int has = 0;
        for (int64_t c = 0; c < 4 && h->tensor == sum; c++)
            has += dv_home_elems(plan, h, c) > 0;
        passes += h->tensor == sum ? h->n_passed_to : 0;
        if (h->tensor == sum)
            assert_int_equal(has, 1);
    }
    assert_int_equal(passes, 1);
    for (int i = 0; i < 512; i++)
        x[i] = i % 128 == 5 ? 1 << i / 128 : i % 128 == 9 ? 1 : 0;
    for (int i = 9; i < 512; i += 128)
        x[i - 1] = -1; // so that the ones cancel
    dv_exec *ex = NULL;
    assert_int_equal(dv_exec_create(&ex, plan, NULL), DV_OK);
    assert_int_equal(dv_exec_bind(ex, "x", x, sizeof x, NULL), DV_OK);
    assert_int_equal(dv_exec_bind(ex, "y", y, sizeof y, NULL), DV_OK);
    assert_int_equal(dv_exec_run(ex, NULL), DV_OK);
    for (int i = 0; i < 512; i++)
        assert_int_equal(y[i], 15 * x[i]);
    const dv_sim_traffic *moved = dv_exec_moved(ex);
    // A part is passed on three times, and the sum is received three times.
    int64_t part = dv_op_partial_bytes(plan->ops, &plan->ops->ops[0]);
    assert_int_equal(moved->ring_bytes, 3 * part + 3 * 4);
    assert_int_equal(moved->read_elems, 512);
    assert_int_equal(moved->write_elems, 512);
    dv_exec_destroy(ex);
    dv_plan_destroy(plan);
}

// Runs every group once, on a machine with `spare` more bytes of scratchpad
// behind the last home.
static dv_sim *simulate(dv_plan *plan, int64_t spare, dv_arena *arena)
{
    const dv_program *p = plan->ops;
    dv_kernel *kernels = DV_NEW(arena, dv_kernel, p->n_ops);
    void **data = DV_NEW(arena, void *, p->n_tensors);
    int32_t slots = 0;
    dv_sim *m = NULL;
    for (int32_t i = 0; i < p->n_ops; i++) {
        assert_true(dv_kernel_init(&kernels[i], p, &p->ops[i], NULL, arena));
        slots = kernels[i].n_slots > slots ? kernels[i].n_slots : slots;
    }
    for (int32_t i = 0; i < p->n_tensors; i++) {
        data[i] = DV_NEW(arena, char, dv_tensor_bytes(&p->tensors[i]));
        if (p->tensors[i].is_input)
            dv_fill(p, i, 7, -1, 1, data[i]);
    }
    int64_t top = 0;
    for (int32_t i = 0; i < plan->scratch.n_homes; i++)
        top = dv_max_i64(top, plan->scratch.homes[i].address +
                                  plan->scratch.homes[i].core_bytes);
    int64_t size = plan->scratch.homes[0].core_bytes;
    plan->scratch.homes[0].core_bytes =
        top + spare - plan->scratch.homes[0].address;
    assert_int_equal(dv_sim_create(&m, plan, kernels, NULL), DV_OK);
    plan->scratch.homes[0].core_bytes = size;
    assert_int_equal(dv_sim_scratch_bytes(m), top + spare);
    dv_strips s = {.p = p, .data = data};
    s.buf = DV_NEW(arena, double, (slots + 3) * DV_STRIP);
    s.acc = (char *)s.buf + (size_t)slots * DV_STRIP * 8;
    assert_int_equal(dv_sim_load(m, data, NULL), DV_OK);
    for (int32_t g = 0; g < plan->n_groups; g++)
        assert_int_equal(dv_sim_group(m, &plan->groups[g], &s), DV_OK);
    return m;
}

// H14: nothing is written between homes or above them.
TEST(canaries)
{
    for (int e = 0; e < N_EXAMPLES; e++) {
        dv_plan *plan = plan_of(&examples[e]);
        const dv_scratch *s = &plan->scratch;
        dv_arena arena = {0};
        dv_sim *m = simulate(plan, 4096, &arena);
        int written = 0;
        for (int64_t at = 0; at < dv_sim_scratch_bytes(m); at++) {
            int covered = 0;
            for (int32_t i = 0; i < s->n_homes; i++)
                covered |= s->homes[i].address <= at &&
                           at < s->homes[i].address + s->homes[i].core_bytes;
            for (int64_t c = 0; c < plan->target.cores; c++) {
                unsigned char byte = dv_sim_scratch(m, c)[at];
                written += byte != DV_POISON;
                if (!covered && byte != DV_POISON)
                    fail_msg("%s: byte %d of core %d belongs to no home",
                             examples[e].name, (int)at, (int)c);
            }
        }
        assert_true(
            written > 0 ||
            s->tenants); // with tenants each group clears the scratchpads
        dv_sim_destroy(m);
        dv_arena_free(&arena);
        dv_plan_destroy(plan);
    }
}

// H17: a result in place of an operand may not overwrite elements that are read
// at another position.
TEST(in_place_reads_where_it_writes)
{
    static const char rows[] = "target rows { scratch = 1MiB "
                               "scratch_align = 64 grain = primitive }\n";
    static const char text[] = "input x: f32[32, 32]\n"
                               "t[i,j] = x[i,j] + 1.0\n"
                               "y[i,j] = t[i,j] - t[j,i]\n"
                               "z[i,j] = y[i,j] * 2.0\n"
                               "output z\n";
    dv_plan_options o = DV_PLAN_OPTIONS_INIT;
    dv_plan *plan = plan_on(text, rows, NULL, &o);
    dv_scratch *s = &plan->scratch;
    assert_int_equal(s->n_homes, 2); // t and y at different addresses
    assert_int_equal(s->homes[1].in_place_of, -1);
    s->homes[1].in_place_of = 0;
    s->homes[1].address = s->homes[0].address;
    assert_true(refused(plan));
    dv_plan_destroy(plan);
}

// The last home in place of the first is refused, and is not what was planned.
static void assert_no_heir(const char *text, const char *const *pins)
{
    static const char rows[] =
        "target rows { cores = 4 scratch = 1MiB scratch_align = 64 "
        "grain = primitive memory_bandwidth = 1GB/s }\n";
    dv_plan_options o = {.size = sizeof(dv_plan_options),
                         .joint = DV_JOINT_OFF};
    dv_plan *plan = plan_on(text, rows, pins, &o);
    dv_scratch *s = &plan->scratch;
    assert_int_equal(s->n_homes, 2);
    dv_home *p = &s->homes[0], *h = &s->homes[1];
    assert_int_equal(h->in_place_of, -1);
    assert_int_equal(h->fill, DV_FILL_WRITTEN);
    assert_int_equal(p->end_op,
                     h->first_op + 1); // everything else would allow it
    assert_true(h->core_bytes <= p->core_bytes);
    h->in_place_of = 0;
    h->address = p->address;
    assert_true(refused(plan));
    dv_plan_destroy(plan);
}

// H17: in-place homes need the same cut (here every core has all of x and a
// quarter of y) and the same layout (smaller elements have other positions).
TEST(in_place_is_cut_and_laid_out_alike)
{
    const char *quarters[] = {"a:i=4", "y:k=4", "z:k=4", NULL};
    assert_no_heir("input x: f32[64]\n"
                   "input w: f32[64, 64]\n"
                   "a[i] = sum[k] x[k] * w[i,k]\n"
                   "y[k] = x[k] + 1.0\n"
                   "z[k] = y[k] * 2.0\n"
                   "output a, z\n",
                   quarters);
    const char *rows[] = {"t:i=4", "u:i=4", "v:i=4", NULL};
    assert_no_heir("input x: f32[64, 64]\n"
                   "t[i,j] = x[i,j] + 1.0\n"
                   "u[i,j]: f16 = t[i,j] * 2.0\n"
                   "v[i,j] = u[i,j] - 1.0\n"
                   "output v\n",
                   rows);
}

// H5: one core has the scalar; four cores that read it in their own scratchpads
// would read poison.
TEST(one_cores_scalar_is_not_all_cores)
{
    static const char text[] = "input x: f16[1, 256]\n"
                               "s[i] = mean[j] x[i,j]\n"
                               "r[i] = rsqrt(s[i] + 1.5)\n"
                               "y[i,j] = x[i,j] * r[i]\n"
                               "output y\n";
    const char *pins[] = {"s:j=1", "y:j=4", NULL};
    dv_plan_options o = {
        .size = sizeof(dv_plan_options), .cores = 4, .joint = DV_JOINT_OFF};
    dv_plan *plan = plan_on(text, "spyre", pins, &o);
    dv_scratch *s = &plan->scratch;
    int32_t r = tensor_named(plan, "r");
    for (int32_t i = 0; i < s->n_homes; i++) {
        victim v = {plan, s, &s->homes[i], i};
        if (s->homes[i].tensor != r || s->homes[i].fill != DV_FILL_WRITTEN)
            continue;
        s->n_homes = i + 1; // without copies
        set_reader(&v, plan->ops->n_ops - 1);
        assert_true(refused(plan));
        dv_plan_destroy(plan);
        return;
    }
    fail_msg("r has no home");
}

// H13, H18, H22: the size of a home is what the writer's slices take on a core,
// in whole sticks with padding; not what a reader takes, and not only the used
// part of the last stick.
TEST(sizes_are_the_writers)
{
    static const char text[] = "input x: f16[64, 67]\n"
                               "t[i,j] = exp(x[i,j])\n"
                               "u[i,j] = t[i,j] * 2.0\n"
                               "m[j] = max[i] t[i,j]\n"
                               "output u, m\n";
    const char *pins[] = {"t:i=4", "u:i=4", "m:i=1", "m:j=1", NULL};
    dv_plan_options o = {
        .size = sizeof(dv_plan_options), .cores = 4, .joint = DV_JOINT_OFF};
    dv_plan *plan = plan_on(text, "spyre", pins, &o);
    const dv_scratch *s = &plan->scratch;
    int32_t t = tensor_named(plan, "t");
    int seen = 0;
    for (int32_t i = 0; i < s->n_homes; i++)
        if (s->homes[i].tensor == t && s->homes[i].fill == DV_FILL_WRITTEN) {
            // 16 rows of two sticks; the whole tensor has 64 rows
            assert_int_equal(s->homes[i].core_bytes, 16 * 2 * 128);
            seen = 1;
        }
    assert_true(seen);
    dv_plan_destroy(plan);
}

// A result that leaves its cores and is loaded again has the view of the op
// that writes it. Each core loads what it wrote, also where cores share reads.
TEST(results_are_loaded_again_by_each_core)
{
    dv_plan_options o = {
        .size = sizeof(dv_plan_options), .cores = 4, .joint = DV_JOINT_OFF};
    const char *pins[] = {NULL};
    dv_plan *plan = plan_on(leaves, "spyre", pins, &o);
    dv_scratch_rules rules = dv_scratch_rules_of(plan, &o);
    dv_arena arena = {0};
    dv_life life;
    assert_true(rules.ring && plan->target.ring);
    assert_true(dv_life_make(&life, plan, &rules, NULL, &arena));
    for (int32_t i = 0; i < plan->ops->n_ops; i++) {
        const dv_op *op = &plan->ops->ops[i];
        dv_cand c = {.tensor = op->write.tensor,
                     .as_op = i,
                     .as_access = op->n_reads,
                     .first_op = i + 1,
                     .end_op = i + 2};
        dv_view v;
        assert_null(dv_view_make(&v, plan, i, op->n_reads));
        assert_false(dv_can_share(plan, &rules, i, op->n_reads));
        assert_true(dv_life_load_bytes(&life, &c, &v) == 64 * 64 * 2);
    }
    dv_arena_free(&arena);
    dv_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_is_there),
        cmocka_unit_test(every_mutant_is_refused),
        cmocka_unit_test(moves),
        cmocka_unit_test(handed_out_tiles_have_no_homes),
        cmocka_unit_test(completed_sums_are_passed_once),
        cmocka_unit_test(in_place_reads_where_it_writes),
        cmocka_unit_test(in_place_is_cut_and_laid_out_alike),
        cmocka_unit_test(one_cores_scalar_is_not_all_cores),
        cmocka_unit_test(sizes_are_the_writers),
        cmocka_unit_test(results_are_loaded_again_by_each_core),
        cmocka_unit_test(canaries),
    };
    return run_group(tests, NULL, NULL);
}
