// The loop over k of one tile.
//
// A step is one k: rows * nv multiply-adds, row by row. Loads are spread
// between them, about one step ahead of their use, as soon as the register
// they go to is free: registers of V and of S are two rings. A slot is the
// number of a multiply-add; each load has the slot before which it is issued.
//
//   K = 21, unroll 8:  loads before slot 0
//                      loop: steps 0..8, also loads for steps 8 and 9
//                      steps 8..13 + the rest, without loads past the end
//
// Numbers of steps go on from the loop into what follows it as if it had run
// once; the pointers have moved on by then.
#include "jit/aarch64/tile.h"

enum { UNROLL = 8, AHEAD = 12 }; // steps

typedef struct kloop {
    const dv_prod *p;
    const dv_tile *t;
    int ring_v, ring_s; // registers
    int first_v, first_s;
    int per_group; // loads of S for a group of steps
    int group;     // steps
    int steps;     // as emitted
    int base;      // step the pointers stand at
    int next_v, next_s;
    int walk_v, walk_s; // the pointer moves with each step
    int turns;          // of the loop; 0: none
    int flat;           // addresses are offsets from X_A and X_B
} kloop;

// The largest ring up to `want` that closes after UNROLL steps.
static int ring(int want, int room, int least, int period)
{
    for (int r = want < room ? want : room; r > least; r--)
        if (period % r == 0)
            return r;
    return least;
}

static void plan_rings(kloop *l, const dv_gen *g)
{
    const dv_tile *t = l->t;
    int lanes = g->lanes, acc = t->sets * t->rows * t->nv;
    l->group = l->p->lane_k ? lanes : 1;
    l->per_group = l->p->lane_k ? t->rows : (t->rows + lanes - 1) / lanes;
    int room = 32 - acc - l->per_group;
    l->ring_v = ring(2 * t->nv, room, t->nv, UNROLL * t->nv);
    room = 32 - acc - l->ring_v;
    l->ring_s = ring(2 * l->per_group, room, l->per_group,
                     UNROLL / l->group * l->per_group);
    l->first_v = acc;
    l->first_s = acc + l->ring_v;
}

int dv_tile_regs(const dv_gen *g, const dv_prod *p, const dv_tile *t)
{
    kloop l = {.p = p, .t = t};
    plan_rings(&l, g);
    return l.first_s + l.ring_s;
}

// -- Where loads go ----------------------------------------------------------

static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t slot_of_v(const kloop *l, int n)
{
    const dv_tile *t = l->t;
    int64_t size = t->rows * t->nv, prev = n - l->ring_v;
    int64_t free = (dv_gen_div(prev, t->nv) + 1) * size - t->nv +
                   (prev - dv_gen_div(prev, t->nv) * t->nv) + 1;
    return max64((n / t->nv - 1) * size + n % t->nv * t->rows, free);
}

static int64_t slot_of_s(const kloop *l, const dv_gen *g, int n)
{
    const dv_tile *t = l->t;
    int64_t size = t->rows * t->nv, prev = n - l->ring_s;
    int64_t group = dv_gen_div(prev, l->per_group);
    int64_t i = prev - group * l->per_group;
    int64_t row = l->p->lane_k ? i : (i + 1) * g->lanes - 1;
    row = row < t->rows ? row : t->rows - 1;
    int64_t free = ((group + 1) * l->group - 1) * size + (row + 1) * t->nv;
    int ahead = l->group > 1 ? 2 : 1;
    int64_t q = n / l->per_group, spread = n % l->per_group * ahead * size;
    return max64((q * l->group - ahead) * size + spread / l->per_group, free);
}

// Rows of V that are packed are far apart: no stream the machine would see.
static void ask_ahead(kloop *l, dv_gen *g)
{
    for (int off = 0; off < l->t->cols * g->es; off += 64)
        DV_E(prfm, 0, X_SOON, off, 0);
    dv_tile_step(g, X_SOON, l->p->ld_v, X_LDB);
}

static void load_v(kloop *l, dv_gen *g)
{
    const dv_tile *t = l->t;
    int n = l->next_v++, step = n / t->nv, j = n % t->nv;
    int v = dv_gen_reg(l->first_v + n % l->ring_v), bytes = dv_tile_bytes(g, t);
    int64_t at = dv_tile_off(g, t, j), off = at;
    if (!l->walk_v)
        off += (step - l->base) * l->p->ld_v;
    dv_gen_load(g, v, l->flat ? X_B : X_BRUN, off, bytes);
    if (l->p->pack_v)
        dv_gen_store(g, v, X_VPACK, at + (step - l->base) * l->p->pack_v,
                     bytes);
    if (l->walk_v && j == t->nv - 1)
        dv_tile_step(g, X_BRUN, l->p->ld_v, X_LDB);
    if (l->p->pack_v && j == t->nv - 1)
        ask_ahead(l, g);
}

// One vector of S with lanes of k: `lanes` steps of one row.
static void load_s_k(kloop *l, dv_gen *g, int v, int group, int row)
{
    int lanes = g->lanes, first = group * lanes, bytes = 16;
    int64_t q = group - l->base / lanes, packed = (q * l->t->rows + row) * 16;
    if (l->p->panel) {
        dv_gen_load(g, v, X_ROW, packed, 16);
        return;
    }
    if (first + lanes > l->steps) { // the rest overlaps, or is a part
        if (l->steps >= lanes && !l->p->pack_s)
            first = l->steps - lanes;
        else
            bytes = (l->steps - first) * g->es;
    }
    int64_t off = (int64_t)(first - l->base) * g->es;
    if (l->flat)
        dv_gen_load(g, v, X_A, off + row * l->p->ld_s, bytes);
    else
        dv_gen_load(g, v, X_ROW + row, off, bytes);
    if (l->p->pack_s)
        dv_gen_store(g, v, X_SPACK, packed, 16);
}

// One vector of S with lanes of rows: `lanes` rows of one step.
static void load_s_m(kloop *l, dv_gen *g, int v, int step, int i)
{
    int rows = l->t->rows, lanes = g->lanes, bytes = 16;
    int64_t off = 16 * (int64_t)i, to = 0;
    if (rows < lanes)
        bytes = rows * g->es;
    else if ((i + 1) * lanes > rows)
        off = (int64_t)(rows - lanes) * g->es;
    if (l->p->pack_s)
        to = off + (int64_t)(step - l->base) * rows * g->es;
    if (!l->walk_s)
        off += (step - l->base) * l->p->ld_s;
    dv_gen_load(g, v, l->flat ? X_A : X_ROW, off, bytes);
    if (l->p->pack_s)
        dv_gen_store(g, v, X_SPACK, to, bytes);
    if (l->walk_s && i == l->per_group - 1)
        dv_tile_step(g, X_ROW, l->p->ld_s, X_LDA);
}

static void load_s(kloop *l, dv_gen *g)
{
    int n = l->next_s++, group = n / l->per_group, i = n % l->per_group;
    int v = dv_gen_reg(l->first_s + n % l->ring_s);
    if (l->p->lane_k)
        load_s_k(l, g, v, group, i);
    else
        load_s_m(l, g, v, group, i);
}

static void loads_before(kloop *l, dv_gen *g, int64_t slot)
{
    int end_v = l->steps * l->t->nv;
    int end_s = (l->steps + l->group - 1) / l->group * l->per_group;
    while (l->next_v < end_v && slot_of_v(l, l->next_v) <= slot)
        load_v(l, g);
    while (l->next_s < end_s && slot_of_s(l, g, l->next_s) <= slot)
        load_s(l, g);
}

// -- Steps -------------------------------------------------------------------

// Register and lane of the scalar of (step, row).
static int scalar(const kloop *l, const dv_gen *g, int step, int row, int *lane)
{
    int lanes = g->lanes, rows = l->t->rows, n;
    if (l->p->lane_k) {
        int group = step / lanes;
        n = group * rows + row;
        *lane = step % lanes;
        if (!l->p->panel && !l->p->pack_s && (group + 1) * lanes > l->steps &&
            group)
            *lane += lanes - l->steps % lanes;
    } else {
        n = step * l->per_group + row / lanes;
        *lane = row % lanes;
        if (rows >= lanes && row / lanes * lanes + lanes > rows)
            *lane = row - (rows - lanes);
    }
    return dv_gen_reg(l->first_s + n % l->ring_s);
}

// Steps begin..end. Those below `fresh` start a sum.
static void steps(kloop *l, dv_gen *g, int begin, int end, int fresh)
{
    const dv_tile *t = l->t;
    int64_t slot = (int64_t)begin * t->rows * t->nv;
    for (int s = begin; s < end; s++)
        for (int i = 0; i < t->rows; i++) {
            int lane, from = scalar(l, g, s, i, &lane);
            for (int j = 0; j < t->nv; j++, slot++) {
                loads_before(l, g, slot);
                int acc = dv_tile_acc(t, s % t->sets, i, j);
                int v = dv_gen_reg(l->first_v + (s * t->nv + j) % l->ring_v);
                if (s < fresh)
                    DV_EF(fmul_e, acc, v, from, lane);
                else
                    DV_EF(fmla_e, acc, v, from, lane);
            }
        }
}

// -- Pointers ----------------------------------------------------------------

static void start_pointers(kloop *l, dv_gen *g)
{
    const dv_prod *p = l->p;
    if (l->flat)
        return;
    DV_E(mov_x, X_BRUN, 0, X_B, 0);
    DV_E(mov_x, X_ROW, 0, X_A, 0);
    if (p->pack_v)
        dv_gen_add(g, X_SOON, X_B, AHEAD * p->ld_v);
    for (int i = 1; p->lane_k && !p->panel && i < l->t->rows; i++) {
        if (dv_gen_fits_add(p->ld_s))
            dv_gen_add(g, X_ROW + i, X_ROW + i - 1, p->ld_s);
        else
            DV_E(add_x, X_ROW + i, X_ROW + i - 1, X_LDA, 0);
    }
}

// Move S by `s` bytes and V by `v`.
static void move_pointers(kloop *l, dv_gen *g, int64_t s, int64_t v)
{
    int n = l->p->lane_k && !l->p->panel ? l->t->rows : 1;
    for (int i = 0; i < n; i++)
        dv_gen_add(g, X_ROW + i, X_ROW + i, s);
    dv_gen_add(g, X_BRUN, X_BRUN, v);
}

// Bytes that n steps of S are long.
static int64_t s_bytes(const kloop *l, const dv_gen *g, int64_t n)
{
    return !l->p->lane_k ? n * l->p->ld_s
           : l->p->panel ? n * g->es * l->t->rows
                         : n * g->es;
}

// Bytes that n steps of a panel of S are long.
static int64_t panel_bytes(const kloop *l, const dv_gen *g, int64_t n)
{
    return (n + l->group - 1) / l->group * l->group * g->es * l->t->rows;
}

static void plan_steps(kloop *l, const dv_gen *g)
{
    const dv_prod *p = l->p;
    l->turns = (p->k - g->lanes) / UNROLL;
    if (p->k <= 2 * UNROLL || l->turns < 2)
        l->turns = 0;
    l->steps = l->turns ? p->k - (l->turns - 1) * UNROLL : p->k;
    int64_t far = (l->steps + 1) * p->ld_v;
    l->walk_v = p->ld_v % 16 || far >= 32768;
    far = (l->steps + 1) * p->ld_s;
    l->walk_s = !p->lane_k && (p->ld_s % 16 || far >= 32768);
    far = (l->t->rows - 1) * p->ld_s + l->steps * g->es;
    l->flat = !l->turns && p->batch == 1 && !l->walk_v && !l->walk_s &&
              (!p->lane_k || far < 256 || (p->ld_s % 16 == 0 && far < 65536));
    l->flat = l->flat && !p->panel && !p->pack_v;
}

// One product of the batch.
static void one_product(kloop *l, dv_gen *g, int fresh)
{
    l->base = l->next_v = l->next_s = 0;
    loads_before(l, g, -1);
    if (l->turns) {
        dv_gen_mov(g, X_K, l->turns);
        size_t top = g->code->n;
        steps(l, g, 0, UNROLL, 0);
        move_pointers(l, g, l->walk_s ? 0 : s_bytes(l, g, UNROLL),
                      l->walk_v ? 0 : UNROLL * l->p->ld_v);
        if (l->p->pack_v)
            dv_gen_add(g, X_VPACK, X_VPACK, UNROLL * l->p->pack_v);
        if (l->p->pack_s)
            dv_gen_add(g, X_SPACK, X_SPACK, panel_bytes(l, g, UNROLL));
        dv_gen_again(g, X_K, top);
        l->base = UNROLL;
    }
    steps(l, g, l->base, l->steps, fresh);
    if (l->p->pack_s) // to the next panel
        dv_gen_add(g, X_SPACK, X_SPACK, panel_bytes(l, g, l->steps - l->base));
}

// -- The tile ----------------------------------------------------------------

static void start_sums(dv_gen *g, const dv_tile *t, int first_set)
{
    for (int i = first_set * t->rows * t->nv; i < t->sets * t->rows * t->nv;
         i++)
        DV_E(movi_0, dv_gen_reg(i), 0, 0, 0);
}

static void add_sets(dv_gen *g, const dv_tile *t)
{
    int n = t->rows * t->nv;
    for (int half = t->sets / 2; half; half /= 2)
        for (int i = 0; i < half * n; i++)
            DV_EF(fadd_, dv_gen_reg(i), dv_gen_reg(i), dv_gen_reg(i + half * n),
                  0);
}

void dv_tile_emit(dv_gen *g, const dv_prod *p, const dv_tile *t)
{
    kloop l = {.p = p, .t = t};
    plan_rings(&l, g);
    plan_steps(&l, g);
    // C is read first where the sum is short, at the end where it is long.
    dv_prod rest = *p;
    int early = p->alpha == DV_SCALE_ONE && p->beta == DV_SCALE_ONE &&
                !p->c_turned && (int64_t)p->k * p->batch < 48;
    int loops = l.turns || p->batch > 1;
    if (early) {
        dv_tile_fetch(g, p, t);
        rest.beta = DV_SCALE_ZERO;
    }
    if (loops || early)
        start_sums(g, t, early);
    start_pointers(&l, g);
    if (p->batch > 1)
        dv_gen_mov(g, X_BATCH, p->batch);
    if (!early && (int64_t)p->k * p->batch >= 64)
        dv_tile_prefetch(g, p, t);
    size_t top = g->code->n;
    one_product(&l, g, loops || early ? 0 : t->sets);
    if (p->batch > 1) {
        int64_t done = (int64_t)l.turns * UNROLL;
        move_pointers(&l, g,
                      p->stride_s - s_bytes(&l, g, l.walk_s ? p->k : done),
                      p->stride_v - (l.walk_v ? p->k : done) * p->ld_v);
        dv_gen_again(g, X_BATCH, top);
    }
    add_sets(g, t);
    dv_tile_store(g, &rest, t, l.first_v);
}
