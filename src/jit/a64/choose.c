// Chooses the sizes of the register tiles that a product is cut into, by
// estimating the cost of each candidate.
#include "jit/a64/kloop.h"

// A candidate tile with measured costs beyond its multiply-adds: `waste` in
// thousandths of the time of the multiply-adds, `ends` in quarters of a cycle
// for the start and the end of a tile.
typedef struct size {
    int rows, nv, waste, ends;
} size;

static const size sizes[] = {{6, 3, 45, 44},  {4, 5, 10, 52}, {5, 4, 50, 46},
                             {8, 2, 75, 26},  {4, 4, 15, 64}, {3, 6, 60, 50},
                             {2, 6, 100, 50}, {4, 6, 5, 20}};

static int lanes_log(const dv_gen *g)
{
    return g->es == 8 ? 1 : 2;
}

// Returns whether a tile fits the 32 vector registers: its accumulators, a ring
// (registers that are loaded in turn) for the operand V, which is read as
// vectors, and one for the operand S, which is read as scalars.
static int fits(const dv_gen *g, const dv_prod *p, int rows, int nv)
{
    int s = p->lane_k ? rows : (rows + g->lanes - 1) >> lanes_log(g);
    if (p->c_transposed && rows * nv > 20)
        return 0;
    // Tiles of more than 20 accumulators hold only what one step of k reads of
    // the vector operand and what two steps read of the scalar operand; smaller
    // tiles hold more.
    if (rows * nv > 20)
        return rows * nv + nv + 2 * s <= 32;
    return rows * nv + nv + s + 1 <= 32;
}

// Returns the estimated time of a product that is cut into tiles, in
// thousandths of a quarter of a cycle. Four multiply-adds start per cycle, but
// a step of k takes at least SHORTEST quarters of a cycle, because each
// accumulator has to wait for its previous multiply-add.
static int64_t grid_cost(const dv_prod *p, const size *z, const dv_runs *s,
                         const dv_runs *v)
{
    enum { SHORTEST = 13 };
    // Number of tiles, number of accumulators of all tiles, and quarters of a
    // cycle that one step of k takes over all tiles.
    int64_t tiles = 0, all = 0, steps = 0;
    for (int i = 0; i < s->n; i++)
        for (int j = 0; j < v->n; j++) {
            int64_t n = s->count[i] * (int64_t)v->count[j];
            int fma = s->size[i] * v->size[j];
            tiles += n;
            all += n * fma;
            steps += n * (fma > SHORTEST ? fma : SHORTEST);
        }
    return (int64_t)p->k * p->batch * steps * (1000 + z->waste) +
           1000 * (z->ends * tiles + all);
}

// Returns the cut of n into nearly equal parts of at most `most`. Each cut is
// computed once and kept in made[], because divisions are slow.
enum { MOST_SIZE = 8 };
static const dv_runs *cut_of(dv_runs *made, int n, int most)
{
    if (!made[most].n)
        made[most] = dv_runs_even(n, most);
    return &made[most];
}

void dv_tile_choose(const dv_gen *g, const dv_prod *p, dv_cuts *out)
{
    int n_vectors = (int)((unsigned)(p->n_v + g->lanes - 1) >> lanes_log(g));
    int64_t best = -1, k = (int64_t)p->k * p->batch;
    // Number of accumulators of all tiles together.
    int64_t all = p->n_s * (int64_t)n_vectors;
    dv_runs made_s[UINT8_MAX + 1], made_v[MOST_SIZE + 1];
    made_s[p->tile_rows].n = 0;
    for (int i = 0; i <= MOST_SIZE; i++)
        made_s[i].n = made_v[i].n = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const size *z = &sizes[i];
        int rows = p->n_s < z->rows ? p->n_s : z->rows;
        int nv = n_vectors < z->nv ? n_vectors : z->nv;
        if (p->tile_rows) // the height of packed panels prescribes the rows
            rows = p->tile_rows;
        // Skips a candidate whose lower bound is no better than the best cost:
        // without start and end costs, a step takes at least the time of its
        // multiply-adds.
        if (best >= 0 && all * (k * (1000 + z->waste) + 1000) >= best)
            continue;
        if (!fits(g, p, rows, nv))
            continue;
        // The low costs measured for 24 accumulators do not hold for a tile
        // that the product's extents make smaller, so the candidate needs full
        // tiles.
        if (z->rows * z->nv == 24 && (rows < 4 || n_vectors % 6))
            continue;
        const dv_runs *s = cut_of(made_s, p->n_s, rows);
        const dv_runs *v = cut_of(made_v, n_vectors, nv);
        int64_t cost = grid_cost(p, z, s, v);
        if (best < 0 || cost < best) {
            best = cost;
            out->s = *s;
            out->v = *v;
        }
    }
    if (best < 0) // no cut exists: packed panels have more rows than any tile
        out->s = out->v = (dv_runs){.n = 0};
}
