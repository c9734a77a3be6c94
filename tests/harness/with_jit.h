// Tests whose state is a dv_jit; they are skipped where there are no kernels.
#ifndef DV_TESTS_WITH_JIT_H
#define DV_TESTS_WITH_JIT_H
#include "jit/jit.h"
#include <stdlib.h>

static inline int begin(void **state)
{
    dv_jit *jit;
    if (dv_jit_create(&jit, NULL))
        exit(77); // no kernels for this machine
    *state = jit;
    return 0;
}

static inline int end(void **state)
{
    dv_jit_destroy(*state);
    return 0;
}
#endif
