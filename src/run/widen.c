#include "run/widen.h"
#include "base/dtype.h"
#include <stdlib.h>

// The variable with the shortest step goes last: rows are read in order.
static void order_vars(dv_widen *w, const dv_flat *flat, int32_t n_vars)
{
    int32_t best = -1;
    for (int32_t v = 0; v < n_vars; v++)
        if (flat->coef[v] != 0 &&
            (best < 0 || llabs(flat->coef[v]) <= llabs(flat->coef[best])))
            best = v;
    for (int32_t v = 0; v < n_vars; v++)
        if (flat->coef[v] != 0 && v != best) {
            w->coef[w->n_vars] = flat->coef[v];
            w->var[w->n_vars++] = v;
        }
    if (best >= 0) {
        w->coef[w->n_vars] = flat->coef[best];
        w->var[w->n_vars++] = best;
    }
}

int dv_widen_init(dv_widen *w, const dv_flat *flat, int32_t n_vars,
                  dv_dtype dtype, dv_jit *jit)
{
    *w = (dv_widen){.elem_bytes = dv_dtype_get(dtype)->size_bytes};
    order_vars(w, flat, n_vars);
    if (!dv_jit_has_vec(jit) || !dv_vec_loads(dtype, DV_F32))
        return 0;
    int64_t step = w->n_vars ? w->coef[w->n_vars - 1] : 0;
    if (llabs(step) > DV_VEC_MAX_STRIDE)
        return 0;
    dv_vec_operand operands[2] = {{.inner = step, .dtype = (uint8_t)dtype},
                                  {.inner = 1, .dtype = DV_F32}};
    dv_vec_node load = {.kind = DV_VEC_LOAD};
    dv_vec_shape shape = {.operands = operands,
                          .nodes = &load,
                          .n_operands = 2,
                          .n_nodes = 1,
                          .compute = DV_F32,
                          .reduce = DV_VEC_EACH};
    return dv_jit_vec(jit, &shape, &w->copy, NULL) == DV_OK;
}

int64_t dv_widen_steps(const dv_widen *w, const int64_t *begin,
                       const int64_t *end, int32_t n_vars, int64_t *steps)
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

void dv_widen_run(const dv_widen *w, const int64_t *begin, const int64_t *end,
                  const void *from, float *to)
{
    int32_t last = w->n_vars - 1;
    int64_t at[DV_MAX_VARS] = {0};
    int64_t n = last < 0 ? 1 : end[w->var[last]] - begin[w->var[last]];
    for (;;) {
        int64_t off = 0;
        for (int32_t i = 0; i < last; i++)
            off += at[i] * w->coef[i];
        void *both[2] = {(char *)from + off * w->elem_bytes, to};
        w->copy(&(dv_vec_args){1, n, both, NULL});
        to += n;
        int32_t i = last - 1;
        while (i >= 0 && ++at[i] == end[w->var[i]] - begin[w->var[i]])
            at[i--] = 0;
        if (i < 0)
            return;
    }
}
