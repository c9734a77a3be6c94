// The loop over k of a register tile.
//
// V is loaded one or two steps ahead, into the register that the last
// multiply-add of a column has just left:
//
//   step s    acc(0..rows, j) += v(s, j) * s(0..rows)    then load v(s+ahead,
//   j)
//
// so the loop ends before the steps whose loads would be beyond V.
#include "jit/a64/sve.h"
#include <limits.h>

enum { UNROLL = 8 };    // steps of a turn: whole sixteen bytes, whole rings
enum { MOST_ROWS = 6 }; // that have pointers of their own
enum { MOST_S = 8 };    // registers that multiply-adds by lane reach
enum { END_REGS = 3 };  // that dv_z_tile_store takes

typedef struct kloop {
    dv_gen *g;
    const dv_z_prod *p;
    const dv_z_tile *t;
    int group; // steps that a load of S feeds
    int v;     // first register of V, in the order of use
    int limit; // steps of the loop or its rest; V has so many to come
} kloop;

// -- Registers ---------------------------------------------------------------

int dv_z_tile_regs(const dv_gen *g, const dv_z_tile *t)
{
    int v = t->ahead * t->nv + g->ints;
    v = v > END_REGS ? v : END_REGS;
    return t->n_s + t->sets * t->rows * t->nv + v;
}

// Few sums and a long k: as many partial sums as keep the units busy.
static int sets_for(const dv_z_prod *p, int n)
{
    return p->one_sum || p->k < 16 ? 1 : n <= 4 ? 4 : n <= 8 ? 2 : 1;
}

int dv_z_tile_make(const dv_gen *g, const dv_z_prod *p, int rows, int cols,
                   dv_z_tile *out)
{
    enum { REGS = 32, MOST_VECTORS = 8 }; // offsets of vectors end there
    int quad = dv_z_quad(g), nv = (cols + g->lanes - 1) / g->lanes;
    int n_s = p->lane_k ? rows : (rows + quad - 1) / quad;
    dv_z_tile t = {rows, cols, nv, sets_for(p, rows * nv), n_s, 2};
    if (nv > MOST_VECTORS || n_s > MOST_S ||
        (p->lane_k && !p->panel && rows > MOST_ROWS))
        return 0;
    while (dv_z_tile_regs(g, &t) > REGS && t.sets > 1)
        t.sets /= 2;
    if (dv_z_tile_regs(g, &t) > REGS)
        t.ahead = 1;
    *out = t;
    return dv_z_tile_regs(g, &t) <= REGS;
}

void dv_z_first(dv_gen *g, int predicate, int n)
{
    enum { X_ZERO = 31 };
    dv_gen_mov(g, X_TMP, n);
    DV_ES(whilelo_, predicate, X_ZERO, X_TMP, 0);
}

// -- Loads -------------------------------------------------------------------

static int reg_of_v(const kloop *l, int step, int j)
{
    return dv_gen_reg(l->v + step % l->t->ahead * l->t->nv + j);
}

static void load_v(kloop *l, int step, int j)
{
    dv_gen *g = l->g;
    int v = reg_of_v(l, step, j), last = j + 1 == l->t->nv;
    DV_ES(zld1_, v, X_BRUN, j, dv_z_mask(g, l->t, j));
    if (l->p->pack_v) // zeros where there is nothing
        DV_ES(zst1_, v, X_VPACK, j, P_ALL);
    if (last)
        dv_z_step(g, X_BRUN, l->p->ld_v, X_LDB);
    if (last && l->p->pack_v)
        dv_gen_add(g, X_VPACK, X_VPACK, l->t->nv * dv_z_vector(g));
}

// Sixteen bytes of k of every row, fewer where k ends.
static void load_s_k(kloop *l, int step)
{
    dv_gen *g = l->g;
    int rows = l->t->rows, whole = l->limit - step >= l->group;
    for (int i = 0; i < rows; i++) {
        int s = dv_gen_reg(i);
        if (l->p->panel)
            DV_ES(zld1rq_, s, X_ROW, 16 * i, P_ALL);
        else
            DV_ES(zld1rq_, s, X_ROW + i, (int64_t)step * g->es,
                  whole ? P_ALL : P_K);
        if (l->p->pack_s)
            dv_gen_store(g, s, X_SPACK, 16 * i, 16);
    }
    if (l->p->panel)
        dv_gen_add(g, X_ROW, X_ROW, 16 * rows);
    if (l->p->pack_s)
        dv_gen_add(g, X_SPACK, X_SPACK, 16 * rows);
}

// All rows of one k.
static void load_s_m(kloop *l)
{
    dv_gen *g = l->g;
    int rows = l->t->rows, quad = dv_z_quad(g);
    for (int i = 0; i < l->t->n_s; i++) {
        int left = rows - i * quad, s = dv_gen_reg(i);
        int n = left < quad ? left : quad;
        DV_ES(zld1rq_, s, X_ROW, 16 * i, n < quad ? P_ROWS : P_ALL);
        if (l->p->pack_s)
            dv_gen_store(g, s, X_SPACK, 16 * i, n * g->es);
    }
    dv_z_step(g, X_ROW, l->p->ld_s, X_LDA);
    if (l->p->pack_s)
        dv_gen_add(g, X_SPACK, X_SPACK, (int64_t)rows * g->es);
}

// -- Steps -------------------------------------------------------------------

static void multiply_add(kloop *l, int acc, int v, int s, int lane)
{
    dv_gen *g = l->g;
    if (g->es == 8)
        DV_E(zfmla_x_d, acc, v, s, lane);
    else
        DV_E(zfmla_x_s, acc, v, s, lane);
}

// Columns one after the other; of whole numbers rows, whose scalar must be
// spread out first.
static void one_step(kloop *l, int step)
{
    dv_gen *g = l->g;
    const dv_z_tile *t = l->t;
    int quad = dv_z_quad(g), set = step % t->sets;
    int wide = g->ints ? dv_gen_reg(l->v + t->ahead * t->nv) : 0; // a scalar
    if (!l->p->lane_k)
        load_s_m(l);
    else if (step % l->group == 0)
        load_s_k(l, step);
    for (int x = 0; x < t->rows * t->nv; x++) {
        int i = g->ints ? x / t->nv : x % t->rows;
        int j = g->ints ? x % t->nv : x / t->rows;
        int lane = l->p->lane_k ? step % quad : i % quad;
        int s = dv_gen_reg(l->p->lane_k ? i : i / quad);
        int acc = dv_z_acc(t, set, i, j), v = reg_of_v(l, step, j);
        if (g->ints && j == 0)
            DV_E(zdup_s, wide, s, lane, 0);
        if (g->ints)
            DV_E(zfmla_i, acc, v, wide, P_ALL);
        else
            multiply_add(l, acc, v, s, lane);
        if (i + 1 == t->rows && step + t->ahead < l->limit)
            load_v(l, step + t->ahead, j);
    }
}

// Pointers to rows; others move with their loads.
static void move_rows(kloop *l, int64_t bytes)
{
    dv_gen *g = l->g;
    for (int i = 0; i < l->t->rows; i++)
        dv_gen_add(g, X_ROW + i, X_ROW + i, bytes);
}

// One product of the batch.
static void along_k(kloop *l)
{
    dv_gen *g = l->g;
    const dv_z_tile *t = l->t;
    int32_t k = l->p->k;
    int turns = k > t->ahead ? (k - t->ahead) / UNROLL : 0;
    int rows = l->p->lane_k && !l->p->panel;
    for (int s = 0; s < t->ahead && s < k; s++)
        for (int j = 0; j < t->nv; j++)
            load_v(l, s, j);
    if (turns > 1)
        dv_gen_mov(g, X_K, turns);
    size_t top = g->code->n;
    l->limit = INT_MAX;
    for (int s = 0; turns && s < UNROLL; s++)
        one_step(l, s);
    if (turns && rows)
        move_rows(l, UNROLL * g->es);
    if (turns > 1)
        dv_gen_again(g, X_K, top);
    l->limit = k - turns * UNROLL;
    for (int s = 0; s < l->limit; s++)
        one_step(l, s);
    if (l->p->batch > 1 && rows)
        move_rows(l, l->p->stride_s - (int64_t)turns * UNROLL * g->es);
}

// On to the next product of the batch. Panels follow each other.
static void next_product(kloop *l)
{
    dv_gen *g = l->g;
    const dv_z_prod *p = l->p;
    if (!p->lane_k && !p->panel)
        dv_gen_add(g, X_ROW, X_ROW, p->stride_s - p->k * p->ld_s);
    dv_gen_add(g, X_BRUN, X_BRUN, p->stride_v - p->k * p->ld_v);
}

// -- The tile ----------------------------------------------------------------

// The lines of C, which are read and written at the end.
static void ask_for_c(dv_gen *g, const dv_z_prod *p, const dv_z_tile *t)
{
    enum { STORE_L1 = 16, LINE = 64, MOST = 1024, ENOUGH = 64 };
    int bytes = t->cols * g->es;
    if (p->c_turned || (int64_t)p->k * p->batch < ENOUGH || bytes > MOST)
        return;
    DV_E(mov_x, X_CRUN, 0, X_C, 0);
    for (int i = 0; i < t->rows; i++) {
        for (int off = 0; off < bytes; off += LINE)
            DV_E(prfm, STORE_L1, X_CRUN, off, 0);
        if (i + 1 < t->rows)
            dv_z_step(g, X_CRUN, p->ldc, X_LDC);
    }
}

static void start_pointers(dv_gen *g, const dv_z_prod *p, const dv_z_tile *t)
{
    DV_E(mov_x, X_BRUN, 0, X_B, 0);
    DV_E(mov_x, X_ROW, 0, X_A, 0);
    for (int i = 1; p->lane_k && !p->panel && i < t->rows; i++) {
        if (dv_gen_fits_add(p->ld_s))
            dv_gen_add(g, X_ROW + i, X_ROW + i - 1, p->ld_s);
        else
            DV_E(add_x, X_ROW + i, X_ROW + i - 1, X_LDA, 0);
    }
}

static void add_sets(dv_gen *g, const dv_z_tile *t)
{
    int n = t->rows * t->nv;
    for (int half = t->sets / 2; half; half /= 2)
        for (int i = 0; i < half * n; i++) {
            int acc = dv_gen_reg(t->n_s + i);
            DV_EZ(zfadd_, acc, acc, dv_gen_reg(t->n_s + half * n + i), 0);
        }
}

void dv_z_tile_emit(dv_gen *g, const dv_z_prod *p, const dv_z_tile *t)
{
    int n = t->rows * t->nv, sums = t->sets * n;
    kloop l = {.g = g, .p = p, .t = t, .v = t->n_s + sums};
    l.group = p->lane_k ? dv_z_quad(g) : 1;
    ask_for_c(g, p, t);
    for (int i = 0; i < sums; i++) // clears what is above the sixteen bytes too
        DV_E(movi_0, dv_gen_reg(t->n_s + i), 0, 0, 0);
    start_pointers(g, p, t);
    if (p->batch > 1)
        dv_gen_mov(g, X_BATCH, p->batch);
    size_t top = g->code->n;
    along_k(&l);
    if (p->batch > 1) {
        next_product(&l);
        dv_gen_again(g, X_BATCH, top);
    }
    add_sets(g, t);
    dv_z_tile_store(g, p, t, t->n_s + n);
}
