// Asking for what comes from memory next, spread over the steps of a tile.
// Memory takes only so many requests at a time and forgets the others, so that
// all at once would mostly be lost.
#include "jit/aarch64/tile.h"

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
void dv_tile_ask(dv_gen *g, const dv_prod *p, const dv_tile *t)
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
