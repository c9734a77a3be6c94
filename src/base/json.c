#include "base/json.h"
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

// Returns the length of the UTF-8 sequence at s, or 0 if it is invalid. Rejects
// overlong forms, surrogates and code points above U+10FFFF.
static int utf8_len(const unsigned char *s)
{
    int n = s[0] < 0x80                    ? 1
            : s[0] >= 0xc2 && s[0] < 0xe0  ? 2
            : s[0] >= 0xe0 && s[0] < 0xf0  ? 3
            : s[0] >= 0xf0 && s[0] <= 0xf4 ? 4
                                           : 0;
    for (int i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] >= 0xa0) ||
        (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] >= 0x90))
        return 0;
    return n;
}

static void quoted(dv_text *out, const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    dv_put_bytes(out, "\"", 1);
    while (*s) {
        size_t plain = 0; // characters that need no escape
        while (s[plain] >= 32 && s[plain] < 127 && s[plain] != '"' &&
               s[plain] != '\\')
            plain++;
        dv_put_bytes(out, (const char *)s, plain);
        s += plain;
        if (!*s)
            break;
        int n = utf8_len(s);
        if (*s == '"' || *s == '\\')
            dv_put(out, "\\%c", *s);
        else if (*s == '\n')
            dv_put(out, "\\n");
        else if (*s == '\t')
            dv_put(out, "\\t");
        else if (*s < 32 || n == 0)
            dv_put(out, "\\u%04x", n ? *s : 0xfffdu);
        else
            dv_put_bytes(out, (const char *)s, (size_t)n);
        s += n ? n : 1;
    }
    dv_put_bytes(out, "\"", 1);
}

static void item(dv_json *j, const char *key)
{
    if (j->depth) {
        int top = j->depth - 1;
        if (j->used[top])
            dv_put_bytes(j->out, ", ", j->flat[top] ? 2 : 1);
        if (!j->flat[top])
            dv_put(j->out, "\n%*s", 2 * j->depth, "");
        j->used[top] = 1;
    }
    if (key) {
        quoted(j->out, key);
        dv_put_bytes(j->out, ": ", 2);
    }
}

static void open_level(dv_json *j, const char *key, char bracket, int flat)
{
    item(j, key);
    assert(j->depth < DV_JSON_DEPTH);
    int up = j->depth ? j->flat[j->depth - 1] : 0;
    j->close[j->depth] = bracket == '{' ? '}' : ']';
    j->used[j->depth] = 0;
    j->flat[j->depth] = (char)(flat || up);
    j->depth++;
    dv_put_bytes(j->out, &bracket, 1);
}

void dv_json_open(dv_json *j, const char *key, char bracket)
{
    open_level(j, key, bracket, 0);
    if (j->depth == 1 && bracket == '{')
        dv_json_int(j, "format", DV_JSON_FORMAT);
}

void dv_json_open_flat(dv_json *j, const char *key, char bracket)
{
    open_level(j, key, bracket, 1);
}

void dv_json_close(dv_json *j)
{
    int top = --j->depth;
    if (j->used[top] && !j->flat[top])
        dv_put(j->out, "\n%*s", 2 * top, "");
    dv_put_bytes(j->out, &j->close[top], 1);
    if (top == 0)
        dv_put(j->out, "\n");
}

// Converts the digits by hand, because most of the output is integers and
// printf formats are slow to parse.
void dv_json_int(dv_json *j, const char *key, int64_t v)
{
    char digits[24];
    size_t at = sizeof digits;
    uint64_t rest = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    item(j, key);
    do
        digits[--at] = (char)('0' + rest % 10);
    while (rest /= 10);
    if (v < 0)
        digits[--at] = '-';
    dv_put_bytes(j->out, digits + at, sizeof digits - at);
}

void dv_json_double(dv_json *j, const char *key, double v)
{
    item(j, key);
    if (v == floor(v) && fabs(v) < 1e15)
        dv_put(j->out, "%.0f", v); // print integral values without a fraction
    else if (isfinite(v))
        dv_put_double(j->out, v);
    else
        dv_put(j->out, "null");
}

void dv_json_string(dv_json *j, const char *key, const char *s)
{
    item(j, key);
    if (s)
        quoted(j->out, s);
    else
        dv_put(j->out, "null");
}

void dv_json_bool(dv_json *j, const char *key, int v)
{
    item(j, key);
    dv_put(j->out, v ? "true" : "false");
}

void dv_json_null(dv_json *j, const char *key)
{
    item(j, key);
    dv_put(j->out, "null");
}

void dv_json_raw(dv_json *j, const char *key, const char *json)
{
    item(j, key);
    dv_put_bytes(j->out, json, strlen(json));
}

void dv_json_ints(dv_json *j, const char *key, const int64_t *v, int n)
{
    dv_json_open_flat(j, key, '[');
    for (int i = 0; i < n; i++)
        dv_json_int(j, NULL, v[i]);
    dv_json_close(j);
}

void dv_json_text(dv_json *j, const char *key, dv_text *text)
{
    j->out->failed |= text->failed;
    dv_json_string(j, key, text->at);
    dv_text_free(text);
}

void dv_json_fields(dv_json *j, const dv_json_field *fields)
{
    for (const dv_json_field *f = fields; f->kind; f++)
        if (f->kind == 'i')
            dv_json_int(j, f->key, f->i);
        else if (f->kind == 'd')
            dv_json_double(j, f->key, f->d);
        else if (f->kind == 'b')
            dv_json_bool(j, f->key, f->i != 0);
        else if (f->kind == 'v')
            dv_json_ints(j, f->key, f->v, (int)f->i);
        else if (f->kind != '-')
            dv_json_string(j, f->key, f->s);
}

void dv_json_object(dv_json *j, const char *key, const dv_json_field *fields)
{
    dv_json_open_flat(j, key, '{');
    dv_json_fields(j, fields);
    dv_json_close(j);
}
