// Operators that compute each element alone: arithmetic, comparisons, logic,
// functions, activations and casts, with ONNX's broadcasting.
#include "base/dtype.h"
#include "base/plural.h"
#include "onnx/import.h"
#include <math.h>
#include <string.h>

enum { MAX_OPERANDS = 64 };

dv_status dv_on_broadcast(dv_on_loop *l, dv_on_value *const *v, int n,
                          dv_term *reads)
{
    int64_t dims[DV_MAX_DIMS] = {0};
    int n_dims = 0, axes[MAX_OPERANDS][DV_MAX_DIMS];
    for (int i = 0; i < n; i++)
        n_dims = v[i]->n_dims > n_dims ? v[i]->n_dims : n_dims;
    for (int d = 0; d < n_dims; d++)
        dims[d] = 1;
    for (int i = 0; i < n; i++)
        for (int d = 0; d < v[i]->n_dims; d++)
            if (v[i]->dims[d] != 1)
                dims[d + n_dims - v[i]->n_dims] = v[i]->dims[d];
    int inlined = dv_on_inline(l, v, n, n_dims, dims, reads);
    for (int d = 0; d < n_dims && inlined < 0; d++)
        l->out[d] = dv_on_axis_add(l, dims[d]);
    l->n_out = n_dims;
    for (int i = 0; i < n; i++) {
        for (int d = 0; d < v[i]->n_dims; d++)
            axes[i][d] = l->out[d + n_dims - v[i]->n_dims];
        if (inlined < 0)
            DV_TRY(dv_on_use(l, v[i], axes[i]));
    }
    if (inlined < 0)
        dv_on_start(l);
    for (int i = 0; i < n; i++)
        if (i != inlined)
            reads[i] = dv_on_read(l, v[i], axes[i]);
    return l->status;
}

// Defines the node's output in the loop over the broadcast dims, which
// dv_on_broadcast has made.
static dv_status finish(dv_on_loop *l, const dv_onnx_node *n, dv_dtype t,
                        int is_bool, dv_term value)
{
    int axes[DV_MAX_DIMS];
    dv_on_value *out = dv_on_out(l->cx, n, 0);
    if (!out)
        return DV_E_NOMEM;
    memcpy(axes, l->out, sizeof axes);
    return dv_on_define(l, out, t, is_bool, l->n_out, axes, value);
}

// Before opset 7 the second operand is aligned at an axis of the first, if the
// attribute broadcast is 1.
static dv_status align(dv_on *cx, const dv_onnx_node *n, dv_on_value *a,
                       dv_on_value **b)
{
    const dv_onnx_attr *axis = dv_on_attr(n, "axis");
    if (cx->opset >= 7 || !dv_on_int(n, "broadcast", 0) || !axis)
        return DV_OK;
    int64_t dims[DV_MAX_DIMS];
    int first;
    DV_TRY(dv_on_norm_axis(cx, axis->i, a->n_dims, &first));
    if (first + (*b)->n_dims > a->n_dims)
        return dv_on_refuse(cx, "attribute axis: the second operand has too "
                                "many dims");
    for (int d = 0; d < a->n_dims - first; d++)
        dims[d] = d < (*b)->n_dims ? (*b)->dims[d] : 1;
    dv_on_value *view = dv_on_temp(cx, (*b)->name);
    if (!view)
        return DV_E_NOMEM;
    DV_TRY(dv_on_reshape(cx, view, *b, a->n_dims - first, dims));
    *b = view;
    return DV_OK;
}

// -- Two operands ------------------------------------------------------------

typedef struct binary {
    const char *type, *fn;
    int compares;
} binary;

static const binary binaries[] = {
    {"Add", "+", 0},
    {"Sub", "-", 0},
    {"Mul", "*", 0},
    {"Div", "/", 0},
    {"Greater", ">", 1},
    {"Less", "<", 1},
    {"GreaterOrEqual", ">=", 1},
    {"LessOrEqual", "<=", 1},
    {"Equal", "==", 1},
    {"Xor", "!=", 1},
    {"And", "min", 1},
    {"Or", "max", 1},
    {"BitwiseAnd", "&", 0},
    {"BitwiseOr", "|", 0},
    {"BitwiseXor", "^", 0},
};

static const binary *find_binary(const char *type)
{
    for (size_t i = 0; i < sizeof binaries / sizeof *binaries; i++)
        if (!strcmp(binaries[i].type, type))
            return &binaries[i];
    return NULL;
}

static int64_t remainder_of(int64_t x, int64_t y, int sign_of_divisor)
{
    int64_t r = y == -1 ? 0 : x % y;
    return sign_of_divisor && r && (r < 0) != (y < 0) ? r + y : r;
}

// Divides integers that are known at import. The language of programs has no
// integer division.
static dv_status divide_known(dv_on *cx, const dv_onnx_node *n, dv_on_value *a,
                              dv_on_value *b, int kind)
{
    const int64_t *x, *y;
    int n_x, n_y, n_dims = a->n_dims > b->n_dims ? a->n_dims : b->n_dims;
    int64_t dims[DV_MAX_DIMS];
    for (int d = 0; d < n_dims; d++) {
        int p = d - n_dims + a->n_dims, q = d - n_dims + b->n_dims;
        dims[d] = p >= 0 && a->dims[p] != 1 ? a->dims[p]
                  : q >= 0                  ? b->dims[q]
                                            : 1;
        if (q >= 0 && b->dims[q] != 1 && b->dims[q] != dims[d])
            return dv_on_refuse(cx, "the shapes of its inputs do not fit");
    }
    dv_on_value *u = dv_on_temp(cx, "a"), *v = dv_on_temp(cx, "b");
    dv_on_value *out = dv_on_out(cx, n, 0);
    if (!u || !v || !out)
        return DV_E_NOMEM;
    DV_TRY(dv_on_expand(cx, u, a, n_dims, dims));
    DV_TRY(dv_on_expand(cx, v, b, n_dims, dims));
    DV_TRY(dv_on_get_ints(cx, u, "A", &x, &n_x));
    DV_TRY(dv_on_get_ints(cx, v, "B", &y, &n_y));
    int64_t *z = DV_NEW(cx->arena, int64_t, n_x + 1);
    if (!z)
        return dv_nomem(cx->diag);
    for (int i = 0; i < n_x; i++) {
        if (y[i] == 0)
            return dv_on_refuse(cx, "it divides by zero");
        z[i] = kind == '/'
                   ? (y[i] == -1 ? (int64_t)(0 - (uint64_t)x[i]) : x[i] / y[i])
                   : remainder_of(x[i], y[i], kind == 'm');
    }
    dv_on_value *made =
        dv_on_const_ints(cx, out->name, a->dtype, n_dims, dims, z);
    if (!made)
        return DV_E_NOMEM;
    dv_on_same(out, made);
    return DV_OK;
}

// Replaces *v by its conversion to a float type.
static dv_status to_float(dv_on *cx, dv_on_value **v, dv_dtype t)
{
    int axes[DV_MAX_DIMS];
    dv_on_loop l;
    dv_on_value *made = dv_on_temp(cx, "real");
    if (!made)
        return DV_E_NOMEM;
    dv_on_loop_begin(&l, cx);
    DV_TRY(dv_on_over(&l, *v, axes));
    dv_on_start(&l);
    l.typed = 1;
    DV_TRY(dv_on_define(&l, made, t, 0, (*v)->n_dims, axes,
                        dv_on_read(&l, *v, axes)));
    *v = made;
    return DV_OK;
}

// Divides integers, truncating: (x - rem(x, y)) / y is a whole number, and
// rounding removes the rounding error of the float division.
static dv_status divide_integers(dv_on *cx, const dv_onnx_node *n,
                                 dv_on_value **v)
{
    dv_on_loop l;
    dv_term x[2];
    if (dv_dtype_get(v[0]->dtype)->size_bytes == 8)
        return dv_on_refuse(cx, "division of 64-bit integers is not supported");
    dv_dtype t = v[0]->dtype;
    DV_TRY(to_float(cx, &v[0], DV_F64));
    DV_TRY(to_float(cx, &v[1], DV_F64));
    dv_on_loop_begin(&l, cx);
    DV_TRY(dv_on_broadcast(&l, v, 2, x));
    dv_term whole = dv_on_2(cx, "-", x[0], dv_on_2(cx, "rem", x[0], x[1]));
    return finish(&l, n, t, 0,
                  dv_on_1(cx, "round", dv_on_2(cx, "/", whole, x[1])));
}

// Returns x / s, correctly rounded. For a divisor that is constant along a row,
// kernels multiply by its reciprocal, which could round a tie to another
// integer. max(s, min(x, 0)), equal to s > 0, prevents that: it depends on x.
dv_term dv_on_divide(dv_on *cx, dv_term x, dv_term s)
{
    dv_term zero = dv_on_f(cx, 0);
    return dv_on_2(cx, "/", x,
                   dv_on_2(cx, "max", s, dv_on_2(cx, "min", x, zero)));
}

// Divides like dv_on_divide, which requires a positive divisor, by one of any
// sign: a negative sign is moved to x.
static dv_term divide_signed(dv_on *cx, dv_term x, dv_term s)
{
    dv_term zero = dv_on_f(cx, 0), below = dv_on_2(cx, "<", s, zero);
    return dv_on_divide(cx,
                        dv_on_3(cx, "select", below, dv_on_1(cx, "-", x), x),
                        dv_on_1(cx, "abs", s));
}

// Returns whether another node rounds the output of node n to integers.
static int is_rounded(const dv_on *cx, const dv_onnx_node *n)
{
    static const char *const rounds[] = {"Round", "Floor", "Ceil", "Cast"};
    const dv_onnx_graph *g = &cx->model->graph;
    for (int32_t i = 0; i < g->n_nodes; i++)
        for (size_t k = 0; k < sizeof rounds / sizeof *rounds; k++)
            if (!strcmp(g->nodes[i].type, rounds[k]) &&
                g->nodes[i].n_inputs > 0 &&
                !strcmp(g->nodes[i].inputs[0], n->outputs[0]))
                return 1;
    return 0;
}

dv_status dv_on_binary(dv_on *cx, const dv_onnx_node *n)
{
    const binary *k = find_binary(n->type);
    dv_on_loop l;
    dv_term x[2];
    DV_TRY(dv_on_need(cx, n, 2));
    dv_on_value *v[] = {dv_on_in(cx, n, 0), dv_on_in(cx, n, 1)};
    DV_TRY(align(cx, n, v[0], &v[1]));
    const char *fn = k->fn;
    int integers = !dv_is_float(v[0]->dtype);
    if (!strcmp(fn, "/") && integers) {
        if (dv_on_known(v[0]) && dv_on_known(v[1]))
            return divide_known(cx, n, v[0], v[1], '/');
        return divide_integers(cx, n, v);
    }
    dv_on_loop_begin(&l, cx);
    int exact = fn[0] == '/' && is_rounded(cx, n);
    l.inlines = !exact;
    DV_TRY(dv_on_broadcast(&l, v, 2, x));
    dv_term y =
        exact ? divide_signed(cx, x[0], x[1]) : dv_on_2(cx, fn, x[0], x[1]);
    int is_bool = k->compares || v[0]->is_bool;
    dv_dtype t =
        k->compares ? (dv_dtype)dv_onnx_dtype(DV_ONNX_BOOL) : v[0]->dtype;
    return finish(&l, n, t, is_bool, y);
}

dv_status dv_on_mod(dv_on *cx, const dv_onnx_node *n)
{
    dv_on_loop l;
    dv_term x[2];
    DV_TRY(dv_on_need(cx, n, 2));
    dv_on_value *v[] = {dv_on_in(cx, n, 0), dv_on_in(cx, n, 1)};
    int fmod = (int)dv_on_int(n, "fmod", 0);
    if (!fmod && dv_is_float(v[0]->dtype))
        return dv_on_refuse(cx, "attribute fmod is 0 and the inputs are "
                                "floats");
    if (!dv_is_float(v[0]->dtype) && dv_on_known(v[0]) && dv_on_known(v[1]))
        return divide_known(cx, n, v[0], v[1], fmod ? 'r' : 'm');
    dv_on_loop_begin(&l, cx);
    DV_TRY(dv_on_broadcast(&l, v, 2, x));
    return finish(&l, n, v[0]->dtype, 0,
                  dv_on_2(cx, fmod ? "rem" : "mod", x[0], x[1]));
}

dv_status dv_on_bit_shift(dv_on *cx, const dv_onnx_node *n)
{
    dv_on_loop l;
    dv_term x[2];
    DV_TRY(dv_on_need(cx, n, 2));
    dv_on_value *v[] = {dv_on_in(cx, n, 0), dv_on_in(cx, n, 1)};
    int left = !strcmp(dv_on_string(n, "direction", ""), "LEFT");
    dv_on_loop_begin(&l, cx);
    DV_TRY(dv_on_broadcast(&l, v, 2, x));
    return finish(&l, n, v[0]->dtype, 0,
                  dv_on_2(cx, left ? "<<" : ">>", x[0], x[1]));
}

// Computes a power with a small constant exponent as products; returns NULL for
// other exponents.
static dv_term small_power(dv_on *cx, dv_dtype t, dv_term x, dv_on_value *e)
{
    if (!dv_on_known(e) || dv_on_count(e) != 1 || !dv_on_data(cx, e))
        return NULL;
    double p = dv_load(e->dtype, e->data, 0);
    if (p == 1)
        return x;
    if (p == 2)
        return dv_on_2(cx, "*", x, x);
    if (p == 3)
        return dv_on_2(cx, "*", dv_on_2(cx, "*", x, x), x);
    if (!dv_is_float(t))
        return NULL;
    if (p == 0.5)
        return dv_on_1(cx, "sqrt", x);
    if (p == -0.5)
        return dv_on_1(cx, "rsqrt", x);
    return p == -1 ? dv_on_2(cx, "/", dv_on_f(cx, 1), x) : NULL;
}

static int is_small_power(dv_on *cx, dv_dtype t, dv_on_value *e)
{
    if (!dv_on_known(e) || dv_on_count(e) != 1 || !dv_on_data(cx, e))
        return 0;
    double p = dv_load(e->dtype, e->data, 0);
    return p == 1 || p == 2 || p == 3 ||
           (dv_is_float(t) && (p == 0.5 || p == -0.5 || p == -1));
}

dv_status dv_on_pow(dv_on *cx, const dv_onnx_node *n)
{
    dv_on_loop l;
    dv_term x[2];
    DV_TRY(dv_on_need(cx, n, 2));
    dv_on_value *v[] = {dv_on_in(cx, n, 0), dv_on_in(cx, n, 1)};
    DV_TRY(align(cx, n, v[0], &v[1]));
    dv_dtype t = v[0]->dtype;
    int integers = !dv_is_float(t), mixed = integers || v[1]->dtype != t;
    dv_on_value *exponent = v[1];
    if (is_small_power(cx, t, exponent)) {
        mixed = 0;
    } else if (mixed) {
        // The power of integers is computed in f64, then rounded.
        if (integers)
            DV_TRY(to_float(cx, &v[0], DV_F64));
        DV_TRY(to_float(cx, &v[1], v[0]->dtype));
    }
    dv_on_loop_begin(&l, cx);
    DV_TRY(dv_on_broadcast(&l, v, 2, x));
    dv_term y = small_power(cx, t, x[0], exponent);
    if (!y)
        y = dv_on_2(cx, "pow", x[0], x[1]);
    if (integers && mixed && !dv_is_float(exponent->dtype))
        y = dv_on_1(cx, "round", y);
    else if (integers && mixed)
        // Truncate the result, but let a rounding error such as in
        // 8.999999999999998 become 9.
        y = dv_on_1(cx, "trunc", dv_on_2(cx, "*", y, dv_on_f(cx, 1 + 1e-14)));
    return finish(&l, n, t, 0, y);
}

// -- Any number of operands --------------------------------------------------

dv_status dv_on_variadic(dv_on *cx, const dv_onnx_node *n)
{
    dv_on_loop l;
    dv_on_value *v[MAX_OPERANDS];
    dv_term x[MAX_OPERANDS];
    if (n->n_inputs > MAX_OPERANDS || n->n_inputs < 1)
        return dv_on_refuse(cx, "it has %d input%s, 1 to %d are supported",
                            (int)n->n_inputs, DV_PLURAL(n->n_inputs, "", "s"),
                            (int)MAX_OPERANDS);
    DV_TRY(dv_on_need(cx, n, n->n_inputs));
    for (int i = 0; i < n->n_inputs; i++)
        v[i] = dv_on_in(cx, n, i);
    dv_on_loop_begin(&l, cx);
    DV_TRY(dv_on_broadcast(&l, v, n->n_inputs, x));
    const char *fn = !strcmp(n->type, "Max")   ? "max"
                     : !strcmp(n->type, "Min") ? "min"
                                               : "+";
    dv_term y = x[0];
    for (int i = 1; i < n->n_inputs; i++)
        y = dv_on_2(cx, fn, y, x[i]);
    if (!strcmp(n->type, "Mean") && n->n_inputs > 1)
        y = dv_on_2(cx, "/", y, dv_on_f(cx, n->n_inputs));
    return finish(&l, n, v[0]->dtype, 0, y);
}

dv_status dv_on_where(dv_on *cx, const dv_onnx_node *n)
{
    dv_on_loop l;
    dv_term x[3];
    DV_TRY(dv_on_need(cx, n, 3));
    dv_on_value *v[] = {dv_on_in(cx, n, 0), dv_on_in(cx, n, 1),
                        dv_on_in(cx, n, 2)};
    dv_on_loop_begin(&l, cx);
    DV_TRY(dv_on_broadcast(&l, v, 3, x));
    return finish(&l, n, v[1]->dtype, v[1]->is_bool,
                  dv_on_3(cx, "select", x[0], x[1], x[2]));
}

// -- One operand -------------------------------------------------------------

static const struct {
    const char *type, *fn;
} unaries[] = {
    {"Abs", "abs"},     {"Acos", "acos"},   {"Acosh", "acosh"},
    {"Asin", "asin"},   {"Asinh", "asinh"}, {"Atan", "atan"},
    {"Atanh", "atanh"}, {"Ceil", "ceil"},   {"Cos", "cos"},
    {"Cosh", "cosh"},   {"Erf", "erf"},     {"Exp", "exp"},
    {"Floor", "floor"}, {"Log", "log"},     {"Neg", "-"},
    {"Relu", "relu"},   {"Round", "round"}, {"Sigmoid", "sigmoid"},
    {"Sin", "sin"},     {"Sinh", "sinh"},   {"Sqrt", "sqrt"},
    {"Tan", "tan"},     {"Tanh", "tanh"},   {"BitwiseNot", "~"},
};

typedef dv_term (*formula)(dv_on *cx, const dv_onnx_node *n, dv_dtype t,
                           dv_term x);

static dv_term by_name(dv_on *cx, const dv_onnx_node *n, dv_dtype t, dv_term x);

static dv_status one(dv_on *cx, const dv_onnx_node *n, formula f, int to)
{
    dv_on_loop l;
    dv_term x;
    DV_TRY(dv_on_need(cx, n, 1));
    dv_on_value *v = dv_on_in(cx, n, 0);
    dv_on_loop_begin(&l, cx);
    l.inlines = f == by_name;
    DV_TRY(dv_on_broadcast(&l, &v, 1, &x));
    dv_dtype t = to < 0 ? v->dtype : (dv_dtype)dv_onnx_dtype(to);
    return finish(&l, n, t, to == DV_ONNX_BOOL, f(cx, n, v->dtype, x));
}

static dv_term by_name(dv_on *cx, const dv_onnx_node *n, dv_dtype t, dv_term x)
{
    (void)t;
    for (size_t i = 0; i < sizeof unaries / sizeof *unaries; i++)
        if (!strcmp(unaries[i].type, n->type))
            return dv_on_1(cx, unaries[i].fn, x);
    return NULL;
}

dv_status dv_on_unary(dv_on *cx, const dv_onnx_node *n)
{
    return one(cx, n, by_name, -1);
}

// Returns log(1 + exp(x)), computed without overflow.
static dv_term softplus(dv_on *cx, dv_term x)
{
    dv_term small = dv_on_1(cx, "exp", dv_on_1(cx, "-", dv_on_1(cx, "abs", x)));
    return dv_on_2(cx, "+", dv_on_1(cx, "relu", x),
                   dv_on_1(cx, "log", dv_on_2(cx, "+", dv_on_f(cx, 1), small)));
}

// Returns the term a * (exp(x / b) - 1).
static dv_term exponential(dv_on *cx, double a, double b, dv_term x)
{
    dv_term e = b == 1 ? x : dv_on_2(cx, "/", x, dv_on_num(cx, DV_F32, b));
    return dv_on_2(cx, "*", dv_on_num(cx, DV_F32, a),
                   dv_on_2(cx, "-", dv_on_1(cx, "exp", e), dv_on_f(cx, 1)));
}

// Returns the term max(0, min(1, a * x + b)).
static dv_term hard_sigmoid(dv_on *cx, double a, double b, dv_term x)
{
    dv_term line =
        dv_on_2(cx, "+", dv_on_2(cx, "*", dv_on_f(cx, a), x), dv_on_f(cx, b));
    return dv_on_2(cx, "max", dv_on_f(cx, 0),
                   dv_on_2(cx, "min", dv_on_f(cx, 1), line));
}

static dv_term gelu(dv_on *cx, const dv_onnx_node *n, dv_term x)
{
    if (strcmp(dv_on_string(n, "approximate", "none"), "tanh") &&
        strcmp(n->type, "FastGelu"))
        return dv_on_1(cx, "gelu", x);
    dv_term cube = dv_on_2(cx, "*", dv_on_2(cx, "*", x, x), x);
    dv_term inner =
        dv_on_2(cx, "+", x, dv_on_2(cx, "*", dv_on_f(cx, 0.044715), cube));
    dv_term t = dv_on_1(
        cx, "tanh", dv_on_2(cx, "*", dv_on_f(cx, 0.7978845608028654), inner));
    return dv_on_2(cx, "*", dv_on_2(cx, "*", dv_on_f(cx, 0.5), x),
                   dv_on_2(cx, "+", dv_on_f(cx, 1), t));
}

static dv_term sign(dv_on *cx, dv_dtype t, dv_term x)
{
    dv_term zero = dv_on_num(cx, t, 0);
    return dv_on_3(cx, "select", dv_on_2(cx, ">", x, zero), dv_on_num(cx, t, 1),
                   dv_on_3(cx, "select", dv_on_2(cx, "<", x, zero),
                           dv_on_num(cx, t, -1), zero));
}

// Returns the term that is `yes` where x < limit and `no` elsewhere.
static dv_term below(dv_on *cx, dv_term x, double limit, dv_term yes,
                     dv_term no)
{
    return dv_on_3(cx, "select",
                   dv_on_2(cx, "<", x, dv_on_num(cx, DV_F32, limit)), yes, no);
}

static dv_term selu(dv_on *cx, const dv_onnx_node *n, dv_term x)
{
    double a = dv_on_float(n, "alpha",
                           cx->opset < 6 ? 1.6732 : 1.67326319217681884765625);
    double g = dv_on_float(n, "gamma",
                           cx->opset < 6 ? 1.0507 : 1.05070102214813232421875);
    return dv_on_2(cx, "*", dv_on_f(cx, g),
                   below(cx, x, 0, exponential(cx, a, 1, x), x));
}

static dv_term shrink(dv_on *cx, const dv_onnx_node *n, dv_dtype t, dv_term x)
{
    double limit = dv_on_float(n, "lambd", 0.5);
    dv_term b = dv_on_num(cx, t, dv_on_float(n, "bias", 0));
    dv_term high = dv_on_2(cx, ">", x, dv_on_num(cx, DV_F32, limit));
    dv_term inner =
        below(cx, x, -limit, dv_on_2(cx, "+", x, b), dv_on_num(cx, t, 0));
    return dv_on_3(cx, "select", high, dv_on_2(cx, "-", x, b), inner);
}

// Returns the formula of an activation, applied to x.
static dv_term activation(dv_on *cx, const dv_onnx_node *n, dv_dtype t,
                          dv_term x)
{
    const char *k = n->type;
    double alpha = dv_on_float(n, "alpha", !strcmp(k, "LeakyRelu") ? 0.01 : 1);
    if (!strcmp(k, "Reciprocal"))
        return dv_on_2(cx, "/", dv_on_f(cx, 1), x);
    if (!strcmp(k, "Softplus"))
        return softplus(cx, x);
    if (!strcmp(k, "Softsign"))
        return dv_on_2(cx, "/", x,
                       dv_on_2(cx, "+", dv_on_f(cx, 1), dv_on_1(cx, "abs", x)));
    if (!strcmp(k, "Elu"))
        return below(cx, x, 0, exponential(cx, alpha, 1, x), x);
    if (!strcmp(k, "Celu"))
        return below(cx, x, 0, exponential(cx, alpha, alpha, x), x);
    if (!strcmp(k, "Selu"))
        return selu(cx, n, x);
    if (!strcmp(k, "LeakyRelu"))
        return below(cx, x, 0, dv_on_2(cx, "*", dv_on_num(cx, t, alpha), x), x);
    if (!strcmp(k, "ThresholdedRelu"))
        return dv_on_3(cx, "select",
                       dv_on_2(cx, ">", x, dv_on_num(cx, t, alpha)), x,
                       dv_on_f(cx, 0));
    if (!strcmp(k, "HardSigmoid"))
        return hard_sigmoid(cx, dv_on_float(n, "alpha", 0.2),
                            dv_on_float(n, "beta", 0.5), x);
    if (!strcmp(k, "HardSwish"))
        return dv_on_2(cx, "*", x, hard_sigmoid(cx, 1.0 / 6, 0.5, x));
    if (!strcmp(k, "Mish"))
        return dv_on_2(cx, "*", x, dv_on_1(cx, "tanh", softplus(cx, x)));
    if (strstr(k, "Gelu") && strcmp(k, "QuickGelu"))
        return gelu(cx, n, x);
    if (!strcmp(k, "QuickGelu"))
        return dv_on_2(
            cx, "*", x,
            dv_on_1(cx, "sigmoid",
                    dv_on_2(cx, "*",
                            dv_on_f(cx, dv_on_float(n, "alpha", 1.702)), x)));
    return !strcmp(k, "Shrink") ? shrink(cx, n, t, x) : sign(cx, t, x);
}

dv_status dv_on_activation(dv_on *cx, const dv_onnx_node *n)
{
    return one(cx, n, activation, -1);
}

// Imports BiasGelu, whose bias is required, and FastGelu, where it is optional.
dv_status dv_on_biased_gelu(dv_on *cx, const dv_onnx_node *n)
{
    dv_on_loop l;
    dv_term x[2];
    DV_TRY(dv_on_need(cx, n, 1));
    dv_on_value *v[] = {dv_on_in(cx, n, 0), dv_on_in(cx, n, 1)};
    dv_on_loop_begin(&l, cx);
    DV_TRY(dv_on_broadcast(&l, v, v[1] ? 2 : 1, x));
    dv_term sum = v[1] ? dv_on_2(cx, "+", x[0], x[1]) : x[0];
    return finish(&l, n, v[0]->dtype, 0, gelu(cx, n, sum));
}

static dv_term logical_not(dv_on *cx, const dv_onnx_node *n, dv_dtype t,
                           dv_term x)
{
    (void)n;
    return dv_on_2(cx, "==", x, dv_on_num(cx, t, 0));
}

dv_status dv_on_not(dv_on *cx, const dv_onnx_node *n)
{
    return one(cx, n, logical_not, DV_ONNX_BOOL);
}

static dv_term is_nan(dv_on *cx, const dv_onnx_node *n, dv_dtype t, dv_term x)
{
    (void)n;
    (void)t;
    return dv_on_2(cx, "!=", x, x);
}

dv_status dv_on_is_nan(dv_on *cx, const dv_onnx_node *n)
{
    return one(cx, n, is_nan, DV_ONNX_BOOL);
}

static dv_term is_inf(dv_on *cx, const dv_onnx_node *n, dv_dtype t, dv_term x)
{
    dv_term inf = dv_on_f(cx, INFINITY);
    int up = dv_on_int(n, "detect_positive", 1) != 0;
    int down = dv_on_int(n, "detect_negative", 1) != 0;
    (void)t;
    if (up && down)
        return dv_on_2(cx, "==", dv_on_1(cx, "abs", x), inf);
    if (!up && !down)
        return dv_on_2(cx, "<", inf, x);
    return dv_on_2(cx, "==", x, up ? inf : dv_on_1(cx, "-", inf));
}

dv_status dv_on_is_inf(dv_on *cx, const dv_onnx_node *n)
{
    return one(cx, n, is_inf, DV_ONNX_BOOL);
}

// -- Clip, PRelu, casts ------------------------------------------------------

dv_status dv_on_clip(dv_on *cx, const dv_onnx_node *n)
{
    dv_on_loop l;
    dv_term x[3];
    dv_on_value *v[3];
    int least = 0, most = 0, count = 1;
    DV_TRY(dv_on_need(cx, n, 1));
    v[0] = dv_on_in(cx, n, 0);
    dv_dtype t = v[0]->dtype;
    if (dv_on_in(cx, n, 1))
        v[least = count++] = dv_on_in(cx, n, 1);
    if (dv_on_in(cx, n, 2))
        v[most = count++] = dv_on_in(cx, n, 2);
    dv_on_loop_begin(&l, cx);
    l.inlines = 1;
    DV_TRY(dv_on_broadcast(&l, v, count, x));
    dv_term y = x[0];
    const dv_onnx_attr *low = dv_on_attr(n, "min"),
                       *high = dv_on_attr(n, "max");
    if (least || low)
        y = dv_on_2(cx, "max", y,
                    least ? x[least] : dv_on_num(cx, t, (double)low->f));
    if (most || high)
        y = dv_on_2(cx, "min", y,
                    most ? x[most] : dv_on_num(cx, t, (double)high->f));
    return finish(&l, n, t, 0, y);
}

dv_status dv_on_prelu(dv_on *cx, const dv_onnx_node *n)
{
    dv_on_loop l;
    dv_term x[2];
    DV_TRY(dv_on_need(cx, n, 2));
    dv_on_value *v[] = {dv_on_in(cx, n, 0), dv_on_in(cx, n, 1)};
    // Before opset 7 the slopes of PRelu always belong to dim 1 (channels).
    if (cx->opset < 7 && dv_on_count(v[1]) > 1 && v[0]->n_dims > 1) {
        int64_t dims[DV_MAX_DIMS];
        for (int d = 0; d < v[0]->n_dims - 1; d++)
            dims[d] = d ? 1 : dv_on_count(v[1]);
        dv_on_value *view = dv_on_temp(cx, v[1]->name);
        if (!view)
            return DV_E_NOMEM;
        DV_TRY(dv_on_reshape(cx, view, v[1], v[0]->n_dims - 1, dims));
        v[1] = view;
    }
    dv_on_loop_begin(&l, cx);
    DV_TRY(dv_on_broadcast(&l, v, 2, x));
    return finish(&l, n, v[0]->dtype, 0,
                  below(cx, x[0], 0, dv_on_2(cx, "*", x[1], x[0]), x[0]));
}

static dv_status cast_to(dv_on *cx, const dv_onnx_node *n, int32_t to)
{
    dv_on_loop l;
    dv_term x;
    dv_on_value *v = dv_on_in(cx, n, 0);
    int t = dv_onnx_dtype(to), is_bool = to == DV_ONNX_BOOL;
    if (t < 0)
        return dv_on_refuse(cx, "type %s is not supported",
                            dv_onnx_type_name(to));
    if ((int)v->dtype == t && v->is_bool == is_bool) {
        dv_on_value *out = dv_on_out(cx, n, 0);
        if (!out)
            return DV_E_NOMEM;
        dv_on_same(out, v);
        return DV_OK;
    }
    if ((v->dtype == DV_U64 && dv_is_float((dv_dtype)t)) ||
        (dv_is_float(v->dtype) && t == DV_U64))
        return dv_on_refuse_u64(cx);
    dv_on_loop_begin(&l, cx);
    DV_TRY(dv_on_broadcast(&l, &v, 1, &x));
    if (is_bool)
        x = dv_on_2(cx, "!=", x, dv_on_num(cx, v->dtype, 0));
    return finish(&l, n, (dv_dtype)t, is_bool, x);
}

dv_status dv_on_cast(dv_on *cx, const dv_onnx_node *n)
{
    static const struct {
        const char *name;
        int type;
    } old[] = {{"FLOAT", 1},    {"UINT8", 2},   {"INT8", 3},    {"UINT16", 4},
               {"INT16", 5},    {"INT32", 6},   {"INT64", 7},   {"BOOL", 9},
               {"FLOAT16", 10}, {"DOUBLE", 11}, {"UINT32", 12}, {"UINT64", 13}};
    DV_TRY(dv_on_need(cx, n, 1));
    int64_t to = dv_on_int(n, "to", 0);
    const char *word = dv_on_string(n, "to", "");
    for (size_t i = 0; i < sizeof old / sizeof *old && !to; i++)
        if (!strcmp(old[i].name, word))
            to = old[i].type;
    return cast_to(cx, n, (int32_t)to);
}

dv_status dv_on_cast_like(dv_on *cx, const dv_onnx_node *n)
{
    DV_TRY(dv_on_need(cx, n, 2));
    const dv_on_value *v = dv_on_in(cx, n, 1);
    for (int32_t to = 1; to <= DV_ONNX_BFLOAT16; to++)
        if (dv_onnx_dtype(to) == (int)v->dtype &&
            v->is_bool == (to == DV_ONNX_BOOL))
            return cast_to(cx, n, to);
    return dv_on_refuse(cx, "the type of its second input is not supported");
}
