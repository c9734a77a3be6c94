// Reads any bytes as the start of a .npy file: either it fails with a message,
// or the header is consistent.
#include "fuzz.h"
#include "base/dtype.h"
#include "base/math.h"
#include "base/npy.h"
#include <stdlib.h>

static void must(int holds)
{
    if (!holds)
        abort();
}

static void check(const dv_npy_header *h, size_t size)
{
    must(h->data_off <= size);
    must(h->n_dims >= 0 && h->n_dims <= DV_MAX_DIMS);
    must(h->fortran == 0 || h->fortran == 1);
    int64_t bytes = dv_dtype_get(h->dtype)->size_bytes;
    for (int d = 0; d < h->n_dims; d++) {
        must(h->shape[d] >= 0);
        must(dv_mul_i64(&bytes, bytes, h->shape[d]));
    }
    must(bytes == h->size_bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    dv_source src = {"fuzz.npy", "", 0};
    dv_npy_header h;
    dv_diag *diag = dv_diag_create();
    if (!diag)
        return 0;
    dv_status s = dv_npy_parse(data, size, &h, &src, diag);
    must(s == dv_diag_status(diag));
    must((s == DV_OK) == (dv_diag_text(diag)[0] == 0));
    if (s == DV_OK)
        check(&h, size);
    dv_diag_destroy(diag);
    return 0;
}
