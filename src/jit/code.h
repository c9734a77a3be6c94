// A buffer that instructions are appended to. Errors are sticky: an operand out
// of range or a full buffer sets `failed`, which callers test once at the end.
// An instruction that does not fit is not written at all.
#ifndef DV_JIT_CODE_H
#define DV_JIT_CODE_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct dv_code {
    unsigned char *at; // the buffer; borrowed
    size_t n, cap;     // bytes written, and capacity in bytes
    int failed;
    // Borrowed memory of DV_CODE_KEEP bytes that outlives this kernel:
    // generators cache patterns of instructions there for later kernels
    // (a64/pattern.c). Its first DV_CODE_ZEROS bytes are 0 at the start. NULL:
    // nothing is cached.
    void *keep;
} dv_code;

enum { DV_CODE_KEEP = 40 << 10, DV_CODE_ZEROS = 8 };

// Emits what the C block after the macro emits, as the body of a loop that runs
// `times` times; nothing if that is 0. `reg` is the register that counts.
// DV_SET and DV_AGAIN are macros of each family's gen.h, and `g` is the
// generator.
#define DV_LOOP(reg, times)                                                    \
    for (size_t reg##_top = (times) > 0 ? (DV_SET(reg, times), g->code->n + 1) \
                                        : 0;                                   \
         reg##_top; DV_AGAIN(reg, reg##_top - 1), reg##_top = 0)

static inline void dv_code_bytes(dv_code *c, const void *from, size_t n)
{
    if (c->cap - c->n >= n) {
        memcpy(c->at + c->n, from, n);
        c->n += n;
    } else {
        c->failed = 1;
    }
}

// Converts a 32-bit instruction to the little-endian order in which it is
// stored.
static inline uint32_t dv_code_little_endian(uint32_t word)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap32(word);
#endif
    return word;
}

static inline void dv_code_put(dv_code *c, uint32_t word)
{
    word = dv_code_little_endian(word);
    dv_code_bytes(c, &word, sizeof word);
}
#endif
