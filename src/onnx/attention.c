// Attention in the domain com.microsoft, which exporters and optimisers write:
// Attention, QAttention, MultiHeadAttention and GroupQueryAttention, and the
// rotary positions of RotaryEmbedding.
//
//   softmax(scale * q k^T + bias, where no mask hides the key) v
//
// q, k and v are views with dims [batch, heads, length, size]; k and v begin
// with the past keys and values, if there are any.
#include "base/dtype.h"
#include "base/plural.h"
#include "onnx/import.h"
#include <math.h>
#include <string.h>

typedef struct attention {
    dv_on_value *q, *k, *v;
    dv_on_value *bias;        // of the scores; NULL: none
    dv_on_value *keep;        // keys where it is not positive are hidden
    dv_on_value *end, *start; // keys from `end` on, and before `start`
    dv_on_value *past;        // number of past keys, [batch, 1, 1, 1]
    int64_t n_past;           // the same, if `past` is NULL
    int64_t heads, kv_heads;
    double scale, hidden; // what is added to the scores of hidden keys
    double cap;           // limit of the scores; 0: none
    int causal;           // hides keys that come after the query
    int64_t window;       // number of last keys that a query sees; -1: all
} attention;

static dv_status reshaped(dv_on *cx, dv_on_value **v, int n_dims,
                          const int64_t *dims)
{
    dv_on_value *x = *v;
    *v = dv_on_temp(cx, x->name);
    return *v ? dv_on_reshape(cx, *v, x, n_dims, dims) : DV_E_NOMEM;
}

static dv_status transposed(dv_on *cx, dv_on_value **v, const int *perm)
{
    dv_on_value *x = *v;
    *v = dv_on_temp(cx, x->name);
    return *v ? dv_on_transpose(cx, *v, x, perm) : DV_E_NOMEM;
}

// Replaces *v, of dims [batch, length, heads * size], by a view with dims
// [batch, heads, length, size].
static dv_status by_heads(dv_on *cx, dv_on_value **v, int64_t heads)
{
    const dv_on_value *x = *v;
    if (heads < 1 || x->n_dims != 3 || x->dims[2] % heads || !dv_on_count(x))
        return dv_on_refuse(cx,
                            "the number of heads, %lld, does not fit its "
                            "inputs",
                            (long long)heads);
    int64_t dims[] = {x->dims[0], x->dims[1], heads, x->dims[2] / heads};
    DV_TRY(reshaped(cx, v, 4, dims));
    return transposed(cx, v, (int[]){0, 2, 1, 3});
}

// Makes *out a view of `size` positions along dim d of x, from `first` on.
static dv_status part_of(dv_on *cx, dv_on_value **out, dv_on_value *x, int d,
                         int64_t first, int64_t size)
{
    int64_t begin[DV_MAX_DIMS] = {0}, step[DV_MAX_DIMS], dims[DV_MAX_DIMS];
    for (int i = 0; i < x->n_dims; i++) {
        step[i] = 1;
        dims[i] = x->dims[i];
    }
    if (size < 1 || first < 0 || first > x->dims[d] - size)
        return dv_on_refuse(cx, "the shapes of its inputs do not fit");
    begin[d] = first;
    dims[d] = size;
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

// Reads the attributes that the operators have in common.
static void get_attributes(const dv_onnx_node *n, attention *a)
{
    *a = (attention){.heads = dv_on_int(n, "num_heads", 0), .window = -1};
    a->kv_heads = a->heads;
    a->scale = dv_on_float(n, "scale", 0);
    a->hidden = dv_on_float(n, "mask_filter_value", -10000);
    a->causal = dv_on_int(n, "unidirectional", 0) != 0;
}

// Fails if the node has one of the inputs from number `first` on.
static dv_status none_from(dv_on *cx, const dv_onnx_node *n, int first)
{
    for (int i = first; i < n->n_inputs; i++)
        if (dv_on_in(cx, n, i))
            return dv_on_refuse(cx, "input %d is not supported", i);
    return DV_OK;
}

// Fails if the node has an attribute of this name that is neither 0 nor -1.
static dv_status without(dv_on *cx, const dv_onnx_node *n, const char *name)
{
    int64_t value = dv_on_int(n, name, 0);
    return value == 0 || value == -1
               ? DV_OK
               : dv_on_refuse(cx, "attribute %s is not supported", name);
}

// -- Scores ------------------------------------------------------------------

// Sets the views by which a mask hides keys. It has one or two numbers per
// batch, the end and the start of its keys; or one number per key, or per query
// and key, which is positive for keys that are seen.
static dv_status set_mask(dv_on *cx, attention *a, dv_on_value *mask)
{
    int64_t batch = a->q->dims[0], length = a->q->dims[2], keys = a->k->dims[2];
    if (!mask)
        return DV_OK;
    int ends = mask->n_dims == 1 && mask->dims[0] % batch == 0;
    if (ends && mask->dims[0] / batch <= 2) {
        if (mask->dims[0] > batch) {
            DV_TRY(part_of(cx, &a->start, mask, 0, batch, batch));
            DV_TRY(reshaped(cx, &a->start, 4, (int64_t[]){batch, 1, 1, 1}));
        }
        DV_TRY(part_of(cx, &a->end, mask, 0, 0, batch));
        return reshaped(cx, &a->end, 4, (int64_t[]){batch, 1, 1, 1});
    }
    int64_t queries = mask->n_dims == 3 ? length : 1;
    a->keep = mask;
    if ((mask->n_dims != 2 && mask->n_dims != 3) || mask->dims[0] != batch ||
        mask->dims[mask->n_dims - 1] != keys || mask->dims[1] % queries ||
        dv_on_count(mask) != batch * queries * keys)
        return dv_on_refuse(cx,
                            "a mask of %d dim%s that do not fit %lld queries "
                            "and %lld keys is not supported",
                            mask->n_dims, DV_PLURAL(mask->n_dims, "", "s"),
                            (long long)length, (long long)keys);
    return reshaped(cx, &a->keep, 4, (int64_t[]){batch, 1, queries, keys});
}

// The operands of the scores, at the same place in the lists of values and
// reads. Those that are NULL are left out of the loop.
enum { SCORES, BIAS, KEEP, END, START, PAST, N_OPERANDS };

static dv_status read_operands(dv_on_loop *l, dv_on_value *const *v, dv_term *t)
{
    dv_on_value *given[N_OPERANDS];
    dv_term reads[N_OPERANDS];
    int n = 0;
    for (int i = 0; i < N_OPERANDS; i++)
        if (v[i])
            given[n++] = v[i];
    DV_TRY(dv_on_broadcast(l, given, n, reads));
    n = 0;
    for (int i = 0; i < N_OPERANDS; i++)
        t[i] = v[i] ? reads[n++] : NULL;
    return l->status;
}

// Hides keys from the score y: those that are masked, and those that lie after
// the query or before the window.
static dv_term hide(dv_on_loop *l, const attention *a, dv_term y,
                    const dv_term *t)
{
    dv_on *cx = l->cx;
    dv_term key = dv_on_position(l, l->out[3]), zero = dv_on_f(cx, 0);
    dv_term hidden = dv_on_num(cx, DV_F32, a->hidden), add = zero;
    if (t[KEEP])
        add = dv_on_3(cx, "select", dv_on_2(cx, ">", t[KEEP], dv_on_i(cx, 0)),
                      add, hidden);
    if (t[END])
        add = dv_on_3(cx, "select", dv_on_2(cx, "<", key, t[END]), add, hidden);
    if (t[START])
        add = dv_on_3(cx, "select", dv_on_2(cx, ">=", key, t[START]), add,
                      hidden);
    if (add != zero)
        y = dv_on_2(cx, "+", y, add);
    if (!a->causal)
        return y;
    dv_term query = dv_on_position(l, l->out[2]);
    if (a->past || a->n_past)
        query =
            dv_on_2(cx, "+", query, a->past ? t[PAST] : dv_on_i(cx, a->n_past));
    dv_term none = dv_on_num(cx, DV_F32, -INFINITY);
    y = dv_on_3(cx, "select", dv_on_2(cx, "<=", key, query), y, none);
    if (a->window < 0)
        return y;
    dv_term last = dv_on_2(cx, "+", key, dv_on_i(cx, a->window));
    return dv_on_3(cx, "select", dv_on_2(cx, ">", last, query), y, none);
}

// Defines `out` as the products of queries and keys, scaled and masked.
static dv_status mask_scores(dv_on *cx, const attention *a, dv_on_value *out,
                             dv_on_value *scores)
{
    dv_on_loop l;
    dv_term t[N_OPERANDS];
    dv_on_value *const v[N_OPERANDS] = {scores, a->bias,  a->keep,
                                        a->end, a->start, a->past};
    dv_on_loop_begin(&l, cx);
    l.inlines = 1;
    DV_TRY(read_operands(&l, v, t));
    dv_term y = dv_on_2(cx, "*", t[SCORES], dv_on_f(cx, a->scale));
    if (a->cap > 0) {
        y = dv_on_2(cx, "/", y, dv_on_f(cx, a->cap));
        y = dv_on_2(cx, "*", dv_on_1(cx, "tanh", y), dv_on_f(cx, a->cap));
    }
    if (a->bias)
        y = dv_on_2(cx, "+", y, t[BIAS]);
    return dv_on_define(&l, out, scores->dtype, 0, l.n_out, l.out,
                        hide(&l, a, y, t));
}

// Replaces *v, of dims [batch, kv_heads, length, size], by a view in which
// every head is repeated for all heads of the queries that share it.
static dv_status repeat_heads(dv_on *cx, const attention *a, dv_on_value **v)
{
    int64_t each = a->heads / a->kv_heads, *d = (*v)->dims;
    int64_t dims[] = {d[0], d[1], 1, d[2], d[3]};
    if (each == 1)
        return DV_OK;
    DV_TRY(reshaped(cx, v, 5, dims));
    dv_on_value *wide = dv_on_temp(cx, (*v)->name);
    dims[2] = each;
    if (!wide)
        return DV_E_NOMEM;
    DV_TRY(dv_on_expand(cx, wide, *v, 5, dims));
    *v = wide;
    return reshaped(cx, v, 4, (int64_t[]){dims[0], a->heads, dims[3], dims[4]});
}

// Defines output 0, of dims [batch, length, heads * size].
static dv_status attend(dv_on *cx, const dv_onnx_node *n, attention *a)
{
    dv_on_value *scores = dv_on_temp(cx, "scores"),
                *masked = dv_on_temp(cx, "masked"),
                *share = dv_on_temp(cx, "share"), *sum = dv_on_temp(cx, "sum"),
                *out = dv_on_out(cx, n, 0);
    if (!scores || !masked || !share || !sum || !out)
        return DV_E_NOMEM;
    if (dv_on_has_out(n, 3))
        return dv_on_refuse(cx, "output 3 is not supported");
    DV_TRY(repeat_heads(cx, a, &a->k));
    DV_TRY(repeat_heads(cx, a, &a->v));
    const int64_t *q = a->q->dims, *k = a->k->dims, *v = a->v->dims;
    if (q[0] != k[0] || k[0] != v[0] || k[1] != a->heads || v[1] != a->heads ||
        q[1] != a->heads || q[3] != k[3] || k[2] != v[2])
        return dv_on_refuse(cx, "the shapes of its inputs do not fit");
    int64_t dims[] = {q[0], q[2], a->heads * v[3]};
    a->scale = a->scale != 0 ? a->scale : 1 / sqrt((double)q[3]);
    DV_TRY(dv_on_exchange(cx, &a->k));
    DV_TRY(dv_on_product(cx, scores, a->q, a->k, a->q->dtype, NULL, NULL));
    DV_TRY(mask_scores(cx, a, masked, scores));
    DV_TRY(dv_on_softmax_of(cx, share, masked, 1u << 3, 0));
    DV_TRY(dv_on_product(cx, sum, share, a->v, a->v->dtype, NULL, NULL));
    DV_TRY(transposed(cx, &sum, (int[]){0, 2, 1, 3}));
    return dv_on_reshape(cx, out, sum, 3, dims);
}

// Puts `past` before *v along the dim of positions.
static dv_status after_past(dv_on *cx, dv_on_value **v, dv_on_value *past)
{
    dv_on_value *parts[] = {past, *v};
    if (!past || dv_on_count(past) == 0)
        return DV_OK;
    if (past->n_dims != 4)
        return dv_on_refuse(cx, "past keys or values have %d dim%s, not 4",
                            past->n_dims, DV_PLURAL(past->n_dims, "", "s"));
    *v = dv_on_temp(cx, past->name);
    return *v ? dv_on_join(cx, *v, parts, 2, 2) : DV_E_NOMEM;
}

// Defines output number i, if the node has it, as x.
static dv_status give(dv_on *cx, const dv_onnx_node *n, int i,
                      const dv_on_value *x)
{
    if (!dv_on_has_out(n, i))
        return DV_OK;
    dv_on_value *out = dv_on_out(cx, n, i);
    if (!out)
        return DV_E_NOMEM;
    dv_on_same(out, x);
    return DV_OK;
}

// -- Attention and QAttention ------------------------------------------------

// Splits `all`, the queries, keys and values in consecutive columns.
static dv_status split_columns(dv_on *cx, const dv_onnx_node *n, attention *a,
                               dv_on_value *all)
{
    enum { N_PARTS = 3 };
    dv_on_value **part[] = {&a->q, &a->k, &a->v};
    int64_t first = 0;
    int n_sizes;
    const int64_t *sizes = dv_on_ints(n, "qkv_hidden_sizes", &n_sizes);
    if (all->n_dims != 3 || (sizes && n_sizes != N_PARTS) ||
        (!sizes && all->dims[2] % N_PARTS))
        return dv_on_refuse(cx, "the shapes of its inputs do not fit");
    for (int i = 0; i < N_PARTS; i++) {
        int64_t size = sizes ? sizes[i] : all->dims[2] / N_PARTS;
        DV_TRY(part_of(cx, part[i], all, 2, first, size));
        DV_TRY(by_heads(cx, part[i], a->heads));
        first += size;
    }
    return DV_OK;
}

// Continues Attention from `all`, its queries, keys and values. `past` has the
// past keys, then the past values, along its first dim; output 1 is like it.
static dv_status attend_all(dv_on *cx, const dv_onnx_node *n, attention *a,
                            dv_on_value *all, dv_on_value *mask,
                            dv_on_value *past)
{
    dv_on_value **part[] = {&a->k, &a->v}, *both[2];
    DV_TRY(without(cx, n, "do_rotary"));
    DV_TRY(without(cx, n, "past_present_share_buffer"));
    DV_TRY(split_columns(cx, n, a, all));
    if (past && past->n_dims != 5)
        return dv_on_refuse(cx, "past keys and values have %d dim%s, not 5",
                            past->n_dims, DV_PLURAL(past->n_dims, "", "s"));
    for (int i = 0; i < 2; i++) {
        if (past) {
            dv_on_value *old;
            DV_TRY(part_of(cx, &old, past, 0, i, 1));
            DV_TRY(reshaped(cx, &old, 4, past->dims + 1));
            DV_TRY(after_past(cx, part[i], old));
            a->n_past = past->dims[3];
        }
        both[i] = *part[i];
        const int64_t *d = both[i]->dims;
        DV_TRY(
            reshaped(cx, &both[i], 5, (int64_t[]){1, d[0], d[1], d[2], d[3]}));
    }
    if (dv_on_has_out(n, 1)) {
        dv_on_value *present = dv_on_out(cx, n, 1);
        DV_TRY(present ? dv_on_join(cx, present, both, 2, 0) : DV_E_NOMEM);
    }
    DV_TRY(set_mask(cx, a, mask));
    return attend(cx, n, a);
}

// Imports com.microsoft's Attention: one matrix has the weights of queries,
// keys and values, in consecutive columns.
dv_status dv_on_attention(dv_on *cx, const dv_onnx_node *n)
{
    attention a;
    dv_on_value *all = dv_on_temp(cx, "qkv");
    DV_TRY(dv_on_need(cx, n, 2));
    DV_TRY(none_from(cx, n, 6));
    get_attributes(n, &a);
    dv_on_value *x = dv_on_in(cx, n, 0), *w = dv_on_in(cx, n, 1);
    if (!all)
        return DV_E_NOMEM;
    DV_TRY(dv_on_product(cx, all, x, w, x->dtype, NULL, NULL));
    DV_TRY(with_bias(cx, &all, dv_on_in(cx, n, 2)));
    a.bias = dv_on_in(cx, n, 5);
    return attend_all(cx, n, &a, all, dv_on_in(cx, n, 3), dv_on_in(cx, n, 4));
}

// Imports Attention whose input and weights are quantised.
dv_status dv_on_qattention(dv_on *cx, const dv_onnx_node *n)
{
    attention a;
    dv_on_value *v[9], *all = dv_on_temp(cx, "qkv"),
                       *sum = dv_on_temp(cx, "sum");
    DV_TRY(dv_on_need(cx, n, 5));
    for (int i = 0; i < 9; i++)
        v[i] = dv_on_in(cx, n, i);
    get_attributes(n, &a);
    if (!all || !sum)
        return DV_E_NOMEM;
    DV_TRY(dv_on_product(cx, sum, v[0], v[1], DV_I32, v[6], v[7]));
    DV_TRY(dv_on_rescale(cx, all, sum, v[3], v[4], v[2]));
    return attend_all(cx, n, &a, all, v[5], v[8]);
}

// -- MultiHeadAttention ------------------------------------------------------

// Splits a packed operand of dims [batch, length, heads, n, size] into n
// operands.
static dv_status unpack(dv_on *cx, dv_on_value *x, int n, dv_on_value **out)
{
    if (x->n_dims != 5 || x->dims[3] != n)
        return dv_on_refuse(cx, "a packed input has the shape [batch, length, "
                                "heads, number, size]");
    for (int i = 0; i < n; i++) {
        DV_TRY(part_of(cx, &out[i], x, 3, i, 1));
        DV_TRY(reshaped(
            cx, &out[i], 3,
            (int64_t[]){x->dims[0], x->dims[1], x->dims[2] * x->dims[4]}));
    }
    return DV_OK;
}

// Sets queries, keys and values from the first three inputs, of which keys and
// values may be packed, or all; adds their biases and splits them by heads.
static dv_status get_operands(dv_on *cx, const dv_onnx_node *n, attention *a)
{
    dv_on_value *v[3], *of_all = dv_on_in(cx, n, 3), *bias;
    int64_t first = 0;
    for (int i = 0; i < 3; i++)
        v[i] = dv_on_in(cx, n, i);
    if (!v[1])
        DV_TRY(unpack(cx, v[0], 3, v));
    else if (!v[2])
        DV_TRY(unpack(cx, v[1], 2, v + 1));
    for (int i = 0; i < 3; i++) {
        // Keys and values of 4 dims are by heads already.
        if (i > 0 && v[i]->n_dims == 4)
            continue;
        int64_t size = v[i]->n_dims == 3 ? v[i]->dims[2] : 0;
        if (of_all && of_all->n_dims == 1 && size) {
            DV_TRY(part_of(cx, &bias, of_all, 0, first, size));
            DV_TRY(with_bias(cx, &v[i], bias));
        }
        first += size;
        DV_TRY(by_heads(cx, &v[i], a->heads));
    }
    a->q = v[0];
    a->k = v[1];
    a->v = v[2];
    return DV_OK;
}

dv_status dv_on_multi_head_attention(dv_on *cx, const dv_onnx_node *n)
{
    attention a;
    DV_TRY(dv_on_need(cx, n, 1));
    DV_TRY(none_from(cx, n, 8));
    get_attributes(n, &a);
    DV_TRY(get_operands(cx, n, &a));
    dv_on_value *past_k = dv_on_in(cx, n, 6), *past_v = dv_on_in(cx, n, 7);
    if (!past_k != !past_v)
        return dv_on_refuse(cx, "past keys are given without past values, or "
                                "past values without keys");
    DV_TRY(after_past(cx, &a.k, past_k));
    DV_TRY(after_past(cx, &a.v, past_v));
    a.n_past = past_k && dv_on_count(past_k) ? past_k->dims[2] : 0;
    a.bias = dv_on_in(cx, n, 5);
    DV_TRY(set_mask(cx, &a, dv_on_in(cx, n, 4)));
    DV_TRY(give(cx, n, 1, a.k));
    DV_TRY(give(cx, n, 2, a.v));
    return attend(cx, n, &a);
}

// -- Rotary positions --------------------------------------------------------

// Cosines and sines of the angles by which pairs of elements are rotated.
typedef struct rotary {
    dv_on_value *cos, *sin; // [positions, pairs]
    dv_on_value *at;        // position of each query, [1 or batch, length]
    int interleaved;        // pairs are neighbours, not halves of the row
} rotary;

// Sets *table to the rows of a table of angles, of dims [1 or batch, 1, length,
// 1, pairs].
static dv_status angles_of(dv_on *cx, const rotary *r, dv_on_value **table)
{
    dv_on_value *rows = dv_on_temp(cx, "angles");
    if (!rows)
        return DV_E_NOMEM;
    if ((*table)->n_dims != 2)
        return dv_on_refuse(cx, "a table of angles has %d dim%s, not 2",
                            (*table)->n_dims,
                            DV_PLURAL((*table)->n_dims, "", "s"));
    DV_TRY(dv_on_gather_of(cx, rows, *table, r->at, 0));
    *table = rows;
    const int64_t *d = rows->dims;
    return reshaped(cx, table, 5, (int64_t[]){d[0], 1, d[1], 1, d[2]});
}

// Defines `out` as pairs along dim 3 of x, rotated: x cos - y sin, y cos + x
// sin.
static dv_status rotate_pairs(dv_on *cx, dv_on_value *out, dv_on_value *x,
                              rotary r)
{
    static const int64_t begin[] = {0, 0, 0, 1, 0}, step[] = {1, 1, 1, -1, 1},
                         two[] = {2, 1};
    dv_on_loop l;
    dv_term t[5];
    dv_on_value *other = dv_on_temp(cx, "other");
    dv_on_value *sign =
        dv_on_const_floats(cx, "sign", x->dtype, 2, two, (double[]){-1, 1});
    if (!other || !sign)
        return DV_E_NOMEM;
    DV_TRY(dv_on_slice(cx, other, x, begin, step, x->dims));
    DV_TRY(angles_of(cx, &r, &r.cos));
    DV_TRY(angles_of(cx, &r, &r.sin));
    dv_on_value *v[] = {x, r.cos, other, r.sin, sign};
    dv_on_loop_begin(&l, cx);
    DV_TRY(dv_on_broadcast(&l, v, 5, t));
    dv_term y = dv_on_2(cx, "*", t[4], dv_on_2(cx, "*", t[2], t[3]));
    int axes[DV_MAX_DIMS];
    memcpy(axes, l.out, sizeof axes);
    return dv_on_define(&l, out, x->dtype, 0, l.n_out, axes,
                        dv_on_2(cx, "+", dv_on_2(cx, "*", t[0], t[1]), y));
}

// Replaces *v, of dims [batch, heads, length, size], by itself with the first
// elements of each row rotated.
static dv_status rotate(dv_on *cx, dv_on_value **v, const rotary *r)
{
    static const int exchange[] = {0, 1, 2, 4, 3};
    dv_on_value *x, *made = dv_on_temp(cx, "rotated"), *parts[2];
    const int64_t *d = (*v)->dims, pairs = r->cos->dims[1];
    int64_t halves[] = {d[0], d[1], d[2], 2, pairs};
    if (!made)
        return DV_E_NOMEM;
    if (pairs < 1 || pairs > d[3] / 2 ||
        dv_on_count(r->cos) != dv_on_count(r->sin))
        return dv_on_refuse(cx, "the tables of angles do not fit rows of %lld",
                            (long long)d[3]);
    DV_TRY(part_of(cx, &x, *v, 3, 0, 2 * pairs));
    if (r->interleaved) {
        halves[3] = pairs;
        halves[4] = 2;
    }
    DV_TRY(reshaped(cx, &x, 5, halves));
    if (r->interleaved)
        DV_TRY(transposed(cx, &x, exchange));
    DV_TRY(rotate_pairs(cx, made, x, *r));
    if (r->interleaved)
        DV_TRY(transposed(cx, &made, exchange));
    DV_TRY(reshaped(cx, &made, 4, (int64_t[]){d[0], d[1], d[2], 2 * pairs}));
    parts[0] = made;
    if (2 * pairs < d[3]) {
        DV_TRY(part_of(cx, &parts[1], *v, 3, 2 * pairs, d[3] - 2 * pairs));
        made = dv_on_temp(cx, "rotated");
        DV_TRY(made ? dv_on_join(cx, made, parts, 2, 3) : DV_E_NOMEM);
    }
    *v = made;
    return DV_OK;
}

// Makes *at a table of dims [1 or batch, length]: the positions from first[b]
// on; `first` has one dim.
static dv_status count_from(dv_on *cx, dv_on_value **at, dv_on_value *first,
                            int64_t length)
{
    dv_on_loop l;
    *at = dv_on_temp(cx, "positions");
    if (!*at)
        return DV_E_NOMEM;
    dv_on_loop_begin(&l, cx);
    int axes[] = {dv_on_axis_add(&l, first->dims[0]),
                  dv_on_axis_add(&l, length)};
    DV_TRY(dv_on_use(&l, first, axes));
    dv_on_start(&l);
    dv_term t = dv_on_2(cx, "+", dv_on_read(&l, first, axes),
                        dv_on_position(&l, axes[1]));
    return dv_on_define(&l, *at, DV_I64, 0, 2, axes, t);
}

dv_status dv_on_rotary_embedding(dv_on *cx, const dv_onnx_node *n)
{
    DV_TRY(dv_on_need(cx, n, 4));
    DV_TRY(without(cx, n, "is_packed_batching"));
    dv_on_value *x = dv_on_in(cx, n, 0), *out = dv_on_out(cx, n, 0);
    rotary r = {dv_on_in(cx, n, 2), dv_on_in(cx, n, 3), dv_on_in(cx, n, 1),
                dv_on_int(n, "interleaved", 0) != 0};
    int flat = x->n_dims == 3;
    const int64_t *dims = x->dims;
    int64_t heads = dv_on_int(n, "num_heads", 0);
    if (!out)
        return DV_E_NOMEM;
    if ((!flat && x->n_dims != 4) || r.cos->n_dims != 2 || !r.cos->dims[1] ||
        r.at->n_dims < 1 || r.at->n_dims > 2 || dv_on_float(n, "scale", 1) != 1)
        return dv_on_refuse(cx, "the shapes of its inputs, or attribute scale, "
                                "are not supported");
    if (flat)
        DV_TRY(
            by_heads(cx, &x, heads ? heads : dims[2] / (2 * r.cos->dims[1])));
    if (r.at->n_dims == 1)
        DV_TRY(count_from(cx, &r.at, r.at, x->dims[2]));
    DV_TRY(rotate(cx, &x, &r));
    if (!flat) {
        dv_on_same(out, x);
        return DV_OK;
    }
    DV_TRY(transposed(cx, &x, (int[]){0, 2, 1, 3}));
    return dv_on_reshape(cx, out, x, 3, dims);
}

// -- GroupQueryAttention -----------------------------------------------------

// Sets queries, keys and values by heads; they may be packed as consecutive
// columns of the queries.
static dv_status get_groups(dv_on *cx, const dv_onnx_node *n, attention *a)
{
    dv_on_value **part[] = {&a->q, &a->k, &a->v};
    dv_on_value *all = dv_on_in(cx, n, 0);
    int64_t counts[] = {a->heads, a->kv_heads, a->kv_heads}, first = 0,
            size = 0;
    if (a->heads < 1 || a->kv_heads < 1 || a->heads % a->kv_heads ||
        a->heads > INT32_MAX || all->n_dims != 3)
        return dv_on_refuse(cx, "attributes num_heads and kv_num_heads do not "
                                "fit its inputs");
    if (!dv_on_in(cx, n, 1))
        size = all->dims[2] / (a->heads + 2 * a->kv_heads);
    for (int i = 0; i < 3; i++) {
        *part[i] = dv_on_in(cx, n, i);
        if (size)
            DV_TRY(part_of(cx, part[i], all, 2, first, counts[i] * size));
        if (!*part[i])
            return dv_on_refuse(cx, "input %d is missing", i);
        DV_TRY(by_heads(cx, part[i], counts[i]));
        first += counts[i] * size;
    }
    return DV_OK;
}

// Sets *out to the number of past keys of each batch, of dims [1 or batch]. The
// input seqlens_k has the last position of a key in each batch; the `length`
// new keys are the last ones. Without past keys, the number is 0.
static dv_status count_past(dv_on *cx, const dv_onnx_node *n, int64_t length,
                            int64_t total, dv_on_value **out)
{
    static const int64_t one = 1, none = 0;
    dv_on_value *last = dv_on_in(cx, n, 5);
    dv_on_loop l;
    int axis;
    if (length == total) {
        *out = dv_on_const_ints(cx, "past", DV_I32, 1, &one, &none);
        return *out ? DV_OK : DV_E_NOMEM;
    }
    *out = dv_on_temp(cx, "past");
    if (!*out)
        return DV_E_NOMEM;
    DV_TRY(reshaped(cx, &last, 1, (int64_t[]){dv_on_count(last)}));
    dv_on_loop_begin(&l, cx);
    DV_TRY(dv_on_over(&l, last, &axis));
    dv_on_start(&l);
    dv_term t =
        dv_on_2(cx, "+", dv_on_read(&l, last, &axis), dv_on_i(cx, 1 - length));
    return dv_on_define(&l, *out, DV_I32, 0, 1, &axis, t);
}

// Makes *at a table of dims [1 or batch, total] with the number of the new key
// at each position. Positions without a new key have the number of some new
// key, so that every index is in range.
static dv_status index_new(dv_on *cx, dv_on_value **at, dv_on_value *past,
                           int64_t length, int64_t total)
{
    dv_on_loop l;
    *at = dv_on_temp(cx, "at");
    if (!*at)
        return DV_E_NOMEM;
    dv_on_loop_begin(&l, cx);
    int axes[] = {dv_on_axis_add(&l, past->dims[0]), dv_on_axis_add(&l, total)};
    DV_TRY(dv_on_use(&l, past, axes));
    dv_on_start(&l);
    dv_term t = dv_on_2(cx, "-", dv_on_position(&l, axes[1]),
                        dv_on_read(&l, past, axes));
    t = dv_on_2(cx, "min", t, dv_on_i(cx, length - 1));
    return dv_on_define(&l, *at, DV_I64, 0, 2, axes,
                        dv_on_2(cx, "max", t, dv_on_i(cx, 0)));
}

// Replaces *v, the new keys or values, by all: the first past[b] of `old`, the
// new ones, and zeros in all further positions.
static dv_status extend(dv_on *cx, dv_on_value **v, dv_on_value *old,
                        dv_on_value *past, int64_t total)
{
    dv_on_value *x = *v, *at, *made = dv_on_temp(cx, old->name);
    int64_t length = x->dims[2], size = old->dims[2];
    int axes[4], at_axes[2];
    dv_on_index of_new[4], of_old[4];
    dv_on_loop l;
    if (!made)
        return DV_E_NOMEM;
    for (int d = 0; d < 4; d++)
        if (d != 2 && old->dims[d] != x->dims[d])
            return dv_on_refuse(
                cx,
                "dim %d of past keys or values has %lld element%s, "
                "not %lld",
                d, (long long)old->dims[d], DV_PLURAL(old->dims[d], "", "s"),
                (long long)x->dims[d]);
    total = total > size ? total : size;
    DV_TRY(index_new(cx, &at, past, length, total));
    if (!dv_on_is_plain(x, 2))
        DV_TRY(dv_on_copy(cx, x, 0));
    if (!dv_on_is_plain(old, 2))
        DV_TRY(dv_on_copy(cx, old, 0));
    dv_on_loop_begin(&l, cx);
    for (int d = 0; d < 4; d++)
        axes[d] = dv_on_axis_add(&l, d == 2 ? total : x->dims[d]);
    at_axes[0] = axes[0];
    at_axes[1] = axes[2];
    int kept[] = {axes[0], axes[1], -1, axes[3]};
    DV_TRY(dv_on_use(&l, x, kept));
    DV_TRY(dv_on_use(&l, old, kept));
    DV_TRY(dv_on_use(&l, at, at_axes));
    DV_TRY(dv_on_use(&l, past, at_axes));
    dv_on_start(&l);
    for (int d = 0; d < 4; d++)
        of_new[d] = of_old[d] =
            dv_on_along(x->dims[d] == 1 && d != 2 ? -1 : axes[d]);
    of_new[2] = (dv_on_index){.via = dv_on_read(&l, at, at_axes)};
    dv_term none = dv_on_f(cx, 0);
    dv_term back = dv_on_2(cx, "-", dv_on_position(&l, axes[2]),
                           dv_on_read(&l, past, at_axes));
    dv_term is_new = dv_on_2(cx, "<", back, dv_on_i(cx, length));
    dv_term t =
        dv_on_3(cx, "select", is_new, dv_on_read_at(&l, x, of_new), none);
    t = dv_on_3(cx, "select", dv_on_2(cx, "<", back, dv_on_i(cx, 0)),
                total > size ? dv_on_read_else(&l, old, of_old, none)
                             : dv_on_read_at(&l, old, of_old),
                t);
    DV_TRY(dv_on_define(&l, made, x->dtype, 0, 4, axes, t));
    *v = made;
    return DV_OK;
}

dv_status dv_on_group_query_attention(dv_on *cx, const dv_onnx_node *n)
{
    static const char *const names[] = {"smooth_softmax", "qk_output"};
    attention a;
    const int64_t *total;
    int count;
    DV_TRY(dv_on_need(cx, n, 1));
    DV_TRY(none_from(cx, n, 11));
    for (int i = 0; i < 2; i++)
        DV_TRY(without(cx, n, names[i]));
    if (!dv_on_in(cx, n, 5) || !dv_on_in(cx, n, 6) || dv_on_in(cx, n, 9))
        return dv_on_refuse(cx, "inputs 5 and 6 are needed, and input 9 is not "
                                "supported");
    DV_TRY(dv_on_get_ints(cx, dv_on_in(cx, n, 6), "total_sequence_length",
                          &total, &count));
    get_attributes(n, &a);
    a.kv_heads = dv_on_int(n, "kv_num_heads", 0);
    a.causal = 1;
    a.window = dv_on_int(n, "local_window_size", -1);
    if (a.window == 0)
        return dv_on_refuse(cx, "attribute local_window_size is 0");
    if (strcmp(dv_on_string(n, "k_quant_type", "NONE"), "NONE") ||
        strcmp(dv_on_string(n, "v_quant_type", "NONE"), "NONE"))
        return dv_on_refuse(cx, "quantised past keys and values are not "
                                "supported");
    a.cap = dv_on_float(n, "softcap", 0);
    a.bias = dv_on_in(cx, n, 10);
    DV_TRY(get_groups(cx, n, &a));
    dv_on_value *past, *old[] = {dv_on_in(cx, n, 3), dv_on_in(cx, n, 4)};
    int has_past = old[0] && old[1] && dv_on_count(old[0]) > 0;
    int64_t length = a.q->dims[2];
    if (count != 1 || total[0] < length || total[0] > INT32_MAX ||
        (total[0] > length && !has_past) ||
        (has_past && (old[0]->n_dims != 4 || old[1]->n_dims != 4)))
        return dv_on_refuse(cx, "the shapes of its past keys and values do not "
                                "fit");
    DV_TRY(count_past(cx, n, length, total[0], &past));
    if (dv_on_int(n, "do_rotary", 0)) {
        rotary r = {dv_on_in(cx, n, 7), dv_on_in(cx, n, 8), NULL,
                    dv_on_int(n, "rotary_interleaved", 0) != 0};
        if (!r.cos || !r.sin || r.cos->n_dims != 2)
            return dv_on_refuse(cx, "inputs 7 and 8 are needed");
        DV_TRY(count_from(cx, &r.at, past, length));
        DV_TRY(rotate(cx, &a.q, &r));
        DV_TRY(rotate(cx, &a.k, &r));
    }
    if (has_past) {
        DV_TRY(extend(cx, &a.k, old[0], past, total[0]));
        DV_TRY(extend(cx, &a.v, old[1], past, total[0]));
    }
    DV_TRY(give(cx, n, 1, a.k));
    DV_TRY(give(cx, n, 2, a.v));
    DV_TRY(part_of(cx, &a.k, a.k, 2, 0, total[0]));
    DV_TRY(part_of(cx, &a.v, a.v, 2, 0, total[0]));
    a.past = past;
    DV_TRY(reshaped(cx, &a.past, 4, (int64_t[]){past->dims[0], 1, 1, 1}));
    return attend(cx, n, &a);
}
