// A JSON writer that keeps track of commas and indentation, so that callers
// only say what is there.
//
//   dv_json j = {.out = &text};
//   dv_json_open(&j, NULL, '{');
//   dv_json_int(&j, "cores", 32);
//   dv_json_close(&j);                    // {"format": 1, "cores": 32}
//
// The outermost object says which version of the format it has.
// `key` is NULL inside arrays. What it writes is always valid UTF-8: a byte
// that is none becomes U+FFFD.
#ifndef DV_JSON_H
#define DV_JSON_H
#include "base/text.h"

enum {
    DV_JSON_DEPTH = 32,
    DV_JSON_FORMAT = 1, // grows when readers of the old one could not read it
};

typedef struct dv_json {
    dv_text *out;
    int bare; // the outermost object has no version
    int depth;
    char close[DV_JSON_DEPTH]; // the bracket each level ends with
    char used[DV_JSON_DEPTH];  // something was written at this level
    char flat[DV_JSON_DEPTH];  // this level is written on one line
} dv_json;

void dv_json_open(dv_json *j, const char *key, char bracket);
// The same, but all of it on one line: for small objects in long arrays.
void dv_json_open_flat(dv_json *j, const char *key, char bracket);
void dv_json_close(dv_json *j);
void dv_json_int(dv_json *j, const char *key, int64_t v);
void dv_json_double(dv_json *j, const char *key,
                    double v); // null if not finite
void dv_json_string(dv_json *j, const char *key, const char *s);
void dv_json_bool(dv_json *j, const char *key, int v);
void dv_json_null(dv_json *j, const char *key);
void dv_json_ints(dv_json *j, const char *key, const int64_t *v, int n);
#endif
