// On some machines the leak sanitizer takes seconds for every program, because
// it walks through all possible addresses. A program that has freed everything
// it allocated has no leaks, so only the others are searched.
#include <stddef.h>
#include <stdio.h>

// Functions of the sanitizers, whose headers not every compiler has.
size_t __sanitizer_get_current_allocated_bytes(void);
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);

static size_t before; // what libraries had allocated before main

__attribute__((constructor)) static void note(void)
{
    static char buffer[4096]; // otherwise stdout allocates one and keeps it
    setvbuf(stdout, buffer, _IOLBF, sizeof buffer);
    before = __sanitizer_get_current_allocated_bytes();
}

// The sanitizer calls this when the program ends.
int __lsan_is_turned_off(void)
{
    return __sanitizer_get_current_allocated_bytes() == before;
}
