// What programs made by divvy need beside themselves: element types, whole
// numbers that wrap, boxes of tiles, .npy files. C and C++.
#ifndef DIVVY_RT_H
#define DIVVY_RT_H
#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// -- Elements ----------------------------------------------------------------

// To `bits` of mantissa, ties to even; exponents below `least` lose bits.
static inline double rt_round(double v, int bits, int least)
{
    int e;
    if (v == 0 || !isfinite(v))
        return v;
    frexp(v, &e);
    e = (e < least ? least : e) - bits;
    return ldexp(nearbyint(ldexp(v, -e)), e);
}

static inline uint16_t rt_to_f16(double v)
{
    uint16_t sign = signbit(v) ? 0x8000 : 0;
    int e;
    v = fabs(rt_round(v, 11, -13));
    if (isnan(v))
        return (uint16_t)(sign | 0x7e00);
    if (v > 65504)
        return (uint16_t)(sign | 0x7c00);
    if (v < 0x1p-14)
        return (uint16_t)(sign | (uint16_t)(v * 0x1p24));
    v = frexp(v, &e);
    return (uint16_t)(sign | ((e + 14) << 10) | ((int)(v * 2048) - 1024));
}

static inline double rt_from_f16(uint16_t h)
{
    int e = h >> 10 & 31, m = h & 1023;
    double v = e == 31 ? (m ? NAN : INFINITY)
               : e     ? ldexp(m + 1024, e - 25)
                       : ldexp(m, -24);
    return h & 0x8000 ? -v : v;
}

static inline uint16_t rt_to_bf16(double v)
{
    float f = (float)rt_round(v, 8, -125);
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    if (isnan(v))
        return 0x7fc0;
    return (uint16_t)(u >> 16);
}

static inline double rt_from_bf16(uint16_t h)
{
    uint32_t u = (uint32_t)h << 16;
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static inline int64_t rt_whole(double v)
{
    return v >= 0x1p63 ? INT64_MAX : v < -0x1p63 ? INT64_MIN : (int64_t)v;
}

static inline double rt_nan_to_0(double v)
{
    return isnan(v) ? 0 : v;
}

// -- Functions ---------------------------------------------------------------

static inline double rt_min(double x, double y)
{
    return isnan(x) || x < y ? x : y;
}

static inline double rt_max(double x, double y)
{
    return isnan(x) || x > y ? x : y;
}

static inline double rt_relu(double x)
{
    return isnan(x) || x > 0 ? x : 0;
}

static inline double rt_sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static inline double rt_silu(double x)
{
    return x / (1 + exp(-x));
}

static inline double rt_gelu(double x)
{
    return 0.5 * x * erfc(x * -0.70710678118654752440);
}

static inline int64_t rt_add(int64_t x, int64_t y)
{
    return (int64_t)((uint64_t)x + (uint64_t)y);
}

static inline int64_t rt_sub(int64_t x, int64_t y)
{
    return (int64_t)((uint64_t)x - (uint64_t)y);
}

static inline int64_t rt_mul(int64_t x, int64_t y)
{
    return (int64_t)((uint64_t)x * (uint64_t)y);
}

static inline int64_t rt_imin(int64_t x, int64_t y)
{
    return x < y ? x : y;
}

static inline int64_t rt_imax(int64_t x, int64_t y)
{
    return x > y ? x : y;
}

static inline int64_t rt_iabs(int64_t x)
{
    return x < 0 ? rt_sub(0, x) : x;
}

// An index that was read: it must be inside.
static inline int64_t rt_index(int64_t i, int64_t size)
{
    if (i < 0 || i >= size) {
        fprintf(stderr,
                "an index found %" PRId64 ", the dim has 0..%" PRId64 "\n", i,
                size);
        exit(1);
    }
    return i;
}

// -- Tiles -------------------------------------------------------------------

// The box of tile t: its slice numbers are the digits of t, the last variable
// running fastest.
static inline void rt_box(int n, const int64_t *begin, const int64_t *end,
                          const int64_t *slice, int64_t t, int64_t *lo,
                          int64_t *hi)
{
    for (int v = n - 1; v >= 0; v--) {
        int64_t count = (end[v] - begin[v] - 1) / slice[v] + 1;
        lo[v] = begin[v] + t % count * slice[v];
        hi[v] = rt_imin(lo[v] + slice[v], end[v]);
        t /= count;
    }
}

// -- Memory and files --------------------------------------------------------

static inline void *rt_alloc(int64_t n, size_t size)
{
    void *p = calloc(n > 0 ? (size_t)n : 1, size);
    if (!p) {
        fprintf(stderr, "out of memory\n");
        exit(3);
    }
    return p;
}

// The file that the command line gives a tensor, as NAME=FILE. What is read and
// written is named twice: first the one to read.
static inline const char *rt_file(int argc, char **argv, const char *name,
                                  int skip)
{
    size_t len = strlen(name);
    for (int i = 1; i < argc; i++)
        if (!strncmp(argv[i], name, len) && argv[i][len] == '=' && !skip--)
            return argv[i] + len + 1;
    return NULL;
}

static inline void rt_read(int argc, char **argv, const char *name, void *data,
                           int64_t n, size_t size)
{
    const char *path = rt_file(argc, argv, name, 0);
    unsigned char head[10];
    FILE *f = path ? fopen(path, "rb") : NULL;
    if (!f || fread(head, 1, 10, f) != 10 ||
        fseek(f, 10 + head[8] + 256 * head[9], SEEK_SET) ||
        fread(data, size, (size_t)n, f) != (size_t)n) {
        fprintf(stderr, "%s=FILE.npy is needed, with %" PRId64 " elements\n",
                name, n);
        exit(1);
    }
    fclose(f);
}

// `shape` as Python writes it: "2, 3" or "8,"; `was_read`: it is an input too.
static inline void rt_write(int argc, char **argv, const char *name,
                            const char *descr, const char *shape,
                            const void *data, int64_t n, size_t size,
                            int was_read)
{
    const char *path = rt_file(argc, argv, name, was_read);
    char head[1024];
    if (!path)
        return;
    int len = snprintf(head + 10, sizeof head - 10,
                       "{'descr': '%s', 'fortran_order': False, 'shape': "
                       "(%s), }",
                       descr, shape);
    int all = (10 + len + 1 + 63) / 64 * 64;
    memset(head + 10 + len, ' ', (size_t)(all - 10 - len));
    memcpy(head, "\x93NUMPY\x01", 8);
    head[8] = (char)((all - 10) & 255);
    head[9] = (char)((all - 10) >> 8);
    head[all - 1] = '\n';
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(head, 1, (size_t)all, f) != (size_t)all ||
        fwrite(data, size, (size_t)n, f) != (size_t)n || fclose(f)) {
        fprintf(stderr, "cannot write %s\n", path);
        exit(3);
    }
}
#endif
