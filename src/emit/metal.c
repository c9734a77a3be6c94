// Groups as TT-Metalium kernels: a reader that brings tiles of the operands, a
// compute kernel, a writer. All three walk the same tiles in the same order;
// circular buffers between them hold two tiles each.
//
// Matrix products (with relu at the end, with batches) and sums, differences,
// products and copies of whole tensors have kernels. Tensors are in main
// memory, interleaved, a page a tile; elements beyond the edge are zeros, which
// all of these keep.
#include "emit/emit.h"
#include "base/math.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define P(...) dv_put(&e->out, __VA_ARGS__)

// -- What a group computes ---------------------------------------------------

static int index_is(const dv_op *op, const dv_index *x, int var)
{
    int v;
    return dv_index_is_var(op, x, &v) && v == var;
}

// Does the access have the batch dims of the result, then these two variables?
// 1 with the batch dims, 2 without any, 0 no.
static int dims_are(const dv_op *op, const dv_access *a, int row, int col)
{
    int n = op->write.n_dims, batched = a->n_dims == n;
    if (a->n_dims != n && a->n_dims != 2)
        return 0;
    for (int d = 0; batched && d < n - 2; d++) {
        int v;
        if (!dv_index_is_var(op, &op->write.index[d], &v) ||
            !index_is(op, &a->index[d], v))
            return 0;
    }
    if (!index_is(op, &a->index[a->n_dims - 2], row) ||
        !index_is(op, &a->index[a->n_dims - 1], col))
        return 0;
    return batched ? 1 : 2;
}

// Every variable runs over its whole dim.
static int covers(const dv_program *p, const dv_op *op, const dv_access *a)
{
    const dv_tensor *t = &p->tensors[a->tensor];
    for (int d = 0; d < a->n_dims; d++) {
        int v;
        if (!dv_index_is_var(op, &a->index[d], &v) || op->vars[v].begin != 0 ||
            op->vars[v].end != t->shape[d])
            return 0;
    }
    return 1;
}

static int match_matmul(const dv_op *op, const dv_expr *body, emit_kernel *k)
{
    int n = op->write.n_dims, m_var, n_var, k_var = -1;
    if (body->kind != DV_EXPR_REDUCE || body->fn != DV_RED_SUM || n < 2 ||
        body->arg[0]->kind != DV_EXPR_APPLY || body->arg[0]->fn != DV_FN_MUL ||
        body->arg[0]->arg[0]->kind != DV_EXPR_READ ||
        body->arg[0]->arg[1]->kind != DV_EXPR_READ ||
        !dv_index_is_var(op, &op->write.index[n - 2], &m_var) ||
        !dv_index_is_var(op, &op->write.index[n - 1], &n_var))
        return 0;
    for (int v = 0; v < op->n_vars; v++)
        if (op->vars[v].reduce) {
            if (k_var >= 0)
                return 0;
            k_var = v;
        }
    for (int turn = 0; turn < 2; turn++) {
        const dv_access *a = &op->reads[body->arg[0]->arg[turn]->read];
        const dv_access *b = &op->reads[body->arg[0]->arg[!turn]->read];
        int b_dims = dims_are(op, b, k_var, n_var);
        if (dims_are(op, a, m_var, k_var) != 1 || !b_dims)
            continue;
        k->shape = EMIT_MATMUL;
        k->in[0] = a->tensor;
        k->in[1] = b->tensor;
        k->b_batched = b_dims == 1;
        return 1;
    }
    return 0;
}

static int same_dims(const dv_op *op, const dv_expr *e)
{
    if (e->kind != DV_EXPR_READ)
        return 0;
    const dv_access *a = &op->reads[e->read];
    if (a->n_dims != op->write.n_dims)
        return 0;
    for (int d = 0; d < a->n_dims; d++) {
        int v;
        if (!dv_index_is_var(op, &op->write.index[d], &v) ||
            !index_is(op, &a->index[d], v))
            return 0;
    }
    return 1;
}

static int match_pointwise(const dv_op *op, const dv_expr *body, emit_kernel *k)
{
    if (same_dims(op, body)) {
        k->shape = EMIT_UNARY;
        k->in[0] = op->reads[body->read].tensor;
        return 1;
    }
    if (body->kind != DV_EXPR_APPLY || body->n_args != 2 ||
        (body->fn != DV_FN_ADD && body->fn != DV_FN_SUB &&
         body->fn != DV_FN_MUL) ||
        !same_dims(op, body->arg[0]) || !same_dims(op, body->arg[1]))
        return 0;
    k->shape = EMIT_BINARY;
    k->fn = (dv_fn)body->fn;
    k->in[0] = op->reads[body->arg[0]->read].tensor;
    k->in[1] = op->reads[body->arg[1]->read].tensor;
    return 1;
}

dv_status dv_emit_match(const emitter *e, const dv_group_grid *g,
                        emit_kernel *out)
{
    const dv_group *group = &e->plan->groups[g->group];
    const dv_op *op = &e->p->ops[group->first_op];
    const dv_expr *body = op->body;
    dv_dtype t = e->p->tensors[g->tensor].dtype;
    *out = (emit_kernel){.g = g, .op = op};
    int good = group->end_op - group->first_op == 1 && !op->update;
    if (body->kind == DV_EXPR_APPLY && body->fn == DV_FN_RELU) {
        out->relu = 1;
        body = body->arg[0];
    }
    good = good &&
           (match_matmul(op, body, out) || match_pointwise(op, body, out)) &&
           covers(e->p, op, &op->write);
    for (int r = 0; good && r < op->n_reads; r++)
        good = covers(e->p, op, &op->reads[r]) &&
               e->p->tensors[op->reads[r].tensor].dtype == t;
    if (!good || (t != DV_F32 && t != DV_BF16))
        return dv_fail(
            e->diag, DV_E_USAGE, DV_NOWHERE,
            "%s has no kernel: there are products of matrices, sums, "
            "differences, products and copies of whole tensors, with relu at "
            "the end, one op a group (--scratch off), in f32 or bf16",
            op->name);
    return DV_OK;
}

// -- Kernels -----------------------------------------------------------------

static void put_head(emitter *e, const char *what, const emit_kernel *k)
{
    P("// Made by divvy: %s of group %d, which computes %s.\n"
      "#include <cstdint>\n",
      what, (int)k->g->group, e->p->tensors[k->g->tensor].name);
}

// The walk over tiles: opens a block in which batch, m and n are known.
static void put_walk(emitter *e, const emit_kernel *k, int first_arg)
{
    const dv_group_grid *g = k->g;
    P("    const uint32_t start_id = get_arg_val<uint32_t>(%d);\n"
      "    const uint32_t count = get_arg_val<uint32_t>(%d);\n",
      first_arg, first_arg + 1);
    if (g->local_shard)
        P("    const uint32_t Sm = get_arg_val<uint32_t>(%d);\n"
          "    const uint32_t Sn = get_arg_val<uint32_t>(%d);\n"
          "    const uint32_t sy = get_arg_val<uint32_t>(%d);\n"
          "    const uint32_t sx = get_arg_val<uint32_t>(%d);\n",
          first_arg + 5, first_arg + 6, first_arg + 9, first_arg + 10);
    P("    const uint32_t Mt = get_arg_val<uint32_t>(%d);\n"
      "    const uint32_t Kt = get_arg_val<uint32_t>(%d);\n"
      "    const uint32_t Nt = get_arg_val<uint32_t>(%d);\n"
      "    (void)Mt;\n    (void)Kt;\n",
      first_arg + 2, first_arg + 3, first_arg + 4);
}

static void put_tile(emitter *e, const emit_kernel *k)
{
    const dv_group_grid *g = k->g;
    P("    for (uint32_t i = 0; i < count; i++) {\n"
      "        uint32_t m, n;\n");
    if (g->local_shard)
        P("        const uint32_t t = start_id + i, batch = 0;\n"
          "        m = sy * Sm + t / Sn;\n"
          "        n = sx * Sn + t %% Sn;\n");
    else
        P("        const uint32_t id = start_id + i;\n"
          "        const uint32_t batch = id / (Mt * Nt);\n"
          "        tile_at_%d(id %% (Mt * Nt), &m, &n);\n",
          (int)g->group);
}

static void put_decode(emitter *e, const emit_kernel *k)
{
    dv_order o = {.mt = k->g->mt, .nt = k->g->nt};
    dv_order_parse(&o, k->g->order);
    P("\n");
    if (!k->g->local_shard)
        dv_emit_decode(&e->out, &o, (int)k->g->group, "uint32_t");
}

static int n_inputs(const emit_kernel *k)
{
    return k->shape == EMIT_UNARY ? 1 : 2;
}

static void put_reader(emitter *e, const emit_kernel *k)
{
    int n = n_inputs(k), mm = k->shape == EMIT_MATMUL;
    put_head(e, "the reader", k);
    P("#include \"api/dataflow/dataflow_api.h\"\n");
    put_decode(e, k);
    P("void kernel_main() {\n");
    for (int i = 0; i < n; i++)
        P("    const uint32_t addr%d = get_arg_val<uint32_t>(%d);\n", i, i);
    put_walk(e, k, n);
    P("    constexpr auto args0 = TensorAccessorArgs<0>();\n"
      "    const auto in0 = TensorAccessor(args0, addr0, get_tile_size(0));\n");
    if (n > 1)
        P("    constexpr auto args1 = TensorAccessorArgs<args0.next_compile_"
          "time_args_offset()>();\n"
          "    const auto in1 = TensorAccessor(args1, addr1, "
          "get_tile_size(1));\n");
    put_tile(e, k);
    const char *pad = mm ? "    " : "";
    if (mm)
        P("        for (uint32_t k = 0; k < Kt; k++) {\n");
    for (int i = 0; i < n; i++) {
        P("%s        cb_reserve_back(%d, 1);\n"
          "%s        noc_async_read_page(",
          pad, i, pad);
        if (!mm)
            P("(batch * Mt + m) * Nt + n");
        else if (i == 0)
            P("(batch * Mt + m) * Kt + k");
        else
            P(k->b_batched ? "(batch * Kt + k) * Nt + n" : "k * Nt + n");
        P(", in%d, get_write_ptr(%d));\n", i, i);
    }
    P("%s        noc_async_read_barrier();\n", pad);
    for (int i = 0; i < n; i++)
        P("%s        cb_push_back(%d, 1);\n", pad, i);
    P("%s    }\n}\n", mm ? "        }\n" : "");
}

static void put_writer(emitter *e, const emit_kernel *k)
{
    put_head(e, "the writer", k);
    P("#include \"api/dataflow/dataflow_api.h\"\n");
    put_decode(e, k);
    P("void kernel_main() {\n"
      "    const uint32_t addr = get_arg_val<uint32_t>(0);\n");
    put_walk(e, k, 1);
    P("    constexpr auto args = TensorAccessorArgs<0>();\n"
      "    const auto out = TensorAccessor(args, addr, get_tile_size(16));\n");
    put_tile(e, k);
    P("        cb_wait_front(16, 1);\n"
      "        noc_async_write_page((batch * Mt + m) * Nt + n, out, "
      "get_read_ptr(16));\n"
      "        noc_async_write_barrier();\n"
      "        cb_pop_front(16, 1);\n"
      "    }\n}\n");
}

static void put_product(emitter *e)
{
    P("        for (uint32_t k = 0; k < Kt; k++) {\n"
      "            cb_wait_front(0, 1);\n"
      "            cb_wait_front(1, 1);\n"
      "            matmul_tiles(0, 1, 0, 0, 0);\n"
      "            cb_pop_front(0, 1);\n"
      "            cb_pop_front(1, 1);\n"
      "        }\n");
}

static const char *binary_name(dv_fn fn)
{
    return fn == DV_FN_ADD ? "add" : fn == DV_FN_SUB ? "sub" : "mul";
}

static void put_compute(emitter *e, const emit_kernel *k)
{
    static const char *const headers[] = {"matmul", "eltwise_binary",
                                          "tile_move_copy"};
    put_head(e, "the compute kernel", k);
    P("#include \"api/compute/%s.h\"\n", headers[k->shape]);
    if (k->relu)
        P("#include \"api/compute/eltwise_unary/relu.h\"\n");
    if (k->shape == EMIT_UNARY)
        P("#include \"api/compute/eltwise_unary/eltwise_unary.h\"\n");
    P("\nvoid kernel_main() {\n"
      "    const uint32_t count = get_arg_val<uint32_t>(0);\n"
      "    const uint32_t Kt = get_arg_val<uint32_t>(1);\n"
      "    (void)Kt;\n");
    if (k->shape == EMIT_MATMUL)
        P("    mm_init(0, 1, 16);\n");
    else if (k->shape == EMIT_BINARY)
        P("    binary_op_init_common(0, 1, 16);\n    %s_tiles_init(0, 1);\n",
          binary_name(k->fn));
    else
        P("    unary_op_init_common(0, 16);\n    copy_tile_init(0);\n");
    if (k->relu)
        P("    relu_tile_init();\n");
    P("    for (uint32_t i = 0; i < count; i++) {\n"
      "        tile_regs_acquire();\n");
    if (k->shape == EMIT_MATMUL) {
        put_product(e);
    } else {
        for (int i = 0; i < n_inputs(k); i++)
            P("        cb_wait_front(%d, 1);\n", i);
        if (k->shape == EMIT_BINARY)
            P("        %s_tiles(0, 1, 0, 0, 0);\n", binary_name(k->fn));
        else
            P("        copy_tile(0, 0, 0);\n");
        for (int i = 0; i < n_inputs(k); i++)
            P("        cb_pop_front(%d, 1);\n", i);
    }
    if (k->relu)
        P("        relu_tile(0);\n");
    P("        tile_regs_commit();\n"
      "        tile_regs_wait();\n"
      "        cb_reserve_back(16, 1);\n"
      "        pack_tile(0, 16);\n"
      "        cb_push_back(16, 1);\n"
      "        tile_regs_release();\n"
      "    }\n}\n");
}

static dv_status emit_kernels(emitter *e, const emit_kernel *k)
{
    char name[64];
    int group = (int)k->g->group;
    put_reader(e, k);
    snprintf(name, sizeof name, "reader_%d.cpp", group);
    DV_TRY(dv_emit_file(e, name));
    put_compute(e, k);
    snprintf(name, sizeof name, "compute_%d.cpp", group);
    DV_TRY(dv_emit_file(e, name));
    put_writer(e, k);
    snprintf(name, sizeof name, "writer_%d.cpp", group);
    return dv_emit_file(e, name);
}

dv_status dv_emit_metal(emitter *e)
{
    int32_t n = e->plan->n_grids;
    if (!n || n != e->plan->n_groups || e->p->n_repeats)
        return dv_fail(e->diag, DV_E_USAGE, DV_NOWHERE,
                       "kernels are for programs without repeat, all in tiles: "
                       "%d of %d groups have a grid",
                       (int)n, (int)e->plan->n_groups);
    if (e->plan->target.tile_rows != 32 || e->plan->target.tile_cols != 32)
        return dv_fail(e->diag, DV_E_USAGE, DV_NOWHERE,
                       "tiles of %" PRId64 "x%" PRId64
                       ": the machine's have 32x32",
                       e->plan->target.tile_rows, e->plan->target.tile_cols);
    emit_kernel *kernels = dv_alloc((size_t)n * sizeof *kernels);
    dv_status st = kernels ? DV_OK : dv_nomem(e->diag);
    for (int32_t i = 0; i < n && st == DV_OK; i++)
        st = dv_emit_match(e, &e->plan->grids[i], &kernels[i]);
    for (int32_t i = 0; i < n && st == DV_OK; i++)
        st = emit_kernels(e, &kernels[i]);
    if (st == DV_OK)
        st = dv_emit_host(e, kernels, n);
    if (st == DV_OK)
        st = dv_emit_rt(e);
    dv_release(kernels);
    return st;
}
