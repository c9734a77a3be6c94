// Converts divisions (numbers of slices per variable) to and from the encoding
// of Torch-Spyre, the PyTorch backend of IBM's Spyre accelerator; see
// spyre_encode.h.
#include "harness/spyre_encode.h"
#include <inttypes.h>

// Returns the stride by which Torch-Spyre identifies variable v: its stride in
// the write (*written is 1) or else in the first read. Returns 0 if v is in
// neither.
static int64_t name_of(const dv_program *p, const dv_op *op, int v,
                       int *written)
{
    int64_t f = dv_access_step(p, &op->write, v);
    *written = f != 0;
    if (f == 0 && op->n_reads > 0)
        f = dv_access_step(p, &op->reads[0], v);
    return f;
}

// Returns another variable that Torch-Spyre's encoding cannot tell from v,
// because it has the same stride; -1 if there is none.
static int twin_of(const dv_program *p, const dv_op *op, int v)
{
    int written, other;
    int64_t f = name_of(p, op, v, &written);
    for (int u = 0; u < op->n_vars; u++)
        if (u != v && dv_var_len(op, u) > 1 && name_of(p, op, u, &other) == f &&
            other == written)
            return u;
    return -1;
}

dv_status dv_encode(dv_encoded *out, const dv_program *p, const dv_op *op,
                    const int64_t *splits, dv_diag *diag)
{
    dv_loc at = {&p->src, op->off};
    *out = (dv_encoded){.n_written = 0};
    for (int v = 0; v < op->n_vars; v++) {
        int written;
        int64_t f = name_of(p, op, v, &written);
        if (splits[v] <= 1)
            continue;
        if (f == 0)
            return dv_fail(diag, DV_E_CHECK, at,
                           "%s: %s is in neither the write nor the first read: "
                           "its %" PRId64 " slices have no key",
                           op->name, op->vars[v].name, splits[v]);
        int twin = twin_of(p, op, v);
        if (twin >= 0)
            return dv_fail(diag, DV_E_CHECK, at,
                           "%s: %s and %s both have the key %" PRId64, op->name,
                           op->vars[v].name, op->vars[twin].name, f);
        dv_coded c = {f, splits[v]};
        if (written)
            out->written[out->n_written++] = c;
        else
            out->reduced[out->n_reduced++] = c;
    }
    return DV_OK;
}

static dv_status decode_map(int64_t *splits, const dv_program *p,
                            const dv_op *op, const dv_coded *map, int n,
                            int is_written, dv_diag *diag)
{
    for (int i = 0; i < n; i++) {
        int found = -1;
        for (int v = 0; v < op->n_vars; v++) {
            int written;
            if (name_of(p, op, v, &written) != map[i].factor ||
                written != is_written || dv_var_len(op, v) == 1)
                continue;
            if (found >= 0)
                return dv_fail(diag, DV_E_CHECK, (dv_loc){&p->src, op->off},
                               "%s: the key %" PRId64 " names %s and %s",
                               op->name, map[i].factor, op->vars[found].name,
                               op->vars[v].name);
            found = v;
        }
        if (found < 0)
            return dv_fail(diag, DV_E_CHECK, (dv_loc){&p->src, op->off},
                           "%s: the key %" PRId64 " names no variable",
                           op->name, map[i].factor);
        splits[found] = map[i].splits;
    }
    return DV_OK;
}

dv_status dv_decode(int64_t *splits, const dv_program *p, const dv_op *op,
                    const dv_encoded *e, dv_diag *diag)
{
    for (int v = 0; v < op->n_vars; v++)
        splits[v] = 1;
    DV_TRY(decode_map(splits, p, op, e->written, e->n_written, 1, diag));
    return decode_map(splits, p, op, e->reduced, e->n_reduced, 0, diag);
}
