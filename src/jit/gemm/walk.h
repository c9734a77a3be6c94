// Chooses the sizes of the register tiles of a product, and emits the product
// as loops over them. The gemm.c of a64/ and of x64/ includes this file, which
// names registers by their roles (X_A, X_NEXT and so on) and is written in the
// virtual operations of code.h and these names of the includer:
//
//   tile_size               a candidate for the size of a tile: `rows` rows by
//                           `nv` vectors
//   candidates(g)           the N_SIZES candidates
//   MOST_ROWS(g, p)         most rows that a tile of this product can have
//   tile_fits, tiles_cost   see below
//   AHEAD(reg, base, off)   sets reg to base + off
//   PREFETCH(near, off)     prefetches X_NEXT + off, into L1 if `near`, or L2
//   NEXT_ROW(p)             advances X_NEXT by a row of V
//   TILE(p, t)              emits a tile
//   SETS(p, rows, nv)       the number of sets of accumulators of a tile
//   SPREADS(p, t, lines)    whether TILE itself prefetches p->next_lines lines
//                           at X_NEXT, a few in every iteration over k
//   MOST_LINES              most lines or rows that one tile prefetches
//
// C is cut into tiles of nearly equal size: at most two heights and three
// widths (the third for a last column of tiles with an overlapping or partial
// vector), each with code of its own, in a loop if there are several. A panel
// of V stays in L1 while the tiles of S pass it.
#include "jit/gemm/cut.h"
#include "jit/gemm/prod.h"

// Returns whether a tile of `rows` rows by `nv` vectors, cut from the candidate
// size z, fits the registers and the encodings of instructions. A row of the
// product has n_vectors vectors.
static int tile_fits(const DV_GEN *g, const dv_prod *p, const tile_size *z,
                     int rows, int nv, int n_vectors);
// Estimates the time of all tiles of a cut (a division of C into register
// tiles), in units that only have to be the same for all candidates.
static int64_t tiles_cost(const DV_GEN *g, const dv_prod *p, const tile_size *z,
                          const dv_cuts *c);

// Chooses the cut with the lowest estimated cost; an empty one if no tile fits.
static dv_cuts choose(const DV_GEN *g, const dv_prod *p)
{
    int n_vectors = (p->n_v + g->lanes - 1) / g->lanes;
    int64_t least = -1;
    dv_cuts best = {.s.n = 0};
    for (const tile_size *z = candidates(g), *end = z + N_SIZES; z < end; z++) {
        int rows = p->n_s < z->rows ? p->n_s : z->rows;
        int nv = n_vectors < z->nv ? n_vectors : z->nv;
        if (p->tile_rows) // the height of packed panels prescribes the rows
            rows = p->tile_rows;
        if (rows > MOST_ROWS(g, p))
            rows = MOST_ROWS(g, p);
        if (!tile_fits(g, p, z, rows, nv, n_vectors))
            continue;
        dv_cuts c = {dv_runs_even(p->n_s, rows), dv_runs_even(n_vectors, nv)};
        int64_t cost = tiles_cost(g, p, z, &c);
        if (least < 0 || cost < least) {
            least = cost;
            best = c;
        }
    }
    return best;
}

typedef struct walk {
    DV_GEN *g;
    const dv_prod *p;
    const dv_cuts *grid;
    // 1: there is more than one tile along the rows (many_s) or along the
    // columns (many_v).
    int many_s, many_v;
    // Number of cache lines or rows that each tile prefetches for the next
    // kernel; 0: none.
    int next;
    // 1: prefetches for the next kernel are spread over the steps of k.
    int spread;
    // 1: the last column of tiles may overlap the one before it; elements in
    // the overlap are computed twice. Not if tiles prefetch for the next
    // kernel.
    int twice;
} walk;

// Advances the pointers by one tile of `rows` rows along S, the operand read as
// scalars (usually A).
static void next_s(const walk *w, int rows)
{
    DV_GEN *g = w->g;
    const dv_prod *p = w->p;
    int per = 16 / g->es; // elements of k that are contiguous in a panel
    int64_t k = p->lane_k ? ((int64_t)p->k + per - 1) / per * per : p->k;
    DV_ADD(X_A, rows * (p->panel ? k * g->es : p->lane_k ? p->ld_s : g->es));
    if (p->step_c)
        DV_ADD(X_C, p->step_c);
    else
        DV_ADD(X_C, rows * (p->c_transposed ? g->es : p->ldc));
    if (p->bias == 1)
        DV_ADD(X_BIAS, (int64_t)rows * g->es);
}

static void next_v(const walk *w, int cols)
{
    DV_GEN *g = w->g;
    const dv_prod *p = w->p;
    int64_t c = cols * (p->c_transposed ? p->ldc : g->es);
    DV_ADD(X_B, (int64_t)cols * g->es);
    if (w->many_s) {
        DV_MOV(X_A, X_ABASE);
        DV_ADD(X_CBASE, c);
        DV_MOV(X_C, X_CBASE);
    } else {
        DV_ADD(X_C, c);
    }
    if (p->bias == 1 && w->many_s)
        DV_MOV(X_BIAS, X_BIASBASE);
    if (p->bias == 2)
        DV_ADD(X_BIAS, (int64_t)cols * g->es);
}

enum { LINE_BYTES = 64 };

// Emits what one tile contributes to the prefetches for the next kernel. If
// this kernel packs V, the operand read as vectors (usually B), these are rows
// of the columns that are packed next; otherwise cache lines of the packed
// panel of V that follows this one in memory (into L1 if the panel is small).
static void prefetch_for_next(const walk *w)
{
    enum { SMALL = 8192 };
    DV_GEN *g = w->g;
    int n = w->next < MOST_LINES ? w->next : MOST_LINES;
    if (!w->p->pack_v) {
        for (int i = 0; i < n; i++)
            PREFETCH(w->p->k * w->p->ld_v <= SMALL, i * LINE_BYTES);
        DV_ADD(X_NEXT, n * LINE_BYTES);
        return;
    }
    for (int i = 0; i < n; i++) {
        for (int64_t off = 0; off < w->p->pack_v; off += LINE_BYTES)
            PREFETCH(0, off);
        NEXT_ROW(w->p);
    }
}

static int count_tiles(const dv_runs *s)
{
    int n = 0;
    for (int i = 0; i < s->n; i++)
        n += s->count[i];
    return n;
}

// Sets register X_NEXT to the address to prefetch for the next kernel, and
// computes how many cache lines or rows each tile prefetches.
static void start_next(walk *w)
{
    DV_GEN *g = w->g;
    const dv_prod *p = w->p;
    int64_t bytes = (int64_t)p->k * p->batch * p->ld_v;
    int64_t n = p->pack_v ? p->k : bytes / LINE_BYTES;
    int tiles = count_tiles(&w->grid->s);
    if (w->spread)
        DV_GET(X_NEXT, next);
    if (!w->next)
        return;
    w->next = (int)((n + tiles - 1) / tiles);
    AHEAD(X_NEXT, X_B, p->pack_v ? (int64_t)p->n_v * g->es : bytes);
}

// Emits `count` tiles of the same size one below the other, as a loop; `more`
// says that other tiles follow.
static void tiles(const walk *w, const dv_prod *p, const dv_prod_tile *t,
                  int count, int more)
{
    DV_GEN *g = w->g;
    DV_REPEAT(X_M, count)
    {
        if (w->next && !p->next_lines)
            prefetch_for_next(w);
        TILE(p, t);
        if (count > 1 || more)
            next_s(w, t->rows);
    }
}

// Emits all tiles of a column but the first, which packs V, the operand read as
// vectors (usually B). The first *left of them also prefetch the block of V
// that the next kernel packs; *left is reduced by their number.
static void asking(const walk *w, dv_prod p, const dv_prod_tile *t, int count,
                   int more, int *left)
{
    int n = *left < count ? *left : count;
    if (n > 0)
        tiles(w, &p, t, n, count > n || more);
    p.prefetch_every = 0;
    if (count > n)
        tiles(w, &p, t, count - n, more);
    *left -= n;
}

// Returns after how many steps of k a tile prefetches another of the k rows
// that the next kernel packs. With an interval of i steps, i tiles together
// prefetch all rows; so i is the largest power of 2 up to `tiles`, the number
// of tiles that can share the work, but at most 8.
static int prefetch_interval(int tiles)
{
    enum { MOST_EVERY = 8 };
    int every = 1;
    while (2 * every <= tiles && every < MOST_EVERY)
        every *= 2;
    return every;
}

// Emits a column of tiles. If V, the operand read as vectors (usually B), is to
// be packed, the first tile packs it.
static void emit_tile_column(const walk *w, int cols, int nv)
{
    DV_GEN *g = w->g;
    const dv_runs *s = &w->grid->s;
    dv_prod p = *w->p;
    int n_below = count_tiles(s) - 1, left = 0;
    if (w->spread) {
        p.prefetch_step = p.ld_v;
        // If this is the only tile of the column, it prefetches all rows for
        // the next kernel, one per step of k; otherwise the tiles below it do
        // so.
        p.prefetch_every = n_below ? 0 : 1;
    }
    for (int i = 0; i < s->n; i++) {
        int rows = s->size[i], count = s->count[i], more = i + 1 < s->n;
        dv_prod_tile t = {rows, cols, nv, SETS(&p, rows, nv)};
        int spreads = !w->p->pack_v && SPREADS(&p, &t, w->next);
        p.next_lines = spreads ? w->next : 0;
        // If S, the operand read as scalars (usually A), is packed in
        // transposed panels, a row of a panel has as many elements as the tile
        // has rows.
        if (p.panel && !p.lane_k)
            p.ld_s = rows * g->es;
        if (p.pack_v) {
            tiles(w, &p, &t, 1, count > 1 || more);
            DV_GET(X_B, pack_b);
            p.ld_v = p.pack_v;
            p.pack_v = p.far_v = 0;
            count--;
            if (w->spread)
                p.prefetch_every = left = prefetch_interval(n_below);
        }
        asking(w, dv_prod_joined(&p), &t, count, more, &left);
    }
}

// Emits `count` columns of tiles and one more that is shifted back by `back`
// elements, with the same code: elements in the overlap are computed and
// written twice. The loop runs a second time, for the shifted column alone.
static void overlapping(const walk *w, int cols, int nv, int count, int back)
{
    DV_GEN *g = w->g;
    DV_SET(X_NEXT, 2);
    DV_SET(X_N, count);
    size_t top = g->code->n;
    emit_tile_column(w, cols, nv);
    next_v(w, cols);
    DV_AGAIN(X_N, top);
    next_v(w, -back);
    DV_SET(X_N, 1);
    DV_AGAIN(X_NEXT, top);
}

// Emits all columns of tiles. If the width is not a multiple of the lanes, the
// last column has an overlapping or partial vector, or overlaps the one before
// it as a whole if that is allowed.
static void emit_tile_columns(const walk *w)
{
    DV_GEN *g = w->g;
    const dv_runs *v = &w->grid->v;
    int lanes = g->lanes, part = w->p->n_v % lanes;
    for (int i = 0; i < v->n; i++) {
        int cols = v->size[i] * lanes, last = i + 1 == v->n;
        int count = v->count[i] - (last && part);
        if (last && part && count > 0 && w->twice && !w->next) {
            overlapping(w, cols, v->size[i], count, lanes - part);
            return;
        }
        DV_REPEAT(X_N, count)
        {
            emit_tile_column(w, cols, v->size[i]);
            if (count > 1 || !last || part)
                next_v(w, cols);
        }
        if (last && part)
            emit_tile_column(w, cols - lanes + part, v->size[i]);
    }
}

// Exchanges the pointers to A and B if tiles are transposed blocks of C,
// because A is then read as vectors and B as scalars.
static void swap(const walk *w)
{
    DV_GEN *g = w->g;
    if (!w->p->c_transposed)
        return;
    DV_MOV(X_TMP, X_A);
    DV_MOV(X_A, X_B);
    DV_MOV(X_B, X_TMP);
}

// Loads the pointers of the arguments that the product uses, and sets register
// X_NEXT to the address to prefetch for the next kernel.
static void get_args(walk *w)
{
    DV_GEN *g = w->g;
    if (w->p->bias)
        DV_GET(X_BIAS, bias);
    if (w->p->pack_s)
        DV_GET(X_SPACK, pack_a);
    if (w->p->pack_v)
        DV_GET(X_VPACK, pack_b);
    start_next(w);
}
