// Runs the plans of matrix products; gemm.h shows the loop nest. A run is a
// cursor over blocks, and dv_gemm_next calls all kernels.
#include "jit/gemm/plan.h"
#include <stdatomic.h>

static const void *b_at(const dv_gemm_cursor *g, int32_t n0)
{
    const dv_gemm_shape *s = &g->plan->s;
    int64_t row = s->trans_b ? 1 : s->ldb, col = s->trans_b ? s->ldb : 1;
    return g->b + (g->k0 * row + n0 * col) * g->plan->es;
}

static const void *a_at(const dv_gemm_cursor *g, int32_t m0)
{
    const dv_gemm_shape *s = &g->plan->s;
    int64_t row = s->trans_a ? 1 : s->lda, col = s->trans_a ? s->lda : 1;
    return g->a + (m0 * row + g->k0 * col) * g->plan->es;
}

// A block of rows of C in one chunk of k.
typedef struct block {
    dv_gemm_block of;
    int last;         // 1: it is the last chunk of k
    unsigned char *c; // where kernels write: in C or in the accumulators
} block;

void dv_gemm_pack_rows(const dv_gemm_plan *plan, const dv_gemm_block *at,
                       const unsigned char *from, unsigned char *to)
{
    int64_t row = (plan->s.trans_a ? 1 : plan->s.lda) * plan->es;
    dv_runs runs = dv_runs_whole(at->rows, plan->height);
    for (int i = 0; i < runs.n; i++)
        for (int j = 0; j < runs.count[i]; j++) {
            plan->pack_a[at->k_kind][at->m_kind][i](from, to);
            from += runs.size[i] * row;
            to += dv_gemm_a_bytes(plan, runs.size[i], at->k);
        }
}

// Returns the address of the packed block of A at the cursor: in the workspace,
// or in the copy of A that was packed before the run.
static unsigned char *packed_a(const dv_gemm_cursor *g)
{
    const dv_gemm_plan *plan = g->plan;
    int64_t blocks = dv_ceil_div(plan->s.m, plan->mc);
    if (!(plan->given & DV_GIVEN_A))
        return g->workspace;
    return (unsigned char *)(uintptr_t)g->a +
           (g->k0 / plan->kc * blocks + g->m0 / plan->mc) * plan->a_block_bytes;
}

// Begins and returns the block at the cursor. Sums of a narrow C (f16 or bf16)
// are accumulated in the workspace and rounded after the last chunk of k; the
// workspace has room for one block of rows if k is a single chunk, else for all
// of C.
static block begin_block(const dv_gemm_cursor *g)
{
    const dv_gemm_plan *plan = g->plan;
    const dv_gemm_shape *s = &plan->s;
    block at;
    at.of = dv_gemm_block_at(plan, g->k0, g->m0);
    at.last = g->k0 + at.of.k == s->k;
    at.c = g->c + g->m0 * s->ldc * plan->es_out;
    if (plan->pairs && !(plan->given & DV_GIVEN_A))
        dv_gemm_pack_rows(plan, &at.of, a_at(g, g->m0), g->workspace);
    if (plan->out == plan->sum)
        return at;
    unsigned char *sums = g->workspace + plan->sums_off;
    if (plan->kc < s->k)
        sums += g->m0 * dv_gemm_ldc(plan) * plan->es_sum;
    at.c = sums;
    return at;
}

// Returns the address of a packed panel of B in the cursor's chunk of k, which
// has k elements.
static unsigned char *packed_b(const dv_gemm_cursor *g, const dv_gemm_panel *p,
                               int32_t k)
{
    const dv_gemm_plan *plan = g->plan;
    if (!(plan->given & DV_GIVEN_B))
        return g->workspace + plan->b_off +
               (plan->one_block ? 0 : dv_gemm_b_bytes(plan, p->n0, k));
    return (unsigned char *)(uintptr_t)g->b +
           g->k0 / plan->kc * plan->b_chunk_bytes +
           dv_gemm_b_bytes(plan, p->n0, k);
}

// Advances to the next panel; returns 0 after the last one.
static int next_panel(const dv_gemm_plan *plan, dv_gemm_panel *p)
{
    const dv_panels *r = &plan->cols[p->run];
    p->n0 += r->size;
    if (++p->i < r->n)
        return 1;
    p->i = 0;
    return ++p->run < plan->n_cols;
}

// Returns the arguments of a kernel whose first element of C is (m0, n0): the
// bias begins with that element's row or column.
static dv_gemm_args args_at(const dv_gemm_cursor *g, int32_t m0, int32_t n0)
{
    int bias = g->plan->s.bias;
    dv_gemm_args args = g->args;
    if (bias)
        args.bias = (const unsigned char *)args.bias +
                    (bias == DV_BIAS_M ? m0 : n0) * g->plan->es_sum;
    return args;
}

// A kernel call: the kernel and its arguments.
typedef struct call {
    dv_gemm_fn kernel;
    const void *a, *b;
    void *c;
    dv_gemm_args args;
} call;

// Returns the call that multiplies a block of rows of A by one panel of B. In
// the first panel of a chunk of columns the kernel also packs A, and in the
// first block of rows it packs B, unless the operands are packed before use or
// before the run.
static call call_for(const dv_gemm_cursor *g, const block *at,
                     const dv_gemm_panel *p)
{
    const dv_gemm_plan *plan = g->plan;
    int packs_a =
        p->n0 == g->first.n0 && !plan->pairs && !(plan->given & DV_GIVEN_A);
    int packs_b = at->of.m_kind == DV_FIRST && !(plan->given & DV_GIVEN_B);
    unsigned char *b = packed_b(g, p, at->of.k);
    call x = {.a = packs_a ? a_at(g, g->m0) : packed_a(g),
              .b = b,
              .c = at->c + p->n0 * plan->es_sum,
              .args = args_at(g, g->m0, p->n0)};
    if (packs_b && (plan->pairs || plan->s.trans_b)) {
        plan->pack_b[at->of.k_kind][p->run](b_at(g, p->n0), b);
        packs_b = 0;
    }
    if (packs_b)
        x.b = b_at(g, p->n0);
    x.args.pack_a = g->workspace;
    x.args.pack_b = b;
    x.kernel = plan->kernels[at->of.k_kind][at->of.m_kind][p->run]
                            [packs_a   ? DV_PACKS_A
                             : packs_b ? DV_PACKS_B
                                       : DV_PACKS_NONE];
    return x;
}

// Ends a block, whose panels end before `next`: after the last chunk of k and
// of columns rounds it to a narrow C. Advances the cursor to the next block of
// rows or, at the end, to the next chunk of k or of columns.
static void end_block(dv_gemm_cursor *g, const block *at,
                      const dv_gemm_panel *next)
{
    const dv_gemm_plan *plan = g->plan;
    int ends = next->run == plan->n_cols;
    if (at->last && ends && plan->out != plan->sum)
        plan->narrow_c[at->of.m_kind](at->c, g->c + g->m0 * plan->s.ldc *
                                                        plan->es_out);
    g->m0 += plan->mc;
    if (g->m0 < plan->s.m)
        return;
    g->m0 = 0;
    g->k0 += plan->kc;
    if (g->k0 < plan->s.k || ends)
        return;
    g->k0 = 0;
    g->first = *next;
}

void dv_gemm_begin(dv_gemm_cursor *g, const dv_gemm_plan *plan, const void *a,
                   const void *b, void *c, void *workspace,
                   const dv_gemm_args *args)
{
    *g = (dv_gemm_cursor){
        .plan = plan, .a = a, .b = b, .c = c, .workspace = workspace};
    if (args)
        g->args = *args;
}

int dv_gemm_next(dv_gemm_cursor *g, dv_block *finished)
{
    const dv_gemm_plan *plan = g->plan;
    int done = 0;
    if (plan->direct && g->k0 < plan->s.k) {
        dv_gemm_args args = args_at(g, 0, 0);
        plan->direct(g->a, g->b, g->c, &args);
        *finished = (dv_block){g->c, plan->s.m, plan->s.n, plan->s.ldc};
        g->k0 = plan->s.k;
        done = 1;
    }
    while (!done && g->k0 < plan->s.k) {
        block at = begin_block(g);
        dv_gemm_panel p = g->first;
        int more;
        do {
            call x = call_for(g, &at, &p);
            x.kernel(x.a, x.b, x.c, &x.args);
            more = next_panel(plan, &p);
        } while (more && p.n0 - g->first.n0 < plan->nc);
        *finished = (dv_block){at.c, at.of.rows, plan->s.n, dv_gemm_ldc(plan)};
        done = at.last && !more;
        end_block(g, &at, &p);
    }
    if (!done && plan->s.stream) // makes non-temporal stores visible
        atomic_thread_fence(memory_order_seq_cst);
    return done;
}

void dv_gemm_run(const dv_gemm_plan *plan, const void *a, const void *b,
                 void *c, void *workspace, const dv_gemm_args *args)
{
    dv_gemm_cursor g;
    dv_block finished;
    dv_gemm_begin(&g, plan, a, b, c, workspace, args);
    while (dv_gemm_next(&g, &finished))
        ;
}
