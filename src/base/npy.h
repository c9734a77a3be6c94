// Tensors in numpy's .npy files. A file is a prefix, a Python dict as text,
// and the bare elements:
//
//   \x93NUMPY 1 0 <u16 length of the dict>
//   {'descr': '<f4', 'fortran_order': False, 'shape': (4, 8), }
//   4 * 8 little-endian floats
//
// Versions 1.0 and 2.0 are read (2.0 has a u32 for the length), 1.0 is
// written. In memory a tensor is always dense and row-major; a file in
// Fortran's order is turned around while it is read. bf16, which numpy does
// not know, travels as '<u2'.
//
// A file is never believed: what it claims is compared with what it has, and
// every lie is one DV_E_FORMAT that names both numbers.
#ifndef DV_NPY_H
#define DV_NPY_H
#include "base/diag.h"

// Longest dict that is read; a dict of 16 dims has less than 500 bytes.
enum { DV_NPY_MAX_DICT = 65535 };
// So many bytes from the start of a file hold every header that is read.
enum { DV_NPY_MAX_HEAD = 12 + DV_NPY_MAX_DICT };

typedef struct dv_npy_header {
    dv_dtype dtype;
    int n_dims; // 0 for a scalar, whose shape is ()
    int64_t shape[DV_MAX_DIMS];
    int fortran;        // the first dim is the one that varies fastest
    int64_t size_bytes; // of the elements
    size_t data_off;    // where they begin in the file, in bytes
} dv_npy_header;

// Parse a header. `bytes` is the whole file or its first DV_NPY_MAX_HEAD
// bytes. Only the name of `src` is used; positions are those in `bytes`.
dv_status dv_npy_parse(const void *bytes, size_t len, dv_npy_header *out,
                       const dv_source *src, dv_diag *diag);

// Fill `data`, which has exactly the bytes of the shape, from a file that must
// hold this dtype and shape. `tensor` is its name in messages. After a failure
// the contents of `data` are undefined.
dv_status dv_npy_read(const char *path, const char *tensor, dv_dtype dtype,
                      int n_dims, const int64_t *shape, void *data,
                      dv_diag *diag);

// The parts of these, for those who move the elements themselves: read and
// check the header of a file; the header that is written.
dv_status dv_npy_look(const char *path, const char *tensor, dv_dtype dtype,
                      int n_dims, const int64_t *shape, dv_npy_header *out,
                      dv_diag *diag);
struct dv_text;
void dv_npy_put_header(struct dv_text *t, dv_dtype dtype, int n_dims,
                       const int64_t *shape);

dv_status dv_npy_write(const char *path, dv_dtype dtype, int n_dims,
                       const int64_t *shape, const void *data, dv_diag *diag);
#endif
