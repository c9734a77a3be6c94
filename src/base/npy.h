// Reads and writes tensors as numpy's .npy files. A file is a prefix, a Python
// dict as text, and the raw elements:
//
//   \x93NUMPY 1 0 <u16 length of the dict>
//   {'descr': '<f4', 'fortran_order': False, 'shape': (4, 8), }
//   4 * 8 little-endian floats
//
// Versions 1.0 and 2.0 are read (2.0 has a u32 length), 1.0 is written. In
// memory a tensor is always dense and row-major; a file in Fortran order is
// transposed while it is read. bf16, which numpy does not have, is stored as
// '<u2'.
//
// Files are not trusted: every size that the header claims is compared with the
// actual one, and a mismatch is a DV_E_FORMAT error that names both numbers.
#ifndef DV_NPY_H
#define DV_NPY_H
#include "base/diag.h"

// Maximum length of a header's dict (Python text) that is accepted; one with 16
// dims takes less than 500 bytes.
enum { DV_NPY_MAX_DICT = 65535 };
// Number of bytes at the start of a file that are enough to contain any
// accepted header.
enum { DV_NPY_MAX_HEAD = 12 + DV_NPY_MAX_DICT };

typedef struct dv_npy_header {
    dv_dtype dtype;
    int n_dims; // number of dims; 0 for a scalar, whose shape is ()
    int64_t shape[DV_MAX_DIMS];
    int fortran;        // 1 if the first dim varies fastest
    int64_t size_bytes; // bytes of all elements
    size_t data_off;    // offset of the elements in the file
} dv_npy_header;

// Parses a header. `bytes` is the whole file or its first DV_NPY_MAX_HEAD
// bytes. Of `src` only the name is used, for messages; error positions are
// offsets in `bytes`.
dv_status dv_npy_parse(const void *bytes, size_t len, dv_npy_header *out,
                       const dv_source *src, dv_diag *diag);

// Reads a file that must have this dtype and shape into `data`, which has
// exactly the size of the tensor. `tensor` is the name used in messages. After
// a failure the contents of `data` are undefined.
dv_status dv_npy_read(const char *path, const char *tensor, dv_dtype dtype,
                      int n_dims, const int64_t *shape, void *data,
                      dv_diag *diag);

// A tensor that was read from a file. Its elements are the file mapped into
// memory if their layout allows that, otherwise a copy. A mapped file must not
// be truncated while it is used.
typedef struct dv_npy_mapped {
    const void *data;
    const void *map; // the mapping of the file; NULL: `data` is an own copy
    size_t map_bytes;
    // The identity of the file and its contents: device, inode, size in bytes
    // and time of the last change (s, ns).
    int64_t file[5];
} dv_npy_mapped;
dv_status dv_npy_map(dv_npy_mapped *out, const char *path, const char *tensor,
                     dv_dtype dtype, int n_dims, const int64_t *shape,
                     dv_diag *diag);
void dv_npy_unmap(dv_npy_mapped *m);

// For callers that transfer the elements themselves: dv_npy_read_header reads
// and checks the header of a file; dv_npy_put_header writes a header.
dv_status dv_npy_read_header(const char *path, const char *tensor,
                             dv_dtype dtype, int n_dims, const int64_t *shape,
                             dv_npy_header *out, dv_diag *diag);
struct dv_text;
void dv_npy_put_header(struct dv_text *t, dv_dtype dtype, int n_dims,
                       const int64_t *shape);

dv_status dv_npy_write(const char *path, dv_dtype dtype, int n_dims,
                       const int64_t *shape, const void *data, dv_diag *diag);
#endif
