// Packs operands before the runs of a plan: constants, whose elements are the
// same in all runs. What is packed has the layout that the kernels of the plan
// read; all blocks follow each other, in the order in which a run reads them:
//
//   A   for each chunk of k: its blocks of rows
//   B   for each chunk of k: its panels
#include "jit/gemm/plan.h"
#include <string.h>

int dv_gemm_plan_given(const dv_gemm_plan *plan)
{
    return plan->given;
}

int64_t dv_gemm_plan_given_bytes(const dv_gemm_plan *plan, int operand)
{
    int64_t chunks = dv_ceil_div(plan->s.k, plan->kc);
    if (!(plan->given & operand))
        return 0;
    return chunks * (operand == DV_GIVEN_B ? plan->b_chunk_bytes
                                           : dv_ceil_div(plan->s.m, plan->mc) *
                                                 plan->a_block_bytes);
}

// Generates the kernel that packs block number `row` of the rows of A in chunk
// number i of k before the runs. It multiplies A by one vector of columns, but
// only its packing is used; the products are discarded.
static dv_status make_pack_a(dv_gemm_plan *plan, int32_t i, int32_t row,
                             dv_jit *jit, dv_diag *diag)
{
    dv_gemm_shape s = {.dtype = plan->s.dtype,
                       .trans_a = plan->s.trans_a,
                       .lda = plan->s.lda,
                       .n = (int32_t)plan->lanes,
                       .ldb = plan->lanes,
                       .ldc = plan->lanes,
                       .panel_a = (uint8_t)plan->height,
                       .pack_a = 1,
                       .one_sum = 1};
    int kind = dv_gemm_piece(plan->s.k, plan->kc, i, &s.k);
    int block = dv_gemm_piece(plan->s.m, plan->mc, row, &s.m);
    return dv_jit_gemm(jit, &s, &plan->give_a[kind][block], diag);
}

dv_status dv_gemm_make_given(dv_gemm_plan *plan, dv_jit *jit, dv_diag *diag)
{
    int32_t chunks = (int32_t)dv_ceil_div(plan->s.k, plan->kc);
    int32_t blocks = (int32_t)dv_ceil_div(plan->s.m, plan->mc);
    if (!(plan->given & DV_GIVEN_A) || plan->pairs)
        return DV_OK; // moves pack operands of matrix instructions
    for (int32_t i = 0; i < chunks; i = dv_gemm_next_kind(i, chunks))
        for (int32_t row = 0; row < blocks;
             row = dv_gemm_next_kind(row, blocks))
            DV_TRY(make_pack_a(plan, i, row, jit, diag));
    return DV_OK;
}

static dv_status give_a(const dv_gemm_plan *plan, const unsigned char *a,
                        unsigned char *to, dv_diag *diag)
{
    const dv_gemm_shape *s = &plan->s;
    int64_t row = s->trans_a ? 1 : s->lda, col = s->trans_a ? s->lda : 1;
    size_t b_bytes = (size_t)(plan->kc * plan->lanes * plan->es);
    size_t c_bytes = (size_t)(plan->mc * plan->lanes * plan->es_sum);
    unsigned char *zeros = plan->pairs ? NULL : dv_alloc_buffer(b_bytes);
    unsigned char *sums = plan->pairs ? NULL : dv_alloc_buffer(c_bytes);
    int ok = plan->pairs || (zeros && sums);
    if (zeros)
        memset(zeros, 0, b_bytes);
    for (int32_t k0 = 0; ok && k0 < s->k; k0 += plan->kc)
        for (int32_t m0 = 0; m0 < s->m; m0 += plan->mc) {
            dv_gemm_block at = dv_gemm_block_at(plan, k0, m0);
            const unsigned char *from = a + (m0 * row + k0 * col) * plan->es;
            if (plan->pairs)
                dv_gemm_pack_rows(plan, &at, from, to);
            else
                plan->give_a[at.k_kind][at.m_kind](
                    from, zeros, sums, &(dv_gemm_args){.pack_a = to});
            to += plan->a_block_bytes;
        }
    dv_release(zeros);
    dv_release(sums);
    return ok ? DV_OK : dv_nomem(diag);
}

// Packs a panel of B whose rows are contiguous: k rows of `cols` elements, each
// filled with zeros up to whole vectors.
static void give_rows(const dv_gemm_plan *plan, const unsigned char *b,
                      unsigned char *to, int32_t cols, int32_t k)
{
    size_t row = (size_t)(cols * plan->es);
    size_t room = (size_t)(dv_gemm_ldb(plan, cols) * plan->es);
    for (int32_t i = 0; i < k; i++) {
        memcpy(to, b, row);
        memset(to + row, 0, room - row);
        to += room;
        b += plan->s.ldb * plan->es;
    }
}

static void give_b(const dv_gemm_plan *plan, const unsigned char *b,
                   unsigned char *all)
{
    const dv_gemm_shape *s = &plan->s;
    int64_t row = s->trans_b ? 1 : s->ldb, col = s->trans_b ? s->ldb : 1;
    for (int32_t k0 = 0; k0 < s->k; k0 += plan->kc) {
        int32_t n0 = 0;
        dv_gemm_block at = dv_gemm_block_at(plan, k0, 0);
        unsigned char *to = all + k0 / plan->kc * plan->b_chunk_bytes;
        for (int run = 0; run < plan->n_cols; run++)
            for (int32_t i = 0; i < plan->cols[run].n; i++) {
                int32_t cols = plan->cols[run].size;
                const unsigned char *from =
                    b + (k0 * row + n0 * col) * plan->es;
                if (plan->pairs || s->trans_b)
                    plan->pack_b[at.k_kind][run](from, to);
                else
                    give_rows(plan, from, to, cols, at.k);
                to += dv_gemm_b_bytes(plan, cols, at.k);
                n0 += cols;
            }
    }
}

dv_status dv_gemm_plan_give(const dv_gemm_plan *plan, int operand,
                            const void *from, void *to, dv_diag *diag)
{
    if (operand == DV_GIVEN_A)
        return give_a(plan, from, to, diag);
    give_b(plan, from, to);
    return DV_OK;
}
