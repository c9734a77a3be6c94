// Counters of repeats. A counter is a scalar tensor of the program:
//
//   repeat t in 2..T {           t[] = 2
//       y[t,i] <- x[t-1,i]       repeat T - 2 {
//   }                                y[t[],i] <- x[t[]-1,i]
//                                    t[] <- t[] + 1
//                                }
//
// so that everything that knows of indirect indices and updates knows of
// counters.
#include "ir/build.h"
#include "base/math.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

static int accesses(const dv_node *n, dv_str name)
{
    if (!n || n->kind < DV_NODE_ACCESS)
        return 0;
    for (uint32_t i = 0; i < n->n_args; i++)
        if (accesses(n->args[i], name))
            return 1;
    return n->kind == DV_NODE_ACCESS && dv_str_eq(n->name, name);
}

// Returns whether one of these statements, or one inside them, declares or
// accesses a tensor of this name.
static int names_tensor(const dv_stmt *s, dv_str name)
{
    for (; s; s = s->next)
        if ((s->kind != DV_STMT_PARAM && s->kind != DV_STMT_REPEAT &&
             dv_str_eq(s->name, name)) ||
            accesses(s->lhs, name) || accesses(s->value, name) ||
            names_tensor(s->body, name))
            return 1;
    return 0;
}

dv_status dv_build_new_name(dv_builder *b, dv_str name, dv_str *out)
{
    dv_program *p = b->p;
    dv_text text = {0};
    for (int i = 0; text.at == NULL || names_tensor(p->ast.first, *out) ||
                    dv_table_get(&p->tensor_ids, out->at, out->len, -1) >= 0;
         i++) {
        text.len = 0;
        dv_put(&text, "%.*s", (int)name.len, name.at);
        if (i)
            dv_put(&text, "%d", i);
        if (text.failed)
            break;
        *out = (dv_str){text.at, (uint32_t)text.len};
    }
    char *copy =
        text.failed ? NULL : dv_arena_copy(&p->arena, text.at, text.len);
    *out = (dv_str){copy, (uint32_t)text.len};
    dv_text_free(&text);
    return copy ? DV_OK : dv_nomem(b->diag);
}

// Adds the statement that sets the counter to its first value or, if `update`
// is 1, advances it by 1.
static dv_status assign(dv_builder *b, const dv_counter *c, int update)
{
    dv_node *n = DV_NEW(&b->p->arena, dv_node, 4);
    dv_node **args = DV_NEW(&b->p->arena, dv_node *, 2);
    if (!n || !args)
        return dv_nomem(b->diag);
    n[0] = c->value;
    n[1] = (dv_node){.kind = DV_NODE_INT, .depth = 1, .off = c->off, .i = 1};
    n[2] = (dv_node){.kind = DV_NODE_APPLY,
                     .op = DV_FN_ADD,
                     .depth = 2,
                     .off = c->off,
                     .n_args = 2,
                     .args = args};
    n[3] = n[1];
    n[3].i = c->begin;
    args[0] = &n[0];
    args[1] = &n[1];
    dv_stmt s = {.kind = DV_STMT_ASSIGN,
                 .update = (uint8_t)update,
                 .dtype = (int8_t)(update ? -1 : DV_I64),
                 .off = c->off,
                 .name = c->value.name,
                 .lhs = &n[0],
                 .value = update ? &n[2] : &n[3]};
    return dv_build_op(b, &s);
}

dv_status dv_counter_begin(dv_builder *b, const dv_stmt *s, dv_counter *c,
                           int64_t *times)
{
    const dv_for *f = &s->ranges[0];
    int64_t begin, end;
    DV_TRY(dv_constant_int(b, f->begin, &begin));
    DV_TRY(dv_constant_int(b, f->end, &end));
    if (!dv_sub_i64(times, end, begin) || *times < 0)
        return dv_fail(b->diag, DV_E_SHAPE, dv_build_at(b, f->off),
                       "%.*s cannot count from %" PRId64 " to %" PRId64,
                       (int)f->name.len, f->name.at, begin, end);
    *c = (dv_counter){
        .name = f->name, .begin = begin, .off = f->off, .outer = b->counters};
    c->value = (dv_node){.kind = DV_NODE_ACCESS, .depth = 1, .off = f->off};
    DV_TRY(dv_build_new_name(b, f->name, &c->value.name));
    DV_TRY(assign(b, c, 0));
    b->counters = c;
    return DV_OK;
}

dv_status dv_counter_end(dv_builder *b, const dv_counter *c)
{
    b->counters = c->outer;
    return assign(b, c, 1);
}

const dv_counter *dv_find_counter(const dv_builder *b, dv_str name)
{
    const dv_counter *c = b->counters;
    while (c && !dv_str_eq(c->name, name))
        c = c->outer;
    return c;
}

dv_node dv_counter_value(const dv_counter *c, const dv_node *use)
{
    dv_node n = c->value;
    n.off = use->off;
    return n;
}

// Returns the innermost of the first n repeats that contains an op, or -1.
static int32_t innermost(const dv_program *p, int32_t op, int32_t n)
{
    while (--n >= 0)
        if (p->repeats[n].first_op <= op && op < p->repeats[n].end_op)
            break;
    return n;
}

// Returns whether the op adds 1 to a scalar of i64.
static int advances(const dv_program *p, const dv_op *op)
{
    const dv_tensor *t = &p->tensors[op->write.tensor];
    const dv_expr *e = op->body;
    return op->update && !t->n_dims && t->dtype == DV_I64 && !op->is_extern &&
           e->kind == DV_EXPR_APPLY && e->fn == DV_FN_ADD &&
           e->arg[0]->kind == DV_EXPR_READ &&
           op->reads[e->arg[0]->read].tensor == op->write.tensor &&
           e->arg[1]->kind == DV_EXPR_CONST && e->arg[1]->value == 1;
}

// Finds the values of a counter in repeat r, whose last op advances it. `first`
// is the op that defines the counter; nothing else writes it.
static dv_counter_range range_in(const dv_program *p, int32_t r, int32_t first)
{
    const dv_repeat *in = &p->repeats[r];
    const dv_op *op = &p->ops[first];
    dv_counter_range c = {in->first_op, in->end_op, 0, 0};
    // Each time that the repeat begins, the counter was just defined: both are
    // in the same repeat around them.
    if (op->update || op->body->kind != DV_EXPR_CONST ||
        first >= in->first_op ||
        innermost(p, in->end_op - 1, p->n_repeats) != r ||
        innermost(p, first, p->n_repeats) != innermost(p, in->first_op, r))
        return c;
    if (fabs(op->body->value) > 0x1p53 ||
        op->body->value != floor(op->body->value))
        return c;
    c.begin = (int64_t)op->body->value;
    if (!dv_add_i64(&c.end, c.begin, in->times))
        c.end = c.begin;
    return c;
}

int dv_program_find_counters(const dv_program *p, dv_counter_range *range)
{
    size_t n = (size_t)p->n_tensors;
    int32_t *first = dv_alloc(2 * n * sizeof *first), *writers = first + n;
    if (!first)
        return 0;
    memset(first, 0, 2 * n * sizeof *first);
    memset(range, 0, n * sizeof *range);
    for (int32_t i = 0; i < p->n_ops; i++) {
        int32_t t = p->ops[i].write.tensor;
        first[t] = writers[t]++ ? first[t] : i;
    }
    for (int32_t r = 0; r < p->n_repeats; r++) {
        const dv_repeat *in = &p->repeats[r];
        if (in->first_op >= in->end_op || !advances(p, &p->ops[in->end_op - 1]))
            continue;
        int32_t t = p->ops[in->end_op - 1].write.tensor;
        if (writers[t] == 2 && !p->tensors[t].is_input)
            range[t] = range_in(p, r, first[t]);
    }
    dv_release(first);
    return 1;
}
