// A choice within the limit that is improved by changing many nodes at once:
// its labels, its cost, the memory that it uses, and the prices of memory.
#include "choose/choose.h"
#include <math.h>
#include <string.h>

dv_status dv_cchoice_init(dv_cchoice *c, dv_cgraph *g, dv_diag *diag)
{
    c->g = g;
    c->x = DV_NEW(&g->arena, int32_t, g->n_nodes);
    c->each = DV_NEW(&g->arena, double, g->n_nodes);
    if (!c->x || !c->each || !dv_cload_init(&c->load, &g->arena, g->n_times))
        return dv_nomem(diag);
    return DV_OK;
}

void dv_cchoice_start(dv_cchoice *c, const int32_t *x, double cost)
{
    const dv_cgraph *g = c->g;
    memcpy(c->x, x, (size_t)g->n_nodes * sizeof *x);
    c->cost = cost;
    dv_cload_reset(&c->load, g->room);
    for (int32_t v = 0; v < g->n_nodes; v++)
        dv_cload_add(&c->load, g->from[v], g->to[v], dv_cusage(g, v, x[v]));
}

void dv_cchoice_price(dv_cchoice *c, const dv_relaxation *r)
{
    const dv_cgraph *g = c->g;
    for (int32_t v = 0; v < g->n_nodes; v++)
        c->each[v] =
            g->n_times
                ? (r->prefix[g->to[v]] - r->prefix[g->from[v]]) * r->quantum
                : 0;
}
