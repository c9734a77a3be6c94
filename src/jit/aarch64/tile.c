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

enum { UNROLL = 8, AHEAD = 8, MOST_FLOW = 64 }; // steps
enum { LOAD_L1 = 0, LOAD_L2 = 2 };

// A ring of registers and the load that comes next. Loads are numbered through
// groups of `per`; the one whose register it takes is `ring` loads back.
typedef struct ring {
    int size, first; // registers
    int per;         // loads a group
    int group, i;    // the next load
    int old_group, old_i;
    int reg;    // of the next load, from 0
    int end;    // groups in all
    int64_t at; // slot of the next load
} ring;

typedef struct kloop {
    const dv_prod *p;
    const dv_tile *t;
    ring v, s;
    int group;            // steps that one load of S serves
    int unroll;           // steps of a turn of the loop
    int steps;            // as emitted
    int base;             // step the pointers stand at
    int flows;            // a turn is a product of the batch
    int64_t hop_s, hop_v; // what a product's end is from the next one's start
    int walk_v, walk_s;   // the pointer moves with each step
    int turns;            // of the loop; 0: none
    int flat;             // addresses are offsets from X_A and X_B
    int stores;           // the last step stores the rows as they are done
    int by_col;           // so many columns at a time; 0: all of a row
    int64_t next;         // slot of the next load of either
    // Multiply-adds by a lane, and multiplies, without their registers; which
    // load of a group has the scalar of a row, and (lanes of rows) its lane.
    uint32_t words[2][4];
    unsigned char load[32], lane[32];
    int v_bytes, v_off[32]; // of the vectors of V in a row
} kloop;

// The largest size up to `want` that closes after a turn of the loop.
static int ring_size(int want, int room, int least, int period)
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
    if (t->nv == 6 && t->rows <= 4 && !l->p->lane_k && !l->p->pairs &&
        t->sets == 1)
        l->by_col = 3;
    l->v.per = t->nv;
    l->s.per =
        l->p->lane_k || l->p->pairs ? t->rows : (t->rows + lanes - 1) / lanes;
    l->v.first = acc;
    if (l->p->pairs) { // V once, and S as it comes
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

// -- Where loads go ----------------------------------------------------------

static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

// About one step ahead, spread over it, but not before the register is free.
static int64_t slot_of_v(const kloop *l)
{
    const dv_tile *t = l->t;
    const ring *v = &l->v;
    int64_t size = t->rows * t->nv;
    if (l->by_col)
        return max64((v->group - 1) * size + v->i * t->rows,
                     v->old_group * size +
                         (v->old_i / l->by_col + 1) * t->rows * l->by_col -
                         l->by_col + v->old_i % l->by_col + 1);
    return max64((v->group - 1) * size + v->i * t->rows,
                 (v->old_group + 1) * size - t->nv + v->old_i + 1);
}

static int64_t slot_of_s(const kloop *l, const dv_gen *g)
{
    const dv_tile *t = l->t;
    const ring *s = &l->s;
    int64_t size = t->rows * t->nv, steps = l->group;
    int each = l->p->lane_k || l->p->pairs ? 1 : g->lanes; // rows a load
    int row = (s->old_i + 1) * each - 1;
    row = row < t->rows && !l->by_col ? row : t->rows - 1;
    int64_t free =
        ((s->old_group + 1) * steps - 1) * size + (int64_t)(row + 1) * t->nv;
    if (steps == 1)
        return max64((s->group - 1) * size + s->i * each * t->nv, free);
    return max64((s->group * steps - 2) * size + 2 * s->i * t->nv, free);
}

static void next_load(ring *r)
{
    if (++r->i == r->per)
        r->i = 0, r->group++;
    if (++r->old_i == r->per)
        r->old_i = 0, r->old_group++;
    if (++r->reg == r->size)
        r->reg = 0;
}

static void first_load(ring *r, int groups)
{
    int old = (int)dv_gen_div(-r->size, r->per);
    r->group = r->i = r->reg = 0;
    r->old_group = old;
    r->old_i = -r->size - old * r->per;
    r->end = groups;
}

// Rows of V that are packed are far apart: no stream the machine would see.
static void ask_ahead(kloop *l, dv_gen *g)
{
    for (int off = 0; off < l->t->cols * g->es; off += 64)
        DV_E(prfm, LOAD_L1, X_SOON, off, 0);
    dv_tile_step(g, X_SOON, l->p->ld_v, X_LDB);
}

// Is this a step of the batch's next product?
static int in_next(const kloop *l, int step)
{
    return l->flows && step >= l->base + l->unroll;
}

static void load_v(kloop *l, dv_gen *g)
{
    const dv_tile *t = l->t;
    int step = l->v.group, j = l->v.i, bytes = l->v_bytes;
    int v = dv_gen_reg(l->v.first + l->v.reg);
    int64_t at = l->v_off[j], off = at;
    if (!l->walk_v)
        off += (step - l->base) * l->p->ld_v;
    if (in_next(l, step))
        off += l->hop_v;
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
    if (in_next(l, first))
        off += l->hop_s;
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
    if (in_next(l, step))
        off += l->hop_s;
    dv_gen_load(g, v, l->flat ? X_A : X_ROW, off, bytes);
    dv_tile_ask_s(g, l->p, l->flat ? X_A : X_ROW, off);
    if (l->p->pack_s)
        dv_gen_store(g, v, X_SPACK, to, bytes);
    if (l->walk_s && i == l->s.per - 1)
        dv_tile_step(g, X_ROW, l->p->ld_s, X_LDA);
}

static void loads_before(kloop *l, dv_gen *g, int64_t slot)
{
    while (l->v.at <= slot) {
        load_v(l, g);
        next_load(&l->v);
        l->v.at = l->v.group < l->v.end ? slot_of_v(l) : INT64_MAX;
    }
    while (l->s.at <= slot) {
        int v = dv_gen_reg(l->s.first + l->s.reg);
        if (l->p->pairs)
            dv_gen_load(g, v, X_ROW,
                        (l->s.group - l->base) * l->p->ld_s + 16 * l->s.i, 16);
        else if (l->p->lane_k)
            load_s_k(l, g, v, l->s.group, l->s.i);
        else
            load_s_m(l, g, v, l->s.group, l->s.i);
        next_load(&l->s);
        l->s.at = l->s.group < l->s.end ? slot_of_s(l, g) : INT64_MAX;
    }
    l->next = l->v.at < l->s.at ? l->v.at : l->s.at;
}

// -- Steps -------------------------------------------------------------------

// Lane of the scalars of a step, with lanes of k. The last vector of a row may
// begin earlier.
static int lane_of(const kloop *l, const dv_gen *g, int step)
{
    int lanes = g->lanes, group = step & -lanes, shift = 0;
    if (!l->p->panel && !l->p->pack_s && group + lanes > l->steps && group)
        shift = lanes - (l->steps & (lanes - 1));
    return step - group + shift;
}

// A multiply-add (fresh: a multiply) by a lane or a pair of rows, without its
// other registers.
static uint32_t by_lane(dv_gen *g, int from, int lane, int fresh, int pairs)
{
    int ok = 1;
    uint32_t w;
    if (pairs && g->ints)
        w = dv_insn_word(DV_INSN_smmla, 0, 0, from, 0, &ok);
    else if (pairs)
        w = dv_insn_word(DV_INSN_bfmmla, 0, 0, from, 0, &ok);
    else if (g->es == 8)
        w = fresh ? dv_insn_word(DV_INSN_fmul_e2d, 0, 0, from, lane, &ok)
                  : dv_insn_word(DV_INSN_fmla_e2d, 0, 0, from, lane, &ok);
    else if (g->ints)
        w = fresh ? dv_insn_word(DV_INSN_fmul_e4i, 0, 0, from, lane, &ok)
                  : dv_insn_word(DV_INSN_fmla_e4i, 0, 0, from, lane, &ok);
    else
        w = fresh ? dv_insn_word(DV_INSN_fmul_e4s, 0, 0, from, lane, &ok)
                  : dv_insn_word(DV_INSN_fmla_e4s, 0, 0, from, lane, &ok);
    g->code->failed |= !ok;
    return w;
}

static void plan_words(kloop *l, dv_gen *g)
{
    int rows = l->t->rows, lanes = g->lanes;
    for (int i = 0; i < (l->p->pairs ? 1 : lanes); i++) {
        l->words[0][i] = by_lane(g, 0, i, 0, l->p->pairs);
        l->words[1][i] = by_lane(g, 0, i, 1, l->p->pairs);
    }
    l->v_bytes = dv_tile_bytes(g, l->t);
    for (int j = 0; j < l->t->nv; j++)
        l->v_off[j] = (int)dv_tile_off(g, l->t, j);
    for (int i = 0; i < rows; i++) {
        int load = l->p->lane_k || l->p->pairs ? i : i / lanes;
        int last = !l->p->lane_k && rows >= lanes && (load + 1) * lanes > rows;
        l->load[i] = (unsigned char)load;
        l->lane[i] = (unsigned char)(l->p->pairs ? 0
                                     : last      ? i - (rows - lanes)
                                                 : i - load * lanes);
    }
}

// The multiply-adds of a step by their rows, without accumulators and V.
static void words_of(const kloop *l, const dv_gen *g, int s, int fresh,
                     uint32_t *out)
{
    int first = s / l->group * l->s.per % l->s.size, per_k = l->p->lane_k;
    const uint32_t *words =
        l->words[s < fresh] + (per_k ? lane_of(l, g, s) : 0);
    for (int i = 0; i < l->t->rows; i++) {
        int from = first + l->load[i];
        from -= from >= l->s.size ? l->s.size : 0;
        out[i] = words[per_k ? 0 : l->lane[i]] |
                 (uint32_t)dv_gen_reg(l->s.first + from) << 16;
    }
}

// Words from `slot` on, with the loads that are due before each.
static void put_words(kloop *l, dv_gen *g, int64_t slot, const uint32_t *words,
                      int n)
{
    for (int run; n > 0; words += run, slot += run, n -= run) {
        if (l->next <= slot)
            loads_before(l, g, slot);
        run = l->next - slot < n ? (int)(l->next - slot) : n;
        dv_code_put_all(g->code, words, run);
    }
}

// One step, some columns at a time: their vectors of V are free again early, so
// that one ring of them is enough. (One column at a time now and then keeps
// half of the units idle, for as long as the loop runs.) Or whole rows.
static void put_step(kloop *l, dv_gen *g, int64_t slot, int acc,
                     const uint32_t *rows, const uint32_t *vecs)
{
    const dv_tile *t = l->t;
    int nv = t->nv, wide = l->by_col ? l->by_col : nv, n = 0;
    uint32_t words[32];
    for (int b = 0; b < nv; b += wide)
        for (int i = 0; i < t->rows; i++)
            for (int j = b; j < b + wide; j++)
                words[n++] =
                    rows[i] | vecs[j] | (uint32_t)dv_gen_reg(acc + i * nv + j);
    put_words(l, g, slot, words, n);
}

// The last step, a row at a time; the sums of each are stored meanwhile.
static void put_last(kloop *l, dv_gen *g, int64_t slot, int acc,
                     const uint32_t *rows, const uint32_t *vecs)
{
    for (int i = 0; i < l->t->rows; i++)
        for (int j = 0; j < l->t->nv; j++, slot++, acc++) {
            uint32_t word = rows[i] | vecs[j] | (uint32_t)dv_gen_reg(acc);
            put_words(l, g, slot, &word, 1);
            if (i > 0 && l->stores)
                dv_tile_store_one(g, l->p, l->t, i - 1, j);
        }
}

// Steps begin..end. Those below `fresh` start a sum.
static void steps(kloop *l, dv_gen *g, int begin, int end, int fresh)
{
    const dv_tile *t = l->t;
    int size = t->rows * t->nv;
    uint32_t rows[32], vecs[32];
    for (int s = begin; s < end; s++) {
        int acc = s % t->sets * size, v = s * t->nv % l->v.size;
        for (int j = 0; j < t->nv; j++) {
            vecs[j] = (uint32_t)dv_gen_reg(l->v.first + v) << 5;
            v = v + 1 == l->v.size ? 0 : v + 1;
        }
        words_of(l, g, s, fresh, rows);
        if (l->p->ask && s % l->p->ask == 0)
            dv_tile_ask(g, l->p, t);
        if (s == l->steps - 1)
            put_last(l, g, s * (int64_t)size, acc, rows, vecs);
        else
            put_step(l, g, s * (int64_t)size, acc, rows, vecs);
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
    if (p->pack_s && p->lane_k)
        dv_gen_mov(g, X_BELOW, l->t->rows * p->ld_s);
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

// A batch of short products is one loop, whose loads run on from one product
// into the next.
static void plan_flow(kloop *l, const dv_gen *g)
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

static void plan_steps(kloop *l, const dv_gen *g)
{
    const dv_prod *p = l->p;
    l->unroll = UNROLL;
    plan_flow(l, g);
    if (l->flows)
        return;
    l->turns = (p->k - g->lanes) / UNROLL;
    if (p->k <= (l->t->nv == 6 ? 3 : 2) * UNROLL || l->turns < 2)
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

int dv_tile_regs(const dv_gen *g, const dv_prod *p, const dv_tile *t)
{
    kloop l = {.p = p, .t = t};
    plan_steps(&l, g);
    plan_rings(&l, g);
    return l.s.first + l.s.size;
}

// While S is packed, the rows of the next tile are asked for; and where they
// are short, since the machine sees no streams.
static void ask_below(kloop *l, dv_gen *g)
{
    const dv_prod *p = l->p;
    int64_t far = l->t->rows * p->ld_s, bytes = p->k * (int64_t)g->es;
    if (!p->lane_k || p->panel)
        return;
    if (l->flows && far + bytes < 32768 && far % 8 == 0)
        for (int i = 0; i < l->t->rows; i++)
            for (int64_t off = 0; off < bytes; off += 64)
                DV_E(prfm, LOAD_L1, X_ROW + i, far + off, 0);
    else if (p->pack_s)
        for (int i = 0; i < l->t->rows; i++)
            DV_E(prfm_r, LOAD_L1, X_ROW + i, X_BELOW, 0);
}

// One product of the batch.
static void one_product(kloop *l, dv_gen *g, int fresh)
{
    l->base = 0;
    if (l->p->pack_v)
        dv_gen_add(g, X_SOON, X_BRUN, AHEAD * l->p->ld_v);
    first_load(&l->v, l->steps);
    first_load(&l->s, (l->steps + l->group - 1) / l->group);
    l->v.at = slot_of_v(l);
    l->s.at = slot_of_s(l, g);
    plan_words(l, g);
    loads_before(l, g, -1);
    if (l->turns) {
        dv_gen_mov(g, X_K, l->turns);
        size_t top = g->code->n;
        ask_below(l, g);
        steps(l, g, 0, l->unroll, 0);
        move_pointers(l, g, l->walk_s ? 0 : s_bytes(l, g, l->unroll) + l->hop_s,
                      l->walk_v ? 0 : l->unroll * l->p->ld_v + l->hop_v);
        if (l->p->pack_v) {
            dv_gen_add(g, X_VPACK, X_VPACK, l->unroll * l->p->pack_v);
            dv_gen_add(g, X_SOON, X_SOON, l->hop_v);
        }
        if (l->p->pack_s)
            dv_gen_add(g, X_SPACK, X_SPACK, panel_bytes(l, g, l->unroll));
        dv_gen_again(g, X_K, top);
        l->base = l->unroll;
    }
    steps(l, g, l->base, l->steps, fresh);
    if (l->p->pack_v)
        dv_gen_add(g, X_VPACK, X_VPACK, (l->steps - l->base) * l->p->pack_v);
    if (l->p->pack_s) // to the next panel
        dv_gen_add(g, X_SPACK, X_SPACK, panel_bytes(l, g, l->steps - l->base));
}

// -- The tile ----------------------------------------------------------------

// At -0, to which a first product is added as it is: sums that start with a
// multiply have the same bits, the sign of a 0 among them. (Pairs have no
// other start than this one.)
static void start_sums(dv_gen *g, const dv_tile *t, int pairs)
{
    int first = dv_gen_reg(0), floats = !g->ints && !pairs;
    DV_E(movi_0, first, 0, 0, 0);
    if (floats && g->es == 8)
        DV_E(fneg_2d, first, first, 0, 0);
    else if (floats)
        DV_E(fneg_4s, first, first, 0, 0);
    for (int i = 1; i < t->sets * t->rows * t->nv; i++)
        if (floats)
            DV_E(orr_v, dv_gen_reg(i), first, first, 0);
        else
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

static void sums(dv_gen *g, const dv_prod *p, const dv_tile *t, int stores)
{
    kloop l = {.p = p, .t = t, .stores = stores};
    plan_steps(&l, g);
    plan_rings(&l, g);
    int loops = l.turns || p->batch > 1 || p->pairs ||
                (!stores && t->rows * t->nv >= 20);
    int batches = p->batch > 1 && !l.flows;
    if (loops)
        start_sums(g, t, p->pairs);
    start_pointers(&l, g);
    if (batches)
        dv_gen_mov(g, X_BATCH, p->batch);
    size_t top = g->code->n;
    one_product(&l, g, loops ? 0 : t->sets);
    if (batches) {
        int64_t done = (int64_t)l.turns * UNROLL;
        move_pointers(&l, g,
                      p->stride_s - s_bytes(&l, g, l.walk_s ? p->k : done),
                      p->stride_v - (l.walk_v ? p->k : done) * p->ld_v);
        dv_gen_again(g, X_BATCH, top);
    }
    add_sets(g, t);
    for (int j = 0; stores && j < t->nv; j++)
        dv_tile_store_one(g, p, t, t->rows - 1, j);
}

void dv_tile_sums(dv_gen *g, const dv_prod *p, const dv_tile *t)
{
    sums(g, p, t, 0);
}

void dv_tile_emit(dv_gen *g, const dv_prod *p, const dv_tile *t)
{
    // Sums that are stored as they are need not wait for each other.
    int stores = p->beta == DV_SCALE_ZERO && p->alpha != DV_SCALE_ANY &&
                 !p->bias && !p->relu && !p->c_turned && t->sets == 1 &&
                 p->batch == 1;
    if ((int64_t)p->k * p->batch >= 64)
        dv_tile_prefetch(g, p, t);
    sums(g, p, t, stores);
    if (!stores)
        dv_tile_store(g, p, t, t->sets * t->rows * t->nv);
}
