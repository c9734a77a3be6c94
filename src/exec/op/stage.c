#include "exec/op/stage.h"
#include "base/dtype.h"
#include "base/math.h"
#include <string.h>

enum {
    ALIGN_BYTES = 64,
    // Reads whose constant offsets differ by at most this much in each dim
    // share a copy.
    NEAR = 16,
    // The most rows or columns of a window (a small stencil or pooling
    // reduction) whose operands are copied as images.
    MOST_WINDOW = 16,
};
// The most bytes that all copies of one tile may take.
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

static int is_copied(const dv_stage *s, int32_t read)
{
    const dv_flat *f = &s->kernel.reads[read];
    return s->col < 0 ? s->kernel.op->reads[read].has_border
                      : f->coef[s->row] != 0 || f->coef[s->col] != 0;
}

static int group_reads(dv_stage *s, const dv_program *p, dv_arena *arena)
{
    const dv_op *op = s->kernel.op;
    for (int32_t r = 0; r < op->n_reads; r++) {
        int32_t c = 0;
        if (!is_copied(s, r))
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

// Returns the extent in dim d of a copy for boxes with extents `lens` along the
// op's variables; INT64_MAX if that is too large.
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

// Returns how far the read's index in dim d advances per unit of variable v.
static int64_t step_of(const dv_stage_copy *c, int d, int v)
{
    return c->access->index[d].coef[v];
}

// Finds how many copies an image needs (one for each remainder of the row and
// of the column number by the read's step), and the rows and columns of each.
// Returns 0 if the window is too large.
static int find_phases(const dv_stage *s, dv_stage_copy *c, const int64_t *lens)
{
    const dv_op *op = s->kernel.op;
    int col = c->access->n_dims - 1, row = col - 1;
    int64_t one[DV_MAX_VARS], down = step_of(c, row, s->row);
    int64_t right = step_of(c, col, s->col);
    memcpy(one, lens, (size_t)op->n_vars * sizeof *one);
    one[s->row] = one[s->col] = 1;
    int64_t high = extent_of(c, op, row, one);
    int64_t wide = extent_of(c, op, col, one);
    if (high > MOST_WINDOW || wide > MOST_WINDOW)
        return 0;
    c->row_phases = dv_min_i64(down, high);
    c->col_phases = dv_min_i64(right, wide);
    c->rows = lens[s->row] + (high - 1) / down;
    c->cols = lens[s->col] + (wide - 1) / right;
    return 1;
}

// Finds the common row pitch of all images, which is the longest row of any
// copy, and the strides of the buffer of results. *sum is set to the buffer's
// bytes. Returns 0 if it is too large.
static int lay_out_images(dv_stage *s, const int64_t *lens, int64_t *sum)
{
    const dv_op *op = s->kernel.op;
    int64_t n;
    s->pitch = lens[s->col];
    for (int32_t i = 0; i < s->n_copies; i++) {
        if (!find_phases(s, &s->copies[i], lens))
            return 0;
        s->pitch = dv_max_i64(s->pitch, s->copies[i].cols);
    }
    if (!dv_mul_i64(&n, lens[s->row], s->pitch))
        return 0;
    for (int v = op->n_vars - 1; v >= 0; v--) {
        s->result_step[v] = v == s->col ? 1 : 0;
        if (v == s->row || v == s->col || op->vars[v].reduce)
            continue;
        s->result_step[v] = n;
        if (!dv_mul_i64(&n, n, lens[v]))
            return 0;
    }
    if (n > MOST_BYTES / s->result_bytes)
        return 0;
    *sum = dv_round_up(n * s->result_bytes, ALIGN_BYTES);
    return 1;
}

// Lays out the two inner dims (the image) of a copy. Sets *n to their elements
// and *d to the innermost of the other dims. Returns 0 if it is too large.
static int lay_out_image(const dv_stage *s, dv_stage_copy *c, int *d,
                         int64_t *n)
{
    int row = c->access->n_dims - 2;
    c->stride[row] = c->stride[row + 1] = 0;
    *d = row - 1;
    return dv_mul_i64(n, c->rows, s->pitch) &&
           dv_mul_i64(n, *n, c->row_phases * c->col_phases);
}

// Lays out all copies for boxes with extents `lens` along the op's variables.
// Returns their bytes, or INT64_MAX if they are too large.
static int64_t lay_out(dv_stage *s, const int64_t *lens)
{
    int64_t sum = 0;
    if (s->col >= 0 && !lay_out_images(s, lens, &sum))
        return INT64_MAX;
    for (int32_t i = 0; i < s->n_copies; i++) {
        dv_stage_copy *c = &s->copies[i];
        int64_t n = 1;
        c->off_bytes = sum;
        int d = c->access->n_dims - 1;
        if (s->col >= 0 && !lay_out_image(s, c, &d, &n))
            return INT64_MAX;
        for (; d >= 0; d--) {
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

// Halves blocks, along the outermost variables of the result first, until the
// copies for one block fit in `most_bytes`. A variable is left alone if halving
// it saves little, because both halves need nearly the same elements, or if
// rows would get short.
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
    return !op->is_extern && !dv_op_gathers(op) &&
           !dv_access_is_indirect(&op->write);
}

// Creates the copies of a stage, whose variables `row` and `col` are already
// set.
static int create(dv_stage **out, dv_stage *s, const dv_program *p,
                  const dv_kernel *k, const int64_t *lens, int64_t most_bytes,
                  dv_arena *arena)
{
    const dv_op *op = k->op;
    if (!(s->copies = DV_NEW(arena, dv_stage_copy, op->n_reads)))
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

int dv_stage_create(dv_stage **out, const dv_program *p, const dv_kernel *k,
                    const int64_t *lens, int64_t most_bytes, dv_arena *arena)
{
    *out = NULL;
    if (!can_stage(k->op) || !dv_op_has_border(k->op))
        return 1;
    dv_stage *s = DV_NEW(arena, dv_stage, 1);
    if (!s)
        return 0;
    s->row = s->col = -1;
    return create(out, s, p, k, lens, most_bytes, arena);
}

// Finds the variables along the columns and the rows of images: the last one
// that is contiguous in the result, and the one with the next larger stride.
// They are the same for all tiles, even for those with one row or one column.
static int find_image(dv_stage *s, const dv_kernel *k)
{
    const dv_op *op = k->op;
    const int64_t *step = k->write.coef;
    s->row = s->col = -1;
    for (int v = 0; v < op->n_vars; v++)
        if (!op->vars[v].reduce && dv_var_len(op, v) > 1 && step[v] == 1)
            s->col = v;
    for (int v = 0; v < op->n_vars && s->col >= 0; v++)
        if (!op->vars[v].reduce && dv_var_len(op, v) > 1 && step[v] > 1 &&
            (s->row < 0 || step[v] < step[s->row]))
            s->row = v;
    return s->row >= 0;
}

// Returns 1 if a read can be copied as images: its last two dims, and no
// others, are indexed by the row and column variables of the result, with
// positive coefficients, and besides these only by reduced ones. Tile buffers
// of temporaries cannot be: their strides are not those of the tensor.
static int has_image(const dv_stage *s, const dv_program *p, int32_t read)
{
    const dv_op *op = s->kernel.op;
    const dv_access *a = &op->reads[read];
    for (int v = 0; v < op->n_vars; v++)
        if (s->kernel.reads[read].coef[v] != dv_access_step(p, a, v))
            return 0;
    for (int d = 0; d < a->n_dims; d++) {
        int var = d == a->n_dims - 1   ? s->col
                  : d == a->n_dims - 2 ? s->row
                                       : -1;
        if (var >= 0 && a->index[d].coef[var] <= 0)
            return 0;
        for (int v = 0; v < op->n_vars; v++) {
            int may = var < 0 ? v != s->row && v != s->col
                              : v == var || op->vars[v].reduce;
            if (a->index[d].coef[v] && !may)
                return 0;
        }
    }
    return a->n_dims >= 2;
}

// Finds the offset in the copy of a read at which each point of the window
// begins. Points are numbered with the last variable fastest.
static int find_points(dv_stage *s, const dv_stage_copy *c, int32_t read,
                       dv_arena *arena)
{
    const dv_op *op = s->kernel.op;
    const dv_access *a = &op->reads[read];
    const int64_t *outer = s->kernel.reads[read].coef;
    int col = a->n_dims - 1, row = col - 1;
    int64_t n = dv_op_points(op, dv_op_reduce(op)->vars);
    int64_t *points = DV_NEW(arena, int64_t, n);
    if (!points)
        return 0;
    for (int64_t i = 0; i < n; i++) {
        // The row and the column of this window point, counted from the first
        // row and column that the copy has.
        int64_t down = a->index[row].base - c->base[row], left = i;
        int64_t right = a->index[col].base - c->base[col], off = 0;
        for (int v = op->n_vars - 1; v >= 0; v--) {
            if (!op->vars[v].reduce)
                continue;
            int64_t len = dv_var_len(op, v), at = left % len;
            int64_t y = a->index[row].coef[v], x = a->index[col].coef[v];
            left /= len;
            down += y * at - dv_min_i64(y * (len - 1), 0);
            right += x * at - dv_min_i64(x * (len - 1), 0);
            off += outer[v] * (op->vars[v].begin + at);
        }
        int64_t high = step_of(c, row, s->row), wide = step_of(c, col, s->col);
        int64_t copy = down % high * c->col_phases + right % wide;
        points[i] =
            off + (copy * c->rows + down / high) * s->pitch + right / wide;
    }
    s->points[read] = points;
    return 1;
}

int dv_stage_create_images(dv_stage **out, const dv_program *p,
                           const dv_kernel *k, const int64_t *lens,
                           int64_t most_bytes, dv_arena *arena)
{
    *out = NULL;
    const dv_op *op = k->op;
    if (!can_stage(op) || !dv_op_window(p, op) || dv_expr_has_index(op->body))
        return 1;
    dv_stage *s = DV_NEW(arena, dv_stage, 1), *made = NULL;
    if (!s || !(s->points = DV_NEW(arena, const int64_t *, op->n_reads)) ||
        !(s->result_step = DV_NEW(arena, int64_t, op->n_vars)))
        return 0;
    s->result = k->write;
    s->result_bytes =
        dv_dtype_get(p->tensors[op->write.tensor].dtype)->size_bytes;
    if (!find_image(s, k))
        return 1;
    s->kernel = *k;
    for (int32_t r = 0; r < op->n_reads; r++)
        if (is_copied(s, r) && !has_image(s, p, r))
            return 1;
    if (!create(&made, s, p, k, lens, most_bytes, arena))
        return 0;
    if (!made || !s->n_copies)
        return 1;
    for (int32_t i = 0; i < s->n_copies; i++)
        for (int32_t r = 0; r < op->n_reads; r++) {
            if (!s->copies[i].is_read[r])
                continue;
            s->kernel.reads[r].coef[s->col] = 1;
            if (!find_points(s, &s->copies[i], r, arena))
                return 0;
        }
    dv_var *vars = dv_arena_grow(arena, op->vars, (size_t)op->n_vars,
                                 (size_t)op->n_vars, sizeof *op->vars);
    if (!vars)
        return 0;
    vars[s->row].begin = vars[s->col].begin = 0;
    vars[s->row].end = 1;
    vars[s->col].end = (s->block[s->row] - 1) * s->pitch + s->block[s->col];
    s->kernel.write = (dv_flat){0, s->result_step};
    s->image_op = *op;
    s->image_op.vars = vars;
    *out = s;
    return 1;
}

int dv_stage_wants_images(const dv_stage *s, const int64_t *lens)
{
    enum { SHORT_ROW = 64 };
    int has_border = 0;
    if (lens[s->row] == 1 || lens[s->col] == 1)
        return 0;
    for (int32_t i = 0; i < s->n_copies; i++) {
        const dv_access *a = s->copies[i].access;
        int64_t step = step_of(&s->copies[i], a->n_dims - 1, s->col);
        has_border |= a->has_border;
        if (s->block[s->col] > SHORT_ROW / step)
            return 0;
    }
    return has_border;
}

void dv_stage_box(const dv_stage *s, int64_t *begin, int64_t *end)
{
    if (s->col < 0)
        return;
    end[s->col] = (end[s->row] - begin[s->row] - 1) * s->pitch + end[s->col] -
                  begin[s->col];
    begin[s->row] = begin[s->col] = 0;
    end[s->row] = 1;
}

// Sets n elements to the border value, which reads outside of the tensor get.
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

// n rows or columns of an image that a window reads: number i is element
// first + i * step of the tensor's dim. Those with i in begin..end are inside
// the tensor, the others are border.
typedef struct span {
    int64_t first, step, n, begin, end;
} span;

static span span_of(int64_t first, int64_t step, int64_t n, int64_t side)
{
    int64_t begin = first < 0 ? dv_ceil_div(-first, step) : 0;
    int64_t end = first < side ? dv_ceil_div(side - first, step) : 0;
    end = dv_min_i64(end, n);
    begin = dv_min_i64(begin, n);
    return (span){first, step, n, begin, dv_max_i64(end, begin)};
}

// The box of a tensor that is copied: n[d] elements from index lo[d] in dim d,
// some of which may be outside of the tensor.
typedef struct source {
    const char *data; // element 0 of the tensor
    int64_t lo[DV_MAX_DIMS], n[DV_MAX_DIMS];
    // Element counts of a row (along the last dim): before the tensor begins,
    // inside of it, and in all.
    int64_t before, inside, row;
    // For each of the copies of an image, the rows and columns of the tensor
    // that it has.
    span rows[MOST_WINDOW], cols[MOST_WINDOW];
} source;

// Copies one row; in the tensor, the row's index 0 is element `from`.
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

// Copies n bytes, inline by 16-byte vectors unless they are very few or many.
static inline void copy_bytes(unsigned char *to, const char *from, int64_t n)
{
    enum { V = 16, FEW = 16 * V };
    if (n < V || n > FEW) {
        memcpy(to, from, (size_t)n);
        return;
    }
    for (int64_t i = 0; i < n - V; i += V)
        memcpy(to + i, from + i, V);
    memcpy(to + n - V, from + n - V, V);
}

// Copies n elements that are `step` elements apart.
static inline void copy_apart(const dv_stage_copy *c, const char *from,
                              int64_t step, unsigned char *to, int64_t n)
{
    int64_t bytes = c->elem_bytes;
    if (step == 1)
        copy_bytes(to, from, n * bytes);
    else if (bytes == 4 && step == 2)
        for (int64_t i = 0; i < n; i++)
            memcpy(to + 4 * i, from + 8 * i, 4);
    else
        for (int64_t i = 0; i < n; i++)
            memcpy(to + bytes * i, from + bytes * i * step, (size_t)bytes);
}

// Copies every `step`-th float (step is 1 or 2) to a row of at least 16 bytes,
// in whole vectors of which the last may overlap the one before it.
static inline void copy_float_row(const char *from, int64_t step,
                                  unsigned char *to, int64_t bytes)
{
    enum { V = 16 };
    int64_t i = 0, last = bytes - V;
    if (step == 1) {
        for (; i < last; i += V)
            memcpy(to + i, from + i, V);
        memcpy(to + last, from + last, V);
        return;
    }
    for (; i < last; i += V) {
        float x[8];
        memcpy(x, from + 2 * i, sizeof x);
        float y[4] = {x[0], x[2], x[4], x[6]};
        memcpy(to + i, y, V);
    }
    for (int k = 0; k < V; k += 4)
        memcpy(to + last + k, from + 2 * (last + k), 4);
}

// Copies `count` rows of n floats, of which every `step`-th is read and which
// are `down` bytes apart, to rows of `pitch` floats. The gaps between rows get
// the value `border`: they are filled in whole vectors, whose excess the next
// row overwrites.
static void copy_floats(const char *from, int64_t step, int64_t down,
                        int64_t count, int64_t n, unsigned char *to,
                        int64_t pitch, const unsigned char *border)
{
    enum { V = 16 };
    unsigned char gap[V];
    int64_t bytes = n * 4, apart = pitch * 4;
    for (int i = 0; i < V; i += 4)
        memcpy(gap + i, border, 4);
    for (int64_t r = 0; r < count; r++, from += down, to += apart) {
        copy_float_row(from, step, to, bytes);
        for (int64_t i = bytes; r + 1 < count && i < apart; i += V)
            memcpy(to + i, gap, V);
    }
}

// Copies some rows and columns of the image at `from`, whose rows have `side`
// elements in the tensor. In the copy, a gap of border values follows each row.
static void copy_image(const dv_stage_copy *c, const char *from, int64_t side,
                       const span *rows, const span *cols, unsigned char *to)
{
    int64_t bytes = c->elem_bytes, n = cols->n, in = cols->end - cols->begin;
    int64_t count = rows->end - rows->begin;
    if (in <= 0 || count <= 0) {
        put_border(c, to, rows->n * n);
        return;
    }
    put_border(c, to, rows->begin * n + cols->begin);
    to += (rows->begin * n + cols->begin) * bytes;
    from += ((rows->first + rows->begin * rows->step) * side + cols->first +
             cols->begin * cols->step) *
            bytes;
    // copy_floats writes up to one vector past a row, which is safe because the
    // next row has at least one vector.
    int floats = bytes == 4 && in >= 4 && (cols->step == 1 || cols->step == 2);
    for (int64_t r = 0; r < count && !floats; r++) {
        copy_apart(c, from, cols->step, to, in);
        from += rows->step * side * bytes;
        to += in * bytes;
        if (r + 1 < count)
            put_border(c, to, n - in);
        to += (n - in) * bytes;
    }
    if (floats) {
        copy_floats(from, cols->step, rows->step * side * bytes, count, in, to,
                    n, c->border);
        to += count * n * bytes;
    }
    put_border(c, to - (n - in) * bytes,
               (rows->n - rows->end) * n + n - cols->end);
}

// Makes all copies of an image, one for each remainder of the row and column
// numbers (phase). `exists` is 0 if the image is outside of the tensor.
static void copy_phases(const dv_stage *s, const dv_stage_copy *c,
                        const source *x, const char *from, int exists,
                        unsigned char *to)
{
    int64_t side = c->shape[c->access->n_dims - 1];
    int64_t apart = c->rows * s->pitch * c->elem_bytes;
    for (int64_t y = 0; y < c->row_phases; y++)
        for (int64_t i = 0; i < c->col_phases; i++, to += apart)
            if (exists)
                copy_image(c, from, side, &x->rows[y], &x->cols[i], to);
            else
                put_border(c, to, x->rows[y].n * s->pitch);
}

// Finds which rows and columns of the tensor each copy of an image has.
static void set_spans(const dv_stage *s, const dv_stage_copy *c, source *x)
{
    int col = c->access->n_dims - 1, row = col - 1;
    int64_t down = step_of(c, row, s->row), right = step_of(c, col, s->col);
    // x->n[row] rows are read, of which a copy has every `down`-th.
    for (int64_t y = 0; y < c->row_phases; y++)
        x->rows[y] = span_of(x->lo[row] + y, down,
                             dv_ceil_div(x->n[row] - y, down), c->shape[row]);
    for (int64_t i = 0; i < c->col_phases; i++)
        x->cols[i] = span_of(x->lo[col] + i, right, s->pitch, c->shape[col]);
}

// Copies dim `d` and all inner dims of a box as images. `from` is the index of
// the image, counted through the dims before d; `exists` is 0 if it is outside.
static void copy_outer(const dv_stage *s, const dv_stage_copy *c,
                       const source *x, int d, int64_t from, int exists,
                       unsigned char *to)
{
    int row = c->access->n_dims - 2;
    int64_t image = c->shape[row] * c->shape[row + 1] * c->elem_bytes;
    if (d == row) {
        copy_phases(s, c, x, x->data + from * image, exists, to);
        return;
    }
    for (int64_t i = 0; i < x->n[d]; i++, to += c->stride[d] * c->elem_bytes) {
        int64_t index = x->lo[d] + i;
        int in = exists && index >= 0 && index < c->shape[d];
        copy_outer(s, c, x, d + 1, in ? from * c->shape[d] + index : 0, in, to);
    }
}

// Copies dim `d` and all inner dims of a box. `from` is the position in the
// dims before d, as one number; `exists` is 0 if it is outside of the tensor.
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
    if (s->col >= 0) {
        int64_t first = 0;
        for (int v = 0; v < op->n_vars; v++)
            first += v == s->col ? 0 : begin[v] * s->result_step[v];
        // The results come first in `memory`. Their address is moved back, so
        // that indices of the whole tensor address this buffer.
        at[op->n_reads] =
            (void *)((uintptr_t)memory - (uintptr_t)(first * s->result_bytes));
    }
    for (int32_t i = 0; i < s->n_copies; i++) {
        const dv_stage_copy *c = &s->copies[i];
        source x;
        x.data = from[c->first_read];
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
        unsigned char *to = (unsigned char *)memory + c->off_bytes;
        int64_t hi = dv_min_i64(x.lo[d] + x.n[d], c->shape[d]);
        x.before = dv_min_i64(dv_max_i64(-x.lo[d], 0), x.n[d]);
        x.inside = dv_max_i64(hi - x.lo[d] - x.before, 0);
        x.row = x.n[d];
        if (s->col >= 0) {
            set_spans(s, c, &x);
            copy_outer(s, c, &x, 0, 0, 1, to);
        } else {
            copy_dims(c, &x, 0, 0, 1, to);
        }
        // Move the address back, so that indices of the whole tensor address
        // the copy.
        uintptr_t zero = (uintptr_t)to - (uintptr_t)(first * c->elem_bytes);
        for (int32_t r = 0; r < op->n_reads; r++)
            if (c->is_read[r])
                at[r] = (void *)zero;
    }
}

// Copies `count` rows of n bytes, `pitch` bytes apart, to rows without gaps.
// Whole vectors are copied: the next row overwrites the excess,
// and the last row is copied exactly.
static void close_gaps(unsigned char *to, const char *from, int64_t n,
                       int64_t pitch, int64_t count)
{
    enum { V = 16 };
    for (int64_t r = 0; r + 1 < count; r++, to += n, from += pitch)
        for (int64_t i = 0; i < n; i += V)
            memcpy(to + i, from + i, V);
    copy_bytes(to, from, n);
}

void dv_stage_store(const dv_stage *s, const int64_t *begin, const int64_t *end,
                    const void *memory, void *to)
{
    const dv_op *op = s->kernel.op;
    int64_t bytes = s->result_bytes, point[DV_MAX_VARS];
    int v;
    if (s->col < 0)
        return;
    int64_t n = (end[s->col] - begin[s->col]) * bytes;
    memcpy(point, begin, (size_t)op->n_vars * sizeof *point);
    do {
        int64_t from = 0;
        for (v = 0; v < op->n_vars; v++)
            from += (point[v] - begin[v]) * s->result_step[v];
        const char *at = (const char *)memory + from * bytes;
        unsigned char *row =
            (unsigned char *)to + dv_flat_at(&s->result, op, point) * bytes;
        int64_t down = s->result.coef[s->row] * bytes;
        int close = down == n && n >= 16; // a vector ends in the next row
        if (close)
            close_gaps(row, at, n, s->pitch * bytes,
                       end[s->row] - begin[s->row]);
        for (int64_t r = begin[s->row]; r < end[s->row] && !close; r++) {
            copy_bytes(row, at, n);
            at += s->pitch * bytes;
            row += down;
        }
        for (v = op->n_vars - 1; v >= 0; v--) {
            if (v == s->row || v == s->col || op->vars[v].reduce)
                continue;
            if (++point[v] < end[v])
                break;
            point[v] = begin[v];
        }
    } while (v >= 0);
}
