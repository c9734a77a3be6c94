// Reads any bytes as a plan of tiles on cores: lint answers with a report or
// fails with a message, and gives the same answer twice.
#include "fuzz.h"
#include "divvy/grid.h"
#include "base/diag.h"
#include <stdlib.h>
#include <string.h>

static void must(int holds)
{
    if (!holds)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *report[2] = {NULL, NULL};
    int64_t n[2] = {0, 0}, tiles[2] = {3, 4};
    for (int i = 0; i < 2; i++) {
        dv_diag *diag = dv_diag_create();
        if (!diag)
            return 0;
        dv_status s = dv_lint(NULL, (const char *)data, size, "fuzz",
                              size % 2 ? tiles : NULL, &n[i], &report[i], diag);
        must(s == dv_diag_status(diag));
        must((s == DV_OK) == (report[i] != NULL));
        dv_diag_destroy(diag);
    }
    must(n[0] == n[1]);
    must(!report[0] || !strcmp(report[0], report[1]));
    dv_free(report[0]);
    dv_free(report[1]);
    return 0;
}
