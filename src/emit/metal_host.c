// Emits the host program: buffers, kernels and runtime arguments per core, with
// one TT-Metalium program per group.
#include "emit/emit.h"
#include "base/math.h"
#include <inttypes.h>
#include <string.h>

#define P(...) dv_put(&e->out, __VA_ARGS__)

static void put_head(emitter *e)
{
    P("// Made by divvy for %s: host program. Arguments: NAME=FILE.npy for "
      "inputs and\n// outputs.\n"
      "#include <tt-metalium/bfloat16.hpp>\n"
      "#include <tt-metalium/buffer_distribution_spec.hpp>\n"
      "#include <tt-metalium/distributed.hpp>\n"
      "#include <tt-metalium/host_api.hpp>\n"
      "#include <tt-metalium/tensor_accessor_args.hpp>\n"
      "#include <tt-metalium/tilize_utils.hpp>\n"
      "#include <cstdint>\n#include <map>\n#include <memory>\n"
      "#include <string>\n#include <vector>\n#include \"rt.h\"\n\n"
      "using namespace tt;\nusing namespace tt::tt_metal;\n\n"
      "#ifndef KERNEL_DIR\n#define KERNEL_DIR \"\"\n#endif\n\n",
      e->plan->target.name);
}

// Emits host functions that pad each matrix of a batch and store it tile by
// tile, and their inverse.
static void put_layout(emitter *e)
{
    P("// Rows of tiles, the elements beyond the edge 0.\n"
      "template <typename T>\n"
      "static std::vector<T> to_tiles(const std::vector<T>& x, uint32_t batch, "
      "uint32_t rows, uint32_t cols) {\n"
      "    const uint32_t pr = (rows + 31) / 32 * 32, pc = (cols + 31) / 32 * "
      "32;\n"
      "    std::vector<T> out;\n"
      "    for (uint32_t b = 0; b < batch; b++) {\n"
      "        std::vector<T> padded(size_t{pr} * pc);\n"
      "        for (uint32_t r = 0; r < rows; r++)\n"
      "            for (uint32_t c = 0; c < cols; c++)\n"
      "                padded[size_t{r} * pc + c] = x[(size_t{b} * rows + r) * "
      "cols + c];\n"
      "        const auto tiles = tilize_nfaces(padded, pr, pc);\n"
      "        out.insert(out.end(), tiles.begin(), tiles.end());\n"
      "    }\n"
      "    return out;\n"
      "}\n\n"
      "template <typename T>\n"
      "static std::vector<T> from_tiles(const std::vector<T>& x, uint32_t "
      "batch, uint32_t rows, uint32_t cols) {\n"
      "    const uint32_t pr = (rows + 31) / 32 * 32, pc = (cols + 31) / 32 * "
      "32;\n"
      "    const size_t each = size_t{pr} * pc;\n"
      "    std::vector<T> out(size_t{batch} * rows * cols);\n"
      "    for (uint32_t b = 0; b < batch; b++) {\n"
      "        const std::vector<T> one(x.begin() + b * each, x.begin() + (b + "
      "1) * each);\n"
      "        const auto padded = untilize_nfaces(one, pr, pc);\n"
      "        for (uint32_t r = 0; r < rows; r++)\n"
      "            for (uint32_t c = 0; c < cols; c++)\n"
      "                out[(size_t{b} * rows + r) * cols + c] = "
      "padded[size_t{r} "
      "* pc + c];\n"
      "    }\n"
      "    return out;\n"
      "}\n\n");
}

// Emits a function that makes a tile with ones in its first rows and columns
// and zeros elsewhere.
static void put_mask(emitter *e)
{
    P("// A tile with ones in its first rows and columns.\n"
      "[[maybe_unused]] static std::vector<float> mask(uint32_t rows, uint32_t "
      "cols) {\n"
      "    return to_tiles(std::vector<float>(size_t{rows} * cols, 1.0f), 1, "
      "rows, cols);\n"
      "}\n\n"
      "[[maybe_unused]] static void append(std::vector<float>& to, const "
      "std::vector<float>& x) {\n"
      "    to.insert(to.end(), x.begin(), x.end());\n"
      "}\n\n");
}

typedef struct extent {
    int64_t batch, rows, cols;
} extent;

static extent extent_of(const dv_tensor *t)
{
    extent x = {1, 1, 1};
    int n = t->n_dims;
    x.cols = n > 0 ? t->shape[n - 1] : 1;
    x.rows = n > 1 ? t->shape[n - 2] : 1;
    for (int d = 0; d < n - 2; d++)
        x.batch *= t->shape[d];
    return x;
}

static const char *elem(const dv_tensor *t)
{
    return t->dtype == DV_F32 ? "float" : "uint16_t";
}

static void put_buffer(emitter *e, int32_t i)
{
    const dv_tensor *t = &e->p->tensors[i];
    extent x = extent_of(t);
    int64_t page = 1024 * dv_dtype_get(t->dtype)->size_bytes;
    int64_t pages = x.batch * dv_ceil_div(x.rows, 32) * dv_ceil_div(x.cols, 32);
    P("    auto ");
    dv_emit_tensor(&e->out, e->p, i);
    P(" = distributed::MeshBuffer::create(\n"
      "        distributed::ReplicatedBufferConfig{.size = %" PRId64 "},\n"
      "        distributed::DeviceLocalBufferConfig{.page_size = %" PRId64 "",
      page * pages, page);
    dv_emit_sharding(e, i);
    P("},\n        device.get());\n");
    if (!t->is_input)
        return;
    P("    {\n        std::vector<%s> x(%" PRId64 ");\n", elem(t), t->n_elems);
    dv_emit_read(e, t, elem(t), "x.data()");
    P("        auto tiles = to_tiles(x, %" PRId64 ", %" PRId64 ", %" PRId64
      ");\n"
      "        distributed::EnqueueWriteMeshBuffer(queue, ",
      x.batch, x.rows, x.cols);
    dv_emit_tensor(&e->out, e->p, i);
    P(", tiles, true);\n    }\n");
}

static void put_result(emitter *e, int32_t i)
{
    const dv_tensor *t = &e->p->tensors[i];
    extent x = extent_of(t);
    P("    {\n        std::vector<%s> tiles;\n"
      "        distributed::EnqueueReadMeshBuffer(queue, tiles, ",
      elem(t));
    dv_emit_tensor(&e->out, e->p, i);
    P(", true);\n"
      "        const auto y = from_tiles(tiles, %" PRId64 ", %" PRId64
      ", %" PRId64 ");\n"
      "        rt_write(argc, argv, \"%s\", \"%s\", \"",
      x.batch, x.rows, x.cols, t->name, dv_dtype_get(t->dtype)->npy);
    for (int d = 0; d < t->n_dims; d++)
        P("%s%" PRId64, d ? ", " : "", t->shape[d]);
    P("%s\", y.data(), %" PRId64 ", sizeof(%s), %d);\n    }\n",
      t->n_dims == 1 ? "," : "", t->n_elems, elem(t), t->is_input);
}

// Fills in one core's row of the emitted table of a group's cores; returns the
// number of columns.
static int row_of(const emit_kernel *k, const emit_core *c, int64_t *v)
{
    const dv_group_grid *g = k->g;
    const dv_tile_range *r = &c->at[0];
    int n = 0;
    v[n++] = c->x;
    v[n++] = c->y;
    if (g->rect) {
        int64_t box[] = {r->m0, r->m1, r->n0, r->n1};
        for (int i = 0; i < 4; i++)
            v[n++] = box[i];
    } else if (k->cores.streams) {
        v[n++] = c->contributors;
        v[n++] = c->n;
        for (int i = 0; i < EMIT_MAX_SEGMENTS; i++) {
            v[n++] = i < c->n ? c->at[i].first : 0;
            v[n++] = i < c->n ? c->at[i].n : 0;
            v[n++] = i < c->n ? c->at[i].k0 : 0;
            v[n++] = i < c->n ? c->at[i].k1 : 0;
        }
        v[n++] = c->rank;
        v[n++] = c->owner;
    } else {
        const char *names[DV_GRID_MAX_ARGS];
        n += dv_emit_args(g, &k->cores, c, names, v + n);
    }
    return n;
}

static void put_names(emitter *e, const emit_kernel *k)
{
    P("// core x, core y");
    if (k->g->rect) {
        P(", rows m0..m1, columns n0..n1");
    } else if (k->cores.streams) {
        P(", cores that help it, ranges (first tile, tiles, first step, end), "
          "rank among the owner's helpers, owner's row here (or none)");
    } else {
        const char *names[DV_GRID_MAX_ARGS];
        int64_t values[DV_GRID_MAX_ARGS];
        int n = dv_emit_args(k->g, &k->cores, &k->cores.at[0], names, values);
        for (int i = 0; i < n; i++)
            P(", %s", names[i]);
    }
}

static void put_rows(emitter *e, const emit_kernel *k)
{
    int64_t v[8 + 4 * EMIT_MAX_SEGMENTS + DV_GRID_MAX_ARGS];
    int n = row_of(k, &k->cores.at[0], v);
    put_names(e, k);
    P("\nstatic const uint32_t rows_%d[][%d] = {\n", k->id, n);
    for (int32_t i = 0; i < k->cores.n; i++) {
        row_of(k, &k->cores.at[i], v);
        P("    {");
        for (int j = 0; j < n; j++) {
            P("%s", j ? ", " : "");
            if (v[j] < 0)
                P("UINT32_MAX");
            else
                P("%" PRId64, v[j]);
        }
        P("},\n");
    }
    P("};\n\n");
}

static const char *format_of(const emitter *e, int32_t tensor)
{
    switch (e->p->tensors[tensor].dtype) {
    case DV_F32:
        return "DataFormat::Float32";
    case DV_F16:
        return "DataFormat::Float16";
    default:
        return "DataFormat::Float16_b";
    }
}

static void put_cb(emitter *e, int index, const char *format, int64_t pages)
{
    int64_t page = strstr(format, "16") ? 2048 : 4096;
    e->cb_bytes += pages * page;
    P("    CreateCircularBuffer(program, cores, CircularBufferConfig(%" PRId64
      " * %" PRId64 ", {{%d, %s}}).set_page_size(%d, %" PRId64 "));\n",
      pages, page, index, format, index, page);
}

// Emits a circular buffer whose memory is the core's shard of a tensor.
static void put_shard_cb(emitter *e, int index, int32_t tensor, int64_t pages)
{
    const char *format = format_of(e, tensor);
    int64_t page = strstr(format, "16") ? 2048 : 4096;
    P("    CreateCircularBuffer(program, cores, CircularBufferConfig(%" PRId64
      " * %" PRId64 ", {{%d, %s}}).set_page_size(%d, %" PRId64
      ").set_globally_allocated_address(*",
      pages, page, index, format, index, page);
    dv_emit_tensor(&e->out, e->p, tensor);
    P("->get_backing_buffer()));\n");
}

// Emits the circular buffers. Sums are f32, whatever the types of the tensors.
static void put_cbs(emitter *e, const emit_kernel *k)
{
    const char *sums = "DataFormat::Float32";
    int blocks = dv_emit_is_blocks(k), reduce = k->shape == EMIT_REDUCE;
    for (int i = 0; i < k->n_in; i++) {
        int64_t n = !blocks || i > 1 ? 1
                    : i              ? k->block_k * k->block_n
                                     : k->block_m * k->block_k;
        if (!blocks && dv_emit_left_is_transposed(k) && i < 2)
            // Both factors of the product get this many pages, so that the
            // reader need not wait while tiles of the left factor are
            // transposed.
            n = EMIT_TRANSPOSE_BATCH;
        if (k->in[i].own_tiles)
            put_shard_cb(e, i, k->in[i].tensor, k->in[i].own_tiles);
        else
            put_cb(e, i, format_of(e, k->in[i].tensor), 2 * n);
        if (k->in[i].lay >= LAY_TO_COL)
            put_cb(e, CB_TRANSPOSED + i, sums, 1);
    }
    if (dv_emit_left_is_transposed(k))
        put_cb(e, CB_TRANSPOSED, format_of(e, k->in[0].tensor),
               blocks ? k->block_m * k->block_k : EMIT_TRANSPOSE_BATCH);
    if (k->own_tiles)
        put_shard_cb(e, CB_OUT, k->g->tensor, k->own_tiles);
    else
        put_cb(e, CB_OUT, format_of(e, k->g->tensor), 2);
    if (reduce)
        put_cb(e, CB_SCALER, sums, 1);
    if (k->mask_in)
        put_cb(e, CB_MASK_IN, sums, 2);
    if (k->mask_out)
        put_cb(e, CB_MASK_OUT, sums, 2);
    if (blocks || k->cores.streams)
        put_cb(e, CB_PARTIAL, sums, blocks ? k->block_m * k->block_n : 2);
    if (k->cores.streams)
        put_cb(e, CB_PEERS, sums, 2);
    if (reduce || (dv_emit_left_is_transposed(k) && !blocks))
        put_cb(e, CB_SUMS, sums, 1);
    if (reduce)
        put_cb(e, CB_COLUMN, sums, 1);
}

// Emits the pages (tiles) of constants. Page 0 holds ones; then come four masks
// for tiles of the result, one per combination of last row or not and last
// column or not, and four for the reduced tiles.
static void put_constants(emitter *e, const emit_kernel *k)
{
    if (!dv_emit_has_constants(k))
        return;
    P("    std::vector<float> ones = mask(32, 32);\n");
    for (int in = 0; in < 2; in++) {
        const int64_t *edge = in ? k->edge_in : k->edge;
        for (int i = 0; i < 4; i++)
            P("    append(ones, mask(%" PRId64 ", %" PRId64 "));\n",
              i / 2 && edge[0] ? edge[0] : 32, i % 2 && edge[1] ? edge[1] : 32);
    }
    P("    auto constants = distributed::MeshBuffer::create(\n"
      "        distributed::ReplicatedBufferConfig{.size = 9 * 4096},\n"
      "        distributed::DeviceLocalBufferConfig{.page_size = 4096, "
      ".buffer_type = BufferType::DRAM},\n        device.get());\n"
      "    distributed::EnqueueWriteMeshBuffer(queue, constants, ones, "
      "true);\n");
}

static void put_kernel(emitter *e, const emit_kernel *k, const char *what,
                       int riscv)
{
    int group = k->id, reads = what[0] == 'r';
    P("    std::vector<uint32_t> %s_args;\n", what);
    for (int i = 0; i < (reads ? k->n_in : 1); i++) {
        P("    TensorAccessorArgs(*");
        dv_emit_tensor(&e->out, e->p, reads ? k->in[i].tensor : k->g->tensor);
        P("->get_backing_buffer()).append_to(%s_args);\n", what);
    }
    if (reads && dv_emit_has_constants(k))
        P("    TensorAccessorArgs(*constants->get_backing_buffer()).append_to("
          "%s_args);\n",
          what);
    P("    auto %s = CreateKernel(program, KERNEL_DIR \"%s_%d.cpp\", cores,\n"
      "        DataMovementConfig{.processor = DataMovementProcessor::RISCV_%d,"
      " .noc = NOC::RISCV_%d_default, .compile_args = %s_args});\n",
      what, what, group, riscv, riscv, what);
}

static void put_addresses(emitter *e, const emit_kernel *k)
{
    for (int i = 0; i < k->n_in; i++) {
        P("        in.push_back(");
        dv_emit_tensor(&e->out, e->p, k->in[i].tensor);
        P("->address());\n");
    }
    if (dv_emit_has_constants(k))
        P("        in.push_back(constants->address());\n");
}

static void put_out_address(emitter *e, const emit_kernel *k)
{
    P("        out.push_back(");
    dv_emit_tensor(&e->out, e->p, k->g->tensor);
    P("->address());\n");
}

// Emits each core's role in the multicast of panels: the first core of a row of
// cores sends to the others of the row, the first of a column to the others of
// the column.
static void put_roles(emitter *e, const emit_kernel *k)
{
    int64_t x0 = INT64_MAX, y0 = INT64_MAX, x1 = 0, y1 = 0;
    for (int32_t i = 0; i < k->cores.n; i++) {
        x0 = dv_min_i64(x0, k->cores.at[i].x);
        x1 = dv_max_i64(x1, k->cores.at[i].x);
        y0 = dv_min_i64(y0, k->cores.at[i].y);
        y1 = dv_max_i64(y1, k->cores.at[i].y);
    }
    P("        const auto share = [&](CoreCoord from, CoreCoord first, "
      "CoreCoord "
      "last, uint32_t others) {\n"
      "            const bool sends = core.x == from.x && core.y == from.y;\n"
      "            const CoreCoord a = "
      "device->worker_core_from_logical_core(sends && others ? first : from);\n"
      "            const CoreCoord b = "
      "device->worker_core_from_logical_core(sends && others ? last : from);\n"
      "            for (size_t v : {static_cast<size_t>(others ? sends ? 1 : 2 "
      ": 0), a.x, a.y, b.x, b.y, static_cast<size_t>(others)})\n"
      "                in.push_back(static_cast<uint32_t>(v));\n"
      "        };\n");
    P("        share({%" PRId64 ", core.y}, {%" PRId64 ", core.y}, {%" PRId64
      ", core.y}, %" PRId64 ");\n"
      "        share({core.x, %" PRId64 "}, {core.x, %" PRId64
      "}, {core.x, %" PRId64 "}, %" PRId64 ");\n",
      x0, x0 + 1, x1, x1 - x0, y0, y0 + 1, y1, y1 - y0);
}

// Emits the runtime arguments of the three kernels of a core, from its row of
// the emitted table of cores.
static void put_args(emitter *e, const emit_kernel *k)
{
    int blocks = dv_emit_is_blocks(k), group = k->id;
    P("    for (const auto& row : rows_%d) {\n"
      "        const CoreCoord core{row[0], row[1]};\n"
      "        std::vector<uint32_t> in, out, work;\n",
      group);
    if (blocks)
        P("        in.assign(row + 2, row + 6);\n"
          "        work = out = in;\n");
    put_addresses(e, k);
    put_out_address(e, k);
    if (blocks) {
        put_roles(e, k);
    } else if (k->cores.streams) {
        int n = 2 + 4 * EMIT_MAX_SEGMENTS;
        P("        work.assign(row + 2, row + %d);\n"
          "        in.insert(in.end(), work.begin(), work.end());\n"
          "        out.insert(out.end(), work.begin(), work.end());\n"
          "        out.push_back(row[%d]);\n"
          "        const auto place = [&](const uint32_t* of) {\n"
          "            const CoreCoord at = "
          "device->worker_core_from_logical_core({of[0], of[1]});\n"
          "            out.push_back(static_cast<uint32_t>(at.x));\n"
          "            out.push_back(static_cast<uint32_t>(at.y));\n"
          "        };\n"
          "        const uint32_t owner = row[%d];\n"
          "        place(owner == UINT32_MAX ? row : rows_%d[owner]);\n"
          "        for (uint32_t j = 0; j < row[2]; j++)\n"
          "            for (const auto& peer : rows_%d)\n"
          "                if (peer[%d] == &row - &rows_%d[0] && peer[%d] == "
          "j)\n"
          "                    place(peer);\n",
          2 + n, 2 + n, 3 + n, group, group, 3 + n, group, 2 + n);
    } else {
        P("        in.insert(in.end(), row + 2, row + sizeof row / sizeof "
          "*row);\n"
          "        out.insert(out.end(), row + 2, row + sizeof row / sizeof "
          "*row);\n");
        if (k->g->rect)
            P("        work = {0, %" PRId64 " * (row[3] - row[2]) * (row[5] - "
              "row[4])};\n",
              k->g->batch);
        else
            P("        work = {row[5], row[3]};\n");
    }
    P("        SetRuntimeArgs(program, reader, core, in);\n"
      "        SetRuntimeArgs(program, compute, core, work);\n"
      "        SetRuntimeArgs(program, writer, core, out);\n"
      "    }\n");
}

static dv_status put_cores(emitter *e, const dv_group_grid *g)
{
    dv_core_grid have = dv_target_grid(&e->plan->target);
    dv_core_set set = {(int32_t)have.cols, (int32_t)have.rows, NULL, 0};
    dv_arena arena = {0};
    dv_grid_rects rects;
    dv_xy *xy = DV_NEW(&arena, dv_xy, g->n_ranges);
    for (int32_t i = 0; xy && i < g->n_ranges; i++)
        xy[i] = (dv_xy){(int32_t)g->ranges[i].x, (int32_t)g->ranges[i].y};
    int ok = xy && dv_rects_of(&rects, &set, xy, g->n_ranges, 0, &arena);
    if (ok) {
        P("    const tt_metal::CoreRangeSet "
          "cores(std::vector<tt_metal::CoreRange>{");
        for (int32_t i = 0; i < rects.n; i++)
            P("%stt_metal::CoreRange({%d, %d}, {%d, %d})", i ? ", " : "",
              rects.at[i].x0, rects.at[i].y0, rects.at[i].x1, rects.at[i].y1);
        P("});\n");
    }
    dv_arena_free(&arena);
    return ok ? DV_OK : dv_nomem(e->diag);
}

static dv_status put_group(emitter *e, const emit_kernel *k)
{
    int semaphores = dv_emit_is_blocks(k) ? 4 : k->cores.streams ? 2 : 0;
    P("    { // group %d computes %s\n", (int)k->g->group,
      e->p->tensors[k->g->tensor].name);
    DV_TRY(put_cores(e, k->g));
    P("    Program program = CreateProgram();\n");
    put_constants(e, k);
    e->cb_bytes = 0;
    put_cbs(e, k);
    DV_TRY(dv_emit_check_room(e, k));
    for (int i = 0; i < semaphores; i++)
        P("    CreateSemaphore(program, cores, 0);\n");
    put_kernel(e, k, "reader", 0);
    put_kernel(e, k, "writer", 1);
    P("    auto compute = CreateKernel(program, KERNEL_DIR \"compute_%d.cpp\", "
      "cores,\n"
      "        ComputeConfig{.math_fidelity = tt_metal::MathFidelity::HiFi4, "
      ".fp32_dest_acc_en = true, .dst_full_sync_en = %s});\n",
      k->id, k->full_sync ? "true" : "false");
    put_args(e, k);
    P("    distributed::MeshWorkload workload;\n"
      "    workload.add_program(distributed::MeshCoordinateRange(device->shape("
      ")), std::move(program));\n"
      "    distributed::EnqueueMeshWorkload(queue, workload, false);\n"
      "    distributed::Finish(queue);\n    }\n");
    return DV_OK;
}

// Returns the size of the core grid that a device must have: up to the last
// used column and row.
static dv_core_grid used_grid(const emit_kernel *kernels, int32_t n)
{
    dv_core_grid used = {0, 0};
    for (int32_t i = 0; i < n; i++)
        for (int32_t k = 0; k < kernels[i].g->n_ranges; k++) {
            const dv_tile_range *r = &kernels[i].g->ranges[k];
            used.cols = dv_max_i64(used.cols, r->x + 1);
            used.rows = dv_max_i64(used.rows, r->y + 1);
        }
    return used;
}

dv_status dv_emit_host(emitter *e, const emit_kernel *kernels, int32_t n)
{
    dv_core_grid used = used_grid(kernels, n);
    put_head(e);
    put_layout(e);
    put_mask(e);
    for (int32_t i = 0; i < n; i++)
        put_rows(e, &kernels[i]);
    P("int main(int argc, char** argv) {\n");
    dv_emit_check_args(e);
    P("    auto device = distributed::MeshDevice::create_unit_mesh(0);\n"
      "    auto& queue = device->mesh_command_queue();\n"
      "    const CoreCoord grid = device->compute_with_storage_grid_size();\n"
      "    if (grid.x < %" PRId64 " || grid.y < %" PRId64 ") {\n"
      "        fprintf(stderr, \"the device has %%zux%%zu cores, the plan uses "
      "%" PRId64 "x%" PRId64 "\\n\", static_cast<size_t>(grid.x), "
      "static_cast<size_t>(grid.y));\n"
      "        return 1;\n    }\n",
      used.cols, used.rows, used.cols, used.rows);
    for (int32_t t = 0; t < e->p->n_tensors; t++)
        put_buffer(e, t);
    for (int32_t i = 0; i < n; i++)
        DV_TRY(put_group(e, &kernels[i]));
    for (int32_t t = 0; t < e->p->n_tensors; t++)
        if (e->p->tensors[t].is_output)
            put_result(e, t);
    P("    device->close();\n    return 0;\n}\n");
    return dv_emit_file(e, "host.cpp");
}
