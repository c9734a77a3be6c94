// Counts the quantities that the cost model is based on: iterations of loops,
// elements of operands, forms of the kernel (which operands it reads in place,
// transposed or packed).
#include "nest/cost.h"
#include "base/dtype.h"
#include "base/math.h"

typedef dv_nest_count count;

// Returns the average number of iterations of loop l for one iteration of the
// loops around it.
static double turns_of(const dv_nest *n, const dv_nest_tiles *t, int l)
{
    const dv_nest_dim *d = &n->dims[l];
    if (!d->whole)
        return (double)d->size;
    double outer = (double)dv_ceil_div(d->whole, d->size * t->unit[l]);
    return (double)dv_ceil_div(d->whole, t->unit[l]) / outer;
}

static double average(const dv_nest *n, int dim)
{
    if (dim < 0 || !n->dims[dim].whole)
        return dv_nest_elems(n, dim);
    const dv_nest_dim *d = &n->dims[dim];
    return (double)d->whole / (double)dv_ceil_div(d->whole, d->size);
}

// Returns the number of elements of operand o that the loops inside loop `at`
// access, which is the size of a buffer that is packed in loop `at`.
static double elems_behind(const count *c, int o, int at)
{
    double n = dv_nest_block_of(c, o);
    for (int l = at + 1; l < c->f.n_loops; l++)
        if (c->n->dims[l].stride[o])
            n *= c->turns[l];
    return n;
}

void dv_nest_pack_in(count *c, int o, int at)
{
    c->f.pack[o] = at;
    c->held[o] = at == DV_FORM_NEVER ? 0 : elems_behind(c, o, at);
}

dv_nest_packset *dv_nest_packset_of(count *c, int packed)
{
    dv_nest_packset *w = &c->ways[packed];
    if (w->state == DV_PACKSET_NEW) {
        int at[DV_N_OPERANDS];
        for (int o = 0; o < DV_N_OPERANDS; o++)
            at[o] = packed >> o & 1 ? DV_FORM_TOP : DV_FORM_NEVER;
        int none =
            dv_nest_form_packed(c->n, &c->dims, at, &w->f, NULL) != DV_OK;
        w->state = none ? DV_PACKSET_INVALID : DV_PACKSET_KNOWN;
        w->row = none ? 0 : average(c->n, w->f.row);
        w->col = none ? 0 : average(c->n, w->f.col);
        w->call[0] = w->call[1] = 0;
        for (int o = 0; o < DV_N_OPERANDS; o++)
            w->moved[o] = 0;
    }
    return w->state == DV_PACKSET_KNOWN ? w : NULL;
}

// Counts what depends on the order of loops: iterations up to each loop,
// elements of operands.
static void count_loops(count *c)
{
    c->upto[0] = 1;
    for (int l = 0; l < c->dims.n_loops; l++)
        c->upto[l + 1] = c->upto[l] * c->turns[l];
    for (int o = 0; o < DV_N_OPERANDS; o++)
        c->all[o] = elems_behind(c, o, -1);
}

static void set_panel(count *c)
{
    c->panel = dv_nest_panel_vectors(c->n, c->caches->vectors, c->col, c->k,
                                     c->caches->l1);
}

int dv_nest_count_begin(count *c, const dv_nest *n,
                        const dv_nest_caches *caches, const dv_nest_tiles *t)
{
    c->n = n;
    c->caches = caches;
    if (dv_nest_form_dims(n, &c->dims, NULL))
        return 0;
    c->es = (double)dv_dtype_get(n->dtype)->size_bytes;
    c->p = caches->vector > 16 ? &dv_nest_avx : &dv_nest_neon;
    c->lanes = (double)dv_nest_lanes(caches, (int64_t)c->es);
    c->f = c->dims;
    c->row = average(n, c->f.row);
    c->col = average(n, c->f.col);
    c->k = 1;
    for (int i = 0; i < c->f.n_k; i++)
        c->k *= average(n, c->f.k[i]);
    set_panel(c);
    c->types = c->uncut = 0;
    c->fewest = DV_NEST_IMPOSSIBLE;
    for (int l = 0; l < c->dims.n_loops; l++) {
        c->turns[l] = turns_of(n, t, l);
        c->types |= 1 << n->dims[l].type;
        c->fewest = c->turns[l] < c->fewest ? c->turns[l] : c->fewest;
    }
    for (int i = 0; i < DV_NEST_PACKSETS; i++) {
        c->ways[i].state = DV_PACKSET_NEW;
        c->least[i] = 0;
    }
    count_loops(c);
    return 1;
}

void dv_nest_count_again(count *c, const dv_nest *n, const double *turns,
                         const uint8_t *order)
{
    c->n = n;
    c->f = c->dims;
    c->row = average(n, c->f.row);
    c->col = average(n, c->f.col);
    set_panel(c);
    for (int l = 0; l < c->dims.n_loops; l++)
        c->turns[l] = turns[order[l]];
    count_loops(c);
}
