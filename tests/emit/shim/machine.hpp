// A machine for emitted kernels: cores with a real array of memory each, blocking
// circular buffers in it, main memory that counts writes of its pages. One
// thread runs one kernel of one core.
#pragma once
#include <atomic>
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

constexpr uint32_t l1_bytes = 1499136; // of a core
constexpr uint32_t max_args = 341;
constexpr int n_cbs = 32;

enum class format { f32, bf16 };

[[noreturn]] inline void die(const char* what, long a = 0, long b = 0) {
    fprintf(stderr, "shim: %s (%ld, %ld)\n", what, a, b);
    exit(5);
}

// A buffer in main memory; pages know how often they were written.
struct dram {
    uint32_t address = 0, page_bytes = 0;
    std::vector<uint8_t> bytes;
    std::unique_ptr<std::atomic<int>[]> writes;
    uint32_t pages() const { return static_cast<uint32_t>(bytes.size() / page_bytes); }
};

struct circular {
    uint32_t base = 0, page_bytes = 0, n_pages = 0;
    format fmt = format::f32;
    uint32_t pushed = 0, popped = 0; // pages, since the start
};

struct core {
    std::vector<uint8_t> l1 = std::vector<uint8_t>(l1_bytes);
    std::mutex mutex;
    std::condition_variable changed;
    circular cbs[n_cbs];
    uint32_t used = 0;
    float dst[8][1024]; // registers of the compute kernel
};

// What the kernel that runs in this thread sees.
struct context {
    core* on = nullptr;
    const std::vector<uint32_t>* args = nullptr;
    const char* name = "";
    int x = 0, y = 0;
};
extern thread_local context here;

dram& buffer_at(uint32_t address);
void wait_for(int cb, bool (*ready)(const circular&, uint32_t), uint32_t pages, const char* what);

using kernel_fn = void (*)();
struct registered {
    registered(const char* file, kernel_fn fn);
};

// Where element (i,j) of a 32x32 tile is: four faces of 16x16.
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

} // namespace shim
