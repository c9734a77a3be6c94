#include "run/product.h"
#include "base/dtype.h"
#include <string.h>

enum { MAX_SHORT = 6 }; // variables whose last slice is shorter

struct dv_product {
    const dv_plan *plan;
    const dv_kernel *k;
    int32_t op, n_threads;
    dv_nest nest; // of the whole op
    int32_t var[DV_NEST_MAX_DIMS];
    int32_t tensor[DV_N_OPERANDS];
    const dv_flat *flat[DV_N_OPERANDS];
    int64_t elem_bytes;
    // By thread and shape: bit i of a shape says that the slice of the i-th
    // variable in this list is the last, shorter one.
    int32_t shorts[MAX_SHORT], n_shorts;
    dv_contract **made;
};

// -- What is a product -----------------------------------------------------

// The two reads that are multiplied and summed; 0: it is something else.
static int find_factors(const dv_op *o, const dv_expr *sum, int32_t *factor)
{
    const dv_expr *e = sum ? sum->arg[0] : NULL;
    if (!sum || sum->fn != DV_RED_SUM || e->kind != DV_EXPR_APPLY ||
        e->fn != DV_FN_MUL)
        return 0;
    for (int i = 0; i < 2; i++) {
        if (e->arg[i]->kind != DV_EXPR_READ)
            return 0;
        factor[i] = e->arg[i]->read;
        if (dv_access_is_indirect(&o->reads[factor[i]]))
            return 0;
    }
    return !dv_access_is_indirect(&o->write) && !o->is_extern;
}

// What happens to the sum, as a touch of the nest; -1: something else.
static int last_touch(const dv_op *o, const dv_expr *sum)
{
    const dv_expr *e = o->body;
    if (e == sum)
        return DV_PRIM_NONE;
    if (e->kind == DV_EXPR_APPLY && e->fn == DV_FN_RELU && e->arg[0] == sum)
        return DV_PRIM_RELU;
    return -1;
}

static int type_of(int in0, int in1, int out)
{
    if (in0 && in1)
        return out ? DV_NEST_C : DV_NEST_K;
    if (!out || (!in0 && !in1))
        return -1;
    return in0 ? DV_NEST_M : DV_NEST_N;
}

static int fill_nest(dv_product *p, const dv_op *o, int last)
{
    dv_nest *n = &p->nest;
    n->first = DV_PRIM_ZERO;
    n->main = DV_PRIM_GEMM;
    n->last = (dv_prim)last;
    for (int v = 0; v < o->n_vars; v++) {
        int64_t s[DV_N_OPERANDS];
        for (int i = 0; i < DV_N_OPERANDS; i++) {
            s[i] = p->flat[i]->coef[v];
            if (s[i] < 0)
                return 0;
        }
        int type = type_of(s[0] != 0, s[1] != 0, s[2] != 0);
        if (type < 0)
            return 0;
        dv_nest_dim *d = &n->dims[n->n_dims];
        *d = (dv_nest_dim){.type = (dv_nest_type)type,
                           .exec = DV_NEST_SEQ,
                           .size = o->vars[v].end - o->vars[v].begin};
        memcpy(d->stride, s, sizeof s);
        p->var[n->n_dims++] = v;
    }
    return n->n_dims > 0;
}

static int fill_product(dv_product *p, const dv_kernel *k)
{
    const dv_program *program = p->plan->ops;
    const dv_op *o = k->op;
    int32_t factor[2];
    if (k->old_off >= 0 || !find_factors(o, k->reduce, factor))
        return 0;
    int last = last_touch(o, k->reduce);
    if (last < 0)
        return 0;
    for (int i = 0; i < DV_N_OPERANDS; i++) {
        p->tensor[i] = i < 2 ? o->reads[factor[i]].tensor : o->write.tensor;
        p->flat[i] = i < 2 ? &k->reads[factor[i]] : &k->write;
        dv_dtype t = program->tensors[p->tensor[i]].dtype;
        if ((t != DV_F32 && t != DV_F64) || (i && t != p->nest.dtype))
            return 0;
        p->nest.dtype = t;
    }
    p->elem_bytes = dv_dtype_get(p->nest.dtype)->size_bytes;
    for (int v = 0; v < o->n_vars; v++) {
        int64_t len = o->vars[v].end - o->vars[v].begin;
        int64_t slice = p->plan->slices[p->op][v];
        if (o->vars[v].reduce && slice < len)
            return 0; // in parts
        if (len % slice == 0)
            continue;
        if (p->n_shorts == MAX_SHORT)
            return 0;
        p->shorts[p->n_shorts++] = v;
    }
    return fill_nest(p, o, last);
}

dv_status dv_product_create(dv_product **out, const dv_plan *plan, int32_t op,
                            const dv_kernel *kernel, int32_t n_threads,
                            dv_arena *arena, dv_diag *diag)
{
    dv_product try = {
        .plan = plan, .k = kernel, .op = op, .n_threads = n_threads};
    *out = NULL;
    if (!fill_product(&try, kernel))
        return DV_OK;
    dv_product *p = DV_NEW(arena, dv_product, 1);
    if (!p)
        return dv_nomem(diag);
    *p = try;
    p->made = DV_NEW(arena, dv_contract *, (size_t)n_threads << p->n_shorts);
    if (!p->made)
        return dv_nomem(diag);
    *out = p;
    return DV_OK;
}

// -- Tiles -----------------------------------------------------------------

static int32_t shape_of(const dv_product *p, const dv_tile *t)
{
    int32_t shape = 0;
    for (int i = 0; i < p->n_shorts; i++) {
        int v = p->shorts[i];
        shape |= (t->slot[v] == t->n_slots[v] - 1) << i;
    }
    return shape;
}

static dv_contract **made_for(const dv_product *p, const dv_tile *t,
                              int32_t thread)
{
    return &p->made[((size_t)thread << p->n_shorts) + (size_t)shape_of(p, t)];
}

static int same_nest(const dv_nest *a, const dv_nest *b)
{
    if (a->dtype != b->dtype || a->last != b->last || a->n_dims != b->n_dims)
        return 0;
    for (int i = 0; i < a->n_dims; i++)
        if (a->dims[i].type != b->dims[i].type ||
            a->dims[i].size != b->dims[i].size ||
            memcmp(a->dims[i].stride, b->dims[i].stride,
                   sizeof a->dims[i].stride))
            return 0;
    return 1;
}

// Room for one more; 0 when out of memory. Arrays that are outgrown stay in
// the arena.
static int make_room(dv_product_set *s, dv_arena *arena)
{
    if (s->n < s->cap)
        return 1;
    int32_t cap = s->cap ? 2 * s->cap : 8;
    dv_contract **at =
        dv_arena_grow(arena, s->at, (size_t)s->n, (size_t)cap, sizeof *at);
    const dv_nest **of =
        dv_arena_grow(arena, s->of, (size_t)s->n, (size_t)cap, sizeof *of);
    if (!at || !of)
        return 0;
    s->at = at;
    s->of = of;
    s->cap = cap;
    return 1;
}

void dv_product_set_free(dv_product_set *s)
{
    for (int32_t i = 0; i < s->n; i++)
        dv_contract_destroy(s->at[i]);
    *s = (dv_product_set){0};
}

// The nest of a tile.
static dv_nest nest_of(const dv_product *p, const dv_tile *t)
{
    dv_nest n = p->nest;
    for (int i = 0; i < n.n_dims; i++)
        n.dims[i].size = t->end[p->var[i]] - t->begin[p->var[i]];
    return n;
}

dv_status dv_product_prepare(dv_product *p, const dv_tile *t, int32_t thread,
                             dv_product_set *set, dv_jit *jit, dv_arena *arena,
                             dv_diag *diag)
{
    dv_contract **to = made_for(p, t, thread);
    if (*to)
        return DV_OK;
    dv_nest n = nest_of(p, t);
    for (int32_t i = 0; i < set->n; i++)
        if (same_nest(set->of[i], &n)) {
            *to = set->at[i];
            return DV_OK;
        }
    dv_contract_options options = {.threads = 1,
                                   .l1_bytes = set->l1_bytes,
                                   .l2_bytes = set->l2_bytes,
                                   .l3_bytes = set->l3_bytes};
    dv_nest *copy = DV_NEW(arena, dv_nest, 1);
    if (!copy || !make_room(set, arena))
        return dv_nomem(diag);
    *copy = n;
    DV_TRY(dv_contract_create(to, jit, &n, &options, diag));
    set->of[set->n] = copy;
    set->at[set->n++] = *to;
    return DV_OK;
}

void dv_product_run(const dv_product *p, const dv_tile *t, int32_t thread,
                    void *const *data)
{
    char *at[DV_N_OPERANDS];
    for (int i = 0; i < DV_N_OPERANDS; i++) {
        int64_t off = p->flat[i]->base;
        for (int v = 0; v < p->k->op->n_vars; v++)
            off += p->flat[i]->coef[v] * t->begin[v];
        at[i] = (char *)data[p->tensor[i]] + off * p->elem_bytes;
    }
    dv_contract_part(*made_for(p, t, thread), 0, at[0], at[1], at[2]);
}
