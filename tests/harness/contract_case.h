// What tests of nests and contractions begin with.
#ifndef DV_CONTRACT_CASE_H
#define DV_CONTRACT_CASE_H
#include "harness/test.h"
#include "nest/nest.h"

static inline dv_nest *parse(const char *text)
{
    dv_nest *n = NULL;
    dv_diag *diag = dv_diag_create();
    if (dv_nest_parse(&n, text, strlen(text), "test", diag))
        fail_msg("%s", dv_diag_text(diag));
    dv_diag_destroy(diag);
    return n;
}
#endif
