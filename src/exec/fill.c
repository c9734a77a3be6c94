// Generates input tensors from a seed; exec.h describes the values.
#include "base/math.h"
#include "base/random.h"
#include "dist/dist.h"
#include "exec/exec.h"
#include <math.h>

// Returns the largest n such that index values 0 to n - 1 keep an indirect
// index inside dim d of the accessed tensor; at least 1.
static int64_t values_inside(const dv_program *p, const dv_op *op,
                             const dv_access *a, int d)
{
    const dv_index *x = &a->index[d];
    int64_t extent = p->tensors[a->tensor].shape[d], lo, hi;
    if (a->has_border || !dv_index_bounds(op, x, NULL, &lo, &hi))
        return extent;
    int64_t room = x->factor > 0 ? extent - 1 - hi : lo;
    int64_t step = x->factor > 0 ? x->factor : -x->factor;
    return dv_max_i64(room, 0) / step + 1;
}

// Returns the number n such that all accesses indexed by this tensor's values
// stay valid for values 0 to n - 1; 0 if the tensor is not used as an index.
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
                int64_t n = values_inside(p, op, a, d);
                limit = limit ? dv_min_i64(limit, n) : n;
            }
        }
    }
    return limit;
}

// Stores elements `from` .. `from` + n of the tensor to data[0] .. data[n - 1].
static void fill_run(const dv_tensor *t, uint64_t key, int64_t limit,
                     double low, double high, int64_t from, int64_t n,
                     void *data)
{
    for (int64_t i = 0; i < n; i++) {
        uint64_t bits = dv_mix(key ^ dv_mix((uint64_t)(from + i)));
        double u = (double)(bits >> 11) * 0x1p-53, v; // 0 <= u < 1
        if (dv_is_float(t->dtype))
            v = low + u * (high - low);
        else if (limit)
            v = (double)(bits % (uint64_t)limit);
        else
            v = (double)(bits % 17) - (dv_int_least(t->dtype) ? 8 : 0);
        dv_store(t->dtype, data, i, v);
    }
}

static uint64_t key_of(const dv_program *p, int32_t tensor, uint64_t seed,
                       int64_t *limit)
{
    const dv_tensor *t = &p->tensors[tensor];
    uint64_t key = dv_mix(seed);
    for (const char *c = t->name; *c; c++)
        key = dv_mix(key ^ (unsigned char)*c);
    *limit = dv_is_float(t->dtype) ? 0 : index_limit(p, tensor);
    if (*limit > 0 && *limit - 1 > dv_int_most(t->dtype))
        *limit = dv_int_most(t->dtype) + 1;
    return key;
}

void dv_fill(const dv_program *p, int32_t tensor, uint64_t seed, double low,
             double high, void *data)
{
    int64_t limit;
    uint64_t key = key_of(p, tensor, seed, &limit);
    fill_run(&p->tensors[tensor], key, limit, low, high, 0,
             p->tensors[tensor].n_elems, data);
}

void dv_fill_box(const dv_program *p, int32_t tensor, uint64_t seed, double low,
                 double high, const dv_box *box, const dv_box *in, void *data)
{
    const dv_tensor *t = &p->tensors[tensor];
    dv_box all = dv_box_whole(t->n_dims, t->shape);
    int64_t limit, bytes = dv_dtype_get(t->dtype)->size_bytes;
    uint64_t key = key_of(p, tensor, seed, &limit);
    for (dv_box_row r = dv_box_first_row(box); r.n; dv_box_next_row(&r, box))
        fill_run(t, key, limit, low, high, dv_box_offset(&all, r.at), r.n,
                 (char *)data + dv_box_offset(in, r.at) * bytes);
}
