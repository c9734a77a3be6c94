#include "base/jsonread.h"
#include "base/text.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 64 };

typedef struct reader {
    const dv_source *src;
    dv_arena *arena;
    dv_diag *diag;
    uint32_t at;
} reader;

static dv_status wrong(const reader *r, const char *what)
{
    return dv_fail(r->diag, DV_E_SYNTAX, (dv_loc){r->src, r->at}, "%s", what);
}

static int peek(const reader *r)
{
    return r->at < r->src->len ? (unsigned char)r->src->text[r->at] : -1;
}

static void blanks(reader *r)
{
    while (peek(r) == ' ' || peek(r) == '\t' || peek(r) == '\n' ||
           peek(r) == '\r')
        r->at++;
}

static int hex4(const reader *r, uint32_t at, uint32_t *out)
{
    *out = 0;
    for (uint32_t i = at; i < at + 4; i++) {
        int c = i < r->src->len ? r->src->text[i] : 0;
        int d = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
        if (d < 0)
            return 0;
        *out = *out * 16 + (uint32_t)d;
    }
    return 1;
}

// Parses an escape sequence. Non-ASCII characters become '?', because all names
// that are looked up are ASCII.
static dv_status escape(reader *r, char *out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    int c = peek(r);
    const char *known = c > 0 ? strchr(from, c) : NULL;
    uint32_t code;
    if (known) {
        *out = to[known - from];
        r->at++;
        return DV_OK;
    }
    if (c != 'u' || !hex4(r, r->at + 1, &code))
        return wrong(r, "no such escape");
    *out = code > 0 && code < 128 ? (char)code : '?';
    r->at += 5;
    return DV_OK;
}

static dv_status read_string(reader *r, const char **out)
{
    uint32_t end = ++r->at;
    size_t n = 0;
    while (end < r->src->len && r->src->text[end] != '"')
        end += r->src->text[end] == '\\' ? 2 : 1;
    if (end >= r->src->len)
        return wrong(r, "a string without an end");
    char *s = DV_NEW(r->arena, char, end - r->at + 1);
    if (!s)
        return dv_nomem(r->diag);
    while (r->at < end) {
        char c = r->src->text[r->at++];
        if ((unsigned char)c < ' ') {
            r->at--;
            return wrong(r, "a control character in a string");
        }
        if (c == '\\')
            DV_TRY(escape(r, &c));
        s[n++] = c;
    }
    r->at = end + 1;
    *out = s;
    return DV_OK;
}

// Skips decimal digits and returns how many there were.
static uint32_t skip_digits(reader *r)
{
    uint32_t from = r->at;
    while (peek(r) >= '0' && peek(r) <= '9')
        r->at++;
    return r->at - from;
}

// Skips a number. Returns 0 if it is malformed, as in 01, 1., 1.5-2 or 1e.
static int skip_number(reader *r)
{
    r->at += peek(r) == '-';
    int zero = peek(r) == '0';
    uint32_t n = skip_digits(r);
    int ok = n == 1 || (n > 1 && !zero);
    if (peek(r) == '.') {
        r->at++;
        ok = skip_digits(r) > 0 && ok;
    }
    if (peek(r) == 'e' || peek(r) == 'E') {
        r->at++;
        r->at += peek(r) == '+' || peek(r) == '-';
        ok = skip_digits(r) > 0 && ok;
    }
    return ok && !(peek(r) > 0 && strchr("+-.eE", peek(r)));
}

static dv_status read_number(reader *r, dv_jval *out)
{
    uint32_t from = r->at;
    if (!skip_number(r)) {
        r->at = from;
        return wrong(r, "not a number");
    }
    size_t len = r->at - from;
    char digits[24] = {0};
    memcpy(digits, r->src->text + from, len < sizeof digits ? len : 0);
    out->kind = len < 19 && !strpbrk(digits, ".eE") ? DV_JINT : DV_JFLOAT;
    out->f = dv_parse_double(r->src->text + from, len);
    out->i = out->kind == DV_JINT ? strtoll(digits, NULL, 10) : 0;
    return DV_OK;
}

static int word(reader *r, const char *text)
{
    size_t n = strlen(text);
    if (r->src->len - r->at < n || strncmp(r->src->text + r->at, text, n))
        return 0;
    r->at += (uint32_t)n;
    return 1;
}

static dv_status read_value(reader *r, dv_jval *out, int depth);

// Parses the items of an array or the members of an object, from the opening
// bracket on.
static dv_status read_items(reader *r, dv_jval *out, int depth)
{
    char close = out->kind == DV_JARRAY ? ']' : '}';
    r->at++;
    blanks(r);
    while (peek(r) != close) {
        const char *key = NULL;
        if (out->n) {
            if (peek(r) != ',')
                return wrong(r, close == ']' ? "expected ',' or ']'"
                                             : "expected ',' or '}'");
            r->at++;
            blanks(r);
        }
        if (close == '}') {
            if (peek(r) != '"')
                return wrong(r, "expected a name in quotes");
            DV_TRY(read_string(r, &key));
            blanks(r);
            if (peek(r) != ':')
                return wrong(r, "expected ':'");
            r->at++;
        }
        dv_jval *item =
            DV_PUSH(r->arena, dv_jval, out->items, out->n, out->cap);
        if (!item)
            return dv_nomem(r->diag);
        *item = (dv_jval){.key = key};
        DV_TRY(read_value(r, item, depth + 1));
        blanks(r);
    }
    r->at++;
    return DV_OK;
}

static dv_status read_value(reader *r, dv_jval *out, int depth)
{
    blanks(r);
    out->off = r->at;
    if (depth > MAX_DEPTH)
        return wrong(r, "deeper than 64 brackets");
    int c = peek(r);
    if (c == '[' || c == '{') {
        out->kind = c == '[' ? DV_JARRAY : DV_JOBJECT;
        return read_items(r, out, depth);
    }
    if (c == '"') {
        out->kind = DV_JSTRING;
        return read_string(r, &out->s);
    }
    if (word(r, "true") || word(r, "false")) {
        out->kind = DV_JBOOL;
        out->i = r->src->text[out->off] == 't';
        return DV_OK;
    }
    if (word(r, "null"))
        return DV_OK;
    if (c == '-' || (c >= '0' && c <= '9'))
        return read_number(r, out);
    return wrong(r, "expected a value");
}

dv_status dv_json_parse(const dv_jval **out, const dv_source *src,
                        dv_arena *arena, dv_diag *diag)
{
    reader r = {src, arena, diag, 0};
    dv_jval *v = DV_NEW(arena, dv_jval, 1);
    if (!v)
        return dv_nomem(diag);
    DV_TRY(read_value(&r, v, 0));
    blanks(&r);
    if (r.at < src->len)
        return wrong(&r, "more text after the value");
    *out = v;
    return DV_OK;
}

const dv_jval *dv_jget(const dv_jval *v, const char *key)
{
    for (int32_t i = v && v->kind == DV_JOBJECT ? v->n - 1 : -1; i >= 0; i--)
        if (!strcmp(v->items[i].key, key))
            return &v->items[i];
    return NULL;
}
