// Finds what the ops of a group need not compute because of a mask, as in
// causal attention, where tiles of rows i go through all ops below:
//
//   s[i,j] = sum[d] q[i,d] * k[j,d]
//   u[i,j] = select(j <= i, s[i,j], -inf)    from j = i + 1 on: -inf
//   m[i]   = max[j] u[i,j]                   -inf changes no maximum
//   p[i,j] = exp(u[i,j] - m[i])              0, or nan if all of p[i] is
//   z[i]   = sum[j] p[i,j]                   0 changes no sum
//   o[i,d] = (sum[j] p[i,j] * v[j,d]) / z[i] nor does 0 * v, if v is finite
//
// None of these ops needs the values of j that are masked in all rows of a
// tile. An op may leave out values of a variable that it reduces if they are
// the identity of the reducer, and values of a variable that it writes if the
// result is a temporary that is kept for one tile and whose readers leave them
// out, too. Whether v is finite is tested once for consecutive tiles that read
// the same v; if it is not, tiles are computed in full, so that bits do not
// depend on tiles. The checker proves the result (rule C38) by other means.
#include "base/dtype.h"
#include "base/math.h"
#include "exec/state.h"
#include "jit/backend.h"
#include "kernel/kernel.h"
#include <math.h>
#include <string.h>

// What is known of an expression's value at the points that a mask excludes.
typedef enum masked {
    ANYTHING,
    NUMBER,           // the number `value`
    MINUS_INF_OR_NAN, // nan only if so is the whole row
    ZERO_OR_NAN       // the same
} masked;

typedef struct value {
    masked is;
    double number;
} value;

typedef struct finder {
    dv_exec *x;
    const dv_group *g;
    int64_t from, by;
    // For each op of the group: the points that it skips (none if `by` is 0),
    // the value that it would write there, and the read that must be finite for
    // this to be correct (-1: none).
    dv_skip *of;
    value *left_out;
    int32_t *finite;
} finder;

// Returns the dim of an access whose index is just variable v; -1: none.
static int dim_of(const dv_op *o, const dv_access *a, int32_t v)
{
    int found = -1;
    for (int d = 0; d < a->n_dims; d++) {
        const dv_index *x = &a->index[d];
        int others = x->via >= 0 || x->base != 0 || x->coef[v] != 1;
        for (int k = 0; k < o->n_vars; k++)
            others |= k != v && x->coef[k];
        if (!others)
            found = d;
    }
    return found;
}

// Returns the variable that is the index of dim d, without offset or factor;
// -1: none.
static int32_t var_at(const dv_op *o, const dv_access *a, int d)
{
    for (int32_t v = 0; d >= 0 && v < o->n_vars; v++)
        if (dim_of(o, a, v) == d)
            return v;
    return -1;
}

// Returns the op of the group that writes a tensor, as a number in the group;
// -1: none.
static int32_t writer_of(const finder *f, int32_t tensor)
{
    for (int32_t i = f->g->first_op; i < f->g->end_op; i++)
        if (f->x->plan->ops->ops[i].write.tensor == tensor)
            return i - f->g->first_op;
    return -1;
}

static const dv_op *op_of(const finder *f, int32_t i)
{
    return &f->x->plan->ops->ops[f->g->first_op + i];
}

// If comparison e of variables a and b has one constant value wherever a >= b +
// n, returns 1 and sets *from to the least such n and *holds to that value.
static int compares(const dv_expr *e, int32_t a, int32_t b, int64_t *from,
                    int *holds)
{
    static const dv_fn turned[] = {[DV_FN_LT] = DV_FN_GT,
                                   [DV_FN_LE] = DV_FN_GE,
                                   [DV_FN_GT] = DV_FN_LT,
                                   [DV_FN_GE] = DV_FN_LE};
    if (e->kind != DV_EXPR_APPLY ||
        (e->fn != DV_FN_LT && e->fn != DV_FN_LE && e->fn != DV_FN_GT &&
         e->fn != DV_FN_GE) ||
        e->arg[0]->kind != DV_EXPR_INDEX || e->arg[1]->kind != DV_EXPR_INDEX)
        return 0;
    int swapped = e->arg[0]->read != a;
    const dv_expr *x = e->arg[swapped], *y = e->arg[!swapped];
    dv_fn fn = swapped ? turned[e->fn] : (dv_fn)e->fn;
    if (x->read != a || y->read != b)
        return 0;
    // The comparison is: a + x->base fn b + y->base.
    int strict = fn == DV_FN_GT || fn == DV_FN_LE;
    *holds = fn == DV_FN_GT || fn == DV_FN_GE;
    return dv_sub_i64(from, y->base, x->base) &&
           dv_add_i64(from, *from, strict);
}

static int is_row_of(const finder *f, const dv_expr *e, const dv_op *o,
                     dv_reducer reducer, const dv_expr *of, const dv_skip *s);

// Returns the product if it is exact in every type: one factor is 0 or an
// infinity, and the other one is neither of these, not even when rounded to
// f16. Otherwise returns that nothing is known.
static value product(double a, double b)
{
    double factor = isinf(a) || a == 0 ? b : a;
    int stays = isinf(a * b) || a * b == 0;
    return stays && fabs(factor) > 1e-4 && fabs(factor) < 6e4
               ? (value){NUMBER, a * b}
               : (value){ANYTHING, 0};
}

static value value_of(const finder *f, const dv_op *o, const dv_skip *s,
                      const dv_expr *e)
{
    const value anything = {ANYTHING, 0};
    value a, b;
    int64_t from;
    int holds;
    if (e->kind == DV_EXPR_CONST)
        return (value){NUMBER, e->value};
    if (e->kind == DV_EXPR_READ) {
        const dv_access *x = &o->reads[e->read];
        int32_t w = writer_of(f, x->tensor);
        const dv_op *writer = w < 0 ? NULL : op_of(f, w);
        if (!writer || writer == o || !f->of[w].by)
            return anything;
        int d = dim_of(writer, &writer->write, f->of[w].var);
        int with = dim_of(writer, &writer->write, f->of[w].with);
        return d >= 0 && var_at(o, x, d) == s->var &&
                       var_at(o, x, with) == s->with
                   ? f->left_out[w]
                   : anything;
    }
    if (e->kind != DV_EXPR_APPLY)
        return anything;
    if (e->fn == DV_FN_SELECT)
        return compares(e->arg[0], s->var, s->with, &from, &holds) &&
                       from <= s->from
                   ? value_of(f, o, s, e->arg[holds ? 1 : 2])
                   : anything;
    a = value_of(f, o, s, e->arg[0]);
    b = e->n_args > 1 ? value_of(f, o, s, e->arg[1]) : anything;
    if (e->fn == DV_FN_MUL && a.is == NUMBER && b.is == NUMBER)
        return product(a.number, b.number);
    if (e->fn == DV_FN_SUB && a.is == NUMBER && a.number == -INFINITY &&
        is_row_of(f, e->arg[1], o, DV_RED_MAX, e->arg[0], s))
        return (value){MINUS_INF_OR_NAN, 0};
    if (e->fn == DV_FN_EXP && a.is == MINUS_INF_OR_NAN)
        return (value){ZERO_OR_NAN, 0};
    if (e->fn == DV_FN_DIV && a.is == ZERO_OR_NAN &&
        is_row_of(f, e->arg[1], o, DV_RED_SUM, e->arg[0], s))
        return a;
    return anything;
}

// Returns whether e reads what an op of the group reduces with `reducer` from
// the rows of the tensor that `of` reads: the maximum or the sum of the row.
static int is_row_of(const finder *f, const dv_expr *e, const dv_op *o,
                     dv_reducer reducer, const dv_expr *of, const dv_skip *s)
{
    if (e->kind != DV_EXPR_READ || of->kind != DV_EXPR_READ)
        return 0;
    const dv_access *x = &o->reads[e->read], *row = &o->reads[of->read];
    int32_t w = writer_of(f, x->tensor);
    if (w < 0)
        return 0;
    const dv_op *r = op_of(f, w);
    if (r->body->kind != DV_EXPR_REDUCE || r->body->fn != reducer ||
        r->body->arg[0]->kind != DV_EXPR_READ)
        return 0;
    const dv_access *all = &r->reads[r->body->arg[0]->read];
    const dv_tensor *tensors = f->x->plan->ops->tensors;
    // The result must have the row's type: rounding it to a narrower one could
    // make it infinite or 0 though no element of the row is.
    if (all->tensor != row->tensor ||
        tensors[x->tensor].dtype != tensors[row->tensor].dtype)
        return 0;
    // Every dim of the row's tensor must be indexed by the same variable in
    // both ops, or by the reduced one.
    for (int d = 0; d < row->n_dims; d++) {
        int32_t mine = var_at(o, row, d), its = var_at(r, all, d);
        int at = its < 0 ? -1 : dim_of(r, &r->write, its);
        if (mine < 0 || its < 0 ||
            (mine == s->var ? !r->vars[its].reduce
                            : at < 0 || var_at(o, x, at) != mine))
            return 0;
    }
    return r->body->vars && !(r->body->vars & (r->body->vars - 1));
}

// Returns whether the reduction of op number i in the group has the same result
// without the points that it skips. f->finite[i] becomes the read that must be
// finite for this.
static int reduces_nothing(finder *f, int32_t i)
{
    const dv_op *o = op_of(f, i);
    const dv_skip *s = &f->of[i];
    const dv_expr *r = dv_op_reduce(o), *e = r ? r->arg[0] : NULL;
    const dv_op_kernels *by = &f->x->prepared[f->g->first_op + i];
    int sum = r && (r->fn == DV_RED_SUM || r->fn == DV_RED_MEAN);
    if (!r || !(r->vars >> s->var & 1))
        return 0;
    value v = value_of(f, o, s, e);
    if (r->fn == DV_RED_MAX)
        return v.is == NUMBER && v.number == -INFINITY;
    // Only kernels that sum a single read are known to add in steps that divide
    // f->by; others could round differently without the skipped zeros.
    if (sum && e->kind == DV_EXPR_READ && !by->product)
        return v.is == ZERO_OR_NAN || (v.is == NUMBER && v.number == 0);
    if (!sum || !dv_expr_applies(e, DV_FN_MUL) || !by->product)
        return 0;
    for (int k = 0; k < 2; k++) {
        const dv_expr *other = e->arg[!k];
        value zero = value_of(f, o, s, e->arg[k]);
        if (zero.is != ZERO_OR_NAN || other->kind != DV_EXPR_READ)
            continue;
        const dv_access *a = &o->reads[other->read];
        if (writer_of(f, a->tensor) >= 0 || dv_access_is_indirect(a) ||
            a->has_border ||
            f->x->plan->ops->tensors[a->tensor].dtype != DV_F32)
            continue;
        f->finite[i] = other->read;
        return 1;
    }
    return 0;
}

// Returns whether all ops that read the result of op number i skip the same
// points of it, and it is kept for one tile only.
static int readers_agree(const finder *f, int32_t i)
{
    const dv_op *o = op_of(f, i);
    const dv_group_exec *run =
        &f->x->group[dv_group_of(f->x->plan, f->g->first_op)];
    int d = dim_of(o, &o->write, f->of[i].var);
    int with = dim_of(o, &o->write, f->of[i].with), kept = 0;
    for (int32_t k = 0; k < run->n_locals; k++)
        kept |= run->locals[k].op == f->g->first_op + i;
    if (!kept || d < 0 || with < 0)
        return 0;
    for (int32_t k = 0; k < f->g->end_op - f->g->first_op; k++) {
        const dv_op *reader = op_of(f, k);
        for (int r = 0; r < reader->n_reads; r++) {
            const dv_access *a = &reader->reads[r];
            if (a->tensor == o->write.tensor &&
                (!f->of[k].by || var_at(reader, a, d) != f->of[k].var ||
                 var_at(reader, a, with) != f->of[k].with))
                return 0;
        }
    }
    return 1;
}

// Returns whether op number i of the group can skip the points in f->of[i],
// given what the other ops skip.
static int may_leave_out(finder *f, int32_t i)
{
    int32_t op = f->g->first_op + i;
    const dv_op *o = op_of(f, i);
    const dv_skip *s = &f->of[i];
    const dv_op_kernels *by = &f->x->prepared[op];
    f->finite[i] = -1;
    if ((!by->product && !by->vec) || by->stage || by->guard || o->is_extern ||
        o->update || o->vars[s->with].reduce || o->vars[s->var].begin ||
        o->vars[s->with].begin ||
        f->x->plan->slices[op][s->var] < o->vars[s->var].end)
        return 0;
    return o->vars[s->var].reduce ? reduces_nothing(f, i) : readers_agree(f, i);
}

// Lets op number i skip the points that correspond to those which op `other`
// skips, by a tensor that one of them writes and the other reads. Returns 1 if
// op i skips points now.
static int follow(finder *f, int32_t i, const dv_access *mine, int32_t other,
                  const dv_access *its)
{
    const dv_op *o = op_of(f, i), *of = op_of(f, other);
    const dv_skip *s = &f->of[other];
    if (f->of[i].by || !s->by)
        return 0;
    int32_t v = var_at(o, mine, dim_of(of, its, s->var));
    int32_t with = var_at(o, mine, dim_of(of, its, s->with));
    if (v < 0 || with < 0 || v == with)
        return 0;
    f->of[i] = (dv_skip){v, with, f->from, f->by};
    return 1;
}

// Lets all ops skip points that write what a skipping op reads, or read what it
// writes, until nothing changes.
static void spread(finder *f)
{
    int32_t n = f->g->end_op - f->g->first_op;
    for (int changed = 1; changed;) {
        changed = 0;
        for (int32_t i = 0; i < n; i++)
            for (int r = 0; r < op_of(f, i)->n_reads; r++) {
                const dv_access *a = &op_of(f, i)->reads[r];
                int32_t w = writer_of(f, a->tensor);
                if (w < 0 || w == i)
                    continue;
                changed |= follow(f, i, a, w, &op_of(f, w)->write) |
                           follow(f, w, &op_of(f, w)->write, i, a);
            }
    }
}

// Until nothing changes, stops ops from skipping points if they cannot do so
// correctly. Returns whether a product among the remaining ops skips points.
static int settle(finder *f)
{
    int32_t n = f->g->end_op - f->g->first_op;
    int product = 0;
    for (int changed = 1; changed;) {
        changed = product = 0;
        for (int32_t i = 0; i < n; i++) {
            const dv_op *o = op_of(f, i);
            f->left_out[i] = (value){ANYTHING, 0};
            if (!f->of[i].by)
                continue;
            if (!o->vars[f->of[i].var].reduce)
                f->left_out[i] = value_of(f, o, &f->of[i], o->body);
        }
        for (int32_t i = 0; i < n; i++) {
            if (!f->of[i].by)
                continue;
            if (!may_leave_out(f, i)) {
                f->of[i].by = 0;
                changed = 1;
            }
            product |= f->of[i].by &&
                       f->x->prepared[f->g->first_op + i].product != NULL;
        }
    }
    return product;
}

// Returns the most elements that vector kernels add at a time: vector lanes
// times copies of the unrolled loop. Adding a multiple of this many zeros to a
// sum changes none of its bits.
static int64_t step_of(const dv_exec *x)
{
    return 8 * dv_jit_isa(x->jit)->vector_bytes / (int64_t)sizeof(float);
}

// Tries to skip points that op number i masks by e, a comparison of variables a
// and b. Returns whether that shortens a product.
static int try_mask(finder *f, int32_t i, const dv_expr *e, int32_t a,
                    int32_t b)
{
    int32_t n = f->g->end_op - f->g->first_op;
    int64_t len = dv_var_len(op_of(f, i), a);
    int holds;
    int64_t step = step_of(f->x);
    f->by = dv_max_i64(step, dv_round_up(dv_ceil_div(len, 8), step));
    if (!compares(e, a, b, &f->from, &holds) || f->by >= len)
        return 0;
    memset(f->of, 0, (size_t)n * sizeof *f->of);
    f->of[i] = (dv_skip){a, b, f->from, f->by};
    spread(f);
    return settle(f);
}

// Searches an expression of op number i for a mask (a select by a comparison of
// two variables) that lets products skip points. Returns 1 if found.
static int find_mask(finder *f, int32_t i, const dv_expr *e)
{
    const dv_expr *test = dv_expr_applies(e, DV_FN_SELECT) ? e->arg[0] : NULL;
    if (test && test->kind == DV_EXPR_APPLY && test->n_args == 2 &&
        test->arg[0]->kind == DV_EXPR_INDEX &&
        test->arg[1]->kind == DV_EXPR_INDEX) {
        int32_t a = test->arg[0]->read, b = test->arg[1]->read;
        if (try_mask(f, i, test, a, b) || try_mask(f, i, test, b, a))
            return 1;
    }
    for (int k = 0; e->kind >= DV_EXPR_APPLY && k < e->n_args; k++)
        if (find_mask(f, i, e->arg[k]))
            return 1;
    return 0;
}

// Creates contractions for the shorter tiles of a group's products that skip
// points.
static dv_status prepare(dv_exec *x, int32_t group, dv_diag *diag)
{
    const dv_group *g = &x->plan->groups[group];
    for (int32_t op = g->first_op; op < g->end_op; op++)
        for (int64_t i = 0; x->prepared[op].product &&
                            x->prepared[op].skip.by && i < g->n_tiles;
             i++) {
            dv_tile t;
            dv_plan_tile(&t, x->plan, op, i);
            DV_TRY(dv_product_skip(x->prepared[op].product, &t,
                                   &x->prepared[op].skip, &x->set, diag));
        }
    return DV_OK;
}

// Chooses, while schedules are chosen, which points the ops of a group skip.
static dv_status choose(dv_exec *x, int32_t group, dv_diag *diag)
{
    const dv_group *g = &x->plan->groups[group];
    int32_t n = g->end_op - g->first_op;
    finder f = {.x = x, .g = g};
    int found = 0;
    for (int32_t i = 0; i < n && !found; i++) {
        if (!dv_expr_has_index(op_of(&f, i)->body))
            continue;
        f.of = f.of ? f.of : DV_NEW(&x->arena, dv_skip, n);
        f.left_out = f.left_out ? f.left_out : DV_NEW(&x->arena, value, n);
        f.finite = f.finite ? f.finite : DV_NEW(&x->arena, int32_t, n);
        if (!f.of || !f.left_out || !f.finite)
            return dv_nomem(diag);
        found = find_mask(&f, i, op_of(&f, i)->body);
    }
    for (int32_t i = 0; i < n && found; i++) {
        x->prepared[g->first_op + i].skip = f.of[i];
        x->prepared[g->first_op + i].finite = f.finite[i];
    }
    dv_status st = found ? prepare(x, group, NULL) : DV_OK;
    for (int32_t i = 0; i < n && st == DV_E_LIMIT; i++)
        x->prepared[g->first_op + i].skip.by = 0;
    return st == DV_E_LIMIT ? DV_OK : st ? prepare(x, group, diag) : DV_OK;
}

// Takes from the plan which points a group's ops skip. What this machine's
// kernels cannot skip is not taken; comparing the kernels with the plan
// (check_obeyed) then fails.
static dv_status obey(dv_exec *x, int32_t group, dv_diag *diag)
{
    const dv_group *g = &x->plan->groups[group];
    finder f = {.x = x, .g = g};
    for (int32_t op = g->first_op; op < g->end_op; op++) {
        const dv_op_schedule *as = dv_op_scheduled(x->plan, op);
        dv_op_kernels *by = &x->prepared[op];
        int32_t factor[2];
        if (!as->skip.by || as->skip.by % step_of(x) ||
            (!by->product && !by->vec))
            continue;
        by->skip = as->skip;
        if (as->guard == DV_GUARD_FINITE && by->product &&
            dv_op_factors(&x->plan->ops->ops[op], factor))
            for (int k = 0; k < 2; k++)
                if (writer_of(
                        &f, x->plan->ops->ops[op].reads[factor[k]].tensor) < 0)
                    by->finite = factor[k];
    }
    return prepare(x, group, diag);
}

dv_status dv_exec_find_skips(dv_exec *x, int32_t group, dv_diag *diag)
{
    const dv_group *g = &x->plan->groups[group];
    dv_group_exec *run = &x->group[group];
    run->skips = 0;
    for (int32_t op = g->first_op; op < g->end_op; op++)
        x->prepared[op].finite = -1;
    if (run->grid || run->rows || run->parts || run->snapshots ||
        g->n_tiles < 2 || g->end_op - g->first_op < 2)
        return DV_OK;
    DV_TRY(x->choosing ? choose(x, group, diag) : obey(x, group, diag));
    for (int32_t op = g->first_op; op < g->end_op; op++)
        run->skips |= x->prepared[op].skip.by != 0;
    return DV_OK;
}

void dv_skip_cut(const dv_skip *s, dv_tile *t)
{
    if (!s->by)
        return;
    int64_t needed = dv_max_i64(1, t->end[s->with] - 1 + s->from);
    t->end[s->var] = dv_min_i64(t->end[s->var], dv_round_up(needed, s->by));
}

// Returns whether n floats, `step` apart, are finite.
static int all_finite(const float *x, int64_t n, int64_t step)
{
    uint32_t bad = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i * step], sizeof bits);
        bad |= (bits & 0x7f800000u) == 0x7f800000u;
    }
    return !bad;
}

// Returns whether all elements that read `f` of an op accesses in a tile are
// finite.
static int read_is_finite(const dv_op *o, const dv_flat *f, const dv_tile *t,
                          const float *base)
{
    int64_t at[DV_MAX_VARS];
    int inner = -1, v;
    for (v = 0; v < o->n_vars; v++) {
        at[v] = t->begin[v];
        if (f->coef[v] && (inner < 0 || f->coef[v] == 1))
            inner = v;
    }
    do {
        int64_t n = inner < 0 ? 1 : t->end[inner] - t->begin[inner];
        if (!all_finite(base + dv_flat_at(f, o, at), n,
                        inner < 0 ? 0 : f->coef[inner]))
            return 0;
        for (v = o->n_vars - 1; v >= 0; v--) {
            if (v == inner || !f->coef[v])
                continue;
            if (++at[v] < t->end[v])
                break;
            at[v] = t->begin[v];
        }
    } while (v >= 0);
    return 1;
}

int dv_exec_may_skip(dv_thread *w, int32_t group, int64_t tile)
{
    const dv_exec *x = w->run->x;
    const dv_group *g = &x->plan->groups[group];
    for (int32_t op = g->first_op; op < g->end_op; op++) {
        const dv_op_kernels *by = &x->prepared[op];
        const dv_op *o = &x->plan->ops->ops[op];
        if (!by->skip.by || by->finite < 0)
            continue;
        const dv_flat *f = &x->kernels[op].reads[by->finite];
        const float *base = w->data[o->reads[by->finite].tensor];
        dv_tile t;
        dv_plan_tile(&t, x->plan, op, tile);
        const void *first = base + dv_flat_at(f, o, t.begin);
        if (w->tested != first || w->tested_for != op) {
            w->tested = first;
            w->tested_for = op;
            w->finite = read_is_finite(o, f, &t, base);
        }
        if (!w->finite)
            return 0;
    }
    return 1;
}
