// Generates moves: copy and transpose. dv_move_shape describes them. A move
// accesses nothing outside the two blocks.
#include "jit/x64/tile.h"

// UNROLL is the number of vectors per loop iteration; rows of up to NARROW
// bytes are copied without a loop.
enum { UNROLL = 4, NARROW = 512 };

// Copies n bytes from address X_S + off to X_D + off. All full vectors are
// loaded before any is stored.
static void row_bytes(dv_x *g, int64_t off, int n)
{
    int vectors = n / g->vb;
    for (int i = 0; i < vectors; i++)
        dv_x_load(g, i, X_S, off + (int64_t)i * g->vb, 0);
    for (int i = 0; i < vectors; i++)
        dv_x_store(g, i, X_D, off + (int64_t)i * g->vb, 0);
    off += (int64_t)vectors * g->vb;
    dv_x_copy(g, 0, X_S, off, X_D, off, n - vectors * g->vb);
}

static void one_row(dv_x *g, const dv_move_shape *s)
{
    int64_t bytes = (int64_t)s->cols * g->es;
    int turn = UNROLL * g->vb;
    dv_x_mov(g, X_S, X_SRC);
    dv_x_mov(g, X_D, X_DST);
    if (bytes <= NARROW) {
        for (int64_t at = 0; at < bytes; at += turn)
            row_bytes(g, at, (int)(bytes - at < turn ? bytes - at : turn));
        return;
    }
    DV_LOOP(X_J, bytes / turn) {
        row_bytes(g, 0, turn);
        dv_x_add(g, X_S, turn);
        dv_x_add(g, X_D, turn);
    }
    row_bytes(g, 0, (int)(bytes % turn));
}

static void rows(dv_x *g, const dv_move_shape *s)
{
    DV_LOOP(X_I, s->rows) {
        one_row(g, s);
        dv_x_add(g, X_SRC, s->lds * g->es);
        dv_x_add(g, X_DST, s->ldd * g->es);
    }
}

// Transposed blocks have 8 x 8 elements, 4 x 4 for f64, and 16 rows by 8
// columns for i8. BLOCK and THIN are vector lengths in bytes for wide and for
// narrow elements.
enum { BLOCK = 32, THIN = 16, SIDE = 8 };

static void op32(dv_x *g, dv_x_insn op, int a, int b, int c, int imm)
{
    dv_x_emit(g->code, op, BLOCK, a, b, dv_x_reg(c), (dv_x_more){.imm = imm});
}

static void weave(dv_x *g, dv_x_insn op, int a, int b, int c)
{
    dv_x_emit_3(g->code, op, BLOCK, a, b, c);
}

// Exchanges 16-byte halves between rows (one per register) that are n apart,
// from registers `from` on into registers `to` on.
static void exchange_halves(dv_x *g, int from, int to, int n)
{
    enum { LOW = 0x20, HIGH = 0x31 };
    for (int i = 0; i < n; i++) {
        op32(g, DV_X_vperm2f128, to + i, from + i, from + n + i, LOW);
        op32(g, DV_X_vperm2f128, to + n + i, from + i, from + n + i, HIGH);
    }
}

// Transposes the block in registers 0 to 7 (f64: 0 to 3) into registers 8 and
// up.
static void transpose_regs(dv_x *g)
{
    if (g->es == 8) {
        for (int i = 0; i < 4; i += 2) {
            weave(g, DV_X_vunpcklpd, 4 + i, i, i + 1);
            weave(g, DV_X_vunpckhpd, 5 + i, i, i + 1);
        }
        exchange_halves(g, 4, 8, 2);
        return;
    }
    for (int i = 0; i < 8; i += 2) { // interleave pairs of rows
        weave(g, DV_X_vunpcklps, 8 + i, i, i + 1);
        weave(g, DV_X_vunpckhps, 9 + i, i, i + 1);
    }
    // Now each 16-byte half of a register holds one column of four rows.
    for (int i = 0; i < 8; i += 4)
        for (int j = 0; j < 2; j++) {
            weave(g, DV_X_vunpcklpd, i + 2 * j, 8 + i + j, 10 + i + j);
            weave(g, DV_X_vunpckhpd, i + 2 * j + 1, 8 + i + j, 10 + i + j);
        }
    exchange_halves(g, 0, 8, 4);
}

// Transposes eight rows of 2-byte words in registers 0 to 7 into registers 8 to
// 15. Each step interleaves the words of rows i and i + 4 into rows 2i and 2i +
// 1. This rotates the bits of the row and word numbers by one position; after
// three steps the two numbers have changed places.
static void transpose_words(dv_x *g)
{
    for (int step = 0; step < 3; step++)
        for (int i = 0; i < SIDE / 2; i++) {
            int a = step % 2 * SIDE + i, b = a + SIDE / 2;
            int to = SIDE - step % 2 * SIDE + 2 * i;
            dv_x_emit_3(g->code, DV_X_vpunpcklwd, THIN, to, a, b);
            dv_x_emit_3(g->code, DV_X_vpunpckhwd, THIN, to + 1, a, b);
        }
}

// Loads r rows of c narrow elements (of 1 or 2 bytes). Two rows of bytes are
// interleaved into one row of 2-byte words.
static void load_thin(dv_x *g, const dv_move_shape *s, int r, int c)
{
    for (int i = 0; i < r; i++) {
        int second = g->es == 1 && i % 2, v = g->es == 1 ? i / 2 : i;
        dv_x_load_part(g, second ? SIDE : v, 1, 0, c * g->es);
        if (second)
            dv_x_emit_3(g->code, DV_X_vpunpcklbw, THIN, v, v, SIDE);
        else if (g->es == 1 && i + 1 == r)
            dv_x_emit_3(g->code, DV_X_vpunpcklbw, THIN, v, v, v);
        dv_x_add(g, 1, s->lds * g->es);
    }
}

// Transposes a block of r x c elements at the source pointer X_S into c x r
// elements at the destination pointer X_D.
static void transpose_block(dv_x *g, const dv_move_shape *s, int r, int c)
{
    int thin = g->es < 4;
    dv_x_mov(g, 1, X_S); // rcx and rdx step through source and destination rows
    dv_x_mov(g, 2, X_D);
    if (thin)
        load_thin(g, s, r, c);
    for (int i = 0; !thin && i < r; i++) {
        dv_x_load_n(g, i, 1, 0, BLOCK, c, 15);
        dv_x_add(g, 1, s->lds * g->es);
    }
    if (thin)
        transpose_words(g);
    else
        transpose_regs(g);
    for (int j = 0; j < c; j++) {
        if (thin)
            dv_x_store_part(g, SIDE + j, 2, 0, r * g->es);
        else
            dv_x_store_n(g, 8 + j, 2, 0, BLOCK, r, 0);
        dv_x_add(g, 2, s->ldd * g->es);
    }
}

// Transposes a strip of r source rows from the source at X_SRC to the
// destination at X_DST.
static void transpose_strip(dv_x *g, const dv_move_shape *s, int r)
{
    int side = g->es < 8 ? SIDE : SIDE / 2;
    int many = s->cols / side, rest = s->cols % side;
    dv_x_mov(g, X_S, X_SRC);
    dv_x_mov(g, X_D, X_DST);
    DV_LOOP(X_J, many) {
        transpose_block(g, s, r, side);
        dv_x_add(g, X_S, side * g->es);
        dv_x_add(g, X_D, side * s->ldd * g->es);
    }
    if (rest)
        transpose_block(g, s, r, rest);
}

static void transpose(dv_x *g, const dv_move_shape *s)
{
    int bytes = g->es < 4 ? THIN : BLOCK, side = bytes / g->es;
    int many = s->rows / side, rest = s->rows % side;
    DV_LOOP(X_I, many) {
        transpose_strip(g, s, side);
        dv_x_add(g, X_SRC, side * s->lds * g->es);
        dv_x_add(g, X_DST, bytes);
    }
    if (rest)
        transpose_strip(g, s, rest);
}

void dv_x64_move(dv_code *code, const dv_isa *isa, const dv_move_shape *s)
{
    int es = dv_dtype_get((dv_dtype)s->dtype)->size_bytes;
    dv_x gen, *g = &gen;
    dv_x_start(g, code, isa, es);
    switch ((dv_move)s->move) {
    case DV_MOVE_COPY:
        rows(g, s);
        break;
    case DV_MOVE_TRANSPOSE:
        transpose(g, s);
        break;
    case DV_MOVE_NARROW:
        dv_x_start_vb(g, code, 32, 4);
        dv_x_convert(g, s);
        break;
    case DV_MOVE_PAIRS:
    case DV_MOVE_PAIRS_TRANSPOSED:
        dv_x_start(g, code, isa, 4);
        dv_x_pack_narrow(g, isa, s);
        break;
    }
    dv_x_epilogue(g);
}
