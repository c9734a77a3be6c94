// The profile of a group: which parts of its tensors one step demands, summed
// up as coefficients, so that the cost of a tiling needs no loop over tensors.
//
// Demands run backwards from the results of the group, the tensors that it
// stores or keeps for later groups. They are demanded tile by tile; a pointwise
// op passes its demand on to its inputs; a matrix product whose output is
// demanded as a tile accumulates it in steps of k, and one that is demanded in
// any other way runs its whole sum in every step:
//
//   left (rows h, k)  x  right (k, columns w)  ->  (h, w)
//   left (r, whole)   x  right (whole, c)      ->  (r, c)
#include "fuse/fuse.h"
#include <string.h>

enum {
    T = DV_FUSE_TILE,
    S = DV_FUSE_STEP,
    F = DV_FUSE_WHOLE,
    AS_TILE = 1 << DV_FUSE_DEMAND(T, T),
};

// Adds the demands of an op on its inputs (the parts that a step needs).
// Returns 0 if a product is cut into steps of a sum of another length than an
// earlier one.
static int demand(dv_fuse_profile *p, const dv_fuse_group *x, int32_t o,
                  unsigned *wanted)
{
    const dv_fuse_node *n = &x->g->nodes[o];
    unsigned of_output = wanted[x->local[n->output]];
    if (!n->matmul) {
        for (int32_t i = 0; i < n->n_inputs; i++)
            wanted[x->local[n->inputs[i]]] |= of_output;
        return 1;
    }
    unsigned *left = &wanted[x->local[n->inputs[0]]];
    unsigned *right = &wanted[x->local[n->inputs[1]]];
    for (int d = 0; d < DV_FUSE_DEMANDS; d++) {
        if (!(of_output >> d & 1))
            continue;
        int inner = d == DV_FUSE_DEMAND(T, T) ? S : F;
        if (inner == S && p->sum && p->sum != n->sum)
            return 0;
        if (inner == S)
            p->sum = n->sum;
        *left |= 1u << DV_FUSE_DEMAND(d / DV_FUSE_AXES, inner);
        *right |= 1u << DV_FUSE_DEMAND(inner, d % DV_FUSE_AXES);
    }
    return 1;
}

// Adds the computing time of a matrix product of which a step needs the part d.
static void add_matmul(dv_fuse_profile *p, const dv_fuse_graph *g,
                       const dv_fuse_node *n, int d)
{
    const dv_fuse_edge *out = &g->edges[n->output];
    int rows = d / DV_FUSE_AXES, cols = d % DV_FUSE_AXES;
    double nw = (double)g->native_w, nh = (double)g->native_h;
    if (d == DV_FUSE_DEMAND(T, T)) {
        p->linear += n->base / (g->full ? (double)n->sum : nw);
        return;
    }
    double work = n->base * (g->full ? 1 : (double)n->sum / nw);
    if (rows != T)
        work *= (rows == F ? (double)out->height : 1) / nh;
    if (cols != T)
        work *= (cols == F ? (double)out->width : 1) / nw;
    *(rows == S || cols == S ? &p->linear : &p->fixed) += work;
}

static void add_pointwise(dv_fuse_profile *p, const dv_fuse_graph *g,
                          const dv_fuse_node *n, int d)
{
    const dv_fuse_edge *out = &g->edges[n->output];
    int rows = d / DV_FUSE_AXES, cols = d % DV_FUSE_AXES;
    double work = n->base;
    if (rows == F)
        work *= (double)dv_ceil_div(out->height, g->native_h);
    if (cols == F)
        work *= (double)dv_ceil_div(out->width, g->native_w);
    *(d == DV_FUSE_DEMAND(T, T) ? &p->last
      : rows == S               ? &p->by_height
      : cols == S               ? &p->by_width
                                : &p->fixed) += work;
}

static int contains(int a, int b)
{
    int ar = a / DV_FUSE_AXES, ac = a % DV_FUSE_AXES;
    int br = b / DV_FUSE_AXES, bc = b % DV_FUSE_AXES;
    return a != b && (ar == F || ar == br) && (ac == F || ac == bc);
}

// Returns the bit set of those demands that are contained in no other one.
static unsigned largest(unsigned demands)
{
    unsigned out = demands;
    for (int a = 0; a < DV_FUSE_DEMANDS; a++)
        for (int b = 0; b < DV_FUSE_DEMANDS; b++)
            if (demands >> a & demands >> b & 1 && contains(a, b))
                out &= ~(1u << b);
    return out;
}

// Returns the demands when tiles have a single step: the part of an axis that
// one step needs (S) is then the whole axis (F).
static unsigned steps_as_whole(unsigned demands)
{
    unsigned out = 0;
    for (int d = 0; d < DV_FUSE_DEMANDS; d++) {
        int r = d / DV_FUSE_AXES, c = d % DV_FUSE_AXES;
        if (demands >> d & 1)
            out |= 1u << DV_FUSE_DEMAND(r == S ? F : r, c == S ? F : c);
    }
    return out;
}

static void add_load(dv_fuse_loads *l, const dv_fuse_edge *t, unsigned demands)
{
    demands = largest(demands);
    if (demands & (demands - 1)) {
        if (l->n_overlaps < DV_FUSE_MOST_OVERLAPS)
            l->overlaps[l->n_overlaps++] =
                (dv_fuse_overlap){t->width, t->height, demands};
        else
            l->too_many = 1;
        return;
    }
    int d = __builtin_ctz(demands);
    l->coef[d] += (d / DV_FUSE_AXES == F ? t->height : 1) *
                  (d % DV_FUSE_AXES == F ? t->width : 1);
}

// Returns 1 if common tensors connect all ops of a group. Each tensor and each
// op repeatedly takes the smallest label that it touches, until nothing
// changes.
static int connected(const dv_fuse_group *x, unsigned *label)
{
    for (int32_t t = 0; t < x->n_tensors; t++)
        label[t] = (unsigned)t;
    for (int changed = 1; changed;) {
        changed = 0;
        for (int32_t i = 0; i < x->n_ops; i++) {
            const dv_fuse_node *n = &x->g->nodes[x->ops[i]];
            unsigned *out = &label[x->local[n->output]];
            for (int32_t k = 0; k < n->n_inputs; k++) {
                unsigned *in = &label[x->local[n->inputs[k]]];
                if (*in == *out)
                    continue;
                *in = *out = *in < *out ? *in : *out;
                changed = 1;
            }
        }
    }
    for (int32_t t = 0; t < x->n_tensors; t++)
        if (label[t])
            return 0;
    return 1;
}

// Finds the shape that is cut into tiles: that of the group's results. Returns
// 0 if they differ in shape, or there is no result.
static int find_shape(dv_fuse_profile *p, const dv_fuse_group *x,
                      unsigned *wanted)
{
    for (int32_t t = 0; t < x->n_tensors; t++) {
        const dv_fuse_edge *e = &x->g->edges[x->tensors[t]];
        wanted[t] = 0;
        if (x->roles[t] != DV_FUSE_WRITTEN && x->roles[t] != DV_FUSE_KEPT)
            continue;
        if (p->width && (p->width != e->width || p->height != e->height))
            return 0;
        p->width = e->width;
        p->height = e->height;
        wanted[t] = AS_TILE;
    }
    return p->width > 0;
}

static int add_tensor(dv_fuse_profile *p, const dv_fuse_group *x, int32_t t,
                      unsigned demands)
{
    const dv_fuse_edge *e = &x->g->edges[x->tensors[t]];
    switch ((dv_fuse_role)x->roles[t]) {
    case DV_FUSE_INNER:
        break;
    case DV_FUSE_LOADED:
        add_load(&p->many, e, demands);
        add_load(&p->one, e, steps_as_whole(demands));
        break;
    case DV_FUSE_WRITTEN:
        p->n_written++;
        return demands == AS_TILE;
    case DV_FUSE_KEPT:
        p->whole_elems += e->size;
        return demands == AS_TILE;
    case DV_FUSE_RESIDENT:
        p->whole_elems += e->size;
        break;
    }
    return 1;
}

int dv_fuse_profile_init(dv_fuse_profile *p, const dv_fuse_group *x,
                         unsigned *wanted)
{
    memset(p, 0, sizeof *p);
    if (!connected(x, wanted) || !find_shape(p, x, wanted))
        return 0;
    for (int32_t i = x->n_ops - 1; i >= 0; i--) {
        const dv_fuse_node *n = &x->g->nodes[x->ops[i]];
        unsigned of_output = wanted[x->local[n->output]];
        // A group must not contain an op whose output nothing needs.
        if (!of_output || !demand(p, x, x->ops[i], wanted))
            return 0;
        for (int d = 0; d < DV_FUSE_DEMANDS; d++)
            if (of_output >> d & 1)
                (n->matmul ? add_matmul : add_pointwise)(p, x->g, n, d);
        if (n->matmul && of_output & AS_TILE &&
            x->roles[x->local[n->output]] == DV_FUSE_INNER)
            p->n_accumulators++;
    }
    for (int32_t t = 0; t < x->n_tensors; t++)
        if (!add_tensor(p, x, t, wanted[t]))
            return 0;
    return 1;
}
