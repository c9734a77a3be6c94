// Resolves a syntax tree into a program: params (named constants),
// declarations, repeats. Assignments are resolved in build_op.c.
#include "ir/build.h"
#include "base/math.h"
#include "base/plural.h"
#include "base/suggest.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

dv_loc dv_build_at(const dv_builder *b, uint32_t off)
{
    return (dv_loc){&b->p->src, off};
}

const dv_param_value *dv_find_param(const dv_builder *b, dv_str name)
{
    int32_t i = dv_table_get(&b->param_ids, name.at, name.len, -1);
    return i < 0 ? NULL : &b->p->params[i];
}

// Value of a constant expression: an integer until a float operand occurs.
typedef struct number {
    int is_float;
    int64_t i;
    double f; // value as a double, also set for integers
} number;

static dv_status overflow(dv_builder *b, const dv_node *n)
{
    return dv_fail(b->diag, DV_E_OVERFLOW, dv_build_at(b, n->off),
                   "the value does not fit 64 bits");
}

static dv_status combine(dv_builder *b, const dv_node *n, number x, number y,
                         number *out)
{
    double f = n->op == DV_FN_ADD   ? x.f + y.f
               : n->op == DV_FN_SUB ? x.f - y.f
               : n->op == DV_FN_MUL ? x.f * y.f
                                    : x.f / y.f;
    *out = (number){.is_float = 1, .f = f};
    if (x.is_float || y.is_float)
        return DV_OK;
    out->is_float = 0;
    int fits = 1;
    if (n->op == DV_FN_ADD)
        fits = dv_add_i64(&out->i, x.i, y.i);
    else if (n->op == DV_FN_SUB)
        fits = dv_sub_i64(&out->i, x.i, y.i);
    else if (n->op == DV_FN_MUL)
        fits = dv_mul_i64(&out->i, x.i, y.i);
    else if (y.i == 0)
        return dv_fail(b->diag, DV_E_SHAPE, dv_build_at(b, n->off),
                       "%" PRId64 " is divided by 0", x.i);
    else if ((y.i == -1 && x.i == INT64_MIN) || x.i % y.i)
        return dv_fail(b->diag, DV_E_SHAPE, dv_build_at(b, n->off),
                       "%" PRId64 " / %" PRId64 " is not a whole number", x.i,
                       y.i);
    else
        out->i = x.i / y.i;
    if (!fits)
        return overflow(b, n);
    out->f = (double)out->i;
    return DV_OK;
}

static dv_status evaluate(dv_builder *b, const dv_node *n, number *out)
{
    if (n->kind == DV_NODE_INT) {
        *out = (number){.i = n->i, .f = (double)n->i};
        return DV_OK;
    }
    if (n->kind == DV_NODE_FLOAT) {
        *out = (number){.is_float = 1, .f = n->f};
        return DV_OK;
    }
    if (n->kind == DV_NODE_NAME) {
        const dv_param_value *v = dv_find_param(b, n->name);
        if (!v)
            return dv_fail(b->diag, DV_E_NAME, dv_build_at(b, n->off),
                           "there is no param %.*s", (int)n->name.len,
                           n->name.at);
        *out = (number){v->is_float, v->i, v->f};
        return DV_OK;
    }
    if (n->kind == DV_NODE_APPLY && n->op == DV_FN_NEG) {
        number x = {0};
        DV_TRY(evaluate(b, n->args[0], &x));
        *out = (number){x.is_float, 0, -x.f};
        return dv_sub_i64(&out->i, 0, x.i) ? DV_OK : overflow(b, n);
    }
    if (n->kind == DV_NODE_APPLY && n->op >= DV_FN_ADD && n->op <= DV_FN_DIV) {
        number x = {0}, y = {0};
        DV_TRY(evaluate(b, n->args[0], &x));
        DV_TRY(evaluate(b, n->args[1], &y));
        return combine(b, n, x, y, out);
    }
    return dv_fail(b->diag, DV_E_SYNTAX, dv_build_at(b, n->off),
                   "only numbers, params and + - * / can stand here");
}

dv_status dv_constant_int(dv_builder *b, const dv_node *n, int64_t *out)
{
    number x = {0};
    DV_TRY(evaluate(b, n, &x));
    if (x.is_float) {
        dv_text v = {0};
        dv_put_double(&v, x.f);
        dv_status st = dv_fail(b->diag, DV_E_DTYPE, dv_build_at(b, n->off),
                               "a whole number is needed here, this is %s",
                               v.at ? v.at : "none");
        dv_text_free(&v);
        return st;
    }
    *out = x.i;
    return DV_OK;
}

// Returns 1 or -1 if the expression is inf or -inf, otherwise 0.
static int infinity_sign(const dv_node *n)
{
    int sign = 1;
    for (; n->kind == DV_NODE_APPLY && n->op == DV_FN_NEG; n = n->args[0])
        sign = -sign;
    return n->kind == DV_NODE_INF ? sign : 0;
}

dv_status dv_constant_of_type(dv_builder *b, const dv_node *n, dv_dtype type,
                              double *out)
{
    int sign = infinity_sign(n);
    double inf = dv_reducer_get(DV_RED_MIN)->zero;
    number x = {.is_float = 1, .f = sign * inf};
    if (!sign) // 0 * inf is no value
        DV_TRY(evaluate(b, n, &x));
    if (dv_is_float(type)) {
        *out = dv_round_to(type, x.f);
        return isnan(*out) ? dv_fail(b->diag, DV_E_SHAPE,
                                     dv_build_at(b, n->off), "the value is nan")
                           : DV_OK;
    }
    if (x.is_float)
        return dv_fail(b->diag, DV_E_DTYPE, dv_build_at(b, n->off),
                       "%s takes whole numbers", dv_dtype_get(type)->name);
    int64_t most = (int64_t)1 << 53;
    if (x.i > most || x.i < -most || dv_round_to(type, x.f) != x.f)
        return dv_fail(b->diag, DV_E_OVERFLOW, dv_build_at(b, n->off),
                       "%" PRId64 " is no value of %s (whole numbers in values "
                       "go up to 2^53)",
                       x.i, dv_dtype_get(type)->name);
    *out = (double)x.i;
    return DV_OK;
}

static int is_literal(const dv_node *n)
{
    if (n->kind == DV_NODE_APPLY && n->op == DV_FN_NEG)
        n = n->args[0];
    return n->kind == DV_NODE_INT || n->kind == DV_NODE_FLOAT;
}

// Replaces *out, the default value of a param (a named constant), by the value
// given with --set.
static dv_status apply_setting(dv_builder *b, const dv_stmt *s,
                               const dv_param *given, number *out)
{
    dv_source src = {"--set", given->value, strlen(given->value)};
    dv_node n = {0};
    number was = *out;
    dv_builder alone = {.p = b->p};
    dv_status st = dv_parse_expr(&n, &src, &b->p->arena, NULL);
    if (st == DV_OK)
        st = is_literal(&n) ? evaluate(&alone, &n, out) : DV_E_SYNTAX;
    if (st == DV_E_NOMEM)
        return dv_nomem(b->diag);
    if (st != DV_OK)
        return dv_fail(b->diag, DV_E_USAGE, DV_NOWHERE, "--set %s=%s: %s",
                       given->name, given->value,
                       st == DV_E_OVERFLOW ? "the number does not fit 64 bits"
                                           : "one number is needed");
    if (out->is_float && !was.is_float)
        return dv_fail(b->diag, DV_E_USAGE, dv_build_at(b, s->off),
                       "param %s is a whole number (%" PRId64
                       "), it cannot become %s",
                       given->name, was.i, given->value);
    if (was.is_float)
        out->is_float = 1;
    return DV_OK;
}

// Replaces the default of a param statement (a named constant) in the syntax
// tree by its new value x, so that the printed program shows the value in use.
static dv_status replace_default(dv_builder *b, dv_stmt *s, number x)
{
    dv_node *n = DV_NEW(&b->p->arena, dv_node, 2);
    dv_node **arg = DV_NEW(&b->p->arena, dv_node *, 1);
    if (!n || !arg)
        return dv_nomem(b->diag);
    int negative = x.is_float ? x.f < 0 : x.i < 0;
    n[0].off = n[1].off = s->value->off;
    n[0].kind = x.is_float ? DV_NODE_FLOAT : DV_NODE_INT;
    if (x.is_float)
        n[0].f = negative ? -x.f : x.f;
    else
        // The negation cannot overflow: x.i is never INT64_MIN, because the
        // language has no literal for it.
        n[0].i = negative ? -x.i : x.i;
    n[0].depth = 1;
    arg[0] = &n[0];
    n[1].kind = DV_NODE_APPLY;
    n[1].op = DV_FN_NEG;
    n[1].n_args = 1;
    n[1].depth = 2;
    n[1].args = arg;
    s->value = &n[negative];
    return DV_OK;
}

static dv_status add_param(dv_builder *b, dv_stmt *s, const dv_param *given,
                           size_t n_given)
{
    dv_program *p = b->p;
    const dv_param_value *old = dv_find_param(b, s->name);
    if (old) {
        dv_status st = dv_fail(b->diag, DV_E_NAME, dv_build_at(b, s->off),
                               "param %s is defined twice", old->name);
        dv_note(b->diag, dv_build_at(b, old->off), "here first");
        return st;
    }
    if (dv_str_is(s->name, "inf"))
        return dv_fail(b->diag, DV_E_NAME, dv_build_at(b, s->off),
                       "inf is infinity; a param needs another name");
    number x = {0};
    DV_TRY(evaluate(b, s->value, &x));
    for (size_t i = n_given; i-- > 0;) { // the last --set of a param wins
        if (dv_str_is(s->name, given[i].name)) {
            DV_TRY(apply_setting(b, s, &given[i], &x));
            DV_TRY(replace_default(b, s, x));
            break;
        }
    }
    int32_t id = p->n_params;
    dv_param_value *v = DV_PUSH(&p->arena, dv_param_value, p->params,
                                p->n_params, p->cap_params);
    char *name = dv_arena_copy(&p->arena, s->name.at, s->name.len);
    if (!v || !name ||
        !dv_table_set(&b->param_ids, &p->arena, name, s->name.len, id))
        return dv_nomem(b->diag);
    *v = (dv_param_value){name, x.is_float, x.i, x.f, s->off};
    return DV_OK;
}

dv_status dv_build_tensor(dv_builder *b, dv_tensor t, int32_t *id)
{
    int64_t bytes;
    t.n_elems = 1;
    int fits = 1;
    for (int d = 0; d < t.n_dims; d++)
        fits = fits && dv_mul_i64(&t.n_elems, t.n_elems, t.shape[d]);
    fits = fits &&
           dv_mul_i64(&bytes, t.n_elems, dv_dtype_get(t.dtype)->size_bytes);
    if (!fits)
        return dv_fail(b->diag, DV_E_OVERFLOW, dv_build_at(b, t.off),
                       "%s has more than 2^63 - 1 bytes", t.name);
    *id = dv_program_add_tensor(b->p, &t);
    return *id < 0 ? dv_nomem(b->diag) : DV_OK;
}

static dv_status check_place(dv_builder *b, const dv_stmt *s)
{
    for (int i = 0; s->place && i < s->place->n_dims; i++) {
        int32_t d = s->place->dims[i];
        if (d >= s->n_dims)
            return dv_fail(b->diag, DV_E_SHAPE, dv_build_at(b, s->off),
                           "split(%d): %.*s has %d dimension%s, counted from 0",
                           (int)d, (int)s->name.len, s->name.at, (int)s->n_dims,
                           DV_PLURAL(s->n_dims, "", "s"));
        for (int k = 0; k < i; k++)
            if (s->place->dims[k] == d)
                return dv_fail(b->diag, DV_E_SHAPE, dv_build_at(b, s->off),
                               "split names dimension %d twice", (int)d);
    }
    return DV_OK;
}

static dv_status declare(dv_builder *b, const dv_stmt *s)
{
    dv_arena *a = &b->p->arena;
    int len = (int)s->name.len;
    int32_t old = dv_table_get(&b->p->tensor_ids, s->name.at, s->name.len, -1);
    if (old >= 0) {
        dv_status st =
            dv_fail(b->diag, DV_E_NAME, dv_build_at(b, s->off),
                    "there already is a tensor %.*s", len, s->name.at);
        dv_note(b->diag, dv_build_at(b, b->p->tensors[old].off), "here");
        return st;
    }
    if (dv_reducer_find(s->name) >= 0)
        return dv_fail(b->diag, DV_E_NAME, dv_build_at(b, s->off),
                       "%.*s is a reducer; a tensor needs another name", len,
                       s->name.at);
    if (s->n_dims > DV_MAX_DIMS)
        return dv_fail(b->diag, DV_E_LIMIT, dv_build_at(b, s->off),
                       "%.*s has %d dimension%s, at most %d are supported", len,
                       s->name.at, (int)s->n_dims,
                       DV_PLURAL(s->n_dims, "", "s"), (int)DV_MAX_DIMS);
    int64_t *shape = DV_NEW(a, int64_t, s->n_dims);
    char *name = dv_arena_copy(a, s->name.at, s->name.len);
    char *file = s->file.at ? dv_arena_copy(a, s->file.at, s->file.len) : NULL;
    if (!shape || !name || (s->file.at && !file))
        return dv_nomem(b->diag);
    for (int d = 0; d < s->n_dims; d++) {
        DV_TRY(dv_constant_int(b, s->dims[d], &shape[d]));
        if (shape[d] < 1)
            return dv_fail(b->diag, DV_E_SHAPE, dv_build_at(b, s->dims[d]->off),
                           "an extent is at least 1, this is %" PRId64,
                           shape[d]);
    }
    DV_TRY(check_place(b, s));
    if (s->memory)
        DV_TRY(dv_memory_note_check(
            s->memory[0], name, s->n_dims, shape, !s->place,
            dv_build_at(b, s->memory[0]->off), b->diag));
    int32_t id;
    int in = s->kind == DV_STMT_INPUT || s->kind == DV_STMT_CONST;
    return dv_build_tensor(
        b,
        (dv_tensor){.name = name,
                    .dtype = (dv_dtype)s->dtype,
                    .n_dims = s->n_dims,
                    .shape = shape,
                    .is_input = (uint8_t)in,
                    .is_const = s->kind == DV_STMT_CONST,
                    .is_temp = s->kind == DV_STMT_TEMP,
                    .is_defined = (uint8_t)in,
                    .place = s->place,
                    .memory = s->memory ? s->memory[0] : NULL,
                    .file = file,
                    .off = s->off},
        &id);
}

dv_status dv_build_no_tensor(dv_builder *b, dv_loc at, dv_str name)
{
    char meant[DV_SUGGESTION_BYTES];
    dv_suggestion s = {.word = name.at, .len = name.len};
    for (int i = 0; i < b->p->n_tensors; i++)
        dv_suggest(&s, b->p->tensors[i].name);
    return dv_fail(b->diag, DV_E_NAME, at, "there is no tensor %.*s%s",
                   (int)name.len, name.at, dv_suggestion_text(&s, meant));
}

// Records the memory note of an output: where it is stored on the machine. If
// the tensor is an input too, both notes must agree.
static dv_status output_memory(dv_builder *b, dv_tensor *t,
                               const dv_memory_note *m)
{
    if (!m)
        return DV_OK;
    dv_loc at = dv_build_at(b, m->off);
    if (t->memory && !dv_memory_note_equal(t->memory, m)) {
        dv_status st = dv_fail(b->diag, DV_E_SHAPE, at,
                               "%s lies elsewhere as an input", t->name);
        dv_note(b->diag, dv_build_at(b, t->memory->off), "here");
        return st;
    }
    t->memory = m;
    return dv_memory_note_check(m, t->name, t->n_dims, t->shape, !t->place, at,
                                b->diag);
}

static dv_status mark_outputs(dv_builder *b, const dv_stmt *s)
{
    for (int i = 0; i < s->n_dims; i++) {
        dv_str name = s->dims[i]->name;
        dv_loc at = dv_build_at(b, s->dims[i]->off);
        int32_t id = dv_table_get(&b->p->tensor_ids, name.at, name.len, -1);
        if (id < 0)
            return dv_build_no_tensor(b, at, name);
        if (b->p->tensors[id].is_dead)
            return dv_fail(b->diag, DV_E_NAME, at,
                           "%.*s is never computed: its repeat runs 0 times",
                           (int)name.len, name.at);
        if (b->p->tensors[id].is_const)
            return dv_fail(b->diag, DV_E_NAME, at,
                           "%.*s is a constant, it cannot be an output",
                           (int)name.len, name.at);
        if (b->p->tensors[id].is_output)
            return dv_fail(b->diag, DV_E_NAME, at,
                           "%.*s is named as an output twice", (int)name.len,
                           name.at);
        b->p->tensors[id].is_output = 1;
        DV_TRY(output_memory(b, &b->p->tensors[id],
                             s->memory ? s->memory[i] : NULL));
    }
    return DV_OK;
}

static dv_status statement(dv_builder *b, dv_stmt *s, const dv_param *given,
                           size_t n_given);

static dv_status repeat(dv_builder *b, const dv_stmt *s)
{
    dv_program *p = b->p;
    int64_t times = 0;
    dv_counter counter;
    if (s->n_ranges)
        DV_TRY(dv_counter_begin(b, s, &counter, &times));
    else
        DV_TRY(dv_constant_int(b, s->value, &times));
    if (times < 0)
        return dv_fail(b->diag, DV_E_SHAPE, dv_build_at(b, s->value->off),
                       "repeat takes 0 or more, this is %" PRId64, times);
    int32_t slot = p->n_repeats;
    dv_repeat *r =
        DV_PUSH(&p->arena, dv_repeat, p->repeats, p->n_repeats, p->cap_repeats);
    if (!r)
        return dv_nomem(b->diag);
    *r = (dv_repeat){p->n_ops, p->n_ops, times, s->off};
    int was_dead = b->in_dead_repeat;
    b->in_dead_repeat |= times == 0;
    for (dv_stmt *c = s->body; c; c = c->next) {
        if (c->kind != DV_STMT_ASSIGN && c->kind != DV_STMT_REPEAT)
            return dv_fail(b->diag, DV_E_SYNTAX, dv_build_at(b, c->off),
                           "only assignments and repeats stand in a repeat");
        DV_TRY(statement(b, c, NULL, 0));
    }
    if (p->repeats[slot].first_op == p->n_ops)
        return dv_fail(b->diag, DV_E_SYNTAX, dv_build_at(b, s->off),
                       "the repeat has nothing in it");
    if (s->n_ranges)
        DV_TRY(dv_counter_end(b, &counter));
    b->in_dead_repeat = was_dead;
    p->repeats[slot].end_op = p->n_ops;
    return DV_OK;
}

static dv_status statement(dv_builder *b, dv_stmt *s, const dv_param *given,
                           size_t n_given)
{
    switch ((dv_stmt_kind)s->kind) {
    case DV_STMT_PARAM:
        return add_param(b, s, given, n_given);
    case DV_STMT_INPUT:
    case DV_STMT_CONST:
    case DV_STMT_TEMP:
        return declare(b, s);
    case DV_STMT_OUTPUT:
        return mark_outputs(b, s);
    case DV_STMT_REPEAT:
        return repeat(b, s);
    case DV_STMT_ASSIGN:
        break;
    }
    return dv_build_op(b, s);
}

dv_status dv_build_statement(dv_builder *b, dv_stmt *s)
{
    return statement(b, s, NULL, 0);
}

// Chooses the types of tensors computed from constants alone, which have no
// type of their own: the widest float type of the inputs; for integer constants
// of a program without float inputs, the widest integer type of the inputs; f32
// if there is no such input.
static void weak_types(dv_builder *b, const dv_ast *ast)
{
    int f = -1, i = -1;
    for (const dv_stmt *s = ast->first; s; s = s->next) {
        if (s->kind != DV_STMT_INPUT && s->kind != DV_STMT_CONST)
            continue;
        dv_dtype t = (dv_dtype)s->dtype;
        int *best = dv_is_float(t) ? &f : &i;
        if (*best < 0 || dv_dtype_get(t)->size_bytes >
                             dv_dtype_get((dv_dtype)*best)->size_bytes)
            *best = (int)t;
    }
    b->float_type = f < 0 ? DV_F32 : (dv_dtype)f;
    b->int_type = f >= 0 ? (dv_dtype)f : i < 0 ? DV_F32 : (dv_dtype)i;
}

static dv_status no_param(dv_builder *b, const char *name)
{
    char meant[DV_SUGGESTION_BYTES];
    dv_suggestion s = {.word = name, .len = strlen(name), .lists = 1};
    for (int32_t i = 0; i < b->p->n_params; i++)
        dv_suggest(&s, b->p->params[i].name);
    return dv_fail(b->diag, DV_E_USAGE, (dv_loc){&b->p->src, DV_FILE},
                   "the program has no param %s to set%s", name,
                   dv_suggestion_text(&s, meant));
}

dv_status dv_program_build(dv_program *p, const dv_param *params,
                           size_t n_params, dv_diag *diag)
{
    dv_builder b = {.p = p, .diag = diag};
    weak_types(&b, &p->ast);
    for (dv_stmt *s = p->ast.first; s; s = s->next)
        DV_TRY(statement(&b, s, params, n_params));
    for (size_t i = 0; i < n_params; i++)
        if (dv_table_get(&b.param_ids, params[i].name, strlen(params[i].name),
                         -1) < 0)
            return no_param(&b, params[i].name);
    return dv_program_name_ops(p, diag);
}
