// Improves the divisions of single ops.
//
// Chains of ops are cut alike first (chain.c), and ops follow their operands
// (joint.c). Then each op is tried with every division of a menu, the other ops
// unchanged: the plan is made, with its resident tensors and shared operands,
// and the division is kept if the plan is predicted to be faster, or as fast
// with less main memory traffic. Equal ops, as in the layers of a model, are
// divided alike. This is repeated until nothing improves, and then with all ops
// cut by their first or second variable to begin with. The effort is limited by
// the number of ops of all tried plans, so that the result is deterministic
// unless a time limit ends the search.
#include "base/math.h"
#include "base/stop.h"
#include "plan/price.h"
#include "plan/traffic.h"
#include "joint/joint.h"
#include <math.h>

// An op's menu is its list of up to MAX_CHOICES divisions. They are tried until
// the ops of all tried plans together reach MAX_WORK. Programs of up to SMALL
// ops also try pairs of ops; of up to TINY, all combinations, until another
// TINY_WORK ops. Programs of more than LARGE ops are left as they are.
enum {
    MAX_CHOICES = 12,
    MAX_WORK = 4000,
    TINY_WORK = 20000,
    TINY = 5,
    SMALL = 8,
    LARGE = 400
};

typedef struct menus {
    dv_plan *plan;
    const dv_scratch_rules *rules;
    dv_divide_space *const *spaces;
    dv_arena *arena;
    dv_diag *diag;
    dv_plan_snapshot best;
    dv_joint_price price; // of the plan `best`
    int64_t work;
    dv_joint_price least; // a lower bound of the price of any plan
} menus;

// Returns whether the search ends: the best plan is known to be optimal, the
// work limit is reached, or the time limit has passed.
static int is_done(const menus *m)
{
    return m->work >= MAX_WORK || !dv_joint_cheaper(&m->least, &m->price) ||
           dv_stop_late();
}

// Divides an op as `d` says, with the deal of the equal op `like`, which was
// divided first (or is the op itself). *changed is set to 1 if the op was
// divided differently before.
static dv_status divide(const menus *m, int32_t op, int32_t like,
                        const dv_splits *d, int *changed)
{
    dv_plan *plan = m->plan;
    dv_group *g = &plan->groups[op];
    const dv_divide_space *s = m->spaces[op];
    for (int v = 0; v < s->n_vars; v++) {
        int64_t slice = dv_min_i64(
            dv_ceil_div(s->units[v], d->n[v]) * s->eps[v], s->extent[v]);
        *changed |= slice != plan->slices[op][v];
        plan->slices[op][v] = slice;
    }
    if (op != like) {
        dv_group_deal_like(g, &plan->groups[like]);
        return DV_OK;
    }
    g->n_tiles = dv_plan_n_tiles(plan, op);
    return dv_plan_deal(plan, op, g, m->diag);
}

// Divides op i and all ops of the same shape as `d` says. *changed is set to
// whether that changed any of them.
static dv_status divide_alike(const menus *m, int32_t i, const dv_splits *d,
                              int *changed)
{
    const dv_plan *plan = m->plan;
    int32_t like = plan->divisions[i].like;
    *changed = 0;
    for (int32_t k = i; k < plan->ops->n_ops; k++)
        if (plan->divisions[k].like == like && dv_joint_may_cut(plan, k))
            DV_TRY(divide(m, k, i, d, changed));
    return DV_OK;
}

// Chooses residents for the current divisions, and keeps the plan if it is
// better than the best one. *improved is set to 1 then.
static dv_status assess(menus *m, int *improved)
{
    dv_plan_snapshot now;
    dv_joint_price price;
    m->work += m->plan->ops->n_ops;
    if (!dv_plan_snapshot_save(&now, m->plan, m->arena))
        return dv_nomem(m->diag);
    DV_TRY(dv_joint_assess(&price, m->plan, m->rules, m->arena, m->diag));
    if (dv_joint_cheaper(&price, &m->price)) {
        m->price = price;
        m->best = now;
        *improved = 1;
    }
    return DV_OK;
}

static int list_menu(const menus *m, int32_t i, dv_splits *list)
{
    const dv_target *t = &m->plan->target;
    dv_divide_request r = {.cores = t->cores,
                           .span_limit_bytes = t->span_limit_bytes};
    return dv_divide_menu(list, MAX_CHOICES, m->spaces[i], t, &r);
}

// Tries all candidate divisions of op i, each with all those of op j (j < 0:
// alone).
static dv_status try_ops(menus *m, int32_t i, int32_t j, int *improved)
{
    dv_splits list[MAX_CHOICES], second[MAX_CHOICES];
    int n = list_menu(m, i, list),
        n_second = j < 0 ? 1 : list_menu(m, j, second);
    dv_plan_snapshot base = m->best;
    for (int k = 0; k < n * n_second && !is_done(m); k++) {
        int changed, other = 0;
        dv_plan_snapshot_restore(&base, m->plan);
        DV_TRY(divide_alike(m, i, &list[k / n_second], &changed));
        if (j >= 0)
            DV_TRY(divide_alike(m, j, &second[k % n_second], &other));
        if (changed && (j < 0 || other))
            DV_TRY(assess(m, improved));
    }
    return DV_OK;
}

static int may_try(const dv_plan *plan, int32_t i)
{
    return dv_joint_may_cut(plan, i) && plan->divisions[i].like == i;
}

// Tries combinations of divisions of two ops that access the same tensor.
static dv_status try_pairs(menus *m, int *improved)
{
    const dv_program *p = m->plan->ops;
    for (int32_t i = 0; i < p->n_ops; i++)
        for (int32_t j = i + 1; j < p->n_ops && !is_done(m); j++)
            if (may_try(m->plan, i) && may_try(m->plan, j) &&
                dv_access_of(&p->ops[j], p->ops[i].write.tensor) >= 0)
                DV_TRY(try_ops(m, i, j, improved));
    return DV_OK;
}

// Improves the plan `best` until no division of a single op or, in a small
// program, of two ops makes it cheaper.
static dv_status descend(menus *m)
{
    int improved = 1;
    while (improved && !is_done(m)) {
        improved = 0;
        for (int32_t i = 0; i < m->plan->ops->n_ops && !is_done(m); i++)
            if (may_try(m->plan, i))
                DV_TRY(try_ops(m, i, -1, &improved));
        if (!improved && m->plan->ops->n_ops <= SMALL)
            DV_TRY(try_pairs(m, &improved));
    }
    return DV_OK;
}

// Sets *d to a division of op i that cuts one variable only, number `which` of
// those that are not reduced, into at most `cores` slices.
static void cut_one(const menus *m, int32_t i, int which, int64_t cores,
                    dv_splits *d)
{
    const dv_divide_space *s = m->spaces[i];
    for (int v = 0; v < DV_MAX_VARS; v++)
        d->n[v] = 1;
    for (int v = 0; v < s->n_vars; v++) {
        if (s->reduced >> v & 1 || which-- != 0 || s->blocked >> v & 1)
            continue;
        int64_t most = dv_min_i64(s->units[v], cores);
        d->n[v] = dv_ceil_div(s->units[v], dv_ceil_div(s->units[v], most));
    }
}

// Restarts the search from a plan whose ops are all cut along their variable
// number `which`, over this number of cores. Keeps the better one of the result
// and the best plan.
static dv_status begin_again(menus *m, int which, int64_t cores)
{
    dv_plan_snapshot found = m->best;
    dv_joint_price price = m->price;
    int changed;
    dv_plan_snapshot_restore(&m->best, m->plan);
    for (int32_t i = 0; i < m->plan->ops->n_ops; i++) {
        dv_splits d;
        if (!may_try(m->plan, i))
            continue;
        cut_one(m, i, which, cores, &d);
        if (dv_joint_spans_fit(m->plan, m->spaces[i], &d))
            DV_TRY(divide_alike(m, i, &d, &changed));
    }
    DV_TRY(dv_joint_follow(m->plan, m->rules, m->spaces, 1, m->arena, m->diag));
    m->price = (dv_joint_price){INFINITY, INFINITY};
    DV_TRY(assess(m, &changed));
    DV_TRY(descend(m));
    if (!dv_joint_cheaper(&m->price, &price)) {
        m->best = found;
        m->price = price;
    }
    return DV_OK;
}

// For each op of a tiny program: its candidate divisions, the compute time of
// each with the op's launch, and in `least_us` a lower bound for the op and all
// ops after it. An op whose division may not change has no candidates.
typedef struct tiny {
    dv_splits list[TINY][MAX_CHOICES];
    double us[TINY][MAX_CHOICES], least_us[TINY + 1];
    int n[TINY], choice[TINY];
    dv_plan_snapshot before;
} tiny;

static void list_menus(const menus *m, tiny *x)
{
    const dv_plan *plan = m->plan;
    x->least_us[plan->ops->n_ops] = 0;
    for (int32_t i = plan->ops->n_ops - 1; i >= 0; i--) {
        double least = INFINITY;
        x->n[i] = dv_joint_may_cut(plan, i) ? list_menu(m, i, x->list[i]) : 0;
        for (int k = 0; k < x->n[i]; k++) {
            dv_cost_work w =
                dv_divide_work(m->spaces[i], &plan->target, &x->list[i][k]);
            x->us[i][k] = dv_cost_compute_us(&plan->target, &w) +
                          plan->target.launch_time_ns / 1e3;
            least = fmin(least, x->us[i][k]);
        }
        x->least_us[i] = x->least_us[i + 1] + (x->n[i] ? least : 0);
    }
}

// Branch and bound over all combinations of divisions of the ops from `op` on,
// bounded by their compute time. The ops before take `us`.
static dv_status try_all(menus *m, tiny *x, int32_t op, double us)
{
    int unused = 0;
    if (op == m->plan->ops->n_ops) {
        dv_plan_snapshot_restore(&x->before, m->plan);
        for (int32_t i = 0; i < op; i++)
            if (x->n[i])
                DV_TRY(divide(m, i, i, &x->list[i][x->choice[i]], &unused));
        return assess(m, &unused);
    }
    if (!x->n[op])
        return try_all(m, x, op + 1, us);
    for (int k = 0; k < x->n[op] && !is_done(m); k++) {
        dv_joint_price least = {us + x->us[op][k] + x->least_us[op + 1],
                                m->least.bytes};
        if (!dv_joint_cheaper(&least, &m->price))
            continue;
        x->choice[op] = k;
        DV_TRY(try_all(m, x, op + 1, us + x->us[op][k]));
    }
    return DV_OK;
}

dv_status dv_joint_menus(dv_plan *plan, const dv_scratch_rules *rules,
                         dv_divide_space *const *spaces, dv_joint_price *price,
                         dv_arena *arena, dv_diag *diag)
{
    menus m = {
        .plan = plan,
        .rules = rules,
        .spaces = spaces,
        .arena = arena,
        .diag = diag,
        .price = *price,
        .least = {dv_plan_least_us(plan), (double)dv_plan_least_bytes(plan)}};
    if (plan->ops->n_ops > LARGE)
        return DV_OK;
    if (!dv_plan_snapshot_save(&m.best, plan, arena))
        return dv_nomem(diag);
    DV_TRY(descend(&m));
    for (int64_t cores = plan->target.cores; cores > 0;
         cores = cores <= 4 ? cores - 1 : cores / 2)
        for (int which = 0; which < 2 && !is_done(&m); which++)
            DV_TRY(begin_again(&m, which, cores));
    if (plan->ops->n_ops <= TINY) {
        tiny x = {.before = m.best};
        list_menus(&m, &x);
        m.work = MAX_WORK - TINY_WORK;
        DV_TRY(try_all(&m, &x, 0, 0));
    }
    dv_plan_snapshot_restore(&m.best, plan);
    *price = m.price;
    return DV_OK;
}
