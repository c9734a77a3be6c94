// Attention in the domain com.microsoft, which exporters and optimisers write.
#include "base/plural.h"
#include "onnx/import.h"
#include <math.h>

// Replaces *v, of dims [batch, length, heads * size], by a view with dims
// [batch, heads, length, size].
static dv_status by_heads(dv_on *cx, dv_on_value **v, int64_t heads)
{
    static const int perm[] = {0, 2, 1, 3};
    dv_on_value *x = *v, *split = dv_on_temp(cx, x->name);
    int64_t dims[] = {x->dims[0], x->dims[1], heads, x->dims[2] / heads};
    *v = dv_on_temp(cx, x->name);
    if (!split || !*v)
        return DV_E_NOMEM;
    DV_TRY(dv_on_reshape(cx, split, x, 4, dims));
    return dv_on_transpose(cx, *v, split, perm);
}

// Scales the products of queries and keys and adds a bias, which may be NULL.
// If causal, masks keys that come after the query.
static dv_status mask_scores(dv_on *cx, dv_on_value *out, dv_on_value *scores,
                             dv_on_value *bias, double scale, int causal)
{
    dv_on_loop l;
    dv_term t[2];
    dv_on_value *v[] = {scores, bias};
    dv_on_loop_begin(&l, cx);
    l.inlines = 1;
    DV_TRY(dv_on_broadcast(&l, v, bias ? 2 : 1, t));
    dv_term y = dv_on_2(cx, "*", t[0], dv_on_f(cx, scale));
    if (bias)
        y = dv_on_2(cx, "+", y, t[1]);
    if (causal) {
        dv_term i = dv_on_position(&l, l.out[2]);
        dv_term j = dv_on_position(&l, l.out[3]);
        y = dv_on_3(cx, "select", dv_on_2(cx, "<=", j, i), y,
                    dv_on_f(cx, -INFINITY));
    }
    return dv_on_define(&l, out, scores->dtype, 0, l.n_out, l.out, y);
}

// Defines output 0: softmax(scale q k^T + bias) v, of dims [batch, length,
// heads * size]; q, k and v have such dims, too.
static dv_status attend(dv_on *cx, const dv_onnx_node *n, dv_on_value *q,
                        dv_on_value *k, dv_on_value *v, dv_on_value *bias)
{
    static const int perm[] = {0, 2, 1, 3};
    int64_t heads = dv_on_int(n, "num_heads", 0), length = q->dims[1];
    if (heads < 1 || q->dims[2] % heads || k->dims[2] != q->dims[2] ||
        v->dims[2] % heads || k->dims[1] != v->dims[1])
        return dv_on_refuse(cx,
                            "attribute num_heads, %lld, does not fit its "
                            "inputs",
                            (long long)heads);
    double scale = dv_on_float(n, "scale", 0);
    int causal = dv_on_int(n, "unidirectional", 0) != 0;
    scale = scale != 0 ? scale : 1 / sqrt((double)(q->dims[2] / heads));
    if (causal && k->dims[1] != length)
        return dv_on_refuse(cx,
                            "attribute unidirectional with %lld queries "
                            "and %lld key%s is not supported",
                            (long long)length, (long long)k->dims[1],
                            DV_PLURAL(k->dims[1], "", "s"));
    int64_t dims[] = {q->dims[0], length, v->dims[2]};
    dv_on_value *scores = dv_on_temp(cx, "scores"),
                *masked = dv_on_temp(cx, "masked"),
                *share = dv_on_temp(cx, "share"), *sum = dv_on_temp(cx, "sum"),
                *attended = dv_on_temp(cx, "attended"),
                *out = dv_on_out(cx, n, 0);
    if (!scores || !masked || !share || !sum || !attended || !out)
        return DV_E_NOMEM;
    DV_TRY(by_heads(cx, &q, heads));
    DV_TRY(by_heads(cx, &k, heads));
    DV_TRY(by_heads(cx, &v, heads));
    DV_TRY(dv_on_exchange(cx, &k));
    DV_TRY(dv_on_product(cx, scores, q, k, q->dtype, NULL, NULL));
    DV_TRY(mask_scores(cx, masked, scores, bias, scale, causal));
    DV_TRY(dv_on_softmax_of(cx, share, masked, 1u << 3, 0));
    DV_TRY(dv_on_product(cx, sum, share, v, v->dtype, NULL, NULL));
    DV_TRY(dv_on_transpose(cx, attended, sum, perm));
    return dv_on_reshape(cx, out, attended, 3, dims);
}

// Fails if the node has inputs or outputs from number `first` on; the one with
// number `except` is allowed.
static dv_status only(dv_on *cx, const dv_onnx_node *n, int first, int except)
{
    for (int i = first; i < n->n_inputs; i++)
        if (i != except && dv_on_in(cx, n, i))
            return dv_on_refuse(cx,
                                "input %d (a mask, or past keys and "
                                "values) is not supported",
                                i);
    for (int i = 1; i < 3; i++)
        if (dv_on_has_out(n, i))
            return dv_on_refuse(cx, "output %d is not supported", i);
    return DV_OK;
}

// Makes *out a view of `size` elements of x's last dim, from `first` on.
static dv_status part_of(dv_on *cx, dv_on_value **out, dv_on_value *x,
                         int64_t first, int64_t size)
{
    int64_t begin[DV_MAX_DIMS] = {0}, step[DV_MAX_DIMS], dims[DV_MAX_DIMS];
    for (int d = 0; d < x->n_dims; d++) {
        step[d] = 1;
        dims[d] = x->dims[d];
    }
    begin[x->n_dims - 1] = first;
    dims[x->n_dims - 1] = size;
    *out = dv_on_temp(cx, x->name);
    return *out ? dv_on_slice(cx, *out, x, begin, step, dims) : DV_E_NOMEM;
}

// Makes *v the sum of x and a bias, or x itself if the bias is NULL.
static dv_status with_bias(dv_on *cx, dv_on_value **v, dv_on_value *bias)
{
    dv_on_loop l;
    dv_term t[2];
    dv_on_value *of[] = {*v, bias};
    if (!bias)
        return DV_OK;
    *v = dv_on_temp(cx, of[0]->name);
    if (!*v)
        return DV_E_NOMEM;
    dv_on_loop_begin(&l, cx);
    l.inlines = 1;
    DV_TRY(dv_on_broadcast(&l, of, 2, t));
    return dv_on_define(&l, *v, of[0]->dtype, 0, l.n_out, l.out,
                        dv_on_2(cx, "+", t[0], t[1]));
}

// Imports com.microsoft's Attention: one matrix has the weights of queries,
// keys and values, in consecutive columns.
dv_status dv_on_attention(dv_on *cx, const dv_onnx_node *n)
{
    enum { BIAS = 5, N_PARTS = 3 };
    dv_on_value *part[N_PARTS], *all = dv_on_temp(cx, "qkv");
    int64_t first = 0, third;
    int n_sizes;
    DV_TRY(dv_on_need(cx, n, 2));
    DV_TRY(only(cx, n, 3, BIAS));
    const int64_t *sizes = dv_on_ints(n, "qkv_hidden_sizes", &n_sizes);
    dv_on_value *x = dv_on_in(cx, n, 0), *w = dv_on_in(cx, n, 1);
    if (!all)
        return DV_E_NOMEM;
    if (dv_on_int(n, "do_rotary", 0))
        return dv_on_refuse(cx, "attribute do_rotary is not supported");
    if (x->n_dims != 3 || w->n_dims != 2 || (sizes && n_sizes != N_PARTS) ||
        (!sizes && w->dims[1] % N_PARTS))
        return dv_on_refuse(cx, "the shapes of its inputs do not fit");
    third = w->dims[1] / N_PARTS;
    DV_TRY(dv_on_product(cx, all, x, w, x->dtype, NULL, NULL));
    DV_TRY(with_bias(cx, &all, dv_on_in(cx, n, 2)));
    for (int i = 0; i < N_PARTS; i++) {
        int64_t size = sizes ? sizes[i] : third;
        if (size < 1 || size > w->dims[1] - first)
            return dv_on_refuse(cx, "attribute qkv_hidden_sizes does not fit "
                                    "the weights");
        DV_TRY(part_of(cx, &part[i], all, first, size));
        first += size;
    }
    return attend(cx, n, part[0], part[1], part[2], dv_on_in(cx, n, BIAS));
}

dv_status dv_on_multi_head_attention(dv_on *cx, const dv_onnx_node *n)
{
    enum { OF_ALL = 3, BIAS = 5, N_PARTS = 3 };
    dv_on_value *v[N_PARTS], *of_all, *bias;
    int64_t first = 0;
    DV_TRY(dv_on_need(cx, n, 1));
    DV_TRY(only(cx, n, 4, BIAS));
    of_all = dv_on_in(cx, n, OF_ALL);
    for (int i = 0; i < N_PARTS; i++) {
        v[i] = dv_on_in(cx, n, i);
        if (!v[i] || v[i]->n_dims != 3)
            return dv_on_refuse(cx, "query, key and value of other than 3 dims "
                                    "each are not supported");
    }
    for (int i = 0; i < N_PARTS; i++) {
        int64_t size = v[i]->dims[2];
        if (of_all && (of_all->n_dims != 1 || size > of_all->dims[0] - first))
            return dv_on_refuse(cx, "the bias does not fit");
        if (of_all) {
            DV_TRY(part_of(cx, &bias, of_all, first, size));
            DV_TRY(with_bias(cx, &v[i], bias));
        }
        first += size;
    }
    return attend(cx, n, v[0], v[1], v[2], dv_on_in(cx, n, BIAS));
}
