// Generates the epilogue of a tile: adds C and the bias, applies relu, stores.
#include "jit/x64/tile.h"

// Emits code that adds C to the accumulators of a tile.
static void add_rows(dv_x *g, const dv_prod *p, const dv_prod_tile *t, int free)
{
    for (int i = 0; i < t->rows; i++)
        for (int j = 0; j < t->nv; j++) {
            int acc = dv_x_acc(t, 0, i, j), part = dv_x_is_partial(g, t, j);
            int64_t off = i * p->ldc + (int64_t)j * g->vb;
            if (!part) {
                dv_x_vvm(g, DV_XI(g, vadd), acc, acc, X_C, off);
                continue;
            }
            dv_x_load(g, free, X_C, off, 1);
            dv_x_vvv(g, DV_XI(g, vadd), acc, acc, free);
        }
}

static void add_bias(dv_x *g, const dv_prod *p, const dv_prod_tile *t, int free)
{
    for (int j = 0; j < t->nv; j++) {
        if (p->bias == 2)
            dv_x_load(g, free, X_BIAS, (int64_t)j * g->vb,
                      dv_x_is_partial(g, t, j));
        for (int i = 0; i < t->rows; i++) {
            int acc = dv_x_acc(t, 0, i, j);
            if (p->bias == 1)
                dv_x_broadcast(g, free, X_BIAS, (int64_t)i * g->es);
            dv_x_vvv(g, DV_XI(g, vadd), acc, acc, free);
        }
    }
}

// Emits relu as a maximum with 0. vmax returns its second source if one source
// is nan or both are 0, so nan stays nan and -0 stays -0; adding 0 turns -0
// into 0.
void dv_x_clamp(dv_x *g, int vl, int v, int n, int free)
{
    dv_x_zero(g, free);
    for (int i = v; i < v + n; i++) {
        dv_x_emit_3(g->code, DV_XI(g, vmax), vl, i, free, i);
        if (!g->ints)
            dv_x_emit_3(g->code, DV_XF(g, vadd), vl, i, i, free);
    }
}

static void store_rows(dv_x *g, const dv_prod *p, const dv_prod_tile *t, int to)
{
    int part = dv_x_part(g, t) != 0, n = t->nv - part;
    for (int i = 0; i < t->rows; i++) {
        int64_t off = i * p->ldc;
        dv_x_stores(g, n, dv_x_acc(t, 0, i, 0), to, off);
        if (part)
            dv_x_store(g, dv_x_acc(t, 0, i, n), to, off + (int64_t)n * g->vb,
                       1);
    }
}

// BELOW bytes below the stack pointer are left untouched, as many as the red
// zone of the System V ABI has.
enum { LINE = 64, BELOW = 128 };

static int64_t row_bytes(const dv_x *g, const dv_prod_tile *t)
{
    return (int64_t)t->cols * g->es;
}

static int has_whole_lines(const dv_x *g, const dv_prod *p,
                           const dv_prod_tile *t)
{
    return row_bytes(g, t) % LINE == 0 && p->ldc % LINE == 0;
}

// Are the rows of the tile contiguous in C, and do they fill whole cache lines
// together, so that they can be written with non-temporal stores?
static int is_dense(const dv_x *g, const dv_prod *p, const dv_prod_tile *t)
{
    return p->ldc == row_bytes(g, t) && t->rows * p->ldc % LINE == 0;
}

static void stream_rows(dv_x *g, const dv_prod *p, const dv_prod_tile *t)
{
    for (int i = 0; i < t->rows; i++)
        dv_x_run_m(g->code, DV_X_vmovntps, g->vb, t->nv, dv_x_acc(t, 0, i, 0),
                   0, X_C, i * p->ldc, g->vb);
}

// Assembles whole cache lines of contiguous rows on the stack and writes them
// to C with non-temporal stores.
static void stream_dense(dv_x *g, const dv_prod *p, const dv_prod_tile *t)
{
    int64_t bytes = t->rows * p->ldc;
    dv_x_add(g, X_SP, -bytes - BELOW);
    store_rows(g, p, t, X_SP);
    int n = t->rows * t->nv, v = 0;
    for (int64_t at = 0; at < bytes; at += g->vb, v = (v + 1) % n) {
        dv_x_load(g, v, X_SP, at, 0);
        dv_x_vvm(g, DV_X_vmovntps, v, 0, X_C, at);
    }
    dv_x_add(g, X_SP, bytes + BELOW);
}

// Stores the tile, with non-temporal stores where whole cache lines are
// written, because those need not be read first. Whether C is aligned to a line
// is known only at run time, so both variants are emitted.
static void store_lines(dv_x *g, const dv_prod *p, const dv_prod_tile *t)
{
    int whole = has_whole_lines(g, p, t);
    if (!p->stream || (!whole && !is_dense(g, p, t))) {
        store_rows(g, p, t, X_C);
        return;
    }
    dv_x_mov(g, X_TMP, X_C);
    dv_x_emit(g->code, DV_X_andi, 0, 0, 0, dv_x_reg(X_TMP),
              (dv_x_more){.imm = LINE - 1});
    size_t usual = dv_x_jump(g, DV_X_jnz);
    if (whole)
        stream_rows(g, p, t);
    else
        stream_dense(g, p, t);
    size_t done = dv_x_jump(g, DV_X_jmp);
    dv_x_patch_jump(g, usual);
    store_rows(g, p, t, X_C);
    dv_x_patch_jump(g, done);
}

// Registers of the transposed store, for a tile whose rows are columns of C.
// The tile is stored to the stack by rows and gathered by columns: a column of
// the tile is a piece of a row of C.
enum { V_OUT = 0, V_IN = 1, V_BIAS = 3, V_MASK = 5, V_INDEX = 6 };

static void set_index(dv_x *g, const dv_prod_tile *t)
{
    int32_t at[16];
    // Offsets of the rows on the stack in bytes, 32 bits each.
    for (int i = 0; i < 16; i++)
        at[i] = i * t->nv * g->vb;
    int vl = g->lanes * 4 < 16 ? 16 : g->lanes * 4;
    dv_x_load_constant(g, V_INDEX, vl, dv_x_constant(g, at, vl));
}

// Gathers one column of the tile from the stack, where register X_AT points to
// it, into vector register V_OUT.
static void gather(dv_x *g, const dv_prod_tile *t)
{
    dv_x_rm m = dv_x_mem(X_AT, 0);
    m.index = V_INDEX;
    // The mask is set again for every gather, because a gather clears it.
    dv_x_set_tail_mask(g, t->rows);
    if (!g->masks) {
        dv_x_mask(g, V_MASK, g->vb, t->rows);
        dv_x_emit(g->code, g->es == 8 ? DV_X_vgatherpd : DV_X_vgatherps, g->vb,
                  V_OUT, V_MASK, m, none);
        return;
    }
    dv_x_emit(g->code, g->es == 8 ? DV_X_vgatherpd_k : DV_X_vgatherps_k, g->vb,
              V_OUT, 0, m, (dv_x_more){.mask = K_PART});
    dv_x_set_tail_mask(g, t->rows);
}

// Applies the epilogue to one column of a transposed tile and stores it:
// register X_AT points to it on the stack, X_BT to its row of C, X_K to its
// bias.
static void column(dv_x *g, const dv_prod *p, const dv_prod_tile *t)
{
    int part = t->rows < g->lanes;
    gather(g, t);
    if (p->beta) {
        dv_x_load(g, V_IN, X_BT, 0, part);
        dv_x_vvv(g, DV_XI(g, vadd), V_OUT, V_OUT, V_IN);
    }
    if (p->bias == 2)
        dv_x_broadcast(g, V_BIAS, X_K, 0);
    if (p->bias)
        dv_x_vvv(g, DV_XI(g, vadd), V_OUT, V_OUT, V_BIAS);
    if (p->relu)
        dv_x_clamp(g, g->vb, V_OUT, 1, V_IN);
    dv_x_store(g, V_OUT, X_BT, 0, part);
}

static void turn(dv_x *g, const dv_prod *p, const dv_prod_tile *t)
{
    int64_t frame = (int64_t)t->rows * t->nv * g->vb;
    dv_x_add(g, X_SP, -frame);
    dv_x_stores(g, t->rows * t->nv, 0, X_SP, 0);
    dv_x_set_tail_mask(g, t->rows);
    if (p->bias == 1)
        dv_x_load(g, V_BIAS, X_BIAS, 0, t->rows < g->lanes);
    set_index(g, t);
    dv_x_mov(g, X_AT, X_SP);
    dv_x_mov(g, X_BT, X_C);
    if (p->bias == 2)
        dv_x_mov(g, X_K, X_BIAS);
    DV_LOOP(X_BATCH, t->cols) {
        column(g, p, t);
        dv_x_add(g, X_AT, g->es);
        dv_x_add(g, X_BT, p->ldc);
        if (p->bias == 2)
            dv_x_add(g, X_K, g->es);
    }
    dv_x_add(g, X_SP, frame);
}

void dv_x_tile_store(dv_x *g, const dv_prod *p, const dv_prod_tile *t, int free)
{
    int n = t->rows * t->nv;
    if (p->c_transposed) {
        turn(g, p, t);
        return;
    }
    if (p->beta)
        add_rows(g, p, t, free);
    if (p->bias)
        add_bias(g, p, t, free);
    if (p->relu)
        dv_x_clamp(g, g->vb, 0, n, free);
    store_lines(g, p, t);
}
