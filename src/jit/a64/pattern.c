// Makes the pattern of the steps of a tile: which registers the multiply-adds
// use, and between which of them the loads are issued.
//
// A pattern depends only on the tile, the element type, the rings of operand
// registers and whether rows of k are read in place. k and the strides change
// only offsets, so a pattern is cached for later kernels (dv_code.keep).
#include "base/math.h"
#include "jit/a64/kloop.h"

// The loads that one step of k needs form a group, and they go to a ring of
// registers in turn. Finds which earlier load used the register of load i of
// group 0: sets *old to its number within its group, and returns that group, a
// negative number.
static int old_load(const dv_ring *r, int i, int *old)
{
    int group = 0, at = i - r->size;
    for (; at < 0; at += r->per)
        group--;
    *old = at;
    return group;
}

// Computes before which multiply-add each load of the operand read as vectors
// (usually B) is issued: about one step ahead of its use, spread over the step,
// but not before its register is free and not before the previous load.
static void slots_of_v(const dv_kloop *l, int *slot)
{
    int rows = l->t->rows, nv = l->t->nv, size = rows * nv, by = l->by_col;
    for (int i = 0; i < nv; i++) {
        int old, free, group = old_load(&l->v, i, &old);
        if (by)
            free = group * size + (old / by + 1) * rows * by - by + old % by;
        else
            free = (group + 1) * size - nv + old;
        slot[i] = (int)dv_max_i64(i * rows - size, free + 1);
        slot[i] = i ? (int)dv_max_i64(slot[i], slot[i - 1]) : slot[i];
    }
}

// Returns whether the operand read as scalars (usually A) is stored as rows of
// k and is read as it is, without packing.
static int in_place(const dv_kloop *l)
{
    return l->p->lane_k && !l->p->panel && !l->p->pack_s;
}

// Returns by how many multiply-adds loads of S, the operand read as scalars,
// are delayed after their earliest slot; `each` is the number of rows per load.
// If loads of S, loads of the other operand and the loop's pointer increments
// came together, some cycle would have too few multiply-adds, and tiles with
// few accumulators would then run at half speed for the whole loop. So loads of
// S are half a step late, or as late as possible. The best delays for tiles of
// few rows were measured.
static int load_delay(const dv_kloop *l, int each)
{
    int rows = l->t->rows, nv = l->t->nv, size = rows * nv;
    int f64 = l->lanes == 2;
    if (l->p->pairs || rows == 1)
        return 0;
    if (in_place(l) && rows == 2)
        return nv < 3 ? 0 : size + nv / 2;
    if (in_place(l) && (f64 || rows == 3))
        return rows == 3 && nv < 3 ? 0 : nv > 1 && nv < 5 ? size + nv : size;
    if (rows < 4 && !l->p->lane_k)
        return (rows == 2 && nv > 4) || (f64 && rows == 3 && nv > 2 && nv < 5)
                   ? 3 * size / 4
                   : 0;
    if (rows < 4 || (each == 4 && nv < 5))
        // If the tile is small, loads are not delayed: operands in L2
        // are better loaded early.
        return 0;
    return rows / 2 * nv;
}

static void slots_of_s(const dv_kloop *l, const dv_gen *g, int *slot)
{
    const dv_prod_tile *t = l->t;
    int size = t->rows * t->nv, steps = l->group;
    // Rows of the tile that one load of the operand read as scalars serves.
    int each = l->p->lane_k || l->p->pairs ? 1 : g->lanes;
    int later = load_delay(l, each);
    for (int i = 0; i < l->s.per; i++) {
        int old, group = old_load(&l->s, i, &old);
        int row = (old + 1) * each - 1;
        row = row < t->rows && !l->by_col ? row : t->rows - 1;
        int free = ((group + 1) * steps - 1) * size + (row + 1) * t->nv;
        int early =
            steps == 1 ? i * each * t->nv - size : 2 * (i * t->nv - size);
        slot[i] = (int)dv_max_i64(early + later, free);
        slot[i] = i ? (int)dv_max_i64(slot[i], slot[i - 1]) : slot[i];
    }
}

// The loads into one ring of operand registers (registers that are loaded in
// turn), in the order in which they are issued. The slot of a load is the
// number of the multiply-add before which it is issued.
typedef struct queue {
    const int *slot;
    // Number of loads, and of multiply-adds, per group (the loads of one step
    // of k).
    int per, slots;
    int ahead, i, at;
} queue;

static void look(queue *q)
{
    q->at = q->slot[q->i] + q->ahead * q->slots;
}

static void pop(queue *q)
{
    if (++q->i == q->per)
        q->i = 0, q->ahead++;
    look(q);
}

// Returns the queue of loads, starting with the first one that is issued before
// multiply-add number `from` of a group (the loads of one step of k) or later.
static queue queue_of(const int *slot, int per, int slots, int from)
{
    queue q = {slot, per, slots, -1, 0, 0};
    for (look(&q); q.at < from;)
        pop(&q);
    return q;
}

// Writes the register fields of V, the operand read as vectors, and of the
// accumulators for all multiply-adds of step s of k. A step computes `wide`
// columns of vectors at a time, or whole rows. With fewer columns the vectors
// of V are free again sooner, so that one ring (registers that are loaded in
// turn) without spare registers is enough. A single column at a time was
// slower: half of the pipelines sometimes stayed idle for the whole loop.
static void acc_words(const dv_kloop *l, int s, int wide, uint32_t *out)
{
    int nv = l->t->nv, rows = l->t->rows;
    int acc = s % l->t->sets * rows * nv, v = s * nv % l->v.size;
    uint32_t vecs[32];
    for (int j = 0; j < nv; j++) {
        vecs[j] = (uint32_t)dv_gen_reg(l->v.first + v) << 5;
        v = v + 1 == l->v.size ? 0 : v + 1;
    }
    for (int b = 0; b < nv; b += wide)
        for (int i = 0; i < rows; i++)
            for (int j = b; j < b + wide; j++)
                *out++ = vecs[j] | (uint32_t)dv_gen_reg(acc + i * nv + j);
}

// Adds the register and the lane of the scalar to the multiply-adds of step s
// of k. If the lanes of a load are rows of the tile and the rows are not a
// multiple of the lanes, the last load of the step starts earlier and overlaps
// the one before it.
static void add_rows(const dv_pattern *p, const dv_kloop *l, int s, int wide,
                     uint32_t *out)
{
    int rows = l->t->rows, size = l->s.size, each = l->p->lane_k || l->p->pairs;
    int lanes = each ? 1 : l->lanes, first = s / p->group * l->s.per % size;
    uint32_t op = p->ops[0][l->p->lane_k ? s % p->group : 0];
    for (int i = 0; i < rows; i++) {
        int load = i / lanes, begin = load * lanes;
        if (rows >= lanes && begin + lanes > rows)
            begin = rows - lanes;
        uint32_t row = (uint32_t)dv_gen_reg(l->s.first + (first + load) % size);
        row = row << 16 | (each ? op : p->ops[0][i - begin]);
        for (int b = 0; b < l->t->nv; b += wide)
            for (int j = 0; j < wide; j++)
                out[b * rows + i * wide + j] |= row;
    }
}

int dv_pattern_step(const dv_pattern *p, const dv_kloop *l, int s, int wide,
                    dv_step *out)
{
    int size = l->t->rows * l->t->nv, in = s % p->group, n = 0, at = 0;
    uint32_t all[32];
    acc_words(l, s, wide, all);
    add_rows(p, l, s, wide, all);
    queue q[2] = {queue_of(p->slot_v, l->v.per, size, in * size),
                  queue_of(p->slot_s, l->s.per, p->group * size, in * size)};
    const dv_ring *rings[2] = {&l->v, &l->s};
    out->n_due = 0;
    for (int k; k = q[1].at < q[0].at, q[k].at < (in + 1) * size; pop(&q[k])) {
        int group = (k ? s / p->group : s - in) + q[k].ahead;
        int slot = q[k].at - in * size, here = k ? s / p->group : s;
        if (out->n_due == DV_STEP_DUE || n + slot - at + 1 > DV_STEP_WORDS - 3)
            return 0;
        for (; at < slot; at++)
            out->words[n++] = all[at];
        int reg = (group + rings[k]->size) * q[k].per + q[k].i;
        reg = dv_gen_reg(rings[k]->first + reg % rings[k]->size);
        out->due[out->n_due++] =
            (dv_sched_load){(uint8_t)n++, (uint8_t)q[k].i, (uint8_t)reg,
                            (uint8_t)(group - here + 1), (uint8_t)k};
    }
    if (n + size - at > DV_STEP_WORDS - 3)
        return 0;
    for (; at < size; at++)
        out->words[n++] = all[at];
    out->n = n;
    return 1;
}

// Computes the instruction words, with empty register fields, of the
// multiply-add ([0]) and the multiply ([1]) by each lane, or of the matrix
// instruction for bf16 and i8.
static void ops_of(const dv_kloop *l, const dv_gen *g, uint32_t out[2][4])
{
    static const dv_insn ops[3][2] = {{DV_INSN_fmla_e4s, DV_INSN_fmul_e4s},
                                      {DV_INSN_fmla_e4i, DV_INSN_fmul_e4i},
                                      {DV_INSN_fmla_e2d, DV_INSN_fmul_e2d}};
    int ok = 1, type = g->es == 8 ? 2 : g->ints;
    for (int fresh = 0; fresh < 2; fresh++)
        for (int i = 0; i < g->lanes; i++)
            out[fresh][i] = dv_insn_word(ops[type][fresh], 0, 0, 0, i, &ok);
    if (l->p->pairs)
        out[0][0] = out[1][0] =
            dv_insn_rows[g->ints ? DV_INSN_smmla : DV_INSN_bfmmla].bits;
}

// Returns after how many steps of k the code of a step repeats. The registers
// of both operands and the sets of accumulators take turns, so that a step uses
// the same ones again after a common multiple of their numbers. Returns 0 if
// that is more than DV_MOST_PERIOD, for which patterns have no room.
static int period_of(const dv_kloop *l)
{
    for (int n = l->group; n <= DV_MOST_PERIOD; n += l->group)
        if (n * l->v.per % l->v.size == 0 && n % l->t->sets == 0 &&
            n / l->group * l->s.per % l->s.size == 0)
            return n;
    return 0;
}

static uint64_t key_of(const dv_kloop *l, const dv_gen *g)
{
    const unsigned fields[] = {
        (unsigned)l->t->rows, (unsigned)l->t->nv,  (unsigned)l->t->sets,
        (unsigned)l->v.size,  (unsigned)l->s.size, (unsigned)l->by_col,
        l->p->lane_k ? 1 : 0, l->p->pairs ? 1 : 0, g->es == 8,
        g->ints ? 1 : 0,      in_place(l) ? 1 : 0};
    static const int bits[] = {6, 6, 3, 6, 6, 3, 1, 1, 1, 1, 1};
    // Starting with 1 ensures that no key is 0, which marks an unused entry of
    // the cache.
    uint64_t key = 1;
    for (size_t i = 0; i < sizeof bits / sizeof *bits; i++)
        key = key << bits[i] | fields[i];
    return key;
}

static __attribute__((noinline)) int make(dv_pattern *out, const dv_kloop *l,
                                          const dv_gen *g)
{
    out->group = l->group;
    out->period = period_of(l);
    ops_of(l, g, out->ops);
    slots_of_v(l, out->slot_v);
    slots_of_s(l, g, out->slot_s);
    int wide = l->by_col ? l->by_col : l->t->nv;
    for (int s = 0; s < out->period; s++)
        if (!dv_pattern_step(out, l, s, wide, &out->steps[s]))
            return 0;
    return 1;
}

dv_pattern *dv_pattern_of(const dv_kloop *l, const dv_gen *g, dv_pattern *room)
{
    dv_patterns *all = g->code->keep;
    dv_pattern *p = room;
    uint64_t key = key_of(l, g), *at = NULL;
    for (uint64_t i = 0; all && i < all->made && i < DV_PATTERNS; i++)
        if (all->keys[i] == key)
            return &all->at[i];
    if (all) {
        p = &all->at[all->made % DV_PATTERNS];
        at = &all->keys[all->made++ % DV_PATTERNS];
        *at = key;
    }
    if (!make(p, l, g)) {
        g->code->failed = 1;
        if (at)
            // The pattern could not be made, so its entry of the cache is
            // marked unused.
            *at = 0;
    }
    return p;
}
