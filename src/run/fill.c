#include "base/math.h"
#include "run/data.h"
#include <math.h>

// SplitMix64's finisher: every bit of the input moves every bit of the output.
static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

// The least extent that values of the tensor index anywhere, or 0.
static int64_t index_limit(const dv_program *p, int32_t tensor)
{
    int64_t limit = 0;
    for (int i = 0; i < p->n_ops; i++) {
        const dv_op *op = &p->ops[i];
        for (int r = -1; r < op->n_reads; r++) {
            const dv_access *a = r < 0 ? &op->write : &op->reads[r];
            for (int d = 0; d < a->n_dims; d++) {
                int32_t via = a->index[d].via;
                if (via < 0 || op->reads[via].tensor != tensor)
                    continue;
                int64_t extent = p->tensors[a->tensor].shape[d];
                limit = limit ? dv_min_i64(limit, extent) : extent;
            }
        }
    }
    return limit;
}

void dv_fill(const dv_program *p, int32_t tensor, uint64_t seed, double low,
             double high, void *data)
{
    const dv_tensor *t = &p->tensors[tensor];
    uint64_t key = mix(seed);
    for (const char *c = t->name; *c; c++)
        key = mix(key ^ (unsigned char)*c);
    int64_t limit = dv_is_float(t->dtype) ? 0 : index_limit(p, tensor);
    if (t->dtype == DV_I8 && limit > 128)
        limit = 128;
    for (int64_t i = 0; i < t->n_elems; i++) {
        uint64_t bits = mix(key ^ mix((uint64_t)i));
        double u = (double)(bits >> 11) * 0x1p-53, v; // 0 <= u < 1
        if (dv_is_float(t->dtype))
            v = low + u * (high - low);
        else if (limit)
            v = (double)(bits % (uint64_t)limit);
        else
            v = (double)(bits % 17) - 8;
        dv_store(t->dtype, data, i, v);
    }
}
