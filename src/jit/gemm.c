// Planning and running large products; gemm.h has the picture.
#define _GNU_SOURCE
#include "jit/gemm.h"
#include "base/dtype.h"
#include "base/math.h"
#include "jit/host.h"
#include <string.h>
#include <sys/mman.h>

enum { PAIRED = 8, MAX_THREADS = 1024 };
enum { FIRST, MIDDLE, LAST, N_KINDS }; // of a run; a lone one is FIRST

// A run of equal panels of B.
typedef struct run {
    int32_t size, n;
} run;

// The block of C of one thread, and its kernels.
typedef struct part {
    int32_t m0, n0, m, n;
    run cols[3]; // panels of B, in order
    int32_t n_cols;
    // Chunk of k, block of rows, width, and whether A is packed on the way. B
    // is packed on the way by the first block.
    dv_gemm_fn mul[N_KINDS][N_KINDS][3][2];
    dv_move_fn turn_b[N_KINDS][3];  // chunk, width: B is packed before use
    dv_move_fn pairs_a[N_KINDS][2]; // chunk; whole panels, the last one
    dv_gemm_fn direct;              // not packed: the whole block
    unsigned char *a, *b;           // buffers, in plan->memory
} part;

struct dv_gemm_plan {
    const dv_isa *isa;
    dv_gemm_shape s;
    int64_t es, es_c; // bytes of an element of A and B, of C
    int64_t lanes;    // elements of C in a vector
    int32_t height;   // rows of a panel of A
    int32_t pairs;    // bf16: operands are packed in pairs, before use
    int32_t threads;
    int32_t packs;     // 0: parts are direct
    int32_t one_block; // rows are not cut: panels of B are packed in turn
    int32_t kc, mc;    // chunk of k, block of rows
    part *parts;       // owned, one a thread
    void *memory;      // owned, mapped
    size_t memory_bytes;
};

static int64_t round_up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

// -- Cutting -----------------------------------------------------------------

// Parts of at most `most`, as even as multiples of `unit` can be.
static int32_t even(int64_t n, int64_t most, int64_t unit)
{
    int64_t parts = dv_ceil_div(n, dv_max_i64(most, unit));
    return (int32_t)dv_min_i64(n, round_up(dv_ceil_div(n, parts), unit));
}

static void push(part *p, int64_t size, int64_t n)
{
    if (n > 0 && size > 0)
        p->cols[p->n_cols++] = (run){(int32_t)size, (int32_t)n};
}

// Panels of B: whole vectors as even as can be; what is no whole vector is in
// the last panel, which is one of the widest.
static void cut_cols(const dv_gemm_plan *plan, part *p)
{
    int64_t lanes = plan->lanes;
    if (plan->pairs) {
        push(p, PAIRED, p->n / PAIRED);
        push(p, p->n % PAIRED, 1);
        return;
    }
    dv_cut c = dv_cut_even((int32_t)dv_ceil_div(p->n, lanes),
                           plan->isa->panel_vectors);
    int64_t size = c.size * lanes, left = p->n % lanes;
    int64_t low = c.n - (left && !c.n_larger);
    int64_t high = c.n_larger - (left && c.n_larger);
    push(p, size + lanes, high); // the first one packs A: let it be wide
    push(p, size, low);
    push(p, left ? p->n - low * size - high * (size + lanes) : 0, 1);
}

// The grid of threads whose blocks read least: rows of A and columns of B.
static int32_t threads_along_m(const dv_gemm_shape *s, int32_t threads)
{
    int32_t best = 1;
    int64_t least = INT64_MAX;
    for (int32_t tm = 1; tm <= threads; tm++) {
        int64_t h = dv_ceil_div(s->m, tm), w = dv_ceil_div(s->n, threads / tm);
        int64_t cost = h * w + 2 * (h + w); // work, then packing
        if (threads % tm == 0 && cost < least) {
            least = cost;
            best = tm;
        }
    }
    return best;
}

static void deal(dv_gemm_plan *plan)
{
    const dv_gemm_shape *s = &plan->s;
    if (!s->one_sum) {
        plan->parts[0].m = s->m;
        plan->parts[0].n = s->n;
        return;
    }
    int32_t tm = threads_along_m(s, plan->threads), tn = plan->threads / tm;
    int64_t h = round_up(dv_ceil_div(s->m, tm), plan->height);
    int64_t w =
        round_up(dv_ceil_div(s->n, tn), plan->pairs ? PAIRED : plan->lanes);
    for (int32_t i = 0; i < plan->threads; i++) {
        part *p = &plan->parts[i];
        p->m0 = (int32_t)dv_min_i64(i / tn * h, s->m);
        p->n0 = (int32_t)dv_min_i64(i % tn * w, s->n);
        p->m = (int32_t)dv_min_i64(h, s->m - p->m0);
        p->n = (int32_t)dv_min_i64(w, s->n - p->n0);
    }
}

// Piece i of `n` cut into pieces of `most`: which kind, and how long.
static int piece(int32_t n, int32_t most, int32_t i, int32_t *size)
{
    int32_t left = n - i * most;
    *size = left < most ? left : most;
    return i == 0 ? FIRST : left <= most ? LAST : MIDDLE;
}

// -- Kernels -----------------------------------------------------------------

typedef struct maker {
    dv_gemm_plan *plan;
    dv_jit *jit;
    dv_diag *diag;
    part *p;
} maker;

static int64_t ldb_of(const dv_gemm_plan *plan, int32_t cols)
{
    return round_up(cols, plan->lanes);
}

// Bytes of a packed panel of B.
static int64_t b_bytes(const dv_gemm_plan *plan, int32_t cols, int32_t k)
{
    int64_t paired = cols > PAIRED / 2 ? PAIRED : PAIRED / 2;
    return plan->pairs ? paired * round_up(k, 4) * plan->es
                       : ldb_of(plan, cols) * k * plan->es;
}

static dv_status make_pairs_a(maker *w, int kind, int32_t k, int32_t rows,
                              int last)
{
    const dv_gemm_shape *s = &w->plan->s;
    dv_move_shape v = {.lds = s->lda, .dtype = s->dtype};
    v.rows = s->trans_a ? k : rows;
    v.cols = s->trans_a ? rows : k;
    v.move = s->trans_a ? DV_MOVE_PAIRS_TURNED : DV_MOVE_PAIRS;
    return dv_jit_move(w->jit, &v, &w->p->pairs_a[kind][last], w->diag);
}

static dv_status make_pairs_b(maker *w, int kind, int32_t k, int col)
{
    const dv_gemm_shape *s = &w->plan->s;
    int32_t n = w->p->cols[col].size;
    dv_move_shape v = {.lds = s->ldb, .dtype = s->dtype, .overlap = 1};
    v.rows = s->trans_b ? n : k;
    v.cols = s->trans_b ? k : n;
    v.move = s->trans_b ? DV_MOVE_PAIRS : DV_MOVE_PAIRS_TURNED;
    return dv_jit_move(w->jit, &v, &w->p->turn_b[kind][col], w->diag);
}

static dv_status make_turn_b(maker *w, int kind, int32_t k, int col)
{
    const dv_gemm_shape *s = &w->plan->s;
    dv_move_shape v = {.lds = s->ldb, .dtype = s->dtype};
    v.rows = w->p->cols[col].size;
    v.cols = k;
    v.ldd = ldb_of(w->plan, v.rows);
    v.move = DV_MOVE_TRANSPOSE;
    return dv_jit_move(w->jit, &v, &w->p->turn_b[kind][col], w->diag);
}

// The product of block `row` of rows and a panel of B, in chunk i of k. C is
// scaled by the first chunk; bias and relu come with the last.
static dv_status make_mul(maker *w, int32_t i, int32_t row, int col, int pack)
{
    dv_gemm_plan *plan = w->plan;
    dv_gemm_shape s = plan->s;
    int kind = piece(plan->s.k, plan->kc, i, &s.k);
    int block = piece(w->p->m, plan->mc, row, &s.m);
    s.n = w->p->cols[col].size;
    s.panel_a = (uint8_t)plan->height;
    s.pack_a = (uint8_t)pack;
    s.lda = pack ? s.lda : 0;
    s.pack_b = row == 0 && !s.trans_b && !plan->pairs;
    s.ldb = s.pack_b ? s.ldb : ldb_of(plan, s.n);
    s.next_b = !plan->one_block;
    s.trans_b = 0;
    s.trans_a = s.trans_a && !plan->pairs;
    if (i > 0)
        s.beta = DV_SCALE_ONE;
    if ((i + 1) * (int64_t)plan->kc < plan->s.k) {
        s.bias = DV_BIAS_NONE;
        s.relu = 0;
    }
    return dv_jit_gemm(w->jit, &s, &w->p->mul[kind][block][col][pack], w->diag);
}

// The next number of a run of n whose kernels differ: 0, 1 and the last.
static int32_t next_kind(int32_t i, int32_t n)
{
    return i == 1 && n > 3 ? n - 1 : i + 1;
}

static dv_status make_chunk(maker *w, int32_t i)
{
    int32_t k, kind = piece(w->plan->s.k, w->plan->kc, i, &k);
    int32_t blocks = (int32_t)dv_ceil_div(w->p->m, w->plan->mc);
    if (w->plan->pairs && w->p->m >= PAIRED)
        DV_TRY(make_pairs_a(w, kind, k, PAIRED, 0));
    if (w->plan->pairs && w->p->m % PAIRED)
        DV_TRY(make_pairs_a(w, kind, k, w->p->m % PAIRED, 1));
    for (int col = 0; col < w->p->n_cols; col++) {
        if (w->plan->pairs)
            DV_TRY(make_pairs_b(w, kind, k, col));
        else if (w->plan->s.trans_b)
            DV_TRY(make_turn_b(w, kind, k, col));
        for (int32_t row = 0; row < blocks; row = next_kind(row, blocks))
            for (int pack = 0; pack <= (col == 0 && !w->plan->pairs); pack++)
                DV_TRY(make_mul(w, i, row, col, pack));
    }
    return DV_OK;
}

static dv_status make_kernels(maker *w)
{
    dv_gemm_plan *plan = w->plan;
    if (w->p->m < 1 || w->p->n < 1)
        return DV_OK;
    if (!plan->packs) {
        dv_gemm_shape s = plan->s;
        s.m = w->p->m;
        s.n = w->p->n;
        return dv_jit_gemm(w->jit, &s, &w->p->direct, w->diag);
    }
    cut_cols(plan, w->p);
    int32_t n = (int32_t)dv_ceil_div(plan->s.k, plan->kc);
    for (int32_t i = 0; i < n; i = next_kind(i, n))
        DV_TRY(make_chunk(w, i));
    return DV_OK;
}

// -- Memory ------------------------------------------------------------------

enum { HUGE_BYTES = 2 << 20, LINE_BYTES = 256 };

static int64_t b_buffer_bytes(const dv_gemm_plan *plan, const part *p)
{
    int64_t k = round_up(plan->kc, plan->lanes) * plan->es;
    int64_t n = round_up(p->n, dv_max_i64(plan->lanes, PAIRED));
    return round_up(n * k, LINE_BYTES);
}

// Buffers of all parts in one mapping, huge pages where the system has them.
static int map_buffers(dv_gemm_plan *plan)
{
    int64_t k = round_up(plan->kc, plan->lanes) * plan->es, total = 0;
    int64_t a = round_up(round_up(plan->mc, plan->height) * k, LINE_BYTES);
    for (int32_t i = 0; i < plan->threads; i++)
        total += a + b_buffer_bytes(plan, &plan->parts[i]);
    total = round_up(total, HUGE_BYTES) + HUGE_BYTES;
    void *m = mmap(NULL, (size_t)total, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (m == MAP_FAILED)
        return 0;
    madvise(m, (size_t)total, MADV_HUGEPAGE); // a wish
    plan->memory = m;
    plan->memory_bytes = (size_t)total;
    unsigned char *at = m;
    at += (HUGE_BYTES - (uintptr_t)at % HUGE_BYTES) % HUGE_BYTES;
    for (int32_t i = 0; i < plan->threads; i++) {
        plan->parts[i].a = at;
        plan->parts[i].b = at + a;
        at += a + b_buffer_bytes(plan, &plan->parts[i]);
    }
    return 1;
}

// -- Plans -------------------------------------------------------------------

// Packing pays once operands leave the nearest cache and rows are many.
static int32_t packs(const dv_gemm_shape *s, const dv_gemm_options *o,
                     int64_t l1, int64_t es)
{
    if (o->pack || s->dtype == DV_BF16)
        return o->pack > 0 || s->dtype == DV_BF16;
    return s->m >= 16 && s->n >= 8 && s->n * (int64_t)s->k * es > l1 * 3 / 4;
}

static void choose(dv_gemm_plan *plan, const dv_gemm_options *o)
{
    int64_t l1 = o->l1_bytes ? o->l1_bytes : plan->isa->l1_bytes;
    int64_t l2 = o->l2_bytes ? o->l2_bytes : plan->isa->l2_bytes;
    // Bytes of B's panel for one k; pairs need as many for A's.
    int64_t row = plan->pairs
                      ? 2 * PAIRED * plan->es
                      : plan->isa->panel_vectors * plan->isa->vector_bytes;
    plan->packs = packs(&plan->s, o, l1, plan->es);
    plan->kc = even(plan->s.k, l1 * 5 / 8 / row, plan->lanes);
    int64_t rows = l2 / 2 / (round_up(plan->kc, plan->lanes) * plan->es);
    int32_t tallest = 1;
    for (int32_t i = 0; i < plan->threads; i++)
        if (plan->parts[i].m > tallest)
            tallest = plan->parts[i].m;
    plan->mc = even(tallest, rows, plan->height);
    plan->one_block = plan->mc >= tallest;
}

static dv_status check(const dv_isa *isa, const dv_gemm_shape *s,
                       const dv_gemm_options *o, dv_diag *diag)
{
    if (s->batch > 1 || s->panel_a)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE,
                       "a plan takes neither batches nor panels");
    if (o->threads < 0 || o->threads > MAX_THREADS)
        return dv_fail(diag, DV_E_USAGE, DV_NOWHERE, "%d threads", o->threads);
    if (s->m < 1 || s->n < 1 || s->k < 1)
        return dv_fail(diag, DV_E_SHAPE, DV_NOWHERE, "a product of %dx%dx%d",
                       s->m, s->n, s->k);
    if (!dv_isa_has(isa, s->dtype))
        return dv_fail(diag, DV_E_DTYPE, DV_NOWHERE,
                       "there are no kernels for this element type");
    return DV_OK;
}

static dv_status build(dv_gemm_plan *plan, dv_jit *jit,
                       const dv_gemm_options *o, dv_diag *diag)
{
    dv_gemm_shape *s = &plan->s;
    s->lda = s->lda ? s->lda : s->trans_a ? s->m : s->k;
    s->ldb = s->ldb ? s->ldb : s->trans_b ? s->k : s->n;
    s->ldc = s->ldc ? s->ldc : s->n;
    plan->es = dv_dtype_get((dv_dtype)s->dtype)->size_bytes;
    plan->pairs = s->dtype == DV_BF16;
    plan->es_c = plan->pairs ? 4 : plan->es;
    plan->lanes = plan->isa->vector_bytes / plan->es_c;
    plan->height = plan->pairs ? PAIRED : plan->isa->panel_rows;
    // Threads may not change the order of sums; tiny products have no threads.
    s->one_sum = s->m * (int64_t)s->n > 64;
    plan->parts = dv_alloc((size_t)plan->threads * sizeof *plan->parts);
    if (!plan->parts)
        return dv_nomem(diag);
    memset(plan->parts, 0, (size_t)plan->threads * sizeof *plan->parts);
    deal(plan);
    choose(plan, o);
    for (int32_t i = 0; i < plan->threads; i++) {
        maker w = {plan, jit, diag, &plan->parts[i]};
        DV_TRY(make_kernels(&w));
    }
    return !plan->packs || map_buffers(plan) ? DV_OK : dv_nomem(diag);
}

dv_status dv_gemm_plan_create(dv_gemm_plan **out, dv_jit *jit,
                              const dv_gemm_shape *shape,
                              const dv_gemm_options *options, dv_diag *diag)
{
    static const dv_gemm_options none = {0};
    const dv_gemm_options *o = options ? options : &none;
    *out = NULL;
    const dv_isa *isa = dv_jit_isa(jit);
    DV_TRY(check(isa, shape, o, diag));
    dv_gemm_plan *plan = dv_alloc(sizeof *plan);
    if (!plan)
        return dv_nomem(diag);
    *plan = (dv_gemm_plan){
        .isa = isa, .s = *shape, .threads = o->threads ? o->threads : 1};
    dv_status s = build(plan, jit, o, diag);
    if (s)
        dv_gemm_plan_destroy(plan);
    else
        *out = plan;
    return s;
}

void dv_gemm_plan_destroy(dv_gemm_plan *plan)
{
    if (!plan)
        return;
    if (plan->memory)
        munmap(plan->memory, plan->memory_bytes);
    dv_release(plan->parts);
    dv_release(plan);
}

int32_t dv_gemm_plan_threads(const dv_gemm_plan *plan)
{
    return plan->threads;
}

// -- Running -----------------------------------------------------------------

typedef struct job {
    const dv_gemm_plan *plan;
    const part *p;
    const unsigned char *a, *b; // of the part
    unsigned char *c;
    const dv_gemm_args *args;
    int32_t k0, k; // chunk
    int kind;
} job;

static const void *b_at(const job *w, int32_t n0)
{
    const dv_gemm_shape *s = &w->plan->s;
    int64_t row = s->trans_b ? 1 : s->ldb, col = s->trans_b ? s->ldb : 1;
    return w->b + (w->k0 * row + n0 * col) * w->plan->es;
}

static const void *a_at(const job *w, int32_t m0)
{
    const dv_gemm_shape *s = &w->plan->s;
    int64_t row = s->trans_a ? 1 : s->lda, col = s->trans_a ? s->lda : 1;
    return w->a + (m0 * row + w->k0 * col) * w->plan->es;
}

static void pack_pairs(const job *w, int32_t m0, int32_t rows)
{
    unsigned char *to = w->p->a;
    for (int32_t i = 0; i < rows; i += PAIRED) {
        w->p->pairs_a[w->kind][rows - i < PAIRED](a_at(w, m0 + i), to);
        to += PAIRED * round_up(w->k, 4) * w->plan->es;
    }
}

// A block of rows with all panels of B. The first panel leaves A packed, the
// first block B, unless that was done before.
static void block(const job *w, int kind, int32_t m0, int32_t rows)
{
    const dv_gemm_plan *plan = w->plan;
    const dv_gemm_shape *s = &plan->s;
    int apart = plan->pairs || s->trans_b;
    unsigned char *b = w->p->b, *c = w->c + m0 * s->ldc * plan->es_c;
    dv_gemm_args args = w->args ? *w->args : (dv_gemm_args){0};
    const unsigned char *bias = args.bias;
    int32_t n0 = 0;
    args.pack_a = w->p->a;
    if (plan->pairs)
        pack_pairs(w, m0, rows);
    for (int32_t i = 0; i < w->p->n_cols; i++)
        for (int32_t j = 0; j < w->p->cols[i].n; j++) {
            int32_t n = w->p->cols[i].size;
            int pack = n0 == 0 && !plan->pairs;
            if (kind == FIRST && apart)
                w->p->turn_b[w->kind][i](b_at(w, n0), b);
            if (s->bias)
                args.bias =
                    bias + (s->bias == DV_BIAS_M ? m0 : n0) * plan->es_c;
            args.pack_b = b;
            w->p->mul[w->kind][kind][i][pack](
                pack ? a_at(w, m0) : w->p->a,
                kind == FIRST && !apart ? b_at(w, n0) : b, c + n0 * plan->es_c,
                &args);
            n0 += n;
            b += plan->one_block ? 0 : b_bytes(plan, n, w->k);
        }
}

static void packed(job *w)
{
    const dv_gemm_plan *plan = w->plan;
    for (int32_t i = 0; w->k0 < plan->s.k; i++, w->k0 += plan->kc) {
        w->kind = piece(plan->s.k, plan->kc, i, &w->k);
        for (int32_t m0 = 0; m0 < w->p->m; m0 += plan->mc) {
            int32_t rows;
            int kind = piece(w->p->m, plan->mc, m0 / plan->mc, &rows);
            block(w, kind, m0, rows);
        }
    }
}

void dv_gemm_part(dv_gemm_plan *plan, int32_t thread, const void *a,
                  const void *b, void *c, const dv_gemm_args *args)
{
    const part *p = &plan->parts[thread];
    const dv_gemm_shape *s = &plan->s;
    int64_t es = plan->es;
    dv_gemm_args moved = {0};
    if (p->m < 1 || p->n < 1)
        return;
    if (args && s->bias) {
        moved = *args;
        moved.bias = (const unsigned char *)args->bias +
                     (s->bias == DV_BIAS_M ? p->m0 : p->n0) * plan->es_c;
        args = &moved;
    }
    job w = {.plan = plan, .p = p, .args = args};
    w.a = (const unsigned char *)a + p->m0 * es * (s->trans_a ? 1 : s->lda);
    w.b = (const unsigned char *)b + p->n0 * es * (s->trans_b ? s->ldb : 1);
    w.c = (unsigned char *)c + (p->m0 * s->ldc + p->n0) * plan->es_c;
    if (p->direct)
        p->direct(w.a, w.b, w.c, args);
    else
        packed(&w);
}

void dv_gemm_run(dv_gemm_plan *plan, const void *a, const void *b, void *c,
                 const dv_gemm_args *args)
{
    int32_t n = plan->threads;
    if (n == 1) {
        dv_gemm_part(plan, 0, a, b, c, args);
        return;
    }
#ifdef _OPENMP
#pragma omp parallel for num_threads(n) schedule(static, 1)
#endif
    for (int32_t i = 0; i < n; i++)
        dv_gemm_part(plan, i, a, b, c, args);
}
