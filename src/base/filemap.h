// Files that are mapped into memory to be read. The map of a file must not be
// used after the file is shortened.
#ifndef DV_FILEMAP_H
#define DV_FILEMAP_H
#include <stddef.h>

// Maps the first bytes of an open file; NULL if that fails or there are none.
const void *dv_file_map(int fd, size_t bytes);
void dv_file_unmap(const void *map, size_t bytes); // NULL: does nothing
// Releases the pages that lie wholly in this memory if it is in a mapped file.
// The system reads them from the file again if they are used later. Has no
// effect on other memory.
void dv_file_map_drop(const void *at, size_t bytes);
#endif
