// Loses memory: the address sanitizer must say so, whatever leaks.c leaves out.
#include <stdlib.h>

static void *volatile kept;

int main(void)
{
    kept = malloc(100);
    kept = NULL;
    kept = malloc(10); // still known, no leak
    return 0;
}
