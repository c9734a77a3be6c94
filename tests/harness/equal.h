// Equality of syntax trees and of programs, for tests that print and parse
// them.
#ifndef DV_EQUAL_H
#define DV_EQUAL_H
#include "ir/program.h"
#include <string.h>

static inline int same_node(const dv_node *a, const dv_node *b)
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

static inline int same_place(const dv_placement_request *a,
                             const dv_placement_request *b)
{
    if (!a || !b)
        return a == b;
    return a->kind == b->kind && a->n_dims == b->n_dims &&
           memcmp(a->dims, b->dims, (size_t)a->n_dims * sizeof *a->dims) == 0;
}

// Returns whether two statements have equal notes on where tensors lie.
static inline int same_memory(const dv_stmt *a, const dv_stmt *b)
{
    int outputs = a->kind == DV_STMT_OUTPUT;
    for (int32_t i = 0; i < (outputs ? a->n_dims : 1); i++)
        if (!dv_memory_note_equal(a->memory ? a->memory[i] : NULL,
                                  b->memory ? b->memory[i] : NULL))
            return 0;
    return 1;
}

static inline int same_stmt(const dv_stmt *a, const dv_stmt *b)
{
    if (a->kind != b->kind || a->update != b->update ||
        a->is_extern != b->is_extern || a->dtype != b->dtype ||
        a->n_dims != b->n_dims || a->n_ranges != b->n_ranges ||
        !dv_str_eq(a->name, b->name) || !same_node(a->lhs, b->lhs) ||
        !same_node(a->value, b->value) || !same_place(a->place, b->place) ||
        !same_memory(a, b))
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

// Returns whether two lists have the same statements, ignoring source
// positions.
static inline int same_list(const dv_stmt *a, const dv_stmt *b)
{
    for (; a && b; a = a->next, b = b->next)
        if (!same_stmt(a, b) || !same_list(a->body, b->body))
            return 0;
    return !a && !b;
}

static inline int same_expr(const dv_expr *a, const dv_expr *b)
{
    if (a->kind != b->kind || a->dtype != b->dtype || a->n_args != b->n_args)
        return 0;
    if (a->kind == DV_EXPR_CONST)
        return memcmp(&a->value, &b->value, sizeof a->value) == 0;
    if (a->kind == DV_EXPR_READ)
        return a->read == b->read;
    if (a->kind == DV_EXPR_INDEX)
        return a->read == b->read && a->base == b->base;
    if (a->fn != b->fn || a->vars != b->vars)
        return 0;
    for (int i = 0; i < a->n_args; i++)
        if (!same_expr(a->arg[i], b->arg[i]))
            return 0;
    return 1;
}

static inline int same_op(const dv_op *a, const dv_op *b)
{
    if (strcmp(a->name, b->name) != 0 || a->n_vars != b->n_vars ||
        a->n_reads != b->n_reads || a->update != b->update ||
        a->is_extern != b->is_extern ||
        !dv_access_equal(a, &a->write, &b->write) ||
        !same_expr(a->body, b->body))
        return 0;
    for (int v = 0; v < a->n_vars; v++)
        if (strcmp(a->vars[v].name, b->vars[v].name) != 0 ||
            a->vars[v].begin != b->vars[v].begin ||
            a->vars[v].end != b->vars[v].end ||
            a->vars[v].reduce != b->vars[v].reduce)
            return 0;
    for (int i = 0; i < a->n_reads; i++)
        if (!dv_access_equal(a, &a->reads[i], &b->reads[i]))
            return 0;
    return 1;
}

static inline int same_tensor(const dv_tensor *a, const dv_tensor *b)
{
    int pa = a->place ? (int)a->place->kind : 0;
    int pb = b->place ? (int)b->place->kind : 0;
    return strcmp(a->name, b->name) == 0 && a->dtype == b->dtype &&
           a->n_dims == b->n_dims && a->is_input == b->is_input &&
           a->is_output == b->is_output && pa == pb &&
           dv_memory_note_equal(a->memory, b->memory) &&
           (a->n_dims == 0 ||
            memcmp(a->shape, b->shape, (size_t)a->n_dims * sizeof *a->shape) ==
                0);
}

// Returns whether two programs have the same tensors, ops and repeats,
// regardless of how their source text is formatted.
static inline int same_program(const dv_program *a, const dv_program *b)
{
    if (a->n_tensors != b->n_tensors || a->n_ops != b->n_ops ||
        a->n_repeats != b->n_repeats)
        return 0;
    for (int i = 0; i < a->n_tensors; i++)
        if (!same_tensor(&a->tensors[i], &b->tensors[i]))
            return 0;
    for (int i = 0; i < a->n_ops; i++)
        if (!same_op(&a->ops[i], &b->ops[i]))
            return 0;
    for (int i = 0; i < a->n_repeats; i++)
        if (a->repeats[i].first_op != b->repeats[i].first_op ||
            a->repeats[i].end_op != b->repeats[i].end_op ||
            a->repeats[i].times != b->repeats[i].times)
            return 0;
    return 1;
}
#endif
