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
    case DV_I16:
        return "int16_t";
    case DV_I8:
        return "int8_t";
    case DV_U64:
        return "uint64_t";
    case DV_U32:
        return "uint32_t";
    case DV_U8:
    case DV_BOOL:
        return "uint8_t";
    default: // u16, and f16 and bf16 are stored as their 16 bits
        return "uint16_t";
    }
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

// Prints an index expression: factor * (value of a read, if the index is
// indirect) + base + sum of coef * var, omitting zero terms.
static void put_index(dv_text *out, const emit_op *o, const dv_index *x)
{
    int any = x->via >= 0;
    if (any && x->factor != 1)
        dv_put(out, "%" PRId64 " * ", x->factor);
    if (any)
        put_read(out, o, x->via, 1);
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
    // Row-major order: the stride of a dim is the product of the extents of the
    // dims after it.
    int64_t stride = t->n_elems;
    for (int d = 0; d < a->n_dims; d++) {
        stride /= t->shape[d] ? t->shape[d] : 1;
        dv_put(out, "%s", d ? " + " : "");
        if (stride != 1)
            dv_put(out, "%" PRId64 " * ", stride);
        if (a->index[d].via >= 0) {
            dv_put(out, "rt_index(");
            put_index(out, o, &a->index[d]);
            dv_put(out, ", %" PRId64 ")", t->shape[d]);
        } else {
            dv_put(out, "(");
            put_index(out, o, &a->index[d]);
            dv_put(out, ")");
        }
    }
    dv_put(out, a->n_dims ? "]" : "0]");
}

// Prints a condition that is true if all indices of the access are inside of
// its tensor.
static void put_inside(dv_text *out, const emit_op *o, const dv_access *a)
{
    for (int d = 0; d < a->n_dims; d++) {
        dv_put(out, "%srt_inside(", d ? " && " : "");
        put_index(out, o, &a->index[d]);
        dv_put(out, ", %" PRId64 ")", o->p->tensors[a->tensor].shape[d]);
    }
    if (!a->n_dims)
        dv_put(out, "1");
}

static void put_const(dv_text *out, double v, int whole);

static void put_read(dv_text *out, const emit_op *o, int32_t read, int whole)
{
    const dv_access *a = &o->op->reads[read];
    dv_dtype t = o->p->tensors[a->tensor].dtype;
    int is_float = dv_is_float(t);
    const char *load = t == DV_F16    ? "rt_from_f16("
                       : t == DV_BF16 ? "rt_from_bf16("
                       : is_float     ? "(double)("
                       : whole        ? "(int64_t)("
                       : t == DV_U64  ? "(double)(int64_t)("
                                      : "(double)(";
    if (a->has_border) {
        dv_put(out, "(");
        put_inside(out, o, a);
        dv_put(out, " ? ");
    }
    dv_put(out, "%s%s", whole && is_float ? "rt_to_int(" : "", load);
    dv_emit_access(out, o, a, o->old && a->tensor == o->op->write.tensor);
    dv_put(out, ")%s", whole && is_float ? ")" : "");
    if (a->has_border) {
        dv_put(out, " : %s", whole && is_float ? "rt_to_int(" : "");
        put_const(out, a->border, whole && !is_float);
        dv_put(out, "%s)", whole && is_float ? ")" : "");
    }
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

// Returns the C text of a function, for doubles or for integers, in which x, y
// and z stand for its arguments.
static const char *text_of(dv_fn fn, int whole)
{
#define TEXT(...)  AGAIN(__VA_ARGS__)
#define AGAIN(...) #__VA_ARGS__
#define FN(f)      f
#define NONE       0
    static const char *const real[] = {
#define T      double
#define OWN(f) rt_##f
#define DV_FN(NAME, text, word, n_args, prec, takes, flops, ulps, slope, real, \
              whole)                                                           \
    TEXT(real),
#include "lang/op.def"
#undef T
#undef OWN
    };
    static const char *const integer[] = {
#define T      int64_t
#define OWN(f) rt_i##f
#define DV_FN(NAME, text, word, n_args, prec, takes, flops, ulps, slope, real, \
              whole)                                                           \
    TEXT(whole),
#include "lang/op.def"
#undef T
#undef OWN
    };
    return whole ? integer[fn] : real[fn];
}

static int is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static void put_apply(dv_text *out, const emit_op *o, const dv_expr *e,
                      int whole)
{
    const char *text = text_of((dv_fn)e->fn, whole);
    for (const char *c = text; *c; c++) {
        int alone = (c == text || !is_word(c[-1])) && !is_word(c[1]);
        int arg = *c - 'x';
        if (alone && arg >= 0 && arg < e->n_args)
            dv_emit_value(out, o, e->arg[arg],
                          // The condition of a select has any type.
                          whole && !(e->fn == DV_FN_SELECT && arg == 0));
        else
            dv_put(out, "%c", *c);
    }
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
    if (e->kind == DV_EXPR_INDEX) {
        dv_put(out, whole ? "(int64_t)(" : "(double)(");
        dv_emit_var(out, o->op, e->read);
        if (e->base == INT64_MIN)
            dv_put(out, " + INT64_MIN)");
        else if (e->base)
            dv_put(out, " %c INT64_C(%" PRId64 "))", e->base < 0 ? '-' : '+',
                   e->base < 0 ? -e->base : e->base);
        else
            dv_put(out, ")");
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
    int cuts = !is_float && !whole && t != DV_BOOL;
    const char *conv = t == DV_F16    ? "rt_to_f16("
                       : t == DV_BF16 ? "rt_to_bf16("
                       : t == DV_F32  ? "(float)("
                       : t == DV_F64  ? "("
                       : t == DV_BOOL ? "0 != ("
                                      : "";
    if (!is_float && t != DV_BOOL)
        dv_put(out, "(%s)(", dv_ctype(t));
    // A double stored into an integer tensor is truncated; NaN becomes 0.
    dv_put(out, "%s%s", conv, cuts ? "rt_to_int(rt_nan_to_0(" : "");
    dv_emit_value(out, o, e, whole && !is_float);
    dv_put(out, ")%s", cuts ? "))" : "");
}
