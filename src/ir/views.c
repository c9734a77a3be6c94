// Removes copies that only rename elements (transposes, reshapes, slices): ops
// that read such a copy read its source instead, through an index map.
//
//   temp r: f32[B, S, D]
//   t[b,h,s,d]  = x[b,s,h*64 + d]            (split a dim, transpose)
//   q[b,h,i,j]  = sum[d] t[b,h,i,d] * k[b,h,j,d]
//   r[b,s,h*64 + d] = o[b,h,s,d]             (transpose, merge two dims)
//   y[b,s,n]    = sum[k] r[b,s,k] * w[k,n]
//   ->  q[b,h,i,j] = sum[d] x[b,i,h*64 + d] * k[b,h,j,d]
//       y[b,s,n]   = sum[k1,k2] o[b,k1,s,k2] * w[k1*64 + k2,n]
//
// A copy qualifies if its left side can be inverted: every dim is indexed by
// one variable, or by several as the digits of a number (h*64 + d). Where an
// index of a reader runs over several digits, its variable is split into one
// for each.
//
// A copy is removed if all ops that read it are at least as fast without it.
// Matrix products pack their operands anyway, and copies may read in any order.
// Other ops must keep an operand that they read with unit stride, and the
// variables of their results are not split. Readers of a padded copy (x[i-1]
// else 0) read with its border. Elements keep their values and
// types, and sums their terms, so that a program computes the same.
#include "ir/views.h"
#include "base/math.h"
#include <stdio.h>
#include <string.h>

// An index while it is rewritten, with coefficients for as many variables as an
// op can have; the other fields are those of dv_index.
typedef struct affine {
    int64_t base, coef[DV_MAX_VARS], factor;
    int32_t via;
} affine;

// An op while it is being rewritten. Access number n_reads is the write.
typedef struct draft {
    const dv_op *op;
    dv_arena *arena;
    dv_var vars[DV_MAX_VARS];
    // from[v] is the op's variable that v was split from, or is.
    int from[DV_MAX_VARS];
    int n_vars;
    dv_access *accesses; // their `index` is not used
    affine **index;      // index[access][dim]
} draft;

typedef struct finder {
    const dv_program *in;
    const unsigned char *live; // the ops that reach an output
    dv_program *out;           // has a copy of every op, some of them rewritten
    // The live ops that read tensor t: readers[first[t]] up to readers[first[t
    // + 1]].
    int32_t *first, *readers;
    // For each tensor: the op that defines it if there is no other writer,
    // otherwise -1; and whether an update modifies it.
    int32_t *writer;
    uint8_t *is_updated;
    // If not NULL, receives the reasons why copies are not removed.
    dv_text *why;
} finder;

static int draft_open(draft *d, const dv_op *op, dv_arena *arena)
{
    *d = (draft){.op = op, .arena = arena, .n_vars = op->n_vars};
    d->accesses = DV_NEW(arena, dv_access, op->n_reads + 1);
    d->index = DV_NEW(arena, affine *, op->n_reads + 1);
    if (!d->accesses || !d->index)
        return 0;
    for (int v = 0; v < op->n_vars; v++) {
        d->vars[v] = op->vars[v];
        d->from[v] = v;
    }
    for (int k = 0; k <= op->n_reads; k++) {
        const dv_access *a = dv_op_access(op, k);
        d->accesses[k] = *a;
        d->index[k] = DV_NEW(arena, affine, a->n_dims);
        if (!d->index[k])
            return 0;
        for (int i = 0; i < a->n_dims; i++) {
            d->index[k][i].base = a->index[i].base;
            d->index[k][i].via = a->index[i].via;
            d->index[k][i].factor = a->index[i].factor;
            if (op->n_vars)
                memcpy(d->index[k][i].coef, a->index[i].coef,
                       (size_t)op->n_vars * sizeof *a->index[i].coef);
        }
    }
    return 1;
}

static int draft_has_name(const draft *d, const char *name)
{
    for (int v = 0; v < d->n_vars; v++)
        if (!strcmp(d->vars[v].name, name))
            return 1;
    return 0;
}

// Makes a unique variable name: `like` with a number appended.
static const char *draft_name(const draft *d, const char *like)
{
    size_t room = strlen(like) + 12;
    char *name = DV_NEW(d->arena, char, room);
    int i = 0;
    do
        if (name)
            snprintf(name, room, "%s%d", like, ++i);
    while (name && draft_has_name(d, name));
    return name;
}

// Splits variable v, which begins at 0, into two: v = v1 * size + v2. Returns 0
// if there are too many variables, or out of memory.
static int draft_split(draft *d, int v, int64_t size)
{
    if (d->n_vars == DV_MAX_VARS)
        return 0;
    int n_after = d->n_vars - v - 1;
    for (int k = 0; k <= d->op->n_reads; k++)
        for (int i = 0; i < d->accesses[k].n_dims; i++) {
            int64_t *coef = d->index[k][i].coef;
            memmove(&coef[v + 2], &coef[v + 1], (size_t)n_after * sizeof *coef);
            coef[v + 1] = coef[v];
            if (!dv_mul_i64(&coef[v], coef[v], size))
                return 0;
        }
    memmove(&d->vars[v + 2], &d->vars[v + 1],
            (size_t)n_after * sizeof *d->vars);
    memmove(&d->from[v + 2], &d->from[v + 1],
            (size_t)n_after * sizeof *d->from);
    d->from[v + 1] = d->from[v];
    d->vars[v + 1] = d->vars[v];
    d->n_vars++;
    d->vars[v].end /= size;
    d->vars[v + 1].end = size;
    const char *like = d->op->vars[d->from[v]].name;
    d->vars[v].name = draft_name(d, like);
    d->vars[v + 1].name = d->vars[v].name ? draft_name(d, like) : NULL;
    return d->vars[v + 1].name != NULL;
}

static int draft_was_split(const draft *d)
{
    return d->n_vars != d->op->n_vars;
}

// Divides an index of the op being rewritten, which is not negative, by a
// weight: into the quotient `high` and the remainder `low`. A variable whose
// values have a part in both must be split first: *split is that variable,
// otherwise -1, and *size is the size of its lower part. Returns 0 if this is
// impossible.
static int divide(const draft *d, const affine *x, int64_t weight, affine *high,
                  affine *low, int *split, int64_t *size)
{
    *split = -1;
    *high = (affine){.base = x->base / weight, .via = -1};
    *low = (affine){.base = x->base % weight, .via = -1};
    if (x->base < 0)
        return 0;
    int64_t most = low->base; // the greatest value of `low`
    for (int v = 0; v < d->n_vars; v++) {
        int64_t c = x->coef[v], last = d->vars[v].end - 1, span;
        if (c % weight == 0) {
            high->coef[v] = c / weight;
            continue;
        }
        if (c < 0 || d->vars[v].begin < 0 || !dv_mul_i64(&span, c, last))
            return 0;
        if (span >= weight) {
            *split = v;
            *size = weight / c;
            return weight % c == 0 && d->vars[v].begin == 0 &&
                   (last + 1) % *size == 0;
        }
        low->coef[v] = c;
        if (!dv_add_i64(&most, most, span))
            return 0;
    }
    return most < weight;
}

// Given that the op being rewritten reads element `index` of a copy's result,
// expresses the copy's variables by those of the op. If a variable of the op
// must be split first, splits it and sets *again.
static int invert(draft *d, const dv_op *copy, const affine *index,
                  affine *value, int *again)
{
    dv_digits g;
    *again = 0;
    for (int v = 0; v < copy->n_vars; v++)
        value[v] = (affine){.base = copy->vars[v].begin, .via = -1};
    for (int i = 0; i < copy->write.n_dims; i++) {
        affine rest = index[i], high, low;
        if (!dv_index_digits(&g, copy, &copy->write.index[i]) || g.base)
            return 0;
        if (rest.via >= 0) {
            // An indirect index can only replace a variable that is the whole
            // index.
            if (g.n != 1 || copy->vars[g.var[0]].begin != 0)
                return 0;
            value[g.var[0]] = rest;
            continue;
        }
        for (int k = 0; k < g.n; k++) {
            int split = -1, last = k + 1 == g.n;
            int64_t size = 0;
            if (last)
                high = rest;
            else if (!divide(d, &rest, g.weight[k], &high, &low, &split, &size))
                return 0;
            if (split >= 0) {
                *again = 1;
                return draft_split(d, split, size);
            }
            if (!dv_add_i64(&high.base, high.base, value[g.var[k]].base))
                return 0;
            value[g.var[k]] = high;
            rest = low;
        }
    }
    return 1;
}

// In an index of the copy's source, replaces the copy's variables by the
// expressions in `value`.
static int substitute(const dv_op *copy, const dv_index *x, const affine *value,
                      affine *out)
{
    int only = dv_index_var(copy, x);
    *out = (affine){.base = x->base, .via = -1};
    for (int v = 0; v < copy->n_vars; v++) {
        int64_t c = x->coef[v], t;
        if (c == 0)
            continue;
        if (value[v].via >= 0) {
            *out = value[v];
            return only == v && c == 1 && x->base == 0;
        }
        if (!dv_mul_i64(&t, c, value[v].base) ||
            !dv_add_i64(&out->base, out->base, t))
            return 0;
        for (int w = 0; w < DV_MAX_VARS; w++)
            if (!dv_mul_i64(&t, c, value[v].coef[w]) ||
                !dv_add_i64(&out->coef[w], out->coef[w], t))
                return 0;
    }
    return 1;
}

// Makes read number `read`, which reads the result of a copy, read the source
// of the copy. Returns 0 if that is impossible, or out of memory.
static int draft_see_through(draft *d, int read, const dv_op *copy,
                             const char **why)
{
    const dv_access *from = &copy->reads[0];
    affine *value = DV_NEW(d->arena, affine, copy->n_vars);
    affine *index = DV_NEW(d->arena, affine, from->n_dims);
    int again = 1;
    *why = "reads it with a border of its own";
    if (d->accesses[read].has_border) // it ends where the copy does
        return 0;
    *why = "would read through indices that are no sums of variables";
    while (value && index && again)
        if (!invert(d, copy, d->index[read], value, &again))
            return 0;
    if (!value || !index)
        return 0;
    for (int i = 0; i < from->n_dims; i++)
        if (!substitute(copy, &from->index[i], value, &index[i]))
            return 0;
    d->index[read] = index;
    d->accesses[read].tensor = from->tensor;
    d->accesses[read].n_dims = from->n_dims;
    d->accesses[read].has_border = from->has_border;
    d->accesses[read].border = from->border;
    return 1;
}

static int draft_same_access(const draft *d, int a, int b)
{
    const dv_access *x = &d->accesses[a], *y = &d->accesses[b];
    int same = x->tensor == y->tensor && x->has_border == y->has_border &&
               !memcmp(&x->border, &y->border, sizeof x->border);
    for (int i = 0; same && i < d->accesses[a].n_dims; i++)
        same = !memcmp(&d->index[a][i], &d->index[b][i], sizeof(affine));
    return same;
}

// Returns the stride of a variable in an access of the op being rewritten, in
// elements.
static int64_t draft_stride(const dv_program *p, const draft *d, int access,
                            int v)
{
    const dv_tensor *t = &p->tensors[d->accesses[access].tensor];
    int64_t strides[DV_MAX_DIMS], sum = 0;
    dv_row_strides(t->n_dims, t->shape, strides);
    for (int i = 0; i < t->n_dims; i++)
        sum += d->index[access][i].coef[v] * strides[i];
    return sum;
}

static int is_move(const dv_op *op)
{
    return op->body->kind == DV_EXPR_READ && !op->update && !op->is_extern;
}

// Returns whether the rewritten op, which reads the source of a copy, is as
// fast as the op that reads the copy.
static int is_as_fast(const dv_program *p, const draft *d, int read,
                      const char **why)
{
    const dv_op *op = d->op;
    int factor[2];
    if (is_move(op))
        return 1;
    *why = "would need two loops for a dim of its result";
    for (int v = 0; v + 1 < d->n_vars; v++)
        if (d->from[v] == d->from[v + 1] && !d->vars[v].reduce)
            return 0;
    if (dv_op_factors(op, factor))
        return read == factor[0] || read == factor[1];
    // Reads with stride 1 along a variable must keep it. If the variable was
    // split, the innermost part counts.
    *why = "would read elements that are apart";
    for (int v = 0; v < d->n_vars; v++) {
        int whole = v + 1 == d->n_vars || d->from[v + 1] != d->from[v];
        if (whole && dv_var_len(op, d->from[v]) > 1 &&
            dv_access_step(p, &op->reads[read], d->from[v]) == 1 &&
            (draft_stride(p, d, read, v) != 1 || draft_was_split(d)))
            return 0;
    }
    return 1;
}

// Copies an expression, with variables numbered as in the rewritten op.
static const dv_expr *draft_expr(const draft *d, const dv_expr *e)
{
    dv_expr *copy = DV_NEW(d->arena, dv_expr, 1);
    if (!copy)
        return NULL;
    *copy = *e;
    copy->vars = 0;
    for (int v = 0; v < d->n_vars; v++)
        copy->vars |= (e->vars >> d->from[v] & 1) << v;
    for (int i = 0; i < e->n_args; i++)
        if (!(copy->arg[i] = draft_expr(d, e->arg[i])))
            return NULL;
    return copy;
}

// Finishes the rewritten op. Returns 0 when out of memory.
static int draft_close(const draft *d, dv_op *out)
{
    const dv_op *op = d->op;
    dv_var *vars = DV_NEW(d->arena, dv_var, d->n_vars);
    dv_access *reads = DV_NEW(d->arena, dv_access, op->n_reads);
    *out = *op;
    if (!vars || !reads)
        return 0;
    memcpy(vars, d->vars, (size_t)d->n_vars * sizeof *vars);
    for (int k = 0; k <= op->n_reads; k++) {
        dv_access *a = k < op->n_reads ? &reads[k] : &out->write;
        *a = d->accesses[k];
        dv_index *index = DV_NEW(d->arena, dv_index, a->n_dims);
        if (!index)
            return 0;
        for (int i = 0; i < a->n_dims; i++)
            index[i] = (dv_index){d->index[k][i].base, d->index[k][i].coef,
                                  d->index[k][i].via, d->index[k][i].factor};
        a->index = index;
    }
    out->vars = vars;
    out->n_vars = d->n_vars;
    out->reads = reads;
    out->body = draft_was_split(d) ? draft_expr(d, op->body) : op->body;
    return out->body != NULL;
}

// Returns whether an op is a view: it only copies elements, from a tensor that
// no op updates, to a temporary that no other op writes.
static int is_view(const finder *f, int32_t op)
{
    const dv_op *o = &f->out->ops[op];
    const dv_tensor *t = &f->in->tensors[o->write.tensor];
    return is_move(o) && o->n_reads == 1 && f->writer[o->write.tensor] == op &&
           !t->is_input && !t->is_output && !f->is_updated[o->write.tensor] &&
           !f->is_updated[o->reads[0].tensor] &&
           o->reads[0].tensor != o->write.tensor &&
           t->dtype == f->in->tensors[o->reads[0].tensor].dtype &&
           !dv_access_is_indirect(&o->reads[0]) &&
           !dv_access_is_indirect(&o->write);
}

// Returns whether kernels can run the op if it reads with a border instead of
// reading a padded copy.
static int may_pad(const dv_program *p, const dv_op *op)
{
    int floats = dv_is_float(p->tensors[op->write.tensor].dtype);
    for (int r = 0; r < op->n_reads; r++)
        floats &= dv_is_float(p->tensors[op->reads[r].tensor].dtype);
    return floats && !dv_op_gathers(op) && !dv_access_is_indirect(&op->write);
}

// If an op copies elements without a conversion, but cannot be removed, returns
// why; otherwise NULL.
static const char *why_no_view(const finder *f, int32_t op)
{
    const dv_op *o = &f->out->ops[op];
    if (!is_move(o) || is_view(f, op) || o->n_reads != 1)
        return NULL;
    const dv_tensor *t = &f->in->tensors[o->write.tensor];
    const dv_tensor *from = &f->in->tensors[o->reads[0].tensor];
    return t->dtype != from->dtype ? NULL
           : t->is_output          ? "it is an output"
           : f->is_updated[o->reads[0].tensor]
               ? "the tensor that it copies is updated"
               : "another statement writes it";
}

// Rewrites one reader of a copy. Returns 1; 0 if it must keep the copy, with
// the reason in *why; or -1 when out of memory.
static int rewrite(const finder *f, const dv_op *reader, const dv_op *copy,
                   dv_op *out, const char **why)
{
    draft d;
    *why = "is opaque (extern)";
    if (reader->is_extern)
        return 0;
    *why = "has no kernels that read with a border";
    if (copy->reads[0].has_border && !may_pad(f->in, reader))
        return 0;
    if (!draft_open(&d, reader, &f->out->arena))
        return -1;
    for (int r = 0; r < reader->n_reads; r++)
        if (reader->reads[r].tensor == copy->write.tensor &&
            (!draft_see_through(&d, r, copy, why) ||
             !is_as_fast(f->in, &d, r, why)))
            return 0;
    *why = "uses a variable as a value that would become two";
    if (draft_was_split(&d) && dv_expr_has_index(reader->body))
        return 0;
    // No two reads of an op may be equal (an invariant of programs).
    *why = "would have two equal reads";
    for (int r = 0; r < reader->n_reads; r++)
        for (int k = 0; k < r; k++)
            if (draft_same_access(&d, r, k))
                return 0;
    return draft_close(&d, out) ? 1 : -1;
}

// If all readers of a copy can read its source instead, rewrites them, so that
// the copy is dead. Returns 0 when out of memory.
static int remove_copy(finder *f, int32_t op, int *n_removed)
{
    const dv_op *copy = &f->out->ops[op];
    int32_t t = copy->write.tensor, begin = f->first[t], end = f->first[t + 1];
    dv_op *changed = DV_NEW(&f->out->arena, dv_op, end - begin);
    if (!changed)
        return 0;
    for (int32_t i = begin; i < end; i++) {
        const dv_op *reader = &f->out->ops[f->readers[i]];
        const char *why;
        int can = rewrite(f, reader, copy, &changed[i - begin], &why);
        if (can == 0 && f->why)
            dv_put(f->why, "%s: copied, because %s %s\n", copy->name,
                   reader->name, why);
        if (can <= 0)
            return can == 0;
    }
    for (int32_t i = begin; i < end; i++)
        f->out->ops[f->readers[i]] = changed[i - begin];
    *n_removed += end > begin;
    return 1;
}

// Lists the readers and the writer of every tensor.
static int find_uses(finder *f)
{
    const dv_program *p = f->in;
    dv_arena *arena = &f->out->arena;
    int64_t n = 0;
    f->first = DV_NEW(arena, int32_t, p->n_tensors + 2);
    f->writer = DV_NEW(arena, int32_t, p->n_tensors);
    f->is_updated = DV_NEW(arena, uint8_t, p->n_tensors);
    if (!f->first || !f->writer || !f->is_updated)
        return 0;
    for (int32_t t = 0; t < p->n_tensors; t++)
        f->writer[t] = -1;
    for (int32_t i = 0; i < p->n_ops; i++) {
        const dv_op *o = &p->ops[i];
        f->is_updated[o->write.tensor] |=
            o->update || f->writer[o->write.tensor] >= 0;
        f->writer[o->write.tensor] = i;
        for (int r = 0; r < o->n_reads && f->live[i]; r++)
            if (dv_op_reads_first(o, r)) {
                f->first[o->reads[r].tensor + 2]++;
                n++;
            }
    }
    f->readers = DV_NEW(arena, int32_t, n);
    for (int32_t t = 0; t < p->n_tensors; t++)
        f->first[t + 2] += f->first[t + 1];
    for (int32_t i = 0; i < p->n_ops && f->readers; i++)
        for (int r = 0; r < p->ops[i].n_reads && f->live[i]; r++)
            if (dv_op_reads_first(&p->ops[i], r))
                f->readers[f->first[p->ops[i].reads[r].tensor + 1]++] = i;
    return f->readers != NULL;
}

// Makes the readers of copies read the sources, wherever possible. Returns 0
// when out of memory.
static int remove_copies(finder *f, int *n_removed)
{
    int ok = find_uses(f);
    for (int32_t i = 0; i < f->in->n_ops && ok; i++) {
        const char *why = f->why && f->live[i] ? why_no_view(f, i) : NULL;
        if (why)
            dv_put(f->why, "%s: copied, because %s\n", f->in->ops[i].name, why);
        if (is_view(f, i))
            ok = remove_copy(f, i, n_removed);
    }
    return ok;
}

int dv_program_explain_copies(dv_text *out, const dv_program *p,
                              const unsigned char *live)
{
    finder f = {.in = p, .live = live, .out = dv_program_share(p), .why = out};
    int n_removed = 0, ok = f.out && remove_copies(&f, &n_removed);
    dv_program_destroy(f.out);
    return ok;
}

dv_status dv_program_see_through(dv_program **out, const dv_program *p,
                                 const unsigned char *live, dv_diag *diag)
{
    finder f = {.in = p, .live = live};
    int n_removed = 0, ok = 1;
    *out = NULL;
    for (int32_t i = 0; i < p->n_ops; i++)
        n_removed += is_move(&p->ops[i]);
    if (!n_removed)
        return DV_OK;
    n_removed = 0;
    f.out = dv_program_share(p);
    if (!f.out)
        return dv_nomem(diag);
    ok = remove_copies(&f, &n_removed);
    if (ok && n_removed)
        *out = f.out;
    else
        dv_program_destroy(f.out);
    return ok ? DV_OK : dv_nomem(diag);
}
