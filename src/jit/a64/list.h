// Listing AArch64 code.
#ifndef DV_JIT_LIST_H
#define DV_JIT_LIST_H
#include "base/text.h"
#include <stdint.h>

// Append a word as assembly; 0: no row of insn.def has it (constants between
// kernels, as a rule), and nothing is appended.
int dv_insn_list(dv_text *out, uint32_t word);
// The same of the word at byte `at` of `size`, which are returned. *data
// becomes where constants begin that it loads, if they begin before.
size_t dv_a64_list(dv_text *out, const unsigned char *code, size_t at,
                   size_t size, size_t *data);
#endif
