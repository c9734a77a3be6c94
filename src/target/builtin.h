// The descriptions of targets/*.dv as text, built into the library by
// cmake/embed.cmake.
#ifndef DV_BUILTIN_H
#define DV_BUILTIN_H
#include <stddef.h>

struct dv_builtin {
    const char *name;  // of the file, without .dv; NULL ends the table
    const char *about; // its property of that name
    const char *text;
    size_t len;
};
extern const struct dv_builtin dv_builtins[];
#endif
