// The runtime of programs emitted by divvy, in C and C++: element types,
// wrapping integer arithmetic, boxes of tiles, and .npy files.
#ifndef DIVVY_RT_H
#define DIVVY_RT_H
#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Rounds to `bits` significant bits, ties to even. Values with an exponent
// below `least`, that of the smallest normal number, keep fewer bits, as
// subnormal numbers do.
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

static inline int64_t rt_to_int(double v)
{
    return v >= 0x1p63 ? INT64_MAX : v < -0x1p63 ? INT64_MIN : (int64_t)v;
}

static inline double rt_nan_to_0(double v)
{
    return isnan(v) ? 0 : v;
}

// -0 counts as less than +0, and NaN propagates, in min and max.
static inline double rt_min(double x, double y)
{
    return isnan(x) || x < y || (x == y && signbit(x)) ? x : y;
}

static inline double rt_max(double x, double y)
{
    return isnan(x) || x > y || (x == y && !signbit(x)) ? x : y;
}

static inline double rt_relu(double x)
{
    return isnan(x) || x > 0 ? x : 0;
}

static inline double rt_mod(double x, double y)
{
    double r = fmod(x, y);
    if (r == 0)
        return copysign(r, y);
    return (r < 0) != (y < 0) ? r + y : r;
}

static inline double rt_sign(double x)
{
    return isnan(x) ? x : (x > 0) - (x < 0);
}

static inline double rt_sigmoid(double x)
{
    return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x));
}

static inline double rt_silu(double x)
{
    return x < 0 ? x * exp(x) / (1 + exp(x)) : x / (1 + exp(-x));
}

static inline double rt_gelu(double x)
{
    return 0.5 * x * erfc(x * -0.70710678118654752440);
}

static inline int64_t rt_iadd(int64_t x, int64_t y)
{
    return (int64_t)((uint64_t)x + (uint64_t)y);
}

static inline int64_t rt_isub(int64_t x, int64_t y)
{
    return (int64_t)((uint64_t)x - (uint64_t)y);
}

static inline int64_t rt_imul(int64_t x, int64_t y)
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
    return x < 0 ? rt_isub(0, x) : x;
}

static inline int64_t rt_isign(int64_t x)
{
    return (x > 0) - (x < 0);
}

// The remainder of a division by 0 is 0.
static inline int64_t rt_irem(int64_t x, int64_t y)
{
    return y == 0 || y == -1 ? 0 : x % y;
}

static inline int64_t rt_imod(int64_t x, int64_t y)
{
    int64_t r = rt_irem(x, y);
    return r != 0 && (r ^ y) < 0 ? r + y : r;
}

// Distances beyond 63, and negative ones, shift all bits out.
static inline int64_t rt_ishl(int64_t x, int64_t y)
{
    return y < 0 || y > 63 ? 0 : (int64_t)((uint64_t)x << y);
}

static inline int64_t rt_ishr(int64_t x, int64_t y)
{
    uint64_t sign = x < 0 ? UINT64_MAX : 0;
    uint64_t by = y < 0 || y > 63 ? 63 : (uint64_t)y;
    return (int64_t)((((uint64_t)x ^ sign) >> by) ^ sign);
}

// Returns whether an index is within the bounds of a dim of this size.
static inline int rt_inside(int64_t i, int64_t size)
{
    return i >= 0 && i < size;
}

// Exits with an error if an index read from a tensor is out of bounds.
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

// Computes the range lo..hi of each of n variables in tile t. Variable v is cut
// into slices of slice[v] values; the tile's slice numbers are the mixed-radix
// digits of t, with the last variable fastest.
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

static inline void *rt_alloc(int64_t n, size_t size)
{
    void *p = calloc(n > 0 ? (size_t)n : 1, size);
    if (!p) {
        fprintf(stderr, "out of memory\n");
        exit(3);
    }
    return p;
}

// Returns the file of a tensor given as NAME=FILE on the command line, or NULL.
// A tensor that is both read and written is named twice, first the file to
// read; `skip` is 1 to find the second.
static inline const char *rt_file(int argc, char **argv, const char *name,
                                  int skip)
{
    size_t len = strlen(name);
    for (int i = 1; i < argc; i++)
        if (!strncmp(argv[i], name, len) && argv[i][len] == '=' && !skip--)
            return argv[i] + len + 1;
    return NULL;
}

// Exits unless every argument is NAME=FILE with the name of an input or output,
// so that a misspelt name is not silently ignored.
static inline void rt_check_args(int argc, char **argv,
                                 const char *const *names, int n)
{
    for (int i = 1; i < argc; i++) {
        const char *eq = strchr(argv[i], '=');
        size_t len = eq ? (size_t)(eq - argv[i]) : 0;
        int found = 0;
        for (int k = 0; k < n && len; k++)
            found |=
                strlen(names[k]) == len && !strncmp(argv[i], names[k], len);
        if (found && eq[1])
            continue;
        fprintf(stderr,
                "arguments are NAME=FILE.npy, not '%s'; names are:", argv[i]);
        for (int k = 0; k < n; k++)
            fprintf(stderr, " %s", names[k]);
        fprintf(stderr, "\n");
        exit(2);
    }
}

// A .npy file being read: a prefix with the version and header length, the
// header (a Python dict as text), and the elements.
typedef struct rt_npy {
    const char *path, *tensor;
    FILE *file;
    char *at, *end; // the unread part of the header
} rt_npy;

static inline void rt_refuse(const rt_npy *f, const char *why)
{
    fprintf(stderr, "%s: %s (read for %s)\n", f->path, why, f->tensor);
    exit(1);
}

static inline void rt_malformed(const rt_npy *f, const char *wanted)
{
    char why[96];
    snprintf(why, sizeof why, "malformed .npy header: expected %s", wanted);
    rt_refuse(f, why);
}

static inline void rt_skip_blanks(rt_npy *f)
{
    while (f->at < f->end && (*f->at == ' ' || *f->at == '\t' ||
                              *f->at == '\n' || *f->at == '\r'))
        f->at++;
}

static inline int rt_take(rt_npy *f, char c)
{
    rt_skip_blanks(f);
    if (f->at == f->end || *f->at != c)
        return 0;
    f->at++;
    return 1;
}

// Reads a Python string without escapes and terminates it in place with NUL.
static inline const char *rt_string(rt_npy *f, const char *wanted)
{
    char quote = '\'';
    if (!rt_take(f, quote) && !rt_take(f, quote = '"'))
        rt_malformed(f, wanted);
    char *close =
        (char *)memchr(f->at, (unsigned char)quote, (size_t)(f->end - f->at));
    char *s = f->at;
    if (!close || memchr(s, 0, (size_t)(close - s)))
        rt_malformed(f, "the end of a string");
    *close = 0;
    f->at = close + 1;
    return s;
}

// Checks the element type, such as "<f4". "=f4" means the same on a
// little-endian machine, and byte order does not matter for one-byte types.
static inline void rt_check_descr(rt_npy *f, const char *wanted)
{
    const char *s = rt_string(f, "a type such as '<f4'");
    char why[128];
    int order = *s == '<' || *s == '=' || *s == wanted[0];
    if (order && !strcmp(s + 1, wanted + 1))
        return;
    snprintf(why, sizeof why, "the elements are '%.40s', '%s' is needed", s,
             wanted);
    rt_refuse(f, why);
}

static inline int rt_fortran(rt_npy *f)
{
    static const char *const words[] = {"False", "True"};
    rt_skip_blanks(f);
    for (int i = 0; i < 2; i++) {
        size_t n = strlen(words[i]);
        if ((size_t)(f->end - f->at) >= n && !memcmp(f->at, words[i], n)) {
            f->at += n;
            return i;
        }
    }
    rt_malformed(f, "True or False");
    return 0;
}

static inline void rt_check_shape(rt_npy *f, int n_dims, const int64_t *shape)
{
    int n = 0, same = 1, comma = 1;
    if (!rt_take(f, '('))
        rt_malformed(f, "a shape such as (4, 8)");
    for (; !rt_take(f, ')'); n++) {
        int64_t v = 0;
        int digits = 0, minus = rt_take(f, '-');
        rt_skip_blanks(f);
        for (; f->at < f->end && *f->at >= '0' && *f->at <= '9'; digits++) {
            int digit = *f->at++ - '0';
            if (v > (INT64_MAX - digit) / 10)
                rt_refuse(f, "a dim of the shape does not fit 64 bits");
            v = v * 10 + digit;
        }
        if (!digits || !comma)
            rt_malformed(f, "a number, ',' or ')' in the shape");
        // Python 2 wrote 8L for a long integer.
        if (f->at < f->end && *f->at == 'L')
            f->at++;
        same = same && n < n_dims && v == shape[n] && !(minus && v);
        comma = rt_take(f, ',');
        if (!comma && n == 0) // (4) is a number in Python; (4,) is a shape
            rt_malformed(f, "',' after the first dim of the shape");
    }
    if (same && n == n_dims)
        return;
    fprintf(stderr, "%s: %s has the shape (", f->path, f->tensor);
    for (int d = 0; d < n_dims; d++)
        fprintf(stderr, "%s%" PRId64, d ? ", " : "", shape[d]);
    fprintf(stderr, "%s), the file has another\n", n_dims == 1 ? "," : "");
    exit(1);
}

// Reads and checks the header; returns whether the elements are in Fortran
// order.
static inline int rt_header(rt_npy *f, const char *descr, int n_dims,
                            const int64_t *shape)
{
    static const char *const keys[] = {"descr", "fortran_order", "shape"};
    unsigned char b[12];
    int seen = 0, fortran = 0, comma = 1;
    if (fread(b, 1, 10, f->file) != 10 || memcmp(b, "\x93NUMPY", 6))
        rt_refuse(f, "not a .npy file");
    if ((b[6] != 1 && b[6] != 2) || b[7])
        rt_refuse(f, "only versions 1.0 and 2.0 of the .npy format are read");
    size_t len = b[8] + (size_t)256 * b[9];
    if (b[6] == 2) {
        if (fread(b + 10, 1, 2, f->file) != 2 || b[10] || b[11])
            rt_refuse(f, "the header has more than 65535 bytes");
    }
    char *text = (char *)malloc(len + 1);
    if (!text || fread(text, 1, len, f->file) != len)
        rt_refuse(f, "the header is truncated");
    f->at = text;
    f->end = text + len;
    if (!rt_take(f, '{'))
        rt_malformed(f, "'{'");
    for (; !rt_take(f, '}'); comma = rt_take(f, ',')) {
        if (!comma)
            rt_malformed(f, "',' or '}'");
        const char *key = rt_string(f, "a key or '}'");
        int k = 0;
        while (k < 3 && strcmp(key, keys[k]))
            k++;
        if (k == 3 || seen >> k & 1)
            rt_refuse(f, "the header has an unknown key, or one twice");
        seen |= 1 << k;
        if (!rt_take(f, ':'))
            rt_malformed(f, "':'");
        if (k == 0)
            rt_check_descr(f, descr);
        else if (k == 1)
            fortran = rt_fortran(f);
        else
            rt_check_shape(f, n_dims, shape);
    }
    rt_skip_blanks(f);
    if (seen != 7 || f->at != f->end)
        rt_refuse(f, "the header is not one dict of descr, fortran_order and "
                     "shape");
    free(text);
    return fortran;
}

// Reads elements in Fortran order, with the first index fastest, into row-major
// memory.
static inline int64_t rt_read_fortran(FILE *file, char *data, int64_t n,
                                      size_t size, int n_dims,
                                      const int64_t *shape)
{
    int64_t index[16] = {0}, stride[16], step = 1, at = 0, done = 0;
    for (int d = n_dims - 1; d >= 0; d--) {
        stride[d] = step;
        step *= shape[d];
    }
    for (; done < n && fread(data + at * (int64_t)size, size, 1, file) == 1;
         done++)
        for (int d = 0; d < n_dims; d++) {
            at += stride[d];
            if (++index[d] < shape[d])
                break;
            at -= index[d] * stride[d];
            index[d] = 0;
        }
    return done;
}

// Reads a tensor of n elements from the file named on the command line. `descr`
// is its type in numpy notation. Exits if the file has another type, shape or
// length.
static inline void rt_read(int argc, char **argv, const char *name,
                           const char *descr, int n_dims, const int64_t *shape,
                           void *data, int64_t n, size_t size)
{
    rt_npy f = {rt_file(argc, argv, name, 0), name, NULL, NULL, NULL};
    const uint16_t one = 1;
    unsigned char low;
    memcpy(&low, &one, 1);
    if (!f.path) {
        fprintf(stderr, "%s=FILE.npy is needed, with %" PRId64 " elements\n",
                name, n);
        exit(1);
    }
    f.file = fopen(f.path, "rb");
    if (!f.file)
        rt_refuse(&f, "cannot open the file");
    if (!low)
        rt_refuse(&f, "elements are read on little-endian machines only");
    int64_t got =
        rt_header(&f, descr, n_dims, shape) && n_dims > 1
            ? rt_read_fortran(f.file, (char *)data, n, size, n_dims, shape)
            : (int64_t)fread(data, size, (size_t)n, f.file);
    if (got != n)
        rt_refuse(&f, "truncated: it has fewer elements than its header says");
    if (fgetc(f.file) != EOF)
        rt_refuse(&f, "trailing bytes: it has more than its header says");
    fclose(f.file);
}

// Writes a tensor. `shape` is in Python notation, "2, 3" or "8,"; `was_read` is
// 1 if the tensor is also an input.
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

#ifdef RT_TEAM
// Ranks of a team, which send boxes of elements to each other: processes of MPI
// if RT_MPI is defined, else threads of one process. Messages between two ranks
// with one tag arrive in the order in which they were sent.
#ifdef RT_MPI
#include <mpi.h>
typedef MPI_Request rt_request;

static inline void rt_send(int me, const void *data, int64_t bytes, int to,
                           int tag, rt_request *r)
{
    (void)me;
    MPI_Isend(data, (int)bytes, MPI_BYTE, to, tag, MPI_COMM_WORLD, r);
}

static inline void rt_receive(int me, void *data, int64_t bytes, int from,
                              int tag, rt_request *r)
{
    (void)me;
    MPI_Irecv(data, (int)bytes, MPI_BYTE, from, tag, MPI_COMM_WORLD, r);
}

static inline void rt_wait(rt_request *r, int n)
{
    MPI_Waitall(n, r, MPI_STATUSES_IGNORE);
}
#else
#include <pthread.h>
typedef struct rt_message {
    int from, to, tag;
    void *data; // a copy
    struct rt_message *next;
} rt_message;

// The messages that were sent and not received yet, the oldest first. There is
// one such queue for all ranks, in program.c.
typedef struct rt_mail {
    pthread_mutex_t lock;
    pthread_cond_t sent;
    rt_message *first;
} rt_mail;
extern rt_mail rt_post;

// A message to be received; data is NULL for one that was sent.
typedef struct rt_request {
    int from, to, tag;
    void *data;
    int64_t bytes;
} rt_request;

static inline void rt_send(int me, const void *data, int64_t bytes, int to,
                           int tag, rt_request *r)
{
    rt_message *m = (rt_message *)rt_alloc(1, sizeof *m);
    m->from = me;
    m->to = to;
    m->tag = tag;
    m->data = rt_alloc(bytes, 1);
    memcpy(m->data, data, (size_t)bytes);
    r->data = NULL;
    pthread_mutex_lock(&rt_post.lock);
    rt_message **end = &rt_post.first;
    while (*end)
        end = &(*end)->next;
    *end = m;
    pthread_cond_broadcast(&rt_post.sent);
    pthread_mutex_unlock(&rt_post.lock);
}

static inline void rt_receive(int me, void *data, int64_t bytes, int from,
                              int tag, rt_request *r)
{
    r->from = from;
    r->to = me;
    r->tag = tag;
    r->data = data;
    r->bytes = bytes;
}

// Waits for and takes the oldest message that matches a request. The caller
// holds the lock of rt_post.
static inline rt_message *rt_take_message(const rt_request *r)
{
    for (;;) {
        for (rt_message **m = &rt_post.first; *m; m = &(*m)->next)
            if ((*m)->from == r->from && (*m)->to == r->to &&
                (*m)->tag == r->tag) {
                rt_message *found = *m;
                *m = found->next;
                return found;
            }
        pthread_cond_wait(&rt_post.sent, &rt_post.lock);
    }
}

static inline void rt_wait(rt_request *r, int n)
{
    for (int i = 0; i < n; i++) {
        if (!r[i].data)
            continue;
        pthread_mutex_lock(&rt_post.lock);
        rt_message *m = rt_take_message(&r[i]);
        pthread_mutex_unlock(&rt_post.lock);
        memcpy(r[i].data, m->data, (size_t)r[i].bytes);
        free(m->data);
        free(m);
    }
}
#endif

// Adds up the accumulators of the ranks that have partial results of the same
// elements, in the order of `members`, of which this rank is number `at`. type:
// f float, d double, i int64_t; how: + * < (minimum) > (maximum).
static inline void rt_combine(int me, void *parts, int64_t n, char type,
                              char how, const int *members, int n_members,
                              int at, int tag)
{
    int64_t bytes = n * (type == 'f' ? 4 : 8);
    char *all = (char *)rt_alloc(n_members, (size_t)bytes + 1);
    rt_request *r = (rt_request *)rt_alloc(2 * n_members, sizeof(rt_request));
    int k = 0;
    for (int m = 0; m < n_members; m++) {
        if (m == at)
            continue;
        rt_receive(me, all + m * bytes, bytes, members[m], tag, &r[k++]);
        rt_send(me, parts, bytes, members[m], tag, &r[k++]);
    }
    rt_wait(r, k);
    memcpy(all + at * bytes, parts, (size_t)bytes);
    memcpy(parts, all, (size_t)bytes);
    for (int m = 1; m < n_members; m++)
        for (int64_t i = 0; i < n; i++) {
            const void *by = all + m * bytes;
            if (type == 'i') {
                int64_t *x = (int64_t *)parts + i, y = ((const int64_t *)by)[i];
                *x = how == '+'   ? rt_iadd(*x, y)
                     : how == '*' ? rt_imul(*x, y)
                     : how == '<' ? rt_imin(*x, y)
                                  : rt_imax(*x, y);
                continue;
            }
            double x = type == 'f' ? (double)((float *)parts)[i]
                                   : ((double *)parts)[i];
            double y = type == 'f' ? (double)((const float *)by)[i]
                                   : ((const double *)by)[i];
            x = how == '+'   ? x + y
                : how == '*' ? x * y
                : how == '<' ? rt_min(x, y)
                             : rt_max(x, y);
            if (type == 'f')
                ((float *)parts)[i] = (float)x;
            else
                ((double *)parts)[i] = x;
        }
    free(all);
    free(r);
}

// A rank's part of a tensor: a box, stored in memory that may hold a larger
// box.
typedef struct rt_part {
    int n_dims;
    int64_t shape[16];         // of the whole tensor
    int64_t off[16], size[16]; // the box
    int64_t at[16],
        local[16]; // where it begins in memory, whose shape is local
} rt_part;

// Copies a rank's box of a tensor from one array to another: the rank's memory,
// the whole tensor, or a dense copy of the box.
static inline void rt_copy_part(const rt_part *p, char *to,
                                const int64_t *to_shape, const int64_t *to_at,
                                const char *from, const int64_t *from_shape,
                                const int64_t *from_at, size_t size)
{
    int64_t n = 1, k[16] = {0};
    for (int d = 0; d < p->n_dims; d++)
        n *= p->size[d];
    for (int64_t i = 0; i < n; i++) {
        int64_t t = 0, f = 0;
        for (int d = 0; d < p->n_dims; d++) {
            t = t * to_shape[d] + to_at[d] + k[d];
            f = f * from_shape[d] + from_at[d] + k[d];
        }
        memcpy(to + t * (int64_t)size, from + f * (int64_t)size, size);
        for (int d = p->n_dims - 1; d >= 0 && ++k[d] == p->size[d]; d--)
            k[d] = 0;
    }
}

static inline int64_t rt_elems(int n_dims, const int64_t *shape)
{
    int64_t n = 1;
    for (int d = 0; d < n_dims; d++)
        n *= shape[d];
    return n;
}

// Every rank reads the whole tensor and keeps its part.
static inline void rt_read_part(int argc, char **argv, const char *name,
                                const char *descr, const rt_part *p, void *data,
                                size_t size)
{
    int64_t n = rt_elems(p->n_dims, p->shape);
    char *whole = (char *)rt_alloc(n, size);
    rt_read(argc, argv, name, descr, p->n_dims, p->shape, whole, n, size);
    if (data)
        rt_copy_part(p, (char *)data, p->local, p->at, whole, p->shape, p->off,
                     size);
    free(whole);
}

// Rank 0 receives the parts of all ranks and writes the tensor.
static inline void rt_write_part(int me, int n_ranks, int argc, char **argv,
                                 const char *name, const char *descr,
                                 const char *shape, const rt_part *p,
                                 const void *data, size_t size, int was_read,
                                 int tag)
{
    static const int64_t zeros[16];
    rt_request r[2];
    if (!rt_file(argc, argv, name, was_read))
        return;
    int64_t mine = data ? rt_elems(p->n_dims, p->size) : 0;
    int64_t n = rt_elems(p->n_dims, p->shape);
    char *dense = (char *)rt_alloc(mine, size);
    if (data)
        rt_copy_part(p, dense, p->size, zeros, (const char *)data, p->local,
                     p->at, size);
    if (me) {
        rt_part box = *p;
        for (int d = 0; d < 16 && !data; d++)
            box.size[d] = 0;
        rt_send(me, &box, (int64_t)sizeof box, 0, tag, &r[0]);
        rt_send(me, dense, mine * (int64_t)size, 0, tag, &r[1]);
        rt_wait(r, 2);
        free(dense);
        return;
    }
    char *whole = (char *)rt_alloc(n, size);
    if (data)
        rt_copy_part(p, whole, p->shape, p->off, dense, p->size, zeros, size);
    free(dense);
    for (int k = 1; k < n_ranks; k++) {
        rt_part box;
        rt_receive(me, &box, (int64_t)sizeof box, k, tag, r);
        rt_wait(r, 1);
        int64_t theirs = rt_elems(box.n_dims, box.size);
        dense = (char *)rt_alloc(theirs, size);
        rt_receive(me, dense, theirs * (int64_t)size, k, tag, r);
        rt_wait(r, 1);
        rt_copy_part(&box, whole, box.shape, box.off, dense, box.size, zeros,
                     size);
        free(dense);
    }
    rt_write(argc, argv, name, descr, shape, whole, n, size, was_read);
    free(whole);
}
#endif
#endif
