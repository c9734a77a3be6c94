// Prints a syntax tree as canonical text that parses to the same tree: fixed
// spacing, only the parentheses that are needed, and parentheses around every
// reducer that is an operand.
#include "lang/ast.h"
#include "base/dtype.h"
#include <inttypes.h>

// Least precedence that an expression may have without parentheses, in the
// context where it is printed. ALONE: any expression may stand there, e.g.
// between brackets. FACTOR: also a negation. TIGHT: only a name, a number, an
// access or a call.
enum {
    ALONE = 0,
    OPERAND_OF_REDUCER = DV_PREC_TERM,
    FACTOR = DV_PREC_FACTOR,
    TIGHT = DV_PREC_TIGHT
};

static void node(dv_text *out, const dv_node *n, int prec);

static void list(dv_text *out, dv_node *const *args, uint32_t from, uint32_t n)
{
    for (uint32_t i = from; i < n; i++) {
        if (i > from)
            dv_put(out, ",");
        node(out, args[i], ALONE);
    }
}

static void apply(dv_text *out, const dv_node *n)
{
    const dv_fn_info *f = dv_fn_get(n->op);
    if (f->prec == 0) {
        dv_put(out, "%s(", f->text);
        for (uint32_t i = 0; i < n->n_args; i++) {
            if (i)
                dv_put(out, ", ");
            node(out, n->args[i], ALONE);
        }
        dv_put(out, ")");
    } else if (n->n_args == 1) {
        dv_put(out, "%s", f->text);
        node(out, n->args[0], f->prec);
    } else {
        // Operators are left-associative, so only the right operand needs
        // parentheses at equal precedence; comparisons do not chain, so both
        // do.
        node(out, n->args[0], f->prec + (f->prec == DV_PREC_COMPARE));
        dv_put(out, " %s ", f->text);
        node(out, n->args[1], f->prec + 1);
    }
}

static int binds(const dv_node *n)
{
    if (n->kind == DV_NODE_REDUCE)
        // A reducer gets the lowest precedence, so that it is printed in
        // parentheses when it is an operand.
        return ALONE;
    if (n->kind == DV_NODE_ELSE) // in parentheses as an operand, for readers
        return ALONE;
    if (n->kind == DV_NODE_APPLY && dv_fn_get(n->op)->prec)
        return dv_fn_get(n->op)->prec;
    return TIGHT;
}

static void node(dv_text *out, const dv_node *n, int prec)
{
    int wrap = binds(n) < prec;
    if (wrap)
        dv_put(out, "(");
    switch ((dv_node_kind)n->kind) {
    case DV_NODE_INT:
        dv_put(out, "%" PRId64, n->i);
        break;
    case DV_NODE_FLOAT:
        dv_put_double(out, n->f);
        break;
    case DV_NODE_INF:
        dv_put(out, "inf");
        break;
    case DV_NODE_NAME:
        dv_put_bytes(out, n->name.at, n->name.len);
        break;
    case DV_NODE_ACCESS:
        dv_put_bytes(out, n->name.at, n->name.len);
        dv_put(out, "[");
        list(out, n->args, 0, n->n_args);
        dv_put(out, "]");
        break;
    case DV_NODE_APPLY:
        apply(out, n);
        break;
    case DV_NODE_REDUCE:
        dv_put(out, "%s[", dv_reducer_get((dv_reducer)n->op)->text);
        list(out, n->args, 1, n->n_args);
        dv_put(out, "] ");
        node(out, n->args[0], OPERAND_OF_REDUCER);
        break;
    case DV_NODE_ELSE:
        node(out, n->args[0], TIGHT);
        dv_put(out, " else ");
        node(out, n->args[1], FACTOR);
        break;
    }
    if (wrap)
        dv_put(out, ")");
}

static const dv_memory_note *memory_of(const dv_stmt *s, int32_t i)
{
    return s->memory ? s->memory[i] : NULL;
}

void dv_placement_request_print(dv_text *out, const dv_placement_request *p)
{
    if (!p || p->kind == DV_PLACE_NONE)
        return;
    if (p->kind == DV_PLACE_REPLICATE) {
        dv_put(out, " @ replicate");
        return;
    }
    dv_put(out, " @ split(");
    for (int32_t i = 0; i < p->n_dims; i++)
        dv_put(out, "%s%d", i ? ", " : "", (int)p->dims[i]);
    dv_put(out, ")");
}

static void declaration(dv_text *out, const dv_stmt *s, const char *word)
{
    dv_put(out, "%s %.*s: %s[", word, (int)s->name.len, s->name.at,
           dv_dtype_get((dv_dtype)s->dtype)->name);
    for (int32_t i = 0; i < s->n_dims; i++) {
        if (i)
            dv_put(out, ", ");
        node(out, s->dims[i], ALONE);
    }
    dv_put(out, "]");
    dv_placement_request_print(out, s->place);
    dv_memory_note_print(out, memory_of(s, 0));
    if (s->file.at)
        dv_put(out, " = \"%.*s\"", (int)s->file.len, s->file.at);
}

static void range(dv_text *out, const dv_for *f)
{
    dv_put(out, "%.*s in ", (int)f->name.len, f->name.at);
    node(out, f->begin, ALONE);
    dv_put(out, "..");
    node(out, f->end, ALONE);
}

static void assign(dv_text *out, const dv_stmt *s)
{
    if (s->is_extern)
        dv_put(out, "extern ");
    node(out, s->lhs, ALONE);
    if (s->dtype >= 0)
        dv_put(out, ": %s", dv_dtype_get((dv_dtype)s->dtype)->name);
    dv_put(out, s->update ? " <- " : " = ");
    node(out, s->value, ALONE);
    for (int32_t i = 0; i < s->n_ranges; i++) {
        dv_put(out, "%s", i ? ", " : "  for ");
        range(out, &s->ranges[i]);
    }
}

static void stmts(dv_text *out, const dv_stmt *s, int indent)
{
    for (; s; s = s->next) {
        dv_put(out, "%*s", indent, "");
        switch ((dv_stmt_kind)s->kind) {
        case DV_STMT_PARAM:
            dv_put(out, "param %.*s = ", (int)s->name.len, s->name.at);
            node(out, s->value, ALONE);
            break;
        case DV_STMT_INPUT:
            declaration(out, s, "input");
            break;
        case DV_STMT_CONST:
            declaration(out, s, "const");
            break;
        case DV_STMT_TEMP:
            declaration(out, s, "temp");
            break;
        case DV_STMT_OUTPUT:
            dv_put(out, "output ");
            for (int32_t i = 0; i < s->n_dims; i++) {
                dv_put(out, "%s%.*s", i ? ", " : "", (int)s->dims[i]->name.len,
                       s->dims[i]->name.at);
                dv_memory_note_print(out, memory_of(s, i));
            }
            break;
        case DV_STMT_ASSIGN:
            assign(out, s);
            break;
        case DV_STMT_REPEAT:
            dv_put(out, "repeat ");
            if (s->n_ranges)
                range(out, s->ranges);
            else
                node(out, s->value, ALONE);
            dv_put(out, " {\n");
            stmts(out, s->body, indent + 4);
            dv_put(out, "%*s}", indent, "");
            break;
        }
        dv_put(out, "\n");
    }
}

void dv_ast_print(dv_text *out, const dv_ast *ast)
{
    stmts(out, ast->first, 0);
}
