// Decodes divisions of Torch-Spyre; see spyre_decode.h.
#include "harness/spyre_decode.h"
#include <inttypes.h>

static dv_status decode_map(int64_t *splits, const dv_program *p,
                            const dv_op *op, const dv_stride_split *map, int n,
                            int is_written, dv_diag *diag)
{
    for (int i = 0; i < n; i++) {
        int found = -1;
        for (int v = 0; v < op->n_vars; v++) {
            int written;
            if (dv_stride_key(p, op, v, &written) != map[i].stride ||
                written != is_written || dv_var_len(op, v) == 1)
                continue;
            if (found >= 0)
                return dv_fail(diag, DV_E_CHECK, (dv_loc){&p->src, op->off},
                               "%s: the key %" PRId64 " names %s and %s",
                               op->name, map[i].stride, op->vars[found].name,
                               op->vars[v].name);
            found = v;
        }
        if (found < 0)
            return dv_fail(diag, DV_E_CHECK, (dv_loc){&p->src, op->off},
                           "%s: the key %" PRId64 " names no variable",
                           op->name, map[i].stride);
        splits[found] = map[i].n;
    }
    return DV_OK;
}

dv_status dv_decode(int64_t *splits, const dv_program *p, const dv_op *op,
                    const dv_stride_splits *e, dv_diag *diag)
{
    for (int v = 0; v < op->n_vars; v++)
        splits[v] = 1;
    DV_TRY(decode_map(splits, p, op, e->output, e->n_output, 1, diag));
    return decode_map(splits, p, op, e->reduction, e->n_reduction, 0, diag);
}
