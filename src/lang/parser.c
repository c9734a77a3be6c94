// Recursive-descent parser; each function is named after the rule it parses.
//
//   program   = { statement }
//   statement = param NAME = expr
//             | input NAME : type { @ note }      | temp NAME : type
//             | const NAME : type { @ note } [ = STRING ]
//             | output NAME [ @ memory ] { , NAME [ @ memory ] }
//             | repeat ( expr | range ) { program }
//             | [ extern ] access [ : DTYPE ] ( = | <- ) expr [ for ranges ]
//   type      = DTYPE [ "[" [ expr { , expr } ] "]" ]
//   note      = replicate | split ( INT { , INT } ) | memory
//   memory    = ( dram | l1 ) "(" ( interleaved | sharded SIZE [ on SIZE ]
//               ( rows | cols ) ) ")"             SIZE as 64x64, see memory.c
//   ranges    = NAME in expr .. expr { , NAME in expr .. expr }
//   access    = NAME "[" [ expr { , expr } ] "]"
//   expr      = term { OPERATOR term }      by precedence, see lang/op.def
//   term      = factor { ( * | / ) factor }
//   factor    = ( - | ! | ~ ) factor | ( expr ) | NUMBER | inf | NAME
//             | access [ else factor ] | FUNCTION ( expr { , expr } )
//             | REDUCER "[" reduced { , reduced } "]" term
//   reduced   = NAME [ ( < | <= | > | >= | == | != ) expr ]
//
// Line breaks are not significant: a statement ends where the next word cannot
// continue it. Keywords are not reserved; a word is a keyword only in the
// position of one.
#include "lang/ast.h"
#include "base/dtype.h"
#include "base/plural.h"
#include "base/suggest.h"
#include "lang/lexer.h"
#include <string.h>

typedef struct parser {
    dv_lexer *lx;
    dv_arena *arena;
    int nesting;
    // Name of the last reducer (such as sum) that was not followed by variables
    // in brackets. An error message suggests that these are missing; the name
    // may also be meant as a param.
    dv_str bare;
    // Name of the tensor that was read last. It may be a misspelt reducer, if
    // what follows is not a statement.
    dv_str last_read;
} parser;

// The words that begin a statement.
static const struct {
    const char *word;
    dv_stmt_kind kind;
} keywords[] = {{"param", DV_STMT_PARAM},   {"input", DV_STMT_INPUT},
                {"const", DV_STMT_CONST},   {"temp", DV_STMT_TEMP},
                {"output", DV_STMT_OUTPUT}, {"repeat", DV_STMT_REPEAT},
                {"extern", DV_STMT_ASSIGN}};
enum { N_KEYWORDS = (int)(sizeof keywords / sizeof *keywords) };

static dv_status parse_expr(parser *p, dv_node **out);
static dv_status parse_term(parser *p, dv_node **out);

static dv_str text_of(const parser *p)
{
    return (dv_str){p->lx->src->text + p->lx->tok.off, p->lx->tok.len};
}

static int at(const parser *p, int32_t kind)
{
    return p->lx->tok.kind == kind;
}

static dv_status name(parser *p, dv_str *out, const char *what)
{
    if (!at(p, DV_TOK_NAME))
        return dv_lex_expected(p->lx, what);
    *out = text_of(p);
    return dv_lex(p->lx);
}

static dv_status enter(parser *p)
{
    if (p->nesting++ < DV_MAX_NESTING)
        return DV_OK;
    return dv_fail(p->lx->diag, DV_E_LIMIT, dv_lex_at(p->lx),
                   "nested deeper than %d levels", (int)DV_MAX_NESTING);
}

static dv_status new_node(parser *p, dv_node **out, dv_node_kind kind,
                          uint32_t off)
{
    dv_node *n = DV_NEW(p->arena, dv_node, 1);
    if (!n)
        return dv_nomem(p->lx->diag);
    n->kind = (uint8_t)kind;
    n->off = off;
    n->depth = 1;
    *out = n;
    return DV_OK;
}

// Sets a node's arguments (the array is copied) and its depth.
static dv_status set_args(parser *p, dv_node *n, dv_node *const *args,
                          uint32_t n_args)
{
    n->args = DV_NEW(p->arena, dv_node *, n_args);
    if (!n->args)
        return dv_nomem(p->lx->diag);
    n->n_args = n_args;
    for (uint32_t i = 0; i < n_args; i++) {
        n->args[i] = args[i];
        if (args[i]->depth >= n->depth)
            n->depth = (uint16_t)(args[i]->depth + 1);
    }
    if (n->depth > DV_MAX_DEPTH)
        return dv_fail(p->lx->diag, DV_E_LIMIT, (dv_loc){p->lx->src, n->off},
                       "an expression of more than %d levels; "
                       "name a part of it first",
                       (int)DV_MAX_DEPTH);
    return DV_OK;
}

static dv_status apply(parser *p, dv_node **out, int fn, uint32_t off,
                       dv_node *const *args, uint32_t n_args)
{
    DV_TRY(new_node(p, out, DV_NODE_APPLY, off));
    (*out)->op = (uint8_t)fn;
    return set_args(p, *out, args, n_args);
}

// Parses expressions separated by commas up to `close`, which is consumed.
static dv_status expr_list(parser *p, dv_node ***out, int32_t *n, int32_t close,
                           const char *what)
{
    int32_t cap = 0;
    *out = NULL;
    *n = 0;
    while (!at(p, close)) {
        if (*n > 0)
            DV_TRY(dv_lex_expect(p->lx, ',', what));
        dv_node *e = NULL;
        DV_TRY(parse_expr(p, &e));
        dv_node **slot = DV_PUSH(p->arena, dv_node *, *out, *n, cap);
        if (!slot)
            return dv_nomem(p->lx->diag);
        *slot = e;
    }
    return dv_lex(p->lx);
}

// Parses `name[...]`; the name is the current token.
static dv_status access(parser *p, dv_node **out)
{
    DV_TRY(new_node(p, out, DV_NODE_ACCESS, p->lx->tok.off));
    DV_TRY(name(p, &(*out)->name, "a tensor's name"));
    DV_TRY(dv_lex_expect(p->lx, '[', "'['"));
    dv_node **args;
    int32_t n;
    DV_TRY(enter(p));
    DV_TRY(expr_list(p, &args, &n, ']', "',' or ']'"));
    p->nesting--;
    return set_args(p, *out, args, (uint32_t)n);
}

static dv_status chain(parser *p, dv_node **out, int least);
static int infix(const parser *p);

// Parses a variable of a reducer and, if it has one, its bound: `k <= t + 1`.
static dv_status reduced(parser *p, dv_node **out)
{
    DV_TRY(new_node(p, out, DV_NODE_NAME, p->lx->tok.off));
    DV_TRY(name(p, &(*out)->name, "a variable to reduce over"));
    int fn = infix(p);
    if (fn < 0 || dv_fn_get((dv_fn)fn)->prec != DV_PREC_COMPARE)
        return DV_OK;
    dv_node *args[2] = {*out, NULL};
    uint32_t off = p->lx->tok.off;
    DV_TRY(dv_lex(p->lx));
    DV_TRY(enter(p));
    DV_TRY(chain(p, &args[1], DV_PREC_COMPARE + 1));
    p->nesting--;
    return apply(p, out, fn, off, args, 2);
}

// Parses `sum[k,l] term`. The reducer's operand includes products but ends
// before + and -.
static dv_status reduce(parser *p, dv_node **out, int reducer)
{
    DV_TRY(new_node(p, out, DV_NODE_REDUCE, p->lx->tok.off));
    (*out)->op = (uint8_t)reducer;
    DV_TRY(dv_lex(p->lx)); // consumes the reducer's name
    DV_TRY(dv_lex(p->lx)); // consumes '['
    dv_node **args = NULL;
    int32_t n = 0, cap = 0;
    do {
        if (n > 0)
            DV_TRY(dv_lex(p->lx)); // consumes ','
        dv_node **slot = DV_PUSH(p->arena, dv_node *, args, n, cap);
        if (!slot)
            return dv_nomem(p->lx->diag);
        if (n == 1) // args[0] is for the operand, which is parsed later
            slot = DV_PUSH(p->arena, dv_node *, args, n, cap);
        if (!slot)
            return dv_nomem(p->lx->diag);
        DV_TRY(reduced(p, slot));
    } while (at(p, ','));
    DV_TRY(dv_lex_expect(p->lx, ']', "',' or ']'"));
    DV_TRY(enter(p));
    DV_TRY(parse_term(p, &args[0]));
    p->nesting--;
    return set_args(p, *out, args, (uint32_t)n);
}

static dv_status no_function(parser *p, dv_str name)
{
    dv_text all = {0};
    dv_suggestion close = {.word = name.at, .len = name.len};
    char meant[DV_SUGGESTION_BYTES];
    for (int i = 0; i < dv_n_fns(); i++) {
        const dv_fn_info *f = dv_fn_get((dv_fn)i);
        if (f->prec) // an operator, not called by name
            continue;
        dv_put(&all, " %s", f->text);
        dv_suggest(&close, f->text);
    }
    dv_suggestion_text(&close, meant);
    dv_status st = dv_fail(
        p->lx->diag, DV_E_NAME, dv_lex_at(p->lx),
        "there is no function %.*s%s%s%s (a tensor is read with "
        "brackets)",
        (int)name.len, name.at, meant,
        *meant ? " The functions are:" : "; there are:", all.at ? all.at : "");
    dv_text_free(&all);
    return st;
}

static dv_status call(parser *p, dv_node **out)
{
    dv_str fn_name = text_of(p);
    uint32_t off = p->lx->tok.off;
    int fn = dv_fn_find(fn_name);
    if (fn < 0)
        return no_function(p, fn_name);
    DV_TRY(dv_lex(p->lx));
    DV_TRY(dv_lex(p->lx)); // consumes '('
    dv_node **args;
    int32_t n;
    DV_TRY(enter(p));
    DV_TRY(expr_list(p, &args, &n, ')', "',' or ')'"));
    p->nesting--;
    const dv_fn_info *info = dv_fn_get((dv_fn)fn);
    if (n != info->n_args)
        return dv_fail(p->lx->diag, DV_E_SYNTAX, (dv_loc){p->lx->src, off},
                       "%s takes %d argument%s, here are %d", info->text,
                       info->n_args, DV_PLURAL(info->n_args, "", "s"), (int)n);
    return apply(p, out, fn, off, args, (uint32_t)n);
}

static dv_status parse_factor(parser *p, dv_node **out);

// Parses an access and, if it has one, its value outside the tensor. An `else`
// before a bracket is a tensor that the next statement writes. No operator may
// follow, so that nobody has to know how tightly `else` binds.
static dv_status read_with_border(parser *p, dv_node **out)
{
    DV_TRY(access(p, out));
    if (!dv_lex_is(p->lx, "else") || dv_lex_peek(p->lx).kind == '[')
        return DV_OK;
    dv_node *args[2] = {*out, NULL};
    DV_TRY(dv_lex(p->lx)); // consumes `else`
    DV_TRY(enter(p));
    DV_TRY(parse_factor(p, &args[1]));
    p->nesting--;
    if (infix(p) >= 0)
        return dv_fail(p->lx->diag, DV_E_SYNTAX, dv_lex_at(p->lx),
                       "an operator after 'else' needs parentheses: (x[i] else "
                       "0) + 1, or x[i] else (0 + 1)");
    DV_TRY(new_node(p, out, DV_NODE_ELSE, args[0]->off));
    return set_args(p, *out, args, 2);
}

static int starts_statement(dv_str s)
{
    for (int i = 0; i < N_KEYWORDS; i++)
        if (dv_str_is(s, keywords[i].word))
            return 1;
    return 0;
}

#define BARE(s)                                                                \
    "%.*s needs its variables: %.*s[i] x[i]", (int)(s).len, (s).at,            \
        (int)(s).len, (s).at

static dv_status word(parser *p, dv_node **out)
{
    dv_str s = text_of(p);
    dv_token after = dv_lex_peek(p->lx);
    int32_t next = after.kind, reducer = dv_reducer_find(s);
    // A statement keyword followed by a name begins the next statement, so an
    // operand is missing here.
    if (next == DV_TOK_NAME && starts_statement(s))
        return dv_lex_expected(p->lx, "a value");
    if (next == '[' && reducer >= 0)
        return reduce(p, out, reducer);
    if (next == '[') {
        p->last_read = s;
        return read_with_border(p, out);
    }
    if (reducer >= 0 && !dv_lex_begins_line(p->lx, after.off))
        p->bare = s;
    if (reducer >= 0 && next == '(' && dv_fn_find(s) < 0)
        return dv_fail(p->lx->diag, DV_E_SYNTAX, dv_lex_at(p->lx), BARE(s));
    if (next == '(')
        return call(p, out);
    dv_node_kind kind = dv_str_is(s, "inf") ? DV_NODE_INF : DV_NODE_NAME;
    DV_TRY(new_node(p, out, kind, p->lx->tok.off));
    if (kind == DV_NODE_NAME)
        (*out)->name = s;
    return dv_lex(p->lx);
}

static dv_status parse_factor(parser *p, dv_node **out)
{
    const dv_token *t = &p->lx->tok;
    uint32_t off = t->off;
    if (t->kind == DV_TOK_NAME)
        return word(p, out);
    if (t->kind == DV_TOK_INT || t->kind == DV_TOK_FLOAT) {
        int whole = t->kind == DV_TOK_INT;
        DV_TRY(new_node(p, out, whole ? DV_NODE_INT : DV_NODE_FLOAT, off));
        if (whole)
            (*out)->i = t->i;
        else
            (*out)->f = t->f;
        return dv_lex(p->lx);
    }
    DV_TRY(enter(p));
    int prefix = t->kind >= DV_TOK_LE ? dv_operator_find(text_of(p), 1) : -1;
    if (prefix >= 0) {
        dv_node *arg = NULL;
        DV_TRY(dv_lex(p->lx));
        DV_TRY(parse_factor(p, &arg));
        DV_TRY(apply(p, out, prefix, off, &arg, 1));
    } else if (t->kind == '(') {
        DV_TRY(dv_lex(p->lx));
        DV_TRY(parse_expr(p, out));
        DV_TRY(dv_lex_expect(p->lx, ')', "')'"));
    } else {
        int power = t->kind == '*' && off && p->lx->src->text[off - 1] == '*';
        return dv_lex_expected(p->lx, power ? "a value (x to the power of y is "
                                              "pow(x, y))"
                                            : "a value");
    }
    p->nesting--;
    return DV_OK;
}

// Returns the function of the infix operator that is the current token, or -1.
static int infix(const parser *p)
{
    int symbol = p->lx->tok.kind >= DV_TOK_LE;
    return symbol ? dv_operator_find(text_of(p), 2) : -1;
}

// Parses a chain of infix operators whose precedence is at least `least`.
static dv_status chain(parser *p, dv_node **out, int least)
{
    DV_TRY(parse_factor(p, out));
    for (int chained = 0;;) {
        int fn = infix(p), prec = fn < 0 ? 0 : dv_fn_get((dv_fn)fn)->prec;
        if (prec < least)
            return DV_OK;
        if (prec == DV_PREC_COMPARE && chained)
            return dv_fail(p->lx->diag, DV_E_SYNTAX, dv_lex_at(p->lx),
                           "comparisons do not chain; put one in parentheses");
        uint32_t off = p->lx->tok.off;
        dv_node *args[2] = {*out, NULL};
        DV_TRY(dv_lex(p->lx));
        DV_TRY(chain(p, &args[1], prec + 1));
        DV_TRY(apply(p, out, fn, off, args, 2));
        chained = prec == DV_PREC_COMPARE;
    }
}

static dv_status parse_term(parser *p, dv_node **out)
{
    return chain(p, out, DV_PREC_TERM);
}

static dv_status parse_expr(parser *p, dv_node **out)
{
    return chain(p, out, DV_PREC_LEAST);
}

static dv_status dtype(parser *p, int8_t *out)
{
    dv_str s = text_of(p);
    int t = at(p, DV_TOK_NAME) ? dv_dtype_find(s.at, s.len) : -1;
    if (t < 0)
        return dv_lex_expected(p->lx, "a type (f64 f32 f16 bf16 i64 i32 i16 i8 "
                                      "u64 u32 u16 u8 bool)");
    *out = (int8_t)t;
    return dv_lex(p->lx);
}

// Parses a memory note (where a tensor is stored) into *out.
static dv_status memory(parser *p, const dv_memory_note **out)
{
    dv_memory_note *m = DV_NEW(p->arena, dv_memory_note, 1);
    if (!m)
        return dv_nomem(p->lx->diag);
    *out = m;
    return dv_memory_note_read(m, p->lx);
}

static int at_memory(const parser *p)
{
    return dv_lex_is(p->lx, "dram") || dv_lex_is(p->lx, "l1");
}

static dv_status place(parser *p, dv_stmt *s)
{
    dv_placement_request *pl = DV_NEW(p->arena, dv_placement_request, 1);
    if (!pl)
        return dv_nomem(p->lx->diag);
    s->place = pl;
    if (dv_lex_is(p->lx, "replicate")) {
        pl->kind = DV_PLACE_REPLICATE;
        return dv_lex(p->lx);
    }
    if (!dv_lex_is(p->lx, "split"))
        return dv_lex_expected(p->lx,
                               "'split(…)', 'replicate', 'dram(…)' or 'l1(…)'");
    pl->kind = DV_PLACE_SPLIT;
    DV_TRY(dv_lex(p->lx));
    DV_TRY(dv_lex_expect(p->lx, '(', "'('"));
    do {
        if (pl->n_dims > 0)
            DV_TRY(dv_lex(p->lx)); // consumes ','
        if (!at(p, DV_TOK_INT))
            return dv_lex_expected(p->lx, "the number of a dimension");
        if (pl->n_dims == (int)(sizeof pl->dims / sizeof *pl->dims) ||
            p->lx->tok.i >= DV_MAX_DIMS)
            return dv_fail(p->lx->diag, DV_E_LIMIT, dv_lex_at(p->lx),
                           "split takes up to 8 dimensions below %d",
                           (int)DV_MAX_DIMS);
        pl->dims[pl->n_dims++] = (int32_t)p->lx->tok.i;
        DV_TRY(dv_lex(p->lx));
    } while (at(p, ','));
    return dv_lex_expect(p->lx, ')', "',' or ')'");
}

// Parses the notes after the type of a declaration, each after an '@': how the
// tensor is distributed over processes, and where it is stored.
static dv_status notes(parser *p, dv_stmt *s)
{
    while (at(p, '@')) {
        DV_TRY(dv_lex(p->lx));
        if (at_memory(p) ? s->memory != NULL : s->place != NULL)
            return dv_fail(p->lx->diag, DV_E_SYNTAX, dv_lex_at(p->lx),
                           "%.*s has two notes of one kind", (int)s->name.len,
                           s->name.at);
        if (!at_memory(p)) {
            DV_TRY(place(p, s));
            continue;
        }
        s->memory = DV_NEW(p->arena, const dv_memory_note *, 1);
        if (!s->memory)
            return dv_nomem(p->lx->diag);
        DV_TRY(memory(p, &s->memory[0]));
    }
    return DV_OK;
}

// Parses `= "weights.npy"` after the declaration of a constant.
static dv_status file(parser *p, dv_stmt *s)
{
    DV_TRY(dv_lex(p->lx)); // consumes '='
    if (!at(p, DV_TOK_STRING))
        return dv_lex_expected(p->lx, "the name of a file, as \"w.npy\"");
    s->file = text_of(p);
    if (!s->file.len || memchr(s->file.at, 0, s->file.len))
        return dv_fail(p->lx->diag, DV_E_SYNTAX, dv_lex_at(p->lx),
                       "the name of the file is %s",
                       s->file.len ? "not text" : "empty");
    return dv_lex(p->lx);
}

// Parses `x: f16[M, N]` after the keyword input, const or temp.
static dv_status declaration(parser *p, dv_stmt *s)
{
    s->off = p->lx->tok.off;
    DV_TRY(name(p, &s->name, "a tensor's name"));
    DV_TRY(dv_lex_expect(p->lx, ':', "':' and a type"));
    DV_TRY(dtype(p, &s->dtype));
    if (at(p, '[')) {
        DV_TRY(dv_lex(p->lx));
        DV_TRY(expr_list(p, &s->dims, &s->n_dims, ']', "',' or ']'"));
    }
    if (at(p, '@') && s->kind == DV_STMT_TEMP)
        return dv_fail(p->lx->diag, DV_E_SYNTAX, dv_lex_at(p->lx),
                       "only inputs and outputs take a placement note");
    DV_TRY(notes(p, s));
    return at(p, '=') && s->kind == DV_STMT_CONST ? file(p, s) : DV_OK;
}

// Parses the name of an output and its memory note (where it is stored), if
// any.
static dv_status one_output(parser *p, dv_node **out,
                            const dv_memory_note **note)
{
    DV_TRY(new_node(p, out, DV_NODE_NAME, p->lx->tok.off));
    DV_TRY(name(p, &(*out)->name, "a tensor's name"));
    if (!at(p, '@'))
        return DV_OK;
    DV_TRY(dv_lex(p->lx));
    return at_memory(p) ? memory(p, note)
                        : dv_lex_expected(p->lx, "'dram(…)' or 'l1(…)'");
}

static dv_status output(parser *p, dv_stmt *s)
{
    int32_t cap = 0, n = 0, room = 0;
    do {
        if (s->n_dims > 0)
            DV_TRY(dv_lex(p->lx)); // consumes ','
        dv_node **slot = DV_PUSH(p->arena, dv_node *, s->dims, s->n_dims, cap);
        const dv_memory_note **note =
            DV_PUSH(p->arena, const dv_memory_note *, s->memory, n, room);
        if (!slot || !note)
            return dv_nomem(p->lx->diag);
        DV_TRY(one_output(p, slot, note));
    } while (at(p, ','));
    return DV_OK;
}

static dv_status range(parser *p, dv_for *f)
{
    f->off = p->lx->tok.off;
    DV_TRY(name(p, &f->name, "a variable"));
    if (!dv_lex_is(p->lx, "in"))
        return dv_lex_expected(p->lx, "'in'");
    DV_TRY(dv_lex(p->lx));
    DV_TRY(parse_expr(p, &f->begin));
    DV_TRY(dv_lex_expect(p->lx, DV_TOK_RANGE, "'..'"));
    return parse_expr(p, &f->end);
}

static dv_status ranges(parser *p, dv_stmt *s)
{
    int32_t cap = 0;
    do {
        DV_TRY(dv_lex(p->lx)); // consumes 'for' or ','
        dv_for *f = DV_PUSH(p->arena, dv_for, s->ranges, s->n_ranges, cap);
        if (!f)
            return dv_nomem(p->lx->diag);
        DV_TRY(range(p, f));
    } while (at(p, ','));
    return DV_OK;
}

// If the name last read as a tensor resembles a reducer (a misspelt `sum`),
// adds a note on that to the error message.
static void note_misspelt_reducer(const parser *p)
{
    dv_str s = p->last_read;
    dv_suggestion close = {.word = s.at, .len = s.len};
    char meant[DV_SUGGESTION_BYTES];
    for (int i = 0; s.len && i < dv_n_reducers(); i++)
        dv_suggest(&close, dv_reducer_get((dv_reducer)i)->text);
    if (close.best)
        dv_note(p->lx->diag,
                (dv_loc){p->lx->src, (uint32_t)(s.at - p->lx->src->text)},
                "%.*s is read as a tensor%s", (int)s.len, s.at,
                dv_suggestion_text(&close, meant));
}

// Reports a missing '=' or '<-'. If a reducer without variables or misspelt
// came before, a note points to it, because this text may have been meant as
// its operand.
static dv_status no_assignment(parser *p)
{
    dv_status st = dv_lex_expected(p->lx, "'=' or '<-'");
    const dv_source *src = p->lx->src;
    if (p->bare.len)
        dv_note(p->lx->diag, (dv_loc){src, (uint32_t)(p->bare.at - src->text)},
                BARE(p->bare));
    else
        note_misspelt_reducer(p);
    return st;
}

// Reports a word that begins no statement and is not followed by brackets. If
// what follows is not an assignment, a keyword may have been meant.
static dv_status no_statement(const parser *p)
{
    dv_str s = text_of(p);
    int32_t next = dv_lex_peek(p->lx).kind;
    dv_suggestion close = {.word = s.at, .len = s.len};
    char meant[DV_SUGGESTION_BYTES];
    if (dv_str_is(s, "plan") && next == DV_TOK_INT)
        return dv_fail(p->lx->diag, DV_E_SYNTAX, dv_lex_at(p->lx),
                       "this is a plan, not a program; divvy plan reads it");
    for (int i = 0; i < N_KEYWORDS; i++)
        dv_suggest(&close, keywords[i].word);
    dv_suggest(&close, "for"); // these continue the statement before
    dv_suggest(&close, "else");
    int shown = (int)(s.len > 40 ? 40 : s.len);
    if (close.best && next != '=' && next != ':' && next != DV_TOK_ARROW)
        return dv_fail(p->lx->diag, DV_E_SYNTAX, dv_lex_at(p->lx),
                       "'%.*s' starts no statement%s", shown, s.at,
                       dv_suggestion_text(&close, meant));
    return dv_fail(p->lx->diag, DV_E_SYNTAX, dv_lex_at(p->lx),
                   "'%.*s' starts no statement; a tensor is written with "
                   "brackets, a scalar as %.*s[]",
                   shown, s.at, shown, s.at);
}

static dv_status assign(parser *p, dv_stmt *s)
{
    s->off = p->lx->tok.off;
    if (!at(p, DV_TOK_NAME))
        return dv_lex_expected(p->lx, "a statement");
    if (dv_lex_peek(p->lx).kind != '[')
        return no_statement(p);
    DV_TRY(access(p, &s->lhs));
    s->name = s->lhs->name;
    if (at(p, ':')) {
        DV_TRY(dv_lex(p->lx));
        DV_TRY(dtype(p, &s->dtype));
    }
    s->update = (uint8_t)at(p, DV_TOK_ARROW);
    if (!s->update && !at(p, '='))
        return no_assignment(p);
    DV_TRY(dv_lex(p->lx));
    DV_TRY(parse_expr(p, &s->value));
    if (dv_lex_is(p->lx, "for") && dv_lex_peek(p->lx).kind != '[')
        DV_TRY(ranges(p, s));
    return DV_OK;
}

static dv_status block(parser *p, dv_ast *out);

static dv_status repeat(parser *p, dv_stmt *s, int64_t *n_stmts)
{
    dv_ast body = {0};
    if (at(p, DV_TOK_NAME) && dv_lex_peek(p->lx).kind == DV_TOK_NAME) {
        s->ranges = DV_NEW(p->arena, dv_for, 1);
        if (!s->ranges)
            return dv_nomem(p->lx->diag);
        s->n_ranges = 1;
        DV_TRY(range(p, s->ranges));
    } else {
        DV_TRY(parse_expr(p, &s->value));
    }
    DV_TRY(dv_lex_expect(p->lx, '{', "'{'"));
    DV_TRY(enter(p));
    DV_TRY(block(p, &body));
    p->nesting--;
    if (!at(p, '}')) {
        dv_status st = dv_lex_expected(p->lx, "a statement or '}'");
        dv_note(p->lx->diag, (dv_loc){p->lx->src, s->off},
                "the repeat starts here");
        return st;
    }
    s->body = body.first;
    *n_stmts += body.n_stmts;
    return dv_lex(p->lx);
}

static dv_status statement(parser *p, dv_stmt *s, int64_t *n_stmts)
{
    s->off = p->lx->tok.off;
    s->dtype = -1;
    s->kind = DV_STMT_ASSIGN;
    int is_word = dv_lex_peek(p->lx).kind != '[';
    for (int i = 0; is_word && i < N_KEYWORDS; i++)
        if (dv_lex_is(p->lx, keywords[i].word))
            s->kind = (uint8_t)keywords[i].kind;
    s->is_extern = is_word && dv_lex_is(p->lx, "extern");
    if (s->kind != DV_STMT_ASSIGN || s->is_extern)
        DV_TRY(dv_lex(p->lx));
    switch ((dv_stmt_kind)s->kind) {
    case DV_STMT_PARAM:
        s->off = p->lx->tok.off;
        DV_TRY(name(p, &s->name, "a param's name"));
        DV_TRY(dv_lex_expect(p->lx, '=', "'='"));
        return parse_expr(p, &s->value);
    case DV_STMT_INPUT:
    case DV_STMT_CONST:
    case DV_STMT_TEMP:
        return declaration(p, s);
    case DV_STMT_OUTPUT:
        return output(p, s);
    case DV_STMT_REPEAT:
        return repeat(p, s, n_stmts);
    case DV_STMT_ASSIGN:
        break;
    }
    return assign(p, s);
}

// Parses statements up to a '}' or the end of the text.
static dv_status block(parser *p, dv_ast *out)
{
    dv_stmt **link = &out->first;
    while (!at(p, DV_TOK_END) && !at(p, '}')) {
        dv_stmt *s = DV_NEW(p->arena, dv_stmt, 1);
        if (!s)
            return dv_nomem(p->lx->diag);
        DV_TRY(statement(p, s, &out->n_stmts));
        *link = s;
        link = &s->next;
        out->n_stmts++;
    }
    return DV_OK;
}

dv_status dv_parse_block(dv_ast *out, dv_lexer *lx, dv_arena *arena)
{
    parser p = {.lx = lx, .arena = arena};
    *out = (dv_ast){0};
    return block(&p, out);
}

dv_status dv_parse(dv_ast *out, const dv_source *src, dv_arena *arena,
                   dv_diag *diag)
{
    dv_lexer lx;
    DV_TRY(dv_lexer_init(&lx, src, diag));
    parser p = {.lx = &lx, .arena = arena};
    *out = (dv_ast){0};
    DV_TRY(block(&p, out));
    if (!at(&p, DV_TOK_END))
        return dv_lex_expected(p.lx, "a statement");
    if (!out->first)
        return dv_fail(diag, DV_E_SYNTAX, (dv_loc){src, DV_FILE},
                       "the program is empty");
    return DV_OK;
}

dv_status dv_parse_expr(dv_node *out, const dv_source *src, dv_arena *arena,
                        dv_diag *diag)
{
    dv_lexer lx;
    dv_node *n = NULL;
    DV_TRY(dv_lexer_init(&lx, src, diag));
    parser p = {.lx = &lx, .arena = arena};
    DV_TRY(parse_expr(&p, &n));
    if (!at(&p, DV_TOK_END))
        return dv_lex_expected(p.lx, "one number");
    *out = *n;
    return DV_OK;
}
