// The epilogue of a tile: add C and the bias, ReLU, store. All loads of a row
// of C come before its stores, because overlapping vectors contain the same
// elements.
#include "jit/a64/tile.h"

// Advances X_CRUN, the running pointer into C, to the next row.
static void next_row(dv_gen *g, const dv_prod *p)
{
    dv_tile_step(g, X_CRUN, p->ldc, X_LDC);
}

// Returns whether all rows of the tile can be addressed by offsets from
// register X_C, which holds the tile's address in C; otherwise a second
// pointer, X_CRUN, advances from row to row.
static int rows_fit(const dv_prod *p, const dv_prod_tile *t)
{
    int64_t far = (t->rows - 1) * p->ldc + t->cols * 8;
    return far < 240 || (p->ldc % 16 == 0 && far < 65536);
}

void dv_tile_finish_row(dv_gen *g, const dv_prod *p, const dv_prod_tile *t,
                        int i, const dv_tile_free *free)
{
    int base = i ? X_CRUN : X_C, bytes = dv_tile_bytes(g, t);
    // The registers after the one that holds 0 for ReLU are used to load C.
    int n = free->n - !!p->relu;
    if (i == 1)
        DV_E(mov_x, X_CRUN, 0, X_C, 0);
    if (i)
        next_row(g, p);
    for (int j = 0; p->beta && j < t->nv; j++) {
        int acc = dv_tile_acc(t, 0, i, j);
        int c = free->reg[free->n - 1 - j % n];
        dv_gen_load(g, c, base, dv_tile_off(g, t, j), bytes);
        DV_EF(fadd_, acc, acc, c, 0);
    }
    for (int j = 0; p->relu && j < t->nv; j++) {
        int acc = dv_tile_acc(t, 0, i, j);
        DV_EF(fmax_, acc, acc, free->reg[0], 0);
    }
}

// Stores vector j of row i of the tile. Two adjacent vectors are stored with
// one instruction, to save instructions.
void dv_tile_store_one(dv_gen *g, const dv_prod_tile *t, int i, int j)
{
    int base = i ? X_CRUN : X_C, bytes = dv_tile_bytes(g, t);
    // 1: no vector of a row overlaps another.
    int whole = t->cols == t->nv * g->lanes;
    int pairs = bytes == 16 ? t->nv - !whole : 0, first = i * t->nv + j;
    if (j & 1 && j < pairs)
        // If j is odd, vector j has been stored together with the vector before
        // it.
        return;
    if (j + 1 < pairs)
        DV_E(stp_q, dv_gen_reg(first), dv_gen_reg(first + 1), base, 16 * j);
    else
        dv_gen_store(g, dv_gen_reg(first), base, dv_tile_off(g, t, j), bytes);
}

// Stores the accumulators to C or, if `adds`, adds C to them.
static void each_row(dv_gen *g, const dv_prod *p, const dv_prod_tile *t,
                     int free, int adds)
{
    int fit = rows_fit(p, t), bytes = dv_tile_bytes(g, t);
    int base = fit ? X_C : X_CRUN;
    if (!fit)
        DV_MOV(X_CRUN, X_C);
    for (int i = 0; i < t->rows; i++) {
        for (int j = 0; j < t->nv; j++) {
            int acc = dv_tile_acc(t, 0, i, j), v = dv_gen_reg(free + j);
            int64_t off = dv_tile_off(g, t, j) + (fit ? i * p->ldc : 0);
            if (!adds) {
                dv_gen_store(g, acc, base, off, bytes);
                continue;
            }
            dv_gen_load(g, v, base, off, bytes);
            DV_EF(fadd_, acc, acc, v, 0);
        }
        if (!fit && i + 1 < t->rows)
            next_row(g, p);
    }
}

// Returns whether the lines of C are prefetched into L2 instead of L1. This is
// for rows that are far apart and only written: in L1 they would compete for a
// few cache sets and evict the panel of the operand read as vectors, and stores
// do not wait for them.
static int c_goes_to_l2(const dv_prod *p)
{
    enum { FAR = 1024 };
    return p->beta == DV_SCALE_ZERO && p->ldc >= FAR;
}

void dv_tile_prefetch_c(dv_gen *g, const dv_prod *p, const dv_prod_tile *t)
{
    enum { STORE_L1 = 16, STORE_L2 = 18 };
    int to = c_goes_to_l2(p) ? STORE_L2 : STORE_L1;
    int rows = p->c_transposed ? t->cols : t->rows;
    int bytes = (p->c_transposed ? t->rows : t->cols) * g->es;
    DV_E(mov_x, X_CRUN, 0, X_C, 0);
    for (int i = 0; i < rows; i++) {
        for (int off = 0; off < bytes; off += 64)
            DV_E(prfm, to, X_CRUN, off, 0);
        if (i + 1 < rows)
            next_row(g, p);
    }
}

static void load_splat(dv_gen *g, int v, int64_t off)
{
    dv_gen_add(g, X_TMP, X_BIAS, off);
    DV_EF(ld1r_, v, X_TMP, 0, 0);
}

static void add_bias(dv_gen *g, const dv_prod *p, const dv_prod_tile *t,
                     int free)
{
    for (int j = 0; p->bias == 2 && j < t->nv; j++)
        dv_gen_load(g, dv_gen_reg(free + j), X_BIAS, dv_tile_off(g, t, j),
                    dv_tile_bytes(g, t));
    for (int i = 0; i < t->rows; i++) {
        if (p->bias == 1)
            load_splat(g, dv_gen_reg(free), (int64_t)i * g->es);
        for (int j = 0; j < t->nv; j++) {
            int acc = dv_tile_acc(t, 0, i, j);
            DV_EF(fadd_, acc, acc, dv_gen_reg(free + (p->bias == 2 ? j : 0)),
                  0);
        }
    }
}

// Applies relu to n registers from number `first` on.
static void clamp(dv_gen *g, int first, int n, int zero)
{
    DV_E(movi_0, zero, 0, 0, 0);
    for (int i = first; i < first + n; i++)
        DV_EF(fmax_, dv_gen_reg(i), dv_gen_reg(i), zero, 0);
}

// The functions below store a tile of a transposed product: rows of the tile
// are columns of C.

// Stores registers number out + skip to out + n - 1. Register out + l holds
// n_rows rows of column col + l of the tile, which are adjacent elements of a
// row of C.
static void store_transposed(dv_gen *g, const dv_prod *p, int out,
                             int first_row, int n_rows, int col, int skip,
                             int n, int free)
{
    int v = dv_gen_reg(free), bytes = n_rows * g->es;
    dv_gen_mov(g, X_TMP, (col + skip) * p->ldc + (int64_t)first_row * g->es);
    DV_E(add_x, X_CRUN, X_C, X_TMP, 0);
    for (int l = skip; l < n; l++) {
        int sum = dv_gen_reg(out + l);
        if (p->beta) {
            dv_gen_load(g, v, X_CRUN, 0, bytes);
            DV_EF(fadd_, sum, sum, v, 0);
        }
        if (p->bias == 1)
            dv_gen_load(g, v, X_BIAS, (int64_t)first_row * g->es, bytes);
        if (p->bias == 2)
            load_splat(g, v, (int64_t)(col + l) * g->es);
        if (p->bias)
            DV_EF(fadd_, sum, sum, v, 0);
        if (p->relu)
            clamp(g, out + l, 1, v);
        dv_gen_store(g, sum, X_CRUN, 0, bytes);
        if (l + 1 < n)
            next_row(g, p);
    }
}

static void turn(dv_gen *g, const dv_prod *p, const dv_prod_tile *t, int free)
{
    int lanes = g->lanes, in[4], out[4], tmp[4];
    for (int i = 0; i < 4; i++) {
        out[i] = dv_gen_reg(free + i);
        tmp[i] = dv_gen_reg(free + 4 + i);
    }
    for (int i = 0; i < t->rows; i += lanes)
        for (int j = 0; j < t->nv; j++) {
            int n_rows = t->rows - i < lanes ? t->rows - i : lanes;
            for (int l = 0; l < lanes; l++)
                in[l] = dv_tile_acc(t, 0, l < n_rows ? i + l : i, j);
            dv_gen_transpose(g, in, out, tmp);
            // Skip columns that the previous vector, which overlaps this one,
            // has already stored.
            int col = (int)(dv_tile_off(g, t, j) / g->es);
            int n = t->cols < lanes ? t->cols : lanes;
            store_transposed(g, p, free, i, n_rows, col, j * lanes - col, n,
                             free + 4);
        }
}

void dv_tile_store(dv_gen *g, const dv_prod *p, const dv_prod_tile *t, int free)
{
    if (p->c_transposed) {
        turn(g, p, t, free);
        return;
    }
    if (p->beta)
        each_row(g, p, t, free, 1);
    if (p->bias)
        add_bias(g, p, t, free);
    if (p->relu)
        clamp(g, 0, t->rows * t->nv, dv_gen_reg(free));
    each_row(g, p, t, free, 0);
}
