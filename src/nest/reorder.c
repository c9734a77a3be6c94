// The passes reorder and locality, which move dimensions. Both first move the
// kernel's own dimensions to the end, in the order k2, m, n, k1. In the
// examples, n32(8192) is a dimension of type n, size 32 and stride 8192.
//
//   reorder   n32(8192) k8 m32 n5(262144) …  ->  n5 n32 k8 m32 …
//             a step of n5 spans all of n32: next to each other, they can be
//             fused into one dimension
//   locality  m40(40) n40(64000) …           ->  n40 m40 …
//             large strides outermost
//
// If the output is written through an indirect index, all loops keep their
// order, because an index may occur twice and the last write must win.
#include "nest/nest.h"

static void swap(dv_nest *n, int a, int b)
{
    dv_nest_dim d = n->dims[a];
    n->dims[a] = n->dims[b];
    n->dims[b] = d;
}

static int keeps_order(const dv_nest *n)
{
    return n->look == 1 + DV_OUT;
}

// Moves the kernel's dimensions (prims) to the end and returns the position
// where they begin.
static int prims_last(dv_nest *n)
{
    int end = n->n_dims;
    for (int turn = 0; turn < 4; turn++) {
        // Find the dimensions again, because the swap before may have moved
        // them.
        dv_nest_prims p = dv_nest_find_prims(n);
        int which[] = {p.k1, p.n, p.m, p.k2};
        if (which[turn] < 0)
            continue;
        end--;
        if (keeps_order(n))
            dv_nest_move(n, which[turn], end);
        else
            swap(n, which[turn], end);
    }
    return end;
}

static int alike(const dv_nest_dim *a, const dv_nest_dim *b)
{
    return a->type == b->type &&
           (a->exec == DV_NEST_SHARED) == (b->exec == DV_NEST_SHARED);
}

dv_status dv_nest_reorder(dv_nest *n, const dv_nest_options *options,
                          dv_diag *diag)
{
    (void)options;
    (void)diag;
    int end = prims_last(n);
    if (keeps_order(n))
        return DV_OK;
    for (int i = 0; i < end; i++)
        for (int j = i + 1; j < end; j++) {
            if (!alike(&n->dims[i], &n->dims[j]))
                continue;
            if (dv_nest_can_collapse(&n->dims[i], &n->dims[j])) {
                dv_nest_move(n, i, j - 1);
                break;
            }
            if (dv_nest_can_collapse(&n->dims[j], &n->dims[i])) {
                dv_nest_move(n, j, i);
                break;
            }
        }
    return DV_OK;
}

// Returns the sum of the squared strides of a dimension; those of k count an
// eighth. mini_jit, the compiler whose pass this is, intends to also halve the
// value of a dimension that has the type (c, m, n or k) of the one placed
// before it, but never records that type, so that nothing is halved; neither
// does this function.
static double reach(const dv_nest_dim *d)
{
    double sum = 0;
    for (int o = 0; o < DV_MAX_OPERANDS; o++)
        sum += (double)d->stride[o] * (double)d->stride[o];
    return d->type == DV_NEST_K ? sum / 8 : sum;
}

static void by_reach(dv_nest *n, int k_last)
{
    int end = prims_last(n);
    for (int i = 0; i < end && !keeps_order(n); i++) {
        int best = i;
        for (int j = i + 1; j < end; j++) {
            const dv_nest_dim *d = &n->dims[j], *b = &n->dims[best];
            int both = (d->exec == DV_NEST_SHARED) ==
                       (n->dims[i].exec == DV_NEST_SHARED);
            int later =
                k_last ? (d->type == DV_NEST_K) - (b->type == DV_NEST_K) : 0;
            if (both && (later < 0 || (later == 0 && reach(d) > reach(b))))
                best = j;
        }
        swap(n, i, best);
    }
}

dv_status dv_nest_locality(dv_nest *n, const dv_nest_options *options,
                           dv_diag *diag)
{
    (void)options;
    (void)diag;
    by_reach(n, 0);
    return DV_OK;
}

void dv_nest_sort_loops(dv_nest *n)
{
    by_reach(n, 1);
}
