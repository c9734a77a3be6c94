// Reducers in syntax trees: their variables, which may have bounds, and those
// reducers that order their operands.
#ifndef DV_REDUCE_H
#define DV_REDUCE_H
#include "lang/ast.h"

// topk gives the largest operands in descending order, numbered by another
// variable; argtopk gives their values of the reduced variable. Like argmax,
// both are replaced when a program is built (ir/build_top.c); their numbers
// follow those of op.def.
enum {
    DV_RED_TOPK = DV_RED_ARGMIN + 1,
    DV_RED_ARGTOPK,
};

static inline int dv_reducer_orders(int reducer)
{
    return reducer == DV_RED_TOPK || reducer == DV_RED_ARGTOPK;
}

// Returns the NAME node of the i-th variable (from 1) of a REDUCE node. A
// variable with a bound is stored as a comparison, such as k <= t.
static inline const dv_node *dv_node_reduced(const dv_node *n, uint32_t i)
{
    const dv_node *v = n->args[i];
    return v->kind == DV_NODE_APPLY ? v->args[0] : v;
}
#endif
