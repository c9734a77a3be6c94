// Splits the expression of an op at its reduction into two expressions: the
// sums, and what is computed from them.
//
//   y[i] = exp((mean[j] x[i,j])) * z[i]    sums      sum[j] x[i,j]
//                                          results   exp(sums / n) * z[i]
#include "ir/program.h"

int32_t dv_expr_part_read(const dv_expr_part *part, int32_t read)
{
    int32_t i = 0;
    while (i < part->n_reads && part->reads[i] != read)
        i++;
    return i;
}

// Appends a read to the part's list unless it is there; reads that supply its
// indirect indices come first.
static void list_read(dv_expr_part *part, const dv_op *op, int32_t read)
{
    const dv_access *a = &op->reads[read];
    if (dv_expr_part_read(part, read) < part->n_reads)
        return;
    for (int d = 0; d < a->n_dims; d++)
        if (a->index[d].via >= 0)
            list_read(part, op, a->index[d].via);
    part->reads[part->n_reads++] = read;
}

// Lists the reads of an expression, except those inside the node `sum`.
static void list_reads(dv_expr_part *part, const dv_op *op, const dv_expr *e,
                       const dv_expr *sum)
{
    if (e == sum)
        return;
    if (e->kind == DV_EXPR_READ)
        list_read(part, op, e->read);
    for (int i = 0; i < e->n_args; i++)
        list_reads(part, op, e->arg[i], sum);
}

// Copies an expression and renumbers its reads as in the part; `instead`
// replaces the node `sum`. Returns NULL if out of memory.
static dv_expr *copy_expr(const dv_expr_part *part, const dv_expr *e,
                          const dv_expr *sum, dv_expr *instead, dv_arena *arena)
{
    if (e == sum)
        return instead;
    dv_expr *to = DV_NEW(arena, dv_expr, 1);
    if (!to)
        return NULL;
    *to = *e;
    if (e->kind == DV_EXPR_READ)
        to->read = dv_expr_part_read(part, e->read);
    for (int i = 0; i < e->n_args; i++)
        if (!(to->arg[i] = copy_expr(part, e->arg[i], sum, instead, arena)))
            return NULL;
    if (e->kind == DV_EXPR_APPLY && e->n_args)
        to->dtype = dv_expr_type(to); // sums may have another type
    return to;
}

static int make_list(dv_expr_part *out, const dv_op *op, const dv_expr *e,
                     const dv_expr *sum, dv_arena *arena)
{
    *out = (dv_expr_part){.reads = DV_NEW(arena, int32_t, op->n_reads + 1)};
    if (!out->reads)
        return 0;
    list_reads(out, op, e, sum);
    return 1;
}

int dv_op_take_sums(dv_expr_part *out, const dv_op *op, dv_arena *arena)
{
    const dv_expr *sum = dv_op_reduce(op);
    if (!make_list(out, op, sum, NULL, arena))
        return 0;
    dv_expr *body = copy_expr(out, sum, NULL, NULL, arena);
    if (body && sum->fn == DV_RED_MEAN)
        body->fn = DV_RED_SUM;
    out->body = body;
    return body != NULL;
}

int dv_op_take_results(dv_expr_part *out, const dv_op *op, int8_t type,
                       dv_arena *arena)
{
    const dv_expr *sum = dv_op_reduce(op);
    dv_expr *e = DV_NEW(arena, dv_expr, 3);
    if (!e || !make_list(out, op, op->body, sum, arena))
        return 0;
    e[0] = (dv_expr){.kind = DV_EXPR_READ,
                     .read = out->n_reads,
                     .dtype = type,
                     .off = sum->off};
    e[1] = (dv_expr){.kind = DV_EXPR_CONST,
                     .dtype = DV_WEAK_FLOAT,
                     .value = dv_op_points_double(op, sum->vars)};
    e[2] = dv_expr_binary(DV_FN_DIV, &e[0], &e[1], sum->off);
    e[2].dtype = type;
    out->body = copy_expr(out, op->body, sum,
                          &e[sum->fn == DV_RED_MEAN ? 2 : 0], arena);
    return out->body != NULL;
}
