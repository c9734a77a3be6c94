// Prints a program as statements with all params (named constants) replaced by
// numbers. The text parses to the same program: inputs first, then declared
// temporaries, then the ops in order.
#include "ir/program.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Returns whether variables u and v have the same name and range. Reducers side
// by side may use one name, each for a variable of its own; the text may keep
// that name only if their ranges agree, because a `for` clause applies to all
// variables of a name.
static int alike(const dv_op *op, int u, int v)
{
    return strcmp(op->vars[u].name, op->vars[v].name) == 0 &&
           op->vars[u].begin == op->vars[v].begin &&
           op->vars[u].end == op->vars[v].end;
}

// Returns the first variable with the same name and range as variable v, which
// the printed text does not distinguish from it.
static int first_alike(const dv_op *op, int v)
{
    int u = 0;
    while (!alike(op, u, v))
        u++;
    return u;
}

static int is_taken(const dv_op *op, const char *name)
{
    for (int v = 0; v < op->n_vars; v++)
        if (strcmp(op->vars[v].name, name) == 0)
            return 1;
    return 0;
}

// Prints a variable's name, with a number appended if variables of the same
// name have different ranges.
static void put_var(dv_text *out, const dv_op *op, int v)
{
    const char *plain = op->vars[v].name;
    int first = first_alike(op, v), n = first, u = 0;
    dv_text name = {0};
    while (strcmp(op->vars[u].name, plain) != 0)
        u++;
    if (u == first) {
        dv_put(out, "%s", plain);
        return;
    }
    do {
        dv_text_free(&name);
        dv_put(&name, "%s_%d", plain, n);
        // The step is so large that no two variables try the same number.
        n += DV_MAX_VARS;
    } while (!name.failed && is_taken(op, name.at));
    dv_put(out, "%s", name.failed ? "" : name.at);
    out->failed |= name.failed;
    dv_text_free(&name);
}

void dv_index_print(dv_text *out, const dv_program *p, const dv_op *op,
                    const dv_index *x)
{
    int first = 1;
    if (x->via >= 0) {
        if (x->factor != 1)
            dv_put(out, "%" PRId64 "*", x->factor);
        dv_access_print(out, p, op, &op->reads[x->via]);
        first = 0;
    }
    for (int v = 0; v < op->n_vars; v++) {
        int64_t c = x->coef[v];
        if (c == 0)
            continue;
        dv_put(out, "%s", c < 0 ? "-" : first ? "" : "+");
        if (c != 1 && c != -1)
            dv_put(out, "%" PRIu64 "*", c < 0 ? 0 - (uint64_t)c : (uint64_t)c);
        put_var(out, op, v);
        first = 0;
    }
    if (x->base || first)
        dv_put(out, "%s%" PRId64, x->base >= 0 && !first ? "+" : "", x->base);
}

void dv_access_print(dv_text *out, const dv_program *p, const dv_op *op,
                     const dv_access *a)
{
    dv_put(out, "%s[", p->tensors[a->tensor].name);
    for (int d = 0; d < a->n_dims; d++) {
        if (d)
            dv_put(out, ",");
        dv_index_print(out, p, op, &a->index[d]);
    }
    dv_put(out, "]");
    if (!a->has_border)
        return;
    dv_put(out, " else ");
    dv_border_print(out, p, a);
}

void dv_border_print(dv_text *out, const dv_program *p, const dv_access *a)
{
    if (dv_is_float(p->tensors[a->tensor].dtype))
        dv_put_double(out, a->border);
    else
        dv_put(out, "%.0f", a->border);
}

void dv_element_print(dv_text *out, const dv_tensor *t, int64_t element)
{
    int64_t below = t->n_elems;
    dv_put(out, "%s", t->name);
    for (int d = 0; d < t->n_dims; d++) {
        below /= t->shape[d];
        dv_put(out, "%s%" PRId64, d ? "," : "[", element / below % t->shape[d]);
    }
    if (t->n_dims)
        dv_put(out, "]");
}

typedef struct printer {
    dv_text *out;
    const dv_program *p;
    const dv_op *op;
} printer;

static void expr(const printer *pr, const dv_expr *e, int prec);

static void apply(const printer *pr, const dv_expr *e)
{
    const dv_fn_info *f = dv_fn_get((dv_fn)e->fn);
    if (f->prec == 0) {
        dv_put(pr->out, "%s(", f->text);
        for (int i = 0; i < e->n_args; i++) {
            if (i)
                dv_put(pr->out, ", ");
            expr(pr, e->arg[i], 0);
        }
        dv_put(pr->out, ")");
    } else if (e->n_args == 1) {
        dv_put(pr->out, "%s", f->text);
        expr(pr, e->arg[0], f->prec);
    } else {
        expr(pr, e->arg[0], f->prec + (f->prec == DV_PREC_COMPARE));
        dv_put(pr->out, " %s ", f->text);
        expr(pr, e->arg[1], f->prec + 1);
    }
}

static void reduce(const printer *pr, const dv_expr *e)
{
    const char *sep = "";
    dv_put(pr->out, "%s[", dv_reducer_get((dv_reducer)e->fn)->text);
    for (int v = 0; v < pr->op->n_vars; v++) {
        if (e->vars >> v & 1) {
            dv_put(pr->out, "%s", sep);
            put_var(pr->out, pr->op, v);
            sep = ",";
        }
    }
    dv_put(pr->out, "] ");
    expr(pr, e->arg[0], DV_PREC_TERM);
}

static void put_index_value(const printer *pr, const dv_expr *e)
{
    put_var(pr->out, pr->op, e->read);
    if (e->base > 0)
        dv_put(pr->out, " + %" PRId64, e->base);
    else if (e->base < 0)
        dv_put(pr->out, " - %" PRIu64, 0 - (uint64_t)e->base);
}

static void expr(const printer *pr, const dv_expr *e, int prec)
{
    int binds = DV_PREC_TIGHT;
    if (e->kind == DV_EXPR_INDEX && e->base)
        binds = dv_fn_get(DV_FN_ADD)->prec;
    if (e->kind == DV_EXPR_REDUCE ||
        (e->kind == DV_EXPR_READ && pr->op->reads[e->read].has_border))
        binds = 0;
    else if (e->kind == DV_EXPR_APPLY && dv_fn_get((dv_fn)e->fn)->prec)
        binds = dv_fn_get((dv_fn)e->fn)->prec;
    if (binds < prec)
        dv_put(pr->out, "(");
    if (e->kind == DV_EXPR_CONST && e->dtype == DV_WEAK_INT)
        dv_put(pr->out, "%.0f", e->value);
    else if (e->kind == DV_EXPR_CONST)
        dv_put_double(pr->out, e->value);
    else if (e->kind == DV_EXPR_READ)
        dv_access_print(pr->out, pr->p, pr->op, &pr->op->reads[e->read]);
    else if (e->kind == DV_EXPR_INDEX)
        put_index_value(pr, e);
    else if (e->kind == DV_EXPR_APPLY)
        apply(pr, e);
    else
        reduce(pr, e);
    if (binds < prec)
        dv_put(pr->out, ")");
}

void dv_expr_print(dv_text *out, const dv_program *p, const dv_op *op,
                   const dv_expr *e)
{
    printer pr = {out, p, op};
    expr(&pr, e, 0);
}

// Returns whether parsing the printed text infers the variable's range without
// a `for` clause. This mirrors dv_bound_range in build_index.c: only indices
// that are the variable alone count.
static int range_is_clear(const dv_program *p, const dv_op *op, int v)
{
    int places = 0;
    int left = op->update || p->tensors[op->write.tensor].is_temp;
    for (int i = left ? -1 : 0; i < op->n_reads; i++) {
        const dv_access *a = i < 0 ? &op->write : &op->reads[i];
        for (int d = 0; d < a->n_dims && !a->has_border; d++) {
            int var;
            if (!dv_index_is_var(op, &a->index[d], &var) || var != v)
                continue;
            places++;
            if (op->vars[v].begin != 0 ||
                op->vars[v].end != p->tensors[a->tensor].shape[d])
                return 0;
        }
    }
    return places > 0;
}

void dv_op_print(dv_text *out, const dv_program *p, const dv_op *op)
{
    if (op->is_extern)
        dv_put(out, "extern ");
    dv_access_print(out, p, op, &op->write);
    if (!op->update)
        dv_put(out, ": %s",
               dv_dtype_get(p->tensors[op->write.tensor].dtype)->name);
    dv_put(out, op->update ? " <- " : " = ");
    dv_expr_print(out, p, op, op->body);
    const char *sep = "  for ";
    for (int v = 0; v < op->n_vars; v++) {
        int clear = 1;
        for (int u = v; u < op->n_vars; u++)
            clear = clear && (!alike(op, u, v) || range_is_clear(p, op, u));
        if (clear || first_alike(op, v) != v)
            continue;
        dv_put(out, "%s", sep);
        put_var(out, op, v);
        dv_put(out, " in %" PRId64 "..%" PRId64, op->vars[v].begin,
               op->vars[v].end);
        sep = ", ";
    }
    dv_put(out, "\n");
}

static void declaration(dv_text *out, const dv_tensor *t, int indent)
{
    dv_put(out, "%*s%s %s: %s[", indent, "",
           t->is_const   ? "const"
           : t->is_input ? "input"
                         : "temp",
           t->name, dv_dtype_get(t->dtype)->name);
    for (int d = 0; d < t->n_dims; d++)
        dv_put(out, "%s%" PRId64, d ? ", " : "", t->shape[d]);
    dv_put(out, "]");
    dv_placement_request_print(out, t->place);
    dv_memory_note_print(out, t->memory);
    if (t->file)
        dv_put(out, " = \"%s\"", t->file);
    dv_put(out, "\n");
}

// Prints the outputs in the order in which the printed text names the tensors
// (inputs, declared temporaries, then the others), so that printing the parsed
// text gives the same text.
static void put_outputs(dv_text *out, const dv_program *p, int indent)
{
    int n = 0;
    for (int pass = 0; pass < 3; pass++)
        for (int i = 0; i < p->n_tensors; i++) {
            const dv_tensor *t = &p->tensors[i];
            if (!t->is_output || pass != (t->is_input ? 0 : t->is_temp ? 1 : 2))
                continue;
            if (n++ == 0)
                dv_put(out, "%*soutput %s", indent, "", t->name);
            else
                dv_put(out, ", %s", t->name);
            if (!t->is_input)
                dv_memory_note_print(out, t->memory);
        }
    if (n)
        dv_put(out, "\n");
}

void dv_program_print(dv_text *out, const dv_program *p, int indent)
{
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < p->n_tensors; i++)
            if (pass ? p->tensors[i].is_temp : p->tensors[i].is_input)
                declaration(out, &p->tensors[i], indent);
    int next = 0, open[DV_MAX_NESTING + 1], n_open = 0;
    for (int i = 0; i <= p->n_ops; i++) {
        while (n_open && p->repeats[open[n_open - 1]].end_op == i) {
            n_open--;
            dv_put(out, "%*s}\n", indent + 4 * n_open, "");
        }
        if (i == p->n_ops)
            break;
        for (; next < p->n_repeats && p->repeats[next].first_op == i; next++) {
            dv_put(out, "%*srepeat %" PRId64 " {\n", indent + 4 * n_open, "",
                   p->repeats[next].times);
            open[n_open++] = next;
        }
        dv_put(out, "%*s", indent + 4 * n_open, "");
        dv_op_print(out, p, &p->ops[i]);
    }
    put_outputs(out, p, indent);
}
