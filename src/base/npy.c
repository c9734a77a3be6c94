// Reads and writes .npy files; npy.h describes the format.
#define _POSIX_C_SOURCE 200809L
#include "base/npy.h"
#include "base/dtype.h"
#include "base/file.h"
#include "base/filemap.h"
#include "base/math.h"
#include "base/mem.h"
#include "base/text.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// Elements are copied between file and memory without byte swapping, so the
// host must be little-endian.
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               ".npy files are read and written on little-endian hosts only");

static const char magic[] = "\x93NUMPY";
enum {
    MAGIC_LEN = 6,
    PREFIX_1 = 10, // bytes before the dict: magic, version, u16 length
    PREFIX_2 = 12, // bytes before the dict: magic, version, u32 length
    DATA_ALIGN = 64,
    BLOCK_BYTES = 1 << 16
};

// Computes the bytes of a dense tensor. Returns 0 on overflow of 64 bits. The
// overflow test counts a dim of 0 as 1, so that its outcome does not depend on
// the order of the dims.
static int count_bytes(int64_t *out, dv_dtype t, int n_dims,
                       const int64_t *shape)
{
    int64_t bytes = dv_dtype_get(t)->size_bytes;
    int empty = 0;
    for (int d = 0; d < n_dims; d++) {
        empty |= shape[d] == 0;
        if (shape[d] < 0 || !dv_mul_i64(&bytes, bytes, shape[d] ? shape[d] : 1))
            return 0;
    }
    *out = empty ? 0 : bytes;
    return 1;
}

typedef struct parser {
    const char *at, *end; // remaining text of the dict being parsed
    dv_source src; // all bytes of the file read so far, for error positions
    dv_diag *diag;
    dv_npy_header *out;
    int seen; // bit mask of the keys seen
} parser;

// A string from the file with unprintable characters replaced, for messages.
typedef struct shown {
    char text[44];
} shown;

static shown show(const char *s, size_t len)
{
    shown r;
    size_t room = sizeof r.text - 4, n = len < room ? len : room;
    for (size_t i = 0; i < n; i++)
        r.text[i] = (char)(s[i] < 32 || s[i] > 126 ? '?' : s[i]);
    memcpy(r.text + n, len > n ? "..." : "", len > n ? 4 : 1);
    return r;
}

static dv_loc loc_of(const parser *p, const char *at)
{
    return (dv_loc){&p->src, (uint32_t)(at - p->src.text)};
}

static void skip_blanks(parser *p)
{
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\t' ||
                              *p->at == '\n' || *p->at == '\r'))
        p->at++;
}

static int take(parser *p, char c)
{
    skip_blanks(p);
    if (p->at == p->end || *p->at != c)
        return 0;
    p->at++;
    return 1;
}

static dv_status malformed(parser *p, const char *wanted)
{
    skip_blanks(p);
    shown s = show(p->at, p->at < p->end);
    return dv_fail(p->diag, DV_E_FORMAT, loc_of(p, p->at),
                   "malformed header: expected %s, found %s%s%s", wanted,
                   p->at < p->end ? "'" : "", p->at < p->end ? s.text : "its",
                   p->at < p->end ? "'" : " end");
}

// Parses a Python string without escapes, which headers never need.
static dv_status take_string(parser *p, const char *wanted, const char **s,
                             size_t *len)
{
    char quote = '\'';
    if (!take(p, quote) && !take(p, quote = '"'))
        return malformed(p, wanted);
    const char *close = memchr(p->at, quote, (size_t)(p->end - p->at));
    if (!close)
        return dv_fail(p->diag, DV_E_FORMAT, loc_of(p, p->at - 1),
                       "malformed header: the string has no end");
    *s = p->at;
    *len = (size_t)(close - p->at);
    p->at = close + 1;
    return DV_OK;
}

static dv_status parse_descr(parser *p)
{
    const char *s;
    size_t len;
    DV_TRY(take_string(p, "a type such as '<f4'", &s, &len));
    shown name = show(s, len);
    if (len && *s == '>')
        return dv_fail(p->diag, DV_E_FORMAT, loc_of(p, s),
                       "the elements are big-endian ('%s'), only "
                       "little-endian ones ('<%s') are read",
                       name.text, name.text + 1);
    static const dv_dtype all[] = {
#define DV_DTYPE(NAME, name, bytes, kind, mantissa_bits, npy) DV_##NAME,
#include "divvy/dtype.def"
#undef DV_DTYPE
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const dv_dtype_info *t = dv_dtype_get(all[i]);
        int order = len && (*s == '<' || *s == '=' || *s == t->npy[0]);
        if (order && len == strlen(t->npy) &&
            memcmp(s + 1, t->npy + 1, len - 1) == 0) {
            p->out->dtype = all[i];
            return DV_OK;
        }
    }
    return dv_fail(p->diag, DV_E_FORMAT, loc_of(p, s),
                   "elements of type '%s' are not read, only <f8 <f4 <f2 <i8 "
                   "<i4 <i2 |i1 <u8 <u4 <u2 |u1 |b1, and bf16 as <u2",
                   name.text);
}

static dv_status parse_order(parser *p)
{
    static const char *const words[] = {"False", "True"};
    skip_blanks(p);
    for (int i = 0; i < 2; i++) {
        size_t n = strlen(words[i]);
        if ((size_t)(p->end - p->at) >= n && memcmp(p->at, words[i], n) == 0) {
            p->at += n;
            p->out->fortran = i;
            return DV_OK;
        }
    }
    return malformed(p, "True or False");
}

static dv_status parse_dim(parser *p)
{
    dv_npy_header *h = p->out;
    int negative = take(p, '-');
    skip_blanks(p);
    const char *s = p->at;
    int64_t v = 0;
    for (; p->at < p->end && *p->at >= '0' && *p->at <= '9'; p->at++)
        if (!dv_mul_i64(&v, v, 10) || !dv_add_i64(&v, v, *p->at - '0'))
            return dv_fail(p->diag, DV_E_FORMAT, loc_of(p, s),
                           "dim %d of the shape does not fit 64 bits, at "
                           "most %" PRId64 " does",
                           h->n_dims, INT64_MAX);
    if (p->at == s)
        return malformed(p, "a number or ')'");
    if (negative && v)
        return dv_fail(p->diag, DV_E_FORMAT, loc_of(p, s),
                       "dim %d of the shape is -%" PRId64 ", below 0",
                       h->n_dims, v);
    if (h->n_dims == DV_MAX_DIMS)
        return dv_fail(p->diag, DV_E_LIMIT, loc_of(p, s),
                       "the shape has more than %d dims", DV_MAX_DIMS);
    // Python 2 wrote long integers as 8L.
    if (p->at < p->end && *p->at == 'L')
        p->at++;
    h->shape[h->n_dims++] = v;
    return DV_OK;
}

static dv_status parse_shape(parser *p)
{
    if (!take(p, '('))
        return malformed(p, "a shape such as (4, 8)");
    for (int comma = 1; !take(p, ')');) {
        if (!comma)
            return malformed(p, "',' or ')'");
        DV_TRY(parse_dim(p));
        comma = take(p, ',');
        // (4) is a number in Python, not a tuple; numpy rejects it as well.
        if (!comma && p->out->n_dims == 1)
            return malformed(p, "','");
    }
    return DV_OK;
}

static const struct {
    const char *name;
    dv_status (*parse)(parser *p);
} keys[] = {{"descr", parse_descr},
            {"fortran_order", parse_order},
            {"shape", parse_shape}};
enum { N_KEYS = sizeof keys / sizeof *keys };

static dv_status parse_item(parser *p)
{
    const char *s;
    size_t len;
    DV_TRY(take_string(p, "a key or '}'", &s, &len));
    shown name = show(s, len);
    for (int i = 0; i < N_KEYS; i++) {
        if (strlen(keys[i].name) != len || memcmp(keys[i].name, s, len) != 0)
            continue;
        if (p->seen >> i & 1)
            return dv_fail(p->diag, DV_E_FORMAT, loc_of(p, s),
                           "the header has '%s' twice", name.text);
        p->seen |= 1 << i;
        return take(p, ':') ? keys[i].parse(p) : malformed(p, "':'");
    }
    return dv_fail(p->diag, DV_E_FORMAT, loc_of(p, s),
                   "the header has the unknown key '%s'", name.text);
}

static dv_status parse_dict(parser *p)
{
    if (!take(p, '{'))
        return malformed(p, "'{'");
    for (int comma = 1; !take(p, '}'); comma = take(p, ',')) {
        if (!comma)
            return malformed(p, "',' or '}'");
        DV_TRY(parse_item(p));
    }
    skip_blanks(p);
    if (p->at < p->end)
        return malformed(p, "nothing after '}'");
    dv_npy_header *h = p->out;
    dv_loc file = {&p->src, DV_FILE};
    for (int i = 0; i < N_KEYS; i++)
        if (!(p->seen >> i & 1))
            return dv_fail(p->diag, DV_E_FORMAT, file, "the header has no '%s'",
                           keys[i].name);
    if (!count_bytes(&h->size_bytes, h->dtype, h->n_dims, h->shape))
        return dv_fail(p->diag, DV_E_FORMAT, file,
                       "the shape has more bytes than fit 64 bits, at most "
                       "%" PRId64 " do",
                       INT64_MAX);
    return DV_OK;
}

static dv_status wrong_magic(const unsigned char *b, dv_loc at, dv_diag *diag)
{
    return dv_fail(diag, DV_E_FORMAT, at,
                   "no .npy file: it starts with %02x %02x %02x %02x %02x "
                   "%02x, not 93 4e 55 4d 50 59",
                   b[0], b[1], b[2], b[3], b[4], b[5]);
}

// Finds the header's Python dict: *begin and *end become its byte range in the
// file.
static dv_status find_dict(const unsigned char *b, size_t len, size_t *begin,
                           size_t *end, dv_loc at, dv_diag *diag)
{
    size_t least = len > 6 && b[6] == 2 ? PREFIX_2 : PREFIX_1;
    if (len >= MAGIC_LEN && memcmp(b, magic, MAGIC_LEN) != 0)
        return wrong_magic(b, at, diag);
    if (len < least)
        return dv_fail(diag, DV_E_FORMAT, at,
                       "the file has %zu bytes, a .npy header at least %zu",
                       len, least);
    if ((b[6] != 1 && b[6] != 2) || b[7] != 0)
        return dv_fail(diag, DV_E_FORMAT, at,
                       "version %d.%d of the .npy format, only 1.0 and 2.0 "
                       "are read",
                       b[6], b[7]);
    uint32_t n = b[8] | (uint32_t)b[9] << 8;
    if (b[6] == 2)
        n |= (uint32_t)b[10] << 16 | (uint32_t)b[11] << 24;
    size_t rest = len - least;
    if (n > rest && len < DV_NPY_MAX_HEAD)
        return dv_fail(diag, DV_E_FORMAT, at,
                       "the header claims %" PRIu32 " bytes, the file has %zu "
                       "left for it",
                       n, rest);
    if (n > DV_NPY_MAX_DICT)
        return dv_fail(diag, DV_E_LIMIT, at,
                       "the header has %" PRIu32 " bytes, at most %d are read",
                       n, DV_NPY_MAX_DICT);
    *begin = least;
    *end = least + n;
    return DV_OK;
}

dv_status dv_npy_parse(const void *bytes, size_t len, dv_npy_header *out,
                       const dv_source *src, dv_diag *diag)
{
    dv_npy_header h = {0};
    const char *text = bytes;
    parser p = {
        .src = {src ? src->name : "", text, len}, .diag = diag, .out = &h};
    size_t begin = 0, end = 0;
    DV_TRY(
        find_dict(bytes, len, &begin, &end, (dv_loc){&p.src, DV_FILE}, diag));
    p.at = text + begin;
    p.end = text + end;
    DV_TRY(parse_dict(&p));
    h.data_off = end;
    *out = h;
    return DV_OK;
}

typedef struct input {
    int fd;
    dv_source src;
    dv_diag *diag;
} input;

// Reads `n` bytes, or fewer if the file ends.
static dv_status read_some(input *in, void *out, size_t n, size_t *got)
{
    for (*got = 0; *got < n;) {
        ssize_t r = read(in->fd, (char *)out + *got, n - *got);
        if (r < 0 && errno == EINTR)
            continue;
        if (r < 0)
            return dv_fail(in->diag, DV_E_FILE, (dv_loc){&in->src, DV_FILE},
                           "cannot read the file: %s", strerror(errno));
        if (r == 0)
            break;
        *got += (size_t)r;
    }
    return DV_OK;
}

static dv_status wrong_size(input *in, int64_t claimed, int64_t has)
{
    return dv_fail(in->diag, DV_E_FORMAT, (dv_loc){&in->src, DV_FILE},
                   "%s: the header promises %" PRId64 " bytes of elements, the "
                   "file has %" PRId64,
                   has < claimed ? "truncated" : "trailing bytes", claimed,
                   has);
}

static dv_status check_type(input *in, const dv_npy_header *h,
                            const char *tensor, dv_dtype dtype, int n_dims,
                            const int64_t *shape)
{
    // .npy has no type for bf16, which is stored as u16: compare the types as
    // stored in files.
    int same = !strcmp(dv_dtype_get(h->dtype)->npy, dv_dtype_get(dtype)->npy) &&
               h->n_dims == n_dims;
    for (int d = 0; same && d < n_dims; d++)
        same = h->shape[d] == shape[d];
    if (same)
        return DV_OK;
    dv_text has = {0}, wants = {0};
    dv_put_type(&has, h->dtype, h->n_dims, h->shape);
    dv_put_type(&wants, dtype, n_dims, shape);
    dv_status s =
        has.failed || wants.failed
            ? dv_nomem(in->diag)
            : dv_fail(in->diag, DV_E_FORMAT, (dv_loc){&in->src, DV_FILE},
                      "the file holds %s, %s wants %s", has.at, tensor,
                      wants.at);
    dv_text_free(&has);
    dv_text_free(&wants);
    return s;
}

static dv_status read_rows(input *in, const dv_npy_header *h, void *data)
{
    size_t n = (size_t)h->size_bytes, got;
    DV_TRY(read_some(in, data, n, &got));
    // If fewer bytes than n were read, the file was truncated after its size
    // was checked.
    return got < n ? wrong_size(in, h->size_bytes, (int64_t)got) : DV_OK;
}

// An iterator over the elements of a file in Fortran order, with the position
// of each in row-major memory.
typedef struct walk {
    int64_t index[DV_MAX_DIMS];
    int64_t stride_elems[DV_MAX_DIMS]; // strides in memory, row-major
    int64_t at_elems;                  // current offset: sum of index * stride
} walk;

static void step(walk *w, const dv_npy_header *h)
{
    for (int d = 0; d < h->n_dims; d++) {
        w->at_elems += w->stride_elems[d];
        if (++w->index[d] < h->shape[d])
            return;
        w->at_elems -= w->index[d] * w->stride_elems[d];
        w->index[d] = 0;
    }
}

static dv_status read_fortran(input *in, const dv_npy_header *h, char *block,
                              char *data)
{
    size_t size = (size_t)dv_dtype_get(h->dtype)->size_bytes, got;
    int64_t stride = 1;
    walk w = {0};
    for (int d = h->n_dims - 1; d >= 0; d--) {
        w.stride_elems[d] = stride;
        stride *= h->shape[d];
    }
    for (int64_t done = 0; done < h->size_bytes; done += (int64_t)got) {
        int64_t left = h->size_bytes - done;
        size_t n = (size_t)dv_min_i64(left, BLOCK_BYTES);
        DV_TRY(read_some(in, block, n, &got));
        if (got < n)
            return wrong_size(in, h->size_bytes, done + (int64_t)got);
        for (size_t i = 0; i < n; i += size) {
            memcpy(data + (size_t)w.at_elems * size, block + i, size);
            step(&w, h);
        }
    }
    return DV_OK;
}

// Reads the header of an open file and checks it against the dtype and shape of
// the tensor.
static dv_status look(input *in, char *head, const char *tensor, dv_dtype dtype,
                      int n_dims, const int64_t *shape, dv_npy_header *h)
{
    struct stat st;
    dv_loc file = {&in->src, DV_FILE};
    if (fstat(in->fd, &st) != 0)
        return dv_fail(in->diag, DV_E_FILE, file, "cannot read the file: %s",
                       strerror(errno));
    // Refuse pipes, because their size cannot be compared with what the header
    // claims.
    if (!S_ISREG(st.st_mode))
        return dv_fail(in->diag, DV_E_FILE, file,
                       "cannot read the file: %s is no regular file",
                       S_ISDIR(st.st_mode) ? "a directory" : "it");
    size_t got;
    DV_TRY(read_some(in, head, DV_NPY_MAX_HEAD, &got));
    DV_TRY(dv_npy_parse(head, got, h, &in->src, in->diag));
    DV_TRY(check_type(in, h, tensor, dtype, n_dims, shape));
    h->dtype = dtype;
    int64_t has = (int64_t)st.st_size - (int64_t)h->data_off;
    return has == h->size_bytes ? DV_OK : wrong_size(in, h->size_bytes, has);
}

static dv_status read_elements(input *in, const dv_npy_header *h, char *head,
                               void *data)
{
    if (lseek(in->fd, (off_t)h->data_off, SEEK_SET) < 0)
        return dv_fail(in->diag, DV_E_FILE, (dv_loc){&in->src, DV_FILE},
                       "cannot read the file: %s", strerror(errno));
    return h->fortran && h->n_dims > 1 ? read_fortran(in, h, head, data)
                                       : read_rows(in, h, data);
}

// Maps the elements into memory if the file has them in row-major order and
// aligned; otherwise copies them.
static dv_status map_elements(input *in, const dv_npy_header *h, char *head,
                              dv_npy_mapped *out)
{
    struct stat st;
    if (fstat(in->fd, &st) != 0)
        return dv_fail(in->diag, DV_E_FILE, (dv_loc){&in->src, DV_FILE},
                       "cannot read the file: %s", strerror(errno));
    *out = (dv_npy_mapped){
        .file = {(int64_t)st.st_dev, (int64_t)st.st_ino, (int64_t)st.st_size,
                 (int64_t)st.st_mtim.tv_sec, (int64_t)st.st_mtim.tv_nsec}};
    size_t bytes = (size_t)st.st_size;
    int as_is = !(h->fortran && h->n_dims > 1) &&
                h->data_off % (size_t)dv_dtype_get(h->dtype)->size_bytes == 0;
    const void *map = as_is ? dv_file_map(in->fd, bytes) : NULL;
    if (map) {
        out->map = map;
        out->map_bytes = bytes;
        out->data = (const char *)map + h->data_off;
        return DV_OK;
    }
    void *copy = dv_alloc_buffer((size_t)h->size_bytes);
    if (!copy)
        return dv_nomem(in->diag);
    out->data = copy;
    dv_status s = read_elements(in, h, head, copy);
    if (s != DV_OK)
        dv_npy_unmap(out);
    return s;
}

void dv_npy_unmap(dv_npy_mapped *m)
{
    if (m->map)
        dv_file_unmap(m->map, m->map_bytes);
    else
        dv_release((void *)(uintptr_t)m->data);
    *m = (dv_npy_mapped){0};
}

// Reads the header of a file, and the elements into `data` or, if that is NULL,
// into `mapped`. If both are NULL, reads the header only.
static dv_status read_file(const char *path, const char *tensor, dv_dtype dtype,
                           int n_dims, const int64_t *shape, dv_npy_header *h,
                           void *data, dv_npy_mapped *mapped, dv_diag *diag)
{
    input in = {-1, {path, "", 0}, diag};
    _Static_assert((int)BLOCK_BYTES <= (int)DV_NPY_MAX_HEAD,
                   "the header's buffer is used for blocks, too");
    char *head = dv_alloc(DV_NPY_MAX_HEAD);
    if (!head)
        return dv_nomem(diag);
    // Without O_NONBLOCK, opening a pipe would wait for its writer; it has no
    // effect on regular files.
    in.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    dv_status s = in.fd < 0
                      ? dv_fail(diag, DV_E_FILE, (dv_loc){&in.src, DV_FILE},
                                "cannot open the file: %s", strerror(errno))
                      : look(&in, head, tensor, dtype, n_dims, shape, h);
    if (s == DV_OK && data)
        s = read_elements(&in, h, head, data);
    else if (s == DV_OK && mapped)
        s = map_elements(&in, h, head, mapped);
    if (in.fd >= 0)
        close(in.fd);
    dv_release(head);
    return s;
}

dv_status dv_npy_map(dv_npy_mapped *out, const char *path, const char *tensor,
                     dv_dtype dtype, int n_dims, const int64_t *shape,
                     dv_diag *diag)
{
    dv_npy_header h;
    return read_file(path, tensor, dtype, n_dims, shape, &h, NULL, out, diag);
}

dv_status dv_npy_read(const char *path, const char *tensor, dv_dtype dtype,
                      int n_dims, const int64_t *shape, void *data,
                      dv_diag *diag)
{
    dv_npy_header h;
    return read_file(path, tensor, dtype, n_dims, shape, &h, data, NULL, diag);
}

dv_status dv_npy_read_header(const char *path, const char *tensor,
                             dv_dtype dtype, int n_dims, const int64_t *shape,
                             dv_npy_header *out, dv_diag *diag)
{
    return read_file(path, tensor, dtype, n_dims, shape, out, NULL, NULL, diag);
}

// Writes the header. It is padded with blanks so that the elements start at a
// multiple of DATA_ALIGN and can be memory-mapped.
void dv_npy_put_header(dv_text *t, dv_dtype dtype, int n_dims,
                       const int64_t *shape)
{
    dv_put_bytes(t, "\x93NUMPY\x01\x00..", PREFIX_1);
    dv_put(t, "{'descr': '%s', 'fortran_order': False, 'shape': (",
           dv_dtype_get(dtype)->npy);
    for (int d = 0; d < n_dims; d++)
        dv_put(t, "%s%" PRId64, d ? ", " : "", shape[d]);
    dv_put(t, "%s), }", n_dims == 1 ? "," : "");
    size_t blanks = DATA_ALIGN - 1 - t->len % DATA_ALIGN;
    dv_put(t, "%*s\n", (int)blanks, "");
    if (t->failed)
        return;
    size_t len = t->len - PREFIX_1;
    t->at[PREFIX_1 - 2] = (char)(len & 255);
    t->at[PREFIX_1 - 1] = (char)(len >> 8);
}

dv_status dv_npy_write(const char *path, dv_dtype dtype, int n_dims,
                       const int64_t *shape, const void *data, dv_diag *diag)
{
    int64_t bytes;
    dv_source src = {path, "", 0};
    if (!count_bytes(&bytes, dtype, n_dims, shape))
        return dv_fail(diag, DV_E_OVERFLOW, (dv_loc){&src, DV_FILE},
                       "the tensor has more bytes than fit 64 bits");
    dv_text head = {0};
    dv_npy_put_header(&head, dtype, n_dims, shape);
    dv_writer *w = NULL;
    dv_status s = head.failed ? dv_nomem(diag) : dv_writer_open(&w, path, diag);
    if (s == DV_OK) {
        dv_writer_put(w, head.at, head.len);
        dv_writer_put(w, data, (size_t)bytes);
        s = dv_writer_commit(w, diag);
    }
    dv_text_free(&head);
    return s;
}
