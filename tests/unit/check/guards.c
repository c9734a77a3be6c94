// H4, C1 to C10: every rule of the checker, each with a broken plan that only
// this rule refuses.
#include "harness/test.h"
#include "harness/unit.h"
#include <inttypes.h>

static const char small[] = "target small { cores = 2 }\n";
static const char sticks[] = "target sticks { cores = 2 stick = 128 "
                             "sticks = yes grain = primitive }\n";
static const char three[] = "input x: f32[4]\ninput z: f32[4]\n"
                            "input q: f32[4]\n"
                            "y[i] = x[i] + 1.0\n"
                            "w[i] = y[i] * 2.0\n"
                            "z[i] <- w[i]\n"
                            "output w, z, q\n";
// Groups that cannot run tile by tile: one op needs another tile, one needs
// what is written later, one needs all parts of a sum.
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

// The parts of an op are const: to change one, copy it into the plan's arena.
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

TEST(every_guard_rejects)
{
    for (size_t i = 0; i < sizeof guards / sizeof *guards; i++) {
        const struct guard *g = &guards[i];
        const char *pins[] = {g->pin, NULL};
        dv_plan *plan = division_of(g->program, g->target, 0, (dv_divide)0,
                                    g->pin ? pins : NULL);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        {"H4 every guard rejects", every_guard_rejects, NULL, NULL, NULL},
    };
    return run_group(tests, NULL, NULL);
}
