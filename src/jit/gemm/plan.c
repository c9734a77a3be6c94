// Plans large matrix products: chooses block sizes for the caches and lays out
// the workspace. gemm.h shows the loop nest.
#include "jit/gemm/plan.h"
#include <string.h>

// Returns a block size of at most `most` that divides n into nearly equal
// blocks; the size is a multiple of `unit` unless n is smaller.
static int32_t even(int64_t n, int64_t most, int64_t unit)
{
    int64_t parts = dv_ceil_div(n, dv_max_i64(most, unit));
    return (int32_t)dv_min_i64(n, dv_round_up(dv_ceil_div(n, parts), unit));
}

// Lays out the workspace of a run: a packed block of A, packed panels of B,
// accumulators of a narrow C.
static void lay_out(dv_gemm_plan *plan)
{
    enum { LINE_BYTES = 256 };
    int64_t k = dv_round_up(plan->kc, plan->step) * plan->es;
    int64_t cols = dv_round_up(plan->s.n, plan->lanes);
    int narrow = plan->out != plan->sum;
    if (!plan->packs)
        return;
    plan->a_block_bytes =
        dv_round_up(dv_round_up(plan->mc, plan->height) * k, LINE_BYTES);
    plan->b_off = plan->given & DV_GIVEN_A ? 0 : plan->a_block_bytes;
    plan->sums_off = plan->b_off;
    if (!(plan->given & DV_GIVEN_B))
        plan->sums_off += dv_round_up(
            cols * (k + dv_gemm_correction_bytes(plan)), LINE_BYTES);
    plan->workspace_bytes =
        plan->sums_off +
        dv_round_up(narrow * (plan->kc < plan->s.k ? plan->s.m : plan->mc) *
                        cols * plan->es_sum,
                    LINE_BYTES);
}

// Decides whether to pack. Packed panels are read sequentially, which pays when
// B does not fit in L1 and either m has enough rows to reuse the panels or B is
// packed before the first run. Narrow types are always packed.
static int32_t packs(const dv_gemm_plan *plan, const dv_gemm_options *o)
{
    int64_t l1 = o->l1_bytes ? o->l1_bytes : plan->isa->l1_bytes;
    const dv_gemm_shape *s = &plan->s;
    if (plan->pairs || plan->out != plan->sum)
        return 1;
    if (o->pack)
        return o->pack > 0;
    // With fewer than 4 rows and a long k, a nest is run as one product only if
    // B is packed before (dv_nest_is_gemm), so use that packed B.
    if (s->m < 4 && o->given & DV_GIVEN_B)
        return 1;
    return (s->m >= 16 || o->given & DV_GIVEN_B) && s->n >= 8 &&
           s->n * (int64_t)s->k * plan->es > l1 * 3 / 4;
}

// Chooses the columns of a chunk. Every chunk of k reads and writes C again, so
// that a C larger than the caches is computed in chunks of columns; but A is
// packed again for each of them. If `chunk` is not 0, chunks have that many
// columns.
static void choose_columns(dv_gemm_plan *plan, int64_t l2, int32_t chunk)
{
    enum { FEWEST = 1024 };
    int64_t most = 2 * l2 / (plan->s.m * plan->es_sum);
    most = dv_max_i64(most, FEWEST);
    plan->nc = plan->s.n;
    if (plan->kc < plan->s.k && (chunk || plan->s.n > 2 * most))
        plan->nc = chunk ? chunk : (int32_t)most;
}

static void choose(dv_gemm_plan *plan, const dv_gemm_options *o)
{
    const dv_isa *isa = plan->isa;
    // Bytes of two cache lines: the ones at the left and right edge of a panel,
    // which a row of C fills only partly.
    enum { LINES_BYTES = 128 };
    int64_t all_of_l1 = o->l1_bytes ? o->l1_bytes : isa->l1_bytes;
    int64_t l1, l2 = o->l2_bytes ? o->l2_bytes : isa->l2_bytes;
    // Choose kc, the length of a chunk of k, so that one panel of B and two
    // panels of A (one being read, one being prefetched) fit in L1. For 8-byte
    // elements a smaller share of L2 for the block of A (l2_eighths_block_f64)
    // was measured to be better.
    int64_t row = plan->vectors * plan->lanes + 2 * plan->height;
    int fast = plan->es == 8;
    l1 = all_of_l1 *
         (plan->pairs ? isa->l1_eighths_pairs : isa->l1_eighths_panels) / 8;
    l2 = l2 *
         (plan->pairs ? isa->l2_eighths_pairs
          : fast      ? isa->l2_eighths_block_f64
                      : isa->l2_eighths_block) /
         8;
    plan->kc = even(plan->s.k, l1 / (row * plan->es), plan->step);
    if (o->k_block)
        plan->kc = (int32_t)dv_min_i64(o->k_block, plan->s.k);
    // If k is a single chunk and the kernels round C themselves, no buffer of
    // f32 accumulators is needed.
    if (plan->kc >= plan->s.k && plan->out != plan->sum &&
        dv_isa_rounds(isa, &plan->s)) {
        plan->rounds = 1;
        plan->sum = plan->out;
        plan->es_sum = plan->es_out;
    }
    int64_t rows = l2 / (dv_round_up(plan->kc, plan->step) * plan->es);
    // Limit the number of rows in a block so that partially written cache lines
    // of C stay in L1 until the next panel completes them.
    rows = dv_min_i64(rows, all_of_l1 * 3 / 4 / LINES_BYTES);
    plan->packs = packs(plan, o);
    plan->given = plan->packs ? o->given : 0;
    plan->mc = o->m_block ? (int32_t)dv_min_i64(o->m_block, plan->s.m)
                          : even(plan->s.m, rows, plan->height);
    plan->one_block = plan->mc >= plan->s.m;
    choose_columns(plan, o->l2_bytes ? o->l2_bytes : isa->l2_bytes, o->n_chunk);
}

static dv_dtype sum_of(dv_dtype t)
{
    return t == DV_F16 || t == DV_BF16 ? DV_F32 : t == DV_I8 ? DV_I32 : t;
}

// Chooses the types of the sums and of C.
static dv_status choose_types(dv_gemm_plan *plan, dv_diag *diag)
{
    const dv_isa *isa = plan->isa;
    dv_dtype t = (dv_dtype)plan->s.dtype;
    plan->sum = sum_of(t);
    plan->out = plan->s.ctype ? (dv_dtype)plan->s.ctype : plan->sum;
    if (!dv_isa_has(isa, (int)t))
        return dv_fail(diag, DV_E_DTYPE, DV_NOWHERE,
                       "there are no kernels for this element type");
    int halves = plan->out == DV_F16 || plan->out == DV_BF16;
    if (plan->out != plan->sum && (plan->sum != DV_F32 || !halves))
        return dv_fail(diag, DV_E_DTYPE, DV_NOWHERE,
                       "sums of %s are stored as they are, or f32 as f16 or "
                       "bf16; type %d is asked for",
                       dv_dtype_get(plan->sum)->name, plan->s.ctype);
    plan->es = dv_dtype_get(t)->size_bytes;
    plan->es_sum = dv_dtype_get(plan->sum)->size_bytes;
    plan->es_out = dv_dtype_get(plan->out)->size_bytes;
    plan->pairs = t != plan->sum;
    plan->lanes = isa->vector_bytes / plan->es_sum;
    plan->step =
        (int32_t)(plan->pairs ? isa->pairs_bytes / plan->es : plan->lanes);
    plan->height = plan->pairs ? isa->pairs_rows : isa->panel_rows;
    plan->vectors = plan->pairs ? isa->pairs_cols / (int32_t)plan->lanes
                                : isa->panel_vectors;
    return DV_OK;
}

static dv_status check(const dv_gemm_shape *s, const dv_gemm_options *o,
                       dv_diag *diag)
{
    int rounds = s->ctype && s->ctype != sum_of((dv_dtype)s->dtype);
    if (s->panel_a || s->batch > 1 || (rounds && s->beta))
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       s->panel_a     ? "a plan takes no panels"
                       : s->batch > 1 ? "a plan takes one product"
                                      : "sums that are rounded are not added "
                                        "to C");
    if (o->k_block < 0 || o->m_block < 0 || o->n_chunk < 0 || o->l1_bytes < 0 ||
        o->l2_bytes < 0)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "options of a product are not negative");
    if (s->m < 1 || s->n < 1 || s->k < 1)
        return dv_fail(diag, DV_E_SHAPE, DV_NOWHERE, "a product of %dx%dx%d",
                       s->m, s->n, s->k);
    return DV_OK;
}

// Checks the row strides of A, B and C, because kernels that read packed panels
// see only the panels' strides and cannot check these.
static dv_status check_rows(const dv_gemm_shape *s, dv_diag *diag)
{
    int64_t a = s->trans_a ? s->m : s->k, b = s->trans_b ? s->k : s->n;
    if (s->lda < a || s->ldb < b || s->ldc < s->n)
        return dv_fail(diag, DV_E_SHAPE, DV_NOWHERE,
                       "rows of %d, %d and %d elements are %d, %d and %d apart",
                       (int)a, (int)b, s->n, (int)s->lda, (int)s->ldb,
                       (int)s->ldc);
    return DV_OK;
}

static dv_status build(dv_gemm_plan *plan, dv_jit *jit,
                       const dv_gemm_options *o, dv_diag *diag)
{
    dv_gemm_shape *s = &plan->s;
    s->lda = s->lda ? s->lda : s->trans_a ? s->m : s->k;
    s->ldb = s->ldb ? s->ldb : s->trans_b ? s->k : s->n;
    s->ldc = s->ldc ? s->ldc : s->n;
    DV_TRY(choose_types(plan, diag));
    DV_TRY(check_rows(s, diag));
    // For more than 64 elements of C, make each one a single chain of
    // additions, so that blocks of C give the same bits as the whole. Fewer
    // elements may be summed in several chains.
    s->one_sum |= s->m * (int64_t)s->n > 64;
    choose(plan, o);
    lay_out(plan);
    return dv_gemm_make_kernels(plan, jit, diag);
}

dv_status dv_gemm_plan_create(dv_gemm_plan **out, dv_jit *jit,
                              const dv_gemm_shape *shape,
                              const dv_gemm_options *options, dv_diag *diag)
{
    static const dv_gemm_options none = {0};
    const dv_gemm_options *o = options ? options : &none;
    *out = NULL;
    const dv_isa *isa = dv_jit_isa(jit);
    DV_TRY(check(shape, o, diag));
    dv_gemm_plan *plan = dv_alloc(sizeof *plan);
    if (!plan)
        return dv_nomem(diag);
    *plan = (dv_gemm_plan){.isa = isa, .s = *shape};
    dv_status s = build(plan, jit, o, diag);
    if (s)
        dv_gemm_plan_destroy(plan);
    else
        *out = plan;
    return s;
}

void dv_gemm_plan_destroy(dv_gemm_plan *plan)
{
    dv_release(plan);
}

int64_t dv_gemm_plan_workspace(const dv_gemm_plan *plan)
{
    return plan->workspace_bytes;
}

int dv_gemm_plan_packs(const dv_gemm_plan *plan, int32_t *m, int32_t *k)
{
    *m = plan->mc;
    *k = plan->kc;
    return plan->packs;
}

void dv_gemm_plan_describe(const dv_gemm_plan *p, dv_text *out)
{
    if (p->packs)
        dv_put(out, "chunks of %d of k, blocks of %d rows, ",
               (int)(p->kc < p->s.k ? p->kc : p->s.k),
               (int)(p->mc < p->s.m ? p->mc : p->s.m));
    dv_put(out, "tiles of up to %d x %d; %s", (int)p->height,
           (int)(p->vectors * p->lanes),
           p->packs ? "both operands are packed on the way"
                    : "operands are read where they lie");
}
