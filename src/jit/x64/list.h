// Disassembles x86-64 code for listings.
#ifndef DV_X64_LIST_H
#define DV_X64_LIST_H
#include "base/text.h"
#include <stddef.h>

// Appends the instruction at offset `at` of `size` bytes of code as assembly
// and returns its length. Returns 0 and appends nothing if no row of insn.def
// encodes it, as for constants behind a kernel. If the instruction refers to a
// constant before *data, *data becomes the offset of that constant.
size_t dv_x_list(dv_text *out, const unsigned char *code, size_t at,
                 size_t size, size_t *data);
#endif
