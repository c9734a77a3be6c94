// Loops over dims of values, which become statements of the program.
#include "base/dtype.h"
#include "base/plural.h"
#include "onnx/import.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

// -- Expressions -------------------------------------------------------------

dv_term dv_on_f(dv_on *cx, double v)
{
    return dv_build_float(cx->build, v);
}

dv_term dv_on_i(dv_on *cx, int64_t v)
{
    if (v >= 0 || v == INT64_MIN) // the builder refuses INT64_MIN
        return dv_build_int(cx->build, v);
    return dv_on_1(cx, "-", dv_build_int(cx->build, -v));
}

dv_term dv_on_num(dv_on *cx, dv_dtype t, double v)
{
    if (!dv_is_float(t))
        return dv_on_i(cx, (int64_t)v);
    return signbit(v) ? dv_on_1(cx, "-", dv_on_f(cx, -v)) : dv_on_f(cx, v);
}

dv_term dv_on_1(dv_on *cx, const char *fn, dv_term a)
{
    return dv_build_apply(cx->build, fn, 1, &a);
}

dv_term dv_on_2(dv_on *cx, const char *fn, dv_term a, dv_term b)
{
    return dv_build_apply(cx->build, fn, 2, (dv_term[]){a, b});
}

dv_term dv_on_3(dv_on *cx, const char *fn, dv_term a, dv_term b, dv_term c)
{
    return dv_build_apply(cx->build, fn, 3, (dv_term[]){a, b, c});
}

// -- Axes --------------------------------------------------------------------

void dv_on_loop_begin(dv_on_loop *l, dv_on *cx)
{
    memset(l, 0, sizeof *l);
    l->cx = cx;
}

static void fail(dv_on_loop *l, dv_status st)
{
    if (l->status == DV_OK)
        l->status = st;
}

int dv_on_axis_add(dv_on_loop *l, int64_t size)
{
    if (l->n_axes == DV_ON_AXES) {
        fail(l, dv_on_refuse(l->cx, "it has too many dims"));
        return 0;
    }
    if (size < 1)
        fail(l, dv_on_refuse(l->cx, "a tensor has a dim of size 0"));
    dv_on_axis *a = &l->axes[l->n_axes];
    a->size = size;
    a->n = size > 1;
    a->extent[0] = size;
    return l->n_axes++;
}

dv_on_index dv_on_along(int axis)
{
    if (axis < 0)
        return (dv_on_index){0};
    return (dv_on_index){.n = 1, .axis = {axis}, .factor = {1}};
}

// Splits an axis (a loop) so that every atom of dim d of v (the part that runs
// along one dim of its tensor) is a group of atoms of the axis. Returns 0 if
// the two cannot be matched.
static int refine(dv_on_axis *axis, const dv_on_value *v, int d)
{
    int64_t made[8], of_axis = 1, of_dim = 1;
    int i = axis->n, j = v->first[d + 1], n = 0;
    for (;;) {
        while (of_axis == 1 && i > 0)
            of_axis = axis->extent[--i];
        while (of_dim == 1 && j > v->first[d])
            of_dim = v->atoms[--j].extent;
        int64_t take = of_axis < of_dim ? of_axis : of_dim;
        if (take == 1)
            break;
        if (of_axis % take || of_dim % take || n == 8)
            return 0;
        made[n++] = take;
        of_axis /= take;
        of_dim /= take;
    }
    axis->n = n;
    for (int k = 0; k < n; k++)
        axis->extent[k] = made[n - 1 - k];
    return 1;
}

dv_status dv_on_use(dv_on_loop *l, dv_on_value *v, const int *axes)
{
    DV_TRY(l->status);
    for (int d = 0; d < v->n_dims; d++) {
        if (axes[d] < 0 || v->dims[d] == 1)
            continue;
        dv_on_axis *a = &l->axes[axes[d]];
        if (a->size != v->dims[d])
            return dv_on_refuse(l->cx,
                                "'%s' has %lld element%s along dim %d, other "
                                "inputs %lld",
                                v->name, (long long)v->dims[d],
                                DV_PLURAL(v->dims[d], "", "s"), d,
                                (long long)a->size);
        if (refine(a, v, d))
            continue;
        DV_TRY(dv_on_copy(l->cx, v, 0));
        if (!refine(a, v, d))
            return dv_on_refuse(l->cx, "'%s' cannot be split", v->name);
    }
    return DV_OK;
}

// Returns the atom of a dim (its part along one dim of the tensor) whose index
// can be any expression, or NULL if there is none.
static const dv_on_atom *free_atom(const dv_on_value *v, int d)
{
    const dv_on_atom *found = NULL;
    for (int a = v->first[d]; a < v->first[d + 1]; a++) {
        if (v->atoms[a].extent == 1 && v->first[d + 1] - v->first[d] > 1)
            continue;
        if (found || v->atoms[a].dim < 0)
            return NULL;
        found = &v->atoms[a];
    }
    return found;
}

dv_status dv_on_use_at(dv_on_loop *l, dv_on_value *v, unsigned dims)
{
    for (int d = 0; d < v->n_dims; d++)
        if (dims >> d & 1 && !free_atom(v, d))
            return dv_on_copy(l->cx, v, 0);
    return DV_OK;
}

// Names a loop variable for each atom (part) of an axis: i, j, … z, a, … h, i2,
// ….
static void name_axis(dv_on_loop *l, dv_on_axis *a)
{
    for (int k = 0; k < a->n; k++) {
        char name[16];
        int n = l->n_vars++, letter = (n + 8) % 26;
        if (n < 26)
            snprintf(name, sizeof name, "%c", 'a' + letter);
        else
            snprintf(name, sizeof name, "%c%d", 'a' + letter, n / 26 + 1);
        a->name[k] = dv_arena_copy(l->cx->arena, name, strlen(name));
        if (!a->name[k])
            fail(l, dv_nomem(l->cx->diag));
        else
            a->var[k] = dv_build_name(l->cx->build, a->name[k]);
    }
}

void dv_on_start(dv_on_loop *l)
{
    for (int i = 0; i < l->n_axes; i++)
        name_axis(l, &l->axes[i]);
    if (l->n_vars > DV_MAX_VARS)
        fail(l, dv_on_refuse(l->cx,
                             "it needs %d loop%s, at most %d are "
                             "supported",
                             l->n_vars, DV_PLURAL(l->n_vars, "", "s"),
                             (int)DV_MAX_VARS));
}

// -- Reads -------------------------------------------------------------------

// The index of one dim of a tensor: a constant plus factors times variables.
typedef struct sum {
    int n;
    int64_t add, factor[DV_MAX_VARS];
    dv_on_axis *axis[DV_MAX_VARS];
    int atom[DV_MAX_VARS];
    dv_term via;
} sum;

static void put(dv_on_loop *l, sum *s, dv_on_axis *axis, int atom,
                int64_t factor)
{
    if (s->n == DV_MAX_VARS) {
        fail(l, dv_on_refuse(l->cx, "an index has too many parts"));
        return;
    }
    s->axis[s->n] = axis;
    s->atom[s->n] = atom;
    s->factor[s->n++] = factor;
}

// Adds factor * (the position along an axis) to the index expression s.
static void put_axis(dv_on_loop *l, sum *s, dv_on_axis *a, int64_t factor)
{
    for (int k = a->n - 1; k >= 0; k--) {
        put(l, s, a, k, factor);
        factor *= a->extent[k];
    }
}

// Adds the indices for dim d of v. Its atoms, each a part along one dim of the
// tensor, are groups of consecutive atoms of the axis.
static void put_groups(dv_on_loop *l, sum *sums, const dv_on_value *v, int d,
                       dv_on_axis *axis)
{
    int k = axis->n;
    for (int a = v->first[d + 1] - 1; a >= v->first[d]; a--) {
        const dv_on_atom *atom = &v->atoms[a];
        int64_t done = 1;
        while (done < atom->extent && k > 0) {
            k--;
            if (atom->dim >= 0)
                put(l, &sums[atom->dim], axis, k, atom->stride * done);
            done *= axis->extent[k];
        }
    }
}

static dv_term product(dv_on *cx, int64_t factor, dv_term var)
{
    return factor == 1 ? var
                       : dv_on_2(cx, "*", dv_build_int(cx->build, factor), var);
}

static dv_term index_term(dv_on *cx, const sum *s)
{
    dv_term t = NULL;
    if (s->via)
        return s->via;
    for (int k = s->n - 1; k >= 0; k--) {
        if (s->factor[k] <= 0)
            continue;
        dv_term p = product(cx, s->factor[k], s->axis[k]->var[s->atom[k]]);
        t = t ? dv_on_2(cx, "+", t, p) : p;
    }
    if (!t)
        t = dv_on_i(cx, s->add);
    else if (s->add)
        t = dv_on_2(cx, s->add < 0 ? "-" : "+", t,
                    dv_build_int(cx->build, s->add < 0 ? -s->add : s->add));
    for (int k = s->n - 1; k >= 0; k--)
        if (s->factor[k] < 0)
            t = dv_on_2(
                cx, "-", t,
                product(cx, -s->factor[k], s->axis[k]->var[s->atom[k]]));
    return t;
}

// Notes whether the range of a loop variable follows from this index: it is the
// variable alone, and covers the whole dim.
static void note_range(const sum *s, int64_t extent)
{
    if (s->n != 1 || s->factor[0] != 1 || s->add != 0 || s->via)
        return;
    dv_on_axis *a = s->axis[0];
    int whole = a->extent[s->atom[0]] == extent;
    a->plain[s->atom[0]] |= whole;
    a->odd[s->atom[0]] |= !whole;
}

// Returns the number at a constant position of a tensor known at import, which
// replaces the read; NULL if the position or the number is not constant, or if
// there is no such element.
static dv_term literal(dv_on *cx, const dv_on_base *b, const sum *sums)
{
    int64_t at = 0;
    if (!b->data)
        return NULL;
    for (int d = 0; d < b->n_dims; d++) {
        if (sums[d].n || sums[d].via || sums[d].add < 0 ||
            sums[d].add >= b->dims[d])
            return NULL;
        at = at * b->dims[d] + sums[d].add;
    }
    double v = dv_load(b->dtype, b->data, at);
    if (isnan(v) || fabs(v) > 9007199254740992.0)
        return isinf(v) ? dv_on_num(cx, b->dtype, v) : NULL;
    return dv_on_num(cx, b->dtype, v);
}

static dv_status flush(dv_on *cx, dv_on_base *b);

// Makes an access to a tensor: a read if `is_read`, else a write. If `outside`
// is not NULL, it is the value of elements beyond the border.
static dv_term access(dv_on_loop *l, dv_on_base *b, sum *sums, int is_read,
                      dv_term outside)
{
    dv_term index[DV_MAX_DIMS], number;
    if (is_read && !outside && (number = literal(l->cx, b, sums)))
        return number;
    fail(l, flush(l->cx, b));
    fail(l, dv_on_declare(l->cx, b));
    l->typed |= b->dtype != DV_F32;
    for (int d = 0; d < b->n_dims; d++) {
        index[d] = index_term(l->cx, &sums[d]);
        if (!outside)
            note_range(&sums[d], b->dims[d]);
    }
    if (outside)
        return dv_build_access_else(l->cx->build, b->name, b->n_dims, index,
                                    outside);
    return dv_build_access(l->cx->build, b->name, b->n_dims, index);
}

static dv_term access_at(dv_on_loop *l, dv_on_value *v,
                         const dv_on_index *index, int is_read, dv_term outside)
{
    sum sums[DV_MAX_DIMS] = {0};
    if (!v->base || l->status)
        return NULL;
    for (int d = 0; d < v->base->n_dims; d++)
        sums[d].add = v->offset[d];
    for (int d = 0; d < v->n_dims; d++) {
        const dv_on_index *x = &index[d];
        if (x->n == 1 && x->factor[0] == 1 && x->add == 0 && !x->via &&
            l->axes[x->axis[0]].size == v->dims[d]) {
            put_groups(l, sums, v, d, &l->axes[x->axis[0]]);
            continue;
        }
        if (v->dims[d] == 1 && !x->via && !x->n && !x->add)
            continue;
        const dv_on_atom *atom = free_atom(v, d);
        if (!atom) {
            fail(l, dv_on_refuse(l->cx, "'%s' cannot be indexed", v->name));
            return NULL;
        }
        sum *s = &sums[atom->dim];
        s->add += x->add * atom->stride;
        s->via = x->via;
        for (int k = 0; k < x->n; k++)
            put_axis(l, s, &l->axes[x->axis[k]], x->factor[k] * atom->stride);
    }
    return access(l, v->base, sums, is_read, outside);
}

dv_term dv_on_read_at(dv_on_loop *l, dv_on_value *v, const dv_on_index *index)
{
    return access_at(l, v, index, 1, NULL);
}

dv_term dv_on_read_else(dv_on_loop *l, dv_on_value *v, const dv_on_index *index,
                        dv_term outside)
{
    return access_at(l, v, index, 1, outside);
}

dv_term dv_on_read(dv_on_loop *l, dv_on_value *v, const int *axes)
{
    dv_on_index index[DV_MAX_DIMS];
    for (int d = 0; d < v->n_dims; d++)
        index[d] = dv_on_along(v->dims[d] == 1 ? -1 : axes[d]);
    return dv_on_read_at(l, v, index);
}

dv_term dv_on_position(dv_on_loop *l, int axis)
{
    const dv_on_axis *a = &l->axes[axis];
    int64_t inner = 1;
    dv_term t = NULL;
    for (int k = a->n - 1; k >= 0; k--) {
        dv_term p = product(l->cx, inner, a->var[k]);
        t = t ? dv_on_2(l->cx, "+", p, t) : p;
        inner *= a->extent[k];
    }
    return t ? t : dv_on_i(l->cx, 0);
}

dv_term dv_on_reduce(dv_on_loop *l, const char *reducer, dv_term body, int n,
                     const int *axes)
{
    const char *names[DV_MAX_VARS];
    int n_names = 0;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < l->axes[axes[i]].n && n_names < DV_MAX_VARS; k++)
            names[n_names++] = l->axes[axes[i]].name[k];
    return n_names
               ? dv_build_reduce(l->cx->build, reducer, body, n_names, names)
               : body;
}

// -- Statements --------------------------------------------------------------

// Returns whether an expression contains a comparison, which gives 1 or 0, so
// that its type may be an integer although it reads floats.
static int compares(dv_term t)
{
    if (!t || t->kind == DV_NODE_ACCESS)
        return 0;
    if (t->kind == DV_NODE_APPLY && t->op <= DV_FN_NE)
        return 1;
    if (t->kind != DV_NODE_APPLY && t->kind != DV_NODE_REDUCE)
        return 0;
    uint32_t n = t->kind == DV_NODE_REDUCE ? 1 : t->n_args;
    for (uint32_t i = 0; i < n; i++)
        if (compares(t->args[i]))
            return 1;
    return 0;
}

static int has_reads(dv_term t)
{
    if (!t || t->kind == DV_NODE_ACCESS)
        return t != NULL;
    if (t->kind != DV_NODE_APPLY && t->kind != DV_NODE_REDUCE)
        return 0;
    uint32_t n = t->kind == DV_NODE_REDUCE ? 1 : t->n_args;
    for (uint32_t i = 0; i < n; i++)
        if (has_reads(t->args[i]))
            return 1;
    return 0;
}

// Adds the statement left = value, or an update, to the program. Variables
// whose range does not follow from an index get it explicitly.
static dv_status assign(dv_on_loop *l, dv_term left, dv_term value, int update,
                        int dtype)
{
    dv_build_range ranges[DV_MAX_VARS];
    size_t n = 0;
    for (int i = 0; i < l->n_axes; i++) {
        dv_on_axis *a = &l->axes[i];
        for (int k = 0; k < a->n && n < DV_MAX_VARS; k++)
            if (!a->plain[k] || a->odd[k])
                ranges[n++] =
                    (dv_build_range){a->name[k], dv_build_int(l->cx->build, 0),
                                     dv_build_int(l->cx->build, a->extent[k])};
    }
    dv_build_assign_options options = DV_BUILD_ASSIGN_OPTIONS_INIT;
    options.dtype = dtype;
    options.update = update;
    options.ranges = ranges;
    options.n_ranges = n;
    if (l->status == DV_OK)
        dv_build_assign(l->cx->build, left, value, &options);
    return l->status;
}

// The dims of a result's tensor: one per loop variable, without dims of size 1
// (NATIVE); one per dim of the value (EXACT); or one for all elements (LINE).
enum layout { NATIVE, EXACT, LINE };

static void own_dims(dv_on_loop *l, dv_on_value *v, int n, const int *axes)
{
    dv_on_base *b = v->base;
    v->n_dims = n;
    v->first[0] = 0;
    b->n_dims = 0;
    for (int d = 0; d < n; d++) {
        const dv_on_axis *a = axes[d] < 0 ? NULL : &l->axes[axes[d]];
        v->dims[d] = a ? a->size : 1;
        v->first[d + 1] = v->first[d];
        for (int k = 0; a && k < a->n; k++) {
            v->atoms[v->first[d + 1]++] =
                (dv_on_atom){a->extent[k], 1, b->n_dims};
            b->dims[b->n_dims++] = a->extent[k];
        }
    }
}

// Chooses the dims of the result's tensor. Returns which layout they have,
// which is not NATIVE if that would be too many dims.
static enum layout choose_dims(dv_on_loop *l, dv_on_value *v, int n,
                               const int *axes, enum layout layout)
{
    int64_t dims[DV_MAX_DIMS], count = 1;
    int atoms = 0;
    for (int d = 0; d < n; d++) {
        dims[d] = axes[d] < 0 ? 1 : l->axes[axes[d]].size;
        count *= dims[d];
        atoms += axes[d] < 0 ? 0 : l->axes[axes[d]].n;
    }
    if (layout == NATIVE && atoms <= DV_MAX_DIMS) {
        own_dims(l, v, n, axes);
        return NATIVE;
    }
    layout = layout == NATIVE ? EXACT : layout;
    dv_on_base *b = v->base;
    if (layout == LINE)
        fail(l, dv_on_make(l->cx, v, v->dtype, v->is_bool, 1, &count, NULL));
    else
        fail(l, dv_on_make(l->cx, v, v->dtype, v->is_bool, n, dims, NULL));
    v->base->name = b->name;
    v->base->made_in = b->made_in;
    return layout;
}

static dv_term exact_left(dv_on_loop *l, dv_on_value *v, int n, const int *axes,
                          enum layout layout, int *needs_temp)
{
    sum sums[DV_MAX_DIMS] = {0};
    int64_t inner = 1;
    *needs_temp = layout == LINE;
    for (int d = n - 1; d >= 0; d--) {
        sum *s = &sums[layout == LINE ? 0 : d];
        dv_on_axis *a = axes[d] < 0 ? NULL : &l->axes[axes[d]];
        if ((!a || a->n == 0) && layout == EXACT) {
            // A dim of size 1 gets a variable with one value, because a
            // definition must have a variable for every dim.
            a = &l->axes[dv_on_axis_add(l, 1)];
            a->n = 1;
            name_axis(l, a);
        }
        *needs_temp |= a && a->n > 1;
        if (a)
            put_axis(l, s, a, inner);
        inner *= layout == LINE && a ? a->size : 1;
    }
    return access(l, v->base, sums, 0, NULL);
}

// -- Statements that wait for their reader -----------------------------------

typedef struct dv_on_pending {
    dv_on_loop loop;
    const dv_on_value *owner;
    dv_term left, value;
    int dtype;
    const char *label;
} dv_on_pending;

// Expressions of more levels than this are not inlined. What is left until
// DV_MAX_NESTING is for the levels that their reader adds.
enum { MAX_LEVELS = DV_MAX_NESTING / 2 };

// Returns whether the definition of v as this expression may be delayed to be
// inlined: the result is float and has exactly one reader in the model.
static int may_wait(const dv_on_loop *l, const dv_on_value *v, dv_term value)
{
    const dv_on *cx = l->cx;
    return l->inlines && cx->scope == 1 && cx->depth == 0 && !v->is_bool &&
           value && value->depth <= MAX_LEVELS &&
           (v->dtype == DV_F32 || v->dtype == DV_F64) &&
           dv_table_get(&cx->uses, v->name, strlen(v->name), 0) == 1 &&
           dv_on_find(l->cx, v->name) == v;
}

static dv_status wait_for_reader(dv_on_loop *l, dv_on_value *v, dv_term left,
                                 dv_term value, int dtype)
{
    dv_on_pending *p = DV_NEW(l->cx->arena, dv_on_pending, 1);
    if (!p)
        return dv_nomem(l->cx->diag);
    *p = (dv_on_pending){*l, v, left, value, dtype, l->cx->label};
    v->base->pending = p;
    return l->status;
}

// Adds the statement that defines a tensor to the program, if it was delayed in
// order to be inlined.
static dv_status flush(dv_on *cx, dv_on_base *b)
{
    dv_on_pending *p = b->pending;
    b->pending = NULL;
    if (!p)
        return DV_OK;
    dv_build_label(cx->build, p->label);
    dv_status st = assign(&p->loop, p->left, p->value, 0, p->dtype);
    dv_build_label(cx->build, cx->label);
    return st;
}

// Returns whether dim d of v can be read along an axis whose loop variables are
// fixed already, without splitting it further.
static int fits(const dv_on_axis *axis, const dv_on_value *v, int d)
{
    dv_on_axis copy = *axis;
    return axis->size == v->dims[d] && refine(&copy, v, d) && copy.n == axis->n;
}

static int all_fit(const dv_on_pending *p, const dv_on_value *v, int n_dims)
{
    for (int d = 0; d < v->n_dims; d++) {
        int axis = p->loop.out[d + n_dims - v->n_dims];
        if (v->dims[d] != 1 && (axis < 0 || !fits(&p->loop.axes[axis], v, d)))
            return 0;
    }
    return 1;
}

int dv_on_inline(dv_on_loop *l, dv_on_value *const *v, int n, int n_dims,
                 const int64_t *dims, dv_term *reads)
{
    for (int i = 0; i < n && l->inlines; i++) {
        dv_on_pending *p = v[i]->base ? v[i]->base->pending : NULL;
        int ok = p && p->owner == v[i] && v[i]->n_dims == n_dims;
        for (int d = 0; d < n_dims && ok; d++)
            ok = v[i]->dims[d] == dims[d];
        for (int j = 0; j < n && ok; j++)
            ok = j == i ||
                 (v[j]->base != v[i]->base && all_fit(p, v[j], n_dims));
        if (!ok)
            continue;
        *l = p->loop;
        v[i]->base->pending = NULL;
        reads[i] = p->value;
        return i;
    }
    return -1;
}

static dv_status define_as(dv_on_loop *l, dv_on_value *v, dv_dtype dtype,
                           int is_bool, int n, const int *axes, dv_term value,
                           enum layout layout)
{
    dv_on *cx = l->cx;
    dv_on_base *b = DV_NEW(cx->arena, dv_on_base, 1);
    if (!b)
        return dv_nomem(cx->diag);
    *b = (dv_on_base){.dtype = dtype, .hint = v->name, .made_in = cx->scope};
    int takes_name = v->is_output && cx->scope == 1 && v->output_name;
    b->name = takes_name ? v->output_name : dv_on_name(cx, v->name);
    if (!b->name)
        return DV_E_NOMEM;
    v->output_name = takes_name ? NULL : v->output_name;
    v->base = b;
    v->dtype = dtype;
    v->is_bool = is_bool;
    v->data = NULL;
    memset(v->offset, 0, sizeof v->offset);
    int typed =
        l->typed || dtype != DV_F32 || compares(value) || !has_reads(value);
    layout = choose_dims(l, v, n, axes, layout);
    v->base->dtype = dtype;
    int needs_temp = 0;
    dv_term left;
    if (layout == NATIVE) {
        dv_on_index index[DV_MAX_DIMS];
        for (int d = 0; d < n; d++)
            index[d] = dv_on_along(v->dims[d] == 1 ? -1 : axes[d]);
        // The written tensor does not exist yet, so that its dims give no
        // ranges to variables: restore what was noted about ranges.
        dv_on_axis saved[DV_ON_AXES];
        memcpy(saved, l->axes, sizeof saved);
        left = access_at(l, v, index, 0, NULL);
        memcpy(l->axes, saved, sizeof saved);
    } else {
        dv_on_axis saved[DV_ON_AXES];
        memcpy(saved, l->axes, sizeof saved);
        left = exact_left(l, v, n, axes, layout, &needs_temp);
        for (int i = 0; i < DV_ON_AXES && !needs_temp; i++) {
            memcpy(l->axes[i].plain, saved[i].plain, sizeof saved[i].plain);
            memcpy(l->axes[i].odd, saved[i].odd, sizeof saved[i].odd);
        }
    }
    if (needs_temp) {
        dv_term dims[DV_MAX_DIMS];
        for (int d = 0; d < v->base->n_dims; d++)
            dims[d] = dv_build_int(cx->build, v->base->dims[d]);
        dv_build_temp(cx->build, v->base->name, dtype, v->base->n_dims, dims);
    }
    int written = typed && !needs_temp ? (int)dtype : -1;
    if (layout == NATIVE && may_wait(l, v, value))
        return wait_for_reader(l, v, left, value, written);
    return assign(l, left, value, 0, written);
}

dv_status dv_on_define(dv_on_loop *l, dv_on_value *v, dv_dtype dtype,
                       int is_bool, int n, const int *axes, dv_term value)
{
    int exact = l->exact || (v->is_output && l->cx->scope == 1);
    for (int d = 0; d < n && d < DV_MAX_DIMS; d++)
        l->out[d] = axes[d];
    l->n_out = n;
    return define_as(l, v, dtype, is_bool, n, axes, value,
                     exact ? EXACT : NATIVE);
}

dv_status dv_on_update(dv_on_loop *l, dv_on_value *v, const dv_on_index *index,
                       dv_term value)
{
    dv_term left = access_at(l, v, index, 0, NULL);
    return assign(l, left, value, 1, -1);
}

dv_status dv_on_over(dv_on_loop *l, dv_on_value *v, int *axes)
{
    for (int d = 0; d < v->n_dims; d++)
        axes[d] = dv_on_axis_add(l, v->dims[d]);
    return dv_on_use(l, v, axes);
}

dv_status dv_on_copy(dv_on *cx, dv_on_value *v, int line)
{
    dv_on_value made = *v;
    int axes[DV_MAX_DIMS];
    int64_t count = dv_on_count(v);
    made.is_output = 0;
    if (dv_on_known(v)) {
        const void *data = dv_on_data(cx, v);
        if (!data)
            return DV_E_NOMEM;
        DV_TRY(dv_on_make(cx, &made, v->dtype, v->is_bool, line ? 1 : v->n_dims,
                          line ? &count : v->dims, data));
    } else {
        dv_on_loop l;
        dv_on_loop_begin(&l, cx);
        DV_TRY(dv_on_over(&l, v, axes));
        dv_on_start(&l);
        DV_TRY(define_as(&l, &made, v->dtype, v->is_bool, v->n_dims, axes,
                         dv_on_read(&l, v, axes), line ? LINE : EXACT));
    }
    if (line)
        return dv_on_reshape(cx, v, &made, v->n_dims, v->dims);
    dv_on_same(v, &made);
    return DV_OK;
}
