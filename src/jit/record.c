// Functions that record the calls of kernels (dv_jit_record): each jumps to the
// recorder with the number of its kernel as a fifth argument, which no kernel
// has. A plan's kernels can so be called without running them, to find out what
// a run of the plan calls (exec/record.c).
#include "jit/backend.h"

size_t dv_jit_put_recorder(unsigned char *out, dv_jit_called *called,
                           uint64_t kernel)
{
    uint64_t to = 0;
    memcpy(&to, &called, sizeof called);
    dv_code c = {.at = out, .cap = DV_RECORDER_BYTES};
#if defined(__x86_64__)
    dv_code_bytes(&c, "\x49\xb8", 2); // mov r8, the number
    dv_code_bytes(&c, &kernel, 8);
    dv_code_bytes(&c, "\x48\xb8", 2); // mov rax, the recorder
    dv_code_bytes(&c, &to, 8);
    dv_code_bytes(&c, "\xff\xe0", 2); // jmp rax
#elif defined(__aarch64__)
    // movz and movk set x4 (the kernel's number) and x16 (the recorder), 16
    // bits each; br x16 jumps to the recorder.
    enum { MOVZ = 0xd2800000, MOVK = 0xf2800000, BR_X16 = 0xd61f0200 };
    for (unsigned i = 0; i < 6; i++) {
        unsigned part = i < 2 ? i : i - 2, reg = i < 2 ? 4 : 16;
        uint64_t bits = (i < 2 ? kernel : to) >> 16 * part & 0xffff;
        dv_code_put(&c, (part ? (uint32_t)MOVK : (uint32_t)MOVZ) | part << 21 |
                            (uint32_t)bits << 5 | reg);
    }
    dv_code_put(&c, BR_X16);
#else
    (void)kernel;
#endif
    return c.failed ? 0 : c.n;
}
