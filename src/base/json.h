// A JSON writer that handles commas and indentation, so that callers only give
// keys and values.
//
//   dv_json j = {.out = &text};
//   dv_json_open(&j, NULL, '{');
//   dv_json_int(&j, "cores", 32);
//   dv_json_close(&j);                    // {"format": 1, "cores": 32}
//
// The outermost object starts with the version of the format. `key` is NULL
// inside arrays. The output is always valid UTF-8: an invalid byte becomes
// U+FFFD.
#ifndef DV_JSON_H
#define DV_JSON_H
#include "base/text.h"

enum {
    DV_JSON_DEPTH = 32,
    DV_JSON_FORMAT = 1, // incremented by incompatible changes
};

typedef struct dv_json {
    dv_text *out;
    int bare; // 1 to omit the version in the outermost object
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
void dv_json_ints(dv_json *j, const char *key, const int64_t *v, int n);
#endif
