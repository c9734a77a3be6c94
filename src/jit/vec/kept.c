// Plans made last. Strides are the back end's matter: a plan only asks whether
// an operand moves along a loop, so one plan serves kernels for rows of any
// length. With it is the code of the last kernel that it was written down for:
// where only the distance of rows is another, that is copied.
#include "jit/vec/ir.h"
#include <string.h>

struct dv_vec_kept_plan {
    dv_vec_plan plan; // shape and operands are those of the kernel at hand
    dv_vec_runs runs;
    dv_vec_whole whole;
    uint64_t mixed, row_mixed;
    int n;
    // The key, that of the kernel that is whole, constants, operations, code.
    uint64_t words[];
};
enum { CODE_PER_OP = 8 }; // bytes: most are one or two instructions

static uint64_t mix(const uint64_t *words, int n)
{
    uint64_t h = (uint64_t)n;
    for (int i = 0; i < n; i++)
        h = (h ^ words[i] ^ words[i] >> 29) * 0x9e3779b97f4a7c15u;
    return h;
}

static int is_key(const uint64_t *a, const uint64_t *b, int n)
{
    return memcmp(a, b, (size_t)n * sizeof *a) == 0;
}

// A kernel like one of the last, but for strides from row to row. 0: there is
// none.
static int copy(const dv_vec_kept *k, const dv_vec_isa *isa,
                const uint64_t *row_key, int n, const dv_vec_shape *shape,
                dv_code *code)
{
    uint64_t mixed = mix(row_key, n);
    for (int i = 0; i < DV_VEC_KEPT && k->plans[i]; i++) {
        const struct dv_vec_kept_plan *p = k->plans[i];
        if (p->row_mixed == mixed && p->n == n && p->whole.n >= 0 &&
            is_key(p->words + n, row_key, n))
            return isa->fill(code, &p->whole, shape);
    }
    return 0;
}

// The kernel to be written is the one of which the code is left.
static void begin(struct dv_vec_kept_plan *p, const uint64_t *row_key, int n,
                  dv_vec_plan *out)
{
    memcpy(p->words + n, row_key, (size_t)n * sizeof *row_key);
    p->row_mixed = mix(row_key, n);
    p->whole.n = -1;
    out->runs = &p->runs;
    out->whole = &p->whole;
}

// 0: there is none. *out borrows its operations and constants.
static int find(const dv_vec_kept *k, const uint64_t *words,
                const uint64_t *row_key, int n, dv_vec_plan *out)
{
    uint64_t mixed = mix(words, n);
    for (int i = 0; i < DV_VEC_KEPT && k->plans[i]; i++) {
        struct dv_vec_kept_plan *p = k->plans[i];
        if (p->mixed != mixed || p->n != n || !is_key(p->words, words, n))
            continue;
        *out = p->plan;
        begin(p, row_key, n, out);
        return 1;
    }
    return 0;
}

static void release(struct dv_vec_kept_plan *p)
{
    if (p)
        dv_release(p->whole.code);
    dv_release(p);
}

// Without memory there is one plan less.
static void add(dv_vec_kept *k, const uint64_t *words, const uint64_t *row_key,
                int n, dv_vec_plan *plan)
{
    size_t key = (size_t)n * sizeof *words;
    size_t ops = (size_t)plan->n * sizeof *plan->ops;
    size_t pool = (size_t)plan->n_pool * sizeof *plan->pool;
    int at = k->next;
    size_t code = (size_t)plan->n * CODE_PER_OP;
    if (2 * key + ops + pool + code > DV_VEC_KEPT_BYTES)
        return;
    struct dv_vec_kept_plan *p =
        dv_alloc(sizeof *p + 2 * key + pool + ops + code);
    if (!p)
        return;
    p->plan = *plan;
    p->mixed = mix(words, n);
    p->n = n;
    memcpy(p->words, words, key);
    p->plan.pool = (dv_vec_const *)(p->words + 2 * n);
    p->plan.ops = (dv_vec_mop *)(p->plan.pool + plan->n_pool);
    if (pool)
        memcpy(p->plan.pool, plan->pool, pool);
    memcpy(p->plan.ops, plan->ops, ops);
    p->runs = (dv_vec_runs){
        .n = -1,
        .code = (unsigned char *)(p->plan.ops + plan->n),
        .cap = (int32_t)code,
    };
    p->whole = (dv_vec_whole){.n = -1};
    begin(p, row_key, n, plan);
    release(k->plans[at]);
    k->plans[at] = p;
    k->next = (at + 1) % DV_VEC_KEPT;
}

int dv_vec_kept_write(dv_vec_kept *k, const dv_vec_isa *isa,
                      const dv_vec_shape *shape, const uint64_t *key, int n,
                      dv_code *code, dv_vec_kept_from *from)
{
    uint64_t row_key[DV_VEC_USUAL], words[DV_VEC_USUAL];
    int keeps = n <= DV_VEC_USUAL;
    if (keeps) {
        memcpy(row_key, key, (size_t)n * sizeof *key);
        dv_vec_row_key(row_key);
        *from = DV_VEC_FROM_WHOLE;
        if (copy(k, isa, row_key, n, shape, code))
            return 1;
        memcpy(words, row_key, (size_t)n * sizeof *key);
        dv_vec_plan_key(words);
    }
    dv_vec_plan plan;
    dv_arena scratch = {0};
    if (keeps && find(k, words, row_key, n, &plan)) {
        *from = DV_VEC_FROM_PLAN;
        dv_vec_plan_again(&plan, shape, &scratch);
    } else {
        *from = DV_VEC_FROM_NONE;
        dv_vec_plan_make(&plan, shape, isa, &scratch);
        if (keeps && !plan.failed)
            add(k, words, row_key, n, &plan);
    }
    if (!plan.failed)
        isa->emit(code, &plan);
    dv_arena_free(&scratch);
    return !plan.failed;
}

void dv_vec_kept_free(dv_vec_kept *k)
{
    for (int i = 0; i < DV_VEC_KEPT; i++)
        release(k->plans[i]);
    *k = (dv_vec_kept){0};
}

// -- What back ends leave ----------------------------------------------------

// Accumulators have no distance that is given.
void dv_vec_leave_hole(const dv_vec_plan *p, int *n, dv_vec_hole hole)
{
    if (!p->whole || hole.operand >= p->n_given || *n > DV_VEC_MAX_HOLES)
        return;
    if (*n < DV_VEC_MAX_HOLES)
        p->whole->hole[*n] = hole;
    ++*n; // one more than there can be: nothing is left
}

// Without memory nothing is left.
void dv_vec_leave(dv_vec_whole *w, const dv_code *code, int n_holes)
{
    if (code->failed || n_holes > DV_VEC_MAX_HOLES ||
        code->n > DV_VEC_KEPT_BYTES)
        return;
    int32_t bytes = (int32_t)code->n;
    if (bytes > w->cap) {
        dv_release(w->code);
        w->code = dv_alloc(code->n);
        w->cap = w->code ? bytes : 0;
    }
    if (!w->code)
        return;
    memcpy(w->code, code->at, code->n);
    w->bytes = bytes;
    w->n = n_holes;
}

const dv_vec_operand *dv_vec_operand_of(const dv_vec_shape *s, int number)
{
    for (; number >= s->n_operands; s = s->beside)
        number -= s->n_operands;
    return &s->operands[number];
}
