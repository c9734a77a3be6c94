// Runs a fuzzer's entry point on every file of the given folders, so that the
// corpus is tested without a fuzzer.
#define _POSIX_C_SOURCE 200809L // opendir
#include "fuzz.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

static int replay(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return 0;
    uint8_t *data = malloc(1 << 20);
    size_t n = data ? fread(data, 1, 1 << 20, f) : 0;
    fclose(f);
    // A copy of exactly the right size, so that a sanitizer sees reads past the
    // end.
    uint8_t *exact = malloc(n ? n : 1);
    for (size_t i = 0; exact && i < n; i++)
        exact[i] = data[i];
    if (exact)
        LLVMFuzzerTestOneInput(exact, n);
    free(exact);
    free(data);
    return 1;
}

int main(int argc, char **argv)
{
    int n = 0;
    for (int i = 1; i < argc; i++) {
        DIR *dir = opendir(argv[i]);
        for (struct dirent *e; dir && (e = readdir(dir));) {
            char path[4096];
            snprintf(path, sizeof path, "%s/%s", argv[i], e->d_name);
            if (e->d_name[0] != '.')
                n += replay(path);
        }
        if (dir)
            closedir(dir);
    }
    printf("%d inputs replayed\n", n);
    return n ? 0 : 1;
}
