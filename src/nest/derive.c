// Derives nests from the ops of a program, whose tensors are row-major.
//
//   c[i,j] = relu(sum[k] a[i,k] * b[k,j])   over 64 x 64 x 64
//
//   in0 is b and in1 is a, because the kernel's m must have unit stride in in0
//   and out, and that is j. The nest has first zero, main gemm, last relu, and
//   the dimensions n (variable i), m (variable j) and k (variable k).
//
// The type of a variable follows from the operands in which it has a nonzero
// stride. Kernels have an m, an n and a k inside: a type that an op lacks is
// added as a dimension of size 1, so that a matrix-vector product is a nest as
// well.
//
// Matrix products are planned and run by a nest that keeps the factors in their
// order and has a dimension per variable and no other; dv_nest_of_product
// derives it, for row-major tensors when a plan is made, and for the strides of
// the memory at hand when its kernels are made.
#include "nest/nest.h"
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct deriver {
    const dv_program *p;
    const dv_op *op;
    dv_diag *diag;
    // The read or write of each operand; NULL if the operand is unused or a
    // constant.
    const dv_access *access[DV_MAX_OPERANDS];
    int64_t stride[DV_MAX_OPERANDS][DV_MAX_VARS];
    int64_t offset[DV_MAX_OPERANDS];
    dv_nest n;
} deriver;

__attribute__((format(printf, 3, 4))) static dv_status
refuse(const deriver *x, uint32_t off, const char *fmt, ...)
{
    char text[200];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return dv_fail(x->diag, DV_E_NEST, (dv_loc){&x->p->src, off},
                   "there is no nest for %s: %s", x->op->name, text);
}

// Returns advice to append to an error message: an op that applies several
// functions has no nest, but lowering to one op per function makes ops that
// have nests.
static const char *way_out(const deriver *x)
{
    return x->p->grain == DV_GRAIN_FUNCTION
               ? ""
               : "; --grain function makes an op of each";
}

static const dv_tensor *tensor_of(const deriver *x, int o)
{
    return &x->p->tensors[x->access[o]->tensor];
}

static int is_apply(const dv_expr *e, int n_args)
{
    return e->kind == DV_EXPR_APPLY && e->n_args == n_args;
}

// Returns the primitive (an operation that kernels implement) that applies the
// function of an expression, or DV_PRIM_NONE.
static dv_prim prim_of(const dv_expr *e)
{
    for (int i = 0; i < DV_N_PRIMS; i++)
        if (dv_prim_get((dv_prim)i)->fn == e->fn &&
            dv_prim_get((dv_prim)i)->kind != DV_PRIM_IS_REDUCE)
            return (dv_prim)i;
    return DV_PRIM_NONE;
}

static int reads_write(const deriver *x, const dv_expr *e)
{
    return e->kind == DV_EXPR_READ &&
           dv_access_equal(x->op, &x->op->reads[e->read], &x->op->write);
}

// Returns the primitive (an operation that kernels implement) of a reducer such
// as sum, or DV_PRIM_NONE. A mean is a sum that is divided afterwards.
static dv_prim prim_of_reducer(const dv_expr *e)
{
    switch (e->fn) {
    case DV_RED_SUM:
    case DV_RED_MEAN:
        return DV_PRIM_SUM;
    case DV_RED_PROD:
        return DV_PRIM_PROD;
    case DV_RED_MIN:
        return DV_PRIM_MIN_OVER;
    case DV_RED_MAX:
        return DV_PRIM_MAX_OVER;
    default:
        return DV_PRIM_NONE;
    }
}

// Sets the nest's main primitive, prologue and inputs from a reducer: a sum of
// products of two reads, or any reducer of one read. `adds` says that the
// previous value of the output is kept and accumulated into.
static dv_status take_reducer(deriver *x, const dv_expr *e, int adds)
{
    const dv_expr *f = e->arg[0];
    x->n.main = prim_of_reducer(e);
    x->n.mean = e->fn == DV_RED_MEAN;
    x->n.first = adds ? DV_PRIM_NONE : dv_prim_neutral(x->n.main);
    if (x->n.main == DV_PRIM_SUM && dv_expr_is_product(f)) {
        x->n.main = DV_PRIM_GEMM;
        x->access[DV_IN0] = &x->op->reads[f->arg[0]->read];
        x->access[DV_IN1] = &x->op->reads[f->arg[1]->read];
    } else if (f->kind == DV_EXPR_READ) {
        x->access[DV_IN0] = &x->op->reads[f->read];
    } else {
        return refuse(x, f->off,
                      "it reduces neither one read nor, in a sum, products of "
                      "two%s",
                      way_out(x));
    }
    for (int o = DV_IN0; o <= DV_IN1; o++)
        if (x->access[o] && x->access[o]->tensor == x->op->write.tensor)
            return refuse(x, x->access[o]->off, "it %s %s, which it writes",
                          x->access[DV_IN1] ? "multiplies with" : "reduces",
                          tensor_of(x, o)->name);
    return DV_OK;
}

// Returns the reducer r if the expression accumulates into its own output, out
// = f(out, r) with f being the function of the reducer; otherwise NULL.
static const dv_expr *added_to(const deriver *x, const dv_expr *e)
{
    for (int i = 0; i < 2 && is_apply(e, 2); i++) {
        const dv_expr *r = e->arg[!i];
        if (reads_write(x, e->arg[i]) && r->kind == DV_EXPR_REDUCE &&
            r->fn != DV_RED_MEAN && prim_of_reducer(r) != DV_PRIM_NONE &&
            dv_prim_get(prim_of_reducer(r))->fn == e->fn)
            return r;
    }
    return NULL;
}

// Sets the nest's main primitive, prologue and epilogue from an op with a
// reducer. A unary function of the reduced value becomes the epilogue; an op
// that accumulates into its output has no prologue.
static dv_status take_reduction(deriver *x)
{
    const dv_expr *e = x->op->body;
    if (is_apply(e, 1)) {
        x->n.last = prim_of(e);
        if (x->n.last == DV_PRIM_NONE)
            return refuse(x, e->off, "%s is no primitive",
                          dv_fn_get((dv_fn)e->fn)->text);
        e = e->arg[0];
    }
    const dv_expr *r = added_to(x, e);
    if (!r && e->kind != DV_EXPR_REDUCE)
        return refuse(x, e->off, "it is more than one function%s", way_out(x));
    return take_reducer(x, r ? r : e, r != NULL);
}

// Sets operand o to an argument of a function: a constant or a read. The output
// tensor may be read only at the element that is written.
static dv_status take_read(deriver *x, int o, const dv_expr *e)
{
    if (e->kind == DV_EXPR_CONST) {
        x->n.constants |= (uint8_t)(1 << o);
        x->n.value[o] = e->value;
        return DV_OK;
    }
    if (e->kind == DV_EXPR_INDEX)
        return refuse(x, e->off, "it uses the value of a variable");
    if (e->kind != DV_EXPR_READ)
        return refuse(x, e->off, "it is more than one function%s", way_out(x));
    x->access[o] = &x->op->reads[e->read];
    if (x->access[o]->tensor == x->op->write.tensor && !reads_write(x, e))
        return refuse(x, e->off, "it reads other elements of %s than it writes",
                      tensor_of(x, o)->name);
    return DV_OK;
}

// Sets the nest's main primitive and inputs from an op without a reducer: a
// function of up to three reads or constants, or a copy. A constant 0 is the
// primitive zero; any other constant is a copy of an in0 that is a constant.
static dv_status take_function(deriver *x)
{
    const dv_expr *e = x->op->body;
    static const int operands[] = {DV_IN0, DV_IN1, DV_IN2};
    if (e->kind == DV_EXPR_CONST && e->value == 0 && !signbit(e->value)) {
        x->n.main = DV_PRIM_ZERO;
        return DV_OK;
    }
    if (e->kind != DV_EXPR_APPLY) {
        x->n.main = DV_PRIM_COPY;
        return take_read(x, DV_IN0, e);
    }
    x->n.main = prim_of(e);
    if (x->n.main == DV_PRIM_NONE)
        return refuse(x, e->off, "%s is no primitive",
                      dv_fn_get((dv_fn)e->fn)->text);
    for (int i = 0; i < e->n_args; i++)
        DV_TRY(take_read(x, operands[i], e->arg[i]));
    return DV_OK;
}

// Returns whether the operands suit a GEMM: no indirect index, and types that
// it has kernels for.
static int suits_gemm(const deriver *x)
{
    for (int o = 0; o < DV_N_OPERANDS; o++)
        if (dv_access_is_indirect(x->access[o]))
            return 0;
    return dv_nest_factors(&x->n) >= 0;
}

// Makes in2 the indirect index that selects elements of operand o. A nest can
// have only one such index.
static dv_status take_index(deriver *x, int o)
{
    const dv_access *a = x->access[o];
    const char *name = tensor_of(x, o)->name;
    if (dv_nest_is_select(&x->n))
        return refuse(x, a->off,
                      "%s has an index that is read, and %s has all operands "
                      "that there are%s",
                      name, dv_prim_get(x->n.main)->name,
                      o == DV_OUT ? "" : way_out(x));
    if (x->n.look)
        return refuse(x, a->off,
                      "%s and %s have indices that are read, a nest has one%s",
                      tensor_of(x, x->n.look - 1)->name, name, way_out(x));
    for (int d = 0; d < a->n_dims; d++) {
        if (a->index[d].via < 0)
            continue;
        if (x->n.look)
            return refuse(x, a->off,
                          "%s has several indices that are read, a nest has "
                          "one",
                          name);
        if (!dv_index_is_value(x->op, &a->index[d]))
            return refuse(x, a->off,
                          "an index of %s is a sum with a value that is read, "
                          "a nest has values alone",
                          name);
        x->n.look = (uint8_t)(1 + o);
        x->n.index_count = tensor_of(x, o)->shape[d];
        x->access[DV_IN2] = &x->op->reads[a->index[d].via];
    }
    if (dv_access_is_indirect(x->access[DV_IN2]))
        return refuse(x, x->access[DV_IN2]->off,
                      "the index %s of %s has an index that is read",
                      tensor_of(x, DV_IN2)->name, name);
    if (x->access[DV_IN2]->tensor == x->op->write.tensor)
        return refuse(x, x->access[DV_IN2]->off,
                      "the index of %s is %s, which it writes", name,
                      tensor_of(x, DV_IN2)->name);
    return DV_OK;
}

static dv_status take_operands(deriver *x)
{
    for (int r = 0; r < x->op->n_reads; r++)
        if (x->op->reads[r].has_border)
            return refuse(x, x->op->reads[r].off, "%s is read with a border",
                          x->p->tensors[x->op->reads[r].tensor].name);
    int n_read = x->access[DV_IN2] ? DV_MAX_OPERANDS : DV_N_OPERANDS;
    // n_read was computed before, so that this loop does not visit an in2 (the
    // indirect index) that take_index sets in it.
    for (int o = 0; o < n_read; o++)
        if (x->access[o] && dv_access_is_indirect(x->access[o]))
            DV_TRY(take_index(x, o));
    x->n.dtype = tensor_of(x, DV_OUT)->dtype;
    for (int o = 0; o < DV_MAX_OPERANDS; o++) {
        if (!x->access[o] || o == DV_OUT)
            continue;
        dv_dtype t = tensor_of(x, o)->dtype;
        x->n.types[o] = (uint8_t)(t == x->n.dtype ? 0 : 1 + t);
        if (x->n.look == 1 + DV_OUT &&
            x->access[o]->tensor == x->op->write.tensor)
            return refuse(x, x->access[o]->off,
                          "it reads %s, which it writes by an index%s",
                          tensor_of(x, o)->name, way_out(x));
    }
    if (dv_nest_is_product(&x->n) && !suits_gemm(x))
        x->n.main = DV_PRIM_DOT;
    return DV_OK;
}

static dv_status take_body(deriver *x)
{
    x->access[DV_OUT] = &x->op->write;
    if (x->op->is_extern)
        return refuse(x, x->op->off,
                      "it is opaque: what it reads and writes is known, what "
                      "it computes is not");
    if (dv_op_reduce(x->op))
        DV_TRY(take_reduction(x));
    else
        DV_TRY(take_function(x));
    return take_operands(x);
}

// Computes the strides of all variables in operand o, and its offset.
static void find_strides(deriver *x, int o)
{
    const dv_access *a = x->access[o];
    int64_t rows[DV_MAX_DIMS];
    dv_row_strides(a->n_dims, tensor_of(x, o)->shape, rows);
    x->offset[o] = dv_access_flatten(x->op, a, rows, x->stride[o]);
    for (int v = 0; v < x->op->n_vars; v++)
        x->offset[o] += x->stride[o][v] * x->op->vars[v].begin;
    for (int d = 0; d < a->n_dims; d++)
        if (a->index[d].via >= 0)
            x->n.index_stride = rows[d];
}

// Returns the dimension type (c, m, n or k) of a variable from the operands in
// which it has a stride, or -1 if no type fits.
static int type_of(const deriver *x, int v)
{
    int in0 = x->stride[DV_IN0][v] != 0, in1 = x->stride[DV_IN1][v] != 0;
    int out = x->stride[DV_OUT][v] != 0 ||
              (x->n.look == 1 + DV_OUT && x->stride[DV_IN2][v] != 0);
    if (dv_nest_is_reduce(&x->n))
        return x->op->vars[v].reduce ? DV_NEST_K : out ? DV_NEST_C : -1;
    if (!dv_nest_is_product(&x->n) && !out)
        return -1;
    if (dv_nest_is_unary(&x->n) || dv_nest_is_select(&x->n))
        return DV_NEST_C;
    if (in0 && in1)
        return out ? DV_NEST_C : DV_NEST_K;
    if (!in0 && !in1)
        return dv_nest_is_binary(&x->n) ? DV_NEST_C : -1;
    return !out ? -1 : in0 ? DV_NEST_M : DV_NEST_N;
}

// Returns how well the op's operands suit the kernel's unit strides: 1 if a row
// dimension (m) has unit stride in in0 and out, plus 1 if a summed dimension
// (k) has unit stride in in1. A missing dimension counts as suitable.
static int unit_strides(const deriver *x)
{
    int any[2] = {0}, unit[2] = {0};
    for (int v = 0; v < x->op->n_vars; v++) {
        int t = type_of(x, v);
        if (t == DV_NEST_M) {
            any[0] = 1;
            unit[0] |= x->stride[DV_IN0][v] == 1 && x->stride[DV_OUT][v] == 1;
        } else if (t == DV_NEST_K) {
            any[1] = 1;
            unit[1] |= x->stride[DV_IN1][v] == 1;
        }
    }
    return (unit[0] || !any[0]) + (unit[1] || !any[1]);
}

static void swap_inputs(deriver *x)
{
    const dv_access *a = x->access[DV_IN0];
    int64_t offset = x->offset[DV_IN0], stride[DV_MAX_VARS];
    uint8_t type = x->n.types[DV_IN0];
    x->n.types[DV_IN0] = x->n.types[DV_IN1];
    x->n.types[DV_IN1] = type;
    x->access[DV_IN0] = x->access[DV_IN1];
    x->access[DV_IN1] = a;
    x->offset[DV_IN0] = x->offset[DV_IN1];
    x->offset[DV_IN1] = offset;
    memcpy(stride, x->stride[DV_IN0], sizeof stride);
    memcpy(x->stride[DV_IN0], x->stride[DV_IN1], sizeof stride);
    memcpy(x->stride[DV_IN1], stride, sizeof stride);
}

// Turns a product into the reduction dot (a sum of in0 * in1) if a variable has
// a stride in one operand only, because such a variable has no dimension type
// of a product (c, m, n and k are each in two or three operands).
static void check_members(deriver *x)
{
    for (int v = 0; v < x->op->n_vars; v++)
        if (dv_nest_is_product(&x->n) && type_of(x, v) < 0 &&
            dv_var_len(x->op, v) > 1)
            x->n.main = DV_PRIM_DOT;
}

// Swaps the factors of a product if their strides then suit the kernel better.
static void orient(deriver *x)
{
    if (!dv_nest_is_product(&x->n))
        return;
    int written = unit_strides(x);
    swap_inputs(x);
    if (unit_strides(x) <= written)
        swap_inputs(x);
}

// Returns the name of the first tensor in which a variable has a stride, or
// NULL.
static const char *only_in(const deriver *x, int v)
{
    for (int o = 0; o < DV_MAX_OPERANDS; o++)
        if (x->stride[o][v])
            return tensor_of(x, o)->name;
    return NULL;
}

// Returns whether a variable has a stride in any input.
static int steps_in(const deriver *x, int v)
{
    return x->stride[DV_IN0][v] || x->stride[DV_IN1][v] || x->stride[DV_IN2][v];
}

// Appends variable v as a dimension of type t.
static void add_var(deriver *x, int v, int t, uint32_t off)
{
    dv_nest_dim *d = &x->n.dims[x->n.n_dims++];
    *d = (dv_nest_dim){.type = (dv_nest_type)t,
                       .exec = DV_NEST_SEQ,
                       .size = dv_var_len(x->op, v),
                       .off = off};
    for (int o = 0; o < DV_MAX_OPERANDS; o++)
        d->stride[o] = x->stride[o][v];
}

static dv_status add_vars(deriver *x)
{
    for (int v = 0; v < x->op->n_vars; v++) {
        const dv_var *var = &x->op->vars[v];
        int64_t size = var->end - var->begin;
        int t = type_of(x, v);
        if ((t < 0 || !steps_in(x, v)) && size == 1)
            continue; // a variable with one value only adds to the offset
        if (t < 0) {
            const char *one = only_in(x, v);
            return refuse(x, var->off,
                          "%s, of size %" PRId64 ", is in %s%s; a dimension "
                          "is in two operands or more",
                          var->name, size, one ? one : "no tensor",
                          one ? " alone" : "");
        }
        add_var(x, v, t, var->off);
    }
    return DV_OK;
}

// Returns the element count of an operand, to be used as a stride that is
// beyond its end; 0 if the operand is not in memory.
static int64_t elems_of(const deriver *x, int o)
{
    return x->access[o] ? tensor_of(x, o)->n_elems : 0;
}

// Adds a dimension of size 1 with these strides; to a product only if it has no
// dimension of that type yet.
static void add_one(deriver *x, dv_nest_type type, int64_t in0, int64_t in1,
                    int64_t out)
{
    for (int i = 0; i < x->n.n_dims; i++)
        if (x->n.dims[i].type == type && dv_nest_is_product(&x->n))
            return;
    x->n.dims[x->n.n_dims++] = (dv_nest_dim){.type = type,
                                             .exec = DV_NEST_SEQ,
                                             .size = 1,
                                             .stride = {in0, in1, out},
                                             .off = x->op->off};
}

// Counts the dimensions that a kernel can take inside: those in which no
// indirect index has a stride, since a kernel steps with constant strides. With
// `of_k`, only those of type k (reduced), otherwise only the others.
static int count_even(const deriver *x, int of_k)
{
    int count = 0;
    for (int i = 0; i < x->n.n_dims; i++)
        count += (x->n.dims[i].type == DV_NEST_K) == of_k &&
                 (!x->n.look || !x->n.dims[i].stride[DV_IN2]);
    return count;
}

static void add_missing(deriver *x)
{
    int64_t in0 = elems_of(x, DV_IN0), in1 = elems_of(x, DV_IN1);
    int64_t out = elems_of(x, DV_OUT);
    if (dv_nest_is_product(&x->n)) {
        add_one(x, DV_NEST_M, 1, 0, 1);
        add_one(x, DV_NEST_N, 0, in1, out);
        add_one(x, DV_NEST_K, in0, 1, 0);
        return;
    }
    if (dv_nest_is_reduce(&x->n)) {
        if (count_even(x, 0) == 0)
            add_one(x, DV_NEST_C, in0, in1, out);
        if (count_even(x, 1) == 0)
            add_one(x, DV_NEST_K, in0, in1, 0);
        return;
    }
    if (!dv_nest_is_unary(&x->n)) {
        while (count_even(x, 0) < 2)
            add_one(x, DV_NEST_C, in0, in1, out);
        return;
    }
    if (count_even(x, 0) == 0)
        add_one(x, DV_NEST_M, in0 ? 1 : 0, 0, 1);
    if (count_even(x, 0) == 1)
        add_one(x, DV_NEST_N, in0, 0, out);
}

static void set_name(dv_nest *n, const char *name)
{
    for (size_t i = 0; name[i] && i < DV_NEST_MAX_NAME; i++)
        n->name[i] = isalnum((unsigned char)name[i]) ? name[i] : '_';
}

dv_status dv_nest_of_op(dv_nest *out, dv_nest_operands *where,
                        const dv_program *p, int32_t op, dv_diag *diag)
{
    deriver x = {.p = p, .op = &p->ops[op], .diag = diag};
    x.n.src = &p->src;
    x.n.off = x.op->off;
    set_name(&x.n, x.op->name);
    DV_TRY(take_body(&x));
    for (int o = 0; o < DV_MAX_OPERANDS; o++)
        if (x.access[o])
            find_strides(&x, o);
    check_members(&x);
    orient(&x);
    DV_TRY(add_vars(&x));
    add_missing(&x);
    // If the product has several k (summed dimensions), it is a brgemm
    // (batch-reduce GEMM), whose kernel may take more than one k.
    int n_k = 0;
    for (int i = 0; i < x.n.n_dims; i++)
        n_k += x.n.dims[i].type == DV_NEST_K;
    if (dv_nest_is_product(&x.n) && n_k > 1)
        x.n.main = DV_PRIM_BRGEMM;
    DV_TRY(dv_nest_check(&x.n, diag));
    *out = x.n;
    for (int o = 0; o < DV_MAX_OPERANDS; o++) {
        where->tensor[o] = x.access[o] ? x.access[o]->tensor : -1;
        where->offset_elems[o] = x.offset[o];
    }
    return DV_OK;
}

// Returns the type of both factors if matrix instructions can take them: bf16
// with sums in f32; or i8 with sums in i32, which are exact and are then
// converted to float or i8, or kept. Returns 0 otherwise.
static int narrow_of(const deriver *x)
{
    dv_dtype t = tensor_of(x, DV_IN0)->dtype, out = tensor_of(x, DV_OUT)->dtype;
    dv_compute_type in = dv_op_compute(x->p, x->op);
    int ends = dv_is_float(out) || out == DV_I8;
    if (tensor_of(x, DV_IN1)->dtype != t)
        return 0;
    return (t == DV_BF16 && in == DV_IN_F32) ||
                   (t == DV_I8 && (in == DV_IN_F32 ? ends : in == DV_IN_I64))
               ? (int)t
               : 0;
}

static int fits_i32(dv_dtype t)
{
    return t == DV_I32 || t == DV_I8;
}

int dv_nest_of_product(dv_nest *out, const dv_program *p, const dv_op *op,
                       int narrow, const int64_t *const stride[])
{
    deriver x = {.p = p, .op = op};
    dv_compute_type compute = dv_op_compute(p, op);
    int32_t factor[2];
    if (!dv_op_factors(op, factor))
        return 0;
    set_name(&x.n, op->name);
    x.n.first = DV_PRIM_ZERO;
    x.n.main = DV_PRIM_GEMM;
    for (int o = 0; o < DV_N_OPERANDS; o++) {
        x.access[o] = o == DV_OUT ? &op->write : &op->reads[factor[o]];
        if (compute == DV_IN_I64 && !fits_i32(tensor_of(&x, o)->dtype))
            return 0;
        const dv_tensor *t = tensor_of(&x, o);
        if (o != DV_OUT && (t->is_const || t->is_once) &&
            !p->tensors[op->write.tensor].is_once && !x.access[o]->has_border)
            x.n.fixed |= (uint8_t)(1 << o);
        if (stride)
            memcpy(x.stride[o], stride[o],
                   sizeof *stride[o] * (size_t)op->n_vars);
        else
            find_strides(&x, o);
    }
    x.n.narrow = (uint8_t)(narrow ? narrow_of(&x) : 0);
    x.n.dtype = x.n.narrow == DV_I8 ? DV_I32 : dv_kernel_type(compute);
    for (int v = 0; v < op->n_vars; v++) {
        int t = type_of(&x, v);
        for (int o = 0; o < DV_N_OPERANDS; o++)
            t = x.stride[o][v] < 0 ? -1 : t;
        if (t < 0)
            return 0;
        add_var(&x, v, t, (uint32_t)v);
        x.n.dims[v].vars = UINT32_C(1) << v;
    }
    dv_nest_copy(out, &x.n);
    return out->n_dims > 0;
}

// Copies a nest by printing and parsing it, so that it no longer borrows the
// program's text.
static dv_status detach(dv_nest **out, const dv_nest *n, dv_diag *diag)
{
    char *text = dv_nest_text(n);
    if (!text)
        return dv_nomem(diag);
    dv_status st = dv_nest_parse(out, text, strlen(text), n->name, diag);
    dv_release(text);
    return st;
}

// Translates the tensor numbers of the lowered program to those of the program
// as written.
static void find_places(dv_nest_place *places, const dv_nest_operands *where,
                        const dv_program *ops, const dv_program *p)
{
    for (int o = 0; o < DV_MAX_OPERANDS; o++) {
        int32_t t = where->tensor[o];
        places[o].tensor =
            t < 0 ? -1 : (int)dv_program_find(p, ops->tensors[t].name);
        places[o].offset_elems = t < 0 ? 0 : where->offset_elems[o];
    }
}

dv_status dv_nest_derive(dv_nest **out, dv_nest_place places[DV_NEST_PLACES],
                         const dv_program *p, dv_grain grain, const char *op,
                         dv_diag *diag)
{
    dv_program *ops = NULL;
    dv_nest n;
    dv_nest_operands where;
    int32_t at = 0;
    if (grain == DV_GRAIN_SOURCE || (unsigned)grain > DV_GRAIN_FUNCTION)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "grain %d has no ops: it is fused, primitive or "
                       "function",
                       (int)grain);
    DV_TRY(dv_program_lower(&ops, p, grain, diag));
    while (at < ops->n_ops && strcmp(ops->ops[at].name, op) != 0)
        at++;
    dv_status st = at < ops->n_ops ? dv_nest_of_op(&n, &where, ops, at, diag)
                                   : dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                                             "the program has %" PRId32
                                             " ops, and none is %s",
                                             ops->n_ops, op);
    if (st == DV_OK)
        st = detach(out, &n, diag);
    if (st == DV_OK && places)
        find_places(places, &where, ops, p);
    dv_program_destroy(ops);
    return st;
}
