// dv_divide_op divides every op as the plan of a program that contains it does:
// for random programs on random machines, the ops of the plan become requests
// with the plan's layouts. The encoding of the division by stride reads back to
// the same splits.
#include "harness/test.h"
#include "harness/property.h"
#include "harness/random.h"
#include "harness/spyre_decode.h"
#include "divide/divide.h"

static int n_compared, n_decoded;

// An op of a plan as a request, and the memory of its accesses.
typedef struct request {
    dv_op_request r;
    dv_op_var vars[DV_MAX_VARS];
    dv_op_operand reads[DV_MAX_OP_READS];
    int64_t steps[DV_MAX_OP_READS + 1][DV_MAX_DIMS * DV_MAX_VARS];
    int64_t offsets[DV_MAX_OP_READS + 1][DV_MAX_DIMS];
} request;

static void put_access(request *q, dv_op_operand *out, int number,
                       const dv_plan *plan, const dv_op *op, const dv_access *a)
{
    const dv_tensor *t = &plan->ops->tensors[a->tensor];
    const dv_layout *l = &plan->layouts[a->tensor];
    for (int d = 0; d < a->n_dims; d++) {
        int64_t at = a->index[d].base;
        for (int v = 0; v < op->n_vars; v++) {
            int64_t c = a->index[d].coef[v];
            q->steps[number][d * op->n_vars + v] = c;
            at += c * op->vars[v].begin;
        }
        q->offsets[number][d] = at;
    }
    *out = (dv_op_operand){.name = t->name,
                           .dtype = t->dtype,
                           .n_dims = t->n_dims,
                           .shape = t->shape,
                           .steps = q->steps[number],
                           .offsets = q->offsets[number],
                           .n_device_dims = l->n_dims,
                           .device_size = l->size,
                           .stride_map = l->stride};
}

// Makes the request of an op. Returns 0 if requests cannot describe it, or the
// cost model would see another op.
static int make(request *q, const dv_plan *plan, const dv_op *op)
{
    const dv_expr *reduce = dv_op_reduce(op);
    if (op->is_extern || op->n_reads > DV_MAX_OP_READS || op->n_reads == 0 ||
        dv_op_gathers(op) || dv_access_is_indirect(&op->write) ||
        dv_op_has_border(op) || op->update)
        return 0;
    uint32_t read = 0;
    for (int i = 0; i <= op->n_reads; i++)
        read |= dv_access_vars(op, dv_op_access(op, i));
    if (read != dv_all_vars(op))
        return 0;
    q->r = (dv_op_request)DV_OP_REQUEST_INIT;
    q->r.name = op->name;
    q->r.vars = q->vars;
    q->r.n_vars = (size_t)op->n_vars;
    q->r.reads = q->reads;
    q->r.n_reads = (size_t)op->n_reads;
    q->r.reducer = reduce ? "sum" : NULL;
    for (int v = 0; v < op->n_vars; v++)
        q->vars[v] = (dv_op_var){op->vars[v].name, dv_var_len(op, v)};
    for (int i = 0; i < op->n_reads; i++)
        put_access(q, &q->reads[i], i, plan, op, &op->reads[i]);
    put_access(q, &q->r.write, op->n_reads, plan, op, &op->write);
    // A sum of products is a contraction, any other reduction is none.
    int contraction = dv_op_kind(op) == DV_KIND_CONTRACTION;
    if (contraction && (op->n_reads != 2 || reduce->fn != DV_RED_SUM))
        return 0;
    if (!contraction && op->n_reads > 1)
        q->r.function = op->n_reads == 2 ? "+" : NULL;
    return contraction || op->n_reads <= 2;
}

static int decodes(const dv_plan *plan, const dv_op *op,
                   const dv_op_division *d)
{
    int64_t splits[DV_MAX_VARS];
    if (!d->has_strides)
        return d->why_no_strides[0] || case_no("no reason");
    n_decoded++;
    if (dv_decode(splits, plan->ops, op, &d->strides, NULL))
        return case_no("op %s: its splits by stride do not decode", op->name);
    for (int v = 0; v < op->n_vars; v++)
        if (splits[v] != d->n_slices[v])
            return case_no("op %s: %s decodes to another number of slices",
                           op->name, op->vars[v].name);
    return 1;
}

static int same(const dv_plan *plan, int32_t i, dv_divide how)
{
    static request q;
    const dv_op *op = &plan->ops->ops[i];
    dv_op_division d;
    if (!make(&q, plan, op))
        return 1;
    q.r.divide = how;
    dv_diag *diag = dv_diag_create();
    int ok = dv_divide_op(&d, &plan->target, &q.r, diag) == DV_OK ||
             case_no("%s", dv_diag_text(diag));
    dv_diag_destroy(diag);
    for (int v = 0; ok && v < op->n_vars; v++)
        if (d.slice_size[v] != plan->slices[i][v])
            ok = case_no("op %s alone has slices of %d of %s, in the plan %d",
                         op->name, (int)d.slice_size[v], op->vars[v].name,
                         (int)plan->slices[i][v]);
    if (ok && d.cost_us != plan->divisions[i].cost_us)
        ok = case_no("op %s alone costs %g, in the plan %g", op->name,
                     d.cost_us, plan->divisions[i].cost_us);
    for (int k = 0; ok && k <= op->n_reads; k++)
        if (d.span_bytes[k] != plan->divisions[i].spans_bytes[k])
            ok = case_no("op %s: another span", op->name);
    n_compared += ok;
    return ok && decodes(plan, op, &d);
}

static int as_in_plans(const dv_program *p, uint64_t seed)
{
    rng r = {seed ^ 0x09};
    dv_target t;
    dv_plan_options options = DV_PLAN_OPTIONS_INIT;
    dv_plan *plan = NULL;
    random_target(&r, &t);
    options.divide = (dv_divide)(1 + rng_below(&r, DV_DIVIDE_SPAN));
    options.joint = DV_JOINT_OFF;
    dv_status st = dv_plan_create(&plan, p, &t, &options, NULL);
    int ok = st == DV_OK || st == DV_E_CAPACITY || case_no("no plan");
    for (int32_t i = 0; ok && st == DV_OK && i < plan->ops->n_ops; i++)
        ok = same(plan, i, options.divide);
    dv_plan_destroy(plan);
    return ok;
}

TEST(floats)
{
    case_random("divides alone", as_in_plans, GEN_FLOATS, 300);
    if (gen_cases(300) == 300)
        assert_true(n_compared > 100 && n_decoded > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(floats)};
    return run_group(tests, NULL, NULL);
}
