// The run-time tables of functions and reducers, generated from op.def, and
// equality of syntax trees.
#include "lang/ast.h"
#include "lang/reduce.h"
#include <math.h>
#include <string.h>

static const dv_fn_info fns[] = {
#define ANY      0, 0
#define FLOATS   1, 0
#define INTEGERS 0, 1
#define DV_FN(NAME, text, word, n_args, prec, takes, flops, ulps, slope, ...)  \
    {text, word, n_args, prec, takes, flops, ulps, slope, NULL},
#define DV_DEFINED(NAME, text, n_args, prec, definition)                       \
    {text, NULL, n_args, prec, ANY, 0, 0, 0, definition},
#include "lang/op.def"
};

static const dv_reducer_info reducers[] = {
#define DV_REDUCER(NAME, text, zero, real) {text, zero, real, -1},
#include "lang/op.def"
#define DV_ARG_REDUCER(NAME, text, of) {text, 0, 0, DV_RED_##of},
#include "lang/op.def"
    [DV_RED_TOPK] = {"topk", 0, 0, -1},
    [DV_RED_ARGTOPK] = {"argtopk", 0, 0, -1},
};

enum { N_REDUCERS = sizeof reducers / sizeof *reducers };

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

int dv_n_fns(void)
{
    return DV_N_ALL_FNS;
}

int dv_n_reducers(void)
{
    return N_REDUCERS;
}

int dv_fn_find(dv_str name)
{
    for (int i = 0; i < DV_N_ALL_FNS; i++)
        if (fns[i].prec == 0 && dv_str_is(name, fns[i].text))
            return i;
    return -1;
}

int dv_operator_find(dv_str text, int n_args)
{
    for (int i = 0; i < DV_N_ALL_FNS; i++)
        if (fns[i].prec && fns[i].n_args == n_args &&
            fns[i].text[0] == text.at[0] && dv_str_is(text, fns[i].text))
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
