// Generates all kernels and moves (functions that pack or unpack a block) that
// a run of a contraction can need.
#include "base/dtype.h"
#include "base/math.h"
#include "contract/state.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_STEP = DV_FORM_MAX_STEP, CHUNK = 8 };

static int n_ways(const dv_contraction *c)
{
    return c->k_tails[1] >= 0 ? 4 : c->k_tails[0] >= 0 ? 2 : 1;
}

static int64_t stride_of(const dv_contraction *c, int dim, int operand)
{
    return c->n.dims[dim].stride[operand];
}

// Returns whether an operand is so large that it is read from memory or from
// L3.
static int is_far(const dv_contraction *c, int operand)
{
    int64_t lo, hi;
    return dv_nest_extent(&c->n, operand, &lo, &hi) &&
           hi - lo >= CT_COMMON_L3 / 4 / c->es;
}

// Returns whether kernels read their rows in place from memory, transposed, and
// therefore prefetch the rows that follow.
static int asks(const dv_contraction *c)
{
    const dv_nest_form *f = &c->form;
    return f->pack[f->in_row] == DV_FORM_NEVER && f->row_transposed &&
           !f->col_transposed && is_far(c, f->in_row);
}

// Returns whether the stride between micro-tiles (register tiles) of packed
// results exceeds the kernel's addressing, if the buffer has all iterations of
// loops with unit stride in the output between two micro-tiles.
static int is_too_far(const dv_contraction *c, int64_t tile)
{
    for (int l = 0; l < c->n_loops && tile < MAX_STEP; l++)
        if (c->n.dims[l].stride[DV_OUT] == 1 &&
            !dv_mul_i64(&tile, tile, c->n.dims[l].size))
            return 1;
    return tile >= MAX_STEP - 64;
}

// Decides whether kernels read their rows from a block in L1 that the previous
// kernel call has filled. This is done if the rows of k are on more pages than
// the TLB holds. Results are then packed by micro-tiles, with those that make
// up a line of the output next to each other.
void ct_choose_copy_ahead(dv_contraction *c, const dv_isa *isa,
                          const dv_contract_options *o)
{
    const dv_nest_form *f = &c->form;
    int64_t l1 = o->l1_bytes ? o->l1_bytes : isa->l1_bytes;
    int64_t most =
        c->as ? c->as->stages ? INT64_MAX : -1 : dv_form_max_row_block(l1);
    if (!asks(c) || f->n_k != 1 || !c->panels || c->on_way ||
        f->pack[DV_OUT] == DV_FORM_NEVER || c->row.rest || c->k[0].rest ||
        c->col.rest || c->cols[0].n != 1 || c->cols[0].count[0] != 1 ||
        !dv_form_exceeds_tlb(
            (double)c->k[0].size,
            (double)(stride_of(c, f->k[0], f->in_row) * c->es)))
        return;
    int64_t bytes = c->row.size * c->k[0].size * c->es;
    dv_gemm_shape s = {.m = (int32_t)c->row.size,
                       .n = (int32_t)c->col.size,
                       .k = (int32_t)c->k[0].size,
                       .ldb = dv_round_up(c->col.size, c->lanes),
                       .dtype = (uint8_t)c->n.dtype,
                       .trans_a = 1};
    if (bytes <= most && dv_isa_copies_next(isa, &s) &&
        !is_too_far(c, s.ldb * isa->copy_tile_rows)) {
        c->ahead_bytes = dv_round_up(bytes, 64);
        c->tile_rows = isa->copy_tile_rows;
    }
}

int64_t ct_ldc(const dv_contraction *c)
{
    const dv_nest_form *f = &c->form;
    if (f->pack[DV_OUT] != DV_FORM_NEVER)
        return dv_round_up(c->col.size, c->lanes);
    if (f->row < 0 || c->row.size == 1)
        return 0;
    return stride_of(c, f->row, DV_OUT);
}

// Merges the innermost loop into the kernel: one call then takes all iterations
// of the innermost loop as rows, if these are contiguous both in their packing
// buffer and in the output. With a short k (the summed dimension) this is done
// only if there is one panel of columns: several would each write a part of
// every row, and the parts of many rows would not stay in L1 until a row is
// complete.
void ct_merge_inner_loop(dv_contraction *c)
{
    const dv_nest_form *f = &c->form;
    int one_panel = c->col.size <= (int64_t)c->panel_vectors * c->lanes;
    if (!c->n_loops || (!one_panel && c->k_size[0] < DV_FORM_LONG_K))
        return;
    const ct_loop *p = &c->loops[c->n_loops - 1];
    if (p->pack || c->on_way || f->row < 0 || f->col_transposed ||
        c->row.rest || c->k_tails[0] >= 0 ||
        f->pack[f->in_row] == DV_FORM_NEVER || c->row.size % c->panel_rows ||
        p->step[f->in_col] || (p->whole && p->whole % (p->size * p->unit)))
        return;
    // If both strides equal the size of a block, they are strides of a buffer,
    // whose size is limited, so that these products do not overflow.
    if (p->step[f->in_row] == c->row.size * c->k_size[0] * c->es &&
        p->step[DV_OUT] / c->es == c->row.size * ct_ldc(c) &&
        c->row.size * p->size < INT32_MAX / 64) {
        c->at_once = (int32_t)p->size;
        c->n_loops--;
    }
}

// Sets how the kernel reads the rows' operand: packed, copied by the previous
// call, transposed or in place.
static void set_rows(const dv_contraction *c, dv_gemm_shape *s)
{
    const dv_nest_form *f = &c->form;
    int k = f->n_k ? f->k[f->n_k - 1] : -1;
    if (f->pack[f->in_row] != DV_FORM_NEVER) {
        s->trans_a = 1;
        s->panel_a = (uint8_t)(f->col_transposed ? 0 : c->panel_rows);
        s->lda = 0; // packed tight: as wide as the panel
    } else if (c->ahead_bytes) {
        s->trans_a = 1;
        s->ahead_a = DV_AHEAD_COPY;
        s->lda = stride_of(c, k, f->in_row);
        s->step_c = c->tile_step;
    } else if (f->row_transposed) {
        s->trans_a = 1;
        s->ahead_a = asks(c) ? DV_AHEAD_PREFETCH : DV_AHEAD_NONE;
        s->lda = s->k > 1 ? stride_of(c, k, f->in_row) : 0;
    } else {
        s->lda = s->m > 1 ? stride_of(c, f->row, f->in_row) : 0;
    }
}

static void set_cols(const dv_contraction *c, dv_gemm_shape *s)
{
    const dv_nest_form *f = &c->form;
    int k = f->n_k ? f->k[f->n_k - 1] : -1;
    if (c->on_way) {
        s->ldb = stride_of(c, k, f->in_col);
        s->pack_b = 1;
        s->next_b = DV_NEXT_SPREAD;
    } else if (c->panels) {
        s->ldb = dv_round_up(s->n, c->lanes);
        // Prefetch the next panel of the columns' operand (b), unless its
        // buffer holds one panel only.
        s->next_b = !c->ahead_bytes && c->buffer_bytes[f->in_col] >=
                                           2 * s->ldb * c->k_size[0] * c->es;
    } else if (f->col_transposed) {
        s->trans_b = 1;
        s->ldb = s->n > 1 ? stride_of(c, f->col, f->in_col) : 0;
    } else {
        s->ldb = s->k > 1 ? stride_of(c, k, f->in_col) : 0;
    }
}

typedef struct kernel_variant {
    // One variant of the kernel. row and col are 1 for the shorter last tile.
    // Bit i of k says that the i-th k dimension with a shorter last tile is cut
    // short. first and last are 1 for the first and the last block of k.
    int row, col, k, first, last;
} kernel_variant;

// Sets the batch of products that the kernel sums, and the strides between
// them. In packed columns they are consecutive, whatever their strides in the
// tensor.
static void set_batch(const dv_contraction *c, int variant, dv_gemm_shape *s)
{
    const dv_nest_form *f = &c->form;
    int last = f->k[f->n_batch - 1];
    s->batch = s->k = 1;
    for (int i = 0; i < f->n_k; i++)
        *(i < f->n_batch ? &s->batch : &s->k) *=
            (int32_t)ct_size_in_way(c, i, variant);
    s->stride_a = stride_of(c, last, f->in_row);
    s->stride_b = stride_of(c, last, f->in_col);
}

static dv_status make_kernel(dv_contraction *c, dv_jit *jit, kernel_variant w,
                             dv_diag *diag)
{
    const dv_nest_form *f = &c->form;
    ct_kernel *to = &c->kernels[w.row][w.col][w.k][w.first][w.last];
    for (int r = 0; r < c->cols[w.col].n; r++) {
        dv_gemm_shape s = {.dtype = (uint8_t)c->n.dtype, .one_sum = 1};
        s.m = (int32_t)(w.row ? c->row.rest : c->row.size * c->at_once);
        s.n = c->cols[w.col].size[r];
        s.k = (int32_t)c->k_size[w.k];
        if (f->n_batch)
            set_batch(c, w.k, &s);
        set_rows(c, &s);
        set_cols(c, &s);
        if (f->n_batch && c->panels)
            s.stride_b = s.k * s.ldb;
        s.ldc = ct_ldc(c);
        s.beta = w.first && c->zero_first ? DV_SCALE_ZERO : DV_SCALE_ONE;
        s.relu = w.last && c->relu_last;
        s.stream = (uint8_t)c->streams;
        DV_TRY(dv_jit_gemm(jit, &s, &to->run[r], diag));
    }
    return DV_OK;
}

// Makes a GEMM plan follow the order in which products must be summed: it
// either does not pack its operands, or packs blocks of k of the length that
// all tiles use, even where dot products would be faster.
static void follow_sums(const dv_contraction *c, dv_gemm_shape *s,
                        dv_gemm_options *o)
{
    s->one_sum = 1;
    o->k_block = (int32_t)(c->k_block ? c->k_block : s->k);
    o->pack = c->n.dot == DV_DOT_ALWAYS                   ? -1
              : c->k_block || (s->trans_b && !s->trans_a) ? 1
              : c->as                                     ? -1
                                                          : 0;
    o->m_block = c->as ? (int32_t)c->as->m_block : 0;
}

// Sets the epilogue of the GEMM plan: rounding to the stored type, for which
// all of k (the summed dimension) must be inside the plan, and adding a bias,
// for which all rows or all columns must be.
static dv_status set_end(const dv_contraction *c, dv_gemm_shape *s,
                         dv_diag *diag)
{
    const dv_nest_form *f = &c->form;
    int type = c->n.bias - 1, outside = 0, parts = 0;
    for (int i = 0; i < f->n_loops; i++) {
        outside |= (int)c->n.dims[i].type == type;
        parts |= c->n.dims[i].type == DV_NEST_K;
    }
    if (c->n.dtype == DV_F16 || c->n.dtype == DV_BF16) {
        s->ctype = (uint8_t)c->n.dtype;
        if (parts)
            return dv_fail(diag, DV_E_NEST, (dv_loc){c->n.src, c->n.off},
                           "nest %s would round parts of its sums", c->n.name);
    }
    if (!c->n.bias)
        return DV_OK;
    if (!outside && f->row >= 0 && (int)c->n.dims[f->row].type == type)
        s->bias = DV_BIAS_M;
    else if (!outside && f->col >= 0 && (int)c->n.dims[f->col].type == type)
        s->bias = DV_BIAS_N;
    return s->bias
               ? DV_OK
               : dv_fail(diag, DV_E_NEST, (dv_loc){c->n.src, c->n.off},
                         "the bias of nest %s is not of its kernel", c->n.name);
}

dv_status ct_make_plan(dv_contraction *c, dv_jit *jit,
                       const dv_contract_options *options, dv_diag *diag)
{
    dv_gemm_shape s = {.dtype = (uint8_t)c->n.dtype};
    dv_gemm_options o = {.l1_bytes = options->l1_bytes,
                         .l2_bytes = options->l2_bytes};
    s.m = (int32_t)c->row.size;
    s.n = (int32_t)c->col.size;
    s.k = (int32_t)c->k_size[0];
    set_rows(c, &s);
    set_cols(c, &s);
    s.ldc = ct_ldc(c);
    s.beta = c->zero_first ? DV_SCALE_ZERO : DV_SCALE_ONE;
    s.relu = (uint8_t)c->relu_last;
    s.stream = (uint8_t)c->streams;
    // If k (the summed dimension) is contiguous in both factors, packing both
    // is faster than computing dot products unless the product is small.
    int small = s.m < 8 || s.n < 8 || s.k < 8;
    if (s.trans_b && !s.trans_a && (!small || options->ordered_sum))
        o.pack = 1;
    s.one_sum = options->ordered_sum != 0;
    if (c->n.narrow)
        s.dtype = c->n.narrow;
    if (c->n.k_order == DV_K_AS_IT_IS)
        follow_sums(c, &s, &o);
    if (c->n.fixed >> c->form.in_row & 1)
        o.given |= DV_GIVEN_A;
    if (c->n.fixed >> c->form.in_col & 1)
        o.given |= DV_GIVEN_B;
    DV_TRY(set_end(c, &s, diag));
    DV_TRY(dv_gemm_plan_create(&c->plan, jit, &s, &o, diag));
    ct_set_given(c);
    return DV_OK;
}

dv_status ct_make_kernels(dv_contraction *c, dv_jit *jit, dv_diag *diag)
{
    const dv_nest_form *f = &c->form;
    if (asks(c) && f->n_k == 1 && dv_jit_isa(jit)->vector_bytes == 16)
        c->prefetch_step = stride_of(c, f->k[0], f->in_row) * c->es;
    for (int row = 0; row <= (c->row.rest > 0); row++)
        for (int col = 0; col <= (c->col.rest > 0); col++)
            for (int k = 0; k < n_ways(c); k++)
                for (int touch = 0; touch < 4; touch++)
                    DV_TRY(make_kernel(
                        c, jit,
                        (kernel_variant){row, col, k, touch & 1, touch >> 1},
                        diag));
    return DV_OK;
}

static ct_axis axis_of(const dv_contraction *c, int dim, int operand)
{
    const dv_nest_dim *d = &c->n.dims[dim];
    return (ct_axis){.size = d->size,
                     .whole = d->whole,
                     .unit = c->tiles.unit[dim],
                     .from = d->size > 1 ? d->stride[operand] * c->es : 0,
                     .reach = d->stride[operand],
                     .loop = -1,
                     .outer = c->tiles.outer[dim],
                     .k = -1};
}

static int is_near(const ct_axis *x)
{
    enum { PAGE_BYTES = 4096 };
    return x->size > 1 && llabs(x->from) < PAGE_BYTES;
}

// Returns whether axis a comes before axis b in the loops that pack an operand
// or, with `results`, write packed results back. Large strides in the tensor
// are outermost, so that contiguous elements are moved together. Results are
// visited in the order of their buffer, except that axes within one page of the
// tensor stay innermost. A loop over tiles has larger strides than the axis
// inside and so stays around it. The kernel's k come last, because their
// strides in a panel depend on the loops.
static int is_before(const ct_axis *a, const ct_axis *b, int results)
{
    if ((a->k >= 0) != (b->k >= 0))
        return a->k < 0;
    if (results && is_near(a) != is_near(b))
        return is_near(b);
    if (results && !is_near(a))
        return a->to >= b->to;
    return llabs(a->reach) >= llabs(b->reach);
}

static void sort_axes(ct_mover *m)
{
    for (int i = 1; i < m->n_axes; i++)
        for (int j = i; j > 0; j--) {
            ct_axis a = m->axes[j - 1], b = m->axes[j];
            if (is_before(&a, &b, m->operand == DV_OUT))
                break;
            m->axes[j - 1] = b;
            m->axes[j] = a;
        }
}

// Splits the axis of rows into the rows of a micro-tile (register tile) and an
// axis over micro-tiles. No micro-tile is cut short.
static void add_tiles(const dv_contraction *c, ct_mover *m, ct_axis *rows)
{
    ct_axis *x = &m->axes[m->n_axes++];
    rows->whole = 0;
    rows->outer = -1;
    *x = *rows;
    rows->size = c->tile_rows;
    x->size /= c->tile_rows;
    x->from *= c->tile_rows;
    x->to = c->tile_step * c->es;
}

static void list_axes(const dv_contraction *c, ct_mover *m)
{
    int o = m->operand, at = -1;
    for (int l = 0; l < c->n_loops; l++)
        if (c->loops[l].pack >> o & 1)
            at = l;
    for (int l = at + 1; l < c->n_loops; l++) {
        if (!c->n.dims[l].stride[o])
            continue;
        ct_axis *x = &m->axes[m->n_axes++];
        *x = axis_of(c, l, o);
        x->loop = l;
        x->to = c->loops[l].step[o];
    }
    if (o == DV_OUT && c->form.row >= 0) {
        ct_axis *x = &m->axes[m->n_axes++];
        *x = axis_of(c, c->form.row, o);
        x->to = dv_round_up(c->col.size, c->lanes) * c->es;
        if (c->tile_step)
            add_tiles(c, m, x);
    }
    for (int i = 0; o != DV_OUT && i < c->form.n_k; i++) {
        ct_axis *x = &m->axes[m->n_axes++];
        *x = axis_of(c, c->form.k[i], o);
        x->k = i;
    }
}

// Returns the stride of an axis in the packing buffer, in elements, for panels
// that are `wide` elements wide.
static int64_t step_to(const dv_contraction *c, const ct_axis *x, int64_t wide,
                       int k_way)
{
    if (x->k < 0)
        return x->to / c->es;
    for (int i = x->k + 1; i < c->form.n_k; i++)
        wide *= ct_size_in_way(c, i, k_way);
    return wide;
}

static int has_tiles_inside(const ct_mover *m, const ct_axis *x)
{
    for (int i = 0; x->loop >= 0 && i < m->n_axes; i++)
        if (m->axes[i].outer == x->loop)
            return 1;
    return x->loop >= 0 && (m->across.outer == x->loop || x->unit != 1);
}

// Returns whether axis a is better than b as the rows of a move (a generated
// function that copies a 2-D block): many rows are, because a move prefetches
// some rows ahead; otherwise small strides are.
static int is_better(const ct_axis *a, const ct_axis *b)
{
    if (a->size >= 2 * b->size || b->size >= 2 * a->size)
        return a->size > b->size;
    return a->from < b->from;
}

// Returns the extent of axis x that one transposing move (a generated function
// that copies a 2-D block) takes: at most the distance between rows if rows
// overlap, as the windows of a convolution do. Returns 0 if rows overlap and
// either that distance is below LEAST or the operand is the output.
static int64_t transpose_extent(const ct_mover *m, const ct_axis *x,
                                int64_t far)
{
    enum { LEAST = 8 };
    if (far >= x->size)
        return x->size;
    return m->operand == DV_OUT || far < LEAST ? 0 : far;
}

// Returns the second axis of the 2-D move (a generated copy of a block); the
// first, `across`, is contiguous in the buffer. The second is the one with unit
// stride in the tensor or, if `across` has that, the best one whose stride is
// at least a row. Returns -1 if there is none.
static int find_along(const dv_contraction *c, const ct_mover *m)
{
    int64_t wide = m->across.size, far = m->across.from / c->es;
    int copies = m->across.from == c->es || wide == 1, best = -1;
    for (int i = 0; i < m->n_axes; i++) {
        const ct_axis *x = &m->axes[i];
        int64_t step = x->from / c->es;
        if (has_tiles_inside(m, x) || x->size > INT32_MAX / 64)
            continue;
        if (copies ? step < wide || step > MAX_STEP
                   : step != 1 || !transpose_extent(m, x, far))
            continue;
        if (x->k < 0 && x->to / c->es > MAX_STEP)
            continue;
        if (best < 0 || is_better(x, &m->axes[best]))
            best = i;
    }
    return best;
}

static void drop_axis(ct_mover *m, int i)
{
    for (m->n_axes--; i < m->n_axes; i++)
        m->axes[i] = m->axes[i + 1];
}

static void choose_move(const dv_contraction *c, ct_mover *m)
{
    int64_t far = m->across.from / c->es;
    int copies = m->across.from == c->es || m->across.size == 1;
    int i = find_along(c, m);
    m->along = (ct_axis){.size = 1, .loop = -1, .outer = -1, .k = -1};
    m->by_row = copies;
    if (i >= 0) {
        m->along = m->axes[i];
        drop_axis(m, i);
    }
    m->scalar = !copies && (far < 1 || far > MAX_STEP);
    m->chunk = m->along.size;
    if (!copies && i >= 0)
        m->chunk = transpose_extent(m, &m->along, far);
    if (copies && m->operand != DV_OUT && m->chunk > CHUNK)
        m->chunk = CHUNK;
}

// Returns the shape of the move (generated copy) of one panel, `wide` elements
// wide, into the buffer or, with `back`, out of it.
static dv_move_shape move_shape(const dv_contraction *c, const ct_mover *m,
                                int64_t wide, int64_t along, int k_way,
                                int back)
{
    int64_t padded =
        m->operand == c->form.in_col ? dv_round_up(wide, c->lanes) : wide;
    int64_t from = m->along.size > 1 ? m->along.from / c->es : wide;
    int64_t to =
        m->along.size > 1 ? step_to(c, &m->along, padded, k_way) : padded;
    int64_t across = wide > 1 ? m->across.from / c->es : along;
    dv_move_shape s = {.dtype = (uint8_t)c->n.dtype};
    if (m->by_row) { // copy `along` rows of `wide` elements
        s.move = DV_MOVE_COPY;
        s.rows = (int32_t)along;
        s.cols = (int32_t)wide;
        s.lds = back ? to : from;
        s.ldd = back ? from : to;
        return s;
    }
    s.move = DV_MOVE_TRANSPOSE;
    s.rows = (int32_t)(back ? along : wide);
    s.cols = (int32_t)(back ? wide : along);
    s.lds = back ? to : across;
    s.ldd = back ? across : to;
    return s;
}

static dv_status make_moves(const dv_contraction *c, ct_mover *m, dv_jit *jit,
                            int rest, int k_way, dv_diag *diag)
{
    int64_t whole = m->along.whole;
    int64_t along[3] = {m->chunk, m->along.size % m->chunk,
                        whole ? whole % m->along.size % m->chunk : 0};
    const ct_cut *cut = &m->cuts[rest];
    for (int r = 0; r < cut->n; r++)
        for (int a = 0; a < 3; a++) {
            if (!along[a])
                continue;
            dv_move_shape s =
                move_shape(c, m, cut->size[r], along[a], k_way, 0);
            DV_TRY(dv_jit_move(jit, &s, &m->in[rest][r][k_way][a], diag));
            if (m->operand != DV_OUT)
                continue;
            s = move_shape(c, m, cut->size[r], along[a], k_way, 1);
            DV_TRY(dv_jit_move(jit, &s, &m->back[rest][k_way][a], diag));
        }
    return DV_OK;
}

dv_status ct_make_mover(dv_contraction *c, dv_jit *jit, int operand,
                        dv_diag *diag)
{
    ct_mover *m = &c->movers[operand];
    int is_row = operand == c->form.in_row;
    int dim = is_row ? c->form.row : c->form.col;
    m->operand = operand;
    list_axes(c, m);
    sort_axes(m);
    m->across = (ct_axis){.size = 1, .loop = -1, .outer = -1, .k = -1};
    if (dim >= 0)
        m->across = axis_of(c, dim, operand);
    m->prim = dim < 0 ? NULL : is_row ? &c->row : &c->col;
    m->cuts = is_row ? c->rows : operand == DV_OUT ? c->out : c->cols;
    choose_move(c, m);
    for (int rest = 0; rest <= (m->prim && m->prim->rest); rest++)
        for (int k = 0; k < (operand == DV_OUT ? 1 : n_ways(c)); k++)
            if (!m->scalar)
                DV_TRY(make_moves(c, m, jit, rest, k, diag));
    return DV_OK;
}

// Returns whether the output exceeds the caches and every element is written
// once and not read soon after, so that stores should bypass the caches.
static int streams(const dv_contraction *c, const dv_isa *isa,
                   const dv_contract_options *o)
{
    int64_t lo, hi, l3 = o->l3_bytes ? o->l3_bytes : CT_COMMON_L3;
    if (c->as)
        l3 = c->as->streams ? 0 : INT64_MAX;
    if (!isa->streams || c->form.pack[DV_OUT] != DV_FORM_NEVER ||
        !c->zero_first || c->n.out_reused ||
        !dv_nest_extent(&c->n, DV_OUT, &lo, &hi) || (hi - lo) / 2 < l3 / c->es)
        return 0;
    for (int l = 0; l < c->n_loops; l++)
        if (c->loops[l].is_k)
            return 0;
    return 1;
}

// Returns `rows`, the height of a panel (the rows that one kernel call
// computes), changed so that a panel's results, which are contiguous along the
// rows, fill whole cache lines: stores that bypass the caches need that.
static int32_t panel_for_lines(const dv_contraction *c, int32_t rows)
{
    enum { MOST = 12, LEAST = 4, LINE = 64 };
    int64_t row = c->col.size * c->es;
    int32_t n = (int32_t)c->row.size;
    if (c->form.row < 0 || c->col.whole || c->row.whole || row % LINE == 0 ||
        c->n.dims[c->form.row].stride[DV_OUT] != c->col.size ||
        row > 2 * c->lanes * c->es)
        return rows;
    for (int32_t h = MOST; h >= LEAST; h--) {
        dv_cut cut = dv_cut_even(n, h);
        if (!cut.n_larger && cut.size * row % LINE == 0)
            return h;
    }
    return rows;
}

void ct_choose_streaming(dv_contraction *c, const dv_isa *isa,
                         const dv_contract_options *o)
{
    c->streams = streams(c, isa, o);
    if (c->streams)
        c->panel_rows = panel_for_lines(c, c->panel_rows);
}
