#include "exec/op/operand_copy.h"
#include "base/dtype.h"
#include "jit/backend.h"
#include <stdlib.h>

static int is_last(const dv_operand_copy_spec *spec, int32_t v)
{
    for (int32_t i = 0; i < spec->n_last; i++)
        if (spec->last[i] == v)
            return 1;
    return 0;
}

static void put(dv_operand_copy *w, const dv_operand_copy_spec *spec, int32_t v)
{
    w->coef[w->n_vars] = spec->flat->coef[v];
    w->var[w->n_vars++] = v;
}

// Orders the variables by decreasing stride, so that the source is read
// sequentially and contiguous elements stay contiguous, and then appends the
// variables that must be innermost.
static void order_vars(dv_operand_copy *w, const dv_operand_copy_spec *spec)
{
    for (int32_t v = 0; v < spec->n_vars; v++) {
        if (spec->flat->coef[v] == 0 || is_last(spec, v))
            continue;
        int32_t at = w->n_vars;
        put(w, spec, v);
        for (; at > 0 && llabs(w->coef[at - 1]) < llabs(spec->flat->coef[v]);
             at--) {
            w->coef[at] = w->coef[at - 1];
            w->var[at] = w->var[at - 1];
        }
        w->coef[at] = spec->flat->coef[v];
        w->var[at] = v;
    }
    for (int32_t i = 0; i < spec->n_last; i++)
        if (spec->flat->coef[spec->last[i]] != 0)
            put(w, spec, spec->last[i]);
}

int dv_operand_copy_init(dv_operand_copy *w, const dv_operand_copy_spec *spec,
                         dv_jit *jit)
{
    dv_dtype compute = spec->to == DV_F64      ? DV_F64
                       : dv_is_float(spec->to) ? DV_F32
                                               : DV_I32;
    *w = (dv_operand_copy){.elem_bytes = dv_dtype_get(spec->dtype)->size_bytes,
                           .copy_bytes = dv_dtype_get(spec->to)->size_bytes};
    order_vars(w, spec);
    if (!dv_vec_loads(spec->dtype, compute) ||
        !dv_vec_stores_on(dv_jit_isa(jit), spec->to, compute))
        return 0;
    int64_t step = w->n_vars ? w->coef[w->n_vars - 1] : 0;
    if (llabs(step) > DV_VEC_MAX_STRIDE)
        return 0;
    dv_vec_operand operands[2] = {
        {.inner = step, .dtype = (uint8_t)spec->dtype},
        {.inner = 1, .dtype = (uint8_t)spec->to}};
    dv_vec_node load = {.kind = DV_VEC_LOAD};
    dv_vec_shape shape = {.operands = operands,
                          .nodes = &load,
                          .n_operands = 2,
                          .n_nodes = 1,
                          .compute = (uint8_t)compute,
                          .reduce = DV_VEC_EACH};
    return dv_jit_vec(jit, &shape, &w->copy, NULL) == DV_OK;
}

int64_t dv_operand_copy_strides(const dv_operand_copy *w, const int64_t *begin,
                                const int64_t *end, int32_t n_vars,
                                int64_t *steps)
{
    int64_t n = 1;
    for (int32_t v = 0; v < n_vars; v++)
        steps[v] = 0;
    for (int32_t i = w->n_vars - 1; i >= 0; i--) {
        steps[w->var[i]] = n;
        n *= end[w->var[i]] - begin[w->var[i]];
    }
    return n;
}

void dv_operand_copy_run(const dv_operand_copy *w, const int64_t *begin,
                         const int64_t *end, const void *from, void *to)
{
    char *at_row = to;
    int32_t last = w->n_vars - 1;
    int64_t at[DV_MAX_VARS] = {0};
    int64_t n = last < 0 ? 1 : end[w->var[last]] - begin[w->var[last]];
    for (;;) {
        int64_t off = 0;
        for (int32_t i = 0; i < last; i++)
            off += at[i] * w->coef[i];
        void *both[2] = {(char *)from + off * w->elem_bytes, at_row};
        w->copy(&(dv_vec_args){1, n, both, NULL});
        at_row += n * w->copy_bytes;
        int32_t i = last - 1;
        while (i >= 0 && ++at[i] == end[w->var[i]] - begin[w->var[i]])
            at[i--] = 0;
        if (i < 0)
            return;
    }
}
