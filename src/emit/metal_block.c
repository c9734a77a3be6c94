// Emits products on rectangles of cores that share panels: the first core of
// every row of cores reads rows of A and multicasts them along the row, and the
// first core of every column does so with columns of B. A core computes its
// rectangle in passes, as its memory allows, and the depth in blocks. All cores
// take part in every pass, so that buffers have the same addresses on all
// cores.
#include "emit/emit.h"
#include "base/math.h"
#include "target/target.h"
#include <inttypes.h>

#define P(...) dv_put(&e->out, __VA_ARGS__)

int dv_emit_is_blocks(const emit_kernel *k)
{
    return k->g->rect && k->shape == EMIT_PRODUCT;
}

static int64_t page_bytes(const emitter *e, int32_t tensor)
{
    return 1024 * dv_dtype_get(e->p->tensors[tensor].dtype)->size_bytes;
}

// Chooses the block sizes for a core's rectangle of tiles so that the panels
// (of both factors), the block and all other buffers fit the core's memory.
dv_status dv_emit_size_blocks(const emitter *e, emit_kernel *k)
{
    int64_t h = 1, w = 1, depth = dv_min_i64(8, k->g->kt);
    int64_t room = dv_target_usable_bytes(&e->plan->target) - 28 * 4096;
    int64_t a = page_bytes(e, k->in[0].tensor);
    int64_t b = page_bytes(e, k->in[1].tensor);
    int64_t transposed = dv_emit_left_is_transposed(k) ? a : 0;
    for (int32_t i = 0; i < k->cores.n; i++) {
        h = dv_max_i64(h, k->cores.at[i].at[0].m1 - k->cores.at[i].at[0].m0);
        w = dv_max_i64(w, k->cores.at[i].at[0].n1 - k->cores.at[i].at[0].n0);
    }
    k->block_m = h, k->block_n = w;
    while (2 * depth * (k->block_m * a + k->block_n * b) +
               depth * k->block_m * transposed +
               4096 * k->block_m * k->block_n >
           room) {
        if (depth > 1)
            depth /= 2;
        else if (k->block_m >= k->block_n && k->block_m > 1)
            k->block_m = dv_ceil_div(k->block_m, 2);
        else if (k->block_n > 1)
            k->block_n = dv_ceil_div(k->block_n, 2);
        else
            return dv_fail(e->diag, DV_E_CAPACITY, DV_NOWHERE,
                           "%s: blocks of one tile need more than the %" PRId64
                           " bytes of a core",
                           k->op->name,
                           dv_target_usable_bytes(&e->plan->target));
    }
    k->block_k = depth;
    k->pass_m = dv_ceil_div(h, k->block_m);
    k->pass_n = dv_ceil_div(w, k->block_n);
    return DV_OK;
}

void dv_emit_sizes(emitter *e, const emit_kernel *k)
{
    P("    constexpr uint32_t Kt = %" PRId64 ", batches = %" PRId64 ";\n"
      "    constexpr uint32_t block_m = %" PRId64 ", block_n = %" PRId64
      ", block_k = %" PRId64 ";\n"
      "    constexpr uint32_t pass_m = %" PRId64 ", pass_n = %" PRId64 ";\n"
      "    const uint32_t m0 = get_arg_val<uint32_t>(0), m1 = "
      "get_arg_val<uint32_t>(1);\n"
      "    const uint32_t n0 = get_arg_val<uint32_t>(2), n1 = "
      "get_arg_val<uint32_t>(3);\n"
      "    // Where part i of p begins, of n; the first ones are larger.\n"
      "    const auto part = [](uint32_t n, uint32_t p, uint32_t i) { return i "
      "* (n / p) + (i < n %% p ? i : n %% p); };\n",
      k->g->kt, k->g->batch, k->block_m, k->block_n, k->block_k, k->pass_m,
      k->pass_n);
}

// Emits the loading of one operand's panel (rows of A or columns of B): read
// and multicast it, or wait for it. Runtime arguments from `first` on: the role
// (0 alone, 1 sends, 2 receives), then the sender's coordinates, or the
// coordinates of the first and last receiver and their number.
static void put_panel_load(emitter *e, const emit_kernel *k, int i, int first)
{
    const char *name = i ? "b" : "a";
    const char *rows = i ? "kw" : "h", *cols = i ? "w" : "kw";
    const char *wide = i ? "block_n" : "block_k";
    P("        {\n"
      "            const uint32_t role = get_arg_val<uint32_t>(%d);\n"
      "            cb_reserve_back(%d, %s_pages);\n"
      "            const uint32_t to = get_write_ptr(%d);\n"
      "            if (role == 2) {\n"
      "                noc_semaphore_set(%s_there, 0);\n"
      "                noc_semaphore_inc(get_noc_addr(get_arg_val<uint32_t>(%d)"
      ", get_arg_val<uint32_t>(%d), get_semaphore(%d)), 1);\n"
      "                noc_semaphore_wait(%s_there, 1);\n"
      "            } else {\n"
      "                for (uint32_t i = 0; i < %s; i++)\n"
      "                    for (uint32_t j = 0; j < %s; j++) {\n",
      first, i, name, i, name, first + 1, first + 2, 2 * i, name, rows, cols);
    P("                        const uint32_t m = mb + i, n = nb + j, k = kb + "
      "%s;\n"
      "                        (void)m, (void)n, (void)k;\n"
      "                        noc_async_read_page(",
      i ? "i" : "j");
    dv_emit_page(e, k, &k->in[i]);
    P(", in%d, to + (i * %s + j) * get_tile_size(%d));\n"
      "                    }\n"
      "                noc_async_read_barrier();\n"
      "            }\n"
      "            if (role == 1) {\n"
      "                const uint32_t x0 = get_arg_val<uint32_t>(%d), y0 = "
      "get_arg_val<uint32_t>(%d);\n"
      "                const uint32_t x1 = get_arg_val<uint32_t>(%d), y1 = "
      "get_arg_val<uint32_t>(%d);\n"
      "                const uint32_t others = get_arg_val<uint32_t>(%d);\n"
      "                noc_semaphore_wait(%s_ready, others);\n"
      "                noc_semaphore_set(%s_ready, 0);\n"
      "                noc_async_write_multicast(to, "
      "get_noc_multicast_addr(x0, y0, x1, y1, to), %s_pages * "
      "get_tile_size(%d), others);\n"
      "                noc_semaphore_set_multicast(get_semaphore(%d), "
      "get_noc_multicast_addr(x0, y0, x1, y1, get_semaphore(%d)), others);\n"
      "                noc_async_write_barrier();\n"
      "            }\n"
      "            cb_push_back(%d, %s_pages);\n"
      "        }\n",
      i, wide, i, first + 1, first + 2, first + 3, first + 4, first + 5, name,
      name, name, i, 2 * i + 1, 2 * i + 1, i, name);
}

// The head of the emitted loop over passes, each of which computes a block of h
// x w tiles from row mb and column nb on.
#define PASSES                                                                 \
    "    for (uint32_t pass = 0; pass < batches * pass_m * pass_n; pass++) "   \
    "{\n"                                                                      \
    "        const uint32_t batch = pass / (pass_m * pass_n);\n"               \
    "        const uint32_t i0 = pass / pass_n %% pass_m, j0 = pass %% "       \
    "pass_n;\n"                                                                \
    "        const uint32_t mb = m0 + part(m1 - m0, pass_m, i0), h = m0 + "    \
    "part(m1 - m0, pass_m, i0 + 1) - mb;\n"                                    \
    "        const uint32_t nb = n0 + part(n1 - n0, pass_n, j0), w = n0 + "    \
    "part(n1 - n0, pass_n, j0 + 1) - nb;\n"

// Emits the reader's loop over passes and blocks: the panels of A and B, then
// the operands that are applied to each tile's sum.
static void put_passes(emitter *e, const emit_kernel *k, int first)
{
    for (int i = 0; i < 4; i++)
        P("    volatile tt_l1_ptr uint32_t* %s_%s = reinterpret_cast<volatile "
          "tt_l1_ptr uint32_t*>(get_semaphore(%d));\n",
          i / 2 ? "b" : "a", i % 2 ? "there" : "ready", i);
    P("    constexpr uint32_t a_pages = block_m * block_k, b_pages = block_k * "
      "block_n;\n"
      "    noc_semaphore_set(a_there, 1);\n"
      "    noc_semaphore_set(b_there, 1);\n" PASSES "        (void)batch;\n"
      "        for (uint32_t kb = 0; kb < Kt; kb += block_k) {\n"
      "        const uint32_t kw = Kt - kb < block_k ? Kt - kb : block_k;\n");
    put_panel_load(e, k, 0, first);
    put_panel_load(e, k, 1, first + 6);
    P("        }\n"
      "        for (uint32_t t = 0; t < h * w; t++) {\n"
      "            const uint32_t m = mb + t / w, n = nb + t %% w;\n"
      "            (void)m, (void)n;\n");
    dv_emit_epilogue_loads(e, k);
    P("        }\n    }\n");
}

void dv_emit_block_reader(emitter *e, const emit_kernel *k)
{
    // The sizes m0, m1, n0 and n1 are kernel arguments 0 to 3, as in the
    // compute kernel.
    dv_emit_sizes(e, k);
    P("    constexpr uint32_t Mt = %" PRId64 ", Nt = %" PRId64 ";\n"
      "    (void)Mt, (void)Nt;\n",
      k->g->mt, k->g->nt);
    int n = dv_emit_accessors(e, k, 4, CB_MASK_OUT);
    put_passes(e, k, 4 + n);
    P("}\n");
}

void dv_emit_block_writer(emitter *e, const emit_kernel *k)
{
    dv_emit_sizes(e, k);
    P("    constexpr uint32_t Mt = %" PRId64 ", Nt = %" PRId64 ";\n"
      "    (void)Mt, (void)Kt, (void)block_m, (void)block_n, (void)block_k;\n"
      "    constexpr auto args = TensorAccessorArgs<0>();\n"
      "    const auto out = TensorAccessor(args, get_arg_val<uint32_t>(4), "
      "get_tile_size(%d));\n" PASSES
      "        for (uint32_t t = 0; t < h * w; t++) {\n"
      "            cb_wait_front(%d, 1);\n"
      "            noc_async_write_page((batch * Mt + mb + t / w) * Nt + nb + "
      "t "
      "%% w, out, get_read_ptr(%d));\n"
      "            noc_async_write_barrier();\n"
      "            cb_pop_front(%d, 1);\n"
      "        }\n    }\n}\n",
      k->g->mt, k->g->nt, (int)CB_OUT, (int)CB_OUT, (int)CB_OUT, (int)CB_OUT);
}
