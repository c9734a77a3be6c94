// Prefetches and copies of the operands that the next kernel or tile reads,
// spread over the steps of k of a tile. They are spread because a core can have
// only a limited number of outstanding memory requests and drops prefetches
// beyond that, so that many at once would mostly be lost.
#include "jit/a64/tile.h"

// Prefetches the row at the address in register X_NEXT, which the next kernel
// reads, into L2, from its last cache line back to the first. The line in which
// the row begins may be left out: it also holds the columns before these, and
// is in the cache already.
void dv_tile_prefetch_next(dv_gen *g, const dv_prod *p, const dv_prod_tile *t)
{
    int off = (t->cols * g->es - 1) / 8 * 8;
    for (; off >= 0; off -= LINE)
        DV_E(prfm, LOAD_L2, X_NEXT, off, 0);
    dv_tile_step(g, X_NEXT, p->prefetch_step, X_LDB);
}

// Prefetches the cache line after the elements that a step reads of the operand
// read as scalars (usually A), for the tiles that follow: into L1, or into L2
// if the lines of all k would not fit L1. A tile reads 16 bytes per step, so
// four tiles share a 64-byte line. The offset depends on the step so that each
// of these four tiles prefetches a quarter of the lines.
void dv_tile_prefetch_s(dv_gen *g, const dv_prod *p, int base, int64_t off,
                        int step)
{
    enum { MOST_OFF = 32760, NEAR_BYTES = 16384 };
    off = (off + LINE + 16 * (step % (LINE / 16))) / 8 * 8;
    if (p->prefetch_s && off >= 0 && off <= MOST_OFF)
        DV_E(prfm, p->k * LINE <= NEAR_BYTES ? LOAD_L1 : LOAD_L2, base, off, 0);
}

// The functions below copy the next kernel's operand instead of prefetching it.
// Its rows are far apart, each on a page of its own, and there are more of them
// than the TLB holds. A prefetch would stall other accesses on its page walk,
// whereas a load does its page walk in parallel to the multiply-adds, and its
// constant stride lets the hardware prefetcher run ahead. So each iteration of
// the loop over k copies one row, 16 bytes at a time, through integer registers
// that the tile does not use.

// Returns the first of the two registers for 16-byte piece i of a row that is
// copied. Two such pairs of registers alternate: piece i is stored when piece i
// + 1 is loaded.
static int pair(int i)
{
    return X_ROW + 1 + 2 * (i & 1);
}

static void store_copied(dv_gen *g, int i)
{
    DV_E(stp_x, pair(i), pair(i) + 1, X_SPACK, 16 * i);
}

void dv_tile_copy_next(dv_gen *g, const dv_prod *p, int step, int steps)
{
    int n = (int)(p->ld_s / 16);
    for (int i = (step * n + steps - 1) / steps; i * steps < (step + 1) * n;
         i++) {
        if (i > 0)
            store_copied(g, i - 1);
        DV_E(ldp_x, pair(i), pair(i) + 1, X_NEXT, 16 * i);
    }
}

void dv_tile_copy_advance(dv_gen *g, const dv_prod *p)
{
    store_copied(g, (int)(p->ld_s / 16) - 1);
    DV_E(add_x, X_NEXT, X_NEXT, X_LDA, 0);
    dv_gen_add(g, X_SPACK, X_SPACK, p->ld_s);
}
