// Cuts chains of ops by the same variables.
//
// The pass "divide" cuts each op alone. Ops that hand a tensor on often take
// equally long in several divisions, but only if all of them are cut alike does
// the tensor stay on the cores. A chain is the set of ops that index the same
// dims of the tensors between them:
//
//   t[h,i,j] = sum[d] q[h,i,d] * k[h,j,d]    chain h: t, m, p
//   m[h,i]   = max[j] t[h,i,j]               chain i: t, m, p
//   p[h,i,j] = exp(t[h,i,j] - m[h,i])        chain j: t, p
//
// A trial cuts all ops of one chain, and on the cores that are left all ops of
// a second chain. Trials are ranked by an estimate without placement; the first
// few are planned, and the best is kept if the plan is predicted to be faster,
// or as fast with less main memory traffic. This is repeated from the new plan.
// The effort is limited by counts, so the result is deterministic unless a time
// limit ends the search.
#include "base/math.h"
#include "base/stop.h"
#include "joint/joint.h"
#include <string.h>

// A chain is a set of ops cut by the same variables; a trial cuts one or two of
// at most MAX_CHAINS. Each round plans its MAX_PLANNED best trials. The search
// ends when estimated trials have MAX_ESTIMATED ops together, or planned ones
// MAX_PLANNED_OPS.
enum {
    MAX_CHAINS = 8,
    MAX_PLANNED = 4,
    MAX_ESTIMATED = 3000,
    MAX_PLANNED_OPS = 600
};

typedef struct chain {
    int32_t root; // the set of its variables (dv_alike_root)
    int64_t extent;
    double bytes; // of the tensors that its ops write
} chain;

// A trial cuts the variables of chain a[0] into slices of len[0] and those of
// chain a[1], unless a[1] is negative, into slices of len[1].
typedef struct trial {
    int32_t a[2];
    int64_t len[2], n[2];
    int both; // 1 if only ops of both chains are cut
    dv_joint_price price;
} trial;

typedef struct chains {
    dv_plan *plan;
    const dv_scratch_rules *rules;
    dv_arena *arena;
    dv_diag *diag;
    dv_divide_space *const *spaces; // per op
    dv_alike alike;
    chain list[MAX_CHAINS];
    int32_t n;
    // Per chain and op: the variable by which the chain cuts the op, or -1.
    int8_t *var_of[MAX_CHAINS];
    int64_t estimated, planned; // ops, see the limits
    dv_plan_snapshot best;
    dv_joint_price best_price;
    dv_joint_price best_estimate;
} chains;

static int32_t root_of(const dv_alike *s, int32_t x)
{
    while (s->up[x] != x)
        x = s->up[x] = s->up[s->up[x]];
    return x;
}

int32_t dv_alike_root(const dv_alike *s, int32_t op, int var)
{
    return root_of(s, s->var_at[op] + var);
}

// Merges the sets of two union-find nodes; the lower of the two roots
// represents the union.
static void join(const dv_alike *s, int32_t a, int32_t b)
{
    a = root_of(s, a);
    b = root_of(s, b);
    s->up[a > b ? a : b] = a > b ? b : a;
}

int dv_joint_may_cut(const dv_plan *plan, int32_t op)
{
    const dv_op *o = &plan->ops->ops[op];
    return !o->is_extern && !o->update && !plan->divisions[op].pinned;
}

static void join_access(const dv_alike *s, const dv_program *p, int32_t op,
                        const dv_access *a)
{
    const dv_op *o = &p->ops[op];
    for (int d = 0; d < a->n_dims; d++) {
        if (a->index[d].via >= 0)
            continue;
        int v =
            dv_index_whole_var(o, &a->index[d], p->tensors[a->tensor].shape[d]);
        if (v >= 0)
            join(s, s->var_at[op] + v, s->dim_at[a->tensor] + d);
    }
}

int dv_alike_make(dv_alike *s, const dv_plan *plan, dv_arena *arena)
{
    const dv_program *p = plan->ops;
    int32_t n = 0;
    s->var_at = DV_NEW(arena, int32_t, p->n_ops);
    s->dim_at = DV_NEW(arena, int32_t, p->n_tensors);
    if (!s->var_at || !s->dim_at)
        return 0;
    for (int32_t i = 0; i < p->n_ops; i++) {
        s->var_at[i] = n;
        n += p->ops[i].n_vars;
    }
    for (int32_t t = 0; t < p->n_tensors; t++) {
        s->dim_at[t] = n;
        n += p->tensors[t].n_dims;
    }
    s->up = DV_NEW(arena, int32_t, n);
    if (!s->up)
        return 0;
    for (int32_t i = 0; i < n; i++)
        s->up[i] = i;
    for (int32_t i = 0; i < p->n_ops; i++) {
        const dv_op *o = &p->ops[i];
        if (o->is_extern)
            continue;
        for (int k = 0; k <= o->n_reads; k++)
            join_access(s, p, i, dv_op_access(o, k));
        // Equal ops, as in the layers of a model, must be cut alike, so their
        // variables belong to the same set.
        int32_t like = plan->divisions[i].like;
        for (int v = 0; v < o->n_vars && like != i; v++)
            join(s, s->var_at[i] + v, s->var_at[like] + v);
    }
    return 1;
}

// Returns the variable of an op that is in the set `root`, by which a chain
// cuts the op, or -1. Reduced variables are not used, because cutting a sum
// leaves partial results.
static int var_in(const chains *c, int32_t op, int32_t root)
{
    const dv_op *o = &c->plan->ops->ops[op];
    for (int v = 0; v < o->n_vars && dv_joint_may_cut(c->plan, op); v++)
        if (!o->vars[v].reduce && !(c->spaces[op]->blocked >> v & 1) &&
            dv_alike_root(&c->alike, op, v) == root)
            return v;
    return -1;
}

// For each chain in `list` and each op, stores in `var_of` which variable of
// the op belongs to the chain. Returns 0 when out of memory.
static int find_vars(chains *c)
{
    for (int32_t k = 0; k < c->n; k++) {
        c->var_of[k] = DV_NEW(c->arena, int8_t, c->plan->ops->n_ops);
        if (!c->var_of[k])
            return 0;
        for (int32_t i = 0; i < c->plan->ops->n_ops; i++)
            c->var_of[k][i] = (int8_t)var_in(c, i, c->list[k].root);
    }
    return 1;
}

// Lists the MAX_CHAINS chains (ops cut by the same variables) whose ops write
// most bytes. Returns 0 when out of memory.
static int find_chains(chains *c)
{
    const dv_program *p = c->plan->ops;
    int32_t n_nodes = p->n_tensors ? c->alike.dim_at[p->n_tensors - 1] +
                                         p->tensors[p->n_tensors - 1].n_dims
                                   : 0;
    chain *all = DV_NEW(c->arena, chain, n_nodes);
    if (!all)
        return 0;
    for (int32_t i = 0; i < p->n_ops; i++)
        for (int v = 0; dv_joint_may_cut(c->plan, i) && v < p->ops[i].n_vars;
             v++) {
            chain *x = &all[dv_alike_root(&c->alike, i, v)];
            if (p->ops[i].vars[v].reduce)
                continue;
            x->extent = dv_max_i64(x->extent, dv_var_len(&p->ops[i], v));
            x->bytes += (double)c->plan->layouts[p->ops[i].write.tensor].bytes;
        }
    for (int32_t i = 0; i < n_nodes; i++) {
        all[i].root = i;
        if (all[i].extent < 2)
            continue;
        int32_t at = c->n;
        while (at > 0 && c->list[at - 1].bytes < all[i].bytes)
            at--;
        if (at == MAX_CHAINS)
            continue;
        c->n += c->n < MAX_CHAINS;
        memmove(&c->list[at + 1], &c->list[at],
                (size_t)(c->n - 1 - at) * sizeof *c->list);
        c->list[at] = all[i];
    }
    return 1;
}

// Deals tile (x, y) of the two cut variables, with x in 0..n[0] and y in
// 0..n[1], to core x * n[1] + y, in all ops alike, so that a core finds its
// operands. Returns 0 when out of memory.
static int deal(const chains *c, int32_t op, const trial *t, const int *var)
{
    dv_plan *plan = c->plan;
    dv_group *g = &plan->groups[op];
    int32_t n = 0;
    int64_t nx = var[0] < 0 ? 1 : t->n[0], ny = var[1] < 0 ? 1 : t->n[1];
    dv_deal *deals = DV_NEW(&plan->arena, dv_deal, nx * ny);
    if (!deals)
        return 0;
    for (int64_t x = 0; x < nx; x++)
        for (int64_t y = 0; y < ny; y++) {
            int64_t core = x * t->n[1] + y;
            int64_t tile =
                var[0] < var[1] || var[1] < 0 ? x * ny + y : y * nx + x;
            deals[n++] = (dv_deal){core, tile, 1};
        }
    g->deals = deals;
    g->n_deals = n;
    dv_group_note_deals(g);
    g->n_tiles = nx * ny;
    return 1;
}

// Cuts one op as a trial says, if that is legal and takes no longer to compute
// than the division that the pass "divide" chose. Returns 1 if the op was cut,
// 0 if not, -1 when out of memory.
static int cut_op(const chains *c, int32_t op, const trial *t)
{
    const dv_plan *plan = c->plan;
    const dv_divide_space *s = c->spaces[op];
    dv_splits d;
    int var[2] = {-1, -1};
    for (int k = 0; k < 2 && t->a[k] >= 0; k++)
        var[k] = c->var_of[t->a[k]][op];
    if ((var[0] < 0 && var[1] < 0) || (t->both && (var[0] < 0 || var[1] < 0)))
        return 0;
    for (int v = 0; v < DV_MAX_VARS; v++)
        d.n[v] = 1;
    for (int k = 0; k < 2; k++) {
        if (var[k] < 0)
            continue;
        if (t->n[k] > 1 && t->len[k] % s->eps[var[k]])
            return 0;
        d.n[var[k]] = dv_ceil_div(s->extent[var[k]], t->len[k]);
        if (d.n[var[k]] != t->n[k])
            return 0;
    }
    dv_cost_work w = dv_divide_work(s, &plan->target, &d);
    if (dv_cost_compute_us(&plan->target, &w) >
            plan->divisions[op].cost_us * (1 + 1e-9) ||
        !dv_joint_spans_fit(plan, s, &d))
        return 0;
    for (int v = 0; v < s->n_vars; v++)
        plan->slices[op][v] = s->extent[v];
    for (int k = 0; k < 2; k++)
        if (var[k] >= 0)
            plan->slices[op][var[k]] = dv_min_i64(t->len[k], s->extent[var[k]]);
    return deal(c, op, t, var) ? 1 : -1;
}

// Restores the best plan so far and cuts its ops as a trial says. Returns the
// number of ops cut, or -1 when out of memory.
static int32_t apply(const chains *c, const trial *t)
{
    int32_t n = 0;
    dv_plan_snapshot_restore(&c->best, c->plan);
    for (int32_t i = 0; i < c->plan->ops->n_ops; i++) {
        int cut = cut_op(c, i, t);
        if (cut < 0)
            return -1;
        n += cut;
    }
    return n;
}

// Returns whether price `a` is lower than `b` in time or traffic and higher in
// neither.
static int is_better(const dv_joint_price *a, const dv_joint_price *b)
{
    return dv_joint_no_higher(a, b) && dv_joint_cheaper(a, b);
}

// Estimates a trial (a way to cut chains of ops) and keeps it if it is among
// the MAX_PLANNED best of this round. Returns 0 when out of memory.
static int estimate(chains *c, trial *t, trial *top, int32_t *n)
{
    if (c->estimated >= MAX_ESTIMATED || dv_stop_late())
        return 1;
    int32_t cut = apply(c, t);
    c->estimated += c->plan->ops->n_ops;
    if (cut < 2)
        return cut >= 0;
    if (!dv_joint_estimate(&t->price, c->plan, c->rules, c->spaces,
                           &c->best_estimate, c->arena))
        return 0;
    if (!is_better(&t->price, &c->best_estimate))
        return 1;
    int32_t at = *n;
    while (at > 0 && dv_joint_cheaper(&t->price, &top[at - 1].price))
        at--;
    if (at == MAX_PLANNED)
        return 1;
    *n += *n < MAX_PLANNED;
    memmove(&top[at + 1], &top[at], (size_t)(*n - 1 - at) * sizeof *top);
    top[at] = *t;
    return 1;
}

// Sets the length and number of slices of the k-th chain of a trial, at most
// `most` slices. Returns 0 if there are fewer than two.
static int set_cut(const chains *c, trial *t, int k, int32_t chain_no,
                   int64_t most)
{
    int64_t extent = c->list[chain_no].extent;
    t->a[k] = chain_no;
    t->len[k] = dv_ceil_div(extent, dv_max_i64(most, 1));
    t->n[k] = dv_ceil_div(extent, t->len[k]);
    return t->n[k] > 1;
}

// Estimates all trials: every pair of chains, where the first one is cut over
// all cores, a half of them, a quarter and so on.
static int estimate_all(chains *c, trial *top, int32_t *n)
{
    for (int32_t a = 0; a < c->n; a++) {
        int64_t last = 0;
        for (int64_t cores = c->plan->target.cores; cores > 1; cores /= 2) {
            trial t = {.a = {-1, -1}, .n = {1, 1}};
            if (!set_cut(c, &t, 0, a, cores) || t.n[0] == last)
                continue;
            last = t.n[0];
            if (!estimate(c, &t, top, n))
                return 0;
            for (int32_t b = 0; b < c->n; b++) {
                if (b == a ||
                    !set_cut(c, &t, 1, b, c->plan->target.cores / t.n[0]))
                    continue;
                for (t.both = 0; t.both < 2; t.both++)
                    if (!estimate(c, &t, top, n))
                        return 0;
            }
        }
    }
    return 1;
}

// Plans the trials with the best estimates. *improved is set to 1 if one of
// them became the best plan.
static dv_status plan_top(chains *c, const trial *top, int32_t n, int *improved)
{
    dv_plan_snapshot base = c->best, found = c->best;
    *improved = 0;
    for (int32_t i = 0;
         i < n && c->planned < MAX_PLANNED_OPS && !dv_stop_late(); i++) {
        dv_plan_snapshot now;
        dv_joint_price price;
        c->planned += c->plan->ops->n_ops;
        c->best = base;
        if (apply(c, &top[i]) < 0 ||
            !dv_plan_snapshot_save(&now, c->plan, c->arena))
            return dv_nomem(c->diag);
        DV_TRY(dv_joint_assess(&price, c->plan, c->rules, c->arena, c->diag));
        if (is_better(&price, &c->best_price)) {
            c->best_price = price;
            c->best_estimate = top[i].price;
            found = now;
            *improved = 1;
        }
    }
    c->best = found;
    return DV_OK;
}

static dv_status search(chains *c)
{
    int improved = 1;
    while (improved && c->estimated < MAX_ESTIMATED &&
           c->planned < MAX_PLANNED_OPS && !dv_stop_late()) {
        trial top[MAX_PLANNED + 1];
        int32_t n = 0;
        if (!estimate_all(c, top, &n))
            return dv_nomem(c->diag);
        DV_TRY(plan_top(c, top, n, &improved));
    }
    return DV_OK;
}

dv_status dv_joint_chains(dv_plan *plan, const dv_scratch_rules *rules,
                          dv_divide_space *const *spaces, dv_joint_price *price,
                          dv_arena *arena, dv_diag *diag)
{
    chains c = {.plan = plan,
                .rules = rules,
                .arena = arena,
                .diag = diag,
                .spaces = spaces,
                .best_price = *price};
    if (plan->target.cores < 2)
        return DV_OK;
    if (!dv_alike_make(&c.alike, plan, arena) || !find_chains(&c) ||
        !find_vars(&c) || !dv_plan_snapshot_save(&c.best, plan, arena) ||
        !dv_joint_estimate(&c.best_estimate, plan, rules, spaces, NULL, arena))
        return dv_nomem(diag);
    dv_status st = search(&c);
    dv_plan_snapshot_restore(&c.best, plan);
    *price = c.best_price;
    return st;
}
