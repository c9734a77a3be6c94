// Kernels of jit/vec/vec.h that differ in the distance from row to row alone: a
// copy of the code, in which the instructions are others that add it.
#include "jit/a64/vec_arith.h"

int dv_a64_vec_fill(dv_code *code, const dv_vec_whole *w, const dv_vec_shape *s)
{
    dv_gen g = {.code = code};
    if (code->cap < (size_t)w->bytes)
        return 0;
    memcpy(code->at, w->code, (size_t)w->bytes);
    for (int i = 0; i < w->n; i++) {
        const dv_vec_hole *h = &w->hole[i];
        const dv_vec_operand *o = dv_vec_operand_of(s, h->operand);
        code->n = (size_t)h->at;
        dv_gen_add(&g, h->to, h->from,
                   o->outer * dv_dtype_get((dv_dtype)o->dtype)->size_bytes);
        if (code->n != (size_t)(h->at + h->bytes) || code->failed) {
            code->n = 0;
            code->failed = 0;
            return 0;
        }
    }
    code->n = (size_t)w->bytes;
    return 1;
}
