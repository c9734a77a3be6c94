// Makes the channels of temporaries their last dim, between convolutions with
// constant weights.
//
//   y[o,i,j] = sum[c,a,b] x[c,i+a,j+b] * w[o,c,a,b]
//   z[o,i,j] = relu(y[o,i,j] + b[o])
//   ->  y[i,j,o] = sum[c,a,b] x[i+a,j+b,c] * w[o,c,a,b]
//       z[i,j,o] = relu(y[i,j,o] + b[o])
//
// Kernels of products have vectors along the last dim of their results. If that
// is a dim of pixels, pixels are packed in every run, and their rows rarely
// fill whole vectors (7, 14, 28). With channels last, vectors are packed from
// weights, once for all runs, and pixels are read in place, with unit stride
// along the sum.
//
// The last dim of a product's result becomes the one that is indexed as the
// weights are, and the last dim of its other factor the one that is summed. Ops
// that are no products have the dims that one variable indexes last in all of
// their temporaries, or in none. Inputs,
// outputs and constants keep their dims, and so do temporaries that extern ops
// use, or indices that are read from tensors. A product whose result has no dim
// from the weights alone (a depthwise convolution) has its channels last, too:
// no read leaves its tensor along them, so that nothing is copied. With fewer
// channels than lanes it is faster along pixels, and all temporaries that ops
// connect with it keep their dims.
#include "ir/program.h"
#include <string.h>

enum { ANY = -1, FIXED = -2 };
// A depthwise convolution with fewer channels keeps its order of dims, because
// it is faster along pixels.
enum { LEAST_CHANNELS = 16 };

typedef struct orderer {
    dv_program *p;
    // last[t] is the dim that becomes the last one of tensor t, ANY or FIXED.
    // keeps[t] is 1 if t is connected by ops with a product that must keep its
    // order of dims.
    int32_t *last;
    uint8_t *keeps;
} orderer;

// Returns the dim whose index depends only on variables of the mask; if there
// are several, the one with the most values; -1 if there is none.
static int dim_of(const dv_op *op, const dv_access *a, uint32_t vars)
{
    int64_t most = 1;
    int found = -1;
    for (int d = 0; d < a->n_dims; d++) {
        uint32_t has = dv_index_vars(op, &a->index[d]);
        if (has && !(has & ~vars) && dv_op_points(op, has) > most) {
            most = dv_op_points(op, has);
            found = d;
        }
    }
    return found;
}

// Makes a dim the last one of a tensor, unless another one is chosen already.
static void want(orderer *o, const dv_access *a, int dim)
{
    if (dim >= 0 && o->last[a->tensor] == ANY)
        o->last[a->tensor] = dim;
}

// Keeps the order of a tensor's dims. Returns whether this is a change.
static int keep(orderer *o, const dv_access *a)
{
    if (o->last[a->tensor] == FIXED || o->keeps[a->tensor])
        return 0;
    o->keeps[a->tensor] = 1;
    return 1;
}

// Chooses the last dims of the result and the other factor of a product with
// constant weights.
static void choose_of_product(orderer *o, const dv_op *op)
{
    int32_t factor[2];
    if (!dv_op_factors(op, factor))
        return;
    const dv_access *x = &op->reads[factor[0]], *w = &op->reads[factor[1]];
    if (o->p->tensors[x->tensor].is_const) {
        x = &op->reads[factor[1]];
        w = &op->reads[factor[0]];
    }
    uint32_t of_x = dv_access_vars(op, x), of_w = dv_access_vars(op, w);
    uint32_t written = dv_written_vars(op);
    if (!o->p->tensors[w->tensor].is_const)
        return;
    uint32_t out = of_w & written & ~of_x, in = of_w & of_x & ~written;
    if (!out && op->write.n_dims > 1) {
        // In a depthwise convolution both factors have the result's channels.
        out = in = of_w & of_x & written;
        if (dv_op_points(op, out) < LEAST_CHANNELS) {
            keep(o, &op->write);
            keep(o, x);
            return;
        }
    }
    want(o, &op->write, dim_of(op, &op->write, out));
    want(o, x, dim_of(op, x, in));
}

// If the last dim is chosen for the tensor of `from` but not for that of `to`,
// chooses the dim of the latter that the same variables index. Returns whether
// this chose a dim.
static int pass_on(orderer *o, const dv_op *op, const dv_access *from,
                   const dv_access *to)
{
    int32_t d = o->last[from->tensor];
    if (d < 0 || o->last[to->tensor] != ANY)
        return 0;
    uint32_t vars = dv_index_vars(op, &from->index[d]);
    want(o, to, vars ? dim_of(op, to, vars) : -1);
    return o->last[to->tensor] != ANY;
}

// Propagates choices between the tensors of an op. Returns whether that changes
// anything.
static int spread_once(orderer *o, const dv_op *op)
{
    int32_t factor[2];
    int changed = 0, keeps = 0;
    for (int k = 0; k <= op->n_reads; k++)
        keeps |= o->keeps[dv_op_access(op, k)->tensor];
    for (int k = 0; k <= op->n_reads && keeps; k++)
        changed |= keep(o, dv_op_access(op, k));
    for (int r = 0; r < op->n_reads && !dv_op_factors(op, factor); r++)
        changed |= pass_on(o, op, &op->write, &op->reads[r]) |
                   pass_on(o, op, &op->reads[r], &op->write);
    return changed;
}

static void spread(orderer *o)
{
    int changed = 1;
    while (changed) {
        changed = 0;
        for (int32_t i = 0; i < o->p->n_ops; i++)
            changed |= spread_once(o, &o->p->ops[i]);
        for (int32_t i = o->p->n_ops; i-- > 0;)
            changed |= spread_once(o, &o->p->ops[i]);
    }
}

static void fix(orderer *o, const dv_op *op)
{
    for (int k = 0; k <= op->n_reads; k++) {
        const dv_access *a = dv_op_access(op, k);
        if (op->is_extern || dv_access_is_indirect(a))
            o->last[a->tensor] = FIXED;
        for (int d = 0; d < a->n_dims; d++)
            if (a->index[d].via >= 0)
                o->last[op->reads[a->index[d].via].tensor] = FIXED;
    }
}

// Returns whether the order of a tensor's dims changes.
static int changes(const orderer *o, int32_t t)
{
    return o->last[t] >= 0 && !o->keeps[t] &&
           o->last[t] != o->p->tensors[t].n_dims - 1;
}

static int find(orderer *o)
{
    const dv_program *p = o->p;
    for (int32_t t = 0; t < p->n_tensors; t++) {
        o->keeps[t] = 0;
        o->last[t] =
            p->tensors[t].is_input || p->tensors[t].is_output ? FIXED : ANY;
    }
    for (int32_t i = 0; i < p->n_ops; i++)
        fix(o, &p->ops[i]);
    for (int32_t i = 0; i < p->n_ops; i++)
        choose_of_product(o, &p->ops[i]);
    spread(o);
    for (int32_t t = 0; t < p->n_tensors; t++)
        if (changes(o, t))
            return 1;
    return 0;
}

static int move_shape(orderer *o, int32_t t)
{
    dv_tensor *to = &o->p->tensors[t];
    int n = to->n_dims, d = o->last[t];
    int64_t *shape = DV_NEW(&o->p->arena, int64_t, n);
    if (!shape)
        return 0;
    memcpy(shape, to->shape, (size_t)n * sizeof *shape);
    memmove(&shape[d], &shape[d + 1], (size_t)(n - 1 - d) * sizeof *shape);
    shape[n - 1] = to->shape[d];
    to->shape = shape;
    return 1;
}

static int move_index(orderer *o, dv_access *a)
{
    int n = a->n_dims, d = o->last[a->tensor];
    if (!changes(o, a->tensor))
        return 1;
    dv_index *index = DV_NEW(&o->p->arena, dv_index, n);
    if (!index)
        return 0;
    memcpy(index, a->index, (size_t)n * sizeof *index);
    memmove(&index[d], &index[d + 1], (size_t)(n - 1 - d) * sizeof *index);
    index[n - 1] = a->index[d];
    a->index = index;
    return 1;
}

// Renumbers variables so that they are in the order of the dims that they index
// in the result: new_of[v] is the new number of v. Returns whether any changes.
static int number_vars(const dv_op *op, int *new_of)
{
    uint32_t left = dv_all_vars(op);
    int n = 0, changed = 0;
    for (int d = 0; d <= op->write.n_dims; d++) {
        uint32_t has = d < op->write.n_dims
                           ? dv_index_vars(op, &op->write.index[d]) & left
                           : left;
        left &= ~has;
        for (int v = 0; v < op->n_vars; v++)
            if (has >> v & 1)
                new_of[v] = n++;
    }
    for (int v = 0; v < op->n_vars; v++)
        changed |= new_of[v] != v;
    return changed;
}

static int renumber_access(dv_arena *arena, const dv_op *op, const int *new_of,
                           dv_access *a)
{
    dv_index *index = DV_NEW(arena, dv_index, a->n_dims);
    if (!index && a->n_dims)
        return 0;
    for (int d = 0; d < a->n_dims; d++) {
        int64_t *coef = DV_NEW(arena, int64_t, op->n_vars);
        if (!coef)
            return 0;
        for (int v = 0; v < op->n_vars; v++)
            coef[new_of[v]] = a->index[d].coef[v];
        index[d] = a->index[d];
        index[d].coef = coef;
    }
    a->index = index;
    return 1;
}

static const dv_expr *renumber_expr(dv_arena *arena, const dv_op *op,
                                    const int *new_of, const dv_expr *e)
{
    dv_expr *copy = DV_NEW(arena, dv_expr, 1);
    if (!copy)
        return NULL;
    *copy = *e;
    copy->vars = 0;
    for (int v = 0; v < op->n_vars; v++)
        copy->vars |= (e->vars >> v & 1) << new_of[v];
    if (e->kind == DV_EXPR_INDEX)
        copy->read = new_of[e->read];
    for (int i = 0; i < e->n_args; i++)
        if (!(copy->arg[i] = renumber_expr(arena, op, new_of, e->arg[i])))
            return NULL;
    return copy;
}

static int renumber_vars(dv_arena *arena, dv_op *op, dv_access *reads)
{
    int new_of[DV_MAX_VARS];
    if (!number_vars(op, new_of))
        return 1;
    dv_var *vars = DV_NEW(arena, dv_var, op->n_vars);
    if (!vars || !renumber_access(arena, op, new_of, &op->write))
        return 0;
    for (int r = 0; r < op->n_reads; r++)
        if (!renumber_access(arena, op, new_of, &reads[r]))
            return 0;
    for (int v = 0; v < op->n_vars; v++)
        vars[new_of[v]] = op->vars[v];
    op->body = renumber_expr(arena, op, new_of, op->body);
    op->vars = vars;
    return op->body != NULL;
}

static int rewrite(orderer *o, dv_op *op)
{
    int any = changes(o, op->write.tensor);
    for (int r = 0; r < op->n_reads; r++)
        any |= changes(o, op->reads[r].tensor);
    if (!any)
        return 1;
    dv_access *reads =
        dv_arena_grow(&o->p->arena, op->reads, (size_t)op->n_reads,
                      (size_t)op->n_reads, sizeof *reads);
    if (!reads && op->n_reads)
        return 0;
    for (int r = 0; r < op->n_reads; r++)
        if (!move_index(o, &reads[r]))
            return 0;
    op->reads = reads;
    return move_index(o, &op->write) &&
           (!changes(o, op->write.tensor) ||
            renumber_vars(&o->p->arena, op, reads));
}

static int apply(orderer *o)
{
    for (int32_t i = 0; i < o->p->n_ops; i++)
        if (!rewrite(o, &o->p->ops[i]))
            return 0;
    // Shapes change last, because moving an index reads the old shape of its
    // tensor.
    for (int32_t t = 0; t < o->p->n_tensors; t++)
        if (changes(o, t) && !move_shape(o, t))
            return 0;
    return 1;
}

dv_status dv_program_channels_last(dv_program **out, const dv_program *p,
                                   dv_diag *diag)
{
    orderer o = {0};
    *out = NULL;
    if (p->n_repeats)
        return DV_OK;
    o.p = dv_program_share(p);
    o.last = dv_alloc((size_t)(p->n_tensors + 1) * sizeof *o.last);
    o.keeps = dv_alloc((size_t)p->n_tensors + 1);
    int ok = o.p && o.last && o.keeps, found = ok && find(&o);
    ok = ok && (!found || apply(&o));
    dv_release(o.last);
    dv_release(o.keeps);
    if (ok && found)
        *out = o.p;
    else
        dv_program_destroy(o.p);
    return ok ? DV_OK : dv_nomem(diag);
}
