// Reads any bytes as a problem of the contest: either it fails with a message,
// or the solver's result passes the check and costs no less than its bound.
#include "fuzz.h"
#include "choose/read.h"
#include <stdlib.h>
#include <string.h>

static void must(int holds)
{
    if (!holds)
        abort();
}

static void choose(const dv_choose_problem *p)
{
    dv_choose_options o = DV_CHOOSE_OPTIONS_INIT;
    dv_choose_result *r = NULL;
    int64_t cost;
    o.budget = 20000;
    if (dv_choose(&r, p, &o, NULL))
        return;
    must(dv_choose_check(p, r->strategies, r->n_nodes, &cost, NULL) == DV_OK);
    must(cost == r->cost && r->bound <= cost);
    must(r->optimal == (r->bound == cost));
    dv_choose_result_destroy(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    dv_choose_file f;
    dv_diag *diag = dv_diag_create();
    char *text = malloc(size + 1); // the reader wants a 0 byte at the end
    if (diag && text) {
        memcpy(text, data, size);
        text[size] = 0;
        dv_status s = dv_choose_read(&f, text, size, "fuzz.json", diag);
        must(s == dv_diag_status(diag));
        if (s == DV_OK) {
            choose(&f.problem);
            dv_choose_file_free(&f);
        }
    }
    free(text);
    dv_diag_destroy(diag);
    return 0;
}
