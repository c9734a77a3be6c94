// A contraction of two tensors in column-major order, and the lines of
// tccg.csv.
#ifndef DV_BENCH_CONTRACTION_H
#define DV_BENCH_CONTRACTION_H
#include "nest/nest.h"
#include <stdlib.h>
#include <string.h>

typedef struct contraction {
    const char *index[DV_N_OPERANDS]; // of A, B, C
    int64_t size[128];
} contraction;

// Cuts the line up; x keeps parts of it. 0: it is no contraction.
static inline int read_line(char *line, contraction *x, char **name)
{
    char *field[5], *p = line;
    for (int i = 0; i < 5; i++) {
        field[i] = p;
        p = strchr(p, ',');
        if (!p)
            return 0;
        *p++ = 0;
    }
    *x = (contraction){.index = {field[2], field[3], field[1]}};
    *name = !strncmp(field[0], "tccg_", 5) ? field[0] + 5 : field[0];
    for (p = field[4]; p[0] && p[1] == '=';) {
        x->size[(unsigned char)p[0]] = strtoll(p + 2, &p, 10);
        p += *p == ';';
    }
    return field[4][0] && field[4][1] == '=';
}
#endif
