// Listing AArch64 code.
#ifndef DV_JIT_LIST_H
#define DV_JIT_LIST_H
#include "base/text.h"
#include <stdint.h>

// Append a word as assembly; 0: no row of insn.def has it (constants between
// kernels, as a rule), and nothing is appended.
int dv_insn_list(dv_text *out, uint32_t word);
#endif
