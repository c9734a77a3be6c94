// Disassembles the AArch64 instructions that insn.def has.
#ifndef DV_JIT_LIST_H
#define DV_JIT_LIST_H
#include "base/text.h"
#include <stdint.h>

// Appends the assembly text of an instruction word and returns 1. Returns 0 and
// appends nothing if no row of insn.def matches, as for most constants in the
// code.
int dv_insn_list(dv_text *out, uint32_t word);
// Appends the assembly text of the word at byte `at` of a kernel of `size`
// bytes, and returns the word's size, or 0 if it is no instruction. If the
// instruction loads a constant that lies before *data, sets *data to its
// offset.
size_t dv_a64_list(dv_text *out, const unsigned char *code, size_t at,
                   size_t size, size_t *data);
#endif
