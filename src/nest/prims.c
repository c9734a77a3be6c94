// The passes that decide who runs a dimension: the kernel (brgemm, primitives)
// or threads (shared).
#include "nest/nest.h"
#include "base/math.h"
#include <stdlib.h>

// Turns a gemm into a brgemm (batch-reduce GEMM). If there is no second k
// (summed dimension) for it, the pass primitives turns it back. mini_jit, the
// compiler whose passes divvy repeats, has this step in its last version, but
// not in the version that its report describes. Hence there are two lists of
// passes: seed without this pass, and seed+brgemm with it.
dv_status dv_nest_promote(dv_nest *n, const dv_nest_options *options,
                          dv_diag *diag)
{
    (void)options;
    (void)diag;
    if (n->main == DV_PRIM_GEMM)
        n->main = DV_PRIM_BRGEMM;
    return DV_OK;
}

// Returns the absolute stride of a dimension in an operand.
static int64_t step(const dv_nest *n, int dim, int operand)
{
    return llabs(n->dims[dim].stride[operand]);
}

static int64_t n_key(const dv_nest *n, int dim)
{
    int64_t out = step(n, dim, DV_OUT);
    return dv_nest_is_unary(n) ? out : dv_min_i64(out, step(n, dim, DV_IN1));
}

static int64_t k_key(const dv_nest *n, int dim)
{
    return dv_min_i64(step(n, dim, DV_IN0), step(n, dim, DV_IN1));
}

// Updates the choice of kernel dimensions *p with dimension i; the caller does
// this for all dimensions in turn. `given` are the dimensions that were marked
// before the pass.
static void consider(const dv_nest *n, int i, const dv_nest_prims *given,
                     dv_nest_prims *p)
{
    const dv_nest_dim *d = &n->dims[i];
    int acts_as_n = d->type == DV_NEST_N;
    int unit = d->stride[DV_IN0] == 1;
    if (d->type == DV_NEST_K) {
        if (d->stride[DV_IN1] == 1 && p->k1 < 0)
            p->k1 = i;
        else if (given->k2 < 0 && (p->k2 < 0 || k_key(n, i) < k_key(n, p->k2)))
            p->k2 = i;
    }
    if (d->type == DV_NEST_M && unit && p->m < 0)
        p->m = i;
    if (d->type == DV_NEST_C && dv_nest_is_unary(n)) {
        acts_as_n = !unit;
        if (unit && given->m < 0)
            p->m = i;
    }
    if (acts_as_n && given->n < 0 && (p->n < 0 || n_key(n, i) < n_key(n, p->n)))
        p->n = i;
}

// Returns whether the indirect index has a stride in a dimension, so that the
// kernel cannot take it inside.
static int is_indexed(const dv_nest *n, int dim)
{
    return n->look && n->dims[dim].stride[DV_IN2] != 0;
}

// Returns whether the nest is a unary function whose in0 has stride 0 in some
// dimension, because it is a constant or broadcast.
static int stays(const dv_nest *n)
{
    for (int i = 0; i < n->n_dims; i++)
        if (dv_nest_is_unary(n) && !n->dims[i].stride[DV_IN0])
            return 1;
    return 0;
}

// Returns the absolute stride of a dimension, where stride 0 counts as the
// largest.
static int64_t reach(const dv_nest *n, int dim, int operand)
{
    int64_t s = step(n, dim, operand);
    return s ? s : INT64_MAX;
}

// Returns the dimension with the smallest stride in an operand that the kernel
// can still take, among those of type k (reduced) or among all others; -1 if
// there is none.
static int nearest(const dv_nest *n, int operand, int of_k)
{
    int best = -1;
    for (int i = 0; i < n->n_dims; i++)
        if (n->dims[i].exec != DV_NEST_PRIM && !is_indexed(n, i) &&
            (n->dims[i].type == DV_NEST_K) == of_k &&
            (best < 0 || reach(n, i, operand) < reach(n, best, operand)))
            best = i;
    return best;
}

static void mark(dv_nest *n, int dim)
{
    if (dim >= 0)
        n->dims[dim].exec = DV_NEST_PRIM;
}

static void mark_as(dv_nest *n, int dim, dv_nest_type type)
{
    mark(n, dim);
    if (dim >= 0)
        n->dims[dim].type = type;
}

// Marks dimensions as inside the kernel (prim); those already marked stay.
// Which ones depends on the main primitive; dimensions in which an indirect
// index has a stride are never taken.
//
//   product   m: the first with unit stride in in0; n: the smallest stride;
//             k1: unit stride in in1; of a brgemm also k2: the smallest stride
//             of the other k (without one, the brgemm becomes a gemm)
//   unary     m and n likewise, also from dimensions of type c, which change
//             their type; by stride in the output if in0 is broadcast
//   binary,   any two dimensions, by stride in the output
//   select
//   reduction one dimension and a k, by stride in in0
dv_status dv_nest_primitives(dv_nest *n, const dv_nest_options *options,
                             dv_diag *diag)
{
    (void)options;
    (void)diag;
    const dv_nest_prims given = dv_nest_find_prims(n);
    dv_nest_prims p = given;
    if (dv_nest_is_binary(n) || dv_nest_is_select(n) || dv_nest_is_reduce(n)) {
        int reduce = dv_nest_is_reduce(n), by = reduce ? DV_IN0 : DV_OUT;
        if (given.m < 0)
            mark(n, nearest(n, by, 0));
        if (reduce ? given.k1 < 0 : given.n < 0)
            mark(n, nearest(n, by, reduce));
        return DV_OK;
    }
    if (stays(n)) {
        mark_as(n, given.m < 0 ? nearest(n, DV_OUT, 0) : -1, DV_NEST_M);
        mark_as(n, given.n < 0 ? nearest(n, DV_OUT, 0) : -1, DV_NEST_N);
        return DV_OK;
    }
    for (int i = 0; i < n->n_dims; i++)
        if (n->dims[i].exec != DV_NEST_PRIM && !is_indexed(n, i))
            consider(n, i, &given, &p);
    mark(n, p.m);
    mark(n, p.n);
    if (p.m >= 0)
        n->dims[p.m].type = DV_NEST_M;
    if (p.n >= 0)
        n->dims[p.n].type = DV_NEST_N;
    if (dv_nest_is_unary(n) || p.k1 < 0)
        return DV_OK;
    if (n->main == DV_PRIM_GEMM && given.k2 < 0)
        p.k2 = -1;
    mark(n, p.k1);
    mark(n, p.k2);
    n->main = p.k2 >= 0 ? DV_PRIM_BRGEMM : DV_PRIM_GEMM;
    return DV_OK;
}

// Marks dimensions as shared (run by threads), from the outermost one up to the
// first that is k (summed) or inside the kernel. Stops once their iterations
// divide evenly, or within one percent, among the threads.
dv_status dv_nest_shared(dv_nest *n, const dv_nest_options *options,
                         dv_diag *diag)
{
    (void)diag;
    int64_t parts = 1;
    for (int i = 0; i < n->n_dims; i++) {
        dv_nest_dim *d = &n->dims[i];
        if (d->exec == DV_NEST_PRIM || d->type == DV_NEST_K ||
            (n->look == 1 + DV_OUT && is_indexed(n, i)) ||
            !dv_mul_i64(&parts, parts, d->size))
            break;
        d->exec = DV_NEST_SHARED;
        int64_t rest = parts % options->threads;
        if (rest == 0 || (double)rest / (double)parts < 0.01)
            break;
    }
    return DV_OK;
}
