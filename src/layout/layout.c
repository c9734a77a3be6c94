// Makes layouts (orders of a tensor's elements in memory), and computes
// positions of elements in them.
#include "layout/layout.h"
#include "base/math.h"

int64_t dv_device_bytes(const dv_target *t, dv_dtype dtype)
{
    if (dtype == DV_I64)
        return t->i64_size_bytes;
    return dv_dtype_get(dtype)->size_bytes;
}

int64_t dv_stick_elems(const dv_target *t, dv_dtype dtype)
{
    return t->stick_bytes / dv_device_bytes(t, dtype);
}

// A dim of a layout under construction: the dim of the tensor that it is made
// from (-1 if none) and its size.
typedef struct part {
    int32_t host;
    int64_t size;
} part;

// The dims of a layout under construction, outermost first. A dim of the tensor
// that is divided into blocks occurs more than once; the sizes of its outer
// occurrences are 0 until they are computed (fill).
typedef struct parts {
    part at[DV_MAX_DEVICE_DIMS];
    int32_t n;
} parts;

static void add(parts *p, int32_t host, int64_t size)
{
    p->at[p->n++] = (part){host, size};
}

static int32_t order_at(const dv_layout_spec *s, int32_t i)
{
    return s->order ? s->order[i] : i;
}

// Lists the dims of a layout in sticks (units of the target's memory) for a
// tensor with dims o0 .. o(r-1): o1, …, o(r-1), o0, and the stick, which is the
// innermost dim o(r-1) again, or none if each stick holds one element only
// (sparse).
static void stick_parts(parts *p, const dv_layout_spec *s, int64_t eps)
{
    int32_t r = s->n_dims;
    for (int32_t i = 1; i < r; i++)
        add(p, order_at(s, i), 0);
    if (s->sparse && r > 0)
        add(p, -1, 1);
    add(p, r > 0 ? order_at(s, 0) : -1, r > 0 ? 0 : 1);
    add(p, s->sparse || r == 0 ? -1 : order_at(s, r - 1), eps);
}

// Lists the dims of a tiled layout: one for each dim of the tensor, which
// counts tiles, then the rows and columns inside a tile.
static void tile_parts(parts *p, const dv_layout_spec *s, int64_t rows,
                       int64_t cols)
{
    int32_t r = s->n_dims;
    for (int32_t i = 0; i < r; i++)
        add(p, order_at(s, i), 0);
    add(p, r >= 2 ? order_at(s, r - 2) : -1, rows);
    add(p, r >= 1 ? order_at(s, r - 1) : -1, cols);
}

static void row_parts(parts *p, const dv_layout_spec *s)
{
    for (int32_t i = 0; i < s->n_dims; i++)
        add(p, order_at(s, i), 0);
}

// Computes sizes and strides of the layout's dims, innermost first: the
// innermost occurrence of a dim of the tensor has that dim's stride in the
// row-major tensor, the next one steps over all elements of the inner one.
static int fill(dv_layout *l, const parts *p, const dv_layout_spec *s)
{
    int64_t host[DV_MAX_DIMS], block[DV_MAX_DIMS], elems = 1;
    int64_t stride = 1;
    for (int32_t d = s->n_dims - 1; d >= 0; d--) {
        host[d] = stride;
        block[d] = 1;
        if (!dv_mul_i64(&stride, stride, s->shape[d]))
            return 0;
    }
    l->n_dims = p->n;
    for (int32_t i = p->n - 1; i >= 0; i--) {
        int32_t h = p->at[i].host;
        l->host[i] = h;
        l->size[i] = p->at[i].size;
        l->stride[i] = -1;
        if (h >= 0) {
            if (l->size[i] == 0)
                l->size[i] = dv_ceil_div(s->shape[h], block[h]);
            if (s->shape[h] > 1 &&
                !dv_mul_i64(&l->stride[i], host[h], block[h]))
                return 0;
            if (!dv_mul_i64(&block[h], block[h], l->size[i]))
                return 0;
        }
        if (!dv_mul_i64(&elems, elems, l->size[i]))
            return 0;
    }
    l->n_elems = elems;
    return dv_mul_i64(&l->bytes, elems, l->elem_bytes);
}

int dv_layout_make(dv_layout *out, const dv_target *t, dv_dtype dtype,
                   const dv_layout_spec *spec)
{
    parts p = {.n = 0};
    dv_layout l = {.elem_bytes = dv_device_bytes(t, dtype), .stick_dim = -1};
    if (spec->n_dims + 2 > DV_MAX_DEVICE_DIMS)
        return 0;
    if (t->tile_rows) {
        tile_parts(&p, spec, t->tile_rows, t->tile_cols);
        l.eps = t->tile_cols;
        l.n_inner = 2;
    } else if (t->sticks) {
        l.eps = dv_stick_elems(t, dtype);
        stick_parts(&p, spec, l.eps);
        l.n_inner = 1;
    } else {
        l.eps = 1;
        row_parts(&p, spec);
    }
    l.sparse = spec->sparse != 0;
    if (spec->n_dims > 0 && !spec->sparse && l.eps > 1)
        l.stick_dim = order_at(spec, spec->n_dims - 1);
    if (!fill(&l, &p, spec))
        return 0;
    *out = l;
    return 1;
}

// Returns the offset of an element in the target's memory. Each index of the
// element is decomposed into digits, one per dim of the layout that its dim
// occurs in, the innermost being the least significant.
int64_t dv_layout_offset(const dv_layout *l, const int64_t *at)
{
    int64_t rest[DV_MAX_DIMS], place = 0, weight = 1;
    for (int32_t i = 0; i < l->n_dims; i++)
        if (l->host[i] >= 0)
            rest[l->host[i]] = at[l->host[i]];
    for (int32_t i = l->n_dims - 1; i >= 0; i--) {
        int32_t h = l->host[i];
        if (h >= 0) {
            place += rest[h] % l->size[i] * weight;
            rest[h] /= l->size[i];
        }
        weight *= l->size[i];
    }
    return place;
}
