// Chooses the divisions of all ops at once, and which tensors stay on the
// cores, with dv_choose (divvy/choose.h). The other searches change one op or
// one chain of ops at a time.
//
// A node is an op; a strategy is one of its divisions, and whether its result
// stays on the cores until the last reader. A strategy costs the time of the op
// without what other ops hand to it, and the write of a result that does not
// stay. An edge is a read of what another op has written: it costs nothing if
// every core finds there what it needs, else the passing over the ring or the
// transfer through main memory. A result that stays uses scratchpad in the
// steps between, of which there is only so much.
//
//   d = x - m     d cut by rows and stays     usage 64 KiB at ops 4 and 5
//   e = exp(d)    cut by rows: 0 us           cut by columns: 1.3 us
//
// That is simpler than the price of plans, in which computing and transfers
// overlap, copies have limits, and addresses must be found. So the answer is
// only a candidate: the plan is made from it and kept if it is cheaper.
#include "base/math.h"
#include "base/stop.h"
#include "divvy/choose.h"
#include "plan/price.h"
#include "plan/traffic.h"
#include "joint/joint.h"
#include <math.h>
#include <string.h>

// An op has up to MAX_DIVISIONS candidate divisions, and its current one. Pairs
// of divisions of producers and readers are limited to MAX_PAIRS, where equal
// ops count once. Costs are in units of 2^-SHIFT microseconds.
enum { MAX_DIVISIONS = 12, MAX_PAIRS = 20000, SHIFT = 20 };
#define BUDGET (INT64_C(1) << 18)

typedef struct option {
    int64_t slices[DV_MAX_VARS];
    dv_group group;
} option;

typedef struct menu {
    option list[MAX_DIVISIONS + 1]; // the first one is the op's in the plan
    int32_t n;
    int may_stay;
} menu;

typedef struct together {
    dv_plan *plan;
    const dv_scratch_rules *rules;
    dv_divide_space *const *spaces;
    dv_arena *arena;
    dv_diag *diag;
    menu *menus;           // per op
    int32_t *def, *reader; // per tensor: the op that writes it, the last reader
    dv_choose_node *nodes; // per op
    dv_choose_edge *edges;
    int32_t *reads; // per edge: number of the read of its second op
    int32_t n_edges;
    int64_t pairs;
} together;

static int64_t cost_of(double us)
{
    return (int64_t)ldexp(us > 0 ? us : 0, SHIFT);
}

static void set_option(const together *x, int32_t op, int32_t k)
{
    const option *o = &x->menus[op].list[k];
    memcpy(x->plan->slices[op], o->slices,
           (size_t)x->plan->ops->ops[op].n_vars * sizeof *o->slices);
    x->plan->groups[op] = o->group;
}

static void note_option(const together *x, int32_t op)
{
    menu *m = &x->menus[op];
    option *o = &m->list[m->n++];
    memcpy(o->slices, x->plan->slices[op],
           (size_t)x->plan->ops->ops[op].n_vars * sizeof *o->slices);
    o->group = x->plan->groups[op];
}

// Lists the candidate divisions of an op, beginning with its current one, which
// the plan keeps.
static dv_status list_options(const together *x, int32_t op)
{
    dv_plan *plan = x->plan;
    const dv_divide_space *s = x->spaces[op];
    dv_divide_request r = {.cores = plan->target.cores,
                           .span_limit_bytes = plan->target.span_limit_bytes};
    dv_splits list[MAX_DIVISIONS];
    int32_t like = plan->divisions[op].like;
    note_option(x, op);
    if (!dv_joint_may_cut(plan, op))
        return DV_OK;
    if (like < op && dv_joint_may_cut(plan, like)) {
        menu *m = &x->menus[op];
        const menu *same = &x->menus[like];
        m->n = same->n;
        memcpy(m->list + 1, same->list + 1,
               (size_t)(m->n - 1) * sizeof *m->list);
        for (int32_t k = 1; k < m->n; k++) {
            m->list[k].group.first_op = op;
            m->list[k].group.end_op = op + 1;
        }
        return DV_OK;
    }
    int n = dv_divide_menu(list, MAX_DIVISIONS, s, &plan->target, &r);
    for (int k = 0; k < n; k++) {
        for (int v = 0; v < s->n_vars; v++)
            plan->slices[op][v] =
                dv_min_i64(dv_ceil_div(s->units[v], list[k].n[v]) * s->eps[v],
                           s->extent[v]);
        plan->groups[op].n_tiles = dv_plan_n_tiles(plan, op);
        DV_TRY(dv_plan_deal(plan, op, &plan->groups[op], x->diag));
        note_option(x, op);
    }
    set_option(x, op, 0);
    return DV_OK;
}

// -- Costs --------------------------------------------------------------------

static double memory_us(const together *x, double bytes)
{
    return 1e6 * bytes / dv_cost_shared_rate(&x->plan->target);
}

// Returns the time of access k of an op, with its current division, if the
// whole operand is transferred from or to main memory.
static double access_us(const together *x, int32_t op, int k)
{
    dv_splits d;
    dv_joint_splits(x->plan, op, &d);
    return memory_us(x, dv_divide_transferred_by_all(x->spaces[op], k, &d));
}

// Returns the op that writes, before op `op`, the tensor of its read r, or -1.
static int32_t giver_of(const together *x, int32_t op, int r)
{
    int32_t from = x->def[x->plan->ops->ops[op].reads[r].tensor];
    return from < op ? from : -1;
}

// Returns the predicted time of an op, not counting reads of other ops' results
// or the write of its own.
static double own_us(const together *x, int32_t op)
{
    const dv_plan *plan = x->plan;
    const dv_op *o = &plan->ops->ops[op];
    const dv_divide_space *s = x->spaces[op];
    dv_splits d;
    dv_joint_splits(plan, op, &d);
    dv_cost_work w = dv_divide_work(s, &plan->target, &d);
    double rounds =
        (double)dv_ceil_div(dv_splits_cores(s, &d), plan->target.cores);
    for (int r = 0; r < o->n_reads; r++)
        if (giver_of(x, op, r) >= 0)
            dv_joint_drop_traffic(&w, s, r, &d, rounds);
    dv_joint_drop_traffic(&w, s, o->n_reads, &d, rounds);
    return rounds * dv_cost_us(&plan->target, &w);
}

// Returns the bytes per core of an op's result, with its current division; -1
// if the result cannot stay in the scratchpads.
static int64_t stay_bytes(const together *x, int32_t op)
{
    const dv_op *o = &x->plan->ops->ops[op];
    dv_view v;
    if (dv_view_make_whole(&v, x->plan, op, o->n_reads))
        return -1;
    int64_t bytes = dv_view_bytes(&v, &x->plan->layouts[o->write.tensor]);
    return bytes <= x->plan->scratch.capacity_bytes ? bytes : -1;
}

// Returns whether two ops have the same candidate divisions.
static int same_menus(const together *x, int32_t a, int32_t b)
{
    const dv_division *d = x->plan->divisions;
    const menu *p = &x->menus[a], *q = &x->menus[b];
    return a == b ||
           (!x->plan->ops->ops[a].is_extern &&
            !x->plan->ops->ops[b].is_extern && d[a].like == d[b].like &&
            p->n == q->n && p->may_stay == q->may_stay &&
            dv_same_deals(&p->list[0].group, &q->list[0].group) &&
            !memcmp(p->list[0].slices, q->list[0].slices,
                    sizeof p->list[0].slices));
}

// Returns an earlier op whose strategies have the same costs, so that they can
// be shared, or -1.
static int32_t same_before(const together *x, int32_t op)
{
    const dv_op *ops = x->plan->ops->ops;
    const dv_tensor *tensors = x->plan->ops->tensors;
    int32_t like = x->plan->divisions[op].like;
    if (ops[op].is_extern || like >= op || !same_menus(x, like, op) ||
        tensors[ops[op].write.tensor].is_output !=
            tensors[ops[like].write.tensor].is_output)
        return -1;
    for (int r = 0; r < ops[op].n_reads; r++)
        if ((giver_of(x, op, r) < 0) != (giver_of(x, like, r) < 0))
            return -1;
    return like;
}

// Sets the cost and memory usage of an op's strategies: strategy 2 * k is
// division k with its result in main memory, 2 * k + 1 with its result kept in
// the scratchpads.
static int price_options(const together *x, int32_t op, dv_choose_node *node)
{
    const dv_op *o = &x->plan->ops->ops[op];
    const menu *m = &x->menus[op];
    int64_t *costs = DV_NEW(x->arena, int64_t, 2 * m->n);
    int64_t *usages = DV_NEW(x->arena, int64_t, 2 * m->n);
    int is_output = x->plan->ops->tensors[o->write.tensor].is_output;
    if (!costs || !usages)
        return 0;
    for (int32_t k = 0; k < m->n; k++) {
        set_option(x, op, k);
        int64_t stays = m->may_stay ? stay_bytes(x, op) : -1;
        double us = o->is_extern ? 0 : own_us(x, op);
        double write = o->is_extern ? 0 : access_us(x, op, o->n_reads);
        costs[2 * k] = cost_of(us + write);
        costs[2 * k + 1] = stays < 0 ? DV_CHOOSE_FORBIDDEN
                                     : cost_of(us + (is_output ? write : 0));
        usages[2 * k + 1] = stays < 0 ? 0 : stays;
    }
    set_option(x, op, 0);
    node->costs = costs;
    node->usages = usages;
    return 1;
}

static dv_status make_node(together *x, int32_t op)
{
    const menu *m = &x->menus[op];
    int32_t same = same_before(x, op), tensor;
    dv_choose_node *node = &x->nodes[op];
    tensor = x->plan->ops->ops[op].write.tensor;
    node->n_strategies = 2 * m->n;
    node->start = op;
    node->end = (int64_t)(m->may_stay ? x->reader[tensor] : op) + 1;
    if (same < 0)
        return price_options(x, op, node) ? DV_OK : dv_nomem(x->diag);
    node->costs = x->nodes[same].costs;
    node->usages = x->nodes[same].usages;
    return DV_OK;
}

// A producer or a reader of a tensor with one of its divisions: which core has
// which part, and the time of the transfer from or to main memory.
typedef struct side {
    dv_view view;
    int has_view;
    double us;
    double ring_us; // how long the ring passes it to a reader; INFINITY: never
} side;

static void make_side(const together *x, int32_t op, int k, int32_t choice,
                      side *to)
{
    const dv_plan *plan = x->plan;
    const dv_op *o = &plan->ops->ops[op];
    set_option(x, op, choice);
    to->has_view =
        !dv_view_make_part(&to->view, plan, op, k) && !to->view.group->loops;
    // The op's current division changes before the view is used, so let it
    // refer to the deal of this division.
    to->view.group = &x->menus[op].list[choice].group;
    to->us = o->is_extern ? 0 : access_us(x, op, k);
    to->ring_us = INFINITY;
    if (!o->is_extern && k < o->n_reads && dv_can_pass(plan, x->rules, op, k)) {
        double bytes = (double)dv_received_bytes(plan, op, k);
        double us = dv_cost_ring_us(&plan->target, bytes);
        to->ring_us = us > 0 ? us : memory_us(x, bytes);
    }
    set_option(x, op, 0);
}

// Returns the time in which a reader gets a tensor that its writer keeps in the
// scratchpads: none, over the ring, or through main memory.
static double handed_us(const side *giver, const side *reader)
{
    if (giver->has_view && reader->has_view) {
        if (dv_view_holds(&giver->view, &reader->view))
            return 0;
        if (reader->ring_us < INFINITY)
            return reader->ring_us;
    }
    return giver->us + reader->us;
}

static int64_t *make_table(together *x, int32_t from, int32_t op, int r)
{
    const menu *a = &x->menus[from], *b = &x->menus[op];
    int64_t *to = DV_NEW(x->arena, int64_t, (int64_t)4 * a->n * b->n);
    side givers[MAX_DIVISIONS + 1], reader;
    x->pairs += (int64_t)a->n * b->n;
    for (int32_t i = 0; i < a->n; i++)
        make_side(x, from, x->plan->ops->ops[from].n_reads, i, &givers[i]);
    for (int32_t j = 0; to && j < b->n && x->pairs <= MAX_PAIRS; j++) {
        make_side(x, op, r, j, &reader);
        for (int32_t i = 0; i < a->n; i++) {
            int64_t *at = to + (int64_t)4 * i * b->n + 2 * j;
            double handed = a->may_stay ? handed_us(&givers[i], &reader) : 0;
            at[0] = at[1] = cost_of(reader.us);
            at[2 * b->n] = at[2 * b->n + 1] = cost_of(handed);
        }
    }
    return to;
}

// Adds an edge from the writer of read r to its reader `op`. Equal edges share
// one cost table.
static dv_status add_edge(together *x, int32_t from, int32_t op, int r)
{
    dv_choose_edge *e = &x->edges[x->n_edges];
    x->reads[x->n_edges] = r;
    *e = (dv_choose_edge){{from, op}, NULL};
    for (int32_t k = 0; k < x->n_edges && !e->costs; k++)
        if (x->reads[k] == r && same_menus(x, x->edges[k].nodes[1], op) &&
            same_menus(x, x->edges[k].nodes[0], from))
            e->costs = x->edges[k].costs;
    if (!e->costs)
        e->costs = make_table(x, from, op, r);
    x->n_edges++;
    return e->costs ? DV_OK : dv_nomem(x->diag);
}

// -- The problem and its answer -----------------------------------------------

// Finds which ops write and read each tensor, and which results may stay in the
// scratchpads.
static int look_up(together *x)
{
    const dv_program *p = x->plan->ops;
    int32_t n_reads = 0;
    x->def = DV_NEW(x->arena, int32_t, p->n_tensors);
    x->reader = DV_NEW(x->arena, int32_t, p->n_tensors);
    x->menus = DV_NEW(x->arena, menu, p->n_ops);
    x->nodes = DV_NEW(x->arena, dv_choose_node, p->n_ops);
    if (!x->def || !x->reader || !x->menus || !x->nodes)
        return 0;
    for (int32_t t = 0; t < p->n_tensors; t++)
        x->def[t] = x->reader[t] = -1;
    for (int32_t i = 0; i < p->n_ops; i++) {
        const dv_op *o = &p->ops[i];
        n_reads += o->n_reads;
        x->def[o->write.tensor] = i;
        for (int r = 0; r < o->n_reads; r++)
            x->reader[o->reads[r].tensor] = i;
        x->menus[i].may_stay = !o->is_extern && !o->update;
    }
    for (int32_t i = 0; i < p->n_ops; i++)
        x->menus[i].may_stay &= x->def[p->ops[i].write.tensor] == i &&
                                x->reader[p->ops[i].write.tensor] > i;
    x->edges = DV_NEW(x->arena, dv_choose_edge, n_reads);
    x->reads = DV_NEW(x->arena, int32_t, n_reads);
    return x->edges && x->reads;
}

// Formulates the choice of divisions as a problem of choose/: a node per op, an
// edge per tensor read. Returns DV_E_CAPACITY if it is too large.
static dv_status make_problem(together *x)
{
    const dv_program *p = x->plan->ops;
    if (!look_up(x))
        return dv_nomem(x->diag);
    for (int32_t i = 0; i < p->n_ops; i++)
        DV_TRY(list_options(x, i));
    for (int32_t i = 0; i < p->n_ops; i++) {
        DV_TRY(make_node(x, i));
        for (int r = 0; r < p->ops[i].n_reads; r++)
            if (giver_of(x, i, r) >= 0)
                DV_TRY(add_edge(x, giver_of(x, i, r), i, r));
        if (x->pairs > MAX_PAIRS)
            return DV_E_CAPACITY;
    }
    return DV_OK;
}

// Divides the ops as the solver has answered, and deals tiles so that operands
// are found on their cores. *changed is set to whether the plan changed.
static dv_status divide(together *x, const dv_choose_result *answer,
                        int *changed)
{
    *changed = 0;
    for (int32_t i = 0; i < x->plan->ops->n_ops; i++) {
        int32_t k = answer->strategies[i] / 2;
        *changed |= k > 0;
        set_option(x, i, k);
    }
    return *changed ? dv_joint_follow(x->plan, x->rules, x->spaces, 0, x->arena,
                                      x->diag)
                    : DV_OK;
}

dv_status dv_joint_together(dv_plan *plan, const dv_scratch_rules *rules,
                            dv_divide_space *const *spaces,
                            dv_joint_price *price, dv_arena *arena,
                            dv_diag *diag)
{
    together x = {.plan = plan,
                  .rules = rules,
                  .spaces = spaces,
                  .arena = arena,
                  .diag = diag};
    dv_choose_options o = DV_CHOOSE_OPTIONS_INIT;
    dv_choose_result *answer = NULL;
    dv_plan_snapshot before, now;
    dv_joint_price with,
        least = {dv_plan_least_us(plan), (double)dv_plan_least_bytes(plan)};
    if (!dv_joint_cheaper(&least, price))
        return DV_OK; // the plan cannot be better
    if (dv_stop_late())
        return DV_OK;
    // If other programs share the scratchpads (tenants), results stay there
    // only within groups, which are made later.
    if (rules->tenants)
        return DV_OK;
    if (!dv_plan_snapshot_save(&before, plan, arena))
        return dv_nomem(diag);
    dv_status st = make_problem(&x);
    if (st != DV_OK)
        return st == DV_E_CAPACITY ? DV_OK : st;
    dv_choose_problem p = {x.nodes, (size_t)plan->ops->n_ops, x.edges,
                           (size_t)x.n_edges, plan->scratch.capacity_bytes};
    o.budget = BUDGET;
    st = dv_choose(&answer, &p, &o, NULL);
    if (st == DV_E_CAPACITY)
        return DV_OK;
    if (st != DV_OK)
        return dv_nomem(diag);
    int changed;
    st = divide(&x, answer, &changed);
    dv_choose_result_destroy(answer);
    if (st != DV_OK || !changed)
        return st;
    if (!dv_plan_snapshot_save(&now, plan, arena))
        return dv_nomem(diag);
    DV_TRY(dv_joint_assess(&with, plan, rules, arena, diag));
    int better =
        dv_joint_no_higher(&with, price) && dv_joint_cheaper(&with, price);
    if (better)
        *price = with;
    dv_plan_snapshot_restore(better ? &now : &before, plan);
    return DV_OK;
}
