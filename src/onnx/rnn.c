// LSTM, GRU and RNN: a product of all inputs with the input weights, then a
// repeat over the steps that updates the state.
#include "base/dtype.h"
#include "base/plural.h"
#include "onnx/import.h"
#include <string.h>
#include <strings.h>

// One direction of a recurrent layer (LSTM, GRU or RNN).
typedef struct layer {
    dv_on *cx;
    const dv_onnx_node *n;
    char kind; // L, G or R
    int gates, direction, backward;
    int64_t steps, batch, hidden, inputs;
    dv_on_value *x, *w, *r, *b, *h0, *c0, *p; // of this direction
    dv_on_value *len;       // lengths of sequences; NULL: all have `steps`
    dv_on_value *xw;        // [steps, batch, gates, hidden]
    dv_on_value *h, *c, *y; // the state, and h after all steps
    dv_term step;           // the current one
    double clip;            // 0: none
} layer;

// Makes *out a view of v at index `at` of dim 0, without that dim.
static dv_status part(dv_on *cx, dv_on_value **out, dv_on_value *v, int64_t at)
{
    int64_t begin[DV_MAX_DIMS] = {0}, step[DV_MAX_DIMS], dims[DV_MAX_DIMS];
    dv_on_value *cut = dv_on_temp(cx, v->name);
    *out = dv_on_temp(cx, v->name);
    if (!cut || !*out)
        return DV_E_NOMEM;
    for (int d = 0; d < v->n_dims; d++)
        step[d] = 1, dims[d] = v->dims[d];
    begin[0] = at;
    dims[0] = 1;
    DV_TRY(dv_on_slice(cx, cut, v, begin, step, dims));
    return dv_on_reshape(cx, *out, cut, v->n_dims - 1, v->dims + 1);
}

static dv_status view(dv_on *cx, dv_on_value **v, int n, const int64_t *dims)
{
    dv_on_value *to = dv_on_temp(cx, (*v)->name);
    if (!to)
        return DV_E_NOMEM;
    DV_TRY(dv_on_reshape(cx, to, *v, n, dims));
    *v = to;
    return DV_OK;
}

// -- Activations -------------------------------------------------------------

static double parameter(const layer *l, const char *name, int i, double other)
{
    const dv_onnx_attr *a = dv_on_attr(l->n, name);
    return a && i < a->n_floats ? (double)a->floats[i] : other;
}

// Applies activation function number i of this direction to x; `usual` is its
// default.
static dv_term activate(layer *l, int i, const char *usual, dv_term x)
{
    dv_on *cx = l->cx;
    const dv_onnx_attr *a = dv_on_attr(l->n, "activations");
    int per = l->kind == 'L' ? 3 : l->kind == 'G' ? 2 : 1;
    int at = l->direction * per + i;
    const char *name = a && at < a->n_strings ? a->strings[at] : usual;
    if (l->clip > 0)
        x = dv_on_2(cx, "max", dv_on_1(cx, "-", dv_on_f(cx, l->clip)),
                    dv_on_2(cx, "min", x, dv_on_f(cx, l->clip)));
    if (!strcasecmp(name, "Sigmoid"))
        return dv_on_1(cx, "sigmoid", x);
    if (!strcasecmp(name, "Tanh"))
        return dv_on_1(cx, "tanh", x);
    if (!strcasecmp(name, "Relu"))
        return dv_on_1(cx, "relu", x);
    if (!strcasecmp(name, "Affine"))
        return dv_on_2(
            cx, "+",
            dv_on_2(
                cx, "*",
                dv_on_num(cx, DV_F32, parameter(l, "activation_alpha", at, 1)),
                x),
            dv_on_num(cx, DV_F32, parameter(l, "activation_beta", at, 0)));
    if (!strcasecmp(name, "Softsign"))
        return dv_on_2(cx, "/", x,
                       dv_on_2(cx, "+", dv_on_f(cx, 1), dv_on_1(cx, "abs", x)));
    dv_on_refuse(cx, "attribute activations: '%s' is not supported", name);
    return NULL;
}

// -- One step ----------------------------------------------------------------

// A loop over batch and hidden units in one time step, with a product of the
// hidden state and recurrent weights, of one gate or of all.
typedef struct step {
    dv_on_loop l;
    int axes[2];  // batch, hidden
    int state[2]; // batch, summed hidden
    layer *of;
} step;

static dv_status use_gate(step *s, dv_on_value *h)
{
    int xx[] = {-1, s->axes[0], -1, s->axes[1]};
    int rx[] = {-1, s->axes[1], s->state[1]}, bx[] = {-1, s->axes[1]};
    DV_TRY(dv_on_use(&s->l, s->of->xw, xx));
    DV_TRY(dv_on_use(&s->l, s->of->r, rx));
    if (s->of->b)
        DV_TRY(dv_on_use(&s->l, s->of->b, bx));
    if (s->of->p)
        DV_TRY(dv_on_use(&s->l, s->of->p, bx));
    return dv_on_use(&s->l, h, s->state);
}

static dv_status begin_step(step *s, layer *of)
{
    s->of = of;
    dv_on_loop_begin(&s->l, of->cx);
    s->axes[0] = s->state[0] = dv_on_axis_add(&s->l, of->batch);
    s->axes[1] = dv_on_axis_add(&s->l, of->hidden);
    s->state[1] = dv_on_axis_add(&s->l, of->hidden);
    return DV_OK;
}

static dv_on_index fixed(int64_t at)
{
    return (dv_on_index){.add = at};
}

// Returns the index that selects the current time step.
static dv_on_index at_step(const layer *l)
{
    return l->steps == 1 ? fixed(0) : (dv_on_index){.via = l->step};
}

// Returns the product of hidden state and recurrent weights of a gate: sum[k]
// h[b,k] * r[gate,j,k].
static dv_term recur(step *s, dv_on_value *h, int gate)
{
    dv_on *cx = s->of->cx;
    dv_on_index index[] = {fixed(gate), dv_on_along(s->axes[1]),
                           dv_on_along(s->state[1])};
    dv_term p = dv_on_2(cx, "*", dv_on_read(&s->l, h, s->state),
                        dv_on_read_at(&s->l, s->of->r, index));
    return dv_on_reduce(&s->l, "sum", p, 1, &s->state[1]);
}

// Returns a bias of a gate: `which` is 0 for the bias of the input, 1 for that
// of the hidden state.
static dv_term bias(step *s, int gate, int which)
{
    dv_on_index index[] = {fixed(which * s->of->gates + gate),
                           dv_on_along(s->axes[1])};
    return dv_on_read_at(&s->l, s->of->b, index);
}

static dv_term of_input(step *s, int gate)
{
    dv_on_index index[] = {at_step(s->of), dv_on_along(s->axes[0]), fixed(gate),
                           dv_on_along(s->axes[1])};
    return dv_on_read_at(&s->l, s->of->xw, index);
}

static dv_term plus(layer *l, dv_term a, dv_term b)
{
    return dv_on_2(l->cx, "+", a, b);
}

// Returns the argument of a gate's activation: the products of the input and of
// the hidden state with their weights, plus two biases.
static dv_term gate_sum(step *s, dv_on_value *h, int gate)
{
    layer *l = s->of;
    dv_term t = plus(l, recur(s, h, gate), of_input(s, gate));
    if (l->b)
        t = plus(l, plus(l, t, bias(s, gate, 0)), bias(s, gate, 1));
    return t;
}

// Defines a new value *out of dims [batch, hidden] as the term t.
static dv_status set(step *s, dv_on_value **out, const char *hint, dv_term t)
{
    *out = dv_on_temp(s->of->cx, hint);
    if (!*out)
        return DV_E_NOMEM;
    return dv_on_define(&s->l, *out, s->of->x->dtype, 0, 2, s->axes, t);
}

static dv_term peephole(step *s, int which, dv_on_value *c)
{
    layer *l = s->of;
    dv_on_index index[] = {fixed(which), dv_on_along(s->axes[1])};
    return dv_on_2(l->cx, "*", dv_on_read_at(&s->l, l->p, index),
                   dv_on_read(&s->l, c, s->axes));
}

static dv_status gate(layer *l, int which, int activation, const char *usual,
                      dv_on_value *c, int peep, dv_on_value **out)
{
    step s;
    DV_TRY(begin_step(&s, l));
    DV_TRY(use_gate(&s, l->h));
    if (l->p && peep >= 0)
        DV_TRY(dv_on_use(&s.l, c, s.axes));
    dv_on_start(&s.l);
    dv_term t = gate_sum(&s, l->h, which);
    if (l->p && peep >= 0)
        t = plus(l, t, peephole(&s, peep, c));
    return set(&s, out, "gate", activate(l, activation, usual, t));
}

// Begins a loop over the batch and the hidden units that reads n values.
static dv_status pointwise(step *s, layer *l, dv_on_value **v, int n)
{
    s->of = l;
    dv_on_loop_begin(&s->l, l->cx);
    s->axes[0] = dv_on_axis_add(&s->l, l->batch);
    s->axes[1] = dv_on_axis_add(&s->l, l->hidden);
    for (int i = 0; i < n; i++)
        DV_TRY(dv_on_use(&s->l, v[i], s->axes));
    dv_on_start(&s->l);
    return DV_OK;
}

// One time step of an LSTM. Its gates are in the order i, o, f, c; its
// peepholes in the order i, o, f.
static dv_status lstm_step(layer *l, dv_on_value **h, dv_on_value **c)
{
    dv_on_value *i, *o, *f, *g;
    step s;
    dv_on *cx = l->cx;
    DV_TRY(gate(l, 0, 0, "Sigmoid", l->c, 0, &i));
    if (dv_on_int(l->n, "input_forget", 0))
        return dv_on_refuse(cx, "attribute input_forget is 1");
    DV_TRY(gate(l, 2, 0, "Sigmoid", l->c, 2, &f));
    DV_TRY(gate(l, 3, 1, "Tanh", NULL, -1, &g));
    DV_TRY(pointwise(&s, l, (dv_on_value *[]){i, f, g, l->c}, 4));
    dv_term t = plus(l,
                     dv_on_2(cx, "*", dv_on_read(&s.l, f, s.axes),
                             dv_on_read(&s.l, l->c, s.axes)),
                     dv_on_2(cx, "*", dv_on_read(&s.l, i, s.axes),
                             dv_on_read(&s.l, g, s.axes)));
    DV_TRY(set(&s, c, "cell", t));
    DV_TRY(gate(l, 1, 0, "Sigmoid", *c, 1, &o));
    DV_TRY(pointwise(&s, l, (dv_on_value *[]){o, *c}, 2));
    double clip = l->clip;
    l->clip = 0;
    t = activate(l, 2, "Tanh", dv_on_read(&s.l, *c, s.axes));
    l->clip = clip;
    return set(&s, h, "state",
               dv_on_2(cx, "*", dv_on_read(&s.l, o, s.axes), t));
}

// One time step of a GRU. Its gates are in the order z, r, h.
static dv_status gru_step(layer *l, dv_on_value **h)
{
    dv_on_value *z, *r, *g, *rh;
    step s;
    dv_on *cx = l->cx;
    int after = dv_on_int(l->n, "linear_before_reset", 0) != 0;
    DV_TRY(gate(l, 0, 0, "Sigmoid", NULL, -1, &z));
    DV_TRY(gate(l, 1, 0, "Sigmoid", NULL, -1, &r));
    dv_term t;
    if (after) {
        DV_TRY(begin_step(&s, l));
        DV_TRY(use_gate(&s, l->h));
        DV_TRY(dv_on_use(&s.l, r, s.axes));
        dv_on_start(&s.l);
        dv_term inner = recur(&s, l->h, 2);
        if (l->b)
            inner = plus(l, inner, bias(&s, 2, 1));
        t = plus(l, dv_on_2(cx, "*", dv_on_read(&s.l, r, s.axes), inner),
                 of_input(&s, 2));
        if (l->b)
            t = plus(l, t, bias(&s, 2, 0));
    } else {
        DV_TRY(pointwise(&s, l, (dv_on_value *[]){r, l->h}, 2));
        DV_TRY(set(&s, &rh, "reset",
                   dv_on_2(cx, "*", dv_on_read(&s.l, r, s.axes),
                           dv_on_read(&s.l, l->h, s.axes))));
        DV_TRY(begin_step(&s, l));
        DV_TRY(use_gate(&s, rh));
        dv_on_start(&s.l);
        t = gate_sum(&s, rh, 2);
    }
    DV_TRY(set(&s, &g, "gate", activate(l, 1, "Tanh", t)));
    DV_TRY(pointwise(&s, l, (dv_on_value *[]){z, g, l->h}, 3));
    dv_term zt = dv_on_read(&s.l, z, s.axes);
    t = plus(l,
             dv_on_2(cx, "*", dv_on_2(cx, "-", dv_on_f(cx, 1), zt),
                     dv_on_read(&s.l, g, s.axes)),
             dv_on_2(cx, "*", zt, dv_on_read(&s.l, l->h, s.axes)));
    return set(&s, h, "state", t);
}

// Updates a state, or the current time step of y, with the new value v. After
// the end of a sequence a state keeps its value, and y is 0.
static dv_status keep(layer *l, dv_on_value *to, dv_on_value *v)
{
    step s;
    dv_on *cx = l->cx;
    int all = to == l->y;
    dv_on_value *used[] = {v, l->len, all ? NULL : to};
    s.of = l;
    dv_on_loop_begin(&s.l, cx);
    s.axes[0] = dv_on_axis_add(&s.l, l->batch);
    s.axes[1] = dv_on_axis_add(&s.l, l->hidden);
    for (int i = 0; i < (l->len ? 3 : 1); i++)
        if (used[i])
            DV_TRY(dv_on_use(&s.l, used[i], s.axes));
    dv_on_start(&s.l);
    dv_term t = dv_on_read(&s.l, v, s.axes);
    if (l->len)
        t = dv_on_3(cx, "select",
                    dv_on_2(cx, "<", l->step, dv_on_read(&s.l, l->len, s.axes)),
                    t, all ? dv_on_f(cx, 0) : dv_on_read(&s.l, to, s.axes));
    dv_on_index index[] = {at_step(l), dv_on_along(s.axes[0]),
                           dv_on_along(s.axes[1])};
    return dv_on_update(&s.l, to, all ? index : index + 1, t);
}

// -- A layer -----------------------------------------------------------------

// Defines the products of the inputs of all time steps with the weights: xw[t,
// b, gate, j] = sum[k] x[t, b, k] * w[gate, j, k].
static dv_status input_product(layer *l)
{
    dv_on_loop p;
    dv_on *cx = l->cx;
    l->xw = dv_on_temp(cx, "xw");
    if (!l->xw)
        return DV_E_NOMEM;
    dv_on_loop_begin(&p, cx);
    int out[] = {dv_on_axis_add(&p, l->steps), dv_on_axis_add(&p, l->batch),
                 dv_on_axis_add(&p, l->gates), dv_on_axis_add(&p, l->hidden)};
    int k = dv_on_axis_add(&p, l->inputs);
    int xx[] = {out[0], out[1], k}, wx[] = {out[2], out[3], k};
    DV_TRY(dv_on_use(&p, l->x, xx));
    DV_TRY(dv_on_use(&p, l->w, wx));
    dv_on_start(&p);
    dv_term t =
        dv_on_2(cx, "*", dv_on_read(&p, l->x, xx), dv_on_read(&p, l->w, wx));
    return dv_on_define(&p, l->xw, l->x->dtype, 0, 4, out,
                        dv_on_reduce(&p, "sum", t, 1, &k));
}

// Makes a tensor that the loop over time steps updates: a copy of a state, or
// zeros for each of n steps.
static dv_status begin_value(layer *l, dv_on_value **v, dv_on_value *from,
                             int64_t n)
{
    dv_on_loop p;
    dv_on *cx = l->cx;
    dv_on_loop_begin(&p, cx);
    int axes[] = {dv_on_axis_add(&p, n), dv_on_axis_add(&p, l->batch),
                  dv_on_axis_add(&p, l->hidden)};
    if (from)
        DV_TRY(dv_on_use(&p, from, axes + 1));
    dv_on_start(&p);
    dv_term t = from ? dv_on_read(&p, from, axes + 1) : dv_on_f(cx, 0);
    int state = v != &l->y;
    *v = dv_on_temp(cx, state ? "state" : "y");
    if (!*v)
        return DV_E_NOMEM;
    return dv_on_define(&p, *v, l->x->dtype, 0, 3 - state, axes + state, t);
}

// Declares the tensors that the loop over time steps reads, because there can
// be no declarations inside of a loop.
static dv_status declare(layer *l)
{
    dv_on_value *const read[] = {l->r, l->b, l->p, l->len};
    for (int i = 0; i < 4; i++)
        if (read[i] && read[i]->base)
            DV_TRY(dv_on_declare(l->cx, read[i]->base));
    return DV_OK;
}

// Imports one direction of the layer, as a loop over all time steps.
static dv_status run_layer(layer *l)
{
    dv_on *cx = l->cx;
    DV_TRY(input_product(l));
    DV_TRY(begin_value(l, &l->h, l->h0, 1));
    if (l->kind == 'L')
        DV_TRY(begin_value(l, &l->c, l->c0, 1));
    DV_TRY(begin_value(l, &l->y, NULL, l->steps));
    DV_TRY(declare(l));
    // The counter's name has several letters, so that it cannot be the name of
    // a loop variable (i, j, …).
    const char *counter = dv_on_name(cx, "step");
    if (!counter)
        return DV_E_NOMEM;
    dv_build_count(cx->build, counter, dv_on_i(cx, 0), dv_on_i(cx, l->steps));
    l->step = dv_build_name(cx->build, counter);
    if (l->backward)
        l->step = dv_on_2(cx, "-", dv_on_i(cx, l->steps - 1), l->step);
    dv_on_value *h, *c = NULL;
    if (l->kind == 'L')
        DV_TRY(lstm_step(l, &h, &c));
    else if (l->kind == 'G')
        DV_TRY(gru_step(l, &h));
    else
        DV_TRY(gate(l, 0, 0, "Tanh", NULL, -1, &h));
    DV_TRY(keep(l, l->y, h));
    DV_TRY(keep(l, l->h, h));
    if (c)
        DV_TRY(keep(l, l->c, c));
    dv_build_end(cx->build);
    return DV_OK;
}

// Sets the operands of direction d: views of the layer's operands.
static dv_status of_direction(layer *l, int d)
{
    dv_on *cx = l->cx;
    const dv_onnx_node *n = l->n;
    dv_on_value *b = dv_on_in(cx, n, 3), *h = dv_on_in(cx, n, 5),
                *c = dv_on_in(cx, n, 6), *p = dv_on_in(cx, n, 7);
    int64_t wd[] = {l->gates, l->hidden, l->inputs};
    int64_t rd[] = {l->gates, l->hidden, l->hidden};
    int64_t bd[] = {2 * (int64_t)l->gates, l->hidden}, pd[] = {3, l->hidden};
    DV_TRY(part(cx, &l->w, dv_on_in(cx, n, 1), d));
    DV_TRY(view(cx, &l->w, 3, wd));
    DV_TRY(part(cx, &l->r, dv_on_in(cx, n, 2), d));
    DV_TRY(view(cx, &l->r, 3, rd));
    l->b = l->p = l->h0 = l->c0 = NULL;
    if (b) {
        DV_TRY(part(cx, &l->b, b, d));
        DV_TRY(view(cx, &l->b, 2, bd));
    }
    if (h)
        DV_TRY(part(cx, &l->h0, h, d));
    if (l->kind == 'L' && c)
        DV_TRY(part(cx, &l->c0, c, d));
    if (l->kind == 'L' && p) {
        DV_TRY(part(cx, &l->p, p, d));
        DV_TRY(view(cx, &l->p, 2, pd));
    }
    return DV_OK;
}

// Replaces *v by a view with dims a and b exchanged, because the layout may be
// [batch, time, …] instead of [time, batch, …].
static dv_status swap(dv_on *cx, dv_on_value **v, int a, int b)
{
    int perm[DV_MAX_DIMS];
    dv_on_value *to = dv_on_temp(cx, (*v)->name);
    if (!to)
        return DV_E_NOMEM;
    for (int d = 0; d < (*v)->n_dims; d++)
        perm[d] = d == a ? b : d == b ? a : d;
    DV_TRY(dv_on_transpose(cx, to, *v, perm));
    *v = to;
    return DV_OK;
}

// Concatenates the results [steps, batch, hidden] of all directions.
static dv_status join_directions(dv_on *cx, dv_on_value *out, dv_on_value **all,
                                 int directions, int batch_first)
{
    dv_on_value *y = dv_on_temp(cx, "y");
    int64_t dims[] = {all[0]->dims[0], 1, all[0]->dims[1], all[0]->dims[2]};
    if (!y)
        return DV_E_NOMEM;
    for (int d = 0; d < directions; d++)
        DV_TRY(view(cx, &all[d], 4, dims));
    if (directions == 1)
        dv_on_same(y, all[0]);
    else
        DV_TRY(dv_on_join(cx, y, all, directions, 1));
    // Transpose [time, direction, batch, hidden] to [batch, time, direction,
    // hidden].
    if (batch_first)
        return dv_on_transpose(cx, out, y, (int[]){2, 0, 1, 3});
    dv_on_same(out, y);
    return DV_OK;
}

static dv_status last_state(dv_on *cx, const dv_onnx_node *n, int output,
                            dv_on_value **all, int directions, int batch_first)
{
    if (!dv_on_has_out(n, output))
        return DV_OK;
    dv_on_value *out = dv_on_out(cx, n, output), *y = dv_on_temp(cx, "last");
    int64_t dims[] = {1, all[0]->dims[0], all[0]->dims[1]};
    if (!out || !y)
        return DV_E_NOMEM;
    for (int d = 0; d < directions; d++)
        DV_TRY(view(cx, &all[d], 3, dims));
    if (directions == 1)
        dv_on_same(y, all[0]);
    else
        DV_TRY(dv_on_join(cx, y, all, directions, 0));
    if (batch_first)
        DV_TRY(swap(cx, &y, 0, 1));
    dv_on_same(out, y);
    return DV_OK;
}

static dv_status check_shapes(dv_on *cx, const layer *l, int directions)
{
    const dv_onnx_node *n = l->n;
    const dv_on_value *w = dv_on_in(cx, n, 1), *r = dv_on_in(cx, n, 2);
    const dv_on_value *b = dv_on_in(cx, n, 3);
    int64_t rows = l->gates * l->hidden;
    if (w->n_dims != 3 || r->n_dims != 3 || w->dims[0] != directions ||
        r->dims[0] != directions || w->dims[1] != rows || r->dims[1] != rows ||
        w->dims[2] != l->inputs || r->dims[2] != l->hidden ||
        (b && (b->n_dims != 2 || b->dims[0] != directions ||
               b->dims[1] != 2 * rows)))
        return dv_on_refuse(cx, "the shapes of W, R and B do not fit");
    for (int i = 5; i < 7; i++) {
        const dv_on_value *s = dv_on_in(cx, n, i);
        if (s && (s->n_dims != 3 ||
                  dv_on_count(s) != directions * l->batch * l->hidden))
            return dv_on_refuse(cx, "the shape of an initial state does not "
                                    "fit");
    }
    return DV_OK;
}

// Reads the lengths of the sequences. They are ignored if all are equal to the
// number of time steps.
static dv_status read_lengths(dv_on *cx, layer *l)
{
    const int64_t *list;
    int count, all = 1;
    dv_on_value *v = dv_on_in(cx, l->n, 4);
    l->len = NULL;
    if (!v)
        return DV_OK;
    if (v->n_dims != 1 || v->dims[0] != l->batch)
        return dv_on_refuse(cx, "the shape of sequence_lens does not fit");
    if (dv_on_known(v)) {
        DV_TRY(dv_on_get_ints(cx, v, "sequence_lens", &list, &count));
        for (int i = 0; i < count; i++)
            all &= list[i] == l->steps;
        if (all)
            return DV_OK;
    }
    l->len = v;
    return DV_OK;
}

dv_status dv_on_recurrent(dv_on *cx, const dv_onnx_node *n)
{
    DV_TRY(dv_on_need(cx, n, 3));
    layer l = {.cx = cx, .n = n, .kind = n->type[0], .x = dv_on_in(cx, n, 0)};
    const char *way = dv_on_string(n, "direction", "forward");
    int directions = strcmp(way, "bidirectional") ? 1 : 2;
    int batch_first = dv_on_int(n, "layout", 0) != 0;
    l.gates = l.kind == 'L' ? 4 : l.kind == 'G' ? 3 : 1;
    l.clip = dv_on_float(n, "clip", 0);
    if (l.x->n_dims != 3 || dv_on_in(cx, n, 2)->n_dims != 3)
        return dv_on_refuse(cx, "its input has %d dim%s", l.x->n_dims,
                            DV_PLURAL(l.x->n_dims, "", "s"));
    if (batch_first)
        DV_TRY(swap(cx, &l.x, 0, 1));
    l.steps = l.x->dims[0];
    l.batch = l.x->dims[1];
    l.inputs = l.x->dims[2];
    l.hidden = dv_on_in(cx, n, 2)->dims[2];
    DV_TRY(check_shapes(cx, &l, directions));
    DV_TRY(read_lengths(cx, &l));
    if (batch_first && (dv_on_in(cx, n, 5) || dv_on_in(cx, n, 6)))
        return dv_on_refuse(cx, "attribute layout is 1 and there is an "
                                "initial state");
    dv_on_value *y[2], *h[2], *c[2] = {NULL, NULL};
    for (int d = 0; d < directions; d++) {
        l.direction = d;
        l.backward = d == 1 || !strcmp(way, "reverse");
        if (l.backward && l.len)
            return dv_on_refuse(cx,
                                "input sequence_lens with attribute "
                                "direction '%s'",
                                way);
        DV_TRY(of_direction(&l, d));
        DV_TRY(run_layer(&l));
        y[d] = l.y;
        h[d] = l.h;
        c[d] = l.c;
    }
    if (dv_on_has_out(n, 0)) {
        dv_on_value *out = dv_on_out(cx, n, 0);
        if (!out)
            return DV_E_NOMEM;
        DV_TRY(join_directions(cx, out, y, directions, batch_first));
    }
    DV_TRY(last_state(cx, n, 1, h, directions, batch_first));
    return l.kind == 'L' ? last_state(cx, n, 2, c, directions, batch_first)
                         : DV_OK;
}
