// Listing x86-64 code.
#ifndef DV_X64_LIST_H
#define DV_X64_LIST_H
#include "base/text.h"
#include <stddef.h>

// Append the instruction at byte `at` of `size` bytes as assembly, and return
// its bytes; 0: no row of insn.def has it (constants behind a kernel, as a
// rule), and nothing is appended. *data becomes where constants begin that it
// refers to, if they begin before.
size_t dv_x_list(dv_text *out, const unsigned char *code, size_t at,
                 size_t size, size_t *data);
#endif
