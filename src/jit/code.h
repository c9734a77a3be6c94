// A run of instruction words being written. Sticky: emit freely, test `failed`
// once. Nothing is ever half-encoded: an operand out of range sets `failed`.
#ifndef DV_JIT_CODE_H
#define DV_JIT_CODE_H
#include <stddef.h>
#include <stdint.h>

typedef struct dv_code {
    uint32_t *at; // borrowed
    size_t n, cap;
    int failed;
} dv_code;

static inline void dv_code_put(dv_code *c, uint32_t word)
{
    if (c->n < c->cap)
        c->at[c->n++] = word;
    else
        c->failed = 1;
}
#endif
