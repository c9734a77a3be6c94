// The end of a tile: scale, add C and the bias, clamp, store. Where C is turned
// a vector of sums goes down a column of it, gathered and scattered.
#include "jit/a64/sve.h"

typedef struct ending {
    dv_gen *g;
    const dv_z_prod *p;
    const dv_z_tile *t;
    int beta, in, index; // registers: the scale; C or the bias; rows of C
} ending;

// A double of the arguments to all lanes.
static void load_scale(dv_gen *g, int v, size_t off)
{
    dv_gen_scale(g, v, off);
    DV_ES(zdup_, v, v, 0, 0);
}

static void scale_sums(ending *e, int v)
{
    dv_gen *g = e->g;
    load_scale(g, v, offsetof(dv_gemm_args, alpha));
    for (int i = 0; i < e->t->rows * e->t->nv; i++) {
        int acc = dv_gen_reg(e->t->n_s + i);
        if (g->ints)
            DV_E(zmul_i, acc, v, 0, P_ALL);
        else
            DV_ES(zfmul_, acc, acc, v, 0);
    }
}

static void load_c(ending *e, int j, int mask)
{
    dv_gen *g = e->g;
    if (e->p->c_turned)
        DV_ES(zgather_, e->in, X_CRUN, e->index, mask);
    else
        DV_ES(zld1_, e->in, X_CRUN, j, mask);
}

static void store_c(ending *e, int acc, int j, int mask)
{
    dv_gen *g = e->g;
    if (e->p->c_turned)
        DV_ES(zscatter_, acc, X_CRUN, e->index, mask);
    else
        DV_ES(zst1_, acc, X_CRUN, j, mask);
}

// One vector of sums, whose place in C is at X_CRUN.
static void finish(ending *e, int i, int j)
{
    dv_gen *g = e->g;
    const dv_z_prod *p = e->p;
    int acc = dv_z_acc(e->t, 0, i, j), mask = dv_z_mask(g, e->t, j);
    if (p->beta != DV_SCALE_ZERO)
        load_c(e, j, mask);
    if (p->beta == DV_SCALE_ONE)
        DV_EZ(zfadd_, acc, acc, e->in, 0);
    if (p->beta == DV_SCALE_ANY)
        DV_EZ(zfmla_, acc, e->in, e->beta, P_ALL);
    if (p->bias == 1)
        DV_ES(zld1r_, e->in, X_BIAS, (int64_t)i * g->es, P_ALL);
    if (p->bias == 2)
        DV_ES(zld1_, e->in, X_BIAS, j, mask);
    if (p->bias)
        DV_EZ(zfadd_, acc, acc, e->in, 0);
    if (p->relu)
        DV_EZ(zrelu_, acc, 0, 0, P_ALL);
    store_c(e, acc, j, mask);
}

static void rows(ending *e)
{
    dv_gen *g = e->g;
    DV_E(mov_x, X_CRUN, 0, X_C, 0);
    for (int i = 0; i < e->t->rows; i++) {
        for (int j = 0; j < e->t->nv; j++)
            finish(e, i, j);
        if (i + 1 < e->t->rows)
            dv_z_step(g, X_CRUN, e->p->ldc, X_LDC);
    }
}

// Rows of the tile are columns of C.
static void columns(ending *e)
{
    dv_gen *g = e->g;
    int64_t down = g->lanes * e->p->ldc;
    dv_gen_mov(g, X_TMP, e->p->ldc);
    DV_ES(zindex_, e->index, 0, X_TMP, 0);
    for (int j = 0; j < e->t->nv; j++) {
        dv_gen_add(g, X_CRUN, X_C, j * down);
        for (int i = 0; i < e->t->rows; i++) {
            finish(e, i, j);
            if (i + 1 < e->t->rows)
                dv_gen_add(g, X_CRUN, X_CRUN, g->es);
        }
    }
}

void dv_z_tile_store(dv_gen *g, const dv_z_prod *p, const dv_z_tile *t,
                     int free)
{
    ending e = {.g = g, .p = p, .t = t};
    e.in = dv_gen_reg(free);
    e.beta = dv_gen_reg(free + 1);
    e.index = dv_gen_reg(free + 2);
    if (p->alpha == DV_SCALE_ANY)
        scale_sums(&e, e.beta);
    if (p->beta == DV_SCALE_ANY)
        load_scale(g, e.beta, offsetof(dv_gemm_args, beta));
    if (p->c_turned)
        columns(&e);
    else
        rows(&e);
}
