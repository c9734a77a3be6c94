// A run of instructions being written. Sticky: emit freely, test `failed` once.
// Nothing is ever half-encoded: an operand out of range sets `failed`.
#ifndef DV_JIT_CODE_H
#define DV_JIT_CODE_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct dv_code {
    unsigned char *at; // borrowed
    size_t n, cap;     // bytes
    int failed;
    void *keep; // borrowed: patterns that generators leave for the kernels that
                // follow (a64/pattern.c), DV_CODE_KEEP bytes, DV_CODE_ZEROS of
                // them 0 at first; NULL: none
} dv_code;

enum { DV_CODE_KEEP = 72 << 10, DV_CODE_ZEROS = 8 };

static inline void dv_code_bytes(dv_code *c, const void *from, size_t n)
{
    if (c->cap - c->n >= n) {
        memcpy(c->at + c->n, from, n);
        c->n += n;
    } else {
        c->failed = 1;
    }
}

// Instructions of 32 bits, low byte first.
static inline uint32_t dv_code_low_first(uint32_t word)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap32(word);
#endif
    return word;
}

static inline void dv_code_put(dv_code *c, uint32_t word)
{
    word = dv_code_low_first(word);
    dv_code_bytes(c, &word, sizeof word);
}
#endif
