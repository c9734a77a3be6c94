// Products of bf16 and i8 with AMX tiles of 16 rows of 64 bytes:
//
//           B0     B1      6, 7: 16 words of k by 16 columns each
//   A0   [  0  ][  1  ]    4, 5: 16 rows by 16 words of k each
//   A1   [  2  ][  3  ]    0 to 3: sums of 16 rows by 16 columns
//
// Operands are packed so that the tiles of one step of k are contiguous
// (pairs.c). Smaller tiles are configured with fewer rows and columns, so that
// they access no more of C. Results that need scaling or a bias are stored to
// the stack and processed from there as a tile of vectors; results that become
// bf16 are converted as pairs of vectors.
#include "base/math.h"
#include "jit/x64/tile.h"

enum { ROWS = 32, SIDE = 16, BYTES = 64, TILE = SIDE * BYTES, LINE = 64 };
enum { A_TILE = 4, B_TILE = 6, GROUP = 8 };
enum {
    X_WIDE = X_BATCH,       // holds 64, the row stride of a packed tile
    X_LDC = X_N,            // row stride of C in bytes
    X_C_PREFETCH = X_ABASE, // next row of C to prefetch
    X_SAVED_SP = X_BT // the saved stack pointer, while results are on the stack
};
// Register X_NEXT points to the packed panel of B that is read after this
// kernel.

static int result_tile(int i, int j)
{
    return 2 * i + j;
}

void dv_x_amx_config(dv_x *g, int rows, int cols)
{
    // The AMX tile configuration: byte 0 is the palette, 2-byte row sizes start
    // at byte 16, row counts at byte 48.
    unsigned char c[BYTES] = {1};
    for (int i = 0; i * SIDE < rows; i++)
        for (int j = 0; j * SIDE < cols; j++) {
            int r = (int)dv_min_i64(rows - i * SIDE, SIDE);
            int bytes = 4 * (int)dv_min_i64(cols - j * SIDE, SIDE);
            c[16 + 2 * result_tile(i, j)] = (unsigned char)bytes;
            c[48 + result_tile(i, j)] = (unsigned char)r;
            c[16 + 2 * (A_TILE + i)] = BYTES;
            c[48 + A_TILE + i] = (unsigned char)r;
            c[16 + 2 * (B_TILE + j)] = (unsigned char)bytes;
            c[48 + B_TILE + j] = SIDE;
        }
    int at = dv_x_constant(g, c, BYTES);
    dv_x_emit(g->code, DV_X_ldtilecfg, 16, 0, 0, dv_x_mem(DV_X_RIP, 0), none);
    dv_x_reloc_constant(g, at);
}

typedef struct product {
    // The product, described for the epilogue that vector tiles also use.
    dv_prod p;
    int steps; // steps of k, 64 bytes each
    int nt;    // number of AMX tiles side by side in B, 1 or 2
    dv_x_insn op;
    int direct; // 1: AMX tiles are stored to C without scaling, bias or relu
    int from_c; // 1: AMX tiles are initialised with C, because beta is 1
    int halves; // 1: C is bf16, so results are rounded
    // Cache lines of the next panel of B to prefetch in each step of full
    // tiles.
    int next;
} product;

static void tile_memory(dv_x *g, dv_x_insn op, int t, int base, int64_t off,
                        int row)
{
    dv_x_rm m = dv_x_mem(base, off);
    m.index = (int8_t)row;
    dv_x_emit(g->code, op, 16, t, 0, m, none);
}

static void multiply(dv_x *g, const product *w, int i, int j)
{
    dv_x_emit(g->code, w->op, 16, result_tile(i, j), B_TILE + j,
              dv_x_reg(A_TILE + i), none);
}

static void load(dv_x *g, int first, int i, int base)
{
    tile_memory(g, DV_X_tileload, first + i, base, i * TILE, X_WIDE);
}

// Prefetches into L2 the panel of B that is read next. The AMX tiles of the
// current panel are not prefetched: they load from L2 almost as fast as they
// are multiplied, so prefetching them costs more than it saves.
static void prefetch_for_next(dv_x *g, const product *w)
{
    dv_x_prefetch(g, DV_X_prefetch1, X_NEXT, 0, w->next * LINE);
    dv_x_add(g, X_NEXT, (int64_t)w->next * LINE);
}

// Prefetches n rows of C for writing: C is usually not in a near cache, and no
// other tile uses the same lines.
static void prefetch_c_early(dv_x *g, const product *w, int n)
{
    int bytes = w->nt * BYTES / (w->halves ? 2 : 1);
    for (int i = 0; i < n; i++) {
        dv_x_prefetch(g, DV_X_prefetchw, X_C_PREFETCH, 0, bytes);
        dv_x_add(g, X_C_PREFETCH, w->p.ldc);
    }
}

static void step(dv_x *g, const product *w, int rows, int rows_of_c)
{
    int two = rows > SIDE, wide = w->nt > 1;
    load(g, A_TILE, 0, X_AT);
    load(g, B_TILE, 0, X_BT);
    if (wide)
        load(g, B_TILE, 1, X_BT);
    if (two)
        load(g, A_TILE, 1, X_AT);
    if (rows == ROWS)
        prefetch_for_next(g, w);
    prefetch_c_early(g, w, rows_of_c);
    for (int i = 0; i <= two; i++)
        for (int j = 0; j <= wide; j++)
            multiply(g, w, i, j);
    dv_x_add(g, X_AT, (int64_t)rows * BYTES);
    dv_x_add(g, X_BT, (int64_t)w->nt * TILE);
}

// Emits instruction `op`, which loads or stores an AMX tile, for all AMX tiles
// of results (up to four), from or to rows of C.
static void all_sums(dv_x *g, const product *w, int rows, dv_x_insn op)
{
    for (int i = 0; i * SIDE < rows; i++)
        for (int j = 0; j < w->nt; j++) {
            int64_t off = i * SIDE * w->p.ldc + j * BYTES;
            tile_memory(g, op, result_tile(i, j), X_C, off, X_LDC);
        }
}

static void start(dv_x *g, const product *w, int rows)
{
    if (w->from_c) {
        all_sums(g, w, rows, DV_X_tileload);
        return;
    }
    for (int i = 0; i * SIDE < rows; i++)
        for (int j = 0; j < w->nt; j++)
            dv_x_emit(g->code, DV_X_tilezero, 16, result_tile(i, j), 0,
                      dv_x_reg(0), none);
}

// Stores the result tiles as rows on the stack, aligned to cache lines.
static void to_stack(dv_x *g, const product *w, int rows)
{
    int row = w->nt * BYTES;
    dv_x_mov(g, X_SAVED_SP, X_SP);
    dv_x_add(g, X_SP, -rows * row);
    dv_x_emit(g->code, DV_X_andi, 0, 0, 0, dv_x_reg(X_SP),
              (dv_x_more){.imm = -LINE});
    dv_x_set(g, X_AT, row);
    for (int i = 0; i * SIDE < rows; i++)
        for (int j = 0; j < w->nt; j++)
            tile_memory(g, DV_X_tilestore, result_tile(i, j), X_SP,
                        i * SIDE * row + j * BYTES, X_AT);
}

// Stores the results to the stack, loads them as vectors a few rows at a time,
// and runs the epilogue of a vector tile on them.
static void finish(dv_x *g, const product *w, int rows)
{
    int row = w->nt * BYTES;
    to_stack(g, w, rows);
    if (w->p.n_v % SIDE)
        dv_x_set_tail_mask(g, w->p.n_v % SIDE);
    for (int r = 0; r < rows; r += GROUP) {
        dv_prod_tile t = {(int)dv_min_i64(rows - r, GROUP), w->p.n_v, w->nt, 1};
        dv_x_loads(g, t.rows * t.nv, 0, X_SP, r * row);
        dv_x_tile_store(g, &w->p, &t, t.rows * t.nv);
        dv_x_add(g, X_C, t.rows * w->p.ldc);
        if (w->p.bias == 1)
            dv_x_add(g, X_BIAS, (int64_t)t.rows * 4);
    }
    dv_x_mov(g, X_SP, X_SAVED_SP);
}

// Stores the results to the stack and converts them to rows of bf16 in C.
static void finish_halves(dv_x *g, const product *w, int rows)
{
    int row = w->nt * BYTES;
    to_stack(g, w, rows);
    for (int r = 0; r < rows; r++) {
        int v = r % GROUP;
        // The second 16 columns of the row become the upper half of the
        // converted vector.
        dv_x_load(g, v, X_SP, r * row + row - BYTES, 0);
        dv_x_vvm(g, DV_X_vcvt2bf16, v, v, X_SP, r * row);
        dv_x_emit_m(g->code, DV_X_vmovups_s, row / 2, v, 0, X_C, r * w->p.ldc);
    }
    dv_x_add(g, X_C, rows * w->p.ldc);
    dv_x_mov(g, X_SP, X_SAVED_SP);
}

static void steps(dv_x *g, const product *w, int rows, int n, int rows_of_c)
{
    DV_REPEAT(X_K, n)
    step(g, w, rows, rows_of_c);
}

// Runs the whole loop over k. The last steps also prefetch C, some rows each,
// so that C is still in L1 when the loop ends.
static void along_k(dv_x *g, const product *w, int rows)
{
    int each = (rows + w->steps - 1) / w->steps;
    int late = (rows + each - 1) / each;
    dv_x_mov(g, X_AT, X_A);
    dv_x_mov(g, X_BT, X_B);
    dv_x_mov(g, X_C_PREFETCH, X_C);
    start(g, w, rows);
    steps(g, w, rows, w->steps - late, 0);
    steps(g, w, rows, late, each);
}

// Computes `rows` rows of results, with A at X_A and C at X_C, and advances
// both pointers.
static void tile(dv_x *g, const product *w, int rows)
{
    along_k(g, w, rows);
    dv_x_add(g, X_A, (int64_t)w->steps * rows * BYTES);
    if (w->halves) {
        finish_halves(g, w, rows);
    } else if (w->direct) {
        all_sums(g, w, rows, DV_X_tilestore);
        dv_x_add(g, X_C, rows * w->p.ldc);
    } else {
        finish(g, w, rows);
    }
}

static product product_of(const dv_gemm_shape *s)
{
    int es = s->dtype == DV_I8 ? 1 : 2;
    product w = {.halves = s->ctype == DV_BF16};
    w.p = dv_prod_of(s, w.halves ? 2 : 4, SIDE);
    w.steps = (int)(((int64_t)s->k * es + BYTES - 1) / BYTES);
    w.nt = (s->n + SIDE - 1) / SIDE;
    w.op = s->dtype == DV_I8 ? DV_X_tiledpi8 : DV_X_tiledpbf16;
    if (s->next_b && s->m >= 2 * ROWS)
        w.next = (w.nt * SIDE + s->m / ROWS - 1) / (s->m / ROWS);
    w.direct = !s->bias && !s->relu;
    // Whether sums start with the old C must not depend on bias or relu, so
    // that these do not change the order of additions and with it the bits of
    // the sum.
    w.from_c = s->beta && !w.halves;
    if (w.from_c)
        w.p.beta = DV_SCALE_ZERO;
    return w;
}

void dv_x_amx_gemm(dv_x *g, const dv_gemm_shape *s)
{
    product w = product_of(s);
    int many = s->m / ROWS, rest = s->m % ROWS;
    dv_x_prologue(g, 1u << X_M | 1u << X_LDC | 1u << X_BIAS | 1u << X_NEXT |
                         1u << X_C_PREFETCH);
    if (s->bias)
        dv_x_get(g, X_BIAS, X_ARGS, offsetof(dv_gemm_args, bias));
    dv_x_set(g, X_WIDE, BYTES);
    dv_x_set(g, X_LDC, w.p.ldc);
    if (w.next)
        dv_x_lea(g, X_NEXT, X_B, (int64_t)w.steps * w.nt * TILE);
    if (many) {
        dv_x_amx_config(g, ROWS, s->n);
        DV_REPEAT(X_M, many)
        tile(g, &w, ROWS);
    }
    if (rest) {
        dv_x_amx_config(g, rest, s->n);
        tile(g, &w, rest);
    }
    dv_x_emit(g->code, DV_X_tilerelease, 16, 0, 0, dv_x_reg(0), none);
    dv_x_epilogue(g);
}
