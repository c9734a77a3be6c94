#define _DEFAULT_SOURCE // MAP_ANONYMOUS
#include "harness/kernels.h"
#include "jit/backend.h"
#include <sys/mman.h>
#include <unistd.h>

uint64_t rnd(void)
{
    static uint64_t seed = 88172645463325252u;
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

int pick(int n)
{
    return (int)((rnd() >> 33) % (uint64_t)n);
}

fenced fence_in(size_t bytes, int at_end, int around)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t body = (bytes + page - 1) / page * page;
    fenced f = {.map_bytes = body + 2 * page, .bytes = (int64_t)bytes};
    f.map = mmap(NULL, f.map_bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(f.map != MAP_FAILED);
    if (around == PROT_READ)
        memset(f.map, 255, f.map_bytes);
    assert_int_equal(mprotect(f.map, page, around), 0);
    assert_int_equal(mprotect(f.map + page + body, page, around), 0);
    f.data = f.map + page + (at_end ? body - bytes : 0);
    return f;
}

void unfence(fenced *f)
{
    munmap(f->map, f->map_bytes);
}

dv_jit *new_jit(void)
{
    dv_jit *out;
    if (!dv_isa_host())
        skip_test("no kernels for this machine");
    assert_int_equal(dv_jit_create(&out, NULL), DV_OK);
    return out;
}

int jit_begin(void **state)
{
    dv_jit *out;
    if (dv_jit_create(&out, NULL))
        exit(77); // no kernels for this machine
    *state = out;
    return 0;
}

int jit_end(void **state)
{
    dv_jit_destroy(*state);
    return 0;
}

dv_jit *test_jit;

int jit_set_up(void **state)
{
    (void)state;
    return dv_isa_host() ? dv_jit_create(&test_jit, NULL) != DV_OK : 0;
}

int jit_tear_down(void **state)
{
    (void)state;
    dv_jit_destroy(test_jit);
    return 0;
}

void skip_without_kernels(void)
{
    if (!test_jit)
        skip_test("no kernels for this machine");
}
