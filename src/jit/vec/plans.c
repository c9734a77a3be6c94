// A cache of the most recent plans. A plan does not contain strides, only
// whether an operand moves along a loop; strides are the back end's task. One
// plan therefore serves kernels for rows of any length.
#include "jit/vec/ir.h"
#include <string.h>

struct dv_vec_cached_plan {
    // The cached plan. Its shape and operands are those of the kernel that uses
    // it, and are replaced at every use.
    dv_vec_plan plan;
    uint64_t mixed;
    int n;
    uint64_t words[]; // the cache key, then the plan's constants and operations
};

static uint64_t mix(const uint64_t *words, int n)
{
    uint64_t h = (uint64_t)n;
    for (int i = 0; i < n; i++)
        h = (h ^ words[i] ^ words[i] >> 29) * 0x9e3779b97f4a7c15u;
    return h;
}

// Returns the plan with this key; NULL if it is not in the cache.
static const dv_vec_plan *find(const dv_vec_plan_cache *all,
                               const uint64_t *words, int n)
{
    uint64_t mixed = mix(words, n);
    for (int i = 0; i < DV_VEC_CACHED_PLANS && all->plans[i]; i++) {
        const struct dv_vec_cached_plan *p = all->plans[i];
        if (p->mixed == mixed && p->n == n &&
            !memcmp(p->words, words, (size_t)n * sizeof *words))
            return &p->plan;
    }
    return NULL;
}

// Adds a plan to the cache, replacing the oldest one. If memory runs out, the
// plan is not added.
static void add(dv_vec_plan_cache *all, const uint64_t *words, int n,
                const dv_vec_plan *plan)
{
    enum { MOST = 32 << 10 };
    size_t key = (size_t)n * sizeof *words;
    size_t ops = (size_t)plan->n * sizeof *plan->ops;
    size_t pool = (size_t)plan->n_pool * sizeof *plan->pool;
    struct dv_vec_cached_plan *p = NULL,
                              **at =
                                  &all->plans[all->made % DV_VEC_CACHED_PLANS];
    if (key + ops + pool <= MOST)
        p = dv_alloc(sizeof *p + key + pool + ops);
    if (!p)
        return;
    p->plan = *plan;
    p->mixed = mix(words, n);
    p->n = n;
    memcpy(p->words, words, key);
    p->plan.pool = (dv_vec_const *)(p->words + n);
    p->plan.ops = (dv_vec_mop *)(p->plan.pool + plan->n_pool);
    if (pool)
        memcpy(p->plan.pool, plan->pool, pool);
    memcpy(p->plan.ops, plan->ops, ops);
    dv_release(*at);
    *at = p;
    all->made++;
}

int dv_vec_generate(dv_vec_plan_cache *all, const dv_vec_isa *isa,
                    const dv_vec_shape *shape, const uint64_t *key, int n,
                    dv_code *code)
{
    uint64_t words[DV_VEC_MAX_CACHED_KEY];
    int keeps = n <= DV_VEC_MAX_CACHED_KEY;
    if (keeps) {
        memcpy(words, key, (size_t)n * sizeof *key);
        dv_vec_plan_key(words);
    }
    dv_vec_plan plan;
    dv_arena scratch = {0};
    const dv_vec_plan *old = keeps ? find(all, words, n) : NULL;
    if (old) {
        plan = *old;
        dv_vec_plan_rebind(&plan, shape, &scratch);
    } else {
        dv_vec_plan_make(&plan, shape, isa, &scratch);
        if (keeps && !plan.failed)
            add(all, words, n, &plan);
    }
    if (!plan.failed)
        isa->emit(code, &plan, isa);
    dv_arena_free(&scratch);
    return !plan.failed;
}

void dv_vec_plan_cache_free(dv_vec_plan_cache *all)
{
    for (int i = 0; i < DV_VEC_CACHED_PLANS; i++)
        dv_release(all->plans[i]);
    *all = (dv_vec_plan_cache){0};
}
