// Reads and writes whole files with POSIX calls (fstat, rename, fsync).
#define _XOPEN_SOURCE   700 // for realpath
#define _DEFAULT_SOURCE     // for flock
#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static dv_status too_large(const dv_source *src, int64_t size, int64_t max,
                           dv_diag *diag)
{
    dv_text a = {0}, b = {0};
    dv_put_byte_size(&a, size);
    dv_put_byte_size(&b, max);
    dv_status s = dv_fail(diag, DV_E_LIMIT, (dv_loc){src, DV_FILE},
                          "the file has %s%s, at most %s are read",
                          size > max + 1 ? "" : "more than ",
                          size > max + 1 && a.at ? a.at
                          : b.at                 ? b.at
                                                 : "",
                          b.at ? b.at : "");
    dv_text_free(&a);
    dv_text_free(&b);
    return s;
}

static dv_status read_all(int fd, char **out, size_t *len, const dv_source *src,
                          int64_t max, dv_diag *diag)
{
    char *buf = NULL;
    size_t n = 0, cap = 0;
    struct stat st;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
        if (st.st_size > max)
            return too_large(src, (int64_t)st.st_size, max, diag);
        // One byte more than the file's size, so that the first read reaches
        // the end of the file.
        cap = (size_t)st.st_size + 1;
    }
    for (;;) {
        if (!buf || n + 1 >= cap) {
            cap = !buf && cap ? cap + 1 : cap ? cap * 2 : 65536;
            char *p = dv_realloc(buf, cap);
            if (!p) {
                dv_release(buf);
                return dv_nomem(diag);
            }
            buf = p;
        }
        ssize_t got = read(fd, buf + n, cap - 1 - n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            dv_release(buf);
            return dv_fail(diag, DV_E_FILE, (dv_loc){src, DV_FILE},
                           "cannot read the file: %s", strerror(errno));
        }
        n += (size_t)got;
        if ((int64_t)n > max) {
            dv_release(buf);
            return too_large(src, max + 1, max, diag);
        }
        if (got == 0)
            break;
    }
    buf[n] = 0;
    *out = buf;
    *len = n;
    return DV_OK;
}

dv_status dv_file_read(char **out, size_t *len, const char *path,
                       int64_t max_bytes, dv_diag *diag)
{
    dv_source src = {path, "", 0};
    if (strcmp(path, "-") == 0)
        return read_all(0, out, len, &src, max_bytes, diag);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return dv_fail(diag, DV_E_FILE, (dv_loc){&src, DV_FILE},
                       "cannot open the file: %s", strerror(errno));
    dv_status s = read_all(fd, out, len, &src, max_bytes, diag);
    close(fd);
    return s;
}

struct dv_writer {
    FILE *file;
    // Names of the file and of the temporary file that is written first (NULL
    // if the file is written directly); both are owned.
    char *path, *temp;
    int error; // errno of the first failure
};

// Names of temporary files, for signal handlers, which have no other way to
// find them. Names beyond MAX_PENDING are not removed by a signal.
enum { MAX_PENDING = 32 };
static _Atomic(const char *) pending[MAX_PENDING];

static void remember(const char *temp)
{
    for (int i = 0; i < MAX_PENDING; i++) {
        const char *none = NULL;
        if (atomic_compare_exchange_strong(&pending[i], &none, temp))
            return;
    }
}

static void forget(const char *temp)
{
    for (int i = 0; i < MAX_PENDING; i++) {
        const char *same = temp;
        if (atomic_compare_exchange_strong(&pending[i], &same, NULL))
            return;
    }
}

void dv_writers_remove_temps(void)
{
    for (int i = 0; i < MAX_PENDING; i++) {
        const char *temp = atomic_exchange(&pending[i], NULL);
        if (temp)
            unlink(temp);
    }
}

static void writer_free(dv_writer *w)
{
    if (w->temp)
        forget(w->temp);
    dv_release(w->path);
    dv_release(w->temp);
    dv_release(w);
}

static char *joined(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    char *p = dv_alloc(n + m + 1);
    if (p) {
        memcpy(p, a, n);
        memcpy(p + n, b, m + 1);
    }
    return p;
}

static dv_status cannot_write(const char *path, int error, dv_diag *diag)
{
    dv_source src = {path, "", 0};
    return dv_fail(diag, DV_E_OUTPUT, (dv_loc){&src, DV_FILE},
                   "cannot write the file: %s", strerror(error));
}

// The name of a temporary file is the final name, this suffix, eight random hex
// digits, and a checksum of all of that in eight hex digits. The checksum tells
// the leftover of a killed writer from a user's file with a similar name.
static const char suffix[] = ".divvy-";
enum { RANDOM_LEN = 8, TEMP_LEN = sizeof suffix - 1 + 2 * RANDOM_LEN };

// Computes the checksum that ends the name of a temporary file: a hash (FNV-1a)
// of the name's first n characters.
static void complete_name(const char *name, size_t n, char out[RANDOM_LEN + 1])
{
    uint32_t h = 0x811c9dc5u;
    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)name[i]) * 0x01000193u;
    snprintf(out, RANDOM_LEN + 1, "%08x", (unsigned)h);
}

// Returns whether `name` is that of a temporary file of `base`.
static int is_temp_name(const char *name, const char *base)
{
    size_t n = strlen(base), made = n + TEMP_LEN - RANDOM_LEN;
    char digits[RANDOM_LEN + 1];
    if (strlen(name) != n + TEMP_LEN || memcmp(name, base, n) != 0 ||
        memcmp(name + n, suffix, sizeof suffix - 1) != 0)
        return 0;
    complete_name(name, made, digits);
    return strcmp(name + made, digits) == 0;
}

// Locks a temporary file, which tells other processes that its writer is alive.
// Does nothing on file systems without locks. Returns 0 if another process
// removed the file first.
static int lock_temp(int fd)
{
    struct stat st;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0)
        return errno != EWOULDBLOCK;
    return fstat(fd, &st) == 0 && st.st_nlink > 0;
}

// Like mkstemp, but a signal that ends the process removes the file, and its
// permissions are those of a plain open. (Setting them after mkstemp would
// require the umask, which can only be read by changing it for all threads.)
static int open_temp(char *temp)
{
    char *slash = strrchr(temp, '/'), *base = slash ? slash + 1 : temp;
    char *x = temp + strlen(temp) - 2 * RANDOM_LEN;
    uint64_t seed = (uint64_t)getpid() << 32 ^ (uintptr_t)temp;
    int fd = -1;
    for (int i = 0; i < 1000; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        snprintf(x, RANDOM_LEN + 1, "%08x", (unsigned)(seed >> 32));
        complete_name(base, (size_t)(x + RANDOM_LEN - base), x + RANDOM_LEN);
        // Register the name before creating the file, so that a signal in
        // between cannot leave it behind.
        remember(temp);
        fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 && errno != EEXIST)
            break;
        if (fd >= 0 && lock_temp(fd))
            break;
        forget(temp);
        if (fd >= 0)
            close(fd);
        fd = -1;
        errno = EEXIST;
    }
    return fd;
}

static void remove_dead(const char *temp)
{
    int fd = open(temp, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
        unlink(temp);
    if (fd >= 0)
        close(fd);
}

int dv_writers_remove_stale(const char *path)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    size_t dir_len = (size_t)(base - path);
    char *dir = dv_alloc(dir_len + 2);
    int ok = 1;
    if (!dir)
        return 0;
    memcpy(dir, path, dir_len);
    memcpy(dir + dir_len, ".", 2);
    DIR *d = opendir(dir);
    dir[dir_len] = 0;
    for (const struct dirent *e; ok && d && (e = readdir(d));) {
        if (!is_temp_name(e->d_name, base))
            continue;
        char *temp = joined(dir, e->d_name);
        ok = temp != NULL;
        if (ok)
            remove_dead(temp);
        dv_release(temp);
    }
    if (d)
        closedir(d);
    dv_release(dir);
    return ok;
}

// Returns the target of a dangling symbolic link; NULL if path is not a link.
static char *link_target(const char *path)
{
    char to[4096];
    ssize_t n = readlink(path, to, sizeof to - 1);
    if (n <= 0)
        return NULL;
    to[n] = 0;
    const char *slash = strrchr(path, '/');
    if (to[0] == '/' || !slash)
        return joined(to, "");
    char *dir = joined(path, "");
    if (dir)
        dir[slash - path + 1] = 0;
    char *whole = dir ? joined(dir, to) : NULL;
    dv_release(dir);
    return whole;
}

dv_status dv_writer_open(dv_writer **out, const char *path, dv_diag *diag)
{
    dv_writer *w = dv_alloc(sizeof *w);
    if (!w)
        return dv_nomem(diag);
    *w = (dv_writer){0};
    // Resolve symbolic links first, because a rename would replace the link.
    char *real = realpath(path, NULL);
    char *link = real ? NULL : link_target(path);
    w->path = joined(real ? real : link ? link : path, "");
    free(real);
    dv_release(link);
    struct stat st;
    int direct = stat(path, &st) == 0 && !S_ISREG(st.st_mode);
    if (!direct)
        w->temp = w->path ? joined(w->path, ".divvy-0123456701234567") : NULL;
    if (!w->path ||
        (!direct && (!w->temp || !dv_writers_remove_stale(w->path)))) {
        writer_free(w);
        return dv_nomem(diag);
    }
    int fd = direct ? open(path, O_WRONLY | O_CLOEXEC) : open_temp(w->temp);
    // The new file gets the permissions of the one it replaces, if the system
    // allows that.
    if (fd >= 0 && !direct && stat(path, &st) == 0 &&
        fchmod(fd, st.st_mode & 07777) != 0)
        errno = 0;
    w->file = fd >= 0 ? fdopen(fd, "wb") : NULL;
    if (!w->file) {
        int error = errno;
        if (fd >= 0) {
            close(fd);
            if (!direct)
                unlink(w->temp);
        }
        writer_free(w);
        return cannot_write(path, error, diag);
    }
    *out = w;
    return DV_OK;
}

const char *dv_writer_temp(dv_writer *w)
{
    if (fflush(w->file) != 0 && !w->error)
        w->error = errno;
    return w->error ? NULL : w->temp;
}

void dv_writer_reserve(dv_writer *w, int64_t size_bytes)
{
    if (!dv_writer_temp(w))
        return;
    int error = posix_fallocate(fileno(w->file), 0, (off_t)size_bytes);
    // If the file system cannot reserve space, at least set the file's size.
    if ((error == EINVAL || error == EOPNOTSUPP) &&
        ftruncate(fileno(w->file), (off_t)size_bytes) == 0)
        error = 0;
    w->error = error;
}

void dv_writer_put(dv_writer *w, const void *bytes, size_t n)
{
    if (!w->error && n && fwrite(bytes, 1, n, w->file) != n)
        w->error = errno ? errno : EIO;
}

dv_status dv_writer_commit(dv_writer *w, dv_diag *diag)
{
    if (fflush(w->file) != 0 && !w->error)
        w->error = errno;
    if (!w->error && w->temp && fsync(fileno(w->file)) != 0)
        w->error = errno;
    // Keep the lock on the temporary file after fclose, until it is renamed.
    int lock = w->temp ? dup(fileno(w->file)) : -1;
    if (fclose(w->file) != 0 && !w->error)
        w->error = errno;
    if (!w->error && w->temp && rename(w->temp, w->path) != 0)
        w->error = errno;
    if (lock >= 0)
        close(lock);
    dv_status s = DV_OK;
    if (w->error) {
        if (w->temp)
            unlink(w->temp);
        s = cannot_write(w->path, w->error, diag);
    }
    writer_free(w);
    return s;
}

void dv_writer_abort(dv_writer *w)
{
    if (!w)
        return;
    fclose(w->file);
    if (w->temp)
        unlink(w->temp);
    writer_free(w);
}

// Returns the absolute path of a file that need not exist, with symbolic links
// resolved; NULL if its folder does not exist either, or out of memory.
static char *resolve(const char *path, int depth)
{
    char *real = realpath(path, NULL);
    char *link = real || depth == 0 ? NULL : link_target(path);
    char *out = NULL;
    if (real || link) {
        out = real ? joined(real, "") : resolve(link, depth - 1);
        free(real);
        dv_release(link);
        return out;
    }
    const char *slash = strrchr(path, '/');
    char *dir = joined(slash ? path : ".", "");
    if (dir && slash)
        dir[slash - path + 1] = 0;
    real = dir ? realpath(dir, NULL) : NULL;
    char *folder = real ? joined(real, "/") : NULL;
    if (folder)
        out = joined(folder, slash ? slash + 1 : path);
    free(real);
    dv_release(dir);
    dv_release(folder);
    return out;
}

int dv_file_same(const char *a, const char *b)
{
    struct stat s, t;
    if (!strcmp(a, b))
        return 1;
    if (stat(a, &s) == 0 && stat(b, &t) == 0)
        return s.st_dev == t.st_dev && s.st_ino == t.st_ino &&
               S_ISREG(s.st_mode);
    char *x = resolve(a, 8), *y = resolve(b, 8);
    int same = x && y && !strcmp(x, y);
    dv_release(x);
    dv_release(y);
    return same;
}

dv_status dv_file_write(const char *path, const char *bytes, size_t n,
                        dv_diag *diag)
{
    dv_writer *w;
    DV_TRY(dv_writer_open(&w, path, diag));
    dv_writer_put(w, bytes, n);
    return dv_writer_commit(w, diag);
}
