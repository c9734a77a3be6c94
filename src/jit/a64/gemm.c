// Generates a whole product as loops over register tiles.
//
// How the operands are stored decides which of them is read as vectors (V), and
// which as scalars, lanes of a vector (S):
//
//   A rows of k, B rows of n    S = A, lanes of k      V = B
//   A rows of m, B rows of n    S = A, lanes of rows   V = B
//   A rows of m, B rows of k    S = B, lanes of k      V = A, C transposed
//   A rows of k, B rows of k    dot products (dot.c)
//
// C is cut into tiles of nearly equal size: at most two heights and three
// widths (the third for a last column of tiles with an overlapping vector),
// each with code of its own, in a loop if there are several. A panel of V stays
// in L1 while the tiles of S pass it.
#include "base/math.h"
#include "jit/a64/dot.h"
#include "jit/a64/pairs.h"
#include "jit/a64/kloop.h"

// Returns the number of sets of accumulators. Tiles with few accumulators and a
// long k use several sets as partial sums, so that there are enough independent
// multiply-adds to fill the pipelines.
static int sets_for(const dv_prod *p, int rows, int nv)
{
    int n = rows * nv;
    return p->c_turned || p->one_sum || p->k < 16 ? 1
           : n <= 4                               ? 4
           : n <= 8                               ? 2
                                                  : 1;
}

typedef struct walk {
    dv_gen *g;
    const dv_prod *p;
    const dv_cuts *grid;
    // 1: there is more than one tile along the rows (many_s) or along the
    // columns (many_v).
    int many_s, many_v;
    int next;   // cache lines or rows that each tile prefetches
    int spread; // 1: prefetches for the next kernel are spread over k (ask.c)
} walk;

// Advances the pointers by one tile of `rows` rows along the scalar operand S.
static void next_s(walk *w, int rows)
{
    dv_gen *g = w->g;
    const dv_prod *p = w->p;
    int64_t vectors = ((int64_t)p->k + g->lanes - 1) / g->lanes;
    dv_gen_add(g, X_A, X_A,
               rows * (p->panel && p->lane_k ? 16 * vectors
                       : p->panel            ? (int64_t)p->k * g->es
                       : p->lane_k           ? p->ld_s
                                             : g->es));
    if (p->step_c)
        dv_gen_add(g, X_C, X_C, p->step_c);
    else
        dv_gen_add(g, X_C, X_C, rows * (p->c_turned ? (int64_t)g->es : p->ldc));
    if (p->bias == 1)
        dv_gen_add(g, X_BIAS, X_BIAS, (int64_t)rows * g->es);
}

static void next_v(walk *w, int cols)
{
    dv_gen *g = w->g;
    const dv_prod *p = w->p;
    int64_t c = cols * (p->c_turned ? p->ldc : (int64_t)g->es);
    dv_gen_add(g, X_B, X_B, (int64_t)cols * g->es);
    if (w->many_s) {
        DV_E(mov_x, X_A, 0, X_ABASE, 0);
        dv_gen_add(g, X_CBASE, X_CBASE, c);
        DV_E(mov_x, X_C, 0, X_CBASE, 0);
    } else {
        dv_gen_add(g, X_C, X_C, c);
    }
    if (p->bias == 1 && w->many_s)
        DV_E(mov_x, X_BIAS, 0, X_BIASBASE, 0);
    if (p->bias == 2)
        dv_gen_add(g, X_BIAS, X_BIAS, (int64_t)cols * g->es);
}

// Emits the share of one tile in the prefetches for the next kernel: cache
// lines of the packed panel of V that follows this one in memory (into L1 if
// the panel is small), or rows of the columns that are packed next.
static void ask_for_next(walk *w)
{
    enum { LOAD_L1 = 0, LOAD_L2 = 2, MOST = 16, LINE = 64, SMALL = 8192 };
    dv_gen *g = w->g;
    int n = w->next < MOST ? w->next : MOST;
    if (!w->p->pack_v) {
        int to = w->p->k * w->p->ld_v <= SMALL ? LOAD_L1 : LOAD_L2;
        for (int i = 0; i < n; i++)
            DV_E(prfm, to, X_NEXT, i * LINE, 0);
        dv_gen_add(g, X_NEXT, X_NEXT, n * LINE);
        return;
    }
    for (int i = 0; i < n; i++) {
        for (int64_t off = 0; off < w->p->pack_v; off += LINE)
            DV_E(prfm, LOAD_L2, X_NEXT, off, 0);
        dv_tile_step(g, X_NEXT, w->p->ld_v, X_LDB);
    }
}

static int count_tiles(const dv_runs *s)
{
    int n = 0;
    for (int i = 0; i < s->n; i++)
        n += s->count[i];
    return n;
}

// Sets X_NEXT to the address to prefetch for the next kernel, and computes how
// many cache lines or rows each tile prefetches.
static void start_next(walk *w, int tiles)
{
    dv_gen *g = w->g;
    const dv_prod *p = w->p;
    int64_t lines = p->k * p->ld_v / 64;
    if (w->spread)
        DV_E(ldr_x, X_NEXT, X_ARGS, offsetof(dv_gemm_args, next), 0);
    if (!w->next)
        return;
    w->next = (int)(((p->pack_v ? p->k : lines) + tiles - 1) / tiles);
    dv_gen_mov(g, X_NEXT, p->pack_v ? (int64_t)p->n_v * g->es : p->k * p->ld_v);
    DV_E(add_x, X_NEXT, X_NEXT, X_B, 0);
}

// Emits `count` tiles of the same size one below the other, as a loop.
static void tiles(walk *w, const dv_prod *p, const dv_a64_tile *t, int count,
                  int more)
{
    dv_gen *g = w->g;
    if (count > 1)
        dv_gen_mov(g, X_M, count);
    size_t top = g->code->n;
    ask_for_next(w);
    dv_tile_emit(g, p, t);
    if (count > 1 || more)
        next_s(w, t->rows);
    if (count > 1)
        dv_gen_again(g, X_M, top);
}

// Returns the product with its batch merged into k, if the operands of the
// batch follow each other in memory; else the product itself.
static dv_prod joined(const dv_prod *p)
{
    dv_prod q = *p;
    int64_t k = (int64_t)p->k * p->batch;
    int follows = !p->lane_k && p->stride_s == p->k * p->ld_s;
    if (follows && p->stride_v == p->k * p->ld_v && k < INT32_MAX) {
        q.k = (int32_t)k;
        q.batch = 1;
    }
    return q;
}

// Emits the tiles below the one that packs the vector operand V. The first of
// them, up to *left, also prefetch the block that the next kernel packs.
static void asking(walk *w, dv_prod p, const dv_a64_tile *t, int count,
                   int more, int *left)
{
    int n = *left < count ? *left : count;
    if (n > 0)
        tiles(w, &p, t, n, count > n || more);
    p.ask = 0;
    if (count > n)
        tiles(w, &p, t, count - n, more);
    *left -= n;
}

// Emits a column of tiles. If the vector operand V is to be packed, the first
// tile packs it.
static void along_s(walk *w, int cols, int nv)
{
    dv_gen *g = w->g;
    const dv_runs *s = &w->grid->s;
    dv_prod p = *w->p;
    int behind = count_tiles(s) - 1, left = 0;
    if (w->spread) {
        p.ask_step = p.ld_v;
        p.ask = behind ? 0 : 1; // a lone tile prefetches all rows
    }
    for (int i = 0; i < s->n; i++) {
        int rows = s->size[i], count = s->count[i], more = i + 1 < s->n;
        dv_a64_tile t = {rows, cols, nv, sets_for(&p, rows, nv)};
        // A row of a packed transposed panel has as many elements as the panel
        // has rows.
        if (p.panel && !p.lane_k)
            p.ld_s = rows * g->es;
        if (p.pack_v) {
            tiles(w, &p, &t, 1, count > 1 || more);
            DV_E(ldr_x, X_B, X_ARGS, offsetof(dv_gemm_args, pack_b), 0);
            p.ld_v = p.pack_v;
            p.pack_v = 0;
            count--;
            if (w->spread)
                p.ask = left = dv_tile_ask_every(behind);
        }
        dv_prod q = joined(&p);
        if (count)
            asking(w, q, &t, count, more, &left);
    }
}

// Emits `count` columns of tiles and one more that is shifted back by `back`
// elements, with the same code: elements in the overlap are computed and
// written twice. The loop runs a second time, for the shifted column alone.
static void overlapping(walk *w, int cols, int nv, int count, int back)
{
    dv_gen *g = w->g;
    dv_gen_mov(g, X_NEXT, 2);
    dv_gen_mov(g, X_N, count);
    size_t top = g->code->n;
    along_s(w, cols, nv);
    next_v(w, cols);
    dv_gen_again(g, X_N, top);
    next_v(w, -back);
    dv_gen_mov(g, X_N, 1);
    dv_gen_again(g, X_NEXT, top);
}

// Emits all columns of tiles. If the width is not a multiple of the lanes, the
// last column has an overlapping vector, or overlaps the one before it as a
// whole if C is not read.
static void along_v(walk *w)
{
    dv_gen *g = w->g;
    const dv_runs *v = &w->grid->v;
    int lanes = g->lanes, part = w->p->n_v % lanes;
    int twice = w->p->beta == DV_SCALE_ZERO && !w->p->pack_v && !w->next;
    for (int i = 0; i < v->n; i++) {
        int cols = v->size[i] * lanes, last = i + 1 == v->n;
        int count = v->count[i] - (last && part);
        if (last && part && count > 0 && twice) {
            overlapping(w, cols, v->size[i], count, lanes - part);
            return;
        }
        if (count > 1)
            dv_gen_mov(g, X_N, count);
        size_t top = g->code->n;
        if (count > 0) {
            along_s(w, cols, v->size[i]);
            if (count > 1 || !last || part)
                next_v(w, cols);
        }
        if (count > 1)
            dv_gen_again(g, X_N, top);
        if (last && part)
            along_s(w, cols - lanes + part, v->size[i]);
    }
}

static dv_prod prod_of(const dv_isa *isa, const dv_gemm_shape *s, int es)
{
    dv_prod p = {.k = s->k,
                 .batch = s->batch,
                 .ldc = s->ldc * es,
                 .alpha = s->alpha,
                 .beta = s->beta,
                 .relu = s->relu,
                 .panel = s->pack_a ? 0 : s->panel_a,
                 .pack_s = s->pack_a,
                 .c_turned = s->trans_b};
    int64_t ld_a = s->lda * es, ld_b = s->ldb * es;
    int64_t step_a = s->stride_a * es, step_b = s->stride_b * es;
    p.n_s = p.c_turned ? s->n : s->m;
    p.n_v = p.c_turned ? s->m : s->n;
    p.ld_s = p.c_turned ? ld_b : ld_a;
    p.ld_v = p.c_turned ? ld_a : ld_b;
    p.stride_s = p.c_turned ? step_b : step_a;
    p.stride_v = p.c_turned ? step_a : step_b;
    p.lane_k = p.c_turned || !s->trans_a;
    p.tile_rows = s->panel_a;
    p.one_sum = s->one_sum;
    p.ask_s = s->ahead_a == DV_AHEAD_ASK;
    if (s->ahead_a == DV_AHEAD_BRING) {
        p.bring = s->k / (s->m / isa->bring_rows);
        p.ld_s = s->m * es;
        p.step_c = s->step_c * es;
        p.tile_rows = isa->bring_rows;
    }
    if (s->pack_b)
        p.pack_v = (s->n + 16 / es - 1) / (16 / es) * 16;
    p.bias = !s->bias ? 0 : (s->bias == DV_BIAS_M) != p.c_turned ? 1 : 2;
    return p;
}

static int max_int(int a, int b)
{
    return a > b ? a : b;
}

// Returns the largest number of vector registers that a tile of the cut needs.
// A batch that is merged into k can need more than a loop over the batch, since
// its rings of operand registers are larger.
static int count_regs(const dv_gen *g, const dv_prod *p, const dv_cuts *grid)
{
    dv_prod one = joined(p);
    int most = 0;
    for (int i = 0; i < grid->s.n; i++)
        for (int j = 0; j < grid->v.n; j++) {
            int rows = grid->s.size[i], nv = grid->v.size[j];
            dv_a64_tile t = {rows, nv * g->lanes, nv, sets_for(p, rows, nv)};
            int acc = t.sets * rows * nv;
            most = max_int(most, dv_tile_regs(g, p, &t));
            if (one.batch != p->batch)
                most = max_int(most, dv_tile_regs(g, &one, &t));
            most = max_int(most, acc + (p->c_turned ? 8 : 1 + nv));
        }
    return most;
}

static void constants(dv_gen *g, const dv_prod *p)
{
    if (!dv_gen_fits_add(p->ld_s))
        dv_gen_mov(g, X_LDA, p->ld_s);
    if (!dv_gen_fits_add(p->ld_v))
        dv_gen_mov(g, X_LDB, p->ld_v);
    if (!dv_gen_fits_add(p->ldc))
        dv_gen_mov(g, X_LDC, p->ldc);
    if (p->bias)
        DV_E(ldr_x, X_BIAS, X_ARGS, offsetof(dv_gemm_args, bias), 0);
}

static void start_bringing(dv_gen *g, const dv_gemm_shape *s)
{
    DV_E(ldr_x, X_NEXT, X_ARGS, offsetof(dv_gemm_args, next), 0);
    DV_E(ldr_x, X_SPACK, X_ARGS, offsetof(dv_gemm_args, pack_a), 0);
    dv_gen_mov(g, X_LDA, s->lda * g->es);
}

static walk walk_of(dv_gen *g, const dv_prod *p, const dv_cuts *grid,
                    const dv_gemm_shape *s)
{
    walk w = {.g = g, .p = p, .grid = grid};
    w.many_s = grid->s.n > 1 || grid->s.count[0] > 1;
    w.many_v = grid->v.n > 1 || grid->v.count[0] > 1 || p->n_v % g->lanes;
    w.spread = s->next_b == DV_NEXT_SPREAD && s->pack_b;
    w.next = w.many_s && !w.spread && (s->next_b || s->pack_b);
    return w;
}

// Emits the function entry: saves registers, and loads strides, bias and base
// addresses.
static void enter(walk *w, const dv_gemm_shape *s)
{
    dv_gen *g = w->g;
    const dv_prod *p = w->p;
    g->n_vregs = count_regs(g, p, w->grid);
    g->saves_x = w->many_s || w->many_v || w->spread || p->bias || p->bring ||
                 !dv_gen_fits_add(p->ld_s) || !dv_gen_fits_add(p->ld_v) ||
                 !dv_gen_fits_add(p->ldc);
    dv_gen_enter(g);
    if (p->c_turned) {
        DV_E(mov_x, X_TMP, 0, X_A, 0);
        DV_E(mov_x, X_A, 0, X_B, 0);
        DV_E(mov_x, X_B, 0, X_TMP, 0);
    }
    constants(g, p);
    if (p->pack_s)
        DV_E(ldr_x, X_SPACK, X_ARGS, offsetof(dv_gemm_args, pack_a), 0);
    if (p->pack_v)
        DV_E(ldr_x, X_VPACK, X_ARGS, offsetof(dv_gemm_args, pack_b), 0);
    start_next(w, count_tiles(&w->grid->s));
    if (p->bring)
        start_bringing(g, s);
    if (w->many_s) {
        DV_E(mov_x, X_ABASE, 0, X_A, 0);
        DV_E(mov_x, X_CBASE, 0, X_C, 0);
    }
    if (p->bias == 1 && w->many_s)
        DV_E(mov_x, X_BIASBASE, 0, X_BIAS, 0);
}

void dv_a64_gemm(dv_code *code, const dv_isa *isa, const dv_gemm_shape *s)
{
    int es = s->dtype == DV_F64 ? 8 : 4; // bytes per element of C
    dv_gen gen = {.code = code, .es = es, .lanes = 16 / es}, *g = &gen;
    gen.ints = s->dtype == DV_I32 || s->dtype == DV_I8;
    if (s->dtype == DV_BF16 || s->dtype == DV_I8) {
        dv_pairs_gemm(g, s);
        return;
    }
    if (s->trans_b && !s->trans_a) {
        dv_dot_emit(g, s);
        return;
    }
    dv_prod p = prod_of(isa, s, es);
    dv_cuts grid;
    dv_tile_choose(g, &p, &grid);
    // A kernel that packs has only one panel of the vector operand.
    int packs = p.pack_s || p.pack_v;
    if (!grid.s.n || (packs && (grid.v.n > 1 || grid.v.count[0] > 1))) {
        code->failed = 1;
        return;
    }
    walk w = walk_of(g, &p, &grid, s);
    enter(&w, s);
    along_v(&w);
    dv_gen_leave(g);
}
