// Files are read and written as a whole. A reader never sees a partially
// written file.
#ifndef DV_FILE_H
#define DV_FILE_H
#include "base/diag.h"

// Maximum size of a program, target or plan text.
#define DV_MAX_TEXT_BYTES ((int64_t)64 << 20)

// Reads all of `path` ("-" is standard input) into a NUL-terminated buffer that
// the caller frees with dv_release.
dv_status dv_file_read(char **out, size_t *len, const char *path,
                       int64_t max_bytes, dv_diag *diag);

// A writer writes a temporary file next to the final one. Commit renames it to
// the final name; abort (or a failed commit) removes it. If the path exists and
// is not a regular file (a pipe, /dev/stdout), it is written directly.
typedef struct dv_writer dv_writer;
dv_status dv_writer_open(dv_writer **out, const char *path, dv_diag *diag);
// Appends bytes. Errors are remembered: after a failed write, commit fails.
void dv_writer_put(dv_writer *w, const void *bytes, size_t n);
dv_status dv_writer_commit(dv_writer *w, dv_diag *diag); // frees the writer w
void dv_writer_abort(dv_writer *w); // frees the writer w, which may be NULL

// Flushes the writer and returns the name of its temporary file, so that other
// processes can write into it; NULL if there is no temporary file, because the
// path is written directly, or if a write failed.
const char *dv_writer_temp(dv_writer *w);
// Allocates disk space for size_bytes before other processes write to the file.
void dv_writer_reserve(dv_writer *w, int64_t size_bytes);
// Removes all temporary files of this process. It is async-signal-safe, for
// handlers of signals that terminate the process.
void dv_writers_remove_temps(void);

// Removes temporary files of `path` left by writers that were killed; opening a
// writer does this too. Files of live writers are locked and are kept. Returns
// 0 if out of memory.
int dv_writers_remove_stale(const char *path);

// Returns whether two paths name one regular file, however they are spelled.
// The files need not exist yet.
int dv_file_same(const char *a, const char *b);

dv_status dv_file_write(const char *path, const char *bytes, size_t n,
                        dv_diag *diag);
#endif
