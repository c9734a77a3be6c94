// Groups in rows; rows.h says what that is.
//
// Statements are cut into units. A unit is one kernel: of one statement, or of
// several side by side. In step t, one unit after the other runs its statements
// on row t - delay of each, so that what a statement needs was there before.
#include "exec/rows.h"
#include "base/math.h"
#include <stdlib.h>

// Kernels of rows shorter than this are called too often.
enum { SHORT_BYTES = 1024, FEW_OPERANDS = 64, MANY = 3 };

typedef struct statement {
    const dv_op *op;
    dv_rows_vars rows;
    int32_t row, unit; // row: the innermost of them
    int64_t delay;     // rows
    dv_vec_fn alone;   // its own kernel
    int64_t n;         // elements of a row
    int64_t n_bytes;   // of the longest of its operands' rows
    dv_vec_shape shape;
    dv_vec_operand *operand;    // the shape's
    const int32_t *tensor;      // of each operand
    const int64_t *base, *step; // bytes, to row 0 and from row to row
    const int64_t *far; // the same of the outer variables, `n_operands` each
} statement;

typedef struct unit {
    int32_t n, s[DV_VEC_MAX_BESIDE]; // statements
    dv_vec_fn joined;                // NULL: one of them
} unit;

struct dv_rows {
    const dv_plan *plan;
    int32_t op; // that tells the rows of a tile
    dv_rows_vars rows;
    int even; // tiles are rows one step from each other
    int32_t n, n_units;
    int64_t last; // the greatest delay
    int across;   // the edges of tiles are of no account
    statement s[DV_ROWS_MAX];
    unit units[DV_ROWS_MAX];
};

typedef struct maker {
    const dv_rows_how *how;
    dv_jit *jit;
    dv_arena *arena;
    dv_rows *r;
} maker;

// -- Statements --------------------------------------------------------------

static int64_t length(const dv_op *o, int v)
{
    return o->vars[v].end - o->vars[v].begin;
}

// Where the operands' rows are; the shape's strides from row to row. *ok is 0
// where they are too far apart.
static int set_operands(maker *m, statement *s, const dv_kernel *k,
                        const dv_vec_look *look, int *ok)
{
    const dv_program *p = m->how->plan->ops;
    const dv_op *o = s->op;
    size_t n = (size_t)o->n_reads + 1;
    dv_vec_operand *operand = DV_NEW(m->arena, dv_vec_operand, n);
    int32_t *tensor = DV_NEW(m->arena, int32_t, n);
    int64_t *base = DV_NEW(m->arena, int64_t, n);
    int64_t *step = DV_NEW(m->arena, int64_t, n);
    int64_t *far = DV_NEW(m->arena, int64_t, n * (size_t)s->rows.n);
    if (!operand || !tensor || !base || !step || !far)
        return 0;
    for (size_t i = 0; i < n; i++) {
        int last = i + 1 == n;
        const dv_flat *f = last ? &k->write : &k->reads[i];
        tensor[i] = last ? o->write.tensor : o->reads[i].tensor;
        m->r->across &= !m->how->strides || !m->how->strides[tensor[i]];
        int64_t es = dv_dtype_get(p->tensors[tensor[i]].dtype)->size_bytes;
        operand[i] = look->shape->operands[i];
        operand[i].outer = f->coef[s->row];
        *ok &= llabs(operand[i].outer) <= DV_VEC_MAX_STRIDE;
        if (look->inner == s->row)
            operand[i].inner = 0;
        step[i] = f->coef[s->row] * es;
        base[i] = f->base * es;
        for (int v = 0; v < o->n_vars; v++)
            if (!dv_rows_has(&s->rows, v))
                base[i] += f->coef[v] * o->vars[v].begin * es;
        for (int l = 0; l + 1 < s->rows.n; l++) {
            int v = s->rows.v[l], w = s->rows.v[l + 1];
            far[(size_t)l * n + i] = f->coef[v] * es;
            m->r->even &= f->coef[v] == f->coef[w] * length(o, w);
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

// Does e divide by an element that is the same for all values of `var`? A
// kernel that loops over `var` then multiplies by the reciprocal.
static int divides_by_invariant(const dv_op *o, const dv_expr *e, int var)
{
    if (e->kind == DV_EXPR_APPLY && e->fn == DV_FN_DIV &&
        e->arg[1]->kind != DV_EXPR_CONST &&
        !(dv_expr_free_vars(o, e->arg[1]) >> var & 1))
        return 1;
    for (int i = 0; i < e->n_args; i++)
        if (divides_by_invariant(o, e->arg[i], var))
            return 1;
    return 0;
}

// Row by row, an op has one loop along the row, or none. *ok is 0 where it has
// more, or no kernel.
static dv_status make_statement(maker *m, statement *s, int *ok, dv_diag *diag)
{
    const dv_op *o = s->op;
    dv_kernel k;
    dv_vec_op *v;
    dv_vec_look look;
    *ok = 0;
    if (!dv_kernel_init(&k, m->how->plan->ops, o, m->how->strides, m->arena))
        return dv_nomem(diag);
    dv_vec_how how = {.p = m->how->plan->ops,
                      .op = o,
                      .reads = k.reads,
                      .write = &k.write,
                      .whole = 1};
    if (o->n_reads >= FEW_OPERANDS)
        return DV_OK;
    DV_TRY(dv_vec_op_create(&v, &how, m->jit, m->arena, diag));
    if (!v)
        return DV_OK;
    dv_vec_op_look(v, &look);
    int once = look.inner == s->row;
    // One element at a time, it would divide, and round otherwise than alone.
    if (once && divides_by_invariant(o, o->body, look.inner))
        return DV_OK;
    if (!once && dv_rows_has(&s->rows, look.inner))
        return DV_OK;
    if (look.reduce == DV_VEC_OUTER || look.reduce == DV_VEC_BOTH ||
        look.inner < 0 || (once && look.reduce != DV_VEC_EACH) ||
        look.shape->n_operands != o->n_reads + 1) // a window
        return DV_OK;
    for (int i = 0; i < o->n_vars; i++)
        if (!dv_rows_has(&s->rows, i) && i != look.inner && length(o, i) != 1)
            return DV_OK;
    s->n = once ? 1 : length(o, look.inner);
    s->shape = *look.shape;
    s->shape.reduce = once ? DV_VEC_ONCE : look.reduce;
    s->shape.from_acc = s->shape.to_acc = 0;
    s->alone = look.run;
    *ok = 1;
    return set_operands(m, s, &k, &look, ok) ? DV_OK : dv_nomem(diag);
}

// -- Units -------------------------------------------------------------------

// The statements of a unit as one kernel's; the last one first, whose stores
// then wait for nothing.
static const dv_vec_shape *side_by_side(dv_rows *r, const unit *u)
{
    for (int32_t i = 0; i < u->n; i++)
        r->s[u->s[i]].shape.beside = i ? &r->s[u->s[i - 1]].shape : NULL;
    return &r->s[u->s[u->n - 1]].shape;
}

// Is there room for one more, and does it go along rows as long?
static int may_join(const maker *m, const unit *u, int32_t s)
{
    dv_rows *r = m->r;
    unit more = *u;
    int64_t n = 0;
    if (u->n == DV_VEC_MAX_BESIDE)
        return 0;
    more.s[more.n++] = s;
    for (int32_t i = 0; i < more.n; i++) {
        const statement *x = &r->s[more.s[i]];
        int once = x->shape.reduce == DV_VEC_ONCE;
        if (!once && n && x->n != n)
            return 0;
        n = once ? n : x->n;
    }
    return n && dv_vec_joins(m->jit, side_by_side(r, &more));
}

static void find_units(maker *m)
{
    dv_rows *r = m->r;
    for (int32_t i = 0; i < r->n; i++) {
        int32_t u = 0;
        while (u < r->n_units && !may_join(m, &r->units[u], i))
            u++;
        if (u == r->n_units)
            r->n_units++;
        r->units[u].s[r->units[u].n++] = i;
        r->s[i].unit = u;
    }
}

static int needs(const statement *s, const statement *of)
{
    for (int i = 0; i < s->op->n_reads; i++)
        if (s->op->reads[i].tensor == of->op->write.tensor)
            return 1;
    return 0;
}

// Do several of its rows fit the nearest cache?
static int is_short(const maker *m, const statement *s)
{
    return 8 * s->n_bytes <= m->how->l1_bytes;
}

// How far behind `a`, which it needs, s must be: in its own unit or an earlier
// one, a row. A sum is there some time after its row: where rows are short,
// what needs it is two rows behind, and does not wait. Long ones would fill
// the cache.
static int64_t behind(const maker *m, const statement *s, const statement *a)
{
    if (a->unit < s->unit)
        return 0;
    int sum = a->unit == s->unit && a->shape.reduce == DV_VEC_INNER;
    return sum && is_short(m, a) ? 2 : 1;
}

static void find_delays(maker *m)
{
    dv_rows *r = m->r;
    for (int32_t i = 0; i < r->n; i++) {
        statement *s = &r->s[i];
        for (int32_t k = 0; k < i; k++)
            if (needs(s, &r->s[k]))
                s->delay = dv_max_i64(s->delay,
                                      r->s[k].delay + behind(m, s, &r->s[k]));
        r->last = dv_max_i64(r->last, s->delay);
    }
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

// The row after this is fetched meanwhile: by a statement that takes its time,
// what none needs later; by many side by side, what the first of them read,
// where rows are short. Long ones would drive each other out, and a few have no
// time for it.
static void fetch_ahead(const maker *m, int32_t i, int beside)
{
    statement *s = &m->r->s[i];
    if (beside &&
        (s->delay || !is_short(m, s) || m->r->n_units > 1 || m->r->n < MANY))
        return;
    for (int k = 0; k + 1 < s->shape.n_operands; k++)
        if (s->operand[k].inner == 1 && !is_written(m->r, s->tensor[k]) &&
            (beside || !is_read_after(m->r, s->tensor[k], i)))
            s->operand[k].ahead = s->operand[k].outer;
}

static dv_status make_units(maker *m, dv_diag *diag)
{
    dv_rows *r = m->r;
    for (int32_t k = 0; k < r->n_units; k++) {
        unit *u = &r->units[k];
        statement *s = &r->s[u->s[0]];
        dv_vec_fn *to = u->n > 1 ? &u->joined : &s->alone;
        for (int32_t i = 0; i < u->n; i++)
            fetch_ahead(m, u->s[i], u->n > 1);
        if (u->n > 1 || s->shape.reduce != DV_VEC_ONCE)
            DV_TRY(dv_jit_vec(m->jit, side_by_side(r, u), to, diag));
    }
    return DV_OK;
}

// Rows that are worth it: not so short that calls count, not so long that
// those under way at once do not fit the cache.
static int worth_it(const maker *m)
{
    const dv_rows *r = m->r;
    int64_t most = 0;
    for (int32_t i = 0; i < r->n; i++)
        most = dv_max_i64(most, r->s[i].n_bytes);
    if (r->n_units == r->n || (r->n_units > 1 && most < SHORT_BYTES))
        return 0;
    return !m->how->l2_bytes || 4 * (r->last + 1) * most <= m->how->l2_bytes;
}

dv_status dv_rows_create(dv_rows **out, const dv_rows_how *how, dv_jit *jit,
                         dv_arena *arena, dv_diag *diag)
{
    dv_rows_vars row[DV_ROWS_MAX], first;
    int32_t n;
    int even;
    dv_op *ops = NULL;
    *out = NULL;
    if (!dv_rows_fold(how, arena, &ops, row, &first, &even, &n))
        return dv_nomem(diag);
    if (n < 2)
        return DV_OK;
    dv_rows *r = DV_NEW(arena, dv_rows, 1);
    if (!r)
        return dv_nomem(diag);
    maker m = {how, jit, arena, r};
    r->plan = how->plan;
    r->op = how->group->first_op;
    r->rows = first;
    r->n = n;
    r->across = 1;
    r->even = even;
    for (int32_t i = 0; i < n; i++) {
        int ok;
        r->s[i].op = &ops[i];
        r->s[i].rows = row[i];
        r->s[i].row = row[i].v[row[i].n - 1];
        DV_TRY(make_statement(&m, &r->s[i], &ok, diag));
        if (!ok)
            return DV_OK;
    }
    find_units(&m);
    find_delays(&m);
    if (!worth_it(&m))
        return DV_OK;
    DV_TRY(make_units(&m, diag));
    *out = r;
    return DV_OK;
}

// -- Running -----------------------------------------------------------------

// Rows begin..end of a point of the outer variables, or of no point: then they
// are counted through all of them.
typedef struct stretch {
    void *const *data;
    const int64_t *point; // NULL: none
    int64_t begin, end;
} stretch;

static int point(const statement *s, const stretch *x, int64_t row, void **at)
{
    int n = s->shape.n_operands;
    for (int i = 0; i < n; i++) {
        int64_t off = s->base[i] + row * s->step[i];
        for (int k = 0; x->point && k + 1 < s->rows.n; k++)
            off += x->point[k] * s->far[k * n + i];
        at[i] = (void *)((uintptr_t)x->data[s->tensor[i]] + (uintptr_t)off);
    }
    return n;
}

static void run_alone(const statement *s, const stretch *x, int64_t row)
{
    void *at[FEW_OPERANDS];
    point(s, x, row, at);
    s->alone(&(dv_vec_args){1, s->n, at, NULL});
}

// The unit in `steps` steps from t on, in all of which its statements have
// rows.
static void run_joined(const dv_rows *r, const unit *u, const stretch *x,
                       int64_t t, int64_t steps)
{
    void *at[DV_VEC_MAX_BESIDE * FEW_OPERANDS];
    int64_t n = 1;
    int k = 0;
    for (int32_t i = u->n - 1; i >= 0; i--) {
        const statement *s = &r->s[u->s[i]];
        k += point(s, x, t - s->delay, at + k);
        n = dv_max_i64(n, s->n);
    }
    u->joined(&(dv_vec_args){steps, n, at, NULL});
}

// A unit in step t. Returns how many steps it took: all that are alike where
// it is the only one.
static int64_t run_unit(const dv_rows *r, const unit *u, const stretch *x,
                        int64_t t)
{
    int64_t least = INT64_MAX, most = 0;
    for (int32_t i = 0; i < u->n; i++) {
        least = dv_min_i64(least, r->s[u->s[i]].delay);
        most = dv_max_i64(most, r->s[u->s[i]].delay);
    }
    if (u->joined && t - most >= x->begin && t - least < x->end) {
        int64_t steps = r->n_units == 1 ? x->end + least - t : 1;
        run_joined(r, u, x, t, steps);
        return steps;
    }
    for (int32_t i = 0; i < u->n; i++) {
        int64_t row = t - r->s[u->s[i]].delay;
        if (row >= x->begin && row < x->end)
            run_alone(&r->s[u->s[i]], x, row);
    }
    return 1;
}

int dv_rows_across(const dv_rows *r)
{
    return r->across;
}

static void run_stretch(const dv_rows *r, const stretch *x)
{
    for (int64_t t = x->begin, steps = 1; t < x->end + r->last; t += steps)
        for (int32_t u = 0; u < r->n_units; u++)
            steps = run_unit(r, &r->units[u], x, t);
}

// The number of a row, counted through all points.
static int64_t number(const dv_rows *r, const int64_t *at)
{
    const dv_op *o = &r->plan->ops->ops[r->op];
    int64_t n = 0;
    for (int k = 0; k < r->rows.n; k++)
        n = n * length(o, r->rows.v[k]) + at[r->rows.v[k]];
    return n;
}

// One tile, point by point.
static void run_points(const dv_rows *r, void *const *data, const dv_tile *t)
{
    int64_t at[DV_ROWS_LEVELS];
    int32_t last = r->rows.n - 1, k = 0;
    stretch x = {data, at, t->begin[r->rows.v[last]], t->end[r->rows.v[last]]};
    for (int32_t i = 0; i < last; i++)
        at[i] = t->begin[r->rows.v[i]];
    while (k >= 0) {
        run_stretch(r, &x);
        for (k = last - 1; k >= 0 && ++at[k] == t->end[r->rows.v[k]]; k--)
            at[k] = t->begin[r->rows.v[k]];
    }
}

void dv_rows_run(const dv_rows *r, void *const *data, int64_t tile, int64_t n)
{
    dv_tile first, last;
    dv_plan_tile(&first, r->plan, r->op, tile);
    dv_plan_tile(&last, r->plan, r->op, tile + n - 1);
    for (int k = 0; k < r->rows.n; k++)
        last.end[r->rows.v[k]]--; // to the last row
    stretch x = {data, NULL, number(r, first.begin), number(r, last.end) + 1};
    if (r->even) {
        run_stretch(r, &x);
        return;
    }
    for (; n > 0; n--, tile++) {
        dv_plan_tile(&first, r->plan, r->op, tile);
        run_points(r, data, &first);
    }
}
