// The host program: buffers, kernels, arguments per core, one program a group.
#include "emit/emit.h"
#include "base/math.h"
#include <inttypes.h>

#define P(...) dv_put(&e->out, __VA_ARGS__)

// -- Fixed parts -------------------------------------------------------------

static void put_head(emitter *e)
{
    P("// Made by divvy for %s: host program. Arguments: NAME=FILE.npy for "
      "inputs and\n// outputs.\n"
      "#include <tt-metalium/bfloat16.hpp>\n"
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

// Padding, tilizing and the way back, for one matrix after another.
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

// -- Tensors -----------------------------------------------------------------

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
      "        distributed::DeviceLocalBufferConfig{.page_size = %" PRId64
      ", .buffer_type = BufferType::DRAM},\n        device.get());\n",
      page * pages, page);
    if (!t->is_input)
        return;
    P("    {\n        std::vector<%s> x(%" PRId64 ");\n"
      "        rt_read(argc, argv, \"%s\", x.data(), %" PRId64
      ", sizeof(%s));\n"
      "        auto tiles = to_tiles(x, %" PRId64 ", %" PRId64 ", %" PRId64
      ");\n"
      "        distributed::EnqueueWriteMeshBuffer(queue, ",
      elem(t), t->n_elems, t->name, t->n_elems, elem(t), x.batch, x.rows,
      x.cols);
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

// -- Groups ------------------------------------------------------------------

// Argument rows: column and row of the core, then what the kernels take.
static void put_rows(emitter *e, const dv_group_grid *g)
{
    const char *names[DV_GRID_MAX_ARGS];
    int64_t values[DV_GRID_MAX_ARGS];
    const dv_tile_range none = {0};
    int n = dv_emit_args(g, &none, names, values);
    P("// core x, core y");
    for (int k = 0; k < n; k++)
        P(", %s", names[k]);
    P("\nstatic const uint32_t rows_%d[][%d] = {\n", (int)g->group, n + 2);
    for (int32_t i = 0; i < g->n_ranges; i++) {
        dv_emit_args(g, &g->ranges[i], names, values);
        P("    {%" PRId64 ", %" PRId64, g->ranges[i].x, g->ranges[i].y);
        for (int k = 0; k < n; k++)
            P(", %" PRId64, values[k]);
        P("},\n");
    }
    P("};\n\n");
}

static void put_cb(emitter *e, int index, const char *format, int64_t page)
{
    P("    CreateCircularBuffer(program, cores, CircularBufferConfig(2 * "
      "%" PRId64 ", {{%d, %s}}).set_page_size(%d, %" PRId64 "));\n",
      page, index, format, index, page);
}

static void put_kernel(emitter *e, const emit_kernel *k, const char *what,
                       int riscv)
{
    int group = (int)k->g->group, reads = what[0] == 'r';
    P("    std::vector<uint32_t> %s_args;\n", what);
    for (int i = 0; i < (reads && k->shape != EMIT_UNARY ? 2 : 1); i++) {
        P("    TensorAccessorArgs(*");
        dv_emit_tensor(&e->out, e->p, reads ? k->in[i] : k->g->tensor);
        P("->get_backing_buffer()).append_to(%s_args);\n", what);
    }
    P("    auto %s = CreateKernel(program, KERNEL_DIR \"%s_%d.cpp\", cores,\n"
      "        DataMovementConfig{.processor = DataMovementProcessor::RISCV_%d,"
      " .noc = NOC::RISCV_%d_default, .compile_args = %s_args});\n",
      what, what, group, riscv, riscv, what);
}

static void put_args(emitter *e, const emit_kernel *k)
{
    int group = (int)k->g->group;
    P("    for (const auto& row : rows_%d) {\n"
      "        const CoreCoord core{row[0], row[1]};\n"
      "        std::vector<uint32_t> rest(row + 2, row + sizeof row / sizeof "
      "*row);\n"
      "        std::vector<uint32_t> in{",
      group);
    for (int i = 0; i < (k->shape == EMIT_UNARY ? 1 : 2); i++) {
        P("%sstatic_cast<uint32_t>(", i ? ", " : "");
        dv_emit_tensor(&e->out, e->p, k->in[i]);
        P("->address())");
    }
    P("};\n        std::vector<uint32_t> out{static_cast<uint32_t>(");
    dv_emit_tensor(&e->out, e->p, k->g->tensor);
    P("->address())};\n"
      "        in.insert(in.end(), rest.begin(), rest.end());\n"
      "        out.insert(out.end(), rest.begin(), rest.end());\n"
      "        SetRuntimeArgs(program, reader, core, in);\n"
      "        SetRuntimeArgs(program, compute, core, {row[3], row[5]});\n"
      "        SetRuntimeArgs(program, writer, core, out);\n"
      "    }\n");
}

static dv_status put_cores(emitter *e, const dv_group_grid *g)
{
    dv_core_grid have = e->plan->target.core_grid;
    if (!have.cols)
        have = (dv_core_grid){e->plan->target.cores, 1};
    dv_core_set set = {(int32_t)have.cols, (int32_t)have.rows, NULL, 0};
    dv_arena arena = {0};
    dv_rects rects;
    dv_xy *xy = DV_NEW(&arena, dv_xy, g->n_ranges);
    for (int32_t i = 0; xy && i < g->n_ranges; i++)
        xy[i] = (dv_xy){(int32_t)g->ranges[i].x, (int32_t)g->ranges[i].y};
    int ok = xy && dv_rects_of(&rects, &set, xy, g->n_ranges, 0, &arena);
    if (ok) {
        P("    const CoreRangeSet cores(std::vector<CoreRange>{");
        for (int32_t i = 0; i < rects.n; i++)
            P("%sCoreRange({%d, %d}, {%d, %d})", i ? ", " : "", rects.at[i].x0,
              rects.at[i].y0, rects.at[i].x1, rects.at[i].y1);
        P("});\n");
    }
    dv_arena_free(&arena);
    return ok ? DV_OK : dv_nomem(e->diag);
}

static dv_status put_group(emitter *e, const emit_kernel *k)
{
    dv_dtype t = e->p->tensors[k->g->tensor].dtype;
    const char *format =
        t == DV_F32 ? "DataFormat::Float32" : "DataFormat::Float16_b";
    int64_t page = 1024 * dv_dtype_get(t)->size_bytes;
    P("    {\n    Program program = CreateProgram();\n");
    DV_TRY(put_cores(e, k->g));
    put_cb(e, 0, format, page);
    if (k->shape != EMIT_UNARY)
        put_cb(e, 1, format, page);
    put_cb(e, 16, format, page);
    put_kernel(e, k, "reader", 0);
    put_kernel(e, k, "writer", 1);
    P("    auto compute = CreateKernel(program, KERNEL_DIR \"compute_%d.cpp\", "
      "cores,\n"
      "        ComputeConfig{.math_fidelity = MathFidelity::HiFi4, "
      ".fp32_dest_acc_en = true});\n",
      (int)k->g->group);
    put_args(e, k);
    P("    distributed::MeshWorkload workload;\n"
      "    workload.add_program(distributed::MeshCoordinateRange(device->shape("
      ")), std::move(program));\n"
      "    distributed::EnqueueMeshWorkload(queue, workload, false);\n"
      "    distributed::Finish(queue);\n    }\n");
    return DV_OK;
}

dv_status dv_emit_host(emitter *e, const emit_kernel *kernels, int32_t n)
{
    dv_core_grid have = e->plan->target.core_grid;
    put_head(e);
    put_layout(e);
    for (int32_t i = 0; i < n; i++)
        put_rows(e, kernels[i].g);
    P("int main(int argc, char** argv) {\n"
      "    auto device = distributed::MeshDevice::create_unit_mesh(0);\n"
      "    auto& queue = device->mesh_command_queue();\n"
      "    const CoreCoord grid = device->compute_with_storage_grid_size();\n"
      "    if (grid.x < %" PRId64 " || grid.y < %" PRId64 ") {\n"
      "        fprintf(stderr, \"the device has %%zux%%zu cores, the plan uses "
      "%" PRId64 "x%" PRId64 "\\n\", static_cast<size_t>(grid.x), "
      "static_cast<size_t>(grid.y));\n"
      "        return 1;\n    }\n",
      have.cols ? have.cols : e->plan->target.cores, have.cols ? have.rows : 1,
      have.cols ? have.cols : e->plan->target.cores, have.cols ? have.rows : 1);
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
