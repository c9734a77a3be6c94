// Which ops may be taken row by row, and temporaries computed where they are
// read.
#include "exec/rows.h"

// Operations that are folded at most; more than that.
enum { MAX_FOLDED = 2, MANY = 100 };

typedef struct folder {
    const dv_rows_how *how;
    const dv_program *p;
    dv_arena *arena;
    dv_op *ops; // of the group, rewritten as far as `n`
    int32_t n;
    int failed;
} folder;

// -- Which ops ---------------------------------------------------------------

// The one variable of an op that its tiles cut, or -1.
static int32_t cut_var(const dv_plan *plan, int32_t op)
{
    const dv_op *o = &plan->ops->ops[op];
    int32_t found = -1;
    for (int v = 0; v < o->n_vars; v++) {
        if (plan->slices[op][v] >= o->vars[v].end - o->vars[v].begin)
            continue;
        if (found >= 0 || o->vars[v].reduce)
            return -1;
        found = v;
    }
    return found;
}

// The dim of an access that is variable v and nothing else, on which no other
// dim depends; -1: there is none.
static int dim_of(const dv_op *o, const dv_access *a, int32_t v)
{
    int found = -1;
    for (int d = 0; d < a->n_dims; d++) {
        const dv_index *x = &a->index[d];
        if (x->via >= 0)
            return -1;
        if (x->coef[v] == 0)
            continue;
        for (int k = 0; k < o->n_vars; k++)
            if (x->coef[k] != (k == v))
                return -1;
        if (found >= 0)
            return -1;
        found = d;
    }
    return found;
}

static int32_t writer_of(const folder *f, int32_t tensor, int32_t before)
{
    for (int32_t i = before - 1; i >= 0; i--)
        if (f->ops[i].write.tensor == tensor)
            return i;
    return -1;
}

// Do ops i and w, which writes what i reads through `a`, mean the same row by
// number k of their variables?
static int same_row(const folder *f, const dv_rows_vars *row, int32_t i,
                    int32_t w, const dv_access *a, int k)
{
    const dv_access *b = &f->ops[w].write;
    int d = dim_of(&f->ops[i], a, row[i].v[k]);
    int e = dim_of(&f->ops[w], b, row[w].v[k]);
    return d >= 0 && d == e && a->index[d].base == b->index[e].base;
}

// Does op number i need of earlier ones what they write in the same row, and
// write what none of them touches?
static int row_by_row(const folder *f, const dv_rows_vars *row, int32_t i)
{
    const dv_op *o = &f->ops[i];
    if (o->update || o->is_extern)
        return 0;
    for (int k = 0; k < row[i].n; k++)
        if (dim_of(o, &o->write, row[i].v[k]) < 0)
            return 0;
    for (int32_t k = 0; k < i; k++)
        for (int r = 0; r <= f->ops[k].n_reads; r++) {
            const dv_access *a =
                r < f->ops[k].n_reads ? &f->ops[k].reads[r] : &f->ops[k].write;
            if (a->tensor == o->write.tensor)
                return 0;
        }
    for (int r = 0; r < o->n_reads; r++) {
        const dv_access *a = &o->reads[r];
        int32_t w = writer_of(f, a->tensor, i);
        if (dv_access_is_indirect(a) || a->tensor == o->write.tensor)
            return 0;
        for (int k = 0; w >= 0 && k < row[i].n; k++)
            if (!same_row(f, row, i, w, a, k))
                return 0;
    }
    return 1;
}

// -- Folding -----------------------------------------------------------------

// Operations of an expression; many where one is not quick, or would be
// computed in another way elsewhere: a division by what is steady.
static int cost_of(const dv_expr *e)
{
    int n = e->kind == DV_EXPR_APPLY;
    if (e->kind == DV_EXPR_REDUCE ||
        (e->kind == DV_EXPR_APPLY && e->fn != DV_FN_ADD && e->fn != DV_FN_SUB &&
         e->fn != DV_FN_MUL && e->fn != DV_FN_NEG &&
         !(e->fn == DV_FN_DIV && e->arg[1]->kind == DV_EXPR_CONST)))
        return MANY;
    for (int i = 0; i < e->n_args && n < MANY; i++)
        n += cost_of(e->arg[i]);
    return n;
}

// Is what op w writes stored as it was computed?
static int is_stored_whole(const folder *f, const dv_op *o)
{
    const dv_tensor *t = &f->p->tensors[o->write.tensor];
    dv_compute in = dv_op_compute(f->p, o);
    return (in == DV_IN_F32 && t->dtype == DV_F32) ||
           (in == DV_IN_F64 && t->dtype == DV_F64);
}

static int reads(const dv_op *o, int32_t tensor)
{
    for (int r = 0; r < o->n_reads; r++)
        if (o->reads[r].tensor == tensor)
            return 1;
    return 0;
}

// Do only later ops of the group read it, in the same type?
static int is_own(const folder *f, int32_t w)
{
    const dv_op *o = &f->ops[w], *all = f->p->ops;
    int32_t first = f->how->group->first_op, t = o->write.tensor, found = 0;
    if (f->p->tensors[t].is_input || f->p->tensors[t].is_output)
        return 0;
    for (int32_t i = 0; i < f->p->n_ops; i++) {
        int here = i > first + w && i < f->how->group->end_op;
        if ((i != first + w && all[i].write.tensor == t) ||
            (reads(&all[i], t) &&
             (!here || dv_op_compute(f->p, &all[i]) != dv_op_compute(f->p, o))))
            return 0;
        found |= reads(&all[i], t);
    }
    return found;
}

// Each dim written is a variable of its own: what is read says which point.
static int is_map(const dv_op *o)
{
    uint32_t seen = 0;
    for (int d = 0; d < o->write.n_dims; d++) {
        int n = 0;
        for (int v = 0; v < o->n_vars; v++) {
            if (!o->write.index[d].coef[v])
                continue;
            if (o->write.index[d].coef[v] != 1 || n++ || (seen >> v & 1))
                return 0;
            seen |= 1u << v;
        }
    }
    return seen == dv_all_vars(o);
}

// A product may be added to a sum without being rounded first; one that is
// stored is rounded.
static int foldable(const folder *f, int32_t w)
{
    const dv_op *o = &f->ops[w];
    int product = o->body->kind == DV_EXPR_APPLY && o->body->fn == DV_FN_MUL;
    return !product && cost_of(o->body) <= MAX_FOLDED &&
           o->n_reads <= MAX_FOLDED + 1 && is_map(o) && is_stored_whole(f, o) &&
           is_own(f, w);
}

// What op w reads through `a` at the point that wrote what `from` reads: the
// access in variables of op `o`.
static int compose(folder *f, dv_access *out, const dv_access *a,
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

// The number of a read in `o`, added where it is not there yet.
static int32_t add_read(dv_op *o, dv_access *reads, const dv_access *a)
{
    for (int32_t r = 0; r < o->n_reads; r++)
        if (dv_access_equal(o, &reads[r], a))
            return r;
    reads[o->n_reads] = *a;
    return o->n_reads++;
}

// A copy of an expression, reads renumbered; or those of them that `with` has
// another expression for are that.
static const dv_expr *copy(folder *f, const dv_expr *e, const int32_t *number,
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

// The body of op w, for what op `o` reads through `from`.
static const dv_expr *folded(folder *f, const dv_op *w, dv_op *o,
                             dv_access *reads, const dv_access *from)
{
    int32_t number[MAX_FOLDED + 1];
    for (int r = 0; r < w->n_reads && !f->failed; r++) {
        dv_access a;
        if (!compose(f, &a, &w->reads[r], w, o, from))
            f->failed = 1;
        else
            number[r] = add_read(o, reads, &a);
    }
    return f->failed ? w->body : copy(f, w->body, number, NULL);
}

// Op i with what is folded in the place of reads.
static void rewrite(folder *f, const uint8_t *fold, int32_t i)
{
    dv_op *o = &f->ops[i], was = *o;
    size_t n = (size_t)was.n_reads, any = 0;
    for (int r = 0; r < was.n_reads; r++) {
        int32_t w = writer_of(f, was.reads[r].tensor, i);
        any += w >= 0 && fold[w];
    }
    if (!any)
        return;
    dv_access *reads = DV_NEW(f->arena, dv_access, n + any * (MAX_FOLDED + 1));
    int32_t *number = DV_NEW(f->arena, int32_t, n);
    const dv_expr **with = DV_NEW(f->arena, const dv_expr *, n);
    if (!reads || !number || !with) {
        f->failed = 1;
        return;
    }
    o->n_reads = 0;
    for (int r = 0; r < was.n_reads && !f->failed; r++) {
        int32_t w = writer_of(f, was.reads[r].tensor, i);
        if (w >= 0 && fold[w])
            with[r] = folded(f, &f->ops[w], o, reads, &was.reads[r]);
        else
            number[r] = add_read(o, reads, &was.reads[r]);
    }
    o->reads = reads;
    o->body = f->failed ? was.body : copy(f, was.body, number, with);
}

// -- All of a group ----------------------------------------------------------

// The one variable that tiles cut, or the first where there is one tile.
static dv_rows_vars pick_row(const folder *f, int32_t i)
{
    const dv_plan *plan = f->how->plan;
    int32_t op = f->how->group->first_op + i;
    int32_t v = f->ops[i].n_vars && !f->ops[i].vars[0].reduce ? 0 : -1;
    if (f->how->group->n_tiles > 1)
        v = cut_var(plan, op);
    return (dv_rows_vars){v >= 0, {v}};
}

// The first n, or as many as there are.
static dv_rows_vars pick_rows(const dv_op *o, int n)
{
    dv_rows_vars x = {0, {0}};
    for (; x.n < n && x.n < o->n_vars && !o->vars[x.n].reduce; x.n++)
        x.v[x.n] = x.n;
    return x;
}

// Variables in front of the one along the row: as many as a reducer leaves.
static int count_rows(const folder *f)
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

// Are tiles rows one after the other: points of the outer variables, then some
// of one, then all of those further in?
static int in_order(const folder *f, const dv_rows_vars *row)
{
    const dv_op *o = &f->ops[0];
    const int64_t *slices = f->how->plan->slices[f->how->group->first_op];
    int k = 0;
    while (k < row->n && slices[row->v[k]] == 1)
        k++;
    while (++k < row->n)
        if (slices[row->v[k]] <
            o->vars[row->v[k]].end - o->vars[row->v[k]].begin)
            return 0;
    return 1;
}

static int same_range(const folder *f, const dv_rows_vars *row, int32_t i)
{
    int64_t *const *slices = f->how->plan->slices + f->how->group->first_op;
    for (int k = 0; k < row[0].n; k++) {
        int v = row[i].v[k], w = row[0].v[k];
        if (f->ops[i].vars[v].begin != f->ops[0].vars[w].begin ||
            f->ops[i].vars[v].end != f->ops[0].vars[w].end ||
            slices[i][v] != slices[0][w])
            return 0;
    }
    return 1;
}

// Are rows whole in tiles: is no other variable cut?
static int is_whole(const folder *f, const dv_rows_vars *row, int32_t i)
{
    const int64_t *slices = f->how->plan->slices[f->how->group->first_op + i];
    for (int v = 0; v < f->ops[i].n_vars; v++)
        if (!dv_rows_has(&row[i], v) &&
            slices[v] < f->ops[i].vars[v].end - f->ops[i].vars[v].begin)
            return 0;
    return 1;
}

// The same rows in all ops, and nothing but the same row needed of others. With
// `many`, rows of several variables.
static int all_in_rows(const folder *f, dv_rows_vars *row, int many)
{
    int n = many ? count_rows(f) : 1;
    if (many && (n < 2 || n > DV_ROWS_LEVELS))
        return 0;
    for (int32_t i = 0; i < f->n; i++) {
        row[i] = many ? pick_rows(&f->ops[i], n) : pick_row(f, i);
        if (row[i].n != n || !is_whole(f, row, i) || !same_range(f, row, i) ||
            !row_by_row(f, row, i))
            return 0;
    }
    return 1;
}

int dv_rows_fold(const dv_rows_how *how, dv_arena *arena, dv_op **ops,
                 dv_rows_vars *row, dv_rows_vars *first, int *even, int32_t *n)
{
    const dv_group *g = how->group;
    folder f = {.how = how, .p = how->plan->ops, .arena = arena};
    uint8_t fold[DV_ROWS_MAX] = {0};
    *n = 0;
    f.n = g->end_op - g->first_op;
    if (f.n < 2 || f.n > DV_ROWS_MAX)
        return 1;
    *ops = f.ops = DV_NEW(arena, dv_op, f.n);
    if (!f.ops)
        return 0;
    for (int32_t i = 0; i < f.n; i++)
        f.ops[i] = f.p->ops[g->first_op + i];
    if (!all_in_rows(&f, row, 1) && !all_in_rows(&f, row, 0))
        return 1;
    *first = row[0];
    *even = in_order(&f, row);
    for (int32_t i = 0; i < f.n && !f.failed; i++) {
        rewrite(&f, fold, i);
        fold[i] = (uint8_t)foldable(&f, i);
    }
    for (int32_t i = 0; i < f.n; i++)
        if (!fold[i]) {
            f.ops[*n] = f.ops[i];
            row[(*n)++] = row[i];
        }
    return !f.failed;
}
