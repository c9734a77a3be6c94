// A JSON reader: parses a text into a tree in an arena. Numbers without point
// and exponent that fit 64 bits are integers; every value keeps its position in
// the text.
//
//   const dv_jval *v;
//   DV_TRY(dv_json_parse(&v, &src, &arena, diag));
//   const dv_jval *cores = dv_jget(v, "cores");       // NULL: there is none
#ifndef DV_JSONREAD_H
#define DV_JSONREAD_H
#include "base/diag.h"
#include "base/mem.h"

typedef enum dv_jkind {
    DV_JNULL,
    DV_JBOOL,
    DV_JINT,
    DV_JFLOAT,
    DV_JSTRING,
    DV_JARRAY,
    DV_JOBJECT,
} dv_jkind;

typedef struct dv_jval {
    dv_jkind kind;
    uint32_t off;
    const char *key; // key in the enclosing object; NUL-terminated
    int64_t i;       // value if the kind is DV_JBOOL or DV_JINT
    double f;        // value if the kind is DV_JINT or DV_JFLOAT
    const char *s;   // value if the kind is DV_JSTRING; NUL-terminated
    struct dv_jval *items;
    int32_t n, cap;
} dv_jval;

dv_status dv_json_parse(const dv_jval **out, const dv_source *src,
                        dv_arena *arena, dv_diag *diag);
// Returns the member of an object with this key (the last one, if there are
// several). Returns NULL if there is none, or if v is not an object.
const dv_jval *dv_jget(const dv_jval *v, const char *key);
#endif
