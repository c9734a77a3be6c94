// Kernels of jit/vec/vec.h that differ in the distance from row to row alone: a
// copy of the code, in which the instructions are others that add it.
#include "jit/x64/vec.h"

static void put_distance(dv_x *g, int to, int from, int64_t bytes)
{
    if (to == from)
        dv_x_add(g, to, bytes);
    else
        dv_x_lea(g, to, from, bytes);
}

void dv_x_vec_add_row(dv_x_vec *m, int to, int from, int operand)
{
    const dv_vec_operand *o = &m->p->operands[operand];
    size_t at = m->gen.code->n;
    put_distance(&m->gen, to, from, o->outer * dv_x_size(o));
    dv_vec_hole hole = {(int32_t)at, (int32_t)(m->gen.code->n - at),
                        (uint8_t)to, (uint8_t)from, (uint16_t)operand};
    dv_vec_leave_hole(m->p, &m->n_holes, hole);
}

// Instructions are written elsewhere first: an encoder may touch what is behind
// them, and that is there already.
int dv_x_vec_fill(dv_code *code, const dv_vec_whole *w, const dv_vec_shape *s)
{
    unsigned char room[64];
    dv_code one = {.at = room, .cap = sizeof room};
    dv_x gen;
    if (code->cap < (size_t)w->bytes)
        return 0;
    dv_x_start_vb(&gen, &one, 32, 4);
    memcpy(code->at, w->code, (size_t)w->bytes);
    for (int i = 0; i < w->n; i++) {
        const dv_vec_hole *h = &w->hole[i];
        const dv_vec_operand *o = dv_vec_operand_of(s, h->operand);
        one.n = 0;
        put_distance(&gen, h->to, h->from, o->outer * dv_x_size(o));
        if (one.failed || one.n != (size_t)h->bytes)
            return 0;
        memcpy(code->at + h->at, room, one.n);
    }
    code->n = (size_t)w->bytes;
    return 1;
}
