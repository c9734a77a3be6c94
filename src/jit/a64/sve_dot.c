// Tiles of dot products: at most 4 rows of A by 4 of B, one vector of sums a
// result.
//
//   a0 [ k k k k k k k k ]     acc(i, j) += a(i) * b(j), lane by lane
//   b0 [ k k k k k k k k ]     C[i][j] = the lanes of acc(i, j), added up
//
// Pointers to the rows run along k; what is left of k is read under a
// predicate, with zeros in the other lanes. The results of a row are put side
// by side in sixteen bytes (f64: twice) and finished there.
#include "jit/a64/sve.h"

enum { UNROLL = 2, X_BROW = 8 };                   // rows of A: x4 to x7
enum { V_A = DV_Z_DOT * DV_Z_DOT, V_B = V_A + 4 }; // and sums at the end

int dv_z_dot_regs(void)
{
    return V_B + DV_Z_DOT;
}

static int acc_of(int i, int j)
{
    return dv_gen_reg(i * DV_Z_DOT + j);
}

// -- Along k -----------------------------------------------------------------

// Multiply-adds of vector u from the pointers on.
static void one_step(dv_gen *g, const dv_z_tile *t, int u, int mask)
{
    for (int j = 0; j < t->cols; j++)
        DV_ES(zld1_, dv_gen_reg(V_B + j), X_BROW + j, u, mask);
    for (int i = 0; i < t->rows; i++) {
        DV_ES(zld1_, dv_gen_reg(V_A + i), X_ROW + i, u, mask);
        for (int j = 0; j < t->cols; j++)
            DV_EZ(zfmla_, acc_of(i, j), dv_gen_reg(V_A + i),
                  dv_gen_reg(V_B + j), P_ALL);
    }
}

static void move_rows(dv_gen *g, const dv_z_tile *t, int64_t a, int64_t b)
{
    for (int i = 0; i < t->rows; i++)
        dv_gen_add(g, X_ROW + i, X_ROW + i, a);
    for (int j = 0; j < t->cols; j++)
        dv_gen_add(g, X_BROW + j, X_BROW + j, b);
}

static void along_k(dv_gen *g, const dv_z_prod *p, const dv_z_tile *t)
{
    int vectors = p->k / g->lanes, turns = vectors / UNROLL;
    int64_t turn = UNROLL * dv_z_vector(g);
    turns = turns > 1 ? turns : 0;
    if (turns) {
        dv_gen_mov(g, X_K, turns);
        size_t top = g->code->n;
        for (int u = 0; u < UNROLL; u++)
            one_step(g, t, u, P_ALL);
        move_rows(g, t, turn, turn);
        dv_gen_again(g, X_K, top);
    }
    int left = vectors - turns * UNROLL;
    for (int u = 0; u < left; u++)
        one_step(g, t, u, P_ALL);
    if (p->k % g->lanes)
        one_step(g, t, left, P_K);
    if (p->batch > 1)
        move_rows(g, t, p->stride_s - turns * turn, p->stride_v - turns * turn);
}

// -- The end -----------------------------------------------------------------

// Results `from`.. of row i side by side in the first sixteen bytes of a
// register, which is returned.
static int side_by_side(dv_gen *g, const dv_z_tile *t, int i, int from)
{
    const int v[] = {dv_gen_reg(V_A), dv_gen_reg(V_A + 1), dv_gen_reg(V_A + 2),
                     dv_gen_reg(V_A + 3)};
    int n = dv_z_quad(g);
    for (int j = 0; j < n; j++) { // missing ones repeat one that is there
        int col = from + j < t->cols ? from + j : from;
        DV_EZ(zsum_, v[j], acc_of(i, col), 0, P_ALL);
    }
    if (n == 4) {
        DV_E(zip1_4s, v[0], v[0], v[1], 0);
        DV_E(zip1_4s, v[1], v[2], v[3], 0);
    }
    DV_E(trn1_2d, v[0], v[0], v[1], 0);
    return v[0];
}

// Results from.. of row i, at X_CRUN.
static void finish(dv_gen *g, const dv_z_prod *p, const dv_z_tile *t, int i,
                   int from)
{
    int sum = side_by_side(g, t, i, from), n = t->cols - from;
    int v = dv_gen_reg(V_B), f = dv_gen_reg(V_B + 1);
    int64_t off = (int64_t)from * g->es;
    int bytes = (n < dv_z_quad(g) ? n : dv_z_quad(g)) * g->es;
    if (p->alpha == DV_SCALE_ANY) {
        dv_gen_scale(g, f, offsetof(dv_gemm_args, alpha));
        DV_EF(fmul_e, sum, sum, f, 0);
    }
    if (p->beta != DV_SCALE_ZERO)
        dv_gen_load(g, v, X_CRUN, off, bytes);
    if (p->beta == DV_SCALE_ONE)
        DV_EF(fadd_, sum, sum, v, 0);
    if (p->beta == DV_SCALE_ANY) {
        dv_gen_scale(g, f, offsetof(dv_gemm_args, beta));
        DV_EF(fmla_e, sum, v, f, 0);
    }
    if (p->bias == 1) {
        dv_gen_add(g, X_TMP, X_BIAS, (int64_t)i * g->es);
        DV_EF(ld1r_, v, X_TMP, 0, 0);
    }
    if (p->bias == 2)
        dv_gen_load(g, v, X_BIAS, off, bytes);
    if (p->bias)
        DV_EF(fadd_, sum, sum, v, 0);
    if (p->relu) {
        DV_E(movi_0, v, 0, 0, 0);
        DV_EF(fmax_, sum, sum, v, 0);
    }
    dv_gen_store(g, sum, X_CRUN, off, bytes);
}

// -- The tile ----------------------------------------------------------------

static void start_pointers(dv_gen *g, int first, int from, int n, int64_t ld,
                           int far)
{
    DV_E(mov_x, first, 0, from, 0);
    for (int i = 1; i < n; i++) {
        if (dv_gen_fits_add(ld))
            dv_gen_add(g, first + i, first + i - 1, ld);
        else
            DV_E(add_x, first + i, first + i - 1, far, 0);
    }
}

void dv_z_dot_emit(dv_gen *g, const dv_z_prod *p, const dv_z_tile *t)
{
    start_pointers(g, X_ROW, X_A, t->rows, p->ld_s, X_LDA);
    start_pointers(g, X_BROW, X_B, t->cols, p->ld_v, X_LDB);
    for (int i = 0; i < t->rows; i++)
        for (int j = 0; j < t->cols; j++)
            DV_E(movi_0, acc_of(i, j), 0, 0, 0);
    if (p->batch > 1)
        dv_gen_mov(g, X_BATCH, p->batch);
    size_t top = g->code->n;
    along_k(g, p, t);
    if (p->batch > 1)
        dv_gen_again(g, X_BATCH, top);
    DV_E(mov_x, X_CRUN, 0, X_C, 0);
    for (int i = 0; i < t->rows; i++) {
        for (int j = 0; j < t->cols; j += dv_z_quad(g))
            finish(g, p, t, i, j);
        if (i + 1 < t->rows)
            dv_z_step(g, X_CRUN, p->ldc, X_LDC);
    }
}
