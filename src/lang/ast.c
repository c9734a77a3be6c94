// The run-time tables of functions and reducers, generated from op.def, and
// equality of syntax trees.
#include "lang/ast.h"
#include <math.h>
#include <string.h>

static const dv_fn_info fns[] = {
#define DV_FN(NAME, text, n_args, prec, real, flops)                           \
    {text, n_args, prec, real, flops},
#define DV_REDUCER(NAME, text, zero, real)
#include "lang/op.def"
#undef DV_FN
#undef DV_REDUCER
};

static const dv_reducer_info reducers[] = {
#define DV_FN(NAME, text, n_args, prec, real, flops)
#define DV_REDUCER(NAME, text, zero, real) {text, zero, real},
#include "lang/op.def"
#undef DV_FN
#undef DV_REDUCER
};

enum {
    N_FNS = sizeof fns / sizeof *fns,
    N_REDUCERS = sizeof reducers / sizeof *reducers,
};

int dv_str_eq(dv_str a, dv_str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.at, b.at, a.len) == 0);
}

int dv_str_is(dv_str a, const char *word)
{
    return a.len == strlen(word) && memcmp(a.at, word, a.len) == 0;
}

const dv_fn_info *dv_fn_get(dv_fn f)
{
    return &fns[f];
}

const dv_reducer_info *dv_reducer_get(dv_reducer r)
{
    return &reducers[r];
}

int dv_fn_find(dv_str name)
{
    for (int i = 0; i < N_FNS; i++)
        if (fns[i].prec == 0 && dv_str_is(name, fns[i].text))
            return i;
    return -1;
}

int dv_reducer_find(dv_str name)
{
    for (int i = 0; i < N_REDUCERS; i++)
        if (dv_str_is(name, reducers[i].text))
            return i;
    return -1;
}
