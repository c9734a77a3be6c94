#include "exec/stage.h"
#include "base/dtype.h"
#include "base/math.h"
#include <string.h>

enum {
    ALIGN_BYTES = 64,
    // Reads that are at most this far apart in each dim share a copy.
    NEAR = 16,
};
// Copies of one tile must not take more than this.
#define MOST_BYTES ((int64_t)1 << 30)

static int is_near(const dv_op *op, const dv_stage_copy *c, const dv_access *a)
{
    const dv_access *b = c->access;
    if (a->tensor != b->tensor || memcmp(&a->border, &b->border, 8) != 0)
        return 0;
    for (int d = 0; d < a->n_dims; d++) {
        int64_t apart;
        if (memcmp(a->index[d].coef, b->index[d].coef,
                   (size_t)op->n_vars * sizeof(int64_t)) != 0 ||
            !dv_sub_i64(&apart, a->index[d].base, b->index[d].base) ||
            apart > NEAR || apart < -NEAR)
            return 0;
    }
    return 1;
}

static void add_read(dv_stage_copy *c, const dv_access *a, int32_t read)
{
    c->is_read[read] = 1;
    for (int d = 0; d < a->n_dims; d++) {
        int64_t last = dv_max_i64(c->base[d] + c->spread[d], a->index[d].base);
        c->base[d] = dv_min_i64(c->base[d], a->index[d].base);
        c->spread[d] = last - c->base[d];
    }
}

static int start_copy(dv_stage_copy *c, const dv_program *p, const dv_op *op,
                      int32_t read, dv_arena *arena)
{
    const dv_access *a = &op->reads[read];
    const dv_tensor *t = &p->tensors[a->tensor];
    *c = (dv_stage_copy){.access = a, .first_read = read, .shape = t->shape};
    c->elem_bytes = dv_dtype_get(t->dtype)->size_bytes;
    c->is_read = DV_NEW(arena, uint8_t, op->n_reads);
    if (!c->is_read)
        return 0;
    for (int d = 0; d < a->n_dims; d++)
        c->base[d] = a->index[d].base;
    dv_store(t->dtype, c->border, 0, a->border);
    c->is_read[read] = 1;
    return 1;
}

static int group_reads(dv_stage *s, const dv_program *p, dv_arena *arena)
{
    const dv_op *op = s->kernel.op;
    for (int32_t r = 0; r < op->n_reads; r++) {
        int32_t c = 0;
        if (!op->reads[r].has_border)
            continue;
        while (c < s->n_copies && !is_near(op, &s->copies[c], &op->reads[r]))
            c++;
        if (c < s->n_copies)
            add_read(&s->copies[c], &op->reads[r], r);
        else if (!start_copy(&s->copies[s->n_copies++], p, op, r, arena))
            return 0;
    }
    return 1;
}

// Returns the extent of a copy in dim d for a box of these lengths; INT64_MAX
// if that is too large.
static int64_t extent_of(const dv_stage_copy *c, const dv_op *op, int d,
                         const int64_t *lens)
{
    int64_t n = c->spread[d] + 1, by;
    for (int v = 0; v < op->n_vars; v++) {
        int64_t k = c->access->index[d].coef[v];
        if (k == INT64_MIN || !dv_mul_i64(&by, k < 0 ? -k : k, lens[v] - 1) ||
            !dv_add_i64(&n, n, by))
            return INT64_MAX;
    }
    return n;
}

// Lays out the copies for boxes of these lengths. Returns their bytes, or
// INT64_MAX if they are too large.
static int64_t lay_out(dv_stage *s, const int64_t *lens)
{
    int64_t sum = 0;
    for (int32_t i = 0; i < s->n_copies; i++) {
        dv_stage_copy *c = &s->copies[i];
        int64_t n = 1;
        c->off_bytes = sum;
        for (int d = c->access->n_dims - 1; d >= 0; d--) {
            c->stride[d] = n;
            if (!dv_mul_i64(&n, n, extent_of(c, s->kernel.op, d, lens)))
                return INT64_MAX;
        }
        if (n > MOST_BYTES / c->elem_bytes)
            return INT64_MAX;
        sum += dv_round_up(n * c->elem_bytes, ALIGN_BYTES);
        if (sum > MOST_BYTES)
            return INT64_MAX;
    }
    return sum;
}

// Makes blocks smaller, along the outermost variables of the result first,
// until the copies of one fit. A variable is left alone if half of its values
// need nearly the same elements, or if rows would get short.
static void find_blocks(dv_stage *s, int64_t most_bytes)
{
    enum { LEAST_ROW = 64 };
    const dv_op *op = s->kernel.op;
    int64_t bytes = lay_out(s, s->block);
    for (int v = 0; v < op->n_vars; v++) {
        int64_t least =
            v + 1 < op->n_vars && !op->vars[v + 1].reduce ? 1 : LEAST_ROW;
        while (!op->vars[v].reduce && s->block[v] > least &&
               bytes > most_bytes) {
            int64_t was = s->block[v];
            s->block[v] = dv_ceil_div(was, 2);
            int64_t now = lay_out(s, s->block);
            if (now / 3 > bytes / 4) {
                s->block[v] = was;
                break;
            }
            bytes = now;
        }
    }
    s->bytes = lay_out(s, s->block);
}

static int can_stage(const dv_op *op)
{
    if (op->is_extern || !dv_op_has_border(op) || dv_op_gathers(op) ||
        dv_access_is_indirect(&op->write))
        return 0;
    return 1;
}

int dv_stage_create(dv_stage **out, const dv_program *p, const dv_kernel *k,
                    const int64_t *lens, int64_t most_bytes, dv_arena *arena)
{
    *out = NULL;
    const dv_op *op = k->op;
    if (!can_stage(op))
        return 1;
    dv_stage *s = DV_NEW(arena, dv_stage, 1);
    if (!s || !(s->copies = DV_NEW(arena, dv_stage_copy, op->n_reads)))
        return 0;
    s->kernel = *k;
    if (!group_reads(s, p, arena))
        return 0;
    memcpy(s->block, lens, (size_t)op->n_vars * sizeof *lens);
    if (most_bytes)
        find_blocks(s, most_bytes);
    else
        s->bytes = lay_out(s, s->block);
    if (s->bytes == INT64_MAX)
        return 1;
    s->kernel.reads =
        dv_arena_grow(arena, k->reads, (size_t)op->n_reads, (size_t)op->n_reads,
                      sizeof *s->kernel.reads);
    if (!s->kernel.reads)
        return 0;
    for (int32_t i = 0; i < s->n_copies; i++)
        for (int32_t r = 0; r < op->n_reads; r++) {
            dv_flat *f = &s->kernel.reads[r];
            if (!s->copies[i].is_read[r])
                continue;
            f->coef = DV_NEW(arena, int64_t, op->n_vars);
            if (!f->coef)
                return 0;
            f->base = dv_access_flatten(op, &op->reads[r], s->copies[i].stride,
                                        f->coef);
        }
    *out = s;
    return 1;
}

// Sets n elements to the value outside of the tensor.
static inline void put_border(const dv_stage_copy *c, unsigned char *to,
                              int64_t n)
{
    if (c->elem_bytes == 4)
        for (int64_t i = 0; i < n; i++)
            memcpy(to + 4 * i, c->border, 4);
    else if (c->elem_bytes == 8)
        for (int64_t i = 0; i < n; i++)
            memcpy(to + 8 * i, c->border, 8);
    else if (c->elem_bytes == 2)
        for (int64_t i = 0; i < n; i++)
            memcpy(to + 2 * i, c->border, 2);
    else
        memset(to, c->border[0], (size_t)n);
}

// The box of a tensor that a copy has: n[d] elements from lo[d] in dim d, some
// of which do not exist.
typedef struct source {
    const char *data; // element 0 of the tensor
    int64_t lo[DV_MAX_DIMS], n[DV_MAX_DIMS];
    // The elements of a row (along the last dim): those before the tensor,
    // those inside, and all.
    int64_t before, inside, row;
} source;

// Copies one row, whose elements in the tensor begin at element `from`.
static inline void copy_row(const dv_stage_copy *c, const source *x,
                            int64_t from, unsigned char *to)
{
    int64_t bytes = c->elem_bytes, left = x->before + x->inside;
    int64_t at = (from + x->lo[c->access->n_dims - 1] + x->before) * bytes;
    if (x->before)
        put_border(c, to, x->before);
    memcpy(to + x->before * bytes, x->data + at, (size_t)(x->inside * bytes));
    if (x->row > left)
        put_border(c, to + left * bytes, x->row - left);
}

// Copies dims `d` and inner of the box. `from` is the element number of index
// lo in the outer dims, and `exists` is 0 if one of these is outside.
static void copy_dims(const dv_stage_copy *c, const source *x, int d,
                      int64_t from, int exists, unsigned char *to)
{
    int last = d == c->access->n_dims - 1;
    int64_t side = c->shape[d], step = c->stride[d] * c->elem_bytes;
    if (last && exists && x->inside) {
        copy_row(c, x, from * side, to);
        return;
    }
    if (last) {
        put_border(c, to, x->row);
        return;
    }
    int rows = d == c->access->n_dims - 2;
    for (int64_t i = 0; i < x->n[d]; i++, to += step) {
        int64_t index = x->lo[d] + i;
        int in = exists && index >= 0 && index < side;
        if (rows && in && x->inside)
            copy_row(c, x, (from * side + index) * c->shape[d + 1], to);
        else
            copy_dims(c, x, d + 1, in ? from * side + index : 0, in, to);
    }
}

void dv_stage_fill(const dv_stage *s, const int64_t *begin, const int64_t *end,
                   void *const *from, void *memory, void **at)
{
    const dv_op *op = s->kernel.op;
    int64_t lens[DV_MAX_VARS];
    for (int v = 0; v < op->n_vars; v++)
        lens[v] = end[v] - begin[v];
    for (int32_t i = 0; i < s->n_copies; i++) {
        const dv_stage_copy *c = &s->copies[i];
        source x = {.data = from[c->first_read]};
        int64_t first = 0;
        for (int d = 0; d < c->access->n_dims; d++) {
            x.lo[d] = c->base[d];
            for (int v = 0; v < op->n_vars; v++) {
                int64_t k = c->access->index[d].coef[v];
                x.lo[d] += k * (k < 0 ? end[v] - 1 : begin[v]);
            }
            x.n[d] = extent_of(c, op, d, lens);
            first += x.lo[d] * c->stride[d];
        }
        int d = c->access->n_dims - 1;
        int64_t hi = dv_min_i64(x.lo[d] + x.n[d], c->shape[d]);
        x.before = dv_min_i64(dv_max_i64(-x.lo[d], 0), x.n[d]);
        x.inside = dv_max_i64(hi - x.lo[d] - x.before, 0);
        x.row = x.n[d];
        unsigned char *to = (unsigned char *)memory + c->off_bytes;
        copy_dims(c, &x, 0, 0, 1, to);
        // Moved back, so that indices of the whole tensor address the copy.
        uintptr_t zero = (uintptr_t)to - (uintptr_t)(first * c->elem_bytes);
        for (int32_t r = 0; r < op->n_reads; r++)
            if (c->is_read[r])
                at[r] = (void *)zero;
    }
}
