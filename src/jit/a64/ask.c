// Asking for what comes from memory next, spread over the steps of a tile.
// Memory takes only so many requests at a time and forgets the others, so that
// all at once would mostly be lost. Or bringing it: into a block that is tight.
#include "jit/a64/tile.h"

enum { LOAD_L1 = 0, LOAD_L2 = 2, LINE = 64, MOST_EVERY = 8 };

// What the next kernel packs: a row of it every few steps.
int dv_tile_ask_every(int tiles)
{
    int every = 1;
    while (2 * every <= tiles && every < MOST_EVERY)
        every *= 2;
    return every;
}

// From the end of the row back: the line it begins in may belong to the columns
// before, and is there then.
void dv_tile_ask(dv_gen *g, const dv_prod *p, const dv_a64_tile *t)
{
    int off = (t->cols * g->es - 1) / 8 * 8;
    for (; off >= 0; off -= LINE)
        DV_E(prfm, LOAD_L2, X_NEXT, off, 0);
    dv_tile_step(g, X_NEXT, p->ask_step, X_LDB);
}

// S is read once, four rows of the tile at a time: tiles to come find the line
// behind it in L1, or in L2 where k is too long for that. Tiles are 16 bytes
// wide: which of four is the first to meet a new line differs from step to step
// here, so that each of them asks for a quarter of the lines.
void dv_tile_ask_s(dv_gen *g, const dv_prod *p, int base, int64_t off, int step)
{
    enum { MOST_OFF = 32760, NEAR_BYTES = 16384 };
    off = (off + LINE + 16 * (step % (LINE / 16))) / 8 * 8;
    if (p->ask_s && off >= 0 && off <= MOST_OFF)
        DV_E(prfm, p->k * LINE <= NEAR_BYTES ? LOAD_L1 : LOAD_L2, base, off, 0);
}

// The rows that are read next lie far apart, each on a page of its own, more of
// them than pages are at hand. Asking looks pages up in the way of all else;
// loads do it beside the multiply-adds, and where one instruction goes from row
// to row the machine sees the distance and fetches ahead. So a row is copied
// with each turn of the loop over k, 16 bytes at a time through integer
// registers, which tiles leave free.

// The pair of registers for piece i, which is stored when the next one is read.
static int pair(int i)
{
    return X_ROW + 1 + 2 * (i & 1);
}

static void put_brought(dv_gen *g, int i)
{
    DV_E(stp_x, pair(i), pair(i) + 1, X_SPACK, 16 * i);
}

void dv_tile_bring(dv_gen *g, const dv_prod *p, int step, int steps)
{
    int n = (int)(p->ld_s / 16);
    for (int i = (step * n + steps - 1) / steps; i * steps < (step + 1) * n;
         i++) {
        if (i > 0)
            put_brought(g, i - 1);
        DV_E(ldp_x, pair(i), pair(i) + 1, X_NEXT, 16 * i);
    }
}

void dv_tile_bring_next(dv_gen *g, const dv_prod *p)
{
    put_brought(g, (int)(p->ld_s / 16) - 1);
    DV_E(add_x, X_NEXT, X_NEXT, X_LDA, 0);
    dv_gen_add(g, X_SPACK, X_SPACK, p->ld_s);
}
