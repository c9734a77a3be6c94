// Derives properties of ops and tensors that are not stored in the program.
#include "ir/program.h"
#include "base/math.h"
#include <string.h>

const char *dv_kind_name(dv_kind k)
{
    static const char *const names[] = {"pointwise", "reduction", "contraction",
                                        "move", "extern"};
    return names[k];
}

const char *dv_role_name(dv_role r)
{
    static const char *const names[] = {"input", "output", "temporary", "inout",
                                        "constant"};
    return names[r];
}

dv_role dv_tensor_role(const dv_program *p, int32_t tensor)
{
    const dv_tensor *t = &p->tensors[tensor];
    if (t->is_const)
        return DV_ROLE_CONSTANT;
    if (t->is_input)
        return t->is_output ? DV_ROLE_INOUT : DV_ROLE_INPUT;
    return t->is_output ? DV_ROLE_OUTPUT : DV_ROLE_TEMPORARY;
}

int64_t dv_tensor_bytes(const dv_tensor *t)
{
    return t->n_elems * dv_dtype_get(t->dtype)->size_bytes;
}

void dv_constant_path(dv_text *out, const dv_program *p, int32_t tensor)
{
    const char *file = p->tensors[tensor].file, *name = p->src.name;
    const char *slash = name ? strrchr(name, '/') : NULL;
    if (slash && file[0] != '/')
        dv_put_bytes(out, name, (size_t)(slash - name) + 1);
    dv_put(out, "%s", file);
}

static const dv_expr *find_reduce(const dv_expr *e)
{
    if (e->kind == DV_EXPR_REDUCE)
        return e;
    for (int i = 0; i < e->n_args; i++) {
        const dv_expr *r = find_reduce(e->arg[i]);
        if (r)
            return r;
    }
    return NULL;
}

const dv_expr *dv_op_reduce(const dv_op *op)
{
    return find_reduce(op->body);
}

int dv_expr_has_index(const dv_expr *e)
{
    int found = e->kind == DV_EXPR_INDEX;
    for (int i = 0; i < e->n_args && !found; i++)
        found = dv_expr_has_index(e->arg[i]);
    return found;
}

int dv_expr_is_integer(const dv_expr *e)
{
    return e->dtype == DV_WEAK_INT ||
           (e->dtype >= 0 && !dv_is_float((dv_dtype)e->dtype));
}

int dv_expr_is_condition(const dv_expr *e)
{
    return e->kind == DV_EXPR_APPLY && dv_expr_is_integer(e) && !find_reduce(e);
}

int dv_expr_is_test(const dv_expr *e)
{
    return e->kind == DV_EXPR_APPLY && dv_fn_compares((dv_fn)e->fn) &&
           dv_expr_is_integer(e->arg[0]) && dv_expr_is_integer(e->arg[1]) &&
           !find_reduce(e);
}

int dv_expr_index_bounds(const dv_op *op, const dv_expr *e, int64_t *lo,
                         int64_t *hi)
{
    const dv_var *v = &op->vars[e->read];
    return dv_add_i64(lo, v->begin, e->base) &&
           dv_add_i64(hi, v->end - 1, e->base);
}

void dv_expr_fold_index(dv_expr *e)
{
    int minus = dv_expr_applies(e, DV_FN_SUB);
    if (!minus && !dv_expr_applies(e, DV_FN_ADD))
        return;
    const dv_expr *x = e->arg[0], *y = e->arg[1];
    int64_t base;
    if (x->kind != DV_EXPR_INDEX || y->kind != DV_EXPR_CONST ||
        y->dtype != DV_WEAK_INT ||
        !dv_add_i64(&base, x->base, (int64_t)(minus ? -y->value : y->value)))
        return;
    *e = (dv_expr){.kind = DV_EXPR_INDEX,
                   .dtype = x->dtype,
                   .off = x->off,
                   .read = x->read};
    e->base = base;
}

// Counts the factors of a product that read a tensor; -1 if e is not a product
// of reads, variables and constants only.
static int product_reads(const dv_expr *e)
{
    if (e->kind == DV_EXPR_READ)
        return 1;
    if (e->kind == DV_EXPR_CONST || e->kind == DV_EXPR_INDEX)
        return 0;
    if (!dv_expr_applies(e, DV_FN_MUL))
        return -1;
    int a = product_reads(e->arg[0]), b = product_reads(e->arg[1]);
    return a < 0 || b < 0 ? -1 : a + b;
}

int dv_expr_is_product(const dv_expr *e)
{
    return dv_expr_applies(e, DV_FN_MUL) && e->arg[0]->kind == DV_EXPR_READ &&
           e->arg[1]->kind == DV_EXPR_READ;
}

int dv_op_factors(const dv_op *op, int32_t factor[2])
{
    const dv_expr *sum = op->is_extern ? NULL : dv_op_reduce(op);
    if (!sum || (sum->fn != DV_RED_SUM && sum->fn != DV_RED_MEAN) ||
        !dv_expr_is_product(sum->arg[0]))
        return 0;
    factor[0] = sum->arg[0]->arg[0]->read;
    factor[1] = sum->arg[0]->arg[1]->read;
    return !dv_access_gathers(op, &op->reads[factor[0]]) &&
           !dv_access_gathers(op, &op->reads[factor[1]]) &&
           !dv_access_gathers(op, &op->write);
}

dv_kind dv_op_kind(const dv_op *op)
{
    if (op->is_extern)
        return DV_KIND_EXTERN;
    const dv_expr *r = dv_op_reduce(op);
    if (r && r->fn == DV_RED_SUM && product_reads(r->arg[0]) >= 2)
        return DV_KIND_CONTRACTION;
    if (r)
        return DV_KIND_REDUCTION;
    return op->body->kind == DV_EXPR_READ ? DV_KIND_MOVE : DV_KIND_POINTWISE;
}

int dv_op_is_copy(const dv_op *op)
{
    if (dv_op_kind(op) != DV_KIND_MOVE || op->update || op->n_reads != 1 ||
        op->reads[0].has_border || op->reads[0].n_dims != op->write.n_dims)
        return 0;
    for (int d = 0; d < op->write.n_dims; d++) {
        int v, w;
        if (!dv_index_is_var(op, &op->write.index[d], &v) ||
            !dv_index_is_var(op, &op->reads[0].index[d], &w) || v != w)
            return 0;
    }
    return 1;
}

// Returns the common type of two integers: the wider type, or, if only one is
// signed, a signed type that holds both (i64 if there is none). A bool takes
// the other type.
static dv_dtype join_integers(dv_dtype x, dv_dtype y)
{
    static const dv_dtype holds[] = {
        [1] = DV_I16, [2] = DV_I32, [4] = DV_I64, [8] = DV_I64};
    const dv_dtype_info *a = dv_dtype_get(x), *b = dv_dtype_get(y);
    if (x == DV_BOOL || y == DV_BOOL)
        return x == DV_BOOL ? y : x;
    if (a->kind == b->kind)
        return a->size_bytes >= b->size_bytes ? x : y;
    int is_signed = a->kind == 'i',
        wide = is_signed ? b->size_bytes : a->size_bytes;
    dv_dtype s = is_signed ? x : y;
    return dv_dtype_get(s)->size_bytes > wide ? s : holds[wide];
}

// Returns the common type of two operands: the wider type; a float has
// precedence over an integer; a constant, whose type is negative, takes the
// type of the other operand.
static int join(int a, int b)
{
    if (a < 0 && b < 0)
        return a > b ? a : b;
    if (a < 0 || b < 0) {
        int t = a < 0 ? b : a, weak = a < 0 ? a : b;
        return weak == DV_WEAK_FLOAT && !dv_is_float((dv_dtype)t) ? (int)DV_F32
                                                                  : t;
    }
    dv_dtype x = (dv_dtype)a, y = (dv_dtype)b;
    if (dv_is_float(x) != dv_is_float(y))
        return dv_is_float(x) ? a : b;
    if (!dv_is_float(x))
        return (int)join_integers(x, y);
    int sx = dv_dtype_get(x)->size_bytes, sy = dv_dtype_get(y)->size_bytes;
    if (sx == sy && x != y)
        return DV_F32; // f16 combined with bf16 gives f32
    return sx >= sy ? a : b;
}

int8_t dv_expr_type(const dv_expr *e)
{
    int first = dv_expr_applies(e, DV_FN_SELECT) ? 1 : 0;
    int t = e->arg[first]->dtype, real;
    for (int i = first + 1; i < e->n_args; i++)
        t = join(t, e->arg[i]->dtype);
    if (e->kind == DV_EXPR_REDUCE) {
        if (t >= 0 && !dv_is_float((dv_dtype)t) &&
            dv_dtype_get((dv_dtype)t)->size_bytes < 4 &&
            (e->fn == DV_RED_SUM || e->fn == DV_RED_PROD))
            // Sums of i8 have type i32, because i8 is too narrow for an
            // accumulator.
            t = DV_I32;
        real = dv_reducer_get((dv_reducer)e->fn)->real;
    } else {
        real = dv_fn_get((dv_fn)e->fn)->real;
    }
    return (int8_t)(real && t == DV_WEAK_INT ? DV_WEAK_FLOAT : t);
}

dv_expr dv_expr_binary(dv_fn fn, const dv_expr *x, const dv_expr *y,
                       uint32_t off)
{
    dv_expr e = {.kind = DV_EXPR_APPLY,
                 .fn = (uint8_t)fn,
                 .n_args = 2,
                 .off = off,
                 .arg = {x, y}};
    e.dtype = dv_expr_type(&e);
    return e;
}

uint32_t dv_expr_free_vars(const dv_op *op, const dv_expr *e)
{
    if (e->kind == DV_EXPR_READ)
        return dv_access_vars(op, &op->reads[e->read]);
    if (e->kind == DV_EXPR_INDEX)
        return 1u << e->read;
    uint32_t mask = 0;
    for (int i = 0; i < e->n_args; i++)
        mask |= dv_expr_free_vars(op, e->arg[i]);
    return e->kind == DV_EXPR_REDUCE ? mask & ~e->vars : mask;
}

int64_t dv_op_points(const dv_op *op, uint32_t vars)
{
    int64_t n = 1;
    for (int v = 0; v < op->n_vars; v++)
        if ((vars >> v & 1) && !dv_mul_i64(&n, n, dv_var_len(op, v)))
            return 0;
    return n;
}

double dv_op_points_double(const dv_op *op, uint32_t vars)
{
    double n = 1;
    for (int v = 0; v < op->n_vars; v++)
        if (vars >> v & 1)
            n *= (double)(dv_var_len(op, v));
    return n;
}

static double work_of(const dv_op *op, const dv_expr *e, uint32_t vars)
{
    uint32_t inner = e->kind == DV_EXPR_REDUCE ? vars | e->vars : vars;
    double n = e->kind == DV_EXPR_REDUCE ? dv_op_points_double(op, inner) : 0;
    for (int i = 0; i < e->n_args; i++)
        n += work_of(op, e->arg[i], inner);
    return n;
}

uint32_t dv_written_vars(const dv_op *op)
{
    uint32_t written = 0;
    for (int v = 0; v < op->n_vars; v++)
        written |= op->vars[v].reduce ? 0 : 1u << v;
    return written;
}

double dv_op_work(const dv_op *op)
{
    uint32_t written = dv_written_vars(op);
    return dv_op_points_double(op, written) + work_of(op, op->body, written);
}

double dv_program_points(const dv_program *p)
{
    double sum = 0, times[DV_MAX_NESTING + 2] = {1};
    int32_t end[DV_MAX_NESTING + 2] = {p->n_ops}, depth = 0, next = 0;
    for (int32_t i = 0; i < p->n_ops; i++) {
        while (depth && end[depth] <= i)
            depth--;
        for (; next < p->n_repeats && p->repeats[next].first_op == i; next++) {
            times[depth + 1] = times[depth] * (double)p->repeats[next].times;
            end[++depth] = p->repeats[next].end_op;
        }
        sum += times[depth] * dv_op_work(&p->ops[i]);
    }
    return sum;
}

// Counts the function applications in e, each weighted by the number of points
// it is evaluated on. `vars` is the mask of variables that loop around e.
static double flops_of(const dv_op *op, const dv_expr *e, uint32_t vars)
{
    double n = 0;
    uint32_t inner = e->kind == DV_EXPR_REDUCE ? vars | e->vars : vars;
    for (int i = 0; i < e->n_args; i++)
        n += flops_of(op, e->arg[i], inner);
    double points = dv_op_points_double(op, inner);
    if (e->kind == DV_EXPR_APPLY)
        n += points * dv_fn_get((dv_fn)e->fn)->flops;
    if (e->kind == DV_EXPR_REDUCE)
        n += points;
    return n;
}

double dv_op_flops(const dv_op *op)
{
    return flops_of(op, op->body, dv_written_vars(op));
}

// Returns a bound on the number of distinct elements an access touches: at most
// one per point of the variables in it, and at most the size of the box spanned
// by its indices.
static double touched(const dv_program *p, const dv_op *op, const dv_access *a)
{
    const dv_tensor *t = &p->tensors[a->tensor];
    double box = 1;
    for (int d = 0; d < t->n_dims; d++) {
        const dv_index *x = &a->index[d];
        int64_t lo = 0, hi = t->shape[d] - 1;
        if (x->via < 0 && !dv_access_bounds(p, op, a, d, NULL, &lo, &hi))
            return (double)t->n_elems;
        uint32_t vars = x->via < 0 ? dv_index_vars(op, x)
                                   : dv_access_vars(op, &op->reads[x->via]);
        box *= (double)dv_min_i64(hi - lo + 1, dv_op_points(op, vars));
    }
    double points = (double)dv_op_points(op, dv_access_vars(op, a));
    return box < points ? box : points;
}

// Returns the number of elements in the bounding box of all reads of one
// tensor. It counts elements shared by overlapping reads, as in a stencil, only
// once.
static double box_around(const dv_program *p, const dv_op *op, int32_t tensor)
{
    const dv_tensor *t = &p->tensors[tensor];
    double box = 1;
    for (int d = 0; d < t->n_dims; d++) {
        int64_t least = INT64_MAX, most = INT64_MIN;
        for (int i = 0; i < op->n_reads; i++) {
            const dv_access *a = &op->reads[i];
            int64_t lo = 0, hi = t->shape[d] - 1;
            if (a->tensor != tensor)
                continue;
            if (a->index[d].via < 0 &&
                !dv_access_bounds(p, op, a, d, NULL, &lo, &hi))
                return (double)t->n_elems;
            least = dv_min_i64(least, lo);
            most = dv_max_i64(most, hi);
        }
        box *= (double)(most - least + 1);
    }
    return box;
}

double dv_op_read_bytes(const dv_program *p, const dv_op *op, int32_t tensor)
{
    double sum = 0;
    for (int i = 0; i < op->n_reads; i++)
        if (op->reads[i].tensor == tensor)
            sum += touched(p, op, &op->reads[i]);
    double box = sum > 0 ? box_around(p, op, tensor) : 0;
    return (sum < box ? sum : box) *
           dv_dtype_get(p->tensors[tensor].dtype)->size_bytes;
}

int dv_op_reads_first(const dv_op *op, int read)
{
    int k = 0;
    while (op->reads[k].tensor != op->reads[read].tensor)
        k++;
    return k == read;
}

double dv_op_bytes(const dv_program *p, const dv_op *op)
{
    const dv_tensor *out = &p->tensors[op->write.tensor];
    double n =
        touched(p, op, &op->write) * dv_dtype_get(out->dtype)->size_bytes;
    for (int i = 0; i < op->n_reads; i++)
        if (dv_op_reads_first(op, i))
            n += dv_op_read_bytes(p, op, op->reads[i].tensor);
    return n;
}

// Returns whether two accesses of a tensor provably touch no common element: in
// some dim, their indices have disjoint ranges. Indirect indices are compared
// only if they add the same value.
static int are_apart(const dv_op *op, const dv_access *a, const dv_access *b)
{
    int64_t lo[2], hi[2];
    for (int d = 0; d < a->n_dims; d++) {
        const dv_index *x = &a->index[d], *y = &b->index[d];
        int same = x->via == y->via && x->factor == y->factor &&
                   (x->via < 0 || !dv_access_vars(op, &op->reads[x->via]));
        if (same && dv_index_bounds(op, x, NULL, &lo[0], &hi[0]) &&
            dv_index_bounds(op, y, NULL, &lo[1], &hi[1]) &&
            (hi[0] < lo[1] || hi[1] < lo[0]))
            return 1;
    }
    return 0;
}

int dv_op_reads_own_write(const dv_op *op)
{
    for (int i = 0; i < op->n_reads; i++)
        if (op->reads[i].tensor == op->write.tensor &&
            !are_apart(op, &op->reads[i], &op->write) &&
            (!dv_access_equal(op, &op->reads[i], &op->write) ||
             dv_access_gathers(op, &op->write)))
            return 1;
    return 0;
}

static int has_fraction(const dv_expr *e)
{
    if (e->dtype == DV_WEAK_FLOAT ||
        (e->dtype >= 0 && dv_is_float((dv_dtype)e->dtype)))
        return 1;
    if (e->kind == DV_EXPR_CONST)
        return 0;
    for (int i = 0; i < e->n_args; i++)
        if (has_fraction(e->arg[i]))
            return 1;
    return 0;
}

static int reads(const dv_expr *e, int32_t read)
{
    int found = e->kind == DV_EXPR_READ && e->read == read;
    for (int i = 0; i < e->n_args && !found; i++)
        found = reads(e->arg[i], read);
    return found;
}

static int goes_by(const dv_access *a, int32_t read)
{
    for (int d = 0; d < a->n_dims; d++)
        if (a->index[d].via == read)
            return 1;
    return 0;
}

int dv_op_is_index(const dv_op *op, int32_t read)
{
    int found = goes_by(&op->write, read);
    for (int i = 0; i < op->n_reads && !found; i++)
        found = goes_by(&op->reads[i], read);
    return found && !reads(op->body, read);
}

// Returns whether the expression depends on the value of a read other than
// through comparisons of integers and integer conditions of selects.
static int is_value(const dv_expr *e, int32_t read)
{
    int first =
        dv_expr_applies(e, DV_FN_SELECT) && dv_expr_is_integer(e->arg[0]);
    int found = e->kind == DV_EXPR_READ && e->read == read;
    for (int i = first; i < e->n_args && !found && !dv_expr_is_test(e); i++)
        found = is_value(e->arg[i], read);
    return found;
}

// Returns the compute type of an op that only converts integers to floats. It
// holds the integers exactly or is the target type, so that they are rounded
// once.
static dv_compute_type type_to_convert(const dv_program *p, const dv_op *op)
{
    dv_dtype to = p->tensors[op->write.tensor].dtype;
    if (!dv_is_float(to) || op->body->kind != DV_EXPR_READ)
        return DV_IN_I64;
    dv_dtype from = p->tensors[op->reads[op->body->read].tensor].dtype;
    int bytes = dv_dtype_get(from)->size_bytes;
    return bytes > 4                                       ? DV_IN_I64
           : bytes < 4 || (from == DV_I32 && to == DV_F32) ? DV_IN_F32
                                                           : DV_IN_F64;
}

dv_compute_type dv_op_compute(const dv_program *p, const dv_op *op)
{
    int f64 = 0, floats = has_fraction(op->body), wide = 0;
    for (int i = -1; i < op->n_reads; i++) {
        const dv_access *a = i < 0 ? &op->write : &op->reads[i];
        dv_dtype t = p->tensors[a->tensor].dtype;
        f64 |= t == DV_F64;
        floats |= i >= 0 && dv_is_float(t);
        if (dv_is_wide_integer(t) && !wide)
            wide = i < 0 || (!dv_op_is_index(op, i) &&
                             (is_value(op->body, i) || !reads(op->body, i)));
    }
    // If the op reads nothing, its constants have the type of the tensor that
    // is written.
    dv_dtype out = p->tensors[op->write.tensor].dtype;
    if (op->n_reads == 0)
        floats |= dv_is_float(out);
    if (f64)
        return DV_IN_F64;
    if (!floats)
        return type_to_convert(p, op);
    return wide ? DV_IN_F64 : DV_IN_F32;
}

int64_t dv_op_partial_bytes(const dv_program *p, const dv_op *op)
{
    return dv_op_compute(p, op) == DV_IN_F32 ? 4 : 8;
}

dv_program *dv_program_new(void)
{
    dv_arena arena = {0};
    dv_program *p = DV_NEW(&arena, dv_program, 1);
    if (p)
        p->arena = arena;
    return p;
}

int32_t dv_program_add_tensor(dv_program *p, const dv_tensor *t)
{
    int32_t id = p->n_tensors;
    if (!dv_table_set(&p->tensor_ids, &p->arena, t->name, strlen(t->name), id))
        return -1;
    dv_tensor *slot =
        DV_PUSH(&p->arena, dv_tensor, p->tensors, p->n_tensors, p->cap_tensors);
    if (!slot)
        return -1;
    *slot = *t;
    return id;
}

dv_op *dv_program_add_op(dv_program *p, const dv_op *op)
{
    dv_op *slot = DV_PUSH(&p->arena, dv_op, p->ops, p->n_ops, p->cap_ops);
    if (slot)
        *slot = *op;
    return slot;
}

dv_status dv_program_name_ops(dv_program *p, dv_diag *diag)
{
    int32_t *writers = DV_NEW(&p->arena, int32_t, p->n_tensors);
    if (!writers)
        return dv_nomem(diag);
    for (int32_t i = 0; i < p->n_ops; i++) {
        int32_t t = p->ops[i].write.tensor;
        p->ops[i].name = p->tensors[t].name;
        if (++writers[t] == 1)
            continue;
        dv_text name = {0};
        dv_put(&name, "%s.%d", p->tensors[t].name, (int)writers[t]);
        char *copy =
            name.failed ? NULL : dv_arena_copy(&p->arena, name.at, name.len);
        dv_text_free(&name);
        if (!copy)
            return dv_nomem(diag);
        p->ops[i].name = copy;
    }
    return DV_OK;
}

int32_t dv_program_find(const dv_program *p, const char *name)
{
    return dv_table_get(&p->tensor_ids, name, strlen(name), -1);
}
