// Files that are mapped: pages that are dropped come back with the same
// elements, and memory that is no file keeps its own.
#define _POSIX_C_SOURCE 200809L
#include "harness/test.h"
#include "base/filemap.h"
#include <fcntl.h>
#include <unistd.h>

enum { BYTES = 1 << 20 };

static char path[] = "/tmp/divvy-filemap-XXXXXX";
static unsigned char bytes[BYTES];

static int make_file(void **state)
{
    (void)state;
    int fd = mkstemp(path);
    for (int i = 0; i < BYTES; i++)
        bytes[i] = (unsigned char)(i % 251);
    int ok = fd >= 0 && write(fd, bytes, BYTES) == BYTES;
    return close(fd) || !ok ? -1 : 0;
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(path);
}

static const unsigned char *map(void)
{
    int fd = open(path, O_RDONLY);
    assert_true(fd >= 0);
    const unsigned char *at = dv_file_map(fd, BYTES);
    assert_non_null(at);
    close(fd);
    return at;
}

// Returns whether the page of an address is in the memory of this process; -1
// where the system does not tell.
static int is_present(const void *at)
{
    uint64_t entry = 0;
    int fd = open("/proc/self/pagemap", O_RDONLY);
    off_t number = (off_t)((uintptr_t)at / (uintptr_t)sysconf(_SC_PAGESIZE));
    ssize_t got =
        fd < 0 ? -1
               : pread(fd, &entry, sizeof entry, number * (off_t)sizeof entry);
    if (fd >= 0)
        close(fd);
    return got == (ssize_t)sizeof entry ? (int)(entry >> 63) : -1;
}

TEST(drops_pages)
{
    const unsigned char *at = map();
    assert_memory_equal(at, bytes, BYTES);
    int told = is_present(at + BYTES / 2);
    assert_int_not_equal(told, 0);
    dv_file_map_drop(at + 1, BYTES - 2);
    assert_int_equal(is_present(at + BYTES / 2), told < 0 ? -1 : 0);
    assert_int_equal(is_present(at), told);
    assert_memory_equal(at, bytes, BYTES);
    dv_file_unmap(at, BYTES);
}

TEST(leaves_other_memory)
{
    const unsigned char *at = map();
    unsigned char *own = malloc(BYTES);
    assert_non_null(own);
    memcpy(own, bytes, BYTES);
    dv_file_map_drop(own, BYTES);
    assert_memory_equal(own, bytes, BYTES);
    dv_file_map_drop(at + BYTES - 1, BYTES); // leaves the file
    dv_file_unmap(at, BYTES);
    free(own);
}

TEST(nothing_to_map)
{
    int fd = open(path, O_RDONLY);
    assert_null(dv_file_map(fd, 0));
    close(fd);
    assert_null(dv_file_map(-1, BYTES));
    dv_file_unmap(NULL, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drops_pages),
        cmocka_unit_test(leaves_other_memory),
        cmocka_unit_test(nothing_to_map),
    };
    return run_group(tests, make_file, remove_file);
}
