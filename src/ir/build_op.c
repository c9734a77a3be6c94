// Resolves one assignment: its expression, its types, its left side. Names,
// indices and ranges are resolved in build_index.c.
#include "ir/build.h"
#include "base/math.h"
#include "base/plural.h"
#include "lang/reduce.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static int has_read(const dv_expr *e)
{
    for (int i = 0; i < e->n_args; i++)
        if (has_read(e->arg[i]))
            return 1;
    return e->kind == DV_EXPR_READ;
}

static dv_status need_real(const dv_opbuild *o, const char *what,
                           const dv_expr *x, uint32_t off)
{
    int type = x->dtype;
    if (type < 0 || dv_is_float((dv_dtype)type))
        return DV_OK;
    // A variable that is out of scope is the placeholder for the result of
    // argtopk, which the user did not write as a variable.
    if (x->kind == DV_EXPR_INDEX && !x->base && o->vars[x->read].in_scope)
        return dv_fail(o->b->diag, DV_E_DTYPE, dv_build_at(o->b, off),
                       "%s needs floats, the variable %s is %s; write 1.0 * %s",
                       what, o->vars[x->read].var.name,
                       dv_dtype_get((dv_dtype)type)->name,
                       o->vars[x->read].var.name);
    if (!has_read(x))
        return dv_fail(o->b->diag, DV_E_DTYPE, dv_build_at(o->b, off),
                       "%s needs floats, this is %s; multiply it by 1.0", what,
                       dv_dtype_get((dv_dtype)type)->name);
    return dv_fail(o->b->diag, DV_E_DTYPE, dv_build_at(o->b, off),
                   "%s needs floats, this is %s; store it in a float tensor "
                   "first (t[…]: f32 = …)",
                   what, dv_dtype_get((dv_dtype)type)->name);
}

static dv_status need_whole(const dv_opbuild *o, const char *what, int type,
                            uint32_t off)
{
    if (type == DV_WEAK_INT || (type >= 0 && !dv_is_float((dv_dtype)type)))
        return DV_OK;
    return dv_fail(o->b->diag, DV_E_DTYPE, dv_build_at(o->b, off),
                   "%s needs integers, this is %s", what,
                   type < 0 ? "a number with a fraction"
                            : dv_dtype_get((dv_dtype)type)->name);
}

static dv_status type_of(const dv_opbuild *o, dv_expr *e)
{
    const char *name;
    int real, whole = 0, first = 0;
    if (e->kind == DV_EXPR_REDUCE) {
        name = dv_reducer_get((dv_reducer)e->fn)->text;
        real = dv_reducer_get((dv_reducer)e->fn)->real;
    } else {
        name = dv_fn_get((dv_fn)e->fn)->text;
        real = dv_fn_get((dv_fn)e->fn)->real;
        whole = dv_fn_get((dv_fn)e->fn)->whole;
        first = e->fn == DV_FN_SELECT;
    }
    for (int i = first; i < e->n_args && real; i++)
        DV_TRY(need_real(o, name, e->arg[i], e->off));
    for (int i = 0; i < e->n_args && whole; i++)
        DV_TRY(need_whole(o, name, e->arg[i]->dtype, e->off));
    e->dtype = dv_expr_type(e);
    return DV_OK;
}

static dv_status expression(dv_opbuild *o, const dv_node *n,
                            const dv_expr **out);

// Fails if an integer constant exceeds 2^53, because constants are stored as
// doubles.
static dv_status check_whole(const dv_opbuild *o, const dv_node *n, int64_t i)
{
    int64_t most = (int64_t)1 << 53;
    if (i >= -most && i <= most)
        return DV_OK;
    return dv_fail(o->b->diag, DV_E_OVERFLOW, dv_build_at(o->b, n->off),
                   "whole numbers in values go up to 2^53, this is %" PRId64,
                   i);
}

// Makes e an expression whose value is that of variable v.
static void variable(dv_opbuild *o, const dv_node *n, int v, dv_expr *e)
{
    e->kind = DV_EXPR_INDEX;
    e->dtype = DV_I64;
    e->read = v;
    dv_bound_warn(o, n);
}

static dv_status constant(dv_opbuild *o, const dv_node *n, dv_expr *e)
{
    e->kind = DV_EXPR_CONST;
    e->dtype = n->kind == DV_NODE_INT ? DV_WEAK_INT : DV_WEAK_FLOAT;
    if (n->kind == DV_NODE_INT)
        e->value = (double)n->i;
    else if (n->kind == DV_NODE_FLOAT)
        e->value = n->f;
    else
        // inf, which is also the identity of min; a name gets its value below.
        e->value = dv_reducer_get(DV_RED_MIN)->zero;
    if (n->kind == DV_NODE_INT)
        return check_whole(o, n, n->i);
    if (n->kind != DV_NODE_NAME)
        return DV_OK;
    const dv_param_value *p = dv_find_param(o->b, n->name);
    if (!p)
        return dv_opbuild_fail(
            o, DV_E_NAME, n->off,
            "is neither a variable here nor a param; a tensor is read with "
            "brackets, a scalar as name[]",
            n->name);
    e->value = p->f;
    e->dtype = p->is_float ? DV_WEAK_FLOAT : DV_WEAK_INT;
    return p->is_float ? DV_OK : check_whole(o, n, p->i);
}

static dv_status already_bound(const dv_opbuild *o, const dv_node *n)
{
    int old = dv_bound_find(o, n->name);
    dv_status st = dv_opbuild_fail(
        o, DV_E_NAME, n->off,
        "already is a variable here; reduce over another name", n->name);
    dv_note(o->b->diag, dv_build_at(o->b, o->vars[old].var.off), "bound here");
    return st;
}

static dv_expr *new_expr(dv_opbuild *o, dv_expr x, uint32_t off)
{
    dv_expr *e = DV_NEW(&o->b->p->arena, dv_expr, 1);
    if (e) {
        *e = x;
        e->off = off;
        if (x.kind == DV_EXPR_APPLY || x.kind == DV_EXPR_REDUCE)
            e->dtype = dv_expr_type(e);
    }
    return e;
}

// Makes the application of a function to two expressions; NULL if out of
// memory, also for one of these.
static dv_expr *binary(dv_opbuild *o, dv_fn fn, const dv_expr *x,
                       const dv_expr *y, uint32_t off)
{
    return x && y ? new_expr(o, dv_expr_binary(fn, x, y, off), off) : NULL;
}

// Binds a variable with the range of another, under a name that nothing else
// has. Returns its number in *v.
static dv_status bind_like(dv_opbuild *o, const dv_node *of, int *v)
{
    char name[DV_MAX_VARS + 16];
    dv_str like = of->name;
    int len = like.len > DV_MAX_VARS ? DV_MAX_VARS : (int)like.len, i = 0;
    dv_str new_name;
    do
        new_name =
            (dv_str){name, (uint32_t)snprintf(name, sizeof name, "%.*s_%d", len,
                                              like.at, ++i)};
    while (dv_bound_find(o, new_name) >= 0 || dv_find_param(o->b, new_name) ||
           dv_find_counter(o->b, new_name));
    DV_TRY(dv_bound_add(o, new_name, of->off, 1));
    *v = o->n_vars - 1;
    dv_binding *b = &o->vars[*v];
    b->name.at = b->var.name;
    b->range = dv_bound_for(o->s, like);
    return DV_OK;
}

// Copies a syntax tree, with another name for a variable.
static dv_node *renamed(dv_opbuild *o, const dv_node *n, dv_str from, dv_str to)
{
    dv_arena *a = &o->b->p->arena;
    dv_node *copy = DV_NEW(a, dv_node, 1);
    if (!copy)
        return NULL;
    *copy = *n;
    if (n->kind == DV_NODE_NAME && dv_str_eq(n->name, from))
        copy->name = to;
    if (n->kind < DV_NODE_ACCESS)
        return copy;
    copy->args = DV_NEW(a, dv_node *, n->n_args);
    for (uint32_t i = 0; copy->args && i < n->n_args; i++)
        if (!(copy->args[i] = renamed(o, n->args[i], from, to)))
            return NULL;
    return copy->args || !n->n_args ? copy : NULL;
}

// argmax[j] x is min[j] select(x == m, j, select(x != x, j, n)), where m is
// max[j] x and n the last value of j. x != x finds NaN, so integers need no
// inner select.
static dv_status arg_reduction(dv_opbuild *o, const dv_node *n, dv_expr *e)
{
    const dv_reducer_info *r = dv_reducer_get((dv_reducer)n->op);
    const dv_expr *x, *m;
    int v, w;
    if (dv_bound_find(o, n->args[1]->name) >= 0)
        return already_bound(o, n->args[1]);
    DV_TRY(dv_bound_add(o, n->args[1]->name, n->args[1]->off, 1));
    v = o->n_vars - 1;
    DV_TRY(expression(o, n->args[0], &x));
    DV_TRY(bind_like(o, n->args[1], &w));
    dv_node *again = renamed(o, n->args[0], n->args[1]->name, o->vars[w].name);
    if (!again)
        return dv_nomem(o->b->diag);
    DV_TRY(expression(o, again, &m));
    o->vars[v].in_scope = o->vars[w].in_scope = 0;
    int real = x->dtype == DV_WEAK_FLOAT ||
               (x->dtype >= 0 && dv_is_float((dv_dtype)x->dtype));
    dv_expr most = {.kind = DV_EXPR_REDUCE,
                    .fn = (uint8_t)r->arg_of,
                    .n_args = 1,
                    .vars = UINT32_C(1) << w,
                    .arg = {m}};
    const dv_expr *top = new_expr(o, most, n->off);
    dv_expr at = {.kind = DV_EXPR_INDEX, .dtype = DV_I64, .read = v};
    dv_expr last = {.kind = DV_EXPR_CONST, .dtype = DV_WEAK_INT};
    o->last[v] = new_expr(o, last, n->off);
    dv_expr pick = {.kind = DV_EXPR_APPLY,
                    .fn = DV_FN_SELECT,
                    .n_args = 3,
                    .arg = {NULL, new_expr(o, at, n->off), o->last[v]}};
    if (!top || !pick.arg[1] || !pick.arg[2])
        return dv_nomem(o->b->diag);
    for (int i = !real; i < 2; i++) {
        // x == top, and x != x, which finds NaN.
        pick.arg[0] = i ? binary(o, DV_FN_EQ, x, top, n->off)
                        : binary(o, DV_FN_NE, x, x, n->off);
        const dv_expr *made = pick.arg[0] ? new_expr(o, pick, n->off) : NULL;
        if (!made)
            return dv_nomem(o->b->diag);
        pick.arg[2] = made;
    }
    *e = (dv_expr){.kind = DV_EXPR_REDUCE,
                   .fn = DV_RED_MIN,
                   .n_args = 1,
                   .off = n->off,
                   .vars = UINT32_C(1) << v,
                   .arg = {pick.arg[2]}};
    e->dtype = dv_expr_type(e);
    return DV_OK;
}

// Fails unless the reducer (such as argmax) has one variable, and no bound such
// as j <= i.
static dv_status one_variable(const dv_opbuild *o, const dv_node *n,
                              const char *name)
{
    if (n->n_args != 2)
        return dv_fail(o->b->diag, DV_E_SYNTAX, dv_build_at(o->b, n->off),
                       "%s is over one variable, not %u", name, n->n_args - 1);
    if (n->args[1]->kind == DV_NODE_NAME)
        return DV_OK;
    return dv_fail(o->b->diag, DV_E_SYNTAX, dv_build_at(o->b, n->args[1]->off),
                   "%s takes no bound", name);
}

// Returns the type that holds all values of an expression: integers are
// computed in 64 bits, and have a narrower type only where they are elements of
// a tensor.
static int computed_type(const dv_opbuild *o, const dv_expr *x)
{
    int is_element = x->kind == DV_EXPR_READ && !o->reads[x->read].has_border;
    return x->dtype < 0 || dv_is_float((dv_dtype)x->dtype) || is_element
               ? x->dtype
               : DV_I64;
}

// Resolves the operand of topk or argtopk. *e becomes a placeholder of the
// result's type, which dv_top_replace replaces.
static dv_status top_reduction(dv_opbuild *o, const dv_node *n, dv_expr *e)
{
    int v = o->n_vars - 1;
    const dv_expr *x;
    DV_TRY(expression(o, n->args[0], &x));
    o->vars[v].in_scope = 0;
    int type = computed_type(o, x);
    if (type < 0)
        return dv_fail(o->b->diag, DV_E_DTYPE, dv_build_at(o->b, n->off),
                       "the operand is made of numbers alone");
    *e = (dv_expr){.kind = DV_EXPR_REDUCE,
                   .fn = DV_RED_MAX,
                   .dtype = (int8_t)type,
                   .n_args = 1,
                   .off = n->off,
                   .vars = UINT32_C(1) << v,
                   .arg = {x}};
    if (n->op == DV_RED_ARGTOPK)
        *e = (dv_expr){
            .kind = DV_EXPR_INDEX, .dtype = DV_I64, .off = n->off, .read = v};
    return dv_top_add(o, n, v, (dv_dtype)type);
}

// Makes the identity of a reducer in this type: its result for no operands,
// e.g. 0 for a sum. Returns NULL if out of memory.
static dv_expr *identity(dv_opbuild *o, dv_reducer red, int type, uint32_t off)
{
    double zero = dv_reducer_get(red)->zero;
    dv_expr x = {.kind = DV_EXPR_CONST, .value = zero};
    x.dtype =
        type == DV_WEAK_FLOAT || isinf(zero) ? DV_WEAK_FLOAT : DV_WEAK_INT;
    if (!isinf(zero) || type < 0 || dv_is_float((dv_dtype)type))
        return new_expr(o, x, off);
    // The least or greatest integer, which for 64 bits has no literal.
    const dv_dtype_info *t = dv_dtype_get((dv_dtype)type);
    x.dtype = DV_WEAK_INT;
    if (t->size_bytes < 8) {
        x.value = (double)(zero < 0 ? dv_int_least((dv_dtype)type)
                                    : dv_int_most((dv_dtype)type));
        return new_expr(o, x, off);
    }
    dv_expr factor = x, one = x;
    x.value = -ldexp(1, 53);
    factor.value = 1024;
    one.value = -1;
    dv_expr *least = binary(o, DV_FN_MUL, new_expr(o, x, off),
                            new_expr(o, factor, off), off);
    return zero < 0 ? least
                    : binary(o, DV_FN_SUB, new_expr(o, one, off), least, off);
}

// Applies a reducer's bound: terms outside it become the identity, so that
// sum[k <= t] x is sum[k] select(k <= t, x, 0). `type` holds all values of x.
static dv_status apply_bound(dv_opbuild *o, const dv_node *n, uint32_t i,
                             int type, dv_expr *e)
{
    const dv_reducer_info *r = dv_reducer_get((dv_reducer)n->op);
    dv_expr pick = {.kind = DV_EXPR_APPLY, .fn = DV_FN_SELECT, .n_args = 3};
    const dv_node *bound = n->args[i];
    if (n->op == DV_RED_MEAN)
        return dv_fail(o->b->diag, DV_E_SYNTAX, dv_build_at(o->b, bound->off),
                       "%s takes no bound; divide a sum", r->text);
    DV_TRY(expression(o, bound, &pick.arg[0]));
    for (int k = 0; k < 2; k++)
        DV_TRY(
            need_whole(o, "a bound", pick.arg[0]->arg[k]->dtype, bound->off));
    pick.arg[1] = e->arg[0];
    pick.arg[2] = identity(o, (dv_reducer)n->op, type, n->off);
    if (!pick.arg[2] || !(e->arg[0] = new_expr(o, pick, n->off)))
        return dv_nomem(o->b->diag);
    return DV_OK;
}

static dv_status bind_reduced(dv_opbuild *o, const dv_node *n)
{
    for (uint32_t i = 1; i < n->n_args; i++) {
        const dv_node *v = dv_node_reduced(n, i);
        if (dv_bound_find(o, v->name) >= 0)
            return already_bound(o, v);
        DV_TRY(dv_bound_add(o, v->name, v->off, 1));
    }
    return DV_OK;
}

static dv_status reduction(dv_opbuild *o, const dv_node *n, dv_expr *e)
{
    int first = o->n_vars;
    const dv_reducer_info *r = dv_reducer_get((dv_reducer)n->op);
    if (r->arg_of >= 0 || dv_reducer_orders(n->op))
        DV_TRY(one_variable(o, n, r->text));
    if (r->arg_of >= 0)
        return arg_reduction(o, n, e);
    DV_TRY(bind_reduced(o, n));
    if (dv_reducer_orders(n->op))
        return top_reduction(o, n, e);
    e->kind = DV_EXPR_REDUCE;
    e->fn = n->op;
    e->n_args = 1;
    for (int v = first; v < o->n_vars; v++)
        e->vars |= 1u << v;
    DV_TRY(expression(o, n->args[0], &e->arg[0]));
    int type = computed_type(o, e->arg[0]);
    for (uint32_t i = n->n_args; i-- > 1;)
        if (n->args[i]->kind != DV_NODE_NAME)
            DV_TRY(apply_bound(o, n, i, type, e));
    for (int v = first; v < o->n_vars; v++)
        o->vars[v].in_scope = 0;
    return type_of(o, e);
}

// Folds the negation of a constant into the constant, so that printed negative
// constants parse back to the same tree.
static const dv_expr *negated(dv_expr *e, const dv_expr *x)
{
    int8_t type = x->dtype;
    double v = type == DV_WEAK_INT ? 0.0 - x->value : -x->value;
    *e = (dv_expr){.kind = DV_EXPR_CONST, .dtype = type, .off = e->off};
    e->value = v;
    return e;
}

// Replaces the names x, y and z in the definition of a function by the
// arguments of its call. All other nodes get the call's position in the source.
static void substitute(dv_node **at, const dv_node *call)
{
    dv_node *n = *at;
    if (n->kind == DV_NODE_NAME)
        *at = call->args[n->name.at[0] - 'x'];
    n->off = call->off;
    for (uint32_t i = 0; n->kind == DV_NODE_APPLY && i < n->n_args; i++)
        substitute(&n->args[i], call);
}

static dv_status defined(dv_opbuild *o, const dv_node *call,
                         const dv_expr **out)
{
    const char *text = dv_fn_get(call->op)->definition;
    dv_source src = {dv_fn_get(call->op)->text, text, strlen(text)};
    dv_node *n = DV_NEW(&o->b->p->arena, dv_node, 1);
    if (!n)
        return dv_nomem(o->b->diag);
    DV_TRY(dv_parse_expr(n, &src, &o->b->p->arena, o->b->diag));
    substitute(&n, call);
    return expression(o, n, out);
}

static dv_status expression(dv_opbuild *o, const dv_node *n,
                            const dv_expr **out)
{
    if (n->kind == DV_NODE_APPLY && n->op >= DV_N_FNS)
        return defined(o, n, out);
    dv_expr *e = DV_NEW(&o->b->p->arena, dv_expr, 1);
    if (!e)
        return dv_nomem(o->b->diag);
    *out = e;
    e->off = n->off;
    int v = n->kind == DV_NODE_NAME ? dv_bound_find(o, n->name) : -1;
    if (v >= 0) {
        variable(o, n, v, e);
        return DV_OK;
    }
    const dv_counter *c =
        n->kind == DV_NODE_NAME ? dv_find_counter(o->b, n->name) : NULL;
    if (c) {
        dv_bound_warn(o, n);
        dv_node read = dv_counter_value(c, n);
        return expression(o, &read, out);
    }
    switch ((dv_node_kind)n->kind) {
    case DV_NODE_INT:
    case DV_NODE_FLOAT:
    case DV_NODE_INF:
    case DV_NODE_NAME:
        return constant(o, n, e);
    case DV_NODE_ACCESS:
    case DV_NODE_ELSE:
        e->kind = DV_EXPR_READ;
        DV_TRY(dv_access_read(o, n, &e->read));
        e->dtype = (int8_t)o->b->p->tensors[o->reads[e->read].tensor].dtype;
        return DV_OK;
    case DV_NODE_APPLY:
        e->kind = DV_EXPR_APPLY;
        e->fn = n->op;
        e->n_args = (uint8_t)n->n_args;
        for (uint32_t i = 0; i < n->n_args; i++)
            DV_TRY(expression(o, n->args[i], &e->arg[i]));
        if (e->fn == DV_FN_NEG && e->arg[0]->kind == DV_EXPR_CONST) {
            *out = negated(e, e->arg[0]);
            return DV_OK;
        }
        DV_TRY(type_of(o, e));
        dv_expr_fold_index(e);
        return DV_OK;
    case DV_NODE_REDUCE:
        break;
    }
    return reduction(o, n, e);
}

static dv_status check_redefinition(const dv_opbuild *o, int32_t id)
{
    const dv_stmt *s = o->s;
    const dv_tensor *t = &o->b->p->tensors[id];
    if (!t->is_const && (s->update || !t->is_defined))
        return DV_OK;
    dv_status st =
        dv_opbuild_fail(o, DV_E_NAME, s->off,
                        t->is_const   ? "is a constant, it is never written"
                        : t->is_input ? "is an input; update it with <-"
                                      : "is defined twice; update it with <-",
                        s->name);
    dv_note(o->b->diag, dv_build_at(o->b, t->off), "%s here",
            t->is_input ? "declared" : "defined");
    return st;
}

// Creates an undeclared output tensor; its shape is given by the ranges of the
// variables on the left side.
static dv_status define(dv_opbuild *o, int type, int32_t *id)
{
    dv_builder *b = o->b;
    const dv_node *lhs = o->s->lhs;
    if (dv_reducer_find(lhs->name) >= 0)
        return dv_opbuild_fail(o, DV_E_NAME, lhs->off,
                               "is a reducer; a tensor needs another name",
                               lhs->name);
    if (lhs->n_args > DV_MAX_DIMS)
        return dv_fail(b->diag, DV_E_LIMIT, dv_build_at(b, lhs->off),
                       "%u dimension%s, at most %d are supported", lhs->n_args,
                       DV_PLURAL(lhs->n_args, "", "s"), (int)DV_MAX_DIMS);
    int64_t *shape = DV_NEW(&b->p->arena, int64_t, lhs->n_args);
    char *name = dv_arena_copy(&b->p->arena, lhs->name.at, lhs->name.len);
    if (!shape || !name)
        return dv_nomem(b->diag);
    for (uint32_t d = 0; d < lhs->n_args; d++) {
        const dv_node *n = lhs->args[d];
        if (n->kind != DV_NODE_NAME)
            return dv_opbuild_fail(
                o, DV_E_SHAPE, n->off,
                "gets no shape from this index; declare it first: "
                "temp NAME: TYPE[…]",
                lhs->name);
        const dv_var *v = &o->vars[dv_bound_find(o, n->name)].var;
        if (v->begin < 0)
            return dv_fail(b->diag, DV_E_SHAPE, dv_build_at(b, n->off),
                           "%s would start at %" PRId64 "; say where it runs "
                           "with 'for %s in 0..end'",
                           v->name, v->begin, v->name);
        if (v->begin > 0)
            return dv_fail(b->diag, DV_E_SHAPE, dv_build_at(b, n->off),
                           "%s starts at %" PRId64 " and would leave %s[0] "
                           "undefined; define all of %s, then update it with "
                           "<-",
                           v->name, v->begin, name, name);
        shape[d] = v->end;
    }
    return dv_build_tensor(b,
                           (dv_tensor){.name = name,
                                       .dtype = (dv_dtype)type,
                                       .n_dims = (int32_t)lhs->n_args,
                                       .shape = shape,
                                       .off = lhs->off},
                           id);
}

static dv_status result_type(const dv_opbuild *o, int32_t id, int found,
                             int *out)
{
    const dv_stmt *s = o->s;
    if (id < 0) {
        *out = s->dtype >= 0            ? s->dtype
               : found >= 0             ? found
               : found == DV_WEAK_FLOAT ? (int)o->b->float_type
                                        : (int)o->b->int_type;
        return DV_OK;
    }
    const dv_tensor *t = &o->b->p->tensors[id];
    *out = (int)t->dtype;
    if (s->dtype >= 0 && s->dtype != *out)
        return dv_fail(o->b->diag, DV_E_DTYPE, dv_build_at(o->b, s->off),
                       "%s is %s, this says %s", t->name,
                       dv_dtype_get(t->dtype)->name,
                       dv_dtype_get((dv_dtype)s->dtype)->name);
    return DV_OK;
}

// Counts the variables that reducers bind, up to DV_MAX_VARS, the most that an
// op may have. The operand of an argmax counts twice, because it is built
// twice.
static int64_t count_reduced(const dv_node *n)
{
    int64_t c = n->kind == DV_NODE_REDUCE ? (int64_t)n->n_args - 1 : 0;
    if (n->kind >= DV_NODE_ACCESS)
        for (uint32_t i = 0; i < n->n_args; i++)
            c += count_reduced(n->args[i]);
    int twice = n->kind == DV_NODE_REDUCE &&
                dv_reducer_get((dv_reducer)n->op)->arg_of >= 0;
    return dv_min_i64(twice ? 2 * c : c, DV_MAX_VARS);
}

static dv_status bind_left(dv_opbuild *o)
{
    const dv_stmt *s = o->s;
    for (uint32_t d = 0; d < s->lhs->n_args; d++)
        DV_TRY(dv_bound_index(o, s->lhs->args[d], 1));
    int64_t width = o->n_vars + count_reduced(s->value);
    o->width = width > DV_MAX_VARS ? DV_MAX_VARS : (int)width;
    for (int i = 0; i < s->n_ranges; i++) {
        dv_str name = s->ranges[i].name;
        if (dv_bound_for(s, name) != &s->ranges[i])
            return dv_opbuild_fail(o, DV_E_NAME, s->ranges[i].off,
                                   "has two ranges in one 'for'", name);
        if (dv_bound_find(o, name) < 0 && !dv_bound_reduced(s->value, name))
            return dv_opbuild_fail(
                o, DV_E_NAME, s->ranges[i].off,
                "has a range but is no index of the left side, nor "
                "reduced over",
                name);
    }
    return DV_OK;
}

// Returns whether the iteration count of every reducer, including the loops
// around it, fits 64 bits.
static int can_count(const dv_op *op, const dv_expr *e, uint32_t vars)
{
    uint32_t inner = e->kind == DV_EXPR_REDUCE ? vars | e->vars : vars;
    if (!dv_op_points(op, inner))
        return 0;
    for (int i = 0; i < e->n_args; i++)
        if (!can_count(op, e->arg[i], inner))
            return 0;
    return 1;
}

static dv_status add_op(dv_opbuild *o, const dv_access *write,
                        const dv_expr *body)
{
    dv_program *p = o->b->p;
    dv_var *vars = DV_NEW(&p->arena, dv_var, o->n_vars);
    if (!vars)
        return dv_nomem(o->b->diag);
    for (int v = 0; v < o->n_vars; v++)
        vars[v] = o->vars[v].var;
    dv_op op = {.name = p->tensors[write->tensor].name,
                .vars = vars,
                .n_vars = o->n_vars,
                .n_reads = o->n_reads,
                .write = *write,
                .reads = o->reads,
                .body = body,
                .update = o->s->update,
                .is_extern = o->s->is_extern,
                .off = o->s->off};
    if (!can_count(&op, body, dv_written_vars(&op)))
        return dv_fail(o->b->diag, DV_E_OVERFLOW, dv_build_at(o->b, o->s->off),
                       "the statement has more than 2^63 - 1 points");
    return dv_program_add_op(p, &op) ? DV_OK : dv_nomem(o->b->diag);
}

dv_status dv_build_op(dv_builder *b, const dv_stmt *s)
{
    dv_opbuild o = {.b = b, .s = s};
    const dv_expr *body = NULL;
    dv_access write;
    int32_t id = dv_table_get(&b->p->tensor_ids, s->name.at, s->name.len, -1);
    if (id >= 0)
        DV_TRY(check_redefinition(&o, id));
    if (id >= 0 || s->update)
        DV_TRY(dv_access_tensor(&o, s->lhs, &id));
    DV_TRY(bind_left(&o));
    // The shape of an existing tensor gives ranges to the variables of the left
    // side.
    if (id >= 0)
        DV_TRY(dv_access_make(&o, s->lhs, id, 0, &write));
    DV_TRY(expression(&o, s->value, &body));
    for (int v = 0; v < o.n_vars; v++) {
        DV_TRY(dv_bound_range(&o, &o.vars[v]));
        if (o.last[v])
            o.last[v]->value = (double)(o.vars[v].var.end - 1);
    }
    if (o.n_tops)
        return dv_top_replace(&o);
    int type;
    DV_TRY(result_type(&o, id, body->dtype, &type));
    if (id < 0) {
        DV_TRY(define(&o, type, &id));
        DV_TRY(dv_access_make(&o, s->lhs, id, 0, &write));
    }
    DV_TRY(add_op(&o, &write, body));
    if (!s->update) {
        b->p->tensors[id].is_defined = 1;
        b->p->tensors[id].is_dead = (uint8_t)b->in_dead_repeat;
    }
    return DV_OK;
}
