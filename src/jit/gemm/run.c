// Runs the plans of matrix products; gemm.h shows the loop nest.
#include "jit/gemm/plan.h"
#include <stdatomic.h>

typedef struct job {
    const dv_gemm_plan *plan;
    const unsigned char *a, *b;
    unsigned char *c;
    const dv_gemm_args *args;
    int32_t k0, k; // first index and length of the current chunk of k
    int kind, last;
} job;

static const void *b_at(const job *w, int32_t n0)
{
    const dv_gemm_shape *s = &w->plan->s;
    int64_t row = s->trans_b ? 1 : s->ldb, col = s->trans_b ? s->ldb : 1;
    return w->b + (w->k0 * row + n0 * col) * w->plan->es;
}

static const void *a_at(const job *w, int32_t m0)
{
    const dv_gemm_shape *s = &w->plan->s;
    int64_t row = s->trans_a ? 1 : s->lda, col = s->trans_a ? s->lda : 1;
    return w->a + (m0 * row + w->k0 * col) * w->plan->es;
}

static void prepare(const job *w, const dv_pack_moves *how, const void *from,
                    void *to)
{
    how->move(from, how->then ? w->plan->t : to);
    if (how->then)
        how->then(w->plan->t, to);
}

// Packs a block of rows of A into panels, for operands that are packed before
// use.
static void pack_rows(const job *w, int block, int32_t m0, int32_t rows)
{
    unsigned char *to = w->plan->buf_a;
    dv_runs runs = dv_gemm_rows(w->plan, rows);
    for (int i = 0; i < runs.n; i++)
        for (int j = 0; j < runs.count[i]; j++, m0 += runs.size[i]) {
            prepare(w, &w->plan->pack_a[w->kind][block][i], a_at(w, m0), to);
            to += dv_gemm_a_bytes(w->plan, runs.size[i], w->k);
        }
}

typedef struct panel {
    // Number of the run of equally wide panels of B that this panel belongs to.
    int run;
    int32_t n0;       // first column of the panel
    unsigned char *b; // address of the packed panel
    int packs;        // 1: the panel is not packed yet, so multiply() packs it
} panel;

// Returns the arguments of a kernel whose first element of C is (m0, n0): the
// bias begins with that element's row or column.
static dv_gemm_args args_at(const job *w, int32_t m0, int32_t n0)
{
    int bias = w->plan->s.bias;
    dv_gemm_args args = w->args ? *w->args : (dv_gemm_args){0};
    if (bias)
        args.bias = (const unsigned char *)args.bias +
                    (bias == DV_BIAS_M ? m0 : n0) * w->plan->es_sum;
    return args;
}

// Multiplies a block of rows of A by one panel of B and adds into c; packs the
// panel first if needed.
static void multiply(const job *w, int kind, int32_t m0, unsigned char *c,
                     const panel *at, int packs_a)
{
    const dv_gemm_plan *plan = w->plan;
    int before = plan->apart || plan->s.trans_b;
    dv_gemm_args args = args_at(w, m0, at->n0);
    dv_gemm_packing way = packs_a                ? DV_PACKS_A
                          : at->packs && !before ? DV_PACKS_B
                                                 : DV_PACKS_NONE;
    if (at->packs && before)
        prepare(w, &plan->pack_b[w->kind][at->run], b_at(w, at->n0), at->b);
    args.pack_a = plan->buf_a;
    args.pack_b = at->b;
    plan->kernels[w->kind][kind][at->run][way](
        packs_a ? a_at(w, m0) : plan->buf_a,
        at->packs && !before ? b_at(w, at->n0) : at->b,
        c + at->n0 * plan->es_sum, &args);
}

// Multiplies a block of rows of A by all panels of B. The first panel also
// packs A and the first block of rows packs B, unless the operands were packed
// before.
static void block(const job *w, int kind, int32_t m0, int32_t rows,
                  unsigned char *c)
{
    const dv_gemm_plan *plan = w->plan;
    panel at = {.b = plan->buf_b, .packs = kind == DV_FIRST};
    for (; at.run < plan->n_cols; at.run++) {
        const dv_panels *r = &plan->cols[at.run];
        int64_t bytes = dv_gemm_b_bytes(plan, r->size, w->k);
        for (int32_t i = 0; i < r->n; i++, at.n0 += r->size) {
            multiply(w, kind, m0, c, &at, at.n0 == 0 && !plan->apart);
            at.b += plan->one_block ? 0 : bytes;
        }
    }
    if (w->last && w->args && w->args->then)
        w->args->then(w->args->user, c, rows, plan->s.n);
}

// Multiplies a block of rows by all panels of B for a narrow C (f16 or bf16):
// sums are accumulated in a buffer and rounded after the last chunk of k. The
// buffer holds one block of rows if k is a single chunk, else all of C.
static void narrow_block(const job *w, int kind, int32_t m0, int32_t rows)
{
    const dv_gemm_plan *plan = w->plan;
    unsigned char *c = w->c + m0 * plan->s.ldc * plan->es_out;
    unsigned char *sums = plan->sums;
    if (plan->kc < plan->s.k)
        sums += m0 * dv_gemm_ldc(plan) * plan->es_sum;
    if (w->k0 == 0 && plan->s.beta != DV_SCALE_ZERO)
        plan->widen_c[kind](c, sums);
    block(w, kind, m0, rows, sums);
    if (w->last)
        plan->narrow_c[kind](sums, c);
}

static void packed(job *w)
{
    const dv_gemm_plan *plan = w->plan;
    for (int32_t i = 0; w->k0 < plan->s.k; i++, w->k0 += plan->kc) {
        w->kind = dv_gemm_piece(plan->s.k, plan->kc, i, &w->k);
        w->last = w->k0 + w->k == plan->s.k;
        for (int32_t m0 = 0; m0 < plan->s.m; m0 += plan->mc) {
            int32_t rows;
            int kind = dv_gemm_piece(plan->s.m, plan->mc, m0 / plan->mc, &rows);
            if (plan->apart)
                pack_rows(w, kind, m0, rows);
            if (plan->out != plan->sum)
                narrow_block(w, kind, m0, rows);
            else
                block(w, kind, m0, rows,
                      w->c + m0 * plan->s.ldc * plan->es_sum);
        }
    }
}

// Runs the products of a batch one after the other, summed into C.
static void run_batch(const dv_gemm_plan *plan, const void *a, const void *b,
                      void *c, const dv_gemm_args *args)
{
    const dv_gemm_shape *s = &plan->s;
    dv_gemm_args before = args ? *args : (dv_gemm_args){0};
    // Products before the last one make no callback, because C holds partial
    // sums until the last product.
    before.then = NULL;
    for (int32_t i = 0; i < s->batch; i++) {
        const unsigned char *x = a, *y = b;
        const dv_gemm_plan *one =
            plan->turn[i == 0             ? DV_BATCH_FIRST
                       : i + 1 < s->batch ? DV_BATCH_MIDDLE
                                          : DV_BATCH_LAST];
        x += i * s->stride_a * one->es;
        y += i * s->stride_b * one->es;
        dv_gemm_run(one, x, y, c, i + 1 < s->batch ? &before : args);
    }
}

void dv_gemm_run(const dv_gemm_plan *plan, const void *a, const void *b,
                 void *c, const dv_gemm_args *args)
{
    job w = {.plan = plan, .a = a, .b = b, .c = c, .args = args};
    if (plan->turn[DV_BATCH_FIRST]) {
        run_batch(plan, a, b, c, args);
        return;
    }
    if (plan->direct) {
        dv_gemm_args own = args_at(&w, 0, 0);
        plan->direct(a, b, c, &own);
        if (own.then)
            own.then(own.user, c, plan->s.m, plan->s.n);
    } else {
        packed(&w);
    }
    if (plan->s.stream) // makes non-temporal stores to C visible to others
        atomic_thread_fence(memory_order_seq_cst);
}
