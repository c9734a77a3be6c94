// Writes a formula (a parsed einsum expression) as a program of the divvy
// language, with one statement per product.
#include "einsum/einsum.h"
#include <string.h>

// Returns whether a type holds all values of another. Floats hold integers of
// fewer bits than their mantissa.
static int holds(dv_dtype t, dv_dtype of)
{
    const dv_dtype_info *a = dv_dtype_get(t), *b = dv_dtype_get(of);
    int bits = 8 * b->size_bytes, is_signed = b->kind == 'i';
    if (t == of || of == DV_BOOL)
        return 1;
    if (t == DV_BOOL)
        return 0;
    if (b->kind == 'f')
        return a->kind == 'f' && a->size_bytes > b->size_bytes;
    if (a->kind == 'f')
        return t == DV_F64 || bits - is_signed <= a->mantissa_bits;
    if (is_signed && a->kind == 'u')
        return 0;
    return a->size_bytes > b->size_bytes ||
           (a->size_bytes == b->size_bytes && a->kind == b->kind);
}

// Returns the narrowest type that holds the values of all operands.
dv_dtype dv_einsum_dtype(const dv_array *in, size_t n_in)
{
    static const dv_dtype by_width[] = {
        DV_BOOL, DV_U8,  DV_I8,   DV_U16, DV_I16, DV_U32, DV_I32,
        DV_U64,  DV_I64, DV_BF16, DV_F16, DV_F32, DV_F64};
    for (size_t t = 0; t < sizeof by_width / sizeof *by_width; t++) {
        size_t i = 0;
        while (i < n_in && holds(by_width[t], in[i].dtype))
            i++;
        if (i == n_in)
            return n_in ? by_width[t] : DV_F32;
    }
    return DV_F64;
}

// Returns the element type of intermediate results. Floats hold the operands
// and the result without rounding. For integers any type that is as wide as the
// result will do, because they wrap: i64 has the bits of u64.
static dv_dtype wide(const dv_array *in, size_t n_in, dv_dtype result)
{
    dv_array both[2] = {{.dtype = dv_einsum_dtype(in, n_in)},
                        {.dtype = result}};
    dv_dtype t = dv_einsum_dtype(both, 2);
    if (t == DV_BOOL)
        return t;
    if (dv_is_float(t))
        return t == DV_F64 ? t : DV_F32;
    return dv_dtype_get(t)->size_bytes == 8 ? DV_I64 : DV_I32;
}

// Text is written without printf formats, because formatting would take longer
// than finding the order of products.
static void put(dv_text *out, const char *s)
{
    dv_put_bytes(out, s, strlen(s));
}

static void put_number(dv_text *out, int64_t n)
{
    char digits[20];
    size_t at = sizeof digits;
    do
        digits[--at] = (char)('0' + n % 10);
    while ((n /= 10) > 0);
    dv_put_bytes(out, digits + at, sizeof digits - at);
}

static void put_numbered(dv_text *out, const char *letter, int64_t n)
{
    put(out, letter);
    put_number(out, n);
}

static void put_inputs(dv_text *out, const dv_array *in, int32_t n_in)
{
    for (int32_t i = 0; i < n_in; i++) {
        put_numbered(out, "input x", i);
        put(out, ": ");
        put(out, dv_dtype_get(in[i].dtype)->name);
        put(out, "[");
        for (int d = 0; d < in[i].n_dims; d++)
            put_numbered(out, d ? ", " : "", in[i].shape[d]);
        put(out, "]\n");
    }
}

static void put_ids(dv_text *out, const dv_formula *f, const dv_einsum_term *t)
{
    dv_id_name name;
    put(out, "[");
    for (int d = 0; d < t->n_dims; d++) {
        put(out, d ? "," : "");
        put(out, t->id[d] == DV_NO_ID ? "0" : dv_id_text(f, t->id[d], name));
    }
    put(out, "]");
}

static void put_sums(dv_text *out, const dv_formula *f, dv_ids sums)
{
    dv_id_name name;
    const char *before = "sum[";
    for (int id = 0; id < DV_MAX_IDS; id++)
        if (dv_ids_has(sums, id)) {
            put(out, before);
            put(out, dv_id_text(f, id, name));
            before = ",";
        }
    if (!dv_ids_none(sums))
        put(out, "] ");
}

static void put_factor(dv_text *out, const dv_formula *f, const dv_path *p,
                       int32_t n)
{
    if (n < f->n_in)
        put_numbered(out, "x", n);
    else
        put_numbered(out, "t", n - f->n_in);
    put_ids(out, f, dv_path_term(f, p, n));
}

// Writes a multiplication that converts the first factor to floating point.
// Like numpy, this converts integers before they are multiplied, so that their
// product cannot wrap.
static void put_conversion(dv_text *out)
{
    put(out, " * 1.0");
}

// Returns whether all factors of a step (a product or sum of the path) are
// integer operands.
static int has_integers_only(const dv_formula *f, const dv_array *in,
                             const dv_einsum_step *s)
{
    return s->a < f->n_in && !dv_is_float(in[s->a].dtype) &&
           (s->b < 0 || (s->b < f->n_in && !dv_is_float(in[s->b].dtype)));
}

void dv_path_program(dv_text *out, const dv_formula *f, const dv_path *p,
                     const dv_array *in, dv_dtype dtype)
{
    dv_dtype type = wide(in, (size_t)f->n_in, dtype);
    const char *between = dv_dtype_get(type)->name;
    put_inputs(out, in, f->n_in);
    for (int32_t i = 0; i < p->n_steps; i++) {
        const dv_einsum_step *s = &p->steps[i];
        int last = i + 1 == p->n_steps;
        if (last)
            put(out, "y");
        else
            put_numbered(out, "t", i);
        put_ids(out, f, &s->out);
        put(out, ": ");
        put(out, last ? dv_dtype_get(dtype)->name : between);
        put(out, " = ");
        put_sums(out, f, s->sums);
        put_factor(out, f, p, s->a);
        if (dv_is_float(type) && has_integers_only(f, in, s))
            put_conversion(out);
        if (s->b >= 0) {
            put(out, " * ");
            put_factor(out, f, p, s->b);
        }
        put(out, "\n");
    }
    put(out, "output y\n");
}

void dv_formula_program(dv_text *out, const dv_formula *f, const dv_array *in,
                        dv_dtype dtype)
{
    dv_ids box = {{0, 0}};
    for (int32_t i = 0; i < f->n_in; i++)
        box = dv_ids_or(box, dv_term_ids(&f->in[i]));
    if (f->is_tree || dv_ids_count(box) > DV_MAX_VARS)
        return;
    put_inputs(out, in, f->n_in);
    dv_put(out, "y");
    put_ids(out, f, &f->out);
    dv_put(out, ": %s = ", dv_dtype_get(dtype)->name);
    put_sums(out, f, dv_ids_minus(box, dv_term_ids(&f->out)));
    int floats = dv_is_float(wide(in, (size_t)f->n_in, dtype));
    for (int32_t i = 0; i < f->n_in; i++) {
        dv_put(out, "%sx%d", i ? " * " : "", (int)i);
        put_ids(out, f, &f->in[i]);
        if (i == 0 && floats && !dv_is_float(in[i].dtype))
            put_conversion(out);
    }
    dv_put(out, "\noutput y\n");
}
