// Creates contractions and runs the loops of products; contract.h has an
// overview.
#include "base/dtype.h"
#include "base/math.h"
#include "jit/backend.h"
#include "nest/sums.h"
#include "contract/state.h"
#include <assert.h>
#include <stdatomic.h>
#include <string.h>

// Returns whether kernels can compute the prologue and the epilogue of the
// nest.
static int has_ends_inside(const dv_nest *n)
{
    int first = n->first == DV_PRIM_NONE || n->first == DV_PRIM_ZERO ||
                n->first == DV_PRIM_COPY;
    int last = n->last == DV_PRIM_NONE || n->last == DV_PRIM_RELU ||
               n->last == DV_PRIM_COPY;
    return first && last && !n->mean;
}

int dv_contraction_suits(const dv_nest *n)
{
    return dv_nest_is_product(n) && dv_nest_is_of_one_type(n) &&
           has_ends_inside(n) && (n->dtype == DV_F32 || n->dtype == DV_F64);
}

static dv_status check(const dv_nest *n, const dv_contract_options *o,
                       dv_diag *diag)
{
    for (int i = 0; i < DV_N_OPERANDS; i++) {
        int64_t lo, hi;
        if (!dv_nest_extent(n, i, &lo, &hi) || hi - lo > INT64_MAX / 16)
            return dv_fail(diag, DV_E_OVERFLOW, (dv_loc){n->src, n->off},
                           "the bytes of %s are too many to count",
                           dv_nest_operand_name(i));
    }
    return o->optimise ? dv_nest_check_order(n, diag) : dv_nest_check(n, diag);
}

// Returns whether vectors are longer than 16 bytes. If not, the passes and
// panels use their defaults, which are those of NEON, instead of this machine's
// sizes.
static int is_wide(const dv_isa *isa)
{
    return isa->vector_bytes > 16;
}

static dv_nest_options options_of(const dv_isa *isa,
                                  const dv_contract_options *o)
{
    dv_nest_options options = {.size = sizeof(dv_nest_options),
                               .l1_bytes = o->l1_bytes,
                               .l2_bytes = o->l2_bytes,
                               .l3_bytes = o->l3_bytes};
    if (is_wide(isa)) {
        options.l3_bytes = o->l3_bytes ? o->l3_bytes : 2 * CT_COMMON_L3;
        options.vector_bytes = isa->vector_bytes;
    }
    return options;
}

// Moves a loop over k that is directly around a kernel with one k into the
// kernel: accumulators then stay in registers for all its iterations, in the
// same order. Returns 0 if there is no such loop or if the kernel's k would
// exceed MOST_K.
static int move_k_inside(dv_nest *n)
{
    enum { MOST_K = INT32_MAX / 64 };
    int i = n->n_dims - 1, inside = 0;
    int64_t k = 1;
    for (; i >= 0 && n->dims[i].exec == DV_NEST_PRIM; i--)
        if (n->dims[i].type == DV_NEST_K) {
            k = n->dims[i].size;
            inside++;
        }
    if (i < 0 || inside != 1 || n->dims[i].type != DV_NEST_K ||
        n->dims[i].exec != DV_NEST_SEQ || dv_nest_is_tiled(n) ||
        k > MOST_K / n->dims[i].size)
        return 0;
    n->dims[i].exec = DV_NEST_PRIM;
    n->main = DV_PRIM_BRGEMM;
    return 1;
}

// Chooses which operands are packed (copied to contiguous buffers) in a nest
// whose loops must stay as they are. A k loop is moved into the kernel if the
// same inputs can still be packed with it inside; they cannot if their buffers
// become too large.
static void pack_loops(dv_contraction *c, const dv_nest_options *options)
{
    enum { INPUTS = 1 << DV_IN0 | 1 << DV_IN1 };
    dv_nest packed, moved;
    if (dv_nest_packed(&c->n) || dv_nest_is_gemm(&c->n, NULL))
        return;
    dv_nest_copy(&packed, &c->n);
    dv_nest_copy(&moved, &c->n);
    if (dv_nest_optimise(&packed, "pack", options, NULL) == DV_OK)
        dv_nest_copy(&c->n, &packed);
    int need = dv_nest_packed(&c->n) & INPUTS;
    if (move_k_inside(&moved) &&
        dv_nest_optimise(&moved, "pack", options, NULL) == DV_OK &&
        (dv_nest_packed(&moved) & need) == need)
        dv_nest_copy(&c->n, &moved);
}

static dv_status optimise(dv_contraction *c, const dv_isa *isa,
                          const dv_contract_options *o, dv_diag *diag)
{
    dv_nest_options options = options_of(isa, o);
    if (o->optimise == DV_NEST_OPTIMISE_PACKING && !c->n.narrow) {
        pack_loops(c, &options);
        return DV_OK;
    }
    if (c->n.k_order == DV_K_AS_IT_IS)
        return dv_sums_schedule(&c->n, &c->k_block, &options, diag);
    dv_nest_untile(&c->n);
    for (int i = 0; i < c->n.n_dims; i++)
        c->n.dims[i].exec = DV_NEST_SEQ;
    return dv_nest_optimise(&c->n, dv_nest_list("best"), &options, diag);
}

static dv_status build(dv_contraction *c, dv_jit *jit,
                       const dv_contract_options *o, dv_diag *diag)
{
    int bad, plain = dv_nest_is_gemm(&c->n, NULL);
    DV_TRY(dv_nest_check_order(&c->n, diag));
    DV_TRY(dv_nest_form_of(&c->n, &c->form, diag));
    if (c->form.row < 0 && c->form.col < 0 && !c->form.n_k)
        return dv_fail(diag, DV_E_LIMIT, (dv_loc){c->n.src, c->n.off},
                       "nest %s leaves no dimension to a kernel", c->n.name);
    // If the nest's loops are not to be changed, k (the summed dimension) may
    // be a loop around products that accumulate; then it is not one plain
    // product.
    for (int i = 0; i < c->form.n_loops; i++)
        plain = plain && c->n.dims[i].type != DV_NEST_K;
    dv_nest_tiles_of(&c->n, &c->tiles, &bad);
    c->es = c->es_in = dv_dtype_get(c->n.dtype)->size_bytes;
    if (c->n.narrow) {
        c->es_in = dv_dtype_get((dv_dtype)c->n.narrow)->size_bytes;
        plain = 1;
    }
    // Where both factors are contiguous along k, kernels in loops compute dot
    // products; only a GEMM plan can sum in one chain there, because it packs.
    int dot = dv_nest_form_is_dot(&c->form);
    if (c->as && (c->n.dot == DV_DOT_ALWAYS ? !dot : dot && !plain))
        return dv_fail(diag, DV_E_LIMIT, (dv_loc){c->n.src, c->n.off},
                       "the loops of %s sum in another order", c->n.name);
    const dv_isa *isa = dv_jit_isa(jit);
    c->lanes = (int32_t)(isa->vector_bytes / c->es);
    c->panel_rows = isa->panel_rows;
    c->zero_first = c->n.first == DV_PRIM_ZERO;
    c->relu_last = c->n.last == DV_PRIM_RELU;
    c->on_way = !plain && dv_nest_kernel_packs(&c->n, &c->form);
    c->ahead = c->on_way ? c->form.in_col : c->form.in_row;
    DV_TRY(ct_layout_prims(c, diag));
    c->panel_vectors = dv_nest_panel_vectors(
        &c->n, is_wide(isa) ? isa->panel_vectors : 6, (double)c->col.size,
        (double)c->k_size[0], o->l1_bytes ? o->l1_bytes : isa->l1_bytes);
    ct_layout_loops(c);
    ct_choose_streaming(c, isa, o);
    ct_layout_panels(c);
    if (!plain)
        ct_choose_copy_ahead(c, isa, o);
    for (int i = 0; i < DV_N_OPERANDS; i++)
        if (!ct_layout_buffer(c, i))
            return dv_fail(diag, DV_E_OVERFLOW, DV_NOWHERE,
                           "%s is too large to be packed",
                           dv_nest_operand_name(i));
    if (c->n.bias && !plain)
        return dv_fail(diag, DV_E_NEST, (dv_loc){c->n.src, c->n.off},
                       "nest %s has a bias, but is no plain product",
                       c->n.name);
    if (plain)
        return ct_make_plan(c, jit, o, diag);
    for (int i = 0; i < DV_N_OPERANDS; i++)
        if (c->form.pack[i] != DV_FORM_NEVER &&
            !(c->on_way && i == c->form.in_col))
            DV_TRY(ct_make_mover(c, jit, i, diag));
    ct_merge_inner_loop(c);
    return ct_make_kernels(c, jit, diag);
}

// Schedules the nest unless it is kept as it is, and generates all kernels.
// Products of narrow types (bf16 and i8, for example) are always scheduled,
// because a GEMM plan runs them with loops of its own.
static dv_status make_kernels(dv_contraction *c, dv_jit *jit,
                              const dv_contract_options *o, dv_diag *diag)
{
    int keeps = o->optimise == DV_NEST_OPTIMISE_NONE && !c->n.narrow;
    if (c->as)
        c->k_block = c->as->k_block;
    else if (!keeps)
        DV_TRY(optimise(c, dv_jit_isa(jit), o, diag));
    return build(c, jit, o, diag);
}

// Creates a contraction. If `as` is not NULL, the nest is scheduled already,
// and these choices are obeyed.
static dv_status make(dv_contraction **out, dv_jit *jit, const dv_nest *n,
                      const dv_contraction_choices *as,
                      const dv_contract_options *o, dv_diag *diag)
{
    dv_contraction *c = dv_alloc(sizeof *c);
    if (!c)
        return dv_nomem(diag);
    *c = (dv_contraction){.as = as, .at_once = 1};
    dv_nest_copy(&c->n, n);
    dv_status s = jit ? DV_OK : dv_jit_create(&c->own_jit, diag);
    jit = jit ? jit : c->own_jit;
    if (s == DV_OK)
        s = make_kernels(c, jit, o, diag);
    dv_jit_seal(c->own_jit);
    c->as = NULL;
    c->n.src = NULL; // the text is not borrowed beyond creation
    if (s)
        dv_contraction_destroy(c);
    else
        *out = c;
    return s;
}

dv_status dv_contraction_create(dv_contraction **out, dv_jit *jit,
                                const dv_nest *n,
                                const dv_contract_options *options,
                                dv_diag *diag)
{
    static const dv_contract_options none = DV_CONTRACT_OPTIONS_INIT;
    const dv_contract_options *o = options ? options : &none;
    assert(dv_nest_is_product(n) && has_ends_inside(n));
    DV_TRY(check(n, o, diag));
    return make(out, jit, n, NULL, o, diag);
}

dv_status dv_contraction_obey(dv_contraction **out, dv_jit *jit,
                              const dv_nest *n,
                              const dv_contraction_choices *as,
                              const dv_contract_options *options, dv_diag *diag)
{
    DV_TRY(check(n, options, diag));
    return make(out, jit, n, as, options, diag);
}

dv_contraction_choices dv_contraction_chosen(const dv_contraction *c)
{
    dv_contraction_choices out = {.gemm = c->plan != NULL,
                                  .streams = c->streams,
                                  .stages = c->ahead_bytes > 0};
    int32_t m, k;
    if (out.gemm && dv_gemm_plan_packs(c->plan, &m, &k)) {
        out.m_block = m;
        out.k_block = k;
    }
    return out;
}

int dv_contraction_only_calls(const dv_contraction *c)
{
    int copies = c->ahead_bytes > 0;
    for (int i = 0; i < DV_N_OPERANDS; i++)
        copies |= c->movers[i].scalar != 0;
    return !copies;
}

void dv_contraction_destroy(dv_contraction *c)
{
    if (!c)
        return;
    dv_gemm_plan_destroy(c->plan);
    dv_jit_destroy(c->own_jit);
    dv_release(c);
}

// Runs kernels that pack the operand with the columns themselves while they
// read it, one panel (a group of a few columns) after the other.
static void multiply_packing(const dv_contraction_cursor *t, const ct_spot *s)
{
    const dv_contraction *c = t->c;
    int rest = ct_is_tail(t, &c->col), way = ct_k_variant(c, t);
    const ct_kernel *k =
        &c->kernels[ct_is_tail(t, &c->row)][rest][way][s->first][s->last];
    const ct_cut *cut = &c->cols[rest];
    const unsigned char *col = s->at[c->form.in_col];
    unsigned char *out = s->at[DV_OUT];
    dv_gemm_args args = {.pack_b = t->buffer[c->form.in_col]};
    for (int r = 0; r < cut->n; r++) {
        int64_t wide = cut->size[r] * c->es;
        int last = r == cut->n - 1;
        for (int32_t i = 0; i < cut->count[r]; i++) {
            args.next = last && i == cut->count[r] - 1 ? s->next : col + wide;
            k->run[r](s->at[c->form.in_row], col, out, &args);
            col += wide;
            out += wide;
        }
    }
}

// Prefetches the rows of the next kernel call if they do not directly follow
// the rows of this one; otherwise the kernel prefetches them itself. Each row
// is on a page of its own, and prefetching all rows together overlaps their
// address translations, which would otherwise be waited for one by one.
static void prefetch_next_rows(const dv_contraction *c, const ct_spot *s,
                               int64_t k)
{
    const unsigned char *p = s->next;
    if (p == s->at[c->form.in_row] + c->row.size * c->es)
        return;
    for (int64_t i = 0; i < k; i++, p += c->prefetch_step)
        __builtin_prefetch(p, 0, 2);
}

// Runs a kernel on rows in a local block, which the previous call has filled;
// the kernel fills the other block for the next call. If the previous call
// filled it with other rows than this call needs, the right rows are copied
// here first.
static void multiply_copied(dv_contraction_cursor *t, const ct_spot *s)
{
    const dv_contraction *c = t->c;
    const unsigned char *row = s->at[c->form.in_row];
    unsigned char *block = t->buffer[c->form.in_row];
    unsigned char *here = block + t->half * c->ahead_bytes;
    size_t bytes = (size_t)(c->row.size * c->es);
    for (int64_t i = 0; t->brought != row && i < c->k_size[0]; i++)
        memcpy(here + (size_t)i * bytes, row + i * c->prefetch_step, bytes);
    t->half ^= 1;
    t->brought = s->next;
    dv_gemm_args args = {.next = s->next,
                         .pack_a = block + t->half * c->ahead_bytes};
    c->kernels[0][0][0][s->first][s->last].run[0](here, s->at[c->form.in_col],
                                                  s->at[DV_OUT], &args);
}

static void multiply(const dv_contraction_cursor *t, const ct_spot *s)
{
    const dv_contraction *c = t->c;
    int rest = ct_is_tail(t, &c->col), way = ct_k_variant(c, t);
    const ct_kernel *k =
        &c->kernels[ct_is_tail(t, &c->row)][rest][way][s->first][s->last];
    const ct_cut *cut = &c->cols[rest];
    const unsigned char *row = s->at[c->form.in_row];
    const unsigned char *col = s->at[c->form.in_col];
    unsigned char *out = s->at[DV_OUT];
    int64_t k_bytes = c->k_size[way] * c->es;
    if (c->prefetch_step)
        prefetch_next_rows(c, s, c->k_size[way]);
    for (int r = 0; r < cut->n; r++)
        for (int32_t i = 0; i < cut->count[r]; i++) {
            k->run[r](row, col, out, NULL);
            col += cut->size[r] * k_bytes;
            out += cut->size[r] * c->es;
        }
}

// Packs the operands whose bits are set in `pack`, from the addresses in s, and
// sets these to the packed blocks. An output that is overwritten is not read.
static void pack_operands(dv_contraction_cursor *t, int pack, ct_spot *s)
{
    const dv_contraction *c = t->c;
    for (int o = 0; pack && o < DV_N_OPERANDS; o++) {
        if (!(pack >> o & 1) || (c->on_way && o == c->form.in_col))
            continue;
        if (c->once >> o & 1) {
            s->at[o] = (unsigned char *)(uintptr_t)ct_once_block(t, o);
            continue;
        }
        if (o != DV_OUT || !(s->first && c->zero_first))
            ct_pack(c, t, o, s->at[o]);
        s->at[o] = t->buffer[o];
    }
}

// Begins the current iteration of loop l, and the first one of each loop inside
// it, up to the kernel.
static void enter(dv_contraction_cursor *t, int l)
{
    const dv_contraction *c = t->c;
    for (; l < c->n_loops; l++) {
        const ct_loop *p = &c->loops[l];
        const ct_spot *s = &t->spot[l];
        ct_spot *in = &t->spot[l + 1];
        int64_t from,
            n = ct_iterations(t, p->size, p->whole, p->unit, p->outer, &from);
        t->n[l] = n;
        t->at[l] = from + t->i[l] * p->unit;
        *in = *s;
        if (p->is_k) {
            in->first = s->first && t->i[l] == 0;
            in->last = s->last && t->i[l] == n - 1;
        }
        if (t->i[l] < n - 1)
            in->next = s->at[c->ahead] + p->step[c->ahead];
        pack_operands(t, p->pack, in);
        t->i[l + 1] = 0;
    }
    const ct_spot *s = &t->spot[l];
    if (!c->plan)
        return;
    const void *in[2];
    for (int o = 0; o < 2; o++)
        in[o] = c->once >> o & 1 ? ct_once_block(t, o) : s->at[o];
    dv_gemm_begin(&t->gemm, c->plan, in[c->form.in_row], in[c->form.in_col],
                  s->at[DV_OUT], t->gemm_workspace,
                  &(dv_gemm_args){.bias = t->bias});
}

// Ends the current iteration of the innermost loop and, if it was the last one,
// of each loop around it that also ends; writes packed results back. Then
// begins the next iteration.
static void advance(dv_contraction_cursor *t)
{
    const dv_contraction *c = t->c;
    for (int l = c->n_loops - 1; l >= 0; l--) {
        const ct_loop *p = &c->loops[l];
        if (p->pack >> DV_OUT & 1)
            ct_unpack(c, t, t->spot[l].at[DV_OUT]);
        for (int o = 0; o < DV_N_OPERANDS; o++)
            t->spot[l].at[o] += p->step[o];
        if (++t->i[l] < t->n[l]) {
            enter(t, l);
            return;
        }
    }
    t->ended = 1;
    if (c->top_pack >> DV_OUT & 1)
        ct_unpack(c, t, t->out);
    if (c->streams) // makes non-temporal stores visible to other threads
        atomic_thread_fence(memory_order_seq_cst);
}

void dv_contraction_begin(dv_contraction_cursor *t, const dv_contraction *c,
                          const dv_contraction_args *args)
{
    unsigned char *at = args->workspace;
    t->c = c;
    t->out = args->out;
    t->bias = args->bias;
    t->packed[0] = args->packed[0];
    t->packed[1] = args->packed[1];
    t->ended = 0;
    t->half = 0;
    t->brought = NULL;
    // Positions inside the kernel, where no loop sets them, stay 0.
    memset(t->at, 0, (size_t)c->n.n_dims * sizeof *t->at);
    for (int o = 0; o < DV_N_OPERANDS; o++) {
        t->buffer[o] = at;
        at += c->buffer_bytes[o];
    }
    t->gemm_workspace = at;
    ct_spot *s = &t->spot[0];
    *s = (ct_spot){.at = {(unsigned char *)(uintptr_t)args->in0,
                          (unsigned char *)(uintptr_t)args->in1, args->out},
                   .first = 1,
                   .last = 1};
    pack_operands(t, c->top_pack, s);
    s->next = s->at[c->ahead];
    t->i[0] = 0;
    enter(t, 0);
}

int dv_contraction_next(dv_contraction_cursor *t, dv_block *finished)
{
    const dv_contraction *c = t->c;
    for (; !t->ended; advance(t)) {
        const ct_spot *s = &t->spot[c->n_loops];
        if (c->plan)
            while (dv_gemm_next(&t->gemm, finished)) {
                // Results are final after the last block of k (the summed
                // dimension).
                if (s->last && dv_contraction_has_blocks(c))
                    return 1;
            }
        else if (c->on_way)
            multiply_packing(t, s);
        else if (c->ahead_bytes)
            multiply_copied(t, s);
        else
            multiply(t, s);
    }
    return 0;
}

void dv_contraction_run(const dv_contraction *c,
                        const dv_contraction_args *args)
{
    dv_contraction_cursor t;
    dv_block finished;
    dv_contraction_begin(&t, c, args);
    while (dv_contraction_next(&t, &finished))
        ;
}

int64_t dv_contraction_workspace(const dv_contraction *c)
{
    int64_t bytes = c->plan ? dv_gemm_plan_workspace(c->plan) : 0;
    for (int o = 0; o < DV_N_OPERANDS; o++)
        bytes += c->buffer_bytes[o];
    return bytes;
}

int dv_contraction_has_blocks(const dv_contraction *c)
{
    int rounded = c->n.dtype == DV_F16 || c->n.dtype == DV_BF16;
    return c->plan && !rounded && c->form.pack[DV_OUT] == DV_FORM_NEVER;
}

void dv_contraction_describe(const dv_contraction *c, dv_text *out)
{
    dv_put(out, "%s",
           c->plan ? "inside the kernel: "
                   : "kernels are called as the loops say");
    if (c->plan)
        dv_gemm_plan_describe(c->plan, out);
}

const dv_nest *dv_contraction_nest(const dv_contraction *c)
{
    return &c->n;
}
