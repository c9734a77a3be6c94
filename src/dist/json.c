// Prints the dist section of a plan as JSON.
#include "dist/dist.h"
#include <inttypes.h>

static void box_json(dv_json *j, const char *key, const dv_box *b)
{
    dv_json_open_flat(j, key, '[');
    for (int d = 0; d < b->n_dims; d++)
        DV_JSON_INTS(j, NULL, b->dim[d].off, b->dim[d].size);
    dv_json_close(j);
}

typedef struct totals {
    int64_t sent, received, needed; // in bytes, counting each exchange once
} totals;

// Prints the fields of a message, whose other rank is called `other`, and adds
// its bytes.
static void message_json(dv_json *j, const dv_program *p,
                         const dv_op_exchange *s, const dv_piece *l,
                         const char *other, int64_t *bytes)
{
    int64_t n = dv_box_elems(&l->box) * dv_elem_bytes(p, s->tensor);
    dv_json_int(j, other, l->rank);
    dv_json_string(j, "tensor", p->tensors[s->tensor].name);
    dv_json_string(j, "op", p->ops[s->op].name);
    box_json(j, "box", &l->box);
    dv_json_int(j, "bytes", n);
    *bytes += n;
}

static void pieces_json(dv_json *j, const dv_program *p,
                        const dv_op_exchange *s, int out, int64_t *bytes)
{
    const dv_piece *l = out ? s->sends : s->receives;
    for (int32_t i = 0; i < (out ? s->n_sends : s->n_receives); i++) {
        dv_json_open_flat(j, NULL, '{');
        message_json(j, p, s, &l[i], out ? "to" : "from", bytes);
        dv_json_close(j);
    }
}

// Prints the boxes the rank must receive, per tensor, and adds their bytes to
// `sum`.
static int needs_json(dv_json *j, const dv_plan *plan, totals *sum,
                      dv_arena *arena)
{
    const dv_plan_team *t = &plan->team;
    const dv_program *p = plan->ops;
    int ok = 1;
    dv_json_open(j, "needs", '{');
    for (int32_t x = 0; x < p->n_tensors; x++) {
        int any = 0;
        for (int32_t i = 0; i < t->n_op_exchanges && ok; i++) {
            dv_boxes need = {0};
            if (t->op_exchanges[i].tensor != x)
                continue;
            ok = dv_team_need(&need, p, t, &t->op_exchanges[i], t->rank, arena);
            if (!any++)
                dv_json_open(j, p->tensors[x].name, '[');
            for (int32_t k = 0; k < need.n; k++)
                box_json(j, NULL, &need.at[k]);
            sum->needed += dv_boxes_elems(&need) * dv_elem_bytes(p, x);
        }
        if (any)
            dv_json_close(j);
    }
    dv_json_close(j);
    return ok;
}

static void space_json(dv_json *j, const char *key, const dv_op *op,
                       const dv_iter_space *s)
{
    dv_json_open_flat(j, key, '{');
    for (int v = 0; v < op->n_vars; v++)
        DV_JSON_INTS(j, op->vars[v].name, s->begin[v], s->end[v]);
    dv_json_close(j);
}

static void op_json(dv_json *j, const dv_plan *plan, int32_t i)
{
    const dv_program *p = plan->ops;
    const dv_op *op = &p->ops[i];
    dv_iter_space target, core, edges[2 * DV_MAX_VARS];
    dv_json_open(j, NULL, '{');
    dv_json_string(j, "op", op->name);
    if (dv_team_target(&target, p, &plan->team, i, plan->team.rank)) {
        int n = 1;
        edges[0] = target;
        space_json(j, "target", op, &target);
        if (dv_team_core(&core, p, &plan->team, i, plan->team.rank, &target)) {
            space_json(j, "core", op, &core);
            n = dv_space_edges(edges, op, &target, &core);
        }
        dv_json_open(j, "edges", '[');
        for (int k = 0; k < n; k++)
            space_json(j, NULL, op, &edges[k]);
        dv_json_close(j);
    }
    dv_json_close(j);
}

static void collectives_json(dv_json *j, const dv_plan *plan)
{
    const dv_plan_team *t = &plan->team;
    dv_json_open(j, "collectives", '[');
    for (int32_t i = 0; i < plan->ops->n_ops; i++) {
        const dv_op *op = &plan->ops->ops[i];
        dv_axis_binding binds[DV_MAX_AXES];
        int64_t axes[DV_MAX_AXES], ranks = 1;
        int n = 0;
        dv_team_binds(binds, plan->ops, t, i);
        for (int a = 0; a < t->n_axes; a++)
            if (binds[a].d && binds[a].reduced) {
                axes[n++] = a;
                ranks *= t->grid[a];
            }
        if (n == 0)
            continue;
        dv_box own = dv_dist_own(&t->tensors[op->write.tensor], t->rank);
        DV_JSON_OBJECT(
            j, NULL, DV_F("op", op->name),
            DV_F("reducer",
                 dv_reducer_get((dv_reducer)dv_op_reduce(op)->fn)->text),
            dv_field_ints("axes", axes, n), DV_F("ranks", ranks),
            DV_F("bytes",
                 dv_box_elems(&own) * dv_op_partial_bytes(plan->ops, op)));
    }
    dv_json_close(j);
}

// Gets m, n and k of a product of two matrices; returns 0 for any other op.
static int product_sizes(const dv_op *op, double size[3])
{
    size[0] = size[1] = size[2] = 1;
    if (dv_op_kind(op) != DV_KIND_CONTRACTION || op->n_reads != 2)
        return 0;
    for (int v = 0; v < op->n_vars; v++) {
        int a = dv_access_vars(op, &op->reads[0]) >> v & 1;
        int b = dv_access_vars(op, &op->reads[1]) >> v & 1;
        double len = (double)dv_var_len(op, v);
        if (op->vars[v].reduce && a && b)
            size[2] *= len;
        else if (!op->vars[v].reduce && a != b)
            size[b] *= len;
        else
            return 0;
    }
    return 1;
}

int dv_team_product(const dv_plan *plan, int32_t op, int64_t *bytes,
                    double *bound_bytes)
{
    const dv_plan_team *t = &plan->team;
    const dv_program *p = plan->ops;
    double size[3];
    if (!product_sizes(&p->ops[op], size))
        return 0;
    *bytes = 0;
    for (int32_t k = 0; k < t->n_op_exchanges; k++)
        for (int32_t r = 0;
             t->op_exchanges[k].op == op && r < t->op_exchanges[k].n_receives;
             r++)
            *bytes += dv_box_elems(&t->op_exchanges[k].receives[r].box) *
                      dv_elem_bytes(p, t->op_exchanges[k].tensor);
    *bound_bytes = dv_dist_product_bound(size[0], size[1], size[2],
                                         (double)dv_plan_team_size(t)) *
                   (double)dv_elem_bytes(p, p->ops[op].reads[0].tensor);
    return 1;
}

static void products_json(dv_json *j, const dv_plan *plan)
{
    dv_json_open(j, "contractions", '[');
    for (int32_t i = 0; i < plan->ops->n_ops; i++) {
        int64_t bytes;
        double bound;
        if (!dv_team_product(plan, i, &bytes, &bound))
            continue;
        DV_JSON_OBJECT(j, NULL, DV_F("op", plan->ops->ops[i].name),
                       DV_F("bytes_received", bytes),
                       DV_F("lower_bound_bytes", bound));
    }
    dv_json_close(j);
}

// Largest team of which the messages of all ranks are printed; of a larger team
// only those of the plan's own rank are.
enum { MOST_LISTED_RANKS = 64 };

// Prints the messages that all ranks send, and which box of each tensor each
// rank owns. Returns 0 if out of memory.
static int all_ranks_json(dv_json *j, const dv_plan *plan, dv_arena *arena)
{
    const dv_plan_team *t = &plan->team;
    const dv_program *p = plan->ops;
    int64_t n = dv_plan_team_size(t), sent = 0;
    int ok = 1;
    if (n > MOST_LISTED_RANKS)
        return 1;
    dv_json_open(j, "owners", '{');
    for (int32_t i = 0; i < p->n_tensors; i++) {
        dv_json_open(j, p->tensors[i].name, '[');
        for (int64_t r = 0; r < n; r++) {
            dv_box own = dv_dist_own(&t->tensors[i], r);
            box_json(j, NULL, &own);
        }
        dv_json_close(j);
    }
    dv_json_close(j);
    dv_json_open(j, "all_messages", '[');
    for (int32_t i = 0; i < t->n_op_exchanges; i++)
        for (int64_t r = 0; r < n && ok; r++) {
            dv_op_exchange s = t->op_exchanges[i];
            ok = dv_team_messages(&s, p, t, i, r, arena);
            for (int32_t k = 0; ok && k < s.n_sends; k++) {
                dv_json_open_flat(j, NULL, '{');
                dv_json_int(j, "from", r);
                message_json(j, p, &s, &s.sends[k], "to", &sent);
                dv_json_close(j);
            }
        }
    dv_json_close(j);
    dv_json_int(j, "all_bytes", sent);
    return ok;
}

void dv_dist_json(dv_json *j, const dv_plan *plan)
{
    const dv_plan_team *t = &plan->team;
    const dv_program *p = plan->ops;
    totals sum = {0};
    dv_arena arena = {0};
    dv_json_open(j, "dist", '{');
    dv_json_int(j, "team", dv_plan_team_size(t));
    dv_json_ints(j, "grid", t->grid, t->n_axes);
    dv_json_int(j, "rank", t->rank);
    dv_json_open(j, "own", '{');
    for (int32_t i = 0; i < p->n_tensors; i++) {
        dv_box own = dv_dist_own(&t->tensors[i], t->rank);
        box_json(j, p->tensors[i].name, &own);
    }
    dv_json_close(j);
    j->out->failed |= !needs_json(j, plan, &sum, &arena);
    dv_json_open(j, "messages", '[');
    for (int32_t i = 0; i < t->n_op_exchanges; i++) {
        pieces_json(j, p, &t->op_exchanges[i], 0, &sum.received);
        pieces_json(j, p, &t->op_exchanges[i], 1, &sum.sent);
    }
    dv_json_close(j);
    dv_json_int(j, "bytes_sent", sum.sent);
    dv_json_int(j, "bytes_received", sum.received);
    dv_json_int(j, "bytes_needed", sum.needed);
    dv_json_open(j, "ops", '[');
    for (int32_t i = 0; i < p->n_ops; i++)
        op_json(j, plan, i);
    dv_json_close(j);
    collectives_json(j, plan);
    products_json(j, plan);
    j->out->failed |= !all_ranks_json(j, plan, &arena);
    dv_json_close(j);
    dv_arena_free(&arena);
}
