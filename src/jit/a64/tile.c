// The loop over k of one tile.
//
// A step is one k: rows * nv multiply-adds, row by row. Loads are spread
// between them, about one step ahead of their use, as soon as the destination
// register is free. The registers of V, the operand read as vectors, are one
// ring, those of S, the operand read as scalars, another. Multiply-adds are
// numbered; the slot of a load is the number of the multiply-add before which
// it is issued.
//
//   K = 21, unroll 8, lanes of rows:
//                      loads before slot 0
//                      step 0, which starts the sums (or none, or several)
//                      loop: steps 1..9, also loads for step 9
//                      steps 9..13, without loads past the end
//
// After the loop, steps are numbered on as if the loop had run once; the
// pointers have been advanced by the other iterations.
#include "jit/a64/kloop.h"

// All three are numbers of steps of k: of one iteration of the loop, of the
// prefetch distance, and of the longest product of a batch that becomes one
// iteration.
enum { UNROLL = 8, AHEAD = 8, MOST_FLOW = 24 };
enum { NEAR_BYTES = 24 << 10 };

// Returns the size of a ring (registers that are loaded in turn): the largest
// number up to `want` and `room`, but at least `least`, that divides the loads
// of one iteration, so that each iteration uses the same registers.
static int ring_size(int want, int room, int least, int period)
{
    for (int r = want < room ? want : room; r > least; r--)
        if (period % r == 0)
            return r;
    return least;
}

static void plan_rings(dv_kloop *l, const dv_gen *g)
{
    const dv_prod_tile *t = l->t;
    int lanes = g->lanes, acc = t->sets * t->rows * t->nv;
    l->lanes = lanes;
    l->group = l->p->lane_k ? lanes : 1;
    if (t->nv == 6 && t->rows <= 4 && !l->p->lane_k && !l->p->pairs &&
        t->sets == 1)
        l->by_col = 3;
    l->v.per = t->nv;
    l->s.per =
        l->p->lane_k || l->p->pairs ? t->rows : (t->rows + lanes - 1) / lanes;
    l->v.first = acc;
    // With matrix instructions (for bf16 and i8), the operand read as vectors
    // has registers for one step only, and the operand read as scalars takes
    // the registers that are left.
    if (l->p->pairs) {
        l->v.size = t->nv;
        l->s.size =
            ring_size(2 * l->s.per, 32 - acc - t->nv, 1, l->unroll * l->s.per);
        l->s.first = acc + l->v.size;
        return;
    }
    int room = 32 - acc - l->s.per;
    l->v.size = ring_size(2 * t->nv, room, t->nv, l->unroll * t->nv);
    room = 32 - acc - l->v.size;
    l->s.size = ring_size(2 * l->s.per, room, l->s.per,
                          l->unroll / l->group * l->s.per);
    l->s.first = acc + l->v.size;
}

static void start_pointers(dv_kloop *l, dv_gen *g)
{
    const dv_prod *p = l->p;
    if (l->odd)
        dv_gen_add(g, X_ODD, X_B, dv_tile_off(g, l->t, l->t->nv - 1));
    if (l->flat)
        return;
    DV_E(mov_x, X_BRUN, 0, X_B, 0);
    DV_E(mov_x, X_ROW, 0, X_A, 0);
    if (p->pack_s && p->lane_k)
        dv_gen_mov(g, X_BELOW, l->t->rows * p->ld_s);
    for (int i = 1; p->lane_k && !p->panel && i < l->t->rows; i++) {
        if (dv_gen_fits_add(p->ld_s))
            dv_gen_add(g, X_ROW + i, X_ROW + i - 1, p->ld_s);
        else
            DV_E(add_x, X_ROW + i, X_ROW + i - 1, X_LDA, 0);
    }
}

static void move_s(const dv_kloop *l, dv_gen *g, int64_t bytes)
{
    int n = l->p->lane_k && !l->p->panel ? l->t->rows : 1;
    for (int i = 0; i < n; i++)
        dv_gen_add(g, X_ROW + i, X_ROW + i, bytes);
}

static void move_v(const dv_kloop *l, dv_gen *g, int64_t bytes)
{
    dv_gen_add(g, X_BRUN, X_BRUN, bytes);
    if (l->odd)
        dv_gen_add(g, X_ODD, X_ODD, bytes);
}

// Returns by how many bytes n steps of k advance a pointer into the operand
// read as scalars (usually A).
static int64_t s_bytes(const dv_kloop *l, const dv_gen *g, int64_t n)
{
    return !l->p->lane_k ? n * l->p->ld_s
           : l->p->panel ? n * g->es * l->t->rows
                         : n * g->es;
}

// Returns the bytes that n steps of k of all rows of the tile take in a packed
// panel of the operand read as scalars (usually A). The panel consists of whole
// vectors, so n is rounded up to a multiple of the steps that one vector
// serves.
static int64_t panel_bytes(const dv_kloop *l, const dv_gen *g, int64_t n)
{
    return (n + l->group - 1) / l->group * l->group * g->es * l->t->rows;
}

// Plans a batch of short products as one loop, with one product per iteration,
// so that loads for the next product are issued during the current one.
static void plan_flow(dv_kloop *l, const dv_gen *g)
{
    const dv_prod *p = l->p;
    int whole = !p->lane_k || p->k % g->lanes == 0;
    int far = p->ld_v % 16 || (int64_t)p->k * p->ld_v >= 32768 ||
              (!p->lane_k && (p->ld_s % 16 || p->k * p->ld_s >= 32768));
    if (p->batch < 2 || p->k > MOST_FLOW || p->k < g->lanes || !whole || far)
        return;
    l->flows = 1;
    l->unroll = p->k;
    l->turns = p->batch - 1;
    l->steps = 2 * p->k;
    l->hop_s = p->stride_s - s_bytes(l, g, p->k);
    l->hop_v = p->stride_v - p->k * p->ld_v;
}

// Decides whether the last vector in a row of the operand read as vectors
// (usually B) gets a pointer of its own. Its offset may not be a multiple of
// 16, and such offsets can be encoded only up to 255. If more than one load
// would have a larger offset, a separate pointer makes the offsets multiples of
// 16.
static void plan_odd(dv_kloop *l, const dv_gen *g)
{
    enum { NEAR = 256 };
    int64_t at = dv_tile_off(g, l->t, l->t->nv - 1);
    // Number of steps of k between two increments of the pointer registers:
    // their loads use offsets from the same pointers.
    int n = l->steps;
    int loop = l->first + l->unroll;
    if (l->turns)
        n = n - l->unroll > loop ? n - l->unroll : loop;
    l->odd = at % 16 && !l->walk_v && !l->p->pairs &&
             at + (n - 2) * l->p->ld_v >= NEAR;
}

// Returns the number of steps of k to emit before the loop. In them, multiplies
// start the sums, instead of registers that are set to 0 first. Their number is
// a multiple of the steps that one load of the operand read as scalars serves,
// and at least that of the sets of accumulators. It is 0 if the loop would then
// have fewer iterations.
static int steps_before_loop(const dv_kloop *l, const dv_gen *g)
{
    const dv_prod *p = l->p;
    int n = p->lane_k ? g->lanes : 1;
    n = n < l->t->sets ? l->t->sets : n;
    if (!l->turns || p->batch > 1 || p->pairs || p->copy_steps)
        return 0;
    return (p->k - n - g->lanes) / UNROLL == l->turns ? n : 0;
}

static void plan_loop(dv_kloop *l, const dv_gen *g)
{
    const dv_prod *p = l->p;
    l->turns = (p->k - g->lanes) / UNROLL;
    if (p->k <= (l->t->nv == 6 ? 3 : 2) * UNROLL || l->turns < 2)
        l->turns = 0;
    // If the tile copies rows for the next kernel, each iteration copies one
    // row.
    if (p->copy_steps) {
        l->turns = p->copy_steps;
        l->unroll = (p->k - 2) / p->copy_steps / 2 * 2;
    }
    l->steps = l->turns ? p->k - (l->turns - 1) * l->unroll : p->k;
    l->first = steps_before_loop(l, g);
    int64_t far = (l->steps + 1) * p->ld_v;
    l->walk_v = p->ld_v % 16 || far >= 32768;
    far = (l->steps + 1) * p->ld_s;
    l->walk_s = !p->lane_k && (p->ld_s % 16 || far >= 32768);
    far = (l->t->rows - 1) * p->ld_s + l->steps * g->es;
    l->flat = !l->turns && p->batch == 1 && !l->walk_v && !l->walk_s &&
              (!p->lane_k || far < 256 || (p->ld_s % 16 == 0 && far < 65536));
    l->flat = l->flat && !p->panel && !p->pack_v;
}

static void plan_steps(dv_kloop *l, const dv_gen *g)
{
    l->unroll = UNROLL;
    plan_flow(l, g);
    if (!l->flows)
        plan_loop(l, g);
    plan_odd(l, g);
    plan_rings(l, g);
}

int dv_tile_regs(const dv_gen *g, const dv_prod *p, const dv_prod_tile *t)
{
    dv_kloop l = {.p = p, .t = t};
    plan_steps(&l, g);
    return l.s.first + l.s.size;
}

// Prefetches the rows that the next tile reads of S, the operand read as
// scalars (usually A): while S is packed (into L2 if the panel of the other
// operand fills L1), and where rows are too short for the hardware prefetcher
// to detect a stream.
static void prefetch_next_tile(dv_kloop *l, dv_gen *g)
{
    const dv_prod *p = l->p;
    int64_t far = l->t->rows * p->ld_s, bytes = p->k * (int64_t)g->es;
    int to = p->k * (int64_t)l->t->nv * 16 <= NEAR_BYTES ? LOAD_L1 : LOAD_L2;
    if (!p->lane_k || p->panel)
        return;
    if (l->flows && far + bytes < 32768 && far % 8 == 0)
        for (int i = 0; i < l->t->rows; i++)
            for (int64_t off = 0; off < bytes; off += 64)
                DV_E(prfm, LOAD_L1, X_ROW + i, far + off, 0);
    else if (p->pack_s)
        for (int i = 0; i < l->t->rows; i++)
            DV_E(prfm_r, to, X_ROW + i, X_BELOW, 0);
}

// Prefetches the cache lines of C that the tile will store to, early enough to
// arrive in time: after the steps before the loop if there are such
// (`after_steps`), else before the tile.
static void prefetch_c_early(const dv_kloop *l, dv_gen *g, int after_steps)
{
    const dv_prod *p = l->p;
    if (after_steps == (l->stores && l->first) &&
        ((int64_t)p->k * p->batch >= 64 || p->copy_steps))
        dv_tile_prefetch_c(g, p, l->t);
}

// Emits the loop over k for one product of the batch.
static void one_product(dv_kloop *l, dv_gen *g, int fresh)
{
    dv_steps w;
    if (l->p->pack_v)
        dv_gen_add(g, X_SOON, X_BRUN, AHEAD * l->p->ld_v);
    dv_steps_start(&w, l, g, fresh);
    if (l->turns) {
        dv_steps_put(&w, 0, l->first);
        prefetch_c_early(l, g, 1);
        dv_gen_mov(g, X_K, l->turns);
        size_t top = g->code->n;
        prefetch_next_tile(l, g);
        dv_steps_put(&w, l->first, l->first + l->unroll);
        if (l->p->copy_steps)
            dv_tile_copy_advance(g, l->p);
        if (!dv_steps_advances_rows(l))
            move_s(l, g, l->walk_s ? 0 : s_bytes(l, g, l->unroll) + l->hop_s);
        move_v(l, g, l->walk_v ? 0 : l->unroll * l->p->ld_v + l->hop_v);
        if (l->p->pack_v)
            dv_gen_add(g, X_VPACK, X_VPACK, l->unroll * l->p->pack_v);
        if (l->p->pack_s)
            dv_gen_add(g, X_SPACK, X_SPACK, panel_bytes(l, g, l->unroll));
        dv_gen_loop_end(g, X_K, top);
        // The pointers now point to the operands of the step with this number.
        l->base = l->unroll;
    }
    dv_steps_put(&w, l->base + l->first, l->steps);
    if (l->p->pack_v)
        dv_gen_add(g, X_VPACK, X_VPACK, (l->steps - l->base) * l->p->pack_v);
    // If the operand read as scalars (usually A) is packed, advance to the next
    // packed panel.
    if (l->p->pack_s)
        dv_gen_add(g, X_SPACK, X_SPACK, panel_bytes(l, g, l->steps - l->base));
}

// Initialises the accumulators, if no step before the loop does so. Floats
// start at -0, because -0 + x is x for every x: the result then has the same
// bits, including the sign of 0, as a sum that starts with a multiply. With
// ReLU the sign of 0 does not matter, so they start at 0, which takes no
// execution unit. Matrix instructions always start at 0.
static void start_sums(dv_gen *g, const dv_prod *p, const dv_prod_tile *t)
{
    int first = dv_gen_reg(0), ok = 1;
    int floats = !g->ints && !p->pairs && !p->relu;
    uint32_t zero = dv_insn_word(DV_INSN_movi_0, 0, 0, 0, 0, &ok);
    uint32_t copy = dv_insn_word(DV_INSN_orr_v, 0, first, first, 0, &ok);
    dv_code_put(g->code, zero | (uint32_t)first);
    if (floats && g->es == 8)
        DV_E(fneg_2d, first, first, 0, 0);
    else if (floats)
        DV_E(fneg_4s, first, first, 0, 0);
    for (int i = 1; i < t->sets * t->rows * t->nv; i++)
        dv_code_put(g->code, (floats ? copy : zero) | (uint32_t)dv_gen_reg(i));
}

static void add_sets(dv_gen *g, const dv_prod_tile *t)
{
    int n = t->rows * t->nv;
    for (int half = t->sets / 2; half; half /= 2)
        for (int i = 0; i < half * n; i++)
            DV_EF(fadd_, dv_gen_reg(i), dv_gen_reg(i), dv_gen_reg(i + half * n),
                  0);
}

// Lists the vector registers that the last step of k does not read: in each
// operand's ring (registers that are loaded in turn), those that would be
// loaded next.
static void plan_free(dv_kloop *l)
{
    const dv_ring *rings[] = {&l->v, &l->s};
    int last = l->steps - 1, groups[] = {last, last / l->group};
    l->free.n = 0;
    for (int i = 0; i < 2; i++)
        for (int j = rings[i]->per; j < rings[i]->size; j++) {
            int at = (groups[i] * rings[i]->per + j) % rings[i]->size;
            if (l->free.n < 8)
                l->free.reg[l->free.n++] = dv_gen_reg(rings[i]->first + at);
        }
}

// Emits the loops of a tile over k and over the batch, which add up its sums.
// The pointers to the operands have been set before.
static void sums(dv_kloop *l, dv_gen *g)
{
    const dv_prod *p = l->p;
    const dv_prod_tile *t = l->t;
    int loops = l->turns || p->batch > 1 || p->pairs ||
                (!l->stores && t->rows * t->nv >= 20);
    int batches = p->batch > 1 && !l->flows, set = loops && !l->first;
    if (set)
        start_sums(g, p, t);
    if (batches)
        dv_gen_mov(g, X_BATCH, p->batch);
    size_t top = g->code->n;
    one_product(l, g, set ? 0 : t->sets);
    if (batches) {
        int64_t done = (int64_t)l->turns * UNROLL;
        move_s(l, g, p->stride_s - s_bytes(l, g, l->walk_s ? p->k : done));
        move_v(l, g, p->stride_v - (l->walk_v ? p->k : done) * p->ld_v);
        dv_gen_loop_end(g, X_BATCH, top);
    }
    add_sets(g, t);
    int row = l->stores ? t->rows - dv_tile_store_lag(p) : t->rows;
    for (int i = row < 0 ? 0 : row; i < t->rows; i++) {
        dv_tile_finish_row(g, p, t, i, &l->free);
        for (int j = 0; j < t->nv; j++)
            dv_tile_store_one(g, t, i, j);
    }
}

void dv_tile_sums(dv_gen *g, const dv_prod *p, const dv_prod_tile *t)
{
    dv_kloop l = {.p = p, .t = t};
    plan_steps(&l, g);
    start_pointers(&l, g);
    sums(&l, g);
}

// Returns whether the last step can store each row as soon as its sums are
// done. This holds if the epilogue is at most adding C and ReLU; it keeps the
// execution units busy while the last multiply-adds complete.
static int can_store(const dv_kloop *l)
{
    const dv_prod *p = l->p;
    int need = (p->beta == DV_SCALE_ONE) + !!p->relu;
    return !p->bias && !p->c_transposed && l->t->sets == 1 && p->batch == 1 &&
           l->free.n >= need;
}

void dv_tile_emit(dv_gen *g, const dv_prod *p, const dv_prod_tile *t)
{
    dv_kloop l = {.p = p, .t = t};
    plan_steps(&l, g);
    plan_free(&l);
    l.stores = can_store(&l);
    start_pointers(&l, g);
    prefetch_c_early(&l, g, 0);
    sums(&l, g);
    if (!l.stores)
        dv_tile_store(g, p, t, t->sets * t->rows * t->nv);
}
