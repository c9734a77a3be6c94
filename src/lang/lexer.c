#include "lang/lexer.h"
#include "base/text.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static int is_letter(int c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static int is_digit(int c)
{
    return c >= '0' && c <= '9';
}

// Returns the byte at an offset, or 0 past the end.
static int byte(const dv_source *s, size_t off)
{
    return off < s->len ? (unsigned char)s->text[off] : 0;
}

static uint32_t skip_blank(const dv_source *s, uint32_t off)
{
    for (;; off++) {
        int c = byte(s, off);
        if (c == '#')
            while (off < s->len && s->text[off] != '\n')
                off++;
        c = byte(s, off);
        if (off >= s->len || (c != ' ' && c != '\t' && c != '\r' && c != '\n'))
            return off;
    }
}

// Scans a number: digits, then a fraction if a digit follows the point (0..30
// is a range), then an exponent if it has digits (2e is a number and a name).
static dv_status number(dv_token *t, const dv_source *s, dv_diag *diag)
{
    uint32_t p = t->off;
    int is_float = 0;
    while (is_digit(byte(s, p)))
        p++;
    if (byte(s, p) == '.' && is_digit(byte(s, p + 1))) {
        is_float = 1;
        for (p++; is_digit(byte(s, p)); p++)
            ;
    }
    if (byte(s, p) == 'e' || byte(s, p) == 'E') {
        uint32_t q = p + 1;
        if (byte(s, q) == '+' || byte(s, q) == '-')
            q++;
        if (is_digit(byte(s, q))) {
            is_float = 1;
            for (p = q; is_digit(byte(s, p)); p++)
                ;
        }
    }
    t->len = p - t->off;
    t->f = dv_parse_double(s->text + t->off, t->len);
    t->kind = is_float ? DV_TOK_FLOAT : DV_TOK_INT;
    if (isnan(t->f))
        return dv_nomem(diag);
    if (is_float && !isfinite(t->f))
        return dv_fail(diag, DV_E_OVERFLOW, (dv_loc){s, t->off},
                       "the number is beyond the range of a double");
    for (uint32_t i = t->off; !is_float && i < p; i++) {
        int digit = byte(s, i) - '0';
        if (t->i > (INT64_MAX - digit) / 10)
            return dv_fail(diag, DV_E_OVERFLOW, (dv_loc){s, t->off},
                           "the number is above 2^63 - 1");
        t->i = t->i * 10 + digit;
    }
    return DV_OK;
}

static dv_status string(dv_token *t, const dv_source *s, dv_diag *diag)
{
    uint32_t p = ++t->off;
    while (p < s->len && byte(s, p) != '"' && byte(s, p) != '\n')
        p++;
    if (byte(s, p) != '"')
        return dv_fail(diag, DV_E_SYNTAX, (dv_loc){s, t->off - 1},
                       "the string does not end on its line");
    t->kind = DV_TOK_STRING;
    t->len = p - t->off;
    return DV_OK;
}

static dv_status symbol(dv_token *t, const dv_source *s, dv_diag *diag)
{
    static const struct {
        char text[3];
        int32_t kind;
    } pairs[] = {{"<-", DV_TOK_ARROW}, {"..", DV_TOK_RANGE}, {"<=", DV_TOK_LE},
                 {">=", DV_TOK_GE},    {"==", DV_TOK_EQ},    {"!=", DV_TOK_NE},
                 {"<<", DV_TOK_SHL},   {">>", DV_TOK_SHR},   {"&&", DV_TOK_AND},
                 {"||", DV_TOK_OR}};
    int c = byte(s, t->off), d = byte(s, t->off + 1);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        if (c == pairs[i].text[0] && d == pairs[i].text[1]) {
            t->kind = pairs[i].kind;
            t->len = 2;
            return DV_OK;
        }
    }
    if (c && strchr("[](){}:=,+-*/<>@;%&|^!~", c)) {
        t->kind = c;
        t->len = 1;
        return DV_OK;
    }
    if (c < 32 || c > 126)
        return dv_fail(diag, DV_E_SYNTAX, (dv_loc){s, t->off},
                       "byte 0x%02x is not text divvy reads", (unsigned)c);
    return dv_fail(diag, DV_E_SYNTAX, (dv_loc){s, t->off},
                   "'%c' means nothing here", c);
}

static dv_status scan(dv_token *t, uint32_t from, const dv_source *s,
                      dv_diag *diag)
{
    uint32_t off = skip_blank(s, from);
    *t = (dv_token){.kind = DV_TOK_END, .off = off, .glued = off == from};
    if (off >= s->len) {
        // At the end of the text, error messages point to the position after
        // the last token.
        t->off = from;
        return DV_OK;
    }
    int c = byte(s, off);
    if (is_digit(c))
        return number(t, s, diag);
    if (c == '"')
        return string(t, s, diag);
    if (!is_letter(c))
        return symbol(t, s, diag);
    uint32_t p = off;
    while (is_letter(byte(s, p)) || is_digit(byte(s, p)))
        p++;
    t->kind = DV_TOK_NAME;
    t->len = p - off;
    return DV_OK;
}

dv_status dv_lexer_init(dv_lexer *lx, const dv_source *src, dv_diag *diag)
{
    *lx = (dv_lexer){.src = src, .diag = diag};
    return dv_lex(lx);
}

dv_status dv_lex(dv_lexer *lx)
{
    DV_TRY(scan(&lx->tok, lx->next, lx->src, lx->diag));
    lx->next = lx->tok.off + lx->tok.len + (lx->tok.kind == DV_TOK_STRING);
    return DV_OK;
}

int dv_lex_begins_line(const dv_lexer *lx, uint32_t off)
{
    const char *text = lx->src->text;
    while (off > 0 && (text[off - 1] == ' ' || text[off - 1] == '\t'))
        off--;
    return off == 0 || text[off - 1] == '\n';
}

dv_token dv_lex_peek(const dv_lexer *lx)
{
    dv_token t;
    if (scan(&t, lx->next, lx->src, NULL) != DV_OK)
        t.kind = DV_TOK_END;
    return t;
}

dv_loc dv_lex_at(const dv_lexer *lx)
{
    // The offset of a string token is inside its quotes; report the opening
    // quote.
    return (dv_loc){lx->src, lx->tok.off - (lx->tok.kind == DV_TOK_STRING)};
}

const char *dv_lex_show(const dv_lexer *lx, char buf[48])
{
    const dv_token *t = &lx->tok;
    if (t->kind == DV_TOK_END)
        return "the end of the text";
    int n = t->len > 40 ? 40 : (int)t->len;
    char quote = t->kind == DV_TOK_STRING ? '"' : '\'';
    snprintf(buf, 48, "%c%.*s%c", quote, n, lx->src->text + t->off, quote);
    return buf;
}

dv_status dv_lex_expected(const dv_lexer *lx, const char *what)
{
    char buf[48];
    return dv_fail(lx->diag, DV_E_SYNTAX, dv_lex_at(lx),
                   "expected %s, found %s", what, dv_lex_show(lx, buf));
}

dv_status dv_lex_expect(dv_lexer *lx, int32_t kind, const char *what)
{
    return lx->tok.kind == kind ? dv_lex(lx) : dv_lex_expected(lx, what);
}

int dv_lex_is(const dv_lexer *lx, const char *word)
{
    return lx->tok.kind == DV_TOK_NAME && lx->tok.len == strlen(word) &&
           memcmp(lx->src->text + lx->tok.off, word, lx->tok.len) == 0;
}

dv_status dv_lex_word(dv_lexer *lx, const char *word)
{
    char buf[48];
    if (!dv_lex_is(lx, word))
        return dv_fail(lx->diag, DV_E_SYNTAX, dv_lex_at(lx),
                       "expected '%s', found %s", word, dv_lex_show(lx, buf));
    return dv_lex(lx);
}

dv_status dv_lex_int(dv_lexer *lx, int64_t *out, const char *what)
{
    int64_t value = lx->tok.i;
    DV_TRY(dv_lex_expect(lx, DV_TOK_INT, what));
    *out = value;
    return DV_OK;
}
