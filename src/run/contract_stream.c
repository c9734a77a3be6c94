// Results that no cache holds, where every element is written once: kernels
// leave a block in the thread's buffer, and a copy of whole lines takes it from
// there to memory, which need not be read first then.
//
// Rows of a block are whole lines, or they follow each other and are one long
// row. Whether they begin at a line is asked by the copy, which is a usual one
// where they do not.
#include "base/dtype.h"
#include "base/math.h"
#include "jit/host.h"
#include "run/contract_in.h"

enum { LINE = 64, MOST_BYTES = 256 << 10, COMMON_L3 = 16 << 20 };

static int is_large(const dv_contract *c, const dv_contract_options *o)
{
    int64_t lo, hi, l3 = o->l3_bytes ? o->l3_bytes : COMMON_L3;
    return dv_nest_extent(&c->n, DV_OUT, &lo, &hi) &&
           (hi - lo) / 2 > l3 / c->es;
}

static int is_dense(const dv_contract *c)
{
    return c->row.size == 1 ||
           (!c->col.whole &&
            c->n.dims[c->form.row].stride[DV_OUT] == c->col.size);
}

static int has_whole_lines(const dv_contract *c)
{
    int64_t row = c->n.dims[c->form.row].stride[DV_OUT];
    return c->col.size * c->es % LINE == 0 && c->col.rest * c->es % LINE == 0 &&
           row * c->es % LINE == 0 && row <= DV_FORM_MAX_STEP;
}

void ct_choose_stream(dv_contract *c, const dv_isa *isa,
                      const dv_contract_options *o)
{
    int64_t bytes;
    if (!isa->streams || c->form.pack[DV_OUT] != DV_FORM_NEVER ||
        c->n.combine || c->points || !c->zero_first || !is_large(c, o) ||
        !dv_mul_i64(&bytes, c->row.size, c->col.size * c->es) ||
        bytes > MOST_BYTES || (!is_dense(c) && !has_whole_lines(c)))
        return;
    for (int l = 0; l < c->n_loops; l++)
        if (c->loops[l].is_k)
            return; // written more than once
    c->streams = 1;
    c->buffer_bytes[DV_OUT] = (bytes + 255) / 256 * 256;
}

dv_status ct_make_stream(dv_contract *c, dv_jit *jit, dv_diag *diag)
{
    for (int i = 0; i < 4; i++) {
        int64_t rows = i / 2 ? c->row.rest : c->row.size;
        int64_t cols = i % 2 ? c->col.rest : c->col.size;
        dv_move_shape s = {.dtype = (uint8_t)c->n.dtype,
                           .move = DV_MOVE_COPY,
                           .stream = 1,
                           .rows = (int32_t)rows,
                           .cols = (int32_t)cols,
                           .lds = c->col.size};
        if (!rows || !cols)
            continue;
        if (is_dense(c)) {
            s.rows = 1;
            s.cols = (int32_t)(rows * cols);
            s.lds = 0;
        } else {
            s.ldd = c->n.dims[c->form.row].stride[DV_OUT];
        }
        DV_TRY(dv_jit_move(jit, &s, &c->stream[i / 2][i % 2], diag));
    }
    return DV_OK;
}
