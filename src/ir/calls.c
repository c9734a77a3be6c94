// Builds programs by calls (divvy/build.h). Terms are nodes of a syntax tree
// and statements a list of them. dv_build_finish prints the tree, with every
// statement's label as the comment of its line, and parses the text, so that
// what is built is what can be written. Messages show the label, which base/
// diag.c finds in the comment.
#include "divvy/build.h"
#include "base/file.h"
#include "base/math.h"
#include "base/options.h"
#include "base/dtype.h"
#include "base/plural.h"
#include "ir/program.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

// An expression, and the builder that made it.
typedef struct term {
    dv_node node; // the first member, so that a dv_term points to a term
    const dv_build *owner;
    // An upper bound on the length of the term when it is printed. It is
    // limited: terms can share parts, so that few calls can make a very long
    // text.
    int64_t text_bytes;
} term;

// A list of statements to which calls append: the program's, or that of a
// repeat that is not closed yet.
typedef struct block {
    dv_stmt *repeat; // NULL: the program
    dv_stmt *last;
    const char *label; // of the repeat
    struct block *outer;
} block;

struct dv_build {
    dv_arena arena;
    dv_ast ast;
    block *open;
    int depth; // number of repeats that are open
    // Labels of the lines of the printed program; NULL: none.
    const char **labels;
    int32_t n_labels, cap_labels;
    const char *label;  // of the next statement
    int64_t text_bytes; // upper bound on the length of the printed program
    dv_status status;   // the first error, and its message and label
    char message[256];
    const char *failed_label;
};

// Records the first error. Returns NULL, so that a call that fails can return
// it as its term.
__attribute__((format(printf, 3, 4))) static dv_term
refuse(dv_build *b, dv_status st, const char *fmt, ...)
{
    if (!b || b->status != DV_OK)
        return NULL;
    b->status = st;
    b->failed_label = b->label;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(b->message, sizeof b->message, fmt, ap);
    va_end(ap);
    return NULL;
}

static dv_term no_memory(dv_build *b)
{
    return refuse(b, DV_E_NOMEM, "out of memory");
}

static int works(const dv_build *b)
{
    return b && b->status == DV_OK;
}

dv_build *dv_build_create(void)
{
    dv_build *b = dv_alloc(sizeof *b);
    if (!b)
        return NULL;
    memset(b, 0, sizeof *b);
    b->open = DV_NEW(&b->arena, block, 1);
    if (b->open)
        return b;
    dv_build_destroy(b);
    return NULL;
}

void dv_build_destroy(dv_build *b)
{
    if (!b)
        return;
    dv_arena_free(&b->arena);
    dv_release(b);
}

void dv_build_label(dv_build *b, const char *label)
{
    if (!works(b))
        return;
    b->label = NULL;
    if (!label)
        return;
    char *copy = dv_arena_copy(&b->arena, label, strlen(label));
    if (!copy) {
        no_memory(b);
        return;
    }
    // The label is printed as a comment, which a line break would end.
    for (char *c = copy; *c; c++)
        if ((unsigned char)*c < 32)
            *c = ' ';
    b->label = copy;
    if (!dv_add_i64(&b->text_bytes, b->text_bytes, (int64_t)strlen(copy)))
        b->text_bytes = INT64_MAX;
}

// -- Names -------------------------------------------------------------------

static int is_name(const char *s)
{
    size_t i = 0;
    for (; s[i]; i++) {
        int letter = (s[i] >= 'a' && s[i] <= 'z') ||
                     (s[i] >= 'A' && s[i] <= 'Z') || s[i] == '_';
        if (!letter && (i == 0 || s[i] < '0' || s[i] > '9'))
            return 0;
    }
    return i > 0;
}

// Copies a name into *out. If it is no valid name in the language, records an
// error and returns 0.
static int take_name(dv_build *b, const char *what, const char *name,
                     dv_str *out)
{
    if (!works(b))
        return 0;
    if (!name || !is_name(name)) {
        refuse(b, DV_E_NAME,
               "%s: '%.60s' is no name; a name has letters, digits and _, "
               "and does not begin with a digit",
               what, name ? name : "");
        return 0;
    }
    *out = (dv_str){name, (uint32_t)strlen(name)};
    if (strlen(name) > (size_t)DV_MAX_TEXT_BYTES) {
        refuse(b, DV_E_LIMIT, "%s: the name is too long", what);
        return 0;
    }
    out->at = dv_arena_copy(&b->arena, name, out->len);
    if (!out->at)
        no_memory(b);
    return out->at != NULL;
}

// -- Expressions -------------------------------------------------------------

static dv_node *node_of(dv_term t)
{
    // The cast may remove const: this builder allocated the term; only callers
    // must not modify it.
    return (dv_node *)(uintptr_t)t;
}

static const term *term_of(dv_term t)
{
    return (const term *)(const void *)t;
}

static term *new_term(dv_build *b, dv_node_kind kind)
{
    term *t = DV_NEW(&b->arena, term, 1);
    if (!t) {
        no_memory(b);
        return NULL;
    }
    t->node.kind = (uint8_t)kind;
    t->node.depth = 1;
    t->owner = b;
    t->text_bytes = 32; // a number, or operator, blanks and parentheses
    return t;
}

// Returns whether all terms exist and belong to this builder. `what` is the
// subject of the error message.
static int usable(dv_build *b, const char *what, int n, const dv_term *terms)
{
    if (!works(b))
        return 0;
    if (n < 0 || (n > 0 && !terms)) {
        refuse(b, DV_E_USAGE, "%s: %d terms without memory", what, n);
        return 0;
    }
    for (int i = 0; i < n; i++)
        if (!terms[i] || term_of(terms[i])->owner != b) {
            refuse(b, DV_E_USAGE, "%s: term %d is %s", what, i,
                   terms[i] ? "of another builder" : "NULL");
            return 0;
        }
    return 1;
}

// Sets the arguments of a term from a copy of the array. Returns NULL if that
// makes the term too deep or too long.
static dv_term set_args(dv_build *b, term *t, int n, const dv_term *args)
{
    t->node.args = DV_NEW(&b->arena, dv_node *, n);
    if (!t->node.args)
        return no_memory(b);
    t->node.n_args = (uint32_t)n;
    for (int i = 0; i < n; i++) {
        t->node.args[i] = node_of(args[i]);
        if (args[i]->depth >= t->node.depth)
            t->node.depth = (uint16_t)(args[i]->depth + 1);
        t->text_bytes += term_of(args[i])->text_bytes;
        if (t->text_bytes > DV_MAX_TEXT_BYTES)
            return refuse(b, DV_E_LIMIT,
                          "the expression has more than %d MiB of text; name "
                          "a part of it first",
                          (int)(DV_MAX_TEXT_BYTES >> 20));
    }
    if (t->node.depth > DV_MAX_DEPTH)
        return refuse(b, DV_E_LIMIT,
                      "an expression of more than %d levels; name a part of "
                      "it first",
                      (int)DV_MAX_DEPTH);
    return &t->node;
}

static dv_term negate(dv_build *b, dv_term x)
{
    term *t = x ? new_term(b, DV_NODE_APPLY) : NULL;
    if (!t)
        return NULL;
    t->node.op = DV_FN_NEG;
    return set_args(b, t, 1, &x);
}

dv_term dv_build_int(dv_build *b, int64_t value)
{
    if (!works(b))
        return NULL;
    if (value == INT64_MIN)
        return refuse(b, DV_E_OVERFLOW, "the number is below -(2^63 - 1)");
    term *t = new_term(b, DV_NODE_INT);
    if (!t)
        return NULL;
    // The language has no negative literals, only a negation.
    t->node.i = value < 0 ? -value : value;
    return value < 0 ? negate(b, &t->node) : &t->node;
}

dv_term dv_build_float(dv_build *b, double value)
{
    if (!works(b))
        return NULL;
    if (isnan(value))
        return refuse(b, DV_E_USAGE, "nan is no number of the language");
    term *t = new_term(b, isinf(value) ? DV_NODE_INF : DV_NODE_FLOAT);
    if (!t)
        return NULL;
    if (!isinf(value))
        t->node.f = fabs(value);
    return signbit(value) ? negate(b, &t->node) : &t->node;
}

dv_term dv_build_name(dv_build *b, const char *name)
{
    dv_str s;
    term *t = take_name(b, "dv_build_name", name, &s)
                  ? new_term(b, DV_NODE_NAME)
                  : NULL;
    if (!t)
        return NULL;
    if (dv_str_is(s, "inf"))
        return refuse(b, DV_E_NAME,
                      "inf is infinity; a variable and a param "
                      "need another name");
    t->node.name = s;
    t->text_bytes += s.len;
    return &t->node;
}

dv_term dv_build_access(dv_build *b, const char *tensor, int n,
                        const dv_term *index)
{
    dv_str s;
    if (!take_name(b, "dv_build_access", tensor, &s) ||
        !usable(b, tensor, n, index))
        return NULL;
    if (dv_reducer_find(s) >= 0) // it would be read as the reducer
        return refuse(b, DV_E_NAME,
                      "%s is a reducer; a tensor needs another name", tensor);
    term *t = new_term(b, DV_NODE_ACCESS);
    if (!t)
        return NULL;
    t->node.name = s;
    t->text_bytes += s.len;
    return set_args(b, t, n, index);
}

dv_term dv_build_access_else(dv_build *b, const char *tensor, int n,
                             const dv_term *index, dv_term outside)
{
    dv_term args[] = {dv_build_access(b, tensor, n, index), outside};
    if (!usable(b, "dv_build_access_else", 2, args))
        return NULL;
    term *t = new_term(b, DV_NODE_ELSE);
    return t ? set_args(b, t, 2, args) : NULL;
}

// Finds a function or an operator with n arguments. If there is none, returns
// -1 and sets *takes to the number that this function needs (0: no such
// function).
static int find_function(const char *name, int n, int *takes)
{
    *takes = 0;
    for (int i = 0; i < dv_n_fns(); i++) {
        const dv_fn_info *f = dv_fn_get((dv_fn)i);
        if (strcmp(f->text, name) != 0)
            continue;
        if (f->n_args == n)
            return i;
        *takes = f->n_args;
    }
    return -1;
}

dv_term dv_build_apply(dv_build *b, const char *function, int n,
                       const dv_term *args)
{
    int takes;
    if (!works(b))
        return NULL;
    if (!function)
        return refuse(b, DV_E_USAGE, "dv_build_apply: the function is NULL");
    int fn = find_function(function, n, &takes);
    if (fn < 0 && takes)
        return refuse(b, DV_E_USAGE, "%s takes %d argument%s, here are %d",
                      function, takes, DV_PLURAL(takes, "", "s"), n);
    if (fn < 0)
        return refuse(b, DV_E_NAME, "there is no function %.60s", function);
    if (!usable(b, function, n, args))
        return NULL;
    term *t = new_term(b, DV_NODE_APPLY);
    if (!t)
        return NULL;
    t->node.op = (uint8_t)fn;
    return set_args(b, t, n, args);
}

// Finds a reducer (such as sum) that can have n variables. If there is none,
// records an error and returns -1.
static int find_reducer(dv_build *b, const char *reducer, int n,
                        const void *vars)
{
    size_t len = reducer ? strlen(reducer) : 0;
    dv_str s = {reducer, (uint32_t)(len < 99 ? len : 99)};
    int red = len ? dv_reducer_find(s) : -1;
    if (red < 0)
        refuse(b, DV_E_NAME, "there is no reducer %.60s",
               reducer ? reducer : "");
    else if (n < 1 || n > DV_MAX_VARS || !vars)
        refuse(b, DV_E_USAGE,
               "%s needs 1 to %d variables to reduce over, here are %d",
               reducer, (int)DV_MAX_VARS, n);
    return works(b) ? red : -1;
}

dv_term dv_build_reduce_over(dv_build *b, const char *reducer, dv_term body,
                             int n, const dv_term *over)
{
    if (!usable(b, "dv_build_reduce_over", 1, &body))
        return NULL;
    int red = find_reducer(b, reducer, n, over);
    if (red < 0 || !usable(b, reducer, n, over))
        return NULL;
    dv_term args[DV_MAX_VARS + 1] = {body};
    for (int i = 0; i < n; i++) {
        args[i + 1] = over[i];
        int compares =
            over[i]->kind == DV_NODE_APPLY && over[i]->op <= DV_FN_NE;
        dv_term name = compares ? over[i]->args[0] : over[i];
        if (name->kind != DV_NODE_NAME)
            return refuse(b, DV_E_USAGE,
                          "%s: term %d is no name, nor the comparison of one "
                          "with its bound",
                          reducer, i);
    }
    term *t = new_term(b, DV_NODE_REDUCE);
    if (!t)
        return NULL;
    t->node.op = (uint8_t)red;
    return set_args(b, t, n + 1, args);
}

dv_term dv_build_reduce(dv_build *b, const char *reducer, dv_term body, int n,
                        const char *const *vars)
{
    dv_term over[DV_MAX_VARS];
    if (!works(b) || find_reducer(b, reducer, n, vars) < 0)
        return NULL;
    for (int i = 0; i < n; i++)
        if (!(over[i] = dv_build_name(b, vars[i])))
            return NULL;
    return dv_build_reduce_over(b, reducer, body, n, over);
}

// -- Statements --------------------------------------------------------------

static void push_label(dv_build *b, const char *label)
{
    const char **slot =
        DV_PUSH(&b->arena, const char *, b->labels, b->n_labels, b->cap_labels);
    if (slot)
        *slot = label;
    else
        no_memory(b);
}

// Appends a statement to the open block. `text_bytes` bounds the length of its
// terms when printed.
static dv_stmt *add(dv_build *b, dv_stmt_kind kind, int64_t text_bytes)
{
    dv_stmt *s = DV_NEW(&b->arena, dv_stmt, 1);
    if (!s) {
        no_memory(b);
        return NULL;
    }
    b->text_bytes += text_bytes + 64 + 4 * b->depth;
    if (b->text_bytes > DV_MAX_TEXT_BYTES) {
        refuse(b, DV_E_LIMIT, "the program has more than %d MiB of text",
               (int)(DV_MAX_TEXT_BYTES >> 20));
        return NULL;
    }
    s->kind = (uint8_t)kind;
    s->dtype = -1;
    block *in = b->open;
    if (in->last)
        in->last->next = s;
    else if (in->repeat)
        in->repeat->body = s;
    else
        b->ast.first = s;
    in->last = s;
    push_label(b, b->label);
    return s;
}

void dv_build_param(dv_build *b, const char *name, dv_term value)
{
    dv_str s;
    if (!take_name(b, "dv_build_param", name, &s) ||
        !usable(b, name, 1, &value))
        return;
    dv_stmt *st = add(b, DV_STMT_PARAM, term_of(value)->text_bytes + s.len);
    if (!st)
        return;
    st->name = s;
    st->value = node_of(value);
}

// Appends an input or a temporary; returns NULL if that fails.
static dv_stmt *declare(dv_build *b, dv_stmt_kind kind, const char *what,
                        const char *name, dv_dtype dtype, int n_dims,
                        const dv_term *dims)
{
    dv_str s;
    if (!take_name(b, what, name, &s) || !usable(b, name, n_dims, dims))
        return NULL;
    if ((unsigned)dtype >= DV_N_DTYPES) {
        refuse(b, DV_E_DTYPE, "%s: there is no type %d", name, (int)dtype);
        return NULL;
    }
    dv_node **list = DV_NEW(&b->arena, dv_node *, n_dims);
    if (!list) {
        no_memory(b);
        return NULL;
    }
    int64_t bytes = s.len;
    for (int i = 0; i < n_dims; i++) {
        list[i] = node_of(dims[i]);
        bytes += term_of(dims[i])->text_bytes;
    }
    dv_stmt *st = add(b, kind, bytes);
    if (!st)
        return NULL;
    st->name = s;
    st->dtype = (int8_t)dtype;
    st->dims = list;
    st->n_dims = n_dims;
    return st;
}

void dv_build_input(dv_build *b, const char *name, dv_dtype dtype, int n_dims,
                    const dv_term *dims)
{
    declare(b, DV_STMT_INPUT, "dv_build_input", name, dtype, n_dims, dims);
}

// Gives the statement `s`, which declares `name`, a preference for the
// distribution over processes.
static void take_placement(dv_build *b, dv_stmt *s, const char *name,
                           int n_split, const int *split)
{
    dv_placement_request *p = DV_NEW(&b->arena, dv_placement_request, 1);
    if (!p) {
        no_memory(b);
        return;
    }
    int most = (int)(sizeof p->dims / sizeof *p->dims);
    if (n_split < 0 || n_split > most || (n_split && !split)) {
        refuse(b, DV_E_LIMIT,
               "%s: split takes up to %d dimensions, here are %d", name, most,
               n_split);
        return;
    }
    p->kind = n_split ? DV_PLACE_SPLIT : DV_PLACE_REPLICATE;
    p->n_dims = n_split;
    for (int i = 0; i < n_split; i++) {
        if (split[i] < 0 || split[i] >= s->n_dims) {
            refuse(b, DV_E_SHAPE,
                   "split(%d): %s has %d dimension%s, counted from 0", split[i],
                   name, s->n_dims, DV_PLURAL(s->n_dims, "", "s"));
            return;
        }
        p->dims[i] = split[i];
    }
    s->place = p;
}

void dv_build_input_at(dv_build *b, const char *name, dv_dtype dtype,
                       int n_dims, const dv_term *dims, int n_split,
                       const int *split)
{
    dv_stmt *s = declare(b, DV_STMT_INPUT, "dv_build_input_at", name, dtype,
                         n_dims, dims);
    if (s)
        take_placement(b, s, name, n_split, split);
}

// Copies the name of a constant's file. Returns 0 if it cannot be written as a
// string in the text of a program.
static int take_file(dv_build *b, const char *name, const char *file,
                     dv_str *out)
{
    size_t len = strlen(file);
    if (!works(b))
        return 0;
    if (!len || len > DV_MAX_TEXT_BYTES || strpbrk(file, "\"\n")) {
        refuse(b, DV_E_USAGE,
               "%s: the name of its file is empty, too long or has a quote or "
               "a line break",
               name);
        return 0;
    }
    *out = (dv_str){dv_arena_copy(&b->arena, file, len), (uint32_t)len};
    if (!out->at)
        no_memory(b);
    return out->at != NULL;
}

void dv_build_const(dv_build *b, const char *name, dv_dtype dtype, int n_dims,
                    const dv_term *dims, const char *file)
{
    dv_stmt *s =
        declare(b, DV_STMT_CONST, "dv_build_const", name, dtype, n_dims, dims);
    if (s && file)
        take_file(b, name, file, &s->file);
}

void dv_build_const_at(dv_build *b, const char *name, dv_dtype dtype,
                       int n_dims, const dv_term *dims, const char *file,
                       int n_split, const int *split)
{
    dv_stmt *s = declare(b, DV_STMT_CONST, "dv_build_const_at", name, dtype,
                         n_dims, dims);
    if (!s || (file && !take_file(b, name, file, &s->file)))
        return;
    take_placement(b, s, name, n_split, split);
}

void dv_build_temp(dv_build *b, const char *name, dv_dtype dtype, int n_dims,
                   const dv_term *dims)
{
    declare(b, DV_STMT_TEMP, "dv_build_temp", name, dtype, n_dims, dims);
}

void dv_build_output(dv_build *b, const char *name)
{
    dv_str s;
    if (!take_name(b, "dv_build_output", name, &s))
        return;
    dv_node **list = DV_NEW(&b->arena, dv_node *, 1);
    term *t = new_term(b, DV_NODE_NAME);
    dv_stmt *st = list && t ? add(b, DV_STMT_OUTPUT, s.len) : NULL;
    if (!st) {
        no_memory(b);
        return;
    }
    t->node.name = s;
    list[0] = &t->node;
    st->dims = list;
    st->n_dims = 1;
}

// Returns where to store the memory note of the input, constant or output
// `name`; NULL, and records an error, if there is none.
static const dv_memory_note **memory_slot(dv_build *b, const char *name)
{
    dv_stmt *found = NULL;
    for (dv_stmt *s = b->ast.first; s; s = s->next) {
        int out = s->kind == DV_STMT_OUTPUT;
        if ((out || s->kind == DV_STMT_INPUT || s->kind == DV_STMT_CONST) &&
            dv_str_is(out ? s->dims[0]->name : s->name, name))
            found = s;
    }
    if (!found)
        refuse(b, DV_E_NAME,
               "dv_build_memory: %s is no input, constant or output", name);
    if (!found)
        return NULL;
    found->memory = DV_NEW(&b->arena, const dv_memory_note *, 1);
    if (!found->memory)
        no_memory(b);
    return found->memory;
}

void dv_build_memory(dv_build *b, const char *name, const char *memory)
{
    dv_str s;
    if (!take_name(b, "dv_build_memory", name, &s))
        return;
    dv_memory_note *m = DV_NEW(&b->arena, dv_memory_note, 1);
    dv_diag *own = dv_diag_create();
    const dv_memory_note **slot = memory_slot(b, name);
    if (!m || !own)
        no_memory(b);
    else if (slot && dv_memory_note_parse(m, memory ? memory : "", own))
        refuse(b, DV_E_SYNTAX, "dv_build_memory: %s: %s", name,
               dv_diag_error(own)->text);
    else if (slot)
        *slot = m;
    b->text_bytes += 100;
    dv_diag_destroy(own);
}

// Copies a range into *out and adds the length of its text to *bytes.
static int copy_range(dv_build *b, const dv_build_range *r, const char *what,
                      dv_for *out, int64_t *bytes)
{
    dv_term ends[] = {r->begin, r->end};
    if (!take_name(b, what, r->name, &out->name) ||
        !usable(b, r->name, 2, ends))
        return 0;
    out->begin = node_of(r->begin);
    out->end = node_of(r->end);
    *bytes += out->name.len + term_of(r->begin)->text_bytes +
              term_of(r->end)->text_bytes;
    return 1;
}

// Copies the ranges of an assignment into *out and adds the length of their
// text to *bytes.
static int copy_ranges(dv_build *b, const dv_build_assign_options *o,
                       dv_for **out, int64_t *bytes)
{
    if (o->n_ranges > DV_MAX_VARS || (o->n_ranges && !o->ranges)) {
        refuse(b, DV_E_LIMIT, "an assignment has up to %d ranges, here are %zu",
               (int)DV_MAX_VARS, o->n_ranges);
        return 0;
    }
    *out = DV_NEW(&b->arena, dv_for, o->n_ranges);
    if (!*out) {
        no_memory(b);
        return 0;
    }
    for (size_t i = 0; i < o->n_ranges; i++)
        if (!copy_range(b, &o->ranges[i], "a range", &(*out)[i], bytes))
            return 0;
    return 1;
}

// Reads the options of an assignment. If one is wrong, records an error and
// returns 0.
static int read_options(dv_build *b, dv_build_assign_options *o,
                        const dv_build_assign_options *given)
{
    dv_diag *diag = given ? dv_diag_create() : NULL;
    dv_status st =
        dv_options_read(o, sizeof *o, given, "dv_build_assign_options", diag);
    if (st != DV_OK)
        refuse(b, st, "%s",
               dv_diag_error(diag) ? dv_diag_error(diag)->text
                                   : "wrong dv_build_assign_options");
    else if (o->dtype < -1 || o->dtype >= DV_N_DTYPES)
        refuse(b, DV_E_DTYPE, "there is no type %d", o->dtype);
    else if ((o->update | o->is_extern) & ~1)
        refuse(b, DV_E_USAGE,
               "update is %d and is_extern %d; 0 and 1 are meant", o->update,
               o->is_extern);
    dv_diag_destroy(diag);
    return works(b);
}

void dv_build_assign(dv_build *b, dv_term left, dv_term value,
                     const dv_build_assign_options *options)
{
    dv_build_assign_options o = DV_BUILD_ASSIGN_OPTIONS_INIT;
    dv_term both[] = {left, value};
    dv_for *ranges;
    if (!usable(b, "dv_build_assign", 2, both) || !read_options(b, &o, options))
        return;
    if (left->kind != DV_NODE_ACCESS) {
        refuse(b, DV_E_USAGE, "dv_build_assign: the left side is no access");
        return;
    }
    int64_t bytes = term_of(left)->text_bytes + term_of(value)->text_bytes;
    if (!copy_ranges(b, &o, &ranges, &bytes))
        return;
    dv_stmt *s = add(b, DV_STMT_ASSIGN, bytes);
    if (!s)
        return;
    s->update = (uint8_t)o.update;
    s->is_extern = (uint8_t)o.is_extern;
    s->dtype = (int8_t)o.dtype;
    s->name = left->name;
    s->lhs = node_of(left);
    s->value = node_of(value);
    s->ranges = ranges;
    s->n_ranges = (int32_t)o.n_ranges;
}

// Opens a repeat loop whose first line has `text_bytes` bytes. Returns NULL
// after an error.
static dv_stmt *open_repeat(dv_build *b, int64_t text_bytes)
{
    if (b->depth == DV_MAX_NESTING) {
        refuse(b, DV_E_LIMIT, "nested deeper than %d levels",
               (int)DV_MAX_NESTING);
        return NULL;
    }
    dv_stmt *s = add(b, DV_STMT_REPEAT, text_bytes);
    block *in = DV_NEW(&b->arena, block, 1);
    if (!s || !in) {
        no_memory(b);
        return NULL;
    }
    *in = (block){.repeat = s, .label = b->label, .outer = b->open};
    b->open = in;
    b->depth++;
    return s;
}

void dv_build_repeat(dv_build *b, dv_term times)
{
    if (!usable(b, "dv_build_repeat", 1, &times))
        return;
    dv_stmt *s = open_repeat(b, term_of(times)->text_bytes);
    if (s)
        s->value = node_of(times);
}

void dv_build_count(dv_build *b, const char *counter, dv_term begin,
                    dv_term end)
{
    dv_term ends[] = {begin, end};
    const dv_build_range range = {counter, begin, end};
    int64_t bytes = 0;
    if (!usable(b, "dv_build_count", 2, ends))
        return;
    dv_for *f = DV_NEW(&b->arena, dv_for, 1);
    if (!f) {
        no_memory(b);
        return;
    }
    if (!copy_range(b, &range, "a counter", f, &bytes))
        return;
    dv_stmt *s = open_repeat(b, bytes);
    if (s) {
        s->ranges = f;
        s->n_ranges = 1;
    }
}

void dv_build_end(dv_build *b)
{
    if (!works(b))
        return;
    if (!b->depth) {
        refuse(b, DV_E_USAGE, "dv_build_end: no repeat is open");
        return;
    }
    push_label(b, b->label); // of the line with the brace
    b->open = b->open->outer;
    b->depth--;
}

// -- The program -------------------------------------------------------------

// Prints the program with its labels as comments.
static int print(dv_text *out, const dv_build *b)
{
    dv_text bare = {0};
    dv_ast_print(&bare, &b->ast);
    const char *line = bare.at ? bare.at : "";
    for (int32_t i = 0; i < b->n_labels && *line; i++) {
        size_t len = strcspn(line, "\n");
        dv_put_bytes(out, line, len);
        if (b->labels[i])
            dv_put(out, "  # %s", b->labels[i]);
        dv_put(out, "\n");
        line += len + 1;
    }
    int ok = !bare.failed && !out->failed;
    dv_text_free(&bare);
    return ok;
}

dv_status dv_build_finish(dv_program **out, dv_build *b, const dv_param *params,
                          size_t n_params, dv_diag *diag)
{
    if (!b || b->status == DV_E_NOMEM)
        return dv_nomem(diag);
    int is_open = works(b) && b->depth;
    const char *label = is_open ? b->open->label : b->failed_label;
    dv_source src = {label ? label : DV_BUILT_NAME, "", 0};
    if (is_open)
        return dv_fail(diag, DV_E_USAGE, (dv_loc){&src, DV_FILE},
                       "dv_build_finish: %d repeat%s not ended; call "
                       "dv_build_end",
                       b->depth, DV_PLURAL(b->depth, " is", "s are"));
    if (b->status != DV_OK)
        return dv_fail(diag, b->status, (dv_loc){&src, DV_FILE}, "%s",
                       b->message);
    dv_text text = {0};
    dv_status st = print(&text, b) ? DV_OK : dv_nomem(diag);
    if (st == DV_OK)
        st = dv_program_parse(out, text.at ? text.at : "", text.len,
                              DV_BUILT_NAME, params, n_params, diag);
    dv_text_free(&text);
    return st;
}
