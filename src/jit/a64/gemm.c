// Generates a whole product as loops over register tiles.
//
// How the operands are stored decides which of them is read as vectors (V), and
// which as scalars, lanes of a vector (S):
//
//   A rows of k, B rows of n    S = A, lanes of k      V = B
//   A rows of m, B rows of n    S = A, lanes of rows   V = B
//   A rows of m, B rows of k    S = B, lanes of k      V = A, C transposed
//   A rows of k, B rows of k    dot products (dot.c)
#include "base/math.h"
#include "jit/a64/tile.h"
#include <limits.h>

// Returns the number of sets of accumulators of a tile: successive steps of k
// add to different sets, which are added up at the end. Tiles with few
// accumulators and a long k use several sets so that there are enough
// independent multiply-adds to fill the pipelines.
static int sets_for(const dv_prod *p, int rows, int nv)
{
    int n = rows * nv;
    return p->c_transposed || p->one_sum || p->k < 16 ? 1
           : n <= 4                                   ? 4
           : n <= 8                                   ? 2
                                                      : 1;
}

// A candidate tile with measured costs beyond its multiply-adds: `waste` in
// thousandths of the time of the multiply-adds, `ends` in quarters of a cycle
// for the start and the end of a tile.
typedef struct tile_size {
    int rows, nv, waste, ends;
} tile_size;

static const tile_size sizes[] = {
    {6, 3, 45, 44}, {4, 5, 10, 52}, {5, 4, 50, 46},  {8, 2, 75, 26},
    {4, 4, 15, 64}, {3, 6, 60, 50}, {2, 6, 100, 50}, {4, 6, 5, 20}};

enum { N_SIZES = sizeof sizes / sizeof *sizes };
#define candidates(g)   sizes
#define MOST_ROWS(g, p) INT_MAX
#define AHEAD(reg, base, off)                                                  \
    (dv_gen_mov(g, reg, off), DV_E(add_x, reg, reg, base, 0))
#define PREFETCH(near, off)  DV_E(prfm, near ? LOAD_L1 : LOAD_L2, X_NEXT, off, 0)
#define NEXT_ROW(p)          dv_tile_step(g, X_NEXT, (p)->ld_v, X_LDB)
#define TILE(p, t)           dv_tile_emit(g, p, t)
#define SETS(p, rows, nv)    sets_for(p, rows, nv)
#define SPREADS(p, t, lines) 0
enum { MOST_LINES = 16 };
#include "jit/gemm/walk.h"

// A tile fits the 32 vector registers with its accumulators and two rings
// (registers that are loaded in turn): one for the operand read as vectors
// (usually B) and one for the operand read as scalars (usually A).
static int tile_fits(const dv_gen *g, const dv_prod *p, const tile_size *z,
                     int rows, int nv, int n_vectors)
{
    int s = p->lane_k ? rows : (rows + g->lanes - 1) / g->lanes;
    // The low costs measured for 24 accumulators do not hold for a tile that
    // the product's extents make smaller, so the candidate needs full tiles.
    if ((p->c_transposed && rows * nv > 20) ||
        (z->rows * z->nv == 24 && (rows < 4 || n_vectors % 6)))
        return 0;
    // Tiles of more than 20 accumulators hold only what one step of k reads of
    // the operand read as vectors and what two steps read of the operand read
    // as scalars; smaller tiles hold more.
    if (rows * nv > 20)
        return rows * nv + nv + 2 * s <= 32;
    return rows * nv + nv + s + 1 <= 32;
}

// The cost is in thousandths of a quarter of a cycle. Four multiply-adds start
// per cycle, but a step of k takes at least SHORTEST quarters of a cycle,
// because each accumulator has to wait for its previous multiply-add.
static int64_t tiles_cost(const dv_gen *g, const dv_prod *p, const tile_size *z,
                          const dv_cuts *c)
{
    enum { SHORTEST = 13 };
    (void)g;
    // Number of tiles, number of accumulators of all tiles, and quarters of a
    // cycle that one step of k takes over all tiles.
    int64_t tiles = 0, all = 0, steps = 0;
    for (int i = 0; i < c->s.n; i++)
        for (int j = 0; j < c->v.n; j++) {
            int64_t n = c->s.count[i] * (int64_t)c->v.count[j];
            int fma = c->s.size[i] * c->v.size[j];
            tiles += n;
            all += n * fma;
            steps += n * (fma > SHORTEST ? fma : SHORTEST);
        }
    return (int64_t)p->k * p->batch * steps * (1000 + z->waste) +
           1000 * (z->ends * tiles + all);
}

static dv_prod prod_of(const dv_isa *isa, const dv_gemm_shape *s,
                       const dv_gen *g)
{
    dv_prod p = dv_prod_of(s, g->es, g->lanes);
    p.prefetch_s = s->ahead_a == DV_AHEAD_PREFETCH;
    if (s->ahead_a == DV_AHEAD_COPY) {
        p.copy_steps = s->k / (s->m / isa->copy_tile_rows);
        p.ld_s = s->m * g->es;
        p.step_c = s->step_c * g->es;
        p.tile_rows = isa->copy_tile_rows;
    }
    return p;
}

// Returns the largest number of vector registers that a tile of the cut needs.
// A batch (products that are summed) that is merged into k can need more than a
// loop over the batch, since its rings of operand registers (registers that are
// loaded in turn) are larger.
static int count_regs(const dv_gen *g, const dv_prod *p, const dv_cuts *grid)
{
    dv_prod one = dv_prod_joined(p);
    int most = 0;
    for (int i = 0; i < grid->s.n; i++)
        for (int j = 0; j < grid->v.n; j++) {
            int rows = grid->s.size[i], nv = grid->v.size[j];
            dv_prod_tile t = {rows, nv * g->lanes, nv, sets_for(p, rows, nv)};
            int acc = t.sets * rows * nv;
            most = (int)dv_max_i64(most, dv_tile_regs(g, p, &t));
            if (one.batch != p->batch)
                most = (int)dv_max_i64(most, dv_tile_regs(g, &one, &t));
            most = (int)dv_max_i64(most, acc + (p->c_transposed ? 8 : 1 + nv));
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
}

static void start_copying(dv_gen *g, const dv_gemm_shape *s)
{
    DV_GET(X_NEXT, next);
    DV_GET(X_SPACK, pack_a);
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
    w.twice = p->beta == DV_SCALE_ZERO && !p->pack_v;
    return w;
}

// Emits the function entry: saves registers, and loads strides, bias and base
// addresses.
static void enter(walk *w, const dv_gemm_shape *s)
{
    dv_gen *g = w->g;
    const dv_prod *p = w->p;
    g->n_vregs = count_regs(g, p, w->grid);
    g->saves_x = w->many_s || w->many_v || w->spread || p->bias ||
                 p->copy_steps || !dv_gen_fits_add(p->ld_s) ||
                 !dv_gen_fits_add(p->ld_v) || !dv_gen_fits_add(p->ldc);
    dv_gen_enter(g);
    swap(w);
    constants(g, p);
    get_args(w);
    if (p->copy_steps)
        start_copying(g, s);
    if (w->many_s) {
        DV_MOV(X_ABASE, X_A);
        DV_MOV(X_CBASE, X_C);
    }
    if (p->bias == 1 && w->many_s)
        DV_MOV(X_BIASBASE, X_BIAS);
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
    dv_prod p = prod_of(isa, s, g);
    dv_cuts grid = choose(g, &p);
    // A kernel that packs an operand (copies it into contiguous panels) can
    // have only one panel of the operand read as vectors (usually B); for other
    // shapes, generating the kernel fails.
    int packs = p.pack_s || p.pack_v;
    if (!grid.s.n || (packs && (grid.v.n > 1 || grid.v.count[0] > 1))) {
        code->failed = 1;
        return;
    }
    walk w = walk_of(g, &p, &grid, s);
    enter(&w, s);
    emit_tile_columns(&w);
    dv_gen_leave(g);
}
