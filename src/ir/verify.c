// Checks the invariants of a program, P1 to P5 of docs/invariants.md, using the
// program alone. ir/build.c establishes most of them; this also checks plans
// written by hand and programs assembled by code.
#include "ir/program.h"
#include "base/math.h"
#include "base/plural.h"
#include <inttypes.h>
#include <ctype.h>
#include <string.h>

typedef struct verifier {
    const dv_program *p;
    dv_diag *diag;
    const dv_counter_range *counters; // by tensor
} verifier;

static dv_loc at(const verifier *v, uint32_t off)
{
    return (dv_loc){v->p->src.text ? &v->p->src : NULL, off};
}

// Rule P1 of docs/invariants.md: every access without a border stays inside its
// tensor; only reads have borders.

// An op and an index of it in which the counter of a repeat, if the index has
// one, is one more variable.
typedef struct counted {
    dv_op op;
    dv_index index;
    const dv_var *counter; // NULL: the index has none
    dv_var vars[DV_MAX_VARS + 1];
    int64_t coef[DV_MAX_VARS + 1];
} counted;

// Returns 0 if the index is read from a tensor that is no counter: then its
// values are known only at run time.
static int count(counted *c, const verifier *vf, const dv_op *op,
                 const dv_index *x)
{
    c->op = *op;
    c->index = *x;
    c->counter = NULL;
    if (x->via < 0)
        return 1;
    int32_t t = op->reads[x->via].tensor, i = (int32_t)(op - vf->p->ops);
    dv_counter_range in = vf->counters[t];
    if (in.begin == in.end || i < in.first_op || i >= in.end_op)
        return 0;
    for (int v = 0; v < op->n_vars; v++) {
        c->vars[v] = op->vars[v];
        c->coef[v] = x->coef[v];
    }
    c->vars[op->n_vars] = (dv_var){
        .name = vf->p->tensors[t].name, .begin = in.begin, .end = in.end};
    c->coef[op->n_vars] = x->factor;
    c->counter = &c->vars[op->n_vars];
    c->op.vars = c->vars;
    c->op.n_vars++;
    c->index = (dv_index){.base = x->base, .coef = c->coef, .via = -1};
    return 1;
}

// Fails because index d of an access reaches `found`, which is outside.
static dv_status outside(const verifier *vf, const counted *c,
                         const dv_access *a, int d, int64_t found)
{
    const dv_tensor *t = &vf->p->tensors[a->tensor];
    const dv_var *by = c->counter;
    dv_text x = {0}, when = {0};
    dv_index_print(&x, vf->p, &c->op, &c->index);
    if (by)
        dv_put(&when, " when %s is %" PRId64 " (of %" PRId64 "..%" PRId64 ")",
               by->name,
               (found < 0) == (c->coef[c->op.n_vars - 1] > 0) ? by->begin
                                                              : by->end - 1,
               by->begin, by->end);
    dv_status st =
        dv_fail(vf->diag, DV_E_BOUNDS, at(vf, a->off),
                "index %s reaches %" PRId64 "%s, dim %d of %s has 0..%" PRId64,
                x.at ? x.at : "", found, when.at ? when.at : "", d, t->name,
                t->shape[d]);
    dv_text_free(&x);
    dv_text_free(&when);
    return st;
}

static dv_status check_bounds(const verifier *vf, const dv_op *op,
                              const dv_access *a)
{
    const dv_tensor *t = &vf->p->tensors[a->tensor];
    for (int d = 0; d < a->n_dims; d++) {
        int64_t lo, hi;
        counted c;
        if (!count(&c, vf, op, &a->index[d]))
            continue;
        if (!dv_index_bounds(&c.op, &c.index, NULL, &lo, &hi))
            return dv_fail(vf->diag, DV_E_OVERFLOW, at(vf, a->off),
                           "index %d of %s does not fit 64 bits", d, t->name);
        if ((lo < 0 || hi >= t->shape[d]) && !a->has_border)
            return outside(vf, &c, a, d, lo < 0 ? lo : hi);
    }
    return DV_OK;
}

// Rule P2 of docs/invariants.md: no element is written twice, and a statement
// with `=` writes all elements of its tensor.

// One term factor * v of a write index, v having n values. The terms of an
// index form a mixed-radix number: sorted by factor, each factor must exceed
// the sum that the smaller terms can reach.
typedef struct digit {
    int64_t factor, n;
} digit;

// Returns 1 if distinct combinations of the variables give distinct index
// values, 0 if that is not proved.
static int is_injective(digit *digits, int n)
{
    for (int i = 1; i < n; i++) // insertion sort, because n is small
        for (int k = i; k > 0 && digits[k].factor < digits[k - 1].factor; k--) {
            digit t = digits[k];
            digits[k] = digits[k - 1];
            digits[k - 1] = t;
        }
    int64_t reach = 0;
    for (int i = 0; i < n; i++) {
        int64_t add;
        if (digits[i].factor <= reach ||
            !dv_mul_i64(&add, digits[i].factor, digits[i].n - 1) ||
            !dv_add_i64(&reach, reach, add))
            return 0;
    }
    return 1;
}

// Checks dim by dim that the write is injective (no two points write the same
// element): each dim must distinguish the variables that occur in no earlier
// dim. The test is sufficient, not necessary; it is exact for common index
// forms.
static int dims_are_injective(const dv_op *op)
{
    uint32_t seen = 0;
    for (int d = 0; d < op->write.n_dims; d++) {
        digit digits[DV_MAX_VARS];
        int n = 0;
        for (int v = 0; v < op->n_vars; v++) {
            int64_t c = op->write.index[d].coef[v];
            int64_t points = dv_var_len(op, v);
            if (c == 0 || points == 1 || (seen >> v & 1))
                continue;
            if (c == INT64_MIN)
                return 0;
            digits[n++] = (digit){c < 0 ? -c : c, points};
        }
        // A variable that occurs in an earlier dim is fixed by it, but the test
        // of this dim treats the dim's terms as independent: it proves nothing
        // if the dim also adds new variables.
        uint32_t here = dv_index_vars(op, &op->write.index[d]);
        if ((here & seen) && n > 0)
            return 0;
        if (!is_injective(digits, n))
            return 0;
        seen |= here;
    }
    for (int v = 0; v < op->n_vars; v++)
        if (!op->vars[v].reduce && !(seen >> v & 1) && dv_var_len(op, v) > 1)
            return 0;
    return 1;
}

// The largest tensor, in elements, for which duplicate writes are found by
// marking each element that is written.
enum { MAX_COUNTED = 1 << 26 };

static int64_t write_offset(const dv_tensor *t, const dv_op *op,
                            const int64_t *point)
{
    int64_t off = 0;
    for (int d = 0; d < op->write.n_dims; d++) {
        int64_t i = op->write.index[d].base;
        for (int v = 0; v < op->n_vars; v++)
            i += op->write.index[d].coef[v] * point[v];
        off = off * t->shape[d] + i;
    }
    return off;
}

// Slow path for writes with unusual indices: marks each element that is
// written. Returns 1 if no element is written twice, 0 if one is, -1 if out of
// memory. The caller has checked that all elements are inside the tensor.
static int count_writes(const dv_tensor *t, const dv_op *op, int64_t points)
{
    unsigned char *marks = dv_alloc((size_t)t->n_elems);
    if (!marks)
        return -1;
    memset(marks, 0, (size_t)t->n_elems);
    int64_t point[DV_MAX_VARS];
    for (int v = 0; v < op->n_vars; v++)
        point[v] = op->vars[v].begin;
    int once = 1;
    for (int64_t i = 0; once && i < points; i++) {
        unsigned char *m = &marks[write_offset(t, op, point)];
        once = !*m;
        *m = 1;
        for (int v = op->n_vars - 1; v >= 0; v--) {
            if (op->vars[v].reduce)
                continue;
            if (++point[v] < op->vars[v].end)
                break;
            point[v] = op->vars[v].begin;
        }
    }
    dv_release(marks);
    return once;
}

static dv_status check_write(const verifier *vf, const dv_op *op)
{
    const dv_tensor *t = &vf->p->tensors[op->write.tensor];
    if (dv_access_is_indirect(&op->write)) {
        if (op->update)
            return DV_OK; // which elements it writes is known only at run time
        return dv_fail(vf->diag, DV_E_WRITE, at(vf, op->write.off),
                       "%s is defined through an index that is read: which "
                       "elements that leaves out cannot be known; define all "
                       "of it, then update it with <-",
                       t->name);
    }
    int64_t points = dv_op_points(op, dv_written_vars(op));
    int once = dims_are_injective(op);
    if (!once && points <= t->n_elems && t->n_elems <= MAX_COUNTED)
        once = count_writes(t, op, points);
    if (once < 0)
        return dv_nomem(vf->diag);
    if (!once && points <= t->n_elems && t->n_elems > MAX_COUNTED)
        return dv_fail(vf->diag, DV_E_WRITE, at(vf, op->write.off),
                       "that no element of %s is written twice cannot be shown "
                       "for indices like these and %" PRId64 " element%s",
                       t->name, t->n_elems, DV_PLURAL(t->n_elems, "", "s"));
    if (!once)
        return dv_fail(vf->diag, DV_E_WRITE, at(vf, op->write.off),
                       "%" PRId64 " points write %s, and some element more "
                       "than once; reduce instead",
                       points, t->name);
    if (!op->update && points != t->n_elems)
        return dv_fail(vf->diag, DV_E_WRITE, at(vf, op->write.off),
                       "%s has %" PRId64 " element%s, this defines %" PRId64
                       " of them; define all of it, then update it with <-",
                       t->name, t->n_elems, DV_PLURAL(t->n_elems, "", "s"),
                       points);
    return DV_OK;
}

// Rule P3 of docs/invariants.md: the loops, scopes and reducers of an op are
// well-formed.

static dv_status check_expr(const verifier *vf, const dv_op *op,
                            const dv_expr *e, uint32_t scope, int *reduces)
{
    if (e->kind == DV_EXPR_REDUCE) {
        ++*reduces;
        if (e->vars == 0 || (e->vars & scope))
            return dv_fail(vf->diag, DV_E_NAME, at(vf, e->off),
                           "%s: a reducer's variables are its own", op->name);
        scope |= e->vars;
    }
    if (e->kind == DV_EXPR_READ &&
        (dv_access_vars(op, &op->reads[e->read]) & ~scope))
        return dv_fail(vf->diag, DV_E_NAME, at(vf, e->off),
                       "%s reads with a variable that is not in scope",
                       op->name);
    if (e->kind == DV_EXPR_INDEX) {
        int64_t lo, hi;
        if (e->read < 0 || e->read >= op->n_vars || !(scope >> e->read & 1))
            return dv_fail(vf->diag, DV_E_NAME, at(vf, e->off),
                           "%s uses a variable that is not in scope", op->name);
        if (!dv_expr_index_bounds(op, e, &lo, &hi))
            return dv_fail(vf->diag, DV_E_OVERFLOW, at(vf, e->off),
                           "%s plus %" PRId64 " does not fit 64 bits",
                           op->vars[e->read].name, e->base);
    }
    for (int i = 0; i < e->n_args; i++)
        DV_TRY(check_expr(vf, op, e->arg[i], scope, reduces));
    return DV_OK;
}

static dv_status check_op(const verifier *vf, const dv_op *op)
{
    uint32_t written = dv_written_vars(op);
    for (int v = 0; v < op->n_vars; v++)
        if (op->vars[v].begin >= op->vars[v].end)
            return dv_fail(vf->diag, DV_E_SHAPE, at(vf, op->off),
                           "the range of %s is empty", op->vars[v].name);
    uint32_t moves = dv_access_vars(op, &op->write);
    for (int v = 0; v < op->n_vars; v++)
        if ((written & ~moves) >> v & 1)
            return dv_fail(vf->diag, DV_E_WRITE, at(vf, op->write.off),
                           "%s cancels out on the left side", op->vars[v].name);
    int reduces = 0;
    DV_TRY(check_expr(vf, op, op->body, written, &reduces));
    if (vf->p->grain != DV_GRAIN_SOURCE && reduces > 1)
        return dv_fail(vf->diag, DV_E_SHAPE, at(vf, op->off),
                       "%s has %d reducers, a lowered op has at most one",
                       op->name, reduces);
    const dv_tensor *to = &vf->p->tensors[op->write.tensor];
    if (to->is_const)
        return dv_fail(vf->diag, DV_E_WRITE, at(vf, op->write.off),
                       "%s is a constant, it is never written", to->name);
    DV_TRY(check_bounds(vf, op, &op->write));
    if (op->write.has_border)
        return dv_fail(vf->diag, DV_E_SYNTAX, at(vf, op->write.off),
                       "a write has no border");
    for (int i = 0; i < op->n_reads; i++)
        DV_TRY(check_bounds(vf, op, &op->reads[i]));
    return check_write(vf, op);
}

// Rule P4 of docs/invariants.md: tensors are defined once and before they are
// used.

// Marks tensors defined inside a repeat of 0 times as undefined again, since
// their definition never runs.
static void forget(const dv_program *p, int32_t repeat, unsigned char *defined)
{
    if (repeat < 0)
        return;
    for (int i = p->repeats[repeat].first_op; i < p->repeats[repeat].end_op;
         i++)
        if (!p->ops[i].update)
            defined[p->ops[i].write.tensor] = 0;
}

// Checks that each tensor is defined once, before it is read or updated.
static dv_status check_order(const verifier *vf, unsigned char *defined)
{
    const dv_program *p = vf->p;
    // `dead` is the outermost repeat loop with 0 iterations around op i, or -1.
    int32_t next = 0, dead = -1;
    for (int i = 0; i < p->n_tensors; i++)
        defined[i] = p->tensors[i].is_input;
    for (int i = 0; i < p->n_ops; i++) {
        if (dead >= 0 && p->repeats[dead].end_op <= i) {
            forget(p, dead, defined);
            dead = -1;
        }
        for (; next < p->n_repeats && p->repeats[next].first_op <= i; next++)
            if (dead < 0 && p->repeats[next].times == 0)
                dead = next;
        const dv_op *op = &p->ops[i];
        const dv_tensor *t = &p->tensors[op->write.tensor];
        for (int r = 0; r < op->n_reads; r++)
            if (!defined[op->reads[r].tensor])
                return dv_fail(vf->diag, DV_E_NAME, at(vf, op->reads[r].off),
                               "%s is read before it is defined",
                               p->tensors[op->reads[r].tensor].name);
        if (op->update != defined[op->write.tensor])
            return dv_fail(
                vf->diag, DV_E_NAME, at(vf, op->off), "%s is %s", t->name,
                op->update ? "updated before it is defined" : "defined twice");
        defined[op->write.tensor] = 1;
    }
    forget(p, dead, defined);
    for (int i = 0; i < p->n_tensors; i++)
        if (p->tensors[i].is_output && !defined[i])
            return dv_fail(vf->diag, DV_E_NAME, at(vf, p->tensors[i].off),
                           "%s is an output but never defined",
                           p->tensors[i].name);
    return DV_OK;
}

// Marks live ops (those that are not dead code) and wanted tensors: a tensor is
// wanted if it is an output or a live op reads it; an op is live if it writes a
// wanted tensor. With `effects`, the tensors written by ops that do more than
// compute them are wanted as well: opaque (extern) ops, and ops with indices
// that are read, because an index out of range is an error. `list` is scratch
// space of n_ops + 2 * n_tensors numbers.
static void find_live(const dv_program *p, int effects, unsigned char *wanted,
                      unsigned char *live, int32_t *list)
{
    int32_t *before = list, *last = list + p->n_ops;
    int32_t *stack = last + p->n_tensors, n_stack = 0;
    for (int t = 0; t < p->n_tensors; t++) {
        last[t] = -1;
        wanted[t] = p->tensors[t].is_output;
    }
    for (int i = 0; i < p->n_ops && effects; i++)
        if (p->ops[i].is_extern || dv_op_gathers(&p->ops[i]) ||
            dv_access_is_indirect(&p->ops[i].write))
            wanted[p->ops[i].write.tensor] = 1;
    for (int t = 0; t < p->n_tensors; t++)
        if (wanted[t])
            stack[n_stack++] = t;
    for (int i = 0; i < p->n_ops; i++) {
        before[i] = last[p->ops[i].write.tensor];
        last[p->ops[i].write.tensor] = i;
    }
    while (n_stack) {
        int32_t tensor = stack[--n_stack];
        for (int i = last[tensor]; i >= 0; i = before[i]) {
            live[i] = 1;
            for (int r = 0; r < p->ops[i].n_reads; r++) {
                int32_t t = p->ops[i].reads[r].tensor;
                if (!wanted[t]) {
                    wanted[t] = 1;
                    stack[n_stack++] = t;
                }
            }
        }
    }
}

int dv_program_find_live(const dv_program *p, unsigned char *live)
{
    size_t n = (size_t)p->n_tensors, m = (size_t)p->n_ops;
    int32_t *list = dv_alloc((m + 2 * n) * sizeof *list);
    unsigned char *wanted = dv_alloc(n);
    int outputs = 0;
    if (list && wanted) {
        for (size_t t = 0; t < n; t++)
            outputs |= p->tensors[t].is_output;
        for (size_t i = 0; i < m; i++)
            live[i] = !outputs;
        find_live(p, 1, wanted, live, list);
    }
    int ok = list && wanted;
    dv_release(list);
    dv_release(wanted);
    return ok;
}

// Returns whether the user wrote the op (it was not generated for a topk): then
// the text at its source position is the name of its tensor.
static int is_written(const dv_program *p, const dv_op *op)
{
    const char *name = p->tensors[op->write.tensor].name;
    size_t len = strlen(name);
    if (!p->src.text || op->off > p->src.len || len >= p->src.len - op->off)
        return 0;
    const char *here = p->src.text + op->off;
    unsigned char after = (unsigned char)here[len];
    return !memcmp(here, name, len) && !isalnum(after) && after != '_';
}

static dv_status warn_dead(const verifier *vf, unsigned char *wanted,
                           unsigned char *live)
{
    const dv_program *p = vf->p;
    size_t n = (size_t)p->n_ops + 2 * (size_t)p->n_tensors;
    int32_t *list = dv_alloc(n * sizeof *list);
    if (!list)
        return dv_nomem(vf->diag);
    find_live(p, 0, wanted, live, list);
    dv_release(list);
    int outputs = 0;
    for (int i = 0; i < p->n_tensors; i++)
        outputs += p->tensors[i].is_output;
    if (!outputs)
        dv_warn(vf->diag, "dead", at(vf, DV_FILE),
                "the program has no output, so nothing of it is kept");
    for (int i = 0; outputs && i < p->n_ops; i++)
        if (!live[i] && is_written(p, &p->ops[i]))
            dv_warn(vf->diag, "dead", at(vf, p->ops[i].off),
                    "%s reaches no output", p->ops[i].name);
    for (int i = 0; outputs && i < p->n_tensors; i++)
        if (!wanted[i] &&
            (p->tensors[i].is_input ||
             (p->tensors[i].is_temp && !p->tensors[i].is_defined)))
            dv_warn(vf->diag, "dead", at(vf, p->tensors[i].off),
                    "%s is never used", p->tensors[i].name);
    return DV_OK;
}

static dv_status check_ops(const dv_program *p, dv_diag *diag)
{
    dv_counter_range *counters =
        dv_alloc((size_t)p->n_tensors * sizeof *counters);
    verifier vf = {p, diag, counters};
    dv_status st = counters && dv_program_find_counters(p, counters)
                       ? DV_OK
                       : dv_nomem(diag);
    for (int i = 0; st == DV_OK && i < p->n_ops; i++)
        st = check_op(&vf, &p->ops[i]);
    dv_release(counters);
    return st;
}

dv_status dv_program_verify(const dv_program *p, int warn, dv_diag *diag)
{
    verifier vf = {.p = p, .diag = diag};
    DV_TRY(check_ops(p, diag));
    size_t n = (size_t)p->n_tensors, m = (size_t)p->n_ops;
    unsigned char *marks = dv_alloc(2 * n + m);
    if (!marks)
        return dv_nomem(diag);
    memset(marks, 0, 2 * n + m);
    dv_status st = check_order(&vf, marks);
    if (st == DV_OK && warn)
        st = warn_dead(&vf, marks + n, marks + 2 * n);
    dv_release(marks);
    return st;
}
