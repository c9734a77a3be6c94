// Hazards of such planners, by their numbers, that need more than a command to
// show: who computes what, element by element; every guard of the
// checker; what the machine's memory holds before it is written.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "divide/divide.h"
#include "run/data.h"
#include "run/sim.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// -- Plans and runs --------------------------------------------------------

static dv_program *parse(const char *text)
{
    dv_program *p = NULL;
    dv_diag *diag = dv_diag_create();
    if (dv_program_parse(&p, text, strlen(text), "t", NULL, 0, diag))
        fail_msg("%s", dv_diag_text(diag));
    dv_diag_destroy(diag);
    return p;
}

static const char small[] = "target small { cores = 2 }\n";
static const char sticks[] = "target sticks { cores = 2 stick = 128 "
                             "sticks = yes grain = primitive }\n";

// `target` is a name or a description; pins end with NULL.
static dv_plan *plan_of(const char *text, const char *target, int64_t cores,
                        const char *how, const char *const *pins)
{
    dv_plan_options o = DV_PLAN_OPTIONS_INIT;
    o.scratch = "off"; // the division alone: it must be right by itself
    dv_diag *diag = dv_diag_create();
    dv_target *t = NULL;
    dv_plan *plan = NULL;
    dv_program *p = parse(text);
    dv_status st = strchr(target, '{')
                       ? dv_target_parse(&t, target, strlen(target), "t", diag)
                       : dv_target_load(&t, target, diag);
    assert_int_equal(st, DV_OK);
    o.cores = cores;
    o.divide = how;
    o.pins = pins;
    while (pins && pins[o.n_pins])
        o.n_pins++;
    if (dv_plan_create(&plan, p, t, &o, diag) || dv_plan_check(plan, diag))
        fail_msg("%s", dv_diag_text(diag));
    dv_target_destroy(t);
    dv_program_destroy(p);
    dv_diag_destroy(diag);
    return plan;
}

static int32_t op_named(const dv_plan *plan, const char *name)
{
    for (int32_t i = 0; i < plan->ops->n_ops; i++)
        if (!strcmp(plan->ops->ops[i].name, name))
            return i;
    fail_msg("no op %s", name);
    return -1;
}

// A run of a plan with its data, by tensor.
typedef struct job {
    const dv_plan *plan;
    dv_exec *x;
    void **data;
} job;

static job make_job(const dv_plan *plan)
{
    const dv_program *p = plan->ops;
    job j = {.plan = plan,
             .data = calloc((size_t)p->n_tensors, sizeof(void *))};
    dv_diag *diag = dv_diag_create();
    if (dv_exec_create(&j.x, plan, diag) || dv_exec_use(j.x, DV_RUN_SIM, diag))
        fail_msg("%s", dv_diag_text(diag));
    for (int i = 0; i < p->n_tensors; i++) {
        const dv_tensor *t = &p->tensors[i];
        size_t bytes = (size_t)dv_tensor_bytes(t);
        j.data[i] = calloc(1, bytes);
        if (t->is_input)
            dv_fill(p, i, 7, -1, 1, j.data[i]);
        if (t->is_input || t->is_output)
            assert_int_equal(dv_exec_bind(j.x, t->name, j.data[i], bytes, diag),
                             DV_OK);
    }
    dv_diag_destroy(diag);
    return j;
}

static void end_job(job *j)
{
    for (int i = 0; i < j->plan->ops->n_tensors; i++)
        free(j->data[i]);
    free(j->data);
    dv_exec_destroy(j->x);
}

static void *data_of(const job *j, const char *name)
{
    const dv_program *p = j->plan->ops;
    for (int i = 0; i < p->n_tensors; i++)
        if (!strcmp(p->tensors[i].name, name))
            return j->data[i];
    fail_msg("no tensor %s", name);
    return NULL;
}

// -- H1, H2, H3, H19: owners -----------------------------------------------

// The tile of a point, from the slices alone: slice numbers are digits, the
// last variable's the lowest.
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

// The core that writes each element, and what an access moves on each core:
// point by point. `owner` may be NULL.
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

// The machine moved, op by op and core by core, what the table says.
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
            const dv_moved *m = dv_exec_moved_by(j->x, i, c);
            if (m->read_elems != reads[c] || m->write_elems != writes[c])
                fail_msg("op %s, core %d: the plan says %" PRId64 " read, "
                         "%" PRId64 " written, moved were %" PRId64
                         " and %" PRId64,
                         o->name, (int)c, reads[c], writes[c], m->read_elems,
                         m->write_elems);
        }
    }
}

// One tensor, users whose variables stand in other orders, sums over either.
static const char users[] = "input x: f16[96, 192]\n"
                            "a[i,j] = x[i,j] * 2.0\n"
                            "b[j,i] = a[i,j]\n"
                            "c[i,j] = a[i,j] + b[j,i]\n"
                            "d[j,i] = a[i,j] - b[j,i]\n"
                            "e[j] = sum[i] a[i,j]\n"
                            "f[i] = sum[j] a[i,j]\n"
                            "output c, d, e, f\n";

static void assert_same_results(const job *a, const job *b)
{
    const dv_program *p = a->plan->ops;
    for (int i = 0; i < p->n_tensors; i++)
        if (p->tensors[i].is_output)
            assert_memory_equal(a->data[i], b->data[i],
                                (size_t)dv_tensor_bytes(&p->tensors[i]));
}

// H1, H2: the deals say who computes what, for every order of variables. Other
// deals, other owners, the same numbers; nobody derives them anew.
static void deals_are_obeyed(void **unused)
{
    (void)unused;
    const char *pins[] = {"a:i=3", "a:j=2", "c:j=3", "d:i=2", "e:i=4", NULL};
    dv_plan *plan = plan_of(users, "spyre", 8, NULL, pins);
    dv_plan *other = plan_of(users, "spyre", 8, NULL, pins);
    job one = make_job(plan);
    assert_int_equal(dv_exec_run(one.x, NULL), DV_OK);
    assert_owners(&one);
    for (int turn = 1; turn < 8; turn++) {
        for (int32_t i = 0; i < other->n_groups; i++) // each op by its own turn
            for (int d = 0; d < other->groups[i].n_deals; d++)
                other->groups[i].deals[d].core =
                    (plan->groups[i].deals[d].core * 5 + turn * (i + 1)) % 8;
        job two = make_job(other);
        assert_int_equal(dv_exec_run(two.x, NULL), DV_OK);
        assert_owners(&two);
        assert_same_results(&one, &two);
        end_job(&two);
    }
    end_job(&one);
    dv_plan_destroy(plan);
    dv_plan_destroy(other);
}

// H2: an owner table that goes bad after it was checked is noticed where it is
// used.
static void bad_deals_do_not_run(void **unused)
{
    (void)unused;
    static const struct {
        dv_deal deal;
        int64_t slice;
    } cases[] = {{{2, 0, 1}, 2},  {{-1, 0, 1}, 2}, {{0, 2, 1}, 2},
                 {{0, -1, 1}, 2}, {{0, 0, 3}, 2},  {{1, 1, 1}, 2},
                 {{0, 0, 1}, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dv_plan *plan =
            plan_of("input x: f32[4]\ny[i] = x[i] + 1.0\n"
                    "output y\n",
                    small, 0, NULL, (const char *const[]){"y:i=2", NULL});
        job j = make_job(plan);
        assert_int_equal(dv_exec_run(j.x, NULL), DV_OK);
        plan->groups[0].deals[0] = cases[i].deal;
        plan->slices[0][0] = cases[i].slice;
        if (dv_exec_run(j.x, NULL) != DV_E_CHECK)
            fail_msg("case %d ran", (int)i);
        end_job(&j);
        dv_plan_destroy(plan);
    }
}

// H3: four cores write, eight read: each of the eight fetches what it needs.
static void more_readers_than_writers(void **unused)
{
    (void)unused;
    dv_plan *plan = plan_of(
        "input x: f16[64, 256]\n"
        "a[i,j] = relu(x[i,j])\n"
        "b[i,j] = exp(a[i,j])\noutput b\n",
        "spyre", 8, NULL,
        (const char *const[]){"a:i=4", "a:j=1", "b:i=8", "b:j=1", NULL});
    job j = make_job(plan);
    assert_int_equal(dv_exec_run(j.x, NULL), DV_OK);
    assert_owners(&j);
    for (int c = 0; c < 8; c++) {
        const dv_moved *a = dv_exec_moved_by(j.x, op_named(plan, "a"), c);
        const dv_moved *b = dv_exec_moved_by(j.x, op_named(plan, "b"), c);
        assert_int_equal(a->write_elems, c < 4 ? 16 * 256 : 0);
        assert_int_equal(b->read_elems, 8 * 256);
    }
    const uint16_t *b = data_of(&j, "b");
    for (int i = 0; i < 64 * 256; i++)
        assert_true(b[i] != 0xffff && b[i] >= 0x3c00); // exp of at least 0
    end_job(&j);
    dv_plan_destroy(plan);
}

// H19: 4 x 2 and 2 x 4 are both 8 slices of one square, of the same size, and
// give most elements to different cores; so do equal slices dealt in another
// order. Only the tables tell.
static void equal_counts_are_not_equal_owners(void **unused)
{
    (void)unused;
    static const char text[] = "input x: f16[256, 256]\n"
                               "a[i,j] = relu(x[i,j])\n"
                               "b[i,j] = abs(a[i,j])\noutput b\n";
    dv_plan *plan = plan_of(
        text, "spyre", 8, NULL,
        (const char *const[]){"a:i=4", "a:j=2", "b:i=2", "b:j=4", NULL});
    int32_t a = op_named(plan, "a"), b = op_named(plan, "b");
    int64_t *by_a = calloc(65536, sizeof *by_a);
    int64_t *by_b = calloc(65536, sizeof *by_b), moved[8] = {0}, differ = 0;
    count_access(plan, a, &plan->ops->ops[a].write, moved, by_a);
    count_access(plan, b, &plan->ops->ops[b].reads[0], moved, by_b);
    for (int i = 0; i < 65536; i++) {
        // i and j of the element; the first variable's slices run fastest.
        int64_t row = i / 256, col = i % 256;
        assert_int_equal(by_a[i], row / 64 + 4 * (col / 128));
        assert_int_equal(by_b[i], row / 128 + 2 * (col / 64));
        differ += by_a[i] != by_b[i];
    }
    assert_int_equal(differ, 65536 * 6 / 8);
    job j = make_job(plan);
    assert_int_equal(dv_exec_run(j.x, NULL), DV_OK);
    assert_owners(&j);
    end_job(&j);
    free(by_a);
    free(by_b);
    dv_plan_destroy(plan);
}

// -- H4: every guard of the checker ----------------------------------------

static const char three[] = "input x: f32[4]\ninput z: f32[4]\n"
                            "input q: f32[4]\n"
                            "y[i] = x[i] + 1.0\n"
                            "w[i] = y[i] * 2.0\n"
                            "z[i] <- w[i]\n"
                            "output w, z, q\n";
// Ops that cannot go tile by tile: one needs another tile, one what is written
// only later, one all parts of a sum.
static const char backwards[] = "input x: f32[4]\ny[i] = x[i] + 1.0\n"
                                "w[i] = y[3 - i] * 2.0\noutput w\n";
static const char later[] = "input x: f32[4]\ninput z: f32[4]\n"
                            "w[i] = z[i] + 1.0\nz[i] <- x[i]\n"
                            "output w, z\n";
static const char in_parts[] = "input x: f32[4]\ny[i] = x[i] + 1.0\n"
                               "s[] = sum[i] y[i]\noutput s\n";
static const char square[] = "input x: f16[128, 128]\ninput w: f16[128, 128]\n"
                             "y[i,j] = x[i,j] + w[i,j]\noutput y\n";
static const char product[] = "input a: f16[128, 192]\ninput b: f16[192, 256]\n"
                              "c[m,n] = sum[k] a[m,k] * b[k,n]\noutput c\n";
static const char loop[] = "input x: f32[4]\nrepeat 2 {\n"
                           "y[i] = x[i] + 1.0\n}\nw[i] = y[i] * 2.0\n"
                           "output w\n";
static const char opaque[] = "input x: f32[4]\nextern y[i] = x[i] + 1.0\n"
                             "w[i] = x[i] * 2.0\noutput w, y\n";
static const char scatter[] = "input x: f32[4]\ninput at: i32[4]\n"
                              "input y: f32[4]\ny[at[i]] <- x[i]\noutput y\n";
static const char box[] = "input x: f32[4, 4]\ny[i,j] = x[i,j]\noutput y\n";

static dv_op *op(dv_plan *p, int i)
{
    return &p->ops->ops[i];
}

// Ops are read-only to all but who spoils them: new parts in the plan's arena.
static dv_access *read_of(dv_plan *p, int i)
{
    dv_op *o = op(p, i);
    size_t n = (size_t)o->n_reads;
    dv_access *reads = DV_NEW(&p->arena, dv_access, n);
    memcpy(reads, o->reads, n * sizeof *reads);
    o->reads = reads;
    return reads;
}
static dv_index *index_of(dv_plan *p, dv_access *a)
{
    size_t n = (size_t)a->n_dims;
    dv_index *index = DV_NEW(&p->arena, dv_index, n);
    memcpy(index, a->index, n * sizeof *index);
    a->index = index;
    return index;
}
static void set_coefs(dv_plan *p, dv_access *a, int64_t to)
{
    dv_index *index = index_of(p, a);
    for (int d = 0; d < a->n_dims; d++) {
        int64_t *coef = DV_NEW(&p->arena, int64_t, DV_MAX_VARS);
        for (int v = 0; v < DV_MAX_VARS; v++)
            coef[v] = to;
        index[d].coef = coef;
    }
}
static void set_ends(dv_plan *p, int64_t to)
{
    dv_op *o = op(p, 0);
    size_t n = (size_t)o->n_vars;
    dv_var *vars = DV_NEW(&p->arena, dv_var, n);
    memcpy(vars, o->vars, n * sizeof *vars);
    for (size_t v = 0; v < n; v++)
        vars[v].end = to;
    o->vars = vars;
}

static void no_program(dv_plan *p)
{
    p->facts &= ~(uint32_t)DV_FACT_LOWERED;
}
static void no_groups(dv_plan *p)
{
    p->facts &= ~(uint32_t)DV_FACT_GROUPED;
}
static void no_layout(dv_plan *p)
{
    p->facts &= ~(uint32_t)DV_FACT_LAID_OUT;
}
static void no_layout_spans(dv_plan *p)
{
    no_layout(p);
    p->target.sticks = 0;
    p->target.span_limit_bytes = 1 << 20;
}
static void other_order(dv_plan *p)
{
    dv_group g = p->groups[0];
    p->groups[0] = p->groups[1];
    p->groups[1] = g;
}
static void last_missing(dv_plan *p)
{
    p->n_groups--;
}
static void core_above(dv_plan *p)
{
    p->groups[0].deals[1].core = 2;
}
static void core_below(dv_plan *p)
{
    p->groups[0].deals[1].core = -1;
}
static void tile_undealt(dv_plan *p)
{
    p->groups[0].deals[0].first_tile = 1;
    p->groups[0].deals[1].first_tile = 2;
}
static void tile_dealt_twice(dv_plan *p)
{
    p->groups[0].deals[1].first_tile = 0;
}
static void deal_of_none(dv_plan *p)
{
    p->groups[0].deals[1].n_tiles = 0;
}
static void deal_overflows(dv_plan *p)
{
    p->groups[0].deals[1].n_tiles = INT64_MAX;
}
static void deal_too_short(dv_plan *p)
{
    p->groups[0].n_deals--;
}
static void read_beyond(dv_plan *p)
{
    index_of(p, read_of(p, 0))->base = 1;
}
static void read_before(dv_plan *p)
{
    index_of(p, read_of(p, 0))->base = -1;
}
static void write_beyond(dv_plan *p)
{
    index_of(p, &op(p, 0)->write)->base = 1;
}
static void index_overflows(dv_plan *p)
{
    set_coefs(p, read_of(p, 0), INT64_MAX / 2);
}
static void write_one_place(dv_plan *p)
{
    set_coefs(p, &op(p, 0)->write, 0);
}
static void write_less(dv_plan *p)
{
    set_ends(p, 3);
}
static void define_somewhere(dv_plan *p)
{
    index_of(p, &op(p, 1)->write)->via = 0;
}
static void points_overflow(dv_plan *p)
{
    set_ends(p, (int64_t)1 << 62);
    p->slices[0][0] = p->slices[0][1] = (int64_t)1 << 62;
    set_coefs(p, &op(p, 0)->write, 0);
    set_coefs(p, read_of(p, 0), 0);
}
static void read_unwritten(dv_plan *p)
{
    read_of(p, 0)->tensor = op(p, 1)->write.tensor;
}
static void update_unwritten(dv_plan *p)
{
    p->ops->tensors[op(p, 2)->write.tensor].is_input = 0;
}
static void define_twice(dv_plan *p)
{
    op(p, 1)->write.tensor = op(p, 0)->write.tensor;
}
static void output_unwritten(dv_plan *p)
{
    p->ops->tensors[2].is_input = 0;
}
static void loop_of_zero(dv_plan *p)
{
    p->ops->repeats[0].times = 0;
}
static void slice_of_none(dv_plan *p)
{
    p->slices[0][0] = 0;
}
static void slice_too_long(dv_plan *p)
{
    p->slices[0][0] = 5;
}
static void more_tiles(dv_plan *p)
{
    p->slices[0][0] = 1;
}
static void join_first_two(dv_plan *p)
{
    p->groups[0].end_op = 2;
    memmove(&p->groups[1], &p->groups[2],
            (size_t)(p->n_groups - 2) * sizeof *p->groups);
    p->n_groups--;
}
static void cut_in_two(dv_plan *p)
{
    p->slices[0][0] = 2;
    p->groups[0].n_tiles = p->groups[0].deals[0].n_tiles = 2;
}
static void other_lanes(dv_plan *p)
{
    p->layouts[op(p, 0)->reads[1].tensor].stick_dim = 0;
}
static void lanes_of_result(dv_plan *p)
{
    p->layouts[op(p, 0)->write.tensor].stick_dim = 0;
}
static void lanes_of_factor(dv_plan *p)
{
    p->layouts[op(p, 0)->reads[0].tensor].stick_dim = 0;
}
static void tight_span(dv_plan *p)
{
    p->target.span_limit_bytes = 128;
}
static void too_many_tiles(dv_plan *p)
{
    tight_span(p);
    p->slices[0][0] = 1;
    p->groups[0].n_tiles = 1 << 21;
    p->groups[0].deals[0] = (dv_deal){0, 0, 1 << 21};
    p->groups[0].n_deals = 1;
}

static const struct guard {
    const char *rule;
    void (*spoil)(dv_plan *);
    const char *program, *target, *pin, *says;
} guards[] = {
    {"whole", no_program, three, small, NULL, "section program is missing"},
    {"whole", no_groups, three, small, NULL, "section groups is missing"},
    {"whole", no_layout, square, sticks, NULL, "section layout is missing"},
    {"whole", no_layout_spans, three, small, NULL, "layout is missing"},
    {"C1", other_order, three, small, NULL, "starts with op 1, op 0 is next"},
    {"C1", last_missing, three, small, NULL, "is in no group"},
    {"C2", core_above, three, small, "y:i=2", "uses core 2"},
    {"C2", core_below, three, small, "y:i=2", "uses core -1"},
    {"C2", tile_undealt, three, small, "y:i=2", "tile 0 is dealt to no core"},
    {"C2", tile_dealt_twice, three, small, "y:i=2", "tile 0 is dealt twice"},
    {"C2", deal_of_none, three, small, "y:i=2", "deals 0 tiles"},
    {"C2", deal_overflows, three, small, "y:i=2", "deals 922337"},
    {"C2", deal_too_short, three, small, "y:i=2", "has 2 tiles, 1 are dealt"},
    {"C3", read_beyond, three, small, NULL, "touches 1..5 in dim 0 of x"},
    {"C3", read_before, three, small, NULL, "touches -1..3 in dim 0 of x"},
    {"C3", write_beyond, three, small, NULL, "touches 1..5 in dim 0 of y"},
    {"C3", index_overflows, three, small, NULL, "an index of x overflows"},
    {"C4", write_one_place, three, small, NULL, "each element of y at most"},
    {"C4", write_less, three, small, "y:i=2", "defines 3 of the 4 elements"},
    {"C4", define_somewhere, three, small, "w:i=1", "defines w through an"},
    {"C4", points_overflow, box, "target one { cores = 1 }", NULL,
     "more than 2^63 - 1 points"},
    {"C5", read_unwritten, three, small, NULL, "op y needs w"},
    {"C5", update_unwritten, three, small, NULL, "op z needs z"},
    {"C5", define_twice, three, small, NULL, "defines y a second time"},
    {"C5", output_unwritten, three, small, NULL, "output q is never written"},
    {"C5", loop_of_zero, loop, small, NULL, "op w needs y"},
    {"C6", slice_of_none, three, small, NULL, "cannot be sliced by 0"},
    {"C6", slice_too_long, three, small, NULL, "cannot be sliced by 5"},
    {"C6", more_tiles, three, small, "y:i=2", "makes 4 tiles"},
    {"C7", join_first_two, loop, small, NULL, "crosses the edge of a repeat"},
    {"C7", join_first_two, opaque, small, NULL, "y cannot be divided, but sh"},
    {"C7", cut_in_two, opaque, small, NULL, "y cannot be divided, but group"},
    {"C7", cut_in_two, scatter, small, NULL, "y cannot be divided, but group"},
    {"C8", join_first_two, backwards, small, "y:i=2", "op w touches y, which"},
    {"C8", join_first_two, later, small, "w:i=2", "op w touches z, which op z"},
    {"C8", join_first_two, in_parts, small, "s:i=2", "op s touches y, which"},
    {"C9", other_lanes, square, sticks, NULL, "the lanes of y run along j"},
    {"C9", lanes_of_result, square, sticks, NULL, "the lanes of y run along i"},
    {"C9", lanes_of_factor, product, sticks, NULL, "the lanes of c run along"},
    {"C9", lanes_of_result, product, sticks, NULL, "the lanes of c run along"},
    {"C10", tight_span, square, sticks, NULL, "the limit is 128"},
    {"C10", too_many_tiles, "input x: f32[2097152]\ny[i] = x[i]\noutput y\n",
     small, NULL, "too many to show"},
};

static void every_guard_rejects(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof guards / sizeof *guards; i++) {
        const struct guard *g = &guards[i];
        const char *pins[] = {g->pin, NULL};
        dv_plan *plan =
            plan_of(g->program, g->target, 0, NULL, g->pin ? pins : NULL);
        dv_diag *diag = dv_diag_create();
        g->spoil(plan);
        dv_status st = dv_plan_check(plan, diag);
        if (st != DV_E_CHECK || !strstr(dv_diag_text(diag), g->says))
            fail_msg("guard %d of %s: expected '%s', got %s '%s'", (int)i,
                     g->rule, g->says, dv_status_name(st), dv_diag_text(diag));
        dv_diag_destroy(diag);
        dv_plan_destroy(plan);
    }
}

// -- H5, H13: memory that nobody wrote -------------------------------------

// What a run has not written is poison, padding included, and comes out as
// nan. A plan that leaves a hole cannot pass by luck.
static void memory_is_poisoned(void **unused)
{
    (void)unused;
    dv_plan *plan = plan_of("input x: f16[5, 65]\ny[i,j] = x[i,j] * 0.0\n"
                            "output y\n",
                            "spyre", 4, NULL, NULL);
    dv_sim *m = NULL;
    uint16_t x[325], y[325];
    void *host[2] = {x, y};
    memset(x, 0, sizeof x);
    memset(y, 0, sizeof y);
    assert_int_equal(dv_sim_create(&m, plan, NULL, NULL), DV_OK);
    dv_sim_load(m, host);
    dv_sim_store(m, host); // nothing has run
    for (int i = 0; i < 325; i++)
        assert_int_equal(y[i], 0xffff);
    dv_sim_destroy(m);
    // The footprint is what is stored: 2 sticks x 5 rows x 64 elements.
    assert_int_equal(plan->layouts[0].bytes, 2 * 5 * 64 * 2);
    assert_int_equal(plan->layouts[0].n_elems, 640);
    dv_plan_destroy(plan);
}

// H13: a layout that does not hold its tensor, or says so wrongly, is found.
static void layouts_cover(void **unused)
{
    (void)unused;
    for (int i = 0; i < 6; i++) {
        dv_plan *plan = plan_of("input x: f16[5, 65]\ny[i,j] = x[i,j] * 0.5\n"
                                "output y\n",
                                "spyre", 4, NULL, NULL);
        dv_layout *l = &plan->layouts[0];
        assert_int_equal(dv_layout_verify(plan, NULL), DV_OK);
        switch (i) {
        case 0: // one stick of two, and bytes to match
            l->size[0] = 1;
            l->n_elems /= 2;
            l->bytes /= 2;
            break;
        case 1:
            l->bytes = 5 * 65 * 2; // of the elements, not of the sticks
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

// Each quarter of k brings 1, 2, 4 or 8 and every subset has another sum: 15
// is all of them, once. Read by every core afterwards, whoever owns the parts.
static void contributions_arrive_once(void **unused)
{
    (void)unused;
    static const char text[] = "input x: i32[128]\ninput z: i32[256]\n"
                               "input a: f16[64, 256]\ninput b: f16[256, 64]\n"
                               "s[] = sum[k] x[k]\n"
                               "t[i] = s[] + z[i]\n"
                               "c[m,n] = sum[k] a[m,k] * b[k,n]\n"
                               "output s, t, c\n";
    const char *pins[] = {"s:k=4", "t:i=4", "c:k=4", "c:m=2", NULL};
    static const uint16_t f16[] = {0x3c00, 0x4000, 0x4400, 0x4800}; // 1 2 4 8
    dv_plan *plan = plan_of(text, "spyre", 8, NULL, pins);
    dv_group *g = &plan->groups[op_named(plan, "s")];
    assert_int_equal(g->n_deals, 4);
    for (int turn = 0; turn < 8; turn++) {
        for (int d = 0; d < 4; d++)
            g->deals[d].core = (d * (turn & 1 ? 7 : 3) + turn) % 8;
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
        assert_int_equal(dv_exec_run(j.x, NULL), DV_OK);
        assert_int_equal(*(int32_t *)data_of(&j, "s"), 15);
        for (int i = 0; i < 256; i++)
            assert_int_equal(((int32_t *)data_of(&j, "t"))[i], 15);
        for (int i = 0; i < 64 * 64; i++)
            assert_int_equal(((uint16_t *)data_of(&j, "c"))[i], 0x4b80);
        assert_owners(&j);
        end_job(&j);
    }
    dv_plan_destroy(plan);
}

// -- H32, H38: nothing is copied by position -------------------------------

// Ops that are alike but for one thing, each with the pins of the rest left
// out. Dividing them together gives what dividing each alone does.
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

// Sticks are chosen over the whole program, so they may differ.
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

static void twins_are_divided_alone(void **unused)
{
    (void)unused;
    static const char *const how[] = {"best", "seed"};
    for (int m = 0; m < 4; m++) {
        const char *target = m < 2 ? "spyre" : "wormhole";
        int compared = 0;
        dv_text all = {0};
        dv_put(&all, "%s", alike_inputs);
        for (int i = 0; i < N_ALIKE; i++)
            dv_put(&all, "y%d%s\n", i, alike[i] + 1);
        for (int i = 0; i < N_ALIKE; i++)
            dv_put(&all, "output y%d\n", i);
        dv_plan *plan = plan_of(all.at, target, 0, how[m % 2], NULL);
        for (int i = 0; i < N_ALIKE; i++) {
            char text[400], name[16];
            snprintf(text, sizeof text, "%sy%d%s\noutput y%d\n", alike_inputs,
                     i, alike[i] + 1, i);
            snprintf(name, sizeof name, "y%d", i);
            dv_plan *alone = plan_of(text, target, 0, how[m % 2], NULL);
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

// H38: what was decided for a pinned op is not known for its twin, nor for
// another number of cores.
static void pins_stay_with_their_op(void **unused)
{
    (void)unused;
    static const char text[] = "input x: f16[64, 256]\n"
                               "a[i,j] = relu(x[i,j])\n"
                               "b[i,j] = relu(x[i,j])\n"
                               "c[i,j] = relu(x[i,j])\noutput a, b, c\n";
    static const char *const which[] = {"a:i=4", "b:i=4", "c:i=4"};
    for (int k = 0; k < 3; k++)
        for (int cores = 8; cores <= 32; cores *= 4) {
            dv_plan *free = plan_of(text, "spyre", cores, NULL, NULL);
            dv_plan *plan = plan_of(text, "spyre", cores, NULL,
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

// What a plan says an op costs is what the formula says of its slices.
static void costs_are_reproduced(void **unused)
{
    (void)unused;
    static const char *const how[] = {"best", "seed", "seed+cost"};
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
        dv_plan *plan = plan_of(m ? without : text, "spyre", 0, how[m], NULL);
        for (int32_t i = 0; i < plan->ops->n_ops; i++) {
            dv_arena arena = {0};
            dv_space *s = DV_NEW(&arena, dv_space, 1);
            dv_splits d;
            dv_space_make(s, &plan->target, plan->ops, &plan->ops->ops[i],
                          plan->layouts, &arena);
            for (int v = 0; v < s->n_vars; v++)
                d.n[v] = (s->extent[v] + plan->slices[i][v] - 1) /
                         plan->slices[i][v];
            int64_t tiles = dv_plan_n_tiles(plan, i);
            double rounds =
                (double)((tiles + plan->target.cores - 1) / plan->target.cores);
            double want = rounds * dv_divide_cost(s, &plan->target, &d);
            const dv_division *x = &plan->divisions[i];
            double parts =
                x->compute_us > x->memory_us ? x->compute_us : x->memory_us;
            parts = rounds * (parts + x->combine_us);
            if (x->cost_us != want || x->cost_us > parts * (1 + 1e-12) ||
                x->cost_us < parts * (1 - 1e-12))
                fail_msg("%s, %s: says %g, costs %g, made of %g", how[m],
                         plan->ops->ops[i].name, x->cost_us, want, parts);
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
        {"H4 every guard rejects", every_guard_rejects, NULL, NULL, NULL},
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
    return cmocka_run_group_tests(tests, NULL, NULL);
}
