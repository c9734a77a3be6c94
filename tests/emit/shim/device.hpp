// The kernels' side of the API, as far as emitted kernels use it.
#pragma once
#include "machine.hpp"

template <typename T>
T get_arg_val(int i) {
    if (i < 0 || static_cast<size_t>(i) >= shim::here.args->size())
        shim::die("no such argument", i, static_cast<long>(shim::here.args->size()));
    return static_cast<T>((*shim::here.args)[static_cast<size_t>(i)]);
}

// -- Circular buffers

inline shim::circular& cb_of(uint32_t i) {
    if (i >= shim::n_cbs || !shim::here.on->cbs[i].n_pages)
        shim::die("no such circular buffer", i);
    return shim::here.on->cbs[i];
}

inline void cb_reserve_back(uint32_t cb, uint32_t pages) {
    cb_of(cb);
    shim::wait_for(static_cast<int>(cb), [](const shim::circular& c, uint32_t n) {
        return c.n_pages - (c.pushed - c.popped) >= n;
    }, pages, "room");
}

inline void cb_wait_front(uint32_t cb, uint32_t pages) {
    cb_of(cb);
    shim::wait_for(static_cast<int>(cb), [](const shim::circular& c, uint32_t n) {
        return c.pushed - c.popped >= n;
    }, pages, "a tile");
}

inline void cb_push_back(uint32_t cb, uint32_t pages) {
    auto& c = cb_of(cb);
    std::lock_guard<std::mutex> lock(shim::here.on->mutex);
    if (c.pushed - c.popped + pages > c.n_pages)
        shim::die("push without room", cb);
    c.pushed += pages;
    shim::here.on->changed.notify_all();
}

inline void cb_pop_front(uint32_t cb, uint32_t pages) {
    auto& c = cb_of(cb);
    std::lock_guard<std::mutex> lock(shim::here.on->mutex);
    if (c.pushed - c.popped < pages)
        shim::die("pop without tiles", cb);
    c.popped += pages;
    shim::here.on->changed.notify_all();
}

// Only one thread pushes and one pops, so each may read its own counter.
inline uint32_t get_write_ptr(uint32_t cb) {
    auto& c = cb_of(cb);
    return c.base + c.pushed % c.n_pages * c.page_bytes;
}

inline uint32_t get_read_ptr(uint32_t cb) {
    auto& c = cb_of(cb);
    return c.base + c.popped % c.n_pages * c.page_bytes;
}

inline uint32_t get_tile_size(uint32_t cb) {
    return cb_of(cb).page_bytes;
}

// -- Main memory

template <uint32_t N>
struct TensorAccessorArgs {
    static constexpr uint32_t next_compile_time_args_offset() { return N + 1; }
};

struct TensorAccessor {
    shim::dram* to;
    template <uint32_t N>
    TensorAccessor(TensorAccessorArgs<N>, uint32_t address, uint32_t page_bytes)
        : to(&shim::buffer_at(address)) {
        if (page_bytes != to->page_bytes)
            shim::die("another size of pages", page_bytes, to->page_bytes);
    }
};

inline uint8_t* l1_at(uint32_t address, uint32_t bytes) {
    if (address > shim::l1_bytes || bytes > shim::l1_bytes - address)
        shim::die("beyond core memory", address, bytes);
    return shim::here.on->l1.data() + address;
}

inline void noc_async_read_page(uint32_t page, const TensorAccessor& from, uint32_t address) {
    shim::dram& d = *from.to;
    if (page >= d.pages())
        shim::die("a read of a page that is not there", page, d.pages());
    memcpy(l1_at(address, d.page_bytes), &d.bytes[size_t{page} * d.page_bytes], d.page_bytes);
}

inline void noc_async_write_page(uint32_t page, const TensorAccessor& to, uint32_t address) {
    shim::dram& d = *to.to;
    if (page >= d.pages())
        shim::die("a write of a page that is not there", page, d.pages());
    memcpy(&d.bytes[size_t{page} * d.page_bytes], l1_at(address, d.page_bytes), d.page_bytes);
    d.writes[page]++;
}

inline void noc_async_read_barrier() {}
inline void noc_async_write_barrier() {}

// -- Compute

inline void unpack(uint32_t cb, uint32_t tile, float out[1024]) {
    auto& c = cb_of(cb);
    const uint8_t* from = l1_at(c.base + (c.popped + tile) % c.n_pages * c.page_bytes, c.page_bytes);
    for (int i = 0; i < 1024; i++) {
        if (c.fmt == shim::format::f32) {
            memcpy(&out[i], from + 4 * i, 4);
        } else {
            uint16_t h;
            memcpy(&h, from + 2 * i, 2);
            out[i] = shim::from_bf16(h);
        }
    }
}

inline void mm_init(uint32_t, uint32_t, uint32_t) {}
inline void binary_op_init_common(uint32_t, uint32_t, uint32_t) {}
inline void unary_op_init_common(uint32_t, uint32_t) {}
inline void add_tiles_init(uint32_t, uint32_t) {}
inline void sub_tiles_init(uint32_t, uint32_t) {}
inline void mul_tiles_init(uint32_t, uint32_t) {}
inline void copy_tile_init(uint32_t) {}
inline void relu_tile_init() {}
inline void tile_regs_acquire() { memset(shim::here.on->dst, 0, sizeof shim::here.on->dst); }
inline void tile_regs_commit() {}
inline void tile_regs_wait() {}
inline void tile_regs_release() {}

// Adds to what is in the register, as the machine does.
inline void matmul_tiles(uint32_t a, uint32_t b, uint32_t ta, uint32_t tb, uint32_t reg) {
    float x[1024], y[1024];
    unpack(a, ta, x);
    unpack(b, tb, y);
    float* d = shim::here.on->dst[reg];
    for (int i = 0; i < 32; i++)
        for (int k = 0; k < 32; k++)
            for (int j = 0; j < 32; j++)
                d[shim::at(i, j)] += x[shim::at(i, k)] * y[shim::at(k, j)];
}

template <typename F>
void eltwise(uint32_t a, uint32_t b, uint32_t ta, uint32_t tb, uint32_t reg, F f) {
    float x[1024], y[1024];
    unpack(a, ta, x);
    unpack(b, tb, y);
    for (int i = 0; i < 1024; i++)
        shim::here.on->dst[reg][i] = f(x[i], y[i]);
}

inline void add_tiles(uint32_t a, uint32_t b, uint32_t ta, uint32_t tb, uint32_t reg) {
    eltwise(a, b, ta, tb, reg, [](float x, float y) { return x + y; });
}
inline void sub_tiles(uint32_t a, uint32_t b, uint32_t ta, uint32_t tb, uint32_t reg) {
    eltwise(a, b, ta, tb, reg, [](float x, float y) { return x - y; });
}
inline void mul_tiles(uint32_t a, uint32_t b, uint32_t ta, uint32_t tb, uint32_t reg) {
    eltwise(a, b, ta, tb, reg, [](float x, float y) { return x * y; });
}
inline void copy_tile(uint32_t cb, uint32_t tile, uint32_t reg) {
    unpack(cb, tile, shim::here.on->dst[reg]);
}
inline void relu_tile(uint32_t reg) {
    for (float& v : shim::here.on->dst[reg])
        v = v > 0 ? v : 0;
}

inline void pack_tile(uint32_t reg, uint32_t cb) {
    auto& c = cb_of(cb);
    uint8_t* to = l1_at(get_write_ptr(cb), c.page_bytes);
    for (int i = 0; i < 1024; i++) {
        const float v = shim::here.on->dst[reg][i];
        const uint16_t h = shim::to_bf16(v);
        if (c.fmt == shim::format::f32)
            memcpy(to + 4 * i, &v, 4);
        else
            memcpy(to + 2 * i, &h, 2);
    }
}
