// Emits expressions as calls on tiles in registers. Everything is computed in
// f32: operands are unpacked into registers and functions work in place.
#include "emit/emit.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define P(...) dv_put(&e->out, __VA_ARGS__)
#define PAD    "        "

// For a function of the language: its TT-Metalium call `name`_tile, and the
// header that declares it.
typedef struct call {
    const char *name, *header;
} call;

#define UNARY(name, header)                                                    \
    {                                                                          \
        name, "eltwise_unary/" header                                          \
    }
#define BINARY(name)                                                           \
    {                                                                          \
        name "_binary", "eltwise_binary_sfpu"                                  \
    }

static call call_of(dv_fn fn)
{
    static const call table[DV_N_FNS] = {
        [DV_FN_LT] = BINARY("lt"),
        [DV_FN_LE] = BINARY("le"),
        [DV_FN_GT] = BINARY("gt"),
        [DV_FN_GE] = BINARY("ge"),
        [DV_FN_EQ] = BINARY("eq"),
        [DV_FN_NE] = BINARY("ne"),
        [DV_FN_ADD] = BINARY("add"),
        [DV_FN_SUB] = BINARY("sub"),
        [DV_FN_MUL] = BINARY("mul"),
        [DV_FN_DIV] = BINARY("div"),
        [DV_FN_NEG] = UNARY("negative", "negative"),
        [DV_FN_EXP] = UNARY("exp", "exp"),
        [DV_FN_LOG] = {"log", "compute_kernel_api"},
        [DV_FN_SQRT] = UNARY("sqrt", "sqrt"),
        [DV_FN_RSQRT] = UNARY("rsqrt", "rsqrt"),
        [DV_FN_TANH] = {"tanh", "compute_kernel_api"},
        [DV_FN_ERF] = UNARY("erf", "erf_erfc"),
        [DV_FN_SIGMOID] = {"sigmoid", "compute_kernel_api"},
        [DV_FN_SILU] = {"silu", "compute_kernel_api"},
        [DV_FN_GELU] = UNARY("gelu", "gelu"),
        [DV_FN_SIN] = UNARY("sin", "trigonometry"),
        [DV_FN_COS] = UNARY("cos", "trigonometry"),
        [DV_FN_TAN] = UNARY("tan", "trigonometry"),
        [DV_FN_ASIN] = UNARY("asin", "trigonometry"),
        [DV_FN_ACOS] = UNARY("acos", "trigonometry"),
        [DV_FN_ATAN] = UNARY("atan", "trigonometry"),
        [DV_FN_SINH] = UNARY("sinh", "trigonometry"),
        [DV_FN_COSH] = UNARY("cosh", "trigonometry"),
        [DV_FN_ASINH] = UNARY("asinh", "trigonometry"),
        [DV_FN_ACOSH] = UNARY("acosh", "trigonometry"),
        [DV_FN_ATANH] = UNARY("atanh", "trigonometry"),
        [DV_FN_RELU] = UNARY("relu", "relu"),
        [DV_FN_ABS] = {"abs", "compute_kernel_api"},
        [DV_FN_MIN] = {"binary_min", "binary_max_min"},
        [DV_FN_MAX] = {"binary_max", "binary_max_min"},
        [DV_FN_SELECT] = UNARY("where", "where"),
    };
    return table[fn];
}

const char *dv_emit_device_lacks(const dv_expr *e)
{
    if (e->kind == DV_EXPR_APPLY && !call_of((dv_fn)e->fn).name)
        return dv_fn_get(e->fn)->text;
    const char *lacks = NULL;
    for (int i = 0; i < e->n_args && !lacks; i++)
        lacks = dv_emit_device_lacks(e->arg[i]);
    return lacks;
}

// Returns the template arguments that select a function's exact version instead
// of the fast approximation.
static const char *form_of(dv_fn fn)
{
    return fn == DV_FN_GELU     ? "<false>"
           : fn == DV_FN_ERF    ? "<false>"
           : fn == DV_FN_SELECT ? "<DataFormat::Float32>"
                                : "";
}

void dv_emit_load(emitter *e, emit_layout lay, int cb, int reg)
{
    static const char *const kinds[] = {"ROW", "COL", "SCALAR", "COL", "ROW"};
    // Broadcasting loads read 32-bit floats through the unpacker's source A,
    // other types through source B: configure both for this buffer.
    if (lay >= LAY_ROW)
        P(PAD "reconfig_data_format(%d, %d);\n", cb, cb);
    else
        P(PAD "reconfig_data_format_srca(%d);\n", cb);
    if (lay == LAY_PLAIN)
        P(PAD "copy_tile_to_dst_init_short(%d);\n" PAD
              "copy_tile(%d, 0, %d);\n",
          cb, cb, reg);
    else if (lay == LAY_TRANSPOSED)
        P(PAD "transpose_init(%d);\n" PAD "transpose_tile(%d, 0, %d);\n", cb,
          cb, reg);
    else
        P(PAD "unary_bcast_init<BroadcastType::%s>(%d);\n" PAD
              "unary_bcast<BroadcastType::%s>(%d, 0, %d);\n" PAD
              "unary_bcast_uninit<BroadcastType::%s>(%d);\n",
          kinds[lay - LAY_ROW], cb, kinds[lay - LAY_ROW], cb, reg,
          kinds[lay - LAY_ROW], cb);
}

static void put_fill(emitter *e, double v, int reg)
{
    P(PAD "fill_tile_init();\n" PAD "fill_tile(%d, ", reg);
    if (isinf(v))
        P("%sstd::numeric_limits<float>::infinity()", v < 0 ? "-" : "");
    else if (isnan(v))
        P("std::numeric_limits<float>::quiet_NaN()");
    else
        P("static_cast<float>(%.17g)", v);
    P(");\n");
}

static int operand_of(const emit_kernel *k, int32_t read, int after)
{
    for (int i = 0; i < k->n_in; i++)
        if (k->in[i].read == read &&
            (k->in[i].stage == STAGE_AFTER) == (after != 0))
            return i;
    return -1; // not reached: every read has an operand
}

static int put_leaf(emitter *e, const emit_kernel *k, const dv_expr *x, int reg,
                    int after)
{
    if (x->kind == DV_EXPR_REDUCE)
        return 0;
    if (x->kind == DV_EXPR_CONST) {
        put_fill(e, x->value, reg);
        return reg;
    }
    int i = operand_of(k, x->read, after);
    int transposed = k->in[i].lay >= LAY_TO_COL;
    dv_emit_load(e, k->in[i].lay, transposed ? CB_TRANSPOSED + i : i, reg);
    return reg;
}

int dv_emit_tiles(emitter *e, const emit_kernel *k, const dv_expr *x, int reg,
                  int after)
{
    int at[3] = {0, 0, 0}, held = 0;
    if (x->kind != DV_EXPR_APPLY)
        return put_leaf(e, k, x, reg, after);
    for (int i = 0; i < x->n_args; i++) {
        int sum = dv_expr_has_reduce(x->arg[i]);
        at[i] = dv_emit_tiles(e, k, x->arg[i], reg + held, after);
        held += !sum;
    }
    int out = dv_expr_has_reduce(x) ? 0 : reg;
    call c = call_of((dv_fn)x->fn);
    const char *form = form_of((dv_fn)x->fn);
    P(PAD "%s_tile_init%s();\n", c.name, x->fn == DV_FN_SELECT ? "" : form);
    if (x->n_args == 1)
        P(PAD "%s_tile%s(%d);\n", c.name, form, at[0]);
    else if (x->n_args == 2)
        P(PAD "%s_tile(%d, %d, %d);\n", c.name, at[0], at[1], out);
    else
        P(PAD "%s_tile%s(%d, %d, %d, %d);\n", c.name, form, at[0], at[1], at[2],
          out);
    return out;
}

void dv_emit_step(emitter *e, const emit_kernel *k, int x, int y)
{
    int fn = k->reduce->fn;
    const char *name = fn == DV_RED_MAX   ? "binary_max"
                       : fn == DV_RED_MIN ? "binary_min"
                                          : "add_binary";
    P(PAD "%s_tile_init();\n" PAD "%s_tile(%d, %d, %d);\n", name, name, x, y,
      x);
}

static void put_header(emitter *e, const char *name)
{
    char line[128];
    snprintf(line, sizeof line, "#include \"api/compute/%s.h\"\n", name);
    if (!e->out.at || !strstr(e->out.at, line))
        P("%s", line);
}

static void put_headers_of(emitter *e, const dv_expr *x)
{
    if (x->kind == DV_EXPR_REDUCE) {
        put_headers_of(e, x->arg[0]);
        return;
    }
    if (x->kind == DV_EXPR_CONST)
        put_header(e, "eltwise_unary/fill");
    if (x->kind != DV_EXPR_APPLY)
        return;
    put_header(e, call_of((dv_fn)x->fn).header);
    for (int i = 0; i < x->n_args; i++)
        put_headers_of(e, x->arg[i]);
}

void dv_emit_headers(emitter *e, const emit_kernel *k)
{
    P("#include <limits>\n");
    put_header(e, "common");
    put_header(e, "reconfig_data_format");
    put_header(e, "tile_move_copy");
    put_header(e, "eltwise_unary/eltwise_unary");
    put_header(e, "eltwise_unary/fill");
    put_header(e, "eltwise_binary_sfpu");
    if (k->shape == EMIT_PRODUCT)
        put_header(e, "matmul");
    if (k->shape == EMIT_REDUCE) {
        put_header(e, "reduce");
        put_header(e, "binary_max_min");
        put_header(e, "eltwise_unary/negative");
    }
    put_header(e, "bcast");
    put_header(e, "transpose");
    put_header(e, "eltwise_unary/where");
    put_headers_of(e, k->op->body);
}
