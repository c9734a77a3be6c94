// What the tests of generated kernels share: random numbers, operands between
// pages that may not be touched, and the JIT as a fixture.
#ifndef DV_TESTS_KERNELS_H
#define DV_TESTS_KERNELS_H
#include "harness/test.h"
#include "jit/jit.h"

// Random numbers from a fixed seed (xorshift): any 64 bits, or 0..n-1.
uint64_t rnd(void);
int pick(int n);

// Memory that begins or ends at a page that may not be touched.
typedef struct fenced {
    unsigned char *map, *data;
    size_t map_bytes;
    int64_t bytes; // of data
} fenced;

// Returns `bytes` of memory that begin (at_end 0) or end (1) at a page with the
// protection `around`, PROT_NONE or PROT_READ. A page that may be read holds
// bytes of 255, which make nan or -1.
fenced fence_in(size_t bytes, int at_end, int around);
void unfence(fenced *f);

// A JIT for this machine, which the caller destroys. The running test is
// skipped if there are no kernels for this machine.
dv_jit *new_jit(void);

// Set-up and tear-down of a group of tests whose state is a JIT. Without
// kernels for this machine the whole program is skipped.
int jit_begin(void **state);
int jit_end(void **state);

// The same for tests that use the variable `test_jit`: it is NULL without
// kernels, and skip_without_kernels() skips the running test.
extern dv_jit *test_jit;
int jit_set_up(void **state);
int jit_tear_down(void **state);
void skip_without_kernels(void);
#endif
