// Emits groups as TT-Metalium kernels: a reader that loads operand tiles, a
// compute kernel and a writer. All three visit the same tiles in the same
// order; the circular buffers between them hold two tiles each.
//
// Tensors are in main memory, interleaved, with one tile per page, unless notes
// of the program say that they lie elsewhere (metal_shard.c). Elements beyond
// the edge of a tensor are zeros, and every kernel preserves that. The
// constants of a group (ones, and masks for the tiles at the edges) are pages
// of a separate buffer.
//
// When a tile is split over cores, the writers of those cores send their
// partial sums to the owner's memory, one core at a time, when the owner
// requests them.
#include "emit/emit.h"
#include "base/math.h"
#include "grid/shards.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define P(...) dv_put(&e->out, __VA_ARGS__)

static void put_head(emitter *e, const char *what, const emit_kernel *k)
{
    P("// Made by divvy: %s of group %d, which computes %s.\n"
      "#include <cstdint>\n",
      what, (int)k->g->group, e->p->tensors[k->g->tensor].name);
}

static void put_constants(emitter *e, const emit_kernel *k, int first)
{
    const dv_group_grid *g = k->g;
    if (g->local_shard || (!g->rect && !k->cores.streams))
        P("    const uint32_t Mt = get_arg_val<uint32_t>(%d);\n"
          "    const uint32_t Kt = get_arg_val<uint32_t>(%d);\n"
          "    const uint32_t Nt = get_arg_val<uint32_t>(%d);\n",
          first + 2, first + 3, first + 4);
    else
        P("    constexpr uint32_t Mt = %" PRId64 ", Kt = %" PRId64
          ", Nt = %" PRId64 ";\n",
          g->mt, g->kt, g->nt);
    P("    constexpr uint32_t steps = %" PRId64 ";\n"
      "    (void)Mt, (void)Kt, (void)Nt, (void)steps;\n",
      k->steps);
}

// Emits the loop that calls tile(batch, m, n, k0, k1) for all tiles of the
// core; k0 to k1 - 1 are the steps of the reduction that it computes.
static void put_tile_loop(emitter *e, const emit_kernel *k, int first)
{
    const dv_group_grid *g = k->g;
    const char *id = dv_emit_tile_id(e);
    if (g->local_shard) {
        P("    const uint32_t start_id = get_arg_val<uint32_t>(%d), count = "
          "get_arg_val<uint32_t>(%d);\n"
          "    const uint32_t Sm = get_arg_val<uint32_t>(%d), Sn = "
          "get_arg_val<uint32_t>(%d);\n"
          "    const uint32_t sy = get_arg_val<uint32_t>(%d), sx = "
          "get_arg_val<uint32_t>(%d);\n"
          "    for (uint32_t t = start_id; t < start_id + count; t++)\n"
          "        tile(0, sy * Sm + t / Sn, sx * Sn + t %% Sn, 0, steps);\n",
          first, first + 1, first + 5, first + 6, first + 9, first + 10);
    } else if (g->rect) {
        P("    const uint32_t m0 = get_arg_val<uint32_t>(%d), m1 = "
          "get_arg_val<uint32_t>(%d);\n"
          "    const uint32_t n0 = get_arg_val<uint32_t>(%d), n1 = "
          "get_arg_val<uint32_t>(%d);\n"
          "    for (uint32_t batch = 0; batch < %" PRId64 "; batch++)\n"
          "        for (uint32_t m = m0; m < m1; m++)\n"
          "            for (uint32_t n = n0; n < n1; n++)\n"
          "                tile(batch, m, n, 0, steps);\n",
          first, first + 1, first + 2, first + 3, g->batch);
    } else if (k->cores.streams) {
        P("    const uint32_t segments = get_arg_val<uint32_t>(%d);\n"
          "    for (uint32_t s = 0; s < segments; s++) {\n"
          "        const uint32_t start_id = get_arg_val<uint32_t>(%d + 4 * "
          "s);\n"
          "        const uint32_t count = get_arg_val<uint32_t>(%d + 4 * s);\n"
          "        for (uint32_t %s = start_id; %s < start_id + count; %s++) "
          "{\n"
          "            const uint32_t batch = %s / (Mt * Nt);\n"
          "            uint32_t m, n;\n"
          "            tile_at_%d(%s %% (Mt * Nt), &m, &n);\n"
          "            tile(batch, m, n, get_arg_val<uint32_t>(%d + 4 * s), "
          "get_arg_val<uint32_t>(%d + 4 * s));\n"
          "        }\n    }\n",
          first + 1, first + 2, first + 3, id, id, id, id, k->id, id, first + 4,
          first + 5);
    } else {
        P("    const uint32_t start_id = get_arg_val<uint32_t>(%d), count = "
          "get_arg_val<uint32_t>(%d);\n"
          "        for (uint32_t %s = start_id; %s < start_id + count; %s++) "
          "{\n"
          "            const uint32_t batch = %s / (Mt * Nt);\n"
          "            uint32_t m, n;\n"
          "            tile_at_%d(%s %% (Mt * Nt), &m, &n);\n"
          "            tile(batch, m, n, 0, steps);\n"
          "        }\n",
          first, first + 1, id, id, id, id, k->id, id);
    }
}

static void put_decode(emitter *e, const emit_kernel *k)
{
    dv_order o = dv_grid_order(k->g);
    P("\n");
    if (!k->g->local_shard && !k->g->rect)
        dv_emit_decode(&e->out, &o, k->id, "uint32_t");
}

// Emits the page number (one tile per page) of an operand for tile (batch, m,
// n) and step k of the reduction.
void dv_emit_page(emitter *e, const emit_kernel *k, const emit_operand *o)
{
    const dv_tensor *t = &e->p->tensors[k->g->tensor];
    char at[2] = {o->row, o->col};
    P("(");
    for (int i = 0; i < o->n_batch; i++) {
        int64_t inner = 1;
        for (int d = o->batch[i] + 1; d < t->n_dims - 2; d++)
            inner *= t->shape[d];
        P("%s(batch / %" PRId64 " %% %" PRId64 ")", i ? " + " : "", inner,
          t->shape[o->batch[i]]);
        for (int r = i + 1; r < o->n_batch; r++)
            P(" * %" PRId64, t->shape[o->batch[r]]);
    }
    P("%s) * %" PRId64, o->n_batch ? "" : "0", o->rows * o->cols);
    for (int i = 0; i < 2; i++) {
        if (!at[i])
            continue;
        if (k->step_cols > 1 && (at[i] == 'p' || (at[i] == 'k' && i)) &&
            k->shape == EMIT_REDUCE && k->steps > k->step_cols)
            P(" + k %c %" PRId64, at[i] == 'p' ? '/' : '%', k->step_cols);
        else
            P(" + %c", at[i] == 'p' ? 'k' : at[i]);
        if (i == 0)
            P(" * %" PRId64, o->cols);
    }
}

static void put_operands(emitter *e, const emit_kernel *k, emit_stage stage)
{
    for (int i = 0; i < k->n_in; i++) {
        if (k->in[i].stage != stage || k->in[i].own_tiles)
            continue;
        P("            cb_reserve_back(%d, 1);\n"
          "            noc_async_read_page(",
          i);
        dv_emit_page(e, k, &k->in[i]);
        P(", in%d, get_write_ptr(%d));\n"
          "            noc_async_read_barrier();\n"
          "            cb_push_back(%d, 1);\n",
          i, i, i);
    }
}

// Emits the read of the mask that a step needs, chosen by whether the step is
// in the last row and the last column of the reduced tiles.
static void put_mask_in(emitter *e, const emit_kernel *k)
{
    char from[160];
    const char *at[2] = {"m", "n"};
    char text[2][64];
    int v[2] = {k->plane.row, k->plane.col};
    for (int i = 0; i < 2; i++) {
        int64_t n = v[i] < 0 ? 1 : dv_ceil_div(k->op->vars[v[i]].end, 32);
        int depth = v[i] >= 0 && k->op->vars[v[i]].reduce;
        int both = k->steps > k->step_cols && k->step_cols > 1;
        if (v[i] < 0)
            snprintf(text[i], sizeof text[i], "true");
        else if (depth && both)
            snprintf(text[i], sizeof text[i], "k %c %" PRId64 " == %" PRId64,
                     i ? '%' : '/', k->step_cols, n - 1);
        else
            snprintf(text[i], sizeof text[i], "%s == %" PRId64,
                     depth                ? "k"
                     : v[i] == k->out.row ? at[0]
                                          : at[1],
                     n - 1);
    }
    snprintf(from, sizeof from, "5 + 2 * (%s) + (%s)", text[0], text[1]);
    P("            cb_reserve_back(%d, 1);\n"
      "            noc_async_read_page(%s, constants, get_write_ptr(%d));\n"
      "            noc_async_read_barrier();\n"
      "            cb_push_back(%d, 1);\n",
      (int)CB_MASK_IN, from, (int)CB_MASK_IN, (int)CB_MASK_IN);
}

void dv_emit_epilogue_loads(emitter *e, const emit_kernel *k)
{
    put_operands(e, k, STAGE_AFTER);
    if (k->mask_out)
        P("            cb_reserve_back(%d, 1);\n"
          "            noc_async_read_page(1 + 2 * (m == Mt - 1) + (n == Nt - "
          "1), constants, get_write_ptr(%d));\n"
          "            noc_async_read_barrier();\n"
          "            cb_push_back(%d, 1);\n",
          (int)CB_MASK_OUT, (int)CB_MASK_OUT, (int)CB_MASK_OUT);
}

// Emits the reader's loads for one tile, in the order in which the compute
// kernel consumes the operands.
static void put_reads(emitter *e, const emit_kernel *k)
{
    P("    const auto tile = [&](uint32_t batch, uint32_t m, uint32_t n, "
      "uint32_t k0, uint32_t k1) {\n"
      "        (void)batch, (void)m, (void)n, (void)k0, (void)k1;\n");
    put_operands(e, k, STAGE_BEFORE);
    P("        if (k0 == 0) {\n");
    dv_emit_epilogue_loads(e, k);
    P("        }\n");
    if (k->reduce) {
        P("        for (uint32_t k = k0; k < k1; k++) {\n");
        put_operands(e, k, STAGE_STEP);
        if (k->mask_in)
            put_mask_in(e, k);
        P("        }\n");
    }
    P("    };\n");
}

int dv_emit_has_constants(const emit_kernel *k)
{
    return k->mask_in || k->mask_out || k->shape == EMIT_REDUCE;
}

int dv_emit_accessors(emitter *e, const emit_kernel *k, int first_arg,
                      int constants_cb)
{
    int n = k->n_in + dv_emit_has_constants(k);
    for (int i = 0; i < n; i++) {
        P("    constexpr auto args%d = TensorAccessorArgs<", i);
        if (i)
            P("args%d.next_compile_time_args_offset()", i - 1);
        else
            P("0");
        P(">();\n    %sconst auto %s",
          i < k->n_in && k->in[i].own_tiles ? "[[maybe_unused]] " : "",
          i < k->n_in ? "in" : "constants");
        if (i < k->n_in)
            P("%d", i);
        P(" = TensorAccessor(args%d, get_arg_val<uint32_t>(%d), "
          "get_tile_size(%d));\n",
          i, first_arg + i, i < k->n_in ? i : constants_cb);
    }
    return n;
}

// Emits the beginning of a data-movement kernel: a reader or a writer.
static void put_mover(emitter *e, const char *what, const emit_kernel *k)
{
    put_head(e, what, k);
    P("#include \"api/dataflow/dataflow_api.h\"\n");
    put_decode(e, k);
    P("void kernel_main() {\n");
}

static void put_reader(emitter *e, const emit_kernel *k)
{
    put_mover(e, "the reader", k);
    if (dv_emit_is_blocks(k)) {
        dv_emit_block_reader(e, k);
        return;
    }
    int n = dv_emit_accessors(e, k, 0,
                              k->shape == EMIT_REDUCE ? CB_SCALER
                              : k->mask_in            ? CB_MASK_IN
                                                      : CB_MASK_OUT);
    put_constants(e, k, n);
    if (k->shape == EMIT_REDUCE)
        P("    cb_reserve_back(%d, 1);\n"
          "    noc_async_read_page(0, constants, get_write_ptr(%d));\n"
          "    noc_async_read_barrier();\n"
          "    cb_push_back(%d, 1);\n",
          (int)CB_SCALER, (int)CB_SCALER, (int)CB_SCALER);
    dv_emit_own_shards(e, k);
    put_reads(e, k);
    put_tile_loop(e, k, n);
    P("}\n");
}

// Emits the writer's exchange of partial sums: sending one to the owner of its
// tile, and receiving those of other cores. Runtime arguments from `first` on:
// this core's position among the owner's senders, the owner's coordinates, then
// the coordinates of all cores that send to this one.
static void put_parts(emitter *e, const emit_kernel *k, int first)
{
    P("        if (k0 > 0) {\n"
      "            cb_wait_front(%d, 1);\n"
      "            noc_semaphore_wait(go, 1);\n"
      "            noc_semaphore_set(go, 0);\n"
      "            const uint32_t at = get_write_ptr(%d) + "
      "get_arg_val<uint32_t>(%d) %% 2 * get_tile_size(%d);\n"
      "            const uint32_t x = get_arg_val<uint32_t>(%d), y = "
      "get_arg_val<uint32_t>(%d);\n"
      "            noc_async_write(get_read_ptr(%d), get_noc_addr(x, y, at), "
      "get_tile_size(%d));\n"
      "            noc_async_write_barrier();\n"
      "            noc_semaphore_inc(get_noc_addr(x, y, get_semaphore(1)), "
      "1);\n"
      "            cb_pop_front(%d, 1);\n"
      "            return;\n"
      "        }\n",
      (int)CB_PARTIAL, (int)CB_PEERS, first, (int)CB_PEERS, first + 1,
      first + 2, (int)CB_PARTIAL, (int)CB_PEERS, (int)CB_PARTIAL);
    if (k->cores.most_contributors)
        P("        for (uint32_t j = 0; k1 < %" PRId64 " && j < peers; j++) {\n"
          "            cb_reserve_back(%d, 1);\n"
          "            noc_semaphore_inc(get_noc_addr(get_arg_val<uint32_t>(%d "
          "+ 2 * j), get_arg_val<uint32_t>(%d + 2 * j), get_semaphore(0)), "
          "1);\n"
          "            noc_semaphore_wait(come, 1);\n"
          "            noc_semaphore_set(come, 0);\n"
          "            cb_push_back(%d, 1);\n"
          "        }\n",
          k->g->kt, (int)CB_PEERS, first + 3, first + 4, (int)CB_PEERS);
}

static void put_writer(emitter *e, const emit_kernel *k)
{
    put_mover(e, "the writer", k);
    if (dv_emit_is_blocks(k)) {
        dv_emit_block_writer(e, k);
        return;
    }
    if (k->own_tiles) {
        dv_emit_own_result(e, k);
        P("}\n");
        return;
    }
    P("    constexpr auto args = TensorAccessorArgs<0>();\n"
      "    const auto out = TensorAccessor(args, get_arg_val<uint32_t>(0), "
      "get_tile_size(%d));\n",
      (int)CB_OUT);
    put_constants(e, k, 1);
    if (k->cores.streams)
        P("    const uint32_t peers = get_arg_val<uint32_t>(1);\n"
          "    volatile tt_l1_ptr uint32_t* go = reinterpret_cast<volatile "
          "tt_l1_ptr uint32_t*>(get_semaphore(0));\n"
          "    volatile tt_l1_ptr uint32_t* come = reinterpret_cast<volatile "
          "tt_l1_ptr uint32_t*>(get_semaphore(1));\n"
          "    (void)peers, (void)come;\n");
    P("    const auto tile = [&](uint32_t batch, uint32_t m, uint32_t n, "
      "uint32_t k0, uint32_t k1) {\n"
      "        (void)k0, (void)k1;\n");
    if (k->cores.streams)
        put_parts(e, k, 3 + 4 * EMIT_MAX_SEGMENTS);
    P("        cb_wait_front(%d, 1);\n"
      "        noc_async_write_page((batch * Mt + m) * Nt + n, out, "
      "get_read_ptr(%d));\n"
      "        noc_async_write_barrier();\n"
      "        cb_pop_front(%d, 1);\n"
      "    };\n",
      (int)CB_OUT, (int)CB_OUT, (int)CB_OUT);
    put_tile_loop(e, k, 1);
    P("}\n");
}

static dv_status emit_kernels(emitter *e, const emit_kernel *k)
{
    char name[64];
    int group = k->id;
    put_reader(e, k);
    snprintf(name, sizeof name, "reader_%d.cpp", group);
    DV_TRY(dv_emit_file(e, name));
    put_head(e, "the compute kernel", k);
    dv_emit_compute(e, k);
    snprintf(name, sizeof name, "compute_%d.cpp", group);
    DV_TRY(dv_emit_file(e, name));
    put_writer(e, k);
    snprintf(name, sizeof name, "writer_%d.cpp", group);
    return dv_emit_file(e, name);
}

static dv_status match_all(emitter *e, emit_kernel *kernels, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        emit_kernel *k = &kernels[i];
        DV_TRY(dv_emit_match(e, k));
        if (dv_emit_is_blocks(k))
            DV_TRY(dv_emit_size_blocks(e, k));
        if (k->cores.most_contributors > 150)
            return dv_fail(e->diag, DV_E_CAPACITY, DV_NOWHERE,
                           "%s: a tile is cut into %d parts, arguments of a "
                           "core name 150",
                           k->op->name, (int)k->cores.most_contributors + 1);
    }
    return DV_OK;
}

static dv_status check_plan(const emitter *e)
{
    const dv_plan *plan = e->plan;
    if (!plan->target.tile_rows)
        return dv_fail(e->diag, DV_E_USAGE, DV_NOWHERE,
                       "TT-Metalium kernels need a target that computes on "
                       "tiles, such as wormhole; %s does not",
                       plan->target.name);
    if (!plan->n_groups || e->p->n_repeats)
        return dv_fail(e->diag, DV_E_USAGE, DV_NOWHERE,
                       "kernels are for programs without repeat");
    if (plan->target.tile_rows != 32 || plan->target.tile_cols != 32)
        return dv_fail(e->diag, DV_E_USAGE, DV_NOWHERE,
                       "tiles of %" PRId64 "x%" PRId64
                       ": the machine's have 32x32",
                       plan->target.tile_rows, plan->target.tile_cols);
    for (int32_t i = 0; i < plan->n_grids; i++)
        if (dv_emit_chunk(&plan->grids[i]))
            return dv_fail(e->diag, DV_E_USAGE, DV_NOWHERE,
                           "%s: the policy %s hands out tiles while cores run, "
                           "and emitted kernels get theirs at launch; --policy "
                           "static, rect and streamk do so",
                           e->p->tensors[plan->grids[i].tensor].name,
                           plan->grids[i].policy);
    return DV_OK;
}

// Gets the grid (assignment of tiles to cores) of an op: that of its group if
// it is the group's last op, else shards as the group deals its tiles to cores.
static dv_status grid_of_op(emitter *e, int32_t group, int32_t i,
                            const dv_group_grid **out)
{
    const dv_plan *plan = e->plan;
    for (int32_t g = 0; g < plan->n_grids; g++)
        if (plan->grids[g].group == group &&
            i == plan->groups[group].end_op - 1) {
            *out = &plan->grids[g];
            return DV_OK;
        }
    dv_group_grid *made = DV_NEW(&e->arena, dv_group_grid, 1);
    if (!made)
        return dv_nomem(e->diag);
    *out = made;
    return dv_grid_of_op(made, plan, group, i, &e->arena, e->diag);
}

// Describes every op as an emit_kernel. The ops of a group run one after
// another, each as a TT-Metalium program of its own.
static dv_status make_kernels(emitter *e, emit_kernel *kernels)
{
    for (int32_t g = 0; g < e->plan->n_groups; g++)
        for (int32_t i = e->plan->groups[g].first_op;
             i < e->plan->groups[g].end_op; i++) {
            emit_kernel *k = &kernels[i];
            if (e->p->ops[i].is_extern)
                return dv_fail(e->diag, DV_E_USAGE, DV_NOWHERE,
                               "%s has no kernel: it is opaque",
                               e->p->ops[i].name);
            *k = (emit_kernel){.id = i, .op = &e->p->ops[i]};
            DV_TRY(grid_of_op(e, g, i, &k->g));
        }
    return dv_emit_find_shards(e, kernels);
}

dv_status dv_emit_metal(emitter *e)
{
    int32_t n = e->p->n_ops;
    DV_TRY(check_plan(e));
    emit_kernel *kernels = dv_alloc((size_t)n * sizeof *kernels);
    dv_status st = kernels ? DV_OK : dv_nomem(e->diag);
    if (kernels)
        memset(kernels, 0, (size_t)n * sizeof *kernels);
    if (st == DV_OK)
        st = make_kernels(e, kernels);
    if (st == DV_OK)
        st = match_all(e, kernels, n);
    for (int32_t i = 0; i < n && st == DV_OK; i++)
        st = emit_kernels(e, &kernels[i]);
    if (st == DV_OK)
        st = dv_emit_host(e, kernels, n);
    if (st == DV_OK)
        st = dv_emit_rt(e);
    for (int32_t i = 0; i < n && kernels; i++)
        dv_release(kernels[i].cores.at);
    dv_release(kernels);
    return st;
}
