// Runs groups row by row; rows.h has the overview.
//
// First the ops of the group are expressed in terms of rows, and small
// temporaries are inlined where they are read. The remaining ops are the
// statements, which are divided into units. A unit is one kernel, of one
// statement or of several side by side. In step t the units run one after the
// other, each statement on row t - delay, so that the rows a statement reads
// were computed before.
#include "exec/op/rows.h"
#include "base/math.h"
#include <stdlib.h>
#include <string.h>

enum {
    MAX_OPS = 16, // most ops of a group that runs row by row
    // Most variables that enumerate rows: the rows of x[h,i,j] have h and i.
    MAX_LEVELS = DV_MAX_ROW_VARS,
    MAX_INLINED = 2 // most operations of a temporary that is inlined
};
// If rows are shorter than SHORT_BYTES, the overhead of calls dominates.
// FEW_OPERANDS limits the operands of a statement (an op that remains after
// inlining). MANY is the least number of statements in one kernel at which
// these prefetch their next rows.
enum { SHORT_BYTES = 1024, FEW_OPERANDS = 64, MANY = 3 };

// The variables of an op that enumerate rows, outermost first; all ops of a
// group (ops that share one tile space) have the same number of them, with the
// same ranges.
typedef struct row_vars {
    int32_t n, v[MAX_LEVELS];
} row_vars;

static int has_var(const row_vars *x, int v)
{
    for (int k = 0; k < x->n; k++)
        if (x->v[k] == v)
            return 1;
    return 0;
}

typedef struct inliner {
    const dv_rows_spec *spec;
    const dv_program *p;
    dv_arena *arena;
    dv_op *ops; // the group's ops; inlining rewrites them one by one
    int32_t n;
    int failed;
} inliner;

// Returns the one variable of an op that is cut into slices, one per tile; -1
// if there is none or more than one.
static int32_t cut_var(const dv_plan *plan, int32_t op)
{
    const dv_op *o = &plan->ops->ops[op];
    int32_t found = -1;
    for (int v = 0; v < o->n_vars; v++) {
        if (plan->slices[op][v] >= dv_var_len(o, v))
            continue;
        if (found >= 0 || o->vars[v].reduce)
            return -1;
        found = v;
    }
    return found;
}

static int32_t writer_of(const inliner *f, int32_t tensor, int32_t before)
{
    for (int32_t i = before - 1; i >= 0; i--)
        if (f->ops[i].write.tensor == tensor)
            return i;
    return -1;
}

// Op w writes the tensor that op i reads through `a`. Returns 1 if both use the
// same row of it with respect to their k-th row variable (row variables
// enumerate rows).
static int same_row(const inliner *f, const row_vars *row, int32_t i, int32_t w,
                    const dv_access *a, int k)
{
    const dv_access *b = &f->ops[w].write;
    int d = dv_access_dim(&f->ops[i], a, row[i].v[k]);
    int e = dv_access_dim(&f->ops[w], b, row[w].v[k]);
    return d >= 0 && d == e && a->index[d].base == b->index[e].base;
}

// Returns 1 if op i can run row by row: of tensors that earlier ops of the
// group write, it reads only the same row, and it writes a tensor that no
// earlier op uses.
static int row_by_row(const inliner *f, const row_vars *row, int32_t i)
{
    const dv_op *o = &f->ops[i];
    if (o->update || o->is_extern)
        return 0;
    for (int k = 0; k < row[i].n; k++)
        if (dv_access_dim(o, &o->write, row[i].v[k]) < 0)
            return 0;
    for (int32_t k = 0; k < i; k++)
        for (int r = 0; r <= f->ops[k].n_reads; r++) {
            const dv_access *a = dv_op_access(&f->ops[k], r);
            if (a->tensor == o->write.tensor)
                return 0;
        }
    for (int r = 0; r < o->n_reads; r++) {
        const dv_access *a = &o->reads[r];
        int32_t w = writer_of(f, a->tensor, i);
        if (dv_access_is_indirect(a) || a->has_border ||
            a->tensor == o->write.tensor)
            return 0;
        for (int k = 0; w >= 0 && k < row[i].n; k++)
            if (!same_row(f, row, i, w, a, k))
                return 0;
    }
    return 1;
}

enum { EXPENSIVE = 100 };

// Returns the number of operations of an expression, or EXPENSIVE, which is
// more than is ever inlined, if one of them is slow or would be rounded
// differently if it were inlined into another op: which divisions become
// multiplications by the reciprocal depends on the rows of the result. Values
// of variables are not inlined either, because the other op numbers its
// variables differently.
static int cost_of(const dv_expr *e)
{
    int n = e->kind == DV_EXPR_APPLY;
    if (e->kind == DV_EXPR_REDUCE || e->kind == DV_EXPR_INDEX ||
        (e->kind == DV_EXPR_APPLY && e->fn != DV_FN_ADD && e->fn != DV_FN_SUB &&
         e->fn != DV_FN_MUL && e->fn != DV_FN_NEG &&
         !(e->fn == DV_FN_DIV && e->arg[1]->kind == DV_EXPR_CONST)))
        return EXPENSIVE;
    for (int i = 0; i < e->n_args && n < EXPENSIVE; i++)
        n += cost_of(e->arg[i]);
    return n;
}

// Returns 1 if storing the result of op o does not round it.
static int is_stored_whole(const inliner *f, const dv_op *o)
{
    const dv_tensor *t = &f->p->tensors[o->write.tensor];
    dv_compute_type in = dv_op_compute(f->p, o);
    return (in == DV_IN_F32 && t->dtype == DV_F32) ||
           (in == DV_IN_F64 && t->dtype == DV_F64);
}

// Returns 1 if op w's result is a temporary that only later ops of the group
// (ops that share one tile space) read, all of which compute in the type of w.
static int is_own(const inliner *f, int32_t w)
{
    const dv_op *o = &f->ops[w], *all = f->p->ops;
    int32_t first = f->spec->group->first_op, t = o->write.tensor, found = 0;
    if (f->p->tensors[t].is_input || f->p->tensors[t].is_output)
        return 0;
    for (int32_t i = 0; i < f->p->n_ops; i++) {
        int here = i > first + w && i < f->spec->group->end_op;
        if ((i != first + w && all[i].write.tensor == t) ||
            (dv_op_reads(&all[i], t) &&
             (!here || dv_op_compute(f->p, &all[i]) != dv_op_compute(f->p, o))))
            return 0;
        found |= dv_op_reads(&all[i], t);
    }
    return found;
}

// Returns 1 if each written dimension is a different variable, so that the
// index of a read determines the point that wrote the element.
static int is_map(const dv_op *o)
{
    int vars[DV_MAX_DIMS];
    return dv_access_is_box(o, &o->write, vars) &&
           dv_access_vars(o, &o->write) == dv_all_vars(o);
}

// Returns 1 if each variable of the op is alone in some index of a read, so
// that the op's value varies along the same variables when it is inlined as
// when it is stored. What a kernel hoists out of a row, multiplies by a
// reciprocal or fuses with an addition depends on that.
static int varies_alike(const dv_op *o)
{
    uint32_t found = 0;
    for (int r = 0; r < o->n_reads; r++)
        for (int d = 0; d < o->reads[r].n_dims; d++) {
            uint32_t vars = 0;
            for (int v = 0; v < o->n_vars; v++)
                vars |= (uint32_t)(o->reads[r].index[d].coef[v] != 0) << v;
            found |= vars & (vars - 1) ? 0 : vars;
        }
    return found == dv_all_vars(o);
}

// Returns 1 if op w can be inlined without changing bits, unless a reduction
// that reads it gets another order of additions (adds_alike). A product cannot:
// storing rounds it, but inlined it may become part of a fused multiply-add.
static int may_inline(const inliner *f, int32_t w)
{
    const dv_op *o = &f->ops[w];
    return !dv_expr_applies(o->body, DV_FN_MUL) &&
           cost_of(o->body) <= MAX_INLINED && o->n_reads <= MAX_INLINED + 1 &&
           is_map(o) && varies_alike(o) && is_stored_whole(f, o) &&
           is_own(f, w);
}

// Composes two accesses: op o reads through `from` what op w wrote, and op w
// reads through `a`. *out is the access of op o that reads a's tensor directly.
static int compose(inliner *f, dv_access *out, const dv_access *a,
                   const dv_op *w, const dv_op *o, const dv_access *from)
{
    dv_index *x = DV_NEW(f->arena, dv_index, a->n_dims + 1);
    *out = *a;
    out->index = x;
    for (int d = 0; x && d < a->n_dims; d++) {
        int64_t *coef = DV_NEW(f->arena, int64_t, o->n_vars + 1);
        if (!coef)
            return 0;
        x[d] = (dv_index){.base = a->index[d].base, .coef = coef, .via = -1};
        for (int e = 0; e < from->n_dims; e++)
            for (int v = 0; v < w->n_vars; v++) {
                int64_t by = a->index[d].coef[v];
                if (!w->write.index[e].coef[v] || !by)
                    continue;
                x[d].base +=
                    by * (from->index[e].base - w->write.index[e].base);
                for (int k = 0; k < o->n_vars; k++)
                    coef[k] += by * from->index[e].coef[k];
            }
    }
    return x != NULL;
}

// Returns the number of a read in op o; appends the read if it is new.
static int32_t add_read(dv_op *o, dv_access *reads, const dv_access *a)
{
    for (int32_t r = 0; r < o->n_reads; r++)
        if (dv_access_equal(o, &reads[r], a))
            return r;
    reads[o->n_reads] = *a;
    return o->n_reads++;
}

// Copies an expression with renumbered reads; reads for which `with` has an
// expression are replaced by that expression.
static const dv_expr *copy(inliner *f, const dv_expr *e, const int32_t *number,
                           const dv_expr *const *with)
{
    if (e->kind == DV_EXPR_READ && with && with[e->read])
        return with[e->read];
    dv_expr *x = DV_NEW(f->arena, dv_expr, 1);
    if (!x) {
        f->failed = 1;
        return e;
    }
    *x = *e;
    if (e->kind == DV_EXPR_READ)
        x->read = number[e->read];
    for (int i = 0; i < e->n_args && !f->failed; i++)
        x->arg[i] = copy(f, e->arg[i], number, with);
    return x;
}

// Returns the body of op w in terms of op o's variables, to replace the read
// `from` of op o.
static const dv_expr *inlined_body(inliner *f, const dv_op *w, dv_op *o,
                                   dv_access *reads, const dv_access *from)
{
    int32_t number[MAX_INLINED + 1];
    for (int r = 0; r < w->n_reads && !f->failed; r++) {
        dv_access a;
        if (!compose(f, &a, &w->reads[r], w, o, from))
            f->failed = 1;
        else
            number[r] = add_read(o, reads, &a);
    }
    return f->failed ? w->body : copy(f, w->body, number, NULL);
}

// Replaces the reads of inlined temporaries in op i by their expressions.
static void rewrite(inliner *f, const uint8_t *inlined, int32_t i)
{
    dv_op *o = &f->ops[i], was = *o;
    size_t n = (size_t)was.n_reads, any = 0;
    for (int r = 0; r < was.n_reads; r++) {
        int32_t w = writer_of(f, was.reads[r].tensor, i);
        any += w >= 0 && inlined[w];
    }
    if (!any)
        return;
    dv_access *reads = DV_NEW(f->arena, dv_access, n + any * (MAX_INLINED + 1));
    int32_t *number = DV_NEW(f->arena, int32_t, n);
    const dv_expr **with = DV_NEW(f->arena, const dv_expr *, n);
    if (!reads || !number || !with) {
        f->failed = 1;
        return;
    }
    o->n_reads = 0;
    for (int r = 0; r < was.n_reads && !f->failed; r++) {
        int32_t w = writer_of(f, was.reads[r].tensor, i);
        if (w >= 0 && inlined[w])
            with[r] = inlined_body(f, &f->ops[w], o, reads, &was.reads[r]);
        else
            number[r] = add_read(o, reads, &was.reads[r]);
    }
    o->reads = reads;
    o->body = f->failed ? was.body : copy(f, was.body, number, with);
}

// Returns the variable that enumerates the rows of op i: the one that is cut
// into slices, one per tile, or the first variable if there is only one tile.
static row_vars pick_row(const inliner *f, int32_t i)
{
    const dv_plan *plan = f->spec->plan;
    int32_t op = f->spec->group->first_op + i;
    int32_t v = f->ops[i].n_vars && !f->ops[i].vars[0].reduce ? 0 : -1;
    if (f->spec->group->n_tiles > 1)
        v = cut_var(plan, op);
    return (row_vars){v >= 0, {v}};
}

// Returns the first n variables as those that enumerate rows, or as many as
// precede the first reduced variable.
static row_vars pick_rows(const dv_op *o, int n)
{
    row_vars x = {0, {0}};
    for (; x.n < n && x.n < o->n_vars && !o->vars[x.n].reduce; x.n++)
        x.v[x.n] = x.n;
    return x;
}

// Returns the number of variables that enumerate rows: those before the first
// reduced variable or, without a reduction, all but the last.
static int count_rows(const inliner *f)
{
    int n = 0;
    for (int32_t i = 0; i < f->n; i++) {
        int left = 0;
        while (left < f->ops[i].n_vars && !f->ops[i].vars[left].reduce)
            left++;
        if (left < f->ops[i].n_vars)
            return left;
        n = left > n ? left : n;
    }
    return n - 1;
}

// Are the rows of consecutive tiles consecutive? Tiles must have one point of
// the outer variables, a range of one variable, and all of the inner ones.
static int in_order(const inliner *f, const row_vars *row)
{
    const dv_op *o = &f->ops[0];
    const int64_t *slices = f->spec->plan->slices[f->spec->group->first_op];
    int k = 0;
    while (k < row->n && slices[row->v[k]] == 1)
        k++;
    while (++k < row->n)
        if (slices[row->v[k]] < dv_var_len(o, row->v[k]))
            return 0;
    return 1;
}

static int same_range(const inliner *f, const row_vars *row, int32_t i)
{
    int64_t *const *slices = f->spec->plan->slices + f->spec->group->first_op;
    for (int k = 0; k < row[0].n; k++) {
        int v = row[i].v[k], w = row[0].v[k];
        if (f->ops[i].vars[v].begin != f->ops[0].vars[w].begin ||
            f->ops[i].vars[v].end != f->ops[0].vars[w].end ||
            slices[i][v] != slices[0][w])
            return 0;
    }
    return 1;
}

// Returns 1 if the tiles of op i contain whole rows: only the variables that
// enumerate rows are sliced.
static int is_whole(const inliner *f, const row_vars *row, int32_t i)
{
    const int64_t *slices = f->spec->plan->slices[f->spec->group->first_op + i];
    for (int v = 0; v < f->ops[i].n_vars; v++)
        if (!has_var(&row[i], v) && slices[v] < dv_var_len(&f->ops[i], v))
            return 0;
    return 1;
}

// Returns the variables that enumerate rows as the plan's schedule says.
static row_vars rows_of_plan(const dv_op_schedule *as)
{
    row_vars x = {.n = as->n_rows};
    for (int k = 0; k < x.n; k++)
        x.v[k] = as->rows[k];
    return x;
}

// Picks the variables that enumerate the rows of all ops: those of the plan or,
// if there is no plan to obey, several with `many`, else one. Returns 0 unless
// all ops have the same rows and each needs only the same row of the others.
static int all_in_rows(const inliner *f, row_vars *row, int many)
{
    const dv_op_schedule *as = f->spec->as;
    int n = as ? as->n_rows : many ? count_rows(f) : 1;
    if (n < 1 || n > MAX_LEVELS || (!as && many && n < 2))
        return 0;
    for (int32_t i = 0; i < f->n; i++) {
        row[i] = as     ? rows_of_plan(&as[i])
                 : many ? pick_rows(&f->ops[i], n)
                        : pick_row(f, i);
        if (row[i].n != n || !is_whole(f, row, i) || !same_range(f, row, i) ||
            !row_by_row(f, row, i))
            return 0;
    }
    return 1;
}

// The ops of a group, prepared for row-by-row execution: those that are not
// inlined, rewritten, with the variables that enumerate their rows.
typedef struct row_ops {
    dv_op *ops;
    int32_t n;
    row_vars row[MAX_OPS];
    int32_t number[MAX_OPS]; // position of each op in the group
    row_vars all[MAX_OPS];   // variables that enumerate rows, of all ops
    int even;                // 1 if consecutive tiles have consecutive rows
} row_ops;

// Rewrites the ops of a group (ops that share one tile space) for row-by-row
// execution and removes the ops that are inlined. x->n is the number of
// remaining ops, or 0 if the group cannot run row by row. Returns 0 when out of
// memory.
static int inline_ops(const dv_rows_spec *spec, dv_arena *arena, row_ops *x)
{
    const dv_group *g = spec->group;
    inliner f = {.spec = spec, .p = spec->plan->ops, .arena = arena};
    uint8_t inlined[MAX_OPS] = {0};
    *x = (row_ops){0};
    f.n = g->end_op - g->first_op;
    if (f.n < 2 || f.n > MAX_OPS)
        return 1;
    x->ops = f.ops = DV_NEW(arena, dv_op, f.n);
    if (!f.ops)
        return 0;
    for (int32_t i = 0; i < f.n; i++)
        f.ops[i] = f.p->ops[g->first_op + i];
    if (!all_in_rows(&f, x->all, 1) &&
        (spec->as || !all_in_rows(&f, x->all, 0)))
        return 1;
    x->even = in_order(&f, x->all);
    for (int32_t i = 0; i < f.n && !f.failed; i++) {
        int wanted = !spec->as || spec->as[i].kind == DV_KERNEL_INLINE;
        rewrite(&f, inlined, i);
        inlined[i] = (uint8_t)(wanted && may_inline(&f, i));
    }
    for (int32_t i = 0; i < f.n; i++)
        if (!inlined[i]) {
            f.ops[x->n] = f.ops[i];
            x->number[x->n] = i;
            x->row[x->n++] = x->all[i];
        }
    return !f.failed;
}

typedef struct statement {
    const dv_op *op;
    row_vars rows;
    // `row` is the innermost of the variables that enumerate rows. `unit` is
    // the number of the kernel that computes the statement, alone or with
    // others.
    int32_t row, unit;
    // The statement is this many rows behind the loop over rows, so that the
    // rows which it reads are already computed.
    int64_t delay;
    int32_t number; // position of its op in the group
    // The loops of the kernel that computes this statement alone, in the form
    // in which a plan's schedule has them.
    dv_op_schedule loops;
    uint64_t prefetch; // bit r: the next row of read r is prefetched
    dv_vec_fn alone;   // computes this statement alone
    int64_t n;         // elements of a row
    int64_t n_bytes;   // bytes of its longest operand row
    dv_vec_shape shape;
    dv_vec_operand *operand; // operands of the kernel's shape, writable
    const int32_t *tensor;   // tensor of each operand; -1: a variable's value
    // Byte offsets of row 0 and byte strides between rows, of each operand.
    const int64_t *base, *step;
    // Byte strides of all operands along each of the outer variables that
    // enumerate rows.
    const int64_t *far;
} statement;

typedef struct unit {
    // Number and indices of the statements that this kernel computes.
    int32_t n, s[DV_VEC_MAX_STATEMENTS];
    // The kernel that computes all of them; NULL: there is only one statement.
    dv_vec_fn joined;
} unit;

struct dv_rows {
    const dv_plan *plan;
    int32_t op; // the first op of the group, whose tiles are ranges of rows
    row_vars rows;
    row_vars all[MAX_OPS]; // variables that enumerate rows, of all ops
    // 1 if all rows are equally spaced in memory, across tiles too.
    int even;
    int32_t n, n_units;
    // The largest delay: rows by which a statement stays behind the loop over
    // rows.
    int64_t last;
    int across; // 1 if consecutive tiles may run as one
    statement s[MAX_OPS];
    unit units[MAX_OPS];
};

typedef struct maker {
    const dv_rows_spec *spec;
    dv_jit *jit;
    dv_arena *arena;
    dv_rows *r;
    int nomem; // 1 if memory ran out while kernels were compared
} maker;

// Fills in the operands of a statement: addresses of rows, strides within and
// between rows. *ok becomes 0 if a stride is too large. Returns 0 when out of
// memory.
static int set_operands(maker *m, statement *s, const dv_vec_op_kernel *look,
                        int *ok)
{
    const dv_op *o = s->op;
    size_t n = look->shape->n_operands;
    dv_vec_operand *operand = DV_NEW(m->arena, dv_vec_operand, n);
    int32_t *tensor = DV_NEW(m->arena, int32_t, n);
    int64_t *base = DV_NEW(m->arena, int64_t, n);
    int64_t *step = DV_NEW(m->arena, int64_t, n);
    int64_t *far = DV_NEW(m->arena, int64_t, n * (size_t)s->rows.n);
    if (!operand || !tensor || !base || !step || !far)
        return 0;
    for (size_t i = 0; i < n; i++) {
        int32_t read = look->read[i];
        const int64_t *by = &look->step[i * (size_t)o->n_vars];
        tensor[i] = read < 0             ? -1
                    : read == o->n_reads ? o->write.tensor
                                         : o->reads[read].tensor;
        if (read >= 0)
            m->r->across &= !m->spec->strides || !m->spec->strides[tensor[i]];
        operand[i] = look->shape->operands[i];
        int64_t es = dv_dtype_get((dv_dtype)operand[i].dtype)->size_bytes;
        operand[i].outer = by[s->row] / es;
        *ok &= llabs(operand[i].outer) <= DV_VEC_MAX_STRIDE;
        if (look->inner == s->row)
            operand[i].inner = 0;
        step[i] = by[s->row];
        base[i] = look->base[i];
        for (int v = 0; v < o->n_vars; v++)
            if (!has_var(&s->rows, v))
                base[i] += by[v] * o->vars[v].begin;
        for (int l = 0; l + 1 < s->rows.n; l++) {
            int v = s->rows.v[l], w = s->rows.v[l + 1];
            far[(size_t)l * n + i] = by[v];
            m->r->even &= by[v] == by[w] * dv_var_len(o, w);
        }
        s->n_bytes = dv_max_i64(s->n_bytes, operand[i].inner ? s->n * es : 0);
    }
    s->shape.operands = s->operand = operand;
    s->tensor = tensor;
    s->base = base;
    s->step = step;
    s->far = far;
    return 1;
}

// Returns 1 if temporaries were inlined in the statement's op.
static int is_rewritten(const maker *m, const statement *s)
{
    const dv_op *ops = m->spec->plan->ops->ops;
    return s->op->body != ops[m->spec->group->first_op + s->number].body;
}

// Returns 1 if kernel k of an op with inlined temporaries adds in the same
// order as `alone`, the kernel of the op without inlining. They may differ:
// operands have other strides, for which other loops may be chosen, and a
// longer expression may be unrolled less.
static int adds_alike(maker *m, const dv_vec_op_kernel *k,
                      const dv_vec_op *alone)
{
    dv_vec_op_kernel other;
    dv_vec_op_get_kernel(alone, &other);
    if (k->reduce == DV_VEC_EACH || k->reduce != other.reduce)
        return k->reduce == other.reduce;
    if (k->inner != other.inner)
        return 0;
    int alike = dv_vec_adds_alike(m->jit, k->shape, other.shape);
    m->nomem |= alike < 0;
    return alike > 0;
}

// Prepares an op as a statement that runs row by row. *ok is 0 if the op has
// more than one loop within a row or no kernel.
static dv_status make_statement(maker *m, statement *s, int *ok, dv_diag *diag)
{
    const dv_op *o = s->op;
    dv_kernel k;
    dv_vec_op *v;
    dv_vec_op_kernel look;
    *ok = 0;
    if (!dv_kernel_init(&k, m->spec->plan->ops, o, m->spec->strides, m->arena))
        return dv_nomem(diag);
    dv_vec_spec spec = {.p = m->spec->plan->ops,
                        .op = o,
                        .reads = k.reads,
                        .write = &k.write,
                        .whole = 1};
    dv_op_schedule as = {.inner = -1, .outer = -1};
    const dv_vec_op *alone = m->spec->alone[s->number];
    dv_op_schedule given = {0};
    int chosen = !m->spec->as && is_rewritten(m, s);
    if (m->spec->as)
        given = m->spec->as[s->number];
    else
        dv_vec_op_describe(alone, &given);
    if (!chosen) {
        as.inner = given.inner;
        as.outer = given.outer;
        as.window = given.window;
        spec.as = &as;
    }
    if (o->n_reads >= FEW_OPERANDS)
        return DV_OK;
    DV_TRY(dv_vec_op_create(&v, &spec, m->jit, m->arena, diag));
    if (!v)
        return DV_OK;
    dv_vec_op_get_kernel(v, &look);
    dv_vec_op_describe(v, &s->loops);
    if (chosen && !adds_alike(m, &look, alone))
        return m->nomem ? dv_nomem(diag) : DV_OK;
    int once = look.inner == s->row;
    // If `once` is set, the kernel's loop runs over rows, so each row has one
    // element.
    if (!once && has_var(&s->rows, look.inner))
        return DV_OK;
    if (look.reduce == DV_VEC_OUTER || look.reduce == DV_VEC_BOTH ||
        look.inner < 0 || (once && look.reduce != DV_VEC_EACH) ||
        // An unrolled window (a small stencil or pooling reduction) does not
        // run row by row.
        s->loops.window || look.shape->n_operands > FEW_OPERANDS)
        return DV_OK;
    for (int i = 0; i < o->n_vars; i++)
        if (!has_var(&s->rows, i) && i != look.inner && dv_var_len(o, i) != 1)
            return DV_OK;
    s->n = once ? 1 : dv_var_len(o, look.inner);
    s->shape = *look.shape;
    s->shape.reduce = once ? DV_VEC_ONCE : look.reduce;
    s->shape.from_acc = s->shape.to_acc = 0;
    s->alone = look.run;
    *ok = 1;
    return set_operands(m, s, &look, ok) ? DV_OK : dv_nomem(diag);
}

// Links the shapes of the statements of a unit (the statements that one kernel
// computes) into the shape of that kernel. The last statement comes first, so
// that its stores do not wait for the others.
static const dv_vec_shape *side_by_side(dv_rows *r, const unit *u)
{
    for (int32_t i = 0; i < u->n; i++)
        r->s[u->s[i]].shape.beside = i ? &r->s[u->s[i - 1]].shape : NULL;
    return &r->s[u->s[u->n - 1]].shape;
}

// Returns 1 if one kernel can compute statement s together with the other
// statements of the unit: its rows have the same length and the kernel has room
// for it.
static int may_join(maker *m, const unit *u, int32_t s)
{
    dv_rows *r = m->r;
    unit more = *u;
    int64_t n = 0;
    if (u->n == DV_VEC_MAX_STATEMENTS)
        return 0;
    more.s[more.n++] = s;
    for (int32_t i = 0; i < more.n; i++) {
        const statement *x = &r->s[more.s[i]];
        int once = x->shape.reduce == DV_VEC_ONCE;
        if (!once && n && x->n != n)
            return 0;
        n = once ? n : x->n;
    }
    int fusable = n ? dv_vec_fusable(m->jit, side_by_side(r, &more)) : 0;
    m->nomem |= fusable < 0;
    return fusable > 0;
}

// Returns the unit that statement s joins: that of the plan, or the first one
// that has room for it.
static int32_t unit_of(maker *m, int32_t s)
{
    const dv_rows *r = m->r;
    int32_t u = 0;
    if (m->spec->as)
        return m->spec->as[r->s[s].number].unit;
    while (u < r->n_units && !may_join(m, &r->units[u], s))
        u++;
    return u;
}

// Assigns the statements to units. Returns 0 if a unit has no room for the
// statements that the plan assigns to it.
static int find_units(maker *m)
{
    dv_rows *r = m->r;
    for (int32_t i = 0; i < r->n; i++) {
        int32_t u = unit_of(m, i);
        if (u < 0 || u > r->n_units ||
            (u < r->n_units && !may_join(m, &r->units[u], i)))
            return 0;
        r->n_units += u == r->n_units;
        r->units[u].s[r->units[u].n++] = i;
        r->s[i].unit = u;
    }
    return 1;
}

// Returns 1 if several rows of the statement fit into L1.
static int is_short(const maker *m, const statement *s)
{
    return 8 * s->n_bytes <= m->spec->l1_bytes;
}

// Returns the number of rows that statement s must stay behind statement a,
// whose result it reads: 0 if a runs in an earlier kernel (unit), else 1. The
// result of a reduction is available some time after its row; if rows are
// short, s stays 2 rows behind so that it does not wait. With long rows a delay
// of 2 would exceed the cache.
static int64_t delay_after(const maker *m, const statement *s,
                           const statement *a)
{
    if (a->unit < s->unit)
        return 0;
    int sum = a->unit == s->unit && a->shape.reduce == DV_VEC_INNER;
    return sum && is_short(m, a) ? 2 : 1;
}

// Finds how many rows each statement stays behind the loop over rows: as many
// as the plan says, or else as few as possible. Returns 0 if the plan would run
// a statement before the rows that it reads are computed.
static int find_delays(maker *m)
{
    enum { MOST_DELAY = 1 << 20 };
    dv_rows *r = m->r;
    for (int32_t i = 0; i < r->n; i++) {
        statement *s = &r->s[i];
        if (m->spec->as)
            s->delay = m->spec->as[s->number].delay;
        if (s->delay < 0 || s->delay > MOST_DELAY)
            return 0;
        for (int32_t k = 0; k < i; k++) {
            const statement *a = &r->s[k];
            if (!dv_op_reads(s->op, a->op->write.tensor))
                continue;
            if (!m->spec->as)
                s->delay =
                    dv_max_i64(s->delay, a->delay + delay_after(m, s, a));
            else if (s->delay < a->delay + (a->unit >= s->unit))
                return 0;
        }
        r->last = dv_max_i64(r->last, s->delay);
    }
    return 1;
}

static int is_written(const dv_rows *r, int32_t tensor)
{
    for (int32_t i = 0; i < r->n; i++)
        if (r->s[i].op->write.tensor == tensor)
            return 1;
    return 0;
}

static int is_read_after(const dv_rows *r, int32_t tensor, int32_t i)
{
    while (++i < r->n)
        for (int k = 0; k + 1 < r->s[i].shape.n_operands; k++)
            if (r->s[i].tensor[k] == tensor)
                return 1;
    return 0;
}

// Makes statement i prefetch the next row of its operands. A statement alone
// prefetches operands that no later statement reads. Of several statements in
// one kernel, those that run first prefetch, provided that rows are short (long
// ones would evict each other from the cache), this kernel is the only one, and
// it has several statements (few leave no time to prefetch).
static void prefetch_next_row(const maker *m, int32_t i, int beside)
{
    statement *s = &m->r->s[i];
    const dv_op_schedule *as = m->spec->as ? &m->spec->as[s->number] : NULL;
    if (!as && beside &&
        (s->delay || !is_short(m, s) || m->r->n_units > 1 || m->r->n < MANY))
        return;
    for (int k = 0; k + 1 < s->shape.n_operands; k++)
        if (as ? as->prefetch >> k & 1
               : s->operand[k].inner == 1 && s->tensor[k] >= 0 &&
                     !is_written(m->r, s->tensor[k]) &&
                     (beside || !is_read_after(m->r, s->tensor[k], i))) {
            s->operand[k].ahead = s->operand[k].outer;
            s->prefetch |= UINT64_C(1) << k;
        }
}

static dv_status make_units(maker *m, dv_diag *diag)
{
    dv_rows *r = m->r;
    for (int32_t k = 0; k < r->n_units; k++) {
        unit *u = &r->units[k];
        statement *s = &r->s[u->s[0]];
        dv_vec_fn *to = u->n > 1 ? &u->joined : &s->alone;
        for (int32_t i = 0; i < u->n; i++)
            prefetch_next_row(m, u->s[i], u->n > 1);
        if (u->n > 1 || s->shape.reduce != DV_VEC_ONCE)
            DV_TRY(dv_jit_vec(m->jit, side_by_side(r, u), to, diag));
    }
    return DV_OK;
}

// Returns 1 if running row by row pays: rows are not so short that call
// overhead dominates, nor so long that the rows in progress do not fit L2.
static int is_profitable(const maker *m)
{
    const dv_rows *r = m->r;
    int64_t most = 0;
    for (int32_t i = 0; i < r->n; i++)
        most = dv_max_i64(most, r->s[i].n_bytes);
    if (r->n_units == r->n || (r->n_units > 1 && most < SHORT_BYTES))
        return 0;
    return !m->spec->l2_bytes || 4 * (r->last + 1) * most <= m->spec->l2_bytes;
}

dv_status dv_rows_create(dv_rows **out, const dv_rows_spec *spec, dv_jit *jit,
                         dv_arena *arena, dv_diag *diag)
{
    row_ops x;
    *out = NULL;
    if (!inline_ops(spec, arena, &x))
        return dv_nomem(diag);
    if (x.n < 2)
        return DV_OK;
    dv_rows *r = DV_NEW(arena, dv_rows, 1);
    if (!r)
        return dv_nomem(diag);
    maker m = {.spec = spec, .jit = jit, .arena = arena, .r = r};
    r->plan = spec->plan;
    r->op = spec->group->first_op;
    memcpy(r->all, x.all, sizeof r->all);
    r->rows = x.all[0];
    r->n = x.n;
    r->across = 1;
    r->even = x.even;
    for (int32_t i = 0; i < x.n; i++) {
        int ok;
        r->s[i].op = &x.ops[i];
        r->s[i].number = x.number[i];
        r->s[i].rows = x.row[i];
        r->s[i].row = x.row[i].v[x.row[i].n - 1];
        DV_TRY(make_statement(&m, &r->s[i], &ok, diag));
        if (!ok)
            return DV_OK;
    }
    int is_possible = find_units(&m) && find_delays(&m);
    if (m.nomem)
        return dv_nomem(diag);
    if (!is_possible || (!spec->as && !is_profitable(&m)))
        return DV_OK;
    DV_TRY(make_units(&m, diag));
    *out = r;
    return DV_OK;
}

void dv_rows_describe(const dv_rows *r, int32_t op, dv_op_schedule *out)
{
    const row_vars *row = &r->all[op - r->op];
    out->kind = DV_KERNEL_INLINE;
    out->n_rows = row->n;
    for (int k = 0; k < row->n; k++)
        out->rows[k] = row->v[k];
    for (int32_t i = 0; i < r->n; i++) {
        const statement *s = &r->s[i];
        if (s->number != op - r->op)
            continue;
        out->kind = DV_KERNEL_ROWS;
        out->inner = s->loops.inner;
        out->outer = s->loops.outer;
        out->window = s->loops.window;
        out->unit = s->unit;
        out->delay = s->delay;
        out->prefetch = s->prefetch;
    }
}

// A range of rows: begin..end of the innermost row variable at one point of the
// outer ones or, if `point` is NULL, numbered through all points.
typedef struct stretch {
    void *const *data;
    const int64_t *point; // values of all other row variables, or NULL
    int64_t begin, end;
} stretch;

static int point(const statement *s, const stretch *x, int64_t row, void **at)
{
    int n = s->shape.n_operands;
    for (int i = 0; i < n; i++) {
        int64_t off = s->base[i] + row * s->step[i];
        for (int k = 0; x->point && k + 1 < s->rows.n; k++)
            off += x->point[k] * s->far[k * n + i];
        uintptr_t from =
            s->tensor[i] < 0 ? 0 : (uintptr_t)x->data[s->tensor[i]];
        at[i] = (void *)(from + (uintptr_t)off);
    }
    return n;
}

// Fills `at` with the operands of the joint kernel of a unit (several
// statements side by side) from step t on, and returns the length of its rows.
static int64_t join(const dv_rows *r, const unit *u, const stretch *x,
                    int64_t t, void **at)
{
    int64_t n = 1;
    int k = 0;
    for (int32_t i = u->n - 1; i >= 0; i--) {
        const statement *s = &r->s[u->s[i]];
        k += point(s, x, t - s->delay, at + k);
        n = dv_max_i64(n, s->n);
    }
    return n;
}

// Runs a unit, that is one kernel, in step t of the loop over rows. Returns the
// number of steps done: if it is the only unit, all steps in which every
// statement has a row. The joint kernel runs only where every statement has
// one.
static int64_t run_unit(const dv_rows *r, const unit *u, const stretch *x,
                        int64_t t)
{
    void *at[DV_VEC_MAX_STATEMENTS * FEW_OPERANDS];
    int64_t least = INT64_MAX, most = 0;
    for (int32_t i = 0; i < u->n; i++) {
        least = dv_min_i64(least, r->s[u->s[i]].delay);
        most = dv_max_i64(most, r->s[u->s[i]].delay);
    }
    if (u->joined && t - most >= x->begin && t - least < x->end) {
        int64_t steps = r->n_units == 1 ? x->end + least - t : 1;
        int64_t n = join(r, u, x, t, at);
        u->joined(&(dv_vec_args){steps, n, at, NULL});
        return steps;
    }
    for (int32_t i = 0; i < u->n; i++) {
        const statement *s = &r->s[u->s[i]];
        int64_t row = t - s->delay;
        if (row < x->begin || row >= x->end)
            continue;
        point(s, x, row, at);
        s->alone(&(dv_vec_args){1, s->n, at, NULL});
    }
    return 1;
}

int dv_rows_span_tiles(const dv_rows *r)
{
    return r->across;
}

static void run_stretch(const dv_rows *r, const stretch *x)
{
    for (int64_t t = x->begin, steps = 1; t < x->end + r->last; t += steps)
        for (int32_t u = 0; u < r->n_units; u++)
            steps = run_unit(r, &r->units[u], x, t);
}

// Returns the number of a row, counted through all variables that enumerate
// rows.
static int64_t number(const dv_rows *r, const int64_t *at)
{
    const dv_op *o = &r->plan->ops->ops[r->op];
    int64_t n = 0;
    for (int k = 0; k < r->rows.n; k++)
        n = n * dv_var_len(o, r->rows.v[k]) + at[r->rows.v[k]];
    return n;
}

// Advances the outer variables that enumerate the rows of a tile to the next
// point; returns 0 after the last one.
static int next_point(const dv_rows *r, const dv_tile *t, int64_t *at)
{
    for (int32_t k = r->rows.n - 2; k >= 0; k--) {
        if (++at[k] < t->end[r->rows.v[k]])
            return 1;
        at[k] = t->begin[r->rows.v[k]];
    }
    return 0;
}

void dv_rows_run(const dv_rows *r, void *const *data, int64_t tile, int64_t n)
{
    dv_tile first, last;
    dv_plan_tile(&first, r->plan, r->op, tile);
    dv_plan_tile(&last, r->plan, r->op, tile + n - 1);
    for (int k = 0; k < r->rows.n; k++)
        // Make the end inclusive: `last` is then the last row of the last tile.
        last.end[r->rows.v[k]]--;
    stretch x = {data, NULL, number(r, first.begin), number(r, last.end) + 1};
    if (r->even) {
        run_stretch(r, &x);
        return;
    }
    for (; n > 0; n--, tile++) {
        int64_t at[MAX_LEVELS];
        int32_t innermost = r->rows.v[r->rows.n - 1];
        dv_plan_tile(&first, r->plan, r->op, tile);
        for (int32_t k = 0; k < r->rows.n - 1; k++)
            at[k] = first.begin[r->rows.v[k]];
        x = (stretch){data, at, first.begin[innermost], first.end[innermost]};
        do {
            run_stretch(r, &x);
        } while (next_point(r, &first, at));
    }
}
