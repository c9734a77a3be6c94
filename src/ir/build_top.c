// Replaces topk and argtopk in an assignment by statements without them.
//
//   y[i,r] = w[i] * (topk[j] x[i,j])  for r in 0..K
//
// becomes, with names that the text does not have,
//
//   left[i,j] = x[i,j]
//   untaken[i,j] = 1
//   top[i,r] = 0
//   repeat q in 0..K {
//       most[i] = max[j] left[i,j]
//       place[i] = min[j] select(left[i,j] == most[i] && untaken[i,j] > 0 ||
//                                left[i,j] != left[i,j], j, N - 1)
//       left[i,j] <- select(j == place[i], -inf, left[i,j])
//       untaken[i,j] <- select(j == place[i], 0, untaken[i,j])
//       top[i,r] <- select(r == q, most[i], top[i,r])
//   }
//   y[i,r] = w[i] * top[i,r]
//
// Elements that were taken become the least value of their type, integers of 64
// bits the least of the row (`least`), because machines may store these in
// fewer bits; `untaken` tells them from those that have always been the least.
// As long as a nan is left, the maximum is nan. Places are floats, because
// vector kernels compute with these.
#include "ir/build.h"
#include "base/math.h"
#include "base/plural.h"
#include "lang/reduce.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int occurs(const dv_node *n, dv_str name)
{
    if (n->kind == DV_NODE_NAME)
        return dv_str_eq(n->name, name);
    if (n->kind >= DV_NODE_ACCESS)
        for (uint32_t i = 0; i < n->n_args; i++)
            if (occurs(n->args[i], name))
                return 1;
    return 0;
}

dv_status dv_top_add(dv_opbuild *o, const dv_node *n, int var, dv_dtype type)
{
    const char *name = dv_reducer_get((dv_reducer)n->op)->text;
    dv_top_use use = {.node = n, .var = var, .rank = -1, .type = type};
    for (int v = 0; v < o->n_vars; v++) {
        if (!o->vars[v].in_scope)
            continue;
        if (occurs(n->args[0], o->vars[v].name)) {
            use.vars |= UINT32_C(1) << v;
            continue;
        }
        if (use.rank >= 0)
            return dv_fail(o->b->diag, DV_E_NAME, dv_build_at(o->b, n->off),
                           "%s counts with the only variable that its operand "
                           "does not have; here are %s and %s",
                           name, o->vars[use.rank].var.name,
                           o->vars[v].var.name);
        use.rank = v;
    }
    if (use.rank < 0)
        return dv_fail(o->b->diag, DV_E_NAME, dv_build_at(o->b, n->off),
                       "%s counts with a variable that its operand does not "
                       "have (v[i,r] = %s[j] x[i,j]  for r in 0..2); here is "
                       "none",
                       name, name);
    dv_top_use *slot =
        DV_PUSH(&o->b->p->arena, dv_top_use, o->tops, o->n_tops, o->cap_tops);
    if (!slot)
        return dv_nomem(o->b->diag);
    *slot = use;
    return DV_OK;
}

// -- The statements that compute the result ----------------------------------

// Indices of the temporaries that these statements compute (see top of file).
enum { LEFT, UNTAKEN, TOP, MOST, PLACE, LEAST, N_TENSORS };

typedef struct top {
    dv_opbuild *o;
    const dv_top_use *use;
    const dv_var *var, *rank;
    const char *name; // of the reducer
    dv_str names[N_TENSORS];
    const char *elem[N_TENSORS]; // their elements at i0, i1 …, and j or r
    const char *ranges;          // of i0, i1 …
} top;

static dv_status check_ranges(const top *t)
{
    dv_loc at = dv_build_at(t->o->b, t->use->node->off);
    int64_t count = t->var->end - t->var->begin;
    if (t->rank->begin < 0)
        return dv_fail(t->o->b->diag, DV_E_SHAPE, at,
                       "%s counts from 0, %s begins at %" PRId64, t->name,
                       t->rank->name, t->rank->begin);
    if (t->rank->end > count)
        return dv_fail(t->o->b->diag, DV_E_SHAPE, at,
                       "%s has %" PRId64 " value%s, but %s runs to %" PRId64,
                       t->var->name, count, DV_PLURAL(count, "", "s"),
                       t->rank->name, t->rank->end - 1);
    return DV_OK;
}

// Moves a text into the program's arena. Returns NULL if out of memory.
static const char *keep(top *t, dv_text *text)
{
    const char *copy = text->failed
                           ? NULL
                           : dv_arena_copy(&t->o->b->p->arena,
                                           text->at ? text->at : "", text->len);
    dv_text_free(text);
    return copy;
}

static dv_status name_tensors(top *t)
{
    static const char *const names[] = {"left", "untaken", "top",
                                        "most", "place",   "least"};
    static const char *const last[] = {"j", "j", "r", "", "", ""};
    for (int i = 0; i < N_TENSORS; i++) {
        dv_str wish = {names[i], (uint32_t)strlen(names[i])};
        DV_TRY(dv_build_new_name(t->o->b, wish, &t->names[i]));
        dv_text text = {0};
        dv_put(&text, "%s[", t->names[i].at);
        int n = 0;
        for (uint32_t m = t->use->vars; m; m &= m - 1, n++)
            dv_put(&text, "%si%d", n ? "," : "", n);
        dv_put(&text, "%s%s]", n && *last[i] ? "," : "", last[i]);
        t->elem[i] = keep(t, &text);
        if (!t->elem[i])
            return dv_nomem(t->o->b->diag);
    }
    dv_text text = {0};
    int n = 0;
    for (int v = 0; v < t->o->n_vars; v++)
        if (t->use->vars >> v & 1)
            dv_put(&text, "i%d in 0..%" PRId64 ", ", n++,
                   t->o->vars[v].var.end - t->o->vars[v].var.begin);
    t->ranges = keep(t, &text);
    return t->ranges ? DV_OK : dv_nomem(t->o->b->diag);
}

// Prints ` - 3`, or nothing for 0.
static void put_minus(dv_text *text, int64_t n)
{
    if (n)
        dv_put(text, " %c %" PRId64, n < 0 ? '+' : '-', n < 0 ? -n : n);
}

// Prints the declaration of the tensor `left` and a statement that defines all
// its elements as 0; the operand's expression replaces the 0 later. The
// variables and ranges are those of the statement that the user wrote.
static void put_operand(const top *t, dv_text *text)
{
    const dv_binding *vars = t->o->vars;
    uint32_t used = t->use->vars | UINT32_C(1) << t->use->var;
    const char *name = t->names[LEFT].at;
    dv_put(text, "temp %s: %s[", name, dv_dtype_get(t->use->type)->name);
    const char *before = "";
    for (int v = 0; v < t->o->n_vars; v++)
        if (used >> v & 1) {
            int64_t count = vars[v].var.end - vars[v].var.begin;
            dv_put(text, "%s%" PRId64, before, count);
            before = ", ";
        }
    dv_put(text, "]\n%s[", name);
    before = "";
    for (int v = 0; v < t->o->n_vars; v++)
        if (used >> v & 1) {
            dv_put(text, "%s%s", before, vars[v].var.name);
            put_minus(text, vars[v].var.begin);
            before = ", ";
        }
    dv_put(text, "] = 0");
    before = " for ";
    for (int v = 0; v < t->o->n_vars; v++)
        if (used >> v & 1) {
            dv_put(text, "%s%s in %" PRId64 "..%" PRId64, before,
                   vars[v].var.name, vars[v].var.begin, vars[v].var.end);
            before = ", ";
        }
    dv_put(text, "\n");
}

static void put_repeat(const top *t, dv_text *text)
{
    dv_dtype type = t->use->type;
    const char *left = t->elem[LEFT], *untaken = t->elem[UNTAKEN],
               *most = t->elem[MOST], *place = t->elem[PLACE],
               *result = t->elem[TOP], *name = dv_dtype_get(type)->name;
    int places = t->use->node->op == DV_RED_ARGTOPK;
    int64_t count = t->var->end - t->var->begin, n_top = t->rank->end;
    dv_text list = {0};
    char number[40];
    const char *least = number;
    dv_put(&list, "for %sj in 0..%" PRId64, t->ranges, count);
    const char *all = list.at ? list.at : "";
    if (dv_is_float(type)) {
        least = "-inf";
    } else if (dv_dtype_get(type)->size_bytes < 8) {
        snprintf(number, sizeof number, "%" PRId64, dv_int_least(type));
    } else {
        least = t->elem[LEAST];
        dv_put(text, "%s: %s = min[j] %s %s\n", least, name, left, all);
    }
    dv_put(text, "%s: f32 = 1.0 %s\n", untaken, all);
    dv_put(text, "%s: %s = 0 for %sr in 0..%" PRId64 "\n", result,
           places ? "i64" : name, t->ranges, n_top);
    dv_put(text, "repeat q in 0..%" PRId64 " {\n", n_top);
    dv_put(text, "%s: %s = max[j] %s %s\n", most, name, left, all);
    dv_put(text,
           "%s: %s = min[j] select(%s == %s && %s > 0 || %s != %s, 1.0 * j, "
           "%" PRId64 ".0) %s\n",
           place, count <= (int64_t)1 << 24 ? "f32" : "f64", left, most,
           untaken, left, left, count - 1, all);
    dv_put(text, "%s <- select(1.0 * j == %s, %s, %s) %s\n", left, place, least,
           left, all);
    dv_put(text, "%s <- select(1.0 * j == %s, 0, %s) %s\n", untaken, place,
           untaken, all);
    dv_put(text, "%s <- select(r == q, %s", result, places ? place : most);
    if (places)
        put_minus(text, -t->var->begin);
    dv_put(text, ", %s) for %sr in 0..%" PRId64 "\n}\n", result, t->ranges,
           n_top);
    text->failed |= list.failed;
    dv_text_free(&list);
}

// Sets the source positions of all nodes of generated code to that of the topk
// it replaces, so that errors point there.
static void move_node(dv_node *n, uint32_t off)
{
    if (!n)
        return;
    n->off = off;
    for (uint32_t i = 0; n->kind >= DV_NODE_ACCESS && i < n->n_args; i++)
        move_node(n->args[i], off);
}

static void move_statements(dv_stmt *s, uint32_t off)
{
    for (; s; s = s->next) {
        s->off = off;
        move_node(s->lhs, off);
        move_node(s->value, off);
        for (int i = 0; i < s->n_dims; i++)
            move_node(s->dims[i], off);
        for (int i = 0; i < s->n_ranges; i++) {
            s->ranges[i].off = off;
            move_node(s->ranges[i].begin, off);
            move_node(s->ranges[i].end, off);
        }
        move_statements(s->body, off);
    }
}

// Adds the user's ranges (`for`) of variables that are reduced inside the
// operand of topk.
static dv_status add_ranges(const top *t, dv_stmt *s)
{
    const dv_stmt *of = t->o->s;
    const dv_node *operand = t->use->node->args[0];
    dv_for *all =
        DV_NEW(&t->o->b->p->arena, dv_for, s->n_ranges + of->n_ranges);
    if (!all)
        return dv_nomem(t->o->b->diag);
    memcpy(all, s->ranges, (size_t)s->n_ranges * sizeof *all);
    s->ranges = all;
    for (int i = 0; i < of->n_ranges; i++)
        if (dv_bound_reduced(operand, of->ranges[i].name))
            all[s->n_ranges++] = of->ranges[i];
    return DV_OK;
}

static dv_status build_all(top *t)
{
    dv_builder *b = t->o->b;
    dv_text text = {0};
    dv_ast ast;
    put_operand(t, &text);
    put_repeat(t, &text);
    dv_source src = {t->name, NULL, text.len};
    src.text = keep(t, &text);
    if (!src.text)
        return dv_nomem(b->diag);
    DV_TRY(dv_parse(&ast, &src, &b->p->arena, b->diag));
    move_statements(ast.first, t->use->node->off);
    dv_stmt *operand = ast.first->next;
    operand->value = t->use->node->args[0];
    DV_TRY(add_ranges(t, operand));
    for (dv_stmt *s = ast.first; s; s = s->next)
        DV_TRY(dv_build_statement(b, s));
    return DV_OK;
}

// Makes the access to the result tensor that replaces the topk or argtopk.
static dv_status result_access(top *t, dv_node **out)
{
    dv_text text = {0};
    dv_put(&text, "%s[", t->names[TOP].at);
    for (int v = 0; v < t->o->n_vars; v++)
        if (t->use->vars >> v & 1) {
            dv_put(&text, "%s", t->o->vars[v].var.name);
            put_minus(&text, t->o->vars[v].var.begin);
            dv_put(&text, ",");
        }
    dv_put(&text, "%s]", t->rank->name);
    dv_source src = {t->name, NULL, text.len};
    src.text = keep(t, &text);
    *out = DV_NEW(&t->o->b->p->arena, dv_node, 1);
    if (!src.text || !*out)
        return dv_nomem(t->o->b->diag);
    DV_TRY(dv_parse_expr(*out, &src, &t->o->b->p->arena, t->o->b->diag));
    move_node(*out, t->use->node->off);
    return DV_OK;
}

static dv_status compute(dv_opbuild *o, const dv_node *n, dv_node **out)
{
    top t = {.o = o, .name = dv_reducer_get((dv_reducer)n->op)->text};
    for (int i = 0; i < o->n_tops; i++)
        if (o->tops[i].node == n)
            t.use = &o->tops[i];
    t.var = &o->vars[t.use->var].var;
    t.rank = &o->vars[t.use->rank].var;
    DV_TRY(check_ranges(&t));
    DV_TRY(name_tensors(&t));
    DV_TRY(build_all(&t));
    return result_access(&t, out);
}

// -- The statement without them ----------------------------------------------

// Copies a tree, with accesses in place of its topk and argtopk.
static dv_status replaced(dv_opbuild *o, const dv_node *n, dv_node **out)
{
    dv_arena *a = &o->b->p->arena;
    if (n->kind == DV_NODE_REDUCE && dv_reducer_orders(n->op))
        return compute(o, n, out);
    dv_node *copy = DV_NEW(a, dv_node, 1);
    if (!copy)
        return dv_nomem(o->b->diag);
    *copy = *n;
    *out = copy;
    if (n->kind < DV_NODE_ACCESS)
        return DV_OK;
    copy->args = DV_NEW(a, dv_node *, n->n_args);
    if (!copy->args)
        return dv_nomem(o->b->diag);
    for (uint32_t i = 0; i < n->n_args; i++)
        DV_TRY(replaced(o, n->args[i], &copy->args[i]));
    return DV_OK;
}

dv_status dv_top_replace(dv_opbuild *o)
{
    dv_stmt s = *o->s;
    if (s.is_extern)
        return dv_fail(o->b->diag, DV_E_SYNTAX,
                       dv_build_at(o->b, o->tops[0].node->off),
                       "%s cannot stand in an opaque (extern) statement",
                       dv_reducer_get((dv_reducer)o->tops[0].node->op)->text);
    o->b->quiet++;
    DV_TRY(replaced(o, s.value, &s.value));
    s.ranges = DV_NEW(&o->b->p->arena, dv_for, s.n_ranges);
    if (!s.ranges)
        return dv_nomem(o->b->diag);
    s.n_ranges = 0;
    for (int i = 0; i < o->s->n_ranges; i++) {
        const dv_for *f = &o->s->ranges[i];
        int stays = dv_bound_reduced(s.value, f->name);
        for (int v = 0; v < o->n_vars && !stays; v++)
            stays =
                !o->vars[v].var.reduce && dv_str_eq(o->vars[v].name, f->name);
        if (stays)
            s.ranges[s.n_ranges++] = *f;
    }
    DV_TRY(dv_build_op(o->b, &s));
    o->b->quiet--;
    return DV_OK;
}
