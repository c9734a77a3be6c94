// Prints the expressions of ops (lowered statements) as C.
#include "emit/emit.h"
#include <ctype.h>
#include <inttypes.h>
#include <math.h>

const char *dv_ctype(dv_dtype t)
{
    switch (t) {
    case DV_F64:
        return "double";
    case DV_F32:
        return "float";
    case DV_I64:
        return "int64_t";
    case DV_I32:
        return "int32_t";
    case DV_I8:
        return "int8_t";
    default: // f16 and bf16 are stored as their 16 bits
        return "uint16_t";
    }
}

int dv_expr_is_integer(const dv_expr *e)
{
    return e->dtype == DV_WEAK_INT || e->dtype == DV_I64 ||
           e->dtype == DV_I32 || e->dtype == DV_I8;
}

static void put_name(dv_text *out, const char *name)
{
    for (; *name; name++)
        dv_put(out, "%c", isalnum((unsigned char)*name) ? *name : '_');
}

void dv_emit_var(dv_text *out, const dv_op *op, int v)
{
    put_name(out, op->vars[v].name);
    dv_put(out, "_%d", v);
}

void dv_emit_tensor(dv_text *out, const dv_program *p, int32_t tensor)
{
    dv_put(out, "t%d_", (int)tensor);
    put_name(out, p->tensors[tensor].name);
}

static void put_read(dv_text *out, const emit_op *o, int32_t read, int whole);

// Prints an index as base + sum of coef * var, omitting zero terms.
static void put_index(dv_text *out, const emit_op *o, const dv_index *x)
{
    int any = 0;
    for (int v = 0; v < o->op->n_vars; v++) {
        if (!x->coef[v])
            continue;
        dv_put(out, "%s", any ? " + " : "");
        if (x->coef[v] != 1)
            dv_put(out, "%" PRId64 " * ", x->coef[v]);
        dv_emit_var(out, o->op, v);
        any = 1;
    }
    if (x->base || !any)
        dv_put(out, "%s%" PRId64, any ? " + " : "", x->base);
}

void dv_emit_access(dv_text *out, const emit_op *o, const dv_access *a, int old)
{
    const dv_tensor *t = &o->p->tensors[a->tensor];
    if (old)
        dv_put(out, "old");
    else
        dv_emit_tensor(out, o->p, a->tensor);
    dv_put(out, "[");
    // Row-major order: the stride of a dim is the element count divided by the
    // extents of the dims up to it.
    int64_t stride = t->n_elems;
    for (int d = 0; d < a->n_dims; d++) {
        stride /= t->shape[d] ? t->shape[d] : 1;
        dv_put(out, "%s", d ? " + " : "");
        if (stride != 1)
            dv_put(out, "%" PRId64 " * ", stride);
        if (a->index[d].via >= 0) {
            dv_put(out, "rt_index(");
            put_read(out, o, a->index[d].via, 1);
            dv_put(out, ", %" PRId64 ")", t->shape[d]);
        } else {
            dv_put(out, "(");
            put_index(out, o, &a->index[d]);
            dv_put(out, ")");
        }
    }
    dv_put(out, a->n_dims ? "]" : "0]");
}

static void put_read(dv_text *out, const emit_op *o, int32_t read, int whole)
{
    const dv_access *a = &o->op->reads[read];
    dv_dtype t = o->p->tensors[a->tensor].dtype;
    int is_float = dv_is_float(t);
    const char *load = t == DV_F16    ? "rt_from_f16("
                       : t == DV_BF16 ? "rt_from_bf16("
                       : is_float     ? "(double)("
                       : whole        ? "(int64_t)("
                                      : "(double)(";
    dv_put(out, "%s%s", whole && is_float ? "rt_to_int(" : "", load);
    dv_emit_access(out, o, a, o->old && a->tensor == o->op->write.tensor);
    dv_put(out, ")%s", whole && is_float ? ")" : "");
}

static void put_const(dv_text *out, double v, int whole)
{
    if (whole)
        dv_put(out, "INT64_C(%" PRId64 ")", (int64_t)v);
    else if (isnan(v))
        dv_put(out, "NAN");
    else if (isinf(v))
        dv_put(out, v < 0 ? "-INFINITY" : "INFINITY");
    else
        dv_put_double(out, v);
}

// The text of a function before, between and after its arguments, for doubles
// and for integers; NULL if there is no integer version.
typedef struct fn_text {
    const char *open, *mid, *close, *whole_open, *whole_mid, *whole_close;
} fn_text;

static fn_text words_of(dv_fn fn)
{
#define INFIX(op)                                                              \
    {                                                                          \
        "(", " " op " ", ")", "(", " " op " ", ")"                             \
    }
#define CALL(real, whole)                                                      \
    {                                                                          \
        real "(", ", ", ")", whole "(", ", ", ")"                              \
    }
#define REAL(open, close)                                                      \
    {                                                                          \
        open, ", ", close, NULL, NULL, NULL                                    \
    }
    static const fn_text table[] = {
        [DV_FN_LT] = INFIX("<"),
        [DV_FN_LE] = INFIX("<="),
        [DV_FN_GT] = INFIX(">"),
        [DV_FN_GE] = INFIX(">="),
        [DV_FN_EQ] = INFIX("=="),
        [DV_FN_NE] = INFIX("!="),
        [DV_FN_ADD] = {"(", " + ", ")", "rt_add(", ", ", ")"},
        [DV_FN_SUB] = {"(", " - ", ")", "rt_sub(", ", ", ")"},
        [DV_FN_MUL] = {"(", " * ", ")", "rt_mul(", ", ", ")"},
        [DV_FN_DIV] = {"(", " / ", ")", NULL, NULL, NULL},
        [DV_FN_NEG] = {"(-", "", ")", "rt_sub(0, ", "", ")"},
        [DV_FN_EXP] = REAL("exp(", ")"),
        [DV_FN_LOG] = REAL("log(", ")"),
        [DV_FN_SQRT] = REAL("sqrt(", ")"),
        [DV_FN_RSQRT] = REAL("(1 / sqrt(", "))"),
        [DV_FN_TANH] = REAL("tanh(", ")"),
        [DV_FN_ERF] = REAL("erf(", ")"),
        [DV_FN_SIGMOID] = REAL("rt_sigmoid(", ")"),
        [DV_FN_SILU] = REAL("rt_silu(", ")"),
        [DV_FN_GELU] = REAL("rt_gelu(", ")"),
        [DV_FN_RELU] = {"rt_relu(", "", ")", "rt_imax(0, ", "", ")"},
        [DV_FN_ABS] = CALL("fabs", "rt_iabs"),
        [DV_FN_MIN] = CALL("rt_min", "rt_imin"),
        [DV_FN_MAX] = CALL("rt_max", "rt_imax"),
    };
    return table[fn];
}

static void put_apply(dv_text *out, const emit_op *o, const dv_expr *e,
                      int whole)
{
    if (e->fn == DV_FN_SELECT) {
        dv_put(out, "(");
        dv_emit_value(out, o, e->arg[0], 0);
        dv_put(out, " != 0 ? ");
        dv_emit_value(out, o, e->arg[1], whole);
        dv_put(out, " : ");
        dv_emit_value(out, o, e->arg[2], whole);
        dv_put(out, ")");
        return;
    }
    fn_text w = words_of((dv_fn)e->fn);
    int compares = e->fn <= DV_FN_NE;
    if (compares) // cast the 0 or 1 of a comparison to the requested type
        dv_put(out, whole ? "(int64_t)" : "(double)");
    dv_put(out, "%s", whole ? w.whole_open : w.open);
    for (int i = 0; i < e->n_args; i++) {
        dv_put(out, "%s", i ? whole ? w.whole_mid : w.mid : "");
        dv_emit_value(out, o, e->arg[i], whole);
    }
    dv_put(out, "%s", whole ? w.whole_close : w.close);
}

void dv_emit_value(dv_text *out, const emit_op *o, const dv_expr *e, int whole)
{
    int own = dv_expr_is_integer(e);
    if (e->kind == DV_EXPR_CONST) {
        put_const(out, e->value, whole && own);
        return;
    }
    if (e->kind == DV_EXPR_READ) {
        put_read(out, o, e->read, whole);
        return;
    }
    // Compute in the expression's own type, then convert to the requested one.
    if (own != whole)
        dv_put(out, whole ? "rt_to_int(" : "(double)(");
    if (e->kind == DV_EXPR_REDUCE)
        dv_put(out, "r");
    else
        put_apply(out, o, e, own);
    if (own != whole)
        dv_put(out, ")");
}

void dv_emit_stored(dv_text *out, const emit_op *o, const dv_expr *e)
{
    dv_dtype t = o->p->tensors[o->op->write.tensor].dtype;
    int whole = dv_expr_is_integer(e), is_float = dv_is_float(t);
    const char *conv = t == DV_F16    ? "rt_to_f16("
                       : t == DV_BF16 ? "rt_to_bf16("
                       : t == DV_F32  ? "(float)("
                       : t == DV_F64  ? "("
                       : t == DV_I32  ? "(int32_t)("
                       : t == DV_I8   ? "(int8_t)("
                                      : "(";
    // A double stored into an integer tensor is truncated; NaN becomes 0.
    dv_put(out, "%s%s", conv,
           !is_float && !whole ? "rt_to_int(rt_nan_to_0(" : "");
    dv_emit_value(out, o, e, whole && !is_float);
    dv_put(out, ")%s", !is_float && !whole ? "))" : "");
}
