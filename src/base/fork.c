#define _POSIX_C_SOURCE 200809L // for getpid
#include "base/fork.h"
#include <stdatomic.h>
#include <unistd.h>

int dv_has_threads(void)
{
#ifdef _OPENMP
    static atomic_int first; // pid of the first caller; 0 before that
    int none = 0, me = (int)getpid();
    return atomic_compare_exchange_strong(&first, &none, me) || none == me;
#else
    return 0;
#endif
}
