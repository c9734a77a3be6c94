// Names and indices of one assignment: which names are variables, the affine
// form of each index, and the range of each variable.
//
// A variable is bound by the left side, by a reducer or by `for`. Its range
// comes from `for` if given; otherwise from the dims it indexes alone (x[i]),
// which must agree; otherwise from indices with no other variable (a[3*i+2],
// a[N-1-i]); otherwise from dims that it indexes alone in reads with a border.
#include "ir/build.h"
#include "base/math.h"
#include "base/plural.h"
#include "lang/reduce.h"
#include <inttypes.h>
#include <string.h>

typedef struct form {
    int64_t base;
    int64_t coef[DV_MAX_VARS];
    int64_t factor; // of the value that read number `via` loads, unless it is 0
    int32_t via;
} form;

dv_status dv_opbuild_fail(const dv_opbuild *o, dv_status st, uint32_t off,
                          const char *text, dv_str name)
{
    int len = name.len > 60 ? 60 : (int)name.len;
    return dv_fail(o->b->diag, st, dv_build_at(o->b, off), "%.*s %s", len,
                   name.at, text);
}

int dv_bound_find(const dv_opbuild *o, dv_str name)
{
    for (int v = 0; v < o->n_vars; v++)
        if (o->vars[v].in_scope && dv_str_eq(o->vars[v].name, name))
            return v;
    return -1;
}

const dv_for *dv_bound_for(const dv_stmt *s, dv_str name)
{
    for (int i = 0; i < s->n_ranges; i++)
        if (dv_str_eq(s->ranges[i].name, name))
            return &s->ranges[i];
    return NULL;
}

dv_status dv_bound_add(dv_opbuild *o, dv_str name, uint32_t off, int reduce)
{
    if (o->n_vars == DV_MAX_VARS)
        return dv_fail(o->b->diag, DV_E_LIMIT, dv_build_at(o->b, off),
                       "a statement has at most %d variables",
                       (int)DV_MAX_VARS);
    dv_binding *v = &o->vars[o->n_vars++];
    *v = (dv_binding){
        .name = name, .in_scope = 1, .range = dv_bound_for(o->s, name)};
    v->var.name = dv_arena_copy(&o->b->p->arena, name.at, name.len);
    v->var.reduce = (uint8_t)reduce;
    v->var.off = off;
    return v->var.name ? DV_OK : dv_nomem(o->b->diag);
}

// Binds the variables that occur in an index of the left side. A name that is
// the whole index is always a variable; a name inside a larger index is one
// unless it is a param (a named constant). The name of a repeat's counter is a
// variable only if `for` gives it a range.
dv_status dv_bound_index(dv_opbuild *o, const dv_node *n, int alone)
{
    if (n->kind == DV_NODE_NAME) {
        if (dv_bound_find(o, n->name) >= 0 ||
            (dv_find_counter(o->b, n->name) && !dv_bound_for(o->s, n->name)))
            return DV_OK;
        int is_param = dv_find_param(o->b, n->name) != NULL;
        if (!alone && is_param && !dv_bound_for(o->s, n->name))
            return DV_OK;
        if (alone && is_param && o->s->update && !o->b->quiet &&
            !dv_bound_for(o->s, n->name))
            dv_warn(o->b->diag, "name", dv_build_at(o->b, n->off),
                    "%.*s is a variable here, not the param; write %.*s + 0 "
                    "for the param",
                    (int)n->name.len, n->name.at, (int)n->name.len, n->name.at);
        return dv_bound_add(o, n->name, n->off, 0);
    }
    if (n->kind == DV_NODE_ELSE)
        return dv_bound_index(o, n->args[0], alone);
    if (n->kind == DV_NODE_APPLY || n->kind == DV_NODE_ACCESS)
        for (uint32_t i = 0; i < n->n_args; i++)
            DV_TRY(dv_bound_index(o, n->args[i],
                                  alone && n->kind == DV_NODE_ACCESS));
    return DV_OK;
}

int dv_bound_reduced(const dv_node *n, dv_str name)
{
    if (n->kind < DV_NODE_ACCESS)
        return 0;
    for (uint32_t i = 0; i < n->n_args; i++) {
        if (n->kind == DV_NODE_REDUCE && i > 0 &&
            dv_str_eq(dv_node_reduced(n, i)->name, name))
            return 1;
        if (dv_bound_reduced(n->args[i], name))
            return 1;
    }
    return 0;
}

void dv_bound_warn(dv_opbuild *o, const dv_node *n)
{
    if (n->kind != DV_NODE_NAME || o->b->quiet || o->n_hiding == DV_MAX_VARS)
        return;
    int is_bound = dv_bound_find(o, n->name) >= 0;
    int is_counter = dv_find_counter(o->b, n->name) != NULL;
    int hides_counter = is_bound && is_counter;
    if (!(is_bound || is_counter) ||
        !(hides_counter || dv_find_param(o->b, n->name)))
        return;
    for (int i = 0; i < o->n_hiding; i++)
        if (dv_str_eq(o->hiding[i], n->name))
            return;
    o->hiding[o->n_hiding++] = n->name;
    dv_warn(o->b->diag, "name", dv_build_at(o->b, n->off),
            "%.*s is a variable here, not the %s; one of them needs another "
            "name",
            (int)n->name.len, n->name.at, hides_counter ? "counter" : "param");
}

static dv_status unknown_name(const dv_opbuild *o, const dv_node *n)
{
    if (dv_bound_reduced(o->s->value, n->name))
        return dv_opbuild_fail(
            o, DV_E_NAME, n->off,
            "is used outside the reducer that binds it; a reducer "
            "ends before + and -, parentheses extend it",
            n->name);
    return dv_opbuild_fail(
        o, DV_E_NAME, n->off,
        "is neither an index on the left side nor reduced over, "
        "nor a param",
        n->name);
}

static int is_constant(const form *f, int n)
{
    for (int v = 0; v < n; v++)
        if (f->coef[v])
            return 0;
    return f->factor == 0;
}

static dv_status overflow(const dv_opbuild *o, const dv_node *n)
{
    return dv_fail(o->b->diag, DV_E_OVERFLOW, dv_build_at(o->b, n->off),
                   "the index does not fit 64 bits");
}

static dv_status affine(dv_opbuild *o, const dv_node *n, form *out);

// Computes the affine form out = x + scale * y. Returns 0 on overflow.
static int add_scaled(form *out, const form *x, const form *y, int64_t scale)
{
    int64_t t;
    int fits = dv_mul_i64(&t, y->base, scale) &&
               dv_add_i64(&out->base, x->base, t) &&
               dv_mul_i64(&t, y->factor, scale) &&
               dv_add_i64(&out->factor, x->factor, t);
    out->via = x->factor ? x->via : y->via;
    for (int v = 0; fits && v < DV_MAX_VARS; v++)
        fits = dv_mul_i64(&t, y->coef[v], scale) &&
               dv_add_i64(&out->coef[v], x->coef[v], t);
    return fits;
}

static dv_status affine_apply(dv_opbuild *o, const dv_node *n, form *out)
{
    form x = {0}, y = {0}, zero = {0};
    for (uint32_t i = 0; i < n->n_args; i++)
        dv_bound_warn(o, n->args[i]);
    DV_TRY(affine(o, n->args[0], &x));
    if (n->n_args == 2)
        DV_TRY(affine(o, n->args[1], &y));
    if (x.factor && y.factor && x.via != y.via)
        return dv_fail(o->b->diag, DV_E_SYNTAX, dv_build_at(o->b, n->off),
                       "an index has at most one access or counter");
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
        return dv_constant_int(o->b, n, &out->base);
    else
        return dv_fail(o->b->diag, DV_E_SYNTAX, dv_build_at(o->b, n->off),
                       "an index is a sum of variables with whole factors; "
                       "this %s is none",
                       dv_fn_get((dv_fn)n->op)->text);
    if (fits && (x.factor || y.factor) && !out->factor)
        return dv_fail(o->b->diag, DV_E_SYNTAX, dv_build_at(o->b, n->off),
                       "the access in the index cancels out");
    return fits ? DV_OK : overflow(o, n);
}

// Sets *out to an indirect index: the value of an element of an integer tensor.
static dv_status found_index(dv_opbuild *o, const dv_node *n, form *out)
{
    DV_TRY(dv_access_read(o, n, &out->via));
    const dv_tensor *t = &o->b->p->tensors[o->reads[out->via].tensor];
    if (dv_is_float(t->dtype))
        return dv_fail(o->b->diag, DV_E_DTYPE, dv_build_at(o->b, n->off),
                       "an index is whole, %s holds %s", t->name,
                       dv_dtype_get(t->dtype)->name);
    out->factor = 1;
    return DV_OK;
}

static dv_status affine(dv_opbuild *o, const dv_node *n, form *out)
{
    *out = (form){0};
    switch ((dv_node_kind)n->kind) {
    case DV_NODE_INT:
        out->base = n->i;
        return DV_OK;
    case DV_NODE_NAME: {
        int v = dv_bound_find(o, n->name);
        if (v >= 0) {
            out->coef[v] = 1;
            return DV_OK;
        }
        const dv_counter *c = dv_find_counter(o->b, n->name);
        if (c) {
            dv_node value = dv_counter_value(c, n);
            return found_index(o, &value, out);
        }
        if (!dv_find_param(o->b, n->name))
            return unknown_name(o, n);
        return dv_constant_int(o->b, n, &out->base);
    }
    case DV_NODE_APPLY:
        if (n->op >= DV_FN_ADD && n->op <= DV_FN_NEG)
            return affine_apply(o, n, out);
        break;
    case DV_NODE_ACCESS:
    case DV_NODE_ELSE:
        return found_index(o, n, out);
    case DV_NODE_FLOAT:
    case DV_NODE_INF:
    case DV_NODE_REDUCE:
        break;
    }
    return dv_fail(o->b->diag, DV_E_SYNTAX, dv_build_at(o->b, n->off),
                   "an index is made of variables, whole numbers and + - *");
}

static dv_status disagree(const dv_opbuild *o, const dv_binding *v,
                          const dv_range_place *a, const dv_range_place *b)
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

static dv_status say(const dv_opbuild *o, const dv_binding *v,
                     dv_range_place *known, dv_range_place new_place)
{
    if (!known->known)
        *known = new_place;
    else if (known->begin != new_place.begin || known->end != new_place.end)
        return disagree(o, v, known, &new_place);
    return DV_OK;
}

// Infers a variable's range from index `f` of dim `dim`, given that the index
// must stay inside the tensor. Does nothing unless exactly one variable occurs
// in it. A read with a border may leave its tensor: its index gives a range
// only if it is the variable alone and no other index gives one.
static dv_status learn(dv_opbuild *o, const dv_node *n, const form *f,
                       int32_t tensor, int dim, int border)
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
    dv_binding *v = &o->vars[only];
    int64_t c = f->coef[only], extent = o->b->p->tensors[tensor].shape[dim];
    dv_range_place here = {1, 0, extent, n->off, tensor, dim};
    if (border && n->kind == DV_NODE_NAME) {
        int first = !v->border.known;
        v->border = first || v->border.end == extent ? here : v->border;
        v->border.known = first || v->border.end == extent ? 1 : 2;
        return DV_OK;
    }
    if (border)
        return DV_OK;
    if (n->kind == DV_NODE_NAME)
        return say(o, v, &v->plain, here);
    int64_t low, high; // bounds of the variable's term c * v in the index
    if (c == INT64_MIN || !dv_sub_i64(&low, 0, f->base) ||
        !dv_sub_i64(&high, extent - 1, f->base))
        return overflow(o, n);
    here.begin = c > 0 ? dv_ceil_div(low, c) : -dv_floor_div(high, -c);
    here.end = c > 0 ? dv_floor_div(high, c) : -dv_ceil_div(low, -c);
    if (!dv_add_i64(&here.end, here.end, 1))
        return overflow(o, n);
    if (v->plain.known)
        return DV_OK;
    // Conflicting ranges derived from indices such as 3*i+2 are only marked
    // (known = 2) and not reported, because a later index that is the variable
    // alone takes precedence.
    if (!v->derived.known)
        v->derived = here;
    else if (v->derived.begin != here.begin || v->derived.end != here.end)
        v->derived.known = 2;
    return DV_OK;
}

dv_status dv_bound_range(dv_opbuild *o, dv_binding *v)
{
    if (v->range) {
        int64_t *begin = &v->var.begin, *end = &v->var.end;
        DV_TRY(dv_constant_int(o->b, v->range->begin, begin));
        DV_TRY(dv_constant_int(o->b, v->range->end, end));
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
    const dv_range_place *from = v->plain.known     ? &v->plain
                                 : v->derived.known ? &v->derived
                                                    : &v->border;
    if (!from->known)
        return dv_opbuild_fail(
            o, DV_E_SHAPE, v->var.off,
            "has no range; give one with 'for … in begin..end'", v->name);
    if (from->known == 2)
        return dv_opbuild_fail(
            o, DV_E_SHAPE, v->var.off,
            "gets different ranges from the indices it is in; say "
            "which with 'for … in begin..end'",
            v->name);
    if (from->begin >= from->end)
        return dv_opbuild_fail(o, DV_E_SHAPE, v->var.off,
                               "has no value for which its indices are inside",
                               v->name);
    v->var.begin = from->begin;
    v->var.end = from->end;
    return DV_OK;
}

static const dv_stmt *defined_later(const dv_stmt *s, dv_str name)
{
    for (; s; s = s->next) {
        if ((s->kind == DV_STMT_ASSIGN || s->kind == DV_STMT_INPUT ||
             s->kind == DV_STMT_CONST) &&
            dv_str_eq(s->name, name))
            return s;
        const dv_stmt *in = s->body ? defined_later(s->body, name) : NULL;
        if (in)
            return in;
    }
    return NULL;
}

dv_status dv_access_tensor(const dv_opbuild *o, const dv_node *n, int32_t *id)
{
    const dv_program *p = o->b->p;
    *id = dv_table_get(&p->tensor_ids, n->name.at, n->name.len, -1);
    int known = *id >= 0;
    if (known &&
        (p->tensors[*id].is_defined || (n == o->s->lhs && !o->s->update)))
        return DV_OK;
    const dv_stmt *later = defined_later(p->ast.first, n->name);
    if (!later && !known)
        return dv_build_no_tensor(o->b, dv_build_at(o->b, n->off), n->name);
    dv_status st =
        dv_opbuild_fail(o, DV_E_NAME, n->off,
                        n == o->s->lhs ? "is updated before it is defined"
                                       : "is read before it is defined",
                        n->name);
    if (later && later->off != o->s->off)
        dv_note(o->b->diag, dv_build_at(o->b, later->off), "defined here");
    return st;
}

// Resolves one index expression of dim `dim` of a tensor into *x.
static dv_status index_of(dv_opbuild *o, const dv_node *n, int32_t tensor,
                          int dim, int border, dv_index *x)
{
    form f;
    DV_TRY(affine(o, n, &f));
    // An index that is read from a tensor does not limit the ranges of
    // variables.
    if (!f.factor)
        DV_TRY(learn(o, n, &f, tensor, dim, border));
    int64_t *coef = DV_NEW(&o->b->p->arena, int64_t, o->width);
    if (!coef)
        return dv_nomem(o->b->diag);
    memcpy(coef, f.coef, (size_t)o->width * sizeof *coef);
    *x = (dv_index){.base = f.base,
                    .coef = coef,
                    .via = f.factor ? f.via : -1,
                    .factor = f.factor};
    return DV_OK;
}

dv_status dv_access_make(dv_opbuild *o, const dv_node *n, int32_t tensor,
                         int border, dv_access *out)
{
    const dv_tensor *t = &o->b->p->tensors[tensor];
    if ((int64_t)n->n_args != t->n_dims)
        return dv_fail(o->b->diag, DV_E_SHAPE, dv_build_at(o->b, n->off),
                       "%s has %d dimension%s, here %s %d ind%s", t->name,
                       (int)t->n_dims, DV_PLURAL(t->n_dims, "", "s"),
                       DV_PLURAL(n->n_args, "is", "are"), (int)n->n_args,
                       DV_PLURAL(n->n_args, "ex", "ices"));
    dv_index *index = DV_NEW(&o->b->p->arena, dv_index, n->n_args);
    if (!index)
        return dv_nomem(o->b->diag);
    for (uint32_t d = 0; d < n->n_args; d++)
        DV_TRY(index_of(o, n->args[d], tensor, (int)d, border, &index[d]));
    *out = (dv_access){.tensor = tensor,
                       .n_dims = (int32_t)n->n_args,
                       .off = n->off,
                       .index = index};
    return DV_OK;
}

// Adds an access to the op's reads unless an equal one is already there, and
// returns its number in *read.
dv_status dv_access_read(dv_opbuild *o, const dv_node *n, int32_t *read)
{
    int32_t tensor;
    dv_access a;
    const dv_node *outside = n->kind == DV_NODE_ELSE ? n->args[1] : NULL;
    n = outside ? n->args[0] : n;
    DV_TRY(dv_access_tensor(o, n, &tensor));
    DV_TRY(dv_access_make(o, n, tensor, outside != NULL, &a));
    if (outside) {
        a.has_border = 1;
        DV_TRY(dv_constant_of_type(o->b, outside,
                                   o->b->p->tensors[tensor].dtype, &a.border));
    }
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
