// Computes the layout of a contraction: strides of loops, panels and buffers.
#define _GNU_SOURCE // for MADV_HUGEPAGE
#include "base/math.h"
#include "contract/state.h"
#include <string.h>

#define MOST_ELEMS ((int64_t)1 << 40) // most elements of a buffer

static ct_prim prim_of(const dv_contraction *c, int dim)
{
    if (dim < 0)
        return (ct_prim){.size = 1, .outer = -1};
    const dv_nest_dim *d = &c->n.dims[dim];
    return (ct_prim){d->size, d->whole ? d->whole % d->size : 0, d->whole,
                     c->tiles.outer[dim]};
}

int64_t ct_size_in_way(const dv_contraction *c, int i, int way)
{
    int rest =
        (way & 1 && c->k_tails[0] == i) || (way & 2 && c->k_tails[1] == i);
    return rest ? c->k[i].rest : c->k[i].size;
}

dv_status ct_layout_prims(dv_contraction *c, dv_diag *diag)
{
    int ways = 0;
    c->row = prim_of(c, c->form.row);
    c->col = prim_of(c, c->form.col);
    c->k_tails[0] = c->k_tails[1] = -1;
    for (int i = 0; i < c->form.n_k; i++) {
        c->k[i] = prim_of(c, c->form.k[i]);
        if (!c->k[i].rest)
            continue;
        if (ways == 2)
            return dv_fail(diag, DV_E_LIMIT, DV_NOWHERE,
                           "more than 2 k of the kernel do not divide");
        c->k_tails[ways++] = i;
    }
    for (int way = 0; way < CT_K_VARIANTS; way++) {
        c->k_size[way] = 1;
        for (int i = 0; i < c->form.n_k; i++)
            if (!dv_mul_i64(&c->k_size[way], c->k_size[way],
                            ct_size_in_way(c, i, way)))
                c->k_size[way] = INT64_MAX;
    }
    int64_t limit = INT32_MAX / 64;
    if (c->row.size > limit || c->col.size > limit || c->k_size[0] > limit)
        return dv_fail(diag, DV_E_LIMIT, DV_NOWHERE,
                       "a kernel of %lldx%lldx%lld is too large",
                       (long long)c->row.size, (long long)c->col.size,
                       (long long)c->k_size[0]);
    return DV_OK;
}

void ct_layout_loops(dv_contraction *c)
{
    c->n_loops = c->form.n_loops;
    for (int l = 0; l < c->n_loops; l++) {
        const dv_nest_dim *d = &c->n.dims[l];
        c->loops[l] = (ct_loop){.size = d->size,
                                .whole = d->whole,
                                .unit = c->tiles.unit[l],
                                .outer = c->tiles.outer[l],
                                .is_k = d->type == DV_NEST_K};
        for (int o = 0; o < DV_N_OPERANDS; o++)
            c->loops[l].step[o] =
                d->size > 1 ? d->stride[o] * (o == DV_OUT ? c->es : c->es_in)
                            : 0;
    }
}

static void push(ct_cut *c, int64_t size, int64_t n)
{
    if (n > 0 && size > 0) {
        c->size[c->n] = (int32_t)size;
        c->count[c->n++] = (int32_t)n;
    }
}

// Cuts n columns into panels (groups of neighbouring columns that are packed
// together) of at most `vectors` vectors, as even as possible and the wide ones
// first. A last incomplete vector is in the last panel.
static ct_cut cut_columns(int64_t n, int64_t lanes, int32_t vectors)
{
    ct_cut out = {.n = 0};
    dv_cut c = dv_cut_even((int32_t)dv_ceil_div(n, lanes), vectors);
    int64_t size = c.size * lanes, left = n % lanes;
    int64_t low = c.n - (left && !c.n_larger);
    int64_t high = c.n_larger - (left && c.n_larger);
    push(&out, size + lanes, high);
    push(&out, size, low);
    push(&out, left ? n - low * size - high * (size + lanes) : 0, 1);
    return out;
}

static ct_cut cut_rows(int64_t n, int32_t most)
{
    ct_cut out = {.n = 0};
    dv_cut c = dv_cut_even((int32_t)n, most);
    push(&out, c.size, c.n);
    push(&out, c.size + 1, c.n_larger);
    return out;
}

void ct_layout_panels(dv_contraction *c)
{
    int in_panels = !c->form.col_transposed;
    c->panels = c->form.pack[c->form.in_col] != DV_FORM_NEVER;
    for (int rest = 0; rest < 2; rest++) {
        int64_t cols = rest ? c->col.rest : c->col.size;
        int64_t rows = rest ? c->row.rest : c->row.size;
        if (cols && c->panels)
            c->cols[rest] = cut_columns(cols, c->lanes, c->panel_vectors);
        else if (cols)
            push(&c->cols[rest], cols, 1);
        if (cols)
            push(&c->out[rest], cols, 1);
        if (rows)
            c->rows[rest] =
                cut_rows(rows, in_panels ? c->panel_rows : (int32_t)rows);
    }
}

// Computes the layout of operand o in its packing buffer: blocks of the kernel
// in the order in which the loops inside the packing loop visit them. Returns 0
// if the buffer has more than MOST_ELEMS elements.
int ct_layout_buffer(dv_contraction *c, int o)
{
    const dv_nest_form *f = &c->form;
    int at = f->pack[o];
    if (at == DV_FORM_NEVER) {
        // If kernels copy the rows of the next call, these rows need two
        // blocks, used alternately.
        if (o == f->in_row)
            c->buffer_bytes[o] = dv_round_up(2 * c->ahead_bytes, 256);
        return 1;
    }
    int once = o != DV_OUT && c->n.fixed >> o & 1;
    if (at == DV_FORM_TOP)
        c->top_pack |= (uint8_t)(1 << o);
    else
        c->loops[at].pack |= (uint8_t)(1 << o);
    int64_t cols = dv_round_up(c->col.size, c->lanes);
    // Kernels that pack the columns' operand themselves pack one panel at a
    // time, all into the same buffer. Each block of results gets one extra
    // cache line (64 / c->es elements), so that elements at equal offsets in
    // different blocks do not compete for the same cache sets.
    if (o == f->in_col && c->on_way)
        cols = c->panel_vectors * c->lanes;
    int64_t elems = o == DV_OUT      ? cols * c->row.size + 64 / c->es
                    : o == f->in_col ? cols * c->k_size[0]
                                     : c->row.size * c->k_size[0];
    int in_tiles = o == DV_OUT && c->ahead_bytes;
    if (in_tiles)
        elems = cols * c->tile_rows;
    // In the buffer of the output, loops with unit stride in the tensor are
    // placed first, so that elements that share a cache line of the tensor are
    // close together.
    for (int transposed = o == DV_OUT; transposed >= 0; transposed--) {
        if (in_tiles && !transposed) {
            c->tile_step = elems + 64 / c->es;
            elems = c->tile_step * (c->row.size / c->tile_rows);
        }
        for (int l = c->n_loops - 1; l > at; l--) {
            int64_t step = c->n.dims[l].stride[o];
            if (!step || (o == DV_OUT && (step == 1) != transposed))
                continue;
            c->loops[l].step[o] = elems * c->es;
            if (!dv_mul_i64(&elems, elems, c->loops[l].size) ||
                elems > MOST_ELEMS)
                return 0;
        }
    }
    int64_t bytes = dv_round_up(elems * c->es, 256);
    if (once)
        ct_set_once(c, o, at, bytes);
    else
        c->buffer_bytes[o] = bytes;
    return elems <= MOST_ELEMS;
}
