// The run-time tables generated from op.def, and equality of trees.
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

static int same_node(const dv_node *a, const dv_node *b)
{
    if (!a || !b)
        return a == b;
    if (a->kind != b->kind || a->op != b->op || a->n_args != b->n_args ||
        !dv_str_eq(a->name, b->name))
        return 0;
    if (a->kind == DV_NODE_INT)
        return a->i == b->i;
    if (a->kind == DV_NODE_FLOAT)
        return a->f == b->f;
    for (uint32_t i = 0; i < a->n_args; i++)
        if (!same_node(a->args[i], b->args[i]))
            return 0;
    return 1;
}

static int same_place(const dv_spread *a, const dv_spread *b)
{
    if (!a || !b)
        return a == b;
    return a->kind == b->kind && a->n_dims == b->n_dims &&
           memcmp(a->dims, b->dims, (size_t)a->n_dims * sizeof *a->dims) == 0;
}

static int same_stmt(const dv_stmt *a, const dv_stmt *b)
{
    if (a->kind != b->kind || a->update != b->update ||
        a->is_extern != b->is_extern || a->dtype != b->dtype ||
        a->n_dims != b->n_dims || a->n_ranges != b->n_ranges ||
        !dv_str_eq(a->name, b->name) || !same_node(a->lhs, b->lhs) ||
        !same_node(a->value, b->value) || !same_place(a->place, b->place))
        return 0;
    for (int32_t i = 0; i < a->n_dims; i++)
        if (!same_node(a->dims[i], b->dims[i]))
            return 0;
    for (int32_t i = 0; i < a->n_ranges; i++)
        if (!dv_str_eq(a->ranges[i].name, b->ranges[i].name) ||
            !same_node(a->ranges[i].begin, b->ranges[i].begin) ||
            !same_node(a->ranges[i].end, b->ranges[i].end))
            return 0;
    return 1;
}

static int same_list(const dv_stmt *a, const dv_stmt *b)
{
    for (; a && b; a = a->next, b = b->next)
        if (!same_stmt(a, b) || !same_list(a->body, b->body))
            return 0;
    return !a && !b;
}

int dv_ast_equal(const dv_ast *a, const dv_ast *b)
{
    return same_list(a->first, b->first);
}
