// Plans made last. Strides are the back end's matter: a plan only asks whether
// an operand moves along a loop, so one plan serves kernels for rows of any
// length.
#include "jit/vec_ir.h"
#include <string.h>

struct dv_vec_kept_plan {
    dv_vec_plan plan; // shape and operands are those of the kernel at hand
    dv_vec_runs runs;
    uint64_t mixed;
    int n;
    uint64_t words[]; // the key; then constants, operations and code
};
enum { CODE_PER_OP = 8 }; // bytes: most are one or two instructions

static uint64_t mix(const uint64_t *words, int n)
{
    uint64_t h = (uint64_t)n;
    for (int i = 0; i < n; i++)
        h = (h ^ words[i] ^ words[i] >> 29) * 0x9e3779b97f4a7c15u;
    return h;
}

int dv_vec_kept_find(const dv_vec_kept *k, const uint64_t *words, int n,
                     dv_vec_plan *out)
{
    uint64_t mixed = mix(words, n);
    for (int i = 0; i < DV_VEC_KEPT && k->plans[i]; i++) {
        struct dv_vec_kept_plan *p = k->plans[i];
        if (p->mixed != mixed || p->n != n ||
            memcmp(p->words, words, (size_t)n * sizeof *words) != 0)
            continue;
        *out = p->plan;
        out->runs = &p->runs;
        return 1;
    }
    return 0;
}

// Without memory there is one plan less.
void dv_vec_kept_add(dv_vec_kept *k, const uint64_t *words, int n,
                     const dv_vec_plan *plan)
{
    size_t key = (size_t)n * sizeof *words;
    size_t ops = (size_t)plan->n * sizeof *plan->ops;
    size_t pool = (size_t)plan->n_pool * sizeof *plan->pool;
    int at = k->next;
    size_t code = (size_t)plan->n * CODE_PER_OP;
    if (key + ops + pool + code > DV_VEC_KEPT_BYTES)
        return;
    struct dv_vec_kept_plan *p = dv_alloc(sizeof *p + key + pool + ops + code);
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
    p->runs = (dv_vec_runs){
        .n = -1,
        .code = (unsigned char *)(p->plan.ops + plan->n),
        .cap = (int32_t)code,
    };
    dv_release(k->plans[at]);
    k->plans[at] = p;
    k->next = (at + 1) % DV_VEC_KEPT;
}

void dv_vec_kept_free(dv_vec_kept *k)
{
    for (int i = 0; i < DV_VEC_KEPT; i++)
        dv_release(k->plans[i]);
    *k = (dv_vec_kept){0};
}
