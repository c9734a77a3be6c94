// The entry point of every fuzzer.
#ifndef DV_FUZZ_H
#define DV_FUZZ_H
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
#endif
