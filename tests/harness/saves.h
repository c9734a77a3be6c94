// Finds out which registers of its caller a kernel changes, on aarch64.
#ifndef DV_TEST_SAVES_H
#define DV_TEST_SAVES_H
#include <stdint.h>
#if defined(__aarch64__)
// Calls f(a, b, c, args) with a known number in each of the callee-saved
// registers x19 to x28 and d8 to d15. Returns the bits of those that have
// changed: bit n for xn, bit n for dn.
uint64_t called_with_numbers(void *f, const void *a, const void *b, void *c,
                             const void *args);
__asm__(".text\n"
        ".globl called_with_numbers\n"
        ".type called_with_numbers, %function\n"
        "called_with_numbers:\n"
        "stp x29, x30, [sp, #-160]!\n"
        "mov x29, sp\n"
        "stp x19, x20, [sp, #16]\n"
        "stp x21, x22, [sp, #32]\n"
        "stp x23, x24, [sp, #48]\n"
        "stp x25, x26, [sp, #64]\n"
        "stp x27, x28, [sp, #80]\n"
        "stp d8, d9, [sp, #96]\n"
        "stp d10, d11, [sp, #112]\n"
        "stp d12, d13, [sp, #128]\n"
        "stp d14, d15, [sp, #144]\n"
        "mov x9, x0\n"
        "mov x0, x1\n"
        "mov x1, x2\n"
        "mov x2, x3\n"
        "mov x3, x4\n"
        ".irp n, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28\n"
        "mov x\\n, #(\\n * 1001)\n"
        ".endr\n"
        ".irp n, 8, 9, 10, 11, 12, 13, 14, 15\n"
        "mov x10, #(\\n * 1001)\n"
        "fmov d\\n, x10\n"
        ".endr\n"
        "blr x9\n"
        "mov x0, #0\n"
        ".irp n, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28\n"
        "mov x1, #(\\n * 1001)\n"
        "cmp x\\n, x1\n"
        "cset x2, ne\n"
        "orr x0, x0, x2, lsl #\\n\n"
        ".endr\n"
        ".irp n, 8, 9, 10, 11, 12, 13, 14, 15\n"
        "mov x1, #(\\n * 1001)\n"
        "fmov x3, d\\n\n"
        "cmp x3, x1\n"
        "cset x2, ne\n"
        "orr x0, x0, x2, lsl #\\n\n"
        ".endr\n"
        "ldp x19, x20, [sp, #16]\n"
        "ldp x21, x22, [sp, #32]\n"
        "ldp x23, x24, [sp, #48]\n"
        "ldp x25, x26, [sp, #64]\n"
        "ldp x27, x28, [sp, #80]\n"
        "ldp d8, d9, [sp, #96]\n"
        "ldp d10, d11, [sp, #112]\n"
        "ldp d12, d13, [sp, #128]\n"
        "ldp d14, d15, [sp, #144]\n"
        "ldp x29, x30, [sp], #160\n"
        "ret\n");
#endif
#endif
