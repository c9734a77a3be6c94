// The FNV-1a hash of bytes: dv_hash(DV_HASH, bytes, n).
#ifndef DV_HASH_H
#define DV_HASH_H
#include <stddef.h>
#include <stdint.h>

// Extends a hash by n bytes; the initial value is DV_HASH.
#define DV_HASH ((uint64_t)0xcbf29ce484222325u)
static inline uint64_t dv_hash(uint64_t h, const void *bytes, size_t n)
{
    const unsigned char *b = bytes;
    for (size_t i = 0; i < n; i++)
        h = (h ^ b[i]) * 0x100000001b3u;
    return h;
}
#endif
