// Tries divisions together with residency as Torch-Spyre does (--joint seed):
// all combinations of a few divisions per op, judged by the bytes of the
// tensors that find no room in the scratchpads.
#include "base/math.h"
#include "base/stop.h"
#include "joint/joint.h"
#include <string.h>

// Limits of the search that dv_joint_seed does like Torch-Spyre (the PyTorch
// backend of IBM's Spyre accelerator). An op has up to MAX_VARIANTS divisions:
// its only cut output variable is replaced by another one that can be cut into
// as many slices. At most MAX_LEAVES combinations are tried.
enum { MAX_VARIANTS = 6, MAX_LEAVES = 4096 };

typedef struct variants {
    int n, now;
    int64_t slices[MAX_VARIANTS][DV_MAX_VARS];
} variants;

typedef struct seeder {
    dv_plan *plan;
    dv_scratch_rules rules;
    variants *ops;
    int64_t leaves, best_bytes;
    int *best; // the best division (variant) of each op so far
    dv_diag *diag;
} seeder;

static int find_variants(const dv_plan *plan, int32_t i, variants *x,
                         dv_arena *arena)
{
    const dv_op *o = &plan->ops->ops[i];
    size_t bytes = (size_t)o->n_vars * sizeof *x->slices[0];
    dv_splits d;
    dv_divide_space s;
    int cut = -1, others = 0;
    x->n = 1;
    memcpy(x->slices[0], plan->slices[i], bytes);
    dv_joint_splits(plan, i, &d);
    for (int v = 0; v < o->n_vars; v++) {
        others += d.n[v] > 1 && cut >= 0;
        if (d.n[v] > 1 && !o->vars[v].reduce)
            cut = v;
        else if (d.n[v] > 1)
            others++;
    }
    if (cut < 0 || others || o->is_extern || plan->divisions[i].pinned)
        return 1;
    if (!dv_divide_space_init(&s, &plan->target, plan->ops, o, plan->layouts,
                              arena))
        return 0;
    for (int v = 0; v < o->n_vars && x->n < MAX_VARIANTS; v++) {
        if (v == cut || o->vars[v].reduce || s.blocked >> v & 1 ||
            s.units[v] % d.n[cut])
            continue;
        dv_splits moved = d;
        moved.n[v] = d.n[cut];
        moved.n[cut] = 1;
        if (!dv_joint_spans_fit(plan, &s, &moved))
            continue;
        int64_t *to = x->slices[x->n++];
        memcpy(to, plan->slices[i], bytes);
        to[cut] = o->vars[cut].end - o->vars[cut].begin;
        to[v] = dv_min_i64(s.units[v] / d.n[cut] * s.eps[v],
                           o->vars[v].end - o->vars[v].begin);
    }
    return 1;
}

static dv_status set_variant(seeder *s, int32_t i, int k)
{
    const dv_op *o = &s->plan->ops->ops[i];
    memcpy(s->plan->slices[i], s->ops[i].slices[k],
           (size_t)o->n_vars * sizeof *s->plan->slices[i]);
    s->ops[i].now = k;
    s->plan->groups[i].n_tiles = dv_plan_n_tiles(s->plan, i);
    return dv_plan_deal(s->plan, i, &s->plan->groups[i], s->diag);
}

// Counts the bytes of the candidates for scratchpad homes (tensors resident on
// the cores) that would not be resident with the current divisions of all ops.
// Records the divisions if that is the best result so far.
static dv_status score(seeder *s)
{
    dv_arena arena = {0};
    dv_life life;
    dv_scratch out = {.capacity_bytes = s->plan->scratch.capacity_bytes};
    dv_status st = DV_OK;
    if (!dv_life_make(&life, s->plan, &s->rules, NULL, &arena))
        st = dv_nomem(s->diag);
    if (st == DV_OK)
        st = dv_scratch_solve(&out, s->plan, &life, &arena, s->diag);
    int64_t left = 0;
    for (int32_t i = 0; st == DV_OK && i < out.n_residents; i++)
        left += out.residents[i].home < 0 ? out.residents[i].core_bytes : 0;
    if (st == DV_OK && left < s->best_bytes) {
        s->best_bytes = left;
        for (int32_t i = 0; i < s->plan->ops->n_ops; i++)
            s->best[i] = s->ops[i].now;
    }
    s->leaves++;
    dv_arena_free(&arena);
    return st;
}

// Returns whether the search ends: the limit on combinations or time is
// reached, after at least one was tried.
static int is_done(const seeder *s)
{
    return s->leaves >= MAX_LEAVES || (s->leaves > 0 && dv_stop_late());
}

// Tries all combinations of variants (ways to cut an op into slices) of op i
// and the ops after it, beginning with their current ones.
static dv_status try_from(seeder *s, int32_t i)
{
    while (i < s->plan->ops->n_ops && s->ops[i].n == 1)
        i++;
    if (i == s->plan->ops->n_ops)
        return score(s);
    for (int k = 0; k < s->ops[i].n && !is_done(s); k++) {
        DV_TRY(set_variant(s, i, k));
        DV_TRY(try_from(s, i + 1));
    }
    return set_variant(s, i, 0);
}

dv_status dv_joint_seed(dv_plan *plan, const dv_scratch_rules *rules,
                        dv_diag *diag)
{
    dv_arena arena = {0};
    int32_t n = plan->ops->n_ops;
    seeder s = {.plan = plan,
                .rules = *rules,
                .ops = DV_NEW(&arena, variants, n),
                .best = DV_NEW(&arena, int, n),
                .best_bytes = INT64_MAX,
                .diag = diag};
    s.rules.evict = 0;
    s.rules.solver = DV_SOLVER_GREEDY;
    s.rules.place = NULL;
    int ok = s.ops && s.best;
    for (int32_t i = 0; ok && i < n; i++)
        ok = find_variants(plan, i, &s.ops[i], &arena);
    double combinations = 1;
    for (int32_t i = 0; ok && i < n; i++)
        combinations *= s.ops[i].n;
    dv_status st = ok ? try_from(&s, 0) : dv_nomem(diag);
    if (st == DV_OK && combinations > MAX_LEAVES)
        dv_warn(diag, "joint", DV_NOWHERE,
                "joint seed tried %d of %.4g combinations of divisions, as "
                "Torch-Spyre's search does; joint auto has no such limit",
                (int)MAX_LEAVES, combinations);
    for (int32_t i = 0; st == DV_OK && i < n; i++)
        if (s.ops[i].n > 1)
            st = set_variant(&s, i, s.best[i]);
    dv_arena_free(&arena);
    return st;
}
