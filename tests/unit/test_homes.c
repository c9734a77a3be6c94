// Homes in scratchpads, spoiled one thing at a time: whatever is wrong with a
// plan, dv_plan_check says so. Then the hazards that need more than a command.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/math.h"
#include "plan/traffic.h"
#include "run/data.h"
#include "run/sim_in.h"
#include "scratch/scratch.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// -- Plans with homes of every kind ----------------------------------------

typedef struct example {
    const char *name, *text;
    int64_t cores;
    double reserved; // share of the scratchpads, in percent; 0: as usual
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
                               "r[j] = relu(s[j])\n"
                               "output u, r\n";

// a idles while b to f are made: it leaves, and comes back.
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

// t is read in the loop and filled before it; w lives in one pass of it.
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

// The sum of parts is complete on the last core of each group of four.
static const char parts[] = "input x: f32[4, 512]\n"
                            "s[i] = sum[k] x[i,k]\n"
                            "r[i] = relu(s[i])\n"
                            "y[i,k] = x[i,k] - s[i]\n"
                            "output r, y\n";

static const char opaque[] = "input x: f16[64, 128]\n"
                             "t[i,j] = x[i,j] + 1.0\n"
                             "u[i,j] = t[i,j] * t[i,j]\n"
                             "extern g[i,j] = u[i,j] * 2.0\n"
                             "v[i,j] = g[i,j] + x[i,j]\n"
                             "w[i,j] = v[i,j] * v[i,j]\n"
                             "output w\n";

static const example examples[] = {
    {"softmax", softmax, 1, 0, {0}, DV_PLAN_OPTIONS_INIT},
    {"softmax, 4 cores", softmax, 4, 0, {0}, DV_PLAN_OPTIONS_INIT},
    {"two ways", two_ways, 4, 0, {"t:i=4", "u:i=4", "s:j=4"}, {.joint = "off"}},
    {"leaves", leaves, 1, 99, {0}, {.reorder = "off", .recompute = "off"}},
    {"kept too", kept_too, 2, 0, {0}, DV_PLAN_OPTIONS_INIT},
    {"loop", loop, 1, 0, {0}, DV_PLAN_OPTIONS_INIT},
    {"loop, 2 cores", loop, 2, 0, {0}, DV_PLAN_OPTIONS_INIT},
    {"parts", parts, 4, 0, {"s:k=4", "y:k=4", "r:i=1"}, {.joint = "off"}},
    {"opaque", opaque, 1, 0, {0}, DV_PLAN_OPTIONS_INIT},
    {"tenants", softmax, 1, 0, {0}, {.tenants = "many"}},
};

enum { N_EXAMPLES = sizeof examples / sizeof *examples };

static dv_program *parse(const char *text)
{
    dv_program *p = NULL;
    dv_diag *diag = dv_diag_create();
    if (dv_program_parse(&p, text, strlen(text), "t", NULL, 0, diag))
        fail_msg("%s", dv_diag_text(diag));
    dv_diag_destroy(diag);
    return p;
}

static dv_plan *make_plan(const example *e)
{
    dv_plan_options o = e->o;
    dv_diag *diag = dv_diag_create();
    dv_target *t = NULL;
    dv_plan *plan = NULL;
    dv_program *p = parse(e->text);
    assert_int_equal(dv_target_load(&t, "spyre", diag), DV_OK);
    if (e->reserved > 0)
        t->scratch_reserved_percent = e->reserved;
    o.cores = e->cores;
    o.pins = e->pins;
    while (e->pins[o.n_pins])
        o.n_pins++;
    if (dv_plan_create(&plan, p, t, &o, diag) || dv_plan_check(plan, diag))
        fail_msg("%s: %s", e->name, dv_diag_text(diag));
    assert_true(plan->scratch.n_homes > 0);
    dv_target_destroy(t);
    dv_program_destroy(p);
    dv_diag_destroy(diag);
    return plan;
}

// The same, from its text: planned once.
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

// As a plan in memory, and as one that is read: 1 when both are refused.
static int refused(dv_plan *plan)
{
    dv_plan *read = NULL;
    dv_status here = dv_scratch_verify(plan, NULL);
    if (here == DV_OK && dv_scratch_index(&plan->scratch, plan, &plan->arena))
        here = dv_plan_check(plan, NULL);
    char *text = dv_plan_text(plan);
    dv_status there =
        dv_plan_parse(&read, text, strlen(text), "p", NULL, NULL, NULL);
    if (there == DV_OK)
        there = dv_plan_check(read, NULL);
    dv_plan_destroy(read);
    dv_free(text);
    return (here == DV_E_CHECK || here == DV_E_SHAPE) &&
           (there == DV_E_CHECK || there == DV_E_SHAPE || there == DV_E_SYNTAX);
}

// What a spoiler has to work with.
typedef struct victim {
    dv_plan *plan;
    dv_scratch *s;
    dv_home *h;
    int32_t i;
} victim;

static int reads(const dv_plan *plan, int32_t op, int32_t tensor)
{
    const dv_op *o = &plan->ops->ops[op];
    for (int r = 0; r < o->n_reads; r++)
        if (o->reads[r].tensor == tensor)
            return 1;
    return 0;
}

static int32_t writer_of(const dv_plan *plan, int32_t tensor)
{
    for (int32_t i = 0; i < plan->ops->n_ops; i++)
        if (plan->ops->ops[i].write.tensor == tensor)
            return i;
    return -1;
}

static int32_t group_of(const dv_plan *plan, int32_t op)
{
    for (int32_t g = 0; g < plan->n_groups; g++)
        if (op < plan->groups[g].end_op)
            return g;
    return -1;
}

static int meet(const dv_home *a, const dv_home *b)
{
    return a->first_op < b->end_op && b->first_op < a->end_op;
}

// Another home that is alive while `h` is, and no relation of it; NULL: none.
static dv_home *neighbour(const victim *v)
{
    for (int32_t k = 0; k < v->s->n_homes; k++)
        if (k != v->i && meet(&v->s->homes[k], v->h) &&
            v->h->in_place_of != k && v->s->homes[k].in_place_of != v->i)
            return &v->s->homes[k];
    return NULL;
}

static void set_reader(victim *v, int32_t op)
{
    int32_t *readers = DV_NEW(&v->plan->arena, int32_t, v->h->n_readers + 1);
    if (v->h->n_readers)
        memcpy(readers, v->h->readers,
               (size_t)v->h->n_readers * sizeof *readers);
    readers[v->h->n_readers++] = op;
    v->h->readers = readers;
}

// -- Spoilers: 1 when there was something to spoil --------------------------

static int off_by_one(victim *v) // C11
{
    v->h->address++;
    return 1;
}

static int below_zero(victim *v)
{
    v->h->address = -128;
    return 1;
}

static int past_the_end(victim *v) // C11
{
    int64_t room = v->s->capacity_bytes - v->h->core_bytes;
    v->h->address = room / 128 * 128 + 128;
    return 1;
}

static int in_what_the_back_end_keeps(victim *v) // C11
{
    v->h->address = v->s->capacity_bytes / 128 * 128;
    v->s->capacity_bytes = v->plan->target.scratch_bytes;
    return 1;
}

static int smaller_scratchpads(victim *v) // C11
{
    v->plan->target.scratch_reserved_percent = 100;
    return 1;
}

static int less_capacity(victim *v) // C11
{
    v->s->capacity_bytes = v->h->address + v->h->core_bytes - 1;
    return 1;
}

static int too_small(victim *v) // C11
{
    v->h->core_bytes--;
    return 1;
}

static int ends_early(victim *v) // C14, C15
{
    v->h->end_op--;
    return 1;
}

static int ends_nowhere(victim *v)
{
    v->h->end_op = v->plan->ops->n_ops + 1;
    return 1;
}

static int begins_late(victim *v) // C14
{
    v->h->first_op++;
    return v->h->fill == DV_FILL_WRITTEN ||
           (v->h->n_readers > 0 && v->h->readers[0] < v->h->first_op);
}

// Before what it comes from is there.
static int begins_early(victim *v) // C15
{
    int32_t def = writer_of(v->plan, v->h->tensor);
    if (v->h->fill == DV_FILL_WRITTEN || def < 0)
        return 0;
    v->h->first_op = def;
    return 1;
}

static int read_before(victim *v) // C14
{
    for (int32_t op = 0; op < v->h->first_op; op++)
        if (reads(v->plan, op, v->h->tensor)) {
            set_reader(v, op);
            return 1;
        }
    return 0;
}

static int read_after(victim *v) // C14
{
    for (int32_t op = v->h->end_op; op < v->plan->ops->n_ops; op++)
        if (reads(v->plan, op, v->h->tensor)) {
            set_reader(v, op);
            return 1;
        }
    return 0;
}

static int read_by_a_stranger(victim *v)
{
    for (int32_t op = v->h->first_op; op < v->h->end_op; op++)
        if (!reads(v->plan, op, v->h->tensor)) {
            set_reader(v, op);
            return 1;
        }
    return 0;
}

// Read in the loop, but gone before its next pass. (H16)
static int gone_in_the_next_pass(victim *v) // C14
{
    const dv_program *p = v->plan->ops;
    for (int32_t k = 0; k < p->n_repeats; k++) {
        int32_t last = v->h->n_readers ? v->h->readers[v->h->n_readers - 1] : 0;
        if (v->h->first_op < p->repeats[k].first_op &&
            last + 1 < p->repeats[k].end_op && last >= p->repeats[k].first_op) {
            v->h->end_op = last + 1;
            return 1;
        }
    }
    return 0;
}

// Cut as by an op that cuts it in another way. (H10, H19)
static int cut_another_way(victim *v) // C11, C14
{
    dv_view a, b;
    if (v->h->fill == DV_FILL_WRITTEN || dv_home_view(&a, v->plan, v->h))
        return 0;
    for (int32_t op = 0; op < v->plan->ops->n_ops; op++) {
        int k = dv_access_of(&v->plan->ops->ops[op], v->h->tensor);
        if (k < 0 || dv_view_make(&b, v->plan, group_of(v->plan, op), op, k) ||
            dv_view_same(&a, &b))
            continue;
        v->h->as_op = op;
        return 1;
    }
    return 0;
}

static int cut_by_a_stranger(victim *v)
{
    for (int32_t op = 0; op < v->plan->ops->n_ops; op++)
        if (v->h->fill != DV_FILL_WRITTEN &&
            dv_access_of(&v->plan->ops->ops[op], v->h->tensor) < 0) {
            v->h->as_op = op;
            return 1;
        }
    return 0;
}

static int not_stored(victim *v) // C15
{
    int was = v->h->stored;
    v->h->stored = 0;
    return was;
}

// Whoever is no reader reads main memory, where it never was.
static int forgotten_reader(victim *v) // C15
{
    if (v->h->fill != DV_FILL_WRITTEN || v->h->stored || !v->h->n_readers)
        return 0;
    v->h->readers++;
    v->h->n_readers--;
    return 1;
}

static int no_hand_over(victim *v) // C12
{
    int was = v->h->in_place_of >= 0;
    v->h->in_place_of = -1;
    return was;
}

// In place of one that is read later. (H17)
static int place_still_in_use(victim *v) // C12
{
    dv_home *n = neighbour(v);
    if (v->h->fill != DV_FILL_WRITTEN || !n ||
        n->end_op == v->h->first_op + 1 || n->first_op >= v->h->first_op)
        return 0;
    v->h->in_place_of = (int32_t)(n - v->s->homes);
    v->h->address = n->address;
    return 1;
}

// In place of one that is smaller than it, or of another cut. (H17)
static int place_too_small(victim *v) // C12
{
    for (int32_t k = 0; k < v->s->n_homes; k++) {
        const dv_home *p = &v->s->homes[k];
        if (v->h->fill != DV_FILL_WRITTEN ||
            p->core_bytes >= v->h->core_bytes ||
            p->end_op != v->h->first_op + 1)
            continue;
        v->h->in_place_of = k;
        v->h->address = p->address;
        return 1;
    }
    return 0;
}

static int place_of_itself(victim *v)
{
    v->h->in_place_of = v->i;
    return 1;
}

static int place_of_nobody(victim *v)
{
    v->h->in_place_of = v->s->n_homes;
    return 1;
}

static int same_bytes(victim *v) // C12
{
    dv_home *n = neighbour(v);
    v->h->address = n ? n->address : 0;
    return n != NULL;
}

static int one_unit_shared(victim *v) // C12
{
    dv_home *n = neighbour(v);
    if (!n)
        return 0;
    v->h->address = (n->address + n->core_bytes - 1) / 128 * 128;
    return 1;
}

static int copied_from_itself(victim *v)
{
    v->h->from = v->i;
    return v->h->fill == DV_FILL_RING || v->h->fill == DV_FILL_MOVED;
}

static int copied_from_another(victim *v)
{
    v->h->from = (v->h->from + 1) % v->s->n_homes;
    return v->h->fill == DV_FILL_RING || v->h->fill == DV_FILL_MOVED;
}

// What another core has does not come by a move. (H5)
static int moved_not_copied(victim *v) // C15
{
    int ring = v->h->fill == DV_FILL_RING;
    v->h->fill = DV_FILL_MOVED;
    return ring;
}

static int loaded_not_copied(victim *v) // C15
{
    int copied = v->h->fill == DV_FILL_RING || v->h->fill == DV_FILL_MOVED;
    if (copied && v->s->homes[v->h->from].stored)
        return 0;
    v->h->fill = DV_FILL_LOADED;
    return copied;
}

static int loaded_not_written(victim *v) // C15
{
    int written = v->h->fill == DV_FILL_WRITTEN;
    v->h->fill = DV_FILL_LOADED;
    return written;
}

static int written_not_loaded(victim *v)
{
    int loaded = v->h->fill == DV_FILL_LOADED;
    v->h->fill = DV_FILL_WRITTEN;
    return loaded;
}

static int no_ring(victim *v) // C15
{
    v->plan->target.ring = 0;
    return v->h->fill == DV_FILL_RING;
}

// The same tensor written to two homes: only one gets it.
static int written_twice(victim *v) // C15
{
    dv_home *homes = DV_NEW(&v->plan->arena, dv_home, v->s->n_homes + 1);
    memcpy(homes, v->s->homes, (size_t)v->s->n_homes * sizeof *homes);
    homes[v->s->n_homes] = *v->h;
    homes[v->s->n_homes].in_place_of = -1;
    homes[v->s->n_homes].address =
        (v->s->capacity_bytes - v->h->core_bytes) / 128 * 128;
    v->s->homes = homes;
    v->s->n_homes++;
    return v->h->fill == DV_FILL_WRITTEN;
}

// Two take the place of one.
static int two_heirs(victim *v) // C12
{
    int was = v->h->in_place_of >= 0;
    written_twice(v);
    v->s->homes[v->s->n_homes - 1].in_place_of = v->h->in_place_of;
    v->s->homes[v->s->n_homes - 1].address = v->h->address;
    return was;
}

// The opaque op after it runs while it lives. (H15)
static int across_an_opaque_op(victim *v) // C13
{
    for (int32_t op = v->h->end_op; op < v->plan->ops->n_ops; op++)
        if (v->plan->ops->ops[op].is_extern) {
            v->h->end_op = op + 1;
            return 1;
        }
    return 0;
}

// Nothing outlives a group when others run in between. (H44)
static int many_tenants(victim *v) // C13
{
    v->s->tenants = 1;
    return group_of(v->plan, v->h->first_op) !=
           group_of(v->plan, v->h->end_op - 1);
}

// A home of a tensor that is updated.
static int of_an_updated_tensor(victim *v) // C13
{
    for (int32_t op = 0; op < v->plan->ops->n_ops; op++) {
        const dv_op *o = &v->plan->ops->ops[op];
        if (!o->update || !reads(v->plan, op, o->write.tensor))
            continue;
        written_twice(v);
        v->h = &v->s->homes[v->s->n_homes - 1];
        v->h->tensor = o->write.tensor;
        v->h->fill = DV_FILL_LOADED;
        v->h->as_op = v->h->first_op = op;
        v->h->end_op = op + 1;
        v->h->readers = &v->h->as_op;
        v->h->n_readers = 1;
        v->h->stored = 0;
        return 1;
    }
    return 0;
}

// Other cores have its parts than those who read them. (H1, H19)
static int turned_owners(victim *v) // C14, C15
{
    int32_t g = group_of(v->plan, v->h->as_op), last = 0;
    if (v->h->n_readers)
        last = group_of(v->plan, v->h->readers[v->h->n_readers - 1]);
    dv_group *group = &v->plan->groups[g];
    if (group->n_deals < 2 || last <= g)
        return 0;
    int64_t first = group->deals[0].core;
    for (int32_t d = 0; d + 1 < group->n_deals; d++)
        group->deals[d].core = group->deals[d + 1].core;
    group->deals[group->n_deals - 1].core = first;
    return 1;
}

// As many slices, of another variable. (H10)
static int turned_slices(victim *v) // C14, C15
{
    int32_t g = group_of(v->plan, v->h->as_op);
    const dv_op *o = &v->plan->ops->ops[v->h->as_op];
    int64_t *slices = v->plan->slices[v->h->as_op];
    if (v->plan->groups[g].n_deals < 2 || o->n_vars != 2 ||
        o->vars[0].end != o->vars[1].end || o->vars[0].reduce ||
        o->vars[1].reduce || v->h->n_readers == 0)
        return 0;
    int64_t swap = slices[0];
    slices[0] = slices[1];
    slices[1] = swap;
    return 1;
}

static const struct {
    const char *name;
    int (*spoil)(victim *v);
} spoilers[] = {
#define SPOILER(name)                                                          \
    {                                                                          \
#name, name                                                            \
    }
    SPOILER(off_by_one),
    SPOILER(below_zero),
    SPOILER(past_the_end),
    SPOILER(in_what_the_back_end_keeps),
    SPOILER(smaller_scratchpads),
    SPOILER(less_capacity),
    SPOILER(too_small),
    SPOILER(ends_early),
    SPOILER(ends_nowhere),
    SPOILER(begins_late),
    SPOILER(begins_early),
    SPOILER(read_before),
    SPOILER(read_after),
    SPOILER(read_by_a_stranger),
    SPOILER(gone_in_the_next_pass),
    SPOILER(cut_another_way),
    SPOILER(cut_by_a_stranger),
    SPOILER(not_stored),
    SPOILER(forgotten_reader),
    SPOILER(no_hand_over),
    SPOILER(place_still_in_use),
    SPOILER(place_too_small),
    SPOILER(place_of_itself),
    SPOILER(place_of_nobody),
    SPOILER(same_bytes),
    SPOILER(one_unit_shared),
    SPOILER(copied_from_itself),
    SPOILER(copied_from_another),
    SPOILER(moved_not_copied),
    SPOILER(loaded_not_copied),
    SPOILER(loaded_not_written),
    SPOILER(written_not_loaded),
    SPOILER(no_ring),
    SPOILER(written_twice),
    SPOILER(two_heirs),
    SPOILER(across_an_opaque_op),
    SPOILER(many_tenants),
    SPOILER(of_an_updated_tensor),
    SPOILER(turned_owners),
    SPOILER(turned_slices),
#undef SPOILER
};

// One spoiler on one home of a fresh plan. 1: it was refused; 0: nothing to
// spoil.
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

// H33: every guard refuses something, every spoiler finds something to spoil.
static void every_mutant_is_refused(void **unused)
{
    (void)unused;
    int total = 0;
    for (size_t k = 0; k < sizeof spoilers / sizeof *spoilers; k++) {
        int n = 0;
        for (int e = 0; e < N_EXAMPLES; e++) {
            dv_plan *plan = plan_of(&examples[e]);
            int32_t homes = plan->scratch.n_homes;
            dv_plan_destroy(plan);
            for (int32_t i = 0; i < homes; i++)
                n += attack(&examples[e], (int)k, i);
        }
        if (n == 0)
            fail_msg("%s found nothing to spoil", spoilers[k].name);
        total += n;
    }
    printf("%d mutants, all refused\n", total);
}

// The examples have what they are for.
static void every_kind_is_there(void **unused)
{
    (void)unused;
    int fills[4] = {0}, stored = 0, in_place = 0, reloaded = 0;
    for (int e = 0; e < N_EXAMPLES; e++) {
        dv_plan *plan = plan_of(&examples[e]);
        for (int32_t i = 0; i < plan->scratch.n_homes; i++) {
            const dv_home *h = &plan->scratch.homes[i];
            fills[h->fill]++;
            stored += h->stored;
            in_place += h->in_place_of >= 0;
            reloaded +=
                h->fill == DV_FILL_LOADED && writer_of(plan, h->tensor) >= 0;
        }
        dv_plan_destroy(plan);
    }
    assert_true(fills[DV_FILL_WRITTEN] && fills[DV_FILL_LOADED] &&
                fills[DV_FILL_RING]);
    assert_true(stored && in_place && reloaded);
}

// -- Moves -----------------------------------------------------------------

// e of the softmax on one core, moved before its last reader.
static dv_plan *moved_plan(int64_t to, int32_t source_end)
{
    dv_plan *plan = plan_of(&examples[0]);
    dv_scratch *s = &plan->scratch;
    victim v = {plan, s, NULL, -1};
    for (int32_t i = 0; i < s->n_homes; i++)
        if (s->homes[i].end_op - s->homes[i].first_op == 3)
            v.i = i; // e
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
    for (int32_t i = 0; i < s->n_homes; i++) // out of the way
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

// A move inside a core's scratchpad: to bytes of its own while the source is
// there, to any that are free when it goes, even those it leaves: it is cut
// alike and moved as a whole.
static void moves(void **unused)
{
    (void)unused;
    assert_int_equal(check_moved(65536, 4), DV_OK);
    assert_int_equal(check_moved(65536, 5), DV_OK);
    assert_int_equal(check_moved(65536, 3), DV_E_CHECK); // gone too early
    assert_int_equal(check_moved(128, 5), DV_E_CHECK);   // both are there
    assert_int_equal(check_moved(128, 4), DV_OK);        // over itself
}

// -- Hazards ---------------------------------------------------------------

static dv_plan *plan_on(const char *text, const char *target,
                        const char *const *pins, const dv_plan_options *how)
{
    dv_plan_options o = *how;
    dv_diag *diag = dv_diag_create();
    dv_target *t = NULL;
    dv_plan *plan = NULL;
    dv_program *p = parse(text);
    dv_status st = strchr(target, '{')
                       ? dv_target_parse(&t, target, strlen(target), "t", diag)
                       : dv_target_load(&t, target, diag);
    assert_int_equal(st, DV_OK);
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

static int32_t tensor_named(const dv_plan *plan, const char *name)
{
    for (int32_t i = 0; i < plan->ops->n_tensors; i++)
        if (!strcmp(plan->ops->tensors[i].name, name))
            return i;
    fail_msg("no tensor %s", name);
    return -1;
}

// H17: the result may not overwrite what is read at another place.
static void in_place_reads_where_it_writes(void **unused)
{
    (void)unused;
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
    assert_int_equal(s->n_homes, 2); // t and y, side by side
    assert_int_equal(s->homes[1].in_place_of, -1);
    s->homes[1].in_place_of = 0;
    s->homes[1].address = s->homes[0].address;
    assert_true(refused(plan));
    dv_plan_destroy(plan);
}

// The last home in place of the first: refused, and not what was planned.
static void assert_no_heir(const char *text, const char *const *pins)
{
    static const char rows[] =
        "target rows { cores = 4 scratch = 1MiB scratch_align = 64 "
        "grain = primitive memory_bandwidth = 1GB/s }\n";
    dv_plan_options o = {.joint = "off"};
    dv_plan *plan = plan_on(text, rows, pins, &o);
    dv_scratch *s = &plan->scratch;
    assert_int_equal(s->n_homes, 2);
    dv_home *p = &s->homes[0], *h = &s->homes[1];
    assert_int_equal(h->in_place_of, -1);
    assert_int_equal(h->fill, DV_FILL_WRITTEN);
    assert_int_equal(p->end_op, h->first_op + 1); // all else would do
    assert_true(h->core_bytes <= p->core_bytes);
    h->in_place_of = 0;
    h->address = p->address;
    assert_true(refused(plan));
    dv_plan_destroy(plan);
}

// H17: every core has all of x and a quarter of y; smaller elements lie in
// other places.
static void in_place_is_cut_and_laid_out_alike(void **unused)
{
    (void)unused;
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

// H6, H7: parts 1, 2, 4 and 8 arrive as 15, once, at every core that asks; the
// cores with earlier parts have nothing to give.
static void completed_sums_are_copied_once(void **unused)
{
    (void)unused;
    static const char text[] = "input x: i32[512]\n"
                               "s[] = sum[k] x[k]\n"
                               "y[k] = x[k] * s[]\n"
                               "output y\n";
    const char *pins[] = {"s:k=4", "y:k=4", NULL};
    dv_plan_options o = {.cores = 4, .joint = "off"};
    dv_plan *plan = plan_on(text, "spyre", pins, &o);
    int32_t sum = tensor_named(plan, "s"), x[512], y[512], rings = 0;
    for (int32_t i = 0; i < plan->scratch.n_homes; i++) {
        const dv_home *h = &plan->scratch.homes[i];
        int has = 0;
        for (int64_t c = 0; c < 4 && h->tensor == sum; c++)
            has += dv_home_elems(plan, h, c) > 0;
        rings += h->tensor == sum && h->fill == DV_FILL_RING;
        if (h->tensor == sum)
            assert_int_equal(has, h->fill == DV_FILL_WRITTEN ? 1 : 4);
    }
    assert_int_equal(rings, 1);
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
    const dv_moved *moved = dv_exec_moved(ex);
    // Three hand-overs of a part, three copies of the sum.
    int64_t part = dv_op_part_bytes(plan->ops, &plan->ops->ops[0]);
    assert_int_equal(moved->ring_bytes, 3 * part + 3 * 4);
    assert_int_equal(moved->read_elems, 512);
    assert_int_equal(moved->write_elems, 512);
    dv_exec_destroy(ex);
    dv_plan_destroy(plan);
}

// H5: one core has the scalar; four that read it there would read poison.
static void one_cores_scalar_is_not_all_cores(void **unused)
{
    (void)unused;
    static const char text[] = "input x: f16[1, 256]\n"
                               "s[i] = mean[j] x[i,j]\n"
                               "r[i] = rsqrt(s[i] + 1.5)\n"
                               "y[i,j] = x[i,j] * r[i]\n"
                               "output y\n";
    const char *pins[] = {"s:j=1", "y:j=4", NULL};
    dv_plan_options o = {.cores = 4, .joint = "off"};
    dv_plan *plan = plan_on(text, "spyre", pins, &o);
    dv_scratch *s = &plan->scratch;
    int32_t r = tensor_named(plan, "r");
    for (int32_t i = 0; i < s->n_homes; i++) {
        victim v = {plan, s, &s->homes[i], i};
        if (s->homes[i].tensor != r || s->homes[i].fill != DV_FILL_WRITTEN)
            continue;
        s->n_homes = i + 1; // no copies
        set_reader(&v, plan->ops->n_ops - 1);
        assert_true(refused(plan));
        dv_plan_destroy(plan);
        return;
    }
    fail_msg("r has no home");
}

// H13, H18, H22: what the writer's slices take on a core, whole sticks, padding
// and all; not what a reader takes, not what fills the last stick.
static void sizes_are_the_writers(void **unused)
{
    (void)unused;
    static const char text[] = "input x: f16[64, 67]\n"
                               "t[i,j] = exp(x[i,j])\n"
                               "u[i,j] = t[i,j] * 2.0\n"
                               "m[j] = max[i] t[i,j]\n"
                               "output u, m\n";
    const char *pins[] = {"t:i=4", "u:i=4", "m:i=1", "m:j=1", NULL};
    dv_plan_options o = {.cores = 4, .joint = "off"};
    dv_plan *plan = plan_on(text, "spyre", pins, &o);
    const dv_scratch *s = &plan->scratch;
    int32_t t = tensor_named(plan, "t");
    int seen = 0;
    for (int32_t i = 0; i < s->n_homes; i++)
        if (s->homes[i].tensor == t && s->homes[i].fill == DV_FILL_WRITTEN) {
            // 16 rows of two sticks; all of it would be 64 rows
            assert_int_equal(s->homes[i].core_bytes, 16 * 2 * 128);
            seen = 1;
        }
    assert_true(seen);
    dv_plan_destroy(plan);
}

// Every group once, on a machine with `spare` more bytes of scratchpad behind
// the last home.
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
    assert_int_equal(m->scratch_bytes, top + spare);
    dv_strips s = {.p = p, .data = data};
    s.buf = DV_NEW(arena, double, (slots + 3) * DV_STRIP);
    s.acc = (char *)s.buf + (size_t)slots * DV_STRIP * 8;
    dv_sim_load(m, data);
    for (int32_t g = 0; g < plan->n_groups; g++)
        assert_int_equal(dv_sim_group(m, &plan->groups[g], &s), DV_OK);
    return m;
}

// H14: nothing is written between homes or above them.
static void canaries(void **unused)
{
    (void)unused;
    for (int e = 0; e < N_EXAMPLES; e++) {
        dv_plan *plan = plan_of(&examples[e]);
        const dv_scratch *s = &plan->scratch;
        dv_arena arena = {0};
        dv_sim *m = simulate(plan, 4096, &arena);
        int written = 0;
        for (int64_t at = 0; at < m->scratch_bytes; at++) {
            int covered = 0;
            for (int32_t i = 0; i < s->n_homes; i++)
                covered |= s->homes[i].address <= at &&
                           at < s->homes[i].address + s->homes[i].core_bytes;
            for (int64_t c = 0; c < plan->target.cores; c++) {
                unsigned char byte = m->scratch[c * m->scratch_bytes + at];
                written += byte != DV_POISON;
                if (!covered && byte != DV_POISON)
                    fail_msg("%s: byte %d of core %d belongs to no home",
                             examples[e].name, (int)at, (int)c);
            }
        }
        assert_true(written > 0 || s->tenants); // whose groups wipe it all
        dv_sim_destroy(m);
        dv_arena_free(&arena);
        dv_plan_destroy(plan);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_is_there),
        cmocka_unit_test(every_mutant_is_refused),
        cmocka_unit_test(moves),
        cmocka_unit_test(in_place_reads_where_it_writes),
        cmocka_unit_test(in_place_is_cut_and_laid_out_alike),
        cmocka_unit_test(completed_sums_are_copied_once),
        cmocka_unit_test(one_cores_scalar_is_not_all_cores),
        cmocka_unit_test(sizes_are_the_writers),
        cmocka_unit_test(canaries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
