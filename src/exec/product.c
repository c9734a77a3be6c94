// What is a product, and how its sums are finished; product.h says more.
#include "base/dtype.h"
#include "jit/host.h"
#include "exec/product_in.h"
#include <string.h>

// The two reads that are multiplied and summed; 0: it is something else.
static int find_factors(const dv_op *o, const dv_expr *sum, int32_t *factor)
{
    const dv_expr *e = sum ? sum->arg[0] : NULL;
    if (!sum || (sum->fn != DV_RED_SUM && sum->fn != DV_RED_MEAN) ||
        e->kind != DV_EXPR_APPLY || e->fn != DV_FN_MUL)
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

static int reads_result(const dv_op *o)
{
    for (int r = 0; r < o->n_reads; r++)
        if (o->reads[r].tensor == o->write.tensor)
            return 1;
    return 0;
}

static int is_apply(const dv_expr *e, dv_fn fn)
{
    return e->kind == DV_EXPR_APPLY && e->fn == fn;
}

// What happens to the sum, as a touch of the nest; -1: something else.
static int last_touch(const dv_op *o, const dv_expr *sum)
{
    const dv_expr *e = o->body;
    if (sum->fn == DV_RED_MEAN)
        return -1;
    if (e == sum)
        return DV_PRIM_NONE;
    return is_apply(e, DV_FN_RELU) && e->arg[0] == sum ? DV_PRIM_RELU : -1;
}

// The same behind an addition: *r is the read that is added.
static int last_behind(const dv_op *o, const dv_expr *sum, int32_t *r)
{
    const dv_expr *e = o->body;
    int relu = is_apply(e, DV_FN_RELU), whole = sum->fn == DV_RED_SUM;
    e = relu ? e->arg[0] : e;
    for (int i = 0; i < 2 && whole && is_apply(e, DV_FN_ADD); i++)
        if (e->arg[i] == sum && e->arg[!i]->kind == DV_EXPR_READ) {
            *r = e->arg[!i]->read;
            return relu ? DV_PRIM_RELU : DV_PRIM_NONE;
        }
    return -1;
}

static int fill_nest(dv_product *p)
{
    const dv_op *o = p->o;
    dv_nest *n = &p->nest;
    n->first = DV_PRIM_ZERO;
    n->main = DV_PRIM_GEMM;
    for (int v = 0; v < o->n_vars; v++) {
        int64_t s[DV_N_OPERANDS];
        for (int i = 0; i < DV_N_OPERANDS; i++) {
            s[i] = p->flat[i]->coef[v];
            if (s[i] < 0)
                return 0;
        }
        int type = dv_sums_type(s);
        if (type < 0)
            return 0;
        dv_nest_dim *d = &n->dims[n->n_dims];
        *d = (dv_nest_dim){.type = (dv_nest_type)type,
                           .exec = DV_NEST_SEQ,
                           .size = o->vars[v].end - o->vars[v].begin,
                           .off = (uint32_t)v};
        memcpy(d->stride, s, sizeof s);
        p->var[n->n_dims++] = v;
    }
    return n->n_dims > 0;
}

// The reduced variables in the order of the sums, those inside the kernel.
static int32_t inside_of(const dv_sums *s, int32_t *vars)
{
    int32_t n = 0;
    for (int32_t i = 0; i < s->n_levels; i++)
        if (s->levels[i].inside)
            vars[n++] = s->levels[i].var;
    return n;
}

// Are these variables one in an operand, in all tiles: does each step over the
// next, and none but the first is cut? What has one point is no matter.
static int is_one(const dv_product *p, const dv_flat *flat, const int32_t *vars,
                  int32_t n)
{
    int64_t step = 0;
    int cut = 0;
    for (int32_t i = n - 1; i >= 0; i--) {
        const dv_var *v = &p->o->vars[vars[i]];
        int64_t len = v->end - v->begin;
        if (len == 1)
            continue;
        if (step && (cut || flat->coef[vars[i]] != step))
            return 0;
        step = flat->coef[vars[i]] * len;
        cut = p->how.plan->slices[p->how.op][vars[i]] < len;
    }
    return 1;
}

// The nest's type of the one variable that a read steps along, by 1, if no
// other has that type; -1: it is no bias.
static int bias_type(const dv_product *p, int32_t read)
{
    const dv_flat *f = &p->how.kernel->reads[read];
    int type = -1, others = 0;
    for (int i = 0; i < p->nest.n_dims; i++) {
        const dv_nest_dim *d = &p->nest.dims[i];
        if (!f->coef[p->var[i]])
            continue;
        if (type >= 0 || f->coef[p->var[i]] != 1)
            return -1;
        type = (int)d->type;
    }
    for (int i = 0; i < p->nest.n_dims; i++)
        others += (int)p->nest.dims[i].type == type;
    return others == 1 && (type == DV_NEST_M || type == DV_NEST_N) ? type : -1;
}

// Plans round sums of f32 that they make of narrow factors.
static int may_store(const dv_product *p)
{
    return p->stored == p->nest.dtype ||
           (p->nest.narrow && p->nest.dtype == DV_F32 &&
            (p->stored == DV_F16 || p->stored == DV_BF16));
}

static void find_inside(dv_product *p)
{
    const dv_program *program = p->how.plan->ops;
    const dv_expr *sum = p->how.kernel->reduce;
    int32_t r = -1;
    p->inside_last = last_touch(p->o, sum);
    if (p->inside_last < 0)
        p->inside_last = last_behind(p->o, sum, &r);
    if (p->inside_last < 0 || !dv_is_float(p->nest.dtype) || !may_store(p))
        return;
    if (r >= 0) {
        p->bias = r;
        p->bias_type = bias_type(p, r);
        if (dv_access_is_indirect(&p->o->reads[r]) || p->bias_type < 0 ||
            program->tensors[p->o->reads[r].tensor].dtype != p->nest.dtype)
            return;
    }
    p->inside = 1;
}

// A factor that is not what the kernel reads is copied. 0: it cannot be.
static int fill_copy(dv_product *p, int i, dv_dtype t)
{
    int32_t last[DV_MAX_VARS];
    dv_dtype to = p->nest.narrow ? (dv_dtype)p->nest.narrow : p->nest.dtype;
    dv_widen_how how = {p->flat[i], p->o->n_vars, t, to, last, 0};
    if (p->nest.narrow)
        how.n_last = inside_of(p->sums, last);
    p->copied[i] = t != to || !is_one(p, p->flat[i], last, how.n_last);
    if (!p->copied[i])
        return 1;
    return dv_widen_init(&p->copy[i], &how, p->how.jit);
}

static int fill_operands(dv_product *p, const int32_t *factor)
{
    const dv_program *program = p->how.plan->ops;
    const dv_kernel *k = p->how.kernel;
    p->nest.dtype = k->compute == DV_IN_F64   ? DV_F64
                    : p->nest.narrow == DV_I8 ? DV_I32
                    : k->compute == DV_IN_F32 ? DV_F32
                                              : DV_I32;
    p->sum_bytes = dv_dtype_get(p->nest.dtype)->size_bytes;
    for (int i = 0; i < DV_N_OPERANDS; i++) {
        const dv_access *a = i < 2 ? &p->o->reads[factor[i]] : &p->o->write;
        dv_dtype t = program->tensors[a->tensor].dtype;
        p->access[i] = i < 2 ? factor[i] : p->o->n_reads;
        p->flat[i] = i < 2 ? &k->reads[factor[i]] : &k->write;
        p->elem_bytes[i] = dv_dtype_get(t)->size_bytes;
        p->stored = t; // that of the last stays
        if (i < 2 && !fill_copy(p, i, t))
            return 0;
    }
    return 1;
}

// Variables whose last slice is shorter.
static void fill_shorts(dv_product *p)
{
    for (int v = 0; v < p->o->n_vars; v++) {
        int64_t len = p->o->vars[v].end - p->o->vars[v].begin;
        if (len % p->how.plan->slices[p->how.op][v] == 0)
            continue;
        p->shorts[p->n_shorts++] = v;
    }
}

static void fill_written(dv_product *p)
{
    const int64_t *step = p->flat[2]->coef;
    for (int32_t v = 0; v < p->o->n_vars; v++) {
        int32_t at = p->n_written;
        if (p->o->vars[v].reduce)
            continue;
        for (; at > 0 && step[p->written[at - 1]] < step[v]; at--)
            p->written[at] = p->written[at - 1];
        p->written[at] = v;
        p->n_written++;
    }
}

static int fill_product(dv_product *p)
{
    const dv_kernel *k = p->how.kernel;
    int32_t factor[2];
    if (!find_factors(p->o, k->reduce, factor))
        return 0;
    if (p->sums->pairs && dv_jit_isa(p->how.jit)) {
        dv_dtype t =
            p->how.plan->ops->tensors[p->o->reads[factor[0]].tensor].dtype;
        if (dv_isa_has(dv_jit_isa(p->how.jit), (int)t) &&
            !(t == DV_I8 && p->how.parts)) // those are added in i64, or f32
            p->nest.narrow = (uint8_t)t;
    }
    // Integers: a vector kernel is there only if sums may wrap around in 32
    // bits. Those of i8 that plans have pairs for fit.
    if (k->compute == DV_IN_I64 && p->nest.narrow != DV_I8 && !p->how.vec)
        return 0;
    int last = last_touch(p->o, k->reduce);
    int whole = !p->how.parts && !reads_result(p->o);
    if (!fill_operands(p, factor) || !fill_nest(p))
        return 0;
    p->there = whole && p->stored == p->nest.dtype;
    p->direct = last >= 0 && p->there;
    if (!p->direct && !p->how.vec)
        return 0; // there are no vector kernels for it
    if (whole && !p->direct)
        find_inside(p);
    fill_shorts(p);
    fill_written(p);
    p->nest.last = p->direct ? (dv_prim)last : DV_PRIM_NONE;
    return 1;
}

// As the plan says, or as a plan would.
static dv_status find_sums(dv_product *p, int *found, dv_diag *diag)
{
    const dv_plan *plan = p->how.plan;
    dv_sums_machine machine = dv_sums_machine_of(&plan->target);
    p->sums = dv_sums_find(plan, p->how.op);
    *found = p->sums != NULL;
    if (*found)
        return DV_OK;
    dv_sums *own = DV_NEW(p->how.arena, dv_sums, 1);
    if (!own)
        return dv_nomem(diag);
    p->sums = own;
    return dv_sums_choose(own, found, plan->ops, p->how.op, &machine,
                          p->how.arena, diag);
}

dv_status dv_product_create(dv_product **out, const dv_product_how *how,
                            dv_diag *diag)
{
    dv_product *p = DV_NEW(how->arena, dv_product, 1);
    *out = NULL;
    if (!p)
        return dv_nomem(diag);
    int found = 0;
    p->how = *how;
    p->o = how->kernel->op;
    p->bias = -1;
    if (how->vec && !dv_sums_reuse(how->plan->ops, p->o))
        return DV_OK; // better in one pass
    DV_TRY(find_sums(p, &found, diag));
    if (!found || !fill_product(p))
        return DV_OK;
    p->made = DV_NEW(how->arena, dv_product_made,
                     (size_t)how->n_threads << p->n_shorts);
    if (!p->made)
        return dv_nomem(diag);
    *out = p;
    return DV_OK;
}

dv_dtype dv_product_type(const dv_product *p)
{
    return p->nest.narrow ? (dv_dtype)p->nest.narrow : p->nest.dtype;
}
