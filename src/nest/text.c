// Reads and prints nests as text. Strides of 0 are left out, so that a line
// shows which operands have its dimension:
//
//   nest blocked f32 {
//       first zero
//       main brgemm
//       pack in1
//       in0 f16
//       m 32 shared: in0 8192, out 32768
//       m 20 of 31 seq pack in0 out: in0 8, out 32
//       …
//   }
#include "nest/nest.h"
#include "base/file.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

// Returns the i in 0..n-1 for which name(i) is the word at the lexer's
// position, or -1.
static int which(const dv_lexer *lx, const char *(*name)(int), int n)
{
    for (int i = 0; i < n; i++)
        if (dv_lex_is(lx, name(i)))
            return i;
    return -1;
}

static const char *type_name(int i)
{
    return dv_nest_type_name((dv_nest_type)i);
}

static const char *exec_name(int i)
{
    return dv_nest_exec_name((dv_nest_exec)i);
}

static const char *touch_name(int i)
{
    static const char *const names[] = {"first", "main", "last"};
    return names[i];
}

static dv_status read_stride(dv_lexer *lx, dv_nest_dim *d, int seen[])
{
    char buf[48];
    int o = which(lx, dv_nest_operand_name, DV_MAX_OPERANDS), minus;
    if (o < 0)
        return dv_lex_expected(lx, "in0, in1, in2 or out");
    if (seen[o]++)
        return dv_fail(lx->diag, DV_E_NAME, dv_lex_at(lx),
                       "%s has a stride already, %" PRId64,
                       dv_lex_show(lx, buf), d->stride[o]);
    DV_TRY(dv_lex(lx));
    minus = lx->tok.kind == '-';
    if (minus)
        DV_TRY(dv_lex(lx));
    DV_TRY(dv_lex_int(lx, &d->stride[o], "a stride"));
    if (minus)
        d->stride[o] = -d->stride[o];
    return DV_OK;
}

// Reads a packing mark, such as `pack in0 out`.
static dv_status read_pack(dv_lexer *lx, uint8_t *pack)
{
    int o = -1;
    DV_TRY(dv_lex_word(lx, "pack"));
    while ((o = which(lx, dv_nest_operand_name, DV_N_OPERANDS)) >= 0) {
        *pack |= (uint8_t)(1 << o);
        DV_TRY(dv_lex(lx));
    }
    return *pack ? DV_OK : dv_lex_expected(lx, "in0, in1 or out");
}

// Reads a dimension, such as `m 32 of 1601 shared pack in0: in0 8192, out
// 32768`.
static dv_status read_dim(dv_lexer *lx, dv_nest *n)
{
    int seen[DV_MAX_OPERANDS] = {0}, exec;
    if (n->n_dims == DV_NEST_MAX_DIMS)
        return dv_fail(lx->diag, DV_E_LIMIT, dv_lex_at(lx),
                       "dimension %d: a nest has %d at most", (int)n->n_dims,
                       (int)DV_NEST_MAX_DIMS);
    dv_nest_dim *d = &n->dims[n->n_dims++];
    *d = (dv_nest_dim){.off = lx->tok.off};
    d->type = (dv_nest_type)which(lx, type_name, 4);
    DV_TRY(dv_lex(lx));
    DV_TRY(dv_lex_int(lx, &d->size, "the size of the dimension"));
    if (dv_lex_is(lx, "of")) {
        DV_TRY(dv_lex(lx));
        DV_TRY(dv_lex_int(lx, &d->whole, "the size of the whole dimension"));
        if (d->whole < 1) { // 0 stands for a dimension that is not tiled
            dv_status st =
                dv_fail(lx->diag, DV_E_NEST, (dv_loc){lx->src, d->off},
                        "wrong_dimension: tiles of %" PRId64, d->whole);
            dv_diag_set_rule(lx->diag, DV_NEST_RULE_DIMENSION);
            return st;
        }
    }
    exec = which(lx, exec_name, 3);
    if (exec < 0)
        return dv_lex_expected(lx, "shared, seq or prim");
    d->exec = (dv_nest_exec)exec;
    DV_TRY(dv_lex(lx));
    if (dv_lex_is(lx, "pack"))
        DV_TRY(read_pack(lx, &d->pack));
    if (lx->tok.kind != ':')
        return DV_OK;
    do {
        DV_TRY(dv_lex(lx)); // skip the ':' or ','
        DV_TRY(read_stride(lx, d, seen));
    } while (lx->tok.kind == ',');
    if (dv_lex_is(lx, "pack") && !dv_lex_begins_line(lx, lx->tok.off))
        return dv_lex_expected(lx,
                               "the end of the line: what a dimension packs "
                               "stands before its ':'");
    return DV_OK;
}

static dv_status read_prim(dv_lexer *lx, dv_prim *to)
{
    char buf[48];
    int p = lx->tok.kind == DV_TOK_NAME
                ? dv_prim_find(lx->src->text + lx->tok.off, lx->tok.len)
                : -1;
    if (p < 0) {
        dv_status st = dv_fail(lx->diag, DV_E_NEST, dv_lex_at(lx),
                               "wrong_primitive: there is no primitive %s",
                               dv_lex_show(lx, buf));
        dv_diag_set_rule(lx->diag, DV_NEST_RULE_PRIMITIVE);
        return st;
    }
    *to = (dv_prim)p;
    return dv_lex(lx);
}

static dv_status read_dtype(dv_lexer *lx, dv_dtype *out)
{
    char buf[48];
    int t = lx->tok.kind == DV_TOK_NAME
                ? dv_dtype_find(lx->src->text + lx->tok.off, lx->tok.len)
                : -1;
    if (t < 0)
        return dv_fail(lx->diag, DV_E_DTYPE, dv_lex_at(lx),
                       "%s is no element type", dv_lex_show(lx, buf));
    *out = (dv_dtype)t;
    return dv_lex(lx);
}

// Reads a constant, such as `-0.5` or `inf`.
static dv_status read_value(dv_lexer *lx, double *value)
{
    int minus = lx->tok.kind == '-';
    if (minus)
        DV_TRY(dv_lex(lx));
    if (dv_lex_is(lx, "inf"))
        *value = INFINITY;
    else if (dv_lex_is(lx, "nan"))
        *value = NAN;
    else if (lx->tok.kind == DV_TOK_INT || lx->tok.kind == DV_TOK_FLOAT)
        *value = lx->tok.f;
    else
        return dv_lex_expected(lx, "a number");
    if (minus && !isnan(*value)) // NaN is printed without a sign
        *value = -*value;
    return dv_lex(lx);
}

// Reads the type or value of an operand, such as `in0 f16` or `in0 = 0.5`.
static dv_status read_operand(dv_lexer *lx, dv_nest *n, int o)
{
    dv_loc at = dv_lex_at(lx);
    if (n->types[o] || n->constants >> o & 1)
        return dv_fail(lx->diag, DV_E_NAME, at, "%s is said to be %s already",
                       dv_nest_operand_name(o),
                       n->types[o] ? dv_dtype_get(dv_nest_dtype(n, o))->name
                                   : "a constant");
    DV_TRY(dv_lex(lx));
    if (lx->tok.kind == '=') {
        DV_TRY(dv_lex(lx));
        n->constants |= (uint8_t)(1 << o);
        return read_value(lx, &n->value[o]);
    }
    dv_dtype t = n->dtype;
    DV_TRY(read_dtype(lx, &t));
    // A type equal to the nest's is stored as 0, so that equal nests have equal
    // fields.
    n->types[o] = (uint8_t)(t == n->dtype ? 0 : 1 + t);
    return DV_OK;
}

// Reads an indirect index, such as `look in0 by in2 64 of 10`.
static dv_status read_look(dv_lexer *lx, dv_nest *n)
{
    if (n->look)
        return dv_fail(lx->diag, DV_E_NAME, dv_lex_at(lx),
                       "%s is looked up already, one operand can be",
                       dv_nest_operand_name(n->look - 1));
    DV_TRY(dv_lex(lx));
    int o = which(lx, dv_nest_operand_name, DV_N_OPERANDS);
    if (o < 0)
        return dv_lex_expected(lx, "in0, in1 or out");
    n->look = (uint8_t)(1 + o);
    DV_TRY(dv_lex(lx));
    DV_TRY(dv_lex_word(lx, "by"));
    DV_TRY(dv_lex_word(lx, "in2"));
    DV_TRY(dv_lex_int(lx, &n->index_stride, "the elements that an index goes"));
    DV_TRY(dv_lex_word(lx, "of"));
    return dv_lex_int(lx, &n->index_count, "how many indices there are");
}

static dv_status read_item(dv_lexer *lx, dv_nest *n)
{
    int o = which(lx, dv_nest_operand_name, DV_MAX_OPERANDS);
    if (o >= 0)
        return read_operand(lx, n, o);
    if (which(lx, type_name, 4) >= 0)
        return read_dim(lx, n);
    if (dv_lex_is(lx, "pack"))
        return read_pack(lx, &n->pack);
    if (dv_lex_is(lx, "look"))
        return read_look(lx, n);
    if (dv_lex_is(lx, "mean"))
        n->mean = 1;
    else if (dv_lex_is(lx, "laid"))
        n->laid = 1;
    else
        return dv_lex_expected(
            lx, "a dimension (c, m, n, k), first, main, last, an "
                "operand, pack, look, laid, mean or '}'");
    return dv_lex(lx);
}

static dv_status read_items(dv_lexer *lx, dv_nest *n)
{
    dv_prim *touch[] = {&n->first, &n->main, &n->last};
    int seen[3] = {0};
    while (lx->tok.kind != '}') {
        int t = which(lx, touch_name, 3);
        if (t >= 0) {
            if (seen[t]++)
                return dv_fail(lx->diag, DV_E_NAME, dv_lex_at(lx),
                               "%s is given already: %s", touch_name(t),
                               dv_prim_get(*touch[t])->name);
            DV_TRY(dv_lex(lx));
            DV_TRY(read_prim(lx, touch[t]));
        } else {
            DV_TRY(read_item(lx, n));
        }
    }
    return dv_lex(lx);
}

// Reads one nest, from the word `nest` to its closing brace. Only the syntax is
// checked.
static dv_status read_nest(dv_lexer *lx, dv_nest *out)
{
    dv_nest n = {.src = lx->src, .off = lx->tok.off};
    DV_TRY(dv_lex_word(lx, "nest"));
    const char *word = lx->src->text + lx->tok.off;
    if (lx->tok.kind == DV_TOK_NAME && lx->tok.len > DV_NEST_MAX_NAME)
        return dv_fail(lx->diag, DV_E_LIMIT, dv_lex_at(lx),
                       "the name has %u letters, the most is %d", lx->tok.len,
                       (int)DV_NEST_MAX_NAME);
    if (lx->tok.kind == DV_TOK_NAME)
        memcpy(n.name, word, lx->tok.len);
    DV_TRY(dv_lex_expect(lx, DV_TOK_NAME, "the name of the nest"));
    DV_TRY(read_dtype(lx, &n.dtype));
    DV_TRY(dv_lex_expect(lx, '{', "'{'"));
    DV_TRY(read_items(lx, &n));
    *out = n;
    return DV_OK;
}

dv_status dv_nest_from(dv_nest *out, const dv_source *src, dv_diag *diag)
{
    dv_lexer lx;
    dv_nest n;
    DV_TRY(dv_lexer_init(&lx, src, diag));
    DV_TRY(read_nest(&lx, &n));
    DV_TRY(dv_lex_expect(&lx, DV_TOK_END, "the end of the text"));
    *out = n;
    return DV_OK;
}

static int width_of(int64_t v)
{
    int width = 1;
    for (; v > 9; v /= 10)
        width++;
    return width;
}

static void print_pack(dv_text *out, int pack)
{
    dv_put(out, "pack");
    for (int o = 0; o < DV_N_OPERANDS; o++)
        if (pack >> o & 1)
            dv_put(out, " %s", dv_nest_operand_name(o));
}

// Returns the operand that is printed at position i: inputs come before the
// output.
static int in_print_order(int i)
{
    static const int order[] = {DV_IN0, DV_IN1, DV_IN2, DV_OUT};
    return order[i];
}

static void print_operands(dv_text *out, const dv_nest *n)
{
    for (int i = 0; i < DV_MAX_OPERANDS; i++) {
        int o = in_print_order(i);
        if (n->constants >> o & 1) {
            dv_put(out, "    %s = ", dv_nest_operand_name(o));
            dv_put_double(out, n->value[o]);
            dv_put(out, "\n");
        } else if (n->types[o]) {
            dv_put(out, "    %s %s\n", dv_nest_operand_name(o),
                   dv_dtype_get(dv_nest_dtype(n, o))->name);
        }
    }
    if (n->look)
        dv_put(out, "    look %s by in2 %" PRId64 " of %" PRId64 "\n",
               dv_nest_operand_name(n->look - 1), n->index_stride,
               n->index_count);
}

static void print_dim(dv_text *out, const dv_nest_dim *d, int width)
{
    dv_put(out, "    %s %*" PRId64, dv_nest_type_name(d->type), width, d->size);
    if (d->whole)
        dv_put(out, " of %" PRId64, d->whole);
    dv_put(out, " %s", dv_nest_exec_name(d->exec));
    if (d->pack) {
        dv_put(out, " ");
        print_pack(out, d->pack);
    }
    const char *sep = ": ";
    for (int i = 0; i < DV_MAX_OPERANDS; i++) {
        int o = in_print_order(i);
        if (!d->stride[o])
            continue;
        dv_put(out, "%s%s %" PRId64, sep, dv_nest_operand_name(o),
               d->stride[o]);
        sep = ", ";
    }
    dv_put(out, "\n");
}

void dv_nest_print(dv_text *out, const dv_nest *n)
{
    const dv_prim touch[] = {n->first, n->main, n->last};
    int width = 1;
    dv_put(out, "nest %s %s {\n", n->name, dv_dtype_get(n->dtype)->name);
    for (int t = 0; t < 3; t++)
        if (touch[t] != DV_PRIM_NONE)
            dv_put(out, "    %s %s\n", touch_name(t),
                   dv_prim_get(touch[t])->name);
    if (n->mean)
        dv_put(out, "    mean\n");
    if (n->laid)
        dv_put(out, "    laid\n");
    print_operands(out, n);
    if (n->pack) {
        dv_put(out, "    ");
        print_pack(out, n->pack);
        dv_put(out, "\n");
    }
    for (int i = 0; i < n->n_dims; i++)
        if (width_of(n->dims[i].size) > width)
            width = width_of(n->dims[i].size);
    for (int i = 0; i < n->n_dims; i++)
        print_dim(out, &n->dims[i], width);
    dv_put(out, "}\n");
}

// A nest together with the text that it borrows, in one allocation.
typedef struct owner {
    dv_nest n; // first, so that a pointer to the nest frees it all
    dv_source src;
} owner;

dv_status dv_nest_parse(dv_nest **out, const char *text, size_t len,
                        const char *name, dv_diag *diag)
{
    size_t name_len = strlen(name);
    if (len > (size_t)DV_MAX_TEXT_BYTES)
        return dv_fail(diag, DV_E_LIMIT, DV_NOWHERE,
                       "the text of the nest has %zu bytes", len);
    owner *o = dv_alloc(sizeof *o + len + name_len + 2);
    if (!o)
        return dv_nomem(diag);
    char *copy = (char *)(o + 1), *name_copy = copy + len + 1;
    memcpy(copy, text, len);
    copy[len] = 0;
    memcpy(name_copy, name, name_len + 1);
    o->src = (dv_source){name_copy, copy, len};
    dv_status s = dv_nest_from(&o->n, &o->src, diag);
    if (s)
        dv_release(o);
    else
        *out = &o->n;
    return s;
}

void dv_nest_destroy(dv_nest *n)
{
    dv_release(n);
}

char *dv_nest_text(const dv_nest *n)
{
    dv_text out = {0};
    dv_nest_print(&out, n);
    return dv_text_take(&out);
}
