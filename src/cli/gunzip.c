// Reads files that may be compressed by gzip.
#include "base/file.h"
#include "base/mem.h"
#include "base/plural.h"
#include "cli/cli.h"
#include <inttypes.h>
#include <string.h>

// Returns 1 if the bytes begin with those of gzip.
static int is_gzip(const char *at, size_t len)
{
    return len >= 2 && at[0] == '\x1f' && at[1] == '\x8b';
}

#ifdef DV_ZLIB
#include <limits.h>
#include <zlib.h>

// zlib's argument windowBits: the largest window (15), plus 16 to expect gzip's
// header.
#define GZIP_WINDOW (15 + 16)

typedef struct inflated {
    unsigned char *at;
    size_t len, cap; // cap includes a 0 byte at the end
} inflated;

// Enlarges the output buffer, to `most` bytes at most. Returns 0 if out of
// memory.
static int extend(inflated *to, size_t most)
{
    if (to->len + 1 < to->cap)
        return 1;
    size_t cap = to->cap < most / 2 ? 2 * to->cap : most;
    unsigned char *p = dv_realloc(to->at, cap);
    if (!p)
        return 0;
    to->at = p;
    to->cap = cap;
    return 1;
}

// Inflates all members of a gzip file, which may be several in sequence.
static dv_status inflate_all(z_stream *z, inflated *to, size_t len,
                             const dv_source *src, int64_t max_bytes,
                             dv_diag *diag)
{
    const unsigned char *in = (const unsigned char *)src->text;
    size_t at = 0;
    dv_loc whole = {src, DV_FILE};
    for (int end = 0; !end;) {
        if (!extend(to, (size_t)max_bytes + 2))
            return dv_nomem(diag);
        size_t room = to->cap - 1 - to->len, left = len - at;
        z->next_in = (unsigned char *)(uintptr_t)(in + at);
        z->avail_in = left < UINT_MAX ? (uInt)left : UINT_MAX;
        z->next_out = to->at + to->len;
        z->avail_out = room < UINT_MAX ? (uInt)room : UINT_MAX;
        int state = inflate(z, Z_NO_FLUSH);
        if (state == Z_MEM_ERROR)
            return dv_nomem(diag);
        at = (size_t)(z->next_in - in);
        to->len = (size_t)(z->next_out - to->at);
        if ((int64_t)to->len > max_bytes)
            return dv_fail(diag, DV_E_LIMIT, whole,
                           "the file has more than %" PRId64
                           " bytes when it is unpacked",
                           max_bytes);
        if (state == Z_STREAM_END) {
            end = at == len;
            if (!end && !is_gzip(src->text + at, len - at))
                return dv_fail(diag, DV_E_FORMAT, whole,
                               "the gzip file ends at byte %zu, %zu byte%s "
                               "before the end of the file: remove what "
                               "follows",
                               at, len - at, DV_PLURAL(len - at, "", "s"));
            if (!end && inflateReset(z) != Z_OK)
                return dv_nomem(diag);
        } else if (state != Z_OK) {
            return dv_fail(diag, DV_E_FORMAT, whole, "the gzip file is %s",
                           at == len ? "cut off" : "damaged");
        }
    }
    return DV_OK;
}

static dv_status unpack(char **text, size_t *len, const dv_source *src,
                        int64_t max_bytes, dv_diag *diag)
{
    z_stream z = {0};
    inflated to = {.cap = 1 << 16};
    to.at = dv_alloc(to.cap);
    if (!to.at || inflateInit2(&z, GZIP_WINDOW) != Z_OK) {
        dv_release(to.at);
        return dv_nomem(diag);
    }
    dv_status s = inflate_all(&z, &to, *len, src, max_bytes, diag);
    inflateEnd(&z);
    if (s) {
        dv_release(to.at);
        return s;
    }
    to.at[to.len] = 0;
    dv_release(*text);
    *text = (char *)to.at;
    *len = to.len;
    return DV_OK;
}
#else
static dv_status unpack(char **text, size_t *len, const dv_source *src,
                        int64_t max_bytes, dv_diag *diag)
{
    (void)text, (void)len, (void)max_bytes;
    return dv_fail(diag, DV_E_UNSUPPORTED, (dv_loc){src, DV_FILE},
                   "the file is compressed, and divvy was built without zlib: "
                   "unpack it with gunzip");
}
#endif

const char *cli_file_name(const char *path)
{
    return strcmp(path, "-") ? path : "standard input";
}

dv_status cli_read(char **text, size_t *len, const char *path,
                   int64_t max_bytes, dv_diag *diag)
{
    DV_TRY(dv_file_read(text, len, path, max_bytes, diag));
    if (!is_gzip(*text, *len))
        return DV_OK;
    dv_source src = {path, *text, *len};
    dv_status s = unpack(text, len, &src, max_bytes, diag);
    if (s) {
        dv_release(*text);
        *text = NULL;
    }
    return s;
}
