// Parses expressions such as "ab,bc->ac". One scan finds the terms and all
// errors that can be detected without shapes; blanks are ignored.
#include "einsum/einsum.h"
#include <string.h>

static int is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static int is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

typedef struct scan {
    dv_formula *f;
    dv_arena *arena;
    dv_diag *diag;
    dv_term_text now; // the term being scanned
    int32_t cap;
    uint32_t at;
} scan;

static dv_status wrong(const scan *s, const char *what)
{
    return dv_fail(s->diag, DV_E_SYNTAX, (dv_loc){&s->f->src, s->at}, "%s",
                   what);
}

static int follows(const scan *s, const char *text)
{
    size_t n = strlen(text);
    return s->f->src.len - s->at >= n &&
           memcmp(s->f->src.text + s->at, text, n) == 0;
}

static void begin_term(scan *s)
{
    while (s->at < s->f->src.len && is_blank(s->f->src.text[s->at]))
        s->at++;
    s->now = (dv_term_text){.begin = s->at, .dots = -1};
}

static dv_status end_operand(scan *s, uint32_t end)
{
    dv_formula *f = s->f;
    if (f->n_in == DV_MAX_OPERANDS)
        return dv_fail(s->diag, DV_E_LIMIT, (dv_loc){&f->src, s->now.begin},
                       "there are more than %d operands", (int)DV_MAX_OPERANDS);
    dv_term_text *w =
        DV_PUSH(s->arena, dv_term_text, f->written, f->n_in, s->cap);
    if (!w)
        return dv_nomem(s->diag);
    *w = s->now;
    w->end = end;
    return DV_OK;
}

static dv_status ellipsis(scan *s)
{
    if (!follows(s, "..."))
        return wrong(s, "a '.' alone: an ellipsis is '...'");
    if (s->now.dots >= 0)
        return wrong(s, s->f->has_out ? "a second '...' in the output"
                                      : "a second '...' in one operand");
    s->now.dots = s->now.n_letters;
    s->now.dots_at = s->at;
    s->at += 3;
    return DV_OK;
}

static dv_status arrow(scan *s)
{
    if (!follows(s, "->"))
        return wrong(s, "a '-' without '>': the arrow is '->'");
    if (s->f->has_out)
        return wrong(s, "a second '->'");
    DV_TRY(end_operand(s, s->at));
    s->f->has_out = 1;
    s->at += 2;
    begin_term(s);
    return DV_OK;
}

static dv_status comma(scan *s)
{
    if (s->f->has_out)
        return wrong(s, "a ',' after the arrow: there is one output");
    DV_TRY(end_operand(s, s->at));
    s->at++;
    begin_term(s);
    return DV_OK;
}

static dv_status other(const scan *s, char c)
{
    dv_loc at = {&s->f->src, s->at};
    if (c == '>')
        return wrong(s, "a '>' without '-': the arrow is '->'");
    if (c > ' ' && c < 127)
        return dv_fail(s->diag, DV_E_SYNTAX, at,
                       "'%c' is no index: indices are letters, a-z and A-Z", c);
    return dv_fail(s->diag, DV_E_SYNTAX, at,
                   "byte 0x%02x is no index: indices are letters, a-z and A-Z",
                   (unsigned)(unsigned char)c);
}

static dv_status one(scan *s)
{
    char c = s->f->src.text[s->at];
    switch (c) {
    case '.':
        return ellipsis(s);
    case '-':
        return arrow(s);
    case ',':
        return comma(s);
    default:
        break;
    }
    if (!is_letter(c) && !is_blank(c))
        return other(s, c);
    s->now.n_letters += is_letter(c);
    s->at++;
    return DV_OK;
}

static dv_status expression(scan *s)
{
    begin_term(s);
    while (s->at < s->f->src.len)
        DV_TRY(one(s));
    if (!s->f->has_out)
        return end_operand(s, s->at);
    s->f->out_text = s->now;
    s->f->out_text.end = s->at;
    return DV_OK;
}

static int is_tree(const dv_source *src)
{
    size_t i = 0;
    while (i < src->len && is_blank(src->text[i]))
        i++;
    return i < src->len && src->text[i] == '[';
}

dv_status dv_formula_parse(dv_formula *f, const char *text, size_t len,
                           dv_arena *arena, dv_diag *diag)
{
    enum { MAX_BYTES = 1 << 16 };
    *f = (dv_formula){.src = {"einsum", text, len}};
    if (len > MAX_BYTES)
        return dv_fail(diag, DV_E_LIMIT, (dv_loc){&f->src, DV_FILE},
                       "the expression has %zu bytes, at most %d are read", len,
                       (int)MAX_BYTES);
    f->src.text = dv_arena_copy(arena, text, len);
    if (!f->src.text)
        return dv_nomem(diag);
    f->is_tree = is_tree(&f->src);
    if (f->is_tree)
        return dv_tree_parse(f, arena, diag);
    scan s = {.f = f, .arena = arena, .diag = diag};
    return expression(&s);
}
