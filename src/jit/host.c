// The machine this library was compiled for.
#include "jit/host.h"

int dv_jit_host_has_kernels(void)
{
#if defined(__aarch64__) && defined(__linux__) && defined(__AARCH64EL__)
    return 1;
#else
    return 0;
#endif
}
