// Reads any bytes as a problem of fusion: either it fails with a message, or
// the problem has a valid schedule, is found not to fit, or is refused.
#include "fuzz.h"
#include "base/mem.h"
#include "fuse/contest.h"
#include <stdlib.h>

static void must(int holds)
{
    if (!holds)
        abort();
}

// Large tensors with small tiles take the checker too long.
static int is_small(const dv_fuse_problem *p)
{
    for (size_t t = 0; t < p->n_tensors; t++)
        if (p->tensors[t].width > 64 || p->tensors[t].height > 64)
            return 0;
    return p->n_ops <= 16;
}

static void fuse(const dv_fuse_problem *p)
{
    dv_fuse_options o = DV_FUSE_OPTIONS_INIT;
    o.budget = 500;
    for (int full = 0; full < 2; full++) {
        dv_fuse_schedule *s = NULL;
        dv_text out = {0};
        o.reading = full ? DV_FUSE_FULL : DV_FUSE_NATIVE;
        if (dv_fuse(&s, p, &o, NULL))
            continue;
        must(dv_fuse_check(s, p, &o, NULL) == DV_OK);
        dv_fuse_print(&out, s);
        dv_text_free(&out);
        dv_fuse_schedule_destroy(s);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    dv_arena arena = {0};
    dv_fuse_problem p;
    dv_diag *diag = dv_diag_create();
    if (!diag)
        return 0;
    dv_source src = {"fuzz.json", (const char *)data, size};
    dv_status s = dv_fuse_parse(&p, &src, &arena, diag);
    must(s == dv_diag_status(diag));
    if (s == DV_OK && is_small(&p))
        fuse(&p);
    dv_arena_free(&arena);
    dv_diag_destroy(diag);
    return 0;
}
