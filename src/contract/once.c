// Packs inputs whose elements never change, once for all runs. A run finds a
// packed block for each iteration of the loops around, as far as they move in
// the input, in the order of these iterations:
//
//   c 13 seq pack in1     13 blocks of in1
//   j  7 seq              (in1 does not depend on j)
//   …  prim               the kernel
//
// If a GEMM plan runs the dimensions of the kernel, blocks are what it reads.
#include "base/math.h"
#include "contract/state.h"
#include <string.h>

void ct_set_once(dv_contraction *c, int operand, int at, int64_t bytes)
{
    c->once |= (uint8_t)(1 << operand);
    c->once_at[operand] = at;
    c->once_bytes[operand] = dv_round_up(bytes, 256);
}

void ct_set_given(dv_contraction *c)
{
    for (int i = 0; i < 2; i++) {
        int as = i == c->form.in_row ? DV_GIVEN_A : DV_GIVEN_B;
        if (dv_gemm_plan_given(c->plan) & as)
            ct_set_once(c, i, c->n_loops - 1,
                        dv_gemm_plan_given_bytes(c->plan, as));
    }
}

// Returns whether iterations of the loop access different elements of the
// input.
static int moves(const dv_contraction *c, int loop, int operand)
{
    return c->n.dims[loop].size > 1 && c->n.dims[loop].stride[operand] != 0;
}

const unsigned char *ct_once_block(const dv_contraction_cursor *t, int operand)
{
    const dv_contraction *c = t->c;
    int64_t block = 0;
    for (int l = 0; l <= c->once_at[operand]; l++)
        if (moves(c, l, operand))
            block = block * c->loops[l].size + t->i[l];
    return t->packed[operand] + block * c->once_bytes[operand];
}

int dv_contraction_once(const dv_contraction *c)
{
    return c->once;
}

int dv_contraction_packs_in_run(const dv_contraction *c, int operand)
{
    // A GEMM plan packs rows with a kernel that needs memory for its products.
    return c->once >> operand & 1 && !(c->plan && operand == c->form.in_row);
}

int64_t dv_contraction_once_bytes(const dv_contraction *c, int operand)
{
    int64_t bytes = c->once_bytes[operand];
    if (!(c->once >> operand & 1))
        return 0;
    for (int l = 0; l <= c->once_at[operand]; l++)
        if (moves(c, l, operand) &&
            !dv_mul_i64(&bytes, bytes, c->loops[l].size))
            return INT64_MAX;
    return bytes;
}

// Packs an input's blocks in all iterations of loop l and the loops inside it.
static dv_status pack_loops(dv_contraction_cursor *t, int operand, int l,
                            const unsigned char *from, dv_diag *diag)
{
    const dv_contraction *c = t->c;
    if (l > c->once_at[operand]) {
        void *to = (void *)(uintptr_t)ct_once_block(t, operand);
        if (c->plan)
            return dv_gemm_plan_give(
                c->plan, operand == c->form.in_row ? DV_GIVEN_A : DV_GIVEN_B,
                from, to, diag);
        t->buffer[operand] = to;
        ct_pack(c, t, operand, from);
        return DV_OK;
    }
    const ct_loop *p = &c->loops[l];
    int64_t first,
        n = ct_iterations(t, p->size, p->whole, p->unit, p->outer, &first);
    int64_t step = c->n.dims[l].stride[operand] * c->es_in;
    for (int64_t i = 0; i < (moves(c, l, operand) ? n : 1); i++) {
        t->i[l] = i;
        t->at[l] = first + i * p->unit;
        DV_TRY(pack_loops(t, operand, l + 1, from + i * step, diag));
    }
    return DV_OK;
}

// Returns whether packed blocks have padding: positions without an element.
static int has_gaps(const dv_contraction *c, int operand)
{
    int64_t bytes = c->es_in;
    for (int d = 0; d < c->n.n_dims; d++)
        if (c->n.dims[d].stride[operand] &&
            !dv_mul_i64(&bytes, bytes, c->n.dims[d].size))
            return 1;
    return bytes != dv_contraction_once_bytes(c, operand);
}

dv_status dv_contraction_pack(const dv_contraction *c, int operand,
                              const void *from, void *to, dv_diag *diag)
{
    dv_contraction_cursor t = {.c = c};
    t.packed[operand] = to;
    // Kernels read whole vectors, and with them the padding of blocks and what
    // a block lacks that is cut short; both must be defined.
    if (has_gaps(c, operand))
        memset(to, 0, (size_t)dv_contraction_once_bytes(c, operand));
    return pack_loops(&t, operand, 0, from, diag);
}
