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
    int calls; // 1: the code calls functions of this process
} dv_code;

enum { DV_CODE_KEEP = 40 << 10, DV_CODE_ZEROS = 8 };

// The parts of generators that all instruction sets share (jit/gemm/walk.h and
// dots.h, jit/vec/emit.h) are included by the generators of each family, and
// written in virtual operations on general registers that gen.h of each family
// defines, for the generator `g`:
//
//   DV_LEA(to, from, bytes)        adds a constant: to = from + bytes
//   DV_MOV(to, from)               copies a register
//   DV_SET(reg, n)                 sets a register to a constant
//   DV_AGAIN(reg, top)             decrements, jumps back to `top` unless 0
//   DV_LOAD(reg, base, bytes)      loads 64 bits at base + bytes
//   DV_STORE(reg, base, bytes)     stores 64 bits at base + bytes
//
// DV_ADD adds a constant in place, DV_GET loads a field of the arguments of a
// product. DV_LOOP emits what the C block after it emits, as the body of a loop
// that runs `times` times; nothing if that is 0. `reg` is the register that
// counts.
#define DV_ADD(reg, bytes) DV_LEA(reg, reg, bytes)
#define DV_GET(reg, field) DV_LOAD(reg, X_ARGS, offsetof(dv_gemm_args, field))
#define DV_LOOP(reg, times)                                                    \
    for (size_t reg##_top = (times) > 0 ? (DV_SET(reg, times), g->code->n + 1) \
                                        : 0;                                   \
         reg##_top; DV_AGAIN(reg, reg##_top - 1), reg##_top = 0)

// DV_REPEAT is DV_LOOP, except that a loop that runs once needs no counter: its
// body is emitted without a loop.
#define DV_REPEAT(reg, times)                                                  \
    for (size_t reg##_top = (times) > 0                                        \
                                ? ((times) > 1 ? DV_SET(reg, times) : (void)0, \
                                   g->code->n + 1)                             \
                                : 0;                                           \
         reg##_top; ((times) > 1 ? DV_AGAIN(reg, reg##_top - 1) : (void)0),    \
                reg##_top = 0)

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
