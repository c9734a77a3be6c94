// One relaxation: prices of memory become costs of labels, nodes are
// eliminated, and messages bound the core.
#include "choose/choose.h"
#include <math.h>
#include <string.h>

dv_status dv_relaxation_init(dv_relaxation *r, dv_cgraph *g, dv_diag *diag)
{
    int64_t most = 1;
    r->g = g;
    for (int32_t t = 0; t < g->n_times; t++)
        most = g->room[t] > most ? g->room[t] : most;
    // Choose the quantum of prices so that the largest room costs at most 1/8
    // at a price of one quantum.
    r->quantum = ldexp(1, -3 - (int)ceil(log2((double)most)));
    r->lambda = DV_NEW(&g->arena, double, g->n_times);
    r->prefix = DV_NEW(&g->arena, double, g->n_times + 1);
    r->theta = DV_NEW(&g->arena, double, g->first[g->n_nodes]);
    r->x = DV_NEW(&g->arena, int32_t, g->n_nodes);
    if (!r->lambda || !r->prefix || !r->theta || !r->x)
        return dv_nomem(diag);
    DV_TRY(dv_elimination_plan(&r->elimination, g, diag));
    return dv_trws_create(&r->trws, g, r->elimination, diag);
}

// Sets theta to the costs of labels plus the price of their memory, rounded
// down so that the bound remains a lower one.
static void price(dv_relaxation *r)
{
    const dv_cgraph *g = r->g;
    memcpy(r->theta, g->cost, (size_t)g->first[g->n_nodes] * sizeof *g->cost);
    for (int32_t t = 0; t < g->n_times; t++)
        r->prefix[t + 1] = r->prefix[t] + r->lambda[t];
    for (int32_t v = 0; v < g->n_nodes && g->n_times; v++) {
        double each =
            (r->prefix[g->to[v]] - r->prefix[g->from[v]]) * r->quantum;
        // The factor makes sure that rounding never makes the product too
        // large.
        each *= 1 - 0x1p-50;
        for (int32_t k = g->first[v]; each > 0 && k < g->first[v + 1]; k++)
            r->theta[k] += floor((double)g->usage[k] * each);
    }
    for (int32_t k = 0; r->dead && k < g->first[g->n_nodes]; k++)
        if (r->dead[k])
            r->theta[k] = INFINITY;
    r->work += g->first[g->n_nodes] + g->n_times;
}

void dv_relax(dv_relaxation *r, int sweeps)
{
    const dv_cgraph *g = r->g;
    __int128 rooms = 0; // the value of all room at these prices, in quanta
    price(r);
    r->bound = dv_eliminate(r->elimination, r->theta, &r->work);
    r->bound += dv_trws_run(r->trws, r->theta, sweeps, r->x, &r->work);
    dv_eliminate_back(r->elimination, r->theta, r->x);
    for (int32_t t = 0; t < g->n_times; t++)
        rooms += (__int128)r->lambda[t] * g->room[t];
    r->bound -= ceil((double)rooms * (1 + 0x1p-50) * r->quantum);
}
