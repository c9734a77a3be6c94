// Prints kernels as text, one instruction per line:
//
//     5a  4981fe80000000          cmpq $128, %r14
//     61  0f8cf1010000            jl 0x258
#include "jit/backend.h"
#include <stdio.h>

// Appends one line: the offset, the bytes in hexadecimal (as one number where
// instructions are words) and the assembly text.
static void list_line(dv_text *out, const dv_isa *isa,
                      const unsigned char *code, size_t at, size_t n,
                      const char *text)
{
    enum { MOST_BYTES = 16 };
    char hex[2 * MOST_BYTES + 1] = "";
    for (size_t i = 0; i < n && i < MOST_BYTES; i++)
        snprintf(hex + 2 * i, 3, "%02x",
                 code[at + (dv_backend_of(isa)->words ? n - 1 - i : i)]);
    dv_put(out, "    %4zx  %-*s  %s\n", at, dv_backend_of(isa)->words ? 8 : 22,
           hex, text);
}

// Appends data that is not code as .long, or as .byte where fewer than four
// aligned bytes are left. Returns the number of bytes.
static size_t list_data(dv_text *out, const dv_isa *isa,
                        const unsigned char *code, size_t at, size_t size)
{
    char text[32];
    uint32_t v = code[at];
    size_t n = at % sizeof v || size - at < sizeof v ? 1 : sizeof v;
    for (size_t i = 1; i < n; i++)
        v |= (uint32_t)code[at + i] << 8 * i;
    snprintf(text, sizeof text, n == 1 ? ".byte 0x%02x" : ".long 0x%08x",
             (unsigned)v);
    list_line(out, isa, code, at, n, text);
    return n;
}

void dv_isa_list(const dv_isa *isa, const unsigned char *code, size_t size,
                 dv_text *out)
{
    size_t data = size;
    for (size_t at = 0; at < size;) {
        dv_text text = {0};
        size_t n = at < data
                       ? dv_backend_of(isa)->list(&text, code, at, size, &data)
                       : 0;
        if (n && text.at)
            list_line(out, isa, code, at, n, text.at);
        at += n ? n : list_data(out, isa, code, at, size);
        dv_text_free(&text);
    }
}
