// One assignment: which names are variables, what each index is as an affine
// form, which range each variable has, which type the result has.
//
// A variable is bound by the left side, by a reducer or by `for`. Its range
// comes from `for`; else from the tensors it indexes alone (x[i]), which must
// agree; else from the one index it is alone in (a[3*i+2], a[N-1-i]).
#include "ir/build.h"
#include "base/math.h"
#include <inttypes.h>
#include <string.h>

// A place that says something about a variable's range.
typedef struct place {
    int known;
    int64_t begin, end;
    uint32_t off;
    int32_t tensor, dim;
} place;

typedef struct binding {
    dv_var var;
    dv_str name;
    int in_scope;
    const dv_for *range; // NULL: none given
    place plain, derived;
} binding;

typedef struct opbuild {
    dv_builder *b;
    const dv_stmt *s;
    binding vars[DV_MAX_VARS];
    int n_vars; // bound so far
    int width;  // length of coefficient arrays: all that will be bound
    dv_access *reads;
    int32_t n_reads, cap_reads;
} opbuild;

typedef struct form {
    int64_t base;
    int64_t coef[DV_MAX_VARS];
} form;

static dv_status fail_at(const opbuild *o, dv_status st, uint32_t off,
                         const char *text, dv_str name)
{
    int len = name.len > 60 ? 60 : (int)name.len;
    return dv_fail(o->b->diag, st, dv_build_at(o->b, off), "%.*s %s", len,
                   name.at, text);
}

// -- Variables ---------------------------------------------------------------

static int find_var(const opbuild *o, dv_str name)
{
    for (int v = 0; v < o->n_vars; v++)
        if (o->vars[v].in_scope && dv_str_eq(o->vars[v].name, name))
            return v;
    return -1;
}

static const dv_for *find_for(const dv_stmt *s, dv_str name)
{
    for (int i = 0; i < s->n_ranges; i++)
        if (dv_str_eq(s->ranges[i].name, name))
            return &s->ranges[i];
    return NULL;
}

static dv_status bind(opbuild *o, dv_str name, uint32_t off, int reduce)
{
    if (o->n_vars == DV_MAX_VARS)
        return dv_fail(o->b->diag, DV_E_LIMIT, dv_build_at(o->b, off),
                       "a statement has at most %d variables",
                       (int)DV_MAX_VARS);
    binding *v = &o->vars[o->n_vars++];
    *v = (binding){.name = name, .in_scope = 1, .range = find_for(o->s, name)};
    v->var.name = dv_arena_copy(&o->b->p->arena, name.at, name.len);
    v->var.reduce = (uint8_t)reduce;
    v->var.off = off;
    return v->var.name ? DV_OK : dv_nomem(o->b->diag);
}

// Bind what an index of the left side names: a name alone always, a name in a
// larger index unless it is a param.
static dv_status bind_index(opbuild *o, const dv_node *n, int alone)
{
    if (n->kind == DV_NODE_NAME) {
        if (find_var(o, n->name) >= 0)
            return DV_OK;
        int is_param = dv_build_param(o->b, n->name) != NULL;
        if (!alone && is_param && !find_for(o->s, n->name))
            return DV_OK;
        if (alone && is_param && o->s->update)
            dv_warn(o->b->diag, "name", dv_build_at(o->b, n->off),
                    "%.*s is a variable here, not the param; write %.*s + 0 "
                    "for the param",
                    (int)n->name.len, n->name.at, (int)n->name.len, n->name.at);
        return bind(o, n->name, n->off, 0);
    }
    if (n->kind == DV_NODE_APPLY || n->kind == DV_NODE_ACCESS)
        for (uint32_t i = 0; i < n->n_args; i++)
            DV_TRY(
                bind_index(o, n->args[i], alone && n->kind == DV_NODE_ACCESS));
    return DV_OK;
}

static int64_t count_reduced(const dv_node *n)
{
    int64_t c = n->kind == DV_NODE_REDUCE ? (int64_t)n->n_args - 1 : 0;
    if (n->kind >= DV_NODE_ACCESS)
        for (uint32_t i = 0; i < n->n_args; i++)
            c += count_reduced(n->args[i]);
    return c;
}

static int is_reduced(const dv_node *n, dv_str name)
{
    if (n->kind < DV_NODE_ACCESS)
        return 0;
    for (uint32_t i = 0; i < n->n_args; i++) {
        if (n->kind == DV_NODE_REDUCE && i > 0 &&
            dv_str_eq(n->args[i]->name, name))
            return 1;
        if (is_reduced(n->args[i], name))
            return 1;
    }
    return 0;
}

static dv_status unknown_name(const opbuild *o, const dv_node *n)
{
    if (is_reduced(o->s->value, n->name))
        return fail_at(o, DV_E_NAME, n->off,
                       "is used outside the reducer that binds it; a reducer "
                       "ends before + and -, parentheses extend it",
                       n->name);
    return fail_at(o, DV_E_NAME, n->off,
                   "is neither an index on the left side nor reduced over, "
                   "nor a param",
                   n->name);
}

// -- Affine forms ------------------------------------------------------------

static int is_constant(const form *f, int n)
{
    for (int v = 0; v < n; v++)
        if (f->coef[v])
            return 0;
    return 1;
}

static dv_status overflow(const opbuild *o, const dv_node *n)
{
    return dv_fail(o->b->diag, DV_E_OVERFLOW, dv_build_at(o->b, n->off),
                   "the index does not fit 64 bits");
}

static dv_status affine(opbuild *o, const dv_node *n, form *out);

// out = x + scale * y, overflow checked.
static int add_scaled(form *out, const form *x, const form *y, int64_t scale)
{
    int64_t t;
    int fits =
        dv_mul_i64(&t, y->base, scale) && dv_add_i64(&out->base, x->base, t);
    for (int v = 0; fits && v < DV_MAX_VARS; v++)
        fits = dv_mul_i64(&t, y->coef[v], scale) &&
               dv_add_i64(&out->coef[v], x->coef[v], t);
    return fits;
}

static dv_status affine_apply(opbuild *o, const dv_node *n, form *out)
{
    form x = {0}, y = {0}, zero = {0};
    DV_TRY(affine(o, n->args[0], &x));
    if (n->n_args == 2)
        DV_TRY(affine(o, n->args[1], &y));
    int fits;
    if (n->op == DV_FN_NEG)
        fits = add_scaled(out, &zero, &x, -1);
    else if (n->op == DV_FN_ADD || n->op == DV_FN_SUB)
        fits = add_scaled(out, &x, &y, n->op == DV_FN_ADD ? 1 : -1);
    else if (n->op == DV_FN_MUL && is_constant(&y, DV_MAX_VARS))
        fits = add_scaled(out, &zero, &x, y.base);
    else if (n->op == DV_FN_MUL && is_constant(&x, DV_MAX_VARS))
        fits = add_scaled(out, &zero, &y, x.base);
    else if (n->op == DV_FN_DIV && is_constant(&x, DV_MAX_VARS) &&
             is_constant(&y, DV_MAX_VARS))
        return dv_build_int(o->b, n, &out->base);
    else
        return dv_fail(o->b->diag, DV_E_SYNTAX, dv_build_at(o->b, n->off),
                       "an index is a sum of variables with whole factors; "
                       "this %s is none",
                       dv_fn_get((dv_fn)n->op)->text);
    return fits ? DV_OK : overflow(o, n);
}

static dv_status affine(opbuild *o, const dv_node *n, form *out)
{
    *out = (form){0};
    switch ((dv_node_kind)n->kind) {
    case DV_NODE_INT:
        out->base = n->i;
        return DV_OK;
    case DV_NODE_NAME: {
        int v = find_var(o, n->name);
        if (v >= 0) {
            out->coef[v] = 1;
            return DV_OK;
        }
        if (!dv_build_param(o->b, n->name))
            return unknown_name(o, n);
        return dv_build_int(o->b, n, &out->base);
    }
    case DV_NODE_APPLY:
        if (n->op >= DV_FN_ADD && n->op <= DV_FN_NEG)
            return affine_apply(o, n, out);
        break;
    case DV_NODE_ACCESS:
        return dv_fail(o->b->diag, DV_E_SYNTAX, dv_build_at(o->b, n->off),
                       "an access used as an index stands alone");
    case DV_NODE_FLOAT:
    case DV_NODE_INF:
    case DV_NODE_REDUCE:
        break;
    }
    return dv_fail(o->b->diag, DV_E_SYNTAX, dv_build_at(o->b, n->off),
                   "an index is made of variables, whole numbers and + - *");
}

// -- What accesses say about ranges ------------------------------------------

static dv_status disagree(const opbuild *o, const binding *v, const place *a,
                          const place *b)
{
    const dv_tensor *t = o->b->p->tensors;
    dv_status st = dv_fail(
        o->b->diag, DV_E_SHAPE, dv_build_at(o->b, b->off),
        "%s runs over %" PRId64 "..%" PRId64 " here (dim %d of %s) but over "
        "%" PRId64 "..%" PRId64 " before (dim %d of %s)",
        v->var.name, b->begin, b->end, (int)b->dim, t[b->tensor].name, a->begin,
        a->end, (int)a->dim, t[a->tensor].name);
    dv_note(o->b->diag, dv_build_at(o->b, a->off), "before");
    return st;
}

static dv_status say(const opbuild *o, const binding *v, place *known,
                     place new_place)
{
    if (!known->known)
        *known = new_place;
    else if (known->begin != new_place.begin || known->end != new_place.end)
        return disagree(o, v, known, &new_place);
    return DV_OK;
}

// Index `f` of dim `dim` stays inside the tensor: what does that tell?
static dv_status learn(opbuild *o, const dv_node *n, const form *f,
                       int32_t tensor, int dim)
{
    int only = -1;
    for (int v = 0; v < o->n_vars; v++) {
        if (f->coef[v] && only >= 0)
            return DV_OK;
        if (f->coef[v])
            only = v;
    }
    if (only < 0 || o->vars[only].range)
        return DV_OK;
    binding *v = &o->vars[only];
    int64_t c = f->coef[only], extent = o->b->p->tensors[tensor].shape[dim];
    place here = {1, 0, extent, n->off, tensor, dim};
    if (n->kind == DV_NODE_NAME)
        return say(o, v, &v->plain, here);
    int64_t low, high; // low <= c * v <= high
    if (c == INT64_MIN || !dv_sub_i64(&low, 0, f->base) ||
        !dv_sub_i64(&high, extent - 1, f->base))
        return overflow(o, n);
    here.begin = c > 0 ? dv_ceil_div(low, c) : -dv_floor_div(high, -c);
    here.end = 1 + (c > 0 ? dv_floor_div(high, c) : -dv_ceil_div(low, -c));
    if (v->plain.known)
        return DV_OK;
    // Kept without complaint: a plain place may still come and decide.
    if (!v->derived.known)
        v->derived = here;
    else if (v->derived.begin != here.begin || v->derived.end != here.end)
        v->derived.known = 2;
    return DV_OK;
}

static dv_status find_range(opbuild *o, binding *v)
{
    if (v->range) {
        int64_t *begin = &v->var.begin, *end = &v->var.end;
        DV_TRY(dv_build_int(o->b, v->range->begin, begin));
        DV_TRY(dv_build_int(o->b, v->range->end, end));
        int64_t n;
        if (*begin >= *end)
            return dv_fail(o->b->diag, DV_E_SHAPE,
                           dv_build_at(o->b, v->range->off),
                           "the range %" PRId64 "..%" PRId64 " of %s is empty",
                           *begin, *end, v->var.name);
        if (!dv_sub_i64(&n, *end, *begin))
            return dv_fail(
                o->b->diag, DV_E_OVERFLOW, dv_build_at(o->b, v->range->off),
                "the range of %s has more than 2^63 - 1 values", v->var.name);
        return DV_OK;
    }
    const place *from = v->plain.known ? &v->plain : &v->derived;
    if (!from->known)
        return fail_at(o, DV_E_SHAPE, v->var.off,
                       "has no range; give one with 'for … in begin..end'",
                       v->name);
    if (from->known == 2)
        return fail_at(o, DV_E_SHAPE, v->var.off,
                       "gets different ranges from the indices it is in; say "
                       "which with 'for … in begin..end'",
                       v->name);
    if (from->begin >= from->end)
        return fail_at(o, DV_E_SHAPE, v->var.off,
                       "has no value for which its indices are inside",
                       v->name);
    v->var.begin = from->begin;
    v->var.end = from->end;
    return DV_OK;
}

// -- Accesses ----------------------------------------------------------------

static const dv_stmt *defined_later(const dv_stmt *s, dv_str name)
{
    for (; s; s = s->next) {
        if ((s->kind == DV_STMT_ASSIGN || s->kind == DV_STMT_INPUT) &&
            dv_str_eq(s->name, name))
            return s;
        const dv_stmt *in = s->body ? defined_later(s->body, name) : NULL;
        if (in)
            return in;
    }
    return NULL;
}

static dv_status find_tensor(const opbuild *o, const dv_node *n, int32_t *id)
{
    const dv_program *p = o->b->p;
    *id = dv_table_get(&p->tensor_ids, n->name.at, n->name.len, -1);
    int known = *id >= 0;
    if (known &&
        (p->tensors[*id].is_defined || (n == o->s->lhs && !o->s->update)))
        return DV_OK;
    const dv_stmt *later = defined_later(p->ast.first, n->name);
    if (!later && !known)
        return dv_fail(o->b->diag, DV_E_NAME, dv_build_at(o->b, n->off),
                       "there is no tensor %.*s", (int)n->name.len, n->name.at);
    dv_status st = fail_at(o, DV_E_NAME, n->off,
                           n == o->s->lhs ? "is updated before it is defined"
                                          : "is read before it is defined",
                           n->name);
    if (later && later->off != o->s->off)
        dv_note(o->b->diag, dv_build_at(o->b, later->off), "defined here");
    return st;
}

static dv_status read_access(opbuild *o, const dv_node *n, int32_t *read);

// One index into x.
static dv_status index_of(opbuild *o, const dv_node *n, int32_t tensor, int dim,
                          dv_index *x)
{
    x->via = -1;
    if (n->kind == DV_NODE_ACCESS) {
        DV_TRY(read_access(o, n, &x->via));
        const dv_tensor *t = &o->b->p->tensors[o->reads[x->via].tensor];
        if (dv_is_float(t->dtype))
            return dv_fail(o->b->diag, DV_E_DTYPE, dv_build_at(o->b, n->off),
                           "an index is whole, %s holds %s", t->name,
                           dv_dtype_get(t->dtype)->name);
        return DV_OK;
    }
    form f;
    DV_TRY(affine(o, n, &f));
    DV_TRY(learn(o, n, &f, tensor, dim));
    int64_t *coef = DV_NEW(&o->b->p->arena, int64_t, o->width);
    if (!coef)
        return dv_nomem(o->b->diag);
    memcpy(coef, f.coef, (size_t)o->width * sizeof *coef);
    x->base = f.base;
    x->coef = coef;
    return DV_OK;
}

static dv_status make_access(opbuild *o, const dv_node *n, int32_t tensor,
                             dv_access *out)
{
    const dv_tensor *t = &o->b->p->tensors[tensor];
    if ((int64_t)n->n_args != t->n_dims)
        return dv_fail(o->b->diag, DV_E_SHAPE, dv_build_at(o->b, n->off),
                       "%s has %d dimension%s, here are %d ind%s", t->name,
                       (int)t->n_dims, t->n_dims == 1 ? "" : "s",
                       (int)n->n_args, n->n_args == 1 ? "ex" : "ices");
    dv_index *index = DV_NEW(&o->b->p->arena, dv_index, n->n_args);
    if (!index)
        return dv_nomem(o->b->diag);
    for (uint32_t d = 0; d < n->n_args; d++)
        DV_TRY(index_of(o, n->args[d], tensor, (int)d, &index[d]));
    *out = (dv_access){tensor, (int32_t)n->n_args, n->off, index};
    return DV_OK;
}

// Note an access among the op's reads, once, and give its number.
static dv_status read_access(opbuild *o, const dv_node *n, int32_t *read)
{
    int32_t tensor;
    dv_access a;
    DV_TRY(find_tensor(o, n, &tensor));
    DV_TRY(make_access(o, n, tensor, &a));
    const dv_op shape = {.n_vars = o->width};
    for (int32_t i = 0; i < o->n_reads; i++) {
        if (dv_access_equal(&shape, &o->reads[i], &a)) {
            *read = i;
            return DV_OK;
        }
    }
    if (o->n_reads == DV_MAX_READS)
        return dv_fail(o->b->diag, DV_E_LIMIT, dv_build_at(o->b, n->off),
                       "a statement reads at most %d different accesses",
                       (int)DV_MAX_READS);
    *read = o->n_reads;
    dv_access *slot =
        DV_PUSH(&o->b->p->arena, dv_access, o->reads, o->n_reads, o->cap_reads);
    if (!slot)
        return dv_nomem(o->b->diag);
    *slot = a;
    return DV_OK;
}

// -- Types -------------------------------------------------------------------

static dv_status need_real(const opbuild *o, const char *what, int type,
                           uint32_t off)
{
    if (type < 0 || dv_is_float((dv_dtype)type))
        return DV_OK;
    return dv_fail(o->b->diag, DV_E_DTYPE, dv_build_at(o->b, off),
                   "%s needs floats, this is %s; store it in a float tensor "
                   "first (t[…]: f32 = …)",
                   what, dv_dtype_get((dv_dtype)type)->name);
}

static dv_status type_of(const opbuild *o, dv_expr *e)
{
    int reduce = e->kind == DV_EXPR_REDUCE;
    const dv_reducer_info *r = dv_reducer_get((dv_reducer)e->fn);
    const dv_fn_info *f = dv_fn_get((dv_fn)e->fn);
    int first = !reduce && e->fn == DV_FN_SELECT ? 1 : 0;
    for (int i = first; i < e->n_args && (reduce ? r->real : f->real); i++)
        DV_TRY(
            need_real(o, reduce ? r->text : f->text, e->arg[i]->dtype, e->off));
    e->dtype = dv_expr_type(e);
    return DV_OK;
}

// -- Expressions -------------------------------------------------------------

static dv_status expression(opbuild *o, const dv_node *n, const dv_expr **out);

// Values are doubles here: a whole number that none holds is refused.
static dv_status check_whole(const opbuild *o, const dv_node *n, int64_t i)
{
    int64_t most = (int64_t)1 << 53;
    if (i >= -most && i <= most)
        return DV_OK;
    return dv_fail(o->b->diag, DV_E_OVERFLOW, dv_build_at(o->b, n->off),
                   "whole numbers in values go up to 2^53, this is %" PRId64,
                   i);
}

static dv_status constant(opbuild *o, const dv_node *n, dv_expr *e)
{
    e->kind = DV_EXPR_CONST;
    e->dtype = n->kind == DV_NODE_INT ? DV_WEAK_INT : DV_WEAK_FLOAT;
    if (n->kind == DV_NODE_INT)
        e->value = (double)n->i;
    else if (n->kind == DV_NODE_FLOAT)
        e->value = n->f;
    else
        e->value = dv_reducer_get(DV_RED_MIN)->zero; // inf
    if (n->kind == DV_NODE_INT)
        return check_whole(o, n, n->i);
    if (n->kind != DV_NODE_NAME)
        return DV_OK;
    if (find_var(o, n->name) >= 0)
        return fail_at(o, DV_E_NAME, n->off,
                       "is an index; only tensors, params and numbers have "
                       "values",
                       n->name);
    const dv_param_value *p = dv_build_param(o->b, n->name);
    if (!p)
        return fail_at(o, DV_E_NAME, n->off,
                       "is no param; a tensor is read with brackets, a scalar "
                       "as name[]",
                       n->name);
    e->value = p->f;
    e->dtype = p->is_float ? DV_WEAK_FLOAT : DV_WEAK_INT;
    return p->is_float ? DV_OK : check_whole(o, n, p->i);
}

static dv_status reduction(opbuild *o, const dv_node *n, dv_expr *e)
{
    int first = o->n_vars;
    e->kind = DV_EXPR_REDUCE;
    e->fn = n->op;
    e->n_args = 1;
    for (uint32_t i = 1; i < n->n_args; i++) {
        int old = find_var(o, n->args[i]->name);
        if (old >= 0) {
            dv_status st = fail_at(o, DV_E_NAME, n->args[i]->off,
                                   "already is a variable here; reduce over "
                                   "another name",
                                   n->args[i]->name);
            dv_note(o->b->diag, dv_build_at(o->b, o->vars[old].var.off),
                    "bound here");
            return st;
        }
        e->vars |= 1u << o->n_vars;
        DV_TRY(bind(o, n->args[i]->name, n->args[i]->off, 1));
    }
    DV_TRY(expression(o, n->args[0], &e->arg[0]));
    for (int v = first; v < o->n_vars; v++)
        o->vars[v].in_scope = 0;
    return type_of(o, e);
}

// A minus before a number is part of the number, so that printed constants
// read back as what they were.
static const dv_expr *negated(dv_expr *e, const dv_expr *x)
{
    int8_t type = x->dtype;
    double v = type == DV_WEAK_INT ? 0.0 - x->value : -x->value;
    *e = (dv_expr){.kind = DV_EXPR_CONST, .dtype = type, .off = e->off};
    e->value = v;
    return e;
}

static dv_status expression(opbuild *o, const dv_node *n, const dv_expr **out)
{
    dv_expr *e = DV_NEW(&o->b->p->arena, dv_expr, 1);
    if (!e)
        return dv_nomem(o->b->diag);
    *out = e;
    e->off = n->off;
    switch ((dv_node_kind)n->kind) {
    case DV_NODE_INT:
    case DV_NODE_FLOAT:
    case DV_NODE_INF:
    case DV_NODE_NAME:
        return constant(o, n, e);
    case DV_NODE_ACCESS:
        e->kind = DV_EXPR_READ;
        DV_TRY(read_access(o, n, &e->read));
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
        return type_of(o, e);
    case DV_NODE_REDUCE:
        break;
    }
    return reduction(o, n, e);
}

// -- The left side -----------------------------------------------------------

static dv_status check_redefinition(const opbuild *o, int32_t id)
{
    const dv_stmt *s = o->s;
    const dv_tensor *t = &o->b->p->tensors[id];
    if (s->update || !t->is_defined)
        return DV_OK;
    dv_status st = fail_at(o, DV_E_NAME, s->off,
                           t->is_input ? "is an input; update it with <-"
                                       : "is defined twice; update it with <-",
                           s->name);
    dv_note(o->b->diag, dv_build_at(o->b, t->off), "%s here",
            t->is_input ? "declared" : "defined");
    return st;
}

// A tensor that no declaration names takes its shape from the variables.
static dv_status define(opbuild *o, int type, int32_t *id)
{
    dv_builder *b = o->b;
    const dv_node *lhs = o->s->lhs;
    if (dv_reducer_find(lhs->name) >= 0)
        return fail_at(o, DV_E_NAME, lhs->off,
                       "is a reducer; a tensor needs another name", lhs->name);
    if (lhs->n_args > DV_MAX_DIMS)
        return dv_fail(b->diag, DV_E_LIMIT, dv_build_at(b, lhs->off),
                       "%u dimensions, at most %d are supported", lhs->n_args,
                       (int)DV_MAX_DIMS);
    int64_t *shape = DV_NEW(&b->p->arena, int64_t, lhs->n_args);
    char *name = dv_arena_copy(&b->p->arena, lhs->name.at, lhs->name.len);
    if (!shape || !name)
        return dv_nomem(b->diag);
    for (uint32_t d = 0; d < lhs->n_args; d++) {
        const dv_node *n = lhs->args[d];
        if (n->kind != DV_NODE_NAME)
            return fail_at(o, DV_E_SHAPE, n->off,
                           "gets no shape from this index; declare it first: "
                           "temp NAME: TYPE[…]",
                           lhs->name);
        const dv_var *v = &o->vars[find_var(o, n->name)].var;
        if (v->begin != 0)
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

static dv_status result_type(const opbuild *o, int32_t id, int found, int *out)
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

static dv_status bind_left(opbuild *o)
{
    const dv_stmt *s = o->s;
    for (uint32_t d = 0; d < s->lhs->n_args; d++)
        DV_TRY(bind_index(o, s->lhs->args[d], 1));
    int64_t width = o->n_vars + count_reduced(s->value);
    o->width = width > DV_MAX_VARS ? DV_MAX_VARS : (int)width;
    for (int i = 0; i < s->n_ranges; i++) {
        dv_str name = s->ranges[i].name;
        if (find_for(s, name) != &s->ranges[i])
            return fail_at(o, DV_E_NAME, s->ranges[i].off,
                           "has two ranges in one 'for'", name);
        if (find_var(o, name) < 0 && !is_reduced(s->value, name))
            return fail_at(o, DV_E_NAME, s->ranges[i].off,
                           "has a range but is no index of the left side, nor "
                           "reduced over",
                           name);
    }
    return DV_OK;
}

// -- The statement -----------------------------------------------------------

static dv_status add_op(opbuild *o, const dv_access *write, const dv_expr *body)
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
    if (!dv_op_points(&op, dv_all_vars(&op)))
        return dv_fail(o->b->diag, DV_E_OVERFLOW, dv_build_at(o->b, o->s->off),
                       "the statement has more than 2^63 - 1 points");
    return dv_program_add_op(p, &op) ? DV_OK : dv_nomem(o->b->diag);
}

dv_status dv_build_assign(dv_builder *b, const dv_stmt *s)
{
    opbuild o = {.b = b, .s = s};
    const dv_expr *body = NULL;
    dv_access write;
    int32_t id = dv_table_get(&b->p->tensor_ids, s->name.at, s->name.len, -1);
    if (id >= 0)
        DV_TRY(check_redefinition(&o, id));
    if (id >= 0 || s->update)
        DV_TRY(find_tensor(&o, s->lhs, &id));
    DV_TRY(bind_left(&o));
    // What exists already says something about the left side's ranges.
    if (id >= 0)
        DV_TRY(make_access(&o, s->lhs, id, &write));
    DV_TRY(expression(&o, s->value, &body));
    for (int v = 0; v < o.n_vars; v++)
        DV_TRY(find_range(&o, &o.vars[v]));
    int type;
    DV_TRY(result_type(&o, id, body->dtype, &type));
    if (id < 0) {
        DV_TRY(define(&o, type, &id));
        DV_TRY(make_access(&o, s->lhs, id, &write));
    }
    DV_TRY(add_op(&o, &write, body));
    if (!s->update) {
        b->p->tensors[id].is_defined = 1;
        b->p->tensors[id].is_dead = (uint8_t)b->in_dead_repeat;
    }
    return DV_OK;
}
