// A machine for emitted kernels: every core has a real array of memory with
// blocking circular buffers in it, and main memory counts the writes of its
// pages. One thread runs one kernel of one core.
#pragma once
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace shim {

constexpr uint32_t l1_bytes = 1499136; // memory of one core
constexpr uint32_t max_args = 341;
constexpr int n_cbs = 32;

enum class format { f32, f16, bf16 };

[[noreturn]] inline void die(const char* what, long a = 0, long b = 0) {
    fprintf(stderr, "shim: %s (%ld, %ld)\n", what, a, b);
    exit(5);
}

// The core that has a page of a buffer in shards, and where the page is in its
// shard.
struct place {
    size_t x = 0, y = 0;
    uint32_t offset = 0;
};

// A buffer, which counts the writes of each page: in main memory, or in shards at
// one address of core memories. Between programs its bytes are here.
struct dram {
    uint32_t address = 0, page_bytes = 0;
    std::vector<uint8_t> bytes;
    std::vector<place> places; // of every page; empty: main memory
    std::unique_ptr<std::atomic<int>[]> writes;
    uint32_t pages() const { return static_cast<uint32_t>(bytes.size() / page_bytes); }
};

struct circular {
    uint32_t base = 0, page_bytes = 0, n_pages = 0;
    format fmt = format::f32;
    uint32_t pushed = 0, popped = 0; // numbers of pages since the start
    dram* shard = nullptr;           // the buffer whose shard this is
    uint32_t packed = 0;             // pages that the compute kernel wrote
};

// The memory of a core; calloc lets pages that nobody touches cost nothing.
struct memory_of_core {
    uint8_t* at = static_cast<uint8_t*>(calloc(l1_bytes, 1));
    memory_of_core() = default;
    memory_of_core(const memory_of_core&) = delete;
    memory_of_core& operator=(const memory_of_core&) = delete;
    ~memory_of_core() { free(at); }
    uint8_t* data() { return at; }
};

struct core {
    memory_of_core l1;
    std::mutex mutex;
    std::condition_variable changed;
    circular cbs[n_cbs];
    uint32_t used = 0, semaphores = 0, n_semaphores = 0;
    float dst[8][1024]; // registers of the compute kernel
    int n_regs = 4;
    bool held = false, fresh[8]; // the registers are acquired; a register is still empty
    // What the units of the core are configured for; every call checks that it
    // finds its own configuration.
    std::string engine;
    int source_a = -1, source_b = -1, pack_to = -1;
};

// The state of the kernel that runs in this thread.
struct context {
    core* on = nullptr;
    const std::vector<uint32_t>* args = nullptr;
    const char* name = "";
    int x = 0, y = 0;
};
extern thread_local context here;

dram& buffer_at(uint32_t address);
// Returns a page, in main memory or in the memory of the core that has it.
uint8_t* page_at(dram& d, uint32_t page);
// Returns the core at network coordinates, which differ from its coordinates in
// the grid.
core& core_at(uint32_t x, uint32_t y);
constexpr size_t network_x = 1, network_y = 2; // network minus grid coordinates
// Waits for the semaphore at an address of the calling core.
void wait_semaphore(uint32_t address, uint32_t value);
void wait_for(int cb, bool (*ready)(const circular&, uint32_t), uint32_t pages, const char* what);

// d += x * y for tiles; `swapped`: with y transposed.
void add_product(float* d, const float* x, const float* y, bool swapped);

using kernel_fn = void (*)();
struct registered {
    registered(const char* file, kernel_fn fn);
};

// The position of element (i,j) in a 32x32 tile, which is stored as four faces
// of 16x16.
inline int at(int i, int j) {
    return (i / 16 * 2 + j / 16) * 256 + i % 16 * 16 + j % 16;
}

inline float from_bf16(uint16_t h) {
    const uint32_t u = static_cast<uint32_t>(h) << 16;
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

inline uint16_t to_bf16(float f) {
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return static_cast<uint16_t>((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

inline float from_f16(uint16_t h) {
    const int e = h >> 10 & 31, m = h & 1023;
    const float v = e == 31 ? (m ? NAN : INFINITY) : e ? ldexpf(static_cast<float>(m + 1024), e - 25) : ldexpf(static_cast<float>(m), -24);
    return h & 0x8000 ? -v : v;
}

// Converts by way of bf16, as the machine packs f32 registers. The 8 bits that
// are left fit f16 exactly, except in the smallest numbers, which are rounded
// to even.
inline uint16_t to_f16(float f) {
    const float v = from_bf16(to_bf16(f));
    const uint16_t sign = std::signbit(v) ? 0x8000 : 0;
    const float a = std::fabs(v);
    if (std::isnan(v))
        return 0x7e00;
    if (a >= 65520)
        return static_cast<uint16_t>(sign | 0x7c00);
    if (a < 0x1p-14f)
        return static_cast<uint16_t>(sign | static_cast<uint16_t>(std::nearbyint(a * 0x1p24f)));
    int e;
    const float m = std::frexp(a, &e);
    return static_cast<uint16_t>(sign | ((e + 14) << 10) | (static_cast<int>(m * 2048) - 1024));
}

} // namespace shim
