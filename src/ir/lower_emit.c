// Makes new ops out of parts of an op: selects the variables and reads that a
// part needs, and creates the temporary that it writes.
#include "base/math.h"
#include "base/plural.h"
#include "ir/lower.h"
#include <stdio.h>
#include <string.h>

dv_status dv_lower_expr(dv_lowering *lw, const dv_expr *like, dv_expr **out)
{
    *out = DV_NEW(&lw->out->arena, dv_expr, 1);
    if (!*out)
        return dv_nomem(lw->diag);
    **out = *like;
    return DV_OK;
}

uint32_t dv_lower_free_vars(const dv_lowering *lw, const dv_expr *e)
{
    dv_op probe = lw->work;
    probe.reads = lw->reads;
    return dv_expr_free_vars(&probe, e);
}

// Maps variables and reads of the op being lowered (split into smaller ones) to
// those of a new op that is made from a part of it.
typedef struct mapping {
    int8_t var[DV_MAX_VARS];
    dv_op op; // the op that is being built
    dv_access *reads;
    int32_t cap_reads;
} mapping;

static dv_status map_read(dv_lowering *lw, mapping *m, int32_t read);

static dv_status map_access(dv_lowering *lw, mapping *m, const dv_access *a,
                            dv_access *out)
{
    dv_arena *arena = &lw->out->arena;
    dv_index *index = DV_NEW(arena, dv_index, a->n_dims);
    if (!index)
        return dv_nomem(lw->diag);
    *out = *a;
    out->index = index;
    for (int d = 0; d < a->n_dims; d++) {
        const dv_index *x = &a->index[d];
        index[d].via = -1;
        index[d].factor = x->factor;
        if (x->via >= 0) {
            DV_TRY(map_read(lw, m, x->via));
            index[d].via = lw->map[x->via];
        }
        int64_t *coef = DV_NEW(arena, int64_t, m->op.n_vars);
        if (!coef)
            return dv_nomem(lw->diag);
        for (int v = 0; v < lw->work.n_vars; v++)
            if (m->var[v] >= 0)
                coef[m->var[v]] = x->coef[v];
        index[d].base = x->base;
        index[d].coef = coef;
    }
    return DV_OK;
}

// Copies a read to the new op, unless it is there already, and before it the
// reads that supply its indirect indices.
static dv_status map_read(dv_lowering *lw, mapping *m, int32_t read)
{
    if (lw->stamp[read] == lw->emission)
        return DV_OK;
    dv_access a;
    DV_TRY(map_access(lw, m, &lw->reads[read], &a));
    lw->stamp[read] = lw->emission;
    for (int32_t i = 0; i < m->op.n_reads && lw->has_equal_reads; i++)
        if (dv_access_equal(&m->op, &m->reads[i], &a)) {
            lw->map[read] = i;
            return DV_OK;
        }
    lw->map[read] = m->op.n_reads;
    dv_access *slot = DV_PUSH(&lw->out->arena, dv_access, m->reads,
                              m->op.n_reads, m->cap_reads);
    if (!slot)
        return dv_nomem(lw->diag);
    *slot = a;
    return DV_OK;
}

static dv_status map_expr(dv_lowering *lw, mapping *m, const dv_expr *e,
                          const dv_expr **out)
{
    dv_expr *copy;
    DV_TRY(dv_lower_expr(lw, e, &copy));
    *out = copy;
    if (e->kind == DV_EXPR_READ) {
        DV_TRY(map_read(lw, m, e->read));
        copy->read = lw->map[e->read];
    }
    if (e->kind == DV_EXPR_INDEX)
        copy->read = m->var[e->read];
    copy->vars = 0;
    for (int v = 0; v < lw->work.n_vars; v++)
        if (e->vars >> v & 1)
            copy->vars |= 1u << m->var[v];
    for (int i = 0; i < e->n_args; i++)
        DV_TRY(map_expr(lw, m, e->arg[i], &copy->arg[i]));
    return DV_OK;
}

static uint32_t reduced_vars(const dv_expr *e)
{
    uint32_t mask = e->kind == DV_EXPR_REDUCE ? e->vars : 0;
    for (int i = 0; i < e->n_args; i++)
        mask |= reduced_vars(e->arg[i]);
    return mask;
}

static void map_var(const dv_lowering *lw, mapping *m, dv_var *vars, int v,
                    int reduce)
{
    if (m->var[v] >= 0)
        return;
    m->var[v] = (int8_t)m->op.n_vars;
    vars[m->op.n_vars] = lw->work.vars[v];
    vars[m->op.n_vars++].reduce = (uint8_t)reduce;
}

// Numbers the new op's variables as parsing its printed text would: first the
// variables that index the written tensor, in the order of its dims, then
// reduced variables in their old order.
static dv_status map_vars(dv_lowering *lw, mapping *m, const dv_access *write,
                          uint32_t reduced)
{
    dv_var *vars = DV_NEW(&lw->out->arena, dv_var, lw->work.n_vars);
    dv_op probe = lw->work;
    if (!vars)
        return dv_nomem(lw->diag);
    probe.reads = lw->reads;
    uint32_t written = dv_access_vars(&probe, write);
    memset(m->var, -1, sizeof m->var);
    for (int d = 0; d < write->n_dims && !dv_access_is_indirect(write); d++)
        for (int v = 0; v < lw->work.n_vars; v++)
            if (write->index[d].coef[v])
                map_var(lw, m, vars, v, 0);
    for (int pass = 0; pass < 2; pass++)
        for (int v = 0; v < lw->work.n_vars; v++)
            if ((pass ? reduced : written) >> v & 1)
                map_var(lw, m, vars, v, pass);
    m->op.vars = vars;
    return DV_OK;
}

static dv_status grow_map(dv_lowering *lw)
{
    if (lw->work.n_reads <= lw->cap_map)
        return DV_OK;
    int32_t cap = 2 * lw->work.n_reads;
    int32_t *map = DV_NEW(&lw->out->arena, int32_t, cap);
    int32_t *stamp =
        dv_arena_grow(&lw->out->arena, lw->stamp, (size_t)lw->cap_map,
                      (size_t)cap, sizeof *stamp);
    if (!map || !stamp)
        return dv_nomem(lw->diag);
    // The old contents need not be copied: entries are valid for one new op
    // only and are filled in again for the next.
    lw->map = map;
    lw->stamp = stamp;
    lw->cap_map = cap;
    return DV_OK;
}

dv_status dv_lower_emit(dv_lowering *lw, const dv_access *write,
                        const dv_expr *body, int update)
{
    mapping m = {.op = {.update = (uint8_t)update,
                        .is_extern = lw->work.is_extern,
                        .off = lw->work.off}};
    DV_TRY(map_vars(lw, &m, write, reduced_vars(body)));
    DV_TRY(grow_map(lw));
    lw->emission++;
    DV_TRY(map_access(lw, &m, write, &m.op.write));
    DV_TRY(map_expr(lw, &m, body, &m.op.body));
    m.op.reads = m.reads;
    return dv_program_add_op(lw->out, &m.op) ? DV_OK : dv_nomem(lw->diag);
}

static char *fresh_name(dv_lowering *lw)
{
    int32_t tensor = lw->work.write.tensor;
    const char *base = lw->src->tensors[tensor].name;
    size_t room = strlen(base) + 24;
    char *name = DV_NEW(&lw->out->arena, char, room);
    if (!name)
        return NULL;
    do
        snprintf(name, room, "%s_%d", base, (int)++lw->n_temps[tensor]);
    while (dv_program_find(lw->out, name) >= 0);
    return name;
}

// Returns whether the indices of access `a` are exactly the variables in the
// mask, each once, and lists them in `order`.
static int list_vars(const dv_op *op, const dv_access *a, uint32_t vars,
                     int *order)
{
    return dv_access_is_vars(op, a, order) && dv_access_vars(op, a) == vars;
}

// Finds a read in the element-wise expression e that has all variables in the
// mask as its indices, and returns 1 and their order: a temporary with the
// dimension order of its operand needs no transposed access.
static int follow(const dv_lowering *lw, const dv_expr *e, uint32_t vars,
                  int *order)
{
    if (e->kind == DV_EXPR_READ)
        return list_vars(&lw->work, &lw->reads[e->read], vars, order);
    for (int i = 0; i < e->n_args && e->kind != DV_EXPR_REDUCE; i++)
        if (follow(lw, e->arg[i], vars, order))
            return 1;
    return 0;
}

// Chooses the order of a temporary's dimensions. Variable `last` becomes the
// innermost (-1: no preference); a temporary that copies a read otherwise keeps
// the read's order.
static void order_dims(const dv_lowering *lw, const dv_expr *e, uint32_t vars,
                       int last, int *order)
{
    int n = 0;
    if (last < 0 && lw->grain == DV_GRAIN_FUSED && follow(lw, e, vars, order))
        return;
    uint32_t left = last < 0 ? vars : vars & ~(1u << last);
    const dv_access *a =
        last >= 0 && e->kind == DV_EXPR_READ ? &lw->reads[e->read] : NULL;
    for (int d = 0; a && d < a->n_dims; d++)
        for (int v = 0; v < lw->work.n_vars; v++)
            if (left >> v & 1 && a->index[d].via < 0 && a->index[d].coef[v]) {
                order[n++] = v;
                left &= ~(1u << v);
            }
    for (int v = 0; v < lw->work.n_vars; v++)
        if (left >> v & 1)
            order[n++] = v;
    if (last >= 0)
        order[n] = last;
}

dv_status dv_lower_temp(dv_lowering *lw, const int64_t *shape, int n,
                        dv_dtype dtype, int32_t *out)
{
    const dv_loc at = {&lw->src->src, lw->work.off};
    dv_tensor t = {.name = fresh_name(lw),
                   .dtype = dtype,
                   .n_dims = n,
                   .shape = shape,
                   .n_elems = 1,
                   .is_defined = 1,
                   .off = lw->work.off};
    int64_t bytes = dv_dtype_get(dtype)->size_bytes;
    if (!t.name)
        return dv_nomem(lw->diag);
    if (n > DV_MAX_DIMS)
        return dv_fail(lw->diag, DV_E_LIMIT, at,
                       "a part of the statement needs a temporary of %d "
                       "dimension%s, at most %d are supported",
                       n, DV_PLURAL(n, "", "s"), (int)DV_MAX_DIMS);
    for (int d = 0; d < n; d++) {
        // The number of elements cannot overflow, because the number of points
        // of a statement fits 64 bits.
        t.n_elems *= shape[d];
        if (!dv_mul_i64(&bytes, bytes, shape[d]))
            return dv_fail(
                lw->diag, DV_E_OVERFLOW, at,
                "a part of the statement has more than 2^63 - 1 bytes");
    }
    *out = dv_program_add_tensor(lw->out, &t);
    return *out < 0 ? dv_nomem(lw->diag) : DV_OK;
}

int dv_lower_index(dv_lowering *lw, dv_index *x, int n_vars, int v,
                   int64_t base)
{
    int64_t *coef = DV_NEW(&lw->out->arena, int64_t, n_vars);
    if (!coef)
        return 0;
    coef[v] = 1;
    *x = (dv_index){.base = base, .coef = coef, .via = -1};
    return 1;
}

// Creates a temporary for e over the variables in the mask, and the access to
// it, *out. Variable `last` is its innermost dimension (-1: no preference).
static dv_status new_temp(dv_lowering *lw, const dv_expr *e, uint32_t vars,
                          dv_dtype dtype, int last, dv_access *out)
{
    dv_arena *arena = &lw->out->arena;
    const dv_op *op = &lw->work;
    int n = __builtin_popcount(vars), order[DV_MAX_VARS];
    int64_t *shape = DV_NEW(arena, int64_t, n);
    dv_index *index = DV_NEW(arena, dv_index, n);
    if (!shape || !index)
        return dv_nomem(lw->diag);
    order_dims(lw, e, vars, last, order);
    for (int d = 0; d < n; d++) {
        int v = order[d];
        shape[d] = dv_var_len(op, v);
        if (!dv_lower_index(lw, &index[d], op->n_vars, v, -op->vars[v].begin))
            return dv_nomem(lw->diag);
    }
    *out =
        (dv_access){.tensor = -1, .n_dims = n, .off = op->off, .index = index};
    return dv_lower_temp(lw, shape, n, dtype, &out->tensor);
}

dv_status dv_lower_access(dv_lowering *lw, const dv_access *a, dv_dtype type,
                          uint32_t off, const dv_expr **out)
{
    dv_expr *copy, read = {.kind = DV_EXPR_READ,
                           .dtype = (int8_t)type,
                           .off = off,
                           .read = lw->work.n_reads};
    dv_access *slot = DV_PUSH(&lw->out->arena, dv_access, lw->reads,
                              lw->work.n_reads, lw->cap_reads);
    if (!slot)
        return dv_nomem(lw->diag);
    *slot = *a;
    DV_TRY(dv_lower_expr(lw, &read, &copy));
    *out = copy;
    return DV_OK;
}

// Computes e in an op of its own, into a temporary whose innermost dimension is
// variable v (-1: no preference).
static dv_status hoist_along(dv_lowering *lw, const dv_expr *e, dv_dtype type,
                             int v, const dv_expr **out)
{
    dv_op probe = lw->work;
    probe.reads = lw->reads;
    dv_access a;
    DV_TRY(new_temp(lw, e, dv_expr_free_vars(&probe, e), type, v, &a));
    const dv_expr *body = e;
    // Lowering transposes operands of statements where kernels need that. An op
    // made from a part of a statement gets the same treatment, so that lowering
    // the result once more changes nothing.
    if (lw->grain == DV_GRAIN_FUSED && !lw->work.is_extern)
        DV_TRY(dv_lower_transpose_operands(lw, &a, &body));
    DV_TRY(dv_lower_emit(lw, &a, body, 0));
    return dv_lower_access(lw, &a, type, e->off, out);
}

// Returns whether the type of e holds all values of e exactly, because e only
// copies, negates or selects elements of float tensors. Integers that e may
// select do not qualify, since they need not fit the common float type.
static int is_exact_selection(const dv_expr *e)
{
    if (e->kind == DV_EXPR_REDUCE)
        return (e->fn == DV_RED_MAX || e->fn == DV_RED_MIN) &&
               is_exact_selection(e->arg[0]);
    if (dv_expr_applies(e, DV_FN_SELECT))
        return is_exact_selection(e->arg[1]) && is_exact_selection(e->arg[2]);
    if (e->kind == DV_EXPR_APPLY && (e->fn == DV_FN_MAX || e->fn == DV_FN_MIN))
        return is_exact_selection(e->arg[0]) && is_exact_selection(e->arg[1]);
    if (e->kind == DV_EXPR_APPLY &&
        (e->fn == DV_FN_NEG || e->fn == DV_FN_ABS || e->fn == DV_FN_RELU))
        return is_exact_selection(e->arg[0]);
    return e->kind == DV_EXPR_READ && dv_is_float((dv_dtype)e->dtype);
}

dv_status dv_lower_hoist(dv_lowering *lw, const dv_expr *e, const dv_expr **out)
{
    // A constant expression that was not folded has no type: it gets the type
    // of the statement's output tensor if that can hold it.
    dv_dtype type = lw->src->tensors[lw->work.write.tensor].dtype;
    if (e->dtype >= 0)
        type = (dv_dtype)e->dtype;
    else if (!dv_is_float(type) ||
             (lw->keep_integers && e->dtype == DV_WEAK_INT))
        type = e->dtype == DV_WEAK_INT ? DV_I64 : DV_F32;
    if (!dv_is_float(type))
        return dv_lower_hoist_as(lw, e, DV_I64, out);
    return lw->stored || is_exact_selection(e)
               ? dv_lower_hoist_as(lw, e, type, out)
               : dv_lower_hoist_wide(lw, e, out);
}

dv_status dv_lower_hoist_as(dv_lowering *lw, const dv_expr *e, dv_dtype type,
                            const dv_expr **out)
{
    return hoist_along(lw, e, type, -1, out);
}

int dv_lower_transpose_pays(const dv_lowering *lw, const dv_expr *read,
                            uint32_t written)
{
    enum { MOST_TIMES = 2 };
    const dv_tensor *t = &lw->out->tensors[lw->reads[read->read].tensor];
    uint32_t vars = dv_lower_free_vars(lw, read);
    return dv_op_points_double(&lw->work, written & ~vars) >=
               DV_LOWER_MIN_REUSE &&
           dv_op_points_double(&lw->work, vars) <=
               MOST_TIMES * (double)t->n_elems;
}

dv_status dv_lower_transpose_read(dv_lowering *lw, const dv_expr *read, int v,
                                  const dv_expr **out)
{
    int32_t tensor = lw->reads[read->read].tensor;
    return hoist_along(lw, read, lw->out->tensors[tensor].dtype, v, out);
}

dv_status dv_lower_hoist_wide(dv_lowering *lw, const dv_expr *e,
                              const dv_expr **out)
{
    dv_op op = lw->work;
    op.reads = lw->reads;
    int wide = dv_op_compute(lw->out, &op) == DV_IN_F64;
    return dv_lower_hoist_as(lw, e, wide ? DV_F64 : DV_F32, out);
}
