// A growable string, conversion of numbers to and from text, and a
// string-to-integer hash table. Errors of writers are sticky: callers test
// `failed` once at the end.
#ifndef DV_TEXT_H
#define DV_TEXT_H
#include "base/mem.h"

typedef struct dv_text {
    char *at; // owned; NUL-terminated once anything was written
    size_t len, cap;
    int failed; // 1 after running out of memory; all further writes do nothing
} dv_text;

void dv_put(dv_text *t, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void dv_put_bytes(dv_text *t, const char *bytes, size_t n);
// Prints the shortest decimal that reads back as `v`, with a point or an
// exponent so that it is parsed as a float, and `inf` for infinity. Ignores the
// locale.
void dv_put_double(dv_text *t, double v);
// Prints a byte count with a binary unit: 2MiB, 1.5KiB, 17.
void dv_put_byte_size(dv_text *t, int64_t bytes);
// Returns the string, which the caller frees with dv_release; NULL if a write
// failed.
char *dv_text_take(dv_text *t);
void dv_text_free(dv_text *t);

// Like strtod, but ignores the locale and reads exactly `len` characters.
double dv_parse_double(const char *s, size_t len);

// A hash table from strings to integers. Keys are borrowed and must outlive the
// table.
typedef struct dv_table {
    struct dv_slot *slots; // array allocated in the arena
    size_t n, cap;         // number of entries; capacity, 0 or a power of two
} dv_table;

// Returns the value of a key, or `missing` if the table does not have the key.
int32_t dv_table_get(const dv_table *t, const char *key, size_t len,
                     int32_t missing);
// Adds a key or changes its value. Returns 0 if out of memory.
int dv_table_set(dv_table *t, dv_arena *a, const char *key, size_t len,
                 int32_t value);
#endif
