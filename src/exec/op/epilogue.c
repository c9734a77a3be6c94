#include "exec/op/epilogue.h"
#include "base/dtype.h"
#include <string.h>

struct dv_epilogue {
    const dv_op *op; // the op whose reduction precedes the epilogue
    dv_vec_op *vec;
    const int64_t *steps; // strides of the sums along each variable, in bytes
    dv_expr_part part;    // its expression; the sums are its last read
};

// The epilogue as a program of one op, from which dv_vec_op_create makes vector
// kernels.
typedef struct parts {
    dv_program p;
    dv_op op;
    dv_tensor *tensors;
    dv_var *vars;
    dv_access *reads;
    dv_flat *flats;
    int64_t *coef, *steps;
} parts;

static int have(parts *x, const dv_epilogue *f, const dv_epilogue_spec *spec)
{
    size_t n_vars = (size_t)f->op->n_vars,
           n_reads = (size_t)f->part.n_reads + 1;
    x->tensors = DV_NEW(spec->arena, dv_tensor, n_reads + 1);
    x->vars = DV_NEW(spec->arena, dv_var, n_vars);
    x->reads = DV_NEW(spec->arena, dv_access, n_reads);
    x->flats = DV_NEW(spec->arena, dv_flat, n_reads);
    x->coef = DV_NEW(spec->arena, int64_t, n_vars);
    x->steps = DV_NEW(spec->arena, int64_t, n_vars);
    x->op = *f->op;
    x->op.body = f->part.body;
    return x->tensors && x->vars && x->reads && x->flats && x->coef && x->steps;
}

// Copies an access and its tensor; the tensor gets number `at` in the
// epilogue's program. Returns 0 when out of memory.
static int take_access(parts *x, int32_t at, const dv_epilogue *f,
                       const dv_epilogue_spec *spec, const dv_access *from,
                       dv_access *to)
{
    dv_index *index = DV_NEW(spec->arena, dv_index, from->n_dims);
    for (int d = 0; d < from->n_dims && index; d++) {
        index[d] = from->index[d];
        if (index[d].via >= 0)
            index[d].via = dv_expr_part_read(&f->part, index[d].via);
    }
    *to = *from;
    to->tensor = at;
    to->index = index;
    x->tensors[at] = spec->p->tensors[from->tensor];
    return index != NULL;
}

// Fills in the epilogue's program and op. Its tensors are the tensors that are
// read, then the sums, then the result. Reduced variables get extent 1.
// Returns 0 when out of memory.
static int fill(parts *x, const dv_epilogue *f, const dv_epilogue_spec *spec)
{
    int32_t n = f->part.n_reads;
    int64_t es = dv_dtype_get(spec->type)->size_bytes;
    for (int v = 0; v < f->op->n_vars; v++) {
        x->vars[v] = f->op->vars[v];
        if (x->vars[v].reduce)
            x->vars[v] = (dv_var){.name = x->vars[v].name, .end = 1};
        else
            x->coef[v] = spec->steps[v];
        x->steps[v] = x->coef[v] * es;
    }
    for (int32_t i = 0; i < n; i++) {
        int32_t r = f->part.reads[i];
        int same = f->op->reads[r].tensor == f->op->write.tensor;
        if (!take_access(x, same ? n + 1 : i, f, spec, &f->op->reads[r],
                         &x->reads[i]))
            return 0;
        x->flats[i] = spec->kernel->reads[r];
    }
    x->tensors[n] = (dv_tensor){.name = "sums", .dtype = spec->type};
    x->reads[n] = (dv_access){.tensor = n};
    x->flats[n] = (dv_flat){0, x->coef};
    if (!take_access(x, n + 1, f, spec, &f->op->write, &x->op.write))
        return 0;
    x->p = *spec->p;
    x->p.tensors = x->tensors;
    x->p.n_tensors = n + 2;
    x->op.vars = x->vars;
    x->op.reads = x->reads;
    x->op.n_reads = n + 1;
    return 1;
}

dv_status dv_epilogue_create(dv_epilogue **out, const dv_epilogue_spec *spec,
                             dv_diag *diag)
{
    dv_epilogue *f = DV_NEW(spec->arena, dv_epilogue, 1);
    parts x = {0};
    *out = NULL;
    if (!f)
        return dv_nomem(diag);
    f->op = spec->op;
    // If kernels sum integers in floats, the epilogue's comparisons with a sum
    // compare floats, as in dv_op_compute.
    int8_t type = dv_is_float(spec->type) ? (int8_t)spec->type
                                          : dv_op_reduce(f->op)->dtype;
    if (!dv_op_take_results(&f->part, f->op, type, spec->arena))
        return dv_nomem(diag);
    for (int32_t i = 0; i < f->part.n_reads; i++)
        if (dv_access_gathers(f->op, &f->op->reads[f->part.reads[i]]))
            // Vector kernels of epilogues have no indirect reads.
            return DV_OK;
    if (!have(&x, f, spec) || !fill(&x, f, spec))
        return dv_nomem(diag);
    f->steps = x.steps;
    // `looks` promises that integers are checked for overflow of 32 bits: the
    // caller has already checked those of the whole op.
    dv_vec_spec vec = {.p = &x.p,
                       .op = &x.op,
                       .reads = x.flats,
                       .write = &spec->kernel->write,
                       .staged = dv_op_has_border(f->op),
                       .copied = spec->kernel->old_off >= 0,
                       .looks = 1,
                       .nearest = spec->nearest,
                       .as = spec->as,
                       .as_f32 = spec->kernel->compute == DV_IN_F32};
    DV_TRY(dv_vec_op_create(&f->vec, &vec, spec->jit, spec->arena, diag));
    *out = f->vec ? f : NULL;
    return DV_OK;
}

void dv_epilogue_describe(const dv_epilogue *f, dv_op_schedule *out)
{
    dv_vec_op_describe(f->vec, out);
}

const dv_vec_op *dv_epilogue_at(const dv_epilogue *f, void *const *at,
                                const int64_t *begin, const int64_t *end,
                                void *sums, dv_epilogue_box *box)
{
    int64_t first = 0;
    for (int v = 0; v < f->op->n_vars; v++) {
        int reduced = f->op->vars[v].reduce;
        box->begin[v] = reduced ? 0 : begin[v];
        box->end[v] = reduced ? 1 : end[v];
        first += box->begin[v] * f->steps[v];
    }
    for (int32_t i = 0; i < f->part.n_reads; i++)
        box->at[i] = at[f->part.reads[i]];
    // Kernels add the offset of the box's first element to the base address of
    // an operand. `sums` already points to the sum of that element, so the base
    // is moved back, possibly to before the buffer; elements of the box are
    // then addressed correctly.
    box->at[f->part.n_reads] = (void *)((uintptr_t)sums - (uintptr_t)first);
    box->at[f->part.n_reads + 1] = at[f->op->n_reads];
    return f->vec;
}
