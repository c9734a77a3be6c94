// A JSON writer that handles commas and indentation, so that callers only give
// keys and values.
//
//   dv_json j = {.out = &text};
//   dv_json_open(&j, NULL, '{');
//   dv_json_int(&j, "cores", 32);
//   DV_JSON_OBJECT(&j, "at", DV_F("name", "c"), DV_F("x", 1));
//   dv_json_close(&j);
//
// writes {"format": 1, "cores": 32, "at": {"name": "c", "x": 1}}.
//
// The outermost object starts with the version of the format. `key` is NULL
// inside arrays. The output is always valid UTF-8: an invalid byte becomes
// U+FFFD.
#ifndef DV_JSON_H
#define DV_JSON_H
#include "base/text.h"

enum {
    DV_JSON_DEPTH = 32,
    // Version of the format; incompatible changes increment it.
    DV_JSON_FORMAT = 1,
};

typedef struct dv_json {
    dv_text *out;
    int depth;
    char close[DV_JSON_DEPTH]; // closing bracket of each level
    char used[DV_JSON_DEPTH];  // 1 if the level has an item
    char flat[DV_JSON_DEPTH];  // 1 if the level is on one line
} dv_json;

void dv_json_open(dv_json *j, const char *key, char bracket);
// Opens an array or object that is written on one line, for small objects in
// long arrays.
void dv_json_open_flat(dv_json *j, const char *key, char bracket);
void dv_json_close(dv_json *j);
void dv_json_int(dv_json *j, const char *key, int64_t v);
// Writes a number, or null if v is not finite.
void dv_json_double(dv_json *j, const char *key, double v);
void dv_json_string(dv_json *j, const char *key, const char *s);
void dv_json_bool(dv_json *j, const char *key, int v);
void dv_json_null(dv_json *j, const char *key);
// Writes a value that is already formatted as JSON.
void dv_json_raw(dv_json *j, const char *key, const char *json);
void dv_json_ints(dv_json *j, const char *key, const int64_t *v, int n);
#define DV_JSON_INTS(j, key, ...) dv_json_ints(j, key, DV_INTS(__VA_ARGS__))
// Writes an assembled text as a string and frees it. If assembling it ran out
// of memory, the output counts as failed too.
void dv_json_text(dv_json *j, const char *key, dv_text *text);

// A field of an object, made by DV_F(key, value), whose C type selects the
// kind: an integer, a double or a string, which may be NULL.
typedef struct dv_json_field {
    const char *key;
    // Kind of the value: i integer, d double, s string, b true or false, n
    // null, v list of integers, - a field that is not written, 0 the end of a
    // list of fields.
    char kind;
    int64_t i;
    double d;
    const char *s;
    const int64_t *v; // a list of `i` integers
} dv_json_field;

static inline dv_json_field dv_field_int(const char *key, int64_t v)
{
    return (dv_json_field){.key = key, .kind = 'i', .i = v};
}

static inline dv_json_field dv_field_double(const char *key, double v)
{
    return (dv_json_field){.key = key, .kind = 'd', .d = v};
}

static inline dv_json_field dv_field_string(const char *key, const char *v)
{
    return (dv_json_field){.key = key, .kind = 's', .s = v};
}

static inline dv_json_field dv_field_ints(const char *key, const int64_t *v,
                                          int n)
{
    return (dv_json_field){.key = key, .kind = 'v', .v = v, .i = n};
}

#define DV_F(key, v)                                                           \
    _Generic((v),                                                              \
        double: dv_field_double,                                               \
        char *: dv_field_string,                                               \
        const char *: dv_field_string,                                         \
        default: dv_field_int)(key, v)
// DV_F_WHEN makes a field of a JSON object that is written only if `ok` is
// true; DV_F_BOOL makes a field with the value true or false.
#define DV_F_WHEN(ok, field) ((ok) ? (field) : (dv_json_field){.kind = '-'})
#define DV_F_BOOL(name, ok)  ((dv_json_field){.key = name, .kind = 'b', .i = ok})
// Makes a field of a JSON object with an integer value; the value is null if
// `ok` is 0.
#define DV_F_IF(ok, name, v)                                                   \
    ((ok) ? dv_field_int(name, v) : (dv_json_field){.key = name, .kind = 'n'})
#define DV_F_INTS(key, ...) dv_field_ints(key, DV_INTS(__VA_ARGS__))
// A list of integers as two arguments of a call: an array and its number of
// items.
#define DV_INTS(...)                                                           \
    (const int64_t[]){__VA_ARGS__},                                            \
        (int)(sizeof(int64_t[]){__VA_ARGS__} / sizeof(int64_t))

// DV_JSON_FIELDS writes fields into the open object; DV_JSON_OBJECT writes an
// object that consists of these fields, on one line.
#define DV_JSON_FIELDS(j, ...)                                                 \
    dv_json_fields(j, (const dv_json_field[]){__VA_ARGS__, {.kind = 0}})
#define DV_JSON_OBJECT(j, key, ...)                                            \
    dv_json_object(j, key, (const dv_json_field[]){__VA_ARGS__, {.kind = 0}})
void dv_json_fields(dv_json *j, const dv_json_field *fields);
void dv_json_object(dv_json *j, const char *key, const dv_json_field *fields);
#endif
