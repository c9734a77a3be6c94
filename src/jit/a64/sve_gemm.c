// A whole product from register tiles of SVE vectors.
//
// Which operand is read as vectors follows from how they are stored:
//
//   A any, B rows of n          S = A, V = B
//   A rows of m, B rows of k    S = B, V = A, C turned
//   A rows of k, B rows of k    dot products (sve_dot.c)
//
// The results are cut into tiles as even as possible: at most two heights and
// three widths, each with its own code, in loops where there are many. A column
// of tiles reads one panel of V; the first column can leave S in panels, the
// first tile of each column V. Pairs are NEON's, whose registers are the low
// sixteen bytes of these.
#include "jit/a64/sve.h"

// Tiles of one height or width, one after the other.
typedef struct run {
    int size, count;
} run;

typedef struct grid {
    run s[2], v[2]; // rows; vectors
    int n_s, n_v;   // runs
} grid;

static int cut(int n, int most, run out[2])
{
    dv_cut even = dv_cut_even(n, most);
    int runs = 0;
    if (even.n)
        out[runs++] = (run){even.size, even.n};
    if (even.n_larger)
        out[runs++] = (run){even.size + 1, even.n_larger};
    return runs;
}

// -- Choosing ----------------------------------------------------------------

typedef struct size {
    int rows, nv;
} size;

static const size sizes[] = {{6, 3}, {5, 4}, {4, 5}, {8, 2},
                             {4, 4}, {3, 6}, {2, 8}, {1, 8}};

// Quarters of a cycle: two multiply-adds or two loads a cycle, but a step is
// not shorter than a chain of them waits.
static int64_t tile_cost(const dv_gen *g, const dv_z_prod *p, int rows, int nv)
{
    enum { WAIT = 12, ENDS = 60 };
    dv_z_tile t;
    if (!dv_z_tile_make(g, p, rows, nv * g->lanes, &t))
        return INT64_MAX / 4096;
    int64_t fma = rows * nv, wait = WAIT / t.sets;
    int64_t busy = fma > wait ? fma : wait;
    int64_t loads = nv + (p->lane_k ? (rows + 3) / 4 : t.n_s);
    return (int64_t)p->k * p->batch * (8 * busy + loads) +
           8 * (ENDS + (p->c_turned ? g->lanes : 2) * fma);
}

static int64_t grid_cost(const dv_gen *g, const dv_z_prod *p, const grid *c)
{
    int64_t sum = 0;
    for (int i = 0; i < c->n_s; i++)
        for (int j = 0; j < c->n_v; j++)
            sum += c->s[i].count * (int64_t)c->v[j].count *
                   tile_cost(g, p, c->s[i].size, c->v[j].size);
    return sum;
}

// Panels decide how high tiles are, and tiles are as wide as they can be then,
// whatever else is asked: what one kernel packs others read.
static void choose_panels(const dv_gen *g, const dv_z_prod *p, grid *out)
{
    int vectors = (p->n_v + g->lanes - 1) / g->lanes, nv = 8;
    dv_z_prod q = *p;
    dv_z_tile t;
    q.panel = !p->pack_s;
    q.one_sum = 1;
    while (nv && !dv_z_tile_make(g, &q, p->tile_rows, nv * g->lanes, &t))
        nv--;
    out->n_s = nv ? cut(p->n_s, p->tile_rows, out->s) : 0;
    out->n_v = nv ? cut(vectors, nv, out->v) : 0;
}

static void choose(const dv_gen *g, const dv_z_prod *p, grid *out)
{
    int vectors = (p->n_v + g->lanes - 1) / g->lanes;
    int64_t best = -1;
    *out = (grid){.n_s = 0};
    if (p->dots) {
        out->n_s = cut(p->n_s, DV_Z_DOT, out->s);
        out->n_v = cut(p->n_v, DV_Z_DOT, out->v);
        return;
    }
    if (p->tile_rows) {
        choose_panels(g, p, out);
        return;
    }
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const size *z = &sizes[i];
        int rows = p->n_s < z->rows ? p->n_s : z->rows;
        int nv = vectors < z->nv ? vectors : z->nv;
        dv_z_tile t;
        grid c;
        if (!dv_z_tile_make(g, p, rows, nv * g->lanes, &t))
            continue;
        c.n_s = cut(p->n_s, rows, c.s);
        c.n_v = cut(vectors, nv, c.v);
        int64_t cost = grid_cost(g, p, &c);
        if (best < 0 || cost < best) {
            best = cost;
            *out = c;
        }
    }
}

// -- Loops over tiles --------------------------------------------------------

typedef struct walk {
    dv_gen *g;
    dv_z_prod p;
    grid c;
    int unit;           // columns of a vector; of dot products one
    int many_s, many_v; // more than one tile
} walk;

// Advance one tile along S.
static void next_s(walk *w, const dv_z_prod *p, int rows)
{
    dv_gen *g = w->g;
    int64_t k = p->k, quad = dv_z_quad(g);
    int64_t wide = p->lane_k ? (k + quad - 1) / quad * quad : k; // of a panel
    dv_gen_add(g, X_A, X_A,
               rows * (p->panel    ? wide * g->es
                       : p->lane_k ? p->ld_s
                                   : g->es));
    dv_gen_add(g, X_C, X_C, rows * (p->c_turned ? g->es : p->ldc));
    if (p->bias == 1)
        dv_gen_add(g, X_BIAS, X_BIAS, (int64_t)rows * g->es);
}

// `count` tiles one below the other.
static void tiles(walk *w, const dv_z_prod *p, const dv_z_tile *t, int count,
                  int more)
{
    dv_gen *g = w->g;
    int rest = t->rows % dv_z_quad(g);
    if (!p->lane_k && rest)
        dv_z_first(g, P_ROWS, rest);
    if (count > 1)
        dv_gen_mov(g, X_M, count);
    size_t top = g->code->n;
    if (p->dots)
        dv_z_dot_emit(g, p, t);
    else
        dv_z_tile_emit(g, p, t);
    if (count > 1 || more)
        next_s(w, p, t->rows);
    if (count > 1)
        dv_gen_again(g, X_M, top);
}

// Products that follow each other are one, with a longer k.
static dv_z_prod joined(const dv_z_prod *p)
{
    dv_z_prod q = *p;
    int64_t k = (int64_t)p->k * p->batch;
    int follows = !p->lane_k && p->stride_s == p->k * p->ld_s;
    if (follows && p->stride_v == p->k * p->ld_v && k < INT32_MAX) {
        q.k = (int32_t)k;
        q.batch = 1;
    }
    return q;
}

// A column of tiles. The first one packs V, if that is asked for.
static void column(walk *w, const dv_z_prod *whole, int cols, int nv)
{
    dv_gen *g = w->g;
    dv_z_prod p = *whole;
    for (int i = 0; i < w->c.n_s; i++) {
        int rows = w->c.s[i].size, count = w->c.s[i].count;
        int more = i + 1 < w->c.n_s;
        dv_z_tile t = {.rows = rows, .cols = cols};
        if (p.panel && !p.lane_k) // rows of k are as wide as the panel
            p.ld_s = rows * g->es;
        if (!p.dots && !dv_z_tile_make(g, &p, rows, cols, &t))
            g->code->failed = 1;
        if (p.pack_v) {
            tiles(w, &p, &t, 1, count > 1 || more);
            DV_E(ldr_x, X_B, X_ARGS, offsetof(dv_gemm_args, pack_b), 0);
            p.ld_v = nv * dv_z_vector(g);
            p.pack_v = 0;
            count--;
        }
        dv_z_prod q = joined(&p);
        if (count)
            tiles(w, &q, &t, count, more);
    }
}

// A column at the bases, which go on to the next one.
static void next_column(walk *w, int cols, int nv)
{
    dv_gen *g = w->g;
    const dv_z_prod *p = &w->p;
    if (!w->many_v) {
        column(w, p, cols, nv);
        return;
    }
    DV_E(mov_x, X_B, 0, X_VBASE, 0);
    DV_E(mov_x, X_C, 0, X_CBASE, 0);
    DV_E(mov_x, X_A, 0, X_ABASE, 0);
    if (p->bias == 1)
        DV_E(mov_x, X_BIAS, 0, X_BIASBASE, 0);
    column(w, p, cols, nv);
    dv_gen_add(g, X_VBASE, X_VBASE, cols * (p->dots ? p->ld_v : g->es));
    dv_gen_add(g, X_CBASE, X_CBASE, cols * (p->c_turned ? p->ldc : g->es));
    if (p->bias == 2)
        dv_gen_add(g, X_BIAS, X_BIAS, (int64_t)cols * g->es);
}

// The last vector of the very last column may be a part.
static void columns(walk *w)
{
    dv_gen *g = w->g;
    int lanes = w->unit, part = w->p.n_v % lanes;
    for (int i = 0; i < w->c.n_v; i++) {
        int nv = w->c.v[i].size, last = i + 1 == w->c.n_v && part;
        int count = w->c.v[i].count - last;
        if (count > 1)
            dv_gen_mov(g, X_N, count);
        size_t top = g->code->n;
        if (count > 0)
            next_column(w, nv * lanes, nv);
        if (count > 1)
            dv_gen_again(g, X_N, top);
        if (last)
            next_column(w, (nv - 1) * lanes + part, nv);
    }
}

// -- Entry -------------------------------------------------------------------

static dv_z_prod prod_of(const dv_gemm_shape *s, int64_t es)
{
    int dots = s->trans_b && !s->trans_a, turned = s->trans_b && !dots;
    int64_t ld_a = s->lda * es, ld_b = s->ldb * es;
    int64_t step_a = s->stride_a * es, step_b = s->stride_b * es;
    dv_z_prod p = {.k = s->k, .batch = s->batch, .ldc = s->ldc * es};
    p.n_s = turned ? s->n : s->m;
    p.n_v = turned ? s->m : s->n;
    p.ld_s = turned ? ld_b : ld_a;
    p.ld_v = turned ? ld_a : ld_b;
    p.stride_s = turned ? step_b : step_a;
    p.stride_v = turned ? step_a : step_b;
    p.dots = dots;
    p.lane_k = turned || !s->trans_a;
    p.panel = s->panel_a && !s->pack_a;
    p.tile_rows = s->panel_a;
    p.c_turned = turned;
    p.one_sum = s->one_sum;
    p.pack_s = s->pack_a;
    p.pack_v = s->pack_b;
    p.bias = !s->bias ? 0 : (s->bias == DV_BIAS_M) != turned ? 1 : 2;
    p.alpha = s->alpha;
    p.beta = s->beta;
    p.relu = s->relu;
    return p;
}

// Registers over all tiles.
static int count_regs(const walk *w)
{
    int most = w->p.dots ? dv_z_dot_regs() : 0;
    for (int i = 0; !w->p.dots && i < w->c.n_s; i++)
        for (int j = 0; j < w->c.n_v; j++) {
            dv_z_tile t;
            int cols = w->c.v[j].size * w->g->lanes;
            dv_z_tile_make(w->g, &w->p, w->c.s[i].size, cols, &t);
            int n = dv_z_tile_regs(w->g, &t);
            most = n > most ? n : most;
        }
    return most;
}

static void start(walk *w)
{
    dv_gen *g = w->g;
    const dv_z_prod *p = &w->p;
    int rest_v = p->n_v % w->unit;
    int rest_k = p->k % (p->dots ? g->lanes : dv_z_quad(g));
    DV_E(ptrue_b, P_ALL, 0, 0, 0);
    if (rest_v)
        dv_z_first(g, P_PART, rest_v);
    if (p->lane_k && rest_k)
        dv_z_first(g, P_K, rest_k);
    if (!dv_gen_fits_add(p->ld_s))
        dv_gen_mov(g, X_LDA, p->ld_s);
    if (!dv_gen_fits_add(p->ld_v))
        dv_gen_mov(g, X_LDB, p->ld_v);
    if (!dv_gen_fits_add(p->ldc))
        dv_gen_mov(g, X_LDC, p->ldc);
    if (p->bias)
        DV_E(ldr_x, X_BIAS, X_ARGS, offsetof(dv_gemm_args, bias), 0);
    if (p->pack_s)
        DV_E(ldr_x, X_SPACK, X_ARGS, offsetof(dv_gemm_args, pack_a), 0);
    if (p->pack_v)
        DV_E(ldr_x, X_VPACK, X_ARGS, offsetof(dv_gemm_args, pack_b), 0);
    if (!w->many_v)
        return;
    DV_E(mov_x, X_ABASE, 0, X_A, 0);
    DV_E(mov_x, X_VBASE, 0, X_B, 0);
    DV_E(mov_x, X_CBASE, 0, X_C, 0);
    if (p->bias == 1)
        DV_E(mov_x, X_BIASBASE, 0, X_BIAS, 0);
}

static void product(dv_gen *g, const dv_gemm_shape *s)
{
    walk w = {.g = g, .p = prod_of(s, g->es)};
    const dv_z_prod *p = &w.p;
    w.unit = p->dots ? 1 : g->lanes;
    choose(g, p, &w.c);
    w.many_s = w.c.n_s > 1 || w.c.s[0].count > 1;
    w.many_v = w.c.n_v > 1 || w.c.v[0].count > 1;
    int packs = p->pack_s || p->pack_v; // one panel of V
    if (!w.c.n_s || (packs && w.many_v)) {
        g->code->failed = 1;
        return;
    }
    g->n_vregs = count_regs(&w);
    g->saves_x = w.many_s || w.many_v || p->bias || !dv_gen_fits_add(p->ld_s) ||
                 !dv_gen_fits_add(p->ld_v) || !dv_gen_fits_add(p->ldc);
    dv_gen_enter(g);
    if (p->c_turned) {
        DV_E(mov_x, X_TMP, 0, X_A, 0);
        DV_E(mov_x, X_A, 0, X_B, 0);
        DV_E(mov_x, X_B, 0, X_TMP, 0);
    }
    start(&w);
    columns(&w);
    dv_gen_leave(g);
}

void dv_sve_gemm(dv_code *code, const dv_isa *isa, const dv_gemm_shape *s)
{
    int es = s->dtype == DV_F64 ? 8 : 4, lanes = isa->vector_bytes / es;
    int pairs = s->dtype == DV_BF16 || s->dtype == DV_I8;
    // Offsets of f32 down a column of C are 32 bits.
    int far =
        s->trans_a && s->trans_b && es == 4 && lanes * s->ldc * es > INT32_MAX;
    dv_gen gen = {.code = code, .es = es, .lanes = lanes};
    gen.ints = s->dtype == DV_I32;
    if (pairs || far)
        dv_a64_gemm(code, isa, s);
    else
        product(&gen, s);
}

int dv_sve_peak(dv_code *code, const dv_isa *isa, int dtype)
{
    enum { CHAINS = 20, X_TURNS = 0 };
    dv_gen gen = {.code = code, .es = dtype == DV_F64 ? 8 : 4}, *g = &gen;
    int last = dv_gen_reg(CHAINS);
    if (dtype != DV_F32 && dtype != DV_F64 && dtype != DV_I32)
        return dv_a64_peak(code, isa, dtype);
    g->ints = dtype == DV_I32;
    DV_E(ptrue_b, P_ALL, 0, 0, 0);
    for (int i = 0; i <= CHAINS; i++)
        DV_E(movi_0, dv_gen_reg(i), 0, 0, 0);
    size_t top = code->n;
    for (int i = 0; i < CHAINS; i++)
        DV_EZ(zfmla_, dv_gen_reg(i), last, last, P_ALL);
    dv_gen_again(g, X_TURNS, top);
    DV_E(ret, 0, 0, 0, 0);
    return CHAINS * 2 * isa->vector_bytes / g->es;
}
