// Files that are mapped into memory to be read. The map of a file must not be
// used after the file is shortened.
#ifndef DV_FILEMAP_H
#define DV_FILEMAP_H
#include <stddef.h>

// Maps the first `bytes` bytes of an open file; NULL if that fails or bytes is
// 0.
const void *dv_file_map(int fd, size_t bytes);
void dv_file_unmap(const void *map, size_t bytes); // NULL: does nothing
// If this memory is in a mapped file, releases the pages that are entirely in
// it. The system reads them from the file again when they are used later. Has
// no effect on other memory.
void dv_file_map_drop(const void *at, size_t bytes);
#endif
