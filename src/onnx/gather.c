// Operators that read or write through indices that are data: gathers,
// scatters, one-hot, top-k.
#include "base/dtype.h"
#include "onnx/import.h"
#include <stdlib.h>
#include <float.h>
#include <math.h>
#include <string.h>

// Replaces negative indices, which count from the end, by the same positions
// counted from the beginning.
static dv_status from_start(dv_on *cx, dv_on_value **indices, int64_t size)
{
    int axes[DV_MAX_DIMS];
    dv_on_loop l;
    dv_on_value *v = *indices, *made = dv_on_temp(cx, "index");
    if (!made)
        return DV_E_NOMEM;
    if (dv_on_known(v)) {
        const int64_t *list;
        int count;
        DV_TRY(dv_on_get_ints(cx, v, "indices", &list, &count));
        int64_t *fixed = DV_NEW(cx->arena, int64_t, count + 1);
        if (!fixed)
            return dv_nomem(cx->diag);
        for (int i = 0; i < count; i++) {
            fixed[i] = list[i] < 0 ? list[i] + size : list[i];
            if (fixed[i] < 0 || fixed[i] >= size)
                return dv_on_refuse(cx, "index %lld is out of range",
                                    (long long)list[i]);
        }
        *indices =
            dv_on_const_ints(cx, v->name, DV_I64, v->n_dims, v->dims, fixed);
        return *indices ? DV_OK : DV_E_NOMEM;
    }
    dv_on_loop_begin(&l, cx);
    DV_TRY(dv_on_over(&l, v, axes));
    dv_on_start(&l);
    dv_term t = dv_on_read(&l, v, axes);
    t = dv_on_3(cx, "select", dv_on_2(cx, "<", t, dv_on_i(cx, 0)),
                dv_on_2(cx, "+", t, dv_on_i(cx, size)), t);
    DV_TRY(dv_on_define(&l, made, v->dtype, 0, v->n_dims, axes, t));
    *indices = made;
    return DV_OK;
}

// Copies x if its dim d is not one whole dim of the tensor that x views: only
// such a dim can be indexed by the value of a read.
static dv_status must_be_plain(dv_on *cx, dv_on_value *x, int d)
{
    return dv_on_is_plain(x, d) ? DV_OK : dv_on_copy(cx, x, 0);
}

// Returns whether known indices are one position or evenly spaced: then the
// gather is a slice, with this `begin` and `step`.
static int is_slice(dv_on *cx, dv_on_value *indices, int64_t *begin,
                    int64_t *step)
{
    const int64_t *list;
    int n;
    if (!dv_on_known(indices) || indices->n_dims > 1 ||
        dv_on_count(indices) < 1 ||
        dv_on_get_ints(cx, indices, "indices", &list, &n) != DV_OK)
        return 0;
    *begin = list[0];
    *step = n > 1 ? list[1] - list[0] : 1;
    for (int i = 1; i < n; i++)
        if (list[i] - list[i - 1] != *step || *step == 0)
            return 0;
    return 1;
}

static dv_status gather_slice(dv_on *cx, dv_on_value *out, dv_on_value *x,
                              int axis, int64_t begin, int64_t step,
                              const dv_on_value *indices)
{
    int64_t b[DV_MAX_DIMS] = {0}, s[DV_MAX_DIMS], dims[DV_MAX_DIMS];
    int n = 0;
    dv_on_value *cut = dv_on_temp(cx, out->name);
    if (!cut)
        return DV_E_NOMEM;
    for (int d = 0; d < x->n_dims; d++)
        s[d] = 1, dims[d] = x->dims[d];
    b[axis] = begin;
    s[axis] = step;
    dims[axis] = dv_on_count(indices);
    DV_TRY(dv_on_slice(cx, cut, x, b, s, dims));
    for (int d = 0; d < x->n_dims; d++)
        if (d != axis || indices->n_dims)
            dims[n++] = cut->dims[d];
    return dv_on_reshape(cx, out, cut, n, dims);
}

dv_status dv_on_gather(dv_on *cx, const dv_onnx_node *n)
{
    int axis;
    DV_TRY(dv_on_need(cx, n, 2));
    dv_on_value *x = dv_on_in(cx, n, 0), *out = dv_on_out(cx, n, 0);
    DV_TRY(dv_on_norm_axis(cx, dv_on_int(n, "axis", 0), x->n_dims, &axis));
    return out ? dv_on_gather_of(cx, out, x, dv_on_in(cx, n, 1), axis)
               : DV_E_NOMEM;
}

dv_status dv_on_gather_of(dv_on *cx, dv_on_value *out, dv_on_value *x,
                          dv_on_value *i, int axis)
{
    int axes[DV_MAX_DIMS], ix[DV_MAX_DIMS], out_axes[2 * DV_MAX_DIMS],
        n_out = 0;
    int64_t begin, step;
    dv_on_loop l;
    dv_on_index index[DV_MAX_DIMS];
    if (x->n_dims + i->n_dims - 1 > DV_MAX_DIMS)
        return dv_on_refuse(cx, "its result has too many dims");
    DV_TRY(from_start(cx, &i, x->dims[axis]));
    if (is_slice(cx, i, &begin, &step))
        return gather_slice(cx, out, x, axis, begin, step, i);
    DV_TRY(must_be_plain(cx, x, axis));
    dv_on_loop_begin(&l, cx);
    for (int d = 0; d < x->n_dims; d++) {
        if (d == axis) {
            for (int k = 0; k < i->n_dims; k++)
                out_axes[n_out++] = ix[k] = dv_on_axis_add(&l, i->dims[k]);
            axes[d] = -1;
            continue;
        }
        out_axes[n_out++] = axes[d] = dv_on_axis_add(&l, x->dims[d]);
    }
    DV_TRY(dv_on_use(&l, x, axes));
    DV_TRY(dv_on_use(&l, i, ix));
    dv_on_start(&l);
    for (int d = 0; d < x->n_dims; d++)
        index[d] = dv_on_along(axes[d]);
    index[axis].via = dv_on_read(&l, i, ix);
    return dv_on_define(&l, out, x->dtype, x->is_bool, n_out, out_axes,
                        dv_on_read_at(&l, x, index));
}

dv_status dv_on_gather_elements(dv_on *cx, const dv_onnx_node *n)
{
    int axis, axes[DV_MAX_DIMS];
    dv_on_loop l;
    dv_on_index index[DV_MAX_DIMS];
    DV_TRY(dv_on_need(cx, n, 2));
    dv_on_value *x = dv_on_in(cx, n, 0), *i = dv_on_in(cx, n, 1);
    dv_on_value *out = dv_on_out(cx, n, 0);
    DV_TRY(dv_on_norm_axis(cx, dv_on_int(n, "axis", 0), x->n_dims, &axis));
    if (!out)
        return DV_E_NOMEM;
    if (x->n_dims != i->n_dims)
        return dv_on_refuse(cx, "its inputs have different numbers of dims");
    DV_TRY(from_start(cx, &i, x->dims[axis]));
    for (int d = 0; d < x->n_dims; d++)
        if (d == axis || i->dims[d] != x->dims[d])
            DV_TRY(must_be_plain(cx, x, d));
    dv_on_loop_begin(&l, cx);
    DV_TRY(dv_on_over(&l, i, axes));
    int used[DV_MAX_DIMS];
    for (int d = 0; d < x->n_dims; d++)
        used[d] = d != axis && i->dims[d] == x->dims[d] ? axes[d] : -1;
    DV_TRY(dv_on_use(&l, x, used));
    dv_on_start(&l);
    for (int d = 0; d < x->n_dims; d++) {
        if (i->dims[d] > x->dims[d] && d != axis)
            return dv_on_refuse(cx, "dim %d of the indices is too long", d);
        index[d] = dv_on_along(axes[d]);
    }
    index[axis] = (dv_on_index){.via = dv_on_read(&l, i, axes)};
    return dv_on_define(&l, out, x->dtype, x->is_bool, x->n_dims, axes,
                        dv_on_read_at(&l, x, index));
}

// Splits tuples of n indices, the last dim of `indices`, into one value per
// tuple element. Element k indexes dim first + k of x; its negative indices are
// resolved.
static dv_status split_tuples(dv_on *cx, dv_on_value *indices,
                              const dv_on_value *x, int first, int n,
                              dv_on_value **parts)
{
    int64_t begin[DV_MAX_DIMS] = {0}, step[DV_MAX_DIMS], dims[DV_MAX_DIMS];
    int last = indices->n_dims - 1;
    for (int d = 0; d <= last; d++)
        step[d] = 1, dims[d] = indices->dims[d];
    for (int k = 0; k < n; k++) {
        dv_on_value *cut = dv_on_temp(cx, "index");
        parts[k] = dv_on_temp(cx, "index");
        if (!cut || !parts[k])
            return DV_E_NOMEM;
        begin[last] = k;
        dims[last] = 1;
        DV_TRY(dv_on_slice(cx, cut, indices, begin, step, dims));
        DV_TRY(dv_on_reshape(cx, parts[k], cut, last, cut->dims));
        DV_TRY(from_start(cx, &parts[k], x->dims[first + k]));
    }
    return DV_OK;
}

dv_status dv_on_gather_nd(dv_on *cx, const dv_onnx_node *n)
{
    int axes[DV_MAX_DIMS], ix[DV_MAX_DIMS], out_axes[DV_MAX_DIMS * 2],
        n_out = 0, batch = (int)dv_on_int(n, "batch_dims", 0);
    dv_on_value *parts[DV_MAX_DIMS];
    dv_on_loop l;
    dv_on_index index[DV_MAX_DIMS];
    DV_TRY(dv_on_need(cx, n, 2));
    dv_on_value *x = dv_on_in(cx, n, 0), *i = dv_on_in(cx, n, 1);
    dv_on_value *out = dv_on_out(cx, n, 0);
    if (!out)
        return DV_E_NOMEM;
    int64_t tuple = i->n_dims ? i->dims[i->n_dims - 1] : 0;
    if (batch < 0 || tuple < 1 || batch + tuple > x->n_dims ||
        batch >= i->n_dims ||
        i->n_dims - 1 + x->n_dims - batch - tuple > DV_MAX_DIMS)
        return dv_on_refuse(cx, "its indices do not fit its data");
    DV_TRY(split_tuples(cx, i, x, batch, (int)tuple, parts));
    for (int d = batch; d < batch + (int)tuple; d++)
        DV_TRY(must_be_plain(cx, x, d));
    dv_on_loop_begin(&l, cx);
    for (int d = 0; d < i->n_dims - 1; d++)
        out_axes[n_out++] = ix[d] = dv_on_axis_add(&l, i->dims[d]);
    for (int d = 0; d < x->n_dims; d++) {
        if (d < batch)
            axes[d] = ix[d];
        else if (d < batch + tuple)
            axes[d] = -1;
        else
            out_axes[n_out++] = axes[d] = dv_on_axis_add(&l, x->dims[d]);
    }
    DV_TRY(dv_on_use(&l, x, axes));
    for (int k = 0; k < tuple; k++)
        DV_TRY(dv_on_use(&l, parts[k], ix));
    dv_on_start(&l);
    for (int d = 0; d < x->n_dims; d++) {
        index[d] = dv_on_along(axes[d]);
        if (d >= batch && d < batch + tuple)
            index[d].via = dv_on_read(&l, parts[d - batch], ix);
    }
    return dv_on_define(&l, out, x->dtype, x->is_bool, n_out, out_axes,
                        dv_on_read_at(&l, x, index));
}

// -- Scatters ----------------------------------------------------------------

// Copies x into a new tensor, which a scatter then updates.
static dv_status own_copy(dv_on *cx, dv_on_value **to, dv_on_value *x)
{
    int axes[DV_MAX_DIMS];
    dv_on_loop l;
    *to = dv_on_temp(cx, "scattered");
    if (!*to)
        return DV_E_NOMEM;
    dv_on_loop_begin(&l, cx);
    l.typed = l.exact = 1;
    for (int d = 0; d < x->n_dims; d++)
        axes[d] = dv_on_axis_add(&l, x->dims[d]);
    // The new tensor must have exactly the dims of x, because an index that is
    // read from a tensor cannot span several dims. If x is a view in which a
    // dim consists of several, it is made dense first.
    for (int d = 0; d < x->n_dims; d++)
        if (!dv_on_is_plain(x, d))
            DV_TRY(dv_on_copy(cx, x, 0));
    DV_TRY(dv_on_use(&l, x, axes));
    dv_on_start(&l);
    return dv_on_define(&l, *to, x->dtype, x->is_bool, x->n_dims, axes,
                        dv_on_read(&l, x, axes));
}

// Returns the value that a scatter writes: v, or v combined with the old
// element by the reduction `how`.
static dv_term combine(dv_on *cx, const char *how, dv_term old, dv_term v)
{
    if (!strcmp(how, "none"))
        return v;
    return dv_on_2(cx,
                   !strcmp(how, "add")   ? "+"
                   : !strcmp(how, "mul") ? "*"
                                         : how,
                   old, v);
}

// Reads a scatter's attribute `reduction`, for elements of type t.
static dv_status reduction_of(dv_on *cx, const dv_onnx_node *n, dv_dtype t,
                              const char **how)
{
    *how = dv_on_string(n, "reduction", "none");
    if (strcmp(*how, "none") && strcmp(*how, "add") && strcmp(*how, "mul") &&
        strcmp(*how, "max") && strcmp(*how, "min"))
        return dv_on_refuse(cx, "attribute reduction '%s' is not supported",
                            *how);
    if (t == DV_U64 && (!strcmp(*how, "max") || !strcmp(*how, "min")))
        return dv_on_refuse_u64(cx);
    return DV_OK;
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

// Returns whether indices along an axis may name an element twice; 1 if they
// are not known at import.
static int repeats(dv_on *cx, dv_on_value *i, int axis)
{
    const int64_t *list;
    int n;
    int64_t inner = 1, size = i->dims[axis];
    if (!dv_on_known(i) || dv_on_get_ints(cx, i, "indices", &list, &n) != DV_OK)
        return 1;
    for (int d = axis + 1; d < i->n_dims; d++)
        inner *= i->dims[d];
    int64_t *row = DV_NEW(cx->arena, int64_t, size + 1);
    if (!row)
        return 1;
    for (int64_t p = 0; size && p < n / size; p++) {
        const int64_t *first = list + p / inner * size * inner + p % inner;
        for (int64_t k = 0; k < size; k++)
            row[k] = first[k * inner];
        qsort(row, (size_t)size, sizeof *row, by_value);
        for (int64_t k = 1; k < size; k++)
            if (row[k] == row[k - 1])
                return 1;
    }
    return 0;
}

dv_status dv_on_scatter_elements(dv_on *cx, const dv_onnx_node *n)
{
    int axis, axes[DV_MAX_DIMS];
    const char *how;
    dv_on_loop l;
    dv_on_value *made;
    dv_on_index index[DV_MAX_DIMS];
    DV_TRY(dv_on_need(cx, n, 3));
    dv_on_value *x = dv_on_in(cx, n, 0), *i = dv_on_in(cx, n, 1),
                *u = dv_on_in(cx, n, 2), *out = dv_on_out(cx, n, 0);
    DV_TRY(dv_on_norm_axis(cx, dv_on_int(n, "axis", 0), x->n_dims, &axis));
    DV_TRY(reduction_of(cx, n, x->dtype, &how));
    if (!out)
        return DV_E_NOMEM;
    if (i->n_dims != x->n_dims || u->n_dims != x->n_dims)
        return dv_on_refuse(cx, "its inputs have different numbers of dims");
    DV_TRY(from_start(cx, &i, x->dims[axis]));
    if (strcmp(how, "none") && repeats(cx, i, axis))
        return dv_on_refuse(cx,
                            "attribute reduction is '%s' and an element "
                            "may be updated twice",
                            how);
    for (int d = 0; d < x->n_dims; d++)
        if (i->dims[d] > x->dims[d] && d != axis)
            return dv_on_refuse(cx, "dim %d of the indices is too long", d);
    DV_TRY(own_copy(cx, &made, x));
    dv_on_loop_begin(&l, cx);
    DV_TRY(dv_on_over(&l, i, axes));
    DV_TRY(dv_on_use(&l, u, axes));
    dv_on_start(&l);
    for (int d = 0; d < x->n_dims; d++)
        index[d] = dv_on_along(axes[d]);
    index[axis] = (dv_on_index){.via = dv_on_read(&l, i, axes)};
    dv_term v = dv_on_read(&l, u, axes);
    if (strcmp(how, "none"))
        v = combine(cx, how, dv_on_read_at(&l, made, index), v);
    DV_TRY(dv_on_update(&l, made, index, v));
    dv_on_same(out, made);
    return DV_OK;
}

// Returns whether tuples of indices may name an element twice; 1 if they are
// not known at import.
static int tuples_repeat(dv_on *cx, dv_on_value *i)
{
    const int64_t *list;
    int n;
    if (!dv_on_known(i) ||
        dv_on_get_ints(cx, i, "indices", &list, &n) != DV_OK || n > 4096)
        return 1;
    int64_t tuple = i->dims[i->n_dims - 1], rows = n / tuple;
    for (int64_t p = 0; p < rows; p++)
        for (int64_t q = p + 1; q < rows; q++)
            if (!memcmp(list + p * tuple, list + q * tuple,
                        (size_t)tuple * sizeof *list))
                return 1;
    return 0;
}

dv_status dv_on_scatter_nd(dv_on *cx, const dv_onnx_node *n)
{
    int ix[DV_MAX_DIMS], ux[DV_MAX_DIMS * 2], n_u = 0;
    const char *how;
    dv_on_loop l;
    dv_on_value *made, *parts[DV_MAX_DIMS];
    dv_on_index index[DV_MAX_DIMS];
    DV_TRY(dv_on_need(cx, n, 3));
    dv_on_value *x = dv_on_in(cx, n, 0), *i = dv_on_in(cx, n, 1),
                *u = dv_on_in(cx, n, 2), *out = dv_on_out(cx, n, 0);
    DV_TRY(reduction_of(cx, n, x->dtype, &how));
    if (!out)
        return DV_E_NOMEM;
    int64_t tuple = i->n_dims ? i->dims[i->n_dims - 1] : 0;
    if (tuple < 1 || tuple > x->n_dims ||
        u->n_dims != i->n_dims - 1 + x->n_dims - tuple)
        return dv_on_refuse(cx, "its indices and updates do not fit its data");
    if (strcmp(how, "none") && tuples_repeat(cx, i))
        return dv_on_refuse(cx,
                            "attribute reduction is '%s' and an element "
                            "may be updated twice",
                            how);
    DV_TRY(split_tuples(cx, i, x, 0, (int)tuple, parts));
    DV_TRY(own_copy(cx, &made, x));
    dv_on_loop_begin(&l, cx);
    for (int d = 0; d < i->n_dims - 1; d++)
        ux[n_u++] = ix[d] = dv_on_axis_add(&l, i->dims[d]);
    for (int d = (int)tuple; d < x->n_dims; d++)
        ux[n_u++] = dv_on_axis_add(&l, x->dims[d]);
    DV_TRY(dv_on_use(&l, u, ux));
    for (int k = 0; k < tuple; k++)
        DV_TRY(dv_on_use(&l, parts[k], ix));
    dv_on_start(&l);
    for (int d = 0; d < x->n_dims; d++) {
        if (d < tuple)
            index[d] = (dv_on_index){.via = dv_on_read(&l, parts[d], ix)};
        else
            index[d] = dv_on_along(ux[i->n_dims - 1 + d - tuple]);
    }
    dv_term v = dv_on_read(&l, u, ux);
    if (strcmp(how, "none"))
        v = combine(cx, how, dv_on_read_at(&l, made, index), v);
    DV_TRY(dv_on_update(&l, made, index, v));
    dv_on_same(out, made);
    return DV_OK;
}

// -- One-hot, top-k ----------------------------------------------------------

dv_status dv_on_one_hot(dv_on *cx, const dv_onnx_node *n)
{
    const int64_t *depth;
    int count, axis, axes[DV_MAX_DIMS], out_axes[DV_MAX_DIMS + 1];
    dv_on_loop l;
    DV_TRY(dv_on_need(cx, n, 3));
    dv_on_value *i = dv_on_in(cx, n, 0), *values = dv_on_in(cx, n, 2);
    dv_on_value *out = dv_on_out(cx, n, 0), *off = dv_on_temp(cx, "off"),
                *on = dv_on_temp(cx, "on");
    DV_TRY(dv_on_get_ints(cx, dv_on_in(cx, n, 1), "depth", &depth, &count));
    if (!out || !off || !on)
        return DV_E_NOMEM;
    if (count != 1 || depth[0] < 1 || values->n_dims != 1 ||
        values->dims[0] != 2 || i->n_dims == DV_MAX_DIMS)
        return dv_on_refuse(cx, "its depth or its values do not fit");
    DV_TRY(dv_on_norm_axis(cx, dv_on_int(n, "axis", -1), i->n_dims + 1, &axis));
    int64_t zero = 0, at = 1, one = 1;
    DV_TRY(dv_on_slice(cx, off, values, &zero, &one, &one));
    DV_TRY(dv_on_slice(cx, on, values, &at, &one, &one));
    dv_on_loop_begin(&l, cx);
    DV_TRY(dv_on_over(&l, i, axes));
    int k = dv_on_axis_add(&l, depth[0]);
    for (int d = 0; d <= i->n_dims; d++)
        out_axes[d] = d < axis ? axes[d] : d == axis ? k : axes[d - 1];
    dv_on_start(&l);
    // A negative index t counts from the end: it means position t + depth.
    dv_term t = dv_on_read(&l, i, axes), p = dv_on_position(&l, k);
    dv_term is = dv_on_2(
        cx, "max", dv_on_2(cx, "==", t, p),
        dv_on_2(cx, "==", dv_on_2(cx, "+", t, dv_on_i(cx, depth[0])), p));
    int scalar[] = {-1};
    dv_term yes = dv_on_read(&l, on, scalar), no = dv_on_read(&l, off, scalar);
    return dv_on_define(&l, out, values->dtype, 0, i->n_dims + 1, out_axes,
                        dv_on_3(cx, "select", is, yes, no));
}

// Converts x to a wider float type. There, numbers between the largest value of
// x's type and infinity are free, which `places` needs to order infinities and
// NaN. f64 has no wider type.
static dv_status widen(dv_on *cx, dv_on_value *out, dv_on_value *x)
{
    int axes[DV_MAX_DIMS];
    dv_on_loop l;
    dv_dtype type = dv_dtype_get(x->dtype)->size_bytes < 4 ? DV_F32 : DV_F64;
    dv_on_loop_begin(&l, cx);
    DV_TRY(dv_on_over(&l, x, axes));
    dv_on_start(&l);
    return dv_on_define(&l, out, type, 0, x->n_dims, axes,
                        dv_on_read(&l, x, axes));
}

// Defines *out as the indices of the first `count` elements along an axis in
// descending (`largest`) or ascending order; NaN counts as the largest. `count`
// must be at least 2: argtopk needs a variable over its results, and dims of
// size 1 have none.
static dv_status places(dv_on *cx, dv_on_value *out, dv_on_value *x, int axis,
                        int64_t count, int largest)
{
    int axes[DV_MAX_DIMS], from[DV_MAX_DIMS];
    dv_on_loop l;
    dv_on_loop_begin(&l, cx);
    for (int d = 0; d < x->n_dims; d++)
        axes[d] = dv_on_axis_add(&l, d == axis ? count : x->dims[d]);
    memcpy(from, axes, sizeof from);
    int k = from[axis] = dv_on_axis_add(&l, x->dims[axis]);
    DV_TRY(dv_on_use(&l, x, from));
    dv_on_start(&l);
    dv_term t = dv_on_read(&l, x, from);
    if (!largest && !dv_is_float(x->dtype))
        t = dv_on_1(cx, "~", t);
    else if (!largest) {
        double most = x->dtype == DV_F32 ? (double)FLT_MAX : DBL_MAX;
        t = dv_on_3(
            cx, "select", dv_on_1(cx, "isnan", t),
            dv_on_f(cx, -(double)INFINITY),
            dv_on_2(cx, "max", dv_on_1(cx, "-", t), dv_on_f(cx, -most)));
    }
    return dv_on_define(&l, out, DV_I64, 0, x->n_dims, axes,
                        dv_on_reduce(&l, "argtopk", t, 1, &k));
}

// Defines *out as the elements of x at the indices `at` along an axis.
static dv_status elements_at(dv_on *cx, dv_on_value *out, dv_on_value *x,
                             dv_on_value *at, int axis)
{
    int axes[DV_MAX_DIMS], used[DV_MAX_DIMS];
    dv_on_index index[DV_MAX_DIMS];
    dv_on_loop l;
    dv_on_loop_begin(&l, cx);
    DV_TRY(dv_on_over(&l, at, axes));
    memcpy(used, axes, sizeof used);
    used[axis] = -1;
    DV_TRY(dv_on_use(&l, x, used));
    dv_on_start(&l);
    for (int d = 0; d < x->n_dims; d++)
        index[d] = dv_on_along(axes[d]);
    index[axis] = (dv_on_index){.via = dv_on_read(&l, at, axes)};
    return dv_on_define(&l, out, x->dtype, 0, x->n_dims, axes,
                        dv_on_read_at(&l, x, index));
}

// Defines *out as the indices along an axis of size 1, which are all 0.
static dv_status only_place(dv_on *cx, dv_on_value *out, dv_on_value *x)
{
    int axes[DV_MAX_DIMS];
    dv_on_loop l;
    dv_on_loop_begin(&l, cx);
    l.typed = 1;
    DV_TRY(dv_on_over(&l, x, axes));
    dv_on_start(&l);
    return dv_on_define(&l, out, DV_I64, 0, x->n_dims, axes, dv_on_i(cx, 0));
}

dv_status dv_on_top_k(dv_on *cx, const dv_onnx_node *n)
{
    const int64_t *list;
    int axis, count;
    int64_t k = dv_on_int(n, "k", 1);
    int64_t begin[DV_MAX_DIMS] = {0}, step[DV_MAX_DIMS], dims[DV_MAX_DIMS];
    DV_TRY(dv_on_need(cx, n, cx->opset >= 10 ? 2 : 1));
    dv_on_value *x = dv_on_in(cx, n, 0), *all = dv_on_temp(cx, "place");
    DV_TRY(dv_on_norm_axis(cx, dv_on_int(n, "axis", -1), x->n_dims, &axis));
    if (dv_on_in(cx, n, 1)) {
        DV_TRY(dv_on_get_ints(cx, dv_on_in(cx, n, 1), "K", &list, &count));
        k = count ? list[0] : 0;
    }
    if (k < 1 || k > x->dims[axis])
        return dv_on_refuse(cx, "K is %lld", (long long)k);
    if (x->is_bool || x->dtype == DV_U64)
        return dv_on_refuse(cx, "its input is %s",
                            x->is_bool ? "bool" : "uint64");
    dv_on_value *values = dv_on_has_out(n, 0) ? dv_on_out(cx, n, 0) : NULL;
    dv_on_value *at = dv_on_has_out(n, 1) ? dv_on_out(cx, n, 1) : NULL;
    if (!all || (dv_on_has_out(n, 0) && !values) ||
        (dv_on_has_out(n, 1) && !at))
        return DV_E_NOMEM;
    if (x->dims[axis] == 1) {
        if (values)
            dv_on_same(values, x);
        return at ? only_place(cx, at, x) : DV_OK;
    }
    // argtopk needs an operand that uses all loop variables except the one over
    // the results. If x is expanded (broadcast) along a dim, it is copied
    // first.
    int plain = 1;
    for (int d = 0; d < x->n_dims; d++)
        plain = plain && (x->dims[d] == 1 || dv_on_is_plain(x, d));
    if (!plain)
        DV_TRY(dv_on_copy(cx, x, 0));
    int largest = dv_on_int(n, "largest", 1) != 0;
    dv_on_value *ranked = x;
    if (!largest && dv_is_float(x->dtype) && x->dtype != DV_F64) {
        ranked = dv_on_temp(cx, "wide");
        if (!ranked)
            return DV_E_NOMEM;
        DV_TRY(widen(cx, ranked, x));
    }
    DV_TRY(places(cx, all, ranked, axis, k < 2 ? 2 : k, largest));
    for (int d = 0; d < x->n_dims; d++) {
        step[d] = 1;
        dims[d] = d == axis ? k : x->dims[d];
    }
    dv_on_value *first = k < 2 ? dv_on_temp(cx, "place") : all;
    if (!first)
        return DV_E_NOMEM;
    if (first != all)
        DV_TRY(dv_on_slice(cx, first, all, begin, step, dims));
    if (at)
        dv_on_same(at, first);
    return values ? elements_at(cx, values, x, first, axis) : DV_OK;
}

dv_status dv_on_reverse_sequence(dv_on *cx, const dv_onnx_node *n)
{
    int axes[DV_MAX_DIMS], time = (int)dv_on_int(n, "time_axis", 0),
                           batch = (int)dv_on_int(n, "batch_axis", 1);
    dv_on_loop l;
    dv_on_index index[DV_MAX_DIMS];
    DV_TRY(dv_on_need(cx, n, 2));
    dv_on_value *x = dv_on_in(cx, n, 0), *len = dv_on_in(cx, n, 1);
    dv_on_value *out = dv_on_out(cx, n, 0), *from = dv_on_temp(cx, "from");
    if (!out || !from)
        return DV_E_NOMEM;
    if (x->n_dims < 2 || time + batch != 1 || time * batch != 0 ||
        len->n_dims != 1)
        return dv_on_refuse(cx, "attributes time_axis and batch_axis are 0 and "
                                "1");
    dv_on_loop_begin(&l, cx);
    int t = dv_on_axis_add(&l, x->dims[time]);
    int b = dv_on_axis_add(&l, x->dims[batch]), two[] = {t, b};
    DV_TRY(dv_on_use(&l, len, &b));
    dv_on_start(&l);
    dv_term p = dv_on_position(&l, t), s = dv_on_read(&l, len, &b);
    dv_term back = dv_on_2(cx, "-", dv_on_2(cx, "-", s, dv_on_i(cx, 1)), p);
    DV_TRY(
        dv_on_define(&l, from, DV_I64, 0, 2, two,
                     dv_on_3(cx, "select", dv_on_2(cx, "<", p, s), back, p)));
    DV_TRY(must_be_plain(cx, x, time));
    dv_on_loop_begin(&l, cx);
    for (int d = 0; d < x->n_dims; d++)
        axes[d] = dv_on_axis_add(&l, x->dims[d]);
    two[0] = axes[time];
    two[1] = axes[batch];
    int used[DV_MAX_DIMS];
    memcpy(used, axes, sizeof used);
    used[time] = -1;
    DV_TRY(dv_on_use(&l, x, used));
    DV_TRY(dv_on_use(&l, from, two));
    dv_on_start(&l);
    for (int d = 0; d < x->n_dims; d++)
        index[d] = dv_on_along(axes[d]);
    index[time] = (dv_on_index){.via = dv_on_read(&l, from, two)};
    return dv_on_define(&l, out, x->dtype, x->is_bool, x->n_dims, axes,
                        dv_on_read_at(&l, x, index));
}
