// Fuzzes the reader and the passes of nests: a nest that is read prints to a
// text that reads back as the same nest (T1), and passes keep a valid nest
// valid.
#include "fuzz.h"
#include "nest/nest.h"
#include <stdlib.h>
#include <string.h>

static void same_text(const dv_nest *n)
{
    dv_text text = {0};
    dv_nest back;
    dv_nest_print(&text, n);
    dv_source src = {"printed", text.at, text.len};
    if (text.failed || dv_nest_from(&back, &src, NULL) ||
        !dv_nest_equal(n, &back))
        abort();
    dv_text_free(&text);
}

static void after(void *user, const char *pass, const dv_nest *n)
{
    (void)user;
    (void)pass;
    same_text(n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const lists[] = {"seed", "seed+brgemm", "best"};
    dv_diag *diag = dv_diag_create();
    dv_source src = {"fuzz", (const char *)data, size};
    dv_nest n;
    dv_status st = dv_nest_from(&n, &src, diag);
    if (st == DV_OK) {
        same_text(&n);
        st = dv_nest_check(&n, diag);
    }
    for (int i = 0; i < 3 && st == DV_OK; i++) {
        dv_nest work = n;
        dv_nest_options options = {
            .size = sizeof(dv_nest_options), .threads = 3, .after = after};
        st = dv_nest_optimise(&work, dv_nest_list(lists[i]), &options, diag);
        if (st == DV_E_NEST && dv_nest_is_tiled(&n))
            break; // It was laid out before.
        if (st != DV_OK && st != DV_E_LIMIT)
            abort(); // A pass broke the nest.
        if (st == DV_OK && i < 2)
            dv_nest_verify(&work, NULL);
        if (st == DV_OK && i == 2 && dv_nest_check_order(&work, NULL))
            abort(); // It must be in order at least.
    }
    if (st != DV_OK && !dv_diag_text(diag)[0])
        abort(); // A failure must say something.
    dv_diag_destroy(diag);
    return 0;
}
