// A lower bound of the total latency of any schedule: every op computes all its
// blocks at least once, every input of the graph is loaded and every output is
// written at least once.
#include "fuse/fuse.h"

// A matrix product inside a group may compute fractions of native blocks, those
// of slices that are not tiles; one whose output leaves the graph may not.
// Pointwise ops always compute whole blocks.
double dv_fuse_least_work(const dv_fuse_graph *g, int32_t o)
{
    const dv_fuse_node *n = &g->nodes[o];
    const dv_fuse_edge *t = &g->edges[n->output];
    double w = (double)dv_ceil_div(t->width, g->native_w);
    double h = (double)dv_ceil_div(t->height, g->native_h);
    if (!n->matmul)
        return n->base * w * h;
    if (t->n_readers) {
        w = (double)t->width / (double)g->native_w;
        h = (double)t->height / (double)g->native_h;
    }
    return n->base * w * h *
           (g->full ? 1 : (double)n->sum / (double)g->native_w);
}

double dv_fuse_bound(const dv_fuse_graph *g)
{
    double work = 0, moved = 0;
    for (int32_t o = 0; o < g->n; o++)
        work += dv_fuse_least_work(g, o);
    for (int32_t t = 0; t < g->n_tensors; t++) {
        const dv_fuse_edge *e = &g->edges[t];
        if (e->producer < 0 ? e->n_readers : !e->n_readers)
            moved += (double)e->size;
    }
    moved /= g->bandwidth;
    return work > moved ? work : moved;
}
