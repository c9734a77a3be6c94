// Turns the nest of a contraction into the plan's loops of a tile, and loops of
// the plan into a nest; tile_loops.h has the overview.
#include "exec/op/tile_loops.h"
#include "base/math.h"

dv_status dv_tile_loops_describe(dv_tile_schedule *out, const dv_contraction *c,
                                 dv_arena *arena, dv_diag *diag)
{
    const dv_nest *n = dv_contraction_nest(c);
    dv_contraction_choices chosen = dv_contraction_chosen(c);
    dv_nest_tiles tiles;
    int bad;
    dv_nest_tiles_of(n, &tiles, &bad);
    out->loops = DV_NEW(arena, dv_tile_loop, n->n_dims);
    if (!out->loops)
        return dv_nomem(diag);
    out->n_loops = n->n_dims;
    out->pack = n->pack;
    for (int i = 0; i < n->n_dims; i++) {
        int in = i; // only the innermost tile has all variables
        while (tiles.inner[in] >= 0)
            in = tiles.inner[in];
        out->loops[i] =
            (dv_tile_loop){.vars = n->dims[in].vars,
                           .size = n->dims[i].size,
                           .inside = n->dims[i].exec == DV_NEST_PRIM,
                           .pack = n->dims[i].pack};
    }
    out->gemm = chosen.gemm;
    out->m_block = chosen.m_block;
    out->k_block = chosen.k_block;
    out->stream = chosen.streams;
    out->stage = chosen.stages;
    out->n_candidates = n->n_candidates;
    out->cost_us = n->cost_ns / 1e3;
    return DV_OK;
}

int dv_tile_loops_cut(dv_tile_schedule *s, uint32_t vars, int64_t size,
                      int64_t extent, dv_arena *arena)
{
    dv_tile_loop *to = DV_NEW(arena, dv_tile_loop, s->n_loops + 1);
    int32_t last = -1, n = 1;
    for (int32_t i = 0; i < s->n_loops; i++)
        last = s->loops[i].vars == vars ? i : last;
    if (!to || last < 0)
        return 0;
    to[0] = (dv_tile_loop){.vars = vars, .size = dv_ceil_div(extent, size)};
    for (int32_t i = 0; i < s->n_loops; i++)
        if (s->loops[i].vars != vars || i == last)
            to[n++] = s->loops[i];
    for (int32_t i = 1; i < n; i++)
        to[i].size = to[i].vars == vars ? size : to[i].size;
    s->loops = to;
    s->n_loops = n;
    return 1;
}

dv_contraction_choices dv_tile_loops_choices(const dv_tile_schedule *as)
{
    return (dv_contraction_choices){.gemm = as->gemm,
                                    .m_block = as->m_block,
                                    .k_block = as->k_block,
                                    .streams = as->stream,
                                    .stages = as->stage};
}

// Returns whether dimension a is to be nested inside dimension b: by the order
// of summation for summed dimensions, otherwise by strides in the output.
static int is_inner(const dv_nest_dim *a, const dv_nest_dim *b,
                    const dv_sum_order *sums)
{
    if (a->type != DV_NEST_K)
        return a->stride[DV_OUT] < b->stride[DV_OUT];
    for (int32_t i = sums->n_levels - 1; i >= 0; i--) {
        if (a->vars >> sums->levels[i].var & 1)
            return 1;
        if (b->vars >> sums->levels[i].var & 1)
            return 0;
    }
    return 0;
}

// Collapses dimensions of a nest, given by their variables, into one. Those of
// size 1 are left out if there are others. Returns 0 if they are not contiguous
// in all operands.
static int collapse(dv_nest_dim *out, const dv_nest *n, uint32_t vars,
                    const dv_sum_order *sums)
{
    for (uint32_t left = vars; left;) {
        const dv_nest_dim *d = NULL;
        for (int i = 0; i < n->n_dims; i++)
            if (n->dims[i].vars & left &&
                (!d || is_inner(&n->dims[i], d, sums)))
                d = &n->dims[i];
        if (!d)
            return 0;
        int first = left == vars;
        left &= ~d->vars;
        if (!first && out->type != d->type)
            return 0;
        if (first || out->size == 1)
            *out = *d;
        else if (d->size > 1 && (!dv_nest_can_collapse(d, out) ||
                                 !dv_mul_i64(&out->size, out->size, d->size)))
            return 0;
    }
    out->vars = vars;
    return 1;
}

// Turns *d, the collapsed dimension of a loop's variables, into loop number i
// of the plan: sets its size, strides and kind. Returns 0 on overflow.
static int make_loop(dv_nest_dim *d, const dv_tile_schedule *as, int32_t i)
{
    const dv_tile_loop *l = &as->loops[i];
    int64_t unit = 1, untiled = d->size;
    for (int32_t k = i + 1; k < as->n_loops; k++)
        if (as->loops[k].vars == l->vars &&
            !dv_mul_i64(&unit, unit, as->loops[k].size))
            return 0;
    for (int32_t k = 0; k < i; k++)
        if (as->loops[k].vars == l->vars)
            d->whole = untiled;
    for (int o = 0; o < DV_N_OPERANDS; o++)
        if (!dv_mul_i64(&d->stride[o], d->stride[o], unit))
            return 0;
    d->size = l->size;
    d->exec = l->inside ? DV_NEST_PRIM : DV_NEST_SEQ;
    d->pack = (uint8_t)l->pack;
    return 1;
}

int dv_tile_loops_apply(dv_nest *n, const dv_tile_schedule *as,
                        const dv_sum_order *sums)
{
    dv_nest out;
    dv_nest_copy(&out, n);
    out.n_dims = 0;
    for (int32_t i = 0; i < as->n_loops; i++) {
        dv_nest_dim *d = &out.dims[out.n_dims++];
        if (!collapse(d, n, as->loops[i].vars, sums) || !make_loop(d, as, i))
            return 0;
    }
    out.pack = (uint8_t)as->pack;
    out.k_order = DV_K_AS_IT_IS;
    out.dot = sums->dot ? DV_DOT_ALWAYS : DV_DOT_NEVER;
    if (!out.n_dims || !dv_nest_tiles_are_right(&out))
        return 0;
    dv_nest_copy(n, &out);
    return 1;
}
