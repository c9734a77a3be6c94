// Runs the programs of host.hpp with three threads per core.
#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>
#include "host.hpp"

namespace shim {

thread_local context here;

static std::map<uint32_t, std::unique_ptr<dram>>& memory() {
    static std::map<uint32_t, std::unique_ptr<dram>> all;
    return all;
}

static std::map<std::string, kernel_fn>& kernels() {
    static std::map<std::string, kernel_fn> all;
    return all;
}

registered::registered(const char* file, kernel_fn fn) {
    kernels()[file] = fn;
}

dram& buffer_at(uint32_t address) {
    const auto it = memory().find(address);
    if (it == memory().end())
        die("no buffer at this address", address);
    return *it->second;
}

void add_product(float* d, const float* x, const float* y, bool swapped) {
    float rows[32][32];
    for (int k = 0; k < 32; k++)
        for (int j = 0; j < 32; j++)
            rows[k][j] = y[swapped ? at(j, k) : at(k, j)];
    for (int i = 0; i < 32; i++) {
        float sum[32];
        for (int j = 0; j < 32; j++)
            sum[j] = d[at(i, j)];
        for (int k = 0; k < 32; k++)
            for (int j = 0; j < 32; j++)
                sum[j] += x[at(i, k)] * rows[k][j];
        for (int j = 0; j < 32; j++)
            d[at(i, j)] = sum[j];
    }
}

static std::map<std::pair<size_t, size_t>, core*>& places() {
    static std::map<std::pair<size_t, size_t>, core*> all;
    return all;
}

// Returns the memory of a core of the running program where a buffer in shards
// has a page; NULL if the program does not run on that core.
static uint8_t* shard_page(const dram& d, uint32_t page) {
    const place& at = d.places[page];
    const auto it = places().find({at.x + network_x, at.y + network_y});
    return it == places().end() ? nullptr : it->second->l1.data() + d.address + at.offset;
}

uint8_t* page_at(dram& d, uint32_t page) {
    uint8_t* in_shard = d.places.empty() ? nullptr : shard_page(d, page);
    return in_shard ? in_shard : &d.bytes[size_t{page} * d.page_bytes];
}

// Copies all shards to the cores of the program, or back.
static void move_shards(bool to_cores) {
    for (auto& [address, d] : memory())
        for (uint32_t i = 0; i < d->places.size(); i++)
            if (uint8_t* page = shard_page(*d, i)) {
                uint8_t* kept = &d->bytes[size_t{i} * d->page_bytes];
                memcpy(to_cores ? page : kept, to_cores ? kept : page, d->page_bytes);
            }
}

// Counts the writes of a core to the shard that one of its buffers is: every page
// of it, or none.
static void count_packed(const core& c, size_t x, size_t y) {
    for (const auto& cb : c.cbs) {
        if (!cb.shard || !cb.packed)
            continue;
        if (cb.packed != cb.n_pages)
            die("a shard that is not written once", cb.packed, cb.n_pages);
        for (uint32_t i = 0; i < cb.shard->pages(); i++)
            cb.shard->writes[i] += cb.shard->places[i].x == x && cb.shard->places[i].y == y;
    }
}

core& core_at(uint32_t x, uint32_t y) {
    const auto it = places().find({x, y});
    if (it == places().end())
        die("no core at this place of the network", x, y);
    return *it->second;
}

void wait_semaphore(uint32_t address, uint32_t value) {
    core& c = *here.on;
    std::unique_lock<std::mutex> lock(c.mutex);
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    const auto is = [&] {
        uint32_t v;
        memcpy(&v, c.l1.data() + address, 4);
        return v == value;
    };
    while (!is())
        if (c.changed.wait_until(lock, until) == std::cv_status::timeout && !is()) {
            fprintf(stderr, "shim: %s of core %d,%d waits for %u in a semaphore\n", here.name, here.x, here.y, value);
            exit(5);
        }
}

// A kernel that waits for a long time will wait for ever: report which one it
// is.
void wait_for(int cb, bool (*ready)(const circular&, uint32_t), uint32_t pages, const char* what) {
    core& c = *here.on;
    std::unique_lock<std::mutex> lock(c.mutex);
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!ready(c.cbs[cb], pages))
        if (c.changed.wait_until(lock, until) == std::cv_status::timeout && !ready(c.cbs[cb], pages)) {
            fprintf(stderr, "shim: %s of core %d,%d waits for %s in buffer %d\n", here.name, here.x, here.y, what, cb);
            exit(5);
        }
}

} // namespace shim

namespace tt::tt_metal {

void CreateCircularBuffer(Program& p, const CoreRangeSet&, const CircularBufferConfig& config) {
    p.cbs.push_back(config);
}

KernelHandle add_kernel(Program& p, const std::string& file, const CoreRangeSet& cores) {
    p.kernels.push_back({file, {}});
    p.cores = cores.ranges;
    return p.kernels.size() - 1;
}

void SetRuntimeArgs(Program& p, KernelHandle k, CoreCoord core, const std::vector<uint32_t>& args) {
    if (args.size() > shim::max_args)
        shim::die("too many arguments", static_cast<long>(args.size()));
    if (!p.kernels.at(k).args.emplace(std::make_pair(core.x, core.y), args).second)
        shim::die("arguments twice", static_cast<long>(core.x), static_cast<long>(core.y));
}

namespace distributed {

CoreCoord MeshDevice::compute_with_storage_grid_size() const {
    size_t x = 8, y = 8;
    if (const char* grid = getenv("SHIM_GRID"))
        if (sscanf(grid, "%zux%zu", &x, &y) != 2)
            shim::die("SHIM_GRID is no grid");
    return {x, y};
}

static uint32_t lowest = shim::l1_bytes; // where buffers in core memories begin

// Finds the core and the place of every page; returns the bytes of a core.
static uint32_t put_shards(shim::dram& d, const BufferDistributionSpec& s) {
    const uint32_t rows = s.shard.at(0), cols = s.shard.at(1), across = s.tensor.at(1) / cols;
    const uint32_t n = static_cast<uint32_t>(s.cores.size());
    if (s.tensor.at(0) % rows || s.tensor.at(1) % cols || s.tensor.at(0) * s.tensor.at(1) != d.pages())
        shim::die("shards that do not tile a buffer", s.tensor.at(0), s.tensor.at(1));
    d.places.resize(d.pages());
    for (uint32_t i = 0; i < d.pages(); i++) {
        const uint32_t r = i / s.tensor.at(1), c = i % s.tensor.at(1), shard = r / rows * across + c / cols;
        const uint32_t in = shard / n * rows * cols + r % rows * cols + c % cols;
        d.places[i] = {s.cores[shard % n].x, s.cores[shard % n].y, in * d.page_bytes};
    }
    return ((d.pages() / rows / cols + n - 1) / n) * rows * cols * d.page_bytes;
}

std::shared_ptr<MeshBuffer> MeshBuffer::create(ReplicatedBufferConfig size, DeviceLocalBufferConfig pages, MeshDevice*) {
    static uint32_t next = 1 << 24;
    auto d = std::make_unique<shim::dram>();
    d->address = next;
    d->page_bytes = pages.page_size;
    d->bytes.resize(size.size, 0xee); // not zeros, so that pages that are never written show
    d->writes = std::make_unique<std::atomic<int>[]>(d->pages());
    for (uint32_t i = 0; i < d->pages(); i++)
        d->writes[i] = 0;
    next += 4096;
    for (const auto& spec : pages.sharding_args.specs) {
        const uint32_t bytes = put_shards(*d, spec);
        if (pages.buffer_type == BufferType::DRAM) {
            d->places.clear();
            continue;
        }
        if (bytes > lowest)
            shim::die("shards are larger than core memory", bytes, lowest);
        d->address = lowest -= bytes;
    }
    auto b = std::make_shared<MeshBuffer>();
    b->at = b->backing.at = d.get();
    shim::memory()[d->address] = std::move(d);
    return b;
}

// Places the circular buffers of a core, from the bottom of its memory.
static void lay_out(shim::core& c, const Program& p) {
    for (const auto& config : p.cbs)
        for (const auto& [index, format] : config.formats) {
            auto& cb = c.cbs[index];
            cb.shard = config.shard;
            cb.base = cb.shard ? cb.shard->address : c.used;
            if (!cb.shard && c.used + config.bytes > lowest)
                shim::die("buffers are larger than core memory", c.used, config.bytes);
            cb.page_bytes = config.page_bytes;
            cb.n_pages = config.bytes / config.page_bytes;
            cb.fmt = format == DataFormat::Float32 ? shim::format::f32 : format == DataFormat::Float16 ? shim::format::f16 : shim::format::bf16;
            c.used += cb.shard ? 0 : config.bytes;
        }
    bool narrow = false, wide = false; // formats with 5 and with 8 bits of exponent
    for (const auto& cb : c.cbs) {
        narrow |= cb.n_pages && cb.fmt == shim::format::f16;
        wide |= cb.n_pages && cb.fmt == shim::format::bf16;
    }
    if (narrow && wide)
        shim::die("buffers of a kernel have exponents of one width");
    c.semaphores = c.used;
    c.n_semaphores = p.semaphores;
    c.used += 16 * p.semaphores;
    if (c.used > shim::l1_bytes)
        shim::die("semaphores are beyond core memory", c.used);
    c.n_regs = p.full_sync ? 8 : 4;
}

// In a buffer that was written at all, every page must have been written
// exactly once.
static void check_writes() {
    for (auto& [address, d] : shim::memory()) {
        long total = 0, wrong = 0;
        for (uint32_t i = 0; i < d->pages(); i++) {
            total += d->writes[i];
            wrong += d->writes[i] != 1;
            d->writes[i] = 0;
        }
        if (total && wrong)
            shim::die("tiles that are not written once", wrong, d->pages());
        if (total)
            fprintf(stderr, "shim: %ld tiles written once each\n", total);
    }
}

// Fails if there is no core at this place. SHIM_HOLES lists rectangles without
// cores: 0,3-7,3+5,5-5,5.
static void check_core(size_t x, size_t y) {
    const CoreCoord grid = MeshDevice().compute_with_storage_grid_size();
    if (x >= grid.x || y >= grid.y)
        shim::die("a core that is not on the grid", static_cast<long>(x), static_cast<long>(y));
    const char* at = getenv("SHIM_HOLES");
    for (int n = 0; at && *at; at += n + (at[n] == '+')) {
        size_t x0, y0, x1, y1;
        if (sscanf(at, "%zu,%zu-%zu,%zu%n", &x0, &y0, &x1, &y1, &n) != 4)
            shim::die("SHIM_HOLES are no holes");
        if (x >= x0 && x <= x1 && y >= y0 && y <= y1)
            shim::die("a core that is not there", static_cast<long>(x), static_cast<long>(y));
    }
}

static void run(const Program& p) {
    std::vector<std::unique_ptr<shim::core>> cores;
    std::vector<std::thread> threads;
    std::vector<std::function<void()>> work; // starts when all cores exist
    shim::places().clear();
    for (const auto& r : p.cores)
        for (size_t y = r.start.y; y <= r.end.y; y++)
            for (size_t x = r.start.x; x <= r.end.x; x++) {
                check_core(x, y);
                cores.push_back(std::make_unique<shim::core>());
                shim::core* c = cores.back().get();
                lay_out(*c, p);
                shim::places()[{x + shim::network_x, y + shim::network_y}] = c;
                for (const auto& k : p.kernels) {
                    const auto args = k.args.find({x, y});
                    const auto fn = shim::kernels().find(k.file);
                    if (args == k.args.end())
                        shim::die("a core without arguments", static_cast<long>(x), static_cast<long>(y));
                    if (fn == shim::kernels().end())
                        shim::die(("no kernel " + k.file).c_str());
                    work.emplace_back([c, x, y, &k, args, fn] {
                        shim::here = {c, &args->second, k.file.c_str(), static_cast<int>(x), static_cast<int>(y)};
                        fn->second();
                    });
                }
            }
    shim::move_shards(true);
    for (auto& w : work)
        threads.emplace_back(w);
    for (auto& t : threads)
        t.join();
    shim::move_shards(false);
    for (const auto& [at, c] : shim::places())
        shim::count_packed(*c, at.first - shim::network_x, at.second - shim::network_y);
    // Everything that was pushed was popped: no tile is left in a buffer.
    for (const auto& c : cores)
        for (const auto& cb : c->cbs)
            if (cb.pushed != cb.popped)
                shim::die("tiles are left in a buffer", cb.pushed, cb.popped);
    fprintf(stderr, "shim: %zu cores, %zu threads\n", cores.size(), threads.size());
    check_writes();
}

void EnqueueMeshWorkload(MeshCommandQueue&, MeshWorkload& w, bool) {
    for (const auto& p : w.programs)
        run(p);
}

} // namespace distributed
} // namespace tt::tt_metal
