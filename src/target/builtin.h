// The texts of the target descriptions targets/*.dv, compiled into the library
// by cmake/embed.cmake.
#ifndef DV_BUILTIN_H
#define DV_BUILTIN_H
#include <stddef.h>

struct dv_builtin {
    const char *name;  // file name without .dv; NULL ends the table
    const char *about; // value of the target's property `about`
    const char *text;
    size_t len;
};
extern const struct dv_builtin dv_builtins[];
#endif
