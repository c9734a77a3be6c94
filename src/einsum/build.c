// Programs for formulas: a statement a step.
#include "einsum/einsum.h"
#include <inttypes.h>

// -- Types -------------------------------------------------------------------

dv_dtype dv_einsum_dtype(const dv_array *in, size_t n_in)
{
    int has[16] = {0};
    for (size_t i = 0; i < n_in; i++)
        has[in[i].dtype] = 1;
    if (has[DV_F64])
        return DV_F64;
    if (has[DV_F32] || (has[DV_F16] && has[DV_BF16]))
        return DV_F32;
    static const dv_dtype rest[] = {DV_F16, DV_BF16, DV_I64, DV_I32, DV_I8};
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++)
        if (has[rest[i]])
            return rest[i];
    return DV_F32;
}

// What results between are kept in.
static dv_dtype wide(const dv_array *in, size_t n_in, dv_dtype result)
{
    dv_array last = {.dtype = result};
    dv_array both[2] = {{.dtype = dv_einsum_dtype(in, n_in)}, last};
    dv_dtype t = dv_einsum_dtype(both, 2);
    if (t == DV_F16 || t == DV_BF16)
        return DV_F32;
    return t == DV_I8 ? DV_I32 : t;
}

// -- Statements --------------------------------------------------------------

static void put_inputs(dv_text *out, const dv_array *in, int32_t n_in)
{
    for (int32_t i = 0; i < n_in; i++) {
        dv_put(out, "input x%d: %s[", (int)i, dv_dtype_get(in[i].dtype)->name);
        for (int d = 0; d < in[i].n_dims; d++)
            dv_put(out, "%s%" PRId64, d ? ", " : "", in[i].shape[d]);
        dv_put(out, "]\n");
    }
}

static void put_ids(dv_text *out, const dv_formula *f, const dv_term *t)
{
    dv_id_name name;
    dv_put(out, "[");
    for (int d = 0; d < t->n_dims; d++)
        dv_put(out, "%s%s", d ? "," : "",
               t->id[d] == DV_NO_ID ? "0" : dv_id_text(f, t->id[d], name));
    dv_put(out, "]");
}

static void put_sums(dv_text *out, const dv_formula *f, dv_ids sums)
{
    dv_id_name name;
    const char *before = "sum[";
    for (int id = 0; id < DV_MAX_IDS; id++)
        if (dv_ids_has(sums, id)) {
            dv_put(out, "%s%s", before, dv_id_text(f, id, name));
            before = ",";
        }
    if (!dv_ids_none(sums))
        dv_put(out, "] ");
}

static void put_factor(dv_text *out, const dv_formula *f, const dv_path *p,
                       int32_t n)
{
    if (n < f->n_in)
        dv_put(out, "x%d", (int)n);
    else
        dv_put(out, "t%d", (int)(n - f->n_in));
    put_ids(out, f, dv_path_term(f, p, n));
}

void dv_path_program(dv_text *out, const dv_formula *f, const dv_path *p,
                     const dv_array *in, dv_dtype dtype)
{
    const char *between = dv_dtype_get(wide(in, (size_t)f->n_in, dtype))->name;
    put_inputs(out, in, f->n_in);
    for (int32_t i = 0; i < p->n_steps; i++) {
        const dv_step *s = &p->steps[i];
        int last = i + 1 == p->n_steps;
        if (last)
            dv_put(out, "y");
        else
            dv_put(out, "t%d", (int)i);
        put_ids(out, f, &s->out);
        dv_put(out, ": %s = ", last ? dv_dtype_get(dtype)->name : between);
        put_sums(out, f, s->sums);
        put_factor(out, f, p, s->a);
        if (s->b >= 0) {
            dv_put(out, " * ");
            put_factor(out, f, p, s->b);
        }
        dv_put(out, "\n");
    }
    dv_put(out, "output y\n");
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
    put_sums(out, f, dv_ids_less(box, dv_term_ids(&f->out)));
    for (int32_t i = 0; i < f->n_in; i++) {
        dv_put(out, "%sx%d", i ? " * " : "", (int)i);
        put_ids(out, f, &f->in[i]);
    }
    dv_put(out, "\noutput y\n");
}
