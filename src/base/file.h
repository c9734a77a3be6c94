// Files: read whole, written whole. A reader never sees half a file.
#ifndef DV_FILE_H
#define DV_FILE_H
#include "base/diag.h"

// Largest program, target or plan text that is read.
#define DV_MAX_TEXT_BYTES ((int64_t)64 << 20)

// Read all of `path` ("-": standard input), NUL-terminated; dv_release it.
dv_status dv_file_read(char **out, size_t *len, const char *path,
                       int64_t max_bytes, dv_diag *diag);

// A file being written beside its final name. Commit renames it into place;
// abort (or a failed commit) leaves nothing behind. What exists and is no
// regular file (a pipe, /dev/stdout) is written directly.
typedef struct dv_writer dv_writer;
dv_status dv_writer_open(dv_writer **out, const char *path, dv_diag *diag);
// Sticky: a failed write makes commit fail.
void dv_writer_put(dv_writer *w, const void *bytes, size_t n);
dv_status dv_writer_commit(dv_writer *w, dv_diag *diag); // frees w
void dv_writer_abort(dv_writer *w);                      // frees w; takes NULL

// Push out what was put and name the file as it is called until the commit,
// for others who write into it; NULL: it is written directly, or failed.
const char *dv_writer_temp(dv_writer *w);
// See to it that the file can have so many bytes, before others write them.
void dv_writer_reserve(dv_writer *w, int64_t size_bytes);
// Remove all files that are being written. For handlers of signals that end
// the process: calls nothing that they may not.
void dv_writers_remove(void);

// Remove what writers of `path` left behind that were killed. Opening one does
// so, too. Files of writers that live are locked and stay.
int dv_writers_clean(const char *path); // 0: no memory

dv_status dv_file_write(const char *path, const char *bytes, size_t n,
                        dv_diag *diag);
#endif
