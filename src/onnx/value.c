// Values of a model as views of tensors of the program. A view is affine: the
// index of each dim of the tensor is an offset plus strides times atoms.
#include "base/dtype.h"
#include "base/math.h"
#include "base/plural.h"
#include "onnx/import.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// -- Making values -----------------------------------------------------------

dv_on_value *dv_on_value_new(dv_on *cx, const char *name)
{
    dv_on_value *v = DV_NEW(cx->arena, dv_on_value, 1);
    dv_on_value **to = DV_PUSH(cx->arena, dv_on_value *, cx->values,
                               cx->n_values, cx->cap_values);
    if (!v || !to ||
        !dv_table_set(&cx->ids, cx->arena, name, strlen(name),
                      cx->n_values - 1)) {
        dv_nomem(cx->diag);
        return NULL;
    }
    v->name = name;
    *to = v;
    return v;
}

dv_on_value *dv_on_temp(dv_on *cx, const char *hint)
{
    dv_on_value *v = DV_NEW(cx->arena, dv_on_value, 1);
    if (v)
        v->name = hint;
    else
        dv_nomem(cx->diag);
    return v;
}

int64_t dv_on_count(const dv_on_value *v)
{
    int64_t n = 1;
    for (int d = 0; d < v->n_dims; d++)
        if (!dv_mul_i64(&n, n, v->dims[d]))
            return INT64_MAX;
    return n;
}

// Fails unless the tensor's size in bytes fits 64 bits. Dims of size 0 count as
// 1, so that a product of some of the dims cannot overflow, either.
static dv_status check_dims(dv_on *cx, int n_dims, const int64_t *dims)
{
    int64_t bytes = 8;
    for (int d = 0; d < n_dims; d++)
        if (dims[d] < 0 || !dv_mul_i64(&bytes, bytes, dims[d] ? dims[d] : 1))
            return dv_on_refuse(cx, "a result does not fit 64 bits");
    return DV_OK;
}

dv_status dv_on_make(dv_on *cx, dv_on_value *v, dv_dtype dtype, int is_bool,
                     int n_dims, const int64_t *dims, const void *data)
{
    DV_TRY(check_dims(cx, n_dims, dims));
    dv_on_base *b = DV_NEW(cx->arena, dv_on_base, 1);
    if (!b)
        return dv_nomem(cx->diag);
    *b = (dv_on_base){
        .dtype = dtype, .n_dims = n_dims, .data = data, .hint = v->name};
    v->dtype = dtype;
    v->is_bool = is_bool;
    v->n_dims = n_dims;
    v->base = b;
    v->data = data;
    for (int d = 0; d < n_dims; d++) {
        b->dims[d] = v->dims[d] = dims[d];
        v->first[d] = d;
        v->atoms[d] = (dv_on_atom){dims[d], 1, d};
        v->offset[d] = 0;
    }
    v->first[n_dims] = n_dims;
    return DV_OK;
}

void dv_on_same(dv_on_value *to, const dv_on_value *from)
{
    dv_on_value old = *to;
    *to = *from;
    to->name = old.name;
    to->is_output = old.is_output;
    to->output_name = old.output_name;
    to->info = NULL;
}

// -- Known values ------------------------------------------------------------

int dv_on_known(const dv_on_value *v)
{
    const dv_on_base *b = v->base;
    int64_t n = 1;
    if (!b || !b->data)
        return 0;
    for (int d = 0; d < b->n_dims; d++)
        n *= b->dims[d];
    return dv_on_count(v) <= (n > DV_ON_MAX_FOLD ? n : DV_ON_MAX_FOLD);
}

// Copies the elements of a known view into a dense array, by recursion over its
// atoms (parts of dims, each with a stride) from the outermost.
static void gather(const dv_on_value *v, const int64_t *strides, int atom,
                   int64_t at, size_t size, char **to)
{
    if (atom == v->first[v->n_dims]) {
        memcpy(*to, (const char *)v->base->data + (size_t)at * size, size);
        *to += size;
        return;
    }
    const dv_on_atom *a = &v->atoms[atom];
    int64_t step = a->dim < 0 ? 0 : a->stride * strides[a->dim];
    for (int64_t i = 0; i < a->extent; i++)
        gather(v, strides, atom + 1, at + i * step, size, to);
}

const void *dv_on_data(dv_on *cx, dv_on_value *v)
{
    if (!dv_on_known(v) || v->data)
        return v->data;
    size_t size = (size_t)dv_dtype_get(v->dtype)->size_bytes;
    int64_t strides[DV_MAX_DIMS], at = 0;
    dv_row_strides(v->base->n_dims, v->base->dims, strides);
    for (int d = 0; d < v->base->n_dims; d++)
        at += v->offset[d] * strides[d];
    char *data = dv_arena_buffer(cx->arena, (size_t)dv_on_count(v) * size + 1);
    if (!data) {
        dv_nomem(cx->diag);
        return NULL;
    }
    char *to = data;
    gather(v, strides, 0, at, size, &to);
    return v->data = data;
}

// Parses a comma-separated list of numbers as the n elements of an input.
static int parse_list(const char *text, dv_dtype t, int64_t n, void *out)
{
    for (int64_t i = 0; i < n; i++) {
        char *end;
        if (dv_is_float(t)) {
            size_t len = strcspn(text, ",");
            dv_store(t, out, i, dv_parse_double(text, len));
            text += len;
        } else {
            long long v = strtoll(text, &end, 10);
            if (end == text)
                return 0;
            dv_store(t, out, i, (double)v);
            text = end;
        }
        text += *text == ',';
    }
    return !*text;
}

// Gets the contents of an input of the graph from the caller: from a param or
// the callback `contents`. Returns 1 if they were supplied.
static int ask(dv_on *cx, dv_on_value *v)
{
    int64_t n = dv_on_count(v);
    size_t bytes = (size_t)n * (size_t)dv_dtype_get(v->dtype)->size_bytes;
    void *data =
        n > DV_ON_MAX_FOLD ? NULL : dv_arena_buffer(cx->arena, bytes + 1);
    if (!data)
        return 0;
    for (size_t i = 0; i < cx->n_params; i++) {
        if (strcmp(cx->params[i].name, v->info->name))
            continue;
        cx->used_params[i] = 1;
        if (!parse_list(cx->params[i].value, v->dtype, n, data))
            return 0;
        v->base->data = v->data = data;
        return 1;
    }
    const dv_onnx_options *o = cx->options;
    if (!o || !o->contents || !o->contents(o->user, v->info->name, data, bytes))
        return 0;
    v->base->data = v->data = data;
    return 1;
}

// Fails unless the elements of an input are known at import and not too many.
static dv_status must_know(dv_on *cx, dv_on_value *v, const char *what)
{
    if (dv_on_known(v) && dv_on_count(v) <= DV_ON_MAX_FOLD)
        return dv_on_data(cx, v) ? DV_OK : DV_E_NOMEM;
    if (v->info && ask(cx, v))
        return DV_OK;
    if (v->info)
        return dv_on_refuse(cx,
                            "input %s must be known at import: give its "
                            "contents with --set %s=…",
                            what, v->name);
    return dv_on_refuse(cx, "input %s, '%s', depends on data", what, v->name);
}

dv_status dv_on_get_floats(dv_on *cx, dv_on_value *v, const char *what,
                           const double **out, int *n)
{
    DV_TRY(must_know(cx, v, what));
    *n = (int)dv_on_count(v);
    double *list = DV_NEW(cx->arena, double, *n + 1);
    if (!list)
        return dv_nomem(cx->diag);
    for (int i = 0; i < *n; i++)
        list[i] = dv_load(v->dtype, v->data, i);
    *out = list;
    return DV_OK;
}

static int64_t load_int(dv_dtype t, const void *data, int64_t i)
{
    if (t == DV_I64)
        return ((const int64_t *)data)[i];
    return (int64_t)dv_load(t, data, i);
}

dv_status dv_on_get_ints(dv_on *cx, dv_on_value *v, const char *what,
                         const int64_t **out, int *n)
{
    DV_TRY(must_know(cx, v, what));
    *n = (int)dv_on_count(v);
    int64_t *list = DV_NEW(cx->arena, int64_t, *n + 1);
    if (!list)
        return dv_nomem(cx->diag);
    for (int i = 0; i < *n; i++)
        list[i] = load_int(v->dtype, v->data, i);
    *out = list;
    return DV_OK;
}

dv_on_value *dv_on_const_floats(dv_on *cx, const char *hint, dv_dtype dtype,
                                int n_dims, const int64_t *dims,
                                const double *values)
{
    dv_on_value *v = dv_on_temp(cx, hint);
    int64_t n = 1;
    for (int d = 0; d < n_dims; d++)
        n *= dims[d];
    size_t size = (size_t)dv_dtype_get(dtype)->size_bytes;
    void *data = dv_arena_buffer(cx->arena, (size_t)n * size + 1);
    if (!v || !data) {
        dv_nomem(cx->diag);
        return NULL;
    }
    for (int64_t i = 0; i < n; i++)
        dv_store(dtype, data, i, values[i]);
    return dv_on_make(cx, v, dtype, 0, n_dims, dims, data) ? NULL : v;
}

dv_on_value *dv_on_const_ints(dv_on *cx, const char *hint, dv_dtype dtype,
                              int n_dims, const int64_t *dims,
                              const int64_t *values)
{
    int64_t n = 1;
    for (int d = 0; d < n_dims; d++)
        n *= dims[d];
    double *list = DV_NEW(cx->arena, double, n + 1);
    if (!list) {
        dv_nomem(cx->diag);
        return NULL;
    }
    for (int64_t i = 0; i < n; i++)
        list[i] = (double)values[i];
    dv_on_value *v = dv_on_const_floats(cx, hint, dtype, n_dims, dims, list);
    if (v && dtype == DV_I64)
        memcpy((void *)(uintptr_t)v->data, values, (size_t)n * 8);
    return v;
}

// -- Views -------------------------------------------------------------------

// Appends an atom (a part of a dim, with extent and stride along one dim of the
// base tensor) to dim d. If it continues the last atom without a gap, the two
// become one.
static int put_atom(dv_on_value *v, int d, dv_on_atom a)
{
    int *end = &v->first[d + 1];
    dv_on_atom *last = *end > v->first[d] ? &v->atoms[*end - 1] : NULL;
    if (last && last->extent == 1)
        *end -= 1, last = *end > v->first[d] ? last - 1 : NULL;
    if (last && a.extent == 1)
        return 1;
    if (last && last->dim == a.dim &&
        (a.dim < 0 || last->stride == a.stride * a.extent)) {
        last->extent *= a.extent;
        last->stride = a.stride;
        return 1;
    }
    if (*end == DV_ON_ATOMS)
        return 0;
    v->atoms[(*end)++] = a;
    return 1;
}

// Appends an atom (a part with extent and stride) to the only dim of a flat
// view; atoms of size 1 are kept.
static void join_atom(dv_on_value *v, dv_on_atom a)
{
    dv_on_atom *last = v->first[1] ? &v->atoms[v->first[1] - 1] : NULL;
    if (last && last->extent > 1 && a.extent > 1 && last->dim == a.dim &&
        (a.dim < 0 || last->stride == a.stride * a.extent)) {
        last->extent *= a.extent;
        last->stride = a.stride;
    } else {
        v->atoms[v->first[1]++] = a;
    }
}

// Reshapes a view: distributes its atoms (parts of dims, each with a stride)
// over new dims. Returns 0 if the sizes of atoms and dims do not divide each
// other.
static int regroup(dv_on_value *to, const dv_on_value *from, int n_dims,
                   const int64_t *dims)
{
    dv_on_value flat = {.n_dims = 1};
    for (int i = 0; i < from->first[from->n_dims]; i++)
        join_atom(&flat, from->atoms[i]);
    from = &flat;
    int at = 0, end = flat.first[1];
    dv_on_atom left = {1, 0, -1};
    to->n_dims = n_dims;
    to->first[0] = 0;
    for (int d = 0; d < n_dims; d++) {
        int64_t need = to->dims[d] = dims[d];
        to->first[d + 1] = to->first[d];
        // An atom of size 1 goes to a new dim of size 1.
        if (need == 1 && left.extent == 1 && at < end &&
            from->atoms[at].extent == 1 && !put_atom(to, d, from->atoms[at++]))
            return 0;
        while (need > 1) {
            while (left.extent == 1 && at < end)
                left = from->atoms[at++];
            int64_t take = left.extent < need ? left.extent : need;
            if (left.extent % take || need % take || take <= 1)
                return 0;
            int64_t inner = left.extent / take;
            if (!put_atom(to, d,
                          (dv_on_atom){take, left.stride * inner, left.dim}))
                return 0;
            left.extent = inner;
            need /= take;
        }
    }
    return 1;
}

dv_status dv_on_reshape(dv_on *cx, dv_on_value *to, dv_on_value *from,
                        int n_dims, const int64_t *dims)
{
    if (n_dims > DV_MAX_DIMS)
        return dv_on_refuse(cx,
                            "a result has %d dim%s, at most %d are "
                            "supported",
                            n_dims, DV_PLURAL(n_dims, "", "s"),
                            (int)DV_MAX_DIMS);
    DV_TRY(check_dims(cx, n_dims, dims));
    int64_t count = 1;
    for (int d = 0; d < n_dims; d++)
        count *= dims[d];
    if (count != dv_on_count(from))
        return dv_on_refuse(cx, "%lld element%s cannot have a shape of %lld",
                            (long long)dv_on_count(from),
                            DV_PLURAL(dv_on_count(from), "", "s"),
                            (long long)count);
    for (int tries = 0;; tries++) {
        dv_on_value made = {0};
        dv_on_same(&made, from);
        if (dv_on_count(from) == 0) {
            return dv_on_make(cx, to, from->dtype, from->is_bool, n_dims, dims,
                              from->base->data);
        }
        if (regroup(&made, from, n_dims, dims)) {
            made.data = from->data;
            dv_on_same(to, &made);
            return DV_OK;
        }
        if (tries == 2)
            return dv_on_refuse(cx, "this reshape is not supported");
        DV_TRY(dv_on_copy(cx, from, 1));
    }
}

dv_status dv_on_transpose(dv_on *cx, dv_on_value *to, const dv_on_value *from,
                          const int *perm)
{
    (void)cx;
    dv_on_value made = *from;
    made.data = NULL;
    made.first[0] = 0;
    for (int d = 0; d < from->n_dims; d++) {
        int p = perm[d];
        made.dims[d] = from->dims[p];
        made.first[d + 1] = made.first[d];
        for (int a = from->first[p]; a < from->first[p + 1]; a++)
            made.atoms[made.first[d + 1]++] = from->atoms[a];
    }
    dv_on_same(to, &made);
    return DV_OK;
}

// Returns the only atom (part with one stride) of a dim; NULL if it has
// several.
static dv_on_atom *only_atom(dv_on_value *v, int d)
{
    int n = 0;
    dv_on_atom *found = NULL;
    for (int a = v->first[d]; a < v->first[d + 1]; a++)
        if (v->atoms[a].extent > 1 || v->first[d + 1] - v->first[d] == 1) {
            found = &v->atoms[a];
            n++;
        }
    return n == 1 ? found : NULL;
}

// Fixes dim d of a view at one position.
static void fix(dv_on_value *v, int d, int64_t position)
{
    for (int a = v->first[d + 1] - 1; a >= v->first[d]; a--) {
        dv_on_atom *atom = &v->atoms[a];
        if (atom->dim >= 0)
            v->offset[atom->dim] += position % atom->extent * atom->stride;
        position /= atom->extent;
        *atom = (dv_on_atom){1, 0, -1};
    }
    v->dims[d] = 1;
}

dv_status dv_on_slice(dv_on *cx, dv_on_value *to, dv_on_value *from,
                      const int64_t *begin, const int64_t *step,
                      const int64_t *dims)
{
    dv_on_value made = *from;
    made.data = NULL;
    for (int d = 0; d < from->n_dims; d++) {
        if (dims[d] == from->dims[d] && step[d] == 1 && begin[d] == 0)
            continue;
        if (dims[d] == 0) {
            int is_known = dv_on_known(from);
            return dv_on_make(cx, to, from->dtype, from->is_bool, from->n_dims,
                              dims, is_known ? from->base->data : NULL);
        }
        if (dims[d] == 1) {
            fix(&made, d, begin[d]);
            continue;
        }
        dv_on_atom *a = only_atom(&made, d);
        if (!a) {
            DV_TRY(dv_on_copy(cx, from, 0));
            return dv_on_slice(cx, to, from, begin, step, dims);
        }
        if (a->dim >= 0)
            made.offset[a->dim] += begin[d] * a->stride;
        a->stride *= step[d];
        a->extent = made.dims[d] = dims[d];
    }
    dv_on_same(to, &made);
    return DV_OK;
}

dv_status dv_on_expand(dv_on *cx, dv_on_value *to, const dv_on_value *from,
                       int n_dims, const int64_t *dims)
{
    dv_on_value made = *from;
    int lead = n_dims - from->n_dims;
    DV_TRY(check_dims(cx, n_dims, dims));
    if (from->first[from->n_dims] + n_dims > DV_ON_ATOMS)
        return dv_on_refuse(cx, "a result has too many dims");
    made.data = NULL;
    made.n_dims = n_dims;
    made.first[0] = 0;
    for (int d = 0; d < n_dims; d++) {
        int f = d - lead;
        made.first[d + 1] = made.first[d];
        made.dims[d] = dims[d];
        if (f < 0 || (from->dims[f] == 1 && dims[d] != 1)) {
            made.atoms[made.first[d + 1]++] = (dv_on_atom){dims[d], 0, -1};
            continue;
        }
        for (int a = from->first[f]; a < from->first[f + 1]; a++)
            made.atoms[made.first[d + 1]++] = from->atoms[a];
    }
    dv_on_same(to, &made);
    return DV_OK;
}

int dv_on_is_plain(const dv_on_value *v, int d)
{
    const dv_on_atom *a = &v->atoms[v->first[d]];
    return v->first[d + 1] - v->first[d] == 1 && a->dim >= 0 &&
           a->stride == 1 && v->offset[a->dim] == 0 &&
           a->extent == v->base->dims[a->dim];
}

// -- Tensors of the program --------------------------------------------------

// Returns whether a name is a reserved word of the language: the builder would
// accept a tensor of that name, but the printed program would not parse.
static int is_taken_word(const char *name)
{
    static const char *const words[] = {
        "param", "input", "temp",  "output", "repeat", "extern", "for",
        "in",    "inf",   "const", "else",   "over",   "nan"};
    dv_str s = {name, (uint32_t)strlen(name)};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(name, words[i]))
            return 1;
    return dv_fn_find(s) >= 0 || dv_reducer_find(s) >= 0 ||
           dv_dtype_find(name, s.len) >= 0;
}

const char *dv_on_name(dv_on *cx, const char *hint)
{
    dv_text t = {0};
    for (const char *c = hint; *c && t.len < 60; c++) {
        int letter = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z');
        int digit = *c >= '0' && *c <= '9';
        if (!t.len && !letter)
            dv_put(&t, "t");
        dv_put(&t, "%c", letter || digit ? *c : '_');
    }
    if (!t.len)
        dv_put(&t, "t");
    if (t.at && is_taken_word(t.at))
        dv_put(&t, "_");
    size_t stem = t.len;
    for (int i = 2; t.at && dv_table_get(&cx->names, t.at, t.len, -1) >= 0;
         i++) {
        t.len = stem;
        dv_put(&t, "_%d", i);
    }
    char *name = t.failed ? NULL : dv_arena_copy(cx->arena, t.at, t.len);
    dv_text_free(&t);
    if (!name || !dv_table_set(&cx->names, cx->arena, name, strlen(name), 1)) {
        dv_nomem(cx->diag);
        return NULL;
    }
    return name;
}

dv_status dv_on_declare(dv_on *cx, dv_on_base *b)
{
    dv_term dims[DV_MAX_DIMS];
    if (b->made_in == cx->scope ||
        (cx->scope == 1 ? b->declared : b->scope == cx->scope))
        return DV_OK;
    if (!b->data && cx->scope != 1)
        return dv_on_refuse(cx, "a constant depends on data");
    for (int d = 0; d < b->n_dims; d++) {
        if (b->dims[d] == 0)
            return dv_on_refuse(cx, "'%s' has a dim of size 0", b->hint);
        dims[d] = dv_build_int(cx->build, b->dims[d]);
    }
    if (!b->name && !(b->name = dv_on_name(cx, b->hint)))
        return DV_E_NOMEM;
    b->scope = cx->scope;
    b->declared |= cx->scope == 1;
    char file[80];
    snprintf(file, sizeof file, "%s.npy", b->name);
    if (b->data && cx->scope == 1)
        dv_build_const(cx->build, b->name, b->dtype, b->n_dims, dims,
                       cx->to_files ? file : NULL);
    else
        dv_build_input(cx->build, b->name, b->dtype, b->n_dims, dims);
    dv_on_base **to = DV_PUSH(cx->arena, dv_on_base *, cx->inputs, cx->n_inputs,
                              cx->cap_inputs);
    if (!to)
        return dv_nomem(cx->diag);
    *to = b;
    return DV_OK;
}
