// The machine this library was compiled for, and what it turns out to be.
#include "jit/host.h"
#if defined(__aarch64__) && defined(__linux__) && defined(__AARCH64EL__)
#include <sys/auxv.h>

enum { CAP2_BF16 = 1 << 14 };

int dv_jit_host_has_kernels(void)
{
    return 1;
}

int dv_jit_host_has_bf16(void)
{
    return (getauxval(AT_HWCAP2) & CAP2_BF16) != 0;
}
#else
int dv_jit_host_has_kernels(void)
{
    return 0;
}

int dv_jit_host_has_bf16(void)
{
    return 0;
}
#endif
