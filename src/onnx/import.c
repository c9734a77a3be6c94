// Walks the nodes of a graph: finds each operator's handler, and evaluates
// nodes whose inputs are all known by a program of their own.
#include "onnx/import.h"
#include "base/dtype.h"
#include "base/plural.h"
#include "ir/eval.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MAX_DEPTH = 16 };

static const struct operator
{
    const char *name, *domain;
    int since;
    dv_on_handler run;
    const char *inputs, *attributes; // as op.def explains
}
operators[] = {
#define DV_ON_OP(name, domain, since, handler, inputs, attributes)             \
    {name, domain, since, handler, inputs, attributes},
#include "onnx/op.def"
#undef DV_ON_OP
};

// -- Messages and attributes -------------------------------------------------

dv_status dv_on_refuse(dv_on *cx, const char *fmt, ...)
{
    char text[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return dv_fail(cx->diag, DV_E_UNSUPPORTED, (dv_loc){cx->src, DV_FILE},
                   "%s: %s", cx->label ? cx->label : "the graph", text);
}

const dv_onnx_attr *dv_on_attr(const dv_onnx_node *n, const char *name)
{
    for (int32_t i = 0; i < n->n_attrs; i++)
        if (!strcmp(n->attrs[i].name, name))
            return &n->attrs[i];
    return NULL;
}

int64_t dv_on_int(const dv_onnx_node *n, const char *name, int64_t other)
{
    const dv_onnx_attr *a = dv_on_attr(n, name);
    return a ? a->i : other;
}

double dv_on_float(const dv_onnx_node *n, const char *name, double other)
{
    const dv_onnx_attr *a = dv_on_attr(n, name);
    return a ? (double)a->f : other;
}

const char *dv_on_string(const dv_onnx_node *n, const char *name,
                         const char *other)
{
    const dv_onnx_attr *a = dv_on_attr(n, name);
    return a ? a->s : other;
}

const int64_t *dv_on_ints(const dv_onnx_node *n, const char *name, int *len)
{
    static const int64_t none;
    const dv_onnx_attr *a = dv_on_attr(n, name);
    *len = a ? (int)a->n_ints : 0;
    return !a ? NULL : a->ints ? a->ints : &none;
}

dv_on_value *dv_on_find(dv_on *cx, const char *name)
{
    int32_t i = dv_table_get(&cx->ids, name, strlen(name), -1);
    return i < 0 ? NULL : cx->values[i];
}

// Gives a value a second name.
static dv_status alias(dv_on *cx, const char *name, dv_on_value *v)
{
    dv_on_value *made = dv_on_value_new(cx, name);
    if (!made)
        return DV_E_NOMEM;
    dv_on_value old = *made;
    *made = *v;
    made->name = old.name;
    made->is_output = 0;
    made->output_name = NULL;
    return DV_OK;
}

dv_on_value *dv_on_in(dv_on *cx, const dv_onnx_node *n, int i)
{
    return i < n->n_inputs && n->inputs[i][0] ? dv_on_find(cx, n->inputs[i])
                                              : NULL;
}

int dv_on_has_out(const dv_onnx_node *n, int i)
{
    return i < n->n_outputs && n->outputs[i][0];
}

// If a value is an output of the model, marks it and gives it the name that is
// reserved for this output.
static void mark_output(dv_on *cx, dv_on_value *v)
{
    const dv_onnx_graph *g = &cx->model->graph;
    for (int32_t i = 0; i < g->n_outputs && cx->depth == 0; i++)
        if (!strcmp(g->outputs[i].name, v->name)) {
            v->is_output = 1;
            v->output_name = cx->output_names[i];
            return;
        }
}

dv_on_value *dv_on_out(dv_on *cx, const dv_onnx_node *n, int i)
{
    if (!dv_on_has_out(n, i))
        return dv_on_temp(cx, n->type);
    dv_on_value *v = dv_on_value_new(cx, n->outputs[i]);
    if (v)
        mark_output(cx, v);
    return v;
}

dv_status dv_on_need(dv_on *cx, const dv_onnx_node *n, int least)
{
    for (int i = 0; i < least; i++)
        if (!dv_on_in(cx, n, i))
            return dv_on_refuse(cx, "input %d is missing", i);
    return n->n_outputs ? DV_OK : dv_on_refuse(cx, "it has no output");
}

dv_status dv_on_norm_axis(dv_on *cx, int64_t axis, int n_dims, int *out)
{
    if (axis < -n_dims || axis >= n_dims)
        return dv_on_refuse(cx, "axis %lld of a tensor of %d dim%s",
                            (long long)axis, n_dims,
                            DV_PLURAL(n_dims, "", "s"));
    *out = (int)(axis < 0 ? axis + n_dims : axis);
    return DV_OK;
}

// -- Evaluating constants ----------------------------------------------------

// Returns whether a node can be evaluated at import: all inputs are known, not
// too large, and none is empty.
static int can_fold(dv_on *cx, const dv_onnx_node *n)
{
    int known = 0;
    for (int32_t i = 0; i < n->n_attrs; i++)
        if (n->attrs[i].g)
            return 0;
    for (int i = 0; i < n->n_inputs; i++) {
        dv_on_value *v = dv_on_in(cx, n, i);
        if (!v && n->inputs[i][0])
            return 0;
        if (!v)
            continue;
        if (!dv_on_known(v) || dv_on_count(v) > DV_ON_MAX_FOLD)
            return 0;
        known++;
    }
    return known > 0;
}

static void load_numbers(dv_number *to, const dv_on_base *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = dv_number_load(b->dtype, b->data, i);
}

// Stores the elements of a result that was computed at import. Integers keep
// all 64 bits.
static void *store_numbers(dv_on *cx, dv_dtype t, const dv_number *from,
                           int64_t n)
{
    size_t size = (size_t)dv_dtype_get(t)->size_bytes;
    char *data = dv_arena_buffer(cx->arena, (size_t)n * size + 1);
    for (int64_t i = 0; data && i < n; i++) {
        if (dv_is_float(t))
            dv_store(t, data, i, from[i].f);
        else
            memcpy(data + (size_t)i * size, &from[i].i, size);
    }
    return data;
}

static dv_status evaluate(dv_on *cx, const dv_program *p, dv_arena *arena,
                          dv_on_base **results, int n_results)
{
    dv_number **values = DV_NEW(arena, dv_number *, p->n_tensors + 1);
    dv_eval_options options = {.round = 1};
    if (!values)
        return dv_nomem(cx->diag);
    if (dv_eval_terms(p) > 256.0 * (double)DV_ON_MAX_FOLD)
        return dv_on_refuse(cx, "evaluating this constant takes too long");
    for (int32_t i = 0; i < p->n_tensors; i++) {
        values[i] = dv_arena_alloc(arena, (size_t)p->tensors[i].n_elems + 1,
                                   sizeof(dv_number));
        if (!values[i])
            return dv_nomem(cx->diag);
    }
    for (int32_t i = 0; i < cx->n_inputs; i++) {
        int32_t t = dv_program_find(p, cx->inputs[i]->name);
        if (t >= 0)
            load_numbers(values[t], cx->inputs[i], p->tensors[t].n_elems);
    }
    DV_TRY(dv_eval(p, values, &options, cx->diag));
    for (int i = 0; i < n_results; i++) {
        int32_t t = dv_program_find(p, results[i]->name);
        results[i]->data = store_numbers(cx, results[i]->dtype, values[t],
                                         p->tensors[t].n_elems);
        results[i]->name = NULL;
        if (!results[i]->data)
            return dv_nomem(cx->diag);
    }
    return DV_OK;
}

// Constant folding: completes the temporary program of a node with known inputs
// and evaluates the tensors that the node's outputs view.
static dv_status fold_outputs(dv_on *cx, const dv_onnx_node *n)
{
    dv_on_base *results[64];
    int n_results = 0;
    for (int i = 0; i < n->n_outputs && n_results < 64; i++) {
        dv_on_value *v =
            dv_on_has_out(n, i) ? dv_on_find(cx, n->outputs[i]) : NULL;
        if (!v || !v->base || v->base->data || v->base->made_in != cx->scope)
            continue;
        int seen = 0;
        for (int k = 0; k < n_results; k++)
            seen |= results[k] == v->base;
        if (seen)
            continue;
        dv_build_output(cx->build, v->base->name);
        results[n_results++] = v->base;
    }
    if (!n_results)
        return DV_OK;
    dv_program *p = NULL;
    dv_arena arena = {0};
    dv_status st = dv_build_finish(&p, cx->build, NULL, 0, cx->diag);
    if (st == DV_OK)
        st = evaluate(cx, p, &arena, results, n_results);
    dv_arena_free(&arena);
    dv_program_destroy(p);
    return st;
}

static dv_status fold(dv_on *cx, const dv_onnx_node *n, dv_on_handler run)
{
    dv_on outer = *cx;
    cx->inputs = NULL;
    cx->n_inputs = cx->cap_inputs = 0;
    cx->scope = ++cx->n_scopes;
    cx->build = dv_build_create();
    dv_status st = cx->build ? DV_OK : dv_nomem(cx->diag);
    if (st == DV_OK) {
        dv_build_label(cx->build, cx->label);
        st = run(cx, n);
    }
    if (st == DV_OK)
        st = fold_outputs(cx, n);
    dv_build_destroy(cx->build);
    cx->build = outer.build;
    cx->scope = outer.scope;
    cx->inputs = outer.inputs;
    cx->n_inputs = outer.n_inputs;
    cx->cap_inputs = outer.cap_inputs;
    return st;
}

// -- Nodes -------------------------------------------------------------------

static const char *make_label(dv_on *cx, const dv_onnx_node *n)
{
    char text[200];
    if (n->name[0])
        snprintf(text, sizeof text, "node %d, %.60s '%.100s'",
                 (int)cx->node_index, n->type, n->name);
    else
        snprintf(text, sizeof text, "node %d, %.60s", (int)cx->node_index,
                 n->type);
    return dv_arena_copy(cx->arena, text, strlen(text));
}

static const struct operator* find_operator(const dv_onnx_node *n)
{
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        if (!strcmp(operators[i].name, n->type) &&
            !strcmp(operators[i].domain, n->domain))
            return &operators[i];
    return NULL;
}

static const dv_onnx_function *find_function(dv_on *cx, const dv_onnx_node *n)
{
    for (int32_t i = 0; i < cx->model->n_functions; i++) {
        const dv_onnx_function *f = &cx->model->functions[i];
        if (!strcmp(f->name, n->type) && !strcmp(f->domain, n->domain))
            return f;
    }
    return NULL;
}

// Copies a node of a function's body: references to the function's attributes
// are replaced by those of the call.
static dv_status bind_node(dv_on *cx, dv_onnx_node *to,
                           const dv_onnx_node *from, const dv_onnx_node *call,
                           const dv_onnx_function *f)
{
    *to = *from;
    to->attrs = DV_NEW(cx->arena, dv_onnx_attr, from->n_attrs + 1);
    if (!to->attrs)
        return dv_nomem(cx->diag);
    to->n_attrs = 0;
    for (int32_t i = 0; i < from->n_attrs; i++) {
        const dv_onnx_attr *a = &from->attrs[i], *given = a;
        if (a->ref) {
            given = dv_on_attr(call, a->ref);
            for (int32_t k = 0; !given && k < f->n_defaults; k++)
                if (!strcmp(f->defaults[k].name, a->ref))
                    given = &f->defaults[k];
        }
        if (!given)
            continue;
        to->attrs[to->n_attrs] = *given;
        to->attrs[to->n_attrs++].name = a->name;
    }
    return DV_OK;
}

// Makes names inside a function's body unique by appending the number of the
// call.
static dv_status rename_all(dv_on *cx, const char **names, int32_t n,
                            const char ***out)
{
    *out = DV_NEW(cx->arena, const char *, n + 1);
    if (!*out)
        return dv_nomem(cx->diag);
    for (int32_t i = 0; i < n; i++) {
        char text[300];
        snprintf(text, sizeof text, "%.250s#%d", names[i], cx->n_calls);
        (*out)[i] =
            names[i][0] ? dv_arena_copy(cx->arena, text, strlen(text)) : "";
        if (!(*out)[i])
            return dv_nomem(cx->diag);
    }
    return DV_OK;
}

static dv_status run_node(dv_on *cx, const dv_onnx_node *n);

// Imports the body of a function that the model defines in place of its call.
static dv_status call(dv_on *cx, const dv_onnx_node *n,
                      const dv_onnx_function *f)
{
    const char **in, **out;
    if (++cx->depth > MAX_DEPTH)
        return dv_on_refuse(cx, "functions are nested too deep");
    cx->n_calls++;
    int number = cx->n_calls;
    DV_TRY(rename_all(cx, f->inputs, f->n_inputs, &in));
    DV_TRY(rename_all(cx, f->outputs, f->n_outputs, &out));
    for (int32_t i = 0; i < f->n_inputs; i++) {
        dv_on_value *v = dv_on_in(cx, n, i);
        if (v)
            DV_TRY(alias(cx, in[i], v));
    }
    for (int32_t i = 0; i < f->body.n_nodes; i++) {
        dv_onnx_node made;
        int here = cx->n_calls;
        DV_TRY(bind_node(cx, &made, &f->body.nodes[i], n, f));
        cx->n_calls = number;
        DV_TRY(rename_all(cx, made.inputs, made.n_inputs, &made.inputs));
        DV_TRY(rename_all(cx, made.outputs, made.n_outputs, &made.outputs));
        cx->n_calls = here;
        DV_TRY(run_node(cx, &made));
    }
    cx->depth--;
    for (int32_t i = 0; i < n->n_outputs && i < f->n_outputs; i++) {
        dv_on_value *v = dv_on_find(cx, out[i]);
        if (v && dv_on_has_out(n, i)) {
            DV_TRY(alias(cx, n->outputs[i], v));
            mark_output(cx, dv_on_find(cx, n->outputs[i]));
        }
    }
    return DV_OK;
}

static dv_status check_inputs(dv_on *cx, const dv_onnx_node *n)
{
    for (int32_t i = 0; i < n->n_inputs; i++)
        if (n->inputs[i][0] && !dv_on_find(cx, n->inputs[i]))
            return dv_on_refuse(cx, "there is no value '%s' before it",
                                n->inputs[i]);
    return DV_OK;
}

dv_status dv_on_refuse_u64(dv_on *cx)
{
    return dv_on_refuse(cx, "uint64 is not supported here, it would be "
                            "computed as int64; cast it to int64 before");
}

// Refuses uint64 in operators that would compute something else if it were
// treated as int64. Casts, scatters and TopK check their types themselves.
static dv_status check_u64(dv_on *cx, const dv_onnx_node *n)
{
    static const char *const differ[] = {
        "Abs",
        "ArgMax",
        "ArgMin",
        "Clip",
        "Div",
        "Greater",
        "GreaterOrEqual",
        "Less",
        "LessOrEqual",
        "Max",
        "Min",
        "Mod",
        "PRelu",
        "ReduceL1",
        "ReduceMax",
        "ReduceMin",
        "Sign",
    };
    // Only a right shift depends on signedness; a left shift gives the same
    // bits.
    int found = !strcmp(n->type, "BitShift") &&
                !strcmp(dv_on_string(n, "direction", ""), "RIGHT");
    for (size_t i = 0; i < sizeof differ / sizeof *differ; i++)
        found |= !strcmp(n->type, differ[i]);
    for (int32_t i = 0; found && i < n->n_inputs; i++) {
        const dv_on_value *v = dv_on_in(cx, n, i);
        if (v && v->dtype == DV_U64)
            return dv_on_refuse_u64(cx);
    }
    return DV_OK;
}

// Returns whether a list of words, separated by spaces, has this one.
static int has_word(const char *list, const char *word)
{
    size_t len = strlen(word);
    for (const char *at = list; len && (at = strstr(at, word)); at += len)
        if ((at == list || at[-1] == ' ') && (at[len] == ' ' || !at[len]))
            return 1;
    return 0;
}

// Fails if the node has inputs or attributes that its operator does not have in
// any opset, or if the operator is newer than the model's opset.
static dv_status check_form(dv_on *cx, const dv_onnx_node *n,
                            const struct operator* op)
{
    int most = (int)strlen(op->inputs);
    int is_open = most && op->inputs[most - 1] == '*';
    if (cx->depth == 0 && !n->domain[0] && op->since > cx->opset)
        return dv_on_refuse(cx,
                            "it is an operator of opset %d, the model's is "
                            "%lld",
                            op->since, (long long)cx->opset);
    if (!is_open && n->n_inputs > most)
        return dv_on_refuse(cx, "it has %d input%s, at most %d are expected",
                            (int)n->n_inputs, DV_PLURAL(n->n_inputs, "", "s"),
                            most);
    for (int32_t i = 0; i < n->n_attrs; i++) {
        const char *name = n->attrs[i].name;
        // Before opset 6 many operators had this attribute, which says what an
        // executor may overwrite.
        int is_old = cx->opset < 6 && !strcmp(name, "consumed_inputs");
        if (!is_old && strcmp(op->attributes, "*") &&
            !has_word(op->attributes, name))
            return dv_on_refuse(cx, "attribute '%s' is unknown", name);
    }
    return DV_OK;
}

// Fails if inputs whose types must be the same have different ones.
static dv_status check_types(dv_on *cx, const dv_onnx_node *n,
                             const struct operator* op)
{
    const dv_on_value *first[128] = {0}; // by letter
    int32_t of[128], most = (int32_t)strlen(op->inputs);
    int is_open = most && op->inputs[most - 1] == '*';
    for (int32_t i = 0; i < n->n_inputs && most > is_open; i++) {
        const dv_on_value *v = dv_on_in(cx, n, i);
        int32_t at = i < most - is_open ? i : most - is_open - 1;
        unsigned char c = (unsigned char)op->inputs[at];
        if (!v || c == '-' || c >= 128)
            continue;
        if (!first[c]) {
            first[c] = v;
            of[c] = i;
        } else if (first[c]->dtype != v->dtype) {
            return dv_on_refuse(cx,
                                "inputs %d and %d have types %s and %s, which "
                                "must be the same",
                                (int)of[c], (int)i,
                                dv_dtype_get(first[c]->dtype)->name,
                                dv_dtype_get(v->dtype)->name);
        }
    }
    return DV_OK;
}

static dv_status run_node(dv_on *cx, const dv_onnx_node *n)
{
    cx->label = make_label(cx, n);
    if (!cx->label)
        return dv_nomem(cx->diag);
    dv_build_label(cx->build, cx->label);
    const dv_onnx_function *f = find_function(cx, n);
    const struct operator* op = find_operator(n);
    if (!f && !op)
        return dv_on_refuse(cx, "operator %s%s%s is not supported", n->domain,
                            n->domain[0] ? "." : "", n->type);
    DV_TRY(check_inputs(cx, n));
    if (f)
        return call(cx, n, f);
    DV_TRY(check_form(cx, n, op));
    DV_TRY(check_types(cx, n, op));
    DV_TRY(check_u64(cx, n));
    if (cx->scope == 1 && can_fold(cx, n))
        return fold(cx, n, op->run);
    return op->run(cx, n);
}

// -- Graphs ------------------------------------------------------------------

static dv_status add_tensor(dv_on *cx, const dv_onnx_tensor *t)
{
    const void *data;
    dv_on_value *v = dv_on_find(cx, t->name);
    if (!v)
        v = dv_on_value_new(cx, t->name);
    if (!v)
        return DV_E_NOMEM;
    DV_TRY(dv_on_tensor_data(cx, &data, t));
    DV_TRY(dv_on_make(cx, v, (dv_dtype)dv_onnx_dtype(t->type),
                      t->type == DV_ONNX_BOOL, t->n_dims, t->dims, data));
    v->info = NULL;
    return DV_OK;
}

static void mark(dv_table *live, dv_on *cx, const char *name)
{
    if (name[0] && !dv_table_set(live, cx->arena, name, strlen(name), 1))
        dv_nomem(cx->diag);
}

static int is_live(const dv_table *live, const char *name)
{
    return name[0] && dv_table_get(live, name, strlen(name), -1) > 0;
}

// Marks as live the names that a subgraph, which is an attribute of a node, may
// read.
static void mark_graph(dv_table *live, dv_on *cx, const dv_onnx_graph *g)
{
    for (int32_t i = 0; i < g->n_outputs; i++)
        mark(live, cx, g->outputs[i].name);
    for (int32_t i = 0; i < g->n_nodes; i++) {
        for (int32_t k = 0; k < g->nodes[i].n_inputs; k++)
            mark(live, cx, g->nodes[i].inputs[k]);
        for (int32_t k = 0; k < g->nodes[i].n_attrs; k++)
            if (g->nodes[i].attrs[k].g)
                mark_graph(live, cx, g->nodes[i].attrs[k].g);
    }
}

// Finds the nodes on which the graph's outputs depend (liveness), from the last
// node to the first.
static unsigned char *find_live(dv_on *cx, dv_table *live,
                                const dv_onnx_graph *g)
{
    unsigned char *needed = DV_NEW(cx->arena, unsigned char, g->n_nodes + 1);
    if (!needed) {
        dv_nomem(cx->diag);
        return NULL;
    }
    for (int32_t i = 0; i < g->n_outputs; i++)
        mark(live, cx, g->outputs[i].name);
    for (int32_t i = g->n_nodes - 1; i >= 0; i--) {
        const dv_onnx_node *n = &g->nodes[i];
        for (int32_t k = 0; k < n->n_outputs; k++)
            if (is_live(live, n->outputs[k]))
                needed[i] = 1;
        for (int32_t k = 0; k < n->n_inputs && needed[i]; k++)
            mark(live, cx, n->inputs[k]);
        for (int32_t k = 0; k < n->n_attrs && needed[i]; k++)
            if (n->attrs[k].g)
                mark_graph(live, cx, n->attrs[k].g);
    }
    return needed;
}

static void count_use(dv_on *cx, const char *name, int by)
{
    int32_t n = dv_table_get(&cx->uses, name, strlen(name), 0);
    if (name[0] &&
        !dv_table_set(&cx->uses, cx->arena, name, strlen(name), n + by))
        dv_nomem(cx->diag);
}

// Counts how often each value is read; `by` is added per read. Names in
// subgraphs of nodes count twice, so that these values never have a single
// reader.
static void count_uses(dv_on *cx, const dv_onnx_graph *g, int by)
{
    for (int32_t i = 0; i < g->n_outputs; i++)
        count_use(cx, g->outputs[i].name, 2);
    for (int32_t i = 0; i < g->n_nodes; i++) {
        const dv_onnx_node *n = &g->nodes[i];
        for (int32_t k = 0; k < n->n_inputs; k++)
            count_use(cx, n->inputs[k], by);
        for (int32_t k = 0; k < n->n_attrs; k++)
            if (n->attrs[k].g)
                count_uses(cx, n->attrs[k].g, 2);
    }
}

dv_status dv_on_graph(dv_on *cx, const dv_onnx_graph *g)
{
    dv_table live = {0};
    if (cx->depth == 0)
        count_uses(cx, g, 1);
    if (g->has_sparse)
        return dv_on_refuse(cx, "sparse initializers are not supported");
    unsigned char *needed = find_live(cx, &live, g);
    if (!needed)
        return DV_E_NOMEM;
    for (int32_t i = 0; i < g->n_tensors; i++)
        if (is_live(&live, g->tensors[i].name))
            DV_TRY(add_tensor(cx, &g->tensors[i]));
    const char *label = cx->label;
    for (int32_t i = 0; i < g->n_nodes; i++) {
        if (!needed[i])
            continue;
        if (cx->depth == 0)
            cx->node_index = i;
        DV_TRY(run_node(cx, &g->nodes[i]));
    }
    cx->label = label;
    return DV_OK;
}

dv_status dv_on_subgraph(dv_on *cx, const dv_onnx_graph *g,
                         const dv_onnx_node *n)
{
    if (g->n_outputs < n->n_outputs)
        return dv_on_refuse(cx, "a branch has too few outputs");
    if (++cx->depth > MAX_DEPTH)
        return dv_on_refuse(cx, "graphs are nested too deep");
    DV_TRY(dv_on_graph(cx, g));
    cx->depth--;
    for (int32_t i = 0; i < n->n_outputs; i++) {
        dv_on_value *v = dv_on_find(cx, g->outputs[i].name);
        if (!v)
            return dv_on_refuse(cx, "there is no value '%s'",
                                g->outputs[i].name);
        if (!dv_on_has_out(n, i))
            continue;
        DV_TRY(alias(cx, n->outputs[i], v));
        mark_output(cx, dv_on_find(cx, n->outputs[i]));
    }
    return DV_OK;
}
