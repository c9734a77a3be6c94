// Packs bf16 and i8 for instructions that multiply four bytes of k of a row of
// A by four bytes of k of a column of B. Four bytes are called a word: 2
// elements of bf16 or 4 of i8. The packed order is:
//
//   rows     64 bytes (AMX tiles) or 16 bytes (vectors) of a row, the same of
//            the next row, ...; then the bytes that follow in the first row
//   columns  one word of 16 columns is a vector. For AMX tiles, 16 such vectors
//            along k, then the next 16 columns; for vectors, all columns of one
//            word, then the next word
//
// Packing works on blocks of 16 lines (rows or columns) by 16 words. If lines
// are rows of the source, a block is loaded as 16 lines; if they are its
// columns, words are assembled from 2 or 4 source rows. If the loaded order is
// not the packed order, the block is transposed in registers.
//
// vpdpbusd needs one unsigned operand: rows are stored with 128 added, and
// after the columns there is the excess that this causes, 128 times the sum of
// each column.
#include "base/math.h"
#include "jit/x64/tile.h"

enum { X_FAR = X_D, X_FIX = X_I };
enum { SIDE = 16, BYTES = 64, ROW_AHEAD = 256 };
// Vector registers for temporaries and shift counts, above the block in
// registers 0 to 15.
enum { V_TMP = 16, V_SHIFT = 20 };

typedef struct pack {
    // Number of lines to pack (rows of A or columns of B), elements in a line,
    // bytes of an element.
    int n, k, es;
    int transposed; // 1: packed lines are columns of the source, 0: its rows
    int columns;    // 1: packed lines are columns of B, 0: rows of A
    int together;   // contiguous bytes of a packed row
    int tiles;      // number of blocks of 16 lines
    int step;       // elements of k in a block
    int fix;        // 1: add 128 to rows, store correction terms for columns
    int64_t row;    // row stride of the source in bytes
} pack;

// Loads `bytes` bytes of each of n source rows into registers 0 to n - 1, and
// clears the other registers up to 15.
static void load_lines(dv_x *g, const pack *w, int first, int n, int bytes)
{
    dv_x_lea(g, X_S, X_SRC, first * w->row);
    if (bytes < BYTES) {
        dv_x_set(g, X_TMP, (int64_t)((UINT64_C(1) << bytes) - 1));
        dv_x_emit(g->code, DV_X_kmovq, 0, K_OTHER, 0, dv_x_reg(X_TMP), none);
    }
    for (int i = 0; i < n; i++) {
        if (bytes < BYTES)
            dv_x_emit(g->code, DV_X_vmovdqu8, BYTES, i, 0, dv_x_mem(X_S, 0),
                      (dv_x_more){.mask = K_OTHER | DV_X_ZERO});
        else
            dv_x_load(g, i, X_S, 0, 0);
        dv_x_prefetch(g, DV_X_prefetch0, X_S, ROW_AHEAD, 1);
        dv_x_add(g, X_S, w->row);
    }
    for (int i = n; i < SIDE; i++)
        dv_x_zero(g, i);
}

// Loads element i of a 4-byte word for up to 16 lines (rows or columns of the
// product) from `first` on, and combines it into register v.
static void load_element(dv_x *g, const pack *w, int v, int i, int first)
{
    dv_x_insn op = w->es == 1 ? DV_X_vpmovzxbd : DV_X_vpmovzxwd;
    int to = i ? V_TMP : v, part = w->n - first < SIDE;
    dv_x_emit(g->code, op, BYTES, to, 0, dv_x_mem(X_S, (int64_t)first * w->es),
              (dv_x_more){.mask = part ? K_PART | DV_X_ZERO : 0});
    if (i == 0)
        return;
    dv_x_vvv(g, DV_X_vsllv32, to, to, V_SHIFT + i);
    dv_x_vvv(g, DV_X_vorps, v, v, to);
}

// Prefetches, one step of k ahead, the columns that are being packed, because
// the hardware prefetcher does not follow rows that are far apart. Advances the
// source pointer X_S to the next row.
static void next_row(dv_x *g, const pack *w, int first)
{
    dv_x_rm next = dv_x_mem(X_S, (int64_t)first * w->es);
    next.index = X_FAR;
    dv_x_emit(g->code, DV_X_prefetch0, 0, 0, 0, next, none);
    dv_x_add(g, X_S, w->row);
}

// Prefetches into L2 the columns to the right, which are packed next, and
// advances the source pointer X_S to the next row. Prefetching rows further
// down instead would exceed the ways of the L1 sets that these rows map to.
static void next_panel(dv_x *g, const pack *w)
{
    dv_x_prefetch(g, DV_X_prefetch1, X_S, (int64_t)w->tiles * SIDE * w->es, 1);
    dv_x_add(g, X_S, w->row);
}

static void start_words(dv_x *g, const pack *w)
{
    dv_x_mov(g, X_S, X_SRC);
    if (w->n % SIDE)
        dv_x_set_tail_mask(g, w->n % SIDE);
    for (int i = 1; i < 4 / w->es; i++)
        dv_x_load_word(g, V_SHIFT + i, BYTES, (uint32_t)(8 * w->es * i));
}

// Loads one block: `k` rows of 16 columns of the source. Each register gets one
// 4-byte word (2 or 4 elements along k) of every column.
static void load_words(dv_x *g, const pack *w, int first, int k)
{
    int per = 4 / w->es;
    start_words(g, w);
    for (int p = 0; p < SIDE; p++) {
        if (p * per >= k)
            dv_x_zero(g, p);
        for (int i = 0; i < per && p * per + i < k; i++) {
            load_element(g, w, p, i, first);
            next_row(g, w, first);
        }
    }
}

static void shuffle(dv_x *g, int to, int a, int b, int imm)
{
    dv_x_emit(g->code, DV_X_vshuf32x4, BYTES, to, a, dv_x_reg(b),
              (dv_x_more){.imm = imm});
}

// Transposes 16 x 16 words of four bytes in registers 0 to 15.
static void turn(dv_x *g)
{
    // Immediates of vshuff32x4: EVEN takes quarters 0 and 2 of each source, ODD
    // takes quarters 1 and 3.
    enum { EVEN = 0x88, ODD = 0xdd };
    for (int i = 0; i < SIDE; i += 2) {
        dv_x_vvv(g, DV_X_vunpcklps, V_TMP + i, i, i + 1);
        dv_x_vvv(g, DV_X_vunpckhps, V_TMP + i + 1, i, i + 1);
    }
    // After this step, each 128-bit quarter holds one column of four rows.
    for (int i = 0; i < SIDE; i += 4)
        for (int j = 0; j < 2; j++) {
            int a = V_TMP + i + j;
            dv_x_vvv(g, DV_X_vunpcklpd, i + 2 * j, a, a + 2);
            dv_x_vvv(g, DV_X_vunpckhpd, i + 2 * j + 1, a, a + 2);
        }
    for (int c = 0; c < 4; c++)
        for (int j = 0; j < 4; j++)
            shuffle(g, V_TMP + 4 * c + j, c + j / 2 * 8, c + j / 2 * 8 + 4,
                    j % 2 ? ODD : EVEN);
    for (int c = 0; c < 4; c++)
        for (int j = 0; j < 4; j++) {
            int a = V_TMP + 4 * c + j % 2;
            shuffle(g, c + 4 * j, a, a + 2, j / 2 ? ODD : EVEN);
        }
}

// Registers of the factor 128 and, from V_SUM on, of the correction terms of
// each block of columns.
enum { V_SCALE = 27, V_SUM = 28 };

// Loads the correction terms of all blocks of columns: by how much a column's
// sum grows if 128 is added to all elements of A.
static void load_fix(dv_x *g, const pack *w)
{
    if (w->fix)
        dv_x_load_word(g, V_SCALE, BYTES, 0x80808080u);
    for (int i = 0; w->fix && i < w->tiles; i++)
        dv_x_load(g, V_SUM + i, X_FIX, i * BYTES, 0);
}

static void store_fix(dv_x *g, const pack *w)
{
    for (int i = 0; w->fix && i < w->tiles; i++)
        dv_x_store(g, V_SUM + i, X_FIX, i * BYTES, 0);
}

// Stores word p (four bytes along k) of the 16 columns of a block from register
// v, and adds it to the columns' correction terms.
static void store_word(dv_x *g, const pack *w, int v, int tile, int p)
{
    int side_by_side = w->together < BYTES;
    if (w->fix)
        dv_x_vvv(g, DV_X_vdpbusd, V_SUM + tile, V_SCALE, v);
    dv_x_store(g, v, X_DST,
               (side_by_side ? p * w->tiles + tile : tile * SIDE + p) * BYTES,
               0);
}

static void store_columns(dv_x *g, const pack *w, int tile, int words)
{
    // The correction terms are loaded only now, because the transpose uses all
    // registers.
    load_fix(g, w);
    for (int p = 0; p < words; p++)
        store_word(g, w, p, tile, p);
    store_fix(g, w);
}

// Packs columns of B that are columns of the source, too: nothing is
// transposed, and every source row is read once for all blocks of 16 columns.
static void pass_words(dv_x *g, const pack *w, int k, int words)
{
    int per = 4 / w->es;
    start_words(g, w);
    load_fix(g, w);
    for (int p = 0; p < words; p++) {
        for (int t = 0; p * per >= k && t < w->tiles; t++)
            dv_x_zero(g, t);
        for (int i = 0; i < per && p * per + i < k; i++) {
            for (int t = 0; t < w->tiles; t++)
                load_element(g, w, t, i, t * SIDE);
            next_panel(g, w);
        }
        for (int t = 0; t < w->tiles; t++)
            store_word(g, w, t, t, p);
    }
    store_fix(g, w);
}

static void store_rows(dv_x *g, const pack *w, int first, int n, int words)
{
    int pieces = words * 4 / w->together, size = w->together;
    if (w->fix)
        dv_x_load_word(g, V_TMP, BYTES, 0x80808080u);
    for (int i = 0; i < n; i++) {
        if (w->fix)
            dv_x_vvv(g, DV_X_vpxord, i, i, V_TMP);
        for (int q = 0; q < pieces; q++) {
            dv_x_rm to =
                dv_x_mem(X_DST, ((int64_t)q * w->n + first + i) * size);
            if (q)
                dv_x_emit(g->code, DV_X_vextract32x4, BYTES, i, 0, to,
                          (dv_x_more){.imm = q});
            else
                dv_x_emit(g->code, DV_X_vmovups_s, size, i, 0, to, none);
        }
    }
}

// Packs `k` elements of all lines (rows or columns of the product) from X_SRC
// to X_DST, in blocks of 16 lines.
static void blocks(dv_x *g, const pack *w, int k)
{
    int bytes = k * w->es;
    int words = (bytes + w->together - 1) / w->together * w->together / 4;
    if (w->transposed && w->columns)
        pass_words(g, w, k, words);
    for (int tile = 0; !(w->transposed && w->columns) && tile < w->tiles;
         tile++) {
        int first = tile * SIDE, n = (int)dv_min_i64(w->n - first, SIDE);
        if (w->transposed)
            load_words(g, w, first, k);
        else
            load_lines(g, w, first, n, bytes);
        if (w->transposed != w->columns)
            turn(g);
        if (w->columns)
            store_columns(g, w, tile, words);
        else
            store_rows(g, w, first, n, words);
    }
    dv_x_add(g, X_SRC, w->transposed ? w->step * w->row : BYTES);
    dv_x_add(g, X_DST,
             w->columns ? words * w->tiles * BYTES : (int64_t)words * 4 * w->n);
}

static void start_fix(dv_x *g, const pack *w)
{
    int bytes = w->k * w->es;
    int64_t words = (bytes + w->together - 1) / w->together * w->together / 4;
    dv_x_lea(g, X_FIX, X_DST, words * w->tiles * BYTES);
    dv_x_zero(g, 0);
    for (int i = 0; i < w->tiles; i++)
        dv_x_store(g, 0, X_FIX, i * BYTES, 0);
}

void dv_x_pack_narrow(dv_x *g, const dv_isa *isa, const dv_move_shape *s)
{
    pack w = {.transposed = s->move == DV_MOVE_PAIRS_TRANSPOSED,
              .columns = s->overlap};
    w.es = s->dtype == DV_I8 ? 1 : 2;
    w.n = w.transposed ? s->cols : s->rows;
    w.k = w.transposed ? s->rows : s->cols;
    w.together = isa->pairs_bytes;
    w.tiles = (w.n + SIDE - 1) / SIDE;
    w.step = BYTES / w.es;
    w.row = s->lds * w.es;
    w.fix = isa->i8_correction && s->dtype == DV_I8;
    int many = w.k / w.step, rest = w.k % w.step;
    if (w.fix && w.columns)
        start_fix(g, &w);
    if (w.transposed)
        dv_x_set(g, X_FAR, w.step * w.row);
    DV_REPEAT(X_J, many)
    blocks(g, &w, w.step);
    if (rest)
        blocks(g, &w, rest);
}
