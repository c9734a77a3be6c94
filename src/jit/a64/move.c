// Generates moves: copy and transpose. dv_move_shape in jit.h defines them. A
// move accesses nothing outside its two blocks.
#include "jit/a64/gen.h"

enum { X_LDS = 6, X_AHEAD = 7, X_LDD = 8, X_FROM = 14, X_TO = 15 };
// NARROW: rows of at most this many vectors are copied without a loop over the
// row.
enum { UNROLL = 4, NARROW = 12 };
enum { AHEAD = 8 }; // prefetch distance in rows

static void row_vectors(dv_gen *g, int n)
{
    for (int i = 0; i < n; i++)
        dv_gen_load(g, dv_gen_reg(i), X_S, 16 * i, 16);
    for (int i = 0; i < n; i++)
        dv_gen_store(g, dv_gen_reg(i), X_D, 16 * i, 16);
}

typedef struct piece {
    int64_t off;
    int bytes;
} piece;

// Returns the offset and size of the tail of a row after its whole vectors. If
// one or two loads cannot cover the tail and there is a whole vector before it
// (`has_vector`), the tail is extended to a whole vector that overlaps it; some
// bytes are then moved twice.
static piece last_piece(int64_t off, int bytes, int has_vector)
{
    if (bytes % 4 && has_vector)
        return (piece){off + bytes - 16, 16};
    return (piece){off, bytes};
}

// Copies one row of at least one whole vector.
static void one_row(dv_gen *g, const dv_move_shape *s)
{
    int vectors = s->cols / g->lanes, many = vectors / UNROLL;
    int left = vectors % UNROLL, part = s->cols % g->lanes * g->es;
    DV_E(mov_x, X_S, 0, X_SRC, 0);
    DV_E(mov_x, X_D, 0, X_DST, 0);
    DV_LOOP(X_J, many) {
        row_vectors(g, UNROLL);
        dv_gen_add(g, X_S, X_S, 16 * UNROLL);
        dv_gen_add(g, X_D, X_D, 16 * UNROLL);
    }
    row_vectors(g, left);
    if (part) {
        piece p = last_piece(16 * left, part, 1);
        dv_gen_load(g, 0, X_S, p.off, p.bytes);
        dv_gen_store(g, 0, X_D, p.off, p.bytes);
    }
}

static void wide_rows(dv_gen *g, const dv_move_shape *s)
{
    DV_LOOP(X_I, s->rows) {
        one_row(g, s);
        dv_gen_add(g, X_SRC, X_SRC, s->lds * g->es);
        dv_gen_add(g, X_DST, X_DST, s->ldd * g->es);
    }
}

// Returns the offset and size of vector j in a row of `bytes` bytes.
static piece row_piece(int bytes, int j)
{
    int left = bytes - 16 * j;
    return left < 16 ? last_piece(16 * j, left, j > 0) : (piece){16 * j, 16};
}

// Copies n narrow rows (of at most NARROW vectors): all loads, then
// all stores. Later rows are prefetched, because the hardware prefetcher does
// not detect rows that are far apart as a stream.
static void narrow_step(dv_gen *g, const dv_move_shape *s, int n)
{
    int vectors = (s->cols + g->lanes - 1) / g->lanes, v = 0;
    int bytes = s->cols * g->es;
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < vectors; j++, v++) {
            piece p = row_piece(bytes, j);
            dv_gen_load(g, dv_gen_reg(v), X_SRC, p.off, p.bytes);
        }
        for (int off = 0; off < bytes; off += LINE)
            DV_E(prfm, LOAD_L1, X_AHEAD, off, 0);
        DV_E(add_x, X_SRC, X_SRC, X_LDS, 0);
        DV_E(add_x, X_AHEAD, X_AHEAD, X_LDS, 0);
    }
    v = 0;
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < vectors; j++, v++) {
            piece p = row_piece(bytes, j);
            dv_gen_store(g, dv_gen_reg(v), X_DST, p.off, p.bytes);
        }
        dv_gen_add(g, X_DST, X_DST, s->ldd * g->es);
    }
}

static void narrow_rows(dv_gen *g, const dv_move_shape *s)
{
    int vectors = (s->cols + g->lanes - 1) / g->lanes;
    int n = NARROW / vectors, many = s->rows / n, rest = s->rows % n;
    dv_gen_mov(g, X_LDS, s->lds * g->es);
    dv_gen_mov(g, X_AHEAD, AHEAD * s->lds * g->es);
    DV_E(add_x, X_AHEAD, X_AHEAD, X_SRC, 0);
    DV_LOOP(X_I, many) {
        narrow_step(g, s, n);
    }
    if (rest)
        narrow_step(g, s, rest);
}

static void rows(dv_gen *g, const dv_move_shape *s)
{
    if (s->cols * g->es <= NARROW * 16)
        narrow_rows(g, s);
    else
        wide_rows(g, s);
}

// Transposes a block of lanes x lanes elements in the registers v. Each trn1
// writes to the spare register, and its first source becomes the next spare
// one; v is updated to say which register holds which row. Step s exchanges bit
// s of the row number with bit s of the column number:
//
//   a0 a1 a2 a3             a0 b0 a2 b2             a0 b0 c0 d0
//   b0 b1 b2 b3  step 0 of  a1 b1 a3 b3  step 1 of  a1 b1 c1 d1
//   c0 c1 c2 c3  an element c0 d0 c2 d2  two        a2 b2 c2 d2
//   d0 d1 d2 d3             c1 d1 c3 d3             a3 b3 c3 d3
//
// Only r source rows and c source columns are used; instructions that do not
// contribute to their elements are left out.
static void transpose_regs(dv_gen *g, int *v, int *spare, int r, int c)
{
    static const dv_insn trn[][2] = {{DV_INSN_trn1_16b, DV_INSN_trn2_16b},
                                     {DV_INSN_trn1_8h, DV_INSN_trn2_8h},
                                     {DV_INSN_trn1_4s, DV_INSN_trn2_4s},
                                     {DV_INSN_trn1_2d, DV_INSN_trn2_2d}};
    int log = __builtin_ctz((unsigned)g->es);
    for (int s = 0; 1 << s < g->lanes; s++)
        for (int i = 0; i < g->lanes; i++) {
            int j = i | 1 << s, below = (2 << s) - 1, a = v[i], b = v[j];
            // Both results hold elements of source rows from i & ~below on, and
            // of source columns from i & below and from j & below on. Results
            // without any of the r rows and c columns are skipped.
            if (i == j || (i & ~below) >= r)
                continue;
            if ((i & below) < c)
                dv_emit(g->code, trn[log + s][0], *spare, a, b, 0);
            if ((j & below) < c)
                dv_emit(g->code, trn[log + s][1], b, a, b, 0);
            v[i] = *spare;
            *spare = a;
        }
}

enum { MOST_LANES = 16 };

// Transposes a block of r x c elements, both at most `lanes`, from the source
// at X_S + from to the destination at X_D + to, where it becomes c x r.
static void transpose_block(dv_gen *g, const dv_move_shape *s, int r, int c,
                            int64_t from, int64_t to)
{
    int v[MOST_LANES], spare = dv_gen_reg(g->lanes), src = X_S, dst = X_D;
    for (int i = 0; i < g->lanes; i++)
        v[i] = dv_gen_reg(i);
    if (from)
        dv_gen_add(g, src = X_FROM, X_S, from);
    for (int i = 0; i < r; i++, src = X_FROM) {
        dv_gen_load(g, v[i], src, 0, c * g->es);
        if (i + 1 < r)
            dv_gen_add(g, X_FROM, src, s->lds * g->es);
    }
    transpose_regs(g, v, &spare, r, c);
    if (to)
        dv_gen_add(g, dst = X_TO, X_D, to);
    for (int j = 0; j < c; j++, dst = X_TO) {
        dv_gen_store(g, v[j], dst, 0, r * g->es);
        if (j + 1 < c)
            dv_gen_add(g, X_TO, dst, s->ldd * g->es);
    }
}

// Transposes n rows of the source at X_SRC into n columns of the destination at
// X_DST.
static void transpose_strip(dv_gen *g, const dv_move_shape *s, int n)
{
    int many = s->cols / g->lanes, rest = s->cols % g->lanes;
    DV_E(mov_x, X_S, 0, X_SRC, 0);
    DV_E(mov_x, X_D, 0, X_DST, 0);
    DV_LOOP(X_J, many) {
        transpose_block(g, s, n, g->lanes, 0, 0);
        dv_gen_add(g, X_S, X_S, 16);
        dv_gen_add(g, X_D, X_D, g->lanes * s->ldd * g->es);
    }
    if (rest)
        transpose_block(g, s, n, rest, 0, 0);
}

// Transposes rows x cols elements from the source at X_S to the destination at
// X_D, in blocks of `lanes` rows.
static void transpose_blocks(dv_gen *g, const dv_move_shape *s, int rows,
                             int cols)
{
    for (int i = 0; i < rows; i += g->lanes)
        transpose_block(g, s, rows - i < g->lanes ? rows - i : g->lanes, cols,
                        i * s->lds * g->es, i * g->es);
}

// Returns how many vectors of a 64-byte line of the destination are transposed
// at once: all four for elements of at least 4 bytes; fewer for narrow ones,
// because each vector takes `lanes` registers.
static int line_parts(const dv_gen *g)
{
    return g->es < 4 ? g->es : 4;
}

// Writes one cache line (for narrow elements, part of one) in each of `cols`
// rows of the destination, at most `lanes`. Writing a whole line at once spares
// reading its old contents from memory.
static void transpose_line(dv_gen *g, int cols)
{
    int v[MOST_LANES], spare = dv_gen_reg(MOST_LANES), n = line_parts(g);
    int src = X_S, dst = X_D;
    for (int i = 0; i < n * g->lanes; i++) {
        if (i) {
            DV_E(add_x, X_FROM, src, X_LDS, 0);
            src = X_FROM;
        }
        dv_gen_load(g, v[i] = dv_gen_reg(i), src, 0, cols * g->es);
    }
    for (int p = 0; p < n; p++)
        transpose_regs(g, v + p * g->lanes, &spare, g->lanes, cols);
    for (int j = 0; j < cols; j++) {
        const int *of = v + j;
        if (j) {
            DV_E(add_x, X_TO, dst, X_LDD, 0);
            dst = X_TO;
        }
        if (n == 1)
            DV_E(str_q, of[0], dst, 0, 0);
        for (int p = 0; p + 1 < n; p += 2)
            DV_E(stp_q, of[p * g->lanes], of[(p + 1) * g->lanes], dst, 16 * p);
    }
}

// Transposes a strip of n source columns, at most `lanes`, from the source at
// X_SRC to the destination at X_DST.
static void transpose_cols(dv_gen *g, const dv_move_shape *s, int n)
{
    int bytes = 16 * line_parts(g), line = bytes / g->es;
    int many = s->rows / line, rest = s->rows % line;
    DV_E(mov_x, X_S, 0, X_SRC, 0);
    DV_E(mov_x, X_D, 0, X_DST, 0);
    DV_LOOP(X_J, many) {
        transpose_line(g, n);
        dv_gen_add(g, X_S, X_S, line * s->lds * g->es);
        dv_gen_add(g, X_D, X_D, bytes);
    }
    if (rest)
        transpose_blocks(g, s, rest, n);
}

// Transposes a whole block. If rows of the destination are far apart, the
// source is processed by columns, so that each cache line of the destination is
// written as a whole.
static void transpose(dv_gen *g, const dv_move_shape *s)
{
    int down = s->ldd > s->lds && s->ldd * g->es >= 4096;
    int all = down ? s->cols : s->rows, part = g->lanes;
    int many = all / part, rest = all % part;
    if (down) {
        dv_gen_mov(g, X_LDS, s->lds * g->es);
        dv_gen_mov(g, X_LDD, s->ldd * g->es);
    }
    DV_LOOP(X_I, many) {
        if (down)
            transpose_cols(g, s, part);
        else
            transpose_strip(g, s, part);
        dv_gen_add(g, X_SRC, X_SRC, part * (down ? 1 : s->lds) * g->es);
        dv_gen_add(g, X_DST, X_DST, part * (down ? s->ldd : 1) * g->es);
    }
    if (rest && down)
        transpose_cols(g, s, rest);
    else if (rest)
        transpose_strip(g, s, rest);
}

void dv_a64_move(dv_code *code, const dv_isa *isa, const dv_move_shape *s)
{
    int es = dv_dtype_get((dv_dtype)s->dtype)->size_bytes;
    dv_gen gen = {.code = code, .es = es, .lanes = 16 / es}, *g = &gen;
    switch ((dv_move)s->move) {
    case DV_MOVE_COPY:
        rows(g, s);
        break;
    case DV_MOVE_TRANSPOSE:
        transpose(g, s);
        break;
    case DV_MOVE_PAIRS:
    case DV_MOVE_PAIRS_TRANSPOSED:
        dv_pairs_move(g, s);
        return;
    case DV_MOVE_NARROW:
        dv_convert_move(g, isa, s);
        break;
    }
    dv_gen_leave(g);
}
