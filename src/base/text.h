// A growing string, numbers as text, and a string-to-number table. Writers are
// sticky: write freely, test `failed` once.
#ifndef DV_TEXT_H
#define DV_TEXT_H
#include "base/mem.h"

typedef struct dv_text {
    char *at; // owned, NUL-terminated once anything was written
    size_t len, cap;
    int failed; // out of memory; all further writes do nothing
} dv_text;

void dv_put(dv_text *t, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void dv_put_bytes(dv_text *t, const char *bytes, size_t n);
// The shortest decimal that reads back as `v`; with a point or an exponent so
// that it reads as a float, `inf` for infinity. Never uses the locale.
void dv_put_double(dv_text *t, double v);
// Bytes as people say them: 2MiB, 1.5KiB, 17.
void dv_put_bytes_of_memory(dv_text *t, int64_t bytes);
// Hand the string over to the caller (dv_release it); NULL when failed.
char *dv_text_take(dv_text *t);
void dv_text_free(dv_text *t);

// strtod without the locale, over exactly `len` characters.
double dv_parse_double(const char *s, size_t len);

// Maps strings to integers. Keys are borrowed and must outlive the table.
typedef struct dv_table {
    struct dv_slot *slots; // owned by the arena
    size_t n, cap;         // cap is 0 or a power of two
} dv_table;

// The value of a key, or `missing`.
int32_t dv_table_get(const dv_table *t, const char *key, size_t len,
                     int32_t missing);
// Add or change. 0 when out of memory.
int dv_table_set(dv_table *t, dv_arena *a, const char *key, size_t len,
                 int32_t value);
#endif
