// The part of the TT-Metalium API for kernels that emitted kernels use.
#pragma once
#include <cmath>
#include <limits>
#include "machine.hpp"

#define tt_l1_ptr
enum class DataFormat { Float32, Float16, Float16_b };

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

// Only one thread pushes and only one pops, so each may read its own counter
// without a lock.
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
    memcpy(l1_at(address, d.page_bytes), shim::page_at(d, page), d.page_bytes);
}

inline void noc_async_write_page(uint32_t page, const TensorAccessor& to, uint32_t address) {
    shim::dram& d = *to.to;
    if (page >= d.pages())
        shim::die("a write of a page that is not there", page, d.pages());
    memcpy(shim::page_at(d, page), l1_at(address, d.page_bytes), d.page_bytes);
    d.writes[page]++;
}

inline void noc_async_read_barrier() {}
inline void noc_async_write_barrier() {}

// -- Other cores

// Packs two corners of a rectangle of cores and an address into one number; the
// corners are equal for a single core.
inline uint64_t get_noc_multicast_addr(uint32_t x0, uint32_t y0, uint32_t x1, uint32_t y1, uint64_t address) {
    return uint64_t{x0} << 56 | uint64_t{y0} << 48 | uint64_t{x1} << 40 | uint64_t{y1} << 32 | address;
}
inline uint64_t get_noc_addr(uint32_t x, uint32_t y, uint64_t address) {
    return get_noc_multicast_addr(x, y, x, y, address);
}

// Calls f for every core of the rectangle except the calling one.
template <typename F>
uint32_t for_cores(uint64_t to, F f) {
    uint32_t n = 0;
    for (uint32_t y = to >> 48 & 255; y <= (to >> 32 & 255); y++)
        for (uint32_t x = to >> 56 & 255; x <= (to >> 40 & 255); x++) {
            shim::core& c = shim::core_at(x, y);
            n += &c != shim::here.on;
            f(c, static_cast<uint32_t>(to));
        }
    return n;
}

inline void noc_async_write_multicast(uint32_t from, uint64_t to, uint32_t bytes, uint32_t others) {
    const uint8_t* data = l1_at(from, bytes);
    const uint32_t n = for_cores(to, [&](shim::core& c, uint32_t address) {
        if (&c == shim::here.on)
            shim::die("a multicast to oneself");
        if (address > shim::l1_bytes || bytes > shim::l1_bytes - address)
            shim::die("beyond core memory", address, bytes);
        memcpy(c.l1.data() + address, data, bytes);
    });
    if (n != others)
        shim::die("another number of cores in a multicast", n, others);
}
inline void noc_async_write(uint32_t from, uint64_t to, uint32_t bytes) {
    noc_async_write_multicast(from, to, bytes, 1);
}

inline uintptr_t get_semaphore(uint32_t id) {
    if (id >= shim::here.on->n_semaphores)
        shim::die("no such semaphore", id);
    return shim::here.on->semaphores + 16 * id;
}

inline void change_semaphore(shim::core& c, uint32_t address, uint32_t value, bool add) {
    std::lock_guard<std::mutex> lock(c.mutex);
    if (address < c.semaphores || address >= c.semaphores + 16 * c.n_semaphores)
        shim::die("no semaphore at this address", address);
    uint32_t v;
    memcpy(&v, c.l1.data() + address, 4);
    v = add ? v + value : value;
    memcpy(c.l1.data() + address, &v, 4);
    c.changed.notify_all();
}
inline uint32_t address_of(volatile uint32_t* p) {
    return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(p));
}
inline void noc_semaphore_set(volatile uint32_t* at, uint32_t value) {
    change_semaphore(*shim::here.on, address_of(at), value, false);
}
inline void noc_semaphore_wait(volatile uint32_t* at, uint32_t value) {
    shim::wait_semaphore(address_of(at), value);
}
inline void noc_semaphore_inc(uint64_t to, uint32_t value) {
    for_cores(to, [&](shim::core& c, uint32_t address) { change_semaphore(c, address, value, true); });
}
inline void noc_semaphore_set_multicast(uintptr_t from, uint64_t to, uint32_t others) {
    uint32_t v;
    {
        std::lock_guard<std::mutex> lock(shim::here.on->mutex);
        memcpy(&v, shim::here.on->l1.data() + from, 4);
    }
    const uint32_t n = for_cores(to, [&](shim::core& c, uint32_t address) { change_semaphore(c, address, v, false); });
    if (n != others)
        shim::die("another number of cores in a multicast", n, others);
}

// -- Registers and what the units are set up for

inline float* reg(uint32_t i) {
    auto& c = *shim::here.on;
    if (!c.held || i >= static_cast<uint32_t>(c.n_regs))
        shim::die("a register that is not there", i, c.n_regs);
    c.fresh[i] = false;
    return c.dst[i];
}
// Registers hold garbage until something is put there, except that products and
// sums find zeros.
inline void tile_regs_acquire() {
    auto& c = *shim::here.on;
    if (c.held)
        shim::die("registers are acquired twice");
    c.held = true;
    for (int r = 0; r < 8; r++) {
        c.fresh[r] = true;
        for (float& v : c.dst[r])
            v = std::numeric_limits<float>::quiet_NaN();
    }
}
inline void tile_regs_commit() {}
inline void tile_regs_wait() {}
inline void tile_regs_release() { shim::here.on->held = false; }

inline void set_up(const char* engine, int a, int b = -1) {
    auto& c = *shim::here.on;
    c.engine = std::string(engine) + " " + std::to_string(a) + " " + std::to_string(b);
}
inline void must_be(const char* engine, int a, int b = -1) {
    auto& c = *shim::here.on;
    const std::string want = std::string(engine) + " " + std::to_string(a) + " " + std::to_string(b);
    if (c.engine != want) {
        fprintf(stderr, "shim: set up for '%s', called for '%s'\n", c.engine.c_str(), want.c_str());
        exit(5);
    }
    if (c.source_a >= 0 && c.cbs[c.source_a].fmt != c.cbs[a].fmt)
        shim::die("a source of another format", c.source_a, a);
    if (b >= 0 && c.source_b >= 0 && c.cbs[c.source_b].fmt != c.cbs[b].fmt)
        shim::die("a second source of another format", c.source_b, b);
}
inline void reconfig_data_format_srca(uint32_t a) { shim::here.on->source_a = static_cast<int>(a); }
inline void reconfig_data_format(uint32_t a, uint32_t b) {
    shim::here.on->source_a = static_cast<int>(a);
    shim::here.on->source_b = static_cast<int>(b);
}
inline void pack_reconfig_data_format(uint32_t to) { shim::here.on->pack_to = static_cast<int>(to); }

inline void unpack(uint32_t cb, uint32_t tile, float out[1024]) {
    auto& c = cb_of(cb);
    if (c.popped % c.n_pages + tile >= c.n_pages)
        shim::die("a tile beyond the end of a buffer, which does not go around", cb, tile);
    const uint8_t* from = l1_at(c.base + (c.popped + tile) % c.n_pages * c.page_bytes, c.page_bytes);
    for (int i = 0; i < 1024; i++) {
        if (c.fmt == shim::format::f32) {
            memcpy(&out[i], from + 4 * i, 4);
        } else {
            uint16_t h;
            memcpy(&h, from + 2 * i, 2);
            out[i] = c.fmt == shim::format::f16 ? shim::from_f16(h) : shim::from_bf16(h);
        }
    }
}

inline void pack_tile(uint32_t r, uint32_t cb) {
    auto& c = cb_of(cb);
    if (shim::here.on->pack_to != static_cast<int>(cb))
        shim::die("packed as for another buffer", shim::here.on->pack_to, cb);
    uint8_t* to = l1_at(get_write_ptr(cb), c.page_bytes);
    const float* from = reg(r);
    for (int i = 0; i < 1024; i++) {
        const uint16_t h = c.fmt == shim::format::f16 ? shim::to_f16(from[i]) : shim::to_bf16(from[i]);
        if (c.fmt == shim::format::f32)
            memcpy(to + 4 * i, &from[i], 4);
        else
            memcpy(to + 2 * i, &h, 2);
    }
    c.packed++;
}

// -- Products

inline void matmul_init(uint32_t a, uint32_t b, uint32_t swapped) {
    set_up(swapped ? "mm swapped" : "mm", static_cast<int>(b), static_cast<int>(a));
}
enum class SrcOrder { Regular, Reverse };
template <SrcOrder O = SrcOrder::Regular>
void compute_kernel_hw_startup(uint32_t a, uint32_t b, uint32_t) {
    if (O == SrcOrder::Reverse)
        reconfig_data_format(b, a);
    else
        reconfig_data_format(a, b);
}
inline void unary_op_init_common(uint32_t a, uint32_t) { reconfig_data_format(a, a); }

// Adds the product to the register, as the machine does.
inline void matmul_tiles(uint32_t a, uint32_t b, uint32_t ta, uint32_t tb, uint32_t r) {
    float x[1024], y[1024];
    const bool swapped = shim::here.on->engine.find("swapped") != std::string::npos;
    must_be(swapped ? "mm swapped" : "mm", static_cast<int>(b), static_cast<int>(a));
    unpack(a, ta, x);
    unpack(b, tb, y);
    const bool fresh = shim::here.on->fresh[r];
    float* d = reg(r);
    if (fresh)
        memset(d, 0, 4096);
    shim::add_product(d, x, y, swapped);
}

// -- From buffers to registers

inline void copy_tile_to_dst_init_short(uint32_t cb) { set_up("copy", static_cast<int>(cb)); }
inline void copy_tile(uint32_t cb, uint32_t tile, uint32_t r) {
    must_be("copy", static_cast<int>(cb));
    unpack(cb, tile, reg(r));
}
inline void transpose_init(uint32_t cb) { set_up("transpose", static_cast<int>(cb)); }
inline void transpose_tile(uint32_t cb, uint32_t tile, uint32_t r) {
    float x[1024];
    must_be("transpose", static_cast<int>(cb));
    unpack(cb, tile, x);
    float* d = reg(r);
    for (int i = 0; i < 32; i++)
        for (int j = 0; j < 32; j++)
            d[shim::at(i, j)] = x[shim::at(j, i)];
}
enum class BroadcastType { NONE, COL, ROW, SCALAR };
template <BroadcastType T>
void unary_bcast_init(uint32_t cb) {
    if (shim::here.on->source_b != static_cast<int>(cb))
        shim::die("a second source of another buffer", shim::here.on->source_b, cb);
    set_up("bcast", static_cast<int>(cb), -2 - static_cast<int>(T));
}
template <BroadcastType T>
void unary_bcast_uninit(uint32_t cb) {
    must_be("bcast", static_cast<int>(cb), -2 - static_cast<int>(T));
    set_up("", -1);
}
template <BroadcastType T>
void unary_bcast(uint32_t cb, uint32_t tile, uint32_t r) {
    float x[1024];
    must_be("bcast", static_cast<int>(cb), -2 - static_cast<int>(T));
    unpack(cb, tile, x);
    float* d = reg(r);
    for (int i = 0; i < 32; i++)
        for (int j = 0; j < 32; j++)
            d[shim::at(i, j)] = x[shim::at(T == BroadcastType::COL ? i : 0, T == BroadcastType::ROW ? j : 0)];
}

// -- Reductions

enum class PoolType { SUM, AVG, MAX };
enum class ReduceDim { REDUCE_ROW, REDUCE_COL, REDUCE_SCALAR };
template <PoolType P, ReduceDim D>
void reduce_init(uint32_t cb, uint32_t scaler, uint32_t) { set_up("reduce", static_cast<int>(cb), static_cast<int>(scaler)); }
inline void reduce_uninit() { set_up("", -1); }

// The result is in the first row, column or element; the rest of the tile is
// undefined.
template <PoolType P, ReduceDim D>
void reduce_tile(uint32_t cb, uint32_t scaler, uint32_t tile, uint32_t ts, uint32_t r) {
    float x[1024], s[1024];
    must_be("reduce", static_cast<int>(cb), static_cast<int>(scaler));
    unpack(cb, tile, x);
    unpack(scaler, ts, s);
    const bool fresh = shim::here.on->fresh[r];
    float* d = reg(r);
    for (int i = 0; i < 32; i++)
        for (int j = 0; j < 32; j++) {
            const int to = shim::at(D == ReduceDim::REDUCE_ROW ? i : 0, D == ReduceDim::REDUCE_COL ? j : 0);
            const bool first = fresh && (D == ReduceDim::REDUCE_ROW ? j == 0 : D == ReduceDim::REDUCE_COL ? i == 0 : i + j == 0);
            const float v = x[shim::at(i, j)] * s[0];
            d[to] = first ? v : P == PoolType::MAX ? (std::isnan(v) || v > d[to] ? v : d[to]) : d[to] + v;
        }
}

// -- Functions in registers

inline void fill_tile_init() {}
inline void fill_tile(uint32_t r, float v) {
    for (float* p = reg(r), *end = p + 1024; p < end; p++)
        *p = v;
}

#define SHIM_UNARY(name, value)                                 \
    inline void name##_tile_init() {}                           \
    inline void name##_tile(uint32_t r) {                       \
        for (float* p = reg(r), *end = p + 1024; p < end; p++) { \
            const double x = *p;                                \
            *p = static_cast<float>(value);                     \
        }                                                       \
    }
SHIM_UNARY(negative, -x)
SHIM_UNARY(exp, std::exp(x))
SHIM_UNARY(log, std::log(x))
SHIM_UNARY(sqrt, std::sqrt(x))
SHIM_UNARY(rsqrt, 1 / std::sqrt(x))
SHIM_UNARY(tanh, std::tanh(x))
SHIM_UNARY(sin, std::sin(x))
SHIM_UNARY(cos, std::cos(x))
SHIM_UNARY(tan, std::tan(x))
SHIM_UNARY(asin, std::asin(x))
SHIM_UNARY(acos, std::acos(x))
SHIM_UNARY(atan, std::atan(x))
SHIM_UNARY(sinh, std::sinh(x))
SHIM_UNARY(cosh, std::cosh(x))
SHIM_UNARY(asinh, std::asinh(x))
SHIM_UNARY(acosh, std::acosh(x))
SHIM_UNARY(atanh, std::atanh(x))
SHIM_UNARY(sigmoid, 1 / (1 + std::exp(-x)))
SHIM_UNARY(silu, x / (1 + std::exp(-x)))
SHIM_UNARY(relu, std::isnan(x) || x > 0 ? x : 0)
SHIM_UNARY(abs, std::fabs(x))
SHIM_UNARY(erf_exact, std::erf(x))
SHIM_UNARY(gelu_exact, 0.5 * x * std::erfc(x * -0.70710678118654752440))
// The machine has a fast and an exact version; emitted kernels use only the
// exact one.
template <bool fast>
void erf_tile_init() { static_assert(!fast); }
template <bool fast>
void erf_tile(uint32_t r) { erf_exact_tile(r); }
template <bool fast>
void gelu_tile_init() { static_assert(!fast); }
template <bool fast>
void gelu_tile(uint32_t r) { gelu_exact_tile(r); }

#define SHIM_BINARY(name, value)                                     \
    inline void name##_tile_init() {}                                \
    inline void name##_tile(uint32_t a, uint32_t b, uint32_t to) {   \
        const float *p = reg(a), *q = reg(b);                        \
        float* d = reg(to);                                          \
        for (int i = 0; i < 1024; i++) {                             \
            const float x = p[i], y = q[i];                          \
            d[i] = static_cast<float>(value);                        \
        }                                                            \
    }
SHIM_BINARY(add_binary, x + y)
SHIM_BINARY(sub_binary, x - y)
SHIM_BINARY(mul_binary, x * y)
SHIM_BINARY(div_binary, x / y)
SHIM_BINARY(lt_binary, x < y)
SHIM_BINARY(le_binary, x <= y)
SHIM_BINARY(gt_binary, x > y)
SHIM_BINARY(ge_binary, x >= y)
SHIM_BINARY(eq_binary, x == y)
SHIM_BINARY(ne_binary, x != y)
SHIM_BINARY(binary_min, std::isnan(x) || x < y ? x : y)
SHIM_BINARY(binary_max, std::isnan(x) || x > y ? x : y)

inline void where_tile_init() {}
template <DataFormat F>
void where_tile(uint32_t cond, uint32_t a, uint32_t b, uint32_t to) {
    const float *c = reg(cond), *x = reg(a), *y = reg(b);
    float* d = reg(to);
    for (int i = 0; i < 1024; i++)
        d[i] = c[i] != 0 ? x[i] : y[i];
}
