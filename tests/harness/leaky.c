// Leaks memory: the address sanitizer must report it, in spite of leaks.c.
#include <stdlib.h>

static void *volatile kept;

int main(void)
{
    kept = malloc(100);
    kept = NULL;
    kept = malloc(10); // still reachable, not a leak
    return 0;
}
