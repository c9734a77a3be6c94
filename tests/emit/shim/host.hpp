// The part of the TT-Metalium API for host programs that emitted host programs
// use.
#pragma once
#include <initializer_list>
#include <utility>
#include "machine.hpp"

enum class DataFormat { Float32, Float16, Float16_b };

namespace tt {

using ::DataFormat;

template <typename T>
std::vector<T> reorder(const std::vector<T>& x, uint32_t rows, uint32_t cols, bool to_tiles) {
    std::vector<T> out(x.size());
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t c = 0; c < cols; c++) {
            const size_t tile = size_t{r / 32} * (cols / 32) + c / 32;
            const size_t in_tiles = tile * 1024 + static_cast<size_t>(shim::at(r % 32, c % 32));
            const size_t in_rows = size_t{r} * cols + c;
            if (to_tiles)
                out[in_tiles] = x[in_rows];
            else
                out[in_rows] = x[in_tiles];
        }
    return out;
}

namespace tt_metal {

enum class MathFidelity { LoFi, HiFi2, HiFi3, HiFi4 };

struct CoreCoord {
    size_t x, y;
};
struct CoreRange {
    CoreCoord start, end;
    CoreRange(CoreCoord s, CoreCoord e) : start(s), end(e) {}
};
struct CoreRangeSet {
    std::vector<CoreRange> ranges;
    explicit CoreRangeSet(std::vector<CoreRange> r) : ranges(std::move(r)) {}
};

enum class BufferType { DRAM, L1 };

using Shape = std::vector<uint32_t>;
struct BufferDistributionSpec {
    Shape tensor, shard; // in pages
    std::vector<CoreCoord> cores;
    BufferDistributionSpec(Shape t, Shape s, std::vector<CoreCoord> c)
        : tensor(std::move(t)), shard(std::move(s)), cores(std::move(c)) {}
};
struct BufferShardingArgs {
    std::vector<BufferDistributionSpec> specs;
    BufferShardingArgs() = default;
    BufferShardingArgs(const BufferDistributionSpec& s) : specs{s} {}
};
struct Buffer {
    shim::dram* at = nullptr;
};

enum class DataMovementProcessor { RISCV_0, RISCV_1 };
enum class NOC { RISCV_0_default, RISCV_1_default };

struct DataMovementConfig {
    DataMovementProcessor processor;
    NOC noc;
    std::vector<uint32_t> compile_args;
};
struct ComputeConfig {
    MathFidelity math_fidelity;
    bool fp32_dest_acc_en;
    bool dst_full_sync_en = false;
};

struct CircularBufferConfig {
    uint32_t bytes;
    std::map<uint8_t, DataFormat> formats;
    uint32_t page_bytes = 0;
    shim::dram* shard = nullptr;
    CircularBufferConfig& set_globally_allocated_address(const Buffer& b) {
        if (b.at->places.empty())
            shim::die("a buffer that is not in core memory");
        shard = b.at;
        return *this;
    }
    CircularBufferConfig(uint32_t n, std::map<uint8_t, DataFormat> f) : bytes(n), formats(std::move(f)) {}
    CircularBufferConfig& set_page_size(uint8_t, uint32_t n) {
        page_bytes = n;
        return *this;
    }
};

using KernelHandle = size_t;

struct Program {
    struct kernel {
        std::string file;
        std::map<std::pair<size_t, size_t>, std::vector<uint32_t>> args;
    };
    std::vector<kernel> kernels;
    std::vector<CircularBufferConfig> cbs;
    std::vector<CoreRange> cores;
    uint32_t semaphores = 0;
    bool full_sync = false;
};

inline uint32_t CreateSemaphore(Program& p, const CoreRangeSet&, uint32_t value) {
    if (value)
        shim::die("semaphores begin with 0 here", value);
    return p.semaphores++;
}
inline Program CreateProgram() { return {}; }
void CreateCircularBuffer(Program& p, const CoreRangeSet& cores, const CircularBufferConfig& config);
KernelHandle add_kernel(Program& p, const std::string& file, const CoreRangeSet& cores);
inline KernelHandle CreateKernel(Program& p, const std::string& file, const CoreRangeSet& cores, const DataMovementConfig&) {
    return add_kernel(p, file, cores);
}
inline KernelHandle CreateKernel(Program& p, const std::string& file, const CoreRangeSet& cores, const ComputeConfig& c) {
    if (!c.fp32_dest_acc_en)
        shim::die("registers are f32 here");
    p.full_sync = c.dst_full_sync_en;
    return add_kernel(p, file, cores);
}
void SetRuntimeArgs(Program& p, KernelHandle k, CoreCoord core, const std::vector<uint32_t>& args);

struct TensorAccessorArgs {
    explicit TensorAccessorArgs(const Buffer&) {}
    void append_to(std::vector<uint32_t>& to) const { to.push_back(0); }
};

namespace distributed {

struct MeshShape {};
struct MeshCoordinateRange {
    explicit MeshCoordinateRange(MeshShape) {}
};
struct MeshCommandQueue {};

struct MeshDevice {
    MeshCommandQueue queue;
    static std::shared_ptr<MeshDevice> create_unit_mesh(int) { return std::make_shared<MeshDevice>(); }
    MeshCommandQueue& mesh_command_queue() { return queue; }
    CoreCoord compute_with_storage_grid_size() const;
    MeshShape shape() const { return {}; }
    CoreCoord worker_core_from_logical_core(const CoreCoord& at) const {
        return {at.x + shim::network_x, at.y + shim::network_y};
    }
    void close() {}
};

struct ReplicatedBufferConfig {
    uint32_t size;
};
struct DeviceLocalBufferConfig {
    uint32_t page_size;
    BufferType buffer_type;
    BufferShardingArgs sharding_args = {};
};
struct MeshBuffer {
    shim::dram* at;
    Buffer backing;
    static std::shared_ptr<MeshBuffer> create(ReplicatedBufferConfig size, DeviceLocalBufferConfig pages, MeshDevice*);
    uint32_t address() const { return at->address; }
    Buffer* get_backing_buffer() { return &backing; }
};

struct MeshWorkload {
    std::vector<Program> programs;
    void add_program(MeshCoordinateRange, Program&& p) { programs.push_back(std::move(p)); }
};

template <typename T>
void EnqueueWriteMeshBuffer(MeshCommandQueue&, const std::shared_ptr<MeshBuffer>& to, const std::vector<T>& x, bool) {
    if (x.size() * sizeof(T) != to->at->bytes.size())
        shim::die("another number of bytes", static_cast<long>(x.size() * sizeof(T)), static_cast<long>(to->at->bytes.size()));
    memcpy(to->at->bytes.data(), x.data(), to->at->bytes.size());
}
template <typename T>
void EnqueueReadMeshBuffer(MeshCommandQueue&, std::vector<T>& x, const std::shared_ptr<MeshBuffer>& from, bool) {
    x.resize(from->at->bytes.size() / sizeof(T));
    memcpy(x.data(), from->at->bytes.data(), from->at->bytes.size());
}
void EnqueueMeshWorkload(MeshCommandQueue& q, MeshWorkload& w, bool blocking);
inline void Finish(MeshCommandQueue&) {}

} // namespace distributed
} // namespace tt_metal
} // namespace tt

template <typename T>
std::vector<T> tilize_nfaces(const std::vector<T>& x, uint32_t rows, uint32_t cols) {
    return tt::reorder(x, rows, cols, true);
}
template <typename T>
std::vector<T> untilize_nfaces(const std::vector<T>& x, uint32_t rows, uint32_t cols) {
    return tt::reorder(x, rows, cols, false);
}
