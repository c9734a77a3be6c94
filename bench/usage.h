// What a driver takes.
#ifndef DV_BENCH_USAGE_H
#define DV_BENCH_USAGE_H
#include <stdarg.h>
#include <stdio.h>

// Print it; the exit code: 0 for who asked (-h), else 2.
__attribute__((format(printf, 2, 3))) static inline int
tell_usage(int asked, const char *text, ...)
{
    FILE *to = asked ? stdout : stderr;
    va_list args;
    va_start(args, text);
    fputs("usage: ", to);
    vfprintf(to, text, args);
    va_end(args);
    return asked ? 0 : 2;
}
#endif
