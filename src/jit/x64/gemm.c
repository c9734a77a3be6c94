// Generates a whole matrix product from register tiles.
//
// The storage order decides which operand is read as vectors (V) and which as
// scalars (S):
//
//   A any, B rows of n            S = A, V = B
//   A rows of m, B rows of k      S = B, V = A, C transposed
//   A rows of k, B rows of k      dot products (dot.c)
//
// C is cut into nearly equal tiles of at most two heights and three widths.
// Each size has its own code, in a loop if there are several such tiles.
#include "jit/gemm/cut.h"
#include "jit/x64/pairs.h"

typedef struct size {
    int rows, nv;
} size;

static const size sizes_16[] = {{6, 2}, {4, 3}, {12, 1}, {3, 3},
                                {2, 4}, {8, 1}, {2, 1},  {1, 1}};
static const size sizes_32[] = {{8, 3},  {14, 2}, {6, 4}, {4, 6},
                                {24, 1}, {9, 3},  {2, 8}, {1, 1}};

// Returns the number of accumulator sets: with few accumulators and a long k,
// several partial sums hide the latency of the multiply-adds.
static int sets_for(const dv_x *g, const dv_x_prod *p, int rows, int nv)
{
    int n = rows * nv;
    int sets = p->one_sum || p->k < 16 ? 1 : n <= 2 ? 4 : n <= 5 ? 2 : 1;
    dv_x_tile t = {rows, nv * g->lanes - 1, nv, sets};
    while (t.sets > 1 && !dv_x_tile_fits(g, p, &t))
        t.sets /= 2;
    return t.sets;
}

// Estimates the cost of a tile in eighths of half cycles. A cycle has two
// multiply-adds or two loads, and a step of k takes at least the latency of a
// multiply-add divided by the number of accumulator sets.
static int64_t tile_cost(const dv_x *g, const dv_x_prod *p, int rows, int nv)
{
    enum { WAIT = 8, ENDS = 60 };
    int64_t fma = rows * nv, loads = rows + nv;
    int64_t busy = fma > loads ? fma : loads;
    int64_t wait = WAIT / sets_for(g, p, rows, nv);
    busy = busy > wait ? busy : wait;
    return (int64_t)p->k * p->batch * (8 * busy + loads) + 8 * (ENDS + 3 * fma);
}

static int64_t grid_cost(const dv_x *g, const dv_x_prod *p, const dv_runs *s,
                         const dv_runs *v)
{
    int64_t sum = 0;
    for (int i = 0; i < s->n; i++)
        for (int j = 0; j < v->n; j++)
            sum += s->count[i] * (int64_t)v->count[j] *
                   tile_cost(g, p, s->size[i], v->size[j]);
    return sum;
}

static int tile_fits(const dv_x *g, const dv_x_prod *p, int rows, int nv)
{
    int part = p->n_v % g->lanes != 0; // assume the tile has a partial vector
    dv_x_tile t = {rows, nv * g->lanes - part, nv, 1};
    return dv_x_tile_fits(g, p, &t);
}

static void choose(const dv_x *g, const dv_x_prod *p, dv_cuts *out)
{
    int n_vectors = (p->n_v + g->lanes - 1) / g->lanes;
    const size *sizes = g->masks ? sizes_32 : sizes_16;
    int64_t best = -1;
    out->s = out->v = (dv_runs){.n = 0};
    for (int i = 0; i < 8; i++) {
        int rows = p->n_s < sizes[i].rows ? p->n_s : sizes[i].rows;
        int nv = n_vectors < sizes[i].nv ? n_vectors : sizes[i].nv;
        // Packed panels of A fix the height.
        rows = p->tile_rows ? p->tile_rows : rows;
        rows = p->c_turned && rows > g->lanes ? g->lanes : rows;
        if (!tile_fits(g, p, rows, nv))
            continue;
        dv_runs s = dv_runs_even(p->n_s, rows), v = dv_runs_even(n_vectors, nv);
        int64_t cost = grid_cost(g, p, &s, &v);
        if (best < 0 || cost < best) {
            best = cost;
            out->s = s;
            out->v = v;
        }
    }
}

typedef struct walk {
    dv_x *g;
    const dv_x_prod *p;
    const dv_cuts *grid;
    int many_s; // there is more than one tile along the broadcast operand S
    int next;   // cache lines or rows to prefetch per tile; 0: none
} walk;

// Advances the pointers by one tile along the broadcast operand S (usually the
// rows of A).
static void next_s(walk *w, int rows)
{
    dv_x *g = w->g;
    const dv_x_prod *p = w->p;
    int per = 16 / g->es;
    int64_t k = p->k;
    k = p->lane_k ? (k + per - 1) / per * per : k;
    dv_x_add(g, X_A,
             rows * (p->panel    ? k * g->es
                     : p->lane_k ? p->ld_s
                                 : g->es));
    dv_x_add(g, X_C, rows * (p->c_turned ? g->es : p->ldc));
    if (p->bias == 1)
        dv_x_add(g, X_BIAS, (int64_t)rows * g->es);
}

static void next_v(walk *w, int cols)
{
    dv_x *g = w->g;
    const dv_x_prod *p = w->p;
    int64_t c = cols * (p->c_turned ? p->ldc : g->es);
    dv_x_add(g, X_B, (int64_t)cols * g->es);
    if (w->many_s) {
        dv_x_mov(g, X_A, X_ABASE);
        dv_x_add(g, X_CBASE, c);
        dv_x_mov(g, X_C, X_CBASE);
    } else {
        dv_x_add(g, X_C, c);
    }
    if (p->bias == 1 && w->many_s)
        dv_x_mov(g, X_BIAS, X_BIASBASE);
    if (p->bias == 2)
        dv_x_add(g, X_BIAS, (int64_t)cols * g->es);
}

// Prefetches into L2 a share of what the next kernel reads: the packed panel of
// the vector operand V that follows, or the columns of V that are packed next.
// Every tile prefetches one share.
static void ask_for_next(walk *w)
{
    enum { MOST = 24, LINE = 64 };
    dv_x *g = w->g;
    int n = w->next < MOST ? w->next : MOST;
    for (int i = 0; i < n && !w->p->pack_v; i++)
        dv_x_prefetch(g, DV_X_prefetch1, X_NEXT, i * LINE);
    if (!w->p->pack_v) {
        dv_x_add(g, X_NEXT, n * LINE);
        return;
    }
    for (int i = 0; i < n; i++) {
        for (int64_t off = 0; off < w->p->pack_v; off += LINE)
            dv_x_prefetch(g, DV_X_prefetch1, X_NEXT, off);
        dv_x_add(g, X_NEXT, w->p->ld_v);
    }
}

// Sets X_NEXT to the data that is read after this kernel, and w->next to the
// lines or rows of it that each tile prefetches.
static void start_next(walk *w, int tiles)
{
    dv_x *g = w->g;
    const dv_x_prod *p = w->p;
    int64_t lines = p->k * p->ld_v / 64;
    if (!w->next)
        return;
    w->next = (int)(((p->pack_v ? p->k : lines) + tiles - 1) / tiles);
    dv_x_lea(g, X_NEXT, X_B,
             p->pack_v ? (int64_t)p->n_v * g->es : p->k * p->ld_v);
}

// Emits a loop over `count` equal tiles below each other; `more` says that
// other tiles follow.
static void tiles(walk *w, const dv_x_prod *p, const dv_x_tile *t, int count,
                  int more)
{
    dv_x *g = w->g;
    if (count > 1)
        dv_x_set(g, X_M, count);
    size_t top = g->code->n;
    if (w->next)
        ask_for_next(w);
    dv_x_tile_emit(g, p, t);
    if (count > 1 || more)
        next_s(w, t->rows);
    if (count > 1)
        dv_x_again(g, X_M, top);
}

// Returns the batch as a single product with a longer k if its operands are
// contiguous in memory.
static dv_x_prod joined(const dv_x_prod *p)
{
    dv_x_prod q = *p;
    int64_t k = (int64_t)p->k * p->batch;
    int follows = !p->lane_k && p->stride_s == p->k * p->ld_s;
    if (follows && p->stride_v == p->k * p->ld_v && k < INT32_MAX) {
        q.k = (int32_t)k;
        q.batch = 1;
    }
    return q;
}

// Emits a column of tiles. The first tile packs the vector operand V (usually
// B) if pack_v is set.
static void along_s(walk *w, int cols, int nv)
{
    dv_x *g = w->g;
    const dv_runs *s = &w->grid->s;
    dv_x_prod p = *w->p;
    for (int i = 0; i < s->n; i++) {
        int rows = s->size[i], count = s->count[i], more = i + 1 < s->n;
        dv_x_tile t = {rows, cols, nv, sets_for(g, &p, rows, nv)};
        // In a panel of a transposed A, a row has as many elements as the panel
        // has rows.
        if (p.panel && !p.lane_k)
            p.ld_s = rows * g->es;
        if (p.pack_v) {
            tiles(w, &p, &t, 1, count > 1 || more);
            dv_x_get(g, X_B, X_ARGS, offsetof(dv_gemm_args, pack_b));
            p.ld_v = p.pack_v;
            p.pack_v = p.far_v = 0;
            count--;
        }
        dv_x_prod q = joined(&p);
        if (count)
            tiles(w, &q, &t, count, more);
    }
}

// Emits all columns of tiles. The last vector of the last column may be
// partial.
static void along_v(walk *w)
{
    dv_x *g = w->g;
    const dv_runs *v = &w->grid->v;
    int lanes = g->lanes, part = w->p->n_v % lanes;
    for (int i = 0; i < v->n; i++) {
        int cols = v->size[i] * lanes, last = i + 1 == v->n;
        int count = v->count[i] - (last && part);
        if (count > 1)
            dv_x_set(g, X_N, count);
        size_t top = g->code->n;
        if (count > 0) {
            along_s(w, cols, v->size[i]);
            if (count > 1 || !last || part)
                next_v(w, cols);
        }
        if (count > 1)
            dv_x_again(g, X_N, top);
        if (last && part)
            along_s(w, cols - lanes + part, v->size[i]);
    }
}

static dv_x_prod prod_of(const dv_x *g, const dv_gemm_shape *s)
{
    // Larger steps between rows are added to pointers; twelve steps of this
    // size still fit in a 32-bit displacement.
    enum { FAR_BYTES = 1 << 27 };
    int64_t es = g->es, ld_a = s->lda * es, ld_b = s->ldb * es;
    int64_t step_a = s->stride_a * es, step_b = s->stride_b * es;
    int turned = s->trans_b;
    dv_x_prod p = {.k = s->k, .batch = s->batch, .ldc = s->ldc * es};
    p.alpha = s->alpha;
    p.beta = s->beta;
    p.relu = s->relu;
    p.stream = s->stream;
    p.panel = s->panel_a && !s->pack_a;
    p.pack_s = s->pack_a;
    p.c_turned = turned;
    p.n_s = turned ? s->n : s->m;
    p.n_v = turned ? s->m : s->n;
    p.ld_s = turned ? ld_b : ld_a;
    p.ld_v = turned ? ld_a : ld_b;
    p.stride_s = turned ? step_b : step_a;
    p.stride_v = turned ? step_a : step_b;
    p.lane_k = turned || !s->trans_a;
    p.tile_rows = s->panel_a;
    p.one_sum = s->one_sum;
    if (s->pack_b)
        p.pack_v = (s->n + g->lanes - 1) / g->lanes * g->vb;
    p.bias = !s->bias ? 0 : (s->bias == DV_BIAS_M) != turned ? 1 : 2;
    p.far_v = p.ld_v > FAR_BYTES;
    p.far_s = !p.lane_k && !p.panel && p.ld_s > FAR_BYTES;
    return p;
}

// Returns the callee-saved registers that the loops over tiles need, as a bit
// mask.
static uint32_t saves(const walk *w, int many_v)
{
    const dv_x_prod *p = w->p;
    uint32_t out = 0;
    out |= w->many_s ? 1u << X_M : 0;
    out |= many_v ? 1u << X_N : 0;
    out |= w->many_s && many_v ? 1u << X_ABASE | 1u << X_CBASE : 0;
    out |= p->bias ? 1u << X_BIAS | 1u << X_BIASBASE : 0;
    out |= p->pack_v ? 1u << X_VPACK : 0;
    out |= p->pack_s ? 1u << X_SPACK : 0;
    return out | (w->next ? 1u << X_NEXT : 0);
}

static void start(walk *w, int many_v)
{
    dv_x *g = w->g;
    const dv_x_prod *p = w->p;
    const dv_runs *s = &w->grid->s;
    dv_x_enter(g, saves(w, many_v));
    if (p->c_turned) {
        dv_x_mov(g, X_TMP, X_A);
        dv_x_mov(g, X_A, X_B);
        dv_x_mov(g, X_B, X_TMP);
    }
    if (p->bias)
        dv_x_get(g, X_BIAS, X_ARGS, offsetof(dv_gemm_args, bias));
    if (p->pack_s)
        dv_x_get(g, X_SPACK, X_ARGS, offsetof(dv_gemm_args, pack_a));
    if (p->pack_v)
        dv_x_get(g, X_VPACK, X_ARGS, offsetof(dv_gemm_args, pack_b));
    start_next(w, s->count[0] + (s->n > 1 ? s->count[1] : 0));
    if (w->many_s && many_v) {
        dv_x_mov(g, X_ABASE, X_A);
        dv_x_mov(g, X_CBASE, X_C);
    }
    if (p->bias == 1)
        dv_x_mov(g, X_BIASBASE, X_BIAS);
}

// Describes a product of i8 without AMX as one of 4-byte words: each word is
// multiplied by a dot-product instruction as if it were an f32, and k counts
// words.
static dv_gemm_shape words_of(dv_x *g, const dv_isa *isa,
                              const dv_gemm_shape *s)
{
    dv_gemm_shape w = *s;
    int64_t bytes = s->k; // bytes of k, since an i8 element is one byte
    int64_t whole = isa->pairs_bytes;
    g->dot = DV_X_vdpbusd;
    g->fix = isa->pairs_fix;
    w.k = (int32_t)((bytes + whole - 1) / whole * whole / 4);
    w.ldb = (s->n + g->lanes - 1) / g->lanes * g->lanes;
    w.one_sum = 1;
    return w;
}

void dv_x64_gemm(dv_code *code, const dv_isa *isa, const dv_gemm_shape *given)
{
    dv_gemm_shape shape = *given, *s = &shape;
    dv_x gen, *g = &gen;
    dv_x_start(g, code, isa, s->dtype == DV_F64 ? 8 : 4);
    int narrow = s->dtype == DV_BF16 || s->dtype == DV_I8;
    g->ints = s->dtype == DV_I32 || s->dtype == DV_I8;
    if (narrow && isa->has_tiles) {
        dv_x_tiles_gemm(g, s);
        return;
    }
    if (narrow)
        shape = words_of(g, isa, given);
    if (s->trans_b && !s->trans_a) {
        dv_x_dot(g, s);
        return;
    }
    dv_x_prod p = prod_of(g, s);
    dv_cuts grid;
    choose(g, &p, &grid);
    // Panels of narrow types have the full height, except the last one.
    if (narrow && grid.s.n)
        grid.s = dv_runs_whole(s->m, s->panel_a);
    int many_v = grid.v.n > 1 || grid.v.count[0] > 1;
    // A kernel that packs an operand works on a single panel of the vector
    // operand V.
    if (!grid.s.n || (many_v && (p.pack_s || p.pack_v))) {
        code->failed = 1;
        return;
    }
    walk w = {g, &p, &grid, grid.s.n > 1 || grid.s.count[0] > 1, .next = 0};
    w.next = w.many_s && !many_v && !p.far_v && (s->next_b || s->pack_b);
    start(&w, many_v);
    along_v(&w);
    dv_x_leave(g);
}
