// Writes a nest as a program with one op that computes the same, and evaluates
// that program with the oracle (ir/eval.h).
//
//   nest c f32 {                          input in0: f32[32,64]
//       main gemm                         input in1: f32[48,32]
//       m 64 seq: in0 1, out 1       ->   input out: f32[48,64]
//       n 48 seq: in1 32, out 64          out[n1,m0] <- out[n1,m0] +
//       k 32 seq: in0 64, in1 1               (sum[k2] in0[k2,m0] * in1[n1,k2])
//   }                                     output out
//
// Each untiled dimension larger than 1 is a variable. The op is an update, so
// that elements between the strides of the output keep their values.
#include "nest/nest.h"
#include "base/math.h"
#include "ir/eval.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

// The shape that an operand gets as a row-major tensor. Level 0 is the
// innermost dim of the tensor. One step in the dim of a level is unit[level]
// elements; reach[level] is the largest index there.
typedef struct operand_shape {
    int n_levels;
    int64_t unit[DV_MAX_DIMS], reach[DV_MAX_DIMS];
    int64_t span; // largest offset that the dimensions added so far reach
    int via;      // the dim that the indirect index selects in, or -1
    // The dim of the tensor (as a level, 0 being the innermost) that each
    // dimension of the nest is part of.
    int level[DV_NEST_MAX_DIMS];
} operand_shape;

typedef struct writer {
    dv_text *out;
    dv_nest n; // the nest without tiles and without dimensions of size 1
    operand_shape of[DV_MAX_OPERANDS];
} writer;

static int64_t step_of(const writer *w, int dim, int o)
{
    return llabs(w->n.dims[dim].stride[o]);
}

static void push_level(operand_shape *x, int64_t unit)
{
    x->unit[x->n_levels] = unit;
    x->reach[x->n_levels++] = 0;
}

// Merges the outermost level (dim of the tensor) into the next inner one.
static void merge_level(operand_shape *x, int n_dims)
{
    int top = --x->n_levels;
    x->reach[top - 1] += x->reach[top] * (x->unit[top] / x->unit[top - 1]);
    for (int i = 0; i < n_dims; i++)
        if (x->level[i] == top)
            x->level[i] = top - 1;
}

// Adds a dimension of the nest to the shape of a tensor; dimensions come in the
// order of increasing strides (`step`). A stride beyond all elements so far
// begins a new level (dim of the tensor); the strides of a level are multiples
// of its unit.
static void add_step(operand_shape *x, const writer *w, int dim, int64_t step)
{
    int64_t most = w->n.dims[dim].size - 1;
    while (step % x->unit[x->n_levels - 1])
        merge_level(x, w->n.n_dims);
    if (step > x->span && step > x->unit[x->n_levels - 1] &&
        x->n_levels < DV_MAX_DIMS)
        push_level(x, step);
    int top = x->n_levels - 1;
    x->level[dim] = top;
    x->reach[top] += most * (step / x->unit[top]);
    x->span += most * step;
}

// Adds the level (dim of the tensor) that an indirect index selects in. Returns
// 0 if one step of the index does not span all elements so far.
static int add_index(operand_shape *x, const writer *w)
{
    int64_t step = w->n.index_stride, most = w->n.index_count - 1;
    if (step <= x->span)
        return 0;
    while (step % x->unit[x->n_levels - 1])
        merge_level(x, w->n.n_dims);
    if (step > x->unit[x->n_levels - 1])
        push_level(x, step);
    x->via = x->n_levels - 1;
    x->reach[x->via] = most;
    x->span += step * most;
    return 1;
}

// Adds a dimension of an operand with an indirect index. Returns 0 if the index
// cannot be that of a tensor dim of its own.
static int add_step_looked_up(operand_shape *x, const writer *w, int dim,
                              int64_t step)
{
    int64_t all = 1; // elements that all values of the index span
    if (x->via < 0 && step >= w->n.index_stride && !add_index(x, w))
        return 0;
    if (x->via >= 0 &&
        (!dv_mul_i64(&all, x->unit[x->via], w->n.index_count) || step % all))
        return 0;
    if (x->via == x->n_levels - 1)
        push_level(x, all);
    add_step(x, w, dim, step);
    return 1;
}

// Lists the dimensions that an operand has, by increasing absolute stride.
static int sort_steps(const writer *w, int o, int *order)
{
    int n = 0;
    for (int i = 0; i < w->n.n_dims; i++) {
        int at = n;
        if (!w->n.dims[i].stride[o])
            continue;
        for (; at > 0 && step_of(w, order[at - 1], o) > step_of(w, i, o); at--)
            order[at] = order[at - 1];
        order[at] = i;
        n++;
    }
    return n;
}

// Finds the layout of an operand. Returns 0 if there is none, because of an
// indirect index. The index tensor of a scatter has one dim, in which variables
// stand in the order of the loops, because the last of several writes wins.
static int find_layout(writer *w, int o)
{
    operand_shape *x = &w->of[o];
    int order[DV_NEST_MAX_DIMS], n = sort_steps(w, o, order), ok = 1;
    int flat = w->n.look == 1 + DV_OUT && o == DV_IN2;
    *x = (operand_shape){.via = -1};
    push_level(x, 1);
    for (int i = 0; i < n && ok; i++) {
        int64_t step = step_of(w, order[i], o);
        if (w->n.look == 1 + o)
            ok = add_step_looked_up(x, w, order[i], step);
        else if (flat)
            x->reach[0] += (w->n.dims[order[i]].size - 1) * step;
        else
            add_step(x, w, order[i], step);
    }
    return ok && (w->n.look != 1 + o || x->via >= 0 || add_index(x, w));
}

static int is_scalar(const operand_shape *x)
{
    return x->n_levels == 1 && x->reach[0] == 0 && x->via < 0;
}

static void put_shape(const writer *w, int o)
{
    const operand_shape *x = &w->of[o];
    for (int l = x->n_levels - 1; l >= 0 && !is_scalar(x); l--)
        dv_put(w->out, "%" PRId64 "%s",
               l == x->n_levels - 1 ? x->reach[l] + 1
                                    : x->unit[l + 1] / x->unit[l],
               l ? "," : "");
}

static void put_var(const writer *w, int dim)
{
    dv_put(w->out, "%s%d", dv_nest_type_name(w->n.dims[dim].type), dim);
}

// Prints the index of the tensor's dim number `level` (0 is innermost): a sum
// of factor * variable. Where the stride is negative, the variable counts down
// from its largest value.
static void put_affine(const writer *w, int o, int level)
{
    const operand_shape *x = &w->of[o];
    int some = 0;
    for (int i = 0; i < w->n.n_dims; i++) {
        const dv_nest_dim *d = &w->n.dims[i];
        int64_t factor = step_of(w, i, o) / x->unit[level];
        if (!factor || x->level[i] != level)
            continue;
        dv_put(w->out, "%s", some++ ? "+" : "");
        if (d->stride[o] < 0)
            dv_put(w->out, "%" PRId64 "-", (d->size - 1) * factor);
        if (factor != 1)
            dv_put(w->out, "%" PRId64 "*", factor);
        put_var(w, i);
    }
    dv_put(w->out, "%s", some ? "" : "0");
}

static void put_access(const writer *w, int o)
{
    const operand_shape *x = &w->of[o];
    dv_put(w->out, "%s[", dv_nest_operand_name(o));
    for (int l = x->n_levels - 1; l >= 0 && !is_scalar(x); l--) {
        if (l == x->via)
            put_access(w, DV_IN2);
        else
            put_affine(w, o, l);
        dv_put(w->out, "%s", l ? "," : "");
    }
    dv_put(w->out, "]");
}

// Prints a constant, rounded to the type that is computed in. It is a whole
// number in the text if it can be one, so that it does not make integers
// floats.
static void put_number(const writer *w, double v)
{
    dv_dtype compute = dv_nest_compute(&w->n);
    if (compute == DV_F32)
        v = (double)(float)v;
    int negative_zero = v == 0 && signbit(v) && compute != DV_I64;
    dv_put(w->out, "(");
    if (v == trunc(v) && fabs(v) < 0x1p53 && !negative_zero)
        dv_put(w->out, "%.0f", v);
    else
        dv_put_double(w->out, v);
    dv_put(w->out, ")");
}

static int is_real(dv_prim p)
{
    int fn = dv_prim_get(p)->fn;
    return fn >= 0 && dv_fn_get((dv_fn)fn)->real;
}

// Prints an operand. If `real` is set, an integer is made a float, because
// functions of real numbers take no integers.
static void put_operand(const writer *w, int o, int real)
{
    if (w->n.constants >> o & 1) {
        put_number(w, w->n.value[o]);
        return;
    }
    put_access(w, o);
    if (real && !dv_is_float(dv_nest_dtype(&w->n, o)))
        dv_put(w->out, "*1.0");
}

// Prints the text before the arguments of a function: its name and an opening
// parenthesis, or the parenthesis alone before an infix operator.
static void put_open(const writer *w, dv_fn fn)
{
    const dv_fn_info *f = dv_fn_get(fn);
    dv_put(w->out, "%s(", f->prec == 0 || f->n_args == 1 ? f->text : "");
}

// Prints the text between two arguments of a function: a comma or an infix
// operator.
static void put_next(const writer *w, dv_fn fn)
{
    const dv_fn_info *f = dv_fn_get(fn);
    dv_put(w->out, "%s", f->prec == 0 ? "," : f->text);
}

// Prints a function of in0, in1 and in2, a copy or a constant.
static void put_function(const writer *w)
{
    static const int operands[] = {DV_IN0, DV_IN1, DV_IN2};
    int fn = dv_prim_get(w->n.main)->fn;
    double value;
    if (dv_prim_is_const(w->n.main, &value)) {
        put_number(w, value);
        return;
    }
    if (fn < 0) {
        put_operand(w, DV_IN0, 0);
        return;
    }
    put_open(w, (dv_fn)fn);
    for (int i = 0; i < dv_fn_get((dv_fn)fn)->n_args; i++) {
        if (i)
            put_next(w, (dv_fn)fn);
        put_operand(w, operands[i], is_real(w->n.main));
    }
    dv_put(w->out, ")");
}

static int reduces(const dv_nest *n)
{
    return dv_nest_is_product(n) || dv_nest_is_reduce(n);
}

static int has_two_factors(const dv_nest *n)
{
    return dv_nest_is_product(n) || n->main == DV_PRIM_DOT;
}

static void put_reducer(const writer *w)
{
    const char *name = w->n.mean                       ? "mean"
                       : w->n.main == DV_PRIM_PROD     ? "prod"
                       : w->n.main == DV_PRIM_MIN_OVER ? "min"
                       : w->n.main == DV_PRIM_MAX_OVER ? "max"
                                                       : "sum";
    int some = 0;
    dv_put(w->out, "(%s[", name);
    for (int i = 0; i < w->n.n_dims; i++)
        if (w->n.dims[i].type == DV_NEST_K) {
            dv_put(w->out, "%s", some++ ? "," : "");
            put_var(w, i);
        }
    dv_put(w->out, "] ");
    put_operand(w, DV_IN0, w->n.mean);
    if (has_two_factors(&w->n)) {
        dv_put(w->out, "*");
        put_operand(w, DV_IN1, w->n.mean);
    }
    dv_put(w->out, ")");
}

// Prints the value with which a reduction begins: the prologue of the output.
static void put_first(const writer *w)
{
    int fn = dv_prim_get(w->n.first)->fn;
    double value;
    if (dv_prim_is_const(w->n.first, &value)) {
        put_number(w, value);
        return;
    }
    if (fn >= 0)
        put_open(w, (dv_fn)fn);
    put_operand(w, DV_OUT, is_real(w->n.first));
    dv_put(w->out, "%s", fn >= 0 ? ")" : "");
}

// Prints a reduction before its epilogue: the reducer alone, or combined with
// the first value of the output unless that is the reducer's neutral element.
static void put_reduction(const writer *w)
{
    int product = dv_nest_is_product(&w->n);
    dv_fn fn = product ? DV_FN_ADD : (dv_fn)dv_prim_get(w->n.main)->fn;
    if (w->n.first == (product ? DV_PRIM_ZERO : dv_prim_neutral(w->n.main))) {
        put_reducer(w);
        return;
    }
    put_open(w, fn);
    put_first(w);
    put_next(w, fn);
    put_reducer(w);
    dv_put(w->out, ")");
}

// Returns whether a reduction reads integers only, and so has an integer value
// before its epilogue.
static int is_whole(const dv_nest *n)
{
    double value;
    int reads_out = !dv_prim_is_const(n->first, &value);
    return !n->mean && !is_real(n->first) &&
           !dv_is_float(dv_nest_dtype(n, DV_IN0)) &&
           !(has_two_factors(n) && dv_is_float(dv_nest_dtype(n, DV_IN1))) &&
           !(reads_out && dv_is_float(n->dtype));
}

static void put_value(const writer *w)
{
    int fn = dv_prim_get(w->n.last)->fn;
    double value;
    if (!reduces(&w->n)) {
        put_function(w);
    } else if (dv_prim_is_const(w->n.last, &value)) {
        put_number(w, value);
    } else {
        if (fn >= 0)
            put_open(w, (dv_fn)fn);
        put_reduction(w);
        if (is_real(w->n.last) && is_whole(&w->n))
            dv_put(w->out, "*1.0");
        dv_put(w->out, "%s", fn >= 0 ? ")" : "");
    }
}

// Returns whether the program reads or writes an operand. It reads no inputs if
// the epilogue sets the output to a constant.
static int is_tensor(const dv_nest *n, int o)
{
    double value;
    int fills = reduces(n) && dv_prim_is_const(n->last, &value);
    return o == DV_OUT || (dv_nest_has(n, o) && !fills);
}

static void put_program(const writer *w)
{
    int some = 0;
    for (int o = 0; o < DV_MAX_OPERANDS; o++) {
        if (!is_tensor(&w->n, o))
            continue;
        dv_put(w->out, "input %s: %s[", dv_nest_operand_name(o),
               dv_dtype_get(dv_nest_dtype(&w->n, o))->name);
        put_shape(w, o);
        dv_put(w->out, "]\n");
    }
    put_access(w, DV_OUT);
    dv_put(w->out, " <- ");
    put_value(w);
    for (int i = 0; i < w->n.n_dims; i++) {
        if (w->n.dims[i].type == DV_NEST_K && !is_tensor(&w->n, DV_IN0))
            continue;
        dv_put(w->out, "%s", some++ ? ", " : " for ");
        put_var(w, i);
        dv_put(w->out, " in 0..%" PRId64, w->n.dims[i].size);
    }
    dv_put(w->out, "\noutput out\n");
}

// Removes dimensions of size 1, because they become no variables of the
// program. A reduction keeps at least one k to reduce over.
static void keep_variables(dv_nest *n)
{
    int kept = 0, k = 0;
    for (int i = 0; i < n->n_dims; i++) {
        if (n->dims[i].size == 1)
            continue;
        k |= n->dims[i].type == DV_NEST_K;
        n->dims[kept++] = n->dims[i];
    }
    if (!k && reduces(n))
        n->dims[kept++] = (dv_nest_dim){.type = DV_NEST_K, .size = 1};
    n->n_dims = kept;
}

static dv_status check_writable(const dv_nest *n, dv_diag *diag)
{
    dv_loc at = {n->src, n->off};
    DV_TRY(dv_nest_check(n, diag));
    if (n->look == 1 + DV_OUT && dv_nest_is_tiled(n))
        return dv_fail(diag, DV_E_NEST, at,
                       "nest %s is tiled and writes through an index: no "
                       "program has its order of writes",
                       n->name);
    for (int o = 0; o < DV_MAX_OPERANDS; o++)
        if ((n->constants >> o & 1) && isnan(n->value[o]))
            return dv_fail(diag, DV_E_NEST, at,
                           "%s of nest %s is nan, which no program has",
                           dv_nest_operand_name(o), n->name);
    return DV_OK;
}

dv_status dv_nest_program_text(dv_text *out, const dv_nest *n, dv_diag *diag)
{
    writer w = {.out = out};
    DV_TRY(check_writable(n, diag));
    dv_nest_copy(&w.n, n);
    dv_nest_untile(&w.n);
    keep_variables(&w.n);
    for (int o = 0; o < DV_MAX_OPERANDS; o++)
        if (is_tensor(&w.n, o) && !find_layout(&w, o))
            return dv_fail(diag, DV_E_NEST, (dv_loc){n->src, n->off},
                           "%s of nest %s has other strides than a tensor "
                           "with an index of 0 to %" PRId64
                           " in steps of %" PRId64,
                           dv_nest_operand_name(o), n->name, n->index_count - 1,
                           n->index_stride);
    put_program(&w);
    return out->failed ? dv_nomem(diag) : DV_OK;
}

dv_status dv_nest_program(dv_program **out, const dv_nest *n, dv_diag *diag)
{
    dv_text text = {0};
    dv_status st = dv_nest_program_text(&text, n, diag);
    if (st == DV_OK)
        st = dv_program_parse(out, text.at, text.len, n->name, NULL, 0, diag);
    dv_text_free(&text);
    return st;
}

int dv_nest_tensor(const dv_nest *n, const dv_tensor *t, int64_t *first,
                   int64_t *n_elems)
{
    int64_t hi;
    int o = 0;
    while (strcmp(dv_nest_operand_name(o), t->name) != 0)
        o++;
    dv_nest_extent(n, o, first, &hi);
    *n_elems = hi - *first + 1;
    return o;
}

// -- Evaluation with the oracle, as the reference for executors --------------

// The values of the tensors of a nest's program, and the memory of the operand
// that each tensor is: its first element and its number of elements.
typedef struct reference {
    const dv_program *p;
    dv_number *values[DV_MAX_OPERANDS];
    char *at[DV_MAX_OPERANDS];
    int64_t n[DV_MAX_OPERANDS];
} reference;

static dv_number load(dv_dtype t, const void *data, int64_t i)
{
    return dv_is_float(t) ? (dv_number){.f = dv_load(t, data, i)}
                          : (dv_number){.i = dv_int_load(t, data, i)};
}

static void store(dv_dtype t, void *data, int64_t i, dv_number v)
{
    if (dv_is_float(t))
        dv_store(t, data, i, v.f);
    else
        dv_int_store(t, data, i, v.i);
}

static dv_status load_operands(reference *r, const dv_nest *n, void *const *at,
                               dv_diag *diag)
{
    for (int32_t i = 0; i < r->p->n_tensors; i++) {
        const dv_tensor *t = &r->p->tensors[i];
        int64_t first, bytes;
        int o = dv_nest_tensor(n, t, &first, &r->n[i]);
        if (!at[o])
            return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                           "nest %s has no memory for %s", n->name, t->name);
        r->at[i] = (char *)at[o] + first * dv_dtype_get(t->dtype)->size_bytes;
        if (!dv_mul_i64(&bytes, t->n_elems, sizeof **r->values))
            return dv_nomem(diag);
        r->values[i] = dv_alloc((size_t)bytes);
        if (!r->values[i])
            return dv_nomem(diag);
        memset(r->values[i], 0, (size_t)bytes);
        for (int64_t k = 0; k < r->n[i]; k++)
            r->values[i][k] = load(t->dtype, r->at[i], k);
    }
    return DV_OK;
}

dv_status dv_nest_eval(const dv_nest *n, void *const at[DV_MAX_OPERANDS],
                       dv_diag *diag)
{
    const dv_eval_options options = {.round = 1};
    dv_program *p = NULL;
    DV_TRY(dv_nest_program(&p, n, diag));
    reference r = {.p = p};
    dv_status st = load_operands(&r, n, at, diag);
    if (st == DV_OK)
        st = dv_eval(p, r.values, &options, diag);
    for (int32_t i = 0; i < p->n_tensors; i++) {
        const dv_tensor *t = &p->tensors[i];
        for (int64_t k = 0; st == DV_OK && t->is_output && k < r.n[i]; k++)
            store(t->dtype, r.at[i], k, r.values[i][k]);
        dv_release(r.values[i]);
    }
    dv_program_destroy(p);
    return st;
}

void dv_nest_fill(dv_dtype t, uint64_t seed, void *data, int64_t n)
{
    uint64_t x = seed * 0x9e3779b97f4a7c15u + 1;
    for (int64_t i = 0; i < n; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        dv_store(t, data, i, (double)((x >> 33) % 9) - 4);
    }
}
