// Describes the product of a shape for the generators of register tiles.
#include "jit/gemm/prod.h"

dv_prod dv_prod_of(const dv_gemm_shape *s, int es, int lanes)
{
    int64_t ld_a = s->lda * es, ld_b = s->ldb * es;
    int64_t step_a = s->stride_a * es, step_b = s->stride_b * es;
    int transposed = s->trans_b;
    dv_prod p = {.k = s->k, .batch = s->batch, .ldc = s->ldc * es};
    p.beta = s->beta;
    p.relu = s->relu;
    p.panel = s->panel_a && !s->pack_a;
    p.pack_s = s->pack_a;
    p.c_transposed = transposed;
    p.n_s = transposed ? s->n : s->m;
    p.n_v = transposed ? s->m : s->n;
    p.ld_s = transposed ? ld_b : ld_a;
    p.ld_v = transposed ? ld_a : ld_b;
    p.stride_s = transposed ? step_b : step_a;
    p.stride_v = transposed ? step_a : step_b;
    p.lane_k = transposed || !s->trans_a;
    p.tile_rows = s->panel_a;
    p.one_sum = s->one_sum;
    if (s->pack_b)
        p.pack_v = (s->n + lanes - 1) / lanes * lanes * es;
    p.bias = !s->bias ? 0 : (s->bias == DV_BIAS_M) != transposed ? 1 : 2;
    return p;
}

dv_prod dv_prod_joined(const dv_prod *p)
{
    dv_prod q = *p;
    int64_t k = (int64_t)p->k * p->batch;
    int follows = !p->lane_k && p->stride_s == p->k * p->ld_s;
    if (follows && p->stride_v == p->k * p->ld_v && k < INT32_MAX) {
        q.k = (int32_t)k;
        q.batch = 1;
    }
    return q;
}
