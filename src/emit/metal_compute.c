// Emits compute kernels. Tiles arrive in circular buffers in the order in which
// the reader loads them; sums, functions and masks are computed in registers.
//
// If a tile is split along its depth, the cores with later steps pack their
// sums as f32 into CB_PARTIAL, from where their writers send them. The owner
// receives the partial sums in CB_PEERS, in ascending order of steps, and adds
// them to its own.
#include "emit/emit.h"
#include <inttypes.h>

#define P(...) dv_put(&e->out, __VA_ARGS__)
#define PAD    "        "

static void put_wait(emitter *e, const emit_kernel *k, emit_stage stage)
{
    for (int i = 0; i < k->n_in; i++)
        if (k->in[i].stage == stage)
            P(PAD "cb_wait_front(%d, 1);\n", i);
}

static void put_pop(emitter *e, const emit_kernel *k, emit_stage stage)
{
    for (int i = 0; i < k->n_in; i++)
        if (k->in[i].stage == stage)
            P(PAD "cb_pop_front(%d, 1);\n", i);
}

static void put_pack(emitter *e, int cb)
{
    P(PAD "tile_regs_commit();\n" PAD "tile_regs_wait();\n" PAD
          "cb_reserve_back(%d, 1);\n" PAD "pack_reconfig_data_format(%d);\n" PAD
          "pack_tile(0, %d);\n" PAD "cb_push_back(%d, 1);\n" PAD
          "tile_regs_release();\n",
      cb, cb, cb, cb);
}

// Emits the transposition of vectors that are stored as a row but used as a
// column, or vice versa, before they are broadcast.
static void put_transposes(emitter *e, const emit_kernel *k, emit_stage stage)
{
    for (int i = 0; i < k->n_in; i++) {
        if (k->in[i].lay < LAY_TO_COL || k->in[i].stage != stage)
            continue;
        P(PAD "tile_regs_acquire();\n");
        dv_emit_load(e, LAY_TRANSPOSED, i, 0);
        put_pack(e, CB_TRANSPOSED + i);
        P(PAD "cb_wait_front(%d, 1);\n", CB_TRANSPOSED + i);
    }
}

static void put_transposes_end(emitter *e, const emit_kernel *k,
                               emit_stage stage)
{
    for (int i = 0; i < k->n_in; i++)
        if (k->in[i].lay >= LAY_TO_COL && k->in[i].stage == stage)
            P(PAD "cb_pop_front(%d, 1);\n", CB_TRANSPOSED + i);
}

// Emits a masking of register `reg`: an element keeps its value where the mask
// is 1 and becomes `else_value` elsewhere.
static void put_mask(emitter *e, int cb, int reg, const char *else_value)
{
    P(PAD "cb_wait_front(%d, 1);\n", cb);
    dv_emit_load(e, LAY_PLAIN, cb, reg + 1);
    P(PAD "fill_tile_init();\n" PAD "fill_tile(%d, %s);\n" PAD
          "where_tile_init();\n" PAD
          "where_tile<DataFormat::Float32>(%d, %d, %d, %d);\n" PAD
          "cb_pop_front(%d, 1);\n",
      reg + 2, else_value, reg + 1, reg, reg + 2, reg, cb);
}

static const char *nothing(const emit_kernel *k)
{
    return k->reduce->fn == DV_RED_MAX
               ? "-std::numeric_limits<float>::infinity()"
           : k->reduce->fn == DV_RED_MIN
               ? "std::numeric_limits<float>::infinity()"
               : "0.0f";
}

// Emits the epilogue of a tile: the functions applied to the sum, the mask, and
// the packing of the result.
static void put_end(emitter *e, const emit_kernel *k)
{
    int after = k->reduce ? 1 : 0;
    int out = dv_emit_tiles(e, k, k->op->body, after, 1);
    // `out` is always register 0, where put_mask and put_pack expect the
    // result.
    (void)out;
    if (k->mask_out)
        put_mask(e, CB_MASK_OUT, 0, "0.0f");
    put_pack(e, CB_OUT);
}

// Emits the addition of the other cores' partial sums, in the order of their
// steps.
static void put_contributors(emitter *e, const emit_kernel *k)
{
    P(PAD "for (uint32_t j = 0; k1 < Kt && j < peers; j++) {\n" PAD
          "cb_wait_front(%d, 1);\n",
      (int)CB_PEERS);
    dv_emit_load(e, LAY_PLAIN, CB_PEERS, 1);
    dv_emit_step(e, k, 0, 1);
    P(PAD "cb_pop_front(%d, 1);\n" PAD "}\n", (int)CB_PEERS);
}

// Emits the case that another core owns the tile (combines its partial sums):
// pack this core's partial sum for that core and return.
static void put_partial(emitter *e, const emit_kernel *k)
{
    if (!k->cores.streams)
        return;
    P(PAD "if (k0 > 0) {\n");
    put_pack(e, CB_PARTIAL);
    put_transposes_end(e, k, STAGE_BEFORE);
    put_pop(e, k, STAGE_BEFORE);
    P(PAD "return;\n" PAD "}\n");
    if (k->cores.most_contributors)
        put_contributors(e, k);
}

static void put_pointwise(emitter *e, const emit_kernel *k)
{
    put_wait(e, k, STAGE_AFTER);
    put_transposes(e, k, STAGE_AFTER);
    P(PAD "tile_regs_acquire();\n");
    put_end(e, k);
    put_transposes_end(e, k, STAGE_AFTER);
    put_pop(e, k, STAGE_AFTER);
}

static int right_is_transposed(const emit_kernel *k)
{
    return k->in[1].lay == LAY_TRANSPOSED;
}

int dv_emit_left_is_transposed(const emit_kernel *k)
{
    return k->shape == EMIT_PRODUCT && k->in[0].lay == LAY_TRANSPOSED;
}

// Returns the circular buffer of the product's left factor: the transposed copy
// or the operand itself.
static int left_of(const emit_kernel *k)
{
    return dv_emit_left_is_transposed(k) ? (int)CB_TRANSPOSED : 0;
}

// Emits the transposition of up to EMIT_TRANSPOSE_BATCH tiles of the left
// factor. The buffer is always filled and emptied completely, so that its tiles
// never wrap around the end.
static void put_transposed_left(emitter *e)
{
    int left = CB_TRANSPOSED, n = EMIT_TRANSPOSE_BATCH;
    P(PAD "tile_regs_acquire();\n" PAD "reconfig_data_format_srca(0);\n" PAD
          "transpose_init(0);\n" PAD "for (uint32_t k = 0; k < kw; k++) {\n" PAD
          "    cb_wait_front(0, 1);\n" PAD "    transpose_tile(0, 0, k);\n" PAD
          "    cb_pop_front(0, 1);\n" PAD "}\n" PAD "tile_regs_commit();\n" PAD
          "tile_regs_wait();\n" PAD "pack_reconfig_data_format(%d);\n" PAD
          "for (uint32_t k = 0; k < %d; k++) {\n" PAD
          "    cb_reserve_back(%d, 1);\n" PAD "    if (k < kw)\n" PAD
          "        pack_tile(k, %d);\n" PAD "    cb_push_back(%d, 1);\n" PAD
          "}\n" PAD "tile_regs_release();\n",
      left, n, left, left, left);
}

// Emits a product with a transposed left factor. Transposing a few tiles
// occupies the registers, so the sum so far is stored in a circular buffer
// (CB_SUMS) and reloaded before those tiles are multiplied.
static void put_transposed_product(emitter *e, const emit_kernel *k)
{
    int left = CB_TRANSPOSED, n = EMIT_TRANSPOSE_BATCH;
    P(PAD "for (uint32_t kb = k0; kb < k1; kb += %d) {\n" PAD
          "const uint32_t kw = k1 - kb < %d ? k1 - kb : %d;\n",
      n, n, n);
    put_transposed_left(e);
    P(PAD "tile_regs_acquire();\n" PAD "if (kb > k0) {\n" PAD
          "cb_wait_front(%d, 1);\n",
      (int)CB_SUMS);
    dv_emit_load(e, LAY_PLAIN, CB_SUMS, 0);
    P(PAD
      "cb_pop_front(%d, 1);\n" PAD "}\n" PAD "cb_wait_front(%d, %d);\n" PAD
      "reconfig_data_format(1, %d);\n" PAD "matmul_init(%d, 1, %d);\n" PAD
      "for (uint32_t k = 0; k < kw; k++) {\n" PAD
      "    cb_wait_front(1, 1);\n" PAD "    matmul_tiles(%d, 1, k, 0, 0);\n" PAD
      "    cb_pop_front(1, 1);\n" PAD "}\n" PAD "cb_pop_front(%d, %d);\n" PAD
      "if (kb + kw < k1) {\n",
      (int)CB_SUMS, left, n, left, left, right_is_transposed(k), left, left, n);
    put_pack(e, CB_SUMS);
    P(PAD "}\n" PAD "}\n");
}

static void put_sum(emitter *e, const emit_kernel *k)
{
    P(PAD "tile_regs_acquire();\n" PAD "reconfig_data_format(1, 0);\n" PAD
          "matmul_init(0, 1, %d);\n" PAD
          "for (uint32_t k = k0; k < k1; k++) {\n" PAD
          "    cb_wait_front(0, 1);\n" PAD "    cb_wait_front(1, 1);\n" PAD
          "    matmul_tiles(0, 1, 0, 0, 0);\n" PAD
          "    cb_pop_front(0, 1);\n" PAD "    cb_pop_front(1, 1);\n" PAD "}\n",
      right_is_transposed(k));
}

static void put_product(emitter *e, const emit_kernel *k)
{
    if (dv_emit_left_is_transposed(k))
        put_transposed_product(e, k);
    else
        put_sum(e, k);
    put_partial(e, k);
    // Operands of the epilogue that need transposing were transposed before the
    // sum, because transposing overwrites the registers that hold it.
    put_wait(e, k, STAGE_AFTER);
    put_end(e, k);
    put_transposes_end(e, k, STAGE_AFTER);
    put_pop(e, k, STAGE_AFTER);
}

static void put_steps(emitter *e, const emit_kernel *k)
{
    P(PAD "tile_regs_acquire();\n" PAD "fill_tile_init();\n" PAD
          "fill_tile(0, %s);\n" PAD "for (uint32_t k = k0; k < k1; k++) {\n",
      nothing(k));
    put_wait(e, k, STAGE_STEP);
    dv_emit_tiles(e, k, k->reduce->arg[0], 1, 0);
    if (k->mask_in)
        put_mask(e, CB_MASK_IN, 1, nothing(k));
    dv_emit_step(e, k, 0, 1);
    put_pop(e, k, STAGE_STEP);
    P(PAD "}\n");
}

static void put_negative(emitter *e, const emit_kernel *k)
{
    // The hardware reduces a tile only by sum and max, so min(x) is computed as
    // -max(-x).
    if (k->reduce->fn == DV_RED_MIN)
        P(PAD "negative_tile_init();\n" PAD "negative_tile(0);\n");
}

static int is_reduced(const emit_kernel *k, int v)
{
    return v < 0 || k->op->vars[v].reduce;
}

// Emits the reduction of a tile of elementwise sums to one row, one column or
// one element.
static void put_reduced(emitter *e, const emit_kernel *k)
{
    int rows = is_reduced(k, k->plane.row), cols = is_reduced(k, k->plane.col);
    const char *dim = rows && cols ? "REDUCE_SCALAR"
                      : cols       ? "REDUCE_ROW"
                                   : "REDUCE_COL";
    int sums = k->reduce->fn == DV_RED_SUM || k->reduce->fn == DV_RED_MEAN;
    const char *pool = sums ? "SUM" : "MAX";
    P(PAD "cb_wait_front(%d, 1);\n" PAD "tile_regs_acquire();\n" PAD
          "reconfig_data_format(%d, %d);\n" PAD
          "reduce_init<PoolType::%s, ReduceDim::%s>(%d, %d, %d);\n" PAD
          "reduce_tile<PoolType::%s, ReduceDim::%s>(%d, %d, 0, 0, 0);\n" PAD
          "reduce_uninit();\n" PAD "cb_pop_front(%d, 1);\n",
      (int)CB_SUMS, (int)CB_SUMS, (int)CB_SCALER, pool, dim, (int)CB_SUMS,
      (int)CB_SCALER, (int)CB_OUT, pool, dim, (int)CB_SUMS, (int)CB_SCALER,
      (int)CB_SUMS);
    put_negative(e, k);
    // If the reduction gives a column but the result is a row, or vice versa,
    // transpose it.
    if ((cols && !rows && k->plane.row == k->out.col) ||
        (rows && !cols && k->plane.col == k->out.row)) {
        put_pack(e, CB_COLUMN);
        P(PAD "cb_wait_front(%d, 1);\n" PAD "tile_regs_acquire();\n",
          (int)CB_COLUMN);
        dv_emit_load(e, LAY_TRANSPOSED, CB_COLUMN, 0);
        P(PAD "cb_pop_front(%d, 1);\n", (int)CB_COLUMN);
    }
    if (k->reduce->fn == DV_RED_MEAN)
        P(PAD "fill_tile_init();\n" PAD "fill_tile(1, %" PRId64 ".0f);\n" PAD
              "div_binary_tile_init();\n" PAD "div_binary_tile(0, 1, 0);\n",
          dv_op_points(k->op, k->reduce->vars));
}

static void put_reduce(emitter *e, const emit_kernel *k)
{
    put_wait(e, k, STAGE_BEFORE);
    put_transposes(e, k, STAGE_BEFORE);
    put_steps(e, k);
    put_partial(e, k);
    put_negative(e, k);
    put_pack(e, CB_SUMS);
    put_transposes_end(e, k, STAGE_BEFORE);
    put_pop(e, k, STAGE_BEFORE);
    put_wait(e, k, STAGE_AFTER);
    put_transposes(e, k, STAGE_AFTER);
    put_reduced(e, k);
    put_end(e, k);
    put_transposes_end(e, k, STAGE_AFTER);
    put_pop(e, k, STAGE_AFTER);
}

// Emits the transposition of the left factor's panel (its tiles for one block
// of the summed dimension), tile by tile.
static void put_transposed_panel(emitter *e)
{
    P("        for (uint32_t i = 0; i < block_m * block_k; i++) {\n" PAD
      "tile_regs_acquire();\n" PAD "reconfig_data_format_srca(0);\n" PAD
      "transpose_init(0);\n" PAD "transpose_tile(0, i, 0);\n");
    put_pack(e, CB_TRANSPOSED);
    P("        }\n        cb_wait_front(%d, block_m * block_k);\n",
      (int)CB_TRANSPOSED);
}

// Emits the product of a core's rectangle of tiles in as many passes as its
// memory requires. Every pass steps through the summed dimension (k) in blocks;
// incomplete sums are kept in a circular buffer (CB_PARTIAL) in tile order.
static void put_blocks(emitter *e, const emit_kernel *k)
{
    dv_emit_sizes(e, k);
    P("    for (uint32_t pass = 0; pass < batches * pass_m * pass_n; pass++) "
      "{\n"
      "        const uint32_t h = part(m1 - m0, pass_m, pass / pass_n %% "
      "pass_m + 1) - part(m1 - m0, pass_m, pass / pass_n %% pass_m);\n"
      "        const uint32_t w = part(n1 - n0, pass_n, pass %% pass_n + 1) - "
      "part(n1 - n0, pass_n, pass %% pass_n);\n"
      "        for (uint32_t kb = 0; kb < Kt; kb += block_k) {\n"
      "        const uint32_t kw = Kt - kb < block_k ? Kt - kb : block_k;\n"
      "        cb_wait_front(0, block_m * block_k);\n"
      "        cb_wait_front(1, block_k * block_n);\n");
    if (dv_emit_left_is_transposed(k))
        put_transposed_panel(e);
    P("        for (uint32_t t = 0; t < h * w; t++) {\n");
    P(PAD "const bool last = kb + block_k >= Kt;\n");
    if (k->n_in > 2) {
        P(PAD "if (last) {\n");
        put_wait(e, k, STAGE_AFTER);
        put_transposes(e, k, STAGE_AFTER);
        P(PAD "}\n");
    }
    P(PAD "tile_regs_acquire();\n" PAD "if (kb > 0) {\n" PAD
          "cb_wait_front(%d, 1);\n",
      (int)CB_PARTIAL);
    dv_emit_load(e, LAY_PLAIN, CB_PARTIAL, 0);
    P(PAD "cb_pop_front(%d, 1);\n" PAD "}\n" PAD
          "reconfig_data_format(1, %d);\n" PAD "matmul_init(%d, 1, %d);\n" PAD
          "for (uint32_t k = 0; k < kw; k++)\n" PAD
          "    matmul_tiles(%d, 1, t / w * block_k + k, k * block_n + t %% w, "
          "0);\n",
      (int)CB_PARTIAL, left_of(k), left_of(k), right_is_transposed(k),
      left_of(k));
    P(PAD "if (!last) {\n");
    put_pack(e, CB_PARTIAL);
    P(PAD "continue;\n" PAD "}\n");
    put_end(e, k);
    put_transposes_end(e, k, STAGE_AFTER);
    put_pop(e, k, STAGE_AFTER);
    P("        }\n");
    if (dv_emit_left_is_transposed(k))
        P("        cb_pop_front(%d, block_m * block_k);\n", (int)CB_TRANSPOSED);
    P("        cb_pop_front(0, block_m * block_k);\n"
      "        cb_pop_front(1, block_k * block_n);\n"
      "        }\n"
      "    }\n");
}

static void put_loop(emitter *e, const emit_kernel *k)
{
    if (k->cores.streams)
        P("    const uint32_t segments = get_arg_val<uint32_t>(1);\n"
          "    for (uint32_t s = 0; s < segments; s++)\n"
          "        for (uint32_t i = 0; i < get_arg_val<uint32_t>(3 + 4 * s); "
          "i++)\n"
          "            tile(get_arg_val<uint32_t>(4 + 4 * s), "
          "get_arg_val<uint32_t>(5 + 4 * s));\n");
    else
        P("    const uint32_t count = get_arg_val<uint32_t>(1);\n"
          "    for (uint32_t i = 0; i < count; i++)\n"
          "        tile(0, steps);\n");
}

static void put_tiles(emitter *e, const emit_kernel *k)
{
    P("    constexpr uint32_t Kt = %" PRId64 ", steps = %" PRId64 ";\n"
      "    (void)Kt, (void)steps;\n",
      k->g->kt, k->steps);
    if (k->cores.streams)
        P("    const uint32_t peers = get_arg_val<uint32_t>(0);\n"
          "    (void)peers;\n");
    if (k->shape == EMIT_REDUCE)
        P("    cb_wait_front(%d, 1);\n", (int)CB_SCALER);
    P("    const auto tile = [&](uint32_t k0, uint32_t k1) {\n"
      "        (void)k0, (void)k1;\n");
    if (k->shape == EMIT_POINTWISE) {
        put_pointwise(e, k);
    } else if (k->shape == EMIT_PRODUCT) {
        // Operands of the epilogue are transposed before the sum, because
        // transposing overwrites the registers. Only the tile's owner (k0 == 0)
        // needs them.
        int turns = 0;
        for (int i = 0; i < k->n_in; i++)
            turns |= k->in[i].lay >= LAY_TO_COL;
        if (turns) {
            P(PAD "if (k0 == 0) {\n");
            put_wait(e, k, STAGE_AFTER);
            put_transposes(e, k, STAGE_AFTER);
            P(PAD "}\n");
        }
        put_product(e, k);
    } else {
        put_reduce(e, k);
    }
    P("    };\n");
    put_loop(e, k);
    if (k->shape == EMIT_REDUCE)
        P("    cb_pop_front(%d, 1);\n", (int)CB_SCALER);
}

void dv_emit_compute(emitter *e, const emit_kernel *k)
{
    dv_emit_headers(e, k);
    P("\nvoid kernel_main() {\n");
    if (k->shape == EMIT_PRODUCT)
        P("    compute_kernel_hw_startup<SrcOrder::Reverse>(%d, 1, %d);\n",
          left_of(k), (int)CB_OUT);
    else
        P("    unary_op_init_common(%d, %d);\n", k->n_in ? 0 : (int)CB_OUT,
          (int)CB_OUT);
    if (dv_emit_is_blocks(k))
        put_blocks(e, k);
    else
        put_tiles(e, k);
    P("}\n");
}
