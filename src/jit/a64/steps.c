// Writes the steps of a loop over k: the multiply-adds of the loop's pattern
// (pattern.c), with the loads that are due between them.
#include "jit/a64/kloop.h"
#include <limits.h>

// Prefetches a later row of V, the operand read as vectors (usually B), while V
// is packed. Unpacked rows of V are far apart, so the hardware prefetcher does
// not detect a stream.
static void prefetch_v(const dv_kloop *l, dv_gen *g)
{
    for (int off = 0; off < l->t->cols * g->es; off += 64)
        DV_E(prfm, LOAD_L1, X_SOON, off, 0);
    dv_tile_step(g, X_SOON, l->p->ld_v, X_LDB);
}

// Returns whether a step of k belongs to the next product of the batch, because
// an iteration of the loop is a whole product.
static int in_next(const dv_kloop *l, int step)
{
    return l->flows && step >= l->base + l->unroll;
}

static void load_v(const dv_kloop *l, dv_gen *g, int v, int step, int j)
{
    const dv_prod_tile *t = l->t;
    int bytes = dv_tile_bytes(g, t), odd = l->odd && j == t->nv - 1;
    int64_t at = dv_tile_off(g, t, j), off = odd ? 0 : at;
    if (!l->walk_v)
        off += (step - l->base) * l->p->ld_v;
    if (in_next(l, step))
        off += l->hop_v;
    dv_gen_load(g, v, odd ? X_ODD : l->flat ? X_B : X_BRUN, off, bytes);
    if (l->p->pack_v)
        dv_gen_store(g, v, X_VPACK, at + (step - l->base) * l->p->pack_v,
                     bytes);
    if (l->walk_v && j == t->nv - 1)
        dv_tile_step(g, X_BRUN, l->p->ld_v, X_LDB);
    if (l->p->pack_v && j == t->nv - 1)
        prefetch_v(l, g);
}

// Stores two adjacent rows of the operand read as scalars (usually A) into its
// packed panel with one instruction, when the second row has been loaded. A
// last row without a partner is stored alone.
static void pack_row(const dv_kloop *l, dv_gen *g, int v, int group, int row,
                     int64_t to)
{
    // Offsets of FAR bytes and more do not fit a store of two registers.
    enum { FAR = 1024 };
    int two = row & 1, last = row == l->t->rows - 1;
    int before = (group * l->s.per + row - two) % l->s.size;
    int reg = dv_gen_reg(l->s.first + before);
    if (two && to < FAR) {
        DV_E(stp_q, reg, v, X_SPACK, to - 16);
        return;
    }
    if (two)
        dv_gen_store(g, reg, X_SPACK, to - 16, 16);
    if (two || last)
        dv_gen_store(g, v, X_SPACK, to, 16);
}

// Loads one vector of S, the operand read as scalars (usually A), if S is
// stored as rows of k: the elements of one row for `lanes` steps.
static void load_s_k(const dv_kloop *l, dv_gen *g, int v, int group, int row)
{
    int lanes = g->lanes, first = group * lanes, bytes = 16;
    int64_t q = group - l->base / lanes, packed = (q * l->t->rows + row) * 16;
    if (l->p->panel) {
        dv_gen_load(g, v, X_ROW, packed, 16);
        return;
    }
    // If the last vector of a row has fewer than `lanes` elements, it overlaps
    // the vector before it, or is loaded as a partial vector.
    if (first + lanes > l->steps) {
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
        pack_row(l, g, v, group, row, packed);
}

// Loads one vector of S, the operand read as scalars (usually A), if S is
// stored as rows of m: the elements of `lanes` rows of the tile for one step.
static void load_s_m(const dv_kloop *l, dv_gen *g, int v, int step, int i)
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
    dv_tile_prefetch_s(g, l->p, l->flat ? X_A : X_ROW, off, step);
    if (l->p->pack_s)
        dv_gen_store(g, v, X_SPACK, to, bytes);
    if (l->walk_s && i == l->s.per - 1)
        dv_tile_step(g, X_ROW, l->p->ld_s, X_LDA);
}

static void load_s(const dv_kloop *l, dv_gen *g, int v, int group, int i)
{
    if (l->p->pairs)
        dv_gen_load(g, v, X_ROW, (group - l->base) * l->p->ld_s + 16 * i, 16);
    else if (l->p->lane_k)
        load_s_k(l, g, v, group, i);
    else
        load_s_m(l, g, v, group, i);
}

// Returns whether a step of k fits the code buffer, since its words are copied
// without further checks. OTHERS bytes more are reserved for its loads, which
// check the buffer themselves.
static int has_room(dv_code *code)
{
    enum { OTHERS = 4096 };
    if (code->cap - code->n < 4 * DV_STEP_WORDS + OTHERS)
        code->failed = 1;
    return !code->failed;
}

// Emits one load, unless its group (the loads that one step of k needs) is
// before the first or after the last step. here[] holds the numbers of the
// current groups: of the operand read as vectors, and of the one read as
// scalars.
static void put_load(dv_steps *w, const dv_sched_load *d, const int *here)
{
    int group = here[d->is_s] + d->ahead - 1;
    if (group < 0 || group >= w->groups[d->is_s])
        return;
    if (d->is_s)
        load_s(w->l, w->g, d->reg, group, d->i);
    else
        load_v(w->l, w->g, d->reg, group, d->i);
}

// Emits the loads of one operand (the one read as scalars if is_s, else the one
// read as vectors) that are due before the first step of k.
static void emit_early_loads(dv_steps *w, int is_s, const dv_ring *r,
                             const int *slot)
{
    static const int first[2] = {0, 0};
    for (int i = 0; i < r->per && slot[i] < 0; i++) {
        int reg = dv_gen_reg(r->first + i % r->size);
        put_load(
            w, &(dv_sched_load){0, (uint8_t)i, (uint8_t)reg, 1, (uint8_t)is_s},
            first);
    }
}

// Copies n instruction words to the code, four at a time, each combined with
// `with` by exclusive or, which changes all of them alike (see change()).
static void put_words(dv_code *code, const uint32_t *words, int n,
                      uint32_t with)
{
    unsigned char *to = code->at + code->n;
    for (int i = 0; i < n; i += 4, to += 16) {
        uint32_t four[4];
        for (int q = 0; q < 4; q++)
            four[q] = dv_code_little_endian(words[i + q] ^ with);
        memcpy(to, four, sizeof four);
    }
    code->n += 4 * (size_t)n;
}

// Emits a step of k: the words of its multiply-adds, with the loads between
// them.
static void put_parts(dv_steps *w, const dv_step *p, const int *here,
                      uint32_t with)
{
    int at = 0;
    for (int i = 0; i < p->n_due; i++) {
        const dv_sched_load *d = &p->due[i];
        put_words(w->g->code, p->words + at, d->at - at, with);
        at = d->at + 1;
        put_load(w, d, here);
    }
    put_words(w->g->code, p->words + at, p->n - at, with);
}

// Advances one row pointer of the operand read as scalars: the first one whose
// bit in `moved` is not set and from which the step has no more loads, counting
// from load number `due` of the step on. Returns the bit of its row; 0 if there
// is none.
static uint32_t move_row(dv_steps *w, const dv_step *p, uint32_t moved, int due)
{
    for (int i = due; i < p->n_due; i++)
        if (p->due[i].is_s)
            moved |= 1u << p->due[i].i;
    for (int i = 0; i < w->l->t->rows; i++)
        if (!(moved >> i & 1)) {
            dv_gen_add(w->g, X_ROW + i, X_ROW + i, w->l->unroll * w->g->es);
            return 1u << i;
        }
    return 0;
}

// Emits the last step of an iteration of the loop over k, with the increments
// of the row pointers of the operand read as scalars between the multiply-adds.
// All increments together would take a cycle without any multiply-add.
static void put_moving(dv_steps *w, const dv_step *p, const int *here,
                       uint32_t with)
{
    int due = 0;
    uint32_t moved = 0;
    for (int at = 0, n = 0; at < p->n; at++) {
        if (due < p->n_due && p->due[due].at == at) {
            put_load(w, &p->due[due++], here);
            continue;
        }
        dv_code_put(w->g->code, p->words[at] ^ with);
        if (++n % 4 == 0)
            moved |= move_row(w, p, moved, due);
    }
    // Advance the row pointers of the operand read as scalars that have not
    // been advanced between the multiply-adds.
    for (int i = 0; i < w->l->t->rows; i++)
        moved |= move_row(w, p, moved, due);
}

// Emits the last step of a tile row by row. Meanwhile the sums of the previous
// row, or of the one before that (dv_tile_store_lag), are finished and stored.
static void put_last(dv_steps *w, const dv_step *p, const int *here,
                     uint32_t with)
{
    const dv_prod_tile *t = w->l->t;
    const dv_sched_load *d = p->due, *end = d + p->n_due;
    dv_code *code = w->g->code;
    int lag = dv_tile_store_lag(w->l->p);
    if (w->l->p->relu)
        dv_emit(code, DV_INSN_movi_0, w->l->free.reg[0], 0, 0, 0);
    for (int i = 0, at = 0; i < t->rows; i++)
        for (int j = 0; j < t->nv; j++) {
            int done = i - lag;
            if (done >= 0 && j == 0)
                dv_tile_finish_row(w->g, w->l->p, t, done, &w->l->free);
            for (; d < end && d->at == at; d++, at++)
                put_load(w, d, here);
            dv_code_put(code, p->words[at++] ^ with);
            if (done >= 0)
                dv_tile_store_one(w->g, t, done, j);
        }
}

// Returns the bits by which the multiply-adds of step s differ from those of
// the loop's pattern (the prepared steps), to be combined by exclusive or: the
// first steps multiply instead of adding, and if the last vector of a row of k
// overlaps the one before it, its lanes are shifted.
static uint32_t change(const dv_steps *w, int s)
{
    const dv_kloop *l = w->l;
    int group = w->p->group, lane = l->p->lane_k ? s & (group - 1) : 0;
    int to = s < w->shift_from ? lane : lane + group - (l->steps & (group - 1));
    return w->p->ops[s < w->fresh][to] ^ w->p->ops[0][lane];
}

// Makes a step of k that is not among the prepared steps of the loop's pattern:
// because registers repeat only after more steps than the pattern holds, or
// because it is the last step, which is written row by row.
static const dv_step *other_step(dv_steps *w, int s, dv_step *room)
{
    const dv_kloop *l = w->l;
    int wide = l->by_col && s < l->steps - 1 ? l->by_col : l->t->nv;
    if (!dv_pattern_step(w->p, l, s, wide, room))
        w->g->code->failed = 1;
    return room;
}

int dv_steps_advances_rows(const dv_kloop *l)
{
    return l->p->lane_k && !l->p->panel && !l->p->pack_s && !l->flows;
}

void dv_steps_start(dv_steps *w, dv_kloop *l, dv_gen *g, int fresh)
{
    w->l = l;
    w->g = g;
    w->p = dv_pattern_of(l, g, &w->room);
    w->groups[0] = l->steps;
    w->groups[1] = (l->steps + l->group - 1) / l->group;
    w->fresh = fresh;
    w->moving =
        l->turns && dv_steps_advances_rows(l) ? l->first + l->unroll - 1 : -1;
    w->shift_from = INT_MAX;
    if (l->p->lane_k && !l->p->panel && !l->p->pack_s && l->steps >= l->group)
        w->shift_from = l->steps & -l->group;
    l->base = 0;
    emit_early_loads(w, 0, &l->v, w->p->slot_v);
    emit_early_loads(w, 1, &l->s, w->p->slot_s);
}

void dv_steps_put(dv_steps *w, int begin, int end)
{
    const dv_kloop *l = w->l;
    const dv_pattern *p = w->p;
    int every = l->p->prefetch_every;
    for (int s = begin; s < end; s++) {
        int here[2] = {s, s / p->group}, last = s == l->steps - 1;
        uint32_t with = s < w->fresh || s >= w->shift_from ? change(w, s) : 0;
        dv_step room;
        const dv_step *one = !p->period || (last && l->by_col)
                                 ? other_step(w, s, &room)
                                 : &p->steps[s % p->period];
        if (every && s % every == 0)
            dv_tile_prefetch_next(w->g, l->p, l->t);
        if (l->p->copy_steps && !l->base)
            dv_tile_copy_next(w->g, l->p, s, l->unroll);
        if (!has_room(w->g->code))
            return;
        if (last && l->stores)
            put_last(w, one, here, with);
        else if (s == w->moving)
            put_moving(w, one, here, with);
        else
            put_parts(w, one, here, with);
    }
}
