// Operators that move elements: views, which compute nothing, and
// concatenation, padding and tiles.
#include "base/dtype.h"
#include "base/math.h"
#include "base/plural.h"
#include "onnx/import.h"
#include <string.h>

// Gets axes from the attribute or, since opset 13, from input number `input`.
// *count is -1 if there are none.
static dv_status get_axes(dv_on *cx, const dv_onnx_node *n, int input,
                          const int64_t **out, int *count)
{
    *count = -1;
    *out = NULL;
    dv_on_value *v = dv_on_in(cx, n, input);
    if (v)
        return dv_on_get_ints(cx, v, "axes", out, count);
    int len;
    const int64_t *list = dv_on_ints(n, "axes", &len);
    if (list) {
        *out = list;
        *count = len;
    }
    return DV_OK;
}

// -- Views -------------------------------------------------------------------

dv_status dv_on_identity(dv_on *cx, const dv_onnx_node *n)
{
    DV_TRY(dv_on_need(cx, n, 1));
    dv_on_value *out = dv_on_out(cx, n, 0);
    if (!out)
        return DV_E_NOMEM;
    dv_on_same(out, dv_on_in(cx, n, 0));
    return DV_OK;
}

// Resolves the special sizes of Reshape: 0 (as in the input) and -1 (so that
// the element count fits).
static dv_status resolve(dv_on *cx, const dv_on_value *x, int64_t *dims, int n,
                         int allow_zero)
{
    int64_t known = 1, total = dv_on_count(x);
    int open = -1;
    for (int d = 0; d < n; d++) {
        if (dims[d] == 0 && !allow_zero) {
            if (d >= x->n_dims)
                return dv_on_refuse(cx, "input shape: dim %d is 0", d);
            dims[d] = x->dims[d];
        }
        if (dims[d] == -1 && open < 0)
            open = d;
        else if (dims[d] < 0 || !dv_mul_i64(&known, known, dims[d]))
            return dv_on_refuse(cx, "input shape: dim %d is %lld", d,
                                (long long)dims[d]);
    }
    if (open >= 0) {
        if (known == 0 || total % known)
            return dv_on_refuse(cx, "%lld elements do not fit the shape",
                                (long long)total);
        dims[open] = total / known;
        known = total;
    }
    return known == total
               ? DV_OK
               : dv_on_refuse(cx,
                              "%lld element%s cannot have a shape of "
                              "%lld",
                              (long long)total, DV_PLURAL(total, "", "s"),
                              (long long)known);
}

dv_status dv_on_op_reshape(dv_on *cx, const dv_onnx_node *n)
{
    const int64_t *list;
    int64_t dims[DV_MAX_DIMS];
    int count;
    DV_TRY(dv_on_need(cx, n, cx->opset < 5 ? 1 : 2));
    dv_on_value *x = dv_on_in(cx, n, 0), *shape = dv_on_in(cx, n, 1);
    if (shape)
        DV_TRY(dv_on_get_ints(cx, shape, "shape", &list, &count));
    else
        list = dv_on_ints(n, "shape", &count);
    dv_on_value *out = dv_on_out(cx, n, 0);
    if (!out)
        return DV_E_NOMEM;
    if (count > DV_MAX_DIMS)
        return dv_on_refuse(cx, "its result has %d dim%s", count,
                            DV_PLURAL(count, "", "s"));
    for (int d = 0; d < count; d++)
        dims[d] = list[d];
    DV_TRY(resolve(cx, x, dims, count, dv_on_int(n, "allowzero", 0) != 0));
    return dv_on_reshape(cx, out, x, count, dims);
}

dv_status dv_on_flatten(dv_on *cx, const dv_onnx_node *n)
{
    DV_TRY(dv_on_need(cx, n, 1));
    dv_on_value *x = dv_on_in(cx, n, 0), *out = dv_on_out(cx, n, 0);
    int64_t axis = dv_on_int(n, "axis", 1), dims[2] = {1, 1};
    if (!out)
        return DV_E_NOMEM;
    axis += axis < 0 ? x->n_dims : 0;
    if (axis < 0 || axis > x->n_dims)
        return dv_on_refuse(cx, "attribute axis is out of range");
    for (int d = 0; d < x->n_dims; d++)
        dims[d >= axis] *= x->dims[d];
    return dv_on_reshape(cx, out, x, 2, dims);
}

dv_status dv_on_op_transpose(dv_on *cx, const dv_onnx_node *n)
{
    int perm[DV_MAX_DIMS], len;
    unsigned seen = 0;
    DV_TRY(dv_on_need(cx, n, 1));
    dv_on_value *x = dv_on_in(cx, n, 0), *out = dv_on_out(cx, n, 0);
    const int64_t *list = dv_on_ints(n, "perm", &len);
    if (!out)
        return DV_E_NOMEM;
    if (list && len != x->n_dims)
        return dv_on_refuse(cx,
                            "attribute perm has %d %s, its input %d "
                            "dim%s",
                            len, DV_PLURAL(len, "entry", "entries"), x->n_dims,
                            DV_PLURAL(x->n_dims, "", "s"));
    for (int d = 0; d < x->n_dims; d++) {
        int64_t p = list ? list[d] : x->n_dims - 1 - d;
        if (p < 0 || p >= x->n_dims || seen >> p & 1)
            return dv_on_refuse(cx, "attribute perm is no permutation");
        seen |= 1u << p;
        perm[d] = (int)p;
    }
    return dv_on_transpose(cx, out, x, perm);
}

dv_status dv_on_squeeze(dv_on *cx, const dv_onnx_node *n)
{
    const int64_t *axes;
    int64_t dims[DV_MAX_DIMS];
    int count, axis, n_dims = 0;
    unsigned gone = 0;
    DV_TRY(dv_on_need(cx, n, 1));
    dv_on_value *x = dv_on_in(cx, n, 0);
    DV_TRY(get_axes(cx, n, 1, &axes, &count));
    for (int i = 0; i < count; i++) {
        DV_TRY(dv_on_norm_axis(cx, axes[i], x->n_dims, &axis));
        if (x->dims[axis] != 1)
            return dv_on_refuse(cx, "dim %d has %lld elements, not 1", axis,
                                (long long)x->dims[axis]);
        gone |= 1u << axis;
    }
    for (int d = 0; d < x->n_dims; d++)
        if (count < 0 ? x->dims[d] != 1 : !(gone >> d & 1))
            dims[n_dims++] = x->dims[d];
    dv_on_value *out = dv_on_out(cx, n, 0);
    return out ? dv_on_reshape(cx, out, x, n_dims, dims) : DV_E_NOMEM;
}

dv_status dv_on_unsqueeze(dv_on *cx, const dv_onnx_node *n)
{
    const int64_t *axes;
    int64_t dims[DV_MAX_DIMS];
    int count, axis, from = 0;
    unsigned fresh = 0;
    DV_TRY(dv_on_need(cx, n, 1));
    dv_on_value *x = dv_on_in(cx, n, 0);
    DV_TRY(get_axes(cx, n, 1, &axes, &count));
    int n_dims = x->n_dims + (count < 0 ? 0 : count);
    if (n_dims > DV_MAX_DIMS)
        return dv_on_refuse(cx, "its result has %d dim%s", n_dims,
                            DV_PLURAL(n_dims, "", "s"));
    for (int i = 0; i < count; i++) {
        DV_TRY(dv_on_norm_axis(cx, axes[i], n_dims, &axis));
        if (fresh >> axis & 1)
            return dv_on_refuse(cx, "axis %d is listed twice", axis);
        fresh |= 1u << axis;
    }
    for (int d = 0; d < n_dims; d++)
        dims[d] = fresh >> d & 1 ? 1 : x->dims[from++];
    dv_on_value *out = dv_on_out(cx, n, 0);
    return out ? dv_on_reshape(cx, out, x, n_dims, dims) : DV_E_NOMEM;
}

// Clamps begin and end of a slice as numpy does, and counts its elements.
static int64_t clamp_slice(int64_t size, int64_t *begin, int64_t end,
                           int64_t step)
{
    int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
    *begin = *begin < 0 ? (*begin < -size ? low : *begin + size) : *begin;
    end = end < 0 ? (end < -size ? low : end + size) : end;
    *begin = *begin < low ? low : *begin > high ? high : *begin;
    end = end < low ? low : end > high ? high : end;
    int64_t span = step > 0 ? end - *begin : *begin - end;
    if (step < -size - 1)
        step = -size - 1;
    int64_t by = step > 0 ? step : -step;
    return span <= 0 ? 0 : 1 + (span - 1) / by;
}

dv_status dv_on_op_slice(dv_on *cx, const dv_onnx_node *n)
{
    static const char *const names[] = {"", "starts", "ends", "axes", "steps"};
    const int64_t *list[5] = {0};
    int64_t begin[DV_MAX_DIMS], step[DV_MAX_DIMS], dims[DV_MAX_DIMS];
    int count[5] = {0}, axis;
    DV_TRY(dv_on_need(cx, n, 1));
    dv_on_value *x = dv_on_in(cx, n, 0), *out = dv_on_out(cx, n, 0);
    for (int i = 1; i < 5; i++) {
        dv_on_value *v = dv_on_in(cx, n, i);
        if (v)
            DV_TRY(dv_on_get_ints(cx, v, names[i], &list[i], &count[i]));
        else
            list[i] = dv_on_ints(n, names[i], &count[i]);
    }
    if (!out)
        return DV_E_NOMEM;
    for (int d = 0; d < x->n_dims; d++)
        begin[d] = 0, step[d] = 1, dims[d] = x->dims[d];
    if (!list[1] || !list[2] || count[1] != count[2] ||
        (list[3] && count[3] != count[1]) || (list[4] && count[4] != count[1]))
        return dv_on_refuse(cx, "starts, ends, axes and steps do not fit");
    for (int i = 0; i < count[1]; i++) {
        DV_TRY(dv_on_norm_axis(cx, list[3] ? list[3][i] : i, x->n_dims, &axis));
        begin[axis] = list[1][i];
        step[axis] = list[4] ? list[4][i] : 1;
        if (step[axis] == 0)
            return dv_on_refuse(cx, "input steps: a step is 0");
        dims[axis] =
            clamp_slice(x->dims[axis], &begin[axis], list[2][i], step[axis]);
        if (dims[axis] <= 1)
            step[axis] = 1;
    }
    return dv_on_slice(cx, out, x, begin, step, dims);
}

// Fails unless the sizes of a split, or their number if `parts` is NULL, are
// those of its outputs: parts have the whole dim, and are equal before opset 18
// unless their sizes are given.
static dv_status check_split(dv_on *cx, const dv_onnx_node *n, int64_t size,
                             const int64_t *parts, int count)
{
    int64_t total = 0, given = dv_on_int(n, "num_outputs", n->n_outputs);
    if ((parts && count != n->n_outputs) || given != n->n_outputs)
        return dv_on_refuse(cx, "it has %lld part%s and %d output%s",
                            (long long)(parts ? count : given),
                            DV_PLURAL((parts ? count : given), "", "s"),
                            (int)n->n_outputs,
                            DV_PLURAL(n->n_outputs, "", "s"));
    for (int i = 0; parts && i < count; i++)
        if (parts[i] < 0 || !dv_add_i64(&total, total, parts[i]))
            return dv_on_refuse(cx, "part %d has %lld elements", i,
                                (long long)parts[i]);
    if (parts && total != size)
        return dv_on_refuse(cx, "its parts have %lld element%s, the dim %lld",
                            (long long)total, DV_PLURAL(total, "", "s"),
                            (long long)size);
    if (!parts && cx->opset < 18 && size % n->n_outputs)
        return dv_on_refuse(cx,
                            "%lld element%s cannot be split into %d equal "
                            "parts",
                            (long long)size, DV_PLURAL(size, "", "s"),
                            (int)n->n_outputs);
    return DV_OK;
}

dv_status dv_on_split(dv_on *cx, const dv_onnx_node *n)
{
    int64_t begin[DV_MAX_DIMS] = {0}, step[DV_MAX_DIMS], dims[DV_MAX_DIMS];
    const int64_t *parts = NULL;
    int axis, count = 0;
    DV_TRY(dv_on_need(cx, n, 1));
    dv_on_value *x = dv_on_in(cx, n, 0), *sizes = dv_on_in(cx, n, 1);
    DV_TRY(dv_on_norm_axis(cx, dv_on_int(n, "axis", 0), x->n_dims, &axis));
    if (sizes)
        DV_TRY(dv_on_get_ints(cx, sizes, "split", &parts, &count));
    else
        parts = dv_on_ints(n, "split", &count);
    DV_TRY(check_split(cx, n, x->dims[axis], parts, count));
    for (int d = 0; d < x->n_dims; d++)
        step[d] = 1, dims[d] = x->dims[d];
    int64_t each = dv_ceil_div(x->dims[axis], n->n_outputs);
    for (int i = 0; i < n->n_outputs; i++) {
        int64_t left = x->dims[axis] - begin[axis];
        dims[axis] = parts ? parts[i] : each < left ? each : left;
        dv_on_value *out = dv_on_out(cx, n, i);
        if (!out)
            return DV_E_NOMEM;
        DV_TRY(dv_on_slice(cx, out, x, begin, step, dims));
        begin[axis] += dims[axis];
    }
    return DV_OK;
}

dv_status dv_on_op_expand(dv_on *cx, const dv_onnx_node *n)
{
    const int64_t *shape;
    int64_t dims[DV_MAX_DIMS];
    int count;
    DV_TRY(dv_on_need(cx, n, 2));
    dv_on_value *x = dv_on_in(cx, n, 0), *out = dv_on_out(cx, n, 0);
    DV_TRY(dv_on_get_ints(cx, dv_on_in(cx, n, 1), "shape", &shape, &count));
    int n_dims = count > x->n_dims ? count : x->n_dims;
    if (!out)
        return DV_E_NOMEM;
    if (n_dims > DV_MAX_DIMS)
        return dv_on_refuse(cx, "its result has %d dim%s", n_dims,
                            DV_PLURAL(n_dims, "", "s"));
    for (int d = 0; d < n_dims; d++) {
        int p = d - n_dims + x->n_dims, q = d - n_dims + count;
        int64_t a = p >= 0 ? x->dims[p] : 1, b = q >= 0 ? shape[q] : 1;
        if (a != b && a != 1 && b != 1)
            return dv_on_refuse(cx,
                                "dim %d has %lld element%s, it cannot have "
                                "%lld",
                                d, (long long)a, DV_PLURAL(a, "", "s"),
                                (long long)b);
        dims[d] = a == 1 ? b : a;
    }
    return dv_on_expand(cx, out, x, n_dims, dims);
}

// Defines out as x reshaped to dims, transposed by perm, and reshaped to the
// dims `final`.
static dv_status rearrange(dv_on *cx, dv_on_value *out, dv_on_value *x,
                           int n_dims, const int64_t *dims, const int *perm,
                           int n_final, const int64_t *final)
{
    dv_on_value *a = dv_on_temp(cx, out->name), *b = dv_on_temp(cx, out->name);
    if (!a || !b)
        return DV_E_NOMEM;
    DV_TRY(dv_on_reshape(cx, a, x, n_dims, dims));
    DV_TRY(dv_on_transpose(cx, b, a, perm));
    return dv_on_reshape(cx, out, b, n_final, final);
}

dv_status dv_on_depth_to_space(dv_on *cx, const dv_onnx_node *n)
{
    DV_TRY(dv_on_need(cx, n, 1));
    dv_on_value *x = dv_on_in(cx, n, 0), *out = dv_on_out(cx, n, 0);
    int64_t b = dv_on_int(n, "blocksize", 0);
    int to_space = !strcmp(n->type, "DepthToSpace");
    if (!out)
        return DV_E_NOMEM;
    if (x->n_dims != 4 || b < 1 || b > INT32_MAX || !dv_on_count(x))
        return dv_on_refuse(cx, "its input has 4 dims, none of them empty, and "
                                "blocksize is 1 to 2^31 - 1");
    const int64_t *s = x->dims;
    if (to_space) {
        if (s[1] % (b * b))
            return dv_on_refuse(cx, "blocksize does not divide the channels");
        int64_t c = s[1] / (b * b), final[] = {s[0], c, s[2] * b, s[3] * b};
        if (!strcmp(dv_on_string(n, "mode", "DCR"), "CRD"))
            return rearrange(cx, out, x, 6,
                             (int64_t[]){s[0], c, b, b, s[2], s[3]},
                             (int[]){0, 1, 4, 2, 5, 3}, 4, final);
        return rearrange(cx, out, x, 6, (int64_t[]){s[0], b, b, c, s[2], s[3]},
                         (int[]){0, 3, 4, 1, 5, 2}, 4, final);
    }
    if (s[2] % b || s[3] % b)
        return dv_on_refuse(cx, "blocksize does not divide the image");
    return rearrange(cx, out, x, 6,
                     (int64_t[]){s[0], s[1], s[2] / b, b, s[3] / b, b},
                     (int[]){0, 3, 5, 1, 2, 4}, 4,
                     (int64_t[]){s[0], s[1] * b * b, s[2] / b, s[3] / b});
}

dv_status dv_on_tile(dv_on *cx, const dv_onnx_node *n)
{
    const int64_t *times;
    int64_t dims[DV_MAX_DIMS], wide[DV_MAX_DIMS], final[DV_MAX_DIMS];
    int count;
    DV_TRY(dv_on_need(cx, n, 2));
    dv_on_value *x = dv_on_in(cx, n, 0), *out = dv_on_out(cx, n, 0);
    if (cx->opset < 6)
        return dv_on_refuse(cx, "opset %d of Tile is not supported",
                            (int)cx->opset);
    DV_TRY(dv_on_get_ints(cx, dv_on_in(cx, n, 1), "repeats", &times, &count));
    if (!out)
        return DV_E_NOMEM;
    if (count != x->n_dims || 2 * count > DV_MAX_DIMS)
        return dv_on_refuse(cx, "it has %d repeat%s for %d dim%s", count,
                            DV_PLURAL(count, "", "s"), x->n_dims,
                            DV_PLURAL(x->n_dims, "", "s"));
    // Tile as views of a broadcast: [a, b] -> [1, a, 1, b] -> [r, a, s, b] ->
    // [r*a, s*b]
    for (int d = 0; d < count; d++) {
        if (times[d] < 0)
            return dv_on_refuse(cx, "a repeat is negative");
        dims[2 * d] = 1;
        wide[2 * d] = times[d];
        dims[2 * d + 1] = wide[2 * d + 1] = x->dims[d];
        if (!dv_mul_i64(&final[d], times[d], x->dims[d]))
            return dv_on_refuse(cx, "its result does not fit 64 bits");
    }
    dv_on_value *a = dv_on_temp(cx, out->name), *b = dv_on_temp(cx, out->name);
    if (!a || !b)
        return DV_E_NOMEM;
    DV_TRY(dv_on_reshape(cx, a, x, 2 * count, dims));
    DV_TRY(dv_on_expand(cx, b, a, 2 * count, wide));
    return dv_on_reshape(cx, out, b, count, final);
}

// -- Concatenation and padding -----------------------------------------------

// Defines v as a tensor with these dims, all of whose elements are `number`.
static dv_status fill(dv_on *cx, dv_on_value *v, dv_dtype t, int is_bool,
                      int n_dims, const int64_t *dims, double number)
{
    int axes[DV_MAX_DIMS];
    dv_on_loop l;
    dv_on_loop_begin(&l, cx);
    for (int d = 0; d < n_dims; d++)
        axes[d] = dv_on_axis_add(&l, dims[d]);
    dv_on_start(&l);
    return dv_on_define(&l, v, t, is_bool, n_dims, axes,
                        dv_on_num(cx, t, number));
}

// Copies x into v at an offset: v[… at[d] + i …] <- x[i …]
static dv_status place(dv_on *cx, dv_on_value *v, dv_on_value *x,
                       const int64_t *at)
{
    int axes[DV_MAX_DIMS];
    dv_on_index index[DV_MAX_DIMS];
    dv_on_loop l;
    dv_on_loop_begin(&l, cx);
    DV_TRY(dv_on_over(&l, x, axes));
    dv_on_start(&l);
    for (int d = 0; d < x->n_dims; d++) {
        index[d] = dv_on_along(axes[d]);
        index[d].add = at[d];
    }
    dv_term t = dv_on_read(&l, x, axes);
    return dv_on_update(&l, v, index, t);
}

// Concatenates values that are known at import by copying their elements.
static dv_status join_known(dv_on *cx, dv_on_value *out,
                            dv_on_value *const *parts, int n, int axis,
                            const int64_t *dims)
{
    const dv_on_value *x = parts[0];
    size_t row = (size_t)dv_dtype_get(x->dtype)->size_bytes;
    int64_t outer = 1;
    for (int d = 0; d < x->n_dims; d++) {
        outer *= d < axis ? dims[d] : 1;
        row *= d > axis ? (size_t)dims[d] : 1;
    }
    size_t all = row * (size_t)dims[axis], at = 0;
    char *data = dv_arena_buffer(cx->arena, all * (size_t)outer + 1);
    if (!data)
        return dv_nomem(cx->diag);
    for (int i = 0; i < n; i++) {
        size_t part = row * (size_t)parts[i]->dims[axis];
        const char *from = dv_on_data(cx, parts[i]);
        if (!from)
            return DV_E_NOMEM;
        for (int64_t k = 0; k < outer; k++)
            memcpy(data + (size_t)k * all + at, from + (size_t)k * part, part);
        at += part;
    }
    return dv_on_make(cx, out, x->dtype, x->is_bool, x->n_dims, dims, data);
}

dv_status dv_on_join(dv_on *cx, dv_on_value *out, dv_on_value *const *parts,
                     int n, int axis)
{
    int64_t dims[DV_MAX_DIMS], at[DV_MAX_DIMS] = {0};
    const dv_on_value *x = parts[0];
    memcpy(dims, x->dims, sizeof dims);
    dims[axis] = 0;
    for (int i = 0; i < n; i++) {
        if (parts[i]->n_dims != x->n_dims)
            return dv_on_refuse(cx, "its inputs have different numbers of "
                                    "dims");
        for (int d = 0; d < x->n_dims; d++)
            if (d != axis && parts[i]->dims[d] != x->dims[d])
                return dv_on_refuse(cx, "its inputs differ in dim %d", d);
        if (!dv_add_i64(&dims[axis], dims[axis], parts[i]->dims[axis]))
            return dv_on_refuse(cx, "its result does not fit 64 bits");
    }
    dv_on_value *whole = dv_on_temp(cx, out->name);
    if (!whole)
        return DV_E_NOMEM;
    int known = 1;
    int64_t total = cx->n_joined;
    for (int i = 0; i < n; i++) {
        known &= dv_on_known(parts[i]) && parts[i]->dtype == x->dtype;
        if (!dv_add_i64(&total, total, dv_on_count(parts[i])))
            return dv_on_refuse(cx, "its result does not fit 64 bits");
    }
    if (known && total <= DV_ON_MAX_JOINED) {
        cx->n_joined = total;
        return join_known(cx, out, parts, n, axis, dims);
    }
    DV_TRY(fill(cx, whole, x->dtype, x->is_bool, x->n_dims, dims, 0));
    for (int i = 0; i < n; i++) {
        if (dv_on_count(parts[i]))
            DV_TRY(place(cx, whole, parts[i], at));
        at[axis] += parts[i]->dims[axis];
    }
    dv_on_same(out, whole);
    return DV_OK;
}

dv_status dv_on_concat(dv_on *cx, const dv_onnx_node *n)
{
    dv_on_value **parts = DV_NEW(cx->arena, dv_on_value *, n->n_inputs + 1);
    int axis, count = 0;
    DV_TRY(dv_on_need(cx, n, n->n_inputs > 1 ? n->n_inputs : 1));
    dv_on_value *out = dv_on_out(cx, n, 0);
    if (!parts || !out)
        return DV_E_NOMEM;
    for (int i = 0; i < n->n_inputs; i++) {
        dv_on_value *v = dv_on_in(cx, n, i);
        if (dv_on_count(v) || (i == n->n_inputs - 1 && !count))
            parts[count++] = v;
    }
    DV_TRY(
        dv_on_norm_axis(cx, dv_on_int(n, "axis", 1), parts[0]->n_dims, &axis));
    if (count == 1) {
        dv_on_same(out, parts[0]);
        return DV_OK;
    }
    return dv_on_join(cx, out, parts, count, axis);
}

// Defines made[i …] with these dims as x[i - at …] where that exists, else as
// `number`.
static dv_status bordered(dv_on *cx, dv_on_value *made, dv_on_value *x,
                          const int64_t *dims, const int64_t *at, double number)
{
    int axes[DV_MAX_DIMS], used[DV_MAX_DIMS];
    dv_on_index index[DV_MAX_DIMS];
    dv_on_loop l;
    dv_on_loop_begin(&l, cx);
    for (int d = 0; d < x->n_dims; d++) {
        axes[d] = dv_on_axis_add(&l, dims[d]);
        used[d] = dims[d] == x->dims[d] ? axes[d] : -1;
    }
    DV_TRY(dv_on_use(&l, x, used));
    dv_on_start(&l);
    for (int d = 0; d < x->n_dims; d++) {
        index[d] = dv_on_along(axes[d]);
        index[d].add = -at[d];
    }
    dv_term t = dv_on_read_else(&l, x, index, dv_on_num(cx, x->dtype, number));
    return dv_on_define(&l, made, x->dtype, x->is_bool, x->n_dims, axes, t);
}

dv_status dv_on_pad_with(dv_on *cx, dv_on_value *out, dv_on_value *x,
                         const int64_t *before, const int64_t *after,
                         double number)
{
    int64_t dims[DV_MAX_DIMS], begin[DV_MAX_DIMS], step[DV_MAX_DIMS],
        keep[DV_MAX_DIMS], at[DV_MAX_DIMS];
    int pads = 0;
    // Negative pads crop, which is a slice before the padding.
    for (int d = 0; d < x->n_dims; d++) {
        begin[d] = before[d] < 0 ? -before[d] : 0;
        at[d] = before[d] > 0 ? before[d] : 0;
        keep[d] = x->dims[d] - begin[d] - (after[d] < 0 ? -after[d] : 0);
        dims[d] = x->dims[d] + before[d] + after[d];
        step[d] = 1;
        pads |= before[d] > 0 || after[d] > 0;
        if (dims[d] < 1 || keep[d] < 1)
            return dv_on_refuse(cx, "dim %d has no elements left", d);
    }
    dv_on_value *cut = dv_on_temp(cx, out->name);
    dv_on_value *made = dv_on_temp(cx, out->name);
    if (!cut || !made)
        return DV_E_NOMEM;
    DV_TRY(dv_on_slice(cx, cut, x, begin, step, keep));
    if (!pads) {
        dv_on_same(out, cut);
        return DV_OK;
    }
    for (int d = 0; d < x->n_dims; d++)
        if (dims[d] != keep[d] && !dv_on_is_plain(cut, d))
            DV_TRY(dv_on_copy(cx, cut, 0));
    DV_TRY(bordered(cx, made, cut, dims, at, number));
    dv_on_same(out, made);
    return DV_OK;
}

// Returns the position in the input, of this size, of element i of a padded
// dim; i is negative in the pad before it.
static int64_t source_of(const char *mode, int64_t i, int64_t size)
{
    if (!strcmp(mode, "edge"))
        return i < 0 ? 0 : i >= size ? size - 1 : i;
    if (!strcmp(mode, "wrap"))
        return (i % size + size) % size;
    if (size == 1)
        return 0;
    int64_t period = 2 * (size - 1), r = (i % period + period) % period;
    return r < size ? r : period - r;
}

// Pads one dim by concatenating slices of x: runs of positions that advance by
// 1 or -1, or a single position.
static dv_status pad_dim(dv_on *cx, dv_on_value *out, dv_on_value *x, int d,
                         int64_t before, int64_t after, const char *mode)
{
    int64_t begin[DV_MAX_DIMS] = {0}, step[DV_MAX_DIMS], dims[DV_MAX_DIMS];
    int64_t size = x->dims[d], i = -before, end = size + after;
    dv_on_value *parts[64];
    int n = 0;
    for (int k = 0; k < x->n_dims; k++)
        step[k] = 1, dims[k] = x->dims[k];
    while (i < end && n < 64) {
        int64_t from = source_of(mode, i, size), len = 1;
        int64_t by = i + 1 < end ? source_of(mode, i + 1, size) - from : 1;
        if (by < -1 || by > 1 || by == 0)
            by = 1, len = 1;
        else
            while (i + len < end &&
                   source_of(mode, i + len, size) == from + len * by)
                len++;
        parts[n] = dv_on_temp(cx, out->name);
        if (!parts[n])
            return DV_E_NOMEM;
        begin[d] = from;
        step[d] = by;
        dims[d] = len;
        DV_TRY(dv_on_slice(cx, parts[n++], x, begin, step, dims));
        i += len;
    }
    if (i < end)
        return dv_on_refuse(cx,
                            "mode %s with this many elements is not "
                            "supported",
                            mode);
    return dv_on_join(cx, out, parts, n, d);
}

static dv_status get_pads(dv_on *cx, const dv_onnx_node *n, int n_dims,
                          int64_t *before, int64_t *after)
{
    const int64_t *pads, *axes = NULL;
    int count, n_axes = n_dims, axis;
    dv_on_value *v = dv_on_in(cx, n, 1), *list = dv_on_in(cx, n, 3);
    if (v)
        DV_TRY(dv_on_get_ints(cx, v, "pads", &pads, &count));
    else if (!(pads = dv_on_ints(n, "pads", &count)))
        pads = dv_on_ints(n, "paddings", &count);
    if (list)
        DV_TRY(dv_on_get_ints(cx, list, "axes", &axes, &n_axes));
    if (!pads || count != 2 * n_axes)
        return dv_on_refuse(cx, "pads has %d %s for %d dim%s", count,
                            DV_PLURAL(count, "entry", "entries"), n_axes,
                            DV_PLURAL(n_axes, "", "s"));
    for (int d = 0; d < n_dims; d++)
        before[d] = after[d] = 0;
    for (int i = 0; i < n_axes; i++) {
        DV_TRY(dv_on_norm_axis(cx, axes ? axes[i] : i, n_dims, &axis));
        if (pads[i] > INT32_MAX || pads[i] < INT32_MIN ||
            pads[i + n_axes] > INT32_MAX || pads[i + n_axes] < INT32_MIN)
            return dv_on_refuse(cx, "pads are too large");
        before[axis] = pads[i];
        after[axis] = pads[i + n_axes];
    }
    return DV_OK;
}

dv_status dv_on_pad(dv_on *cx, const dv_onnx_node *n)
{
    int64_t before[DV_MAX_DIMS], after[DV_MAX_DIMS];
    const double *number;
    double value = dv_on_float(n, "value", 0);
    int count;
    DV_TRY(dv_on_need(cx, n, 1));
    dv_on_value *x = dv_on_in(cx, n, 0), *with = dv_on_in(cx, n, 2);
    dv_on_value *out = dv_on_out(cx, n, 0);
    const char *mode = dv_on_string(n, "mode", "constant");
    if (!out)
        return DV_E_NOMEM;
    DV_TRY(get_pads(cx, n, x->n_dims, before, after));
    if (with) {
        DV_TRY(dv_on_get_floats(cx, with, "constant_value", &number, &count));
        value = count ? number[0] : 0;
    }
    if (!strcmp(mode, "constant"))
        return dv_on_pad_with(cx, out, x, before, after, value);
    if (strcmp(mode, "edge") && strcmp(mode, "reflect") && strcmp(mode, "wrap"))
        return dv_on_refuse(cx, "attribute mode '%s' is not supported", mode);
    for (int d = 0; d < x->n_dims; d++) {
        if (!before[d] && !after[d])
            continue;
        if (!x->dims[d])
            return dv_on_refuse(cx, "mode %s: dim %d is empty", mode, d);
        dv_on_value *made = dv_on_temp(cx, out->name);
        if (!made)
            return DV_E_NOMEM;
        DV_TRY(pad_dim(cx, made, x, d, before[d], after[d], mode));
        x = made;
    }
    dv_on_same(out, x);
    return DV_OK;
}

dv_status dv_on_shape(dv_on *cx, const dv_onnx_node *n)
{
    DV_TRY(dv_on_need(cx, n, 1));
    dv_on_value *x = dv_on_in(cx, n, 0), *out = dv_on_out(cx, n, 0);
    int64_t r = x->n_dims, start = dv_on_int(n, "start", 0),
            end = dv_on_int(n, "end", r), count = 1;
    if (!out)
        return DV_E_NOMEM;
    start = start < -r ? 0 : start < 0 ? start + r : start > r ? r : start;
    end = end < -r ? 0 : end < 0 ? end + r : end > r ? r : end;
    int64_t len = end > start ? end - start : 0;
    int is_size = !strcmp(n->type, "Size");
    if (is_size)
        count = dv_on_count(x);
    dv_on_value *made =
        dv_on_const_ints(cx, out->name, DV_I64, is_size ? 0 : 1, &len,
                         is_size ? &count : x->dims + start);
    if (!made)
        return DV_E_NOMEM;
    dv_on_same(out, made);
    return DV_OK;
}
