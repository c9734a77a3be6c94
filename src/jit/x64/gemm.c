// Generates a whole matrix product from register tiles.
//
// The storage order decides which operand is read as vectors (V) and which as
// scalars (S):
//
//   A any, B rows of n            S = A, V = B
//   A rows of m, B rows of k      S = B, V = A, C transposed
//   A rows of k, B rows of k      dot products (dot.c)
#include "jit/x64/tile.h"
#include <limits.h>

typedef struct tile_size {
    int rows, nv;
} tile_size;

static const tile_size sizes_16[] = {{6, 2}, {4, 3}, {12, 1}, {3, 3},
                                     {2, 4}, {8, 1}, {2, 1},  {1, 1}};
static const tile_size sizes_32[] = {{8, 3},  {14, 2}, {6, 4}, {4, 6},
                                     {24, 1}, {9, 3},  {2, 8}, {1, 1}};

// Returns the number of sets of accumulators of a tile: successive steps of k
// add to different sets, which are added up at the end. With few accumulators
// and a long k, several sets hide the latency of the multiply-adds.
static int sets_for(const dv_x *g, const dv_prod *p, int rows, int nv)
{
    int n = rows * nv;
    int sets = p->one_sum || p->k < 16 ? 1 : n <= 2 ? 4 : n <= 5 ? 2 : 1;
    dv_prod_tile t = {rows, nv * g->lanes - 1, nv, sets};
    while (t.sets > 1 && !dv_x_tile_fits(g, p, &t))
        t.sets /= 2;
    return t.sets;
}

enum { N_SIZES = 8 };
#define candidates(g)         ((g)->masks ? sizes_32 : sizes_16)
#define MOST_ROWS(g, p)       ((p)->c_transposed ? (g)->lanes : INT_MAX)
#define AHEAD(reg, base, off) dv_x_lea(g, reg, base, off)
#define PREFETCH(near, off)   dv_x_prefetch(g, DV_X_prefetch1, X_NEXT, off, 1)
#define NEXT_ROW(p)           dv_x_add(g, X_NEXT, (p)->ld_v)
#define TILE(p, t)            dv_x_tile_emit(g, p, t)
#define SETS(p, rows, nv)     sets_for(g, p, rows, nv)
#define SPREADS(p, t, lines)  dv_x_tile_spreads(p, t, lines)
enum { MOST_LINES = 24 };
#include "jit/gemm/walk.h"

// Estimates the cost of a tile in sixteenths of a cycle. A cycle has two
// multiply-adds or two loads, and a step of k takes at least the latency of a
// multiply-add divided by the number of accumulator sets.
static int64_t tile_cost(const dv_x *g, const dv_prod *p, int rows, int nv)
{
    enum { WAIT = 8, ENDS = 60 };
    int64_t fma = rows * nv, loads = rows + nv;
    int64_t busy = fma > loads ? fma : loads;
    int64_t wait = WAIT / sets_for(g, p, rows, nv);
    busy = busy > wait ? busy : wait;
    return (int64_t)p->k * p->batch * (8 * busy + loads) + 8 * (ENDS + 3 * fma);
}

static int64_t tiles_cost(const dv_x *g, const dv_prod *p, const tile_size *z,
                          const dv_cuts *c)
{
    int64_t sum = 0;
    (void)z;
    for (int i = 0; i < c->s.n; i++)
        for (int j = 0; j < c->v.n; j++)
            sum += c->s.count[i] * (int64_t)c->v.count[j] *
                   tile_cost(g, p, c->s.size[i], c->v.size[j]);
    return sum;
}

static int tile_fits(const dv_x *g, const dv_prod *p, const tile_size *z,
                     int rows, int nv, int n_vectors)
{
    // If the columns are not a multiple of the lanes, assume that the tile has
    // a partial vector.
    int part = p->n_v % g->lanes != 0;
    dv_prod_tile t = {rows, nv * g->lanes - part, nv, 1};
    (void)z, (void)n_vectors;
    return dv_x_tile_fits(g, p, &t);
}

static dv_prod prod_of(const dv_x *g, const dv_gemm_shape *s)
{
    // Strides of more than FAR_BYTES from step to step of k are added to
    // pointers; twelve strides of this size still fit in a 32-bit displacement.
    enum { FAR_BYTES = 1 << 27 };
    dv_prod p = dv_prod_of(s, g->es, g->lanes);
    p.stream = s->stream;
    p.far_v = p.ld_v > FAR_BYTES;
    p.far_s = !p.lane_k && !p.panel && p.ld_s > FAR_BYTES;
    return p;
}

// Returns the callee-saved registers that the loops over tiles need, as a bit
// mask.
static uint32_t saves(const walk *w)
{
    const dv_prod *p = w->p;
    uint32_t out = 0;
    out |= w->many_s ? 1u << X_M : 0;
    out |= w->many_v ? 1u << X_N : 0;
    out |= w->many_s && w->many_v ? 1u << X_ABASE | 1u << X_CBASE : 0;
    out |= p->bias ? 1u << X_BIAS | 1u << X_BIASBASE : 0;
    out |= p->pack_v ? 1u << X_VPACK : 0;
    out |= p->pack_s ? 1u << X_SPACK : 0;
    return out | (w->next ? 1u << X_NEXT : 0);
}

static void start(walk *w)
{
    dv_x *g = w->g;
    const dv_prod *p = w->p;
    dv_x_prologue(g, saves(w));
    swap(w);
    get_args(w);
    if (w->many_s && w->many_v) {
        DV_MOV(X_ABASE, X_A);
        DV_MOV(X_CBASE, X_C);
    }
    if (p->bias == 1)
        DV_MOV(X_BIASBASE, X_BIAS);
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
    g->fix = isa->i8_correction;
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
        dv_x_amx_gemm(g, s);
        return;
    }
    if (narrow)
        shape = words_of(g, isa, given);
    if (s->trans_b && !s->trans_a) {
        dv_x_dot(g, s);
        return;
    }
    dv_prod p = prod_of(g, s);
    dv_cuts grid = choose(g, &p);
    // Packed panels of A of a narrow type have the full height, except the last
    // one, so the tiles must have the same heights.
    if (narrow && grid.s.n)
        grid.s = dv_runs_whole(s->m, s->panel_a);
    int many_v = grid.v.n > 1 || grid.v.count[0] > 1;
    // A kernel that packs an operand works on a single panel of the operand
    // read as vectors (usually B); for other shapes, generating it fails.
    if (!grid.s.n || (many_v && (p.pack_s || p.pack_v))) {
        code->failed = 1;
        return;
    }
    walk w = {.g = g, .p = &p, .grid = &grid, .many_v = many_v};
    w.many_s = grid.s.n > 1 || grid.s.count[0] > 1;
    w.next = w.many_s && !many_v && !p.far_v && (s->next_b || s->pack_b);
    start(&w);
    emit_tile_columns(&w);
    dv_x_epilogue(g);
}
